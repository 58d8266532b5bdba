// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-probe: examines one plugin in a process that may crash. Started by libheddle only; it answers over descriptor 3, never over streams
// that the plugin can print to. It reads no manifest and no configuration: its command line has all that it needs.
//
//   heddle-probe NONCE TIMEOUT_MS ID VERSION LIBRARY [name=kind:value ...]
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <utility>

#include "core/host/load.h"
#include "core/host/probe_protocol.h"
#include "sdk/module/printable.h"

namespace heddle::host {
namespace {

void send(std::string_view text) {
  while (!text.empty()) {
    ssize_t count = write(kProbeDescriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) _exit(1);  // the parent no longer listens
    text.remove_prefix(static_cast<size_t>(count));
  }
}

void send_stage(std::string_view stage) {
  send(fmt::format("stage {}\n", stage));
}

// Does all that the host does with the plugin before it opens a device.
Verdict look(const std::string& id, const std::string& version, const std::string& path, std::vector<OptionValue> options) {
  Verdict verdict;
  send_stage("loading its library");
  const PluginLibraryRef library = load_library(path, id, version, false, &verdict);
  if (!library) return verdict;
  auto services = std::make_shared<HostServices>(LogSink{}, HEDDLE_LOG_WARN, std::map<std::string, uint32_t>{}, 2u);
  auto host = std::make_unique<PluginHost>(id, library->abi_minor, services, std::move(options));
  send_stage("in its function probe");
  verdict = run_probe(*library, host->table);
  if (verdict.state != PluginState::kAvailable) return verdict;
  send_stage("in its function create");
  Verdict created;
  std::unique_ptr<PluginInstance> instance = create_instance(library, std::move(host), &created);
  if (!instance) return created;
  if (instance->driver) {
    send_stage("counting its devices");
    const LoadedDriver& driver = *instance->driver;
    Status status(driver.device.count(driver.api.instance, &verdict.device_count));
    if (!status.ok()) return {PluginState::kProbeFailed, fmt::format("counting its devices failed: {}", status.message())};
    if (verdict.device_count == 0) return {PluginState::kNoDevice, "it reports no device"};
  }
  send_stage("in its function shutdown");
  instance.reset();
  return verdict;
}

// Limits against accidents; they also hold for processes that a plugin starts and leaves behind. Memory has no limit: vendor libraries reserve
// hundreds of GiB of addresses, and RLIMIT_DATA counts such reservations. Instead the parent watches how much is in use, and the kernel kills this
// process first if memory runs out.
void bound_resources(uint64_t timeout_ms) {
  constexpr rlim_t kMaxFileBytes = rlim_t{4} << 30;
  const rlim_t cpu_seconds = (timeout_ms / 1000 + 1) * std::max(1u, std::thread::hardware_concurrency());
  for (const auto& [resource, most] : {std::pair(RLIMIT_CORE, rlim_t{0}), {RLIMIT_FSIZE, kMaxFileBytes}, {RLIMIT_CPU, cpu_seconds}}) {
    rlimit bounds{};
    if (getrlimit(resource, &bounds) != 0) continue;
    bounds.rlim_max = std::min(bounds.rlim_max, most);
    bounds.rlim_cur = std::min(bounds.rlim_cur, most);
    setrlimit(resource, &bounds);
  }
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, "1000", 4);
  close(file);
}

int probe(int argc, char** argv) {
  // If the parent is gone, no process needs the answer. A core file of a plugin's crash is of no use either.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 6) {
    fmt::print(stderr,
               "heddle-probe: this program is started by libheddle, with NONCE TIMEOUT_MS ID VERSION LIBRARY [name=kind:value ...]\n");
    return 2;
  }
  bound_resources(std::strtoul(argv[2], nullptr, 10));
  send(fmt::format("{} {}\n", kProbeProtocol, argv[1]));
  std::vector<OptionValue> options;
  for (int i = 6; i < argc; ++i) {
    OptionValue option;
    if (!option_from_argument(argv[i], &option)) {
      fmt::print(stderr, "heddle-probe: argument {} is not an option: {}\n", i, argv[i]);
      return 2;
    }
    options.push_back(std::move(option));
  }
  Verdict verdict = look(argv[3], argv[4], argv[5], std::move(options));
  send(fmt::format("state {}\ndevices {}\nvendor {}\nreason {}\nend\n", static_cast<uint32_t>(verdict.state), verdict.device_count,
                   one_line(verdict.vendor_version), one_line(verdict.reason, 2048)));
  return 0;
}

}  // namespace
}  // namespace heddle::host

// Ends as an application does, after the answer, so that a plugin that crashes at exit is detected here.
int main(int argc, char** argv) {
  try {
    return heddle::host::probe(argc, argv);
  } catch (...) {
    _exit(1);
  }
}
