// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops with indices that are data. Starts of slices are clamped so that each slice is inside; an update that is not is dropped.
#include "compiler/import/stablehlo_program.h"
#include "compiler/ir/narrow.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

Type index_type(Op& op) {
  return op.builder.getI64Type();
}

// 0 <= start <= most, for a tensor of i64.
Value clamped(Op& op, Value start, int64_t most) {
  return op.binary<tx::MinOp>(op.binary<tx::MaxOp>(start, op.number(start, 0)), op.number(start, static_cast<double>(most)));
}

// The same for indices of any integers and a last place that follows from symbols; a call in which it is below 0 is refused.
Value clamped_to(Op& op, Value start, AffineExpr most) {
  const AffineExpr zero = op.builder.getAffineConstantExpr(0);
  if (!most || !op.program.graph.symbols.require(most, zero, op.describe())) op.fail("its slice does not fit into its operand");
  start = op.converted(start, index_type(op));
  Value last = op.broadcast(op.reshape(op.node.numbers({most}), ArrayRef<int64_t>{}), Op::extents_of(start), {});
  return op.binary<tx::MinOp>(op.binary<tx::MaxOp>(start, op.number(start, 0)), last);
}

// The scalars from operand `first` on, as i64; known ones as numbers.
struct Start {
  std::optional<int64_t> known;
  Value value;
};

std::vector<Start> starts_of(Op& op, unsigned first, Value x, const Extents& sizes) {
  const Extents extents = Op::extents_of(x);
  if (op.input_count() != first + extents.size())
    op.fail("it needs one start index for each of " + std::to_string(extents.size()) + " dimensions");
  std::vector<Start> starts;
  for (unsigned i = 0; i < extents.size(); ++i) {
    const AffineExpr room = difference(extents[i], sizes[i]);
    const auto known_room = room ? tx::static_extent(room) : std::nullopt;
    if (!known_room) {
      starts.push_back({{}, clamped_to(op, op.input(first + i), room)});
      continue;
    }
    const int64_t most = *known_room;
    if (most < 0 || tx::static_extent(sizes[i]).value_or(0) < 0)
      op.fail("its slice does not fit into dimension " + std::to_string(i) + " of its operand");
    Start start;
    if (most == 0) {
      start.known = 0;
    } else if (auto known = op.known_integers(first + i); known && known->size() == 1) {
      start.known = std::clamp<int64_t>(known->front(), 0, most);
    } else {
      Value index = op.input(first + i);
      if (Op::rank_of(index) != 0 || !llvm::isa<IntegerType>(tx::element_of(index)))
        op.fail("start index " + std::to_string(i) + " is no integer of rank 0");
      start.value = clamped(op, op.converted(index, index_type(op)), most);
    }
    starts.push_back(start);
  }
  return starts;
}

// count places from a start on.
Value places_from(Op& op, Value start, int64_t count) {
  Value places = op.iota({count}, 0, index_type(op));
  return op.binary<tx::AddOp>(places, op.broadcast(start, ArrayRef<int64_t>{count}, {}));
}

Value gathered(Op& op, Value x, Value indices, int64_t axis) {
  Extents extents = Op::extents_of(x), of_indices = Op::extents_of(indices), to(extents.begin(), extents.begin() + axis);
  llvm::append_range(to, of_indices);
  to.append(extents.begin() + axis + 1, extents.end());
  return op.make<tx::GatherOp>(op.node.tensor_type(to, tx::element_of(x)), x, indices, axis);
}

void dynamic_slice(Op& op) {
  if (op.input_count() == 0) op.fail("it has no operands");
  Value x = op.input(0);
  const std::vector<int64_t> sizes = op.integers("slice_sizes");
  if (static_cast<int64_t>(sizes.size()) != Op::rank_of(x)) op.fail("slice_sizes needs one number for each dimension");
  Extents of_slice;
  for (int64_t size : sizes) of_slice.push_back(op.builder.getAffineConstantExpr(size));
  const std::vector<Start> starts = starts_of(op, 1, x, of_slice);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto d = static_cast<int64_t>(i);
    x = starts[i].known ? op.slice(x, d, *starts[i].known, *starts[i].known + sizes[i])
                        : gathered(op, x, places_from(op, starts[i].value, sizes[i]), d);
  }
  op.set_result(x);
}

