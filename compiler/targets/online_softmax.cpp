// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See online_softmax.h.
#include "compiler/targets/online_softmax.h"

#include <cmath>

#include "llvm/ADT/APFloat.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// Added to a score, or used instead of it, for a key that does not count: its weight is then 0 whatever the other scores of the row are, as long as
// one of them counts and is a number.
constexpr double nothing_from = -1e30;

// The tensor and the place that an argument of a body reads, if it is a read.
std::optional<unsigned> read_of(Operation* stage, Value value, unsigned first = 0) {
  auto argument = llvm::dyn_cast<BlockArgument>(value);
  unsigned rank = stage::domain_of(stage).getRank();
  if (!argument || argument.getArgNumber() < rank || argument.getOwner()->getParentOp() != stage) return std::nullopt;
  unsigned read = argument.getArgNumber() - rank + first;
  return read < stage->getNumOperands() ? std::optional(read) : std::nullopt;
}

// Whether two bodies of the same domain compute the same.
class SameBodies {
 public:
  SameBodies(Operation* stage, Operation* other) : stage_(stage), other_(other) {}

  bool are_same(Value value, Value other) {
    auto [known, is_new] = known_.try_emplace({value, other}, false);
    if (!is_new) return known->second;
    bool same = compare(value, other);
    known_[{value, other}] = same;
    return same;
  }

 private:
  bool compare(Value value, Value other) {
    auto argument = llvm::dyn_cast<BlockArgument>(value), other_argument = llvm::dyn_cast<BlockArgument>(other);
    if (argument || other_argument) {
      if (!argument || !other_argument) return false;
      auto read = read_of(stage_, value), other_read = read_of(other_, other);
      if (!read && !other_read) return argument.getArgNumber() == other_argument.getArgNumber();
      return read && other_read && stage_->getOperand(*read) == other_->getOperand(*other_read) &&
             stage::access_of(stage_, *read) == stage::access_of(other_, *other_read);
    }
    Operation *op = value.getDefiningOp(), *other_op = other.getDefiningOp();
    if (op->getName() != other_op->getName() || op->getAttrs() != other_op->getAttrs() ||
        op->getNumOperands() != other_op->getNumOperands() || value.getType() != other.getType())
      return false;
    return llvm::all_of(llvm::zip(op->getOperands(), other_op->getOperands()),
                        [&](auto pair) { return are_same(std::get<0>(pair), std::get<1>(pair)); });
  }

  Operation *stage_, *other_;
  llvm::DenseMap<std::pair<Value, Value>, bool> known_;
};

Value yielded(Region& body) {
  Operation* yield = body.front().getTerminator();
  return yield->getNumOperands() == 1 ? yield->getOperand(0) : Value();
}

bool is_constant(Value value, double wanted) {
  FloatAttr attribute;
  return matchPattern(value, m_Constant(&attribute)) && attribute.getValueAsDouble() == wanted;
}

// Whether the fold has one accumulator, which begins with `start` and is its result.
bool is_plain_fold(stage::FoldOp fold, double start) {
  Value init = yielded(fold.getInit()), finish = yielded(fold.getFinish());
  if (!init || !finish || fold->getNumResults() != 1 || fold.getStepReads() != fold->getNumOperands()) return false;
  return is_constant(init, start) && finish == fold.getFinish().front().getArguments().back();
}

// The operand of a + b in a fold's step that is not the accumulator.
template <typename OpType>
Value beside_accumulator(stage::FoldOp fold) {
  Value step = yielded(fold.getStep());
  auto op = step ? step.getDefiningOp<OpType>() : OpType();
  Value accumulator = fold.getStep().front().getArguments().back();
  if (!op) return {};
  return op.getLhs() == accumulator ? op.getRhs() : op.getRhs() == accumulator ? op.getLhs() : Value();
}

