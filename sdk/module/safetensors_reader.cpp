// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and checks the header of a safetensors file. The file is untrusted until it is checked.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <unordered_set>

#include "sdk/module/element_types.h"
#include "sdk/module/json.h"
#include "sdk/module/parameter_formats.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/safetensors_text.h"
#include "sdk/module/safetensors_types.h"

namespace heddle::module {

[[gnu::cold]] Error broken_index(const std::string& path, std::string_view cause) {
  return {HEDDLE_STATUS_DATA_LOSS,
          concat("module: reading the index of ", in_quotes(path), " failed: ", cause, "; write or copy the file again")};
}

Status read_bytes(int descriptor, const std::string& path, uint64_t offset, char* out, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = pread(descriptor, out + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return Error{HEDDLE_STATUS_UNAVAILABLE,
                   concat("module: reading ", in_quotes(path), " failed: ", std::strerror(errno), "; check its disk")};
    if (got == 0) return broken_index(path, concat("the file ends at byte ", offset + done, ", its header at ", offset + bytes));
    done += static_cast<uint64_t>(got);
  }
  return std::nullopt;
}

Status read_json(int descriptor, const std::string& path, uint64_t offset, uint64_t bytes, std::string& out) {
  out.resize(bytes);
  if (Status failed = read_bytes(descriptor, path, offset, out.data(), bytes)) return failed;
  size_t wrong = 0;
  if (is_json(out, 16, &wrong)) return std::nullopt;  // the expected JSON is three levels deep
  return broken_index(path, wrong == bytes ? std::string("header: it is not complete, or not UTF-8")
                                           : concat("header: it is not JSON from its byte ", wrong, " on, or nests too deep"));
}

namespace {

// "tensor 'a': the name is a duplicate"
[[gnu::cold]] std::string duplicate(const std::string& name) {
  return concat("tensor ", in_quotes(name), ": the name is a duplicate");
}

// `__metadata__`: an object of strings. Returns an error text, empty on success. Rarely large, so optimized for size.
[[gnu::cold]] std::string read_string_map(JsonReader& reader, SafetensorsMetadata& out) {
  constexpr std::string_view kNoStrings = "'__metadata__' is not an object of strings";
  if (!reader.enter('{')) return std::string(kNoStrings);
  std::unordered_set<std::string> names;
  while (reader.more()) {
    std::string name = reader.key(), text;
    if (!reader.text(text)) return std::string(kNoStrings);
    if (!names.insert(name).second) return concat("key ", in_quotes(name), " of '__metadata__' is a duplicate");
    out.emplace_back(std::move(name), std::move(text));
  }
  return {};
}

// Fills in dtype, dims, offset and length (still relative to the data); returns an error text, empty on success.
std::string read_entry(JsonReader& reader, SafetensorsEntry& entry) {
  if (!reader.enter('{')) return "it is not an object";
  bool has_dtype = false, has_shape = false, has_offsets = false;
  uint64_t begin = 0, end = 0;
  while (reader.more()) {
    const std::string key = reader.key();
    if (key == "dtype") {
      if (has_dtype || !reader.text(entry.dtype)) return "dtype is not one string";
      has_dtype = true;
    } else if (key == "shape") {
      if (has_shape || !reader.enter('[')) return "shape is not one array";
      while (reader.more()) {
        uint64_t extent = 0;
        if (!reader.natural(extent) || extent > static_cast<uint64_t>(INT64_MAX)) return "shape holds something that is not a size";
        entry.dims.push_back(static_cast<int64_t>(extent));
      }
      has_shape = true;
    } else if (key == "data_offsets") {
      const bool is_pair = !has_offsets && reader.enter('[') && reader.more() && reader.natural(begin) && reader.more() &&
                           reader.natural(end) && !reader.more();
      if (!is_pair) return "data_offsets is not one array of two offsets";
      has_offsets = true;
    } else {
      return concat("key ", in_quotes(key), " is not known");
    }
  }
  if (!has_dtype || !has_shape || !has_offsets) return "dtype, shape or data_offsets is missing";
  const SafetensorsType* type = safetensors_type(entry.dtype);
  if (type == nullptr) return concat("dtype ", in_quotes(entry.dtype), " is not known");
  entry.element_type = type->type;
  // The format counts in bits and requires whole bytes: 3 values of 4 bits are refused, not rounded.
  uint64_t elements = 1, bits = 0;
  const bool empty = std::find(entry.dims.begin(), entry.dims.end(), 0) != entry.dims.end();
  for (int64_t extent : entry.dims) {
    if (!empty && __builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements)) return "its shape overflows";
  }
  if (empty) elements = 0;
  if (__builtin_mul_overflow(elements, uint64_t{type->bits}, &bits)) return "its shape overflows";
  if (bits % 8 != 0) return concat("its ", bits, " bits are not whole bytes");
  if (begin > end || end - begin != bits / 8) {
    return concat("data_offsets [", begin, ", ", end, "] do not fit ", bits / 8, " bytes of its shape and dtype");
  }
  entry.offset = begin;
  entry.length = end - begin;
  return {};
}

}  // namespace

