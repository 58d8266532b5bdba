// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See nibble_product.h. Lanes are columns, as the panels have them. Every sum is made of the sums of blocks, each in the order of the elements, which are
// scaled and added in the order of the blocks: for any number of rows, so results do not depend on the batch. With few rows, elements are widened in
// registers; with more, a block of some panels is widened to memory of the first-level cache, for all rows of the workgroup.
#include "compiler/targets/x86_64/nibble_product.h"

#include "compiler/ir/narrow.h"
#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/thread_space.h"
#include "compiler/targets/x86_64/kernel_builder.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

class NibbleProduct {
 public:
  static FailureOr<NibbleProduct> read(tx::DispatchOp region) {
    NibbleProduct product;
    for (Operation& op : region.getBody().front()) {
      auto matmul = llvm::dyn_cast<tx::MatmulOp>(op);
      if (matmul && matmul.getBlocks()) product.matmul_ = matmul;
    }
    if (!product.matmul_) return failure();
    return product.fill(region) ? FailureOr<NibbleProduct>(std::move(product)) : FailureOr<NibbleProduct>(failure());
  }

  KernelPlan plan() const {
    KernelPlan plan{rows_.ceilDiv(band_rows) * llvm::divideCeilSigned(panels(), workgroup_panels)};
    constexpr double widening_ns = 0.02, product_ns = 0.01;  // per element, in vectors
    const double rows = static_cast<double>(std::min(tx::static_extent(rows_).value_or(1), band_rows));
    const double elements = static_cast<double>(std::min(panels(), workgroup_panels) * tx::Nibbles::columns) * static_cast<double>(depth_);
    plan.cost_ns = static_cast<uint64_t>(elements * (widening_ns + product_ns * rows)) + 1;
    plan.works_in_place = true;
    plan.stores_rows_apart = true;
    return plan;
  }

  // The workspace has the widened elements of a block, [element][panel][column], then sums, [row][panel][column].
  KernelResources resources() const {
    KernelResources resources;
    resources.workspace_bytes = static_cast<uint64_t>(4 * (sums_at() + band_rows * workgroup_panels * tx::Nibbles::columns));
    return resources;
  }

  void emit(KernelBuilder& kernel) {
    const int64_t groups = llvm::divideCeilSigned(panels(), workgroup_panels);
    kernel.for_workgroups([&](Value workgroup) {
      Work work{kernel, kernel.level.f32_lanes()};
      work.first_panel = kernel.mul(kernel.rem(workgroup, kernel.index(groups)), workgroup_panels);
      work.first_row = kernel.mul(kernel.div(workgroup, kernel.index(groups)), band_rows);
      work.rows = kernel.min(kernel.sub(kernel.extent(rows_), work.first_row), kernel.index(band_rows));
      const int64_t rest = panels() % workgroup_panels;
      if (rest == 0) return multiply(work, workgroup_panels);
      Value is_whole = kernel.less(work.first_panel, kernel.index(panels() - rest));
      kernel.branch(is_whole, [&] { multiply(work, workgroup_panels); }, [&] { multiply(work, rest); });
    });
  }

 private:
  using Values = KernelBuilder::Values;

  static constexpr int64_t band_rows = 64;        // of a workgroup, at most
  static constexpr int64_t workgroup_panels = 4;  // likewise
  static constexpr int64_t step = 32;             // elements along the depth that are emitted one by one; whole blocks have a multiple
  static constexpr int64_t table_lanes = 16;      // of a vector in which the integers of 4 bits are looked up

