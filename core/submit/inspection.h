// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Looks at what regions read and write, for [validation] of the configuration: stops at the first value that is no number, and dumps values to files.
// Made by Instance where the configuration asks for it, used by Run around each command; what looks into bytes is the validation layer's.
#ifndef HEDDLE_CORE_SUBMIT_INSPECTION_H_
#define HEDDLE_CORE_SUBMIT_INSPECTION_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/memory/device.h"
#include "core/open/module.h"

namespace heddle::submit {

class Inspection {
 public:
  // NULL where nothing is asked for. UNIMPLEMENTED for a module that does not say the types that are needed.
  static Result<std::unique_ptr<Inspection>> create(host::Host& host, const open::OpenModule& module);

  uint64_t next_call() { return ++calls_; }

  // One region, as it was before its dispatch.
  struct Look {
    uint64_t call = 0;
    uint32_t order = 0;  // of the dispatch in its call
    memory::Device* device = nullptr;
    const module_format::DispatchSite* site = nullptr;
    const heddle_dispatch_command_t* command = nullptr;
    bool dumps = false;
    std::vector<std::vector<std::byte>> inputs;  // by binding; empty for what is only written
  };
  // Between them the region runs; no other work touches what it names. [may-block]
  Status before(Look& look) const;
  Status after(const Look& look) const;

 private:
  struct Type {
    heddle_element_type_t element_type = HEDDLE_TYPE_UNDEFINED;  // not known: bytes
    std::vector<int64_t> dims;
  };
  Inspection(host::Host& host, const heddle_validation_t& layer) : host_(host), layer_(layer) {}
  bool matches(std::string_view region) const;
  Type type_of(const Look& look, uint32_t binding) const;
  heddle_validation_found_t scan(const Type& type, const std::vector<std::byte>& bytes) const;
  Status dump(const Look& look, uint32_t binding, const char* side, const Type& type, const std::vector<std::byte>& bytes) const;
  Status judge(const Look& look, uint32_t binding, const Type& type, const heddle_validation_found_t& found) const;

  host::Host& host_;
  const heddle_validation_t& layer_;
  uint32_t kinds_ = 0;  // bits HEDDLE_VALIDATION_*: what stops a call
  std::atomic<uint64_t> calls_{0};
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INSPECTION_H_
