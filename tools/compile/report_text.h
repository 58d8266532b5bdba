// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's report for people: what was decided about each kernel, and how much else there was. JSON has all of it. Used by compile.cpp.
#pragma once

#include "tools/heddle/report_view.h"

namespace heddle::tool {

void print_report(const Json& report);

}  // namespace heddle::tool
