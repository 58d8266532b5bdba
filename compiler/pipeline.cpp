// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of all steps of the compiler, with the reason for each. Knows every directory of compiler/ and does no work of its own.
#include "compiler/pipeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/code/generate.h"
#include "compiler/code/target_devices.h"
#include "compiler/donations.h"
#include "compiler/emit/module_file.h"
#include "compiler/emit/schedule.h"
#include "compiler/import/aten_importer.h"
#include "compiler/import/onnx_importer.h"
#include "compiler/import/placements.h"
#include "compiler/import/refuse_text.h"
#include "compiler/import/stablehlo_importer.h"
#include "compiler/passes/passes.h"
#include "compiler/plugins/claims.h"
#include "compiler/plugins/verification.h"
#include "compiler/report.h"
#include "compiler/reproducer.h"
#include "compiler/targets/amdgpu/amdgpu.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/spirv/spirv.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "heddle/code.h"
#include "heddle/sdk/portable/names.h"
#include "heddle/sdk/portable/text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "sdk/module/nearest.h"
#include "sdk/module/output_file.h"

using namespace mlir;

namespace heddle::compiler {

void add_model_passes(PassManager& passes, bool annotate_affinity, bool keeps_blocks) {
  // First, so that a node that no plugin can run becomes what it would be without the plugin.
  passes.addPass(passes::settle_alternatives());
  // Before all that asks for the size of an element.
  passes.addPass(passes::store_narrow());
  // While every op is still a node that the user named. Ops that later passes rewrite stay between the same two transfers.
  passes.addPass(passes::place_ops(annotate_affinity));
  // A factor and an offset per channel are easier to move than a normalization.
  passes.addNestedPass<func::FuncOp>(passes::decompose_batch_norm());
  // Channels-last throughout: afterwards a convolution, its bias and its activation are adjacent.
  passes.addNestedPass<func::FuncOp>(passes::propagate_transposes());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  // Where no kernel needs values, weights in blocks stay as files have them. For all devices alike, since a parameter has one form.
  if (keeps_blocks) passes.addPass(passes::keep_blocks());
  // The same for integers of 4 bits with a scale for each block; others are values from here on.
  passes.addNestedPass<func::FuncOp>(passes::read_dequantized(keeps_blocks));
  // Quantized weights are read as stored; their scales are applied afterwards.
  passes.addNestedPass<func::FuncOp>(passes::keep_quantized(keeps_blocks));
  // Factors go into the filters while these are still in their plain layout.
  passes.addNestedPass<func::FuncOp>(passes::fold_scales());
  // Moves the epilogue of a contraction next to it.
  passes.addNestedPass<func::FuncOp>(passes::move_reshapes());
  passes.addPass(createCanonicalizerPass());
  // For all devices alike, since it is part of the function's signature.
  passes.addNestedPass<func::FuncOp>(passes::match_donations());
}

void add_combination_passes(PassManager& passes, const passes::Devices& devices, std::unique_ptr<Pass> claims) {
  // Before casts to bytes and back disappear.
  passes.addNestedPass<func::FuncOp>(passes::multiply_bytes(devices));
  // Where a layer's result is quantized and dequantized, floats stay floats and become part of the layer's kernel.
  passes.addNestedPass<func::FuncOp>(passes::fold_casts());
  // Packs filters into panels for devices that read them so.
  passes.addNestedPass<func::FuncOp>(passes::pack_weights(devices));
  passes.addPass(createCSEPass());
  // Values known at load are computed at load, including packing.
  passes.addPass(passes::hoist_constants());
  passes.addPass(createCSEPass());
  // A reduction that would take one worker long is divided among all workers.
  passes.addNestedPass<func::FuncOp>(passes::divide_folds(devices));
  // From here on, every region is one kernel.
  passes.addPass(passes::form_dispatches(devices));
  // Regions are what the compiler would make kernels of; a target plugin takes these, or parts of them.
  if (claims) passes.addPass(std::move(claims));
  // Places independent dispatches next to each other.
  passes.addNestedPass<func::FuncOp>(passes::order_dispatches());
  // Regions store the parts of a concat in its memory, if all of them can.
  passes.addPass(passes::store_parts(devices));
  // After the last reader of each value is known.
  passes.addPass(passes::overwrite_operands(devices));
}

namespace {

// Collects diagnostics, so that a failure's text contains what MLIR said first. Keeps remarks, one per line.
class Diagnostics {
 public:
  explicit Diagnostics(MLIRContext& context)
      : handler_(&context, [this](Diagnostic& diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Remark) remarks_ += diagnostic.str() + "\n";
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !text_.empty()) return;
          llvm::raw_string_ostream stream(text_);
          if (auto name = llvm::dyn_cast<NameLoc>(diagnostic.getLocation())) stream << "node '" << name.getName().str() << "': ";
          stream << diagnostic.str();
        }) {}
  const std::string& text() const { return text_; }
  const std::string& remarks() const { return remarks_; }

