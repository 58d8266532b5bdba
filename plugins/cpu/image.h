// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checking loader of "x86_64-elf/1" images (HD-C-01, HD-C-02). Called by code.cpp and by the fuzz target; knows no device, no
// host and no thread, and executes no code of the image.
#ifndef HEDDLE_CPU_IMAGE_H_
#define HEDDLE_CPU_IMAGE_H_

#include <cstdint>
#include <string_view>
#include <utility>

#include "heddle/code.h"
#include "heddle/status.h"

namespace heddle::cpu {

struct ImageError {
  heddle_status_code_t code = HEDDLE_STATUS_OK;  // DATA_LOSS: damaged; INVALID_ARGUMENT: intact, but not allowed
  char text[224] = {};
};

// One loaded image: private memory, each page writable or executable, never both. Unmapped with the object.
class Image {
 public:
  static constexpr uint64_t kMaxSpanBytes = uint64_t{1} << 30;

  Image() noexcept = default;
  ~Image();
  Image(Image&& other) noexcept { *this = std::move(other); }
  Image& operator=(Image&& other) noexcept;

  // Checks and maps `size` bytes. If anything is wrong with them, false, with the error filled in and *out unchanged.
  static bool load(const void* bytes, uint64_t size, Image* out, ImageError* error) noexcept;

  // A global function inside an executable segment; NULL if there is no function of that name.
  heddle_x86_64_kernel_t find_kernel(std::string_view name) const noexcept;

  // A global function; `address` is its address in this process.
  struct Function {
    std::string_view name;
    uint64_t address;
    uint64_t size;  // bytes, as stated in the image; at most up to its end
  };
  template <typename Visit>
  void each_function(Visit visit) const {
    for (uint64_t i = 1; i < symbol_count_; ++i) {
      Function function;
      if (function_at(i, &function)) visit(function);
    }
  }

  uint64_t span_bytes() const noexcept { return span_; }
  uint64_t symbol_count() const noexcept { return symbol_count_; }

 private:
  friend class ImageLoader;
  // False if symbol `index` is not a global function.
  bool function_at(uint64_t index, Function* out) const noexcept;

  char* base_ = nullptr;
  uint64_t span_ = 0;
  uint64_t first_address_ = 0;  // the address of base_ in the image
  // Offsets from base_, all checked.
  uint64_t symbols_ = 0, symbol_count_ = 0, strings_ = 0, strings_bytes_ = 0;
};

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_IMAGE_H_
