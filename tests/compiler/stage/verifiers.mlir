// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -verify-diagnostics

// Strategies and the interpreter count on these: a stage that says otherwise would read or write outside of its tensors. stage_test has those of stage.fold.

// What every stage has: reads, accesses, a domain.

func.func @as_many_accesses(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has 1 reads and 2 accesses}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>, #stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @extents_of_symbols(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has extents over dimensions; only symbols may be in them}}
  %0 = stage.map <(d0) -> (d0)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @reduced_dimensions(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{reduces 2 of 1 dimensions}}
  %0 = stage.map <() -> (4), reduced = 2> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @as_many_elements(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{has 4 indices in its parallel dimensions and a result of 5 elements}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<5xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<5xf32>
}

// -----

// Accesses.

func.func @dimensions_of_an_access(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{read 0 is over 2 dimensions; 1 were expected}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0, d1) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

// Each of the indices that are read is a dimension of the map.
func.func @dimensions_of_a_gather(%x: tensor<4xf32>, %at: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{read 1 is over 1 dimensions; 2 were expected}}
  %0 = stage.map <() -> (4)> reads(%at, %x) at [#stage.access<(d0) -> (d0)>, #stage.access<(d0) -> (d0) gathers [0]>] : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %a: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @rank_of_a_tensor(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{read 0 gives 1 indices of a tensor of rank 2}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4x3xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @gathers_what_comes_later(%x: tensor<4xf32>, %at: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{read 0 is at indices of read 1, which is not before it}}
  %0 = stage.map <() -> (4)> reads(%x, %at) at [#stage.access<(d0, d1) -> (d1) gathers [1]>, #stage.access<(d0) -> (d0)>] : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32, %a: i64):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @gathers_at_floats(%x: tensor<4xf32>, %at: tensor<4xf16>) -> tensor<4xf32> {
  // expected-error @+1 {{read 1 is at indices of 'f16'}}
  %0 = stage.map <() -> (4)> reads(%at, %x) at [#stage.access<(d0) -> (d0)>, #stage.access<(d0, d1) -> (d1) gathers [0]>] : (tensor<4xf16>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %a: f16, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @computes_with_an_index(%x: tensor<4xf32>, %at: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{read 1 computes with an index that it reads}}
  %0 = stage.map <() -> (4)> reads(%at, %x) at [#stage.access<(d0) -> (d0)>, #stage.access<(d0, d1) -> (d0 + d1) gathers [0]>] : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %a: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @gathers_outside(%x: tensor<4xf32>, %at: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{read 1 is at indices that are read, which are inside; it has a value for outside}}
  %0 = stage.map <() -> (4)> reads(%at, %x) at [#stage.access<(d0) -> (d0)>, #stage.access<(d0, d1) -> (d1), outside = 0.0 : f32 gathers [0]>] : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %a: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @outside_of_another_type(%x: tensor<3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{read 0 is 'f64' outside of a tensor of 'f32'}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0 - 1), outside = 0.0 : f64>] : (tensor<3xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

// In bodies integers have no sign, so neither has what is outside.
func.func @outside_with_a_sign(%x: tensor<3xui8>) -> tensor<4xui8> {
  // expected-error @+1 {{read 0 is 'ui8' outside of a tensor of 'ui8'}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0 - 1), outside = 0 : ui8>] : (tensor<3xui8>) -> tensor<4xui8> {
  ^bb0(%i: i64, %e: i8):
    stage.yield %e : i8
  }
  return %0 : tensor<4xui8>
}

// -----

// Maps.

func.func @map_reduces(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stage.map' op reduces dimensions; stage.fold does}}
  %0 = stage.map <() -> (4, 3), reduced = 1> reads(%x) at [#stage.access<(d0, d1) -> (d0, d1)>] : (tensor<4x3xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %j: i64, %e: f32):
    stage.yield %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @map_arguments(%x: tensor<4xi8>) -> tensor<4xi8> {
  // expected-error @+1 {{'body' has arguments of other types; expected ('i64', 'i8')}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xi8>) -> tensor<4xi8> {
  ^bb0(%e: i8):
    stage.yield %e : i8
  }
  return %0 : tensor<4xi8>
}

// -----

func.func @map_yields(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'body' yields values of other types; expected ('f32')}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    stage.yield %i : i64
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @map_does_not_yield(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'body' does not end with stage.yield}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
    %n = arith.negf %e : f32
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @map_of_nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'body' does not end with stage.yield}}
  %0 = stage.map <() -> (4)> reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: i64, %e: f32):
  }
  return %0 : tensor<4xf32>
}

