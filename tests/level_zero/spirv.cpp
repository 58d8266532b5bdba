// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See spirv.h. Only the instructions that matter are understood; the executor judges the rest.
#include "tests/level_zero/spirv.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

namespace heddle::level_zero_stand_in {

namespace {

// Operation codes, and numbers of operands, as in the specification's tables.
enum : uint32_t {
  kEntryPoint = 15,
  kExecutionMode = 16,
  kTypeVoid = 19,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeArray = 28,
  kTypeStruct = 30,
  kTypePointer = 32,
  kConstant = 43,
  kSpecConstantTrue = 48,
  kSpecConstantFalse = 49,
  kSpecConstant = 50,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kVariable = 59,
  kLoad = 61,
  kStore = 62,
  kCopyMemorySized = 64,
  kAccessChain = 65,
  kInBoundsAccessChain = 66,
  kPtrAccessChain = 67,
  kInBoundsPtrAccessChain = 70,
  kDecorate = 71,
  kPtrCastToGeneric = 121,
  kBitcast = 124,
  kFirstAtomic = 227,
  kAtomicStore = 228,  // its pointer is elsewhere
  kLastAtomic = 242,
};
constexpr uint32_t kMagic = 0x07230203, kKernelModel = 6, kLocalSize = 17, kSubgroupSize = 35, kSpecId = 1;
constexpr uint32_t kUniformConstant = 0, kWorkgroup = 4, kCrossWorkgroup = 5, kFunctionStorage = 7;

struct Type {
  uint32_t code = 0, count = 0;  // count: width, elements, storage class
  std::vector<uint32_t> of;
};

// Calls `each` with every instruction: its words, the first of which has its code and length. Empty if the stream of words is well-formed.
std::string walk(const std::vector<uint32_t>& words, const std::function<void(size_t at, uint32_t code, size_t length)>& each) {
  if (words.size() < 5) return "a module has at least 5 words; this one has " + std::to_string(words.size());
  if (words[0] != kMagic) return "the first word is not SPIR-V's magic number";
  const uint32_t major = words[1] >> 16 & 0xff, minor = words[1] >> 8 & 0xff;
  if (major != 1 || minor > 4)
    return "version " + std::to_string(major) + "." + std::to_string(minor) + " is not supported; 1.0 to 1.4 are";
  for (size_t at = 5; at < words.size();) {
    const size_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) {
      return "the instruction at word " + std::to_string(at) + " has " + std::to_string(length) + " words, but the module ends after " +
             std::to_string(words.size() - at);
    }
    each(at, words[at] & 0xffff, length);
    at += length;
  }
  return "";
}

class Reader {
 public:
  explicit Reader(const std::vector<uint32_t>& words) : words_(words) {}

  std::string read(std::vector<KernelInfo>* out) {
    std::string wrong = walk(words_, [this](size_t at, uint32_t code, size_t length) { visit(at, code, length); });
    if (!wrong.empty()) return wrong;
    for (const auto& [function, name] : entries_) {
      KernelInfo kernel;
      kernel.name = name;
      const auto parameters = parameters_.find(function);
      if (parameters == parameters_.end()) return "the entry point '" + name + "' is not a function of the module";
      for (uint32_t type : parameters->second) kernel.arguments.push_back(argument(type));
      if (const auto size = sizes_.find(function); size != sizes_.end()) std::copy_n(size->second.begin(), 3, kernel.required_group);
      if (const auto size = subgroups_.find(function); size != subgroups_.end()) kernel.required_subgroup = size->second;
      std::set<uint32_t> seen, variables;
      gather(function, &seen, &variables);
      for (uint32_t variable : variables) kernel.local_bytes += local_bytes_.at(variable);
      out->push_back(std::move(kernel));
    }
    return out->empty() ? "the module has no kernel" : "";
  }

 private:
  uint32_t word(size_t at) const { return words_[at]; }

