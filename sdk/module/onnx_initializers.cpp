// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// onnx.proto: ModelProto.graph is field 7, GraphProto.initializer 5 and sparse_initializer 15, the fields of TensorProto are below. The file is
// untrusted: every length is compared with the bytes that are left of the message around it.
#include "sdk/module/onnx_initializers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <new>

#include "sdk/module/element_types.h"
#include "sdk/module/file_view.h"
#include "sdk/module/safetensors_text.h"
#include "sdk/module/safetensors_types.h"
#include "sdk/module/utf8.h"

namespace heddle::module {
namespace {

constexpr uint64_t kReadBytes = 16384;  // at once, and of a text
constexpr size_t kMostInitializers = 1'000'000, kMostExternalFiles = 4096, kMostExtents = 64;
constexpr uint64_t kMostNumberBytes = uint64_t{256} << 20;  // of all lists of numbers whose values are kept in memory

// By the number of the type: its name here, or in safetensors if Heddle has no such type.
constexpr char kOnnxTypes[][12] = {"",    "f32", "u8",     "i8",  "u16", "i16",  "i32",    "i64",         "",       "bool",        "f16",
                                   "f64", "u32", "u64",    "C64", "",    "bf16", "f8e4m3", "F8_E4M3FNUZ", "f8e5m2", "F8_E5M2FNUZ", "u4",
                                   "i4",  "F4",  "F8_E8M0"};

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
// Of TensorProto.
enum : uint32_t {
  kDims = 1,
  kDataType = 2,
  kFloats = 4,
  kIntegers = 5,
  kLongs = 7,
  kName = 8,
  kRaw = 9,
  kDoubles = 10,
  kNaturals = 11,
  kExternal = 13,
  kLocation = 14
};

struct Field {
  uint32_t number = 0, wire = 0;
  uint64_t begin = 0, end = 0;  // what is behind the tag and the length
  uint64_t value = 0;           // of a number
  uint64_t size() const { return end - begin; }
};

class OnnxReader {
 public:
  OnnxReader(int descriptor, uint64_t file_bytes, const std::string& path)
      : descriptor_(descriptor), file_bytes_(file_bytes), path_(path) {}

  Result<ParameterIndex> read() {
    bool has_graph = false;
    Field field;
    for (uint64_t at = 0; next(at, file_bytes_, field);) {
      if (field.number != 7) continue;
      has_graph = true;
      if (is_bytes(field)) graph(field);
    }
    if (!failure_ && !has_graph) fail("it has no graph");
    const std::string* twice = failure_ ? nullptr : sort_by_name(entries_);
    if (twice) {
      who_ = *twice;
      fail("the name is a duplicate");
    }
    if (failure_) return *failure_;
    if (left_out_count_ > 0)
      left_out_ = concat(left_out_count_, " initializers have types that are not read and are left out; the first is ", left_out_);
    return ParameterIndex(std::move(entries_), {}, std::move(files_), std::move(left_out_));
  }

 private:
  bool fail(std::string_view cause) {
    if (!failure_) failure_ = broken_index(path_, who_.empty() ? std::string(cause) : concat("tensor ", in_quotes(who_), ": ", cause));
    return false;
  }
  bool fail_at(uint64_t at, std::string_view cause) { return fail(concat("at byte ", at, ": ", cause)); }
  bool is_bytes(const Field& field) {
    return field.wire == kLength || fail_at(field.begin, concat("field ", field.number, " is not a text, bytes or a message"));
  }

  // `size` bytes of the file, which are in it and at most kReadBytes. Null if they cannot be read.
  const char* bytes(uint64_t at, uint64_t size) {
    if (at < buffered_from_ || at + size > buffered_from_ + buffer_.size()) {
      buffer_.resize(std::min(kReadBytes, file_bytes_ - at));
      buffered_from_ = at;
      if ((failure_ = read_bytes(descriptor_, path_, at, buffer_.data(), buffer_.size()))) return nullptr;
    }
    return buffer_.data() + (at - buffered_from_);
  }
  // The number from `at` on, which is advanced.
  bool varint(uint64_t& at, uint64_t end, uint64_t& out) {
    out = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7, ++at) {
      if (at >= end) return fail_at(at, "it is truncated or damaged");
      const char* next = bytes(at, 1);
      if (!next) return false;
      const auto byte = static_cast<uint8_t>(*next);
      if (shift < 64) out |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return ++at, true;
    }
    return fail_at(at, "a number has more than 10 bytes");
  }
  // The next field of a message that ends at `end`. False behind the last one, and if something failed.
  bool next(uint64_t& at, uint64_t end, Field& field) {
    uint64_t tag = 0;
    if (failure_ || at >= end || !varint(at, end, tag)) return false;
    field = {static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7), at, at, 0};
    uint64_t bytes = field.wire == kFixed32 ? 4 : 8;
    if (field.wire == kVarint) {
      if (!varint(at, end, field.value)) return false;
      bytes = at - field.begin;
    } else if (field.wire == kLength) {
      if (!varint(at, end, bytes)) return false;
      field.begin = at;
    } else if (field.wire != kFixed32 && field.wire != kFixed64) {
      return fail_at(at, concat("a field has the unknown kind ", field.wire));
    }
    if (bytes > end - field.begin) return fail_at(at, concat("a field has ", bytes, " bytes, and ", end - field.begin, " are left"));
    if (field.number == 0 || tag >> 32 != 0) return fail_at(at, "a field has no valid number");
    field.end = at = field.begin + bytes;
    return true;
  }
  bool text(const Field& field, std::string& out) {
    if (!is_bytes(field)) return false;
    if (field.size() > kReadBytes) return fail_at(field.begin, "a text has more than 16384 bytes");
    const char* from = bytes(field.begin, field.size());
    if (from) out.assign(from, field.size());
    return from;
  }

