// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches side by side, as late as the way to the end allows.
// RUN: heddle-opt --split-input-file --heddle-order-dispatches %s | FileCheck %s

// The short branch, which the model has first, comes beside the second step of the long one.
// CHECK-LABEL: @branches
// CHECK: tx.dispatch "long1"
// CHECK-DAG: tx.dispatch "short"
// CHECK-DAG: tx.dispatch "long2"
// CHECK: tx.dispatch "join"
func.func @branches(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = tx.dispatch "short"(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    tx.yield %a : tensor<8xf32>
  }
  %l1 = tx.dispatch "long1"(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    tx.yield %a : tensor<8xf32>
  }
  %l2 = tx.dispatch "long2"(%l1) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    tx.yield %a : tensor<8xf32>
  }
  %r = tx.reshape %s : tensor<8xf32> -> tensor<2x4xf32>
  %y = tx.dispatch "join"(%r, %l2) : (tensor<2x4xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<2x4xf32>, %b: tensor<8xf32>):
    tx.yield %b : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

// Each branch makes much and keeps little: side by side all three would be kept at once, so they stay one behind the other, where two are.
// CHECK-LABEL: @large
// CHECK: tx.dispatch "large1"
// CHECK: tx.dispatch "small1"
// CHECK: tx.dispatch "large2"
// CHECK: tx.dispatch "small2"
// CHECK: tx.dispatch "large3"
// CHECK: tx.dispatch "small3"
func.func @large(%x: tensor<8xf32>) -> tensor<8xf32> {
  %l1 = tx.dispatch "large1"(%x) : (tensor<8xf32>) -> tensor<1000000xf32> {
  ^bb0(%a: tensor<8xf32>):
    %c = tx.constant dense<0.0> : tensor<1000000xf32>
    tx.yield %c : tensor<1000000xf32>
  }
  %s1 = tx.dispatch "small1"(%l1) : (tensor<1000000xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<1000000xf32>):
    %c = tx.constant dense<0.0> : tensor<8xf32>
    tx.yield %c : tensor<8xf32>
  }
  %l2 = tx.dispatch "large2"(%x) : (tensor<8xf32>) -> tensor<1000000xf32> {
  ^bb0(%a: tensor<8xf32>):
    %c = tx.constant dense<0.0> : tensor<1000000xf32>
    tx.yield %c : tensor<1000000xf32>
  }
  %s2 = tx.dispatch "small2"(%l2) : (tensor<1000000xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<1000000xf32>):
    %c = tx.constant dense<0.0> : tensor<8xf32>
    tx.yield %c : tensor<8xf32>
  }
  %l3 = tx.dispatch "large3"(%x) : (tensor<8xf32>) -> tensor<1000000xf32> {
  ^bb0(%a: tensor<8xf32>):
    %c = tx.constant dense<0.0> : tensor<1000000xf32>
    tx.yield %c : tensor<1000000xf32>
  }
  %s3 = tx.dispatch "small3"(%l3) : (tensor<1000000xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<1000000xf32>):
    %c = tx.constant dense<0.0> : tensor<8xf32>
    tx.yield %c : tensor<8xf32>
  }
  %y = tx.dispatch "join"(%s1, %s2, %s3) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>):
    tx.yield %b : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

// What has the symbol comes after the read, however short its way to the end is.
// CHECK-LABEL: @read
// CHECK: tx.dispatch "extent"
// CHECK: tx.read
// CHECK: tx.dispatch "first"
// CHECK: tx.dispatch "second"
func.func @read(%x: tensor<1xi64>) -> tensor<?xf32, #tx.dims<()[s0] -> (s0)>> attributes {
    tx.symbols = ["extent 0"], tx.defined_symbols = [{kind = "read", index = 0}]} {
  %n = tx.dispatch "extent"(%x) : (tensor<1xi64>) -> tensor<1xi64> {
  ^bb0(%a: tensor<1xi64>):
    tx.yield %a : tensor<1xi64>
  }
  %y = tx.dispatch "first"() : () -> tensor<?xf32, #tx.dims<()[s0] -> (s0)>> {
    %i = tx.iota {dimension = 0 : i64} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>
    tx.yield %i : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>
  }
  tx.read %n as [0] : tensor<1xi64>
  %z = tx.dispatch "second"(%y) : (tensor<?xf32, #tx.dims<()[s0] -> (s0)>>) -> tensor<?xf32, #tx.dims<()[s0] -> (s0)>> {
  ^bb0(%a: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>):
    tx.yield %a : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>
  }
  return %z : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>
}
