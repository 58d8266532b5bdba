// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions that store the parts of a concat in its memory.
// RUN: heddle-opt --split-input-file --heddle-store-parts %s | FileCheck %s

// Parts of rows: each region stores its channels at the pitch of all channels. The concat has no region.
// CHECK-LABEL: @channels
// CHECK: %[[A:.*]] = tx.dispatch "conv"(%{{.*}}) on "default" attributes {pitch = 48 : i64}
// CHECK: %[[B:.*]] = tx.dispatch "pool"(%{{.*}}) on "default" attributes {pitch = 48 : i64}
// CHECK: %[[ALL:.*]] = tx.concat %[[A]], %[[B]] {axis = 3 : i64}
// CHECK: return %[[ALL]]
module attributes {tx.families = ["cpu"]} {
func.func @channels(%x: tensor<1x8x8x16xf32>, %w: tensor<1x1x16x32xf32>) -> tensor<1x8x8x48xf32> {
  %a = tx.dispatch "conv"(%x, %w) on "default" : (tensor<1x8x8x16xf32>, tensor<1x1x16x32xf32>) -> tensor<1x8x8x32xf32> {
  ^bb0(%i: tensor<1x8x8x16xf32>, %f: tensor<1x1x16x32xf32>):
    %0 = tx.conv %i, %f {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x8x8x16xf32>, tensor<1x1x16x32xf32> -> tensor<1x8x8x32xf32>
    %1 = tx.relu %0 : tensor<1x8x8x32xf32>
    tx.yield %1 : tensor<1x8x8x32xf32>
  }
  %b = tx.dispatch "pool"(%x) on "default" : (tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32> {
  ^bb0(%i: tensor<1x8x8x16xf32>):
    %0 = tx.pool max %i {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : tensor<1x8x8x16xf32> -> tensor<1x8x8x16xf32>
    tx.yield %0 : tensor<1x8x8x16xf32>
  }
  %c = tx.dispatch "concat"(%a, %b) on "default" : (tensor<1x8x8x32xf32>, tensor<1x8x8x16xf32>) -> tensor<1x8x8x48xf32> {
  ^bb0(%i: tensor<1x8x8x32xf32>, %j: tensor<1x8x8x16xf32>):
    %0 = tx.concat %i, %j {axis = 3} : tensor<1x8x8x32xf32>, tensor<1x8x8x16xf32> -> tensor<1x8x8x48xf32>
    tx.yield %0 : tensor<1x8x8x48xf32>
  }
  return %c : tensor<1x8x8x48xf32>
}
}

// -----

// Along the outermost dimension, parts are ranges, which every kernel can store. The last part may have any size.
// CHECK-LABEL: @ranges
// CHECK-NOT: pitch
// CHECK: tx.concat %{{.*}}, %{{.*}} {axis = 1 : i64} : tensor<1x4x16xf32>, tensor<1x3x16xf32>
// CHECK-NEXT: return
module attributes {tx.families = ["cpu"]} {
func.func @ranges(%x: tensor<1x4x16xf32>, %y: tensor<1x3x16xf32>) -> tensor<1x7x16xf32> {
  %a = tx.dispatch "softmax"(%x) on "default" : (tensor<1x4x16xf32>) -> tensor<1x4x16xf32> {
  ^bb0(%i: tensor<1x4x16xf32>):
    %0 = tx.softmax %i {axis = 2} : tensor<1x4x16xf32>
    tx.yield %0 : tensor<1x4x16xf32>
  }
  %b = tx.dispatch "exp"(%y) on "default" : (tensor<1x3x16xf32>) -> tensor<1x3x16xf32> {
  ^bb0(%i: tensor<1x3x16xf32>):
    %0 = tx.exp %i : tensor<1x3x16xf32>
    tx.yield %0 : tensor<1x3x16xf32>
  }
  %c = tx.dispatch "concat"(%a, %b) on "default" : (tensor<1x4x16xf32>, tensor<1x3x16xf32>) -> tensor<1x7x16xf32> {
  ^bb0(%i: tensor<1x4x16xf32>, %j: tensor<1x3x16xf32>):
    %0 = tx.concat %i, %j {axis = 1} : tensor<1x4x16xf32>, tensor<1x3x16xf32> -> tensor<1x7x16xf32>
    tx.yield %0 : tensor<1x7x16xf32>
  }
  return %c : tensor<1x7x16xf32>
}
}

// -----

// A copy is needed for an argument, a part that is also read elsewhere or twice, a part that would not start at a multiple of 64 bytes, a kernel that
// stores only dense rows, and an epilogue whose operand has the result's dense rows.
// CHECK-LABEL: @copied
// CHECK-NOT: pitch
// CHECK-COUNT-5: tx.dispatch "concat
module attributes {tx.families = ["cpu"]} {
func.func @copied(%x: tensor<4x16xf32>, %y: tensor<4x12xf32>, %w: tensor<16x16xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x28xf32>, tensor<4x32xf32>, tensor<4x32xf32>) {
  %twice = tx.dispatch "twice"(%x) on "default" : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%i: tensor<4x16xf32>):
    %0 = tx.cumsum %i {axis = 1} : tensor<4x16xf32>
    tx.yield %0 : tensor<4x16xf32>
  }
  %0 = tx.dispatch "concat0"(%x, %twice) on "default" : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x32xf32> {
  ^bb0(%i: tensor<4x16xf32>, %j: tensor<4x16xf32>):
    %c = tx.concat %i, %j {axis = 1} : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x32xf32>
    tx.yield %c : tensor<4x32xf32>
  }
  %1 = tx.dispatch "concat1"(%twice) on "default" : (tensor<4x16xf32>) -> tensor<4x32xf32> {
  ^bb0(%i: tensor<4x16xf32>):
    %c = tx.concat %i, %i {axis = 1} : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x32xf32>
    tx.yield %c : tensor<4x32xf32>
  }
  %short = tx.dispatch "cumsum"(%y) on "default" : (tensor<4x12xf32>) -> tensor<4x12xf32> {
  ^bb0(%i: tensor<4x12xf32>):
    %c = tx.cumsum %i {axis = 1} : tensor<4x12xf32>
    tx.yield %c : tensor<4x12xf32>
  }
  %long = tx.dispatch "cumsum"(%x) on "default" : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%i: tensor<4x16xf32>):
    %c = tx.cumsum %i {axis = 1} : tensor<4x16xf32>
    tx.yield %c : tensor<4x16xf32>
  }
  %2 = tx.dispatch "concat2"(%short, %long) on "default" : (tensor<4x12xf32>, tensor<4x16xf32>) -> tensor<4x28xf32> {
  ^bb0(%i: tensor<4x12xf32>, %j: tensor<4x16xf32>):
    %c = tx.concat %i, %j {axis = 1} : tensor<4x12xf32>, tensor<4x16xf32> -> tensor<4x28xf32>
    tx.yield %c : tensor<4x28xf32>
  }
  %m = tx.dispatch "softmax"(%x) on "default" : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%i: tensor<4x16xf32>):
    %c = tx.softmax %i {axis = 1} : tensor<4x16xf32>
    tx.yield %c : tensor<4x16xf32>
  }
  %n = tx.dispatch "cumsum"(%x) on "default" : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%i: tensor<4x16xf32>):
    %c = tx.cumsum %i {axis = 1} : tensor<4x16xf32>
    tx.yield %c : tensor<4x16xf32>
  }
  %3 = tx.dispatch "concat3"(%m, %n) on "default" : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x32xf32> {
  ^bb0(%i: tensor<4x16xf32>, %j: tensor<4x16xf32>):
    %c = tx.concat %i, %j {axis = 1} : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x32xf32>
    tx.yield %c : tensor<4x32xf32>
  }
  %p = tx.dispatch "matmul"(%x, %w, %x) on "default" : (tensor<4x16xf32>, tensor<16x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%i: tensor<4x16xf32>, %f: tensor<16x16xf32>, %r: tensor<4x16xf32>):
    %c = tx.matmul %i, %f : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32>
    %s = tx.add %c, %r : tensor<4x16xf32>
    tx.yield %s : tensor<4x16xf32>
  }
  %q = tx.dispatch "cumsum"(%x) on "default" : (tensor<4x16xf32>) -> tensor<4x16xf32> {
  ^bb0(%i: tensor<4x16xf32>):
    %c = tx.cumsum %i {axis = 1} : tensor<4x16xf32>
    tx.yield %c : tensor<4x16xf32>
  }
  %4 = tx.dispatch "concat4"(%p, %q) on "default" : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x32xf32> {
  ^bb0(%i: tensor<4x16xf32>, %j: tensor<4x16xf32>):
    %c = tx.concat %i, %j {axis = 1} : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x32xf32>
    tx.yield %c : tensor<4x32xf32>
  }
  return %0, %1, %2, %3, %4 : tensor<4x32xf32>, tensor<4x32xf32>, tensor<4x28xf32>, tensor<4x32xf32>, tensor<4x32xf32>
}
}
