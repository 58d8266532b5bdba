// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-form-dispatches: divides each function into regions, one kernel each. A region is one root (contraction, pooling, ...) with its epilogue;
// or reductions of the same rows with the ops between and around them; or a softmax between two products; or a set of element-wise ops. No
// region needs more bindings than every device has. Every refusal to fuse is recorded.
#include "compiler/passes/fusion.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/regions.h"

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Every op has one result, which is a binding; the other bindings are for the values that it reads.
constexpr unsigned bindings_of_results = 1;

// A concat is the only op that may read more values than a kernel has bindings for: it becomes a concat of concats of its parts.
void split_wide_concats(func::FuncOp function, unsigned most_reads, SmallVector<Attribute>& log) {
  for (Operation& op : llvm::make_early_inc_range(function.getBody().front())) {
    auto whole = llvm::dyn_cast<tx::ConcatOp>(op);
    while (whole && llvm::DenseSet<Value>(whole->operand_begin(), whole->operand_end()).size() > most_reads) {
      OpBuilder builder(whole);
      size_t count = whole.getInputs().size(), parts = llvm::divideCeil(count, most_reads);
      SmallVector<Value> joined;
      for (size_t p = 0; p < parts; ++p) {
        ValueRange inputs = whole.getInputs().slice(count * p / parts, count * (p + 1) / parts - count * p / parts);
        auto type = llvm::cast<RankedTensorType>(whole.getType());
        SmallVector<AffineExpr> extents = tx::extents(type);
        extents[whole.getAxis()] = builder.getAffineConstantExpr(0);
        for (Value input : inputs) {
          extents[whole.getAxis()] = extents[whole.getAxis()] + tx::extents(llvm::cast<RankedTensorType>(input.getType()))[whole.getAxis()];
        }
        auto part = builder.create<tx::ConcatOp>(whole.getLoc(), tx::tensor_type(extents, type.getElementType()), inputs, whole.getAxis());
        joined.push_back(part);
        log.push_back(refusal("TooManyBindings", part, whole));
      }
      whole.getInputsMutable().assign(joined);
    }
  }
}

}  // namespace

LogicalResult form_regions(func::FuncOp function, unsigned most_bindings, SmallVector<Attribute>& log, const Devices* devices) {
  const unsigned most_reads = most_bindings - bindings_of_results;
  split_wide_concats(function, most_reads, log);
  return Fuser(function, most_reads, log, devices).run();
}

namespace {

struct FormDispatches : PassWrapper<FormDispatches, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FormDispatches)
  StringRef getArgument() const final { return "heddle-form-dispatches"; }
  StringRef getDescription() const final { return "relu(add(conv(x, w), broadcast b))  ->  dispatch(x, w, b) { the same }"; }
  void runOnOperation() override {
    constexpr unsigned fewest = 4;  // of tx.select
    if (most_bindings < fewest) {
      getOperation()->emitError("heddle-form-dispatches: most-bindings ") << most_bindings.getValue() << " is less than " << fewest;
      return signalPassFailure();
    }
    SmallVector<Attribute> log;
    // Without families, there is no device to ask.
    const Devices* devices = getOperation()->hasAttr(tx::families_attr) ? &devices_ : nullptr;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (failed(form_regions(function, most_bindings, log, devices))) return signalPassFailure();
    }
    getOperation()->setAttr(tx::fusion_log_attr, ArrayAttr::get(&getContext(), log));
  }

  void getDependentDialects(DialectRegistry& registry) const override { devices_.register_dialects(registry); }

  explicit FormDispatches(const Devices& devices) : devices_(devices) {}
  FormDispatches(const FormDispatches& other) : PassWrapper(other), devices_(other.devices_) {}
  Option<unsigned> most_bindings{*this, "most-bindings", llvm::cl::desc("bindings of a region, at most"),
                                 llvm::cl::init(passes::most_bindings)};
  const Devices& devices_;
};

}  // namespace

std::unique_ptr<Pass> form_dispatches(const Devices& devices) {
  return std::make_unique<FormDispatches>(devices);
}

}  // namespace heddle::passes
