// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-keep-blocks | FileCheck %s

// A table whose rows are looked up, and multiplied with as the last matrix.
// CHECK-LABEL: @tied
// CHECK: %[[W:.*]] = tx.parameter "w" {blocks = "Q8_0", scope = ""} : tensor<10x68xui8>
// CHECK: %[[G:.*]] = tx.gather %[[W]], %{{.*}} {axis = 0 : i64, blocks = "Q8_0"} : tensor<10x68xui8>, tensor<3xi64> -> tensor<3x64xf32>
// CHECK-NOT: tx.transpose
// CHECK: tx.matmul %[[G]], %[[W]] {blocks = "Q8_0", transpose_rhs} : tensor<3x64xf32>, tensor<10x68xui8> -> tensor<3x10xf32>
func.func @tied(%i: tensor<3xi64>) -> tensor<3x10xf32> {
  %w = tx.parameter "w" {scope = "", blocks = "Q8_0"} : tensor<10x64xf32>
  %g = tx.gather %w, %i {axis = 0 : i64} : tensor<10x64xf32>, tensor<3xi64> -> tensor<3x64xf32>
  %t = tx.transpose %w {permutation = array<i64: 1, 0>} : tensor<10x64xf32> -> tensor<64x10xf32>
  %0 = tx.matmul %g, %t : tensor<3x64xf32>, tensor<64x10xf32> -> tensor<3x10xf32>
  return %0 : tensor<3x10xf32>
}

// -----

// Blocks go along the columns that are multiplied with; those of a matrix that is not transposed do not.
// CHECK-LABEL: @across
// CHECK: tx.parameter "w" {blocks = "Q8_0", scope = ""} : tensor<64x32xf32>
// CHECK: tx.matmul {{.*}} : tensor<3x64xf32>, tensor<64x32xf32> -> tensor<3x32xf32>
func.func @across(%x: tensor<3x64xf32>) -> tensor<3x32xf32> {
  %w = tx.parameter "w" {scope = "", blocks = "Q8_0"} : tensor<64x32xf32>
  %0 = tx.matmul %x, %w : tensor<3x64xf32>, tensor<64x32xf32> -> tensor<3x32xf32>
  return %0 : tensor<3x32xf32>
}

// -----

// One parameter has one form, in all functions.
// CHECK-LABEL: @product
// CHECK: tx.parameter "w" {blocks = "Q4_K", scope = "a"} : tensor<10x256xf32>
// CHECK-LABEL: @sum
// CHECK: tx.parameter "w" {blocks = "Q4_K", scope = "a"} : tensor<10x256xf32>
func.func @product(%x: tensor<3x256xf32>) -> tensor<3x10xf32> {
  %w = tx.parameter "w" {scope = "a", blocks = "Q4_K"} : tensor<10x256xf32>
  %0 = tx.matmul %x, %w {transpose_rhs} : tensor<3x256xf32>, tensor<10x256xf32> -> tensor<3x10xf32>
  return %0 : tensor<3x10xf32>
}
func.func @sum(%x: tensor<10x256xf32>) -> tensor<10x256xf32> {
  %w = tx.parameter "w" {scope = "a", blocks = "Q4_K"} : tensor<10x256xf32>
  %0 = tx.add %x, %w : tensor<10x256xf32>
  return %0 : tensor<10x256xf32>
}

// -----

// No kernel reads these blocks.
// CHECK-LABEL: @unknown
// CHECK: tx.parameter "w" {blocks = "IQ4_NL", scope = ""} : tensor<10x64xf32>
func.func @unknown(%i: tensor<3xi64>) -> tensor<3x64xf32> {
  %w = tx.parameter "w" {scope = "", blocks = "IQ4_NL"} : tensor<10x64xf32>
  %g = tx.gather %w, %i {axis = 0 : i64} : tensor<10x64xf32>, tensor<3xi64> -> tensor<3x64xf32>
  return %g : tensor<3x64xf32>
}
