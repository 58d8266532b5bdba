// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See generic.h.
#include "compiler/targets/generic.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// By how much an index grows from one lane to the next in the dimension, if that is the same for all; `lanes` is lowered to what that holds for. The
// first lane's index is a multiple of their number.
std::optional<AffineExpr> slope(AffineExpr expression, unsigned dimension, int64_t& lanes) {
  MLIRContext* context = expression.getContext();
  if (!expression.isFunctionOfDim(dimension)) return getAffineConstantExpr(0, context);
  if (llvm::isa<AffineDimExpr>(expression)) return getAffineConstantExpr(1, context);
  auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
  auto left = slope(binary.getLHS(), dimension, lanes), right = slope(binary.getRHS(), dimension, lanes);
  if (!left || !right) return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) return *left + *right;
  if (binary.getKind() == AffineExprKind::Mul && binary.getRHS().isSymbolicOrConstant()) return *left * binary.getRHS();
  // Lanes that begin at a multiple of a divisor of it stay on one side of each multiple of the divisor.
  auto divisor = tx::static_extent(binary.getRHS());
  if (!divisor || binary.getLHS() != getAffineDimExpr(dimension, context)) return std::nullopt;
  while (*divisor % lanes != 0) lanes /= 2;
  if (binary.getKind() == AffineExprKind::FloorDiv) return getAffineConstantExpr(0, context);
  return binary.getKind() == AffineExprKind::Mod ? std::optional(getAffineConstantExpr(1, context)) : std::nullopt;
}

// Least and most of an index over a domain, where that is known.
std::optional<std::pair<int64_t, int64_t>> range_of(AffineExpr expression, stage::DomainAttr domain) {
  using Range = std::pair<int64_t, int64_t>;
  if (auto constant = tx::static_extent(expression)) return Range{*constant, *constant};
  if (auto dim = llvm::dyn_cast<AffineDimExpr>(expression)) {
    auto extent = tx::static_extent(domain.getExtents().getResult(dim.getPosition()));
    return extent ? std::optional(Range{0, std::max<int64_t>(0, *extent - 1)}) : std::nullopt;
  }
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
  auto left = binary ? range_of(binary.getLHS(), domain) : std::nullopt;
  auto right = binary ? range_of(binary.getRHS(), domain) : std::nullopt;
  if (!left || !right) return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) return Range{left->first + right->first, left->second + right->second};
  int64_t by = right->first;
  if (by != right->second || by <= 0) return std::nullopt;
  if (binary.getKind() == AffineExprKind::Mul) return Range{left->first * by, left->second * by};
  if (binary.getKind() == AffineExprKind::FloorDiv)
    return Range{llvm::divideFloorSigned(left->first, by), llvm::divideFloorSigned(left->second, by)};
  return binary.getKind() == AffineExprKind::Mod ? std::optional(Range{0, by - 1}) : std::nullopt;
}

// Whether an index of this dimension of a tensor can be outside of it.
bool may_be_outside(AffineExpr index, AffineExpr extent, stage::DomainAttr domain) {
  auto dim = llvm::dyn_cast<AffineDimExpr>(index);
  if (dim && domain.getExtents().getResult(dim.getPosition()) == extent) return false;
  auto range = range_of(index, domain);
  auto fixed = tx::static_extent(extent);
  return !range || !fixed || range->first < 0 || range->second >= *fixed;
}

// The place in memory of a dense tensor's element.
AffineExpr linear(ArrayRef<AffineExpr> place, RankedTensorType type) {
  AffineExpr result = getAffineConstantExpr(0, type.getContext());
  for (auto [index, extent] : llvm::zip_equal(place, tx::extents(type))) result = result * extent + index;
  return result;
}

// How a read's elements lie for lanes in the last parallel dimension: 0 the same, 1 side by side; nothing if neither. `lanes` is lowered to what that
// holds for.
std::optional<int64_t> lane_step(Operation* stage, unsigned read, int64_t& lanes) {
  stage::AccessAttr access = stage::access_of(stage, read);
  stage::DomainAttr domain = stage::domain_of(stage);
  RankedTensorType type = tx::tensor(stage->getOperand(read));
  unsigned dimension = domain.getParallelRank() - 1;
  AffineExpr step = getAffineConstantExpr(0, stage->getContext());
  for (auto [index, extent] : llvm::zip_equal(access.getMap().getResults(), tx::extents(type))) {
    auto own = slope(index, dimension, lanes);
    if (!own) return std::nullopt;
    step = step * extent + *own;
    // Whether a place is inside is asked once for all lanes.
    if (access.getOutside() && *own != getAffineConstantExpr(0, stage->getContext()) && may_be_outside(index, extent, domain))
      return std::nullopt;
  }
  auto fixed = tx::static_extent(simplifyAffineExpr(step, 0, access.getMap().getNumSymbols()));
  return fixed && (*fixed == 0 || *fixed == 1) ? fixed : std::nullopt;
}

// A value in a body: the same for all lanes, or one for each.
struct Element {
  Value value;
  bool is_lanes = false;
};

