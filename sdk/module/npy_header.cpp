// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy: magic, version, header length, a Python dict literal of three keys, data.
#include "sdk/module/npy_header.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "sdk/module/element_types.h"
#include "sdk/module/printable.h"

namespace heddle::module {

namespace {

struct NpyType {
  std::string_view code;
  heddle_element_type_t type;
};
constexpr NpyType kNpyTypes[] = {
    {"|b1", HEDDLE_TYPE_BOOL}, {"|i1", HEDDLE_TYPE_I8},  {"|u1", HEDDLE_TYPE_U8},  {"<i2", HEDDLE_TYPE_I16},
    {"<u2", HEDDLE_TYPE_U16},  {"<i4", HEDDLE_TYPE_I32}, {"<u4", HEDDLE_TYPE_U32}, {"<i8", HEDDLE_TYPE_I64},
    {"<u8", HEDDLE_TYPE_U64},  {"<f2", HEDDLE_TYPE_F16}, {"<f4", HEDDLE_TYPE_F32}, {"<f8", HEDDLE_TYPE_F64},
};

constexpr const char kSaveNpyAgain[] = "; save the array again with numpy.save";

// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: strings, True, False, tuples of integers, nothing else.
class NpyHeaderParser {
 public:
  explicit NpyHeaderParser(std::string_view text) : text_(text) {}

  Wrong parse(NpyHeader& shape) {
    if (!take('{')) return std::string("header: it is not a dictionary") + kSaveNpyAgain;
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      std::string_view key;
      if (!string(key) || !take(':')) return at("expected a key");
      if (key == "descr" && !has_descr) {
        if (Wrong wrong = descr(shape); !wrong.empty()) return wrong;
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        if (word("True")) return "header: the data is in Fortran order; save it with numpy.ascontiguousarray";
        if (!word("False")) return at("expected True or False");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        if (Wrong wrong = dims(shape); !wrong.empty()) return wrong;
        has_shape = true;
      } else {
        return at("key '" + one_line(key.substr(0, 40)) + "' is unknown or duplicate");
      }
      if (!take(',')) {
        if (!take('}')) return at("expected ',' or '}'");
        break;
      }
    }
    space();
    if (position_ != text_.size()) return at("there is text after the dictionary");
    if (!has_descr || !has_order || !has_shape) return std::string("header: descr, fortran_order or shape is missing") + kSaveNpyAgain;
    return numbers_ < 0 ? Wrong() : extent(shape, numbers_);
  }

 private:
  Wrong at(const std::string& what) const { return "header, byte " + std::to_string(position_) + ": " + what + kSaveNpyAgain; }
  void space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t')) ++position_;
  }
  bool take(char c) {
    space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  bool word(std::string_view expected) {
    space();
    if (text_.substr(position_, expected.size()) != expected) return false;
    position_ += expected.size();
    return true;
  }
  bool string(std::string_view& out) {
    space();
    if (position_ == text_.size() || (text_[position_] != '\'' && text_[position_] != '"')) return false;
    const size_t end = text_.find(text_[position_], position_ + 1);
    if (end == std::string_view::npos) return false;
    out = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return out.find('\\') == std::string_view::npos;
  }
  Wrong descr(NpyHeader& shape) {
    std::string_view code;
    if (!string(code))
      return "header: descr is not a string, as in structured arrays, which are not supported; save each field as an array";
    shape.element_type = npy_type_from_code(code);
    if (shape.element_type != HEDDLE_TYPE_UNDEFINED) return {};
    if (code.starts_with("|S")) {  // strings of so many bytes, with zeros behind them
      const auto [end, error] = std::from_chars(code.data() + 2, code.data() + code.size(), numbers_);
      if (error == std::errc() && end == code.data() + code.size() && numbers_ >= 0) {
        shape.element_type = HEDDLE_TYPE_U8;
        return {};
      }
    }
    if (code == "<c8" || code == "<c16") {
      shape.element_type = code.size() == 3 ? HEDDLE_TYPE_F32 : HEDDLE_TYPE_F64;
      numbers_ = 2;
      return {};
    }
    const std::string shown = "'" + one_line(code.substr(0, 40)) + "'";
    if (!code.empty() && code[0] == '>')
      return "header: type " + shown + " is big-endian; save it as little-endian, such as with array.astype(array.dtype.newbyteorder('<'))";
    if (code.size() > 1 && code[1] == 'U')
      return "header: type " + shown + " is not supported; save strings as UTF-8, such as with numpy.char.encode(array, 'utf-8')";
    return "header: type " + shown + " is not supported; convert it, such as with array.astype('float32')";
  }
  Wrong dims(NpyHeader& shape) {
    if (!take('(')) return at("shape is not a tuple");
    while (!take(')')) {
      space();
      int64_t number = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (error != std::errc() || number < 0) return at("expected an extent");
      position_ += static_cast<size_t>(end - begin);
      if (Wrong wrong = extent(shape, number); !wrong.empty()) return wrong;
      if (!take(',')) {
        if (!take(')')) return at("expected ',' or ')'");
        break;
      }
    }
    return {};
  }

  static Wrong extent(NpyHeader& shape, int64_t number) {
    if (shape.dims.size() == HEDDLE_MAX_RANK)
      return "header: it has more than " + std::to_string(HEDDLE_MAX_RANK) + " dimensions; reshape the array";
    shape.dims.push_back(number);
    return {};
  }

  std::string_view text_;
  size_t position_ = 0;
  int64_t numbers_ = -1;  // that each element is made of: the bytes of a string, the parts of a complex number
};

}  // namespace

