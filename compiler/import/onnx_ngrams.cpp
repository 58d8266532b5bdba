// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TfIdfVectorizer over integers, or the places of strings among those of the pool: each n-gram of the pool is compared with the tokens at every place, and the matches are counted.
#include <map>

#include "compiler/import/onnx_arithmetic.h"
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
    RankedTensorType type = Node::type_of(tokens);
    if (!type.getElementType().isSignlessInteger(32) && !type.getElementType().isSignlessInteger(64))
      node_.refuse_inputs("its input needs elements that are i32 or i64");
    if (type.getRank() < 1 || type.getRank() > 2) node_.refuse_inputs("its input needs one or two dimensions");
    Extents extents = tx::extents(type), result = extents;
    if (extents.size() == 1) extents.insert(extents.begin(), constant(1));
    tokens = node_.converted(node_.reshape(tokens, extents), node_.builder.getI64Type());
    const RankedTensorType sums = node_.tensor_type({extents[0], constant(width_)}, node_.builder.getF32Type());
    Value total = node_.splat(sums, 0);
    int64_t comparisons = 0;
    for (const Grams& grams : grams_) {
      if (!grams.numbers.empty()) comparisons += grams.length * distances(grams);
    }
    if (comparisons > most_comparisons)
      node_.fail("its n-grams need " + std::to_string(comparisons) + " comparisons with all tokens, above " +
                     std::to_string(most_comparisons) + "; give shorter n-grams, or a smaller max_skip_count",
                 HEDDLE_STATUS_UNIMPLEMENTED);
    for (const Grams& grams : grams_) {
      if (!grams.numbers.empty()) total = added(total, grams, counts(tokens, grams));
    }
    result.back() = constant(width_);
    node_.set_result(node_.reshape(total, result));
  }

 private:
  static constexpr int64_t most_tokens = 256, most_skips = 4096, most_comparisons = 4096;

  AffineExpr constant(int64_t value) const { return node_.builder.getAffineConstantExpr(value); }

  // ngram_counts has, for each length, where its n-grams begin in the pool. If the pool has an n-gram twice, the last one counts.
  void read_pool() {
    std::vector<int64_t> pool = node_.integer_list("pool_int64s", std::vector<int64_t>());
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

  // How often each n-gram is in each row, [rows, n-grams]: for each distance between tokens, where it begins.
  Value counts(Value tokens, const Grams& grams) {
    const Extents from = Node::extents_of(tokens), all{from[0], from[1], constant(static_cast<int64_t>(grams.numbers.size()))};
    const Type i64 = node_.builder.getI64Type();
    Value sum;
    for (int64_t distance = 1; distance <= distances(grams); ++distance) {
      Value place = m_.iota({from[1]}, 0, i64), size = m_.extent(from[1], place), matches;
      for (int64_t j = 0; j < grams.length; ++j) {
        Value at = m_.add(place, m_.number(place, static_cast<double>(j * distance)));
        Value inside = m_.compare(CompareKind::lt, at, size);
        Value token = node_.make<tx::GatherOp>(Node::type_of(tokens), tokens, m_.min(at, m_.sub(size, m_.number(size, 1))), 1);
        SmallVector<int64_t> wanted;
        for (const std::vector<int64_t>& gram : grams.tokens) wanted.push_back(gram[static_cast<size_t>(j)]);
        Value equals = m_.compare(CompareKind::eq, m_.spread(token, all, {0, 1}), m_.spread(vector(wanted), all, {2}));
        if (j > 0) equals = m_.both(equals, m_.spread(inside, all, {1}));
        matches = matches ? m_.both(matches, equals) : equals;
      }
      Value ones = node_.converted(matches, node_.builder.getF32Type());
      Value number = node_.make<tx::ReduceOp>(node_.tensor_type({all[0], all[2]}, node_.builder.getF32Type()), tx::ReduceKind::sum, ones,
                                              ArrayRef<int64_t>{1});
      sum = sum ? m_.add(sum, number) : number;
    }
    return sum;
  }

  // The results with those of these n-grams.
  Value added(Value total, const Grams& grams, Value counts) {
    SmallVector<int64_t> columns;
    SmallVector<float> weights;
    for (int64_t number : grams.numbers) {
      columns.push_back(indexes_[static_cast<size_t>(number)]);
      if (!weights_.empty()) weights.push_back(static_cast<float>(weights_[static_cast<size_t>(number)]));
    }
    if (mode_ == "IDF") counts = m_.min(counts, m_.number(counts, 1));
    if (!weights.empty()) {
      auto type = RankedTensorType::get({static_cast<int64_t>(weights.size())}, node_.builder.getF32Type());
      Value factors = node_.builder.create<tx::ConstantOp>(node_.location(), type, DenseElementsAttr::get(type, ArrayRef(weights)));
      counts = m_.mul(counts, node_.broadcast(factors, Node::extents_of(counts)));
    }
    return node_.make<tx::ScatterOp>(Node::type_of(total), total, vector(columns), counts, node_.builder.getI64IntegerAttr(1),
                                     tx::ReduceKindAttr::get(node_.builder.getContext(), tx::ReduceKind::sum));
  }

  Node& node_;
  Arithmetic m_;
  int64_t shortest_ = 1, longest_ = 1, skips_ = 0, width_ = 0;
  std::string mode_;
  std::vector<std::string> words_;  // of a pool of strings, each once
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
