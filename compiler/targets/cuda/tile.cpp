// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tile.h.
#include "compiler/targets/cuda/tile.h"

#include <algorithm>
#include <cmath>

#include "compiler/targets/operand_view.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

// Below these sizes, a tile would be mostly empty.
constexpr int64_t shortest_sum = 8, fewest_columns = 8;

// Constants of the estimate, in clocks and bytes of one multiprocessor: fitted to 300 kernels on an H200, where the chosen tiles take 2 % longer than
// the best ones on average.
constexpr int64_t multiprocessors = 132;
constexpr double tensor_rate = 1160;  // products of f16 per clock; half of it for tf32
constexpr double l2_rate = 33, shared_rate = 118;
constexpr double latency_clocks = 136, barrier_clocks = 108;  // per step
constexpr double start_clocks = 1600, store_clocks = 0.235;   // per workgroup; per result
constexpr double piece_clocks = 20;
constexpr double clocks_per_ns = 1.75;

// A symbol is usually the size of a batch. One tile serves all its values.
constexpr int64_t usual_symbol = 16;

// The same without tensor cores: fitted to 91 pairs of kernels on an H200, off by 2 % on average.
constexpr double plain_start_clocks = 3100, plain_store_clocks = 0.137;  // per workgroup; per result and slice
constexpr double cluster_clocks = 1280, cluster_store_clocks = 0.118;    // per workgroup in a cluster; per result
// With tensor cores, of clusters of up to four, and of eight: fitted to 34 products and convolutions in bf16 and tf32 on an H200, where the chosen tiles
// take 2 % longer than the best ones on average, and 0.84 of the time of those without clusters.
constexpr double tensor_cluster_clocks = 2000, tensor_eights_clocks = 5000;
// With more workgroups some clusters run in a second round, since all workgroups of a cluster need free multiprocessors at once.
constexpr int64_t most_in_pairs = 3 * multiprocessors, most_in_fours = 300;
// Clusters of four seem not to find room on all multiprocessors: with 128 and 256 workgroups, they take about twice the time of as many without
// clusters. The smallest tiles were not measured again, so their estimates stay as they were fitted.
constexpr int64_t multiprocessors_in_fours = 120;

// More of them would make the code long and leave few registers.
constexpr int64_t most_pieces = 32;

// The range of i32, including steps after the last one.
constexpr int64_t most_depth = int64_t{1} << 30;

// The number of elements that are copied at once, if they start at multiples of these.
int64_t piece_of(ArrayRef<int64_t> extents, int64_t element_bytes) {
  int64_t piece = 16 / element_bytes;
  while (!llvm::all_of(extents, [&](int64_t extent) { return extent % piece == 0; })) piece /= 2;
  return piece;
}

// A number that the expression is always a multiple of; 0 if it is 0, which every number divides.
int64_t divisor_of(AffineExpr expression) {
  return tx::static_extent(expression) == 0 ? 0 : expression.getLargestKnownDivisor();
}

// With this value for every symbol.
int64_t value_of(AffineExpr expression, int64_t symbol) {
  SmallVector<AffineExpr> symbols(8, getAffineConstantExpr(symbol, expression.getContext()));
  auto fixed = llvm::dyn_cast<AffineConstantExpr>(expression.replaceSymbols(symbols));
  return fixed ? fixed.getValue() : 1;
}

bool read_matmul(tx::MatmulOp matmul, const OperandView& a, const OperandView& b, TiledContraction& shape) {
  if (matmul.getTransposeLhs() || matmul.getPackedShape()) return false;
  const size_t batch = a.extents.size() - 2, rhs_batch = b.extents.size() - 2;  // dimensions
  auto columns = tx::static_extent(tx::extents(tx::tensor(matmul.getResult())).back()), channels = tx::static_extent(a.extents.back());
  auto lhs_row = a.static_step(batch, batch + 1), rhs_row = b.static_step(rhs_batch, rhs_batch + 1);
  auto lhs_batch = a.joint_step(0, batch), rhs_batch_step = b.joint_step(0, rhs_batch);
  if (!columns || !channels || !lhs_row || !rhs_row || !lhs_batch || !rhs_batch_step) return false;
  shape.rhs_transposed = matmul.getTransposeRhs();
  shape.columns = *columns;
  shape.channels = *channels;
  shape.lhs_row = *lhs_row;
  shape.rhs_row = *rhs_row;
  shape.lhs_batch = *lhs_batch;
  shape.rhs_batch = rhs_batch > 0 ? *rhs_batch_step : getAffineConstantExpr(0, matmul.getContext());
  shape.rows = a.extents[batch];
  shape.batches = getAffineConstantExpr(1, matmul.getContext());
  for (size_t d = 0; d < batch; ++d) shape.batches = shape.batches * a.extents[d];
  return true;
}

