// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/reproducer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "sdk/module/error.h"

namespace heddle::compiler {
namespace {

constexpr llvm::StringRef kAt = "// at: ";
constexpr size_t kStepBytes = 80;

std::string padded(llvm::StringRef step) {
  std::string text = step.take_front(kStepBytes).str();
  text.resize(kStepBytes, ' ');
  return text;
}

struct Follow : mlir::PassInstrumentation {
  explicit Follow(const ReproducerFile& file) : file(file) {}
  void runBeforePass(mlir::Pass* pass, mlir::Operation*) override {
    const llvm::StringRef name = pass->getArgument().empty() ? pass->getName() : pass->getArgument();
    file.at(("pass " + name).str());
  }
  const ReproducerFile& file;
};

}  // namespace

ReproducerFile::~ReproducerFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Failure ReproducerFile::write(const std::string& path, const std::string& ir) {
  const std::string text = kAt.str() + padded("passes") + "\n" + ir;
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool written = descriptor_ >= 0;
  for (size_t done = 0; written && done < text.size();) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    written = count > 0;
    if (written) done += static_cast<size_t>(count);
  }
  if (written) return {};
  return {HEDDLE_STATUS_UNAVAILABLE,
          "compiler: writing '" + path + "' failed: " + module::why_not_written(errno) + "; name another file for the imported IR"};
}

void ReproducerFile::at(llvm::StringRef step) const {
  if (descriptor_ < 0) return;
  const std::string text = padded(step);
  // The IR is what matters; a step that is not written costs only a hint.
  [[maybe_unused]] const ssize_t count = pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(kAt.size()));
}

void ReproducerFile::follow(mlir::PassManager& passes) const {
  if (descriptor_ >= 0) passes.addInstrumentation(std::make_unique<Follow>(*this));
}

}  // namespace heddle::compiler
