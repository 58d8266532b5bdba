// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The members of an object of JSON, in their order; few enough for a linear search. nlohmann::ordered_map has constant keys, so that a vector which
// grows copies all values with everything below them: most of the time of reading a report.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::tool {

// As nlohmann::basic_json expects it; Less and Allocator are its arguments, and not used.
template <typename Key, typename Value, typename Less = std::less<>, typename Allocator = std::allocator<std::pair<const Key, Value>>>
class OrderedMap : public std::vector<std::pair<Key, Value>> {
 public:
  using Container = std::vector<std::pair<Key, Value>>;
  using key_type = Key;
  using mapped_type = Value;
  using key_compare = std::equal_to<>;
  using typename Container::const_iterator;
  using typename Container::iterator;
  using typename Container::size_type;
  using typename Container::value_type;

  OrderedMap() = default;
  template <typename Iterator>
  OrderedMap(Iterator first, Iterator last) : Container(first, last) {}

  iterator find(std::string_view key) {
    return std::find_if(this->begin(), this->end(), [&](const value_type& one) { return one.first == key; });
  }
  const_iterator find(std::string_view key) const {
    return std::find_if(this->begin(), this->end(), [&](const value_type& one) { return one.first == key; });
  }
  size_type count(std::string_view key) const { return find(key) == this->end() ? 0 : 1; }

  // A value that exists is kept.
  std::pair<iterator, bool> emplace(Key key, Value value) {
    const iterator known = find(key);
    if (known != this->end()) return {known, false};
    this->emplace_back(std::move(key), std::move(value));
    return {std::prev(this->end()), true};
  }
  std::pair<iterator, bool> insert(value_type one) { return emplace(std::move(one.first), std::move(one.second)); }

  Value& operator[](std::string_view key) { return emplace(Key(key), Value{}).first->second; }
  Value& at(std::string_view key) { return const_cast<Value&>(std::as_const(*this).at(key)); }
  const Value& at(std::string_view key) const {
    const const_iterator known = find(key);
    if (known == this->end()) throw std::out_of_range("key not found");
    return known->second;
  }

  using Container::erase;
  size_type erase(std::string_view key) {
    const iterator known = find(key);
    if (known == this->end()) return 0;
    this->erase(known);
    return 1;
  }
};

}  // namespace heddle::tool
