// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// Functions of branches and loops have to fit to what calls them: their commands take the place of the call.

func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tx.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @same(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @step(%sum: tensor<4xf32> {tx.alias = 0}, %row: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = tx.add %sum, %row : tensor<4xf32>
  %1 = tx.mul %0, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func @fits(%c: tensor<i64>, %x: tensor<4xf32>, %rows: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  %0 = tx.if %c then @double else @same(%x) : tensor<i64>, (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = tx.loop @step from(%0) over(%rows) with(%x) {count = affine_map<() -> (3)>, reversed = array<i64: 1, 0>} : (tensor<4xf32>, tensor<3x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>)
  return %1#0, %1#1 : tensor<4xf32>, tensor<3x4xf32>
}

// -----

func.func private @three(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @arguments(%c: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{calls @three, whose arguments have other types}}
  %0 = tx.if %c then @three else @other(%x) : tensor<i64>, (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @public(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @not_private(%c: tensor<i64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{names @public, which is no private function with a body}}
  %0 = tx.if %c then @other else @public(%x) : tensor<i64>, (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @condition(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has a condition that is not one i64}}
  %0 = tx.if %c then @a else @b(%x) : tensor<i1>, (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @endless(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{never ends}}
  %0 = tx.loop @a from(%x) over() with() : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @slices(%n: tensor<i64>, %rows: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // expected-error @+1 {{has slices without a `count` that is certain}}
  %0 = tx.loop @a trips %n from() over(%rows) with() : (tensor<i64>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @condition_before(%c: tensor<i64>, %rows: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // expected-error @+1 {{has slices without a `count` that is certain}}
  %0 = tx.loop @a while %c from() over(%rows) with() {count = affine_map<() -> (3)>} : (tensor<i64>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @count(%rows: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // expected-error @+1 {{whose first extent is not its `count`}}
  %0 = tx.loop @a from() over(%rows) with() {count = affine_map<() -> (4)>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

func.func @carried(%x: tensor<4xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{carries a value that begins as 'tensor<4xf32>' and ends as 'tensor<3xf32>'}}
  %0 = tx.loop @a from(%x) over() with() {count = affine_map<() -> (4)>} : (tensor<4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// A value that gets longer in each step.
func.func private @longer(%v: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>, %x: tensor<2xf32>) -> tensor<?xf32, #tx.dims<()[s0] -> (s0 + 2)>> attributes {
    tx.symbols = ["in a step", "after"], tx.defined_symbols = [{kind = "read", index = 0}, {kind = "read", index = 1}]} {
  %0 = tx.concat %v, %x {axis = 0 : i64} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>, tensor<2xf32> -> tensor<?xf32, #tx.dims<()[s0] -> (s0 + 2)>>
  return %0 : tensor<?xf32, #tx.dims<()[s0] -> (s0 + 2)>>
}
func.func @grows(%x: tensor<2xf32>) -> tensor<?xf32, #tx.dims<()[s0, s1] -> (s1)>> attributes {
    tx.symbols = ["in a step", "after"], tx.defined_symbols = [{kind = "read", index = 0}, {kind = "read", index = 1}]} {
  %0 = tx.loop @longer from(%x) over() with(%x) {count = affine_map<() -> (3)>, varying = affine_map<()[s0, s1] -> (2, s0 + 2)>, varying_symbols = array<i64: 0, 1>}
    : (tensor<2xf32>, tensor<2xf32>) -> tensor<?xf32, #tx.dims<()[s0, s1] -> (s1)>>
  return %0 : tensor<?xf32, #tx.dims<()[s0, s1] -> (s1)>>
}

// -----

func.func @one_symbol(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has a malformed `varying`, or other `varying_symbols`}}
  %0 = tx.loop @a from(%x) over() with() {count = affine_map<() -> (4)>, varying = affine_map<()[s0] -> (4, s0)>, varying_symbols = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @doubled(%v: tensor<?xf32, #tx.dims<()[s0] -> (s0)>>) -> tensor<?xf32, #tx.dims<()[s0] -> (s0 * 2)>> attributes {
    tx.symbols = ["in a step", "after"], tx.defined_symbols = [{kind = "read", index = 0}, {kind = "read", index = 1}]} {
  %0 = tx.concat %v, %v {axis = 0 : i64} : tensor<?xf32, #tx.dims<()[s0] -> (s0)>>, tensor<?xf32, #tx.dims<()[s0] -> (s0)>> -> tensor<?xf32, #tx.dims<()[s0] -> (s0 * 2)>>
  return %0 : tensor<?xf32, #tx.dims<()[s0] -> (s0 * 2)>>
}
func.func @other_extent(%x: tensor<2xf32>) -> tensor<?xf32, #tx.dims<()[s0, s1] -> (s1)>> attributes {
    tx.symbols = ["in a step", "after"], tx.defined_symbols = [{kind = "read", index = 0}, {kind = "read", index = 1}]} {
  // expected-error @+1 {{calls @doubled, whose results have other types}}
  %0 = tx.loop @doubled from(%x) over() with() {count = affine_map<() -> (3)>, varying = affine_map<()[s0, s1] -> (2, s0 + 2)>, varying_symbols = array<i64: 0, 1>}
    : (tensor<2xf32>) -> tensor<?xf32, #tx.dims<()[s0, s1] -> (s1)>>
  return %0 : tensor<?xf32, #tx.dims<()[s0, s1] -> (s1)>>
}
