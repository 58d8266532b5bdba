// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul of few rows with a transposed matrix as it lies, [N, K], and the element-wise ops on its result. Vectors go along K, so that the matrix is only
// read, once. Called by the target.
#include "compiler/ir/dot_products.h"

#include "compiler/targets/operand_view.h"
#include "compiler/targets/x86_64/contraction_epilogue.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr int64_t block_columns = 16;  // of a workgroup: rows of the matrix

struct DotProducts {
  Epilogue epilogue;
  unsigned lhs = 0, rhs = 0;        // bindings
  AffineExpr lhs_start, rhs_start;  // first elements in their bindings
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t lhs_row = 0, rhs_row = 0, pitch = 0;  // elements from one row to the next

  // Fails without a diagnostic for a region of another kind.
  static FailureOr<DotProducts> read(tx::DispatchOp region) {
    tx::MatmulOp matmul;
    for (Operation& op : region.getBody().front()) {
      if (!tx::is_contraction(&op)) continue;
      if (matmul) return failure();
      matmul = llvm::dyn_cast<tx::MatmulOp>(op);
      if (!matmul || !matmul.getTransposeRhs() || matmul.getBlocks()) return failure();
    }
    if (!matmul) return failure();
    for (Value value : {matmul.getLhs(), matmul.getRhs(), matmul.getResult()}) {
      Type element = tx::element_of(value);
      if (!element.isF32()) return matmul.emitError("x86_64: dot products of ") << element << " are not supported; those of f32 are";
    }
    if (matmul.getTransposeLhs() || matmul.getZero())
      return matmul.emitError("x86_64: dot products take no transposed left side, and no zeros");
    auto lhs = OperandView::of(matmul.getLhs()), rhs = OperandView::of(matmul.getRhs());
    if (!lhs || !rhs)
      return matmul.emitError("x86_64: a contraction's operands must be inputs of its region, or slices of them without strides");
    RankedTensorType left = tx::tensor(matmul.getLhs()), right = tx::tensor(matmul.getRhs());
    if (!left.hasStaticShape() || !right.hasStaticShape() || right.getRank() != 2)
      return matmul.emitError("x86_64: dot products need static extents, and one matrix on the right side");
    DotProducts products;
    products.columns = right.getDimSize(0);
    products.depth = right.getDimSize(1);
    if (left.getNumElements() == 0 || right.getNumElements() == 0)
      return matmul.emitError("x86_64: dot products without elements are not supported");
    products.rows = left.getNumElements() / products.depth;
    if (products.rows > tx::most_dot_rows)
      return matmul.emitError("x86_64: dot products of ")
             << products.rows << " rows are not supported; up to " << tx::most_dot_rows << " are";
    auto lhs_row = lhs->static_step(0, lhs->extents.size() - 1), rhs_row = rhs->static_step(0, 1);
    if (!lhs_row || !rhs_row) return matmul.emitError("x86_64: a matmul reads only slices whose rows are at the same distance");
    products.lhs_row = *lhs_row;
    products.rhs_row = *rhs_row;
    products.lhs = lhs->binding.getArgNumber();
    products.rhs = rhs->binding.getArgNumber();
    products.lhs_start = lhs->start;
    products.rhs_start = rhs->start;
    products.pitch = static_cast<int64_t>(region.getPitch().value_or(products.columns));
    auto epilogue = Epilogue::read(region, matmul);
    if (failed(epilogue)) return failure();
    products.epilogue = std::move(*epilogue);
    return products;
  }

  int64_t blocks() const { return llvm::divideCeilSigned(columns, block_columns); }
};

class DotWriter {
 public:
  DotWriter(KernelBuilder& kernel, const DotProducts& products) : k_(kernel), products_(products), lanes_(kernel.level.f32_lanes()) {}

  void write() {
    sums_ = k_.stack(4 * products_.rows * block_columns * lanes_);
    lhs_ = k_.pointer(k_.operand(products_.lhs), k_.extent(products_.lhs_start), f32());
    rhs_ = k_.pointer(k_.operand(products_.rhs), k_.extent(products_.rhs_start), f32());
    const int64_t width = width_of(products_.rows);
    k_.for_workgroups([&](Value workgroup) {
      Value first = k_.mul(workgroup, block_columns), count = k_.min(k_.sub(k_.index(products_.columns), first), k_.index(block_columns));
      k_.loop(k_.index(0), count, k_.index(width), [&](Value column) { multiply(first, column, width); });
      k_.loop(k_.index(0), k_.index(products_.rows), [&](Value row) {
        for (int64_t part = 0; part < block_columns; part += lanes_) finish(row, first, part);
      });
    });
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }
  VectorType vector() { return k_.vector_type(f32(), lanes_); }

  // Rows of the matrix that are read together: as many as leave room for their sums with `rows` rows, and for a vector of each.
  int64_t width_of(int64_t rows) const {
    int64_t width = 8;
    while (width > 1 && rows * width + std::min(rows, width) + 1 > k_.level.register_count) width /= 2;
    return width;
  }

  Value place_of_sums(Value row, Value column) { return k_.mul(k_.add(k_.mul(row, block_columns), column), lanes_); }

