// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes programs, images, parameters and the report into a .heddle file. The last step of the pipeline.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/kernels.h"
#include "compiler/ir/parameter_store.h"
#include "sdk/module/error.h"
#include "sdk/module/output_file.h"

namespace heddle::emit {

// Code of one target for all kernels of its family.
struct Image {
  std::string format, target;
  std::vector<char> code;
  std::vector<targets::KernelResources> resources;  // one per kernel
};

// Code that programs run on devices of one family: an executable of the file. A family has one, and one for each kernel of a target plugin.
struct FamilyCode {
  std::string name;  // "cpu", "cuda"
  Kernels kernels;
  std::vector<Image> images;
  std::map<std::string, std::vector<targets::Answer>> answers;  // of all strategies, by the names of kernels; for a report of plans alone
  std::string executable = {};                                  // its name; empty: that of the family
};

// The model after the passes for one combination of families; its tx.families has one per slot.
struct Combination {
  mlir::ModuleOp model;
  std::vector<std::string> families() const;
  std::string name() const;  // "cpu"; "cuda,cpu" where slots differ
};

// The files that a compilation writes. They appear together, once both are complete.
class OutputFiles {
 public:
  // parameters_path: .safetensors file for the parameters; empty: they are in the module.
  OutputFiles(const std::string& module_path, const std::string& parameters_path);
  // Fails if the files cannot be created, before there is anything to write.
  module::Status reserve();

  module::OutputFile& output() { return module_; }
  module::OutputFile* parameters() { return parameters_ ? &*parameters_ : nullptr; }
  module::Status commit();

 private:
  module::OutputFile module_;
  std::optional<module::OutputFile> parameters_;
};

// Where a parameter is that the module has.
struct WrittenParameter {
  enum Place : uint8_t { in_module, in_parameter_file, left_to_file };
  std::string scope, name;
  uint64_t bytes;
  Place place;
};

struct FileOptions {
  std::string name;                                   // of the module
  std::string report;                                 // JSON
  std::function<void(const std::string& text)> warn;  // may be empty
  std::vector<WrittenParameter>* written = nullptr;   // gets all parameters
  // The hash of a parameter that is left to a file, given by scope and name; empty: the module has none.
  std::function<module::Result<uint64_t>(const std::string& scope, const std::string& name)> hash_of_left = {};
};

// Schedules the functions of all combinations, which have the same functions, and writes the files. On failure no file is left.
module::Status write_module_file(const std::vector<Combination>& combinations, const std::vector<FamilyCode>& codes,
                                 const tx::ParameterStore& parameters, const FileOptions& options, OutputFiles& files);

}  // namespace heddle::emit
