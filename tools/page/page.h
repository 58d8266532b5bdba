// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A page about a module that needs no other file and runs no script.
#pragma once

#include <string>

#include "tools/heddle/report_view.h"

namespace heddle::tool {

// whole: the output of `heddle explain --format json`, with "profile" of `heddle profile --format json` if there is one. Describes `function` alone
// if it is not empty.
std::string page_of(const Json& whole, const std::string& function);

}  // namespace heddle::tool
