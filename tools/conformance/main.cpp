// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-conformance: runs every case in a separate child process and prints the results. This process never loads the plugin.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "sdk/module/printable.h"
#include "session.h"

namespace heddle::conformance {
namespace {

enum class Outcome { kPassed, kFailed, kSkipped, kAbsent, kMisuse };
const char* const kOutcomes[] = {"passed", "failed", "skipped", "absent", "misused"};
constexpr int kCounted = 4;  // misuse ends the run

// Requirements of every host before it works with a plugin: an incomplete vendor engine is no excuse for these.
const char* const kNeverSkipped[] = {"build.", "entry.", "lifetime.", "manifest.", "plugin.", "structs."};
const char kKernels[] = "dispatch.kernels";

struct Finding {
  Outcome outcome = Outcome::kPassed;
  std::vector<std::string> texts;
  double seconds = 0;
};

std::vector<Case> all_cases() {
  Cases cases;
  for (auto* add : {add_manifest_cases,        add_plugin_cases,          add_device_cases,   add_buffer_cases,      add_transfer_cases,
                    add_param_io_cases,        add_blocks_cases,          add_dispatch_cases, add_portable_cases,    add_recording_cases,
                    add_timeline_cases,        add_failure_cases,         add_lifetime_cases, add_concurrency_cases, add_allocator_cases,
                    add_allocator_order_cases, add_allocator_usage_cases, add_library_cases,  add_library_run_cases, add_operation_cases,
                    add_target_cases,          add_target_input_cases}) {
    add(&cases);
  }
  return cases;
}

// ---- in the child

// A complete use of a driver, allocator or library, so that resources that a vendor library keeps after its first use do not count as leaks of the
// plugin.
void warm_up() {
  if (plugin().is_driver()) {
    Session session;
    session.run(List());
  } else {
    Instance instance;
  }
}

template <class Count>
void expect_no_more(const char* what, uint64_t before, Count count) {
  uint64_t after = count();
  for (int i = 0; i < 200 && after > before; ++i) {  // a joined thread leaves the list a moment later
    usleep(5000);
    after = count();
  }
  CHECK(after <= before, "%llu %s before the case, %llu after everything was closed and shut down", number(before), what, number(after));
}

int run_child(const Case& each) {
  begin_case(settings().findings, settings().seed, each.name);
  if (each.kind == Kind::kDriver && !plugin().is_driver()) absent("the plugin is not a driver");
  if (each.kind == Kind::kAllocator && !plugin().is_allocator()) absent("the plugin is not an allocator");
  if (each.kind == Kind::kLibrary && !plugin().is_library()) absent("the plugin is not a library");
  if (each.kind == Kind::kTarget && !plugin().is_target()) absent("the plugin is not a target");
  std::thread([] {}).join();   // ThreadSanitizer starts its own thread together with the first one
  if (!each.fresh) warm_up();  // resources that a vendor library opens once and keeps are not leaks
  if (each.twice) each.run();
  const uint64_t descriptors = count_descriptors(), threads = count_threads();
  each.run();
  expect_no_more("open descriptors", descriptors, count_descriptors);
  expect_no_more("threads", threads, count_threads);
  CHECK(Host::live_statuses() == 0, "%lld statuses were not freed, or freed too often [HD-S-01]",
        static_cast<long long>(Host::live_statuses()));
  end_case();
  std::fflush(nullptr);
  _exit(failed() ? 1 : 0);
}

// ---- in the parent

struct Child {
  size_t index = 0;  // index in the list of cases
  pid_t process = -1;
  int findings = -1, output = -1;
  uint64_t start_ns = 0;
  std::string said, printed;
};

Child start_child(const Case& each, size_t index, char** argv) {
  int findings[2], output[2];
  if (pipe(findings) != 0 || pipe(output) != 0) {
    std::perror("heddle-conformance: pipe");
    std::exit(2);
  }
  Child child;
  child.index = index;
  child.start_ns = now_ns();
  child.process = fork();
  if (child.process == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(findings[0]);
    close(output[0]);
    dup2(output[1], 1);
    dup2(output[1], 2);
    if (output[1] > 2) close(output[1]);
    std::vector<char*> arguments;
    for (char** at = argv; *at; ++at) arguments.push_back(*at);
    std::string name = each.name, descriptor = std::to_string(findings[1]);
    char run_case[] = "--run-case", findings_flag[] = "--findings";
    for (char* more : {run_case, name.data(), findings_flag, descriptor.data(), static_cast<char*>(nullptr)}) arguments.push_back(more);
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  close(findings[1]);
  close(output[1]);
  child.findings = findings[0];
  child.output = output[0];
  return child;
}

// False at the end of the pipe.
bool drain(int descriptor, std::string* text) {
  char bytes[4096];
  const ssize_t got = read(descriptor, bytes, sizeof bytes);
  if (got > 0 && text->size() < 64 << 10) text->append(bytes, static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

Finding judge(const Child& child, int wait_status, bool timed_out) {
  Finding finding;
  finding.seconds = static_cast<double>(now_ns() - child.start_ns) * 1e-9;
  bool done = false;
  std::string where, ends;
  std::vector<std::string> notes;
  std::istringstream lines(child.said);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("fail ", 0) == 0) {
      finding.outcome = Outcome::kFailed;
      finding.texts.push_back(line.substr(5));
    } else if (line.rfind("absent ", 0) == 0 && finding.outcome == Outcome::kPassed) {
      finding.outcome = Outcome::kAbsent;
      finding.texts.push_back(line.substr(7));
    }
    if (line.rfind("note ", 0) == 0) notes.push_back(line.substr(5));
    if (line.rfind("misuse ", 0) == 0) return {Outcome::kMisuse, {line.substr(7)}, finding.seconds};
    if (line.rfind("inside ", 0) == 0) where = line;
    if (line.rfind("ends ", 0) == 0) ends = line.substr(5);
    done = done || line == "done";
  }
  auto failed = [&](const std::string& text) {
    finding.outcome = Outcome::kFailed;
    finding.texts.push_back(text);
  };
  const bool has_ended = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) == SIGABRT : !done;
  if (!timed_out && !ends.empty() && has_ended && finding.outcome == Outcome::kPassed) {
    finding.outcome = Outcome::kAbsent;
    finding.texts.push_back(ends + (WIFSIGNALED(wait_status) ? ", by abort()" : ", by exit()"));
    if (!child.printed.empty()) finding.texts.push_back("it printed: " + module::printable(child.printed.substr(0, 2000)));
  } else if (timed_out) {
    failed("it hung: not finished within " + std::to_string(static_cast<long>(settings().time_limit_s)) + " s");
  } else if (WIFSIGNALED(wait_status)) {
    failed("it crashed " + (where.empty() ? "outside of the plugin's functions" : where) + ": " + strsignal(WTERMSIG(wait_status)));
  } else if (finding.outcome != Outcome::kFailed && WEXITSTATUS(wait_status) != 0) {
    failed("the process ended with exit code " + std::to_string(WEXITSTATUS(wait_status)) +
           (done ? " after the case" : " " + (where.empty() ? "inside the case" : where)));
  } else if (finding.outcome == Outcome::kPassed && !done) {
    failed("the process ended " + (where.empty() ? "inside the case" : where) + ", with exit code 0");
  }
  if (finding.outcome == Outcome::kPassed) finding.texts = std::move(notes);
  if (finding.outcome == Outcome::kFailed && !child.printed.empty()) {
    finding.texts.push_back("it printed: " + module::printable(child.printed.substr(0, 2000)));
  }
  return finding;
}

// Removes the temporary files that a case has made and left: it failed, crashed or was killed. A name is a plain file's in the directory of such
// files, whatever the plugin may have written to the pipe.
void remove_files(const std::string& said) {
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("file ", 0) != 0) continue;
    const std::string name = line.substr(5);
    if (name.rfind(kTemporaryPrefix, 0) == 0 && name.find('/') == std::string::npos) unlink(temporary_path(name).c_str());
  }
}

