// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution through shared memory. Steps of the depth are copied asynchronously, several ahead; each thread multiplies with
// fused multiply-add (f32), each subgroup with mma.sync (f16, bf16; sums in f32); the element-wise ops behind the root are applied to
// the sums in registers. A convolution is an implicit matmul: rows are pixels, and each step is a tap's channels.
// Instructions as in the PTX ISA, sections on cp.async, ldmatrix and mma.
#include "compiler/targets/cuda/tiled_contraction.h"
#include "compiler/targets/cuda/tile.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t chunk_bytes = 16;

class TileWriter {
 public:
  TileWriter(KernelBuilder& kernel, tx::DispatchOp region, ArrayRef<Output> outputs, const TiledContraction& shape, const Tile& tile)
      : k_(kernel), region_(region), outputs_(outputs), shape_(shape), tile_(tile), size_(shape.element_bytes()), chunk_(shape.chunk()) {}

  LogicalResult write(Value block) {
    place(block);
    prepare_lhs();
    prepare_rhs();
    k_.shared(k_.builder.getI8Type(), tile_.shared_bytes(size_));
    Value depth = k_.index(steps());
    for (int64_t s = 0; s + 1 < tile_.stages; ++s) {
      fetch(k_.index(s), k_.index(s));
      assembly("cp.async.commit_group;", "", {}, {});
    }
    SmallVector<Value> carried(accumulators(), zeros());
    carried.push_back(k_.index(0));                 // slot of this step
    carried.push_back(k_.index(tile_.stages - 1));  // slot of the step that is fetched
    auto results = k_.loop(k_.index(0), depth, k_.index(1), carried, [&](Value step, ValueRange values) {
      assembly("cp.async.wait_group " + std::to_string(tile_.stages - 2) + ";", "", {}, {});
      k_.barrier();
      fetch(k_.add(step, tile_.stages - 1), values.back());
      assembly("cp.async.commit_group;", "", {}, {});
      SmallVector<Value> sums(values.drop_back(2));
      Value slot = values[values.size() - 2];
      Value stage = k_.mul(slot, tile_.stage_bytes(size_));
      if (shape_.element.isF32()) {
        multiply(stage, sums);
      } else {
        multiply_matrices(stage, sums);
      }
      KernelBuilder::Values next(sums.begin(), sums.end());
      for (Value one : {slot, values.back()}) {
        Value after = k_.add(one, 1);
        next.push_back(k_.make<arith::SelectOp>(equal(after, k_.index(tile_.stages)), k_.index(0), after));
      }
      return next;
    });
    assembly("cp.async.wait_all;", "", {}, {});
    results.resize(accumulators());
    return finish(results);
  }

