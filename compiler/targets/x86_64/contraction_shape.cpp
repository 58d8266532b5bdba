// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a region into a ContractionShape and chooses its tiling. Called by contraction's plan and emit, pack and depthwise.
#include "compiler/targets/x86_64/contraction_shape.h"

#include <cmath>

#include "compiler/targets/operand_view.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

AffineExpr product(ArrayRef<AffineExpr> extents, MLIRContext* context) {
  AffineExpr result = getAffineConstantExpr(1, context);
  for (AffineExpr extent : extents) result = result * extent;
  return result;
}

// Elements of the region's result from one row to the next.
int64_t pitch_of(Operation* root, int64_t columns) {
  return static_cast<int64_t>(llvm::cast<tx::DispatchOp>(root->getParentOp()).getPitch().value_or(columns));
}

// With fewer rows between gaps, a copy without gaps is faster, since each of these rows would read all of B.
constexpr int64_t fewest_rows_between_gaps = 24;

// Tilings are ranked as if a symbolic K were this.
constexpr int64_t usual_depth = 1024;

LogicalResult read_matmul(tx::MatmulOp op, const OperandView& lhs, const OperandView& rhs, ContractionShape& shape) {
  MLIRContext* context = op.getContext();
  ArrayRef<AffineExpr> a = lhs.extents, b = rhs.extents;
  shape.packed = op.getPackedShape().has_value();
  shape.transposed = op.getTransposeRhs();
  if (op.getTransposeLhs() || (shape.transposed && (b.size() != 2 || !shape.rhs_element.isF32() || op.getBlocks()))) {
    return op.emitError(
        "x86_64: of a matmul's operands, only a matrix of f32 on the right side may be transposed; others need a tx.transpose");
  }
  auto depth = tx::static_extent(a.back());
  auto columns = shape.packed ? std::optional<int64_t>(op.getPackedShape()->back()) : tx::static_extent(shape.transposed ? b[0] : b.back());
  if ((!depth && shape.in_panels()) || !columns) {
    return op.emitError("x86_64: a matmul needs a static extent of N, and of K if its weights are packed");
  }
  if (!depth) shape.depth = a.back();
  shape.channels = depth.value_or(usual_depth);
  shape.columns = *columns;
  shape.pitch = pitch_of(op, shape.columns);
  AffineExpr rows = a[a.size() - 2];
  const size_t batch = a.size() - 2;  // dimensions
  bool batched = !shape.packed && b.size() > 2;
  auto gaps = [&] { return op.emitError("x86_64: a matmul reads only slices whose rows are at the same distance"); };
  // With a symbolic K, rows may be at a symbolic distance.
  auto lhs_step = [&](size_t first) {
    auto step = lhs.joint_step(first, batch + 1);
    return step && (shape.depth || tx::static_extent(*step)) ? step : std::nullopt;
  };
  std::optional<AffineExpr> lhs_row = batched ? std::nullopt : lhs_step(0);
  if (lhs_row) {
    rows = product(a.take_front(batch), context) * rows;
    shape.images = getAffineConstantExpr(1, context);
    shape.image_lhs = getAffineConstantExpr(0, context);
  } else {
    lhs_row = lhs_step(batch);
    auto image = lhs.joint_step(0, batch);
    if (!lhs_row || !image) return gaps();
    if (!batched && tx::static_extent(rows).value_or(fewest_rows_between_gaps) < fewest_rows_between_gaps) return gaps();
    shape.images = product(a.take_front(batch), context);
    shape.image_lhs = *image;
  }
  if (shape.depth) shape.lhs_step = *lhs_row;
  shape.lhs_pixel = tx::static_extent(*lhs_row).value_or(usual_depth);
  shape.image_rhs = getAffineConstantExpr(0, context);
  shape.rhs_row = shape.columns;
  if (!shape.packed) {
    auto image = rhs.joint_step(0, b.size() - 2);
    auto rhs_row = rhs.static_step(b.size() - 2, b.size() - 1);
    if (!image || !rhs_row) return gaps();
    if (batched) shape.image_rhs = *image;
    shape.rhs_row = *rhs_row;  // of a transposed rhs too
  }
  shape.rows = rows;
  shape.width = tx::static_extent(rows).value_or(0);
  shape.in_width = shape.width;
  shape.image_result = rows * shape.pitch;
  return success();
}

