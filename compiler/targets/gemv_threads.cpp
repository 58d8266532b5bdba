// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See gemv_threads.h.
#include "compiler/targets/gemv_threads.h"

#include "compiler/targets/sibling_regions.h"
#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/subgroups.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// A contraction: result[row, column] = sum over the depth of products of values computed from the matrix and from the row. Or two, of which the
// second one's result is computed from sums of both, as in a gated layer.
class Gemv {
 public:
  // Fails with a reason, or without one if it is not a contraction.
  static FailureOr<Gemv> read(tx::DispatchOp region, const ThreadMachine& machine, int64_t most_in_cluster) {
    std::string reason;
    auto staged = stage::form_stages(region, reason);
    if (failed(staged)) return failure();
    Gemv gemv(machine, most_in_cluster);
    gemv.staged_ = std::move(*staged);
    Block& stages = gemv.staged_.region.getBody().front();
    if (!llvm::isa<stage::ContractOp>(stages.front())) return failure();
    auto refuse = [&](const Twine& why) { return FailureOr<Gemv>(region.emitError() << why); };
    for (Operation& op : stages.without_terminator()) {
      gemv.contract_ = llvm::dyn_cast<stage::ContractOp>(op);
      if (!gemv.contract_ || gemv.all_.size() == most_sums) return refuse("other stages read its sums");
      gemv.all_.push_back({gemv.contract_, 0});
    }
    if (!gemv.is_gated()) return refuse("other stages read its sums");
    stage::DomainAttr domain = stage::domain_of(gemv.contract_);
    if (domain.getParallelRank() < 1 || domain.folded().size() != 1) return refuse("its sums are not along one dimension");
    for (AffineExpr extent : domain.parallel().drop_back()) {
      gemv.rows_ *= tx::static_extent(extent).value_or(most_rows + 1);
      if (gemv.rows_ < 1 || gemv.rows_ > most_rows) return refuse("its number of rows is not static, or not from 1 to " + Twine(most_rows));
    }
    gemv.columns_ = tx::static_extent(domain.parallel().back()).value_or(0);
    gemv.depth_ = tx::static_extent(domain.folded().front()).value_or(0);
    if (gemv.columns_ < fewest_columns || gemv.depth_ < shortest_sum) {
      return refuse("it does not have at least " + Twine(fewest_columns) + " columns and sums of at least " + Twine(shortest_sum) +
                    " elements");
    }
    if (!llvm::all_of(gemv.all_, [&](Sum& one) { return gemv.find_matrix(one); }))
      return refuse("it has no matrix that is contiguous along its columns or its depth and read once");
    // With few sums per thread, there are registers for twice as many threads, whose loads are in flight together.
    if (machine.most_in_cluster > 1 && gemv.rows_ <= 2) gemv.threads_ = std::min(2 * machine.threads, machine.most_threads);
    gemv.divide();
    if (!gemv.fit_shared(machine.shared_bytes)) {
      return refuse("its sums take " + Twine(gemv.shared_bytes()) + " bytes of shared memory, and a workgroup has " +
                    Twine(machine.shared_bytes));
    }
    return gemv;
  }

  int64_t threads() const { return threads_; }
  int64_t cluster() const { return cluster_; }
  int64_t workgroups() const { return llvm::divideCeilSigned(columns_, columns_at_once()) * cluster_; }

  // For workgroup `block` of this product.
  void emit(KernelBuilder& kernel, Value block) const {
    if (along_depth_) {
      emit_along_depth(kernel, block);
    } else if (cluster_ == 1 || has_clusters_) {
      emit_along_columns(kernel, own_tile(kernel, block));
    } else {
      // The grid is the same for machines with clusters: here, each of those workgroups has some of the columns and the whole depth.
      Tile tile = own_tile(kernel, block);
      const int64_t shares = std::min(cluster_, std::max<int64_t>(1, neighbors_ / fewest_neighbors));
      tile.neighbors = neighbors_ / shares;
      tile.first = kernel.add(tile.first, kernel.mul(tile.rank, tile.neighbors * width()));
      kernel.branch(kernel.less(std::exchange(tile.rank, {}), kernel.index(shares)), [&] { emit_along_columns(kernel, tile); });
    }
  }

