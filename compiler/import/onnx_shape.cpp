// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that move elements or compute shapes.
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_random.h"
#include "compiler/import/onnx_text.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Elements stay in their order; if they are known, the result is a scalar, a vector or a matrix of them.
bool reshape_elements(Node& node) {
  Operand operand = node.operand(0);
  if (node.opset() < 5 || (!operand.is_folded() && !operand.is_matrix()) || !node.operand(1).is_shape() ||
      node.operand(1).elements->size() > 2)
    return false;
  int64_t count = static_cast<int64_t>(operand.elements->size()), rest = count;
  std::vector<int64_t> shape;
  for (AffineExpr extent : *node.operand(1).elements) shape.push_back(tx::static_extent(extent).value_or(0));
  for (int64_t extent : shape) {
    if (extent == 0 || extent < -1 || (extent > 0 && rest % extent != 0)) return false;
    if (extent > 0) rest /= extent;
  }
  auto open = llvm::count(shape, -1);
  if (open > 1 || (open == 0 && rest != 1) || (count == 0 && shape.size() == 2)) return false;
  operand.value = {};
  operand.rank = static_cast<int64_t>(shape.size());
  operand.columns = operand.rank < 2 ? 0 : shape[1] == -1 ? rest : shape[1];
  node.set_operand(std::move(operand));
  return true;
}

// The extent that -1 stands for; null if it has no form. If the quotient is an extent only when two of the extents are equal, they are assumed to be,
// and a call in which they differ is refused; except if both are symbols, since another number may be meant.
AffineExpr open_extent(Node& node, const Extents& from, const Extents& to) {
  MLIRContext* context = node.builder.getContext();
  std::optional<Ratio> ratio = ratio_of(from, to, context);
  if (!ratio) return {};
  if (AffineExpr exact = exact_quotient(from, to, context)) return exact;
  Symbols& symbols = node.graph.symbols;
  auto is_given = [&](AffineExpr extent) { return llvm::isa<AffineSymbolExpr>(extent) && !symbols.is_defined(extent); };
  for (size_t i = 0; i < from.size(); ++i) {
    if (tx::static_extent(from[i]) || (is_given(from[i]) && is_given(ratio->denominator))) continue;
    Extents others = from;
    others[i] = ratio->denominator;
    AffineExpr rest = exact_quotient(others, to, context);
    if (rest && symbols.equate(from[i], ratio->denominator, node.describe(), /*learn=*/false)) return rest;
  }
  return {};
}

// If an extent is split into a quotient and its divisor, such as blocks of an image, it has to be their product.
Extents divided_exactly(Node& node, Extents from, ArrayRef<AffineExpr> to) {
  for (AffineExpr& extent : from) {
    for (AffineExpr part : to) {
      auto division = llvm::dyn_cast<AffineBinaryOpExpr>(part);
      bool is_part = division && division.getKind() == AffineExprKind::FloorDiv && division.getLHS() == extent;
      auto divisor = is_part ? tx::static_extent(division.getRHS()) : std::nullopt;
      if (!divisor) continue;
      AffineExpr whole = node.computed(product(part, division.getRHS()));
      node.graph.symbols.equate(whole, extent, node.describe(), /*learn=*/false);
      extent = whole;
      break;
    }
  }
  return from;
}

// A new shape that is data: its special values are replaced before it is read. Extents that are known although others are not stay known.
void reshape_by_data(Node& node) {
  Value input = node.input(0);
  const Extents from = Node::extents_of(input);
  Integers given = vector_of(node, 1);
  const int64_t rank = Node::type_of(given.value()).getNumElements();
  if (rank == 0) return node.set_result(reshape_to(node, input, {}));
  Integers zero = given.number(0), one = given.number(1), open = given == given.number(-1), shape = given;
  if (node.integer("allowzero", 0) == 0) {
    // Where there is no dimension to copy, the extent is refused.
    Extents copied = from;
    copied.resize(static_cast<size_t>(rank), node.builder.getAffineConstantExpr(-2));
    shape = numbers_of(node, copied).where(given == zero, given);
  }
  Integers kept = one.where(open, shape), others = kept.reduced(tx::ReduceKind::prod);
  Integers whole = numbers_of(node, {node.count_of(from)}) / others.number(1).where(others == others.number(0), others);
  Integers spread{node, node.broadcast(node.reshape(whole.value(), {}), {node.builder.getAffineConstantExpr(rank)})};
  node.set_result(reshape_to(node, input, read_extents(node, spread.where(open, kept), "extent of the result")));
}

