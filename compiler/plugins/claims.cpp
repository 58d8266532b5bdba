// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See claims.h. A claim that is one region as it stands keeps it; for any other, all regions that are not claimed as they stand are dissolved, the
// claims are outlined one after the other, and the compiler groups what is left.
#include "compiler/plugins/claims.h"

#include "compiler/passes/regions.h"
#include "compiler/plugins/graph.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::plugins {

namespace target = sdk::target;

namespace {

constexpr size_t most_texts = 1000;  // in a report

// The claims of one function.
class Claimer {
 public:
  Claimer(func::FuncOp function, TargetPlugin& plugin, const passes::Devices& devices, const Warn& warn, SmallVector<Attribute>& log)
      : function_(function), plugin_(plugin), devices_(devices), warn_(warn), log_(log) {}

  LogicalResult run() {
    std::string reason;
    if (!read_graph(function_, plugin_.family(), graph_, reason)) {
      lose("function '" + function_.getName().str() + "'", "it has no graph: " + reason);
      return success();
    }
    if (graph_.graph.nodes.empty()) return success();
    for (tx::DispatchOp region : graph_.groups)
      slots_of_groups_.push_back(StringAttr::get(function_.getContext(), region.getSlot().value_or(tx::default_slot)));
    target::Answer answer;
    if (std::string wrong = plugin_.claim(graph_.graph, answer); !wrong.empty()) {
      lose("function '" + function_.getName().str() + "'", wrong);
      return success();
    }
    for (const target::Refusal& refusal : answer.refusals) {
      if (plugin_.refused.size() < most_texts) plugin_.refused.push_back({name_of(refusal.node), refusal.reason});
    }
    std::vector<const target::Claim*> others = take_whole_groups(answer);
    if (others.empty()) return success();
    // The compiler numbers the regions that it makes of the rest.
    for (tx::DispatchOp region : graph_.groups) {
      if (taken_.contains(region)) region.setName(next_name(region.getBody().front().front()));
    }
    dissolve_groups();
    for (const target::Claim* claim : others) outline(*claim);
    return passes::form_regions(function_, passes::most_bindings, log_, &devices_);
  }

 private:
  std::string name_of(uint32_t node) const {
    const target::Node& one = graph_.graph.nodes[node];
    return one.location.empty() ? one.name : one.name + " '" + one.location + "'";
  }
  void lose(const std::string& what, const std::string& reason) {
    plugin_.lost.push_back({what, reason});
    if (warn_)
      warn_(reason.starts_with("compiler: ") ? reason.substr(10) + "; " + what + " becomes portable code"
                                             : plugin_.who() + ": " + what + " becomes portable code: " + reason);
  }
  std::string describe(const target::Claim& claim) const {
    return "claim '" + claim.name + "' of " + (claim.nodes.empty() ? "nothing" : name_of(claim.nodes.front())) +
           (claim.nodes.size() > 1 ? " and " + std::to_string(claim.nodes.size() - 1) + " more" : "");
  }
  static void mark(tx::DispatchOp region, const target::Claim& claim) {
    Builder builder(region.getContext());
    region->setAttr(emit::claim_attr, builder.getStringAttr(claim.name));
    region->setAttr(reason_attr, builder.getStringAttr(claim.reason));
    region->setAttr(cost_attr, builder.getI64IntegerAttr(static_cast<int64_t>(std::min<uint64_t>(claim.cost_ns, INT64_MAX))));
  }

