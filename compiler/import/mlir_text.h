// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs that are handed over as MLIR text in the generic form, in dialects that MLIR does not know here: reading the text, and places in it. Used by
// the importers of StableHLO and of PyTorch's graphs; errors are thrown as Failure.
#pragma once

#include <set>
#include <string>

#include "compiler/import/onnx_file.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::import {

inline constexpr llvm::StringLiteral bytecode_magic = "ML\xefR";

// A format: its name, which begins all messages, and how a file in another form becomes text that can be read, from the path.
struct TextFormat {
  const char* name;
  std::string (*conversion)(const std::string& path);
  // Parts of what MLIR says about text that is not in the generic form.
  llvm::ArrayRef<llvm::StringRef> pretty;
};

[[noreturn]] void fail_file(const TextFormat& format, const std::string& path, const std::string& cause,
                            heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT);

// Parses the file. `prepare` may change the module before it is verified. Brackets are nested up to 256 deep.
mlir::OwningOpRef<mlir::ModuleOp> read_generic_text(const TextFormat& format, const std::string& path, mlir::MLIRContext& context,
                                                    llvm::function_ref<void(mlir::ModuleOp)> prepare = {});

// Refuses the file if the module has ops that `is_known` is not true for; the error lists all of them, each with its number and its first place.
// Functions, modules and terminators are not asked for.
void check_known_ops(const TextFormat& format, const std::string& path, mlir::ModuleOp module,
                     llvm::function_ref<bool(llvm::StringRef name)> is_known);

// The name that a location gives, the inner one of a call; empty if there is none.
std::string name_in(mlir::Location location);
// "#12", "model.mlir:12:10" or the name that the program gives
std::string describe_location(mlir::Location location);

// Names of arguments or results: those that a program notes, if they are usable, else others.
class UniqueNames {
 public:
  std::string take(mlir::Attribute noted, const std::string& otherwise);

 private:
  std::set<std::string> known_;
};

}  // namespace heddle::import
