// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which cores the devices of this machine's processes have pinned threads to, whoever their user is, so that no two of them pin to the same. A claim
// lasts as long as the object, or the process.
#ifndef HEDDLE_CPU_CORE_CLAIMS_H_
#define HEDDLE_CPU_CORE_CLAIMS_H_

#include <cstdint>
#include <vector>

namespace heddle::cpu {

class CoreClaims {
 public:
  CoreClaims() noexcept = default;
  ~CoreClaims();
  CoreClaims(CoreClaims&&) noexcept = default;
  CoreClaims& operator=(CoreClaims&&) = delete;

  // Claims `count` of the processors, the first ones that nobody has; all or none. Returns those claimed. None where claims cannot be made, as
  // without sockets or file descriptors.
  std::vector<uint32_t> take(const std::vector<uint32_t>& cpus, uint32_t count);

 private:
  std::vector<int> sockets_;  // each with a core's name
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_CORE_CLAIMS_H_
