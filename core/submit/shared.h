// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Things that instances of a runtime need alike and use together, such as code on a device or values computed from weights. The first who needs one
// makes it, and the last one who uses it frees it. Owned by Runtime.
#ifndef HEDDLE_CORE_SUBMIT_SHARED_H_
#define HEDDLE_CORE_SUBMIT_SHARED_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace heddle::submit {

class SharedTable;

class Shareable {
 public:
  virtual ~Shareable() = default;
  // What it depends on. `bytes` are borrowed from something that it keeps.
  std::string key;
  std::span<const std::byte> bytes;
  // Held by the one who makes it; others wait. The rest is constant once is_made is true.
  std::mutex making;
  bool is_made = false;

 private:
  friend class SharedTable;
  friend struct Unshare;
  SharedTable* table_ = nullptr;
  Shareable* next_ = nullptr;
  size_t users_ = 1;
};
struct Unshare {
  void operator()(Shareable* object) const;
};
template <typename T>
using Shared = std::unique_ptr<T, Unshare>;

class SharedTable {
 public:
  // The object with the same key and bytes; if there is none, the given one is added. [any]
  template <typename T>
  Shared<T> find_or_add(std::unique_ptr<T> fresh) {
    return Shared<T>(static_cast<T*>(find(std::move(fresh))));
  }
  // Whether it is made already, in statistics too. `making` is held.
  bool is_made(const Shareable& object) {
    (object.is_made ? shared_ : made_).fetch_add(1, std::memory_order_relaxed);
    return object.is_made;
  }
  // How often something had to be made, and how often it was there.
  uint64_t made() const { return made_.load(std::memory_order_relaxed); }
  uint64_t shared() const { return shared_.load(std::memory_order_relaxed); }

 private:
  friend struct Unshare;
  Shareable* find(std::unique_ptr<Shareable> fresh);
  std::mutex mutex_;
  Shareable* first_ = nullptr;
  std::atomic<uint64_t> made_{0}, shared_{0};
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_SHARED_H_
