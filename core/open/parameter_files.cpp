// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens parameter files and finds parameters in them.
// Called through parameter_files.h; sdk/module reads the format itself.
#include "core/open/parameter_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "sdk/module/element_types.h"
#include "sdk/module/file_view.h"
#include "sdk/module/nearest.h"
#include "sdk/module/onnx_initializers.h"
#include "sdk/module/parameter_formats.h"
#include "sdk/module/safetensors.h"

namespace heddle::open {

ParameterFiles::~ParameterFiles() {
  for (const File& file : files_) ::close(file.descriptor);
}

Status ParameterFiles::open_file(const std::string& path) {
  File& file = files_.emplace_back();  // added first, so that the descriptor has an owner
  file.path = path;
  file.descriptor = module::open_to_read(path);
  if (file.descriptor < 0) {
    int code = errno;
    files_.pop_back();
    return Status(status_create(code == ENOENT   ? HEDDLE_STATUS_NOT_FOUND
                                : code == EACCES ? HEDDLE_STATUS_PERMISSION_DENIED
                                : code == EBADF  ? HEDDLE_STATUS_INVALID_ARGUMENT
                                                 : HEDDLE_STATUS_UNAVAILABLE,
                                "heddle: opening parameter file " + path + " failed: " + module::why_not_opened(code), "errno", code));
  }
  return identify_file(file);
}

Status ParameterFiles::identify_file(File& file) {
  Result<FileIdentity> identity = identify(file.descriptor, file.path);
  if (!identity.ok()) return identity.take_status();
  file.identity = *identity;
  char first[8];
  const ssize_t got = pread(file.descriptor, first, sizeof(first), 0);
  file.first_bytes.assign(first, got > 0 ? static_cast<size_t>(got) : 0);
  return Status();
}

Status ParameterFiles::read_index(File& file) {
  module::Result<module::ParameterIndex> index =
      module::read_parameter_index(file.descriptor, file.identity[kFileSize], file.path, file.first_bytes);
  if (!index.ok()) return to_status(index.error(), "");
  file.index = std::move(index.value());
  return Status();
}

Status ParameterFiles::open_external_files() {
  const size_t model = files_.size() - 1;
  for (size_t i = 0; i < files_[model].index.external_files().size(); ++i) {
    const module::ExternalFile& external = files_[model].index.external_files()[i];
    File& file = files_.emplace_back();
    file.path = module::shard_path(files_[model].path, external.location);
    module::Result<int> descriptor = module::open_external(files_[model].path, external);
    if (!descriptor.ok()) {
      files_.pop_back();
      return to_status(descriptor.error(), "");
    }
    file.descriptor = descriptor.value();
    HEDDLE_RETURN_IF_ERROR(identify_file(file));
  }
  return Status();
}

Status ParameterFiles::open_shards(Source& source) {
  const std::string path = files_[source.first_file].path;
  module::Result<module::ShardIndex> index =
      module::read_shard_index(files_[source.first_file].descriptor, files_[source.first_file].identity[kFileSize], path);
  if (!index.ok()) return to_status(index.error(), "");
  for (const std::string& shard : index.value().shards) {
    HEDDLE_RETURN_IF_ERROR(open_file(module::shard_path(path, shard)));
    files_.back().first_bytes.clear();  // of no other format
    HEDDLE_RETURN_IF_ERROR(read_index(files_.back()));
  }
  for (const module::ShardIndex::Entry& entry : index.value().entries) {
    const File& shard = files_[source.first_file + 1 + entry.shard];
    if (shard.index.find(entry.name)) continue;
    return error(HEDDLE_STATUS_DATA_LOSS,
                 "heddle: opening parameter file {} failed: it says that tensor {} is in {}, which does not have it; copy all shards again",
                 path, module::in_quotes(entry.name), shard.path);
  }
  source.in_shards = std::move(index.value().entries);
  return Status();
}

Status ParameterFiles::open(const std::vector<Named>& files) {
  for (const Named& named : files) {
    HEDDLE_RETURN_IF_ERROR(open_file(named.path));
    Source source{named.scope, named.over, files_.size() - 1, {}};
    const bool in_shards = module::is_shard_index(files_.back().first_bytes);
    HEDDLE_RETURN_IF_ERROR(in_shards ? open_shards(source) : read_index(files_.back()));
    if (!in_shards) HEDDLE_RETURN_IF_ERROR(open_external_files());
    sources_.push_back(std::move(source));
  }
  return Status();
}

std::pair<const ParameterFiles::File*, const module::ParameterEntry*> ParameterFiles::find_in(const Source& source,
                                                                                              std::string_view name) const {
  const File* file = &files_[source.first_file];
  if (source.in_shards.empty()) {
    const module::ParameterEntry* entry = file->index.find(name);
    return {entry ? file + entry->file : file, entry};
  }
  auto shard = std::lower_bound(source.in_shards.begin(), source.in_shards.end(), name,
                                [](const module::ShardIndex::Entry& entry, std::string_view key) { return entry.name < key; });
  if (shard == source.in_shards.end() || shard->name != name) return {file, nullptr};
  file += 1 + shard->shard;
  return {file, file->index.find(name)};
}

namespace {

std::vector<int64_t> dims_of(const module_format::Parameter& parameter) {
  return {parameter.dims()->begin(), parameter.dims()->end()};
}

bool has_dims(const module::ParameterEntry& entry, const module_format::Parameter& parameter) {
  return std::equal(entry.dims.begin(), entry.dims.end(), parameter.dims()->begin(), parameter.dims()->end());
}

// "Q4_K[2,256]"
std::string dtype_text(std::string_view dtype, const std::vector<int64_t>& dims) {
  std::vector<std::string> extents;
  for (int64_t extent : dims) extents.push_back(std::to_string(extent));
  return module::type_text(dtype, extents);
}

// Whether the tensor is stored in the blocks that the parameter is read as.
bool has_such_blocks(const module::ParameterEntry& entry, const module_format::Parameter& parameter) {
  return entry.block && entry.dtype == parameter.blocks()->type()->string_view() && entry.dims.size() == 2 &&
         entry.dims[0] == parameter.dims()->Get(0) && entry.dims[1] % entry.block->elements == 0 &&
         entry.dims[1] / entry.block->elements == parameter.dims()->Get(1) / entry.block->bytes && entry.length == parameter.size_bytes();
}

}  // namespace

std::string parameter_text(const module_format::Parameter& parameter) {
  std::vector<int64_t> dims = dims_of(parameter);
  if (!is_in_blocks(parameter)) return module::shape_text(parameter.element_type(), dims);
  const module::BlockType* type = module::block_type(parameter.blocks()->type()->string_view());
  if (type) dims.back() = dims.back() / type->bytes * type->elements;
  return dtype_text(parameter.blocks()->type()->string_view(), dims);
}

Result<ParameterExtent> ParameterFiles::blocks_of(const File& file, const module::ParameterEntry& entry,
                                                  const module_format::Parameter& parameter) {
  const auto type = static_cast<heddle_element_type_t>(parameter.element_type());
  if (!entry.block->decode) {
    return error(HEDDLE_STATUS_UNIMPLEMENTED,
                 "heddle: reading parameter {} from {} failed: this version cannot convert values from type {}; convert the model to "
                 "another type, such as Q4_K",
                 module::in_quotes(entry.name), file.path, entry.dtype);
  }
  if (!module::decodes_to(type) || !has_dims(entry, parameter) ||
      module::tensor_bytes(HEDDLE_TYPE_BITS(type), entry.dims) != parameter.size_bytes()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "heddle: reading parameter {} from {} failed: the module expects {}, the file has {}, whose values are f32, f16 or "
                 "bf16 as the module wants them; give the file that was written for this model, or compile the model again",
                 module::in_quotes(entry.name), file.path, module::shape_text(type, dims_of(parameter)),
                 dtype_text(entry.dtype, entry.dims));
  }
  return ParameterExtent{file.descriptor, entry.offset, entry.length, file.identity, file.path, entry.block, type, parameter.size_bytes()};
}

