// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every translation needs from its operator: arguments, results, and ops that many of them make.
#include "compiler/import/aten_program.h"

#include <algorithm>
#include <limits>

#include "compiler/import/main_function.h"
#include "compiler/import/onnx_broadcast.h"
#include "compiler/import/onnx_checks.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

std::vector<const Table*> tables() {
  return {&elementwise_ops(), &binary_ops(),  &shape_ops(),    &creation_ops(), &reduction_ops(),
          &linear_ops(),      &pooling_ops(), &indexing_ops(), &scatter_ops(),  &normalization_ops()};
}

// Expressions of symbols, from left to right.
class ExpressionReader {
 public:
  ExpressionReader(StringRef text, MLIRContext* context, llvm::function_ref<AffineExpr(StringRef)> symbol)
      : text_(text), context_(context), symbol_(symbol) {}

  AffineExpr all() {
    AffineExpr value = terms(0);
    return value && text_.trim().empty() ? value : AffineExpr();
  }

 private:
  static constexpr int deepest = 64;

  bool take(StringRef what) {
    text_ = text_.ltrim();
    return text_.consume_front(what);
  }
  AffineExpr terms(int depth) {
    AffineExpr value = factors(depth);
    while (value) {
      if (take("+")) {
        AffineExpr next = factors(depth);
        value = next ? sum(value, next) : AffineExpr();
      } else if (take("-")) {
        AffineExpr next = factors(depth);
        value = next ? difference(value, next) : AffineExpr();
      } else {
        break;
      }
    }
    return value;
  }
  AffineExpr factors(int depth) {
    AffineExpr value = atom(depth);
    while (value) {
      if (take("*")) {
        AffineExpr next = atom(depth);
        value = next ? product(value, next) : AffineExpr();
      } else if (const bool is_quotient = take("floordiv "); is_quotient || take("mod ")) {
        AffineExpr divisor = atom(depth);
        auto known = divisor ? tx::static_extent(divisor) : std::nullopt;
        if (!known || *known < 1) return {};
        AffineExpr whole = quotient(value, *known);
        value = !whole || is_quotient ? whole : difference(value, product(whole, divisor));
      } else {
        break;
      }
    }
    return value;
  }
  AffineExpr atom(int depth) {
    if (depth > deepest) return {};
    if (take("(")) {
      AffineExpr value = terms(depth + 1);
      return value && take(")") ? value : AffineExpr();
    }
    if (take("-")) {
      AffineExpr value = atom(depth + 1);
      return value ? difference(getAffineConstantExpr(0, context_), value) : AffineExpr();
    }
    text_ = text_.ltrim();
    const StringRef word = text_.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    text_ = text_.drop_front(word.size());
    if (word.empty()) return {};
    int64_t number = 0;
    if (!word.getAsInteger(10, number)) return getAffineConstantExpr(number, context_);
    return llvm::isDigit(word.front()) ? AffineExpr() : symbol_(word);
  }

  StringRef text_;
  MLIRContext* context_;
  llvm::function_ref<AffineExpr(StringRef)> symbol_;
};

}  // namespace

AffineExpr read_expression(StringRef text, MLIRContext* context, llvm::function_ref<AffineExpr(StringRef)> symbol) {
  return ExpressionReader(text, context, symbol).all();
}

Translate find_translation(StringRef name) {
  for (const Table* table : tables()) {
    if (auto it = table->find(std::string_view(name.data(), name.size())); it != table->end()) return it->second;
  }
  return nullptr;
}

std::vector<std::string> known_ops() {
  std::vector<std::string> names;
  for (const Table* table : tables()) {
    for (const auto& [name, translate] : *table) names.push_back(name);
  }
  llvm::sort(names);
  return names;
}

// ---------------------------------------------------------------------------------------------------------- program

Type Program::element_type(Type type, const std::string& who) const {
  const auto integer = llvm::dyn_cast<IntegerType>(type);
  const bool is_known = type.isF32() || type.isF64() || type.isF16() || type.isBF16() ||
                        (integer && !integer.isSigned() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth()));
  if (is_known && !type.isUnsignedInteger(1)) return type;
  std::string shown;
  llvm::raw_string_ostream(shown) << type;
  const std::string cause = "element type " + shown + " is not supported";
  throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "aten: importing " + who + " failed: " + cause, cause};
}

