// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images read between their elements (GridSample, RoiAlign, DeformConv), and images put together again (Col2Im, MaxUnpool).
#include <limits>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_window.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

AffineExpr number_extent(Node& node, int64_t value) {
  return node.builder.getAffineConstantExpr(value);
}

// Elements of 16 bits, and integers, are interpolated in f32.
Type computed_type(Node& node, Value value) {
  Type element = Node::type_of(value).getElementType();
  return element.isF64() ? element : Type(node.builder.getF32Type());
}

// The places of tensors of indices of one shape, [P...] each, as [P..., number of tensors].
Value rows_of(Node& node, ArrayRef<Value> columns) {
  SmallVector<Value> parts;
  Extents extents = Node::extents_of(columns[0]);
  const auto axis = static_cast<int64_t>(extents.size());
  extents.push_back(number_extent(node, 1));
  for (Value column : columns) parts.push_back(node.reshape(column, extents));
  if (parts.size() == 1) return parts[0];
  extents.back() = number_extent(node, static_cast<int64_t>(parts.size()));
  return node.make<tx::ConcatOp>(node.tensor_type(extents, Node::type_of(parts[0]).getElementType()), parts,
                                 node.builder.getI64IntegerAttr(axis));
}

enum class Padding { zeros, border, reflection };

// A spatial dimension of an image; coordinates are floats, one for each place.
class Dimension {
 public:
  // Of DeformConv: places count elements, and those outside are 0.
  Dimension(Node& node, Value coordinate, AffineExpr extent)
      : m_(node), node_(node), padding_(Padding::zeros), size_(m_.extent(extent, coordinate)), coordinate_(coordinate) {
    last_ = m_.sub(size_, m_.number(coordinate, 1));
    low_ = m_.number(coordinate, 0);
    high_ = last_;
  }

  // Of GridSample: places are from -1 to 1.
  Dimension(Node& node, Value normalized, AffineExpr extent, bool align, Padding padding)
      : m_(node), node_(node), padding_(padding), size_(m_.extent(extent, normalized)) {
    Value one = m_.number(normalized, 1), half = m_.number(normalized, 0.5);
    last_ = m_.sub(size_, one);
    Value from_zero = m_.add(normalized, one);
    if (align) {
      low_ = m_.number(normalized, 0);
      high_ = last_;
      coordinate_ = m_.mul(m_.mul(from_zero, half), last_);
    } else {
      low_ = m_.number(normalized, -0.5);
      high_ = m_.sub(size_, half);
      coordinate_ = m_.mul(m_.sub(m_.mul(from_zero, size_), one), half);
    }
  }

  struct Tap {
    Value index;    // as i64, inside the dimension
    Value weight;   // null: 1
    Value is_read;  // null: always
  };

  SmallVector<Tap> taps(const std::string& mode) {
    if (mode == "nearest") coordinate_ = m_.round(coordinate_);
    // Pads that repeat something do so for coordinates, too, except that the elements around a place beyond the border have their weights there in cubic
    // mode, as in PyTorch and ONNX Runtime, though not in ONNX's reference implementation.
    if (padding_ == Padding::reflection || (padding_ == Padding::border && mode != "cubic")) {
      Value moved = padding_ == Padding::border ? clamped(coordinate_) : reflected(coordinate_);
      Value is_outside = m_.compare(CompareKind::lt, coordinate_, low_);
      coordinate_ = m_.select(is_outside, moved, m_.select(m_.compare(CompareKind::gt, coordinate_, high_), moved, coordinate_));
    }
    if (mode == "nearest") return {tap(coordinate_, Value())};
    Value floor = m_.floor(coordinate_), t = m_.sub(coordinate_, floor), one = m_.number(t, 1);
    if (mode == "linear") return {tap(floor, m_.sub(one, t)), tap(m_.add(floor, one), t)};
    SmallVector<Tap> result;
    for (int i = -1; i <= 2; ++i) {
      Value distance = i <= 0 ? m_.add(t, m_.number(t, -i)) : m_.sub(m_.number(t, i), t);
      result.push_back(tap(m_.add(floor, m_.number(t, i)), cubic(distance, i < 0 || i > 1)));
    }
    return result;
  }

 private:
  Value clamped(Value x) const { return m_.max(m_.min(x, last_), m_.number(x, 0)); }

  // There and back between the ends, as often as needed.
  Value reflected(Value x) const {
    Value span = m_.sub(high_, low_), zero = m_.number(x, 0);
    Value divisor = m_.select(m_.compare(CompareKind::gt, span, zero), span, m_.number(x, 1));
    Value is_low = m_.compare(CompareKind::lt, x, low_);
    Value beyond = m_.select(is_low, m_.sub(low_, x), m_.sub(x, high_));
    Value times = m_.floor(m_.div(beyond, divisor)), rest = m_.sub(beyond, m_.mul(times, divisor));
    Value half = m_.mul(times, m_.number(x, 0.5)), is_even = m_.compare(CompareKind::eq, half, m_.floor(half));
    Value from_low = m_.add(low_, rest), from_high = m_.sub(high_, rest);
    Value moved = m_.select(is_even, m_.select(is_low, from_low, from_high), m_.select(is_low, from_high, from_low));
    Value is_inside = m_.both(m_.compare(CompareKind::ge, x, low_), m_.compare(CompareKind::le, x, high_));
    return m_.select(is_inside, x, moved);
  }