  // A workgroup.
  struct Work {
    KernelBuilder& k;
    int64_t lanes;
    Value first_panel = {}, first_row = {}, rows = {};
    Type f32() const { return k.builder.getF32Type(); }
    Type i32() const { return k.builder.getI32Type(); }
    VectorType floats() const { return k.vector_type(f32(), lanes); }
    int64_t vectors() const { return tx::Nibbles::columns / lanes; }  // of a panel
    Value integers(int64_t value) const { return k.constant(k.vector_type(i32(), lanes), static_cast<double>(value)); }
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
    type_ = *tx::Nibbles::named(*matmul_.getBlocks());
    columns_ = tx::tensor(matmul_.getResult()).getShape().back();
    depth_ = *tx::static_extent(extents.back());
    rows_ = product(ArrayRef(extents).drop_back());
    return true;
  }

  int64_t panels() const { return llvm::divideCeilSigned(columns_, tx::Nibbles::columns); }
  int64_t blocks() const { return depth_ / type_.elements; }
  int64_t panel_bytes() const { return blocks() * type_.panel_block_bytes(); }
  int64_t sums_at() const { return type_.elements * workgroup_panels * tx::Nibbles::columns; }

  // ---- what blocks have

  // Elements of memory at a byte of the panels. Their blocks begin at multiples of 16.
  Value load_at(const Work& work, Value byte, Type element) const {
    KernelBuilder& k = work.k;
    Value place = k.pointer(k.operand(rhs_), byte, k.builder.getI8Type());
    return k.builder.create<LLVM::LoadOp>(k.location, k.vector_type(element, work.lanes), place, /*alignment=*/4);
  }
  Value block_at(const Work& work, Value panel, Value block) const {
    return work.k.add(work.k.mul(panel, panel_bytes()), work.k.mul(block, type_.panel_block_bytes()));
  }

  // Eight elements of each column of a vector: for element().
  Value words_at(const Work& work, Value byte) const {
    Value words = load_at(work, byte, work.i32());
    // Inverting the highest bit of an element subtracts 8 in two's complement.
    constexpr int64_t highest_bits = int64_t{0x88888888} - (int64_t{1} << 32);
    return work.lanes == table_lanes || type_.has_zeros ? words : work.k.make<arith::XOrIOp>(words, work.integers(highest_bits));
  }
  // One of them, from 0 to 7, as f32, less 8 if there are no zeros.
  Value element(const Work& work, Value words, int64_t which) const {
    KernelBuilder& k = work.k;
    constexpr int64_t bits = 4, width = 32, last = 7;
    auto shifted_right = [&] { return which == 0 ? words : k.make<arith::ShRUIOp>(words, work.integers(which * bits)); };
    if (work.lanes == table_lanes) {
      // They are looked up. The instruction takes the low 4 bits of an index.
      SmallVector<float> numbers;
      for (int i = 0; i < table_lanes; ++i) numbers.push_back(static_cast<float>(type_.has_zeros ? i : i - 8));
      Value table = k.builder.create<arith::ConstantOp>(k.location, DenseElementsAttr::get(work.floats(), ArrayRef<float>(numbers)));
      return k.builder
          .create<LLVM::CallIntrinsicOp>(k.location, work.floats(), k.builder.getStringAttr("llvm.x86.avx512.permvar.sf.512"),
                                         ValueRange{table, shifted_right()})
          .getResult(0);
    }
    Value value = words;
    if (type_.has_zeros) {
      value = k.make<arith::AndIOp>(shifted_right(), work.integers(15));
    } else {
      if (which < last) value = k.make<arith::ShLIOp>(value, work.integers((last - which) * bits));
      value = k.make<arith::ShRSIOp>(value, work.integers(width - bits));
    }
    return k.make<arith::SIToFPOp>(work.floats(), value);
  }

  // Of a vector of columns: `at` is the place of the block.
  Value scale(const Work& work, Value at, int64_t vector) const {
    KernelBuilder& k = work.k;
    Type stored = type_.has_halves ? Type(k.builder.getF16Type()) : work.f32();
    Value loaded = load_at(work, k.add(at, vector * work.lanes * type_.scale_bytes()), stored);
    return type_.has_halves ? k.make<arith::ExtFOp>(work.floats(), loaded) : loaded;
  }
  Value zero(const Work& work, Value at, int64_t vector) const {
    KernelBuilder& k = work.k;
    Value loaded = load_at(work, k.add(at, type_.panel_zeros_at() + vector * work.lanes), k.builder.getI8Type());
    return k.make<arith::UIToFPOp>(work.floats(), loaded);
  }

