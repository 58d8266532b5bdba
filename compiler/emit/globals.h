// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The module's memory that outlives a call: parameters, small constants, and values derived by the initializer. Filled while the host programs are
// scheduled.
#pragma once

#include <heddle_module/module_generated.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/parameter_store.h"
#include "llvm/ADT/StringMap.h"
#include "sdk/module/writer.h"

namespace heddle::emit {

// Bytes of a constant's data as a kernel expects them: little-endian, row-major, one byte per bool.
std::vector<char> constant_bytes(mlir::ElementsAttr value);

class Globals {
 public:
  Globals(module_format::ModuleT& module, module::ModuleWriter& writer) : module_(module), writer_(writer) {}

  // Parameters are shared by all combinations of families; derived values and large splats belong to one combination.
  void begin_combination(llvm::StringRef name);

  // Index of the slot's global for a tx.parameter; a derived one is written by the initializer. Slots share the data in the file.
  uint32_t parameter(tx::ParameterOp op, uint32_t slot, bool in_initializer);
  // Index of the slot's global for a tx.constant that a kernel reads from memory.
  uint32_t constant(tx::ConstantOp op, uint32_t slot, bool in_initializer);
  // Index of the slot's derived global of that name.
  uint32_t derived(llvm::StringRef name, uint32_t slot, uint64_t size_bytes);

  // Index of the global that keeps an argument of the function between calls; the same for all combinations.
  uint32_t state(llvm::StringRef function, llvm::StringRef argument, uint32_t slot, uint64_t size_bytes);

  // Large splats of this combination, which its initializer fills in.
  struct Fill {
    uint32_t global;
    uint64_t pattern;
    uint32_t pattern_bytes;
  };
  const std::vector<Fill>& fills() const { return fills_; }

  // Why the globals requested so far contradict each other, or an empty text. Kernels take sizes from the types they were made for, so a global with
  // two sizes would mean an access beyond its end.
  const std::string& mistake() const { return mistake_; }

 private:
  uint32_t add(std::unique_ptr<module_format::GlobalT> global);
  void note_use(uint32_t index, bool in_initializer);
  void check_size(uint32_t index, uint64_t size_bytes);

  module_format::ModuleT& module_;
  module::ModuleWriter& writer_;
  std::string combination_, mistake_;
  std::map<std::pair<std::string, std::string>, uint32_t> parameters_;  // index in the module, by scope and name
  std::vector<bool> is_left_;                                           // to a file, by index in the module
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> of_parameters_;     // parameters' globals, by index and slot
  llvm::StringMap<uint32_t> derived_by_name_;                           // with their combination
  std::map<std::pair<std::string, std::string>, uint32_t> states_;      // by function and argument
  llvm::DenseMap<mlir::Attribute, module_format::Range> data_;          // of stored constants
  llvm::DenseMap<std::pair<mlir::Attribute, uint32_t>, uint32_t> stored_, filled_;
  std::vector<Fill> fills_;
};

}  // namespace heddle::emit
