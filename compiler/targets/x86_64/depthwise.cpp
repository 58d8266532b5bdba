// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A depthwise convolution by output rows: some neighboring pixels of one vector of channels at a time, so that loads of the filter are shared.
// Windows that leave the image are shortened, not padded. Called by contraction.
#include "compiler/targets/x86_64/contraction_shape.h"
#include "compiler/targets/x86_64/kernel_builder.h"
#include "compiler/targets/x86_64/strategies.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

constexpr double flops_per_ns = 30;

// Of an image of symbolic size, to choose bands by.
constexpr int64_t usual_pixels = 28;

ContractionShape usual_image(ContractionShape shape) {
  if (shape.is_plane) {
    shape.width = usual_pixels;
    shape.height = tx::static_extent(shape.extents.height).value_or(usual_pixels);
  }
  return shape;
}

double row_ns(const ContractionShape& shape) {
  return 2.0 * static_cast<double>(shape.width * shape.channels * shape.kernel_height * shape.kernel_width) / flops_per_ns;
}

// Output rows of one workgroup on few cores.
int64_t usual_band(const ContractionShape& shape) {
  constexpr double enough_ns = 6700;
  return static_cast<int64_t>(std::clamp(enough_ns / row_ns(shape), 1.0, static_cast<double>(std::max<int64_t>(1, shape.height))));
}

double estimate_ns(const ContractionShape& shape, int64_t band, int64_t cores) {
  constexpr double start_ns = 150;
  int64_t images = tx::static_extent(shape.images).value_or(1);
  int64_t rounds = llvm::divideCeilSigned(images * llvm::divideCeilSigned(shape.height, band), cores);
  return static_cast<double>(rounds) * (static_cast<double>(band) * row_ns(shape) + start_ns);
}

// Sizes of bands, the best for so many cores first.
std::vector<int64_t> rank_bands(const ContractionShape& shape, int64_t cores) {
  int64_t usual = usual_band(shape);
  std::vector<int64_t> bands;
  for (int64_t band = 1; band <= std::min(2 * usual, shape.height); ++band) bands.push_back(band);
  llvm::stable_sort(bands, [&](int64_t a, int64_t b) { return estimate_ns(shape, a, cores) < estimate_ns(shape, b, cores); });
  return bands;
}

class DepthwiseWriter {
 public:
  // band: output rows of one workgroup.
  DepthwiseWriter(KernelBuilder& kernel, const ContractionShape& shape, int64_t band)
      : k_(kernel), shape_(shape), band_(band), lanes_(kernel.level.f32_lanes()) {}

  void write() {
    const auto& extents = shape_.extents;
    height_ = k_.extent(extents.height);
    width_ = k_.extent(extents.width);
    in_height_ = k_.extent(extents.in_height);
    in_width_ = k_.extent(extents.in_width);
    in_row_ = k_.extent(extents.in_row);
    Value bands = k_.ceil_div(height_, k_.index(band_));
    k_.for_workgroups([&](Value workgroup) {
      Value band = k_.rem(workgroup, bands), image = k_.div(workgroup, bands);
      Value start = k_.add(k_.extent(shape_.lhs_start), k_.mul(image, k_.extent(shape_.image_lhs)));
      input_ = k_.pointer(k_.operand(shape_.lhs), start, f32());
      image_result_ = k_.mul(image, k_.extent(shape_.image_result));
      Value from = k_.mul(band, band_), to = k_.min(k_.add(from, band_), height_);
      k_.loop(from, to, [&](Value row) { write_row(row); });
    });
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }
  VectorType vector() { return k_.vector_type(f32(), lanes_); }

  // Taps r with 0 <= start + r * dilation < extent, as [first, last).
  std::pair<Value, Value> inside(Value start, int64_t dilation, Value extent, int64_t taps) {
    Value first = k_.max(k_.index(0), k_.ceil_div(k_.max(k_.sub(k_.index(0), start), k_.index(0)), k_.index(dilation)));
    Value span = k_.max(k_.sub(extent, start), k_.index(0));
    Value last = k_.min(k_.index(taps), k_.ceil_div(span, k_.index(dilation)));
    return {first, last};
  }

