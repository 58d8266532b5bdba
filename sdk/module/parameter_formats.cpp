// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through parameter_formats.h.
#include "sdk/module/parameter_formats.h"

#include <algorithm>
#include <cstring>

#include "sdk/module/gguf.h"
#include "sdk/module/irpa.h"
#include "sdk/module/npy_header.h"
#include "sdk/module/npz.h"
#include "sdk/module/onnx_initializers.h"
#include "sdk/module/safetensors.h"

namespace heddle::module {

ParameterFormat parameter_format(std::string_view first_bytes) {
  // No safetensors file begins like these: as the size of its header, the bytes would be above the limit.
  if (first_bytes.starts_with(kGgufMagic)) return ParameterFormat::kGguf;
  if (first_bytes.starts_with(kIrpaMagic)) return ParameterFormat::kIrpa;
  if (is_zip(first_bytes)) return ParameterFormat::kNpz;
  if (first_bytes.starts_with(kNpyMagic)) return ParameterFormat::kNpy;
  // As the size of a safetensors header, most models' first bytes are above the limit.
  uint64_t size = UINT64_MAX;
  if (first_bytes.size() >= sizeof(size)) std::memcpy(&size, first_bytes.data(), sizeof(size));
  return size > kMaxSafetensorsHeaderBytes && is_onnx(first_bytes) ? ParameterFormat::kOnnx : ParameterFormat::kSafetensors;
}

std::string_view other_format(std::string_view first) {
  if (first.starts_with("\x89HDF\r\n\x1a\n")) return "an HDF5 file: write its arrays with numpy.savez";
  if (first.size() >= 2 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5)
    return "a pickle, such as an older .pt file, which may run code: save its tensors as safetensors";
  if (first.starts_with("version ")) return "a text, perhaps a pointer of Git LFS: get the file itself with git lfs pull";
  if (first.size() == 8 && std::ranges::all_of(first, [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); }))
    return "a text, or a page that a download returned instead of the file: get the file again";
  return {};
}

const char* format_name(ParameterFormat format) {
  constexpr const char* kNames[] = {"safetensors", "GGUF", "npz", "npy", "IRPA", "ONNX"};
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
    case ParameterFormat::kOnnx:
      return read_onnx_index(descriptor, file_bytes, path);
    case ParameterFormat::kSafetensors:
      break;
  }
  return read_safetensors_index(descriptor, file_bytes, path);
}

}  // namespace heddle::module
