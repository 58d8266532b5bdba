// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The times of an instance's commands on their devices, summed up per region. Frames add to it, the report "profile" reads it.
#ifndef HEDDLE_CORE_SUBMIT_PROFILE_H_
#define HEDDLE_CORE_SUBMIT_PROFILE_H_

#include <heddle_module/module_generated.h>

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace heddle::host {
class Trace;
}
namespace heddle::memory {
class Device;
}

namespace heddle::submit {

class Profile {
 public:
  // module: source of names for the commands; kept by reference. trace: also receives each command; NULL: no trace.
  Profile(const module_format::Module& module, host::Trace* trace) : module_(module), trace_(trace) {}
  // site: of a dispatch, else NULL. candidate: index of the kernel that ran, kNoCandidate if an operation ran. bytes: copied or filled, 0 for a
  // dispatch. begin_ns: approximate start, of CLOCK_MONOTONIC.
  static constexpr uint32_t kNoCandidate = 0xFFFFFFFFu;
  void add(const char* kind, const module_format::DispatchSite* site, uint32_t candidate, const std::string& device, uint64_t bytes,
           uint64_t begin_ns, uint64_t duration_ns);
  // A copy between devices, from when both are ready for it until the data is handed to `to`.
  void add_crossing(const std::string& from, const std::string& to, uint64_t bytes, uint64_t begin_ns, uint64_t duration_ns);
  // The current use of the device's pool. For the trace only.
  void add_memory(memory::Device& device);
  // {"regions": [{"region", "kind", "device", "count", "total_ns", "min_ns", "max_ns"}]}, the longest total first; dispatches of kernels also have
  // "executable", "kernel" and "candidate", copies and fills "total_bytes". For a copy between devices, "device" is "a to b".
  std::string json() const;

 private:
  struct Row {
    uint64_t count = 0, total_ns = 0, min_ns = UINT64_MAX, max_ns = 0, total_bytes = 0;
  };
  struct Key {
    std::string region, kind, device, executable, kernel;  // the last two: empty if no kernel ran
    uint32_t candidate;
    auto operator<=>(const Key&) const = default;
  };
  void add(Key key, uint64_t bytes, uint64_t duration_ns);

  const module_format::Module& module_;
  host::Trace* const trace_;
  mutable std::mutex mutex_;
  std::map<Key, Row> rows_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PROFILE_H_
