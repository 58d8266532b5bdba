// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A folder of small files that may be lost at any time, below the user's own cache folder. What is in it decides what code is run, so it counts only while
// its user alone has rights to it. Used by the host for verdicts on plugins and by the compiler for kernels; any number of processes may use one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::module {

class UserCache {
 public:
  // A folder of $XDG_CACHE_HOME/heddle, or of ~/.cache/heddle; empty without either or when the process runs with raised rights.
  static std::string default_folder(std::string_view name);

  // folder empty: nothing is found and nothing is kept.
  explicit UserCache(std::string folder = {}) : folder_(std::move(folder)) {}

  // The bytes of an entry of at most so many; nothing if there is none, or if it could be somebody else's.
  std::optional<std::string> find(const std::string& name, size_t most_bytes) const;

  // Keeps the bytes under the name, in place of those before. They appear when they are complete. Failures are not errors.
  bool keep(const std::string& name, std::string_view bytes) const;

  // Marks an entry as used now, for trim().
  void touch(const std::string& name) const;

  // Removes entries that were not used for the longest time, until no more bytes of them than these are left. Entries, and what an interrupted process left
  // of one, begin with a name that `is_entry` knows; whatever else is in the folder stays.
  void trim(uint64_t most_bytes, bool (*is_entry)(std::string_view name)) const;

  // Why a folder that is there is not used, for logs: others have rights to it, or it is a link. Empty if it is.
  std::string why_unused() const;

 private:
  std::string folder_;
};

}  // namespace heddle::module
