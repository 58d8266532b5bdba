// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's backend: memory, streams, graphs, code.
#include "host_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <deque>

#include "cpu/image.h"
#include "heddle/sdk/futex.h"
#include "host_stream.h"
#include "host_work.h"

namespace heddle::test {
namespace {

using stream::Address;
using stream::Context;
using stream::Copy2d;
using stream::Entry;
using stream::Event;
using stream::Fill;
using stream::Function;
using stream::Graph;
using stream::GraphExec;
using stream::kSuccess;
using stream::Launch;
using stream::Loading;
using stream::Meaning;
using stream::Module;
using stream::Node;
using stream::Owner;
using stream::Result;
using stream::Stream;

std::mutex mutex_of_contexts;
std::map<int, std::shared_ptr<HostContext>>& contexts =
    *new std::map<int, std::shared_ptr<HostContext>>;  // never destroyed (HD-L-02); under the lock
thread_local Context current = nullptr;                // of this thread
thread_local uint32_t patches_left = 0;                // until one fails

struct HostModule {
  cpu::Image image;  // of code for x86-64
  std::vector<sdk::portable::Program> programs;
  std::deque<HostFunction> functions;
};

HostStream* host(Stream stream) {
  return reinterpret_cast<HostStream*>(stream);
}
HostEvent* host(Event event) {
  return reinterpret_cast<HostEvent*>(event);
}
HostGraph* host(Graph graph) {
  return reinterpret_cast<HostGraph*>(graph);
}
HostGraph* host(GraphExec exec) {
  return reinterpret_cast<HostGraph*>(exec);
}
HostModule* host(Module module) {
  return reinterpret_cast<HostModule*>(module);
}

class HostBackend : public stream::Backend {
 public:
  HostBackend(int ordinal, const HostSettings& settings) : ordinal_(ordinal), settings_(settings), seeds_(settings.seed) {
    capabilities_.early_starts = true;
    capabilities_.early_edges = true;
    capabilities_.pitched_fill_unit = settings.seed % 3 == 0 ? 0 : settings.seed % 3 == 1 ? 4 : 1;
    capabilities_.registers_host = settings.seed % 4 != 0;
    capabilities_.max_pitch = uint64_t{1} << 30;
    capabilities_.waits_follow_writes = settings.waits_by_event;
    capabilities_.polls_words = settings.batch_us != 0;
    capabilities_.copies_to_peers = settings.peer;
    capabilities_.out_of_memory = kNoMemory;
    capabilities_.unsupported = kUnsupported;
  }
  ~HostBackend() override {
    if (!context_) return;
    std::lock_guard<std::mutex> lock(mutex_of_contexts);
    if (--context()->uses) return;
    if (!settings_.own_contexts) contexts.erase(ordinal_);
    if (context()->used_bytes != 0) std::abort();  // memory that the driver has not given back
  }

  Result start(uint64_t, const char** out_step) override {
    *out_step = "creating its context";
    std::lock_guard<std::mutex> lock(mutex_of_contexts);
    if (!settings_.own_contexts) shared_context_ = contexts[ordinal_];
    if (shared_context_ && shared_context_->ended != kSuccess) return shared_context_->ended;
    if (!shared_context_) {
      shared_context_ = std::make_shared<HostContext>();
      shared_context_->ordinal = ordinal_;
      if (!settings_.own_contexts) contexts[ordinal_] = shared_context_;
    }
    ++shared_context_->uses;
    context_ = reinterpret_cast<Context>(shared_context_.get());
    return kSuccess;
  }
  void enter(Scope* out) const noexcept override {
    out->before = current;
    current = context_;
  }
  void leave(const Scope& scope) const noexcept override { current = scope.before; }
  Result check_context() noexcept override { return check(); }

