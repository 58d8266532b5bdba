// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an instance's commands took on their devices, summed up by region. Frames add to it, the report "profile" reads it.
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
  // module: of the commands, for names; kept. trace: where each command goes too; NULL: nowhere.
  Profile(const module_format::Module& module, host::Trace* trace) : module_(module), trace_(trace) {}
  // site: of a dispatch, else NULL. candidate: which of its kernels ran, kNoCandidate where an operation did. begin_ns: of CLOCK_MONOTONIC, as well
  // as it is known.
  static constexpr uint32_t kNoCandidate = 0xFFFFFFFFu;
  void add(const char* kind, const module_format::DispatchSite* site, uint32_t candidate, const std::string& device, uint64_t begin_ns,
           uint64_t duration_ns);
  // A copy between devices, from when it is asked for to when it is handed to `to`. For the trace alone.
  void add_crossing(const std::string& from, const std::string& to, uint64_t begin_ns, uint64_t duration_ns);
  // What the device's pool holds now. For the trace alone.
  void add_memory(memory::Device& device);
  // {"regions": [{"region", "kind", "device", "count", "total_ns", "min_ns", "max_ns"}]}, the longest in all first; dispatches of kernels have "executable",
  // "kernel" and "candidate", too.
  std::string json() const;

 private:
  struct Row {
    uint64_t count = 0, total_ns = 0, min_ns = UINT64_MAX, max_ns = 0;
  };
  struct Key {
    std::string region, kind, device, executable, kernel;  // the last two: empty where no kernel ran
    uint32_t candidate;
    auto operator<=>(const Key&) const = default;
  };
  const module_format::Module& module_;
  host::Trace* const trace_;
  mutable std::mutex mutex_;
  std::map<Key, Row> rows_;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PROFILE_H_
