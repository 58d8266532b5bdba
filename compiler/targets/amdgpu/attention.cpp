// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See attention.h. A workgroup has 32 queries, in local memory, and their results in registers. For each block of 64 keys: scores (tile_product) go
// through local memory to the threads of their rows, eight of each row, which make weights of them (targets/online_softmax.h); the values take the place
// of the keys, and the weights that of the scores; results are corrected where the base of a row's weights has changed, and the weighted values added.
#include "compiler/targets/amdgpu/attention.h"

#include <limits>

#include "compiler/targets/amdgpu/attention_operand.h"
#include "compiler/targets/amdgpu/tile_operand.h"
#include "compiler/targets/amdgpu/tile_product.h"
#include "compiler/targets/online_softmax.h"
#include "compiler/targets/thread_space.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::amdgpu {

namespace {

using Values = KernelBuilder::Values;

constexpr int64_t most_elements = 256;  // of a query, and of a result
constexpr int64_t column_multiple = 64;
// How far a row's largest argument may exceed the base of its weights before the base is raised: weights are at most e to this power.
constexpr double most_growth = 8;
constexpr double infinity = std::numeric_limits<double>::infinity();

// How a workgroup goes through attention: sizes, and where everything is in local memory.
struct Form {
  static constexpr int64_t queries = 32, keys = 64, row_threads = tile_threads / queries, row_scores = keys / row_threads;
  static constexpr int64_t padding = 16, score_bytes = 4;
  static constexpr int64_t score_row = keys * score_bytes + padding;

  Type element;
  int64_t depth = 0, columns = 0;  // in local memory

  int64_t element_bytes() const { return element.getIntOrFloatBitWidth() / 8; }
  int64_t depth_bytes() const { return depth * element_bytes(); }
  int64_t query_row() const { return depth_bytes() + padding; }
  int64_t key_bytes() const { return keys * element_bytes(); }
  int64_t value_row() const { return key_bytes() + padding; }  // a column, with the values of all keys
  int64_t weight_row() const { return value_row(); }

  // Queries; keys, then values; scores, then weights; a number for each row.
  int64_t blocks_at() const { return queries * query_row(); }
  int64_t scores_at() const { return blocks_at() + std::max(keys * query_row(), columns * value_row()); }
  int64_t rows_at() const { return scores_at() + queries * score_row; }
  int64_t exchange_row() const { return (columns + 4) * score_bytes; }
  int64_t shared_bytes() const { return std::max(rows_at(), queries * exchange_row()) + queries * score_bytes; }

  // Nothing if local memory is too small.
  static std::optional<Form> choose(const AttentionShape& shape) {
    Form form;
    const bool is_half = shape.element && (shape.element.isF16() || shape.element.isBF16());
    form.element = is_half ? shape.element : Float32Type::get(shape.keys.getContext());
    form.depth = static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(shape.depth), static_cast<uint64_t>(64 / form.element_bytes())));
    form.columns = static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(shape.columns), column_multiple));
    if (form.depth > most_elements || form.columns > most_elements) return std::nullopt;
    return form.shared_bytes() <= static_cast<int64_t>(most_shared_bytes) ? std::optional(form) : std::nullopt;
  }

  ProductShape scores_product(Type f32) const {
    return {.element = element,
            .sum = f32,
            .rows = queries,
            .columns = keys,
            .step_bytes = depth_bytes(),
            .lhs_bytes = query_row(),
            .rhs_bytes = query_row(),
            .exchange_bytes = score_row};
  }
  ProductShape results_product(Type f32) const {
    return {.element = element,
            .sum = f32,
            .rows = queries,
            .columns = columns,
            .step_bytes = key_bytes(),
            .lhs_bytes = weight_row(),
            .rhs_bytes = value_row(),
            .exchange_bytes = exchange_row()};
  }
};

class AttentionKernel {
 public:
  AttentionKernel(LlvmKernelBuilder& kernel, const AttentionShape& shape, const OnlineSoftmax& softmax, const Form& form, const Chip& chip)
      : k_(kernel),
        x_(shape),
        softmax_(softmax),
        form_(form),
        memory_(kernel, form.shared_bytes()),
        scores_(TileProduct::make(kernel, memory_, form.scores_product(f32()), chip)),
        results_(TileProduct::make(kernel, memory_, form.results_product(f32()), chip)) {}

