// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Owns a file descriptor. Used wherever the host opens a file, a directory or a pipe; knows nothing of its content.
#ifndef HEDDLE_CORE_HOST_DESCRIPTOR_H_
#define HEDDLE_CORE_HOST_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace heddle::host {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_DESCRIPTOR_H_
