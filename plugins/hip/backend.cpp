// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HIP's calls for the stream driver. HIP has no contexts worth the name: a device is current in a thread by its number, and every call of a thread
// leaves its error for the next hipGetLastError, which an application may call.
#include "hip/backend.h"

namespace heddle::hip {
namespace {

using stream::Address;
using stream::Context;
using stream::Copy2d;
using stream::Event;
using stream::Fill;
using stream::Graph;
using stream::GraphExec;
using stream::Launch;
using stream::Meaning;
using stream::Node;
using stream::Owner;
using stream::Result;
using stream::Stream;

// The driver's handles are HIP's.
struct Hip {
  static StreamHandle of(Stream handle);
  static EventHandle of(Event handle);
  static GraphHandle of(Graph handle);
  static GraphExecHandle of(GraphExec handle);
  static NodeHandle of(Node handle);
};
template <typename Handle>
auto of(Handle handle) noexcept {
  return reinterpret_cast<decltype(Hip::of(handle))>(handle);
}
template <typename Handle>
auto into(Handle* out) noexcept {
  return reinterpret_cast<decltype(of(*out))*>(out);
}
const NodeHandle* all(const Node* nodes) noexcept {
  return reinterpret_cast<const NodeHandle*>(nodes);
}
void* at(Address address) noexcept {
  return reinterpret_cast<void*>(address);
}

// What stands for a context: an address of its own for each device, the same for all its handles.
constexpr int kMostDevices = 256;
char contexts[kMostDevices];
Context context_at(int ordinal) noexcept {
  return reinterpret_cast<Context>(contexts + ordinal);
}
int ordinal_of(Context context) noexcept {
  return static_cast<int>(reinterpret_cast<const char*>(context) - contexts);
}

// HIP keeps each command of a stream in memory until somebody records an event on the stream, or waits for or queries it. Nobody does where threads look
// at a word instead. So a queue's stream is queried once in so many writes of its word.
constexpr uint64_t kWritesKept = 16;

// The arguments of a kernel as one block of memory, which HIP copies during the call.
struct Packed {
  explicit Packed(const Launch& launch) noexcept : bytes(launch.entry.arguments_bytes) {
    extra[1] = const_cast<char*>(launch.arguments);
    extra[3] = &bytes;
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  void** get() noexcept { return bytes ? extra : nullptr; }

 private:
  size_t bytes;
  void* extra[5] = {kBuffer, nullptr, kBufferSize, nullptr, kEnd};
};

KernelNode node_of(const Launch& launch, Packed* packed) noexcept {
  const auto& [x, y, z] = launch.entry.block;
  const auto& [columns, rows, layers] = launch.grid;
  return {{x, y, z},
          packed->get(),
          reinterpret_cast<FunctionHandle>(launch.entry.function),
          {columns, rows, layers},
          nullptr,
          launch.entry.shared_bytes};
}

MemsetNode node_of(const Fill& fill) noexcept {
  return {at(fill.to), fill.unit, 1, fill.unit * fill.count, fill.value, fill.count};
}

class Backend final : public Code {
 public:
  Backend(const Api& api, const Facts& known) noexcept : Code(api, known) {
    capabilities_.max_pitch = INT32_MAX;
    capabilities_.out_of_memory = kOutOfMemory;
    capabilities_.unsupported = kNotSupported;
    // Streams share few hardware queues, in order: a wait before what it waits for would block both.
    capabilities_.waits_follow_writes = true;
  }

  ~Backend() override {
    if (!context_) return;
    stream::ContextScope scope(*this);
    if (allocations_) hip.hipStreamDestroy(of(allocations_));
    if (pool_) hip.hipMemPoolDestroy(pool_);
    if (bytes_) hip.hipHostFree(bytes_);
  }

  Result start(uint64_t retain_bytes, const char** out_step) override {
    *out_step = "making it current";
    if (facts.ordinal >= kMostDevices) return kInvalidDevice;
    context_ = context_at(facts.ordinal);
    stream::ContextScope scope(*this);
    return begin(retain_bytes, out_step);
  }

  uint64_t native_context() const noexcept override { return static_cast<uint64_t>(facts.ordinal); }