  void emit() {
    Value parts = k_.extent(x_.queries.ceilDiv(Form::queries));
    element_ = delinearize(k_, k_.div(k_.block(), parts), x_.batch);
    Value part = k_.rem(k_.block(), parts);
    if (softmax_.keys_ahead) part = k_.sub(k_.sub(parts, k_.index(1)), part);  // those with the most keys start first
    queries_ = k_.extent(x_.queries);
    keys_ = k_.extent(x_.keys);
    first_query_ = k_.mul(part, Form::queries);
    row_ = k_.div(k_.thread(), k_.index(Form::row_threads));
    in_row_ = k_.mul(k_.rem(k_.thread(), k_.index(Form::row_threads)), Form::row_scores);
    query_ = k_.min(k_.add(first_query_, row_), k_.sub(queries_, k_.index(1)));
    const AttentionOperand queries(k_, memory_, x_, form_.element, AttentionOperand::queries, element_, Form::queries, form_.depth,
                                   form_.query_row()),
        keys(k_, memory_, x_, form_.element, AttentionOperand::keys, element_, Form::keys, form_.depth, form_.query_row()),
        values(k_, memory_, x_, form_.element, AttentionOperand::values, element_, form_.columns, Form::keys, form_.value_row());
    queries.fill(first_query_, memory_.word(0));
    Value end = keys_;
    if (softmax_.keys_ahead) {  // of the last query
      Value last = k_.sub(k_.min(k_.add(first_query_, Form::queries), queries_), k_.index(1));
      end = k_.max(k_.min(end, k_.add(k_.add(last, k_.extent(*softmax_.keys_ahead)), 1)), k_.index(0));
    }
    // Of this thread's row: the base of its weights, and its own part of their sum.
    Values state{number(-infinity), number(0)};
    state.append(results_->zeros());
    state =
        k_.loop(k_.index(0), hidden(k_, k_.ceil_div(end, k_.index(Form::keys))), k_.index(1), state, [&](Value block, ValueRange carried) {
          Value first_key = k_.mul(block, Form::keys);
          k_.barrier();  // the values and weights of the block before were read
          keys.fill(first_key, memory_.word(form_.blocks_at()));
          k_.barrier();
          Values scores = scores_->add_products(memory_.word(0), memory_.word(form_.blocks_at()), scores_->zeros());
          scores_->store_band(scores, 0, memory_.word(form_.scores_at()));
          k_.barrier();
          values.fill(first_key, memory_.word(form_.blocks_at()));
          auto [base, sum] = make_weights(first_key, carried[0], carried[1]);
          k_.barrier();
          Values next{base, sum}, scaled = results_->scaled_rows(carried.drop_front(2), memory_.word(form_.rows_at()));
          next.append(results_->add_products(memory_.word(form_.scores_at()), memory_.word(form_.blocks_at()), scaled));
          return next;
        });
    finish(state);
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }
  Value number(double value) { return k_.constant(f32(), value); }
  Value row_address(int64_t start, int64_t row_bytes, int64_t bytes) const {
    Value place = k_.add(k_.mul(row_, row_bytes), k_.mul(in_row_, bytes));
    return memory_.add(memory_.word(start), memory_.narrow(place));
  }
  Value for_row() const { return memory_.add(memory_.word(form_.rows_at()), memory_.narrow(k_.mul(row_, Form::score_bytes))); }

  // Over the threads of a row.
  Value across_row(Value own, llvm::function_ref<Value(Value, Value)> merge) {
    for (int64_t distance = 1; distance < Form::row_threads; distance *= 2) own = merge(own, k_.exchange(own, distance));
    return own;
  }

