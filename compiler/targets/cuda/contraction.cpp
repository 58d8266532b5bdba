// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions: tiled where that is possible, else the last rung of the ladder, which does any matmul and convolution and needs no shared
// memory: every thread sums up its own elements of the result, then applies the element-wise ops behind them.
#include "compiler/targets/cuda/strategy.h"

#include "compiler/targets/cuda/tiled_contraction.h"
#include "compiler/targets/root_values.h"
#include "compiler/targets/scalar_body.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

class ThreadContractionPart final : public Part {
 public:
  ThreadContractionPart(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, tx::TransposeOp transpose, int64_t threads)
      : region_(region), outputs_(outputs), root_(root), transpose_(transpose), extents_(tx::extents(tx::tensor(root->getResult(0)))) {
    lanes_ = transpose ? 1 : lanes_for(extents_.back(), outputs_);
    if (auto conv = llvm::dyn_cast<tx::ConvOp>(root); conv && group_columns(conv) > 1) {
      while (lanes_ > 1 && group_columns(conv) % lanes_ != 0) lanes_ /= 2;
    }
    if (lanes_ == 1) lanes_ = 0;
    space_.emplace(extents_, 1, lanes_, threads);
  }

  AffineExpr workgroups() const override { return space_->workgroups(); }
  std::string rung() const override { return "one thread a result"; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    space_->emit(k, block, [&](ArrayRef<Value> outer, Value inner) {
      ElementEvaluator evaluator(k, region_);
      Point point;
      point.lanes = lanes_;
      for (Value index : outer) point.at.push_back({index, 0, {}});
      point.at.push_back({inner, lanes_ > 0 ? 1 : 0, {}});
      auto conv = llvm::dyn_cast<tx::ConvOp>(root_);
      Value sum = conv ? convolve(k, evaluator, conv, point) : multiply(k, evaluator, llvm::cast<tx::MatmulOp>(root_), point);
      if (!sum) {
        all = failure();
        return;
      }
      evaluator.set(root_->getResult(0), sum);
      if (!transpose_) {
        all = store_outputs(k, evaluator, outputs_, point);
      } else if (Value element = evaluator.element(outputs_[0].value, point)) {
        store_transposed(k, evaluator, element, outputs_[0].result, transpose_, point);
      } else {
        all = failure();
      }
    });
    return all;
  }

 private:
  static int64_t group_columns(tx::ConvOp conv) {
    return tx::tensor(conv.getFilter()).getShape().back() / static_cast<int64_t>(conv.getGroups());
  }

  Value zero(KernelBuilder& k) const {
    Type type = compute_type(tx::tensor(root_->getOperand(0)).getElementType());
    return k.constant(lanes_ > 0 ? Type(k.vector_type(type, lanes_)) : type, 0);
  }

  // sum + a * b, where each may be one value for all lanes.
  Value multiply_add(KernelBuilder& k, ElementEvaluator& evaluator, Value a, Value b, Value sum) const {
    a = evaluator.to_lanes(a, lanes_);
    b = evaluator.to_lanes(b, lanes_);
    if (llvm::isa<FloatType>(getElementTypeOrSelf(sum.getType()))) return k.make<math::FmaOp>(a, b, sum);
    return k.make<arith::AddIOp>(k.make<arith::MulIOp>(a, b), sum);
  }

  Value multiply(KernelBuilder& k, ElementEvaluator& evaluator, tx::MatmulOp matmul, const Point& point) const {
    auto lhs_extents = tx::extents(tx::tensor(matmul.getLhs()));
    bool known = true;
    Value depth = k.extent(lhs_extents[lhs_extents.size() - (matmul.getTransposeLhs() ? 2 : 1)]);
    Value sum = k.loop(k.index(0), depth, k.index(1), ValueRange(zero(k)), [&](Value d, ValueRange values) {
      Point lhs = point, rhs = point;
      size_t rank = point.at.size(), rhs_rank = static_cast<size_t>(tx::tensor(matmul.getRhs()).getRank());
      lhs.at[rank - 1] = {d, 0, {}};
      if (matmul.getTransposeLhs()) std::swap(lhs.at[rank - 1], lhs.at[rank - 2]);
      rhs.at[rank - 2] = {d, 0, {}};
      if (matmul.getTransposeRhs()) std::swap(rhs.at[rank - 1], rhs.at[rank - 2]);
      rhs.at.erase(rhs.at.begin(), rhs.at.end() - static_cast<ptrdiff_t>(rhs_rank));
      Value a = evaluator.element(matmul.getLhs(), lhs), b = evaluator.element(matmul.getRhs(), rhs);
      known &= a && b;
      return KernelBuilder::Values{known ? multiply_add(k, evaluator, a, b, values[0]) : values[0]};
    })[0];
    return known ? sum : Value();
  }