  void leave_out(const std::string& what) {
    if (left_out_count_++ == 0) left_out_ = what;
  }
  void graph(const Field& graph) {
    Field field;
    for (uint64_t at = graph.begin; next(at, graph.end, field);) {
      if (field.number == 15) leave_out("a sparse tensor");
      if (field.number != 5) continue;
      if (entries_.size() == kMostInitializers) fail("it has more than 1000000 initializers");
      if (is_bytes(field)) tensor(field);
    }
  }

  static constexpr std::string_view kKeys[] = {"location", "offset", "length"};
  using External = std::string[std::size(kKeys)];
  // One key of external data, with its value.
  bool external(const Field& message, External& out) {
    std::string pair[2];
    Field field;
    for (uint64_t at = message.begin; next(at, message.end, field);) {
      if (field.number <= 2 && !text(field, pair[field.number - 1])) return false;
    }
    for (size_t i = 0; i < std::size(kKeys); ++i) {
      if (pair[0] == kKeys[i]) out[i] = std::move(pair[1]);
    }
    return !failure_;
  }

  bool tensor(const Field& message) {
    ParameterEntry entry;
    External outside;
    Field field, raw;
    uint64_t type = 0;
    bool is_outside = false;
    for (uint64_t at = message.begin; next(at, message.end, field);) {
      if (field.number == kDims && (field.wire == kVarint || field.wire == kLength)) {
        for (uint64_t from = field.begin, extent = 0; from < field.end;) {
          if (!varint(from, field.end, extent)) return false;
          if (extent > static_cast<uint64_t>(INT64_MAX) || entry.dims.size() == kMostExtents)
            return fail_at(from, "the shape of an initializer has a negative extent or too many");
          entry.dims.push_back(static_cast<int64_t>(extent));
        }
      }
      if (field.number == kDataType) type = field.value;
      if (field.number == kName) text(field, entry.name);
      if (field.number == kRaw && is_bytes(field)) raw = field;
      if (field.number == kExternal && is_bytes(field)) external(field, outside);
      if (field.number == kLocation) is_outside = field.value == 1;
    }
    if (failure_) return false;
    if (entry.name.empty() || !is_utf8_text(entry.name))
      return fail_at(message.begin, "the initializer has no name, or one that is not UTF-8");
    entry.dtype = type < std::size(kOnnxTypes) ? kOnnxTypes[type] : "";
    if (entry.dtype.empty()) {
      leave_out(concat("tensor ", in_quotes(entry.name), ", whose type has the number ", type));
      return true;
    }
    entry.element_type = element_type_from_name(entry.dtype);
    const uint32_t bits =
        entry.element_type == HEDDLE_TYPE_UNDEFINED ? safetensors_type(entry.dtype)->bits : HEDDLE_TYPE_BITS(entry.element_type);
    who_ = entry.name;
    const std::optional<uint64_t> bytes = tensor_bytes(bits, entry.dims);
    if (!bytes) return fail("its size is above 2^63-1");
    entry.length = *bytes;
    uint64_t held = raw.size();
    if (is_outside) {
      if (!place_outside(entry, outside, held)) return false;
    } else if (raw.begin > 0) {
      entry.offset = raw.begin;
    } else if (!list(message, bits, entry, held)) {
      return false;
    }
    if (is_outside ? held < entry.length : held != entry.length)
      return fail(concat(is_outside ? "its external data" : "it", " has ", held, " bytes, and its shape needs ", entry.length));
    entries_.push_back(std::move(entry));
    who_.clear();
    return true;
  }

