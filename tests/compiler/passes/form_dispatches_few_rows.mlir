// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s

// Products of a few rows of one left operand are one kernel on machines of threads too.
// CHECK-LABEL: @keys_and_values
// CHECK: tx.dispatch "keys_and_values.0.matmul"(%arg0, %arg1, %arg2)
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cuda"]} {
  func.func @keys_and_values(%x: tensor<2x64xf32>, %k: tensor<64x128xf32>, %v: tensor<64x96xf32>) -> (tensor<2x128xf32>, tensor<2x96xf32>) {
    %a = tx.matmul %x, %k : tensor<2x64xf32>, tensor<64x128xf32> -> tensor<2x128xf32>
    %b = tx.matmul %x, %v : tensor<2x64xf32>, tensor<64x96xf32> -> tensor<2x96xf32>
    return %a, %b : tensor<2x128xf32>, tensor<2x96xf32>
  }
}

// -----

// A gate that only the other product reads is not stored.
// CHECK-LABEL: @gated
// CHECK: tx.dispatch "gated.0.matmul"(%arg0, %arg1, %arg2)
// CHECK: tx.matmul
// CHECK: tx.sigmoid
// CHECK: tx.matmul
// CHECK: tx.mul
// CHECK: tx.yield
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cuda"]} {
  func.func @gated(%x: tensor<1x64xf32>, %g: tensor<64x128xf32>, %u: tensor<64x128xf32>) -> tensor<1x128xf32> {
    %gate = tx.matmul %x, %g : tensor<1x64xf32>, tensor<64x128xf32> -> tensor<1x128xf32>
    %open = tx.sigmoid %gate : tensor<1x128xf32>
    %up = tx.matmul %x, %u : tensor<1x64xf32>, tensor<64x128xf32> -> tensor<1x128xf32>
    %y = tx.mul %open, %up : tensor<1x128xf32>
    return %y : tensor<1x128xf32>
  }
}

// -----

// One that is read elsewhere too is stored: the products do not depend on each other then, or the second one reads the first one's result.
// CHECK-LABEL: @read_twice
// CHECK: tx.dispatch "read_twice.0.matmul"(%arg0, %arg1)
// CHECK: tx.dispatch "read_twice.1.matmul"(%arg0, %arg2, %{{.*}})
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cuda"]} {
  func.func @read_twice(%x: tensor<1x64xf32>, %g: tensor<64x128xf32>, %u: tensor<64x128xf32>) -> (tensor<1x128xf32>, tensor<1x128xf32>) {
    %gate = tx.matmul %x, %g : tensor<1x64xf32>, tensor<64x128xf32> -> tensor<1x128xf32>
    %open = tx.sigmoid %gate : tensor<1x128xf32>
    %up = tx.matmul %x, %u : tensor<1x64xf32>, tensor<64x128xf32> -> tensor<1x128xf32>
    %y = tx.mul %open, %up : tensor<1x128xf32>
    return %open, %y : tensor<1x128xf32>, tensor<1x128xf32>
  }
}
