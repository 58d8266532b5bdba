// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the header of a GGUF file in order, through a small buffer. The file is untrusted: each count is compared with the bytes that are left
// before anything of that size is allocated or looped over.
#include "sdk/module/gguf.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <new>
#include <unordered_set>

#include "sdk/module/safetensors_text.h"
#include "sdk/module/utf8.h"

namespace heddle::module {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr uint64_t kBufferBytes = 64 << 10;
constexpr uint64_t kMaxKeyBytes = 65535;      // the format's limit
constexpr uint64_t kMaxTensorNameBytes = 64;  // the format's limit
constexpr uint32_t kMaxDims = 4;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxArrayDepth = 8;  // of arrays in arrays
// Longer texts, and those after this total, are not kept as metadata.
constexpr uint64_t kMaxTextBytes = 1 << 20, kMaxMetadataBytesKept = 16 << 20;
// The least bytes of a pair and of a tensor's info: empty texts, no dimension.
constexpr uint64_t kLeastPairBytes = 8 + 4 + 1, kLeastInfoBytes = 8 + 4 + 4 + 8;

// Types of values.
enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64, kValueTypes };
constexpr uint8_t kValueBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// Types of tensors by their number in the file.
struct GgufType {
  uint32_t number;
  std::string_view name;
  heddle_element_type_t type;  // undefined: a block type of that name
};
constexpr GgufType kTensorTypes[] = {
    {0, "F32", HEDDLE_TYPE_F32},
    {1, "F16", HEDDLE_TYPE_F16},
    {2, "Q4_0", HEDDLE_TYPE_UNDEFINED},
    {3, "Q4_1", HEDDLE_TYPE_UNDEFINED},
    {6, "Q5_0", HEDDLE_TYPE_UNDEFINED},
    {7, "Q5_1", HEDDLE_TYPE_UNDEFINED},
    {8, "Q8_0", HEDDLE_TYPE_UNDEFINED},
    {9, "Q8_1", HEDDLE_TYPE_UNDEFINED},
    {10, "Q2_K", HEDDLE_TYPE_UNDEFINED},
    {11, "Q3_K", HEDDLE_TYPE_UNDEFINED},
    {12, "Q4_K", HEDDLE_TYPE_UNDEFINED},
    {13, "Q5_K", HEDDLE_TYPE_UNDEFINED},
    {14, "Q6_K", HEDDLE_TYPE_UNDEFINED},
    {15, "Q8_K", HEDDLE_TYPE_UNDEFINED},
    {16, "IQ2_XXS", HEDDLE_TYPE_UNDEFINED},
    {17, "IQ2_XS", HEDDLE_TYPE_UNDEFINED},
    {18, "IQ3_XXS", HEDDLE_TYPE_UNDEFINED},
    {19, "IQ1_S", HEDDLE_TYPE_UNDEFINED},
    {20, "IQ4_NL", HEDDLE_TYPE_UNDEFINED},
    {21, "IQ3_S", HEDDLE_TYPE_UNDEFINED},
    {22, "IQ2_S", HEDDLE_TYPE_UNDEFINED},
    {23, "IQ4_XS", HEDDLE_TYPE_UNDEFINED},
    {24, "I8", HEDDLE_TYPE_I8},
    {25, "I16", HEDDLE_TYPE_I16},
    {26, "I32", HEDDLE_TYPE_I32},
    {27, "I64", HEDDLE_TYPE_I64},
    {28, "F64", HEDDLE_TYPE_F64},
    {29, "IQ1_M", HEDDLE_TYPE_UNDEFINED},
    {30, "BF16", HEDDLE_TYPE_BF16},
    {34, "TQ1_0", HEDDLE_TYPE_UNDEFINED},
    {35, "TQ2_0", HEDDLE_TYPE_UNDEFINED},
    {39, "MXFP4", HEDDLE_TYPE_UNDEFINED},
    {40, "NVFP4", HEDDLE_TYPE_UNDEFINED},
    {41, "Q1_0", HEDDLE_TYPE_UNDEFINED},
};

class GgufReader {
 public:
  GgufReader(int descriptor, uint64_t file_bytes, const std::string& path)
      : descriptor_(descriptor), file_bytes_(file_bytes), path_(path), buffer_(std::min(file_bytes, kBufferBytes)) {}

