// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-hoist-constants | FileCheck %s

// A constant that is as large as the call's batch is no constant of the initializer, which has no batch. What is behind it is one.
// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = tx.parameter "derived.0" : tensor<4x8xf32>
// CHECK: %[[B:.*]] = tx.broadcast %[[N]] {{.*}} -> tensor<?x4x8xf32
// CHECK: %[[T:.*]] = tx.transpose %[[B]]
// CHECK: %[[S:.*]] = tx.reduce sum %[[T]]
// CHECK: tx.sub %{{.*}}, %[[T]]
// CHECK-LABEL: func.func @"$init"
// CHECK: tx.neg
// CHECK-NEXT: return
#in = #tx.dims<()[s0] -> (s0, 4, 8)>
#out = #tx.dims<()[s0] -> (s0, 8, 4)>
func.func @main(%x: tensor<?x8x4xf32, #out>) -> (tensor<?x8x4xf32, #out>, tensor<8x4xf32>) attributes {tx.symbols = ["batch"]} {
  %c = tx.parameter "c" : tensor<4x8xf32>
  %n = tx.neg %c : tensor<4x8xf32>
  %b = tx.broadcast %n {dimensions = array<i64: 1, 2>} : tensor<4x8xf32> -> tensor<?x4x8xf32, #in>
  %t = tx.transpose %b {permutation = array<i64: 0, 2, 1>} : tensor<?x4x8xf32, #in> -> tensor<?x8x4xf32, #out>
  %s = tx.reduce sum %t {axes = array<i64: 0>} : tensor<?x8x4xf32, #out> -> tensor<8x4xf32>
  %y = tx.sub %x, %t : tensor<?x8x4xf32, #out>
  return %y, %s : tensor<?x8x4xf32, #out>, tensor<8x4xf32>
}