  void write_row(Value row) {
    Value top = k_.sub(k_.mul(row, shape_.stride_height), k_.index(shape_.pad_top));
    auto [first, last] = inside(top, shape_.dilation_height, in_height_, shape_.kernel_height);
    top_ = top;
    first_tap_ = first;
    last_tap_ = last;
    row_result_ = k_.add(image_result_, k_.mul(row, k_.mul(width_, shape_.channels)));

    // Columns whose windows lie inside the image: [left, right).
    Value left = k_.min(width_, k_.index(llvm::divideCeilSigned(shape_.pad_left, shape_.stride_width)));
    const int64_t reach = (shape_.kernel_width - 1) * shape_.dilation_width;
    Value span = k_.sub(in_width_, k_.index(1 + reach - shape_.pad_left));  // -1 or less if no window fits
    Value fitting = k_.div(k_.max(k_.add(span, shape_.stride_width), k_.index(0)), k_.index(shape_.stride_width));
    Value right = k_.min(k_.max(fitting, left), width_);
    int64_t whole = shape_.channels / lanes_ * lanes_;
    auto at_channels = [&](Value channel, Value mask) {
      k_.loop(k_.index(0), left, [&](Value x) { write_border(x, channel, mask); });
      Value grouped = k_.add(left, k_.mul(k_.div(k_.sub(right, left), k_.index(pixels_)), pixels_));
      k_.loop(left, grouped, k_.index(pixels_), [&](Value x) { write_inside(x, pixels_, channel, mask); });
      k_.loop(grouped, right, [&](Value x) { write_inside(x, 1, channel, mask); });
      k_.loop(right, width_, [&](Value x) { write_border(x, channel, mask); });
    };
    if (whole > 0) k_.loop(k_.index(0), k_.index(whole), k_.index(lanes_), [&](Value channel) { at_channels(channel, Value()); });
    if (whole < shape_.channels) at_channels(k_.index(whole), k_.remainder_mask(k_.index(shape_.channels - whole), lanes_));
  }

  Value input_row(Value tap) {
    Value y = k_.add(top_, k_.mul(tap, shape_.dilation_height));
    return k_.mul(y, in_row_);
  }
  Value load_input(Value row, Value x, Value channel, Value mask) {
    return k_.load(input_, k_.add(k_.add(row, k_.mul(x, shape_.lhs_pixel)), channel), f32(), lanes_, mask);
  }
  Value load_filter(Value tap, Value s, Value channel, Value mask) {
    Value at = k_.add(k_.mul(k_.add(k_.mul(tap, shape_.kernel_width), s), shape_.channels), channel);
    Value weights = k_.to_f32(k_.load(k_.operand(shape_.rhs), at, shape_.rhs_element, lanes_, mask), shape_.rhs_element);
    if (!shape_.zero) return weights;
    return k_.make<arith::SubFOp>(weights, k_.load(k_.operand(*shape_.zero), channel, f32(), lanes_, mask));
  }

  // `count` neighbors whose windows are inside the image's width.
  void write_inside(Value x, int64_t count, Value channel, Value mask) {
    Value left = k_.sub(k_.mul(x, shape_.stride_width), k_.index(shape_.pad_left));
    KernelBuilder::Values sums(count, k_.constant(vector(), 0.0));
    sums = k_.loop(first_tap_, last_tap_, k_.index(1), sums, [&](Value tap, ValueRange carried) {
      KernelBuilder::Values next(carried);
      Value row = input_row(tap);
      auto at_column = [&](Value s, KernelBuilder::Values column) {
        Value weight = load_filter(tap, s, channel, mask), first = k_.add(left, k_.mul(s, shape_.dilation_width));
        for (int64_t i = 0; i < count; ++i) {
          Value element = load_input(row, k_.add(first, i * shape_.stride_width), channel, mask);
          column[i] = k_.make<vector::FMAOp>(element, weight, column[i]);
        }
        return column;
      };
      if (shape_.kernel_width > largest_unrolled_) {
        return k_.loop(k_.index(0), k_.index(shape_.kernel_width), k_.index(1), next,
                       [&](Value s, ValueRange inner) { return at_column(s, KernelBuilder::Values(inner)); });
      }
      for (int64_t s = 0; s < shape_.kernel_width; ++s) next = at_column(k_.index(s), next);
      return next;
    });
    for (int64_t i = 0; i < count; ++i) store(sums[i], k_.add(x, i), channel, mask);
  }

