// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tx.pack: copies rows of K to panels in the order in which microkernels read them. Called by contraction. A workgroup takes whole source rows, so
// that reading is sequential; a transposed matrix or filter is read as it is, so these are columns.
#include "compiler/targets/x86_64/strategies.h"

#include "compiler/ir/filter_order.h"
#include "compiler/targets/x86_64/contraction_shape.h"
#include "compiler/targets/x86_64/panel_columns.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

struct PackShape {
  DepthOrder order;
  int64_t groups = 1, columns = 1;  // of one group
  unsigned source = 0;
  Type element;                    // f32, or integers of as many bits as others have
  bool plain = false;              // depthwise: the filter as it is, then zeros
  bool winograd = false;           // a filter of 3 x 3, transformed to 16 matrices
  bool transposed = false;         // the source is [columns of all groups, depth]
  bool channels_first = false;     // then: depth is [channels, taps]
  int64_t rows_per_workgroup = 1;  // of K; for a transposed source, units of a panel's columns

  int64_t depth() const { return order.depth(); }
  int64_t units() const { return llvm::divideCeilSigned(columns, Panels::unit); }  // of one group
  int64_t rows() const { return winograd ? order.channels : transposed ? groups * units() : depth(); }
  int64_t workgroups() const { return llvm::divideCeilSigned(rows(), rows_per_workgroup); }

  static FailureOr<PackShape> read(tx::DispatchOp region) {
    Block& block = region.getBody().front();
    auto yield = llvm::cast<tx::YieldOp>(block.getTerminator());
    auto op = yield.getValues().size() == 1 ? yield.getValues().front().getDefiningOp<tx::PackOp>() : tx::PackOp();
    auto transpose = op ? op.getInput().getDefiningOp<tx::TransposeOp>() : tx::TransposeOp();
    auto source = op ? llvm::dyn_cast<BlockArgument>(transpose ? transpose.getInput() : op.getInput()) : BlockArgument();
    if (!source || !llvm::hasNItems(block, transpose ? 3 : 2)) {
      return region.emitError("x86_64: a tx.pack must be alone in its region, or with a transpose before it");
    }
    auto type = llvm::cast<RankedTensorType>(op.getInput().getType());
    Type element = type.getElementType();
    bool is_narrow = llvm::is_contained({8u, 16u}, element.getIntOrFloatBitWidth());
    if (!type.hasStaticShape() || (!element.isF32() && !is_narrow) || type.getRank() < 2) {
      return op.emitError("x86_64: a tx.pack takes a static tensor of two or more dimensions, of f32 or of elements of 8 or 16 bits");
    }
    PackShape shape;
    shape.element = is_narrow ? Type(IntegerType::get(op.getContext(), element.getIntOrFloatBitWidth())) : element;
    shape.transposed = transpose != nullptr;
    shape.source = source.getArgNumber();
    shape.groups = op.getGroups();
    int64_t taps = 1;
    for (int64_t extent : type.getShape().drop_back(2)) taps *= extent;
    shape.order = DepthOrder::of(taps, type.getShape()[type.getRank() - 2]);
    if (type.getShape().back() % shape.groups != 0) return op.emitError("x86_64: groups do not divide the columns");
    shape.columns = type.getShape().back() / shape.groups;
    if (type.getNumElements() == 0) return op.emitError("x86_64: a tx.pack without elements is not supported");
    shape.winograd = op.getWinograd();
    if (shape.winograd && is_narrow) return op.emitError("x86_64: a filter of fewer than 32 bits cannot be transformed");
    shape.plain = shape.groups > 1 && shape.columns == 1 && shape.order.channels == 1;
    if (transpose) {
      auto channels_first = tx::stores_channels_first(transpose);
      if (!channels_first || shape.winograd || shape.plain)
        return op.emitError("x86_64: a tx.pack reads only matrices and filters transposed whose columns are stored one after the other");
      shape.channels_first = *channels_first;
    }
    constexpr int64_t workgroup_bytes = 256 * 1024;
    int64_t row = shape.transposed ? Panels::unit * shape.depth() : shape.groups * shape.columns * (shape.winograd ? winograd_matrices : 1);
    shape.rows_per_workgroup = std::max<int64_t>(1, workgroup_bytes / (4 * row));
    return shape;
  }
};

class PackWriter {
 public:
  PackWriter(KernelBuilder& kernel, const PackShape& shape)
      : k_(kernel), shape_(shape), panels_(Panels::own(shape.columns, kernel.level)) {}

  void write() {
    k_.for_workgroups([&](Value workgroup) {
      Value first = k_.mul(workgroup, shape_.rows_per_workgroup);
      Value last = k_.min(k_.add(first, shape_.rows_per_workgroup), k_.index(shape_.rows()));
      k_.loop(first, last, [&](Value row) {
        if (shape_.winograd) return write_transformed(row);
        shape_.transposed ? write_columns(row) : shape_.plain ? write_plain(row) : write_row(row);
      });
    });
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }

