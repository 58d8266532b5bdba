// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region of tx ops as stages. What only moves elements becomes part of the places at which others read; element-wise ops become arithmetic
// in a body; a reduction or a contraction becomes a stage, and what is computed from its results is its `finish`.
#include "compiler/stage/scalar_body.h"
#include "compiler/stage/stage.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::stage {

namespace {

using Exprs = SmallVector<AffineExpr>;

// Reshapes that only divide the results differently do not change what is stored where.
Value behind_reshapes(Value value) {
  while (auto reshape = value.getDefiningOp<tx::ReshapeOp>()) value = reshape.getInput();
  return value;
}

// Ops whose results are their input's elements at places that moved() knows.
bool only_moves(Operation* op) {
  return llvm::isa<tx::TransposeOp, tx::BroadcastOp, tx::SliceOp, tx::ReshapeOp>(op);
}

// The place in a tensor of extents `to` of the element that is at `at` in one of extents `from`, in row-major order. Dimensions go together in groups of
// one size, each as small as it can be.
Exprs reshaped(ArrayRef<AffineExpr> from, ArrayRef<AffineExpr> to, ArrayRef<AffineExpr> at) {
  MLIRContext* context = (from.empty() ? to : from).empty() ? nullptr : (from.empty() ? to : from).front().getContext();
  Exprs place(to.size());
  auto is_one = [](AffineExpr extent) { return tx::static_extent(extent) == 1; };
  size_t f = from.size(), t = to.size();
  auto skip_ones = [&] {
    while (f > 0 && is_one(from[f - 1])) --f;
    while (t > 0 && is_one(to[t - 1])) place[--t] = getAffineConstantExpr(0, context);
  };
  for (skip_ones(); t > 0; skip_ones()) {
    // The group [f, f_end) of one is the group [t, t_end) of the other.
    size_t f_end = f, t_end = t;
    AffineExpr from_count = getAffineConstantExpr(1, context), to_count = from_count;
    do {
      auto have = tx::static_extent(from_count), want = tx::static_extent(to_count);
      bool more_from = f > 0 && (t == 0 || !have || !want || *have <= *want);
      if (more_from) from_count = from[--f] * from_count;
      if ((!more_from || !have || !want || *have == *want) && t > 0) to_count = to[--t] * to_count;
    } while (from_count != to_count && (f > 0 || t > 0));
    AffineExpr linear = getAffineConstantExpr(0, context);
    for (size_t i = f; i < f_end; ++i) linear = linear * from[i] + at[i];
    for (size_t i = t_end; i-- > t;) {
      bool is_first = llvm::all_of(to.slice(t, i - t), is_one);
      place[i] = is_one(to[i]) ? getAffineConstantExpr(0, context) : is_first ? linear : linear % to[i];
      linear = linear.floorDiv(to[i]);
    }
  }
  return place;
}

// The place in the input of such an op, for a place in its result.
Exprs moved(Operation* op, ArrayRef<AffineExpr> at) {
  MLIRContext* context = op->getContext();
  AffineExpr zero = getAffineConstantExpr(0, context);
  Exprs input_extents = tx::extents(tx::tensor(op->getOperand(0)));
  Exprs place(input_extents.size(), zero);
  return llvm::TypeSwitch<Operation*, Exprs>(op)
      .Case([&](tx::TransposeOp transpose) {
        for (auto [i, from] : llvm::enumerate(transpose.getPermutation())) place[from] = at[i];
        return place;
      })
      .Case([&](tx::BroadcastOp broadcast) {
        for (auto [i, to] : llvm::enumerate(broadcast.getDimensions())) {
          if (tx::static_extent(input_extents[i]) != 1) place[i] = at[to];
        }
        return place;
      })
      .Case([&](tx::SliceOp slice) {
        for (size_t i = 0; i < place.size(); ++i) place[i] = at[i] * slice.getStrides()[i] + slice.getStarts()[i];
        return place;
      })
      .Case([&](tx::ReshapeOp reshape) { return reshaped(tx::extents(tx::tensor(reshape.getResult())), input_extents, at); })
      .Default([](Operation*) -> Exprs { llvm_unreachable("asked of ops that only_moves() knows"); });
}

bool is_root(Operation* op) {
  return llvm::isa<tx::ReduceOp, tx::ArgReduceOp, tx::CumsumOp, tx::MatmulOp, tx::ConvOp>(op);
}

// One body under construction: indices, then reads, then what follows them. Elements are in compute types.
class StageBody {
 public:
  StageBody(OpBuilder& parent, unsigned rank, const IRMapping& operands, std::string& reason)
      : builder(parent.getContext()), location_(builder.getUnknownLoc()), rank_(rank), operands_(operands), reason_(reason) {
    block_ = builder.createBlock(&region_);
    for (unsigned i = 0; i < rank; ++i) block_->addArgument(builder.getI64Type(), location_);
  }

  // Null, with the reason, for what has no form.
  Value element(Value value, ArrayRef<AffineExpr> at) {
    auto key = std::make_pair(value, place_key(at));
    if (auto known = memo_.find(key); known != memo_.end()) return known->second;
    Value result = make(value, at);
    if (result) memo_[key] = result;
    return result;
  }

  // A read of an operand of the region, or of what another stage makes.
  Value read(Value tensor, ArrayRef<AffineExpr> at, TypedAttr outside = {}) {
    Type element = tx::tensor(operands_.lookup(tensor)).getElementType();
    // Of the indices that were read, those that this place has.
    Exprs dims = leading_dims(), place;
    SmallVector<unsigned> gathers;
    for (auto [i, gathered] : llvm::enumerate(gathered_)) {
      unsigned dim = rank_ + static_cast<unsigned>(i);
      dims.push_back(builder.getAffineDimExpr(rank_ + static_cast<unsigned>(gathers.size())));
      bool is_used = false;
      for (AffineExpr index : at) {
        if (!index.isFunctionOfDim(dim)) continue;
        if (!llvm::isa<AffineDimExpr>(index)) return refuse("indices that are read and then moved");
        is_used = true;
      }
      if (is_used) gathers.push_back(gathered);
    }
    if (outside && !gathers.empty()) return refuse("a pad of what is gathered");
    for (AffineExpr index : at) place.push_back(index.replaceDims(dims));
    auto map = AffineMap::get(rank_ + static_cast<unsigned>(gathers.size()), symbols, place, builder.getContext());
    Value argument = block_->insertArgument(rank_ + static_cast<unsigned>(reads.size()), scalar_type(element), location_);
    reads.push_back(operands_.lookup(tensor));
    accesses.push_back(AccessAttr::get(builder.getContext(), map, outside, gathers));
    Type compute = compute_type(element);
    return compute == argument.getType() ? argument : builder.create<arith::ExtFOp>(location_, compute, argument);
  }