AffineExpr Program::expression(Attribute attribute) const {
  if (auto number = llvm::dyn_cast_or_null<IntegerAttr>(attribute)) {
    if (number.getValue().getSignificantBits() > 64) return {};
    return builder.getAffineConstantExpr(number.getValue().getSExtValue());
  }
  auto text = llvm::dyn_cast_or_null<StringAttr>(attribute);
  if (!text) return {};
  return read_expression(text.getValue(), builder.getContext(), [&](StringRef name) {
    auto found = symbols.find(name.str());
    return found == symbols.end() ? AffineExpr() : found->second;
  });
}

Extents Program::stated_extents(RankedTensorType type, Attribute extents, const std::string& who) const {
  auto refuse = [&](const std::string& cause) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "aten: importing " + who + " failed: " + cause, cause};
  };
  auto list = llvm::dyn_cast_or_null<ArrayAttr>(extents);
  if (extents && (!list || static_cast<int64_t>(list.size()) != type.getRank())) refuse("its extents are not a list of its rank");
  Extents all;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    AffineExpr one = list                   ? expression(list[static_cast<size_t>(i)])
                     : type.isDynamicDim(i) ? AffineExpr()
                                            : builder.getAffineConstantExpr(type.getDimSize(i));
    if (!one) refuse("extent " + std::to_string(i) + " is not known; it has to be a number, or an expression of symbols of arguments");
    if (!type.isDynamicDim(i) && tx::static_extent(one) != type.getDimSize(i))
      refuse("extent " + std::to_string(i) + " is stated twice, and differs");
    all.push_back(one);
  }
  if (std::string cause = refuse_extents(all); !cause.empty()) refuse(cause);
  return all;
}

void Program::translate(Operation& source) {
  const StringRef full_name = source.getName().getStringRef();
  std::string name = name_in(source.getLoc());
  if (name.empty()) name = full_name.str();
  Location location = NameLoc::get(builder.getStringAttr(name), NameLoc::get(builder.getStringAttr(full_name)));
  onnx::NodeProto proto;
  proto.set_name(name);
  proto.set_op_type(full_name.str());
  Node node(graph, proto, location);
  Op op(*this, source, location, node);
  op.results_.resize(source.getNumResults());
  Block* block = builder.getInsertionBlock();
  Operation* before = block->empty() ? nullptr : &block->back();
  auto note = [&](const Failure& failure, const std::string& cause) {
    if (failure.code != HEDDLE_STATUS_UNIMPLEMENTED && failure.code != HEDDLE_STATUS_INVALID_ARGUMENT) throw failure;
    unsupported.push_back(op.describe() + ": " + cause);
    graph.expected.clear();
    graph.unsupported.clear();
    for (unsigned i = 0; i < source.getNumResults(); ++i) op.results_[i] = node.splat(op.result_type(i), 0);
  };
  try {
    if (source.getNumRegions() != 0 || source.getNumSuccessors() != 0) op.fail("it has regions or successors");
    Translate translation = find_translation(full_name);
    if (!translation) op.unsupported("the operator is not supported");
    translation(op);
    if (std::string cause = refuse_made(builder, before); !cause.empty()) op.fail(cause);
    if (!graph.unsupported.empty()) {
      const Failure failure = graph.unsupported.front();
      op.unsupported(failure.cause);
    }
    make_checks(node);
    for (unsigned i = 0; i < source.getNumResults(); ++i) {
      Value& made = op.results_[i];
      if (!made && source.getResult(i).use_empty()) continue;
      if (!made) op.fail("result " + std::to_string(i) + " was not made", HEDDLE_STATUS_INTERNAL);
      const RankedTensorType wanted = op.result_type(i);
      const Extents have = Op::extents_of(made), stated = tx::extents(wanted);
      bool fits = Op::element_of(made) == wanted.getElementType() && have.size() == stated.size();
      for (size_t d = 0; fits && d < have.size(); ++d)
        fits = have[d] == stated[d] || graph.symbols.equate(have[d], stated[d], op.describe());
      if (!fits) {
        std::string shown;
        llvm::raw_string_ostream(shown) << wanted << ", and its operands give " << made.getType();
        op.fail("result " + std::to_string(i) + " is declared as " + shown);
      }
      if (have != stated) made = node.reshape(made, stated);
    }
  } catch (const Failure& failure) {
    note(failure, failure.cause.empty() ? failure.message : failure.cause);
  }
  for (unsigned i = 0; i < source.getNumResults(); ++i) values[source.getResult(i)] = op.results_[i];
}

