// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stage dialect: what one kernel computes, element by element. It is the level between the named ops of tx and the code of a target: a stage has a
// domain of indices, reads tensors at declared places, and has the arithmetic of one element as arith and math ops on scalars. No op is
// specific to a target; docs/compiler.md describes the level.
//
// Conventions
//  * A domain is a list of extents over the function's symbols. Its first dimensions are parallel; the last `reduced` ones are folded away.
//  * Read i comes from reads[i] at accesses[i], an affine map from the domain to the tensor's index, which may use elements of other reads. With
//    `outside`, places that are not in the tensor read as that value; without it, every place is inside.
//  * Scalars in bodies have the element's type; integers are signless there, and ops carry the sign.
//  * Results have the parallel domain's elements in row-major order; their own extents may divide the same elements differently.

#ifndef HEDDLE_COMPILER_STAGE_STAGE_TD
#define HEDDLE_COMPILER_STAGE_STAGE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Stage_Dialect : Dialect {
  let name = "stage";
  let cppNamespace = "::heddle::stage";
  let summary = "what a kernel computes: maps, folds, scans, contractions, scatters and sorts over domains of indices";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let useDefaultAttributePrinterParser = 1;
}

class Stage_Attr<string name, string mnem> : AttrDef<Stage_Dialect, name> {
  let mnemonic = mnem;
}

def Stage_DomainAttr : Stage_Attr<"Domain", "domain"> {
  let summary = "extents over the function's symbols, parallel ones first; how many of the last are reduced; and which of their elements exist";
  let description = [{A fold or a contraction visits only the reduced elements at which, for each map of `within`, the first result is at least 0
    and less than the second. The first is over the dimensions of the domain, the second over symbols only. Thus the windows of a pooling end at the
    borders of the image.}];
  let parameters = (ins "::mlir::AffineMap":$extents, DefaultValuedParameter<"unsigned", "0">:$reduced,
                        OptionalArrayRefParameter<"::mlir::AffineMap">:$within);
  let assemblyFormat = "`<` $extents (`,` `reduced` `=` $reduced^)? (`within` `[` $within^ `]`)? `>`";
  let extraClassDeclaration = [{
    unsigned getRank() const { return getExtents().getNumResults(); }
    unsigned getParallelRank() const { return getRank() - getReduced(); }
    ::llvm::ArrayRef<::mlir::AffineExpr> parallel() const { return getExtents().getResults().take_front(getParallelRank()); }
    ::llvm::ArrayRef<::mlir::AffineExpr> folded() const { return getExtents().getResults().take_back(getReduced()); }
  }];
}

def Stage_AccessAttr : Stage_Attr<"Access", "access"> {
  let summary = "where a read finds its element, its value outside of the tensor, and the reads that it uses as indices";
  let description = [{After the domain's dimensions, the map has one for each of `gathers`, which are earlier reads of integers, counted from the
    first read of the same body. Such a dimension is an index of the tensor by itself: a negative one counts from the end, and one that is still
    outside is clamped.}];
  let parameters = (ins "::mlir::AffineMap":$map, OptionalParameter<"::mlir::TypedAttr">:$outside, OptionalArrayRefParameter<"unsigned">:$gathers);
  let assemblyFormat = "`<` $map (`,` `outside` `=` $outside^)? (`gathers` `[` $gathers^ `]`)? `>`";  // a comma would be taken for the one before `outside`
}

def Stage_Tensor : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "ranked tensor", "::mlir::RankedTensorType">;
def Stage_Accesses : TypedArrayAttrBase<Stage_AccessAttr, "an access for each read">;

class Stage_Op<string mnem, list<Trait> traits = []> : Op<Stage_Dialect, mnem, !listconcat(traits, [Pure])> {
  let hasVerifier = 1;
}

