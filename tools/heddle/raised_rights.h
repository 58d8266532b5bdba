// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether this program runs with other rights than its caller's, as a set-user-ID program does. What the caller names is then not taken.
#pragma once

#include <sys/auxv.h>

namespace heddle::tool {

inline bool has_raised_rights() {
  return getauxval(AT_SECURE) != 0;
}

}  // namespace heddle::tool
