// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every translation needs from its op: operands, attributes, results; blocks and functions in the order of their ops.
#include "compiler/import/stablehlo_program.h"

#include "compiler/import/main_function.h"
#include "compiler/import/onnx_narrow.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

// Functions are translated again for each call, so that a small file may ask for any number of ops.
constexpr int64_t most_ops = int64_t{1} << 19;
constexpr int most_depth = 256;

std::vector<const Table*> tables() {
  return {&elementwise_ops(), &bit_ops(),     &shape_ops(),          &contraction_ops(), &reduction_ops(), &indexing_ops(),
          &control_ops(),     &dynamic_ops(), &linear_algebra_ops(), &random_ops(),      &batch_norm_ops()};
}

}  // namespace

const Entry* find_entry(StringRef name) {
  for (const Table* table : tables()) {
    if (auto it = table->find(std::string_view(name.data(), name.size())); it != table->end()) return &it->second;
  }
  return nullptr;
}

std::string text_of(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

// ---------------------------------------------------------------------------------------------------------- program

Type Program::element_type(Type type, const std::string& who) const {
  if (auto complex = llvm::dyn_cast<ComplexType>(type)) type = complex.getElementType();
  auto narrow = [&](StringRef name) -> Type { return tx::NarrowType::get(type.getContext(), name); };
  if (type.isFloat8E4M3FN()) return narrow("f8e4m3");
  if (type.isFloat8E4M3FNUZ()) return narrow("f8e4m3fnuz");
  if (type.isFloat8E5M2()) return narrow("f8e5m2");
  if (type.isFloat8E5M2FNUZ()) return narrow("f8e5m2fnuz");
  if (type.isInteger(4)) return narrow(type.isUnsignedInteger() ? "u4" : "i4");
  if (type.isInteger(2)) return narrow(type.isUnsignedInteger() ? "u2" : "i2");
  const auto integer = llvm::dyn_cast<IntegerType>(type);
  const bool is_known = type.isF32() || type.isF64() || type.isF16() || type.isBF16() ||
                        (integer && !integer.isSigned() && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth()));
  if (!is_known || type.isUnsignedInteger(1)) {
    const std::string cause = "element type " + text_of(type) + " is not supported";
    throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "stablehlo: importing " + who + " failed: " + cause, cause};
  }
  return type;
}

namespace {

Attribute attribute_of(Operation& op, StringRef name) {
  if (Attribute found = op.getDiscardableAttr(name)) return found;
  if (auto properties = llvm::dyn_cast_or_null<DictionaryAttr>(op.getPropertiesAsAttribute())) return properties.get(name);
  return {};
}

}  // namespace

std::vector<Data> Program::translate(Block& block, ArrayRef<Data> arguments, Scope& scope) {
  llvm::SaveAndRestore<int> depth(depth_, depth_ + 1);
  if (depth_ > most_depth) {
    throw Failure{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "stablehlo: importing '" + graph.file->path +
                                                        "' failed: calls and regions are nested above " + std::to_string(most_depth) +
                                                        " deep; take functions out of each other"};
  }
  if (block.getNumArguments() != arguments.size()) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "stablehlo: importing '" + graph.file->path + "' failed: a block with " +
                                                      std::to_string(block.getNumArguments()) + " arguments is given " +
                                                      std::to_string(arguments.size())};
  }
  for (auto [argument, data] : llvm::zip(block.getArguments(), arguments)) scope.values[argument] = data;
  if (block.empty())
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "stablehlo: importing '" + graph.file->path + "' failed: a block is empty"};
  for (Operation& op : block) {
    if (&op != &block.back()) translate_op(op, scope);
  }
  Operation& end = block.back();
  onnx::NodeProto proto;
  Node node(graph, proto, end.getLoc());
  Op terminator(*this, end, scope, end.getLoc(), node);
  const StringRef name = end.getName().getStringRef();
  if (name != "stablehlo.return" && name != "func.return" && name != "mhlo.return")
    terminator.fail("a block ends with it, and has to end with stablehlo.return or func.return");
  std::vector<Data> results;
  for (unsigned i = 0; i < end.getNumOperands(); ++i) results.push_back(terminator.data(i));
  return results;
}