LogicalResult read_conv(tx::ConvOp op, const OperandView& input, ContractionShape& shape) {
  MLIRContext* context = op.getContext();
  auto result = llvm::cast<RankedTensorType>(op.getResult().getType());
  ArrayRef<AffineExpr> in = input.extents;
  SmallVector<AffineExpr> out = tx::extents(result);
  const size_t rank = in.size();
  shape.packed = op.getPackedShape().has_value();
  shape.winograd = op.getWinograd();
  auto filter = shape.packed ? SmallVector<int64_t>(*op.getPackedShape())
                             : SmallVector<int64_t>(llvm::cast<RankedTensorType>(op.getFilter().getType()).getShape());
  int64_t spatial = static_cast<int64_t>(rank) - 2;
  if (spatial < 1 || spatial > 2)
    return op.emitError("x86_64: a convolution over ") << spatial << " spatial dimensions is not supported; 1 and 2 are";
  auto per_dimension = [&](ArrayRef<int64_t> values, int64_t fill) {
    SmallVector<int64_t> two(values);
    if (spatial == 1) two.insert(two.begin(), fill);
    return two;
  };
  auto channels = tx::static_extent(in.back()), columns = tx::static_extent(out.back());
  if (!channels || !columns) return op.emitError("x86_64: a convolution needs static extents of channels");
  if (spatial == 1) filter.insert(filter.begin(), 1);
  const AffineExpr one = getAffineConstantExpr(1, context);
  shape.extents = {spatial == 1 ? one : in[1], in[rank - 2], spatial == 1 ? one : out[1], out[rank - 2],
                   spatial == 1 ? getAffineConstantExpr(0, context) : input.steps[1]};
  auto strides = per_dimension(op.getStrides(), 1), dilations = per_dimension(op.getDilations(), 1),
       pads = per_dimension(op.getPadsLow(), 0);
  shape.groups = op.getGroups();
  auto in_height = tx::static_extent(shape.extents.in_height), in_width = tx::static_extent(shape.extents.in_width),
       height = tx::static_extent(shape.extents.height), width = tx::static_extent(shape.extents.width);
  shape.is_plane = !in_height || !in_width || !height || !width;
  shape.in_height = in_height.value_or(0);
  shape.in_width = in_width.value_or(0);
  shape.channels = *channels;
  shape.height = height.value_or(0);
  shape.width = width.value_or(0);
  shape.columns = *columns;
  shape.pitch = pitch_of(op, shape.columns);
  shape.rhs_row = shape.columns;
  auto pixel = input.static_step(rank - 2, rank - 1), row = input.static_step(1, rank - static_cast<size_t>(spatial));
  if (!pixel || (!row && !shape.is_plane))
    return op.emitError("x86_64: a convolution needs static extents in all dimensions of what it slices but the first");
  shape.lhs_pixel = *pixel;
  shape.lhs_row = row.value_or(0);
  shape.kernel_height = filter[0];
  shape.kernel_width = filter[1];
  shape.stride_height = strides[0];
  shape.stride_width = strides[1];
  shape.dilation_height = dilations[0];
  shape.dilation_width = dilations[1];
  shape.pad_top = pads[0];
  shape.pad_left = pads[1];
  if (shape.pad_top < 0 || shape.pad_left < 0)
    return op.emitError("x86_64: negative pads are not supported; they need a tx.slice before the op");
  shape.depthwise = shape.groups > 1 && shape.group_channels() == 1 && shape.group_columns() == 1;
  shape.images = out[0];
  shape.image_rhs = getAffineConstantExpr(0, context);

  shape.image_lhs = input.steps.front();
  const AffineExpr image_pixels = shape.extents.height * shape.extents.width;
  shape.image_result = image_pixels * shape.pitch;
  if (shape.is_plane) {
    bool pointwise = filter[0] == 1 && filter[1] == 1 && strides[0] == 1 && strides[1] == 1 && shape.pad_top == 0 && shape.pad_left == 0 &&
                     !shape.depthwise && shape.extents.in_height == shape.extents.height && shape.extents.in_width == shape.extents.width;
    auto image_pixel = input.static_step(1, rank - 1), all_pixel = input.static_step(0, rank - 1);
    if (!pointwise || (!image_pixel && !all_pixel)) {
      shape.divide_plane();
      return success();
    }
    shape.is_plane = false;
    shape.height = shape.in_height = 1;
    shape.width = shape.in_width = 0;
    shape.rows = image_pixels;
    shape.lhs_pixel = all_pixel.value_or(image_pixel.value_or(0));
    if (all_pixel) {
      shape.rows = shape.images * image_pixels;
      shape.images = one;
      shape.image_lhs = getAffineConstantExpr(0, context);
      shape.image_result = shape.rows * shape.pitch;
    }
    return success();
  }

  // A 1x1 convolution without strides treats an image, or all images, as one row of pixels, if these are at the same distance.
  bool pointwise = filter[0] == 1 && filter[1] == 1 && strides[0] == 1 && strides[1] == 1 && !shape.needs_halo() && !shape.depthwise &&
                   shape.in_height == shape.height && shape.in_width == shape.width;
  auto image_pixel = input.static_step(1, rank - 1), all_pixel = input.static_step(0, rank - 1);
  if (pointwise && image_pixel) {
    shape.width *= shape.height;
    shape.height = 1;
    shape.lhs_pixel = *image_pixel;
    auto count = tx::static_extent(shape.images);
    if (count && all_pixel) {
      shape.width *= *count;
      shape.images = getAffineConstantExpr(1, context);
      shape.lhs_pixel = *all_pixel;
    }
    shape.in_height = 1;
    shape.in_width = shape.width;
    shape.lhs_row = shape.in_width * shape.lhs_pixel;
  }
  shape.rows = getAffineConstantExpr(shape.width, context);
  shape.image_result = getAffineConstantExpr(shape.height * shape.width * shape.pitch, context);
  return success();
}

}  // namespace

