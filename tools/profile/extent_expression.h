// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers that the compiler's report states with symbols, such as "batch * 2048" or "(n + 1) floordiv 2", for the extents of a call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace heddle::tool {

// None if the text has a name that is not a symbol of the map, if it is no such expression, or if the number does not fit into 63 bits.
std::optional<int64_t> evaluate_extent(const std::string& text, const std::map<std::string, int64_t>& symbols);

}  // namespace heddle::tool
