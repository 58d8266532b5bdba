// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TfIdfVectorizer. Each token becomes its place among those of the pool, and the tokens at each place the n-gram that they are; a scatter counts these.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_text.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

// The n-grams of one length, and which of all n-grams they are.
struct Grams {
  int64_t length;
  std::vector<std::vector<int64_t>> tokens;
  std::vector<int64_t> numbers;
};

class Vectorizer {
 public:
  explicit Vectorizer(Node& node) : node_(node), m_(node) {
    shortest_ = node.integer("min_gram_length");
    longest_ = node.integer("max_gram_length");
    skips_ = node.integer("max_skip_count");
    indexes_ = node.integer_list("ngram_indexes");
    if (shortest_ < 1 || longest_ < shortest_ || longest_ > most_tokens || skips_ < 0 || skips_ > most_skips)
      node.fail("min_gram_length " + std::to_string(shortest_) + ", max_gram_length " + std::to_string(longest_) + " or max_skip_count " +
                std::to_string(skips_) + " is out of range; n-grams have 1 to " + std::to_string(most_tokens) + " tokens, and at most " +
                std::to_string(most_skips) + " are skipped");
    mode_ = node.text("mode", "");
    if (mode_ != "TF" && mode_ != "IDF" && mode_ != "TFIDF") node.fail("mode '" + mode_ + "' is none of TF, IDF and TFIDF");
    if (indexes_.empty()) node.fail("it has no ngram_indexes");
    for (int64_t index : indexes_) {
      if (index < 0 || index >= largest_extent) node.fail("ngram_indexes has " + std::to_string(index));
      width_ = std::max(width_, index + 1);
    }
    if (mode_ != "TF" && node.has_attribute("weights")) weights_ = node.number_list("weights");
    if (!weights_.empty() && weights_.size() != indexes_.size())
      node.fail("it has " + std::to_string(weights_.size()) + " weights for " + std::to_string(indexes_.size()) + " n-grams");
    read_pool();
  }

  void run() {
    const bool is_text = node_.has_attribute("pool_strings");
    if (is_text != node_.is_text(0)) node_.refuse_inputs(std::string("its pool has ") + (is_text ? "" : "no ") + "strings");
    Value tokens = is_text ? places_among(node_, node_.text(0), words_) : node_.input(0);
    const RankedTensorType type = Node::type_of(tokens);
    if (!type.getElementType().isSignlessInteger(32) && !type.getElementType().isSignlessInteger(64))
      node_.refuse_inputs("its input needs elements that are i32 or i64");
    if (type.getRank() < 1 || type.getRank() > 2) node_.refuse_inputs("its input needs one or two dimensions");
    Extents extents = tx::extents(type), result = extents;
    if (extents.size() == 1) extents.insert(extents.begin(), constant(1));
    tokens = node_.converted(node_.reshape(tokens, extents), node_.builder.getI64Type());
    if (!is_text) tokens = places_of_integers(tokens);
    const RankedTensorType sums = node_.tensor_type({extents[0], constant(width_)}, node_.builder.getF32Type());
    Value total;
    int64_t lookups = 0;
    for (const Grams& grams : grams_) {
      if (!grams.numbers.empty()) lookups += grams.length * distances(grams);
    }
    if (lookups > most_lookups)
      node_.fail("its n-grams need " + std::to_string(lookups) + " lookups of all tokens, above " + std::to_string(most_lookups) +
                     "; give shorter n-grams, or a smaller max_skip_count",
                 HEDDLE_STATUS_UNIMPLEMENTED);
    for (const Grams& grams : grams_) {
      if (!grams.numbers.empty()) total = added(total, sums, tokens, grams);
    }
    if (!total) total = node_.splat(sums, 0);
    result.back() = constant(width_);
    node_.set_result(node_.reshape(total, result));
  }

 private:
  static constexpr int64_t most_tokens = 256, most_skips = 4096, most_lookups = 4096;

  AffineExpr constant(int64_t value) const { return node_.builder.getAffineConstantExpr(value); }

