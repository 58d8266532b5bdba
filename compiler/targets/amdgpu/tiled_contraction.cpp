// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tiled_contraction.h. Both sides of a tile are copied to local memory (tile_operand), one step of the depth while the one before is multiplied
// (tile_product). Then the sums go through local memory, and the end of the stage is applied to them right before they are stored.
#include "compiler/targets/amdgpu/tiled_contraction.h"

#include "compiler/targets/amdgpu/tile_operand.h"
#include "compiler/targets/amdgpu/tile_product.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets::amdgpu {

namespace {

constexpr int64_t most_lanes = 8;     // results that a thread stores at a time
constexpr int64_t most_unrolled = 2;  // steps
constexpr size_t most_plans = 4;      // tiles that are offered for a choice

// One workgroup's work.
class TileKernel {
 public:
  TileKernel(LlvmKernelBuilder& kernel, tx::DispatchOp region, const Contraction& shape, const Tile& tile, const Chip& chip)
      : k_(kernel), region_(region), shape_(shape), tile_(tile), chip_(chip), memory_(kernel, tile.shared_bytes(shape)) {
    MLIRContext* context = shape.context();
    rows_ = k_.extent(shape.rows.count(context));
    columns_ = k_.extent(shape.columns.count(context));
    Value row_tiles = k_.extent(shape.rows.count(context).ceilDiv(tile.rows)),
          column_tiles = k_.extent(shape.columns.count(context).ceilDiv(tile.columns));
    Value block = k_.block(), rest = k_.div(block, column_tiles);
    first_column_ = k_.mul(k_.rem(block, column_tiles), tile.columns);
    first_row_ = k_.mul(k_.rem(rest, row_tiles), tile.rows);
    element_ = delinearize(k_, k_.div(rest, row_tiles), shape.batch.extents(context));
    product_ = TileProduct::make(k_, memory_, tile_.product(shape_), chip);
  }

  void emit() {
    const bool shifts = TileProduct::shifts_unsigned(chip_);
    const TileOperand lhs(k_, memory_, shape_, tile_, Contraction::lhs, first_row_, element_, shifts),
        rhs(k_, memory_, shape_, tile_, Contraction::rhs, first_column_, element_, shifts);
    Value first = k_.index(0), other = memory_.word(tile_.stage_bytes());
    // A sum over nothing has one step, in which nothing is read.
    const AffineExpr steps = shape_.depth.count(shape_.context()).ceilDiv(Tile::depth(shape_));
    Value last = k_.max(k_.sub(k_.extent(steps), k_.index(1)), k_.index(0));
    if (tx::static_extent(steps).value_or(most_unrolled + 1) > most_unrolled) last = hidden(k_, last);
    lhs.store(lhs.load(first), memory_.word(0));
    rhs.store(rhs.load(first), memory_.word(0));
    k_.barrier();
    KernelBuilder::Values carried = product_->zeros();
    carried.push_back(memory_.word(0));
    carried = k_.loop(first, last, k_.index(1), carried, [&](Value step, ValueRange values) {
      Value stage = values.back(), filled = memory_.sub(other, stage), next = k_.add(step, 1);
      TileOperand::Loaded left = lhs.load(next), right = rhs.load(next);
      KernelBuilder::Values sums = product_->add_products(stage, columns_of(stage), values.drop_back());
      lhs.store(left, filled);
      rhs.store(right, filled);
      k_.barrier();
      sums.push_back(filled);
      return sums;
    });
    Value stage = carried.pop_back_val();
    const KernelBuilder::Values sums =
        product_->finished(product_->add_products(stage, columns_of(stage), carried), k_.mul(k_.add(last, 1), Tile::depth(shape_)));
    for (int64_t band = 0; band < tile_.bands(shape_); ++band) {
      k_.barrier();
      product_->store_band(sums, band, memory_.word(0));
      k_.barrier();
      store_results(band);
    }
  }

 private:
  // The columns of a stage, after its rows.
  Value columns_of(Value stage) const { return memory_.add(stage, memory_.word(tile_.rows * Tile::row_bytes)); }

  // Threads store neighbors in memory, in as many turns as it takes.
  void store_results(int64_t band) {
    const Walk* inner = shape_.innermost();
    const bool along_rows = inner == &shape_.rows;
    int64_t lanes = inner ? most_lanes : 1;
    for (Value output : region_.getOutputs()) {
      const int64_t bytes = std::max<int64_t>(1, tx::element_of(output).getIntOrFloatBitWidth() / 8);
      lanes = std::min(lanes, tile_access_bytes / bytes);
    }
    while (lanes > 1 && !inner->dimensions.back().extent.isMultipleOf(lanes)) lanes /= 2;
    if (k_.pitch()) {
      while (lanes > 1 && *k_.pitch() % lanes != 0) lanes /= 2;
    }
    const int64_t band_rows = tile_.band_rows(shape_), across = (along_rows ? band_rows : tile_.columns) / lanes;
    const int64_t turns = band_rows * tile_.columns / lanes / tile_threads;
    k_.loop(k_.index(0), k_.index(turns), [&](Value turn) {
      Value number = k_.add(k_.mul(turn, tile_threads), k_.thread());
      Value in_line = k_.mul(k_.rem(number, k_.index(across)), lanes), line = k_.div(number, k_.index(across));
      Value band_row = along_rows ? in_line : line, column_in_tile = along_rows ? line : in_line;
      Value row = k_.add(first_row_, product_->row_of(band_row, band)), column = k_.add(first_column_, column_in_tile);
      Value exists;
      auto only_before = [&](Value index, Value end, const Walk& walk, int64_t extent) {
        const auto known = tx::static_extent(walk.count(shape_.context()));
        if (known && *known % extent == 0) return;
        Value own = k_.less(index, end);
        exists = exists ? k_.make<arith::AndIOp>(exists, own) : own;
      };
      only_before(row, rows_, shape_.rows, tile_.rows);
      only_before(column, columns_, shape_.columns, tile_.columns);
      auto store_some = [&] { store(row, column, load_sums(band_row, column_in_tile, lanes, along_rows), lanes, inner); };
      if (exists) {
        k_.branch(exists, store_some);
      } else {
        store_some();
      }
    });
  }

