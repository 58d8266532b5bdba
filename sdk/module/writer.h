// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a .heddle file. Used by compiler/emit and by tests; the same parts in the same order give the same bytes. The file appears
// under its name only when it is complete and has passed the verifier.
#pragma once

#include <heddle_module/module_generated.h>

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sdk/module/error.h"
#include "sdk/module/output_file.h"
#include "sdk/module/parameter_source.h"

namespace heddle::module {

class ModuleWriter {
 public:
  // Adds an image; the returned range goes into VariantT::code. Equal bytes give the same range.
  module_format::Range add_code(std::span<const std::byte> image);
  // Adds small data; the returned range goes into GlobalT::data of a constant. Equal bytes give the same range.
  module_format::Range add_constant(std::span<const std::byte> data);
  // Sets the bytes of ModuleT::parameters[index]. A parameter with a source is stored in the file, one without is searched for in a file of
  // its scope.
  void set_parameter(uint32_t index, ParameterSource source);

  // Fills in the derived fields (stored and data of parameters, the hash of those with a source; size_bytes of parameter and constant globals), checks everything as a reader
  // would, and writes. On failure nothing is left behind, and an existing file is unchanged. INVALID_ARGUMENT for a module that does not pass the
  // verifier.
  Status write(module_format::ModuleT& module, const std::string& path);
  // The same without naming the file: the caller commits `file`, which is new, or drops it.
  Status prepare(module_format::ModuleT& module, OutputFile& file);

 private:
  std::vector<std::byte> code_;
  std::vector<std::byte> constants_;
  std::map<std::string, module_format::Range> known_constants_;
  std::vector<module_format::Range> images_;
  std::map<uint32_t, ParameterSource> sources_;
};

}  // namespace heddle::module
