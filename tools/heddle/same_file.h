// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two paths name one file, so that no command overwrites its input or writes one file twice.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

// Also true through links, and if the file does not exist yet. False for anything but regular files: /dev/null may be written several times.
bool same_file(const std::string& one, const std::string& other);

// A path on the command line, and its flag. An empty path means that the flag was not given.
struct NamedFile {
  std::string flag;
  std::string path;
};
// An error text if a path of `written` is also in `read` or occurs twice in `written`; otherwise empty.
std::string file_named_twice(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read);

}  // namespace heddle::tool
