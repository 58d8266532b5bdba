// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.library/1, checked on three sides: the host's requests to a library plugin, the drivers' calls of an operation, and the operation's
// behavior during the call: towards the memory around its workspace, its thread, and the host's functions.
#include <pthread.h>

#include "core/validation/call.h"

namespace heddle::validation {
namespace {

constexpr uint64_t kMostAlignment = 4096;             // alignment of a workspace
constexpr uint64_t kMostGuarded = uint64_t{1} << 48;  // above this the host refuses the workspace anyway
constexpr size_t kKeptAnswers = 4096;
constexpr unsigned char kGuard = 0xD7;

// ----------------------------------------------------------------------------------------- requests: query and prepare

// All bytes of a request: equal requests have equal keys.
class Key {
 public:
  template <class T>
  void add(const T& number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void add(std::string_view text) {
    add(text.size());
    text_.append(text);
  }
  template <class T>
  void add(const T* numbers, uint64_t count) {
    text_.append(reinterpret_cast<const char*>(numbers), count * sizeof(T));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

template <class Struct>
const Struct* at(const Struct* array, uint64_t stride, uint64_t index) {
  return reinterpret_cast<const Struct*>(reinterpret_cast<const char*>(array) + index * stride);
}

void read_attributes(Call& call, const heddle_operation_request_t& request, Key& key) {
  if (request.attribute_count > HEDDLE_MAX_ATTRIBUTES) {
    return call.host_broke("HD-M-02", "request has {} attributes; at most {} are allowed", request.attribute_count, HEDDLE_MAX_ATTRIBUTES);
  }
  if (request.attribute_count && (!request.attributes || request.attribute_stride < sizeof(uint32_t))) {
    return call.host_broke("HD-E-04", "request has {} attributes at a stride of {}", request.attribute_count, request.attribute_stride);
  }
  std::string_view before;
  for (uint32_t i = 0; i < request.attribute_count; ++i) {
    const heddle_attribute_t attribute = call.read(at(request.attributes, request.attribute_stride, i), "an attribute");
    const std::string_view name = view(attribute.name);
    if (name.empty() || (i != 0 && name <= before)) {
      call.host_broke("HD-O-01", "attribute {} is '{}' after '{}'; names must be sorted and unique", i, name, before);
    }
    before = name;
    const bool one = attribute.kind == HEDDLE_ATTRIBUTE_INT || attribute.kind == HEDDLE_ATTRIBUTE_FLOAT;
    const bool ints = attribute.kind == HEDDLE_ATTRIBUTE_INT || attribute.kind == HEDDLE_ATTRIBUTE_INTS;
    const bool floats = attribute.kind == HEDDLE_ATTRIBUTE_FLOAT || attribute.kind == HEDDLE_ATTRIBUTE_FLOATS;
    if (!ints && !floats && attribute.kind != HEDDLE_ATTRIBUTE_STRING) {
      call.host_broke("HD-O-01", "attribute '{}' is of kind {}, which does not exist", name, attribute.kind);
    } else if ((one && attribute.count != 1) || (ints && attribute.count && !attribute.ints) ||
               (floats && attribute.count && !attribute.floats)) {
      call.host_broke("HD-O-01", "attribute '{}' of kind {} has a count of {}, which does not match its values", name, attribute.kind,
                      attribute.count);
    }
    if (call.refused()) return;
    key.add(name);
    key.add(attribute.kind);
    key.add(attribute.count);
    if (ints) key.add(attribute.ints, attribute.count);
    if (floats) key.add(attribute.floats, attribute.count);
    key.add(view(attribute.text));
  }
}

void read_operands(Call& call, const heddle_operation_request_t& request, Key& key, Operation* out) {
  const uint64_t count = uint64_t{request.input_count} + request.output_count;
  if (count > HEDDLE_MAX_OPERANDS) {
    return call.host_broke("HD-M-02", "request has {} operands; at most {} are allowed", count, HEDDLE_MAX_OPERANDS);
  }
  if (count && (!request.operands || request.operand_stride < sizeof(uint32_t))) {
    return call.host_broke("HD-E-04", "request has {} operands at a stride of {}", count, request.operand_stride);
  }
  for (uint64_t i = 0; i < count; ++i) {
    const heddle_operand_t operand = call.read(at(request.operands, request.operand_stride, i), "an operand");
    if (operand.rank > HEDDLE_MAX_RANK || (operand.rank && !operand.dims)) {
      call.host_broke("HD-M-02", "operand {} has rank {} (at most {}) and dims {}", i, operand.rank, HEDDLE_MAX_RANK,
                      fmt::ptr(operand.dims));
    }
    if (call.refused()) return;
    uint64_t bits = HEDDLE_TYPE_BITS(operand.element_type);
    for (uint32_t k = 0; k < operand.rank; ++k) {
      const int64_t extent = operand.dims[k];
      if (extent < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) {
        return call.host_broke("HD-M-02", "operand {} has the extent {}, which is invalid or overflows", i, extent);
      }
    }
    out->operand_bytes.push_back(bits / 8 + (bits % 8 != 0));
    key.add(operand.element_type);
    key.add(operand.rank);
    key.add(operand.dims, operand.rank);
  }
  out->inputs = request.input_count;
}

// The request as a key, and the operands of its operation.
std::string read_request(Call& call, heddle_plugin_instance_t* instance, const heddle_operation_request_t* given, Operation* out) {
  Plugin* plugin = registry().of(instance);
  if (plugin) call.set_plugin(plugin);
  if (!plugin) call.host_broke("HD-L-01", "instance is {}, which is not a live instance", fmt::ptr(instance));
  const heddle_operation_request_t request = call.read(given, "request");
  if (call.refused()) return {};
  if (view(request.domain).empty() || view(request.name).empty() || view(request.target).empty()) {
    call.host_broke("HD-O-01", "request is for '{}::{}' on '{}'; all three are needed", view(request.domain), view(request.name),
                    view(request.target));
  }
  if (request.device) {
    std::shared_ptr<Device> device = call.live<Device>(request.device, "request.device");
    if (device && device->plugin != plugin) call.host_broke("HD-Q-02", "request.device belongs to another plugin");
  }
  Key key;
  for (heddle_string_t text : {request.domain, request.name, request.target, request.family}) key.add(view(text));
  for (uint32_t number : {request.version, request.compute_units, request.attribute_count, request.input_count, request.output_count}) {
    key.add(number);
  }
  key.add(request.device);
  read_attributes(call, request, key);
  if (!call.refused()) read_operands(call, request, key, out);
  out->target = view(request.target);
  return key.take();
}

void check_properties(Call& call, const heddle_operation_properties_t& said) {
  const uint64_t alignment = said.workspace_alignment_bytes;
  if ((alignment & (alignment - 1)) != 0 || alignment > kMostAlignment) {
    call.plugin_broke("HD-O-02", "its workspace_alignment_bytes is {}, not a power of two up to {}", alignment, kMostAlignment);
  }
}

bool same(const heddle_operation_properties_t& a, const heddle_operation_properties_t& b) {
  return a.shard_count == b.shard_count && a.workspace_bytes == b.workspace_bytes &&
         a.workspace_alignment_bytes == b.workspace_alignment_bytes;
}

// Calls the plugin's query and records the answer. `out` is the host's: it gets the answer including the guards.
heddle_status_t* ask(Call& call, heddle_plugin_instance_t* instance, const heddle_operation_request_t* request, const std::string& key,
                     const Operation& wanted, heddle_operation_properties_t* out) {
  Plugin& plugin = call.plugin();
  heddle_status_t* status = call.fill(
      Tag::kMayBlock, out, [&](heddle_operation_properties_t* properties) { return plugin.library.query(instance, request, properties); });
  if (call.refused() && !status) return nullptr;
  Answer answer;
  const size_t size = std::min<size_t>(out->struct_size, sizeof(answer.properties));
  std::memcpy(static_cast<void*>(&answer.properties), out, size);
  if (status) {
    if (!same(answer.properties, {})) {
      call.plugin_broke("HD-E-07", "it refused, but left {} bytes of workspace and {} shards in its output",
                        answer.properties.workspace_bytes, answer.properties.shard_count);
    }
    return status;
  }
  check_properties(call, answer.properties);
  if (auto known = plugin.answers.find(key); known != plugin.answers.end() && !same(known->second.properties, answer.properties)) {
    call.plugin_broke("HD-O-02", "it requests {} bytes of workspace and {} shards, but the same request had {} and {} before",
                      answer.properties.workspace_bytes, answer.properties.shard_count, known->second.properties.workspace_bytes,
                      known->second.properties.shard_count);
  }
  if (call.refused()) return nullptr;
  if (answer.properties.workspace_bytes - 1 < kMostGuarded && wanted.on_host() && size == sizeof(answer.properties)) {
    answer.guard = std::max<uint64_t>(answer.properties.workspace_alignment_bytes, 64);
    out->workspace_bytes += 2 * answer.guard;
  }
  if (plugin.answers.size() >= kKeptAnswers) {
    plugin.answers.clear();
    plugin.forgot_answers = true;
  }
  plugin.answers[key] = answer;
  return nullptr;
}

heddle_status_t* query(heddle_plugin_instance_t* instance, const heddle_operation_request_t* request,
                       heddle_operation_properties_t* out_properties) noexcept {
  Call call("heddle.library/1 query");
  Operation wanted;
  const std::string key = read_request(call, instance, request, &wanted);
  if (call.refused()) return call.refusal();
  return call.answer(ask(call, instance, request, key, wanted, out_properties));
}

heddle_status_t* prepare(heddle_plugin_instance_t* instance, const heddle_operation_request_t* request,
                         heddle_operation_t** out_operation) noexcept {
  Call call("heddle.library/1 prepare");
  auto record = std::make_shared<Operation>();
  const std::string key = read_request(call, instance, request, record.get());
  if (call.refused()) return call.refusal();
  Plugin& plugin = call.plugin();
  if (plugin.forgot_answers && !plugin.answers.count(key)) {
    heddle_operation_properties_t again{};
    again.struct_size = sizeof again;
    if (heddle_status_t* refused = ask(call, instance, request, key, *record, &again)) return refused;
  }
  if (auto known = plugin.answers.find(key); known != plugin.answers.end()) {
    record->answer = known->second;
  } else {
    call.host_broke("HD-O-02", "no query with this request was made before");
  }
  if (call.refused()) return call.refusal();
  heddle_status_t* status = call.pass(Tag::kMayBlock, [&] { return plugin.library.prepare(instance, request, out_operation); });
  const heddle_status_code_t code = plugin.host->status_code(plugin.host->self, status);
  if (code == HEDDLE_STATUS_UNIMPLEMENTED || code == HEDDLE_STATUS_NOT_FOUND) {
    call.plugin_broke("HD-O-02", "it has {}, but its query accepts the same request",
                      code == HEDDLE_STATUS_NOT_FOUND ? "no such operator" : "no way to do this");
  }
  heddle_status_t* answer =
      call.keep<Operation>(status, out_operation, record, nullptr, [&](heddle_operation_t* made) { plugin.library.destroy(made); });
  if (!answer) ++plugin.live;
  return answer;
}

void destroy(heddle_operation_t* operation) noexcept {
  Call call("heddle.library/1 destroy");
  if (!operation) return;
  std::shared_ptr<Operation> record = call.live<Operation>(operation, "operation");
  if (!record) return;
  if (!record->running.empty()) {
    call.host_broke("HD-L-01", "operation is {}, which {} calls of enqueue are using", fmt::ptr(operation), record->running.size());
  }
  if (record->loads != 0) {
    call.host_broke("HD-L-01", "operation is {}, which has {} live executables", fmt::ptr(operation), record->loads);
  }
  // A driver still runs it: leaking it is the lesser harm.
  if (call.refused()) return;
  call.forget(record);
  --call.plugin().live;
  call.pass(Tag::kMayBlock, [&] { call.plugin().library.destroy(operation); });
}

// --------------------------------------------------------------------------------------------------------------- enqueue

using Span = std::pair<uint64_t, uint64_t>;

bool meet(const Span& a, const Span& b) {
  return a.first < b.second && b.first < a.second;
}
const Span* meeting(const std::vector<Span>& spans, const Span& other) {
  auto found = std::find_if(spans.begin(), spans.end(), [&](const Span& one) { return meet(one, other); });
  return found == spans.end() ? nullptr : &*found;
}

bool same_memory(const heddle_operation_call_t& a, const heddle_operation_call_t& b) {
  return a.workspace == b.workspace && a.operand_count == b.operand_count &&
         std::equal(a.operands, a.operands + a.operand_count, b.operands);
}

// One memory range of the call: inside a buffer if it begins in one with a known address, and exclusive to the call if it is written.
void check_memory(Call& call, const void* start, uint64_t bytes, bool written, const std::string& what, Running& running) {
  if (bytes == 0) return;
  const auto address = reinterpret_cast<uint64_t>(start);
  if (!start || bytes > UINT64_MAX - address) return call.host_broke("HD-M-02", "{} is {} bytes at {}", what, bytes, fmt::ptr(start));
  const Span span(address, address + bytes);
  for (const auto& [handle, buffer] : registry().live<Buffer>()) {
    if (buffer->address == 0 || address < buffer->address || address - buffer->address >= buffer->size) continue;
    if (bytes > buffer->size - (address - buffer->address)) {
      call.host_broke("HD-M-02", "{} is {} bytes at byte {} of a buffer of {}", what, bytes, address - buffer->address, buffer->size);
    }
  }
  if (meeting(running.writes, span) || (written && meeting(running.reads, span))) {
    call.host_broke("HD-O-03", "{}, {} bytes at {}, shares memory with another operand, and one of them is written", what, bytes,
                    fmt::ptr(start));
  }
  (written ? running.writes : running.reads).push_back(span);
}

void check_call(Call& call, const Operation& operation, Running& running) {
  const heddle_operation_call_t& given = running.call;
  if (operation.loads == 0) call.host_broke("HD-L-01", "the operation has no live executable");
  if (given.operand_count != operation.operand_bytes.size() || (given.operand_count && (!given.operands || !given.operand_bytes))) {
    return call.host_broke("HD-O-02", "call has {} operands; the operation was prepared for {}", given.operand_count,
                           operation.operand_bytes.size());
  }
  if (given.first_shard >= given.last_shard || given.last_shard > operation.shards()) {
    call.host_broke("HD-O-02", "it is for shards [{}, {}) of {}", given.first_shard, given.last_shard, operation.shards());
  }
  if (operation.on_host() && given.stream != 0)
    call.host_broke("HD-O-04", "call.stream is {:#x}, but {} has no streams", given.stream, operation.target);
  for (uint32_t i = 0; i < given.operand_count; ++i) {
    if (given.operand_bytes[i] != operation.operand_bytes[i]) {
      call.host_broke("HD-O-02", "call.operand_bytes[{}] is {}, but the operand has {}", i, given.operand_bytes[i],
                      operation.operand_bytes[i]);
    }
    check_memory(call, given.operands[i], operation.operand_bytes[i], i >= operation.inputs, fmt::format("call.operands[{}]", i), running);
  }
  const uint64_t alignment = std::max<uint64_t>(operation.answer.properties.workspace_alignment_bytes, 64);
  if (given.workspace_bytes < operation.workspace_bytes() || (given.workspace_bytes != 0 && operation.workspace_bytes() == 0)) {
    call.host_broke("HD-O-02", "call.workspace_bytes is {}, but query requested {}", given.workspace_bytes, operation.workspace_bytes());
  }
  if (reinterpret_cast<uint64_t>(given.workspace) % alignment != 0) {
    call.host_broke("HD-O-02", "call.workspace is {}, not a multiple of {}", fmt::ptr(given.workspace), alignment);
  }
  check_memory(call, given.workspace, operation.workspace_bytes(), true, "call.workspace", running);
  if (call.refused()) return;
  for (const Running* other : operation.running) {
    if (same_memory(given, other->call)) {
      if (given.first_shard < other->call.last_shard && other->call.first_shard < given.last_shard) {
        call.host_broke("HD-O-03", "shards [{}, {}) run, but [{}, {}) of the same call have not finished", given.first_shard,
                        given.last_shard, other->call.first_shard, other->call.last_shard);
      }
      continue;
    }
    for (const Span& written : running.writes) {
      if (meeting(other->writes, written) || meeting(other->reads, written)) {
        call.host_broke("HD-O-03", "{} bytes at {:#x} are written while another unfinished call uses them", written.second - written.first,
                        written.first);
        break;
      }
    }
  }
}

// Guards around a workspace. The shards of a call share them: they are written before the first shard, and checked after each.
struct Guards {
  unsigned char *front = nullptr, *back = nullptr;
  uint64_t size = 0;

  void write() const {
    if (!size) return;
    std::memset(front, kGuard, size);
    std::memset(back, kGuard, size);
  }
  void check(Call& call, uint64_t workspace_bytes) const {
    for (uint64_t i = 0; i < size; ++i) {
      // The byte closest to the workspace is reported first.
      const bool below = front[size - 1 - i] != kGuard;
      if (!below && back[i] == kGuard) continue;
      call.plugin_broke("HD-O-03", "it wrote {} its workspace of {} bytes, at byte {}", below ? "in front of" : "behind", workspace_bytes,
                        below ? -static_cast<int64_t>(i + 1) : static_cast<int64_t>(workspace_bytes + i));
      return write();
    }
  }
};

// The host function that an operation called on this thread.
thread_local std::string* host_call = nullptr;

heddle_status_t* enqueue(heddle_operation_t* operation, const heddle_operation_call_t* given) noexcept {
  Call call("heddle.library/1 enqueue");
  call.caller_is("the driver");
  std::shared_ptr<Operation> record = call.live<Operation>(operation, "operation");
  Running running{call.read(given, "call"), {}, {}};
  if (record) {
    if (!record->driver.empty()) call.caller_is("the driver " + record->driver);
    if (!call.refused()) check_call(call, *record, running);
  }
  if (call.refused()) return call.refusal();
  const uint64_t workspace_bytes = record->answer.properties.workspace_bytes;
  Guards guards;
  heddle_operation_call_t through = running.call;
  through.struct_size = std::min<uint32_t>(given->struct_size, sizeof(through));
  if (record->answer.guard != 0) {
    auto* start = static_cast<unsigned char*>(running.call.workspace);
    guards = {start, start + record->answer.guard + workspace_bytes, record->answer.guard};
    through.workspace = start + record->answer.guard;
    auto shares = [&](const Running* other) { return other->call.workspace == running.call.workspace; };
    if (std::none_of(record->running.begin(), record->running.end(), shares)) guards.write();
  }
  through.workspace_bytes = workspace_bytes;
  record->running.push_back(&running);
  std::string called;
  std::string* const outer = std::exchange(host_call, &called);
  heddle_status_t* status =
      call.pass(record->on_host() ? Tag::kCompute : Tag::kNoBlock, [&] { return call.plugin().library.enqueue(operation, &through); });
  host_call = outer;
  std::erase(record->running, &running);
  guards.check(call, workspace_bytes);
  if (!called.empty())
    call.plugin_broke("HD-O-03", "it called the host's {}; an operation may only call functions that create its status", called);
  // On other targets the work is already enqueued, even if another rule was broken.
  return record->on_host() ? call.answer(status) : status;
}

// ------------------------------------------------------------------------------------------------ the host's functions

// The host's own tables, found by `self` and kept forever: a plugin that continues after its shutdown still finds them. It has its own lock,
// the innermost one: a driver may be called under the registry's lock, and may call its host.
struct Hosts {
  std::mutex mutex;
  std::unordered_map<const void*, heddle_host_t> own;
};
Hosts& hosts() {
  static Hosts* one = [] {  // never destroyed, like the registry
    auto* made = new Hosts;
    pthread_atfork([] { hosts().mutex.lock(); }, [] { hosts().mutex.unlock(); }, [] { hosts().mutex.unlock(); });
    return made;
  }();
  return *one;
}
heddle_host_t own(void* self) {
  std::lock_guard lock(hosts().mutex);
  return hosts().own[self];
}

void note_call(const char* function) {
  if (host_call && host_call->empty()) *host_call = function;
}

}  // namespace

void wrap_host(heddle_host_t* table) noexcept {
  {
    std::lock_guard lock(hosts().mutex);
    hosts().own[table->self] = *table;
  }
  table->memory_allocate = [](void* self, uint64_t size_bytes, uint64_t alignment_bytes) -> void* {
    note_call("memory_allocate");
    return own(self).memory_allocate(self, size_bytes, alignment_bytes);
  };
  table->memory_free = [](void* self, void* memory) {
    note_call("memory_free");
    own(self).memory_free(self, memory);
  };
  table->log = [](void* self, uint32_t level, heddle_string_t file, uint32_t line, heddle_string_t message) {
    note_call("log");
    own(self).log(self, level, file, line, message);
  };
  table->execute = [](void* self, void (*function)(void*), void* context) -> heddle_status_t* {
    note_call("execute");
    return own(self).execute(self, function, context);
  };
  table->option = [](void* self, heddle_string_t name, heddle_option_t* out_option) -> heddle_status_t* {
    note_call("option");
    return own(self).option(self, name, out_option);
  };
}

const heddle_library_interface_t kLibraryTable = {sizeof(heddle_library_interface_t), 0, query, prepare, destroy, enqueue};

}  // namespace heddle::validation
