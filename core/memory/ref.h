// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Intrusive reference counts for objects that many calls share: devices, timelines, tensors, plans. Used by core/memory and core/submit.
// shared_ptr is not used because these objects cross the C ABI as plain pointers, and one count is one word.
#ifndef HEDDLE_CORE_MEMORY_REF_H_
#define HEDDLE_CORE_MEMORY_REF_H_

#include <atomic>
#include <cstdint>
#include <utility>

namespace heddle::memory {

// Starts with one reference, which belongs to the creator. The last release deletes the object.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  // How many there are now.
  uint32_t references() const { return references_.load(std::memory_order_acquire); }
  // Whether there is no other reference now.
  bool sole() const { return references() == 1; }
  void release() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Counted() = default;

 private:
  mutable std::atomic<uint32_t> references_{1};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  // Adds a reference.
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  // Takes over a reference that the caller owns.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* detach() { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

}  // namespace heddle::memory

#endif  // HEDDLE_CORE_MEMORY_REF_H_
