// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle explain --html`: a page that needs no other file and runs no script.
#pragma once

#include <string>

#include "tools/heddle/document.h"

namespace heddle::tool {

// whole: the output of --format json; its regions are drawn in order above the document. Names come from untrusted files, so all text is escaped.
std::string explain_page(const Json& whole, const Document& document);

}  // namespace heddle::tool
