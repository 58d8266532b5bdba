// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens a .heddle file: copies all but the parameters into memory, checks hash and structure, and keeps the descriptor for reading parameters. Used
// by core/open and by tools; knows nothing of devices.
#pragma once

#include <heddle_module/module_generated.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sdk/module/error.h"

namespace heddle::module {

// Bytes of an open file. The descriptor is borrowed from the module.
struct FileExtent {
  int descriptor = -1;
  uint64_t offset = 0;
  uint64_t length = 0;
};

constexpr uint32_t kOpenNoHash = 1;  // skip the content hash; structure is always verified

// An opened and verified file; immutable, so that any thread may read it. The guarantees of verifier.h hold for metadata().
class Module {
 public:
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const module_format::Module& metadata() const { return *metadata_; }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  // The file up to the parameters, byte for byte: the source of everything except parameters.
  std::span<const std::byte> head() const { return {head_, head_bytes_}; }
  // XXH3-128 as stated in the file, canonical form: an identity for caches. Checked unless kOpenNoHash was given.
  const std::array<uint8_t, 16>& content_hash() const { return content_hash_; }

  // Starts on a page. Empty if the range is not in the file (for Variant.code it always is).
  std::span<const std::byte> code(const module_format::Range& range) const;
  std::span<const std::byte> constants(const module_format::Range& range) const;
  // The location of a stored parameter's bytes. The file may have been truncated since: a short read is DATA_LOSS.
  FileExtent parameter_extent(const module_format::Parameter& parameter) const;

 private:
  friend Result<std::unique_ptr<Module>> open_module(const std::string& path, uint32_t flags);
  Module() = default;

  std::string path_;
  int descriptor_ = -1;
  std::byte* head_ = nullptr;  // the file up to the parameters, aligned to a page
  uint64_t head_bytes_ = 0;
  std::span<const std::byte> constants_;
  std::span<const std::byte> code_;
  uint64_t parameters_offset_ = 0;
  std::array<uint8_t, 16> content_hash_{};
  const module_format::Module* metadata_ = nullptr;
};

// NOT_FOUND or PERMISSION_DENIED from the system; INVALID_ARGUMENT for another kind of file; UNIMPLEMENTED for a newer format;
// DATA_LOSS for a damaged file. Reads no parameter.
Result<std::unique_ptr<Module>> open_module(const std::string& path, uint32_t flags = 0);

// XXH3-64 of bytes of a file, as in Parameter.hash, or of a pattern that is repeated up to their number, unless it is empty. Throws
// std::bad_alloc if there is no memory for all of them.
Result<uint64_t> hash_of(const FileExtent& bytes, const std::string& path, std::string_view pattern = {});

// XXH3-128 in canonical form, which finds damage but not forgery.
std::array<uint8_t, 16> hash_bytes(const void* bytes, size_t count);

// Reads every stored parameter and checks its hash. DATA_LOSS names the first mismatch.
Status verify_parameters(const Module& module);

}  // namespace heddle::module
