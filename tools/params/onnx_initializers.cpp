// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// onnx.proto: ModelProto.graph is field 7, GraphProto.initializer 5 and sparse_initializer 15, the fields of TensorProto are below. The file is
// untrusted: every length is compared with the bytes that are left of the message around it.
#include "tools/params/onnx_initializers.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "sdk/module/element_types.h"
#include "sdk/module/error.h"
#include "sdk/module/utf8.h"

namespace heddle::tool {
namespace {

using module::concat;
using module::in_quotes;

constexpr uint64_t kBufferBytes = 64 << 10;
constexpr size_t kMostInitializers = 1'000'000, kMostDims = 64;
constexpr uint64_t kMostNameBytes = 65535;
constexpr uint64_t kMostNumberBytes = uint64_t{256} << 20;  // of all tensors that are lists of numbers, which are kept in memory
constexpr const char kCopyAgain[] = "; copy the file or export the model again";

// Types by their number in the file. Numbers in int32_data and uint64_data have the bytes of the type.
struct OnnxType {
  int64_t number;
  heddle_element_type_t type;
  const char* dtype;
  uint32_t bits;
};
constexpr OnnxType kTypes[] = {
    {1, HEDDLE_TYPE_F32, "", 32},
    {2, HEDDLE_TYPE_U8, "", 8},
    {3, HEDDLE_TYPE_I8, "", 8},
    {4, HEDDLE_TYPE_U16, "", 16},
    {5, HEDDLE_TYPE_I16, "", 16},
    {6, HEDDLE_TYPE_I32, "", 32},
    {7, HEDDLE_TYPE_I64, "", 64},
    {9, HEDDLE_TYPE_BOOL, "", 8},
    {10, HEDDLE_TYPE_F16, "", 16},
    {11, HEDDLE_TYPE_F64, "", 64},
    {12, HEDDLE_TYPE_U32, "", 32},
    {13, HEDDLE_TYPE_U64, "", 64},
    {14, HEDDLE_TYPE_UNDEFINED, "C64", 64},
    {16, HEDDLE_TYPE_BF16, "", 16},
    {17, HEDDLE_TYPE_F8E4M3, "", 8},
    {18, HEDDLE_TYPE_UNDEFINED, "F8_E4M3FNUZ", 8},
    {19, HEDDLE_TYPE_F8E5M2, "", 8},
    {20, HEDDLE_TYPE_UNDEFINED, "F8_E5M2FNUZ", 8},
    {21, HEDDLE_TYPE_U4, "", 4},
    {22, HEDDLE_TYPE_I4, "", 4},
    {23, HEDDLE_TYPE_UNDEFINED, "F4", 4},
    {24, HEDDLE_TYPE_UNDEFINED, "F8_E8M0", 8},
};

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

struct Range {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
};

// A tensor's fields as they are in the file.
struct Fields {
  std::optional<Range> raw;
  std::vector<Range> floats, numbers, longs, doubles, naturals;  // packed
  int64_t type = 0;
  bool is_external = false;
  std::string location;
  uint64_t start = 0;
  std::optional<uint64_t> length;
};

class Reader {
 public:
  Reader(const module::FileView& file, std::vector<Initializer>& out, IgnoredInitializers& ignored)
      : file_(file), out_(out), ignored_(ignored) {}

  Wrong read() {
    bool has_graph = false;
    auto model = [&](uint32_t field, uint32_t wire, Range range) {
      if (field != 7) return true;
      has_graph = true;
      return wire == kLength ? graph(range) : fail("its graph is not a message");
    };
    if (!message({0, file_.size_bytes()}, model)) return wrong_ + kCopyAgain;
    if (!has_graph) return concat("it has no graph", kCopyAgain);
    return {};
  }