  // A place for look-ups, however many indices have been read.
  Attribute place_key(ArrayRef<AffineExpr> at) {
    constexpr unsigned any = 1 << 20;
    return AffineMapAttr::get(AffineMap::get(any, symbols, at, builder.getContext()));
  }

  // An index that is read here, as a dimension of places; null with the reason.
  AffineExpr gathered(Value indices, ArrayRef<AffineExpr> at) {
    auto key = std::make_pair(indices, place_key(at));
    if (auto known = gathered_memo_.find(key); known != gathered_memo_.end()) return known->second;
    if (!operands_.contains(indices)) {
      refuse("indices that " + tx::describe(indices.getDefiningOp()) + " makes");
      return {};
    }
    if (!read(indices, at)) return {};
    gathered_.push_back(static_cast<unsigned>(reads.size()) - 1);
    return gathered_memo_[key] = builder.getAffineDimExpr(rank_ + static_cast<unsigned>(gathered_.size()) - 1);
  }

  // The same, or 0 where the place is outside of the value, if it may be.
  Value element_or_zero(Value value, ArrayRef<AffineExpr> at, bool may_be_outside) {
    if (!may_be_outside) return element(value, at);
    TypedAttr zero = number(scalar_type(tx::tensor(value).getElementType()), 0);
    if (operands_.contains(value)) return read(value, at, zero);
    return refuse("a padded factor that " + tx::describe(value.getDefiningOp()) + " makes");
  }

  // A factor in the type of the sums.
  Value widened(Value factor, Value tensor, Type type) {
    Type own = factor.getType();
    if (own == type) return factor;
    unsigned have = own.getIntOrFloatBitWidth(), want = type.getIntOrFloatBitWidth();
    if (llvm::isa<FloatType>(type) && llvm::isa<IntegerType>(own)) {
      return is_unsigned(tx::tensor(tensor).getElementType()) ? builder.create<arith::UIToFPOp>(location_, type, factor).getResult()
                                                              : builder.create<arith::SIToFPOp>(location_, type, factor).getResult();
    }
    if (llvm::isa<FloatType>(type)) {
      return have < want ? builder.create<arith::ExtFOp>(location_, type, factor).getResult()
                         : builder.create<arith::TruncFOp>(location_, type, factor).getResult();
    }
    if (have > want) return builder.create<arith::TruncIOp>(location_, type, factor);
    return is_unsigned(tx::tensor(tensor).getElementType()) ? builder.create<arith::ExtUIOp>(location_, type, factor).getResult()
                                                            : builder.create<arith::ExtSIOp>(location_, type, factor).getResult();
  }

  Value add_argument(Type type) { return block_->addArgument(type, location_); }
  Value index(unsigned dimension) const { return block_->getArgument(dimension); }

  // The element as a tensor of this type holds it.
  Value to_storage(Value value, Type element) {
    Type type = scalar_type(element);
    return value.getType() == type ? value : builder.create<arith::TruncFOp>(location_, type, value);
  }
  void yield(ValueRange values) { builder.create<YieldOp>(location_, values); }
  void move_to(Region& region) { region.takeBody(region_); }

  Value refuse(const Twine& why) {
    reason_ = why.str();
    return {};
  }

  OpBuilder builder;
  SmallVector<Value> reads;
  SmallVector<Attribute> accesses;
  unsigned symbols = 0;
  // The reduction or contraction whose results this body reads, each once it is made; where it is read, for all of them.
  Operation* root = nullptr;
  Value accumulated;
  Exprs root_at;

