// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/targets/cuda/machine_code.h"

#include <optional>

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

namespace heddle::targets {
namespace {

constexpr size_t most_shown_bytes = 2000;  // of what ptxas printed

llvm::Error failed(const llvm::Twine& cause) {
  return llvm::createStringError("cuda: assembling PTX failed: " + cause);
}

// A temporary file, removed at the end.
class Scratch {
 public:
  explicit Scratch(llvm::StringRef suffix) {
    error_ = llvm::sys::fs::createTemporaryFile("heddle", suffix, path_);
    if (!error_) remover_.setFile(path_);
  }
  llvm::StringRef path() const { return path_; }
  std::error_code write(const std::vector<char>& bytes) const {
    std::error_code error;
    llvm::raw_fd_ostream stream(path_, error);
    if (error) return error;
    stream.write(bytes.data(), bytes.size());
    stream.close();
    error = stream.error();
    stream.clear_error();
    return error;
  }
  std::error_code read(std::string& bytes) const {
    auto file = llvm::MemoryBuffer::getFile(path_, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!file) return file.getError();
    bytes = (*file)->getBuffer().str();
    return {};
  }
  const std::error_code& error() const { return error_; }

 private:
  llvm::SmallString<128> path_;
  llvm::FileRemover remover_;
  std::error_code error_;
};

// The lines of `ptxas -v`: "... entry function 'NAME' for 'sm_90a'", "... 0 bytes spill stores, 0 bytes spill loads", and
// "... Used 24 registers, used 1 barriers, 4096 bytes smem", in this order for each kernel.
std::vector<AssembledKernel> read_log(llvm::StringRef log) {
  const llvm::Regex entry("entry function '([^']*)'"), stores("([0-9]+) bytes spill stores"), loads("([0-9]+) bytes spill loads"),
      registers("Used ([0-9]+) registers"), shared("([0-9]+) bytes smem");
  std::vector<AssembledKernel> kernels;
  llvm::SmallVector<llvm::StringRef> lines;
  log.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    llvm::SmallVector<llvm::StringRef> found;
    if (entry.match(line, &found)) kernels.push_back({found[1].str()});
    if (kernels.empty()) continue;
    auto number = [&](const llvm::Regex& pattern, auto& out) {
      uint64_t value = 0;
      if (pattern.match(line, &found) && !found[1].getAsInteger(10, value)) out = std::max<uint64_t>(out, value);
    };
    number(stores, kernels.back().spilled_bytes);
    number(loads, kernels.back().spilled_bytes);
    number(registers, kernels.back().registers);
    number(shared, kernels.back().shared_bytes);
  }
  return kernels;
}

}  // namespace

llvm::Expected<MachineCode> assemble_ptx(const std::string& ptxas, std::string_view chip, const std::vector<char>& ptx) {
  auto program = llvm::sys::findProgramByName(ptxas);
  if (!program) return failed("'" + ptxas + "' is not a program; it comes with the CUDA toolkit, or with nvidia-cuda-nvcc of PyPI");
  const Scratch text("ptx"), code("cubin"), log("log");
  for (const Scratch* file : {&text, &code, &log}) {
    if (file->error()) return failed("making a temporary file: " + file->error().message());
  }
  if (std::error_code error = text.write(ptx)) return failed("writing '" + text.path() + "': " + error.message());
  const std::string arch = "-arch=" + std::string(chip);
  const llvm::StringRef arguments[] = {*program, "-v", arch, "-o", code.path(), text.path()};
  const std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), log.path(), log.path()};
  std::string why, said;
  const int status = llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, redirects, 0, 0, &why);
  MachineCode result;
  if (std::error_code error = log.read(said)) return failed("reading '" + log.path() + "': " + error.message());
  if (status != 0) {
    if (said.size() > most_shown_bytes) said.resize(most_shown_bytes);
    return failed("'" + *program + "' for " + std::string(chip) + " " +
                  (why.empty() ? "ended with " + std::to_string(status) : "did not run: " + why) +
                  (said.empty() ? "" : "; it says: " + said));
  }
  std::string bytes;
  if (std::error_code error = code.read(bytes)) return failed("reading '" + code.path() + "': " + error.message());
  result.code.assign(bytes.begin(), bytes.end());
  result.kernels = read_log(said);
  return result;
}

}  // namespace heddle::targets