Panels Panels::divide(int64_t columns, int64_t max_units) {
  Panels panels;
  panels.columns = columns;
  panels.units = llvm::divideCeilSigned(columns, unit);
  panels.count = llvm::divideCeilSigned(panels.units, max_units);
  panels.wide = llvm::divideCeilSigned(panels.units, panels.count);
  panels.wide_count = panels.units - panels.count * (panels.wide - 1);
  return panels;
}

Panels Panels::own(int64_t columns, const Level& level) {
  return divide(columns, level.f32_lanes() == 16 ? 4 : 1);
}

Value first_unit(KernelBuilder& kernel, const Panels& panels, Value panel) {
  if (panels.wide == 1) return panel;
  return kernel.add(kernel.mul(panel, panels.wide - 1), kernel.min(panel, kernel.index(panels.wide_count)));
}

Value own_panel(KernelBuilder& kernel, const Panels& own, const Panels& shared, Value shared_panel) {
  return own.wide == shared.wide ? shared_panel : first_unit(kernel, shared, shared_panel);
}

DepthOrder DepthOrder::of(int64_t taps, int64_t channels) {
  DepthOrder order{taps, channels, channels};
  if (taps == 1 || channels <= 128) return order;
  // The largest divisor near 64: rows of A then stay in L1 during all taps of a block.
  for (int64_t block = 96; block >= 32; --block) {
    if (channels % block == 0 && (order.block == channels || std::abs(block - 64) < std::abs(order.block - 64))) order.block = block;
  }
  return order;
}

void ContractionShape::divide_plane() {
  constexpr double copy_bytes = 400e3;  // have to stay in L2 with a panel's rows
  const bool is_one_row = tx::static_extent(extents.height) == 1;
  height = is_one_row ? 1 : 8;
  width = is_one_row ? 128 : channels < 512 ? 32 : 16;
  auto bytes = [&] {
    return 4.0 * static_cast<double>(needed_height(height)) * static_cast<double>(needed_width(width)) * static_cast<double>(channels);
  };
  while (bytes() > copy_bytes && height > 2) height /= 2;
  while (bytes() > copy_bytes && width > 4) width /= 2;
}

