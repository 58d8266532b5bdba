// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A heddle-target-host process, and frames to and from it. Knows nothing of what is in the frames.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "heddle/sdk/target/messages.h"

namespace heddle::plugins {

class TargetProcess {
 public:
  TargetProcess() = default;
  // Kills the process if it does not end by itself.
  ~TargetProcess();
  TargetProcess(const TargetProcess&) = delete;
  TargetProcess& operator=(const TargetProcess&) = delete;

  // An error text, or nothing.
  std::string start(const std::string& program);
  bool runs() const { return pid_ > 0; }

  struct Frame {
    sdk::target::Kind kind;
    std::string payload;
  };
  // Sends a frame and waits for the answer. An error text, or nothing. After an error the process is gone.
  std::string exchange(const std::string& frame, std::chrono::milliseconds timeout, uint64_t most_bytes, Frame& answer);
  void stop();

 private:
  // Why it has ended: "it was ended by signal 11 (Segmentation fault)". Kills it first.
  std::string ended(const std::string& otherwise);
  pid_t pid_ = 0;
  int socket_ = -1;
};

}  // namespace heddle::plugins
