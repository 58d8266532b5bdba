// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The read of the tx dialect: symbols whose values a device computes.
// Apart from tx.td, since few files of the compiler need to know it (read.h).

#ifndef HEDDLE_COMPILER_IR_READ_TD
#define HEDDLE_COMPILER_IR_READ_TD

include "tx.td"

def Tx_ReadOp : Tx_Op<"read"> {
  let summary = "makes elements of a vector the values of symbols";
  let description =
      [{The vector has i64 elements and a static extent. Element i becomes the value of symbol number symbols[i] of the function, or is not
    read if that is -1. `tx.defined_symbols` names these symbols with the kind "read". Everything whose extents have one of them comes after the op.
    A program suspends the call here, and refuses it if a value is below 0 or above 2^40.}];
  let arguments = (ins Tx_Tensor:$value, DenseI64ArrayAttr:$symbols, OptionalAttr<StrAttr>:$slot);
  let assemblyFormat = "$value `as` $symbols (`on` $slot^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_READ_TD
