// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A convolution of 3 x 3 by Winograd's F(2x2, 3x3): each tile of 2 x 2 results is A^T ((G g G^T) * (B^T d B)) A of the 4 x 4 inputs d under it, which
// takes 16 products per channel instead of 36 (Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015). Filters are
// transformed when they are packed. A workgroup takes some tiles of an image and a block of panels: it transforms the inputs of all channels
// into the workspace, multiplies the 16 matrices by microkernels, and transforms the products back, applying the epilogue.
#include "compiler/targets/x86_64/contraction_shape.h"
#include "compiler/targets/x86_64/microkernel.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr int64_t most_tiles = 54;  // of a workgroup: enough to reuse what is read of a filter, while their inputs and products stay in L2

// The tiles of an image; the last row and column of tiles may reach beyond it.
struct WinogradTiles {
  int64_t rows, columns;
  static WinogradTiles of(int64_t height, int64_t width) { return {llvm::divideCeilSigned(height, 2), llvm::divideCeilSigned(width, 2)}; }
  int64_t count() const { return rows * columns; }
};

// The tiling: workgroup = (image * bands + band) * blocks + block, where a band is of tiles and a block is of shared panels.
struct WinogradTiling {
  int64_t band_tiles, blocks;

  int64_t bands(int64_t tiles) const { return llvm::divideCeilSigned(tiles, band_tiles); }
  Choice choice() const {
    return {"winograd, " + std::to_string(band_tiles) + " tiles, " + std::to_string(blocks) + (blocks == 1 ? " block" : " blocks"),
            {band_tiles, blocks}};
  }
};

// Modeled time; rough, like TilingModel's.
class WinogradModel {
 public:
  WinogradModel(int64_t tiles, int64_t channels, int64_t columns, int64_t images)
      : tiles_(tiles), channels_(channels), panels_(Panels::shared(columns)), images_(images) {}

  // Time of a workgroup without the transform of its band's inputs, which the band's other blocks also use.
  double workgroup_ns(const WinogradTiling& tiling) const {
    constexpr int64_t usual_rows = 6;
    double rows = static_cast<double>(llvm::alignTo(std::min(tiling.band_tiles, tiles_), usual_rows)),
           tiles = static_cast<double>(std::min(tiling.band_tiles, tiles_));
    double columns = static_cast<double>(llvm::divideCeilSigned(panels_.count, tiling.blocks) * panels_.wide * Panels::unit);
    double products = 2.0 * winograd_matrices * rows * static_cast<double>(channels_) * columns / flops_per_ns;
    double filter_bytes = 4.0 * winograd_matrices * static_cast<double>(channels_) * columns,
           all_bytes = filter_bytes * static_cast<double>(tiling.blocks);
    return products + tiles * columns / transformed_per_ns + filter_bytes / (all_bytes <= 400e3 ? 100 : 30) + start_ns;
  }
  double band_ns(const WinogradTiling& tiling) const {
    return static_cast<double>(std::min(tiling.band_tiles, tiles_) * channels_) / transformed_per_ns;
  }
  double nanoseconds(const WinogradTiling& tiling, int64_t cores) const {
    double rounds = static_cast<double>(llvm::divideCeilSigned(images_ * tiling.bands(tiles_) * tiling.blocks, cores));
    // A worker that runs several blocks of one band transforms it once.
    return rounds * workgroup_ns(tiling) + std::ceil(rounds / static_cast<double>(tiling.blocks)) * band_ns(tiling);
  }

