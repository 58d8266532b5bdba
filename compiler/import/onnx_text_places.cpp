// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Places of strings in a list of words.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_text.h"
#include "compiler/ir/bits.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace heddle::import {
namespace {

Value integers_of(Node& node, ArrayRef<int64_t> numbers) {
  auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())}, node.builder.getI64Type());
  return node.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, numbers));
}

// The number for each element of a tensor of that type; unlike Node::splat, any of 64 bits.
Value integers_of(Node& node, int64_t number, RankedTensorType type) {
  auto scalar = RankedTensorType::get({}, node.builder.getI64Type());
  return node.broadcast(node.make<tx::ConstantOp>(scalar, DenseElementsAttr::get(scalar, number)), tx::extents(type));
}

// `count` factors, whose products with as many numbers below `limit` have a sum below 2^62.
std::vector<int64_t> factors(size_t count, uint64_t limit, uint64_t seed) {
  const uint64_t most = std::max<uint64_t>((uint64_t{1} << 62) / limit / count, 1);
  std::vector<int64_t> all;
  for (size_t i = 0; i < count; ++i) {
    // splitmix64: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014.
    uint64_t z = seed += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    all.push_back(static_cast<int64_t>((z ^ (z >> 31)) % most) + 1);
  }
  return all;
}

// Where each of different numbers is in a table: its lowest bits choose a distance, by which its other bits are moved on (Belazzougui, Botelho,
// Dietzfelbinger, Hash, Displace, and Compress, 2009). So a number is found in two steps, however many there are.
class Places {
 public:
  // False if no distances keep the numbers apart.
  bool fill(ArrayRef<int64_t> numbers) {
    bits_ = llvm::Log2_64_Ceil(std::max<size_t>(numbers.size(), 1));
    const size_t buckets = size_t{1} << bits_, slots = 2 * buckets;
    std::vector<std::vector<size_t>> of_bucket(buckets);
    for (auto [i, number] : llvm::enumerate(numbers)) of_bucket[static_cast<uint64_t>(number) & (buckets - 1)].push_back(i);
    std::vector<size_t> order(buckets);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return of_bucket[a].size() > of_bucket[b].size(); });
    distances_.assign(buckets, 0);
    places_.assign(slots, -1);
    for (size_t bucket : order) {
      bool is_free = of_bucket[bucket].empty();
      for (size_t distance = 0; !is_free && distance < slots; ++distance) {
        std::vector<size_t> taken;
        for (size_t i : of_bucket[bucket]) {
          const size_t slot = ((static_cast<uint64_t>(numbers[i]) >> bits_) + distance) & (slots - 1);
          if (places_[slot] >= 0) break;
          places_[slot] = static_cast<int64_t>(i);
          taken.push_back(slot);
        }
        is_free = taken.size() == of_bucket[bucket].size();
        if (is_free) distances_[bucket] = static_cast<int64_t>(distance);
        if (!is_free) {
          for (size_t slot : taken) places_[slot] = -1;
        }
      }
      if (!is_free) return false;
    }
    for (int64_t& place : places_) place = std::max<int64_t>(place, 0);
    return true;
  }

  // The place of each number, i64 and not negative, among those of the table; any place for one that is none of them.
  Value of(Node& node, Value numbers) const {
    const Arithmetic a(node);
    auto lowest = [&](Value value, size_t count) {
      return node.make<tx::BitAndOp>(Node::type_of(value), value, a.number(value, static_cast<double>(count - 1)));
    };
    Value rest = a.div(numbers, a.number(numbers, static_cast<double>(distances_.size())));
    Value distance = looked_up(node, integers_of(node, distances_), lowest(numbers, distances_.size()));
    return looked_up(node, integers_of(node, places_), lowest(a.add(rest, distance), places_.size()));
  }

 private:
  unsigned bits_ = 0;
  std::vector<int64_t> distances_, places_;
};

// Different rows of as many numbers below `limit` each, and the factors by which the sums of their products are in `places`.
struct Numbered {
  std::vector<int64_t> factors = {};
  Places places = {};
};

Numbered numbered(Node& node, size_t rows, size_t columns, uint64_t limit, llvm::function_ref<int64_t(size_t, size_t)> at) {
  constexpr uint64_t most_seeds = 64;
  for (uint64_t seed = 1; seed <= most_seeds; ++seed) {
    Numbered found{factors(columns, limit, seed)};
    std::vector<int64_t> numbers(rows);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) numbers[row] += at(row, column) * found.factors[column];
    }
    std::vector<int64_t> sorted = numbers;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() && found.places.fill(numbers)) return found;
  }
  node.fail("its " + std::to_string(rows) + " words or n-grams were not told apart; split them over two nodes",
            HEDDLE_STATUS_UNIMPLEMENTED);
}

}  // namespace

