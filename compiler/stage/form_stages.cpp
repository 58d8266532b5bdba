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
      .Case([&](tx::ReshapeOp reshape) {
        Exprs extents = tx::extents(tx::tensor(reshape.getResult()));
        size_t to = extents.size(), from = input_extents.size();
        while (to > 0 && from > 0 && extents[to - 1] == input_extents[from - 1]) place[--from] = at[--to];
        AffineExpr linear = zero;  // of what is not alike, in row-major order
        for (size_t i = 0; i < to; ++i) linear = linear * extents[i] + at[i];
        while (from-- > 0) {
          if (tx::static_extent(input_extents[from]) == 1) continue;
          bool outermost = llvm::all_of(ArrayRef(input_extents).take_front(from), [](AffineExpr e) { return tx::static_extent(e) == 1; });
          place[from] = outermost ? linear : linear % input_extents[from];
          linear = linear.floorDiv(input_extents[from]);
        }
        return place;
      })
      .Default([](Operation*) -> Exprs { llvm_unreachable("asked of ops that only_moves() knows"); });
}

bool is_root(Operation* op) {
  return llvm::isa<tx::ReduceOp, tx::MatmulOp, tx::ConvOp>(op);
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
    auto key = std::make_pair(
        value, ArrayAttr::get(builder.getContext(), {AffineMapAttr::get(AffineMap::get(rank_, symbols, at, builder.getContext()))}));
    if (auto known = memo_.find(key); known != memo_.end()) return known->second;
    Value result = make(value, at);
    if (result) memo_[key] = result;
    return result;
  }

  // A read of a tensor outside of the stages.
  Value read(Value tensor, ArrayRef<AffineExpr> at, TypedAttr outside = {}) {
    Type element = tx::tensor(tensor).getElementType();
    auto access = AccessAttr::get(builder.getContext(), AffineMap::get(rank_, symbols, at, builder.getContext()), outside);
    Value argument = block_->insertArgument(rank_ + static_cast<unsigned>(reads.size()), scalar_type(element), location_);
    reads.push_back(operands_.lookup(tensor));
    accesses.push_back(access);
    Type compute = compute_type(element);
    return compute == argument.getType() ? argument : builder.create<arith::ExtFOp>(location_, compute, argument);
  }

  // The same, or 0 where the place is outside of the value, if it may be.
  Value element_or_zero(Value value, ArrayRef<AffineExpr> at, bool may_be_outside) {
    if (!may_be_outside) return element(value, at);
    TypedAttr zero = number(scalar_type(tx::tensor(value).getElementType()), 0);
    if (llvm::isa<BlockArgument>(value)) return read(value, at, zero);
    return refuse("a padded factor that " + tx::describe(value.getDefiningOp()) + " makes");
  }

  // A factor in the type of the sums.
  Value widened(Value factor, Value tensor, Type type) {
    Type own = factor.getType();
    if (own == type) return factor;
    unsigned have = own.getIntOrFloatBitWidth(), want = type.getIntOrFloatBitWidth();
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
    Operation* op = value.getDefiningOp();
    if (!op) return read(value, at);
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
      if (!llvm::isa<BlockArgument>(pad.getInput())) return refuse("a pad of what is computed");
      Exprs place;
      for (auto [i, index] : llvm::enumerate(at)) place.push_back(index - pad.getLow()[i]);
      Type type = scalar_type(tx::tensor(value).getElementType());
      return read(pad.getInput(), place, number(type, pad.getValue().convertToDouble()));
    }
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
  llvm::DenseMap<std::pair<Value, Attribute>, Value> memo_;
};

class Former {
 public:
  Former(tx::DispatchOp source, std::string& reason)
      : source_(source), reason_(reason), context_(source.getContext()), builder_(context_) {}

