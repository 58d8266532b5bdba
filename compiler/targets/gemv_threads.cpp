// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See gemv_threads.h.
#include "compiler/targets/gemv_threads.h"

#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/subgroups.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// One contraction: result[row, column] = sum over the depth of products of values computed from the matrix and from the row.
class Gemv {
 public:
  // Fails with a reason, or without one if it is not a contraction.
  static FailureOr<Gemv> read(tx::DispatchOp region, const ThreadMachine& machine) {
    std::string reason;
    auto staged = stage::form_stages(region, reason);
    if (failed(staged)) return failure();
    Gemv gemv(machine);
    gemv.staged_ = std::move(*staged);
    Block& stages = gemv.staged_.region.getBody().front();
    gemv.contract_ = llvm::dyn_cast<stage::ContractOp>(stages.front());
    if (!gemv.contract_) return failure();
    auto refuse = [&](const Twine& why) { return FailureOr<Gemv>(region.emitError() << why); };
    if (stages.getTerminator()->getPrevNode() != &stages.front()) return refuse("other stages read its sums");
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
    if (!gemv.find_matrix()) return refuse("it has no matrix that is contiguous along its columns or its depth and read once");
    if (!gemv.fit_shared(machine.shared_bytes)) {
      return refuse("its sums take " + Twine(gemv.shared_bytes()) + " bytes of shared memory, and a workgroup has " +
                    Twine(machine.shared_bytes));
    }
    return gemv;
  }

  int64_t workgroups() const { return llvm::divideCeilSigned(columns_, columns_at_once()); }

  void emit(KernelBuilder& kernel) const { along_depth_ ? emit_along_depth(kernel) : emit_along_columns(kernel); }

 private:
  using Values = KernelBuilder::Values;

  static constexpr int64_t most_rows = 8;  // every thread has sums for each of them
  static constexpr int64_t fewest_columns = 8, shortest_sum = 8;
  static constexpr int64_t enough_workgroups = 120;  // to keep a large device's memory busy
  static constexpr int64_t fewest_neighbors = 2;     // threads that together read one line of the matrix: 32 bytes
  static constexpr int64_t most_loads_bytes = 128;   // per thread, in flight at once
  static constexpr int64_t most_lanes = 8;

  explicit Gemv(const ThreadMachine& machine)
      : subgroup_(machine.subgroup_size), threads_(machine.threads), access_bytes_(machine.access_bytes) {}

  unsigned column_dimension() const { return stage::domain_of(contract_).getParallelRank() - 1; }

  // The one read that has an element for each column and each index of the depth; the other reads accompany it.
  bool find_matrix() {
    const unsigned column = column_dimension(), depth = column + 1;
    const AffineExpr zero = getAffineConstantExpr(0, contract_->getContext());
    bool is_found = false;
    for (unsigned i = 0; i < contract_.getStepReads(); ++i) {
      if (!llvm::isa<BlockArgument>(contract_->getOperand(i)) || !stage::gathers_of(contract_, i).empty()) return false;
      int64_t lanes = most_lanes, other_lanes = most_lanes;
      auto along = memory_step(contract_, i, column, lanes), down = memory_step(contract_, i, depth, other_lanes);
      const int64_t across = along ? tx::static_extent(*along).value_or(-1) : -1, deep = down ? tx::static_extent(*down).value_or(-1) : -1;
      if (across < 0 || deep < 0 || lanes != most_lanes || other_lanes != most_lanes) return false;
      if (across == 0 || deep == 0) {
        if (across > 1 || deep > 1) return false;
        continue;
      }
      for (unsigned d = 0; d < column; ++d) {
        int64_t any = most_lanes;
        if (tx::static_extent(stage::domain_of(contract_).parallel()[d]) == 1) continue;
        if (memory_step(contract_, i, d, any) != zero) return false;
      }
      if (is_found || (across != 1 && deep != 1)) return false;
      is_found = true;
      matrix_ = i;
      along_depth_ = across != 1;
    }
    if (!is_found) return false;
    const int64_t bytes = std::max<int64_t>(1, tx::element_of(contract_->getOperand(matrix_)).getIntOrFloatBitWidth() / 8);
    lanes_ = access_bytes_ > 0 ? std::clamp<int64_t>(access_bytes_ / bytes, 1, most_lanes) : 0;
    while (lanes_ > 0 && (along_depth_ ? depth_ : columns_) % lanes_ != 0) lanes_ /= 2;
    loads_ = most_loads_bytes / (width() * bytes);
    neighbors_ = subgroup_;
    while (neighbors_ * rows_ > threads_) neighbors_ /= 2;  // each of them stores one result or a vector of results
    while (neighbors_ > fewest_neighbors && columns_ < enough_workgroups * neighbors_ * width()) neighbors_ /= 2;
    return true;
  }

