// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code on devices: a driver loads the same code for the same entries once, whichever instances and modules need it.
// Used by Instance.
#ifndef HEDDLE_CORE_SUBMIT_CODE_H_
#define HEDDLE_CORE_SUBMIT_CODE_H_

#include <memory>

#include "core/memory/device.h"
#include "core/open/module.h"
#include "core/route/route.h"
#include "core/submit/shared.h"

namespace heddle::submit {

// One variant of an executable, with the entries that some programs dispatch.
class Code final : public Shareable {
 public:
  ~Code() override {
    if (executable) device->api().dispatch->executable_unload(executable);
  }
  memory::Ref<memory::Device> device;
  std::shared_ptr<const open::OpenModule> module;  // has the bytes
  heddle_executable_t* executable = nullptr;
  std::unique_ptr<heddle_entry_t*[]> entries;  // of those in ChosenCode, in their order
};

// A failure's text is only the cause. [any] [may-block]
Result<Shared<Code>> load_code(SharedTable& table, const memory::Ref<memory::Device>& device,
                               const std::shared_ptr<const open::OpenModule>& module, const route::ChosenCode& chosen);

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_CODE_H_
