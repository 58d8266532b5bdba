// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The directory of an .npz file, which is a ZIP archive of .npy files (PKWARE APPNOTE 6.3.10, including ZIP64). Finds each member's bytes, so that
// they are read in place. Used by npz.cpp and by the commands; knows nothing about the members' content.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/module/file_view.h"

namespace heddle::module {

constexpr uint64_t kMaxNpzDirectoryBytes = 100'000'000;

struct NpzMember {
  std::string name;  // as stored: "weight.npy"
  uint64_t offset = 0, length = 0;
  uint32_t crc = 0;  // CRC-32 of its bytes
};

// Members in the order of their bytes. These are refused, with the member's name: compressed or encrypted members, a local header that does not
// match the directory, bytes outside of the file or shared by two members, duplicate names. The error text does not contain the file's path.
Wrong read_npz_directory(const FileView& file, std::vector<NpzMember>& out);

}  // namespace heddle::module