 private:
  using Values = KernelBuilder::Values;

  static constexpr size_t most_sums = 2;   // contractions
  static constexpr int64_t most_rows = 8;  // every thread has sums for each of them
  static constexpr int64_t fewest_columns = 8, shortest_sum = 8;
  static constexpr int64_t enough_workgroups = 120;  // to keep a large device's memory busy
  static constexpr int64_t fewest_neighbors = 2;     // threads that together read one line of the matrix: 32 bytes
  static constexpr int64_t most_loads_bytes = 128;   // per thread, in flight at once
  static constexpr int64_t most_lanes = 8;
  // With clusters, which divide the depth, there are enough workgroups without narrow tiles.
  static constexpr int64_t line_bytes = 128;          // that neighbors together read, at least
  static constexpr int64_t many_workgroups = 1024;    // that end at different times, so that the last ones leave few multiprocessors idle
  static constexpr int64_t several_workgroups = 240;  // two for each multiprocessor of a large device
  static constexpr int64_t fewest_loads = 4;          // of a thread, whose sums are worth adding to those of other workgroups

  Gemv(const ThreadMachine& machine, int64_t most_in_cluster)
      : subgroup_(machine.subgroup_size),
        threads_(machine.threads),
        access_bytes_(machine.access_bytes),
        most_in_cluster_(most_in_cluster),
        has_clusters_(machine.has_clusters),
        stores_apart_(machine.most_in_cluster > 1) {}

  unsigned column_dimension() const { return stage::domain_of(contract_).getParallelRank() - 1; }

  struct Sum {
    mutable stage::ContractOp stage;  // its accessors are not const
    unsigned matrix = 0;              // the number of its read
  };

  // Whether all stages but the last one are alike, and read only by the last one where it computes a result.
  bool is_gated() {
    for (const Sum& one : ArrayRef(all_).drop_back()) {
      if (stage::domain_of(one.stage) != stage::domain_of(contract_) || one.stage.getAccumulator() != accumulator()) return false;
      if (one.stage->getNumResults() != 1) return false;
      for (OpOperand& use : one.stage->getUses()) {
        if (use.getOwner() != contract_ || use.getOperandNumber() < contract_.getStepReads()) return false;
        stage::AccessAttr access = stage::access_of(contract_, use.getOperandNumber());
        if (!access.getGathers().empty() || access.getOutside() || access.getMap().getNumResults() != column_dimension() + 1) return false;
        for (auto [dimension, index] : llvm::enumerate(access.getMap().getResults())) {
          if (index != getAffineDimExpr(static_cast<unsigned>(dimension), contract_->getContext())) return false;
        }
      }
    }
    return true;
  }

  // The one read that has an element for each column and each index of the depth; the other reads accompany it.
  bool find_matrix(Sum& one) {
    stage::ContractOp contract = one.stage;
    const unsigned column = column_dimension(), depth = column + 1;
    const AffineExpr zero = getAffineConstantExpr(0, contract->getContext());
    bool is_found = false;
    for (unsigned i = 0; i < contract.getStepReads(); ++i) {
      if (!llvm::isa<BlockArgument>(contract->getOperand(i)) || !stage::gathers_of(contract, i).empty()) return false;
      int64_t lanes = most_lanes, other_lanes = most_lanes;
      auto along = memory_step(contract, i, column, lanes), down = memory_step(contract, i, depth, other_lanes);
      const int64_t across = along ? tx::static_extent(*along).value_or(-1) : -1, deep = down ? tx::static_extent(*down).value_or(-1) : -1;
      if (across < 0 || deep < 0 || lanes != most_lanes || other_lanes != most_lanes) return false;
      if (across == 0 || deep == 0) {
        if (across > 1 || deep > 1) return false;
        continue;
      }
      for (unsigned d = 0; d < column; ++d) {
        int64_t any = most_lanes;
        if (tx::static_extent(stage::domain_of(contract).parallel()[d]) == 1) continue;
        if (memory_step(contract, i, d, any) != zero) return false;
      }
      if (is_found || (across != 1 && deep != 1)) return false;
      if (contract != all_.front().stage && along_depth_ != (across != 1)) return false;
      is_found = true;
      one.matrix = i;
      along_depth_ = across != 1;
    }
    if (!is_found) return false;
    const int64_t bytes = std::max<int64_t>(1, tx::element_of(contract->getOperand(one.matrix)).getIntOrFloatBitWidth() / 8);
    if (contract != all_.front().stage && bytes != element_bytes_) return false;
    lanes_ = access_bytes_ > 0 ? std::clamp<int64_t>(access_bytes_ / bytes, 1, most_lanes) : 0;
    while (lanes_ > 0 && (along_depth_ ? depth_ : columns_) % lanes_ != 0) lanes_ /= 2;
    loads_ = most_loads_bytes / (width() * bytes * static_cast<int64_t>(all_.size()));
    element_bytes_ = bytes;
    return true;
  }

