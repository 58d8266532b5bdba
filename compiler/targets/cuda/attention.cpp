// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax between two products as one kernel: a workgroup has some queries, goes through the keys in blocks, and rescales its results when a
// block's largest score is much larger (targets/online_softmax.h), so scores are never in memory. While one block is computed, the next one's keys
// and values are copied, or computed if the region does more than read them. Blocks whose keys no query of the workgroup reads are skipped.
#include "compiler/targets/cuda/attention_form.h"
#include "compiler/targets/cuda/strategy.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

using Values = KernelBuilder::Values;

constexpr int64_t enough_workgroups = 128;  // about as many as a device has multiprocessors
constexpr int64_t most_columns = 256;       // also the largest number of elements of a query
constexpr int64_t cache_bytes = 32 << 20;   // of keys and values that are read repeatedly
constexpr int64_t row_alignment = 16;       // elements
// How far a row's largest argument may exceed the base of its weights before the base is raised. Weights are at most 2 to this power with tensor
// cores, and e to this power without.
constexpr double most_growth = 8;
constexpr int64_t farthest_step = int64_t{1} << 20;  // bytes; an instruction's constant may be a few times this
constexpr double log2_of_e = 1.4426950408889634;

// One factor of a product, in rows of shared memory: queries, keys or values.
class Operand {
 public:
  Operand(const Instructions& frame, const AttentionShape& shape, const AttentionForm& form, ArrayRef<Value> element, unsigned number)
      : f_(frame), k_(frame.k), shape_(shape), form_(form), element_(element), number_(number) {
    inner_ = number == values ? shape.columns : shape.depth;
    lanes_ = 16 / form.element_bytes();
    while (inner_ % lanes_ != 0) lanes_ /= 2;
    row_bytes_ = form.row_bytes(number == values ? form.columns : form.depth);
    pieces_ = inner_ / lanes_;  // of a row
    find_read();
  }

  enum { queries, keys, values };

  // The factor for the products of elements in shared memory: a constant factor is applied after the product.
  double scale() const { return scale_; }

  // Copies or computes `count` rows from this one on, to the address (i32). Rows that do not exist become zeros or, for queries, another row.
  void fill(Value first, int64_t count, Value address) const {
    if (row_step_) return copy_rows(first, count, address);
    int64_t all = count * pieces_, turns = llvm::divideCeilSigned(all, k_.threads());
    Value extent = k_.extent(number_ == queries ? shape_.queries : shape_.keys);
    Value start = k_.thread();
    for (int64_t turn = 0; turn < turns; ++turn) {
      Value piece = k_.add(start, turn * k_.threads());
      Value row = k_.div(piece, k_.index(pieces_)), at = k_.mul(k_.rem(piece, k_.index(pieces_)), lanes_);
      auto one = [&] { fill_piece(k_.add(first, row), at, extent, to_shared(address, row, at)); };
      if ((turn + 1) * k_.threads() > all) {
        k_.branch(k_.less(piece, k_.index(all)), one);
      } else {
        one();
      }
    }
  }

  // Clears the padding after the elements of `count` rows, which takes part in products.
  void clear_padding(int64_t count, Value address) const {
    if (number_ == values || inner_ == form_.depth) return;
    k_.loop(k_.thread(), k_.index(count), k_.index(k_.threads()), [&](Value row) {
      Value zero = k_.constant(form_.element, 0);
      for (int64_t d = inner_; d < form_.depth; ++d)
        f_.store_shared(zero, to_shared(address, row, k_.index(d)), 0, static_cast<unsigned>(form_.element_bytes()));
    });
  }

