// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches and loops of StableHLO. A region becomes a function (stablehlo_part.h). A branch that is known to be taken is translated in place of its op.
#include "compiler/import/stablehlo_part.h"
#include "compiler/ir/control.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

// The same with tensors in place of integers of which only the elements are known, which differ from one step or branch to another.
Data as_tensors(Op& op, Data data, Type type) {
  if (data.tuple) {
    auto tuple = llvm::dyn_cast<TupleType>(type);
    std::vector<Data> members;
    for (auto [i, member] : llvm::enumerate(*data.tuple))
      members.push_back(as_tensors(op, member, tuple && i < tuple.size() ? tuple.getType(i) : Type()));
    data.tuple = std::make_shared<const std::vector<Data>>(std::move(members));
    return data;
  }
  if (data.parts.empty() && data.elements) {
    auto tensor = llvm::dyn_cast_or_null<RankedTensorType>(type);
    if (!tensor) op.fail("a value of one of its regions is no tensor");
    const Type element = op.program.element_type(tensor.getElementType(), op.describe());
    Operand operand{{}, data.elements, data.rank};
    if (element.isInteger(1)) operand.bits = 1;
    data.parts.push_back(op.node.converted(op.node.value_of(operand), element));
  }
  data.elements.reset();
  return data;
}

std::vector<Data> as_tensors(Op& op, const std::vector<Data>& all, TypeRange types) {
  if (all.size() != types.size())
    op.fail("one of its regions gives " + std::to_string(all.size()) + " values, and " + std::to_string(types.size()) + " are needed");
  std::vector<Data> results;
  for (auto [data, type] : llvm::zip(all, types)) results.push_back(as_tensors(op, data, type));
  return results;
}

Region& region_of(Op& op, unsigned index) {
  Region& region = op.source().getRegion(index);
  if (!region.hasOneBlock()) op.fail("region " + std::to_string(index) + " has no block, or several");
  return region;
}

// The integer of a value, if it is known.
std::optional<int64_t> known_number(const Data& data) {
  if (!data.elements || data.elements->size() != 1) return {};
  return tx::static_extent(data.elements->front());
}

// The value as an i64 of rank 0.
Value number_of(Op& op, const Data& data, const char* what) {
  if (data.parts.size() != 1 || !llvm::isa<IntegerType>(tx::element_of(data.parts[0])) || Op::rank_of(data.parts[0]) != 0)
    op.fail(std::string(what) + " is no scalar of bools or integers");
  return op.converted(data.parts[0], op.builder.getI64Type());
}

void set_results(Op& op, const std::vector<Data>& results) {
  if (results.size() != op.source().getNumResults()) op.fail("its region gives another number of values than it has results");
  for (auto [i, data] : llvm::enumerate(results)) op.set_data(data, static_cast<unsigned>(i));
}

// One region in place of the op.
std::vector<Data> in_place(Op& op, Scope& scope, Region& region) {
  Scope inside;
  inside.outside = &scope;
  return op.program.translate(region.front(), {}, inside);
}

