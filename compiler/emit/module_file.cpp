// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/emit/module_file.h"

#include <heddle_module/module_generated.h>

#include <filesystem>
#include <map>

#include "compiler/emit/globals.h"
#include "compiler/emit/schedule.h"
#include "compiler/ir/narrow.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/bit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/writer.h"

using namespace mlir;
namespace mf = heddle::module_format;

namespace heddle::emit {
namespace {

std::unique_ptr<mf::TensorTypeT> tensor_type(RankedTensorType ranked, StringRef name, uint32_t slot, unsigned symbols) {
  auto result = std::make_unique<mf::TensorTypeT>();
  result->name = name.str();
  result->slot = slot;
  result->element_type = tx::element_type_code(ranked.getElementType());
  for (AffineExpr extent : tx::extents(ranked)) {
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(extent)) {
      result->dims.emplace_back(constant.getValue(), -1, 0);
    } else if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(extent); symbol && symbol.getPosition() < symbols) {
      result->dims.emplace_back(-1, static_cast<int32_t>(symbol.getPosition()), 0);
    } else {
      result->dims.emplace_back(-1, -1, 0);  // the program sets it
    }
  }
  return result;
}

std::string name_of(DictionaryAttr attributes, const std::string& otherwise) {
  auto name = attributes ? attributes.getAs<StringAttr>(tx::name_attr) : StringAttr();
  return name ? name.str() : otherwise;
}

std::unique_ptr<mf::FunctionT> describe(func::FuncOp function, const ProgramTarget& target) {
  auto result = std::make_unique<mf::FunctionT>();
  result->name = function.getName().str();
  auto names = function->getAttrOfType<ArrayAttr>(tx::symbols_attr);
  unsigned symbols = tx::given_symbol_count(function);
  auto described = [&](Type type, DictionaryAttr attributes, const std::string& otherwise) {
    return tensor_type(tx::declared_type(type, attributes), name_of(attributes, otherwise), slot_index(target, tx::affinity_of(attributes)),
                       symbols);
  };
  const Places places(function);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (!places.arguments[i]) continue;
    result->arguments.push_back(described(function.getArgumentTypes()[i], function.getArgAttrDict(i), "input" + std::to_string(i)));
  }
  for (unsigned i = 0; i < own_result_count(function); ++i) {
    if (!places.results[i]) continue;
    result->results.push_back(described(function.getResultTypes()[i], function.getResultAttrDict(i), "output" + std::to_string(i)));
  }
  for (Attribute name : names ? names.getValue().take_front(symbols) : ArrayRef<Attribute>()) {
    auto symbol = std::make_unique<mf::SymbolT>();
    symbol->name = llvm::cast<StringAttr>(name).str();
    symbol->min = 0;  // the program refuses calls that its kernels cannot run
    result->symbols.push_back(std::move(symbol));
  }
  return result;
}

std::unique_ptr<mf::ExecutableT> describe(const FamilyCode& family, module::ModuleWriter& writer) {
  auto result = std::make_unique<mf::ExecutableT>();
  result->name = family.executable.empty() ? family.name : family.executable;
  for (const Kernel& kernel : family.kernels.all()) {
    auto entry = std::make_unique<mf::EntryT>();
    entry->name = kernel.symbol;
    entry->binding_count = kernel.binding_count;
    entry->constants_bytes = kernel.symbol_count * sizeof(int64_t);
    result->entries.push_back(std::move(entry));
  }
  for (const Image& image : family.images) {
    auto variant = std::make_unique<mf::VariantT>();
    variant->format = image.format;
    variant->target = image.target;
    variant->family = family.name;
    variant->code = std::make_unique<mf::Range>(writer.add_code(std::as_bytes(std::span(image.code))));
    for (auto [kernel, resources] : llvm::zip(family.kernels.all(), image.resources)) {
      auto needs = std::make_unique<mf::EntryResourcesT>();
      if (resources.workgroup_size != 1) needs->workgroup_size = {resources.workgroup_size, 1, 1};
      needs->subgroup_size = resources.subgroup_size;
      needs->shared_memory_bytes = resources.shared_memory_bytes;
      needs->workspace_bytes = resources.workspace_bytes;
      needs->cost = kernel.plan.cost_ns;
      needs->rung = resources.rung;
      variant->resources.push_back(std::move(needs));
    }
    result->variants.push_back(std::move(variant));
  }
  return result;
}