 private:
  stage::ContractOp product() const { return number_ == values ? shape_.second : shape_.first; }
  unsigned factor() const { return number_ == queries ? 0 : 1; }
  SmallVector<Value> index(Value row, Value at) const {
    if (number_ == queries) return shape_.first_index(k_, element_, row, k_.index(0), at);
    if (number_ == keys) return shape_.first_index(k_, element_, k_.index(0), row, at);
    return shape_.second_index(k_, element_, k_.index(0), at, row);
  }
  std::optional<unsigned> inner_dimension() const { return number_ == values ? shape_.second_column : std::optional(shape_.first_depth()); }
  Value to_shared(Value address, Value row, Value at) const {
    Value offset = k_.add(k_.mul(row, row_bytes_), k_.mul(at, form_.element_bytes()));
    return k_.make<arith::AddIOp>(address, f_.narrow(offset));
  }

  // Finds the tensor that the factor reads, if it reads aligned neighbors that have the type of shared memory.
  void find_read() {
    stage::ContractOp contract = product();
    auto inner = inner_dimension();
    if (!inner || lanes_ * form_.element_bytes() != 16) return;
    Block& body = contract.getFactors().front();
    Value value = body.getTerminator()->getOperand(factor());
    double scale = 1;
    if (auto product = value.getDefiningOp<arith::MulFOp>()) {
      FloatAttr constant;
      bool is_scaled = matchPattern(product.getRhs(), m_Constant(&constant)) && constant.getValue().isFinite();
      if (!is_scaled) return;
      scale = constant.getValueAsDouble();
      value = product.getLhs();
    }
    if (auto extended = value.getDefiningOp<arith::ExtFOp>()) value = extended.getIn();
    auto argument = llvm::dyn_cast<BlockArgument>(value);
    unsigned rank = contract.getDomain().getRank();
    if (!argument || argument.getArgNumber() < rank) return;
    unsigned read = argument.getArgNumber() - rank;
    stage::AccessAttr access = stage::access_of(contract, read);
    if (!llvm::isa<BlockArgument>(contract->getOperand(read)) || access.getOutside() || !access.getGathers().empty()) return;
    RankedTensorType type = tx::tensor(contract->getOperand(read));
    int64_t lanes = lanes_;
    auto step = memory_step(contract, read, *inner, lanes);
    if (type.getElementType() != form_.element || lanes != lanes_ || !step || tx::static_extent(*step) != 1) return;
    AffineExpr place = linear_place(access.getMap().getResults(), type);
    MLIRContext* context = contract->getContext();
    AffineExpr in_pieces = place.replace(getAffineDimExpr(*inner, context), getAffineDimExpr(*inner, context) * lanes_);
    in_pieces = simplifyAffineExpr(in_pieces, access.getMap().getNumDims(), access.getMap().getNumSymbols());
    if (!in_pieces.isMultipleOf(lanes_)) return;
    place_ = place;
    read_ = read;
    scale_ = scale;
    // Whether the distance from each row to the next is the same.
    if (number_ == queries || k_.threads() % pieces_ != 0) return;
    unsigned row = number_ == values ? contract.getDomain().getParallelRank() : shape_.first_key;
    AffineExpr dim = getAffineDimExpr(row, context), step_down = place.replace(dim, dim + 1) - place;
    step_down = simplifyAffineExpr(step_down, access.getMap().getNumDims(), access.getMap().getNumSymbols());
    if (!step_down.isSymbolicOrConstant()) return;
    row_step_ = k_.mul(k_.extent(step_down), form_.element_bytes());
    auto known = tx::static_extent(step_down);
    if (known && *known * form_.element_bytes() <= farthest_step) known_row_step_ = *known * form_.element_bytes();
    own_row_ = k_.div(k_.thread(), k_.index(pieces_));
    Value at = k_.mul(k_.rem(k_.thread(), k_.index(pieces_)), lanes_);
    source_ = address_in_memory(index(own_row_, at));
    own_shared_ = to_shared(f_.word(0), own_row_, at);
  }

