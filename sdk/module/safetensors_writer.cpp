// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes safetensors: the order of the header's text is fixed, so that the same tensors give the same bytes.
#include <cstring>
#include <new>
#include <unordered_set>

#include "sdk/module/element_types.h"
#include "sdk/module/layout.h"
#include "sdk/module/output_file.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/safetensors_types.h"
#include "sdk/module/utf8.h"

namespace heddle::module {
namespace {

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      out.append("\\u00");
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

Error failure(heddle_status_code_t code, const std::string& path, const std::string& name, std::string_view cause) {
  return {code, concat("module: writing tensor ", in_quotes(name), " to ", in_quotes(path), " failed: ", cause)};
}

}  // namespace

Status write_safetensors(const std::vector<SafetensorsTensor>& tensors, const std::string& path, const SafetensorsMetadata& metadata) {
  OutputFile file(path);
  if (Status failed = prepare_safetensors(tensors, file, metadata)) return failed;
  return file.commit();
}

Status prepare_safetensors(const std::vector<SafetensorsTensor>& tensors, OutputFile& file, const SafetensorsMetadata& metadata,
                           std::vector<uint64_t>* out_hashes) try {
  const std::string& path = file.path();
  std::string json = "{";
  for (const auto& [name, text] : metadata) {
    json.append(json.size() == 1 ? "\"__metadata__\":{" : ",");
    append_json_string(json, name);
    json.push_back(':');
    append_json_string(json, text);
  }
  if (!metadata.empty()) json.push_back('}');
  std::unordered_set<std::string_view> names;
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (!is_utf8_text(tensor.name) || tensor.name == "__metadata__") {
      return failure(HEDDLE_STATUS_INVALID_ARGUMENT, path, tensor.name, "the format does not allow this name; rename it");
    }
    if (!names.insert(tensor.name).second)
      return failure(HEDDLE_STATUS_INVALID_ARGUMENT, path, tensor.name, "the name is a duplicate; rename one");
    const SafetensorsType* type = safetensors_type(tensor.dtype.empty() ? safetensors_dtype(tensor.element_type) : tensor.dtype);
    if (type == nullptr) {
      return failure(HEDDLE_STATUS_UNIMPLEMENTED, path, tensor.name,
                     concat("the format has no name for ", element_type_name(tensor.element_type), "; keep it in the module"));
    }
    const std::optional<uint64_t> bytes = tensor_bytes(type->bits, tensor.dims);
    if (!bytes || *bytes != tensor.source.size_bytes || (!tensor.source.read && tensor.source.bytes.size() != *bytes)) {
      return failure(
          HEDDLE_STATUS_INVALID_ARGUMENT, path, tensor.name,
          concat("its source has ", tensor.source.size_bytes, " bytes, its shape is ", shape_text(tensor.element_type, tensor.dims)));
    }
    if (json.size() > 1) json.push_back(',');
    append_json_string(json, tensor.name);
    json.append(":{\"dtype\":\"").append(type->name).append("\",\"shape\":[");
    for (size_t i = 0; i < tensor.dims.size(); ++i) json.append(i ? "," : "").append(std::to_string(tensor.dims[i]));
    json.append("],\"data_offsets\":[").append(std::to_string(offset));
    offset += *bytes;
    json.append(",").append(std::to_string(offset)).append("]}");
  }
  json.push_back('}');
  // Data that begins at a multiple of 64 bytes can be mapped; the format requires a multiple of 8.
  json.resize(align_up(8 + json.size(), kSectionAlignment) - 8, ' ');
  if (json.size() > kMaxSafetensorsHeaderBytes) {
    return Error{HEDDLE_STATUS_INVALID_ARGUMENT, concat("module: writing ", in_quotes(path), " failed: a header of ", json.size(),
                                                        " bytes is above ", kMaxSafetensorsHeaderBytes, "; use fewer or shorter names")};
  }

  if (Status failed = file.open()) return failed;
  const uint64_t size = json.size();
  std::byte prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<std::byte>(size >> (8 * i));
  if (Status failed = file.append(prefix)) return failed;
  if (Status failed = file.append({reinterpret_cast<const std::byte*>(json.data()), json.size()})) return failed;
  for (const SafetensorsTensor& tensor : tensors) {
    auto append = [&](std::span<const std::byte> piece) { return file.append(piece); };
    if (!out_hashes) {
      if (Status failed = for_each_piece(tensor.source, append)) return failed;
      continue;
    }
    const Result<uint64_t> hash = hash_each_piece(tensor.source, append);
    if (!hash) return hash.error();
    out_hashes->push_back(hash.value());
  }
  return file.finish();
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: writing safetensors failed: out of memory; free memory"};
}

}  // namespace heddle::module
