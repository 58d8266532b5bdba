// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise ops on the bits of integers.
// Apart from tx.td, since few files of the compiler need to know them (bits.h).

#ifndef HEDDLE_COMPILER_IR_BITS_TD
#define HEDDLE_COMPILER_IR_BITS_TD

include "tx.td"

class Tx_BitOp<string mnem> : Tx_Binary<mnem> { let hasVerifier = 1; }

def Tx_BitAndOp : Tx_BitOp<"bit_and">;
def Tx_BitOrOp : Tx_BitOp<"bit_or">;
def Tx_BitXorOp : Tx_BitOp<"bit_xor">;

#endif // HEDDLE_COMPILER_IR_BITS_TD
