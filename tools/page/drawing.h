// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws a picture of a graph as SVG.
#pragma once

#include <map>
#include <string>

#include "tools/page/fold.h"
#include "tools/page/html.h"

namespace heddle::tool {

// Measured time per call, by the whole names of regions; empty without a profile.
struct Times {
  struct Time {
    double ns = 0, count = 0;
    // Shares of the device's measured peaks, and what the region did; -1: not known.
    double roofline = -1, gflops = -1, flops_share = -1, gbytes = -1, bytes_share = -1;
  };
  std::map<std::string, Time> of_region;
  double call_ns = 0, sum_ns = 0, copies_ns = 0;

  explicit Times(const Json& profile);
  bool empty() const { return of_region.empty(); }
  // 0 for a node that was not measured.
  double of(const Node& node) const;
  // Null for a node that was not measured.
  const Time* find(const Node& node) const;
};

// Names of classes of the style sheet.
std::string group_class(const std::string& group);

// slots: names with devices, which are the titles of the lanes. Boxes link to the panels #p<prefix>-<node>, boxes of several nodes to #g<prefix>-<node>.
void draw(const Graph& graph, const Picture& picture, const std::vector<std::string>& slots, const std::string& prefix, const Times& times,
          Html& out);

}  // namespace heddle::tool
