// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through parameter_formats.h.
#include "sdk/module/parameter_formats.h"

#include "sdk/module/gguf.h"
#include "sdk/module/irpa.h"
#include "sdk/module/npy_header.h"
#include "sdk/module/npz.h"
#include "sdk/module/safetensors.h"

namespace heddle::module {

ParameterFormat parameter_format(std::string_view first_bytes) {
  // No safetensors file begins like these: as the size of its header, the bytes would be above the limit.
  if (first_bytes.starts_with(kGgufMagic)) return ParameterFormat::kGguf;
  if (first_bytes.starts_with(kIrpaMagic)) return ParameterFormat::kIrpa;
  if (is_zip(first_bytes)) return ParameterFormat::kNpz;
  return first_bytes.starts_with(kNpyMagic) ? ParameterFormat::kNpy : ParameterFormat::kSafetensors;
}

const char* format_name(ParameterFormat format) {
  constexpr const char* kNames[] = {"safetensors", "GGUF", "npz", "npy", "IRPA"};
  return kNames[static_cast<size_t>(format)];
}

Result<ParameterIndex> read_parameter_index(int descriptor, uint64_t file_bytes, const std::string& path, std::string_view first_bytes) {
  switch (parameter_format(first_bytes)) {
    case ParameterFormat::kGguf:
      return read_gguf_index(descriptor, file_bytes, path);
    case ParameterFormat::kNpz:
      return read_npz_index(descriptor, file_bytes, path);
    case ParameterFormat::kNpy:
      return read_npy_index(descriptor, file_bytes, path);
    case ParameterFormat::kIrpa:
      return read_irpa_index(descriptor, file_bytes, path);
    case ParameterFormat::kSafetensors:
      break;
  }
  return read_safetensors_index(descriptor, file_bytes, path);
}

}  // namespace heddle::module
