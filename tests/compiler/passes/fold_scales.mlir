// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-fold-scales | FileCheck %s

// A factor behind a convolution with its bias goes into the filter, and into the bias.
// CHECK-LABEL: @scale_after_bias
// CHECK-DAG: %[[W:.*]] = tx.parameter "w"
// CHECK-DAG: %[[B:.*]] = tx.parameter "b"
// CHECK-DAG: %[[S:.*]] = tx.parameter "s"
// CHECK-DAG: %[[BS:.*]] = tx.mul %[[B]], %[[S]]
// CHECK-DAG: %[[SW:.*]] = tx.broadcast %[[S]] {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x1x4x8xf32>
// CHECK-DAG: %[[WS:.*]] = tx.mul %[[W]], %[[SW]]
// CHECK: %[[C:.*]] = tx.conv %{{.*}}, %[[WS]]
// CHECK: %[[R:.*]] = tx.add %[[C]], %{{.*}}
// CHECK: return %[[R]]
func.func @scale_after_bias(%x: tensor<1x4x4x4xf32>) -> tensor<1x4x4x8xf32> {
  %w = tx.parameter "w" : tensor<1x1x4x8xf32>
  %b = tx.parameter "b" : tensor<8xf32>
  %s = tx.parameter "s" : tensor<8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %sb = tx.broadcast %s {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x4xf32>, tensor<1x1x4x8xf32> -> tensor<1x4x4x8xf32>
  %1 = tx.add %0, %bb : tensor<1x4x4x8xf32>
  %2 = tx.mul %1, %sb : tensor<1x4x4x8xf32>
  return %2 : tensor<1x4x4x8xf32>
}

// -----

// A convolution that somebody else reads keeps its filter.
// CHECK-LABEL: @two_users
// CHECK: %[[W:.*]] = tx.parameter "w"
// CHECK: tx.conv %{{.*}}, %[[W]]
// CHECK: tx.mul
func.func @two_users(%x: tensor<1x4x4x4xf32>) -> (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) {
  %w = tx.parameter "w" : tensor<1x1x4x8xf32>
  %s = tx.parameter "s" : tensor<8xf32>
  %sb = tx.broadcast %s {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x4xf32>, tensor<1x1x4x8xf32> -> tensor<1x4x4x8xf32>
  %1 = tx.mul %0, %sb : tensor<1x4x4x8xf32>
  return %0, %1 : tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>
}

// -----

// A factor that is not constant stays.
// CHECK-LABEL: @dynamic_factor
// CHECK: tx.conv
// CHECK: tx.mul
func.func @dynamic_factor(%x: tensor<1x4x4x4xf32>, %s: tensor<8xf32>) -> tensor<1x4x4x8xf32> {
  %w = tx.parameter "w" : tensor<1x1x4x8xf32>
  %sb = tx.broadcast %s {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x4xf32>, tensor<1x1x4x8xf32> -> tensor<1x4x4x8xf32>
  %1 = tx.mul %0, %sb : tensor<1x4x4x8xf32>
  return %1 : tensor<1x4x4x8xf32>
}