void dynamic_update_slice(Op& op) {
  if (op.input_count() < 2) op.fail("it needs two operands and start indices");
  Value x = op.input(0), update = op.input(1);
  if (tx::element_of(x) != tx::element_of(update) || Op::rank_of(x) != Op::rank_of(update))
    op.fail("its operand and its update have different element types or ranks");
  const Extents extents = Op::extents_of(x), sizes = Op::extents_of(update);
  const std::vector<Start> starts = starts_of(op, 2, x, sizes);
  if (llvm::is_contained(Op::type_of(update).getShape(), 0)) return op.set_result(x);
  SmallVector<int64_t> partial;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != extents[i]) partial.push_back(static_cast<int64_t>(i));
  }
  if (partial.empty()) return op.set_result(update);
  auto start_value = [&](int64_t d) {
    const Start& start = starts[static_cast<size_t>(d)];
    return start.known ? op.splat(RankedTensorType::get({}, index_type(op)), static_cast<double>(*start.known)) : start.value;
  };
  // Slices of the slice, from the outer dimension to the inner one: each is written into the part of the operand that has it.
  std::vector<Value> parts{x};
  for (size_t i = 0; i + 1 < partial.size(); ++i) {
    parts.push_back(gathered(op, parts.back(), places_from(op, start_value(partial[i]), op.extent(update, partial[i])), partial[i]));
  }
  Value result = update;
  for (size_t i = partial.size(); i-- > 0;) {
    const int64_t d = partial[i], size = op.extent(update, d);
    Value places = places_from(op, start_value(d), size);
    result = op.make<tx::ScatterOp>(Op::type_of(parts[i]), parts[i], places, result, op.builder.getI64IntegerAttr(d), tx::ReduceKindAttr());
  }
  op.set_result(result);
}

// ------------------------------------------------------------------------------------------------------ gather and scatter

// Dimensions of an operand, in the order: those of the batch, those that rows of indices name, and the others.
struct Indexing {
  std::vector<int64_t> batch, named, others;
  // The places [batch.., places.., window..] as one index into all batch and named dimensions, and whether the whole window is inside.
  Value index, inside;
  std::vector<int64_t> batch_extents, place_extents, window_extents;  // static
  std::vector<int64_t> window_of;                                     // the named dimension of each window extent
  int64_t rows = 1;                                                   // of all batch and named dimensions
};

bool are_different(ArrayRef<int64_t> list, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t d : list) {
    if (d < 0 || d >= rank || seen[static_cast<size_t>(d)]) return false;
    seen[static_cast<size_t>(d)] = true;
  }
  return true;
}

