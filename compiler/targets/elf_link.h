// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links ELF objects into a shared object with lld, inside this process. Called by targets whose images are ELF files; knows no machine.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace heddle::targets {

struct ElfLink {
  std::string who;                   // starts errors: "x86_64"
  std::vector<std::string> options;  // of ld.lld, in addition to those of every image
  std::string version_script;        // its text; empty: none
};

// Deterministic. Empty, with an error text, if it fails.
std::vector<char> link_elf(llvm::ArrayRef<llvm::ArrayRef<char>> objects, const ElfLink& link, std::string& error);

}  // namespace heddle::targets
