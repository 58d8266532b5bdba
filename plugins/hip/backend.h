// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device of HIP for the stream driver: what is known of it, and its code. Its other calls are in backend.cpp.
#ifndef HEDDLE_HIP_BACKEND_H_
#define HEDDLE_HIP_BACKEND_H_

#include "heddle/sdk/stream/code.h"
#include "hip/api.h"

namespace heddle::hip {

namespace stream = sdk::stream;

struct Facts : stream::Facts {
  int ordinal = 0;         // HIP's
  std::string chip;        // "gfx90a": the name of the architecture up to the first ':'
  bool has_pools = false;  // of memory, in the library and on this device
};

// The part that code.cpp implements.
class Code : public stream::Backend {
 public:
  Code(const Api& api, const Facts& known) noexcept : hip(api), facts(known) {}
  uint32_t rank(std::string_view format, std::string_view target) const noexcept override;
  heddle_status_t* load_module(stream::Loading& loading, stream::Module* out) override;
  heddle_status_t* load_entry(stream::Loading& loading, stream::Module module, const heddle_entry_params_t& params,
                              stream::Entry* entry) override;
  void unload_module(stream::Module module) noexcept override;

 protected:
  const Api& hip;
  const Facts& facts;
};

std::unique_ptr<stream::Backend> make_backend(const Api& api, const Facts& facts);
std::span<const stream::BlockCode> block_codes();  // made when the plugin is built

}  // namespace heddle::hip
#endif  // HEDDLE_HIP_BACKEND_H_