double ContractionShape::flops_per_image() const {
  double pixels = static_cast<double>(height) * static_cast<double>(width > 0 ? width : 64);
  return 2.0 * pixels * static_cast<double>(columns) * static_cast<double>(order().depth());
}

FailureOr<ContractionShape> ContractionShape::read(tx::DispatchOp region) {
  ContractionShape shape;
  for (Operation& op : region.getBody().front()) {
    if (!tx::is_contraction(&op)) continue;
    if (shape.root) return op.emitError("x86_64: a region with two contractions is not supported");
    shape.root = &op;
  }
  shape.rhs_element = tx::tensor(shape.root->getOperand(1)).getElementType();
  for (Value value : {shape.root->getOperand(0), shape.root->getOperand(1), Value(shape.root->getResult(0))}) {
    Type element = tx::tensor(value).getElementType();
    // Integers of 8 or 16 bits, or floats of 16 bits, if the others are f32.
    bool is_narrow = value == shape.root->getOperand(1) && (llvm::isa<IntegerType>(element) || element.isF16() || element.isBF16());
    if (!element.isF32() && !is_narrow) return shape.root->emitError("x86_64: a contraction of ") << element << " is not supported; f32 is";
  }
  auto lhs = OperandView::of(shape.root->getOperand(0)), rhs = OperandView::of(shape.root->getOperand(1));
  auto conv = llvm::dyn_cast<tx::ConvOp>(shape.root);
  auto matmul = llvm::dyn_cast<tx::MatmulOp>(shape.root);
  const bool reads_rhs_whole = conv || matmul.getPackedShape();
  if (!lhs || !rhs || (reads_rhs_whole && rhs->is_slice))
    return shape.root->emitError("x86_64: a contraction's operands must be inputs of its region, or slices of them without strides");
  shape.lhs = lhs->binding.getArgNumber();
  shape.rhs = rhs->binding.getArgNumber();
  shape.lhs_start = lhs->start;
  shape.rhs_start = rhs->start;
  if (Value zero = tx::zero_of(shape.root)) {
    if (!llvm::isa<BlockArgument>(zero)) return shape.root->emitError("x86_64: a contraction's operands must be inputs of its region");
    shape.zero = llvm::cast<BlockArgument>(zero).getArgNumber();
  }
  for (AffineExpr extent : tx::extents(llvm::cast<RankedTensorType>(shape.root->getResult(0).getType()))) {
    if (tx::static_extent(extent) == 0) return shape.root->emitError("x86_64: a contraction without elements is not supported");
  }
  LogicalResult known = conv ? read_conv(conv, *lhs, shape) : read_matmul(matmul, *lhs, *rhs, shape);
  if (failed(known)) return failure();
  auto epilogue = Epilogue::read(region, shape.root);
  if (failed(epilogue)) return failure();
  shape.epilogue = std::move(*epilogue);
  return shape;
}

namespace {

constexpr double core_flops_per_ns = 100;
constexpr double copy_bytes_per_ns = 20;

// Modeled time of tilings; lower is better. Rough: it is only used to rank them.
class TilingModel {
 public:
  TilingModel(const ContractionShape& shape, Cores cores) : shape_(shape), cores_(cores) {
    if (auto constant = tx::static_extent(shape.images)) images_ = std::max<int64_t>(1, constant.value());
    panels_ = Panels::shared(shape.group_columns()).count;
    rhs_bytes_ = static_cast<double>(shape.rhs_bytes()) * static_cast<double>(shape.order().depth()) *
                 static_cast<double>(Panels::shared(shape.group_columns()).padded_columns());
  }

  RankedTiling rank(const ContractionTiling& tiling) const {
    // Few cores run better with parts for a few more cores, since this compensates for other load.
    static constexpr std::pair<int, double> few[] = {{1, 2.0}, {2, 1.0}, {4, 2.0}, {8, 1.0}, {16, 0.5}};
    static constexpr std::pair<int, double> many[] = {{8, 1.0}, {16, 2.0}, {32, 0.5}};
    RankedTiling ranked{tiling};
    double sum = 0;
    for (auto [cores, weight] : cores_ == Cores::few ? ArrayRef(few) : ArrayRef(many)) {
      double share = weight * static_cast<double>(cores);
      ranked.estimate_ns += share * nanoseconds(tiling, cores);
      sum += share;
    }
    ranked.estimate_ns /= sum;
    return ranked;
  }

