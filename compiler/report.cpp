// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/report.h"

#include <map>
#include <set>

#include "compiler/emit/globals.h"
#include "compiler/ir/ngrams.h"
#include "compiler/ir/suppress.h"
#include "compiler/ir/trees.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sdk/module/element_types.h"

using namespace mlir;
namespace json = llvm::json;

namespace heddle::compiler {
namespace {

std::string location_text(Location location) {
  if (auto name = llvm::dyn_cast<NameLoc>(location)) return name.getName().str();
  return "";
}

// The operator of the node that the importer made an op from.
std::string operator_text(Location location) {
  auto name = llvm::dyn_cast<NameLoc>(location);
  return name ? location_text(name.getChildLoc()) : "";
}

// A module attribute that is a list of dictionaries of strings.
json::Array notes(ModuleOp module, StringRef name) {
  json::Array result;
  auto log = module->getAttrOfType<ArrayAttr>(name);
  for (Attribute entry : log ? log.getValue() : ArrayRef<Attribute>()) {
    json::Object object;
    for (NamedAttribute field : llvm::cast<DictionaryAttr>(entry)) {
      object[field.getName().str()] = llvm::cast<StringAttr>(field.getValue()).str();
    }
    result.push_back(std::move(object));
  }
  return result;
}

// Who placed the region on its slot. A transpose may have moved to the slot after the one that its node was placed on.
std::string placed_by(tx::DispatchOp region, StringRef slot) {
  auto placements = region->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(tx::placements_attr);
  std::string node = location_text(region.getLoc());
  auto said = placements && !node.empty() ? placements.getAs<StringAttr>(node) : StringAttr();
  StringRef text = said ? said.getValue() : "";
  if (text.consume_front((slot + " by ").str())) return text.str();
  return slot == tx::default_slot ? "default" : "its operands";
}

std::string text_of(AffineExpr expression) {
  std::string text;
  llvm::raw_string_ostream(text) << expression;
  return text;
}

// The expression with the symbols' names in place of s0, s1, ...
std::string named_text(AffineExpr expression, ArrayRef<Attribute> symbols) {
  const std::string raw = text_of(expression);
  std::string text;
  for (size_t i = 0; i < raw.size();) {
    size_t end = i + 1;
    while (end < raw.size() && llvm::isDigit(raw[end])) ++end;
    unsigned position = 0;
    const bool is_symbol = raw[i] == 's' && !StringRef(raw).slice(i + 1, end).getAsInteger(10, position) && position < symbols.size();
    text += is_symbol ? llvm::cast<StringAttr>(symbols[position]).str() : raw.substr(i, end - i);
    i = end;
  }
  return text;
}

// "f32[n,4]"; "f32[n + 1]" for an extent that is computed.
std::string type_text(RankedTensorType type, ArrayRef<Attribute> symbols) {
  std::vector<std::string> extents;
  for (AffineExpr extent : tx::extents(type)) extents.push_back(named_text(extent, symbols));
  return module::type_text(module::element_type_name(tx::element_type_code(type.getElementType())), extents);
}

json::Array result_types(tx::DispatchOp region) {
  auto function = region->getParentOfType<func::FuncOp>();
  auto symbols = function ? function->getAttrOfType<ArrayAttr>(tx::symbols_attr) : ArrayAttr();
  json::Array types;
  for (Type type : region.getOutputs().getTypes()) {
    types.push_back(json::fixUTF8(type_text(llvm::cast<RankedTensorType>(type), symbols ? symbols.getValue() : ArrayRef<Attribute>())));
  }
  return types;
}

// What most of the region's time goes to. An op that needs a whole row or a contraction decides; element-wise ops are fused into regions of every
// kind.
StringRef kind_of(tx::DispatchOp region) {
  bool contraction = false, softmax = false, rows = false, pooling = false, look_up = false, computes = false;
  for (Operation& op : region.getBody().front().without_terminator()) {
    contraction |= op.hasTrait<tx::Contraction>();
    softmax |= llvm::isa<tx::SoftmaxOp>(op);
    rows |= llvm::isa<tx::RowsOp, tx::CumsumOp, tx::SortOp, tx::SuppressOp, tx::LrnOp, tx::NgramsOp, tx::TreesOp>(op);
    pooling |= llvm::isa<tx::PoolOp>(op);
    look_up |= op.hasTrait<tx::LookUp>() || llvm::isa<tx::ScatterOp, tx::PackOp>(op);
    computes |= !op.hasTrait<tx::Movement>() && !llvm::isa<tx::ConstantOp>(op);
  }
  if (contraction) return softmax ? "attention" : "contraction";
  if (rows) return "rows";
  if (pooling) return "pooling";
  return look_up || !computes ? "movement" : "element-wise";
}

// Floating-point or integer operations of the region's contractions: two per multiplication. Null if there are none.
AffineExpr flops_of(tx::DispatchOp region) {
  AffineExpr sum;
  auto add = [&](Type result, AffineExpr products_per_element) {
    AffineExpr own = tx::element_count(llvm::cast<RankedTensorType>(result)) * products_per_element * 2;
    sum = sum ? sum + own : own;
  };
  for (Operation& op : region.getBody().front().without_terminator()) {
    if (auto matmul = llvm::dyn_cast<tx::MatmulOp>(op)) {
      auto extents = tx::extents(llvm::cast<RankedTensorType>(matmul.getLhs().getType()));
      add(matmul.getResult().getType(), extents[extents.size() - (matmul.getTransposeLhs() ? 2 : 1)]);
    } else if (auto conv = llvm::dyn_cast<tx::ConvOp>(op)) {
      auto filter = llvm::cast<RankedTensorType>(conv.getFilter().getType());
      ArrayRef<int64_t> shape = conv.getPackedShape() ? ArrayRef<int64_t>(*conv.getPackedShape()) : filter.getShape();
      int64_t products = 1;
      for (int64_t extent : shape.drop_back()) products *= extent;
      if (llvm::none_of(shape, ShapedType::isDynamic))
        add(conv.getResult().getType(), getAffineConstantExpr(products, region.getContext()));
    }
  }
  return sum;
}

// Elements of the operand that the region reads: all, unless it only looks some up or slices.
AffineExpr elements_read(BlockArgument operand) {
  AffineExpr sum = getAffineConstantExpr(0, operand.getContext());
  for (OpOperand& use : operand.getUses()) {
    Operation* user = use.getOwner();
    const bool is_part = llvm::isa<tx::SliceOp>(user) || (user->hasTrait<tx::LookUp>() && use.getOperandNumber() == 0);
    if (!is_part) return tx::element_count(tx::tensor(operand));
    sum = sum + tx::element_count(tx::tensor(user->getResult(0)));
  }
  return sum;
}

// Bytes that the region reads and writes if every element of its operands that it needs, and of its results, is moved once.
AffineExpr bytes_of(tx::DispatchOp region) {
  auto element_bytes = [](Type type) { return (llvm::cast<RankedTensorType>(type).getElementTypeBitWidth() + 7) / 8; };
  AffineExpr sum = getAffineConstantExpr(0, region.getContext());
  for (BlockArgument operand : region.getBody().front().getArguments()) {
    if (!llvm::isa<RankedTensorType>(operand.getType())) continue;
    sum = sum + elements_read(operand) * element_bytes(operand.getType());
  }
  for (Type type : region.getOutputs().getTypes()) sum = sum + tx::element_count(llvm::cast<RankedTensorType>(type)) * element_bytes(type);
  return sum;
}

json::Object refusal_of(const std::string& strategy, const std::string& reason) {
  return json::Object{{"strategy", strategy}, {"reason", reason.empty() ? json::Value(nullptr) : json::Value(reason)}};
}

// What the strategies say of a kernel's region. `plans`: all plans, and whether calls of their case take them. `refused`: the strategies
// without a plan, with the reason, if there is one other than that the region is of another kind.
void add_answers(const emit::FamilyCode& code, const emit::Kernel& kernel, json::Array& plans, json::Array& refused) {
  ArrayRef<emit::Candidate> candidates = code.kernels.candidates(kernel.region);
  for (const targets::Answer& answer : code.answers.at(name_of_kernel(kernel.text))) {
    if (answer.plans.empty()) refused.push_back(refusal_of(answer.strategy, answer.reason));
    for (const targets::KernelPlan& plan : answer.plans) {
      auto same_case = llvm::find_if(candidates, [&](const emit::Candidate& candidate) { return candidate.guards == plan.guards; });
      const emit::Candidate& its_case = same_case == candidates.end() ? candidates.back() : *same_case;
      const targets::KernelPlan& taken = code.kernels.all()[its_case.kernel].plan;
      plans.push_back(
          json::Object{{"strategy", answer.strategy},
                       {"when", targets::text_of(plan.guards)},
                       {"choice", plan.choice.text},
                       {"estimate_ns", plan.estimate_ns > 0 ? json::Value(static_cast<int64_t>(plan.estimate_ns)) : json::Value(nullptr)},
                       {"taken", answer.strategy == taken.strategy && plan.choice.numbers == taken.choice.numbers}});
    }
  }
}

// The regions, the plugin operators and the transfers of one combination of families.
void add_places(const emit::Combination& combination, const std::vector<emit::FamilyCode>& codes, json::Array& regions,
                json::Array& operations, json::Array& transfers) {
  ModuleOp model = combination.model;
  auto program = [&] { return json::Array(combination.families()); };
  model.walk([&](tx::DispatchOp region) {
    StringRef slot = region.getSlot().value_or(tx::default_slot), family = tx::family_of(model, slot);
    auto has_it = [&](const emit::FamilyCode& code) { return code.name == family && code.kernels.has(region); };
    // That of a claim comes after the family's own, which may have the region for other calls.
    const emit::Kernels& kernels = llvm::find_if(llvm::reverse(codes), has_it)->kernels;
    const emit::Kernels& others = llvm::find_if(codes, has_it)->kernels;
    json::Array ops;
    auto add_op = [&](Operation& op) {
      json::Object one{{"op", op.getName().getStringRef().str()}};
      if (std::string node = location_text(op.getLoc()); !node.empty()) one["node"] = node;
      if (std::string name = operator_text(op.getLoc()); !name.empty()) one["operator"] = name;
      ops.push_back(std::move(one));
    };
    for (Operation& op : region.getBody().front().without_terminator()) add_op(op);
    // A concat whose parts regions store in place is listed with the last part.
    for (Operation* user : region->getUsers()) {
      if (llvm::isa<tx::ConcatOp>(user) && user->getOperands().back().getDefiningOp() == region) add_op(*user);
    }
    json::Object described{{"families", program()},
                           {"family", family.str()},
                           {"slot", slot.str()},
                           {"placed_by", placed_by(region, slot)},
                           {"region", region.getName().str()},
                           {"node", location_text(region.getLoc())},
                           {"kind", kind_of(region)},
                           {"results", result_types(region)},
                           {"kernel", others.usual(region).symbol},
                           {"ops", std::move(ops)}};
    json::Array special;
    for (const emit::Candidate& candidate : kernels.candidates(region).drop_back()) {
      special.push_back(json::Object{{"kernel", kernels.all()[candidate.kernel].symbol}, {"when", targets::text_of(candidate.guards)}});
    }
    auto function = region->getParentOfType<func::FuncOp>();
    auto symbols = function ? function->getAttrOfType<ArrayAttr>(tx::symbols_attr) : ArrayAttr();
    auto number_or_text = [&](AffineExpr count) {
      auto number = llvm::dyn_cast<AffineConstantExpr>(count);
      return number ? json::Value(number.getValue())
                    : json::Value(json::fixUTF8(named_text(count, symbols ? symbols.getValue() : ArrayRef<Attribute>())));
    };
    if (AffineExpr flops = flops_of(region)) described["flops"] = number_or_text(flops);
    described["bytes"] = number_or_text(bytes_of(region));
    if (!special.empty()) described["special_kernels"] = std::move(special);
    if (auto operand = region.overwritten()) described["overwrites_operand"] = *operand;
    if (tx::OperationAttr other = region.getAlternativeAttr()) described["operator"] = other.describe();
    regions.push_back(std::move(described));
  });
  model.walk([&](tx::CustomOp custom) {
    operations.push_back(
        json::Object{{"families", program()},
                     {"slot", custom.getSlot().value_or(tx::default_slot).str()},
                     {"operator", custom.getDomain().str() + "::" + custom.getName().str() + "/" + std::to_string(custom.getVersion())},
                     {"node", location_text(custom.getLoc())}});
  });
  model.walk([&](tx::TransferOp transfer) {
    auto type = llvm::cast<RankedTensorType>(transfer.getType());
    AffineExpr bytes = tx::element_count(type) * ((type.getElementTypeBitWidth() + 7) / 8);
    transfers.push_back(json::Object{{"families", program()},
                                     {"from", transfer.getFrom().str()},
                                     {"to", transfer.getTo().str()},
                                     {"node", location_text(transfer.getLoc())},
                                     {"bytes", text_of(bytes)}});
  });
}

// The weights that are left to each file, and the others.
json::Object parameters_of(const std::vector<emit::WrittenParameter>& written, const import::ParameterFiles& files) {
  using Key = std::pair<std::string, std::string>;
  struct Sum {
    int64_t bytes = 0, file_bytes = 0;
    json::Array names;
  };
  std::map<Key, Sum> by_file;  // by scope and path
  std::set<std::string> in_module;
  Sum outside;
  for (const emit::WrittenParameter& parameter : written) {
    if (parameter.place == emit::WrittenParameter::in_module) in_module.insert(parameter.name);
    if (parameter.place == emit::WrittenParameter::in_parameter_file) {
      outside.bytes += static_cast<int64_t>(parameter.bytes);
      outside.names.push_back(json::fixUTF8(parameter.name));
    }
    if (parameter.place != emit::WrittenParameter::left_to_file) continue;
    auto [path, bytes] = files.place_of(parameter.scope, parameter.name);
    Sum& sum = by_file[{parameter.scope, path}];
    sum.bytes += static_cast<int64_t>(parameter.bytes);
    sum.file_bytes += static_cast<int64_t>(bytes);
    sum.names.push_back(json::fixUTF8(parameter.name));
  }
  json::Array left, kept;
  for (auto& [key, sum] : by_file) {
    left.push_back(json::Object{{"file", json::fixUTF8(key.second)},
                                {"scope", json::fixUTF8(key.first)},
                                {"count", static_cast<int64_t>(sum.names.size())},
                                {"bytes", sum.bytes},
                                {"file_bytes", sum.file_bytes},
                                {"names", std::move(sum.names)}});
  }
  for (const import::ParameterFiles::Kept& one : files.kept()) {
    if (one.is_parameter && !in_module.contains(one.name)) continue;  // not used, or in the file of --params-out
    json::Object described{{"name", json::fixUTF8(one.name)}, {"bytes", static_cast<int64_t>(one.bytes)}};
    if (!one.reason.empty()) described["because"] = one.reason;
    kept.push_back(std::move(described));
  }
  json::Object result{{"left_to_files", std::move(left)}, {"in_module", std::move(kept)}};
  if (!outside.names.empty()) {
    result["in_parameter_file"] =
        json::Object{{"count", static_cast<int64_t>(outside.names.size())}, {"bytes", outside.bytes}, {"names", std::move(outside.names)}};
  }
  return result;
}

// Which plugins the module has code of, what they took, and what they did not.
json::Array plugins_of(const plugins::TargetPlugins& plugins, bool with_calls) {
  json::Array all;
  for (const auto& [family, plugin] : plugins) {
    json::Array claimed;
    for (const plugins::TargetPlugin::Kept& kept : plugin->kept) {
      json::Array nodes;
      for (const std::string& node : kept.nodes) nodes.push_back(json::fixUTF8(node));
      json::Object one{{"kernel", kept.kernel},
                       {"claim", json::fixUTF8(kept.claim)},
                       {"format", kept.code.format},
                       {"code_bytes", static_cast<int64_t>(kept.code.bytes.size())},
                       {"nodes", std::move(nodes)}};
      if (!kept.reason.empty()) one["reason"] = json::fixUTF8(kept.reason);
      if (!kept.code.note.empty()) one["note"] = json::fixUTF8(kept.code.note);
      if (kept.cost_ns != 0) one["cost_ns"] = static_cast<int64_t>(kept.cost_ns);
      claimed.push_back(std::move(one));
    }
    auto texts = [](const std::vector<plugins::Loss>& losses) {
      json::Array list;
      for (const plugins::Loss& loss : losses)
        list.push_back(json::Object{{"what", json::fixUTF8(loss.what)}, {"reason", json::fixUTF8(loss.reason)}});
      return list;
    };
    all.push_back(json::Object{{"family", family},
                               {"plugin", plugin->manifest().id},
                               {"version", plugin->manifest().version},
                               {"sha256", plugin->manifest().sha256},
                               {"claimed", std::move(claimed)},
                               {"refused", texts(plugin->refused)},
                               {"failed", texts(plugin->lost)}});
    if (with_calls) (*all.back().getAsObject())["calls"] = static_cast<int64_t>(plugin->calls);
  }
  return all;
}

}  // namespace

std::string report(const std::vector<emit::Combination>& combinations, const std::vector<emit::FamilyCode>& codes, targets::Math math,
                   const plugins::TargetPlugins& plugins, bool with_plans) {
  json::Array regions, operations, transfers, described, not_fused;
  for (const emit::Combination& combination : combinations) {
    add_places(combination, codes, regions, operations, transfers);
    for (json::Value& refusal : notes(combination.model, tx::fusion_log_attr)) {
      (*refusal.getAsObject())["families"] = json::Array(combination.families());
      not_fused.push_back(std::move(refusal));
    }
  }
  for (const emit::FamilyCode& code : codes) {
    for (auto [index, kernel] : llvm::enumerate(code.kernels.all())) {
      json::Array variants;
      for (const emit::Image& image : code.images) {
        const targets::KernelResources& resources = image.resources[index];
        json::Object needs{
            {"format", image.format}, {"target", image.target}, {"workspace_bytes", static_cast<int64_t>(resources.workspace_bytes)}};
        if (resources.workgroup_size > 1) needs["workgroup_size"] = static_cast<int64_t>(resources.workgroup_size);
        if (resources.shared_memory_bytes > 0) needs["shared_memory_bytes"] = static_cast<int64_t>(resources.shared_memory_bytes);
        if (resources.registers > 0) {
          needs["registers"] = static_cast<int64_t>(resources.registers);
          needs["spilled_bytes"] = static_cast<int64_t>(resources.spilled_bytes);
        }
        if (const auto& machine = resources.machine) {
          needs["subgroup_size"] = static_cast<int64_t>(resources.subgroup_size);
          needs["shared_memory_bytes"] = static_cast<int64_t>(resources.shared_memory_bytes);
          needs["scalar_registers"] = static_cast<int64_t>(machine->scalar_registers);
          if (machine->accumulators > 0) needs["accumulation_registers"] = static_cast<int64_t>(machine->accumulators);
          if (machine->spilled_scalar_registers > 0)
            needs["spilled_scalar_registers"] = static_cast<int64_t>(machine->spilled_scalar_registers);
          needs["private_bytes"] = static_cast<int64_t>(machine->private_bytes);
          needs["argument_bytes"] = static_cast<int64_t>(machine->argument_bytes);
          needs["subgroups_per_simd"] = static_cast<int64_t>(machine->occupancy);
        }
        if (!resources.rung.empty()) needs["rung"] = resources.rung;
        variants.push_back(std::move(needs));
      }
      json::Object entry{{"family", code.name},
                         {"kernel", kernel.symbol},
                         {"strategy", kernel.plan.strategy},
                         {"workgroups", text_of(kernel.plan.workgroups)},
                         {"workgroup_cost_ns", static_cast<int64_t>(kernel.plan.cost_ns)},
                         {"variants", std::move(variants)}};
      if (!kernel.plan.choice.text.empty()) entry["choice"] = kernel.plan.choice.text;
      json::Array plans, refused;
      if (!with_plans) {
        for (const targets::Refusal& refusal : kernel.plan.refusals) refused.push_back(refusal_of(refusal.strategy, refusal.reason));
      } else if (code.executable.empty() &&
                 code.kernels.usual(kernel.region).symbol == kernel.symbol) {  // special kernels have the same refusals
        add_answers(code, kernel, plans, refused);
      }
      if (with_plans) entry["name"] = name_of_kernel(kernel.text);
      if (!plans.empty()) entry["plans"] = std::move(plans);
      if (!refused.empty()) entry["refused"] = std::move(refused);
      described.push_back(std::move(entry));
    }
  }
  json::Object result{{"math", targets::name_of(math)},
                      {"regions", std::move(regions)},
                      {"transfers", std::move(transfers)},
                      {"kernels", std::move(described)},
                      {"not_fused", std::move(not_fused)}};
  // Omitted if empty, so that the bytes of modules without plugin operators did not change when these were introduced.
  if (!operations.empty()) result["operations"] = std::move(operations);
  if (!plugins.empty()) result["target_plugins"] = plugins_of(plugins, with_plans);
  if (json::Array own_only = notes(combinations.front().model, tx::own_only_attr); !own_only.empty())
    result["own_only"] = std::move(own_only);
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(result));
  return text;
}

