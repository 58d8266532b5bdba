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

// -----

// Parts whose dimension is divided between pieces are parts of the whole, divided so.
// CHECK-LABEL: @parts
// CHECK-DAG: %[[R:.*]] = tx.reshape %arg0 : tensor<?x?x2304xf32, {{.*}}> -> tensor<?x?x36x64xf32,
// CHECK-DAG: tx.slice %[[R]] {starts = array<i64: 0, 0, 12, 0>, strides = array<i64: 1, 1, 1, 1>} : tensor<?x?x36x64xf32, {{.*}}> -> tensor<?x?x12x64xf32,
// CHECK-DAG: %[[O:.*]] = tx.reshape %arg1 : tensor<1x1x96xf32> -> tensor<1x6x1x16xf32>
// CHECK-DAG: tx.slice %[[O]] {starts = array<i64: 0, 4, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x6x1x16xf32> -> tensor<1x2x1x16xf32>
func.func @parts(%x: tensor<?x?x2304xf32, #tx.dims<()[s0, s1] -> (s0, s1, 2304)>>, %y: tensor<1x1x96xf32>)
    -> (tensor<?x?x12x64xf32, #tx.dims<()[s0, s1] -> (s0, s1, 12, 64)>>, tensor<1x2x1x16xf32>) attributes {tx.symbols = ["b", "s"]} {
  %p = tx.slice %x {starts = array<i64: 0, 0, 768>, strides = array<i64: 1, 1, 1>}
      : tensor<?x?x2304xf32, #tx.dims<()[s0, s1] -> (s0, s1, 2304)>> -> tensor<?x?x768xf32, #tx.dims<()[s0, s1] -> (s0, s1, 768)>>
  %r = tx.reshape %p : tensor<?x?x768xf32, #tx.dims<()[s0, s1] -> (s0, s1, 768)>>
      -> tensor<?x?x12x64xf32, #tx.dims<()[s0, s1] -> (s0, s1, 12, 64)>>
  %q = tx.slice %y {starts = array<i64: 0, 0, 64>, strides = array<i64: 1, 1, 1>} : tensor<1x1x96xf32> -> tensor<1x1x32xf32>
  %t = tx.reshape %q : tensor<1x1x32xf32> -> tensor<1x2x1x16xf32>
  return %r, %t : tensor<?x?x12x64xf32, #tx.dims<()[s0, s1] -> (s0, s1, 12, 64)>>, tensor<1x2x1x16xf32>
}

// -----

// Not where a piece would be cut, every second element is taken, two dimensions are cut, or others read the part, too.
// CHECK-LABEL: @cut_pieces
// CHECK-COUNT-4: tx.slice %arg
// CHECK-NOT: tx.slice
func.func @cut_pieces(%x: tensor<4x96xf32>) -> (tensor<4x2x16xf32>, tensor<4x3x16xf32>, tensor<2x2x16xf32>, tensor<4x2x16xf32>, tensor<4x32xf32>) {
  %a = tx.slice %x {starts = array<i64: 0, 8>, strides = array<i64: 1, 1>} : tensor<4x96xf32> -> tensor<4x32xf32>
  %ar = tx.reshape %a : tensor<4x32xf32> -> tensor<4x2x16xf32>
  %b = tx.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 2>} : tensor<4x96xf32> -> tensor<4x48xf32>
  %br = tx.reshape %b : tensor<4x48xf32> -> tensor<4x3x16xf32>
  %c = tx.slice %x {starts = array<i64: 2, 32>, strides = array<i64: 1, 1>} : tensor<4x96xf32> -> tensor<2x32xf32>
  %cr = tx.reshape %c : tensor<2x32xf32> -> tensor<2x2x16xf32>
  %d = tx.slice %x {starts = array<i64: 0, 64>, strides = array<i64: 1, 1>} : tensor<4x96xf32> -> tensor<4x32xf32>
  %dr = tx.reshape %d : tensor<4x32xf32> -> tensor<4x2x16xf32>
  return %ar, %br, %cr, %dr, %d : tensor<4x2x16xf32>, tensor<4x3x16xf32>, tensor<2x2x16xf32>, tensor<4x2x16xf32>, tensor<4x32xf32>
}
