// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TfIdfVectorizer. Each token becomes its place among those of the pool, and the tokens at each place the n-gram that they are; a scatter counts these.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/import/ngram_trie.h"
#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_text.h"
#include "compiler/import/onnx_tokens.h"
#include "compiler/ir/ngrams.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

// The symbols of tx.ngrams: characters of ASCII, letters of two bytes after the first one, and other bytes, as far as n-grams have them.
class Alphabet {
 public:
  Alphabet(const Node& node, Characters set, const std::string& action) : set_(std::move(set)), action_(action) {
    if (action_ != "NONE") codes_ = codes_in_case(node, action_ == "UPPER");
  }

  // The symbols of these tokens, in order; negative ones do not begin a token. Empty if no text has such tokens.
  std::vector<int32_t> spelled(ArrayRef<std::string> tokens) {
    std::vector<int32_t> symbols;
    for (const std::string& token : tokens) {
      int64_t characters = 0;
      unsigned char before = 0;
      for (const char& one : token) {
        const auto byte = static_cast<unsigned char>(one);
        if (!is_in(byte)) return {};
        characters += begins_character(byte) ? 1 : 0;
        const auto [known, is_new] = symbols_.try_emplace(unit(before, byte), static_cast<int32_t>(symbols_.size()) + 1);
        symbols.push_back(&one == token.data() ? known->second : -known->second);
        before = byte;
      }
      if (characters < set_.least || (!set_.is_run && characters != 1)) return {};
    }
    return symbols;
  }

  // What tells a letter of an n-gram that goes on with a token from one that begins it; also the symbol of all that no n-gram has.
  int32_t goes_on() const { return static_cast<int32_t>(symbols_.size()) + 1; }

  // The tables of tx.ngrams.
  void fill(std::vector<uint8_t>& leads, std::vector<int32_t>& letters) const {
    std::map<std::vector<int32_t>, size_t> rows = {{row(0), 0}};
    letters = row(0);
    leads.assign(bytes, 0);
    for (int lead = first_lead; lead <= last_lead; ++lead) {
      std::vector<int32_t> own = row(static_cast<unsigned char>(lead));
      const auto [known, is_new] = rows.try_emplace(own, rows.size());
      if (is_new) letters.insert(letters.end(), own.begin(), own.end());
      leads[static_cast<size_t>(lead)] = static_cast<uint8_t>(known->second);
    }
  }

 private:
  static constexpr int bytes = 256, first_trail = 0x80, last_trail = 0xBF, first_lead = 0xC2, last_lead = 0xDF;

  static bool is_lead(unsigned char byte) { return byte >= first_lead && byte <= last_lead; }
  static bool begins_character(unsigned char byte) { return byte < first_trail || byte > last_trail; }
  bool is_in(unsigned char byte) const { return byte < first_of_two ? set_.ascii[byte] : set_.others; }

  // What a byte is, given the byte before it: itself, or the code of a letter of two bytes.
  static int32_t unit(unsigned char before, unsigned char byte) {
    if (is_lead(byte)) return first_lead;  // the next byte tells them apart
    return is_lead(before) && !begins_character(byte) ? bytes + (before - 0xC0) * 64 + (byte - first_trail) : byte;
  }

  // The symbols of all bytes after `before`, in the case that texts are brought to.
  std::vector<int32_t> row(unsigned char before) const {
    std::vector<int32_t> all;
    for (int i = 0; i < bytes; ++i) {
      auto byte = static_cast<unsigned char>(i);
      if (action_ == "LOWER" && byte >= 'A' && byte <= 'Z') byte += 'a' - 'A';
      if (action_ == "UPPER" && byte >= 'a' && byte <= 'z') byte -= 'a' - 'A';
      int32_t own = unit(before, byte);
      if (own >= bytes && !codes_.empty()) own = bytes + codes_[static_cast<size_t>(own - bytes)];
      const auto known = symbols_.find(own);
      const int32_t symbol = known == symbols_.end() ? goes_on() : known->second;
      all.push_back(byte == 0 || !is_in(byte) ? 0 : 2 * symbol + (begins_character(byte) ? 1 : 0));
    }
    return all;
  }

