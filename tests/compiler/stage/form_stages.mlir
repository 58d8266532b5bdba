// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is printed is parsed again, and verified.
// RUN: heddle-opt %s -split-input-file -heddle-form-stages 2> %t.remarks | heddle-opt -split-input-file | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.remarks

// What only moves elements is a place to read from.
// CHECK-LABEL: @map
// CHECK: stage.map <() -> (6, 4)> reads(%[[A:.*]], %[[B:.*]]) at [#stage.access<(d0, d1) -> (d1, d0)>, #stage.access<(d0, d1) -> (d0)>]
// CHECK-NEXT: ^bb0(%{{.*}}: i64, %{{.*}}: i64, %[[X:.*]]: f32, %[[Y:.*]]: f32):
// CHECK-NEXT: %[[SUM:[0-9]+]] = arith.addf %[[X]], %[[Y]]
// CHECK-NEXT: stage.yield %[[SUM]]
// CHECK-NOT: tx.{{add|transpose|broadcast}}
func.func @map(%x: tensor<4x6xf32>, %b: tensor<6xf32>) -> tensor<6x4xf32> {
  %0 = tx.dispatch "map"(%x, %b) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<6x4xf32> {
  ^bb0(%a: tensor<4x6xf32>, %c: tensor<6xf32>):
    %1 = tx.broadcast %c {dimensions = array<i64: 1>} : tensor<6xf32> -> tensor<4x6xf32>
    %2 = tx.add %a, %1 : tensor<4x6xf32>
    %3 = tx.transpose %2 {permutation = array<i64: 1, 0>} : tensor<4x6xf32> -> tensor<6x4xf32>
    tx.yield %3 : tensor<6x4xf32>
  }
  return %0 : tensor<6x4xf32>
}

// -----

// Sums of f16 are f32.
// CHECK-LABEL: @contract
// CHECK: stage.contract <() -> (4, 6, 8), reduced = 1>
// CHECK-SAME: [#stage.access<(d0, d1, d2) -> (d0, d2)>, #stage.access<(d0, d1, d2) -> (d2, d1)>] in f32
// CHECK-COUNT-2: arith.extf {{.*}} : f16 to f32
// CHECK: finish
// CHECK: arith.truncf {{.*}} : f32 to f16
func.func @contract(%x: tensor<4x8xf16>, %w: tensor<8x6xf16>) -> tensor<4x6xf16> {
  %0 = tx.dispatch "contract"(%x, %w) : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf16> {
  ^bb0(%a: tensor<4x8xf16>, %c: tensor<8x6xf16>):
    %1 = tx.matmul %a, %c : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf16>
    %2 = tx.relu %1 : tensor<4x6xf16>
    tx.yield %2 : tensor<4x6xf16>
  }
  return %0 : tensor<4x6xf16>
}

// -----

// Two accumulators.
// CHECK-LABEL: @arg
// CHECK: stage.fold <() -> (4, 8), reduced = 1>
// CHECK: stage.yield %{{.*}}, %{{.*}} : f32, i64
// CHECK: step
// CHECK: ^bb0(%{{.*}}: i64, %[[AT:.*]]: i64, %[[X:.*]]: f32, %[[BEST:.*]]: f32, %[[WHERE:.*]]: i64):
// CHECK-NEXT: %[[AHEAD:.*]] = arith.cmpf ogt, %[[X]], %[[BEST]]
// CHECK-NEXT: arith.select %[[AHEAD]], %[[X]], %[[BEST]]
// CHECK-NEXT: arith.select %[[AHEAD]], %[[AT]], %[[WHERE]]
func.func @arg(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  %0 = tx.dispatch "arg"(%x) : (tensor<4x8xf32>) -> tensor<4xi64> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = tx.arg_reduce max %a {axis = 1 : i64} : tensor<4x8xf32> -> tensor<4xi64>
    tx.yield %1 : tensor<4xi64>
  }
  return %0 : tensor<4xi64>
}

// -----

