// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s

// The bias, the residual addition and the activation become part of the convolution that comes last; the value that two ops
// read ends its region, and that is recorded.
// CHECK: tx.fusion_log = [{{.*}}consumer = "tx.add", kind = "MultipleUses", producer = "tx.relu"
// CHECK-LABEL: @residual
// CHECK: %[[A:.*]] = tx.dispatch "residual.0.conv"(%arg0, %arg1)
// CHECK: tx.conv
// CHECK-NEXT: tx.relu
// CHECK-NEXT: tx.yield
// CHECK: %[[B:.*]] = tx.dispatch "residual.1.conv"(%[[A]], %arg1, %arg2)
// CHECK: tx.conv
// CHECK-NEXT: tx.broadcast
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.relu
// CHECK-NEXT: tx.yield
// CHECK: return %[[B]]
func.func @residual(%x: tensor<1x4x4x8xf32>, %w: tensor<1x1x8x8xf32>, %b: tensor<8xf32>) -> tensor<1x4x4x8xf32> {
  %0 = tx.conv %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  %1 = tx.relu %0 : tensor<1x4x4x8xf32>
  %2 = tx.conv %1, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x4x4x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x4x4x8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 3>} : tensor<8xf32> -> tensor<1x4x4x8xf32>
  %3 = tx.add %2, %bb : tensor<1x4x4x8xf32>
  %4 = tx.add %1, %3 : tensor<1x4x4x8xf32>
  %5 = tx.relu %4 : tensor<1x4x4x8xf32>
  return %5 : tensor<1x4x4x8xf32>
}

// -----

// A reshape is a view: it stays between the regions.
// CHECK-LABEL: @view
// CHECK: tx.dispatch
// CHECK: tx.reshape %{{.*}} : tensor<4x8xf32> -> tensor<32xf32>
// CHECK: tx.dispatch
func.func @view(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = tx.relu %x : tensor<4x8xf32>
  %1 = tx.reshape %0 : tensor<4x8xf32> -> tensor<32xf32>
  %2 = tx.exp %1 : tensor<32xf32>
  return %2 : tensor<32xf32>
}

// -----

