// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For plugins that start threads. Knows nothing of the C ABI.
#ifndef HEDDLE_SDK_SIGNALS_BLOCKED_H_
#define HEDDLE_SDK_SIGNALS_BLOCKED_H_

#include <pthread.h>

#include <csignal>

namespace heddle::sdk {

// Blocks every signal in threads that are started during its lifetime, so that the application's handlers stay on its own threads (HD-T-01).
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace heddle::sdk
#endif  // HEDDLE_SDK_SIGNALS_BLOCKED_H_
