// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the plans of a region to the kernels that a program has for it. Used by compiler/code, and by reports for the texts.
#pragma once

#include <functional>
#include <string>

#include "compiler/targets/strategy.h"

namespace heddle::targets {

// For example "s0 <= 12 and compute units >= 6"; empty: always.
std::string text_of(llvm::ArrayRef<Guard> guards);

// The text of the choice to prefer among plans with the same guards; empty: the first.
using Pick = std::function<std::string(const std::string& guards)>;

// One plan per case, in order. Only the last one, if all have the same choice and none was picked. A choice that no plan has is ignored.
Plans choose(const Plans& plans, const Pick& pick);

}  // namespace heddle::targets
