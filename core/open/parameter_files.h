// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Locates each parameter of a module: in the module's own file, in a parameter file and its external data, or in shards of safetensors, according to its scope. Opens files
// and reads their indexes; reads no data. Used by core/submit when an instance is created.
#ifndef HEDDLE_CORE_OPEN_PARAMETER_FILES_H_
#define HEDDLE_CORE_OPEN_PARAMETER_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "core/open/file_identity.h"
#include "core/open/module.h"
#include "core/status.h"
#include "sdk/module/parameter_index.h"
#include "sdk/module/safetensors_shards.h"

namespace heddle::open {

// Bytes of an open file. Descriptor and path are borrowed from the module or from ParameterFiles.
struct ParameterExtent {
  static constexpr uint32_t kOfModule = UINT32_MAX;
  int descriptor = -1;
  uint64_t offset = 0;
  uint64_t length = 0;
  FileIdentity file{};
  std::string_view path;
  // If the values are stored in blocks: their type, and that of the values, whose bytes are `value_bytes` instead of `length`.
  const module::BlockType* block = nullptr;
  heddle_element_type_t type = HEDDLE_TYPE_UNDEFINED;
  uint64_t value_bytes = 0;
  uint32_t source = kOfModule;    // index of the file among those that were opened
  std::string_view pattern = {};  // repeated up to `length` instead of read, unless it is empty; borrowed like the path
  bool stays_in_blocks = false;   // kernels read the blocks of the file
};

// Whether the bytes of its file are read as they are, blocks of values.
inline bool is_in_blocks(const module_format::Parameter& parameter) {
  return parameter.blocks() != nullptr;
}
// "f32[2,64]", or "Q8_0[2,64]" for a parameter that is read as blocks.
std::string parameter_text(const module_format::Parameter& parameter);

class ParameterFiles {
 public:
  struct Named {
    std::string scope, path;
    bool over = false;  // laid over the earlier files of its scope: its tensors replace theirs
  };
  ParameterFiles() = default;
  ~ParameterFiles();
  ParameterFiles(const ParameterFiles&) = delete;
  ParameterFiles& operator=(const ParameterFiles&) = delete;

  // Opens the files and reads their indexes; an index of shards includes all of its shards, which must have the
  // tensors that it says. A scope may have several files.
  Status open(const std::vector<Named>& files);
  // NOT_FOUND if the module takes no tensor from one of the files. Fast for files in which something was found.
  Status check_use(const OpenModule& module) const;
  // The bytes of one parameter. NOT_FOUND names scope and parameter; INVALID_ARGUMENT tells how type or shape differ, or which two files contain it.
  // optional: if no file has it, that is no error, and the descriptor is -1.
  Result<ParameterExtent> find(const OpenModule& module, const module_format::Parameter& parameter, bool optional = false);

 private:
  struct File {
    std::string path;
    int descriptor = -1;
    FileIdentity identity{};
    std::string first_bytes;  // at most 8
    module::ParameterIndex index;
  };
  // The source named for a scope: a file and those of its external data, or an index of shards and these. They follow it in files_.
  struct Source {
    std::string scope;
    bool over = false;
    size_t first_file = 0;
    std::vector<module::ShardIndex::Entry> in_shards;  // empty if the file itself has the tensors
    bool is_used = false;                              // something was found in it
  };
  // Appends a file to files_, without its index.
  Status open_file(const std::string& path);
  // Fills in what the descriptor tells.
  static Status identify_file(File& file);
  Status read_index(File& file);
  // Appends the files of the external data of the last one.
  Status open_external_files();
  Status open_shards(Source& source);
  // The place of a tensor that is stored in blocks.
  static Result<ParameterExtent> blocks_of(const File& file, const module::ParameterEntry& entry,
                                           const module_format::Parameter& parameter);
  // Null if the source does not have the tensor.
  std::pair<const File*, const module::ParameterEntry*> find_in(const Source& source, std::string_view name) const;

  std::vector<File> files_;
  std::vector<Source> sources_;
};

}  // namespace heddle::open

#endif  // HEDDLE_CORE_OPEN_PARAMETER_FILES_H_
