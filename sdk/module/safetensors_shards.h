// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index of a checkpoint in several safetensors files, `model.safetensors.index.json`: {"metadata": {"total_size": N}, "weight_map":
// {NAME: FILE}}, as written by Hugging Face's transformers. Used by core/open and heddle params; opens no shard and trusts no size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/module/error.h"

namespace heddle::module {

constexpr uint32_t kMaxShards = 4096;

struct ShardIndex {
  struct Entry {
    std::string name;
    uint32_t shard;
  };
  std::vector<std::string> shards;  // names of files in the index's directory, sorted
  std::vector<Entry> entries;       // sorted by name
  std::optional<uint64_t> total_bytes;
};

// A safetensors file starts with a size, a text does not: read as a number, the first 8 bytes of a text are far above the format's limit.
bool is_shard_index(std::string_view first_bytes);

// DATA_LOSS for a text of more than kMaxSafetensorsHeaderBytes, invalid UTF-8 or JSON, a duplicate name, and a shard that is not the name of a file
// in the index's directory, without characters that a terminal would obey. INVALID_ARGUMENT for the path of a descriptor, which has no directory. A total that is not a number is ignored: nothing depends on it.
Result<ShardIndex> read_shard_index(int descriptor, uint64_t file_bytes, const std::string& path);
// The path of a shard.
std::string shard_path(const std::string& index_path, const std::string& shard);

}  // namespace heddle::module
