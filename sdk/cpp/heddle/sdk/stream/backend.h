// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a vendor with streams implements: the calls of its library, for one opened device. The stream driver has all the rest: queues, completion,
// lists, recordings, transfers, files, and the checks with their texts.
//
// Handles are the vendor's own, converted. A Result is the vendor's too; 0 is success. Unless a comment says otherwise, a function is called
// between enter() and leave(), from any thread, and several may be called at the same time. Outputs are 0 or NULL before the call. A function that
// fails leaves them so, or it has made the object all the same, which the driver then releases. Sizes, counts and addresses are never 0 unless a
// comment says so.
#ifndef HEDDLE_SDK_STREAM_BACKEND_H_
#define HEDDLE_SDK_STREAM_BACKEND_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "heddle/driver.h"

namespace heddle::sdk::stream {

using Address = uint64_t;  // of memory of the device, or of host memory that the device reaches
using Result = int;
constexpr Result kSuccess = 0;

using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Graph = struct GraphHandle*;
using GraphExec = struct GraphExecHandle*;
using Node = struct NodeHandle*;

struct Argument;
struct Entry;
class Loading;

// What the stream driver must know of a result.
enum class Meaning {
  kSuccess,
  kFailed,
  kContextEnded,       // from now on every call on the context returns the same (HD-S-02)
  kOutOfMemory,        // of the device, or of pinned memory
  kAlreadyRegistered,  // of register_host: the memory is pinned already
};

// Whose memory an address is.
enum class Owner { kUnknown, kHost, kDevice };

// A completion word in memory of the host that the device reaches. It belongs to a context and is passed from queue to queue; its value only grows.
struct Word {
  std::atomic<uint64_t>* value = nullptr;
  Address address = 0;               // of the value, for the device
  Event event = nullptr;             // for a vendor whose streams cannot wait for memory; set by create_word
  std::atomic<uint64_t> written{0};  // the value of the last write_word that has returned
};

// One launch. The arguments are packed as the code takes them, and aligned to 64 bytes: entry.arguments_bytes, which may be 0. They are valid during
// the call.
struct Launch {
  const Entry& entry;
  const uint32_t (&grid)[3];
  const char* arguments;
};

// Between any two locations that the device reaches. One row: a plain copy.
struct Copy2d {
  Address to, from;
  uint64_t to_stride, from_stride, row_bytes, rows;
};

// `count` units of 1, 2 or 4 bytes, at a multiple of their size. Of `value`, the bits beyond a unit are 0.
struct Fill {
  Address to;
  uint64_t count;
  uint32_t unit, value;
};

// What a vendor's library can do beyond the required. Fixed once start() has returned.
struct Capabilities {
  bool early_starts = false;       // launch with `early`
  bool early_edges = false;        // add_early_edge
  uint32_t pitched_fill_unit = 1;  // largest unit of fill_pitched; 0: the vendor does not have it
  uint64_t max_pitch = INT32_MAX;  // of copy_2d and fill_pitched
  // wait_word is called only once the write_word that it is to wait for has returned: for streams that wait for an event which write_word records, and
  // for streams that share hardware queues, where work behind a wait that comes too early would never start.
  bool waits_follow_writes = false;
  bool polls_words = false;     // a word changes when poll_word looks
  bool registers_host = true;   // register_host
  bool copies_to_peers = true;  // copy_peer, between this device and each other one of the vendor
  Result out_of_memory = 1;     // the result of an allocation that can never succeed
  Result unsupported = 1;       // the result of a function that the vendor does not have
};

class Backend {
 public:
  Backend() = default;
  // Ends what start() has begun. Not between enter() and leave().
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Opens the device: its context, which it stores in context_, and its pool, which keeps `retain_bytes` when memory is freed. If it fails, *out_step
  // says at what, for a text: "creating its context". Called once, before all others and not between enter() and leave().
  virtual Result start(uint64_t retain_bytes, const char** out_step) = 0;
  // Two devices with the same context share streams' words and memory. Not NULL once the device is open: a vendor without contexts has an object of
  // its own here, one for all handles of a device.
  Context context() const noexcept { return context_; }
  // What heddle.native/1 shows as the context. Anywhere.
  virtual uint64_t native_context() const noexcept { return reinterpret_cast<uint64_t>(context_); }
  const Capabilities& capabilities() const noexcept { return capabilities_; }

