// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resize and Upsample: one dimension after the other; each output is a weighted sum of the elements around its place in the input. Places are
// computed in f32 and in ONNX Runtime's order of operations, since the nearest element may depend on the last bit. Where the two differ, the result is
// that of ONNX's reference implementation.
#include <cmath>

#include "compiler/import/onnx_data.h"

using namespace mlir;

namespace heddle::import {
namespace {

// An f32 number: a known one, or one per output in a vector that kernels compute. The same source computes on the compile host and in kernels.
class Number {
 public:
  Number(float known) : known_(known) {}
  Number(Node& node, Value vector) : node_(&node), vector_(vector) {}

  float known() const { return known_; }
  Value vector() const { return vector_; }  // null where it is known

  friend Number operator+(const Number& a, const Number& b) { return make<tx::AddOp>(a, b, a.known_ + b.known_); }
  friend Number operator-(const Number& a, const Number& b) { return make<tx::SubOp>(a, b, a.known_ - b.known_); }
  friend Number operator*(const Number& a, const Number& b) { return make<tx::MulOp>(a, b, a.known_ * b.known_); }
  friend Number operator/(const Number& a, const Number& b) { return make<tx::DivOp>(a, b, a.known_ / b.known_); }
  friend Number min(const Number& a, const Number& b) { return make<tx::MinOp>(a, b, std::min(a.known_, b.known_)); }
  friend Number max(const Number& a, const Number& b) { return make<tx::MaxOp>(a, b, std::max(a.known_, b.known_)); }
  friend Number abs(const Number& a) { return make<tx::AbsOp>(a, std::abs(a.known_)); }
  friend Number ceil(const Number& a) { return make<tx::CeilOp>(a, std::ceil(a.known_)); }
  friend Number floor(const Number& a) { return make<tx::FloorOp>(a, std::floor(a.known_)); }

 private:
  template <typename OpT>
  static Number make(const Number& a, float known) {
    if (!a.vector_) return known;
    return {*a.node_, a.node_->make<OpT>(Node::type_of(a.vector_), a.vector_)};
  }
  template <typename OpT>
  static Number make(const Number& a, const Number& b, float known) {
    if (!a.vector_ && !b.vector_) return known;
    const Number& computed = a.vector_ ? a : b;
    Node& node = *computed.node_;
    RankedTensorType type = Node::type_of(computed.vector_);
    Value left = a.vector_ ? a.vector_ : node.splat(type, a.known_);
    Value right = b.vector_ ? b.vector_ : node.splat(type, b.known_);
    return {node, node.make<OpT>(type, left, right)};
  }

