// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax, or whatever goes through rows, between two matrix products: scores of some rows of queries with all keys by microkernels, then these
// rows (targets/rows.h), then their product with the values. Scores are in the workspace, and of a few rows at a time; keys and values are packed
// there once for all rows that a workgroup has, from wherever they are and however they are computed.
#include "compiler/targets/rows.h"

#include "compiler/targets/x86_64/contraction_shape.h"
#include "compiler/targets/x86_64/microkernel.h"
#include "compiler/targets/x86_64/row_loops.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr int64_t scores_bytes = 256 * 1024;                // of the rows at a time
constexpr int64_t whole_tiles = 12;                         // rows that every level's tiles divide
constexpr int64_t most_workspace_bytes = int64_t{1} << 24;  // keys and values beyond any second-level cache have no use here
constexpr int64_t enough_workgroups = 16;
constexpr int64_t fewest_rows = 48;  // of a workgroup, or packing takes longer than it may

// One operand of a product: where it is in `factors`, and the parallel dimensions that it depends on.
struct Factor {
  unsigned number;  // of what `factors` yields
  llvm::DenseSet<unsigned> dims;
};

Factor factor_of(stage::ContractOp product, unsigned number) {
  Factor factor{number, {}};
  Block& body = product.getFactors().front();
  unsigned rank = product.getDomain().getRank();
  SmallVector<Value> waiting = {body.getTerminator()->getOperand(number)};
  llvm::DenseSet<Value> seen;
  auto depend = [&](unsigned read, auto& self) -> void {
    AffineMap map = stage::access_of(product, read).getMap();
    for (unsigned d = 0; d < rank; ++d) {
      if (map.isFunctionOfDim(d)) factor.dims.insert(d);
    }
    for (unsigned gathered : stage::gathers_of(product, read)) self(gathered, self);
  };
  while (!waiting.empty()) {
    Value value = waiting.pop_back_val();
    if (!seen.insert(value).second) continue;
    if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
      if (argument.getArgNumber() < rank) {
        factor.dims.insert(argument.getArgNumber());
      } else {
        depend(argument.getArgNumber() - rank, depend);
      }
      continue;
    }
    llvm::append_range(waiting, value.getDefiningOp()->getOperands());
  }
  return factor;
}

// A region of two products as this strategy sees it.
struct Attention {
  stage::StagedRegion staged;
  stage::ContractOp first, second;
  RowsKernel rows;
  // Dimensions of rows: which one is of queries (none if there is but one), the others being the batch.
  std::optional<unsigned> query;
  SmallVector<AffineExpr> batch;  // extents of all dimensions of rows, 1 for the queries
  int64_t queries = 1, keys = 1, depth = 1, columns = 1;
  // The dimensions of the two products' domains.
  unsigned first_key = 0;
  std::optional<unsigned> second_column;

  int64_t rows_at_once = 1;          // of scores
  int64_t parts = 1, part_rows = 1;  // workgroups of a batch element, and their rows; the last one's may begin in the one before

  static FailureOr<Attention> read(tx::DispatchOp region);
  AffineExpr workgroups() const;
};

std::optional<int64_t> only(ArrayRef<AffineExpr> extents) {
  return extents.size() == 1 ? tx::static_extent(extents.front()) : std::nullopt;
}

