// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax, or other ops that go through rows, between two matrix products: scores of some rows of queries with all keys by microkernels, then the
// ops on these rows (targets/rows.h), then their product with the values. The workspace has the scores of a few rows at a time, and the packed
// keys and values, which are read or computed once for all rows of a workgroup. If the number of keys is symbolic, the workspace has space for
// 100,000 of them with heads of 64 elements, and fewer with longer ones. If a call has more, or only a query or two, as a step of generation, each row is
// computed without packing.
#include "compiler/targets/attention_shape.h"
#include "compiler/targets/x86_64/contraction_shape.h"
#include "compiler/targets/x86_64/microkernel.h"
#include "compiler/targets/x86_64/row_loops.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr int64_t scores_bytes = 256 * 1024;                // of the rows computed at a time
constexpr int64_t whole_tiles = 12;                         // rows that are a multiple of every level's tiles
constexpr int64_t most_workspace_bytes = int64_t{1} << 24;  // memory that a call does not use is not touched
constexpr int64_t most_unknown_bytes = int64_t{1} << 26;    // if the number of keys is symbolic
constexpr int64_t unknown_queries = 64;                     // of a workgroup
constexpr int64_t usual_keys = 128;                         // for an estimate
constexpr int64_t enough_workgroups = 128;
constexpr int64_t fewest_rows = 48;  // of a workgroup; with fewer, packing would take too long
constexpr int64_t few_queries = 2;   // for which packing takes longer than their products
constexpr int64_t most_sums = 8;     // vectors of columns at a time, without packing

// The shape of attention, with the choices of this strategy.
struct Attention : AttentionShape {
  int64_t rows_at_once = 1;  // of scores, at most
  int64_t part_rows = 1;     // of a workgroup; the last one of a batch element may have fewer

  static FailureOr<Attention> read(tx::DispatchOp region);
  std::optional<int64_t> known_keys() const { return tx::static_extent(keys); }
  AffineExpr parts() const { return queries.ceilDiv(part_rows); }  // of a batch element
  AffineExpr workgroups() const;
};

FailureOr<Attention> Attention::read(tx::DispatchOp region) {
  auto shape = AttentionShape::read(region, "x86_64");
  if (failed(shape)) return failure();
  Attention result;
  static_cast<AttentionShape&>(result) = std::move(*shape);
  int64_t batch = 1;
  for (AffineExpr extent : result.batch) batch *= std::max<int64_t>(1, tx::static_extent(extent).value_or(1));
  if (auto queries = tx::static_extent(result.queries)) {
    int64_t wanted = llvm::divideCeilSigned(enough_workgroups, batch), most = std::max<int64_t>(1, *queries / fewest_rows);
    result.part_rows = llvm::divideCeilSigned(*queries, std::min(wanted, most));
  } else {
    result.part_rows = unknown_queries;
  }
  result.rows_at_once = whole_tiles;
  if (auto known = result.known_keys()) {
    int64_t row_bytes = 4 * llvm::divideCeilSigned(*known, Panels::unit) * Panels::unit;
    result.rows_at_once = std::max<int64_t>(1, scores_bytes / row_bytes);
    if (result.rows_at_once > whole_tiles) result.rows_at_once = result.rows_at_once / whole_tiles * whole_tiles;
  }
  result.rows_at_once = std::min(result.rows_at_once, result.part_rows);
  return result;
}

AffineExpr Attention::workgroups() const {
  AffineExpr count = parts();
  for (AffineExpr extent : batch) count = count * extent;
  return count;
}

// Panels of a symbolic number of keys are all of one width.
int64_t key_units(const Level& level) {
  return level.f32_lanes() == 16 ? 4 : 1;
}

// Rows of any tile, at most.
int64_t most_tile_rows(const Level& level) {
  int64_t most = 1;
  for (int64_t vectors = 1; vectors <= 4; ++vectors) most = std::max(most, tile_rows(level, vectors));
  return most;
}

// The layout of the workspace, in elements of f32. Tiles may extend beyond the last row. If the number of keys is symbolic, the memory for it is the
// largest allowed: enough for the scores of a few rows with as many keys as possible, or of more rows with fewer keys.
struct Layout {
  Panels keys, values;  // keys: if their number is static
  int64_t capacity;     // number of keys that fit
  int64_t query_lda, sums_ldc;
  int64_t key_panels, value_panels, queries, sums, scores, all;

