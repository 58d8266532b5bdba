// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of loaded kernels for debuggers and profilers (HD-C-02). Used by code.cpp around the life of an image; reads images only.
#ifndef HEDDLE_CPU_DEBUG_SYMBOLS_H_
#define HEDDLE_CPU_DEBUG_SYMBOLS_H_

#include <memory>
#include <string_view>

#include "cpu/image.h"

namespace heddle::cpu {

// Registers an object file in memory, which has only the image's functions, with gdb's JIT interface. Registered on construction,
// unregistered on destruction; both [any].
class DebuggerSymbols {
 public:
  DebuggerSymbols() noexcept;
  ~DebuggerSymbols();
  DebuggerSymbols(DebuggerSymbols&&) noexcept;
  DebuggerSymbols& operator=(DebuggerSymbols&&) noexcept;

  explicit DebuggerSymbols(const Image& image);

 private:
  struct Registration;
  std::unique_ptr<Registration> registration_;
};

// Adds the image's functions to /tmp/perf-<pid>.map, where `perf report` looks up code without a file. False if the file cannot be written.
// Entries remain when the image is unloaded: perf cannot remove them. [any]
bool add_to_perf_map(const Image& image, std::string_view executable);

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_DEBUG_SYMBOLS_H_
