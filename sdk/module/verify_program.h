// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the verifier that checks one host program. Private to this room: verifier.cpp calls it for each program of a file whose
// slots, executables, parameters and globals have passed already.
#pragma once

#include <heddle_module/module_generated.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "sdk/module/error.h"

namespace heddle::module {

// Counts the bytes of vectors and strings that were looked at. A writer never shares one that is not empty, so an honest file has fewer
// than its metadata has; a hostile one that shares them to multiply the work, or the copies made later, is stopped.
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

// Whether a vector is present and its elements are aligned. FlatBuffers' own verifier looks at the alignment of a vector's length only.
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

// `function` is null for an initializer; `name` says which program it is, for messages.
Status verify_program(const module_format::Module& module, const module_format::Function* function, const module_format::Program& program,
                      const std::string& name, WorkBudget& budget);

// Whether a string is present, UTF-8 without NUL, and not longer than kMaxNameBytes; the error says which one it is.
Status verify_name(const flatbuffers::String* text, bool may_be_empty, std::string_view what, WorkBudget& budget);

}  // namespace heddle::module