  Layout(const Attention& attention, const Level& level) {
    values = Panels::own(attention.columns, level);
    query_lda = llvm::alignTo(attention.depth, Panels::unit);
    sums_ldc = values.padded_columns();
    const int64_t more_rows = most_tile_rows(level) - 1;
    auto known = attention.known_keys();
    const int64_t rows = (known ? attention.rows_at_once : attention.part_rows) + more_rows;
    const int64_t score_rows = attention.rows_at_once + more_rows;
    if (known) {
      keys = Panels::own(*known, level);
      capacity = keys.padded_columns();
    } else {
      const int64_t width = key_units(level) * Panels::unit, one_key = attention.depth + sums_ldc + score_rows;
      capacity = (most_unknown_bytes / 4 - rows * (query_lda + sums_ldc) - scores_bytes / 4) / one_key / width * width;
    }
    key_panels = 0;
    value_panels = key_panels + attention.depth * capacity;
    queries = value_panels + capacity * sums_ldc;
    sums = queries + rows * query_lda;
    scores = sums + rows * sums_ldc;
    all = known ? scores + score_rows * capacity : most_unknown_bytes / 4;
  }
  int64_t bytes() const { return 4 * all; }
};

class AttentionWriter {
 public:
  AttentionWriter(KernelBuilder& kernel, Attention& attention)
      : k_(kernel), x_(attention), layout_(attention, kernel.level), lanes_(kernel.level.f32_lanes()) {}

  const Layout& layout() const { return layout_; }

  void write() {
    keys_ = k_.extent(x_.keys);
    queries_ = k_.extent(x_.queries);
    if (x_.known_keys()) {
      padded_keys_ = k_.index(layout_.capacity);
      rows_at_once_ = k_.index(x_.rows_at_once);
      const auto known_queries = tx::static_extent(x_.queries);
      if (known_queries) return *known_queries <= few_queries ? write_rows() : write_packed();
      k_.branch(has_few_queries(), [&] { write_rows(); }, [&] { write_packed(); });
      return;
    }
    const int64_t width = key_units(k_.level) * Panels::unit;
    padded_keys_ = k_.mul(k_.ceil_div(keys_, k_.index(width)), width);
    Value rows = k_.mul(k_.div(k_.div(k_.index(scores_bytes / 4), padded_keys_), k_.index(x_.rows_at_once)), x_.rows_at_once);
    rows_at_once_ = k_.max(k_.min(rows, k_.index(x_.part_rows)), k_.index(x_.rows_at_once));
    Value has_many_keys = k_.less(k_.index(layout_.capacity), keys_);
    k_.branch(k_.make<arith::OrIOp>(has_few_queries(), has_many_keys), [&] { write_rows(); }, [&] { write_packed(); });
  }

 private:
  // Visits the rows of each workgroup; also gives whether the batch element differs from the previous one.
  void for_workgroups(const std::function<void(Value is_new, Value from, Value to)>& visit) {
    k_.loop(k_.first(), k_.last(), k_.index(1), ValueRange{k_.index(-1)},
            [&](Value workgroup, ValueRange carried) -> KernelBuilder::Values {
              Value parts = k_.extent(x_.parts()), batch = k_.div(workgroup, parts), part = k_.rem(workgroup, parts);
              batch_ = row_index(k_, x_.batch, batch);
              Value is_new = k_.make<arith::CmpIOp>(arith::CmpIPredicate::ne, batch, carried[0]);
              Value from = k_.mul(part, x_.part_rows);
              visit(is_new, from, k_.min(k_.add(from, x_.part_rows), queries_));
              return {batch};
            });
  }

  void write_packed() {
    for_workgroups([&](Value is_new, Value from, Value to) {
      // Keys and values of the previous workgroup may still be in the workspace.
      k_.branch(is_new, [&] {
        pack_keys();
        pack_values();
      });
      k_.loop(from, to, rows_at_once_, [&](Value first) { rows_of(first, k_.min(rows_at_once_, k_.sub(to, first))); });
    });
  }

  Value has_few_queries() { return k_.less(queries_, k_.index(few_queries + 1)); }

