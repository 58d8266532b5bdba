// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of kernels that was made before, on disk. An entry is found by all that it depends on: the region's text, the target, and the libraries that make
// the code. Used by generate.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/targets/strategy.h"
#include "sdk/module/user_cache.h"

namespace heddle::compiler {

// Of a kernel, or of a function that kernels call, which has no resources.
struct CachedCode {
  targets::KernelResources resources;
  std::vector<std::string> calls;  // functions of other entries
  std::vector<char> bytes;
};

class CodeCache {
 public:
  // folder: as of module::UserCache, empty for none.
  explicit CodeCache(const std::string& directory);

  // A name for what depends on the text alone; the same in every process.
  static std::string key_of(const std::string& text);

  std::optional<CachedCode> find(const std::string& key);
  void keep(const std::string& key, const CachedCode& code);

  // Bounds the folder, if anything was kept.
  void trim();

  unsigned hits() const { return hits_; }
  // Why nothing is kept, or found; empty if there is no reason.
  std::string why_unused() const;

  // An entry as it is in its file, and back; nothing if it is damaged.
  static std::string encode(const CachedCode& code);
  static std::optional<CachedCode> decode(std::string_view text);

 private:
  std::string directory_;
  module::UserCache files_;
  bool wants_directory_ = false, has_kept_ = false, has_failed_ = false;
  unsigned hits_ = 0;
};

// Which builds of the libraries that make code this process has; empty if one of them does not say.
const std::string& code_generators();

}  // namespace heddle::compiler