  // Divides columns, and maybe the depth, among workgroups.
  void divide() {
    neighbors_ = subgroup_;
    while (neighbors_ * rows_ > threads_) neighbors_ /= 2;  // each of them stores one result or a vector of results
    if (most_in_cluster_ > 1 && !along_depth_) {
      const int64_t whole_line = std::max(fewest_neighbors, line_bytes / (width() * element_bytes_));
      while (neighbors_ > whole_line && columns_ < many_workgroups * neighbors_ * width()) neighbors_ /= 2;
      while (cluster_ * 2 <= most_in_cluster_ && workgroups() < several_workgroups &&
             depth_ >= fewest_loads * (threads_ / neighbors_) * cluster_ * 2)
        cluster_ *= 2;
    }
    while (cluster_ == 1 && neighbors_ > fewest_neighbors && columns_ < enough_workgroups * neighbors_ * width()) neighbors_ /= 2;
  }

  // Shared memory of a workgroup, for the sums of its subgroups.
  int64_t shared_bytes() const {
    const int64_t bytes = std::max<int64_t>(1, accumulator().getIntOrFloatBitWidth() / 8);
    return along_depth_ ? 0 : (subgroups() + (cluster_ > 1 ? 1 : 0)) * slots() * columns_at_once() * bytes;
  }
  bool fit_shared(int64_t most_bytes) {
    while (shared_bytes() > most_bytes && neighbors_ > fewest_neighbors) neighbors_ /= 2;
    return shared_bytes() <= most_bytes;
  }

  // The sums of a column: those of all rows of the first contraction, then those of the second one.
  int64_t slots() const { return rows_ * static_cast<int64_t>(all_.size()); }
  int64_t subgroups() const { return threads_ / subgroup_; }
  int64_t width() const { return std::max<int64_t>(1, lanes_); }
  int64_t columns_at_once() const { return along_depth_ ? subgroups() : neighbors_ * width(); }

  // The columns of a workgroup.
  struct Tile {
    int64_t neighbors;
    Value first;  // column
    Value rank;   // in its cluster; null: it has the whole depth
  };
  Tile own_tile(KernelBuilder& k, Value block) const {
    Value rank = cluster_ > 1 ? k.rem(block, k.index(cluster_)) : Value();
    return {neighbors_, k.mul(cluster_ > 1 ? k.div(block, k.index(cluster_)) : block, columns_at_once()), rank};
  }
  Value in_tile(KernelBuilder& k, const Tile& tile) const { return k.mul(k.rem(k.thread(), k.index(tile.neighbors)), width()); }
  // The first column that the thread reads; it stores none beyond the last one.
  Value column_of(KernelBuilder& k, const Tile& tile) const {
    return k.min(k.add(tile.first, in_tile(k, tile)), k.index(columns_ - width()));
  }
  // The threads that share a sum, and the number of this one.
  int64_t parts_of(const Tile& tile) const { return threads_ / tile.neighbors * (tile.rank ? cluster_ : 1); }
  Value part_of(KernelBuilder& k, const Tile& tile) const {
    Value part = k.div(k.thread(), k.index(tile.neighbors));
    return tile.rank ? k.add(k.mul(tile.rank, threads_ / tile.neighbors), part) : part;
  }

