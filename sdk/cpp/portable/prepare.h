// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fills in what follows from a kernel alone. Called once, when it is loaded.
#pragma once

#include "evaluator.h"

namespace heddle::sdk::portable {

// `prepared` has a verified kernel, and nothing else yet.
void prepare(Prepared& prepared);

}  // namespace heddle::sdk::portable
