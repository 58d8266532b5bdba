// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -heddle-place-ops -heddle-pack-weights -cse -heddle-hoist-constants -cse -heddle-form-dispatches 2>/dev/null | FileCheck %s

// A weight that two slots use: the CPU's is packed, the other's is not, each is computed on its own slot, and a parameter that is used as it
// is belongs to the slot that uses it.
// CHECK: kind = "SlotBoundary", producer = "tx.matmul 'first'"
// CHECK-LABEL: func.func @main
// CHECK: %[[W1:.*]] = tx.parameter "derived.0" {slot = "@gpu"} : tensor<8x8xf32>
// CHECK: %[[B:.*]] = tx.parameter "b" {slot = "@gpu"} : tensor<8xf32>
// CHECK: %[[W0:.*]] = tx.parameter "derived.1" : tensor<128xf32>
// CHECK: %[[Y:.*]] = tx.dispatch "main.0.matmul"(%{{.*}}, %[[W0]]) on "default"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tx.matmul {{.*}}packed_shape
// CHECK: %[[THERE:.*]] = tx.transfer %[[Y]] from "default" to "@gpu"
// CHECK: tx.dispatch "main.1.matmul"(%[[THERE]], %[[W1]], %[[B]]) on "@gpu"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tx.matmul %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x8xf32>

// CHECK-LABEL: func.func @"$init"
// CHECK-SAME: -> (tensor<8x8xf32> {heddle.affinity = "@gpu", tx.name = "derived.0"}, tensor<128xf32> {tx.name = "derived.1"})
// CHECK: %[[P1:.*]] = tx.parameter "w" {slot = "@gpu"} : tensor<8x8xf32>
// CHECK: tx.dispatch "$init.0.neg"(%[[P1]]) on "@gpu"
// CHECK: %[[P0:.*]] = tx.parameter "w" : tensor<8x8xf32>
// CHECK: %[[N:.*]] = tx.dispatch "$init.1.neg"(%[[P0]]) on "default"
// CHECK: tx.dispatch "$init.2.pack"(%[[N]]) on "default"
module attributes {tx.families = ["cpu", "cuda"]} {
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tx.parameter "w" : tensor<8x8xf32>
  %n = tx.neg %w : tensor<8x8xf32>
  %b = tx.parameter "b" : tensor<8xf32>
  %0 = tx.matmul %x, %n : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("first")
  %1 = tx.matmul %0, %n {place = "@gpu"} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> loc("second")
  %bb = tx.broadcast %b {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<4x8xf32>
  %2 = tx.add %1, %bb {place = "@gpu"} : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
}