  float known_ = 0;
  Node* node_ = nullptr;
  Value vector_;
};

// The lengths from which an output's place in the input is computed.
struct Lengths {
  Number scale, to, from;
  Number start, end;  // of the part that is resized, in units of the last index; for tf_crop_and_resize only
};

// coordinate_transformation_mode: the place of an output.
using Place = Number (*)(const Number& output, const Lengths& lengths);

Number half_pixel(const Number& output, const Lengths& lengths) {
  return (output + 0.5f) / lengths.scale - 0.5f;
}
Number align_corners(const Number& output, const Lengths& lengths) {
  return output * (lengths.from - 1.0f) / max(lengths.to - 1.0f, 1.0f);
}
Number tf_crop_and_resize(const Number& output, const Lengths& lengths) {
  Number last = lengths.from - 1.0f, has_many = min(lengths.to - 1.0f, 1.0f);
  Number place = lengths.start * last + output * (lengths.end - lengths.start) * last / max(lengths.to - 1.0f, 1.0f);
  return place * has_many + (lengths.start + lengths.end) * 0.5f * last * (1.0f - has_many);
}
Number asymmetric(const Number& output, const Lengths& lengths) {
  return output / lengths.scale;
}
// 0 if there is only one output.
Number pytorch_half_pixel(const Number& output, const Lengths& lengths) {
  return half_pixel(output, lengths) * min(lengths.to - 1.0f, 1.0f);
}
Number half_pixel_symmetric(const Number& output, const Lengths& lengths) {
  Number margin = lengths.from / 2.0f * (1.0f - lengths.to / (lengths.scale * lengths.from));
  return margin + (output + 0.5f) / lengths.scale - 0.5f;
}
Number tf_half_pixel(const Number& output, const Lengths& lengths) {
  return (output + 0.5f) / lengths.scale;
}

// nearest_mode: the element that a place selects.
using Rounding = Number (*)(const Number& place);

Number prefer_floor(const Number& place) {
  return ceil(place - 0.5f);
}
Number prefer_ceil(const Number& place) {
  Number low = floor(place);
  return low + floor((place - low) * 2.0f);
}
Number down(const Number& place) {
  return floor(place);
}
Number up(const Number& place) {
  return ceil(place);
}

template <typename FunctionT>
using Choices = std::initializer_list<std::pair<StringRef, FunctionT>>;

template <typename FunctionT>
FunctionT choose(Node& node, const char* attribute, const std::string& value, const char* nearest, Choices<FunctionT> choices) {
  for (const auto& [name, function] : choices) {
    if (name == value) return function;
  }
  node.unsupported("attribute '" + std::string(attribute) + "' is '" + value + "', which is not supported",
                   "'" + std::string(nearest) + "'");
  return choices.begin()->second;
}

enum class Mode { nearest, linear, cubic };

// One element that contributes to an output.
struct Tap {
  Number index, weight;
};

// The attributes.
struct Method {
  Mode mode;
  Place place;
  Rounding rounding;  // null before opset 11: down, or up if the output is smaller
  float cubic_a;
  bool exclude_outside;
  bool antialias;       // a filter that grows where the output is smaller
  float extrapolation;  // the value outside of the input, for tf_crop_and_resize

  bool crops() const { return place == tf_crop_and_resize; }

  static constexpr size_t most_taps = 4;
  size_t tap_count() const { return mode == Mode::nearest ? 1 : mode == Mode::linear ? 2 : most_taps; }

  // Whether every element is repeated as often as the scale says, which is a whole number.
  bool repeats() const {
    if (mode != Mode::nearest) return false;
    bool rounds = rounding == prefer_floor || rounding == prefer_ceil;
    if (place == asymmetric) return !rounding || rounding == down;
    return rounds && (place == half_pixel || place == pytorch_half_pixel || place == half_pixel_symmetric);
  }

  // How far the filter of an output reaches, in outputs.
  int64_t radius() const { return mode == Mode::linear ? 1 : 2; }

  // The filter's value at a distance of 0 or more; 0 outside of it.
  Number filter(const Number& distance) const {
    if (mode == Mode::linear) return max(1.0f - distance, 0.0f);
    return cubic(min(distance, 1.0f), false) + cubic(min(max(distance, 1.0f), 2.0f), true);
  }

  SmallVector<Tap, most_taps> taps(const Number& output, const Lengths& lengths, bool shrinks) const {
    Number x = place(output, lengths), last = lengths.from - 1.0f;
    auto inside = [&](const Number& index) { return max(min(index, last), 0.0f); };
    if (mode == Mode::nearest && !rounding && lengths.scale.vector()) {
      const Number is_small = max(min(ceil(1.0f - lengths.scale), 1.0f), 0.0f);
      return {{inside(down(x) + (up(x) - down(x)) * is_small), 1.0f}};
    }
    if (mode == Mode::nearest) {
      Rounding round = rounding ? rounding : shrinks ? up : down;
      return {{inside(round(x)), 1.0f}};
    }
    if (mode == Mode::linear) {
      x = inside(x);
      Number low = floor(x), share = x - low;
      return {{low, 1.0f - share}, {min(low + 1.0f, last), share}};
    }
    Number low = floor(x), share = x - low;
    SmallVector<Tap, most_taps> result;
    Number sum = 0.0f;
    for (float offset : {-1.0f, 0.0f, 1.0f, 2.0f}) {
      Number index = low + offset, inner = inside(index), weight = cubic(abs(share - offset), std::abs(offset - 0.5f) > 1.0f);
      // a weight of 0 if the two indices differ, which they do by 1 or more
      if (exclude_outside) weight = weight * (1.0f - min(abs(index - inner), 1.0f));
      sum = sum + weight;
      result.push_back({inner, weight});
    }
    if (exclude_outside) {
      for (Tap& tap : result) tap.weight = tap.weight / sum;
    }
    return result;
  }