 private:
  // ---- small pieces
  Type i32() { return k_.builder.getI32Type(); }
  Type i64() { return k_.builder.getI64Type(); }
  Value narrow(Value value) { return k_.make<arith::TruncIOp>(i32(), value); }
  Value equal(Value a, Value b) { return k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b); }
  Value both(Value a, Value b) { return !a ? b : !b ? a : k_.make<arith::AndIOp>(a, b); }
  Value choose(Value condition, Value a, Value b) { return k_.make<arith::SelectOp>(condition, a, b); }
  // 0 <= value < extent
  Value inside(Value value, int64_t extent) { return k_.make<arith::CmpIOp>(arith::CmpIPredicate::ult, value, k_.index(extent)); }

  Value assembly(const std::string& text, const std::string& constraints, ValueRange operands, Type result, bool pure = false) {
    std::string all = constraints;
    if (!pure) all += all.empty() ? "~{memory}" : ",~{memory}";
    auto op =
        k_.builder.create<LLVM::InlineAsmOp>(k_.location, result ? TypeRange(result) : TypeRange(), operands, text, all,
                                             /*has_side_effects=*/!pure, /*is_align_stack=*/false, LLVM::AsmDialectAttr(), ArrayAttr());
    return result ? op.getResult(0) : Value();
  }

  Value shared_pointer(Value offset) {
    return k_.builder.create<LLVM::GEPOp>(k_.location, LLVM::LLVMPointerType::get(k_.builder.getContext(), 3), k_.builder.getI8Type(),
                                          k_.shared_base(), ArrayRef<LLVM::GEPArg>{offset});
  }
  Value shared_address(Value offset) { return narrow(k_.builder.create<LLVM::PtrToIntOp>(k_.location, i64(), shared_pointer(offset))); }
  Value load_shared(Value offset, Type type, unsigned alignment) {
    return k_.builder.create<LLVM::LoadOp>(k_.location, type, shared_pointer(offset), alignment);
  }
  void store_shared(Value value, Value offset, unsigned alignment) {
    k_.builder.create<LLVM::StoreOp>(k_.location, value, shared_pointer(offset), alignment);
  }

  int64_t step_depth() const { return tile_.depth(size_); }
  int64_t steps() const {
    if (!shape_.lhs_in_chunks()) return (shape_.depth() + step_depth() - 1) / step_depth();
    return shape_.taps * blocks();
  }
  int64_t blocks() const { return (shape_.channels + step_depth() - 1) / step_depth(); }  // of one tap's channels
  int64_t rhs_start() const { return tile_.rows * tile_.lhs_row_bytes(); }

  // ---- where this workgroup and this thread are
  void place(Value block) {
    int64_t column_tiles = (shape_.columns + tile_.columns - 1) / tile_.columns;
    rows_ = k_.extent(shape_.rows);
    Value row_tiles = k_.extent(shape_.rows.ceilDiv(tile_.rows));
    first_column_ = k_.mul(k_.rem(block, k_.index(column_tiles)), tile_.columns);
    Value rest = k_.div(block, k_.index(column_tiles));
    first_row_ = k_.mul(k_.rem(rest, row_tiles), tile_.rows);
    batch_ = k_.div(rest, row_tiles);  // or group
    int64_t slice_threads = k_.threads / tile_.slices;
    slice_ = k_.div(k_.thread(), k_.index(slice_threads));
    in_slice_ = k_.rem(k_.thread(), k_.index(slice_threads));
  }

  // ---- copies to shared memory
  struct LhsRow {
    Value offset;    // elements from the operand's start to the first tap, this thread's chunk; may lie outside
    Value y, x;      // of the first tap
    Value is_there;  // the row is
    Value shared;    // bytes in a stage
  };

  void prepare_lhs() {
    int64_t chunks = tile_.lhs_chunks(), count = tile_.rows * chunks / k_.threads;
    lhs_chunk_ = k_.mul(k_.rem(k_.thread(), k_.index(chunks)), chunk_);
    for (int64_t i = 0; i < count; ++i) {
      LhsRow row;
      Value in_tile = k_.add(k_.div(k_.thread(), k_.index(chunks)), i * (k_.threads / chunks));
      Value at = k_.add(first_row_, in_tile);
      row.is_there = k_.less(at, rows_);
      row.shared = k_.add(k_.mul(in_tile, tile_.lhs_row_bytes()), k_.mul(lhs_chunk_, size_));
      if (shape_.is_conv) {
        Value x = k_.rem(at, k_.index(shape_.width)), rest = k_.div(at, k_.index(shape_.width));
        Value y = k_.rem(rest, k_.index(shape_.height)), image = k_.div(rest, k_.index(shape_.height));
        row.y = k_.add(k_.mul(y, shape_.stride_height), -shape_.pad_top);
        row.x = k_.add(k_.mul(x, shape_.stride_width), -shape_.pad_left);
        Value pixel = k_.add(k_.mul(k_.add(k_.mul(image, shape_.in_height), row.y), shape_.in_width), row.x);
        row.offset = k_.add(k_.mul(pixel, shape_.channels * shape_.groups), k_.mul(batch_, shape_.channels));
      } else {
        row.offset = k_.mul(k_.add(k_.mul(batch_, rows_), at), shape_.channels);
      }
      lhs_rows_.push_back(row);
    }
  }

  struct RhsRow {
    Value offset;    // elements from the operand's start
    Value depth;     // within a step
    Value is_there;  // the column is
    Value shared;
  };

  void prepare_rhs() {
    int64_t chunks = shape_.rhs_transposed ? tile_.lhs_chunks() : tile_.columns / chunk_;
    int64_t count = tile_.columns * tile_.lhs_chunks() / k_.threads;
    Value start = k_.index(0);
    if (shape_.rhs_batched) start = k_.mul(batch_, shape_.channels * shape_.columns);
    if (shape_.is_conv) start = k_.mul(batch_, shape_.columns);
    Value chunk = k_.mul(k_.rem(k_.thread(), k_.index(chunks)), chunk_);
    for (int64_t i = 0; i < count; ++i) {
      RhsRow row;
      Value line = k_.add(k_.div(k_.thread(), k_.index(chunks)), i * (k_.threads / chunks));
      Value in_tile = shape_.rhs_transposed ? line : chunk;
      Value column = k_.add(first_column_, in_tile);
      row.depth = shape_.rhs_transposed ? chunk : line;
      row.is_there = k_.less(column, k_.index(shape_.columns));
      row.offset = k_.add(start, shape_.rhs_transposed ? k_.add(k_.mul(column, shape_.channels), row.depth)
                                                       : k_.add(k_.mul(row.depth, shape_.columns * shape_.groups), column));
      row.shared = k_.add(k_.add(k_.mul(row.depth, tile_.rhs_row_bytes(size_)), k_.mul(in_tile, size_)), rhs_start());
      rhs_rows_.push_back(row);
    }
  }

  void copy_chunk(Value base, Value offset, Value is_there, Value shared) {
    Value source = k_.pointer(base, choose(is_there, offset, k_.index(0)), shape_.element);
    Value bytes = narrow(choose(is_there, k_.index(chunk_bytes), k_.index(0)));  // the rest becomes 0
    assembly("cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", {shared_address(shared), source, bytes}, {});
  }

  Value load_or_zero(Value base, Value offset, Value is_there) {
    Value loaded = k_.load(base, choose(is_there, offset, k_.index(0)), shape_.element);
    return choose(is_there, loaded, k_.constant(shape_.element, 0));
  }

  // Where a tap's input lies, against the first tap's.
  struct Tap {
    Value y, x, offset;
  };
  Tap tap_at(Value tap) {
    Value y = k_.mul(k_.div(tap, k_.index(shape_.kernel_width)), shape_.dilation_height);
    Value x = k_.mul(k_.rem(tap, k_.index(shape_.kernel_width)), shape_.dilation_width);
    return {y, x, k_.mul(k_.add(k_.mul(y, shape_.in_width), x), shape_.channels * shape_.groups)};
  }
  Value inside_image(const LhsRow& row, const Tap& tap) {
    if (!shape_.is_conv) return {};
    return both(inside(k_.add(row.y, tap.y), shape_.in_height), inside(k_.add(row.x, tap.x), shape_.in_width));
  }

  // Starts the copies of one step into a slot; a step behind the last one only zeros.
  void fetch(Value step, Value slot) {
    Value stage = k_.mul(slot, tile_.stage_bytes(size_)), in_range = k_.less(step, k_.index(steps()));
    Value lhs = binding(shape_.lhs), rhs = binding(shape_.rhs);
    bool chunked = shape_.lhs_in_chunks();
    Value tap = chunked && shape_.taps > 1 ? k_.div(step, k_.index(blocks())) : k_.index(0);
    Value channel = k_.mul(chunked && shape_.taps > 1 ? k_.rem(step, k_.index(blocks())) : step, step_depth());
    Value extent = k_.index(chunked ? shape_.channels : shape_.depth());
    if (chunked) {
      Tap shift = tap_at(tap);
      for (const LhsRow& row : lhs_rows_) {
        Value at = k_.add(channel, lhs_chunk_);
        Value is_there = both(both(both(in_range, row.is_there), k_.less(at, extent)), inside_image(row, shift));
        copy_chunk(lhs, k_.add(k_.add(row.offset, shift.offset), at), is_there, k_.add(stage, row.shared));
      }
    } else {
      SmallVector<Tap> shifts;
      SmallVector<Value> channels, known;
      for (int64_t i = 0; i < chunk_; ++i) {
        Value at = k_.add(k_.add(channel, lhs_chunk_), i);
        shifts.push_back(tap_at(k_.div(at, k_.index(shape_.channels))));
        channels.push_back(k_.rem(at, k_.index(shape_.channels)));
        known.push_back(both(in_range, k_.less(at, extent)));
      }
      for (const LhsRow& row : lhs_rows_) {
        for (int64_t i = 0; i < chunk_; ++i) {
          Value is_there = both(both(known[i], row.is_there), inside_image(row, shifts[i]));
          Value value = load_or_zero(lhs, k_.add(k_.add(row.offset, shifts[i].offset), channels[i]), is_there);
          store_shared(value, k_.add(k_.add(stage, row.shared), i * size_), static_cast<unsigned>(size_));
        }
      }
    }
    Value first = chunked ? k_.add(k_.mul(tap, shape_.channels), channel) : channel;
    for (const RhsRow& row : rhs_rows_) {
      Value is_there = both(both(in_range, row.is_there), k_.less(k_.add(channel, row.depth), extent));
      Value shared = k_.add(stage, row.shared);
      if (!shape_.rhs_transposed) {
        copy_chunk(rhs, k_.add(row.offset, k_.mul(first, shape_.columns * shape_.groups)), is_there, shared);
        continue;
      }
      Value offset = choose(is_there, k_.add(row.offset, first), k_.index(0));
      Value loaded = k_.builder.create<LLVM::LoadOp>(k_.location, k_.vector_type(shape_.element, chunk_),
                                                     k_.pointer(rhs, offset, shape_.element), static_cast<unsigned>(chunk_bytes));
      for (int64_t i = 0; i < chunk_; ++i) {
        Value one = k_.builder.create<vector::ExtractOp>(k_.location, loaded, ArrayRef<int64_t>{i});
        store_shared(choose(is_there, one, k_.constant(shape_.element, 0)), k_.add(shared, i * tile_.rhs_row_bytes(size_)),
                     static_cast<unsigned>(size_));
      }
    }
  }

  Value binding(Value operand) { return k_.operand(llvm::cast<BlockArgument>(operand).getArgNumber()); }

  // ---- sums, in vectors of four
  VectorType four() { return k_.vector_type(k_.builder.getF32Type(), 4); }
  Value zeros() { return k_.constant(four(), 0); }
  int64_t column_groups() const { return tile_.thread_columns / 4; }
  int64_t accumulators() const {
    if (shape_.element.isF32()) return tile_.thread_rows * column_groups();
    return fragments_down() * fragments_across();
  }

  // Of one slice's threads, side by side.
  int64_t threads_across() const { return tile_.columns / tile_.thread_columns; }
  int64_t threads_down() const { return tile_.rows / tile_.thread_rows; }

  void multiply(Value stage, SmallVector<Value>& sums) {
    Value across = k_.rem(in_slice_, k_.index(threads_across())), down = k_.div(in_slice_, k_.index(threads_across()));
    Value lhs = k_.add(k_.add(stage, k_.mul(down, tile_.lhs_row_bytes())), k_.mul(slice_, tile_.step_bytes));
    Value rhs =
        k_.add(k_.add(k_.add(stage, rhs_start()), k_.mul(across, 16)), k_.mul(slice_, tile_.step_bytes / 4 * tile_.rhs_row_bytes(4)));
    sums = k_.loop(k_.index(0), k_.index(tile_.step_bytes / 16), k_.index(1), sums, [&](Value quad, ValueRange values) {
      KernelBuilder::Values next(values.begin(), values.end());
      Value lhs_quad = k_.add(lhs, k_.mul(quad, 16)), rhs_quad = k_.add(rhs, k_.mul(quad, 4 * tile_.rhs_row_bytes(4)));
      SmallVector<Value> left;
      for (int64_t i = 0; i < tile_.thread_rows; ++i) {
        left.push_back(load_shared(k_.add(lhs_quad, i * threads_down() * tile_.lhs_row_bytes()), four(), 16));
      }
      for (int64_t d = 0; d < 4; ++d) {
        SmallVector<Value> right;
        for (int64_t j = 0; j < column_groups(); ++j) {
          right.push_back(load_shared(k_.add(rhs_quad, d * tile_.rhs_row_bytes(4) + j * threads_across() * 16), four(), 16));
        }
        for (int64_t i = 0; i < tile_.thread_rows; ++i) {
          Value one = k_.splat(k_.builder.create<vector::ExtractOp>(k_.location, left[i], ArrayRef<int64_t>{d}), 4);
          for (int64_t j = 0; j < column_groups(); ++j) {
            Value& sum = next[i * column_groups() + j];
            sum = k_.make<math::FmaOp>(one, right[j], sum);
          }
        }
      }
      return next;
    });
  }

  // ---- tensor cores: a subgroup has fragments of 16 x 8 results
  int64_t fragments_down() const { return tile_.rows / tile_.warp_rows / 16; }
  int64_t fragments_across() const { return tile_.columns / tile_.warp_columns / 8; }
  Value lane() { return k_.rem(k_.thread(), k_.index(subgroup_size)); }
  Value subgroup() { return k_.div(in_slice_, k_.index(subgroup_size)); }  // of the slice
  Value subgroup_row() { return k_.mul(k_.div(subgroup(), k_.index(tile_.warp_columns)), tile_.rows / tile_.warp_rows); }
  Value subgroup_column() { return k_.mul(k_.rem(subgroup(), k_.index(tile_.warp_columns)), tile_.columns / tile_.warp_columns); }

  // Four 8 x 8 matrices of 16-bit elements; this lane's address is that of one of their rows.
  SmallVector<Value> load_matrices(Value address, bool transposed) {
    Type words = LLVM::LLVMStructType::getLiteral(k_.builder.getContext(), SmallVector<Type>(4, i32()));
    Value loaded =
        assembly(std::string("ldmatrix.sync.aligned.m8n8.x4") + (transposed ? ".trans" : "") + ".shared.b16 {$0, $1, $2, $3}, [$4];",
                 "=r,=r,=r,=r,r", address, words);
    SmallVector<Value> result;
    for (int64_t i = 0; i < 4; ++i) result.push_back(k_.builder.create<LLVM::ExtractValueOp>(k_.location, loaded, i));
    return result;
  }

  void multiply_matrices(Value stage, SmallVector<Value>& sums) {
    std::string type = shape_.element.isF16() ? "f16" : "bf16";
    std::string text = "mma.sync.aligned.m16n8k16.row.col.f32." + type + "." + type +
                       ".f32 {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, "
                       "{$10, $11, $12, $13};";
    Type f32 = k_.builder.getF32Type();
    Type floats = LLVM::LLVMStructType::getLiteral(k_.builder.getContext(), SmallVector<Type>(4, f32));
    Value row = k_.rem(lane(), k_.index(16)), half = k_.div(lane(), k_.index(16));
    Value lhs = k_.add(k_.add(stage, k_.mul(k_.add(subgroup_row(), row), tile_.lhs_row_bytes())),
                       k_.add(k_.mul(slice_, tile_.step_bytes), k_.mul(half, 16)));
    Value rhs =
        k_.add(k_.add(k_.add(stage, rhs_start()), k_.mul(k_.add(k_.mul(slice_, tile_.step_bytes / 2), row), tile_.rhs_row_bytes(2))),
               k_.add(k_.mul(subgroup_column(), 2), k_.mul(half, 16)));
    for (int64_t part = 0; part < tile_.step_bytes / 32; ++part) {  // 16 elements of a slice's depth
      SmallVector<SmallVector<Value>> left, right;
      for (int64_t i = 0; i < fragments_down(); ++i) {
        left.push_back(load_matrices(shared_address(k_.add(lhs, i * 16 * tile_.lhs_row_bytes() + part * 32)), false));
      }
      for (int64_t j = 0; j < fragments_across(); j += 2) {
        right.push_back(load_matrices(shared_address(k_.add(rhs, j * 16 + part * 16 * tile_.rhs_row_bytes(2))), true));
      }
      for (int64_t i = 0; i < fragments_down(); ++i) {
        for (int64_t j = 0; j < fragments_across(); ++j) {
          Value& sum = sums[i * fragments_across() + j];
          SmallVector<Value> operands(left[i]);
          operands.append({right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]});
          for (int64_t e = 0; e < 4; ++e) operands.push_back(k_.builder.create<vector::ExtractOp>(k_.location, sum, ArrayRef<int64_t>{e}));
          Value product = assembly(text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", operands, floats, /*pure=*/true);
          for (int64_t e = 0; e < 4; ++e) {
            Value one = k_.builder.create<LLVM::ExtractValueOp>(k_.location, product, e);
            sum = k_.builder.create<vector::InsertOp>(k_.location, one, sum, ArrayRef<int64_t>{e});
          }
        }
      }
    }
  }

  // ---- the element-wise ops behind the root
  LogicalResult finish(SmallVector<Value> sums) {
    if (tile_.slices == 1) {
      for (auto [i, sum] : llvm::enumerate(sums)) {
        if (failed(store(k_.index(static_cast<int64_t>(i)), sum))) return failure();
      }
      return success();
    }
    // Every slice writes all of its sums; then each adds up and stores its share.
    int64_t count = accumulators(), slice_threads = k_.threads / tile_.slices, share = count / tile_.slices;
    auto place_of = [&](Value slice, Value sum) {
      return k_.mul(k_.add(k_.mul(k_.add(k_.mul(slice, count), sum), slice_threads), in_slice_), 16);
    };
    k_.barrier();
    for (int64_t i = 0; i < count; ++i) store_shared(sums[i], place_of(slice_, k_.index(i)), 16);
    k_.barrier();
    LogicalResult all = success();
    for (int64_t i = 0; i < share; ++i) {
      Value mine = k_.add(k_.mul(slice_, share), i), total;
      for (int64_t s = 0; s < tile_.slices; ++s) {
        Value part = load_shared(place_of(k_.index(s), mine), four(), 16);
        total = total ? k_.make<arith::AddFOp>(total, part) : part;
      }
      if (succeeded(all)) all = store(mine, total);
    }
    return all;
  }

  // Stores the four results of one accumulator.
  LogicalResult store(Value index, Value sum) {
    if (shape_.element.isF32()) {
      Value across = k_.rem(in_slice_, k_.index(threads_across())), down = k_.div(in_slice_, k_.index(threads_across()));
      Value row = k_.add(down, k_.mul(k_.div(index, k_.index(column_groups())), threads_down()));
      Value column = k_.add(k_.mul(across, 4), k_.mul(k_.rem(index, k_.index(column_groups())), threads_across() * 4));
      return store_row(row, column, sum, 4);
    }
    Value row = k_.add(k_.add(subgroup_row(), k_.mul(k_.div(index, k_.index(fragments_across())), 16)), k_.div(lane(), k_.index(4)));
    Value column =
        k_.add(k_.add(subgroup_column(), k_.mul(k_.rem(index, k_.index(fragments_across())), 8)), k_.mul(k_.rem(lane(), k_.index(4)), 2));
    for (int64_t half = 0; half < 2; ++half) {
      Value two = k_.builder.create<vector::ExtractStridedSliceOp>(k_.location, sum, ArrayRef<int64_t>{half * 2}, ArrayRef<int64_t>{2},
                                                                   ArrayRef<int64_t>{1});
      if (failed(store_row(k_.add(row, half * 8), column, two, 2))) return failure();
    }
    return success();
  }

  LogicalResult store_row(Value row_in_tile, Value column_in_tile, Value sums, int64_t lanes) {
    LogicalResult result = success();
    Value row = k_.add(first_row_, row_in_tile), column = k_.add(first_column_, column_in_tile);
    k_.branch(both(k_.less(row, rows_), k_.less(column, k_.index(shape_.columns))), [&] {
      Point point;
      point.lanes = lanes;
      auto extents = tx::extents(llvm::cast<RankedTensorType>(shape_.root->getResult(0).getType()));
      if (shape_.is_conv) {
        for (Value index : delinearize(k_, row, ArrayRef<AffineExpr>(extents).drop_back())) point.at.push_back({index, 0, {}});
        if (shape_.groups > 1) column = k_.add(column, k_.mul(batch_, shape_.columns));
      } else {
        if (extents.size() > 2) {
          for (Value index : delinearize(k_, batch_, ArrayRef<AffineExpr>(extents).drop_back(2))) point.at.push_back({index, 0, {}});
        }
        point.at.push_back({row, 0, {}});
      }
      point.at.push_back({column, 1, {}});
      ElementEvaluator evaluator(k_, region_);
      evaluator.set(shape_.root->getResult(0), sums);
      result = store_outputs(k_, evaluator, outputs_, point);
    });
    return result;
  }

  KernelBuilder& k_;
  tx::DispatchOp region_;
  ArrayRef<Output> outputs_;
  const TiledContraction& shape_;
  const Tile& tile_;
  int64_t size_, chunk_;
  Value rows_, first_row_, first_column_, batch_, slice_, in_slice_, lhs_chunk_;
  SmallVector<LhsRow> lhs_rows_;
  SmallVector<RhsRow> rhs_rows_;
};

class TilePart final : public Part {
 public:
  TilePart(tx::DispatchOp region, ArrayRef<Output> outputs, TiledContraction shape, Tile tile)
      : region_(region), outputs_(outputs), shape_(std::move(shape)), tile_(tile) {}

  AffineExpr workgroups() const override {
    int64_t column_tiles = (shape_.columns + tile_.columns - 1) / tile_.columns;
    return shape_.rows.ceilDiv(tile_.rows) * shape_.batches * (column_tiles * shape_.groups);
  }
  std::string rung() const override { return tile_.name(); }

  LogicalResult emit(KernelBuilder& k, Value block) const override { return TileWriter(k, region_, outputs_, shape_, tile_).write(block); }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  TiledContraction shape_;
  Tile tile_;
};

}  // namespace

std::unique_ptr<Part> tile_part(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, int64_t shared_memory_bytes) {
  auto shape = TiledContraction::read(root);
  if (!shape) return nullptr;
  auto tile = Tile::choose(*shape, shared_memory_bytes);
  if (!tile) return nullptr;
  return std::make_unique<TilePart>(region, outputs, *shape, *tile);
}

}  // namespace heddle::targets::cuda
