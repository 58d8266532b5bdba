// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See code.h. Code comes from a file, so nothing in it is trusted.
#include "code.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace sample {
namespace {

constexpr int kDepth = 8;

struct Known {
  std::string_view name;
  Op op;
  bool has_operand;
  int pops, pushes;
};
constexpr Known kKnown[] = {
    {"each", Op::kEach, true, 0, 0},        {"item", Op::kItem, false, 0, 1},      {"size32", Op::kSize32, true, 0, 1},
    {"group", Op::kGroup, false, 0, 1},     {"const", Op::kConst, true, 0, 1},     {"push", Op::kPush, true, 0, 1},
    {"add", Op::kAdd, false, 2, 1},         {"mul", Op::kMul, false, 2, 1},        {"addf", Op::kAddF, false, 2, 1},
    {"subf", Op::kSubF, false, 2, 1},       {"mulf", Op::kMulF, false, 2, 1},      {"maxf", Op::kMaxF, false, 2, 1},
    {"minf", Op::kMinF, false, 2, 1},       {"less", Op::kLess, false, 2, 1},      {"load32", Op::kLoad32, true, 1, 1},
    {"load64", Op::kLoad64, true, 1, 1},    {"store32", Op::kStore32, true, 2, 0}, {"store64", Op::kStore64, true, 2, 0},
    {"require", Op::kRequire, false, 1, 0}, {"fail", Op::kFail, true, 0, 0},       {"lose", Op::kLose, false, 0, 0},
};

class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}
  // The next word, empty at the end.
  std::string_view next() {
    const size_t start = text_.find_first_not_of(" \t\r\n", at_);
    if (start == std::string_view::npos) return {};
    const size_t end = text_.find_first_of(" \t\r\n", start);
    at_ = end == std::string_view::npos ? text_.size() : end;
    return text_.substr(start, at_ - start);
  }
  bool number(uint64_t* out) {
    const std::string_view word = next();
    const auto result = std::from_chars(word.data(), word.data() + word.size(), *out);
    return !word.empty() && result.ec == std::errc() && result.ptr == word.data() + word.size();
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

bool operand_fits(const Kernel& kernel, Op op, uint64_t operand) {
  switch (op) {
    case Op::kEach:
      return operand > 0 && kernel.instructions.empty();
    case Op::kConst:
      return operand < kernel.constants_bytes / 8;
    case Op::kSize32:
    case Op::kLoad32:
    case Op::kLoad64:
    case Op::kStore32:
    case Op::kStore64:
      return operand < kernel.bindings;
    case Op::kFail:
      return operand > 0 && operand <= INT32_MAX;
    default:
      return true;
  }
}

float float_of(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, sizeof value);
  return value;
}

uint64_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A maximum or minimum is NaN if an operand is.
float arithmetic(Op op, float a, float b) {
  switch (op) {
    case Op::kAddF:
      return a + b;
    case Op::kSubF:
      return a - b;
    case Op::kMulF:
      return a * b;
    case Op::kMaxF:
      return std::isnan(a) || a > b ? a : b;
    default:
      return std::isnan(a) || a < b ? a : b;
  }
}

// Checks every operand, and the depth of the stack at every instruction.
bool read_program(std::string_view text, std::vector<Kernel>* out_kernels, std::string* out_error) {
  Words words(text);
  std::vector<Kernel> kernels;
  int depth = 0;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == "kernel") {
      Kernel kernel;
      uint64_t bindings = 0, constants = 0;
      kernel.name = words.next();
      if (kernel.name.empty() || !words.number(&bindings) || !words.number(&constants) || bindings > 64 || constants > 4096 ||
          constants % 8) {
        *out_error = "kernel '" + kernel.name + "' does not begin with a name, at most 64 bindings and at most 4096 bytes of constants";
        return false;
      }
      kernel.bindings = static_cast<uint32_t>(bindings);
      kernel.constants_bytes = static_cast<uint32_t>(constants);
      kernels.push_back(std::move(kernel));
      depth = 0;
      continue;
    }
    const Known* known = nullptr;
    for (const Known& candidate : kKnown) {
      if (candidate.name == word) known = &candidate;
    }
    uint64_t operand = 0;
    if (!known || kernels.empty() || (known->has_operand && !words.number(&operand)) || !operand_fits(kernels.back(), known->op, operand)) {
      *out_error = "'" + std::string(word.substr(0, 40)) + "' is not a valid instruction here, or its operand is out of range";
      return false;
    }
    depth += known->pushes - known->pops;
    if (depth < known->pushes || depth > kDepth) {
      *out_error = "the stack at '" + std::string(word) + "' of kernel '" + kernels.back().name + "' is too short or too long";
      return false;
    }
    if (known->op == Op::kEach) kernels.back().items = operand;
    kernels.back().instructions.push_back({known->op, operand});
  }
  *out_kernels = std::move(kernels);
  return true;
}

}  // namespace

