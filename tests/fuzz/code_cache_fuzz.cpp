// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An entry of the cache of kernels with fields of any bytes, under a checksum that is right: refused, or the same bytes when it is written again.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/code/code_cache.h"
#include "llvm/Support/xxhash.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string fields(reinterpret_cast<const char*>(data), size);
  const uint64_t checksum = llvm::xxh3_64bits(fields);
  const std::string text = "heddle-code/1\n" + std::string(reinterpret_cast<const char*>(&checksum), sizeof checksum) + fields;
  auto code = heddle::compiler::CodeCache::decode(text);
  if (code && heddle::compiler::CodeCache::encode(*code) != text) {
    std::fprintf(stderr, "code_cache_fuzz: an entry that reads as another one\n");
    std::abort();
  }
  return 0;
}