  // For more keys than fit, or few queries: each row by itself.
  void write_rows() {
    for_workgroups([&](Value, Value from, Value to) {
      k_.loop(from, to, [&](Value query) {
        Value row = at(0);
        unsigned depth_dim = x_.first.getDomain().getParallelRank();
        Value zeros = k_.constant(k_.vector_type(f32(), lanes_), 0.0);
        k_.loop(k_.index(0), keys_, [&](Value key) {
          Value sum = zeros;
          auto add = [&](Value d, Value mask) {
            SmallVector<Value> index = first_index(query, key, d);
            Value a = factor(x_.first, 0, index, depth_dim, lanes_, mask), b = factor(x_.first, 1, index, depth_dim, lanes_, mask);
            Value product = k_.make<math::FmaOp>(a, b, sum);
            return mask ? k_.make<arith::SelectOp>(mask, product, sum) : product;
          };
          const int64_t whole = x_.depth / lanes_ * lanes_;
          for (int64_t d = 0; d < whole; d += lanes_) sum = add(k_.index(d), {});
          if (whole < x_.depth) sum = add(k_.index(whole), k_.remainder_mask(k_.index(x_.depth - whole), lanes_));
          k_.store(k_.builder.create<vector::ReductionOp>(k_.location, vector::CombiningKind::ADD, sum), row, key);
        });
        between(row, query);
        // Several vectors of columns, so that the row is read once and sums do not wait for each other.
        const int64_t lanes = x_.second_column ? lanes_ : 0, all = x_.second_column ? x_.columns : 1, step = std::max<int64_t>(1, lanes);
        for (int64_t first = 0; first < all; first += most_sums * step) {
          SmallVector<std::pair<Value, Value>> columns;  // with masks
          for (int64_t c = first; c < std::min(all, first + most_sums * step); c += step)
            columns.emplace_back(k_.index(c), c + step <= all ? Value() : k_.remainder_mask(k_.index(all - c), lanes_));
          SmallVector<Value> none(columns.size(), x_.second_column ? zeros : k_.constant(f32(), 0.0));
          auto sums = k_.loop(k_.index(0), keys_, k_.index(1), none, [&](Value key, ValueRange before) -> KernelBuilder::Values {
            Value weight = k_.load(row, key, f32());
            if (x_.second_column) weight = k_.splat(weight, lanes_);
            KernelBuilder::Values after;
            for (auto [column, sum] : llvm::zip_equal(columns, before)) {
              Value value = factor(x_.second, 1, second_index(k_.index(0), column.first, key), x_.second_column, lanes, column.second);
              after.push_back(k_.make<math::FmaOp>(weight, value, sum));
            }
            return after;
          });
          for (auto [column, sum] : llvm::zip_equal(columns, sums)) store(query, column.first, column.second, sum);
        }
      });
    });
  }

  Type f32() { return k_.builder.getF32Type(); }
  Value at(int64_t offset) { return k_.pointer(k_.workspace(), k_.index(offset), f32()); }

  // Lanes of a factor along one of the dimensions of its product's domain.
  Value factor(stage::ContractOp product, unsigned number, ArrayRef<Value> index, std::optional<unsigned> lane, int64_t lanes, Value mask) {
    BodyPlace place;
    place.index.assign(index.begin(), index.end());
    if (lane) {
      place.lanes = lanes;
      place.lane_dimension = *lane;
      place.mask = mask;
    }
    Value value = AttentionShape::factor(k_, product, number, place);
    return lanes > 0 && !lane ? k_.splat(value, lanes) : value;
  }
  SmallVector<Value> first_index(Value query, Value key, Value depth) { return x_.first_index(k_, batch_, query, key, depth); }
  SmallVector<Value> second_index(Value query, Value column, Value key) { return x_.second_index(k_, batch_, query, column, key); }

  // Panels of one width.
  void for_panels(const Panels& panels, const std::function<void(Value first_unit, int64_t units)>& visit) {
    auto segment = [&](int64_t first, int64_t last, int64_t units) {
      if (first >= last) return;
      int64_t start = panels.first_unit(first);
      k_.loop(k_.index(first), k_.index(last),
              [&](Value panel) { visit(k_.add(k_.mul(k_.sub(panel, k_.index(first)), units), start), units); });
    };
    segment(0, panels.wide_count, panels.wide);
    segment(panels.wide_count, panels.count, panels.wide - 1);
  }

  void for_key_panels(const std::function<void(Value first_unit, int64_t units)>& visit) {
    if (x_.known_keys()) return for_panels(layout_.keys, visit);
    const int64_t units = key_units(k_.level);
    k_.loop(k_.index(0), k_.div(padded_keys_, k_.index(units * Panels::unit)), [&](Value panel) { visit(k_.mul(panel, units), units); });
  }

  // Vectors over [0, count); the last one may have a mask.
  void for_vectors(int64_t count, const std::function<void(Value, Value)>& visit) {
    int64_t whole = count / lanes_ * lanes_;
    if (whole > 0) k_.loop(k_.index(0), k_.index(whole), k_.index(lanes_), [&](Value i) { visit(i, {}); });
    if (whole < count) visit(k_.index(whole), k_.remainder_mask(k_.index(count - whole), lanes_));
  }