  // What enter() changes and leave() restores (HD-T-02); each vendor uses what it needs.
  struct Scope {
    Context before = nullptr;
    int ordinal = -1;
    int error = 0;
    uint32_t mode = 0;
    bool is_pushed = false;
  };
  // Makes the context current in this thread. Until leave(), a capture by the application, on this or another thread, does not forbid our calls,
  // and they do not affect it. Pairs nest.
  virtual void enter(Scope* out) const noexcept = 0;
  virtual void leave(const Scope& scope) const noexcept = 0;
  // Only a result that ends the context matters.
  virtual Result check_context() noexcept = 0;

  // Results. Anywhere.
  virtual Meaning meaning(Result result) const noexcept = 0;
  virtual heddle_status_code_t code_of(Result result) const noexcept = 0;
  virtual const char* name_of(Result result) const noexcept = 0;  // NULL: unknown
  virtual const char* text_of(Result result) const noexcept = 0;  // NULL: none

  // Streams do not wait for the vendor's default stream. priority 1 is the highest, 0 the lowest.
  virtual Result create_stream(uint32_t priority, Stream* out) noexcept = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  virtual Result synchronize_stream(Stream stream) noexcept = 0;
  // What heddle.native/1 shows as the stream. Anywhere.
  virtual uint64_t native_stream(Stream stream) const noexcept { return reinterpret_cast<uint64_t>(stream); }
  // Of a stream of the application.
  virtual Result is_captured(Stream stream, bool* out) noexcept = 0;
  virtual Result context_of(Stream stream, Context* out) noexcept = 0;
  // Makes a word whose value is 0, and its event if it needs one. By default in 64 bytes of pinned memory, which destroy_word frees. A word is
  // destroyed when no stream uses it.
  virtual Result create_word(Word* out) noexcept;
  virtual void destroy_word(const Word& word) noexcept;
  // At this point of the stream: writes a word, so that a host thread that reads the value sees the results of all earlier work of the stream; and
  // waits until the word is at least `value`, which a call of write_word on another stream of the context writes. Each word is written by one thread
  // at a time; others may wait for it meanwhile.
  virtual Result write_word(Stream stream, const Word& word, uint64_t value) noexcept = 0;
  // For a vendor whose streams do not write to memory that a host may read meanwhile: sets the word to the last value that its stream has reached.
  // Anywhere, also while other threads use the word.
  virtual void poll_word(const Word&) noexcept {}
  virtual Result wait_word(Stream stream, const Word& word, uint64_t value) noexcept = 0;

  // Work on a stream. early: the entry starts early (Entry::starts_early), and so does the kernel before it, the only work that it depends on.
  virtual Result launch(const Launch& launch, bool early, Stream stream) noexcept = 0;
  virtual Result copy(Address to, Address from, uint64_t bytes, Stream stream) noexcept = 0;
  // Each row at least as long as a row's bytes, and no longer than max_pitch.
  virtual Result copy_2d(const Copy2d& copy, Stream stream) noexcept = 0;
  // Of memory of two contexts, of which this is one.
  virtual Result copy_peer(Address to, Context to_context, Address from, Context from_context, uint64_t bytes, Stream stream) noexcept = 0;
  virtual Result fill(const Fill& fill, Stream stream) noexcept = 0;
  // A unit at the start of each of `count` rows.
  virtual Result fill_pitched(const Fill& fill, uint64_t pitch, Stream stream) noexcept = 0;

  // Pinned host memory, which every device of the process reaches; mapped: this one's kernels too, at address_of.
  virtual Result allocate_host(uint64_t bytes, bool mapped, void** out) noexcept = 0;
  virtual void free_host(void* memory) noexcept = 0;
  virtual Result register_host(void* memory, uint64_t bytes, bool mapped) noexcept = 0;
  virtual void unregister_host(void* memory) noexcept = 0;
  virtual Result address_of(void* memory, Address* out) noexcept = 0;
  // *out_ordinal: the vendor's number of the device, for kDevice. Memory that the vendor does not know is kUnknown, not a failure. Any address.
  virtual Result owner_of(Address address, Owner* out, int* out_ordinal) noexcept = 0;
  // This device's number there.
  virtual int own_ordinal() const noexcept = 0;

