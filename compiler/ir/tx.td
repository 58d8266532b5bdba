// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tx dialect: a model as one graph of named tensor ops. Importers write it, passes rewrite it, targets read the contents of
// tx.dispatch. It knows no memory layout: a tensor is a value; results of a dispatch are dense and row-major.
//
// Conventions
//  * Element-wise ops take operands of one shape; broadcasting is explicit (tx.broadcast).
//  * Image ops are channels-last: input [N, spatial..., C], filter [spatial..., C / groups, F]. An importer of a channels-first
//    format transposes around them; the passes move and cancel the transposes.
//  * A dynamic extent is an affine expression over the function's symbols, kept in the type's encoding:
//      tensor<?x8xf32, #tx.dims<()[s0] -> (s0, 8)>>, where s0 is the first of the function's `tx.symbols`.

#ifndef HEDDLE_COMPILER_IR_TX_TD
#define HEDDLE_COMPILER_IR_TX_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Tx_Dialect : Dialect {
  let name = "tx";
  let cppNamespace = "::heddle::tx";
  let summary = "named tensor operations of a model";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

class Tx_Attr<string name, string mnem, list<Trait> traits = []> : AttrDef<Tx_Dialect, name, traits> {
  let mnemonic = mnem;
}

def Tx_DimsAttr : Tx_Attr<"Dims", "dims"> {
  let summary = "extents of a tensor as affine expressions over the function's symbols";
  let parameters = (ins "::mlir::AffineMap":$map);
  let assemblyFormat = "`<` $map `>`";
}

def Tx_OperationAttr : Tx_Attr<"Operation", "operation"> {
  let summary = "an operator of library plugins: domain, name, version, and its attributes as the record of tx.custom";
  let parameters = (ins StringRefParameter<"not empty">:$domain, StringRefParameter<"not empty">:$name, "uint64_t":$version,
                        "::mlir::DictionaryAttr":$record);
  let assemblyFormat = "`<` $domain `,` $name `,` $version `,` $record `>`";
  let extraClassDeclaration = [{
    std::string describe() const { return getDomain().str() + "::" + getName().str() + "/" + std::to_string(getVersion()); }
  }];
}

def Tx_Tensor : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "ranked tensor", "::mlir::RankedTensorType">;

// Traits of ops, for passes and targets; tx.h says what each of them means.
class Tx_Trait<string name> : NativeOpTrait<name> { let cppNamespace = "::heddle::tx"; }
def Tx_Elementwise : Tx_Trait<"Elementwise">;
def Tx_Costly : Tx_Trait<"Costly">;
def Tx_KeepsWhole : Tx_Trait<"KeepsWhole">;
def Tx_Rounds : Tx_Trait<"Rounds">;
def Tx_Movement : Tx_Trait<"Movement">;
def Tx_View : Tx_Trait<"View">;
def Tx_LookUp : Tx_Trait<"LookUp">;
def Tx_Contraction : Tx_Trait<"Contraction">;
def Tx_JoinsRows : Tx_Trait<"JoinsRows">;
def Tx_SameBytes : Tx_Trait<"SameBytes">;
def Tx_OnlyStages : Tx_Trait<"OnlyStages">;
def Tx_TakesEpilogue : Tx_Trait<"TakesEpilogue">;

def Tx_RowsOp : OpInterface<"RowsOp"> {
  let cppNamespace = "::heddle::tx";
  let description = [{An op that goes through the rows of its first operand, once or several times, to compute its result for each.}];
  let methods = [InterfaceMethod<"The dimensions of the operand that make up a row.", "::llvm::SmallVector<int64_t>", "getRowAxes">];
}
def Tx_GoesThroughRows : DeclareOpInterfaceMethods<Tx_RowsOp>;

class Tx_Op<string mnem, list<Trait> traits = []> : Op<Tx_Dialect, mnem, traits>;
class Tx_PureOp<string mnem, list<Trait> traits = []> : Tx_Op<mnem, !listconcat(traits, [Pure])>;

//===-------------------------------------------------------------------------------------------------- constants

