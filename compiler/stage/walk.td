// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stage of walks: elements that are found in steps.
// Apart from stage.td, since few files of the compiler need to know it (walk.h).

#ifndef HEDDLE_COMPILER_STAGE_WALK_TD
#define HEDDLE_COMPILER_STAGE_WALK_TD

include "stage.td"

def Stage_WalkOp : Stage_Op<"walk"> {
  let summary = "initial elements, then for each of several walks an update with what the walk leads to";
  let description = [{The domain is that of the results, with one reduced dimension: the walks of a line of indices along dimension `along`. `init`
    gets the parallel index, and yields the initial elements of the results. A walk begins at the place that `start` yields, an i64, from the index
    of the whole domain and the first `start_reads` reads. Then, `steps` times, `next` gets that index, the place and the next `next_reads` reads,
    and yields the next place. None of these depends on dimension `along`. At the end, for each index along it, `update` gets the index, the place,
    the other reads and the elements of the results there, and yields those that replace them. Walks update in order. In accesses of `next` and
    `update`, the place is a dimension after those of the domain.}];
  let arguments = (ins Variadic<Stage_Tensor>:$reads, I64Attr:$start_reads, I64Attr:$next_reads, Stage_Accesses:$accesses,
                       Stage_DomainAttr:$domain, I64Attr:$along, I64Attr:$steps);
  let results = (outs Variadic<Stage_Tensor>:$results);
  let regions = (region SizedRegion<1>:$start, SizedRegion<1>:$next, SizedRegion<1>:$update, SizedRegion<1>:$init);
  let assemblyFormat = [{$domain `along` $along `steps` $steps `reads` `(` $reads `)` `start_reads` $start_reads `next_reads` $next_reads
    `at` $accesses attr-dict `:` functional-type($reads, $results) `start` $start `next` $next `update` $update `init` $init}];
}

#endif // HEDDLE_COMPILER_STAGE_WALK_TD
