// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls lld as a library, on files in a private directory that is always removed. Called by the target.
#include "compiler/targets/x86_64/image.h"

#include <mutex>

#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace heddle::targets::x86_64 {

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

std::vector<char> link_image(llvm::ArrayRef<llvm::ArrayRef<char>> objects, llvm::ArrayRef<LinkedKernel> kernels, std::string& error) {
  static std::mutex one_link;
  std::lock_guard<std::mutex> lock(one_link);
  PrivateDirectory directory;
  if (!directory.created()) {
    error = "x86_64: creating a directory for linking failed; set TMPDIR to a directory that can be written";
    return {};
  }
  std::vector<std::string> arguments{"ld.lld",
                                     "-shared",
                                     "--threads=1",
                                     "--strip-all",
                                     "--build-id=none",
                                     "--hash-style=sysv",
                                     "-z",
                                     "separate-code",
                                     "-z",
                                     "noexecstack",
                                     "-z",
                                     "defs",
                                     "-z",
                                     "max-page-size=4096",
                                     "-z",
                                     "text",
                                     "--gc-sections",
                                     "--no-undefined",
                                     "-o",
                                     directory.file("image.so")};
  std::string exported = "{ global:";
  for (const LinkedKernel& kernel : kernels) {
    exported += " " + kernel.symbol + ";";
    if (kernel.symbol != kernel.unit) arguments.push_back("--defsym=" + kernel.symbol + "=" + kernel.unit);
  }
  exported += " local: *; };";
  const std::string script = directory.file("symbols");
  if (!write_file(script, llvm::ArrayRef<char>(exported.data(), exported.size()))) {
    error = "x86_64: writing the names of " + std::to_string(kernels.size()) + " kernels to " + script +
            " failed; free space there or set TMPDIR";
    return {};
  }
  arguments.push_back("--version-script=" + script);
  for (size_t i = 0; i < objects.size(); ++i) {
    std::string path = directory.file(std::to_string(i) + ".o");
    if (!write_file(path, objects[i])) {
      error = "x86_64: writing an object of " + std::to_string(objects[i].size()) + " bytes to " + path +
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
    error = "x86_64: linking " + std::to_string(objects.size()) + " objects failed: " + messages;
    return {};
  }
  auto image = llvm::MemoryBuffer::getFile(directory.file("image.so"), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!image) {
    error = "x86_64: reading the linked image failed: " + image.getError().message();
    return {};
  }
  return std::vector<char>((*image)->getBufferStart(), (*image)->getBufferEnd());
}

}  // namespace heddle::targets::x86_64