  Value address_in_memory(ArrayRef<Value> index) const {
    BodyEmitter body(k_, product(), [](unsigned, const BodyPlace&) -> Element { llvm_unreachable("no other stage is read"); });
    Value base = k_.operand(llvm::cast<BlockArgument>(product()->getOperand(*read_)).getArgNumber());
    return k_.pointer(base, body.evaluate(*place_, index), form_.element);
  }

  // Every thread has pieces at the same position in a row.
  void copy_rows(Value first, int64_t count, Value address) const {
    int64_t rows = k_.threads() / pieces_;  // at a time
    Type byte = k_.builder.getI8Type();
    Value from = k_.pointer(source_, k_.mul(first, row_step_), byte), to = k_.make<arith::AddIOp>(address, own_shared_);
    Value left = f_.narrow(k_.sub(k_.sub(k_.extent(shape_.keys), first), own_row_));
    for (int64_t row = 0; row < count; row += rows) {
      Value is_there = k_.make<arith::CmpIOp>(arith::CmpIPredicate::sgt, left, f_.word(row));
      Value bytes = f_.choose(is_there, f_.word(16), f_.word(0));  // missing ones become 0
      int64_t further = known_row_step_.value_or(0) * row;
      Value source = known_row_step_ ? from : k_.pointer(from, k_.mul(row_step_, row), byte);
      auto copy = [&] {
        f_.assembly(
            "cp.async.cg.shared.global [$0+" + std::to_string(row * row_bytes_) + "], [$1+" + std::to_string(further) + "], 16, $2;",
            "r,l,r", {to, source, bytes});
      };
      if (row + rows > count) {
        k_.branch(k_.less(own_row_, k_.index(count - row)), copy);
      } else {
        copy();
      }
    }
  }

  void fill_piece(Value row, Value at, Value extent, Value shared) const {
    Value is_there = k_.less(row, extent);
    Value inside = k_.min(row, k_.sub(extent, k_.index(1)));
    unsigned bytes = static_cast<unsigned>(lanes_ * form_.element_bytes());
    SmallVector<Value> here = index(inside, at);
    if (place_) {
      Value from = address_in_memory(here);
      // Missing bytes become 0.
      Value there = number_ == queries ? f_.word(16) : f_.choose(is_there, f_.word(16), f_.word(0));
      f_.assembly("cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", {shared, from, there});
      return;
    }
    BodyPlace place;
    place.index = std::move(here);
    auto inner = inner_dimension();
    if (inner && lanes_ > 1) {
      place.lanes = lanes_;
      place.lane_dimension = *inner;
    }
    Value value = AttentionShape::factor(k_, product(), factor(), place);
    if (number_ != queries) value = k_.make<arith::SelectOp>(is_there, value, k_.constant(value.getType(), 0));
    if (form_.tensor_cores()) {
      Type type = place.lanes > 0 ? Type(k_.vector_type(form_.element, place.lanes)) : form_.element;
      value = k_.make<arith::TruncFOp>(type, value);
    }
    f_.store_shared(value, shared, 0, bytes);
  }

  const Instructions& f_;
  KernelBuilder& k_;
  const AttentionShape& shape_;
  const AttentionForm& form_;
  ArrayRef<Value> element_;
  unsigned number_;
  int64_t inner_, lanes_, row_bytes_, pieces_;
  std::optional<AffineExpr> place_;  // in memory, over the product's domain
  std::optional<unsigned> read_;
  double scale_ = 1;
  Value row_step_;                         // bytes from one row to the next; null: not constant
  std::optional<int64_t> known_row_step_;  // the same, if it fits into an instruction's constant
  Value own_row_, source_, own_shared_;    // of this thread's first piece
};

class AttentionWriter {
 public:
  AttentionWriter(KernelBuilder& kernel, const AttentionShape& shape, const OnlineSoftmax& softmax, const AttentionForm& form)
      : k_(kernel), f_(kernel), x_(shape), softmax_(softmax), form_(form), products_(AttentionProducts::make(f_, form)) {}