class Emitter {
 public:
  Emitter(KernelBuilder& kernel, Operation* stage, ArrayRef<Value> parallel, int64_t lanes, Value mask)
      : k_(kernel), stage_(stage), domain_(stage::domain_of(stage)), index_(parallel), lanes_(lanes), mask_(mask) {}

  void run() {
    SmallVector<Element> sums;
    if (auto fold = llvm::dyn_cast<stage::FoldOp>(stage_)) sums = folded(fold);
    if (auto contract = llvm::dyn_cast<stage::ContractOp>(stage_)) sums = contracted(contract);
    unsigned first = stage::first_read_of_last_body(stage_);
    SmallVector<Element> results = run(stage::last_body(stage_), first, stage_->getNumOperands() - first, sums);
    AffineExpr place = getAffineConstantExpr(0, stage_->getContext());
    for (auto [d, extent] : llvm::enumerate(domain_.parallel())) place = place * extent + getAffineDimExpr(d, stage_->getContext());
    Value at = evaluate(place);
    for (auto [i, result] : llvm::enumerate(results)) k_.store(to_lanes(result).value, k_.result(i), at, mask_);
  }

 private:
  Value evaluate(AffineExpr expression) {
    if (expression.isSymbolicOrConstant()) return k_.extent(expression);
    if (auto dim = llvm::dyn_cast<AffineDimExpr>(expression)) return index_[dim.getPosition()];
    auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
    Value a = evaluate(binary.getLHS()), b = evaluate(binary.getRHS());
    switch (binary.getKind()) {
      case AffineExprKind::Add:
        return k_.add(a, b);
      case AffineExprKind::Mul:
        return k_.mul(a, b);
      case AffineExprKind::FloorDiv:
        return k_.div(a, b);  // places are not negative where they are divided
      case AffineExprKind::CeilDiv:
        return k_.ceil_div(a, b);
      default:
        return k_.rem(a, b);
    }
  }

  unsigned lane_dimension() const { return domain_.getParallelRank() - 1; }

  Element to_lanes(Element element) {
    if (lanes_ == 0 || element.is_lanes) return element;
    return {k_.splat(element.value, lanes_), true};
  }

  Element read(unsigned which) {
    stage::AccessAttr access = stage::access_of(stage_, which);
    RankedTensorType type = tx::tensor(stage_->getOperand(which));
    auto argument = llvm::cast<BlockArgument>(stage_->getOperand(which));
    int64_t most = lanes_;
    bool lanes = lanes_ > 0 && *lane_step(stage_, which, most) == 1;
    Value at = evaluate(linear(access.getMap().getResults(), type)), base = k_.operand(argument.getArgNumber());
    auto load = [&] { return k_.load(base, at, type.getElementType(), lanes ? lanes_ : 0, lanes ? mask_ : Value()); };
    Value inside = access.getOutside() ? is_inside(access.getMap().getResults(), type) : Value();
    if (!inside) return {load(), lanes};
    Type scalar = stage::scalar_type(type.getElementType());
    Type loaded = lanes ? Type(k_.vector_type(scalar, lanes_)) : scalar;
    Value value = k_.branch(
        inside, TypeRange(loaded), [&] { return KernelBuilder::Values{load()}; },
        [&] {
          TypedAttr outside = access.getOutside();
          if (auto vector = llvm::dyn_cast<VectorType>(loaded)) outside = SplatElementsAttr::get(vector, outside);
          return KernelBuilder::Values{k_.builder.create<arith::ConstantOp>(k_.location, outside)};
        })[0];
    return {value, lanes};
  }

  // Null where it always is.
  Value is_inside(ArrayRef<AffineExpr> place, RankedTensorType type) {
    Value all;
    for (auto [index, extent] : llvm::zip_equal(place, tx::extents(type))) {
      if (!may_be_outside(index, extent, domain_)) continue;
      Value at = evaluate(index);
      Value here =
          k_.make<arith::AndIOp>(k_.make<arith::CmpIOp>(arith::CmpIPredicate::sge, at, k_.index(0)), k_.less(at, k_.extent(extent)));
      all = all ? k_.make<arith::AndIOp>(all, here) : here;
    }
    return all;
  }

  // A block of scalars on what is known of its arguments: indices, reads [first, first + count), then `more`.
  SmallVector<Element> run(Block& body, unsigned first, unsigned count, ArrayRef<Element> more) {
    llvm::DenseMap<Value, Element> known;
    unsigned argument = 0;
    for (; argument + count + more.size() < body.getNumArguments(); ++argument) {
      BlockArgument own = body.getArgument(argument);
      if (own.use_empty()) continue;
      known[own] = {index_[argument], false};
      if (lanes_ > 0 && argument == lane_dimension()) {
        known[own] = {k_.make<arith::AddIOp>(k_.splat(index_[argument], lanes_), k_.iota(k_.builder.getI64Type(), lanes_)), true};
      }
    }
    for (unsigned i = first; i < first + count; ++i) known[body.getArgument(argument++)] = read(i);
    for (const Element& element : more) known[body.getArgument(argument++)] = element;
    for (Operation& op : body.without_terminator()) known[op.getResult(0)] = clone(op, known);
    return llvm::map_to_vector(body.getTerminator()->getOperands(), [&](Value value) { return known.at(value); });
  }

