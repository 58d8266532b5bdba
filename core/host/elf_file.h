// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contents of a shared library's headers, read from the file without mapping any code. Used by preflight and library_search.
#ifndef HEDDLE_CORE_HOST_ELF_FILE_H_
#define HEDDLE_CORE_HOST_ELF_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::host {

constexpr size_t kMaxExports = 64;

struct ElfFile {
  uint32_t elf_class = 0;             // 1: 32 bits, 2: 64 bits
  uint32_t machine = 0;               // EM_*
  uint32_t type = 0;                  // ET_*
  std::vector<std::string> needed;    // DT_NEEDED
  std::vector<std::string> exports;   // names of functions and data that other libraries can bind to, at most kMaxExports
  std::vector<std::string> run_path;  // DT_RUNPATH, else DT_RPATH, split at ':', including empty entries, not expanded
};

// How much of a file is read: without lists, without exports, everything.
enum class ElfParts { kHeaders, kNeeded, kAll };
// Reads the headers and the dynamic section; every offset is checked. Returns an error text, empty on success.
std::string read_elf_file(const std::string& path, ElfParts parts, ElfFile* out_file);

// "x86_64", "aarch64" ... for EM_*; a number for others.
std::string machine_name(uint32_t machine);
// The EM_* value of this host.
uint32_t own_machine();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_ELF_FILE_H_
