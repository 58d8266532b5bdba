// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pools over windows, and their gradients.
#include <algorithm>
#include <limits>

#include "compiler/import/aten_program.h"
#include "compiler/import/onnx_writer.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

struct Pooling {
  std::vector<int64_t> kernel, strides, pads, dilations;
  bool ceil;
};

Pooling read_pooling(Op& op, size_t spatial) {
  auto list = [&](const char* name, std::optional<std::vector<int64_t>> otherwise) {
    std::vector<int64_t> values = op.integers(name, otherwise);
    if (values.size() == 1) values.resize(spatial, values[0]);
    return values;
  };
  Pooling p{list("kernel_size", {}), list("stride", std::vector<int64_t>{}), list("padding", std::vector<int64_t>(spatial, 0)),
            list("dilation", std::vector<int64_t>(spatial, 1)), op.flag("ceil_mode")};
  if (p.strides.empty()) p.strides = p.kernel;
  for (const auto* values : {&p.kernel, &p.strides, &p.pads, &p.dilations}) {
    if (values->size() != spatial) op.fail("its window does not have one number for each spatial dimension");
    for (int64_t value : *values) {
      if (value < 0 || value > 1 << 20) op.fail("kernel, stride, padding or dilation " + std::to_string(value) + " is out of range");
    }
  }
  return p;
}

void set_window(onnx::NodeProto& node, const Pooling& p) {
  std::vector<int64_t> both = p.pads;
  both.insert(both.end(), p.pads.begin(), p.pads.end());
  NodeWriter::set(node, "kernel_shape", p.kernel);
  NodeWriter::set(node, "strides", p.strides);
  NodeWriter::set(node, "pads", both);
  NodeWriter::set(node, "dilations", p.dilations);
  NodeWriter::set(node, "ceil_mode", int64_t{p.ceil ? 1 : 0});
}

// An image without a batch gets one of 1.
Value with_batch(Op& op, Value x, size_t spatial) {
  if (Op::rank_of(x) == static_cast<int64_t>(spatial) + 2) return x;
  if (Op::rank_of(x) != static_cast<int64_t>(spatial) + 1)
    op.fail("the input has rank " + std::to_string(Op::rank_of(x)) + " for windows of " + std::to_string(spatial) + " dimensions");
  Extents extents = Op::extents_of(x);
  extents.insert(extents.begin(), op.constant(1));
  return op.node.reshape(x, extents);
}

template <size_t spatial>
void average(Op& op) {
  const Pooling p = read_pooling(op, spatial);
  const bool has_divisor = op.has("divisor_override"), counts_pads = has_divisor || op.flag("count_include_pad", true);
  if (has_divisor && p.ceil) op.unsupported("divisor_override with ceil_mode is not supported");
  Value x = with_batch(op, op.tensor("self"), spatial);
  Value y = op.by_onnx("AveragePool", {Operand{x, {}, 0}}, 1, [&](onnx::NodeProto& node) {
                set_window(node, p);
                NodeWriter::set(node, "count_include_pad", int64_t{counts_pads ? 1 : 0});
              }).front();
  if (has_divisor) {
    double factor = 1 / op.number("divisor_override");
    for (int64_t one : p.kernel) factor *= static_cast<double>(one);
    y = op.m.mul(y, op.m.number(y, factor));
  }
  op.set(op.node.reshape(y, op.result_extents()));
}

