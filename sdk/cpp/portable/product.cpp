// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions that are products of matrices, convolutions among them. See nodes.h. Dimensions that only the first factor depends on are rows, those of
// the second one columns, and those of both, or of neither, form a batch. Blocks of both factors are computed once into scratch memory, and multiplied
// there.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "multiply.h"
#include "nodes.h"

namespace heddle::sdk::portable {

namespace {

constexpr int64_t kMinColumns = 8;  // with fewer, lanes along the batch are better

// A group of dimensions, whose indices are numbered in row-major order.
struct Group {
  std::vector<int32_t> dims;
  std::vector<int64_t> extents, scales;  // an index is a multiple of the scale
  std::vector<int64_t> bases;            // that are added to indices
  int64_t count = 1;

  void add(int32_t dim, int64_t extent, int64_t scale = 1) {
    dims.push_back(dim);
    extents.push_back(extent);
    scales.push_back(scale);
    bases.push_back(0);
    count *= extent;
  }
  void go_to(int64_t number, Run& run) const {
    for (size_t d = dims.size(); d-- > 0; number /= extents[d]) run.index[dims[d]] = bases[d] + number % extents[d] * scales[d];
  }
  // The indices that a run has now are those that others begin at.
  void begin_at(const Run& run) {
    for (size_t d = 0; d < dims.size(); ++d) bases[d] = run.index[dims[d]];
  }
  // Those after `number` that differ only in the last dimension, and itself.
  int64_t rest(int64_t number) const { return dims.empty() ? 1 : extents.back() - number % extents.back(); }
  int64_t innermost() const { return dims.empty() ? 1 : extents.back(); }
};

// Where elements of a block go: `outer` is the group of rows or columns, `depth` that of the reduced dimensions.
struct Block {
  float* data;
  int64_t outer_step, depth_step;  // in elements
  int64_t outer_first, outer_count, depth_first, depth_count;
};

class ProductRunner {
 public:
  ProductRunner(Evaluator& evaluator, const Node& node, int64_t lanes) : evaluator_(evaluator), node_(node), lanes_(lanes) {}

  // The elements of a factor in a block. Elements outside of the node's bounds are 0; *out_finite is false if the others are not all finite.
  bool fill(const PreparedBody& factor, const Group& outer, const Group& depth, Run run, bool has_bounds, const Block& block,
            bool* out_finite) {
    const bool along_depth = goes_along_depth(factor, outer, depth, run);
    const Group &lane_group = along_depth ? depth : outer, &other = along_depth ? outer : depth;
    const int64_t lane_first = along_depth ? block.depth_first : block.outer_first,
                  lane_end = lane_first + (along_depth ? block.depth_count : block.outer_count),
                  lane_step = along_depth ? block.depth_step : block.outer_step,
                  other_first = along_depth ? block.outer_first : block.depth_first,
                  other_end = other_first + (along_depth ? block.outer_count : block.depth_count),
                  other_step = along_depth ? block.outer_step : block.depth_step;
    run.lane = lane_group.dims.empty() ? -1 : lane_group.dims.back();
    for (int64_t i = other_first; i < other_end; ++i) {
      other.go_to(i, run);
      float* row = block.data + (i - other_first) * other_step;
      for (int64_t first = lane_first; first < lane_end; first += run.count) {
        lane_group.go_to(first, run);
        run.count = std::min({lanes_, lane_group.rest(first), lane_end - first});
        run.active = nullptr;
        evaluator_.place(factor, run);
        float* out = row + (first - lane_first) * lane_step;
        if (has_bounds && evaluator_.within(node_, run, &run.active) == 0) {
          for (int64_t l = 0; l < run.count; ++l) out[l * lane_step] = 0;
          continue;
        }
        Lanes value;
        if (!evaluator_.evaluate(node_, factor, run, nullptr, &value)) return false;
        store(value, run, out, lane_step, out_finite);
      }
    }
    return true;
  }