  Meaning meaning(Result result) const noexcept override {
    switch (result) {
      case kSuccess:
        return Meaning::kSuccess;
      case kNoMemory:
        return Meaning::kOutOfMemory;
      case kRegisteredAlready:
        return Meaning::kAlreadyRegistered;
      case kBadAddress:
      case kKernelFailed:
      case kLinkLost:
        return Meaning::kContextEnded;
      default:
        return Meaning::kFailed;
    }
  }
  heddle_status_code_t code_of(Result result) const noexcept override {
    switch (result) {
      case kSuccess:
        return HEDDLE_STATUS_OK;
      case kNoMemory:
        return HEDDLE_STATUS_RESOURCE_EXHAUSTED;
      case kBadAddress:
      case kKernelFailed:
      case kLinkLost:
        return HEDDLE_STATUS_DEVICE_LOST;
      case kRefused:
      case kLinkBroke:
        return HEDDLE_STATUS_INTERNAL;
      case kUnsupported:
        return HEDDLE_STATUS_UNIMPLEMENTED;
      default:
        return HEDDLE_STATUS_INVALID_ARGUMENT;
    }
  }
  const char* name_of(Result result) const noexcept override { return host_result_name(result); }
  const char* text_of(Result result) const noexcept override { return result == kLinkBroke ? "the link broke" : "a backend on the host"; }

  Result create_stream(uint32_t, Stream* out) noexcept override {
    if (Result bad = check()) return bad;
    *out = reinterpret_cast<Stream>(with_own_memory([&] { return new HostStream(context(), seeds_.fetch_add(1), settings_.latency_us); }));
    return kSuccess;
  }
  void destroy_stream(Stream stream) noexcept override { delete host(stream); }
  Result synchronize_stream(Stream stream) noexcept override {
    host(stream)->wait_for_all();
    return check();
  }
  Result is_captured(Stream stream, bool* out) noexcept override {
    *out = host(stream)->is_captured;
    return check();
  }
  Result context_of(Stream stream, Context* out) noexcept override {
    *out = host(stream)->context ? reinterpret_cast<Context>(host(stream)->context) : context_;
    return check();
  }
  Result create_word(stream::Word* out) noexcept override {
    const Result made = stream::Backend::create_word(out);
    return made == kSuccess && settings_.waits_by_event ? create_event(false, &out->event) : made;
  }
  void destroy_word(const stream::Word& word) noexcept override {
    if (word.event) destroy_event(word.event);
    stream::Backend::destroy_word(word);
  }
  Result write_word(Stream stream, const stream::Word& word, uint64_t value) noexcept override {
    if (settings_.failing_word && ++words_written_ >= settings_.failing_word) return kBadValue;
    const Result written = enqueue(stream, [value, address = word.address, is_shown = settings_.batch_us == 0]() -> Result {
      std::shared_ptr<void> keep;
      auto* at = reinterpret_cast<HostWord*>(bytes_at(address, sizeof(HostWord), &keep));
      if (!at) return kBadAddress;
      if (!is_shown && at->reached <= at->shown) at->first_ns = sdk::monotonic_ns();
      (is_shown ? at->shown : at->reached).store(value, std::memory_order_release);
      return kSuccess;
    });
    return written == kSuccess && word.event ? record_event(word.event, stream) : written;
  }
  void poll_word(const stream::Word& word) noexcept override {
    auto* at = reinterpret_cast<HostWord*>(word.value);
    const uint64_t reached = at->reached.load(std::memory_order_acquire), batch_ns = settings_.batch_us * 1000;
    uint64_t shown = at->shown.load(std::memory_order_acquire);
    if (shown >= reached || at->first_ns / batch_ns == sdk::monotonic_ns() / batch_ns) return;
    while (shown < reached && !at->shown.compare_exchange_weak(shown, reached)) {
    }
  }
  // By event, a wait covers what has been recorded so far: a call that comes too early waits for nothing.
  Result wait_word(Stream stream, const stream::Word& word, uint64_t value) noexcept override {
    if (word.event) {
      HostEvent* event = host(word.event);
      std::lock_guard<std::mutex> lock(event->mutex);
      return enqueue(stream, [event, number = event->recorded, context = context()]() -> Result {
        std::unique_lock<std::mutex> waiting(event->mutex);
        while (event->passed < number && context->ended == kSuccess) event->changed.wait_for(waiting, std::chrono::milliseconds(1));
        return kSuccess;
      });
    }
    return enqueue(stream, [value, address = word.address, is_shown = settings_.batch_us == 0, context = context()]() -> Result {
      std::shared_ptr<void> keep;
      for (;;) {
        auto* at = reinterpret_cast<HostWord*>(bytes_at(address, sizeof(HostWord), &keep));
        if (!at) return kBadAddress;
        if ((is_shown ? at->shown : at->reached).load(std::memory_order_acquire) >= value || context->ended != kSuccess) return kSuccess;
        std::this_thread::sleep_for(std::chrono::microseconds(5));
      }
    });
  }