void reshape(Node& node) {
  if (reshape_elements(node)) return;
  if (node.opset() >= 5 && is_data(node, 1)) return reshape_by_data(node);
  Value input = node.input(0);
  Extents from = Node::extents_of(input), to;
  std::vector<AffineExpr> wanted;
  if (node.opset() < 5) {
    for (int64_t extent : node.integer_list("shape")) wanted.push_back(node.builder.getAffineConstantExpr(extent));
  } else {
    wanted = node.elements(1);
  }
  bool zero_is_zero = node.integer("allowzero", 0) != 0;
  int64_t open = -1;
  for (auto [i, extent] : llvm::enumerate(wanted)) {
    auto constant = llvm::dyn_cast<AffineConstantExpr>(extent);
    int64_t value = constant ? constant.getValue() : 1;
    if (constant && value == -1) {
      if (open >= 0) node.fail("the new shape has more than one -1");
      open = i;
      to.push_back(node.builder.getAffineConstantExpr(1));
    } else if (constant && value == 0 && !zero_is_zero) {
      if (i >= from.size())
        node.fail("the new shape copies extent " + std::to_string(i) + " of an input of rank " + std::to_string(from.size()));
      to.push_back(from[i]);
    } else {
      if (value < 0) node.fail("the new shape has the extent " + std::to_string(value));
      to.push_back(extent);
    }
  }
  Extents divided = divided_exactly(node, from, to);
  std::optional<Ratio> ratio = ratio_of(divided, to, node.builder.getContext());
  if (open >= 0) {
    to[open] = open_extent(node, divided, to);
    if (!to[open]) {
      bool known = llvm::all_of(from, [](AffineExpr e) { return llvm::isa<AffineConstantExpr>(e); });
      node.fail("the input's elements do not divide into the new shape",
                known ? HEDDLE_STATUS_INVALID_ARGUMENT : HEDDLE_STATUS_UNIMPLEMENTED);
    }
  } else if (!llvm::is_contained(from, node.builder.getAffineConstantExpr(0)) &&
             !(ratio && node.are_equal(ratio->numerator * ratio->constant, ratio->denominator * ratio->divisor))) {
    node.refuse_inputs("the new shape has a different number of elements");
  }
  node.set_result(node.reshape(input, to));
}

void flatten(Node& node) {
  Value input = node.input(0);
  Extents extents = Node::extents_of(input);
  int64_t rank = extents.size(), axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank) node.fail("axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank));
  if (axis < 0) axis += rank;
  ArrayRef<AffineExpr> all(extents);
  node.set_result(node.reshape(input, {node.count_of(all.take_front(axis)), node.count_of(all.drop_front(axis))}));
}

std::vector<int64_t> axes_of(Node& node, int64_t rank) {
  std::vector<int64_t> axes = node.has_input(1) ? node.integers(1) : node.integer_list("axes", std::vector<int64_t>{});
  if (static_cast<int64_t>(axes.size()) > largest_rank)
    node.fail("it names " + std::to_string(axes.size()) + " axes, above " + std::to_string(largest_rank));
  for (int64_t& axis : axes) axis = node.axis(axis, rank);
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) node.fail("an axis is listed twice");
  return axes;
}

void squeeze(Node& node) {
  const Operand& operand = node.operand(0);
  if (operand.is_folded() && operand.elements->size() == 1) {
    node.set_elements(*operand.elements, 0, operand.bits);
    return;
  }
  Value input = node.input(0);
  Extents from = Node::extents_of(input), to;
  if (is_data(node, 1)) {
    const Integers axes = axes_from(node, 1, static_cast<int64_t>(from.size()));
    return node.set_result(reshape_to(node, input, without_axes(node, from, axes)));
  }
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  std::vector<int64_t> axes = axes_of(node, from.size());
  for (auto [i, extent] : llvm::enumerate(from)) {
    bool named = llvm::is_contained(axes, static_cast<int64_t>(i));
    // A branch that squeezes is often taken only if it can.
    const bool is_part = llvm::cast<func::FuncOp>(node.builder.getBlock()->getParentOp()).isPrivate();
    if (named && !node.graph.symbols.equate(extent, one, node.describe(), /*learn=*/!is_part))
      node.fail("dimension " + std::to_string(i) + " is not 1");
    if (!named && !(axes.empty() && extent == one)) to.push_back(extent);
  }
  node.set_result(node.reshape(input, to));
}

