// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through parameter_formats.h.
#include "sdk/module/parameter_formats.h"

#include "sdk/module/gguf.h"
#include "sdk/module/safetensors.h"

namespace heddle::module {

ParameterFormat parameter_format(std::string_view first_bytes) {
  // A safetensors file whose header has these bytes as its size would be above the limit of its size.
  return first_bytes.starts_with(kGgufMagic) ? ParameterFormat::kGguf : ParameterFormat::kSafetensors;
}

Result<ParameterIndex> read_parameter_index(int descriptor, uint64_t file_bytes, const std::string& path, std::string_view first_bytes) {
  switch (parameter_format(first_bytes)) {
    case ParameterFormat::kGguf:
      return read_gguf_index(descriptor, file_bytes, path);
    case ParameterFormat::kSafetensors:
      break;
  }
  return read_safetensors_index(descriptor, file_bytes, path);
}

}  // namespace heddle::module