 private:
  Value make(Value value, ArrayRef<AffineExpr> at) {
    if (operands_.contains(value)) return read(value, at);
    Operation* op = value.getDefiningOp();
    if (op == root) {
      if (!root_at.empty() && root_at != Exprs(at)) return refuse("results of " + tx::describe(op) + " are read at two places");
      root_at.assign(at.begin(), at.end());
      return accumulated;
    }
    if (auto constant = llvm::dyn_cast<tx::ConstantOp>(op)) {
      auto splat = llvm::dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat) return refuse("a constant of several values");
      return constant_of(splat);
    }
    if (auto pad = llvm::dyn_cast<tx::PadOp>(op)) {
      if (!operands_.contains(pad.getInput())) return refuse("a pad of what is computed");
      Exprs place;
      for (auto [i, index] : llvm::enumerate(at)) place.push_back(index - pad.getLow()[i]);
      Type type = scalar_type(tx::tensor(value).getElementType());
      return read(pad.getInput(), place, number(type, pad.getValue().convertToDouble()));
    }
    if (op->hasTrait<tx::LookUp>()) {
      Exprs place = gathered_place(op, at);
      return place.empty() ? Value() : element(op->getOperand(0), place);
    }
    if (auto iota = llvm::dyn_cast<tx::IotaOp>(op)) return index_as_element(iota, at[iota.getDimension()]);
    if (auto concat = llvm::dyn_cast<tx::ConcatOp>(op)) return element_of_concat(concat, at);
    if (tx::is_elementwise(op)) {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands()) {
        operands.push_back(element(operand, at));
        if (!operands.back()) return {};
      }
      ScopedDiagnosticHandler quiet(op->getContext(), [&](Diagnostic& diagnostic) { reason_ = diagnostic.str(); });
      return emit_scalar_body(builder, location_, op, operands);
    }
    if (!only_moves(op)) return refuse(tx::describe(op) + " has no stage");
    return element(op->getOperand(0), moved(op, at));
  }

  // Where an op that reads indices finds its element; empty with the reason.
  Exprs gathered_place(Operation* op, ArrayRef<AffineExpr> at) {
    Value indices = op->getOperand(1);
    size_t rank = static_cast<size_t>(tx::tensor(indices).getRank());
    if (auto gather = llvm::dyn_cast<tx::GatherOp>(op)) {
      size_t axis = static_cast<size_t>(gather.getAxis());
      Exprs place(at.take_front(axis));
      place.push_back(gathered(indices, at.slice(axis, rank)));
      llvm::append_range(place, at.drop_front(axis + rank));
      return place[axis] ? place : Exprs();
    }
    if (auto gather = llvm::dyn_cast<tx::GatherElementsOp>(op)) {
      Exprs place(at);
      place[gather.getAxis()] = gathered(indices, at);
      return place[gather.getAxis()] ? place : Exprs();
    }
    auto gather = llvm::cast<tx::GatherNdOp>(op);
    int64_t count = *tx::static_extent(tx::extents(tx::tensor(indices)).back());
    Exprs place(at.take_front(gather.getBatchDims()));
    for (int64_t i = 0; i < count; ++i) {
      Exprs row(at.take_front(rank - 1));
      row.push_back(builder.getAffineConstantExpr(i));
      place.push_back(gathered(indices, row));
      if (!place.back()) return {};
    }
    llvm::append_range(place, at.drop_front(rank - 1));
    return place;
  }

  // Every input is read, at a place inside of it: the index modulo its extent, which is right for the one that is taken.
  Value element_of_concat(tx::ConcatOp concat, ArrayRef<AffineExpr> at) {
    size_t axis = static_cast<size_t>(concat.getAxis());
    AffineExpr start = builder.getAffineConstantExpr(0);
    Value index, result;
    for (Value input : concat.getInputs()) {
      AffineExpr extent = tx::extents(tx::tensor(input))[axis];
      if (tx::static_extent(extent) == 0) continue;
      if (!tx::is_positive(extent)) return refuse("a concat of what may be empty");
      Exprs place(at);
      if (auto fixed = tx::static_extent(extent), known = tx::static_extent(start); fixed && known) {
        place[axis] = (at[axis] + (*fixed - *known % *fixed) % *fixed) % extent;
      } else {
        place[axis] = (at[axis] + start * (extent - 1)) % extent;
      }
      Value own = element(input, place);
      if (!own) return {};
      if (result) {
        if (!index && !(index = computed(at[axis]))) return {};
        Value bound = builder.create<ExtentOp>(location_, builder.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols, start)));
        Value is_behind = builder.create<arith::CmpIOp>(location_, arith::CmpIPredicate::sge, index, bound);
        own = builder.create<arith::SelectOp>(location_, is_behind, own, result);
      }
      result = own;
      start = start + extent;
    }
    return result ? result : refuse("a concat of nothing");
  }

  Value index_as_element(tx::IotaOp iota, AffineExpr index) {
    Value value = computed(index);
    if (!value) return {};
    Type type = compute_type(tx::tensor(iota.getResult()).getElementType());
    if (llvm::isa<FloatType>(type)) return builder.create<arith::SIToFPOp>(location_, type, value);
    unsigned bits = type.getIntOrFloatBitWidth();
    return bits == 64 ? value : builder.create<arith::TruncIOp>(location_, type, value).getResult();
  }

  // The value of a place, which is not negative where it is divided; null with the reason.
  Value computed(AffineExpr index) {
    for (size_t d = rank_; d < rank_ + gathered_.size(); ++d) {
      if (index.isFunctionOfDim(static_cast<unsigned>(d))) return refuse("an index that is read and then computed with");
    }
    if (auto dim = llvm::dyn_cast<AffineDimExpr>(index)) return block_->getArgument(dim.getPosition());
    if (index.isSymbolicOrConstant())
      return builder.create<ExtentOp>(location_, builder.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols, index)));
    auto binary = llvm::cast<AffineBinaryOpExpr>(index);
    Value a = computed(binary.getLHS()), b = computed(binary.getRHS());  // of which none refuses
    switch (binary.getKind()) {
      case AffineExprKind::Add:
        return builder.create<arith::AddIOp>(location_, a, b);
      case AffineExprKind::Mul:
        return builder.create<arith::MulIOp>(location_, a, b);
      case AffineExprKind::Mod:
        return builder.create<arith::SubIOp>(location_, a,
                                             builder.create<arith::MulIOp>(location_, builder.create<arith::DivSIOp>(location_, a, b), b));
      default:
        return builder.create<arith::DivSIOp>(location_, a, b);
    }
  }

  Exprs leading_dims() {
    Exprs dims;
    for (unsigned i = 0; i < rank_; ++i) dims.push_back(builder.getAffineDimExpr(i));
    return dims;
  }

  Value constant_of(SplatElementsAttr splat) {
    Type element = splat.getElementType(), compute = compute_type(element);
    TypedAttr scalar;
    if (llvm::isa<FloatType>(element)) {
      bool lost;
      APFloat value = splat.getSplatValue<APFloat>();
      value.convert(llvm::cast<FloatType>(compute).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      scalar = FloatAttr::get(compute, value);
    } else {
      scalar = IntegerAttr::get(compute, splat.getSplatValue<APInt>());
    }
    return builder.create<arith::ConstantOp>(location_, scalar);
  }

 public:
  TypedAttr number(Type type, double value) {
    if (llvm::isa<FloatType>(type)) return builder.getFloatAttr(type, value);
    return builder.getIntegerAttr(type, static_cast<int64_t>(value));
  }

 private:
  Location location_;
  unsigned rank_;
  const IRMapping& operands_;
  std::string& reason_;
  Region region_;
  Block* block_;
  SmallVector<unsigned> gathered_;  // reads whose elements are indices, each a dimension of places behind the domain's
  llvm::DenseMap<std::pair<Value, Attribute>, AffineExpr> gathered_memo_;
  llvm::DenseMap<std::pair<Value, Attribute>, Value> memo_;
};

class Former {
 public:
  Former(tx::DispatchOp source, std::string& reason)
      : source_(source), copy_(source.clone()), reason_(reason), context_(source.getContext()), builder_(context_) {}

  FailureOr<StagedRegion> run() {
    StagedRegion staged;
    open(staged);
    expand_softmax();
    SmallVector<Value> outputs;
    for (Value yielded : body().getTerminator()->getOperands()) outputs.push_back(behind_reshapes(yielded));
    Exprs extents = tx::extents(tx::tensor(outputs.front()));
    for (Value output : outputs) {
      if (tx::extents(tx::tensor(output)) != extents) return refuse("results over several domains");
    }
    for (Operation& op : body()) {
      if (!llvm::isa<tx::ScatterOp, tx::SortOp>(op)) continue;
      if (outputs != SmallVector<Value>{op.getResult(0)})
        return refuse("other results beside those of " + tx::describe(&op) + ", or behind them");
      auto scatter = llvm::dyn_cast<tx::ScatterOp>(op);
      Operation* stage = scatter ? this->scatter(scatter) : sort(llvm::cast<tx::SortOp>(op));
      if (!stage) return failure();
      builder_.create<tx::YieldOp>(builder_.getUnknownLoc(), stage->getResults());
      return staged;
    }
    // The last reduction or contraction makes the results itself, if it has as many.
    Operation* last = nullptr;
    for (Operation& op : body()) {
      if (is_root(&op)) last = &op;
    }
    if (last && tx::element_count(tx::tensor(last->getResult(0))) != tx::element_count(tx::tensor(outputs.front()))) last = nullptr;
    if (!make_intermediates(last)) return failure();
    SmallVector<Type> types = llvm::to_vector(source_.getOutputs().getTypes());
    Operation* stage = last ? rooted(last, outputs, extents, types) : map(outputs, extents, types);
    if (!stage) return failure();
    builder_.create<tx::YieldOp>(builder_.getUnknownLoc(), stage->getResults());
    return staged;
  }