  Value zero(KernelBuilder& k) const { return k.constant(lanes_ > 0 ? Type(k.vector_type(accumulator(), lanes_)) : accumulator(), 0); }
  Type accumulator() const { return contract_.getAccumulator(); }

  Value sum(KernelBuilder& k, Value a, Value b) const {
    return llvm::isa<FloatType>(accumulator()) ? k.make<arith::AddFOp>(a, b) : k.make<arith::AddIOp>(a, b);
  }
  // Sums over the lanes of a subgroup whose numbers differ by multiples of `apart`.
  Value sum_across_lanes(KernelBuilder& k, const Subgroups& subgroups, Value one, int64_t apart) const {
    return subgroups.across_lanes({one}, [&](ValueRange a, ValueRange b) { return Values{sum(k, a[0], b[0])}; }, apart)[0];
  }

  BodyPlace place_in_depth(KernelBuilder& k, int64_t row, Value column, Value depth) const {
    BodyPlace place = place_at(k, k.index(row), column);
    place.index.push_back(depth);
    place.lanes = lanes_;
    place.lane_dimension = column_dimension() + (along_depth_ ? 1 : 0);
    return place;
  }

  // Adds the products for one index of the depth, or for lanes of indices, to the sums of all rows.
  void add_products(KernelBuilder& k, const Sum& one, Element matrix, Value column, Value depth, MutableArrayRef<Value> sums) const {
    BodyEmitter body(k, one.stage, {});
    body.known[one.matrix] = matrix;
    for (int64_t row = 0; row < rows_; ++row) {
      const auto reads = static_cast<unsigned>(one.stage.getStepReads());
      SmallVector<Element> factors = body.run(one.stage.getFactors().front(), 0, reads, {}, place_in_depth(k, row, column, depth));
      Value a = body.to_lanes(factors[0], lanes_).value, b = body.to_lanes(factors[1], lanes_).value;
      auto& own = sums[static_cast<size_t>(row)];
      own = llvm::isa<FloatType>(accumulator()) ? k.make<math::FmaOp>(a, b, own) : k.make<arith::AddIOp>(k.make<arith::MulIOp>(a, b), own);
    }
  }

  // The elements of all matrices at `count` places in the depth, `stride` apart.
  SmallVector<Element> loaded(KernelBuilder& k, Value column, Value depth, int64_t count, int64_t stride) const {
    SmallVector<Element> elements;
    for (int64_t i = 0; i < count; ++i) {
      const BodyPlace place = place_in_depth(k, 0, column, k.add(depth, i * stride));
      for (const Sum& one : all_) elements.push_back(BodyEmitter(k, one.stage, {}).read(one.matrix, place));
    }
    return elements;
  }
  void add_loaded(KernelBuilder& k, ArrayRef<Element> elements, Value column, Value depth, int64_t stride, Values& sums) const {
    const auto rows = static_cast<size_t>(rows_);
    for (auto [i, element] : llvm::enumerate(elements)) {
      const size_t which = i % all_.size();
      Value at = k.add(depth, static_cast<int64_t>(i / all_.size()) * stride);
      add_products(k, all_[which], element, column, at, MutableArrayRef(sums).slice(which * rows, rows));
    }
  }

  // The sums of one of `parts` threads, each with every parts-th piece of the depth.
  Values thread_sums(KernelBuilder& k, Value column, Value part, int64_t parts, int64_t piece) const {
    const int64_t stride = parts * piece, loads = std::clamp<int64_t>(depth_ / stride, 1, loads_);
    const int64_t step = stride * loads, whole = depth_ / step * step;
    // All loads of the matrix come first, so that they are in flight together.
    auto add_some = [&](int64_t count) {
      return [&, count](Value depth, ValueRange carried) {
        Values sums(carried.begin(), carried.end());
        add_loaded(k, loaded(k, column, depth, count, stride), column, depth, stride, sums);
        return sums;
      };
    };
    Value first = k.mul(part, piece);
    Values sums(static_cast<size_t>(slots()), zero(k));
    if (whole > 0) sums = k.loop(first, k.index(whole), k.index(step), sums, add_some(loads));
    if (whole < depth_) sums = k.loop(k.add(first, whole), k.index(depth_), k.index(stride), sums, add_some(1));
    return sums;
  }

