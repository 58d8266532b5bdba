// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls lld as a library, on files in a private directory that is always removed. See elf_link.h.
#include "compiler/targets/elf_link.h"

#include <mutex>

#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace heddle::targets {

namespace {

// A new directory below the system's directory for temporary files.
class PrivateDirectory {
 public:
  PrivateDirectory() { created_ = !llvm::sys::fs::createUniqueDirectory("heddle-link", path_); }
  ~PrivateDirectory() {
    if (created_) llvm::sys::fs::remove_directories(path_);
  }
  PrivateDirectory(const PrivateDirectory&) = delete;
  PrivateDirectory& operator=(const PrivateDirectory&) = delete;
  bool created() const { return created_; }
  std::string file(const std::string& name) const {
    llvm::SmallString<128> result(path_);
    llvm::sys::path::append(result, name);
    return std::string(result);
  }

 private:
  llvm::SmallString<128> path_;
  bool created_ = false;
};

bool write_file(const std::string& path, llvm::ArrayRef<char> bytes) {
  std::error_code failed;
  llvm::raw_fd_ostream stream(path, failed);
  if (failed) return false;
  stream.write(bytes.data(), bytes.size());
  stream.close();
  bool written = !stream.has_error();
  stream.clear_error();
  return written;
}

}  // namespace

std::vector<char> link_elf(llvm::ArrayRef<llvm::ArrayRef<char>> objects, const ElfLink& link, std::string& error) {
  static std::mutex one_link;  // lld has global variables
  std::lock_guard<std::mutex> lock(one_link);
  PrivateDirectory directory;
  if (!directory.created()) {
    error = link.who + ": creating a directory for linking failed; set TMPDIR to a directory that can be written";
    return {};
  }
  std::vector<std::string> arguments{"ld.lld", "-shared", "--threads=1",        "--build-id=none", "-z", "defs", "-z",
                                     "text",   "-z",      "max-page-size=4096", "--no-undefined"};
  arguments.insert(arguments.end(), link.options.begin(), link.options.end());
  arguments.insert(arguments.end(), {"-o", directory.file("image.so")});
  if (!link.version_script.empty()) {
    const std::string script = directory.file("symbols");
    if (!write_file(script, llvm::ArrayRef<char>(link.version_script.data(), link.version_script.size()))) {
      error = link.who + ": writing the names of symbols, " + std::to_string(link.version_script.size()) + " bytes, to " + script +
              " failed; free space there or set TMPDIR";
      return {};
    }
    arguments.push_back("--version-script=" + script);
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    std::string path = directory.file(std::to_string(i) + ".o");
    if (!write_file(path, objects[i])) {
      error = link.who + ": writing an object of " + std::to_string(objects[i].size()) + " bytes to " + path +
              " failed; free space there or set TMPDIR";
      return {};
    }
    arguments.push_back(path);
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) {
    error = link.who + ": linking " + std::to_string(objects.size()) + " objects failed: " + messages;
    return {};
  }
  auto image = llvm::MemoryBuffer::getFile(directory.file("image.so"), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!image) {
    error = link.who + ": reading the linked image failed: " + image.getError().message();
    return {};
  }
  return std::vector<char>((*image)->getBufferStart(), (*image)->getBufferEnd());
}

}  // namespace heddle::targets
