// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loaded code: a vendor's modules and their kernels, with the layout of each kernel's arguments. Lowering reads entries on the hot path.
#ifndef HEDDLE_SDK_STREAM_CODE_H_
#define HEDDLE_SDK_STREAM_CODE_H_

#include "heddle/sdk/stream/memory.h"

namespace heddle::sdk::stream {

constexpr uint32_t kMaxArgumentsBytes = 4096;

// An argument that a vendor makes out of a binding for each launch, such as a descriptor.
class SpecialArgument {
 public:
  // For texts: "the tensor map", and whose limits a failure is about.
  SpecialArgument(const char* its_name, const char* its_limits) noexcept : name(its_name), limits(its_limits) {}
  virtual ~SpecialArgument() = default;
  SpecialArgument(const SpecialArgument&) = delete;
  SpecialArgument& operator=(const SpecialArgument&) = delete;
  // Writes the argument. The context is current.
  virtual Result encode(Address address, const int64_t* constants, char* out) const noexcept = 0;

  const char *name, *limits;
};

// One argument of a recipe and its location among the kernel's arguments.
struct Argument {
  uint32_t kind = 0;
  uint32_t index = 0;
  uint32_t size_bytes = 0;
  uint32_t alignment = 1;
  uint32_t at = 0;
  std::shared_ptr<const SpecialArgument> special;  // of a kind that only the vendor knows
};

struct Entry {
  const heddle_driver_api_t* api = nullptr;  // HD-H-01: the first word
  Device* device = nullptr;
  Function function = nullptr;
  uint32_t binding_count = 0, constants_bytes = 0;
  uint32_t block[3] = {1, 1, 1};
  uint32_t most_workgroups[3] = {};  // of a launch: the device's limits, which load_entry may lower
  uint32_t shared_bytes = 0;
  uint32_t arguments_bytes = 0;
  bool starts_early = false;  // the kernel itself waits for the kernel that it depends on
  bool plain = true;          // addresses of the bindings, then the constants
  std::vector<Argument> arguments;
  std::string name;

  static Entry* from(heddle_entry_t* handle) noexcept { return reinterpret_cast<Entry*>(handle); }
  heddle_entry_t* handle() noexcept { return reinterpret_cast<heddle_entry_t*>(this); }
};

struct Executable {
  const heddle_driver_api_t* api = nullptr;  // HD-H-01: the first word
  Device* device = nullptr;
  Module module = nullptr;
  std::vector<Entry> entries;
  Executable() = default;
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  static Executable* from(heddle_executable_t* handle) noexcept { return reinterpret_cast<Executable*>(handle); }
  heddle_executable_t* handle() noexcept { return reinterpret_cast<heddle_executable_t*>(this); }
};

// One executable that is being loaded. Its errors name the executable, and the entry.
class Loading {
 public:
  Loading(Device* its_device, const heddle_executable_params_t& its_params) noexcept : device(its_device), params(its_params) {}
  heddle_status_t* load(Executable* executable);

  std::string_view name() const noexcept { return sdk::view_of(params.name); }
  heddle_status_t* failed(heddle_status_code_t code, const std::string& why) const;
  // The vendor's result is part of the text; the text tells the size and the format of the code.
  heddle_status_t* failed(Result result, const std::string& why) const;
  heddle_status_t* entry_failed(heddle_status_code_t code, const std::string& why) const;
  // Of the argument with that index of a recipe.
  heddle_status_t* argument_failed(uint32_t argument, const std::string& why) const;

  Device* const device;
  const heddle_executable_params_t& params;

 private:
  heddle_status_t* load_entry(const heddle_entry_params_t& in, Executable* executable);
  heddle_status_t* check_numbers(const heddle_entry_params_t& in) const;
  heddle_status_t* lay_out(const heddle_entry_params_t& in, Entry* entry);
  heddle_status_t* read_argument(const heddle_entry_params_t& in, uint32_t index, Argument* out);

  uint32_t index_ = 0;
};

// The slots of heddle.dispatch/1.
heddle_status_t* variant_rank(heddle_device_t* device, heddle_string_t format, heddle_string_t target, uint32_t* out) noexcept;
heddle_status_t* executable_load(heddle_device_t* device, const heddle_executable_params_t* params, heddle_executable_t** out) noexcept;

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_CODE_H_