  // Row d of a panel has the elements d of its keys. Columns after the last key are not used.
  void pack_keys() {
    unsigned depth_dim = x_.first.getDomain().getParallelRank();
    int64_t most_lanes = 2;
    bool along_depth = true;
    for (unsigned i = 0; i < x_.first->getNumOperands() && i < x_.first.getStepReads(); ++i) {
      auto step = memory_step(x_.first, i, x_.first_key, most_lanes);
      if (step && tx::static_extent(*step) == 1) along_depth = false;
    }
    for_key_panels([&](Value unit, int64_t units) {
      Value panel = k_.pointer(at(layout_.key_panels), k_.mul(unit, Panels::unit * x_.depth), f32());
      int64_t width = units * Panels::unit;
      Value first_key = k_.mul(unit, Panels::unit);
      if (!along_depth) {
        k_.loop(k_.index(0), k_.index(x_.depth), [&](Value d) {
          for (int64_t j = 0; j < width; j += lanes_) {
            Value key = k_.add(first_key, j), mask = k_.remainder_mask(k_.sub(keys_, key), lanes_);
            key = k_.min(key, k_.sub(keys_, k_.index(1)));  // lanes beyond the last key are masked
            Value keys = factor(x_.first, 1, first_index(k_.index(0), key, d), x_.first_key, lanes_, mask);
            k_.store(keys, panel, k_.add(k_.mul(d, width), j));
          }
        });
        return;
      }
      k_.loop(k_.index(0), k_.index(width), [&](Value j) {
        Value key = k_.min(k_.add(first_key, j), k_.sub(keys_, k_.index(1)));
        for_vectors(x_.depth, [&](Value d, Value mask) {
          Value elements = factor(x_.first, 1, first_index(k_.index(0), key, d), depth_dim, lanes_, mask);
          int64_t count = mask ? x_.depth % lanes_ : lanes_;
          for (int64_t lane = 0; lane < count; ++lane) {
            Value element = k_.builder.create<vector::ExtractOp>(k_.location, elements, lane);
            k_.store(element, panel, k_.add(k_.mul(k_.add(d, lane), width), j));
          }
        });
      });
    });
  }

  // Row n of a panel has the columns of value n.
  void pack_values() {
    for_panels(layout_.values, [&](Value unit, int64_t units) {
      Value panel = k_.pointer(at(layout_.value_panels), k_.mul(k_.mul(unit, Panels::unit), keys_), f32());
      int64_t width = units * Panels::unit;
      k_.loop(k_.index(0), keys_, [&](Value key) {
        for (int64_t j = 0; j < width; j += lanes_) {
          Value column = k_.add(k_.mul(unit, Panels::unit), j);
          Value mask = x_.columns % Panels::unit == 0 ? Value() : k_.remainder_mask(k_.sub(k_.index(x_.columns), column), lanes_);
          column = k_.min(column, k_.index(x_.columns - 1));
          Value values = factor(x_.second, 1, second_index(k_.index(0), column, key), x_.second_column, lanes_, mask);
          k_.store(values, panel, k_.add(k_.mul(key, width), j));
        }
      });
    });
  }

  // A panel of C[rows, columns] = A * packed panels of B; also writes some rows after them.
  void multiply(Value rows, int64_t a, Value lda, Value depth, int64_t b, int64_t c, Value ldc, Value unit, int64_t units) {
    MicrokernelForm form;
    form.vectors = units * Panels::unit / lanes_;
    form.columns = units * Panels::unit;
    form.packed = true;
    form.gathered = false;
    form.rows = std::min(tile_rows(k_.level, form.vectors), x_.rows_at_once);
    if (x_.known_keys()) {  // tiles of one size
      int64_t tiles = llvm::divideCeilSigned(x_.rows_at_once, form.rows);
      form.rows = llvm::divideCeilSigned(x_.rows_at_once, tiles);
    }
    MicrokernelArguments call;
    call.lda = lda;
    call.batches = k_.index(1);
    call.depth = depth;
    call.b = k_.pointer(at(b), k_.mul(k_.mul(unit, Panels::unit), depth), f32());
    call.ldb = k_.index(0);
    call.ldc = ldc;
    call.accumulate = k_.make<arith::ConstantIntOp>(0, 1);
    call.ahead = k_.index(0);
    call.next = call.b;
    call.next_step = k_.index(0);
    k_.loop(k_.index(0), rows, k_.index(form.rows), [&](Value row) {
      call.a = k_.pointer(at(a), k_.mul(row, lda), f32());
      call.c = k_.pointer(at(c), k_.add(k_.mul(row, ldc), k_.mul(unit, Panels::unit)), f32());
      call_microkernel(k_, form, call);
    });
  }