  // Keys' convolution with a = -0.75, for distances up to 1 or, with `outer`, from 1 to 2.
  Value cubic(Value d, bool outer) const {
    constexpr double a = -0.75;
    auto line = [&](Value value, double by) { return m_.add(value, m_.number(d, by)); };
    if (outer) return line(m_.mul(line(m_.mul(line(m_.mul(d, m_.number(d, a)), -5 * a), d), 8 * a), d), -4 * a);
    return line(m_.mul(m_.mul(line(m_.mul(d, m_.number(d, a + 2)), -(a + 3)), d), d), 1);
  }

  Tap tap(Value place, Value weight) const {
    Value is_read;
    if (padding_ == Padding::zeros) is_read = m_.is_inside(place, size_);
    if (padding_ == Padding::reflection) place = reflected(place);
    return {node_.converted(clamped(place), node_.builder.getI64Type()), weight, is_read};
  }

  Arithmetic m_;
  Node& node_;
  Padding padding_;
  Value size_, last_, low_, high_, coordinate_;
};

// Elements of an image [N, spatial..., C] at places [N, P], each read with its taps along all dimensions: [N, P, C].
Value interpolated(Node& node, Value image, ArrayRef<SmallVector<Dimension::Tap>> dimensions) {
  Arithmetic m(node);
  const Extents of_places = Node::extents_of(dimensions[0][0].index);
  const RankedTensorType type =
      node.tensor_type({of_places[0], of_places[1], Node::extents_of(image).back()}, Node::type_of(image).getElementType());
  const Extents extents = tx::extents(type);
  Value result;
  SmallVector<size_t> at(dimensions.size(), 0);
  while (true) {
    SmallVector<Value> indices;
    Value weight, is_read;
    for (auto [taps, which] : llvm::zip(dimensions, at)) {
      const Dimension::Tap& tap = taps[which];
      indices.push_back(tap.index);
      if (tap.weight) weight = weight ? m.mul(weight, tap.weight) : tap.weight;
      if (tap.is_read) is_read = is_read ? m.both(is_read, tap.is_read) : tap.is_read;
    }
    Value value = node.make<tx::GatherNdOp>(type, image, rows_of(node, indices), node.builder.getI64IntegerAttr(1));
    if (weight) value = m.mul(value, m.spread(node.converted(weight, type.getElementType()), extents, {0, 1}));
    if (is_read) value = m.select(m.spread(is_read, extents, {0, 1}), value, m.number(value, 0));
    result = result ? m.add(result, value) : value;
    size_t d = 0;
    while (d < at.size() && ++at[d] == dimensions[d].size()) at[d++] = 0;
    if (d == at.size()) return result;
  }
}

void grid_sample(Node& node) {
  Value image = node.input(0), grid = node.input(1);
  node.check_image(image);
  const Extents from = Node::extents_of(image);
  Extents of_grid = Node::extents_of(grid);
  const size_t spatial = from.size() - 2;
  if (of_grid.size() != from.size() || !node.are_equal(from[0], of_grid[0]) ||
      tx::static_extent(of_grid.back()) != static_cast<int64_t>(spatial))
    node.refuse_inputs("the grid does not have " + std::to_string(spatial) + " coordinates for each place of each image of the batch");
  if (!llvm::isa<FloatType>(Node::type_of(grid).getElementType())) node.refuse_inputs("the grid needs elements that are floats");
  std::string mode = node.text("mode", node.opset() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "linear" && mode != "cubic" && mode != "nearest") node.fail("mode '" + mode + "' is not known");
  const std::string named = node.text("padding_mode", "zeros");
  if (named != "zeros" && named != "border" && named != "reflection") node.fail("padding_mode '" + named + "' is not known");
  const Padding padding = named == "zeros" ? Padding::zeros : named == "border" ? Padding::border : Padding::reflection;
  const bool align = node.integer("align_corners", 0) != 0;
  for (AffineExpr extent : ArrayRef<AffineExpr>(from).drop_front(2)) {
    if (!node.graph.symbols.require(extent, number_extent(node, 1), node.describe()) || tx::static_extent(extent) == 0)
      node.refuse_inputs("the images have no elements");
  }
  const Type compute = computed_type(node, grid);
  of_grid[0] = from[0];
  const AffineExpr places = node.count_of(ArrayRef<AffineExpr>(of_grid).drop_front().drop_back());
  grid = node.converted(node.reshape(grid, {from[0], places, of_grid.back()}), compute);
  SmallVector<SmallVector<Dimension::Tap>> dimensions;
  for (size_t d = 0; d < spatial; ++d) {  // the last dimension's coordinates come first
    SmallVector<int64_t> starts{0, 0, static_cast<int64_t>(spatial - 1 - d)}, strides{1, 1, 1};
    Value normalized = node.builder.createOrFold<tx::SliceOp>(
        node.location(), node.tensor_type({from[0], places, number_extent(node, 1)}, compute), grid, starts, strides);
    dimensions.push_back(Dimension(node, node.reshape(normalized, {from[0], places}), from[2 + d], align, padding).taps(mode));
  }
  const Type element = Node::type_of(image).getElementType();
  if (mode != "nearest") image = node.converted(image, computed_type(node, image));
  Value result = node.transpose(interpolated(node, node.channels_last(image), dimensions), {0, 2, 1});
  Extents to{from[0], from[1]};
  to.append(of_grid.begin() + 1, of_grid.end() - 1);
  node.set_result(node.converted(node.reshape(result, to), element));
}