Result<SafetensorsIndex> read_safetensors_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  if (file_bytes < 8) return broken_index(path, concat("the file has ", file_bytes, " bytes, its size field alone has 8"));
  uint8_t prefix[8];
  if (Status failed = read_bytes(descriptor, path, 0, reinterpret_cast<char*>(prefix), 8)) return *failed;
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | prefix[i];
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    if (const std::string_view other = other_format({reinterpret_cast<const char*>(prefix), 8}); !other.empty())
      return Error{HEDDLE_STATUS_INVALID_ARGUMENT, concat("module: reading ", in_quotes(path), " failed: it is ", other)};
    return Error{HEDDLE_STATUS_DATA_LOSS,
                 concat("module: reading the index of ", in_quotes(path), " failed: header of ", header_bytes, " bytes is above ",
                        kMaxSafetensorsHeaderBytes, "; give a file of a format that is read: safetensors, GGUF, IRPA, .npz, .npy or ONNX")};
  }
  if (header_bytes > file_bytes - 8)
    return broken_index(path, concat("header of ", header_bytes, " bytes is beyond the file's ", file_bytes));

  std::string json;
  if (Status failed = read_json(descriptor, path, 8, header_bytes, json)) return *failed;
  JsonReader reader(json);
  if (!reader.enter('{')) return broken_index(path, "header: it is not an object");

  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
  entries.reserve(json.size() / 80);  // about the text of one tensor
  bool has_metadata = false;
  while (reader.more()) {
    SafetensorsEntry entry;
    entry.name = reader.key();
    if (entry.name == "__metadata__") {
      if (has_metadata) return broken_index(path, "header: '__metadata__' is a duplicate key");
      if (const std::string wrong = read_string_map(reader, metadata); !wrong.empty()) return broken_index(path, "header: " + wrong);
      has_metadata = true;
      continue;
    }
    if (const std::string wrong = read_entry(reader, entry); !wrong.empty())
      return broken_index(path, concat("tensor ", in_quotes(entry.name), ": ", wrong));
    entries.push_back(std::move(entry));
  }

  // No holes, no overlaps, nothing after the last tensor.
  sort_by_place(entries);
  uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != end) {
      const std::string wrong = concat("tensor ", in_quotes(entry.name), ": it starts at data byte ", entry.offset, ", expected ", end);
      const std::string* twice = sort_by_name(entries);
      return broken_index(path, twice ? duplicate(*twice) : wrong);
    }
    end +=
        entry
            .length;  // at most the last end, which is checked against the file below; lengths are differences of offsets, so this cannot wrap
  }
  const uint64_t data_bytes = file_bytes - 8 - header_bytes;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset + entry.length > data_bytes) {
      const uint64_t at = 8 + header_bytes + entry.offset;
      return broken_index(path, concat("tensor ", in_quotes(entry.name), ": its bytes [", at, ", ", at + entry.length,
                                       ") are beyond the file's ", file_bytes));
    }
  }
  if (end != data_bytes) return broken_index(path, concat("tensors end at data byte ", end, ", the data has ", data_bytes, " bytes"));
  for (SafetensorsEntry& entry : entries) entry.offset += 8 + header_bytes;

  if (const std::string* twice = sort_by_name(entries)) return broken_index(path, duplicate(*twice));
  return SafetensorsIndex(std::move(entries), std::move(metadata));
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading a safetensors index failed: out of memory; free memory"};
}

}  // namespace heddle::module
