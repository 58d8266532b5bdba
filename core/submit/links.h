// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How bytes are copied from one device of an instance to another: directly or through host memory; and why.
// Determined when an instance is created, from the drivers' answers and [[link]] of the configuration; used by Run and by the route report.
#ifndef HEDDLE_CORE_SUBMIT_LINKS_H_
#define HEDDLE_CORE_SUBMIT_LINKS_H_

#include <span>
#include <string>
#include <vector>

#include "core/memory/device.h"

namespace heddle::submit {

struct Link {
  uint32_t from = 0, to = 0;  // indices among the instance's devices
  bool direct = false;
  bool required = false;  // p2p = "require": it is never staged
  std::string reason;
};

// One per ordered pair: for n devices, the link from a to b is at link_index(n, a, b). UNAVAILABLE if p2p = "require" cannot be satisfied.
// [may-block]
Result<std::vector<Link>> find_links(std::span<const memory::Ref<memory::Device>> devices, const host::Config& config);
inline size_t link_index(size_t devices, uint32_t from, uint32_t to) {
  return from * (devices - 1) + to - (to > from ? 1 : 0);
}

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_LINKS_H_
