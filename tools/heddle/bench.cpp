// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle bench`: measures the time of a call on one or several devices. Devices take turns, so that a slowdown of the machine affects all of them.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "tools/heddle/command.h"
#include "tools/heddle/inputs.h"
#include "tools/heddle/made_up_inputs.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/session.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  ModuleFlags module;
  std::vector<std::string> inputs, dims, percentiles;
  uint64_t warmup = 10, iterations = 0, seed = 0;
  double duration = 1;
  std::string other;
  std::string format = "table", progress = "auto";

  void declare(Flags& flags) {
    module.add_to(flags, false);
    flags.positional("OTHER", other, "a second module with the same inputs, measured in turns with the first", false);
    flags.texts("--device", module.devices, "device, or comma-separated devices of several slots; repeat it to compare several",
                "ALIAS|SLOT=ALIAS,...");
    flags.texts(
        "--input", inputs,
        "value of an argument, such as 'x=f32[2,3]=0.5'; one value fills the whole shape; arguments that are not given get random values",
        "[NAME=]TYPE=VALUES|@FILE[:ARRAY]");
    flags.texts("--dim", dims, "extent of a symbol, for random inputs", "NAME=N");
    flags.count("--seed", seed, "seed of the random values (0)", 0, UINT64_MAX);
    flags.count("--warmup", warmup, "calls before measuring (10)", 0, 1'000'000'000);
    flags.count("--iterations", iterations, "calls to measure (default: as many as fit into the duration)", 1, 1'000'000'000);
    flags.number("--duration", duration, "seconds to measure each device if --iterations is not given (1)", 1e-3, 1e6);
    flags.texts("--percentile", percentiles, "percentile to print in addition to the median, 10 and 90", "P");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    flags.choice("--progress", progress, {"auto", "always", "never"}, "show progress on stderr; auto: on a terminal");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags(
      "bench",
      "Measures the time of a call of a function of a compiled module; of a second module and of several devices in turns with it.");
}

uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// One module on one device, or one binding of slots, with all that a call needs.
struct Contestant {
  std::string module;  // its path
  std::string device;  // as given on the command line, or as chosen by the router
  Instance instance;
  Function function;
  std::vector<Tensor> inputs, results;
  std::vector<heddle_tensor_t*> raw_inputs, raw_results;
  Json inputs_shown;  // name, type and origin of each value
  std::vector<uint64_t> times_ns;
  uint64_t total_ns = 0;
  uint64_t dispatches_before = 0;

  heddle_status_t* call() {
    return heddle_call(function.handle, raw_inputs.data(), static_cast<uint32_t>(raw_inputs.size()), raw_results.data(),
                       static_cast<uint32_t>(raw_results.size()));
  }
};

// Read from an instance's statistics; 0 if the report has none.
uint64_t dispatch_count(heddle_instance_t* instance) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance, view("statistics"), &raw)) {
    heddle_status_free(status);
    return 0;
  }
  const Json statistics = parse_json(text_of(Text(raw)));
  return statistics.is_object() ? statistics.value("dispatches", uint64_t{0}) : 0;
}

// Nearest rank on sorted values.
uint64_t percentile(const std::vector<uint64_t>& sorted, double p) {
  const double rank = std::ceil(p / 100 * static_cast<double>(sorted.size()));
  const size_t index = rank < 1 ? 0 : static_cast<size_t>(rank) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}
double median(const std::vector<uint64_t>& sorted) {
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? static_cast<double>(sorted[half])
                           : (static_cast<double>(sorted[half - 1]) + static_cast<double>(sorted[half])) / 2;
}

Json result_of(const Contestant& one, const std::vector<double>& percentiles) {
  std::vector<uint64_t> sorted = one.times_ns;
  std::sort(sorted.begin(), sorted.end());
  const double count = static_cast<double>(sorted.size());
  Json out{{"module", one.module},
           {"device", one.device},
           {"calls", sorted.size()},
           {"median_ns", median(sorted)},
           {"p10_ns", percentile(sorted, 10)},
           {"p90_ns", percentile(sorted, 90)},
           {"min_ns", sorted.front()},
           {"max_ns", sorted.back()},
           {"mean_ns", static_cast<double>(one.total_ns) / count},
           {"calls_per_second", count * 1e9 / static_cast<double>(std::max<uint64_t>(one.total_ns, 1))}};
  for (double p : percentiles) {
    char name[40];
    std::snprintf(name, sizeof(name), "p%g_ns", p);
    out[name] = percentile(sorted, p);
  }
  out["dispatches_per_call"] = static_cast<double>(dispatch_count(one.instance.get()) - one.dispatches_before) / count;
  out["inputs"] = one.inputs_shown;
  return out;
}

