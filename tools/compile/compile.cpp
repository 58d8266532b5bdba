// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle compile MODEL -o m.heddle`: a thin wrapper around heddle/compiler.h. Knows nothing of models or of LLVM.
#include "heddle/compiler.h"
#include "tools/compile/compile_flags.h"
#include "tools/compile/report_text.h"
#include "tools/compile/reproducer.h"
#include "tools/compile/verify_target.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tools/heddle/command.h"
#include "tools/heddle/failure.h"
#include "tools/heddle/flags.h"
#include "tools/heddle/output.h"
#include "tools/heddle/program.h"
#include "tools/heddle/report_view.h"

namespace heddle::tool {
namespace {

struct Options {
  CompileFlags compile;
  std::string output, params_out, dump_after, dump_to, report, reproducer, rerun, ptxas, code, explain, progress = "auto", tuned;
  bool annotate_affinity = false, no_cache = false, hashes_params_in = false, verify_target = false;

  void declare(Flags& flags) {
    compile.add_model(flags);
    flags.text("-o,--output", output, "the module to write; once complete, it replaces an existing file or link of that name", "FILE");
    compile.add_to(flags);
    flags.on("--annotate-affinity", annotate_affinity, "print the slot of every op's operands and results, and what decided it");
    flags.text(
        "--params-out", params_out,
        "write the weights to this .safetensors file instead of into the module, by their names in the model: all stored tensors of a "
        "floating-point or 8- or 16-bit type with a dimension, and what belongs to quantization",
        "FILE");
    flags.on("--params-in-hashes", hashes_params_in,
             "read the values of the weights that are left to files, and record their hashes, which heddle run checks on request");
    flags.text("--tuned", tuned, "kernel choices written by heddle tune, for the device that it measured", "FILE");
    flags.on("--no-cache", no_cache, "compile every kernel and store none in the cache");
    flags.text("--dump-after", dump_after, "write the IR after this pass", "PASS");
    flags.text("--dump-to", dump_to, "where the IR of --dump-after goes (default: the module's name and .mlir)", "FILE");
    flags.text(
        "--dump-code", code,
        "write the code of each target to this directory, as MODULE.TARGET.FORMAT, such as digits.gfx90a.hsaco, and portable code, also "
        "what target plugins are asked, as text",
        "DIRECTORY");
    flags.text("--report", report, "write the report (fusion decisions, kernels, times) as JSON", "FILE");
    flags.text("--ptxas", ptxas, "also write machine code for the cuda targets, with this NVIDIA assembler", "PROGRAM");
    flags.text("--reproducer", reproducer,
               "if compiling fails or crashes, write this file, with the imported IR (or the model, if the import fails), the flags and "
               "the version",
               "FILE");
    flags.text("--rerun", rerun,
               "instead of MODEL: repeat what a file of --reproducer has; -o is optional, other flags are those of the file", "FILE");
    flags.on("--verify-target", verify_target,
             "run the kernels of a target plugin on its device, beside portable code for the same; kernels with other numbers become "
             "portable code");
    flags.word("--explain", explain, "print the report; =json for JSON, which also has the plans that were not taken");
    flags.choice("--progress", progress, {"auto", "always", "never"}, "show progress on stderr; auto: on a terminal");
  }
};

Flags make_flags() {
  return Flags("compile", "Compiles a model into a .heddle file.");
}

// ----------------------------------------------------------------------------------------------- being interrupted

std::atomic<int> g_signal{0};

// On a signal the compile is asked to stop at its next step and gets two seconds for it; then the signal has its default effect. Because the
// output has no name before it is complete, nothing is left behind in either case.
void on_alarm(int) {
  signal(g_signal, SIG_DFL);
  raise(g_signal);
}
void on_signal(int number) {
  g_signal = number;
  signal(number, SIG_DFL);
  alarm(2);
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Progress {
  bool show;
  bool shown = false;
  Clock::time_point begin = Clock::now();
};

uint32_t on_progress(void* context, heddle_string_t stage, uint32_t done, uint32_t total) {
  Progress& progress = *static_cast<Progress*>(context);
  if (progress.show) {
    std::fprintf(stderr, "\r\x1b[K%.*s, %u of %u done, %.1f s", static_cast<int>(stage.size), stage.data, done, total,
                 seconds_since(progress.begin));
    std::fflush(stderr);
    progress.shown = true;
  }
  return g_signal != 0;
}

void on_warning(void* context, heddle_string_t text) {
  Progress& progress = *static_cast<Progress*>(context);
  if (std::exchange(progress.shown, false)) std::fprintf(stderr, "\r\x1b[K");
  std::fprintf(stderr, "heddle compile: warning: %s\n", printable({text.data, text.size}).c_str());
}

// For mkstemp and mkdtemp, in TMPDIR.
std::string temporary_pattern(const char* name) {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder && *folder ? folder : "/tmp") + "/" + name + "-XXXXXX";
}

// A temporary file, removed in the destructor.
class TemporaryFile {
 public:
  TemporaryFile() {
    path_ = temporary_pattern("heddle-compile");
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) {
      path_.clear();
    } else {
      close(descriptor);
    }
  }
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A temporary directory, removed in the destructor with its files.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const char* name) {
    path_ = temporary_pattern(name);
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (path_.empty()) return;
    for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) std::filesystem::remove(entry, ignored);
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Json read_report(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return parse_json({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

int explain(const std::string& path, const std::string& form) {
  const Json report = read_report(path);
  if (report.is_discarded()) return failed("compile", "the compiler's report cannot be read");
  if (form == "json") {
    print_line(dump_json(report, 2));
  } else {
    print_report(report);
  }
  return kFine;
}

// The compiler cannot know which device the module will run on, so the user is told which device was measured. The compiler has already read
// the file.
void tell_where_tuned(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const Json choices = parse_json({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  if (!choices.is_object() || !choices.contains("device") || !choices["device"].is_string()) return;
  std::fprintf(stderr, "heddle compile: the choices of '%s' were measured on %s; other choices may be faster on another device\n",
               printable(path).c_str(), printable(text(choices, "device")).c_str());
}

// "a, b, c and 5 more"
std::string some_names(const Json& names) {
  constexpr size_t most = 4;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) out += (i > 0 ? ", " : "") + cell_text(names[i]);
  return out + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "");
}

// "from model.safetensors: 101 weights, 86.7 MiB", a line per file, and the weights that are in the module.
void tell_where_weights_are(const Json& parameters) {
  auto count_text = [](uint64_t count) { return std::to_string(count) + (count == 1 ? " weight, " : " weights, "); };
  for (const Json& file : array(parameters, "left_to_files")) {
    const std::string scope = file.value("scope", "");
    std::fprintf(stderr, "from %s: %s%s%s\n", printable(text(file, "file")).c_str(), count_text(number(file, "count")).c_str(),
                 bytes_text(number(file, "bytes")).c_str(), scope.empty() ? "" : (", scope " + printable(scope)).c_str());
  }
  uint64_t bytes = 0;
  Json names = Json::array();
  for (const Json& weight : array(parameters, "in_module")) {
    bytes += number(weight, "bytes");
    names.push_back(weight["name"]);
  }
  if (names.empty()) return;
  std::fprintf(stderr, "in the module: %s%s: %s\n", count_text(names.size()).c_str(), bytes_text(bytes).c_str(),
               printable(some_names(names)).c_str());
}

// "wrote m.heddle 89.9 MiB in 8.9 s", a line per file.
void tell_what_was_written(const Options& options, double seconds) {
  for (const std::string& path : {options.output, options.params_out}) {
    struct stat facts;
    if (path.empty() || stat(path.c_str(), &facts) != 0) continue;
    std::fprintf(stderr, "wrote %s %s in %.1f s\n", printable(path).c_str(), bytes_text(static_cast<uint64_t>(facts.st_size)).c_str(),
                 seconds);
  }
}

// Whether an output would overwrite one of the user's input files or another output.
std::string overwrites(const Options& options) {
  std::vector<NamedFile> read = options.compile.files();
  read.push_back({"--tuned", options.tuned});
  return file_named_twice({{"-o", options.output},
                           {"--params-out", options.params_out},
                           {"--dump-to", options.dump_to},
                           {"--report", options.report},
                           {"--reproducer", options.reproducer}},
                          read);
}

// Whether the compiler does not know the name of a target, a pass, a node or a slot: a mistake on the command line, not in the model.
bool is_unknown_name(std::string_view message) {
  for (std::string_view start :
       {"compiler: target '", "compiler: no pass '", "compiler: placement '", "compiler: slot '", "compiler: donating '",
        "compiler: state '", "compiler: parameter file '", "compiler: specialization '", "compiler: parameter name '"}) {
    if (message.substr(0, start.size()) == start) return true;
  }
  return false;
}

// What outlives a crash of the compiler. `keep` gets code and text of a failure, on two lines; it may be empty, and then `ir_path` is, too.
struct Watch {
  std::function<void(const std::string& failure)> keep = {};
  std::string ir_path = {};               // for the imported IR
  std::vector<std::string> refused = {};  // kernels of a plugin that are not to be in the module
};

int compile_now(const Options& options, const Watch& watch);
int compile_with_reproducer(const Options& options);
int rerun(const Arguments& arguments);

int compile(const Arguments& arguments) {
  auto is_rerun = [](const std::string& argument) { return argument == "--rerun" || argument.starts_with("--rerun="); };
  if (std::any_of(arguments.begin(), arguments.end(), is_rerun)) return rerun(arguments);
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.output.empty())
    return flags.misuse("-o FILE is missing, such as -o " + std::filesystem::path(options.compile.model).stem().string() + ".heddle");
  if (options.output == "-") return flags.misuse("-o -: a module is a file, and not written to stdout; a file of that name is ./-");
  if (flags.given("--target") && options.compile.target.empty()) return flags.misuse("--target names no target");
  if (const std::string wrong = options.compile.check(); !wrong.empty()) return flags.misuse(wrong);
  if (options.hashes_params_in && options.compile.params_in.empty())
    return flags.misuse("--params-in-hashes is for --params-in, which is missing; other weights have hashes in any case");
  if (!options.explain.empty() && options.explain != "true" && options.explain != "json") {
    return flags.misuse("--explain=" + options.explain + ": json is the only other form");
  }
  if (options.dump_to.empty() && !options.dump_after.empty()) options.dump_to = options.output + ".mlir";
  if (options.dump_after.empty() && !options.dump_to.empty()) return flags.misuse("--dump-to needs --dump-after PASS");
  if (const std::string wrong = overwrites(options); !wrong.empty()) return flags.misuse(wrong);
  return options.reproducer.empty() ? compile_now(options, {}) : compile_with_reproducer(options);
}

// Compares the kernels of each plugin with portable code, and names those that are wrong. kFine: all that can be compared were.
int verify(const std::string& module, const Json& report, unsigned seconds, std::vector<std::string>& wrong) {
  const Json& plugins = array(report, "target_plugins");
  for (const Json& plugin : plugins) {
    const std::string family = text(plugin, "family"), who = "target plugin '" + text(plugin, "plugin") + "' " + text(plugin, "version");
    std::vector<std::string> kernels;
    for (const Json& claim : array(plugin, "claimed")) kernels.push_back(text(claim, "kernel"));
    if (kernels.empty()) {
      std::fprintf(stderr, "heddle compile: nothing to verify: %s has no kernel in the module\n", printable(who).c_str());
      continue;
    }
    const Verified verified = verify_target(module + (plugins.size() > 1 ? "." + family : ""), kernels, seconds);
    for (const Verified::Wrong& one : verified.wrong) {
      std::fprintf(stderr, "heddle compile: warning: %s: '%s' is wrong, and becomes portable code: %s\n", printable(who).c_str(),
                   printable(one.kernel).c_str(), printable(one.reason).c_str());
      wrong.push_back(family + "." + one.kernel);
    }
    for (const Verified::Wrong& one : verified.skipped) {
      std::fprintf(stderr, "heddle compile: warning: %s: '%s' is not verified, since portable code fails with the same inputs: %s\n",
                   printable(who).c_str(), printable(one.kernel).c_str(), printable(one.reason).c_str());
    }
    if (!verified.failure.empty()) {
      const int code = failed(
          "compile", "verifying the code of " + who + " failed: " + verified.failure +
                         "; the module is written as it was before; verify where a device of the target has a driver that loads this code");
      return verified.has_no_device ? kUnavailable : code;
    }
    const std::string unreached = verified.unreached == 0
                                      ? ""
                                      : "; " + std::to_string(verified.unreached) + " of their " + std::to_string(verified.entries) +
                                            " entries were not reached by the inputs";
    std::fprintf(stderr, "heddle compile: compared %zu of %zu kernels of %s with portable code; %zu have other numbers, %zu failed%s\n",
                 verified.compared, kernels.size(), printable(who).c_str(), verified.wrong.size() - verified.failed, verified.failed,
                 unreached.c_str());
  }
  return kFine;
}

int compile_now(const Options& options, const Watch& watch) {
  std::optional<TemporaryFile> temporary;
  std::string report_path = options.report;
  if (report_path.empty() && (!options.explain.empty() || !options.compile.params_in.empty() || options.verify_target)) {
    temporary.emplace();
    if (temporary->path().empty())
      return failed("compile", std::string("making a temporary file failed: ") + std::strerror(errno) + "; name a directory with TMPDIR");
    report_path = temporary->path();
  }

  Progress progress{progress_wanted(options.progress)};
  CompileParams all(options.compile);
  heddle_compile_params_t& params = all.c;
  params.output_path = view(options.output);
  params.parameters_path = view(options.params_out);
  params.dump_after = view(options.dump_after);
  params.dump_path = view(options.dump_to);
  params.report_path = view(report_path);
  params.reproducer_path = view(watch.ir_path);
  if (!watch.ir_path.empty()) params.flags |= HEDDLE_COMPILE_KEEP_REPRODUCER;
  params.ptxas = view(options.ptxas);
  params.code_path = view(options.code);
  const std::string to_stdout = "-";
  if (options.annotate_affinity) params.affinity_path = view(to_stdout);
  params.tuned_path = view(options.tuned);
  if (options.no_cache) params.flags |= HEDDLE_COMPILE_NO_CACHE;
  if (options.hashes_params_in) params.flags |= HEDDLE_COMPILE_HASH_PARAMETER_FILES;
  std::optional<TemporaryFolder> folder;  // of the modules that are compared
  std::string verification;
  if (options.verify_target) {
    folder.emplace("heddle-verify");
    if (folder->path().empty())
      return failed("compile",
                    std::string("making a temporary directory failed: ") + std::strerror(errno) + "; name another one with TMPDIR");
    verification = folder->path() + "/kernels.heddle";
    params.target_verification = view(verification);
  }
  std::vector<heddle_string_t> refused;
  for (const std::string& kernel : watch.refused) refused.push_back(view(kernel));
  params.target_refused = refused.data();
  params.target_refused_count = static_cast<uint32_t>(refused.size());
  params.progress = on_progress;
  params.warning = on_warning;
  params.context = &progress;

  signal(SIGALRM, on_alarm);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that is already ignored stays ignored, as nohup requires.
    if (signal(number, on_signal) == SIG_IGN) signal(number, SIG_IGN);
  }
  // A write beyond the file size limit fails with a reason instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  heddle_status_t* status = heddle_compile(&params);
  alarm(0);
  if (progress.shown) std::fprintf(stderr, "\r\x1b[K");
  if (status) {
    // Compiling needs no device and no plugin, so every error is either a failure or a usage mistake.
    const bool misused = is_unknown_name(view(heddle_status_message(status)));
    if (watch.keep) watch.keep(std::to_string(heddle_status_code(status)) + "\n" + std::string(view(heddle_status_message(status))));
    report(status);
    if (g_signal != 0) return 128 + g_signal;  // the shells' convention for a program that a signal ended
    return misused ? kUsage : kFailed;
  }
  const double seconds = seconds_since(progress.begin);
  if (options.verify_target) {
    std::vector<std::string> wrong;
    const int code = verify(verification, read_report(report_path),
                            options.compile.target_seconds != 0 ? static_cast<unsigned>(options.compile.target_seconds) : 60, wrong);
    if (code != kFine || !wrong.empty()) {
      if (code != kFine) return code;
      Options again = options;
      again.verify_target = false;  // the others are right
      Watch rest = watch;
      rest.refused = wrong;
      return compile_now(again, rest);
    }
  }
  if (!options.tuned.empty()) tell_where_tuned(options.tuned);
  const int code = options.explain.empty() ? kFine : explain(report_path, options.explain);
  tell_what_was_written(options, seconds);
  if (!options.compile.params_in.empty()) tell_where_weights_are(part(read_report(report_path), "parameters"));
  return code;
}

void add_flags(const char* flag, const std::vector<std::string>& values, std::vector<std::string>& out) {
  for (const std::string& value : values) out.push_back(std::string(flag) + "=" + value);
}

// As flags of a command line; what says where outputs go is left out.
Reproducer reproducer_of(const Options& options) {
  Reproducer made;
  made.model = options.compile.model;
  std::vector<std::string>&model = made.flags_of_model, &rest = made.flags;
  add_flags("--place", options.compile.places, model);
  add_flags("--alias", options.compile.aliases, model);
  add_flags("--donate", options.compile.donated, model);
  add_flags("--state", options.compile.states, model);
  add_flags("--specialize", options.compile.specializations, model);
  add_flags("--operators", options.compile.operators, model);
  add_flags("--target-plugin", options.compile.target_plugins, model);
  if (options.compile.foreign_formats) model.push_back("--foreign-formats");
  add_flags("--params-in", options.compile.params_in, model);
  add_flags("--param-name", options.compile.param_names, model);
  if (options.compile.params_in_values) model.push_back("--params-in-values");
  if (!options.compile.target.empty()) rest.push_back("--target=" + options.compile.target);
  add_flags("--slot", options.compile.slots, rest);
  rest.push_back("--math=" + options.compile.math);
  if (!options.tuned.empty()) rest.push_back("--tuned=" + options.tuned);
  if (!options.ptxas.empty()) rest.push_back("--ptxas=" + options.ptxas);
  if (options.compile.threads != 0) rest.push_back("--threads=" + std::to_string(options.compile.threads));
  rest.push_back("--no-cache");  // a kernel in the cache would hide a failure
  return made;
}

// The imported IR without its first line, which says where the compiler was.
std::string split_step(std::string ir, std::string& step) {
  constexpr std::string_view at = "// at: ";
  step = "the import";
  if (!ir.starts_with(at)) return {};
  const size_t end = std::min(ir.find('\n'), ir.size() - 1);
  step = ir.substr(at.size(), end - at.size());
  step.erase(step.find_last_not_of(' ') + 1);
  return ir.substr(end + 1);
}

int compile_with_reproducer(const Options& options) {
  const TemporaryFile ir;
  if (ir.path().empty())
    return failed("compile", std::string("making a temporary file failed: ") + std::strerror(errno) + "; name a directory with TMPDIR");
  std::string failure;  // "CODE\nTEXT"
  const ChildEnd end = run_in_child([&](const auto& keep) { return compile_now(options, {keep, ir.path()}); }, failure);
  if (!end.wrong.empty())
    return failed("compile", "starting a process for the compiler failed: " + end.wrong + "; compile without --reproducer");
  if (end.code == kFine || end.code == kUsage || end.interrupted) return end.code;
  Reproducer made = reproducer_of(options);
  std::ifstream file(ir.path(), std::ios::binary);
  made.ir = split_step({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, made.step);
  const int code = std::atoi(failure.c_str());
  made.failure = failure.substr(std::min(failure.find('\n'), failure.size() - 1) + 1);
  if (end.signal != 0) {
    made.failure = std::string("it was ended by signal ") + std::to_string(end.signal) + " (" + strsignal(end.signal) + ")";
    failed("compile", "compiling '" + options.compile.model + "' failed at " + made.step + ": " + made.failure);
  }
  // Not a file that cannot be read or written, which is no failure of the compiler.
  constexpr std::array of_models{HEDDLE_STATUS_INVALID_ARGUMENT, HEDDLE_STATUS_UNIMPLEMENTED, HEDDLE_STATUS_INTERNAL,
                                 HEDDLE_STATUS_RESOURCE_EXHAUSTED};
  if (made.ir.empty() && end.signal == 0 && std::find(of_models.begin(), of_models.end(), code) == of_models.end()) return end.code;
  if (const std::string wrong = made.write(options.reproducer); !wrong.empty()) {
    failed("compile", "writing --reproducer failed: " + wrong);
  } else {
    const std::string path = printable(options.reproducer);
    std::fprintf(stderr, "heddle compile: wrote '%s'; heddle compile --rerun %s repeats the failure\n", path.c_str(), path.c_str());
  }
  return end.code;
}

// In this process, for the sake of debuggers.
int rerun(const Arguments& arguments) {
  std::string path, output;
  Flags flags = make_flags();
  flags.text("--rerun", path, "", "FILE");
  flags.text("-o,--output", output, "", "FILE");
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  std::string wrong;
  const std::optional<Rerun> found = read_reproducer(path, wrong);
  if (!found) return failed("compile", "--rerun: '" + path + "': " + wrong);
  const TemporaryFolder folder("heddle-rerun");
  if (folder.path().empty())
    return failed("compile",
                  std::string("making a temporary directory failed: ") + std::strerror(errno) + "; name another one with TMPDIR");
  const std::string model = folder.path() + "/" + found->name;
  std::ofstream file(model, std::ios::binary);
  if (!file.write(found->content.data(), static_cast<std::streamsize>(found->content.size())).flush())
    return failed("compile", "writing '" + model + "' failed: " + std::strerror(errno));
  file.close();
  std::fprintf(stderr, "heddle compile: repeating '%s' of version %s, which failed at %s: %s\n", printable(found->name).c_str(),
               printable(found->version).c_str(), printable(found->step).c_str(), printable(found->failure).c_str());
  Arguments all = found->flags;
  all.push_back("--output=" + (output.empty() ? folder.path() + "/out.heddle" : output));
  all.push_back("--");
  all.push_back(model);
  return compile(all);
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) {
  namespace tool = heddle::tool;
  return tool::run_program("heddle compile", "compiling", "compile a smaller model",
                           [&] { return tool::compile(tool::Arguments(argv + 1, argv + argc)); });
}