// `sizes`: of the window in each dimension of the operand. Only windows that reach over a part of a dimension, or one element, take part in the index.
Indexing indexing_of(Op& op, const std::vector<int64_t>& extents, Value indices, int64_t index_vector_dim, ArrayRef<int64_t> index_map,
                     ArrayRef<int64_t> operand_batch, ArrayRef<int64_t> indices_batch, ArrayRef<int64_t> sizes, bool clamps) {
  Indexing result;
  const auto rank = static_cast<int64_t>(extents.size());
  if (!llvm::isa<IntegerType>(tx::element_of(indices))) op.fail("its indices are no integers");
  // An index vector of one element may have no dimension.
  if (index_vector_dim == Op::rank_of(indices)) {
    Extents own = Op::extents_of(indices);
    own.push_back(op.builder.getAffineConstantExpr(1));
    indices = op.reshape(indices, own);
  }
  const std::vector<int64_t> of_indices = op.static_extents(indices);
  const auto indices_rank = static_cast<int64_t>(of_indices.size());
  if (index_vector_dim < 0 || index_vector_dim >= indices_rank)
    op.fail("index_vector_dim " + std::to_string(index_vector_dim) + " is outside of its indices");
  if (of_indices[static_cast<size_t>(index_vector_dim)] != static_cast<int64_t>(index_map.size()))
    op.fail("its index vectors have " + std::to_string(of_indices[static_cast<size_t>(index_vector_dim)]) + " elements, for " +
            std::to_string(index_map.size()) + " dimensions");
  std::vector<int64_t> all_named(index_map.begin(), index_map.end());
  all_named.insert(all_named.end(), operand_batch.begin(), operand_batch.end());
  if (!are_different(all_named, rank) || !are_different(indices_batch, indices_rank) ||
      llvm::is_contained(indices_batch, index_vector_dim) || operand_batch.size() != indices_batch.size())
    op.fail("its dimension numbers do not name different dimensions");
  for (auto [a, b] : llvm::zip(operand_batch, indices_batch)) {
    if (extents[static_cast<size_t>(a)] != of_indices[static_cast<size_t>(b)]) op.fail("extents of its batch dimensions differ");
  }
  result.batch.assign(operand_batch.begin(), operand_batch.end());
  for (int64_t d = 0; d < rank; ++d) {
    if (llvm::is_contained(operand_batch, d)) continue;
    // A window that begins at 0 and is no whole dimension is a named one, too.
    const bool is_named = llvm::is_contained(index_map, d) || sizes[static_cast<size_t>(d)] != extents[static_cast<size_t>(d)];
    (is_named ? result.named : result.others).push_back(d);
  }
  // [batch.., places.., vector]
  SmallVector<int64_t> order(indices_batch.begin(), indices_batch.end());
  for (int64_t d = 0; d < indices_rank; ++d) {
    if (d == index_vector_dim || llvm::is_contained(indices_batch, d)) continue;
    order.push_back(d);
    result.place_extents.push_back(of_indices[static_cast<size_t>(d)]);
  }
  order.push_back(index_vector_dim);
  for (int64_t d : operand_batch) result.batch_extents.push_back(extents[static_cast<size_t>(d)]);
  Value vectors = op.converted(op.transpose(indices, order), index_type(op));
  for (int64_t d : result.named) {
    if (sizes[static_cast<size_t>(d)] != 1) {
      result.window_extents.push_back(sizes[static_cast<size_t>(d)]);
      result.window_of.push_back(d);
    }
  }
  std::vector<int64_t> to = result.batch_extents;
  to.insert(to.end(), result.place_extents.begin(), result.place_extents.end());
  const auto outer = static_cast<int64_t>(to.size());
  SmallVector<int64_t> of_outer;
  for (int64_t i = 0; i < outer; ++i) of_outer.push_back(i);
  std::vector<int64_t> whole = to;
  whole.insert(whole.end(), result.window_extents.begin(), result.window_extents.end());
  RankedTensorType type = RankedTensorType::get(whole, index_type(op));
  for (int64_t extent : whole) {
    if (extent < 0 || extent > largest_extent) op.fail("its window is out of range");
  }
  auto append = [&](Value component, int64_t extent) {
    result.index = result.index ? op.binary<tx::AddOp>(
                                      op.binary<tx::MulOp>(result.index, op.number(result.index, static_cast<double>(extent))), component)
                                : component;
    if (__builtin_mul_overflow(result.rows, extent, &result.rows)) op.fail("its operand is too large");
  };
  for (auto [i, extent] : llvm::enumerate(result.batch_extents))
    append(op.make<tx::IotaOp>(type, op.builder.getI64IntegerAttr(static_cast<int64_t>(i))), extent);
  for (int64_t d : result.named) {
    const int64_t extent = extents[static_cast<size_t>(d)], size = sizes[static_cast<size_t>(d)], most = extent - size;
    const auto* found = llvm::find(index_map, d);
    Value component;
    if (found != index_map.end()) {
      const int64_t column = found - index_map.begin();
      Value start = op.reshape(op.slice(vectors, outer, column, column + 1), to);
      if (clamps) {
        start = clamped(op, start, most);
      } else {
        Value fits = op.select(op.compare(tx::CompareKind::ge, start, op.number(start, 0)),
                               op.compare(tx::CompareKind::le, start, op.number(start, static_cast<double>(most))),
                               op.splat(tx::with_element_type(Op::type_of(start), op.builder.getI1Type()), 0));
        result.inside = result.inside ? combined(op, Combine::land, result.inside, fits) : fits;
      }
      component = op.broadcast(start, whole, of_outer);
    }
    if (size != 1) {
      const auto position = outer + (llvm::find(result.window_of, d) - result.window_of.begin());
      Value offset = op.make<tx::IotaOp>(type, op.builder.getI64IntegerAttr(position));
      component = component ? op.binary<tx::AddOp>(component, offset) : offset;
    }
    if (!component) component = op.splat(type, 0);
    append(component, extent);
  }
  if (!result.index) result.index = op.splat(type, 0);
  if (result.inside) result.inside = op.broadcast(result.inside, whole, of_outer);
  return result;
}