 private:
  double nanoseconds(const ContractionTiling& tiling, int cores) const {
    int64_t column_blocks = tiling.blocks * shape_.groups;
    double workgroups = static_cast<double>(images_ * tiling.bands * column_blocks);
    // Share of the largest workgroup.
    double units = static_cast<double>(shape_.is_flat() ? shape_.width : shape_.height);
    double share = static_cast<double>(tiling.band_size) / units * static_cast<double>(llvm::divideCeilSigned(panels_, tiling.blocks)) /
                   static_cast<double>(panels_) / static_cast<double>(shape_.groups * images_);
    double flat_pixels = static_cast<double>(shape_.is_flat() ? tiling.band_size : tiling.band_size * shape_.width);
    double band_bytes = 4.0 * static_cast<double>(shape_.channels) *
                        (shape_.is_flat() ? flat_pixels
                                          : static_cast<double>(shape_.band_height(tiling.band_size)) *
                                                static_cast<double>(shape_.band_width(tiling.band_size)));
    double rhs_rate = rhs_bytes_ * static_cast<double>(shape_.groups) <= 400e3 ? 100 : 30;  // L2, or beyond, partly hidden
    double rounds = std::ceil(workgroups / cores);
    double work = shape_.flops_per_image() * static_cast<double>(images_) * share / core_flops_per_ns;
    if (shape_.transposed) rhs_rate = 10;  // read from memory and packed by each workgroup
    double panels = rhs_bytes_ / static_cast<double>(tiling.blocks) / rhs_rate;
    // A worker that runs several blocks of one band copies it once.
    double bands = std::ceil(rounds / static_cast<double>(column_blocks));
    double copies = shape_.needs_halo() ? bands * band_bytes / copy_bytes_per_ns : 0;
    double bands_read = bands * band_bytes / 60;
    return rounds * (work + panels + 300) + copies + bands_read;
  }

  const ContractionShape& shape_;
  Cores cores_;
  int64_t images_ = 1, panels_ = 1;
  double rhs_bytes_ = 0;
};

}  // namespace

ContractionTiling ContractionTiling::of(const ContractionShape& shape, bool single_pass, ArrayRef<int64_t> numbers) {
  ContractionTiling tiling;
  tiling.bands = numbers[0];
  tiling.band_size = numbers[1];
  tiling.blocks = numbers[2];
  DepthOrder order = shape.order();
  // Every further pass reads and writes the result again. If only one tile of rows uses B, keeping it in L2 gains nothing.
  constexpr int64_t longest_pass = 1024;
  const bool is_one_tile = shape.is_flat() && shape.width > 0 && shape.width <= 6;
  single_pass = single_pass || (is_one_tile && order.taps == 1);
  if (shape.depth) {
    tiling.pass_depth = tiling.part_depth = longest_pass;
    tiling.passes = single_pass ? 1 : 0;
  } else if (order.taps == 1) {
    const int64_t passes = std::max<int64_t>(1, llvm::divideCeilSigned(order.channels, longest_pass));
    tiling.part_depth =
        std::max<int64_t>(1, std::min(order.channels, llvm::divideCeilSigned(llvm::divideCeilSigned(order.channels, passes), 16) * 16));
    tiling.pass_depth = single_pass ? std::max<int64_t>(1, order.channels) : tiling.part_depth;
    tiling.passes = std::max<int64_t>(1, llvm::divideCeilSigned(order.channels, tiling.pass_depth));
  } else {
    // L2 must hold one panel's slice, the next one, which is being prefetched, and A.
    constexpr int64_t slice_bytes = 300 * 1024;
    tiling.part_blocks = std::clamp<int64_t>(slice_bytes / (order.block * order.taps * 4 * Panels::unit * 4), 1, order.blocks());
    tiling.pass_blocks = single_pass ? order.blocks() : tiling.part_blocks;
    tiling.passes = llvm::divideCeilSigned(order.blocks(), tiling.pass_blocks);
  }
  return tiling;
}

