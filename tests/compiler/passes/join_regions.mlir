// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions that become several results of one.
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches -heddle-overwrite-operands | FileCheck %s

// An optimizer with two parameters: the numbers of both are one region, and each parameter is updated by one, in place. They read the new number of
// steps, which is stored before, and not the old one, whose memory it takes.
// CHECK-LABEL: @optimizer
// CHECK: %[[N:.*]]:4 = tx.dispatch "optimizer.0.{{.*}}"(%arg0, %arg1) on "default" attributes {tied = array<i64: 0, -1, 1, -1>}
// CHECK: tx.pow
// CHECK: tx.pow
// CHECK: %[[A:.*]]:2 = tx.dispatch "optimizer.1.{{.*}}"(%{{.*}}, %{{.*}}, %[[N]]#1, %arg2) on "default" attributes {tied = array<i64: 0, 3>}
// CHECK-NOT: tx.pow
// CHECK: %[[B:.*]]:2 = tx.dispatch "optimizer.2.{{.*}}"(%{{.*}}, %{{.*}}, %[[N]]#3, %arg3) on "default" attributes {tied = array<i64: 0, 3>}
// CHECK-NOT: tx.dispatch
// CHECK: return
module attributes {tx.families = ["cpu"]} {
  func.func @optimizer(%s: tensor<f32> {tx.alias = 0}, %t: tensor<f32> {tx.alias = 1}, %p: tensor<256x256xf32> {tx.alias = 2},
                       %q: tensor<256x512xf32> {tx.alias = 3}, %m: tensor<256x256xf32> {tx.alias = 4}, %n: tensor<256x512xf32> {tx.alias = 5},
                       %g: tensor<256x256xf32>, %h: tensor<256x512xf32>)
      -> (tensor<f32>, tensor<f32>, tensor<256x256xf32>, tensor<256x512xf32>, tensor<256x256xf32>, tensor<256x512xf32>) {
    %one = tx.constant dense<1.0> : tensor<f32>
    %beta = tx.constant dense<0.9> : tensor<f32>
    %s1 = tx.add %s, %one : tensor<f32>
    %sp = tx.pow %beta, %s1 : tensor<f32>
    %ss = tx.sub %one, %sp : tensor<f32>
    %m1 = tx.add %m, %g : tensor<256x256xf32>
    %sb = tx.broadcast %ss {dimensions = array<i64>} : tensor<f32> -> tensor<256x256xf32>
    %u = tx.mul %m1, %sb : tensor<256x256xf32>
    %p1 = tx.sub %p, %u : tensor<256x256xf32>
    %t1 = tx.add %t, %one : tensor<f32>
    %tp = tx.pow %beta, %t1 : tensor<f32>
    %ts = tx.sub %one, %tp : tensor<f32>
    %n1 = tx.add %n, %h : tensor<256x512xf32>
    %tb = tx.broadcast %ts {dimensions = array<i64>} : tensor<f32> -> tensor<256x512xf32>
    %v = tx.mul %n1, %tb : tensor<256x512xf32>
    %q1 = tx.sub %q, %v : tensor<256x512xf32>
    return %s1, %t1, %p1, %q1, %m1, %n1
        : tensor<f32>, tensor<f32>, tensor<256x256xf32>, tensor<256x512xf32>, tensor<256x256xf32>, tensor<256x512xf32>
  }
}

// -----

// Not joined: the second one waits for a product of the first one's result. Nor is the third one, which another product gives.
// CHECK-LABEL: @through_a_product
// CHECK: tx.dispatch "through_a_product.0.exp"
// CHECK: tx.dispatch "through_a_product.1.matmul"
// CHECK: tx.add
// CHECK: tx.dispatch "through_a_product.2.matmul"
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @through_a_product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %0 = tx.exp %x : tensor<64x64xf32>
    %1 = tx.matmul %0, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    %2 = tx.add %1, %0 : tensor<64x64xf32>
    %3 = tx.matmul %2, %w : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    return %2, %3 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

