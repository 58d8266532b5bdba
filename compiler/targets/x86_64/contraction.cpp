// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul and convolution by microkernels: loops over workgroups, passes over K, panels and tiles. Called by the target. There is no im2col: a
// convolution reads the image in place, or a band of it that was copied with its halo.
#include "compiler/targets/x86_64/strategies.h"

#include "compiler/ir/dot_products.h"
#include "compiler/targets/x86_64/contraction_shape.h"
#include "compiler/targets/x86_64/halo_copy.h"
#include "compiler/targets/x86_64/microkernel.h"
#include "compiler/targets/x86_64/panel_columns.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// Between passes the result has the sums, so its memory must not also be an operand of the epilogue.
bool is_single_pass(tx::DispatchOp region) {
  return region.overwritten().has_value();
}

// From one pixel of the image, or of a band's copy of it, to the next.
int64_t pixel_step(const ContractionShape& shape) {
  return shape.needs_halo() ? shape.channels : shape.lhs_pixel;
}

// Taps that are adjacent in memory are one long run of K.
bool has_merged_taps(const ContractionShape& shape) {
  DepthOrder order = shape.order();
  return order.taps > 1 && order.blocks() == 1 && shape.dilation_width == 1 && shape.groups == 1 && pixel_step(shape) == shape.channels;
}

// Tables of offsets are part of the image. Usual windows have up to 961 taps; no real model needs a table above this limit.
constexpr int64_t most_table_entries = 1 << 16;

// Entries of the table of tap offsets, or nothing if there are too many.
std::optional<int64_t> tap_entries(const ContractionShape& shape, const ContractionTiling& tiling) {
  int64_t entries = 0;
  int64_t across = has_merged_taps(shape) ? 1 : shape.kernel_width;
  if (__builtin_mul_overflow(shape.kernel_height, across, &entries)) return {};
  if (__builtin_mul_overflow(entries, tiling.pass_blocks, &entries) || entries > most_table_entries) return {};
  return entries;
}

// The first element, of 8 bytes, of the table behind the copy of a piece.
int64_t plane_table(const ContractionShape& shape) {
  return llvm::divideCeilSigned(shape.needed_height(shape.height) * shape.needed_width(shape.width) * shape.channels, 2);
}

// Bytes of a band's copy, or of a workgroup's own panel, or nothing if they exceed the largest workspace.
std::optional<uint64_t> workspace_bytes_of(const ContractionShape& shape, const ContractionTiling& tiling) {
  if (shape.transposed) {
    int64_t bytes = 0;
    const int64_t row_bytes = Panels::shared(shape.columns).wide * Panels::unit * 4;
    if (__builtin_mul_overflow(tiling.pass_depth, row_bytes, &bytes) || bytes > largest_workspace_bytes) return {};
    return static_cast<uint64_t>(bytes);
  }
  if (!shape.needs_halo()) return 0;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.band_width(tiling.band_size), shape.band_height(tiling.band_size), &bytes)) return {};
  if (__builtin_mul_overflow(bytes, shape.channels, &bytes) || __builtin_mul_overflow(bytes, int64_t{4}, &bytes)) return {};
  if (bytes < 0 || bytes > largest_workspace_bytes) return {};
  if (shape.is_plane) bytes = (plane_table(shape) + 2 * shape.height * shape.width) * 8;
  return static_cast<uint64_t>(bytes);
}

// Whether the resources of a kernel with this tiling are within reason; otherwise it is refused before it is made.
bool is_reasonable(const ContractionShape& shape, const ContractionTiling& tiling) {
  return tap_entries(shape, tiling) && workspace_bytes_of(shape, tiling);
}

LogicalResult refuse(const ContractionShape& shape, const ContractionTiling& tiling) {
  if (!tap_entries(shape, tiling)) {
    return shape.root->emitError("x86_64: a window of ")
           << shape.kernel_height << " x " << shape.kernel_width << " taps over " << tiling.pass_blocks
           << " blocks of channels is too large; up to " << most_table_entries << " taps are supported";
  }
  return shape.root->emitError("x86_64: a padded band of ")
         << shape.band_height(tiling.band_size) << " x " << shape.band_width(tiling.band_size) << " pixels of " << shape.channels
         << " channels is too large; up to " << largest_workspace_bytes << " bytes are supported";
}

class ContractionWriter {
 public:
  ContractionWriter(KernelBuilder& kernel, const ContractionShape& shape, const ContractionTiling& tiling)
      : k_(kernel),
        shape_(shape),
        tiling_(tiling),
        order_(shape.order()),
        shared_(Panels::shared(shape.group_columns())),
        own_(Panels::own(shape.group_columns(), kernel.level)),
        copy_(kernel, shape) {}

  void write() {
    prepare();
    k_.loop(k_.first(), k_.last(), k_.index(1), ValueRange{k_.index(-1)},
            [&](Value workgroup, ValueRange carried) -> KernelBuilder::Values {
              write_workgroup(workgroup, carried[0]);
              return {band_};
            });
  }