  // All tilings, the best first.
  std::vector<std::pair<double, WinogradTiling>> rank(ArrayRef<std::pair<int64_t, double>> cores) const {
    std::vector<std::pair<double, WinogradTiling>> ranked;
    for (int64_t size = std::min(most_tiles, tiles_); size > 0; --size) {
      const int64_t bands = llvm::divideCeilSigned(tiles_, size);
      if (llvm::divideCeilSigned(tiles_, bands) != size || (bands > 1 && size < 6)) continue;
      for (int64_t blocks = 1; blocks <= std::min<int64_t>(panels_.count, 64); ++blocks) {
        if (llvm::divideCeilSigned(panels_.count, llvm::divideCeilSigned(panels_.count, blocks)) != blocks) continue;
        WinogradTiling tiling{size, blocks};
        double sum = 0, share = 0;
        for (auto [count, weight] : cores) {
          sum += weight * static_cast<double>(count) * nanoseconds(tiling, count);
          share += weight * static_cast<double>(count);
        }
        ranked.emplace_back(sum / share, tiling);
      }
    }
    llvm::stable_sort(ranked, [](const auto& a, const auto& b) { return a.first < b.first; });
    return ranked;
  }

 private:
  static constexpr double flops_per_ns = 100, start_ns = 300;
  static constexpr double transformed_per_ns = 1.2;  // tiles of a channel or a column
  int64_t tiles_, channels_;
  Panels panels_;
  int64_t images_;
};

constexpr std::pair<int64_t, double> winograd_few[] = {{1, 2.0}, {2, 1.0}, {4, 2.0}, {8, 1.0}, {16, 0.5}},
                                     winograd_many[] = {{8, 1.0}, {16, 2.0}, {32, 0.5}};

// The layout of the workspace, in elements of f32. Tiles of microkernels may extend beyond the last row. Matrices are an odd number of cache lines
// apart, so that the elements of a tile do not share a set of the cache.
struct WinogradLayout {
  int64_t lda, ldc, input_step, product_step, products, all;

  WinogradLayout(const ContractionShape& shape, const WinogradTiling& tiling, const Level& level) {
    const int64_t rows = tiling.band_tiles + (level.f32_lanes() == 16 ? 13 : 5);  // tile_rows() less one, at most
    auto apart = [](int64_t elements) { return (llvm::divideCeilSigned(elements, Panels::unit) | 1) * Panels::unit; };
    lda = llvm::alignTo(shape.channels, Panels::unit);
    ldc = Panels::own(shape.columns, level).wide * Panels::unit;
    input_step = apart(rows * lda);
    product_step = apart(rows * ldc);
    products = winograd_matrices * input_step;
    all = products + winograd_matrices * product_step;
  }
};

class WinogradWriter {
 public:
  WinogradWriter(KernelBuilder& kernel, const ContractionShape& shape, const WinogradTiling& tiling)
      : k_(kernel),
        shape_(shape),
        tiling_(tiling),
        layout_(shape, tiling, kernel.level),
        shared_(Panels::shared(shape.columns)),
        own_(Panels::own(shape.columns, kernel.level)),
        lanes_(kernel.level.f32_lanes()) {}

  uint64_t workspace_bytes() const { return static_cast<uint64_t>(4 * layout_.all); }

  void write() {
    if (loops_over_pixels()) sums_ = k_.stack(4 * 4 * lanes_);
    height_ = k_.extent(shape_.extents.height);
    width_ = k_.extent(shape_.extents.width);
    in_height_ = k_.extent(shape_.extents.in_height);
    in_width_ = k_.extent(shape_.extents.in_width);
    in_row_ = k_.extent(shape_.extents.in_row);
    tile_columns_ = k_.ceil_div(width_, k_.index(2));
    tile_count_ = k_.mul(k_.ceil_div(height_, k_.index(2)), tile_columns_);
    k_.loop(k_.first(), k_.last(), k_.index(1), ValueRange{k_.index(-1)},
            [&](Value workgroup, ValueRange carried) -> KernelBuilder::Values { return {write_workgroup(workgroup, carried[0])}; });
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }
  VectorType vector() { return k_.vector_type(f32(), lanes_); }
  Value at(int64_t offset) { return k_.pointer(k_.workspace(), k_.index(offset), f32()); }

