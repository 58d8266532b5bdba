// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle tune MODEL -o CHOICES`: compiles the model with each plan of its kernels in turn, measures it on this machine's device against the
// compiler's own choice, and writes down which plans were faster. All kernels are tried at once, since each is timed separately.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "sdk/module/output_file.h"
#include "tools/heddle/program.h"
#include "tools/heddle/same_file.h"
#include "tools/tune/trial.h"

namespace heddle::tool {
namespace {

struct Options {
  TrialOptions trial;
  RuntimeFlags runtime;
  std::string output, progress = "auto", format = "table";
  double seconds = 0.5, gain = 0.03;
  uint64_t plans = 6;

  void declare(Flags& flags) {
    trial.compile.add_model(flags);
    flags.text("-o,--output", output, "file for the choices, for heddle compile --tuned; once complete, it replaces an existing file",
               "FILE");
    flags.texts("--device", trial.module.devices, "device to measure on, or the device of a slot", "ALIAS|SLOT=ALIAS");
    flags.text("--function", trial.module.function, "function to call (default: the only one, or 'main')", "NAME");
    trial.module.add_parameters(flags);
    flags.texts(
        "--input", trial.inputs,
        "value of an argument, such as 'x=f32[2,3]=0.5'; one value fills the whole shape; arguments that are not given get random values",
        "[NAME=]TYPE=VALUES|@FILE[:ARRAY]");
    flags.texts("--dim", trial.dims, "extent of a symbol, for random inputs: the most frequent one in real calls", "NAME=N");
    flags.count("--seed", trial.seed, "seed of the random values (0)", 0, UINT64_MAX);
    flags.count("--plans", plans, "maximum number of plans to try per kernel (6)", 2, 6);
    flags.number("--seconds", seconds, "seconds to measure each plan; the compiler's choice is measured for the same time (0.5)", 1e-3,
                 1e6);
    flags.number("--gain", gain, "smallest gain for which a plan is chosen, as a fraction of the time (0.03)", 0, 0.9);
    trial.compile.add_to(flags);
    flags.choice("--progress", progress, {"auto", "always", "never"}, "show progress on stderr; auto: on a terminal");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    runtime.add_to(flags);
  }
};

// The first signal ends the work and removes temporary files; a second signal has its default effect.
std::atomic<int> g_signal{0};
void on_signal(int number) {
  g_signal = number;
  signal(number, SIG_DFL);
}

// A temporary directory, removed in the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* parent = std::getenv("TMPDIR");
    path_ = std::string(parent && *parent ? parent : "/tmp") + "/heddle-tune-XXXXXX";
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~TemporaryFolder() {
    for (const std::string& name : names_) std::remove(file(name).c_str());
    if (!path_.empty()) rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string add(const std::string& name) {
    names_.push_back(name);
    return file(name);
  }
  void add_trial(const std::string& name) {
    add(name + ".heddle");
    add(name + ".json");
  }

 private:
  std::string path_;
  std::vector<std::string> names_;
};

std::string write_file(const std::string& path, const std::string& text) {
  module::OutputFile file(path);
  module::Status error = file.open();
  if (!error) error = file.append(std::as_bytes(std::span(text)));
  if (!error) error = file.commit(/*flush_to_disk=*/false);
  return error ? error->message : std::string();
}

// A choice for the calls for which `when` holds.
struct Pick {
  std::string when, choice;
};

// A kernel with several plans that the function runs.
struct TunedKernel {
  std::string family, name, strategy, before;  // before: the compiler's choice
  std::vector<std::string> regions;
  std::vector<std::pair<std::string, std::vector<std::string>>> plans;  // per case, in order: its choices, the compiler's first
  std::optional<Pick> pick;                                             // the best so far; none: the compiler's choice
  double ratio = 1;                                                     // ratio of its time to that of the compiler's choice
  double time_ns = 0;
  KernelName id() const { return {family, name}; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 1 : values[values.size() / 2];
}

class Tuner {
 public:
  Tuner(const Flags& flags, Options& options) : flags_(flags), options_(options), file_(options.output) {
    options_.trial.has_to_stop = [] { return g_signal != 0; };
  }