 private:
  Type f32() { return k_.builder.getF32Type(); }

  // Panels of the same width and the same number of valid columns.
  struct Segment {
    int64_t first, last;  // the level's own panels
    int64_t units, columns;
    PanelVectors vectors(const Level& level) const { return PanelVectors::of(level, units * Panels::unit, columns); }
  };

  void prepare() {
    bool halo = shape_.needs_halo();
    pixel_ = pixel_step(shape_) * shape_.stride_width;
    if (shape_.depth) {
      depth_ = k_.extent(shape_.depth);
      lhs_step_ = k_.extent(shape_.lhs_step);
    }
    row_ = halo ? copy_.row() : shape_.lhs_row;

    merged_ = has_merged_taps(shape_);
    SmallVector<int64_t> offsets;
    int64_t taps_across = merged_ ? 1 : shape_.kernel_width;
    for (int64_t block = 0; block < tiling_.pass_blocks; ++block) {
      for (int64_t r = 0; r < shape_.kernel_height; ++r) {
        for (int64_t s = 0; s < taps_across; ++s) {
          offsets.push_back(r * shape_.dilation_height * row_ + s * shape_.dilation_width * pixel_step(shape_) + block * order_.block);
        }
      }
    }
    batches_per_block_ = shape_.kernel_height * taps_across;

    // Rows of the image that are not a multiple of the tile: tiles continue into the next row, with a table of the offset of each pixel.
    int64_t most_rows = tile_rows(k_.level, own_.wide * Panels::unit / k_.level.f32_lanes());
    int64_t waste = llvm::divideCeilSigned(shape_.width, most_rows) * most_rows - shape_.width;
    gathered_ = shape_.is_plane;
    if (gathered_) {
      pixel_offsets_ = k_.pointer(k_.workspace(), k_.index(plane_table(shape_)), k_.builder.getI64Type());
      result_offsets_ = k_.pointer(pixel_offsets_, k_.index(shape_.height * shape_.width), k_.builder.getI64Type());
    }
    bool is_uneven = !shape_.is_plane && !shape_.is_flat() && shape_.height > 1 && shape_.width <= 64 && waste * 10 > shape_.width &&
                     tiling_.band_size <= most_table_entries / shape_.width;
    if (is_uneven) {
      gathered_ = true;
      SmallVector<int64_t> pixels;
      for (int64_t y = 0; y < tiling_.band_size; ++y) {
        for (int64_t x = 0; x < shape_.width; ++x) pixels.push_back(y * shape_.stride_height * row_ + x * pixel_);
      }
      pixel_offsets_ = constant_offsets(k_, pixels);
    }
    if (offsets.size() > 1) offsets_ = constant_offsets(k_, offsets);

    int64_t whole = own_.columns % Panels::unit == 0 ? own_.count : own_.count - 1;
    auto add = [&](int64_t first, int64_t last, int64_t units, int64_t columns) {
      if (first < last) segments_.push_back({first, last, units, columns});
    };
    add(0, std::min(own_.wide_count, whole), own_.wide, own_.wide * Panels::unit);
    add(own_.wide_count, whole, own_.wide - 1, (own_.wide - 1) * Panels::unit);
    if (whole < own_.count) {
      int64_t units = own_.count - 1 < own_.wide_count ? own_.wide : own_.wide - 1;
      add(whole, own_.count, units, own_.columns - own_.first_unit(own_.count - 1) * Panels::unit);
    }
  }

