// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-hoist-constants | FileCheck %s

// One zero point for all columns is repeated at load, since no contraction does that itself.
// CHECK-LABEL: func.func @main
// CHECK-NOT: tx.broadcast
// CHECK: %[[Z:.*]] = tx.parameter "derived.0" : tensor<8xf32>
// CHECK: tx.matmul %{{.*}}, %{{.*}}, zero %[[Z]]
// CHECK-LABEL: @"$init"
// CHECK: tx.broadcast %{{.*}} : tensor<f32> -> tensor<8xf32>
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = tx.parameter "w" : tensor<16x8xi8>
  %z = tx.parameter "z" : tensor<f32>
  %0 = tx.broadcast %z {dimensions = array<i64>} : tensor<f32> -> tensor<8xf32>
  %1 = tx.matmul %x, %w, zero %0 : tensor<4x16xf32>, tensor<16x8xi8>, tensor<8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