  // Returns the band, whose transformed inputs are then in the workspace.
  Value write_workgroup(Value workgroup, Value previous) {
    Value block = k_.rem(workgroup, k_.index(tiling_.blocks)), band = k_.div(workgroup, k_.index(tiling_.blocks));
    Value bands = k_.ceil_div(tile_count_, k_.index(tiling_.band_tiles)), image = k_.div(band, bands);
    first_tile_ = k_.mul(k_.rem(band, bands), tiling_.band_tiles);
    count_ = k_.min(k_.index(tiling_.band_tiles), k_.sub(tile_count_, first_tile_));
    image_result_ = k_.mul(image, k_.extent(shape_.image_result));
    Value start = k_.add(k_.extent(shape_.lhs_start), k_.mul(image, k_.extent(shape_.image_lhs)));
    Value input = k_.pointer(k_.operand(shape_.lhs), start, f32());
    k_.branch(k_.make<arith::CmpIOp>(arith::CmpIPredicate::ne, band, previous), [&] { transform_inputs(input); });

    int64_t size = llvm::divideCeilSigned(shared_.count, tiling_.blocks);
    Value first = own_panel(k_, own_, shared_, k_.mul(block, size)),
          last = own_panel(k_, own_, shared_, k_.min(k_.mul(k_.add(block, 1), size), k_.index(shared_.count)));
    auto panels = [&](int64_t from, int64_t to, int64_t units) {
      if (from >= to) return;
      k_.loop(k_.max(first, k_.index(from)), k_.min(last, k_.index(to)), [&](Value panel) {
        multiply(panel, units);
        transform_products(k_.mul(first_unit(k_, own_, panel), Panels::unit), units);
      });
    };
    panels(0, own_.wide_count, own_.wide);
    panels(own_.wide_count, own_.count, own_.wide - 1);
    return band;
  }

  // Visits the tiles of the band, with their number in it and the first row and column of their results.
  void for_tiles(const std::function<void(Value, Value, Value)>& visit) {
    k_.loop(k_.index(0), count_, [&](Value i) {
      Value tile = k_.add(first_tile_, i), row = k_.div(tile, tile_columns_), column = k_.rem(tile, tile_columns_);
      visit(i, k_.mul(row, 2), k_.mul(column, 2));
    });
  }

  // Applies B^T to four values: differences and sums.
  std::array<Value, 4> input_sums(Value a, Value b, Value c, Value d) {
    return {k_.make<arith::SubFOp>(a, c), k_.make<arith::AddFOp>(b, c), k_.make<arith::SubFOp>(c, b), k_.make<arith::SubFOp>(b, d)};
  }
  // Applies A^T to four values, giving two.
  std::array<Value, 2> product_sums(Value a, Value b, Value c, Value d) {
    return {k_.make<arith::AddFOp>(k_.make<arith::AddFOp>(a, b), c), k_.make<arith::SubFOp>(k_.make<arith::SubFOp>(b, c), d)};
  }

  void transform_inputs(Value input) {
    for_tiles([&](Value i, Value row, Value column) {
      Value top = k_.sub(row, k_.index(shape_.pad_top)), left = k_.sub(column, k_.index(shape_.pad_left));
      auto exists = [&](Value place, Value extent) { return k_.make<arith::AndIOp>(k_.less(k_.index(-1), place), k_.less(place, extent)); };
      auto vectors = [&](bool inside) {
        std::array<Value, 16> masks;
        for (int64_t r = 0; r < 4 && !inside; ++r) {
          Value is_row = exists(k_.add(top, r), in_height_);
          for (int64_t s = 0; s < 4; ++s)
            masks[4 * r + s] = k_.splat(k_.make<arith::AndIOp>(is_row, exists(k_.add(left, s), in_width_)), lanes_);
        }
        auto transform = [&](Value channel, Value remainder) {
          std::array<std::array<Value, 4>, 4> across;
          for (int64_t s = 0; s < 4; ++s) {
            std::array<Value, 4> elements;
            for (int64_t r = 0; r < 4; ++r) {
              Value pixel = k_.add(k_.mul(k_.add(top, r), in_row_), k_.mul(k_.add(left, s), shape_.lhs_pixel));
              Value mask = inside ? remainder : masks[4 * r + s];
              if (!inside && remainder) mask = k_.make<arith::AndIOp>(mask, remainder);
              elements[r] = k_.load(input, k_.add(pixel, channel), f32(), lanes_, mask);
            }
            across[s] = input_sums(elements[0], elements[1], elements[2], elements[3]);
          }
          for (int64_t r = 0; r < 4; ++r) {
            std::array<Value, 4> sums = input_sums(across[0][r], across[1][r], across[2][r], across[3][r]);
            for (int64_t s = 0; s < 4; ++s)
              k_.store(sums[s], at((4 * r + s) * layout_.input_step), k_.add(k_.mul(i, layout_.lda), channel));
          }
        };
        const int64_t whole = shape_.channels / lanes_ * lanes_;
        if (whole > 0) k_.loop(k_.index(0), k_.index(whole), k_.index(lanes_), [&](Value channel) { transform(channel, {}); });
        if (whole < shape_.channels) transform(k_.index(whole), k_.remainder_mask(k_.index(shape_.channels - whole), lanes_));
      };
      Value is_inside = k_.make<arith::AndIOp>(k_.make<arith::AndIOp>(exists(top, in_height_), exists(k_.add(top, 3), in_height_)),
                                               k_.make<arith::AndIOp>(exists(left, in_width_), exists(k_.add(left, 3), in_width_)));
      k_.branch(is_inside, [&] { vectors(true); }, [&] { vectors(false); });
    });
  }