  BodyPlace place_at(KernelBuilder& k, Value row, Value column) const {
    BodyPlace place;
    ArrayRef<AffineExpr> rows = stage::domain_of(contract_).parallel().drop_back();
    if (!rows.empty()) place.index = delinearize(k, row, rows);
    place.index.push_back(column);
    place.lane_dimension = column_dimension();
    return place;
  }

  // What the last body of a stage computes from its sum, or from lanes of sums.
  SmallVector<Element> finished(KernelBuilder& k, size_t which, ValueRange totals, const BodyPlace& place) const {
    Operation* op = all_[which].stage;
    BodyEmitter body(k, op, [&](unsigned read, const BodyPlace& at) {
      const auto* made = llvm::find_if(all_, [&](const Sum& one) { return one.stage == op->getOperand(read).getDefiningOp(); });
      return finished(k, static_cast<size_t>(made - all_.begin()), totals, at)[0];
    });
    const unsigned first = stage::first_read_of_last_body(op);
    return body.run(stage::last_body(op), first, op->getNumOperands() - first, Element{totals[which], place.lanes > 0}, place);
  }

  // Computes the results from the sums of each contraction, and stores them.
  void finish(KernelBuilder& k, ValueRange totals, Value row, Value column, int64_t lanes) const {
    BodyPlace place = place_at(k, row, column);
    place.lanes = lanes;
    const BodyEmitter body(k, contract_, {});
    Value at = k.add(k.mul(row, columns_), column);
    for (auto [i, result] : llvm::enumerate(finished(k, all_.size() - 1, totals, place)))
      k.store(body.to_lanes(result, lanes).value, k.result(static_cast<unsigned>(i)), at);
  }

