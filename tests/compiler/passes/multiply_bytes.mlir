// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-multiply-bytes -canonicalize | FileCheck %s

// A convolution of quantized tensors becomes one of bytes. The zero point is around the image, and is subtracted by the sums of the filter's columns; the
// scale is that of the sums.
module attributes {tx.families = ["hip"]} {
// CHECK-LABEL: @convolution
// CHECK-DAG: %[[ZERO:.*]] = tx.constant dense<-3> : tensor<i8>
// CHECK: %[[AROUND:.*]] = tx.pad %arg0 {high = array<i64: 0, 1, 2, 0>, low = array<i64: 0, 1, 1, 0>, value = -3.000000e+00 : f64} : tensor<1x9x9x16xi8> -> tensor<1x11x12x16xi8>
// CHECK: %[[SUM:.*]] = tx.conv %[[AROUND]], %arg1 {{.*}}pads_high = array<i64: 0, 0>, pads_low = array<i64: 0, 0>{{.*}}-> tensor<1x9x10x8xi32>
// CHECK: tx.reduce sum %{{.*}} {axes = array<i64: 0, 1, 2>}
// CHECK: %[[LESS:.*]] = tx.sub %[[SUM]]
// CHECK: %[[FLOAT:.*]] = tx.cast %[[LESS]] : tensor<1x9x10x8xi32> -> tensor<1x9x10x8xf32>
// CHECK: %[[Y:.*]] = tx.mul %[[FLOAT]]
// CHECK: return %[[Y]]
func.func @convolution(%x: tensor<1x9x9x16xi8>, %w: tensor<3x3x16x8xi8>, %s: tensor<f32>) -> tensor<1x9x10x8xf32> {
  %zero = tx.constant dense<-3> : tensor<i8>
  %0 = tx.cast %x : tensor<1x9x9x16xi8> -> tensor<1x9x9x16xf32>
  %1 = tx.cast %zero : tensor<i8> -> tensor<f32>
  %2 = tx.broadcast %1 {dimensions = array<i64>} : tensor<f32> -> tensor<1x9x9x16xf32>
  %3 = tx.sub %0, %2 : tensor<1x9x9x16xf32>
  %4 = tx.broadcast %s {dimensions = array<i64>} : tensor<f32> -> tensor<1x9x9x16xf32>
  %5 = tx.mul %3, %4 : tensor<1x9x9x16xf32>
  %6 = tx.conv %5, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 2>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x9x9x16xf32>, tensor<3x3x16x8xi8> -> tensor<1x9x10x8xf32>
  return %6 : tensor<1x9x10x8xf32>
}
}

// -----

