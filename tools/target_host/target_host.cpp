// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-target-host: runs one target plugin (heddle/target.h) in a process that may crash, hang or run out of memory. Started by the compiler; answers
// frames (heddle/sdk/target/messages.h) from its standard input on its standard output, one by one, until its input ends. What the plugin prints goes to
// the standard error stream. Limits are against accidents and not against attacks: the plugin has the rights of the user.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "core/host/load.h"
#include "heddle/sdk/target/tables.h"
#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

namespace target = sdk::target;
using target::Kind;

constexpr uint32_t kMostBytes = 1u << 30;  // of a frame

// The protocol's two ends, which the plugin cannot reach by printing.
int g_in = -1, g_out = -1;

void take_streams() {
  g_in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
  g_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (nothing > STDERR_FILENO) close(nothing);
}

bool read_bytes(char* to, size_t size) {
  while (size != 0) {
    const ssize_t count = ::read(g_in, to, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    to += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

void send(std::string_view frame) {
  while (!frame.empty()) {
    const ssize_t count = ::write(g_out, frame.data(), frame.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(1);  // the compiler no longer listens
    frame.remove_prefix(static_cast<size_t>(count));
  }
}

void answer_failure(uint32_t code, const std::string& message) {
  send(target::encode(target::Failed{code, message}));
}

void bound(int resource, uint64_t most) {
  rlimit bounds{};
  if (getrlimit(resource, &bounds) != 0) return;
  bounds.rlim_cur = bounds.rlim_max = std::min<rlim_t>(bounds.rlim_max, most);
  setrlimit(resource, &bounds);
}

// They also hold for processes that the plugin starts. 0: no limit.
void bound_resources(const target::Hello& hello) {
  constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
  bound(RLIMIT_CORE, 0);
  bound(RLIMIT_FSIZE, kMaxFileBytes);
  if (hello.cpu_seconds != 0) bound(RLIMIT_CPU, hello.cpu_seconds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow memory has more addresses
  if (hello.memory_bytes != 0) bound(RLIMIT_AS, hello.memory_bytes);
#endif
}

// The plugin's table, with what it lacks as NULL.
bool copy_target(const void* source, heddle_target_interface_t* out) {
  const auto* table = static_cast<const heddle_target_interface_t*>(source);
  *out = {};
  if (!table || table->struct_size < sizeof(uint32_t)) return false;
  std::memcpy(out, table, std::min<size_t>(table->struct_size, sizeof *out));
  return out->open && out->claim && out->emit;
}

class Runner {
 public:
  // On failure a frame was sent.
  bool open(const target::Hello& hello) {
    Verdict verdict;
    library_ = load_library(hello.library, hello.id, hello.version, false, &verdict);
    if (!library_) return refuse(HEDDLE_STATUS_FAILED_PRECONDITION, verdict.reason);
    if ((library_->table.kind & HEDDLE_PLUGIN_TARGET) == 0)
      return refuse(HEDDLE_STATUS_FAILED_PRECONDITION,
                    fmt::format("its plugin table's kind is {}, which is no target [HD-E-03]", library_->table.kind));
    services_ = std::make_shared<HostServices>(LogSink{}, HEDDLE_LOG_WARN, std::map<std::string, uint32_t>{}, 2u);
    host_ = std::make_unique<PluginHost>(hello.id, library_->abi_minor, services_, std::vector<OptionValue>{});
    heddle_plugin_instance_t* instance = nullptr;
    if (!is_good(library_->table.create(&host_->table, &instance), "creating an instance")) return false;
    if (!instance) return refuse(HEDDLE_STATUS_INTERNAL, "creating an instance failed: it gave neither a status nor an instance [HD-E-03]");
    const heddle_string_t id = {HEDDLE_TARGET_INTERFACE, sizeof(HEDDLE_TARGET_INTERFACE) - 1};
    if (!copy_target(library_->table.get_interface(instance, id), &table_))
      return refuse(HEDDLE_STATUS_FAILED_PRECONDITION, "it has no " HEDDLE_TARGET_INTERFACE " with open, claim and emit [HD-E-03]");
    const target::ParamsTables params(hello);
    if (!is_good(table_.open(instance, &params.c, &target_), "opening the target")) return false;
    if (!target_) return refuse(HEDDLE_STATUS_INTERNAL, "opening the target failed: it gave neither a status nor a target [HD-E-07]");
    send(target::encode(target::Ready{library_->abi_minor, table_.inspect ? 1u : 0u}));
    return true;
  }

  void serve(Kind kind, std::string_view payload) {
    switch (kind) {
      case Kind::kClaim:
        return claim(payload);
      case Kind::kEmit:
        return emit(payload);
      case Kind::kInspect:
        return inspect(payload);
      default:
        answer_failure(HEDDLE_STATUS_INVALID_ARGUMENT, fmt::format("frames of kind {} are not known", static_cast<unsigned>(kind)));
    }
  }

 private:
  static bool refuse(heddle_status_code_t code, const std::string& message) {
    answer_failure(code, message);
    return false;
  }
  bool is_good(heddle_status_t* status, const char* what) {
    if (!status) return true;
    const std::string_view said = view(host_->table.status_message(host_->table.self, status));
    answer_failure(host_->table.status_code(host_->table.self, status),
                   module::one_line(said.empty() ? fmt::format("{} failed, without a reason", what) : std::string(said.substr(0, 2048))));
    host_->table.status_free(host_->table.self, status);
    return false;
  }
  static bool is_read(bool good) {
    if (!good) answer_failure(HEDDLE_STATUS_INVALID_ARGUMENT, "the frame cannot be decoded");
    return good;
  }

  void claim(std::string_view payload) {
    target::Graph graph;
    if (!is_read(target::decode(payload, &graph))) return;
    const target::GraphTables tables(graph);
    heddle_target_answer_t answered{};
    answered.struct_size = sizeof answered;
    if (!is_good(table_.claim(target_, &tables.c, &answered), "claim")) return;
    target::Answer answer;
    give(answered, &answer, [&] { return target::encode(answer); });
  }
  void emit(std::string_view payload) {
    target::Kernel kernel;
    if (!is_read(target::decode(payload, &kernel))) return;
    const heddle_target_kernel_t table = target::table_of(kernel);
    heddle_target_code_t emitted{};
    emitted.struct_size = sizeof emitted;
    if (!is_good(table_.emit(target_, &table, &emitted), "emit")) return;
    target::Code code;
    give(emitted, &code, [&] { return target::encode(code, Kind::kCode); });
  }
  void inspect(std::string_view payload) {
    target::Code code;
    if (!is_read(target::decode(payload, &code))) return;
    if (!table_.inspect) return answer_failure(HEDDLE_STATUS_UNIMPLEMENTED, "the plugin has no inspect");
    const target::CodeTables tables(code);
    heddle_target_code_t found{};
    found.struct_size = sizeof found;
    if (!is_good(table_.inspect(target_, &tables.c, &found), "inspect")) return;
    target::Code read;
    give(found, &read, [&] { return target::encode(read, Kind::kCode); });
  }
  template <class C, class Message, class Encode>
  static void give(const C& answered, Message* message, Encode&& encode) {
    std::string error;
    if (!target::read(answered, message, &error)) return answer_failure(HEDDLE_STATUS_DATA_LOSS, "its answer is malformed: " + error);
    const std::string frame = encode();
    if (frame.empty()) return answer_failure(HEDDLE_STATUS_RESOURCE_EXHAUSTED, "its answer has more than 4 GiB");
    send(frame);
  }

  PluginLibraryRef library_;
  std::shared_ptr<HostServices> services_;
  std::unique_ptr<PluginHost> host_;
  heddle_target_interface_t table_{};
  heddle_target_t* target_ = nullptr;
};

// The next frame; nothing at the end of the input.
std::optional<std::pair<Kind, std::string>> next_frame() {
  char bytes[target::kHeaderBytes];
  if (!read_bytes(bytes, sizeof bytes)) return std::nullopt;
  const target::FrameHeader header = target::read_header(bytes);
  if (header.protocol != target::kProtocol || header.bytes > kMostBytes) {
    answer_failure(
        HEDDLE_STATUS_INVALID_ARGUMENT,
        fmt::format("a frame of protocol {} with {} bytes; this heddle-target-host knows protocol {} and at most {}; install it and the "
                    "compiler of one version",
                    header.protocol, header.bytes, target::kProtocol, kMostBytes));
    return std::nullopt;
  }
  std::string payload(header.bytes, '\0');
  if (!read_bytes(payload.data(), payload.size())) return std::nullopt;
  return std::pair(static_cast<Kind>(header.kind), std::move(payload));
}

int serve() {
  take_streams();
  const auto first = next_frame();
  target::Hello hello;
  if (!first) return 1;
  if (first->first != Kind::kHello || !target::decode(first->second, &hello)) {
    answer_failure(HEDDLE_STATUS_INVALID_ARGUMENT, "the first frame is not the one that opens a plugin");
    return 1;
  }
  bound_resources(hello);
  Runner runner;
  if (!runner.open(hello)) return 1;
  while (const auto frame = next_frame()) runner.serve(frame->first, frame->second);
  return 0;
}

}  // namespace
}  // namespace heddle::host

// Ends without destructors of the plugin: its answers are complete, and what it does at exit is of no interest.
int main(int argc, char**) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  if (argc != 1 || isatty(STDIN_FILENO)) {
    std::fprintf(stderr, "heddle-target-host: this program is started by heddle compile, which speaks to it over its standard streams\n");
    return 2;
  }
  try {
    _exit(heddle::host::serve());
  } catch (const std::bad_alloc&) {
    heddle::host::answer_failure(HEDDLE_STATUS_RESOURCE_EXHAUSTED,
                                 "the memory of the process is exhausted; allow more, or make the plugin need less");
  } catch (const std::exception& error) {
    heddle::host::answer_failure(HEDDLE_STATUS_INTERNAL, std::string("an exception left the plugin or its process: ") + error.what());
  } catch (...) {
    heddle::host::answer_failure(HEDDLE_STATUS_INTERNAL, "an unknown exception left the plugin [HD-B-01]");
  }
  _exit(1);
}
