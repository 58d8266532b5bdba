// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes JSON as text, without building a tree, and checks JSON of others before it is copied into such a text. Used for the report of a module.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace heddle::module {

// The caller opens and closes in pairs, and gives each value of an object its key. Commas are written as needed.
class JsonWriter {
 public:
  JsonWriter& open(char bracket);  // '{' or '['
  JsonWriter& close(char bracket);
  JsonWriter& key(std::string_view name);

  // Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& text(std::string_view value);
  template <typename Integer>
  JsonWriter& number(Integer value) {
    static_assert(std::is_integral_v<Integer>);
    return json(std::to_string(value));
  }
  JsonWriter& real(double value);  // null if it is not finite
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& json(std::string_view value);  // text that is_json() accepts

  std::string take() { return std::move(out_); }

 private:
  void begin_value();

  std::string out_;
};

// Whether a text is one JSON value that nests at most most_levels (up to 64) objects and arrays, and whose numbers fit a double.
bool is_json(std::string_view text, uint32_t most_levels = 64);

}  // namespace heddle::module