// ---------------------------------------------------------------------------------------------------------- op

std::string Op::describe() const {
  const std::string where = name_in(source_.getLoc());
  return "'" + name() + "'" + (where.empty() ? "" : " at '" + where + "'");
}

void Op::fail(const std::string& cause, heddle_status_code_t code) const {
  throw Failure{code, "aten: importing " + describe() + " failed: " + cause, cause};
}

Value Op::optional(StringRef name) const {
  auto names = llvm::dyn_cast_or_null<ArrayAttr>(source_.getAttr("operands"));
  if (!names || names.size() != source_.getNumOperands())
    fail("attribute 'operands' does not have the names of its " + std::to_string(source_.getNumOperands()) + " operands");
  for (auto [i, one] : llvm::enumerate(names)) {
    auto text = llvm::dyn_cast<StringAttr>(one);
    if (!text || text.getValue() != name) continue;
    auto found = program.values.find(source_.getOperand(static_cast<unsigned>(i)));
    if (found == program.values.end() || !found->second) fail("operand '" + name.str() + "' is a value that is not known here");
    return found->second;
  }
  return {};
}

bool Op::has(StringRef name) const {
  return optional(name) || attribute(name);
}

Value Op::tensor(StringRef name) const {
  Value value = optional(name);
  if (!value) fail("operand '" + name.str() + "' is missing");
  return value;
}

SmallVector<Value> Op::tensors(StringRef name) const {
  SmallVector<Value> all;
  const std::string prefix = name.str() + ".";
  auto names = llvm::dyn_cast_or_null<ArrayAttr>(source_.getAttr("operands"));
  if (!names) fail("attribute 'operands' is missing");
  for (Attribute one : names) {
    auto text = llvm::dyn_cast<StringAttr>(one);
    unsigned index = 0;
    if (!text || !text.getValue().starts_with(prefix) || text.getValue().drop_front(prefix.size()).getAsInteger(10, index)) continue;
    if (index > 1 << 16) fail("operand '" + text.getValue().str() + "' has too large an index");
    if (all.size() <= index) all.resize(index + 1);
    all[index] = tensor(text.getValue());
  }
  return all;
}

Term Op::term(StringRef name) const {
  if (Value value = optional(name)) return {value, {}};
  Attribute found = attribute(name);
  if (!llvm::isa_and_nonnull<BoolAttr, IntegerAttr, FloatAttr>(found)) {
    if (llvm::isa_and_nonnull<StringAttr>(found)) {  // an expression of symbols is a tensor of rank 0
      AffineExpr value = program.expression(found);
      if (!value) fail("attribute '" + name.str() + "' is not an expression of known symbols");
      if (auto known = tx::static_extent(value)) return {{}, builder.getI64IntegerAttr(*known)};
      return {node.extent_value(value), {}};
    }
    fail("argument '" + name.str() + "' is missing");
  }
  return {{}, found};
}

double Op::number(StringRef name, std::optional<double> otherwise) const {
  Attribute found = attribute(name);
  if (!found && otherwise) return *otherwise;
  if (auto value = llvm::dyn_cast_or_null<FloatAttr>(found)) return value.getValueAsDouble();
  if (auto value = llvm::dyn_cast_or_null<BoolAttr>(found)) return value.getValue() ? 1 : 0;
  if (auto value = llvm::dyn_cast_or_null<IntegerAttr>(found); value && value.getValue().getSignificantBits() <= 64)
    return static_cast<double>(value.getValue().getSExtValue());
  fail("argument '" + name.str() + "' must be a number");
}