// The results of the region that the index chooses; the last one also for an index that is none of the others.
std::vector<Data> chosen(Op& op, Scope& scope, const Data& index, ArrayRef<Region*> regions, int64_t first) {
  if (regions.size() == 1) return as_tensors(op, in_place(op, scope, *regions.front()), op.source().getResultTypes());
  if (auto known = known_number(index)) {
    const auto count = static_cast<int64_t>(regions.size());
    const int64_t place = *known - first;
    return as_tensors(op, in_place(op, scope, *regions[static_cast<size_t>(place < 0 || place >= count ? count - 1 : place)]),
                      op.source().getResultTypes());
  }
  const Captured captured = captured_by(op, scope, regions, index);
  Value number = number_of(op, index, "the number of the branch");
  Value is_first =
      op.converted(op.compare(tx::CompareKind::eq, number, op.number(number, static_cast<double>(first))), op.builder.getI64Type());
  const std::string name = "if" + std::to_string(op.program.parts++);
  std::vector<Data> forms;
  auto translate = [&](Part& part, ArrayRef<Region*> taken, int64_t from) {
    part.translate(captured, index, [&](Scope& inside, const Data& there) {
      forms = chosen(op, inside, there, taken, from);
      return flat(forms);
    });
  };
  Part then_part(op, name + ".then"), else_part(op, name + ".else");
  translate(then_part, regions.take_front(), first);
  translate(else_part, regions.drop_front(), first + 1);
  SmallVector<Type> types;
  if (then_part.results().size() != else_part.results().size()) op.fail("its branches give values of different kinds");
  for (size_t i = 0; i < then_part.results().size(); ++i) {
    const auto type = Op::type_of(then_part.results()[i]);
    for (Part* part : {&then_part, &else_part}) {
      if (part->is_own(part->results()[i].getType()))
        op.unsupported("a result has an extent that a branch computes from values of the call");
    }
    else_part.take_type(i, type, "result " + std::to_string(i) + " of a branch");
    types.push_back(type);
  }
  then_part.finish();
  else_part.finish();
  if (types.empty()) return forms;  // tokens
  auto made =
      op.builder.create<tx::IfOp>(op.location(), types, is_first, captured.tensors, then_part.name(), else_part.name(), StringAttr());
  return like(forms, SmallVector<Value>(made.getOutputs()));
}

void branches(Op& op) {
  const bool is_if = op.name() == "stablehlo.if";
  if (op.input_count() != 1 || op.source().getNumRegions() < (is_if ? 2u : 1u))
    op.fail("it needs one operand, and a region for each branch");
  SmallVector<Region*> regions;
  for (unsigned i = 0; i < op.source().getNumRegions(); ++i) regions.push_back(&region_of(op, i));
  if (is_if) std::swap(regions[0], regions[1]);  // false is 0
  Data index = op.data(0);
  if (index.parts.empty() && !known_number(index)) index.parts.push_back(op.input(0));
  set_results(op, chosen(op, op.scope(), index, regions, 0));
}

// How often a loop runs that counts from a known number to a known limit in steps of 1, as those of jax.lax.fori_loop and scan do.
std::optional<int64_t> count_of(Op& op, Region& condition, Region& body, const std::vector<Data>& init) {
  Block& test = condition.front();
  if (test.back().getNumOperands() != 1) return {};
  auto known = [&](Value value) -> std::optional<int64_t> {
    if (const Data* data = find(op.scope(), value)) return known_number(*data);
    Operation* source = value.getDefiningOp();
    if (!source || source->getName().getStringRef() != "stablehlo.constant") return {};
    auto read = [&](Attribute attribute) { return llvm::dyn_cast_or_null<DenseIntElementsAttr>(attribute); };
    DenseIntElementsAttr elements = read(source->getDiscardableAttr("value"));
    if (auto properties = llvm::dyn_cast_or_null<DictionaryAttr>(source->getPropertiesAsAttribute()); !elements && properties)
      elements = read(properties.get("value"));
    if (!elements || elements.getNumElements() != 1 || elements.getElementType().getIntOrFloatBitWidth() > 64) return {};
    return (*elements.getValues<APInt>().begin()).getSExtValue();
  };
  Operation* compare = test.back().getOperand(0).getDefiningOp();
  if (!compare || compare->getName().getStringRef() != "stablehlo.compare" || compare->getNumOperands() != 2) return {};
  auto counter = llvm::dyn_cast<BlockArgument>(compare->getOperand(0));
  if (!counter || counter.getOwner() != &test) return {};
  Attribute direction = compare->getDiscardableAttr("comparison_direction");
  if (auto properties = llvm::dyn_cast_or_null<DictionaryAttr>(compare->getPropertiesAsAttribute()); !direction && properties)
    direction = properties.get("comparison_direction");
  const auto limit = known(compare->getOperand(1));
  const unsigned place = counter.getArgNumber();
  if (!limit || !direction || word_of(direction) != "LT" || place >= init.size() || body.front().back().getNumOperands() <= place)
    return {};
  auto integer = llvm::dyn_cast<RankedTensorType>(counter.getType());
  if (!integer || !integer.getElementType().isSignlessInteger()) return {};
  Operation* next = body.front().back().getOperand(place).getDefiningOp();
  if (!next || next->getName().getStringRef() != "stablehlo.add" || next->getNumOperands() != 2) return {};
  const Value own = body.front().getArgument(place);
  const bool first = next->getOperand(0) == own, second = next->getOperand(1) == own;
  if (first == second || known(next->getOperand(first ? 1 : 0)) != 1) return {};
  const auto start = known_number(op.data(place));
  if (!start) return {};
  int64_t steps = 0;
  if (*start < *limit && __builtin_sub_overflow(*limit, *start, &steps)) return {};
  return steps;
}

