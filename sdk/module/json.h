// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads JSON as text, without building a tree. JSON of others is checked as a whole before it is read or copied into such a text. Used
// for the report of a module and for the headers of safetensors files.
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
  // indent: spaces per level, with one value per line; 0: everything on one line.
  explicit JsonWriter(size_t indent = 0) : indent_(indent) {}

  JsonWriter& open(char bracket);  // '{' or '['
  JsonWriter& close(char bracket);
  JsonWriter& key(std::string_view name);
  // A key with an integer, as most members are.
  template <typename Integer>
  JsonWriter& count(std::string_view name, Integer value) {
    return key(name).number(value);
  }

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
  void new_line();

  const size_t indent_;
  size_t levels_ = 0;
  std::string out_;
};

// Whether a text is one JSON value that nests at most most_levels (up to 64) objects and arrays, and whose numbers fit a double. out_wrong, which may
// be NULL: otherwise the byte at which the check ended.
bool is_json(std::string_view text, uint32_t most_levels = 64, size_t* out_wrong = nullptr);

// Reads the values of a text that is_json() accepts, in its order. Functions that return a bool leave a value of another type unread.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Enters an object '{' or an array '['.
  bool enter(char bracket);
  // Inside of one: whether a member or element follows. If not, leaves it.
  bool more();
  // The name of a member; its value comes next.
  std::string key();
  bool text(std::string& out);
  bool natural(uint64_t& out);  // an integer without a sign that fits 64 bits
  void skip();                  // a value of any type

  size_t at() const { return at_; }  // bytes that are read

 private:
  char next();  // after white space
  void skip_string();
  std::string string();

  const std::string_view text_;
  size_t at_ = 0;
};

// A text that is_json() accepts, without the members of these names in any of its objects. Names are compared as they are written.
std::string without_members(std::string_view text, std::initializer_list<std::string_view> names);

}  // namespace heddle::module
