// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trees as the importer reads them, and the tables of tx.trees that are made from them (compiler/ir/trees.td).
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

enum class NodeMode { leq, lt, gte, gt, eq, neq, leaf };

// A node of a tree, or a leaf.
struct TreeNode {
  NodeMode mode = NodeMode::leaf;
  int64_t feature = 0;
  double value = 0;
  bool missing_goes_true = false;
  int64_t if_true = -1, if_false = -1;              // indices of nodes
  std::vector<std::pair<int64_t, double>> weights;  // of a leaf: target and weight
};

// Nodes may be shared between trees, or between branches.
struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<int64_t> roots;
  int64_t targets = 1;
  tx::ReduceKind kind = tx::ReduceKind::sum;
};

// Scores [N, targets] of rows [N, F] of f32 or f64; a target to which no leaf of a row contributes has 0. Refuses cycles, features that the rows do not
// have, and targets out of range.
mlir::Value scores_of(Node& node, mlir::Value rows, const Forest& forest);

}  // namespace heddle::import