// The old number is read by a region of other extents: it has to be read before the new one takes its place, so the two regions stay apart, in this
// order.
// CHECK-LABEL: @old_and_new
// CHECK: tx.dispatch "old_and_new.0.mul"(%arg1, %arg0)
// CHECK: tx.dispatch "old_and_new.1.add"(%arg0) on "default" attributes {tied = array<i64: 0>}
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @old_and_new(%s: tensor<f32> {tx.alias = 0}, %x: tensor<64xf32>) -> (tensor<f32>, tensor<64xf32>) {
    %one = tx.constant dense<1.0> : tensor<f32>
    %b = tx.broadcast %s {dimensions = array<i64>} : tensor<f32> -> tensor<64xf32>
    %y = tx.mul %x, %b : tensor<64xf32>
    %s1 = tx.add %s, %one : tensor<f32>
    return %s1, %y : tensor<f32>, tensor<64xf32>
  }
}

// -----

// Two regions read one value: it is read once.
// CHECK-LABEL: @read_once
// CHECK: tx.dispatch "read_once.0.{{.*}}"(%arg0, %arg1, %arg2)
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cuda"]} {
  func.func @read_once(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %z: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
    %0 = tx.mul %x, %y : tensor<64x64xf32>
    %1 = tx.sub %x, %z : tensor<64x64xf32>
    return %0, %1 : tensor<64x64xf32>, tensor<64x64xf32>
  }
}

// -----

// Large ones with nothing in common stay apart.
// CHECK-LABEL: @large
// CHECK: tx.dispatch "large.0.exp"(%arg0)
// CHECK: tx.dispatch "large.1.exp"(%arg1)
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @large(%x: tensor<512x512xf32>, %y: tensor<512x512xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>) {
    %0 = tx.exp %x : tensor<512x512xf32>
    %1 = tx.exp %y : tensor<512x512xf32>
    return %0, %1 : tensor<512x512xf32>, tensor<512x512xf32>
  }
}

// -----

// A normalization whose mean and differences are kept for a backward pass goes through its rows once, and stores three results.
// CHECK-LABEL: @normalization
// CHECK: %[[ALL:.*]]:3 = tx.dispatch "normalization.0.{{.*}}"(%arg0)
// CHECK: tx.reduce sum
// CHECK: tx.reduce sum
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @normalization(%x: tensor<64x256xf32>) -> (tensor<64x1xf32>, tensor<64x256xf32>, tensor<64x256xf32>) {
    %0 = tx.reduce sum %x {axes = array<i64: 1>} : tensor<64x256xf32> -> tensor<64xf32>
    %k = tx.reshape %0 : tensor<64xf32> -> tensor<64x1xf32>
    %b = tx.broadcast %k {dimensions = array<i64: 0, 1>} : tensor<64x1xf32> -> tensor<64x256xf32>
    %d = tx.sub %x, %b : tensor<64x256xf32>
    %q = tx.mul %d, %d : tensor<64x256xf32>
    %1 = tx.reduce sum %q {axes = array<i64: 1>} : tensor<64x256xf32> -> tensor<64xf32>
    %r = tx.rsqrt %1 : tensor<64xf32>
    %c = tx.broadcast %r {dimensions = array<i64: 0>} : tensor<64xf32> -> tensor<64x256xf32>
    %n = tx.mul %d, %c : tensor<64x256xf32>
    return %k, %d, %n : tensor<64x1xf32>, tensor<64x256xf32>, tensor<64x256xf32>
  }
}

// -----

// Few rows, or rows whose elements are apart, would be gone through by few workers: what is computed for each element stays apart.
// CHECK-LABEL: @columns
// CHECK: tx.dispatch "columns.0.exp"(%arg0)
// CHECK: tx.dispatch "columns.1.reduce"
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cpu"]} {
  func.func @columns(%x: tensor<64x256xf32>) -> (tensor<256xf32>, tensor<64x256xf32>) {
    %d = tx.exp %x : tensor<64x256xf32>
    %0 = tx.reduce sum %d {axes = array<i64: 0>} : tensor<64x256xf32> -> tensor<256xf32>
    return %0, %d : tensor<256xf32>, tensor<64x256xf32>
  }
}