  // Neighboring sums from the exchange memory, in the type in which the stage sums up.
  Value load_sums(Value row, Value column, int64_t lanes, bool along_rows) const {
    const int64_t row_bytes = tile_.exchange_row_bytes(shape_), bytes = shape_.sum_bytes();
    Value address = memory_.narrow(k_.add(k_.mul(row, row_bytes), k_.mul(column, bytes)));
    Value sums;
    if (lanes == 1) {
      sums = memory_.load(shape_.sum, address, 0, static_cast<unsigned>(bytes));
    } else if (!along_rows) {
      sums = memory_.load(k_.vector_type(shape_.sum, lanes), address, 0, static_cast<unsigned>(std::min(tile_access_bytes, lanes * bytes)));
    } else {
      sums = k_.constant(k_.vector_type(shape_.sum, lanes), 0);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        Value one = memory_.load(shape_.sum, address, lane * row_bytes, static_cast<unsigned>(bytes));
        sums = k_.builder.create<vector::InsertOp>(k_.location, one, sums, ArrayRef<int64_t>{lane});
      }
    }
    Type type = shape_.stage().getAccumulator();
    if (type == shape_.sum) return sums;
    return k_.make<arith::TruncIOp>(lanes > 1 ? Type(k_.vector_type(type, lanes)) : type, sums);
  }

  // Computes the results from the sums, and stores them.
  void store(Value row, Value column, Value sums, int64_t lanes, const Walk* inner) {
    stage::ContractOp contract = shape_.stage();
    BodyPlace place;
    place.index = shape_.parallel_index(k_, element_, row, column);
    if (lanes > 1) {
      place.lanes = lanes;
      place.lane_dimension = inner->dimensions.back().at;
    }
    BodyEmitter body(k_, contract, {});
    Value at = shape_.place_of(k_, place.index);
    const unsigned first = stage::first_read_of_last_body(contract), count = contract->getNumOperands() - first;
    for (auto [i, result] : llvm::enumerate(body.run(stage::last_body(contract), first, count, Element{sums, lanes > 1}, place)))
      k_.store(body.to_lanes(result, place.lanes).value, k_.result(static_cast<unsigned>(i)), at);
  }

  LlvmKernelBuilder& k_;
  tx::DispatchOp region_;
  const Contraction& shape_;
  const Tile& tile_;
  const Chip& chip_;
  LocalMemory memory_;
  Value rows_, columns_, first_row_, first_column_;  // i64
  SmallVector<Value> element_;                       // of the batch
  std::unique_ptr<TileProduct> product_;
};

class TiledContractions final : public Strategy {
 public:
  TiledContractions(ThreadMachine machine, const Chip& chip) : machine_(std::move(machine)), chip_(chip) {}

  StringRef name() const override { return "tiles"; }
  bool reads_stages() const override { return true; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto shape = Contraction::read(region);
    if (failed(shape)) return failure();
    Plans plans;
    const std::vector<Tile> tiles = Tile::ranked(*shape);
    for (size_t i = 0; i < std::min(tiles.size(), most_plans); ++i) {
      KernelPlan plan{tiles[i].workgroups(*shape)};
      plan.choice = {tiles[i].name(), {static_cast<int64_t>(i)}};
      plan.works_in_place = true;
      plan.stores_rows_apart = shape->stores_rows();
      plan.sums_nothing = true;
      plans.push_back(std::move(plan));
    }
    return plans;
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto shape = Contraction::read(region);
    if (failed(shape)) return failure();
    const Tile tile = Tile::ranked(*shape).at(static_cast<size_t>(plan.choice.numbers.front()));
    auto kernel = machine_.open(region, plan, symbol, kernels, tile_threads);
    TileKernel(static_cast<LlvmKernelBuilder&>(*kernel), region, *shape, tile, chip_).emit();
    kernel->finish();
    KernelResources resources = machine_.resources(*kernel);
    resources.rung = tile.name();
    if (TileProduct::has_matrices(shape->element, shape->sum, chip_)) resources.rung += is_mfma(chip_.matrix_unit) ? ", MFMA" : ", WMMA";
    return resources;
  }

 private:
  ThreadMachine machine_;
  const Chip& chip_;
};

}  // namespace

std::unique_ptr<Strategy> tiled_contractions(ThreadMachine machine, const Chip& chip) {
  return std::make_unique<TiledContractions>(std::move(machine), chip);
}

}  // namespace heddle::targets::amdgpu
