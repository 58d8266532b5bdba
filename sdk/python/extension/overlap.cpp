// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that a call would read and write at once, or write twice: what is allowed, and what is refused.
#include "invocation.h"

#include <algorithm>

namespace heddle::python {

Invocation::Range::Range(heddle_tensor_t* tensor) : size_bytes(heddle_tensor_size(tensor)) {
  heddle_status_t* const unknown = heddle_tensor_address(tensor, &address);  // such as that of a donated one, which the call refuses
  if (unknown) size_bytes = 0;
  heddle_status_free(unknown);
}

bool Invocation::Range::overlaps(const Range& other) const {
  return std::max(address, other.address) < std::min(address + size_bytes, other.address + other.size_bytes);
}

const Invocation::Range& Invocation::range_of(size_t given_result) const {
  ranges.resize(frame->results.size());
  std::optional<Range>& range = ranges[given_result];
  if (!range) {
    const bool is_copied = !copied_results.empty() && copied_results[given_result];
    range = is_copied ? Range(*copied_results[given_result]) : Range(frame->results[given_result]);
  }
  return *range;
}

std::optional<size_t> Invocation::updated_in(size_t argument, const Range& range) const {
  const heddle_tensor_type_t& type = function.arguments[argument].type;
  if (!(type.flags & HEDDLE_TENSOR_TYPE_ALIASED) || !frame->given[type.alias]) return {};
  if (range.size_bytes == 0 || range_of(type.alias) != range) return {};
  return type.alias;
}

bool Invocation::is_written(const Range& range) const {
  for (size_t i = 0; i < frame->results.size(); ++i) {
    if (frame->given[i] && range_of(i).overlaps(range)) return true;
  }
  return false;
}

void Invocation::check_apart(size_t index, const Range& range) const {
  for (size_t i = 0; i < index; ++i) {
    const bool is_copied = !copied_results.empty() && copied_results[i];
    if ((!is_copied && !frame->given[i]) || !range_of(i).overlaps(range)) continue;
    refuse("result '" + function.results[index].text + "' is to be written to memory that overlaps that of result '" +
               function.results[i].text + "'; pass another array, or None for a new one",
           "INVALID_ARGUMENT");
  }
}

}  // namespace heddle::python
