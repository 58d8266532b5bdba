// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors: element type, extents and a block of device memory, with the pending work that fills it.
// Applications see them as heddle_tensor_t; created by core/submit; knows nothing of functions.
#ifndef HEDDLE_CORE_MEMORY_TENSOR_H_
#define HEDDLE_CORE_MEMORY_TENSOR_H_

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "core/memory/device.h"
#include "core/memory/ref.h"
#include "core/memory/upload.h"
#include "sdk/cpp/heddle/sdk/spin_lock.h"

namespace heddle::memory {

class Tensor final : public Counted {
 public:
  // Allocates memory with undefined contents. dims must be consistent with size_bytes.
  static Result<Ref<Tensor>> create(Device& device, heddle_element_type_t type, std::span<const int64_t> dims, uint64_t size_bytes);
  // Without memory at first: a result whose extents the call determines. adopt_memory sets both.
  static Ref<Tensor> create_empty(Device& device, heddle_element_type_t type, uint32_t rank);
  // Over memory of the application on the device, at `address` as in ext/native.h. release(context) is called exactly once, when the tensor is
  // destroyed or if this fails. is_consumable: calls may overwrite it as an argument.
  static Result<Ref<Tensor>> create_over(Device& device, heddle_element_type_t type, std::span<const int64_t> dims, uint64_t size_bytes,
                                         uint64_t address, void (*release)(void* context), void* context, bool is_consumable = false);
  ~Tensor() override;

  Device& device() const { return *device_; }
  heddle_element_type_t element_type() const { return type_; }
  uint32_t rank() const { return rank_; }
  const int64_t* dims() const { return dims_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const heddle_block_t& block() const { return block_; }
  // The device address, once the memory is known. UNIMPLEMENTED if the driver does not provide addresses. [any] [may-block]
  Result<uint64_t> address();
  // The address of the block now; 0 if the driver does not provide it. [any]
  Result<uint64_t> place() const;
  bool has_memory() const { return block_.buffer != nullptr; }
  // Over memory of the application. Only such a tensor can overlap another one.
  bool is_foreign() const { return is_foreign_; }
  // Calls that overwrite it as an argument need no copy, although nobody gives the tensor up.
  bool is_consumable() const { return is_consumable_; }
  // Whether both have bytes at the same addresses. False if the driver does not provide addresses. [any]
  [[gnu::cold]] bool overlaps(const Tensor& other) const;

  // The work that fills it: a value of a timeline. host_signalled: that value is not enqueued at a driver yet, so that only the host may wait for
  // it (HD-Q-01). Set by the call that owns the result; `call` is its address, valid until it has finished. [any]
  void set_producer(const Ref<Timeline>& timeline, uint64_t value, bool host_signalled, const void* call);
  // The producer has finished successfully.
  void set_ready() { producer_.store(nullptr, std::memory_order_release); }
  // That call has finished successfully. If another thread has already started a later call that fills the tensor, this does nothing. [any]
  void set_ready_by(const void* call) { producer_.compare_exchange_strong(call, nullptr, std::memory_order_acq_rel); }
  bool pending() const { return producer_.load(std::memory_order_acquire) != nullptr; }
  struct Producer {
    const void* call = nullptr;  // NULL: none, and the rest has no meaning
    Ref<Timeline> timeline;
    uint64_t value = 0;
    bool host_signalled = false;
  };
  // A copy: another thread may start a later call that fills the tensor. [any]
  Producer producer() const;
  // Waits for what this call filled fail from now on, unless another call has begun to fill it. [any]
  void set_failed_by(const void* call, const Ref<Timeline>& failed);
  // Allocates memory and sets the extents of a tensor created empty. [serial:tensor]
  Status allocate(std::span<const int64_t> dims, uint64_t size_bytes);

  // Donation. A tensor that was donated has no contents any more: it keeps its type and extents for those who still hold it.
  // A new tensor with the memory and the pending work of this one, which is donated from now on. `to`: who took it, for error
  // texts. [serial:tensor]
  Ref<Tensor> take(std::string to);
  // Undoes take, or forbid if `taken` is NULL: the call did not begin. Others may ask meanwhile whether it is donated.
  void give_back(Tensor* taken);
  // The same without a new tensor, for one that others use: its memory is freed with it.
  void forbid(std::string to) {
    donated_to_ = std::make_unique<std::string>(std::move(to));
    is_donated_.store(true, std::memory_order_release);
  }
  bool donated() const { return is_donated_.load(std::memory_order_acquire); }
  // FAILED_PRECONDITION if it is donated. action: "reading a tensor".
  Status check_held(std::string_view action) const;
  // Whether only its owner and the call that fills it refer to it. An upload does not.
  bool only_held_once() const {
    const void* const producer = producer_.load(std::memory_order_acquire);
    return references() == (producer && producer != upload_.get() ? 2u : 1u);
  }

  // It was created without memory: its extents are unknown while it is pending.
  bool made_late() const { return made_late_; }
  // Waits for the producer; every wait returns its failure. [any] [may-block]
  Status wait(uint64_t timeout_ns = HEDDLE_TIMEOUT_INFINITE);
  // Waits, then copies bytes out. [any] [may-block]
  Status read(void* bytes, uint64_t size_bytes);
  // Waits, then copies bytes in. A failed producer has finished too (HD-Q-06): its contents are replaced, and the tensor is usable
  // again. [serial:tensor] [may-block]
  Status write(const void* bytes, uint64_t size_bytes);

 private:
  friend class Upload;
  explicit Tensor(Device& device) : device_(&device) {}
  static void free(Device& device, heddle_block_t& block, bool is_foreign);
  // In the order in which calls access them: the first 64 bytes are all but the extents and the producer.
  heddle_element_type_t type_ = HEDDLE_TYPE_UNDEFINED;
  Ref<Device> device_;
  heddle_block_t block_{};
  uint32_t rank_ = 0;
  bool host_signalled_ = false;
  // In one byte; none of them changes while others use the tensor.
  bool made_late_ : 1 = false;
  bool is_foreign_ : 1 = false;  // its buffer does not belong to the pool
  bool is_consumable_ : 1 = false;
  std::atomic<bool> is_donated_{false};
  mutable sdk::SpinLock lock_;                  // for the members of the producer
  std::atomic<const void*> producer_{nullptr};  // NULL: finished; only compared
  Ref<Timeline> timeline_;
  uint64_t value_ = 0;
  uint64_t size_bytes_ = 0;
  std::unique_ptr<std::string> donated_to_;  // if it is donated: the call that took it
  Ref<Upload> upload_;                       // the last one into its memory, perhaps over
  int64_t dims_[HEDDLE_MAX_RANK];
};

// Copies the tensor's contents to another device through host memory. [any] [may-block]
Result<Ref<Tensor>> copy_to(Tensor& tensor, Device& device);
// Copies the contents to another tensor of the same size on the same device. Nothing else uses or fills either of them. [any] [may-block]
Status copy_contents(const Tensor& from, const Tensor& to);

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_TENSOR_H_
