// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s

// The bias, the residual addition and the activation become part of the convolution that comes last; the value that two ops
// read ends its region, and that is recorded.
// CHECK: tx.fusion_log = [{{.*}}consumer = "tx.add", kind = "MultipleUses", producer = "tx.relu"
// CHECK-LABEL: @residual
// CHECK: %[[A:.*]] = tx.dispatch "residual.0.conv"(%arg0, %arg1)
// CHECK: tx.conv
// CHECK-NEXT: tx.relu
// CHECK-NEXT: tx.yield
// CHECK: %[[B:.*]] = tx.dispatch "residual.1.conv"(%[[A]], %arg1, %arg2)
// CHECK: tx.conv
// CHECK-NEXT: tx.broadcast
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.relu
// CHECK-NEXT: tx.yield
// CHECK: return %[[B]]
func.func @residual(%x: tensor<1x4x4x8xf32>, %w: tensor<1x1x8x8xf32>, %b: tensor<8xf32>) -> tensor<1x4x4x8xf32> {
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  %1 = tx.relu %0 : tensor<1x4x4x8xf32>
  %2 = tx.conv %1, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %3 = tx.add %2, %bb : tensor<1x4x4x8xf32>
  %4 = tx.add %1, %3 : tensor<1x4x4x8xf32>
  %5 = tx.relu %4 : tensor<1x4x4x8xf32>
  return %5 : tensor<1x4x4x8xf32>
}

// -----

// A reshape is a view: it stays between the regions.
// CHECK-LABEL: @view
// CHECK: tx.dispatch
// CHECK: tx.reshape %{{.*}} : tensor<4x8xf32> -> tensor<32xf32>
// CHECK: tx.dispatch
func.func @view(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = tx.relu %x : tensor<4x8xf32>
  %1 = tx.reshape %0 : tensor<4x8xf32> -> tensor<32xf32>
  %2 = tx.exp %1 : tensor<32xf32>
  return %2 : tensor<32xf32>
}

// -----

// A broadcast that is returned has a region of its own, and who else reads it reads what that wrote.
// CHECK-LABEL: @broadcasts
// CHECK: %[[B:.*]] = tx.dispatch "broadcasts.0.broadcast"(%arg1)
// CHECK: tx.dispatch "broadcasts.1.add"(%arg0, %[[B]])
// CHECK-NOT: tx.dispatch
func.func @broadcasts(%x: tensor<4x8xf32>, %v: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tx.broadcast %v {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<4x8xf32>
  %1 = tx.add %x, %0 : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// One cluster out of a diamond of element-wise ops.
// CHECK-LABEL: @cluster
// CHECK: tx.dispatch
// CHECK: tx.exp
// CHECK: tx.neg
// CHECK: tx.add
// CHECK-NOT: tx.dispatch
func.func @cluster(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %0 = tx.exp %x : tensor<16xf32>
  %1 = tx.neg %y : tensor<16xf32>
  %2 = tx.add %0, %1 : tensor<16xf32>
  return %2 : tensor<16xf32>
}

// -----

// A value that several ops read does not end its region if what they make of it comes together again: x * sigmoid(x).
// CHECK-LABEL: @together
// CHECK: %[[R:.*]] = tx.dispatch "together.0.matmul"(%arg0, %arg1)
// CHECK: tx.matmul
// CHECK-NEXT: tx.sigmoid
// CHECK-NEXT: tx.mul
// CHECK-NEXT: tx.constant
// CHECK-NEXT: tx.compare
// CHECK-NEXT: tx.exp
// CHECK-NEXT: tx.select
// CHECK-NEXT: tx.yield
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]
func.func @together(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = tx.matmul %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %1 = tx.sigmoid %0 : tensor<4x6xf32>
  %2 = tx.mul %0, %1 : tensor<4x6xf32>
  %c = tx.constant dense<0.5> : tensor<4x6xf32>
  %3 = tx.compare lt %2, %c : tensor<4x6xf32> -> tensor<4x6xi1>
  %4 = tx.exp %2 : tensor<4x6xf32>
  %5 = tx.select %3, %2, %4 : tensor<4x6xi1>, tensor<4x6xf32>
  return %5 : tensor<4x6xf32>
}

// -----

// One of the values is needed outside.
// CHECK: tx.fusion_log = [{{.*}}consumer = "tx.sigmoid", kind = "MultipleUses", producer = "tx.matmul"
// CHECK-LABEL: @apart
// CHECK: tx.dispatch "apart.0.matmul"
// CHECK: tx.matmul
// CHECK-NEXT: tx.yield
// CHECK: tx.dispatch "apart.1.sigmoid"
func.func @apart(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = tx.matmul %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %1 = tx.sigmoid %0 : tensor<4x6xf32>
  %2 = tx.mul %0, %1 : tensor<4x6xf32>
  return %0, %2 : tensor<4x6xf32>, tensor<4x6xf32>
}
