// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "level_zero/spirv.h"

#include <cstring>

namespace heddle::level_zero {
namespace {

constexpr uint32_t kMagic = 0x07230203, kHeaderWords = 5;
constexpr uint32_t kPhysical64 = 2, kOpenCl = 2, kKernelModel = 6, kLocalSizeMode = 17;
constexpr uint32_t kWorkgroupClass = 4, kCrossWorkgroupClass = 5;
enum Op : uint32_t {
  kOpMemoryModel = 14,
  kOpEntryPoint = 15,
  kOpExecutionMode = 16,
  kOpCapability = 17,
  kOpTypeInt = 21,
  kOpTypePointer = 32,
  kOpTypeFunction = 33,
  kOpFunction = 54,
};

struct Capability {
  uint32_t number;
  const char* name;
};
constexpr Capability kCapabilities[] = {
    {4, "Addresses"},
    {5, "Linkage"},
    {6, "Kernel"},
    {7, "Vector16"},
    {8, "Float16Buffer"},
    {9, "Float16"},
    {10, "Float64"},
    {11, "Int64"},
    {12, "Int64Atomics"},
    {18, "Groups"},
    {22, "Int16"},
    {38, "GenericPointer"},
    {39, "Int8"},
    {58, "SubgroupDispatch"},
    {61, "GroupNonUniform"},
    {65, "GroupNonUniformShuffle"},
    {6018, "DotProductInput4x8BitPacked"},
    {6019, "DotProduct"},
};

class Reader {
 public:
  Reader(const void* code, size_t bytes, SpirvModule* out) : code_(static_cast<const char*>(code)), bytes_(bytes), out_(out) {}

  heddle_status_code_t read(std::string* out_reason) {
    if (const std::string why = header(); !why.empty()) return fail(why, out_reason);
    for (size_t at = kHeaderWords; at < words_;) {
      const uint32_t first = word(at), length = first >> 16, op = first & 0xffffu;
      if (length == 0 || length > words_ - at) {
        return fail("the instruction at word " + std::to_string(at) + " has " + std::to_string(length) + " words, of which " +
                        std::to_string(words_ - at) + " are there",
                    out_reason);
      }
      if (const std::string why = instruction(static_cast<Op>(op), at, length); !why.empty()) return fail(why, out_reason);
      at += length;
    }
    if (!has_model_) return fail("it has no memory model", out_reason);
    if (const std::string why = resolve(); !why.empty()) return fail(why, out_reason);
    return HEDDLE_STATUS_OK;
  }

 private:
  struct Type {
    Op op;
    uint32_t value;  // bits of an integer, storage class of a pointer
  };
  struct Entry {
    std::string name;
    uint32_t function;
  };
  struct FunctionType {
    size_t at;  // the types of its parameters
    uint32_t count;
    std::shared_ptr<const std::vector<SpirvParameter>> parameters;  // NULL until an entry point needs them
  };

  static heddle_status_code_t fail(const std::string& why, std::string* out_reason) {
    *out_reason = "its SPIR-V is refused: " + why;
    return HEDDLE_STATUS_INVALID_ARGUMENT;
  }
  uint32_t word(size_t index) const {
    uint32_t value;
    std::memcpy(&value, code_ + index * sizeof value, sizeof value);
    return value;
  }

  std::string header() {
    if (bytes_ < kHeaderWords * sizeof(uint32_t) || bytes_ % sizeof(uint32_t) != 0) {
      return std::to_string(bytes_) + " bytes are not a module of words with a header of " + std::to_string(kHeaderWords);
    }
    words_ = bytes_ / sizeof(uint32_t);
    if (word(0) == __builtin_bswap32(kMagic)) return "it was written for big-endian machines";
    if (word(0) != kMagic) return "it begins with " + std::to_string(word(0)) + ", not with SPIR-V's magic number";
    out_->version = word(1);
    if (word(4) != 0) return "its schema is " + std::to_string(word(4)) + ", not 0";
    return "";
  }

