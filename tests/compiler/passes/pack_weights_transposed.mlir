// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-pack-weights | FileCheck %s

// A weight or an argument of 16 bits is read as it is where no panels are made of it. A matrix of 32 bits, whose tiles would be slower, is transposed, and
// so are a value that is computed, and an argument whose rows are not copied in whole pieces.
// CHECK-LABEL: func.func @main
// CHECK: %[[H:.*]] = tx.parameter "h"
// CHECK: tx.matmul %{{.*}}, %[[H]] {transpose_rhs} : tensor<4x8xf16>, tensor<20x8xf16> -> tensor<4x20xf16>
// CHECK: %[[T:.*]] = tx.transpose
// CHECK: tx.matmul %{{.*}}, %[[T]] : tensor<4x8xf32>, tensor<8x20xf32> -> tensor<4x20xf32>
// CHECK: tx.matmul %{{.*}}, %arg2 {transpose_rhs} : tensor<4x8xf16>, tensor<20x8xf16> -> tensor<4x20xf16>
// CHECK: %[[S:.*]] = tx.transpose
// CHECK: tx.matmul %{{.*}}, %[[S]] : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
// CHECK: %[[B:.*]] = tx.transpose %arg3
// CHECK: tx.matmul %{{.*}}, %[[B]] : tensor<20x12xf16>, tensor<12x20xf16> -> tensor<20x20xf16>
module attributes {tx.families = ["cuda"]} {
func.func @main(%x: tensor<4x8xf16>, %y: tensor<4x8xf32>, %a: tensor<20x8xf16>, %b: tensor<20x12xf16>)
    -> (tensor<4x20xf16>, tensor<4x20xf32>, tensor<4x20xf16>, tensor<4x20xf16>, tensor<20x20xf16>) {
  %h = tx.parameter "h" : tensor<20x8xf16>
  %0 = tx.transpose %h {permutation = array<i64: 1, 0>} : tensor<20x8xf16> -> tensor<8x20xf16>
  %1 = tx.matmul %x, %0 : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
  %w = tx.parameter "w" : tensor<20x8xf32>
  %2 = tx.transpose %w {permutation = array<i64: 1, 0>} : tensor<20x8xf32> -> tensor<8x20xf32>
  %3 = tx.matmul %y, %2 : tensor<4x8xf32>, tensor<8x20xf32> -> tensor<4x20xf32>
  %4 = tx.transpose %a {permutation = array<i64: 1, 0>} : tensor<20x8xf16> -> tensor<8x20xf16>
  %5 = tx.matmul %x, %4 : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
  %6 = tx.add %a, %a : tensor<20x8xf16>
  %7 = tx.transpose %6 {permutation = array<i64: 1, 0>} : tensor<20x8xf16> -> tensor<8x20xf16>
  %8 = tx.matmul %x, %7 : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
  %9 = tx.transpose %b {permutation = array<i64: 1, 0>} : tensor<20x12xf16> -> tensor<12x20xf16>
  %10 = tx.matmul %b, %9 : tensor<20x12xf16>, tensor<12x20xf16> -> tensor<20x20xf16>
  return %1, %3, %5, %8, %10 : tensor<4x20xf16>, tensor<4x20xf32>, tensor<4x20xf16>, tensor<4x20xf16>, tensor<20x20xf16>
}
}
