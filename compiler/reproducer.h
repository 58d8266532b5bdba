// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The imported IR as a file that is there before anything can fail, with the step that the compiler is at, so that both survive a crash.
#pragma once

#include <string>

#include "compiler/pipeline.h"
#include "llvm/ADT/StringRef.h"

namespace mlir {
class PassManager;
}

namespace heddle::compiler {

// The first line is "// at: STEP", padded to a fixed length, so that it can be replaced in place.
class ReproducerFile {
 public:
  ReproducerFile() = default;
  ~ReproducerFile();
  ReproducerFile(const ReproducerFile&) = delete;
  ReproducerFile& operator=(const ReproducerFile&) = delete;

  Failure write(const std::string& path, const std::string& ir);
  // Does nothing before write(). Called from several threads.
  void at(llvm::StringRef step) const;
  // at() for each pass that begins.
  void follow(mlir::PassManager& passes) const;

 private:
  int descriptor_ = -1;
};

}  // namespace heddle::compiler
