// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-place-ops -heddle-hoist-constants -heddle-form-dispatches | FileCheck %s

// Nothing joins an operator of a plugin, and that is recorded; it is on the default slot.
// CHECK: kind = "LibraryBoundary", producer = "tx.relu"
// CHECK: consumer = "tx.exp", kind = "LibraryBoundary", producer = "tx.custom"
// CHECK-LABEL: @between
// CHECK: %[[A:.*]] = tx.dispatch "between.0.relu"
// CHECK: %[[B:.*]] = tx.custom "test" "Scale" version 1(%[[A]]) {factor = 2.000000e+00 : f64} on "default"
// CHECK: tx.dispatch "between.1.exp"(%[[B]])
func.func @between(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tx.relu %x : tensor<2x3xf32>
  %1 = tx.custom "test" "Scale" version 1 (%0) {factor = 2.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tx.exp %1 : tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// It is not computed at load, also where it could be; what is not used goes.
// CHECK-LABEL: @constants
// CHECK-NOT: "Unused"
// CHECK: %[[C:.*]] = tx.constant
// CHECK: tx.custom "test" "Scale" version 1(%[[C]])
// CHECK-NOT: @$init
func.func @constants() -> tensor<2xf32> {
  %c = tx.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = tx.custom "test" "Scale" version 1 (%c) {} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = tx.custom "test" "Unused" version 1 (%c) {} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A broadcast that it reads becomes a tensor; a placed one has transfers around it.
// CHECK-LABEL: @placed
// CHECK: %[[T:.*]] = tx.transfer %arg0 from "default" to "@host"
// CHECK: %[[B:.*]] = tx.dispatch "placed.0.broadcast"(%[[T]]) on "@host"
// CHECK: %[[C:.*]]:2 = tx.custom "test" "Split" version 1(%[[B]]) {} on "@host"
// CHECK: %[[D:.*]] = tx.transfer %[[C]]#1 from "@host" to "default"
// CHECK: return %[[C]]#0, %[[D]]
func.func @placed(%x: tensor<3xf32> {heddle.affinity = "default"}) -> (tensor<2x3xf32>, tensor<1xi64> {heddle.affinity = "default"}) {
  %b = tx.broadcast %x {dimensions = array<i64: 1>} : tensor<3xf32> -> tensor<2x3xf32>
  %2:2 = tx.custom "test" "Split" version 1 (%b) {} {place = "@host"} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<1xi64>)
  return %2#0, %2#1 : tensor<2x3xf32>, tensor<1xi64>
}
