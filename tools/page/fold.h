// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds blocks of a graph that are repeated one after the other, such as the layers of a transformer, and folds them.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/page/graph.h"

namespace heddle::tool {

// What is drawn of a graph: boxes, each for one node or for the nodes at the same place of all repetitions of a block.
struct Box {
  size_t node = 0;   // the first of them
  size_t count = 1;  // nodes that it stands for
  size_t block = 0;  // 0: in no block; else its number, from 1
};
struct Line {
  size_t from = 0, to = 0;  // boxes
};
struct Picture {
  std::vector<Box> boxes;  // each after those whose values it uses
  std::vector<Line> lines;
  std::vector<size_t> box_of;  // per node
  size_t blocks = 0;

  std::vector<size_t> nodes_of(size_t box) const;
};

// A box per node.
Picture picture_of(const Graph& graph);
// One box for equal nodes of repeated blocks. Lines from one repetition to the next are left out.
Picture folded_picture_of(const Graph& graph);

}  // namespace heddle::tool
