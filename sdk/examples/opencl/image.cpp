// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of an image; see code.h. The driver and the target plugin share this.
#include "image.h"

#include <cstring>

#include "heddle/code.h"

namespace opencl {

bool read_image(std::string_view format, std::string_view bytes, Image* out, std::string* out_error) {
  *out = {};
  if (format == HEDDLE_CODE_PORTABLE) {
    out->portable = bytes;
    return true;
  }
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    out->source = bytes;
    return true;
  }
  bytes.remove_prefix(kMagic.size());
  uint64_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size == 0 || size > bytes.size() - sizeof size) {
    *out_error =
        "it says that it has " + std::to_string(size) + " bytes of portable code, and " + std::to_string(bytes.size()) + " bytes are left";
    return false;
  }
  out->portable = bytes.substr(sizeof size, size);
  out->source = bytes.substr(sizeof size + size);
  if (!out->source.empty()) return true;
  *out_error = "it has portable code, and no OpenCL C";
  return false;
}

std::string write_image(std::string_view portable, std::string_view source) {
  const uint64_t size = portable.size();
  char bytes[sizeof size];
  std::memcpy(bytes, &size, sizeof size);
  return std::string(kMagic).append(bytes, sizeof bytes).append(portable).append(source);
}

}  // namespace opencl