  const Characters set_;
  const std::string action_;
  std::vector<int32_t> codes_;
  std::map<int32_t, int32_t> symbols_;  // of units
};

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

  // The same from the texts, if that is possible. `tokenizer` is the node whose tokens the input would have.
  bool run_on_texts(Node& tokenizer, Value texts, const std::string& action) {
    if (tokenizer.integer("mark", 0) != 0 || !node_.has_attribute("pool_strings")) return false;
    const Extents strings = strings_of(texts);
    if (strings.size() != 1 && !(strings.size() == 2 && tx::static_extent(strings[1]) == 1)) return false;
    // The place of the pad is among the tokens of a short text.
    if (llvm::is_contained(words_, tokenizer.text("pad_value", ""))) return false;
    int64_t longest = 0;
    for (const Grams& grams : grams_) {
      if (!grams.numbers.empty()) longest = std::max(longest, grams.length);
    }
    if (longest == 0 || longest > tx::most_ngram_tokens || (longest > 1 && skips_ > 0)) return false;
    text_constant(node_.builder, words_, {static_cast<int64_t>(words_.size())}, "the words of " + node_.describe(),
                  node_.location());  // checks them
    const Characters set = token_characters(tokenizer);
    const bool is_weighted = mode_ == "IDF" || !weights_.empty();
    Alphabet alphabet(tokenizer, set, action);
    std::vector<TrieWord> words;
    SmallVector<int64_t> numbers;  // of all n-grams
    for (const Grams& grams : grams_) {
      for (auto [tokens, number] : llvm::zip_equal(grams.tokens, grams.numbers)) {
        std::vector<std::string> spelled;
        for (int64_t token : tokens) spelled.push_back(words_[static_cast<size_t>(token)]);
        const auto own = static_cast<int32_t>(is_weighted ? static_cast<int64_t>(numbers.size()) : indexes_[static_cast<size_t>(number)]);
        numbers.push_back(number);
        std::vector<int32_t> symbols = alphabet.spelled(spelled);
        if (!symbols.empty()) words.push_back({std::move(symbols), own});
      }
    }
    for (TrieWord& word : words) {
      for (int32_t& symbol : word.symbols) symbol = symbol < 0 ? alphabet.goes_on() - symbol : symbol;
    }
    const int64_t columns = is_weighted ? static_cast<int64_t>(numbers.size()) : width_;
    const std::vector<TrieNode> nodes = make_trie(words, static_cast<int32_t>(columns));
    if (nodes.empty()) return false;
    std::vector<uint8_t> leads;
    std::vector<int32_t> letters;
    alphabet.fill(leads, letters);

    Builder& b = node_.builder;
    const AffineExpr rows = strings[0], width = width_of(texts);
    const Extents found{rows, constant(longest), width + 1}, updates{rows, constant(longest) * (width + 1)};
    auto table = [&](const char* name, ArrayRef<int64_t> shape, Type element, const auto& numbers) {
      const auto* first = reinterpret_cast<const char*>(numbers.data());
      return node_.graph.made_tensor(RankedTensorType::get(shape, element), {first, first + numbers.size() * sizeof(numbers[0])},
                                     node_.output(0) + "." + name, node_.location());
    };
    const Type i32 = b.getI32Type();
    Value of_leads = table("leads", {static_cast<int64_t>(leads.size())}, text_element(b.getContext()), leads);
    Value of_letters =
        table("letters", {static_cast<int64_t>(letters.size() / leads.size()), static_cast<int64_t>(leads.size())}, i32, letters);
    Value of_nodes = table("nodes", {static_cast<int64_t>(nodes.size()), tx::node_columns}, i32, nodes);
    Value column = node_.make<tx::NgramsOp>(node_.tensor_type(found, i32), node_.reshape(texts, {rows, width}), of_leads, of_letters,
                                            of_nodes, static_cast<uint64_t>(longest), static_cast<uint64_t>(set.is_run ? set.least : 1),
                                            static_cast<uint64_t>(alphabet.goes_on()), static_cast<uint64_t>(columns), set.is_run);
    const RankedTensorType sums = node_.tensor_type({rows, constant(columns)}, b.getF32Type());
    Value counts = scattered(node_.splat(sums, 0), node_.reshape(column, updates));
    if (is_weighted) counts = weighted({}, node_.tensor_type({rows, constant(width_)}, b.getF32Type()), counts, numbers);
    node_.set_result(counts);
    return true;
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
      sum = scattered(sum, column);
    }
    return sum;
  }

  // The sums with 1 more at each of these columns.
  Value scattered(Value sum, Value column) {
    Value ones = node_.splat(tx::with_element_type(Node::type_of(column), node_.builder.getF32Type()), 1);
    return node_.make<tx::ScatterOp>(Node::type_of(sum), sum, column, ones, node_.builder.getI64IntegerAttr(1),
                                     tx::ReduceKindAttr::get(node_.builder.getContext(), tx::ReduceKind::sum));
  }

  SmallVector<int64_t> columns_of(ArrayRef<int64_t> numbers) const {
    SmallVector<int64_t> columns;
    for (int64_t number : numbers) columns.push_back(indexes_[static_cast<size_t>(number)]);
    return columns;
  }

  // The results with those of these n-grams; `total` is null for the first ones.
  Value added(Value total, RankedTensorType type, Value tokens, const Grams& grams) {
    const SmallVector<int64_t> columns = columns_of(grams.numbers);
    if (mode_ != "IDF" && weights_.empty()) return counted(total ? total : node_.splat(type, 0), tokens, grams, columns);
    SmallVector<int64_t> own(columns.size());
    std::iota(own.begin(), own.end(), 0);
    const RankedTensorType of_grams =
        node_.tensor_type({tx::extents(type)[0], constant(static_cast<int64_t>(own.size()))}, type.getElementType());
    return weighted(total, type, counted(node_.splat(of_grams, 0), tokens, grams, own), grams.numbers);
  }

  // `total` with counts of these n-grams, changed as the mode wants it.
  Value weighted(Value total, RankedTensorType type, Value counts, ArrayRef<int64_t> numbers) {
    const SmallVector<int64_t> columns = columns_of(numbers);
    SmallVector<float> weights;
    for (int64_t number : numbers) {
      if (!weights_.empty()) weights.push_back(static_cast<float>(weights_[static_cast<size_t>(number)]));
    }
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

bool count_tokens(const TokenChain& chain, Node& counts, Node& tokenizer) {
  std::string action = "NONE";
  int index = 0;
  std::optional<Node> normalizer;
  if (chain.normalizer) normalizer.emplace(counts.graph, *chain.normalizer, counts.location());
  Node& source = normalizer ? *normalizer : tokenizer;
  if (normalizer) action = normalizer->text("case_change_action", "NONE");
  if (!source.is_text(index)) return false;
  Vectorizer vectorizer(counts);
  return counts.graph.unsupported.empty() && vectorizer.run_on_texts(tokenizer, source.text(index), action);
}

const Table& ngram_operators() {
  static const Table table = {{"TfIdfVectorizer", tf_idf}};
  return table;
}

}  // namespace heddle::import