 private:
  FailureOr<StagedRegion> refuse(const Twine& why) {
    reason_ = why.str();
    return failure();
  }

  // An empty dispatch like the source.
  void open(StagedRegion& staged) {
    Location location = builder_.getUnknownLoc();
    staged.module = ModuleOp::create(location);
    builder_.setInsertionPointToEnd(staged.module->getBody());
    auto type = builder_.getFunctionType(source_.getInputs().getTypes(), source_.getOutputs().getTypes());
    auto function = builder_.create<func::FuncOp>(location, "region", type);
    if (auto known = source_->getParentOfType<func::FuncOp>()) {
      if (auto symbols = known->getAttrOfType<ArrayAttr>(tx::symbols_attr)) {
        function->setAttr(tx::symbols_attr, symbols);
        symbols_ = symbols.size();
      }
    }
    Block* entry = function.addEntryBlock();
    builder_.setInsertionPointToStart(entry);
    staged.region = builder_.create<tx::DispatchOp>(location, source_.getOutputs().getTypes(), entry->getArguments(), source_.getName(),
                                                    source_.getTiedAttr(), source_.getSlotAttr(), nullptr);
    builder_.create<func::ReturnOp>(location, staged.region.getOutputs());
    Block* body = builder_.createBlock(&staged.region.getBody());
    for (BlockArgument argument : copy_->getBody().getArguments()) operands_.map(argument, body->addArgument(argument.getType(), location));
  }

  // The ops of the region, which may be replaced.
  Block& body() { return copy_->getBody().front(); }

  // Softmax is its definition, x - max being exponentiated once.
  void expand_softmax() {
    for (Operation& op : llvm::make_early_inc_range(body())) {
      auto softmax = llvm::dyn_cast<tx::SoftmaxOp>(op);
      if (!softmax) continue;
      OpBuilder b(softmax);
      Location at = b.getUnknownLoc();
      RankedTensorType whole = tx::tensor(softmax.getInput());
      Exprs extents = tx::extents(whole);
      int64_t axis = static_cast<int64_t>(softmax.getAxis());
      extents.erase(extents.begin() + axis);
      RankedTensorType row = tx::tensor_type(extents, whole.getElementType());
      SmallVector<int64_t> kept;
      for (int64_t d = 0; d < whole.getRank(); ++d) {
        if (d != axis) kept.push_back(d);
      }
      auto reduced = [&](tx::ReduceKind kind, Value x) -> Value { return b.create<tx::ReduceOp>(at, row, kind, x, axis); };
      auto repeated = [&](Value x) -> Value { return b.create<tx::BroadcastOp>(at, whole, x, kept); };
      Value shifted = b.create<tx::SubOp>(at, softmax.getInput(), repeated(reduced(tx::ReduceKind::max, softmax.getInput())));
      Value exponential = b.create<tx::ExpOp>(at, shifted), sum = reduced(tx::ReduceKind::sum, exponential), result;
      if (softmax.getLog()) {
        result = b.create<tx::SubOp>(at, shifted, repeated(b.create<tx::LogOp>(at, sum)));
      } else {
        result = b.create<tx::MulOp>(at, exponential, repeated(b.create<tx::ReciprocalOp>(at, sum)));
      }
      softmax.replaceAllUsesWith(result);
      softmax.erase();
    }
  }

  // Stages of their own for all reductions and contractions but the last, and for element-wise values that are costly and that several stages read, or that
  // a contraction reads and that another one or a reduction is behind. Such values have compute types. False with the reason.
  bool make_intermediates(Operation* last) {
    llvm::DenseSet<Operation*> costly = costly_and_shared(last);
    for (Operation& op : body()) {
      bool makes_root = is_root(&op) && &op != last;
      if (!makes_root && !costly.contains(&op)) continue;
      Value value = op.getResult(0);
      Exprs extents = tx::extents(tx::tensor(value));
      Type type = tx::with_element_type(tx::tensor(value), compute_type(tx::tensor(value).getElementType()));
      Operation* stage = makes_root ? rooted(&op, value, extents, type) : map(value, extents, type);
      if (!stage) return false;
      operands_.map(value, stage->getResult(0));
    }
    return true;
  }

  llvm::DenseSet<Operation*> costly_and_shared(Operation* last) {
    llvm::DenseSet<Operation*> found;
    if (llvm::none_of(body(), [](Operation& op) { return is_root(&op); })) return found;
    llvm::DenseMap<Operation*, bool> is_costly;  // what it does itself, or with what it reads
    for (Operation& op : body()) {
      is_costly[&op] = tx::is_elementwise(&op) && (tx::is_costly(&op) || llvm::any_of(op.getOperands(), [&](Value operand) {
                                                     return operand.getDefiningOp() && is_costly.lookup(operand.getDefiningOp());
                                                   }));
    }
    llvm::DenseMap<Operation*, llvm::SmallDenseSet<Operation*>> readers;  // stages, each by its op; the last one by nothing
    for (Operation& op : llvm::reverse(body())) {
      auto& own = readers[&op];
      for (Operation* user : op.getUsers()) {
        bool is_last = user == last || user->hasTrait<OpTrait::IsTerminator>();
        if (is_last || is_root(user) || found.contains(user)) {
          own.insert(is_last ? nullptr : user);
        } else {
          const auto& through = readers[user];
          own.insert(through.begin(), through.end());
        }
      }
      if (own.size() > 1 && is_costly.lookup(&op)) found.insert(&op);
      if (tx::is_elementwise(&op) && llvm::any_of(op.getUsers(), tx::is_contraction) && depends_on_root(op.getResult(0))) found.insert(&op);
    }
    return found;
  }

  static bool depends_on_root(Value value) {
    SmallVector<Value> waiting = {value};
    llvm::DenseSet<Value> seen;
    while (!waiting.empty()) {
      Operation* op = waiting.pop_back_val().getDefiningOp();
      if (!op) continue;
      if (is_root(op)) return true;
      for (Value operand : op->getOperands()) {
        if (seen.insert(operand).second) waiting.push_back(operand);
      }
    }
    return false;
  }

