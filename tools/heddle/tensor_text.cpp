// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor values as text, and the forms of --input.
#include "tools/heddle/tensor_text.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "sdk/module/element_types.h"
#include "tools/heddle/float_formats.h"
#include "tools/heddle/npy.h"
#include "tools/heddle/npz.h"

namespace heddle::tool {
namespace {

template <typename T>
T load(const HostTensor& tensor, uint64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void store(HostTensor& tensor, uint64_t index, T value) {
  std::memcpy(tensor.bytes.data() + index * sizeof(T), &value, sizeof(T));
}
// Elements of less than 8 bits: the first one is in the lowest bits of a byte.
uint32_t packed_bits(const HostTensor& tensor, uint64_t index) {
  const uint32_t width = HEDDLE_TYPE_BITS(tensor.shape.element_type), per_byte = 8 / width;
  return (static_cast<uint32_t>(tensor.bytes[index / per_byte]) >> (index % per_byte * width)) & ((1u << width) - 1);
}
void store_packed(HostTensor& tensor, uint64_t index, uint32_t value) {
  const uint32_t width = HEDDLE_TYPE_BITS(tensor.shape.element_type), per_byte = 8 / width, mask = (1u << width) - 1;
  const auto shift = static_cast<uint32_t>(index % per_byte * width);
  const uint32_t kept = static_cast<uint32_t>(tensor.bytes[index / per_byte]) & ~(mask << shift);
  tensor.bytes[index / per_byte] = static_cast<std::byte>(kept | (value & mask) << shift);
}

struct IntegerType {
  heddle_element_type_t type;
  int64_t least;
  uint64_t most;
};
const IntegerType* integer_type(heddle_element_type_t type) {
  static constexpr IntegerType kTypes[] = {
      {HEDDLE_TYPE_BOOL, 0, 1},         {HEDDLE_TYPE_I4, -8, 7},
      {HEDDLE_TYPE_U4, 0, 15},          {HEDDLE_TYPE_I8, INT8_MIN, INT8_MAX},
      {HEDDLE_TYPE_U8, 0, UINT8_MAX},   {HEDDLE_TYPE_I16, INT16_MIN, INT16_MAX},
      {HEDDLE_TYPE_U16, 0, UINT16_MAX}, {HEDDLE_TYPE_I32, INT32_MIN, INT32_MAX},
      {HEDDLE_TYPE_U32, 0, UINT32_MAX}, {HEDDLE_TYPE_I64, INT64_MIN, INT64_MAX},
      {HEDDLE_TYPE_U64, 0, UINT64_MAX}, {HEDDLE_TYPE_I2, -2, 1},
      {HEDDLE_TYPE_U2, 0, 3},
  };
  for (const IntegerType& one : kTypes) {
    if (one.type == type) return &one;
  }
  return nullptr;
}

// Stores the two's complement bits of an integer of the tensor's type.
void store_integer(HostTensor& tensor, uint64_t index, uint64_t bits) {
  switch (HEDDLE_TYPE_BITS(tensor.shape.element_type)) {
    case 2:
    case 4:
      return store_packed(tensor, index, static_cast<uint32_t>(bits));
    case 8:
      return store(tensor, index, static_cast<uint8_t>(bits));
    case 16:
      return store(tensor, index, static_cast<uint16_t>(bits));
    case 32:
      return store(tensor, index, static_cast<uint32_t>(bits));
    default:
      return store(tensor, index, bits);
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Parses one value into element `index`; returns an error text.
Wrong parse_value(std::string_view text, HostTensor& tensor, uint64_t index) {
  const heddle_element_type_t type = tensor.shape.element_type;
  const std::string shown = "'" + std::string(text.substr(0, 40)) + "'";
  if (const IntegerType* limits = integer_type(type)) {
    if (type == HEDDLE_TYPE_BOOL && (text == "true" || text == "false")) {
      store_integer(tensor, index, text == "true");
      return {};
    }
    const char* end = text.data() + text.size();
    int64_t value = 0;
    uint64_t large = 0;
    if (auto [at, error] = std::from_chars(text.data(), end, value); error == std::errc() && at == end && !text.empty()) {
      if (value < limits->least || (value > 0 && static_cast<uint64_t>(value) > limits->most)) {
        return shown + " is outside the range of " + std::string(module::element_type_name(type));
      }
      store_integer(tensor, index, static_cast<uint64_t>(value));
      return {};
    }
    if (auto [at, error] = std::from_chars(text.data(), end, large); error == std::errc() && at == end && !text.empty()) {
      if (large > limits->most) return shown + " is outside the range of " + std::string(module::element_type_name(type));
      store_integer(tensor, index, large);
      return {};
    }
    return shown + " is not an integer of type " + std::string(module::element_type_name(type));
  }
  double value = 0;
  const char* begin = text.data() + (!text.empty() && text[0] == '+' ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || at != end || text.empty()) return shown + " is not a number";
  set_element(tensor, index, value);
  return {};
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// "x.npz:array". Names of files and of arrays may contain ':': a file with the whole text as its name is used if it exists; otherwise the name of
// the file ends where one exists, or with ".npz".
Wrong parse_file(std::string_view text, TensorArgument& out) {
  out.path = text;
  if (access(out.path.c_str(), F_OK) == 0) return {};
  for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    const std::string path(text.substr(0, colon));
    if (path.empty() || (!ends_with(path, ".npz") && access(path.c_str(), F_OK) != 0)) continue;
    out.path = path;
    out.array = text.substr(colon + 1);
    return out.array.empty() ? "'" + std::string(text) + "': there is no name of an array after ':'" : Wrong();
  }
  return {};
}

}  // namespace

std::string in_shell_quotes(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Wrong parse_tensor_argument(std::string_view text, TensorArgument& out) {
  out = TensorArgument{};
  const std::string_view whole = text;
  Shape shape;
  size_t equals = text.find('=');
  if (equals != std::string_view::npos && text[0] != '@' && !parse_shape(text.substr(0, equals), shape).empty()) {
    out.name = text.substr(0, equals);
    if (out.name.empty()) return "'" + std::string(whole) + "': there is no name before '='";
    text.remove_prefix(equals + 1);
    equals = text.find('=');
  }
  if (text.empty()) return "'" + std::string(whole) + "': there is no value";
  if (text[0] == '@') {
    if (text.size() == 1) return "'" + std::string(whole) + "': there is no file after '@'";
    return parse_file(text.substr(1), out);
  }
  if (equals == std::string_view::npos)
    return "'" + std::string(whole) + "': expected TYPE=VALUES such as 'f32[2,3]=1,2,3,4,5,6', or @FILE";
  if (Wrong wrong = parse_shape(text.substr(0, equals), out.shape); !wrong.empty()) return wrong;
  text.remove_prefix(equals + 1);
  if (!text.empty() && text[0] == '@') {
    if (text.size() == 1) return "'" + std::string(whole) + "': there is no file after '@'";
    return parse_file(text.substr(1), out);
  } else {
    out.values = text;
  }
  return {};
}

Wrong parse_output_argument(std::string_view text, TensorArgument& out) {
  out = TensorArgument{};
  const std::string shown = "'" + std::string(text) + "'";
  const size_t equals = text.empty() || text[0] == '@' ? std::string_view::npos : text.find('=');
  const std::string_view file = equals == std::string_view::npos ? text : text.substr(equals + 1);
  if (equals == 0) return shown + ": there is no name before '='";
  if (file.empty() || file[0] != '@')
    return shown + ": expected [NAME=]@FILE, such as @" + (file.empty() ? "scores.npy" : std::string(file));
  if (file.size() == 1) return shown + ": there is no file after '@'";
  if (equals != std::string_view::npos) out.name = text.substr(0, equals);
  out.path = file.substr(1);
  return {};
}

Wrong parse_values(std::string_view text, HostTensor& tensor) {
  const std::optional<uint64_t> count = element_count(tensor.shape);
  const std::optional<uint64_t> bytes = byte_count(tensor.shape);
  constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
  if (!count || !bytes || *bytes > kMaxBytes) return shape_text(tensor.shape) + " is too large";
  uint64_t given = trim(text).empty() ? 0 : 1;
  for (char c : text) given += c == ',';
  // Checked before allocating: the text itself bounds the tensor, unless one value fills it.
  if (given != *count && given != 1) {
    return std::to_string(given) + " values for " + shape_text(tensor.shape) + ", which has " + std::to_string(*count);
  }
  try {
    tensor.bytes.assign(*bytes, std::byte{0});
  } catch (const std::bad_alloc&) {
    return "not enough memory for the " + std::to_string(*bytes) + " bytes of " + shape_text(tensor.shape) + "; free memory";
  }
  if (*count == 0) return {};
  uint64_t index = 0;
  while (true) {
    const size_t comma = text.find(',');
    if (Wrong wrong = parse_value(trim(text.substr(0, comma)), tensor, index); !wrong.empty())
      return "value " + std::to_string(index) + ": " + wrong;
    ++index;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (given == 1 && *count > 1) {
    const uint64_t width = HEDDLE_TYPE_BITS(tensor.shape.element_type);
    if (width < 8) {
      const uint32_t first = packed_bits(tensor, 0);
      for (uint64_t i = 1; i < *count; ++i) store_packed(tensor, i, first);
    } else {
      for (uint64_t filled = width / 8; filled < *bytes; filled *= 2)
        std::memcpy(tensor.bytes.data() + filled, tensor.bytes.data(), std::min(filled, *bytes - filled));
    }
  }
  return {};
}

void expand_npz(std::vector<TensorArgument>& arguments) {
  std::vector<TensorArgument> out;
  for (TensorArgument& argument : arguments) {
    const bool is_whole = !argument.path.empty() && argument.name.empty() && argument.array.empty() &&
                          argument.shape.element_type == HEDDLE_TYPE_UNDEFINED && is_npz(argument.path);
    std::vector<std::string> names;
    if (!is_whole || !npz_array_names(argument.path, names).empty() || names.empty()) {
      out.push_back(std::move(argument));
      continue;
    }
    for (const std::string& name : names) out.push_back({name, {}, argument.path, name, {}});
  }
  arguments = std::move(out);
}

Wrong load_tensor(const TensorArgument& argument, const Shape& expected, HostTensor& out) {
  out = HostTensor{};
  if (argument.path.empty()) {
    out.shape = argument.shape;
    return parse_values(argument.values, out);
  }
  const bool has_shape = argument.shape.element_type != HEDDLE_TYPE_UNDEFINED;
  if (!argument.array.empty() || is_npz(argument.path)) {
    if (Wrong wrong = read_npz_array(argument.path, argument.array.empty() ? argument.name : argument.array, out); !wrong.empty())
      return wrong;
    if (!has_shape || (out.shape.element_type == argument.shape.element_type && out.shape.dims == argument.shape.dims)) return {};
    return "'" + argument.path + "': its array is " + shape_text(out.shape) + ", not " + shape_text(argument.shape) +
           " as given; give its own type and shape, or none";
  }
  if (!has_shape && ends_with(argument.path, ".npy")) return read_npy(argument.path, out);
  InputFile file;
  if (Wrong wrong = file.open(argument.path); !wrong.empty()) return file.about(wrong);
  out.shape = has_shape ? argument.shape : expected;
  for (int64_t extent : out.shape.dims) {
    if (extent >= 0) continue;
    Shape such = expected;
    for (int64_t& one : such.dims) one = one < 0 ? 1 : one;
    return "'" + argument.path +
           "': it is neither .npy nor .npz but plain values, whose shape is not known; save the array with numpy.save, or give "
           "the shape, as in " +
           in_shell_quotes(shape_text(such) + "=@" + argument.path);
  }
  const std::optional<uint64_t> bytes = byte_count(out.shape);
  if (!bytes) return shape_text(out.shape) + " is too large";
  return read_raw(argument.path, *bytes, shape_text(out.shape), out.bytes);
}

Wrong save_tensor(const std::string& path, const HostTensor& tensor) {
  const module::ParameterSource data{tensor.bytes.size(), tensor.bytes, nullptr};
  return ends_with(path, ".npy") ? write_npy(path, tensor.shape, data) : write_raw(path, data);
}

double element(const HostTensor& tensor, uint64_t index) {
  if (const FloatFormat* format = short_format(tensor.shape.element_type)) {
    const uint32_t width = HEDDLE_TYPE_BITS(tensor.shape.element_type);
    return decode_float(width == 4   ? packed_bits(tensor, index)
                        : width == 8 ? load<uint8_t>(tensor, index)
                                     : load<uint16_t>(tensor, index),
                        *format);
  }
  switch (tensor.shape.element_type) {
    case HEDDLE_TYPE_I4:
    case HEDDLE_TYPE_I2: {
      const int value = static_cast<int>(packed_bits(tensor, index)), range = 1 << HEDDLE_TYPE_BITS(tensor.shape.element_type);
      return value < range / 2 ? value : value - range;
    }
    case HEDDLE_TYPE_U4:
    case HEDDLE_TYPE_U2:
      return packed_bits(tensor, index);
    case HEDDLE_TYPE_I8:
      return load<int8_t>(tensor, index);
    case HEDDLE_TYPE_BOOL:
    case HEDDLE_TYPE_U8:
      return load<uint8_t>(tensor, index);
    case HEDDLE_TYPE_I16:
      return load<int16_t>(tensor, index);
    case HEDDLE_TYPE_U16:
      return load<uint16_t>(tensor, index);
    case HEDDLE_TYPE_I32:
      return load<int32_t>(tensor, index);
    case HEDDLE_TYPE_U32:
      return load<uint32_t>(tensor, index);
    case HEDDLE_TYPE_I64:
      return static_cast<double>(load<int64_t>(tensor, index));
    case HEDDLE_TYPE_U64:
      return static_cast<double>(load<uint64_t>(tensor, index));
    case HEDDLE_TYPE_F32:
      return load<float>(tensor, index);
    default:
      return load<double>(tensor, index);
  }
}

void set_element(HostTensor& tensor, uint64_t index, double value) {
  const heddle_element_type_t type = tensor.shape.element_type;
  if (const FloatFormat* format = short_format(type)) {
    const uint32_t bits = encode_float(value, *format);
    if (HEDDLE_TYPE_BITS(type) < 8) {
      store_packed(tensor, index, bits);
    } else if (HEDDLE_TYPE_BITS(type) == 8) {
      store(tensor, index, static_cast<uint8_t>(bits));
    } else {
      store(tensor, index, static_cast<uint16_t>(bits));
    }
  } else if (integer_type(type) != nullptr) {
    store_integer(tensor, index, value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value));
  } else if (type == HEDDLE_TYPE_F32) {
    store(tensor, index, static_cast<float>(value));
  } else {
    store(tensor, index, value);
  }
}

std::string element_text(const HostTensor& tensor, uint64_t index) {
  char text[64];
  std::to_chars_result end{};
  switch (tensor.shape.element_type) {
    case HEDDLE_TYPE_BOOL:
      return load<uint8_t>(tensor, index) ? "true" : "false";
    case HEDDLE_TYPE_I64:
      end = std::to_chars(text, text + sizeof(text), load<int64_t>(tensor, index));
      break;
    case HEDDLE_TYPE_U64:
      end = std::to_chars(text, text + sizeof(text), load<uint64_t>(tensor, index));
      break;
    case HEDDLE_TYPE_F64:
      end = std::to_chars(text, text + sizeof(text), load<double>(tensor, index));
      break;
    default:
      // f32 represents all values of f32 and of the smaller types exactly.
      end = integer_type(tensor.shape.element_type) ? std::to_chars(text, text + sizeof(text), static_cast<int64_t>(element(tensor, index)))
                                                    : std::to_chars(text, text + sizeof(text), static_cast<float>(element(tensor, index)));
  }
  return {text, end.ptr};
}

std::string tensor_text(const HostTensor& tensor, uint64_t most) {
  std::string out = shape_text(tensor.shape) + "=";
  const uint64_t count = element_count(tensor.shape).value_or(0);
  for (uint64_t i = 0; i < count && i < most; ++i) out += (i ? "," : "") + element_text(tensor, i);
  return count > most ? out + (most ? ",..." : "...") : out;
}

}  // namespace heddle::tool
