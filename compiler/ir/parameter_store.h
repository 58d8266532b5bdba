// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bytes of constants that are too large for the IR, by the name that tx.parameter ops use. Importers fill it, emit reads it. It never
// copies data that it can refer to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "compiler/ir/tx.h"

namespace heddle::tx {

// One parameter: its type and the source of its bytes. `read` fills [offset, offset + size) of the row-major, little-endian data and
// returns an error text, which is empty on success. Without `read`, the bytes are not known at compile time.
struct ParameterSource {
  mlir::RankedTensorType type;
  std::function<std::string(uint64_t offset, uint64_t size, char* target)> read;
};

// Sources by name; ordered, so that everything made from them is deterministic.
using ParameterStore = std::map<std::string, ParameterSource, std::less<>>;

// Size of a static tensor type's data in bytes.
uint64_t byte_size(mlir::RankedTensorType type);
// Element type code of types.h for an MLIR type; 0 if there is none.
uint32_t element_type_code(mlir::Type type);

}  // namespace heddle::tx