std::vector<Finding> run_all(const std::vector<Case>& cases, char** argv) {
  std::vector<Finding> findings(cases.size());
  std::vector<Child> running;
  size_t next = 0;
  while (next < cases.size() || !running.empty()) {
    while (next < cases.size() && running.size() < settings().jobs) {
      const auto skip = settings().skips.find(cases[next].name);
      if (skip != settings().skips.end()) {
        findings[next] = {Outcome::kSkipped, {skip->second}, 0};
      } else {
        running.push_back(start_child(cases[next], next, argv));
      }
      ++next;
    }
    std::vector<pollfd> polled;
    for (const Child& child : running) {
      polled.push_back({child.findings, POLLIN, 0});
      polled.push_back({child.output, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), 20);
    for (size_t i = running.size(); i-- > 0;) {
      Child& child = running[i];
      if (polled[2 * i].revents) drain(child.findings, &child.said);
      if (polled[2 * i + 1].revents) drain(child.output, &child.printed);
      int status = 0;
      bool over = waitpid(child.process, &status, WNOHANG) == child.process;
      const bool late = !over && static_cast<double>(now_ns() - child.start_ns) * 1e-9 > settings().time_limit_s;
      if (late) {
        kill(-child.process, SIGKILL);
        waitpid(child.process, &status, 0);
        over = true;
      }
      if (!over) continue;
      kill(-child.process, SIGKILL);  // ends processes that a case left behind; they also hold the pipes
      while (drain(child.findings, &child.said)) {
      }
      while (drain(child.output, &child.printed)) {
      }
      close(child.findings);
      close(child.output);
      remove_files(child.said);
      findings[child.index] = judge(child, status, late);
      running.erase(running.begin() + static_cast<long>(i));
    }
  }
  return findings;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

void print_json(const std::vector<Case>& cases, const std::vector<Finding>& findings, const size_t (&counts)[5]) {
  std::printf("{\"plugin\": %s, \"id\": %s, \"seed\": %llu,\n", quoted(settings().library).c_str(), quoted(settings().id).c_str(),
              number(settings().seed));
  for (int i = 0; i < kCounted; ++i) std::printf(" \"%s\": %zu,", kOutcomes[i], counts[i]);
  std::printf("\n \"cases\": [\n");
  for (size_t i = 0; i < cases.size(); ++i) {
    std::printf("  {\"name\": %s, \"outcome\": \"%s\", \"seconds\": %.3f, \"texts\": [", quoted(cases[i].name).c_str(),
                kOutcomes[static_cast<int>(findings[i].outcome)], findings[i].seconds);
    for (size_t k = 0; k < findings[i].texts.size(); ++k) std::printf("%s%s", k ? ", " : "", quoted(findings[i].texts[k]).c_str());
    std::printf("]}%s\n", i + 1 < cases.size() ? "," : "");
  }
  std::printf(" ]}\n");
}

void print_table(const std::vector<Case>& cases, const std::vector<Finding>& findings, const size_t (&counts)[5]) {
  for (size_t i = 0; i < cases.size(); ++i) {
    const Finding& finding = findings[i];
    if (finding.outcome == Outcome::kPassed && !settings().verbose) continue;
    std::printf("%-8s %-40s %6.2f s\n", kOutcomes[static_cast<int>(finding.outcome)], cases[i].name, finding.seconds);
    if (finding.outcome == Outcome::kFailed) std::printf("         it must hold: %s\n", cases[i].behaviour);
    for (const std::string& text : finding.texts) std::printf("         %s\n", text.c_str());
  }
  std::printf("%s: %zu passed, %zu failed, %zu skipped by skips.toml, %zu absent; seed %llu\n",
              settings().id.empty() ? settings().library.c_str() : settings().id.c_str(), counts[0], counts[1], counts[2], counts[3],
              number(settings().seed));
}

bool has_name(const Case& each, const std::string& part) {
  return std::string(each.name).find(part) != std::string::npos;
}

bool wanted(const Case& each) {
  if (settings().filter.empty()) return true;
  std::istringstream parts(settings().filter);
  for (std::string part; std::getline(parts, part, ',');) {
    if (has_name(each, part)) return true;
  }
  return false;
}

// Checks the names in --filter and skips.toml; returns an error text, empty on success.
std::string check_names(const std::vector<Case>& cases) {
  std::istringstream parts(settings().filter);
  for (std::string part; std::getline(parts, part, ',');) {
    if (std::none_of(cases.begin(), cases.end(), [&](const Case& each) { return has_name(each, part); }))
      return "--filter: no case's name contains " + shown(part) + "; --list shows them";
  }
  std::vector<std::string> names;
  for (const Case& each : cases) names.push_back(each.name);
  const std::string& file = settings().skips_file;
  for (const auto& [name, reason] : settings().skips) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string hint = host::did_you_mean(name, names);
      return file + ": there is no case " + shown(name) + "; " + (hint.empty() ? "--list shows them" : hint);
    }
    for (const char* group : kNeverSkipped) {
      if (name.rfind(group, 0) == 0) return file + ": '" + name + "' cannot be skipped: every host relies on " + group + "*";
    }
  }
  for (const auto& [name, reason] : settings().skips) {
    if (std::string why = why_no_reason(reason); !why.empty()) return file + ": the reason for skipping '" + name + "', " + why;
  }
  return {};
}