// A convolution that reads its window between elements, each tap at an offset of its own: the taps of all windows, times their mask, are a matrix that is
// multiplied with the filter. Each offset group of channels has its offsets.
void deform_conv(Node& node) {
  Value image = node.input(0), filter = node.input(1), offset = node.input(2);
  node.check_image(image);
  const Extents from = Node::extents_of(image), of_offset = Node::extents_of(offset);
  const RankedTensorType filter_type = Node::type_of(filter);
  const size_t spatial = from.size() - 2;
  if (!filter_type.hasStaticShape() || filter_type.getRank() != static_cast<int64_t>(from.size()))
    node.refuse_inputs("the filter does not have the rank of the input, and static extents");
  const std::vector<int64_t> kernel(filter_type.getShape().begin() + 2, filter_type.getShape().end());
  if (node.integer_list("kernel_shape", kernel) != kernel) node.fail("kernel_shape is not the filter's");
  const Window window = read_padded_window(node, ArrayRef<AffineExpr>(from).drop_front(2), kernel);
  const int64_t groups = node.integer("group", 1), offset_groups = node.integer("offset_group", 1), filters = filter_type.getShape()[0],
                own_channels = filter_type.getShape()[1];
  int64_t taps = 1;
  for (int64_t one : kernel) taps = taps > largest_extent / one ? largest_extent + 1 : taps * one;
  if (taps > largest_extent) node.fail("its windows have more than " + std::to_string(largest_extent) + " elements");
  const AffineExpr channels = product(number_extent(node, own_channels), number_extent(node, groups));
  if (groups < 1 || filters % groups != 0 || from[1] != channels || own_channels < 1)
    node.refuse_inputs("the channels of input and filter do not fit group " + std::to_string(groups));
  if (offset_groups < 1 || own_channels * groups % offset_groups != 0)
    node.fail("offset_group " + std::to_string(offset_groups) + " does not divide " + std::to_string(own_channels * groups) + " channels");
  // [N, C, spatial...], with the extents of the result
  const Extents result = tx::extents(output_type(node, node.channels_last(image), window, number_extent(node, filters), false));
  const ArrayRef<AffineExpr> outputs = ArrayRef<AffineExpr>(result).slice(1, spatial);
  auto with_outputs = [&](Value value, int64_t per_place, const char* what) {
    Extents wanted{from[0], number_extent(node, per_place)};
    wanted.append(outputs.begin(), outputs.end());
    const Extents given = Node::extents_of(value);
    bool fits = given.size() == wanted.size();
    for (size_t i = 0; fits && i < given.size(); ++i) fits = node.are_equal(wanted[i], given[i]);
    if (!fits)
      node.refuse_inputs(std::string(what) + " does not have " + std::to_string(per_place) + " values for each element of the result");
    return node.with_extents(value, wanted);
  };
  for (size_t d = 0; d < spatial; ++d) {
    if (!node.graph.symbols.require(from[2 + d], number_extent(node, 1), node.describe()) ||
        !node.graph.symbols.require(outputs[d], number_extent(node, 1), node.describe()))
      node.refuse_inputs("the window does not fit into dimension " + std::to_string(2 + d));
  }
  const Arithmetic m(node);
  const Type element = Node::type_of(image).getElementType(), compute = computed_type(node, image);
  const AffineExpr tap_count = number_extent(node, taps), output_count = node.count_of(outputs),
                   batch = node.count_of({from[0], number_extent(node, offset_groups)}), places = node.count_of({tap_count, output_count}),
                   one = number_extent(node, 1);
  const auto per_group = static_cast<int64_t>(spatial) * taps * offset_groups;
  offset = node.reshape(node.converted(with_outputs(offset, per_group, "the offset"), compute),
                        {batch, tap_count, number_extent(node, static_cast<int64_t>(spatial)), output_count});
  Extents of_window;  // kernel..., outputs...
  for (int64_t extent : kernel) of_window.push_back(number_extent(node, extent));
  of_window.append(outputs.begin(), outputs.end());
  SmallVector<SmallVector<Dimension::Tap>> dimensions;
  for (size_t d = 0; d < spatial; ++d) {
    Value tap = m.iota(of_window, static_cast<int64_t>(d), compute), output = m.iota(of_window, static_cast<int64_t>(spatial + d), compute);
    Value place = m.add(m.mul(tap, m.number(tap, static_cast<double>(window.dilations[d]))),
                        m.mul(output, m.number(output, static_cast<double>(window.strides[d]))));
    place = node.reshape(m.sub(place, m.number(place, static_cast<double>(window.low[d]))), {places});
    SmallVector<int64_t> starts{0, 0, static_cast<int64_t>(d), 0}, strides{1, 1, 1, 1};
    Value moved = node.builder.createOrFold<tx::SliceOp>(node.location(), node.tensor_type({batch, tap_count, one, output_count}, compute),
                                                         offset, starts, strides);
    moved = node.reshape(moved, {batch, places});
    dimensions.push_back(Dimension(node, m.add(moved, m.spread(place, {batch, places}, {1})), from[2 + d]).taps("linear"));
  }
  const AffineExpr of_offset_group = number_extent(node, own_channels * groups / offset_groups);
  Extents grouped{batch, of_offset_group};
  grouped.append(from.begin() + 2, from.end());
  Value columns = interpolated(node, node.channels_last(node.reshape(node.converted(image, compute), grouped)), dimensions);
  if (node.has_input(4)) {
    Value mask = node.converted(with_outputs(node.input(4), taps * offset_groups, "the mask"), compute);
    columns = m.mul(columns, m.spread(node.reshape(mask, {batch, places}), Node::extents_of(columns), {0, 1}));
  }
  // [N, offset groups, taps, outputs, channels] -> [N, groups, outputs, taps and channels of the group]
  const AffineExpr group_count = number_extent(node, groups), own = number_extent(node, own_channels),
                   depth = node.count_of({tap_count, own}), width = number_extent(node, filters / groups);
  columns = node.reshape(columns, {from[0], number_extent(node, offset_groups), tap_count, output_count, of_offset_group});
  columns = node.reshape(node.transpose(columns, {0, 3, 2, 1, 4}), {from[0], output_count, tap_count, group_count, own});
  columns = node.reshape(node.transpose(columns, {0, 3, 1, 2, 4}), {from[0], group_count, output_count, depth});
  // [groups, filters, channels, taps] -> [groups, taps and channels, filters]
  filter = node.reshape(node.converted(filter, compute), {group_count, width, own, tap_count});
  filter = node.reshape(node.transpose(filter, {0, 3, 2, 1}), {group_count, depth, width});
  Value sums;
  if (groups == 1) {
    sums = node.make<tx::MatmulOp>(node.tensor_type({from[0], output_count, width}, compute),
                                   node.reshape(columns, {from[0], output_count, depth}), node.reshape(filter, {depth, width}));
    sums = node.transpose(sums, {0, 2, 1});
  } else {
    sums = node.make<tx::MatmulOp>(node.tensor_type({from[0], group_count, output_count, width}, compute), columns,
                                   m.spread(filter, {from[0], group_count, depth, width}, {1, 2, 3}));
    sums = node.transpose(sums, {0, 1, 3, 2});
  }
  Extents to{from[0], number_extent(node, filters)};
  if (node.has_input(3)) {
    Value bias = node.input(3);
    if (Node::type_of(bias).getShape() != ArrayRef<int64_t>{filters})
      node.refuse_inputs("the bias does not have " + std::to_string(filters) + " elements");
    const Extents flat{from[0], to[1], output_count};
    sums = node.reshape(sums, flat);
    sums = m.add(sums, m.spread(node.converted(bias, compute), flat, {1}));
  }
  to.append(outputs.begin(), outputs.end());
  node.set_result(node.converted(node.reshape(sums, to), element));
}