  std::optional<int> run() {
    // Opened first, so that a file that cannot be written is reported before the work starts.
    if (module::Status error = file_.open()) return flags_.failed(error->message);
    if (folder_.path().empty()) return flags_.failed(std::string("making a temporary directory failed: ") + std::strerror(errno));
    if (std::optional<int> code = start_runtime(flags_, options_.runtime, runtime_)) return code;
    if (std::optional<int> code = open(base_, "base", "")) return code;
    if (heddle_status_t* status = base_.measure(0, times_)) return report(status);
    if (heddle_status_t* status = base_.measure(options_.seconds / 4, times_)) return report(status);
    read_plans();
    for (uint64_t round = 1; round < options_.plans; ++round) {
      if (std::optional<int> code = try_plans(round)) return code;
    }
    for (bool is_sure = false; !is_sure;) {
      if (std::optional<int> code = confirm(is_sure)) return code;
    }
    const std::string text = dump_json(choices(), 2) + "\n";
    module::Status error = file_.append(std::as_bytes(std::span(text)));
    if (!error) error = file_.commit(/*flush_to_disk=*/false);
    if (error) return flags_.failed(error->message);
    print();
    return std::nullopt;
  }

 private:
  std::optional<int> open(Trial& trial, const std::string& name, const std::string& choices) {
    folder_.add_trial(name);
    if (std::optional<int> code = trial.open(flags_, options_.trial, runtime_.get(), folder_.path(), name, choices)) return code;
    if (g_signal != 0) return 128 + g_signal;
    if (trial.has_unknown_extents()) return flags_.misuse("the model has symbolic extents: give the extents to tune for with --dim NAME=N");
    return std::nullopt;
  }

  void read_plans() {
    for (const Json& kernel : array(base_.report(), "kernels")) {
      const auto time = times_.kernels.find({text(kernel, "family"), text(kernel, "name")});
      if (time == times_.kernels.end()) continue;
      TunedKernel tuned{
          text(kernel, "family"), text(kernel, "name"), text(kernel, "strategy"), time->second.choice, time->second.regions, {}, {}, 1,
          time->second.time_ns};
      size_t count = 0;
      for (const Json& plan : array(kernel, "plans")) {
        if (text(plan, "strategy") != tuned.strategy) continue;  // a file of choices names plans of the strategy that takes the region
        ++count;
        const std::string when = plan.value("when", std::string());
        if (tuned.plans.empty() || tuned.plans.back().first != when) tuned.plans.push_back({when, {}});
        tuned.plans.back().second.push_back(text(plan, "choice"));
      }
      if (count > 1) kernels_.push_back(std::move(tuned));
    }
  }

  // Writes the choices of one round to a file.
  std::string write_round(const std::string& name, const std::map<KernelName, std::vector<Pick>>& picks) {
    Json list = Json::array();
    for (const TunedKernel& kernel : kernels_) {
      const auto its = picks.find(kernel.id());
      if (its == picks.end()) continue;
      for (const Pick& pick : its->second)
        list.push_back({{"family", kernel.family}, {"kernel", kernel.name}, {"when", pick.when}, {"choice", pick.choice}});
    }
    return write_file(folder_.add(name), dump_json(Json{{"choices", std::move(list)}}, -1));
  }

  // Runs blocks of calls of both modules in turn; computes the time of each kernel relative to its time in the other module.
  std::optional<int> compare(Trial& trial, double seconds, std::map<KernelName, std::vector<double>>& ratios, Trial::Times& last,
                             std::vector<double>* calls = nullptr) {
    constexpr int blocks = 5;
    Trial::Times base;
    if (heddle_status_t* status = trial.measure(0, last)) return report(status);
    for (int block = 0; block < blocks; ++block) {
      if (heddle_status_t* status = base_.measure(seconds / blocks, base)) return report(status);
      if (heddle_status_t* status = trial.measure(seconds / blocks, last)) return report(status);
      for (const auto& [name, time] : last.kernels) {
        const auto other = base.kernels.find(name);
        if (other != base.kernels.end() && other->second.time_ns > 0) ratios[name].push_back(time.time_ns / other->second.time_ns);
      }
      if (calls) calls->push_back(last.call_ns / base.call_ns);
      if (g_signal != 0) return 128 + g_signal;
    }
    return std::nullopt;
  }