// -----

// Folds.

func.func @fold_accumulates_nothing(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error @+1 {{'stage.fold' op has no accumulators}}
  %0 = stage.fold <() -> (4), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<f32>
    init { stage.yield }
    step { ^bb0(%i: i64, %e: f32): stage.yield }
    merge { stage.yield }
    finish { %z = arith.constant 0.0 : f32
             stage.yield %z : f32 }
  return %0 : tensor<f32>
}

// -----

func.func @fold_begins_with_nothing(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error @+1 {{'stage.fold' op has no accumulators}}
  %0 = stage.fold <() -> (4), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<f32>
    init { ^bb0: }
    step { ^bb0(%i: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    merge { ^bb0(%p: f32, %q: f32): stage.yield %p : f32 }
    finish { ^bb0(%s: f32): stage.yield %s : f32 }
  return %0 : tensor<f32>
}

// -----

func.func @merge_takes_two(%x: tensor<4xf32>) -> tensor<f32> {
  // expected-error @+1 {{'merge' has arguments of other types; expected ('f32', 'f32')}}
  %0 = stage.fold <() -> (4), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<f32>
    init { %z = arith.constant 0.0 : f32
           stage.yield %z : f32 }
    step { ^bb0(%i: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    merge { ^bb0(%p: f32): stage.yield %p : f32 }
    finish { ^bb0(%s: f32): stage.yield %s : f32 }
  return %0 : tensor<f32>
}

// -----

// Scans.

func.func @scan_reduces(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stage.scan' op reduces dimensions; stage.fold does}}
  %0 = stage.scan <() -> (4, 3), reduced = 1> along 0 reads(%x) step_reads 1 at [#stage.access<(d0, d1) -> (d0, d1)>] : (tensor<4x3xf32>) -> tensor<4xf32>
    init { %z = arith.constant 0.0 : f32
           stage.yield %z : f32 }
    step { ^bb0(%i: i64, %j: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    finish { ^bb0(%i: i64, %j: i64, %s: f32, %t: f32): stage.yield %t : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @scan_along(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{goes along dimension 1 of 1}}
  %0 = stage.scan <() -> (4)> along 1 reads(%x) step_reads 1 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32>
    init { %z = arith.constant 0.0 : f32
           stage.yield %z : f32 }
    step { ^bb0(%i: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    finish { ^bb0(%i: i64, %s: f32, %t: f32): stage.yield %t : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @scan_reads(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has 1 reads, and step_reads is -1}}
  %0 = stage.scan <() -> (4)> along 0 reads(%x) step_reads -1 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32>
    init { %z = arith.constant 0.0 : f32
           stage.yield %z : f32 }
    step { ^bb0(%i: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    finish { ^bb0(%i: i64, %s: f32, %t: f32): stage.yield %t : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @scan_carries_nothing(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stage.scan' op has no accumulators}}
  %0 = stage.scan <() -> (4)> along 0 reads(%x) step_reads 0 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32>
    init { stage.yield }
    step { ^bb0(%i: i64): stage.yield }
    finish { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
  return %0 : tensor<4xf32>
}

// -----

// The sum before the step and the one behind it.
func.func @scan_finishes_two(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'finish' has arguments of other types; expected ('i64', 'f32', 'f32')}}
  %0 = stage.scan <() -> (4)> along 0 reads(%x) step_reads 1 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32>
    init { %z = arith.constant 0.0 : f32
           stage.yield %z : f32 }
    step { ^bb0(%i: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    finish { ^bb0(%i: i64, %s: f32): stage.yield %s : f32 }
  return %0 : tensor<4xf32>
}

// -----

// Contractions.

func.func @contract_of_signed(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{accumulates 'si32'; a float or an integer without sign was expected}}
  %0 = stage.contract <() -> (4, 3), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0, d1) -> (d0, d1)>] in si32 : (tensor<4x3xf32>) -> tensor<4xf32>
    factors { ^bb0(%i: i64, %k: i64, %e: f32): stage.yield %e, %e : f32, f32 }
    finish { ^bb0(%i: i64, %s: f32): stage.yield %s : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @contract_of_two(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'factors' yields values of other types; expected ('f32', 'f32')}}
  %0 = stage.contract <() -> (4, 3), reduced = 1> reads(%x) step_reads 1 at [#stage.access<(d0, d1) -> (d0, d1)>] in f32 : (tensor<4x3xf32>) -> tensor<4xf32>
    factors { ^bb0(%i: i64, %k: i64, %e: f32): stage.yield %e : f32 }
    finish { ^bb0(%i: i64, %s: f32): stage.yield %s : f32 }
  return %0 : tensor<4xf32>
}

// -----

// What is read behind the sums is over the parallel dimensions alone.
func.func @contract_finishes_rows(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{read 1 is over 2 dimensions; 1 were expected}}
  %0 = stage.contract <() -> (4, 3), reduced = 1> reads(%x, %x) step_reads 1 at [#stage.access<(d0, d1) -> (d0, d1)>, #stage.access<(d0, d1) -> (d0, d1)>] in f32 : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
    factors { ^bb0(%i: i64, %k: i64, %e: f32): stage.yield %e, %e : f32, f32 }
    finish { ^bb0(%i: i64, %e: f32, %s: f32): stage.yield %s : f32 }
  return %0 : tensor<4xf32>
}

// -----

// Scatters.

func.func @scatter_reduces(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'stage.scatter' op reduces 0 dimensions; 1 was expected}}
  %0 = stage.scatter <() -> (4)> along 0 reads(%x) place_reads 0 step_reads 0 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32>
    place { ^bb0(%i: i64): stage.yield %i : i64 }
    step { ^bb0(%i: i64, %s: f32): stage.yield %s : f32 }
    init { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
  return %0 : tensor<4xf32>
}

// -----

// Along the updates themselves.
func.func @scatter_along(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{goes along dimension 1 of 1}}
  %0 = stage.scatter <() -> (4, 3), reduced = 1> along 1 reads(%x) place_reads 0 step_reads 0 at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xf32>
    place { ^bb0(%i: i64, %u: i64): stage.yield %u : i64 }
    step { ^bb0(%i: i64, %u: i64, %s: f32): stage.yield %s : f32 }
    init { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @scatter_reads(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has 1 reads, and place_reads and step_reads are 1 and 1}}
  %0 = stage.scatter <() -> (4, 3), reduced = 1> along 0 reads(%x) place_reads 1 step_reads 1 at [#stage.access<(d0, d1) -> (d1)>] : (tensor<4xf32>) -> tensor<4xf32>
    place { ^bb0(%i: i64, %u: i64, %e: f32): stage.yield %u : i64 }
    step { ^bb0(%i: i64, %u: i64, %s: f32): stage.yield %s : f32 }
    init { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @scatter_places(%x: tensor<4xf32>, %at: tensor<3xi32>) -> tensor<4xf32> {
  // expected-error @+1 {{'place' yields values of other types; expected ('i64')}}
  %0 = stage.scatter <() -> (4, 3), reduced = 1> along 0 reads(%at, %x) place_reads 1 step_reads 0 at [#stage.access<(d0, d1) -> (d1)>, #stage.access<(d0) -> (d0)>] : (tensor<3xi32>, tensor<4xf32>) -> tensor<4xf32>
    place { ^bb0(%i: i64, %u: i64, %p: i32): stage.yield %p : i32 }
    step { ^bb0(%i: i64, %u: i64, %s: f32): stage.yield %s : f32 }
    init { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
  return %0 : tensor<4xf32>
}

// -----

func.func @scatter_depends(%x: tensor<4xf32>, %at: tensor<3xi64>) -> tensor<4xf32> {
  // expected-error @+1 {{reads what depends on dimension 0, along which it goes}}
  %0 = stage.scatter <() -> (4, 3), reduced = 1> along 0 reads(%at, %x, %x) place_reads 1 step_reads 1 at [#stage.access<(d0, d1) -> (d1)>, #stage.access<(d0, d1) -> (d0)>, #stage.access<(d0) -> (d0)>] : (tensor<3xi64>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    place { ^bb0(%i: i64, %u: i64, %p: i64): stage.yield %p : i64 }
    step { ^bb0(%i: i64, %u: i64, %e: f32, %s: f32): stage.yield %e : f32 }
    init { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
  return %0 : tensor<4xf32>
}

// -----

// Sorts.

func.func @sort_reduces(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{'stage.sort' op reduces 0 dimensions; 1 was expected}}
  %0 = stage.sort <() -> (4)> along 0 reads(%x) at [#stage.access<(d0) -> (d0)>] : (tensor<4xf32>) -> tensor<4xi64>
    element { ^bb0(%i: i64, %e: f32): stage.yield %e : f32 }
    before { ^bb0(%a: f32, %b: f32): %l = arith.cmpf olt, %a, %b : f32
             stage.yield %l : i1 }
  return %0 : tensor<4xi64>
}

// -----

func.func @sort_along(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{goes along dimension 1 of 1}}
  %0 = stage.sort <() -> (4, 4), reduced = 1> along 1 reads(%x) at [#stage.access<(d0, d1) -> (d1)>] : (tensor<4xf32>) -> tensor<4xi64>
    element { ^bb0(%i: i64, %j: i64, %e: f32): stage.yield %e : f32 }
    before { ^bb0(%a: f32, %b: f32): %l = arith.cmpf olt, %a, %b : f32
             stage.yield %l : i1 }
  return %0 : tensor<4xi64>
}

// -----

func.func @sort_gives_places(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error @+1 {{gives 'i32'; i64 was expected}}
  %0 = stage.sort <() -> (4, 4), reduced = 1> along 0 reads(%x) at [#stage.access<(d0, d1) -> (d1)>] : (tensor<4xf32>) -> tensor<4xi32>
    element { ^bb0(%i: i64, %j: i64, %e: f32): stage.yield %e : f32 }
    before { ^bb0(%a: f32, %b: f32): %l = arith.cmpf olt, %a, %b : f32
             stage.yield %l : i1 }
  return %0 : tensor<4xi32>
}

// -----

func.func @sort_compares(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{'before' has arguments of other types; expected ('f32', 'f32')}}
  %0 = stage.sort <() -> (4, 4), reduced = 1> along 0 reads(%x) at [#stage.access<(d0, d1) -> (d1)>] : (tensor<4xf32>) -> tensor<4xi64>
    element { ^bb0(%i: i64, %j: i64, %e: f32): stage.yield %e : f32 }
    before { ^bb0(%a: f32): %l = arith.cmpf olt, %a, %a : f32
             stage.yield %l : i1 }
  return %0 : tensor<4xi64>
}

// -----

func.func @sort_says_which(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{'before' yields values of other types; expected ('i1')}}
  %0 = stage.sort <() -> (4, 4), reduced = 1> along 0 reads(%x) at [#stage.access<(d0, d1) -> (d1)>] : (tensor<4xf32>) -> tensor<4xi64>
    element { ^bb0(%i: i64, %j: i64, %e: f32): stage.yield %e : f32 }
    before { ^bb0(%a: f32, %b: f32): stage.yield %a : f32 }
  return %0 : tensor<4xi64>
}

// -----

// The element would be another one for each place that it may have.
func.func @sort_depends(%x: tensor<4xf32>) -> tensor<4xi64> {
  // expected-error @+1 {{reads what depends on dimension 0, along which it goes}}
  %0 = stage.sort <() -> (4, 4), reduced = 1> along 0 reads(%x) at [#stage.access<(d0, d1) -> (d1)>] : (tensor<4xf32>) -> tensor<4xi64>
    element { ^bb0(%i: i64, %j: i64, %e: f32): stage.yield %i : i64 }
    before { ^bb0(%a: i64, %b: i64): %l = arith.cmpi slt, %a, %b : i64
             stage.yield %l : i1 }
  return %0 : tensor<4xi64>
}

// -----

// Extents.

func.func @extent_of_one() -> i64 {
  // expected-error @+1 {{is one expression over symbols; this is affine_map<()[s0] -> (s0, s0)>}}
  %0 = stage.extent affine_map<()[s0] -> (s0, s0)>
  return %0 : i64
}

// -----

func.func @extent_of_symbols() -> i64 {
  // expected-error @+1 {{is one expression over symbols; this is affine_map<(d0) -> (d0)>}}
  %0 = stage.extent affine_map<(d0) -> (d0)>
  return %0 : i64
}
