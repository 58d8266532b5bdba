// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See dot_threads.h. In each step of the depth, threads pack factors into words of four neighbors along the depth, and store them to shared memory. Then
// each multiplies some rows with some columns.
#include "compiler/targets/dot_threads.h"

#include "compiler/targets/stage_emitter.h"
#include "compiler/targets/staged_contraction.h"
#include "compiler/targets/thread_space.h"

using namespace mlir;

namespace heddle::targets {

namespace {

constexpr int64_t across = 16;                 // threads along each side of a tile
constexpr int64_t word_elements = 4;           // in 32 bits
constexpr int64_t step_words = 8;              // of each row and column, in one step of the depth
constexpr int64_t row_words = step_words + 1;  // in shared memory, so that neighbors are in different banks
constexpr int64_t enough_tiles = 64;           // to keep a device busy

// What a stage multiplies: integers of 8 bits, with or without a sign, widened to the accumulator's type or of that type.
struct Bytes {
  bool has_sign = true;  // if it is not widened, this changes no bit of the sum

  static std::optional<Bytes> of(Value factor) {
    if (factor.getType().isInteger(8)) return Bytes{};
    Operation* widening = factor.getDefiningOp();
    if (!llvm::isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(widening) || !widening->getOperand(0).getType().isInteger(8))
      return std::nullopt;
    return Bytes{llvm::isa<arith::ExtSIOp>(widening)};
  }
};

struct DotProduct {
  Contraction shape;
  Bytes sides[2];
  int64_t own = 4;  // rows, and columns, of a thread

  static FailureOr<DotProduct> read(tx::DispatchOp region) {
    constexpr const char* other_types = "it does not multiply integers of 8 bits and sum them in at most 32 bits";
    auto is_byte = [](Value operand) { return tx::element_of(operand).isInteger(8); };
    for (Operation& op : region.getBody().front()) {
      if (tx::is_contraction(&op) && !(is_byte(op.getOperand(0)) && is_byte(op.getOperand(1))))
        return FailureOr<DotProduct>(region.emitError() << other_types);
    }
    auto shape = Contraction::read(region);
    if (failed(shape)) return failure();
    auto accumulator = llvm::dyn_cast<IntegerType>(shape->stage().getAccumulator());
    Operation* factors = shape->stage().getFactors().front().getTerminator();
    const auto lhs = Bytes::of(factors->getOperand(0)), rhs = Bytes::of(factors->getOperand(1));
    if (!accumulator || accumulator.getWidth() > 32 || !lhs || !rhs) return FailureOr<DotProduct>(region.emitError() << other_types);
    DotProduct product{std::move(*shape), {*lhs, *rhs}};
    const auto tiles = tx::static_extent(product.workgroups());
    if (tiles && *tiles < enough_tiles) product.own = 2;
    return product;
  }

  int64_t extent() const { return across * own; }  // of a tile, in both directions
  AffineExpr workgroups() const {
    MLIRContext* context = shape.context();
    return shape.rows.count(context).ceilDiv(extent()) * shape.columns.count(context).ceilDiv(extent()) * shape.batch.count(context);
  }
};

// One workgroup's work.
class DotKernel {
 public:
  DotKernel(KernelBuilder& kernel, const DotProduct& product, const ThreadMachine& machine)
      : k_(kernel), product_(product), shape_(product.shape), machine_(machine) {
    MLIRContext* context = shape_.context();
    Value row_tiles = k_.extent(shape_.rows.count(context).ceilDiv(product.extent())),
          column_tiles = k_.extent(shape_.columns.count(context).ceilDiv(product.extent()));
    Value rest = k_.div(k_.block(), column_tiles);
    first_[Contraction::rhs] = k_.mul(k_.rem(k_.block(), column_tiles), product.extent());
    first_[Contraction::lhs] = k_.mul(k_.rem(rest, row_tiles), product.extent());
    in_batch_ = delinearize(k_, k_.div(rest, row_tiles), shape_.batch.extents(context));
    for (Value& memory : memory_) memory = k_.shared(k_.builder.getI32Type(), product.extent() * row_words);
    // Neighboring threads have neighbors in memory.
    Value fast = k_.rem(k_.thread(), k_.index(across)), slow = k_.div(k_.thread(), k_.index(across));
    const bool along_rows = shape_.innermost() == &shape_.rows;
    own_[Contraction::lhs] = along_rows ? fast : slow;
    own_[Contraction::rhs] = along_rows ? slow : fast;
  }