  // The scores of this thread as arguments of the softmax; -inf for keys that do not exist, or do not count.
  Values arguments(Value first_key) {
    Value first = k_.add(first_key, in_row_), address = row_address(form_.scores_at(), Form::score_row, Form::score_bytes);
    Values scores;
    constexpr int64_t at_once = tile_access_bytes / Form::score_bytes;
    for (int64_t i = 0; i < Form::row_scores; i += at_once) {
      Value some = memory_.load(k_.vector_type(f32(), at_once), address, i * Form::score_bytes, tile_access_bytes);
      for (int64_t e = 0; e < at_once; ++e) scores.push_back(k_.builder.create<vector::ExtractOp>(k_.location, some, ArrayRef<int64_t>{e}));
    }
    if (!softmax_.is_plain) {
      const bool in_lanes = x_.keys.isMultipleOf(Form::row_scores);
      Value last = k_.sub(keys_, k_.index(in_lanes ? Form::row_scores : 1));
      if (in_lanes) {
        Value all = k_.constant(k_.vector_type(f32(), Form::row_scores), 0);
        for (auto [e, score] : llvm::enumerate(scores))
          all = k_.builder.create<vector::InsertOp>(k_.location, score, all, ArrayRef<int64_t>{static_cast<int64_t>(e)});
        all = softmax_.argument(k_, x_, element_, query_, k_.min(first, last), all, Form::row_scores);
        for (auto [e, score] : llvm::enumerate(scores))
          score = k_.builder.create<vector::ExtractOp>(k_.location, all, ArrayRef<int64_t>{static_cast<int64_t>(e)});
      } else {
        for (auto [e, score] : llvm::enumerate(scores))
          score = softmax_.argument(k_, x_, element_, query_, k_.min(k_.add(first, static_cast<int64_t>(e)), last), score, 0);
      }
    }
    Value end = keys_;
    if (softmax_.keys_ahead) end = k_.min(end, k_.add(k_.add(query_, k_.extent(*softmax_.keys_ahead)), 1));
    for (auto [e, score] : llvm::enumerate(scores))
      score = k_.make<arith::SelectOp>(k_.less(k_.add(first, static_cast<int64_t>(e)), end), score, number(-infinity));
    return scores;
  }

  // Stores the weights of this thread's scores, and by how much earlier results of the row are multiplied. The next base and sum.
  std::pair<Value, Value> make_weights(Value first_key, Value base, Value sum) {
    Values scores = arguments(first_key);
    Value largest = scores.front();
    for (Value one : ArrayRef<Value>(scores).drop_front()) largest = k_.make<arith::MaximumFOp>(largest, one);  // NaN if one is NaN
    largest = across_row(largest, [&](Value a, Value b) { return k_.make<arith::MaximumFOp>(a, b); });
    Value grows = k_.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, largest, k_.make<arith::AddFOp>(base, number(most_growth)));
    Value next = k_.make<arith::SelectOp>(grows, largest, base);
    // In a row in which no key counts yet, the difference from the base is not a number.
    Value nothing = k_.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, next, number(-infinity));
    Value from = k_.make<arith::SelectOp>(nothing, number(0), next);
    auto exponential = [&](Value argument) { return k_.make<math::ExpOp>(k_.make<arith::SubFOp>(argument, from)); };
    Value correction = exponential(base);
    sum = k_.make<arith::MulFOp>(sum, correction);
    const bool has_same_rows = form_.weight_row() == Form::score_row && form_.element_bytes() == Form::score_bytes;
    if (!has_same_rows) k_.barrier();  // weights are where other threads read scores
    Value weights = k_.constant(k_.vector_type(f32(), Form::row_scores), 0);
    for (auto [e, score] : llvm::enumerate(scores)) {
      Value weight = exponential(score);
      sum = k_.make<arith::AddFOp>(sum, weight);
      weights = k_.builder.create<vector::InsertOp>(k_.location, weight, weights, ArrayRef<int64_t>{static_cast<int64_t>(e)});
    }
    Value address = row_address(form_.scores_at(), form_.weight_row(), form_.element_bytes());
    memory_.store(kept_factor(k_, weights, form_.element), address, 0, tile_access_bytes);
    Value is_first = k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, in_row_, k_.index(0));
    k_.branch(is_first, [&] { memory_.store(correction, for_row(), 0, Form::score_bytes); });
    return {next, sum};
  }

  void finish(ArrayRef<Value> state) {
    Value sum = across_row(state[1], [&](Value a, Value b) { return k_.make<arith::AddFOp>(a, b); });
    k_.barrier();
    Value is_first = k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, in_row_, k_.index(0));
    const int64_t sums_at = std::max(form_.rows_at(), Form::queries * form_.exchange_row());
    Value own = memory_.add(memory_.word(sums_at), memory_.narrow(k_.mul(row_, Form::score_bytes)));
    k_.branch(is_first, [&] { memory_.store(sum, own, 0, Form::score_bytes); });
    results_->store_band(state.drop_front(2), 0, memory_.word(0));
    k_.barrier();
    int64_t lanes = tile_access_bytes / Form::score_bytes;
    while (x_.columns % lanes != 0) lanes /= 2;
    const int64_t pieces = Form::queries * form_.columns / lanes;
    k_.loop(k_.index(0), k_.index(pieces / tile_threads), [&](Value turn) {
      Value piece = k_.add(k_.mul(turn, tile_threads), k_.thread()), across = k_.index(form_.columns / lanes);
      Value column = k_.mul(k_.rem(piece, across), lanes), line = k_.div(piece, across);
      Value row = results_->row_of(line, 0), query = k_.add(first_query_, row);
      Value exists = k_.less(query, queries_);
      if (x_.columns != form_.columns) exists = k_.make<arith::AndIOp>(exists, k_.less(column, k_.index(x_.columns)));
      k_.branch(exists, [&] {
        Value at = memory_.narrow(k_.add(k_.mul(line, form_.exchange_row()), k_.mul(column, Form::score_bytes)));
        Type type = lanes > 1 ? Type(k_.vector_type(f32(), lanes)) : f32();
        auto like = [&](Value one) { return lanes > 1 ? k_.splat(one, lanes) : one; };
        Value result = memory_.load(type, at, 0, static_cast<unsigned>(lanes * Form::score_bytes));
        Value total =
            memory_.load(f32(), memory_.add(memory_.word(sums_at), memory_.narrow(k_.mul(row, Form::score_bytes))), 0, Form::score_bytes);
        result = k_.make<arith::MulFOp>(result, like(k_.make<arith::DivFOp>(number(1), total)));
        if (softmax_.nothing_is_zero) {
          Value counts = k_.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, total, number(0));
          result = k_.make<arith::SelectOp>(counts, result, k_.constant(type, 0));
        }
        x_.store(k_, element_, query, column, result, lanes > 1 ? lanes : 0, {});
      });
    });
  }

  LlvmKernelBuilder& k_;
  const AttentionShape& x_;
  const OnlineSoftmax& softmax_;
  const Form& form_;
  LocalMemory memory_;
  std::unique_ptr<TileProduct> scores_, results_;
  SmallVector<Value> element_;          // of the batch
  Value queries_, keys_, first_query_;  // i64
  Value row_, in_row_, query_;  // of this thread: its row, the first of its scores in a block, and the query of the row or the last one
};

