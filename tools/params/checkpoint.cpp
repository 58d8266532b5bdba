// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds one index from the index of each format. The format is determined by the first bytes, never by the file name.
#include "tools/params/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "sdk/module/element_types.h"
#include "sdk/module/layout.h"
#include "sdk/module/npy_header.h"
#include "sdk/module/onnx_initializers.h"
#include "sdk/module/parameter_formats.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/safetensors_shards.h"
#include "tools/heddle/npy.h"

namespace heddle::tool {
namespace {

using module::concat;
using module::in_quotes;

// The type of values that are not packed.
heddle_element_type_t unpacked(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_I4 ? HEDDLE_TYPE_I8 : type == HEDDLE_TYPE_U4 ? HEDDLE_TYPE_U8 : type;
}

constexpr const char kRead[] = "this version reads safetensors (also in shards, by their index), GGUF, IRPA, .npz, .npy and ONNX";

}  // namespace

std::string StoredTensor::type_text() const {
  return dtype.empty() ? std::string(module::element_type_name(shape.element_type)) : dtype;
}

std::string StoredTensor::shape_text() const {
  std::vector<std::string> extents;
  for (int64_t extent : shape.dims) extents.push_back(std::to_string(extent));
  return module::type_text(type_text(), extents);
}

Wrong Checkpoint::open(const std::string& path) {
  path_ = path;
  InputFile& file = files_.emplace_back();
  if (Wrong wrong = file.open(path); !wrong.empty()) return file.about(wrong);
  std::string first(std::min<uint64_t>(file.size_bytes(), 8), '\0');
  Wrong wrong = file.read(0, std::as_writable_bytes(std::span(first)));
  if (!wrong.empty()) return file.about(wrong);
  const bool in_shards = module::is_shard_index(first);
  // The readers of sdk/module name the file in their messages.
  wrong = in_shards ? open_shards() : open_single(first);
  if (!wrong.empty()) return wrong;
  std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  return {};
}

Wrong Checkpoint::open_single(const std::string& first) {
  const InputFile& file = files_[0];
  if (first.empty()) return file.about("it is empty");
  if (first.starts_with(std::string_view(reinterpret_cast<const char*>(module::kMagic), sizeof(module::kMagic))))
    return file.about(concat("it is a compiled module, whose parameters heddle explain counts; ", kRead));
  const module::ParameterFormat format = module::parameter_format(first);
  // Where it can be the size of a safetensors header, its first bytes may be those of any other file.
  uint64_t size = UINT64_MAX;
  if (first.size() == sizeof(size)) std::memcpy(&size, first.data(), sizeof(size));
  const bool has_size = size <= module::kMaxSafetensorsHeaderBytes;
  if (format == module::ParameterFormat::kSafetensors && !has_size) {
    const std::string_view other = module::other_format(first);
    return file.about(other.empty() ? concat("it does not begin like any known parameter file; ", kRead)
                                    : concat("it is ", other, "; ", kRead));
  }
  format_ = module::format_name(format);
  return open_indexed(0, first);
}

Wrong Checkpoint::open_indexed(uint32_t file, const std::string& first_bytes) {
  auto index = module::read_parameter_index(files_[file].descriptor(), files_[file].size_bytes(), files_[file].path(), first_bytes);
  if (!index) return wrong_of(index.error());
  for (const auto& [name, text] : index.value().metadata()) {
    if (metadata_names_.insert(name).second) metadata_.emplace_back(name, text);
  }
  if (!index.value().left_out().empty()) warnings_.push_back(files_[file].about(index.value().left_out()));
  const auto first_external = static_cast<uint32_t>(files_.size());
  for (const module::ExternalFile& external : index.value().external_files()) {
    const std::string& path = files_[file].path();
    module::Result<int> opened = module::open_external(path, external);
    if (!opened) return wrong_of(opened.error());
    InputFile beside;
    if (Wrong wrong = beside.adopt(opened.value(), module::shard_path(path, external.location)); !wrong.empty()) return beside.about(wrong);
    files_.push_back(std::move(beside));
  }
  for (const module::ParameterEntry& entry : index.value().entries()) {
    const bool has_type = entry.element_type != HEDDLE_TYPE_UNDEFINED, converts = entry.block && entry.block->decode;
    const heddle_element_type_t type = unpacked(entry.element_type);
    const bool is_packed = type != entry.element_type;
    tensors_.push_back({entry.name, Shape{converts ? HEDDLE_TYPE_F32 : type, entry.dims}, has_type && !is_packed ? "" : entry.dtype,
                        entry.file == 0 ? file : first_external + entry.file - 1, entry.offset, entry.length, entry.crc, entry.header_bytes,
                        entry.block, entry.pattern, entry.is_untyped, is_packed});
  }
  return {};
}

Wrong Checkpoint::open_shards() {
  auto read = module::read_shard_index(files_[0].descriptor(), files_[0].size_bytes(), path_);
  if (!read) return wrong_of(read.error());
  const module::ShardIndex& index = read.value();
  format_ = "safetensors in shards";
  for (const std::string& shard : index.shards) {
    InputFile& file = files_.emplace_back();
    if (Wrong wrong = file.open(module::shard_path(path_, shard)); !wrong.empty())
      return files_[0].about(concat("it names a shard that cannot be opened: ", in_quotes(file.path()), ": ", wrong));
    if (Wrong wrong = open_indexed(static_cast<uint32_t>(files_.size() - 1), {}); !wrong.empty()) return wrong;
  }
  // The index assigns a file to each tensor: files may contain further tensors, also the same one in several files.
  std::vector<StoredTensor> found = std::move(tensors_), kept;
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return std::tie(a.name, a.file) < std::tie(b.name, b.file); });
  for (const module::ShardIndex::Entry& entry : index.entries) {
    const uint32_t file = entry.shard + 1;
    auto at = std::lower_bound(found.begin(), found.end(), std::tie(entry.name, file),
                               [](const StoredTensor& one, const auto& key) { return std::tie(one.name, one.file) < key; });
    if (at == found.end() || at->name != entry.name || at->file != file)
      return files_[0].about(concat("it says that ", in_quotes(index.shards[entry.shard]), " has tensor ", in_quotes(entry.name),
                                    ", which is not in that file"));
    kept.push_back(*at);
  }
  tensors_ = std::move(kept);
  if (found.size() > tensors_.size()) {
    warnings_.push_back(
        files_[0].about(concat(found.size() - tensors_.size(), " tensors of its shards are not in the index and are ignored")));
  }
  if (index.total_bytes && *index.total_bytes != tensor_bytes()) {
    warnings_.push_back(files_[0].about(concat("its total_size is ", *index.total_bytes, ", its tensors have ", tensor_bytes(), " bytes")));
  }
  return {};
}

