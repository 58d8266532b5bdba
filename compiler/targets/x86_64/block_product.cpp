// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul with a right side in blocks along K (`blocks` of tx.matmul), and the element-wise ops on its result. Every sum has one vector of lanes, which go
// along K, so it is the same for any number of rows. With few rows, blocks are decoded in registers; with more, a few columns of a piece of K are decoded
// to memory of the first-level cache, for all rows of the workgroup.
#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/thread_space.h"
#include "compiler/targets/x86_64/block_reader.h"
#include "compiler/targets/x86_64/nibble_product.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr int64_t register_rows = 4;       // for which blocks are decoded in registers
constexpr int64_t band_rows = 64;          // of a workgroup, at most
constexpr int64_t workgroup_columns = 16;  // likewise
constexpr int64_t decoded_columns = 8;     // at a time
constexpr int64_t decoded_depth = 512;     // at a time; whole blocks of every type
constexpr int64_t tile_height = 4;         // rows whose sums are in registers together

class BlockProduct {
 public:
  static FailureOr<BlockProduct> read(tx::DispatchOp region) {
    BlockProduct product;
    for (Operation& op : region.getBody().front()) {
      auto matmul = llvm::dyn_cast<tx::MatmulOp>(op);
      if (matmul && matmul.getBlocks()) product.matmul_ = matmul;
    }
    if (!product.matmul_) return failure();
    return product.fill(region) ? FailureOr<BlockProduct>(std::move(product)) : FailureOr<BlockProduct>(failure());
  }

  KernelPlan plan() const {
    KernelPlan plan{rows_.ceilDiv(band_rows) * llvm::divideCeilSigned(columns_, workgroup_columns)};
    constexpr double decoding_ns = 0.08, product_ns = 0.04;  // per value, in vectors
    const double rows = static_cast<double>(std::min(tx::static_extent(rows_).value_or(1), band_rows));
    const double values = static_cast<double>(std::min(columns_, workgroup_columns)) * static_cast<double>(depth_);
    plan.cost_ns = static_cast<uint64_t>(values * (decoding_ns + product_ns * rows)) + 1;
    plan.works_in_place = true;
    plan.stores_rows_apart = true;
    return plan;
  }

  static KernelResources resources(const Level& level) {
    KernelResources resources;
    resources.workspace_bytes = static_cast<uint64_t>(4 * (decoded_elements + band_rows * decoded_columns * level.f32_lanes()));
    return resources;
  }

  void emit(KernelBuilder& kernel) {
    const int64_t blocks = llvm::divideCeilSigned(columns_, workgroup_columns);
    kernel.for_workgroups([&](Value workgroup) {
      Work work{kernel, kernel.level.f32_lanes()};
      work.first_column = kernel.mul(kernel.rem(workgroup, kernel.index(blocks)), workgroup_columns);
      work.last_column = kernel.min(kernel.add(work.first_column, workgroup_columns), kernel.index(columns_));
      work.first_row = kernel.mul(kernel.div(workgroup, kernel.index(blocks)), band_rows);
      work.rows = kernel.min(kernel.sub(kernel.extent(rows_), work.first_row), kernel.index(band_rows));
      if (auto rows = tx::static_extent(rows_)) return *rows <= register_rows ? multiply_few(work, *rows) : multiply_many(work);
      kernel.branch(kernel.less(work.rows, kernel.index(2)), [&] { multiply_few(work, 1); }, [&] { multiply_many(work); });
    });
  }

 private:
  using Values = KernelBuilder::Values;
  static constexpr int64_t decoded_elements = decoded_columns * decoded_depth;

  // A workgroup.
  struct Work {
    KernelBuilder& k;
    int64_t lanes;
    Value first_column = {}, last_column = {}, first_row = {}, rows = {};
    Type f32() const { return k.builder.getF32Type(); }
    Value zeros() const { return k.constant(k.vector_type(f32(), lanes), 0); }
  };

