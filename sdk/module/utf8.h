// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether bytes are text: well-formed UTF-8 without NUL. Used by the verifier for every string of a file.
#pragma once

#include <string_view>

namespace heddle::module {

// Follows table 3-7 of the Unicode standard: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8_text(std::string_view bytes);

}  // namespace heddle::module