  // Tries for each case of each kernel its plan of that rank, or its first if it has fewer.
  std::optional<int> try_plans(uint64_t rank) {
    std::map<KernelName, std::vector<Pick>> picks;
    size_t most = 0;
    for (const TunedKernel& kernel : kernels_) {
      for (const auto& [when, choices] : kernel.plans) {
        picks[kernel.id()].push_back({when, rank < choices.size() ? choices[rank] : choices.front()});
        most = std::max(most, choices.size());
      }
    }
    if (rank >= most) return std::nullopt;
    progress("plan " + std::to_string(rank + 1) + " of " + std::to_string(most));
    if (std::string wrong = write_round("choices.json", picks); !wrong.empty()) return flags_.failed(wrong);
    Trial trial;
    if (std::optional<int> code = open(trial, "round", folder_.file("choices.json"))) return code;
    std::map<KernelName, std::vector<double>> ratios;
    Trial::Times last;
    if (std::optional<int> code = compare(trial, options_.seconds, ratios, last)) return code;
    for (TunedKernel& kernel : kernels_) {
      const auto ratio = ratios.find(kernel.id());
      if (ratio == ratios.end()) continue;
      // A kernel that is picked has one candidate per case, which shows the case of the calls.
      const size_t its_case = last.kernels[kernel.id()].candidate;
      if (its_case >= kernel.plans.size() || rank >= kernel.plans[its_case].second.size()) continue;
      const Pick& pick = picks[kernel.id()][its_case];
      const double here = median(ratio->second);
      if (here >= kernel.ratio || pick.choice == kernel.before) continue;
      kernel.ratio = here;
      kernel.pick = pick;
    }
    return std::nullopt;
  }

  // Measures all choices together once more. Choices that were fast only by chance are dropped, and the others measured again.
  std::optional<int> confirm(bool& is_sure) {
    is_sure = true;
    call_ratio_ = 1;
    std::map<KernelName, std::vector<Pick>> picks;
    for (TunedKernel& kernel : kernels_) {
      if (kernel.ratio > 1 - options_.gain) kernel.pick.reset();
      if (kernel.pick) picks[kernel.id()] = {*kernel.pick};
    }
    if (picks.empty()) return std::nullopt;
    progress("all choices together");
    if (std::string wrong = write_round("final.json", picks); !wrong.empty()) return flags_.failed(wrong);
    Trial trial;
    if (std::optional<int> code = open(trial, "final", folder_.file("final.json"))) return code;
    std::map<KernelName, std::vector<double>> ratios;
    Trial::Times last;
    std::vector<double> calls;
    if (std::optional<int> code = compare(trial, 2 * options_.seconds, ratios, last, &calls)) return code;
    for (TunedKernel& kernel : kernels_) {
      if (!kernel.pick) continue;
      kernel.ratio = median(ratios[kernel.id()]);
      if (kernel.ratio > 1 - options_.gain) is_sure = false;
    }
    call_ratio_ = median(calls);
    return std::nullopt;
  }

  // A description of the measured device, for users of the choices who do not have the machine.
  std::string described_device() const {
    const std::string alias = base_.device();
    heddle_text_t* raw = nullptr;
    if (heddle_status_t* status = heddle_runtime_report(runtime_.get(), view("devices"), &raw)) {
      heddle_status_free(status);
      return alias;
    }
    const Json report = parse_json(text_of(Text(raw)));
    for (const Json& device : array(report, "devices")) {
      if (text(device, "alias") == alias)
        return alias + ", " + text(device, "name") + ", " + text(device, "compute_units") + " compute units";
    }
    return alias;
  }

