// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-place-ops 2>/dev/null | FileCheck %s
// RUN: heddle-opt %s -split-input-file -heddle-place-ops=annotate 2>&1 >/dev/null | FileCheck %s --check-prefix=SAID

// Two matmuls, one a slot: what the second gives stays where it was made, since nothing else was said.
// CHECK: module attributes {tx.slots = ["@a", "@b"]}
// CHECK-LABEL: func.func @pipeline
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32> {heddle.affinity = "@a"}) -> (tensor<4x8xf32> {heddle.affinity = "@b"})
// CHECK: %[[FIRST:.*]] = tx.matmul %[[X]], %{{.*}} : tensor
// CHECK: %[[THERE:.*]] = tx.transfer %[[FIRST]] from "@a" to "@b"
// CHECK: %[[SECOND:.*]] = tx.matmul %[[THERE]], %{{.*}} : tensor
// CHECK: return %[[SECOND]]
// SAID: argument 0: on @a, decided by tx.matmul
// SAID: tx.parameter: constant, on every slot that uses it
// SAID: tx.matmul: operands @a constant, result @a, decided by its own attribute
// SAID: tx.matmul: operands @a constant, result @b, decided by its own attribute
// SAID: result 0: on @b, decided by tx.matmul
func.func @pipeline(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tx.parameter "w" : tensor<8x8xf32>
  %0 = tx.matmul %x, %w {place = "@a"} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tx.matmul %0, %w {place = "@b"} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// An op in the middle is on its slot, and those around it are not: an annotation speaks of what it names. Views go with what they show.
// CHECK: module attributes {tx.placements = {Softmax_1 = "@host by --place 'Softmax*=@host'"}, tx.slots = ["default", "@host"]}
// CHECK-LABEL: func.func @middle
// CHECK-SAME: {heddle.affinity = "default"}) -> (tensor<32xf32> {heddle.affinity = "default"})
// CHECK: %[[A:.*]] = tx.exp
// CHECK: %[[THERE:.*]] = tx.transfer %[[A]] from "default" to "@host"
// CHECK: %[[B:.*]] = tx.softmax %[[THERE]]
// CHECK-NOT: place
// CHECK: %[[BACK:.*]] = tx.transfer %[[B]] from "@host" to "default" : tensor<4x8xf32>
// CHECK: %[[VIEW:.*]] = tx.reshape %[[BACK]]
// CHECK: tx.neg %[[VIEW]]
// SAID: 2 of 3 ops have no placement and are on the default slot; the first is tx.exp
// SAID: tx.softmax 'Softmax_1': operands default, result @host, decided by --place 'Softmax*=@host'
// SAID: tx.reshape: operands @host, result @host, decided by tx.softmax 'Softmax_1'
// SAID: tx.neg: operands @host, result default, decided by default
func.func @middle(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = tx.exp %x : tensor<4x8xf32>
  %1 = tx.softmax %0 {axis = 1, place = "@host", placed_by = "--place 'Softmax*=@host'"} : tensor<4x8xf32> loc("Softmax_1")
  %2 = tx.reshape %1 : tensor<4x8xf32> -> tensor<32xf32>
  %3 = tx.neg %2 : tensor<32xf32>
  return %3 : tensor<32xf32>
}

// -----

// One transfer for each slot that a value goes to, shared by all that read it there, also through a view or a broadcast.
// CHECK-LABEL: func.func @shared
// CHECK: %[[A:.*]] = tx.exp
// CHECK: %[[B:.*]] = tx.transfer %[[A]] from "@a" to "@b"
// CHECK: tx.neg %[[B]]
// CHECK: %[[C:.*]] = tx.transfer %[[A]] from "@a" to "@c"
// CHECK: tx.abs %[[C]]
// CHECK: %[[V:.*]] = tx.reshape %[[B]]
// CHECK: tx.sqrt %[[V]]
// CHECK: %[[W:.*]] = tx.broadcast %[[C]]
// CHECK: tx.log %[[W]]
// CHECK-NOT: tx.transfer
func.func @shared(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<3x8xf32>) {
  %0 = tx.exp %x {place = "@a"} : tensor<8xf32>
  %1 = tx.neg %0 {place = "@b"} : tensor<8xf32>
  %2 = tx.abs %0 {place = "@c"} : tensor<8xf32>
  %view = tx.reshape %0 : tensor<8xf32> -> tensor<2x4xf32>
  %3 = tx.sqrt %view {place = "@b"} : tensor<2x4xf32>
  %wide = tx.broadcast %0 {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<3x8xf32>
  %4 = tx.log %wide {place = "@c"} : tensor<3x8xf32>
  return %1, %2, %3, %4 : tensor<8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<3x8xf32>
}

// -----

// An argument that several slots want is on the lowest one; one that says where it is, is there. A result that is asked for elsewhere is
// brought there. What nobody uses, and a constant that is returned, are on the default slot.
// CHECK: module attributes {tx.slots = ["default", "@a", "@b"]}
// CHECK-LABEL: func.func @ends
// CHECK-SAME: %[[X:.*]]: tensor<8xf32> {heddle.affinity = "@a"}, %[[Y:.*]]: tensor<8xf32> {heddle.affinity = "@b"}, %{{.*}}: tensor<8xf32> {heddle.affinity = "default"})
// CHECK-SAME: -> (tensor<8xf32> {heddle.affinity = "@b"}, tensor<8xf32> {heddle.affinity = "@a"}, tensor<8xf32> {heddle.affinity = "@a"}, tensor<8xf32> {heddle.affinity = "default"})
// CHECK: %[[XB:.*]] = tx.transfer %[[X]] from "@a" to "@b"
// CHECK: %[[N:.*]] = tx.neg %[[XB]]
// CHECK: %[[YA:.*]] = tx.transfer %[[Y]] from "@b" to "@a"
// CHECK: tx.add %[[X]], %[[YA]]
// CHECK: %[[NA:.*]] = tx.transfer %[[N]] from "@b" to "@a"
// CHECK: return %[[N]], %[[NA]], %[[X]], %{{.*}} :
// SAID: argument 0: on @a, decided by tx.add; wanted on @a, @b
// SAID: argument 1: on @b, decided by its annotation
// SAID: argument 2: on default, decided by default
// SAID: result 1: on @a, decided by its annotation
// SAID: result 2: on @a, decided by argument 0
// SAID: result 3: on default, decided by default
func.func @ends(%x: tensor<8xf32>, %y: tensor<8xf32> {heddle.affinity = "@b"}, %unused: tensor<8xf32>)
    -> (tensor<8xf32>, tensor<8xf32> {heddle.affinity = "@a"}, tensor<8xf32>, tensor<8xf32>) {
  %0 = tx.neg %x {place = "@b"} : tensor<8xf32>
  %1 = tx.add %x, %y {place = "@a"} : tensor<8xf32>
  %c = tx.parameter "c" : tensor<8xf32>
  return %0, %0, %x, %c : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// An argument that is only looked at through a view is where the view is used. Placed views stay where they were placed.
// CHECK-LABEL: func.func @views
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32> {heddle.affinity = "@b"})
// CHECK: %[[V:.*]] = tx.reshape %[[X]]
// CHECK: %[[N:.*]] = tx.neg %[[V]]
// CHECK: %[[THERE:.*]] = tx.transfer %[[N]] from "@b" to "@c"
// CHECK: tx.reshape %[[THERE]]
func.func @views(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tx.reshape %x : tensor<8xf32> -> tensor<2x4xf32>
  %1 = tx.neg %0 {place = "@b"} : tensor<2x4xf32>
  %2 = tx.reshape %1 {place = "@c"} : tensor<2x4xf32> -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Nothing placed: one slot, and nothing to remark.
// CHECK: module attributes {tx.slots = ["default"]}
// CHECK-LABEL: func.func @plain
// CHECK-NOT: tx.transfer
// SAID-NOT: have no placement and
func.func @plain(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tx.neg %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