Status ParameterFiles::check_use(const OpenModule& module) const {
  for (const Source& source : sources_) {
    if (source.is_used) continue;
    const std::string& path = files_[source.first_file].path;
    bool is_used = false;
    std::vector<std::string> names;
    for (const module_format::Parameter* parameter : *module.metadata().parameters()) {
      if (parameter->stored() || parameter->scope()->string_view() != source.scope) continue;
      names.push_back(parameter->name()->str());
      is_used |= find_in(source, names.back()).second != nullptr;
    }
    if (is_used) continue;
    const auto& entries = files_[source.in_shards.empty() ? source.first_file : source.first_file + 1].index.entries();
    std::string hint = fmt::format("scope '{}' of the module has {} parameters outside of it", source.scope, names.size());
    if (names.empty()) hint += "; name the scope that it has, or compile the model with --params-out or --params-in";
    if (!entries.empty()) {
      const std::string meant = module::nearest(entries[0].name, names);
      hint += "; the file's first tensor is " + module::in_quotes(entries[0].name);
      if (!meant.empty()) hint += fmt::format(", did you mean {}?", module::in_quotes(meant));
    }
    return error(HEDDLE_STATUS_NOT_FOUND, "heddle: reading parameters of {} failed: {} uses none of its tensors; {}", path, module.path(),
                 hint);
  }
  return Status();
}

