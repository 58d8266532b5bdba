// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognizes products of matrices and convolutions in contractions. See own_kernels.h.
#include <algorithm>
#include <optional>

#include "heddle/sdk/portable/own_kernels.h"

namespace heddle::sdk::portable {

namespace {

// offset + the sum of index * step.
struct Affine {
  int64_t offset = 0;
  std::vector<int64_t> steps;
  uint64_t dims = 0;  // that it depends on, whatever the steps are
};

int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Expressions as sums of multiples of dimensions.
class Affines {
 public:
  Affines(const Kernel& kernel, uint32_t rank, const int64_t* symbols) {
    for (const Expression& e : kernel.expressions) all_.push_back(make(e, rank, symbols));
  }
  // None if it is not such a sum.
  const std::optional<Affine>& of(uint32_t expression) const { return all_[expression]; }

 private:
  std::optional<Affine> make(const Expression& e, uint32_t rank, const int64_t* symbols) {
    Affine out;
    out.steps.resize(rank);
    switch (e.kind) {
      case Expression::kConstant:
        out.offset = e.value;
        return out;
      case Expression::kSymbol:
        out.offset = symbols ? symbols[e.value] : 0;
        return out;
      case Expression::kDimension:
        if (static_cast<uint64_t>(e.value) >= rank) return std::nullopt;
        out.steps[static_cast<size_t>(e.value)] = 1;
        out.dims = uint64_t{1} << e.value;
        return out;
      default:
        break;
    }
    const std::optional<Affine>&a = all_[e.a], &b = all_[e.b];
    if (!a || !b) return std::nullopt;
    if (e.kind == Expression::kAdd) {
      out = *a;
      out.offset = add(a->offset, b->offset);
      for (size_t d = 0; d < rank; ++d) out.steps[d] = add(a->steps[d], b->steps[d]);
      out.dims |= b->dims;
      return out;
    }
    if (e.kind == Expression::kMul) {
      if (a->dims && b->dims) return std::nullopt;
      const Affine &varies = a->dims ? *a : *b, &factor = a->dims ? *b : *a;
      out.offset = mul(varies.offset, factor.offset);
      for (size_t d = 0; d < rank; ++d) out.steps[d] = mul(varies.steps[d], factor.offset);
      out.dims = varies.dims;
      return out;
    }
    if (a->dims || b->dims) return std::nullopt;
    const int64_t x = a->offset, y = b->offset;
    if (y > 0) {
      const int64_t down = x / y - (x % y < 0);
      out.offset = e.kind == Expression::kFloorDiv  ? down
                   : e.kind == Expression::kCeilDiv ? down + (x % y != 0)
                                                    : x % y + (x % y < 0 ? y : 0);
    }
    return out;
  }