  Value convolve(KernelBuilder& k, ElementEvaluator& evaluator, tx::ConvOp conv, const Point& point) const {
    auto filter = tx::tensor(conv.getFilter());
    auto in_extents = tx::extents(tx::tensor(conv.getInput()));
    int64_t spatial = filter.getRank() - 2, channels = filter.getDimSize(spatial);
    bool depthwise = channels == 1 && group_columns(conv) == 1, known = true;
    Coordinate column = point.at.back();
    Value first_channel = conv.getGroups() == 1 ? k.index(0) : k.mul(k.div(column.base, k.index(group_columns(conv))), channels);
    SmallVector<Range> taps;
    for (int64_t d = 0; d < spatial; ++d) taps.push_back({k.index(0), k.index(filter.getDimSize(d))});
    SmallVector<Value> index;
    Value sum = nested_loops(k, taps, index, ValueRange(zero(k)), [&](ArrayRef<Value> tap, ValueRange carried) -> KernelBuilder::Values {
      Point in = point, weight = point;
      Value inside;
      for (int64_t d = 0; d < spatial; ++d) {
        Value at =
            k.add(k.add(k.mul(point.at[d + 1].base, conv.getStrides()[d]), k.mul(tap[d], conv.getDilations()[d])), -conv.getPadsLow()[d]);
        in.at[d + 1].base = at;
        weight.at[d] = {tap[d], 0, {}};
        Value here = k.make<arith::AndIOp>(k.make<arith::CmpIOp>(arith::CmpIPredicate::sge, at, k.index(0)),
                                           k.less(at, k.extent(in_extents[d + 1])));
        inside = inside ? k.make<arith::AndIOp>(inside, here) : here;
      }
      auto add_channels = [&]() -> KernelBuilder::Values {
        return k.loop(k.index(0), k.index(channels), k.index(1), carried, [&](Value channel, ValueRange values) -> KernelBuilder::Values {
          in.at.back() = depthwise ? column : Coordinate{k.add(first_channel, channel), 0, {}};
          weight.at.resize(spatial);
          weight.at.push_back({channel, 0, {}});
          weight.at.push_back(column);
          Value a = evaluator.element(conv.getInput(), in), b = evaluator.element(conv.getFilter(), weight);
          known &= a && b;
          return {known ? multiply_add(k, evaluator, a, b, values[0]) : values[0]};
        });
      };
      return k.branch(inside, carried.getTypes(), add_channels, [&] { return KernelBuilder::Values(carried); });
    })[0];
    return known ? sum : Value();
  }

  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  Operation* root_;
  tx::TransposeOp transpose_;
  SmallVector<AffineExpr> extents_;
  int64_t lanes_;
  std::optional<ThreadSpace> space_;
};

}  // namespace

void store_transposed(KernelBuilder& k, ElementEvaluator& evaluator, Value elements, unsigned result, tx::TransposeOp transpose,
                      const Point& read) {
  Point written = read;
  for (auto [i, p] : llvm::enumerate(transpose.getPermutation())) written.at[i] = read.at[p];
  evaluator.store(elements, k.result(result), tx::tensor(transpose.getResult()), written);
}

Parts contraction_parts(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, tx::TransposeOp transpose, const Budget& budget) {
  Parts parts;
  // Tiles are laid out for the usual number of threads.
  auto part = budget.threads == usual_threads ? tile_part(region, outputs, root, transpose, budget) : nullptr;
  if (part) {
    parts.push_back(std::move(part));
  } else {
    parts.push_back(std::make_unique<ThreadContractionPart>(region, outputs, root, transpose, budget.threads));
  }
  return parts;
}

}  // namespace heddle::targets::cuda
