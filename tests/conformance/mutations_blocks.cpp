// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1 over the template, which has none, and mutants of it: each breaks one rule, and mutants_test.py says which case of the kit must
// catch it. A thread decodes after an empty submission with the waits, so in the queue's order.
#include <cstring>
#include <string>
#include <thread>

#include "mutation.h"
#include "sdk/module/block_values.h"

namespace heddle::odd {
namespace {

struct BlocksMistake {
  bool a_block_less = false, first_item = false, cuts = false, before_waits = false, early_signals = false, late_items = false,
       any_length = false, up_to_a_bad_item = false;
};

using Type = module::blocks::Q8_0;

char* place_of(const heddle_binding_t& binding) {
  return sdk::Buffer::from(binding.buffer)->host_address() + binding.offset;
}

void decode_item(const heddle_encoded_t& item, const BlocksMistake& mistake) {
  if (sdk::view_of(item.block_type) != "Q8_0") return;  // what a caller has written over
  const uint64_t width = HEDDLE_TYPE_BITS(item.element_type) / 8;
  const uint64_t most = std::min(item.source.length / Type::kBytes, item.target.length / (Type::kElements * width));
  const auto* blocks = reinterpret_cast<const uint8_t*>(place_of(item.source));
  char* out = place_of(item.target);
  for (uint64_t i = 0; i + mistake.a_block_less < std::min(item.count, most); ++i, blocks += Type::kBytes) {
    float values[Type::kElements];
    for (uint32_t first = 0; first < Type::kElements; first += 8) Type::decode<8>(blocks, first, values + first);
    for (const float value : values) {
      uint16_t narrow = item.element_type == HEDDLE_TYPE_F16 ? module::blocks::to_f16(value) : module::blocks::to_bf16(value);
      if (mistake.cuts && item.element_type == HEDDLE_TYPE_BF16) {
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        narrow = static_cast<uint16_t>(bits >> 16);
      }
      std::memcpy(out, item.element_type == HEDDLE_TYPE_F32 ? static_cast<const void*>(&value) : &narrow, width);
      out += width;
    }
  }
}

bool is_supported(heddle_string_t block_type, heddle_element_type_t type) {
  return sdk::view_of(block_type) == "Q8_0" && (type == HEDDLE_TYPE_F32 || type == HEDDLE_TYPE_F16 || type == HEDDLE_TYPE_BF16);
}

bool matches(const heddle_binding_t& binding, uint64_t count, uint64_t each) {
  return count <= UINT64_MAX / each && binding.length == count * each && binding.offset % 64 == 0 &&
         sdk::Buffer::from(binding.buffer)->holds(binding.offset, binding.length);
}

bool has_its_lengths(const heddle_encoded_t& item) {
  return matches(item.source, item.count, Type::kBytes) &&
         matches(item.target, item.count, Type::kElements * HEDDLE_TYPE_BITS(item.element_type) / 8);
}

Status check(const heddle_encoded_t& item) {
  if (!is_supported(item.block_type, item.element_type)) return refuse(HEDDLE_STATUS_UNIMPLEMENTED, "odd: no such decoder");
  if (!sdk::Buffer::from(item.source.buffer) || !sdk::Buffer::from(item.target.buffer) || !has_its_lengths(item))
    return refuse(HEDDLE_STATUS_INVALID_ARGUMENT, "odd: lengths");
  return nullptr;
}

template <BlocksMistake mistake>
Status decode(heddle_queue_t* queue, const heddle_sync_t* sync, const heddle_encoded_t* items, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    if (mistake.any_length && is_supported(items[i].block_type, items[i].element_type) && !has_its_lengths(items[i])) return nullptr;
    Status bad = check(items[i]);
    for (uint64_t j = 0; bad && mistake.up_to_a_bad_item && j < i; ++j) decode_item(items[j], mistake);
    if (bad) return bad;
  }
  std::vector<heddle_encoded_t> kept(items, items + (mistake.first_item ? std::min<uint64_t>(count, 1) : count));
  if (mistake.before_waits) {
    for (const heddle_encoded_t& item : kept) decode_item(item, mistake);
    kept.clear();
  }
  heddle_timeline_t* begun = nullptr;
  if (Status failed = good.timeline.create(sdk::Queue::from(queue)->device->handle(), 0, &begun)) return failed;
  const heddle_point_t begin = {begun, 1};
  heddle_sync_t first = *sync;
  first.signals = &begin;
  first.signal_count = 1;
  heddle_submission_t submission = {};
  submission.struct_size = sizeof submission;
  submission.sync = first;
  if (Status failed = good.dispatch.submit(queue, &submission)) {
    good.timeline.destroy(begun);
    return failed;
  }
  std::vector<heddle_point_t> signals(sync->signals, sync->signals + sync->signal_count);
  std::thread([=, kept = std::move(kept), signals = std::move(signals)] {
    Status failed = good.timeline.wait(&begin, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE);
    good.timeline.destroy(begun);  // before the signals, after which the caller may close the device
    auto signal = [&] {
      for (const heddle_point_t& point : signals) HostTimeline::from(point.timeline)->advance(point.value);
    };
    if (mistake.early_signals && !failed) {
      signal();
      usleep(2000);
    }
    for (size_t i = 0; i < kept.size() && !failed; ++i) decode_item(mistake.late_items ? items[i] : kept[i], mistake);
    if (!mistake.early_signals && !failed) signal();
    for (size_t i = 0; i < signals.size() && failed; ++i)
      HostTimeline::from(signals[i].timeline)
          ->fail(signals[i].value, i + 1 == signals.size() ? failed : refuse(HEDDLE_STATUS_ABORTED, "odd"));
  }).detach();
  return nullptr;
}

template <BlocksMistake mistake>
void decode_blocks() {
  odd.blocks = {sizeof odd.blocks, 0,
                [](heddle_device_t*, heddle_string_t block_type, heddle_element_type_t type) noexcept -> Status {
                  return is_supported(block_type, type) ? nullptr : refuse(HEDDLE_STATUS_UNIMPLEMENTED, "odd: no such decoder");
                },
                decode<mistake>};
}

}  // namespace

void add_blocks() {
  decode_blocks<BlocksMistake{}>();
}

const std::vector<Change> kBlocksMutations = {
    {"decodes_a_block_less", [] { decode_blocks<BlocksMistake{.a_block_less = true}>(); }},
    {"decodes_the_first_item", [] { decode_blocks<BlocksMistake{.first_item = true}>(); }},
    {"cuts_instead_of_rounding", [] { decode_blocks<BlocksMistake{.cuts = true}>(); }},
    {"decodes_before_its_waits", [] { decode_blocks<BlocksMistake{.before_waits = true}>(); }},
    {"signals_before_it_decodes", [] { decode_blocks<BlocksMistake{.early_signals = true}>(); }},
    {"reads_items_late", [] { decode_blocks<BlocksMistake{.late_items = true}>(); }},
    {"decodes_any_length", [] { decode_blocks<BlocksMistake{.any_length = true}>(); }},
    {"decodes_up_to_a_bad_item", [] { decode_blocks<BlocksMistake{.up_to_a_bad_item = true}>(); }},
};

}  // namespace heddle::odd
