// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Level Zero's calls for the stream driver, on one device.
//
// A stream is a CommandStream. A completion word is a number that the host keeps: write_word signals an event, and poll_word, which reads the words,
// looks at the events. Devices of one driver share a context, so each reaches the host memory of all.
#ifndef HEDDLE_LEVEL_ZERO_BACKEND_H_
#define HEDDLE_LEVEL_ZERO_BACKEND_H_

#include "heddle/sdk/stream/code.h"
#include "level_zero/command_stream.h"
#include "level_zero/errors.h"
#include "level_zero/memory_pool.h"

namespace heddle::level_zero {

using stream::Address;
using stream::Event;
using stream::Launch;
using stream::Result;
using stream::Stream;
using stream::Word;

struct Facts : stream::Facts {
  Place place;
  uint32_t queue_group = 0;         // the first whose queues run kernels
  uint64_t largest_allocation = 0;  // without asking for more
  uint64_t timer_hz = 0, timer_mask = 0;
  uint32_t spirv_version = 0;  // 0x10200: 1.2, as a module's header has it
  bool has_half = false, has_double = false, has_int64_atomics = false;
  bool has_dots = false;             // of four bytes in 32 bits
  bool has_subgroups_of_32 = false;  // whose threads exchange values
  bool reaches_all_memory = false;   // also memory of the host that the driver has not allocated
  const char* lack = nullptr;        // what this driver needs and the device does not have
};

// What the options say.
struct Settings {
  bool immediate = true;
};

class Backend : public stream::Backend {
 public:
  // all: the facts of all devices, by ordinal; they outlive the backend.
  Backend(const Api& api, const std::vector<Facts>& all, const Settings& settings, uint32_t ordinal) noexcept;
  ~Backend() override;

  Result start(uint64_t retain_bytes, const char** out_step) override;
  uint64_t native_context() const noexcept override { return shared_ ? reinterpret_cast<uint64_t>(shared_->handle) : 0; }
  uint64_t native_stream(Stream of) const noexcept override;
  // Level Zero has nothing that is current in a thread.
  void enter(Scope*) const noexcept override {}
  void leave(const Scope&) const noexcept override {}
  Result check_context() noexcept override;

  stream::Meaning meaning(Result of) const noexcept override { return meaning_of(static_cast<ze_result_t>(of)); }
  heddle_status_code_t code_of(Result of) const noexcept override { return level_zero::code_of(static_cast<ze_result_t>(of)); }
  const char* name_of(Result of) const noexcept override { return level_zero::name_of(static_cast<ze_result_t>(of)); }
  const char* text_of(Result of) const noexcept override { return level_zero::text_of(static_cast<ze_result_t>(of)); }

  Result create_stream(uint32_t priority, Stream* out) noexcept override;
  void destroy_stream(Stream which) noexcept override;
  Result synchronize_stream(Stream which) noexcept override;
  Result is_captured(Stream which, bool* out) noexcept override;
  Result context_of(Stream which, stream::Context* out) noexcept override;
  Result create_word(Word* out) noexcept override;
  void destroy_word(const Word& word) noexcept override;
  Result write_word(Stream on, const Word& word, uint64_t value) noexcept override;
  Result wait_word(Stream on, const Word& word, uint64_t value) noexcept override;
  void poll_word(const Word& word) noexcept override;

  Result launch(const Launch& launch, bool early, Stream on) noexcept override;
  Result copy(Address to, Address from, uint64_t bytes, Stream on) noexcept override;
  Result copy_2d(const stream::Copy2d& copy, Stream on) noexcept override;
  Result copy_peer(Address to, stream::Context to_context, Address from, stream::Context from_context, uint64_t bytes,
                   Stream on) noexcept override;
  Result fill(const stream::Fill& fill, Stream on) noexcept override;
  Result fill_pitched(const stream::Fill& fill, uint64_t pitch, Stream on) noexcept override;

  Result allocate_host(uint64_t bytes, bool mapped, void** out) noexcept override;
  void free_host(void* memory) noexcept override;
  Result register_host(void* memory, uint64_t bytes, bool mapped) noexcept override;
  void unregister_host(void* memory) noexcept override;
  Result address_of(void* memory, Address* out) noexcept override;
  Result owner_of(Address of, stream::Owner* out, int* out_ordinal) noexcept override;
  int own_ordinal() const noexcept override { return ordinal_; }

  Result allocate_large(uint64_t bytes, Address* out) noexcept override { return allocate(bytes, false, out); }
  void free_large(Address which) noexcept override { memory_->free(which); }
  Result allocate_pooled(uint64_t bytes, Address* out) noexcept override { return allocate(bytes, true, out); }
  void free_pooled(Address which) noexcept override { memory_->free(which); }
  void trim_pool() noexcept override { memory_->trim(); }
  uint64_t pool_bytes() noexcept override { return memory_->pooled_bytes(); }
  // Level Zero tells how much is free only to a system monitor: what this device has, less what this process has of it.
  void memory_info(uint64_t* out_free, uint64_t* out_total) noexcept override;
  Result enable_peer(stream::Backend& other) noexcept override;

  Result create_event(bool timed, Event* out) noexcept override;
  void destroy_event(Event which) noexcept override;
  Result record_event(Event which, Stream on) noexcept override;
  Result synchronize_event(Event which) noexcept override;
  Result elapsed(Event from, Event to, float* out_ms) noexcept override;

  // code.cpp
  uint32_t rank(std::string_view format, std::string_view target) const noexcept override;
  heddle_status_t* load_module(stream::Loading& loading, stream::Module* out) override;
  void unload_module(stream::Module which) noexcept override;
  heddle_status_t* load_entry(stream::Loading& loading, stream::Module of, const heddle_entry_params_t& params,
                              stream::Entry* entry) override;

  const Api& api;
  const Facts& facts;

 private:
  // Keeps a result that ends the context: from then on, check_context returns it.
  Result seen(ze_result_t result) noexcept;
  // The same for a function that may throw.
  template <class F>
  Result guarded(const F& function) noexcept;
  Result allocate(uint64_t bytes, bool pooled, Address* out) noexcept;
  bool reaches(const Place& other) const noexcept;
  uint64_t* take_stamp();
  ze_result_t query(const Signal& signal) noexcept;
  Result await(const Signal& signal) noexcept;

  const Settings settings_;
  const std::vector<Facts>& all_;
  const int ordinal_;
  std::shared_ptr<SharedContext> shared_;
  std::unique_ptr<MemoryPool> memory_;
  std::atomic<Result> ended_{stream::kSuccess};
  std::mutex mutex_;
  std::vector<void*> stamp_blocks_;  // memory for timestamps; under mutex_, like the rest
  std::vector<uint64_t*> stamps_;    // free ones
};

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_BACKEND_H_
