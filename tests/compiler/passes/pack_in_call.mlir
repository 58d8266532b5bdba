// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-pack-weights | FileCheck %s
// RUN: heddle-opt %s -split-input-file -heddle-pack-weights -canonicalize -heddle-form-dispatches | FileCheck %s --check-prefix=REGIONS

// A matrix that has to be transposed in each call is only read, as it lies; panels are made of it for more rows than one workgroup would pack for, or for a
// number that is not known.
// CHECK-LABEL: @transposed
// CHECK: tx.matmul %{{.*}}, %{{.*}} {transpose_rhs} : tensor<4x8xf32>, tensor<20x8xf32>
// CHECK: tx.matmul %{{.*}}, %{{.*}} {transpose_rhs} : tensor<512x8xf32>, tensor<20x8xf32>
// CHECK: %[[T:.*]] = tx.transpose %{{.*}} {permutation = array<i64: 1, 0>}
// CHECK: %[[P:.*]] = tx.pack %[[T]] {groups = 1 : i64} : tensor<8x20xf32> -> tensor<256xf32>
// CHECK: tx.matmul %{{.*}}, %[[P]] {packed_shape = array<i64: 8, 20>} : tensor<513x8xf32>
// CHECK: %[[U:.*]] = tx.transpose %{{.*}} {permutation = array<i64: 1, 0>}
// CHECK: %[[Q:.*]] = tx.pack %[[U]] {groups = 1 : i64} : tensor<8x20xf32> -> tensor<256xf32>
// CHECK: tx.matmul %{{.*}}, %[[Q]] {packed_shape = array<i64: 8, 20>}
// REGIONS-LABEL: @transposed
// REGIONS: tx.dispatch
// REGIONS: tx.transpose
// REGIONS-NEXT: tx.pack
// REGIONS-NEXT: tx.yield
module attributes {tx.families = ["cpu"]} {
func.func @transposed(%few: tensor<4x8xf32>, %more: tensor<512x8xf32>, %many: tensor<513x8xf32>, %y: tensor<?x8xf32, #tx.dims<()[s0] -> (s0, 8)>>,
    %a: tensor<20x8xf32>, %b: tensor<20x8xf32>, %c: tensor<20x8xf32>, %d: tensor<20x8xf32>)
    -> (tensor<4x20xf32>, tensor<512x20xf32>, tensor<513x20xf32>, tensor<?x20xf32, #tx.dims<()[s0] -> (s0, 20)>>) attributes {tx.symbols = ["n"]} {
  %0 = tx.transpose %a {permutation = array<i64: 1, 0>} : tensor<20x8xf32> -> tensor<8x20xf32>
  %1 = tx.matmul %few, %0 : tensor<4x8xf32>, tensor<8x20xf32> -> tensor<4x20xf32>
  %2 = tx.matmul %more, %b {transpose_rhs} : tensor<512x8xf32>, tensor<20x8xf32> -> tensor<512x20xf32>
  %3 = tx.matmul %many, %c {transpose_rhs} : tensor<513x8xf32>, tensor<20x8xf32> -> tensor<513x20xf32>
  %4 = tx.matmul %y, %d {transpose_rhs} : tensor<?x8xf32, #tx.dims<()[s0] -> (s0, 8)>>, tensor<20x8xf32> -> tensor<?x20xf32, #tx.dims<()[s0] -> (s0, 20)>>
  return %1, %2, %3, %4 : tensor<4x20xf32>, tensor<512x20xf32>, tensor<513x20xf32>, tensor<?x20xf32, #tx.dims<()[s0] -> (s0, 20)>>
}
}

// -----

// Panels that two products read are written once; few rows do not need them.
// CHECK-LABEL: @shared
// CHECK: tx.matmul %{{.*}}, %{{.*}} {transpose_rhs} : tensor<1x1x8xf32>, tensor<20x8xf32>
// CHECK-COUNT-2: tx.matmul %{{.*}} {packed_shape = array<i64: 8, 20>}
module attributes {tx.families = ["cpu"]} {
func.func @shared(%x: tensor<1x1x8xf32>, %y: tensor<50x8xf32>, %w: tensor<20x8xf32>) -> (tensor<1x1x20xf32>, tensor<50x20xf32>, tensor<50x20xf32>) {
  %0 = tx.matmul %x, %w {transpose_rhs} : tensor<1x1x8xf32>, tensor<20x8xf32> -> tensor<1x1x20xf32>
  %1 = tx.matmul %y, %w {transpose_rhs} : tensor<50x8xf32>, tensor<20x8xf32> -> tensor<50x20xf32>
  %2 = tx.exp %y : tensor<50x8xf32>
  %3 = tx.matmul %2, %w {transpose_rhs} : tensor<50x8xf32>, tensor<20x8xf32> -> tensor<50x20xf32>
  return %0, %1, %3 : tensor<1x1x20xf32>, tensor<50x20xf32>, tensor<50x20xf32>
}
}