  void emit() {
    const int64_t own = product_.own;
    Value steps = k_.extent(shape_.depth.count(shape_.context()).ceilDiv(step_words * word_elements));
    const Values zeros(static_cast<size_t>(own * own), k_.constant(k_.builder.getI32Type(), 0));
    const Values sums = k_.loop(k_.index(0), steps, k_.index(1), zeros, [&](Value step, ValueRange carried) {
      const Values rows = words_of(Contraction::lhs, step), columns = words_of(Contraction::rhs, step);
      k_.barrier();  // the products of the step before are done
      store(Contraction::lhs, rows);
      store(Contraction::rhs, columns);
      k_.barrier();
      return k_.loop(k_.index(0), k_.index(step_words), k_.index(1), carried,
                     [&](Value word, ValueRange before) { return products(word, before); });
    });
    for (int64_t row = 0; row < own; ++row) {
      for (int64_t column = 0; column < own; ++column) finish(sums[static_cast<size_t>(row * own + column)], row, column);
    }
  }

 private:
  using Values = KernelBuilder::Values;
  using Side = Contraction::Side;

  // Words that a thread packs of one side in a step, and where they are in the tile.
  int64_t turns() const { return product_.extent() * step_words / k_.threads(); }
  struct Place {
    Value line, word;  // i64
  };
  Place place_of(Side side, int64_t turn) const {
    Value number = k_.add(k_.thread(), turn * k_.threads());
    const bool is_deep = shape_.neighbors(side, shape_.depth, word_elements) > 1;
    Value by = k_.index(is_deep ? step_words : product_.extent()), fast = k_.rem(number, by), slow = k_.div(number, by);
    return is_deep ? Place{slow, fast} : Place{fast, slow};
  }

  Values words_of(Side side, Value step) const {
    Value last = k_.sub(k_.extent(shape_.outer(side).count(shape_.context())), k_.index(1));
    Values words;
    for (int64_t turn = 0; turn < turns(); ++turn) {
      const Place place = place_of(side, turn);
      // Rows after the last one are not stored in the end, so they may be any.
      Value index = k_.min(k_.add(first_[side], place.line), last);
      const bool is_row = side == Contraction::lhs;
      const SmallVector<Value> parallel = shape_.parallel_index(k_, in_batch_, is_row ? index : Value(), is_row ? Value() : index);
      Value first = k_.mul(k_.add(k_.mul(step, step_words), place.word), word_elements), word;
      for (int64_t i = 0; i < word_elements; ++i) {
        Value byte = k_.make<arith::ExtUIOp>(k_.builder.getI32Type(), factor(side, parallel, k_.add(first, i)));
        if (i > 0) byte = k_.make<arith::ShLIOp>(byte, k_.constant(k_.builder.getI32Type(), static_cast<double>(8 * i)));
        word = word ? k_.make<arith::OrIOp>(word, byte) : byte;
      }
      words.push_back(word);
    }
    return words;
  }

  // The bits of a factor; of the left side, 0 where there is no product.
  Value factor(Side side, ArrayRef<Value> parallel, Value in_depth) const {
    stage::ContractOp contract = shape_.stage();
    const AffineExpr extent = shape_.depth.count(shape_.context());
    const auto known = tx::static_extent(extent);
    Value counts;
    if (!known || *known % (step_words * word_elements) != 0) {
      Value count = k_.extent(extent);
      counts = k_.less(in_depth, count);
      in_depth = k_.max(k_.min(in_depth, k_.sub(count, k_.index(1))), k_.index(0));
    }
    BodyPlace place;
    place.index.assign(parallel.begin(), parallel.end());
    place.index.resize(shape_.domain().getRank(), k_.index(0));
    const SmallVector<Value> indices = delinearize(k_, in_depth, shape_.depth.extents(shape_.context()));
    for (auto [dimension, value] : llvm::zip(shape_.depth.dimensions, indices)) place.index[dimension.at] = value;
    BodyEmitter body(k_, contract, {});
    Value inside;
    for (AffineMap bounded : side == Contraction::lhs ? shape_.domain().getWithin() : ArrayRef<AffineMap>()) {
      Value at = body.evaluate(bounded.getResult(0), place.index);
      Value one = k_.make<arith::CmpIOp>(arith::CmpIPredicate::ult, at, k_.extent(bounded.getResult(1)));
      inside = inside ? k_.make<arith::AndIOp>(inside, one) : one;
    }
    if (inside) counts = counts ? k_.make<arith::AndIOp>(counts, inside) : inside;
    place.guard = known ? inside : counts;  // a symbol may be 0
    const ArrayRef<bool> reads = shape_.reads_of(side);
    for (unsigned i = 0; i < reads.size(); ++i) {
      Type other = stage::scalar_type(tx::element_of(contract->getOperand(i)));
      body.known[i] = reads[i] ? body.read(i, place) : Element{k_.constant(other, 0), false};
    }
    Value value = body.run(contract.getFactors().front(), 0, static_cast<unsigned>(reads.size()), {}, place)[side].value;
    const Type byte = k_.builder.getI8Type();
    if (Operation* widening = value.getDefiningOp();
        llvm::isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(widening) && widening->getOperand(0).getType() == byte) {
      value = widening->getOperand(0);
    } else if (value.getType() != byte) {
      value = k_.make<arith::TruncIOp>(byte, value);
    }
    return counts ? k_.make<arith::SelectOp>(counts, value, k_.constant(byte, 0)) : value;
  }

