// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A state of an instance: the memory that its functions keep between calls, and the order of the calls that use it. Every instance has one, and
// applications create further ones (heddle_state_t). Calls in flight keep it alive.
#ifndef HEDDLE_CORE_SUBMIT_STATE_H_
#define HEDDLE_CORE_SUBMIT_STATE_H_

#include <memory>
#include <span>
#include <vector>

#include "core/memory/weights.h"
#include "core/submit/plan.h"
#include "core/submit/state_order.h"

namespace heddle::submit {

class State final : public memory::Counted {
 public:
  // Zeroed memory for every global of the kind State. owner: the serial number of the instance. used: one per global, whether it needs memory.
  // [may-block]
  static Result<memory::Ref<State>> create(const module_format::Module& module, const Machine& machine,
                                           std::span<const memory::Ref<memory::Device>> devices, const std::vector<bool>& used,
                                           uint64_t owner);
  // Where a Place of the source kState is.
  const heddle_block_t& block(uint32_t index) const { return blocks_[index]; }
  StateOrder& order() { return order_; }
  uint64_t owner() const { return owner_; }

 private:
  explicit State(uint64_t owner) : owner_(owner) {}
  const uint64_t owner_;
  std::vector<heddle_block_t> blocks_;                   // one per global of the kind State, in their order
  std::vector<std::unique_ptr<memory::Weight>> memory_;  // frees the blocks
  StateOrder order_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_STATE_H_