// The operand as [rows of batch and named dimensions, others..].
Value in_rows(Op& op, Value x, const Indexing& indexing, SmallVector<int64_t>& order) {
  order.assign(indexing.batch.begin(), indexing.batch.end());
  order.append(indexing.named.begin(), indexing.named.end());
  order.append(indexing.others.begin(), indexing.others.end());
  const std::vector<int64_t> extents = op.static_extents(x);
  std::vector<int64_t> to{indexing.rows};
  for (int64_t d : indexing.others) to.push_back(extents[static_cast<size_t>(d)]);
  return op.reshape(op.transpose(x, order), to);
}

// The extents of a slice that is gathered: an attribute, or an operand. Where they are data, the declared extents of the result have them.
std::vector<int64_t> slice_sizes(Op& op, const Fields& fields, int64_t rank) {
  if (op.name() != "stablehlo.dynamic_gather") return op.integers("slice_sizes");
  if (auto known = op.known_integers(2)) return *known;
  const RankedTensorType type = op.result_type();
  std::vector<int64_t> sizes, offsets = fields.list("offset_dims");
  llvm::sort(offsets);
  const std::vector<int64_t> collapsed = fields.list("collapsed_slice_dims"), batch = fields.list("operand_batching_dims");
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    if (llvm::is_contained(collapsed, d) || llvm::is_contained(batch, d)) {
      sizes.push_back(1);
    } else if (next < offsets.size() && offsets[next] >= 0 && offsets[next] < type.getRank()) {
      sizes.push_back(type.getDimSize(offsets[next++]));
    } else {
      op.fail("offset_dims do not fit the ranks of its operand and its result");
    }
  }
  return sizes;
}

// Whole slices at places along one dimension, which is removed: look-ups of rows, for any extents.
bool look_up(Op& op, const Fields& fields, Value x, Value indices, ArrayRef<int64_t> sizes) {
  const std::vector<int64_t> offset_dims = fields.list("offset_dims"), collapsed = fields.list("collapsed_slice_dims"),
                             index_map = fields.list("start_index_map");
  const int64_t rank = Op::rank_of(x), vector_dim = fields.number("index_vector_dim", 0);
  if (!fields.list("operand_batching_dims").empty() || collapsed.size() != 1 || collapsed != index_map || collapsed[0] < 0 ||
      collapsed[0] >= rank || !llvm::isa<IntegerType>(tx::element_of(indices)) || static_cast<int64_t>(offset_dims.size()) != rank - 1)
    return false;
  const int64_t axis = collapsed[0];
  const Extents extents = Op::extents_of(x);
  Extents of_indices = Op::extents_of(indices);
  if (vector_dim < 0 || vector_dim > static_cast<int64_t>(of_indices.size())) return false;
  if (vector_dim < static_cast<int64_t>(of_indices.size())) {
    if (!tx::is_one(of_indices[static_cast<size_t>(vector_dim)])) return false;
    of_indices.erase(of_indices.begin() + vector_dim);
  }
  for (int64_t d = 0; d < rank; ++d) {
    const auto known = tx::static_extent(extents[static_cast<size_t>(d)]);
    if (d == axis ? sizes[static_cast<size_t>(d)] != 1 : known != sizes[static_cast<size_t>(d)]) return false;
  }
  const int64_t places = static_cast<int64_t>(of_indices.size()), result_rank = places + rank - 1;
  if (tx::static_extent(extents[static_cast<size_t>(axis)]) == 0 || !are_different(offset_dims, result_rank)) return false;
  Value start =
      clamped_to(op, op.reshape(indices, of_indices), difference(extents[static_cast<size_t>(axis)], op.builder.getAffineConstantExpr(1)));
  Value result = gathered(op, x, start, axis);
  std::vector<int64_t> sorted = offset_dims;
  llvm::sort(sorted);
  SmallVector<int64_t> permutation;
  int64_t next_place = axis, next_offset = 0;
  for (int64_t d = 0; d < result_rank; ++d) {
    if (!llvm::is_contained(sorted, d)) {
      permutation.push_back(next_place++);
    } else {
      permutation.push_back(next_offset < axis ? next_offset : next_offset + places);
      ++next_offset;
    }
  }
  op.set_result(op.transpose(result, permutation));
  return true;
}