// An integer in a body as an expression over the domain's dimensions and the function's symbols; null if it is not one.
AffineExpr affine(Operation* stage, Value value, int depth = 0) {
  constexpr int deepest = 8;
  if (depth > deepest) return {};
  MLIRContext* context = stage->getContext();
  if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
    return argument.getArgNumber() < stage::domain_of(stage).getRank() ? getAffineDimExpr(argument.getArgNumber(), context) : AffineExpr();
  }
  if (IntegerAttr constant; matchPattern(value, m_Constant(&constant))) return getAffineConstantExpr(constant.getInt(), context);
  Operation* op = value.getDefiningOp();
  if (auto extent = llvm::dyn_cast<stage::ExtentOp>(op)) return extent.getExpression().getResult(0);
  // An index fits into 32 bits; in fewer bits it may wrap.
  if (llvm::isa<arith::ExtSIOp>(op) || (llvm::isa<arith::TruncIOp>(op) && value.getType().getIntOrFloatBitWidth() >= 32))
    return affine(stage, op->getOperand(0), depth + 1);
  if (!llvm::isa<arith::AddIOp, arith::SubIOp>(op)) return {};
  AffineExpr a = affine(stage, op->getOperand(0), depth + 1), b = affine(stage, op->getOperand(1), depth + 1);
  if (!a || !b) return {};
  return llvm::isa<arith::AddIOp>(op) ? a + b : a - b;
}

// What is known of a value, given a condition: that it is a number or a truth value, that it counts for nothing (nothing_from or less), or nothing.
struct Known {
  enum { unknown, number, nothing } kind = unknown;
  double value = 0;  // for a bool: 0 or 1; if it counts for nothing: -inf or its approximate value

  static Known of(double number) { return {number <= nothing_from ? Known::nothing : Known::number, number}; }
};

bool compare(arith::CmpFPredicate predicate, double a, double b) {
  return arith::applyCmpPredicate(predicate, llvm::APFloat(a), llvm::APFloat(b));
}

// What follows from a condition.
class Consequences {
 public:
  Consequences(Value condition, bool is_true) : condition_(condition), is_true_(is_true) {}

  Known of(Value value) {
    if (auto known = known_.find(value); known != known_.end()) return known->second;
    Known result = evaluate(value);
    known_[value] = result;
    return result;
  }

 private:
  Known evaluate(Value value);

  Value condition_;  // null: no condition
  bool is_true_;
  llvm::DenseMap<Value, Known> known_;
};

Known Consequences::evaluate(Value value) {
  auto truth = [](bool value) { return Known{Known::number, value ? 1.0 : 0.0}; };
  if (value == condition_) return truth(is_true_);
  if (llvm::isa<BlockArgument>(value)) return {};
  if (FloatAttr constant; matchPattern(value, m_Constant(&constant))) return Known::of(constant.getValueAsDouble());
  if (IntegerAttr constant; value.getType().isInteger(1) && matchPattern(value, m_Constant(&constant)))
    return truth(!constant.getValue().isZero());
  Operation* op = value.getDefiningOp();
  auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
  auto is_number = [](const Known& known) { return known.kind == Known::number; };
  if (llvm::isa<arith::ExtFOp, arith::TruncFOp>(op)) return operand(0);
  if (llvm::isa<arith::SelectOp>(op)) {
    Known which = operand(0), yes = operand(1), no = operand(2);
    if (is_number(which)) return which.value != 0 ? yes : no;
    return yes.kind == Known::nothing && no.kind == Known::nothing ? Known{Known::nothing, std::max(yes.value, no.value)} : Known{};
  }
  if (llvm::isa<arith::AddFOp>(op)) {
    Known a = operand(0), b = operand(1);
    if (is_number(a) && b.kind == Known::nothing) return Known::of(a.value + b.value);
    if (is_number(b) && a.kind == Known::nothing) return Known::of(a.value + b.value);
    if (a.kind == Known::nothing || b.kind == Known::nothing) return {Known::nothing, std::min(a.value, b.value)};
    return is_number(a) && is_number(b) ? Known::of(a.value + b.value) : Known{};
  }
  if (auto cmp = llvm::dyn_cast<arith::CmpFOp>(op)) {
    Known a = operand(0), b = operand(1);
    return is_number(a) && is_number(b) ? truth(compare(cmp.getPredicate(), a.value, b.value)) : Known{};
  }
  if (llvm::isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op) && value.getType().isInteger(1)) {
    Known a = operand(0), b = operand(1);
    const double decisive = llvm::isa<arith::AndIOp>(op) ? 0 : 1;
    bool may_decide = !llvm::isa<arith::XOrIOp>(op);
    for (const Known& one : {a, b}) {
      if (may_decide && is_number(one) && one.value == decisive) return one;
    }
    if (!is_number(a) || !is_number(b)) return {};
    return may_decide ? truth(decisive == 0) : truth(a.value != b.value);
  }
  return {};
}