  // ngram_counts has, for each length, where its n-grams begin in the pool. If the pool has an n-gram twice, the last one counts. Tokens of the pool
  // become their places among different ones.
  void read_pool() {
    std::vector<int64_t> pool = node_.integer_list("pool_int64s", std::vector<int64_t>());
    for (int64_t& number : pool) {
      const auto [it, is_new] = place_of_.try_emplace(number, static_cast<int64_t>(integers_.size()));
      if (is_new) integers_.push_back(number);
      number = it->second;
    }
    const std::vector<int64_t> starts = node_.integer_list("ngram_counts");
    if (node_.has_attribute("pool_strings")) {
      if (!pool.empty()) node_.fail("it has both pool_int64s and pool_strings");
      std::map<std::string, int64_t> places;
      for (const std::string& word : node_.text_list("pool_strings")) {
        auto [it, is_new] = places.try_emplace(word, static_cast<int64_t>(words_.size()));
        if (is_new) words_.push_back(word);
        pool.push_back(it->second);
      }
    }
    size_t number = 0;
    for (size_t i = 0; i < starts.size(); ++i) {
      const auto length = static_cast<int64_t>(i) + 1;
      const int64_t from = starts[i], to = i + 1 < starts.size() ? starts[i + 1] : static_cast<int64_t>(pool.size());
      if (from < 0 || to < from || to > static_cast<int64_t>(pool.size()) || (to - from) % length != 0)
        node_.fail("ngram_counts " + std::to_string(from) + " to " + std::to_string(to) + " do not divide a pool of " +
                   std::to_string(pool.size()) + " tokens into n-grams of " + std::to_string(length));
      std::map<std::vector<int64_t>, size_t> last;
      for (int64_t at = from; at < to; at += length, ++number) {
        if (number >= indexes_.size()) node_.fail("the pool has more n-grams than ngram_indexes");
        last[std::vector<int64_t>(pool.begin() + at, pool.begin() + at + length)] = number;
      }
      if (length < shortest_ || length > longest_) continue;
      Grams grams{length, {}, {}};
      for (const auto& [tokens, which] : last) {
        grams.tokens.push_back(tokens);
        grams.numbers.push_back(static_cast<int64_t>(which));
      }
      grams_.push_back(std::move(grams));
    }
  }

  Value vector(ArrayRef<int64_t> numbers) {
    auto type = RankedTensorType::get({static_cast<int64_t>(numbers.size())}, node_.builder.getI64Type());
    return node_.builder.create<tx::ConstantOp>(node_.location(), type, DenseElementsAttr::get(type, numbers));
  }

  // Between tokens of an n-gram, from 1 on.
  int64_t distances(const Grams& grams) const { return grams.length == 1 ? 1 : skips_ + 1; }

  // Of each integer its place among those of the pool; their number if it is none.
  Value places_of_integers(Value tokens) {
    std::vector<std::vector<int64_t>> rows;
    if (integers_.empty()) return m_.number(tokens, 0);
    const auto [least, most] = std::minmax_element(integers_.begin(), integers_.end());
    const uint64_t range = static_cast<uint64_t>(*most) - static_cast<uint64_t>(*least);
    if (range >= uint64_t{1} << 61)
      node_.fail("pool_int64s has " + std::to_string(*least) + " and " + std::to_string(*most) + ", which are too far apart",
                 HEDDLE_STATUS_UNIMPLEMENTED);
    for (int64_t number : integers_) rows.push_back({number - *least});
    auto all = [&](int64_t number) {
      auto scalar = RankedTensorType::get({}, node_.builder.getI64Type());
      return node_.broadcast(node_.make<tx::ConstantOp>(scalar, DenseElementsAttr::get(scalar, number)), Node::extents_of(tokens));
    };
    Value low = all(*least), is_inside = m_.both(m_.compare(CompareKind::ge, tokens, low), m_.compare(CompareKind::le, tokens, all(*most)));
    Value found = places_of_rows(node_, m_.sub(m_.select(is_inside, tokens, low), low), rows, static_cast<int64_t>(range) + 1);
    return m_.select(is_inside, found, m_.number(found, static_cast<double>(integers_.size())));
  }