Result<ParameterExtent> ParameterFiles::find(const OpenModule& module, const module_format::Parameter& parameter, bool optional) {
  if (parameter.stored()) {
    module::FileExtent extent = module.file().parameter_extent(parameter);
    Result<FileIdentity> identity = identify(extent.descriptor, module.path());
    if (!identity.ok()) return identity.take_status();
    if (extent.offset > (*identity)[kFileSize] || extent.length > (*identity)[kFileSize] - extent.offset) {
      return error(HEDDLE_STATUS_DATA_LOSS,
                   "heddle: reading parameter '{}' of {} failed: bytes [{}, {}) are past the end at {}; compile or copy the file again",
                   parameter.name()->string_view(), module.path(), extent.offset, extent.offset + extent.length, (*identity)[kFileSize]);
    }
    if (const std::string change = change_since(module.identity(), extent.descriptor); !change.empty()) {
      return error(HEDDLE_STATUS_DATA_LOSS, "heddle: reading parameter '{}' (bytes [{}, {})) of {} failed: {}; open the module again",
                   parameter.name()->string_view(), extent.offset, extent.offset + extent.length, module.path(), change);
    }
    return ParameterExtent{extent.descriptor, extent.offset, extent.length, *identity, module.path()};
  }
  const std::string_view scope = parameter.scope()->string_view(), name = parameter.name()->string_view();
  const std::string shown = module::in_quotes(name);
  const File* file = nullptr;
  const module::ParameterEntry* entry = nullptr;
  uint32_t of = 0;
  for (Source& source : sources_) {
    if (source.scope != scope) continue;
    const auto found = find_in(source, name);
    if (!found.second) continue;
    source.is_used = true;
    if (entry && !source.over) {
      return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                   "heddle: finding parameter {} of scope '{}' failed: both {} and {} have it; name one of them", shown, scope, file->path,
                   found.first->path);
    }
    std::tie(file, entry) = found;
    of = static_cast<uint32_t>(&source - sources_.data());
  }
  if (!entry && optional) return ParameterExtent();
  if (!entry) {
    std::string searched;
    for (const Source& source : sources_) {
      if (source.scope == scope) searched += (searched.empty() ? "" : ", ") + files_[source.first_file].path;
    }
    if (!searched.empty()) {
      return error(HEDDLE_STATUS_NOT_FOUND,
                   "heddle: finding parameter {} failed: no tensor of {} has that name; heddle params ls lists them", shown, searched);
    }
    return error(HEDDLE_STATUS_NOT_FOUND,
                 "heddle: finding parameter {} of {} failed: no file is given for its scope '{}'; pass one with "
                 "--params {}{}FILE",
                 shown, module.path(), scope, scope, scope.empty() ? "" : "=");
  }
  if (entry->block && !is_in_blocks(parameter)) {
    Result<ParameterExtent> blocks = blocks_of(*file, *entry, parameter);
    if (blocks.ok()) blocks->source = of;
    return blocks;
  }
  const bool is_such =
      entry->is_untyped || (is_in_blocks(parameter) ? has_such_blocks(*entry, parameter)
                                                    : entry->element_type == parameter.element_type() && has_dims(*entry, parameter));
  if (!is_such && is_in_blocks(parameter)) {
    return error(
        HEDDLE_STATUS_INVALID_ARGUMENT,
        "heddle: reading parameter {} from {} failed: the module reads blocks of {}, the file has {}; give a file with such blocks, or "
        "compile the model again with --params-in-values",
        shown, file->path, parameter_text(parameter), dtype_text(entry->dtype, entry->dims));
  }
  if (!is_such || entry->length != parameter.size_bytes()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "heddle: reading parameter {} from {} failed: the module expects {}, the file has {} of {}; give the file that was "
                 "written for this "
                 "model, or compile the model again",
                 shown, file->path, module::shape_text(parameter.element_type(), dims_of(parameter)),
                 module::shape_text(entry->element_type, entry->dims), entry->dtype);
  }
  ParameterExtent extent{file->descriptor, entry->offset, entry->length, file->identity, file->path};
  extent.source = of;
  extent.pattern = entry->pattern;
  extent.stays_in_blocks = is_in_blocks(parameter);
  return extent;
}

}  // namespace heddle::open
