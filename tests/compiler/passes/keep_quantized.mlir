// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-keep-quantized | FileCheck %s

// As quantizers write a filter: a scale and a zero for each of its rows, which are columns behind the transpose.
// CHECK-LABEL: @filter
// CHECK-DAG: %[[W:.*]] = tx.parameter "w" : tensor<8x4x3x3xi8>
// CHECK-DAG: %[[Z:.*]] = tx.parameter "z" : tensor<8xf32>
// CHECK-DAG: %[[S:.*]] = tx.parameter "s" : tensor<8xf32>
// CHECK-DAG: %[[T:.*]] = tx.transpose %[[W]] {permutation = array<i64: 2, 3, 1, 0>} : tensor<8x4x3x3xi8> -> tensor<3x3x4x8xi8>
// CHECK: %[[C:.*]] = tx.conv %{{.*}}, %[[T]], zero %[[Z]]
// CHECK: %[[B:.*]] = tx.broadcast %[[S]] {dimensions = array<i64: 3>}
// CHECK: %[[R:.*]] = tx.mul %[[C]], %[[B]]
// CHECK: return %[[R]]
func.func @filter(%x: tensor<1x6x6x4xf32>) -> tensor<1x4x4x8xf32> {
  %w = tx.parameter "w" : tensor<8x4x3x3xi8>
  %z = tx.parameter "z" : tensor<8xf32>
  %s = tx.parameter "s" : tensor<8xf32>
  %0 = tx.cast %w : tensor<8x4x3x3xi8> -> tensor<8x4x3x3xf32>
  %1 = tx.broadcast %z {dimensions = array<i64: 0>} : tensor<8xf32> -> tensor<8x4x3x3xf32>
  %2 = tx.sub %0, %1 : tensor<8x4x3x3xf32>
  %3 = tx.broadcast %s {dimensions = array<i64: 0>} : tensor<8xf32> -> tensor<8x4x3x3xf32>
  %4 = tx.mul %2, %3 : tensor<8x4x3x3xf32>
  %5 = tx.transpose %4 {permutation = array<i64: 2, 3, 1, 0>} : tensor<8x4x3x3xf32> -> tensor<3x3x4x8xf32>
  %6 = tx.conv %x, %5 {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x6x6x4xf32>, tensor<3x3x4x8xf32> -> tensor<1x4x4x8xf32>
  return %6 : tensor<1x4x4x8xf32>
}

// -----

// One scale and one zero for all. Sums of integers would be too large for halves.
// CHECK-LABEL: @halves
// CHECK-DAG: %[[W:.*]] = tx.parameter "w" : tensor<16x8xui8>
// CHECK-DAG: %[[Z:.*]] = tx.constant dense<1.170000e+02> : tensor<8xf32>
// CHECK: %[[M:.*]] = tx.matmul %{{.*}}, %[[W]], zero %[[Z]] : tensor<?x16xf16, {{.*}}>, tensor<16x8xui8>, tensor<8xf32> -> tensor<?x8xf32
// CHECK: %[[P:.*]] = tx.mul %[[M]]
// CHECK: tx.cast %[[P]] : {{.*}} -> tensor<?x8xf16
func.func @halves(%x: tensor<?x16xf16, #tx.dims<()[s0] -> (s0, 16)>>) -> tensor<?x8xf16, #tx.dims<()[s0] -> (s0, 8)>> attributes {tx.symbols = ["n"]} {
  %w = tx.parameter "w" : tensor<16x8xui8>
  %z = tx.constant dense<117.0> : tensor<16x8xf32>
  %s = tx.constant dense<0.25> : tensor<16x8xf32>
  %0 = tx.cast %w : tensor<16x8xui8> -> tensor<16x8xf32>
  %1 = tx.sub %0, %z : tensor<16x8xf32>
  %2 = tx.mul %1, %s : tensor<16x8xf32>
  %3 = tx.cast %2 : tensor<16x8xf32> -> tensor<16x8xf16>
  %4 = tx.matmul %x, %3 : tensor<?x16xf16, #tx.dims<()[s0] -> (s0, 16)>>, tensor<16x8xf16> -> tensor<?x8xf16, #tx.dims<()[s0] -> (s0, 8)>>
  return %4 : tensor<?x8xf16, #tx.dims<()[s0] -> (s0, 8)>>
}

// -----

// A scale for each row is a factor of the other side.
// CHECK-LABEL: @scale_of_rows
// CHECK: %[[W:.*]] = tx.parameter "w" : tensor<16x8xi16>
// CHECK: %[[B:.*]] = tx.broadcast %{{.*}} {dimensions = array<i64: 1>} : tensor<16xf32> -> tensor<4x16xf32>
// CHECK: %[[X:.*]] = tx.mul %{{.*}}, %[[B]]
// CHECK: %[[M:.*]] = tx.matmul %[[X]], %[[W]]
// CHECK: return %[[M]]
func.func @scale_of_rows(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = tx.parameter "w" : tensor<16x8xi16>
  %s = tx.parameter "s" : tensor<16xf32>
  %0 = tx.cast %w : tensor<16x8xi16> -> tensor<16x8xf32>
  %1 = tx.broadcast %s {dimensions = array<i64: 0>} : tensor<16xf32> -> tensor<16x8xf32>
  %2 = tx.mul %0, %1 : tensor<16x8xf32>
  %3 = tx.matmul %x, %2 : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// A zero for each row is none of a column: what is multiplied is computed first. Nor are 32 bits, which f32 does not hold, or what is no constant.
// CHECK-LABEL: @others
// CHECK-COUNT-3: tx.matmul %{{.*}}, %{{.*}} : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
func.func @others(%x: tensor<4x16xf32>, %y: tensor<16x8xi8>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %w = tx.parameter "w" : tensor<16x8xi8>
  %z = tx.parameter "z" : tensor<16xf32>
  %0 = tx.cast %w : tensor<16x8xi8> -> tensor<16x8xf32>
  %1 = tx.broadcast %z {dimensions = array<i64: 0>} : tensor<16xf32> -> tensor<16x8xf32>
  %2 = tx.sub %0, %1 : tensor<16x8xf32>
  %s = tx.constant dense<0.25> : tensor<16x8xf32>
  %scaled = tx.mul %2, %s : tensor<16x8xf32>
  %3 = tx.matmul %x, %scaled : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  %v = tx.parameter "v" : tensor<16x8xi32>
  %4 = tx.cast %v : tensor<16x8xi32> -> tensor<16x8xf32>
  %5 = tx.matmul %x, %4 : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  %6 = tx.cast %y : tensor<16x8xi8> -> tensor<16x8xf32>
  %7 = tx.matmul %x, %6 : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  return %3, %5, %7 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A look-up reads the integers, and the scales and zeros of what it reads.
// CHECK-LABEL: @table
// CHECK-DAG: %[[W:.*]] = tx.parameter "w" : tensor<50x24xui8>
// CHECK-DAG: %[[Z:.*]] = tx.parameter "z" : tensor<24xf32>
// CHECK-DAG: %[[S:.*]] = tx.parameter "s" : tensor<50xf32>
// CHECK: %[[G:.*]] = tx.gather %[[W]], %{{.*}} : tensor<50x24xui8>, tensor<3x7xi64> -> tensor<3x7x24xui8>
// CHECK: %[[C:.*]] = tx.cast %[[G]]
// CHECK: %[[ZB:.*]] = tx.broadcast %[[Z]] {dimensions = array<i64: 2>}
// CHECK: %[[D:.*]] = tx.sub %[[C]], %[[ZB]]
// CHECK: %[[SG:.*]] = tx.gather %[[S]], %{{.*}} : tensor<50xf32>, tensor<3x7xi64> -> tensor<3x7xf32>
// CHECK: %[[SB:.*]] = tx.broadcast %[[SG]] {dimensions = array<i64: 0, 1>}
// CHECK: %[[R:.*]] = tx.mul %[[D]], %[[SB]]
// CHECK: return %[[R]]
func.func @table(%i: tensor<3x7xi64>) -> tensor<3x7x24xf32> {
  %w = tx.parameter "w" : tensor<50x24xui8>
  %z = tx.parameter "z" : tensor<24xf32>
  %s = tx.parameter "s" : tensor<50xf32>
  %0 = tx.cast %w : tensor<50x24xui8> -> tensor<50x24xf32>
  %1 = tx.broadcast %z {dimensions = array<i64: 1>} : tensor<24xf32> -> tensor<50x24xf32>
  %2 = tx.sub %0, %1 : tensor<50x24xf32>
  %3 = tx.broadcast %s {dimensions = array<i64: 0>} : tensor<50xf32> -> tensor<50x24xf32>
  %4 = tx.mul %2, %3 : tensor<50x24xf32>
  %5 = tx.gather %4, %i {axis = 0} : tensor<50x24xf32>, tensor<3x7xi64> -> tensor<3x7x24xf32>
  return %5 : tensor<3x7x24xf32>
}
