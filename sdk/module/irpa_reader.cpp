// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the headers and entries of an IRPA file, which is untrusted: every range is checked against the file before it is used, and a header refers
// only to one after it, so there is no cycle. Fields are little-endian and packed.
#include "sdk/module/irpa.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <new>

#include "sdk/module/element_types.h"
#include "sdk/module/layout.h"
#include "sdk/module/safetensors_text.h"
#include "sdk/module/safetensors_types.h"
#include "sdk/module/utf8.h"

namespace heddle::module {
namespace {

constexpr uint64_t kPrefixBytes = 32, kHeaderBytes = 88, kEntryHeaderBytes = 60, kSplatBytes = 85, kDataBytes = 76;
constexpr uint64_t kEntryAlignment = 16;
enum : uint32_t { kSkip = 0, kSplat = 1, kData = 2, kExternal = 3 };
constexpr uint64_t kMaxHeaders = 65536, kMaxTableBytes = 100'000'000, kMaxNameBytes = 65535;

struct Range {
  uint64_t offset = 0, length = 0;
};

uint64_t field(const std::string& bytes, uint64_t at, uint64_t count) {
  uint64_t value = 0;
  for (uint64_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}
Range range_at(const std::string& bytes, uint64_t at) {
  return {field(bytes, at, 8), field(bytes, at + 8, 8)};
}

// "f32[2,3]", or "C64[2,3]" for a type that only safetensors has; false for any other text, also for a size that is not `length`.
bool parse_type(std::string_view text, uint64_t length, ParameterEntry& entry) {
  const size_t open = text.find('[');
  if (open == text.npos || text.back() != ']') return false;
  const heddle_element_type_t type = element_type_from_name(text.substr(0, open));
  std::vector<int64_t> dims;
  const char *at = text.data() + open + 1, *end = text.data() + text.size() - 1;
  while (at != end) {
    int64_t extent = 0;
    const auto [next, failed] = std::from_chars(at, end, extent);
    if (failed != std::errc() || extent < 0 || dims.size() == 64) return false;
    dims.push_back(extent);
    if (next != end && (*next != ',' || next + 1 == end)) return false;
    at = next == end ? end : next + 1;
  }
  const SafetensorsType* other = type == HEDDLE_TYPE_UNDEFINED ? safetensors_type(text.substr(0, open)) : nullptr;
  const uint32_t bits = other ? other->bits : HEDDLE_TYPE_BITS(type);
  if (bits == 0 || (other && other->type != HEDDLE_TYPE_UNDEFINED) || tensor_bytes(bits, dims) != length) return false;
  entry.element_type = type;
  entry.dtype = other ? other->name : element_type_name(type);
  entry.dims = std::move(dims);
  return true;
}

class IrpaReader {
 public:
  IrpaReader(int descriptor, uint64_t file_bytes, const std::string& path)
      : descriptor_(descriptor), file_bytes_(file_bytes), path_(path) {}

  Result<ParameterIndex> read() {
    uint64_t headers = 0;
    for (uint64_t at = 0, next = 0;; at = next) {
      if (++headers > kMaxHeaders) {
        fail(concat("it has more than ", kMaxHeaders, " headers"));
        return *failure_;
      }
      if (!header(at, next)) return *failure_;
      if (next == 0) break;
      if (__builtin_add_overflow(at, next, &next) || next >= file_bytes_) {
        fail(concat("the header at byte ", at, " refers to one beyond the file's ", file_bytes_));
        return *failure_;
      }
    }
    if (const std::string* twice = sort_by_name(entries_)) {
      fail(concat("entry ", in_quotes(*twice), ": the name is a duplicate"));
      return *failure_;
    }
    return ParameterIndex(std::move(entries_), {});
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
  // `bytes` from `at` on, as far as they are in the file.
  bool get(uint64_t at, uint64_t bytes, std::string& out, std::string_view what) {
    if (at > file_bytes_ || bytes > file_bytes_ - at)
      return fail(concat(what, ": its ", bytes, " bytes from byte ", at, " on are beyond the file's ", file_bytes_));
    out.resize(bytes);
    failure_ = read_bytes(descriptor_, path_, at, out.data(), bytes);
    return !failure_;
  }
  // Makes a segment absolute.
  bool place(uint64_t header, Range& segment, std::string_view what) {
    if (segment.length == 0) {
      segment.offset = 0;
    } else if (segment.offset < kHeaderBytes) {
      return fail(concat(what, " of the header at byte ", header, " begins in it, at its byte ", segment.offset));
    }
    if (__builtin_add_overflow(header, segment.offset, &segment.offset) || segment.offset > file_bytes_ ||
        segment.length > file_bytes_ - segment.offset) {
      return fail(concat(what, " of the header at byte ", header, " has ", segment.length, " bytes, which are not all in the file's ",
                         file_bytes_));
    }
    return true;
  }

  bool header(uint64_t at, uint64_t& next) {
    std::string bytes;
    const std::string who = concat("the header at byte ", at);
    if (at % kEntryAlignment != 0) return fail(who + " is not at a multiple of 16");
    if (!get(at, kPrefixBytes, bytes, who)) return false;
    if (bytes.substr(0, 4) != kIrpaMagic) return fail(who + " does not begin with IRPA");
    const uint64_t major = field(bytes, 4, 2), minor = field(bytes, 6, 2), size = field(bytes, 8, 8);
    next = field(bytes, 16, 8);
    if (major != 0 || minor != 0)
      return unsupported(concat("it is an IRPA file of version ", major, ".", minor,
                                ", and only version 0.0 is supported; write it again with iree-convert-parameters"));
    if (size != kHeaderBytes) return fail(concat(who, " has ", size, " bytes, and version 0 has ", kHeaderBytes));
    if (!get(at, kHeaderBytes, bytes, who)) return false;
    const uint64_t count = field(bytes, 32, 8);
    Range table = range_at(bytes, 40);
    metadata_ = range_at(bytes, 56);
    storage_ = range_at(bytes, 72);
    if (!place(at, table, "the table of entries") || !place(at, metadata_, "the metadata") || !place(at, storage_, "the data"))
      return false;
    if (count > table.length / kEntryHeaderBytes)
      return fail(concat(who, " states ", count, " entries, and its table has ", table.length, " bytes"));
    table_bytes_ += table.length;
    if (table_bytes_ > kMaxTableBytes) return fail(concat("its tables of entries are longer than ", kMaxTableBytes, " bytes"));
    if (!get(table.offset, table.length, bytes, "the table of entries")) return false;
    uint64_t position = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (!entry(bytes, table.offset, position)) return false;
    }
    return true;
  }

  // A text of the metadata.
  bool text(const std::string& who, Range range, uint64_t most, std::string& out) {
    if (range.offset > metadata_.length || range.length > metadata_.length - range.offset)
      return fail(concat(who, "bytes [", range.offset, ", +", range.length, ") of the metadata are beyond its ", metadata_.length));
    if (range.length > most) return fail(concat(who, "its name has ", range.length, " bytes, and at most ", most, " are supported"));
    return get(metadata_.offset + range.offset, range.length, out, "the metadata");
  }

  bool entry(const std::string& table, uint64_t table_offset, uint64_t& position) {
    const uint64_t begin = position, left = table.size() - begin;
    std::string who = concat("the entry at byte ", table_offset + begin, ": ");
    const uint64_t size = left < kEntryHeaderBytes ? 0 : field(table, begin, 8);
    if (size < kEntryHeaderBytes || size > left) return fail(concat(who, "it has ", size, " bytes, and ", left, " are left of the table"));
    position += std::min(align_up(size, kEntryAlignment), left);
    const uint64_t type = field(table, begin + 8, 4);
    if (type == kSkip) return true;
    if (type > kExternal) return unsupported(concat(who, "its type ", type, " is not known; use a newer version of Heddle"));
    ParameterEntry out;
    if (!text(who, range_at(table, begin + 20), kMaxNameBytes, out.name)) return false;
    who = concat("entry ", in_quotes(out.name), ": ");
    if (!is_utf8_text(out.name)) return fail(who + "its name is not UTF-8");
    if (type == kExternal) return unsupported(who + "its data is in another file; combine them with iree-convert-parameters");
    if (size < (type == kSplat ? kSplatBytes : kDataBytes)) return fail(concat(who, "its ", size, " bytes are too few for its type"));
    const uint64_t own = begin + kEntryHeaderBytes;
    if (type == kSplat) {
      const uint64_t pattern = static_cast<uint8_t>(table[own + 24]);
      out.length = field(table, own, 8);
      out.offset = table_offset + own + 8;
      if (pattern > 16 || !std::has_single_bit(pattern))
        return fail(concat(who, "its pattern has ", pattern, " bytes, expected 1, 2, 4, 8 or 16"));
      if (out.length % pattern != 0 || out.length > static_cast<uint64_t>(INT64_MAX))
        return fail(concat(who, "its ", out.length, " bytes are no multiple of its pattern's ", pattern, ", or above 2^63-1"));
      out.pattern = table.substr(own + 8, pattern);
    } else {
      const Range data = range_at(table, own);
      if (data.offset > storage_.length || data.length > storage_.length - data.offset) {
        return fail(concat(who, "its ", data.length, " bytes from byte ", data.offset, " on are beyond the segment of data, which has ",
                           storage_.length));
      }
      out.offset = storage_.offset + data.offset;
      out.length = data.length;
    }
    const Range metadata = range_at(table, begin + 36);
    std::string described;
    if (metadata.length > 0 && metadata.length <= 1024 && !text(who, metadata, 1024, described)) return false;
    if (described.empty() || !parse_type(described, out.length, out)) {
      out.is_untyped = true;
      out.element_type = HEDDLE_TYPE_U8;
      out.dims = {static_cast<int64_t>(out.length)};
      out.dtype = element_type_name(out.element_type);
    }
    entries_.push_back(std::move(out));
    return true;
  }

  const int descriptor_;
  const uint64_t file_bytes_;
  const std::string& path_;
  Range metadata_, storage_;  // of the current header, from the start of the file
  uint64_t table_bytes_ = 0;
  std::vector<ParameterEntry> entries_;
  Status failure_;
};

}  // namespace

Result<ParameterIndex> read_irpa_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  return IrpaReader(descriptor, file_bytes, path).read();
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading an IRPA index failed: out of memory; free memory"};
}

}  // namespace heddle::module
