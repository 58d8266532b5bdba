// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// runtime.h with owners, for tests: a session that opens modules on one driver, and calls with f32 tensors.
// Links libheddle; knows nothing of the core's insides.
#ifndef HEDDLE_TESTS_RUNTIME_SESSION_H_
#define HEDDLE_TESTS_RUNTIME_SESSION_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/runtime.h"

namespace heddle::testing {

inline heddle_string_t c_string(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string cpp_string(heddle_string_t text) {
  return std::string(text.data ? text.data : "", text.size);
}

// A status taken over, as something a test can print and compare.
struct Outcome {
  Outcome(heddle_status_t* status)  // NOLINT: converts on purpose
      : code(heddle_status_code(status)), message(cpp_string(heddle_status_message(status))) {
    heddle_status_free(status);
  }
  bool ok() const { return code == HEDDLE_STATUS_OK; }
  heddle_status_code_t code;
  std::string message;
};

#define HEDDLE_ASSERT_OK(call)                      \
  do {                                              \
    ::heddle::testing::Outcome outcome_(call);      \
    ASSERT_TRUE(outcome_.ok()) << outcome_.message; \
  } while (false)
#define HEDDLE_EXPECT_OK(call)                      \
  do {                                              \
    ::heddle::testing::Outcome outcome_(call);      \
    EXPECT_TRUE(outcome_.ok()) << outcome_.message; \
  } while (false)
#define HEDDLE_EXPECT_FAILS(call, expected_code, part)                             \
  do {                                                                             \
    ::heddle::testing::Outcome outcome_(call);                                     \
    EXPECT_EQ(outcome_.code, (expected_code)) << outcome_.message;                 \
    EXPECT_NE(outcome_.message.find(part), std::string::npos) << outcome_.message; \
  } while (false)

template <typename T, void (*kRelease)(T*)>
struct Releases {
  void operator()(T* object) const { kRelease(object); }
};
using RuntimeHandle = std::unique_ptr<heddle_runtime_t, Releases<heddle_runtime_t, heddle_runtime_release>>;
using ModuleHandle = std::unique_ptr<heddle_module_t, Releases<heddle_module_t, heddle_module_release>>;
using InstanceHandle = std::unique_ptr<heddle_instance_t, Releases<heddle_instance_t, heddle_instance_release>>;
using TensorHandle = std::unique_ptr<heddle_tensor_t, Releases<heddle_tensor_t, heddle_tensor_release>>;
using StateHandle = std::unique_ptr<heddle_state_t, Releases<heddle_state_t, heddle_state_release>>;
using CallHandle = std::unique_ptr<heddle_call_t, Releases<heddle_call_t, heddle_call_release>>;

inline std::string take_text(heddle_text_t* text) {
  std::string copy = cpp_string(heddle_text_view(text));
  heddle_text_free(text);
  return copy;
}

// With HEDDLE_TEST_VALIDATION every test checks the calls of its plugins too; a rule that is broken is on stderr, where the test's entry of
// CTest looks for it.
inline RuntimeHandle open_runtime(const std::vector<std::string>& plugin_paths, std::string config = "") {
  if (std::getenv("HEDDLE_TEST_VALIDATION") && config.find("[validation]") == std::string::npos) config += "\n[validation]\ncalls = true\n";
  std::vector<heddle_string_t> paths;
  for (const std::string& path : plugin_paths) paths.push_back(c_string(path));
  heddle_runtime_params_t params{};
  params.struct_size = sizeof(params);
  params.flags = HEDDLE_RUNTIME_NO_CONFIG;
  params.config_text = c_string(config);
  params.plugin_paths = paths.data();
  params.plugin_path_count = static_cast<uint32_t>(paths.size());
  heddle_runtime_t* runtime = nullptr;
  HEDDLE_EXPECT_OK(heddle_runtime_create(&params, &runtime));
  return RuntimeHandle(runtime);
}

inline ModuleHandle open_module(heddle_runtime_t* runtime, const std::string& path) {
  heddle_module_t* module = nullptr;
  HEDDLE_EXPECT_OK(heddle_module_open(runtime, c_string(path), nullptr, &module));
  return ModuleHandle(module);
}

// All slots on one device.
inline heddle_status_t* create_instance(heddle_module_t* module, const std::vector<std::pair<std::string, std::string>>& slots,
                                        InstanceHandle* out, const std::vector<std::pair<std::string, std::string>>& files = {},
                                        uint32_t flags = 0) {
  std::vector<heddle_slot_binding_t> bindings;
  for (const auto& [slot, device] : slots) bindings.push_back({c_string(slot), c_string(device)});
  std::vector<heddle_parameter_file_t> parameter_files;
  for (const auto& [scope, path] : files) parameter_files.push_back({c_string(scope), c_string(path)});
  heddle_instance_params_t params{};
  params.struct_size = sizeof(params);
  params.slots = bindings.data();
  params.slot_count = static_cast<uint32_t>(bindings.size());
  params.parameter_files = parameter_files.data();
  params.parameter_file_count = static_cast<uint32_t>(parameter_files.size());
  params.flags = flags;
  heddle_instance_t* instance = nullptr;
  heddle_status_t* status = heddle_instance_create(module, &params, &instance);
  out->reset(instance);
  return status;
}

inline heddle_function_t* find_function(const InstanceHandle& instance, const std::string& name = "") {
  heddle_function_t* function = nullptr;
  HEDDLE_EXPECT_OK(heddle_instance_function(instance.get(), c_string(name), &function));
  return function;
}

template <typename T>
TensorHandle make_tensor(heddle_function_t* function, uint32_t argument, const std::vector<int64_t>& dims, const std::vector<T>& values,
                         heddle_element_type_t type = HEDDLE_TYPE_F32) {
  heddle_tensor_t* tensor = nullptr;
  HEDDLE_EXPECT_OK(heddle_tensor_from_host(function, argument, type, dims.data(), static_cast<uint32_t>(dims.size()), values.data(),
                                           values.size() * sizeof(T), &tensor));
  return TensorHandle(tensor);
}

template <typename T = float>
std::vector<T> read_tensor(const TensorHandle& tensor) {
  std::vector<T> values(heddle_tensor_size(tensor.get()) / sizeof(T));
  HEDDLE_EXPECT_OK(heddle_tensor_read(tensor.get(), values.data(), values.size() * sizeof(T)));
  return values;
}

inline std::vector<int64_t> dims_of(const TensorHandle& tensor) {
  const int64_t* dims = heddle_tensor_dims(tensor.get());
  return {dims, dims + heddle_tensor_rank(tensor.get())};
}

// One result, waited for.
inline TensorHandle call_for_one(heddle_function_t* function, const std::vector<heddle_tensor_t*>& arguments) {
  heddle_tensor_t* result = nullptr;
  HEDDLE_EXPECT_OK(heddle_call(function, arguments.data(), static_cast<uint32_t>(arguments.size()), &result, 1));
  return TensorHandle(result);
}

inline std::string instance_report(const InstanceHandle& instance, const std::string& topic) {
  heddle_text_t* text = nullptr;
  HEDDLE_EXPECT_OK(heddle_instance_report(instance.get(), c_string(topic), &text));
  return text ? take_text(text) : std::string();
}

}  // namespace heddle::testing

#endif  // HEDDLE_TESTS_RUNTIME_SESSION_H_
