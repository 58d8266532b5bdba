// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions that are products of matrices, convolutions among them. See nodes.h. Dimensions that only the first factor depends on are rows, those of
// the second one columns, and those of both, or of neither, form a batch. Blocks of both factors are copied or computed into scratch memory, and
// multiplied there.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

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

int64_t plus_product(int64_t a, int64_t b, int64_t to) {
  return static_cast<int64_t>(static_cast<uint64_t>(to) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// A factor whose elements are those of a tensor, at places that are sums of multiples of indices, so that runs of neighbors are copied.
class CopiedFactor {
 public:
  // `of_node`: whether the node's bounds are this factor's.
  CopiedFactor(const ProductForm& form, bool is_left, bool of_node, bool is_zero_outside, const char* data)
      : form_(form),
        data_(reinterpret_cast<const float*>(data)),
        offset_(is_left ? form.left_offset : form.right_offset),
        step_(is_left ? &ProductDim::left : &ProductDim::right),
        is_zero_outside_(is_zero_outside) {
    const ProductBound::Of own = is_left ? ProductBound::kLeft : ProductBound::kRight;
    for (const ProductBound& bound : form.bounds) {
      if (bound.of == own || (of_node && bound.of == ProductBound::kNode)) bounds_.push_back(&bound);
    }
    base_.resize(1 + bounds_.size());
  }

  // The place of all that is no index of the block: of the batch.
  void begin_at(const Run& run, const Group& outer, const Group& depth) {
    for (size_t b = 0; b < base_.size(); ++b) {
      base_[b] = b == 0 ? offset_ : bounds_[b - 1]->offset;
      for (size_t d = 0; d < form_.dims.size(); ++d) {
        const auto is_in = [d](const Group& group) {
          return std::count(group.dims.begin(), group.dims.end(), static_cast<int32_t>(d)) > 0;
        };
        if (!is_in(outer) && !is_in(depth)) base_[b] = plus_product(run.index[d], step(b, d), base_[b]);
      }
    }
  }

  // What the numbers of a block's rows or columns, and of its depth, add to the place.
  void go_to(const Group& outer, const Group& depth, const Block& block) {
    number(outer, block.outer_first, block.outer_count, &outer_);
    number(depth, block.depth_first, block.depth_count, &depth_);
  }

  // The first element, if none is left out and all are where a matrix has them: rows at equal steps, whose elements are neighbors.
  const float* matrix(int64_t* out_step) const {
    if (!bounds_.empty()) return nullptr;
    const std::vector<int64_t>&rows = outer_[0], &elements = depth_[0];
    *out_step = rows.size() > 1 ? rows[1] - rows[0] : 0;
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i] - rows[i - 1] != *out_step) return nullptr;
    }
    for (size_t i = 1; i < elements.size(); ++i) {
      if (elements[i] - elements[i - 1] != 1) return nullptr;
    }
    return data_ + (base_[0] + rows[0] + elements[0]);
  }

  // Copies a block, whose rows are in panels: row or column o is at o / kPanelColumns * panel_step + o % kPanelColumns * outer_step. Elements outside of
  // the node's bounds are 0. False if one is in them, and outside of its tensor.
  bool copy(float* to, int64_t outer_step, int64_t depth_step, int64_t panel_step) {
    find_runs(outer_, kPanelColumns, &outer_ends_);
    find_runs(depth_, INT64_MAX, &depth_ends_);
    const bool along_outer = outer_ends_.size() * depth_[0].size() < depth_ends_.size() * outer_[0].size();
    const std::vector<size_t>& ends = along_outer ? outer_ends_ : depth_ends_;
    const size_t others = along_outer ? depth_[0].size() : outer_[0].size();
    const int64_t run_step = along_outer ? outer_step : depth_step;
    for (size_t other = 0; other < others; ++other) {
      size_t first = 0;
      for (size_t end : ends) {
        const size_t o = along_outer ? first : other, k = along_outer ? other : first;
        const auto number = static_cast<int64_t>(o), count = static_cast<int64_t>(end - first);
        float* out = to + number / kPanelColumns * panel_step + number % kPanelColumns * outer_step + static_cast<int64_t>(k) * depth_step;
        const Found found = bounds_.empty() ? Found::kElement : find(o, k);
        if (found == Found::kWrong) return false;
        if (found == Found::kZero) {
          for (int64_t i = 0; i < count; ++i) out[i * run_step] = 0;
        } else {
          const float* from = data_ + (base_[0] + outer_[0][o] + depth_[0][k]);
          if (run_step != 1) {
            for (int64_t i = 0; i < count; ++i) out[i * run_step] = from[i];
          } else if (count == kPanelColumns) {
            std::memcpy(out, from, kPanelColumns * sizeof(float));
          } else {
            std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
          }
        }
        first = end;
      }
    }
    return true;
  }

 private:
  using Places = std::vector<std::vector<int64_t>>;  // in the tensor, then in each bound
  enum class Found : uint8_t { kElement, kZero, kWrong };

  int64_t step(size_t b, size_t dim) const { return b == 0 ? form_.dims[dim].*step_ : bounds_[b - 1]->steps[dim]; }

  void number(const Group& group, int64_t first, int64_t count, Places* out) const {
    out->resize(base_.size());
    const size_t rank = group.dims.size();
    int64_t begin[kMostRank] = {}, index[kMostRank];
    for (size_t d = rank; d-- > 0; first /= group.extents[d]) begin[d] = first % group.extents[d];
    for (size_t b = 0; b < base_.size(); ++b) {
      std::vector<int64_t>& places = (*out)[b];
      places.resize(static_cast<size_t>(count));
      int64_t steps[kMostRank] = {}, place = 0;
      for (size_t d = 0; d < rank; ++d) {
        steps[d] = step(b, static_cast<size_t>(group.dims[d]));
        index[d] = begin[d];
        place = plus_product(index[d], steps[d], place);
      }
      for (int64_t& each : places) {
        each = place;
        for (size_t d = rank; d-- > 0;) {
          place = plus_product(1, steps[d], place);
          if (++index[d] < group.extents[d]) break;
          place = plus_product(-index[d], steps[d], place);
          index[d] = 0;
        }
      }
    }
  }

  // The ends of runs of neighbors that are in or out of bounds together, none longer than up to the next multiple of `most`.
  static void find_runs(const Places& places, int64_t most, std::vector<size_t>* ends) {
    ends->clear();
    for (size_t i = 1; i < places[0].size(); ++i) {
      bool goes_on = places[0][i] - places[0][i - 1] == 1 && static_cast<int64_t>(i) % most != 0;
      for (size_t b = 1; b < places.size() && goes_on; ++b) goes_on = places[b][i] == places[b][i - 1];
      if (!goes_on) ends->push_back(i);
    }
    ends->push_back(places[0].size());
  }

  Found find(size_t o, size_t k) const {
    Found found = Found::kElement;
    for (size_t b = 0; b < bounds_.size(); ++b) {
      const auto place = static_cast<int64_t>(static_cast<uint64_t>(base_[b + 1]) + static_cast<uint64_t>(outer_[b + 1][o]) +
                                              static_cast<uint64_t>(depth_[b + 1][k]));
      if (place >= 0 && place < bounds_[b]->bound) continue;
      if (bounds_[b]->of == ProductBound::kNode) return Found::kZero;
      found = is_zero_outside_ ? Found::kZero : Found::kWrong;
    }
    return found;
  }

  const ProductForm& form_;
  const float* data_;
  const int64_t offset_;
  int64_t ProductDim::* const step_;
  const bool is_zero_outside_;
  std::vector<const ProductBound*> bounds_;
  std::vector<int64_t> base_;  // of the tensor, then of each bound
  Places outer_, depth_;
  std::vector<size_t> outer_ends_, depth_ends_;
};