void gather(Op& op) {
  op.expect(op.name() == "stablehlo.dynamic_gather" ? 3 : 2);
  Value x = op.input(0), indices = op.input(1);
  auto fields = fields_of(op.attribute("dimension_numbers"), "gather");
  if (!fields) op.fail("attribute 'dimension_numbers' is not #stablehlo.gather<..>");
  const std::vector<int64_t> sizes = slice_sizes(op, *fields, Op::rank_of(x));
  if (static_cast<int64_t>(sizes.size()) == Op::rank_of(x) && look_up(op, *fields, x, indices, sizes)) return;
  const std::vector<int64_t> extents = op.static_extents(x);
  const std::vector<int64_t> offset_dims = fields->list("offset_dims"), collapsed = fields->list("collapsed_slice_dims"),
                             operand_batch = fields->list("operand_batching_dims"),
                             indices_batch = fields->list("start_indices_batching_dims"), index_map = fields->list("start_index_map");
  const auto rank = static_cast<int64_t>(extents.size());
  if (static_cast<int64_t>(sizes.size()) != rank) op.fail("slice_sizes needs one number for each dimension");
  std::vector<int64_t> removed = collapsed;
  removed.insert(removed.end(), operand_batch.begin(), operand_batch.end());
  if (!are_different(removed, rank)) op.fail("collapsed_slice_dims and operand_batching_dims do not name different dimensions");
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    if (sizes[at] < 0 || sizes[at] > extents[at] || (llvm::is_contained(removed, d) && sizes[at] > 1))
      op.fail("a slice of " + std::to_string(sizes[at]) + " elements of dimension " + std::to_string(d) + " with extent " +
              std::to_string(extents[at]) + " is not possible");
  }
  RankedTensorType type = op.result_type();
  if (llvm::is_contained(type.getShape(), 0)) return op.set_result(op.node.splat(type, 0));
  if (llvm::is_contained(extents, 0)) op.fail("its operand has no elements");
  const Indexing indexing = indexing_of(op, extents, indices, fields->number("index_vector_dim", 0), index_map, operand_batch,
                                        indices_batch, sizes, /*clamps=*/true);
  // [batch.., places.., windows.., others..]
  SmallVector<int64_t> order;
  Value result = gathered(op, in_rows(op, x, indexing, order), indexing.index, 0);
  // Dimensions of windows that are one element, and not removed, are there with an extent of 1.
  std::vector<int64_t> now = op.static_extents(result);
  const size_t outer = indexing.batch_extents.size() + indexing.place_extents.size();
  std::vector<int64_t> window_dims = indexing.window_of;  // of the operand, in the order of the result after `outer`
  window_dims.insert(window_dims.end(), indexing.others.begin(), indexing.others.end());
  std::vector<int64_t> kept_dims, kept_extents(now.begin(), now.begin() + static_cast<int64_t>(outer));
  for (auto [i, d] : llvm::enumerate(window_dims)) {
    if (llvm::is_contained(removed, d)) continue;
    kept_dims.push_back(d);
    kept_extents.push_back(now[outer + i]);
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (llvm::is_contained(removed, d) || llvm::is_contained(window_dims, d)) continue;
    kept_dims.push_back(d);
    kept_extents.push_back(1);
  }
  result = op.reshape(result, kept_extents);
  // Positions in the result: offset_dims get the dimensions of the window in the operand's order, all others the places in the order of the indices.
  const int64_t result_rank = type.getRank();
  if (!are_different(offset_dims, result_rank) || offset_dims.size() != kept_dims.size() ||
      static_cast<size_t>(result_rank) != kept_extents.size())
    op.fail("offset_dims do not fit the rank of its result");
  std::vector<int64_t> sorted = kept_dims, sorted_offsets = offset_dims;
  llvm::sort(sorted);
  llvm::sort(sorted_offsets);
  SmallVector<int64_t> permutation(static_cast<size_t>(result_rank), -1);
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto position = llvm::find(kept_dims, sorted[i]) - kept_dims.begin();
    permutation[static_cast<size_t>(sorted_offsets[i])] = static_cast<int64_t>(outer) + position;
  }
  // Places in the order of dimensions of the indices without the index vector; the batch dimensions are among them.
  const int64_t index_vector_dim = fields->number("index_vector_dim", 0);
  std::vector<int64_t> positions;
  size_t next_place = indexing.batch_extents.size();
  for (int64_t d = 0; d < Op::rank_of(indices) + (index_vector_dim == Op::rank_of(indices) ? 1 : 0); ++d) {
    if (d == index_vector_dim) continue;
    const auto found = llvm::find(indices_batch, d);
    positions.push_back(found != indices_batch.end() ? found - indices_batch.begin() : static_cast<int64_t>(next_place++));
  }
  size_t next = 0;
  for (int64_t& place : permutation) {
    if (place == -1) place = positions[next++];
  }
  op.set_result(op.transpose(result, permutation));
}