  void write_workgroup(Value workgroup, Value previous_band) {
    int64_t column_blocks = tiling_.blocks * shape_.groups;
    Value column_block = k_.rem(workgroup, k_.index(column_blocks));
    band_ = k_.div(workgroup, k_.index(column_blocks));
    Value group = k_.div(column_block, k_.index(tiling_.blocks));
    Value block = k_.rem(column_block, k_.index(tiling_.blocks));
    Value bands = k_.index(tiling_.bands);
    band_rows_ = k_.index(tiling_.band_size);
    if (tiling_.bands == 0) {
      bands = k_.ceil_div(k_.extent(shape_.rows), band_rows_);
      band_rows_ = k_.ceil_div(k_.extent(shape_.rows), k_.max(bands, k_.index(1)));
    }
    if (shape_.is_plane) bands = k_.mul(pieces(shape_.extents.height, shape_.height), pieces(shape_.extents.width, shape_.width));
    Value band = k_.rem(band_, bands), image = k_.div(band_, bands);

    // The level's own panels of this block.
    int64_t size = llvm::divideCeilSigned(shared_.count, tiling_.blocks);
    Value first_shared = k_.mul(block, size), last_shared = k_.min(k_.mul(k_.add(block, 1), size), k_.index(shared_.count));
    first_panel_ = own_panel(k_, own_, shared_, first_shared);
    last_panel_ = own_panel(k_, own_, shared_, last_shared);

    first_column_ = k_.mul(first_unit(k_, own_, first_panel_), Panels::unit);

    // Pixels or rows of this band.
    Value from = k_.mul(band, band_rows_);
    bool flat = shape_.is_flat();
    Value a_offset = k_.add(k_.extent(shape_.lhs_start), k_.mul(image, k_.extent(shape_.image_lhs)));
    Value a = k_.pointer(k_.operand(shape_.lhs), a_offset, f32());
    Piece piece;
    if (shape_.is_plane) {
      piece = piece_of(band);
      from = k_.add(k_.mul(piece.top, k_.extent(shape_.extents.width)), piece.left);
    }
    const int64_t pixels = flat || shape_.is_plane ? 1 : shape_.width;
    c_offset_ = k_.add(k_.mul(from, pixels * shape_.pitch), k_.mul(group, shape_.group_columns()));
    c_offset_ = k_.add(k_.mul(image, k_.extent(shape_.image_result)), c_offset_);
    int64_t group_rhs = shape_.packed ? order_.depth() * shared_.padded_columns() : shape_.group_columns();
    Value b_offset = k_.add(k_.mul(image, k_.extent(shape_.image_rhs)), k_.mul(group, group_rhs));
    Value b = k_.pointer(k_.operand(shape_.rhs), k_.add(k_.extent(shape_.rhs_start), b_offset), shape_.rhs_element);
    group_column_ = k_.mul(group, shape_.group_columns());
    if (shape_.is_plane) {
      Value moved = k_.make<arith::CmpIOp>(arith::CmpIPredicate::ne, band_, previous_band);
      k_.branch(moved, [&] {
        copy_.piece(a, piece);
        write_offsets(piece);
      });
      pixels_ = k_.mul(piece.rows, piece.columns);
      a = k_.workspace();
    } else if (shape_.needs_halo()) {
      Value rows = k_.min(k_.index(tiling_.band_size), k_.sub(k_.index(flat ? shape_.width : shape_.height), from));
      Value moved = k_.make<arith::CmpIOp>(arith::CmpIPredicate::ne, band_, previous_band);
      k_.branch(moved, [&] { flat ? copy_.part_of_line(a, from, rows) : copy_.band(a, from, rows); });
      a = k_.workspace();
    } else {
      a = k_.pointer(a, flat ? pixels_from(from) : k_.mul(from, shape_.stride_height * row_), f32());
    }
    a = k_.pointer(a, k_.mul(group, shape_.group_channels()), f32());

    write_passes(a, b, from);
  }

  // Elements of A in so many pixels of a flat image.
  Value pixels_from(Value pixels) { return lhs_step_ ? k_.mul(pixels, lhs_step_) : k_.mul(pixels, pixel_); }

  // ---- pieces of an image of symbolic size

  Value pieces(AffineExpr extent, int64_t size) { return k_.ceil_div(k_.extent(extent), k_.index(size)); }

  Piece piece_of(Value band) {
    Value across = pieces(shape_.extents.width, shape_.width);
    Piece piece{k_.mul(k_.div(band, across), shape_.height), k_.mul(k_.rem(band, across), shape_.width), {}, {}};
    piece.rows = k_.min(k_.index(shape_.height), k_.sub(k_.extent(shape_.extents.height), piece.top));
    piece.columns = k_.min(k_.index(shape_.width), k_.sub(k_.extent(shape_.extents.width), piece.left));
    return piece;
  }

  // Where each pixel of the piece is in the copy and, relative to the first one, in the result: tiles continue from one row of pixels to the next.
  void write_offsets(const Piece& piece) {
    Value result_row = k_.mul(k_.extent(shape_.extents.width), shape_.pitch);
    k_.loop(k_.index(0), piece.rows, [&](Value y) {
      Value first = k_.mul(y, piece.columns), source = k_.mul(y, shape_.stride_height * row_), target = k_.mul(y, result_row);
      k_.loop(k_.index(0), piece.columns, [&](Value x) {
        Value pixel = k_.add(first, x);
        k_.store(k_.add(source, k_.mul(x, pixel_)), pixel_offsets_, pixel);
        k_.store(k_.add(target, k_.mul(x, shape_.pitch)), result_offsets_, pixel);
      });
    });
  }

  // ---- passes over K

  struct Pass {
    Value a, b_row;  // start in A; first row of K in a panel
    Value batches, depth;
    Value accumulate;
    int64_t most;  // rows of K, at most
    bool last;
    int64_t rows = 0;                          // of K, for one tap; 0: symbolic
    Value part_batches = {}, part_depth = {};  // null: the sum of the pass has no parts
  };

  // How many batches of a window the sum of a part has.
  int64_t part_batches() const {
    constexpr int64_t longest_part = 2048;
    const int64_t depth = order_.block * (merged_ ? shape_.kernel_width : 1);
    const int64_t most = std::max<int64_t>(1, longest_part / depth);
    if (tiling_.part_blocks > 1 || batches_per_block_ <= most) return tiling_.part_blocks * batches_per_block_;
    return llvm::divideCeilSigned(batches_per_block_, llvm::divideCeilSigned(batches_per_block_, most));
  }

