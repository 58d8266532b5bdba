// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file of any bytes: it is refused with one error text, or what was imported is valid IR that the passes take through to
// dispatches, and the target has kernels, or an error, for.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/code/target_devices.h"
#include "compiler/emit/kernels.h"
#include "compiler/import/onnx_importer.h"
#include "compiler/pipeline.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

namespace {

void require(bool condition, const char* what, const std::string& detail) {
  if (condition) return;
  std::fprintf(stderr, "onnx_fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

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
  int descriptor = memfd_create("model.onnx", MFD_CLOEXEC);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    mlir::DialectRegistry registry;
    registry.insert<heddle::tx::TxDialect, mlir::func::FuncDialect>();
    heddle::targets::register_x86_64_dialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    std::string said;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic& diagnostic) { said += diagnostic.str() + "; "; });
    heddle::tx::ParameterStore parameters;
    heddle::import::ImportError error;
    auto module = heddle::import::import_onnx(path, context, parameters, error, {{}, nullptr, &declared()});
    if (!module) {
      require(error.code != HEDDLE_STATUS_OK && !error.message.empty(), "a failure without an error", "");
    } else {
      require(mlir::succeeded(mlir::verify(*module)), "the importer made invalid IR", said);
      mlir::PassManager passes(&context);
      const heddle::compiler::TargetDevices devices({{"cpu", "x86-64-v3"}}, heddle::targets::Math::strict);
      heddle::compiler::add_model_passes(passes);
      heddle::compiler::add_combination_passes(passes, devices);
      mlir::Builder builder(&context);
      (*module)->setAttr(heddle::tx::families_attr, builder.getStrArrayAttr({"cpu"}));
      require(mlir::succeeded(passes.run(*module)), "a pass failed", said);
      auto target = heddle::targets::make_x86_64_target("x86-64-v3");
      heddle::emit::Kernels kernels;
      kernels.add(*module, "cpu");
      mlir::OwningOpRef<mlir::ModuleOp> code = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
      for (const heddle::emit::Kernel& kernel : kernels.all()) {
        std::vector<heddle::targets::Answer> answers;
        auto plans = target->plans(kernel.region, {}, &answers);
        if (mlir::failed(plans) || mlir::failed(target->emit(kernel.region, plans->front(), kernel.symbol, *code))) {
          require(!said.empty(), "a kernel was refused without a word", "");
          break;
        }
      }
    }
  }
  close(descriptor);
  return 0;
}
