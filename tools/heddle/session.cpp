// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates runtime, module, instance and function from flags.
#include "tools/heddle/session.h"

#include <algorithm>
#include <filesystem>

#include "tools/heddle/raised_rights.h"
#include "tools/heddle/scoped_file.h"

namespace heddle::tool {

void RuntimeFlags::add_to(Flags& flags) {
  flags.text("--config", config, "configuration file (default: $HEDDLE_CONFIG, then the user's and the system's heddle.toml)", "FILE");
  flags.texts("--plugin-path", plugin_paths, "directory with plugin manifests, searched first", "DIRECTORY");
}

Wrong resolve_plugin_paths(RuntimeFlags& flags) {
  for (std::string& path : flags.plugin_paths) {
    std::error_code failed;
    if (!std::filesystem::is_directory(path, failed))
      return "--plugin-path '" + path + "': " + (failed ? failed.message() : "it is not a directory") +
             "; name a directory with plugin manifests";
    path = std::filesystem::absolute(path).lexically_normal().string();
  }
  return {};
}

std::optional<int> start_runtime(const Flags& flags, RuntimeFlags& given, Runtime& out) {
  if (Wrong wrong = config_with_raised_rights(given); !wrong.empty()) return flags.misuse(wrong);
  if (Wrong wrong = resolve_plugin_paths(given); !wrong.empty()) return flags.misuse(wrong);
  if (heddle_status_t* status = create_runtime(given, out)) return report(status);
  return std::nullopt;
}

Wrong config_with_raised_rights(const RuntimeFlags& flags) {
  if (flags.config.empty() || !has_raised_rights()) return {};
  return "a configuration file is not accepted with raised privileges; only /etc/heddle/heddle.toml is used";
}

heddle_status_t* create_runtime(const RuntimeFlags& flags, Runtime& out) {
  std::vector<heddle_string_t> paths;
  for (const std::string& path : flags.plugin_paths) paths.push_back(view(path));
  heddle_runtime_params_t params{};
  params.struct_size = sizeof(params);
  params.config_path = view(flags.config);
  params.config_text = view(flags.settings);
  params.plugin_path_count = static_cast<uint32_t>(paths.size());
  params.plugin_paths = paths.data();
  heddle_runtime_t* runtime = nullptr;
  heddle_status_t* status = heddle_runtime_create(&params, &runtime);
  out.reset(runtime);
  return status;
}

Assignment split_assignment(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

namespace {

// Splits a slot and its device; the default slot may be named explicitly.
Assignment split_binding(const std::string& text) {
  Assignment binding = split_assignment(text);
  if (binding.name == "default") binding.name.clear();
  return binding;
}

}  // namespace

void ModuleFlags::add_parameters(Flags& flags) {
  flags.texts("--params", params, "file with parameters: safetensors, the index of its shards, GGUF, IRPA, .npz, .npy or .onnx",
              "[SCOPE=]FILE");
  flags.texts("--params-over", params_over, "file whose parameters take the place of those of the same name in the files of --params",
              "[SCOPE=]FILE");
}

void ModuleFlags::add_to(Flags& flags, bool with_device) {
  flags.positional("MODULE", path, "compiled .heddle file");
  flags.text("--function", function, "function to call (default: the only one, or 'main')", "NAME");
  add_parameters(flags);
  if (with_device) flags.texts("--device", devices, "device of a slot", "[SLOT=]ALIAS");
  flags.on("--no-hash", no_hash, "skip the check of the content hash");
  flags.on("--check-hashes", check_hashes, "read all parameters once more and compare them with those that the module was compiled with");
}

std::vector<Assignment> parameter_files(const ModuleFlags& flags) {
  std::vector<Assignment> files;
  for (const std::vector<std::string>* texts : {&flags.params, &flags.params_over}) {
    for (const std::string& text : *texts) {
      ScopedFile file = split_scope(text);
      files.push_back({std::move(file.scope), std::move(file.path)});
    }
  }
  return files;
}

Wrong slot_bound_twice(const std::vector<std::string>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    const Assignment binding = split_binding(devices[i]);
    const bool again = std::any_of(devices.begin(), devices.begin() + i,
                                   [&](const std::string& other) { return split_binding(other).name == binding.name; });
    if (again)
      return (binding.name.empty() ? "the default slot" : "slot '" + binding.name + "'") + " is bound twice, the second time to '" +
             binding.value + "'; name one device for it";
  }
  return {};
}

heddle_status_t* open_module(heddle_runtime_t* runtime, const ModuleFlags& flags, Module& out) {
  heddle_module_params_t params{};
  params.struct_size = sizeof(params);
  params.flags = flags.no_hash ? HEDDLE_MODULE_NO_HASH : 0;
  heddle_module_t* module = nullptr;
  heddle_status_t* status = heddle_module_open(runtime, view(flags.path), &params, &module);
  out.reset(module);
  return status;
}

InstanceParams::InstanceParams(const ModuleFlags& flags, const std::vector<std::string>& devices) : files_(parameter_files(flags)) {
  for (const std::string& device : devices) slots_.push_back(split_binding(device));
  for (const Assignment& slot : slots_) bindings_.push_back({view(slot.name), view(slot.value)});
  for (const Assignment& file : files_) parameter_files_.push_back({view(file.name), view(file.value)});
  c.struct_size = sizeof(c);
  c.slots = bindings_.data();
  c.slot_count = static_cast<uint32_t>(bindings_.size());
  c.parameter_files = parameter_files_.data();
  c.parameter_file_count = static_cast<uint32_t>(flags.params.size());
  c.overlays = parameter_files_.data() + flags.params.size();
  c.flags = flags.check_hashes ? HEDDLE_INSTANCE_CHECK_HASHES : 0;
  c.overlay_count = static_cast<uint32_t>(flags.params_over.size());
}

heddle_status_t* create_instance(heddle_module_t* module, const ModuleFlags& flags, const std::vector<std::string>& devices, Instance& out,
                                 uint32_t instance_flags) {
  InstanceParams params(flags, devices);
  params.c.flags |= instance_flags;
  heddle_instance_t* instance = nullptr;
  heddle_status_t* status = heddle_instance_create(module, &params.c, &instance);
  out.reset(instance);
  return status;
}

int report_instance_failure(heddle_status_t* status) {
  // Missing parameters are an ordinary failure; the component named first in the message distinguishes them from missing devices and plugins.
  const std::string_view message = view(heddle_status_message(status));
  const bool about_devices = message.substr(0, 6) == "route:" || message.substr(0, 5) == "host:";
  const bool absent = heddle_status_code(status) == HEDDLE_STATUS_NOT_FOUND && about_devices;
  const bool no_slot = absent && message.find("has no such slot") != std::string_view::npos;
  const int code = report(status);
  return no_slot ? kUsage : absent ? kUnavailable : code;
}

int finish_trace(heddle_runtime_t* runtime, int code) {
  heddle_text_t* raw = nullptr;
  heddle_status_t* status = heddle_runtime_report(runtime, view("trace"), &raw);
  const Text text(raw);
  if (!status) return code;
  const int failed = report(status);
  return code == kFine ? failed : code;
}

int report_name_failure(heddle_status_t* status) {
  const bool absent = heddle_status_code(status) == HEDDLE_STATUS_NOT_FOUND;
  const int code = report(status);
  return absent ? kUsage : code;
}

heddle_status_t* find_function(heddle_instance_t* instance, const std::string& name, Function& out) {
  out = Function{};
  if (heddle_status_t* status = heddle_instance_function(instance, view(name), &out.handle)) return status;
  auto read = [&](uint32_t count, auto get, std::vector<Function::Type>& types) -> heddle_status_t* {
    for (uint32_t i = 0; i < count; ++i) {
      heddle_tensor_type_t type{};
      type.struct_size = sizeof(type);
      if (heddle_status_t* status = get(out.handle, i, &type)) return status;
      const uint32_t rank = type.rank < HEDDLE_MAX_RANK ? type.rank : HEDDLE_MAX_RANK;
      types.push_back({std::string(view(type.name)), Shape{type.element_type, {type.dims, type.dims + rank}}});
    }
    return nullptr;
  };
  if (heddle_status_t* status = read(heddle_function_argument_count(out.handle), heddle_function_argument, out.arguments)) return status;
  return read(heddle_function_result_count(out.handle), heddle_function_result, out.results);
}

std::string Function::list(const std::vector<Type>& types) {
  std::string out;
  for (const Type& type : types)
    out += (out.empty() ? "" : ", ") + (type.name.empty() ? "(no name)" : type.name) + ": " + shape_text(type.shape);
  return out.empty() ? "none" : out;
}

heddle_status_t* read_tensor(heddle_tensor_t* tensor, HostTensor& out) {
  const int64_t* dims = heddle_tensor_dims(tensor);
  out.shape = Shape{heddle_tensor_element_type(tensor), {dims, dims + heddle_tensor_rank(tensor)}};
  out.bytes.resize(heddle_tensor_size(tensor));
  return heddle_tensor_read(tensor, out.bytes.data(), out.bytes.size());
}

std::string text_of(const Text& text) {
  return std::string(view(heddle_text_view(text.get())));
}

}  // namespace heddle::tool
