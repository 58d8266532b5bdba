// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1: decodes weights that are stored in blocks, by kernels of the vendor.
#include "heddle/sdk/stream/blocks.h"

#include <algorithm>
#include <iterator>

#include "heddle/sdk/stream/queue.h"

namespace heddle::sdk::stream {
namespace {

constexpr uint32_t kDecoderThreads = 256, kValuesPerThread = 8;
constexpr uint64_t kLeastAlignment = 16;  // of the kernels' accesses

struct Target {
  heddle_element_type_t type;
  const char *name, *kernel;
};
constexpr Target kTargets[Decoders::kTargets] = {
    {HEDDLE_TYPE_F32, "f32", "decode_f32"}, {HEDDLE_TYPE_F16, "f16", "decode_f16"}, {HEDDLE_TYPE_BF16, "bf16", "decode_bf16"}};

// Of the variants that run on the device, the one with the highest rank. NULL: none.
const BlockCode* code_for(const Device* device, std::string_view block_type) noexcept {
  const BlockCode* best = nullptr;
  uint32_t best_rank = 0;
  for (const BlockCode& code : device->instance->block_codes) {
    if (code.block_type != block_type) continue;
    const uint32_t rank = device->backend.rank(code.format, code.target);
    if (rank <= best_rank) continue;
    best = &code;
    best_rank = rank;
  }
  return best;
}

heddle_status_t* find(Device* device, std::string_view block_type, heddle_element_type_t type, const BlockCode** out_code,
                      size_t* out_target) {
  *out_code = code_for(device, block_type);
  const auto* target = std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& known) { return known.type == type; });
  *out_target = static_cast<size_t>(target - kTargets);
  if (*out_code && target != std::end(kTargets)) return nullptr;
  return status(device, HEDDLE_STATUS_UNIMPLEMENTED,
                "decoding blocks of type '%.*s' to element type 0x%x failed: %s; decode them on the host", shown(block_type),
                block_type.data(), type, *out_code ? "only f32, f16 and bf16 are supported" : "there is no kernel for the type");
}

heddle_status_t* blocks_supports(heddle_device_t* handle, heddle_string_t block_type, heddle_element_type_t type) noexcept {
  Device* device = Device::from(handle);
  return guarded(device, "looking up a decoder", [&] {
    const BlockCode* code;
    size_t target;
    return find(device, sdk::view_of(block_type), type, &code, &target);
  });
}

// The address of one side of an item.
heddle_status_t* locate(Device* device, uint64_t index, const BlockCode& code, const char* what, const heddle_binding_t& binding,
                        uint64_t wanted, Address* out) {
  const Buffer* buffer = Buffer::from(binding.buffer);
  auto bad = [&](heddle_status_code_t why, const std::string& text) {
    return status(device, why, "decoding item %llu (blocks of %.*s) failed: its %s has %llu bytes at %llu, %s", number(index),
                  shown(code.block_type), code.block_type.data(), what, number(binding.length), number(binding.offset), text.c_str());
  };
  if (binding.length != wanted) return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "but its blocks need " + std::to_string(wanted));
  if (!buffer) return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "but no buffer");
  if (buffer->device != device) return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "in a buffer of another device [HD-Q-02]");
  if (!buffer->holds(binding.offset, binding.length)) {
    return bad(HEDDLE_STATUS_OUT_OF_RANGE, "but the buffer has " + std::to_string(buffer->size));
  }
  *out = buffer->address + binding.offset;
  if (wanted && *out % kLeastAlignment != 0) {
    return bad(HEDDLE_STATUS_INVALID_ARGUMENT, "which is no multiple of " + std::to_string(kLeastAlignment) + " on the device");
  }
  return nullptr;
}

