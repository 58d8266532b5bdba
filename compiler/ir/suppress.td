// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The suppression of boxes that overlap better ones.
// Apart from tx.td, since few files of the compiler need to know it (suppress.h).

#ifndef HEDDLE_COMPILER_IR_SUPPRESS_TD
#define HEDDLE_COMPILER_IR_SUPPRESS_TD

include "tx.td"

def Tx_SuppressOp : Tx_PureOp<"suppress", [Tx_OnlyStages]> {
  let summary = "which boxes of a list stay, if each that stays removes those after it that overlap it";
  let description = [{boxes [lists..., N, 4] have (y1, x1, y2, x2) of two opposite corners; candidates [lists..., N] of i1 says which boxes may stay. In
    order, a candidate that is still there stays, unless `limit` (rank 0, i64) boxes of the list did before, and removes the later candidates whose
    intersection with it, divided by the area of both, is above `threshold` (rank 0, of the boxes' type); boxes without an area overlap nothing.
    The result is i1, [lists..., N].}];
  let arguments = (ins Tx_Tensor:$boxes, Tx_Tensor:$candidates, Tx_Tensor:$threshold, Tx_Tensor:$limit);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = [{$boxes `,` $candidates `,` $threshold `,` $limit attr-dict `:` type($boxes) `,` type($candidates) `,` type($threshold) `,`
    type($limit) `->` type($result)}];
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_SUPPRESS_TD
