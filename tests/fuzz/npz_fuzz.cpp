// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file of parameters of any bytes, whatever format they begin as: refused with a reason, or every tensor lies inside of the file, has the
// bytes that its shape needs, overlaps no other one and can be read.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tools/params/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle::tool;
  static const int descriptor = memfd_create("npz_fuzz", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  Checkpoint checkpoint;
  if (!checkpoint.open("/proc/self/fd/" + std::to_string(descriptor)).empty()) return 0;
  std::vector<const StoredTensor*> tensors;
  // Entries of IRPA may share data, and patterns have none.
  const bool shares = checkpoint.format() == "IRPA";
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (tensor.pattern.empty()) tensors.push_back(&tensor);
  }
  // A tensor without bytes may lie where another one ends.
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->offset + a->length, a->offset) < std::pair(b->offset + b->length, b->offset);
  });
  uint64_t end = 0;
  bool good = true;
  for (const StoredTensor* tensor : tensors) {
    good = good && (shares || tensor->offset >= end) && tensor->offset <= size && tensor->length <= size - tensor->offset;
    good = good && checkpoint.find(tensor->name) == tensor &&
           (tensor->block || !tensor->has_values() || byte_count(tensor->shape) == tensor->length);
    end = tensor->offset + tensor->length;
    std::vector<std::byte> bytes(good ? tensor->length : 0);
    good = good && checkpoint.read(*tensor, 0, bytes).empty();
    bytes.resize(good ? tensor->value_bytes() : 0);
    good = good && checkpoint.read_values(*tensor, 0, bytes).empty();
  }
  if (!good) {
    std::fprintf(stderr, "npz_fuzz: a tensor that breaks the rules was let pass\n");
    std::abort();
  }
  return 0;
}
