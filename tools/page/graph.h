// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The data flow of one program of a module, from the report's commands: what each command reads, and which earlier commands wrote it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/heddle/report_view.h"

namespace heddle::tool {

// A value that a node reads, from the node that wrote it.
struct Use {
  size_t from = 0;
  std::string value;  // "transient 3"
  std::string type;   // empty if unknown
  std::optional<uint64_t> bytes;
};

struct Weight {
  std::string name, kind, type;
  uint64_t bytes = 0;
};

struct Node {
  enum class Kind { kArgument, kState, kRegion, kCopy, kFill, kRead, kResult };
  Kind kind = Kind::kRegion;
  std::string name;                  // of the region without its node, of the argument, the result or the state
  std::string group;                 // the color: the kind of a region, or "copy", "argument", ...
  std::vector<std::string> ops;      // operators of the model in the order of their nodes; of older modules the compiler's ops
  std::string root;                  // the operator of the node that the region is named after, if it is known
  std::vector<std::string> nodes;    // of the model; the node that the region is named after is the first
  std::string whole_name;            // of a region, as profiles have it
  uint64_t slot = 0, from_slot = 0;  // these differ for a copy between devices
  std::vector<std::string> outputs;  // types of the values that it writes, in order
  std::vector<Use> uses;
  std::vector<Weight> weights;                                // values that are read and never written by the function
  std::optional<uint64_t> read_bytes = 0, written_bytes = 0;  // of all values that it accesses, weights included
  std::optional<double> flops;                                // of contractions
  std::string size;                                           // of a copy between slots: its bytes, with symbols
  const Json* region = nullptr;                               // of the compiler's report
  const Json* kernel = nullptr;

  bool crosses() const { return kind == Kind::kCopy && slot != from_slot; }
};

struct Graph {
  std::vector<Node> nodes;  // every node is after those whose values it uses
};

Graph make_graph(const Json& whole, const Json& function, const Json& program);

// The region's node of a report: "main.0.conv /conv1/Conv" has the name "main.0.conv".
std::string region_name(const std::string& whole_name);

}  // namespace heddle::tool
