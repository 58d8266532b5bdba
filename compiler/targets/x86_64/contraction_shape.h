// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The common form of a matmul and a convolution: images of output pixels, each pixel a row of columns, as sums over taps and channels; the layout of
// columns in packed panels; and the tiling of the work. Read by plan and emit; emits nothing.
#pragma once

#include "compiler/targets/strategy.h"
#include "compiler/targets/x86_64/contraction_epilogue.h"

namespace heddle::targets::x86_64 {

// The matrices of a filter of 3 x 3 that is transformed by Winograd's method.
inline constexpr int64_t winograd_matrices = 16;

// Columns of one group in packed panels: the first `wide_count` have `wide` units of 16 columns, the others one unit less.
// A panel has all of K, row after row.
struct Panels {
  static constexpr int64_t unit = 16;
  int64_t columns = 0;
  int64_t units = 0;
  int64_t count = 0;
  int64_t wide = 0;
  int64_t wide_count = 0;

  // Panels of at most max_units, as equal as possible.
  static Panels divide(int64_t columns, int64_t max_units);
  // The grid's panels: the same for all levels.
  static Panels shared(int64_t columns) { return divide(columns, 4); }
  // A level's own panels, which subdivide the grid's.
  static Panels own(int64_t columns, const Level& level);

  int64_t first_unit(int64_t panel) const { return panel * (wide - 1) + std::min(panel, wide_count); }
  int64_t padded_columns() const { return units * unit; }
};

class KernelBuilder;

// first_unit() of a panel whose number is computed in the kernel.
mlir::Value first_unit(KernelBuilder& kernel, const Panels& panels, mlir::Value panel);
// The first of a level's own panels in one of the grid's.
mlir::Value own_panel(KernelBuilder& kernel, const Panels& own, const Panels& shared, mlir::Value shared_panel);

// As in a module file (sdk/module/verifier.h).
constexpr int64_t largest_workspace_bytes = int64_t{1} << 32;

// Order of K within a panel: [channel block][tap][channel in block].
struct DepthOrder {
  int64_t taps = 1;
  int64_t channels = 1;  // of one group
  int64_t block = 1;     // channels in a block; divides them

  static DepthOrder of(int64_t taps, int64_t channels);
  int64_t blocks() const { return channels / block; }
  int64_t depth() const { return taps * channels; }
};

struct ContractionShape {
  mlir::Operation* root = nullptr;
  unsigned lhs = 0, rhs = 0;     // bindings
  mlir::Type rhs_element;        // f32, floats of 16 bits, or integers of 8 or 16 bits
  std::optional<unsigned> zero;  // binding: what is subtracted from such integers, an f32 per column
  Epilogue epilogue;
  bool packed = false;      // rhs is in panels
  bool transposed = false;  // rhs is [columns, K], which each workgroup copies to panels of its own
  bool winograd = false;    // rhs is in transformed panels
  bool depthwise = false;   // one channel and one column per group

  mlir::AffineExpr images;  // times height x width output pixels each
  // A convolution over an image of symbolic size is computed by pieces of at most height x width output pixels, each from a copy of what it reads.
  bool is_plane = false;
  int64_t height = 1;
  int64_t width = 1;  // 0: `rows` pixels, a symbolic number
  mlir::AffineExpr rows;
  struct Extents {
    mlir::AffineExpr in_height, in_width, height, width;
    mlir::AffineExpr in_row;                            // elements from one row of input pixels to the next
  } extents;                                            // of a convolution's images; 1 row of a line
  mlir::AffineExpr image_lhs, image_rhs, image_result;  // elements from one image to the next
  mlir::AffineExpr lhs_start, rhs_start;                // first elements in their bindings

  // Of a matmul whose K is symbolic: K, and the elements from one row of A to the next. Null for others. `channels` is then an assumption.
  mlir::AffineExpr depth, lhs_step;

  int64_t groups = 1, channels = 1, columns = 1;  // channels and columns of all groups
  int64_t pitch = 1;                              // elements of the result from one pixel to the next
  int64_t in_height = 1, in_width = 1;
  int64_t lhs_pixel = 1, lhs_row = 1;  // elements from one pixel of input to the next; from one row of pixels to the next
  int64_t rhs_row = 1;                 // elements from one row of K to the next, if rhs is not packed; of a transposed rhs, from one column
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1, dilation_height = 1, dilation_width = 1, pad_top = 0, pad_left = 0;