  // Device memory, aligned to 256 bytes. Large blocks are separate; others come from the pool and can be used on any stream at once.
  virtual Result allocate_large(uint64_t bytes, Address* out) noexcept = 0;
  virtual void free_large(Address block) noexcept = 0;
  virtual Result allocate_pooled(uint64_t bytes, Address* out) noexcept = 0;
  virtual void free_pooled(Address block) noexcept = 0;
  virtual void trim_pool() noexcept = 0;       // returns what is free to the system
  virtual uint64_t pool_bytes() noexcept = 0;  // held by the pool, used or not; 0 if it is unknown
  virtual void memory_info(uint64_t* out_free, uint64_t* out_total) noexcept = 0;
  // Lets this device's copies access all memory of the other, which is of the same vendor.
  virtual Result enable_peer(Backend& other) noexcept = 0;

  virtual Result create_event(bool timed, Event* out) noexcept = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual Result record_event(Event event, Stream stream) noexcept = 0;
  virtual Result synchronize_event(Event event) noexcept = 0;
  virtual Result elapsed(Event from, Event to, float* out_ms) noexcept = 0;

  // Graphs. Not called if the vendor has set Instance::has_graphs to false. A new node waits for the `count` nodes of `before`, of which there may be
  // none.
  virtual Result create_graph(Graph*) noexcept { return capabilities_.unsupported; }
  virtual void destroy_graph(Graph) noexcept {}
  virtual Result add_kernel(Graph, const Node* /*before*/, size_t /*count*/, const Launch&, Node* /*out*/) noexcept {
    return capabilities_.unsupported;
  }
  virtual Result add_copy(Graph, const Node* /*before*/, size_t /*count*/, const Copy2d&, Node* /*out*/) noexcept {
    return capabilities_.unsupported;
  }
  virtual Result add_fill(Graph, const Node* /*before*/, size_t /*count*/, const Fill&, Node* /*out*/) noexcept {
    return capabilities_.unsupported;
  }
  virtual Result add_empty(Graph, const Node* /*before*/, size_t /*count*/, Node* /*out*/) noexcept { return capabilities_.unsupported; }
  // An edge between two kernels that start early. Only with the capability early_edges.
  virtual Result add_early_edge(Graph, Node /*from*/, Node /*to*/) noexcept { return capabilities_.unsupported; }
  virtual Result instantiate(Graph, GraphExec*) noexcept { return capabilities_.unsupported; }
  virtual void destroy_graph_exec(GraphExec) noexcept {}
  virtual Result patch_kernel(GraphExec, Node, const Launch&) noexcept { return capabilities_.unsupported; }
  virtual Result patch_copy(GraphExec, Node, const Copy2d&) noexcept { return capabilities_.unsupported; }  // of one row
  virtual Result patch_fill(GraphExec, Node, const Fill&) noexcept { return capabilities_.unsupported; }
  virtual Result disable_node(GraphExec, Node) noexcept { return capabilities_.unsupported; }
  virtual Result launch_graph(GraphExec, Stream) noexcept { return capabilities_.unsupported; }

  // Code. Of variants that run here, the one with the highest rank is loaded; 0 does not run. Anywhere.
  virtual uint32_t rank(std::string_view format, std::string_view target) const noexcept = 0;
  // The functions below may throw. Loads the code and stores its handle. Errors are made by `loading`.
  virtual heddle_status_t* load_module(Loading& loading, Module* out) = 0;
  virtual void unload_module(Module module) noexcept = 0;
  // Finds the function of an entry whose other members are set, compares its resources and its arguments with what the code says, and sets the
  // places of arguments and, by the rule of the code format, starts_early. That is set already if the entry's flags say so; it is cleared for code
  // that cannot wait.
  virtual heddle_status_t* load_entry(Loading& loading, Module module, const heddle_entry_params_t& params, Entry* entry) = 0;
  // The argument of that index, which is neither a binding nor a constant: sets its size_bytes, alignment and `special`.
  virtual heddle_status_t* load_argument(Loading& loading, const heddle_entry_params_t& params, uint32_t index, Argument* out);

 protected:
  Context context_ = nullptr;
  Capabilities capabilities_;
};

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_BACKEND_H_