// CHECK-LABEL: @cumsum
// CHECK: stage.scan <() -> (4, 8)> along 1 reads(%{{.*}}) step_reads 1 at [#stage.access<(d0, d1) -> (d0, d1)>]
// CHECK: step
// CHECK: ^bb0(%{{.*}}: i64, %{{.*}}: i64, %[[X:.*]]: f32, %[[SUM:.*]]: f32):
// CHECK-NEXT: arith.addf %[[SUM]], %[[X]]
// CHECK: finish
// CHECK-NEXT: ^bb0(%{{.*}}: i64, %{{.*}}: i64, %[[BEFORE:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: stage.yield %[[BEFORE]]
func.func @cumsum(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tx.dispatch "cumsum"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = tx.cumsum %a {axis = 1 : i64, exclusive} : tensor<4x8xf32>
    tx.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// What is exponentiated is read twice, and made once.
// CHECK-LABEL: @softmax
// CHECK: %[[MAX:[0-9]+]] = stage.fold <() -> (4, 8), reduced = 1> reads(%[[X:[a-z0-9]+]])
// CHECK: %[[EXP:[0-9]+]] = stage.map <() -> (4, 8)> reads(%[[X]], %[[MAX]])
// CHECK-SAME: [#stage.access<(d0, d1) -> (d0, d1)>, #stage.access<(d0, d1) -> (d0)>]
// CHECK: math.exp
// CHECK: %[[SUM:[0-9]+]] = stage.fold <() -> (4, 8), reduced = 1> reads(%[[EXP]])
// CHECK: %[[Y:[0-9]+]] = stage.map <() -> (4, 8)> reads(%[[EXP]], %[[SUM]])
// CHECK: tx.yield %[[Y]]
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tx.dispatch "softmax"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = tx.softmax %a {axis = 1 : i64} : tensor<4x8xf32>
    tx.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// Half-precision values that stages hand on are in f32; a mean over a symbolic extent divides by its value.
// CHECK-LABEL: @centered
// CHECK: %[[MEAN:[0-9]+]] = stage.fold {{.*}} -> tensor<?xf32
// CHECK: stage.extent #map
// CHECK: stage.map {{.*}} reads(%{{.*}}, %[[MEAN]])
func.func @centered(%x: tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>) -> tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>> attributes {tx.symbols = ["n"]} {
  %0 = tx.dispatch "centered"(%x) : (tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>) -> tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>> {
  ^bb0(%a: tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>):
    %1 = tx.reduce mean %a {axes = array<i64: 1>} : tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>> -> tensor<?xf16, #tx.dims<()[s0] -> (s0)>>
    %2 = tx.broadcast %1 {dimensions = array<i64: 0>} : tensor<?xf16, #tx.dims<()[s0] -> (s0)>> -> tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>
    %3 = tx.sub %a, %2 : tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>
    tx.yield %3 : tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>
  }
  return %0 : tensor<?x?xf16, #tx.dims<()[s0] -> (s0, s0)>>
}

// -----

// A window ends where the image does, and a mean is of the elements that are there.
// CHECK-LABEL: @average
// CHECK: stage.fold <() -> (1, 5, 4, 8, 3, 3), reduced = 2 within[(d0, d1, d2, d3, d4, d5) -> (d1 * 2 + d4 - 1, 9), (d0, d1, d2, d3, d4, d5) -> (d2 * 2 + d5 - 1, 8)]>
// CHECK-SAME: at [#stage.access<(d0, d1, d2, d3, d4, d5) -> (d0, d1 * 2 + d4 - 1, d2 * 2 + d5 - 1, d3)>]
// CHECK: finish {
// CHECK: arith.minsi
// CHECK: arith.sitofp
// CHECK: arith.divf
func.func @average(%x: tensor<1x9x8x8xf32>) -> tensor<1x5x4x8xf32> {
  %0 = tx.dispatch "average"(%x) : (tensor<1x9x8x8xf32>) -> tensor<1x5x4x8xf32> {
  ^bb0(%a: tensor<1x9x8x8xf32>):
    %1 = tx.pool average %a {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : tensor<1x9x8x8xf32> -> tensor<1x5x4x8xf32>
    tx.yield %1 : tensor<1x5x4x8xf32>
  }
  return %0 : tensor<1x5x4x8xf32>
}

// -----

// CHECK-LABEL: @lrn
// CHECK: stage.fold <() -> (4, 8, 5), reduced = 1 within[(d0, d1, d2) -> (d1 + d2 - 2, 8)]> reads(%[[X:.*]], %[[X]]) step_reads 1
func.func @lrn(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tx.dispatch "lrn"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %1 = tx.lrn %a {size = 5, alpha = 1.0e-4, beta = 0.75, bias = 1.0} : tensor<4x8xf32>
    tx.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: @pack
// CHECK: tx.pack
// REMARK: remark: cannot form stages: tx.pack is not an op of stages
func.func @pack(%x: tensor<3x4xf32>) -> tensor<48xf32> {
  %0 = tx.dispatch "pack"(%x) : (tensor<3x4xf32>) -> tensor<48xf32> {
  ^bb0(%a: tensor<3x4xf32>):
    %1 = tx.pack %a {groups = 1 : i64} : tensor<3x4xf32> -> tensor<48xf32>
    tx.yield %1 : tensor<48xf32>
  }
  return %0 : tensor<48xf32>
}

// -----

// Every part is read, at a place that is inside of it; the index says which one counts.
// CHECK-LABEL: @concat
// CHECK: stage.map <() -> (2, 12)> reads(%[[A:.*]], %[[B:.*]]) at [#stage.access<(d0, d1) -> (d0, d1 mod 4)>, #stage.access<(d0, d1) -> (d0, (d1 + 4) mod 8)>]
// CHECK: ^bb0(%{{.*}}: i64, %[[I:.*]]: i64, %[[X:.*]]: f32, %[[Y:.*]]: f32):
// CHECK: %[[BEHIND:.*]] = arith.cmpi sge, %[[I]]
// CHECK: arith.select %[[BEHIND]], %[[Y]], %[[X]]
func.func @concat(%x: tensor<2x4xf32>, %y: tensor<2x8xf32>) -> tensor<2x12xf32> {
  %0 = tx.dispatch "concat"(%x, %y) : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<2x12xf32> {
  ^bb0(%a: tensor<2x4xf32>, %b: tensor<2x8xf32>):
    %1 = tx.concat %a, %b {axis = 1} : tensor<2x4xf32>, tensor<2x8xf32> -> tensor<2x12xf32>
    tx.yield %1 : tensor<2x12xf32>
  }
  return %0 : tensor<2x12xf32>
}

// -----

// CHECK-LABEL: @scatter
// CHECK: stage.scatter <() -> (9, 4, 5), reduced = 1> along 0 reads(%{{.*}}, %{{.*}}, %{{.*}}) place_reads 1 step_reads 1 at [#stage.access<(d0, d1, d2) -> (d2)>, #stage.access<(d0, d1, d2) -> (d2, d1)>, #stage.access<(d0, d1) -> (d0, d1)>]
// CHECK: place
// CHECK: ^bb0(%{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %[[I:.*]]: i32):
// CHECK: %[[WIDE:.*]] = arith.extsi %[[I]]
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[WIDE]]
// CHECK: step
// CHECK-NEXT: ^bb0(%{{.*}}: i64, %{{.*}}: i64, %{{.*}}: i64, %[[UPDATE:.*]]: f32, %[[OLD:.*]]: f32):
// CHECK-NEXT: arith.addf %[[OLD]], %[[UPDATE]]
// CHECK: init
func.func @scatter(%x: tensor<9x4xf32>, %i: tensor<5xi32>, %u: tensor<5x4xf32>) -> tensor<9x4xf32> {
  %0 = tx.dispatch "scatter"(%x, %i, %u) : (tensor<9x4xf32>, tensor<5xi32>, tensor<5x4xf32>) -> tensor<9x4xf32> {
  ^bb0(%a: tensor<9x4xf32>, %b: tensor<5xi32>, %c: tensor<5x4xf32>):
    %1 = tx.scatter %a, %b, %c {axis = 0 : i64, kind = 0 : i32} : tensor<9x4xf32>, tensor<5xi32>, tensor<5x4xf32>
    tx.yield %1 : tensor<9x4xf32>
  }
  return %0 : tensor<9x4xf32>
}

// -----

// The largest ones first, and NaN before all others.
// CHECK-LABEL: @sort
// CHECK: stage.sort <() -> (4, 5, 300), reduced = 1> along 1 reads(%{{.*}}) at [#stage.access<(d0, d1, d2) -> (d0, d2)>]
// CHECK: before
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[LARGER:.*]] = arith.cmpf olt, %[[B]], %[[A]]
// CHECK-NEXT: %[[NUMBER:.*]] = arith.cmpf oeq, %[[B]], %[[B]]
// CHECK-NEXT: %[[NAN:.*]] = arith.cmpf une, %[[A]], %[[A]]
// CHECK-NEXT: %[[BOTH:.*]] = arith.andi %[[NUMBER]], %[[NAN]]
// CHECK-NEXT: %[[BEFORE:.*]] = arith.ori %[[LARGER]], %[[BOTH]]
// CHECK-NEXT: stage.yield %[[BEFORE]]
func.func @sort(%x: tensor<4x300xf32>) -> tensor<4x5xi64> {
  %0 = tx.dispatch "sort"(%x) : (tensor<4x300xf32>) -> tensor<4x5xi64> {
  ^bb0(%a: tensor<4x300xf32>):
    %1 = tx.sort %a {axis = 1 : i64, descending} : tensor<4x300xf32> -> tensor<4x5xi64>
    tx.yield %1 : tensor<4x5xi64>
  }
  return %0 : tensor<4x5xi64>
}

// A box that stays is at the reduced index, and a later one at the index along the line.
// CHECK-LABEL: @suppress
// CHECK: stage.sieve <() -> (2, 9, 9), reduced = 1> along 1 reads
// CHECK-SAME: limit_reads 1 step_reads 9
// CHECK-SAME: #stage.access<(d0, d1, d2) -> (d0, d2, 0)>
// CHECK-SAME: #stage.access<(d0, d1, d2) -> (d0, d1, 3)>
// CHECK: limit
// CHECK: removes
// CHECK: stage.sieve_yield %{{.*}} : i1
// CHECK: init
func.func @suppress(%x: tensor<2x9x4xf32>, %c: tensor<2x9xi1>, %t: tensor<f32>, %l: tensor<i64>) -> tensor<2x9xi1> {
  %0 = tx.dispatch "suppress"(%x, %c, %t, %l) : (tensor<2x9x4xf32>, tensor<2x9xi1>, tensor<f32>, tensor<i64>) -> tensor<2x9xi1> {
  ^bb0(%a: tensor<2x9x4xf32>, %b: tensor<2x9xi1>, %d: tensor<f32>, %e: tensor<i64>):
    %1 = tx.suppress %a, %b, %d, %e : tensor<2x9x4xf32>, tensor<2x9xi1>, tensor<f32>, tensor<i64> -> tensor<2x9xi1>
    tx.yield %1 : tensor<2x9xi1>
  }
  return %0 : tensor<2x9xi1>
}