 private:
  bool fail(const std::string& cause) {
    if (wrong_.empty()) wrong_ = cause;
    return false;
  }
  // The next byte before `end`; false at the end.
  bool byte(uint64_t at, uint64_t end, uint8_t& out) {
    if (at >= end) return fail(concat("it is truncated or damaged at byte ", at));
    if (at < buffered_from_ || at - buffered_from_ >= buffer_.size()) {
      buffer_.resize(std::min(kBufferBytes, file_.size_bytes() - at));
      buffered_from_ = at;
      if (Wrong wrong = file_.read(at, std::as_writable_bytes(std::span(buffer_))); !wrong.empty()) return fail(wrong);
    }
    out = buffer_[at - buffered_from_];
    return true;
  }
  bool varint(uint64_t& at, uint64_t end, uint64_t& out) {
    out = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
      uint8_t next = 0;
      if (!byte(at, end, next)) return false;
      ++at;
      if (shift < 64) out |= uint64_t{next & 0x7fu} << shift;
      if (next < 0x80) return true;
    }
    return fail(concat("a number at byte ", at - 10, " has more than 10 bytes"));
  }
  // Calls take(field, wire, range) for each field: the bytes of a message, or those of a number.
  template <typename Take>
  bool message(Range range, Take take) {
    for (uint64_t at = range.begin; at < range.end;) {
      uint64_t tag = 0, length = 0;
      if (!varint(at, range.end, tag)) return false;
      const auto wire = static_cast<uint32_t>(tag & 7);
      Range field{at, at};
      if (wire == kVarint) {
        uint64_t ignored = 0;
        if (!varint(field.end, range.end, ignored)) return false;
      } else if (wire == kLength) {
        if (!varint(field.begin, range.end, length)) return false;
        if (length > range.end - field.begin)
          return fail(concat("the field at byte ", at, " has ", length, " bytes, and ", range.end - field.begin, " are left"));
        field.end = field.begin + length;
      } else if (wire == kFixed32 || wire == kFixed64) {
        const uint64_t bytes = wire == kFixed32 ? 4 : 8;
        if (bytes > range.end - at) return fail(concat("it is truncated or damaged at byte ", at));
        field.end = at + bytes;
      } else {
        return fail(concat("the field before byte ", at, " has the unknown kind ", wire));
      }
      at = field.end;
      if (tag >> 3 == 0 || tag >> 32 != 0) return fail(concat("the field before byte ", at, " has no valid number"));
      if (!take(static_cast<uint32_t>(tag >> 3), wire, field)) return false;
    }
    return true;
  }
  bool text(Range range, uint64_t most, std::string& out) {
    if (range.size() > most) return fail(concat("a name at byte ", range.begin, " has ", range.size(), " bytes, above ", most));
    out.resize(range.size());
    if (Wrong wrong = file_.read(range.begin, std::as_writable_bytes(std::span(out))); !wrong.empty()) return fail(wrong);
    return true;
  }
  bool natural(const std::string& text, const char* what, uint64_t& out) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error == std::errc() && end == text.data() + text.size() && !text.empty()) return true;
    return fail(concat("external ", what, " ", in_quotes(text), " is not a number"));
  }

  void ignore(const std::string& what) {
    if (ignored_.count++ == 0) ignored_.first = what;
  }
  bool graph(Range range) {
    return message(range, [&](uint32_t field, uint32_t wire, Range inside) {
      if (field == 15) ignore("a sparse tensor");
      if (field != 5) return true;
      if (names_.size() == kMostInitializers) return fail(concat("it has more than ", kMostInitializers, " initializers"));
      return wire == kLength ? tensor(inside) : fail("an initializer is not a message");
    });
  }

  bool external(Range range, Fields& fields) {
    std::string key, value;
    auto take = [&](uint32_t field, uint32_t wire, Range inside) {
      if (field > 2) return true;
      return wire == kLength ? text(inside, kMostNameBytes, field == 1 ? key : value) : fail("a key of external data is not a text");
    };
    if (!message(range, take)) return false;
    if (key == "location") fields.location = value;
    if (key == "offset") return natural(value, "offset", fields.start);
    if (key == "length") return natural(value, "length", fields.length.emplace());
    return true;
  }

  bool tensor(Range range) {
    Initializer& one = out_.emplace_back();
    Fields fields;
    auto take = [&](uint32_t field, uint32_t wire, Range inside) {
      auto number = [&](uint64_t& out) {
        uint64_t at = inside.begin;
        return wire == kVarint ? varint(at, inside.end, out) : fail(concat("field ", field, " of an initializer is not a number"));
      };
      auto add_dim = [&](uint64_t& at) {
        uint64_t extent = 0;
        if (!varint(at, inside.end, extent)) return false;
        if (extent > static_cast<uint64_t>(INT64_MAX) || one.shape.dims.size() == kMostDims)
          return fail("the shape of an initializer has a negative extent or too many");
        one.shape.dims.push_back(static_cast<int64_t>(extent));
        return true;
      };
      if (field == 1) {
        uint64_t at = inside.begin;
        if (wire == kVarint) return add_dim(at);
        while (wire == kLength && at < inside.end) {
          if (!add_dim(at)) return false;
        }
        return true;
      }
      uint64_t value = 0;
      if (field == 2) {
        const bool good = number(value);
        fields.type = static_cast<int64_t>(value);
        return good;
      }
      if (field == 14) {
        const bool good = number(value);
        fields.is_external = value == 1;
        return good;
      }
      std::vector<Range>* const lists[] = {&fields.floats, &fields.numbers, nullptr,         &fields.longs,
                                           nullptr,        nullptr,         &fields.doubles, &fields.naturals};
      std::vector<Range>* list = field >= 4 && field <= 11 ? lists[field - 4] : nullptr;
      if (!list && field != 8 && field != 9 && field != 13) return true;
      if (wire != kLength) return fail(concat("field ", field, " of an initializer is not a text, bytes or packed numbers"));
      if (list) list->push_back(inside);
      if (field == 8) return text(inside, kMostNameBytes, one.name);
      if (field == 9) fields.raw = inside;
      return field != 13 || external(inside, fields);
    };
    if (!message(range, take)) return false;
    if (one.name.empty() || !module::is_utf8_text(one.name))
      return fail(concat("the initializer at byte ", range.begin, " has no name, or one that is not UTF-8"));
    const std::string who = concat("tensor ", in_quotes(one.name), ": ");
    if (!names_.insert(one.name).second) return fail(who + "the name is a duplicate");
    const OnnxType* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const OnnxType& known) { return known.number == fields.type; });
    if (type == std::end(kTypes)) {
      ignore(concat("tensor ", in_quotes(one.name), ", whose type has the number ", fields.type));
      out_.pop_back();
      return true;
    }
    one.shape.element_type = type->type;
    one.dtype = type->dtype;
    const std::optional<uint64_t> bytes = module::tensor_bytes(type->bits, one.shape.dims);
    if (!bytes) return fail(who + "its size is above 2^63-1");
    one.length = *bytes;
    return fields.is_external ? place_outside(one, fields, who) : place_inside(one, fields, *type, who);
  }

  bool place_outside(Initializer& one, const Fields& fields, const std::string& who) {
    if (fields.location.empty() || fields.location.find('\0') != std::string::npos) return fail(who + "its external data has no location");
    uint64_t end = 0;
    if (__builtin_add_overflow(fields.start, fields.length.value_or(one.length), &end) || end > static_cast<uint64_t>(INT64_MAX))
      return fail(who + "its external data ends beyond any file");
    if (fields.length && *fields.length < one.length)
      return fail(concat(who, "its external data has ", *fields.length, " bytes, and its shape needs ", one.length));
    one.location = fields.location;
    one.offset = fields.start;
    one.external_end = end;
    return true;
  }

  bool place_inside(Initializer& one, const Fields& fields, const OnnxType& type, const std::string& who) {
    uint64_t held = 0;
    const std::vector<Range>* packed = fields.type == 11 ? &fields.doubles : &fields.floats;
    const bool is_in_place = fields.raw || ((fields.type == 1 || fields.type == 11 || fields.type == 14) && packed->size() == 1);
    if (is_in_place) {
      const Range range = fields.raw ? *fields.raw : packed->front();
      one.offset = range.begin;
      held = range.size();
    } else if (fields.type == 1 || fields.type == 11 || fields.type == 14) {
      for (const Range& range : *packed) held += range.size();
      if (held == one.length && !kept(held, who)) return false;
      for (const Range& range : *packed) {
        std::string part;
        if (held != one.length || !text(range, range.size(), part)) break;
        one.values += part;
      }
    } else {
      const std::vector<Range>& ranges = fields.type == 7                         ? fields.longs
                                         : fields.type == 12 || fields.type == 13 ? fields.naturals
                                                                                  : fields.numbers;
      const uint64_t each = std::max(type.bits, 8u) / 8;
      if (one.length > 0 && !kept(one.length, who)) return false;
      if (!ranges.empty()) one.offset = ranges.front().begin;
      for (const Range& range : ranges) {
        for (uint64_t at = range.begin; at < range.end; held += each) {
          uint64_t value = 0;
          if (!varint(at, range.end, value)) return false;
          if (held >= one.length) continue;  // counted for the text below
          for (uint64_t i = 0; i < each; ++i) one.values.push_back(static_cast<char>(value >> (8 * i)));
        }
      }
    }
    if (!wrong_.empty()) return false;
    return held == one.length || fail(concat(who, "it has ", held, " bytes, and its shape needs ", one.length));
  }
  bool kept(uint64_t bytes, const std::string& who) {
    if (bytes <= kMostNumberBytes - kept_) {
      kept_ += bytes;
      return true;
    }
    return fail(
        concat(who, "it is a list of numbers, of which at most ", kMostNumberBytes, " bytes are read; save the model with raw_data"));
  }

  const module::FileView& file_;
  std::vector<Initializer>& out_;
  IgnoredInitializers& ignored_;
  std::vector<uint8_t> buffer_;
  uint64_t buffered_from_ = 0, kept_ = 0;
  std::unordered_set<std::string> names_;
  Wrong wrong_;
};

}  // namespace

Wrong read_initializers(const module::FileView& file, std::vector<Initializer>& out, IgnoredInitializers& ignored) {
  return Reader(file, out, ignored).read();
}

}  // namespace heddle::tool