  FailureOr<StagedRegion> run() {
    StagedRegion staged;
    open(staged);
    SmallVector<Value> outputs;
    for (Value yielded : source_.getBody().front().getTerminator()->getOperands()) outputs.push_back(behind_reshapes(yielded));
    Exprs extents = tx::extents(tx::tensor(outputs.front()));
    for (Value output : outputs) {
      if (tx::extents(tx::tensor(output)) != extents) return refuse("results over several domains");
    }
    Operation* root = nullptr;
    for (Operation& op : source_.getBody().front()) {
      if (!is_root(&op)) continue;
      if (root) return refuse("two reductions or contractions");
      root = &op;
    }
    SmallVector<Type> types = llvm::to_vector(source_.getOutputs().getTypes());
    Operation* stage = root ? rooted(root, outputs, extents, types) : map(outputs, extents, types);
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
    for (BlockArgument argument : source_.getBody().getArguments())
      operands_.map(argument, body->addArgument(argument.getType(), location));
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
  bool finish(StageBody& body, ArrayRef<Value> outputs, unsigned rank) {
    SmallVector<Value> elements;
    for (Value output : outputs) {
      Value element = body.element(output, dims(0, rank));
      if (!element) return false;
      elements.push_back(body.to_storage(element, tx::tensor(output).getElementType()));
    }
    body.yield(elements);
    return true;
  }

  Operation* map(ArrayRef<Value> outputs, ArrayRef<AffineExpr> extents, TypeRange types) {
    unsigned rank = extents.size();
    StageBody body(builder_, rank, operands_, reason_);
    body.symbols = symbols_;
    if (!finish(body, outputs, rank)) return nullptr;
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
    last.accumulated = last.add_argument(compute);
    auto reduce = llvm::dyn_cast<tx::ReduceOp>(root);
    if (reduce && reduce.getKind() == tx::ReduceKind::mean && !(last.accumulated = mean(last, reduce))) return nullptr;
    if (!finish(last, outputs, rank)) return nullptr;
    if (last.root_at.size() != static_cast<size_t>(tx::tensor(root->getResult(0)).getRank())) {
      last.refuse("results of " + tx::describe(root) + " are not read");
      return nullptr;
    }
    return reduce ? fold(reduce, last, extents, types) : contract(root, last, extents, types, compute);
  }

  // ------------------------------------------------------------------------------------------------------- reductions

  // In `finish`: the sum divided by the number of elements.
  Value mean(StageBody& last, tx::ReduceOp reduce) {
    Exprs extents = tx::extents(tx::tensor(reduce.getInput()));
    int64_t count = 1;
    for (int64_t axis : reduce.getAxes()) {
      auto extent = tx::static_extent(extents[axis]);
      if (!extent) return last.refuse("a mean over a symbolic extent");
      count *= *extent;
    }
    Type type = last.accumulated.getType();
    if (!llvm::isa<FloatType>(type)) return last.refuse("a mean of integers");
    Location location = last.builder.getUnknownLoc();
    Value divisor = last.builder.create<arith::ConstantOp>(location, last.number(type, static_cast<double>(count)));
    return last.builder.create<arith::DivFOp>(location, last.accumulated, divisor);
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
        if (is_float) return b.create<arith::MaximumFOp>(at, x, y);
        return no_sign ? b.create<arith::MaxUIOp>(at, x, y).getResult() : b.create<arith::MaxSIOp>(at, x, y).getResult();
      case tx::ReduceKind::min:
        if (is_float) return b.create<arith::MinimumFOp>(at, x, y);
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

  Operation* fold(tx::ReduceOp reduce, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types) {
    Location location = builder_.getUnknownLoc();
    Exprs input = tx::extents(tx::tensor(reduce.getInput())), folded, place(input.size());
    unsigned rank = extents.size(), kept = 0;
    Exprs own = dims(0, static_cast<unsigned>(input.size()));  // of the root: kept dimensions, then reduced ones
    unsigned kept_count = static_cast<unsigned>(input.size() - reduce.getAxes().size());
    for (unsigned i = 0; i < input.size(); ++i) {
      if (llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(i))) {
        place[i] = own[kept_count + folded.size()];
        folded.push_back(input[i]);
      } else {
        place[i] = own[kept++];
      }
    }
    place = over_domain(place, last.root_at, rank, static_cast<unsigned>(folded.size()));
    Type element = tx::tensor(reduce.getInput()).getElementType(), type = compute_type(element);
    bool no_sign = is_unsigned(element);
    auto kind = reduce.getKind();
    StageBody init(builder_, 0, operands_, reason_), step(builder_, rank + folded.size(), operands_, reason_),
        merge(builder_, 0, operands_, reason_);
    step.symbols = symbols_;
    init.yield(ValueRange(init.builder.create<arith::ConstantOp>(location, identity(init, kind, type, no_sign))));
    Value value = step.element(reduce.getInput(), place);
    if (!value) return nullptr;
    step.yield(combine(step.builder, location, kind, step.add_argument(type), value, no_sign));
    Value a = merge.add_argument(type), b = merge.add_argument(type);
    merge.yield(combine(merge.builder, location, kind, a, b, no_sign));
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
    factors.yield({factors.widened(a, lhs, accumulator), factors.widened(b, rhs, accumulator)});
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
  std::string& reason_;
  MLIRContext* context_;
  OpBuilder builder_;
  IRMapping operands_;  // from the source's operands to the staged region's
  unsigned symbols_ = 0;
};

}  // namespace

FailureOr<StagedRegion> form_stages(tx::DispatchOp region, std::string& reason) {
  return Former(region, reason).run();
}

}  // namespace heddle::stage