  void enter(Scope* out) const noexcept override {
    out->error = hip.hipPeekAtLastError();
    int mode = kRelaxedCapture;
    hip.hipThreadExchangeStreamCaptureMode(&mode);
    out->mode = static_cast<uint32_t>(mode);
    if (hip.hipGetDevice(&out->ordinal) == kOk && out->ordinal == facts.ordinal) return;
    out->is_pushed = hip.hipSetDevice(facts.ordinal) == kOk;
  }

  void leave(const Scope& scope) const noexcept override {
    if (scope.is_pushed && scope.ordinal >= 0) hip.hipSetDevice(scope.ordinal);
    int mode = static_cast<int>(scope.mode);
    hip.hipThreadExchangeStreamCaptureMode(&mode);
    if (scope.error == kOk) hip.hipGetLastError();  // which forgets an error of ours
  }

  Result check_context() noexcept override {
    const int asked = hip.hipStreamQuery(of(allocations_));
    return asked == kNotReady ? kOk : asked;
  }

  Meaning meaning(Result result) const noexcept override { return meaning_of(result); }
  heddle_status_code_t code_of(Result result) const noexcept override { return hip::code_of(result); }
  const char* name_of(Result result) const noexcept override { return hip.hipGetErrorName(result); }
  const char* text_of(Result result) const noexcept override { return hip.hipGetErrorString(result); }

  Result create_stream(uint32_t priority, Stream* out) noexcept override {
    int lowest = 0, highest = 0;
    const int asked = hip.hipDeviceGetStreamPriorityRange(&lowest, &highest);
    if (asked != kOk) return asked;
    const int normal = lowest > 0 && highest < 0 ? 0 : lowest;  // HIP's lowest is below normal
    return hip.hipStreamCreateWithPriority(into(out), kNonBlocking, priority ? highest : normal);
  }
  void destroy_stream(Stream handle) noexcept override { hip.hipStreamDestroy(of(handle)); }
  Result synchronize_stream(Stream handle) noexcept override { return hip.hipStreamSynchronize(of(handle)); }

  Result is_captured(Stream handle, bool* out) noexcept override {
    int state = 0;
    const int asked = hip.hipStreamIsCapturing(of(handle), &state);
    *out = asked == kCaptureImplicit || state != 0;
    return asked == kCaptureImplicit ? kOk : asked;
  }

  Result context_of(Stream handle, Context* out) noexcept override {
    int ordinal = -1;
    if (hip.hipStreamGetDevice) {
      if (const int bad = hip.hipStreamGetDevice(of(handle), &ordinal)) return bad;
    } else if (hip.hipGetStreamDeviceId) {
      ordinal = hip.hipGetStreamDeviceId(of(handle));
    } else {
      return kNotSupported;
    }
    if (ordinal < 0 || ordinal >= kMostDevices) return kInvalidHandle;
    *out = context_at(ordinal);
    return kOk;
  }

  // A word is pinned memory. Where streams can only wait for memory of signals, it has an event, recorded after each write.
  Result create_word(stream::Word* out) noexcept override {
    const Result made = Code::create_word(out);
    return made == kOk && words_have_events_ ? create_event(false, &out->event) : made;
  }
  void destroy_word(const stream::Word& word) noexcept override {
    if (word.event) destroy_event(word.event);
    Code::destroy_word(word);
  }
  Result write_word(Stream handle, const stream::Word& word, uint64_t value) noexcept override {
    const int written = hip.hipStreamWriteValue64(of(handle), at(word.address), value, 0);
    if (written != kOk) return written;
    if (word.event) return hip.hipEventRecord(of(word.event), of(handle));
    if (value % kWritesKept != 0) return kOk;  // the values of a queue's word are consecutive
    const int asked = hip.hipStreamQuery(of(handle));
    return asked == kNotReady ? kOk : asked;
  }
  Result wait_word(Stream handle, const stream::Word& word, uint64_t value) noexcept override {
    if (word.event) return hip.hipStreamWaitEvent(of(handle), of(word.event), 0);
    return hip.hipStreamWaitValue64(of(handle), at(word.address), value, kAtLeast, UINT64_MAX);
  }