FailureOr<Attention> Attention::read(tx::DispatchOp region) {
  size_t products = 0;
  for (Operation& op : region.getBody().front()) products += llvm::isa<tx::MatmulOp>(op);
  if (products != 2) return failure();
  std::string reason;
  auto refuse = [&](const Twine& why) { return FailureOr<Attention>(region.emitError("x86_64: attention: ") << why); };
  auto staged = stage::form_stages(region, reason);
  if (failed(staged)) return refuse(reason);
  Attention result;
  result.staged = std::move(*staged);
  auto rows = RowsKernel::read_between(region, result.staged);
  if (failed(rows)) return refuse("what is between the products does not go through rows");
  result.rows = std::move(*rows);
  Block& body = result.staged.region.getBody().front();
  result.first = llvm::cast<stage::ContractOp>(body.front());
  result.second = llvm::cast<stage::ContractOp>(body.getTerminator()->getPrevNode());
  for (stage::ContractOp product : {result.first, result.second}) {
    if (!product.getAccumulator().isF32()) return refuse("sums are not of f32");
  }
  auto depth = only(result.first.getDomain().folded()), keys = only(result.second.getDomain().folded());
  if (!depth || !keys || *depth == 0 || *keys == 0) return refuse("the length of what is summed up is not known");
  result.depth = *depth;
  result.keys = *keys;

  unsigned row_dims = static_cast<unsigned>(result.rows.rows().size());
  ArrayRef<unsigned> of_first = result.rows.dimensions_of(result.first);
  auto key = llvm::find(of_first, row_dims);
  if (key == of_first.end()) return refuse("there is but one key");
  result.first_key = static_cast<unsigned>(key - of_first.begin());
  if (tx::static_extent(result.first.getDomain().parallel()[result.first_key]) != result.keys)
    return refuse("keys and values differ in number");
  // Which factor is of keys; the other one is of queries, and must not depend on keys.
  Factor a = factor_of(result.first, 0), b = factor_of(result.first, 1);
  if (a.dims.contains(result.first_key) || !b.dims.contains(result.first_key)) return refuse("keys are not the second operand");

  // The second product's first factor is what was made of a row, where the row is.
  Block& factors = result.second.getFactors().front();
  unsigned rank = result.second.getDomain().getRank();
  auto made = llvm::dyn_cast<BlockArgument>(factors.getTerminator()->getOperand(0));
  if (!made || made.getArgNumber() < rank) return refuse("the first operand of the second product is computed");
  unsigned read = made.getArgNumber() - rank;
  Operation* last = result.second->getOperand(read).getDefiningOp();
  if (!last) return refuse("the first operand of the second product is not made of the first one");
  auto is_made = [](Value operand) { return operand.getDefiningOp() != nullptr; };
  if (!made.hasOneUse() || llvm::count_if(result.second->getOperands(), is_made) != 1) return refuse("rows are read twice");
  SmallVector<std::optional<unsigned>> second_of_row(row_dims + 1);
  ArrayRef<unsigned> of_last = result.rows.dimensions_of(last);
  for (auto [j, index] : llvm::enumerate(stage::access_of(result.second, read).getMap().getResults())) {
    auto dim = llvm::dyn_cast<AffineDimExpr>(index);
    if (of_last[j] > row_dims || tx::static_extent(stage::domain_of(last).parallel()[j]) == 1) continue;
    if (!dim) return refuse("rows are read elsewhere");
    second_of_row[of_last[j]] = dim.getPosition();
  }
  unsigned second_key = rank - 1;
  if (second_of_row[row_dims] != second_key && result.keys != 1) return refuse("the second product does not sum up a row");
  stage::DomainAttr domain = result.second.getDomain();
  for (unsigned d = 0; d < domain.getParallelRank(); ++d) {
    if (llvm::is_contained(second_of_row, std::optional(d)) || tx::static_extent(domain.parallel()[d]) == 1) continue;
    if (result.second_column) return refuse("values have several columns");
    result.second_column = d;
  }
  if (result.second_column) {
    auto columns = tx::static_extent(domain.parallel()[*result.second_column]);
    if (!columns || *columns == 0) return refuse("the number of columns is not known");
    result.columns = *columns;
  }

  // Queries: the last dimension of rows that neither keys nor values depend on.
  Factor values = factor_of(result.second, 1);
  for (unsigned dim = row_dims; dim-- > 0;) {
    if (tx::static_extent(result.rows.rows()[dim]) == 1) continue;
    auto in_first = llvm::find(of_first, dim);
    bool keys_depend = in_first != of_first.end() && b.dims.contains(static_cast<unsigned>(in_first - of_first.begin()));
    bool values_depend = second_of_row[dim] && values.dims.contains(*second_of_row[dim]);
    if (keys_depend || values_depend) continue;
    result.query = dim;
    break;
  }
  result.batch.assign(result.rows.rows().begin(), result.rows.rows().end());
  if (result.query) {
    auto queries = tx::static_extent(result.batch[*result.query]);
    if (!queries || *queries == 0) return refuse("the number of queries is not known");
    result.queries = *queries;
    result.batch[*result.query] = getAffineConstantExpr(1, region.getContext());
  }

  int64_t batch = 1;
  for (AffineExpr extent : result.batch) batch *= std::max<int64_t>(1, tx::static_extent(extent).value_or(1));
  int64_t wanted = llvm::divideCeilSigned(enough_workgroups, batch), most = std::max<int64_t>(1, result.queries / fewest_rows);
  result.parts = std::min(wanted, most);
  result.part_rows = llvm::divideCeilSigned(result.queries, result.parts);
  int64_t row_bytes = 4 * llvm::divideCeilSigned(result.keys, Panels::unit) * Panels::unit;
  result.rows_at_once = std::max<int64_t>(1, scores_bytes / row_bytes);
  if (result.rows_at_once > whole_tiles) result.rows_at_once = result.rows_at_once / whole_tiles * whole_tiles;
  result.rows_at_once = std::min(result.rows_at_once, result.part_rows);
  return result;
}

