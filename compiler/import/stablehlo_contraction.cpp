// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of tensors, and convolutions.
#include "compiler/import/stablehlo_program.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

// Numbers in the type of the sums: products of bytes are summed in i32 by kernels as they are.
void to_type_of_sum(Op& op, Value& a, Value& b, Type element) {
  const bool are_bytes = tx::element_of(a).isInteger(8) && tx::element_of(b).isInteger(8) && element.isSignlessInteger(32);
  if (are_bytes) return;
  a = op.converted(a, element);
  b = op.converted(b, element);
}

Extents extents_at(const Extents& extents, ArrayRef<int64_t> dimensions) {
  Extents result;
  for (int64_t d : dimensions) result.push_back(extents[static_cast<size_t>(d)]);
  return result;
}

bool is_empty(RankedTensorType type) {
  return llvm::is_contained(type.getShape(), 0);
}

bool are_different(ArrayRef<int64_t> a, ArrayRef<int64_t> b, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (ArrayRef<int64_t> list : {a, b}) {
    for (int64_t d : list) {
      if (d < 0 || d >= rank || seen[static_cast<size_t>(d)]) return false;
      seen[static_cast<size_t>(d)] = true;
    }
  }
  return true;
}

SmallVector<int64_t> others(ArrayRef<int64_t> a, ArrayRef<int64_t> b, int64_t rank) {
  SmallVector<int64_t> rest;
  for (int64_t i = 0; i < rank; ++i) {
    if (!llvm::is_contained(a, i) && !llvm::is_contained(b, i)) rest.push_back(i);
  }
  return rest;
}

// A product of two matrices for each element of the batch: the sum of products without a kernel of that type is one of element-wise ops.
Value multiplied(Op& op, Value a, Value b, Type element) {
  Extents to = Op::extents_of(a);
  const bool has_no_sums = tx::static_extent(to.back()) == 0;
  to.back() = Op::extents_of(b).back();
  RankedTensorType type = op.node.tensor_type(to, element);
  if (is_empty(type) || has_no_sums) return op.splat(type, 0);
  to_type_of_sum(op, a, b, element);
  if (!element.isInteger(1)) return op.make<tx::MatmulOp>(type, a, b);
  // Of bools, the product is their and, and the sum their or.
  const Type byte = op.builder.getI32Type();
  Value sum = op.make<tx::MatmulOp>(tx::with_element_type(type, byte), op.converted(a, byte), op.converted(b, byte));
  return op.compare(tx::CompareKind::ne, sum, op.number(sum, 0));
}

struct ProductParts {
  SmallVector<Value, 2> a, b;
};

// Complex numbers by their parts.
void set_product(Op& op, const ProductParts& parts, llvm::function_ref<Value(Value, Value)> product) {
  Data data;
  if (parts.a.size() == 1 && parts.b.size() == 1) {
    data.parts.push_back(product(parts.a[0], parts.b[0]));
  } else {
    auto part = [](ArrayRef<Value> all, size_t i) { return i < all.size() ? all[i] : Value(); };
    Value re = product(parts.a[0], parts.b[0]);
    Value ii = part(parts.a, 1) && part(parts.b, 1) ? product(parts.a[1], parts.b[1]) : Value();
    Value ri = part(parts.b, 1) ? product(parts.a[0], parts.b[1]) : Value(),
          ir = part(parts.a, 1) ? product(parts.a[1], parts.b[0]) : Value();
    data.parts.push_back(ii ? op.binary<tx::SubOp>(re, ii) : re);
    data.parts.push_back(ri && ir ? op.binary<tx::AddOp>(ri, ir) : ri ? ri : ir);
  }
  op.set_data(std::move(data));
}

ProductParts product_parts(Op& op) {
  ProductParts parts;
  for (unsigned i : {0u, 1u}) {
    const Data& data = op.data(i);
    SmallVector<Value, 2>& to = i == 0 ? parts.a : parts.b;
    if (data.is_complex()) {
      to = data.parts;
    } else {
      to.push_back(op.widened(op.input(i)));
    }
  }
  return parts;
}