 private:
  // The weight of an element at a distance up to 1, or from 1 to 2.
  Number cubic(const Number& distance, bool is_outer) const {
    float a = cubic_a;
    if (is_outer) return ((a * distance - 5.0f * a) * distance + 8.0f * a) * distance - 4.0f * a;
    return ((a + 2.0f) * distance - (a + 3.0f)) * distance * distance + 1.0f;
  }
};

Method read_method(Node& node) {
  bool has_places = node.opset() >= 11;
  Method method;
  method.mode = choose<Mode>(node, "mode", node.text("mode", "nearest"), "linear",
                             {{"nearest", Mode::nearest}, {"linear", Mode::linear}, {"cubic", Mode::cubic}});
  method.place = choose<Place>(node, "coordinate_transformation_mode",
                               has_places ? node.text("coordinate_transformation_mode", "half_pixel") : "asymmetric",
                               "align_corners",  // equal to a crop of the whole
                               {{"half_pixel", half_pixel},
                                {"pytorch_half_pixel", pytorch_half_pixel},
                                {"half_pixel_symmetric", half_pixel_symmetric},
                                {"align_corners", align_corners},
                                {"asymmetric", asymmetric},
                                {"tf_crop_and_resize", tf_crop_and_resize},
                                {"tf_half_pixel_for_nn", tf_half_pixel}});
  method.rounding = nullptr;
  if (has_places && method.mode == Mode::nearest) {
    method.rounding =
        choose<Rounding>(node, "nearest_mode", node.text("nearest_mode", "round_prefer_floor"), "round_prefer_floor",
                         {{"round_prefer_floor", prefer_floor}, {"round_prefer_ceil", prefer_ceil}, {"floor", down}, {"ceil", up}});
  }
  method.cubic_a = static_cast<float>(node.number("cubic_coeff_a", -0.75));
  method.exclude_outside = node.integer("exclude_outside", 0) != 0;
  method.antialias = method.mode != Mode::nearest && node.integer("antialias", 0) != 0;
  method.extrapolation = static_cast<float>(node.number("extrapolation_value", 0.0));
  return method;
}

// A dimension that gets another extent.
struct Axis {
  int64_t dimension;
  AffineExpr from, to;
  std::optional<float> scale;  // to / from if not given
  Value scale_in_data;         // an f32 of rank 0; null if `scale` tells it
  size_t position = 0;         // among the axes of the node
};

AffineExpr scaled_extent(Node& node, AffineExpr extent, float scale, int64_t dimension) {
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  if (auto known = tx::static_extent(extent)) {
    float result = std::floor(scale * static_cast<float>(*known));
    if (!(result <= static_cast<float>(largest_extent)))
      node.fail("extent " + std::to_string(*known) + " of dimension " + std::to_string(dimension) + " times " + std::to_string(scale) +
                " is above " + std::to_string(largest_extent));
    return constant(static_cast<int64_t>(result));
  }
  constexpr int64_t most_parts = 64;
  for (int64_t parts = 1; parts <= most_parts; ++parts) {
    float count = std::round(scale * static_cast<float>(parts));
    if (count < 1 || count > static_cast<float>(largest_extent) || count / static_cast<float>(parts) != scale) continue;
    return node.computed(quotient(product(extent, constant(static_cast<int64_t>(count))), parts));
  }
  node.fail("dimension " + std::to_string(dimension) + " is symbolic, and its scale " + std::to_string(scale) +
                " is not a quotient of small numbers",
            HEDDLE_STATUS_UNIMPLEMENTED);
}

// The scale between two extents, if it does not depend on symbols.
std::optional<float> scale_between(AffineExpr from, AffineExpr to) {
  if (from == to) return 1.0f;
  auto known_from = tx::static_extent(from), known_to = tx::static_extent(to);
  if (known_from && known_to) return static_cast<float>(*known_to) / static_cast<float>(*known_from);
  auto whole = [&](AffineExpr a, AffineExpr b) {
    AffineExpr times = exact_quotient(a, b, a.getContext());
    return times ? tx::static_extent(times) : std::nullopt;
  };
  if (auto times = whole(to, from)) return static_cast<float>(*times);
  if (auto times = whole(from, to)) return 1.0f / static_cast<float>(*times);
  return {};
}

// Whether an input is given and has elements: exporters leave scales and sizes out in both ways.
bool is_given(Node& node, int index) {
  if (!node.has_input(index)) return false;
  const Operand& operand = node.operand(index);
  if (operand.elements) return !operand.elements->empty();
  RankedTensorType type = Node::type_of(operand.value);
  return !type.hasStaticShape() || type.getNumElements() > 0;
}

// Empty if they are data.
std::vector<double> read_scales(Node& node, int index) {
  DenseElementsAttr known = known_elements(node.input(index));
  if (!known) node.graph.need_elements(node.input(index));
  if (!known) return {};
  std::vector<double> scales;
  for (Attribute element : known.getValues<Attribute>()) scales.push_back(number_of(element));
  return scales;
}

// The dimensions with scales that are data: a vector of f32, in their order. An extent is rounded down, or to the nearest if the scale was chosen to fit
// a size.
std::vector<Axis> axes_by_data(Node& node, ArrayRef<AffineExpr> extents, ArrayRef<int64_t> dimensions, Value scales, bool rounds) {
  Extents from;
  for (auto [i, dimension] : llvm::enumerate(dimensions)) {
    if (llvm::is_contained(dimensions.take_front(i), dimension)) node.fail("an axis is listed twice");
    from.push_back(extents[dimension]);
  }
  RankedTensorType type = Node::type_of(scales);
  Value whole = node.make<tx::MulOp>(type, node.converted(numbers_of(node, from).value(), type.getElementType()), scales);
  if (rounds) whole = node.make<tx::AddOp>(type, whole, node.splat(type, 0.5));
  const Integers rounded(node, node.converted(node.make<tx::FloorOp>(type, whole), node.builder.getI64Type()));
  const std::vector<AffineExpr> to = read_extents(node, rounded, "extent of the result");
  std::vector<Axis> axes;
  for (auto [i, dimension] : llvm::enumerate(dimensions)) {
    SmallVector<int64_t> start{static_cast<int64_t>(i)}, stride{1};
    Value one = node.make<tx::SliceOp>(RankedTensorType::get({1}, type.getElementType()), scales, start, stride);
    axes.push_back({dimension, from[i], to[i], {}, node.reshape(one, {}), i});
  }
  return axes;
}

// One scale for all dimensions, so that none gets larger, or smaller, than its size.
Value fitting_scales(Node& node, ArrayRef<AffineExpr> from, const Integers& to, bool is_largest) {
  const Integers given = numbers_of(node, from);
  Value wanted = node.converted(to.value(), node.builder.getF32Type());
  RankedTensorType type = Node::type_of(wanted);
  Value quotients = node.make<tx::DivOp>(type, wanted, node.converted(given.value(), type.getElementType()));
  Value one = node.make<tx::ReduceOp>(RankedTensorType::get({}, type.getElementType()),
                                      is_largest ? tx::ReduceKind::max : tx::ReduceKind::min, quotients, ArrayRef<int64_t>{0});
  return node.broadcast(one, tx::extents(type));
}

std::vector<Axis> read_axes(Node& node, const Method& method, ArrayRef<AffineExpr> extents) {
  auto rank = static_cast<int64_t>(extents.size());
  std::vector<int64_t> dimensions;
  for (int64_t i = 0; i < rank; ++i) dimensions.push_back(i);
  if (node.opset() >= 18) dimensions = node.integer_list("axes", dimensions);
  std::vector<double> scales;
  std::vector<AffineExpr> sizes;
  int scales_input = node.opset() >= 11 ? 2 : 1;
  if (node.opset() < 7) {
    scales.assign(static_cast<size_t>(rank), 1);
    if (rank != 4 || !node.has_attribute("height_scale") || !node.has_attribute("width_scale"))
      node.fail("up to opset 6 it needs an input of rank 4, height_scale and width_scale");
    scales[2] = node.number("height_scale", 1);
    scales[3] = node.number("width_scale", 1);
  } else if (node.opset() < 9) {
    scales = node.number_list("scales");
  } else if (is_given(node, scales_input)) {
    scales = read_scales(node, scales_input);
    RankedTensorType type = Node::type_of(node.input(scales_input));
    if (scales.empty() && type.hasStaticShape() && type.getRank() == 1 &&
        type.getNumElements() == static_cast<int64_t>(dimensions.size())) {
      for (int64_t& dimension : dimensions) dimension = node.axis(dimension, rank);
      return axes_by_data(node, extents, dimensions, node.converted(node.input(scales_input), node.builder.getF32Type()), /*rounds=*/false);
    }
  }
  if (node.opset() >= 11 && is_given(node, 3)) {
    const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
    if (policy == "stretch") sizes = extents_from(node, 3, "extent of the result");
    if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
      node.unsupported("attribute 'keep_aspect_ratio_policy' is '" + policy + "', which is not supported", "'stretch'");
    if (policy != "stretch") {
      Extents from;
      for (int64_t& dimension : dimensions) {
        dimension = node.axis(dimension, rank);
        from.push_back(extents[dimension]);
      }
      Integers wanted = vector_of(node, 3);
      if (Node::type_of(wanted.value()).getNumElements() != static_cast<int64_t>(from.size()))
        node.fail("its sizes do not fit its dimensions");
      return axes_by_data(node, extents, dimensions, fitting_scales(node, from, wanted, policy == "not_smaller"), /*rounds=*/true);
    }
  }
  if (scales.empty() == sizes.empty()) node.fail("it needs scales, or sizes, and not both");
  size_t count = sizes.empty() ? scales.size() : sizes.size();
  if (count != dimensions.size()) {
    node.fail("it has " + std::to_string(count) + (sizes.empty() ? " scales" : " sizes") + " for " + std::to_string(dimensions.size()) +
              " dimensions");
  }
  std::vector<Axis> axes;
  for (size_t i = 0; i < count; ++i) {
    int64_t dimension = node.axis(dimensions[i], rank);
    if (llvm::is_contained(ArrayRef<int64_t>(dimensions).take_front(i), dimension)) node.fail("an axis is listed twice");
    dimensions[i] = dimension;
    Axis axis{dimension, extents[dimension], {}, {}, {}, i};
    if (sizes.empty()) {
      axis.scale = static_cast<float>(scales[i]);
      if (!(*axis.scale > 0) || !std::isfinite(*axis.scale))
        node.fail("scale " + std::to_string(scales[i]) + " of dimension " + std::to_string(dimension) + " is not above 0");
      axis.to = scaled_extent(node, axis.from, *axis.scale, dimension);
    } else {
      axis.to = sizes[i];
      axis.scale = scale_between(axis.from, axis.to);
    }
    if (axis.to == axis.from && axis.scale.value_or(1) == 1 && !method.crops()) continue;
    AffineExpr none = node.builder.getAffineConstantExpr(0);
    if (axis.from == none && axis.to != none) node.fail("dimension " + std::to_string(dimension) + " has no elements to resize");
    axes.push_back(axis);
  }
  return axes;
}

// One of the elements that each output is computed from.
struct Vectors {
  Value indices, weights;  // without weights: 1
};

// The value with one dimension resized.
Value resized(Node& node, Value value, int64_t dimension, ArrayRef<Vectors> vectors) {
  Extents extents = Node::extents_of(value);
  Type element = Node::type_of(value).getElementType();
  extents[dimension] = Node::extents_of(vectors.front().indices)[0];
  RankedTensorType type = node.tensor_type(extents, element);
  Value sum;
  for (auto [indices, weights] : vectors) {
    Value part = node.make<tx::GatherOp>(type, value, indices, node.builder.getI64IntegerAttr(dimension));
    if (weights) {
      RankedTensorType own = tx::with_element_type(Node::type_of(weights), element);
      if (own != Node::type_of(weights)) weights = node.make<tx::CastOp>(own, weights);
      part = node.make<tx::MulOp>(type, part, node.make<tx::BroadcastOp>(type, weights, ArrayRef<int64_t>{dimension}));
    }
    sum = sum ? node.make<tx::AddOp>(type, sum, part) : part;
  }
  return sum;
}

// Tables for more outputs are computed at load.
constexpr int64_t most_known_outputs = 8192;

SmallVector<Vectors> known_vectors(Node& node, const Method& method, const Lengths& lengths) {
  SmallVector<SmallVector<int64_t>> indices(method.tap_count());
  SmallVector<SmallVector<float>> weights(method.tap_count());
  auto count = static_cast<int64_t>(lengths.to.known());
  for (int64_t i = 0; i < count; ++i) {
    auto taps = method.taps(static_cast<float>(i), lengths, lengths.scale.known() < 1);
    for (auto [t, tap] : llvm::enumerate(taps)) {
      indices[t].push_back(static_cast<int64_t>(tap.index.known()));
      weights[t].push_back(tap.weight.known());
    }
  }
  auto constant = [&](auto values, Type element) -> Value {
    auto type = RankedTensorType::get(count, element);
    return node.builder.create<tx::ConstantOp>(node.location(), type, DenseElementsAttr::get(type, ArrayRef(values)));
  };
  SmallVector<Vectors> result;
  for (size_t t = 0; t < method.tap_count(); ++t) {
    result.push_back({constant(indices[t], node.builder.getI64Type()), {}});
    if (method.mode != Mode::nearest) result.back().weights = constant(weights[t], node.builder.getF32Type());
  }
  return result;
}

// Lengths as numbers, or as tensors of this shape.
Lengths lengths_of(Node& node, const Axis& axis, ArrayRef<AffineExpr> shape) {
  auto number = [&](AffineExpr extent) -> Number {
    if (auto known = tx::static_extent(extent)) return static_cast<float>(*known);
    return {node, node.broadcast(node.converted(node.extent_value(extent), node.builder.getF32Type()), shape)};
  };
  Lengths lengths{0.0f, number(axis.to), number(axis.from), 0.0f, 1.0f};
  lengths.scale = axis.scale_in_data ? Number(node, node.broadcast(axis.scale_in_data, shape))
                  : axis.scale       ? Number(*axis.scale)
                                     : lengths.to / lengths.from;
  return lengths;
}

// Of tf_crop_and_resize: the part of a dimension that is resized, from the input `roi`, which has a start and then an end for each of `count` axes.
void read_part(Node& node, const Axis& axis, size_t count, ArrayRef<AffineExpr> shape, Lengths& lengths) {
  if (!node.has_input(1)) node.fail("tf_crop_and_resize needs the input roi");
  Value roi = node.input(1);
  RankedTensorType type = Node::type_of(roi);
  if (!llvm::isa<FloatType>(type.getElementType()) || type.getShape() != ArrayRef<int64_t>{static_cast<int64_t>(2 * count)})
    node.refuse_inputs("its roi does not have " + std::to_string(2 * count) + " floats");
  roi = node.converted(roi, node.builder.getF32Type());
  auto element = [&](size_t index) -> Number {
    SmallVector<int64_t> start{static_cast<int64_t>(index)}, stride{1};
    Value one = node.make<tx::SliceOp>(RankedTensorType::get({1}, node.builder.getF32Type()), roi, start, stride);
    return {node, node.broadcast(node.reshape(one, {}), shape)};
  };
  lengths.start = element(axis.position);
  lengths.end = element(count + axis.position);
}

// The value with one dimension resized to a part of it; places outside of the dimension get the extrapolation value.
Value cropped(Node& node, Value value, const Method& method, const Axis& axis, int64_t dimension, size_t count) {
  const RankedTensorType type = node.tensor_type({axis.to}, node.builder.getF32Type());
  Lengths lengths = lengths_of(node, axis, {axis.to});
  read_part(node, axis, count, {axis.to}, lengths);
  const Number output(node, node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0)));
  SmallVector<Vectors> vectors;
  for (const Tap& tap : method.taps(output, lengths, axis.scale.value_or(1) < 1))
    vectors.push_back(
        {node.make<tx::CastOp>(tx::with_element_type(type, node.builder.getI64Type()), tap.index.vector()), tap.weight.vector()});
  value = resized(node, value, dimension, vectors);
  const Value place = method.place(output, lengths).vector(), last = (output * 0.0f + (lengths.from - 1.0f)).vector();
  const RankedTensorType truth = tx::with_element_type(type, node.builder.getI1Type()), whole = Node::type_of(value);
  auto where = [&](tx::CompareKind kind, Value bound, Value otherwise) {
    Value is_outside = node.make<tx::CompareOp>(truth, kind, place, bound);
    is_outside = node.make<tx::BroadcastOp>(tx::with_element_type(whole, truth.getElementType()), is_outside, ArrayRef<int64_t>{dimension});
    Value outside =
        node.converted(node.splat(tx::with_element_type(whole, node.builder.getF32Type()), method.extrapolation), whole.getElementType());
    return node.make<tx::SelectOp>(whole, is_outside, outside, otherwise);
  };
  return where(tx::CompareKind::lt, node.splat(type, 0), where(tx::CompareKind::gt, last, value));
}

