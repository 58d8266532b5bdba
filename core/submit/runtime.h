// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state that the instances of one runtime share: host, opened devices, weights, code, values computed from weights.
// Created by core/api.cpp, kept alive by modules and instances.
#ifndef HEDDLE_CORE_SUBMIT_RUNTIME_H_
#define HEDDLE_CORE_SUBMIT_RUNTIME_H_

#include <memory>

#include "core/host/host.h"
#include "core/memory/device.h"
#include "core/memory/weights.h"
#include "core/submit/code.h"

namespace heddle::submit {

struct Runtime {
  explicit Runtime(std::shared_ptr<host::Host> of) : host(std::move(of)), devices(host) {}
  std::shared_ptr<host::Host> host;
  memory::DeviceTable devices;
  memory::Weights weights;
  SharedTable code, derived;
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_RUNTIME_H_