  // `bytes`: those that the model names.
  bool place_outside(ParameterEntry& entry, const External& outside, uint64_t& bytes) {
    const std::string& location = outside[0];
    bytes = entry.length;
    if (location.empty() || location.find('\0') != std::string::npos) return fail("its external data has no location");
    if (!natural(outside, 1, entry.offset) || !natural(outside, 2, bytes)) return false;
    uint64_t end = 0;
    if (__builtin_add_overflow(entry.offset, bytes, &end) || end > static_cast<uint64_t>(INT64_MAX))
      return fail("its external data ends beyond any file");
    if (entry.length == 0) return entry.offset = 0, true;
    const auto at = std::lower_bound(by_location_.begin(), by_location_.end(), location,
                                     [&](uint32_t file, const std::string& location) { return files_[file].location < location; });
    entry.file = static_cast<uint32_t>(files_.size());
    if (at != by_location_.end() && files_[*at].location == location) {
      entry.file = *at;
    } else {
      if (files_.size() == kMostExternalFiles) return fail("external data is in more than 4096 files");
      by_location_.insert(at, entry.file);
      files_.push_back({location, 0, {}});
    }
    ExternalFile& file = files_[entry.file++];
    if (end > file.end) {
      file.end = end;
      file.last = entry.name;
    }
    return true;
  }
  // Leaves `out` as it is if the model does not have the text.
  bool natural(const External& outside, size_t key, uint64_t& out) {
    const std::string& text = outside[key];
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, out);
    return text.empty() || (error == std::errc() && end == last) ||
           fail(concat("external ", kKeys[key], " ", in_quotes(text), " is not a number"));
  }

  // A list of numbers: floats in one piece stay in the file; all else is kept. Numbers in int32_data and uint64_data have the type's bytes.
  bool list(const Field& message, uint32_t bits, ParameterEntry& entry, uint64_t& held) {
    const heddle_element_type_t type = entry.element_type;
    const bool is_float = type == HEDDLE_TYPE_F32 || entry.dtype == "C64", is_double = type == HEDDLE_TYPE_F64;
    const uint32_t wanted = is_float                                             ? kFloats
                            : is_double                                          ? kDoubles
                            : type == HEDDLE_TYPE_I64                            ? kLongs
                            : type == HEDDLE_TYPE_U32 || type == HEDDLE_TYPE_U64 ? kNaturals
                                                                                 : kIntegers;
    Field field;
    for (uint64_t at = message.begin; next(at, message.end, field);) {
      if (field.number != wanted || field.size() == 0) continue;
      if (held == 0) entry.offset = field.begin;
      if (is_float || is_double) {
        const bool is_part = held > 0 || field.size() != entry.length;
        held += field.size();
        if (!is_part || held > entry.length) continue;
        if (!kept(field.size())) return false;
        entry.pattern.resize(held);
        failure_ = read_bytes(descriptor_, path_, field.begin, entry.pattern.data() + held - field.size(), field.size());
        continue;
      }
      for (uint64_t from = field.begin, value = 0; from < field.end;) {
        if (!varint(from, field.end, value)) return false;
        for (uint32_t shift = 0; shift < bits; shift += 8, ++held) {
          if (held >= entry.length) continue;  // counted for the text of the error
          if (!kept(1)) return false;
          entry.pattern.push_back(static_cast<char>(value >> shift));
        }
      }
    }
    return !failure_;
  }
  bool kept(uint64_t bytes) {
    kept_ += bytes;
    return kept_ <= kMostNumberBytes || fail("it is a list of numbers, of which at most 256 MiB are read; save the model with raw_data");
  }

  const int descriptor_;
  const uint64_t file_bytes_;
  const std::string& path_;
  std::vector<ParameterEntry> entries_;
  std::vector<ExternalFile> files_;
  std::vector<uint32_t> by_location_;  // files_, sorted
  std::string buffer_;
  uint64_t buffered_from_ = 0, kept_ = 0, left_out_count_ = 0;
  std::string left_out_;
  std::string who_;  // the tensor that errors are about, or empty
  Status failure_;
};

}  // namespace

bool is_onnx(std::string_view first) {
  return first.size() >= 3 && first[0] == 8 && first[1] > 0 && first[1] < 64 && (first[2] & 7) % 2 == 0 && first[2] > 8 && first[2] < 0x78;
}

Result<ParameterIndex> read_onnx_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  return OnnxReader(descriptor, file_bytes, path).read();
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading the initializers of an ONNX model failed: out of memory; free memory"};
}

Result<int> open_external(const std::string& path, const ExternalFile& file) {
  const auto wrong = [&](heddle_status_code_t code, const std::string& cause) {
    return Error{code, concat("module: opening the external data ", in_quotes(file.location), " of ", in_quotes(path), " failed: ", cause)};
  };
  if (is_descriptor_path(path))
    return wrong(HEDDLE_STATUS_INVALID_ARGUMENT,
                 "it is in the model's directory, and a descriptor or memory has none; give the path of the model");
  const int descriptor = open_beside(path, file.location);
  if (descriptor < 0) return wrong(errno == ENOENT ? HEDDLE_STATUS_NOT_FOUND : HEDDLE_STATUS_PERMISSION_DENIED, why_not_beside(errno));
  struct stat facts{};
  std::string cause;
  if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    cause = "it is not a regular file";
  } else if (static_cast<uint64_t>(facts.st_size) < file.end) {
    cause = concat("tensor ", in_quotes(file.last), " would end at byte ", file.end, ", and the file has ", facts.st_size);
  }
  if (cause.empty()) return descriptor;
  close(descriptor);
  return wrong(HEDDLE_STATUS_DATA_LOSS, cause + "; copy the file or export the model again");
}

}  // namespace heddle::module
