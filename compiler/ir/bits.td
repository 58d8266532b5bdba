// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise ops on the bits of elements.
// Apart from tx.td, since few files of the compiler need to know them (bits.h).

#ifndef HEDDLE_COMPILER_IR_BITS_TD
#define HEDDLE_COMPILER_IR_BITS_TD

include "tx.td"

class Tx_BitOp<string mnem> : Tx_Binary<mnem> { let hasVerifier = 1; }

def Tx_BitAndOp : Tx_BitOp<"bit_and">;
def Tx_BitOrOp : Tx_BitOp<"bit_or">;
def Tx_BitXorOp : Tx_BitOp<"bit_xor">;

def Tx_BitCastOp : Tx_PureOp<"bit_cast", [Tx_Elementwise]> {
  let summary = "the same bits as elements of another type of that size";
  let description = [{Neither type is i1. f16 and bf16 are computed in f32, so a NaN of theirs keeps its sign and is a NaN, but may have other bits.}];
  let arguments = (ins Tx_Tensor:$input);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tx_RandomBitsOp : Tx_PureOp<"random_bits", [Tx_Elementwise, Tx_Costly]> {
  let summary = "random bits for an index, which the seed determines";
  let description = [{The first word of Philox4x32-10 (J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3; SC 2011) for the counter
    (low word of the index, high word of the index, 0, 0) and the key (low word of the seed, high word of the seed). Index and seed are i64, the
    result is ui32.}];
  let arguments = (ins Tx_Tensor:$index, Tx_Tensor:$seed);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$index `,` $seed attr-dict `:` type($index) `,` type($seed) `->` type($result)";
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_BITS_TD
