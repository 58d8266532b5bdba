// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file of choices, as `heddle tune` writes it: for kernels, which of a strategy's plans were the fastest on a device. JSON: {"device", "choices":
// [{"family", "kernel", "when", "choice"}]}, with other fields for people; kernel: name_of_kernel, when: the plan's guards, choice: its text; device: where
// they were measured, in words. A compile knows no device to compare it with, and repeats it.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "compiler/targets/candidates.h"

namespace heddle::compiler {

// Of kernels that are alike, in all models and processes: the region's text, without names.
std::string name_of_kernel(const std::string& text);

class Tuned {
 public:
  // What is wrong with the file, or nothing.
  std::string read(const std::string& path);
  // The same with its text. Of choices for one kernel and the same guards the last one counts.
  std::string parse(const std::string& path, llvm::StringRef text);

  // The text of a choice, or nothing.
  std::string find(const std::string& family, const std::string& kernel, const std::string& when) const;
  // A kernel has what its choice says.
  void note_taken(const std::string& family, const std::string& kernel, const std::string& when);

  // How many choices the file has, and how many of these were taken.
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
