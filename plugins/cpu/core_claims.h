// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cores to which devices of this machine's processes, of any user, have pinned threads, so that no two of them pin to the same core. A claim
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

  // Claims `count` of the processors, the first free ones; all or none. Returns the claimed ones. None if claims cannot be made, for example
  // without sockets or file descriptors.
  std::vector<uint32_t> take(const std::vector<uint32_t>& cpus, uint32_t count);

 private:
  std::vector<int> sockets_;  // one per claimed core
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_CORE_CLAIMS_H_
