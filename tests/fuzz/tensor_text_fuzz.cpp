// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of --input: refused with a reason, or a tensor that prints as text which reads as the same tensor.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tools/heddle/tensor_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace heddle::tool;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TensorArgument argument;
  if (!parse_tensor_argument(text, argument).empty() || !argument.path.empty()) return 0;
  // One value may fill a tensor of any size; a fuzzer need not try how much memory there is.
  if (element_count(argument.shape).value_or(UINT64_MAX) > 4096) return 0;
  HostTensor tensor, again;
  if (!load_tensor(argument, {}, tensor).empty()) return 0;
  const std::string printed = tensor_text(tensor, UINT64_MAX);
  TensorArgument reread;
  const bool same = parse_tensor_argument(printed, reread).empty() && load_tensor(reread, {}, again).empty() &&
                    tensor_text(again, UINT64_MAX) == printed && again.bytes.size() == tensor.bytes.size();
  if (!same) {
    std::fprintf(stderr, "tensor_text_fuzz: '%s' does not read as it was printed\n", printed.c_str());
    std::abort();
  }
  return 0;
}