  void write() {
    k_.shared(k_.builder.getI8Type(), form_.shared_bytes());
    Value parts = k_.extent(x_.queries.ceilDiv(form_.query_rows));
    // Among a few batch elements, whose keys and values fit into the second-level cache together, the largest parts come first.
    Value batches = k_.extent(product(x_.batch)), many = k_.index(form_.batches_at_once);
    Value first_batch = k_.mul(k_.div(k_.block(), k_.mul(parts, many)), many), count = k_.min(many, k_.sub(batches, first_batch));
    Value here = k_.sub(k_.block(), k_.mul(first_batch, parts)), part = k_.div(here, count);
    element_ = delinearize(k_, k_.add(first_batch, k_.rem(here, count)), x_.batch);
    if (softmax_.keys_ahead) part = k_.sub(k_.sub(parts, k_.index(1)), part);
    queries_ = k_.extent(x_.queries);
    keys_ = k_.extent(x_.keys);
    first_query_ = k_.mul(part, form_.query_rows);
    for (unsigned number : {Operand::queries, Operand::keys, Operand::values}) operands_.emplace_back(f_, x_, form_, element_, number);
    prepare();
    Values results = go_through_keys();
    finish(results);
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }
  Value number(double value) { return k_.constant(f32(), value); }
  size_t thread_rows() const { return static_cast<size_t>(form_.thread_rows); }
  size_t row_results() const { return static_cast<size_t>(products_->result_groups * products_->result_lanes); }
  Value stage(Value block) {
    Value in_ring = form_.stages == 1 ? k_.index(0) : k_.rem(block, k_.index(form_.stages));
    Value offset = k_.add(k_.mul(in_ring, form_.stage_bytes()), form_.first_stage());
    return k_.make<arith::AddIOp>(f_.shared(), f_.narrow(offset));
  }
  void commit() { f_.assembly("cp.async.commit_group;", "", {}); }

  void prepare() {
    for (size_t row = 0; row < thread_rows(); ++row)
      rows_.push_back(k_.min(k_.add(first_query_, products_->row(static_cast<int64_t>(row))), k_.sub(queries_, k_.index(1))));
    operands_[Operand::queries].fill(first_query_, form_.query_rows, f_.shared());
    operands_[Operand::queries].clear_padding(form_.query_rows, f_.shared());
    for (int64_t s = 0; s < form_.stages; ++s) operands_[Operand::keys].clear_padding(AttentionForm::keys, stage(k_.index(s)));
    if (form_.stages > 1) fill(k_.index(0));
    commit();
  }

  // Keys and values of a block, to its stage.
  void fill(Value block) {
    Value first = k_.mul(block, AttentionForm::keys), to = stage(block);
    operands_[Operand::keys].fill(first, AttentionForm::keys, to);
    Value values = k_.make<arith::AddIOp>(to, f_.word(AttentionForm::keys * form_.row_bytes(form_.depth)));
    operands_[Operand::values].fill(first, AttentionForm::keys, values);
  }

  // Per row: bases of weights, which are near the largest scores; sums of weights; results. A base depends only on its row: other rows change no bit
  // of it.
  Values go_through_keys() {
    // Keys up to `end` are read by some query; all queries read all keys of the blocks before `whole`.
    Value end = keys_, whole = k_.div(keys_, k_.index(AttentionForm::keys));
    if (softmax_.keys_ahead) {
      Value ahead = k_.add(k_.extent(*softmax_.keys_ahead), 1), zero = k_.index(0);
      Value last_query = k_.min(k_.add(first_query_, form_.query_rows), queries_);
      end = k_.max(k_.min(end, k_.add(k_.sub(last_query, k_.index(1)), ahead)), zero);
      whole = k_.min(whole, k_.div(k_.max(k_.add(first_query_, ahead), zero), k_.index(AttentionForm::keys)));
    }
    Value blocks = k_.ceil_div(end, k_.index(AttentionForm::keys));
    Values state(thread_rows(), number(-std::numeric_limits<double>::infinity()));
    state.append(thread_rows() * (1 + row_results()), number(0));
    auto known = tx::static_extent(x_.keys);
    state = k_.loop(k_.index(0), whole, k_.index(1), state,
                    [&](Value block, ValueRange carried) { return go_on(block, blocks, carried, true); });
    if (known && *known % AttentionForm::keys == 0 && !softmax_.keys_ahead) return state;
    return k_.loop(whole, blocks, k_.index(1), state,
                   [&](Value block, ValueRange carried) { return go_on(block, blocks, carried, false); });
  }