const StoredTensor* Checkpoint::find(const std::string& name) const {
  auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                             [](const StoredTensor& one, const std::string& key) { return one.name < key; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

uint64_t Checkpoint::tensor_bytes() const {
  uint64_t bytes = 0;
  for (const StoredTensor& tensor : tensors_) bytes += tensor.length;  // the tensors of a file do not overlap
  return bytes;
}

Wrong Checkpoint::read(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  const InputFile& file = files_[tensor.file];
  if (!tensor.pattern.empty()) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(tensor.pattern[(offset + i) % tensor.pattern.size()]);
    return {};
  }
  Wrong wrong = file.read(tensor.offset + offset, out);
  if (wrong.empty()) return {};
  return file.about(concat("tensor ", in_quotes(tensor.name), ", bytes [", tensor.offset + offset, ", ",
                           tensor.offset + offset + out.size(), "): ", wrong));
}

Wrong Checkpoint::read_packed(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  const bool is_signed = tensor.shape.element_type == HEDDLE_TYPE_I8;
  std::vector<std::byte> bytes;
  while (!out.empty()) {
    const uint64_t skipped = offset % 2, count = std::min<uint64_t>(out.size(), (uint64_t{256} << 10) - skipped);
    bytes.resize((skipped + count + 1) / 2);
    if (Wrong wrong = read(tensor, offset / 2, bytes); !wrong.empty()) return wrong;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = skipped + i;
      const auto value = static_cast<uint8_t>(static_cast<uint8_t>(bytes[at / 2]) >> (at % 2 * 4) & 15);
      out[i] = static_cast<std::byte>(is_signed ? (value ^ 8) - 8 : value);
    }
    out = out.subspan(count);
    offset += count;
  }
  return {};
}

Wrong Checkpoint::read_values(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  if (tensor.is_packed) return read_packed(tensor, offset, out);
  if (!tensor.block || !tensor.has_values()) return read(tensor, offset, out);
  const module::BlockType& block = *tensor.block;
  const uint64_t per_block = uint64_t{block.elements} * sizeof(float);
  std::vector<std::byte> blocks, values;
  while (!out.empty()) {
    // As many blocks as fit into the cache: into `out`, or, if only a part of them is wanted, into a buffer.
    const uint64_t first = offset / per_block, skipped = offset % per_block;
    const bool is_part = skipped != 0 || out.size() < per_block;
    const uint64_t count = is_part ? 1 : std::min<uint64_t>(out.size() / per_block, (uint64_t{256} << 10) / per_block);
    blocks.resize(count * block.bytes);
    if (Wrong wrong = read(tensor, first * block.bytes, blocks); !wrong.empty()) return wrong;
    if (is_part) values.resize(per_block);
    module::decode_blocks(block, blocks.data(), count, HEDDLE_TYPE_F32, is_part ? values.data() : out.data());
    const uint64_t done = is_part ? std::min<uint64_t>(per_block - skipped, out.size()) : count * per_block;
    if (is_part) std::memcpy(out.data(), values.data() + skipped, done);
    out = out.subspan(done);
    offset += done;
  }
  return {};
}

Wrong Checkpoint::changed() const {
  for (const InputFile& file : files_) {
    if (Wrong wrong = file.changed(); !wrong.empty()) return file.about(wrong);
  }
  return {};
}

Wrong for_each_piece(const Checkpoint& checkpoint, const StoredTensor& tensor, const std::function<Wrong(const HostTensor&)>& take) {
  HostTensor piece;
  piece.shape.element_type = tensor.has_values() ? tensor.shape.element_type : HEDDLE_TYPE_U8;
  const uint64_t width = HEDDLE_TYPE_BITS(piece.shape.element_type) / 8;  // packed ones are i8 or u8 here
  const uint64_t total = tensor.value_bytes();
  for (uint64_t done = 0; done < total; done += piece.bytes.size()) {
    piece.bytes.resize(std::min(kPieceBytes, total - done));
    piece.shape.dims = {static_cast<int64_t>(piece.bytes.size() / width)};
    if (Wrong wrong = checkpoint.read_values(tensor, done, piece.bytes); !wrong.empty()) return wrong;
    if (Wrong wrong = take(piece); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace heddle::tool
