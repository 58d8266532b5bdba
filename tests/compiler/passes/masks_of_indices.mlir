// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-hoist-constants | FileCheck %s

// A mask of a softmax that follows from indices stays, and anything else that does is computed at load.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[I:.*]] = tx.iota {dimension = 0 : i64}
// CHECK-DAG: %[[J:.*]] = tx.iota {dimension = 1 : i64}
// CHECK: tx.compare le %[[J]], %[[I]]
// CHECK: tx.softmax
// CHECK: %[[P:.*]] = tx.parameter "derived.0" : tensor<4x4xf32>
// CHECK: tx.mul %{{.*}}, %[[P]]
// CHECK-LABEL: func.func @"$init"
// CHECK: tx.iota
// CHECK: tx.cast
module attributes {tx.families = ["cpu"]} {
func.func @main(%s: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %i = tx.iota {dimension = 0 : i64} : tensor<4x4xi64>
  %j = tx.iota {dimension = 1 : i64} : tensor<4x4xi64>
  %sees = tx.compare le %j, %i : tensor<4x4xi64> -> tensor<4x4xi1>
  %none = tx.constant dense<0xFF800000> : tensor<4x4xf32>
  %masked = tx.select %sees, %s, %none : tensor<4x4xi1>, tensor<4x4xf32>
  %w = tx.softmax %masked {axis = 1 : i64} : tensor<4x4xf32>
  %places = tx.cast %j : tensor<4x4xi64> -> tensor<4x4xf32>
  %y = tx.mul %w, %places : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
}
