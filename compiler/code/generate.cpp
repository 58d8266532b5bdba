// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See generate.h.
#include "compiler/code/generate.h"

#include <map>

#include "compiler/code/target_devices.h"
#include "compiler/targets/cuda/machine_code.h"
#include "compiler/targets/llvm_backend.h"
#include "compiler/targets/portable/portable.h"
#include "heddle/code.h"
#include "mlir/IR/Threading.h"

using namespace mlir;

namespace heddle::compiler {
namespace {

using emit::FamilyCode;
using emit::Image;
using emit::Kernel;

// The code to be made for one target.
struct Variant {
  std::string level;
  std::unique_ptr<targets::Target> target;
  std::vector<std::string> keys;           // of the kernels
  std::map<std::string, CachedCode> code;  // of kernels by their keys, of functions by their names
  std::vector<std::string> functions;      // in the order of their first calls

  std::string key_of_function(const std::string& name) const { return CodeCache::key_of(target->identity() + " function " + name); }
  static std::string unit_of(const std::string& key) { return "heddle_" + key; }
};

// One unit of code that is not in the cache.
struct Job {
  const targets::Target* target;
  OwningOpRef<ModuleOp> module;
  CachedCode* code;
  std::string key;  // in the cache
  size_t size = 0;  // number of ops, for the order
  bool failed = false;
};

std::string text_of(const targets::KernelPlan& plan) {
  std::string text = plan.strategy + " ";
  llvm::raw_string_ostream stream(text);
  stream << plan.workgroups;
  for (int64_t number : plan.choice.numbers) stream << " " << number;
  return text;
}

module::Error failed(const std::string& what) {
  return {HEDDLE_STATUS_INTERNAL, "compiler: " + what + " failed"};
}

class Generator {
 public:
  Generator(const CodeOptions& options, FamilyCode& family, MLIRContext& context) : options_(options), family_(family), context_(context) {}

  module::Status run() {
    for (const auto& [name, level] : options_.targets) {
      if (name == family_.name) variants_.push_back({level, make_target(name, level, options_.math), {}, {}, {}});
    }
    if (auto error = plan()) return error;
    drop_repetitions();
    for (Variant& variant : variants_) {
      for (const Kernel& kernel : family_.kernels.all()) {
        variant.keys.push_back(CodeCache::key_of(variant.target->identity() + "\n" + text_of(kernel.plan) + "\n" + kernel.text));
        if (take(variant, variant.keys.back())) continue;
        if (auto error = emit(variant, kernel)) return error;
      }
    }
    if (auto error = make()) return error;
    for (Variant& variant : variants_) {
      if (auto error = link(variant)) return error;
      if (options_.image_done && !options_.image_done()) return module::Error{HEDDLE_STATUS_CANCELLED, "compiler: cancelled"};
    }
    options_.cache->trim();
    return {};
  }

 private:
  module::Status plan() {
    std::vector<targets::Plans> chosen;
    std::vector<std::optional<targets::Workspace>> workspaces;
    for (const Kernel& kernel : family_.kernels.all()) {
      tx::DispatchOp region = kernel.region;
      if (kernel.binding_count > passes::most_bindings) {  // a region that heddle-form-dispatches did not form
        return module::Error{HEDDLE_STATUS_UNIMPLEMENTED, "compiler: region '" + region.getName().str() + "' needs " +
                                                              std::to_string(kernel.binding_count) + " bindings, kernels have at most " +
                                                              std::to_string(passes::most_bindings) + "; divide it"};
      }
      std::vector<targets::Answer> answers;
      auto plans = variants_.front().target->plans(region, {}, options_.with_answers ? &answers : nullptr);
      if (mlir::failed(plans)) {
        return module::Error{HEDDLE_STATUS_UNIMPLEMENTED, "compiler: planning region '" + region.getName().str() + "' failed"};
      }
      const std::string name = name_of_kernel(kernel.text);
      auto pick = [&](const std::string& when) { return options_.tuned ? options_.tuned->find(family_.name, name, when) : std::string(); };
      chosen.push_back(targets::choose(*plans, pick));
      if (variants_.front().target->format() == HEDDLE_CODE_PORTABLE) workspaces.push_back(targets::portable_workspace(region));
      for (const targets::KernelPlan& plan : chosen.back()) {
        const std::string when = targets::text_of(plan.guards);
        if (!plan.choice.text.empty() && pick(when) == plan.choice.text) options_.tuned->note_taken(family_.name, name, when);
      }
      if (options_.with_answers) family_.answers[name] = std::move(answers);
    }
    family_.kernels.plan(std::move(chosen), workspaces);
    return {};
  }

  // Variants whose code another one's would be.
  void drop_repetitions() {
    std::vector<std::string> strategies;
    for (const Kernel& kernel : family_.kernels.all()) strategies.push_back(kernel.plan.strategy);
    auto levels = llvm::map_to_vector(variants_, [](const Variant& variant) { return variant.level; });
    llvm::erase_if(variants_, [&](const Variant& variant) {
      return llvm::is_contained(levels, level_below(family_.name, variant.level, strategies));
    });
  }