bool read_conv(tx::ConvOp conv, const OperandView& view, const OperandView& weights, TiledContraction& shape) {
  auto input = tx::tensor(conv.getInput()), filter = tx::tensor(conv.getFilter()), result = tx::tensor(conv.getResult());
  shape.spatial = static_cast<unsigned>(filter.getRank() - 2);
  if (weights.is_slice || conv.getPackedShape() || shape.spatial < 1 || shape.spatial > 2 || !filter.hasStaticShape()) return false;
  for (int64_t d = 1; d < input.getRank(); ++d) {
    if (input.isDynamicDim(static_cast<unsigned>(d)) || result.isDynamicDim(static_cast<unsigned>(d))) return false;
  }
  shape.is_conv = true;
  shape.groups = static_cast<int64_t>(conv.getGroups());
  shape.columns = filter.getShape().back() / shape.groups;
  shape.channels = filter.getDimSize(shape.spatial);
  unsigned x = shape.spatial - 1;  // the last spatial dimension
  auto pixel = view.static_step(shape.spatial, shape.spatial + 1), line = view.static_step(1, 2), image = tx::static_extent(view.steps[0]);
  if (!pixel || !line || !image) return false;
  shape.lhs_row = *pixel;
  shape.lhs_line = *line;
  shape.lhs_image = *image;
  shape.has_even_pixels = view.static_step(0, shape.spatial + 1) == pixel;
  shape.rhs_row = shape.columns * shape.groups;
  shape.in_width = input.getDimSize(x + 1);
  shape.width = result.getDimSize(x + 1);
  shape.kernel_width = filter.getDimSize(x);
  shape.stride_width = conv.getStrides()[x];
  shape.dilation_width = conv.getDilations()[x];
  shape.pad_left = conv.getPadsLow()[x];
  shape.taps = shape.kernel_width;
  if (shape.spatial == 2) {
    shape.in_height = input.getDimSize(1);
    shape.height = result.getDimSize(1);
    shape.stride_height = conv.getStrides()[0];
    shape.dilation_height = conv.getDilations()[0];
    shape.pad_top = conv.getPadsLow()[0];
    shape.kernel_height = filter.getDimSize(0);
    shape.taps *= shape.kernel_height;
  }
  shape.rows = tx::extents(input).front() * (shape.height * shape.width);
  shape.batches = getAffineConstantExpr(1, conv.getContext());
  shape.lhs_batch = getAffineConstantExpr(shape.channels, conv.getContext());
  shape.rhs_batch = getAffineConstantExpr(shape.columns, conv.getContext());
  return true;
}

}  // namespace

std::optional<TiledContraction> TiledContraction::read(Operation* root, Math math) {
  TiledContraction shape;
  shape.root = root;
  auto lhs = OperandView::of(root->getOperand(0)), rhs = OperandView::of(root->getOperand(1));
  if (!lhs || !rhs) return std::nullopt;
  shape.lhs = lhs->binding;
  shape.rhs = rhs->binding;
  shape.lhs_start = lhs->start;
  shape.rhs_start = rhs->start;
  shape.element = tx::tensor(shape.lhs).getElementType();
  bool known_type = shape.element.isF32() || shape.element.isF16() || shape.element.isBF16();
  shape.rhs_element = tx::tensor(shape.rhs).getElementType();
  Value zero = tx::zero_of(root);
  shape.zero = llvm::dyn_cast_if_present<BlockArgument>(zero);
  // f16 and bf16 represent the difference of two integers of 8 bits, f32 that of 16.
  const unsigned most_bits = shape.element.isF32() ? 16 : 8;
  bool is_quantized = llvm::isa<IntegerType>(shape.rhs_element) && shape.rhs_element.getIntOrFloatBitWidth() <= most_bits;
  if (!known_type || (shape.converts() && !is_quantized) || (zero && !shape.zero)) return std::nullopt;
  auto conv = llvm::dyn_cast<tx::ConvOp>(root);
  shape.tensor_cores = !shape.element.isF32() || math == Math::fast || (conv && math == Math::fast_convolutions);
  if (!(conv ? read_conv(conv, *lhs, *rhs, shape) : read_matmul(llvm::cast<tx::MatmulOp>(root), *lhs, *rhs, shape))) return std::nullopt;
  if (shape.depth() < shortest_sum || shape.depth() > most_depth || shape.columns < fewest_columns) return std::nullopt;
  return shape;
}

