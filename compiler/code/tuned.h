// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file of choices, as written by `heddle tune`: which of a strategy's plans was the fastest on a device, per kernel. JSON: {"device", "choices":
// [{"family", "kernel", "when", "choice"}]}, with other fields for human readers; kernel: name_of_kernel, when: the plan's guards, choice:
// its text; device: a description of the device that was measured. A compile has no device to compare it with, and only repeats it.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "compiler/targets/candidates.h"

namespace heddle::compiler {

// The same for equal kernels in all models and processes: made from the region's text without names.
std::string name_of_kernel(const std::string& text);

class Tuned {
 public:
  // An error text, or nothing.
  std::string read(const std::string& path);
  // The same, given the file's text. Of several choices for one kernel and the same guards, the last one counts.
  std::string parse(const std::string& path, llvm::StringRef text);

  // The text of a choice, or nothing.
  std::string find(const std::string& family, const std::string& kernel, const std::string& when) const;
  // Records that a kernel has the plan of its choice.
  void note_taken(const std::string& family, const std::string& kernel, const std::string& when);

  // The number of choices in the file, and how many of these were taken.
  size_t all() const { return choices_.size(); }
  size_t taken() const { return taken_; }
  // Empty if the file does not say.
  const std::string& device() const { return device_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Entry {
    std::string choice;
    bool is_taken = false;
  };
  std::map<Key, Entry> choices_;
  std::string device_;
  size_t taken_ = 0;
};

}  // namespace heddle::compiler