  // All products of the band with a panel.
  void multiply(Value panel, int64_t units) {
    const int64_t width = units * Panels::unit, depth = shape_.channels, matrix = depth * own_.padded_columns();
    MicrokernelForm form;
    form.vectors = width / lanes_;
    form.columns = width;
    form.packed = true;
    form.gathered = false;
    form.rows = tile_rows(k_.level, form.vectors);
    const int64_t row_tiles = llvm::divideCeilSigned(tiling_.band_tiles, form.rows);
    form.rows = llvm::divideCeilSigned(tiling_.band_tiles, row_tiles);
    MicrokernelArguments call;
    call.lda = k_.index(layout_.lda);
    call.batches = k_.index(1);
    call.depth = k_.index(depth);
    call.ldb = k_.index(0);
    call.ldc = k_.index(layout_.ldc);
    call.accumulate = k_.make<arith::ConstantIntOp>(0, 1);
    call.ahead = k_.index(0);
    call.next_step = k_.index(Panels::unit);
    Value start = k_.mul(first_unit(k_, own_, panel), Panels::unit * depth),
          following = k_.mul(first_unit(k_, own_, k_.add(panel, 1)), Panels::unit * depth);
    k_.loop(k_.index(0), k_.index(winograd_matrices), [&](Value m) {
      call.b = k_.pointer(k_.operand(shape_.rhs), k_.add(start, k_.mul(m, matrix)), f32());
      Value is_last = k_.less(k_.index(winograd_matrices - 2), m);
      Value next = k_.pointer(k_.operand(shape_.rhs),
                              k_.make<arith::SelectOp>(is_last, following, k_.add(start, k_.mul(k_.add(m, 1), matrix))), f32());
      Value a = k_.pointer(at(0), k_.mul(m, layout_.input_step), f32()),
            c = k_.pointer(at(layout_.products), k_.mul(m, layout_.product_step), f32());
      k_.loop(k_.index(0), count_, k_.index(form.rows), [&](Value row) {
        // The first tiles of rows prefetch a part of the next panel each.
        Value part = k_.min(k_.div(row, k_.index(form.rows)), k_.index(units - 1));
        call.next = k_.pointer(next, k_.mul(part, depth * Panels::unit), f32());
        call.a = k_.pointer(a, k_.mul(row, layout_.lda), f32());
        call.c = k_.pointer(c, k_.mul(row, layout_.ldc), f32());
        call_microkernel(k_, form, call);
      });
    });
  }

  bool may_leave() const { return shape_.is_plane || shape_.height % 2 != 0 || shape_.width % 2 != 0; }
  bool loops_over_pixels() const { return may_leave() || shape_.epilogue.is_long(); }

