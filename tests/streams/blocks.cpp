// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1 over the stream driver: every item is a launch of a kernel of the host, which decodes by the definitions.
#include "heddle/ext/blocks.h"

#include <algorithm>
#include <cstring>

#include "contract.h"
#include "heddle/sdk/stream/queue.h"
#include "host_work.h"
#include "sdk/module/block_values.h"

namespace heddle::test {
namespace {

using stream::Address;
using stream::Device;
using stream::guarded;
using stream::number;
using stream::Queue;
using stream::status;

constexpr uint64_t kAlignment = 64, kBlocksPerWorkgroup = 100;

void store(float value, float* out) {
  *out = value;
}
struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
void store(float value, F16* out) {
  out->bits = module::blocks::to_f16(value);
}
void store(float value, Bf16* out) {
  out->bits = module::blocks::to_bf16(value);
}

// out[i] = value i of the blocks; constant: how many blocks.
template <class Type, class Out>
int32_t decode(const heddle_x86_64_dispatch_t* d, uint64_t first, uint64_t last, void*) {
  const auto* blocks = static_cast<const uint8_t*>(d->bindings[0]);
  auto* out = static_cast<Out*>(d->bindings[1]);
  const uint64_t end = std::min(last * kBlocksPerWorkgroup, static_cast<uint64_t>(d->constants[0]));
  for (uint64_t i = first * kBlocksPerWorkgroup; i < end; ++i) {
    for (uint32_t at = 0; at < Type::kElements; at += 8) {
      float values[8];
      Type::template decode<8>(blocks + i * Type::kBytes, at, values);
      for (uint32_t k = 0; k < 8; ++k) store(values[k], out + i * Type::kElements + at + k);
    }
  }
  return 0;
}

struct Decoder {
  std::string_view block_type;
  heddle_element_type_t type;
  uint64_t elements, bytes;
  HostFunction function;
};
#define DECODERS(name)                                                                                                                \
  {#name, HEDDLE_TYPE_F32, module::blocks::name::kElements, module::blocks::name::kBytes, {decode<module::blocks::name, float>}},     \
      {#name, HEDDLE_TYPE_F16, module::blocks::name::kElements, module::blocks::name::kBytes, {decode<module::blocks::name, F16>}}, { \
    #name, HEDDLE_TYPE_BF16, module::blocks::name::kElements, module::blocks::name::kBytes, {                                         \
      decode<module::blocks::name, Bf16>                                                                                              \
    }                                                                                                                                 \
  }
const Decoder kDecoders[] = {DECODERS(Q4_0), DECODERS(Q8_0), DECODERS(Q4_K), DECODERS(Q6_K)};
#undef DECODERS

// NULL if there is none.
const stream::Entry* find(std::string_view block_type, heddle_element_type_t type, const Decoder** out) {
  static const std::vector<stream::Entry> entries = [] {
    std::vector<stream::Entry> made(std::size(kDecoders));
    for (size_t i = 0; i < made.size(); ++i) {
      made[i].function = reinterpret_cast<stream::Function>(const_cast<HostFunction*>(&kDecoders[i].function));
      made[i].binding_count = 2;
      made[i].constants_bytes = 8;
      made[i].arguments_bytes = 24;
      made[i].name = "decoder of " + std::string(kDecoders[i].block_type);
    }
    return made;
  }();
  for (size_t i = 0; i < entries.size(); ++i) {
    *out = &kDecoders[i];
    if (kDecoders[i].block_type == block_type && kDecoders[i].type == type) return &entries[i];
  }
  return nullptr;
}

heddle_status_t* supports(heddle_device_t* handle, heddle_string_t block_type, heddle_element_type_t type) noexcept {
  const Decoder* ignored = nullptr;
  if (find(sdk::view_of(block_type), type, &ignored)) return nullptr;
  return status(Device::from(handle), HEDDLE_STATUS_UNIMPLEMENTED, "it has no such decoder");
}

heddle_status_t* locate(Device* device, uint64_t index, const heddle_binding_t& binding, uint64_t wanted, Address* out) {
  const stream::Buffer* buffer = stream::Buffer::from(binding.buffer);
  if (!buffer || buffer->device != device || binding.length != wanted || binding.offset % kAlignment != 0) {
    return status(device, HEDDLE_STATUS_INVALID_ARGUMENT, "decoding item %llu failed: %llu bytes at %llu, expected %llu", number(index),
                  number(binding.length), number(binding.offset), number(wanted));
  }
  if (!buffer->holds(binding.offset, binding.length)) {
    return status(device, HEDDLE_STATUS_OUT_OF_RANGE, "decoding item %llu failed: the buffer has %llu bytes", number(index),
                  number(buffer->size));
  }
  *out = buffer->address + binding.offset;
  return nullptr;
}

heddle_status_t* append(Device* device, const heddle_encoded_t& item, uint64_t index, stream::List* list) {
  const Decoder* decoder = nullptr;
  const stream::Entry* entry = find(sdk::view_of(item.block_type), item.element_type, &decoder);
  if (!entry) return status(device, HEDDLE_STATUS_UNIMPLEMENTED, "decoding item %llu failed: no such decoder", number(index));
  Address from = 0, to = 0;
  const uint64_t width = HEDDLE_TYPE_BITS(item.element_type) / 8;
  if (heddle_status_t* bad = locate(device, index, item.source, item.count * decoder->bytes, &from)) return bad;
  if (heddle_status_t* bad = locate(device, index, item.target, item.count * decoder->elements * width, &to)) return bad;
  if (item.count == 0) return nullptr;
  const uint64_t arguments[] = {from, to, item.count};
  const size_t at = list->arguments.size();
  list->arguments.resize(at + sizeof arguments);
  std::memcpy(list->arguments.data() + at, arguments, sizeof arguments);
  stream::Op& op = list->ops.emplace_back();
  op.kind = stream::Op::Kind::kLaunch;
  op.launch = {entry, static_cast<uint32_t>(at), {static_cast<uint32_t>((item.count - 1) / kBlocksPerWorkgroup + 1), 1, 1}, 0, 0};
  ++list->dispatches;
  return nullptr;
}

heddle_status_t* decode_items(heddle_queue_t* handle, const heddle_sync_t* in, const heddle_encoded_t* items, uint64_t count) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device();
  return guarded(device, "decoding blocks", [&]() -> heddle_status_t* {
    heddle_sync_t sync;
    uint64_t bad_byte;
    if (!sdk::read_struct(in, &sync, &bad_byte)) return sdk::tail_status(device->host, "heddle_sync_t", bad_byte);
    if (heddle_status_t* lost = device->loss()) return lost;
    stream::Submission* draft = queue->draft();
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

const heddle_blocks_interface_t* blocks_interface() noexcept {
  static const heddle_blocks_interface_t table = {sizeof(heddle_blocks_interface_t), 0, supports, decode_items};
  return &table;
}

}  // namespace heddle::test
