// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A safetensors file of any size that takes no room on the disk: a header, and then a hole. For tests and benchmarks of loading.
#ifndef HEDDLE_TESTS_SPARSE_WEIGHTS_H_
#define HEDDLE_TESTS_SPARSE_WEIGHTS_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace heddle::testing {

// `count` tensors "w0", "w1", ..., or from another number on, of `elements` f32 each, all zero. Where the first one's bytes begin; 0 if writing failed.
inline uint64_t write_sparse_weights(const std::string& path, uint64_t count, uint64_t elements, uint64_t first = 0) {
  std::string json = "{";
  for (uint64_t i = 0; i < count; ++i) {
    json += (i ? ",\"w" : "\"w") + std::to_string(first + i) + "\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(elements) +
            "],\"data_offsets\":[" + std::to_string(i * elements * 4) + "," + std::to_string((i + 1) * elements * 4) + "]}";
  }
  json += "}";
  json.resize((8 + json.size() + 63) / 64 * 64 - 8, ' ');  // tensors that begin on 64 bytes can be mapped
  std::string head(8, '\0');
  for (int i = 0; i < 8; ++i) head[static_cast<size_t>(i)] = static_cast<char>(json.size() >> (8 * i));
  head += json;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return 0;
  const bool written = ::write(descriptor, head.data(), head.size()) == static_cast<ssize_t>(head.size()) &&
                       ftruncate(descriptor, static_cast<off_t>(head.size() + count * elements * 4)) == 0;
  ::close(descriptor);
  return written ? head.size() : 0;
}

}  // namespace heddle::testing

#endif  // HEDDLE_TESTS_SPARSE_WEIGHTS_H_