 private:
  std::string text_, remarks_;
  ScopedDiagnosticHandler handler_;
};

void register_dialects(MLIRContext& context) {
  DialectRegistry registry;
  registry.insert<tx::TxDialect, func::FuncDialect>();
  targets::register_x86_64_dialects(registry);
  targets::register_cuda_dialects(registry);
  targets::register_amdgpu_dialects(registry);
  targets::register_spirv_dialects(registry);
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

// A text file, opened before its text is known. It appears only when it is complete, and not at all if nothing is written. "-", a pipe or
// a terminal is written to directly.
class TextFile {
 public:
  explicit TextFile(const std::string& path) : path_(path) {
    if (path == "-" || module::OutputFile::is_stream(path)) return;
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
    llvm::raw_fd_ostream stream(path_, error, llvm::sys::fs::OF_Append);  // after anything that was redirected there before
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

// Each image in a file of its own, named after the module, the target and the format; portable code also as text.
Failure write_code(const std::string& folder, StringRef module, const std::vector<emit::FamilyCode>& codes) {
  for (const emit::FamilyCode& code : codes) {
    for (const emit::Image& image : code.images) {
      SmallString<128> path(folder);
      const std::string kernel = code.executable.empty() ? "" : code.kernels.all().back().symbol + ".";
      llvm::sys::path::append(path, module + "." + kernel + image.target + "." + StringRef(image.format).split('/').first);
      const std::string bytes(image.code.begin(), image.code.end());
      if (Failure failure = write_text(path.str().str(), bytes)) return failure;
      std::vector<sdk::portable::Kernel> kernels;
      std::string text, error;
      if (image.format != HEDDLE_CODE_PORTABLE || !sdk::portable::read_image(bytes, &kernels, &error)) continue;
      text = sdk::portable::text_of_names(kernels);
      for (const sdk::portable::Kernel& one : kernels) text += sdk::portable::text_of(one);
      if (Failure failure = write_text(path.str().str() + ".txt", text)) return failure;
    }
  }
  return {};
}

// The IR after one pass, for --dump-after, and the names of all that ran.
struct DumpAfter : PassInstrumentation {
  DumpAfter(std::string pass, std::string* text, llvm::StringSet<>* names) : pass_(std::move(pass)), text_(text), names_(names) {}
  void runAfterPass(Pass* pass, Operation* op) override {
    if (!pass->getArgument().empty()) names_->insert(pass->getArgument());
    if (pass->getArgument() != pass_) return;
    auto module = llvm::dyn_cast<ModuleOp>(op);
    if (!module) module = op->getParentOfType<ModuleOp>();
    *text_ = print(module, false);
  }
  std::string pass_;
  std::string* text_;
  llvm::StringSet<>* names_;
};

bool ends_with_mlir(const std::string& path) {
  return llvm::StringRef(path).ends_with(".mlir");
}

// --place for a model in the compiler's own text format: an op with a named location is a node, and its operator is the op's name.
void place_parts(ModuleOp module, import::Placements& placements) {
  Builder builder(module.getContext());
  auto name_of = [](DictionaryAttr attributes, const std::string& otherwise) {
    auto name = attributes ? attributes.getAs<StringAttr>(tx::name_attr) : StringAttr();
    return name ? name.str() : otherwise;
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    for (Operation& op : function.getBody().front().without_terminator()) {
      auto name = llvm::dyn_cast<NameLoc>(op.getLoc());
      const auto* rule = placements.of_node(name ? name.getName().getValue() : "", op.getName().stripDialect());
      if (!rule) continue;
      op.setAttr(tx::place_attr, builder.getStringAttr(rule->slot));
      op.setAttr(tx::placed_by_attr, builder.getStringAttr("--place '" + rule->text + "'"));
    }
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      const auto* rule = placements.of_input(name_of(function.getArgAttrDict(i), "input" + std::to_string(i)));
      if (rule) function.setArgAttr(i, tx::affinity_attr, builder.getStringAttr(rule->slot));
    }
    for (unsigned i = 0; i < emit::own_result_count(function); ++i) {
      const auto* rule = placements.of_output(name_of(function.getResultAttrDict(i), "output" + std::to_string(i)));
      if (rule) function.setResultAttr(i, tx::affinity_attr, builder.getStringAttr(rule->slot));
    }
  }
}

// Reads a model file into tx ops and places them.
Failure import_model(const Options& options, MLIRContext& context, tx::ParameterStore& parameters, import::ParameterFiles& files,
                     OwningOpRef<ModuleOp>& module) {
  import::Placements placements;
  std::vector<std::string> donations = options.donations, states = options.states;
  for (const std::string& text : options.placements) {
    if (std::string wrong = placements.add(text); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
  }
  import::Specializations specializations;
  for (const std::string& text : options.specializations) {
    if (std::string wrong = specializations.add(text); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
  }
  for (const std::string& text : options.parameter_files) {
    if (module::Status wrong = files.add(text)) return {wrong->code, wrong->message};
  }
  for (const std::string& path : {options.output_path, options.parameters_path, options.report_path, options.dump_path,
                                  options.reproducer_path, options.affinity_path}) {
    if (files.reads(path)) {
      return {HEDDLE_STATUS_INVALID_ARGUMENT,
              "compiler: writing '" + path + "' failed: weights are left to this file, and it would be overwritten; choose another name"};
    }
  }
  // Opening a FIFO would wait for its writer.
  if (llvm::sys::fs::exists(options.input_path) && !llvm::sys::fs::is_regular_file(options.input_path)) {
    return {HEDDLE_STATUS_INVALID_ARGUMENT,
            "compiler: opening '" + options.input_path + "' failed: it is not a regular file; name a model file, .onnx or .mlir"};
  }
  const bool is_aten = import::is_aten(options.input_path);
  if (is_aten || import::is_stablehlo(options.input_path)) {
    const bool has_files = !files.is_empty() || !options.parameter_names.empty();
    if ((has_files && !is_aten) || !options.specializations.empty()) {
      return {HEDDLE_STATUS_INVALID_ARGUMENT,
              "compiler: compiling '" + options.input_path + "' failed: " +
                  (is_aten ? "specializations are for ONNX models, and this is a graph of PyTorch"
                           : "parameter files and specializations are for ONNX models, and this is StableHLO") +
                  "; leave them out"};
    }
    import::ImportError error;
    const import::ImportOptions of_import = {.dims = {},
                                             .all_weights = !options.parameters_path.empty(),
                                             .files = has_files ? &files : nullptr,
                                             .parameter_names = options.parameter_names};
    module = is_aten ? import::import_aten(options.input_path, context, parameters, error, of_import)
                     : import::import_stablehlo(options.input_path, context, parameters, error, of_import);
    if (!module) return {error.code, error.message};
    place_parts(*module, placements);
  } else if (ends_with_mlir(options.input_path)) {
    if (!files.is_empty() || !options.parameter_names.empty()) {
      return {HEDDLE_STATUS_INVALID_ARGUMENT,
              "compiler: parameter files are for ONNX models; in '" + options.input_path + "', tx.parameter has the scope and the name"};
    }
    if (auto buffer = llvm::MemoryBuffer::getFile(options.input_path)) {
      if (std::string cause = import::refuse_text((*buffer)->getBuffer()); !cause.empty())
        return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: reading '" + options.input_path + "' failed: " + cause};
    }
    module = parseSourceFile<ModuleOp>(options.input_path, &context);
    if (!module && !llvm::sys::fs::exists(options.input_path))
      return {HEDDLE_STATUS_NOT_FOUND, "compiler: reading '" + options.input_path + "' failed: there is no such file; check the path"};
    if (!module)
      return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: reading '" + options.input_path + "' as a model in the tx dialect failed"};
    if (module->getOps<func::FuncOp>().empty())
      return {HEDDLE_STATUS_INVALID_ARGUMENT,
              "compiler: reading '" + options.input_path + "' failed: it has no function; write the model again"};
    place_parts(*module, placements);
  } else {
    import::Operators operators;
    for (const std::string& path : options.operators) {
      if (std::string wrong = operators.add(path); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
    }
    import::ImportError error;
    std::vector<std::string> warnings;
    module = import::import_onnx(options.input_path, context, parameters, error,
                                 {.dims = {},
                                  .placements = &placements,
                                  .operators = &operators,
                                  .all_weights = !options.parameters_path.empty(),
                                  .donations = &donations,
                                  .states = &states,
                                  .files = files.is_empty() && options.parameter_names.empty() ? nullptr : &files,
                                  .parameter_names = options.parameter_names,
                                  .specializations = &specializations,
                                  .warnings = &warnings});
    if (!module) return {error.code, error.message};
    for (const std::string& warning : warnings) {
      if (options.warn) options.warn(warning);
    }
  }
  for (const std::string& warning : files.warnings()) {
    if (options.warn) options.warn(warning);
  }
  constexpr size_t most_named = 4;
  std::map<std::string, size_t> kept;  // by reason
  for (const import::ParameterFiles::Kept& one : files.kept()) {
    if (!one.is_expected_of_file || one.reason.empty() || !options.warn || ++kept[one.reason] > most_named) continue;
    options.warn("tensor '" + one.name + "' has the value of the model, not that of a file: the compiler has to know it, because " +
                 one.reason);
  }
  for (const auto& [reason, count] : kept) {
    if (count > most_named)
      options.warn(std::to_string(count - most_named) + " more tensors have the values of the model, not those of a file, because " +
                   reason);
  }
  if (std::string wrong = specializations.unused(); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
  if (std::string wrong = placements.unmatched(); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
  if (std::string wrong = apply_donations(*module, donations, states); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
  return {};
}

// Whether the model has the values of all weights that are not left to a file. Otherwise they would be missed only when the module is written.
Failure find_values(ModuleOp module, const tx::ParameterStore& parameters, const import::ParameterFiles& files) {
  if (files.is_empty()) return {};
  std::string wrong;
  module.walk([&](tx::ParameterOp op) {
    auto source = parameters.find(op.getName().str());
    const RankedTensorType type = tx::tensor(op.getResult());
    const uint64_t bytes = tx::byte_size(type), element_bytes = tx::byte_size(RankedTensorType::get({}, type.getElementType()));
    if (op.getScope() || source == parameters.end() || bytes == 0) return WalkResult::advance();
    char last[8];
    wrong = source->second.read(bytes - element_bytes, element_bytes, last);
    if (!wrong.empty()) wrong += files.advice(op.getName().str());
    return wrong.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return wrong.empty() ? Failure() : Failure{HEDDLE_STATUS_DATA_LOSS, wrong};
}

// A file may have weights of the model, and none that a result depends on.
void warn_of_unused_files(const Options& options, ModuleOp module, const import::ParameterFiles& files) {
  if (files.is_empty() || !options.warn) return;
  std::set<std::pair<std::string, std::string>> used;
  module.walk([&](tx::ParameterOp op) {
    if (std::optional<StringRef> scope = op.getScope()) used.emplace(scope->str(), op.getName().str());
  });
  for (const std::string& path : files.without(used))
    options.warn("parameter file '" + path + "' is not used: no result of the model depends on the weights that it has");
}

// The families of devices for which programs are made, one list per slot: all families, except for slots that are restricted.
Failure combine_families(const Options& options, ModuleOp module, std::vector<std::vector<std::string>>& combinations) {
  std::vector<std::string> families;  // of the targets, without duplicates
  for (const auto& [family, level] : options.targets) {
    if (families.empty() || families.back() != family) families.push_back(family);
  }
  SmallVector<StringRef> slots = tx::slots_of(module);
  std::vector<std::string> restricted(slots.size());
  for (const std::string& text : options.slots) {
    auto wrong = [&](const std::string& cause) {
      return Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: slot '" + text + "' cannot be restricted: " + cause};
    };
    auto [name, family] = StringRef(text).rsplit('=');
    if (name.empty() || family.empty()) return wrong("it is written @slot=family, such as @host=cpu");
    auto slot = llvm::find(slots, name);
    if (slot == slots.end()) return wrong("nothing is placed on " + name.str() + "; the slots are " + llvm::join(slots, ", "));
    if (!llvm::is_contained(families, family)) {
      return wrong("no target is of family '" + family.str() + "'; the targets are of " + llvm::join(families, ", "));
    }
    std::string& known = restricted[slot - slots.begin()];
    if (!known.empty()) return wrong(name.str() + " is restricted to '" + known + "' already");
    known = family.str();
  }
  for (const std::string& family : families) {
    std::vector<std::string> combination = restricted;
    std::replace(combination.begin(), combination.end(), std::string(), family);
    if (!llvm::is_contained(combinations, combination)) combinations.push_back(std::move(combination));
  }
  return {};
}

// The plugin's kernels and portable code for the same regions, each a function of a module of its own.
Failure write_verification(const Options& options, const plugins::TargetPlugin& plugin, const std::string& path,
                           const CodeOptions& code_options, MLIRContext& context) {
  OwningOpRef<ModuleOp> model = plugins::verification_model(plugin, context, options.warn);
  const emit::Combination combination{*model};
  std::vector<emit::FamilyCode> codes{{plugin.family(), {}, {}, {}}};
  codes.back().kernels.add(*model, plugin.family(), emit::is_for_own_code);
  CodeOptions quiet = code_options;
  quiet.with_answers = false;
  quiet.image_done = {};
  if (auto error = generate(quiet, codes.back(), context)) return {error->code, error->message};
  for (emit::FamilyCode& code : plugins::verification_code(plugin, combination)) codes.push_back(std::move(code));
  emit::OutputFiles files(path, {});
  if (heddle::module::Status error = files.reserve()) return {error->code, error->message};
  emit::FileOptions file;
  file.name = "verification";
  const tx::ParameterStore no_parameters;
  if (auto error = emit::write_module_file({combination}, codes, no_parameters, file, files)) return {error->code, error->message};
  return {};
}

Failure run(const Options& options, MLIRContext& context, const Diagnostics& diagnostics, OwningOpRef<ModuleOp>& module,
            std::string& reproducer) {
  StageTimes times;
  // Steps are the import, the passes, the image of each target, and writing the files.
  const auto image_count = static_cast<unsigned>(options.targets.size());
  auto going_on = [&](std::string_view stage, unsigned done) {
    return !options.progress || options.progress(stage, done, image_count + 3);
  };
  const Failure cancelled{HEDDLE_STATUS_CANCELLED, "compiler: cancelled"};
  for (const auto& [family, level] : options.targets) {
    if (make_target(family, level, options.math)) continue;
    return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: target '" + family + ":" + level + "' is not known; use " + family +
                                                " for all levels, or one of " + family + ":" +
                                                llvm::join(levels_of(family), ", " + family + ":")};
  }

  Tuned tuned;
  if (!options.tuned_path.empty()) {
    if (std::string wrong = tuned.read(options.tuned_path); !wrong.empty()) return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
  }
  if (!options.ptxas.empty() && llvm::none_of(options.targets, [](const auto& target) { return target.first == "cuda"; })) {
    return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: ptxas '" + options.ptxas + "' is given and no target is cuda; add --target cuda"};
  }

  // Files that cannot be written are reported before the work is done.
  emit::OutputFiles files(options.output_path, options.parameters_path);
  if (heddle::module::Status error = files.reserve()) return {error->code, error->message};
  std::optional<TextFile> report_file;
  if (!options.report_path.empty()) {
    report_file.emplace(options.report_path);
    if (Failure failure = report_file->failure()) return failure;
  }
  if (!options.code_path.empty()) {
    std::error_code error = llvm::sys::fs::create_directories(options.code_path);
    if (!error && !llvm::sys::fs::is_directory(options.code_path)) error = std::make_error_code(std::errc::not_a_directory);
    if (error) {
      return {HEDDLE_STATUS_UNAVAILABLE, "compiler: creating directory '" + options.code_path + "' for code failed: " + error.message() +
                                             "; name another one with --dump-code"};
    }
  }
  if (!going_on("import", 0)) return cancelled;
  tx::ParameterStore parameters;
  import::ParameterFiles parameter_files;
  if (Failure failure = import_model(options, context, parameters, parameter_files, module)) return failure;
  if (failed(verify(*module))) return {HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: the imported model is not valid"};
  times.done("import");

  if (!going_on("passes", 1)) return cancelled;
  ReproducerFile kept;
  if (options.keeps_reproducer && !options.reproducer_path.empty()) {
    if (Failure failure = kept.write(options.reproducer_path, print(*module, true))) return failure;
  } else if (!options.reproducer_path.empty()) {
    reproducer = print(*module, true);
  }
  std::string dump;
  llvm::StringSet<> pass_names;
  auto run_passes = [&](ModuleOp target, const std::function<void(PassManager&)>& add) {
    PassManager passes(&context);
    if (!options.dump_after.empty() && dump.empty())
      passes.addInstrumentation(std::make_unique<DumpAfter>(options.dump_after, &dump, &pass_names));
    kept.follow(passes);
    add(passes);
    return succeeded(passes.run(target));
  };
  CodeCache cache(options.cache_path);
  plugins::PluginOptions plugin_options = options.plugins;
  plugin_options.find = [&](const std::string& text) -> std::optional<std::string> {
    const std::optional<CachedCode> found = cache.find(CodeCache::key_of("target plugin\n" + text));
    return found ? std::optional<std::string>(std::string(found->bytes.begin(), found->bytes.end())) : std::nullopt;
  };
  plugin_options.keep = [&](const std::string& text, const std::string& answer) {
    CachedCode entry;
    entry.bytes.assign(answer.begin(), answer.end());
    cache.keep(CodeCache::key_of("target plugin\n" + text), entry);
  };
  // What plugins are asked, as text beside their code.
  Failure not_told;
  if (!options.code_path.empty()) {
    plugin_options.tell = [&](const std::string& name, const std::string& text) {
      SmallString<128> path(options.code_path);
      llvm::sys::path::append(path, llvm::sys::path::stem(options.input_path) + "." + name + ".txt");
      if (Failure failure = write_text(path.str().str(), text); failure && !not_told) not_told = failure;
    };
  }
  plugins::TargetPlugins target_plugins;
  if (!options.verification_path.empty() && options.plugin_levels.empty()) {
    return {HEDDLE_STATUS_INVALID_ARGUMENT,
            "compiler: verifying code of plugins failed: there are 0 targets of plugins; give one with --target"};
  }
  for (const auto& [family, level] : options.plugin_levels) {
    plugins::TargetManifest manifest;
    if (std::string wrong = plugins::find_target(family, options.plugins.manifests, manifest); !wrong.empty())
      return {HEDDLE_STATUS_INVALID_ARGUMENT, wrong};
    auto& plugin = target_plugins[family] = std::make_unique<plugins::TargetPlugin>(std::move(manifest), level, plugin_options);
    if (std::string wrong = plugin->open(family); !wrong.empty()) return {HEDDLE_STATUS_UNAVAILABLE, wrong};
  }
  const Failure pass_failed{HEDDLE_STATUS_INTERNAL, "compiler: a pass failed"};
  const TargetDevices devices(options.targets, options.math);
  const bool keeps_blocks = !options.parameters_become_values &&
                            llvm::all_of(options.targets, [&](const auto& target) { return devices.reads_blocks(target.first); });
  if (!run_passes(*module, [&](PassManager& passes) { add_model_passes(passes, !options.affinity_path.empty(), keeps_blocks); }))
    return pass_failed;
  if (Failure failure = find_values(*module, parameters, parameter_files)) return failure;
  warn_of_unused_files(options, *module, parameter_files);
  if (!options.affinity_path.empty()) {
    if (Failure failure = write_text(options.affinity_path, diagnostics.remarks())) return failure;
  }
  std::vector<std::vector<std::string>> families;  // one list per slot
  if (Failure failure = combine_families(options, *module, families)) return failure;
  std::vector<OwningOpRef<ModuleOp>> models;
  std::vector<emit::Combination> combinations;
  std::vector<emit::FamilyCode> codes;
  for (const std::vector<std::string>& of_slots : families) {
    models.push_back(module->clone());
    SmallVector<StringRef> names(of_slots.begin(), of_slots.end());
    (*models.back())->setAttr(tx::families_attr, Builder(&context).getStrArrayAttr(names));
    auto claims = target_plugins.empty() ? nullptr : plugins::claim_kernels(target_plugins, devices, options.warn);
    if (!run_passes(*models.back(), [&](PassManager& passes) { add_combination_passes(passes, devices, std::move(claims)); }))
      return pass_failed;
    combinations.push_back({*models.back()});
  }
  if (!options.dump_after.empty()) {
    if (dump.empty()) {
      std::vector<std::string> known;
      for (const auto& name : pass_names) known.push_back(name.getKey().str());
      llvm::sort(known);
      const std::string meant = heddle::module::nearest(options.dump_after, known);
      return {HEDDLE_STATUS_NOT_FOUND, "compiler: no pass '" + options.dump_after + "' was run; " +
                                           (meant.empty() ? "the passes are " + llvm::join(known, ", ") : "did you mean '" + meant + "'?")};
    }
    if (Failure failure = write_text(options.dump_path, dump)) return failure;
  }
  times.done("passes");

  if (!going_on("code", 2)) return cancelled;
  kept.at("code");
  unsigned images_done = 0;
  auto image_done = [&] { return going_on("code", 2 + ++images_done); };
  // The report of this run has the answers of all strategies; the module's own report does not. Neither changes a kernel.
  const bool with_answers = report_file.has_value();
  CodeOptions code_options{options.targets, options.math, options.ptxas, &cache, &tuned, with_answers, image_done};
  for (const auto& [family, level] : options.targets) {
    if (!codes.empty() && codes.back().name == family) continue;
    std::vector<emit::FamilyCode> claimed;
    if (auto plugin = target_plugins.find(family); plugin != target_plugins.end())
      claimed = plugins::emit_claims(*plugin->second, combinations, options.warn);
    codes.push_back({family, {}, {}, {}});
    for (const emit::Combination& combination : combinations) codes.back().kernels.add(combination.model, family, emit::is_for_own_code);
    if (auto error = generate(code_options, codes.back(), context)) return {error->code, error->message};
    std::move(claimed.begin(), claimed.end(), std::back_inserter(codes));
  }
  times.done("code");
  const std::string name = llvm::sys::path::stem(options.input_path).str();
  if (!options.code_path.empty()) {
    if (not_told) return not_told;
    if (Failure failure = write_code(options.code_path, name, codes)) return failure;
  }

  if (!going_on("write", image_count + 2)) return cancelled;
  kept.at("write");
  emit::FileOptions file;
  file.name = name;
  file.report = report(combinations, codes, options.math, target_plugins, /*with_plans=*/false);
  file.warn = options.warn;
  std::vector<emit::WrittenParameter> written;
  file.written = &written;
  if (options.hash_parameter_files) {
    file.hash_of_left = [&](const std::string& scope, const std::string& parameter) { return parameter_files.hash_of(scope, parameter); };
  }
  if (heddle::module::Status error = emit::write_module_file(combinations, codes, parameters, file, files))
    return {error->code, error->message};
  for (const auto& [family, plugin] : target_plugins) {
    if (options.verification_path.empty()) break;
    const std::string path = options.verification_path + (target_plugins.size() > 1 ? "." + family : "");
    if (Failure failure = write_verification(options, *plugin, path, code_options, context)) return failure;
  }
  times.done("write");
  // only this report has times and cache hits: the module's own report must not differ from run to run
  if (report_file) {
    const std::string text = report(combinations, codes, options.math, target_plugins, /*with_plans=*/true);
    if (Failure failure = report_file->write(add_run(text, times, cache, tuned, written, parameter_files))) return failure;
  }
  going_on("write", image_count + 3);  // too late to cancel
  return {};
}

}  // namespace

Failure compile(const Options& options) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::optional<llvm::DefaultThreadPool> threads;
  if (options.threads != 1) context.setThreadPool(threads.emplace(llvm::hardware_concurrency(options.threads)));
  register_dialects(context);
  Diagnostics diagnostics(context);
  OwningOpRef<ModuleOp> module;
  std::string reproducer;
  Failure failure = run(options, context, diagnostics, module, reproducer);
  if (!failure) return failure;
  if (!diagnostics.text().empty()) failure.message += ": " + diagnostics.text();
  // No kernel computes a region, mostly for its element types.
  if (failure.code == HEDDLE_STATUS_UNIMPLEMENTED && !diagnostics.text().empty())
    failure.message += "; cast its inputs to f32, or see docs/operators.md for what is supported";
  if (failure.message.find(options.input_path) == std::string::npos) failure.message += "; the model is '" + options.input_path + "'";
  if (!reproducer.empty() && !write_text(options.reproducer_path, reproducer)) {
    failure.message += "; the imported IR is in '" + options.reproducer_path + "'";
  }
  return failure;
}

}  // namespace heddle::compiler
