// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for a program. An empty element of PATH would mean the current directory, so it is skipped.
#include "tools/heddle/program_search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "tools/heddle/tensor_text.h"

namespace heddle::tool {
namespace {

constexpr char kSelf[] = "/proc/self/exe";

// A link to this program does not count: starting it would recurse for ever.
bool is_program(const std::string& path) {
  struct stat facts, own;
  if (stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) || access(path.c_str(), X_OK) != 0) return false;
  return stat(kSelf, &own) != 0 || own.st_dev != facts.st_dev || own.st_ino != facts.st_ino;
}

}  // namespace

std::string own_program() {
  char self[PATH_MAX];
  const ssize_t length = readlink(kSelf, self, sizeof(self));
  return length > 0 && length < static_cast<ssize_t>(sizeof(self)) ? std::string(self, static_cast<size_t>(length)) : std::string();
}

std::string help_of(const std::string& program, const std::vector<std::string>& arguments) {
  std::string command = in_shell_quotes(program), help;
  for (const std::string& argument : arguments) command += " " + in_shell_quotes(argument);
  std::FILE* pipe = popen((command + " --help 2>/dev/null </dev/null").c_str(), "r");
  if (!pipe) return help;
  char block[4096];
  for (size_t read; (read = std::fread(block, 1, sizeof(block), pipe)) > 0;) help.append(block, read);
  pclose(pipe);
  return help;
}

std::string find_program(const std::string& name) {
  if (const std::string here = own_program(); !here.empty()) {
    const std::string candidate = here.substr(0, here.rfind('/') + 1) + name;
    if (is_program(candidate)) return candidate;
  }
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string folder = rest.substr(0, colon);
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    if (folder.empty() || folder[0] != '/') continue;
    const std::string candidate = folder + "/" + name;
    if (is_program(candidate)) return candidate;
  }
  return {};
}

}  // namespace heddle::tool
