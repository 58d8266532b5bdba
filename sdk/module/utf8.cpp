// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks UTF-8: eight bytes at a time where they are ASCII, otherwise one sequence at a time.
#include "sdk/module/utf8.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heddle::module {

bool is_utf8_text(std::string_view bytes) {
  size_t i = 0;
  const size_t size = bytes.size();
  auto at = [&](size_t position) { return static_cast<uint8_t>(bytes[position]); };
  while (i < size) {
    for (uint64_t eight; size - i >= sizeof(eight); i += sizeof(eight)) {  // plain ASCII, mostly
      std::memcpy(&eight, bytes.data() + i, sizeof(eight));
      constexpr uint64_t kOnes = 0x0101010101010101, kHighBits = 0x8080808080808080;
      if (((eight | (eight - kOnes)) & kHighBits) != 0) break;  // a byte above 0x7F, or perhaps a zero
    }
    if (i == size) break;
    const uint8_t lead = at(i);
    if (lead == 0) return false;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    size_t length;
    uint8_t low = 0x80, high = 0xBF;  // bounds of the second byte
    if (lead >= 0xC2 && lead <= 0xDF) {
      length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      length = 3;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      length = 4;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return false;
    }
    if (size - i < length || at(i + 1) < low || at(i + 1) > high) return false;
    for (size_t k = 2; k < length; ++k) {
      if ((at(i + k) & 0xC0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

}  // namespace heddle::module
