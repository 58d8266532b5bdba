// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes IRPA: one header, the table of entries, names and types, data.
#include <unordered_set>

#include "sdk/module/element_types.h"
#include "sdk/module/irpa.h"
#include "sdk/module/layout.h"
#include "sdk/module/output_file.h"

namespace heddle::module {
namespace {

constexpr uint64_t kHeaderBytes = 88, kDataBytes = 76;
constexpr uint64_t kEntryAlignment = 16, kDataAlignment = 64, kFileAlignment = 4096;
constexpr uint32_t kData = 2;

class Fields {
 public:
  Fields& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Fields& u64(uint64_t value) { return number(value, 8); }
  Fields& range(uint64_t offset, uint64_t length) { return u64(offset).u64(length); }
  std::string text;
};

// "f32[2,3]", "C64[2,3]"; empty for a tensor whose type is not known.
std::string type_of(const SafetensorsTensor& tensor) {
  if (tensor.is_untyped) return {};
  if (tensor.dtype.empty()) return shape_text(tensor.element_type, tensor.dims);
  std::vector<std::string> extents;
  for (int64_t extent : tensor.dims) extents.push_back(std::to_string(extent));
  return type_text(tensor.dtype, extents);
}

}  // namespace

Status write_irpa(const std::vector<SafetensorsTensor>& tensors, const std::string& path) {
  std::unordered_set<std::string_view> names;
  Fields table, head;
  std::string metadata;
  uint64_t data = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      return Error{HEDDLE_STATUS_INVALID_ARGUMENT,
                   concat("module: writing ", in_quotes(path), " failed: the name ", in_quotes(tensor.name), " is a duplicate")};
    const std::string type = type_of(tensor);
    table.u64(kDataBytes).number(kData, 4).u64(0).range(metadata.size(), tensor.name.size());
    metadata += tensor.name;
    table.range(metadata.size(), type.size()).u64(kDataAlignment).range(data, tensor.source.size_bytes);
    metadata += type;
    table.text.resize(align_up(table.text.size(), kEntryAlignment));
    data = align_up(data + tensor.source.size_bytes, kDataAlignment);
  }
  const uint64_t table_at = align_up(kHeaderBytes, kEntryAlignment), metadata_at = table_at + table.text.size();
  const uint64_t data_at = align_up(metadata_at + metadata.size(), kDataAlignment);
  head.text = kIrpaMagic;
  head.number(0, 4).u64(kHeaderBytes).u64(0).u64(0).u64(tensors.size());
  head.range(table_at, table.text.size()).range(metadata_at, metadata.size()).range(data_at, data);
  head.text.resize(table_at);
  head.text += table.text + metadata;
  OutputFile file(path);
  if (Status failed = file.open()) return failed;
  if (Status failed = file.append(std::as_bytes(std::span(head.text)))) return failed;
  for (const SafetensorsTensor& tensor : tensors) {
    if (Status failed = file.pad_to(kDataAlignment)) return failed;
    if (Status failed = for_each_piece(tensor.source, [&](std::span<const std::byte> piece) { return file.append(piece); })) return failed;
  }
  if (Status failed = file.pad_to(kFileAlignment)) return failed;
  return file.commit();
}

}  // namespace heddle::module
