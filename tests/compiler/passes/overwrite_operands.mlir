// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results that take the place of an operand that nobody reads afterwards.
// RUN: heddle-opt --split-input-file --heddle-overwrite-operands %s | FileCheck %s

// A residual connection: the projection reads %h too, but in front of the sum, which waits for it. The place of %g, which is another value, is not asked for twice.
// CHECK-LABEL: @residual
// CHECK: tx.dispatch "first"
// CHECK-NOT: tied
// CHECK: tx.dispatch "project"
// CHECK-NOT: tied
// CHECK: tx.dispatch "sum"(%{{.*}}, %{{.*}}) on "default" attributes {tied = array<i64: 1>}
// CHECK: tx.dispatch "last"
// CHECK-NOT: tied
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @residual(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %h = tx.dispatch "first"(%x) on "default" : (tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>):
    %0 = tx.exp %a : tensor<64x64xf32>
    tx.yield %0 : tensor<64x64xf32>
  }
  %g = tx.dispatch "project"(%h, %x) on "default" : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>):
    %0 = tx.matmul %a, %b : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    tx.yield %0 : tensor<64x64xf32>
  }
  %v = tx.reshape %h : tensor<64x64xf32> -> tensor<4096xf32>
  %w = tx.reshape %v : tensor<4096xf32> -> tensor<64x64xf32>
  %s = tx.dispatch "sum"(%g, %w) on "default" : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>):
    %0 = tx.slice %a {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<64x64xf32> -> tensor<64x64xf32>
    %1 = tx.neg %b : tensor<64x64xf32>
    %2 = tx.add %0, %1 : tensor<64x64xf32>
    tx.yield %2 : tensor<64x64xf32>
  }
  %y = tx.dispatch "last"(%s) on "default" : (tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>):
    %0 = tx.tanh %a : tensor<64x64xf32>
    tx.yield %0 : tensor<64x64xf32>
  }
  return %y : tensor<64x64xf32>
}
}

// -----

// Not an argument, a result, what is read later, what another reads that need not be over, another type, or a value that is read through two operands.
// CHECK-LABEL: @not_overwritten
// CHECK-NOT: tied
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @not_overwritten(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xi32>) {
  %a = tx.dispatch "of argument"(%x) on "default" : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<64xf32>):
    %0 = tx.exp %i : tensor<64xf32>
    tx.yield %0 : tensor<64xf32>
  }
  %b = tx.dispatch "early"(%a) on "default" : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<64xf32>):
    %0 = tx.neg %i : tensor<64xf32>
    tx.yield %0 : tensor<64xf32>
  }
  %c = tx.dispatch "beside"(%a) on "default" : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<64xf32>):
    %0 = tx.abs %i : tensor<64xf32>
    tx.yield %0 : tensor<64xf32>
  }
  %d = tx.dispatch "other type"(%c) on "default" : (tensor<64xf32>) -> tensor<64xi32> {
  ^bb0(%i: tensor<64xf32>):
    %0 = tx.cast %i : tensor<64xf32> -> tensor<64xi32>
    tx.yield %0 : tensor<64xi32>
  }
  %v = tx.reshape %b : tensor<64xf32> -> tensor<8x8xf32>
  %w = tx.reshape %v : tensor<8x8xf32> -> tensor<64xf32>
  %e = tx.dispatch "twice"(%b, %w) on "default" : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<64xf32>, %j: tensor<64xf32>):
    %0 = tx.add %i, %j : tensor<64xf32>
    tx.yield %0 : tensor<64xf32>
  }
  %f = tx.dispatch "of a result"(%e) on "default" : (tensor<64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<64xf32>):
    %0 = tx.exp %i : tensor<64xf32>
    tx.yield %0 : tensor<64xf32>
  }
  return %e, %f, %d : tensor<64xf32>, tensor<64xf32>, tensor<64xi32>
}
}

// -----

// An element that is needed at another place, too, stays.
// CHECK-LABEL: @moved
// CHECK-NOT: tied
// CHECK: return
module attributes {tx.families = ["cpu"]} {
func.func @moved(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = tx.dispatch "make"(%x) on "default" : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%i: tensor<8x8xf32>):
    %0 = tx.exp %i : tensor<8x8xf32>
    tx.yield %0 : tensor<8x8xf32>
  }
  %b = tx.dispatch "move"(%a) on "default" : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%i: tensor<8x8xf32>):
    %0 = tx.transpose %i {permutation = array<i64: 1, 0>} : tensor<8x8xf32> -> tensor<8x8xf32>
    %1 = tx.add %i, %0 : tensor<8x8xf32>
    tx.yield %1 : tensor<8x8xf32>
  }
  %c = tx.dispatch "end"(%b) on "default" : (tensor<8x8xf32>) -> tensor<8x8xf32> {
  ^bb0(%i: tensor<8x8xf32>):
    %0 = tx.transpose %i {permutation = array<i64: 1, 0>} : tensor<8x8xf32> -> tensor<8x8xf32>
    tx.yield %0 : tensor<8x8xf32>
  }
  return %c : tensor<8x8xf32>
}
}