  bool fill(tx::DispatchOp region) {
    auto refuse = [&](const Twine& why) {
      region.emitError() << why;
      return false;
    };
    for (Operation& op : region.getBody().front()) {
      if (&op == matmul_ || tx::is_elementwise(&op) || llvm::isa<tx::BroadcastOp, tx::ConstantOp, tx::YieldOp>(op)) continue;
      return refuse("with a product of blocks, a region has only element-wise ops");
    }
    auto lhs = llvm::dyn_cast<BlockArgument>(matmul_.getLhs()), rhs = llvm::dyn_cast<BlockArgument>(matmul_.getRhs());
    if (!lhs || !rhs || matmul_.getTransposeLhs()) return refuse("the operands of a product of blocks are computed in the region");
    ValueRange results = region.getBody().front().getTerminator()->getOperands();
    if (results.size() != 1 || tx::extents(tx::tensor(results[0])) != tx::extents(tx::tensor(matmul_.getResult())))
      return refuse("with a product of blocks, a region has one result of its extents");
    std::string reason;
    auto staged = stage::form_stages(region, reason);
    if (failed(staged)) return refuse(reason);
    staged_ = std::move(*staged);
    Block& stages = staged_.region.getBody().front();
    contract_ = llvm::dyn_cast<stage::ContractOp>(stages.front());
    if (!contract_ || stages.getTerminator()->getPrevNode() != &stages.front()) return refuse("other stages read the sums of blocks");
    lhs_ = lhs.getArgNumber();
    rhs_ = rhs.getArgNumber();
    SmallVector<AffineExpr> extents = tx::extents(tx::tensor(matmul_.getLhs()));
    type_ = tx::block_type(*matmul_.getBlocks());
    columns_ = tx::tensor(rhs).getDimSize(0);
    depth_ = *tx::static_extent(extents.back());
    rows_ = product(ArrayRef(extents).drop_back());
    return true;
  }

  int64_t row_bytes() const { return *tx::block_row_bytes(*type_, depth_); }

  // The sum of a vector's lanes, by halves.
  static Value sum_of_lanes(const Work& work, Value vector) {
    for (int64_t half = work.lanes / 2; half >= 1; half /= 2) {
      SmallVector<int64_t> low, high;
      for (int64_t i = 0; i < half; ++i) {
        low.push_back(i);
        high.push_back(half + i);
      }
      auto part = [&](ArrayRef<int64_t> lanes) -> Value {
        return work.k.builder.create<vector::ShuffleOp>(work.k.location, vector, vector, lanes);
      };
      vector = work.k.make<arith::AddFOp>(part(low), part(high));
    }
    return work.k.builder.create<vector::ExtractOp>(work.k.location, vector, int64_t{0});
  }

  // Computes results from sums and stores them: of one column, or of `lanes` columns.
  void finish(const Work& work, Value sums, Value row, Value column, int64_t lanes) {
    KernelBuilder& k = work.k;
    Operation* op = contract_;
    stage::DomainAttr domain = stage::domain_of(op);
    BodyPlace place;
    place.index = delinearize(k, row, domain.parallel().drop_back());
    place.index.push_back(column);
    place.lane_dimension = domain.getParallelRank() - 1;
    place.lanes = lanes;
    BodyEmitter body(k, op, {});
    const unsigned first = stage::first_read_of_last_body(op);
    SmallVector<Element> results = body.run(stage::last_body(op), first, op->getNumOperands() - first, Element{sums, lanes > 0}, place);
    Value at = k.add(k.mul(row, k.pitch().value_or(columns_)), column);
    k.store(body.to_lanes(results[0], lanes).value, k.result(0), at);
  }

  // ---- few rows

  void multiply_few(const Work& work, int64_t rows) {
    KernelBuilder& k = work.k;
    const int64_t width = rows <= 2 || k.level.register_count > 16 ? 4 : 2;
    Value tiles = k.div(k.sub(work.last_column, work.first_column), k.index(width));
    Value rest = k.add(work.first_column, k.mul(tiles, width));
    k.loop(work.first_column, rest, k.index(width), [&](Value column) { multiply_blocks(work, rows, column, width); });
    k.loop(rest, work.last_column, [&](Value column) { multiply_blocks(work, rows, column, 1); });
  }

