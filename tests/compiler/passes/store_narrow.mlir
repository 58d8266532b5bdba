// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-store-narrow | FileCheck %s

// A type of 8 bits is a byte; only its name is kept.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<?x3xui8, {{.*}}> {tx.narrow = tensor<?x3x!narrow.type<"f8e5m2">, {{.*}}>}
// CHECK: %[[T:.*]] = tx.transpose %{{.*}} : tensor<?x3xui8, {{.*}}> -> tensor<3x?xui8
// CHECK: tx.narrow_decode %[[T]] as "f8e5m2"
// CHECK-NOT: tx.narrow_stored
#mn = #tx.dims<()[s0] -> (s0, 3)>
#nm = #tx.dims<()[s0] -> (3, s0)>
func.func @main(%x: tensor<?x3x!narrow.type<"f8e5m2">, #mn>) -> tensor<3x?xf32, #nm> attributes {tx.symbols = ["n"]} {
  %t = tx.transpose %x {permutation = array<i64: 1, 0>} : tensor<?x3x!narrow.type<"f8e5m2">, #mn> -> tensor<3x?x!narrow.type<"f8e5m2">, #nm>
  %s = tx.narrow_stored %t : tensor<3x?x!narrow.type<"f8e5m2">, #nm> -> tensor<3x?xui8, #nm>
  %d = tx.narrow_decode %s as "f8e5m2" : tensor<3x?xui8, #nm> -> tensor<3x?xf32, #nm>
  return %d : tensor<3x?xf32, #nm>
}

// -----

// Five elements of 4 bits are three bytes outside. A sign fills the upper half of its byte.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<3xui8> {tx.narrow = tensor<5x!narrow.type<"i4">>}) -> (tensor<3xui8> {tx.narrow = tensor<5x!narrow.type<"i4">>})
// CHECK: tx.bit_and %[[X]]
// CHECK: tx.div %[[X]]
// CHECK: %[[PAIRS:.*]] = tx.concat {{.*}} -> tensor<3x2xui8>
// CHECK: tx.slice {{.*}} : tensor<6xui8> -> tensor<5xui8>
// CHECK: tx.cast {{.*}} : tensor<5xui8> -> tensor<5xi8>
// CHECK: tx.bit_xor
// CHECK: tx.sub
// CHECK: tx.pad {{.*}} : tensor<5xui8> -> tensor<6xui8>
// CHECK: tx.mul
// CHECK: %[[SUM:.*]] = tx.add {{.*}} : tensor<3xui8>
// CHECK: return %[[SUM]]
func.func @main(%x: tensor<5x!narrow.type<"i4">>) -> tensor<5x!narrow.type<"i4">> {
  return %x : tensor<5x!narrow.type<"i4">>
}
