// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-pack-weights -heddle-hoist-constants | FileCheck %s

// Quantized weights are packed as they are stored. What would widen them is computed in each call, and vectors are not weights.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[Z:.*]] = tx.parameter "derived.0" : tensor<8xf32>
// CHECK-DAG: %[[P:.*]] = tx.parameter "derived.1" : tensor<256xi8>
// CHECK-DAG: tx.matmul %{{.*}}, %[[P]], zero %[[Z]] {packed_shape = array<i64: 16, 8>}
// CHECK-DAG: %[[W:.*]] = tx.parameter "v" : tensor<4x8xi8>
// CHECK: tx.cast %[[W]] : tensor<4x8xi8> -> tensor<4x8xf32>
// CHECK-LABEL: @"$init"
// CHECK: tx.cast %{{.*}} : tensor<8xi8> -> tensor<8xf32>
// CHECK: tx.pack %{{.*}} : tensor<16x8xi8> -> tensor<256xi8>
// CHECK-NOT: tensor<4x8
module attributes {tx.families = ["cpu"]} {
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = tx.parameter "w" : tensor<16x8xi8>
  %z = tx.parameter "z" : tensor<8xi8>
  %0 = tx.cast %z : tensor<8xi8> -> tensor<8xf32>
  %1 = tx.matmul %x, %w, zero %0 : tensor<4x16xf32>, tensor<16x8xi8>, tensor<8xf32> -> tensor<4x8xf32>
  %v = tx.parameter "v" : tensor<4x8xi8>
  %2 = tx.cast %v : tensor<4x8xi8> -> tensor<4x8xf32>
  %3 = tx.add %1, %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
}