std::vector<Data> Program::call(const Op& from, StringRef name, ArrayRef<Data> arguments) {
  auto function = functions_.lookup<func::FuncOp>(name);
  if (!function || function.isExternal()) from.fail("it calls '" + name.str() + "', which is no function with a body");
  if (!function.getBody().hasOneBlock()) from.unsupported("it calls '" + name.str() + "', whose body has several blocks");
  if (function.getNumArguments() != arguments.size() || function.getNumResults() != from.source().getNumResults())
    from.fail("it calls '" + name.str() + "' with other numbers of arguments and results than that function has");
  std::string way;
  for (const std::string& caller : calls_) way += caller == name || !way.empty() ? caller + " calls " : "";
  if (!way.empty()) from.fail("function '" + name.str() + "' calls itself: " + way + name.str() + "; functions must not be recursive");
  calls_.push_back(name.str());
  auto done = llvm::make_scope_exit([&] { calls_.pop_back(); });
  Scope scope;
  scope.lead.assign(from.lead().begin(), from.lead().end());
  return translate(function.getBody().front(), arguments, scope);
}

std::vector<Data> Program::apply(const Op& from, Region& region, ArrayRef<Data> arguments, ArrayRef<AffineExpr> lead) {
  if (!region.hasOneBlock()) from.fail("its region has no block, or several");
  Scope scope;
  scope.outside = &from.scope();
  scope.lead.assign(from.lead().begin(), from.lead().end());
  scope.lead.append(lead.begin(), lead.end());
  return translate(region.front(), arguments, scope);
}

void Program::check_made(Op& op, Operation* before) {
  if (std::string cause = refuse_made(builder, before); !cause.empty()) op.fail(cause);
}

int64_t Program::count_ops(func::FuncOp function, llvm::DenseMap<Operation*, int64_t>& known, int depth) const {
  if (auto found = known.find(function); found != known.end()) return found->second;
  known[function] = 0;  // recursion is found when the calls are translated
  int64_t count = 0;
  if (depth > most_depth) return count;
  function.walk([&](Operation* op) {
    if (op == function.getOperation() || op->hasTrait<OpTrait::IsTerminator>()) return;
    ++count;
    const StringRef name = op->getName().getStringRef();
    if (name != "func.call" && name != "stablehlo.composite") return;
    auto callee = llvm::dyn_cast_or_null<FlatSymbolRefAttr>(attribute_of(*op, name == "func.call" ? "callee" : "decomposition"));
    func::FuncOp called = callee ? functions_.lookup<func::FuncOp>(callee.getValue()) : func::FuncOp();
    if (called) count = std::min(count + count_ops(called, known, depth + 1), most_ops + 1);
  });
  return known[function] = count;
}

void Program::check_size(func::FuncOp entry) const {
  llvm::DenseMap<Operation*, int64_t> known;
  if (count_ops(entry, known, 1) > most_ops) refuse_size();
}

void Program::refuse_size() const {
  throw Failure{HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                "stablehlo: importing '" + graph.file->path + "' failed: with each function in place of its calls, it has above " +
                    std::to_string(most_ops) + " ops; split the program, or let functions call fewer others"};
}