void unsqueeze(Node& node) {
  const Operand& operand = node.operand(0);
  if (is_data(node, 1)) {
    Value input = node.input(0);
    const Extents from = Node::extents_of(input);
    const int64_t added = Node::type_of(vector_of(node, 1).value()).getNumElements();
    if (added > largest_rank) node.fail("it names " + std::to_string(added) + " axes, above " + std::to_string(largest_rank));
    const Integers axes = axes_from(node, 1, static_cast<int64_t>(from.size()) + added);
    return node.set_result(reshape_to(node, input, with_axes(node, from, axes)));
  }
  size_t added = node.has_input(1) ? node.integers(1).size() : node.integer_list("axes").size();
  if (operand.is_folded() && operand.rank == 0 && added == 1) {
    node.set_elements(*operand.elements, 1, operand.bits);
    return;
  }
  Value input = node.input(0);
  Extents from = Node::extents_of(input), to;
  std::vector<int64_t> axes = axes_of(node, from.size() + added);
  size_t next = 0;
  for (size_t i = 0; i < from.size() + added; ++i) {
    to.push_back(llvm::is_contained(axes, static_cast<int64_t>(i)) ? node.builder.getAffineConstantExpr(1) : from[next++]);
  }
  node.set_result(node.reshape(input, to));
}

bool transpose_elements(Node& node) {
  Operand operand = node.operand(0);
  if (!operand.is_matrix() || operand.elements->empty() ||
      node.integer_list("perm", std::vector<int64_t>{1, 0}) != std::vector<int64_t>{1, 0})
    return false;
  auto columns = static_cast<size_t>(operand.columns), rows = operand.elements->size() / columns;
  std::vector<AffineExpr> result;
  for (size_t i = 0; i < columns; ++i) {
    for (size_t j = 0; j < rows; ++j) result.push_back((*operand.elements)[j * columns + i]);
  }
  operand.elements = std::move(result);
  operand.columns = static_cast<int64_t>(rows);
  node.set_operand(std::move(operand));
  return true;
}

void transpose(Node& node) {
  if (transpose_elements(node)) return;
  Value input = node.input(0);
  int64_t rank = Node::type_of(input).getRank();
  std::vector<int64_t> permutation;
  for (int64_t i = rank; i-- > 0;) permutation.push_back(i);
  permutation = node.integer_list("perm", permutation);
  std::vector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  bool is_permutation = static_cast<int64_t>(sorted.size()) == rank;
  for (int64_t i = 0; is_permutation && i < rank; ++i) is_permutation = sorted[i] == i;
  if (!is_permutation) node.fail("perm is not a permutation of " + std::to_string(rank) + " dimensions");
  node.set_result(node.transpose(input, permutation));
}