  void transform_products(Value first_column, int64_t units) {
    for_tiles([&](Value i, Value row, Value column) {
      k_.loop(k_.index(0), k_.index(units * Panels::unit), k_.index(lanes_), [&](Value v) {
        std::array<std::array<Value, 2>, 4> across;
        for (int64_t s = 0; s < 4; ++s) {
          std::array<Value, 4> products;
          for (int64_t r = 0; r < 4; ++r) {
            Value base = at(layout_.products + (4 * r + s) * layout_.product_step);
            products[r] = k_.load(base, k_.add(k_.mul(i, layout_.ldc), v), f32(), lanes_);
          }
          across[s] = product_sums(products[0], products[1], products[2], products[3]);
        }
        std::array<std::array<Value, 2>, 2> sums;
        for (int64_t r = 0; r < 2; ++r) sums[r] = product_sums(across[0][r], across[1][r], across[2][r], across[3][r]);

        Value channel = k_.add(first_column, v), mask;
        if (shape_.columns % Panels::unit != 0) mask = k_.remainder_mask(k_.sub(k_.index(shape_.columns), channel), lanes_);
        auto all = [&] {
          for (int64_t p = 0; p < 4; ++p) store(sums[p / 2][p % 2], k_.add(row, p / 2), k_.add(column, p % 2), channel, mask);
        };
        auto some = [&] {
          for (int64_t p = 0; p < 4; ++p) k_.store(sums[p / 2][p % 2], sums_, k_.index(p * lanes_));
          k_.loop(k_.index(0), k_.index(4), [&](Value p) {
            Value y = k_.add(row, k_.div(p, k_.index(2))), x = k_.add(column, k_.rem(p, k_.index(2)));
            Value exists = k_.make<arith::AndIOp>(k_.less(y, height_), k_.less(x, width_));
            k_.branch(exists, [&] { store(k_.load(sums_, k_.mul(p, lanes_), f32(), lanes_), y, x, channel, mask); });
          });
        };
        if (shape_.epilogue.is_long()) return some();
        if (!may_leave()) return all();
        Value is_whole = k_.make<arith::AndIOp>(k_.less(k_.add(row, 1), height_), k_.less(k_.add(column, 1), width_));
        k_.branch(is_whole, all, some);
      });
    });
  }

  void store(Value sum, Value y, Value x, Value channel, Value mask) {
    Value at = k_.add(k_.add(image_result_, k_.mul(k_.add(k_.mul(y, width_), x), shape_.pitch)), channel);
    k_.store(shape_.epilogue.emit_at(k_, sum, at, channel, mask), k_.result(0), at, mask);
  }

  KernelBuilder& k_;
  const ContractionShape& shape_;
  const WinogradTiling tiling_;
  const WinogradLayout layout_;
  const Panels shared_, own_;
  const int64_t lanes_;
  Value height_, width_, in_height_, in_width_, in_row_, tile_columns_, tile_count_;
  Value first_tile_, count_, image_result_, sums_;
};

// Of an image of symbolic size: networks usually have the fewer pixels the more channels they have.
int64_t usual_pixels(int64_t channels) {
  return std::clamp<int64_t>(3584 / std::max<int64_t>(channels, 1), 7, 112);
}

// For which bands are chosen, not too few of them, since a larger image reads all filters for each of its bands.
int64_t usual_tiles(const ContractionShape& shape) {
  if (!shape.is_plane) return WinogradTiles::of(shape.height, shape.width).count();
  auto extent = [&](AffineExpr known) { return tx::static_extent(known).value_or(std::max<int64_t>(14, usual_pixels(shape.channels))); };
  return WinogradTiles::of(extent(shape.extents.height), extent(shape.extents.width)).count();
}

}  // namespace

