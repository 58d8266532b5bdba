// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the plans of a region to the kernels that a program has of it. Used by compiler/code, and by reports for their texts.
#pragma once

#include <functional>
#include <string>

#include "compiler/targets/strategy.h"

namespace heddle::targets {

// As in "s0 <= 12 and compute units >= 6"; empty: always.
std::string text_of(llvm::ArrayRef<Guard> guards);

// Whose choice it wants, of plans with the same guards; empty: the first.
using Pick = std::function<std::string(const std::string& guards)>;

// One plan of each case, in their order. Only the last one where all have the same choice and none was picked. A choice that no plan has is passed over.
Plans choose(const Plans& plans, const Pick& pick);

}  // namespace heddle::targets
