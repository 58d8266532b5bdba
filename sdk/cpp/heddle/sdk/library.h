// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library plugin from C++ classes, one per operator: entry, negotiation, instance, thunks, and typed access to a request. Used by plugin
// authors; contains no operator. Operations run on "host/1" (heddle/ext/library.h).
//
// An operator's class T has
//   static constexpr const char *kDomain, *kName; static constexpr uint32_t kVersion     as in the manifest
//   static heddle_status_t* query(const sdk::OperationRequest&, heddle_operation_properties_t*)
//                        NULL if it can be done, with its needs filled in if it has any; else request.refuse(...)
//   explicit T(const sdk::OperationRequest&)                                              only for requests that query accepted
//   heddle_status_t* run(const sdk::OperationCall&) const                                 some shards of one call, from several threads at once
// Exceptions become a status. In one source file: HEDDLE_LIBRARY_PLUGIN("com.acme.ops", "1.0.0", acme::Whiten, acme::Scan)
#ifndef HEDDLE_SDK_LIBRARY_H_
#define HEDDLE_SDK_LIBRARY_H_

#include <atomic>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/ext/library.h"
#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/status.h"

namespace heddle::sdk {

// An attribute that an operator accepts.
struct TakenAttribute {
  std::string_view name;
  uint32_t kind;  // HEDDLE_ATTRIBUTE_*
};

// A request, parsed once. Valid during query, and in the constructor of an operation.
class OperationRequest {
 public:
  // Parses the request; returns NULL, or what is wrong with it.
  heddle_status_t* read(const heddle_host_t* host, const heddle_operation_request_t* request);

  const heddle_host_t* host() const noexcept { return host_; }
  const heddle_operation_request_t& c() const noexcept { return request_; }
  std::string_view domain() const noexcept { return view_of(request_.domain); }
  std::string_view name() const noexcept { return view_of(request_.name); }
  uint32_t input_count() const noexcept { return request_.input_count; }
  uint32_t output_count() const noexcept { return request_.output_count; }
  const heddle_operand_t& input(uint32_t index) const noexcept { return operands_[index]; }
  const heddle_operand_t& output(uint32_t index) const noexcept { return operands_[request_.input_count + index]; }
  // Attributes by name; empty if the record has none of that name and kind.
  std::optional<int64_t> integer(std::string_view name) const noexcept;
  std::optional<double> number(std::string_view name) const noexcept;
  std::optional<std::string_view> text(std::string_view name) const noexcept;
  std::optional<std::span<const int64_t>> integers(std::string_view name) const noexcept;
  std::optional<std::span<const double>> numbers(std::string_view name) const noexcept;

  // NULL if the request has this many inputs and outputs, and no attributes except these, each of its kind: an operator never guesses (HD-O-01).
  // Any of the attributes may be missing.
  heddle_status_t* expect(uint32_t inputs, uint32_t outputs, std::initializer_list<TakenAttribute> attributes) const noexcept;
  // UNIMPLEMENTED with this reason.
  [[gnu::format(printf, 2, 3)]] heddle_status_t* refuse(const char* format, ...) const noexcept;

 private:
  const heddle_attribute_t* find(std::string_view name, uint32_t kind) const noexcept;