// The samples of regions along one dimension of the image: [R, outputs * ratio], by their two neighbours.
struct Samples {
  AffineExpr ratio;           // of an output; the largest of all regions if each has a number of its own
  Value count;                // then, of each region: [R], as floats; else null
  Value is_own;               // then, whether the region has the sample
  Value low, high;            // indices, as i64
  Value near_low, near_high;  // weights
  Value is_read;
};

// With ratio 0, a region has as many samples for an output as it has pixels there, rounded up.
Samples samples_of(Node& node, Value start, Value end, AffineExpr size, int64_t outputs, int64_t ratio, bool half_pixel) {
  Arithmetic m(node);
  const AffineExpr regions = Node::extents_of(start)[0];
  const Type element = Node::type_of(start).getElementType(), i64 = node.builder.getI64Type();
  Value length = m.sub(end, start);
  if (!half_pixel) length = m.max(length, m.number(length, 1));
  Samples result;
  result.ratio = number_extent(node, ratio);
  Value step = m.mul(length, m.number(length, 1.0 / static_cast<double>(outputs * ratio))), place;
  if (ratio == 0) {
    Value bin = m.div(length, m.number(length, static_cast<double>(outputs)));
    Value count = m.max(node.make<tx::CeilOp>(Node::type_of(bin), bin), m.number(bin, 0));
    Value most = node.make<tx::ReduceOp>(node.tensor_type({}, i64), tx::ReduceKind::max, node.converted(count, i64), ArrayRef<int64_t>{0});
    const Integers largest(node, node.reshape(most, {number_extent(node, 1)}));
    result.ratio = read_extents(node, max(largest, largest.number(1)), "largest number of samples of an output").front();
    result.count = count;
    const Extents apart{regions, number_extent(node, outputs), result.ratio}, joined{regions, node.count_of({apart[1], apart[2]})};
    Value sample = m.iota(apart, 2, element), of_region = m.spread(count, apart, {0});
    result.is_own = node.reshape(m.compare(CompareKind::lt, sample, of_region), joined);
    place = m.div(m.add(sample, m.number(sample, 0.5)), m.max(of_region, m.number(sample, 1)));
    place = m.mul(m.add(m.iota(apart, 1, element), place), m.spread(bin, apart, {0}));
    place = node.reshape(place, joined);
  } else {
    const Extents extents{regions, number_extent(node, outputs * ratio)};
    place = m.iota(extents, 1, element);
    place = m.mul(m.add(place, m.number(place, 0.5)), m.spread(step, extents, {0}));
  }
  place = m.add(place, m.spread(start, Node::extents_of(place), {0}));
  Value whole = m.extent(size, place), zero = m.number(place, 0), one = m.number(place, 1), last = m.sub(whole, one);
  result.is_read = m.both(m.compare(CompareKind::ge, place, m.number(place, -1)), m.compare(CompareKind::le, place, whole));
  place = m.min(m.max(place, zero), last);
  Value low = m.floor(place);
  result.near_high = m.sub(place, low);
  result.near_low = m.sub(one, result.near_high);
  result.low = node.converted(low, i64);
  result.high = node.converted(m.min(m.add(low, one), last), i64);
  return result;
}