// The number of elements that a filter covers, or more. A scale that is data makes it an extent that is read.
AffineExpr filter_length(Node& node, const Method& method, const Axis& axis) {
  const AffineExpr radius = node.builder.getAffineConstantExpr(method.radius());
  auto twice = [&](AffineExpr half) { return node.computed(product(half, node.builder.getAffineConstantExpr(2))); };
  if (axis.scale) {
    const float half = std::ceil(static_cast<float>(method.radius()) / std::min(*axis.scale, 1.0f));
    if (!(half < static_cast<float>(largest_extent))) node.fail("scale " + std::to_string(*axis.scale) + " is too small");
    return twice(node.builder.getAffineConstantExpr(static_cast<int64_t>(half)));
  }
  if (!axis.scale_in_data) {
    const AffineExpr one = node.builder.getAffineConstantExpr(1), to = node.graph.symbols.defined("max", axis.to, one);
    const AffineExpr reach = sum(product(axis.from, radius), to ? difference(to, one) : AffineExpr());
    return twice(node.graph.symbols.defined("max", node.graph.symbols.defined("floordiv", reach, to), radius));
  }
  const RankedTensorType type = RankedTensorType::get({1}, node.builder.getF32Type());
  const Number scale(node, node.reshape(axis.scale_in_data, {node.builder.getAffineConstantExpr(1)}));
  const Number half = ceil(static_cast<float>(method.radius()) / min(scale, 1.0f));
  Value whole = node.make<tx::CastOp>(tx::with_element_type(type, node.builder.getI64Type()), half.vector());
  return twice(read_extents(node, Integers(node, whole), "elements of its filter")[0]);
}