  // Neighboring threads have neighboring columns, as many as the tile has; the depth is divided among the other threads, and those of other
  // workgroups of the cluster.
  void emit_along_columns(KernelBuilder& k, const Tile& tile) const {
    const int64_t at_once = tile.neighbors * width();
    Values sums = thread_sums(k, column_of(k, tile), part_of(k, tile), parts_of(tile), 1);
    k.let_next_start();
    const Subgroups subgroups(k, subgroup_);
    Value lane = subgroups.lane(), subgroup = subgroups.own(), in_tile = this->in_tile(k, tile);
    for (Value& own : sums) {
      if (tile.neighbors == subgroup_) break;
      if (lanes_ == 0) own = sum_across_lanes(k, subgroups, own, tile.neighbors);
      Value all = own;
      for (int64_t l = 0; l < lanes_; ++l) {
        Value one = k.builder.create<vector::ExtractOp>(k.location, own, l);
        all = k.builder.create<vector::InsertOp>(k.location, sum_across_lanes(k, subgroups, one, tile.neighbors), all, l);
      }
      own = all;
    }
    Value shared = k.shared(accumulator(), subgroups.count() * slots() * at_once);
    k.branch(k.less(lane, k.index(tile.neighbors)), [&] {
      for (auto [slot, own] : llvm::enumerate(sums)) {
        Value line = k.add(k.mul(subgroup, slots()), static_cast<int64_t>(slot));
        k.store(own, shared, k.add(k.mul(line, at_once), in_tile));
      }
    });
    k.barrier();
    // A thread computes one result or, if there are not enough threads, as many neighbors as it has read.
    const int64_t lanes = stores_apart_ && rows_ * at_once <= threads_ ? 0 : lanes_, across = lanes > 0 ? tile.neighbors : at_once;
    Value row = k.div(k.thread(), k.index(across));
    if (across != tile.neighbors) in_tile = k.rem(k.thread(), k.index(across));
    Value own = k.add(tile.first, in_tile), stores = k.less(row, k.index(rows_));
    auto add = [&](ValueRange a, ValueRange b) { return Values{sum(k, a[0], b[0])}; };
    // The place of a thread's sum of each contraction in a workgroup's memory.
    auto place_of = [&](size_t which) { return k.add(k.mul(k.add(row, static_cast<int64_t>(which) * rows_), at_once), in_tile); };
    auto of_subgroups = [&](size_t which) {
      Value at = place_of(which);
      auto of = [&](int64_t s) { return Values{k.load(shared, k.add(at, s * slots() * at_once), accumulator(), lanes)}; };
      return subgroups.merged(of, add)[0];
    };
    auto for_each = [&](const std::function<Value(size_t)>& of) {
      Values totals;
      for (size_t which = 0; which < all_.size(); ++which) totals.push_back(of(which));
      return totals;
    };
    if (!tile.rank) {
      k.branch(k.make<arith::AndIOp>(stores, k.less(own, k.index(columns_))), [&] { finish(k, for_each(of_subgroups), row, own, lanes); });
      return;
    }
    // The first workgroup of the cluster adds the sums of all of them, in the order of their ranks.
    Value in_cluster = k.shared(accumulator(), slots() * at_once);
    k.branch(stores, [&] {
      for (size_t which = 0; which < all_.size(); ++which) k.store(of_subgroups(which), in_cluster, place_of(which));
    });
    k.cluster_barrier();
    Value is_first = k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, tile.rank, k.index(0));
    stores = k.make<arith::AndIOp>(k.make<arith::AndIOp>(stores, is_first), k.less(own, k.index(columns_)));
    k.branch(stores, [&] {
      auto of_cluster = [&](size_t which) {
        Value total, at = place_of(which);
        for (int64_t rank = 0; rank < cluster_; ++rank) {
          Value one = k.load(k.shared_of(in_cluster, rank), at, accumulator(), lanes);
          total = total ? sum(k, total, one) : one;
        }
        return total;
      };
      finish(k, for_each(of_cluster), row, own, lanes);
    });
    k.cluster_barrier();  // the first one may still read what the others have
  }

  // A subgroup has a column, and its lanes have pieces of the depth.
  void emit_along_depth(KernelBuilder& k, Value block) const {
    const Subgroups subgroups(k, subgroup_);
    Value lane = subgroups.lane(), subgroup = subgroups.own();
    Value own = k.add(k.mul(block, subgroups.count()), subgroup), column = k.min(own, k.index(columns_ - 1));
    Values sums = thread_sums(k, column, lane, subgroup_, width());
    k.let_next_start();
    for (Value& own_sum : sums) {
      Value total = lanes_ == 0 ? own_sum : Value();
      for (int64_t l = 0; l < lanes_; ++l) {
        Value one = k.builder.create<vector::ExtractOp>(k.location, own_sum, l);
        total = total ? sum(k, total, one) : one;
      }
      own_sum = sum_across_lanes(k, subgroups, total, 1);
    }
    for (int64_t row = 0; row < rows_; ++row) {
      Value is_own = k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, k.index(row % subgroup_));
      Values totals;
      for (size_t which = 0; which < all_.size(); ++which)
        totals.push_back(sums[which * static_cast<size_t>(rows_) + static_cast<size_t>(row)]);
      k.branch(k.make<arith::AndIOp>(is_own, k.less(own, k.index(columns_))), [&] { finish(k, totals, k.index(row), own, 0); });
    }
  }

  int64_t subgroup_, threads_, access_bytes_, most_in_cluster_;
  bool has_clusters_, stores_apart_;
  stage::StagedRegion staged_;
  SmallVector<Sum, most_sums> all_;
  mutable stage::ContractOp contract_;  // the last one, whose domain all have
  bool along_depth_ = false;            // neighbors in memory are neighbors along the depth, not columns
  int64_t rows_ = 1, columns_ = 0, depth_ = 0;
  int64_t lanes_ = 0;          // elements of the matrix that a thread reads at once; 0: one, without vectors
  int64_t loads_ = 1;          // number of loads before it waits
  int64_t element_bytes_ = 1;  // of the matrix
  int64_t neighbors_ = 1;      // threads next to each other along columns
  int64_t cluster_ = 1;        // workgroups that share the depth
};

