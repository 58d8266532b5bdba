// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ensemble of decision trees of the tx dialect.
// Apart from tx.td, since few files of the compiler need to know it (trees.h).

#ifndef HEDDLE_COMPILER_IR_TREES_TD
#define HEDDLE_COMPILER_IR_TREES_TD

include "tx.td"

def Tx_TreesOp : Tx_PureOp<"trees", [Tx_OnlyStages, AttrSizedOperandSegments]> {
  let summary = "for each row, what the leaves that it reaches in groups of decision trees have, combined by `kind`";
  let description = [{input [N, F] gives [N, G, V]: for each row and each of G groups of T trees, the sum, the maximum or the minimum of the V
    weights of the leaf that the row reaches in each tree.

    A walk takes `steps` steps from the root of a tree. At a node, it goes to the first child if the row's element at the node's index in `features`
    is at most the node's threshold or, with `strict`, below it; otherwise, and for NaN, to the second one. Bits of `flags` change that for a node:
    1, NaN goes to the first child; 2, only elements that equal the threshold do; 4, only elements below the threshold do.

    Without `children`, all trees are complete: features, thresholds and flags are [G, T, 2^steps - 1], level by level, so that the children of node i
    are 2i + 1 and 2i + 2; weights are [G, T, 2^steps, V], for the leaves in the same order. With `children`, nodes and leaves of all trees are in one
    list of length M: features, thresholds, flags and children are [M], weights [M, V], roots [G, T]. A node's number in `children` is twice the
    index of its first child plus 1; the second child follows the first one. A leaf's is twice its own index, where a walk stays.

    Input, thresholds, weights and the result have the same type of floats. An index in a table that is outside is clamped.}];
  let arguments = (ins Tx_ReduceKind:$kind, Tx_Tensor:$input, Tx_Tensor:$features, Tx_Tensor:$thresholds, Tx_Tensor:$weights,
                       Optional<Tx_Tensor>:$children, Optional<Tx_Tensor>:$roots, Optional<Tx_Tensor>:$flags, I64Attr:$steps,
                       UnitAttr:$strict);
  let results = (outs Tx_Tensor:$result);
  let assemblyFormat = [{
    $kind (`strict` $strict^)? $input `features` $features `thresholds` $thresholds `weights` $weights (`children` $children^ `roots` $roots)? (`flags` $flags^)?
    `steps` $steps attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_COMPILER_IR_TREES_TD
