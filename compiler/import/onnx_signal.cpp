// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fourier transforms of signals (DFT, STFT) and MelWeightMatrix. A transform is a product with a matrix of cosines, which kernels compute when the model
// is loaded; a long one is several products of shorter ones.
#include <numbers>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

// Longer transforms are divided, if their length is known and has divisors.
constexpr int64_t longest_direct = 512;
// The longest transform whose length has no divisors: its matrix has up to four times the square of that many elements.
constexpr int64_t longest_prime = 4096;

// Elements of 16 bits are transformed in f32.
Type transformed_type(Node& node, Value value) {
  Type element = Node::type_of(value).getElementType();
  if (!llvm::isa<FloatType>(element)) node.refuse_inputs("the signal needs elements that are floats");
  return element.isF64() ? element : Type(node.builder.getF32Type());
}

// The transform of a signal [rows, elements, parts] over `length` elements: a longer signal is cut off, a shorter one is followed by zeros. Complex
// numbers have two parts, real ones one.
class Transform {
 public:
  Transform(Node& node, AffineExpr length, bool inverse, bool one_sided)
      : node_(node), m_(node), length_(length), inverse_(inverse), one_sided_(one_sided) {}

  // Of half a spectrum, to real numbers.
  bool is_real_inverse() const { return inverse_ && one_sided_; }
  AffineExpr half() const { return node_.computed(sum(quotient(length_, 2), constant(1))); }
  AffineExpr outputs() const { return one_sided_ && !inverse_ ? half() : length_; }
  int64_t parts() const { return is_real_inverse() ? 1 : 2; }

  // [rows, outputs, parts]
  Value of(Value signal) {
    auto known = tx::static_extent(length_);
    if (!known || *known <= longest_direct || divisor_of(*known) == 1) {
      if (known) check_direct(*known);
      return direct(signal, length_, outputs(), parts(), is_real_inverse());
    }
    if (is_real_inverse()) {
      Value real = part(divided(whole_spectrum(resized(signal, half())), *known), 0);
      return scaled(real);
    }
    Value result = scaled(divided(resized(signal, length_), *known));
    return one_sided_ ? resized(result, half()) : result;
  }

 private:
  AffineExpr constant(int64_t value) const { return node_.builder.getAffineConstantExpr(value); }
  Type i64() const { return node_.builder.getI64Type(); }
  Value number(Value like, int64_t value) const { return m_.number(like, static_cast<double>(value)); }

  // The largest divisor up to the square root.
  static int64_t divisor_of(int64_t number) {
    int64_t found = 1;
    for (int64_t i = 2; i <= number / i; ++i) {
      if (number % i == 0) found = i;
    }
    return found;
  }

  void check_direct(int64_t length) const {
    if (length > longest_prime)
      node_.fail("a transform over a length with the prime factor " + std::to_string(length) + ", above " + std::to_string(longest_prime) +
                     ", is not supported",
                 HEDDLE_STATUS_UNIMPLEMENTED);
  }

  // The cosine of quarters / length * pi / 2, for quarters from 0 to 4 * length: exact where it is -1, 0 or 1.
  Value cosine(Value quarters, Value length, Type element) const {
    Value whole = m_.div(quarters, length), rest = m_.sub(quarters, m_.mul(whole, length));
    Value angle = m_.div(node_.converted(rest, element), node_.converted(length, element));
    angle = m_.mul(angle, m_.number(angle, std::numbers::pi / 2));
    RankedTensorType type = Node::type_of(angle);
    auto is = [&](int64_t quarter) { return m_.compare(CompareKind::eq, whole, number(whole, quarter)); };
    auto either = [&](Value a, Value b) { return m_.select(a, a, b); };
    Value value = m_.select(either(is(1), is(3)), node_.make<tx::SinOp>(type, angle), node_.make<tx::CosOp>(type, angle));
    return m_.select(either(is(1), is(2)), node_.make<tx::NegOp>(type, value), value);
  }