  Exprs dims(unsigned first, unsigned count) {
    Exprs result;
    for (unsigned i = 0; i < count; ++i) result.push_back(getAffineDimExpr(first + i, context_));
    return result;
  }
  DomainAttr domain(ArrayRef<AffineExpr> parallel, ArrayRef<AffineExpr> folded) {
    Exprs extents(parallel);
    llvm::append_range(extents, folded);
    return DomainAttr::get(context_, AffineMap::get(0, symbols_, extents, context_), static_cast<unsigned>(folded.size()));
  }

  // Yields an element of each output. False, with the reason, if one has no form.
  bool finish(StageBody& body, ArrayRef<Value> outputs, unsigned rank, TypeRange types) {
    SmallVector<Value> elements;
    for (auto [output, type] : llvm::zip_equal(outputs, types)) {
      Value element = body.element(output, dims(0, rank));
      if (!element) return false;
      elements.push_back(body.to_storage(element, llvm::cast<RankedTensorType>(type).getElementType()));
    }
    body.yield(elements);
    return true;
  }

  Operation* map(ArrayRef<Value> outputs, ArrayRef<AffineExpr> extents, TypeRange types) {
    unsigned rank = extents.size();
    StageBody body(builder_, rank, operands_, reason_);
    body.symbols = symbols_;
    if (!finish(body, outputs, rank, types)) return nullptr;
    auto op =
        builder_.create<MapOp>(builder_.getUnknownLoc(), types, body.reads, builder_.getArrayAttr(body.accesses), domain(extents, {}));
    body.move_to(op.getBody());
    return op;
  }

  // The place of an operand of the root, over its own parallel and reduced dimensions, as a place over the domain.
  Exprs over_domain(ArrayRef<AffineExpr> place, ArrayRef<AffineExpr> root_at, unsigned parallel, unsigned folded) {
    Exprs known(root_at);
    llvm::append_range(known, dims(parallel, folded));
    Exprs result;
    for (AffineExpr index : place) result.push_back(index.replaceDims(known));
    return result;
  }

  Operation* rooted(Operation* root, ArrayRef<Value> outputs, ArrayRef<AffineExpr> extents, TypeRange types) {
    unsigned rank = extents.size();
    StageBody last(builder_, rank, operands_, reason_);
    last.symbols = symbols_;
    last.root = root;
    Type compute = compute_type(tx::tensor(root->getResult(0)).getElementType());
    if (auto arg = llvm::dyn_cast<tx::ArgReduceOp>(root)) last.add_argument(compute_type(tx::tensor(arg.getInput()).getElementType()));
    last.accumulated = last.add_argument(compute);
    if (auto cumsum = llvm::dyn_cast<tx::CumsumOp>(root)) {
      Value behind = last.add_argument(compute);
      if (!cumsum.getExclusive()) last.accumulated = behind;
    }
    auto reduce = llvm::dyn_cast<tx::ReduceOp>(root);
    if (reduce && reduce.getKind() == tx::ReduceKind::mean && !(last.accumulated = mean(last, reduce))) return nullptr;
    if (!finish(last, outputs, rank, types)) return nullptr;
    if (last.root_at.size() != static_cast<size_t>(tx::tensor(root->getResult(0)).getRank())) {
      last.refuse("results of " + tx::describe(root) + " are not read");
      return nullptr;
    }
    if (reduce) return fold(reduce, last, extents, types);
    if (auto arg = llvm::dyn_cast<tx::ArgReduceOp>(root)) return fold(arg, last, extents, types);
    if (auto cumsum = llvm::dyn_cast<tx::CumsumOp>(root)) return scan(cumsum, last, extents, types);
    return contract(root, last, extents, types, compute);
  }

  // ------------------------------------------------------------------------------------------------------- reductions

  // In `finish`: the sum divided by the number of elements.
  Value mean(StageBody& last, tx::ReduceOp reduce) {
    Exprs extents = tx::extents(tx::tensor(reduce.getInput()));
    AffineExpr count = getAffineConstantExpr(1, context_);
    for (int64_t axis : reduce.getAxes()) count = count * extents[axis];
    Location at = last.builder.getUnknownLoc();
    OpBuilder& b = last.builder;
    Type type = last.accumulated.getType();
    auto fixed = tx::static_extent(count);
    if (llvm::isa<FloatType>(type)) {
      Value divisor;
      if (fixed) {
        divisor = b.create<arith::ConstantOp>(at, last.number(type, static_cast<double>(*fixed)));
      } else {
        divisor = b.create<arith::SIToFPOp>(at, type, extent(b, count));
      }
      return b.create<arith::DivFOp>(at, last.accumulated, divisor);
    }
    Value divisor = extent(b, count);
    if (type.getIntOrFloatBitWidth() < 64) divisor = b.create<arith::TruncIOp>(at, type, divisor);
    if (is_unsigned(tx::tensor(reduce.getInput()).getElementType())) return b.create<arith::DivUIOp>(at, last.accumulated, divisor);
    return b.create<arith::DivSIOp>(at, last.accumulated, divisor);
  }

