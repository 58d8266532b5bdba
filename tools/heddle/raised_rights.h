// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether this program runs with other privileges than its caller's, as a set-user-ID program does. Files that the caller names are then refused.
#pragma once

#include <sys/auxv.h>

namespace heddle::tool {

inline bool has_raised_rights() {
  return getauxval(AT_SECURE) != 0;
}

}  // namespace heddle::tool