void concat(Node& node) {
  size_t count = 0;
  bool shapes = node.input_count() > 0;
  for (int i = 0; i < node.input_count(); ++i) {
    shapes &= node.operand(i).is_folded() && node.operand(i).rank == 1 && node.operand(i).bits == node.operand(0).bits;
    if (shapes) count += node.operand(i).elements->size();
  }
  if (shapes && count <= most_shape_elements) {
    std::vector<AffineExpr> all;
    for (int i = 0; i < node.input_count(); ++i) llvm::append_range(all, *node.operand(i).elements);
    node.set_elements(std::move(all), 1, node.operand(0).bits);
    return;
  }
  SmallVector<Value> inputs;
  for (int i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  if (inputs.empty()) node.fail("it has no inputs");
  int64_t axis = node.axis(node.opset() < 4 ? node.integer("axis", 1) : node.integer("axis"), Node::type_of(inputs[0]).getRank());
  node.set_result(node.concatenated(std::move(inputs), axis));
}

// One element of a shape, or all of them, as often as the new shape says.
bool expand_elements(Node& node) {
  const Operand& operand = node.operand(0);
  if (!operand.is_folded() || !node.operand(1).is_shape() || node.operand(1).elements->size() != 1) return false;
  auto count = tx::static_extent(node.operand(1).elements->front());
  auto given = static_cast<int64_t>(operand.elements->size());
  if (!count || *count < 0 || *count > static_cast<int64_t>(most_shape_elements) || (given != 1 && *count != 1 && *count != given))
    return false;
  std::vector<AffineExpr> result = *operand.elements;
  if (given == 1) result.assign(static_cast<size_t>(*count), operand.elements->front());
  node.set_elements(std::move(result), 1, operand.bits);
  return true;
}

// Where the shape has a 1, the extent is that of the input.
void expand_by_data(Node& node, Value input) {
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  Extents from = Node::extents_of(input);
  Integers given = vector_of(node, 1);
  const size_t wanted = static_cast<size_t>(Node::type_of(given.value()).getNumElements()), rank = std::max(wanted, from.size());
  if (rank == 0) return node.set_result(input);
  while (from.size() < rank) from.insert(from.begin(), one);
  if (wanted < rank) {
    const Extents ones(rank - wanted, one);
    given = joined(node, {numbers_of(node, ones), given});
  }
  Extents to;
  llvm::append_range(to, read_extents(node, numbers_of(node, from).where(given == given.number(1), given), "extent of the result"));
  for (size_t i = 0; i < rank; ++i) {
    if (from[i] == one) continue;
    if (!node.are_equal(from[i], to[i])) node.refuse_inputs("operands do not broadcast: extents differ on dimension " + std::to_string(i));
    to[i] = from[i];
  }
  node.set_result(node.broadcast(input, to));
}

void expand(Node& node) {
  if (expand_elements(node)) return;
  Value input = node.input(0);
  Extents from = Node::extents_of(input), to;
  if (is_data(node, 1)) return expand_by_data(node, input);
  llvm::append_range(to, node.elements(1));
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  while (to.size() < from.size()) to.insert(to.begin(), one);
  size_t offset = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (to[offset + i] == one) to[offset + i] = from[i];
  }
  node.set_result(node.broadcast(input, to));
}

void tile(Node& node) {
  Value input = node.input(0);
  std::vector<AffineExpr> counts = extents_from(node, 1, "repeat");
  int64_t rank = Node::type_of(input).getRank();
  if (node.opset() < 6) {  // one count, for one axis
    const std::vector<int64_t> axes = node.integers(2);
    if (counts.size() != 1 || axes.size() != 1) node.fail("it needs one count and one axis");
    std::vector<AffineExpr> all(static_cast<size_t>(rank), node.builder.getAffineConstantExpr(1));
    all[static_cast<size_t>(node.axis(axes[0], rank))] = counts[0];
    counts = std::move(all);
  }
  if (static_cast<int64_t>(counts.size()) != rank)
    node.fail("it has " + std::to_string(counts.size()) + " repeats for rank " + std::to_string(rank));
  for (AffineExpr count : counts) {
    if (auto known = tx::static_extent(count); known && *known < 0) node.fail("a repeat is " + std::to_string(*known));
  }
  node.set_result(node.repeat(input, counts, /*elements=*/false));
}

// An extent divided into parts of that size. A call in which it is not a multiple of the size is refused.
AffineExpr part_of(Node& node, const Extents& extents, size_t dimension, int64_t size) {
  AffineExpr part = node.computed(quotient(extents[dimension], size)),
             whole = node.computed(product(part, node.builder.getAffineConstantExpr(size)));
  if (!node.graph.symbols.equate(whole, extents[dimension], node.describe(), /*learn=*/false)) {
    node.fail("dimension " + std::to_string(dimension) + " is not a multiple of " + std::to_string(size));
  }
  return part;
}

// DepthToSpace and SpaceToDepth: blocks of an image and channels.
int64_t block_size(Node& node, const Extents& extents) {
  if (extents.size() != 4) node.fail("its input needs rank 4, has " + std::to_string(extents.size()));
  int64_t size = node.integer("blocksize");
  if (size < 1 || size >= 1 << 20) node.fail("blocksize " + std::to_string(size) + " is out of range");
  return size;
}