  Result<ParameterIndex> read() {
    uint64_t tensors = 0, pairs = 0;
    if (!prefix(tensors, pairs)) return *failure_;
    for (uint64_t i = 0; i < pairs; ++i) {
      if (!pair()) return *failure_;
    }
    for (uint64_t i = 0; i < tensors; ++i) {
      if (!info()) return *failure_;
    }
    if (!place()) return *failure_;
    if (const std::string* twice = sort_by_name(entries_)) {
      fail(concat("tensor ", in_quotes(*twice), ": the name is a duplicate"));
      return *failure_;
    }
    return ParameterIndex(std::move(entries_), std::move(metadata_));
  }

 private:
  bool fail(std::string_view cause) {
    failure_ = broken_index(path_, cause);
    return false;
  }
  bool unsupported(std::string_view cause) {
    failure_ = Error{HEDDLE_STATUS_UNIMPLEMENTED, concat("module: reading the index of ", in_quotes(path_), " failed: ", cause)};
    return false;
  }
  uint64_t left() const { return file_bytes_ - position_; }

  bool has(uint64_t bytes, std::string_view what) {
    if (bytes > left())
      return fail(concat("the file ends at byte ", file_bytes_, ", and ", what, " at byte ", position_, " has ", bytes, " bytes"));
    return position_ + bytes <= kMaxHeaderBytes || fail(concat("its header is longer than ", kMaxHeaderBytes, " bytes"));
  }
  // The next bytes, of which there are at most kBufferBytes.
  const uint8_t* take(uint64_t bytes, std::string_view what) {
    if (!has(bytes, what)) return nullptr;
    if (position_ < buffered_from_ || position_ + bytes > buffered_from_ + buffered_) {
      const uint64_t most = std::min<uint64_t>(buffer_.size(), left());
      if (Status failed = read_bytes(descriptor_, path_, position_, reinterpret_cast<char*>(buffer_.data()), most)) {
        failure_ = std::move(failed);
        return nullptr;
      }
      buffered_from_ = position_;
      buffered_ = most;
    }
    const uint8_t* at = buffer_.data() + (position_ - buffered_from_);
    position_ += bytes;
    return at;
  }
  bool number(uint64_t bytes, uint64_t& out, std::string_view what) {
    const uint8_t* at = take(bytes, what);
    out = 0;
    for (uint64_t i = bytes; at && i-- > 0;) out = out << 8 | at[i];
    return at != nullptr;
  }
  bool number(uint32_t& out, std::string_view what) {
    uint64_t value = 0;
    const bool good = number(4, value, what);
    out = static_cast<uint32_t>(value);
    return good;
  }
  bool skip(uint64_t bytes, std::string_view what) {
    if (!has(bytes, what)) return false;
    position_ += bytes;
    return true;
  }
  // A text of at most `most` bytes.
  bool text(uint64_t most, std::string& out, std::string_view what) {
    uint64_t bytes = 0;
    if (!number(8, bytes, what)) return false;
    if (bytes > most || bytes > left()) {
      return fail(
          concat(what, " at byte ", position_ - 8, " has ", bytes, " bytes, and at most ", std::min(most, left()), " are possible"));
    }
    out.resize(bytes);
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t now = std::min(bytes - done, kBufferBytes);
      const uint8_t* at = take(now, what);
      if (!at) return false;
      std::memcpy(out.data() + done, at, now);
      done += now;
    }
    return true;
  }

  bool prefix(uint64_t& tensors, uint64_t& pairs) {
    const uint8_t* magic = take(4, "its magic number");
    if (!magic) return false;
    if (std::memcmp(magic, kGgufMagic.data(), 4) != 0) return fail("it does not begin with GGUF");
    uint32_t version = 0;
    if (!number(version, "its version")) return false;
    if (version != 0 && (version & 0xFFFF) == 0)
      return unsupported("it is a big-endian GGUF file, and only little-endian ones are supported; convert it with gguf-convert-endian");
    if (version != 3) {
      return unsupported(concat("it is a GGUF file of version ", version, ", and only version 3 is supported; ",
                                version < 3 ? "convert the model to GGUF again" : "use a newer version of Heddle"));
    }
    if (!number(8, tensors, "the number of tensors") || !number(8, pairs, "the number of key-value pairs")) return false;
    if (pairs > left() / kLeastPairBytes)
      return fail(
          concat("it states ", pairs, " key-value pairs, and its ", file_bytes_, " bytes have room for ", left() / kLeastPairBytes));
    if (tensors > left() / kLeastInfoBytes)
      return fail(concat("it states ", tensors, " tensors, and its ", file_bytes_, " bytes have room for ", left() / kLeastInfoBytes));
    return true;
  }

  bool pair() {
    std::string key;
    if (!text(kMaxKeyBytes, key, "a key")) return false;
    if (!is_utf8_text(key)) return fail(concat("key ", in_quotes(key), ": it is not UTF-8"));
    if (!keys_.insert(key).second) return fail(concat("key ", in_quotes(key), ": it is a duplicate"));
    uint32_t type = 0;
    if (!number(type, "the type of a value")) return false;
    if (key == "general.alignment" && type != kU32) return fail(concat("general.alignment has type ", type, ", expected 4, which is u32"));
    if (type == kArray) return array(key, 0);
    if (type == kString) {
      std::string value;
      uint64_t bytes = 0;
      if (!number(8, bytes, "a text")) return false;
      if (bytes > kMaxTextBytes) return skip(bytes, "a text");
      position_ -= 8;
      if (!text(kMaxTextBytes, value, "a text")) return false;
      if (is_utf8_text(value)) keep(std::move(key), std::move(value));
      return true;
    }
    if (type >= kValueTypes)
      return fail(concat("key ", in_quotes(key), ": its value has type ", type, ", and types are below ", +kValueTypes));
    uint64_t bits = 0;
    if (!number(kValueBytes[type], bits, "a value")) return false;
    if (key == "general.alignment") {
      alignment_ = bits;
      if (!std::has_single_bit(bits) || bits % 8 != 0)
        return fail(concat("general.alignment is ", bits, ", expected a power of two from 8 on"));
    }
    if (type == kBool && bits > 1) return fail(concat("key ", in_quotes(key), ": a boolean is ", bits, ", expected 0 or 1"));
    keep(std::move(key), value_text(type, bits));
    return true;
  }

  static std::string value_text(uint32_t type, uint64_t bits) {
    switch (type) {
      case kBool:
        return bits ? "true" : "false";
      case kI8:
        return std::to_string(static_cast<int8_t>(bits));
      case kI16:
        return std::to_string(static_cast<int16_t>(bits));
      case kI32:
        return std::to_string(static_cast<int32_t>(bits));
      case kI64:
        return std::to_string(static_cast<int64_t>(bits));
      case kF32:
      case kF64: {
        char text[40];
        const auto end = type == kF32 ? std::to_chars(text, text + sizeof(text), std::bit_cast<float>(static_cast<uint32_t>(bits)))
                                      : std::to_chars(text, text + sizeof(text), std::bit_cast<double>(bits));
        return std::string(text, end.ptr);
      }
      default:
        return std::to_string(bits);
    }
  }

  void keep(std::string&& key, std::string&& value) {
    kept_bytes_ += key.size() + value.size();
    if (kept_bytes_ <= kMaxMetadataBytesKept) metadata_.emplace_back(std::move(key), std::move(value));
  }

  bool array(const std::string& key, uint32_t depth) {
    uint32_t type = 0;
    uint64_t count = 0;
    if (!number(type, "the type of an array") || !number(8, count, "the size of an array")) return false;
    if (type >= kValueTypes)
      return fail(concat("key ", in_quotes(key), ": its array has type ", type, ", and types are below ", +kValueTypes));
    if (type == kArray && depth == kMaxArrayDepth)
      return fail(concat("key ", in_quotes(key), ": arrays nest deeper than ", kMaxArrayDepth));
    // A text has at least its size, an array its type and size.
    const uint64_t least = type == kString ? 8 : type == kArray ? 12 : kValueBytes[type];
    if (count > left() / least) {
      return fail(concat("key ", in_quotes(key), ": its array states ", count, " values, and the file has room for ", left() / least));
    }
    if (type != kString && type != kArray) return skip(count * least, "an array");
    for (uint64_t i = 0; i < count; ++i) {
      if (type == kArray) {
        if (!array(key, depth + 1)) return false;
        continue;
      }
      uint64_t bytes = 0;
      if (!number(8, bytes, "a text") || !skip(bytes, "a text")) return false;
    }
    return true;
  }

  bool info() {
    ParameterEntry& entry = entries_.emplace_back();
    if (!text(kMaxTensorNameBytes, entry.name, "a tensor's name")) return false;
    const std::string who = concat("tensor ", in_quotes(entry.name), ": ");
    if (!is_utf8_text(entry.name)) return fail(who + "its name is not UTF-8");
    uint32_t rank = 0, number_of_type = 0;
    if (!number(rank, "the rank of a tensor")) return false;
    if (rank > kMaxDims) return fail(who + concat("it has ", rank, " dimensions, and at most ", kMaxDims, " are possible"));
    uint64_t elements = 1;
    bool is_empty = false;
    for (uint32_t i = 0; i < rank; ++i) {
      uint64_t extent = 0;
      if (!number(8, extent, "an extent")) return false;
      if (extent > static_cast<uint64_t>(INT64_MAX)) return fail(who + concat("an extent is ", extent, ", above 2^63-1"));
      is_empty = is_empty || extent == 0;
      entry.dims.push_back(static_cast<int64_t>(extent));
    }
    for (int64_t extent : entry.dims) {
      if (!is_empty && __builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements))
        return fail(who + "the product of its extents is above 2^64-1");
    }
    if (is_empty) elements = 0;
    if (!number(number_of_type, "the type of a tensor") || !number(8, entry.offset, "the offset of a tensor")) return false;
    const auto* type =
        std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes), [&](const GgufType& one) { return one.number == number_of_type; });
    if (type == std::end(kTensorTypes)) {
      return unsupported(who + concat("its type has the number ", number_of_type,
                                      ", which this version does not know; convert the model to another type, such as Q4_K"));
    }
    entry.dtype = type->name;
    entry.element_type = type->type;
    uint64_t per_block = 1, bytes = HEDDLE_TYPE_BITS(type->type) / 8;
    if (type->type == HEDDLE_TYPE_UNDEFINED) {
      entry.block = block_type(type->name);
      per_block = entry.block->elements;
      bytes = entry.block->bytes;
      const uint64_t fastest = rank ? static_cast<uint64_t>(entry.dims[0]) : 1;
      if (fastest % per_block != 0)
        return fail(who + concat("its first extent is ", fastest, ", and blocks of ", type->name, " have ", per_block, " elements"));
    }
    if (__builtin_mul_overflow(elements / per_block, bytes, &entry.length)) return fail(who + "its size in bytes is above 2^64-1");
    std::reverse(entry.dims.begin(), entry.dims.end());
    return true;
  }

  // Checks the offsets, which are relative to the data, and makes them absolute. Tensors are in the order of the file, each padded.
  bool place() {
    const uint64_t padding = (alignment_ - position_ % alignment_) % alignment_;
    uint64_t next = 0;
    if (entries_.empty()) return true;
    if (padding > left()) return fail(concat("the file ends at byte ", file_bytes_, ", before the data of its tensors"));
    const uint64_t begin = position_ + padding, data = file_bytes_ - begin;
    for (ParameterEntry& entry : entries_) {
      const std::string who = concat("tensor ", in_quotes(entry.name), ": ");
      if (entry.offset != next) return fail(who + concat("it begins at data byte ", entry.offset, ", expected ", next));
      if (entry.offset > data || entry.length > data - entry.offset) {
        return fail(who +
                    concat("its ", entry.length, " bytes from byte ", begin, "+", entry.offset, " on are beyond the file's ", file_bytes_));
      }
      next += entry.length;  // at most `data`
      const uint64_t rest = next % alignment_;
      if (rest && __builtin_add_overflow(next, alignment_ - rest, &next)) return fail(who + "the offset after it is above 2^64-1");
      entry.offset += begin;
    }
    return true;
  }

  const int descriptor_;
  const uint64_t file_bytes_;
  const std::string& path_;
  std::vector<uint8_t> buffer_;
  uint64_t position_ = 0, buffered_from_ = 0, buffered_ = 0;
  uint64_t alignment_ = kDefaultAlignment, kept_bytes_ = 0;
  std::unordered_set<std::string> keys_;
  std::vector<ParameterEntry> entries_;
  ParameterMetadata metadata_;
  Status failure_;
};

}  // namespace

Result<ParameterIndex> read_gguf_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  return GgufReader(descriptor, file_bytes, path).read();
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading a GGUF index failed: out of memory; free memory"};
}

}  // namespace heddle::module
