// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text about single regions: a panel for each, shown when its box is clicked.
#pragma once

#include <string>
#include <vector>

#include "tools/page/drawing.h"

namespace heddle::tool {

class Panels {
 public:
  // families: of the program; slots: names with devices.
  Panels(const Json& whole, const Json& families, const Graph& graph, const std::vector<std::string>& slots, std::string prefix,
         const Times& times);

  // One per node.
  void draw(Html& out) const;
  // One per box of several nodes.
  void draw_groups(const Picture& picture, Html& out) const;

 private:
  void draw_node(size_t index, Html& out) const;
  void draw_kernel(const Node& node, Html& out) const;
  void draw_fusion(const Node& node, Html& out) const;
  Html& link(size_t node, Html& out) const;

  const Json& whole_;
  const Graph& graph_;
  const std::vector<std::string>& slots_;
  const std::string prefix_;
  const Times& times_;
  std::vector<std::vector<size_t>> readers_;
  std::map<std::string, const Json*> places_;
  std::map<std::string, std::vector<const Json*>> refusals_;  // by the text of the producer or consumer
};

}  // namespace heddle::tool
