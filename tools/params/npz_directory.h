// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The directory of an .npz file, which is a ZIP archive of .npy files (PKWARE APPNOTE 6.3.10, ZIP64 too). Finds where each member's bytes
// are, so that they are read in place. Used by checkpoint.cpp; knows nothing of what members hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/heddle/input_file.h"

namespace heddle::tool {

constexpr uint64_t kMaxNpzDirectoryBytes = 100'000'000;

struct NpzMember {
  std::string name;  // as it is there: "weight.npy"
  uint64_t offset = 0, length = 0;
  uint32_t crc = 0;  // CRC-32 of its bytes
};

// Members in the order of their bytes. Refused, with the member's name: what is compressed or encrypted, a local header that says
// something else than the directory, bytes outside of the file or shared by two members, a name that is there twice. Without the
// file's path.
Wrong read_npz_directory(const InputFile& file, std::vector<NpzMember>& out);

}  // namespace heddle::tool