  Result launch(const Launch& launch, bool, Stream stream) noexcept override {
    HostKernel kernel = kernel_of(launch);
    if (is_refused(kernel)) return kRefused;
    return enqueue(stream, [kernel = std::move(kernel), stream] { return kernel.run(host(stream)->random()); });
  }
  Result copy(Address to, Address from, uint64_t bytes, Stream stream) noexcept override {
    return enqueue(stream, [=] { return run_copy({to, from, bytes, bytes, bytes, 1}); });
  }
  Result copy_2d(const Copy2d& copy, Stream stream) noexcept override {
    if (!is_possible(copy)) return kBadValue;
    return enqueue(stream, [=] { return run_copy(copy); });
  }
  Result copy_peer(Address to, Context, Address from, Context, uint64_t bytes, Stream stream) noexcept override {
    if (settings_.peer_fault == PeerFault::kFails) return kLinkBroke;
    if (settings_.peer_fault == PeerFault::kLosesOwn) return enqueue(stream, [] { return kLinkLost; });
    return copy(to, from, bytes, stream);
  }
  Result fill(const Fill& fill, Stream stream) noexcept override {
    return fill.unit == 4 && fill.value == kRefusedFill ? kBadValue : fill_pitched(fill, fill.unit, stream);
  }
  Result fill_pitched(const Fill& fill, uint64_t pitch, Stream stream) noexcept override {
    if (!is_possible(fill) || (pitch != fill.unit && fill.unit > capabilities_.pitched_fill_unit)) return kBadValue;
    return enqueue(stream, [=] { return run_fill(fill, pitch); });
  }

  Result allocate_host(uint64_t bytes, bool, void** out) noexcept override {
    if (Result bad = check()) return bad;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return kNoMemory;
    add_host_memory(memory, bytes);
    *out = memory;
    return kSuccess;
  }
  void free_host(void* memory) noexcept override { munmap(memory, GpuMemory::all().remove(reinterpret_cast<Address>(memory)).size); }
  Result register_host(void* memory, uint64_t bytes, bool) noexcept override {
    if (Result bad = check()) return bad;
    const auto address = reinterpret_cast<Address>(memory);
    if (GpuMemory::all().overlaps(address, bytes)) return kRegisteredAlready;
    add_host_memory(memory, bytes);
    return kSuccess;
  }
  void unregister_host(void* memory) noexcept override { GpuMemory::all().remove(reinterpret_cast<Address>(memory)); }
  Result address_of(void* memory, Address* out) noexcept override {
    *out = reinterpret_cast<Address>(memory);
    return check();
  }
  Result owner_of(Address address, Owner* out, int* out_ordinal) noexcept override {
    GpuMemory::Block block;
    uint64_t ignored = 0;
    if (GpuMemory::all().find(address, 1, &block, &ignored)) {
      *out = block.owner == MemoryOwner::kHost ? Owner::kHost : Owner::kDevice;
      *out_ordinal = block.ordinal;
    }
    return check();
  }
  int own_ordinal() const noexcept override { return ordinal_; }

