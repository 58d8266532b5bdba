// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes pages with heddle-page, a program of its own, so that the runtime stays small. Used by explain and profile.
#pragma once

#include <optional>
#include <string>

#include "tools/heddle/flags.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {

// --html FILE
void add_html_flag(Flags& flags, std::string& target, const std::string& help);
// Before the work: an exit code, after reporting the reason, if a page is wanted (`html` is not empty) and cannot be made.
std::optional<int> find_page_program(const Flags& flags, const std::string& html);
// Starts heddle-page in place of this process; returns an exit code only after reporting a failure.
int write_page(const Flags& flags, const Json& whole, const std::string& function, const std::string& html);

}  // namespace heddle::tool