void roi_align(Node& node) {
  Value image = node.input(0), rois = node.input(1), batches = node.input(2);
  const Extents from = Node::extents_of(image), of_rois = Node::extents_of(rois), of_batches = Node::extents_of(batches);
  if (from.size() != 4) node.fail("its input needs rank 4, has " + std::to_string(from.size()));
  if (of_rois.size() != 2 || tx::static_extent(of_rois[1]) != 4 || of_batches.size() != 1 || !node.are_equal(of_rois[0], of_batches[0]))
    node.refuse_inputs("rois is not [regions, 4], or batch_indices not [regions]");
  const std::string mode = node.text("mode", "avg");
  if (mode != "avg" && mode != "max") node.fail("mode '" + mode + "' is neither avg nor max");
  const std::string transformation = node.text("coordinate_transformation_mode", node.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (transformation != "half_pixel" && transformation != "output_half_pixel")
    node.fail("coordinate_transformation_mode '" + transformation + "' is not known");
  const bool half_pixel = transformation == "half_pixel";
  const int64_t outputs[2] = {node.integer("output_height", 1), node.integer("output_width", 1)}, ratio = node.integer("sampling_ratio", 0);
  for (int64_t one : {outputs[0], outputs[1]}) {
    if (one < 1 || one >= 1 << 20) node.fail("output_height or output_width is " + std::to_string(one));
  }
  if (ratio < 0 || ratio >= 1 << 10) node.fail("sampling_ratio is " + std::to_string(ratio));
  for (int i : {2, 3}) {
    if (!node.graph.symbols.require(from[static_cast<size_t>(i)], number_extent(node, 1), node.describe()) ||
        tx::static_extent(from[static_cast<size_t>(i)]) == 0)
      node.refuse_inputs("the images have no elements");
  }
  if (!llvm::isa<IntegerType>(Node::type_of(batches).getElementType()))
    node.refuse_inputs("batch_indices needs elements that are integers");
  batches = node.with_extents(batches, {of_rois[0]});
  expect_inside(node, image, 0, batches);
  Arithmetic m(node);
  const Type element = Node::type_of(image).getElementType(), compute = computed_type(node, image);
  rois = node.converted(rois, compute);
  const double scale = node.number("spatial_scale", 1.0);
  auto side = [&](int64_t column) {
    SmallVector<int64_t> starts{0, column}, strides{1, 1};
    Value one = node.make<tx::SliceOp>(node.tensor_type({of_rois[0], number_extent(node, 1)}, compute), rois, starts, strides);
    one = node.reshape(one, {of_rois[0]});
    return m.sub(m.mul(one, m.number(one, scale)), m.number(one, half_pixel ? 0.5 : 0.0));
  };
  const Samples y = samples_of(node, side(1), side(3), from[2], outputs[0], ratio, half_pixel);
  const Samples x = samples_of(node, side(0), side(2), from[3], outputs[1], ratio, half_pixel);

  const Extents places{of_rois[0], Node::extents_of(y.low)[1], Node::extents_of(x.low)[1]};
  Extents whole = places;
  whole.push_back(from[1]);
  const RankedTensorType type = node.tensor_type(whole, compute);
  Value batch = m.spread(node.converted(batches, node.builder.getI64Type()), places, {0});
  Value pixels = node.channels_last(node.converted(image, compute)), result;
  for (bool low_y : {true, false}) {
    for (bool low_x : {true, false}) {
      Value rows =
          rows_of(node, {batch, m.spread(low_y ? y.low : y.high, places, {0, 1}), m.spread(low_x ? x.low : x.high, places, {0, 2})});
      Value value = node.make<tx::GatherNdOp>(type, pixels, rows, node.builder.getI64IntegerAttr(0));
      Value weight =
          m.mul(m.spread(low_y ? y.near_low : y.near_high, places, {0, 1}), m.spread(low_x ? x.near_low : x.near_high, places, {0, 2}));
      value = m.mul(value, m.spread(weight, whole, {0, 1, 2}));
      result = !result ? value : mode == "avg" ? m.add(result, value) : m.max(result, value);
    }
  }
  Value is_read = m.both(m.spread(y.is_read, places, {0, 1}), m.spread(x.is_read, places, {0, 2}));
  result = m.select(m.spread(is_read, whole, {0, 1, 2}), result, m.number(result, 0));
  if (ratio == 0) {
    Value is_own = m.both(m.spread(y.is_own, places, {0, 1}), m.spread(x.is_own, places, {0, 2}));
    const double none = mode == "avg" ? 0 : -std::numeric_limits<double>::infinity();  // it counts for nothing
    result = m.select(m.spread(is_own, whole, {0, 1, 2}), result, m.number(result, none));
  }
  const Extents of_result{of_rois[0], number_extent(node, outputs[0]), number_extent(node, outputs[1]), from[1]};
  result = node.reshape(result, {of_rois[0], of_result[1], y.ratio, of_result[2], x.ratio, from[1]});
  const tx::ReduceKind kind = mode == "max" ? tx::ReduceKind::max : ratio == 0 ? tx::ReduceKind::sum : tx::ReduceKind::mean;
  result = node.make<tx::ReduceOp>(node.tensor_type(of_result, compute), kind, result, ArrayRef<int64_t>{2, 4});
  if (ratio == 0) {  // a region without samples has zeros
    Value count = m.spread(m.mul(y.count, x.count), of_result, {0}), one = m.number(count, 1);
    if (mode == "avg") result = m.div(result, m.max(count, one));
    result = m.select(m.compare(CompareKind::ge, count, one), result, m.number(result, 0));
  }
  node.set_result(node.converted(node.channels_first(result), element));
}

// The largest element of each bin of each region, whose sides are whole pixels; an empty bin has 0. Rows are reduced first, then columns.
void max_roi_pool(Node& node) {
  Value image = node.input(0), rois = node.input(1);
  const Extents from = Node::extents_of(image), of_rois = Node::extents_of(rois);
  if (from.size() != 4) node.fail("its input needs rank 4, has " + std::to_string(from.size()));
  if (of_rois.size() != 2 || tx::static_extent(of_rois[1]) != 5) node.refuse_inputs("rois is not [regions, 5]");
  const std::vector<int64_t> pooled = node.integer_list("pooled_shape");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1 || pooled[0] >= 1 << 20 || pooled[1] >= 1 << 20)
    node.fail("pooled_shape is not two numbers from 1 on");
  Arithmetic m(node);
  const Type element = Node::type_of(image).getElementType(), compute = computed_type(node, image), i64 = node.builder.getI64Type();
  const double scale = node.number("spatial_scale", 1.0);
  rois = node.converted(rois, compute);
  auto column = [&](int64_t which) {
    SmallVector<int64_t> starts{0, which}, strides{1, 1};
    Value one = node.make<tx::SliceOp>(node.tensor_type({of_rois[0], number_extent(node, 1)}, compute), rois, starts, strides);
    return node.reshape(one, {of_rois[0]});
  };
  auto negated = [&](Value x) { return node.make<tx::NegOp>(Node::type_of(x), x); };
  auto side = [&](int64_t which) {  // halves are rounded away from 0
    Value x = column(which);
    x = m.mul(x, m.number(x, scale));
    Value size = m.floor(m.add(m.abs(x), m.number(x, 0.5)));
    return m.select(m.compare(tx::CompareKind::lt, x, m.number(x, 0)), negated(size), size);
  };
  Value batches = node.converted(column(0), i64);
  expect_inside(node, image, 0, batches);
  Extents whole = from;
  whole[0] = of_rois[0];
  Value values =
      node.make<tx::GatherOp>(node.tensor_type(whole, compute), node.converted(image, compute), batches, node.builder.getI64IntegerAttr(0));
  Value is_full;
  for (int64_t axis : {2, 3}) {  // of the height, then of the width
    const int64_t bins = pooled[static_cast<size_t>(axis - 2)];
    const AffineExpr extent = from[static_cast<size_t>(axis)];
    const Extents of_bins{of_rois[0], number_extent(node, bins)}, of_places{of_rois[0], number_extent(node, bins), extent};
    Value first = side(4 - axis), last = side(6 - axis);  // x1, y1, x2 and y2 are columns 1 to 4
    Value length = m.max(m.add(m.sub(last, first), m.number(first, 1)), m.number(first, 1));
    Value size = m.spread(m.div(length, m.number(length, static_cast<double>(bins))), of_bins, {0}), start = m.spread(first, of_bins, {0});
    Value bin = m.iota(of_bins, 1, compute), next = m.add(bin, m.number(bin, 1));
    auto clipped = [&](Value x) { return m.min(m.max(m.add(x, start), m.number(x, 0)), m.extent(extent, x)); };
    Value begin = clipped(m.floor(m.mul(bin, size))), end = clipped(negated(m.floor(negated(m.mul(next, size)))));
    Value place = m.iota(of_places, 2, compute);
    Value is_inside = m.both(m.compare(tx::CompareKind::ge, place, m.spread(begin, of_places, {0, 1})),
                             m.compare(tx::CompareKind::lt, place, m.spread(end, of_places, {0, 1})));
    // [regions, channels, bins, places, ..], of which the places are reduced
    Extents all = Node::extents_of(values), reduced = all;
    const size_t at = axis == 2 ? 2 : 3;
    all.insert(all.begin() + static_cast<int64_t>(at), number_extent(node, bins));
    reduced[at] = number_extent(node, bins);
    SmallVector<int64_t> dimensions;
    for (int64_t d = 0; d < 4; ++d) dimensions.push_back(d < static_cast<int64_t>(at) ? d : d + 1);
    Value spread = m.spread(values, all, dimensions);
    spread = m.select(m.spread(is_inside, all, {0, static_cast<int64_t>(at), static_cast<int64_t>(at) + 1}), spread,
                      m.number(spread, -std::numeric_limits<double>::infinity()));
    values = node.make<tx::ReduceOp>(node.tensor_type(reduced, compute), tx::ReduceKind::max, spread,
                                     ArrayRef<int64_t>{static_cast<int64_t>(at) + 1});
    const Extents of_result{of_rois[0], number_extent(node, pooled[0]), number_extent(node, pooled[1])};
    Value is_some = m.spread(m.compare(tx::CompareKind::lt, begin, end), of_result, {0, axis - 1});
    is_full = is_full ? m.both(is_full, is_some) : is_some;
  }
  const Extents result = Node::extents_of(values);
  values = m.select(m.spread(is_full, result, {0, 2, 3}), values, m.number(values, 0));
  node.set_result(node.converted(values, element));
}