// Whether a body yields its read of the contraction unchanged, and the contraction yields its sums unchanged.
bool yields_sums(stage::MapOp stage, stage::ContractOp contraction) {
  Value value = yielded(stage.getBody());
  Consequences known({}, false);
  for (Operation* op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
    if (auto select = llvm::dyn_cast<arith::SelectOp>(op)) {
      Known condition = known.of(select.getCondition());
      if (condition.kind != Known::number) return false;
      value = condition.value != 0 ? select.getTrueValue() : select.getFalseValue();
    } else {
      auto sum = llvm::dyn_cast<arith::AddFOp>(op);
      Known added = sum ? known.of(sum.getRhs()) : Known();
      if (added.kind != Known::number || added.value != 0) return false;
      value = sum.getLhs();
    }
  }
  auto read = read_of(stage, value);
  return read && stage->getOperand(*read) == contraction->getResult(0) &&
         yielded(contraction.getFinish()) == contraction.getFinish().front().getArguments().back();
}

// The comparison as an expression that is not negative where it holds; null if there is none.
AffineExpr not_negative(stage::MapOp stage, arith::CmpIOp compare, bool holds) {
  AffineExpr a = affine(stage, compare.getLhs()), b = affine(stage, compare.getRhs());
  if (!a || !b) return {};
  auto predicate = holds ? compare.getPredicate() : arith::invertPredicate(compare.getPredicate());
  switch (predicate) {
    case arith::CmpIPredicate::sle:
      return b - a;
    case arith::CmpIPredicate::slt:
      return b - a - 1;
    case arith::CmpIPredicate::sge:
      return a - b;
    case arith::CmpIPredicate::sgt:
      return a - b - 1;
    default:
      return {};
  }
}

}  // namespace

