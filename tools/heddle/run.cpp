// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `heddle run`: calls a function of a module once; inputs and outputs are text or files.
#include <cstdio>
#include <filesystem>
#include <set>

#include "tools/heddle/command.h"
#include "tools/heddle/comparison.h"
#include "tools/heddle/input_file.h"
#include "tools/heddle/inputs.h"
#include "tools/heddle/json_text.h"
#include "tools/heddle/output.h"
#include "tools/heddle/report_view.h"
#include "tools/heddle/same_file.h"
#include "tools/heddle/session.h"
#include "tools/heddle/validation.h"

namespace heddle::tool {
namespace {

struct Options {
  RuntimeFlags runtime;
  ModuleFlags module;
  ValidationFlags validation;
  std::vector<std::string> inputs, outputs, expected, donated;
  double rtol = 1e-5, atol = 1e-8;
  uint64_t values = 1000;
  std::string format = "table", param_mode = "auto";
  bool statistics = false;

  void declare(Flags& flags) {
    module.add_to(flags, true);
    flags.texts("--input", inputs,
                "value of an argument, by name or by position, such as 'x=f32[2,3]=0.5'; one value fills the whole shape; without a name, "
                "an .npz file gives each array "
                "to the argument of its name",
                "[NAME=]TYPE=VALUES|@FILE[:ARRAY]");
    flags.texts("--output", outputs, "file for a result (.npy, or raw bytes), by name or by position; replaces an existing file",
                "[NAME=]@FILE");
    flags.texts("--donate", donated,
                "give this input up, so that a function that was compiled with --alias or --donate overwrites it instead of a copy",
                "INPUT");
    flags.texts("--expect", expected, "expected value of a result; exit code 3 if it differs", "[NAME=]TYPE=VALUES|@FILE[:ARRAY]");
    flags.number("--rtol", rtol, "allowed difference relative to the expected value (1e-5)", 0, 1e300);
    flags.number("--atol", atol, "allowed absolute difference (1e-8)", 0, 1e300);
    flags.count("--values", values, "maximum number of values printed per result (1000)", 0, UINT64_MAX);
    flags.choice(
        "--param-mode", param_mode, {"auto", "file", "direct", "preload", "mmap"},
        "how parameters are loaded onto devices: as [param_io] says (auto), by file handle in the driver's way (file), bypassing the "
        "page cache (direct), "
        "through host memory as a whole (preload), or as mapped pages, on devices that use host memory (mmap)");
    flags.on("--statistics", statistics, "print the instance's statistics on stderr, as JSON");
    flags.choice("--format", format, {"table", "json", "jsonl"}, "format of the results on stdout");
    validation.add_to(flags);
    runtime.add_to(flags);
  }
};

Flags make_flags() {
  return Flags("run", "Calls a function of a compiled module once.");
}

// Index of the "result" or "input" that "[NAME=]..." refers to; `next` counts those without a name. Returns an error text.
Wrong index_of(const std::string& name, const char* kind, const std::vector<Function::Type>& types, size_t& next, size_t& out) {
  const std::string none = std::string("there is no ") + kind + ' ';
  if (name.empty()) {
    out = next++;
    if (out < types.size()) return {};
    return none + std::to_string(out) + "; the function has " + std::to_string(types.size());
  }
  for (out = 0; out < types.size(); ++out) {
    if (types[out].name == name) return {};
  }
  return none + '\'' + name + "'; the function has " + Function::list(types);
}

// The shards of an index, if the file is one. What is wrong with it is said when it is opened.
void add_shards(const std::string& path, std::vector<NamedFile>& read) {
  constexpr uint64_t kMostBytes = 100'000'000;
  InputFile file;
  if (!file.open(path).empty() || file.size_bytes() == 0 || file.size_bytes() > kMostBytes) return;
  std::string text(1, '\0');
  if (!file.read(0, std::as_writable_bytes(std::span(text))).empty() || text != "{") return;
  text.resize(file.size_bytes());
  if (!file.read(0, std::as_writable_bytes(std::span(text))).empty()) return;
  const Json index = parse_json(text);
  if (!index.is_object() || !index.contains("weight_map")) return;
  std::set<std::string> shards;
  for (const Json& shard : index["weight_map"]) {
    if (shard.is_string()) shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards)
    read.push_back({"a shard of --params", (std::filesystem::path(path).parent_path() / shard).string()});
}

// An error text if a result would overwrite a file that the call reads, or another result. The module's file is mapped while it runs.
Wrong overwrites(const std::vector<TensorArgument>& outputs, const ModuleFlags& module) {
  std::vector<NamedFile> written, read{{"the module", module.path}};
  for (const TensorArgument& output : outputs) written.push_back({"--output " + output.name + "@" + output.path, output.path});
  if (outputs.empty()) return {};
  for (const Assignment& file : parameter_files(module)) {
    read.push_back({"the parameters of --params", file.value});
    add_shards(file.value, read);
  }
  return file_named_twice(written, read);
}

// As TOML that overrides the file.
std::string param_io_of(const std::string& mode) {
  if (mode == "auto") return {};
  return "param_io.method = [" + (mode == "file" ? "" : '"' + mode + '"') + "]\n";
}

struct Results {
  std::vector<Tensor> tensors;
  std::vector<HostTensor> values;
};

// donated: indices of inputs.
heddle_status_t* call(const Function& function, const std::vector<Tensor>& inputs, const std::vector<uint32_t>& donated, Results& out) {
  std::vector<heddle_tensor_t*> arguments, results(function.results.size(), nullptr);
  for (const Tensor& input : inputs) arguments.push_back(input.get());
  heddle_call_params_t params{};
  params.struct_size = sizeof(params);
  params.donated_arguments = donated.data();
  params.donated_argument_count = static_cast<uint32_t>(donated.size());
  heddle_call_t* started = nullptr;
  heddle_status_t* status = heddle_call_start(function.handle, &params, arguments.data(), static_cast<uint32_t>(arguments.size()),
                                              results.data(), static_cast<uint32_t>(results.size()), &started);
  if (!status) status = heddle_call_wait(started, HEDDLE_TIMEOUT_INFINITE);
  heddle_call_release(started);
  for (heddle_tensor_t* result : results) out.tensors.emplace_back(result);
  for (const Tensor& tensor : out.tensors) {
    if (status) break;
    out.values.emplace_back();
    status = read_tensor(tensor.get(), out.values.back());
  }
  return status;
}

void print_results(const Function& function, const Results& results, const std::vector<bool>& written, const Options& options) {
  const Format format = format_from_name(options.format);
  std::vector<std::string> objects;
  for (size_t i = 0; i < results.values.size(); ++i) {
    const std::string& name = function.results[i].name;
    if (format == Format::kTable) {
      if (!written[i]) print_line((name.empty() ? "" : name + "=") + tensor_text(results.values[i], options.values));
    } else {
      objects.push_back(result_json(name, results.values[i], written[i] ? 0 : options.values));
    }
  }
  if (format == Format::kJsonLines) {
    for (const std::string& object : objects) print_line(object);
  } else if (format == Format::kJson) {
    std::string all = "{\"results\":[";
    for (const std::string& object : objects) all += (all.back() == '[' ? "" : ",") + object;
    print_line(all + "]}");
  }
}

int run(const Arguments& arguments) {
  Options options;
  Flags flags = make_flags();
  options.declare(flags);
  if (std::optional<int> code = flags.parse(arguments)) return *code;
  std::vector<TensorArgument> inputs, expected(options.expected.size()), outputs(options.outputs.size());
  if (Wrong wrong = parse_inputs(options.inputs, options.runtime, options.module, inputs); !wrong.empty()) return flags.misuse(wrong);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (Wrong wrong = parse_tensor_argument(options.expected[i], expected[i]); !wrong.empty()) return flags.misuse("--expect " + wrong);
  }
  expand_npz(expected);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (Wrong wrong = parse_output_argument(options.outputs[i], outputs[i]); !wrong.empty()) return flags.misuse("--output " + wrong);
  }
  if (Wrong wrong = overwrites(outputs, options.module); !wrong.empty()) return flags.misuse(wrong);
  if (Wrong wrong = options.validation.to_config(options.runtime.settings); !wrong.empty()) return flags.misuse(wrong);
  options.runtime.settings = param_io_of(options.param_mode) + options.runtime.settings;
  if (Wrong wrong = slot_bound_twice(options.module.devices); !wrong.empty()) return flags.misuse("--device: " + wrong);

