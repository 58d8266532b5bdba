// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See staging.h.
#include "heddle/sdk/portable/staging.h"

#include <cstdlib>
#include <new>

namespace heddle::sdk::portable {

namespace {

constexpr uint64_t kAlignment = 64;

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

}  // namespace

bool run_staged(const Program& program, const std::vector<uint64_t>& bytes, DeviceMemory& memory, const int64_t* symbols,
                size_t symbol_count, std::string* out_error, uint64_t* staged_bytes, const Limits& limits, Workers* workers,
                Program::Used* out_used) {
  std::vector<uint64_t> needed;
  if (!program.binding_bytes(symbols, symbol_count, &needed, out_error)) return false;
  auto fail = [&](std::string text) {
    *out_error = std::move(text);
    return false;
  };
  if (!takes_bindings(program.kernel(), bytes.size()))  // without a workspace on the device, which the host cannot address
    return fail("it takes " + taken_bindings(program.kernel()) + ", and was called with " + std::to_string(bytes.size()));
  Limits left = limits;
  std::vector<std::unique_ptr<char, Free>> copies;
  std::vector<Memory> bindings;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] > bytes[i])
      return fail("binding " + std::to_string(i) + " has " + std::to_string(bytes[i]) + " bytes, and its tensor " +
                  std::to_string(needed[i]));
    if (needed[i] > left.memory_bytes)
      return fail("a copy of binding " + std::to_string(i) + " in host memory has " + std::to_string(needed[i]) + " bytes, and " +
                  std::to_string(left.memory_bytes) + " may still be taken");
    left.memory_bytes -= needed[i];
    const uint64_t rounded = (needed[i] + kAlignment - 1) / kAlignment * kAlignment;
    copies.emplace_back(rounded ? static_cast<char*>(std::aligned_alloc(kAlignment, rounded)) : nullptr);
    if (rounded && !copies.back()) throw std::bad_alloc();
    bindings.push_back({copies.back().get(), needed[i]});
  }
  const size_t inputs = program.kernel().inputs;
  for (size_t i = 0; i < inputs; ++i) {
    if (needed[i] == 0) continue;
    if (!memory.read(i, bindings[i].data, needed[i], out_error)) return false;
    *staged_bytes += needed[i];
  }
  if (!program.run(bindings, symbols, symbol_count, out_error, left, workers, out_used)) return false;
  for (size_t i = inputs; i < needed.size(); ++i) {
    if (needed[i] == 0) continue;
    if (!memory.write(i, bindings[i].data, needed[i], out_error)) return false;
    *staged_bytes += needed[i];
  }
  return true;
}

}  // namespace heddle::sdk::portable