// -----

// A matrix whose rows are at multiples of 2 KiB, if there are rows enough; others are read where they lie.
// CHECK-LABEL: @not_transposed
// CHECK: tx.pack %{{.*}} : tensor<8x1536xf32>
// CHECK: tx.matmul %{{.*}} {packed_shape = array<i64: 8, 1536>}
// CHECK-NOT: tx.pack
// CHECK: tx.matmul %{{.*}} : tensor<16x8xf32>, tensor<8x1536xf32>
// CHECK: tx.matmul %{{.*}} : tensor<48x8xf32>, tensor<8x1000xf32>
module attributes {tx.families = ["cpu"]} {
func.func @not_transposed(%x: tensor<48x8xf32>, %few: tensor<16x8xf32>, %w: tensor<8x1536xf32>, %v: tensor<8x1000xf32>)
    -> (tensor<48x1536xf32>, tensor<16x1536xf32>, tensor<48x1000xf32>) {
  %0 = tx.matmul %x, %w : tensor<48x8xf32>, tensor<8x1536xf32> -> tensor<48x1536xf32>
  %1 = tx.matmul %few, %w : tensor<16x8xf32>, tensor<8x1536xf32> -> tensor<16x1536xf32>
  %2 = tx.matmul %x, %v : tensor<48x8xf32>, tensor<8x1000xf32> -> tensor<48x1000xf32>
  return %0, %1, %2 : tensor<48x1536xf32>, tensor<16x1536xf32>, tensor<48x1000xf32>
}
}

// -----

// A filter whose columns are stored one after the other, with one or several taps.
// CHECK-LABEL: @filters
// CHECK: %[[T:.*]] = tx.transpose %{{.*}} {permutation = array<i64: 2, 3, 1, 0>} : tensor<24x8x1x1xf32>
// CHECK: %[[P:.*]] = tx.pack %[[T]] {groups = 1 : i64} : tensor<1x1x8x24xf32> -> tensor<256xf32>
// CHECK: tx.conv %{{.*}}, %[[P]] {{.*}}packed_shape = array<i64: 1, 1, 8, 24>
// CHECK: tx.pack %{{.*}} {groups = 2 : i64} : tensor<3x3x4x24xf32> -> tensor<1152xf32>
// CHECK: tx.conv %{{.*}}packed_shape = array<i64: 3, 3, 4, 24>
// CHECK-NOT: tx.pack
// CHECK: return
// REGIONS-LABEL: @filters
// REGIONS: tx.dispatch
// REGIONS: tx.transpose
// REGIONS-NEXT: tx.pack
// REGIONS: tx.dispatch
// REGIONS: tx.transpose
// REGIONS-NEXT: tx.pack {{.*}} {groups = 2 : i64}
module attributes {tx.families = ["cpu"]} {
func.func @filters(%x: tensor<1x6x6x8xf32>, %w: tensor<24x8x1x1xf32>, %v: tensor<24x4x3x3xf32>, %u: tensor<8x24x3x3xf32>)
    -> (tensor<1x6x6x24xf32>, tensor<1x4x4x24xf32>, tensor<1x4x4x24xf32>) {
  %0 = tx.transpose %w {permutation = array<i64: 2, 3, 1, 0>} : tensor<24x8x1x1xf32> -> tensor<1x1x8x24xf32>
  %1 = tx.conv %x, %0 {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x6x6x8xf32>, tensor<1x1x8x24xf32> -> tensor<1x6x6x24xf32>
  %2 = tx.transpose %v {permutation = array<i64: 2, 3, 1, 0>} : tensor<24x4x3x3xf32> -> tensor<3x3x4x24xf32>
  %3 = tx.conv %x, %2 {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 2} : tensor<1x6x6x8xf32>, tensor<3x3x4x24xf32> -> tensor<1x4x4x24xf32>
  %4 = tx.transpose %u {permutation = array<i64: 2, 3, 0, 1>} : tensor<8x24x3x3xf32> -> tensor<3x3x8x24xf32>
  %5 = tx.conv %x, %4 {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1} : tensor<1x6x6x8xf32>, tensor<3x3x8x24xf32> -> tensor<1x4x4x24xf32>
  return %1, %3, %5 : tensor<1x6x6x24xf32>, tensor<1x4x4x24xf32>, tensor<1x4x4x24xf32>
}
}