void depth_to_space(Node& node) {
  Value input = node.input(0);
  Extents from = Node::extents_of(input);
  int64_t block = block_size(node, from);
  AffineExpr size = node.builder.getAffineConstantExpr(block), channels = part_of(node, from, 1, block * block);
  std::string mode = node.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") node.fail("mode '" + mode + "' is not known");
  bool depth_first = mode == "DCR";
  Extents parts =
      depth_first ? Extents{from[0], size, size, channels, from[2], from[3]} : Extents{from[0], channels, size, size, from[2], from[3]};
  SmallVector<int64_t> order = depth_first ? SmallVector<int64_t>{0, 3, 4, 1, 5, 2} : SmallVector<int64_t>{0, 1, 4, 2, 5, 3};
  Value moved = node.transpose(node.reshape(input, parts), order);
  AffineExpr height = node.computed(product(from[2], size)), width = node.computed(product(from[3], size));
  node.set_result(node.reshape(moved, {from[0], channels, height, width}));
}

void space_to_depth(Node& node) {
  Value input = node.input(0);
  Extents from = Node::extents_of(input);
  int64_t block = block_size(node, from);
  AffineExpr size = node.builder.getAffineConstantExpr(block), height = part_of(node, from, 2, block),
             width = part_of(node, from, 3, block);
  Value moved = node.transpose(node.reshape(input, {from[0], from[1], height, size, width, size}), {0, 3, 5, 1, 2, 4});
  AffineExpr channels = node.computed(product(from[1], product(size, size)));
  node.set_result(node.reshape(moved, {from[0], channels, height, width}));
}

void shape(Node& node) {
  const Operand& operand = node.operand(0);
  Extents extents;
  if (operand.value) {
    extents = Node::extents_of(operand.value);
  } else if (operand.rank > 0) {
    auto count = static_cast<int64_t>(operand.elements->size());
    extents.push_back(node.builder.getAffineConstantExpr(operand.is_matrix() ? count / operand.columns : count));
    if (operand.is_matrix()) extents.push_back(node.builder.getAffineConstantExpr(operand.columns));
  }
  int64_t rank = extents.size();
  auto bound = [&](int64_t value) { return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank); };
  int64_t start = bound(node.integer("start", 0)), end = bound(node.integer("end", rank));
  std::vector<AffineExpr> result;
  for (int64_t i = start; i < end; ++i) result.push_back(extents[i]);
  node.set_elements(std::move(result), 1);
}

// The number of elements, as Shape has their extents.
void size(Node& node) {
  const Operand& operand = node.operand(0);
  if (!operand.value) {
    auto count = static_cast<int64_t>(operand.elements->size());
    return node.set_elements({node.builder.getAffineConstantExpr(count)}, 0);
  }
  const Extents extents = Node::extents_of(operand.value);
  AffineExpr zero = node.builder.getAffineConstantExpr(0);
  node.set_elements({llvm::is_contained(extents, zero) ? zero : node.count_of(extents)}, 0);
}

// Whether Dropout drops elements. Up to opset 6 it does unless an attribute says that the model is tested.
bool is_training(Node& node) {
  if (node.opset() < 7) return node.integer("is_test", 0) == 0 && node.number("ratio", 0.5) != 0;
  if (node.opset() < 12 || !node.has_input(2)) return false;
  DenseElementsAttr mode = known_elements(node.input(2));
  if (mode && !mode.getElementType().isInteger(1)) node.fail("training_mode is not a bool");
  if (mode && mode.getNumElements() == 1 && !(*mode.getValues<bool>().begin())) return false;
  if (!node.has_input(1)) return true;
  DenseElementsAttr ratio = known_elements(node.input(1));
  return !ratio || ratio.getNumElements() != 1 || number_of(*ratio.getValues<Attribute>().begin()) != 0;
}

// The same value under another name: Identity, and Dropout outside of training.
void same(Node& node) {
  if (node.type() == "Dropout" && is_training(node)) return dropout_in_training(node);
  node.set_operand(node.type() == "Identity" ? node.any_operand(0) : node.operand(0));
  if (node.wants_output(1)) {  // Dropout's mask: nothing is dropped
    Value input = node.input(0);
    node.set_result(node.splat(tx::with_element_type(Node::type_of(input), node.builder.getI1Type()), 1), 1);
  }
}