  // As ContractionTiling::of divides a static K, so that a sum is the same.
  void write_passes_of_symbol(Value a, Value b, Value from) {
    Value one = k_.index(1), parts = k_.max(one, k_.ceil_div(depth_, k_.index(tiling_.part_depth)));
    Value length = k_.max(one, k_.min(depth_, k_.mul(k_.ceil_div(k_.ceil_div(depth_, parts), k_.index(16)), 16)));
    if (tiling_.passes == 1) {
      Pass all{a, k_.index(0), one, depth_, k_.make<arith::ConstantIntOp>(0, 1), tiling_.pass_depth, true};
      all.part_batches = one;
      all.part_depth = length;
      return write_panels(all, b, from);
    }
    Value passes = k_.max(one, k_.ceil_div(depth_, length));
    auto pass = [&](Value index, Value accumulate, bool last) {
      Value start = k_.mul(index, length);
      write_panels({k_.pointer(a, start, f32()), start, one, last ? k_.sub(depth_, start) : length, accumulate, tiling_.pass_depth, last},
                   b, from);
    };
    Value before = k_.sub(passes, one);
    k_.loop(k_.index(0), before, [&](Value i) { pass(i, k_.less(k_.index(0), i), false); });
    pass(before, k_.less(one, passes), true);
  }

  void write_passes(Value a, Value b, Value from) {
    if (depth_) return write_passes_of_symbol(a, b, from);
    Value no = k_.make<arith::ConstantIntOp>(0, 1), yes = k_.make<arith::ConstantIntOp>(1, 1);
    auto pass = [&](Value index, Value accumulate, bool last) {
      Pass p;
      p.accumulate = accumulate;
      p.last = last;
      if (tiling_.pass_depth > 0) {
        Value start = k_.mul(index, tiling_.pass_depth);
        p.a = k_.pointer(a, start, f32());
        p.b_row = start;
        p.batches = k_.index(1);
        p.rows = last ? order_.channels - (tiling_.passes - 1) * tiling_.pass_depth : tiling_.pass_depth;
        p.depth = k_.index(p.rows);
        p.most = tiling_.pass_depth;
        if (tiling_.part_depth < tiling_.pass_depth) {
          p.part_batches = k_.index(1);
          p.part_depth = k_.index(tiling_.part_depth);
        }
      } else {
        Value start = k_.mul(index, tiling_.pass_blocks);
        p.a = k_.pointer(a, k_.mul(start, order_.block), f32());
        p.b_row = k_.mul(start, order_.block * order_.taps);
        int64_t blocks = last ? order_.blocks() - (tiling_.passes - 1) * tiling_.pass_blocks : tiling_.pass_blocks;
        p.batches = k_.index(blocks * batches_per_block_);
        p.depth = k_.index(merged_ ? order_.block * shape_.kernel_width : order_.block);
        p.most = tiling_.pass_blocks * order_.block * order_.taps;
        if (part_batches() < tiling_.pass_blocks * batches_per_block_) {
          p.part_batches = k_.index(part_batches());
          p.part_depth = p.depth;
        }
      }
      write_panels(p, b, from);
    };
    if (tiling_.passes > 1) {
      k_.loop(k_.index(0), k_.index(tiling_.passes - 1), [&](Value i) {
        Value later = k_.less(k_.index(0), i);
        pass(i, later, false);
      });
      pass(k_.index(tiling_.passes - 1), yes, true);
    } else {
      pass(k_.index(0), no, true);
    }
  }

  // Element of the packed rhs where row `row` of panel `panel` starts.
  Value panel_row(Value panel, Value row) {
    Value start = k_.mul(first_unit(k_, own_, panel), order_.depth() * Panels::unit);
    Value is_wide = k_.less(panel, k_.index(own_.wide_count));
    Value width = own_.wide_count == own_.count
                      ? k_.index(own_.wide * Panels::unit)
                      : k_.make<arith::SelectOp>(is_wide, k_.index(own_.wide * Panels::unit), k_.index((own_.wide - 1) * Panels::unit));
    return k_.add(start, k_.mul(row, width));
  }

  // Element of the rhs where row `row` of what a panel is, or is made of, starts.
  Value panel_source(Value panel, Value row) {
    if (!shape_.transposed) return panel_row(panel, row);
    return k_.add(k_.mul(first_unit(k_, own_, panel), Panels::unit * shape_.rhs_row), row);
  }

  // Copies a pass of the panel's columns to the workspace.
  void pack(const Segment& segment, Value source, int64_t depth) {
    Value step = k_.index(segment.units * Panels::unit);
    auto unit = [&](Value number, Value existing) {
      Value from = k_.pointer(source, k_.mul(number, Panels::unit * shape_.rhs_row), f32());
      Value to = k_.pointer(k_.workspace(), k_.mul(number, Panels::unit), f32());
      write_columns(k_, f32(), {from, shape_.rhs_row, to, step, depth, existing});
    };
    const int64_t whole = segment.columns / Panels::unit, rest = segment.columns % Panels::unit;
    if (whole > 0) k_.loop(k_.index(0), k_.index(whole), [&](Value number) { unit(number, {}); });
    if (rest > 0) unit(k_.index(whole), k_.index(rest));
  }