def Stage_MapOp : Stage_Op<"map"> {
  let summary = "each element of the results from the elements read at its index";
  let description = [{The body gets the index, an i64 for each dimension, then the reads, and yields an element of each result.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, Stage_Accesses:$accesses, Stage_DomainAttr:$domain);
  let results = (outs Variadic<Stage_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$domain `reads` `(` $reads `)` `at` $accesses attr-dict `:` functional-type($reads, $results) $body";
}

def Stage_FoldOp : Stage_Op<"fold"> {
  let summary = "accumulators over the reduced dimensions, then each element of the results from them";
  let description = [{For each index of the parallel dimensions: `init` yields the accumulators; `step` gets the index of the whole domain, the
    first `step_reads` reads and the accumulators, and yields the next ones; `merge` combines two sets of accumulators, each of any subset of the
    reduced elements, also of none; `finish` gets the parallel index, the other reads and the accumulators, and yields an element of each result.
    Targets may visit the reduced dimensions in parts and in any order, but the same one each time.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, I64Attr:$step_reads, Stage_Accesses:$accesses, Stage_DomainAttr:$domain);
  let results = (outs Variadic<Stage_Tensor>:$results);
  let regions = (region SizedRegion<1>:$init, SizedRegion<1>:$step, SizedRegion<1>:$merge, SizedRegion<1>:$finish);
  let assemblyFormat = [{$domain `reads` `(` $reads `)` `step_reads` $step_reads `at` $accesses attr-dict `:` functional-type($reads, $results)
    `init` $init `step` $step `merge` $merge `finish` $finish}];
}

def Stage_ScanOp : Stage_Op<"scan"> {
  let summary = "accumulators that are carried along a dimension, and each element of the results from them";
  let description = [{The domain is that of the results. A line of indices along dimension `along` begins with the values that `init` yields: at
    its first index or, with `reverse`, at its last. For one index after the other, `step` gets the index, the first `step_reads` reads and the
    accumulators, and yields the next ones; `finish` gets the index, the other reads, the accumulators before and after the step, and yields an
    element of each result. With `placed`, the first accumulator, an i64, is a place: it is one more index of `step`, and in the accesses of its
    reads a dimension after those of the domain. So a step reads where the one before it has led to.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, I64Attr:$step_reads, Stage_Accesses:$accesses, Stage_DomainAttr:$domain,
                       I64Attr:$along, UnitAttr:$reverse, UnitAttr:$placed);
  let results = (outs Variadic<Stage_Tensor>:$results);
  let regions = (region SizedRegion<1>:$init, SizedRegion<1>:$step, SizedRegion<1>:$finish);
  let assemblyFormat = [{$domain `along` $along (`reverse` $reverse^)? (`placed` $placed^)? `reads` `(` $reads `)` `step_reads` $step_reads `at` $accesses attr-dict
    `:` functional-type($reads, $results) `init` $init `step` $step `finish` $finish}];
}

def Stage_ContractOp : Stage_Op<"contract"> {
  let summary = "sums of products over the reduced dimensions, then each element of the results from them";
  let description = [{`factors` gets the index of the whole domain and the first `step_reads` reads, and yields the two factors in the type of the
    `accumulator`, in which sums of integers wrap. `finish` gets the parallel index, the other reads and the sum. It is separate from stage.fold
    because strategies look for it: they recognize matrix products and convolutions by the accesses, and the computation of a factor by the body.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, I64Attr:$step_reads, Stage_Accesses:$accesses, Stage_DomainAttr:$domain,
                       TypeAttr:$accumulator);
  let results = (outs Variadic<Stage_Tensor>:$results);
  let regions = (region SizedRegion<1>:$factors, SizedRegion<1>:$finish);
  let assemblyFormat = [{$domain `reads` `(` $reads `)` `step_reads` $step_reads `at` $accesses `in` $accumulator attr-dict
    `:` functional-type($reads, $results) `factors` $factors `finish` $finish}];
}

def Stage_ScatterOp : Stage_Op<"scatter"> {
  let summary = "initial elements, then updates one after the other, each at a computed index along a dimension";
  let description = [{The domain is that of the results, with one reduced dimension: the updates of a line of indices along dimension `along`.
    `init` gets the parallel index and the last reads, and yields the initial elements of the results. Then, for each update of a line in order,
    `place` gets the index of the whole domain and the first `place_reads` reads, and yields the i64 index along `along` that the update is for; an
    index outside of that dimension drops it. `step` gets the index, the next `step_reads` reads and the elements of the results there, and yields
    those that replace them. Neither may depend on dimension `along`. Lines, and parts of them, may be computed in any order.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, I64Attr:$place_reads, I64Attr:$step_reads, Stage_Accesses:$accesses,
                       Stage_DomainAttr:$domain, I64Attr:$along);
  let results = (outs Variadic<Stage_Tensor>:$results);
  let regions = (region SizedRegion<1>:$place, SizedRegion<1>:$step, SizedRegion<1>:$init);
  let assemblyFormat = [{$domain `along` $along `reads` `(` $reads `)` `place_reads` $place_reads `step_reads` $step_reads `at` $accesses attr-dict
    `:` functional-type($reads, $results) `place` $place `step` $step `init` $init}];
}

def Stage_SortOp : Stage_Op<"sort"> {
  let summary = "the indices of the first elements of a line, in an order";
  let description = [{The domain is that of the result, with one reduced dimension: the elements of a line of indices along dimension `along`.
    `element` gets the index of the whole domain and the reads, and yields the element's key; it does not depend on dimension `along`. `before` gets
    the keys of two elements, and yields whether the first one must come before the second one; if neither must, the one with the lower index comes
    first. The result at an index p along `along` is the i64 index of the element that comes after p others; there are at least as many elements as
    the dimension has indices.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, Stage_Accesses:$accesses, Stage_DomainAttr:$domain, I64Attr:$along);
  let results = (outs Stage_Tensor:$result);
  let regions = (region SizedRegion<1>:$element, SizedRegion<1>:$before);
  let assemblyFormat = [{$domain `along` $along `reads` `(` $reads `)` `at` $accesses attr-dict `:` functional-type($reads, $result)
    `element` $element `before` $before}];
}

def Stage_ExtentOp : Op<Stage_Dialect, "extent", [Pure]> {
  let summary = "in a body: the value of an expression over the function's symbols";
  let arguments = (ins AffineMapAttr:$expression);
  let results = (outs I64:$result);
  let assemblyFormat = "$expression attr-dict";
  let hasVerifier = 1;
}

def Stage_YieldOp : Op<Stage_Dialect, "yield", [Pure, Terminator, ReturnLike, ParentOneOf<["MapOp", "FoldOp", "ScanOp", "ContractOp", "ScatterOp", "SortOp", "WalkOp"]>]> {
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // HEDDLE_COMPILER_STAGE_STAGE_TD
