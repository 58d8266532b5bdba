// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of a checkpoint as what the writers take. Used by extract and convert.
#pragma once

#include <cstdint>

#include "sdk/module/parameter_source.h"
#include "tools/params/actions.h"

namespace heddle::tool {

// A tensor's bytes as they are. Everything that is named lives until the source was read; a file that was written to meanwhile is an error
// at the tensor's end.
module::ParameterSource stored_bytes(const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress);
// Its values as another type of floats: f32, f16 or bf16. `overflowed` counts numbers that became infinite.
module::ParameterSource cast_values(const Checkpoint& checkpoint, const StoredTensor& tensor, heddle_element_type_t type,
                                    Progress& progress, uint64_t& overflowed);

}  // namespace heddle::tool
