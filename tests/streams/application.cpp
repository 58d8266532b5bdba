// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "application.h"

#include "contract.h"
#include "host_stream.h"

namespace heddle::test {
namespace {

HostStream* host(uint64_t stream) {
  return reinterpret_cast<HostStream*>(stream);
}

uint64_t create_stream(uint64_t lag_us) {
  return reinterpret_cast<uint64_t>(new HostStream(lag_us));
}
void destroy_stream(uint64_t stream) {
  delete host(stream);
}
void enqueue(uint64_t stream, void (*function)(void* context), void* context) {
  host(stream)->enqueue([=, lag = std::chrono::microseconds(host(stream)->lag_us)] {
    std::this_thread::sleep_for(lag);
    function(context);
    return stream::kSuccess;
  });
}
void synchronize(uint64_t stream) {
  host(stream)->wait_for_all();
}
void add_memory(void* memory, uint64_t bytes, int ordinal) {
  GpuMemory::all().add(reinterpret_cast<stream::Address>(memory),
                       {bytes, MemoryOwner::kDevice, ordinal, static_cast<char*>(memory), nullptr, 0});
}
void remove_memory(void* memory) {
  GpuMemory::all().remove(reinterpret_cast<stream::Address>(memory));
}

}  // namespace

const void* application_table() noexcept {
  static const ApplicationTable table = {create_stream, destroy_stream, enqueue, synchronize, add_memory, remove_memory};
  return &table;
}

}  // namespace heddle::test