  // Shared memory of a workgroup, for the sums of its subgroups.
  int64_t shared_bytes() const {
    const int64_t bytes = std::max<int64_t>(1, accumulator().getIntOrFloatBitWidth() / 8);
    return along_depth_ ? 0 : subgroups() * rows_ * columns_at_once() * bytes;
  }
  bool fit_shared(int64_t most_bytes) {
    while (shared_bytes() > most_bytes && neighbors_ > fewest_neighbors) neighbors_ /= 2;
    return shared_bytes() <= most_bytes;
  }

  int64_t subgroups() const { return threads_ / subgroup_; }
  int64_t width() const { return std::max<int64_t>(1, lanes_); }
  int64_t columns_at_once() const { return along_depth_ ? subgroups() : neighbors_ * width(); }

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
  void add_products(KernelBuilder& k, Element matrix, Value column, Value depth, Values& sums) const {
    BodyEmitter body(k, contract_, {});
    body.known[matrix_] = matrix;
    for (int64_t row = 0; row < rows_; ++row) {
      const auto reads = static_cast<unsigned>(contract_.getStepReads());
      SmallVector<Element> factors = body.run(contract_.getFactors().front(), 0, reads, {}, place_in_depth(k, row, column, depth));
      Value a = body.to_lanes(factors[0], lanes_).value, b = body.to_lanes(factors[1], lanes_).value;
      auto& own = sums[static_cast<size_t>(row)];
      own = llvm::isa<FloatType>(accumulator()) ? k.make<math::FmaOp>(a, b, own) : k.make<arith::AddIOp>(k.make<arith::MulIOp>(a, b), own);
    }
  }

