// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle profile`, a separate program: the time of each region of a call on its device, what it did in that time, and the time of the whole call.
// The runtime times every command; this file makes a table of the sums over the measured calls, next to what the devices reach at most (peaks.h).
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "tools/heddle/command.h"
#include "tools/heddle/explain_summary.h"
#include "tools/heddle/inputs.h"
#include "tools/heddle/made_up_inputs.h"
#include "tools/heddle/page_program.h"
#include "tools/heddle/program.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/same_file.h"
#include "tools/heddle/session.h"
#include "tools/profile/roofline.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  ModuleFlags module;
  std::vector<std::string> inputs, dims;
  uint64_t warmup = 3, iterations = 10, seed = 0;
  std::string format = "table", trace, html;

  void declare(Flags& flags) {
    module.add_to(flags, true);
    flags.texts(
        "--input", inputs,
        "value of an argument, such as 'x=f32[2,3]=0.5'; one value fills the whole shape; arguments that are not given get random values",
        "[NAME=]TYPE=VALUES|@FILE[:ARRAY]");
    flags.texts("--dim", dims, "extent of a symbol, for random inputs", "NAME=N");
    flags.count("--seed", seed, "seed of the random values (0)", 0, UINT64_MAX);
    flags.count("--warmup", warmup, "calls before measuring (3)", 0, 1'000'000'000);
    flags.count("--iterations", iterations, "calls to measure (10)", 1, 1'000'000'000);
    flags.text("--trace", trace, "write the start and end of every command to a file for Perfetto or chrome://tracing", "FILE");
    add_html_flag(flags, html, "also write a page with a drawing of the data flow, colored by time");
    flags.choice("--format", format, format_names(), "format of the results on stdout");
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags(
      "profile",
      "Measures the time of each region of a function on its device, and its rates in relation to what the device reaches at most, which "
      "is measured too. Profiled calls are slower than others.");
}

double now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

heddle_status_t* read_profile(heddle_instance_t* instance, Json& out) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance, view("profile"), &raw)) return status;
  out = parse_json(text_of(Text(raw)))["regions"];
  return nullptr;
}

std::string key_of(const Json& row) {
  return row["region"].get<std::string>() + '\n' + row["kind"].get<std::string>() + '\n' + row.value("kernel", std::string()) + '\n' +
         row["device"].get<std::string>();
}

// The difference between two reports, per call.
Json per_call(const Json& before, const Json& after, double calls) {
  std::map<std::string, const Json*> earlier;
  for (const Json& row : before) earlier[key_of(row)] = &row;
  std::multimap<double, Json, std::greater<>> slowest_first;  // a stable sort of JSON would be 8 kB of code
  double sum_ns = 0;
  for (const Json& row : after) {
    const auto known = earlier.find(key_of(row));
    auto grown = [&](const char* name) {
      return static_cast<double>(row[name].get<uint64_t>() - (known == earlier.end() ? 0 : (*known->second)[name].get<uint64_t>()));
    };
    if (grown("count") == 0) continue;
    const double time_ns = grown("total_ns") / calls;
    sum_ns += time_ns;
    Json one{{"region", row["region"]},        {"kind", row["kind"]}, {"kernel", row.value("kernel", std::string())},
             {"device", row["device"]},        {"time_ns", time_ns},  {"min_ns", row["min_ns"]},
             {"count", grown("count") / calls}};
    if (row.contains("total_bytes")) one["bytes"] = grown("total_bytes") / calls;
    slowest_first.emplace(time_ns, std::move(one));
  }
  Json rows = Json::array();
  for (auto& [time_ns, row] : slowest_first) {
    row["share"] = sum_ns > 0 ? time_ns / sum_ns : 0.0;
    rows.push_back(std::move(row));
  }
  return rows;
}

heddle_status_t* read_module(heddle_module_t* module, Json& out) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_module_report(module, &raw)) return status;
  out = parse_json(text_of(Text(raw)));
  return nullptr;
}