  void visit(size_t at, uint32_t code, size_t length) {
    switch (code) {
      case kEntryPoint:
        if (length >= 4 && word(at + 1) == kKernelModel) entries_[word(at + 2)] = text(at + 3, at + length);
        break;
      case kExecutionMode:
        if (length >= 6 && word(at + 2) == kLocalSize) sizes_[word(at + 1)] = {word(at + 3), word(at + 4), word(at + 5)};
        if (length >= 4 && word(at + 2) == kSubgroupSize) subgroups_[word(at + 1)] = word(at + 3);
        break;
      case kTypeBool:
      case kTypeInt:
      case kTypeFloat:
        if (length >= 2) types_[word(at + 1)] = {code, length >= 3 ? word(at + 2) : 8, {}};
        break;
      case kTypeVector:
      case kTypeArray:
        if (length >= 4) types_[word(at + 1)] = {code, code == kTypeVector ? word(at + 3) : constants_[word(at + 3)], {word(at + 2)}};
        break;
      case kTypeStruct:
        types_[word(at + 1)] = {
            code, 0, {words_.begin() + static_cast<ptrdiff_t>(at) + 2, words_.begin() + static_cast<ptrdiff_t>(at + length)}};
        break;
      case kTypePointer:
        if (length >= 4) types_[word(at + 1)] = {code, word(at + 2), {word(at + 3)}};
        break;
      case kConstant:
      case kSpecConstant:
        if (length >= 4) constants_[word(at + 2)] = word(at + 3);
        break;
      case kFunction:
        if (length >= 5) parameters_[function_ = word(at + 2)];
        break;
      case kFunctionParameter:
        if (length >= 3) parameters_[function_].push_back(word(at + 1));
        break;
      case kVariable:
        if (length >= 4 && word(at + 3) == kWorkgroup) {
          const Type& pointer = types_[word(at + 1)];
          if (!pointer.of.empty()) local_bytes_[word(at + 2)] = size_of(pointer.of[0], 0).first;
        }
        break;
      case kFunctionEnd:
        function_ = 0;
        break;
      case kFunctionCall:
        if (length >= 4) callees_[function_].insert(word(at + 3));
        for (size_t i = 4; i < length; ++i) use(word(at + i));
        break;
      default:
        // Instructions whose pointer can be a variable in local memory.
        if ((code == kStore || code == kAtomicStore) && length >= 2) use(word(at + 1));
        if (code == kCopyMemorySized && length >= 3) use(word(at + 1)), use(word(at + 2));
        if (length >= 4 && (code == kLoad || code == kAccessChain || code == kInBoundsAccessChain || code == kPtrAccessChain ||
                            code == kInBoundsPtrAccessChain || code == kPtrCastToGeneric || code == kBitcast ||
                            (code >= kFirstAtomic && code <= kLastAtomic && code != kAtomicStore))) {
          use(word(at + 3));
        }
        break;
    }
  }

  void use(uint32_t id) {
    if (function_ != 0 && local_bytes_.count(id) != 0) uses_[function_].insert(id);
  }

  // The variables in local memory that a function and its callees use.
  void gather(uint32_t function, std::set<uint32_t>* seen, std::set<uint32_t>* variables) const {
    if (!seen->insert(function).second) return;
    if (const auto found = uses_.find(function); found != uses_.end()) variables->insert(found->second.begin(), found->second.end());
    if (const auto found = callees_.find(function); found != callees_.end()) {
      for (uint32_t callee : found->second) gather(callee, seen, variables);
    }
  }

  std::string text(size_t at, size_t end) const {
    const char* start = reinterpret_cast<const char*>(&words_[at]);
    return std::string(start, strnlen(start, (end - at) * sizeof(uint32_t)));
  }