class GemvOnThreads final : public Strategy {
 public:
  explicit GemvOnThreads(ThreadMachine machine) : machine_(std::move(machine)) {}

  StringRef name() const override { return "gemv"; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto products = read(region);
    if (failed(products)) return failure();
    KernelPlan plan{getAffineConstantExpr(products->workgroups(), region.getContext())};
    plan.works_in_place = products->all.size() == 1;
    return Plans{std::move(plan)};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto products = read(region);
    if (failed(products)) return failure();
    auto kernel = machine_.open(region, plan, symbol, kernels, products->all.front().gemv.threads());
    const int64_t cluster = products->all.front().gemv.cluster();
    if (cluster > 1 && machine_.has_clusters) kernel->set_cluster(cluster);
    products->for_each(*kernel, [&](const Gemv& gemv, Value block) { gemv.emit(*kernel, block); });
    kernel->finish();
    return machine_.resources(*kernel);
  }

 private:
  struct Product {
    Gemv gemv;
    SmallVector<unsigned> inputs;  // of the region
  };

  // One product, or several that do not depend on each other: each has workgroups of its own.
  struct Products {
    OwningOpRef<ModuleOp> module;  // of the regions of several
    SmallVector<Product> all;

    int64_t workgroups() const {
      int64_t count = 0;
      for (const Product& one : all) count += one.gemv.workgroups();
      return count;
    }

    // Calls body with each product, where the bindings are those of that product, and with the number of the workgroup among those of the product.
    void for_each(KernelBuilder& k, const std::function<void(const Gemv&, Value)>& body) const {
      if (all.size() == 1) return body(all.front().gemv, k.block());
      int64_t start = 0;
      for (auto [i, product] : llvm::enumerate(all)) {
        Value block = k.sub(k.block(), k.index(start));
        start += product.gemv.workgroups();
        Value is_own = k.less(k.block(), k.index(start));
        if (i > 0) is_own = k.make<arith::AndIOp>(is_own, k.less(k.index(-1), block));
        k.with_bindings(product.inputs, static_cast<unsigned>(i), [&] { k.branch(is_own, [&] { body(product.gemv, block); }); });
      }
    }
  };

  FailureOr<Products> read(tx::DispatchOp region) const {
    Products products;
    if (region.getNumResults() == 1) {
      auto gemv = Gemv::read(region, machine_, machine_.most_in_cluster);
      if (failed(gemv)) return failure();
      products.all.push_back({std::move(*gemv), {}});
      return products;
    }
    auto siblings = sibling_regions(region);
    if (failed(siblings)) return failure();
    // All workgroups of a kernel are in clusters of the same size.
    int64_t cluster = machine_.most_in_cluster;
    for (SiblingRegion& one : siblings->all) {
      auto gemv = Gemv::read(one.region, machine_, cluster);
      if (failed(gemv)) return failure();
      cluster = std::min(cluster, gemv->cluster());
    }
    for (SiblingRegion& one : siblings->all) {
      auto gemv = Gemv::read(one.region, machine_, cluster);
      if (failed(gemv)) return failure();
      products.all.push_back({std::move(*gemv), std::move(one.inputs)});
      if (products.all.back().gemv.threads() != products.all.front().gemv.threads())
        return FailureOr<Products>(region.emitError("its products have different numbers of rows"));
    }
    products.module = std::move(siblings->module);
    return products;
  }

 private:
  ThreadMachine machine_;
};

}  // namespace

std::unique_ptr<Strategy> gemv_on_threads(ThreadMachine machine) {
  return std::make_unique<GemvOnThreads>(std::move(machine));
}

}  // namespace heddle::targets