  // By the matrix of the whole transform; with the scale of an inverse one, unless it is a part of a divided one.
  Value direct(Value signal, AffineExpr length, AffineExpr outputs, int64_t parts, bool is_real_inverse, bool is_part = false) {
    const Extents from = Node::extents_of(signal);
    const Type element = Node::type_of(signal).getElementType();
    const Extents all{from[1], from[2], outputs, constant(parts)};
    Value n = m_.iota(all, 0, i64()), c = m_.iota(all, 1, i64()), k = m_.iota(all, 2, i64()), d = m_.iota(all, 3, i64());
    Value size = m_.extent(length, n), circle = m_.mul(size, number(size, 4));
    // A part of a complex number is a quarter of a circle away from the other.
    Value turn = inverse_ ? m_.sub(c, d) : m_.sub(d, c);
    Value place = m_.add(m_.add(m_.mul(m_.mul(n, k), number(n, 4)), m_.mul(turn, size)), circle);
    place = m_.sub(place, m_.mul(m_.div(place, circle), circle));
    Value factors = cosine(place, size, element);
    Value counts = m_.compare(CompareKind::lt, n, size);
    if (is_real_inverse) {
      // All elements of the spectrum but the first, and the last of an even length, have a mirror image.
      Value twice = m_.add(n, n), is_single = m_.compare(CompareKind::eq, m_.mul(n, m_.sub(twice, size)), number(n, 0));
      factors = m_.mul(factors, m_.select(is_single, m_.number(factors, 1), m_.number(factors, 2)));
      counts = m_.compare(CompareKind::le, twice, size);
    }
    factors = m_.select(counts, factors, m_.number(factors, 0));
    if (inverse_ && !is_part) factors = m_.div(factors, node_.converted(size, element));
    const AffineExpr depth = node_.count_of({from[1], from[2]}), width = node_.count_of({outputs, constant(parts)});
    Value result = node_.make<tx::MatmulOp>(node_.tensor_type({from[0], width}, element), node_.reshape(signal, {from[0], depth}),
                                            node_.reshape(factors, {depth, width}));
    return node_.reshape(result, {from[0], outputs, constant(parts)});
  }

  // Cooley and Tukey: element b * n1 + n2 of the signal, and element k1 + a * k2 of the spectrum, for a length of a * b. Transforms over n1, turns by
  // n2 * k1 / (a * b) of a circle, and transforms over n2.
  Value divided(Value signal, int64_t length) {
    const int64_t a = length <= longest_direct ? 1 : divisor_of(length), b = length / a;
    if (a == 1) {
      check_direct(length);
      return direct(signal, constant(length), constant(length), 2, false, /*is_part=*/true);
    }
    const Extents from = Node::extents_of(signal);
    const AffineExpr rows = from[0], columns = constant(b), two = constant(2);
    auto permuted = [&](Value value, AffineExpr first, AffineExpr second, AffineExpr parts) {
      return node_.transpose(node_.reshape(value, {rows, first, second, parts}), {0, 2, 1, 3});
    };
    // [rows, n2, n1, parts] -> [rows, n2, k1, 2]
    Value inner = node_.reshape(permuted(signal, constant(a), columns, from[2]), {node_.count_of({rows, columns}), constant(a), from[2]});
    inner = turned(node_.reshape(divided(inner, a), {rows, columns, constant(a), two}), length);
    // [rows, k1, n2, 2] -> [rows, k1, k2, 2]
    inner = node_.reshape(node_.transpose(inner, {0, 2, 1, 3}), {node_.count_of({rows, constant(a)}), columns, two});
    return node_.reshape(permuted(divided(inner, b), constant(a), columns, two), {rows, constant(length), two});
  }

  // Complex numbers [rows, n, k, 2] times those at n * k / length of a circle.
  Value turned(Value value, int64_t length) {
    const Extents all = Node::extents_of(value), plane{all[1], all[2]};
    const Type element = Node::type_of(value).getElementType();
    Value product = m_.mul(m_.iota(plane, 0, i64()), m_.iota(plane, 1, i64())), size = number(product, length);
    auto wave = [&](int64_t quarters) {
      Value place = m_.add(m_.mul(product, number(product, 4)), m_.mul(size, number(size, quarters))),
            circle = m_.mul(size, number(size, 4));
      return m_.spread(cosine(m_.sub(place, m_.mul(m_.div(place, circle), circle)), size, element), {all[0], all[1], all[2], constant(1)},
                       {1, 2});
    };
    // cos x and, forwards, -sin x = cos (x + pi / 2)
    Value real = wave(0), imaginary = wave(inverse_ ? 3 : 1), x = part(value, 0), y = part(value, 1);
    SmallVector<Value> both{m_.sub(m_.mul(x, real), m_.mul(y, imaginary)), m_.add(m_.mul(x, imaginary), m_.mul(y, real))};
    return node_.make<tx::ConcatOp>(Node::type_of(value), both, node_.builder.getI64IntegerAttr(3));
  }

