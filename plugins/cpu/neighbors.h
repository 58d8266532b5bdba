// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other devices of this machine's processes, of any user, that compute on the same processors now. Two devices that each run a thread on every
// core take turns at the system's pace: a job whose worker has lost its core waits for a whole slice. With half of the cores each, none waits.
#ifndef HEDDLE_CPU_NEIGHBORS_H_
#define HEDDLE_CPU_NEIGHBORS_H_

#include <cstdint>
#include <vector>

namespace heddle::cpu {

// Not thread-safe.
class Neighbors {
 public:
  // cpus: the processors of the device, in ascending order. Devices are neighbors if they have as many, from the same first to the same last one.
  explicit Neighbors(const std::vector<uint32_t>& cpus) noexcept;
  ~Neighbors();
  Neighbors(const Neighbors&) = delete;
  Neighbors& operator=(const Neighbors&) = delete;

  // Tells the neighbors that this device computes, until leave(). Has no effect if it has entered already, or if no socket can be created.
  void enter() noexcept;
  void leave() noexcept;
  bool has_entered() const noexcept { return listener_ >= 0; }
  // How many neighbors compute, at most kMost.
  uint32_t count() noexcept;

  static constexpr uint32_t kMost = 7;

 private:
  const uint32_t first_, last_, size_;
  int listener_ = -1;
  uint32_t own_ = 0;  // number of the listener's name
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_NEIGHBORS_H_
