// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of a checkpoint as sources for the writers. Used by extract and convert.
#pragma once

#include <cstdint>

#include "sdk/module/parameter_source.h"
#include "tools/params/actions.h"

namespace heddle::tool {

// A tensor's unchanged bytes. All arguments must outlive the reading of the source; if a file is modified meanwhile, reading fails at the end of
// the tensor.
module::ParameterSource stored_bytes(const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress);
// The values of type tensor.shape.element_type: the same bytes unless they are stored in blocks.
module::ParameterSource values_of(const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress);
// Its values converted to another float type: f32, f16 or bf16. `overflowed` counts numbers that became infinite.
module::ParameterSource cast_values(const Checkpoint& checkpoint, const StoredTensor& tensor, heddle_element_type_t type,
                                    Progress& progress, uint64_t& overflowed);

}  // namespace heddle::tool