  // One part of complex numbers, as a last dimension of 1.
  Value part(Value value, int64_t which) {
    Extents extents = Node::extents_of(value);
    SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
    starts.back() = which;
    extents.back() = constant(1);
    return node_.make<tx::SliceOp>(node_.tensor_type(extents, Node::type_of(value).getElementType()), value, starts, strides);
  }

  Value scaled(Value value) {
    if (!inverse_) return value;
    return m_.div(value, m_.extent(length_, value));
  }

  // The signal with that many elements.
  Value resized(Value signal, AffineExpr count) {
    Extents extents = Node::extents_of(signal);
    if (equal(extents[1], count) == true) return signal;
    const AffineExpr have = extents[1];
    extents[1] = count;
    Value at = m_.iota({count}, 0, i64()), size = m_.extent(have, at), last = m_.sub(size, number(at, 1));
    Value taken = node_.make<tx::GatherOp>(node_.tensor_type(extents, Node::type_of(signal).getElementType()), signal, m_.min(at, last), 1);
    if (at_least(have, count) == true) return taken;
    return m_.select(m_.spread(m_.compare(CompareKind::lt, at, size), extents, {1}), taken, m_.number(taken, 0));
  }

  // Of half a spectrum of real numbers.
  Value whole_spectrum(Value spectrum) {
    Extents extents = Node::extents_of(spectrum);
    extents[1] = length_;
    Value at = m_.iota({length_}, 0, i64()), mirrored = m_.sub(m_.extent(length_, at), at);
    Value whole =
        node_.make<tx::GatherOp>(node_.tensor_type(extents, Node::type_of(spectrum).getElementType()), spectrum, m_.min(at, mirrored), 1);
    Value is_mirrored = m_.spread(m_.compare(CompareKind::lt, mirrored, at), extents, {1});
    Value is_imaginary = m_.compare(CompareKind::eq, m_.iota(extents, 2, i64()), m_.number(m_.iota(extents, 2, i64()), 1));
    Value negated = node_.make<tx::NegOp>(Node::type_of(whole), whole);
    return m_.select(m_.both(is_mirrored, is_imaginary), negated, whole);
  }

  Node& node_;
  Arithmetic m_;
  const AffineExpr length_;
  const bool inverse_, one_sided_;
};

// A number of elements that an input gives, which is at least 1.
AffineExpr length_from(Node& node, int index, const std::string& what) {
  const std::vector<AffineExpr> given = extents_from(node, index, what);
  if (given.size() != 1) node.fail("input " + std::to_string(index) + " has " + std::to_string(given.size()) + " elements; 1 was expected");
  auto known = tx::static_extent(given[0]);
  if ((known && (*known < 1 || *known > largest_extent)) ||
      (!known && !node.graph.symbols.require(given[0], node.builder.getAffineConstantExpr(1), node.describe())))
    node.fail(what + " is " + (known ? std::to_string(*known) : "0") + ", which is not from 1 to " + std::to_string(largest_extent));
  return given[0];
}

// The length of a transform of this many elements.
AffineExpr length_of(Node& node, AffineExpr elements, bool is_real_inverse) {
  if (node.has_input(1)) return length_from(node, 1, "dft_length");
  if (!is_real_inverse) return elements;
  return node.computed(product(difference(elements, node.builder.getAffineConstantExpr(1)), node.builder.getAffineConstantExpr(2)));
}

void check_parts(Node& node, AffineExpr parts) {
  auto known = tx::static_extent(parts);
  if (known != 1 && known != 2) node.refuse_inputs("the last dimension of the signal is neither 1 nor 2");
}

// A signal [before..., elements, behind..., parts], transformed along that axis.
Value along(Node& node, Value signal, size_t axis, Transform& transform) {
  const Extents extents = Node::extents_of(signal);
  SmallVector<int64_t> order, back(extents.size());
  Extents rows;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (i == axis || i + 1 == extents.size()) continue;
    order.push_back(static_cast<int64_t>(i));
    rows.push_back(extents[i]);
  }
  order.append({static_cast<int64_t>(axis), static_cast<int64_t>(extents.size()) - 1});
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  Value result = transform.of(node.reshape(node.transpose(signal, order), {node.count_of(rows), extents[axis], extents.back()}));
  rows.append({transform.outputs(), node.builder.getAffineConstantExpr(transform.parts())});
  return node.transpose(node.reshape(result, rows), back);
}