int64_t TiledContraction::lhs_piece() const {
  return piece_of({channels, lhs_row, lhs_line, lhs_image, divisor_of(lhs_batch), divisor_of(lhs_start)}, element_bytes());
}

int64_t TiledContraction::rhs_piece() const {
  return piece_of({rhs_transposed ? channels : columns, rhs_row, divisor_of(rhs_batch), divisor_of(rhs_start)}, element_bytes());
}

bool TiledContraction::is_inside() const {
  auto is_covered = [](int64_t low, int64_t extent, int64_t stride, int64_t kernel, int64_t dilation, int64_t in) {
    return low == 0 && (extent - 1) * stride + (kernel - 1) * dilation < in;
  };
  return is_covered(pad_top, height, stride_height, kernel_height, dilation_height, in_height) &&
         is_covered(pad_left, width, stride_width, kernel_width, dilation_width, in_width);
}

bool TiledContraction::has_even_rows() const {
  return !is_conv || (taps == 1 && is_inside() && height == in_height && width == in_width && has_even_pixels);
}

bool Tile::is_flat(const TiledContraction& shape) const {
  int64_t step = depth(shape.element_bytes()), flat = (shape.depth() + step - 1) / step;
  return shape.taps == 1 || flat * 5 < shape.taps * ((shape.channels + step - 1) / step) * 4;
}

int64_t Tile::steps(const TiledContraction& shape) const {
  int64_t step = depth(shape.element_bytes());
  return is_flat(shape) ? (shape.depth() + step - 1) / step : shape.taps * ((shape.channels + step - 1) / step);
}

int64_t Tile::rhs_piece(const TiledContraction& shape) const {
  return shape.rhs_transposed && !shape.tensor_cores ? 1 : shape.rhs_piece();
}

int64_t Tile::rhs_row_bytes(const TiledContraction& shape) const {
  if (shape.rhs_transposed && shape.tensor_cores) return slices * step_bytes + 16;
  return columns * shape.element_bytes() + (shape.tensor_cores && shape.element.isF32() ? 32 : 16);
}

int64_t Tile::stage_bytes(const TiledContraction& shape) const {
  int64_t lines = shape.rhs_transposed && shape.tensor_cores ? columns : depth(shape.element_bytes());
  return lhs_bytes() + lines * rhs_row_bytes(shape);
}

Tile::Exchange Tile::exchange(const TiledContraction& shape, int64_t exchange_rows) const {
  if (!shape.rows_last) return {(columns + 8) * 4, 4, exchange_rows * (columns + 8) * 4};
  // Elements that a subgroup stores at once are in different banks: eight rows of four pairs of columns, or two rows of every fourth column.
  int64_t column_bytes = (exchange_rows + (shape.tensor_cores ? 4 : 1)) * 4;
  return {4, column_bytes, columns * column_bytes};
}

int64_t Tile::bands(const TiledContraction& shape) const {
  int64_t groups = row_groups(shape), count = 1;
  while (count < groups && (groups % count != 0 || slices * exchange(shape, rows / count).slice_bytes > stages * stage_bytes(shape)))
    ++count;
  return count;
}

int64_t Tile::shared_bytes(const TiledContraction& shape) const {
  return std::max(stages * stage_bytes(shape), slices * exchange(shape, rows / bands(shape)).slice_bytes);
}

std::string Tile::name() const {
  return "tile " + std::to_string(rows) + "x" + std::to_string(columns) + ", " + std::to_string(slices) + " slices, " +
         std::to_string(stages) + " stages" + (cluster > 1 ? ", clusters of " + std::to_string(cluster) : "");
}

