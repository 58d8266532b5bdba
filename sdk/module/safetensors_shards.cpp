// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and checks the index of shards, which is as untrusted as the header of a safetensors file.
#include "sdk/module/safetensors_shards.h"

#include <algorithm>
#include <new>

#include "sdk/module/file_view.h"
#include "sdk/module/json.h"
#include "sdk/module/safetensors.h"
#include "sdk/module/safetensors_text.h"

namespace heddle::module {
namespace {

bool is_file_name(const std::string& name) {
  return !name.empty() && one_line(name) == name && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

// Sorts the names and stores their numbers in the entries.
Status number_shards(const std::string& path, std::vector<std::string>& shards_of, ShardIndex& index) {
  index.shards = shards_of;
  std::sort(index.shards.begin(), index.shards.end());
  index.shards.erase(std::unique(index.shards.begin(), index.shards.end()), index.shards.end());
  if (index.shards.size() > kMaxShards) return broken_index(path, concat(index.shards.size(), " shards are above ", kMaxShards));
  for (size_t i = 0; i < shards_of.size(); ++i) {
    index.entries[i].shard =
        static_cast<uint32_t>(std::lower_bound(index.shards.begin(), index.shards.end(), shards_of[i]) - index.shards.begin());
  }
  return std::nullopt;
}

}  // namespace

bool is_shard_index(std::string_view first_bytes) {
  const size_t first = first_bytes.find_first_not_of(" \t\r\n");
  return first_bytes.size() >= 8 && first != first_bytes.npos && first_bytes[first] == '{' && first_bytes[7] != '\0';
}

std::string shard_path(const std::string& index_path, const std::string& shard) {
  return index_path.substr(0, index_path.rfind('/') + 1) + shard;
}

Result<ShardIndex> read_shard_index(int descriptor, uint64_t file_bytes, const std::string& path) try {
  if (file_bytes > kMaxSafetensorsHeaderBytes) {
    return broken_index(path, concat("its ", file_bytes, " bytes are above ", kMaxSafetensorsHeaderBytes));
  }
  if (is_descriptor_path(path)) {
    return Error{
        HEDDLE_STATUS_INVALID_ARGUMENT,
        concat("module: reading the index of ", in_quotes(path),
               " failed: it names shards, which are in its directory, and a descriptor or memory has none; give the path of the index, "
               "or each shard as a file of its own")};
  }
  std::string json;
  if (Status failed = read_json(descriptor, path, 0, file_bytes, json)) return *failed;
  JsonReader reader(json);
  if (!reader.enter('{')) return broken_index(path, "header: it is not an object");
  ShardIndex index;
  std::vector<std::string> shards_of;
  bool has_map = false;
  while (reader.more()) {
    const std::string field = reader.key();
    if (field == "weight_map") {
      if (has_map || !reader.enter('{')) return broken_index(path, "weight_map is not one object");
      has_map = true;
      while (reader.more()) {
        std::string tensor = reader.key(), shard;
        if (!reader.text(shard)) return broken_index(path, concat("tensor ", in_quotes(tensor), ": its file is not a string"));
        if (!is_file_name(shard)) {
          return broken_index(
              path, concat("tensor ", in_quotes(tensor), ": ", in_quotes(shard), " is not the name of a file in the index's directory"));
        }
        index.entries.push_back({std::move(tensor), 0});
        shards_of.push_back(std::move(shard));
      }
    } else if (field == "metadata" && reader.enter('{')) {
      while (reader.more()) {
        uint64_t total = 0;
        if (reader.key() == "total_size" && reader.natural(total)) {
          index.total_bytes = total;
        } else {
          reader.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
  if (!has_map) return broken_index(path, "there is no weight_map, which names each tensor's file");
  if (Status failed = number_shards(path, shards_of, index)) return *failed;
  std::sort(index.entries.begin(), index.entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 1; i < index.entries.size(); ++i) {
    if (index.entries[i].name == index.entries[i - 1].name)
      return broken_index(path, concat("tensor ", in_quotes(index.entries[i].name), ": the name is a duplicate"));
  }
  return index;
} catch (const std::bad_alloc&) {
  return Error{HEDDLE_STATUS_RESOURCE_EXHAUSTED, "module: reading an index of shards failed: out of memory; free memory"};
}

}  // namespace heddle::module
