// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds a shared library by its soname as the dynamic linker would, without mapping it. Used by preflight.
#ifndef HEDDLE_CORE_HOST_LIBRARY_SEARCH_H_
#define HEDDLE_CORE_HOST_LIBRARY_SEARCH_H_

#include <string>
#include <string_view>
#include <vector>

namespace heddle::host {

class LibrarySearch {
 public:
  // run_path: of the library that has the dependency; $ORIGIN stands for the directory of library_path.
  LibrarySearch(const std::vector<std::string>& run_path, const std::string& library_path);

  // The full path, or empty. A library that is already loaded counts as found.
  std::string find(const std::string& soname);
  // All files of that name that the linker may find on some processor: in every directory, in their subdirectories for processors, and in the cache.
  // For a library that is already loaded, the file from which it was mapped. Empty if there is none.
  std::vector<std::string> find_all(const std::string& soname);
  // The directories of the run path.
  const std::vector<std::string>& run_folders() const { return folders_; }
  // Where it looked, for messages: directories, and "/etc/ld.so.cache".
  const std::vector<std::string>& searched() const { return searched_; }

 private:
  std::vector<std::string> folders_;  // searched before the cache
  std::vector<std::string> system_folders_;
  std::vector<std::string> searched_;
};

// The subdirectories that exist in which glibc looks first, on processors that they are made for: glibc-hwcaps/NAME, and, before 2.37, tls, x86_64
// and the like, one in another.
std::vector<std::string> processor_folders(const std::string& folder);

// The paths in an ld.so.cache of glibc 2.2 or newer for a soname of this machine: one for each kind of processor. Exposed for tests: `cache` may
// contain anything.
std::vector<std::string> find_in_linker_cache(std::string_view cache, std::string_view soname);

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_LIBRARY_SEARCH_H_
