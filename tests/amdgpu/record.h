// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One dispatch, with the memory that its arguments point to before it and after it. For dispatch.cpp only.
#pragma once

#include "tests/amdgpu/interpreter.h"

namespace heddle::amdgpu {

class Record {
 public:
  // NULL unless HEDDLE_AMDGPU_RECORD names a folder, all workgroups run, every pointer among the arguments points into `memory`, to at most 8 MiB in all,
  // and no dispatch of this process had the same kernel and grid. Call it before the dispatch. `memory` has to last until end().
  static std::unique_ptr<Record> begin(const CodeObject& code, const Kernel& kernel, const Dispatch& dispatch, const Memory& memory);
  // Writes the file. Throws std::runtime_error if that fails.
  void end(const CodeObject& code, const Kernel& kernel, const Dispatch& dispatch, uint64_t instructions) const;

 private:
  Record() = default;
  struct Before {
    Memory::Block where;
    std::vector<std::byte> bytes;
  };
  std::string path_;
  std::vector<uint32_t> pointers_;  // offsets of arguments that are addresses
  std::vector<Before> blocks_;
};

}  // namespace heddle::amdgpu
