// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the validation layer, a library of its own beside libheddle. Used by host.cpp when [validation] of the configuration asks for anything.
#ifndef HEDDLE_CORE_HOST_VALIDATION_H_
#define HEDDLE_CORE_HOST_VALIDATION_H_

#include "core/status.h"
#include "core/validation/layer.h"

namespace heddle::host {

// Stays mapped for the life of the process, as plugins do. UNAVAILABLE says where it was looked for; in strict mode it is trusted as a plugin is.
Result<const heddle_validation_t*> open_validation(bool strict);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_VALIDATION_H_