namespace {

int64_t tiles_of(int64_t extent, int64_t tile) {
  return (extent + tile - 1) / tile;
}

int64_t workgroups(const TiledContraction& shape, const Tile& tile, int64_t symbol) {
  int64_t row_tiles = tiles_of(value_of(shape.rows, symbol), tile.rows), column_tiles = tiles_of(shape.columns, tile.columns);
  return row_tiles * column_tiles * value_of(shape.batches, symbol) * shape.groups * tile.cluster;
}

// Pieces that a thread copies each step.
int64_t pieces(const TiledContraction& shape, const Tile& tile) {
  int64_t depth = tile.depth(shape.element_bytes());
  return (tile.rows * depth / shape.lhs_piece() + tile.columns * depth / tile.rhs_piece(shape)) / usual_threads;
}

// Some pieces are too small to be copied without registers, or change their type on the way.
bool uses_registers(const TiledContraction& shape, const Tile& tile) {
  if (shape.converts()) return true;
  return std::min(shape.lhs_piece(), tile.rhs_piece(shape)) * shape.element_bytes() < 4;
}

// Clocks for the whole contraction on tensor cores: rounds of the workgroups that all multiprocessors hold at once, each limited by the slowest part
// of its steps.
double estimate(const TiledContraction& shape, const Tile& tile) {
  int64_t bytes = shape.element_bytes(), depth = tile.depth(bytes), count = workgroups(shape, tile, usual_symbol);
  double area = static_cast<double>(tile.rows * tile.columns), sides = static_cast<double>(tile.rows + tile.columns);
  double products = area * static_cast<double>(depth * bytes) / 2 / tensor_rate, copied = sides * static_cast<double>(depth * bytes);
  double read = static_cast<double>(usual_threads / subgroup_size * tile.step_bytes *
                                    (tile.rows / tile.warp_rows + tile.columns / tile.warp_columns));
  double shared = (read + copied) / shared_rate;
  double l2 = copied / l2_rate * static_cast<double>(std::min(count, multiprocessors)) / multiprocessors;
  double slowest =
      std::max({products, shared, l2, static_cast<double>(pieces(shape, tile)) * (uses_registers(shape, tile) ? 3 : 1) * piece_clocks});
  // Workgroups that share a multiprocessor hide each other's waiting time.
  int64_t fit = std::min(tile.residents, sm_90a.shared_memory_bytes / tile.shared_bytes(shape)), each = tiles_of(count, multiprocessors);
  double together = static_cast<double>(std::clamp<int64_t>(fit, 1, each));
  double step = std::max(together * slowest, slowest + latency_clocks) + barrier_clocks * (together > 1 ? together / 2 : 1);
  double turn = start_clocks + area * store_clocks * (1 + (together - 1) * 0.4) +
                static_cast<double>(tiles_of(tile.steps(shape), tile.cluster)) * step;
  if (tile.cluster > 1) turn += (tile.cluster > 4 ? tensor_eights_clocks : tensor_cluster_clocks) + area * cluster_store_clocks;
  double rounds =
      static_cast<double>(count) / (static_cast<double>(tile.cluster > 2 ? multiprocessors_in_fours : multiprocessors) * together);
  return (rounds > 4 ? rounds : std::ceil(rounds)) * turn;
}

}  // namespace