// The values of a function's inputs, and how they are reported.
struct Inputs {
  std::vector<HostTensor> values;
  Json shown = Json::array();

  void show(const Function& function, const std::set<size_t>& made) {
    for (size_t i = 0; i < values.size(); ++i)
      shown.push_back({{"name", function.arguments[i].name}, {"type", shape_text(values[i].shape)}, {"random", made.contains(i)}});
  }
  // "f32[2,3], bool[2]"
  std::string types() const {
    std::string list;
    for (const Json& one : shown) list += (list.empty() ? "" : ", ") + text(one, "type");
    return list.empty() ? "no inputs" : list;
  }
};

// "inputs: x: f32[2,4] random, mask: bool[2]": the shapes of the calls, and which values nobody gave.
std::string inputs_text(const Json& inputs, uint64_t seed) {
  constexpr size_t kMostShown = 6;
  std::string line;
  bool any_random = false;
  size_t shown = 0;
  for (const Json& input : inputs) {
    const bool is_random = input.value("random", false);
    any_random |= is_random;
    if (++shown > kMostShown) continue;
    line += (line.empty() ? "inputs: " : ", ") + text(input, "name") + ": " + text(input, "type") + (is_random ? " random" : "");
  }
  if (shown > kMostShown) line += " and " + std::to_string(shown - kMostShown) + " more";
  return line.empty() ? "inputs: none" : line + (any_random ? "; random values of seed " + std::to_string(seed) : "");
}

// The devices that the slots were bound to.
std::string bound_devices(heddle_instance_t* instance) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance, view("route"), &raw)) {
    heddle_status_free(status);
    return "?";
  }
  const Json route = parse_json(text_of(Text(raw)));
  std::string out;
  if (route.is_object() && route.contains("slots")) {
    for (const Json& slot : route["slots"]) out += (out.empty() ? "" : ",") + slot.value("device", std::string("?"));
  }
  return out.empty() ? "?" : out;
}

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    out.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return out;
}