def Tx_ParameterOp : Tx_PureOp<"parameter"> {
  let summary = "a named constant whose bytes live outside the IR";
  let description = [{
    Its bytes come from the importer's parameter store or, at load, from a file. With a scope, which may be empty, they always come from a file of
    that scope. Scope and name together are unique in the module. `blocks` is the type of the blocks in which the file has the values (block_type).
    They are converted when the module is loaded or, after heddle-keep-blocks, stay as they are: then the result has, in place of each row (last
    dimension) of values, the bytes of its blocks, as ui8.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<StrAttr>:$scope, OptionalAttr<StrAttr>:$blocks);
  let results = (outs Tx_Tensor:$result);
  let builders = [OpBuilder<(ins "mlir::Type":$result, "mlir::StringAttr":$name, "mlir::StringAttr":$scope), [{
    build($_builder, $_state, result, name, scope, mlir::StringAttr());
  }]>];
  let hasVerifier = 1;
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Tx_ConstantOp : Tx_PureOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a small constant, or a splat of any size";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

//===---------------------------------------------------------------------------------------------- element-wise ops

class Tx_Unary<string mnem, list<Trait> traits = []> : Tx_PureOp<mnem, !listconcat(traits, [Tx_Elementwise, AllTypesMatch<["input", "result"]>])> {
  let arguments = (ins Tx_Tensor:$input);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}
class Tx_Binary<string mnem, list<Trait> traits = []> : Tx_PureOp<mnem, !listconcat(traits, [Tx_Elementwise, AllTypesMatch<["lhs", "rhs", "result"]>])> {
  let arguments = (ins Tx_Tensor:$lhs, Tx_Tensor:$rhs);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Tx_NegOp : Tx_Unary<"neg", [Tx_KeepsWhole]>;
def Tx_AbsOp : Tx_Unary<"abs", [Tx_KeepsWhole]>;
def Tx_ExpOp : Tx_Unary<"exp", [Tx_Costly]>;
def Tx_LogOp : Tx_Unary<"log", [Tx_Costly]>;
def Tx_SqrtOp : Tx_Unary<"sqrt">;
def Tx_RsqrtOp : Tx_Unary<"rsqrt">;
def Tx_ReciprocalOp : Tx_Unary<"reciprocal">;
def Tx_TanhOp : Tx_Unary<"tanh", [Tx_Costly]>;
def Tx_SigmoidOp : Tx_Unary<"sigmoid", [Tx_Costly]>;
def Tx_ErfOp : Tx_Unary<"erf", [Tx_Costly]>;
def Tx_CosOp : Tx_Unary<"cos", [Tx_Costly]>;
def Tx_SinOp : Tx_Unary<"sin", [Tx_Costly]>;
def Tx_ReluOp : Tx_Unary<"relu", [Tx_KeepsWhole]>;
def Tx_FloorOp : Tx_Unary<"floor", [Tx_Rounds]>;
def Tx_CeilOp : Tx_Unary<"ceil", [Tx_Rounds]>;
def Tx_RoundOp : Tx_Unary<"round", [Tx_Rounds]> {
  let summary = "the nearest whole number, ties to the even one";
}

def Tx_AddOp : Tx_Binary<"add", [Tx_KeepsWhole]>;
def Tx_SubOp : Tx_Binary<"sub", [Tx_KeepsWhole]>;
def Tx_MulOp : Tx_Binary<"mul", [Tx_KeepsWhole]>;
def Tx_DivOp : Tx_Binary<"div">;
def Tx_MaxOp : Tx_Binary<"max", [Tx_KeepsWhole]>;
def Tx_MinOp : Tx_Binary<"min", [Tx_KeepsWhole]>;
def Tx_PowOp : Tx_Binary<"pow", [Tx_Costly]>;

def Tx_CompareKind : I32EnumAttr<"CompareKind", "comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::heddle::tx";
}
def Tx_CompareOp : Tx_PureOp<"compare", [Tx_Elementwise, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "i1 tensor of lhs <kind> rhs";
  let arguments = (ins Tx_CompareKind:$kind, Tx_Tensor:$lhs, Tx_Tensor:$rhs);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$kind $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}
def Tx_SelectOp : Tx_PureOp<"select", [Tx_Elementwise, AllTypesMatch<["on_true", "on_false", "result"]>]> {
  let arguments = (ins Tx_Tensor:$condition, Tx_Tensor:$on_true, Tx_Tensor:$on_false);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)";
  let hasVerifier = 1;
}
def Tx_CastOp : Tx_PureOp<"cast", [Tx_Elementwise]> {
  let summary = "element type conversion; float to integer truncates toward zero and saturates";
  let arguments = (ins Tx_Tensor:$input);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

//===--------------------------------------------------------------------------------------------------- data movement

class Tx_Move<string mnem, list<Trait> traits = []> : Tx_PureOp<mnem, !listconcat(traits, [Tx_Movement])> {
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_ReshapeOp : Tx_Move<"reshape", [Tx_View, Tx_SameBytes, Tx_KeepsWhole]> {
  let summary = "the same elements in row-major order with other extents";
  let arguments = (ins Tx_Tensor:$input);
  let hasFolder = 1;
}
def Tx_TransposeOp : Tx_Move<"transpose", [Tx_KeepsWhole]> {
  let summary = "result dimension i is input dimension permutation[i]";
  let arguments = (ins Tx_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let hasFolder = 1;
}
def Tx_BroadcastOp : Tx_Move<"broadcast", [Tx_View, Tx_KeepsWhole]> {
  let summary = "input dimension i becomes result dimension dimensions[i]; extents of 1 are repeated";
  let arguments = (ins Tx_Tensor:$input, DenseI64ArrayAttr:$dimensions);
  let hasFolder = 1;
}
def Tx_SliceOp : Tx_Move<"slice", [Tx_KeepsWhole]> {
  let summary = "elements starts[i] + j * strides[i] along each dimension; extents by the result type";
  let arguments = (ins Tx_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$strides);
  let hasFolder = 1;
}
def Tx_PadOp : Tx_Move<"pad"> {
  let summary = "low[i] and high[i] elements of `value` around each dimension; not negative";
  let arguments = (ins Tx_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, F64Attr:$value);
}
def Tx_ConcatOp : Tx_PureOp<"concat", [Tx_Movement]> {
  let summary = "the inputs one after another along the axis";
  let description = [{Outside of regions, after heddle-store-parts, it is no command: regions store their results in its memory.}];
  let arguments = (ins Variadic<Tx_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_GatherOp : Tx_PureOp<"gather", [Tx_LookUp, Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "slices of input along axis, chosen by integer indices (negative ones count from the end)";
  let description = [{With `blocks`, the input is a matrix whose rows are stored in blocks of this type, [rows, bytes of a row] of ui8, the axis is 0, and
    the result has their values as f32.}];
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$indices, I64Attr:$axis, OptionalAttr<StrAttr>:$blocks);
  let results = (outs Tx_Tensor:$result);
  let builders = [OpBuilder<(ins "mlir::Type":$result, "mlir::Value":$input, "mlir::Value":$indices, "mlir::IntegerAttr":$axis), [{
    build($_builder, $_state, result, input, indices, axis, mlir::StringAttr());
  }]>, OpBuilder<(ins "mlir::Type":$result, "mlir::Value":$input, "mlir::Value":$indices, "int64_t":$axis), [{
    build($_builder, $_state, result, input, indices, $_builder.getI64IntegerAttr(axis), mlir::StringAttr());
  }]>];
  let assemblyFormat = "$input `,` $indices attr-dict `:` type($input) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def Tx_GatherElementsOp : Tx_PureOp<"gather_elements", [Tx_LookUp, Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "result[i, j, k] = input[i, indices[i, j, k], k] for axis 1; negative indices count from the end";
  let description = [{The result has the extents of the indices, which are at most the input's in the other dimensions.}];
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$indices, I64Attr:$axis);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `,` $indices attr-dict `:` type($input) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_GatherNdOp : Tx_PureOp<"gather_nd", [Tx_LookUp, Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "slices of input, chosen by rows of indices, with one index for each dimension after the batch dimensions";
  let description = [{indices [batch..., places..., n] and input [batch..., n dimensions, slice...] give [batch..., places..., slice...]; n is static.
    Negative indices count from the end.}];
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$indices, I64Attr:$batch_dims);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `,` $indices attr-dict `:` type($input) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_IotaOp : Tx_PureOp<"iota", [Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "each element is its index along the dimension";
  let arguments = (ins I64Attr:$dimension);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===--------------------------------------------------------------------------------------- contractions and reductions

def Tx_MatmulOp : Tx_PureOp<"matmul", [Tx_Contraction, Tx_TakesEpilogue]> {
  let summary = "[batch..., M, K] x [batch..., K, N] or [K, N] -> [batch..., M, N]; batch extents are equal";
  let description = [{With transpose_lhs / transpose_rhs, the last two extents of that operand are swapped. A packed rhs (after
    heddle-pack-weights) is one-dimensional, with its [K, N] in `packed_shape`. If the lhs has floats, the rhs may
    have integers of 8 or 16 bits, as quantizers write them: the factors are then the integers less their column's `zero`, [N] of f32, if given. With
    `blocks`, the rhs is transposed and has its rows in blocks of this type: [N, bytes of K values] of ui8. The lhs has f32 then.}];
  let arguments = (ins Tx_Tensor:$lhs, Tx_Tensor:$rhs, Optional<Tx_Tensor>:$zero, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                       OptionalAttr<DenseI64ArrayAttr>:$packed_shape, OptionalAttr<StrAttr>:$blocks);
  let results = (outs Tx_Tensor:$result);
  let builders = [OpBuilder<(ins "mlir::Type":$result, "mlir::Value":$lhs, "mlir::Value":$rhs), [{
    build($_builder, $_state, result, lhs, rhs, mlir::Value(), false, false, mlir::DenseI64ArrayAttr(), mlir::StringAttr());
  }]>];
  let assemblyFormat = [{
    $lhs `,` $rhs (`,` `zero` $zero^)? attr-dict `:` type($lhs) `,` type($rhs) (`,` type($zero)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tx_ConvOp : Tx_PureOp<"conv", [Tx_Contraction, Tx_TakesEpilogue]> {
  let summary = "convolution, channels-last: [N, spatial..., C] * [spatial..., C / groups, F] -> [N, spatial..., F]";
  let description = [{Attributes have one value per spatial dimension. A packed filter (after heddle-pack-weights) is one-dimensional, with its
    [spatial..., C / groups, F] in `packed_shape`; with `winograd` it was also transformed (see tx.pack). Integers and `zero`, [F], as in
    tx.matmul.}];
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$filter, Optional<Tx_Tensor>:$zero, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high, DenseI64ArrayAttr:$dilations, I64Attr:$groups,
                       OptionalAttr<DenseI64ArrayAttr>:$packed_shape, UnitAttr:$winograd);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $filter (`,` `zero` $zero^)? attr-dict `:` type($input) `,` type($filter) (`,` type($zero)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tx_PackOp : Tx_PureOp<"pack"> {
  let summary = "reorders a filter [spatial..., C / groups, F] or a matrix [K, N] into the target's own panels";
  let description = [{The result is one-dimensional: groups * K * roundup(F / groups, 16) elements with K = spatial... * C / groups. The order of
    its elements is the target's choice; F / groups is padded with zeros to a multiple of 16. With `winograd`, a filter [3, 3, C, F] of one group is
    transformed for Winograd's F(2x2, 3x3) first: the result has [4, 4, C, F], each of its 16 matrices in panels.}];
  let arguments = (ins Tx_Tensor:$input, I64Attr:$groups, UnitAttr:$winograd);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tx_PoolKind : I32EnumAttr<"PoolKind", "pooling", [I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"average", 1>]> {
  let cppNamespace = "::heddle::tx";
}
def Tx_PoolOp : Tx_PureOp<"pool", [Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "pooling over windows, channels-last: [N, spatial..., C] -> [N, spatial..., C]";
  let description = [{Padding counts as minus infinity (max) or zero (average). A maximum is NaN if an element of the window is. Averages divide by the number of
    elements inside the input, or, with include_pad, inside the input and its pads. The part of a window outside of input and pads is ignored.}];
  let arguments = (ins Tx_PoolKind:$kind, Tx_Tensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high, DenseI64ArrayAttr:$dilations, UnitAttr:$include_pad);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Tx_ReduceKind : I32EnumAttr<"ReduceKind", "reduction", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"max", 2>, I32EnumAttrCase<"min", 3>,
    I32EnumAttrCase<"prod", 4>]> {
  let cppNamespace = "::heddle::tx";
}
def Tx_ReduceOp : Tx_PureOp<"reduce", [Tx_GoesThroughRows, Tx_JoinsRows, Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "reduces the given axes away";
  let arguments = (ins Tx_ReduceKind:$kind, Tx_Tensor:$input, DenseI64ArrayAttr:$axes);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_ArgReduceOp : Tx_PureOp<"arg_reduce", [Tx_GoesThroughRows, Tx_OnlyStages, Tx_TakesEpilogue]> {
  let summary = "the index of the largest (max) or smallest (min) element along the axis";
  let description = [{Of equal elements, the index of the first one or, with `last`, of the last one. NaN is never chosen; if all elements are
    NaN, the index is 0.}];
  let arguments = (ins Tx_ReduceKind:$kind, Tx_Tensor:$input, I64Attr:$axis, UnitAttr:$last);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$kind $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_CumsumOp : Tx_PureOp<"cumsum", [Tx_OnlyStages, Tx_TakesEpilogue, AllTypesMatch<["input", "result"]>]> {
  let summary = "the sum of the elements up to each one along the axis; `exclusive`: without that one; `reverse`: from each one on";
  let arguments = (ins Tx_Tensor:$input, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Tx_ScatterOp : Tx_PureOp<"scatter", [Tx_OnlyStages, AllTypesMatch<["input", "result"]>]> {
  let summary = "the input with updates: each replaces the element at its index along the axis, or is combined with it by `kind`, in order";
  let description = [{The updates have the extents of the input except along the axis. There is an index for each update, or for each slice of
    them along the axis. Negative indices count from the end; an update whose index is outside is dropped.}];
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$indices, Tx_Tensor:$updates, I64Attr:$axis, OptionalAttr<Tx_ReduceKind>:$kind);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `,` $updates attr-dict `:` type($result) `,` type($indices) `,` type($updates)";
  let hasVerifier = 1;
}
def Tx_SortOp : Tx_PureOp<"sort", [Tx_OnlyStages]> {
  let summary = "the indices that sort the elements along the axis: smallest first, or largest first with `descending`";
  let description = [{The result has the extents of the input, except that it may stop after the first few indices along the axis. Of equal
    elements the one with the lower index comes first; NaN is larger than any number.}];
  let arguments = (ins Tx_Tensor:$input, I64Attr:$axis, UnitAttr:$descending);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}
def Tx_SoftmaxOp : Tx_PureOp<"softmax", [Tx_GoesThroughRows, Tx_JoinsRows, Tx_OnlyStages, Tx_TakesEpilogue, AllTypesMatch<["input", "result"]>]> {
  let summary = "exp(x - max) / sum over the axis; with `log`, its logarithm";
  let arguments = (ins Tx_Tensor:$input, I64Attr:$axis, UnitAttr:$log);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Tx_LrnOp : Tx_PureOp<"lrn", [Tx_OnlyStages, Tx_TakesEpilogue, AllTypesMatch<["input", "result"]>]> {
  let summary = "local response normalization over the last axis, as ONNX defines LRN";
  let description = [{x / (bias + alpha / size * sum of x^2 over the window of `size` channels around each)^beta}];
  let arguments = (ins Tx_Tensor:$input, I64Attr:$size, F64Attr:$alpha, F64Attr:$beta, F64Attr:$bias);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Tx_BatchNormOp : Tx_PureOp<"batch_norm", [AllTypesMatch<["input", "result"]>, AllTypesMatch<["scale", "bias", "mean", "variance"]>]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias over the last axis, inference form";
  let arguments = (ins Tx_Tensor:$input, Tx_Tensor:$scale, Tx_Tensor:$bias, Tx_Tensor:$mean, Tx_Tensor:$variance, F64Attr:$epsilon);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `,` $scale `,` $bias `,` $mean `,` $variance attr-dict `:` type($input) `,` type($scale)";
}

//===--------------------------------------------------------------------------------------------- slots and dispatches

def Tx_TransferOp : Tx_PureOp<"transfer", [AllTypesMatch<["input", "result"]>]> {
  let summary = "copies a value from one slot to another";
  let description = [{Made by heddle-place-ops, one per value and destination slot. Nothing fuses across it.}];
  let arguments = (ins Tx_Tensor:$input, StrAttr:$from, StrAttr:$to);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Tx_CustomOp : Tx_PureOp<"custom"> {
  let summary = "an operator of a library plugin, found by its id when the module is loaded";
  let description = [{The compiler does not know what it computes: nothing fuses with it, and it is not computed at load. The same inputs give the
    same results. `record` has its attributes: i64 and f64 numbers, strings, and lists of such numbers. It runs on `slot`, which heddle-place-ops
    writes.}];
  let arguments = (ins Variadic<Tx_Tensor>:$inputs, StrAttr:$domain, StrAttr:$name, I64Attr:$version, DictionaryAttr:$record,
                       OptionalAttr<StrAttr>:$slot);
  let results = (outs Variadic<Tx_Tensor>:$outputs);
  let assemblyFormat = [{$domain $name `version` $version `(` $inputs `)` $record (`on` $slot^)? attr-dict `:`
    functional-type($inputs, $outputs)}];
  let hasVerifier = 1;
}

def Tx_DispatchOp : Tx_Op<"dispatch", [IsolatedFromAbove, SingleBlock, NoMemoryEffect]> {
  let summary = "a region that becomes one kernel";
  let description = [{Block arguments are the operands, in order; the kernel's bindings are the operands, then the results. Results are dense,
    row-major and do not overlap operands, unless `tied` names the operand that result i may overwrite in place (-1: none). It runs on
    `slot`, where its operands and results are; scheduling needs one. With an `alternative`, a library plugin may run instead of the
    kernel: importers make such regions of single nodes, and nothing fuses with them. `pitch` is the number of elements from one row (innermost
    dimension) of the only result to the next in memory; without it, rows are dense. Such a result is a part of the rows of a tx.concat outside of
    regions, which is its only reader.}];
  let arguments = (ins Variadic<Tx_Tensor>:$inputs, StrAttr:$name, OptionalAttr<DenseI64ArrayAttr>:$tied, OptionalAttr<StrAttr>:$slot,
                       OptionalAttr<Tx_OperationAttr>:$alternative, OptionalAttr<I64Attr>:$pitch);
  let results = (outs Variadic<Tx_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "mlir::TypeRange":$outputs, "mlir::ValueRange":$inputs, "llvm::StringRef":$name, "mlir::StringAttr":$slot,
                                 CArg<"OperationAttr", "{}">:$alternative), [{
    build($_builder, $_state, outputs, inputs, name, nullptr, slot, alternative, nullptr);
  }]>];
  let assemblyFormat = [{$name `(` $inputs `)` (`on` $slot^)? (`or` $alternative^)? attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body}];
  let extraClassDeclaration = [{
    // The first operand that a result overwrites, if any.
    std::optional<int64_t> overwritten();
  }];
  let hasVerifier = 1;
}
def Tx_YieldOp : Tx_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["DispatchOp"]>]> {
  let arguments = (ins Variadic<Tx_Tensor>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif // HEDDLE_COMPILER_IR_TX_TD
