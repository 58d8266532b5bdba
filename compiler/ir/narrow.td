// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types that no kernel computes in: floats of 8 and 4 bits, integers of 4 and 2 bits.
// Apart from tx.td, since few files of the compiler need to know them (narrow.h).

#ifndef HEDDLE_COMPILER_IR_NARROW_TD
#define HEDDLE_COMPILER_IR_NARROW_TD

include "tx.td"

def Narrow_Dialect : Dialect {
  let name = "narrow";
  let cppNamespace = "::heddle::tx";
  let summary = "the types of such elements; loaded with tx, which has their ops";
  let useDefaultTypePrinterParser = 1;
}

class Narrow_Op<string mnem> : Tx_PureOp<"narrow_" # mnem, [Tx_Elementwise]> { let hasVerifier = 1; }

def Narrow_Type : TypeDef<Narrow_Dialect, "Narrow"> {
  let mnemonic = "type";
  let summary = "an element type of arguments, results and parameters, by its name in types.h: \"f8e4m3\", \"f8e4m3fnuz\", \"f8e5m2\", "
                "\"f8e5m2fnuz\", \"f8e8m0\", \"f4e2m1\", \"i4\", \"u4\", \"i2\" or \"u2\"";
  let description = [{Only until heddle-store-narrow: after it, each element is in a byte (narrow.h).}];
  let parameters = (ins StringRefParameter<"one of the names">:$name);
  let assemblyFormat = "`<` $name `>`";
  let genVerifyDecl = 1;
}

def Narrow_StoredOp : Narrow_Op<"stored"> {
  let summary = "the elements of a narrow type as the integers that they are stored as, or the reverse";
  let description = [{Either the input or the result has a narrow type, and the other one its stored type (narrow.h).}];
  let arguments = (ins Tx_Tensor:$input);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Narrow_PackedOp : Tx_PureOp<"narrow_packed"> {
  let summary = "the elements of a narrow type as the bytes in which others see them (narrow.h)";
  let arguments = (ins Tx_Tensor:$input);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Narrow_DequantizeOp : Tx_PureOp<"narrow_dequantize"> {
  let summary = "a matrix of integers of 4 bits as f32, (integer - zero) * scale, with a scale and a zero for each block along an axis";
  let description = [{Only until heddle-read-dequantized. The input, [rows, columns / 2] of ui8, has two integers in each byte, the first one in its low
    bits: from 0 to 15, or with `is_signed` from -8 to 7. Along the axis, every `block` elements, a power of 2 from 16, have one of the `scales`, which are
    floats of 16 or 32 bits, and one of the `zeros`: floats, or ui8, or i8 with `is_signed`. Both are [rows, columns] with that axis divided by `block`.
    Without zeros, nothing is subtracted.}];
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$scales, Optional<Tx_Tensor>:$zeros, I64Attr:$axis, I64Attr:$block, UnitAttr:$is_signed);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $scales (`,` `zeros` $zeros^)? attr-dict `:` type($input) `,` type($scales) (`,` type($zeros)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Narrow_DecodeFloatOp : Narrow_Op<"decode"> {
  let summary = "the numbers, as f32, of floats of the narrow type `format` that are stored as ui8; exact";
  let arguments = (ins Tx_Tensor:$input, StrAttr:$format);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `as` $format attr-dict `:` type($input) `->` type($result)";
}

def Narrow_EncodeFloatOp : Narrow_Op<"encode"> {
  let summary = "f32 rounded to floats of the narrow type `format`, stored as ui8";
  let description = [{As Cast of ONNX: rounded to nearest, ties to even. A number that is too large then, and an infinity, becomes the largest number with
    `saturate`, else an infinity or NaN, whichever the format has. A format without NaN has -0 in its place. f8e8m0, which has powers of 2 and no sign,
    rounds by `round`: "nearest" (ties up), "up" or "down"; without `saturate` what is below its smallest number becomes NaN.}];
  let arguments = (ins Tx_Tensor:$input, StrAttr:$format, UnitAttr:$saturate, OptionalAttr<StrAttr>:$round);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `as` $format attr-dict `:` type($input) `->` type($result)";
}

#endif // HEDDLE_COMPILER_IR_NARROW_TD