heddle_status_t* append(Device* device, const heddle_encoded_t& item, uint64_t index, List* list) {
  const BlockCode* code = nullptr;
  size_t target = 0;
  if (heddle_status_t* bad = find(device, sdk::view_of(item.block_type), item.element_type, &code, &target)) return bad;
  auto too_many = [&] {
    return status(device, HEDDLE_STATUS_OUT_OF_RANGE, "decoding item %llu failed: %llu blocks of %.*s are too many at once", number(index),
                  number(item.count), shown(code->block_type), code->block_type.data());
  };
  const uint64_t width = HEDDLE_TYPE_BITS(item.element_type) / 8;
  uint64_t source_bytes = 0, threads = 0, target_bytes = 0;
  if (__builtin_mul_overflow(item.count, code->bytes, &source_bytes) ||
      __builtin_mul_overflow(item.count, code->elements / kValuesPerThread, &threads) ||
      __builtin_mul_overflow(item.count, code->elements * width, &target_bytes) || threads / kDecoderThreads >= INT32_MAX) {
    return too_many();
  }
  Address from = 0, to = 0;
  if (heddle_status_t* bad = locate(device, index, *code, "source", item.source, source_bytes, &from)) return bad;
  if (heddle_status_t* bad = locate(device, index, *code, "target", item.target, target_bytes, &to)) return bad;
  if (item.count == 0) return nullptr;
  const Entry* entry = nullptr;
  if (heddle_status_t* bad = device->decoders->entry(*code, target, &entry)) return bad;
  const auto workgroups = static_cast<uint32_t>((threads + kDecoderThreads - 1) / kDecoderThreads);
  if (workgroups > entry->most_workgroups[0]) return too_many();
  const uint64_t arguments[] = {from, to, item.count};
  const size_t at = list->arguments.size();
  list->arguments.resize(at + sizeof arguments);
  std::memcpy(list->arguments.data() + at, arguments, sizeof arguments);
  Op& op = list->ops.emplace_back();
  op.kind = Op::Kind::kLaunch;
  op.launch = {entry, static_cast<uint32_t>(at), {workgroups, 1, 1}, 0, 0};
  ++list->dispatches;
  return nullptr;
}

heddle_status_t* blocks_decode(heddle_queue_t* handle, const heddle_sync_t* in, const heddle_encoded_t* items, uint64_t count) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device();
  return guarded(device, "decoding blocks", [&]() -> heddle_status_t* {
    heddle_sync_t sync;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (count && !items) {
      return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "decoding %llu items failed: the list is null", number(count));
    }
    ContextScope scope(device);
    if (heddle_status_t* lost = device->loss()) return lost;
    Submission* draft = queue->draft();
    for (uint64_t i = 0; i < count; ++i) {
      if (heddle_status_t* bad = append(device, items[i], i, &draft->list)) {
        queue->abandon(draft);
        return bad;
      }
    }
    return queue->submit(draft, sync);
  });
}

}  // namespace

heddle_status_t* Decoders::load(const BlockCode& code, Executable* out) const {
  heddle_entry_params_t entries[kTargets] = {};
  for (size_t i = 0; i < kTargets; ++i) {
    entries[i].struct_size = sizeof entries[i];
    entries[i].name = {stream::kTargets[i].kernel, std::char_traits<char>::length(stream::kTargets[i].kernel)};
    entries[i].binding_count = 2;
    entries[i].constants_bytes = 8;
    entries[i].flags = HEDDLE_ENTRY_IN_ORDER;
    std::fill(std::begin(entries[i].workgroup_size), std::end(entries[i].workgroup_size), 1);
    entries[i].workgroup_size[0] = kDecoderThreads;
  }
  const std::string name = "decoders of " + std::string(code.block_type);
  heddle_executable_params_t params = {};
  params.struct_size = sizeof params;
  params.format = {code.format.data(), code.format.size()};
  params.target = {code.target.data(), code.target.size()};
  params.code = code.code.data();
  params.code_bytes = code.code.size();
  params.entries = entries;
  params.entry_count = kTargets;
  params.entry_stride = sizeof entries[0];
  params.name = {name.data(), name.size()};
  out->api = device_->api;
  out->device = device_;
  if (heddle_status_t* bad = Loading(device_, params).load(out)) return bad;
  for (size_t i = 0; i < kTargets; ++i)  // as texts name them
    out->entries[i].name = "decoder of " + std::string(code.block_type) + " to " + stream::kTargets[i].name;
  return nullptr;
}

heddle_status_t* Decoders::entry(const BlockCode& code, size_t target, const Entry** out) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto [found, is_fresh] = loaded_.try_emplace(&code);
  if (is_fresh) {
    heddle_status_t* bad = nullptr;
    try {
      bad = load(code, &found->second);
    } catch (...) {
      loaded_.erase(found);
      throw;
    }
    if (bad) {
      loaded_.erase(found);
      return bad;
    }
  }
  *out = &found->second.entries[target];
  return nullptr;
}

const heddle_blocks_interface_t* blocks_interface() noexcept {
  static const heddle_blocks_interface_t table = {sizeof(heddle_blocks_interface_t), 0, blocks_supports, blocks_decode};
  return &table;
}

}  // namespace heddle::sdk::stream
