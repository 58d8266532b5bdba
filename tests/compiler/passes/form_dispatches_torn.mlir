// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -verify-diagnostics -heddle-form-dispatches

// What a pass between placement and dispatches must not leave behind.
func.func @torn(%x: tensor<8xf32> {heddle.affinity = "@a"}, %y: tensor<8xf32> {heddle.affinity = "@b"}) -> tensor<8xf32> {
  // expected-error @+1 {{has operands on several slots; run heddle-place-ops first}}
  %0 = tx.add %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}