  Json choices() const {
    Json list = Json::array();
    for (const TunedKernel& kernel : kernels_) {
      if (!kernel.pick) continue;
      list.push_back({{"family", kernel.family},
                      {"kernel", kernel.name},
                      {"when", kernel.pick->when},
                      {"choice", kernel.pick->choice},
                      {"strategy", kernel.strategy},
                      {"instead_of", kernel.before},
                      {"time_ratio", kernel.ratio},
                      {"regions", kernel.regions}});
    }
    return Json{{"device", described_device()}, {"dims", options_.trial.dims}, {"choices", std::move(list)}};
  }

  void print() const {
    Json rows = Json::array();
    for (const TunedKernel& kernel : kernels_) {
      const bool is_changed = kernel.pick.has_value();
      rows.push_back({{"region", kernel.regions.front() +
                                     (kernel.regions.size() > 1 ? " and " + std::to_string(kernel.regions.size() - 1) + " more" : "")},
                      {"strategy", kernel.strategy},
                      {"time_ns", kernel.time_ns},
                      {"before", kernel.before},
                      {"choice", is_changed ? kernel.pick->choice : std::string("the same")},
                      {"time_ratio", is_changed ? kernel.ratio : 1.0}});
    }
    const Json whole{{"device", base_.device()}, {"call_ns", times_.call_ns}, {"call_ratio", call_ratio_}, {"kernels", rows}};
    const Format format = format_from_name(options_.format);
    auto ratio = [](const Json& row) {
      char buffer[32];
      std::snprintf(buffer, sizeof(buffer), "%.2f", row["time_ratio"].get<double>());
      return std::string(buffer);
    };
    print_rows(whole, rows,
               {field("region", "region"), field("strategy", "strategy"),
                Column{"per call", [](const Json& row) { return duration_text(row["time_ns"].get<double>()); }, "time_ns"},
                field("before", "before"), field("choice", "choice"), Column{"time", ratio, "time_ratio"}},
               format);
    if (format != Format::kTable) return;
    const auto changed = std::count_if(kernels_.begin(), kernels_.end(), [](const TunedKernel& kernel) { return kernel.pick.has_value(); });
    char line[160];
    std::snprintf(line, sizeof(line), "%td of %zu kernels changed; a call takes %.2f of the time it took", changed, kernels_.size(),
                  call_ratio_);
    print_line(line);
  }

  void progress(const std::string& what) {
    if (progress_wanted(options_.progress)) std::fprintf(stderr, "heddle tune: %s\n", what.c_str());
  }

  const Flags& flags_;
  Options& options_;
  module::OutputFile file_;
  TemporaryFolder folder_;
  Runtime runtime_;
  Trial base_;
  Trial::Times times_;
  std::vector<TunedKernel> kernels_;
  double call_ratio_ = 1;
};

int tune(const Arguments& arguments) {
  Options options;
  Flags flags("tune", "Finds the fastest plans of a model's kernels on a device by measuring them, for heddle compile --tuned.");
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  if (options.output.empty()) return flags.misuse("-o FILE is missing, such as -o choices.json");
  if (const std::string wrong = options.trial.compile.check(); !wrong.empty()) return flags.misuse(wrong);
  if (Wrong wrong = slot_bound_twice(options.trial.module.devices); !wrong.empty()) return flags.misuse("--device " + wrong);
  std::vector<NamedFile> read = options.trial.compile.files();
  read.push_back({"--config", options.runtime.config});
  for (const Assignment& file : parameter_files(options.trial.module)) {
    for (NamedFile& one : with_shards({"--params", file.value})) read.push_back(std::move(one));
  }
  if (Wrong wrong = file_named_twice({{"-o", options.output}}, read); !wrong.empty()) return flags.misuse(wrong);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that is already ignored stays ignored, as nohup requires.
    if (signal(number, on_signal) == SIG_IGN) signal(number, SIG_IGN);
  }
  const int code = Tuner(flags, options).run().value_or(kFine);
  return g_signal != 0 ? 128 + g_signal : code;  // the shells' convention for a program that a signal ended
}

}  // namespace
}  // namespace heddle::tool

int main(int argc, char** argv) {
  namespace tool = heddle::tool;
  // A write beyond the file size limit fails with a reason instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  return tool::run_program("heddle tune", "tuning", "tune a smaller model",
                           [&] { return tool::tune(tool::Arguments(argv + 1, argv + argc)); });
}
