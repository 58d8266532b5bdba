// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of regions: in "main.3.softmax probabilities", the first word identifies the region, and after the first space comes the node that it was
// made from. Used by the core and by the validation layer, so that a pattern matches the same regions in both.
#pragma once

#include <string>
#include <string_view>

namespace heddle::module {

// Whether a pattern (*, ?, []) matches the whole name, its first word, or the node after it.
bool region_matches(const std::string& pattern, std::string_view region);

}  // namespace heddle::module