// A broadcast that is returned has a region of its own, and who else reads it reads what that wrote.
// CHECK-LABEL: @broadcasts
// CHECK: %[[B:.*]] = tx.dispatch "broadcasts.0.broadcast"(%arg1)
// CHECK: tx.dispatch "broadcasts.1.add"(%arg0, %[[B]])
// CHECK-NOT: tx.dispatch
func.func @broadcasts(%x: tensor<4x8xf32>, %v: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tx.broadcast %v {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<4x8xf32>
  %1 = tx.add %x, %0 : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// One cluster out of a diamond of element-wise ops.
// CHECK-LABEL: @cluster
// CHECK: tx.dispatch
// CHECK: tx.exp
// CHECK: tx.neg
// CHECK: tx.add
// CHECK-NOT: tx.dispatch
func.func @cluster(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> {
  %0 = tx.exp %x : tensor<16xf32>
  %1 = tx.neg %y : tensor<16xf32>
  %2 = tx.add %0, %1 : tensor<16xf32>
  return %2 : tensor<16xf32>
}

// -----

// A value that several ops read does not end its region if what they make of it comes together again: x * sigmoid(x).
// CHECK-LABEL: @together
// CHECK: %[[R:.*]] = tx.dispatch "together.0.matmul"(%arg0, %arg1)
// CHECK: tx.matmul
// CHECK-NEXT: tx.sigmoid
// CHECK-NEXT: tx.mul
// CHECK-NEXT: tx.constant
// CHECK-NEXT: tx.compare
// CHECK-NEXT: tx.exp
// CHECK-NEXT: tx.select
// CHECK-NEXT: tx.yield
// CHECK-NEXT: }
// CHECK-NEXT: return %[[R]]
func.func @together(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = tx.matmul %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %1 = tx.sigmoid %0 : tensor<4x6xf32>
  %2 = tx.mul %0, %1 : tensor<4x6xf32>
  %c = tx.constant dense<0.5> : tensor<4x6xf32>
  %3 = tx.compare lt %2, %c : tensor<4x6xf32> -> tensor<4x6xi1>
  %4 = tx.exp %2 : tensor<4x6xf32>
  %5 = tx.select %3, %2, %4 : tensor<4x6xi1>, tensor<4x6xf32>
  return %5 : tensor<4x6xf32>
}

// -----

// One of the values is needed outside.
// CHECK: tx.fusion_log = [{{.*}}consumer = "tx.sigmoid", kind = "MultipleUses", producer = "tx.matmul"
// CHECK-LABEL: @apart
// CHECK: tx.dispatch "apart.0.matmul"
// CHECK: tx.matmul
// CHECK-NEXT: tx.yield
// CHECK: tx.dispatch "apart.1.sigmoid"
func.func @apart(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = tx.matmul %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %1 = tx.sigmoid %0 : tensor<4x6xf32>
  %2 = tx.mul %0, %1 : tensor<4x6xf32>
  return %0, %2 : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// Indices of a look-up are of another shape, and stay outside.
// CHECK-LABEL: func.func @looked_up
// CHECK: tx.dispatch "looked_up.0.neg"(%arg0)
// CHECK: tx.dispatch "looked_up.1.softmax"
// CHECK: tx.gather
// CHECK: tx.exp
// CHECK: tx.softmax
// CHECK: return
func.func @looked_up(%ids: tensor<8xi64>, %w: tensor<1000x16xf32>, %x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %n = tx.neg %ids : tensor<8xi64>
  %g = tx.gather %w, %n {axis = 0 : i64} : tensor<1000x16xf32>, tensor<8xi64> -> tensor<8x16xf32>
  %e = tx.exp %x : tensor<8x16xf32>
  %s = tx.add %e, %g : tensor<8x16xf32>
  %o = tx.softmax %s {axis = 1 : i64} : tensor<8x16xf32>
  return %o : tensor<8x16xf32>
}

// What the squares and the quotient alone read is computed in the region, too.
// CHECK-LABEL: func.func @squares
// CHECK: tx.dispatch "squares.0.reduce"(%arg0)
// CHECK: tx.cast
// CHECK: tx.reduce mean
// CHECK: return
func.func @squares(%x: tensor<8x16xf16>) -> tensor<8x16xf32> {
  %c = tx.cast %x : tensor<8x16xf16> -> tensor<8x16xf32>
  %p = tx.mul %c, %c : tensor<8x16xf32>
  %m = tx.reduce mean %p {axes = array<i64: 1>} : tensor<8x16xf32> -> tensor<8xf32>
  %r = tx.rsqrt %m : tensor<8xf32>
  %b = tx.broadcast %r {dimensions = array<i64: 0>} : tensor<8xf32> -> tensor<8x16xf32>
  %y = tx.mul %c, %b : tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// A normalization is one region, from the squares in front of its reduction to the factors behind it; what another op reads in between ends the region.
// CHECK-LABEL: @normalized
// CHECK: %[[Y:.*]] = tx.dispatch "normalized.0.reduce"(%arg0, %arg1)
// CHECK: tx.mul
// CHECK: tx.reduce mean
// CHECK: tx.rsqrt
// CHECK: tx.mul
// CHECK: tx.mul
// CHECK: tx.yield
// CHECK: return %[[Y]]
func.func @normalized(%x: tensor<1x8x16xf32>, %w: tensor<16xf32>) -> tensor<1x8x16xf32> {
  %p = tx.mul %x, %x : tensor<1x8x16xf32>
  %m = tx.reduce mean %p {axes = array<i64: 2>} : tensor<1x8x16xf32> -> tensor<1x8xf32>
  %s = tx.rsqrt %m : tensor<1x8xf32>
  %r = tx.reshape %s : tensor<1x8xf32> -> tensor<8xf32>
  %b = tx.broadcast %r {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<1x8x16xf32>
  %n = tx.mul %x, %b : tensor<1x8x16xf32>
  %g = tx.broadcast %w {dimensions = array<i64: 2>} : tensor<16xf32> -> tensor<1x8x16xf32>
  %h = tx.mul %g, %n : tensor<1x8x16xf32>
  return %h : tensor<1x8x16xf32>
}

// -----

// CHECK-LABEL: @read_in_between
// CHECK: %[[S:.*]] = tx.dispatch "read_in_between.0.reduce"(%arg0)
// CHECK: tx.reduce max
// CHECK-NEXT: tx.yield
// CHECK: %[[D:.*]] = tx.dispatch "read_in_between.1.sub"(%arg0, %[[S]])
// CHECK: return %[[S]], %[[D]]
func.func @read_in_between(%x: tensor<8x16xf32>) -> (tensor<8xf32>, tensor<8x16xf32>) {
  %m = tx.reduce max %x {axes = array<i64: 1>} : tensor<8x16xf32> -> tensor<8xf32>
  %b = tx.broadcast %m {dimensions = array<i64: 0>} : tensor<8xf32> -> tensor<8x16xf32>
  %d = tx.sub %x, %b : tensor<8x16xf32>
  return %m, %d : tensor<8xf32>, tensor<8x16xf32>
}

// -----

// Without devices that have a kernel for it, a softmax between two products has three.
// CHECK: kind = "NoKernel"
// CHECK-LABEL: @attention
// CHECK-COUNT-3: tx.dispatch
func.func @attention(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %s = tx.matmul %q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32> -> tensor<2x8x8xf32>
  %p = tx.softmax %s {axis = 2 : i64} : tensor<2x8x8xf32>
  %o = tx.matmul %p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32> -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// A rotation of halves is one region with the transpose behind it; the innermost dimension stays where it is.
// CHECK-LABEL: @rotated
// CHECK-COUNT-1: tx.dispatch
// CHECK: tx.slice
// CHECK: tx.slice
// CHECK: tx.neg
// CHECK: tx.concat
// CHECK: tx.add
// CHECK: tx.transpose
// CHECK-NOT: tx.dispatch
// CHECK: return
func.func @rotated(%x: tensor<5x3x16xf32>, %cos: tensor<5x3x16xf32>) -> tensor<3x5x16xf32> {
  %a = tx.slice %x {starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : tensor<5x3x16xf32> -> tensor<5x3x8xf32>
  %b = tx.slice %x {starts = array<i64: 0, 0, 8>, strides = array<i64: 1, 1, 1>} : tensor<5x3x16xf32> -> tensor<5x3x8xf32>
  %n = tx.neg %b : tensor<5x3x8xf32>
  %c = tx.concat %n, %a {axis = 2} : tensor<5x3x8xf32>, tensor<5x3x8xf32> -> tensor<5x3x16xf32>
  %m = tx.mul %x, %cos : tensor<5x3x16xf32>
  %s = tx.add %m, %c : tensor<5x3x16xf32>
  %t = tx.transpose %s {permutation = array<i64: 1, 0, 2>} : tensor<5x3x16xf32> -> tensor<3x5x16xf32>
  return %t : tensor<3x5x16xf32>
}

// -----

// What somebody else reads, too, is made once; a transpose of the innermost dimension has a kernel of its own; what is costly is not computed for each
// part of a concat that something is computed of.
// CHECK-LABEL: @not_taken_in
// CHECK-COUNT-6: tx.dispatch
// CHECK: return
func.func @not_taken_in(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>, tensor<4x16xf32>) {
  %a = tx.slice %x {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<4x8xf32> -> tensor<4x4xf32>
  %n = tx.neg %a : tensor<4x4xf32>
  %p = tx.add %x, %y : tensor<4x8xf32>
  %t = tx.transpose %p {permutation = array<i64: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  %e = tx.exp %y : tensor<4x8xf32>
  %c = tx.concat %e, %x {axis = 1} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x16xf32>
  %d = tx.neg %c : tensor<4x16xf32>
  return %a, %n, %t, %d : tensor<4x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>, tensor<4x16xf32>
}

// -----

// The last op's parts are computed where each is stored.
// CHECK-LABEL: @costly_parts
// CHECK-COUNT-1: tx.dispatch
// CHECK-NOT: tx.dispatch
// CHECK: return
func.func @costly_parts(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %e = tx.exp %x : tensor<4x8xf32>
  %f = tx.exp %y : tensor<4x8xf32>
  %c = tx.concat %e, %f {axis = 1} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}

// -----

// A cache and the rotated keys of a token, which go behind it, are one region; the reshape in between, which only moves dimensions of one element, is a transpose there.
// The cache may be empty.
// CHECK-LABEL: @appended
// CHECK: %[[Y:.*]] = tx.dispatch "appended.0.mul"(%arg0, %arg1, %arg2)
// CHECK-DAG: tx.neg
// CHECK-DAG: tx.transpose {{.*}} {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x1x3x32xf32> -> tensor<1x3x1x32xf32>
// CHECK: tx.concat {{.*}} {axis = 3 : i64}
// CHECK: tx.concat %arg{{.*}}, %{{.*}} {axis = 2 : i64}
// CHECK-NOT: tx.dispatch
// CHECK: return %[[Y]]
func.func @appended(%x: tensor<1x1x3x64xf32>, %sin: tensor<1x3x1x64xf32>, %past: tensor<1x3x?x64xf32, #tx.dims<()[s0] -> (1, 3, s0, 64)>>)
    -> tensor<1x3x?x64xf32, #tx.dims<()[s0] -> (1, 3, s0 + 1, 64)>> attributes {tx.symbols = ["past"]} {
  %low = tx.slice %x {starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x1x3x64xf32> -> tensor<1x1x3x32xf32>
  %high = tx.slice %x {starts = array<i64: 0, 0, 0, 32>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x1x3x64xf32> -> tensor<1x1x3x32xf32>
  %minus = tx.neg %high : tensor<1x1x3x32xf32>
  %l = tx.reshape %low : tensor<1x1x3x32xf32> -> tensor<1x3x1x32xf32>
  %m = tx.reshape %minus : tensor<1x1x3x32xf32> -> tensor<1x3x1x32xf32>
  %turned = tx.concat %m, %l {axis = 3 : i64} : tensor<1x3x1x32xf32>, tensor<1x3x1x32xf32> -> tensor<1x3x1x64xf32>
  %scaled = tx.mul %turned, %sin : tensor<1x3x1x64xf32>
  %longer = tx.concat %past, %scaled {axis = 2 : i64} : tensor<1x3x?x64xf32, #tx.dims<()[s0] -> (1, 3, s0, 64)>>, tensor<1x3x1x64xf32>
      -> tensor<1x3x?x64xf32, #tx.dims<()[s0] -> (1, 3, s0 + 1, 64)>>
  return %longer : tensor<1x3x?x64xf32, #tx.dims<()[s0] -> (1, 3, s0 + 1, 64)>>
}

// -----

// A reshape that does more stays a view between two regions, and so does one of what others read, too.
// CHECK-LABEL: @divided
// CHECK: tx.dispatch "divided.0.neg"
// CHECK: tx.dispatch "divided.1.concat"
// CHECK: tx.dispatch "divided.2.neg"
// CHECK: tx.dispatch "divided.3.concat"
func.func @divided(%x: tensor<6x4xf32>, %y: tensor<2x3x4xf32>, %z: tensor<6x1x4xf32>, %u: tensor<2x6x4xf32>)
    -> (tensor<4x3x4xf32>, tensor<3x6x4xf32>, tensor<6x1x4xf32>) {
  %n = tx.neg %x : tensor<6x4xf32>
  %r = tx.reshape %n : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %c = tx.concat %r, %y {axis = 0 : i64} : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<4x3x4xf32>
  %m = tx.neg %z : tensor<6x1x4xf32>
  %s = tx.reshape %m : tensor<6x1x4xf32> -> tensor<1x6x4xf32>
  %d = tx.concat %s, %u {axis = 0 : i64} : tensor<1x6x4xf32>, tensor<2x6x4xf32> -> tensor<3x6x4xf32>
  return %c, %d, %m : tensor<4x3x4xf32>, tensor<3x6x4xf32>, tensor<6x1x4xf32>
}

// -----

// A matrix is packed as it lies.
// CHECK-LABEL: @packed
// CHECK: tx.dispatch "packed.0.pack"(%arg0)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tx.transpose
// CHECK-NEXT: tx.pack
// CHECK-NEXT: tx.yield
func.func @packed(%w: tensor<20x4xf32>) -> tensor<128xf32> {
  %0 = tx.transpose %w {permutation = array<i64: 1, 0>} : tensor<20x4xf32> -> tensor<4x20xf32>
  %1 = tx.pack %0 {groups = 1} : tensor<4x20xf32> -> tensor<128xf32>
  return %1 : tensor<128xf32>
}

// -----

// Look-ups are like element-wise ops, of which a region has any number: each is weighted inside. What they look up in is a tensor.
// CHECK-LABEL: @interpolate
// CHECK: tx.dispatch "interpolate.0.relu"
// CHECK: tx.dispatch "interpolate.1.gather"
// CHECK: tx.gather
// CHECK-NEXT: tx.broadcast
// CHECK-NEXT: tx.mul
// CHECK-NEXT: tx.gather
// CHECK-NEXT: tx.broadcast
// CHECK-NEXT: tx.mul
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.yield
// CHECK-NOT: tx.dispatch
func.func @interpolate(%x: tensor<4x8xf32>, %i: tensor<6xi64>, %j: tensor<6xi64>, %u: tensor<6xf32>, %v: tensor<6xf32>) -> tensor<6x8xf32> {
  %r = tx.relu %x : tensor<4x8xf32>
  %0 = tx.gather %r, %i {axis = 0} : tensor<4x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  %bu = tx.broadcast %u {dimensions = array<i64: 0>} : tensor<6xf32> -> tensor<6x8xf32>
  %1 = tx.mul %0, %bu : tensor<6x8xf32>
  %2 = tx.gather %r, %j {axis = 0} : tensor<4x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  %bv = tx.broadcast %v {dimensions = array<i64: 0>} : tensor<6xf32> -> tensor<6x8xf32>
  %3 = tx.mul %2, %bv : tensor<6x8xf32>
  %4 = tx.add %1, %3 : tensor<6x8xf32>
  return %4 : tensor<6x8xf32>
}

// A broadcast that is looked up in is made as a tensor.
// CHECK-LABEL: @table_of_broadcast
// CHECK: tx.dispatch "table_of_broadcast.0.broadcast"
// CHECK: tx.dispatch "table_of_broadcast.1.gather"
func.func @table_of_broadcast(%x: tensor<8xf32>, %i: tensor<6xi64>) -> tensor<6x8xf32> {
  %b = tx.broadcast %x {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<4x8xf32>
  %0 = tx.gather %b, %i {axis = 0} : tensor<4x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  %1 = tx.gather %b, %i {axis = 0} : tensor<4x8xf32>, tensor<6xi64> -> tensor<6x8xf32>
  %2 = tx.mul %0, %1 : tensor<6x8xf32>
  return %2 : tensor<6x8xf32>
}

// The input of a scatter that is one number is no tensor; indices and updates are, also if they are the same one.
// CHECK-LABEL: @scatters
// CHECK: %[[ZEROS:.*]] = tx.constant
// CHECK: tx.dispatch "scatters.0.scatter"(%arg0, %arg1)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tx.constant
// CHECK-NEXT: tx.scatter
// CHECK: tx.dispatch "scatters.1.scatter"(%[[ZEROS]], %arg2)
// CHECK-NEXT: ^bb0
// CHECK-NEXT: tx.scatter
func.func @scatters(%i: tensor<4x3xi64>, %u: tensor<4x3xf32>, %j: tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %z = tx.constant dense<0.0> : tensor<4x8xf32>
  %0 = tx.scatter %z, %i, %u {axis = 1 : i64, kind = 0 : i32} : tensor<4x8xf32>, tensor<4x3xi64>, tensor<4x3xf32>
  %1 = tx.scatter %z, %j, %z {axis = 1 : i64, kind = 0 : i32} : tensor<4x8xf32>, tensor<4x8xi64>, tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
