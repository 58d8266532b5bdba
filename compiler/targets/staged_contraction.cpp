// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See staged_contraction.h.
#include "compiler/targets/staged_contraction.h"

#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// Below these, most of a tile would be empty.
constexpr int64_t fewest_rows = 8, fewest_columns = 8, shortest_sum = 8;

constexpr unsigned small_integer_bits = 8;

// How a factor depends on a dimension: not at all, only on quotients of it by a number, or in another way.
struct Dependence {
  bool any = false;
  int64_t divisor = 0;  // 0: it depends on the index itself

  void add(const Dependence& other) {
    if (!other.any) return;
    divisor = !any || divisor == other.divisor ? other.divisor : 0;
    any = true;
  }
};

Dependence dependence_of(AffineExpr expression, unsigned dimension) {
  if (!expression.isFunctionOfDim(dimension)) return {};
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary) return {true, 0};
  if (binary.getKind() == AffineExprKind::FloorDiv && binary.getLHS() == getAffineDimExpr(dimension, expression.getContext())) {
    return {true, std::max<int64_t>(0, tx::static_extent(binary.getRHS()).value_or(0))};
  }
  Dependence all = dependence_of(binary.getLHS(), dimension);
  all.add(dependence_of(binary.getRHS(), dimension));
  return all;
}

// One factor: the reads that it is computed from, and how it depends on each dimension of the domain.
struct Factor {
  SmallVector<bool> reads;
  SmallVector<Dependence> dimensions;

  Factor(stage::ContractOp contract, unsigned number)
      : reads(contract.getStepReads(), false), dimensions(stage::domain_of(contract).getRank()) {
    SmallVector<Value> waiting{contract.getFactors().front().getTerminator()->getOperand(number)};
    llvm::DenseSet<Value> seen;
    while (!waiting.empty()) {
      Value value = waiting.pop_back_val();
      if (!seen.insert(value).second) continue;
      auto argument = llvm::dyn_cast<BlockArgument>(value);
      if (!argument) {
        llvm::append_range(waiting, value.getDefiningOp()->getOperands());
      } else if (argument.getArgNumber() < dimensions.size()) {
        dimensions[argument.getArgNumber()].add({true, 0});
      } else {
        reads[argument.getArgNumber() - dimensions.size()] = true;
        depend(contract, argument.getArgNumber() - static_cast<unsigned>(dimensions.size()));
      }
    }
  }

 private:
  void depend(stage::ContractOp contract, unsigned read) {
    for (AffineExpr index : stage::access_of(contract, read).getMap().getResults()) {
      for (auto [d, known] : llvm::enumerate(dimensions)) known.add(dependence_of(index, static_cast<unsigned>(d)));
    }
    for (unsigned gathered : stage::gathers_of(contract, read)) depend(contract, gathered);
  }
};

bool is_small(Type type) {
  return llvm::isa<IntegerType>(type) && type.getIntOrFloatBitWidth() <= small_integer_bits;
}

// Sets the types of factors and sums, from those of the graph's contraction. Factors have the accumulator's type in the stage: floats of 16 bits were
// widened, and f16 and bf16 represent the difference of two integers of 8 bits.
void choose_types(Type lhs, Type rhs, Type accumulator, Contraction& shape) {
  shape.element = shape.sum = accumulator;
  auto is_half = [](Type type) { return type.isF16() || type.isBF16(); };
  if (accumulator.isF32()) {
    if (is_half(lhs) && (rhs == lhs || is_small(rhs))) shape.element = lhs;
  } else if (llvm::isa<IntegerType>(accumulator) && is_small(lhs) && is_small(rhs) && accumulator.getIntOrFloatBitWidth() <= 32) {
    if (accumulator.getIntOrFloatBitWidth() >
        small_integer_bits) {  // otherwise sums wrap, and their bits do not depend on the signs of factors
      shape.is_unsigned[Contraction::lhs] = lhs.isUnsignedInteger();
      shape.is_unsigned[Contraction::rhs] = rhs.isUnsignedInteger();
    }
    shape.element = IntegerType::get(accumulator.getContext(), small_integer_bits);
    shape.sum = IntegerType::get(accumulator.getContext(), 32);
  }
}

std::optional<int64_t> static_count(const Walk& walk, MLIRContext* context) {
  return tx::static_extent(walk.count(context));
}

}  // namespace

AffineExpr Walk::count(MLIRContext* context) const {
  return product(extents(context));
}

SmallVector<AffineExpr> Walk::extents(MLIRContext* context) const {
  SmallVector<AffineExpr> result = llvm::map_to_vector(dimensions, [](const Dimension& dimension) { return dimension.extent; });
  if (result.empty()) result.push_back(getAffineConstantExpr(1, context));
  return result;
}

