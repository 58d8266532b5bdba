// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s

// A contraction reads a slice where it lies, on every device that has such a kernel.
// CHECK-LABEL: @columns
// CHECK: tx.dispatch "columns.0.matmul"(%arg0, %arg1)
// CHECK: tx.slice
// CHECK-NEXT: tx.matmul
// CHECK-NOT: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu", "cuda"]} {
func.func @columns(%x: tensor<70x96xf32>, %w: tensor<32x16xf32>) -> tensor<70x16xf32> {
  %s = tx.slice %x {starts = array<i64: 0, 64>, strides = array<i64: 1, 1>} : tensor<70x96xf32> -> tensor<70x32xf32>
  %y = tx.matmul %s, %w : tensor<70x32xf32>, tensor<32x16xf32> -> tensor<70x16xf32>
  return %y : tensor<70x16xf32>
}
}

// -----

// The first token of each sequence, whose dimension of extent 1 is dropped.
// CHECK-LABEL: @first_tokens
// CHECK: tx.dispatch "first_tokens.0.matmul"(%arg0, %arg1)
// CHECK: tx.slice
// CHECK-NEXT: tx.reshape
// CHECK-NEXT: tx.matmul
// CHECK-NOT: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @first_tokens(%x: tensor<4x128x64xf32>, %w: tensor<64x16xf32>) -> tensor<4x16xf32> {
  %s = tx.slice %x {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : tensor<4x128x64xf32> -> tensor<4x1x64xf32>
  %r = tx.reshape %s : tensor<4x1x64xf32> -> tensor<4x64xf32>
  %y = tx.matmul %r, %w : tensor<4x64xf32>, tensor<64x16xf32> -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}
}

// -----

// Half of the channels, as a network reads that divides and joins them.
// CHECK-LABEL: @channels
// CHECK: tx.dispatch "channels.0.conv"(%arg0, %arg1)
// CHECK: tx.slice
// CHECK-NEXT: tx.conv
// CHECK-NOT: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @channels(%x: tensor<1x8x8x32xf32>, %w: tensor<3x3x16x16xf32>) -> tensor<1x8x8x16xf32> {
  %s = tx.slice %x {starts = array<i64: 0, 0, 0, 16>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x8x8x32xf32> -> tensor<1x8x8x16xf32>
  %y = tx.conv %s, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32> -> tensor<1x8x8x16xf32>
  return %y : tensor<1x8x8x16xf32>
}
}

// -----

// Both halves of one product: each product reads its own.
// CHECK-LABEL: @two_readers
// CHECK: tx.dispatch "two_readers.0.matmul"(%arg0, %arg1)
// CHECK: tx.dispatch "two_readers.1.matmul"(%arg0, %arg2)
// CHECK-NOT: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @two_readers(%x: tensor<70x64xf32>, %v: tensor<32x16xf32>, %w: tensor<32x24xf32>) -> (tensor<70x16xf32>, tensor<70x24xf32>) {
  %a = tx.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<70x64xf32> -> tensor<70x32xf32>
  %b = tx.slice %x {starts = array<i64: 0, 32>, strides = array<i64: 1, 1>} : tensor<70x64xf32> -> tensor<70x32xf32>
  %y = tx.matmul %a, %v : tensor<70x32xf32>, tensor<32x16xf32> -> tensor<70x16xf32>
  %z = tx.matmul %b, %w : tensor<70x32xf32>, tensor<32x24xf32> -> tensor<70x24xf32>
  return %y, %z : tensor<70x16xf32>, tensor<70x24xf32>
}
}

// -----

// With strides, or read by something else too, a slice is stored; by one region, as neither waits for the other.
// CHECK: tx.fusion_log = [{{.*}}kind = "MultipleUses", producer = "tx.slice"
// CHECK: kind = "NoKernel", producer = "tx.slice", reason = "{{.*}}or slices of them without strides
// CHECK-LABEL: @stored
// CHECK: tx.dispatch "stored.0.slice"(%arg0)
// CHECK-COUNT-2: tx.slice
// CHECK-NOT: tx.slice
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @stored(%x: tensor<70x64xf32>, %w: tensor<32x16xf32>) -> (tensor<70x16xf32>, tensor<70x16xf32>, tensor<70x32xf32>) {
  %a = tx.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<70x64xf32> -> tensor<70x32xf32>
  %b = tx.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 2>} : tensor<70x64xf32> -> tensor<70x32xf32>
  %y = tx.matmul %a, %w : tensor<70x32xf32>, tensor<32x16xf32> -> tensor<70x16xf32>
  %z = tx.matmul %b, %w : tensor<70x32xf32>, tensor<32x16xf32> -> tensor<70x16xf32>
  return %y, %z, %a : tensor<70x16xf32>, tensor<70x16xf32>, tensor<70x32xf32>
}
}

// -----

// Products of one slice are one kernel, which reads it where it lies.
// CHECK-LABEL: @siblings
// CHECK: tx.dispatch "siblings.0.matmul"(%arg0, %arg1, %arg2)
// CHECK: tx.slice
// CHECK-NOT: tx.slice
// CHECK-NOT: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @siblings(%x: tensor<70x64xf32>, %v: tensor<32x16xf32>, %w: tensor<32x24xf32>) -> (tensor<70x16xf32>, tensor<70x24xf32>) {
  %a = tx.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<70x64xf32> -> tensor<70x32xf32>
  %y = tx.matmul %a, %v : tensor<70x32xf32>, tensor<32x16xf32> -> tensor<70x16xf32>
  %z = tx.matmul %a, %w : tensor<70x32xf32>, tensor<32x24xf32> -> tensor<70x24xf32>
  return %y, %z : tensor<70x16xf32>, tensor<70x24xf32>
}
}

// -----

// One column of each matrix, as a row: neighbors of the row are not neighbors in memory.
// CHECK-LABEL: @column_as_row
// CHECK-COUNT-2: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu", "cuda"]} {
func.func @column_as_row(%x: tensor<7x8x16xf32>, %w: tensor<8x64xf32>) -> tensor<7x1x64xf32> {
  %s = tx.slice %x {starts = array<i64: 0, 0, 11>, strides = array<i64: 1, 1, 1>} : tensor<7x8x16xf32> -> tensor<7x8x1xf32>
  %r = tx.reshape %s : tensor<7x8x1xf32> -> tensor<7x1x8xf32>
  %y = tx.matmul %r, %w : tensor<7x1x8xf32>, tensor<8x64xf32> -> tensor<7x1x64xf32>
  return %y : tensor<7x1x64xf32>
}
}