// How updates change what is there.
struct Change {
  std::optional<tx::ReduceKind> kind;  // nothing: they replace it
  bool negates = false;                // before they are added
};

// Nothing if the body does something else.
std::optional<Change> change_of(Region& body, unsigned index, unsigned count, Type element) {
  if (!body.hasOneBlock()) return {};
  Block& block = body.front();
  if (block.getNumArguments() != 2 * count || block.empty() || block.back().getNumOperands() != count) return {};
  Value given = block.back().getOperand(index), old = block.getArgument(index), update = block.getArgument(count + index);
  if (given == update) return Change{};
  const bool of_bools = element.isInteger(1);
  if (auto kind = combination(body, index, count)) {
    switch (*kind) {
      case Combine::add:
        return Change{of_bools ? tx::ReduceKind::max : tx::ReduceKind::sum};
      case Combine::mul:
        return Change{of_bools ? tx::ReduceKind::min : tx::ReduceKind::prod};
      case Combine::max:
        return Change{tx::ReduceKind::max};
      case Combine::min:
        return Change{tx::ReduceKind::min};
      case Combine::land:
        return of_bools ? std::optional(Change{tx::ReduceKind::min}) : std::nullopt;
      case Combine::lor:
        return of_bools ? std::optional(Change{tx::ReduceKind::max}) : std::nullopt;
      case Combine::lxor:
        return {};
    }
  }
  Operation* op = given.getDefiningOp();
  if (op && op->getName().getStringRef() == "stablehlo.subtract" && op->getNumOperands() == 2 && op->getOperand(0) == old &&
      op->getOperand(1) == update && !of_bools)
    return Change{tx::ReduceKind::sum, true};
  return {};
}

