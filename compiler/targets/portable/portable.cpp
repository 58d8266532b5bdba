// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See portable.h.
#include "compiler/targets/portable/portable.h"

#include "compiler/targets/portable/encode.h"
#include "heddle/code.h"
#include "heddle/sdk/portable/interpreter.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// The one strategy: every region that has stages.
class Stages final : public Strategy {
 public:
  llvm::StringRef name() const override { return "stages"; }
  bool reads_stages() const override { return true; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    sdk::portable::Kernel kernel;
    std::string reason;
    auto staged = stages_of(region, reason);
    if (failed(staged) || !encode(function_of(*staged), kernel, reason))
      return FailureOr<Plans>(region.emitError() << "portable: " << reason);
    KernelPlan plan;
    plan.workgroups = getAffineConstantExpr(1, region.getContext());
    plan.copies_by_operand = true;
    plan.sums_nothing = true;
    return Plans{plan};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels) const override {
    std::string reason;
    auto staged = stages_of(region, reason);
    if (failed(staged)) return FailureOr<KernelResources>(region.emitError() << "portable: " << reason);
    OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
    auto function = llvm::cast<func::FuncOp>(builder.clone(*function_of(*staged)));
    function.setName(symbol);
    function.setPublic();
    function->setAttr(named_ops_attr, named_ops_of(region));
    return KernelResources{};
  }

 private:
  static func::FuncOp function_of(stage::StagedRegion& staged) { return *staged.module->getOps<func::FuncOp>().begin(); }
};

class PortableTarget final : public Target {
 public:
  explicit PortableTarget(std::string family) : family_(std::move(family)) { strategies_.push_back(std::make_unique<Stages>()); }

  std::string format() const override { return HEDDLE_CODE_PORTABLE; }
  std::string name() const override { return std::string(portable_level); }
  std::string family() const override { return family_; }
  const Strategies& strategies() const override { return strategies_; }

  FailureOr<std::vector<char>> generate(ModuleOp kernels) const override {
    auto function = *kernels.getOps<func::FuncOp>().begin();
    sdk::portable::Kernel kernel;
    std::string reason;
    if (!encode(function, kernel, reason)) return FailureOr<std::vector<char>>(function.emitError() << "portable: " << reason);
    const std::string bytes = sdk::portable::write_kernel(kernel);
    return std::vector<char>(bytes.begin(), bytes.end());
  }

  FailureOr<std::vector<char>> link(ArrayRef<ArrayRef<char>> units, ArrayRef<LinkedKernel> kernels, Location location) const override {
    if (units.size() != kernels.size()) {
      return FailureOr<std::vector<char>>(emitError(location, "portable: ")
                                          << units.size() << " units of code are not those of " << kernels.size() << " kernels");
    }
    std::vector<std::pair<std::string_view, std::string_view>> named;
    for (auto [unit, kernel] : llvm::zip_equal(units, kernels))
      named.emplace_back(kernel.symbol, std::string_view(unit.data(), unit.size()));
    const std::string bytes = sdk::portable::write_image(named);
    return std::vector<char>(bytes.begin(), bytes.end());
  }

 private:
  const std::string family_;
  Strategies strategies_;
};

// The expressions of a kernel over the symbols of its region's function.
SmallVector<AffineExpr> expressions_of(const sdk::portable::Kernel& kernel, MLIRContext* context) {
  using sdk::portable::Expression;
  SmallVector<AffineExpr> all;
  for (const Expression& e : kernel.expressions) {
    const bool has_operands = e.kind > Expression::kSymbol;
    AffineExpr a = has_operands ? all[e.a] : AffineExpr(), b = has_operands ? all[e.b] : AffineExpr(), made;
    // Those over dimensions are of no extent.
    const bool is_known = !has_operands || (a && b);
    if (e.kind == Expression::kConstant) made = getAffineConstantExpr(e.value, context);
    if (e.kind == Expression::kSymbol) made = getAffineSymbolExpr(static_cast<unsigned>(e.value), context);
    if (e.kind == Expression::kAdd && is_known) made = a + b;
    if (e.kind == Expression::kMul && is_known) made = a * b;
    if (e.kind == Expression::kFloorDiv && is_known) made = a.floorDiv(b);
    if (e.kind == Expression::kCeilDiv && is_known) made = a.ceilDiv(b);
    if (e.kind == Expression::kMod && is_known) made = a % b;
    all.push_back(made);
  }
  return all;
}

}  // namespace

std::optional<Workspace> portable_workspace(tx::DispatchOp region) {
  namespace portable = sdk::portable;
  portable::Kernel kernel;
  std::string reason;
  auto staged = stages_of(region, reason);
  if (region.getAlternativeAttr() || failed(staged) || !encode(*staged->module->getOps<func::FuncOp>().begin(), kernel, reason)) return {};
  const size_t bindings = kernel.inputs + kernel.outputs;
  if (bindings == portable::kMostBindings || !portable::verify(&kernel, &reason)) return {};
  MLIRContext* context = region.getContext();
  const SmallVector<AffineExpr> known = expressions_of(kernel, context);
  constexpr auto alignment = static_cast<int64_t>(portable::kWorkspaceAlignment);
  auto product = [&](int64_t bytes, ArrayRef<uint32_t> extents) {
    AffineExpr made = getAffineConstantExpr(bytes, context);
    for (uint32_t extent : extents) made = made * known[extent];
    return made;
  };
  auto rounded_up = [&](AffineExpr bytes) { return bytes.ceilDiv(alignment) * alignment; };
  Workspace out = {getAffineConstantExpr(0, context), {}};
  for (const portable::Tensor& tensor : ArrayRef(kernel.tensors).drop_front(bindings)) {
    portable::Scalar scalar = {};
    portable::scalar_of(tensor.type, &scalar);
    out.bytes = out.bytes + rounded_up(product(portable::bytes_of(scalar), tensor.extents));
  }
  const bool has_tensors = kernel.tensors.size() > bindings;
  const portable::Program program(std::move(kernel));
  const uint64_t scratch = program.scratch_bytes();
  if (scratch > portable::kScratchBytes) {
    const AffineExpr any = getAffineConstantExpr(INT64_MAX, context);
    out.threads.push_back({rounded_up(getAffineConstantExpr(static_cast<int64_t>(scratch), context)), any});
  }
  for (const portable::Node& node : program.kernel().nodes) {
    const std::vector<uint32_t> sizes = portable::sorted_bytes(node);
    if (sizes.empty()) continue;
    AffineExpr line = getAffineConstantExpr(0, context);
    for (uint32_t size : sizes) line = line + rounded_up(product(size, node.extents.back()));
    auto constant = llvm::dyn_cast<AffineConstantExpr>(line);
    if (constant && scratch < portable::kScratchBytes && static_cast<uint64_t>(constant.getValue()) <= portable::kScratchBytes - scratch)
      continue;
    std::vector<uint32_t> lines(node.extents.begin(), node.extents.end() - node.reduced);
    lines.erase(lines.begin() + node.along);
    out.threads.push_back({line, product(1, lines)});
  }
  if (!has_tensors && out.threads.empty()) return {};
  return out;
}

std::unique_ptr<Target> make_portable_target(std::string_view name, std::string family) {
  return name == portable_level ? std::make_unique<PortableTarget>(std::move(family)) : nullptr;
}

}  // namespace heddle::targets