void constant(Node& node) {
  if (const onnx::TensorProto* value = node.tensor("value")) {
    if (value->data_type() == onnx::TensorProto::STRING)
      return node.set_text(text_constant(node.builder, *value, "attribute 'value' of " + node.describe(), node.location()));
    const bool is_named = node.graph.names_weights() && node.wants_output(0);
    const std::string name = is_named ? node.output(0) : "constant " + node.describe();
    Operand operand = node.graph.import_tensor(*value, name, node.location(), /*is_attribute=*/false, is_named ? node.describe() : "");
    node.set_operand(std::move(operand));
    return;
  }
  Builder& b = node.builder;
  if (node.has_attribute("value_int") || node.has_attribute("value_ints")) {
    bool list = node.has_attribute("value_ints");
    std::vector<AffineExpr> elements;
    for (int64_t value : list ? node.integer_list("value_ints") : std::vector<int64_t>{node.integer("value_int")}) {
      elements.push_back(b.getAffineConstantExpr(value));
    }
    node.set_elements(std::move(elements), list ? 1 : 0);
    return;
  }
  if (node.has_attribute("value_float")) {
    node.set_result(node.splat(RankedTensorType::get({}, b.getF32Type()), node.number("value_float", 0)));
    return;
  }
  if (node.has_attribute("value_string"))
    return node.set_text(
        text_constant(node.builder, node.text("value_string", ""), {}, "attribute 'value_string' of " + node.describe(), node.location()));
  if (node.has_attribute("value_strings")) {
    const std::vector<std::string> strings = node.text_list("value_strings");
    return node.set_text(text_constant(node.builder, strings, static_cast<int64_t>(strings.size()),
                                       "attribute 'value_strings' of " + node.describe(), node.location()));
  }
  node.fail("only value, value_int, value_ints, value_float, value_string and value_strings are supported", HEDDLE_STATUS_UNIMPLEMENTED);
}

void constant_of_shape(Node& node) {
  Type type = node.builder.getF32Type();
  Attribute value = node.builder.getF32FloatAttr(0);
  if (const onnx::TensorProto* tensor = node.tensor("value")) {
    Operand operand = node.graph.import_tensor(*tensor, "value of " + node.describe(), node.location(), /*is_attribute=*/true);
    DenseElementsAttr dense = known_elements(operand.value);
    if (!dense || dense.getNumElements() != 1) node.fail("attribute 'value' must have one element");
    type = dense.getElementType();
    value = *dense.getValues<Attribute>().begin();
  }
  Extents extents;
  llvm::append_range(extents, extents_from(node, 0, "extent of the result"));
  RankedTensorType ranked = node.tensor_type(extents, type);
  bool whole = type.isSignlessInteger(64) || type.isSignlessInteger(32) || type.isInteger(1);
  if (whole && ranked.hasStaticShape() && ranked.getRank() <= 1 && ranked.getNumElements() <= static_cast<int64_t>(most_shape_elements)) {
    APInt number = llvm::cast<IntegerAttr>(value).getValue();
    AffineExpr element = node.builder.getAffineConstantExpr(type.isInteger(1) ? number.getBoolValue() : number.getSExtValue());
    node.set_elements(std::vector<AffineExpr>(ranked.getNumElements(), element), ranked.getRank(), type.getIntOrFloatBitWidth());
    return;
  }
  RankedTensorType constant_type = ranked.hasStaticShape() ? ranked : RankedTensorType::get({}, type);
  Value result = node.builder.create<tx::ConstantOp>(node.location(), constant_type,
                                                     SplatElementsAttr::get(llvm::cast<ShapedType>(constant_type), value));
  node.set_result(node.broadcast(result, extents));
}

}  // namespace

const Table& shape_operators() {
  static const Table table = {
      {"Concat", concat},
      {"Constant", constant},
      {"ConstantOfShape", constant_of_shape},
      {"DepthToSpace", depth_to_space},
      {"Dropout", same},
      {"Expand", expand},
      {"Flatten", flatten},
      {"Identity", same},
      {"Reshape", reshape},
      {"Shape", shape},
      {"Size", size},
      {"SpaceToDepth", space_to_depth},
      {"Squeeze", squeeze},
      {"Tile", tile},
      {"Transpose", transpose},
      {"Unsqueeze", unsqueeze},
  };
  return table;
}

}  // namespace heddle::import
