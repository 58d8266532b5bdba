// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes as a code object for AMD GPUs, and as the metadata of one that is whole: refused, or read and joined with another name.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "compiler/targets/amdgpu/metadata.h"
#include "llvm/BinaryFormat/ELF.h"

namespace {

using namespace llvm::ELF;

template <typename T>
void append(std::string& file, const T& value) {
  file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string note_of(llvm::StringRef metadata) {
  std::string note;
  append(note, Elf64_Nhdr{7, static_cast<uint32_t>(metadata.size()), NT_AMDGPU_METADATA});
  note += std::string("AMDGPU\0\0", 8) + metadata.str();
  note.resize((note.size() + 3) / 4 * 4);
  return note;
}

// An ELF file with this section.
std::string file_of(const std::string& note) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ElfMagic, 4);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = EM_AMDGPU;
  header.e_shoff = sizeof header + note.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  Elf64_Shdr section{};
  section.sh_type = SHT_NOTE;
  section.sh_offset = sizeof header;
  section.sh_size = note.size();
  std::string file;
  append(file, header);
  file += note;
  append(file, Elf64_Shdr{});
  append(file, section);
  return file;
}

void read(llvm::StringRef file) {
  namespace amdgpu = heddle::targets::amdgpu;
  const llvm::StringRef name = "another_name";
  auto code = amdgpu::read_metadata(file);
  auto joined = amdgpu::join_metadata(file, name);
  const bool is_read = static_cast<bool>(code), is_joined = static_cast<bool>(joined);
  if (is_read && is_joined) {
    auto again = amdgpu::read_metadata(file_of(*joined));
    if (!again || again->target != code->target || again->kernels.size() != 1 || again->kernels[0].name != name ||
        again->kernels[0].arguments.size() != code->kernels[0].arguments.size()) {
      std::fprintf(stderr, "amdgpu_metadata_fuzz: joined metadata reads as something else\n");
      std::abort();
    }
  }
  if (!is_read) llvm::consumeError(code.takeError());
  if (!is_joined) llvm::consumeError(joined.takeError());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  read(file_of(note_of(bytes)));
  return 0;
}
