// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/mlir_text.h"

#include <algorithm>
#include <map>

#include "compiler/import/refuse_text.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace heddle::import {
namespace {

constexpr size_t longest_name_bytes = 4096;

std::string file_in(Location location) {
  if (auto file = llvm::dyn_cast<FileLineColLoc>(location)) {
    const StringRef path = file.getFilename().getValue();
    return path.substr(path.rfind('/') + 1).str() + ":" + std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
  }
  if (auto call = llvm::dyn_cast<CallSiteLoc>(location)) return file_in(call.getCallee());
  if (auto name = llvm::dyn_cast<NameLoc>(location)) return file_in(name.getChildLoc());
  if (auto fused = llvm::dyn_cast<FusedLoc>(location)) {
    for (Location one : fused.getLocations()) {
      if (std::string file = file_in(one); !file.empty()) return file;
    }
  }
  return {};
}

}  // namespace

void fail_file(const TextFormat& format, const std::string& path, const std::string& cause, heddle_status_code_t code) {
  throw Failure{code, std::string(format.name) + ": importing '" + path + "' failed: " + cause, cause};
}

OwningOpRef<ModuleOp> read_generic_text(const TextFormat& format, const std::string& path, MLIRContext& context,
                                        llvm::function_ref<void(ModuleOp)> prepare) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/true);
  if (!buffer) fail_file(format, path, "reading it failed: " + buffer.getError().message() + "; check the path", HEDDLE_STATUS_NOT_FOUND);
  const StringRef text = (*buffer)->getBuffer();
  if (text.starts_with(bytecode_magic)) {
    fail_file(format, path, "it is bytecode of MLIR, which the compiler does not read; " + format.conversion(path),
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  if (std::string cause = refuse_text(text); !cause.empty()) fail_file(format, path, cause);
  std::string said, where;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic& diagnostic) {
    if (!said.empty() || diagnostic.getSeverity() != DiagnosticSeverity::Error) return;
    said = diagnostic.str();
    where = describe_location(diagnostic.getLocation());
  });
  const bool allowed = context.allowsUnregisteredDialects(), prints = context.shouldPrintOpOnDiagnostic();
  context.allowUnregisteredDialects(true);
  context.printOpOnDiagnostic(false);  // real literals of complex constants are parsed, and printing them crashes
  auto restore = llvm::make_scope_exit([&] {
    context.allowUnregisteredDialects(allowed);
    context.printOpOnDiagnostic(prints);
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context, /*verifyAfterParse=*/false), path);
  if (module && prepare) prepare(*module);
  if (module && succeeded(verify(*module))) return module;
  const std::string at = where.empty() ? "" : " at " + where;
  if (llvm::any_of(format.pretty, [&](StringRef mark) { return StringRef(said).contains(mark); })) {
    fail_file(format, path, "it is not in the generic form of MLIR's text (" + said + at + "); " + format.conversion(path),
              HEDDLE_STATUS_UNIMPLEMENTED);
  }
  fail_file(format, path,
            "MLIR cannot read it" + at + ": " + said + "; if it is not in the generic form of MLIR's text, " + format.conversion(path));
}

void check_known_ops(const TextFormat& format, const std::string& path, ModuleOp module, llvm::function_ref<bool(StringRef)> is_known) {
  struct Kind {
    std::string where;
    size_t count = 0;
  };
  std::map<std::string, Kind> kinds;
  size_t all = 0;
  module.walk([&](Operation* op) {
    if (llvm::isa<ModuleOp, func::FuncOp>(op) || op->hasTrait<OpTrait::IsTerminator>()) return;
    const StringRef name = op->getName().getStringRef();
    if (is_known(name)) return;
    Kind& kind = kinds[name.str()];
    if (kind.count++ == 0) kind.where = describe_location(op->getLoc());
    ++all;
  });
  if (kinds.empty()) return;
  std::string list;
  constexpr size_t most = 32;
  size_t listed = 0;
  for (const auto& [name, kind] : kinds) {
    if (++listed > most) break;
    list += (list.empty() ? "" : ", ") + ("'" + name + "'") +
            (kind.count > 1 ? " (" + std::to_string(kind.count) + " times, first at " : " (at ") + kind.where + ")";
  }
  if (kinds.size() > most) list += " and " + std::to_string(kinds.size() - most) + " more";
  fail_file(format, path, (all == 1 ? "an op is not supported: " : std::to_string(all) + " ops are not supported: ") + list,
            HEDDLE_STATUS_UNIMPLEMENTED);
}

std::string name_in(Location location) {
  if (auto name = llvm::dyn_cast<NameLoc>(location)) return printable(name.getName().str());
  if (auto call = llvm::dyn_cast<CallSiteLoc>(location)) return name_in(call.getCallee());
  if (auto fused = llvm::dyn_cast<FusedLoc>(location)) {
    for (Location one : fused.getLocations()) {
      if (std::string name = name_in(one); !name.empty()) return name;
    }
  }
  return {};
}

std::string describe_location(Location location) {
  const std::string name = name_in(location), file = file_in(location);
  if (name.empty()) return file;
  return file.empty() ? "'" + name + "'" : "'" + name + "' (" + file + ")";
}

std::string UniqueNames::take(Attribute noted, const std::string& otherwise) {
  auto text = llvm::dyn_cast_or_null<StringAttr>(noted);
  if (text && !text.getValue().empty() && text.getValue().size() <= longest_name_bytes && !text.getValue().contains('\0') &&
      is_utf8(text.str()) && known_.insert(text.str()).second)
    return text.str();
  std::string name = otherwise;
  for (int i = 1; !known_.insert(name).second; ++i) name = otherwise + "_" + std::to_string(i);
  return name;
}

}  // namespace heddle::import
