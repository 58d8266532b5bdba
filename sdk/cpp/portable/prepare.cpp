// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What does not depend on a call, computed when a kernel is loaded: where values of bodies are kept, what they need, and the two halves of products.
#include "prepare.h"

#include <algorithm>
#include <cstddef>

#include "heddle/sdk/portable/interpreter.h"

namespace heddle::sdk::portable {

namespace {

// The instructions that these results need, and no others.
Body pruned(const Body& body, std::vector<uint32_t> yields) {
  const auto arguments = static_cast<uint32_t>(body.arguments.size());
  std::vector<bool> is_needed(arguments + body.instructions.size());
  for (uint32_t value : yields) is_needed[value] = true;
  auto operands = [](const Instruction& at, auto function) {
    const uint32_t count = operand_count(at.op);
    if (count > 0) function(at.a);
    if (count > 1) function(at.b);
    if (count > 2) function(at.c);
  };
  for (size_t i = body.instructions.size(); i-- > 0;) {
    if (is_needed[arguments + i]) operands(body.instructions[i], [&](uint32_t value) { is_needed[value] = true; });
  }
  Body out;
  out.arguments = body.arguments;
  std::vector<uint32_t> names(is_needed.size());
  for (uint32_t i = 0; i < arguments; ++i) names[i] = i;
  for (size_t i = 0; i < body.instructions.size(); ++i) {
    if (!is_needed[arguments + i]) continue;
    Instruction at = body.instructions[i];
    at.a = names[at.a];
    at.b = names[at.b];
    at.c = names[at.c];
    names[arguments + i] = arguments + static_cast<uint32_t>(out.instructions.size());
    out.instructions.push_back(at);
  }
  for (uint32_t value : yields) out.yields.push_back(names[value]);
  return out;
}

constexpr int64_t kFewestLanes = 8;

class Preparer {
 public:
  explicit Preparer(Prepared& prepared) : p_(prepared) {}

  void run() {
    for (const Expression& e : p_.kernel.expressions) {
      const uint64_t dims = e.kind == Expression::kDimension ? uint64_t{1} << e.value
                            : e.kind > Expression::kSymbol   ? p_.dims[e.a] | p_.dims[e.b]
                                                             : 0;
      p_.dims.push_back(dims);
    }
    constexpr uint64_t kElements = kBlockRows * kBlockDepth + kBlockDepth * kBlockColumns + kBlockRows * kBlockColumns;
    uint64_t places = 0, sets = 0, lists = 0;  // the most of any node
    bool has_product = false;
    for (const Node& node : p_.kernel.nodes) {
      PreparedNode out;
      for (uint32_t i = 0; i < node.bodies.size(); ++i) out.bodies.push_back(prepare(node, node.bodies[i], i));
      if (node.kind == NodeKind::kContract) {
        for (uint32_t value : node.bodies[0].yields) out.factors.push_back(prepare(node, pruned(node.bodies[0], {value}), 0));
        if (node.accumulator == Scalar::kF32) {
          // For both factors the places of their elements and in their bounds, and where runs of neighbors end.
          has_product = true;
          uint64_t bounds = node.within.size(), rank = 0;
          for (const Read& read : node.reads) rank = std::max<uint64_t>(rank, read.place.size());
          bounds = std::min<uint64_t>(bounds + rank, kMostCopiedBounds);
          places = std::max<uint64_t>(places, (2 + bounds) * (kBlockRows + kBlockColumns + 2 * kBlockDepth) * sizeof(int64_t));
        }
      }
      for (const Within& within : node.within) out.within_dims |= p_.dims[within.index];
      const bool has_places = node.kind == NodeKind::kWalk || node.is_placed;
      uint64_t yields = 2;
      for (auto* list : {&out.bodies, &out.factors}) {
        for (PreparedBody& body : *list) {
          p_.most_slots = std::max<uint64_t>(p_.most_slots, body.slot_count);
          p_.most_reads = std::max<uint64_t>(p_.most_reads, body.shape.end_read - body.shape.first_read);
          p_.most_values = std::max<uint64_t>(p_.most_values, body.types.size());
          p_.most_by_lane = std::max<uint64_t>(p_.most_by_lane, number_by_lane(body, has_places));
          yields = std::max<uint64_t>(yields, body.body.yields.size());
        }
      }
      // Two sets of accumulators, one of elements, and places.
      const bool has_elements = node.kind == NodeKind::kScatter || node.kind == NodeKind::kWalk;
      sets = std::max(sets, 2 * yields + (has_elements ? node.results.size() : 0) + has_places);
      lists = std::max(lists, 3 * std::max<uint64_t>(yields, 2 * node.results.size()));
      p_.nodes.push_back(std::move(out));
    }
    // Long bodies have fewer lanes, so that their values stay in the cache.
    constexpr uint64_t kGaps = 8 * alignof(std::max_align_t);  // between what is taken
    const uint64_t fixed = p_.kernel.expressions.size() * sizeof(Position) + p_.most_values * sizeof(Lanes) + kGaps;
    const uint64_t of_node = lists * sizeof(Lanes) + (has_product ? kElements * sizeof(float) : 0) + kGaps;
    // In each lane: slots, copied reads, places without a step, three operands that are spread, an index, a mask.
    const uint64_t of_lane = 8 * (p_.most_slots + p_.most_reads + p_.most_by_lane + 4) + 1;
    for (;; p_.lanes /= 2) {
      const auto lanes = static_cast<uint64_t>(p_.lanes);
      p_.evaluator_bytes = fixed + of_lane * lanes;
      p_.node_bytes = of_node + 8 * sets * lanes;
      p_.scratch_bytes = p_.evaluator_bytes + p_.node_bytes + places;
      if (p_.lanes == kFewestLanes || p_.scratch_bytes <= kScratchBytes) break;
    }
  }