// Where the pool found its results `y`, counted in one plane: each tap of the windows is compared with them. The first one that is equal counts, and in
// windows with NaNs the last NaN.
Value compared_places(Op& op, Value x, Value y, const Pooling& p, const std::vector<std::vector<int64_t>>& taps) {
  const size_t spatial = p.kernel.size();
  const Extents from = Op::extents_of(x), to = Op::extents_of(y);
  Extents padded = from;
  SmallVector<int64_t> low(from.size(), 0), high(from.size(), 0), strides(from.size(), 1);
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t size = *tx::static_extent(from[2 + d]), outputs = *tx::static_extent(to[2 + d]);
    low[2 + d] = p.pads[d];
    high[2 + d] = std::max<int64_t>(0, (outputs - 1) * p.strides[d] + (p.kernel[d] - 1) * p.dilations[d] + 1 - size - p.pads[d]);
    padded[2 + d] = op.constant(low[2 + d] + size + high[2 + d]);
    strides[2 + d] = p.strides[d];
  }
  const Type element = Op::element_of(x), i32 = op.builder.getI32Type();
  const double lowest = -std::numeric_limits<double>::infinity();
  Value whole = padded == from ? x : op.make<tx::PadOp>(op.node.tensor_type(padded, element), x, low, high, llvm::APFloat(lowest));
  // Where each window begins, and how far its first element that is not a pad is from there.
  Value origin = op.node.splat(op.node.tensor_type(to, i32), 0), pads = origin;
  for (size_t d = 0; d < spatial; ++d) {
    auto number = [&](Value like, int64_t value) { return op.m.number(like, static_cast<double>(value)); };
    Value start = op.m.iota({to[2 + d]}, 0, i32), zero = number(start, 0);
    start = op.m.sub(op.m.mul(start, number(start, p.strides[d])), number(start, p.pads[d]));
    Value step = number(start, p.dilations[d]), before = op.m.max(op.m.sub(zero, start), zero);
    Value skipped = op.m.mul(op.m.div(op.m.add(before, number(start, p.dilations[d] - 1)), step), step);
    auto further = [&](Value place, Value along) {
      return op.m.add(op.m.mul(place, op.m.extent(from[2 + d], place)), op.m.spread(along, to, {static_cast<int64_t>(2 + d)}));
    };
    origin = further(origin, start);
    pads = further(pads, skipped);
  }
  std::vector<Value> parts, places;
  for (const std::vector<int64_t>& tap : taps) {
    SmallVector<int64_t> begin(from.size(), 0);
    int64_t place = 0;
    for (size_t d = 0; d < spatial; ++d) {
      begin[2 + d] = tap[d] * p.dilations[d];
      place = place * *tx::static_extent(from[2 + d]) + begin[2 + d];
    }
    parts.push_back(op.make<tx::SliceOp>(Op::type_of(y), whole, begin, strides));
    places.push_back(op.m.number(origin, static_cast<double>(place)));
  }
  Value found = op.m.number(origin, 0);
  for (size_t i = taps.size(); i-- > 0;) found = op.m.select(op.m.compare(tx::CompareKind::eq, parts[i], y), places[i], found);
  found = op.m.select(op.m.compare(tx::CompareKind::eq, y, op.m.number(y, lowest)), pads, found);  // rather than a pad
  for (size_t i = 0; i < taps.size(); ++i) found = op.m.select(op.m.compare(tx::CompareKind::ne, parts[i], parts[i]), places[i], found);
  return op.converted(op.m.add(origin, found), op.builder.getI64Type());
}

// The taps of a window, the last dimension counting fastest; none if they are too many to compare one by one.
std::vector<std::vector<int64_t>> few_taps(const Pooling& p) {
  constexpr int64_t most = 32;
  int64_t count = 1;
  for (size_t d = 0; d < p.kernel.size(); ++d) {
    if (p.kernel[d] > most) return {};
    count *= p.kernel[d];
  }
  if (count > most) return {};
  std::vector<std::vector<int64_t>> taps(static_cast<size_t>(count), p.kernel);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t d = p.kernel.size(); d-- > 0;) {
      taps[static_cast<size_t>(i)][d] = rest % p.kernel[d];
      rest /= p.kernel[d];
    }
  }
  return taps;
}

// Whether the places of a window's taps fit into 32 bits.
bool fits_places(const Pooling& p, ArrayRef<AffineExpr> plane) {
  constexpr int64_t most = int64_t{1} << 30;
  int64_t size = 1, reach = 0;
  for (auto [d, extent] : llvm::enumerate(plane)) {
    const std::optional<int64_t> known = tx::static_extent(extent);
    if (!known || *known > most / std::max<int64_t>(size, 1)) return false;
    size *= *known;
    reach = reach * *known + (p.kernel[d] - 1) * p.dilations[d];
  }
  return reach < most;
}

// The places of PyTorch count the elements of one plane.
template <size_t spatial>
void largest(Op& op) {
  const Pooling p = read_pooling(op, spatial);
  Value x = with_batch(op, op.tensor("self"), spatial);
  const bool wants_places = op.wants(1);
  const std::vector<std::vector<int64_t>> taps = few_taps(p);
  const Extents extents = Op::extents_of(x);
  const auto plane = ArrayRef<AffineExpr>(extents).take_back(spatial);
  const bool compares = Op::is_float(Op::element_of(x)) && !taps.empty() && fits_places(p, plane);
  const std::vector<Value> made =
      op.by_onnx("MaxPool", {Operand{x, {}, 0}}, wants_places && !compares ? 2 : 1, [&](onnx::NodeProto& node) { set_window(node, p); });
  op.set(op.node.reshape(made[0], op.result_extents(0)), 0);
  if (!wants_places) return;
  if (compares) {
    op.set(op.node.reshape(compared_places(op, x, made[0], p, taps), op.result_extents(1)), 1);
    return;
  }
  Value size = op.m.extent(op.node.count_of(plane), made[1]);
  Value rest = op.m.sub(made[1], op.m.mul(op.m.div(made[1], size), size));
  op.set(op.node.reshape(rest, op.result_extents(1)), 1);
}

