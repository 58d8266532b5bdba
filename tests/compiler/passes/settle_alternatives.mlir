// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-settle-alternatives | FileCheck %s
// RUN: heddle-opt %s -split-input-file -heddle-settle-alternatives -heddle-place-ops -heddle-hoist-constants -heddle-form-dispatches | FileCheck %s --check-prefix=FORMED

// One kernel: it stays, and nothing fuses with it on either side.
// CHECK-LABEL: @stays
// CHECK: tx.relu
// CHECK: tx.dispatch "Softmax"(%{{.*}}) or <"ai.onnx", "Softmax", 13, {axis = 1 : i64}>
// CHECK: tx.softmax
// CHECK: tx.exp
// FORMED: consumer = "tx.dispatch", kind = "LibraryBoundary", producer = "tx.relu"
// FORMED: consumer = "tx.exp", kind = "LibraryBoundary", producer = "tx.dispatch"
// FORMED-LABEL: @stays
// FORMED: %[[A:.*]] = tx.dispatch "stays.0.relu"
// FORMED: %[[B:.*]] = tx.dispatch "stays.1.Softmax"(%[[A]]) on "default" or <"ai.onnx", "Softmax", 13, {axis = 1 : i64}>
// FORMED: tx.dispatch "stays.2.exp"(%[[B]])
func.func @stays(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tx.relu %x : tensor<2x3xf32>
  %1 = tx.dispatch "Softmax"(%0) or <"ai.onnx", "Softmax", 13, {axis = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %2 = tx.softmax %a {axis = 1 : i64} : tensor<2x3xf32>
    tx.yield %2 : tensor<2x3xf32>
  }
  %3 = tx.exp %1 : tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// The kernel's operands are the node's, in their order, whatever the body reads first; one that it does not read is there too.
// CHECK-LABEL: @order
// CHECK: tx.dispatch "Odd"(%arg0, %arg1, %arg2) or <"ai.onnx", "Odd", 1, {}>
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<2xf32>, %[[C:.*]]: tensor<2xf32>):
// CHECK-NEXT: %[[D:.*]] = tx.sub %[[C]], %[[A]]
func.func @order(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tx.dispatch "Odd"(%x, %y, %z) or <"ai.onnx", "Odd", 1, {}> : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>):
    %1 = tx.sub %c, %a : tensor<2xf32>
    tx.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----

// Two kernels: plain ops again, placed where the node was.
// CHECK: tx.own_only = [{node = "", operator = "ai.onnx::Centered/1", reason = "it takes 2 kernels: reduce, cumsum"}]
// CHECK-LABEL: @several
// CHECK-NOT: tx.dispatch
// CHECK: tx.reduce mean %arg0 {axes = array<i64: 1>, place = "@a"}
// CHECK: tx.cumsum {{.*}} {axis = 1 : i64, place = "@a"}
func.func @several(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tx.dispatch "Centered"(%x) or <"ai.onnx", "Centered", 1, {}> attributes {place = "@a"} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %1 = tx.reduce mean %a {axes = array<i64: 1>} : tensor<2x3xf32> -> tensor<2xf32>
    %2 = tx.broadcast %1 {dimensions = array<i64: 0>} : tensor<2xf32> -> tensor<2x3xf32>
    %3 = tx.sub %a, %2 : tensor<2x3xf32>
    %4 = tx.cumsum %3 {axis = 1 : i64} : tensor<2x3xf32>
    tx.yield %4 : tensor<2x3xf32>
  }
  return %0 : tensor<2x3xf32>
}

// -----

// Of another shape inside, and computed at load.
// CHECK: reason = "its kernel reads or writes tensors of other shapes than the node's"
// CHECK: reason = "it is computed when the module is loaded"
// CHECK-LABEL: @views
// CHECK-NOT: tx.dispatch
func.func @views(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
  %0 = tx.dispatch "Softmax"(%x) or <"ai.onnx", "Softmax", 11, {}> : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %1 = tx.reshape %a : tensor<2x3xf32> -> tensor<6xf32>
    %2 = tx.softmax %1 {axis = 0 : i64} : tensor<6xf32>
    %3 = tx.reshape %2 : tensor<6xf32> -> tensor<2x3xf32>
    tx.yield %3 : tensor<2x3xf32>
  }
  %c = tx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %4 = tx.dispatch "Exp"(%c) or <"ai.onnx", "Exp", 13, {}> : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    %1 = tx.exp %a : tensor<2xf32>
    tx.yield %1 : tensor<2xf32>
  }
  return %0, %4 : tensor<2x3xf32>, tensor<2xf32>
}

// -----

// Placed: transfers go around it.
// CHECK-LABEL: @placed
// FORMED-LABEL: @placed
// FORMED: %[[T:.*]] = tx.transfer %arg0 from "default" to "@host"
// FORMED: tx.dispatch "placed.0.Exp"(%[[T]]) on "@host" or <"ai.onnx", "Exp", 13, {}>
func.func @placed(%x: tensor<3xf32> {heddle.affinity = "default"}) -> tensor<3xf32> {
  %0 = tx.dispatch "Exp"(%x) or <"ai.onnx", "Exp", 13, {}> attributes {place = "@host"} : (tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>):
    %1 = tx.exp %a : tensor<3xf32>
    tx.yield %1 : tensor<3xf32>
  }
  return %0 : tensor<3xf32>
}
