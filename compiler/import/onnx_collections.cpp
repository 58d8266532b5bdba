// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SequenceConstruct, SequenceAt and the like, Optional and its relatives. A position that is known when the model is compiled costs nothing. Otherwise the
// order of the elements is a small vector that the device computes, and the element at a position is looked up among all tensors: by its number if they
// have one shape, else in all their elements, one tensor behind the other, with extents that the program reads.
#include "compiler/import/onnx_collections.h"

#include <limits>

#include "compiler/import/specializations.h"

using namespace mlir;

namespace heddle::import {
namespace {

std::string tensor_count(size_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

// The input as a sequence.
std::shared_ptr<const Sequence> sequence_input(Node& node, int index) {
  const Operand& operand = node.any_operand(index);
  if (!operand.sequence || operand.optional != Optional::kNo)
    node.fail("input " + std::to_string(index) + " is " + kind_of(operand) + ", and has to be a sequence");
  return operand.sequence;
}

// The number that an input is known to be.
std::optional<int64_t> known_number(Node& node, int index) {
  if (is_data(node, index)) return {};
  const Operand& operand = node.operand(index);
  if (operand.elements->size() != 1) node.refuse_inputs("input " + std::to_string(index) + " is not one number");
  return tx::static_extent(operand.elements->front());
}

// A position from an input that is data, from the front. A call with one outside of -length to length - 1 is refused; with `may_be_end`, length is
// allowed, too.
Integers position_from(Node& node, int index, int64_t length, bool may_be_end) {
  const Integers given = vector_of(node, index);
  if (Node::type_of(given.value()).getNumElements() != 1) node.refuse_inputs("input " + std::to_string(index) + " is not one number");
  const Integers zero = given.number(0), number = given.number(length);
  Integers checked = given;
  // The check allows as many positions from the back as from the front.
  if (may_be_end) checked = (given - given.number(1)).where(given < given.number(-length), given);
  AffineExpr limit = node.builder.getAffineConstantExpr(length + (may_be_end ? 1 : 0));
  node.graph.expected.push_back({checked.value(), {}, limit, "its sequence"});
  return (given + number).where(given < zero, given);
}

// A known position, from the front.
int64_t known_position(Node& node, int64_t given, int64_t length, bool may_be_end) {
  const int64_t last = may_be_end ? length : length - 1;
  if (given < -length || given > last)
    node.fail("position " + std::to_string(given) + " is outside of a sequence of " + tensor_count(static_cast<size_t>(length)) +
              "; it can be " + std::to_string(-length) + " to " + std::to_string(last));
  return given < 0 ? given + length : given;
}

// The elements of a vector at these places.
Integers looked_up(Node& node, const Integers& table, const Integers& places) {
  return {node, node.make<tx::GatherOp>(Node::type_of(places.value()), table.value(), places.value(), node.builder.getI64IntegerAttr(0))};
}

Integers order_of(Node& node, const Sequence& sequence) {
  return sequence.order ? Integers(node, sequence.order) : counted(node, sequence.length);
}

Value flat(Node& node, Value value) {
  return node.reshape(value, {node.count_of(Node::extents_of(value))});
}

// Lookups among the tensors of a sequence, which are put one behind the other only once.
class Lookup {
 public:
  Lookup(Node& node, const Sequence& sequence) : node_(node), order_(sequence.order) {
    for (const Operand& part : sequence.parts) values_.push_back(node.value_of(part));
    align(node, sequence.element.compound, values_, /*by_data=*/true);
    const RankedTensorType first = Node::type_of(values_[0]);
    extents_ = tx::extents(first);
    is_one_type_ = llvm::all_of(values_, [&](Value value) { return value.getType() == first; });
    if (values_.size() == 1) return;
    if (is_one_type_) {
      Extents row = extents_;
      row.insert(row.begin(), node.builder.getAffineConstantExpr(1));
      SmallVector<Value> rows;
      for (Value value : values_) rows.push_back(node.reshape(value, row));
      all_ = node.concatenated(rows, 0);
      return;
    }
    for (Value value : values_) {
      if (Node::type_of(value).getRank() != first.getRank())
        node.fail("the tensors of its sequence have different ranks, and its position is data, which is not supported",
                  HEDDLE_STATUS_UNIMPLEMENTED);
    }
    AffineExpr start = node.builder.getAffineConstantExpr(0);
    SmallVector<Value> lists;
    for (Value value : values_) {
      lists.push_back(flat(node, value));
      starts_.push_back(start);
      start = node.computed(sum(start, Node::extents_of(lists.back())[0]));
    }
    // A gather is from at least one element.
    if (!at_least(start, node.builder.getAffineConstantExpr(1)).value_or(false))
      lists.push_back(node.splat(RankedTensorType::get({1}, first.getElementType()), 0));
    all_ = node.concatenated(lists, 0);
  }

  Value at(const Integers& position) {
    if (values_.size() == 1) return values_[0];
    const Integers number = order_ ? looked_up(node_, {node_, order_}, position) : position;
    return is_one_type_ ? of_one_type(number) : of_one_rank(number);
  }

 private:
  Value of_one_type(const Integers& number) {
    Extents row = extents_;
    row.insert(row.begin(), node_.builder.getAffineConstantExpr(1));
    const Type element = Node::type_of(values_[0]).getElementType();
    Value found = node_.make<tx::GatherOp>(node_.tensor_type(row, element), all_, number.value(), node_.builder.getI64IntegerAttr(0));
    return node_.reshape(found, extents_);
  }

  // The extents differ, and are read.
  Value of_one_rank(const Integers& number) {
    Extents extents = extents_;
    std::vector<size_t> open;
    std::vector<Integers> found;
    for (size_t d = 0; d < extents.size(); ++d) {
      std::vector<AffineExpr> all;
      for (Value value : values_) all.push_back(Node::extents_of(value)[d]);
      if (llvm::all_equal(all)) continue;
      open.push_back(d);
      found.push_back(looked_up(node_, numbers_of(node_, all), number));
    }
    for (auto [d, extent] : llvm::zip_equal(open, read_extents(node_, joined(node_, found), "extent of the element"))) extents[d] = extent;
    const Integers from = looked_up(node_, numbers_of(node_, starts_), number);
    return node_.reshape(gather_from(node_, all_, 0, from, from.number(1), node_.count_of(extents)), extents);
  }

  Node& node_;
  Value order_, all_;
  SmallVector<Value> values_;
  Extents extents_;  // of the first tensor
  bool is_one_type_ = false;
  std::vector<AffineExpr> starts_;  // of tensors with different extents: where they begin among all elements
};

void sequence_construct(Node& node) {
  if (node.input_count() == 0) node.fail("it has no inputs; SequenceEmpty makes an empty sequence");
  std::vector<Operand> parts;
  for (int i = 0; i < node.input_count(); ++i) parts.push_back(node.operand(i));
  const ElementKind element = kind_of_elements(node, parts.front());
  node.set_operand(sequence_of(node, std::move(parts), element));
}

void sequence_empty(Node& node) {
  const int64_t type = node.integer("dtype", 1);  // FLOAT
  if (type < 1 || type > std::numeric_limits<int32_t>::max()) node.fail("dtype " + std::to_string(type) + " is no element type");
  node.set_operand(sequence_of(node, {}, element_kind(node.builder.getContext(), type, node.describe())));
}

void sequence_length(Node& node) {
  node.set_elements({node.builder.getAffineConstantExpr(sequence_input(node, 0)->length)}, 0);
}

void sequence_at(Node& node) {
  const auto sequence = sequence_input(node, 0);
  if (sequence->length == 0) node.fail("its sequence is empty");
  const std::optional<int64_t> known = known_number(node, 1);
  if (!known) {
    node.set_operand(element_at(node, *sequence, position_from(node, 1, sequence->length, /*may_be_end=*/false)));
    return;
  }
  const int64_t position = known_position(node, *known, sequence->length, /*may_be_end=*/false);
  if (!sequence->order) return node.set_operand(sequence->parts[static_cast<size_t>(position)]);
  node.set_operand(element_at(node, *sequence, numbers_of(node, {node.builder.getAffineConstantExpr(position)})));
}

void sequence_insert(Node& node) {
  Sequence made = *sequence_input(node, 0);
  Operand tensor = node.operand(1);
  const ElementKind element = kind_of_elements(node, tensor);
  if (element != made.element)
    node.fail("input 1 has element type " + name_of(element) + ", and those of the sequence have " + name_of(made.element));
  if (made.length >= longest_sequence)
    node.fail("a sequence of more than " + tensor_count(longest_sequence) + " is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  const int64_t length = made.length, number = static_cast<int64_t>(made.parts.size());
  std::optional<int64_t> known = node.has_input(2) ? known_number(node, 2) : length;
  if (known) known = known_position(node, *known, length, /*may_be_end=*/true);
  Operand result;
  if (known && !made.order) {
    made.parts.insert(made.parts.begin() + *known, std::move(tensor));
  } else {
    const Integers position = known ? numbers_of(node, {node.builder.getAffineConstantExpr(*known)}) : position_from(node, 2, length, true);
    const Integers places = counted(node, length + 1);
    const Integers at{node, node.broadcast(node.reshape(position.value(), {}), {node.builder.getAffineConstantExpr(length + 1)})};
    const Integers fresh = numbers_of(node, {node.builder.getAffineConstantExpr(number)});
    if (length == 0) {
      made.order = {};
      made.parts.clear();
    } else {
      const Integers order = order_of(node, made), before = joined(node, {order, fresh}), after = joined(node, {fresh, order});
      made.order = before.where(places < at, places.number(number).where(places == at, after)).value();
    }
    made.parts.push_back(std::move(tensor));
  }
  ++made.length;
  result.sequence = std::make_shared<const Sequence>(std::move(made));
  node.set_operand(std::move(result));
}

void sequence_erase(Node& node) {
  Sequence made = *sequence_input(node, 0);
  if (made.length == 0) node.fail("its sequence is empty");
  const int64_t length = made.length--;
  std::optional<int64_t> known = node.has_input(1) ? known_number(node, 1) : length - 1;
  if (known) known = known_position(node, *known, length, /*may_be_end=*/false);
  Operand result;
  if (known && !made.order) {
    made.parts.erase(made.parts.begin() + *known);
  } else {
    const Integers position =
        known ? numbers_of(node, {node.builder.getAffineConstantExpr(*known)}) : position_from(node, 1, length, false);
    if (made.length == 0) {
      made.order = {};
      made.parts.clear();
    } else {
      const Integers places = counted(node, made.length);
      const Integers at{node, node.broadcast(node.reshape(position.value(), {}), {node.builder.getAffineConstantExpr(made.length)})};
      made.order = looked_up(node, order_of(node, {made.parts, made.order, length, made.element}),
                             places.where(places < at, places + places.number(1)))
                       .value();
    }
  }
  result.sequence = std::make_shared<const Sequence>(std::move(made));
  node.set_operand(std::move(result));
}

void concat_from_sequence(Node& node) {
  const auto sequence = sequence_input(node, 0);
  if (sequence->length == 0) node.fail("its sequence is empty");
  const bool is_new = node.integer("new_axis", 0) != 0;
  SmallVector<Value> values;
  for (const Operand& one : elements_of(node, *sequence)) values.push_back(node.value_of(one));
  const std::optional<int32_t> compound = sequence->element.compound;
  align(node, compound, values, /*by_data=*/true);
  const int64_t whole = Node::type_of(values[0]).getRank(), rank = whole - (compound ? 1 : 0),
                axis = node.axis(node.integer("axis"), rank + (is_new ? 1 : 0));
  for (Value& value : values) {
    if (!is_new) break;
    Extents extents = Node::extents_of(value);
    if (static_cast<int64_t>(extents.size()) != whole) node.fail("the tensors of its sequence have different ranks");
    extents.insert(extents.begin() + axis, node.builder.getAffineConstantExpr(1));
    value = node.reshape(value, extents);
  }
  node.set_operand(Operand::of(node.concatenated(values, axis), compound));
}

// The sizes of the parts of SplitToSequence along its axis.
std::vector<AffineExpr> part_sizes(Node& node, AffineExpr extent) {
  auto number = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  const std::optional<int64_t> known = tx::static_extent(extent);
  auto check_count = [&](int64_t count) {
    if (count > longest_sequence)
      node.fail("a sequence of more than " + tensor_count(longest_sequence) + " is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    return static_cast<size_t>(count);
  };
  auto stated = [&] {
    const std::optional<int64_t> length = node.graph.stated_length(node.output(0));
    if (!length)
      node.fail("how many tensors it gives is known only when it runs; compile the model for one number of them, such as --specialize '" +
                    node.output(0) + "=3'",
                HEDDLE_STATUS_UNIMPLEMENTED);
    return *length;
  };
  if (node.has_input(1)) {
    const Operand& split = node.operand(1);
    const int64_t rank = split.value ? Node::type_of(split.value).getRank() : split.rank;
    if (rank > 0) {
      std::vector<AffineExpr> sizes = extents_from(node, 1, "size of part");
      AffineExpr all = number(0);
      for (auto [i, size] : llvm::enumerate(sizes)) {
        if (!node.graph.symbols.require(size, number(0), node.describe()))
          node.fail("part " + std::to_string(i) + " has an extent below 0");
        all = node.computed(sum(all, size));
      }
      if (!node.are_equal(all, extent)) node.fail("its parts do not add up to the extent of the dimension");
      check_count(static_cast<int64_t>(sizes.size()));
      return sizes;
    }
    const AffineExpr size = extents_from(node, 1, "size of the parts").front();
    const std::optional<int64_t> known_size = tx::static_extent(size);
    if (known_size && *known_size < 1) node.fail("the size of its parts is " + std::to_string(*known_size) + ", and has to be 1 or more");
    const bool is_known = known && known_size;
    Symbols& symbols = node.graph.symbols;
    const int64_t count = is_known ? *known / *known_size + (*known % *known_size != 0) : stated();
    std::vector<AffineExpr> sizes(check_count(count), size);
    const std::string who = compiled_for(node, "it gives " + tensor_count(static_cast<size_t>(count)));
    if (count == 0) {
      if (!symbols.equate(extent, number(0), who)) node.fail("its input is not empty, and its sequence is");
      return sizes;
    }
    sizes.back() = node.computed(difference(extent, node.computed(product(size, number(count - 1)))));
    if (!symbols.require(sizes.back(), number(1), who) || !symbols.require(size, sizes.back(), who))
      node.fail("its input does not give " + tensor_count(static_cast<size_t>(count)));
    return sizes;
  }
  const int64_t count = known ? *known : stated();
  const std::string who = compiled_for(node, "it gives " + tensor_count(static_cast<size_t>(count)));
  if (!node.graph.symbols.equate(extent, number(count), who))
    node.fail("its input does not give " + tensor_count(static_cast<size_t>(count)));
  return std::vector<AffineExpr>(check_count(count), number(1));
}

void split_to_sequence(Node& node) {
  const Operand given = node.operand(0);
  Value input = node.value_of(given);
  Extents extents = Node::extents_of(input);
  const int64_t axis = node.axis(node.integer("axis", 0), rank_of(given, input));
  const bool drops = !node.has_input(1) && node.integer("keepdims", 1) == 0;
  const std::vector<AffineExpr> sizes = part_sizes(node, extents[static_cast<size_t>(axis)]);
  const Type element = Node::type_of(input).getElementType();
  const bool is_static = tx::static_extent(extents[static_cast<size_t>(axis)]).has_value();
  std::vector<Operand> parts;
  AffineExpr start = node.builder.getAffineConstantExpr(0);
  for (AffineExpr size : sizes) {
    Operand part;
    if (given.is_compound()) part.refused_type = given.refused_type;
    extents[static_cast<size_t>(axis)] = size;
    if (auto from = tx::static_extent(start); from && is_static && tx::static_extent(size)) {
      SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
      starts[static_cast<size_t>(axis)] = *from;
      part.value = node.builder.createOrFold<tx::SliceOp>(node.location(), node.tensor_type(extents, element), input, starts, strides);
    } else {
      const Integers from_there = numbers_of(node, {start});
      part.value = gather_from(node, input, axis, from_there, from_there.number(1), size);
    }
    Extents kept = extents;
    if (drops) {
      kept.erase(kept.begin() + axis);
      part.value = node.reshape(part.value, kept);
    }
    parts.push_back(std::move(part));
    start = node.computed(sum(start, size));
  }
  node.set_operand(sequence_of(node, std::move(parts), kind_of_elements(node, given)));
}

void optional(Node& node) {
  Operand result;
  result.optional = Optional::kAbsent;
  if (node.has_input(0)) {
    result = node.any_operand(0);
    if (result.optional != Optional::kNo) node.fail("input 0 is " + kind_of(result) + ", and has to be a tensor or a sequence");
    result.optional = Optional::kPresent;
  } else if (!node.has_attribute("type")) {
    node.fail("it has neither an input nor the attribute 'type'");
  }
  node.set_operand(std::move(result));
}

void optional_has_element(Node& node) {
  const bool has = node.has_input(0) && node.any_operand(0).optional != Optional::kAbsent;
  node.set_elements({node.builder.getAffineConstantExpr(has ? 1 : 0)}, 0, /*bits=*/1);
}

void optional_get_element(Node& node) {
  Operand operand = node.any_operand(0);
  if (operand.optional == Optional::kAbsent) node.fail("input 0 is an optional without a value");
  operand.optional = Optional::kNo;
  node.set_operand(std::move(operand));
}

}  // namespace

std::string kind_of(const Form& form) {
  std::string text = form.is_sequence ? "a sequence of " + tensor_count(form.count) : "a tensor";
  if (form.optional == Optional::kAbsent) return "an optional without a value";
  return form.optional == Optional::kPresent ? "an optional with " + text : text;
}

std::string kind_of(const Operand& operand) {
  if (operand.map) return "a map";
  return kind_of(form_of(operand));
}

Operand sequence_of(Node& node, std::vector<Operand> parts, const ElementKind& element) {
  if (static_cast<int64_t>(parts.size()) > longest_sequence)
    node.fail("a sequence of more than " + tensor_count(longest_sequence) + " is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  for (const auto& [i, part] : llvm::enumerate(parts)) {
    if (ElementKind own = kind_of_elements(node, part); own != element)
      node.fail("the tensors of a sequence have one element type, and " + std::to_string(i) + " has " + name_of(own) + ", not " +
                name_of(element));
  }
  Operand result;
  const auto length = static_cast<int64_t>(parts.size());
  result.sequence = std::make_shared<const Sequence>(Sequence{std::move(parts), {}, length, element});
  return result;
}

std::string compiled_for(const Node& node, const std::string& what) {
  return node.describe() + ": the model is compiled for calls in which " + what;
}

Operand element_at(Node& node, const Sequence& sequence, const Integers& position) {
  return Operand::of(Lookup(node, sequence).at(position), sequence.element.compound);
}

std::vector<Operand> elements_of(Node& node, const Sequence& sequence) {
  if (!sequence.order) return sequence.parts;
  std::vector<Operand> all;
  if (sequence.length == 0) return all;
  Lookup lookup(node, sequence);
  for (int64_t i = 0; i < sequence.length; ++i) {
    Value one = lookup.at(numbers_of(node, {node.builder.getAffineConstantExpr(i)}));
    all.push_back(Operand::of(one, sequence.element.compound));
  }
  return all;
}

Operand with_values(Operand operand, llvm::function_ref<Value(Value)> replace) {
  if (operand.value) operand.value = replace(operand.value);
  if (!operand.sequence) return operand;
  Sequence made = *operand.sequence;
  for (Operand& part : made.parts) {
    if (part.value) part.value = replace(part.value);
  }
  if (made.order) made.order = replace(made.order);
  operand.sequence = std::make_shared<const Sequence>(std::move(made));
  return operand;
}

Form form_of(const Operand& operand) {
  Form form;
  form.optional = operand.optional;
  if (operand.optional == Optional::kAbsent) form.count = 0;
  if (operand.is_compound()) form.element.compound = operand.refused_type;
  if (!operand.sequence) return form;
  form.is_sequence = true;
  form.count = static_cast<size_t>(operand.sequence->length);
  form.element = operand.sequence->element;
  return form;
}

SmallVector<Value> tensors_of(Node& node, const Operand& operand) {
  SmallVector<Value> values;
  if (operand.optional == Optional::kAbsent) return values;
  if (operand.map)
    node.fail("a map is used as a value, and only DictVectorizer and CastMap read maps; use the tensors of its keys and values",
              HEDDLE_STATUS_UNIMPLEMENTED);
  if (!operand.sequence) return {node.value_of(operand)};
  for (const Operand& one : elements_of(node, *operand.sequence)) values.push_back(node.value_of(one));
  return values;
}

Operand made_of(const Form& form, ArrayRef<Value> tensors) {
  Operand operand;
  operand.optional = form.optional;
  if (!form.is_sequence) {
    if (form.count == 1) operand.value = tensors[0];
    if (form.count == 1) operand.refused_type = form.element.compound;
    return operand;
  }
  Sequence sequence{{}, {}, static_cast<int64_t>(tensors.size()), form.element};
  for (Value value : tensors) sequence.parts.push_back(Operand::of(value, form.element.compound));
  operand.sequence = std::make_shared<const Sequence>(std::move(sequence));
  return operand;
}

const Table& collection_operators() {
  static const Table table = {
      {"ConcatFromSequence", concat_from_sequence},
      {"Optional", optional},
      {"OptionalGetElement", optional_get_element},
      {"OptionalHasElement", optional_has_element},
      {"SequenceAt", sequence_at},
      {"SequenceConstruct", sequence_construct},
      {"SequenceEmpty", sequence_empty},
      {"SequenceErase", sequence_erase},
      {"SequenceInsert", sequence_insert},
      {"SequenceLength", sequence_length},
      {"SplitToSequence", split_to_sequence},
  };
  return table;
}

}  // namespace heddle::import