 private:
  // Whether lanes should be neighbors along the depth: as they are in memory, else along what is longer.
  bool goes_along_depth(const PreparedBody& factor, const Group& outer, const Group& depth, Run run) {
    auto step_along = [&](const Group& group) {
      int64_t step = 0;
      run.lane = group.dims.empty() ? -1 : group.dims.back();
      run.count = 2;
      if (run.lane < 0 || group.innermost() < 4) return false;
      evaluator_.place(factor, run);
      for (uint32_t i = 0; i < node_.first_reads; ++i) {
        if (factor.uses[factor.shape.indices + i] && evaluator_.step_of(node_, i, &step) && step == 1) return true;
      }
      return false;
    };
    const bool by_depth = step_along(depth), by_outer = step_along(outer);
    return by_depth == by_outer ? depth.innermost() >= std::min<int64_t>(outer.innermost(), 16) : by_depth;
  }

  static void store(const Lanes& value, const Run& run, float* out, int64_t step, bool* out_finite) {
    const auto* from = static_cast<const float*>(value.data);
    float odd = 0;  // NaN as soon as one is not finite
    if (value.is_uniform) {
      for (int64_t l = 0; l < run.count; ++l) out[l * step] = *from;
      odd = *from * 0;
    } else if (step == 1) {
      std::memcpy(out, from, static_cast<size_t>(run.count) * sizeof(float));
      for (int64_t l = 0; l < run.count; ++l) odd += from[l] * 0;
    } else {
      for (int64_t l = 0; l < run.count; ++l) {
        out[l * step] = from[l];
        odd += from[l] * 0;
      }
    }
    if (run.active) {
      for (int64_t l = 0; l < run.count; ++l) {
        if (!run.active[l]) out[l * step] = 0;
      }
    }
    if (odd != 0) *out_finite = false;
  }