// Each element of the gradient is added at the place that the pool found.
template <size_t spatial>
void largest_backward(Op& op) {
  Value gradient = with_batch(op, op.tensor("grad_output"), spatial), places = with_batch(op, op.tensor("indices"), spatial),
        x = with_batch(op, op.tensor("self"), spatial);
  auto flat = [&](Value value) {
    const Extents extents = Op::extents_of(value);
    return op.node.reshape(value, {extents[0], extents[1], op.node.count_of(ArrayRef<AffineExpr>(extents).take_back(spatial))});
  };
  Value into = flat(x), from = flat(gradient), at = flat(places);
  const Type element = Op::element_of(gradient), compute = element.isF64() ? element : Type(op.builder.getF32Type());
  Value zeros = op.node.splat(op.node.tensor_type(Op::extents_of(into), compute), 0);
  Extents wanted = Op::extents_of(into);
  wanted[2] = Op::extents_of(from)[2];
  Value sums = op.make<tx::ScatterOp>(Op::type_of(zeros), zeros, op.node.broadcast(at, wanted),
                                      op.node.broadcast(op.converted(from, compute), wanted), int64_t{2},
                                      tx::ReduceKindAttr::get(op.builder.getContext(), tx::ReduceKind::sum));
  op.set(op.node.reshape(sums, op.result_extents()));
}

// How many elements of a dimension each window has, as floats: [outputs].
Value window_sizes(Op& op, const Pooling& p, size_t i, AffineExpr input, AffineExpr outputs, bool counts_pads, Type element) {
  const Type i64 = op.builder.getI64Type();
  const auto pad = static_cast<double>(p.pads[i]);
  Value place = op.m.iota({outputs}, 0, i64);
  Value start = op.m.sub(op.m.mul(place, op.m.number(place, static_cast<double>(p.strides[i]))), op.m.number(place, pad));
  Value end = op.m.add(start, op.m.number(place, static_cast<double>(p.kernel[i]))), size = op.m.extent(input, place);
  end = op.m.min(end, counts_pads ? op.m.add(size, op.m.number(place, pad)) : size);
  if (!counts_pads) start = op.m.max(start, op.m.number(place, 0));
  return op.converted(op.m.sub(end, start), element);
}

// Each element of the gradient, divided by the number of elements of its window, is added to all of them: a transposed convolution of each channel.
template <size_t spatial>
void average_backward(Op& op) {
  const Pooling p = read_pooling(op, spatial);
  Value gradient = with_batch(op, op.tensor("grad_output"), spatial), x = with_batch(op, op.tensor("self"), spatial);
  const bool counts_pads = op.flag("count_include_pad", true);
  const Extents from = Op::extents_of(gradient), to = Op::extents_of(x);
  const Type own = Op::element_of(gradient);
  gradient = op.computing(gradient);
  const Type element = Op::element_of(gradient);
  double divisor = op.has("divisor_override") ? op.number("divisor_override") : 1;
  for (size_t i = 0; i < spatial && !op.has("divisor_override"); ++i) {
    // Windows that all have their whole extent are divided by a number.
    const std::optional<int64_t> input = tx::static_extent(to[2 + i]), output = tx::static_extent(from[2 + i]);
    const bool are_whole = input && output && (*output - 1) * p.strides[i] + p.kernel[i] <= *input + 2 * p.pads[i];
    if (are_whole && (counts_pads || p.pads[i] == 0)) {
      divisor *= static_cast<double>(p.kernel[i]);
    } else {
      Value sizes = window_sizes(op, p, i, to[2 + i], from[2 + i], counts_pads, element);
      gradient = op.m.div(gradient, op.m.spread(sizes, from, {static_cast<int64_t>(2 + i)}));
    }
  }
  const int64_t channels = op.extent(x, 1);
  Extents window{op.constant(channels), op.constant(1)};
  for (int64_t one : p.kernel) window.push_back(op.constant(one));
  Value filter = op.node.splat(op.node.tensor_type(window, element), 1 / divisor);
  Value result = op.by_onnx("ConvTranspose", {Operand{gradient, {}, 0}, Operand{filter, {}, 0}}, 1, [&](onnx::NodeProto& node) {
                     NodeWriter::set(node, "strides", p.strides);
                     NodeWriter::set(node, "group", channels);
                   }).front();
  // The windows begin in the pads, and may end behind the input, or before its end.
  Extents extents = Op::extents_of(result);
  SmallVector<int64_t> none(2 + spatial, 0), behind(2 + spatial, 0);
  for (size_t i = 2; i < 2 + spatial; ++i) {
    const std::optional<int64_t> end = tx::static_extent(to[i]), reached = tx::static_extent(extents[i]);
    behind[i] = end && reached ? std::max<int64_t>(*end + p.pads[i - 2] - *reached, 0) : p.strides[i - 2] - 1;
    extents[i] = op.node.computed(sum(extents[i], op.constant(behind[i])));
  }
  if (behind != none) result = op.make<tx::PadOp>(op.node.tensor_type(extents, element), result, none, behind, llvm::APFloat(0.0));
  for (size_t i = 2; i < 2 + spatial; ++i) result = op.part(result, static_cast<int64_t>(i), p.pads[i - 2], to[i]);
  op.set(op.node.reshape(op.converted(result, own), op.result_extents()));
}