 private:
  PreparedBody prepare(const Node& node, const Body& body, uint32_t index) {
    PreparedBody out;
    out.body = body;
    out.shape = shape_of(node, index);
    const auto arguments = static_cast<uint32_t>(body.arguments.size());
    out.types = body.arguments;
    for (const Instruction& at : body.instructions) out.types.push_back(at.type);
    // Slots are used again once no later instruction reads them.
    std::vector<uint32_t> last(out.types.size(), 0);
    std::vector<bool> is_used(out.types.size());
    for (uint32_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& at = body.instructions[i];
      const uint32_t own[3] = {at.a, at.b, at.c};
      for (uint32_t j = 0; j < operand_count(at.op); ++j) {
        last[own[j]] = i;
        is_used[own[j]] = true;
      }
    }
    for (uint32_t value : body.yields) {
      last[value] = UINT32_MAX;
      is_used[value] = true;
    }
    std::vector<uint32_t> free;
    for (uint32_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& at = body.instructions[i];
      uint32_t slot = out.slot_count;
      if (free.empty()) {
        ++out.slot_count;
      } else {
        slot = free.back();
        free.pop_back();
      }
      out.slots.push_back(slot);
      uint32_t own[3] = {at.a, at.b, at.c};
      const uint32_t count = operand_count(at.op);
      for (uint32_t j = 0; j < count; ++j) {
        const bool is_repeated = std::find(own, own + j, own[j]) != own + j;
        if (own[j] >= arguments && last[own[j]] == i && !is_repeated) free.push_back(out.slots[own[j] - arguments]);
      }
    }
    // Reads are used by instructions, or as indices of reads that are.
    out.uses.assign(is_used.begin(), is_used.begin() + arguments);
    const uint32_t reads = out.shape.end_read - out.shape.first_read;
    for (uint32_t i = reads; i-- > 0;) {
      if (!out.uses[out.shape.indices + i]) continue;
      for (uint32_t gather : node.reads[out.shape.first_read + i].gathers) out.uses[out.shape.indices + gather] = true;
    }
    expressions(node, out, index);
    return out;
  }

  // Numbers the expressions that a body places and that can need a number for each lane: quotients, products of two dimensions, and what is made of them.
  // Of a node with places all can, since these are indices. Returns how many there are.
  uint32_t number_by_lane(PreparedBody& body, bool has_places) {
    differs_.assign(p_.kernel.expressions.size(), false);
    uint32_t count = 0;
    for (uint32_t i : body.expressions) {
      const Expression& e = p_.kernel.expressions[i];
      differs_[i] = e.kind > Expression::kSymbol && (has_places || e.kind >= Expression::kFloorDiv || differs_[e.a] || differs_[e.b] ||
                                                     (e.kind == Expression::kMul && p_.dims[e.a] != 0 && p_.dims[e.b] != 0));
      body.by_lane.push_back(count);
      count += differs_[i];
    }
    return count;
  }

  void expressions(const Node& node, PreparedBody& out, uint32_t index) {
    const uint64_t own_dims = (uint64_t{1} << out.shape.indices) - 1;
    std::vector<bool> is_needed(p_.dims.size());
    auto need = [&](uint32_t expression) {
      if (p_.dims[expression] != 0 && (p_.dims[expression] & ~own_dims) == 0) is_needed[expression] = true;
    };
    for (uint32_t d = 0; d < out.shape.indices; ++d) {
      if (out.uses[d]) out.dims |= uint64_t{1} << d;
    }
    for (uint32_t i = out.shape.first_read; i < out.shape.end_read; ++i) {
      if (!out.uses[out.shape.indices + i - out.shape.first_read]) continue;
      for (uint32_t expression : node.reads[i].place) {
        need(expression);
        out.dims |= p_.dims[expression] & own_dims;
      }
    }
    const bool is_step = (node.kind == NodeKind::kFold && index == 1) || (node.kind == NodeKind::kContract && index == 0);
    if (is_step) {
      for (const Within& within : node.within) need(within.index);
    }
    for (auto i = static_cast<uint32_t>(is_needed.size()); i-- > 0;) {
      if (!is_needed[i]) continue;
      out.expressions.push_back(i);
      const Expression& e = p_.kernel.expressions[i];
      if (e.kind > Expression::kSymbol) {
        need(e.a);
        need(e.b);
      }
    }
    std::reverse(out.expressions.begin(), out.expressions.end());
  }

  Prepared& p_;
  std::vector<bool> differs_;
};

}  // namespace

void prepare(Prepared& prepared) {
  Preparer(prepared).run();
}

}  // namespace heddle::sdk::portable