// The dimensions before and behind the axis are joined, so that it is the second one of three; the result's extents are read.
Value along_data(Node& node, Value signal, bool inverse, bool one_sided) {
  const Extents extents = Node::extents_of(signal);
  const auto rank = static_cast<int64_t>(extents.size()), dimensions = rank - 1;
  const Integers axis = axes_from(node, 2, rank);
  if (Node::type_of(axis.value()).getNumElements() != 1) node.fail("it needs 1 axis");
  auto repeated = [&](const Integers& one) {
    return Integers(node, node.broadcast(node.reshape(one.value(), {}), {node.builder.getAffineConstantExpr(dimensions)}));
  };
  const Integers given = numbers_of(node, ArrayRef<AffineExpr>(extents).drop_back()), place = counted(node, dimensions),
                 of = repeated(axis);
  auto product_where = [&](const Integers& is) { return given.where(is, given.number(1)).reduced(tx::ReduceKind::prod); };
  Extents parts;
  llvm::append_range(parts,
                     read_extents(node, joined(node, {product_where(place < of), product_where(place == of), product_where(of < place)}),
                                  "number of elements before, along or behind the axis"));
  parts.push_back(extents.back());
  Transform transform(node, length_of(node, parts[1], inverse && one_sided), inverse, one_sided);
  Value result = along(node, reshape_to(node, signal, parts), 1, transform);
  const Integers outputs = repeated(numbers_of(node, {transform.outputs()}));
  Extents to;
  llvm::append_range(to, read_extents(node, outputs.where(place == of, given), "extent of the result"));
  to.push_back(node.builder.getAffineConstantExpr(transform.parts()));
  return reshape_to(node, result, to);
}

void dft(Node& node) {
  Value signal = node.input(0);
  const Extents extents = Node::extents_of(signal);
  const auto rank = static_cast<int64_t>(extents.size());
  if (rank < 2) node.refuse_inputs("the signal needs a dimension of elements and one of parts");
  check_parts(node, extents.back());
  const bool inverse = node.integer("inverse", 0) != 0, one_sided = node.integer("onesided", 0) != 0;
  const Type element = Node::type_of(signal).getElementType();
  signal = node.converted(signal, transformed_type(node, signal));
  const bool by_input = node.opset() >= 20;
  if (by_input && is_data(node, 2)) return node.set_result(node.converted(along_data(node, signal, inverse, one_sided), element));
  int64_t axis = by_input ? -2 : node.integer("axis", 1);
  if (by_input && node.has_input(2)) {
    const std::vector<int64_t> given = node.integers(2);
    if (given.size() != 1) node.fail("it has " + std::to_string(given.size()) + " axes; 1 was expected");
    axis = given[0];
  }
  axis = node.axis(axis, rank);
  if (axis == rank - 1) node.fail("its axis is the dimension of the parts of complex numbers");
  const auto at = static_cast<size_t>(axis);
  Transform transform(node, length_of(node, extents[at], inverse && one_sided), inverse, one_sided);
  if (tx::static_extent(transform.outputs()) == 0) node.fail("dft_length is 0");
  node.set_result(node.converted(along(node, signal, at, transform), element));
}

// Signal [batch, elements, parts], which may lack the parts; windows of it that start every few elements.
void stft(Node& node) {
  Value signal = node.input(0);
  Extents extents = Node::extents_of(signal);
  const AffineExpr one = node.builder.getAffineConstantExpr(1);
  if (extents.size() == 2) {
    extents.push_back(one);
    signal = node.reshape(signal, extents);
  }
  if (extents.size() != 3) node.refuse_inputs("the signal is not [batch, elements, parts]");
  check_parts(node, extents[2]);
  const Type element = Node::type_of(signal).getElementType(), compute = transformed_type(node, signal);
  signal = node.converted(signal, compute);
  AffineExpr length = extents[1];
  if (node.has_input(3)) {
    length = length_from(node, 3, "frame_length");
  } else if (node.has_input(2)) {
    if (Node::type_of(node.input(2)).getRank() != 1) node.refuse_inputs("the window is not a vector");
    length = Node::extents_of(node.input(2))[0];
  }
  const AffineExpr step = length_from(node, 1, "frame_step");
  if (!node.graph.symbols.require(extents[1], length, node.describe())) node.refuse_inputs("a frame is longer than the signal");
  const AffineExpr behind = node.computed(difference(extents[1], length));
  AffineExpr frames;
  if (auto known = tx::static_extent(step)) {
    frames = sum(quotient(behind, *known), one);
  } else {
    const Integers steps = numbers_of(node, {step}), rest = numbers_of(node, {behind});
    frames = read_extents(node, rest / max(steps, steps.number(1)) + steps.number(1), "number of frames").front();
  }
  const Arithmetic m(node);
  const Extents plane{node.computed(frames), length};
  Value first = m.iota(plane, 0, node.builder.getI64Type());
  Value places = m.add(m.mul(first, m.extent(step, first)), m.iota(plane, 1, node.builder.getI64Type()));
  const Extents all{extents[0], plane[0], length, extents[2]};
  Value framed = node.make<tx::GatherOp>(node.tensor_type(all, compute), signal, places, 1);
  if (node.has_input(2)) {
    Value window = node.input(2);
    if (Node::type_of(window).getRank() != 1 || !node.are_equal(Node::extents_of(window)[0], length))
      node.refuse_inputs("the window is not a vector of frame_length elements");
    framed = m.mul(framed, m.spread(node.converted(node.with_extents(window, {length}), compute), all, {2}));
  }
  Transform transform(node, length, /*inverse=*/false, node.integer("onesided", 1) != 0);
  node.set_result(node.converted(along(node, framed, 2, transform), element));
}