  static mlir::FailureOr<ContractionShape> read(tx::DispatchOp region);
  // Chooses the size of pieces.
  void divide_plane();

  bool in_panels() const { return packed || transposed; }
  int64_t rhs_bytes() const { return rhs_element.getIntOrFloatBitWidth() / 8; }  // of an element
  int64_t group_channels() const { return channels / groups; }
  int64_t group_columns() const { return columns / groups; }
  // As packed; a filter that is not packed has all channels of a tap together.
  DepthOrder order() const {
    int64_t taps = kernel_height * kernel_width;
    return packed ? DepthOrder::of(taps, group_channels()) : DepthOrder{taps, group_channels(), group_channels()};
  }
  // Rows and columns of input under `n` output rows or columns.
  int64_t needed_height(int64_t n) const { return (n - 1) * stride_height + (kernel_height - 1) * dilation_height + 1; }
  int64_t needed_width(int64_t n) const { return (n - 1) * stride_width + (kernel_width - 1) * dilation_width + 1; }
  // Some window reaches outside the image, so a band of it is copied with its halo.
  bool needs_halo() const {
    return is_plane || pad_top > 0 || pad_left > 0 || needed_height(height) > in_height || (width > 0 && needed_width(width) > in_width);
  }
  // One row of pixels per image, at a constant distance in memory, or in a band's copy of it: bands may divide it anywhere.
  bool is_flat() const { return !is_plane && height == 1 && (!needs_halo() || is_line()); }
  // The image itself is one row, as for a convolution over one dimension.
  bool is_line() const { return in_height == 1 && kernel_height == 1 && pad_top == 0; }
  // Pixels of input under a band of `size` pixels (flat) or of output rows, with their halo.
  int64_t band_width(int64_t size) const { return needed_width(is_flat() ? size : width); }
  int64_t band_height(int64_t size) const { return needed_height(is_flat() ? 1 : size); }
  double flops_per_image() const;
};

// The tiling of the work: workgroup = (image * bands + band) * groups * blocks + group * blocks + block, where a band is of pixels (flat) or of
// output rows, and a block is of shared panels.
struct ContractionTiling {
  int64_t bands = 1;        // per image; 0 if the number of rows is symbolic
  int64_t band_size = 1;    // at most; in pixels or output rows
  int64_t blocks = 1;       // of one group
  int64_t pass_blocks = 1;  // channel blocks in one pass over a tile
  int64_t pass_depth = 0;   // for one tap: channels in one pass; 0 if channel blocks are counted. Of a symbolic K: at most
  int64_t passes = 1;       // 0: as many as a symbolic K needs

  // A sum begins again from zero after so many channels, or channel blocks, which are those of a pass if there are several: however many passes there
  // are, sums are the same. 0: not counted in this way. Of a symbolic K: at most.
  int64_t part_depth = 0, part_blocks = 0;

  // The numbers of a choice: bands, band_size and blocks. Passes do not depend on them, so that all tilings give the same bits.
  static ContractionTiling of(const ContractionShape& shape, bool single_pass, llvm::ArrayRef<int64_t> numbers);
  Choice choice() const;
  mlir::AffineExpr workgroups(const ContractionShape& shape) const;
};

// How many cores a tiling is for.
enum class Cores { few, many };
constexpr int64_t many_cores = 6;  // at least

// The most plans that are offered for each case.
constexpr size_t most_choices = 6;

// Whether a plan is better than the usual one by enough to justify its own kernel.
inline bool is_worthwhile(double estimate_ns, double usual_ns) {
  return usual_ns > estimate_ns * 1.05 && usual_ns > estimate_ns + 500;
}

struct RankedTiling {
  ContractionTiling tiling;
  double estimate_ns = 0;  // weighted mean over the numbers of cores that it is for
};

// All tilings, the best by estimate first. rows: assumed number, if the shape's is symbolic.
std::vector<RankedTiling> rank_tilings(const ContractionShape& shape, bool single_pass, Cores cores, int64_t rows);

}  // namespace heddle::targets::x86_64
