// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a .heddle file. Used by compiler/emit and by tests; the same pieces in the same order give the same bytes. The file appears
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
  // An image; the range goes into VariantT::code. The same bytes again give the same range.
  module_format::Range add_code(std::span<const std::byte> image);
  // Small data; the range goes into GlobalT::data of a constant. The same bytes again give the same range.
  module_format::Range add_constant(std::span<const std::byte> data);
  // Bytes of ModuleT::parameters[index]. A parameter that has a source is stored in the file, one without is looked for in a
  // file of its scope.
  void set_parameter(uint32_t index, ParameterSource source);

  // Fills in what follows from the pieces (stored, data and hash of parameters; size_bytes of parameter and constant
  // globals), checks all of it as a reader would, and writes. On failure nothing is left behind, and a file that was there
  // before stays. INVALID_ARGUMENT for a module that does not pass the verifier.
  Status write(module_format::ModuleT& module, const std::string& path);
  // The same up to the file's name: the caller commits `file`, which is new, or drops it.
  Status prepare(module_format::ModuleT& module, OutputFile& file);

 private:
  std::vector<std::byte> code_;
  std::vector<std::byte> constants_;
  std::map<std::string, module_format::Range> known_constants_;
  std::vector<module_format::Range> images_;
  std::map<uint32_t, ParameterSource> sources_;
};

}  // namespace heddle::module