// -----

// A concat whose parts regions have stored is memory like a region's result.
// CHECK-LABEL: @of_parts
// CHECK: tx.concat
// CHECK: tx.dispatch "exp"(%{{.*}}) on "default" attributes {tied = array<i64: 0>}
module attributes {tx.families = ["cpu"]} {
func.func @of_parts(%x: tensor<1x64xf32>) -> tensor<2x64xf32> {
  %a = tx.dispatch "neg"(%x) on "default" : (tensor<1x64xf32>) -> tensor<1x64xf32> {
  ^bb0(%i: tensor<1x64xf32>):
    %0 = tx.neg %i : tensor<1x64xf32>
    tx.yield %0 : tensor<1x64xf32>
  }
  %b = tx.dispatch "abs"(%x) on "default" : (tensor<1x64xf32>) -> tensor<1x64xf32> {
  ^bb0(%i: tensor<1x64xf32>):
    %0 = tx.abs %i : tensor<1x64xf32>
    tx.yield %0 : tensor<1x64xf32>
  }
  %c = tx.concat %a, %b {axis = 0} : tensor<1x64xf32>, tensor<1x64xf32> -> tensor<2x64xf32>
  %e = tx.dispatch "exp"(%c) on "default" : (tensor<2x64xf32>) -> tensor<2x64xf32> {
  ^bb0(%i: tensor<2x64xf32>):
    %0 = tx.exp %i : tensor<2x64xf32>
    tx.yield %0 : tensor<2x64xf32>
  }
  %r = tx.dispatch "last"(%e) on "default" : (tensor<2x64xf32>) -> tensor<2x64xf32> {
  ^bb0(%i: tensor<2x64xf32>):
    %0 = tx.tanh %i : tensor<2x64xf32>
    tx.yield %0 : tensor<2x64xf32>
  }
  return %r : tensor<2x64xf32>
}
}

// -----

// Donated arguments. %a is for the result alone, %b for any value; the region that overwrites %b waits for its other reader.
// CHECK-LABEL: @donated
// CHECK: tx.dispatch "inside"(%arg1) on "default" attributes {tied = array<i64: 0>}
// CHECK: tx.dispatch "product"
// CHECK-NOT: tied
// CHECK: tx.dispatch "last"(%arg0, %{{.*}}) on "default" attributes {tied = array<i64: 0>}
module attributes {tx.families = ["cpu"]} {
func.func @donated(%a: tensor<64x64xf32> {tx.alias = 0 : i64}, %b: tensor<64x64xf32> {tx.donated}) -> tensor<64x64xf32> {
  %0 = tx.dispatch "inside"(%b) on "default" : (tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%x: tensor<64x64xf32>):
    %e = tx.exp %x : tensor<64x64xf32>
    tx.yield %e : tensor<64x64xf32>
  }
  %1 = tx.dispatch "product"(%a, %0) on "default" : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>):
    %e = tx.matmul %x, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    tx.yield %e : tensor<64x64xf32>
  }
  %2 = tx.dispatch "last"(%a, %1) on "default" : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>):
    %e = tx.sub %x, %y : tensor<64x64xf32>
    tx.yield %e : tensor<64x64xf32>
  }
  return %2 : tensor<64x64xf32>
}
}

// -----

// Read after it, on another slot, and borrowed.
// CHECK-LABEL: @not_donated
// CHECK-NOT: tied
// CHECK: return
module attributes {tx.families = ["cpu", "cpu"], tx.slots = ["default", "@b"]} {
func.func @not_donated(%a: tensor<64x64xf32> {tx.alias = 1 : i64}, %b: tensor<64x64xf32> {heddle.affinity = "@b", tx.donated}, %c: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = tx.dispatch "other_result"(%a, %b, %c) on "default" : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %z: tensor<64x64xf32>):
    %e = tx.add %x, %y : tensor<64x64xf32>
    %f = tx.add %e, %z : tensor<64x64xf32>
    tx.yield %f : tensor<64x64xf32>
  }
  return %0, %a : tensor<64x64xf32>, tensor<64x64xf32>
}
}