Value places_among(Node& node, Value text, const std::vector<std::string>& words) {
  const Arithmetic a(node);
  const Type i64 = node.builder.getI64Type();
  const Extents strings = strings_of(text);
  const auto count = static_cast<int64_t>(words.size());
  if (count == 0) return node.splat(node.tensor_type(strings, i64), 0);
  const AffineExpr total = node.count_of(strings);
  const RankedTensorType type = node.tensor_type({total}, i64);
  size_t longest = 0;
  for (const std::string& word : words) longest = std::max(longest, word.size());
  // A longer string has a byte where the longest word has a zero.
  const AffineExpr width = node.builder.getAffineConstantExpr(static_cast<int64_t>(longest) + 1);
  Value table = text_constant(node.builder, words, {count}, "the words of " + node.describe(), node.location());  // checks the words, too
  table = padded(node, table, node.builder.getAffineConstantExpr(1));
  const Numbered known = numbered(node, words.size(), longest + 1, 256, [&](size_t word, size_t byte) {
    return byte < words[word].size() ? static_cast<unsigned char>(words[word][byte]) : 0;
  });
  // The first bytes of each string, and zeros behind it: all strings as one, with enough bytes behind them.
  const AffineExpr own = width_of(text);
  Value zeros = node.splat(node.tensor_type({width}, text_element(node.builder.getContext())), 0);
  Value all = joined_along(node, {node.reshape(text, {node.count_of(Node::extents_of(text))}), zeros}, 0);
  const Extents bytes{total, width};
  Value row = a.iota(bytes, 0, i64), column = a.iota(bytes, 1, i64), size = a.extent(own, column);
  Value head = node.make<tx::GatherOp>(node.tensor_type(bytes, text_element(node.builder.getContext())), all,
                                       a.add(a.mul(row, size), column), node.builder.getI64IntegerAttr(0));
  head = a.select(a.compare(tx::CompareKind::lt, column, size), head, a.number(head, 0));
  Value wide = node.converted(head, i64);
  Value products = a.mul(wide, a.spread(integers_of(node, known.factors), bytes, {1}));
  Value found = known.places.of(node, node.make<tx::ReduceOp>(type, tx::ReduceKind::sum, products, ArrayRef<int64_t>{1}));
  Value same = node.converted(a.compare(tx::CompareKind::eq, head, looked_up(node, table, found)), i64);
  same = node.make<tx::ReduceOp>(type, tx::ReduceKind::min, same, ArrayRef<int64_t>{1});
  found = a.select(a.compare(tx::CompareKind::eq, same, a.number(same, 1)), found, a.number(found, static_cast<double>(count)));
  return node.reshape(found, strings);
}

Value places_of_rows(Node& node, ArrayRef<Value> columns, ArrayRef<std::vector<int64_t>> rows, int64_t limit) {
  const Arithmetic a(node);
  const auto count = static_cast<double>(rows.size());
  const Numbered known = numbered(node, rows.size(), columns.size(), static_cast<uint64_t>(limit),
                                  [&](size_t row, size_t column) { return rows[row][column]; });
  Value number;
  for (auto [column, factor] : llvm::zip_equal(columns, known.factors)) {
    Value product = node.make<tx::MulOp>(Node::type_of(column), column, integers_of(node, factor, Node::type_of(column)));
    number = number ? a.add(number, product) : product;
  }
  Value found = known.places.of(node, number), same;
  for (auto [i, column] : llvm::enumerate(columns)) {
    std::vector<int64_t> all;
    for (const std::vector<int64_t>& row : rows) all.push_back(row[i]);
    Value equals = a.compare(tx::CompareKind::eq, looked_up(node, integers_of(node, all), found), column);
    same = same ? a.both(same, equals) : equals;
  }
  return a.select(same, found, a.number(found, count));
}

Value places_in(Node& node, Value text, ArrayRef<std::string> list, bool last_counts) {
  std::map<std::string, int64_t> known;
  for (auto [i, word] : llvm::enumerate(list)) {
    auto [it, is_new] = known.try_emplace(word, static_cast<int64_t>(i));
    if (!is_new && last_counts) it->second = static_cast<int64_t>(i);
  }
  std::vector<std::string> words = {};
  std::vector<int64_t> places;
  for (const auto& [word, place] : known) {
    words.push_back(word);
    places.push_back(place);
  }
  places.push_back(static_cast<int64_t>(list.size()));
  return looked_up(node, integers_of(node, places), places_among(node, text, words));
}

}  // namespace heddle::import