  // ---- rows

  Value lhs_at(const Work& work, Value row, Value depth) const {
    return work.k.add(work.k.mul(work.k.add(work.first_row, row), depth_), depth);
  }
  Value x(const Work& work, Value row, Value depth) const {
    return work.k.splat(work.k.load(work.k.operand(lhs_), lhs_at(work, row, depth), work.f32()), work.lanes);
  }

  // The sum of a row's elements in a block, in all lanes.
  Value sum_of_block(const Work& work, Value row, Value block) const {
    KernelBuilder& k = work.k;
    Value sum;
    for (int64_t done = 0; done < type_.elements; done += work.lanes) {
      Value at = lhs_at(work, row, k.add(k.mul(block, type_.elements), done));
      Value loaded = k.load(k.operand(lhs_), at, work.f32(), work.lanes);
      sum = sum ? k.make<arith::AddFOp>(sum, loaded) : loaded;
    }
    for (int64_t half = work.lanes / 2; half >= 1; half /= 2) {
      SmallVector<int64_t> others;
      for (int64_t i = 0; i < work.lanes; ++i) others.push_back(i ^ half);
      sum = k.make<arith::AddFOp>(sum, k.builder.create<vector::ShuffleOp>(k.location, sum, sum, others).getResult());
    }
    return sum;
  }

  // The sum of blocks so far and that of a block's products.
  Value added(const Work& work, Value sum, Value products, Value scale, Value zero, Value sum_of_row) const {
    if (type_.has_zeros) products = work.k.make<math::FmaOp>(work.k.make<arith::NegFOp>(zero), sum_of_row, products);
    return work.k.make<math::FmaOp>(scale, products, sum);
  }

  void multiply(const Work& work, int64_t panels) {
    KernelBuilder& k = work.k;
    const bool is_wide = k.level.register_count > 16;
    const int64_t most = is_wide ? 8 : 4;  // rows for which elements are widened in registers
    auto few = [&](int64_t rows) {
      // With one row, panels are read one after the other, in the order of memory. With more, panels have a row's elements in common.
      const int64_t sums = is_wide ? 16 : 4, at_once = rows == 1 ? 1 : std::clamp<int64_t>(sums / (rows * work.vectors()), 1, 4);
      for (int64_t done = 0; done < panels; done += at_once) multiply_few(work, rows, done, std::min(at_once, panels - done));
    };
    if (auto rows = tx::static_extent(rows_); rows && *rows <= most) return few(*rows);
    k.branch(k.less(work.rows, k.index(2)), [&] { few(1); }, [&] { multiply_many(work, panels); });
  }

  // ---- few rows

