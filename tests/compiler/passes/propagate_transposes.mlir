// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-propagate-transposes -canonicalize | FileCheck %s

// Between two image ops nothing is moved; a constant channel vector is read along the last dimension.
// CHECK-LABEL: @through_elementwise
// CHECK-SAME: %[[X:.*]]: tensor<1x5x6x8xf32>
// CHECK: %[[B:.*]] = tx.parameter "b"
// CHECK: %[[BB:.*]] = tx.broadcast %[[B]] {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x5x6x8xf32>
// CHECK: %[[A:.*]] = tx.add %[[X]], %[[BB]]
// CHECK: %[[R:.*]] = tx.relu %[[A]] : tensor<1x5x6x8xf32>
// CHECK-NOT: tx.transpose
// CHECK: return %[[R]]
func.func @through_elementwise(%x: tensor<1x5x6x8xf32>) -> tensor<1x5x6x8xf32> {
  %b = tx.parameter "b" : tensor<8xf32>
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8x5x6xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<1x8x5x6xf32>
  %1 = tx.add %0, %bb : tensor<1x8x5x6xf32>
  %2 = tx.relu %1 : tensor<1x8x5x6xf32>
  %3 = tx.transpose %2 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x8x5x6xf32> -> tensor<1x5x6x8xf32>
  return %3 : tensor<1x5x6x8xf32>
}

// -----

// A factor for each channel that is computed, as by squeeze and excitation, is read along the last dimension, too.
// CHECK-LABEL: @through_computed_factors
// CHECK-SAME: %[[X:.*]]: tensor<2x5x6x8xf32>, %[[F:.*]]: tensor<2x8x1x1xf32>
// CHECK: %[[R:.*]] = tx.reshape %[[F]] : tensor<2x8x1x1xf32> -> tensor<2x8xf32>
// CHECK: %[[B:.*]] = tx.broadcast %[[R]] {dimensions = array<i64: 0, 3>} : tensor<2x8xf32> -> tensor<2x5x6x8xf32>
// CHECK: %[[M:.*]] = tx.mul %[[X]], %[[B]]
// CHECK-NOT: tx.transpose
// CHECK: return %[[M]]
func.func @through_computed_factors(%x: tensor<2x5x6x8xf32>, %f: tensor<2x8x1x1xf32>) -> tensor<2x5x6x8xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<2x5x6x8xf32> -> tensor<2x8x5x6xf32>
  %b = tx.broadcast %f {dimensions = array<i64: 0, 1, 2, 3>} : tensor<2x8x1x1xf32> -> tensor<2x8x5x6xf32>
  %1 = tx.mul %0, %b : tensor<2x8x5x6xf32>
  %2 = tx.transpose %1 {permutation = array<i64: 0, 2, 3, 1>} : tensor<2x8x5x6xf32> -> tensor<2x5x6x8xf32>
  return %2 : tensor<2x5x6x8xf32>
}

// -----

// Positions that are added to each head of attention are not moved to where the heads were: attention reads the transposed operand.
// CHECK-LABEL: @keeps_heads
// CHECK: tx.transpose
// CHECK: tx.mul
func.func @keeps_heads(%x: tensor<2x5x4x8xf32>, %f: tensor<5x8xf32>) -> tensor<2x4x5x8xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x5x4x8xf32> -> tensor<2x4x5x8xf32>
  %b = tx.broadcast %f {dimensions = array<i64: 2, 3>} : tensor<5x8xf32> -> tensor<2x4x5x8xf32>
  %1 = tx.mul %0, %b : tensor<2x4x5x8xf32>
  return %1 : tensor<2x4x5x8xf32>
}

// -----

// One value repeated stays that, whatever its layout.
// CHECK-LABEL: @keeps_splats
// CHECK: %[[S:.*]] = tx.constant dense<5.000000e-01> : tensor<1x5x6x8xf32>
// CHECK: %[[M:.*]] = tx.mul %{{.*}}, %[[S]] : tensor<1x5x6x8xf32>
// CHECK: tx.add %[[M]], %[[S]] : tensor<1x5x6x8xf32>
func.func @keeps_splats(%x: tensor<1x5x6x8xf32>) -> tensor<1x5x6x8xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8x5x6xf32>
  %s = tx.constant dense<0.5> : tensor<1x8x5x6xf32>
  %c = tx.constant dense<0.5> : tensor<f32>
  %cc = tx.broadcast %c {dimensions = array<i64>} : tensor<f32> -> tensor<1x8x5x6xf32>
  %1 = tx.mul %0, %s : tensor<1x8x5x6xf32>
  %2 = tx.add %1, %cc : tensor<1x8x5x6xf32>
  %3 = tx.transpose %2 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x8x5x6xf32> -> tensor<1x5x6x8xf32>
  return %3 : tensor<1x5x6x8xf32>
}