class ProductRunner {
 public:
  ProductRunner(Evaluator& evaluator, const Node& node, int64_t lanes) : evaluator_(evaluator), node_(node), lanes_(lanes) {}

  // The elements of a factor in a block. Elements outside of the node's bounds are 0.
  bool fill(const PreparedBody& factor, const Group& outer, const Group& depth, Run run, bool has_bounds, const Block& block) {
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
        store(value, run, out, lane_step);
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

  static void store(const Lanes& value, const Run& run, float* out, int64_t step) {
    const auto* from = static_cast<const float*>(value.data);
    if (value.is_uniform) {
      for (int64_t l = 0; l < run.count; ++l) out[l * step] = *from;
    } else if (step == 1) {
      std::memcpy(out, from, static_cast<size_t>(run.count) * sizeof(float));
    } else {
      for (int64_t l = 0; l < run.count; ++l) out[l * step] = from[l];
    }
    if (run.active) {
      for (int64_t l = 0; l < run.count; ++l) {
        if (!run.active[l]) out[l * step] = 0;
      }
    }
  }

  Evaluator& evaluator_;
  const Node& node_;
  const int64_t lanes_;
};

// Whether all elements of the left block are finite, or all of the right one.
bool is_finite(const Product& p, bool is_left) {
  if (is_left) {
    for (int64_t row = 0; row < p.rows; ++row) {
      if (!are_finite(p.a + row * p.a_stride, p.depth)) return false;
    }
    return true;
  }
  for (int64_t column = 0; column < p.columns; column += kPanelColumns) {
    const float* panel = p.b + column / kPanelColumns * p.b_panel;
    const int64_t width = std::min(kPanelColumns, p.columns - column);
    if (width == p.b_stride) {
      if (!are_finite(panel, width * p.depth)) return false;
      continue;
    }
    for (int64_t k = 0; k < p.depth; ++k) {
      if (!are_finite(panel + k * p.b_stride, width)) return false;
    }
  }
  return true;
}

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

// Whether both factors are elements of tensors of f32 as ProductForm says, with this batch.
bool NodeRunner::find_form(const std::vector<int32_t>& batch, ProductForm* out) const {
  const Kernel& kernel = call_.prepared.kernel;
  std::vector<int64_t> symbols(kernel.symbols);
  for (size_t i = 0; i < kernel.expressions.size(); ++i) {
    if (kernel.expressions[i].kind == Expression::kSymbol) symbols[static_cast<size_t>(kernel.expressions[i].value)] = call_.known[i];
  }
  std::string reason;
  if (!find_product(kernel, static_cast<uint32_t>(&node_ - kernel.nodes.data()), symbols.data(), out, &reason)) return false;
  for (size_t d = 0; d < out->dims.size(); ++d) {
    const bool is_batch = std::count(batch.begin(), batch.end(), static_cast<int32_t>(d)) > 0;
    if (is_batch != (out->dims[d].group == ProductDim::kBatch)) return false;
  }
  return out->left_type == Scalar::kF32 && out->right_type == Scalar::kF32;
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

  const bool has_bounds = !node_.within.empty();
  ProductForm form;
  std::optional<CopiedFactor> copied_rows, copied_columns;
  if (find_form(batch.dims, &form) && form.bounds.size() <= kMostCopiedBounds) {
    auto copied = [&](bool is_left, bool of_node, std::optional<CopiedFactor>* out) {
      const uint32_t value = node_.bodies[0].yields[is_left ? 0 : 1] - node_.rank();
      out->emplace(form, is_left, of_node && has_bounds, node_.reads[value].has_outside,
                   call_.tensors[is_left ? form.left : form.right].data);
    };
    copied(!is_turned, bounds_rows, &copied_rows);
    copied(is_turned, bounds_columns, &copied_columns);
  }
  ProductRunner runner(evaluator_, node_, lanes_);
  const int64_t row_count = std::min(kBlockRows, rows.count), column_count = std::min(kBlockColumns, columns.count),
                depth_count = std::min(kBlockDepth, depth.count), padded = (column_count + kTileColumns - 1) / kTileColumns * kTileColumns,
                panels = (column_count + kPanelColumns - 1) / kPanelColumns;
  std::pmr::vector<float> a(static_cast<size_t>(row_count * depth_count), memory_),
      b(static_cast<size_t>(depth_count * panels * kPanelColumns), memory_), sums(static_cast<size_t>(row_count * padded), memory_);
  heddle::sdk::portable::Product product = {};
  product.b = b.data();
  product.sums = sums.data(), product.sums_stride = padded;
  Run run;
  uint32_t turn = 0;  // of the part that does the next block
  for (int64_t i = 0; i < batch.count; ++i) {
    batch.go_to(i, run);
    rows.begin_at(run);
    columns.begin_at(run);
    if (copied_rows) copied_rows->begin_at(run, rows, depth);
    if (copied_columns) copied_columns->begin_at(run, columns, depth);
    int64_t has_c = -1, has_k = -1;  // the block of columns that is there
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
          product.a = a.data(), product.a_stride = depth_count;
          product.rows = height, product.columns = width, product.depth = deep;
          const Block of_rows_block = {a.data(), depth_count, 1, r, height, k, deep},
                      of_columns_block = {b.data(), 1, padded, c, width, k, deep};
          bool is_copied = false;
          if (copied_rows) {
            copied_rows->go_to(rows, depth, of_rows_block);
            int64_t step;
            const float* matrix = copied_rows->matrix(&step);
            is_copied = matrix || copied_rows->copy(a.data(), depth_count, 1, kPanelColumns * depth_count);
            if (matrix) product.a = matrix, product.a_stride = step;
          }
          if (!is_copied && !runner.fill(of_rows, rows, depth, run, bounds_rows && has_bounds, of_rows_block)) return Product::kFailed;
          if (c != has_c || k != has_k) {
            is_copied = false;
            if (copied_columns) {
              copied_columns->go_to(columns, depth, of_columns_block);
              is_copied = copied_columns->copy(b.data(), 1, kPanelColumns, kPanelColumns * deep);
            }
            if (!is_copied && !runner.fill(of_columns, columns, depth, run, bounds_columns, of_columns_block)) return Product::kFailed;
            product.b_stride = is_copied ? kPanelColumns : padded;
            product.b_panel = is_copied ? kPanelColumns * deep : kPanelColumns;
            has_c = c, has_k = k;
          }
          // What does not count is 0 in the factor with the bounds, and must not become a NaN: 0 times infinity.
          if (has_bounds && !is_finite(product, !bounds_rows)) return Product::kByElement;
          multiply_block(product);
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
