// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which way bytes go from one device of an instance to another: straight, or through host memory; and why.
// Found when an instance is made, by what the drivers tell and [[link]] of the configuration asks for; read by Run and by the route report.
#ifndef HEDDLE_CORE_SUBMIT_LINKS_H_
#define HEDDLE_CORE_SUBMIT_LINKS_H_

#include <span>
#include <string>
#include <vector>

#include "core/memory/device.h"

namespace heddle::submit {

struct Link {
  uint32_t from = 0, to = 0;  // among the instance's devices
  bool direct = false;
  bool required = false;  // p2p = "require": it is never staged
  std::string reason;
};

// One for each ordered pair: of n devices, the link from a to b stands at link_index(n, a, b). UNAVAILABLE where p2p = "require" cannot be kept.
// [may-block]
Result<std::vector<Link>> find_links(std::span<const memory::Ref<memory::Device>> devices, const host::Config& config);
inline size_t link_index(size_t devices, uint32_t from, uint32_t to) {
  return from * (devices - 1) + to - (to > from ? 1 : 0);
}

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_LINKS_H_
