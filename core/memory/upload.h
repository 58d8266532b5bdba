// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A copy from host memory into a tensor that nobody waits for (heddle_tensor_upload).
// Created through tensor.h's users; it does not keep its tensor alive: a tensor that is destroyed meanwhile leaves it its memory.
#ifndef HEDDLE_CORE_MEMORY_UPLOAD_H_
#define HEDDLE_CORE_MEMORY_UPLOAD_H_

#include "core/host/executor.h"
#include "core/memory/device.h"
#include "core/memory/ref.h"
#include "sdk/cpp/heddle/sdk/spin_lock.h"

namespace heddle::memory {

class Tensor;

class Upload final : public Counted {
 public:
  // release(context) is called exactly once, when the bytes are no longer used.
  struct Source {
    const void* bytes;
    uint64_t size_bytes;
    void (*release)(void* context);
    void* context;
  };
  // Starts a copy, which is then the tensor's producer. Waits for it only if the driver cannot do otherwise. On failure nothing is copied and
  // the source is released. [serial:tensor]
  static Status start(Tensor& tensor, const Source& source);

  // The memory now belongs to this tensor; NULL: a later upload looks after it. [serial:tensor]
  void belong_to(Tensor* tensor);
  // Takes the memory of its tensor, which is being destroyed, and frees it at the end. False: the copy is over, and nothing is taken.
  bool keep(const heddle_block_t& block, bool is_foreign);

 private:
  explicit Upload(const Source& source) : source_(source) {}
  // A driver's callback, in which the application must not be called (HD-Q-04).
  static void reached(void* upload, const heddle_status_t* failure);
  static void run(void* upload);
  void finish();

  Source source_;
  Ref<Timeline> timeline_;  // keeps the device and the host alive, too
  Ref<Timeline> before_;    // of the work that it waits for
  host::Executor::Job job_;
  bool failed_ = false;
  sdk::SpinLock lock_;  // for the rest
  bool over_ = false;
  bool keeps_ = false, keeps_foreign_ = false;
  heddle_block_t kept_{};
  Tensor* tensor_ = nullptr;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_UPLOAD_H_
