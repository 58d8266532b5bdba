// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a workgroup goes through attention: some queries, and blocks of all keys that they read, with the operands of both products in shared memory.
// Read by the attention strategy only.
#pragma once

#include "compiler/targets/cuda/instructions.h"
#include "compiler/targets/online_softmax.h"

namespace heddle::targets::cuda {

struct AttentionForm {
  mlir::Type element;  // in shared memory: f16 or bf16 with tensor cores, f32 without
  // With tensor cores, weights are multiplied in two parts: what they are rounded to, and the rest. What is lost is far less than the rounding of the results.
  bool splits_weights = false;
  int64_t threads = 0;
  int64_t thread_rows = 0;         // queries of a thread; with tensor cores two for each of a subgroup's matrices
  int64_t query_rows = 0;          // of a workgroup
  int64_t stages = 0;              // blocks of keys in shared memory at once
  int64_t depth = 0, columns = 0;  // of a row in shared memory
  int64_t batches_at_once = 1;     // whose workgroups are interleaved

  static constexpr int64_t keys = 64;  // of a block

  // Nothing if shared memory is too small, or if there is no such kernel for the types.
  static std::optional<AttentionForm> choose(const AttentionShape& shape, int64_t shared_memory_bytes);

  bool tensor_cores() const { return !element.isF32(); }
  int64_t element_bytes() const { return element.getIntOrFloatBitWidth() / 8; }
  // Rows in shared memory are longer than their contents, so that elements read together are in different banks.
  int64_t row_bytes(int64_t elements) const { return elements * element_bytes() + 16; }
  int64_t query_bytes() const { return query_rows * row_bytes(depth); }
  int64_t stage_bytes() const { return keys * (row_bytes(depth) + row_bytes(columns)); }  // keys, then values
  int64_t weight_bytes() const { return tensor_cores() ? 0 : query_rows * row_bytes(keys); }
  // Queries, then weights, then the stages.
  int64_t first_stage() const { return query_bytes() + weight_bytes(); }
  int64_t shared_bytes() const { return first_stage() + stages * stage_bytes(); }
  std::string name() const;
};

// Both products of a block: which scores and results this thread has, and how it computes them. All values are f32 scalars; a row is a sequence of
// groups, and a group a sequence of lanes.
class AttentionProducts {
 public:
  virtual ~AttentionProducts() = default;
  static std::unique_ptr<AttentionProducts> make(const Instructions& frame, const AttentionForm& form);

  int64_t score_groups = 0, score_lanes = 0;    // of a row of scores, and neighboring keys of a group
  int64_t result_groups = 0, result_lanes = 0;  // of a row of results, and neighboring columns of a group
  llvm::SmallVector<int64_t> row_distances;     // between lanes of the subgroup that share rows, for exchange()

  // i64, in the workgroup's queries, the block's keys and the results' columns.
  virtual mlir::Value row(int64_t thread_row) const = 0;
  virtual mlir::Value key(int64_t group) const = 0;
  virtual mlir::Value column(int64_t group) const = 0;

  // Queries times the keys at that address (i32).
  virtual KernelBuilder::Values scores(mlir::Value stage) const = 0;
  // Adds weights, laid out like scores(), times the values at that address to the results.
  virtual void accumulate(mlir::Value stage, mlir::ValueRange weights, KernelBuilder::Values& results) const = 0;
};

}  // namespace heddle::targets::cuda