  void write_border(Value x, Value channel, Value mask) {
    Value left = k_.sub(k_.mul(x, shape_.stride_width), k_.index(shape_.pad_left));
    auto [first, last] = inside(left, shape_.dilation_width, in_width_, shape_.kernel_width);
    Value from = first, to = last;
    KernelBuilder::Values sums{k_.constant(vector(), 0.0)};
    sums = k_.loop(first_tap_, last_tap_, k_.index(1), sums, [&](Value tap, ValueRange outer) {
      Value row = input_row(tap);
      return k_.loop(from, to, k_.index(1), outer, [&](Value s, ValueRange inner) -> KernelBuilder::Values {
        Value element = load_input(row, k_.add(left, k_.mul(s, shape_.dilation_width)), channel, mask);
        return {k_.make<vector::FMAOp>(element, load_filter(tap, s, channel, mask), inner[0])};
      });
    });
    store(sums[0], x, channel, mask);
  }

  void store(Value sum, Value x, Value channel, Value mask) {
    Value at = k_.add(k_.add(row_result_, k_.mul(x, shape_.channels)), channel);
    k_.store(shape_.epilogue.emit_at(k_, sum, at, channel, mask), k_.result(0), at, mask);
  }

  static constexpr int64_t largest_unrolled_ = 16;  // columns of a filter; each adds code
  static constexpr int64_t pixels_ = 4;             // sums of one group of neighbors
  KernelBuilder& k_;
  const ContractionShape& shape_;
  const int64_t band_;
  int64_t lanes_;
  Value height_, width_, in_height_, in_width_, in_row_;
  Value input_, image_result_, top_, first_tap_, last_tap_, row_result_;
};

}  // namespace

FailureOr<Plans> plans_depthwise(tx::DispatchOp region) {
  if (region.getBody().front().getOps<tx::ConvOp>().empty()) return failure();
  auto shape = ContractionShape::read(region);
  if (failed(shape) || !shape->depthwise) return failure();
  const ContractionShape image = usual_image(*shape);
  Plans plans;
  auto add = [&](int64_t band, int64_t cores, const std::vector<Guard>& guards) {
    KernelPlan plan{shape->images * shape->extents.height.ceilDiv(band)};
    plan.cost_ns = static_cast<uint64_t>(static_cast<double>(band) * row_ns(image)) + 1;
    plan.choice = {std::to_string(band) + (band == 1 ? " row" : " rows"), {band}};
    plan.guards = guards;
    plan.estimate_ns = estimate_ns(image, band, cores);
    plans.push_back(std::move(plan));
  };
  const int64_t usual = usual_band(image);
  for (const auto& [cores, guards] : {std::pair<int64_t, std::vector<Guard>>{16, {Guard{{}, many_cores, INT64_MAX}}}, {2, {}}}) {
    std::vector<int64_t> bands = rank_bands(image, cores);
    bool is_usual = guards.empty() || !is_worthwhile(estimate_ns(image, bands.front(), cores), estimate_ns(image, usual, cores));
    if (is_usual) {
      llvm::erase(bands, usual);
      bands.insert(bands.begin(), usual);
    }
    bands.resize(std::min(bands.size(), most_choices));
    for (int64_t band : bands) add(band, cores, guards);
  }
  return plans;
}

FailureOr<KernelResources> emit_depthwise(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels,
                                          const Level& level) {
  auto shape = ContractionShape::read(region);
  if (failed(shape)) return failure();
  if (plan.choice.numbers.size() != 1) return FailureOr<KernelResources>(region.emitError("x86_64: the plan is for another region"));
  KernelBuilder kernel(region, symbol, kernels, level);
  DepthwiseWriter(kernel, *shape, plan.choice.numbers.front()).write();
  kernel.finish();
  return KernelResources{};
}

}  // namespace heddle::targets::x86_64