void loop(Op& op) {
  if (op.source().getNumRegions() != 2 || op.input_count() != op.source().getNumResults())
    op.fail("it needs two regions, and as many operands as results");
  Region &condition = region_of(op, 0), &body = region_of(op, 1);
  const TypeRange types = op.source().getOperandTypes();
  std::vector<Data> given, init;
  for (unsigned i = 0; i < op.input_count(); ++i) {
    given.push_back(op.data(i));
    init.push_back(as_tensors(op, op.data(i), types[i]));
  }
  auto goes_on = [&](Scope& outside, const std::vector<Data>& values) {
    Scope inside;
    inside.outside = &outside;
    std::vector<Data> results = op.program.translate(condition.front(), values, inside);
    if (results.size() != 1) op.fail("its condition gives " + std::to_string(results.size()) + " values; 1 was expected");
    return results.front();
  };
  auto as_condition = [&](const Data& data) {
    return number_of(op, as_tensors(op, data, RankedTensorType::get({}, op.builder.getI1Type())), "its condition");
  };
  const std::optional<int64_t> steps = count_of(op, condition, body, given);
  Value before;
  if (!steps) {
    const Data first = goes_on(op.scope(), given);
    const auto known = known_number(first);
    if (known == 0) return set_results(op, init);
    if (!known) before = as_condition(first);
  }
  const Captured captured = captured_by(op, op.scope(), {&condition, &body});
  Part part(op, "while" + std::to_string(op.program.parts++));
  std::vector<Data> arguments;
  for (const Data& data : init) arguments.push_back(part.argument(data));
  SmallVector<Value> first = flat(init);
  part.translate(captured, {}, [&](Scope& outside, const Data&) {
    Scope inside;
    inside.outside = &outside;
    std::vector<Data> next = as_tensors(op, op.program.translate(body.front(), arguments, inside), types);
    SmallVector<Value> results = flat(next);
    if (results.size() != first.size()) op.fail("its body gives values of other kinds than it takes");
    if (!steps) results.insert(results.begin(), as_condition(goes_on(outside, next)));
    return results;
  });
  const size_t carried = steps ? 0 : 1;
  SmallVector<Type> result_types;
  for (auto [i, value] : llvm::enumerate(first)) {
    part.take_type(carried + i, Op::type_of(value), "carried value " + std::to_string(i) + " after a step");
    result_types.push_back(value.getType());
  }
  if (first.empty()) op.unsupported("it carries no tensors");
  part.finish(first.size(), carried);
  AffineMapAttr count;
  if (steps) {
    const auto symbols = static_cast<unsigned>(op.program.graph.symbols.names().size());
    count = AffineMapAttr::get(AffineMap::get(0, symbols, op.builder.getAffineConstantExpr(*steps)));
  }
  auto made = op.builder.create<tx::LoopOp>(op.location(), result_types, Value(), before, first, ValueRange(), captured.tensors,
                                            part.name(), count, steps ? UnitAttr() : op.builder.getUnitAttr(),
                                            op.builder.getDenseI64ArrayAttr({}), StringAttr(), AffineMapAttr(), DenseI64ArrayAttr());
  set_results(op, like(init, SmallVector<Value>(made.getOutputs())));
}

}  // namespace

const Table& control_ops() {
  static const Table table = {{"stablehlo.case", {branches, kComplex | kNarrow}},
                              {"stablehlo.if", {branches, kComplex | kNarrow}},
                              {"stablehlo.while", {loop, kComplex | kNarrow}}};
  return table;
}

}  // namespace heddle::import::stablehlo