  std::string instruction(Op op, size_t at, uint32_t length) {
    const auto too_short = [&](uint32_t least) {
      return length >= least ? std::string() : "the instruction at word " + std::to_string(at) + " is too short for its operation";
    };
    switch (op) {
      case kOpCapability:
        if (std::string why = too_short(2); !why.empty()) return why;
        out_->capabilities.push_back(word(at + 1));
        return "";
      case kOpMemoryModel:
        if (std::string why = too_short(3); !why.empty()) return why;
        has_model_ = true;
        if (word(at + 1) == kPhysical64 && word(at + 2) == kOpenCl) return "";
        return "its addressing model is " + std::to_string(word(at + 1)) + " and its memory model " + std::to_string(word(at + 2)) +
               ", but Physical64 (2) and OpenCL (2) are needed";
      case kOpEntryPoint: {
        if (std::string why = too_short(4); !why.empty()) return why;
        if (word(at + 1) != kKernelModel) return "an entry point has execution model " + std::to_string(word(at + 1)) + ", not Kernel (6)";
        Entry entry;
        entry.function = word(at + 2);
        const char* name = code_ + (at + 3) * sizeof(uint32_t);
        const size_t room = (length - 3) * sizeof(uint32_t), size = strnlen(name, room);
        if (size == room) return "the name of an entry point has no end";
        entry.name.assign(name, size);
        entries_.push_back(std::move(entry));
        return "";
      }
      case kOpExecutionMode:
        if (std::string why = too_short(3); !why.empty()) return why;
        if (word(at + 2) != kLocalSizeMode) return "";
        if (std::string why = too_short(6); !why.empty()) return why;
        local_sizes_[word(at + 1)] = at + 3;
        return "";
      case kOpTypeInt:
        if (std::string why = too_short(4); !why.empty()) return why;
        types_[word(at + 1)] = {op, word(at + 2)};
        return "";
      case kOpTypePointer:
        if (std::string why = too_short(4); !why.empty()) return why;
        types_[word(at + 1)] = {op, word(at + 2)};
        return "";
      case kOpTypeFunction:
        if (std::string why = too_short(3); !why.empty()) return why;
        function_types_[word(at + 1)] = {at + 3, length - 3, nullptr};
        return "";
      case kOpFunction:
        if (std::string why = too_short(5); !why.empty()) return why;
        functions_[word(at + 2)] = word(at + 4);
        return "";
      default:
        return "";
    }
  }

  std::string resolve() {
    for (const Entry& entry : entries_) {
      const auto function = functions_.find(entry.function);
      const auto type = function == functions_.end() ? function_types_.end() : function_types_.find(function->second);
      if (type == function_types_.end()) return "entry point '" + entry.name.substr(0, 80) + "' has no function, or one without a type";
      SpirvKernel kernel;
      if (const auto size = local_sizes_.find(entry.function); size != local_sizes_.end()) {
        for (size_t i = 0; i < 3; ++i) kernel.local_size[i] = word(size->second + i);
      }
      if (!type->second.parameters) type->second.parameters = read_parameters(type->second);
      kernel.parameters = type->second.parameters;
      if (!out_->kernels.emplace(entry.name, std::move(kernel)).second) return "it has two entry points '" + entry.name.substr(0, 80) + "'";
    }
    return "";
  }

  std::shared_ptr<const std::vector<SpirvParameter>> read_parameters(const FunctionType& of) const {
    auto parameters = std::make_shared<std::vector<SpirvParameter>>(of.count);
    for (uint32_t i = 0; i < of.count; ++i) {
      const auto known = types_.find(word(of.at + i));
      if (known == types_.end()) continue;
      const Type& type = known->second;
      SpirvParameter& parameter = (*parameters)[i];
      if (type.op == kOpTypeInt) parameter = {SpirvParameter::kInteger, type.value};
      if (type.op != kOpTypePointer) continue;
      if (type.value == kCrossWorkgroupClass) parameter.kind = SpirvParameter::kGlobalPointer;
      if (type.value == kWorkgroupClass) parameter.kind = SpirvParameter::kLocalPointer;
    }
    return parameters;
  }

  const char* code_;
  size_t bytes_, words_ = 0;
  SpirvModule* out_;
  bool has_model_ = false;
  std::vector<Entry> entries_;
  // By id. Ids of a hostile module could all have the same hash.
  std::map<uint32_t, Type> types_;
  std::map<uint32_t, FunctionType> function_types_;
  std::map<uint32_t, uint32_t> functions_;  // types of functions
  std::map<uint32_t, size_t> local_sizes_;  // of functions: where they are
};

}  // namespace

heddle_status_code_t read_spirv(const void* code, size_t bytes, SpirvModule* out, std::string* out_reason) {
  return Reader(code, bytes, out).read(out_reason);
}

bool is_known_capability(uint32_t capability) noexcept {
  for (const Capability& known : kCapabilities) {
    if (known.number == capability) return true;
  }
  return false;
}

std::string capability_name(uint32_t capability) {
  for (const Capability& known : kCapabilities) {
    if (known.number == capability) return known.name;
  }
  return "capability " + std::to_string(capability);
}

}  // namespace heddle::level_zero
