// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results that take the memory of donated arguments.
// RUN: heddle-opt --split-input-file --pass-pipeline="builtin.module(func.func(heddle-match-donations))" %s | FileCheck %s

// A step of gradient descent: everything that reads %w comes before the difference, which reads it element by element.
// CHECK-LABEL: @step
// CHECK-SAME: tx.alias = 0 : i64, tx.donated
// CHECK-SAME: -> tensor<8x8xf32>
func.func @step(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {tx.donated}) -> tensor<8x8xf32> {
  %0 = tx.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tx.matmul %x, %0 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %2 = tx.sub %w, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// The kernel of the last matmul would read %w at other places than it writes.
// CHECK-LABEL: @matmul
// CHECK-NOT: tx.alias
// CHECK: return
func.func @matmul(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {tx.donated}) -> tensor<8x8xf32> {
  %0 = tx.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tx.add %0, %w : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// -----

// Another result reads %w, perhaps later; the argument itself is returned; a result of another type.
// CHECK-LABEL: @read_elsewhere
// CHECK-NOT: tx.alias
// CHECK: return
func.func @read_elsewhere(%w: tensor<8xf32> {tx.donated}) -> (tensor<8xf32>, tensor<f32>) {
  %0 = tx.exp %w : tensor<8xf32>
  %1 = tx.reduce sum %w {axes = array<i64: 0>} : tensor<8xf32> -> tensor<f32>
  return %0, %1 : tensor<8xf32>, tensor<f32>
}

// -----

// Each argument gets a result of its own. %c was not donated.
// CHECK-LABEL: @several
// CHECK-SAME: %arg0: tensor<8xf32> {tx.alias = 0 : i64, tx.donated}
// CHECK-SAME: %arg1: tensor<8xf32> {tx.alias = 1 : i64, tx.donated}
// CHECK-SAME: %arg2: tensor<8xf32>)
func.func @several(%a: tensor<8xf32> {tx.donated}, %b: tensor<8xf32> {tx.donated}, %c: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = tx.exp %a : tensor<8xf32>
  %1 = tx.add %b, %c : tensor<8xf32>
  return %0, %1, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
