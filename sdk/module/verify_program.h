// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the verifier that checks one host program. Private to this directory: verifier.cpp calls it for each program of a file whose
// slots, executables, parameters and globals have already been checked.
#pragma once

#include <heddle_module/module_generated.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "sdk/module/error.h"

namespace heddle::module {

// Counts the bytes of checked vectors and strings. A writer never shares a non-empty one, so the count for a regular file stays below the size of
// its metadata; a hostile file that shares them to multiply the work, or the copies made later, is refused.
class WorkBudget {
 public:
  explicit WorkBudget(uint64_t bytes) : left_(bytes) {}
  bool take(uint64_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  uint64_t left_;
};

// Whether a vector is present and its elements are aligned. FlatBuffers' own verifier checks only the alignment of a vector's length.
template <typename T>
bool usable(const flatbuffers::Vector<T>* vector) {
  constexpr size_t kAlignment = alignof(std::remove_cv_t<std::remove_pointer_t<T>>);
  return vector != nullptr && (vector->size() == 0 || reinterpret_cast<uintptr_t>(vector->Data()) % kAlignment == 0);
}
template <typename T>
bool usable(const flatbuffers::Vector<flatbuffers::Offset<T>>* vector) {
  return vector != nullptr;
}
template <typename... Vectors>
bool all_usable(const Vectors*... vectors) {
  return (usable(vectors) && ...);
}

// `function` is null for an initializer; `name` identifies the program in messages.
Status verify_program(const module_format::Module& module, const module_format::Function* function, const module_format::Program& program,
                      const std::string& name, WorkBudget& budget);

// Checks that a string is present, UTF-8 without NUL, and not longer than kMaxNameBytes; the error tells which string it is.
Status verify_name(const flatbuffers::String* text, bool may_be_empty, std::string_view what, WorkBudget& budget);

}  // namespace heddle::module