// The result: batch dimensions, then those of the left operand alone, then those of the right one.
void dot(Op& op, ArrayRef<int64_t> left_batch, ArrayRef<int64_t> right_batch, ArrayRef<int64_t> left_sum, ArrayRef<int64_t> right_sum) {
  const ProductParts parts = product_parts(op);
  const Extents left = Op::extents_of(parts.a[0]), right = Op::extents_of(parts.b[0]);
  const auto left_rank = static_cast<int64_t>(left.size()), right_rank = static_cast<int64_t>(right.size());
  if (!are_different(left_batch, left_sum, left_rank) || !are_different(right_batch, right_sum, right_rank))
    op.fail("its batch and contracting dimensions are not different dimensions of its operands");
  auto are_alike = [&](ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
    if (a.size() != b.size()) return false;
    for (auto [x, y] : llvm::zip(a, b)) {
      if (!op.node.are_equal(left[static_cast<size_t>(x)], right[static_cast<size_t>(y)])) return false;
    }
    return true;
  };
  if (!are_alike(left_batch, right_batch) || !are_alike(left_sum, right_sum))
    op.fail("extents of its batch or contracting dimensions differ");
  const SmallVector<int64_t> rows = others(left_batch, left_sum, left_rank), columns = others(right_batch, right_sum, right_rank);
  auto count = [&](ArrayRef<int64_t> dimensions, const Extents& of) { return op.node.count_of(extents_at(of, dimensions)); };
  // Extents that are equal in every call that is not refused have one form, that of the left operand.
  const AffineExpr batch = count(left_batch, left), depth = count(left_sum, left), m = count(rows, left), n = count(columns, right);
  const Type declared = op.result_element();
  const bool is_narrow = declared != op.widened_type(declared);
  const Type element = is_narrow ? op.widened_type(declared) : declared;
  auto arranged = [&](Value x, std::initializer_list<ArrayRef<int64_t>> order, Extents to) {
    SmallVector<int64_t> permutation;
    for (ArrayRef<int64_t> part : order) permutation.append(part.begin(), part.end());
    if (!left_batch.empty()) to.insert(to.begin(), batch);
    return op.reshape(op.transpose(x, permutation), to);
  };
  Extents to = extents_at(left, left_batch);
  llvm::append_range(to, extents_at(left, rows));
  llvm::append_range(to, extents_at(right, columns));
  set_product(op, parts, [&](Value a, Value b) {
    Value result = multiplied(op, arranged(a, {left_batch, rows, left_sum}, {m, depth}),
                              arranged(b, {right_batch, right_sum, columns}, {depth, n}), element);
    result = op.reshape(result, to);
    return is_narrow ? op.converted(result, declared) : result;
  });
}

void dot_general(Op& op) {
  op.expect(2);
  auto fields = fields_of(op.attribute("dot_dimension_numbers"), "dot");
  if (!fields) op.fail("attribute 'dot_dimension_numbers' is not #stablehlo.dot<..>");
  dot(op, fields->list("lhs_batching_dimensions"), fields->list("rhs_batching_dimensions"), fields->list("lhs_contracting_dimensions"),
      fields->list("rhs_contracting_dimensions"));
}

// The last dimension of the first operand with the first one of the second.
void plain_dot(Op& op) {
  op.expect(2);
  const int64_t rank = Op::rank_of(op.data(0).parts.empty() ? op.input(0) : op.data(0).parts[0]);
  if (rank == 0) op.fail("its operands need rank 1 or more");
  dot(op, {}, {}, {rank - 1}, {0});
}

// ------------------------------------------------------------------------------------------------------ convolutions

struct ConvolutionWindow {
  std::vector<int64_t> strides, low, high, input_dilation, kernel_dilation, reversal;
};

ConvolutionWindow convolution_window(Op& op, size_t rank) {
  ConvolutionWindow window;
  const bool is_dynamic = op.name() == "stablehlo.dynamic_conv";
  const std::vector<int64_t> ones(rank, 1), none(2 * rank, 0);
  const std::vector<int64_t> pads = is_dynamic ? op.known_integers(2).value_or(none) : op.integers("padding", none);
  window.strides = op.integers("window_strides", ones);
  window.input_dilation = op.integers("lhs_dilation", ones);
  window.kernel_dilation = op.integers("rhs_dilation", ones);
  window.reversal = op.integers("window_reversal", std::vector<int64_t>(rank, 0));
  if (window.strides.size() != rank || window.input_dilation.size() != rank || window.kernel_dilation.size() != rank ||
      window.reversal.size() != rank || pads.size() != 2 * rank)
    op.fail("its strides, dilations, padding or reversal do not fit " + std::to_string(rank) + " spatial dimensions");
  constexpr int64_t most = int64_t{1} << 30;
  for (size_t i = 0; i < rank; ++i) {
    window.low.push_back(pads[2 * i]);
    window.high.push_back(pads[2 * i + 1]);
    auto is_sane = [&](int64_t value, int64_t least) { return value >= least && value <= most; };
    if (!is_sane(window.strides[i], 1) || !is_sane(window.input_dilation[i], 1) || !is_sane(window.kernel_dilation[i], 1) ||
        !is_sane(window.low[i], -most) || !is_sane(window.high[i], -most))
      op.fail("its strides, dilations or padding are out of range on spatial dimension " + std::to_string(i));
  }
  return window;
}

