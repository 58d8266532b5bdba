// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where each parameter of a module is: in the module's own file, or in a safetensors file of its scope. Opens files and reads their
// indexes; reads no data. Used by core/submit when an instance is made.
#ifndef HEDDLE_CORE_OPEN_PARAMETER_FILES_H_
#define HEDDLE_CORE_OPEN_PARAMETER_FILES_H_

#include <string>
#include <vector>

#include "core/open/file_identity.h"
#include "core/open/module.h"
#include "core/status.h"
#include "sdk/module/safetensors.h"

namespace heddle::open {

// Bytes of an open file. The descriptor is borrowed from the module or from ParameterFiles.
struct ParameterExtent {
  int descriptor = -1;
  uint64_t offset = 0;
  uint64_t length = 0;
  FileIdentity file{};
  std::string path;
};

class ParameterFiles {
 public:
  struct Named {
    std::string scope, path;
  };
  ParameterFiles() = default;
  ~ParameterFiles();
  ParameterFiles(const ParameterFiles&) = delete;
  ParameterFiles& operator=(const ParameterFiles&) = delete;

  // Opens the files and reads their indexes. INVALID_ARGUMENT for a scope named twice.
  Status open(const std::vector<Named>& files);
  // The bytes of one parameter. NOT_FOUND names scope and parameter; INVALID_ARGUMENT says how type or shape differ.
  Result<ParameterExtent> find(const OpenModule& module, const module_format::Parameter& parameter);

 private:
  struct File {
    std::string scope, path;
    int descriptor = -1;
    FileIdentity identity{};
    module::SafetensorsIndex index;
  };
  std::vector<File> files_;
};

}  // namespace heddle::open

#endif  // HEDDLE_CORE_OPEN_PARAMETER_FILES_H_
