// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A target plugin from a C++ class: entry, negotiation, instance, thunks, and messages (messages.h) with decoded portable code in place of C structs.
// Used by plugin authors; knows no format.
//
// The class T has
//   explicit T(const target::Hello&)                          name, level, facts and math; throws Refused for facts that it cannot use
//   target::Answer claim(const target::Graph&, const std::vector<portable::Kernel>&)     kernels: those that nodes refer to
//   target::Code emit(const target::Kernel&, const portable::Kernel&)                     throws Refused to give the claim back
//   std::vector<target::Entry> inspect(const target::Code&)   reads format and bytes; throws Refused for code that a driver would refuse
// Exceptions become statuses. In one source file: HEDDLE_TARGET_PLUGIN("com.acme.target", "1.0.0", acme::Target)
#ifndef HEDDLE_SDK_TARGET_PLUGIN_H_
#define HEDDLE_SDK_TARGET_PLUGIN_H_

#include <memory>
#include <stdexcept>

#include "heddle/sdk/negotiate.h"
#include "heddle/sdk/portable/code.h"
#include "heddle/sdk/target/checks.h"
#include "heddle/sdk/target/tables.h"

namespace heddle::sdk::target {

// Why a target does not do what it is asked for. UNIMPLEMENTED, unless a code is given.
struct Refused : std::runtime_error {
  explicit Refused(const std::string& reason, heddle_status_code_t its_code = HEDDLE_STATUS_UNIMPLEMENTED)
      : std::runtime_error(reason), code(its_code) {}
  heddle_status_code_t code;
};

// The value of a fact, or this one if the manifest has none of that name and kind.
int64_t integer_of(const Hello& hello, std::string_view name, int64_t otherwise);
std::string text_of(const Hello& hello, std::string_view name, const std::string& otherwise);

// A graph as text, to be read by people: its values, its nodes and the kernels of these (portable/text.h). There is no way back from it.
std::string text_of(const Graph& graph, const std::vector<portable::Kernel>& kernels);

// The plugin around the class. Id has `id` and `version`.
template <class Id, class T>
class TargetPlugin {
 public:
  static const heddle_plugin_t* entry(heddle_negotiation_t* negotiation) noexcept {
    static const heddle_plugin_t plugin = {sizeof(heddle_plugin_t),
                                           HEDDLE_PLUGIN_TARGET,
                                           string_of(Id::id),
                                           string_of(Id::version),
                                           nullptr,
                                           create_instance,
                                           shutdown,
                                           get_interface};
    return negotiate(negotiation, Id::id, &plugin, /*min_minor=*/3);
  }

 private:
  struct Instance {
    explicit Instance(const heddle_host_t* its_host) : host(its_host) {}
    const heddle_host_t* host;
  };
  // An open target, and the last answers, which its caller reads.
  struct Open {
    Open(const heddle_host_t* its_host, const Hello& hello) : host(its_host), target(hello) {}
    const heddle_host_t* host;
    T target;
    Answer answer;
    Code code;
    std::unique_ptr<AnswerTables> answer_tables;
    std::unique_ptr<CodeTables> code_tables;
  };
  static Instance* from(heddle_plugin_instance_t* handle) noexcept { return reinterpret_cast<Instance*>(handle); }
  static Open* from(heddle_target_t* handle) noexcept { return reinterpret_cast<Open*>(handle); }

  template <class Function>
  static heddle_status_t* refusing(const heddle_host_t* host, const char* what, Function&& function) noexcept {
    return guarded(host, what, [&]() -> heddle_status_t* {
      try {
        return function();
      } catch (const Refused& refused) {
        return status(host, refused.code, "%s", refused.what());
      }
    });
  }
  // A struct of the caller, as far as it is known here, and its message.
  template <class C, class Message>
  static Message read_in(const C* in, const char* what) {
    C known;
    uint64_t bad_byte = 0;
    if (!read_struct(in, &known, &bad_byte))
      throw Refused(std::string(what) + ": byte " + std::to_string(bad_byte) + " is of a newer version [HD-E-04]",
                    HEDDLE_STATUS_INVALID_ARGUMENT);
    Message message;
    std::string error;
    if (!read(known, &message, &error)) throw Refused(what + (": " + error), HEDDLE_STATUS_INVALID_ARGUMENT);
    return message;
  }
  static std::vector<portable::Kernel> kernels_of(const std::string& code) {
    std::vector<portable::Kernel> kernels;
    std::string error;
    if (!portable::read_image(code, &kernels, &error))
      throw Refused("the portable code cannot be read: " + error, HEDDLE_STATUS_INVALID_ARGUMENT);
    return kernels;
  }

