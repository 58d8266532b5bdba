// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle profile`: the time of each region of a call on its device, and the time of the whole call. The runtime times every command; this file
// makes a table of the sums over the measured calls.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/heddle/command.h"
#include "tools/heddle/explain_summary.h"
#include "tools/heddle/inputs.h"
#include "tools/heddle/made_up_inputs.h"
#include "tools/heddle/page_program.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/same_file.h"
#include "tools/heddle/session.h"

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
  return Flags("profile", "Measures the time of each region of a function on its device. Profiled calls are slower than others.");
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
    sum_ns += grown("total_ns") / calls;
    const double time_ns = grown("total_ns") / calls;
    slowest_first.emplace(time_ns, Json{{"region", row["region"]},
                                        {"kind", row["kind"]},
                                        {"kernel", row.value("kernel", std::string())},
                                        {"device", row["device"]},
                                        {"time_ns", time_ns},
                                        {"min_ns", row["min_ns"]},
                                        {"count", grown("count") / calls}});
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

// One row per kind of region, and per kind of command that runs no kernel, slowest first.
Json sums_by_kind(const Json& rows, const RegionKinds& kinds, double sum_ns) {
  std::map<std::string, std::pair<double, double>> sums;  // time and count
  for (const Json& row : rows) {
    const std::string command = row["kind"].get<std::string>(), region = row["region"].get<std::string>();
    std::string kind = command;
    if (const std::string known = kinds.of(region); !known.empty()) kind = known;
    sums[kind].first += row["time_ns"].get<double>();
    sums[kind].second += row["count"].get<double>();
  }
  std::multimap<double, Json, std::greater<>> slowest_first;
  for (const auto& [kind, sum] : sums) {
    slowest_first.emplace(
        sum.first, Json{{"kind", kind}, {"time_ns", sum.first}, {"share", sum_ns > 0 ? sum.first / sum_ns : 0.0}, {"count", sum.second}});
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
  if (!options.html.empty()) {
    if (heddle_status_t* status = read_route(instance.get(), about["route"])) return report(status);
  }
  const Json kinds = sums_by_kind(rows, RegionKinds(about), sum_ns);
  const Json whole{{"module", options.module.path},
                   {"calls", options.iterations},
                   {"call_ns", call_ns},
                   {"regions_ns", sum_ns},
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
  const std::vector<Column> columns{text("region"),
                                    text("kind"),
                                    text("device"),
                                    time("per call", "time_ns"),
                                    number("share", "share", 100, "%.1f %%"),
                                    number("count", "count", 1, "%g"),
                                    time("min", "min_ns")};
  print_rows(whole, rows, columns, format);
  if (format == Format::kTable || format == Format::kMarkdown) {
    print_line("");
    print_rows(whole, kinds, {text("kind"), columns[3], columns[4], columns[5]}, format);
  }
  inputs.clear();
  results.clear();
  instance.reset();
  const int code = finish_trace(runtime.get(), kFine);
  if (code != kFine || options.html.empty()) return code;
  about["profile"] = whole;
  return write_page(flags, about, options.module.function, options.html);
}

}  // namespace

Command profile_command() {
  return {"profile", "measures the time of each region on its device", run};
}

}  // namespace heddle::tool
