// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Called through npz.h.
#include "sdk/module/npz.h"

#include <new>

#include "sdk/module/npy_header.h"
#include "sdk/module/npz_directory.h"

namespace heddle::module {
namespace {

constexpr std::string_view kArraySuffix = ".npy";

// The causes have a next step of their own.
Error refused_index(const std::string& path, std::string_view cause) {
  return {HEDDLE_STATUS_DATA_LOSS, concat("module: reading the index of ", in_quotes(path), " failed: ", cause)};
}

Wrong add_array(const FileView& file, std::string name, uint64_t offset, uint64_t length, std::vector<ParameterEntry>& out) {
  NpyHeader header;
  if (Wrong wrong = read_npy_header(file, offset, length, header); !wrong.empty()) return wrong;
  ParameterEntry& entry = out.emplace_back();
  entry.name = std::move(name);
  entry.element_type = header.element_type;
  entry.dtype = npy_type_code(header.element_type);
  entry.dims = std::move(header.dims);
  entry.offset = offset + header.data_offset;
  entry.length = length - header.data_offset;
  return {};
}

}  // namespace

bool is_zip(std::string_view first_bytes) {
  return first_bytes.starts_with("PK\3\4") || first_bytes.starts_with("PK\5\6");
}

Result<ParameterIndex> read_npz_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  const FileView file(descriptor, file_bytes);
  std::vector<NpzMember> members;
  const Wrong broken = read_npz_directory(file, members);
  for (const NpzMember& member : members) {
    if (member.name.ends_with("/data.pkl") || member.name == "data.pkl")
      return refused_index(path, "it is a PyTorch file (.pt), whose pickle may run code; save its tensors as safetensors");
  }
  if (!broken.empty()) return refused_index(path, broken);
  std::vector<ParameterEntry> entries;
  for (const NpzMember& member : members) {
    const std::string who = concat("member ", in_quotes(member.name), ": ");
    if (!member.name.ends_with(kArraySuffix)) return refused_index(path, who + "it is not an array; numpy.savez names arrays .npy");
    std::string name = member.name.substr(0, member.name.size() - kArraySuffix.size());
    if (Wrong wrong = add_array(file, std::move(name), member.offset, member.length, entries); !wrong.empty())
      return refused_index(path, who + wrong);
    entries.back().crc = member.crc;
    entries.back().header_bytes = entries.back().offset - member.offset;
  }
  static_cast<void>(sort_by_name(entries));  // the directory has no name twice
  return ParameterIndex(std::move(entries), {});
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading the index of an .npz file failed: out of memory; free memory"};
}

Result<ParameterIndex> read_npy_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  if (is_descriptor_path(path)) {
    return Error{
        HEDDLE_STATUS_INVALID_ARGUMENT,
        concat("module: reading ", in_quotes(path),
               " failed: the tensor of an .npy file has the name of the file, and a descriptor or memory has none; give a path, or "
               "an .npz file, which has names")};
  }
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.size() > kArraySuffix.size() && name.ends_with(kArraySuffix)) name.resize(name.size() - kArraySuffix.size());
  std::vector<ParameterEntry> entries;
  if (Wrong wrong = add_array(FileView(descriptor, file_bytes), std::move(name), 0, file_bytes, entries); !wrong.empty())
    return refused_index(path, wrong);
  return ParameterIndex(std::move(entries), {});
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading the index of an .npy file failed: out of memory; free memory"};
}

}  // namespace heddle::module
