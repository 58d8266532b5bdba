// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's objects as owning C++ values, and the flags that every command with a runtime has. Used by run, bench, devices, plugins,
// config and explain.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/runtime.h"
#include "tools/heddle/failure.h"
#include "tools/heddle/flags.h"
#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    release(object);
  }
};
using Runtime = std::unique_ptr<heddle_runtime_t, Release<heddle_runtime_release>>;
using Module = std::unique_ptr<heddle_module_t, Release<heddle_module_release>>;
using Instance = std::unique_ptr<heddle_instance_t, Release<heddle_instance_release>>;
using Tensor = std::unique_ptr<heddle_tensor_t, Release<heddle_tensor_release>>;
using Text = std::unique_ptr<heddle_text_t, Release<heddle_text_free>>;

// --config, --plugin-path
struct RuntimeFlags {
  std::string config;
  std::string settings;  // TOML that overrides the file; not a flag
  std::vector<std::string> plugin_paths;
  void add_to(Flags& flags);
};
// Makes the directories of --plugin-path absolute; returns an error that names one which is not a directory.
Wrong resolve_plugin_paths(RuntimeFlags& flags);
// An error text for --config, or for the FILE of `config check`, if heddle has other privileges than its caller.
Wrong config_with_raised_rights(const RuntimeFlags& flags);
heddle_status_t* create_runtime(const RuntimeFlags& flags, Runtime& out);
// Both of the above, with errors on stderr. Empty: continue. Else the exit code.
std::optional<int> start_runtime(const Flags& flags, RuntimeFlags& given, Runtime& out);

// "name=value", or "" and the whole text if there is no '='.
struct Assignment {
  std::string name;
  std::string value;
};
Assignment split_assignment(const std::string& text);

// MODULE, --function, --params, --params-over, --device, --check-hashes
struct ModuleFlags {
  std::string path;
  std::string function;
  std::vector<std::string> params;
  std::vector<std::string> params_over;
  std::vector<std::string> devices;  // not added for bench, where the flag has another meaning
  bool no_hash = false, check_hashes = false;
  void add_to(Flags& flags, bool with_device);
  // --params, --params-over
  void add_parameters(Flags& flags);
};
// The files of --params and then those of --params-over, each with its scope.
std::vector<Assignment> parameter_files(const ModuleFlags& flags);
// An error text if a slot is bound twice; otherwise empty.
Wrong slot_bound_twice(const std::vector<std::string>& devices);
heddle_status_t* open_module(heddle_runtime_t* runtime, const ModuleFlags& flags, Module& out);
// The flags of an instance as its parameters.
class InstanceParams {
 public:
  InstanceParams(const ModuleFlags& flags, const std::vector<std::string>& devices);
  InstanceParams(const InstanceParams&) = delete;
  InstanceParams& operator=(const InstanceParams&) = delete;
  heddle_instance_params_t c{};

 private:
  std::vector<Assignment> slots_, files_;  // own the text to which the C structs point
  std::vector<heddle_slot_binding_t> bindings_;
  std::vector<heddle_parameter_file_t> parameter_files_;
};
// instance_flags: bits HEDDLE_INSTANCE_*.
heddle_status_t* create_instance(heddle_module_t* module, const ModuleFlags& flags, const std::vector<std::string>& devices, Instance& out,
                                 uint32_t instance_flags = 0);
// Like report(), but returns 4 also for a device or a plugin that is not found, and 2 for a slot that the module does not have.
int report_instance_failure(heddle_status_t* status);
// `code`, or 1 after reporting that the file of [trace] could not be written, if the command succeeded otherwise. Instances are released before, since
// that adds events.
int finish_trace(heddle_runtime_t* runtime, int code);
// Like report(), but returns 2 for a name that does not exist.
int report_name_failure(heddle_status_t* status);

// A function with the types of its arguments and results.
struct Function {
  heddle_function_t* handle = nullptr;
  struct Type {
    std::string name;
    Shape shape;
  };
  std::vector<Type> arguments;
  std::vector<Type> results;
  // "image: f32[?,1,8,8], mask: bool[4]"
  static std::string list(const std::vector<Type>& types);
};
heddle_status_t* find_function(heddle_instance_t* instance, const std::string& name, Function& out);

// Copies a tensor to the host.
heddle_status_t* read_tensor(heddle_tensor_t* tensor, HostTensor& out);

std::string text_of(const Text& text);

}  // namespace heddle::tool