  // Short reductions over panels that all stay in L2: every tile of rows visits all panels, so that C and the epilogue's operands are walked in
  // memory order.
  bool rows_outside() const {
    int64_t panels_bytes = shape_.rhs_bytes() * order_.depth() * llvm::divideCeilSigned(shared_.units, tiling_.blocks) * Panels::unit;
    return tiling_.passes == 1 && shape_.packed && shared_.count > tiling_.blocks && order_.depth() <= 256 && panels_bytes <= 256 * 1024;
  }

  void write_panels(const Pass& pass, Value b, Value from) {
    if (rows_outside()) {
      int64_t most_rows = 1 << 20;
      for (const Segment& segment : segments_) {
        most_rows = std::min(most_rows, segment.vectors(k_.level).rows);
      }
      write_rows(most_rows, from, [&](int64_t rows, Value a_offset, Value c_rows, Value) {
        for (const Segment& segment : segments_) {
          Value first = k_.max(first_panel_, k_.index(segment.first)), last = k_.min(last_panel_, k_.index(segment.last));
          k_.loop(first, last, [&](Value panel) { write_panel(pass, segment, b, panel, from, PanelRows{rows, a_offset, c_rows}); });
        }
      });
      return;
    }
    for (const Segment& segment : segments_) {
      Value first = k_.max(first_panel_, k_.index(segment.first)), last = k_.min(last_panel_, k_.index(segment.last));
      k_.loop(first, last, [&](Value panel) { write_panel(pass, segment, b, panel, from); });
    }
  }

  // One tile of rows, if tiles are the outer loop and a panel is visited for each.
  struct PanelRows {
    int64_t count;
    Value a_offset, c_rows;
  };