  // Size and alignment, as OpenCL C lays types out.
  std::pair<uint64_t, uint64_t> size_of(uint32_t id, int depth) const {
    const auto found = types_.find(id);
    if (found == types_.end() || depth > 16) return {0, 1};
    const Type& type = found->second;
    switch (type.code) {
      case kTypePointer:
        return {8, 8};
      case kTypeVector: {
        const uint64_t bytes = size_of(type.of[0], depth + 1).first * (type.count == 3 ? 4 : type.count);
        return {bytes, std::max<uint64_t>(bytes, 1)};
      }
      case kTypeArray: {
        const auto [bytes, alignment] = size_of(type.of[0], depth + 1);
        return {bytes * type.count, alignment};
      }
      case kTypeStruct: {
        uint64_t bytes = 0, most = 1;
        for (uint32_t member : type.of) {
          const auto [size, alignment] = size_of(member, depth + 1);
          bytes = (bytes + alignment - 1) / alignment * alignment + size;
          most = std::max(most, alignment);
        }
        return {(bytes + most - 1) / most * most, most};
      }
      default:
        return {type.count / 8, std::max<uint64_t>(type.count / 8, 1)};
    }
  }

  ArgumentInfo argument(uint32_t id) const {
    const auto found = types_.find(id);
    if (found == types_.end()) return {};
    const Type& type = found->second;
    if (type.code != kTypePointer) return {ArgumentInfo::kValue, size_of(id, 0).first};
    if (type.count == kCrossWorkgroup || type.count == kUniformConstant) return {ArgumentInfo::kGlobal, sizeof(void*)};
    if (type.count == kWorkgroup) return {ArgumentInfo::kLocal, 0};
    if (type.count == kFunctionStorage) return {ArgumentInfo::kValue, size_of(type.of[0], 0).first};  // a struct by value
    return {};
  }

  const std::vector<uint32_t>& words_;
  std::map<uint32_t, std::string> entries_;
  std::map<uint32_t, std::vector<uint32_t>> sizes_, parameters_;
  std::map<uint32_t, uint32_t> subgroups_, constants_;
  std::map<uint32_t, Type> types_;
  uint32_t function_ = 0;
  std::map<uint32_t, uint64_t> local_bytes_;  // of variables in local memory
  std::map<uint32_t, std::set<uint32_t>> uses_, callees_;
};

}  // namespace

std::string read_kernels(const std::vector<uint32_t>& words, std::vector<KernelInfo>* out) {
  return Reader(words).read(out);
}

std::string specialize(std::vector<uint32_t>* words, const std::map<uint32_t, const void*>& values) {
  std::map<uint32_t, const void*> by_id;
  std::map<uint32_t, bool> found;
  std::string wrong = walk(*words, [&](size_t at, uint32_t code, size_t length) {
    if (code != kDecorate || length < 4 || (*words)[at + 2] != kSpecId) return;
    const auto value = values.find((*words)[at + 3]);
    if (value == values.end()) return;
    by_id[(*words)[at + 1]] = value->second;
    found[value->first] = true;
  });
  if (!wrong.empty()) return wrong;
  for (const auto& [number, value] : values) {
    if (!found.count(number)) return "the module has no specialization constant " + std::to_string(number);
  }
  std::map<uint32_t, uint32_t> widths;
  return walk(*words, [&](size_t at, uint32_t code, size_t length) {
    if ((code == kTypeInt || code == kTypeFloat) && length >= 3) widths[(*words)[at + 1]] = (*words)[at + 2];
    if (code != kSpecConstant && code != kSpecConstantTrue && code != kSpecConstantFalse) return;
    const auto value = length >= 3 ? by_id.find((*words)[at + 2]) : by_id.end();
    if (value == by_id.end()) return;
    if (code == kSpecConstant) {
      const size_t bytes = std::min<size_t>(widths[(*words)[at + 1]] / 8, (length - 3) * sizeof(uint32_t));
      memcpy(&(*words)[at + 3], value->second, bytes);
    } else {
      const bool on = *static_cast<const uint8_t*>(value->second) != 0;
      (*words)[at] = static_cast<uint32_t>(length << 16) | (on ? kSpecConstantTrue : kSpecConstantFalse);
    }
  });
}

}  // namespace heddle::level_zero_stand_in
