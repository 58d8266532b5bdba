// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes programs, images, parameters and the report into a .heddle file. The last step of the pipeline.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/emit/kernels.h"
#include "compiler/ir/parameter_store.h"
#include "sdk/module/error.h"

namespace heddle::emit {

// Code of one target for all kernels of its family.
struct Image {
  std::string format, target;
  std::vector<char> code;
  std::vector<targets::KernelResources> resources;  // one per kernel
};

// The code that all programs run on devices of one family: an executable of the file.
struct FamilyCode {
  std::string name;  // "cpu", "cuda"
  Kernels kernels;
  std::vector<Image> images;
  std::map<std::string, std::vector<targets::Answer>> answers;  // of all strategies, by the names of kernels; for a report of plans alone
};

// The model after the passes for one combination of families; its tx.families has one per slot.
struct Combination {
  mlir::ModuleOp model;
  std::vector<std::string> families() const;
  std::string name() const;  // "cpu"; "cuda,cpu" where slots differ
};

struct FileOptions {
  std::string output_path;
  std::string parameters_path;  // .safetensors file for the parameters; empty: they are in the module
  std::string name;             // of the module
  std::string report;           // JSON
};

// Schedules the functions of all combinations, which have the same functions, and writes the file. On failure no file is left.
module::Status write_module_file(const std::vector<Combination>& combinations, const std::vector<FamilyCode>& codes,
                                 const tx::ParameterStore& parameters, const FileOptions& options);

}  // namespace heddle::emit