AffineExpr Attention::workgroups() const {
  AffineExpr count = getAffineConstantExpr(parts, batch.front().getContext());
  for (AffineExpr extent : batch) count = count * extent;
  return count;
}

// Where everything lies in the workspace, in elements of f32.
struct Layout {
  Panels keys, values;
  int64_t query_lda, scores_ldc, sums_ldc;
  int64_t key_panels, value_panels, queries, scores, sums, all;

  Layout(const Attention& attention, const Level& level) {
    keys = Panels::own(attention.keys, level);
    values = Panels::own(attention.columns, level);
    query_lda = llvm::alignTo(attention.depth, Panels::unit);
    scores_ldc = keys.padded_columns();
    sums_ldc = values.padded_columns();
    key_panels = 0;
    value_panels = key_panels + attention.depth * keys.padded_columns();
    queries = value_panels + attention.keys * values.padded_columns();
    scores = queries + attention.rows_at_once * query_lda;
    sums = scores + attention.rows_at_once * scores_ldc;
    all = sums + attention.rows_at_once * sums_ldc;
  }
  int64_t bytes() const { return 4 * all; }
};

class AttentionWriter {
 public:
  AttentionWriter(KernelBuilder& kernel, Attention& attention)
      : k_(kernel), x_(attention), layout_(attention, kernel.level), lanes_(kernel.level.f32_lanes()) {}

  const Layout& layout() const { return layout_; }

  void write() {
    k_.loop(k_.first(), k_.last(), k_.index(1), ValueRange{k_.index(-1)},
            [&](Value workgroup, ValueRange carried) -> KernelBuilder::Values {
              Value batch = k_.div(workgroup, k_.index(x_.parts)), part = k_.rem(workgroup, k_.index(x_.parts));
              batch_ = row_index(k_, x_.batch, batch);
              // Keys and values of the workgroup before are still there.
              Value is_new = k_.make<arith::CmpIOp>(arith::CmpIPredicate::ne, batch, carried[0]);
              k_.branch(is_new, [&] {
                pack_keys();
                pack_values();
              });
              Value from = k_.min(k_.mul(part, x_.part_rows), k_.index(x_.queries - x_.part_rows));
              // The last rows of a part may be some that were done before.
              int64_t blocks = llvm::divideCeilSigned(x_.part_rows, x_.rows_at_once);
              k_.loop(k_.index(0), k_.index(blocks), [&](Value block) {
                rows_of(k_.add(from, k_.min(k_.mul(block, x_.rows_at_once), k_.index(x_.part_rows - x_.rows_at_once))));
              });
              return {batch};
            });
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }
  Value at(int64_t offset) { return k_.pointer(k_.workspace(), k_.index(offset), f32()); }

