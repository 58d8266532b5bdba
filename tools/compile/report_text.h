// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiler's report as text: what was decided about each kernel, and how many alternatives there were. The JSON form is complete. Used by
// compile.cpp.
#pragma once

#include "tools/heddle/report_view.h"

namespace heddle::tool {

void print_report(const Json& report);

}  // namespace heddle::tool
