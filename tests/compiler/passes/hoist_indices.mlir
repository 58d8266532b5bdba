// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-hoist-constants | FileCheck %s

// What follows from indices is computed by the kernel that uses it, if it is large.
// CHECK-LABEL: func.func @large
// CHECK: %[[L:.*]] = tx.compare lt
// CHECK: tx.select %[[L]]
func.func @large(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %i = tx.iota {dimension = 0 : i64} : tensor<512x512xi32>
  %j = tx.iota {dimension = 1 : i64} : tensor<512x512xi32>
  %b = tx.compare lt %i, %j : tensor<512x512xi32> -> tensor<512x512xi1>
  %s = tx.select %b, %x, %y : tensor<512x512xi1>, tensor<512x512xf32>
  return %s : tensor<512x512xf32>
}

// CHECK-LABEL: func.func @small
// CHECK: %[[S:.*]] = tx.parameter "derived.
// CHECK: tx.select %[[S]]
func.func @small(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %i = tx.iota {dimension = 0 : i64} : tensor<8x8xi32>
  %j = tx.iota {dimension = 1 : i64} : tensor<8x8xi32>
  %b = tx.compare lt %i, %j : tensor<8x8xi32> -> tensor<8x8xi1>
  %s = tx.select %b, %x, %y : tensor<8x8xi1>, tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// A look-up reads its indices.
// CHECK-LABEL: func.func @looked_up
// CHECK: tx.parameter "derived.
// CHECK-NEXT: tx.gather
func.func @looked_up(%x: tensor<100000xf32>) -> tensor<100000xf32> {
  %i = tx.iota {dimension = 0 : i64} : tensor<100000xi32>
  %n = tx.neg %i : tensor<100000xi32>
  %g = tx.gather %x, %n {axis = 0 : i64} : tensor<100000xf32>, tensor<100000xi32> -> tensor<100000xf32>
  return %g : tensor<100000xf32>
}

// CHECK-LABEL: func.func @"$init"