void scatter(Op& op) {
  if (op.input_count() % 2 == 0 || op.input_count() < 3 || op.source().getNumRegions() != 1)
    op.fail("it needs operands, indices, as many updates, and one region");
  const unsigned count = op.input_count() / 2;
  if (op.source().getNumResults() != count) op.fail("it has other numbers of operands and results");
  auto fields = fields_of(op.attribute("scatter_dimension_numbers"), "scatter");
  if (!fields) op.fail("attribute 'scatter_dimension_numbers' is not #stablehlo.scatter<..>");
  auto parts_of = [&](unsigned index) {
    SmallVector<Value, 2> parts = op.data(index).parts;
    if (parts.empty()) parts.push_back(op.input(index));
    return parts;
  };
  const std::vector<int64_t> window_dims = fields->list("update_window_dims"), inserted = fields->list("inserted_window_dims"),
                             operand_batch = fields->list("input_batching_dims"),
                             indices_batch = fields->list("scatter_indices_batching_dims"),
                             index_map = fields->list("scatter_dims_to_operand_dims");
  Value indices = op.input(count);
  const std::vector<int64_t> extents = op.static_extents(parts_of(0)[0]), of_updates = op.static_extents(parts_of(count + 1)[0]);
  const auto rank = static_cast<int64_t>(extents.size()), update_rank = static_cast<int64_t>(of_updates.size());
  std::vector<int64_t> removed = inserted;
  removed.insert(removed.end(), operand_batch.begin(), operand_batch.end());
  if (!are_different(removed, rank) || !are_different(window_dims, update_rank) || window_dims.size() + removed.size() != extents.size())
    op.fail("update_window_dims, inserted_window_dims and input_batching_dims do not name each dimension once");
  std::vector<int64_t> sorted_windows = window_dims, sizes(extents.size(), 1);
  llvm::sort(sorted_windows);
  std::vector<int64_t> update_dim_of(extents.size(), -1);
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    const auto at = static_cast<size_t>(d);
    if (llvm::is_contained(removed, d)) continue;
    update_dim_of[at] = sorted_windows[next++];
    sizes[at] = of_updates[static_cast<size_t>(update_dim_of[at])];
  }
  const bool is_empty = llvm::is_contained(of_updates, 0) || llvm::is_contained(extents, 0);
  for (int64_t d = 0; d < rank; ++d) {
    if (!is_empty && sizes[static_cast<size_t>(d)] > extents[static_cast<size_t>(d)])
      op.fail("its updates do not fit into dimension " + std::to_string(d));
  }
  if (is_empty) {
    for (unsigned i = 0; i < count; ++i) op.set_data(op.data(i), i);
    return;
  }
  const int64_t index_vector_dim = fields->number("index_vector_dim", 0);
  const Indexing indexing =
      indexing_of(op, extents, indices, index_vector_dim, index_map, operand_batch, indices_batch, sizes, /*clamps=*/false);
  // Places in the updates, in the order of the indices.
  std::vector<int64_t> place_dims;
  for (int64_t d = 0; d < update_rank; ++d) {
    if (!llvm::is_contained(window_dims, d)) place_dims.push_back(d);
  }
  std::vector<int64_t> batch_dims, rest_dims;
  size_t position = 0;
  batch_dims.assign(indices_batch.size(), -1);
  for (int64_t d = 0; d < Op::rank_of(indices) + (index_vector_dim == Op::rank_of(indices) ? 1 : 0); ++d) {
    if (d == index_vector_dim) continue;
    if (position >= place_dims.size()) op.fail("its updates have another rank than its indices and windows");
    const auto found = llvm::find(indices_batch, d);
    if (found != indices_batch.end()) {
      batch_dims[static_cast<size_t>(found - indices_batch.begin())] = place_dims[position++];
    } else {
      rest_dims.push_back(place_dims[position++]);
    }
  }
  if (position != place_dims.size()) op.fail("its updates have another rank than its indices and windows");
  SmallVector<int64_t> order(batch_dims.begin(), batch_dims.end());
  order.append(rest_dims.begin(), rest_dims.end());
  std::vector<int64_t> expected = indexing.batch_extents;
  expected.insert(expected.end(), indexing.place_extents.begin(), indexing.place_extents.end());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (of_updates[static_cast<size_t>(order[i])] != expected[i]) op.fail("extents of its updates and indices differ");
  }
  // Windows of one element have no dimension in the index; their dimensions in the updates come last.
  for (int64_t d : indexing.window_of) order.push_back(update_dim_of[static_cast<size_t>(d)]);
  for (int64_t d : indexing.others) {
    if (update_dim_of[static_cast<size_t>(d)] >= 0) order.push_back(update_dim_of[static_cast<size_t>(d)]);
  }
  for (int64_t d : window_dims) {
    if (!llvm::is_contained(order, d)) order.push_back(d);
  }
  int64_t all = 1;
  for (int64_t extent : op.static_extents(indexing.index)) all *= extent;
  Value index = indexing.index;
  if (indexing.inside) index = op.select(indexing.inside, index, op.number(index, static_cast<double>(indexing.rows)));
  index = op.reshape(index, ArrayRef<int64_t>{all});
  Region& body = op.source().getRegion(0);
  SmallVector<int64_t> to_rows;
  std::vector<SmallVector<Value, 2>> flat(count), updates(count);
  std::vector<int64_t> row_extents;
  for (unsigned i = 0; i < count; ++i) {
    for (Value x : parts_of(i)) {
      if (op.static_extents(x) != extents) op.fail("its operands have different shapes");
      flat[i].push_back(in_rows(op, x, indexing, to_rows));
    }
    row_extents = op.static_extents(flat[i][0]);
    std::vector<int64_t> of_rows = row_extents;
    of_rows[0] = all;
    for (Value update : parts_of(count + 1 + i)) {
      if (op.static_extents(update) != of_updates) op.fail("its updates have different shapes");
      updates[i].push_back(op.reshape(op.transpose(update, order), of_rows));
    }
    if (updates[i].size() != flat[i].size() || tx::element_of(updates[i][0]) != tx::element_of(flat[i][0]))
      op.fail("its operands and updates have different element types");
  }
  std::vector<Change> changes;
  for (unsigned i = 0; i < count; ++i) {
    std::optional<Change> change = change_of(body, i, count, tx::element_of(flat[i][0]));
    const bool is_plain = change && (!change->kind || (flat[i].size() == 1 || change->kind == tx::ReduceKind::sum));
    if (!is_plain || (change->kind && tx::narrow_format(tx::element_of(flat[i][0])))) break;
    changes.push_back(*change);
  }
  if (changes.size() != count) {
    // Any body, where no element is updated twice: applied to what is there.
    if (!op.flag("unique_indices"))
      op.unsupported(
          "its body is not one of add, subtract, multiply, maximum, minimum, and and or of its arguments, nor its update, and "
          "unique_indices is not set");
    std::vector<Data> arguments;
    Value inside = clamped(op, index, indexing.rows - 1);
    for (unsigned i = 0; i < count; ++i) {
      Data& data = arguments.emplace_back();
      for (Value x : flat[i]) data.parts.push_back(gathered(op, x, inside, 0));
    }
    for (unsigned i = 0; i < count; ++i) {
      Data& data = arguments.emplace_back();
      data.parts = updates[i];
    }
    std::vector<Data> results = op.program.apply(op, body, arguments, Op::extents_of(updates[0][0]));
    if (results.size() != count) op.fail("its body has another number of results");
    for (unsigned i = 0; i < count; ++i) {
      if (results[i].parts.size() != flat[i].size()) op.fail("its body gives values of other types");
      updates[i] = results[i].parts;
    }
    changes.assign(count, Change{});
  }
  std::vector<int64_t> ordered;
  SmallVector<int64_t> back(extents.size());
  for (auto [i, d] : llvm::enumerate(to_rows)) {
    ordered.push_back(extents[static_cast<size_t>(d)]);
    back[static_cast<size_t>(d)] = static_cast<int64_t>(i);
  }
  for (unsigned i = 0; i < count; ++i) {
    Data data;
    for (auto [x, update] : llvm::zip(flat[i], updates[i])) {
      Value change = update;
      if (changes[i].negates)
        change = llvm::isa<FloatType>(tx::element_of(change)) ? op.make<tx::NegOp>(Op::type_of(change), change)
                                                              : op.binary<tx::SubOp>(op.number(change, 0), change);
      auto kind = changes[i].kind ? tx::ReduceKindAttr::get(op.builder.getContext(), *changes[i].kind) : tx::ReduceKindAttr();
      Value result = op.make<tx::ScatterOp>(Op::type_of(x), x, index, change, op.builder.getI64IntegerAttr(0), kind);
      data.parts.push_back(op.transpose(op.reshape(result, ordered), back));
    }
    op.set_data(std::move(data), i);
  }
}

}  // namespace

const Table& indexing_ops() {
  static const Table table = {
      {"stablehlo.dynamic_gather", {gather, kByParts}},
      {"stablehlo.dynamic_slice", {dynamic_slice, kByParts}},
      {"stablehlo.dynamic_update_slice", {dynamic_update_slice, kByParts}},
      {"stablehlo.gather", {gather, kByParts}},
      {"stablehlo.scatter", {scatter, kComplex | kNarrow}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
