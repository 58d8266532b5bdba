// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-decompose-batch-norm | FileCheck %s

// CHECK-LABEL: @main
// CHECK-SAME: %[[X:.*]]: tensor<1x4x4x8xf32>, %[[S:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>, %[[M:.*]]: tensor<8xf32>, %[[V:.*]]: tensor<8xf32>
// CHECK: %[[E:.*]] = tx.constant dense<1.000000e-03>
// CHECK: %[[SHIFTED:.*]] = tx.add %[[V]], %[[E]]
// CHECK: %[[DEVIATION:.*]] = tx.sqrt %[[SHIFTED]]
// CHECK: %[[F:.*]] = tx.div %[[S]], %[[DEVIATION]]
// CHECK: %[[MF:.*]] = tx.mul %[[M]], %[[F]]
// CHECK: %[[O:.*]] = tx.sub %[[B]], %[[MF]]
// CHECK: %[[FS:.*]] = tx.broadcast %[[F]] {dimensions = array<i64: 3>}
// CHECK: %[[OS:.*]] = tx.broadcast %[[O]] {dimensions = array<i64: 3>}
// CHECK: %[[SCALED:.*]] = tx.mul %[[X]], %[[FS]]
// CHECK: tx.add %[[SCALED]], %[[OS]]
func.func @main(%x: tensor<1x4x4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<1x4x4x8xf32> {
  %0 = tx.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-03} : tensor<1x4x4x8xf32>, tensor<8xf32>
  return %0 : tensor<1x4x4x8xf32>
}
