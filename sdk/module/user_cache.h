// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A directory of files that may be deleted at any time, below the user's cache directory. Its contents decide which code is run and with which values,
// so it is used only while no other user has access to it. Used by the host for probe results of plugins, by the runtime for computed weights and by
// the compiler for kernels; any number of processes may share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::module {

class UserCache {
 public:
  // A directory in $XDG_CACHE_HOME/heddle or ~/.cache/heddle; empty without either, or if the process runs with raised privileges.
  static std::string default_folder(std::string_view name);

  // With an empty folder nothing is found and nothing is stored.
  explicit UserCache(std::string folder = {}) : folder_(std::move(folder)) {}

  // An entry as an open file, which the caller closes; -1 if there is none, or if another user could have written it.
  int open(const std::string& name) const;

  // The bytes of an entry of at most most_bytes; nothing if there is none, or if another user could have written it.
  std::optional<std::string> find(const std::string& name, size_t most_bytes) const;

  // Stores the bytes under the name and replaces earlier ones. They appear once they are complete. Failures are ignored.
  bool keep(const std::string& name, std::string_view bytes) const;

  // The same for bytes that `write` writes to the file that it is given. If it is false, errno may say why.
  bool keep(const std::string& name, bool (*write)(int descriptor, const void* context), const void* context) const;

  // Marks an entry as used now, for trim().
  void touch(const std::string& name) const;

  // Removes the least recently used entries until at most most_bytes of entries are left. Entries, and what an interrupted process left of one,
  // have a name that `is_entry` accepts; other files in the directory are kept.
  void trim(uint64_t most_bytes, bool (*is_entry)(std::string_view name)) const;

  // Why an existing directory is not used, for logs: others have access to it, or it is a link. Empty if it is used.
  std::string why_unused() const;

 private:
  std::string folder_;
};

}  // namespace heddle::module
