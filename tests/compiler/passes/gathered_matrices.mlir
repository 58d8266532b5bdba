// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-pack-weights | FileCheck %s
// RUN: heddle-opt %s -split-input-file -heddle-pack-weights -canonicalize -heddle-form-dispatches | FileCheck %s --check-prefix=REGIONS

// Each gathered matrix times a vector: sums along rows, which read the matrices where they are.
// CHECK-LABEL: @matrices_by_vectors
// CHECK: %[[V:.*]] = tx.reshape %{{.*}} : tensor<?x64x1xf32{{.*}} -> tensor<?x64xf32
// CHECK: %[[B:.*]] = tx.broadcast %[[V]] {dimensions = array<i64: 0, 2>}
// CHECK: %[[P:.*]] = tx.mul %{{.*}}, %[[B]]
// CHECK: tx.reduce sum %[[P]] {axes = array<i64: 2>}
// CHECK-NOT: tx.matmul
// REGIONS-LABEL: @matrices_by_vectors
// REGIONS: tx.dispatch
// REGIONS: tx.gather_nd
// REGIONS-NOT: tx.dispatch
// REGIONS: tx.reduce sum
module attributes {tx.families = ["cpu"]} {
func.func @matrices_by_vectors(%w: tensor<4x32x64xf32>, %i: tensor<?x1xi64, #tx.dims<()[s0] -> (s0, 1)>>, %x: tensor<?x64x1xf32, #tx.dims<()[s0] -> (s0, 64, 1)>>)
    -> tensor<?x32x1xf32, #tx.dims<()[s0] -> (s0, 32, 1)>> attributes {tx.symbols = ["n"]} {
  %0 = tx.gather_nd %w, %i {batch_dims = 0 : i64} : tensor<4x32x64xf32>, tensor<?x1xi64, #tx.dims<()[s0] -> (s0, 1)>> -> tensor<?x32x64xf32, #tx.dims<()[s0] -> (s0, 32, 64)>>
  %1 = tx.matmul %0, %x : tensor<?x32x64xf32, #tx.dims<()[s0] -> (s0, 32, 64)>>, tensor<?x64x1xf32, #tx.dims<()[s0] -> (s0, 64, 1)>> -> tensor<?x32x1xf32, #tx.dims<()[s0] -> (s0, 32, 1)>>
  return %1 : tensor<?x32x1xf32, #tx.dims<()[s0] -> (s0, 32, 1)>>
}
}

// -----

// Two columns, or few rows, stay a product.
// CHECK-LABEL: @other_products
// CHECK-COUNT-2: tx.matmul
// CHECK-NOT: tx.reduce
module attributes {tx.families = ["cpu"]} {
func.func @other_products(%a: tensor<3x32x64xf32>, %b: tensor<3x64x2xf32>, %c: tensor<3x8x64xf32>, %d: tensor<3x64x1xf32>)
    -> (tensor<3x32x2xf32>, tensor<3x8x1xf32>) {
  %0 = tx.matmul %a, %b : tensor<3x32x64xf32>, tensor<3x64x2xf32> -> tensor<3x32x2xf32>
  %1 = tx.matmul %c, %d : tensor<3x8x64xf32>, tensor<3x64x1xf32> -> tensor<3x8x1xf32>
  return %0, %1 : tensor<3x32x2xf32>, tensor<3x8x1xf32>
}
}