int64_t Op::integer(StringRef name, std::optional<int64_t> otherwise) const {
  Attribute found = attribute(name);
  if (!found && otherwise) return *otherwise;
  if (auto value = llvm::dyn_cast_or_null<BoolAttr>(found)) return value.getValue() ? 1 : 0;
  if (auto value = llvm::dyn_cast_or_null<IntegerAttr>(found); value && value.getValue().getSignificantBits() <= 64)
    return value.getValue().getSExtValue();
  if (llvm::isa_and_nonnull<StringAttr>(found)) unsupported("argument '" + name.str() + "' depends on a symbol");
  fail("argument '" + name.str() + "' must be an integer");
}

bool Op::flag(StringRef name, bool otherwise) const {
  Attribute found = attribute(name);
  if (!found) return otherwise;
  auto value = llvm::dyn_cast<BoolAttr>(found);
  if (!value) fail("argument '" + name.str() + "' must be a bool");
  return value.getValue();
}

std::string Op::word(StringRef name, const std::string& otherwise) const {
  Attribute found = attribute(name);
  if (!found) return otherwise;
  auto value = llvm::dyn_cast<StringAttr>(found);
  if (!value) fail("argument '" + name.str() + "' must be a text");
  return value.getValue().str();
}

std::vector<AffineExpr> Op::expressions(StringRef name) const {
  auto list = llvm::dyn_cast_or_null<ArrayAttr>(attribute(name));
  if (!list) fail("argument '" + name.str() + "' must be a list of integers");
  std::vector<AffineExpr> all;
  for (Attribute one : list) {
    all.push_back(program.expression(one));
    if (!all.back()) fail("argument '" + name.str() + "' must be a list of integers and of expressions of known symbols");
  }
  return all;
}

AffineExpr Op::expression(StringRef name, std::optional<int64_t> otherwise) const {
  Attribute found = attribute(name);
  if (!found && otherwise) return constant(*otherwise);
  AffineExpr value = program.expression(found);
  if (!value) fail("argument '" + name.str() + "' must be an integer, or an expression of known symbols");
  return value;
}

std::vector<int64_t> Op::integers(StringRef name, std::optional<std::vector<int64_t>> otherwise) const {
  if (!attribute(name) && otherwise) return *otherwise;
  if (llvm::isa_and_nonnull<IntegerAttr>(attribute(name))) return {integer(name)};
  std::vector<int64_t> all;
  for (AffineExpr one : expressions(name)) {
    auto known = tx::static_extent(one);
    if (!known) unsupported("argument '" + name.str() + "' depends on a symbol");
    all.push_back(*known);
  }
  return all;
}

int64_t Op::dimension(int64_t given, int64_t rank) const {
  rank = std::max<int64_t>(rank, 1);
  if (given < -rank || given >= rank) fail("dimension " + std::to_string(given) + " is outside of rank " + std::to_string(rank));
  return given < 0 ? given + rank : given;
}

SmallVector<int64_t> Op::dimensions(StringRef name, int64_t rank, bool empty_is_all) const {
  SmallVector<int64_t> all;
  const bool is_given = attribute(name) != nullptr;
  if (is_given) {
    for (int64_t one : integers(name)) all.push_back(dimension(one, rank));
  }
  if (rank == 0) return {};
  if (all.empty() && (empty_is_all || !is_given)) {
    for (int64_t i = 0; i < rank; ++i) all.push_back(i);
  }
  llvm::sort(all);
  if (std::adjacent_find(all.begin(), all.end()) != all.end()) fail("argument '" + name.str() + "' has a dimension twice");
  return all;
}

Extents Op::result_extents(unsigned index) const {
  if (index >= source_.getNumResults()) fail("result " + std::to_string(index) + " is missing");
  auto type = llvm::dyn_cast<RankedTensorType>(source_.getResult(index).getType());
  if (!type) fail("result " + std::to_string(index) + " is not a tensor with a rank");
  auto all = llvm::dyn_cast_or_null<ArrayAttr>(source_.getAttr("extents"));
  if (all && all.size() != source_.getNumResults()) fail("attribute 'extents' does not have one list for each result");
  return program.stated_extents(type, all ? all[index] : Attribute(), describe());
}

Type Op::result_element(unsigned index) const {
  if (index >= source_.getNumResults()) fail("result " + std::to_string(index) + " is missing");
  auto type = llvm::dyn_cast<RankedTensorType>(source_.getResult(index).getType());
  if (!type) fail("result " + std::to_string(index) + " is not a tensor with a rank");
  return program.element_type(type.getElementType(), describe());
}