// Triangles over the elements of a spectrum, whose corners are at equal distances on the mel scale, m = 2595 log10(1 + f / 700): [dft_length / 2 + 1,
// num_mel_bins]. Corners are rounded down to elements, so f64 decides where one is between two.
void mel_weight_matrix(Node& node) {
  const Arithmetic m(node);
  const Type f64 = node.builder.getF64Type();
  auto number = [&](int index, const Extents& extents) {
    Value value = node.input(index);
    if (!Node::type_of(value).hasStaticShape() || Node::type_of(value).getNumElements() != 1)
      node.refuse_inputs("input " + std::to_string(index) + " is not one number");
    return node.broadcast(node.converted(node.reshape(value, {}), f64), extents);
  };
  const AffineExpr bins = length_from(node, 0, "num_mel_bins"), length = length_from(node, 1, "dft_length"),
                   one = node.builder.getAffineConstantExpr(1);
  const Extents vector{bins}, plane{node.computed(sum(quotient(length, 2), one)), bins};
  auto mels = [&](Value hertz) {
    Value ratio = m.add(m.div(hertz, m.number(hertz, 700)), m.number(hertz, 1));
    return m.mul(node.make<tx::LogOp>(Node::type_of(ratio), ratio), m.number(ratio, 2595 / std::numbers::ln10));
  };
  Value low = mels(number(3, vector)), high = mels(number(4, vector)), counts = m.extent(bins, low);
  Value step = m.div(m.sub(high, low), m.add(counts, m.number(counts, 2)));
  auto corner = [&](int64_t which) {
    Value index = m.add(m.iota(vector, 0, f64), m.number(low, static_cast<double>(which)));
    Value mel = m.add(m.mul(index, step), low), power = m.mul(mel, m.number(mel, std::numbers::ln10 / 2595));
    Value hertz = m.mul(m.sub(node.make<tx::ExpOp>(Node::type_of(power), power), m.number(power, 1)), m.number(power, 700));
    Value place = m.mul(m.add(m.extent(length, hertz), m.number(hertz, 1)), hertz);
    return m.spread(m.floor(m.div(place, number(2, vector))), plane, {1});
  };
  Value from = corner(0), center = corner(1), to = corner(2), at = m.iota(plane, 0, f64), zero = m.number(at, 0), whole = m.number(at, 1);
  Value rises = m.sub(center, from), falls = m.sub(to, center), is_center = m.compare(CompareKind::eq, at, center);
  auto quotient_of = [&](Value a, Value b) { return m.div(a, m.select(m.compare(CompareKind::gt, b, zero), b, whole)); };
  Value is_rising = m.both(m.compare(CompareKind::ge, at, from), m.compare(CompareKind::lt, at, center));
  Value is_falling = m.both(m.compare(CompareKind::gt, at, center), m.compare(CompareKind::lt, at, to));
  Value value = m.select(is_rising, quotient_of(m.sub(at, from), rises), zero);
  value = m.select(is_falling, quotient_of(m.sub(to, at), falls), value);
  value = m.select(is_center, whole, value);
  const Type element = element_type(node.builder.getContext(), node.integer("output_datatype", 1), node.describe());
  node.set_result(node.converted(value, element));
}

}  // namespace

const Table& signal_operators() {
  static const Table table = {{"DFT", dft}, {"MelWeightMatrix", mel_weight_matrix}, {"STFT", stft}};
  return table;
}

}  // namespace heddle::import
