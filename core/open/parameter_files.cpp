// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening parameter files and finding parameters in them.
// Called through parameter_files.h; the format itself is read by sdk/module.
#include "core/open/parameter_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sdk/module/element_types.h"

namespace heddle::open {

ParameterFiles::~ParameterFiles() {
  for (const File& file : files_) ::close(file.descriptor);
}

Status ParameterFiles::open(const std::vector<Named>& files) {
  files_.reserve(files.size());  // so that a descriptor always has an owner
  for (const Named& named : files) {
    for (const File& other : files_) {
      if (other.scope == named.scope) {
        return error(HEDDLE_STATUS_INVALID_ARGUMENT, "heddle: opening parameter file {} failed: scope '{}' already has {}", named.path,
                     named.scope, other.path);
      }
    }
    int descriptor = ::open(named.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) {
      int code = errno;
      return error(code == ENOENT   ? HEDDLE_STATUS_NOT_FOUND
                   : code == EACCES ? HEDDLE_STATUS_PERMISSION_DENIED
                                    : HEDDLE_STATUS_UNAVAILABLE,
                   "heddle: opening parameter file {} failed: {}", named.path, std::strerror(code));
    }
    files_.push_back({named.scope, named.path, descriptor, {}, {}});
    Result<FileIdentity> identity = identify(descriptor, named.path);
    if (!identity.ok()) return identity.take_status();
    files_.back().identity = *identity;
    module::Result<module::SafetensorsIndex> index = module::read_safetensors_index(descriptor, (*identity)[kFileSize], named.path);
    if (!index.ok()) return to_status(index.error(), "");
    files_.back().index = std::move(index.value());
  }
  return Status();
}

Result<ParameterExtent> ParameterFiles::find(const OpenModule& module, const module_format::Parameter& parameter) {
  if (parameter.stored()) {
    module::FileExtent extent = module.file().parameter_extent(parameter);
    Result<FileIdentity> identity = identify(extent.descriptor, module.path());
    if (!identity.ok()) return identity.take_status();
    if (extent.offset > (*identity)[kFileSize] || extent.length > (*identity)[kFileSize] - extent.offset) {
      return error(HEDDLE_STATUS_DATA_LOSS, "heddle: reading parameter '{}' of {} failed: bytes [{}, {}) are past the end at {}",
                   parameter.name()->string_view(), module.path(), extent.offset, extent.offset + extent.length, (*identity)[kFileSize]);
    }
    if (const std::string change = change_since(module.identity(), extent.descriptor); !change.empty()) {
      return error(HEDDLE_STATUS_DATA_LOSS, "heddle: reading parameter '{}' (bytes [{}, {})) of {} failed: {}; open the module again",
                   parameter.name()->string_view(), extent.offset, extent.offset + extent.length, module.path(), change);
    }
    return ParameterExtent{extent.descriptor, extent.offset, extent.length, *identity, module.path()};
  }
  std::string scope = parameter.scope()->str(), name = parameter.name()->str();
  auto file = std::find_if(files_.begin(), files_.end(), [&](const File& one) { return one.scope == scope; });
  if (file == files_.end()) {
    return error(HEDDLE_STATUS_NOT_FOUND,
                 "heddle: finding parameter '{}' of {} failed: no file is given for its scope '{}'; pass one with "
                 "--params {}FILE.safetensors",
                 name, module.path(), scope, scope.empty() ? scope : scope + "=");
  }
  const module::SafetensorsEntry* entry = file->index.find(name);
  if (!entry) {
    return error(HEDDLE_STATUS_NOT_FOUND, "heddle: finding parameter '{}' failed: {} has {} tensors and none of that name", name,
                 file->path, file->index.entries().size());
  }
  std::vector<int64_t> dims(parameter.dims()->begin(), parameter.dims()->end());
  if (entry->element_type != parameter.element_type() || entry->dims != dims || entry->length != parameter.size_bytes()) {
    return error(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "heddle: reading parameter '{}' from {} failed: the module expects {}, the file has {} of {}", name, file->path,
                 module::shape_text(parameter.element_type(), dims), module::shape_text(entry->element_type, entry->dims), entry->dtype);
  }
  return ParameterExtent{file->descriptor, entry->offset, entry->length, file->identity, file->path};
}

}  // namespace heddle::open
