// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-pack-weights | FileCheck %s

// A weight of 16 bits is read as it is where no panels are made of it; one of 32 bits, whose tiles would be slower, is transposed, and so is what is no weight.
// CHECK-LABEL: func.func @main
// CHECK: %[[H:.*]] = tx.parameter "h"
// CHECK: tx.matmul %{{.*}}, %[[H]] {transpose_rhs} : tensor<4x8xf16>, tensor<20x8xf16> -> tensor<4x20xf16>
// CHECK: %[[T:.*]] = tx.transpose
// CHECK: tx.matmul %{{.*}}, %[[T]] : tensor<4x8xf32>, tensor<8x20xf32> -> tensor<4x20xf32>
// CHECK: %[[A:.*]] = tx.transpose
// CHECK: tx.matmul %{{.*}}, %[[A]] : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
module attributes {tx.families = ["cuda"]} {
func.func @main(%x: tensor<4x8xf16>, %y: tensor<4x8xf32>, %a: tensor<20x8xf16>) -> (tensor<4x20xf16>, tensor<4x20xf32>, tensor<4x20xf16>) {
  %h = tx.parameter "h" : tensor<20x8xf16>
  %0 = tx.transpose %h {permutation = array<i64: 1, 0>} : tensor<20x8xf16> -> tensor<8x20xf16>
  %1 = tx.matmul %x, %0 : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
  %w = tx.parameter "w" : tensor<20x8xf32>
  %2 = tx.transpose %w {permutation = array<i64: 1, 0>} : tensor<20x8xf32> -> tensor<8x20xf32>
  %3 = tx.matmul %y, %2 : tensor<4x8xf32>, tensor<8x20xf32> -> tensor<4x20xf32>
  %4 = tx.transpose %a {permutation = array<i64: 1, 0>} : tensor<20x8xf16> -> tensor<8x20xf16>
  %5 = tx.matmul %x, %4 : tensor<4x8xf16>, tensor<8x20xf16> -> tensor<4x20xf16>
  return %1, %3, %5 : tensor<4x20xf16>, tensor<4x20xf32>, tensor<4x20xf16>
}
}