  // `sum`, [rows, columns], with 1 more for each n-gram of the tokens, in its column: for each distance between tokens, at each place.
  Value counted(Value sum, Value tokens, const Grams& grams, ArrayRef<int64_t> columns) {
    const Extents from = Node::extents_of(tokens);
    const auto known = static_cast<int64_t>(std::max(words_.size(), integers_.size()));
    const int64_t outside = *tx::static_extent(Node::extents_of(sum)[1]);  // the column of what is none, which is dropped
    Value ones = node_.splat(tx::with_element_type(Node::type_of(tokens), node_.builder.getF32Type()), 1);
    for (int64_t distance = 1; distance <= distances(grams); ++distance) {
      Value column;
      if (grams.length == 1) {
        std::vector<int64_t> of_token(static_cast<size_t>(known) + 1, outside);
        for (auto [one, own] : llvm::zip_equal(grams.tokens, columns)) of_token[static_cast<size_t>(one.front())] = own;
        column = looked_up(node_, vector(of_token), tokens);
      } else {
        Value place = m_.iota({from[1]}, 0, node_.builder.getI64Type()), size = m_.extent(from[1], place), inside;
        SmallVector<Value> parts;
        for (int64_t j = 0; j < grams.length; ++j) {
          Value at = m_.add(place, m_.number(place, static_cast<double>(j * distance)));
          inside = m_.compare(CompareKind::lt, at, size);
          parts.push_back(node_.make<tx::GatherOp>(Node::type_of(tokens), tokens, m_.min(at, m_.sub(size, m_.number(size, 1))), 1));
        }
        SmallVector<int64_t> of_gram(columns);
        of_gram.push_back(outside);
        column = looked_up(node_, vector(of_gram), places_of_rows(node_, parts, grams.tokens, known + 1));
        column = m_.select(m_.spread(inside, from, {1}), column, m_.number(column, static_cast<double>(outside)));
      }
      sum = node_.make<tx::ScatterOp>(Node::type_of(sum), sum, column, ones, node_.builder.getI64IntegerAttr(1),
                                      tx::ReduceKindAttr::get(node_.builder.getContext(), tx::ReduceKind::sum));
    }
    return sum;
  }

  SmallVector<int64_t> columns_of(const Grams& grams) const {
    SmallVector<int64_t> columns;
    for (int64_t number : grams.numbers) columns.push_back(indexes_[static_cast<size_t>(number)]);
    return columns;
  }

  // The results with those of these n-grams; `total` is null for the first ones.
  Value added(Value total, RankedTensorType type, Value tokens, const Grams& grams) {
    const SmallVector<int64_t> columns = columns_of(grams);
    SmallVector<float> weights;
    for (int64_t number : grams.numbers) {
      if (!weights_.empty()) weights.push_back(static_cast<float>(weights_[static_cast<size_t>(number)]));
    }
    if (mode_ != "IDF" && weights.empty()) return counted(total ? total : node_.splat(type, 0), tokens, grams, columns);
    SmallVector<int64_t> own(columns.size());
    std::iota(own.begin(), own.end(), 0);
    const RankedTensorType of_grams =
        node_.tensor_type({tx::extents(type)[0], constant(static_cast<int64_t>(own.size()))}, type.getElementType());
    Value counts = counted(node_.splat(of_grams, 0), tokens, grams, own);
    if (mode_ == "IDF") counts = m_.min(counts, m_.number(counts, 1));
    if (!weights.empty()) {
      auto type = RankedTensorType::get({static_cast<int64_t>(weights.size())}, node_.builder.getF32Type());
      Value factors = node_.builder.create<tx::ConstantOp>(node_.location(), type, DenseElementsAttr::get(type, ArrayRef(weights)));
      counts = m_.mul(counts, node_.broadcast(factors, Node::extents_of(counts)));
    }
    const bool counts_up =
        llvm::all_of(llvm::enumerate(columns), [](const auto& one) { return static_cast<int64_t>(one.index()) == one.value(); });
    if (!total && counts_up && static_cast<int64_t>(columns.size()) == width_) return counts;
    if (!total) total = node_.splat(type, 0);
    return node_.make<tx::ScatterOp>(type, total, vector(columns), counts, node_.builder.getI64IntegerAttr(1),
                                     tx::ReduceKindAttr::get(node_.builder.getContext(), tx::ReduceKind::sum));
  }

  Node& node_;
  Arithmetic m_;
  int64_t shortest_ = 1, longest_ = 1, skips_ = 0, width_ = 0;
  std::string mode_;
  std::vector<std::string> words_;  // of a pool of strings, each once
  std::vector<int64_t> integers_;   // of a pool of integers
  std::map<int64_t, int64_t> place_of_;
  std::vector<int64_t> indexes_;
  std::vector<double> weights_;
  std::vector<Grams> grams_;
};

void tf_idf(Node& node) {
  Vectorizer vectorizer(node);
  if (!node.graph.unsupported.empty()) return;
  vectorizer.run();
}

}  // namespace

const Table& ngram_operators() {
  static const Table table = {{"TfIdfVectorizer", tf_idf}};
  return table;
}

}  // namespace heddle::import