// A zero point that is known in a call only; sums in i32 stay so. A filter from 0 to 255 around 128 gets a sign.
module attributes {tx.families = ["hip"]} {
// CHECK-LABEL: @of_a_call
// CHECK: %[[INSIDE:.*]] = tx.pad %{{.*}} : tensor<1x9x9x16xi1> -> tensor<1x11x11x16xi1>
// CHECK: %[[AROUND:.*]] = tx.select %[[INSIDE]]
// CHECK: tx.conv %[[AROUND]], %{{.*}} : tensor<1x11x11x16xui8>, tensor<3x3x16x8xi8> -> tensor<1x9x9x8xi32>
// CHECK: return %{{.*}} : tensor<1x9x9x8xi32>
func.func @of_a_call(%x: tensor<1x9x9x16xui8>, %z: tensor<ui8>, %w: tensor<3x3x16x8xui8>) -> tensor<1x9x9x8xi32> {
  %0 = tx.cast %x : tensor<1x9x9x16xui8> -> tensor<1x9x9x16xi32>
  %1 = tx.cast %z : tensor<ui8> -> tensor<i32>
  %2 = tx.broadcast %1 {dimensions = array<i64>} : tensor<i32> -> tensor<1x9x9x16xi32>
  %3 = tx.sub %0, %2 : tensor<1x9x9x16xi32>
  %half = tx.constant dense<128> : tensor<3x3x16x8xi32>
  %4 = tx.cast %w : tensor<3x3x16x8xui8> -> tensor<3x3x16x8xi32>
  %5 = tx.sub %4, %half : tensor<3x3x16x8xi32>
  %6 = tx.conv %3, %5 {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x9x9x16xi32>, tensor<3x3x16x8xi32> -> tensor<1x9x9x8xi32>
  return %6 : tensor<1x9x9x8xi32>
}
}

// -----

// Both sides of a product have zero points.
module attributes {tx.families = ["hip"]} {
// CHECK-LABEL: @product
// CHECK: %[[SUM:.*]] = tx.matmul %arg0, %arg1 : tensor<?x16xui8, {{.*}}>, tensor<16x8xui8> -> tensor<?x8xi32
// CHECK: %[[FIRST:.*]] = tx.sub %[[SUM]]
// CHECK: tx.sub %[[FIRST]]
func.func @product(%x: tensor<?x16xui8, #tx.dims<()[s0] -> (s0, 16)>>, %w: tensor<16x8xui8>) -> tensor<?x8xf32, #tx.dims<()[s0] -> (s0, 8)>> {
  %zero = tx.constant dense<7.0> : tensor<f32>
  %other = tx.constant dense<9.0> : tensor<16x8xf32>
  %0 = tx.cast %x : tensor<?x16xui8, #tx.dims<()[s0] -> (s0, 16)>> -> tensor<?x16xf32, #tx.dims<()[s0] -> (s0, 16)>>
  %1 = tx.broadcast %zero {dimensions = array<i64>} : tensor<f32> -> tensor<?x16xf32, #tx.dims<()[s0] -> (s0, 16)>>
  %2 = tx.sub %0, %1 : tensor<?x16xf32, #tx.dims<()[s0] -> (s0, 16)>>
  %3 = tx.cast %w : tensor<16x8xui8> -> tensor<16x8xf32>
  %4 = tx.sub %3, %other : tensor<16x8xf32>
  %5 = tx.matmul %2, %4 : tensor<?x16xf32, #tx.dims<()[s0] -> (s0, 16)>>, tensor<16x8xf32> -> tensor<?x8xf32, #tx.dims<()[s0] -> (s0, 8)>>
  return %5 : tensor<?x8xf32, #tx.dims<()[s0] -> (s0, 8)>>
}
}

// -----

// What stays: few rows; a zero point for each row of the left side; a sum that 32 bits may not hold; and devices without such instructions.
module attributes {tx.families = ["hip"]} {
// CHECK-LABEL: @stays
// CHECK: tx.matmul %{{.*}} -> tensor<4x8xf32>
// CHECK: tx.matmul %{{.*}} -> tensor<16x8xf32>
// CHECK: tx.matmul %{{.*}} -> tensor<8x8xf32>
func.func @stays(%few: tensor<4x16xi8>, %x: tensor<16x16xi8>, %zeros: tensor<16xi8>, %w: tensor<16x8xi8>, %long: tensor<8x65794xi8>, %v: tensor<65794x8xi8>) -> (tensor<4x8xf32>, tensor<16x8xf32>, tensor<8x8xf32>) {
  %0 = tx.cast %few : tensor<4x16xi8> -> tensor<4x16xf32>
  %1 = tx.matmul %0, %w : tensor<4x16xf32>, tensor<16x8xi8> -> tensor<4x8xf32>
  %2 = tx.cast %x : tensor<16x16xi8> -> tensor<16x16xf32>
  %3 = tx.cast %zeros : tensor<16xi8> -> tensor<16xf32>
  %4 = tx.broadcast %3 {dimensions = array<i64: 0>} : tensor<16xf32> -> tensor<16x16xf32>
  %5 = tx.sub %2, %4 : tensor<16x16xf32>
  %6 = tx.matmul %5, %w : tensor<16x16xf32>, tensor<16x8xi8> -> tensor<16x8xf32>
  %7 = tx.cast %long : tensor<8x65794xi8> -> tensor<8x65794xf32>
  %8 = tx.matmul %7, %v : tensor<8x65794xf32>, tensor<65794x8xi8> -> tensor<8x8xf32>
  return %1, %6, %8 : tensor<4x8xf32>, tensor<16x8xf32>, tensor<8x8xf32>
}
}

// -----

module attributes {tx.families = ["cpu"]} {
// CHECK-LABEL: @on_a_cpu
// CHECK: tx.matmul %{{.*}} -> tensor<16x8xf32>
func.func @on_a_cpu(%x: tensor<16x16xi8>, %w: tensor<16x8xi8>) -> tensor<16x8xf32> {
  %0 = tx.cast %x : tensor<16x16xi8> -> tensor<16x16xf32>
  %1 = tx.matmul %0, %w : tensor<16x16xf32>, tensor<16x8xi8> -> tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}
}