bool prefers_winograd(tx::ConvOp conv) {
  RankedTensorType input = tx::tensor(conv.getInput()), filter = tx::tensor(conv.getFilter()), result = tx::tensor(conv.getResult());
  auto is_one = [](int64_t value) { return value == 1; };
  if (filter.getRank() != 4 || !filter.hasStaticShape() || !filter.getElementType().isF32() || filter.getDimSize(0) != 3 ||
      filter.getDimSize(1) != 3 || conv.getGroups() != 1 || !llvm::all_of(conv.getStrides(), is_one) ||
      !llvm::all_of(conv.getDilations(), is_one))
    return false;
  if (ShapedType::isDynamic(input.getShape().back()) || ShapedType::isDynamic(result.getShape().back())) return false;
  const int64_t channels = filter.getDimSize(2), columns = filter.getDimSize(3);
  auto extent = [&](unsigned dimension) { return result.isDynamicDim(dimension) ? usual_pixels(channels) : result.getDimSize(dimension); };
  const int64_t height = extent(1), width = extent(2);
  constexpr int64_t fewest = 32, most_channels = 4096, most_pixels = int64_t{1} << 40;
  if (channels < fewest || channels > most_channels || columns < fewest || height < 1 || width < 1 || height > most_pixels / width)
    return false;
  WinogradModel model(WinogradTiles::of(height, width).count(), channels, columns, 1);
  const double weights = static_cast<double>(channels * columns), direct_bytes = 4.0 * 9 * weights;
  double direct =
      2.0 * 9 * weights * static_cast<double>(height) * static_cast<double>(width) / 95 + direct_bytes / (direct_bytes <= 400e3 ? 100 : 30);
  constexpr double enough = 1.1;
  return model.rank({{1, 1.0}}).front().first * enough < direct;
}

FailureOr<Plans> plans_winograd(tx::DispatchOp region) {
  if (llvm::none_of(region.getBody().front().getOps<tx::ConvOp>(), [](tx::ConvOp conv) { return conv.getWinograd(); })) return failure();
  auto shape = ContractionShape::read(region);
  if (failed(shape)) return failure();
  const int64_t tiles = usual_tiles(*shape);
  const AffineExpr all_tiles = shape->extents.height.ceilDiv(2) * shape->extents.width.ceilDiv(2);
  if (tiles == 0) return failure();
  WinogradModel model(tiles, shape->channels, shape->columns, std::max<int64_t>(1, tx::static_extent(shape->images).value_or(1)));
  Plans plans;
  auto add = [&](ArrayRef<std::pair<int64_t, double>> cores, const std::vector<Guard>& guards) {
    auto ranked = model.rank(cores);
    ranked.resize(std::min(ranked.size(), most_choices), ranked.front());
    for (const auto& [estimate, tiling] : ranked) {
      KernelPlan plan{shape->images * all_tiles.ceilDiv(tiling.band_tiles) * tiling.blocks};
      plan.cost_ns = static_cast<uint64_t>(model.workgroup_ns(tiling)) + 1;
      plan.choice = tiling.choice();
      plan.stores_rows_apart = !shape->epilogue.reads_full();
      plan.guards = guards;
      plan.estimate_ns = estimate;
      plans.push_back(std::move(plan));
    }
  };
  add(winograd_many, {Guard{{}, many_cores, INT64_MAX}});
  add(winograd_few, {});
  return plans;
}

FailureOr<KernelResources> emit_winograd(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels,
                                         const Level& level) {
  auto shape = ContractionShape::read(region);
  if (failed(shape)) return failure();
  if (plan.choice.numbers.size() != 2) return FailureOr<KernelResources>(region.emitError("x86_64: the plan is for another region"));
  KernelBuilder kernel(region, symbol, kernels, level);
  WinogradWriter writer(kernel, *shape, {plan.choice.numbers[0], plan.choice.numbers[1]});
  if (writer.workspace_bytes() > static_cast<uint64_t>(largest_workspace_bytes)) {
    return FailureOr<KernelResources>(shape->root->emitError("x86_64: a transformed band takes a workspace of ")
                                      << writer.workspace_bytes() << " bytes; up to " << largest_workspace_bytes << " are supported");
  }
  writer.write();
  kernel.finish();
  KernelResources resources;
  resources.workspace_bytes = writer.workspace_bytes();
  return resources;
}

}  // namespace heddle::targets::x86_64