  Runtime runtime;
  if (std::optional<int> code = start_runtime(flags, options.runtime, runtime)) return *code;
  Module module;
  if (heddle_status_t* status = open_module(runtime.get(), options.module, module)) return report(status);
  Instance instance;
  if (heddle_status_t* status = create_instance(module.get(), options.module, options.module.devices, instance))
    return report_instance_failure(status);
  Function function;
  if (heddle_status_t* status = find_function(instance.get(), options.module.function, function)) return report_name_failure(status);

  std::vector<size_t> output_of(outputs.size()), expected_of(expected.size());
  size_t next = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (Wrong wrong = index_of(outputs[i].name, "result", function.results, next, output_of[i]); !wrong.empty())
      return flags.misuse("--output: " + wrong);
  }
  next = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (Wrong wrong = index_of(expected[i].name, "result", function.results, next, expected_of[i]); !wrong.empty())
      return flags.misuse("--expect: " + wrong);
  }
  std::vector<uint32_t> donated;
  for (const std::string& name : options.donated) {
    size_t index = 0;
    if (Wrong wrong = index_of(name, "input", function.arguments, index, index); !wrong.empty()) return flags.misuse("--donate: " + wrong);
    donated.push_back(static_cast<uint32_t>(index));
  }
  std::vector<HostTensor> values;
  if (std::optional<int> code = gather_inputs(flags, inputs, function, module.get(), options.module.function, nullptr, values))
    return *code;
  std::vector<Tensor> given;
  if (heddle_status_t* status = upload_inputs(function, values, given)) return report(status);

  Results results;
  if (heddle_status_t* status = call(function, given, donated, results)) return report(status);
  uint64_t violations = 0;
  if (heddle_status_t* status = count_violations(runtime.get(), violations)) return report(status);
  // Compared before anything is written: an expected file may be one of the output files.
  std::vector<bool> written(function.results.size());
  int code = kFine;
  for (size_t i = 0; i < expected.size(); ++i) {
    const HostTensor& got = results.values[expected_of[i]];
    const std::string& name = function.results[expected_of[i]].name;
    HostTensor want;
    if (Wrong wrong = load_tensor(expected[i], got.shape, want); !wrong.empty()) {
      code = expected[i].path.empty() ? flags.misuse("--expect " + wrong) : flags.failed("--expect " + wrong);
      break;
    }
    const Comparison comparison = compare(got, want, options.rtol, options.atol);
    const std::string result = name.empty() ? std::to_string(expected_of[i]) : printable("'" + name + "'");
    if (comparison.equal) {
      std::fprintf(stderr, "heddle run: result %s is as expected: %llu elements, largest difference %.3g\n", result.c_str(),
                   static_cast<unsigned long long>(comparison.compared), comparison.largest);
    } else {
      std::fprintf(stderr, "heddle run: result %s: %s\n", result.c_str(), comparison.explanation.c_str());
      code = kNumbersDiffer;
    }
    // A result that was compared is not printed as well, except in JSON.
    written[expected_of[i]] = true;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (Wrong wrong = save_tensor(outputs[i].path, results.values[output_of[i]]); !wrong.empty()) return flags.failed("--output: " + wrong);
    written[output_of[i]] = true;
  }
  if (code == kFailed || code == kUsage) return code;
  print_results(function, results, written, options);
  if (options.statistics) {
    heddle_text_t* raw = nullptr;
    if (heddle_status_t* status = heddle_instance_report(instance.get(), view("statistics"), &raw)) return report(status);
    const Text text(raw);
    std::fprintf(stderr, "%s\n", printable(text_of(text)).c_str());
  }
  if (violations != 0 && code == kFine) {
    std::fprintf(stderr, "heddle run: %llu violations of the plugin rules were found; see the log\n",
                 static_cast<unsigned long long>(violations));
    code = kUnavailable;
  }
  results.tensors.clear();
  given.clear();
  instance.reset();
  return finish_trace(runtime.get(), code);
}

}  // namespace

Command run_command() {
  return {"run", "calls a function of a module once", run};
}

}  // namespace heddle::tool
