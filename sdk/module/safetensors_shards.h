// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index of a checkpoint in several safetensors files, `model.safetensors.index.json`: {"metadata": {"total_size": N}, "weight_map":
// {NAME: FILE}}, as Hugging Face's transformers writes it. Used by core/open and heddle params; opens no shard and believes no size.
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
  std::vector<std::string> shards;  // names of files beside the index, sorted
  std::vector<Entry> entries;       // sorted by name
  std::optional<uint64_t> total_bytes;
};

// A safetensors file starts with a size, which no text can be: as a number, its first 8 bytes are far above what the format allows.
bool is_shard_index(std::string_view first_bytes);

// DATA_LOSS for a text of more than kMaxSafetensorsHeaderBytes, bad UTF-8 or JSON, a name that is there twice, and a shard that is anything
// but the name of a file beside the index. A total that is no number is none: nothing depends on it.
Result<ShardIndex> read_shard_index(int descriptor, uint64_t file_bytes, const std::string& path);
// The shard's path.
std::string shard_path(const std::string& index_path, const std::string& shard);

}  // namespace heddle::module