  void multiply_few(const Work& work, int64_t rows, int64_t first, int64_t panels) {
    KernelBuilder& k = work.k;
    const int64_t vectors = panels * work.vectors(), at_once = panels == 1 ? 2 : 1, whole = blocks() / at_once * at_once;
    auto add = [&](int64_t from, int64_t to, ValueRange sums, int64_t count) {
      return k.loop(k.index(from), k.index(to), k.index(count), sums,
                    [&](Value block, ValueRange carried) { return add_blocks(work, rows, first, panels, block, count, carried); });
    };
    Values sums(static_cast<size_t>(rows * vectors), k.constant(work.floats(), 0));
    sums = add(0, whole, sums, at_once);
    if (whole < blocks()) sums = add(whole, blocks(), sums, 1);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t v = 0; v < vectors; ++v) {
        Value column = k.add(k.mul(k.add(work.first_panel, first), tx::Nibbles::columns), v * work.lanes);
        finish(work, sums[static_cast<size_t>(row * vectors + v)], k.index(row), column);
      }
    }
  }

  // The sums of rows and vectors of columns, with the products of `count` blocks; these are summed at once, each on its own.
  Values add_blocks(const Work& work, int64_t rows, int64_t first, int64_t panels, Value block, int64_t count, ValueRange sums) const {
    KernelBuilder& k = work.k;
    const int64_t vectors = panels * work.vectors();
    auto at = [&](int64_t i, int64_t row, int64_t vector) { return static_cast<size_t>((i * rows + row) * vectors + vector); };
    SmallVector<Value> panel_places;
    for (int64_t i = 0; i < panels; ++i) panel_places.push_back(block_at(work, k.add(work.first_panel, first + i), block));
    if (panels > 1) {
      for (Value place : panel_places) prefetch(work, place);
    }
    auto place_of = [&](int64_t i, int64_t vector) {
      return k.add(panel_places[static_cast<size_t>(vector / work.vectors())], i * type_.panel_block_bytes());
    };
    const Values nothing(static_cast<size_t>(count * rows * vectors), k.constant(work.floats(), 0));
    Values products = k.loop(k.index(0), k.index(type_.elements), k.index(step), nothing, [&](Value from, ValueRange before) {
      Values next(before.begin(), before.end());
      for (int64_t done = 0; done < step; done += 8) {
        for (int64_t i = 0; i < count; ++i) {
          Values words;
          for (int64_t v = 0; v < vectors; ++v) {
            // A word of a column has eight elements.
            Value word = k.add(place_of(i, v), k.mul(from, tx::Nibbles::columns / 2));
            const int64_t offset = type_.panel_elements_at() + done * (tx::Nibbles::columns / 2) + v % work.vectors() * work.lanes * 4;
            words.push_back(words_at(work, k.add(word, offset)));
          }
          Value depth = k.add(k.add(k.mul(block, type_.elements), from), i * type_.elements + done);
          for (int64_t which = 0; which < 8; ++which) {
            Values factors;
            for (Value word : words) factors.push_back(element(work, word, which));
            for (int64_t row = 0; row < rows; ++row) {
              Value own = x(work, k.index(row), k.add(depth, which));
              for (int64_t v = 0; v < vectors; ++v)
                next[at(i, row, v)] = k.make<math::FmaOp>(own, factors[static_cast<size_t>(v)], next[at(i, row, v)]);
            }
          }
        }
      }
      return next;
    });
    Values next(sums.begin(), sums.end());
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t row = 0; row < rows; ++row) {
        Value sum_of_row = type_.has_zeros ? sum_of_block(work, k.index(row), k.add(block, i)) : Value();
        for (int64_t v = 0; v < vectors; ++v) {
          const int64_t vector = v % work.vectors();
          Value less = type_.has_zeros ? zero(work, place_of(i, v), vector) : Value();
          Value& sum = next[at(0, row, v)];
          sum = added(work, sum, products[at(i, row, v)], scale(work, place_of(i, v), vector), less, sum_of_row);
        }
      }
    }
    return next;
  }

  // Several panels are read at once. If they are short, the processor does not foresee where reading goes on: at the next group's.
  void prefetch(const Work& work, Value place) const {
    constexpr int64_t short_bytes = 8 << 10, ahead = 2 << 10, line = 64;
    const int64_t from = panel_bytes() <= short_bytes ? workgroup_panels * panel_bytes() : ahead;
    for (int64_t done = 0; done < type_.panel_block_bytes(); done += line)
      work.k.prefetch(work.k.operand(rhs_), work.k.add(place, from + done), work.k.builder.getI8Type(), 3);
  }

  // ---- many rows

  Value place_of_sums(const Work& work, Value row, Value vector) const {
    KernelBuilder& k = work.k;
    return k.add(k.mul(row, workgroup_panels * tx::Nibbles::columns), k.add(k.mul(vector, work.lanes), sums_at()));
  }

  void multiply_many(const Work& work, int64_t panels) {
    KernelBuilder& k = work.k;
    const int64_t vectors = panels * work.vectors(), height = 6;
    const int64_t at_once = std::min<int64_t>(vectors, k.level.register_count > 16 ? 4 : 2);
    k.loop(k.index(0), k.index(blocks()), [&](Value block) {
      widen(work, panels, block);
      k.loop(k.index(0), k.index(vectors), k.index(at_once), [&](Value vector) {
        Value tiles = k.div(work.rows, k.index(height)), rest = k.mul(tiles, height);
        k.loop(k.index(0), rest, k.index(height), [&](Value row) { add_products(work, height, at_once, row, vector, block); });
        k.loop(rest, work.rows, [&](Value row) { add_products(work, 1, at_once, row, vector, block); });
      });
    });
    k.loop(k.index(0), work.rows, [&](Value row) {
      k.loop(k.index(0), k.index(vectors), [&](Value vector) {
        Value sum = k.load(k.workspace(), place_of_sums(work, row, vector), work.f32(), work.lanes);
        Value column = k.add(k.mul(work.first_panel, tx::Nibbles::columns), k.mul(vector, work.lanes));
        finish(work, sum, row, column);
      });
    });
  }

  void widen(const Work& work, int64_t panels, Value block) const {
    KernelBuilder& k = work.k;
    for (int64_t i = 0; i < panels; ++i) {
      Value place = k.add(block_at(work, k.add(work.first_panel, i), block), type_.panel_elements_at());
      k.loop(k.index(0), k.index(type_.elements), k.index(8), [&](Value from) {
        for (int64_t v = 0; v < work.vectors(); ++v) {
          Value word = k.add(k.add(place, k.mul(from, tx::Nibbles::columns / 2)), v * work.lanes * 4);
          Value words = words_at(work, word);
          for (int64_t at = 0; at < 8; ++at) {
            Value row = k.mul(k.add(from, at), workgroup_panels * tx::Nibbles::columns);
            k.store(element(work, words, at), k.workspace(), k.add(row, i * tx::Nibbles::columns + v * work.lanes));
          }
        }
      });
    }
  }

  // Adds a block to the sums of some rows and vectors of columns.
  void add_products(const Work& work, int64_t height, int64_t vectors, Value row, Value vector, Value block) const {
    KernelBuilder& k = work.k;
    auto at = [&](int64_t r, int64_t v) { return static_cast<size_t>(r * vectors + v); };
    Values products(static_cast<size_t>(height * vectors), k.constant(work.floats(), 0));
    Value depth = k.mul(block, type_.elements);
    products = k.loop(k.index(0), k.index(type_.elements), k.index(1), products, [&](Value at_element, ValueRange carried) {
      Values next(carried.begin(), carried.end()), factors;
      Value from = k.add(k.mul(at_element, workgroup_panels * tx::Nibbles::columns), k.mul(vector, work.lanes));
      for (int64_t v = 0; v < vectors; ++v) factors.push_back(k.load(k.workspace(), k.add(from, v * work.lanes), work.f32(), work.lanes));
      for (int64_t r = 0; r < height; ++r) {
        Value own = x(work, k.add(row, r), k.add(depth, at_element));
        for (int64_t v = 0; v < vectors; ++v) next[at(r, v)] = k.make<math::FmaOp>(own, factors[static_cast<size_t>(v)], next[at(r, v)]);
      }
      return next;
    });
    Value is_first = k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, block, k.index(0));
    for (int64_t v = 0; v < vectors; ++v) {
      Value own = k.add(vector, v);
      Value panel = k.add(work.first_panel, k.div(own, k.index(work.vectors()))), part = k.rem(own, k.index(work.vectors()));
      Value place = block_at(work, panel, block);
      Value scales = scale(work, k.add(place, k.mul(part, work.lanes * type_.scale_bytes())), 0);
      Value zeros = type_.has_zeros ? zero(work, k.add(place, k.mul(part, work.lanes)), 0) : Value();
      for (int64_t r = 0; r < height; ++r) {
        Value to = place_of_sums(work, k.add(row, r), own);
        Value known = k.load(k.workspace(), to, work.f32(), work.lanes);
        known = k.make<arith::SelectOp>(is_first, k.constant(work.floats(), 0), known);
        Value sum_of_row = type_.has_zeros ? sum_of_block(work, k.add(row, r), block) : Value();
        k.store(added(work, known, products[at(r, v)], scales, zeros, sum_of_row), k.workspace(), to);
      }
    }
  }

  // ---- results

  // Computes results from a vector of sums and stores those whose columns exist.
  void finish(const Work& work, Value sums, Value row, Value column) {
    KernelBuilder& k = work.k;
    if (columns_ % work.lanes == 0) {
      // A panel's last vectors may have no column.
      if (columns_ % tx::Nibbles::columns == 0) return finish_columns(work, sums, row, column, work.lanes);
      return k.branch(k.less(column, k.index(columns_)), [&] { finish_columns(work, sums, row, column, work.lanes); });
    }
    Value is_whole = k.less(k.add(column, work.lanes), k.index(columns_ + 1));
    k.branch(
        is_whole, [&] { finish_columns(work, sums, row, column, work.lanes); },
        [&] {
          for (int64_t i = 0; i < work.lanes; ++i) {
            Value own = k.add(column, i);
            k.branch(k.less(own, k.index(columns_)),
                     [&] { finish_columns(work, k.builder.create<vector::ExtractOp>(k.location, sums, i), row, own, 0); });
          }
        });
  }
  // Of one column, or of `lanes` columns.
  void finish_columns(const Work& work, Value sums, Value row, Value column, int64_t lanes) {
    KernelBuilder& k = work.k;
    Operation* op = contract_;
    stage::DomainAttr domain = stage::domain_of(op);
    Value own_row = k.add(work.first_row, row);
    BodyPlace place;
    place.index = delinearize(k, own_row, domain.parallel().drop_back());
    place.index.push_back(column);
    place.lane_dimension = domain.getParallelRank() - 1;
    place.lanes = lanes;
    BodyEmitter body(k, op, {});
    const unsigned first = stage::first_read_of_last_body(op);
    SmallVector<Element> results = body.run(stage::last_body(op), first, op->getNumOperands() - first, Element{sums, lanes > 0}, place);
    Value at = k.add(k.mul(own_row, k.pitch().value_or(columns_)), column);
    k.store(body.to_lanes(results[0], lanes).value, k.result(0), at);
  }

  tx::MatmulOp matmul_;
  stage::StagedRegion staged_;
  stage::ContractOp contract_;
  tx::Nibbles type_;
  unsigned lhs_ = 0, rhs_ = 0;  // bindings
  AffineExpr rows_;
  int64_t columns_ = 0, depth_ = 0;
};

}  // namespace

bool has_nibbles(tx::DispatchOp region) {
  return llvm::any_of(region.getBody().front(), [](Operation& op) {
    auto matmul = llvm::dyn_cast<tx::MatmulOp>(op);
    return matmul && matmul.getBlocks() && tx::Nibbles::named(*matmul.getBlocks());
  });
}

FailureOr<Plans> plans_nibbles(tx::DispatchOp region) {
  auto product = NibbleProduct::read(region);
  if (failed(product)) return failure();
  return Plans{product->plan()};
}

FailureOr<KernelResources> emit_nibbles(tx::DispatchOp region, StringRef symbol, ModuleOp kernels, const Level& level) {
  auto product = NibbleProduct::read(region);
  if (failed(product)) return failure();
  KernelBuilder kernel(region, symbol, kernels, level);
  product->emit(kernel);
  kernel.finish();
  return product->resources();
}

}  // namespace heddle::targets::x86_64