  void write_panel(const Pass& pass, const Segment& segment, Value b, Value panel, Value from,
                   std::optional<PanelRows> only = std::nullopt) {
    Value column = k_.mul(first_unit(k_, own_, panel), Panels::unit);
    MicrokernelForm form;
    const PanelVectors vectors = segment.vectors(k_.level);
    form.vectors = vectors.vectors;
    form.lanes = vectors.lanes;
    form.panel = segment.units * Panels::unit;
    form.columns = segment.columns;
    form.packed = shape_.in_panels();
    form.epilogue = pass.last && !shape_.epilogue.empty() ? &shape_.epilogue : nullptr;
    if (!shape_.rhs_element.isF32()) form.integers = shape_.rhs_element;
    form.has_zero = shape_.zero.has_value();
    form.parts = static_cast<bool>(pass.part_batches);

    MicrokernelArguments call;
    call.offsets = offsets_;
    if (!gathered_) call.lda = lhs_step_ ? lhs_step_ : k_.index(pixel_);
    call.batches = pass.batches;
    call.depth = pass.depth;
    call.ldb = k_.index(shape_.rhs_row);
    Value b_start = shape_.in_panels() ? panel_source(panel, pass.b_row) : k_.add(k_.mul(pass.b_row, shape_.rhs_row), column);
    call.b = k_.pointer(b, b_start, shape_.rhs_element);
    if (shape_.transposed) {
      pack(segment, call.b, pass.rows);
      call.b = k_.workspace();
    }
    if (!shape_.is_plane) call.ldc = k_.index(shape_.pitch);
    call.accumulate = pass.accumulate;
    call.part_batches = pass.part_batches;
    call.part_depth = pass.part_depth;
    form.gathered = gathered_;
    form.scattered = shape_.is_plane;
    call.next = call.b;
    call.next_step = k_.index(0);

    int64_t most_rows = vectors.rows;
    Prefetch prefetch;
    if (shape_.in_panels()) {
      int64_t pixels = shape_.width == 0 || shape_.is_flat()
                           ? tiling_.band_size
                           : tiling_.band_size * llvm::divideCeilSigned(shape_.width, most_rows) * most_rows;
      int64_t calls = std::max<int64_t>(1, llvm::divideCeilSigned(pixels, most_rows)),
              panel_words = llvm::divideCeilSigned(pass.most * segment.units * Panels::unit * shape_.rhs_bytes(), 4);
      const int64_t part = llvm::divideCeilSigned(llvm::divideCeilSigned(panel_words, calls), 16) * 16;
      prefetch.part = k_.index(part);
      prefetch.step = k_.index(std::max<int64_t>(1, llvm::divideCeilSigned(part, pass.most)));
      // Prefetched next: this pass of the next panel, the next pass from its first panel on, or the next workgroup's panel.
      Value following = k_.add(panel, 1);
      Value here = k_.less(following, last_panel_);
      Value other = pass.last ? k_.make<arith::SelectOp>(k_.less(following, k_.index(own_.count)), following, k_.index(0)) : first_panel_;
      Value other_row = pass.last ? k_.index(0) : k_.add(pass.b_row, pass.most);
      Value next_panel = k_.make<arith::SelectOp>(here, following, other);
      prefetch.from = k_.pointer(b, panel_source(next_panel, k_.make<arith::SelectOp>(here, pass.b_row, other_row)), shape_.rhs_element);
      // The only panel stays in L1 or L2, so the next rows of A are prefetched.
      prefetch.rows = shape_.packed && shape_.is_flat() && shared_.count == 1 && tiling_.passes == 1 && calls > 1;
      if (shape_.is_plane) {
        Value tiles = k_.ceil_div(pixels_, k_.index(most_rows));
        prefetch.part = k_.mul(k_.ceil_div(k_.ceil_div(k_.index(panel_words), tiles), k_.index(16)), 16);
        prefetch.step = k_.max(k_.index(1), k_.ceil_div(prefetch.part, k_.index(pass.most)));
      } else if (shape_.transposed && !form.parts && (tiling_.passes > 1 || shape_.rhs_row != order_.depth())) {
        // What is needed next are pieces of columns: with each tile some of them, one with each batch.
        const int64_t each = llvm::divideCeilSigned(segment.columns, calls);
        int64_t batches = 1;
        while (batches < each && pass.rows % (2 * batches) == 0) batches *= 2;
        SmallVector<int64_t> offsets;
        for (int64_t batch = 0; batch < batches; ++batch) offsets.push_back(batch * (pass.rows / batches));
        call.offsets = constant_offsets(k_, offsets);
        call.batches = k_.index(batches);
        call.depth = k_.index(pass.rows / batches);
        call.next_batch = k_.index(shape_.rhs_row);
        prefetch.part = k_.index(each * shape_.rhs_row);
        prefetch.step = k_.index(llvm::divideCeilSigned(pass.most * batches, pass.rows));
      } else if (calls <= 3 && shape_.packed) {  // few tiles use this panel: its own rows are needed before the next panel's
        prefetch.part = k_.index(0);
        prefetch.step = k_.index(segment.units * Panels::unit * shape_.rhs_bytes() / 4);
        prefetch.from = k_.pointer(call.b, k_.index(4096), f32());
      }
    }

    Value c_column = k_.add(c_offset_, column);
    Value epilogue_column = k_.add(group_column_, column);
    if (shape_.zero) call.zero = k_.pointer(k_.operand(*shape_.zero), epilogue_column, f32());
    auto tile = [&](int64_t rows, Value a_offset, Value c_rows, Value number) {
      form.rows = rows;
      // A short reduction leaves no time to prefetch its own tile of C, so the next one's is prefetched.
      call.ahead = k_.index(pass.most < 256 ? rows * shape_.pitch : 0);
      if (only) {
        Value following = k_.less(k_.add(panel, 1), last_panel_);
        Value next_rows = k_.sub(k_.index(rows * shape_.pitch), k_.sub(column, first_column_));
        call.ahead = k_.make<arith::SelectOp>(following, k_.index(segment.units * Panels::unit), next_rows);
      }
      if (gathered_) {
        call.a = pass.a;
        call.lda = k_.pointer(pixel_offsets_, c_rows, k_.builder.getI64Type());
      } else {
        call.a = k_.pointer(pass.a, a_offset, f32());
      }
      if (shape_.is_plane) call.ldc = k_.pointer(result_offsets_, c_rows, k_.builder.getI64Type());
      Value c_element = shape_.is_plane ? c_column : k_.add(c_column, k_.mul(c_rows, shape_.pitch));
      call.c = k_.pointer(k_.result(0), c_element, f32());
      if (prefetch.rows) {
        call.next = k_.pointer(pass.a, k_.add(a_offset, rows * pixel_), f32());
        call.next_step = k_.index(llvm::divideCeilSigned(rows * pixel_, pass.most));
      } else if (prefetch.from) {
        call.next = k_.pointer(prefetch.from, k_.mul(number, prefetch.part), f32());
        call.next_step = prefetch.step;
      }
      call.epilogue.clear();
      if (form.epilogue) {
        for (const EpilogueOperand& operand : form.epilogue->operands()) {
          Value base = k_.operand(operand.binding);
          switch (operand.kind) {
            case EpilogueOperand::full:
              call.epilogue.push_back(k_.pointer(base, c_element, f32()));
              break;
            case EpilogueOperand::column:
              call.epilogue.push_back(k_.pointer(base, epilogue_column, f32()));
              break;
            case EpilogueOperand::row:
              call.epilogue.push_back(k_.pointer(base, k_.div(k_.sub(c_element, epilogue_column), k_.index(shape_.pitch)), f32()));
              break;
            case EpilogueOperand::scalar:
              call.epilogue.push_back(base);
              break;
          }
        }
      }
      call_microkernel(k_, form, call);
    };
    if (only) {
      prefetch.from = {};  // B stays in L2
      if (shape_.is_flat()) {
        // The next rows of A, a share with each panel.
        int64_t panels = llvm::divideCeilSigned(own_.count, tiling_.blocks);
        const int64_t part = llvm::divideCeilSigned(llvm::divideCeilSigned(only->count * pixel_, panels), 16) * 16;
        prefetch.part = k_.index(part);
        prefetch.step = k_.index(std::max<int64_t>(1, llvm::divideCeilSigned(part, pass.most)));
        prefetch.from = k_.pointer(pass.a, k_.add(only->a_offset, only->count * pixel_), f32());
        return tile(only->count, only->a_offset, only->c_rows, k_.sub(panel, first_panel_));
      }
      return tile(only->count, only->a_offset, only->c_rows, k_.index(0));
    }
    write_rows(most_rows, from, tile);
  }