void Op::set(Value value, unsigned index) {
  if (index >= results_.size()) return;
  results_[index] = converted(value, result_element(index));
}

int64_t Op::extent(Value value, int64_t dimension) const {
  if (dimension < 0 || dimension >= rank_of(value)) fail("dimension " + std::to_string(dimension) + " is outside of its operand");
  if (type_of(value).isDynamicDim(dimension)) unsupported("dimension " + std::to_string(dimension) + " of an operand is not static");
  return type_of(value).getDimSize(dimension);
}

Value Op::is_true(Value value) {
  if (element_of(value).isInteger(1)) return value;
  return m.compare(tx::CompareKind::ne, value, m.number(value, 0));
}

Value Op::negated(Value value) {
  return m.compare(tx::CompareKind::eq, value, m.number(value, 0));
}

Value Op::converted(Value value, Type element) {
  const Type from = element_of(value);
  if (from == element) return value;
  if (element.isInteger(1)) return is_true(value);
  return node.converted(value, element);
}

Value Op::computing(Value value) {
  const Type own = element_of(value);
  if (own.isF64() || own.isF32()) return value;
  const bool is_wide = source_.getNumResults() > 0 && result_element().isF64();
  return converted(value, is_wide ? result_element() : Type(builder.getF32Type()));
}

namespace {

int category_of(Type type) {
  return llvm::isa<FloatType>(type) ? 2 : type.isInteger(1) ? 0 : 1;
}

Type joined(Type a, Type b) {
  if (!a || a == b) return b;
  const int of_a = category_of(a), of_b = category_of(b);
  if (of_a != of_b) return of_a > of_b ? a : b;
  const unsigned wide_a = a.getIntOrFloatBitWidth(), wide_b = b.getIntOrFloatBitWidth();
  if (of_a == 2 && wide_a == wide_b) return Float32Type::get(a.getContext());  // f16 and bf16
  if (of_a == 1 && a.isUnsignedInteger() != b.isUnsignedInteger()) {
    const unsigned of_unsigned = a.isUnsignedInteger() ? wide_a : wide_b, of_signed = a.isUnsignedInteger() ? wide_b : wide_a;
    return IntegerType::get(a.getContext(), of_unsigned < of_signed ? of_signed : std::min(64u, 2 * of_unsigned));
  }
  return wide_a >= wide_b ? a : b;
}

}  // namespace

Type Op::promoted(ArrayRef<Term> terms) const {
  Type by_rank, of_zero_rank, of_numbers;
  for (const Term& term : terms) {
    if (term.value) {
      Type& kind = rank_of(term.value) > 0 ? by_rank : of_zero_rank;
      kind = joined(kind, element_of(term.value));
    } else if (llvm::isa<BoolAttr>(term.number)) {
      of_numbers = joined(of_numbers, builder.getI1Type());
    } else {
      const bool is_whole = llvm::isa<IntegerAttr>(term.number);
      of_numbers = joined(of_numbers, is_whole ? Type(builder.getI64Type()) : Type(builder.getF32Type()));
    }
  }
  Type all = by_rank;
  for (Type next : {of_zero_rank, of_numbers}) {
    if (next && (!all || category_of(next) > category_of(all))) all = next;
  }
  return all;
}

Value Op::value_of(const Term& term, Type element) {
  if (term.value) return converted(term.value, element);
  auto type = RankedTensorType::get({}, element);
  Attribute value;
  if (auto number = llvm::dyn_cast<FloatAttr>(term.number)) {
    const double given = number.getValueAsDouble();
    if (is_float(element)) {
      value = builder.getFloatAttr(element, given);
    } else if (element.isInteger(1)) {
      value = builder.getBoolAttr(given != 0);
    } else {
      if (!(given >= -0x1p63 && given < 0x1p63)) fail("number " + std::to_string(given) + " does not fit integer elements");
      value = builder.getIntegerAttr(element, static_cast<int64_t>(given));
    }
  } else {
    const APInt given = llvm::isa<BoolAttr>(term.number) ? APInt(64, llvm::cast<BoolAttr>(term.number).getValue() ? 1 : 0)
                                                         : llvm::cast<IntegerAttr>(term.number).getValue().sextOrTrunc(64);
    if (is_float(element)) {
      value = builder.getFloatAttr(element, static_cast<double>(given.getSExtValue()));
    } else if (element.isInteger(1)) {
      value = builder.getBoolAttr(!given.isZero());
    } else {
      value = builder.getIntegerAttr(element, given.trunc(element.getIntOrFloatBitWidth()));
    }
  }
  return make<tx::ConstantOp>(type, DenseElementsAttr::get(type, value));
}