func::FuncOp add_initializer(ModuleOp model) {
  OpBuilder builder(model.getBodyRegion());
  builder.setInsertionPointToEnd(model.getBody());
  auto initializer = builder.create<func::FuncOp>(model.getLoc(), tx::initializer_name, builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(initializer.addEntryBlock());
  builder.create<func::ReturnOp>(model.getLoc());
  return initializer;
}

// The arguments whose memory a result takes, and others that the programs overwrite.
void note_donations(func::FuncOp function, mf::FunctionT& described) {
  std::map<uint32_t, int32_t> donations;
  const Places places(function);
  for (BlockArgument argument : function.getArguments()) {
    const std::optional<unsigned> alias = tx::alias_of(argument);
    const std::optional<uint32_t> place = places.arguments[argument.getArgNumber()];
    if (alias && place) donations[*place] = static_cast<int32_t>(places.results[*alias].value());
  }
  for (const auto& program : described.programs) {
    auto note = [&](const mf::BindingRef& range) {
      const mf::Value& value = program->values[range.value()];
      if (range.access() != 1 && value.kind() == mf::ValueKind::Argument) donations.try_emplace(value.index(), -1);
    };
    for (const auto& site : program->dispatches) llvm::for_each(site->bindings, note);
    for (const mf::CopySite& copy : program->copies) note(copy.target());
  }
  if (donations.empty()) return;
  described.donations = std::make_unique<mf::DonationsT>();
  for (auto [argument, result] : donations) described.donations->all.emplace_back(argument, result);
}

// Donated arguments that no program overwrites.
void warn_of_useless_donations(ModuleOp model, const mf::ModuleT& file, const std::function<void(const std::string& text)>& warn) {
  for (const auto& described : file.functions) {
    auto function = model.lookupSymbol<func::FuncOp>(described->name);
    const Places places(function);
    for (BlockArgument argument : function.getArguments()) {
      if (tx::is_state(argument)) continue;
      const uint32_t index = *places.arguments[argument.getArgNumber()];
      const bool is_used =
          described->donations && llvm::any_of(described->donations->all, [&](const mf::Donation& one) { return one.argument() == index; });
      if (!tx::is_donated(argument) || is_used) continue;
      auto type = llvm::cast<RankedTensorType>(argument.getType());
      warn("donating input '" + described->arguments[index]->name + "' (" +
           (type.hasStaticShape() ? std::to_string(tx::byte_size(type)) + " bytes" : "of dynamic size") +
           ") saves no memory during a call: neither an output of its type nor an intermediate value can take its place");
    }
  }
}

// The programs of one combination: one per function, in order, then the initializer, if one is needed.
struct Programs {
  std::vector<std::unique_ptr<mf::ProgramT>> functions;
  std::unique_ptr<mf::ProgramT> initializer;
};

module::Status schedule_all(const Combination& combination, const ProgramTarget& target, Globals& globals, Programs& programs) {
  ModuleOp model = combination.model;
  globals.begin_combination(combination.name());
  func::FuncOp initializer;
  for (auto function : model.getOps<func::FuncOp>()) {
    if (function.getName() == tx::initializer_name) {
      initializer = function;
      continue;
    }
    if (function.isPrivate()) continue;  // part of another one
    auto program = schedule(function, target, globals, /*initializer=*/false);
    if (failed(program)) return module::Error{HEDDLE_STATUS_INTERNAL, "compiler: scheduling @" + function.getName().str() + " failed"};
    programs.functions.push_back(std::move(*program));
  }
  // last, since it fills in the globals that the functions requested
  if (!initializer && !globals.fills().empty()) initializer = add_initializer(model);
  if (!initializer) return std::nullopt;
  auto program = schedule(initializer, target, globals, /*initializer=*/true);
  if (failed(program)) return module::Error{HEDDLE_STATUS_INTERNAL, "compiler: scheduling the initializer failed"};
  programs.initializer = std::move(*program);
  return std::nullopt;
}

// Executables are numbered in the order of the codes; one without a kernel is skipped.
ProgramTarget target_of(const Combination& combination, const std::vector<FamilyCode>& codes) {
  ProgramTarget target;
  for (auto [name, family] : llvm::zip_equal(tx::slots_of(combination.model), combination.families())) {
    SlotTarget& slot = target.emplace_back(SlotTarget{name.str(), family, {}});
    uint32_t executable = 0;
    for (const FamilyCode& code : codes) {
      if (code.name == family) slot.codes.push_back({&code.kernels, executable});
      if (!code.kernels.all().empty()) ++executable;
    }
  }
  return target;
}

// Whether two paths, of files that need not exist, lead to one place.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  auto place_a = std::filesystem::weakly_canonical(a, error), place_b = std::filesystem::weakly_canonical(b, error);
  return place_a == place_b || std::filesystem::equivalent(a, b, error);
}

module::ParameterSource source_of(const tx::ParameterSource& parameter) {
  module::ParameterSource source;
  source.size_bytes = tx::byte_size(parameter.type);
  source.read = [&parameter](uint64_t offset, std::span<std::byte> out) -> module::Status {
    std::string error = parameter.read(offset, out.size(), reinterpret_cast<char*>(out.data()));
    if (error.empty()) return std::nullopt;
    return module::Error{HEDDLE_STATUS_DATA_LOSS, error};
  };
  return source;
}

}  // namespace

std::vector<std::string> Combination::families() const {
  std::vector<std::string> result;
  ModuleOp module = model;
  for (Attribute family : module->getAttrOfType<ArrayAttr>(tx::families_attr)) result.push_back(llvm::cast<StringAttr>(family).str());
  return result;
}

std::string Combination::name() const {
  std::vector<std::string> all = families();
  bool alike = llvm::all_of(all, [&](const std::string& family) { return family == all.front(); });
  return alike ? all.front() : llvm::join(all, ",");
}

