// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the headers of a shared library say, read from the file without mapping any code. Used by preflight and library_search.
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
  std::vector<std::string> exports;   // names of functions and data that other libraries could bind to, kMaxExports at most
  std::vector<std::string> run_path;  // DT_RUNPATH, else DT_RPATH, split at ':', empty entries too, not expanded
};

// Reads headers and the dynamic section; every offset is checked. Returns what is wrong, empty if nothing.
// headers_only leaves the lists empty.
std::string read_elf_file(const std::string& path, bool headers_only, ElfFile* out_file);

// "x86_64", "aarch64" ... of EM_*; a number for others.
std::string machine_name(uint32_t machine);
// EM_* that this host runs.
uint32_t own_machine();

}  // namespace heddle::host

#endif  // HEDDLE_CORE_HOST_ELF_FILE_H_
