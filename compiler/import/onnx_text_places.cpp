// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strings by number: their places in a list of words, and operators that move them.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_text.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace heddle::import {
namespace {

Value integers_of(Node& node, ArrayRef<int64_t> numbers) {
  auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())}, node.builder.getI64Type());
  return node.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, numbers));
}

// The elements of a vector at indices, or parts of a tensor along its first dimension.
Value looked_up(Node& node, Value table, Value indices) {
  Extents extents = Node::extents_of(indices);
  llvm::append_range(extents, llvm::drop_begin(Node::extents_of(table)));
  return node.make<tx::GatherOp>(node.tensor_type(extents, Node::type_of(table).getElementType()), table, indices,
                                 node.builder.getI64IntegerAttr(0));
}

// A factor for each byte; the sum of the products with 256 times as many bytes is below 2^62.
std::vector<int64_t> factors(size_t count, uint64_t seed) {
  const uint64_t most = (uint64_t{1} << 62) / (256 * count);
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

int64_t number_of_word(const std::string& word, ArrayRef<int64_t> factors) {
  int64_t sum = 0;
  for (size_t i = 0; i < word.size(); ++i) sum += static_cast<unsigned char>(word[i]) * factors[i];
  return sum;
}

// Words sorted by a number that is another one for each.
struct Numbered {
  std::vector<int64_t> factors = {}, numbers = {}, places = {};
  std::vector<std::string> words = {};
};

Numbered numbered(Node& node, const std::vector<std::string>& words, size_t bytes) {
  constexpr uint64_t most_seeds = 64;
  for (uint64_t seed = 1; seed <= most_seeds; ++seed) {
    Numbered found{factors(bytes, seed)};
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t i = 0; i < words.size(); ++i) order.emplace_back(number_of_word(words[i], found.factors), i);
    std::sort(order.begin(), order.end());
    for (const auto& [number, place] : order) {
      if (!found.numbers.empty() && found.numbers.back() == number) break;
      found.numbers.push_back(number);
      found.places.push_back(static_cast<int64_t>(place));
      found.words.push_back(words[place]);
    }
    if (found.words.size() == words.size()) return found;
  }
  node.fail("its " + std::to_string(words.size()) + " words were not told apart; split them over two nodes", HEDDLE_STATUS_UNIMPLEMENTED);
}

}  // namespace

Value places_among(Node& node, Value text, const std::vector<std::string>& words) {
  const Arithmetic a(node);
  const Type i64 = node.builder.getI64Type();
  const Extents strings = strings_of(text);
  const auto count = static_cast<int64_t>(words.size()), last = static_cast<int64_t>(strings.size());
  const RankedTensorType type = node.tensor_type(strings, i64);
  if (count == 0) return node.splat(type, 0);
  size_t longest = 0;
  for (const std::string& word : words) longest = std::max(longest, word.size());
  // A longer string has a byte where the longest word has a zero.
  const AffineExpr width = node.builder.getAffineConstantExpr(static_cast<int64_t>(longest) + 1);
  Numbered known = numbered(node, words, longest + 1);
  Value table =
      text_constant(node.builder, known.words, {count}, "the words of " + node.describe(), node.location());  // checks the words, too
  table = padded(node, table, node.builder.getAffineConstantExpr(1));
  Value head = part_of(node, padded(node, text, width), 0, width);
  Value wide = node.converted(head, i64);
  Value products = a.mul(wide, a.spread(integers_of(node, known.factors), Node::extents_of(wide), {last}));
  Value number = node.make<tx::ReduceOp>(type, tx::ReduceKind::sum, products, ArrayRef<int64_t>{last});
  // How many numbers are not above it: 2^b - 1 of them, so that no step leaves the table.
  int64_t step = 1;
  while (2 * step - 1 < count) step *= 2;
  known.numbers.resize(static_cast<size_t>(2 * step - 1), std::numeric_limits<int64_t>::max());
  Value numbers = integers_of(node, known.numbers), found = node.splat(type, 0);
  for (; step > 0; step /= 2) {
    Value next = a.add(found, a.number(found, static_cast<double>(step)));
    Value there = looked_up(node, numbers, a.sub(next, a.number(next, 1)));
    found = a.select(a.compare(tx::CompareKind::le, there, number), next, found);
  }
  found = a.max(a.sub(found, a.number(found, 1)), a.number(found, 0));
  Value same = node.converted(a.compare(tx::CompareKind::eq, head, looked_up(node, table, found)), i64);
  same = node.make<tx::ReduceOp>(type, tx::ReduceKind::min, same, ArrayRef<int64_t>{last});
  return a.select(a.compare(tx::CompareKind::eq, same, a.number(same, 1)), looked_up(node, integers_of(node, known.places), found),
                  a.number(found, static_cast<double>(count)));
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

bool moves_text(const std::string& domain, const std::string& type) {
  static const llvm::StringSet<> known = {
      "Compress", "Expand",          "Flatten",   "Gather", "GatherElements", "GatherND", "Reshape", "ReverseSequence",
      "Scatter",  "ScatterElements", "ScatterND", "Shape",  "Size",           "Slice",    "Split",   "Squeeze",
      "Tile",     "Transpose",       "Unsqueeze", "Where"};
  return domain == "ai.onnx.ml" ? type == "ArrayFeatureExtractor" : domain.empty() && known.contains(type);
}

void move_text(Node& node, const onnx::NodeProto& proto, Translate translate) {
  const Arithmetic a(node);
  const Type i64 = node.builder.getI64Type();
  onnx::NodeProto moved = proto;
  SmallVector<Value> parts;
  std::set<std::string> made;
  AffineExpr total = node.builder.getAffineConstantExpr(0), width = total;
  for (int i = 0; i < node.input_count(); ++i) {
    if (!node.is_text(i)) continue;
    Value text = node.text(i);
    const Extents strings = strings_of(text);
    const AffineExpr count = node.count_of(strings);
    Value number = a.iota({count}, 0, i64);
    if (!parts.empty()) number = a.add(number, a.extent(total, number));
    std::string name = node.input_name(i);
    do name += " by number";
    while (node.graph.operands.contains(name));
    node.graph.operands[name] = Operand{node.reshape(number, strings), {}, 0};
    made.insert(name);
    moved.set_input(i, name);
    parts.push_back(node.reshape(text, {count, width_of(text)}));
    total = total + count;
    width = width + width_of(text);
  }
  Node by_number(node.graph, moved, node.location());
  translate(by_number);
  for (const std::string& name : made) node.graph.operands.erase(name);
  if (!node.graph.unsupported.empty() || node.type() == "Shape" || node.type() == "Size") return;
  if (parts.size() > 1) {
    for (Value& part : parts) part = node.reshape(padded(node, part, width - width_of(part)), {Node::extents_of(part)[0], width});
    parts = {joined_along(node, parts, 0)};
  }
  if (!tx::static_extent(total)) {  // one more, so that there is one
    const RankedTensorType empty =
        node.tensor_type({node.builder.getAffineConstantExpr(1), width}, Node::type_of(parts[0]).getElementType());
    parts = {joined_along(node, {parts[0], node.splat(empty, 0)}, 0)};
  }
  for (int i = 0; i < node.output_count(); ++i) {
    if (!node.wants_output(i)) continue;
    auto it = node.graph.operands.find(node.output(i));
    if (it == node.graph.operands.end()) continue;
    Operand text{looked_up(node, parts[0], by_number.value_of(it->second)), {}, 0};
    text.refused_type = onnx::TensorProto::STRING;
    it->second = std::move(text);
  }
}

}  // namespace heddle::import