int refuse(const std::string& text) {
  std::fprintf(stderr, "heddle-conformance: %s\n", text.c_str());
  return 2;
}

int run(int argc, char** argv) {
  std::string error;
  if (!read_settings(argc, argv, &error)) {
    return refuse(error + "\nusage: heddle-conformance --plugin FILE [...]; see heddle-conformance --help");
  }
  if (settings().help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  std::vector<Case> cases = all_cases();
  if (!settings().run_case.empty()) {
    for (const Case& each : cases) {
      if (settings().run_case == each.name) return run_child(each);
    }
    return 2;
  }
  if (std::string wrong = check_names(cases); !wrong.empty()) return refuse(wrong);
  // Kernels that do not match the device would make most of the kit absent: checked before anything else.
  if (!settings().list && !settings().kernels.empty() && !settings().is_no_driver) {
    std::vector<Case> first = cases;
    std::erase_if(first, [](const Case& each) { return std::strcmp(each.name, kKernels) != 0; });
    const std::vector<Finding> found = run_all(first, argv);
    if (found[0].outcome == Outcome::kMisuse) return refuse(found[0].texts[0]);
  }
  std::erase_if(cases, [](const Case& each) {
    const bool foreign =
        (each.kind == Kind::kDriver && settings().is_no_driver) || (each.kind == Kind::kAllocator && settings().is_no_allocator) ||
        (each.kind == Kind::kLibrary && settings().is_no_library) || (each.kind == Kind::kTarget && settings().is_no_target);
    const bool stays = !settings().list && !settings().declared.unloadable &&
                       std::find(std::begin(kUnloadCases), std::end(kUnloadCases), std::string_view(each.name)) != std::end(kUnloadCases);
    return foreign || stays || !wanted(each);
  });
  if (cases.empty())
    return refuse("--filter " + settings().filter + ": no such case applies to plugins of this kind, or to one that stays loaded");
  if (settings().list) {
    for (const Case& each : cases) std::printf("%-40s %s\n", each.name, each.behaviour);
    return 0;
  }
  const std::vector<Finding> findings = run_all(cases, argv);
  size_t counts[5] = {};
  for (const Finding& finding : findings) ++counts[static_cast<int>(finding.outcome)];
  if (settings().json) {
    print_json(cases, findings, counts);
  } else {
    print_table(cases, findings, counts);
  }
  for (size_t i = 0; i < cases.size() && !settings().json; ++i) {
    if (findings[i].outcome == Outcome::kFailed && std::strcmp(cases[i].name, kKernels) == 0)
      std::printf("NOT CONFORMING: the kernels of the kit did not all run\n");
  }
  return counts[1] ? 1 : 0;
}

}  // namespace
}  // namespace heddle::conformance

int main(int argc, char** argv) {
  return heddle::conformance::run(argc, argv);
}