  // The code of a kernel, and of all functions that it calls, from the cache.
  bool take(Variant& variant, const std::string& key) {
    auto kernel = options_.cache->find(key);
    if (!kernel) return false;
    std::map<std::string, CachedCode> called;
    for (const std::string& name : kernel->calls) {
      if (variant.code.count(name)) continue;
      auto function = options_.cache->find(variant.key_of_function(name));
      if (!function) return false;
      called[name] = std::move(*function);
    }
    add_functions(variant, kernel->calls);
    variant.code.merge(called);
    variant.code[key] = std::move(*kernel);
    return true;
  }

  static void add_functions(Variant& variant, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!variant.code.count(name)) variant.functions.push_back(name);
    }
  }

  module::Status emit(Variant& variant, const Kernel& kernel) {
    tx::DispatchOp region = kernel.region;
    const std::string& key = variant.keys.back();
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context_));
    auto resources = variant.target->emit(region, kernel.plan, Variant::unit_of(key), *module);
    if (mlir::failed(resources)) {
      return module::Error{HEDDLE_STATUS_UNIMPLEMENTED,
                           "compiler: generating region '" + region.getName().str() + "' for " + variant.level + " failed"};
    }
    for (targets::CodeUnit& unit : targets::split_code(*module)) {
      bool is_kernel = unit.name == Variant::unit_of(key);
      if (is_kernel) add_functions(variant, unit.calls);
      auto [entry, is_new] = variant.code.try_emplace(is_kernel ? key : unit.name);
      if (!is_new) continue;
      if (!is_kernel) {
        if (auto known = options_.cache->find(variant.key_of_function(unit.name))) {
          entry->second = std::move(*known);
          continue;
        }
      }
      entry->second.calls = std::move(unit.calls);
      if (is_kernel) entry->second.resources = std::move(*resources);
      size_t size = 0;
      unit.module->walk([&](Operation*) { ++size; });
      jobs_.push_back(
          {variant.target.get(), std::move(unit.module), &entry->second, is_kernel ? key : variant.key_of_function(unit.name), size});
    }
    return {};
  }

  module::Status make() {
    if (jobs_.empty()) return {};
    targets::load_lowering_dialects(context_);
    llvm::stable_sort(jobs_, [](const Job& a, const Job& b) { return a.size > b.size; });
    parallelForEach(&context_, jobs_, [](Job& job) {
      auto bytes = job.target->generate(*job.module);
      job.failed = mlir::failed(bytes);
      if (!job.failed) job.code->bytes = std::move(*bytes);
      job.module = {};
    });
    for (const Job& job : jobs_) {
      if (job.failed) return failed("generating code for " + job.target->name());
      options_.cache->keep(job.key, *job.code);
    }
    return {};
  }

  module::Status link(Variant& variant) {
    Image image{variant.target->format(), variant.target->name(), {}, {}};
    SmallVector<ArrayRef<char>> units;
    std::vector<targets::LinkedKernel> kernels;
    for (auto [kernel, key] : llvm::zip_equal(family_.kernels.all(), variant.keys)) {
      const CachedCode& code = variant.code.at(key);
      units.push_back(code.bytes);
      kernels.push_back({kernel.symbol, Variant::unit_of(key), kernel.binding_count + kernel.symbol_count});
      image.resources.push_back(code.resources);
    }
    for (const std::string& name : variant.functions) units.push_back(variant.code.at(name).bytes);
    auto bytes = variant.target->link(units, kernels, UnknownLoc::get(&context_));
    if (mlir::failed(bytes)) return failed("linking " + variant.level);
    image.code = std::move(*bytes);
    if (mlir::failed(variant.target->inspect(image.code, kernels, image.resources, UnknownLoc::get(&context_)))) {
      return failed("inspecting the image for " + variant.level);
    }
    family_.images.push_back(std::move(image));
    return family_.name == "cuda" && !options_.ptxas.empty() ? add_machine_code() : module::Status();
  }

  // The newest image, also as machine code, with the resources that the device's own compiler reports.
  module::Status add_machine_code() {
    Image image = family_.images.back();
    image.format = HEDDLE_CODE_CUBIN;
    auto machine = targets::assemble_ptx(options_.ptxas, image.target, image.code);
    if (!machine) return module::Error{HEDDLE_STATUS_UNAVAILABLE, "compiler: " + llvm::toString(machine.takeError())};
    image.code = std::move(machine->code);
    for (const targets::AssembledKernel& assembled : machine->kernels) {
      for (auto [kernel, resources] : llvm::zip_equal(family_.kernels.all(), image.resources)) {
        if (kernel.symbol != assembled.name) continue;
        resources.registers = assembled.registers;
        resources.spilled_bytes = assembled.spilled_bytes;
      }
    }
    family_.images.push_back(std::move(image));
    return {};
  }

  const CodeOptions& options_;
  FamilyCode& family_;
  MLIRContext& context_;
  std::vector<Variant> variants_;
  std::vector<Job> jobs_;
};

}  // namespace

module::Status generate(const CodeOptions& options, FamilyCode& family, MLIRContext& context) {
  if (family.kernels.all().empty()) return {};  // a model of views and copies needs no code
  return Generator(options, family, context).run();
}

}  // namespace heddle::compiler