// The sum of the blocks that cover each element of the image. Both shapes may be data.
void col2im(Node& node) {
  Value columns = node.input(0);
  const Extents from = Node::extents_of(columns);
  const std::vector<AffineExpr> image = extents_from(node, 1, "extent of the image"), block = extents_from(node, 2, "extent of the block");
  const size_t spatial = image.size();
  if (from.size() != 3 || spatial == 0 || block.size() != spatial)
    node.refuse_inputs("the input is not [N, C * block, blocks], or the block does not fit the image");
  const std::vector<int64_t> dilations = node.integer_list("dilations", std::vector<int64_t>(spatial, 1)),
                             strides = node.integer_list("strides", std::vector<int64_t>(spatial, 1)),
                             pads = node.integer_list("pads", std::vector<int64_t>(2 * spatial, 0));
  if (dilations.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial)
    node.fail("dilations, strides and pads do not fit " + std::to_string(spatial) + " spatial dimensions");
  auto constant = [&](int64_t value) { return number_extent(node, value); };
  Extents places, of_image{from[0], AffineExpr()};
  for (size_t d = 0; d < spatial; ++d) {
    auto is_sane = [](int64_t value, int64_t least) { return value >= least && value < 1 << 20; };
    auto is_extent = [&](AffineExpr extent) {
      const auto known = tx::static_extent(extent);
      return known ? is_sane(*known, 1) : node.graph.symbols.require(extent, constant(1), node.describe());
    };
    if (!is_extent(block[d]) || !is_extent(image[d]) || !is_sane(dilations[d], 1) || !is_sane(strides[d], 1) || !is_sane(pads[d], 0) ||
        !is_sane(pads[spatial + d], 0))
      node.fail("image_shape, block_shape, dilations, strides or pads are out of range on dimension " + std::to_string(d));
    places.push_back(block[d]);
  }
  const AffineExpr block_size = node.count_of(places);
  for (size_t d = 0; d < spatial; ++d) {
    const AffineExpr reach = product(constant(dilations[d]), difference(block[d], constant(1)));
    const AffineExpr span = node.computed(difference(sum(image[d], constant(pads[d] + pads[spatial + d] - 1)), reach));
    if (!node.graph.symbols.require(span, constant(0), node.describe()))
      node.fail("the block does not fit into dimension " + std::to_string(d));
    places.push_back(node.computed(sum(quotient(span, strides[d]), constant(1))));
    of_image.push_back(image[d]);
  }
  AffineExpr channels = exact_quotient(from[1], block_size, node.builder.getContext());
  if (!channels && !tx::static_extent(block_size)) {
    channels = node.graph.symbols.defined("floordiv", from[1], block_size);
    if (channels && !node.are_equal(from[1], node.computed(product(channels, block_size)))) channels = {};
  }
  if (!channels) node.refuse_inputs("dimension 1 is not a multiple of the number of elements of a block");
  of_image[1] = channels;
  const AffineExpr blocks = node.count_of(ArrayRef<AffineExpr>(places).drop_front(spatial)), count = node.count_of(places);
  if (!node.are_equal(blocks, from[2])) node.refuse_inputs("dimension 2 is not the number of blocks that fit into the image");
  Arithmetic m(node);
  const Type i64 = node.builder.getI64Type();
  Value target, is_inside;
  for (size_t d = 0; d < spatial; ++d) {
    Value in_block = m.iota(places, static_cast<int64_t>(d), i64), of_block = m.iota(places, static_cast<int64_t>(spatial + d), i64);
    Value place = m.add(m.mul(in_block, m.number(in_block, static_cast<double>(dilations[d]))),
                        m.mul(of_block, m.number(of_block, static_cast<double>(strides[d]))));
    place = m.sub(place, m.number(place, static_cast<double>(pads[d])));
    Value size = m.extent(image[d], place), fits = m.is_inside(place, size);
    is_inside = is_inside ? m.both(is_inside, fits) : fits;
    target = target ? m.add(m.mul(target, size), place) : place;
  }
  const AffineExpr elements = node.count_of(ArrayRef<AffineExpr>(of_image).drop_front(2)), rows = node.count_of({from[0], channels});
  // an update whose index is outside is dropped
  target = node.reshape(m.select(is_inside, target, m.extent(elements, target)), {count});
  const Type element = Node::type_of(columns).getElementType();
  Value updates = node.reshape(columns, {rows, count});
  Value result = node.splat(node.tensor_type({rows, elements}, element), 0);
  const tx::ReduceKind kind = element.isInteger(1) ? tx::ReduceKind::max : tx::ReduceKind::sum;
  result = node.make<tx::ScatterOp>(Node::type_of(result), result, target, updates, node.builder.getI64IntegerAttr(1),
                                    tx::ReduceKindAttr::get(node.builder.getContext(), kind));
  node.set_result(node.reshape(result, of_image));
}