bool read_code(std::string_view format, std::string_view bytes, const std::shared_ptr<const portable::OwnKernels>& own,
               std::vector<Code>* out, std::string* out_error) {
  if (format == HEDDLE_CODE_PORTABLE) {
    std::vector<portable::Program> programs;
    if (!portable::load(bytes, &programs, out_error, own)) return false;
    for (portable::Program& program : programs) out->push_back({{}, std::move(program)});
    return true;
  }
  std::vector<Kernel> kernels;
  if (!read_program(bytes, &kernels, out_error)) return false;
  for (Kernel& kernel : kernels) out->push_back({std::move(kernel), std::nullopt});
  return true;
}

Outcome run_kernel(const Kernel& kernel, const std::vector<Memory>& bindings, const std::vector<char>& constants, uint64_t workgroups,
                   std::string* out_reason) {
  for (uint64_t group = 0; group < workgroups; ++group) {
    bool ended = false;
    for (uint64_t item = 0; item < kernel.items && !ended; ++item) {
      uint64_t stack[kDepth + 1];
      uint64_t* top = stack;  // one past the last
      for (const Instruction& at : kernel.instructions) {
        switch (at.op) {
          case Op::kEach:
            break;
          case Op::kGroup:
            *top++ = group;
            break;
          case Op::kItem:
            *top++ = group * kernel.items + item;
            break;
          case Op::kSize32:
            *top++ = bindings[at.operand].bytes / 4;
            break;
          case Op::kConst:
            std::memcpy(top++, constants.data() + at.operand * 8, 8);
            break;
          case Op::kPush:
            *top++ = at.operand;
            break;
          case Op::kAdd:
            --top;
            top[-1] += top[0];
            break;
          case Op::kMul:
            --top;
            top[-1] *= top[0];
            break;
          case Op::kAddF:
          case Op::kSubF:
          case Op::kMulF:
          case Op::kMaxF:
          case Op::kMinF:
            --top;
            top[-1] = bits_of(arithmetic(at.op, float_of(top[-1]), float_of(top[0])));
            break;
          case Op::kLess:
            --top;
            top[-1] = top[-1] < top[0];
            break;
          case Op::kLoad32:
          case Op::kLoad64:
          case Op::kStore32:
          case Op::kStore64: {
            const uint64_t size = at.op == Op::kLoad32 || at.op == Op::kStore32 ? 4 : 8;
            const bool stores = at.op == Op::kStore32 || at.op == Op::kStore64;
            const Memory& memory = bindings[at.operand];
            const uint64_t index = stores ? top[-2] : top[-1];
            if (index >= memory.bytes / size) {
              *out_reason = "it accessed memory outside a binding, at index " + std::to_string(index);
              return Outcome::kFailed;
            }
            if (stores) {
              std::memcpy(memory.data + index * size, &top[-1], size);
              top -= 2;
            } else {
              top[-1] = 0;
              std::memcpy(&top[-1], memory.data + index * size, size);
            }
            break;
          }
          case Op::kRequire:
            ended = *--top == 0;
            break;
          case Op::kFail:
            *out_reason = "it failed with number " + std::to_string(at.operand);
            return Outcome::kFailed;
          case Op::kLose:
            *out_reason = "the device is gone; open it again. workgroups: " + std::to_string(workgroups);
            return Outcome::kLost;
        }
        if (ended) break;
      }
    }
  }
  return Outcome::kDone;
}

}  // namespace sample