  void store(Side side, ValueRange words) const {
    for (auto [turn, word] : llvm::enumerate(words)) {
      const Place place = place_of(side, static_cast<int64_t>(turn));
      k_.store(word, memory_[side], k_.add(k_.mul(place.line, row_words), place.word));
    }
  }

  // A thread's rows, and columns, are `across` apart.
  Values products(Value word, ValueRange before) const {
    Values loaded[2];
    for (Side side : {Contraction::lhs, Contraction::rhs}) {
      for (int64_t i = 0; i < product_.own; ++i) {
        Value line = k_.add(own_[side], i * across);
        loaded[side].push_back(k_.load(memory_[side], k_.add(k_.mul(line, row_words), word), k_.builder.getI32Type()));
      }
    }
    Values sums;
    for (Value row : loaded[Contraction::lhs]) {
      for (Value column : loaded[Contraction::rhs]) sums.push_back(k_.make<arith::AddIOp>(dot(row, column), before[sums.size()]));
    }
    return sums;
  }

  Value dot(Value row, Value column) const {
    const auto [lhs, rhs] = product_.sides;
    if (machine_.dot) return machine_.dot(k_, row, lhs.has_sign, column, rhs.has_sign);
    Type type = k_.builder.getI32Type();
    auto byte = [&](Value word, int64_t i, bool has_sign) -> Value {
      auto by = [&](int64_t bits) { return k_.constant(type, static_cast<double>(bits)); };
      Value high = k_.make<arith::ShLIOp>(word, by(24 - 8 * i));
      return has_sign ? k_.make<arith::ShRSIOp>(high, by(24)) : k_.make<arith::ShRUIOp>(high, by(24));
    };
    Value sum;
    for (int64_t i = 0; i < word_elements; ++i) {
      Value one = k_.make<arith::MulIOp>(byte(row, i, lhs.has_sign), byte(column, i, rhs.has_sign));
      sum = sum ? k_.make<arith::AddIOp>(sum, one) : one;
    }
    return sum;
  }

  // Computes the results from a sum, and stores them.
  void finish(Value sum, int64_t in_rows, int64_t in_columns) const {
    MLIRContext* context = shape_.context();
    Value row = k_.add(k_.add(first_[Contraction::lhs], own_[Contraction::lhs]), in_rows * across),
          column = k_.add(k_.add(first_[Contraction::rhs], own_[Contraction::rhs]), in_columns * across);
    Value exists = k_.make<arith::AndIOp>(k_.less(row, k_.extent(shape_.rows.count(context))),
                                          k_.less(column, k_.extent(shape_.columns.count(context))));
    k_.branch(exists, [&] {
      stage::ContractOp contract = shape_.stage();
      Type type = contract.getAccumulator();
      Value total = type == sum.getType() ? sum : k_.make<arith::TruncIOp>(type, sum);
      BodyPlace place;
      place.index = shape_.parallel_index(k_, in_batch_, row, column);
      Value at = shape_.place_of(k_, place.index);
      BodyEmitter body(k_, contract, {});
      const unsigned first = stage::first_read_of_last_body(contract), count = contract->getNumOperands() - first;
      for (auto [i, result] : llvm::enumerate(body.run(stage::last_body(contract), first, count, Element{total, false}, place)))
        k_.store(result.value, k_.result(static_cast<unsigned>(i)), at);
    });
  }

  KernelBuilder& k_;
  const DotProduct& product_;
  const Contraction& shape_;
  const ThreadMachine& machine_;
  Value first_[2], memory_[2], own_[2];  // of each side: the tile's first line, its words, and the thread's first line in the tile
  SmallVector<Value> in_batch_;
};

class DotsOnThreads final : public Strategy {
 public:
  explicit DotsOnThreads(ThreadMachine machine) : machine_(std::move(machine)) {}

  StringRef name() const override { return dot_strategy; }
  bool reads_stages() const override { return true; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto product = DotProduct::read(region);
    if (failed(product)) return failure();
    KernelPlan plan{product->workgroups()};
    plan.works_in_place = true;
    plan.stores_rows_apart = product->shape.stores_rows();
    plan.sums_nothing = true;
    return Plans{std::move(plan)};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto product = DotProduct::read(region);
    if (failed(product)) return failure();
    auto kernel = machine_.open(region, plan, symbol, kernels, across * across);
    DotKernel(*kernel, *product, machine_).emit();
    kernel->finish();
    KernelResources resources = machine_.resources(*kernel);
    const std::string extent = std::to_string(product->extent());
    resources.rung = "tile " + extent + "x" + extent;
    return resources;
  }

 private:
  ThreadMachine machine_;
};

}  // namespace

std::unique_ptr<Strategy> dots_on_threads(ThreadMachine machine) {
  return std::make_unique<DotsOnThreads>(std::move(machine));
}

}  // namespace heddle::targets
