// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The terms of what a kernel's nodes compute.
#pragma once

#include "terms.h"

namespace heddle::sdk::portable {

class NodeTerms {
 public:
  // Throws Unknown if the kernel cannot be compared for these values of its symbols.
  NodeTerms(Terms& terms, const Kernel& kernel, const std::vector<int64_t>& symbols);

  // The element of a tensor at a place, of which levels below `depth` are in use.
  TermId element(uint32_t tensor, const std::vector<TermId>& place, uint32_t depth);
  const std::vector<int64_t>& extents(uint32_t tensor) const { return extents_[tensor]; }
  int64_t known(uint32_t expression) const { return known_[expression]; }

 private:
  using TermIds = std::vector<TermId>;
  struct Frame;

  TermId made(const Node& node, uint32_t result, const TermIds& at, uint32_t depth);
  TermId index(uint32_t expression, Frame& frame);
  TermIds evaluate(const Node& node, uint32_t body, const TermIds& indices, const TermIds& more, uint32_t depth);
  TermId read(const Node& node, const Read& read, const TermIds& reads, Frame& frame, uint32_t indices, uint32_t depth);
  TermIds arguments(uint32_t level, uint32_t first, const std::vector<Scalar>& types);

  Terms& terms_;
  const Kernel& k_;
  std::vector<int64_t> known_;  // of expressions over symbols
  std::vector<uint64_t> dims_;  // of expressions, a bit each
  std::vector<std::vector<int64_t>> extents_;
  std::vector<std::pair<uint32_t, uint32_t>> makers_;  // of each tensor: the node, and which of its results
  std::map<std::pair<std::pair<uint32_t, uint32_t>, TermIds>, TermId> elements_;
  uint32_t nested_ = 0;
};

}  // namespace heddle::sdk::portable