  Result launch(const Launch& launch, bool, Stream handle) noexcept override {
    Packed packed(launch);
    const auto& [x, y, z] = launch.entry.block;
    const auto& [columns, rows, layers] = launch.grid;
    return hip.hipModuleLaunchKernel(reinterpret_cast<FunctionHandle>(launch.entry.function), columns, rows, layers, x, y, z,
                                     launch.entry.shared_bytes, of(handle), nullptr, packed.get());
  }
  Result copy(Address to, Address from, uint64_t bytes, Stream handle) noexcept override {
    return hip.hipMemcpyAsync(at(to), at(from), bytes, kAnyDirection, of(handle));
  }
  Result copy_2d(const Copy2d& copy, Stream handle) noexcept override {
    return hip.hipMemcpy2DAsync(at(copy.to), copy.to_stride, at(copy.from), copy.from_stride, copy.row_bytes, copy.rows, kAnyDirection,
                                of(handle));
  }
  Result copy_peer(Address to, Context to_context, Address from, Context from_context, uint64_t bytes, Stream handle) noexcept override {
    return hip.hipMemcpyPeerAsync(at(to), ordinal_of(to_context), at(from), ordinal_of(from_context), bytes, of(handle));
  }
  Result fill(const Fill& fill, Stream handle) noexcept override {
    // HIP 5.2 writes elsewhere if less than the rest of 8 aligned bytes is filled.
    if (const uint64_t bytes = fill.count * fill.unit, before = fill.to % 8; before != 0 && bytes < 8 - before) {
      for (uint64_t i = 0; i < bytes; ++i) {
        const unsigned char* byte = bytes_ + (fill.value >> (8 * (i % fill.unit)) & 0xff);
        if (const int bad = hip.hipMemcpyAsync(at(fill.to + i), byte, 1, kAnyDirection, of(handle))) return bad;
      }
      return kOk;
    }
    if (fill.unit == 1) return hip.hipMemsetD8Async(at(fill.to), static_cast<unsigned char>(fill.value), fill.count, of(handle));
    if (fill.unit == 2) return hip.hipMemsetD16Async(at(fill.to), static_cast<unsigned short>(fill.value), fill.count, of(handle));
    return hip.hipMemsetD32Async(at(fill.to), static_cast<int>(fill.value), fill.count, of(handle));
  }
  Result fill_pitched(const Fill& fill, uint64_t pitch, Stream handle) noexcept override {  // the unit is 1
    if (fill.count == 1) return this->fill(fill, handle);
    return hip.hipMemset2DAsync(at(fill.to), pitch, static_cast<int>(fill.value), 1, fill.count, of(handle));
  }

  // Memory of the host. It is coherent, so that the host sees what streams have written without a synchronisation.
  Result allocate_host(uint64_t bytes, bool mapped, void** out) noexcept override {
    return hip.hipHostMalloc(out, bytes, kPortable | kCoherent | (mapped ? kMapped : 0));
  }
  void free_host(void* memory) noexcept override { hip.hipHostFree(memory); }
  Result register_host(void* memory, uint64_t bytes, bool mapped) noexcept override {
    return hip.hipHostRegister(memory, bytes, kPortable | (mapped ? kMapped : 0));
  }
  void unregister_host(void* memory) noexcept override { hip.hipHostUnregister(memory); }
  Result address_of(void* memory, Address* out) noexcept override {
    void* seen = nullptr;
    const int asked = hip.hipHostGetDevicePointer(&seen, memory, 0);
    *out = reinterpret_cast<Address>(seen);
    return asked;
  }
  Result owner_of(Address address, Owner* out, int* out_ordinal) noexcept override {
    *out = Owner::kUnknown;
    PointerAttributes found = {};
    const int asked = address ? hip.hipPointerGetAttributes(&found, at(address)) : kInvalidValue;
    if (asked != kOk) return asked == kInvalidValue ? kOk : asked;  // HIP 5 about memory that it does not know
    const int host = hip.major < 6 ? 0 : 1;                         // the next number is that of a device
    if (found.type == host) *out = Owner::kHost;
    if (found.type != host + 1) return kOk;
    *out = Owner::kDevice;
    *out_ordinal = found.device;
    return kOk;
  }
  int own_ordinal() const noexcept override { return facts.ordinal; }