  // The sums of one of `parts` threads, each with every parts-th piece of the depth.
  Values thread_sums(KernelBuilder& k, Value column, Value part, int64_t parts, int64_t piece) const {
    const int64_t stride = parts * piece, loads = std::clamp<int64_t>(depth_ / stride, 1, loads_);
    const int64_t whole = depth_ / (stride * loads) * (stride * loads);
    auto add_some = [&](int64_t count) {
      return [&, count](Value depth, ValueRange carried) {
        Values sums(carried.begin(), carried.end());
        // All loads of the matrix come first, so that they are in flight together.
        SmallVector<std::pair<Value, Element>> matrix;
        for (int64_t i = 0; i < count; ++i) {
          Value at = k.add(depth, i * stride);
          matrix.emplace_back(at, BodyEmitter(k, contract_, {}).read(matrix_, place_in_depth(k, 0, column, at)));
        }
        for (auto& [at, elements] : matrix) add_products(k, elements, column, at, sums);
        return sums;
      };
    };
    Value first = k.mul(part, piece);
    Values sums(static_cast<size_t>(rows_), zero(k));
    if (whole > 0) sums = k.loop(first, k.index(whole), k.index(stride * loads), sums, add_some(loads));
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

  // Computes the result from a sum, or from lanes of sums, and stores it.
  void finish(KernelBuilder& k, Value total, Value row, Value column, int64_t lanes) const {
    Operation* op = contract_;
    BodyEmitter body(k, op, {});
    BodyPlace place = place_at(k, row, column);
    place.lanes = lanes;
    const unsigned first = stage::first_read_of_last_body(op);
    SmallVector<Element> results = body.run(stage::last_body(op), first, op->getNumOperands() - first, Element{total, lanes > 0}, place);
    Value at = k.add(k.mul(row, columns_), column);
    for (auto [i, result] : llvm::enumerate(results)) k.store(body.to_lanes(result, lanes).value, k.result(static_cast<unsigned>(i)), at);
  }

  // Neighboring threads have neighboring columns, as many as the workgroup has; the depth is divided among the other threads.
  void emit_along_columns(KernelBuilder& k) const {
    const int64_t at_once = columns_at_once(), parts = threads_ / neighbors_;
    Value neighbor = k.rem(k.thread(), k.index(neighbors_)), part = k.div(k.thread(), k.index(neighbors_));
    Value in_tile = k.mul(neighbor, width()), tile = k.mul(k.block(), at_once);
    Value column = k.min(k.add(tile, in_tile), k.index(columns_ - width()));
    Values sums = thread_sums(k, column, part, parts, 1);
    const Subgroups subgroups(k, subgroup_);
    Value lane = subgroups.lane(), subgroup = subgroups.own();
    for (Value& own : sums) {
      if (neighbors_ == subgroup_) break;
      if (lanes_ == 0) own = sum_across_lanes(k, subgroups, own, neighbors_);
      Value all = own;
      for (int64_t l = 0; l < lanes_; ++l) {
        Value one = k.builder.create<vector::ExtractOp>(k.location, own, l);
        all = k.builder.create<vector::InsertOp>(k.location, sum_across_lanes(k, subgroups, one, neighbors_), all, l);
      }
      own = all;
    }
    Value shared = k.shared(accumulator(), subgroups.count() * rows_ * at_once);
    k.branch(k.less(lane, k.index(neighbors_)), [&] {
      for (auto [row, own] : llvm::enumerate(sums)) {
        Value line = k.add(k.mul(subgroup, rows_), static_cast<int64_t>(row));
        k.store(own, shared, k.add(k.mul(line, at_once), in_tile));
      }
    });
    k.barrier();
    Value row = k.div(k.thread(), k.index(neighbors_)), own = k.add(tile, in_tile);
    k.branch(k.make<arith::AndIOp>(k.less(row, k.index(rows_)), k.less(own, k.index(columns_))), [&] {
      auto of = [&](int64_t s) {
        Value at = k.add(k.mul(k.add(row, s * rows_), at_once), in_tile);
        return Values{k.load(shared, at, accumulator(), lanes_)};
      };
      Values total = subgroups.merged(of, [&](ValueRange a, ValueRange b) { return Values{sum(k, a[0], b[0])}; });
      finish(k, total[0], row, own, lanes_);
    });
  }

  // A subgroup has a column, and its lanes have pieces of the depth.
  void emit_along_depth(KernelBuilder& k) const {
    const Subgroups subgroups(k, subgroup_);
    Value lane = subgroups.lane(), subgroup = subgroups.own();
    Value own = k.add(k.mul(k.block(), subgroups.count()), subgroup), column = k.min(own, k.index(columns_ - 1));
    Values sums = thread_sums(k, column, lane, subgroup_, width());
    for (auto [row, lanes] : llvm::enumerate(sums)) {
      Value total = lanes_ == 0 ? lanes : Value();
      for (int64_t l = 0; l < lanes_; ++l) {
        Value one = k.builder.create<vector::ExtractOp>(k.location, lanes, l);
        total = total ? sum(k, total, one) : one;
      }
      total = sum_across_lanes(k, subgroups, total, 1);
      Value is_own = k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, k.index(static_cast<int64_t>(row) % subgroup_));
      k.branch(k.make<arith::AndIOp>(is_own, k.less(own, k.index(columns_))),
               [&] { finish(k, total, k.index(static_cast<int64_t>(row)), own, 0); });
    }
  }

  int64_t subgroup_, threads_, access_bytes_;
  stage::StagedRegion staged_;
  mutable stage::ContractOp contract_;  // its accessors are not const
  unsigned matrix_ = 0;
  bool along_depth_ = false;  // neighbors in memory are neighbors along the depth, not columns
  int64_t rows_ = 1, columns_ = 0, depth_ = 0;
  int64_t lanes_ = 0;      // elements of the matrix that a thread reads at once; 0: one, without vectors
  int64_t loads_ = 1;      // number of loads before it waits
  int64_t neighbors_ = 1;  // threads next to each other along columns
};

class GemvOnThreads final : public Strategy {
 public:
  explicit GemvOnThreads(ThreadMachine machine) : machine_(std::move(machine)) {}

  StringRef name() const override { return "gemv"; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto gemv = Gemv::read(region, machine_);
    if (failed(gemv)) return failure();
    KernelPlan plan{getAffineConstantExpr(gemv->workgroups(), region.getContext())};
    plan.works_in_place = true;
    return Plans{std::move(plan)};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto gemv = Gemv::read(region, machine_);
    if (failed(gemv)) return failure();
    auto kernel = machine_.open(region, plan, symbol, kernels, machine_.threads);
    gemv->emit(*kernel);
    kernel->finish();
    return machine_.resources(*kernel);
  }

 private:
  ThreadMachine machine_;
};

}  // namespace

std::unique_ptr<Strategy> gemv_on_threads(ThreadMachine machine) {
  return std::make_unique<GemvOnThreads>(std::move(machine));
}

}  // namespace heddle::targets
