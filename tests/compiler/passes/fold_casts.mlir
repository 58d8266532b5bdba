// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-fold-casts | FileCheck %s

// Whole numbers through an integer type are kept inside its range.
// CHECK-LABEL: @rounded
// CHECK-DAG: %[[LOW:.*]] = tx.constant dense<-1.280000e+02> : tensor<2x8xf32>
// CHECK-DAG: %[[HIGH:.*]] = tx.constant dense<1.270000e+02> : tensor<2x8xf32>
// CHECK: %[[R:.*]] = tx.round
// CHECK: %[[A:.*]] = tx.max %[[R]], %[[LOW]]
// CHECK: %[[B:.*]] = tx.min %[[A]], %[[HIGH]]
// CHECK-NOT: tx.cast
// CHECK: return %[[B]]
func.func @rounded(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = tx.round %x : tensor<2x8xf32>
  %1 = tx.cast %0 : tensor<2x8xf32> -> tensor<2x8xi8>
  %2 = tx.cast %1 : tensor<2x8xi8> -> tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// -----

// A zero point leaves them whole; bounds go into symbolic shapes, too.
// CHECK-LABEL: @moved
// CHECK: %[[BOUND:.*]] = tx.constant dense<6.553500e+04> : tensor<f32>
// CHECK: %[[M:.*]] = tx.add
// CHECK: %[[A:.*]] = tx.relu %[[M]]
// CHECK: %[[HIGH:.*]] = tx.broadcast %[[BOUND]]
// CHECK: %[[B:.*]] = tx.min %[[A]], %[[HIGH]]
// CHECK: return %[[B]]
func.func @moved(%x: tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>>, %z: tensor<3xui16>)
    -> tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>> attributes {tx.symbols = ["batch"]} {
  %0 = tx.floor %x : tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>>
  %1 = tx.cast %z : tensor<3xui16> -> tensor<3xf32>
  %2 = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<3xf32> -> tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>>
  %3 = tx.add %0, %2 : tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>>
  %4 = tx.cast %3 : tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>> -> tensor<?x3xui16, #tx.dims<()[s0] -> (s0, 3)>>
  %5 = tx.cast %4 : tensor<?x3xui16, #tx.dims<()[s0] -> (s0, 3)>> -> tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>>
  return %5 : tensor<?x3xf32, #tx.dims<()[s0] -> (s0, 3)>>
}

// -----

// Others lose their fraction by the cast, and numbers of 32 bits their last digits.
// CHECK-LABEL: @kept
// CHECK-COUNT-6: tx.cast
// CHECK: return
func.func @kept(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
  %0 = tx.cast %x : tensor<2x8xf32> -> tensor<2x8xi8>
  %1 = tx.cast %0 : tensor<2x8xi8> -> tensor<2x8xf32>
  %half = tx.constant dense<0.5> : tensor<2x8xf32>
  %2 = tx.round %x : tensor<2x8xf32>
  %3 = tx.add %2, %half : tensor<2x8xf32>
  %4 = tx.cast %3 : tensor<2x8xf32> -> tensor<2x8xi8>
  %5 = tx.cast %4 : tensor<2x8xi8> -> tensor<2x8xf32>
  %6 = tx.cast %2 : tensor<2x8xf32> -> tensor<2x8xi32>
  %7 = tx.cast %6 : tensor<2x8xi32> -> tensor<2x8xf32>
  return %1, %5, %7 : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
}
