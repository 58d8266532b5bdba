// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1 for vendors that bring kernels: a device decodes weights that are stored in blocks. A vendor has code for each type of blocks
// (Plugin::block_codes), which is loaded when it is needed first, since compiling it may take a vendor's library some milliseconds.
#ifndef HEDDLE_SDK_STREAM_BLOCKS_H_
#define HEDDLE_SDK_STREAM_BLOCKS_H_

#include <map>
#include <mutex>

#include "heddle/sdk/stream/code.h"

namespace heddle::sdk::stream {

// The kernels for one type of blocks, in one variant of code: decode_f32, decode_f16 and decode_bf16. Each takes the address of the blocks, that of the
// values and the number of blocks, each of 64 bits. A workgroup has 256 threads, and a thread decodes 8 values. Addresses are multiples of 16 bytes.
struct BlockCode {
  std::string_view block_type;       // GGUF's name
  uint32_t elements = 0, bytes = 0;  // of a block
  std::string_view format, target, code;
};

// What a device has loaded.
class Decoders {
 public:
  explicit Decoders(Device* device) noexcept : device_(device) {}
  Decoders(const Decoders&) = delete;
  Decoders& operator=(const Decoders&) = delete;

  static constexpr size_t kTargets = 3;  // f32, f16, bf16
  // The kernel, which lives as long as this. The context must be current. May throw.
  heddle_status_t* entry(const BlockCode& code, size_t target, const Entry** out);

 private:
  heddle_status_t* load(const BlockCode& code, Executable* out) const;

  Device* device_;
  std::mutex mutex_;
  std::map<const BlockCode*, Executable> loaded_;  // under mutex_
};

const heddle_blocks_interface_t* blocks_interface() noexcept;

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_BLOCKS_H_