  // Row [channel block][tap][channel in block] of a panel.
  Value target_row(Value tap, Value channel) {
    const DepthOrder& order = shape_.order;
    Value block = k_.div(channel, k_.index(order.block)), inside = k_.rem(channel, k_.index(order.block));
    return k_.add(k_.mul(k_.add(k_.mul(block, order.taps), tap), order.block), inside);
  }

  // Row [tap][channel] of the source to a row of every panel.
  void write_row(Value row) {
    const DepthOrder& order = shape_.order;
    Value to_row = row;
    if (order.blocks() > 1) to_row = target_row(k_.div(row, k_.index(order.channels)), k_.rem(row, k_.index(order.channels)));
    k_.loop(k_.index(0), k_.index(shape_.groups), [&](Value group) {
      Value source = k_.pointer(k_.operand(shape_.source),
                                k_.add(k_.mul(row, shape_.groups * shape_.columns), k_.mul(group, shape_.columns)), shape_.element);
      Value target = k_.pointer(k_.result(0), k_.mul(group, shape_.depth() * panels_.padded_columns()), shape_.element);
      for_panels([&](Value from, int64_t width, int64_t columns) {
        Value to = k_.add(k_.mul(from, shape_.depth()), k_.mul(to_row, width));
        copy(k_.pointer(target, to, shape_.element), k_.pointer(source, from, shape_.element), width, columns);
      });
    });
  }

  // Panels of a group: their first column, their width, and how many of their columns exist.
  void for_panels(const std::function<void(Value, int64_t, int64_t)>& visit) {
    auto span = [&](int64_t first, int64_t last, int64_t units, int64_t columns) {
      if (first >= last) return;
      k_.loop(k_.index(first), k_.index(last),
              [&](Value panel) { visit(k_.mul(first_unit(k_, panels_, panel), Panels::unit), units * Panels::unit, columns); });
    };
    int64_t whole = panels_.columns % Panels::unit == 0 ? panels_.count : panels_.count - 1;
    span(0, std::min(panels_.wide_count, whole), panels_.wide, panels_.wide * Panels::unit);
    span(panels_.wide_count, whole, panels_.wide - 1, (panels_.wide - 1) * Panels::unit);
    if (whole < panels_.count) {
      int64_t units = whole < panels_.wide_count ? panels_.wide : panels_.wide - 1;
      span(whole, panels_.count, units, panels_.columns - panels_.first_unit(whole) * Panels::unit);
    }
  }

  // Row `channel` of the panels of all 16 matrices G g G^T, in which g is the filter of a channel and a column, and G = [1 0 0; 1/2 1/2 1/2;
  // 1/2 -1/2 1/2; 0 0 1] (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015). In f64, since f32 would save nothing.
  void write_transformed(Value channel) {
    const int64_t lanes = k_.level.f32_lanes(), channels = shape_.order.channels, columns = shape_.columns;
    VectorType wide = k_.vector_type(k_.builder.getF64Type(), lanes), narrow = k_.vector_type(f32(), lanes);
    Value half = k_.constant(wide, 0.5);
    // Applies G to three values, giving four.
    auto transformed = [&](Value a, Value b, Value c) {
      Value outer = k_.make<arith::MulFOp>(k_.make<arith::AddFOp>(a, c), half), inner = k_.make<arith::MulFOp>(b, half);
      return std::array<Value, 4>{a, k_.make<arith::AddFOp>(outer, inner), k_.make<arith::SubFOp>(outer, inner), c};
    };
    for_panels([&](Value from, int64_t width, int64_t exist) {
      for (int64_t i = 0; i < width; i += lanes) {
        auto element = [&](int64_t tap) -> Value {
          if (i >= exist) return k_.constant(wide, 0.0);
          Value at = k_.add(k_.mul(k_.add(k_.index(tap * channels), channel), columns), k_.add(from, i));
          Value mask = i + lanes <= exist ? Value() : k_.remainder_mask(k_.index(exist - i), lanes);
          return k_.make<arith::ExtFOp>(wide, k_.load(k_.operand(shape_.source), at, f32(), lanes, mask));
        };
        std::array<std::array<Value, 4>, 3> across;  // by columns of the window
        for (int64_t s = 0; s < 3; ++s) across[s] = transformed(element(s), element(3 + s), element(6 + s));
        for (int64_t r = 0; r < 4; ++r) {
          std::array<Value, 4> row = transformed(across[0][r], across[1][r], across[2][r]);
          for (int64_t s = 0; s < 4; ++s) {
            Value to =
                k_.add(k_.mul(from, channels), k_.add(k_.mul(channel, width), (r * 4 + s) * channels * panels_.padded_columns() + i));
            k_.store(k_.make<arith::TruncFOp>(narrow, row[s]), k_.result(0), to);
          }
        }
      }
    });
  }