// [N, spatial.., C] and [spatial.., C / groups, F].
Value convolved(Op& op, Value image, Value filter, ConvolutionWindow window, int64_t groups, Type element) {
  const auto spatial = static_cast<int64_t>(window.strides.size());
  Value zero = op.splat(RankedTensorType::get({}, tx::element_of(image)), 0);
  Extents to{Op::extents_of(image)[0]};
  auto constant_extent = [&](int64_t value) { return op.builder.getAffineConstantExpr(value); };
  for (int64_t i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    int64_t &low = window.low[at], &high = window.high[at];
    if (window.input_dilation[at] != 1) image = padded(op, image, zero, 1 + i, 0, 0, window.input_dilation[at] - 1);
    if (low < 0 || high < 0) image = padded(op, image, zero, 1 + i, std::min<int64_t>(low, 0), std::min<int64_t>(high, 0));
    low = std::max<int64_t>(low, 0);
    high = std::max<int64_t>(high, 0);
    const int64_t kernel = op.extent(filter, i), reach = kernel == 0 ? 0 : (kernel - 1) * window.kernel_dilation[at] + 1;
    if (window.reversal[at] != 0 && kernel > 1) filter = op.slice(filter, i, kernel - 1, -1, -1);
    const int64_t all = op.extent(image, 1 + i) + low + high;
    to.push_back(constant_extent(all < reach || all == 0 ? 0 : (all - reach) / window.strides[at] + 1));
  }
  to.push_back(Op::extents_of(filter).back());
  RankedTensorType type = op.node.tensor_type(to, element);
  // Without elements, or sums of none.
  if (is_empty(type) || is_empty(Op::type_of(filter)) || is_empty(Op::type_of(image))) return op.splat(type, 0);
  to_type_of_sum(op, image, filter, element);
  if (spatial == 0) {
    // A product of matrices, for each group.
    const int64_t c = op.extent(image, 1), f = op.extent(filter, 1);
    Value a = op.transpose(op.reshape(image, Extents{to[0], constant_extent(groups), constant_extent(c / groups)}), {1, 0, 2});
    Value b = op.transpose(op.reshape(filter, {c / groups, groups, f / groups}), {1, 0, 2});
    Value product =
        op.make<tx::MatmulOp>(op.node.tensor_type({constant_extent(groups), to[0], constant_extent(f / groups)}, element), a, b);
    return op.reshape(op.transpose(product, {1, 0, 2}), to);
  }
  const Type computed = llvm::isa<FloatType>(element) ? element : Type(op.builder.getF64Type());
  // Kernels convolve floats: sums of products of integers are exact in f64 up to 2^53.
  Value result = op.make<tx::ConvOp>(tx::with_element_type(type, computed), op.converted(image, computed), op.converted(filter, computed),
                                     Value(), window.strides, window.low, window.high, window.kernel_dilation, groups, DenseI64ArrayAttr());
  return op.converted(result, element);
}

// The image [N, spatial.., C] with a padding that is data, for a result of the declared extents: elements that no window reaches are left out.
Value padded_by_data(Op& op, Value image, Value filter, ConvolutionWindow& window, ArrayRef<int64_t> output_spatial) {
  Value zero = op.splat(RankedTensorType::get({}, tx::element_of(image)), 0), pads = op.converted(op.input(2), op.builder.getI64Type());
  const auto count = static_cast<int64_t>(window.strides.size());
  if (Op::type_of(pads).getNumElements() != 2 * count) op.fail("its padding needs two numbers for each spatial dimension");
  pads = op.reshape(pads, ArrayRef<int64_t>{2 * count});
  const RankedTensorType type = op.result_type();
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t kernel = op.extent(filter, i), reach = kernel == 0 ? 0 : (kernel - 1) * window.kernel_dilation[at] + 1;
    const int64_t made = type.getDimSize(output_spatial[at]), total = made == 0 ? 0 : (made - 1) * window.strides[at] + reach;
    Value low = op.reshape(op.slice(pads, 0, 2 * i, 2 * i + 1), ArrayRef<int64_t>{});
    image = padded_by(op, image, zero, 1 + i, low,
                      op.splat(RankedTensorType::get({}, op.builder.getI64Type()), static_cast<double>(window.input_dilation[at] - 1)),
                      op.builder.getAffineConstantExpr(total));
    window.input_dilation[at] = 1;
  }
  return image;
}