  std::vector<std::optional<Affine>> all_;
};

}  // namespace

bool find_product(const Kernel& kernel, uint32_t index, const int64_t* symbols, ProductForm* out, std::string* out_reason) {
  auto refuse = [&](const char* reason) {
    *out_reason = reason;
    return false;
  };
  const Node& node = kernel.nodes[index];
  if (node.kind != NodeKind::kContract) return refuse("it is no contraction");
  const uint32_t rank = node.rank(), parallel = node.parallel_rank();
  if (rank > kMostRank) return refuse("it has too many dimensions");
  const Affines affines(kernel, rank, symbols);
  const Body& factors = node.bodies[0];
  *out = {};
  out->accumulator = node.accumulator;
  Affine of[2];
  for (uint32_t side = 0; side < 2; ++side) {
    const uint32_t value = factors.yields[side];
    if (value < rank || value >= rank + node.first_reads) return refuse("a factor is computed, and no element of a tensor");
    const Read& read = node.reads[value - rank];
    if (!read.gathers.empty()) return refuse("a factor is at a place that is read from memory");
    if (read.has_outside && read.outside != 0) return refuse("a factor is not 0 outside of its tensor");
    const Tensor& tensor = kernel.tensors[read.tensor];
    (side == 0 ? out->left : out->right) = read.tensor;
    scalar_of(tensor.type, side == 0 ? &out->left_type : &out->right_type);
    of[side].steps.resize(rank);
    int64_t stride = 1;
    for (size_t d = read.place.size(); d-- > 0;) {
      const std::optional<Affine>& place = affines.of(read.place[d]);
      if (!place) return refuse("a factor is at a place that is no sum of multiples of indices");
      of[side].offset = add(of[side].offset, mul(place->offset, stride));
      for (uint32_t i = 0; i < rank; ++i) of[side].steps[i] = add(of[side].steps[i], mul(place->steps[i], stride));
      of[side].dims |= place->dims;
      const uint64_t reduced_dims = place->dims >> parallel;
      if (side == 0 && reduced_dims && (place->dims & ((uint64_t{1} << parallel) - 1))) out->is_convolution = true;
      const int64_t extent = affines.of(tensor.extents[d])->offset;
      // The interpreter checks every place; a kernel of the driver's own relies on these bounds.
      out->bounds.push_back({place->offset, extent, place->steps, side == 0 ? ProductBound::kLeft : ProductBound::kRight});
      stride = mul(stride, std::max<int64_t>(1, extent));
    }
  }
  for (const Within& within : node.within) {
    const std::optional<Affine>& place = affines.of(within.index);
    if (!place) return refuse("a bound is on no sum of multiples of indices");
    out->bounds.push_back({place->offset, affines.of(within.bound)->offset, place->steps});
  }
  // Bounds that hold for all indices are not worth a check.
  auto always_holds = [&](const ProductBound& bound) {
    int64_t low = bound.offset, high = bound.offset;
    for (uint32_t d = 0; d < rank; ++d) {
      const int64_t extent = affines.of(node.extents[d])->offset;
      int64_t way;
      if (bound.steps[d] == 0 || extent <= 1) continue;
      if (__builtin_mul_overflow(bound.steps[d], extent - 1, &way)) return false;
      if (__builtin_add_overflow(way < 0 ? low : high, way, way < 0 ? &low : &high)) return false;
    }
    return low >= 0 && high < bound.bound;
  };
  if (symbols || kernel.symbols == 0)
    out->bounds.erase(std::remove_if(out->bounds.begin(), out->bounds.end(), always_holds), out->bounds.end());
  out->left_offset = of[0].offset;
  out->right_offset = of[1].offset;
  out->dims.resize(rank);
  int64_t stride = 1;
  for (uint32_t d = rank; d-- > 0;) {
    ProductDim& dim = out->dims[d];
    const bool of_left = of[0].dims >> d & 1, of_right = of[1].dims >> d & 1;
    dim.group = d >= parallel         ? ProductDim::kDepth
                : of_left == of_right ? ProductDim::kBatch
                : of_left             ? ProductDim::kRows
                                      : ProductDim::kColumns;
    dim.extent = affines.of(node.extents[d])->offset;
    dim.left = of[0].steps[d];
    dim.right = of[1].steps[d];
    dim.sums = 0;
    if (d < parallel) {
      dim.sums = stride;
      stride = mul(stride, std::max<int64_t>(1, dim.extent));
    }
  }
  return true;
}

std::string describe_node(const Kernel& kernel, uint32_t index) {
  static constexpr const char* kNames[kNodeKinds] = {"map", "fold", "scan", "contract", "scatter", "sort", "sieve", "walk"};
  const NodeKind kind = kernel.nodes[index].kind;
  std::string out = kNames[static_cast<size_t>(kind)];
  ProductForm form;
  std::string reason;
  if (find_product(kernel, index, nullptr, &form, &reason)) out += form.is_convolution ? " (convolution)" : " (matrix product)";
  return out;
}

}  // namespace heddle::sdk::portable
