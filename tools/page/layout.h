// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A layered drawing of a directed graph: every box is in a layer below those of its predecessors, and lines that pass a layer have a place of their
// own between its boxes, so that no line crosses a box. A tall drawing continues in further columns. Knows nothing of modules or SVG.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle::tool {

struct LayoutBox {
  double width = 0, height = 0;
  double label = 0;  // width of the text under the box
  size_t lane = 0;   // lanes are side by side
  size_t block = 0;  // boxes of one block stay in one column; 0: of none
  // Found by lay_out():
  double x = 0, y = 0;  // center of the upper edge
  size_t layer = 0;
};
struct LayoutLine {
  size_t from = 0, to = 0;  // boxes, with from < to
};
struct Point {
  double x = 0, y = 0;
  double turn = 0;  // where a line goes to the next column and back: how far its curve from here turns below or above this point
};
struct Layout {
  // From the lower edge of a box to its last reader's layer, shared by its lines; each pair of points is a vertical segment, and curves connect the
  // pairs. A segment that goes up leads to the next column.
  struct Trunk {
    size_t from = 0;
    std::vector<Point> points;
  };
  // The last curve of a line: from its trunk to the upper edge of its box.
  struct Branch {
    size_t from = 0, to = 0;
    Point begin, end;
  };
  struct Lane {
    double begin = 0, end = 0;
  };
  std::vector<Trunk> trunks;
  std::vector<Branch> branches;
  std::vector<Lane> lanes;
  double width = 0, height = 0;
};

constexpr double kLabelHeight = 17;  // under every box with a label, inside of the gap between layers

// The boxes must be in an order in which each is after its predecessors.
Layout lay_out(std::vector<LayoutBox>& boxes, const std::vector<LayoutLine>& lines, size_t lane_count);

}  // namespace heddle::tool