SmallVector<Value> Op::alike(ArrayRef<Term> terms, Type element) {
  SmallVector<Value> values;
  SmallVector<Extents> all;
  for (const Term& term : terms) {
    values.push_back(value_of(term, element));
    all.push_back(extents_of(values.back()));
  }
  const Extents common = common_extents(node, all);
  for (Value& value : values) value = node.broadcast(value, common);
  return values;
}

Value Op::reduced(tx::ReduceKind kind, Value value, ArrayRef<int64_t> axes, bool keep) {
  Value whole = m.reduce(kind, value, axes);
  return keep ? whole : without(whole, axes);
}

Value Op::without(Value value, ArrayRef<int64_t> axes) {
  Extents left;
  for (auto [i, extent] : llvm::enumerate(extents_of(value))) {
    if (!llvm::is_contained(axes, static_cast<int64_t>(i))) left.push_back(extent);
  }
  return node.reshape(value, left);
}

Operand Op::known(ArrayRef<AffineExpr> values, int64_t rank) {
  return {{}, std::vector<AffineExpr>(values.begin(), values.end()), rank};
}

Operand Op::known(ArrayRef<int64_t> values, int64_t rank) const {
  std::vector<AffineExpr> all;
  for (int64_t value : values) all.push_back(constant(value));
  return known(ArrayRef<AffineExpr>(all), rank);
}

Value Op::slice(Value value, int64_t dimension, AffineExpr start, AffineExpr end, int64_t step) {
  const AffineExpr whole = extents_of(value)[static_cast<size_t>(dimension)];
  const bool is_from_start = tx::static_extent(start) == 0;
  auto last = tx::static_extent(end);
  if (step == 1 && is_from_start && (end == whole || (last && *last >= largest_extent))) return value;
  return by_onnx("Slice",
                 {Operand{value, {}, 0}, known({start}), known({end}), known(ArrayRef<int64_t>{dimension}), known(ArrayRef<int64_t>{step})})
      .front();
}

Value Op::part(Value value, int64_t dimension, int64_t start, AffineExpr count) {
  Extents extents = extents_of(value);
  AffineExpr& extent = extents[static_cast<size_t>(dimension)];
  if (start == 0 && extent == count) return value;
  if (!program.graph.symbols.require(extent, node.computed(sum(count, constant(start))), describe()))
    fail("dimension " + std::to_string(dimension) + " has too few elements");
  const bool is_static = tx::static_extent(extent) && tx::static_extent(count);
  extent = count;
  const RankedTensorType type = node.tensor_type(extents, element_of(value));
  if (is_static) {
    SmallVector<int64_t> starts(extents.size(), 0), steps(extents.size(), 1);
    starts[static_cast<size_t>(dimension)] = start;
    return make<tx::SliceOp>(type, value, starts, steps);
  }
  Value places = m.iota({count}, 0, builder.getI64Type());
  if (start != 0) places = m.add(places, m.number(places, static_cast<double>(start)));
  return make<tx::GatherOp>(type, value, places, dimension);
}

std::vector<Value> Op::by_onnx(const std::string& type, ArrayRef<Operand> inputs, int outputs,
                               llvm::function_ref<void(onnx::NodeProto&)> attributes) {
  return call_operator(program.graph, location_, node.describe(), type, inputs, outputs, attributes);
}

Value Op::one_by_onnx(const std::string& type, ArrayRef<Value> inputs) {
  SmallVector<Operand> operands;
  for (Value input : inputs) operands.push_back(Operand{input, {}, 0});
  return by_onnx(type, operands).front();
}

}  // namespace heddle::import::aten
