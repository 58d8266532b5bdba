// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that are computed in parts.
// RUN: heddle-opt %s --heddle-divide-folds --split-input-file | FileCheck %s

// 16 results keep a CPU busy. The parts of the square are computed with their sums.
// CHECK-LABEL: @norm
// CHECK: %[[PARTS:.*]] = tx.reshape %arg0 : tensor<1048576xf32> -> tensor<16x65536xf32>
// CHECK: %[[SQUARES:.*]] = tx.mul %[[PARTS]], %[[PARTS]]
// CHECK: %[[SUMS:.*]] = tx.reduce sum %[[SQUARES]] {axes = array<i64: 1>} : tensor<16x65536xf32> -> tensor<16xf32>
// CHECK: %[[ALL:.*]] = tx.reduce sum %[[SUMS]] {axes = array<i64: 0>} : tensor<16xf32> -> tensor<f32>
// CHECK: tx.sqrt %[[ALL]]
module attributes {tx.families = ["cpu"]} {
func.func @norm(%x: tensor<1048576xf32>) -> tensor<f32> {
  %0 = tx.mul %x, %x : tensor<1048576xf32>
  %1 = tx.reduce sum %0 {axes = array<i64: 0>} : tensor<1048576xf32> -> tensor<f32>
  %2 = tx.sqrt %1 : tensor<f32>
  return %2 : tensor<f32>
}
}

// -----

// Four results need four parts each. What is broadcast along the divided dimension is so along both, and f16 is summed up in f32.
// CHECK-LABEL: @mean
// CHECK-DAG: %[[PARTS:.*]] = tx.reshape %arg0 : tensor<256x4x512xf16> -> tensor<4x64x4x512xf16>
// CHECK-DAG: %[[ROWS:.*]] = tx.broadcast %arg1 {dimensions = array<i64: 3>} : tensor<512xf16> -> tensor<4x64x4x512xf16>
// CHECK: %[[SUM:.*]] = tx.add %[[PARTS]], %[[ROWS]]
// CHECK: %[[WIDE:.*]] = tx.cast %[[SUM]]
// CHECK: %[[MEANS:.*]] = tx.reduce mean %[[WIDE]] {axes = array<i64: 1, 3>} : tensor<4x64x4x512xf32> -> tensor<4x4xf32>
// CHECK: %[[ALL:.*]] = tx.reduce mean %[[MEANS]] {axes = array<i64: 0>} : tensor<4x4xf32> -> tensor<4xf32>
// CHECK: tx.cast %[[ALL]] : tensor<4xf32> -> tensor<4xf16>
module attributes {tx.families = ["cpu"]} {
func.func @mean(%x: tensor<256x4x512xf16>, %row: tensor<512xf16>) -> tensor<4xf16> {
  %0 = tx.broadcast %row {dimensions = array<i64: 2>} : tensor<512xf16> -> tensor<256x4x512xf16>
  %1 = tx.add %x, %0 : tensor<256x4x512xf16>
  %2 = tx.reduce mean %1 {axes = array<i64: 0, 2>} : tensor<256x4x512xf16> -> tensor<4xf16>
  return %2 : tensor<4xf16>
}
}

// -----

// A CPU computes 128 neighbors at a time, so 200 of them need eight parts each.
// CHECK-LABEL: @columns
// CHECK: %[[PARTS:.*]] = tx.reshape %arg0 : tensor<768x48x200xf32> -> tensor<8x96x48x200xf32>
// CHECK: %[[SUMS:.*]] = tx.reduce sum %[[PARTS]] {axes = array<i64: 1, 2>} : tensor<8x96x48x200xf32> -> tensor<8x200xf32>
// CHECK: tx.reduce sum %[[SUMS]] {axes = array<i64: 0>} : tensor<8x200xf32> -> tensor<200xf32>
module attributes {tx.families = ["cpu"]} {
func.func @columns(%x: tensor<768x48x200xf32>) -> tensor<200xf32> {
  %0 = tx.reduce sum %x {axes = array<i64: 0, 1>} : tensor<768x48x200xf32> -> tensor<200xf32>
  return %0 : tensor<200xf32>
}
}

// -----

// A workgroup of a GPU computes 32 neighbors, so 64 of them need 128 parts each, of which the longest dimension gives 112.
// CHECK-LABEL: @channels
// CHECK: %[[PARTS:.*]] = tx.reshape %arg0 : tensor<32x112x112x64xf32> -> tensor<32x112x1x112x64xf32>
// CHECK: %[[SUMS:.*]] = tx.reduce sum %[[PARTS]] {axes = array<i64: 0, 2, 3>} : tensor<32x112x1x112x64xf32> -> tensor<112x64xf32>
// CHECK: tx.reduce sum %[[SUMS]] {axes = array<i64: 0>} : tensor<112x64xf32> -> tensor<64xf32>
module attributes {tx.families = ["cuda"]} {
func.func @channels(%x: tensor<32x112x112x64xf32>) -> tensor<64xf32> {
  %0 = tx.reduce sum %x {axes = array<i64: 0, 1, 2>} : tensor<32x112x112x64xf32> -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
}

// -----

// Too short to be worth it, of enough results, of a number of elements that nothing divides, of integers whose mean is truncated, of unknown length.
// CHECK-LABEL: @whole
// CHECK-NOT: tx.reshape
// CHECK-COUNT-5: tx.reduce
module attributes {tx.families = ["cpu"]} {
func.func @whole(%a: tensor<20000xf32>, %b: tensor<16x65536xf32>, %c: tensor<1000003xf32>, %d: tensor<1048576xi32>, %e: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>)
    -> (tensor<f32>, tensor<16xf32>, tensor<f32>, tensor<i32>, tensor<f32>) attributes {tx.symbols = ["n"]} {
  %0 = tx.reduce sum %a {axes = array<i64: 0>} : tensor<20000xf32> -> tensor<f32>
  %1 = tx.reduce max %b {axes = array<i64: 1>} : tensor<16x65536xf32> -> tensor<16xf32>
  %2 = tx.reduce sum %c {axes = array<i64: 0>} : tensor<1000003xf32> -> tensor<f32>
  %3 = tx.reduce mean %d {axes = array<i64: 0>} : tensor<1048576xi32> -> tensor<i32>
  %4 = tx.reduce sum %e {axes = array<i64: 0>} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>> -> tensor<f32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<16xf32>, tensor<f32>, tensor<i32>, tensor<f32>
}
}
