// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s

// Where devices have no kernel for what would be one region, the note says what their target says of it.
// CHECK: tx.fusion_log = [{{.*}}consumer = "tx.matmul", kind = "NoKernel", producer = "tx.softmax",
// CHECK-SAME: reason = "attention: x86_64: attention: the ops between the products do not go through rows
// CHECK-LABEL: @attention_of_doubles
// CHECK-COUNT-3: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @attention_of_doubles(%q: tensor<2x8x4xf64>, %k: tensor<2x4x8xf64>, %v: tensor<2x8x4xf64>) -> tensor<2x8x4xf64> {
    %s = tx.matmul %q, %k : tensor<2x8x4xf64>, tensor<2x4x8xf64> -> tensor<2x8x8xf64>
    %p = tx.softmax %s {axis = 2 : i64} : tensor<2x8x8xf64>
    %o = tx.matmul %p, %v : tensor<2x8x8xf64>, tensor<2x8x4xf64> -> tensor<2x8x4xf64>
    return %o : tensor<2x8x4xf64>
  }
}

// -----

// Products of many rows of one left operand are a kernel on a CPU alone.
// CHECK: tx.fusion_log = [{consumer = "tx.matmul", kind = "NoKernel", producer = "tx.matmul",
// CHECK-SAME: reason = "{{.*}}output groups: cuda: one kernel cannot compute 2 contractions
// CHECK-LABEL: @keys_and_values
// CHECK-COUNT-2: tx.dispatch
module attributes {tx.families = ["cuda"]} {
  func.func @keys_and_values(%x: tensor<256x64xf32>, %k: tensor<64x128xf32>, %v: tensor<64x96xf32>) -> (tensor<256x128xf32>, tensor<256x96xf32>) {
    %a = tx.matmul %x, %k : tensor<256x64xf32>, tensor<64x128xf32> -> tensor<256x128xf32>
    %b = tx.matmul %x, %v : tensor<256x64xf32>, tensor<64x96xf32> -> tensor<256x96xf32>
    return %a, %b : tensor<256x128xf32>, tensor<256x96xf32>
  }
}

// -----

// CHECK: kind = "NoKernel", producer = "tx.reduce", reason = "there is no target for the family 'other'"
// CHECK-LABEL: @family_without_target
module attributes {tx.families = ["other"]} {
  func.func @family_without_target(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %m = tx.reduce max %x {axes = array<i64: 1>} : tensor<8x16xf32> -> tensor<8xf32>
    %b = tx.broadcast %m {dimensions = array<i64: 0>} : tensor<8xf32> -> tensor<8x16xf32>
    %d = tx.sub %x, %b : tensor<8x16xf32>
    return %d : tensor<8x16xf32>
  }
}

// -----

// What became part of one region after all is no refusal.
// CHECK: tx.fusion_log = []
// CHECK-LABEL: @half
// CHECK-COUNT-1: tx.dispatch
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @half(%x: tensor<8x16xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %e = tx.exp %x : tensor<8x16xf32>
    %s = tx.slice %e {starts = array<i64: 0, 8>, strides = array<i64: 1, 1>} : tensor<8x16xf32> -> tensor<8x8xf32>
    %m = tx.mul %s, %y : tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}