  Values go_on(Value block, Value blocks, ValueRange carried, bool all_count) {
    if (form_.stages == 1) {
      k_.barrier();
      fill(block);
      commit();
    }
    f_.assembly("cp.async.wait_all;", "", {});
    k_.barrier();
    if (form_.stages > 1) {
      Value next = k_.add(block, 1);
      k_.branch(k_.less(next, blocks), [&] { fill(next); });
      commit();
    }
    Value here = stage(block);
    Values weights = products_->scores(here);
    Value first_key = k_.mul(block, AttentionForm::keys);
    double scale = operands_[Operand::queries].scale() * operands_[Operand::keys].scale(), factor = 1;
    if (scale > 0 && softmax_.is_plain) {
      factor = scale;
    } else {
      make_arguments(weights, scale, first_key, all_count);
    }
    if (!all_count) leave_out(weights, first_key);
    if (form_.tensor_cores()) factor *= log2_of_e;
    Values next(carried.begin(), carried.end());
    size_t row_scores = weights.size() / thread_rows();
    auto scores_of = [&](size_t row) { return MutableArrayRef<Value>(weights).slice(row * row_scores, row_scores); };
    Values bases;
    Value changes;
    for (size_t r = 0; r < thread_rows(); ++r) {
      Value largest = scores_of(r).front();
      for (Value one : scores_of(r).drop_front()) largest = larger(largest, one);
      for (int64_t distance : products_->row_distances) largest = larger(largest, k_.exchange(largest, distance));
      Value enough = k_.make<arith::AddFOp>(next[r], number(most_growth / factor));
      Value grows = k_.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, largest, enough);
      bases.push_back(k_.make<arith::SelectOp>(grows, largest, next[r]));
      changes = changes ? k_.make<arith::OrIOp>(changes, grows) : grows;
    }
    // In a row in which no key counts yet, the difference from the base is not a number.
    auto number_of = [&](Value base) {
      Value nothing = k_.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, base, number(-std::numeric_limits<double>::infinity()));
      return k_.make<arith::SelectOp>(nothing, number(0), base);
    };
    Values scaled(next.begin() + static_cast<ptrdiff_t>(thread_rows()), next.end());
    scaled = k_.branch(
        any(changes), ValueRange(scaled).getTypes(),
        [&] {
          Values corrected = scaled;
          for (size_t r = 0; r < thread_rows(); ++r) {
            Value correction = exponential(next[r], factor, number_of(bases[r]));
            corrected[r] = k_.make<arith::MulFOp>(corrected[r], correction);
            for (size_t i = r * row_results(); i < (r + 1) * row_results(); ++i)
              corrected[thread_rows() + i] = k_.make<arith::MulFOp>(corrected[thread_rows() + i], correction);
          }
          return corrected;
        },
        [&] { return scaled; });
    Values results(ValueRange(scaled).drop_front(thread_rows()));
    for (size_t r = 0; r < thread_rows(); ++r) {
      Value base = number_of(bases[r]), sum = scaled[r];
      for (Value& one : scores_of(r)) {
        one = exponential(one, factor, base);
        sum = k_.make<arith::AddFOp>(sum, one);
      }
      next[r] = bases[r];
      next[thread_rows() + r] = sum;
    }
    products_->accumulate(here, weights, results);
    next.truncate(2 * thread_rows());
    next.append(results);
    return next;
  }

  // The softmax's arguments of these scores.
  void make_arguments(Values& scores, double scale, Value first_key, bool all_count) {
    auto known = tx::static_extent(x_.keys);
    bool exist = all_count || (known && *known % AttentionForm::keys == 0);
    int64_t lanes = products_->score_lanes, groups = products_->score_groups;
    for (int64_t r = 0; r < form_.thread_rows; ++r) {
      Value query = rows_[static_cast<size_t>(r)];
      for (int64_t g = 0; g < groups; ++g) {
        Value key = k_.add(first_key, products_->key(g));
        MutableArrayRef<Value> sums =
            MutableArrayRef<Value>(scores).slice(static_cast<size_t>((r * groups + g) * lanes), static_cast<size_t>(lanes));
        if (scale != 1) {
          for (Value& sum : sums) sum = k_.make<arith::MulFOp>(sum, number(scale));
        }
        if (exist && lanes > 1) {
          Value all = softmax_.argument(k_, x_, element_, query, key, vector_of(sums), lanes);
          for (auto [lane, sum] : llvm::enumerate(sums))
            sum = k_.builder.create<vector::ExtractOp>(k_.location, all, static_cast<int64_t>(lane));
          continue;
        }
        for (auto [lane, sum] : llvm::enumerate(sums)) {
          Value own = k_.add(key, static_cast<int64_t>(lane));
          if (!exist) own = k_.min(own, k_.sub(keys_, k_.index(1)));
          sum = softmax_.argument(k_, x_, element_, query, own, sum, 0);
        }
      }
    }
  }

  // Replaces the arguments of keys that do not exist, or do not count for a query, by -inf.
  void leave_out(Values& arguments, Value first_key) {
    int64_t lanes = products_->score_lanes, groups = products_->score_groups;
    SmallVector<Value> keys;
    for (int64_t g = 0; g < groups; ++g) keys.push_back(f_.narrow(products_->key(g)));
    for (int64_t r = 0; r < form_.thread_rows; ++r) {
      Value count = keys_;
      if (softmax_.keys_ahead) count = k_.min(count, k_.add(k_.add(rows_[static_cast<size_t>(r)], k_.extent(*softmax_.keys_ahead)), 1));
      Value left = f_.narrow(k_.max(k_.min(k_.sub(count, first_key), k_.index(AttentionForm::keys)), k_.index(0)));
      for (int64_t g = 0; g < groups; ++g) {
        for (int64_t lane = 0; lane < lanes; ++lane) {
          Value& one = arguments[static_cast<size_t>((r * groups + g) * lanes + lane)];
          Value counts =
              k_.make<arith::CmpIOp>(arith::CmpIPredicate::slt, k_.make<arith::AddIOp>(keys[static_cast<size_t>(g)], f_.word(lane)), left);
          one = k_.make<arith::SelectOp>(counts, one, number(-std::numeric_limits<double>::infinity()));
        }
      }
    }
  }

  Value vector_of(ValueRange elements) {
    Value vector = k_.constant(k_.vector_type(f32(), static_cast<int64_t>(elements.size())), 0);
    for (auto [lane, one] : llvm::enumerate(elements))
      vector = k_.builder.create<vector::InsertOp>(k_.location, one, vector, static_cast<int64_t>(lane));
    return vector;
  }

  // Whether the condition is true in any thread of the subgroup.
  Value any(Value condition) {
    Value found = f_.assembly("{ .reg .pred p; vote.sync.any.pred p, $1, -1; selp.b32 $0, 1, 0, p; }", "=r,b", {condition}, f_.i32());
    return k_.make<arith::CmpIOp>(arith::CmpIPredicate::ne, found, f_.word(0));
  }

  // NaN if one of them is NaN.
  Value larger(Value a, Value b) { return f_.assembly("max.NaN.f32 $0, $1, $2;", "=f,f,f", {a, b}, f32(), /*pure=*/true); }

  // e to the power of (value - base) * factor; with tensor cores 2 to that power, for which the device has an instruction. Arguments may be as large
  // as possible, for example in masks; sums of products may not.
  Value exponential(Value value, double factor, Value base) {
    Value power;
    if (softmax_.is_plain && form_.tensor_cores()) {
      power = k_.make<math::FmaOp>(value, number(factor), k_.make<arith::MulFOp>(base, number(-factor)));
    } else {
      power = k_.make<arith::SubFOp>(value, base);
      if (factor != 1) power = k_.make<arith::MulFOp>(power, number(factor));
    }
    if (!form_.tensor_cores()) return k_.make<math::ExpOp>(power);
    return f_.assembly("ex2.approx.ftz.f32 $0, $1;", "=f,f", {power}, f32(), /*pure=*/true);
  }

  void finish(const Values& state) {
    int64_t lanes = x_.columns % products_->result_lanes == 0 ? products_->result_lanes : 0;
    for (size_t r = 0; r < thread_rows(); ++r) {
      Value sum = state[thread_rows() + r];
      for (int64_t distance : products_->row_distances) sum = k_.make<arith::AddFOp>(sum, k_.exchange(sum, distance));
      Value factor = k_.make<arith::DivFOp>(number(1), sum);
      Value counts = k_.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, sum, number(0));
      Value query = k_.add(first_query_, products_->row(static_cast<int64_t>(r)));
      k_.branch(k_.less(query, queries_), [&] {
        for (int64_t g = 0; g < products_->result_groups; ++g) {
          Values group;
          for (int64_t e = 0; e < products_->result_lanes; ++e) {
            size_t at = 2 * thread_rows() + r * row_results() + static_cast<size_t>(g * products_->result_lanes + e);
            Value result = k_.make<arith::MulFOp>(state[at], factor);
            if (double scale = operands_[Operand::values].scale(); scale != 1) result = k_.make<arith::MulFOp>(result, number(scale));
            if (softmax_.nothing_is_zero) result = k_.make<arith::SelectOp>(counts, result, number(0));
            group.push_back(result);
          }
          store(query, products_->column(g), group, lanes);
        }
      });
    }
  }

  void store(Value query, Value column, const Values& group, int64_t lanes) {
    auto if_inside = [&](Value at, const std::function<void()>& body) {
      if (x_.columns == form_.columns) return body();
      k_.branch(k_.less(at, k_.index(x_.columns)), body);
    };
    if (lanes > 0) {
      return if_inside(column, [&] { x_.store(k_, element_, query, column, vector_of(group), lanes, {}); });
    }
    for (auto [e, one] : llvm::enumerate(group)) {
      Value at = k_.add(column, static_cast<int64_t>(e));
      if_inside(at, [&, sum = one] { x_.store(k_, element_, query, at, sum, 0, {}); });
    }
  }

  KernelBuilder& k_;
  Instructions f_;
  const AttentionShape& x_;
  const OnlineSoftmax& softmax_;
  const AttentionForm& form_;
  std::unique_ptr<AttentionProducts> products_;
  SmallVector<Value> element_, rows_;  // of the batch; the queries of this thread's rows, or the last one
  Value queries_, keys_, first_query_;
  std::vector<Operand> operands_;
};

}  // namespace

