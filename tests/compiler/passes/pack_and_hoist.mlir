// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-pack-weights -heddle-hoist-constants | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = tx.parameter "derived.0" : tensor<128xf32>
// CHECK: tx.conv %{{.*}}, %[[P]] {{.*}}packed_shape = array<i64: 1, 1, 8, 4>
// CHECK: %[[M:.*]] = tx.parameter "derived.1" : tensor<128xf32>
// CHECK: tx.matmul %{{.*}}, %[[M]] {packed_shape = array<i64: 4, 20>}

// CHECK-LABEL: func.func @"$init"() -> (tensor<128xf32> {tx.name = "derived.0"}, tensor<128xf32> {tx.name = "derived.1"})
// CHECK: %[[W:.*]] = tx.parameter "w"
// CHECK: %[[PW:.*]] = tx.pack %[[W]] {groups = 1 : i64} : tensor<1x1x8x4xf32> -> tensor<128xf32>
// CHECK: %[[R:.*]] = tx.parameter "r"
// CHECK: %[[T:.*]] = tx.transpose %[[R]] {permutation = array<i64: 1, 0>} : tensor<20x4xf32> -> tensor<4x20xf32>
// CHECK: %[[PR:.*]] = tx.pack %[[T]] {groups = 1 : i64} : tensor<4x20xf32> -> tensor<128xf32>
// CHECK: return %[[PW]], %[[PR]]
module attributes {tx.families = ["cpu"]} {
func.func @main(%x: tensor<1x3x3x8xf32>) -> tensor<9x20xf32> {
  %w = tx.parameter "w" : tensor<1x1x8x4xf32>
  %r = tx.parameter "r" : tensor<20x4xf32>
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x3x3x8xf32>, tensor<1x1x8x4xf32> -> tensor<1x3x3x4xf32>
  %1 = tx.reshape %0 : tensor<1x3x3x4xf32> -> tensor<9x4xf32>
  %2 = tx.matmul %1, %r {transpose_rhs} : tensor<9x4xf32>, tensor<20x4xf32> -> tensor<9x20xf32>
  return %2 : tensor<9x20xf32>
}
}
