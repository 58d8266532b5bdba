// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the whole compiler, with the reason of each step. Knows every room of compiler/, and does no work of its own.
#include "compiler/pipeline.h"

#include <optional>

#include "compiler/emit/module_file.h"
#include "compiler/import/onnx_importer.h"
#include "compiler/passes/passes.h"
#include "compiler/report.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/cuda/machine_code.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "heddle/code.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "sdk/module/output_file.h"

using namespace mlir;

namespace heddle::compiler {

void add_model_passes(PassManager& passes) {
  // Factors a channel are easier to move than a normalization.
  passes.addNestedPass<func::FuncOp>(passes::decompose_batch_norm());
  // Channels-last throughout: afterwards a convolution, its bias and its activation stand together.
  passes.addNestedPass<func::FuncOp>(passes::propagate_transposes());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // Where a layer's result is quantized and read back, floats stay floats, and so part of its kernel.
  passes.addNestedPass<func::FuncOp>(passes::fold_casts());
  // Factors go into the filters while these are still in their plain layout.
  passes.addNestedPass<func::FuncOp>(passes::fold_scales());
  passes.addPass(createCanonicalizerPass());
}

void add_family_passes(PassManager& passes, std::string_view family) {
  // Filters in the panels of the CPU's microkernels. Other families read them as they are.
  if (family == "cpu") passes.addNestedPass<func::FuncOp>(passes::pack_weights());
  passes.addPass(createCSEPass());
  // What is known at load is computed at load, packing included.
  passes.addPass(passes::hoist_constants());
  passes.addPass(createCSEPass());
  // One kernel each from here on.
  passes.addPass(passes::form_dispatches());
}

namespace {

// Collects diagnostics, so that a failure's text names what MLIR said first.
class Diagnostics {
 public:
  explicit Diagnostics(MLIRContext& context)
      : handler_(&context, [this](Diagnostic& diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !text_.empty()) return;
          llvm::raw_string_ostream stream(text_);
          if (auto name = llvm::dyn_cast<NameLoc>(diagnostic.getLocation())) stream << "node '" << name.getName().str() << "': ";
          stream << diagnostic.str();
        }) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  ScopedDiagnosticHandler handler_;
};

void register_dialects(MLIRContext& context) {
  DialectRegistry registry;
  registry.insert<tx::TxDialect, func::FuncDialect>();
  targets::register_x86_64_dialects(registry);
  targets::register_cuda_dialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

std::string print(ModuleOp module, bool with_locations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  if (with_locations) flags.enableDebugInfo(true, false);
  module.print(stream, flags);
  return text;
}

// A text file, opened before its text is known. It appears when it is complete, and not at all if nothing is written; "-", a pipe or a
// terminal is written to as it is.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path) {
    if (path == "-" || (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))) return;
    file_.emplace(path);
    note(file_->open());
  }
  const Failure& failure() const { return failure_; }
  Failure write(const std::string& text) {
    if (failure_) return failure_;
    if (file_) {
      module::Status error = file_->append(std::as_bytes(std::span(text)));
      note(error ? error : file_->commit(/*flush_to_disk=*/false));
      return failure_;
    }
    std::error_code error;
    llvm::raw_fd_ostream stream(path_, error);
    if (!error) {
      stream << text;
      stream.close();
      error = stream.error();
      stream.clear_error();
    }
    if (!error) return {};
    return {HEDDLE_STATUS_UNAVAILABLE,
            "compiler: writing '" + path_ + "' failed: " + error.message() + "; check the path and the free space"};
  }

 private:
  void note(const module::Status& error) {
    if (error) failure_ = {error->code, error->message};
  }

  std::string path_;
  std::optional<module::OutputFile> file_;
  Failure failure_;
};

Failure write_text(const std::string& path, const std::string& text) {
  return TextFile(path).write(text);
}

// The IR after one pass, for --dump-after.
struct DumpAfter : PassInstrumentation {
  DumpAfter(std::string pass, std::string* text) : pass_(std::move(pass)), text_(text) {}
  void runAfterPass(Pass* pass, Operation* op) override {
    if (pass->getArgument() != pass_) return;
    auto module = llvm::dyn_cast<ModuleOp>(op);
    if (!module) module = op->getParentOfType<ModuleOp>();
    *text_ = print(module, false);
  }
  std::string pass_;
  std::string* text_;
};