// Calls in turns of about a tenth of a second until each contestant has enough.
heddle_status_t* measure(std::vector<Contestant>& contestants, const Options& options) {
  const uint64_t wanted_ns = static_cast<uint64_t>(options.duration * 1e9);
  const bool show = progress_wanted(options.progress);
  auto enough = [&](const Contestant& one) {
    if (options.iterations) return one.times_ns.size() >= options.iterations;
    return one.total_ns >= wanted_ns && one.times_ns.size() >= 3;
  };
  for (Contestant& one : contestants) {
    for (uint64_t i = 0; i < options.warmup; ++i) {
      if (heddle_status_t* status = one.call()) return status;
    }
    one.dispatches_before = dispatch_count(one.instance.get());
  }
  for (bool more = true; more;) {
    more = false;
    for (Contestant& one : contestants) {
      const uint64_t turn = now_ns();
      while (!enough(one)) {
        const uint64_t begin = now_ns();
        if (heddle_status_t* status = one.call()) return status;
        const uint64_t end = now_ns();
        one.times_ns.push_back(end - begin);
        one.total_ns += end - begin;
        if (end - turn > 100'000'000) break;
      }
      more |= !enough(one);
      if (show) std::fprintf(stderr, "\r\x1b[K%s on %s: %zu calls", printable(one.module).c_str(), one.device.c_str(), one.times_ns.size());
    }
  }
  if (show) std::fprintf(stderr, "\r\x1b[K");
  return nullptr;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  std::vector<TensorArgument> given;
  if (Wrong wrong = parse_inputs(options.inputs, options.runtime, options.module, given); !wrong.empty()) return flags.misuse(wrong);
  MadeUpInputs dims;
  if (Wrong wrong = dims.parse(options.dims); !wrong.empty()) return flags.misuse(wrong);
  std::vector<double> percentiles;
  for (const std::string& text : options.percentiles) {
    char* end = nullptr;
    const double p = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(p >= 0 && p <= 100)) return flags.misuse("--percentile '" + text + "' is not a number of 0..100");
    percentiles.push_back(p);
  }

  for (const std::string& device : options.module.devices) {
    if (Wrong wrong = slot_bound_twice(split_commas(device)); !wrong.empty())
      return flags.misuse("--device '" + device + "': " + wrong + "; repeat --device for each device to measure");
  }

  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  std::vector<ModuleFlags> wanted_modules{options.module};
  if (!options.other.empty()) {
    wanted_modules.push_back(options.module);
    wanted_modules.back().path = options.other;
  }
  std::vector<std::string> wanted = options.module.devices;
  if (wanted.empty()) wanted.emplace_back();
  std::vector<Module> modules(wanted_modules.size());
  std::vector<Contestant> contestants;
  std::optional<std::string> first_types;
  for (size_t m = 0; m < modules.size(); ++m) {
    const ModuleFlags& from = wanted_modules[m];
    if (heddle_status_t* status = open_module(runtime.get(), from, modules[m])) return report(status);
    heddle_module_t* module = modules[m].get();
    MadeUpInputs made_up = dims;
    if (Wrong wrong = made_up.find_symbols(module, from.function); !wrong.empty()) return flags.misuse(wrong);
    Inputs inputs;
    for (const std::string& device : wanted) {
      Contestant& one = contestants.emplace_back();
      const std::vector<std::string> bindings = device.empty() ? std::vector<std::string>() : split_commas(device);
      if (heddle_status_t* status = create_instance(module, from, bindings, one.instance)) return report_instance_failure(status);
      if (heddle_status_t* status = find_function(one.instance.get(), from.function, one.function)) return report_name_failure(status);
      one.module = from.path;
      one.device = device.empty() ? bound_devices(one.instance.get()) : device;
      if (inputs.values.empty()) {
        std::set<size_t> made;  // indices of the inputs that no --input names
        const MakeInput make = [&](size_t index, HostTensor& out) {
          made.insert(index);
          return made_up.make(one.function, index, options.seed, out);
        };
        if (std::optional<int> code = gather_inputs(flags, given, one.function, module, from.function, make, inputs.values)) return *code;
        inputs.show(one.function, made);
        if (first_types.value_or(inputs.types()) != inputs.types())
          return flags.misuse("'" + from.path + "' is called with " + inputs.types() + ", and '" + options.module.path + "' with " +
                              *first_types + "; compare modules with the same inputs");
        first_types = inputs.types();
      }
      one.inputs_shown = inputs.shown;
      if (heddle_status_t* status = upload_inputs(one.function, inputs.values, one.inputs)) return report(status);
      for (const Tensor& input : one.inputs) one.raw_inputs.push_back(input.get());
      one.raw_results.assign(one.function.results.size(), nullptr);
      // The first call allocates the results; later calls write into them, so that allocation is not measured.
      heddle_status_t* status = one.call();
      for (heddle_tensor_t* result : one.raw_results) one.results.emplace_back(result);
      if (status) return report(status);
    }
  }
  if (heddle_status_t* status = measure(contestants, options)) return report(status);

  Json rows = Json::array();
  for (const Contestant& one : contestants) rows.push_back(result_of(one, percentiles));
  if (rows.size() > 1) {
    const double first = rows[0]["median_ns"].get<double>();
    for (Json& row : rows) row["median_ratio"] = row["median_ns"].get<double>() / std::max(first, 1.0);
  }
  auto time = [](const std::string& title, const std::string& name) {
    return Column{title, [name](const Json& row) { return duration_text(row.value(name, 0.0)); }, name};
  };
  auto rounded = [](const std::string& title, const std::string& name) {
    return Column{title,
                  [name](const Json& row) {
                    char text[40];
                    std::snprintf(text, sizeof(text), "%.6g", row.value(name, 0.0));
                    return std::string(text);
                  },
                  name};
  };
  std::vector<Column> columns{field("device", "device"), time("median", "median_ns"), time("p10", "p10_ns"), time("p90", "p90_ns")};
  for (double p : percentiles) {
    char name[40];
    std::snprintf(name, sizeof(name), "p%g", p);
    columns.push_back(time(name, std::string(name) + "_ns"));
  }
  if (rows.size() > 1) {
    auto ratio = [](const Json& row) {
      char text[40];
      std::snprintf(text, sizeof(text), "%.3g x", row.value("median_ratio", 0.0));
      return std::string(text);
    };
    columns.insert(columns.begin() + 2, {"to the first", ratio, "median_ratio"});
  }
  if (modules.size() > 1) columns.insert(columns.begin(), field("module", "module"));
  columns.push_back(rounded("calls/s", "calls_per_second"));
  columns.push_back(rounded("dispatches/call", "dispatches_per_call"));
  columns.push_back(field("calls", "calls"));
  const Format format = format_from_name(options.format);
  if (format == Format::kTable) print_line(inputs_text(rows[0]["inputs"], options.seed));
  // One module on one device gives one object, several give a list.
  print_rows(rows.size() == 1 ? rows[0] : Json{{"results", rows}}, rows, columns, format);
  contestants.clear();
  return finish_trace(runtime.get(), kFine);
}

}  // namespace

Command bench_command() {
  return {"bench", "measures the time of a call", run};
}

}  // namespace heddle::tool
