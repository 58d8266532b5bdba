// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See image.h. The driver and the target plugin share this.
#include "image.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace opencl {

namespace {

constexpr std::string_view kBegin = "kernel void ";

}  // namespace

Function make_function(const std::string& rest) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char byte : rest) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  char name[24];
  std::snprintf(name, sizeof name, "f%016llx", static_cast<unsigned long long>(hash));
  return {name, std::string(kBegin) + name + rest};
}

bool has_functions(std::string_view bytes) {
  return bytes.substr(0, kMagic.size()) == kMagic;
}

bool read_image(std::string_view bytes, Image* out, std::string* out_error) {
  bytes.remove_prefix(kMagic.size());
  uint64_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size == 0 || size > bytes.size() - sizeof size) {
    *out_error =
        "it says that it has " + std::to_string(size) + " bytes of portable code, and " + std::to_string(bytes.size()) + " bytes are left";
    return false;
  }
  *out = {bytes.substr(sizeof size, size), {}};
  bytes.remove_prefix(sizeof size + size);
  while (!bytes.empty()) {
    const size_t next = bytes.find("\n" + std::string(kBegin));
    const std::string_view text = bytes.substr(0, next == bytes.npos ? next : next + 1);
    const std::string_view name = text.substr(0, text.find('('));
    Function function = make_function(std::string(text.substr(name.size())));
    if (function.text != text) {
      *out_error = "a function that begins with '" + std::string(name.substr(0, 60)) + "' is not what its name says";
      return false;
    }
    out->functions.push_back(std::move(function));
    bytes.remove_prefix(text.size());
  }
  return true;
}

std::string write_image(std::string_view portable, const std::vector<Function>& functions) {
  const uint64_t size = portable.size();
  char bytes[sizeof size];
  std::memcpy(bytes, &size, sizeof size);
  std::string out = std::string(kMagic).append(bytes, sizeof bytes).append(portable);
  for (const Function& function : functions) out += function.text;
  return out;
}

}  // namespace opencl