FailureOr<Contraction> Contraction::read(tx::DispatchOp region) {
  Operation* root = nullptr;
  for (Operation& op : region.getBody().front()) {
    if (!tx::is_contraction(&op)) continue;
    if (root) return failure();
    root = &op;
  }
  if (!root) return failure();
  auto refuse = [&](const Twine& why) { return FailureOr<Contraction>(region.emitError() << why); };
  std::string reason;
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return refuse(reason);
  Contraction result;
  result.staged_ = std::move(*staged);
  Block& stages = result.staged_.region.getBody().front();
  result.stage_ = llvm::dyn_cast<stage::ContractOp>(stages.front());
  if (!result.stage_ || stages.getTerminator()->getPrevNode() != &stages.front()) return refuse("other stages read its sums");

  stage::DomainAttr domain = result.domain();
  const Factor a(result.stage_, lhs), b(result.stage_, rhs);
  result.reads_[lhs] = a.reads;
  result.reads_[rhs] = b.reads;
  for (auto [d, extent] : llvm::enumerate(domain.parallel())) {
    if (tx::is_one(extent)) continue;
    const auto at = static_cast<unsigned>(d);
    const Dependence &in_a = a.dimensions[d], &in_b = b.dimensions[d];
    const auto fixed = tx::static_extent(extent);
    if (in_a.any && in_b.any && in_a.divisor > 1 && fixed && *fixed % in_a.divisor == 0) {
      // Columns in groups, each with its own part of the left side.
      result.batch.dimensions.push_back({at, getAffineConstantExpr(*fixed / in_a.divisor, region.getContext()), in_a.divisor});
      result.columns.dimensions.push_back({at, getAffineConstantExpr(in_a.divisor, region.getContext())});
    } else {
      Walk& walk = in_a.any == in_b.any ? result.batch : in_a.any ? result.rows : result.columns;
      walk.dimensions.push_back({at, extent});
    }
  }
  for (auto [d, extent] : llvm::enumerate(domain.folded())) {
    if (!tx::is_one(extent)) result.depth.dimensions.push_back({domain.getParallelRank() + static_cast<unsigned>(d), extent});
  }

  for (AffineMap bounded : domain.getWithin()) {
    if (llvm::any_of(result.columns.dimensions, [&](const Walk::Dimension& column) { return bounded.isFunctionOfDim(column.at); }))
      return refuse("which of its products exist depends on the column");
  }
  auto is_short = [&](const Walk& walk, int64_t least) { return static_count(walk, region.getContext()).value_or(least) < least; };
  if (is_short(result.rows, fewest_rows) || is_short(result.columns, fewest_columns) || is_short(result.depth, shortest_sum)) {
    return refuse("it does not have at least " + Twine(fewest_rows) + " rows, " + Twine(fewest_columns) + " columns and sums of at least " +
                  Twine(shortest_sum) + " elements");
  }
  choose_types(tx::element_of(root->getOperand(0)), tx::element_of(root->getOperand(1)), result.stage_.getAccumulator(), result);
  SmallVector<AffineExpr> stored = tx::extents(tx::tensor(region.getResult(0)));
  result.stores_rows_ =
      region.getNumResults() == 1 && !stored.empty() && domain.getParallelRank() > 0 && domain.parallel().back() == stored.back();
  return result;
}

int64_t Contraction::neighbors(Side side, const Walk& walk, int64_t most) const {
  if (walk.dimensions.empty()) return 1;
  const Walk::Dimension& inner = walk.dimensions.back();
  int64_t lanes = most;
  while (lanes > 1 && !inner.extent.isMultipleOf(lanes)) lanes /= 2;
  for (AffineMap bounded : domain().getWithin()) {
    if (bounded.isFunctionOfDim(inner.at)) return 1;
  }
  bool has_neighbors = false;
  for (unsigned i = 0; i < reads_[side].size(); ++i) {
    if (!reads_[side][i]) continue;
    auto step = memory_step(stage_, i, inner.at, lanes);
    const auto fixed = step ? tx::static_extent(*step) : std::nullopt;
    if (!fixed || (*fixed != 0 && *fixed != 1)) return 1;
    has_neighbors |= *fixed == 1;
  }
  return has_neighbors ? lanes : 1;
}

SmallVector<Value> Contraction::parallel_index(KernelBuilder& kernel, ValueRange in_batch, Value row, Value column) const {
  SmallVector<Value> index(domain().getParallelRank(), kernel.index(0));
  auto set = [&](const Walk& walk, ValueRange indices) {
    for (auto [dimension, value] : llvm::zip(walk.dimensions, indices))
      index[dimension.at] = kernel.add(index[dimension.at], kernel.mul(value, dimension.by));
  };
  set(batch, in_batch);
  if (row) set(rows, delinearize(kernel, row, rows.extents(context())));
  if (column) set(columns, delinearize(kernel, column, columns.extents(context())));
  return index;
}

Value Contraction::place_of(KernelBuilder& kernel, ArrayRef<Value> parallel) const {
  AffineExpr linear = getAffineConstantExpr(0, context());
  for (auto [d, extent] : llvm::enumerate(domain().parallel())) {
    const bool has_pitch = d + 1 == domain().getParallelRank() && kernel.pitch();
    linear = (has_pitch ? linear * *kernel.pitch() : linear * extent) + getAffineDimExpr(static_cast<unsigned>(d), context());
  }
  return BodyEmitter(kernel, stage_, {}).evaluate(linear, parallel);
}

const Walk* Contraction::innermost() const {
  unsigned last = domain().getParallelRank();
  while (last > 0 && tx::is_one(domain().parallel()[last - 1])) --last;
  for (const Walk* walk : {&columns, &rows}) {
    if (last > 0 && !walk->dimensions.empty() && walk->dimensions.back().at == last - 1) return walk;
  }
  return nullptr;
}

}  // namespace heddle::targets