// Indices of a tensor of these extents as those of the same elements in a larger one.
Value in_larger(const Arithmetic& m, Value indices, ArrayRef<AffineExpr> from, ArrayRef<AffineExpr> to, AffineExpr size) {
  indices = m.select(m.compare(CompareKind::lt, indices, m.number(indices, 0)), m.add(indices, m.extent(size, indices)), indices);
  Value moved = m.number(indices, 0), factor = m.number(indices, 1);
  for (size_t d = from.size(); d-- > 0;) {
    Value extent = m.extent(from[d], indices), rest = m.div(indices, extent);
    moved = m.add(moved, m.mul(m.sub(indices, m.mul(rest, extent)), factor));
    factor = m.mul(factor, m.extent(to[d], indices));
    indices = rest;
  }
  return moved;
}

// Elements at the indices that MaxPool gave, zeros elsewhere.
void max_unpool(Node& node) {
  Value x = node.input(0), indices = node.input(1);
  node.check_image(x);
  const Extents from = Node::extents_of(x), of_indices = Node::extents_of(indices);
  const size_t spatial = from.size() - 2;
  const std::vector<int64_t> kernel = node.integer_list("kernel_shape"),
                             strides = node.integer_list("strides", std::vector<int64_t>(spatial, 1)),
                             pads = node.integer_list("pads", std::vector<int64_t>(2 * spatial, 0));
  if (kernel.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial)
    node.fail("kernel_shape, strides and pads do not fit " + std::to_string(spatial) + " spatial dimensions");
  bool fits = of_indices.size() == from.size() && Node::type_of(indices).getElementType().isInteger(64);
  for (size_t d = 0; fits && d < from.size(); ++d) fits = node.are_equal(from[d], of_indices[d]);
  if (!fits) node.refuse_inputs("there is not one index, of INT64, for each element");
  Extents to{from[0], from[1]};
  for (size_t d = 0; d < spatial; ++d) {
    for (int64_t one : {kernel[d], strides[d], pads[d] + 1, pads[spatial + d] + 1}) {
      if (one < 1 || one > 1 << 20) node.fail("kernel_shape, strides or pads are out of range on dimension " + std::to_string(d));
    }
    const int64_t rest = kernel[d] - strides[d] - pads[d] - pads[spatial + d];
    to.push_back(node.computed(sum(product(from[2 + d], number_extent(node, strides[d])), number_extent(node, rest))));
    if (auto known = tx::static_extent(to.back()); known && *known < 1)
      node.fail("the pads leave nothing of dimension " + std::to_string(2 + d));
  }
  Extents whole = to;  // with more zeros behind each dimension
  if (node.has_input(2)) {
    const std::vector<AffineExpr> wanted = extents_from(node, 2, "extent of the result");
    if (wanted.size() != to.size()) node.fail("output_shape has " + std::to_string(wanted.size()) + " elements");
    for (size_t d = 0; d < to.size(); ++d) {
      whole[d] = wanted[d];
      if (!node.graph.symbols.require(wanted[d], to[d], node.describe()))
        node.fail("output_shape is below what dimension " + std::to_string(d) + " has without it");
    }
  }
  const AffineExpr count = node.count_of(from), size = node.count_of(to);
  Value targets = node.reshape(indices, {count});
  node.graph.expected.push_back({targets, {}, size, "an index"});
  if (whole != to) targets = in_larger(Arithmetic(node), targets, to, whole, size);
  Value result = node.splat(node.tensor_type({node.count_of(whole)}, Node::type_of(x).getElementType()), 0);
  result = node.make<tx::ScatterOp>(Node::type_of(result), result, targets, node.reshape(x, {count}), node.builder.getI64IntegerAttr(0),
                                    tx::ReduceKindAttr());
  result = node.reshape(result, whole);
  node.set_result(result);
}

}  // namespace

const Table& sampling_operators() {
  static const Table table = {
      {"Col2Im", col2im},           {"DeformConv", deform_conv}, {"GridSample", grid_sample},
      {"MaxRoiPool", max_roi_pool}, {"MaxUnpool", max_unpool},   {"RoiAlign", roi_align},
  };
  return table;
}

}  // namespace heddle::import