// Windows of one size if the input's extents are multiples of the output's.
template <size_t spatial>
void adaptive_average(Op& op) {
  Value x = op.tensor("self");
  const auto first = static_cast<size_t>(Op::rank_of(x)) - spatial;
  const Extents from = Op::extents_of(x), to = op.result_extents();
  Extents split(from.begin(), from.begin() + static_cast<int64_t>(first));
  SmallVector<int64_t> axes;
  for (size_t i = first; i < from.size(); ++i) {
    const AffineExpr window = exact_quotient(from[i], to[i], op.builder.getContext());
    if (!window) op.unsupported("extent " + std::to_string(i) + " is not a multiple of the result's");
    split.push_back(to[i]);
    axes.push_back(static_cast<int64_t>(split.size()));
    split.push_back(window);
  }
  op.set(op.reduced(tx::ReduceKind::mean, op.computing(op.node.reshape(x, split)), axes, /*keep=*/false));
}
void adaptive_average_backward(Op& op) {
  Value gradient = op.tensor("grad_output");
  const Extents from = Op::extents_of(gradient), to = op.result_extents();
  const size_t first = from.size() - 2;
  Extents split(from.begin(), from.begin() + static_cast<int64_t>(first));
  SmallVector<int64_t> places;
  for (size_t i = 0; i < first; ++i) places.push_back(static_cast<int64_t>(i));
  AffineExpr count = op.constant(1);
  for (size_t i = first; i < from.size(); ++i) {
    const AffineExpr window = exact_quotient(to[i], from[i], op.builder.getContext());
    if (!window) op.unsupported("extent " + std::to_string(i) + " is not a multiple of the gradient's");
    places.push_back(static_cast<int64_t>(split.size()));
    split.push_back(from[i]);
    split.push_back(window);
    count = op.node.computed(product(count, window));
  }
  Value share = op.m.div(gradient, op.m.extent(count, gradient));
  op.set(op.node.reshape(op.m.spread(share, split, places), to));
}

}  // namespace

const Table& pooling_ops() {
  static const Table table = {
      {"aten._adaptive_avg_pool2d.default", adaptive_average<2>},
      {"aten._adaptive_avg_pool2d_backward.default", adaptive_average_backward},
      {"aten._adaptive_avg_pool3d.default", adaptive_average<3>},
      {"aten.adaptive_avg_pool1d.default", adaptive_average<1>},
      {"aten.avg_pool1d.default", average<1>},
      {"aten.avg_pool2d.default", average<2>},
      {"aten.avg_pool2d_backward.default", average_backward<2>},
      {"aten.avg_pool3d.default", average<3>},
      {"aten.avg_pool3d_backward.default", average_backward<3>},
      {"aten.max_pool2d_with_indices.default", largest<2>},
      {"aten.max_pool2d_with_indices_backward.default", largest_backward<2>},
      {"aten.max_pool3d_with_indices.default", largest<3>},
      {"aten.max_pool3d_with_indices_backward.default", largest_backward<3>},
  };
  return table;
}

}  // namespace heddle::import::aten
