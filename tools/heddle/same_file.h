// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two paths mean one file, so that no command writes over what it reads or writes one file twice.
#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

// True also through links and where the file does not exist yet. False for what is no regular file: /dev/null takes everything.
bool same_file(const std::string& one, const std::string& other);

// A path of the command line, and the flag that it came with. An empty path is a flag that was not given.
struct NamedFile {
  std::string flag;
  std::string path;
};
// What is wrong if a path of `written` is also one of `read` or another one of `written`; empty if nothing.
std::string file_named_twice(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read);

}  // namespace heddle::tool
