// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s

// On a GPU a contraction stores its result in the order that the transpose behind it asks for; nothing joins it after that.
// CHECK-LABEL: @gpu
// CHECK: tx.dispatch "gpu.0.conv"
// CHECK: tx.conv
// CHECK: tx.relu
// CHECK-NEXT: tx.transpose
// CHECK-NEXT: tx.yield
// CHECK: tx.dispatch "gpu.1.exp"
module attributes {tx.families = ["cuda"]} {
func.func @gpu(%x: tensor<1x4x4x8xf32>, %w: tensor<1x1x8x8xf32>, %b: tensor<8xf32>) -> tensor<1x8x4x4xf32> {
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %1 = tx.add %0, %bb : tensor<1x4x4x8xf32>
  %2 = tx.relu %1 : tensor<1x4x4x8xf32>
  %3 = tx.transpose %2 {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x4x8xf32> -> tensor<1x8x4x4xf32>
  %4 = tx.exp %3 : tensor<1x8x4x4xf32>
  return %4 : tensor<1x8x4x4xf32>
}
}

// -----

// A square result: its type says nothing of the order.
// CHECK-LABEL: @square
// CHECK: tx.dispatch "square.0.matmul"
// CHECK: tx.transpose
// CHECK-NEXT: tx.yield
// CHECK: tx.dispatch "square.1.exp"
module attributes {tx.families = ["cuda"]} {
func.func @square(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tx.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tx.transpose %0 {permutation = array<i64: 1, 0>} : tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = tx.exp %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
}

// -----

// Another order, what somebody else reads too, and a tensor that is read beside the contraction, in its order: a region of their own.
// CHECK-LABEL: @apart
// CHECK: tx.dispatch "apart.0.matmul"
// CHECK-NOT: tx.transpose
// CHECK: tx.dispatch "apart.1.matmul"
// CHECK-NOT: tx.transpose
// CHECK: tx.dispatch "apart.2.matmul"
// CHECK-NOT: tx.transpose
// CHECK: tx.dispatch "apart.3.transpose"
// CHECK-COUNT-3: tx.transpose
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cuda"]} {
func.func @apart(%x: tensor<2x8x4xf32>, %w: tensor<4x16xf32>, %r: tensor<2x8x16xf32>)
    -> (tensor<8x16x2xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>) {
  %0 = tx.matmul %x, %w : tensor<2x8x4xf32>, tensor<4x16xf32> -> tensor<2x8x16xf32>
  %1 = tx.transpose %0 {permutation = array<i64: 1, 2, 0>} : tensor<2x8x16xf32> -> tensor<8x16x2xf32>
  %2 = tx.matmul %x, %w : tensor<2x8x4xf32>, tensor<4x16xf32> -> tensor<2x8x16xf32>
  %3 = tx.transpose %2 {permutation = array<i64: 0, 2, 1>} : tensor<2x8x16xf32> -> tensor<2x16x8xf32>
  %4 = tx.matmul %x, %w : tensor<2x8x4xf32>, tensor<4x16xf32> -> tensor<2x8x16xf32>
  %5 = tx.add %4, %r : tensor<2x8x16xf32>
  %6 = tx.transpose %5 {permutation = array<i64: 0, 2, 1>} : tensor<2x8x16xf32> -> tensor<2x16x8xf32>
  return %1, %3, %2, %6 : tensor<8x16x2xf32>, tensor<2x16x8xf32>, tensor<2x8x16xf32>, tensor<2x16x8xf32>
}
}

// -----

// On a CPU the transpose is a region.
// CHECK-LABEL: @cpu
// CHECK: tx.dispatch "cpu.0.matmul"
// CHECK: tx.dispatch "cpu.1.transpose"
module attributes {tx.families = ["cpu"]} {
func.func @cpu(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tx.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tx.transpose %0 {permutation = array<i64: 1, 0>} : tensor<8x8xf32> -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
}
