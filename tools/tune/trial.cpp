// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/tune/trial.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

namespace heddle::tool {
namespace {

heddle_status_t* compile(const TrialOptions& options, const std::string& module, const std::string& report, const std::string& choices) {
  CompileParams all(options.compile);
  heddle_compile_params_t& params = all.c;
  params.output_path = view(module);
  params.report_path = view(report);
  params.tuned_path = view(choices);
  params.progress = [](void* context, heddle_string_t, uint32_t, uint32_t) -> uint32_t {
    return static_cast<const TrialOptions*>(context)->has_to_stop();
  };
  params.context = const_cast<TrialOptions*>(&options);
  return heddle_compile(&params);
}

}  // namespace

std::optional<int> Trial::open(const Flags& flags, const TrialOptions& options, heddle_runtime_t* runtime, const std::string& folder,
                               const std::string& name, const std::string& choices) {
  ModuleFlags module = options.module;
  module.path = folder + "/" + name + ".heddle";
  module.params.insert(module.params.end(), options.compile.params_in.begin(), options.compile.params_in.end());
  const std::string report_path = folder + "/" + name + ".json";
  if (heddle_status_t* status = compile(options, module.path, report_path, choices)) return tool::report(status);
  std::ifstream file(report_path, std::ios::binary);
  report_ = parse_json({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  if (!report_.is_object()) return flags.failed("the compiler's report cannot be read");
  for (const Json& kernel : array(report_, "kernels"))
    kernels_[{text(kernel, "family"), text(kernel, "kernel")}] = {text(kernel, "name"), text(kernel, "choice")};
  has_to_stop_ = options.has_to_stop;
  std::vector<TensorArgument> given;
  if (Wrong wrong = parse_inputs(options.inputs, given); !wrong.empty()) return flags.misuse(wrong);
  MadeUpInputs made_up;
  if (Wrong wrong = made_up.parse(options.dims); !wrong.empty()) return flags.misuse(wrong);
  if (heddle_status_t* status = open_module(runtime, module, module_)) return tool::report(status);
  if (Wrong wrong = made_up.find_symbols(module_.get(), module.function); !wrong.empty()) return flags.misuse(wrong);
  if (heddle_status_t* status = create_instance(module_.get(), module, module.devices, instance_, HEDDLE_INSTANCE_PROFILE))
    return report_instance_failure(status);
  if (heddle_status_t* status = find_function(instance_.get(), module.function, function_)) return report_name_failure(status);
  const MakeInput make = [&](size_t index, HostTensor& out) { return made_up.make(function_, index, options.seed, out); };
  std::vector<HostTensor> values;
  for (const Function::Type& argument : function_.arguments) {
    const bool is_given =
        std::any_of(given.begin(), given.end(), [&](const TensorArgument& one) { return one.name.empty() || one.name == argument.name; });
    has_unknown_extents_ |= !is_given && options.dims.empty() &&
                            std::any_of(argument.shape.dims.begin(), argument.shape.dims.end(), [](int64_t extent) { return extent < 0; });
  }
  if (std::optional<int> code = gather_inputs(flags, given, function_, module_.get(), module.function, make, values)) return code;
  if (heddle_status_t* status = upload_inputs(function_, values, inputs_)) return tool::report(status);
  for (const Tensor& input : inputs_) raw_inputs_.push_back(input.get());
  raw_results_.assign(function_.results.size(), nullptr);
  // The first call allocates the results; later calls write into them.
  heddle_status_t* first = call();
  for (heddle_tensor_t* result : raw_results_) results_.emplace_back(result);
  if (first) return tool::report(first);
  return std::nullopt;
}

std::string Trial::device() const {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance_.get(), view("route"), &raw)) {
    heddle_status_free(status);
    return "";
  }
  const Json route = parse_json(text_of(Text(raw)));
  const Json& slots = array(route, "slots");
  return slots.empty() ? std::string() : text(slots.front(), "device");
}

heddle_status_t* Trial::call() {
  return heddle_call(function_.handle, raw_inputs_.data(), static_cast<uint32_t>(raw_inputs_.size()), raw_results_.data(),
                     static_cast<uint32_t>(raw_results_.size()));
}

heddle_status_t* Trial::profile(Json& out) {
  heddle_text_t* raw = nullptr;
  if (heddle_status_t* status = heddle_instance_report(instance_.get(), view("profile"), &raw)) return status;
  out = parse_json(text_of(Text(raw)));
  return nullptr;
}

heddle_status_t* Trial::measure(double seconds, Times& out) {
  Json before, after;
  if (heddle_status_t* status = profile(before)) return status;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double passed = 0, calls = 0;
  do {
    if (heddle_status_t* status = call()) return status;
    ++calls;
    passed = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (passed < seconds && !has_to_stop_());
  if (heddle_status_t* status = profile(after)) return status;
  out.call_ns = passed * 1e9 / calls;
  out.kernels.clear();
  for (const auto& [rows, sign] : {std::pair(&after, 1.0), std::pair(&before, -1.0)}) {
    for (const Json& row : array(*rows, "regions")) {
      const auto kernel = kernels_.find({text(row, "executable"), text(row, "kernel")});
      if (kernel == kernels_.end()) continue;
      KernelTime& time = out.kernels[{kernel->first.first, kernel->second.first}];
      time.choice = kernel->second.second;
      time.candidate = static_cast<uint32_t>(number(row, "candidate"));
      time.time_ns += sign * static_cast<double>(number(row, "total_ns")) / calls;
      if (sign > 0) time.regions.push_back(text(row, "region"));
    }
  }
  return nullptr;
}

}  // namespace heddle::tool
