// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors: element type, extents and a block of a device's memory, with the work that still has to fill it.
// Handed to applications as heddle_tensor_t; made by core/submit; knows nothing of functions.
#ifndef HEDDLE_CORE_MEMORY_TENSOR_H_
#define HEDDLE_CORE_MEMORY_TENSOR_H_

#include <atomic>
#include <span>

#include "core/memory/device.h"
#include "core/memory/ref.h"

namespace heddle::memory {

class Tensor final : public Counted {
 public:
  // With memory of its own, contents undefined. dims must be consistent with size_bytes.
  static Result<Ref<Tensor>> create(Device& device, heddle_element_type_t type, std::span<const int64_t> dims, uint64_t size_bytes);
  // Without memory yet: a result whose extents a call finds out. It gets both from adopt_memory.
  static Ref<Tensor> create_empty(Device& device, heddle_element_type_t type, uint32_t rank);
  // Over memory of the application's on the device, at `address` as ext/native.h says. release(context) is called exactly once, when the
  // tensor goes or if this fails.
  static Result<Ref<Tensor>> create_over(Device& device, heddle_element_type_t type, std::span<const int64_t> dims, uint64_t size_bytes,
                                         uint64_t address, void (*release)(void* context), void* context);
  ~Tensor() override;

  Device& device() const { return *device_; }
  heddle_element_type_t element_type() const { return type_; }
  uint32_t rank() const { return rank_; }
  const int64_t* dims() const { return dims_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const heddle_block_t& block() const { return block_; }
  // Where the device sees it, once its memory is known. UNIMPLEMENTED where the driver does not tell. [any] [may-block]
  Result<uint64_t> address();
  bool has_memory() const { return block_.buffer != nullptr; }

  // The work that fills it: a value of a timeline. host_signalled: that value is not enqueued at a driver yet, so that only the host
  // may wait for it (HD-Q-01). [serial:tensor], by the call that owns the result; `call` is its address, there until it is over.
  void set_producer(const Ref<Timeline>& timeline, uint64_t value, bool host_signalled, const void* call);
  // The producer is done and went well.
  void set_ready() { producer_.store(nullptr, std::memory_order_release); }
  // That call is done and went well. A later one may fill the tensor by now, as another thread starts it: then nothing is said of that. [any]
  void set_ready_by(const void* call) { producer_.compare_exchange_strong(call, nullptr, std::memory_order_acq_rel); }
  bool pending() const { return producer_.load(std::memory_order_acquire) != nullptr; }
  bool host_signalled() const { return host_signalled_; }
  // Its timeline and value, while pending().
  const Ref<Timeline>& producer() const { return timeline_; }
  uint64_t producer_value() const { return value_; }
  // Gives its memory and extents to a tensor made empty. [serial:tensor]
  Status allocate(std::span<const int64_t> dims, uint64_t size_bytes);

  // It was made without memory: its extents are not known while it is pending.
  bool made_late() const { return made_late_; }
  // Waits for the producer; its failure comes back every time. [any] [may-block]
  Status wait(uint64_t timeout_ns = HEDDLE_TIMEOUT_INFINITE);
  // wait, then bytes out. [any] [may-block]
  Status read(void* bytes, uint64_t size_bytes);
  // wait, then bytes in. A producer that failed is over too (HD-Q-06): what it left is replaced, and the tensor is usable
  // again. [serial:tensor] [may-block]
  Status write(const void* bytes, uint64_t size_bytes);

 private:
  explicit Tensor(Device& device) : device_(&device) {}

  // In the order in which calls look at it: the first 64 bytes are all but the extents and the producer.
  heddle_element_type_t type_ = HEDDLE_TYPE_UNDEFINED;
  Ref<Device> device_;
  heddle_block_t block_{};
  uint32_t rank_ = 0;
  bool host_signalled_ = false;
  bool made_late_ = false;                      // never changes once others see it
  bool is_foreign_ = false;                     // its buffer is not the pool's
  std::atomic<const void*> producer_{nullptr};  // NULL: it is over; only compared
  Ref<Timeline> timeline_;
  uint64_t value_ = 0;
  uint64_t size_bytes_ = 0;
  int64_t dims_[HEDDLE_MAX_RANK];
};

// The tensor's contents on another device, copied through host memory. [any] [may-block]
Result<Ref<Tensor>> copy_to(Tensor& tensor, Device& device);

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_TENSOR_H_