  const heddle_host_t* host_ = nullptr;
  heddle_operation_request_t request_{};
  std::vector<heddle_attribute_t> attributes_;
  std::vector<heddle_operand_t> operands_;
};

inline std::span<const int64_t> dims_of(const heddle_operand_t& operand) noexcept {
  return {operand.dims, operand.rank};
}
// The host has checked that the product does not overflow.
inline uint64_t element_count(const heddle_operand_t& operand) noexcept {
  uint64_t count = 1;
  for (int64_t extent : dims_of(operand)) count *= static_cast<uint64_t>(extent);
  return count;
}
bool same_type(const heddle_operand_t& a, const heddle_operand_t& b) noexcept;
// "f32[2,3]", the notation of the command line; "type 0x1234[2,3]" for an element type that types.h does not have.
std::string text_of(const heddle_operand_t& operand);

// Some shards of one call.
class OperationCall {
 public:
  OperationCall(const heddle_host_t* host, const heddle_operation_call_t& call) noexcept : host_(host), call_(call) {}
  const heddle_host_t* host() const noexcept { return host_; }
  const heddle_operation_call_t& c() const noexcept { return call_; }
  // An operand's elements: inputs first, then outputs, numbered consecutively.
  template <typename T>
  T* operand(uint32_t index) const noexcept {
    return static_cast<T*>(call_.operands[index]);
  }
  template <typename T>
  T* workspace() const noexcept {
    return static_cast<T*>(call_.workspace);
  }
  // Of `items` that the shards share evenly: the first item of this call, and the end of its items.
  uint64_t first_of(uint64_t items, uint64_t shards) const noexcept { return part(items, shards, call_.first_shard); }
  uint64_t last_of(uint64_t items, uint64_t shards) const noexcept { return part(items, shards, call_.last_shard); }