  // ---- rows of pixels

  using Tile = std::function<void(int64_t rows, Value a_offset, Value c_rows, Value number)>;

  void write_rows(int64_t most_rows, Value from, const Tile& tile) {
    if (shape_.is_plane) {
      return write_any(pixels_, most_rows, [&](int64_t count, Value pixel, Value number) { tile(count, Value(), pixel, number); });
    }
    if (gathered_) {
      auto any = [&](int64_t count, Value pixel, Value number) { tile(count, Value(), pixel, number); };
      int64_t last_rows = shape_.height - (tiling_.bands - 1) * tiling_.band_size;
      return write_bands(from, tiling_.band_size * shape_.width, last_rows * shape_.width, most_rows, any);
    }
    if (!shape_.is_flat()) {
      int64_t tiles = llvm::divideCeilSigned(shape_.width, most_rows);
      Value rows = k_.min(k_.index(tiling_.band_size), k_.sub(k_.index(shape_.height), from));
      k_.loop(k_.index(0), rows, [&](Value row) {
        write_even(shape_.width, most_rows, [&](int64_t count, Value pixel, Value number) {
          tile(count, k_.add(k_.mul(row, shape_.stride_height * row_), k_.mul(pixel, pixel_)), k_.add(k_.mul(row, shape_.width), pixel),
               k_.add(k_.mul(row, tiles), number));
        });
      });
      return;
    }
    auto flat = [&](int64_t count, Value pixel, Value number) { tile(count, pixels_from(pixel), pixel, number); };
    if (tiling_.bands == 0) {
      Value rows = k_.min(band_rows_, k_.sub(k_.extent(shape_.rows), from));
      return write_any(rows, most_rows, flat);
    }
    write_bands(from, tiling_.band_size, shape_.width - (tiling_.bands - 1) * tiling_.band_size, most_rows, flat);
  }

  using Span = std::function<void(int64_t count, Value pixel, Value number)>;

  // All bands but the last one have `pixels`.
  void write_bands(Value from, int64_t pixels, int64_t last_pixels, int64_t most_rows, const Span& span) {
    if (last_pixels == pixels) return write_even(pixels, most_rows, span);
    k_.branch(
        k_.less(from, k_.index((tiling_.bands - 1) * tiling_.band_size)), [&] { write_even(pixels, most_rows, span); },
        [&] { write_even(last_pixels, most_rows, span); });
  }

  // Tiles of two sizes that differ by one.
  void write_even(int64_t pixels, int64_t most_rows, const Span& span) {
    int64_t tiles = llvm::divideCeilSigned(pixels, most_rows), rows = llvm::divideCeilSigned(pixels, tiles),
            large = pixels - tiles * (rows - 1);
    k_.loop(k_.index(0), k_.index(large), [&](Value i) { span(rows, k_.mul(i, rows), i); });
    if (large == tiles) return;
    k_.loop(k_.index(large), k_.index(tiles), [&](Value i) { span(rows - 1, k_.add(k_.mul(i, rows - 1), large), i); });
  }

  // Full tiles, then the remainder in powers of two.
  void write_any(Value pixels, int64_t most_rows, const Span& span) {
    Value tiles = k_.div(pixels, k_.index(most_rows));
    k_.loop(k_.index(0), tiles, [&](Value i) { span(most_rows, k_.mul(i, most_rows), i); });
    Value done = k_.mul(tiles, most_rows);
    int64_t part = 1;
    while (part * 2 < most_rows) part *= 2;
    for (; part >= 1; part /= 2) {
      Value fits = k_.make<arith::CmpIOp>(arith::CmpIPredicate::sle, k_.add(done, part), pixels);
      done = k_.branch(
          fits, TypeRange{k_.builder.getI64Type()},
          [&]() -> KernelBuilder::Values {
            span(part, done, tiles);
            return {k_.add(done, part)};
          },
          [&]() -> KernelBuilder::Values { return {done}; })[0];
    }
  }

  struct Prefetch {
    Value from, part, step;
    bool rows = false;  // prefetch the rows of A of the next tile
  };

  KernelBuilder& k_;
  const ContractionShape& shape_;
  const ContractionTiling& tiling_;
  DepthOrder order_;
  Panels shared_, own_;
  HaloCopy copy_;
  SmallVector<Segment> segments_;
  int64_t pixel_ = 0, row_ = 0, batches_per_block_ = 1;  // elements between pixels of a tile; between rows of A
  bool merged_ = false, gathered_ = false;
  Value offsets_, pixel_offsets_, result_offsets_;
  Value depth_, lhs_step_;  // of a symbolic K
  Value pixels_;            // of a piece
  Value band_rows_;         // of all bands but the last one
  Value band_, first_panel_, last_panel_, first_column_, c_offset_, group_column_;
};

}  // namespace

