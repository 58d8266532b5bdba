// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs portable code over memory that the host cannot address: the inputs are copied to host memory, the outputs back. Each call pays for its copies,
// weights among them; so this is for the first day, and for kernels that are small or rare.
#ifndef HEDDLE_SDK_PORTABLE_STAGING_H_
#define HEDDLE_SDK_PORTABLE_STAGING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/sdk/portable/interpreter.h"

namespace heddle::sdk::portable {

// The device's memory behind the bindings of one call. Both functions copy now, in the thread that calls run_staged(); false: *out_error says why.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual bool read(size_t binding, char* to, uint64_t bytes, std::string* out_error) = 0;
  virtual bool write(size_t binding, const char* from, uint64_t bytes, std::string* out_error) = 0;
};

// Like program.run(). `bytes` are those of each binding; of these, what a binding's tensor has is copied. Host memory for the copies counts for
// limits.memory_bytes. Adds to *staged_bytes what was copied in both directions, also if it fails.
bool run_staged(const Program& program, const std::vector<uint64_t>& bytes, DeviceMemory& memory, const int64_t* symbols,
                size_t symbol_count, std::string* out_error, uint64_t* staged_bytes, const Limits& limits = {}, Workers* workers = nullptr,
                Program::Used* out_used = nullptr);

}  // namespace heddle::sdk::portable
#endif  // HEDDLE_SDK_PORTABLE_STAGING_H_