  // Refuses claims that are wrong in themselves, and marks those that are a group. Returns the others.
  std::vector<const target::Claim*> take_whole_groups(const target::Answer& answer) {
    std::vector<size_t> nodes_of_group(graph_.groups.size());
    for (const target::Node& node : graph_.graph.nodes) ++nodes_of_group[node.group];
    std::vector<bool> is_claimed(graph_.ops.size());
    std::vector<const target::Claim*> others;
    for (const target::Claim& claim : answer.claims) {
      std::string wrong = claim.nodes.empty() ? "it has no nodes" : "";
      for (uint32_t node : claim.nodes) {
        if (node < is_claimed.size() && !is_claimed[node]) continue;
        wrong = node < is_claimed.size() ? "node " + std::to_string(node) + " is claimed twice"
                                         : "there is no node " + std::to_string(node) + "; there are " + std::to_string(is_claimed.size());
      }
      llvm::DenseSet<uint32_t> distinct(claim.nodes.begin(), claim.nodes.end());
      if (wrong.empty() && distinct.size() != claim.nodes.size()) wrong = "it has a node twice";
      if (!wrong.empty()) {
        target::Claim named = claim;
        llvm::erase_if(named.nodes, [&](uint32_t node) { return node >= is_claimed.size(); });
        lose(describe(named), wrong);
        continue;
      }
      for (uint32_t node : claim.nodes) is_claimed[node] = true;
      const uint32_t group = graph_.graph.nodes[claim.nodes.front()].group;
      const bool is_group = claim.nodes.size() == nodes_of_group[group] &&
                            llvm::all_of(claim.nodes, [&](uint32_t node) { return graph_.graph.nodes[node].group == group; });
      if (!is_group) {
        others.push_back(&claim);
        continue;
      }
      mark(graph_.groups[group], claim);
      taken_.insert(graph_.groups[group]);
    }
    return others;
  }

  void dissolve_groups() {
    llvm::DenseMap<Operation*, Operation*> now;
    for (tx::DispatchOp region : graph_.groups) {
      if (!taken_.contains(region)) dissolve(region, &now);
    }
    for (Operation*& op : graph_.ops) {
      if (Operation* other = now.lookup(op)) op = other;
    }
  }