  Result allocate_large(uint64_t bytes, Address* out) noexcept override { return allocate(bytes, out); }
  void free_large(Address block) noexcept override { context()->used_bytes -= GpuMemory::all().free(block); }
  Result allocate_pooled(uint64_t bytes, Address* out) noexcept override {
    if (!is_full_ && !is_trimmed_.exchange(false) && seeds_.fetch_add(1) % 97 == 0) is_full_ = true;
    const Result result = allocate(bytes, out);
    return is_full_ ? kNoMemory : result;  // a call can fail after it has made the block
  }
  void free_pooled(Address block) noexcept override { free_large(block); }
  void trim_pool() noexcept override {
    is_full_ = false;
    is_trimmed_ = true;
  }
  uint64_t pool_bytes() noexcept override { return 0; }
  void memory_info(uint64_t* out_free, uint64_t* out_total) noexcept override {
    *out_total = settings_.memory_bytes;
    *out_free = settings_.memory_bytes - std::min(settings_.memory_bytes, context()->used_bytes.load());
  }
  Result enable_peer(stream::Backend&) noexcept override { return check(); }

  Result create_event(bool, Event* out) noexcept override {
    auto* event = with_own_memory([] { return new HostEvent; });
    event->context = context();
    *out = reinterpret_cast<Event>(event);
    return check();
  }
  void destroy_event(Event event) noexcept override { delete host(event); }
  Result record_event(Event event, Stream stream) noexcept override {
    uint64_t number;
    {
      std::lock_guard<std::mutex> lock(host(event)->mutex);
      number = ++host(event)->recorded;
    }
    return enqueue(stream, [event = host(event), number]() -> Result {
      std::lock_guard<std::mutex> lock(event->mutex);
      event->passed = number;
      event->time_ns = sdk::monotonic_ns();
      event->changed.notify_all();
      return kSuccess;
    });
  }
  Result synchronize_event(Event handle) noexcept override {
    HostEvent* event = host(handle);
    std::unique_lock<std::mutex> lock(event->mutex);
    const uint64_t last = event->recorded;
    while (event->passed < last && check() == kSuccess) event->changed.wait_for(lock, std::chrono::milliseconds(1));
    return check();
  }
  Result elapsed(Event from, Event to, float* out_ms) noexcept override {
    *out_ms = static_cast<float>(static_cast<double>(host(to)->time_ns - host(from)->time_ns) * 1e-6);
    return check();
  }

  Result create_graph(Graph* out) noexcept override {
    if (!settings_.record) return kUnsupported;
    *out = reinterpret_cast<Graph>(with_own_memory([] { return new HostGraph; }));
    return check();
  }
  void destroy_graph(Graph graph) noexcept override { delete host(graph); }
  Result add_kernel(Graph graph, const Node* before, size_t count, const Launch& launch, Node* out) noexcept override {
    HostNode node;
    node.kind = HostNode::Kind::kKernel;
    node.kernel = kernel_of(launch);
    if (is_refused(node.kernel)) return kRefused;
    return add(graph, before, count, std::move(node), out);
  }
  Result add_copy(Graph graph, const Node* before, size_t count, const Copy2d& copy, Node* out) noexcept override {
    if (!is_possible(copy)) return kBadValue;
    HostNode node;
    node.kind = HostNode::Kind::kCopy;
    node.copy = copy;
    return add(graph, before, count, std::move(node), out);
  }
  Result add_fill(Graph graph, const Node* before, size_t count, const Fill& fill, Node* out) noexcept override {
    if (!is_possible(fill)) return kBadValue;
    HostNode node;
    node.kind = HostNode::Kind::kFill;
    node.fill = fill;
    return add(graph, before, count, std::move(node), out);
  }
  Result add_empty(Graph graph, const Node* before, size_t count, Node* out) noexcept override {
    return add(graph, before, count, HostNode(), out);
  }
  Result add_early_edge(Graph graph, Node from, Node to) noexcept override {
    with_own_memory([&] { at(*host(graph), to).before.push_back(reinterpret_cast<uintptr_t>(from)); });
    return check();
  }
  Result instantiate(Graph graph, GraphExec* out) noexcept override {
    *out = reinterpret_cast<GraphExec>(with_own_memory([&] { return new HostGraph(*host(graph)); }));
    return check();
  }
  void destroy_graph_exec(GraphExec exec) noexcept override { delete host(exec); }
  Result patch_kernel(GraphExec exec, Node node, const Launch& launch) noexcept override {
    if (finds_no_room()) return kNoMemory;
    at(*host(exec), node).kernel = kernel_of(launch);
    return check();
  }
  Result patch_copy(GraphExec exec, Node node, const Copy2d& copy) noexcept override {
    if (finds_no_room()) return kNoMemory;
    if (copy.rows != 1 || !is_possible(copy)) return kBadValue;
    at(*host(exec), node).copy = copy;
    return check();
  }
  Result patch_fill(GraphExec exec, Node node, const Fill& fill) noexcept override {
    if (finds_no_room()) return kNoMemory;
    if (!is_possible(fill)) return kBadValue;
    at(*host(exec), node).fill = fill;
    return check();
  }
  Result disable_node(GraphExec exec, Node node) noexcept override {
    at(*host(exec), node).is_enabled = false;
    return check();
  }
  Result launch_graph(GraphExec exec, Stream stream) noexcept override {
    HostGraph copied = with_own_memory([&] { return *host(exec); });
    return enqueue(stream, [nodes = std::move(copied), stream] { return run_graph(nodes, host(stream)->random()); });
  }