namespace {

constexpr Tile without_tensor_cores[] = {{128, 256, 1, 64, 8, 16, 0, 0, 3, 1},
                                         {128, 128, 1, 64, 8, 8, 0, 0, 3, 2},
                                         {64, 64, 4, 64, 8, 8, 0, 0, 3, 2},
                                         {32, 32, 4, 64, 4, 4, 0, 0, 3, 2}};
constexpr Tile with_tensor_cores[] = {
    {128, 256, 1, 128, 0, 0, 2, 4, 3, 1}, {256, 128, 1, 128, 0, 0, 4, 2, 3, 1}, {128, 128, 1, 128, 0, 0, 2, 4, 3, 1},
    {128, 128, 2, 64, 0, 0, 2, 2, 3, 1},  {128, 128, 1, 64, 0, 0, 2, 4, 4, 2},  {128, 128, 1, 128, 0, 0, 2, 4, 2, 2},
    {256, 64, 1, 128, 0, 0, 4, 2, 3, 1},  {128, 64, 2, 64, 0, 0, 2, 2, 4, 1},   {64, 128, 1, 128, 0, 0, 2, 4, 3, 2},
    {128, 64, 1, 128, 0, 0, 4, 2, 3, 2},  {128, 64, 1, 64, 0, 0, 4, 2, 3, 3},   {64, 64, 2, 64, 0, 0, 2, 2, 4, 2},
    {32, 64, 2, 128, 0, 0, 1, 4, 3, 2},   {32, 32, 4, 128, 0, 0, 1, 2, 3, 2},   {16, 32, 8, 64, 0, 0, 1, 1, 3, 1}};

ArrayRef<Tile> tiles_for(const TiledContraction& shape) {
  return shape.tensor_cores ? ArrayRef<Tile>(with_tensor_cores) : ArrayRef<Tile>(without_tensor_cores);
}

// The tile with as many stages as fit, or nothing.
std::optional<Tile> fitted(const TiledContraction& shape, Tile tile, int64_t shared_memory_bytes) {
  tile.stages = std::clamp<int64_t>(tile.steps(shape), 2, tile.stages);
  int64_t lines = tile.rows * tile.depth(shape.element_bytes()) / shape.lhs_piece() / usual_threads;  // each with its own place
  if (uses_registers(shape, tile) || (lines > 8 && !shape.has_even_rows())) tile.residents = 1;
  while (tile.stages > 2 && tile.shared_bytes(shape) > shared_memory_bytes) --tile.stages;
  if (tile.shared_bytes(shape) > shared_memory_bytes || pieces(shape, tile) > most_pieces) return {};
  return tile;
}

bool is_fixed(AffineExpr expression) {
  return llvm::isa<AffineConstantExpr>(expression);
}

bool is_largest(const Tile& tile) {
  return tile.rows * tile.columns > 128 * 128;
}

// Clocks without tensor cores: those of the multiprocessor that has the most workgroups.
double estimate_without_tensor_cores(const TiledContraction& shape, const Tile& tile) {
  // Products a clock, of the 128 that a multiprocessor can do, with one workgroup, with two.
  static constexpr std::pair<double, double> small{0.473, 0.543}, middle{0.566, 0.656}, large{0.589, 0.684}, largest{0.72, 0.72};
  auto [one, two] = is_largest(tile)                     ? largest
                    : tile.rows * tile.columns > 64 * 64 ? large
                    : tile.rows * tile.columns > 32 * 32 ? middle
                                                         : small;
  const double area = static_cast<double>(tile.rows * tile.columns);
  const int64_t places = tile.cluster == 4 && tile.rows * tile.columns > 32 * 32 ? multiprocessors_in_fours : multiprocessors;
  const int64_t each = tiles_of(workgroups(shape, tile, 1), places), steps = tiles_of(tile.steps(shape), tile.cluster);
  const double products = area * static_cast<double>(steps * tile.depth(shape.element_bytes())) / (128 * (each > 1 ? two : one));
  const double stores = area * (plain_store_clocks * static_cast<double>(tile.slices) + (tile.cluster > 1 ? cluster_store_clocks : 0));
  return plain_start_clocks + (tile.cluster > 1 ? cluster_clocks : 0) + static_cast<double>(each) * (products + stores);
}

double estimate_ns_of(const TiledContraction& shape, const Tile& tile) {
  return (shape.tensor_cores ? estimate(shape, tile) : estimate_without_tensor_cores(shape, tile)) / clocks_per_ns;
}

}  // namespace

std::optional<Tile> Tile::divided(const TiledContraction& shape, int64_t shared_memory_bytes) const {
  std::optional<Tile> best;
  for (const Tile& one : tiles_for(shape)) {
    if (cluster == 1 || rows % one.rows != 0 || columns % one.columns != 0 || rows / one.rows * (columns / one.columns) != cluster)
      continue;
    auto tile = fitted(shape, one, shared_memory_bytes);
    if (!tile) continue;
    tile->estimate_ns = estimate_ns_of(shape, *tile);
    if (!best || tile->estimate_ns < best->estimate_ns) best = tile;
  }
  return best;
}

std::vector<Tile> Tile::ranked(const TiledContraction& shape, int64_t shared_memory_bytes, bool clusters) {
  // Where workgroups store rows innermost, or their number is not known, clusters were not measured.
  clusters = clusters && !shape.rows_last && is_fixed(shape.rows) && is_fixed(shape.batches);
  std::vector<Tile> fitting;
  for (const Tile& one : tiles_for(shape)) {
    auto tile = fitted(shape, one, shared_memory_bytes);
    if (!tile || (is_largest(*tile) && !shape.tensor_cores && (shape.converts() || !shape.has_even_rows()))) continue;  // not measured
    for (int64_t cluster : {1, 2, 4, 8}) {
      if (cluster == 8 && !shape.tensor_cores) break;  // not measured
      tile->cluster = cluster;
      if (cluster > 1 && (!clusters || shape.columns % tile->columns != 0 || tile->steps(shape) < cluster)) break;
      if (cluster > 1 && workgroups(shape, *tile, 1) > (cluster == 2 ? most_in_pairs : most_in_fours)) break;
      tile->estimate_ns = estimate_ns_of(shape, *tile);
      fitting.push_back(*tile);
    }
  }
  llvm::stable_sort(fitting, [](const Tile& a, const Tile& b) { return a.estimate_ns < b.estimate_ns; });
  return fitting;
}

}  // namespace heddle::targets::cuda
