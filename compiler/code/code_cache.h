// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cache of kernel code on disk. The key of an entry covers everything that it depends on: the region's text, the target, and the libraries that make
// the code. Used by generate.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/targets/strategy.h"
#include "sdk/module/user_cache.h"

namespace heddle::compiler {

// The code of a kernel, or of a function that kernels call, which has no resources.
struct CachedCode {
  targets::KernelResources resources;
  std::vector<std::string> calls;  // functions that are other entries
  std::vector<char> bytes;
};

class CodeCache {
 public:
  // directory: as for module::UserCache, empty for none.
  explicit CodeCache(const std::string& directory);

  // A key for code that depends only on the text; the same in every process.
  static std::string key_of(const std::string& text);

  std::optional<CachedCode> find(const std::string& key);
  void keep(const std::string& key, const CachedCode& code);

  // Limits the size of the directory, if anything was kept.
  void trim();

  unsigned hits() const { return hits_; }
  // Why the cache is not used; empty if it is.
  std::string why_unused() const;

  // An entry as stored in its file, and back; nothing if it is damaged.
  static std::string encode(const CachedCode& code);
  static std::optional<CachedCode> decode(std::string_view text);

 private:
  std::string directory_;
  module::UserCache files_;
  bool wants_directory_ = false, has_kept_ = false, has_failed_ = false;
  unsigned hits_ = 0;
};

// The build IDs of the libraries of this process that make code; empty if one of them has none.
const std::string& code_generators();

}  // namespace heddle::compiler