  // now: gets the new op of each old one; may be null.
  static void dissolve(tx::DispatchOp region, llvm::DenseMap<Operation*, Operation*>* now) {
    OpBuilder builder(region);
    IRMapping map;
    Block& body = region.getBody().front();
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), region.getInputs())) map.map(argument, input);
    for (Operation& op : body.without_terminator()) {
      Operation* copy = builder.clone(op, map);
      // Regions have no slots inside; outside, a constant is where it says.
      if (llvm::isa<tx::ConstantOp>(copy) && region.getSlot() && *region.getSlot() != tx::default_slot)
        copy->setAttr(tx::slot_attr, region.getSlotAttr());
      if (now) (*now)[&op] = copy;
    }
    for (auto [result, made] : llvm::zip_equal(region.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(map.lookup(made));
    region.erase();
  }

  // A region of the claimed ops, if that is possible.
  void outline(const target::Claim& claim) {
    llvm::DenseSet<Operation*> ops;
    for (uint32_t node : claim.nodes) ops.insert(graph_.ops[node]);
    Block& block = function_.getBody().front();
    SmallVector<Operation*> sorted, later;  // later: they depend on the claim
    llvm::DenseSet<Operation*> depends;
    for (Operation& op : block) {
      if (sorted.size() == ops.size()) break;
      auto reads = [&](const llvm::DenseSet<Operation*>& of) {
        bool found = false;
        op.walk([&](Operation* inner) {
          found |= llvm::any_of(inner->getOperands(),
                                [&](Value operand) { return operand.getDefiningOp() && of.contains(operand.getDefiningOp()); });
        });
        return found;
      };
      if (ops.contains(&op)) {
        if (reads(depends)) return lose(describe(claim), "it is not convex: something between two of its nodes is not claimed with them");
        sorted.push_back(&op);
      } else if (!sorted.empty() && (reads(ops) || reads(depends))) {
        depends.insert(&op);
        later.push_back(&op);
      }
    }
    auto slot = slot_of(claim);
    if (!slot) return lose(describe(claim), "its nodes are on several slots");
    llvm::SetVector<Value> inputs, results;
    for (Operation* op : sorted) {
      for (Value operand : op->getOperands()) note_inputs(operand, ops, inputs);
      for (Value result : op->getResults()) {
        if (llvm::any_of(result.getUsers(), [&](Operation* user) { return !ops.contains(user); })) results.insert(result);
      }
    }
    if (inputs.size() + results.size() > passes::most_bindings) {
      return lose(describe(claim), "it needs " + std::to_string(inputs.size() + results.size()) + " bindings, kernels have at most " +
                                       std::to_string(passes::most_bindings));
    }
    if (results.empty()) return lose(describe(claim), "nothing reads a result of it");
    OpBuilder builder(sorted.back()->getContext());
    builder.setInsertionPointAfter(sorted.back());
    auto region = builder.create<tx::DispatchOp>(sorted.front()->getLoc(), ValueRange(results.getArrayRef()).getTypes(),
                                                 inputs.getArrayRef(), next_name(*sorted.front()), slot);
    Block* body = builder.createBlock(&region.getBody());
    IRMapping inside;
    for (Value input : inputs) inside.map(input, body->addArgument(input.getType(), input.getLoc()));
    for (Operation* op : sorted) {
      for (Value operand : op->getOperands()) clone_parts(operand, inside, builder);
      builder.clone(*op, inside);
    }
    builder.create<tx::YieldOp>(region.getLoc(), llvm::map_to_vector(results, [&](Value result) { return inside.lookup(result); }));
    for (Operation& op : *body) op.removeAttr(tx::slot_attr);
    Operation* behind = region;
    for (Operation* op : later) {
      op->moveAfter(behind);
      behind = op;
    }
    for (auto [i, output] : llvm::enumerate(region.getOutputs())) Value(results[i]).replaceAllUsesWith(output);
    for (Operation* op : llvm::reverse(sorted)) op->erase();
    std::string code, reason;
    if (encode_region(region, "kernel", code, reason)) return mark(region, claim);
    lose(describe(claim), "its nodes together have no portable code: " + reason);
    dissolve(region, nullptr);
  }

  std::string next_name(Operation& first) {
    return function_.getName().str() + ".claim" + std::to_string(count_++) + "." + first.getName().stripDialect().str();
  }

  // That of the group of its nodes; null if there are several.
  StringAttr slot_of(const target::Claim& claim) const {
    StringAttr slot;
    for (uint32_t node : claim.nodes) {
      StringAttr own = slots_of_groups_[graph_.graph.nodes[node].group];
      if (slot && own != slot) return {};
      slot = own;
    }
    return slot;
  }

  static void note_inputs(Value operand, const llvm::DenseSet<Operation*>& ops, llvm::SetVector<Value>& inputs) {
    Operation* maker = operand.getDefiningOp();
    if (maker && ops.contains(maker)) return;
    if (maker && is_part_of_readers(maker)) {
      for (Value deeper : maker->getOperands()) note_inputs(deeper, ops, inputs);
    } else {
      inputs.insert(operand);
    }
  }
  static void clone_parts(Value operand, IRMapping& map, OpBuilder& builder) {
    if (map.contains(operand)) return;
    Operation* maker = operand.getDefiningOp();
    for (Value deeper : maker->getOperands()) clone_parts(deeper, map, builder);
    builder.clone(*maker, map);
  }

 public:
  static constexpr llvm::StringLiteral reason_attr = "heddle.claim_reason", cost_attr = "heddle.claim_cost";

 private:
  func::FuncOp function_;
  TargetPlugin& plugin_;
  const passes::Devices& devices_;
  const Warn& warn_;
  SmallVector<Attribute>& log_;
  FunctionGraph graph_;
  std::vector<StringAttr> slots_of_groups_;
  llvm::DenseSet<Operation*> taken_;
  unsigned count_ = 0;
};

