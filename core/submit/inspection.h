// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inspects what regions read and write, for [validation] of the configuration: stops at the first value that is not a number, and dumps values to
// files. Created by Instance if the configuration requests it, used by Run around each command; the validation layer examines the bytes.
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
  // NULL if nothing is requested. UNIMPLEMENTED if the module does not state the types that are needed, NOT_FOUND for a pattern that matches
  // no region.
  static Result<std::unique_ptr<Inspection>> create(host::Host& host, const open::OpenModule& module);

  uint64_t next_call() { return ++calls_; }

  // One dispatch of a call.
  struct Look {
    uint64_t call = 0;
    uint32_t order = 0;  // position of the dispatch in its call
    memory::Device* device = nullptr;
    const module_format::DispatchSite* site = nullptr;
    const heddle_dispatch_command_t* command = nullptr;
    bool looks = false;                           // whether the following members are filled in
    std::vector<std::vector<std::byte>> in, out;  // per binding; empty in `in` for bindings that are only written
    std::vector<heddle_validation_binding_t> bindings;
  };
  // The region runs between these two calls; no other work touches its memory. [may-block]
  Status before(Look& look) const;
  Status after(Look& look) const;

 private:
  explicit Inspection(const heddle_validation_t& layer) : layer_(layer) {}
  Status check_patterns(const open::OpenModule& module) const;
  Status told(const Look& look, heddle_status_t* (*tell)(const heddle_validation_rules_t*, const heddle_validation_region_t*)) const;

  const heddle_validation_t& layer_;
  std::vector<heddle_string_t> patterns_;
  heddle_validation_rules_t rules_{};
  std::atomic<uint64_t> calls_{0};
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INSPECTION_H_