// The value with one dimension resized by a filter that covers more elements where the output is smaller.
Value filtered(Node& node, Value value, const Method& method, const Axis& axis, int64_t dimension, size_t count) {
  const AffineExpr length = filter_length(node, method, axis);
  const Extents shape{axis.to, length};
  const RankedTensorType type = node.tensor_type(shape, node.builder.getF32Type());
  Lengths lengths = lengths_of(node, axis, shape);
  if (method.crops()) read_part(node, axis, count, shape, lengths);
  const Number output(node, node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0)));
  const Number tap(node, node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(1)));
  const Number number_of_taps(node, node.broadcast(node.converted(node.extent_value(length), node.builder.getF32Type()), shape));
  const Number place = method.place(output, lengths), last = lengths.from - 1.0f;
  const Number index = ceil(place) - number_of_taps * 0.5f + tap, inner = max(min(index, last), 0.0f);
  Number weight = method.filter(abs(index - place) * min(lengths.scale, 1.0f));
  if (method.exclude_outside) weight = weight * (1.0f - min(abs(index - inner), 1.0f));
  const RankedTensorType row = node.tensor_type({axis.to}, node.builder.getF32Type());
  Value total = node.make<tx::ReduceOp>(row, tx::ReduceKind::sum, weight.vector(), ArrayRef<int64_t>{1});
  weight = weight / Number(node, node.make<tx::BroadcastOp>(type, total, ArrayRef<int64_t>{0}));
  Value indices = node.make<tx::CastOp>(tx::with_element_type(type, node.builder.getI64Type()), inner.vector());
  const Type element = Node::type_of(value).getElementType();
  Extents extents = Node::extents_of(value), parts = extents;
  extents[static_cast<size_t>(dimension)] = axis.to;
  parts[static_cast<size_t>(dimension)] = axis.to;
  parts.insert(parts.begin() + dimension + 1, length);
  const RankedTensorType of_parts = node.tensor_type(parts, element);
  Value part = node.make<tx::GatherOp>(of_parts, value, indices, node.builder.getI64IntegerAttr(dimension));
  Value weights =
      node.make<tx::BroadcastOp>(of_parts, node.converted(weight.vector(), element), ArrayRef<int64_t>{dimension, dimension + 1});
  part = node.make<tx::MulOp>(of_parts, part, weights);
  return node.make<tx::ReduceOp>(node.tensor_type(extents, element), tx::ReduceKind::sum, part, ArrayRef<int64_t>{dimension + 1});
}