  static heddle_status_t* open(heddle_plugin_instance_t* handle, const heddle_target_params_t* in, heddle_target_t** out) noexcept {
    *out = nullptr;
    const heddle_host_t* host = from(handle)->host;
    return refusing(host, "opening the target", [&]() -> heddle_status_t* {
      *out =
          reinterpret_cast<heddle_target_t*>(make<Open>(host, host, read_in<heddle_target_params_t, Hello>(in, "heddle_target_params_t")));
      return nullptr;
    });
  }
  static void close(heddle_target_t* handle) noexcept {
    if (!handle) return;
    const heddle_host_t* host = from(handle)->host;
    guarded_release(host, [&] { unmake(host, from(handle)); });
  }
  static heddle_status_t* claim(heddle_target_t* handle, const heddle_target_graph_t* in, heddle_target_answer_t* out) noexcept {
    Open& open = *from(handle);
    return refusing(open.host, "claiming nodes", [&]() -> heddle_status_t* {
      const auto graph = read_in<heddle_target_graph_t, Graph>(in, "heddle_target_graph_t");
      const std::vector<portable::Kernel> kernels = kernels_of(graph.code);
      if (const std::string wrong = check(graph, kernels.size()); !wrong.empty()) throw Refused(wrong, HEDDLE_STATUS_INVALID_ARGUMENT);
      open.answer = open.target.claim(graph, kernels);
      open.answer_tables = std::make_unique<AnswerTables>(open.answer);
      write_struct(open.answer_tables->c, out);
      return nullptr;
    });
  }
  static heddle_status_t* give(Open& open, heddle_target_code_t* out) {
    open.code_tables = std::make_unique<CodeTables>(open.code);
    write_struct(open.code_tables->c, out);
    return nullptr;
  }
  static heddle_status_t* emit(heddle_target_t* handle, const heddle_target_kernel_t* in, heddle_target_code_t* out) noexcept {
    Open& open = *from(handle);
    return refusing(open.host, "emitting code", [&]() -> heddle_status_t* {
      const auto kernel = read_in<heddle_target_kernel_t, Kernel>(in, "heddle_target_kernel_t");
      const std::vector<portable::Kernel> kernels = kernels_of(kernel.code);
      if (kernels.size() != 1) throw Refused("the portable code has not one kernel", HEDDLE_STATUS_INVALID_ARGUMENT);
      if (kernels[0].inputs != kernel.input_count || kernels[0].outputs != kernel.output_count || kernels[0].symbols != kernel.symbol_count)
        throw Refused("the kernel has other bindings or symbols than its portable code", HEDDLE_STATUS_INVALID_ARGUMENT);
      open.code = open.target.emit(kernel, kernels.front());
      return give(open, out);
    });
  }
  static heddle_status_t* inspect(heddle_target_t* handle, const heddle_target_code_t* in, heddle_target_code_t* out) noexcept {
    Open& open = *from(handle);
    return refusing(open.host, "inspecting code", [&]() -> heddle_status_t* {
      const auto code = read_in<heddle_target_code_t, Code>(in, "heddle_target_code_t");
      open.code = {};
      open.code.format = code.format;
      open.code.target = code.target;
      open.code.entries = open.target.inspect(code);
      return give(open, out);
    });
  }

  static heddle_status_t* create_instance(const heddle_host_t* host, heddle_plugin_instance_t** out) noexcept {
    *out = nullptr;
    return guarded(host, "creating an instance", [&]() -> heddle_status_t* {
      *out = reinterpret_cast<heddle_plugin_instance_t*>(make<Instance>(host, host));
      return nullptr;
    });
  }
  static heddle_status_t* shutdown(heddle_plugin_instance_t* handle) noexcept {
    const heddle_host_t* host = from(handle)->host;
    guarded_release(host, [&] { unmake(host, from(handle)); });
    return nullptr;
  }
  static const void* get_interface(heddle_plugin_instance_t*, heddle_string_t id) noexcept {
    static const heddle_target_interface_t table = {sizeof(heddle_target_interface_t), 0, open, close, claim, emit, inspect};
    return view_of(id) == HEDDLE_TARGET_INTERFACE ? &table : nullptr;
  }
};

}  // namespace heddle::sdk::target

#define HEDDLE_TARGET_PLUGIN(Id, Version, T)                                                                        \
  namespace {                                                                                                       \
  struct HeddleTargetId {                                                                                           \
    static constexpr const char* id = Id;                                                                           \
    static constexpr const char* version = Version;                                                                 \
  };                                                                                                                \
  }                                                                                                                 \
  extern "C" HEDDLE_EXPORT const heddle_plugin_t* HEDDLE_PLUGIN_ENTRY(heddle_negotiation_t* negotiation) noexcept { \
    return heddle::sdk::target::TargetPlugin<HeddleTargetId, T>::entry(negotiation);                                \
  }
#endif  // HEDDLE_SDK_TARGET_PLUGIN_H_