// -----

// Two transposes for one product are one region, and the one for the product after it, too, since nothing has to be computed for it. That of the
// first product's result waits for it.
// CHECK-LABEL: @transposes
// CHECK: %[[T:.*]]:3 = tx.dispatch "transposes.0.transpose"
// CHECK: tx.dispatch "transposes.1.matmul"
// CHECK: tx.dispatch "transposes.2.transpose"
// CHECK: tx.dispatch "transposes.3.matmul"
// CHECK-NOT: tx.dispatch
module attributes {tx.families = ["cuda"]} {
  func.func @transposes(%x: tensor<64x128xf32>, %y: tensor<128x128xf32>, %z: tensor<64x128xf32>) -> tensor<128x128xf32> {
    %a = tx.transpose %x {permutation = array<i64: 1, 0>} : tensor<64x128xf32> -> tensor<128x64xf32>
    %b = tx.transpose %y {permutation = array<i64: 1, 0>} : tensor<128x128xf32> -> tensor<128x128xf32>
    %0 = tx.matmul %b, %a : tensor<128x128xf32>, tensor<128x64xf32> -> tensor<128x64xf32>
    %c = tx.exp %0 : tensor<128x64xf32>
    %d = tx.reshape %c : tensor<128x64xf32> -> tensor<64x128xf32>
    %e = tx.transpose %d {permutation = array<i64: 1, 0>} : tensor<64x128xf32> -> tensor<128x64xf32>
    %f = tx.transpose %z {permutation = array<i64: 1, 0>} : tensor<64x128xf32> -> tensor<128x64xf32>
    %g = tx.reshape %f : tensor<128x64xf32> -> tensor<64x128xf32>
    %1 = tx.matmul %e, %g : tensor<128x64xf32>, tensor<64x128xf32> -> tensor<128x128xf32>
    return %1 : tensor<128x128xf32>
  }
}

// -----

// What takes the memory of %x is read by a region that reads %x, too, so it comes before that region, also where others are joined.
// CHECK-LABEL: @reads_back
// CHECK: %[[N:.*]] = tx.dispatch "reads_back.1.compare"(%arg0) on "default" : (
// CHECK: tx.dispatch "reads_back.2.reduce"(%[[N]], %arg0)
module attributes {tx.families = ["cpu"]} {
  func.func @reads_back(%x: tensor<33x40xi1> {tx.alias = 0}, %y: tensor<64x128xf32>, %z: tensor<64x128xf32>)
      -> (tensor<33x40xi1>, tensor<33x40xf32>, tensor<128x64xf32>, tensor<128x64xf32>) {
    %s = tx.transpose %y {permutation = array<i64: 1, 0>} : tensor<64x128xf32> -> tensor<128x64xf32>
    %no = tx.constant dense<false> : tensor<33x40xi1>
    %a = tx.compare eq %x, %no : tensor<33x40xi1> -> tensor<33x40xi1>
    %b = tx.cast %a : tensor<33x40xi1> -> tensor<33x40xi32>
    %c = tx.reduce max %b {axes = array<i64: 1>} : tensor<33x40xi32> -> tensor<33xi32>
    %zero = tx.constant dense<0> : tensor<33xi32>
    %d = tx.compare ne %c, %zero : tensor<33xi32> -> tensor<33xi1>
    %e = tx.broadcast %d {dimensions = array<i64: 0>} : tensor<33xi1> -> tensor<33x40xi1>
    %f = tx.select %x, %x, %e : tensor<33x40xi1>, tensor<33x40xi1>
    %g = tx.cast %f : tensor<33x40xi1> -> tensor<33x40xf32>
    %t = tx.transpose %z {permutation = array<i64: 1, 0>} : tensor<64x128xf32> -> tensor<128x64xf32>
    return %a, %g, %s, %t : tensor<33x40xi1>, tensor<33x40xf32>, tensor<128x64xf32>, tensor<128x64xf32>
  }
}
