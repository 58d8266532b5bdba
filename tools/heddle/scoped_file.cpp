// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/heddle/scoped_file.h"

#include <unistd.h>

namespace heddle::tool {

ScopedFile split_scope(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || access(text.c_str(), F_OK) == 0) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::string> with_scopes(const std::vector<std::string>& texts) {
  std::vector<std::string> files;
  for (const std::string& text : texts) {
    const ScopedFile file = split_scope(text);
    files.push_back(file.scope + "=" + file.path);
  }
  return files;
}

}  // namespace heddle::tool
