// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loop of the tx dialect: a function that is called again and again.
// Apart from tx.td, since few files of the compiler need to know it (control.h).

#ifndef HEDDLE_COMPILER_IR_LOOP_TD
#define HEDDLE_COMPILER_IR_LOOP_TD

include "tx.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tx_LoopOp : Tx_Op<"loop", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, AttrSizedOperandSegments,
                               DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a function that is called with its own results until it has been called often enough, or a number that it computes is 0";
  let description = [{The body is a private function, used here only. Its arguments are the carried values, which it may overwrite (tx.alias), one slice along
    the first dimension of each value in `scanned`, and `inputs`, which stay the same. Its results are, with `conditional`, an i64, which is 0 after the
    last step, then the carried values for the next step, and then slices; verdicts (tx.checks) follow. Carried values keep their types, apart from
    extents in `varying`, and begin as `init`. The results are the carried values after the last step, and the slices of all steps, stacked along a new first dimension of `count`.

    There are at most `count` steps, an expression over the symbols of the function that the op is in, or `trips` steps, an i64 that a device computes.
    Without both, only the condition ends the loop. With a `condition`, an i64, there is no step if it is 0. Step i has slice i, or where `reversed` is not
    0 (one number for each value in `scanned`, then for each stacked result), slice count - 1 - i. As for tx.if, extents are over the same symbols.

    Extents of carried values may vary. `varying` has, for each of them, its value before the first step, and its value after a step, and
    `varying_symbols` the positions of two symbols, which have the kind "read" in `tx.defined_symbols`: the extent during a step, and after the loop.
    The extent is the first symbol in the body's argument, and the second one in the op's result. Such a loop has an effect, as tx.read has: its symbols
    may be needed where its results are not.}];
  let arguments = (ins Optional<Tx_Tensor>:$trips, Optional<Tx_Tensor>:$condition, Variadic<Tx_Tensor>:$init, Variadic<Tx_Tensor>:$scanned,
                       Variadic<Tx_Tensor>:$inputs, FlatSymbolRefAttr:$body, OptionalAttr<AffineMapAttr>:$count, UnitAttr:$conditional,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$reversed, OptionalAttr<StrAttr>:$slot,
                       OptionalAttr<AffineMapAttr>:$varying, OptionalAttr<DenseI64ArrayAttr>:$varying_symbols);
  let results = (outs Variadic<Tx_Tensor>:$outputs);
  let assemblyFormat = [{$body (`trips` $trips^)? (`while` $condition^)? `from` `(` $init `)` `over` `(` $scanned `)` `with` `(` $inputs `)`
    (`on` $slot^)? attr-dict `:` functional-type(operands, results)}];
  let extraClassDeclaration = [{
    // Whether this value in `scanned`, or the stacked result after them, goes from the last slice to the first.
    bool goes_back(size_t index) { return index < getReversed().size() && getReversed()[index] != 0; }
    // A varying extent.
    struct Varying {
      mlir::AffineExpr first, next;
      unsigned inside, after;  // positions of symbols
    };
    llvm::SmallVector<Varying> varying();
    // The type of a carried value by that of its result: before the first step, at the beginning of a step, and at the end of one.
    mlir::RankedTensorType first_type(mlir::Type result);
    mlir::RankedTensorType inside_type(mlir::Type result);
    mlir::RankedTensorType next_type(mlir::Type result);
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_LOOP_TD
