// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "llvm/ADT/StringRef.h"

namespace heddle::import {

// Why MLIR is not given this text, empty if it is: brackets that are nested so deep that its parser would leave the stack, bytes that are no UTF-8.
std::string refuse_text(llvm::StringRef text);

}  // namespace heddle::import
