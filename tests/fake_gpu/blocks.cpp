// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1 of the fake: every item is a step, decoded by the definitions, so late and in any order.
#include "sdk/module/block_values.h"

#include "fake.h"
#include "heddle/ext/blocks.h"

namespace heddle::fake {
namespace {

using sdk::guarded;
using sdk::status;

constexpr uint64_t kAlignment = 64;

template <class Type>
void decode(const char* blocks, uint64_t count, heddle_element_type_t type, char* out) {
  for (uint64_t i = 0; i < count; ++i) {
    float values[Type::kElements];
    for (uint32_t first = 0; first < Type::kElements; first += 8) {
      Type::template decode<8>(reinterpret_cast<const uint8_t*>(blocks) + i * Type::kBytes, first, values + first);
    }
    for (const float value : values) {
      const uint16_t narrow = type == HEDDLE_TYPE_F16 ? module::blocks::to_f16(value) : module::blocks::to_bf16(value);
      const size_t width = type == HEDDLE_TYPE_F32 ? 4 : 2;
      std::memcpy(out, type == HEDDLE_TYPE_F32 ? static_cast<const void*>(&value) : &narrow, width);
      out += width;
    }
  }
}

struct Code {
  std::string_view name;
  uint64_t elements, bytes;
  void (*decode)(const char* blocks, uint64_t count, heddle_element_type_t type, char* out);
};
#define CODE(name) {#name, module::blocks::name::kElements, module::blocks::name::kBytes, decode<module::blocks::name>}
constexpr Code kCodes[] = {CODE(Q4_0), CODE(Q8_0), CODE(Q4_K), CODE(Q6_K)};  // the host decodes the others
#undef CODE

const Code* find(std::string_view name, heddle_element_type_t type) {
  if (type != HEDDLE_TYPE_F32 && type != HEDDLE_TYPE_F16 && type != HEDDLE_TYPE_BF16) return nullptr;
  for (const Code& code : kCodes) {
    if (code.name == name) return &code;
  }
  return nullptr;
}

heddle_status_t* supports(heddle_device_t* handle, heddle_string_t block_type, heddle_element_type_t type) noexcept {
  Device* device = Device::from(handle);
  return guarded(device->host, "looking up a decoder", [&]() -> heddle_status_t* {
    if (find(sdk::view_of(block_type), type)) return nullptr;
    return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "fake: it has no such decoder");
  });
}

heddle_status_t* place(Device* device, uint64_t index, const heddle_binding_t& binding, uint64_t wanted, char** out) {
  const Buffer* buffer = Buffer::from(binding.buffer);
  if (!buffer || buffer->device != device || binding.length != wanted || binding.offset % kAlignment != 0) {
    return status(device->host, HEDDLE_STATUS_INVALID_ARGUMENT, "fake: decoding item %llu failed: %llu bytes at %llu, expected %llu",
                  number(index), number(binding.length), number(binding.offset), number(wanted));
  }
  if (!buffer->holds(binding.offset, binding.length)) {
    return status(device->host, HEDDLE_STATUS_OUT_OF_RANGE, "fake: decoding item %llu failed: the buffer has %llu bytes", number(index),
                  number(buffer->size));
  }
  *out = buffer->secret + binding.offset;
  return nullptr;
}

heddle_status_t* decode_items(heddle_queue_t* handle, const heddle_sync_t* sync, const heddle_encoded_t* items, uint64_t count) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device;
  return guarded(device->host, "decoding blocks", [&]() -> heddle_status_t* {
    auto submission = std::make_unique<Submission>();
    submission->queue = queue;
    if (heddle_status_t* bad = read_sync(device, sync, submission.get())) return bad;
    for (uint64_t i = 0; i < count; ++i) {
      const heddle_encoded_t& item = items[i];
      const Code* code = find(sdk::view_of(item.block_type), item.element_type);
      if (!code) return status(device->host, HEDDLE_STATUS_UNIMPLEMENTED, "fake: decoding item %llu failed: no such decoder", number(i));
      char *from = nullptr, *to = nullptr;
      const uint64_t width = HEDDLE_TYPE_BITS(item.element_type) / 8;
      if (heddle_status_t* bad = place(device, i, item.source, item.count * code->bytes, &from)) return bad;
      if (heddle_status_t* bad = place(device, i, item.target, item.count * code->elements * width, &to)) return bad;
      submission->groups.back().push_back([=, blocks = item.count, type = item.element_type]() -> heddle_status_t* {
        code->decode(from, blocks, type, to);
        return nullptr;
      });
    }
    submission->dispatches = count;
    return device->engine->enqueue(std::move(submission));
  });
}

}  // namespace

const heddle_blocks_interface_t* blocks_interface() noexcept {
  static const heddle_blocks_interface_t table = {sizeof(heddle_blocks_interface_t), 0, supports, decode_items};
  return &table;
}

}  // namespace heddle::fake
