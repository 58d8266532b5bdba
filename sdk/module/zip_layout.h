// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of the ZIP format (PKWARE APPNOTE 6.3.10, section 4.3), shared by the reader and the writer of .npz files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::module {

// Signatures, and sizes of the records without the texts that follow them.
constexpr uint32_t kZipLocal = 0x04034b50, kZipCentral = 0x02014b50, kZipEnd = 0x06054b50;
constexpr uint32_t kZip64End = 0x06064b50, kZipLocator = 0x07064b50;
constexpr size_t kZipLocalBytes = 30, kZipCentralBytes = 46, kZipEndBytes = 22, kZip64EndBytes = 56, kZipLocatorBytes = 20;

constexpr uint64_t kMaxZipText = 0xFFFF;  // bytes of a name, an extra field or a comment
// A full field: the actual value is in the ZIP64 record.
constexpr uint32_t kZipFull16 = 0xFFFF, kZipFull32 = 0xFFFFFFFF;
constexpr uint32_t kZip64Extra = 0x0001;  // id of the extra field

constexpr uint32_t kZipStored = 0, kZipDeflated = 8;                                // methods
constexpr uint32_t kZipEncrypted = 1, kZipSizesLater = 1 << 3, kZipUtf8 = 1 << 11;  // flags

}  // namespace heddle::module