void Program::translate_op(Operation& source, Scope& scope) {
  if (++translated_ > most_ops) refuse_size();
  StringRef short_name = source.getName().getStringRef();
  std::string name = name_in(source.getLoc());
  if (name.empty()) name = source.getName().stripDialect().str() + "#" + std::to_string(translated_);
  Location location = NameLoc::get(builder.getStringAttr(name), NameLoc::get(builder.getStringAttr(source.getName().stripDialect())));
  onnx::NodeProto proto;
  proto.set_name(name);
  proto.set_op_type(short_name.str());
  Node node(graph, proto, location);
  Op op(*this, source, scope, location, node);
  op.results_.resize(source.getNumResults());
  const Entry* entry = find_entry(short_name);
  if (!entry) op.unsupported("the op is not supported");
  if (!scope.lead.empty() && !(entry->can & kEach))
    op.unsupported("it is in a region that is applied to each element of tensors, in which only element-wise ops are supported");
  if (source.getNumSuccessors() != 0) op.fail("it has successors");
  Block* block = builder.getInsertionBlock();
  Operation* before = block->empty() ? nullptr : &block->back();
  try {
    bool is_complex = false;
    for (unsigned i = 0; i < op.input_count(); ++i) {
      op.inputs_.push_back(op.data(i));
      is_complex |= op.inputs_.back().is_complex();
    }
    for (Type type : source.getResultTypes()) {
      auto tensor = llvm::dyn_cast<RankedTensorType>(type);
      is_complex |= tensor && llvm::isa<ComplexType>(tensor.getElementType());
    }
    if (scope.lead.empty() && fold_extents(op)) {
    } else if (is_complex && (entry->can & kByParts)) {
      for (op.part_ = 0; op.part_ < 2; ++op.part_) entry->translate(op);
    } else if (is_complex && !(entry->can & kComplex)) {
      op.unsupported("it is not supported for complex numbers");
    } else {
      entry->translate(op);
    }
    check_made(op, before);
  } catch (const Failure& failure) {
    if (!StringRef(failure.message).starts_with("onnx: ") || failure.cause.empty()) throw;
    op.fail(failure.cause, failure.code);
  }
  graph.expected.clear();
  if (!graph.unsupported.empty()) {
    const Failure failure = graph.unsupported.front();
    graph.unsupported.clear();
    op.fail(failure.cause, HEDDLE_STATUS_UNIMPLEMENTED);
  }
  for (unsigned i = 0; i < source.getNumResults(); ++i) {
    Data& data = op.results_[i];
    auto declared = llvm::dyn_cast<RankedTensorType>(source.getResult(i).getType());
    if (declared) {
      const Type element = element_type(declared.getElementType(), op.describe());
      const size_t wanted = llvm::isa<ComplexType>(declared.getElementType()) ? 2 : 1;
      if (data.parts.size() != wanted && !(data.parts.empty() && data.elements))
        op.fail("result " + std::to_string(i) + " is declared as " + text_of(declared) + ", which is not what this op gives");
      for (Value& part : data.parts) {
        Extents extents = Op::extents_of(part), stated(scope.lead.begin(), scope.lead.end());
        bool fits = tx::element_of(part) == element && extents.size() == scope.lead.size() + static_cast<size_t>(declared.getRank());
        for (int64_t d = 0; fits && d < declared.getRank(); ++d) {
          AffineExpr own = extents[scope.lead.size() + static_cast<size_t>(d)];
          stated.push_back(declared.isDynamicDim(d) ? own : builder.getAffineConstantExpr(declared.getDimSize(d)));
          fits = own == stated.back() || graph.symbols.equate(own, stated.back(), op.describe());
        }
        if (!fits)
          op.fail("result " + std::to_string(i) + " is declared as " + text_of(declared) + ", and its operands give " +
                  text_of(part.getType()));
        if (extents != stated) part = node.reshape(part, stated);
      }
    }
    scope.values[source.getResult(i)] = std::move(data);
  }
}

// ---------------------------------------------------------------------------------------------------------- op

std::string Op::describe() const {
  const std::string where = describe_location(source_.getLoc());
  return "'" + name() + "'" + (where.empty() ? "" : " at " + where);
}

void Op::fail(const std::string& cause, heddle_status_code_t code) const {
  throw Failure{code, "stablehlo: importing " + describe() + " failed: " + cause, cause};
}

const Data& Op::data(unsigned index) const {
  if (index < inputs_.size()) return inputs_[index];
  if (index >= source_.getNumOperands()) fail("operand " + std::to_string(index) + " is missing");
  const Value value = source_.getOperand(index);
  for (const Scope* scope = &scope_; scope; scope = scope->outside) {
    auto found = scope->values.find(value);
    if (found == scope->values.end()) continue;
    if (scope->lead.size() == scope_.lead.size()) return found->second;
    // From outside of a block that is applied to each element: the same for all of them.
    Data spread = found->second;
    if (spread.parts.empty() && spread.elements)
      spread.parts.push_back(const_cast<Op*>(this)->node.value_of({{}, spread.elements, spread.rank}));
    spread.elements.reset();
    for (Value& part : spread.parts) {
      Extents own = extents_of(part), to(scope_.lead.begin(), scope_.lead.end());
      SmallVector<int64_t> dimensions;
      for (size_t i = 0; i < own.size(); ++i) {
        const bool is_lead = i < scope->lead.size();
        dimensions.push_back(static_cast<int64_t>(is_lead ? i : to.size()));
        if (!is_lead) to.push_back(own[i]);
      }
      part = const_cast<Op*>(this)->broadcast(part, to, dimensions);
    }
    return scope_.values[value] = std::move(spread);
  }
  fail("operand " + std::to_string(index) + " is a value that is not known here");
}

Value Op::input(unsigned index) {
  const Data& found = data(index);
  auto type = llvm::dyn_cast<RankedTensorType>(source_.getOperand(index).getType());
  if (!type || found.tuple) fail("operand " + std::to_string(index) + " is not a tensor");
  Value value;
  if (found.parts.empty()) {
    if (!found.elements) fail("operand " + std::to_string(index) + " is not a tensor");
    const Type element = program.element_type(type.getElementType(), describe());
    Operand operand{{}, found.elements, found.rank};
    if (element.isInteger(1)) operand.bits = 1;
    value = node.converted(node.value_of(operand), element);
  } else {
    value = found.parts[found.is_complex() ? static_cast<size_t>(part_) : 0];
  }
  const Entry* entry = find_entry(name());
  return entry && (entry->can & (kNarrow | kByParts)) ? value : widened(value);
}

