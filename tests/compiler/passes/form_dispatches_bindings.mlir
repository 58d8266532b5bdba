// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches=most-bindings=4 | FileCheck %s
// RUN: heddle-opt %s -split-input-file -heddle-form-dispatches | FileCheck %s --check-prefix=USUAL
// RUN: not heddle-opt %s -split-input-file -heddle-form-dispatches=most-bindings=3 2>&1 | FileCheck %s --check-prefix=FEW
// FEW: heddle-form-dispatches: most-bindings 3 is less than 4

// A chain that reads more than a kernel has bindings for is cut where the next value would be one too many. What is read twice, or is a
// constant of one value, is no more.
// CHECK: tx.fusion_log = [{consumer = "tx.mul", kind = "TooManyBindings", producer = "tx.add"}]
// CHECK-LABEL: @chain
// CHECK: %[[A:.*]] = tx.dispatch "chain.0.add"(%arg0, %arg1, %arg2) on
// CHECK: tx.add
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.constant
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.yield
// CHECK: %[[B:.*]] = tx.dispatch "chain.1.mul"(%[[A]], %arg3)
// CHECK-NOT: tx.dispatch
// CHECK: return %[[B]]
// USUAL: tx.fusion_log = []
// USUAL-LABEL: @chain
// USUAL: tx.dispatch "chain.0.add"(%arg0, %arg1, %arg2, %arg3)
// USUAL-NOT: tx.dispatch
// USUAL: return
func.func @chain(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> {
  %k = tx.constant dense<2.0> : tensor<8xf32>
  %0 = tx.add %a, %b : tensor<8xf32>
  %1 = tx.add %0, %c : tensor<8xf32>
  %2 = tx.add %1, %a : tensor<8xf32>
  %3 = tx.add %2, %k : tensor<8xf32>
  %4 = tx.mul %3, %d : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// -----

// An epilogue counts its operands beside those of its contraction; a broadcast counts as what it repeats.
// CHECK: tx.fusion_log = [{consumer = "tx.mul", kind = "TooManyBindings", producer = "tx.add"}]
// CHECK-LABEL: @epilogue
// CHECK: %[[A:.*]] = tx.dispatch "epilogue.0.matmul"(%arg0, %arg1, %arg2)
// CHECK: tx.matmul
// CHECK-NEXT: tx.broadcast
// CHECK-NEXT: tx.add
// CHECK-NEXT: tx.yield
// CHECK: tx.dispatch "epilogue.1.mul"(%[[A]], %arg3)
// CHECK: tx.mul
// CHECK-NEXT: tx.relu
// CHECK-NOT: tx.dispatch
// CHECK: return
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %s: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tx.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %bb = tx.broadcast %b {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<4x8xf32>
  %1 = tx.add %0, %bb : tensor<4x8xf32>
  %2 = tx.mul %1, %s : tensor<4x8xf32>
  %3 = tx.relu %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// A group joins another one as long as what both read fits; what is read by both counts once.
// CHECK: tx.fusion_log = [{consumer = "tx.sub", kind = "TooManyBindings", producer = "tx.{{add|mul}}"}]
// CHECK-LABEL: @merged
// CHECK: tx.dispatch
// CHECK: tx.dispatch
// CHECK-NOT: tx.dispatch
// CHECK-LABEL: @shared
// CHECK: tx.dispatch "shared.0.{{add|mul}}"(%arg0, %arg1, %arg2)
// CHECK-NOT: tx.dispatch
// CHECK: return
func.func @merged(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tx.add %a, %b : tensor<8xf32>
  %1 = tx.mul %c, %d : tensor<8xf32>
  %2 = tx.sub %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func @shared(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tx.add %a, %b : tensor<8xf32>
  %1 = tx.mul %b, %c : tensor<8xf32>
  %2 = tx.sub %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// A concat of too many values becomes one of concats, in equal parts; the same value many times is one binding.
// CHECK: tx.fusion_log = [{consumer = "tx.concat", kind = "TooManyBindings", producer = "tx.concat"}
// CHECK-LABEL: @concat
// CHECK: %[[A:.*]] = tx.dispatch "concat.0.concat"(%arg0, %arg1) {{.*}} -> tensor<5x?xf32
// CHECK: %[[B:.*]] = tx.dispatch "concat.1.concat"(%arg2, %arg3) {{.*}} -> tensor<6x?xf32
// CHECK: tx.dispatch "concat.2.concat"(%[[A]], %[[B]]) {{.*}} -> tensor<11x?xf32
// CHECK-LABEL: @repeated
// CHECK: tx.dispatch "repeated.0.concat"(%arg0)
// CHECK-NOT: tx.dispatch
// USUAL-LABEL: @concat
// USUAL: tx.dispatch "concat.0.concat"(%arg0, %arg1, %arg2, %arg3)
// USUAL-NOT: tx.dispatch
// USUAL: return
!a = tensor<2x?xf32, #tx.dims<()[s0] -> (2, s0)>>
!b = tensor<3x?xf32, #tx.dims<()[s0] -> (3, s0)>>
!c = tensor<4x?xf32, #tx.dims<()[s0] -> (4, s0)>>
!all = tensor<11x?xf32, #tx.dims<()[s0] -> (11, s0)>>
func.func @concat(%a: !a, %b: !b, %c: !c, %d: !a) -> !all attributes {tx.symbols = ["n"]} {
  %0 = tx.concat %a, %b, %c, %d {axis = 0} : !a, !b, !c, !a -> !all
  return %0 : !all
}
func.func @repeated(%a: tensor<2xf32>) -> tensor<8xf32> {
  %0 = tx.concat %a, %a, %a, %a {axis = 0} : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// More parts than one kernel reads are joined in turn.
// CHECK-LABEL: @nested
// CHECK-COUNT-7: tx.dispatch "nested.{{[0-9]}}.concat"
// CHECK-NOT: tx.dispatch
// CHECK: return
func.func @nested(%a: tensor<1xf32>, %b: tensor<1xf32>, %c: tensor<1xf32>, %d: tensor<1xf32>, %e: tensor<1xf32>, %f: tensor<1xf32>,
                  %g: tensor<1xf32>, %h: tensor<1xf32>, %i: tensor<1xf32>, %j: tensor<1xf32>) -> tensor<10xf32> {
  %0 = tx.concat %a, %b, %c, %d, %e, %f, %g, %h, %i, %j {axis = 0} : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32> -> tensor<10xf32>
  return %0 : tensor<10xf32>
}

// -----

// Broadcasts of one value are a binding each where somebody needs them as tensors, so they count as that.
// CHECK: kind = "TooManyBindings"
// CHECK-LABEL: @needed
// CHECK: %[[B:.*]] = tx.dispatch "needed.0.broadcast"(%arg1)
// CHECK: %[[C:.*]] = tx.dispatch "needed.1.broadcast"(%arg1)
// CHECK: %[[S:.*]] = tx.dispatch "needed.2.add"(%arg0, %[[B]], %[[C]])
// CHECK: tx.dispatch "needed.3.mul"(%[[S]], %arg2)
// CHECK-NOT: tx.dispatch
// CHECK: return
func.func @needed(%x: tensor<8x8xf32>, %v: tensor<8xf32>, %y: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %b = tx.broadcast %v {dimensions = array<i64: 0>} : tensor<8xf32> -> tensor<8x8xf32>
  %c = tx.broadcast %v {dimensions = array<i64: 1>} : tensor<8xf32> -> tensor<8x8xf32>
  %0 = tx.add %x, %b : tensor<8x8xf32>
  %1 = tx.add %0, %c : tensor<8x8xf32>
  %2 = tx.mul %1, %y : tensor<8x8xf32>
  return %2, %b, %c : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