heddle_status_t* read_route(heddle_instance_t* instance, Json& out) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance, view("route"), &raw)) return status;
  out = parse_json(text_of(Text(raw)));
  return nullptr;
}

// The extents of the call, by the names of their symbols.
std::map<std::string, int64_t> symbols_of(const Function& function, const std::vector<HostTensor>& values) {
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < values.size(); ++i) {
    heddle_tensor_type_t type{};
    type.struct_size = sizeof(type);
    if (heddle_status_t* status = heddle_function_argument(function.handle, static_cast<uint32_t>(i), &type)) {
      heddle_status_free(status);
      continue;
    }
    const std::vector<int64_t>& dims = values[i].shape.dims;
    for (size_t d = 0; d < dims.size() && d < type.rank; ++d) {
      if (const std::string_view name = view(type.symbols[d]); !name.empty()) symbols[std::string(name)] = dims[d];
    }
  }
  return symbols;
}

// Of every device that ran something. A trace would get the commands of the measurement.
std::map<std::string, Peaks> peaks_of(heddle_runtime_t* runtime, const Json& rows, const Json& route) {
  std::map<std::string, Peaks> peaks;
  heddle_text_t* raw = nullptr;
  std::string refused;
  if (heddle_status_t* status = heddle_runtime_report(runtime, view(std::string_view("trace")), &raw)) {
    refused = "the trace cannot be written";
    heddle_status_free(status);
  } else if (parse_json(text_of(Text(raw)))["file"].is_string()) {
    refused = "the measurement would be in the trace; profile without a trace";
  }
  for (const Json& slot : array(route, "slots")) {
    const std::string device = text(slot, "device");
    const bool is_used = std::any_of(rows.begin(), rows.end(), [&](const Json& row) { return text(row, "device") == device; });
    if (!is_used || peaks.contains(device)) continue;
    if (refused.empty()) {
      peaks[device] = measure_peaks(runtime, device, text(slot, "family"));
    } else {
      peaks[device].unmeasured = refused;
    }
  }
  return peaks;
}

std::string peaks_text(const std::string& device, const Peaks& peaks) {
  if (!peaks.unmeasured.empty()) return "peaks of " + device + ": not measured: " + peaks.unmeasured;
  char text[200];
  std::snprintf(text, sizeof(text), "peaks of %s, measured on its %lld unit%s: %.1f GFLOP/s of f32", device.c_str(),
                static_cast<long long>(peaks.units), peaks.units == 1 ? "" : "s", peaks.flops_per_ns);
  std::string line = text;
  if (peaks.matrix_flops_per_ns > 0) {
    std::snprintf(text, sizeof(text), ", %.1f of f16 on tensor cores", peaks.matrix_flops_per_ns);
    line += text;
  }
  std::snprintf(text, sizeof(text), "; memory %.1f GB/s (read %.1f, copy %.1f); caches %.1f GB/s, for up to %s",
                peaks.bytes_per_ns(INFINITY), peaks.read_bytes_per_ns, peaks.copy_bytes_per_ns, peaks.cached_bytes_per_ns,
                bytes_text(static_cast<uint64_t>(peaks.cache_bytes / 2)).c_str());
  return line + text;
}