  // What a product's `factors` yield at an index: lanes along one of its dimensions.
  Element factor(stage::ContractOp product, unsigned number, ArrayRef<Value> index, std::optional<unsigned> lane, int64_t lanes,
                 Value mask) {
    BodyEmitter body(k_, product, [&](unsigned, const BodyPlace&) { return Element{k_.constant(f32(), 0), false}; });
    BodyPlace place;
    place.index.assign(index.begin(), index.end());
    if (lane) {
      place.lanes = lanes;
      place.lane_dimension = *lane;
      place.mask = mask;
    }
    SmallVector<Element> both = body.run(product.getFactors().front(), 0, static_cast<unsigned>(product.getStepReads()), {}, place);
    return body.to_lanes(both[number], lanes);
  }

  // The index of the first product's domain for a row, a key and what is summed up.
  SmallVector<Value> first_index(Value query, Value key, Value depth) {
    SmallVector<Value> index;
    unsigned rows = static_cast<unsigned>(x_.rows.rows().size());
    for (unsigned dim : x_.rows.dimensions_of(x_.first)) {
      bool is_row = dim < rows;
      index.push_back(dim == rows ? key : !is_row ? k_.index(0) : x_.query == dim ? query : batch_[dim]);
    }
    index.push_back(depth);
    return index;
  }

  // The same of the second product's, whose sums are over keys; without them for its results.
  SmallVector<Value> second_index(Value query, Value column, Value key) {
    stage::DomainAttr domain = x_.second.getDomain();
    SmallVector<Value> index(domain.getParallelRank(), k_.index(0));
    if (x_.second_column) index[*x_.second_column] = column;
    Operation* last = nullptr;
    unsigned read = 0;
    for (unsigned i = 0; i < x_.second->getNumOperands(); ++i) {
      if (Operation* made = x_.second->getOperand(i).getDefiningOp()) {
        last = made;
        read = i;
      }
    }
    unsigned rows = static_cast<unsigned>(x_.rows.rows().size());
    for (auto [expression, dim] : llvm::zip(stage::access_of(x_.second, read).getMap().getResults(), x_.rows.dimensions_of(last))) {
      auto own = llvm::dyn_cast<AffineDimExpr>(expression);
      if (own && dim < rows && own.getPosition() < index.size()) index[own.getPosition()] = x_.query == dim ? query : batch_[dim];
    }
    if (key) index.push_back(key);
    return index;
  }

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

  // Vectors over [0, count); the last one may have a mask.
  void for_vectors(int64_t count, const std::function<void(Value, Value)>& visit) {
    int64_t whole = count / lanes_ * lanes_;
    if (whole > 0) k_.loop(k_.index(0), k_.index(whole), k_.index(lanes_), [&](Value i) { visit(i, {}); });
    if (whole < count) visit(k_.index(whole), k_.tail_mask(k_.index(count - whole), lanes_));
  }