FailureOr<OnlineSoftmax> OnlineSoftmax::read(const AttentionShape& shape, StringRef who) {
  stage::ContractOp first = shape.first, second = shape.second;
  tx::DispatchOp region = shape.staged.region;
  auto refuse = [&](const Twine& why) { return FailureOr<OnlineSoftmax>(region.emitError() << who << ": attention: " << why); };
  SmallVector<Operation*> between;
  for (Operation* op = first->getNextNode(); op != second; op = op->getNextNode()) between.push_back(op);
  if (between.size() != 4) return refuse("there is more than a softmax between the products");
  auto largest = llvm::dyn_cast<stage::FoldOp>(between[0]), sum = llvm::dyn_cast<stage::FoldOp>(between[2]);
  auto exponentials = llvm::dyn_cast<stage::MapOp>(between[1]), quotients = llvm::dyn_cast<stage::MapOp>(between[3]);
  if (!largest || !sum || !exponentials || !quotients) return refuse("the ops between the products are not a softmax");
  if (!is_plain_fold(largest, -std::numeric_limits<double>::infinity()) || !is_plain_fold(sum, 0))
    return refuse("the reductions between the products are not those of a softmax");

  // exp(argument - largest)
  auto exp = yielded(exponentials.getBody()).getDefiningOp<math::ExpOp>();
  auto difference = exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  auto of_largest = difference ? read_of(exponentials, difference.getRhs()) : std::nullopt;
  Value compared = beside_accumulator<arith::MaximumFOp>(largest);
  if (!of_largest || exponentials->getOperand(*of_largest) != largest->getResult(0) || !compared ||
      stage::domain_of(largest).getExtents() != stage::domain_of(exponentials).getExtents() ||
      !SameBodies(largest, exponentials).are_same(compared, difference.getLhs()))
    return refuse("there is no exponential of the difference from the maximum");
  Value summed = beside_accumulator<arith::AddFOp>(sum);
  auto of_exponentials = summed ? read_of(sum, summed) : std::nullopt;
  if (!of_exponentials || sum->getOperand(*of_exponentials) != exponentials->getResult(0))
    return refuse("the sum is not of the exponentials");

  // Each exponential divided by their sum, or 0 if that is not a number.
  OnlineSoftmax result;
  Value quotient = yielded(quotients.getBody());
  if (auto select = quotient.getDefiningOp<arith::SelectOp>()) {
    auto is_nan = select.getCondition().getDefiningOp<arith::CmpFOp>();
    bool is_ours = is_nan && is_nan.getPredicate() == arith::CmpFPredicate::UNE && is_nan.getLhs() == is_nan.getRhs();
    if (!is_ours || is_nan.getLhs() != select.getFalseValue() || !is_constant(select.getTrueValue(), 0))
      return refuse("the weights are more than a softmax");
    result.nothing_is_zero = true;
    quotient = select.getFalseValue();
  }
  Value dividend, divisor;
  if (auto product = quotient.getDefiningOp<arith::MulFOp>()) {
    auto inverse = product.getRhs().getDefiningOp<arith::DivFOp>();
    dividend = product.getLhs();
    divisor = inverse && is_constant(inverse.getLhs(), 1) ? inverse.getRhs() : Value();
  } else if (auto division = quotient.getDefiningOp<arith::DivFOp>()) {
    dividend = division.getLhs();
    divisor = division.getRhs();
  }
  auto of_dividend = dividend ? read_of(quotients, dividend) : std::nullopt,
       of_divisor = divisor ? read_of(quotients, divisor) : std::nullopt;
  if (!of_dividend || !of_divisor || quotients->getOperand(*of_dividend) != exponentials->getResult(0) ||
      quotients->getOperand(*of_divisor) != sum->getResult(0))
    return refuse("the weights are not exponentials divided by their sum");

  // The argument by itself.
  OpBuilder builder(exponentials);
  result.exponentials_ = exponentials;
  auto without_exp = [&](const std::function<void(stage::MapOp, Block&)>& change) {
    auto copy = llvm::cast<stage::MapOp>(builder.clone(*exponentials));
    Block& body = copy.getBody().front();
    auto exp_here = llvm::cast<math::ExpOp>(body.getTerminator()->getOperand(0).getDefiningOp());
    auto difference_here = llvm::cast<arith::SubFOp>(exp_here.getOperand().getDefiningOp());
    body.getTerminator()->setOperand(0, difference_here.getLhs());
    exp_here.erase();
    difference_here.erase();
    if (change) change(copy, body);
    return copy;
  };
  result.argument_ = without_exp({});
  result.is_plain = yields_sums(result.argument_, first);

  // Which keys count: given by one comparison of indices; keys for which it does not hold count for nothing.
  ArrayRef<unsigned> dims = shape.rows.dimensions_of(exponentials);
  unsigned row_dims = static_cast<unsigned>(shape.rows.rows().size());
  std::optional<unsigned> key_dim, query_dim;
  for (auto [d, dim] : llvm::enumerate(dims)) {
    if (dim == row_dims) key_dim = static_cast<unsigned>(d);
    if (shape.query && dim == *shape.query) query_dim = static_cast<unsigned>(d);
  }
  if (!key_dim) return refuse("there is only one key");
  for (auto [position, op] : llvm::enumerate(result.argument_.getBody().front())) {
    auto compare = llvm::dyn_cast<arith::CmpIOp>(op);
    if (!compare) continue;
    Value argument = yielded(result.argument_.getBody());
    for (bool holds : {true, false}) {
      Known otherwise = Consequences(compare, !holds).of(argument);
      if (otherwise.kind != Known::nothing) continue;
      AffineExpr margin = not_negative(result.argument_, compare, holds);
      if (!margin) continue;
      MLIRContext* context = region.getContext();
      AffineExpr ahead = margin + getAffineDimExpr(*key_dim, context);
      if (query_dim) ahead = ahead - getAffineDimExpr(*query_dim, context);
      ahead = simplifyAffineExpr(ahead, stage::domain_of(exponentials).getRank(), static_cast<unsigned>(symbol_count(region)));
      if (!ahead.isSymbolicOrConstant()) continue;
      size_t at = position;
      stage::MapOp where_it_holds = without_exp([&](stage::MapOp, Block& body) {
        Operation& same = *std::next(body.begin(), static_cast<ptrdiff_t>(at));
        OpBuilder inside(&same);
        Value constant = inside.create<arith::ConstantOp>(same.getLoc(), inside.getBoolAttr(holds));
        same.getResult(0).replaceAllUsesWith(constant);
        same.erase();
      });
      bool is_plain = yields_sums(where_it_holds, first);
      // A finite score has weight if nothing in the row counts for more. So each query must see a key whose argument is its sum and nothing else.
      if (!std::isinf(otherwise.value) && (!is_plain || tx::static_extent(ahead).value_or(-1) < 0)) {
        where_it_holds.erase();
        continue;
      }
      result.keys_ahead = ahead;
      result.argument_ = where_it_holds;
      result.is_plain = is_plain;
      return result;
    }
  }
  return result;
}

