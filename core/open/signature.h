// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A function's arguments and results, prepared for quick checks: element types, extents, and the symbols that extents share.
// Created once per function by core/open, used by core/submit on every call; knows nothing of devices or memory.
#ifndef HEDDLE_CORE_OPEN_SIGNATURE_H_
#define HEDDLE_CORE_OPEN_SIGNATURE_H_

#include <heddle_module/module_generated.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace heddle::open {

// An extent: a static value, a symbol's index, or neither (symbol -1, value -1) if the program sets it.
struct Extent {
  int64_t value = -1;
  int32_t symbol = -1;
};

struct TensorSignature {
  std::string name;
  heddle_element_type_t element_type = HEDDLE_TYPE_UNDEFINED;
  uint32_t slot = 0;
  std::vector<Extent> extents;
  bool is_consumed = false;  // an argument that programs overwrite
  int32_t alias = -1;        // of a consumed argument, the result that takes its memory; of a result, the argument; -1: none
};

struct SymbolRange {
  std::string name;
  int64_t min = 1, max = INT64_MAX, divisor = 1;
};

struct Signature {
  std::string name;
  std::vector<TensorSignature> arguments;
  std::vector<TensorSignature> results;
  std::vector<SymbolRange> symbols;
  bool consumes = false;  // an argument
};

// UNIMPLEMENTED for a rank above HEDDLE_MAX_RANK.
Result<Signature> make_signature(const module_format::Function& function);

// The signature of an initializer, which has no arguments and no results.
const Signature& initializer_signature();

// The arguments' extents, if all calls have the same ones.
std::optional<std::vector<std::vector<int64_t>>> static_dims(const Signature& signature);

// One argument as passed by the caller.
struct ActualShape {
  heddle_element_type_t element_type;
  uint32_t rank;
  const int64_t* dims;
};

// Checks the extents of one argument of the correct rank, and sets each symbol at its first use. values has one entry per symbol, -1 if not yet
// known. Returns false on a mismatch; explain_argument then tells why. Inline because every call does it for each argument.
inline bool fits(const Extent* expected, const int64_t* dims, uint32_t rank, const std::vector<SymbolRange>& symbols, int64_t* values) {
  for (uint32_t i = 0; i < rank; ++i) {
    const int64_t dim = dims[i];
    if (expected[i].symbol >= 0) {
      const size_t symbol = static_cast<size_t>(expected[i].symbol);
      if (values[symbol] < 0) {
        const SymbolRange& range = symbols[symbol];
        if (dim < range.min || dim > range.max || (range.divisor > 1 && dim % range.divisor != 0)) return false;
        values[symbol] = dim;
      } else if (values[symbol] != dim) {
        return false;
      }
    } else if (expected[i].value >= 0 && expected[i].value != dim) {
      return false;
    }
  }
  return true;
}
// "input 'image' expects f32[batch,1,8,8], got f32[2,1,8,9]: dimension 3 is 9 and must be 8"; symbols have the values that fits set.
std::string explain_argument(const Signature& signature, uint32_t argument, const ActualShape& actual, std::span<const int64_t> symbols);
// "f32[batch,1,8,8]"; "?" for an extent that the program sets.
std::string type_text(const Signature& signature, const TensorSignature& type);

}  // namespace heddle::open

#endif  // HEDDLE_CORE_OPEN_SIGNATURE_H_