  uint32_t rank(std::string_view format, std::string_view target) const noexcept override {
    if (format == HEDDLE_CODE_PORTABLE) return target == "generic" ? 1 : 0;
    if (format != HEDDLE_CODE_X86_64_ELF) return 0;
    __builtin_cpu_init();
    if (target == "x86-64-v3") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 30 : 0;
    if (target == "x86-64-v4") return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") ? 40 : 0;
    return 0;
  }
  heddle_status_t* load_module(Loading& loading, Module* out) override {
    auto module = std::make_unique<HostModule>();
    if (sdk::view_of(loading.params.format) == HEDDLE_CODE_PORTABLE) {
      const std::string_view code(static_cast<const char*>(loading.params.code), loading.params.code_bytes);
      std::string reason;
      if (!sdk::portable::load(code, &module->programs, &reason)) return loading.failed(HEDDLE_STATUS_INVALID_ARGUMENT, reason);
      *out = reinterpret_cast<Module>(module.release());
      return nullptr;
    }
    cpu::ImageError error;
    if (!cpu::Image::load(loading.params.code, loading.params.code_bytes, &module->image, &error)) {
      return loading.failed(error.code, error.text);
    }
    *out = reinterpret_cast<Module>(module.release());
    return nullptr;
  }
  void unload_module(Module module) noexcept override { delete host(module); }
  heddle_status_t* load_entry(Loading& loading, Module module, const heddle_entry_params_t& params, Entry* entry) override {
    for (const sdk::portable::Program& program : host(module)->programs) {
      const sdk::portable::Kernel& code = program.kernel();
      if (code.name != entry->name) continue;
      if (!entry->plain || !sdk::portable::takes_bindings(code, entry->binding_count) || entry->constants_bytes != code.symbols * 8)
        return loading.entry_failed(HEDDLE_STATUS_INVALID_ARGUMENT, "its bindings and constants are not those of its code");
      HostFunction& function = host(module)->functions.emplace_back();
      function.program = &program;
      entry->function = reinterpret_cast<Function>(&function);
      return nullptr;
    }
    const heddle_x86_64_kernel_t kernel = host(module)->programs.empty() ? host(module)->image.find_kernel(entry->name) : nullptr;
    if (!kernel) return loading.entry_failed(HEDDLE_STATUS_NOT_FOUND, "its code has no function of that name");
    HostFunction& function =
        host(module)->functions.emplace_back(HostFunction{kernel, nullptr, params.workspace_bytes, entry->name == "fail"});
    entry->function = reinterpret_cast<Function>(&function);
    entry->starts_early |= settings_.early;
    return nullptr;
  }

