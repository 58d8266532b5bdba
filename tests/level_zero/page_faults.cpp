// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See page_faults.h. The handler only stores to atomics and calls mmap and sigaction.
#include "tests/level_zero/page_faults.h"

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace heddle::level_zero_stand_in {

namespace {

constexpr uintptr_t kPage = 4096, kFirst = 65536;
constexpr uint32_t kMost = 64;  // pages of one kernel

struct sigaction before;
std::atomic<uintptr_t> first_address{0}, pages[kMost];
std::atomic<uint32_t> count{0};

void on_fault(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const uintptr_t page = address / kPage * kPage;
  if (info->si_code == SEGV_MAPERR && address >= kFirst) {
    const uint32_t index = count.fetch_add(1);
    if (index < kMost) {
      // Two threads may fault at one page.
      void* made =
          mmap(reinterpret_cast<void*>(page), kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      const bool is_there = made == reinterpret_cast<void*>(page) || errno == EEXIST;
      if (made == reinterpret_cast<void*>(page)) pages[index] = page;
      uintptr_t none = 0;
      first_address.compare_exchange_strong(none, address);
      errno = error;
      if (is_there) return;  // the instruction runs again
    }
  }
  sigaction(signal, &before, nullptr);  // whose fault it is then
}

}  // namespace

PageFaults::PageFaults() {
  first_address = 0;
  count = 0;
  for (std::atomic<uintptr_t>& page : pages) page = 0;
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, &before) != 0) abort();
}

PageFaults::~PageFaults() {
  sigaction(SIGSEGV, &before, nullptr);
  for (std::atomic<uintptr_t>& page : pages) {
    if (page != 0) munmap(reinterpret_cast<void*>(page.load()), kPage);
  }
}

uintptr_t PageFaults::first() const {
  return first_address;
}

}  // namespace heddle::level_zero_stand_in
