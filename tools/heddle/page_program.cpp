// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report goes to heddle-page as a file without a name, which is its standard input.
#include "tools/heddle/page_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/heddle/program_search.h"
#include "tools/heddle/raised_rights.h"

namespace heddle::tool {
namespace {

constexpr const char kProgram[] = "heddle-page";

bool write_all(int file, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return lseek(file, 0, SEEK_SET) == 0;
}

}  // namespace

void add_html_flag(Flags& flags, std::string& target, const std::string& help) {
  flags.text("--html", target, help + "; one file that needs no other and runs no script; - is stdout", "FILE");
}

std::optional<int> find_page_program(const Flags& flags, const std::string& html) {
  if (html.empty()) return std::nullopt;
  if (has_raised_rights()) return flags.misuse("--html: heddle runs with raised privileges and starts no other program");
  if (find_program(kProgram).empty())
    return flags.misuse("--html: heddle-page is neither in the directory of heddle nor on PATH; install the package heddle-page");
  return std::nullopt;
}

int write_page(const Flags& flags, const Json& whole, const std::string& function, const std::string& html) {
  const int file = memfd_create("heddle-report", MFD_CLOEXEC);
  if (file < 0 || !write_all(file, dump_json(whole, -1)) || dup2(file, STDIN_FILENO) < 0)
    return flags.failed(std::string("--html: handing the report to heddle-page failed: ") + std::strerror(errno));
  finish_output();
  const std::string program = find_program(kProgram);
  const char* arguments[] = {kProgram, "--output", html.c_str(), "--function", function.c_str(), nullptr};
  if (function.empty()) arguments[3] = nullptr;
  execv(program.c_str(), const_cast<char* const*>(arguments));
  return flags.failed("--html: starting " + program + " failed: " + std::strerror(errno));
}

}  // namespace heddle::tool