int64_t Op::extent(Value value, int64_t dimension) const {
  if (dimension < 0 || dimension >= rank_of(value))
    fail("dimension " + std::to_string(dimension) + " is outside of rank " + std::to_string(rank_of(value)));
  if (type_of(value).isDynamicDim(dimension)) unsupported("dimension " + std::to_string(dimension) + " of an operand is not static");
  return type_of(value).getDimSize(dimension);
}

std::vector<int64_t> Op::static_extents(Value value) const {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < rank_of(value); ++i) all.push_back(extent(value, i));
  return all;
}

std::optional<std::vector<int64_t>> Op::known_integers(unsigned index) const {
  const Data& found = data(index);
  if (!found.elements) return {};
  std::vector<int64_t> values;
  for (AffineExpr element : *found.elements) {
    auto known = tx::static_extent(element);
    if (!known) return {};
    values.push_back(*known);
  }
  return values;
}

void Op::expect(unsigned operands, unsigned results, unsigned regions) const {
  if (source_.getNumOperands() == operands && source_.getNumResults() == results && source_.getNumRegions() == regions) return;
  fail("it has " + std::to_string(source_.getNumOperands()) + " operands, " + std::to_string(source_.getNumResults()) + " results and " +
       std::to_string(source_.getNumRegions()) + " regions, and needs " + std::to_string(operands) + ", " + std::to_string(results) +
       " and " + std::to_string(regions));
}

Attribute Op::attribute(StringRef name) const {
  return attribute_of(source_, name);
}

int64_t Op::integer(StringRef name, std::optional<int64_t> otherwise) const {
  Attribute found = attribute(name);
  if (!found && otherwise) return *otherwise;
  if (auto number = llvm::dyn_cast_or_null<IntegerAttr>(found); number && number.getValue().getSignificantBits() <= 64)
    return number.getType().isUnsignedInteger() ? static_cast<int64_t>(number.getValue().getZExtValue()) : number.getValue().getSExtValue();
  fail("attribute '" + name.str() + "' must be an integer");
}

std::vector<int64_t> Op::integers(StringRef name, std::optional<std::vector<int64_t>> otherwise) const {
  Attribute found = attribute(name);
  if (!found && otherwise) return *otherwise;
  if (auto list = llvm::dyn_cast_or_null<DenseI64ArrayAttr>(found)) return {list.asArrayRef().begin(), list.asArrayRef().end()};
  if (auto list = llvm::dyn_cast_or_null<DenseBoolArrayAttr>(found)) return {list.asArrayRef().begin(), list.asArrayRef().end()};
  auto elements = llvm::dyn_cast_or_null<DenseIntElementsAttr>(found);
  constexpr int64_t most = int64_t{1} << 16;
  if (!elements || elements.getNumElements() > most || elements.getElementType().getIntOrFloatBitWidth() > 64)
    fail("attribute '" + name.str() + "' must be a list of integers");
  const bool is_bool = elements.getElementType().isInteger(1);
  std::vector<int64_t> values;
  for (const APInt& value : elements.getValues<APInt>())
    values.push_back(is_bool ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue());
  return values;
}

std::string Op::word(StringRef name, const std::string& otherwise) const {
  Attribute found = attribute(name);
  if (!found) return otherwise;
  std::string word = word_of(found);
  if (word.empty()) fail("attribute '" + name.str() + "' is not one of an enumeration");
  return word;
}

bool Op::flag(StringRef name) const {
  Attribute found = attribute(name);
  if (!found) return false;
  if (llvm::isa<UnitAttr>(found)) return true;
  auto value = llvm::dyn_cast<BoolAttr>(found);
  if (!value) fail("attribute '" + name.str() + "' must be a bool");
  return value.getValue();
}

Type Op::result_element(unsigned index) const {
  if (index >= source_.getNumResults()) fail("result " + std::to_string(index) + " is missing");
  auto type = llvm::dyn_cast<RankedTensorType>(source_.getResult(index).getType());
  if (!type) fail("result " + std::to_string(index) + " is not a tensor with a rank");
  return program.element_type(type.getElementType(), describe());
}

RankedTensorType Op::result_type(unsigned index, Value like) const {
  const Type element = result_element(index);
  auto type = llvm::cast<RankedTensorType>(source_.getResult(index).getType());
  Extents extents(scope_.lead.begin(), scope_.lead.end());
  const bool fits = like && rank_of(like) == static_cast<int64_t>(extents.size()) + type.getRank();
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (!type.isDynamicDim(i)) {
      extents.push_back(builder.getAffineConstantExpr(type.getDimSize(i)));
    } else if (fits) {
      extents.push_back(extents_of(like)[extents.size()]);
    } else {
      unsupported("dimension " + std::to_string(i) + " of its result is not static");
    }
  }
  return node.tensor_type(extents, element);
}

