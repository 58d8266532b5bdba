// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the validation layer, a separate library next to libheddle. Used by host.cpp if [validation] of the configuration enables anything.
#ifndef HEDDLE_CORE_HOST_VALIDATION_H_
#define HEDDLE_CORE_HOST_VALIDATION_H_

#include "core/status.h"
#include "core/validation/layer.h"

namespace heddle::host {

// Stays mapped for the life of the process, like plugins. UNAVAILABLE names the searched paths; in strict mode it is checked like a plugin.
Result<const heddle_validation_t*> open_validation(bool strict);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_VALIDATION_H_