  Result allocate_large(uint64_t bytes, Address* out) noexcept override {
    void* block = nullptr;
    const int made = hip.hipMalloc(&block, bytes);
    *out = reinterpret_cast<Address>(block);
    return made;
  }
  void free_large(Address block) noexcept override { hip.hipFree(at(block)); }
  Result allocate_pooled(uint64_t bytes, Address* out) noexcept override {
    if (!pool_) return allocate_large(bytes, out);
    void* block = nullptr;
    const int made = hip.hipMallocFromPoolAsync(&block, bytes, pool_, of(allocations_));
    *out = reinterpret_cast<Address>(block);
    // Memory of a pool is valid on other streams once its own, which does nothing else, has reached the allocation.
    return made == kOk ? hip.hipStreamSynchronize(of(allocations_)) : made;
  }
  void free_pooled(Address block) noexcept override { pool_ ? hip.hipFreeAsync(at(block), of(allocations_)) : hip.hipFree(at(block)); }
  void trim_pool() noexcept override {
    if (!pool_) return;
    hip.hipStreamSynchronize(of(allocations_));
    hip.hipMemPoolTrimTo(pool_, 0);
  }
  uint64_t pool_bytes() noexcept override {
    uint64_t bytes = 0;
    if (pool_) hip.hipMemPoolGetAttribute(pool_, kReservedNow, &bytes);
    return bytes;
  }
  void memory_info(uint64_t* out_free, uint64_t* out_total) noexcept override { hip.hipMemGetInfo(out_free, out_total); }
  Result enable_peer(stream::Backend& other) noexcept override {
    auto& peer = static_cast<Backend&>(other);
    const int enabled = hip.hipDeviceEnablePeerAccess(peer.facts.ordinal, 0);
    if ((enabled != kOk && enabled != kPeerAlreadyEnabled) || !peer.pool_) return enabled == kPeerAlreadyEnabled ? kOk : enabled;
    const PoolAccess access = {{1, facts.ordinal}, 3};  // to this device, for reading and writing
    return hip.hipMemPoolSetAccess(peer.pool_, &access, 1);
  }

  Result create_event(bool timed, Event* out) noexcept override { return hip.hipEventCreateWithFlags(into(out), timed ? 0 : kNoTiming); }
  void destroy_event(Event event) noexcept override { hip.hipEventDestroy(of(event)); }
  Result record_event(Event event, Stream handle) noexcept override { return hip.hipEventRecord(of(event), of(handle)); }
  Result synchronize_event(Event event) noexcept override { return hip.hipEventSynchronize(of(event)); }
  Result elapsed(Event from, Event to, float* out_ms) noexcept override { return hip.hipEventElapsedTime(out_ms, of(from), of(to)); }

