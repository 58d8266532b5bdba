// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of matrices and convolutions of f32 (heddle/sdk/portable/own_kernels.h has their form), for devices whose work-items have vectors: processors.
// Each work-group has one work-item, which takes blocks of the sums. It packs a block of both factors into local memory, tile by tile, and multiplies
// in registers. Where an element of a factor is, is the sum of a number of its row or column and one of its depth; both are in a table.
#ifndef OPENCL_EXAMPLE_PRODUCT_H_
#define OPENCL_EXAMPLE_PRODUCT_H_

namespace opencl {

// Rows of a tile for each WIDTH of vectors; it has two vectors of columns. As in the text below.
constexpr long tile_rows(long width) {
  return width == 16 ? 12 : 6;
}

// The table, of longs: the batch's offsets in left, right and sums; the rows' in left and sums; the columns' in right and sums; the depth's in left and
// right; for each bound of the left factor, then of the right one: what is below the bound, and what the batch, the rows or columns, and the depth add; the
// first depth of each run of the left factor, in which the step is the same and so are the bounds, and their end; likewise of the right factor. No
// run goes across a multiple of `deep`.
inline constexpr char kProduct[] = R"(
#if WIDTH == 16
typedef float16 vector;
#define LOAD vload16
#define STORE vstore16
#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define TILE_ROWS 12
#elif WIDTH == 8
typedef float8 vector;
#define LOAD vload8
#define STORE vstore8
#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define TILE_ROWS 6
#else
typedef float4 vector;
#define LOAD vload4
#define STORE vstore4
#define EACH_ROW(f) f(0) f(1) f(2) f(3) f(4) f(5)
#define TILE_ROWS 6
#endif
#define TILE_COLUMNS (2 * WIDTH)

// Of a factor: places of its rows or columns and of its depth, bounds, and runs of the depth.
typedef struct {
  global const float* from;
  global const long* outer;
  global const long* depth;
  global const long* bounds;
  global const long* runs;
  long bound_count, batch, batch_count, outer_count, depth_count;
} factor;

bool is_inside(const factor* f, long outer, long k) {
  global const long* bound = f->bounds;
  for (long i = 0; i < f->bound_count; ++i) {
    const long place = bound[1 + f->batch] + bound[1 + f->batch_count + outer] + bound[1 + f->batch_count + f->outer_count + k];
    if (place < 0 || place >= bound[0]) return false;
    bound += 1 + f->batch_count + f->outer_count + f->depth_count;
  }
  return true;
}

// Packs `tile` rows or columns beside each other, for the runs from `run` on up to depth `end`; those beyond `count` are 0.
void pack(const factor* f, long first, long count, long tile, long run, long end, local float* to) {
  const long begin = f->runs[run];
  bool is_dense = f->bound_count == 0 && count == tile;
  for (long i = 1; i < count && is_dense; ++i) is_dense = f->outer[first + i] - f->outer[first] == i;
  if (is_dense) {
    for (long k = begin; k < end; ++k) {
      global const float* line = f->from + f->outer[first] + f->depth[k];
      for (long i = 0; i < tile; ++i) to[(k - begin) * tile + i] = line[i];
    }
    return;
  }
  for (long i = 0; i < tile; ++i) {
    long k = begin;
    for (long r = run; k < end; ++r) {
      const long next = i < count ? f->runs[r + 1] : end, step = next - k > 1 ? f->depth[k + 1] - f->depth[k] : 0;
      if (i < count && is_inside(f, first + i, k)) {
        global const float* line = f->from + f->outer[first + i] + f->depth[k];
        for (long j = 0; j < next - k; ++j) to[(k + j - begin) * tile + i] = line[j * step];
      } else {
        for (long j = 0; j < next - k; ++j) to[(k + j - begin) * tile + i] = 0;
      }
      k = next;
    }
  }
}

void store_row(vector low, vector high, global float* to, global const long* columns, long count, bool add) {
  if (count == TILE_COLUMNS && columns[count - 1] - columns[0] == count - 1) {
    to += columns[0];
    if (add) {
      low += LOAD(0, to);
      high += LOAD(1, to);
    }
    STORE(low, 0, to);
    STORE(high, 1, to);
    return;
  }
  float row[TILE_COLUMNS];
  STORE(low, 0, row);
  STORE(high, 1, row);
  for (long i = 0; i < count; ++i) to[columns[i]] = row[i] + (add ? to[columns[i]] : 0.0f);
}

void multiply(local const float* a, local const float* b, long deep, global float* sums, global const long* rows, long row_count,
              global const long* columns, long column_count, bool add) {
#define BEGIN_ROW(r) vector low##r = 0, high##r = 0;
#define ADD_ROW(r) low##r = fma((vector)(a[r]), left, low##r); high##r = fma((vector)(a[r]), right, high##r);
#define STORE_ROW(r) if (r < row_count) store_row(low##r, high##r, sums + rows[r], columns, column_count, add);
  EACH_ROW(BEGIN_ROW)
  for (long k = 0; k < deep; ++k, a += TILE_ROWS, b += TILE_COLUMNS) {
    const vector left = LOAD(0, b), right = LOAD(1, b);
    EACH_ROW(ADD_ROW)
  }
  EACH_ROW(STORE_ROW)
}

kernel void product(global uchar* bleft, ulong aleft, global uchar* bright, ulong aright, global uchar* bsums, ulong asums, global uchar* btable, ulong atable,
                    local float* packed_left, local float* packed_right, long batch_count, long rows, long columns, long depth, long left_bounds,
                    long right_bounds, long left_runs, long block_rows, long block_columns, long deep) {
  global const long* batch = (global const long*)(btable + atable);
  global const long* row = batch + 3 * batch_count;
  global const long* column = row + 2 * rows;
  global const long* inner = column + 2 * columns;
  global const long* bounds = inner + 2 * depth;
  factor left, right;
  left.outer = row;
  left.depth = inner;
  left.bounds = bounds;
  left.bound_count = left_bounds;
  left.outer_count = rows;
  right.outer = column;
  right.depth = inner + depth;
  right.bounds = bounds + left_bounds * (1 + batch_count + rows + depth);
  right.bound_count = right_bounds;
  right.outer_count = columns;
  left.runs = right.bounds + right_bounds * (1 + batch_count + columns + depth);
  right.runs = left.runs + left_runs + 1;
  left.batch_count = right.batch_count = batch_count;
  left.depth_count = right.depth_count = depth;
  const long row_blocks = ceil_div(rows, block_rows), column_blocks = ceil_div(columns, block_columns);
  for (long task = get_group_id(0); task < batch_count * row_blocks * column_blocks; task += get_num_groups(0)) {
    const long first_column = task % column_blocks * block_columns, first_row = task / column_blocks % row_blocks * block_rows;
    const long end_column = min(first_column + block_columns, columns), end_row = min(first_row + block_rows, rows);
    left.batch = right.batch = task / column_blocks / row_blocks;
    left.from = (global const float*)(bleft + aleft) + batch[left.batch];
    right.from = (global const float*)(bright + aright) + batch[batch_count + left.batch];
    global float* sums = (global float*)(bsums + asums) + batch[2 * batch_count + left.batch];
    long left_run = 0, right_run = 0, k = 0;
    do {
      const long end = min(k + deep, depth);
      for (long r = first_row; r < end_row; r += TILE_ROWS)
        pack(&left, r, min(end_row - r, (long)TILE_ROWS), TILE_ROWS, left_run, end, packed_left + (r - first_row) * (end - k));
      for (long c = first_column; c < end_column; c += TILE_COLUMNS)
        pack(&right, c, min(end_column - c, (long)TILE_COLUMNS), TILE_COLUMNS, right_run, end, packed_right + (c - first_column) * (end - k));
      for (long c = first_column; c < end_column; c += TILE_COLUMNS) {
        for (long r = first_row; r < end_row; r += TILE_ROWS)
          multiply(packed_left + (r - first_row) * (end - k), packed_right + (c - first_column) * (end - k), end - k, sums, row + rows + r,
                   min(end_row - r, (long)TILE_ROWS), column + columns + c, min(end_column - c, (long)TILE_COLUMNS), k > 0);
      }
      while (left.runs[left_run] < end) ++left_run;
      while (right.runs[right_run] < end) ++right_run;
      k = end;
    } while (k < depth);
  }
}
)";

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_PRODUCT_H_
