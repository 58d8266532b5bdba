// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See graph.h.
#include "compiler/plugins/graph.h"

#include <map>
#include <tuple>

#include "compiler/ir/parameter_store.h"
#include "compiler/passes/fusion.h"
#include "compiler/stage/stage.h"
#include "compiler/targets/portable/encode.h"
#include "heddle/sdk/portable/code.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::plugins {

namespace target = sdk::target;

namespace {

std::string location_of(Operation* op) {
  auto name = llvm::dyn_cast<NameLoc>(op->getLoc());
  return name ? name.getName().str() : std::string();
}

bool encode_staged(tx::DispatchOp region, sdk::portable::Kernel& kernel, std::string& reason) {
  // What cannot be encoded is said by `reason`, and is no failure of the compile.
  ScopedDiagnosticHandler quiet(region.getContext(), [](Diagnostic&) { return success(); });
  auto staged = targets::stages_of(region, reason);
  if (failed(staged)) {
    std::string other;
    region->setAttr(targets::several_stages_attr, UnitAttr::get(region.getContext()));
    staged = targets::stages_of(region, other);
    if (failed(staged)) {
      region->removeAttr(targets::several_stages_attr);
      return false;
    }
  }
  auto function = *staged->module->getOps<func::FuncOp>().begin();
  function->setAttr(targets::named_ops_attr, targets::named_ops_of(region));
  return targets::encode(function, kernel, reason);
}

class GraphReader {
 public:
  GraphReader(func::FuncOp function, StringRef family, FunctionGraph& out, std::string& reason)
      : function_(function), family_(family), out_(out), reason_(reason) {}

  bool run() {
    auto symbols = function_->getAttrOfType<ArrayAttr>(tx::symbols_attr);
    out_.graph.function = function_.getName().str();
    out_.graph.symbol_count = symbols ? symbols.size() : 0;
    auto module = function_->getParentOfType<ModuleOp>();
    for (auto region : function_.getBody().front().getOps<tx::DispatchOp>()) {
      if (region.getAlternative() || tx::family_of(module, region.getSlot().value_or("")) != family_) continue;
      inside_.insert(region);
      out_.groups.push_back(region);
    }
    for (auto [group, region] : llvm::enumerate(out_.groups)) {
      for (Operation& op : region.getBody().front().without_terminator()) {
        if (!is_part_of_readers(&op) && !add_node(&op, static_cast<uint32_t>(group))) return false;
      }
    }
    out_.graph.group_count = static_cast<uint32_t>(out_.groups.size());
    std::vector<std::pair<std::string_view, std::string_view>> named;
    for (auto [name, bytes] : llvm::zip_equal(names_, kernels_)) named.emplace_back(name, bytes);
    out_.graph.code = sdk::portable::write_image(named);
    return true;
  }

 private:
  uint32_t add(target::Expression expression) {
    auto key = std::make_tuple(expression.kind, expression.value, expression.a, expression.b);
    auto [found, is_new] = known_.try_emplace(key, static_cast<uint32_t>(out_.graph.expressions.size()));
    if (is_new) out_.graph.expressions.push_back(expression);
    return found->second;
  }

  uint32_t expression(AffineExpr from) {
    if (auto constant = llvm::dyn_cast<AffineConstantExpr>(from)) return add({HEDDLE_TARGET_CONSTANT, 0, 0, 0, constant.getValue()});
    if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(from)) return add({HEDDLE_TARGET_SYMBOL, 0, 0, 0, symbol.getPosition()});
    auto binary = llvm::cast<AffineBinaryOpExpr>(from);
    const uint32_t a = expression(binary.getLHS()), b = expression(binary.getRHS());
    uint32_t kind = HEDDLE_TARGET_MODULO;
    if (binary.getKind() == AffineExprKind::Add) kind = HEDDLE_TARGET_ADD;
    if (binary.getKind() == AffineExprKind::Mul) kind = HEDDLE_TARGET_MULTIPLY;
    if (binary.getKind() == AffineExprKind::FloorDiv) kind = HEDDLE_TARGET_FLOOR_DIVIDE;
    if (binary.getKind() == AffineExprKind::CeilDiv) kind = HEDDLE_TARGET_CEIL_DIVIDE;
    return add({kind, a, b, 0, 0});
  }

