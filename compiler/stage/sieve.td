// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sieve of the stage dialect.
// Apart from stage.td, since few files of the compiler need to know it (sieve.h).

#ifndef HEDDLE_COMPILER_STAGE_SIEVE_TD
#define HEDDLE_COMPILER_STAGE_SIEVE_TD

include "stage.td"

def Stage_SieveOp : Stage_Op<"sieve"> {
  let summary = "which elements of a line stay, if each that stays may remove elements after it";
  let description = [{The domain is that of the result, i1, with one reduced dimension: the elements of a line of indices along dimension `along`, as
    many as it has. `limit` gets the parallel index and the first `limit_reads` reads, does not depend on `along`, and yields how many elements of a
    line may stay, an i64. `init` gets the parallel index and the last reads, and yields whether an element is there. Then, in order, an element that
    is still there stays, unless as many as `limit` did before, and removes each later element for which `removes` holds: it gets the index of the
    whole domain, in which the later element is along `along` and the one that stays is the reduced one, and the next `step_reads` reads.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, I64Attr:$limit_reads, I64Attr:$step_reads, Stage_Accesses:$accesses,
                       Stage_DomainAttr:$domain, I64Attr:$along);
  let results = (outs Stage_Tensor:$result);
  let regions = (region SizedRegion<1>:$limit, SizedRegion<1>:$removes, SizedRegion<1>:$init);
  let assemblyFormat = [{$domain `along` $along `reads` `(` $reads `)` `limit_reads` $limit_reads `step_reads` $step_reads `at` $accesses attr-dict
    `:` functional-type($reads, $result) `limit` $limit `removes` $removes `init` $init}];
}

// Its bodies end with an op of their own, since stage.yield names the ops that it may be in.
def Stage_SieveYieldOp : Op<Stage_Dialect, "sieve_yield", [Pure, Terminator, ReturnLike, ParentOneOf<["SieveOp"]>]> {
  let arguments = (ins AnyType:$value);
  let assemblyFormat = "$value `:` type($value) attr-dict";
}

#endif // HEDDLE_COMPILER_STAGE_SIEVE_TD