  Value extent(OpBuilder& b, AffineExpr expression) {
    return b.create<ExtentOp>(b.getUnknownLoc(), b.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols_, expression)));
  }

  static Value combine(OpBuilder& b, Location at, tx::ReduceKind kind, Value x, Value y, bool no_sign) {
    bool is_float = llvm::isa<FloatType>(x.getType());
    switch (kind) {
      case tx::ReduceKind::sum:
      case tx::ReduceKind::mean:
        return is_float ? b.create<arith::AddFOp>(at, x, y).getResult() : b.create<arith::AddIOp>(at, x, y).getResult();
      case tx::ReduceKind::prod:
        return is_float ? b.create<arith::MulFOp>(at, x, y).getResult() : b.create<arith::MulIOp>(at, x, y).getResult();
      case tx::ReduceKind::max:
        if (is_float) return b.create<arith::MaximumFOp>(at, x, y, arith::FastMathFlags::nsz);
        return no_sign ? b.create<arith::MaxUIOp>(at, x, y).getResult() : b.create<arith::MaxSIOp>(at, x, y).getResult();
      case tx::ReduceKind::min:
        if (is_float) return b.create<arith::MinimumFOp>(at, x, y, arith::FastMathFlags::nsz);
        return no_sign ? b.create<arith::MinUIOp>(at, x, y).getResult() : b.create<arith::MinSIOp>(at, x, y).getResult();
    }
    llvm_unreachable("all kinds are above");
  }

  static TypedAttr identity(StageBody& body, tx::ReduceKind kind, Type type, bool no_sign) {
    if (kind == tx::ReduceKind::sum || kind == tx::ReduceKind::mean) return body.number(type, 0);
    if (kind == tx::ReduceKind::prod) return body.number(type, 1);
    bool low = kind == tx::ReduceKind::max;
    if (auto floats = llvm::dyn_cast<FloatType>(type)) return FloatAttr::get(type, APFloat::getInf(floats.getFloatSemantics(), low));
    unsigned width = type.getIntOrFloatBitWidth();
    APInt bound = no_sign ? (low ? APInt::getMinValue(width) : APInt::getMaxValue(width))
                          : (low ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width));
    return IntegerAttr::get(type, bound);
  }

  // What a fold does with its accumulators: where they begin, how an element changes them, how those of two parts become one.
  struct Accumulation {
    SmallVector<TypedAttr> init;
    std::function<SmallVector<Value>(StageBody& body, ValueRange have, Value element)> step;
    std::function<SmallVector<Value>(StageBody& body, ValueRange first, ValueRange second)> merge;
  };

  Operation* fold(tx::ReduceOp reduce, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types) {
    Type element = tx::tensor(reduce.getInput()).getElementType(), type = compute_type(element);
    bool no_sign = is_unsigned(element);
    auto kind = reduce.getKind();
    auto one = [=](StageBody& body, Value a, Value b) { return combine(body.builder, body.builder.getUnknownLoc(), kind, a, b, no_sign); };
    Accumulation how;
    how.init = {identity(last, kind, type, no_sign)};
    how.step = [=](StageBody& body, ValueRange have, Value x) { return SmallVector<Value>{one(body, have[0], x)}; };
    how.merge = [=](StageBody& body, ValueRange first, ValueRange second) { return SmallVector<Value>{one(body, first[0], second[0])}; };
    SmallVector<unsigned> axes(reduce.getAxes().begin(), reduce.getAxes().end());
    return fold(reduce.getInput(), axes, how, last, extents, types);
  }

  // Two accumulators: the element that is ahead, and its index.
  Operation* fold(tx::ArgReduceOp arg, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types) {
    Type element = tx::tensor(arg.getInput()).getElementType(), type = compute_type(element);
    bool no_sign = is_unsigned(element), is_max = arg.getKind() == tx::ReduceKind::max, wants_last = arg.getLast();
    unsigned index = extents.size();  // of the only reduced dimension
    auto compare = [=](OpBuilder& b, Value x, Value best, bool or_equal) -> Value {
      Location at = b.getUnknownLoc();
      if (llvm::isa<FloatType>(type)) {
        using P = arith::CmpFPredicate;
        P predicate = is_max ? (or_equal ? P::OGE : P::OGT) : (or_equal ? P::OLE : P::OLT);
        return b.create<arith::CmpFOp>(at, predicate, x, best);
      }
      using P = arith::CmpIPredicate;
      P with_sign = is_max ? (or_equal ? P::sge : P::sgt) : (or_equal ? P::sle : P::slt);
      P without = is_max ? (or_equal ? P::uge : P::ugt) : (or_equal ? P::ule : P::ult);
      return b.create<arith::CmpIOp>(at, no_sign ? without : with_sign, x, best);
    };
    auto is_strictly_ahead = [=](OpBuilder& b, Value x, Value best) { return compare(b, x, best, false); };
    auto choose = [=](OpBuilder& b, ValueRange have, Value x, Value at) {
      Value ahead = compare(b, x, have[0], wants_last);
      Location location = b.getUnknownLoc();
      return SmallVector<Value>{b.create<arith::SelectOp>(location, ahead, x, have[0]),
                                b.create<arith::SelectOp>(location, ahead, at, have[1])};
    };
    Accumulation how;
    how.init = {identity(last, arg.getKind(), type, no_sign), builder_.getI64IntegerAttr(0)};
    how.step = [=](StageBody& body, ValueRange have, Value x) { return choose(body.builder, have, x, body.index(index)); };
    how.merge = [=](StageBody& body, ValueRange first, ValueRange second) {
      OpBuilder& b = body.builder;
      Location at = b.getUnknownLoc();
      auto either = [&](Value x, Value y) { return b.create<arith::OrIOp>(at, x, y).getResult(); };
      auto both = [&](Value x, Value y) { return b.create<arith::AndIOp>(at, x, y).getResult(); };
      Value is_ahead_of_first = is_strictly_ahead(b, second[0], first[0]), is_behind = is_strictly_ahead(b, first[0], second[0]);
      Value is_equal = b.create<arith::XOrIOp>(at, either(is_ahead_of_first, is_behind), b.create<arith::ConstantIntOp>(at, 1, 1));
      auto order = wants_last ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt;
      Value takes_second = either(is_ahead_of_first, both(is_equal, b.create<arith::CmpIOp>(at, order, second[1], first[1])));
      return SmallVector<Value>{b.create<arith::SelectOp>(at, takes_second, second[0], first[0]),
                                b.create<arith::SelectOp>(at, takes_second, second[1], first[1])};
    };
    return fold(arg.getInput(), static_cast<unsigned>(arg.getAxis()), how, last, extents, types);
  }

  Operation* scan(tx::CumsumOp cumsum, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types) {
    Location location = builder_.getUnknownLoc();
    Value input = cumsum.getInput();
    auto axis = static_cast<size_t>(cumsum.getAxis());
    auto own = llvm::dyn_cast<AffineDimExpr>(last.root_at[axis]);
    bool is_whole = own && extents[own.getPosition()] == tx::extents(tx::tensor(input))[axis];
    for (auto [i, place] : llvm::enumerate(last.root_at)) is_whole &= i == axis || !place.isFunctionOfDim(own.getPosition());
    if (!is_whole) {
      last.refuse("a tx.cumsum whose results are moved along its axis");
      return nullptr;
    }
    TypedAttr zero = last.number(compute_type(tx::tensor(input).getElementType()), 0);
    StageBody init(builder_, 0, operands_, reason_), step(builder_, extents.size(), operands_, reason_);
    step.symbols = symbols_;
    init.yield({init.builder.create<arith::ConstantOp>(location, zero)});
    Value element = step.element(input, last.root_at);
    if (!element) return nullptr;
    Value before = step.add_argument(zero.getType());
    step.yield({combine(step.builder, location, tx::ReduceKind::sum, before, element, false)});
    SmallVector<Value> reads = step.reads;
    SmallVector<Attribute> accesses = step.accesses;
    llvm::append_range(reads, last.reads);
    llvm::append_range(accesses, last.accesses);
    auto op = builder_.create<ScanOp>(location, types, reads, static_cast<int64_t>(step.reads.size()), builder_.getArrayAttr(accesses),
                                      domain(extents, {}), static_cast<int64_t>(own.getPosition()), cumsum.getReverse());
    init.move_to(op.getInit());
    step.move_to(op.getStep());
    last.move_to(op.getFinish());
    return op;
  }

  Operation* scatter(tx::ScatterOp scatter) {
    Location location = builder_.getUnknownLoc();
    Exprs extents = tx::extents(tx::tensor(scatter.getInput()));
    const auto rank = static_cast<unsigned>(extents.size()), axis = static_cast<unsigned>(scatter.getAxis());
    Type element = tx::tensor(scatter.getInput()).getElementType();
    StageBody place(builder_, rank + 1, operands_, reason_), step(builder_, rank + 1, operands_, reason_),
        init(builder_, rank, operands_, reason_);
    place.symbols = step.symbols = init.symbols = symbols_;
    Exprs own = dims(0, rank), of_update = own;
    of_update[axis] = getAffineDimExpr(rank, context_);

    Value index = place.element(scatter.getIndices(), tx::tensor(scatter.getIndices()).getRank() == 1 ? Exprs{of_update[axis]} : of_update);
    if (!index) return nullptr;
    OpBuilder& b = place.builder;
    index = place.widened(index, scatter.getIndices(), b.getI64Type());
    Value size = b.create<ExtentOp>(location, b.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols_, extents[axis])));
    Value is_negative =
        b.create<arith::CmpIOp>(location, arith::CmpIPredicate::slt, index, b.create<arith::ConstantIntOp>(location, 0, 64));
    place.yield({b.create<arith::SelectOp>(location, is_negative, b.create<arith::AddIOp>(location, index, size), index)});

    Value update = step.element(scatter.getUpdates(), of_update);
    if (!update) return nullptr;
    Value old = step.add_argument(scalar_type(element));
    if (scatter.getKind()) {
      if (old.getType() != update.getType()) old = step.builder.create<arith::ExtFOp>(location, update.getType(), old);
      update = combine(step.builder, location, *scatter.getKind(), old, update, is_unsigned(element));
    }
    step.yield({step.to_storage(update, element)});
    Value first = init.element(scatter.getInput(), own);
    if (!first) return nullptr;
    init.yield({init.to_storage(first, element)});

    SmallVector<Value> reads = place.reads;
    SmallVector<Attribute> accesses = place.accesses;
    for (StageBody* body : {&step, &init}) {
      llvm::append_range(reads, body->reads);
      llvm::append_range(accesses, body->accesses);
    }
    auto op =
        builder_.create<ScatterOp>(location, source_.getOutputs().getTypes(), reads, static_cast<int64_t>(place.reads.size()),
                                   static_cast<int64_t>(step.reads.size()), builder_.getArrayAttr(accesses),
                                   domain(extents, {tx::extents(tx::tensor(scatter.getUpdates()))[axis]}), static_cast<int64_t>(axis));
    place.move_to(op.getPlace());
    step.move_to(op.getStep());
    init.move_to(op.getInit());
    return op;
  }

  Operation* sort(tx::SortOp sort) {
    Location location = builder_.getUnknownLoc();
    Exprs extents = tx::extents(tx::tensor(sort.getResult()));
    const auto rank = static_cast<unsigned>(extents.size()), axis = static_cast<unsigned>(sort.getAxis());
    StageBody element(builder_, rank + 1, operands_, reason_), before(builder_, 0, operands_, reason_);
    element.symbols = symbols_;
    Exprs place = dims(0, rank);
    place[axis] = getAffineDimExpr(rank, context_);
    Value value = element.element(sort.getInput(), place);
    if (!value) return nullptr;
    element.yield({value});
    Value first = before.add_argument(value.getType()), second = before.add_argument(value.getType());
    before.yield({comes_before(before.builder, first, second, sort.getDescending(), is_unsigned(tx::element_of(sort.getInput())))});
    auto op =
        builder_.create<SortOp>(location, source_.getOutputs().getTypes().front(), element.reads, builder_.getArrayAttr(element.accesses),
                                domain(extents, {tx::extents(tx::tensor(sort.getInput()))[axis]}), static_cast<int64_t>(axis));
    element.move_to(op.getElement());
    before.move_to(op.getBefore());
    return op;
  }

  // NaN is larger than all others.
  static Value comes_before(OpBuilder& b, Value first, Value second, bool descending, bool no_sign) {
    Location at = b.getUnknownLoc();
    if (descending) std::swap(first, second);
    if (!llvm::isa<FloatType>(first.getType()))
      return b.create<arith::CmpIOp>(at, no_sign ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt, first, second);
    Value is_less = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::OLT, first, second);
    Value is_number = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::OEQ, first, first),
          is_nan = b.create<arith::CmpFOp>(at, arith::CmpFPredicate::UNE, second, second);
    return b.create<arith::OrIOp>(at, is_less, b.create<arith::AndIOp>(at, is_number, is_nan));
  }

  Operation* fold(Value input, ArrayRef<unsigned> axes, const Accumulation& how, StageBody& last, ArrayRef<AffineExpr> extents,
                  TypeRange types) {
    Location location = builder_.getUnknownLoc();
    Exprs input_extents = tx::extents(tx::tensor(input)), folded, place(input_extents.size());
    unsigned rank = extents.size(), kept = 0, kept_count = static_cast<unsigned>(input_extents.size() - axes.size());
    Exprs own = dims(0, kept_count + static_cast<unsigned>(axes.size()));  // of the root: its results' dimensions, then reduced ones
    for (unsigned i = 0; i < input_extents.size(); ++i) {
      bool is_folded = llvm::is_contained(axes, i);
      place[i] = is_folded ? own[kept_count + folded.size()] : own[kept];
      if (is_folded) {
        folded.push_back(input_extents[i]);
      } else {
        ++kept;
      }
    }
    place = over_domain(place, last.root_at, rank, static_cast<unsigned>(folded.size()));
    StageBody init(builder_, 0, operands_, reason_), step(builder_, rank + folded.size(), operands_, reason_),
        merge(builder_, 0, operands_, reason_);
    step.symbols = symbols_;
    init.yield(
        llvm::map_to_vector(how.init, [&](TypedAttr value) -> Value { return init.builder.create<arith::ConstantOp>(location, value); }));
    Value value = step.element(input, place);
    if (!value) return nullptr;
    auto arguments = [&](StageBody& body) {
      return llvm::map_to_vector(how.init, [&](TypedAttr one) { return body.add_argument(one.getType()); });
    };
    step.yield(how.step(step, arguments(step), value));
    SmallVector<Value> first = arguments(merge), second = arguments(merge);
    merge.yield(how.merge(merge, first, second));
    SmallVector<Value> reads = step.reads;
    SmallVector<Attribute> accesses = step.accesses;
    llvm::append_range(reads, last.reads);
    llvm::append_range(accesses, last.accesses);
    auto op = builder_.create<FoldOp>(location, types, reads, builder_.getI64IntegerAttr(static_cast<int64_t>(step.reads.size())),
                                      builder_.getArrayAttr(accesses), domain(extents, folded));
    init.move_to(op.getInit());
    step.move_to(op.getStep());
    merge.move_to(op.getMerge());
    last.move_to(op.getFinish());
    return op;
  }

  // ----------------------------------------------------------------------------------------------------- contractions

  Operation* contract(Operation* root, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types, Type accumulator) {
    Location location = builder_.getUnknownLoc();
    Exprs folded, lhs_place, rhs_place;
    Value lhs = root->getOperand(0), rhs = root->getOperand(1);
    auto matmul = llvm::dyn_cast<tx::MatmulOp>(root);
    auto conv = llvm::dyn_cast<tx::ConvOp>(root);
    if ((matmul && matmul.getPackedShape()) || (conv && conv.getPackedShape())) {
      last.refuse("packed weights, which are the CPU's microkernel's");
      return nullptr;
    }
    if (llvm::isa<IntegerType>(accumulator) && accumulator.getIntOrFloatBitWidth() < 32) {  // ONNX has no sums of these
      std::string text;
      llvm::raw_string_ostream(text) << "sums in elements of " << accumulator << "; i32 and i64 are summed";
      last.refuse(text);
      return nullptr;
    }
    bool reaches_out = false;
    if (matmul) {
      places_of(matmul, folded, lhs_place, rhs_place);
    } else {
      reaches_out = places_of(conv, folded, lhs_place, rhs_place);
    }
    unsigned rank = extents.size(), reduced = static_cast<unsigned>(folded.size());
    StageBody factors(builder_, rank + reduced, operands_, reason_);
    factors.symbols = symbols_;
    Value a = factors.element_or_zero(lhs, over_domain(lhs_place, last.root_at, rank, reduced), reaches_out);
    Value b = a ? factors.element(rhs, over_domain(rhs_place, last.root_at, rank, reduced)) : Value();
    if (!b) return nullptr;
    a = factors.widened(a, lhs, accumulator);
    b = factors.widened(b, rhs, accumulator);
    if (Value zero = tx::zero_of(root)) {
      AffineExpr column = getAffineDimExpr(rank - 1, context_);
      Value less = factors.element(zero, over_domain({column}, last.root_at, rank, reduced));
      if (!less) return nullptr;
      b = factors.builder.create<arith::SubFOp>(location, b, factors.widened(less, zero, accumulator));
    }
    factors.yield({a, b});
    SmallVector<Value> reads = factors.reads;
    SmallVector<Attribute> accesses = factors.accesses;
    llvm::append_range(reads, last.reads);
    llvm::append_range(accesses, last.accesses);
    auto op = builder_.create<ContractOp>(location, types, reads, builder_.getI64IntegerAttr(static_cast<int64_t>(factors.reads.size())),
                                          builder_.getArrayAttr(accesses), domain(extents, folded), TypeAttr::get(accumulator));
    factors.move_to(op.getFactors());
    last.move_to(op.getFinish());
    return op;
  }

  // Over batch..., m, n, then k.
  void places_of(tx::MatmulOp matmul, Exprs& folded, Exprs& lhs, Exprs& rhs) {
    unsigned rank = static_cast<unsigned>(tx::tensor(matmul.getResult()).getRank());
    Exprs own = dims(0, rank + 1);
    AffineExpr m = own[rank - 2], n = own[rank - 1], k = own[rank];
    Exprs extents = tx::extents(tx::tensor(matmul.getLhs()));
    folded = {extents[extents.size() - (matmul.getTransposeLhs() ? 2 : 1)]};
    lhs.assign(own.begin(), own.begin() + (rank - 2));
    if (tx::tensor(matmul.getRhs()).getRank() > 2) rhs = lhs;
    llvm::append_range(lhs, matmul.getTransposeLhs() ? Exprs{k, m} : Exprs{m, k});
    llvm::append_range(rhs, matmul.getTransposeRhs() ? Exprs{n, k} : Exprs{k, n});
  }

  // Over n, spatial..., f, then taps..., c. True if windows reach beyond the input.
  bool places_of(tx::ConvOp conv, Exprs& folded, Exprs& lhs, Exprs& rhs) {
    Exprs filter = tx::extents(tx::tensor(conv.getFilter())), input = tx::extents(tx::tensor(conv.getInput())),
          result = tx::extents(tx::tensor(conv.getResult()));
    unsigned rank = static_cast<unsigned>(result.size()), spatial = rank - 2;
    Exprs own = dims(0, rank + spatial + 1);
    AffineExpr column = own[rank - 1], channel = own[rank + spatial];
    int64_t groups = static_cast<int64_t>(conv.getGroups());
    bool reaches_out = false;
    lhs = {own[0]};
    for (unsigned d = 0; d < spatial; ++d) {
      AffineExpr tap = own[rank + d];
      lhs.push_back(own[d + 1] * conv.getStrides()[d] + tap * conv.getDilations()[d] - conv.getPadsLow()[d]);
      rhs.push_back(tap);
      folded.push_back(filter[d]);
      auto in = tx::static_extent(input[d + 1]), out = tx::static_extent(result[d + 1]), taps = tx::static_extent(filter[d]);
      reaches_out |= conv.getPadsLow()[d] > 0 || !in || !out || !taps ||
                     (*out - 1) * conv.getStrides()[d] + (*taps - 1) * conv.getDilations()[d] - conv.getPadsLow()[d] >= *in;
    }
    folded.push_back(filter[spatial]);
    AffineExpr group_columns = filter[spatial + 1].floorDiv(groups);
    lhs.push_back(groups == 1 ? channel : column.floorDiv(group_columns) * filter[spatial] + channel);
    llvm::append_range(rhs, Exprs{channel, column});
    return reaches_out;
  }

  tx::DispatchOp source_;
  OwningOpRef<tx::DispatchOp> copy_;  // of the source
  std::string& reason_;
  MLIRContext* context_;
  OpBuilder builder_;
  IRMapping operands_;  // from the copy's operands, and values that have stages, to the staged region's
  unsigned symbols_ = 0;
};

}  // namespace

FailureOr<StagedRegion> form_stages(tx::DispatchOp region, std::string& reason) {
  return Former(region, reason).run();
}

}  // namespace heddle::stage
