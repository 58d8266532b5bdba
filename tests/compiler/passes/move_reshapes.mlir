// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-move-reshapes | FileCheck %s

// What is added is reshaped instead, a vector along the last dimension is repeated over the other shape, and what two ops read is moved once.
// CHECK-LABEL: @behind
// CHECK: %[[M:.*]] = tx.matmul
// CHECK: %[[B:.*]] = tx.broadcast %arg2 {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<6x8xf32>
// CHECK: %[[S:.*]] = tx.add %[[M]], %[[B]]
// CHECK: %[[G:.*]] = tx.sigmoid %[[S]]
// CHECK: %[[P:.*]] = tx.mul %[[S]], %[[G]]
// CHECK: %[[X:.*]] = tx.reshape %arg3 : tensor<2x3x8xf32> -> tensor<6x8xf32>
// CHECK: %[[Y:.*]] = tx.add %[[X]], %[[P]]
// CHECK: %[[R:.*]] = tx.reshape %[[Y]] : tensor<6x8xf32> -> tensor<2x3x8xf32>
// CHECK: return %[[R]]
func.func @behind(%a: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>, %x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %m = tx.matmul %a, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %r = tx.reshape %m : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 2>} : tensor<8xf32> -> tensor<2x3x8xf32>
  %s = tx.add %r, %bb : tensor<2x3x8xf32>
  %g = tx.sigmoid %s : tensor<2x3x8xf32>
  %p = tx.mul %s, %g : tensor<2x3x8xf32>
  %y = tx.add %x, %p : tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// -----

// A broadcast along another dimension has no other shape, and two contractions of different shapes leave each as it is.
// CHECK-LABEL: @not_moved
// CHECK: %[[R:.*]] = tx.reshape
// CHECK: %[[B:.*]] = tx.broadcast
// CHECK: tx.mul %[[R]], %[[B]]
// CHECK: %[[N:.*]] = tx.matmul
// CHECK: %[[A:.*]] = tx.add %[[R]], %[[N]]
// CHECK-NOT: tx.reshape
// CHECK: return
func.func @not_moved(%a: tensor<6x4xf32>, %w: tensor<4x8xf32>, %b: tensor<2xf32>, %c: tensor<2x3x4xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %m = tx.matmul %a, %w : tensor<6x4xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  %r = tx.reshape %m : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 0>} : tensor<2xf32> -> tensor<2x3x8xf32>
  %p = tx.mul %r, %bb : tensor<2x3x8xf32>
  %n = tx.matmul %c, %w : tensor<2x3x4xf32>, tensor<4x8xf32> -> tensor<2x3x8xf32>
  %y = tx.add %r, %n : tensor<2x3x8xf32>
  return %p, %y : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}
