// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Floating-point formats by their bits, and dumps. Called through values.h.
#include "core/validation/values.h"

#include <cstring>

#include "sdk/module/npy_header.h"
#include "sdk/module/output_file.h"

namespace heddle::validation {

namespace {

// Largest exponent: infinite if the mantissa is zero, else not a number. Some have no infinity: all ones are not a number, after `flipped` bits are
// inverted.
struct FloatFormat {
  heddle_element_type_t type;
  uint64_t exponent, mantissa;
  bool has_infinity;
  uint8_t flipped = 0;
};
constexpr FloatFormat kFormats[] = {
    {HEDDLE_TYPE_F16, 0x7C00, 0x03FF, true},
    {HEDDLE_TYPE_BF16, 0x7F80, 0x007F, true},
    {HEDDLE_TYPE_F32, 0x7F800000, 0x007FFFFF, true},
    {HEDDLE_TYPE_F64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF, true},
    {HEDDLE_TYPE_F8E4M3, 0x78, 0x07, false},
    {HEDDLE_TYPE_F8E5M2, 0x7C, 0x03, true},
    {HEDDLE_TYPE_F8E4M3FNUZ, 0xFF, 0, false, 0x7F},
    {HEDDLE_TYPE_F8E5M2FNUZ, 0xFF, 0, false, 0x7F},
    {HEDDLE_TYPE_F8E8M0, 0xFF, 0, false},
};

// 0, or one of HEDDLE_VALIDATION_*.
inline uint32_t kind_of(const FloatFormat& format, uint64_t bits) {
  bits ^= format.flipped;
  if ((bits & format.exponent) != format.exponent) return 0;
  const uint64_t mantissa = bits & format.mantissa;
  if (!format.has_infinity) return mantissa == format.mantissa ? HEDDLE_VALIDATION_NAN : 0;
  return mantissa != 0 ? HEDDLE_VALIDATION_NAN : HEDDLE_VALIDATION_INF;
}

template <class Word>
Found scan_words(const FloatFormat& format, const void* data, uint64_t count, uint32_t kinds) {
  Found found;
  const char* bytes = static_cast<const char*>(data);
  for (uint64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    const uint32_t kind = kind_of(format, word) & kinds;
    if (kind == 0) continue;
    if (found.count++ == 0) {
      found.first = i;
      found.kind = kind;
    }
  }
  return found;
}

}  // namespace

Found scan(heddle_element_type_t type, const void* data, uint64_t size_bytes, uint32_t kinds) {
  for (const FloatFormat& format : kFormats) {
    if (format.type != type) continue;
    switch (HEDDLE_TYPE_BITS(type)) {
      case 8:
        return scan_words<uint8_t>(format, data, size_bytes, kinds);
      case 16:
        return scan_words<uint16_t>(format, data, size_bytes / 2, kinds);
      case 32:
        return scan_words<uint32_t>(format, data, size_bytes / 4, kinds);
      default:
        return scan_words<uint64_t>(format, data, size_bytes / 8, kinds);
    }
  }
  return {};
}

std::string write_npy(const std::string& path, heddle_element_type_t type, const std::vector<int64_t>& dims, const void* data,
                      uint64_t size_bytes) {
  const bool known = !module::npy_type_code(type).empty();
  const std::string head =
      known ? module::npy_header(type, dims) : module::npy_header(HEDDLE_TYPE_U8, std::vector<int64_t>{static_cast<int64_t>(size_bytes)});
  module::OutputFile file(path);
  module::Status failed = file.open();
  if (!failed) failed = file.append({reinterpret_cast<const std::byte*>(head.data()), head.size()});
  if (!failed) failed = file.append({static_cast<const std::byte*>(data), size_bytes});
  if (!failed) failed = file.commit(false);  // the same call makes it again
  return failed ? failed->message : std::string();
}

}  // namespace heddle::validation
