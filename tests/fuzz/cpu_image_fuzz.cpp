// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The image loader on arbitrary bytes. Loads, looks symbols up, runs nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "cpu/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  heddle::cpu::Image image;
  heddle::cpu::ImageError error;
  if (heddle::cpu::Image::load(data, size, &image, &error)) {
    image.find_kernel("add_f32");
    image.find_kernel("no_such_kernel");
  } else if (error.text[0] == 0 || error.code == HEDDLE_STATUS_OK) {
    std::abort();  // a refusal says why
  }
  return 0;
}