void StageTimes::done(const char* stage) {
  auto now = std::chrono::steady_clock::now();
  seconds_.emplace_back(stage, std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

std::string add_run(const std::string& report, const StageTimes& times, const CodeCache& cache, const Tuned& tuned,
                    const std::vector<emit::WrittenParameter>& written, const import::ParameterFiles& files) {
  auto parsed = json::parse(report);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return report;
  }
  json::Object seconds, cached{{"entries_taken", cache.hits()}};
  for (const auto& [stage, of_stage] : times.seconds()) seconds[stage] = of_stage;
  if (std::string wrong = cache.why_unused(); !wrong.empty()) cached["unused"] = wrong;
  (*parsed->getAsObject())["seconds"] = std::move(seconds);
  (*parsed->getAsObject())["cache"] = std::move(cached);
  if (tuned.all() > 0) {
    json::Object choices{{"choices", static_cast<int64_t>(tuned.all())}, {"taken", static_cast<int64_t>(tuned.taken())}};
    if (!tuned.device().empty()) choices["device"] = tuned.device();
    (*parsed->getAsObject())["tuned"] = std::move(choices);
  }
  if (!files.is_empty()) (*parsed->getAsObject())["parameters"] = parameters_of(written, files);
  std::string text;
  llvm::raw_string_ostream(text) << *parsed;
  return text;
}

}  // namespace heddle::compiler