bool ends_with_mlir(const std::string& path) {
  return llvm::StringRef(path).ends_with(".mlir");
}

// Model file to tx.
Failure import_model(const Options& options, MLIRContext& context, tx::ParameterStore& parameters, OwningOpRef<ModuleOp>& module) {
  if (ends_with_mlir(options.input_path)) {
    module = parseSourceFile<ModuleOp>(options.input_path, &context);
    if (!module) return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: reading '" + options.input_path + "' failed"};
    return {};
  }
  import::ImportError error;
  module = import::import_onnx(options.input_path, context, parameters, error);
  if (!module) return {error.code, error.message};
  return {};
}

std::unique_ptr<targets::Target> make_target(const std::string& family, const std::string& level) {
  if (family == "cpu") return targets::make_x86_64_target(level);
  if (family == "cuda") return targets::make_cuda_target(level);
  return nullptr;
}

// The newest image of the family, as machine code too, with what the device's own compiler says of it.
Failure add_machine_code(const std::string& ptxas, emit::Family& family) {
  emit::Image image = family.images.back();
  image.format = HEDDLE_CODE_CUBIN;
  auto machine = targets::assemble_ptx(ptxas, image.target, image.code);
  if (!machine) return {HEDDLE_STATUS_UNAVAILABLE, "compiler: " + llvm::toString(machine.takeError())};
  image.code = std::move(machine->code);
  for (const targets::AssembledKernel& assembled : machine->kernels) {
    for (auto [kernel, resources] : llvm::zip_equal(family.kernels.all(), image.resources)) {
      if (kernel.symbol != assembled.name) continue;
      resources.registers = assembled.registers;
      resources.spilled_bytes = assembled.spilled_bytes;
    }
  }
  family.images.push_back(std::move(image));
  return {};
}

// One image a level: plan once, since the grid is the host program's, then a kernel for each region.
Failure generate(const Options& options, emit::Family& family, MLIRContext& context, unsigned& done) {
  if (family.kernels.all().empty()) return {};  // a model of views and copies needs no code
  bool planned = false;
  for (const auto& [name, level] : options.targets) {
    if (name != family.name) continue;
    auto target = make_target(name, level);
    emit::Image image{target->format(), target->name(), {}, {}};
    OwningOpRef<ModuleOp> code = ModuleOp::create(UnknownLoc::get(&context));
    for (emit::Kernel& kernel : family.kernels.all()) {
      if (!planned) {
        auto plan = target->plan(kernel.region);
        if (failed(plan)) return {HEDDLE_STATUS_UNIMPLEMENTED, "compiler: planning region '" + kernel.region.getName().str() + "' failed"};
        kernel.plan = *plan;
      }
      auto resources = target->emit(kernel.region, kernel.plan, kernel.symbol, *code);
      if (failed(resources)) {
        return {HEDDLE_STATUS_UNIMPLEMENTED,
                "compiler: generating region '" + kernel.region.getName().str() + "' for " + level + " failed"};
      }
      image.resources.push_back(std::move(*resources));
    }
    planned = true;
    auto bytes = target->assemble(*code);
    if (failed(bytes)) return {HEDDLE_STATUS_INTERNAL, "compiler: assembling " + level + " failed"};
    image.code = std::move(*bytes);
    family.images.push_back(std::move(image));
    if (name == "cuda" && !options.ptxas.empty()) {
      if (Failure failure = add_machine_code(options.ptxas, family)) return failure;
    }
    if (options.progress && !options.progress("code", ++done, options.targets.size())) {
      return {HEDDLE_STATUS_CANCELLED, "compiler: cancelled"};
    }
  }
  return {};
}