  // Graphs. A copy of one row is a node of its own kind, which alone can be patched.
  Result create_graph(Graph* out) noexcept override { return hip.hipGraphCreate(into(out), 0); }
  void destroy_graph(Graph graph) noexcept override { hip.hipGraphDestroy(of(graph)); }
  Result add_kernel(Graph graph, const Node* before, size_t count, const Launch& launch, Node* out) noexcept override {
    Packed packed(launch);
    const KernelNode node = node_of(launch, &packed);
    return hip.hipGraphAddKernelNode(into(out), of(graph), all(before), count, &node);
  }
  Result add_copy(Graph graph, const Node* before, size_t count, const Copy2d& copy, Node* out) noexcept override {
    void *to = at(copy.to), *from = at(copy.from);
    if (copy.rows == 1) {
      return hip.hipGraphAddMemcpyNode1D(into(out), of(graph), all(before), count, to, from, copy.row_bytes, kAnyDirection);
    }
    CopyNode node = {};
    node.to = {to, copy.to_stride, copy.row_bytes, copy.rows};
    node.from = {from, copy.from_stride, copy.row_bytes, copy.rows};
    node.extent[0] = copy.row_bytes;
    node.extent[1] = copy.rows;
    node.extent[2] = 1;
    node.kind = kAnyDirection;
    return hip.hipGraphAddMemcpyNode(into(out), of(graph), all(before), count, &node);
  }
  Result add_fill(Graph graph, const Node* before, size_t count, const Fill& fill, Node* out) noexcept override {
    const MemsetNode node = node_of(fill);
    return hip.hipGraphAddMemsetNode(into(out), of(graph), all(before), count, &node);
  }
  Result add_empty(Graph graph, const Node* before, size_t count, Node* out) noexcept override {
    return hip.hipGraphAddEmptyNode(into(out), of(graph), all(before), count);
  }
  Result instantiate(Graph graph, GraphExec* out) noexcept override { return hip.hipGraphInstantiateWithFlags(into(out), of(graph), 0); }
  void destroy_graph_exec(GraphExec exec) noexcept override { hip.hipGraphExecDestroy(of(exec)); }
  Result patch_kernel(GraphExec exec, Node node, const Launch& launch) noexcept override {
    Packed packed(launch);
    const KernelNode changed = node_of(launch, &packed);
    return hip.hipGraphExecKernelNodeSetParams(of(exec), of(node), &changed);
  }
  Result patch_copy(GraphExec exec, Node node, const Copy2d& copy) noexcept override {
    return hip.hipGraphExecMemcpyNodeSetParams1D(of(exec), of(node), at(copy.to), at(copy.from), copy.row_bytes, kAnyDirection);
  }
  Result patch_fill(GraphExec exec, Node node, const Fill& fill) noexcept override {
    const MemsetNode changed = node_of(fill);
    return hip.hipGraphExecMemsetNodeSetParams(of(exec), of(node), &changed);
  }
  Result disable_node(GraphExec exec, Node node) noexcept override { return hip.hipGraphNodeSetEnabled(of(exec), of(node), 0); }
  Result launch_graph(GraphExec exec, Stream handle) noexcept override { return hip.hipGraphLaunch(of(exec), of(handle)); }

 private:
  // The steps of start() with the device current.
  Result begin(uint64_t retain_bytes, const char** out_step) noexcept {
    *out_step = "creating a stream";
    if (Result bad = create_stream(0, &allocations_)) return bad;
    if (facts.has_pools) {
      PoolProperties wanted = {};
      wanted.type = 1;  // pinned, the only one
      wanted.location = {1, facts.ordinal};
      // Without one, blocks are allocated one by one; HIP 6.0.0 calls a device capable that is not (api.h).
      if (hip.hipMemPoolCreate(&pool_, &wanted) != kOk) pool_ = nullptr;
      *out_step = "configuring its memory pool";
      if (Result bad = pool_ ? hip.hipMemPoolSetAttribute(pool_, kReleaseThreshold, &retain_bytes) : kOk) return bad;
    }
    *out_step = "allocating pinned memory";
    void *bytes = nullptr, *block = nullptr;
    if (Result bad = allocate_host(256, true, &bytes)) return bad;
    bytes_ = static_cast<unsigned char*>(bytes);
    for (int i = 0; i < 256; ++i) bytes_[i] = static_cast<unsigned char>(i);
    // The first release of memory starts HIP's default stream, with a thread: better now than in the middle of work.
    *out_step = "allocating memory";
    if (Result bad = hip.hipMalloc(&block, 256)) return bad;
    hip.hipFree(block);
    // Whether streams can wait for this kind of memory: with a wait that is over at once.
    *out_step = "trying a wait for memory";
    stream::Word word;
    Result result = create_word(&word);
    if (result == kOk) {
      words_have_events_ = hip.hipStreamWaitValue64(of(allocations_), at(word.address), 0, kAtLeast, UINT64_MAX) != kOk;
      result = hip.hipStreamSynchronize(of(allocations_));
    }
    destroy_word(word);
    return result;
  }

  PoolHandle pool_ = nullptr;
  Stream allocations_ = nullptr;    // for allocations and frees only
  unsigned char* bytes_ = nullptr;  // pinned: each value of a byte once
  bool words_have_events_ = false;
};

}  // namespace

std::unique_ptr<stream::Backend> make_backend(const Api& api, const Facts& facts) {
  return std::make_unique<Backend>(api, facts);
}

}  // namespace heddle::hip