  // `count` rows of results, from this one on.
  void rows_of(Value from, Value count) {
    unsigned depth_dim = x_.first.getDomain().getParallelRank();
    auto for_rows = [&](const std::function<void(Value row, Value query)>& visit) {
      k_.loop(k_.index(0), count, [&](Value row) { visit(row, k_.add(from, row)); });
    };
    for_rows([&](Value row, Value query) {
      for_vectors(x_.depth, [&](Value d, Value mask) {
        Value elements = factor(x_.first, 0, first_index(query, k_.index(0), d), depth_dim, lanes_, mask);
        k_.store(elements, at(layout_.queries), k_.add(k_.mul(row, layout_.query_lda), d), mask);
      });
    });
    for_key_panels([&](Value unit, int64_t units) {
      multiply(count, layout_.queries, k_.index(layout_.query_lda), k_.index(x_.depth), layout_.key_panels, layout_.scores, padded_keys_,
               unit, units);
    });
    for_rows([&](Value row, Value query) { between(k_.pointer(at(layout_.scores), k_.mul(row, padded_keys_), f32()), query); });
    for_panels(layout_.values, [&](Value unit, int64_t units) {
      multiply(count, layout_.scores, padded_keys_, keys_, layout_.value_panels, layout_.sums, k_.index(layout_.sums_ldc), unit, units);
    });
    for_rows([&](Value row, Value query) {
      for_columns([&](Value column, Value mask) {
        Value first = k_.add(k_.mul(row, layout_.sums_ldc), column);
        store(query, column, mask, k_.load(at(layout_.sums), first, f32(), x_.second_column ? lanes_ : 0, mask));
      });
    });
  }

  // Goes through a row of scores.
  void between(Value row, Value query) {
    RowPoint point;
    point.index = batch_;
    if (x_.query) point.index[*x_.query] = query;
    RowTeam team;
    team.lanes = lanes_;
    team.masks = true;
    team.at_once = 2;
    team.between = row;
    x_.rows.emit(k_, point, team);
  }

  void for_columns(const std::function<void(Value, Value)>& visit) {
    if (x_.second_column) {
      for_vectors(x_.columns, visit);
    } else {
      visit(k_.index(0), {});
    }
  }

  void store(Value query, Value column, Value mask, Value sums) {
    x_.store(k_, batch_, query, column, sums, x_.second_column ? lanes_ : 0, mask);
  }

  KernelBuilder& k_;
  Attention& x_;
  Layout layout_;
  int64_t lanes_;
  Value keys_, queries_, padded_keys_;  // padded to whole panels: elements between rows of scores
  Value rows_at_once_;
  SmallVector<Value> batch_;  // index of each dimension of rows; 0 for the queries
};

}  // namespace

FailureOr<Plans> plans_attention(tx::DispatchOp region) {
  auto attention = Attention::read(region);
  if (failed(attention)) return failure();
  for (const Level* level : {&level_v3, &level_v4}) {
    Layout layout(*attention, *level);
    if ((attention->known_keys() && layout.bytes() > most_workspace_bytes) || layout.capacity < Panels::unit) {
      return FailureOr<Plans>(region.emitError("x86_64: attention: the keys do not fit into the workspace"));
    }
  }
  if (!attention->has_neighboring_columns())
    return FailureOr<Plans>(region.emitError("x86_64: attention: the columns of a result are not contiguous"));
  int64_t keys = attention->known_keys().value_or(usual_keys);
  double flops = 2.0 * static_cast<double>(attention->part_rows * keys * (attention->depth + attention->columns));
  KernelPlan plan{attention->workgroups(), static_cast<uint64_t>(flops / 60.0) + 1};
  if (!attention->known_keys()) plan.limits.push_back({attention->keys, most_unknown_bytes / 4, "keys of attention"});
  return Plans{plan};
}

FailureOr<KernelResources> emit_attention(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels,
                                          const Level& level) {
  auto attention = Attention::read(region);
  if (failed(attention)) return failure();
  KernelBuilder kernel(region, symbol, kernels, level);
  AttentionWriter writer(kernel, *attention);
  writer.write();
  kernel.finish();
  KernelResources resources;
  resources.workspace_bytes = static_cast<uint64_t>(writer.layout().bytes());
  return resources;
}

}  // namespace heddle::targets::x86_64