OutputFiles::OutputFiles(const std::string& module_path, const std::string& parameters_path) : module_(module_path) {
  if (!parameters_path.empty()) parameters_.emplace(parameters_path);
}

module::Status OutputFiles::reserve() {
  if (parameters_ && same_file(module_.path(), parameters_->path())) {
    return module::Error{HEDDLE_STATUS_INVALID_ARGUMENT, "compiler: writing the module and its parameters failed: both would be '" +
                                                             module_.path() + "'; give the parameters a file of their own"};
  }
  if (auto error = module_.reserve()) return error;
  return parameters_ ? parameters_->reserve() : std::nullopt;
}

module::Status OutputFiles::commit() {
  if (parameters_) {
    if (auto error = parameters_->commit()) return error;
  }
  return module_.commit();
}

module::Status write_module_file(const std::vector<Combination>& combinations, const std::vector<FamilyCode>& codes,
                                 const tx::ParameterStore& parameters, const FileOptions& options, OutputFiles& files) {
  mf::ModuleT file;
  module::ModuleWriter writer;
  file.producer = "heddle 0.1.0";
  file.name = options.name;
  file.report = options.report;
  Globals globals(file, writer);
  ModuleOp first = combinations.front().model;
  for (StringRef name : tx::slots_of(first)) {
    file.slots.push_back(std::make_unique<mf::SlotT>());
    if (name != tx::default_slot) file.slots.back()->name = name.str();
  }
  for (auto function : first.getOps<func::FuncOp>()) {
    if (function.getName() == tx::initializer_name || function.isPrivate()) continue;
    file.functions.push_back(describe(function, target_of(combinations.front(), codes)));
  }
  std::vector<const Combination*> without_initializer;
  for (const Combination& combination : combinations) {
    Programs programs;
    if (auto error = schedule_all(combination, target_of(combination, codes), globals, programs)) return error;
    for (auto [function, program] : llvm::zip_equal(file.functions, programs.functions)) function->programs.push_back(std::move(program));
    if (!programs.initializer) {
      without_initializer.push_back(&combination);
    } else {
      file.initializer.push_back(std::move(programs.initializer));
    }
  }
  for (auto& function : file.functions) note_donations(first.lookupSymbol<func::FuncOp>(function->name), *function);
  if (options.warn) warn_of_useless_donations(first, file, options.warn);
  for (const FamilyCode& code : codes) {
    if (!code.kernels.all().empty()) file.executables.push_back(describe(code, writer));
  }
  // Either all combinations have an initializer or none.
  if (file.initializer.empty()) without_initializer.clear();
  for (const Combination* combination : without_initializer) {
    auto program = schedule(add_initializer(combination->model), target_of(*combination, codes), globals, /*initializer=*/true);
    if (failed(program)) return module::Error{HEDDLE_STATUS_INTERNAL, "compiler: scheduling an empty initializer failed"};
    file.initializer.push_back(std::move(*program));
  }

  std::vector<module::SafetensorsTensor> tensors;
  for (auto [index, parameter] : llvm::enumerate(file.parameters)) {
    auto it = parameters.find(parameter->name);
    // Found in a file of its scope when the module is loaded.
    const bool is_left = !parameter->scope.empty() || it == parameters.end() || !it->second.read;
    if (options.written) {
      const auto place = is_left              ? WrittenParameter::left_to_file
                         : files.parameters() ? WrittenParameter::in_parameter_file
                                              : WrittenParameter::in_module;
      options.written->push_back({parameter->scope, parameter->name, parameter->size_bytes, place});
    }
    if (is_left && options.hash_of_left) {
      const module::Result<uint64_t> hash = options.hash_of_left(parameter->scope, parameter->name);
      if (!hash) return hash.error();
      parameter->hash = hash.value();
    }
    if (is_left) continue;
    if (files.parameters()) {
      tensors.push_back({parameter->name, parameter->element_type, parameter->dims, source_of(it->second)});
    } else {
      writer.set_parameter(index, source_of(it->second));
    }
  }
  // The format has no gaps between tensors. In this order each is aligned as its size is: those of a multiple of 64 bytes can be mapped.
  llvm::stable_sort(tensors, [](const module::SafetensorsTensor& a, const module::SafetensorsTensor& b) {
    auto aligned = [](const module::SafetensorsTensor& tensor) { return std::min(llvm::countr_zero(tensor.source.size_bytes), 6); };
    return aligned(a) > aligned(b);
  });
  // Both files are complete before either replaces an existing one.
  if (files.parameters()) {
    std::vector<uint64_t> hashes;
    if (auto error = module::prepare_safetensors(tensors, *files.parameters(), {}, &hashes)) return error;
    llvm::StringMap<uint64_t> hash_of;
    for (auto [tensor, hash] : llvm::zip_equal(tensors, hashes)) hash_of[tensor.name] = hash;
    for (auto& parameter : file.parameters) {
      const auto hash = hash_of.find(parameter->name);
      if (parameter->scope.empty() && hash != hash_of.end()) parameter->hash = hash->second;
    }
  }
  if (auto error = writer.prepare(file, files.output())) return error;
  return files.commit();
}

}  // namespace heddle::emit