Value OnlineSoftmax::argument(KernelBuilder& k, const AttentionShape& shape, ArrayRef<Value> element, Value query_index, Value key,
                              Value sums, int64_t lanes) const {
  stage::MapOp stage = argument_;
  unsigned row_dims = static_cast<unsigned>(shape.rows.rows().size());
  BodyPlace place;
  for (auto [d, dim] : llvm::enumerate(shape.rows.dimensions_of(exponentials_))) {
    bool is_row = dim < row_dims;
    if (dim == row_dims) place.lane_dimension = static_cast<unsigned>(d);
    place.index.push_back(dim == row_dims ? key : !is_row ? k.index(0) : shape.query == dim ? query_index : element[dim]);
  }
  place.lanes = lanes;
  // The value that the first product makes of its sums.
  stage::ContractOp first = shape.first;
  BodyPlace score_place = place;
  score_place.index = shape.first_index(k, element, query_index, key, k.index(0));
  score_place.index.pop_back();
  score_place.lane_dimension = shape.first_key;
  BodyEmitter scores(k, first, [](unsigned, const BodyPlace&) -> Element { llvm_unreachable("no other stage is read"); });
  unsigned first_read = stage::first_read_of_last_body(first), count = first->getNumOperands() - first_read;
  Element score = scores.run(stage::last_body(first), first_read, count, Element{sums, lanes > 0}, score_place)[0];
  BodyEmitter body(k, stage, [&](unsigned read, const BodyPlace&) {
    if (stage->getOperand(read).getDefiningOp() == first) return score;
    return Element{k.constant(k.builder.getF32Type(), 0), false};  // the maximum, which is not used
  });
  return body.to_lanes(body.run(stage.getBody().front(), 0, stage->getNumOperands(), {}, place)[0], lanes).value;
}

}  // namespace heddle::targets
