// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See interpreter.h. Written from the definitions in stage.td and of the arith and math dialects; shares no code with any emitter.
#include "compiler/stage/interpreter.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "compiler/stage/sieve.h"
#include "compiler/stage/walk.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::stage {

namespace {

using Index = SmallVector<int64_t>;

int64_t evaluate(AffineExpr expression, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  if (auto constant = llvm::dyn_cast<AffineConstantExpr>(expression)) return constant.getValue();
  if (auto dim = llvm::dyn_cast<AffineDimExpr>(expression)) return dims[dim.getPosition()];
  if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(expression)) return symbols[symbol.getPosition()];
  auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
  int64_t a = evaluate(binary.getLHS(), dims, symbols), b = evaluate(binary.getRHS(), dims, symbols);
  switch (binary.getKind()) {
    case AffineExprKind::Add:
      return a + b;
    case AffineExprKind::Mul:
      return a * b;
    case AffineExprKind::FloorDiv:
      return llvm::divideFloorSigned(a, b);
    case AffineExprKind::CeilDiv:
      return llvm::divideCeilSigned(a, b);
    default:
      return llvm::mod(a, b);
  }
}

// Calls body(index) for every index, in row-major order.
template <typename Function>
void for_every_index(ArrayRef<int64_t> extents, Function body) {
  Index index(extents.size(), 0);
  if (llvm::is_contained(extents, 0)) return;
  while (true) {
    body(ArrayRef<int64_t>(index));
    size_t d = extents.size();
    while (d > 0 && ++index[d - 1] == extents[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

Scalar wrapped(int64_t value, Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  return {0, width >= 64 ? value : llvm::SignExtend64(static_cast<uint64_t>(value), width)};
}

uint64_t bits(Scalar value, Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  return static_cast<uint64_t>(value.whole) & (width >= 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
}

Scalar constant(TypedAttr attribute) {
  if (auto real = llvm::dyn_cast<FloatAttr>(attribute)) return {real.getValueAsDouble(), 0};
  return wrapped(static_cast<int64_t>(llvm::cast<IntegerAttr>(attribute).getValue().getZExtValue()), attribute.getType());
}

bool compare(arith::CmpFPredicate predicate, double a, double b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
    case arith::CmpFPredicate::OEQ:
      return a == b;
    case arith::CmpFPredicate::OGT:
      return a > b;
    case arith::CmpFPredicate::OGE:
      return a >= b;
    case arith::CmpFPredicate::OLT:
      return a < b;
    case arith::CmpFPredicate::OLE:
      return a <= b;
    case arith::CmpFPredicate::UNE:
      return unordered || a != b;
    case arith::CmpFPredicate::UNO:
      return unordered;
    case arith::CmpFPredicate::UGE:
      return unordered || a >= b;
    default:
      throw std::logic_error("a comparison that bodies may not have");
  }
}

bool compare(arith::CmpIPredicate predicate, Scalar a, Scalar b, Type type) {
  uint64_t x = bits(a, type), y = bits(b, type);
  switch (predicate) {
    case arith::CmpIPredicate::eq:
      return x == y;
    case arith::CmpIPredicate::ne:
      return x != y;
    case arith::CmpIPredicate::slt:
      return a.whole < b.whole;
    case arith::CmpIPredicate::sle:
      return a.whole <= b.whole;
    case arith::CmpIPredicate::sgt:
      return a.whole > b.whole;
    case arith::CmpIPredicate::sge:
      return a.whole >= b.whole;
    case arith::CmpIPredicate::ult:
      return x < y;
    case arith::CmpIPredicate::ule:
      return x <= y;
    case arith::CmpIPredicate::ugt:
      return x > y;
    case arith::CmpIPredicate::uge:
      return x >= y;
  }
  throw std::logic_error("a comparison that bodies may not have");
}

Scalar rounded(double value, Type type) {
  if (type.isF64()) return {value, 0};
  if (type.isF32()) return {static_cast<double>(static_cast<float>(value)), 0};
  APFloat exact(value);
  bool lost;
  exact.convert(llvm::cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  exact.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return {exact.convertToDouble(), 0};
}

using Values = SmallVector<Scalar>;

Scalar run(Operation* op, ArrayRef<Scalar> in, ArrayRef<int64_t> symbols) {
  Type type = op->getResult(0).getType(), from = op->getNumOperands() > 0 ? op->getOperand(0).getType() : type;
  auto real = [](double value) { return Scalar{value, 0}; };
  auto whole = [&](uint64_t value) { return wrapped(static_cast<int64_t>(value), type); };
  auto a = [&] { return in[0].real; };
  auto b = [&] { return in[1].real; };
  auto x = [&] { return static_cast<uint64_t>(in[0].whole); };
  auto y = [&] { return static_cast<uint64_t>(in[1].whole); };
  bool nan = in.size() > 1 && (std::isnan(in[0].real) || std::isnan(in[1].real));
  return llvm::TypeSwitch<Operation*, Scalar>(op)
      .Case([&](arith::ConstantOp op) { return constant(op.getValue()); })
      .Case([&](ExtentOp op) { return whole(static_cast<uint64_t>(evaluate(op.getExpression().getResult(0), {}, symbols))); })
      .Case([&](arith::AddFOp) { return real(a() + b()); })
      .Case([&](arith::SubFOp) { return real(a() - b()); })
      .Case([&](arith::MulFOp) { return real(a() * b()); })
      .Case([&](arith::DivFOp) { return real(a() / b()); })
      .Case([&](arith::NegFOp) { return real(-a()); })
      .Case([&](arith::MaximumFOp) { return real(nan ? std::nan("") : std::max(a(), b())); })
      .Case([&](arith::MinimumFOp) { return real(nan ? std::nan("") : std::min(a(), b())); })
      .Case([&](arith::AddIOp) { return whole(x() + y()); })
      .Case([&](arith::SubIOp) { return whole(x() - y()); })
      .Case([&](arith::MulIOp) { return whole(x() * y()); })
      .Case([&](arith::DivSIOp) { return whole(static_cast<uint64_t>(in[0].whole / in[1].whole)); })
      .Case([&](arith::DivUIOp) { return whole(bits(in[0], type) / bits(in[1], type)); })
      .Case([&](arith::MaxSIOp) { return whole(static_cast<uint64_t>(std::max(in[0].whole, in[1].whole))); })
      .Case([&](arith::MinSIOp) { return whole(static_cast<uint64_t>(std::min(in[0].whole, in[1].whole))); })
      .Case([&](arith::MaxUIOp) { return whole(std::max(bits(in[0], type), bits(in[1], type))); })
      .Case([&](arith::MinUIOp) { return whole(std::min(bits(in[0], type), bits(in[1], type))); })
      .Case([&](arith::AndIOp) { return whole(x() & y()); })
      .Case([&](arith::OrIOp) { return whole(x() | y()); })
      .Case([&](arith::XOrIOp) { return whole(x() ^ y()); })
      .Case([&](arith::ShLIOp) { return whole(y() < type.getIntOrFloatBitWidth() ? bits(in[0], type) << y() : 0); })
      .Case([&](arith::ShRUIOp) { return whole(y() < type.getIntOrFloatBitWidth() ? bits(in[0], type) >> y() : 0); })
      .Case([&](arith::BitcastOp) {
        bool lost;
        APInt all(from.getIntOrFloatBitWidth(), 0);
        if (auto own = llvm::dyn_cast<FloatType>(from)) {
          APFloat value(a());
          value.convert(own.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
          all = value.bitcastToAPInt();
        } else {
          all = APInt(from.getIntOrFloatBitWidth(), bits(in[0], from));
        }
        auto to = llvm::dyn_cast<FloatType>(type);
        if (!to) return whole(all.getZExtValue());
        APFloat value(to.getFloatSemantics(), all);
        value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
        return real(value.convertToDouble());
      })
      .Case([&](arith::CmpFOp op) { return whole(compare(op.getPredicate(), a(), b())); })
      .Case([&](arith::CmpIOp op) { return whole(compare(op.getPredicate(), in[0], in[1], from)); })
      .Case([&](arith::SelectOp) { return bits(in[0], from) ? in[1] : in[2]; })
      .Case([&](arith::ExtFOp) { return in[0]; })
      .Case([&](arith::TruncFOp) { return rounded(a(), type); })
      .Case([&](arith::ExtSIOp) { return whole(x()); })
      .Case([&](arith::ExtUIOp) { return whole(bits(in[0], from)); })
      .Case([&](arith::TruncIOp) { return whole(x()); })
      .Case([&](arith::SIToFPOp) { return real(static_cast<double>(in[0].whole)); })
      .Case([&](arith::UIToFPOp) { return real(static_cast<double>(bits(in[0], from))); })
      .Case([&](arith::FPToSIOp) { return whole(static_cast<uint64_t>(static_cast<int64_t>(a()))); })
      .Case([&](arith::FPToUIOp) { return whole(static_cast<uint64_t>(a())); })
      .Case([&](math::AbsFOp) { return real(std::fabs(a())); })
      .Case([&](math::CeilOp) { return real(std::ceil(a())); })
      .Case([&](math::FloorOp) { return real(std::floor(a())); })
      .Case([&](math::RoundEvenOp) { return real(std::nearbyint(a())); })
      .Case([&](math::SqrtOp) { return real(std::sqrt(a())); })
      .Case([&](math::ExpOp) { return real(std::exp(a())); })
      .Case([&](math::LogOp) { return real(std::log(a())); })
      .Case([&](math::TanhOp) { return real(std::tanh(a())); })
      .Case([&](math::CosOp) { return real(std::cos(a())); })
      .Case([&](math::SinOp) { return real(std::sin(a())); })
      .Case([&](math::ErfOp) { return real(std::erf(a())); })
      .Case([&](math::PowFOp) { return real(std::pow(a(), b())); })
      .Default([](Operation* op) -> Scalar { throw std::logic_error(("bodies may not have " + op->getName().getStringRef()).str()); });
}

// The values that the block yields for these arguments.
Values run(Block& body, ArrayRef<Scalar> arguments, ArrayRef<int64_t> symbols) {
  llvm::DenseMap<Value, Scalar> known;
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments)) known[argument] = value;
  Values in;
  for (Operation& op : body.without_terminator()) {
    in.clear();
    for (Value operand : op.getOperands()) in.push_back(known.at(operand));
    known[op.getResult(0)] = run(&op, in, symbols);
  }
  return llvm::map_to_vector(body.getTerminator()->getOperands(), [&](Value value) { return known.at(value); });
}

class Interpreter {
 public:
  Interpreter(tx::DispatchOp region, const std::vector<Array>& operands, ArrayRef<int64_t> symbols, FoldOrder order)
      : symbols_(symbols), order_(order) {
    for (auto [argument, array] : llvm::zip_equal(region.getBody().getArguments(), operands)) arrays_.insert({argument, array});
  }

  std::vector<Array> run_all(Block& body) {
    for (Operation& op : body.without_terminator()) stage(&op);
    std::vector<Array> results;
    for (Value value : body.getTerminator()->getOperands()) results.push_back(arrays_.at(value));
    return results;
  }

 private:
  Scalar read(Operation* op, unsigned which, ArrayRef<int64_t> at) {
    const Array& array = arrays_.find(op->getOperand(which))->second;
    AccessAttr access = access_of(op, which);
    Index all(at);
    for (unsigned gathered : gathers_of(op, which)) {
      Scalar index = read(op, gathered, at);
      Type element = tx::tensor(op->getOperand(gathered)).getElementType();
      all.push_back(llvm::cast<IntegerType>(element).isUnsigned() ? static_cast<int64_t>(bits(index, scalar_type(element))) : index.whole);
    }
    int64_t linear = 0;
    for (auto [expression, extent] : llvm::zip_equal(access.getMap().getResults(), array.shape)) {
      int64_t index = evaluate(expression, all, symbols_);
      auto dim = llvm::dyn_cast<AffineDimExpr>(expression);
      if (dim && dim.getPosition() >= at.size()) {
        if (index < 0) index += extent;
        index = std::max<int64_t>(0, std::min(index, extent - 1));
      }
      if (index < 0 || index >= extent) {
        if (!access.getOutside()) throw std::logic_error("a read outside of its tensor");
        return constant(access.getOutside());
      }
      linear = linear * extent + index;
    }
    return array.elements[static_cast<size_t>(linear)];
  }

  // Indices, then reads [first, last).
  Values arguments(Operation* op, ArrayRef<int64_t> at, unsigned first, unsigned last) {
    Values values;
    for (int64_t index : at) values.push_back({0, index});
    for (unsigned i = first; i < last; ++i) values.push_back(read(op, i, at));
    return values;
  }

  void stage(Operation* op) {
    DomainAttr domain = domain_of(op);
    auto extents = [&](ArrayRef<AffineExpr> expressions) {
      return llvm::map_to_vector(expressions, [&](AffineExpr e) { return evaluate(e, {}, symbols_); });
    };
    Index parallel = extents(domain.parallel()), folded = extents(domain.folded());
    std::vector<Array> results(op->getNumResults());
    for (auto [array, result] : llvm::zip_equal(results, op->getResults())) {
      for (int64_t extent : extents(tx::extents(tx::tensor(result)))) array.shape.push_back(extent);
    }
    unsigned first = first_read_of_last_body(op), count = op->getNumOperands();
    if (auto scan = llvm::dyn_cast<ScanOp>(op)) {
      scanned(scan, parallel, results);
      for (auto [array, result] : llvm::zip_equal(results, op->getResults())) arrays_.insert({result, std::move(array)});
      return;
    }
    if (auto sort = llvm::dyn_cast<SortOp>(op)) {
      sorted(sort, parallel, folded[0], results[0]);
      arrays_.insert({sort.getResult(), std::move(results[0])});
      return;
    }
    for_every_index(parallel, [&](ArrayRef<int64_t> at) {
      Values values = arguments(op, at, first, count);
      llvm::append_range(values, accumulated(op, at, folded));
      for (auto [array, value] : llvm::zip_equal(results, run(last_body(op), values, symbols_))) array.elements.push_back(value);
    });
    if (auto sieve = llvm::dyn_cast<SieveOp>(op)) sift(sieve, parallel, results[0]);
    if (auto scatter = llvm::dyn_cast<ScatterOp>(op)) update(scatter, parallel, folded[0], results);
    if (auto walk = llvm::dyn_cast<WalkOp>(op)) take_walks(walk, parallel, folded[0], results);
    for (auto [array, result] : llvm::zip_equal(results, op->getResults())) arrays_.insert({result, std::move(array)});
  }

  static int64_t linear_place(ArrayRef<int64_t> at, ArrayRef<int64_t> extents) {
    int64_t linear = 0;
    for (auto [index, extent] : llvm::zip_equal(at, extents)) linear = linear * extent + index;
    return linear;
  }

  void sorted(SortOp sort, const Index& extents, int64_t count, Array& result) {
    auto along = static_cast<size_t>(sort.getAlong());
    Index lines = extents;
    lines[along] = std::min<int64_t>(1, extents[along]);
    int64_t all = 1;
    for (int64_t extent : extents) all *= extent;
    result.elements.resize(static_cast<size_t>(all));
    for_every_index(lines, [&](ArrayRef<int64_t> line) {
      std::vector<Values> elements;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < count; ++i) {
        Index whole(line);
        whole.push_back(i);
        elements.push_back(run(sort.getElement().front(), arguments(sort, whole, 0, sort->getNumOperands()), symbols_));
        order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        Values both = elements[static_cast<size_t>(a)];
        llvm::append_range(both, elements[static_cast<size_t>(b)]);
        return (run(sort.getBefore().front(), both, symbols_)[0].whole & 1) != 0;
      });
      Index at(line);
      for (int64_t p = 0; p < extents[along]; ++p) {
        at[along] = p;
        result.elements[static_cast<size_t>(linear_place(at, extents))] = {0, order.at(static_cast<size_t>(p))};
      }
    });
  }

  // The initial elements of the results.
  void update(ScatterOp scatter, const Index& extents, int64_t updates, std::vector<Array>& results) {
    auto along = static_cast<size_t>(scatter.getAlong());
    auto first = static_cast<unsigned>(scatter.getPlaceReads()), last = first_read_of_last_body(scatter);
    Index lines = extents;
    lines[along] = std::min<int64_t>(1, extents[along]);
    for_every_index(lines, [&](ArrayRef<int64_t> line) {
      for (int64_t i = 0; i < updates; ++i) {
        Index whole(line);
        whole.push_back(i);
        int64_t place = run(scatter.getPlace().front(), arguments(scatter, whole, 0, first), symbols_)[0].whole;
        if (place < 0 || place >= extents[along]) continue;
        Index at(line);
        at[along] = place;
        auto linear = static_cast<size_t>(linear_place(at, extents));
        Values values = arguments(scatter, whole, first, last);
        for (const Array& array : results) values.push_back(array.elements[linear]);
        for (auto [array, value] : llvm::zip_equal(results, run(scatter.getStep().front(), values, symbols_)))
          array.elements[linear] = value;
      }
    });
  }

  // The elements that are there at first.
  void sift(SieveOp sieve, const Index& extents, Array& result) {
    auto along = static_cast<size_t>(sieve.getAlong());
    auto first = static_cast<unsigned>(sieve.getLimitReads()), last = first_read_of_last_body(sieve);
    Index lines = extents;
    lines[along] = std::min<int64_t>(1, extents[along]);
    for_every_index(lines, [&](ArrayRef<int64_t> line) {
      const int64_t limit = run(sieve.getLimit().front(), arguments(sieve, line, 0, first), symbols_)[0].whole;
      auto element = [&](int64_t i) -> Scalar& {
        Index at(line);
        at[along] = i;
        return result.elements[static_cast<size_t>(linear_place(at, extents))];
      };
      for (int64_t stayed = 0, i = 0; i < extents[along]; ++i) {
        if ((element(i).whole & 1) == 0) continue;
        if (stayed++ >= limit) element(i) = {0, 0};
        if (stayed > limit) continue;
        for (int64_t j = i + 1; j < extents[along]; ++j) {
          Index whole(line);
          whole[along] = j;
          whole.push_back(i);
          if ((run(sieve.getRemoves().front(), arguments(sieve, whole, first, last), symbols_)[0].whole & 1) != 0) element(j) = {0, 0};
        }
      }
    });
  }

  // The results have their initial elements.
  void take_walks(WalkOp walk, const Index& extents, int64_t walks, std::vector<Array>& results) {
    const auto along = static_cast<size_t>(walk.getAlong());
    const auto first = static_cast<unsigned>(walk.getStartReads()), last = first + static_cast<unsigned>(walk.getNextReads());
    Index lines = extents;
    lines[along] = std::min<int64_t>(1, extents[along]);
    for_every_index(lines, [&](ArrayRef<int64_t> line) {
      for (int64_t i = 0; i < walks; ++i) {
        Index whole(line);
        whole.push_back(i);
        whole.push_back(run(walk.getStart().front(), arguments(walk, whole, 0, first), symbols_)[0].whole);
        for (uint64_t step = 0; step < walk.getSteps(); ++step)
          whole.back() = run(walk.getNext().front(), arguments(walk, whole, first, last), symbols_)[0].whole;
        for (int64_t position = 0; position < extents[along]; ++position) {
          whole[along] = position;
          auto linear = static_cast<size_t>(linear_place(ArrayRef<int64_t>(whole).take_front(extents.size()), extents));
          Values values = arguments(walk, whole, last, walk->getNumOperands());
          for (const Array& array : results) values.push_back(array.elements[linear]);
          for (auto [array, value] : llvm::zip_equal(results, run(walk.getUpdate().front(), values, symbols_)))
            array.elements[linear] = value;
        }
        whole[along] = 0;
      }
    });
  }

  void scanned(ScanOp scan, const Index& extents, std::vector<Array>& results) {
    auto along = static_cast<size_t>(scan.getAlong());
    unsigned first = static_cast<unsigned>(scan.getStepReads()), count = scan->getNumOperands();
    Index lines = extents;
    lines[along] = std::min<int64_t>(1, extents[along]);
    int64_t all = 1;
    for (int64_t extent : extents) all *= extent;
    for (Array& array : results) array.elements.resize(static_cast<size_t>(all));
    for_every_index(lines, [&](ArrayRef<int64_t> line) {
      Values sums = run(scan.getInit().front(), {}, symbols_);
      Index at(line);
      for (int64_t i = 0; i < extents[along]; ++i) {
        at[along] = scan.getReverse() ? extents[along] - 1 - i : i;
        Index whole = at;
        if (scan.getPlaced()) whole.push_back(sums.front().whole);
        Values in_step = arguments(scan, whole, 0, first), in_finish = arguments(scan, at, first, count);
        llvm::append_range(in_step, sums);
        llvm::append_range(in_finish, sums);
        sums = run(scan.getStep().front(), in_step, symbols_);
        llvm::append_range(in_finish, sums);
        auto linear = static_cast<size_t>(linear_place(at, extents));
        for (auto [array, value] : llvm::zip_equal(results, run(scan.getFinish().front(), in_finish, symbols_)))
          array.elements[linear] = value;
      }
    });
  }

  bool is_there(DomainAttr domain, ArrayRef<int64_t> at) {
    return llvm::all_of(domain.getWithin(), [&](AffineMap bounded) {
      int64_t index = evaluate(bounded.getResult(0), at, symbols_);
      return index >= 0 && index < evaluate(bounded.getResult(1), at, symbols_);
    });
  }

  size_t walks_of_fold() const { return order_ == FoldOrder::straight ? 1 : order_ == FoldOrder::halves ? 2 : 3; }

  // Which of the walks takes the reduced element at this position in their order.
  size_t walk_of(int64_t position, ArrayRef<int64_t> folded) const {
    if (order_ == FoldOrder::interleaved) return static_cast<size_t>(position % 3);
    int64_t all = 1;
    for (int64_t extent : folded) all *= extent;
    return order_ == FoldOrder::halves && position >= all / 2 ? 1 : 0;
  }

  Values merged(FoldOp fold, std::vector<Values> walks) {
    if (order_ == FoldOrder::interleaved) std::reverse(walks.begin(), walks.end());
    Values sums = walks.front();
    for (const Values& more : llvm::drop_begin(walks)) {
      Values both = sums;
      llvm::append_range(both, more);
      sums = run(fold.getMerge().front(), both, symbols_);
    }
    return sums;
  }

  Values accumulated(Operation* op, ArrayRef<int64_t> at, ArrayRef<int64_t> folded) {
    auto for_every_element = [&](auto body) {
      for_every_index(folded, [&](ArrayRef<int64_t> inner) {
        Index index(at);
        llvm::append_range(index, inner);
        if (is_there(domain_of(op), index)) body(ArrayRef<int64_t>(index));
      });
    };
    if (auto fold = llvm::dyn_cast<FoldOp>(op)) {
      std::vector<Values> walks(walks_of_fold(), run(fold.getInit().front(), {}, symbols_));
      int64_t position = 0;
      for_every_element([&](ArrayRef<int64_t> index) {
        Values& sums = walks[walk_of(position++, folded)];
        Values values = arguments(op, index, 0, static_cast<unsigned>(fold.getStepReads()));
        llvm::append_range(values, sums);
        sums = run(fold.getStep().front(), values, symbols_);
      });
      return merged(fold, std::move(walks));
    }
    auto contract = llvm::dyn_cast<ContractOp>(op);
    if (!contract) return {};
    Type type = contract.getAccumulator();
    Scalar sum;
    for_every_element([&](ArrayRef<int64_t> index) {
      Values factors =
          run(contract.getFactors().front(), arguments(op, index, 0, static_cast<unsigned>(contract.getStepReads())), symbols_);
      sum.real += factors[0].real * factors[1].real;
      uint64_t product = static_cast<uint64_t>(factors[0].whole) * static_cast<uint64_t>(factors[1].whole);
      sum.whole = static_cast<int64_t>(static_cast<uint64_t>(sum.whole) + product);
    });
    return {llvm::isa<FloatType>(type) ? sum : wrapped(sum.whole, type)};
  }

  ArrayRef<int64_t> symbols_;
  FoldOrder order_;
  llvm::DenseMap<Value, Array> arrays_;
};

}  // namespace

std::vector<Array> interpret(tx::DispatchOp staged_region, const std::vector<Array>& operands, ArrayRef<int64_t> symbols, FoldOrder order) {
  return Interpreter(staged_region, operands, symbols, order).run_all(staged_region.getBody().front());
}

}  // namespace heddle::stage