  // Vectors of sums of all rows with `width` rows of the matrix, from `column` of the block on. Instead of those behind the last one, the last one is
  // read again.
  void multiply(Value first, Value column, int64_t width) {
    const int64_t height = products_.rows;
    SmallVector<Value> matrix, rows;
    for (int64_t j = 0; j < width; ++j) {
      Value own = k_.add(k_.add(first, column), j);
      if (products_.columns % block_columns != 0) own = k_.min(own, k_.index(products_.columns - 1));
      matrix.push_back(k_.pointer(rhs_, k_.mul(own, products_.rhs_row), f32()));
    }
    for (int64_t i = 0; i < height; ++i) rows.push_back(k_.pointer(lhs_, k_.index(i * products_.lhs_row), f32()));
    auto step = [&](Value depth, ValueRange sums, Value mask) {
      KernelBuilder::Values factors, next;
      for (Value one : matrix) factors.push_back(k_.load(one, depth, f32(), lanes_, mask));
      for (int64_t i = 0; i < height; ++i) {
        Value own = k_.load(rows[static_cast<size_t>(i)], depth, f32(), lanes_, mask);
        for (int64_t j = 0; j < width; ++j)
          next.push_back(k_.make<vector::FMAOp>(own, factors[static_cast<size_t>(j)], sums[static_cast<size_t>(i * width + j)]));
      }
      return next;
    };
    KernelBuilder::Values sums(static_cast<size_t>(height * width), k_.constant(vector(), 0));
    const int64_t whole = products_.depth / lanes_ * lanes_;
    if (whole > 0) {
      sums = k_.loop(k_.index(0), k_.index(whole), k_.index(lanes_), sums,
                     [&](Value depth, ValueRange carried) { return step(depth, carried, {}); });
    }
    if (whole < products_.depth) sums = step(k_.index(whole), sums, k_.remainder_mask(k_.index(products_.depth - whole), lanes_));
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j)
        k_.store(sums[static_cast<size_t>(i * width + j)], sums_, place_of_sums(k_.index(i), k_.add(column, j)));
    }
  }

  // The results of one row in a vector's columns of the block.
  void finish(Value row, Value first, int64_t part) {
    SmallVector<Value> vectors;
    for (int64_t lane = 0; lane < lanes_; ++lane)
      vectors.push_back(k_.load(sums_, place_of_sums(row, k_.index(part + lane)), f32(), lanes_));
    Value column = k_.add(first, part);
    Value mask = products_.columns % block_columns != 0 ? k_.remainder_mask(k_.sub(k_.index(products_.columns), column), lanes_) : Value();
    Value at = k_.add(k_.mul(row, products_.pitch), column);
    k_.store(products_.epilogue.emit_at(k_, sum_of_each(vectors), at, column, mask), k_.result(0), at, mask);
  }

  // Lane l is the sum of the lanes of vectors[l]. Each step adds the halves of two vectors' blocks of lanes, which are partial sums of one vector.
  Value sum_of_each(SmallVector<Value> vectors) {
    for (int64_t block = lanes_; block > 1; block /= 2) {
      const size_t half = vectors.size() / 2;
      for (size_t i = 0; i < half; ++i) {
        SmallVector<int64_t> low, high;
        for (int64_t from = 0; from < lanes_; from += block) {
          for (int64_t vector : {int64_t{0}, lanes_}) {
            for (int64_t lane = 0; lane < block / 2; ++lane) {
              low.push_back(vector + from + lane);
              high.push_back(vector + from + block / 2 + lane);
            }
          }
        }
        auto lanes = [&](ArrayRef<int64_t> which) -> Value {
          return k_.builder.create<vector::ShuffleOp>(k_.location, vectors[i], vectors[i + half], which);
        };
        vectors[i] = k_.make<arith::AddFOp>(lanes(low), lanes(high));
      }
      vectors.truncate(half);
    }
    return vectors.front();
  }

  KernelBuilder& k_;
  const DotProducts& products_;
  int64_t lanes_;
  Value sums_, lhs_, rhs_;
};

}  // namespace

FailureOr<Plans> plans_dot_products(tx::DispatchOp region) {
  auto products = DotProducts::read(region);
  if (failed(products)) return failure();
  KernelPlan plan{getAffineConstantExpr(products->blocks(), region.getContext())};
  constexpr double elements_per_ns = 2.5, products_per_ns = 40;  // of the matrix, from memory; in registers
  const double elements = static_cast<double>(std::min(products->columns, block_columns)) * static_cast<double>(products->depth);
  plan.cost_ns =
      static_cast<uint64_t>(std::max(elements / elements_per_ns, elements * static_cast<double>(products->rows) / products_per_ns)) + 1;
  plan.works_in_place = true;
  plan.stores_rows_apart = !products->epilogue.reads_full();  // which would be read at the same pitch
  return Plans{plan};
}

FailureOr<KernelResources> emit_dot_products(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels,
                                             const Level& level) {
  auto products = DotProducts::read(region);
  if (failed(products)) return failure();
  KernelBuilder kernel(region, symbol, kernels, level);
  DotWriter(kernel, *products).write();
  kernel.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
