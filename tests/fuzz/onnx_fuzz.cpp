// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file of any bytes: it is refused with one error text, or what was imported is valid IR that the passes take through to
// host programs, or the target refuses a kernel with an error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "compiler/import/onnx_importer.h"
#include "mlir/IR/Diagnostics.h"
#include "tests/fuzz/imported_model.h"

namespace {

using heddle::fuzz::require;

// Operators of a foreign domain that a model may have, and of the default one that a plugin may run.
const heddle::import::Operators& declared() {
  static const heddle::import::Operators* operators = [] {
    static constexpr char text[] =
        "[[operator]]\ndomain = 'test'\nname = 'Scale'\ninputs = ['x', 'y?']\noutputs = [{ like = 'x' }]\n"
        "attributes = { factor = { type = 'float', default = 2.0 }, mode = { type = 'string', default = '' } }\n"
        "[[operator]]\ndomain = 'test'\nname = 'Butterfly'\ninputs = ['a', 'b']\n"
        "outputs = [{ like = 'a' }, { type = 'b' }, { type = 'i64', dims = ['a.0', 4, 'b.1'] }]\n"
        "attributes = { axes = { type = 'ints' }, weights = { type = 'floats' }, tag = { type = 'int' } }\n"
        "[[operator]]\ndomain = 'ai.onnx'\nname = 'Softmax'\nversion = 13\ninputs = ['x']\noutputs = [{ like = 'x' }]\n"
        "attributes.axis = { type = 'int', default = -1 }\n"
        "[[operator]]\ndomain = 'ai.onnx'\nname = 'Softmax'\nversion = 11\ninputs = ['x']\noutputs = [{}]\n"
        "attributes.axis = { type = 'int', default = 1 }\n"
        "[[operator]]\ndomain = ''\nname = 'Gelu'\nversion = 20\ninputs = ['x']\noutputs = [{ like = 'x' }]\n"
        "attributes.approximate = { type = 'string', default = 'none' }\n"
        "[[operator]]\ndomain = ''\nname = 'Clip'\nversion = 13\ninputs = ['x', 'low?', 'high?']\noutputs = [{ like = 'x' }]\n"
        "[[operator]]\ndomain = ''\nname = 'MatMul'\nversion = 13\ninputs = ['a', 'b']\noutputs = [{ type = 'a' }]\n"
        "[[operator]]\ndomain = ''\nname = 'Slice'\nversion = 13\ninputs = ['x', 's', 'e', 'a?', 't?']\noutputs = [{ type = 'x' }]\n"
        "[[operator]]\ndomain = ''\nname = 'Reshape'\nversion = 14\ninputs = ['x', 's']\noutputs = [{}]\n"
        "[[operator]]\ndomain = ''\nname = 'Conv'\nversion = 11\ninputs = ['x', 'w', 'b?']\noutputs = [{}]\n";
    const int descriptor = memfd_create("operators.toml", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, text, sizeof text - 1) != static_cast<ssize_t>(sizeof text - 1)) std::abort();
    auto* read = new heddle::import::Operators;
    const std::string wrong = read->add("/proc/self/fd/" + std::to_string(descriptor));
    require(wrong.empty(), "the operators are refused", wrong);
    close(descriptor);
    return read;
  }();
  return *operators;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int descriptor = memfd_create("model.onnx", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    heddle::fuzz::load_dialects(context);
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& diagnostic) { said += diagnostic.str() + "; "; });
    heddle::tx::ParameterStore parameters;
    heddle::import::ImportError error;
    auto module =
        heddle::import::import_onnx("/proc/self/fd/" + std::to_string(descriptor), context, parameters, error, {{}, nullptr, &declared()});
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
