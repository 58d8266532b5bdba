// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An index of shards of any bytes: refused with an error, or names that are sorted and each once, and files that are names and no paths.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "sdk/module/safetensors_shards.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("shards_fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  auto read = heddle::module::read_shard_index(descriptor, size, "input");
  if (!read) return 0;
  const heddle::module::ShardIndex& index = read.value();
  bool good = index.shards.size() <= heddle::module::kMaxShards;
  for (const std::string& shard : index.shards) {
    good = good && !shard.empty() && shard != "." && shard != ".." && shard.find('/') == shard.npos && shard.find('\0') == shard.npos;
  }
  for (size_t i = 0; i < index.entries.size(); ++i) {
    good = good && index.entries[i].shard < index.shards.size() && (i == 0 || index.entries[i - 1].name < index.entries[i].name);
  }
  if (!good) {
    std::fprintf(stderr, "shards_fuzz: an index that breaks the rules was let pass\n");
    std::abort();
  }
  return 0;
}