Choice ContractionTiling::choice() const {
  std::string text = (bands > 0 ? std::to_string(bands) + " x " : "") + std::to_string(band_size) + " rows, " + std::to_string(blocks) +
                     (blocks == 1 ? " block" : " blocks");
  return {std::move(text), {bands, band_size, blocks}};
}

// Pieces are divided further only by columns.
static std::vector<RankedTiling> rank_plane_tilings(const ContractionShape& shape, bool single_pass, Cores cores) {
  const int64_t panels = Panels::shared(shape.group_columns()).count, usual = std::min<int64_t>(panels, cores == Cores::few ? 4 : 16);
  std::vector<RankedTiling> ranked;
  for (int64_t blocks = 1; blocks <= std::min<int64_t>(panels, 64); ++blocks) {
    if (llvm::divideCeilSigned(panels, llvm::divideCeilSigned(panels, blocks)) != blocks) continue;
    ranked.push_back(
        {ContractionTiling::of(shape, single_pass, {1, shape.height, blocks}), static_cast<double>(std::abs(blocks - usual)) * 1000});
  }
  llvm::stable_sort(ranked, [](const RankedTiling& a, const RankedTiling& b) { return a.estimate_ns < b.estimate_ns; });
  return ranked;
}

std::vector<RankedTiling> rank_tilings(const ContractionShape& shape, bool single_pass, Cores cores, int64_t rows) {
  if (shape.is_plane) return rank_plane_tilings(shape, single_pass, cores);
  if (shape.width == 0) {  // tiled like that number of rows; a call has bands of that size
    ContractionShape usual = shape;
    usual.width = usual.in_width = rows;
    std::vector<RankedTiling> ranked = rank_tilings(usual, single_pass, cores, rows);
    for (RankedTiling& one : ranked) one.tiling = ContractionTiling::of(shape, single_pass, {0, one.tiling.band_size, one.tiling.blocks});
    return ranked;
  }
  TilingModel model(shape, cores);
  bool flat = shape.is_flat();
  int64_t units = flat ? shape.width : shape.height, panels = Panels::shared(shape.group_columns()).count;
  // Copies have to fit into L2.
  constexpr double copy_bytes = 512e3;
  auto bytes_of = [&](int64_t size) {
    return 4.0 * static_cast<double>(shape.band_height(size)) * static_cast<double>(shape.band_width(size)) *
           static_cast<double>(shape.channels);
  };
  int64_t most_bands = 128;
  if (flat && shape.needs_halo()) most_bands = std::max(most_bands, static_cast<int64_t>(2 * bytes_of(units) / copy_bytes));
  std::vector<RankedTiling> ranked;
  for (int64_t bands = 1; bands <= std::min(units, most_bands); ++bands) {
    int64_t size = llvm::divideCeilSigned(units, bands);
    if (llvm::divideCeilSigned(units, size) != bands) continue;
    if (flat && bands > 1 && size < 24) continue;
    if (shape.needs_halo() && bands < units && bytes_of(size) > copy_bytes) continue;
    for (int64_t blocks = 1; blocks <= std::min<int64_t>(panels, 64); ++blocks) {
      if (llvm::divideCeilSigned(panels, llvm::divideCeilSigned(panels, blocks)) != blocks) continue;
      ranked.push_back(model.rank(ContractionTiling::of(shape, single_pass, {bands, size, blocks})));
    }
  }
  // No tiling has copies that are small enough.
  if (ranked.empty()) ranked.push_back(model.rank(ContractionTiling::of(shape, single_pass, {units, 1, 1})));
  llvm::stable_sort(ranked, [](const RankedTiling& a, const RankedTiling& b) { return a.estimate_ns < b.estimate_ns; });
  return ranked;
}

AffineExpr ContractionTiling::workgroups(const ContractionShape& shape) const {
  if (shape.is_plane) {
    return shape.images * shape.extents.height.ceilDiv(shape.height) * shape.extents.width.ceilDiv(shape.width) * (blocks * shape.groups);
  }
  AffineExpr bands_expr = bands > 0 ? getAffineConstantExpr(bands, shape.images.getContext()) : shape.rows.ceilDiv(band_size);
  return shape.images * bands_expr * (blocks * shape.groups);
}

}  // namespace heddle::targets::x86_64
