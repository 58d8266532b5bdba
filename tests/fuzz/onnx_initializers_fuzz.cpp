// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX model of any bytes: its initializers are refused with an error, or each lies inside the file, has its own bytes, or is in a file of external
// data that must be long enough for it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "sdk/module/onnx_initializers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int descriptor = memfd_create("onnx_initializers_fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  auto index = heddle::module::read_onnx_index(descriptor, size, "input");
  if (!index) return 0;
  const auto& files = index.value().external_files();
  for (const heddle::module::ParameterEntry& entry : index.value().entries()) {
    const uint64_t end = entry.file == 0 ? size : entry.file <= files.size() ? files[entry.file - 1].end : 0;
    const bool is_stored = entry.pattern.empty() && entry.length > 0;
    const bool is_inside = is_stored ? entry.offset <= end && entry.length <= end - entry.offset
                                     : entry.file == 0 && (entry.length == 0 || entry.pattern.size() == entry.length);
    if (!is_inside || index.value().find(entry.name) != &entry) {
      std::fprintf(stderr, "onnx_initializers_fuzz: a tensor outside of its file was let pass\n");
      std::abort();
    }
  }
  for (const heddle::module::ExternalFile& file : files) {
    if (file.location.empty() || file.end == 0 || !index.value().find(file.last)) std::abort();
  }
  return 0;
}
