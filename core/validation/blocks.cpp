// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1, checked: the ranges of blocks and values, and their use until the work has finished.
#include "core/validation/call.h"

namespace heddle::validation {
namespace {

constexpr uint64_t kAlignment = 64;

heddle_status_t* supports(heddle_device_t* device, heddle_string_t block_type, heddle_element_type_t element_type) noexcept {
  Call call("heddle.blocks/1 supports");
  call.live<Device>(device, "device");
  if (call.refused()) return call.refusal();
  return call.answer(call.pass(Tag::kNoBlock, [&] { return call.plugin().driver.blocks->supports(device, block_type, element_type); }));
}

heddle_status_t* decode(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_encoded_t* items, uint64_t count) noexcept {
  Call call("heddle.blocks/1 decode");
  std::shared_ptr<Queue> record = call.live<Queue>(queue, "queue");
  std::vector<Named> named;
  if (count && !items) call.host_broke("HD-M-02", "items is NULL, but count is {}", count);
  for (uint64_t i = 0; !call.refused() && i < count; ++i) {
    check_binding(call, items[i].source, fmt::format("items[{}].source", i), &named);
    check_binding(call, items[i].target, fmt::format("items[{}].target", i), &named);
    for (const heddle_binding_t& binding : {items[i].source, items[i].target}) {
      if (binding.offset % kAlignment != 0) {
        call.host_broke("HD-M-04", "items[{}] has a binding at {}, not at a multiple of {}", i, binding.offset, kAlignment);
      }
    }
  }
  Sync points(call, record, sync);
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return call.plugin().driver.blocks->decode(queue, sync, items, count); });
  points.enqueued(!status);
  if (!status) points.uses(named);
  call.check_lost(status);
  return status;  // the work is enqueued, even if another rule was broken
}

}  // namespace

const heddle_blocks_interface_t kBlocksTable = {sizeof(heddle_blocks_interface_t), 0, supports, decode};

}  // namespace heddle::validation
