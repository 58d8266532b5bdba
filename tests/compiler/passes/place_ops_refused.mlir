// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -verify-diagnostics -heddle-place-ops -heddle-form-dispatches

func.func @op(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{is placed on "host"; use default, or @ and a name}}
  %0 = tx.neg %x {place = "host"} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// expected-error @+1 {{argument 0 is placed on 1 : i64}}
func.func @argument(%x: tensor<8xf32> {heddle.affinity = 1}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// expected-error @+1 {{result 0 is placed on "@"}}
func.func @result(%x: tensor<8xf32>) -> (tensor<8xf32> {heddle.affinity = "@"}) {
  return %x : tensor<8xf32>
}
