// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Syntax: https://github.com/google/re2/wiki/Syntax. An expression becomes a nondeterministic automaton (Thompson's construction), whose sets of states
// become states of the result. Conditions such as ^ and \b are edges that are taken if they hold between the byte before and the one after; so a
// state also has what is known of the byte before.
#include "compiler/import/onnx_regex.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <stdexcept>
#include <utility>

// Apart from the other files of the directory, which share a translation unit.
namespace heddle::import {
namespace regex {
namespace {

constexpr uint32_t last_code = 0x10FFFF;
constexpr int most_repeats = 1000, deepest_groups = 100;
constexpr size_t most_places = 100'000, most_work = 30'000'000;  // of the nondeterministic automaton, and places visited: a second or two

struct Wrong : std::runtime_error {
  Wrong(const std::string& text, bool unsupported) : std::runtime_error(text), unsupported(unsupported) {}
  bool unsupported;
};
[[noreturn]] void wrong(const std::string& text) {
  throw Wrong(text, false);
}
[[noreturn]] void unsupported(const std::string& text) {
  throw Wrong(text, true);
}

using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;  // of codes, both ends included

Ranges sorted(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges merged;
  for (const auto& [first, last] : ranges) {
    if (!merged.empty() && first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, last);
    } else {
      merged.emplace_back(first, last);
    }
  }
  return merged;
}

Ranges complement(const Ranges& ranges) {
  Ranges others;
  uint32_t next = 0;
  for (const auto& [first, last] : sorted(ranges)) {
    if (first > next) others.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= last_code) others.emplace_back(next, last_code);
  return others;
}

const Ranges digits = {{'0', '9'}}, words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
             spaces = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};

bool is_word(int byte) {
  return std::any_of(words.begin(), words.end(),
                     [&](const auto& range) { return byte >= static_cast<int>(range.first) && byte <= static_cast<int>(range.second); });
}

enum class Condition { kNone, kBegin, kEnd, kBoundary, kNoBoundary };

// A place has an edge with bytes, or up to two without.
struct Place {
  int first_byte = -1, last_byte = -1;
  int next = -1, other = -1;
  Condition condition = Condition::kNone;
};

// A part of the automaton: where it begins, and an edge out of its last place.
struct Part {
  int begin, end;
};

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  std::vector<Place> places;

  Part parse() {
    Part all = alternatives(0);
    if (position_ < text_.size()) wrong("')' without '('");
    return all;
  }

 private:
  bool more() const { return position_ < text_.size(); }
  char here() const { return text_[position_]; }
  bool take(char c) {
    if (!more() || here() != c) return false;
    ++position_;
    return true;
  }
  bool take(std::string_view text) {
    if (text_.compare(position_, text.size(), text) != 0) return false;
    position_ += text.size();
    return true;
  }

  int add(Place place) {
    if (places.size() >= most_places) unsupported("it is too large");
    places.push_back(place);
    return static_cast<int>(places.size()) - 1;
  }
  Part nothing() {
    const int place = add({});
    return {place, place};
  }
  Part joined(Part a, Part b) {
    places[static_cast<size_t>(a.end)].next = b.begin;
    return {a.begin, b.end};
  }
  Part either(Part a, Part b) {
    Place fork;
    fork.next = a.begin;
    fork.other = b.begin;
    const int begin = add(fork), end = add({});
    places[static_cast<size_t>(a.end)].next = end;
    places[static_cast<size_t>(b.end)].next = end;
    return {begin, end};
  }
  Part condition(Condition which) {
    Place place;
    place.condition = which;
    const int begin = add(place), end = add({});
    places[static_cast<size_t>(begin)].next = end;
    return {begin, end};
  }

  Part alternatives(int depth) {
    if (depth > deepest_groups) unsupported("its groups are more than " + std::to_string(deepest_groups) + " deep");
    Part all = sequence(depth);
    while (take('|')) all = either(all, sequence(depth));
    return all;
  }

  Part sequence(int depth) {
    Part all = nothing();
    while (more() && here() != '|' && here() != ')') all = joined(all, repeated(depth));
    return all;
  }

  Part repeated(int depth) {
    const size_t from = position_;
    Part part = atom(depth);
    const size_t to = position_;
    bool has_one = false;
    while (more()) {
      int least = 0, most = -1;
      const size_t before = position_;
      if (take('*')) {
      } else if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (!counts(least, most)) {
        position_ = before;
        break;
      }
      take('?');  // the same strings match
      if (has_one) wrong("an operator repeats another one: '" + text_.substr(before, position_ - before) + "'");
      has_one = true;
      const size_t after = position_;
      auto again = [&] {
        position_ = from;
        Part copy = atom(depth);
        if (position_ != to) wrong("it cannot be read twice");
        return copy;
      };
      part = times(part, least, most, again);
      position_ = after;
    }
    return part;
  }

