// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes of the constants that are too large for the IR, by the name that tx.parameter ops use. Filled by importers, drained
// by emit; never copies what it can refer to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "compiler/ir/tx.h"

namespace heddle::tx {

// One parameter: its type and where its bytes come from. `read` fills [offset, offset + size) of the row-major, little-endian
// data and returns an error text, empty when all is well. Without `read` the bytes are not known at compile time.
struct ParameterSource {
  mlir::RankedTensorType type;
  std::function<std::string(uint64_t offset, uint64_t size, char* target)> read;
};

// Sources by name; ordered, so that everything made from it is deterministic.
using ParameterStore = std::map<std::string, ParameterSource, std::less<>>;

// Bytes of a static tensor type's data.
uint64_t byte_size(mlir::RankedTensorType type);

}  // namespace heddle::tx
