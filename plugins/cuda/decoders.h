// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device's loaded kernels of heddle.blocks/1. Each type of blocks has a module of its own, which is loaded when it is needed first, since compiling
// one takes CUDA some milliseconds.
#ifndef HEDDLE_CUDA_DECODERS_H_
#define HEDDLE_CUDA_DECODERS_H_

#include <map>
#include <mutex>

#include "cuda/backend.h"

namespace heddle::cuda {

// A type of blocks; the table is made at build time.
struct BlockCode {
  std::string_view name;
  uint32_t elements, bytes;  // of a block
  const char* ptx;
};

class Decoders {
 public:
  explicit Decoders(Backend* backend) : backend_(backend) {}
  // The context must be current.
  ~Decoders();
  Decoders(const Decoders&) = delete;
  Decoders& operator=(const Decoders&) = delete;

  static constexpr size_t kTargets = 3;  // f32, f16, bf16
  // The kernel, which lives as long as this. The context must be current.
  heddle_status_t* entry(stream::Device* device, const BlockCode& code, size_t target, const stream::Entry** out);

 private:
  struct Loaded {
    CUmodule module = nullptr;
    stream::Entry entries[kTargets];
  };
  heddle_status_t* load(stream::Device* device, const BlockCode& code, Loaded* out);

  Backend* backend_;
  std::mutex mutex_;
  std::map<const BlockCode*, Loaded> loaded_;  // under mutex_
};

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_DECODERS_H_