  bool counts(int& least, int& most) {
    if (!take('{')) return false;
    auto number = [&](int& out) {
      const size_t begin = position_;
      out = 0;
      while (more() && here() >= '0' && here() <= '9' && out <= most_repeats) out = out * 10 + (text_[position_++] - '0');
      return position_ > begin;
    };
    if (!number(least)) return false;
    most = least;
    if (take(',') && !number(most)) most = -1;
    if (!take('}')) return false;
    if (least > most_repeats || most > most_repeats || (most >= 0 && most < least))
      wrong("the counts of {} are not in order, or above 1000");
    return true;
  }

  template <typename AgainT>
  Part times(Part part, int least, int most, AgainT again) {
    bool is_used = false;
    auto next = [&] {
      if (is_used) return again();
      is_used = true;
      return part;
    };
    Part all = nothing();
    for (int i = 0; i < least; ++i) all = joined(all, next());
    if (most < 0) {
      Part inner = next();
      Place fork;
      const int begin = add(fork), end = add({});
      places[static_cast<size_t>(begin)].next = inner.begin;
      places[static_cast<size_t>(begin)].other = end;
      places[static_cast<size_t>(inner.end)].next = begin;
      return joined(all, {begin, end});
    }
    const int end = add({});
    for (int i = least; i < most; ++i) {
      Part inner = next();
      Place fork;
      fork.next = inner.begin;
      fork.other = end;
      const int begin = add(fork);
      all = joined(all, {begin, inner.end});
    }
    return joined(all, {end, end});
  }

  Part atom(int depth) {
    if (take('(')) {
      if (take('?')) {
        if (take("P<") || take('<')) {
          const size_t close = text_.find('>', position_);
          if (close == std::string::npos) wrong("a group's name does not end");
          position_ = close + 1;
        } else if (!take(':')) {
          unsupported("flags and conditions of groups, (?..), are not supported");
        }
      }
      Part inner = alternatives(depth + 1);
      if (!take(')')) wrong("a group does not end");
      return inner;
    }
    if (take('[')) return codes(bracket());
    if (take('.')) return codes(complement({{'\n', '\n'}}));
    if (take('^')) return condition(Condition::kBegin);
    if (take('$')) return condition(Condition::kEnd);
    if (here() == '*' || here() == '+' || here() == '?') wrong(std::string("nothing comes before '") + here() + "'");
    if (here() == '\\') {
      if (take("\\b")) return condition(Condition::kBoundary);
      if (take("\\B")) return condition(Condition::kNoBoundary);
      if (take("\\A")) return condition(Condition::kBegin);
      if (take("\\z")) return condition(Condition::kEnd);
      Ranges set;
      if (perl_class(set)) return codes(set);
    }
    const uint32_t one = code();
    return codes({{one, one}});
  }

  // \d and so on.
  bool perl_class(Ranges& set) {
    if (position_ + 1 >= text_.size() || here() != '\\') return false;
    switch (text_[position_ + 1]) {
      case 'd':
        set = digits;
        break;
      case 'D':
        set = complement(digits);
        break;
      case 'w':
        set = words;
        break;
      case 'W':
        set = complement(words);
        break;
      case 's':
        set = spaces;
        break;
      case 'S':
        set = complement(spaces);
        break;
      default:
        return false;
    }
    position_ += 2;
    return true;
  }