  void multiply_blocks(const Work& work, int64_t rows, Value column, int64_t width) {
    KernelBuilder& k = work.k;
    auto at = [&](int64_t row, int64_t c) { return static_cast<size_t>(row * width + c); };
    Values sums(static_cast<size_t>(rows * width), work.zeros());
    sums = k.loop(k.index(0), k.index(depth_ / type_->elements), k.index(1), sums, [&](Value block, ValueRange carried) {
      Values next(carried.begin(), carried.end());
      std::vector<BlockReader> readers;
      for (int64_t c = 0; c < width; ++c) {
        Value first = k.add(k.mul(k.add(column, c), row_bytes()), k.mul(block, type_->bytes));
        readers.emplace_back(k, *type_, k.operand(rhs_), first, work.lanes);
      }
      Value depth = k.mul(block, type_->elements);
      for (int64_t done = 0; done < type_->elements; done += work.lanes) {
        Values factors;
        for (BlockReader& reader : readers) factors.push_back(reader.values(done));
        for (int64_t row = 0; row < rows; ++row) {
          Value x = load_lhs(work, k.add(work.first_row, row), k.add(depth, done));
          for (int64_t c = 0; c < width; ++c) {
            Value& sum = next[at(row, c)];
            sum = k.make<math::FmaOp>(x, factors[static_cast<size_t>(c)], sum);
          }
        }
      }
      return next;
    });
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < width; ++c)
        finish(work, sum_of_lanes(work, sums[at(row, c)]), k.add(work.first_row, row), k.add(column, c), 0);
    }
  }

  Value load_lhs(const Work& work, Value row, Value depth) {
    return work.k.load(work.k.operand(lhs_), work.k.add(work.k.mul(row, depth_), depth), work.f32(), work.lanes);
  }

  // ---- many rows. The workspace has the decoded values, [column][depth], then vectors of sums, [row][column].

  Value place_of_sums(const Work& work, Value row, Value column) {
    KernelBuilder& k = work.k;
    return k.add(k.mul(k.add(k.mul(row, decoded_columns), column), work.lanes), decoded_elements);
  }

  void multiply_many(const Work& work) {
    KernelBuilder& k = work.k;
    k.loop(work.first_column, work.last_column, k.index(decoded_columns), [&](Value column) {
      k.loop(k.index(0), k.index(depth_), k.index(decoded_depth), [&](Value from) {
        Value depth = k.min(k.sub(k.index(depth_), from), k.index(decoded_depth));
        decode(work, column, from, depth);
        Value tiles = k.div(work.rows, k.index(tile_height)), rest = k.mul(tiles, tile_height);
        k.loop(k.index(0), rest, k.index(tile_height), [&](Value row) { add_products(work, tile_height, row, from, depth); });
        k.loop(rest, work.rows, [&](Value row) { add_products(work, 1, row, from, depth); });
      });
      k.loop(k.index(0), work.rows, [&](Value row) { finish_row(work, row, column); });
    });
  }

  void decode(const Work& work, Value column, Value from, Value depth) {
    KernelBuilder& k = work.k;
    k.loop(k.index(0), k.index(decoded_columns), [&](Value c) {
      Value own = k.min(k.add(column, c), k.index(columns_ - 1));
      Value first = k.add(k.mul(own, row_bytes()), k.mul(k.div(from, k.index(type_->elements)), type_->bytes));
      k.loop(k.index(0), k.div(depth, k.index(type_->elements)), [&](Value block) {
        BlockReader reader(k, *type_, k.operand(rhs_), k.add(first, k.mul(block, type_->bytes)), work.lanes);
        Value at = k.add(k.mul(c, decoded_depth), k.mul(block, type_->elements));
        for (int64_t done = 0; done < type_->elements; done += work.lanes) k.store(reader.values(done), k.workspace(), k.add(at, done));
      });
    });
  }

  // Adds the products of a piece of K to the sums of some rows, of the workgroup, and all decoded columns.
  void add_products(const Work& work, int64_t height, Value row, Value from, Value depth) {
    KernelBuilder& k = work.k;
    const int64_t width = k.level.register_count > 16 ? 4 : 2, step = 32;  // every block has a multiple of 32 values
    k.loop(k.index(0), k.index(decoded_columns), k.index(width), [&](Value column) {
      auto place = [&](int64_t r, int64_t c) { return place_of_sums(work, k.add(row, r), k.add(column, c)); };
      Value is_first = k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, from, k.index(0));
      Values sums;
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) {
          Value known = k.load(k.workspace(), place(r, c), work.f32(), work.lanes);
          sums.push_back(k.make<arith::SelectOp>(is_first, work.zeros(), known));
        }
      }
      sums = k.loop(k.index(0), depth, k.index(step), sums, [&](Value done, ValueRange carried) {
        Values next(carried.begin(), carried.end());
        for (int64_t i = 0; i < step; i += work.lanes) {
          Value here = k.add(done, i);
          Values factors;
          for (int64_t c = 0; c < width; ++c) {
            Value at = k.add(k.mul(k.add(column, c), decoded_depth), here);
            factors.push_back(k.load(k.workspace(), at, work.f32(), work.lanes));
          }
          for (int64_t r = 0; r < height; ++r) {
            Value x = load_lhs(work, k.add(work.first_row, k.add(row, r)), k.add(from, here));
            for (int64_t c = 0; c < width; ++c) {
              Value& sum = next[static_cast<size_t>(r * width + c)];
              sum = k.make<math::FmaOp>(x, factors[static_cast<size_t>(c)], sum);
            }
          }
        }
        return next;
      });
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c) k.store(sums[static_cast<size_t>(r * width + c)], k.workspace(), place(r, c));
      }
    });
  }

  void finish_row(const Work& work, Value row, Value column) {
    KernelBuilder& k = work.k;
    Value own_row = k.add(work.first_row, row);
    auto sum_of = [&](int64_t c) {
      return sum_of_lanes(work, k.load(k.workspace(), place_of_sums(work, row, k.index(c)), work.f32(), work.lanes));
    };
    if (columns_ % decoded_columns == 0) {
      Value sums = k.constant(k.vector_type(work.f32(), decoded_columns), 0);
      for (int64_t c = 0; c < decoded_columns; ++c) sums = k.builder.create<vector::InsertOp>(k.location, sum_of(c), sums, c);
      return finish(work, sums, own_row, column, decoded_columns);
    }
    for (int64_t c = 0; c < decoded_columns; ++c) {
      k.branch(k.less(k.add(column, c), work.last_column), [&] { finish(work, sum_of(c), own_row, k.add(column, c), 0); });
    }
  }

  tx::MatmulOp matmul_;
  stage::StagedRegion staged_;
  stage::ContractOp contract_;
  const tx::BlockType* type_ = nullptr;
  unsigned lhs_ = 0, rhs_ = 0;  // bindings
  AffineExpr rows_;
  int64_t columns_ = 0, depth_ = 0;
};

}  // namespace

FailureOr<Plans> plans_blocks(tx::DispatchOp region) {
  if (has_nibbles(region)) return plans_nibbles(region);
  auto product = BlockProduct::read(region);
  if (failed(product)) return failure();
  return Plans{product->plan()};
}

FailureOr<KernelResources> emit_blocks(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, const Level& level) {
  if (has_nibbles(region)) return emit_nibbles(region, symbol, kernels, level);
  auto product = BlockProduct::read(region);
  if (failed(product)) return failure();
  KernelBuilder kernel(region, symbol, kernels, level);
  product->emit(kernel);
  kernel.finish();
  return BlockProduct::resources(level);
}

}  // namespace heddle::targets::x86_64