// -----

// Channels meet on the last axis instead of the second.
// CHECK-LABEL: @through_concat
// CHECK-NOT: tx.transpose
// CHECK: tx.concat %{{.*}}, %{{.*}} {axis = 3 : i64}
// CHECK-NOT: tx.transpose
// CHECK: return
func.func @through_concat(%x: tensor<1x5x6x8xf32>, %y: tensor<1x5x6x4xf32>) -> tensor<1x5x6x12xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8x5x6xf32>
  %1 = tx.transpose %y {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x4xf32> -> tensor<1x4x5x6xf32>
  %2 = tx.concat %0, %1 {axis = 1 : i64} : tensor<1x8x5x6xf32>, tensor<1x4x5x6xf32> -> tensor<1x12x5x6xf32>
  %3 = tx.transpose %2 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x12x5x6xf32> -> tensor<1x5x6x12xf32>
  return %3 : tensor<1x5x6x12xf32>
}

// -----

// A channel shuffle becomes one transpose of the two halves of the channels.
// CHECK-LABEL: @shuffle
// CHECK: %[[S:.*]] = tx.reshape %{{.*}} : tensor<1x5x6x8xf32> -> tensor<1x5x6x2x4xf32>
// CHECK: %[[T:.*]] = tx.transpose %[[S]] {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK: %[[R:.*]] = tx.reshape %[[T]] : tensor<1x5x6x4x2xf32> -> tensor<1x5x6x8xf32>
// CHECK: return %[[R]]
func.func @shuffle(%x: tensor<1x5x6x8xf32>) -> tensor<1x5x6x8xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8x5x6xf32>
  %1 = tx.reshape %0 : tensor<1x8x5x6xf32> -> tensor<1x2x4x5x6xf32>
  %2 = tx.transpose %1 {permutation = array<i64: 0, 2, 1, 3, 4>} : tensor<1x2x4x5x6xf32> -> tensor<1x4x2x5x6xf32>
  %3 = tx.reshape %2 : tensor<1x4x2x5x6xf32> -> tensor<1x8x5x6xf32>
  %4 = tx.transpose %3 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x8x5x6xf32> -> tensor<1x5x6x8xf32>
  return %4 : tensor<1x5x6x8xf32>
}

// -----

// Over one pixel, the transpose before a flatten moves nothing.
// CHECK-LABEL: @flatten_pixel
// CHECK-NOT: tx.transpose
// CHECK: tx.reshape %{{.*}} : tensor<1x1x1x8xf32> -> tensor<1x8xf32>
func.func @flatten_pixel(%x: tensor<1x1x1x8xf32>) -> tensor<1x8xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x1x1x8xf32> -> tensor<1x8x1x1xf32>
  %1 = tx.reshape %0 : tensor<1x8x1x1xf32> -> tensor<1x8xf32>
  return %1 : tensor<1x8xf32>
}

// -----

// Over several pixels, it does, and stays.
// CHECK-LABEL: @flatten_pixels
// CHECK: tx.transpose
// CHECK: tx.reshape
func.func @flatten_pixels(%x: tensor<1x2x3x8xf32>) -> tensor<1x48xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x2x3x8xf32> -> tensor<1x8x2x3xf32>
  %1 = tx.reshape %0 : tensor<1x8x2x3xf32> -> tensor<1x48xf32>
  return %1 : tensor<1x48xf32>
}

// -----

// CHECK-LABEL: @reduce
// CHECK: tx.reduce mean %{{.*}} {axes = array<i64: 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8xf32>
// CHECK-NOT: tx.transpose
func.func @reduce(%x: tensor<1x5x6x8xf32>) -> tensor<1x8xf32> {
  %0 = tx.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x5x6x8xf32> -> tensor<1x8x5x6xf32>
  %1 = tx.reduce mean %0 {axes = array<i64: 2, 3>} : tensor<1x8x5x6xf32> -> tensor<1x8xf32>
  return %1 : tensor<1x8xf32>
}
