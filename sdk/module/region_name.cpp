// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sdk/module/region_name.h"

#include <fnmatch.h>

namespace heddle::module {

bool region_matches(const std::string& pattern, std::string_view region) {
  auto fits = [&](std::string_view part) { return fnmatch(pattern.c_str(), std::string(part).c_str(), 0) == 0; };
  const size_t space = region.find(' ');
  return fits(region) || (space != std::string_view::npos && (fits(region.substr(0, space)) || fits(region.substr(space + 1))));
}

}  // namespace heddle::module
