// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes programs by their words and lines: text whose bytes are changed at random rarely parses. Only for libFuzzer.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/stablehlo_importer.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

class Mutator {
 public:
  Mutator(std::string_view text, unsigned seed) : random_(seed) {
    for (size_t begin = 0; begin < text.size();) {
      size_t end = begin + 1;
      auto is_of_word = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' || c == '@' || c == '^';
      };
      if (is_of_word(text[begin])) {
        while (end < text.size() && is_of_word(text[end])) ++end;
      }
      words_.emplace_back(text.substr(begin, end - begin));
      begin = end;
    }
  }

  std::string mutate(std::string_view other) {
    for (uint64_t left = 1 + below(3); left > 0; --left) change(other);
    std::string text;
    for (const std::string& word : words_) text += word;
    return text;
  }

 private:
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void change(std::string_view other) {
    if (words_.empty()) return;
    const uint64_t kind = below(12);
    const size_t at = word_like([&](const std::string& word) {
      return kind < 5 ? is_number(word) : kind < 8 ? is_name(word) : is_type(word);
    });
    if (kind < 3) {
      static const char* const numbers[] = {"0",
                                            "1",
                                            "2",
                                            "3",
                                            "4",
                                            "5",
                                            "8",
                                            "31",
                                            "64",
                                            "1000",
                                            "65537",
                                            "2147483647",
                                            "4294967296",
                                            "1099511627776",
                                            "9223372036854775807",
                                            "-1",
                                            "-2",
                                            "-9223372036854775808",
                                            "?"};
      words_[at] = numbers[below(std::size(numbers))];
    } else if (kind < 5) {  // as another of the text
      words_[at] = words_[word_like(is_number)];
    } else if (kind < 7) {
      words_[at] = words_[word_like(is_name)];
    } else if (kind == 7) {
      static const std::vector<std::string> operators = heddle::import::supported_stablehlo_ops();
      const size_t name = word_like([](const std::string& word) { return word.find("hlo.") != std::string::npos; });
      words_[name] = operators[below(operators.size())];
    } else if (kind < 10) {
      static const char* const types[] = {"f32", "f64",  "f16", "bf16", "i1",           "i8",     "i32",  "i64",
                                          "ui8", "ui64", "i4",  "i2",   "complex<f32>", "f8E5M2", "index"};
      words_[at] = types[below(std::size(types))];
    } else {
      change_line(other);
    }
  }

  static bool is_number(const std::string& word) { return std::isdigit(static_cast<unsigned char>(word[0])) != 0; }
  static bool is_name(const std::string& word) { return word[0] == '%' || word[0] == '@' || word[0] == '^'; }
  static bool is_type(const std::string& word) {
    return word.size() > 1 && word.size() < 5 && (word[0] == 'f' || word[0] == 'i' || word[0] == 'u' || word[0] == 'b') &&
           std::isdigit(static_cast<unsigned char>(word.back()));
  }

  // The first such word from a random one on; a random one if there is none.
  template <typename Predicate>
  size_t word_like(Predicate predicate) {
    const size_t first = below(words_.size());
    for (size_t i = 0; i < words_.size(); ++i) {
      const size_t at = (first + i) % words_.size();
      if (predicate(words_[at])) return at;
    }
    return first;
  }

  // A line is removed, written twice, or taken from the other text.
  void change_line(std::string_view other) {
    const size_t at = below(words_.size());
    auto begin = words_.begin() + static_cast<ptrdiff_t>(at);
    while (begin != words_.begin() && *(begin - 1) != "\n") --begin;
    auto end = std::find(begin, words_.end(), "\n");
    if (end != words_.end()) ++end;
    if (!other.empty() && below(2) == 0) {
      const size_t place = below(other.size()), from = other.rfind('\n', place), to = other.find('\n', place);
      words_.insert(
          begin, std::string(other.substr(from == std::string_view::npos ? 0 : from + 1, to == std::string_view::npos ? to : to - from)));
    } else if (below(2) == 0) {
      words_.erase(begin, end);
    } else {
      const std::vector<std::string> line(begin, end);
      words_.insert(begin, line.begin(), line.end());
    }
  }

  std::vector<std::string> words_;
  std::mt19937_64 random_;
};

size_t changed(uint8_t* data, size_t size, size_t max_size, unsigned seed, std::string_view other) {
  constexpr unsigned bytes_in = 10;  // one in so many changes is one of bytes
  if (seed % bytes_in == 0 || size == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string text = Mutator({reinterpret_cast<const char*>(data), size}, seed).mutate(other);
  const size_t bytes = std::min(text.size(), max_size);
  std::copy_n(text.data(), bytes, data);
  return bytes;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return changed(data, size, max_size, seed, {});
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other, size_t other_size, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  if (size > max_size) return 0;
  std::copy_n(data, size, out);
  return changed(out, size, max_size, seed | 1, {reinterpret_cast<const char*>(other), other_size});
}
