// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The known name that was probably meant by an unknown one: for keys of files, options and commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::module {

// The candidate with the smallest edit distance to `name`; empty if none is close enough to be a typing mistake.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace heddle::module