struct ClaimKernels : PassWrapper<ClaimKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ClaimKernels)
  ClaimKernels(TargetPlugins& plugins, const passes::Devices& devices, const Warn& warn)
      : plugins_(plugins), devices_(devices), warn_(warn) {}
  StringRef getArgument() const final { return "heddle-claim-kernels"; }
  StringRef getDescription() const final { return "gives regions, or parts of them, to target plugins"; }
  void getDependentDialects(DialectRegistry& registry) const override { devices_.register_dialects(registry); }
  void runOnOperation() override {
    llvm::StringSet<> families;
    for (Attribute family : getOperation()->getAttrOfType<ArrayAttr>(tx::families_attr))
      families.insert(llvm::cast<StringAttr>(family).getValue());
    SmallVector<Attribute> log;
    if (auto known = getOperation()->getAttrOfType<ArrayAttr>(tx::fusion_log_attr)) llvm::append_range(log, known.getValue());
    for (auto& [family, plugin] : plugins_) {
      if (!families.contains(family)) continue;
      for (auto function : getOperation().getOps<func::FuncOp>()) {
        if (failed(Claimer(function, *plugin, devices_, warn_, log).run())) return signalPassFailure();
      }
    }
    getOperation()->setAttr(tx::fusion_log_attr, ArrayAttr::get(&getContext(), log));
  }
  TargetPlugins& plugins_;
  const passes::Devices& devices_;
  const Warn& warn_;
};

std::string node_of(Operation* op) {
  auto name = llvm::dyn_cast<NameLoc>(op->getLoc());
  return name ? name.getName().str() : op->getName().stripDialect().str();
}

targets::Plans plans_of(const target::Code& code, MLIRContext* context) {
  targets::Plans plans;
  for (auto [index, entry] : llvm::enumerate(code.entries)) {
    targets::KernelPlan plan;
    plan.workgroups = expression_of(code.expressions, entry.workgroups, context);
    plan.cost_ns = entry.cost_ns;
    plan.choice.numbers = {static_cast<int64_t>(index)};
    plan.choice.text = code.note;
    for (const target::Guard& guard : entry.guards)
      plan.guards.push_back({expression_of(code.expressions, guard.expression, context), guard.min, guard.max});
    plans.push_back(std::move(plan));
  }
  // Other calls are for portable code.
  if (!code.entries.back().guards.empty()) {
    targets::KernelPlan rest = plans.back();
    rest.guards.clear();
    rest.workgroups = {};
    plans.push_back(std::move(rest));
  }
  return plans;
}

}  // namespace

std::unique_ptr<Pass> claim_kernels(TargetPlugins& plugins, const passes::Devices& devices, const Warn& warn) {
  return std::make_unique<ClaimKernels>(plugins, devices, warn);
}

emit::FamilyCode code_of_claim(const TargetPlugin& plugin, const TargetPlugin::Kept& kept, const std::vector<emit::Combination>& models,
                               llvm::function_ref<bool(tx::DispatchOp)> is_its) {
  emit::FamilyCode made;
  made.name = plugin.family();
  made.executable = plugin.family() + "." + kept.kernel;
  for (const emit::Combination& model : models) made.kernels.add(model.model, plugin.family(), is_its);
  if (made.kernels.all().empty()) return made;
  targets::Plans plans = plans_of(kept.code, tx::DispatchOp(made.kernels.all().front().region).getContext());
  for (targets::KernelPlan& plan : plans) plan.strategy = kept.claim;
  made.kernels.plan({std::move(plans)});
  emit::Image image{kept.code.format, kept.code.target, std::vector<char>(kept.code.bytes.begin(), kept.code.bytes.end()), {}};
  for (auto [index, entry] : llvm::enumerate(kept.code.entries)) {
    made.kernels.rename(static_cast<uint32_t>(index), entry.name);
    targets::KernelResources resources;
    resources.workspace_bytes = entry.workspace_bytes;
    resources.workgroup_size = entry.workgroup_size;
    resources.subgroup_size = entry.subgroup_size;
    resources.shared_memory_bytes = entry.shared_memory_bytes;
    image.resources.push_back(std::move(resources));
  }
  made.images.push_back(std::move(image));
  return made;
}