  Element clone(Operation& op, const llvm::DenseMap<Value, Element>& known) {
    bool lanes = llvm::any_of(op.getOperands(), [&](Value operand) { return known.at(operand).is_lanes; });
    OperationState state(k_.location, op.getName());
    for (Value operand : op.getOperands()) {
      Element element = known.at(operand);
      state.addOperands(lanes ? to_lanes(element).value : element.value);
    }
    Type type = op.getResult(0).getType();
    state.addTypes(lanes ? Type(k_.vector_type(type, lanes_)) : type);
    state.addAttributes(op.getAttrs());
    return {k_.builder.create(state)->getResult(0), lanes};
  }

  // Loops over the reduced dimensions; `step` makes the next accumulators, all of them lanes where there are any.
  SmallVector<Element> loops(ArrayRef<Element> first, const std::function<SmallVector<Element>(ArrayRef<Element>)>& step) {
    if (index_.size() == domain_.getRank()) return step(first);
    Value extent = k_.extent(domain_.getExtents().getResult(index_.size()));
    SmallVector<Value> carried = llvm::map_to_vector(first, [&](Element element) { return to_lanes(element).value; });
    auto elements = [&](ValueRange values) { return llvm::map_to_vector(values, [&](Value value) { return Element{value, lanes_ > 0}; }); };
    auto results = k_.loop(k_.index(0), extent, k_.index(1), carried, [&](Value i, ValueRange values) {
      index_.push_back(i);
      SmallVector<Element> next = loops(elements(values), step);
      index_.pop_back();
      return KernelBuilder::Values(llvm::map_range(next, [&](Element element) { return to_lanes(element).value; }));
    });
    return elements(results);
  }

  SmallVector<Element> folded(stage::FoldOp fold) {
    SmallVector<Element> init;
    {
      // `init` has no indices.
      SmallVector<Value> saved;
      std::swap(saved, index_);
      init = run(fold.getInit().front(), 0, 0, {});
      std::swap(saved, index_);
    }
    unsigned reads = static_cast<unsigned>(fold.getStepReads());
    return loops(init, [&](ArrayRef<Element> sums) { return run(fold.getStep().front(), 0, reads, sums); });
  }

  SmallVector<Element> contracted(stage::ContractOp contract) {
    Type type = contract.getAccumulator();
    unsigned reads = static_cast<unsigned>(contract.getStepReads());
    return loops(Element{k_.constant(type, 0), false}, [&](ArrayRef<Element> sums) {
      SmallVector<Element> factors = run(contract.getFactors().front(), 0, reads, {});
      Value a = to_lanes(factors[0]).value, b = to_lanes(factors[1]).value, sum = to_lanes(sums[0]).value;
      Value next = llvm::isa<FloatType>(type) ? k_.make<math::FmaOp>(a, b, sum) : k_.make<arith::AddIOp>(k_.make<arith::MulIOp>(a, b), sum);
      return SmallVector<Element>{{next, lanes_ > 0}};
    });
  }

  KernelBuilder& k_;
  Operation* stage_;
  stage::DomainAttr domain_;
  SmallVector<Value> index_;  // of the dimensions that are open
  int64_t lanes_;
  Value mask_;
};

}  // namespace

constexpr int64_t most_lanes = 64;

FailureOr<GenericKernel> GenericKernel::read(tx::DispatchOp region) {
  GenericKernel kernel;
  std::string reason;
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return FailureOr<GenericKernel>(region.emitError("no stages: ") << reason);
  kernel.staged_ = std::move(*staged);
  kernel.op_ = &kernel.staged_.region.getBody().front().front();
  stage::DomainAttr domain = stage::domain_of(kernel.op_);
  kernel.extents_.assign(domain.parallel().begin(), domain.parallel().end());
  kernel.lanes_ = kernel.extents_.empty() ? 1 : most_lanes;
  for (unsigned i = 0; kernel.lanes_ > 1 && i < kernel.op_->getNumOperands(); ++i) {
    if (!lane_step(kernel.op_, i, kernel.lanes_)) kernel.lanes_ = 1;
  }
  if (kernel.extents_.empty()) kernel.extents_.push_back(getAffineConstantExpr(1, region.getContext()));
  return kernel;
}

double GenericKernel::iterations() const {
  double count = 1;
  for (AffineExpr extent : stage::domain_of(op_).folded()) count *= static_cast<double>(tx::static_extent(extent).value_or(64));
  return count;
}

void GenericKernel::emit(KernelBuilder& kernel, ArrayRef<Value> outer, Value inner, int64_t lanes, Value mask) const {
  SmallVector<Value> index(outer);
  if (stage::domain_of(op_).getParallelRank() > 0) index.push_back(inner);
  Emitter(kernel, op_, index, lanes, mask).run();
}

}  // namespace heddle::targets