  // One character, escaped or not.
  uint32_t code() {
    if (take('\\')) {
      if (!more()) wrong("it ends with a backslash");
      const char c = text_[position_++];
      switch (c) {
        case 'a':
          return 7;
        case 'f':
          return '\f';
        case 'n':
          return '\n';
        case 'r':
          return '\r';
        case 't':
          return '\t';
        case 'v':
          return '\v';
        case 'x':
          return hexadecimal();
        default:
          break;
      }
      if (is_word(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80)
        unsupported(std::string("the escape '\\") + c + "' is not supported");
      return static_cast<unsigned char>(c);
    }
    const auto first = static_cast<unsigned char>(text_[position_]);
    const size_t count = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (count > text_.size() - position_) wrong("it is not UTF-8");
    uint32_t value = count == 1 ? first : first & (0x7Fu >> count);
    for (size_t i = 1; i < count; ++i) value = value << 6 | (static_cast<unsigned char>(text_[position_ + i]) & 0x3Fu);
    position_ += count;
    return value;
  }

  uint32_t hexadecimal() {
    const bool has_braces = take('{');
    uint32_t value = 0;
    int count = 0;
    while (more() && (has_braces || count < 2) && std::isxdigit(static_cast<unsigned char>(here())) && value <= last_code) {
      const char c = text_[position_++];
      value = value * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
      ++count;
    }
    if (count == 0 || (has_braces ? !take('}') : count != 2) || value > last_code) wrong("\\x has no hexadecimal number");
    return value;
  }

  Ranges bracket() {
    const bool is_negated = take('^');
    Ranges set;
    bool is_first = true;
    while (true) {
      if (!more()) wrong("a bracket does not end");
      if (!is_first && take(']')) break;
      is_first = false;
      Ranges named;
      if (here() == '[' && position_ + 1 < text_.size() && text_[position_ + 1] == ':') {
        named = posix_class();
      } else if (!perl_class(named)) {
        const uint32_t first = code();
        uint32_t last = first;
        if (more() && here() == '-' && position_ + 1 < text_.size() && text_[position_ + 1] != ']') {
          ++position_;
          last = code();
          if (last < first) wrong("a range in brackets is not in order");
        }
        named = {{first, last}};
      }
      set.insert(set.end(), named.begin(), named.end());
    }
    return is_negated ? complement(set) : sorted(set);
  }

  Ranges posix_class() {
    static const std::map<std::string, Ranges, std::less<>> all = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                                                                   {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                                                                   {"ascii", {{0, 0x7F}}},
                                                                   {"blank", {{'\t', '\t'}, {' ', ' '}}},
                                                                   {"cntrl", {{0, 0x1F}, {0x7F, 0x7F}}},
                                                                   {"digit", digits},
                                                                   {"graph", {{'!', '~'}}},
                                                                   {"lower", {{'a', 'z'}}},
                                                                   {"print", {{' ', '~'}}},
                                                                   {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                                                                   {"space", {{'\t', '\r'}, {' ', ' '}}},
                                                                   {"upper", {{'A', 'Z'}}},
                                                                   {"word", words},
                                                                   {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
    const size_t close = text_.find(":]", position_);
    if (close == std::string::npos) wrong("a class of brackets does not end");
    std::string name = text_.substr(position_ + 2, close - position_ - 2);
    position_ = close + 2;
    const bool is_negated = !name.empty() && name[0] == '^';
    auto found = all.find(is_negated ? name.substr(1) : name);
    if (found == all.end()) wrong("'[:" + name + ":]' is no class");
    return is_negated ? complement(found->second) : found->second;
  }

  // Any of these codes, as sequences of bytes.
  Part codes(const Ranges& ranges) {
    const int begin = add({}), end = add({});
    int fork = begin;
    bool is_first = true;
    auto way = [&](const std::vector<std::pair<int, int>>& bytes) {
      int from = -1, last = -1;
      for (const auto& [low, high] : bytes) {
        Place place;
        place.first_byte = low;
        place.last_byte = high;
        const int at = add(place);
        if (last >= 0) places[static_cast<size_t>(last)].next = at;
        if (from < 0) from = at;
        last = at;
      }
      places[static_cast<size_t>(last)].next = end;
      if (!is_first) {
        const int next = add({});
        places[static_cast<size_t>(fork)].other = next;
        fork = next;
      }
      is_first = false;
      places[static_cast<size_t>(fork)].next = from;
    };
    for (const auto& [first, last] : sorted(ranges)) in_bytes(std::max<uint32_t>(first, 1), last, way);
    if (is_first) {  // none: a byte that no string has
      Place place;
      place.first_byte = 1;
      place.last_byte = 0;
      places[static_cast<size_t>(begin)] = place;
    }
    return {begin, end};
  }

  // Splits a range where the number of bytes, or their leading ones, change.
  template <typename WayT>
  void in_bytes(uint32_t first, uint32_t last, WayT way) {
    if (first > last) return;
    for (const uint32_t limit : {0x7Fu, 0x7FFu, 0xFFFFu}) {
      if (first <= limit && last > limit) {
        in_bytes(first, limit, way);
        return in_bytes(limit + 1, last, way);
      }
    }
    if (last <= 0x7F) return way({{static_cast<int>(first), static_cast<int>(last)}});
    const int count = last <= 0x7FF ? 2 : last <= 0xFFFF ? 3 : 4;
    for (int i = 1; i < count; ++i) {
      const uint32_t mask = (1u << (6 * i)) - 1;
      if ((first & ~mask) == (last & ~mask)) continue;
      if ((first & mask) != 0) {
        in_bytes(first, first | mask, way);
        return in_bytes((first | mask) + 1, last, way);
      }
      if ((last & mask) != mask) {
        in_bytes(first, (last & ~mask) - 1, way);
        return in_bytes(last & ~mask, last, way);
      }
    }
    auto byte = [&](uint32_t value, int i) {
      if (i == 0) return static_cast<int>((0xF0u << (4 - count) & 0xFFu) | value >> (6 * (count - 1)));
      return static_cast<int>(0x80u | (value >> (6 * (count - 1 - i)) & 0x3Fu));
    };
    std::vector<std::pair<int, int>> bytes;
    for (int i = 0; i < count; ++i) bytes.emplace_back(byte(first, i), byte(last, i));
    way(bytes);
  }

  const std::string& text_;
  size_t position_ = 0;
};

// A set of places, before conditions are looked at, and what the byte before was.
struct State {
  std::vector<int> places;
  bool is_begin, after_word;
  auto operator<=>(const State&) const = default;
};

class Determined {
 public:
  Determined(const std::vector<Place>& places, int begin, int end) : places_(places), end_(end), round_of_(places.size(), 0) {
    classify();
    number({{begin}, true, false});
    for (size_t s = 0; s < states_.size(); ++s) {
      const State state = states_[s];
      made.accepts.push_back(contains(reached(state, false, true), end_));
      std::vector<int32_t> row;
      for (int byte : examples_) {
        if (byte == 0) {
          row.push_back(static_cast<int32_t>(s));
          continue;
        }
        std::vector<int> after;
        for (int at : reached(state, is_word(byte), false)) {
          const Place& place = places_[static_cast<size_t>(at)];
          if (place.first_byte <= byte && byte <= place.last_byte) after.push_back(place.next);
        }
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        row.push_back(number({std::move(after), false, is_word(byte)}));
      }
      made.next.insert(made.next.end(), row.begin(), row.end());
    }
  }

  Automaton made;

 private:
  static bool contains(const std::vector<int>& sorted, int one) { return std::binary_search(sorted.begin(), sorted.end(), one); }

  // Bytes between which no edge and no condition tells a difference.
  void classify() {
    std::bitset<257> begins;
    begins.set(0).set(1);
    auto note = [&](int first, int last) {
      if (first > last) return;
      begins.set(static_cast<size_t>(first));
      begins.set(static_cast<size_t>(last) + 1);
    };
    for (const Place& place : places_) note(place.first_byte < 0 ? 1 : place.first_byte, place.first_byte < 0 ? 0 : place.last_byte);
    for (const auto& [first, last] : words) note(static_cast<int>(first), static_cast<int>(last));
    for (int byte = 0; byte < 256; ++byte) {
      if (begins[static_cast<size_t>(byte)]) examples_.push_back(byte);
      made.class_of.push_back(static_cast<int32_t>(examples_.size()) - 1);
    }
    made.classes = static_cast<int64_t>(examples_.size());
  }

  int32_t number(State state) {
    auto [it, is_new] = numbers_.try_emplace(std::move(state), static_cast<int32_t>(states_.size()));
    if (is_new) {
      if (states_.size() >= most_automaton_states)
        unsupported("its automaton has more than " + std::to_string(most_automaton_states) + " states");
      states_.push_back(it->first);
    }
    return it->second;
  }

  // All places that are reached without a byte, sorted.
  std::vector<int> reached(const State& state, bool before_word, bool is_end) {
    std::vector<int> found = state.places;
    ++round_;
    for (int at : found) round_of_[static_cast<size_t>(at)] = round_;
    for (size_t i = 0; i < found.size(); ++i) {
      if (++work_ > most_work) unsupported("its automaton takes too long to make");
      const Place& place = places_[static_cast<size_t>(found[i])];
      if (place.first_byte >= 0) continue;
      const bool is_boundary = state.after_word != before_word;
      const bool holds = place.condition == Condition::kNone || (place.condition == Condition::kBegin && state.is_begin) ||
                         (place.condition == Condition::kEnd && is_end) || (place.condition == Condition::kBoundary && is_boundary) ||
                         (place.condition == Condition::kNoBoundary && !is_boundary);
      if (!holds) continue;
      for (int next : {place.next, place.other}) {
        if (next < 0 || std::exchange(round_of_[static_cast<size_t>(next)], round_) == round_) continue;
        found.push_back(next);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  const std::vector<Place>& places_;
  const int end_;
  std::vector<int> examples_;
  std::map<State, int32_t> numbers_;
  std::vector<State> states_;
  size_t work_ = 0;
  std::vector<size_t> round_of_;  // of places: the search that found it last
  size_t round_ = 0;
};

}  // namespace
}  // namespace regex

std::string make_automaton(const std::string& expression, Automaton& out, bool& is_unsupported) {
  using namespace regex;
  is_unsupported = false;
  try {
    if (expression.size() > most_expression_bytes) unsupported("it has more than " + std::to_string(most_expression_bytes) + " bytes");
    Parser parser(expression);
    const Part all = parser.parse();
    out = Determined(parser.places, all.begin, all.end).made;
    return {};
  } catch (const Wrong& error) {
    is_unsupported = error.unsupported;
    return error.what();
  }
}

}  // namespace heddle::import