std::vector<emit::FamilyCode> emit_claims(TargetPlugin& plugin, const std::vector<emit::Combination>& combinations, const Warn& warn) {
  std::vector<std::pair<std::string, tx::DispatchOp>> different;  // texts and the first of their regions
  llvm::StringMap<SmallVector<tx::DispatchOp>> regions;           // by text
  for (const emit::Combination& combination : combinations) {
    ModuleOp model = combination.model;
    model.walk([&](tx::DispatchOp region) {
      if (!region->hasAttr(emit::claim_attr) || tx::family_of(model, region.getSlot().value_or("")) != plugin.family()) return;
      std::string text = emit::text_of(region);
      auto& same = regions[text];
      if (same.empty()) different.emplace_back(std::move(text), region);
      same.push_back(region);
    });
  }
  std::vector<emit::FamilyCode> codes;
  unsigned number = 0;
  for (auto& [text, region] : different) {
    target::Kernel kernel;
    Block& body = region.getBody().front();
    auto root = llvm::find_if(body, [](Operation& op) { return tx::is_contraction(&op); });
    kernel.name = "c" + std::to_string(number++) + "_" + (root == body.end() ? body.front() : *root).getName().stripDialect().str();
    kernel.claim = region->getAttrOfType<StringAttr>(emit::claim_attr).getValue().str();
    kernel.symbol_count = emit::symbol_count(region);
    kernel.input_count = region.getInputs().size();
    kernel.output_count = region.getOutputs().size();
    target::Code code;
    std::string wrong;
    bool has_refused = false;
    if (plugin.is_refused(kernel.name)) {
      wrong = "it was refused by name";
      has_refused = true;
    } else if (!encode_region(region, kernel.name, kernel.code, wrong)) {
      wrong = plugin.who() + ": region '" + region.getName().str() + "' has no portable code: " + wrong;
    } else {
      wrong = plugin.emit(kernel, code, has_refused);
    }
    if (!wrong.empty()) {
      (has_refused ? plugin.refused : plugin.lost).push_back({node_of(region) + " (" + kernel.claim + ")", wrong});
      if (warn && !has_refused) {
        StringRef shown = wrong;
        shown.consume_front("compiler: ");
        warn(shown.str() + "; region '" + region.getName().str() + "' becomes portable code");
      }
      for (tx::DispatchOp same : regions[text]) same->removeAttr(emit::claim_attr);
      continue;
    }
    TargetPlugin::Kept kept;
    kept.kernel = kernel.name;
    kept.claim = kernel.claim;
    kept.code = std::move(code);
    kept.region = region.getOperation();
    if (auto reason = region->getAttrOfType<StringAttr>(Claimer::reason_attr)) kept.reason = reason.getValue().str();
    if (auto cost = region->getAttrOfType<IntegerAttr>(Claimer::cost_attr)) kept.cost_ns = static_cast<uint64_t>(cost.getInt());
    for (tx::DispatchOp same : regions[text]) {
      // "conv1 + relu1": all that the claim has become.
      std::string nodes;
      for (Operation& op : same.getBody().front().without_terminator()) {
        if (is_part_of_readers(&op)) continue;
        nodes += (nodes.empty() ? "" : " + ") + node_of(&op);
      }
      kept.nodes.push_back(std::move(nodes));
      if (!kept.code.entries.back().guards.empty()) same->setAttr(emit::partly_claimed_attr, UnitAttr::get(same.getContext()));
    }
    codes.push_back(
        code_of_claim(plugin, kept, combinations, [&](tx::DispatchOp other) { return llvm::is_contained(regions[text], other); }));
    plugin.kept.push_back(std::move(kept));
  }
  return codes;
}

}  // namespace heddle::plugins
