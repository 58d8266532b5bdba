// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1: decodes weights that are stored in blocks, by the kernels of block_kernels.cpp.
#include <algorithm>
#include <iterator>

#include "cuda/decoders.h"
#include "heddle/ext/blocks.h"
#include "heddle/sdk/stream/queue.h"
#include "sdk/module/block_values.h"

namespace heddle::cuda {

using sdk::guarded;
using sdk::number;
using stream::Buffer;
using stream::ContextScope;
using stream::Device;
using stream::Entry;
using stream::List;
using stream::Op;
using stream::Queue;
using stream::shown;
using stream::Submission;

namespace {

#define TYPE(name) module::blocks::name::kElements, module::blocks::name::kBytes
constexpr BlockCode kCodes[] = {
#ifdef HEDDLE_CUDA_BLOCKS
#include "block_ptx.inc"  // {"Q4_0", TYPE(Q4_0), its PTX}, ...
#endif
    {}};  // the end
#undef TYPE

constexpr uint32_t kThreads = 256, kValuesPerThread = 8;
constexpr uint64_t kLeastAlignment = 16;  // of the kernels' accesses

struct Target {
  heddle_element_type_t type;
  const char *name, *kernel;
};
constexpr Target kTargets[Decoders::kTargets] = {
    {HEDDLE_TYPE_F32, "f32", "decode_f32"}, {HEDDLE_TYPE_F16, "f16", "decode_f16"}, {HEDDLE_TYPE_BF16, "bf16", "decode_bf16"}};

const BlockCode* code_of_type(std::string_view name) noexcept {
  const auto* found = std::find_if(std::begin(kCodes), std::end(kCodes), [&](const BlockCode& code) { return code.name == name; });
  return found == std::end(kCodes) ? nullptr : found;
}

heddle_status_t* find(Device* device, std::string_view block_type, heddle_element_type_t type, const BlockCode** out_code,
                      size_t* out_target) {
  *out_code = block_type.empty() ? nullptr : code_of_type(block_type);
  const auto* target = std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& known) { return known.type == type; });
  *out_target = static_cast<size_t>(target - kTargets);
  if (*out_code && target != std::end(kTargets)) return nullptr;
  return status(device, HEDDLE_STATUS_UNIMPLEMENTED,
                "decoding blocks of type '%.*s' to element type 0x%x failed: %s; decode them on the host", shown(block_type),
                block_type.data(), type, *out_code ? "only f32, f16 and bf16 are supported" : "there is no kernel for the type");
}

heddle_status_t* blocks_supports(heddle_device_t* handle, heddle_string_t block_type, heddle_element_type_t type) noexcept {
  Device* device = Device::from(handle);
  return guarded(device->host, "looking up a decoder", [&] {
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
    return status(device, why, "decoding item %llu (blocks of %s) failed: its %s has %llu bytes at %llu, %s", number(index),
                  code.name.data(), what, number(binding.length), number(binding.offset), text.c_str());
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
  const uint64_t width = HEDDLE_TYPE_BITS(item.element_type) / 8;
  uint64_t source_bytes = 0, threads = 0, target_bytes = 0;
  if (__builtin_mul_overflow(item.count, code->bytes, &source_bytes) ||
      __builtin_mul_overflow(item.count, code->elements / kValuesPerThread, &threads) ||
      __builtin_mul_overflow(item.count, code->elements * width, &target_bytes) ||
      threads / kThreads >= static_cast<uint64_t>(device->facts().grid[0])) {
    return status(device, HEDDLE_STATUS_OUT_OF_RANGE, "decoding item %llu failed: %llu blocks of %s are too many at once", number(index),
                  number(item.count), code->name.data());
  }
  Address from = 0, to = 0;
  if (heddle_status_t* bad = locate(device, index, *code, "source", item.source, source_bytes, &from)) return bad;
  if (heddle_status_t* bad = locate(device, index, *code, "target", item.target, target_bytes, &to)) return bad;
  if (item.count == 0) return nullptr;
  const Entry* entry = nullptr;
  if (heddle_status_t* bad = backend_of(device).decoders->entry(device, *code, target, &entry)) return bad;
  const uint64_t arguments[] = {from, to, item.count};
  const size_t at = list->arguments.size();
  list->arguments.resize(at + sizeof arguments);
  std::memcpy(list->arguments.data() + at, arguments, sizeof arguments);
  Op& op = list->ops.emplace_back();
  op.kind = Op::Kind::kLaunch;
  op.launch = {entry, static_cast<uint32_t>(at), {static_cast<uint32_t>((threads + kThreads - 1) / kThreads), 1, 1}, 0, 0};
  ++list->dispatches;
  return nullptr;
}

heddle_status_t* blocks_decode(heddle_queue_t* handle, const heddle_sync_t* in, const heddle_encoded_t* items, uint64_t count) noexcept {
  Queue* queue = Queue::from(handle);
  Device* device = queue->device();
  return guarded(device->host, "decoding blocks", [&]() -> heddle_status_t* {
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

Decoders::~Decoders() {
  for (auto& [code, loaded] : loaded_) {
    if (loaded.module) backend_->cuda.cuModuleUnload(loaded.module);
  }
}

heddle_status_t* Decoders::load(Device* device, const BlockCode& code, Loaded* out) {
  const Api& cuda = backend_->cuda;
  char log[1024] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  CUresult result = cuda.cuModuleLoadDataEx(&out->module, code.ptx, std::size(options), options, values);
  if (result != CUDA_SUCCESS) {
    out->module = nullptr;
    if (device->ends_context(result)) return device->failed(result, "loading a decoder");
    return result_status(device, code_of(result), result, "loading the decoder of %s on device %u failed (%s)", code.name.data(),
                         device->ordinal, log);
  }
  for (size_t i = 0; i < kTargets; ++i) {
    Entry& entry = out->entries[i];
    CUfunction function = nullptr;
    result = cuda.cuModuleGetFunction(&function, out->module, cuda::kTargets[i].kernel);
    if (result != CUDA_SUCCESS) return device->failed(result, "looking up a decoder");
    entry.function = reinterpret_cast<stream::Function>(function);
    entry.api = device->api;
    entry.device = device;
    entry.binding_count = 2;
    entry.constants_bytes = 8;
    entry.block[0] = kThreads;
    entry.arguments_bytes = 24;
    entry.name = "decoder of " + std::string(code.name) + " to " + cuda::kTargets[i].name;
  }
  return nullptr;
}

heddle_status_t* Decoders::entry(Device* device, const BlockCode& code, size_t target, const Entry** out) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto [found, fresh] = loaded_.try_emplace(&code);
  if (fresh) {
    if (heddle_status_t* bad = load(device, code, &found->second)) {
      if (found->second.module) backend_->cuda.cuModuleUnload(found->second.module);
      loaded_.erase(found);
      return bad;
    }
  }
  *out = &found->second.entries[target];
  return nullptr;
}

const heddle_blocks_interface_t* blocks_interface() noexcept {
  static const heddle_blocks_interface_t table = {sizeof(heddle_blocks_interface_t), 0, blocks_supports, blocks_decode};
  return std::size(kCodes) > 1 ? &table : nullptr;
}

}  // namespace heddle::cuda
