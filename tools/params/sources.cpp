// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sources for the writers.
#include "tools/params/sources.h"

#include <algorithm>
#include <cmath>

#include "tools/params/element_blocks.h"

namespace heddle::tool {
namespace {

module::Status read_some(const Checkpoint& checkpoint, const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out,
                         Progress& progress) {
  Wrong wrong = checkpoint.read_values(tensor, offset, out);
  if (wrong.empty() && offset + out.size() == tensor.value_bytes()) wrong = checkpoint.changed();
  if (!wrong.empty()) return module::Error{HEDDLE_STATUS_DATA_LOSS, wrong};
  progress.add(out.size());
  return std::nullopt;
}

}  // namespace

module::ParameterSource stored_bytes(const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress) {
  auto read = [&](uint64_t offset, std::span<std::byte> out) -> module::Status {
    Wrong wrong = checkpoint.read(tensor, offset, out);
    if (wrong.empty() && offset + out.size() == tensor.length) wrong = checkpoint.changed();
    if (!wrong.empty()) return module::Error{HEDDLE_STATUS_DATA_LOSS, wrong};
    progress.add(out.size());
    return std::nullopt;
  };
  return {tensor.length, {}, read};
}

module::ParameterSource values_of(const Checkpoint& checkpoint, const StoredTensor& tensor, Progress& progress) {
  auto read = [&](uint64_t offset, std::span<std::byte> out) { return read_some(checkpoint, tensor, offset, out, progress); };
  return {tensor.value_bytes(), {}, read};
}

module::ParameterSource cast_values(const Checkpoint& checkpoint, const StoredTensor& tensor, heddle_element_type_t type,
                                    Progress& progress, uint64_t& overflowed) {
  const uint64_t from = HEDDLE_TYPE_BITS(tensor.shape.element_type) / 8, to = HEDDLE_TYPE_BITS(type) / 8;
  auto read = [&checkpoint, &tensor, &progress, &overflowed, type, from, to](uint64_t offset, std::span<std::byte> out) -> module::Status {
    std::vector<std::byte> given(out.size() / to * from);
    if (module::Status failed = read_some(checkpoint, tensor, offset / to * from, given, progress)) return failed;
    double block[kBlockElements];
    const double limit = overflow_limit(type);
    for (size_t done = 0, count = out.size() / to; done < count; done += kBlockElements) {
      const std::span<double> values = std::span(block).first(std::min(kBlockElements, count - done));
      decode_block(tensor.shape.element_type, given.data() + done * from, values);
      encode_block(type, values, out.data() + done * to);
      for (double value : values) overflowed += std::fabs(value) >= limit && !std::isinf(value);
    }
    return std::nullopt;
  };
  return {tensor.value_bytes() / from * to, {}, read};
}

}  // namespace heddle::tool
