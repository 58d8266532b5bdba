// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Filters of 3 x 3 are transformed where the target takes the convolution by Winograd's algorithm: not with strides, nor with few channels, nor on other families.
// RUN: heddle-opt %s -heddle-pack-weights -split-input-file | FileCheck %s

// CHECK: tx.pack %{{.*}} {groups = 1 : i64, winograd} : tensor<3x3x64x40xf32> -> tensor<49152xf32>
// CHECK: tx.conv {{.*}}packed_shape = array<i64: 3, 3, 64, 40>, {{.*}}winograd}
// CHECK: tx.pack %{{.*}} {groups = 1 : i64} : tensor<3x3x40x64xf32> -> tensor<23040xf32>
// CHECK: tx.conv {{.*}}strides = array<i64: 2, 2>}
// CHECK: tx.pack %{{.*}} {groups = 1 : i64} : tensor<3x3x64x8xf32> -> tensor<9216xf32>
module attributes {tx.families = ["cpu"]} {
func.func @main(%x: tensor<?x28x28x64xf32, #tx.dims<()[s0] -> (s0, 28, 28, 64)>>) -> tensor<?x14x14x8xf32, #tx.dims<()[s0] -> (s0, 14, 14, 8)>> attributes {tx.symbols = ["n"]} {
  %a = tx.parameter "a" : tensor<3x3x64x40xf32>
  %b = tx.parameter "b" : tensor<3x3x40x64xf32>
  %c = tx.parameter "c" : tensor<3x3x64x8xf32>
  %0 = tx.conv %x, %a {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : tensor<?x28x28x64xf32, #tx.dims<()[s0] -> (s0, 28, 28, 64)>>, tensor<3x3x64x40xf32> -> tensor<?x28x28x40xf32, #tx.dims<()[s0] -> (s0, 28, 28, 40)>>
  %1 = tx.conv %0, %b {strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : tensor<?x28x28x40xf32, #tx.dims<()[s0] -> (s0, 28, 28, 40)>>, tensor<3x3x40x64xf32> -> tensor<?x14x14x64xf32, #tx.dims<()[s0] -> (s0, 14, 14, 64)>>
  %2 = tx.conv %1, %c {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : tensor<?x14x14x64xf32, #tx.dims<()[s0] -> (s0, 14, 14, 64)>>, tensor<3x3x64x8xf32> -> tensor<?x14x14x8xf32, #tx.dims<()[s0] -> (s0, 14, 14, 8)>>
  return %2 : tensor<?x14x14x8xf32, #tx.dims<()[s0] -> (s0, 14, 14, 8)>>
}
}

// -----

// CHECK-NOT: winograd
module attributes {tx.families = ["cuda"]} {
func.func @main(%x: tensor<1x28x28x64xf32>) -> tensor<1x28x28x64xf32> {
  %a = tx.parameter "a" : tensor<3x3x64x64xf32>
  %0 = tx.conv %x, %a {strides = array<i64: 1, 1>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x28x28x64xf32>, tensor<3x3x64x64xf32> -> tensor<1x28x28x64xf32>
  return %0 : tensor<1x28x28x64xf32>
}
}