 private:
  bool is_possible(const Copy2d& copy) const {
    return copy.from_stride >= copy.row_bytes && copy.to_stride >= copy.row_bytes &&
           std::max(copy.from_stride, copy.to_stride) <= capabilities_.max_pitch;
  }
  static bool is_possible(const Fill& fill) { return fill.to % fill.unit == 0 && fill.value <= (UINT32_MAX >> (32 - 8 * fill.unit)); }
  HostContext* context() const { return reinterpret_cast<HostContext*>(context_); }
  // Every call needs the context to be current, and fails once it has ended.
  Result check() const {
    if (current != context_) std::abort();
    return context()->ended;
  }
  template <typename Work>
  Result enqueue(Stream stream, Work work) {
    if (Result bad = check()) return bad;
    if (host(stream)->context) {
      with_own_memory([&] { return host(stream)->enqueue(LateStream::Work(work)); });
      return kSuccess;
    }
    // The application's, which outlives the context and does not end with it.
    with_own_memory([&] { return host(stream)->enqueue(of_application(stream, work)); });
    return kSuccess;
  }
  template <typename Work>
  LateStream::Work of_application(Stream stream, const Work& work) {
    return [work, context = shared_context_, lag = std::chrono::microseconds(host(stream)->lag_us)] {
      std::this_thread::sleep_for(lag);
      if (context->ended != kSuccess) return kSuccess;
      if (const Result result = work()) context->ended = result;
      return kSuccess;
    };
  }
  static void add_host_memory(void* memory, uint64_t bytes) {
    with_own_memory([&] {
      GpuMemory::all().add(reinterpret_cast<Address>(memory), {bytes, MemoryOwner::kHost, -1, static_cast<char*>(memory), nullptr, 0});
    });
  }
  static HostKernel kernel_of(const Launch& launch) {
    return with_own_memory([&] { return HostKernel(launch); });
  }
  // Its launch fails, and a graph with it cannot be built: what it returns is not what ends the context.
  bool is_refused(const HostKernel& kernel) const {
    return settings_.loss_code >= 0 && kernel.known_result() != 0 && kernel.known_result() != settings_.loss_code;
  }
  static bool finds_no_room() { return patches_left != 0 && --patches_left == 0; }
  Result allocate(uint64_t bytes, Address* out) {
    if (Result bad = check()) return bad;
    if (context()->used_bytes.fetch_add(bytes) + bytes <= settings_.memory_bytes) {
      *out = with_own_memory([&] { return GpuMemory::all().allocate(bytes, ordinal_); });
    }
    if (*out) return kSuccess;
    context()->used_bytes -= bytes;
    return kNoMemory;
  }
  static HostNode& at(HostGraph& graph, Node node) { return graph[reinterpret_cast<uintptr_t>(node) - 1]; }
  Result add(Graph graph, const Node* before, size_t count, HostNode node, Node* out) {
    with_own_memory([&] {
      node.before.reserve(count);
      host(graph)->reserve(host(graph)->size() + 1);
    });
    for (size_t i = 0; i < count; ++i) node.before.push_back(reinterpret_cast<uintptr_t>(before[i]));
    host(graph)->push_back(std::move(node));
    *out = reinterpret_cast<Node>(host(graph)->size());
    return check();
  }

  const int ordinal_;
  const HostSettings settings_;
  std::shared_ptr<HostContext> shared_context_;
  std::atomic<uint64_t> words_written_{0};
  std::atomic<uint64_t> seeds_;
  std::atomic<bool> is_full_{false}, is_trimmed_{false};  // of the pool
};

}  // namespace

const char* host_result_name(Result result) noexcept {
  switch (result) {
    case kNoMemory:
      return "NO_MEMORY";
    case kBadAddress:
      return "BAD_ADDRESS";
    case kKernelFailed:
      return "KERNEL_FAILED";
    case kRegisteredAlready:
      return "REGISTERED_ALREADY";
    case kBadValue:
      return "BAD_VALUE";
    case kRefused:
      return "REFUSED";
    case kUnsupported:
      return "UNSUPPORTED";
    case kLinkBroke:
      return "LINK_BROKE";
    case kLinkLost:
      return "LINK_LOST";
    default:
      return nullptr;
  }
}

std::unique_ptr<stream::Backend> make_host_backend(int ordinal, const HostSettings& settings) {
  return std::make_unique<HostBackend>(ordinal, settings);
}

void end_context(stream::Backend& backend, Result result) noexcept {
  reinterpret_cast<HostContext*>(backend.context())->ended = result;
}

void fail_a_patch(uint32_t nth) noexcept {
  patches_left = nth;
}

}  // namespace heddle::test
