// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates bodies of portable code at a run of neighboring indices: their places, their reads with the checks of every access, and their
// instructions. Used by the interpreter; one evaluator for each thread.
#pragma once

#include <memory>
#include <memory_resource>
#include <string>

#include "heddle/sdk/portable/interpreter.h"
#include "lanes.h"

namespace heddle::sdk::portable {

inline constexpr int64_t kMostLanes = 256;
inline constexpr int64_t kBlockRows = 160, kBlockColumns = 128, kBlockDepth = 96;  // of products; 60 + 48 + 80 KiB of f32
inline constexpr uint64_t kMostCopiedBounds = 8;                                   // of a product whose factors are copied

// A body, with what does not depend on a call.
struct PreparedBody {
  Body body;
  BodyShape shape;
  std::vector<Scalar> types;          // of all values
  std::vector<uint32_t> slots;        // of the results of instructions
  std::vector<uint32_t> expressions;  // that depend on dimensions and that its reads use, in order
  std::vector<uint32_t> by_lane;      // of each of these: where it is kept if it needs a number for each lane, counted from 0
  std::vector<bool> uses;             // of each argument, whether an instruction or a result needs it, or a read that needs it as an index
  uint64_t dims = 0;                  // of the domain, that its values depend on: a bit each
  uint32_t slot_count = 0;
};

struct PreparedNode {
  std::vector<PreparedBody> bodies;
  std::vector<PreparedBody> factors;  // of a contraction: the body `factors` once for each of its two values
  uint64_t within_dims = 0;
};

struct Prepared {
  Kernel kernel;
  std::vector<uint64_t> dims;  // of each expression, a bit for each dimension
  std::vector<PreparedNode> nodes;
  int64_t lanes = kMostLanes;
  std::shared_ptr<const OwnKernels> own;
  std::vector<Part> parts;  // without symbols, in the order in which they run; empty without `own`
  uint64_t most_slots = 0, most_reads = 0, most_values = 0, most_by_lane = 0;  // of a body
  // Of each thread: of an evaluator, which lasts for a call, and of what computes a node; then both, with what a product needs besides.
  uint64_t evaluator_bytes = 0, node_bytes = 0, scratch_bytes = 0;
};

// A tensor of a call.
struct View {
  char* data = nullptr;
  Scalar scalar = Scalar::kF32;
  bool is_unsigned = false;
  std::vector<int64_t> extents, strides;  // in elements
  int64_t count = 0;
};

// A call, as one of its threads sees it.
struct Call {
  const Prepared& prepared;
  std::vector<int64_t>& known;  // the values of expressions over symbols
  std::vector<View>& tensors;
  std::string error;

  bool fail(std::string text) {
    error = std::move(text);
    return false;
  }
};

// A run of indices: dimension `lane` goes on from its index, the others stay.
struct Run {
  int64_t index[kMostRank + 1] = {};
  int32_t lane = -1;  // none: one index
  int64_t count = 1;
  const int64_t* places = nullptr;  // of the last index of a body, if it is not the same for all
  const uint8_t* active = nullptr;  // lanes that count; null: all
};

// An index of a run: base + lane * step, or one for each lane.
struct Position {
  int64_t base = 0, step = 0;
  const int64_t* lanes = nullptr;
  int64_t at(int64_t lane) const {
    return lanes ? lanes[lane]
                 : static_cast<int64_t>(static_cast<uint64_t>(base) + static_cast<uint64_t>(step) * static_cast<uint64_t>(lane));
  }
};

// Scratch memory. Words, so that it is aligned to elements of any type.
using Words = std::pmr::vector<uint64_t>;
inline char* bytes_of(Words& words) {
  return reinterpret_cast<char*>(words.data());
}

class Evaluator {
 public:
  // `memory`: where evaluator_bytes are taken from.
  Evaluator(Call& call, std::pmr::memory_resource* memory);

  // Positions of the body's expressions in this run; before reads.
  void place(const PreparedBody& body, const Run& run);
  // After place(): which lanes are within the node's bounds. Returns 0 for none, 1 for all, 2 for those in *out, which is valid until the next call.
  int within(const Node& node, const Run& run, const uint8_t** out);
  // After place(): the values that the body yields; false, with the call's error, if a place is outside of its tensor. Valid until the next call of the same evaluator. `more` are the arguments after the reads.
  bool evaluate(const Node& node, const PreparedBody& body, const Run& run, const Lanes* more, Lanes* yields);
  bool run(const Node& node, const PreparedBody& body, const Run& at, const Lanes* more, Lanes* yields) {
    place(body, at);
    return evaluate(node, body, at, more, yields);
  }
  // After place(): the step, in elements, from one lane to the next in the tensor that read i reads; false if there is no such step.
  bool step_of(const Node& node, uint32_t read, int64_t* out) const;

 private:
  void divide(const Expression& expression, Position* out, uint32_t kept, const Position& a, const Position& b, int64_t count);
  int64_t* lanes_of(uint32_t kept);
  bool load(const Node& node, const PreparedBody& body, uint32_t read, const Run& run, Lanes* out);
  bool load_each(const Node& node, const PreparedBody& body, uint32_t read, const Run& run, Lanes* out);
  const void* all_lanes(Scalar type, const Lanes& value, int64_t count, uint32_t which);

  Call& call_;
  std::pmr::vector<Position> positions_;  // of expressions
  std::pmr::vector<int64_t> lanes_;       // of expressions of the body that was placed last
  Words slots_;
  Words loads_;  // of reads that are copied
  std::pmr::vector<Lanes> values_;
  Words spread_;
  std::pmr::vector<uint8_t> active_;
  int64_t indices_[kMostRank + 1] = {};
  std::pmr::vector<int64_t> iota_;
};

inline int64_t one_i64(const Lanes& value, int64_t lane = 0) {
  return static_cast<const int64_t*>(value.data)[value.is_uniform ? 0 : lane];
}

// How elements of a scalar's size move: from `value` to data[offset + lane * step].
void store_lanes(const View& view, const Lanes& value, int64_t offset, int64_t step, int64_t count);
// To and from data[offsets[lane]]; lanes whose offset is negative are left out, and load as 0.
void store_at(const View& view, const Lanes& value, const int64_t* offsets, int64_t count);
void load_at(const View& view, const int64_t* offsets, int64_t count, void* out);

}  // namespace heddle::sdk::portable