SmallVector<Vectors> make_vectors(Node& node, const Method& method, const Axis& axis) {
  RankedTensorType type = node.tensor_type({axis.to}, node.builder.getF32Type());
  Lengths lengths = lengths_of(node, axis, {axis.to});
  auto outputs = tx::static_extent(axis.to);
  if (outputs && !axis.scale_in_data && *outputs <= most_known_outputs && tx::static_extent(axis.from))
    return known_vectors(node, method, lengths);
  Number output(node, node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0)));
  SmallVector<Vectors> result;
  for (const Tap& tap : method.taps(output, lengths, axis.scale.value_or(1) < 1)) {
    RankedTensorType whole = tx::with_element_type(type, node.builder.getI64Type());
    result.push_back({node.make<tx::CastOp>(whole, tap.index.vector()), tap.weight.vector()});
  }
  return result;
}

void resize(Node& node) {
  bool is_upsample = node.type() == "Upsample";
  if (is_upsample != (node.opset() < 10))
    node.fail(is_upsample ? "it is in opsets up to 9; Resize is in later ones" : "it is in opset 10 and later ones");
  Value input = node.input(0);
  Type element = Node::type_of(input).getElementType();
  Method method = read_method(node);
  std::vector<Axis> axes = read_axes(node, method, Node::extents_of(input));
  const size_t axis_count =
      node.opset() >= 18 ? node.integer_list("axes", std::vector<int64_t>(static_cast<size_t>(Node::type_of(input).getRank()))).size()
                         : static_cast<size_t>(Node::type_of(input).getRank());
  if (method.mode != Mode::nearest && !llvm::isa<FloatType>(element))
    node.fail("elements other than floats are supported in mode 'nearest' only", HEDDLE_STATUS_UNIMPLEMENTED);
  bool is_half = method.mode != Mode::nearest && element.getIntOrFloatBitWidth() < 32;
  Value value = is_half ? node.converted(input, node.builder.getF32Type()) : input;
  // as for other operators on images
  bool is_image = Node::type_of(input).getRank() > 2 && llvm::all_of(axes, [](const Axis& axis) { return axis.dimension >= 2; });
  if (is_image) value = node.channels_last(value);
  Extents counts(Node::type_of(value).getRank(), node.builder.getAffineConstantExpr(1));
  for (const Axis& axis : axes) {
    int64_t dimension = is_image ? axis.dimension - 1 : axis.dimension;
    if (method.antialias || method.crops()) {
      value = method.antialias ? filtered(node, value, method, axis, dimension, axis_count)
                               : cropped(node, value, method, axis, dimension, axis_count);
      continue;
    }
    AffineExpr times = exact_quotient(axis.to, axis.from, node.builder.getContext());
    auto count = times ? tx::static_extent(times) : std::nullopt;
    if (count && axis.scale == static_cast<float>(*count) && method.repeats()) {
      counts[dimension] = times;
    } else {
      value = resized(node, value, dimension, make_vectors(node, method, axis));
    }
  }
  value = node.repeat(value, counts, /*elements=*/true);
  if (is_image) value = node.channels_first(value);
  node.set_result(node.converted(value, element));
}

}  // namespace

const Table& resize_operators() {
  static const Table table = {
      {"Resize", resize},
      {"Upsample", resize},
  };
  return table;
}

}  // namespace heddle::import
