// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parent's side of a probe: spawns, listens, times out, and turns the outcome into a verdict.
#include "core/host/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "core/host/descriptor.h"
#include "core/host/discovery.h"
#include "core/host/log.h"
#include "core/host/process.h"

extern char** environ;

namespace heddle::host {
namespace {

constexpr size_t kMaxAnswerBytes = 16 << 10;
constexpr size_t kTailBytes = 400;  // bytes of the plugin's output that are shown in the reason
// Limit of resident memory. A system limit would also count reservations of vendor libraries, hundreds of GiB, so usage is polled instead.
constexpr uint64_t kMaxResidentBytes = uint64_t{2} << 30;
constexpr uint64_t kLookEveryMs = 20;

// A pipe whose ends do not collide with the child's descriptors 0 to 3.
bool make_pipe(Descriptor* out_read, Descriptor* out_write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  Descriptor low_read(ends[0]), low_write(ends[1]);
  *out_read = Descriptor(fcntl(ends[0], F_DUPFD_CLOEXEC, 16));
  *out_write = Descriptor(fcntl(ends[1], F_DUPFD_CLOEXEC, 16));
  if (out_read->get() < 0 || out_write->get() < 0) return false;
  return fcntl(out_read->get(), F_SETFL, O_NONBLOCK) == 0;
}

struct Child {
  const ProbeRequest* request = nullptr;
  pid_t pid = -1;
  Descriptor process;  // pidfd, if the kernel supports it
  Descriptor answer_pipe, output_pipe;
  std::string answer, output;
  uint64_t deadline_ns = 0;
  bool running = false;
  bool timed_out = false;
  bool too_large = false;
  bool status_known = false;
  int status = 0;
  std::string start_error;
};

// This process's environment, for a child.
std::vector<char*> child_environment(bool strict) {
  std::vector<char*> variables;
  for (char** variable = environ; variable && *variable; ++variable) {
    if (!strict || std::strncmp(*variable, "LD_", 3) != 0) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

// 0, or errno, with child.start_error set.
int start(const std::string& program, const std::string& nonce, bool strict, Child& child) {
  Descriptor answer_write, output_write;
  if (!make_pipe(&child.answer_pipe, &answer_write) || !make_pipe(&child.output_pipe, &output_write)) {
    const int failed = errno;
    child.start_error = fmt::format("a pipe cannot be made: {}", std::strerror(failed));
    return failed;
  }
  std::vector<std::string> words = {
      program, nonce, fmt::format("{}", child.request->timeout_ms), child.request->id, child.request->version, child.request->library_path};
  for (const OptionValue& option : child.request->options) words.push_back(option_to_argument(option));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output_write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_write.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answer_write.get(), kProbeDescriptor);
  posix_spawn_file_actions_addclosefrom_np(&actions, kProbeDescriptor + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A separate session: no terminal to interfere with, and a group that can be killed with all processes that it starts.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  const int failed = posix_spawn(&child.pid, program.c_str(), &actions, &attributes, arguments.data(), child_environment(strict).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    child.start_error = fmt::format("{} cannot be started: {}", program, std::strerror(failed));
    return failed;
  }
  child.start_error.clear();
  child.running = true;
  child.deadline_ns = clock_ns() + uint64_t{child.request->timeout_ms} * 1000000u;
  child.process = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
  return 0;
}

// Reads what is available; keeps the beginning of answers and the end of output. A plugin that writes for ever must not keep us here: the rest is
// read on the next turn.
void drain(Child& child) {
  char buffer[4096];
  ssize_t count;
  for (int turns = 0; turns < 64 && (count = read(child.answer_pipe.get(), buffer, sizeof(buffer))) > 0; ++turns) {
    size_t remaining = kMaxAnswerBytes - std::min(kMaxAnswerBytes, child.answer.size());
    child.answer.append(buffer, std::min<size_t>(remaining, static_cast<size_t>(count)));
  }
  for (int turns = 0; turns < 64 && (count = read(child.output_pipe.get(), buffer, sizeof(buffer))) > 0; ++turns) {
    child.output.append(buffer, static_cast<size_t>(count));
    if (child.output.size() > kTailBytes) child.output.erase(0, child.output.size() - kTailBytes);
  }
}

// True once the child has ended.
bool reap(Child& child, int flags) {
  pid_t got;
  do {
    got = waitpid(child.pid, &child.status, flags);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  child.status_known = got == child.pid;  // otherwise the application reaps children itself or ignores SIGCHLD
  child.running = false;
  kill(-child.pid, SIGKILL);  // kills remaining processes; the group outlives its leader
  drain(child);
  for (Descriptor* descriptor : {&child.answer_pipe, &child.output_pipe, &child.process}) descriptor->reset();
  return true;
}

// Resident memory of a process; 0 if unknown.
uint64_t resident_bytes(pid_t pid) {
  const Descriptor file(open(fmt::format("/proc/{}/statm", pid).c_str(), O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t size = file ? read(file.get(), text, sizeof(text)) : 0;
  const std::string_view pages(text, size > 0 ? static_cast<size_t>(size) : 0);
  const size_t second = pages.find(' ') + 1;
  uint64_t resident = 0;
  if (second != 0) std::from_chars(pages.data() + second, pages.data() + pages.size(), resident);
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Starts waiting requests, as many at once as allowed. Resources that are missing for a child are freed when running ones end.
class Starter {
 public:
  Starter(const std::string& program, bool strict, std::vector<Child>& children)
      // The nonce distinguishes answers of this probe from anything else that may be written to the descriptor.
      : nonce(fmt::format("{:x}-{:x}", getpid(), clock_ns())), program_(program), strict_(strict), children_(children) {}

  // True if a request is still waiting.
  bool start_some() {
    const size_t most = std::max<size_t>(4, 2 * size_t{std::thread::hardware_concurrency()});
    auto running = static_cast<size_t>(std::count_if(children_.begin(), children_.end(), [](const Child& child) { return child.running; }));
    for (; next_ < children_.size() && running < most; ++next_) {
      const int failed = start(program_, nonce, strict_, children_[next_]);
      if (failed != 0) children_[next_].answer_pipe.reset(), children_[next_].output_pipe.reset();
      if (failed == 0) ++running;
      const bool passes = failed == EMFILE || failed == ENFILE || failed == EAGAIN || failed == ENOMEM;
      if (passes && running > 0) return true;
    }
    return next_ < children_.size();
  }

  const std::string nonce;

 private:
  const std::string& program_;
  const bool strict_;
  std::vector<Child>& children_;
  size_t next_ = 0;
};

void listen(std::vector<Child>& children, Starter& starter) {
  for (;;) {
    const bool more = starter.start_some();
    std::vector<pollfd> watched;
    uint64_t now = clock_ns();
    uint64_t wake_ns = UINT64_MAX;
    bool by_timer = false;
    for (Child& child : children) {
      if (!child.running) continue;
      child.timed_out = now >= child.deadline_ns;
      child.too_large = resident_bytes(child.pid) > kMaxResidentBytes;
      if (child.timed_out || child.too_large) {
        kill(-child.pid, SIGKILL);
        kill(child.pid, SIGKILL);
        reap(child, 0);
        continue;
      }
      wake_ns = std::min(wake_ns, child.deadline_ns);
      watched.push_back({child.answer_pipe.get(), POLLIN, 0});
      watched.push_back({child.output_pipe.get(), POLLIN, 0});
      if (child.process.get() >= 0) {
        watched.push_back({child.process.get(), POLLIN, 0});
      } else {
        by_timer = true;
      }
    }
    if (watched.empty()) {
      if (more) continue;
      return;
    }
    const uint64_t timeout_ms = std::min((wake_ns - now) / 1000000u + 1, by_timer ? 5 : kLookEveryMs);
    // A closed pipe stays readable: it is left out once its end was seen, and then the end of the child is awaited.
    watched.erase(std::remove_if(watched.begin(), watched.end(), [](const pollfd& p) { return p.fd < 0; }), watched.end());
    poll(watched.data(), watched.size(), static_cast<int>(timeout_ms));
    for (Child& child : children) {
      if (!child.running) continue;
      drain(child);
      for (const pollfd& p : watched) {
        if ((p.revents & POLLHUP) == 0 || (p.revents & POLLIN) != 0) continue;
        if (p.fd == child.answer_pipe.get()) child.answer_pipe.reset();
        if (p.fd == child.output_pipe.get()) child.output_pipe.reset();
      }
      reap(child, WNOHANG);
    }
  }
}

const char* signal_meaning(int number) {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV, an access outside of its memory";
    case SIGABRT:
      return "SIGABRT, it called abort";
    case SIGILL:
      return "SIGILL, an instruction that this CPU does not support";
    case SIGBUS:
      return "SIGBUS, an access to memory that no longer exists";
    case SIGFPE:
      return "SIGFPE, an arithmetic error";
    case SIGKILL:
      return "SIGKILL, killed by the system or another process";
    case SIGTRAP:
      return "SIGTRAP, a trap";
    case SIGTERM:
      return "SIGTERM, terminated by another process";
    case SIGXCPU:
      return "SIGXCPU, more processor time than a probe may use";
    case SIGXFSZ:
      return "SIGXFSZ, a file larger than a probe may write";
    case SIGSYS:
      return "SIGSYS, a forbidden system call";
    default:
      return "";
  }
}

// Parses an answer; false if it is incomplete.
bool read_answer(const std::string& answer, const std::string& nonce, std::string* out_stage, Verdict* out_verdict) {
  bool started = false, ended = false;
  std::string wrong;
  for (size_t start = 0; start < answer.size();) {
    size_t end = answer.find('\n', start);
    if (end == std::string::npos) break;
    std::string_view line = std::string_view(answer).substr(start, end - start);
    start = end + 1;
    size_t space = std::min(line.find(' '), line.size());
    std::string_view word = line.substr(0, space);
    std::string_view text = line.substr(std::min(space + 1, line.size()));
    // The plugin's code could have written any of it.
    auto number = [&](auto&& is_good) {
      uint32_t value = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
      if (read.ec == std::errc() && read.ptr == text.data() + text.size() && is_good(value)) return value;
      wrong = fmt::format("the answer has {} {}, which a probe cannot report", word, one_line(text, 32));
      return 0u;
    };
    if (word == kProbeProtocol) {
      started = text == nonce;
    } else if (!started) {
      return false;
    } else if (word == "stage") {
      *out_stage = one_line(text, 256);
    } else if (word == "state") {
      out_verdict->state = static_cast<PluginState>(number(is_finding));
    } else if (word == "devices") {
      out_verdict->device_count = number([](uint32_t count) { return count <= kMaxDevices; });
    } else if (word == "vendor") {
      out_verdict->vendor_version = one_line(text, 64);
    } else if (word == "reason") {
      out_verdict->reason = one_line(text, 2048);
    } else if (word == "end") {
      ended = true;
    }
  }
  if (!wrong.empty()) *out_verdict = {PluginState::kProbeFailed, "probing it failed: " + wrong};
  if (out_verdict->state == PluginState::kAvailable) out_verdict->reason.clear();
  return started && ended;
}

Verdict probe_failed(std::string reason, bool lasting) {
  Verdict verdict(PluginState::kProbeFailed, std::move(reason));
  verdict.lasting = lasting;
  return verdict;
}

Verdict judge(const Child& child, const std::string& nonce) {
  if (!child.start_error.empty()) return probe_failed("probing it failed: " + child.start_error, false);
  Verdict verdict;
  std::string stage = "starting";
  const bool answered = read_answer(child.answer, nonce, &stage, &verdict);
  const bool was_killed = child.status_known && WIFSIGNALED(child.status);
  const bool ended_badly = child.timed_out || child.too_large || was_killed || (child.status_known && WEXITSTATUS(child.status) != 0);
  if (answered && !(ended_badly && verdict.state == PluginState::kAvailable)) return verdict;
  if (answered)
    stage = "ending the process; no code of a plugin may run then, neither destructors of static objects nor atexit handlers [HD-L-02]";
  std::string cause;
  if (child.too_large) {
    cause = fmt::format("it used more than {} MiB of memory, the limit for a probe; report this to its vendor", kMaxResidentBytes >> 20);
  } else if (child.timed_out) {
    cause =
        fmt::format("it did not finish within {} ms; raise load.timeout_ms in its manifest if it needs longer", child.request->timeout_ms);
  } else if (!child.status_known) {
    cause = "it ended before it answered";
  } else if (WIFSIGNALED(child.status)) {
    const int number = WTERMSIG(child.status);
    const char* meaning = signal_meaning(number);
    cause = fmt::format("it crashed ({})", *meaning ? std::string(meaning) : fmt::format("signal {}", number));
  } else {
    cause = fmt::format("it ended the process with exit code {}{}", WEXITSTATUS(child.status), answered ? "" : " before it answered");
  }
  std::string reason = fmt::format("probing it failed while {}: {}", stage, cause);
  if (std::string said = one_line(child.output, kTailBytes); !said.empty()) reason += "; it printed: " + said;
  // A busy machine takes longer, and one that is short of memory kills processes.
  const bool killed_by_others = was_killed && WTERMSIG(child.status) == SIGKILL && !child.too_large;
  return probe_failed(std::move(reason), !child.timed_out && !killed_by_others);
}

}  // namespace

std::string find_probe_program() {
  const std::string own = library_folder();
  if (own.empty()) return {};
  for (const char* place :
       {"/heddle-probe", "/../libexec/heddle-probe", "/../libexec/heddle/heddle-probe", "/../bin/heddle-probe", "/heddle/heddle-probe"}) {
    std::string path = own + place;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::vector<Verdict> probe_in_children(const std::string& program, const std::vector<ProbeRequest>& requests, bool strict) {
  std::vector<Child> children(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) children[i].request = &requests[i];
  Starter starter(program, strict, children);
  listen(children, starter);
  std::vector<Verdict> verdicts;
  for (const Child& child : children) verdicts.push_back(judge(child, starter.nonce));
  return verdicts;
}

}  // namespace heddle::host