  // Row d of a panel has the elements d of its keys. What is in columns behind the last key is of no use.
  void pack_keys() {
    unsigned depth_dim = x_.first.getDomain().getParallelRank();
    int64_t most_lanes = 2;
    bool along_depth = true;
    for (unsigned i = 0; i < x_.first->getNumOperands() && i < x_.first.getStepReads(); ++i) {
      auto step = memory_step(x_.first, i, x_.first_key, most_lanes);
      if (step && tx::static_extent(*step) == 1) along_depth = false;
    }
    for_panels(layout_.keys, [&](Value unit, int64_t units) {
      Value panel = k_.pointer(at(layout_.key_panels), k_.mul(unit, Panels::unit * x_.depth), f32());
      int64_t width = units * Panels::unit;
      Value first_key = k_.mul(unit, Panels::unit);
      if (!along_depth) {
        k_.loop(k_.index(0), k_.index(x_.depth), [&](Value d) {
          for (int64_t j = 0; j < width; j += lanes_) {
            Value key = k_.add(first_key, j), mask = k_.tail_mask(k_.sub(k_.index(x_.keys), key), lanes_);
            key = k_.min(key, k_.index(x_.keys - 1));  // of no key there are no lanes
            Value keys = factor(x_.first, 1, first_index(k_.index(0), key, d), x_.first_key, lanes_, mask).value;
            k_.store(keys, panel, k_.add(k_.mul(d, width), j));
          }
        });
        return;
      }
      k_.loop(k_.index(0), k_.index(width), [&](Value j) {
        Value key = k_.min(k_.add(first_key, j), k_.index(x_.keys - 1));
        for_vectors(x_.depth, [&](Value d, Value mask) {
          Value elements = factor(x_.first, 1, first_index(k_.index(0), key, d), depth_dim, lanes_, mask).value;
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
      Value panel = k_.pointer(at(layout_.value_panels), k_.mul(unit, Panels::unit * x_.keys), f32());
      int64_t width = units * Panels::unit;
      k_.loop(k_.index(0), k_.index(x_.keys), [&](Value key) {
        for (int64_t j = 0; j < width; j += lanes_) {
          Value column = k_.add(k_.mul(unit, Panels::unit), j);
          Value mask = x_.columns % Panels::unit == 0 ? Value() : k_.tail_mask(k_.sub(k_.index(x_.columns), column), lanes_);
          column = k_.min(column, k_.index(x_.columns - 1));
          Value values = factor(x_.second, 1, second_index(k_.index(0), column, key), x_.second_column, lanes_, mask).value;
          k_.store(values, panel, k_.add(k_.mul(key, width), j));
        }
      });
    });
  }

  // C[rows_at_once, columns] = A * packed panels of B.
  void multiply(int64_t a, int64_t lda, int64_t depth, const Panels& panels, int64_t b, int64_t c, int64_t ldc) {
    for_panels(panels, [&](Value unit, int64_t units) {
      MicrokernelForm form;
      form.vectors = units * Panels::unit / lanes_;
      form.columns = units * Panels::unit;
      form.packed = true;
      form.gathered = false;
      int64_t most_rows = tile_rows(k_.level, form.vectors), tiles = llvm::divideCeilSigned(x_.rows_at_once, most_rows);
      form.rows = llvm::divideCeilSigned(x_.rows_at_once, tiles);
      MicrokernelArguments call;
      call.lda = k_.index(lda);
      call.batches = k_.index(1);
      call.depth = k_.index(depth);
      call.b = k_.pointer(at(b), k_.mul(unit, Panels::unit * depth), f32());
      call.ldb = k_.index(0);
      call.ldc = k_.index(ldc);
      call.accumulate = k_.make<arith::ConstantIntOp>(0, 1);
      call.ahead = k_.index(0);
      call.next = call.b;
      call.next_step = k_.index(0);
      k_.loop(k_.index(0), k_.index(tiles), [&](Value tile) {
        Value row = k_.min(k_.mul(tile, form.rows), k_.index(x_.rows_at_once - form.rows));
        call.a = k_.pointer(at(a), k_.mul(row, lda), f32());
        call.c = k_.pointer(at(c), k_.add(k_.mul(row, ldc), k_.mul(unit, Panels::unit)), f32());
        call_microkernel(k_, form, call);
      });
    });
  }

  // `rows_at_once` rows of results, from this one on.
  void rows_of(Value from) {
    unsigned depth_dim = x_.first.getDomain().getParallelRank();
    auto for_rows = [&](const std::function<void(Value row, Value query)>& visit) {
      k_.loop(k_.index(0), k_.index(x_.rows_at_once), [&](Value row) { visit(row, k_.add(from, row)); });
    };
    for_rows([&](Value row, Value query) {
      for_vectors(x_.depth, [&](Value d, Value mask) {
        Value elements = factor(x_.first, 0, first_index(query, k_.index(0), d), depth_dim, lanes_, mask).value;
        k_.store(elements, at(layout_.queries), k_.add(k_.mul(row, layout_.query_lda), d), mask);
      });
    });
    multiply(layout_.queries, layout_.query_lda, x_.depth, layout_.keys, layout_.key_panels, layout_.scores, layout_.scores_ldc);
    for_rows([&](Value row, Value query) {
      RowPoint point;
      point.index = batch_;
      if (x_.query) point.index[*x_.query] = query;
      RowTeam team;
      team.lanes = lanes_;
      team.masks = true;
      team.at_once = 2;
      team.between = k_.pointer(at(layout_.scores), k_.mul(row, layout_.scores_ldc), f32());
      x_.rows.emit(k_, point, team);
    });
    multiply(layout_.scores, layout_.scores_ldc, x_.keys, layout_.values, layout_.value_panels, layout_.sums, layout_.sums_ldc);
    for_rows([&](Value row, Value query) { store_row(row, query); });
  }

  // What is computed of the sums, where it belongs.
  void store_row(Value row, Value query) {
    auto store = [&](Value column, Value mask) {
      BodyPlace place;
      place.index = second_index(query, column, {});
      if (x_.second_column) {
        place.lanes = lanes_;
        place.lane_dimension = *x_.second_column;
        place.mask = mask;
      }
      Value from = k_.add(k_.mul(row, layout_.sums_ldc), column);
      Element sum{k_.load(at(layout_.sums), from, f32(), place.lanes, mask), place.lanes > 0};
      BodyEmitter body(k_, x_.second, [](unsigned, const BodyPlace&) -> Element { llvm_unreachable("no other stage is read"); });
      unsigned first = stage::first_read_of_last_body(x_.second), count = x_.second->getNumOperands() - first;
      AffineExpr linear = getAffineConstantExpr(0, x_.second->getContext());
      for (auto [d, extent] : llvm::enumerate(x_.second.getDomain().parallel()))
        linear = linear * extent + getAffineDimExpr(d, x_.second->getContext());
      Value to = body.evaluate(linear, place.index);
      for (auto [i, element] : llvm::enumerate(body.run(stage::last_body(x_.second), first, count, sum, place)))
        k_.store(body.to_lanes(element, place.lanes).value, k_.result(i), to, mask);
    };
    if (x_.second_column) {
      for_vectors(x_.columns, store);
    } else {
      store(k_.index(0), {});
    }
  }

  KernelBuilder& k_;
  Attention& x_;
  Layout layout_;
  int64_t lanes_;
  SmallVector<Value> batch_;  // index of each dimension of rows; 0 for the queries
};

}  // namespace

FailureOr<KernelPlan> plan_attention(tx::DispatchOp region) {
  auto attention = Attention::read(region);
  if (failed(attention)) return failure();
  for (const Level* level : {&level_v3, &level_v4}) {
    if (Layout(*attention, *level).bytes() > most_workspace_bytes) {
      return FailureOr<KernelPlan>(region.emitError("x86_64: attention: ") << attention->keys << " keys are too many for the workspace");
    }
  }
  // Neighboring columns of a result are stored together.
  if (attention->second_column) {
    AffineExpr step = getAffineConstantExpr(1, region.getContext());
    for (AffineExpr extent : attention->second.getDomain().parallel().drop_front(*attention->second_column + 1)) step = step * extent;
    if (tx::static_extent(step) != 1)
      return FailureOr<KernelPlan>(region.emitError("x86_64: attention: columns are not neighbors in the result"));
  }
  double flops = 2.0 * static_cast<double>(attention->part_rows * attention->keys * (attention->depth + attention->columns));
  return KernelPlan{attention->workgroups(), static_cast<uint64_t>(flops / 60.0) + 1};
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
