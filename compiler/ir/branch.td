// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The branch of the tx dialect: one of two functions.
// Apart from tx.td, since few files of the compiler need to know it (control.h).

#ifndef HEDDLE_COMPILER_IR_BRANCH_TD
#define HEDDLE_COMPILER_IR_BRANCH_TD

include "tx.td"
include "mlir/IR/SymbolInterfaces.td"

def Tx_IfOp : Tx_Op<"if", [NoMemoryEffect, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the results of one of two functions, chosen by a number that a device computes: the first unless it is 0";
  let description = [{The condition is one i64. Both functions are private, are used here only, and take all inputs, none of which they overwrite. Their
    extents are expressions over the symbols of the function that the op is in, whose `tx.symbols` they repeat. Verdicts (tx.checks) follow the
    results of a function, and are not results of the op. Programs have the commands of both functions in place of the op.}];
  let arguments = (ins Tx_Tensor:$condition, Variadic<Tx_Tensor>:$inputs, FlatSymbolRefAttr:$then_function, FlatSymbolRefAttr:$else_function,
                       OptionalAttr<StrAttr>:$slot);
  let results = (outs Variadic<Tx_Tensor>:$outputs);
  let assemblyFormat = [{$condition `then` $then_function `else` $else_function `(` $inputs `)` (`on` $slot^)? attr-dict `:`
    type($condition) `,` functional-type($inputs, $outputs)}];
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_BRANCH_TD