void Op::set_result(Value value, unsigned index) {
  if (index >= results_.size()) fail("result " + std::to_string(index) + " is missing");
  const Type element = result_element(index);
  if (tx::narrow_format(element) && tx::element_of(value) != element) value = converted(value, element);
  Data& data = results_[index];
  if (part_ == 0) data = {};
  data.parts.push_back(value);
}

void Op::set_data(Data data, unsigned index) {
  if (index >= results_.size()) fail("result " + std::to_string(index) + " is missing");
  results_[index] = std::move(data);
}

void Op::set_elements(std::vector<AffineExpr> elements, int64_t rank, unsigned index) {
  Data data;
  data.elements = std::move(elements);
  data.rank = rank;
  set_data(std::move(data), index);
}

Value Op::converted(Value value, Type element) {
  const Type from = tx::element_of(value);
  if (from == element) return value;
  if (tx::narrow_format(from) || tx::narrow_format(element)) return cast_narrow(node, value, element, {/*saturate=*/false, "nearest"});
  return node.converted(value, element);
}

Value Op::widened(Value value) {
  return import::widened(node, value);
}

Type Op::widened_type(Type element) const {
  const tx::NarrowFormat* narrow = tx::narrow_format(element);
  if (!narrow) return element;
  return narrow->is_float() ? Type(builder.getF32Type()) : Type(tx::stored_type(*narrow, builder.getContext()));
}

Value Op::reshape(Value value, ArrayRef<int64_t> extents) {
  Extents expressions;
  for (int64_t extent : extents) expressions.push_back(builder.getAffineConstantExpr(extent));
  return node.reshape(value, expressions);
}

Value Op::broadcast(Value value, ArrayRef<AffineExpr> extents, ArrayRef<int64_t> dimensions) {
  return builder.createOrFold<tx::BroadcastOp>(location_, node.tensor_type(extents, tx::element_of(value)), value, dimensions);
}

Value Op::broadcast(Value value, ArrayRef<int64_t> extents, ArrayRef<int64_t> dimensions) {
  Extents expressions;
  for (int64_t extent : extents) expressions.push_back(builder.getAffineConstantExpr(extent));
  return broadcast(value, expressions, dimensions);
}

Value Op::slice(Value value, int64_t dimension, int64_t start, int64_t limit, int64_t stride) {
  Extents extents = extents_of(value);
  const int64_t count = stride > 0 ? std::max<int64_t>(0, (limit - start + stride - 1) / stride)
                                   : std::max<int64_t>(0, (start - limit - stride - 1) / -stride);
  extents[static_cast<size_t>(dimension)] = builder.getAffineConstantExpr(count);
  SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
  starts[static_cast<size_t>(dimension)] = count == 0 ? 0 : start;
  strides[static_cast<size_t>(dimension)] = count <= 1 ? 1 : stride;
  return builder.createOrFold<tx::SliceOp>(location_, node.tensor_type(extents, tx::element_of(value)), value, starts, strides);
}

Value Op::concat(ArrayRef<Value> values, int64_t dimension) {
  return node.concatenated(SmallVector<Value>(values), dimension);
}

Value Op::iota(ArrayRef<int64_t> extents, int64_t dimension, Type element) {
  return make<tx::IotaOp>(RankedTensorType::get(extents, element), builder.getI64IntegerAttr(dimension));
}

Value Op::integers_constant(ArrayRef<int64_t> values, Type element) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())}, element);
  SmallVector<APInt> numbers;
  for (int64_t value : values) numbers.emplace_back(element.getIntOrFloatBitWidth(), static_cast<uint64_t>(value), /*isSigned=*/true);
  return make<tx::ConstantOp>(type, DenseElementsAttr::get(type, numbers));
}

Value Op::compare(tx::CompareKind kind, Value a, Value b) {
  return make<tx::CompareOp>(tx::with_element_type(type_of(a), builder.getI1Type()), kind, a, b);
}

Value Op::select(Value condition, Value a, Value b) {
  return make<tx::SelectOp>(type_of(a), condition, a, b);
}

std::vector<Value> Op::by_onnx(const std::string& type, ArrayRef<Operand> inputs, int outputs,
                               llvm::function_ref<void(onnx::NodeProto&)> attributes) {
  return call_operator(program.graph, location_, node.describe(), type, inputs, outputs, attributes);
}

}  // namespace heddle::import::stablehlo