void convolution(Op& op) {
  const bool is_dynamic = op.name() == "stablehlo.dynamic_conv";
  op.expect(is_dynamic ? 3 : 2);
  const ProductParts parts = product_parts(op);
  const int64_t rank = Op::rank_of(parts.a[0]);
  auto dimensions = convolution_dimensions(op.attribute("dimension_numbers"), rank);
  if (!dimensions || Op::rank_of(parts.b[0]) != rank)
    op.fail("attribute 'dimension_numbers' is not #stablehlo.conv<..> for operands of rank " + std::to_string(rank));
  const ConvolutionWindow window = convolution_window(op, static_cast<size_t>(rank - 2));
  const int64_t features = op.integer("feature_group_count", 1), batches = op.integer("batch_group_count", 1);
  const std::vector<int64_t> right = op.static_extents(parts.b[0]);
  // The number of images may be a symbol.
  const int64_t n = batches == 1 ? 1 : op.extent(parts.a[0], dimensions->input_batch), c = op.extent(parts.a[0], dimensions->input_feature);
  const int64_t depth = right[static_cast<size_t>(dimensions->kernel_input)], f = right[static_cast<size_t>(dimensions->kernel_output)];
  if (features < 1 || batches < 1 || (features > 1 && batches > 1))
    op.fail("feature_group_count and batch_group_count have to be 1 or more, and one of them 1");
  if (n % batches != 0 || f % batches != 0 || f % features != 0 || c % features != 0 || c / features != depth)
    op.fail("its groups do not divide " + std::to_string(n) + " images, " + std::to_string(c) + " and " + std::to_string(f) +
            " features, or its kernel has " + std::to_string(depth) + " input features");
  const Type declared = op.result_element(), element = op.widened_type(declared);
  SmallVector<int64_t> of_image{dimensions->input_batch}, of_filter(dimensions->kernel_spatial.begin(), dimensions->kernel_spatial.end());
  of_image.append(dimensions->input_spatial.begin(), dimensions->input_spatial.end());
  of_image.push_back(dimensions->input_feature);
  of_filter.append({dimensions->kernel_input, dimensions->kernel_output});
  SmallVector<int64_t> of_result(static_cast<size_t>(rank));  // from [N, spatial.., F]
  of_result[static_cast<size_t>(dimensions->output_batch)] = 0;
  of_result[static_cast<size_t>(dimensions->output_feature)] = rank - 1;
  for (auto [i, d] : llvm::enumerate(dimensions->output_spatial)) of_result[static_cast<size_t>(d)] = 1 + static_cast<int64_t>(i);
  set_product(op, parts, [&](Value a, Value b) {
    a = op.transpose(a, of_image);
    b = op.transpose(b, of_filter);
    if (batches > 1) {  // the groups of images become groups of features
      std::vector<int64_t> split = op.static_extents(a), joined = split;
      split[0] = n / batches;
      split.insert(split.begin(), batches);
      joined[0] = n / batches;
      joined.back() *= batches;
      SmallVector<int64_t> order;
      for (int64_t i = 1; i < rank; ++i) order.push_back(i);
      order.append({0, rank});
      a = op.reshape(op.transpose(op.reshape(a, split), order), joined);
    }
    ConvolutionWindow own = window;
    if (is_dynamic && !op.known_integers(2)) a = padded_by_data(op, a, b, own, dimensions->output_spatial);
    Value result = op.transpose(convolved(op, a, b, own, std::max(features, batches), element), of_result);
    return op.converted(result, declared);
  });
}

}  // namespace

const Table& contraction_ops() {
  static const Table table = {
      {"stablehlo.convolution", {convolution, kComplex | kNarrow}},
      {"stablehlo.dot", {plain_dot, kComplex | kNarrow}},
      {"stablehlo.dot_general", {dot_general, kComplex | kNarrow}},
      {"stablehlo.dynamic_conv", {convolution, kComplex | kNarrow}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