class AttentionByBlocks final : public Strategy {
 public:
  AttentionByBlocks(ThreadMachine machine, const Chip& chip) : machine_(std::move(machine)), chip_(chip) {}

  StringRef name() const override { return "attention"; }
  bool reads_stages() const override { return true; }

  FailureOr<Plans> plans(tx::DispatchOp region) const override {
    auto found = read(region);
    if (failed(found)) return failure();
    KernelPlan plan;
    plan.workgroups = product(found->shape.batch) * found->shape.queries.ceilDiv(Form::queries);
    return Plans{plan};
  }

  FailureOr<KernelResources> emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const override {
    auto found = read(region);
    if (failed(found)) return failure();
    auto kernel = machine_.open(region, plan, symbol, kernels, tile_threads);
    AttentionKernel(static_cast<LlvmKernelBuilder&>(*kernel), found->shape, found->softmax, found->form, chip_).emit();
    kernel->finish();
    KernelResources resources = machine_.resources(*kernel);
    resources.rung = std::to_string(Form::queries) + " queries, " + std::to_string(Form::keys) + " keys";
    if (TileProduct::has_matrices(found->form.element, Float32Type::get(region.getContext()), chip_))
      resources.rung += is_mfma(chip_.matrix_unit) ? ", MFMA" : ", WMMA";
    return resources;
  }

 private:
  struct Read {
    AttentionShape shape;
    OnlineSoftmax softmax;
    Form form;
  };

  FailureOr<Read> read(tx::DispatchOp region) const {
    auto shape = AttentionShape::read(region, "amdgpu");
    if (failed(shape)) return failure();
    Read result;
    result.shape = std::move(*shape);
    auto softmax = OnlineSoftmax::read(result.shape, "amdgpu");
    if (failed(softmax)) return failure();
    result.softmax = *softmax;
    auto form = Form::choose(result.shape);
    if (!form) return FailureOr<Read>(region.emitError("amdgpu: attention: its blocks do not fit into local memory"));
    if (!result.shape.has_neighboring_columns())
      return FailureOr<Read>(region.emitError("amdgpu: attention: the columns of a result are not contiguous"));
    result.form = *form;
    return result;
  }

  ThreadMachine machine_;
  const Chip& chip_;
};

}  // namespace

std::unique_ptr<Strategy> attention_by_blocks(ThreadMachine machine, const Chip& chip) {
  return std::make_unique<AttentionByBlocks>(std::move(machine), chip);
}

}  // namespace heddle::targets::amdgpu