// One row per kind of region, and per kind of command that runs no kernel, slowest first.
Json sums_by_kind(const Json& rows, const RegionKinds& kinds, const Roofline& roofline, double sum_ns) {
  struct Sum {
    double time_ns = 0, count = 0;
    Amounts amounts;
  };
  std::map<std::string, Sum> sums;
  for (const Json& row : rows) {
    const std::string command = row["kind"].get<std::string>(), region = row["region"].get<std::string>();
    std::string kind = command;
    if (const std::string known = kinds.of(region); !known.empty()) kind = known;
    Sum& sum = sums[kind];
    sum.time_ns += row["time_ns"].get<double>();
    sum.count += row["count"].get<double>();
    sum.amounts.add(roofline.of(row));
  }
  std::multimap<double, Json, std::greater<>> slowest_first;
  for (const auto& [kind, sum] : sums) {
    Json row{{"kind", kind}, {"time_ns", sum.time_ns}, {"share", sum_ns > 0 ? sum.time_ns / sum_ns : 0.0}, {"count", sum.count}};
    sum.amounts.add_to(row);
    slowest_first.emplace(sum.time_ns, std::move(row));
  }
  Json out = Json::array();
  for (auto& [time_ns, row] : slowest_first) out.push_back(std::move(row));
  return out;
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  std::vector<TensorArgument> given;
  if (Wrong wrong = parse_inputs(options.inputs, options.runtime, options.module, given); !wrong.empty()) return flags.misuse(wrong);
  MadeUpInputs made_up;
  if (Wrong wrong = made_up.parse(options.dims); !wrong.empty()) return flags.misuse(wrong);
  if (Wrong wrong = slot_bound_twice(options.module.devices); !wrong.empty()) return flags.misuse("--device " + wrong);

  std::vector<NamedFile> read{{"the module", options.module.path}, {"--config", options.runtime.config}};
  for (const TensorArgument& input : given) read.push_back({"--input", input.path});
  for (const Assignment& file : parameter_files(options.module)) read.push_back({"--params", file.value});
  if (Wrong wrong = file_named_twice({{"--trace", options.trace}, {"--html", options.html == "-" ? "" : options.html}}, read);
      !wrong.empty())
    return flags.misuse(wrong);
  if (std::optional<int> code = find_page_program(flags, options.html)) return *code;
  if (!options.trace.empty()) options.runtime.settings = "trace.sink = " + dump_json(options.trace, -1);

  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  Module module;
  if (heddle_status_t* status = open_module(runtime.get(), options.module, module)) return report(status);
  if (Wrong wrong = made_up.find_symbols(module.get(), options.module.function); !wrong.empty()) return flags.misuse(wrong);
  Instance instance;
  if (heddle_status_t* status = create_instance(module.get(), options.module, options.module.devices, instance, HEDDLE_INSTANCE_PROFILE)) {
    return report_instance_failure(status);
  }
  Function function;
  if (heddle_status_t* status = find_function(instance.get(), options.module.function, function)) return report_name_failure(status);
  const MakeInput make = [&](size_t index, HostTensor& out) { return made_up.make(function, index, options.seed, out); };
  std::vector<HostTensor> values;
  if (std::optional<int> code = gather_inputs(flags, given, function, module.get(), options.module.function, make, values)) return *code;
  std::vector<Tensor> inputs, results;
  if (heddle_status_t* status = upload_inputs(function, values, inputs)) return report(status);
  std::vector<heddle_tensor_t*> raw_inputs, raw_results(function.results.size(), nullptr);
  for (const Tensor& input : inputs) raw_inputs.push_back(input.get());
  auto call = [&] {
    return heddle_call(function.handle, raw_inputs.data(), static_cast<uint32_t>(raw_inputs.size()), raw_results.data(),
                       static_cast<uint32_t>(raw_results.size()));
  };
  // The first call allocates the results; later calls write into them.
  heddle_status_t* first = call();
  for (heddle_tensor_t* result : raw_results) results.emplace_back(result);
  if (first) return report(first);
  for (uint64_t i = 0; i < options.warmup; ++i) {
    if (heddle_status_t* status = call()) return report(status);
  }
  Json before, after;
  if (heddle_status_t* status = read_profile(instance.get(), before)) return report(status);
  const double begin_ns = now_ns();
  for (uint64_t i = 0; i < options.iterations; ++i) {
    if (heddle_status_t* status = call()) return report(status);
  }
  const double calls = static_cast<double>(options.iterations), call_ns = (now_ns() - begin_ns) / calls;
  if (heddle_status_t* status = read_profile(instance.get(), after)) return report(status);
  Json rows = per_call(before, after, calls);
  double sum_ns = 0;
  for (const Json& row : rows) sum_ns += row["time_ns"].get<double>();
  Json about;
  if (heddle_status_t* status = read_module(module.get(), about)) return report(status);
  if (heddle_status_t* status = read_route(instance.get(), about["route"])) return report(status);
  const std::map<std::string, int64_t> symbols = symbols_of(function, values);
  // The memory of the calls is free for the measurement.
  inputs.clear();
  results.clear();
  instance.reset();
  const std::map<std::string, Peaks> peaks = peaks_of(runtime.get(), rows, about["route"]);
  const Roofline roofline(about, symbols, peaks);
  const Json kinds = sums_by_kind(rows, RegionKinds(about), roofline, sum_ns);
  for (Json& row : rows) roofline.of(row).add_to(row);
  Json of_devices = Json::object();
  for (const auto& [device, one] : peaks) of_devices[device] = one.json();
  const Json whole{{"module", options.module.path},
                   {"calls", options.iterations},
                   {"call_ns", call_ns},
                   {"regions_ns", sum_ns},
                   {"peaks", of_devices},
                   {"regions", rows},
                   {"kinds", kinds}};

  const Format format = format_from_name(options.format);
  if (format == Format::kTable || format == Format::kMarkdown) {
    rows.push_back({{"region", "all regions"}, {"time_ns", sum_ns}});
    rows.push_back({{"region", "whole call, wall-clock time"}, {"time_ns", call_ns}});
  }
  auto time = [](const std::string& title, const std::string& name) {
    return Column{title, [name](const Json& row) { return row.contains(name) ? duration_text(row[name].get<double>()) : std::string(); },
                  name};
  };
  auto number = [](const std::string& title, const std::string& name, double scale, const char* form) {
    return Column{title,
                  [=](const Json& row) {
                    if (!row.contains(name)) return std::string();
                    char text[40];
                    std::snprintf(text, sizeof(text), form, row[name].get<double>() * scale);
                    return std::string(text);
                  },
                  name};
  };
  auto text = [](const std::string& name) {
    return Column{name, [name](const Json& row) { return row.value(name, std::string()); }, name};
  };
  const Column per_call_time = time("per call", "time_ns"), share = number("share", "share", 100, "%.1f %%"),
               count = number("count", "count", 1, "%g"), gflops = number("GFLOP/s", "gflops", 1, "%.1f"),
               gbytes = number("GB/s", "gbytes", 1, "%.1f"), of_roofline = number("of roofline", "roofline", 100, "%.1f %%");
  print_rows(
      whole, rows,
      {text("region"), text("kind"), text("device"), per_call_time, share, count, time("min", "min_ns"), gflops, gbytes, of_roofline},
      format);
  if (format == Format::kTable || format == Format::kMarkdown) {
    print_line("");
    print_rows(whole, kinds,
               {text("kind"), per_call_time, share, count, gflops, number("of peak", "flops_share", 100, "%.1f %%"), gbytes,
                number("of peak", "bytes_share", 100, "%.1f %%"), of_roofline},
               format);
    print_line("");
    for (const auto& [device, one] : peaks) print_line(printable(peaks_text(device, one)));
  }
  const int code = finish_trace(runtime.get(), kFine);
  if (code != kFine || options.html.empty()) return code;
  about["profile"] = whole;
  return write_page(flags, about, options.module.function, options.html);
}

}  // namespace

}  // namespace heddle::tool

int main(int argc, char** argv) {
  namespace tool = heddle::tool;
  // A write beyond the file size limit fails with a reason instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  return tool::run_program("heddle profile", "profiling", "give smaller inputs",
                           [&] { return tool::run(tool::Arguments(argv + 1, argv + argc)); });
}