namespace {

// The calls, and the devices, that a tiling is for.
struct Case {
  std::vector<Guard> guards;
  Cores cores;
  int64_t rows;  // if they are symbolic
};

constexpr int64_t few_rows = 12, usual_rows = 128;

std::vector<Case> cases_of(const ContractionShape& shape) {
  const Guard many{{}, many_cores, INT64_MAX};
  std::vector<Case> cases{{{many}, Cores::many, usual_rows}, {{}, Cores::few, usual_rows}};
  if (shape.width > 0 || shape.is_plane) return cases;
  const Guard few{shape.rows, 0, few_rows};
  cases.insert(cases.begin(), {{{few, many}, Cores::many, few_rows}, {{few}, Cores::few, few_rows}});
  return cases;
}

}  // namespace

FailureOr<Plans> plans_microkernel(tx::DispatchOp region) {
  if (llvm::none_of(region.getBody().front(), [](Operation& op) { return tx::is_contraction(&op); })) return failure();
  auto shape = ContractionShape::read(region);
  if (failed(shape) || shape->depthwise || shape->winograd) return failure();
  if (shape->transposed && shape->width > 0 && shape->width <= tx::most_dot_rows)
    return shape->root->emitError("x86_64: a transposed matrix is not packed for ") << shape->width << " rows; they are dot products";
  if (shape->is_plane &&
      llvm::any_of(shape->epilogue.operands(), [](const EpilogueOperand& one) { return one.kind == EpilogueOperand::row; })) {
    return shape->root->emitError("x86_64: an image of symbolic size has no epilogue that reads an element per pixel");
  }
  std::vector<Case> cases = cases_of(*shape);
  auto rank = [&](const Case& one) {
    std::vector<RankedTiling> ranked = rank_tilings(*shape, is_single_pass(region), one.cores, one.rows);
    auto first = llvm::find_if(ranked, [&](const RankedTiling& each) { return is_reasonable(*shape, each.tiling); });
    if (first != ranked.end()) llvm::erase_if(ranked, [&](const RankedTiling& each) { return !is_reasonable(*shape, each.tiling); });
    return ranked;
  };
  const ContractionTiling usual = rank(cases.back()).front().tiling;
  if (!is_reasonable(*shape, usual)) return refuse(*shape, usual);
  Plans plans;
  for (const Case& one : cases) {
    std::vector<RankedTiling> ranked = rank(one);
    const int64_t rows = shape->width == 0 ? one.rows : INT64_MAX;  // larger bands have only these rows
    auto known = llvm::find_if(ranked, [&](const RankedTiling& each) {
      return each.tiling.blocks == usual.blocks && std::min(each.tiling.band_size, rows) == std::min(usual.band_size, rows);
    });
    if (known != ranked.end() && !is_worthwhile(ranked.front().estimate_ns, known->estimate_ns)) {
      known->tiling = usual;
      std::rotate(ranked.begin(), known, known + 1);
    }
    ranked.resize(std::min(ranked.size(), most_choices));
    for (const RankedTiling& each : ranked) {
      const ContractionTiling& tiling = each.tiling;
      KernelPlan plan{tiling.workgroups(*shape)};
      plan.sums_nothing = shape->depth != nullptr;
      double parts = static_cast<double>(std::max<int64_t>(1, tiling.bands) * tiling.blocks * shape->groups);
      plan.cost_ns = static_cast<uint64_t>(shape->flops_per_image() / parts / 100.0) + 1;
      plan.choice = tiling.choice();
      plan.guards = one.guards;
      plan.estimate_ns = each.estimate_ns;
      plan.stores_rows_apart = !shape->epilogue.reads_full();                  // which would be read at the same pitch
      plan.works_in_place = tiling.passes == 1 && !shape->epilogue.is_long();  // else the result has the sums when the operand is read
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

FailureOr<KernelResources> emit_microkernel(tx::DispatchOp region, const KernelPlan& plan, StringRef symbol, ModuleOp kernels,
                                            const Level& level) {
  auto shape = ContractionShape::read(region);
  if (failed(shape)) return failure();
  if (plan.choice.numbers.size() != 3) return FailureOr<KernelResources>(region.emitError("x86_64: the plan is for another region"));
  ContractionTiling tiling = ContractionTiling::of(*shape, is_single_pass(region), plan.choice.numbers);
  KernelBuilder kernel(region, symbol, kernels, level);
  ContractionWriter writer(kernel, *shape, tiling);
  writer.write();
  kernel.finish();
  KernelResources resources;
  resources.workspace_bytes = *workspace_bytes_of(*shape, tiling);
  return resources;
}

}  // namespace heddle::targets::x86_64
