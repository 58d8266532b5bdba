// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finished pieces to a .heddle file: programs, images, parameters, report. The last step of the pipeline.
#pragma once

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

// What one family of devices runs: the model after that family's passes, its kernels and their code.
struct Family {
  std::string name;  // "cpu", "cuda"
  mlir::ModuleOp model;
  Kernels kernels;
  std::vector<Image> images;
};

struct FileOptions {
  std::string output_path;
  std::string parameters_path;  // .safetensors to hold the parameters; empty: the module itself
  std::string name;             // of the module
  std::string report;           // JSON
};

// Schedules the functions of all families, which are the same ones, and writes the file. On failure no file is left.
module::Status write_module_file(const std::vector<Family>& families, const tx::ParameterStore& parameters, const FileOptions& options);

}  // namespace heddle::emit