  // Through the borders of regions of the graph, to where the value is made.
  Value made(Value value) const {
    while (true) {
      if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
        auto region = llvm::dyn_cast<tx::DispatchOp>(argument.getOwner()->getParentOp());
        if (!region) return value;
        value = region.getInputs()[argument.getArgNumber()];
      } else if (auto region = value.getDefiningOp<tx::DispatchOp>(); region && inside_.contains(region)) {
        value = region.getBody().front().getTerminator()->getOperand(llvm::cast<OpResult>(value).getResultNumber());
      } else {
        return value;
      }
    }
  }

  // Whether anything but a node of the graph reads it.
  bool leaves(Value value) const {
    return llvm::any_of(value.getUses(), [&](OpOperand& use) {
      Operation* user = use.getOwner();
      auto region = llvm::dyn_cast<tx::DispatchOp>(user->getParentOp());
      if (!region) return !inside_.contains(user);
      if (!llvm::isa<tx::YieldOp>(user)) return false;
      return llvm::any_of(region.getResult(use.getOperandNumber()).getUsers(), [&](Operation* outer) { return !inside_.contains(outer); });
    });
  }

  uint32_t value(Value of) {
    of = made(of);
    auto [found, is_new] = values_.try_emplace(of, static_cast<uint32_t>(out_.graph.values.size()));
    if (!is_new) return found->second;
    const uint32_t index = found->second;
    target::Value described;
    described.type = tx::element_type_code(tx::element_of(of));
    for (AffineExpr extent : tx::extents(tx::tensor(of))) described.extents.push_back(expression(extent));
    Operation* storage = tx::storage_of(of).getDefiningOp();
    if (llvm::isa_and_nonnull<tx::ParameterOp, tx::ConstantOp>(storage)) described.flags |= HEDDLE_TARGET_VALUE_KNOWN;
    if (leaves(of)) described.flags |= HEDDLE_TARGET_VALUE_LEAVES;
    out_.graph.values.push_back(std::move(described));
    return index;
  }

  bool add_node(Operation* op, uint32_t group) {
    target::Node node;
    node.group = group;
    node.name = op->getName().stripDialect().str();
    node.location = location_of(op);
    // A region of the op alone, with what is part of it.
    Location at = UnknownLoc::get(op->getContext());
    OwningOpRef<ModuleOp> module = ModuleOp::create(at);
    OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
    SmallVector<Value> inputs;
    for (Value operand : op->getOperands()) note_inputs(operand, inputs);
    SmallVector<Type> types = llvm::map_to_vector(inputs, [](Value input) { return input.getType(); });
    auto alone = builder.create<func::FuncOp>(at, "node", builder.getFunctionType(types, op->getResultTypes()));
    if (auto symbols = function_->getAttr(tx::symbols_attr)) alone->setAttr(tx::symbols_attr, symbols);
    Block* entry = alone.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    auto region =
        builder.create<tx::DispatchOp>(at, op->getResultTypes(), entry->getArguments(), "node", builder.getStringAttr(tx::default_slot));
    builder.create<func::ReturnOp>(at, region.getOutputs());
    Block* body = builder.createBlock(&region.getBody());
    IRMapping map;
    for (Value input : inputs) map.map(input, body->addArgument(input.getType(), at));
    for (Value operand : op->getOperands()) clone_parts(operand, map, builder);
    builder.create<tx::YieldOp>(at, builder.clone(*op, map)->getResults());
    sdk::portable::Kernel kernel;
    if (!encode_staged(region, kernel, reason_)) {
      reason_ = "op " + op->getName().getStringRef().str() + ": " + reason_;
      return false;
    }
    const std::string bytes = sdk::portable::write_kernel(kernel);
    auto [found, is_new] = known_kernels_.try_emplace(bytes, static_cast<uint32_t>(kernels_.size()));
    if (is_new) {
      names_.push_back("n" + std::to_string(kernels_.size()));
      kernels_.push_back(bytes);
    }
    node.kernel = found->second;
    for (Value input : inputs) node.inputs.push_back(value(input));
    for (Value result : op->getResults()) node.outputs.push_back(value(result));
    out_.graph.nodes.push_back(std::move(node));
    out_.ops.push_back(op);
    return true;
  }

  static void note_inputs(Value operand, SmallVector<Value>& inputs) {
    Operation* maker = operand.getDefiningOp();
    if (maker && is_part_of_readers(maker)) {
      for (Value deeper : maker->getOperands()) note_inputs(deeper, inputs);
    } else if (!llvm::is_contained(inputs, operand)) {
      inputs.push_back(operand);
    }
  }
  static void clone_parts(Value operand, IRMapping& map, OpBuilder& builder) {
    if (map.contains(operand)) return;
    Operation* maker = operand.getDefiningOp();
    for (Value deeper : maker->getOperands()) clone_parts(deeper, map, builder);
    builder.clone(*maker, map);
  }

  func::FuncOp function_;
  StringRef family_;
  FunctionGraph& out_;
  std::string& reason_;
  llvm::DenseSet<Operation*> inside_;  // the regions
  llvm::DenseMap<Value, uint32_t> values_;
  std::map<std::tuple<uint32_t, int64_t, uint32_t, uint32_t>, uint32_t> known_;
  std::map<std::string, uint32_t> known_kernels_;
  std::vector<std::string> names_, kernels_;
};

}  // namespace

bool is_part_of_readers(Operation* op) {
  if (llvm::isa<tx::ConstantOp>(op)) return passes::is_splat(op->getResult(0));
  if (!llvm::isa<tx::BroadcastOp>(op)) return false;
  return llvm::all_of(op->getOperands(),
                      [](Value operand) { return operand.getDefiningOp() && is_part_of_readers(operand.getDefiningOp()); });
}

bool read_graph(func::FuncOp function, StringRef family, FunctionGraph& out, std::string& reason) {
  return GraphReader(function, family, out, reason).run();
}

bool encode_region(tx::DispatchOp region, StringRef name, std::string& code, std::string& reason) {
  sdk::portable::Kernel kernel;
  if (!encode_staged(region, kernel, reason)) return false;
  code = sdk::portable::write_image({{std::string_view(name), std::string_view(sdk::portable::write_kernel(kernel))}});
  return true;
}

AffineExpr expression_of(const std::vector<target::Expression>& all, uint32_t which, MLIRContext* context) {
  const target::Expression& one = all[which];
  if (one.kind == HEDDLE_TARGET_CONSTANT) return getAffineConstantExpr(one.value, context);
  if (one.kind == HEDDLE_TARGET_SYMBOL) return getAffineSymbolExpr(static_cast<unsigned>(one.value), context);
  AffineExpr a = expression_of(all, one.a, context), b = expression_of(all, one.b, context);
  switch (one.kind) {
    case HEDDLE_TARGET_ADD:
      return a + b;
    case HEDDLE_TARGET_MULTIPLY:
      return a * b;
    case HEDDLE_TARGET_FLOOR_DIVIDE:
      return a.floorDiv(b);
    case HEDDLE_TARGET_CEIL_DIVIDE:
      return a.ceilDiv(b);
    default:
      return a % b;
  }
}

}  // namespace heddle::plugins