  // A unit of columns, each of which is contiguous along K in the source.
  void write_columns(Value unit) {
    Value group = k_.index(0);
    if (shape_.groups > 1) {
      group = k_.div(unit, k_.index(shape_.units()));
      unit = k_.rem(unit, k_.index(shape_.units()));
    }
    const int64_t depth = shape_.depth();
    Value wide_units = k_.index(panels_.wide_count * panels_.wide), is_wide = k_.less(unit, wide_units);
    Value units = k_.index(panels_.wide), inside = k_.rem(unit, units);
    if (panels_.wide > 1) {
      Value narrow = k_.index(panels_.wide - 1), behind = k_.max(k_.sub(unit, wide_units), k_.index(0));
      units = k_.make<arith::SelectOp>(is_wide, units, narrow);
      inside = k_.make<arith::SelectOp>(is_wide, inside, k_.rem(behind, narrow));
    }
    Value start = k_.add(k_.mul(k_.sub(unit, inside), Panels::unit * depth), k_.mul(inside, Panels::unit));
    start = k_.add(start, k_.mul(group, depth * panels_.padded_columns()));
    Value target = k_.pointer(k_.result(0), start, shape_.element), step = k_.mul(units, Panels::unit);
    Value first = k_.add(k_.mul(group, shape_.columns), k_.mul(unit, Panels::unit));
    PanelColumns columns{k_.pointer(k_.operand(shape_.source), k_.mul(first, depth), shape_.element), depth, target, step, depth};
    if (shape_.order.taps > 1) {
      columns.row_of = [&](Value element) {
        const DepthOrder& order = shape_.order;
        Value run = k_.index(shape_.channels_first ? order.taps : order.channels), outer = k_.div(element, run),
              inner = k_.rem(element, run);
        return target_row(shape_.channels_first ? inner : outer, shape_.channels_first ? outer : inner);
      };
    }
    if (shape_.columns % Panels::unit != 0)
      columns.existing = k_.min(k_.sub(k_.index(shape_.columns), k_.mul(unit, Panels::unit)), k_.index(Panels::unit));
    x86_64::write_columns(k_, shape_.element, columns);
  }

  // `valid` elements, then zeros up to `elements`.
  void copy(Value target, Value source, int64_t elements, int64_t valid) {
    int64_t lanes = k_.level.f32_lanes();
    for (int64_t i = 0; i < elements; i += lanes) {
      Value value;
      if (i + lanes <= valid) {
        value = k_.load(source, k_.index(i), shape_.element, lanes);
      } else if (i < valid) {
        value = k_.load(source, k_.index(i), shape_.element, lanes, k_.remainder_mask(k_.index(valid - i), lanes));
      } else {
        value = k_.constant(k_.vector_type(shape_.element, lanes), 0.0);
      }
      k_.store(value, target, k_.index(i));
    }
  }

  // Depthwise filters stay as they are, at the start of the op's result.
  void write_plain(Value row) {
    k_.loop(k_.index(0), k_.index(shape_.groups), [&](Value group) {
      Value at = k_.add(k_.mul(row, shape_.groups), group);
      k_.store(k_.load(k_.operand(shape_.source), at, shape_.element), k_.result(0), at);
      Value rest = k_.add(k_.mul(at, Panels::unit - 1), shape_.depth() * shape_.groups);
      Value zero = k_.constant(shape_.element, 0.0);
      for (int64_t i = 0; i < Panels::unit - 1; ++i) k_.store(zero, k_.result(0), k_.add(rest, i));
    });
  }

  KernelBuilder& k_;
  const PackShape& shape_;
  Panels panels_;
};

}  // namespace

FailureOr<Plans> plans_pack(tx::DispatchOp region) {
  if (region.getBody().front().getOps<tx::PackOp>().empty()) return failure();
  auto shape = PackShape::read(region);
  if (failed(shape)) return failure();
  KernelPlan plan;
  plan.workgroups = getAffineConstantExpr(shape->workgroups(), region.getContext());
  constexpr int64_t bytes_per_ns = 5;
  plan.cost_ns = static_cast<uint64_t>(shape->rows_per_workgroup * shape->groups * shape->columns *
                                       (shape->winograd ? 4 * (9 + winograd_matrices) : 8) / bytes_per_ns) +
                 1;
  return Plans{plan};
}

FailureOr<KernelResources> emit_pack(tx::DispatchOp region, const KernelPlan&, StringRef symbol, ModuleOp kernels, const Level& level) {
  auto shape = PackShape::read(region);
  if (failed(shape)) return failure();
  KernelBuilder kernel(region, symbol, kernels, level);
  PackWriter(kernel, *shape).write();
  kernel.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