std::optional<AttentionForm> AttentionForm::choose(const AttentionShape& shape, int64_t shared_memory_bytes) {
  AttentionForm form;
  bool is_half = shape.element && (shape.element.isF16() || shape.element.isBF16()), tensor_cores = is_half || shape.cast_from;
  form.element = is_half ? shape.element : shape.cast_from ? shape.cast_from : Float32Type::get(shape.queries.getContext());
  form.splits_weights = tensor_cores && !is_half;
  form.depth = llvm::alignTo(static_cast<uint64_t>(shape.depth), row_alignment);
  form.columns = llvm::alignTo(static_cast<uint64_t>(shape.columns), tensor_cores ? row_alignment : 64);
  if (form.depth > most_columns || form.columns > most_columns) return std::nullopt;
  int64_t batch = 1;
  for (AffineExpr extent : shape.batch) batch *= std::max<int64_t>(1, tx::static_extent(extent).value_or(1));
  auto queries = tx::static_extent(shape.queries), keys = tx::static_extent(shape.keys);
  if (keys) form.batches_at_once = std::max<int64_t>(1, cache_bytes / (*keys * (form.depth + form.columns) * form.element_bytes()));
  struct Size {
    int64_t threads, thread_rows, query_rows;
  };
  constexpr Size matrices[] = {{128, 4, 128}, {128, 2, 64}, {64, 2, 32}}, plain[] = {{256, 4, 64}, {256, 2, 32}, {256, 1, 16}};
  for (const Size& size : tensor_cores ? matrices : plain) {
    bool is_last = &size == &(tensor_cores ? matrices : plain)[2];
    if (tensor_cores && size.thread_rows == 4 && form.columns > most_columns / 2) continue;  // limited by registers
    bool fits = queries && *queries > size.query_rows / 2 && batch * llvm::divideCeilSigned(*queries, size.query_rows) >= enough_workgroups;
    bool is_usual = !queries && size.query_rows == 64;
    if (!fits && !is_usual && !is_last) continue;
    form.threads = size.threads;
    form.thread_rows = size.thread_rows;
    form.query_rows = size.query_rows;
    for (form.stages = 2; form.stages > 0; --form.stages) {
      if (form.shared_bytes() <= shared_memory_bytes) return form;
    }
  }
  return std::nullopt;
}

