// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of merge, in f64. Apart from the other files of heddle params because it is compiled for speed.
#include "tools/params/low_rank.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "tools/params/element_blocks.h"

namespace heddle::tool {
namespace {

// Below this number of products a thread costs more than it saves.
constexpr uint64_t kWorthAThread = 1 << 20;

void add_row(const double* left, const double* right, uint64_t rank, uint64_t stride, std::span<double> values) {
  uint64_t k = 0;
  for (; k + 4 <= rank; k += 4, right += 4 * stride) {
    const double a = left[k], b = left[k + 1], c = left[k + 2], d = left[k + 3];
    const double *r0 = right, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
    for (size_t i = 0; i < values.size(); ++i) values[i] += (a * r0[i] + b * r1[i]) + (c * r2[i] + d * r3[i]);
  }
  for (; k < rank; ++k, right += stride) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += left[k] * right[i];
  }
}

}  // namespace

void LowRank::add(uint64_t first, std::span<double> values) const {
  while (!values.empty()) {
    const uint64_t row = first / columns, column = first % columns;
    const std::span<double> part = values.first(std::min<uint64_t>(values.size(), columns - column));
    add_row(left.data() + row * rank, right.data() + column, rank, columns, part);
    values = values.subspan(part.size());
    first += part.size();
  }
}

std::vector<double> transposed(std::span<const double> in, uint64_t rows) {
  std::vector<double> out(in.size());
  const uint64_t columns = rows ? in.size() / rows : 0;
  for (uint64_t i = 0; i < rows; ++i) {
    for (uint64_t j = 0; j < columns; ++j) out[j * rows + i] = in[i * columns + j];
  }
  return out;
}

uint64_t add_product(const LowRank& product, uint64_t first, std::span<const std::byte> in, heddle_element_type_t from,
                     std::span<std::byte> out, heddle_element_type_t to) {
  const uint64_t read = HEDDLE_TYPE_BITS(from) / 8, written = HEDDLE_TYPE_BITS(to) / 8, count = out.size() / written;
  auto work = [&](uint64_t begin, uint64_t end, uint64_t& overflowed) {
    double block[kBlockElements];
    for (uint64_t done = begin; done < end; done += kBlockElements) {
      const std::span<double> values = std::span(block).first(std::min<uint64_t>(kBlockElements, end - done));
      decode_block(from, in.data() + done * read, values);
      product.add(first + done, values);
      encode_block(to, values, out.data() + done * written);
      for (double value : values) overflowed += std::fabs(value) >= overflow_limit(to) && !std::isinf(value);
    }
  };
  const uint64_t most = std::max(1u, std::thread::hardware_concurrency());
  const uint64_t threads = std::clamp<uint64_t>(count * product.rank / kWorthAThread, 1, most);
  std::vector<uint64_t> overflowed(threads);
  {
    std::vector<std::jthread> others;
    const uint64_t each = count / threads;
    for (uint64_t i = 1; i < threads; ++i)
      others.emplace_back([&, i] { work(i * each, i + 1 == threads ? count : (i + 1) * each, overflowed[i]); });
    work(0, threads == 1 ? count : each, overflowed[0]);
  }
  uint64_t sum = 0;
  for (uint64_t one : overflowed) sum += one;
  return sum;
}

}  // namespace heddle::tool
