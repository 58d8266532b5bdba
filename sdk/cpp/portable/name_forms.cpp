// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms_of_names.h. Which operands, attributes and results of an op fit each other. What is checked here, terms_of_*.cpp rely on.
#include <algorithm>

#include "heddle/sdk/portable/ops.h"
#include "terms_of_names.h"

namespace heddle::sdk::portable {

namespace {

using Integers = std::vector<int64_t>;

std::string shown(const Integers& extents) {
  std::string text = "[";
  for (size_t i = 0; i < extents.size(); ++i) text += (i ? ", " : "") + std::to_string(extents[i]);
  return text + "]";
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Disagreement{what};
}

void require_extents(const Integers& result, const Integers& expected) {
  require(result == expected, "its result has extents " + shown(result) + ", and its operands and attributes make it " + shown(expected));
}

Integers part(const Integers& from, size_t first, size_t end) {
  return Integers(from.begin() + static_cast<std::ptrdiff_t>(first), from.begin() + static_cast<std::ptrdiff_t>(end));
}

Integers joined(Integers first, const Integers& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The number of windows along a dimension.
int64_t windows_of(int64_t extent, int64_t low, int64_t high, int64_t kernel, int64_t stride, int64_t dilation) {
  require(stride > 0, "a stride is not positive");
  require(dilation > 0, "a dilation is not positive");
  require(kernel > 0, "a window has no elements");
  constexpr int64_t kMost = int64_t{1} << 20;
  if (kernel > kMost || dilation > kMost) throw Unknown{"a window is too large to compare"};
  const int64_t room = extent + low + high - (dilation * (kernel - 1) + 1);
  return room >= 0 ? room / stride + 1 : 0;
}

size_t least_operands(const std::string& operands) {
  size_t count = 0;
  int depth = 0;
  bool in_name = false;
  for (char c : operands) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    const bool is_letter = c >= 'a' && c <= 'z';
    if (is_letter && !in_name && depth == 0) ++count;
    in_name = is_letter;
  }
  return count;
}

size_t most_operands(const std::string& operands) {
  if (operands.find("...") != std::string::npos) return SIZE_MAX;
  return static_cast<size_t>(std::count(operands.begin(), operands.end(), ',')) + (operands.empty() ? 0 : 1);
}

}  // namespace

void NameTerms::check(uint32_t number) const {
  const NamedOp& op = kernel_.ops[number];
  const std::string& name = op.name;
  std::string reason;
  if (!is_as_known(op, &reason)) throw Unknown{reason};
  const std::string operands = known_op(name)->operands;
  require(op.operands.size() >= least_operands(operands) && op.operands.size() <= most_operands(operands),
          "it has " + std::to_string(op.operands.size()) + " operands, and the op: " + operands);
  const Value& result = values_[kernel_.inputs + number];
  const Integers& to = result.extents;
  stored_as(result.type);
  if (name == "constant") {
    const bool real = is_float(stored_as(result.type));
    const bool has_real = attribute_of<double>(op, "real") != nullptr, has_integer = attribute_of<int64_t>(op, "integer") != nullptr;
    if (!has_real && !has_integer) throw Unknown{"its name does not say which values it has"};
    require(real ? has_real : has_integer, "it has no value of its type");
    return;
  }
  if (name == "iota") {
    const int64_t dimension = integer_of(op, "dimension");
    require(dimension >= 0 && dimension < static_cast<int64_t>(to.size()), "it has no such dimension");
    return;
  }
  const Value& x = operand(op, 0);
  const Integers& from = x.extents;
  const size_t rank = from.size();
  auto axis_of = [&] {
    const int64_t axis = integer_of(op, "axis");
    require(axis >= 0 && axis < static_cast<int64_t>(rank), "it has no axis " + std::to_string(axis));
    return static_cast<size_t>(axis);
  };
  auto same_type = [&](size_t i) { require(operand(op, i).type == result.type, "an operand has another type than its result"); };
  auto integers = [&](size_t i) { require(!is_float(stored_as(operand(op, i).type)), "its indices are no integers"); };

  if (name == "reshape") {
    require(count_of(from) == count_of(to), "its result has another number of elements");
    same_type(0);
  } else if (name == "transpose") {
    const Integers permutation = list_of(op, "permutation", rank);
    Integers sorted = permutation, expected;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < rank; ++i) require(sorted[i] == static_cast<int64_t>(i), "its permutation is none");
    for (int64_t dimension : permutation) expected.push_back(from[static_cast<size_t>(dimension)]);
    require_extents(to, expected);
    same_type(0);
  } else if (name == "broadcast") {
    const Integers dimensions = list_of(op, "dimensions", rank);
    for (size_t i = 0; i < rank; ++i) {
      require(dimensions[i] >= 0 && dimensions[i] < static_cast<int64_t>(to.size()), "its result has no such dimension");
      require(from[i] == 1 || from[i] == to[static_cast<size_t>(dimensions[i])], "a dimension is not repeated, and has another extent");
    }
    same_type(0);
  } else if (name == "slice") {
    const Integers starts = list_of(op, "starts", rank), strides = list_of(op, "strides", rank);
    require(to.size() == rank, "its result has another rank");
    for (size_t i = 0; i < rank; ++i) {
      if (count_of(to) == 0) break;
      int64_t last;
      require(!__builtin_mul_overflow(to[i] - 1, strides[i], &last) && !__builtin_add_overflow(starts[i], last, &last),
              "a slice is too large");
      require(starts[i] >= 0 && starts[i] < from[i] && last >= 0 && last < from[i], "a slice is outside of its operand");
    }
    same_type(0);
  } else if (name == "pad") {
    const Integers low = list_of(op, "low", rank), high = list_of(op, "high", rank);
    Integers expected = from;
    for (size_t i = 0; i < rank; ++i) {
      require(low[i] >= 0 && high[i] >= 0, "it pads by a negative number");
      expected[i] += low[i] + high[i];
    }
    require_extents(to, expected);
    same_type(0);
  } else if (name == "concat") {
    const size_t axis = axis_of();
    Integers expected = from;
    expected[axis] = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      Integers own = operand(op, i).extents;
      require(own.size() == rank, "its operands have different ranks");
      if (expected[axis] >= kFar - own[axis]) throw Unknown{"its operands are too large to compare"};
      expected[axis] += own[axis];
      own[axis] = from[axis];
      require(own == from, "its operands have different extents");
      same_type(i);
    }
    require_extents(to, expected);
  } else if (name == "gather") {
    const size_t axis = axis_of();
    integers(1);
    if (!text_of(op, "blocks").empty()) {
      require(axis == 0 && rank == 2 && to.size() == operand(op, 1).extents.size() + 1 && result.type == HEDDLE_TYPE_F32,
              "its rows of blocks are no matrix");
      require(part(to, 0, to.size() - 1) == operand(op, 1).extents && bytes_of(stored_as(x.type)) == 1, "its result has other extents");
    } else {
      require_extents(to, joined(joined(part(from, 0, axis), operand(op, 1).extents), part(from, axis + 1, rank)));
      same_type(0);
    }
  } else if (name == "gather_elements") {
    const size_t axis = axis_of();
    integers(1);
    require_extents(to, operand(op, 1).extents);
    require(to.size() == rank, "its operands have different ranks");
    for (size_t i = 0; i < rank; ++i) require(i == axis || to[i] <= from[i], "its indices have more elements than its operand");
    same_type(0);
  } else if (name == "gather_nd") {
    integers(1);
    const Integers& rows = operand(op, 1).extents;
    const int64_t batch = integer_of(op, "batch_dims");
    require(!rows.empty() && batch >= 0 && batch < static_cast<int64_t>(rows.size()), "its indices have no such batch");
    const int64_t used = batch + rows.back();
    require(rows.back() <= static_cast<int64_t>(rank) && used <= static_cast<int64_t>(rank),
            "its operand has fewer dimensions than a row of indices");
    const auto count = static_cast<size_t>(batch);
    require(part(from, 0, count) == part(rows, 0, count), "the batches are different");
    require_extents(to, joined(part(rows, 0, rows.size() - 1), part(from, static_cast<size_t>(used), rank)));
    same_type(0);
  } else if (name == "matmul") {
    const Value& y = operand(op, 1);
    require(rank >= 2 && y.extents.size() >= 2, "a factor is no matrix");
    if (!text_of(op, "blocks").empty()) {
      require(!flag_of(op, "transpose_lhs") && flag_of(op, "transpose_rhs") && y.extents.size() == 2 && op.operands.size() == 2,
              "its rows of blocks are no matrix, or it has a zero");
      Integers expected = from;
      expected.back() = y.extents[0];
      require_extents(to, expected);
      require(computed_as(result.type) == Scalar::kF32 && bytes_of(stored_as(y.type)) == 1,
              "its blocks are no bytes, or its result is no f32");
      return;
    }
    Integers left = from, right = y.extents;
    if (flag_of(op, "transpose_lhs")) std::swap(left[rank - 2], left[rank - 1]);
    if (flag_of(op, "transpose_rhs")) std::swap(right[right.size() - 2], right.back());
    require(left.back() == right[right.size() - 2], "its factors have different depths");
    require(right.size() == 2 || part(right, 0, right.size() - 2) == part(left, 0, rank - 2), "its factors have different batches");
    Integers expected = left;
    expected.back() = right.back();
    require_extents(to, expected);
    if (op.operands.size() > 2) require(operand(op, 2).extents == Integers{right.back()}, "its zero has other extents");
  } else if (name == "conv") {
    const Integers& filter = operand(op, 1).extents;
    require(rank >= 2 && filter.size() == rank, "its filter has another rank");
    const size_t spatial = rank - 2;
    const int64_t groups = integer_of(op, "groups");
    require(groups > 0 && filter.back() % groups == 0 && filter.back() > 0 && from.back() % groups == 0 &&
                filter[spatial] == from.back() / groups,
            "its groups do not divide its channels");
    const Integers strides = list_of(op, "strides", spatial), dilations = list_of(op, "dilations", spatial),
                   low = list_of(op, "pads_low", spatial), high = list_of(op, "pads_high", spatial);
    Integers expected = from;
    for (size_t i = 0; i < spatial; ++i) expected[i + 1] = windows_of(from[i + 1], low[i], high[i], filter[i], strides[i], dilations[i]);
    expected.back() = filter.back();
    require_extents(to, expected);
    if (op.operands.size() > 2) require(operand(op, 2).extents == Integers{filter.back()}, "its zero has other extents");
  } else if (name == "pool") {
    require(rank >= 2 && to.size() == rank, "it has no images");
    const size_t spatial = rank - 2;
    const Integers kernel = list_of(op, "kernel", spatial), strides = list_of(op, "strides", spatial),
                   dilations = list_of(op, "dilations", spatial), low = list_of(op, "pads_low", spatial),
                   high = list_of(op, "pads_high", spatial);
    Integers expected = from;
    // Windows may begin anywhere before the end of the pads: what is beyond is not counted.
    for (size_t i = 0; i < spatial; ++i) {
      windows_of(from[i + 1], low[i], high[i], kernel[i], strides[i], dilations[i]);  // are they too large?
      const int64_t fit = windows_of(from[i + 1] + kernel[i] * dilations[i], low[i], high[i], kernel[i], strides[i], dilations[i]);
      const int64_t whole = from[i + 1] + low[i] + high[i] - (dilations[i] * (kernel[i] - 1) + 1);
      const int64_t least = whole < 0 ? 1 : whole / strides[i] + 1;
      expected[i + 1] = to[i + 1] >= least && to[i + 1] <= std::min(fit, least + 1) ? to[i + 1] : least;
    }
    require_extents(to, expected);
    same_type(0);
  } else if (name == "reduce" || name == "arg_reduce") {
    Integers axes, expected;
    if (name == "reduce") {
      const auto* all = attribute_of<Integers>(op, "axes");
      axes = list_of(op, "axes", all ? all->size() : 0);
      same_type(0);
    } else {
      axes = {static_cast<int64_t>(axis_of())};
      require(result.type == HEDDLE_TYPE_I64, "its result has no i64");
    }
    for (size_t i = 0; i < axes.size(); ++i)
      require(axes[i] >= (i ? axes[i - 1] + 1 : 0) && axes[i] < static_cast<int64_t>(rank), "its axes are no rising list of dimensions");
    for (size_t i = 0; i < rank; ++i) {
      if (!std::count(axes.begin(), axes.end(), static_cast<int64_t>(i))) expected.push_back(from[i]);
    }
    require_extents(to, expected);
  } else if (name == "softmax" || name == "cumsum" || name == "lrn") {
    require(rank > 0, "its operand has no dimensions");
    if (name == "lrn") {
      const int64_t size = integer_of(op, "size");
      require(size > 0 && is_float(stored_as(x.type)), "its window has no elements, or these are no floats");
    } else {
      axis_of();
    }
    require_extents(to, from);
    same_type(0);
  } else if (name == "scatter") {
    const size_t axis = axis_of();
    integers(1);
    const Integers &indices = operand(op, 1).extents, &updates = operand(op, 2).extents;
    require_extents(to, from);
    Integers expected = from;
    require(updates.size() == rank, "its updates have another rank");
    expected[axis] = updates[axis];
    require(updates == expected, "its updates have other extents");
    require(indices == updates || indices == Integers{updates[axis]}, "its indices have other extents than its updates");
    same_type(0);
    same_type(2);
  } else if (name == "sort") {
    const size_t axis = axis_of();
    Integers expected = from;
    require(to.size() == rank && to[axis] <= from[axis], "its result has more elements than its operand");
    expected[axis] = to[axis];
    require_extents(to, expected);
    require(result.type == HEDDLE_TYPE_I64, "its result has no i64");
  } else if (name == "suppress") {
    require(rank >= 2 && from.back() == 4, "its boxes have no four corners");
    require_extents(to, part(from, 0, rank - 1));
    require(operand(op, 1).extents == to && operand(op, 1).type == HEDDLE_TYPE_BOOL && result.type == HEDDLE_TYPE_BOOL,
            "its candidates are no bools");
    require(operand(op, 2).extents.empty() && operand(op, 2).type == x.type && is_float(stored_as(x.type)), "its threshold is no float");
    require(operand(op, 3).extents.empty() && operand(op, 3).type == HEDDLE_TYPE_I64, "its limit is no i64");
  } else if (name == "trees") {
    const size_t count = op.operands.size();
    require(count >= 4 && count <= 7, "it has another number of operands");
    const bool is_complete = count < 6;
    const int64_t steps = integer_of(op, "steps");
    require(steps >= 0 && steps <= 30, "it has " + std::to_string(steps) + " steps");
    const Integers &features = operand(op, 1).extents, &weights = operand(op, 3).extents;
    const Integers& roots = is_complete ? features : operand(op, 5).extents;
    require(rank == 2 && to.size() == 3 && to[0] == from[0] && weights.size() == (is_complete ? 4u : 2u) &&
                roots.size() == (is_complete ? 3u : 2u),
            "its tables have other ranks");
    require(to[1] == roots[0] && to[2] == weights.back(), "its result has other extents than its tables");
    if (is_complete) {
      const int64_t leaves = int64_t{1} << steps;
      require(features[2] == leaves - 1 && weights == Integers{roots[0], roots[1], leaves, weights.back()},
              "its tables are of another number of steps");
    } else {
      require(operand(op, 4).extents == features && features.size() == 1 && weights[0] == features[0] && features[0] > 0,
              "its tables have other extents");
      require(!is_float(stored_as(operand(op, 4).type)) && !is_float(stored_as(operand(op, 5).type)), "its children are no integers");
      require(bytes_of(stored_as(operand(op, 4).type)) < 8 && bytes_of(stored_as(operand(op, 5).type)) < 8, "its children have 8 bytes");
    }
    require(operand(op, 2).extents == features && (count % 2 == 0 || operand(op, count - 1).extents == features),
            "its tables have other extents");
    require(count % 2 == 0 || !is_float(stored_as(operand(op, count - 1).type)), "its flags are no integers");
    require(computed_as(x.type) == stored_as(x.type) && is_float(stored_as(x.type)), "it has no f32 or f64");
    for (size_t i : {size_t{0}, size_t{2}, size_t{3}}) same_type(i);
    integers(1);
  } else if (name == "ngrams") {
    const Integers &leads = operand(op, 1).extents, &letters = operand(op, 2).extents, &nodes = operand(op, 3).extents;
    require(rank == 2 && leads.size() == 1 && letters.size() == 2 && nodes.size() == 2 && nodes[1] == 3 && nodes[0] > 0,
            "its tables have other ranks");
    const int64_t longest = integer_of(op, "longest");
    require_extents(to, {from[0], longest, from[1] + 1});
    for (size_t i = 0; i < 4; ++i) integers(i);
    for (size_t i : {size_t{2}, size_t{3}}) require(stored_as(operand(op, i).type) == Scalar::kI32, "its tables have no i32");
    require(stored_as(result.type) == Scalar::kI32, "its result has no i32");
  } else {
    // On elements that are at the same place.
    for (size_t i = 0; i < op.operands.size(); ++i) require(operand(op, i).extents == to, "an operand has other extents than its result");
    const size_t first = name == "select" ? 1 : 0;
    if (name == "select") require(x.type == HEDDLE_TYPE_BOOL, "its condition has no bools");
    if (name == "compare") require(result.type == HEDDLE_TYPE_BOOL, "its result has no bools");
    if (name == "bit_cast") {
      require(
          bytes_of(stored_as(x.type)) == bytes_of(stored_as(result.type)) && x.type != HEDDLE_TYPE_BOOL && result.type != HEDDLE_TYPE_BOOL,
          "its types have different sizes, or one is bool");
      return;
    }
    if (name == "random_bits") {
      require(x.type == HEDDLE_TYPE_I64 && operand(op, 1).type == HEDDLE_TYPE_I64 && result.type == HEDDLE_TYPE_U32,
              "its types are others");
      return;
    }
    if (name.starts_with("bit_")) require(!is_float(stored_as(x.type)), "its operands have no integers");
    if (name.starts_with("narrow_")) {
      const bool decodes = name == "narrow_decode";
      require((decodes ? x : result).type == HEDDLE_TYPE_U8 && (decodes ? result : x).type == HEDDLE_TYPE_F32,
              "it is not between u8 and f32");
      return;
    }
    for (size_t i = first; i < op.operands.size(); ++i)
      require(operand(op, i).type == operand(op, first).type, "its operands have different types");
    if (name != "compare" && name != "cast") same_type(first);
  }
}

}  // namespace heddle::sdk::portable