std::string_view npy_type_code(heddle_element_type_t type) {
  for (const NpyType& one : kNpyTypes) {
    if (one.type == type) return one.code;
  }
  return {};
}

heddle_element_type_t npy_type_from_code(std::string_view code) {
  for (const NpyType& one : kNpyTypes) {
    if (code.size() == 3 && code.substr(1) == one.code.substr(1) && (code[0] == one.code[0] || code[0] == '<' || code[0] == '='))
      return one.type;
  }
  return HEDDLE_TYPE_UNDEFINED;
}

std::string npy_header(heddle_element_type_t type, std::span<const int64_t> dims) {
  std::string dict = "{'descr': '" + std::string(npy_type_code(type)) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < dims.size(); ++i) {
    dict.append(std::to_string(dims[i]));
    dict.append(i + 1 < dims.size() ? ", " : dims.size() == 1 ? "," : "");
  }
  dict += "), }";
  // Data starts on 64 bytes; the header ends in a newline.
  const size_t before = kNpyMagic.size() + 4;
  const size_t total = (before + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - before - dict.size() - 1, ' ').push_back('\n');
  std::string head(kNpyMagic);
  head.push_back(1);
  head.push_back(0);
  head.push_back(static_cast<char>(dict.size() & 255));
  head.push_back(static_cast<char>(dict.size() >> 8));
  return head + dict;
}

Wrong parse_npy_header(std::span<const std::byte> file, NpyHeader& out) {
  out = NpyHeader{};
  auto byte = [&](size_t i) { return static_cast<uint8_t>(file[i]); };
  if (file.size() < 10 || std::memcmp(file.data(), kNpyMagic.data(), kNpyMagic.size()) != 0)
    return std::string("it does not start like an .npy file") + kSaveNpyAgain;
  const uint8_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    return "its version is " + std::to_string(major) + "." + std::to_string(minor) + "; 1.0, 2.0 and 3.0 are supported" + kSaveNpyAgain;
  const size_t prefix = major == 1 ? 10 : 12;
  if (file.size() < prefix) return std::string("it ends inside its header") + kSaveNpyAgain;
  const size_t length = major == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | static_cast<size_t>(byte(11)) << 24;
  if (length > kMaxNpyHeaderBytes)
    return "its header of " + std::to_string(length) + " bytes is above " + std::to_string(kMaxNpyHeaderBytes) + kSaveNpyAgain;
  if (length > file.size() - prefix) return std::string("it ends inside its header") + kSaveNpyAgain;
  out.data_offset = prefix + length;
  return NpyHeaderParser({reinterpret_cast<const char*>(file.data()) + prefix, length}).parse(out);
}

Wrong read_npy_header(const FileView& file, uint64_t offset, uint64_t length, NpyHeader& out) {
  std::vector<std::byte> head(std::min<uint64_t>(length, kNpyHeadBytes));
  if (Wrong wrong = file.read(offset, head); !wrong.empty()) return wrong;
  if (Wrong wrong = parse_npy_header(head, out); !wrong.empty()) return wrong;
  const std::optional<uint64_t> bytes = tensor_bytes(HEDDLE_TYPE_BITS(out.element_type), out.dims);
  const uint64_t held = length - out.data_offset;
  if (bytes && *bytes == held) return {};
  return "its data has " + std::to_string(held) + " bytes, its shape " + shape_text(out.element_type, out.dims) + " needs " +
         (bytes ? std::to_string(*bytes) : std::string("more than fit into 64 bits")) +
         "; copy the file again, or save the array again with numpy.save";
}

}  // namespace heddle::module
