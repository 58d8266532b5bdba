// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// StableHLO text of any bytes: it is refused with one error text, or what was imported is valid IR that the passes take through to host programs, or
// the target refuses a kernel with an error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "compiler/import/stablehlo_importer.h"
#include "mlir/IR/Diagnostics.h"
#include "tests/fuzz/imported_model.h"

using heddle::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("program.mlir", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    heddle::fuzz::load_dialects(context);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& diagnostic) { said += diagnostic.str() + "; "; });
    heddle::tx::ParameterStore parameters;
    heddle::import::ImportError error;
    auto module = heddle::import::import_stablehlo("/proc/self/fd/" + std::to_string(descriptor), context, parameters, error);
    if (module) {
      heddle::fuzz::compile_imported(*module, said);
    } else {
      require(error.code != HEDDLE_STATUS_OK && !error.message.empty(), "a failure without an error");
      require(error.code != HEDDLE_STATUS_INTERNAL, "an internal error", error.message);
    }
  }
  close(descriptor);
  return 0;
}