Failure run(const Options& options, MLIRContext& context, OwningOpRef<ModuleOp>& module, std::string& reproducer) {
  StageTimes times;
  auto going_on = [&](std::string_view stage, unsigned done) { return !options.progress || options.progress(stage, done, 4); };
  const Failure cancelled{HEDDLE_STATUS_CANCELLED, "compiler: cancelled"};
  for (const auto& [family, level] : options.targets) {
    if (make_target(family, level)) continue;
    return {HEDDLE_STATUS_INVALID_ARGUMENT,
            "compiler: target '" + family + ":" + level + "' is not known; use cpu:x86-64-v3, cpu:x86-64-v4, cuda:sm_80 or cuda:sm_90a"};
  }

  if (!options.ptxas.empty() && llvm::none_of(options.targets, [](const auto& target) { return target.first == "cuda"; })) {
    return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: ptxas '" + options.ptxas + "' is given and no target is cuda; add --target cuda"};
  }

  // A report that cannot be written is told before the work is done.
  std::optional<TextFile> report_file;
  if (!options.report_path.empty()) {
    report_file.emplace(options.report_path);
    if (Failure failure = report_file->failure()) return failure;
  }
  if (!going_on("import", 0)) return cancelled;
  tx::ParameterStore parameters;
  if (Failure failure = import_model(options, context, parameters, module)) return failure;
  if (failed(verify(*module))) return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: the imported model is not valid"};
  times.done("import");

  if (!going_on("passes", 1)) return cancelled;
  if (!options.reproducer_path.empty()) reproducer = print(*module, true);
  std::string dump;
  auto run_passes = [&](ModuleOp target, const std::function<void(PassManager&)>& add) {
    PassManager passes(&context);
    if (!options.dump_after.empty() && dump.empty()) passes.addInstrumentation(std::make_unique<DumpAfter>(options.dump_after, &dump));
    add(passes);
    return succeeded(passes.run(target));
  };
  bool passed = run_passes(*module, add_model_passes);
  std::vector<emit::Family> families;
  std::vector<OwningOpRef<ModuleOp>> models;
  for (const auto& [family, level] : options.targets) {
    if (!passed) break;
    if (!families.empty() && families.back().name == family) continue;
    models.push_back(module->clone());
    passed = run_passes(*models.back(), [&, family = family](PassManager& passes) { add_family_passes(passes, family); });
    families.push_back({family, *models.back(), {}, {}});
  }
  if (!passed) return {HEDDLE_STATUS_INTERNAL, "compiler: a pass failed"};
  if (!options.dump_after.empty()) {
    if (dump.empty()) {
      return {HEDDLE_STATUS_NOT_FOUND, "compiler: no pass '" + options.dump_after + "' was run; see docs/compiler.md for their names"};
    }
    if (Failure failure = write_text(options.dump_path, dump)) return failure;
  }
  times.done("passes");

  if (!going_on("code", 2)) return cancelled;
  unsigned images_done = 0;
  for (emit::Family& family : families) {
    family.kernels = emit::Kernels::collect(family.model);
    if (Failure failure = generate(options, family, context, images_done)) return failure;
  }
  times.done("code");

  if (!going_on("write", 3)) return cancelled;
  emit::FileOptions file;
  file.output_path = options.output_path;
  file.parameters_path = options.parameters_path;
  file.name = llvm::sys::path::stem(options.input_path).str();
  file.report = report(families);
  if (heddle::module::Status error = emit::write_module_file(families, parameters, file)) return {error->code, error->message};
  times.done("write");
  // times are in this report only: the module's own must not differ from run to run
  return report_file ? report_file->write(times.add_to(file.report)) : Failure{};
}

}  // namespace

Failure compile(const Options& options) {
  MLIRContext context(options.threads == 1 ? MLIRContext::Threading::DISABLED : MLIRContext::Threading::ENABLED);
  register_dialects(context);
  Diagnostics diagnostics(context);
  OwningOpRef<ModuleOp> module;
  std::string reproducer;
  Failure failure = run(options, context, module, reproducer);
  if (!failure) return failure;
  if (!diagnostics.text().empty()) failure.message += ": " + diagnostics.text();
  if (failure.message.find(options.input_path) == std::string::npos) failure.message += "; the model is '" + options.input_path + "'";
  if (!reproducer.empty() && !write_text(options.reproducer_path, reproducer)) {
    failure.message += "; a reproducer is in '" + options.reproducer_path + "'";
  }
  return failure;
}

}  // namespace heddle::compiler
