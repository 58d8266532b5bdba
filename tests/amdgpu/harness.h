// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a kernel of the tests' code objects on vectors of the host.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/amdgpu/covered.h"
#include "tests/amdgpu/interpreter.h"

namespace heddle::amdgpu {

inline std::vector<std::byte> read_code_object(const std::string& name) {
  const char* folder = std::getenv("HEDDLE_AMDGPU_KERNELS");
  if (folder == nullptr) throw std::runtime_error("set HEDDLE_AMDGPU_KERNELS to the folder of the compiled kernels");
  const std::string path = std::string(folder) + "/" + name;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("opening '" + path + "' failed");
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

struct Call {
  CodeObject& code;
  std::string name;
  Grid grid, block;
  Memory memory{};
  std::vector<std::byte> kernarg{};
  size_t next = 0;

  template <class T>
  Call& value(T v) {
    const Kernel* k = code.kernel(name);
    kernarg.resize(k->kernarg_bytes);
    const Argument& a = k->arguments.at(next++);
    if (a.size != sizeof(T)) throw std::runtime_error("argument " + a.name + " has " + std::to_string(a.size) + " bytes");
    std::memcpy(kernarg.data() + a.offset, &v, sizeof(T));
    return *this;
  }
  template <class T>
  Call& array(std::vector<T>& data, bool writable = true) {
    memory.map(data.data(), data.size() * sizeof(T), writable, "argument " + std::to_string(next));
    return value(reinterpret_cast<uint64_t>(data.data()));
  }
  Outcome run(uint64_t seed = 0, Options options = {}) {
    const Kernel* k = code.kernel(name);
    const Dispatch dispatch{grid, block, kernarg, 0};
    fill_hidden_arguments(*k, dispatch, kernarg);
    options.seed = seed;
    Outcome outcome = amdgpu::run(code, *k, dispatch, memory, options);
    if (outcome.ok()) {
      for (const auto& [mnemonic, count] : outcome.statistics.by_opcode) covered_instructions().insert(mnemonic);
    }
    return outcome;
  }
};

}  // namespace heddle::amdgpu