 private:
  static uint64_t part(uint64_t items, uint64_t shards, uint64_t shard) noexcept {
    return items / shards * shard + (items % shards < shard ? items % shards : shard);
  }
  const heddle_host_t* host_;
  const heddle_operation_call_t& call_;
};

struct LibraryInstance {
  const heddle_host_t* host;
  std::atomic<uint64_t> operations{0};
  explicit LibraryInstance(const heddle_host_t* its_host) noexcept : host(its_host) {}
};

heddle_status_t* no_operator_status(const OperationRequest& request) noexcept;
heddle_status_t* other_target_status(const OperationRequest& request) noexcept;
heddle_status_t* live_operations_status(const heddle_host_t* host, const char* id, uint64_t live) noexcept;

// The plugin around the classes. Id has `id` and `version`.
template <class Id, class... Operators>
class LibraryPlugin {
 public:
  static const heddle_plugin_t* entry(heddle_negotiation_t* negotiation) noexcept {
    static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t),
                                           HEDDLE_PLUGIN_LIBRARY,
                                           string_of(Id::id),
                                           string_of(Id::version),
                                           probe,
                                           create_instance,
                                           shutdown,
                                           get_interface};
    return negotiate(negotiation, Id::id, &plugin, /*min_minor=*/2);
  }

 private:
  // A prepared operation of any operator.
  struct Held {
    explicit Held(LibraryInstance* its_instance) : instance(its_instance) { instance->operations.fetch_add(1); }
    virtual ~Held() { instance->operations.fetch_sub(1); }
    virtual heddle_status_t* run(const OperationCall& call) const = 0;
    LibraryInstance* instance;
  };
  template <class Operator>
  struct HeldOperator final : Held {
    HeldOperator(LibraryInstance* instance, const OperationRequest& request) : Held(instance), operation(request) {}
    heddle_status_t* run(const OperationCall& call) const override { return operation.run(call); }
    const Operator operation;
  };
  static LibraryInstance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<LibraryInstance*>(handle); }
  static Held* from(heddle_operation_t* handle) noexcept { return reinterpret_cast<Held*>(handle); }

  template <class Operator>
  static bool is(const OperationRequest& request) noexcept {
    return request.domain() == Operator::kDomain && request.name() == Operator::kName && request.c().version == Operator::kVersion;
  }

  // Calls function.template operator()<Operator>() for the request's operator.
  template <class Function>
  static heddle_status_t* with_operator(const OperationRequest& request, Function&& function) {
    heddle_status_t* answer = nullptr;
    const bool found = ((is<Operators>(request) && (answer = function.template operator()<Operators>(), true)) || ...);
    return found ? answer : no_operator_status(request);
  }

  static heddle_status_t* query(heddle_plugin_instance_t* handle, const heddle_operation_request_t* in,
                                heddle_operation_properties_t* out) noexcept {
    const heddle_host_t* host = from(handle)->host;
    return guarded(host, "querying an operation", [&]() -> heddle_status_t* {
      OperationRequest request;
      if (heddle_status_t* wrong = request.read(host, in)) return wrong;
      heddle_operation_properties_t properties = {};
      properties.struct_size = sizeof properties;
      heddle_status_t* refused = with_operator(request, [&]<class Operator>() -> heddle_status_t* {
        if (view_of(request.c().target) != HEDDLE_LIBRARY_TARGET_HOST) return other_target_status(request);
        return Operator::query(request, &properties);
      });
      write_struct(refused ? heddle_operation_properties_t{} : properties, out);
      return refused;
    });
  }

  static heddle_status_t* prepare(heddle_plugin_instance_t* handle, const heddle_operation_request_t* in,
                                  heddle_operation_t** out) noexcept {
    *out = nullptr;
    const heddle_host_t* host = from(handle)->host;
    return guarded(host, "preparing an operation", [&]() -> heddle_status_t* {
      OperationRequest request;
      if (heddle_status_t* wrong = request.read(host, in)) return wrong;
      return with_operator(request, [&]<class Operator>() -> heddle_status_t* {
        if (view_of(request.c().target) != HEDDLE_LIBRARY_TARGET_HOST) return other_target_status(request);
        heddle_operation_properties_t properties = {};
        if (heddle_status_t* refused = Operator::query(request, &properties)) return refused;
        Held* held = make<HeldOperator<Operator>>(host, from(handle), request);
        *out = reinterpret_cast<heddle_operation_t*>(held);
        return nullptr;
      });
    });
  }

  static void destroy(heddle_operation_t* handle) noexcept {
    if (!handle) return;
    const heddle_host_t* host = from(handle)->instance->host;
    guarded_release(host, [&] { unmake(host, from(handle)); });
  }

  static heddle_status_t* enqueue(heddle_operation_t* handle, const heddle_operation_call_t* call) noexcept {
    const Held* held = from(handle);
    const heddle_host_t* host = held->instance->host;
    return guarded(host, "running an operation", [&] { return held->run(OperationCall(host, *call)); });
  }

  static heddle_status_t* probe(const heddle_host_t*, heddle_probe_result_t* out) noexcept {
    heddle_probe_result_t result = {};
    result.verdict = HEDDLE_PROBE_AVAILABLE;
    write_struct(result, out);
    return nullptr;
  }

  static heddle_status_t* create_instance(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
    *out = nullptr;
    return guarded(host, "creating an instance", [&]() -> heddle_status_t* {
      *out = reinterpret_cast<heddle_plugin_instance_t*>(make<LibraryInstance>(host, host));
      return nullptr;
    });
  }

  static heddle_status_t* shutdown(heddle_plugin_instance_t* handle) noexcept {
    LibraryInstance* instance = from(handle);
    const heddle_host_t* host = instance->host;
    return guarded(host, "shutting down", [&]() -> heddle_status_t* {
      if (const uint64_t live = instance->operations.load()) return live_operations_status(host, Id::id, live);
      unmake(host, instance);
      return nullptr;
    });
  }

  static const void* get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
    static const heddle_library_interface_t table = {sizeof(heddle_library_interface_t), 0, query, prepare, destroy, enqueue};
    return view_of(id) == HEDDLE_LIBRARY_INTERFACE ? &table : nullptr;
  }
};

}  // namespace heddle::sdk

#define HEDDLE_LIBRARY_PLUGIN(Id, Version, ...)                                                                     \
  namespace {                                                                                                       \
  struct HeddleLibraryId {                                                                                          \
    static constexpr const char* id = Id;                                                                           \
    static constexpr const char* version = Version;                                                                 \
  };                                                                                                                \
  }                                                                                                                 \
  extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) noexcept { \
    return heddle::sdk::LibraryPlugin<HeddleLibraryId, __VA_ARGS__>::entry(negotiation);                            \
  }
#endif  // HEDDLE_SDK_LIBRARY_H_