std::string AttentionForm::name() const {
  return std::to_string(query_rows) + " queries, " + std::to_string(stages) + " x " + std::to_string(keys) + " keys" +
         (splits_weights ? ", weights in two parts" : "");
}

// plan() and emit() read the same.
struct Attention::Read {
  AttentionShape shape;
  OnlineSoftmax softmax;
  AttentionForm form;
};

FailureOr<Attention::Read> Attention::read(tx::DispatchOp region) const {
  auto shape = AttentionShape::read(region, "cuda");
  if (failed(shape)) return failure();
  Read result;
  result.shape = std::move(*shape);
  auto softmax = OnlineSoftmax::read(result.shape, "cuda");
  if (failed(softmax)) return failure();
  result.softmax = *softmax;
  auto form = AttentionForm::choose(result.shape, shared_memory_bytes_);
  if (!form) return FailureOr<Read>(region.emitError("cuda: attention: no tile fits into shared memory and registers"));
  if (!result.shape.has_neighboring_columns())
    return FailureOr<Read>(region.emitError("cuda: attention: the columns of a result are not contiguous"));
  result.form = *form;
  return result;
}

FailureOr<Plans> Attention::plans(tx::DispatchOp region) const {
  auto found = read(region);
  if (failed(found)) return failure();
  KernelPlan plan;
  plan.workgroups = product(found->shape.batch) * found->shape.queries.ceilDiv(found->form.query_rows);
  return Plans{plan};
}

FailureOr<KernelResources> Attention::emit(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels) const {
  auto found = read(region);
  if (failed(found)) return failure();
  std::unique_ptr<KernelBuilder> kernel = open_(region, plan, symbol, kernels, found->form.threads);
  AttentionWriter(*kernel, found->shape, found->softmax, found->form).write();
  kernel->finish();
  KernelResources resources;
  resources.workgroup_size = static_cast<uint32_t>(found->form.threads);
  resources.subgroup_size = subgroup_size;
  resources.shared_memory_bytes = static_cast<uint64_t>(kernel->shared_bytes());
  resources.rung = found->form.name();
  return resources;
}

}  // namespace heddle::targets::cuda
