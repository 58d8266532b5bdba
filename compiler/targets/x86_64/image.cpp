// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The options with which an image is linked. Called by the target.
#include "compiler/targets/x86_64/image.h"

#include "compiler/targets/elf_link.h"

namespace heddle::targets::x86_64 {

std::vector<char> link_image(llvm::ArrayRef<llvm::ArrayRef<char>> objects, llvm::ArrayRef<LinkedKernel> kernels, std::string& error) {
  ElfLink link{.who = "x86_64",
               .options = {"--strip-all", "--hash-style=sysv", "-z", "separate-code", "-z", "noexecstack", "--gc-sections"},
               .version_script = "{ global:"};
  for (const LinkedKernel& kernel : kernels) {
    link.version_script += " " + kernel.symbol + ";";
    if (kernel.symbol != kernel.unit) link.options.push_back("--defsym=" + kernel.symbol + "=" + kernel.unit);
  }
  link.version_script += " local: *; };";
  return link_elf(objects, link, error);
}

}  // namespace heddle::targets::x86_64
