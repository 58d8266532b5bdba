// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of regions: "main.3.softmax probabilities" is what it is, and, behind the first space, the node that it was made from. Used by the core and by
// the validation layer, so that one pattern means the same regions in both.
#pragma once

#include <string>
#include <string_view>

namespace heddle::module {

// Whether a pattern (*, ?, []) is of the whole name, of its first word, or of the node behind it.
bool region_matches(const std::string& pattern, std::string_view region);

}  // namespace heddle::module