  Evaluator& evaluator_;
  const Node& node_;
  const int64_t lanes_;
};

}  // namespace

// How many neighbors along a dimension have the same factor, which depends on it only as a quotient; 1 if it does so otherwise.
int64_t NodeRunner::group_of(const PreparedBody& factor, int32_t dim) const {
  const std::vector<Expression>& all = call_.prepared.kernel.expressions;
  const uint64_t bit = uint64_t{1} << dim;
  int64_t size = 0;
  if (factor.uses[static_cast<size_t>(dim)]) return 1;
  for (uint32_t i : factor.expressions) {
    const Expression& e = all[i];
    if ((call_.prepared.dims[i] & bit) == 0 || e.kind <= Expression::kSymbol) continue;
    for (uint32_t operand : {e.a, e.b}) {
      if (all[operand].kind != Expression::kDimension || all[operand].value != dim) continue;
      if (e.kind != Expression::kFloorDiv || operand != e.a || call_.prepared.dims[e.b] != 0) return 1;
      if (size != 0 && size != call_.known[e.b]) return 1;
      size = call_.known[e.b];
    }
  }
  // A read at the dimension itself.
  for (uint32_t i = factor.shape.first_read; i < factor.shape.end_read; ++i) {
    if (!factor.uses[factor.shape.indices + i - factor.shape.first_read]) continue;
    for (uint32_t place : node_.reads[i].place) {
      if (all[place].kind == Expression::kDimension && all[place].value == dim) return 1;
    }
  }
  for (const Within& within : node_.within) {
    if (call_.prepared.dims[within.index] & bit) return 1;
  }
  return std::max<int64_t>(1, size);
}

NodeRunner::Product NodeRunner::multiply() {
  if (node_.accumulator != Scalar::kF32) return Product::kNo;
  if (std::find(extents_.begin(), extents_.end(), 0) != extents_.end()) return Product::kNo;
  const PreparedBody &left = prepared_.factors[0], &right = prepared_.factors[1];
  const auto parallel = static_cast<int32_t>(node_.parallel_rank()), rank = static_cast<int32_t>(node_.rank());
  const uint64_t parallel_dims = (uint64_t{1} << parallel) - 1;
  Group batch, rows, columns, depth;
  uint64_t row_dims = 0, column_dims = 0;
  for (int32_t d = 0; d < parallel; ++d) {
    const bool of_left = left.dims >> d & 1, of_right = right.dims >> d & 1;
    const int64_t extent = extents_[static_cast<size_t>(d)];
    // Groups of columns, as in a convolution with groups: the left factor is the same for all columns of a group.
    if (int64_t size = of_left && of_right ? group_of(left, d) : 1; size > 1 && extent % size == 0) {
      batch.add(d, extent / size, size);
      columns.add(d, size);
      column_dims |= uint64_t{1} << d;
      continue;
    }
    (of_left == of_right ? batch : of_left ? rows : columns).add(d, extent);
    if (of_left && !of_right) row_dims |= uint64_t{1} << d;
    if (of_right && !of_left) column_dims |= uint64_t{1} << d;
  }
  for (int32_t d = parallel; d < rank; ++d) depth.add(d, extents_[static_cast<size_t>(d)]);
  if (columns.count < kMinColumns && rows.count < kMinColumns) return Product::kNo;
  // Neighbors in memory should be along columns.
  const bool is_turned = columns.count < kMinColumns || (rows.count >= kMinColumns && !rows.dims.empty() && !columns.dims.empty() &&
                                                         rows.dims.back() > columns.dims.back());
  if (is_turned) {
    std::swap(rows, columns);
    std::swap(row_dims, column_dims);
  }
  if (columns.count < kMinColumns) return Product::kNo;
  const PreparedBody &of_rows = is_turned ? right : left, &of_columns = is_turned ? left : right;
  const uint64_t bounds = prepared_.within_dims & parallel_dims;
  const bool bounds_rows = (bounds & column_dims) == 0, bounds_columns = !bounds_rows && (bounds & row_dims) == 0;
  if (!node_.within.empty() && !bounds_rows && !bounds_columns) return Product::kNo;

  ProductRunner runner(evaluator_, node_, lanes_);
  const int64_t row_count = std::min(kBlockRows, rows.count), column_count = std::min(kBlockColumns, columns.count),
                depth_count = std::min(kBlockDepth, depth.count), padded = (column_count + kTileColumns - 1) / kTileColumns * kTileColumns;
  std::vector<float> a(static_cast<size_t>(row_count * depth_count)), b(static_cast<size_t>(depth_count * padded)),
      sums(static_cast<size_t>(row_count * padded));
  Run run;
  uint32_t turn = 0;  // of the part that does the next block
  for (int64_t i = 0; i < batch.count; ++i) {
    batch.go_to(i, run);
    rows.begin_at(run);
    columns.begin_at(run);
    for (int64_t c = 0; c < columns.count; c += kBlockColumns) {
      const int64_t width = std::min(kBlockColumns, columns.count - c);
      for (int64_t r = 0; r < rows.count; r += kBlockRows) {
        const bool is_own = turn == part_.number;
        turn = turn + 1 == part_.count ? 0 : turn + 1;
        if (!is_own) continue;
        const int64_t height = std::min(kBlockRows, rows.count - r);
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (int64_t k = 0; k < depth.count; k += kBlockDepth) {
          const int64_t deep = std::min(kBlockDepth, depth.count - k);
          bool is_finite = true;
          if (!runner.fill(of_rows, rows, depth, run, bounds_rows && !node_.within.empty(), {a.data(), depth_count, 1, r, height, k, deep},
                           &is_finite) ||
              !runner.fill(of_columns, columns, depth, run, bounds_columns, {b.data(), 1, padded, c, width, k, deep}, &is_finite))
            return Product::kFailed;
          // An element that does not count must not become a NaN: 0 times infinity.
          if (!is_finite && !node_.within.empty()) return Product::kByElement;
          multiply_block({a.data(), depth_count, b.data(), padded, sums.data(), padded, height, width, deep});
        }
        Run at = run;
        at.lane = columns.dims.back();
        for (int64_t row = 0; row < height; ++row) {
          rows.go_to(r + row, at);
          for (int64_t first = c; first < c + width; first += at.count) {
            columns.go_to(first, at);
            at.count = std::min({lanes_, columns.rest(first), c + width - first});
            arguments_[0] = {sums.data() + row * padded + first - c, false};
            if (!finish(1, at, arguments_.data())) return Product::kFailed;
          }
        }
      }
    }
  }
  return Product::kDone;
}

}  // namespace heddle::sdk::portable
