// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See dot_products.h.
#include "tests/level_zero/dot_products.h"

#include <cstddef>
#include <cstring>
#include <functional>
#include <set>

namespace heddle::level_zero_stand_in {

namespace {

// Operation codes, and numbers of operands, as in the specification's tables.
enum : uint32_t {
  kExtension = 10,
  kCapability = 17,
  kTypeInt = 21,
  kConstant = 43,
  kFunction = 54,
  kAdd = 128,
  kMultiply = 132,
  kShiftRightLogical = 194,
  kShiftRightArithmetic = 195,
  kShiftLeft = 196,
  kSignedDot = 4450,
  kUnsignedDot = 4451,
  kMixedDot = 4452,
};
constexpr uint32_t kDotProductInputPacked = 6018, kDotProduct = 6019;
constexpr size_t kHeader = 5;
constexpr const char* kExtensionName = "SPV_KHR_integer_dot_product";

using Words = std::vector<uint32_t>;

// Empty, or why the words are not instructions.
std::string for_each(const Words& words, const std::function<void(size_t at, uint32_t code, size_t length)>& each) {
  for (size_t at = kHeader; at < words.size();) {
    const size_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) return "the instruction at word " + std::to_string(at) + " has a wrong length";
    each(at, words[at] & 0xffff, length);
    at += length;
  }
  return "";
}

class Lowering {
 public:
  explicit Lowering(const Words& from) : from_(from), out_(from.begin(), from.begin() + kHeader), next_(from[3]) {}

  std::string run(Words* out) {
    std::set<uint32_t> types;  // integers of 32 bits
    const std::string wrong = for_each(from_, [&](size_t at, uint32_t code, size_t length) {
      if (code == kTypeInt && length == 4 && from_[at + 2] == 32) {
        types.insert(from_[at + 1]);
        copy(at, length);
        for (uint32_t& shift : shifts_) add(kConstant, {from_[at + 1], shift = next_++, static_cast<uint32_t>(&shift - shifts_) * 8});
      } else if ((code == kSignedDot || code == kUnsignedDot || code == kMixedDot) && length == 6 && from_[at + 5] == 0 &&
                 types.count(from_[at + 1]) != 0) {
        dot(at, code);
      } else if (!is_declaration(at, code, length)) {
        copy(at, length);
      }
    });
    if (!wrong.empty()) return wrong;
    out_[3] = next_;
    *out = std::move(out_);
    return "";
  }

 private:
  void copy(size_t at, size_t length) {
    out_.insert(out_.end(), from_.begin() + static_cast<ptrdiff_t>(at), from_.begin() + static_cast<ptrdiff_t>(at + length));
  }
  void add(uint32_t code, std::initializer_list<uint32_t> operands) {
    out_.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | code);
    out_.insert(out_.end(), operands);
  }
  // A new value.
  uint32_t made(uint32_t code, uint32_t type, uint32_t a, uint32_t b) {
    add(code, {type, next_, a, b});
    return next_++;
  }

  bool is_declaration(size_t at, uint32_t code, size_t length) const {
    if (code == kCapability && length == 2) return from_[at + 1] == kDotProduct || from_[at + 1] == kDotProductInputPacked;
    const size_t bytes = strlen(kExtensionName) + 1;
    return code == kExtension && (length - 1) * sizeof(uint32_t) >= bytes && memcmp(&from_[at + 1], kExtensionName, bytes) == 0;
  }

  void dot(size_t at, uint32_t code) {
    const uint32_t type = from_[at + 1], result = from_[at + 2];
    const auto byte = [&](uint32_t word, int number, bool has_sign) {
      const uint32_t high = made(kShiftLeft, type, word, shifts_[3 - number]);
      return made(has_sign ? kShiftRightArithmetic : kShiftRightLogical, type, high, shifts_[3]);
    };
    uint32_t sum = 0;
    for (int number = 0; number < 4; ++number) {
      const uint32_t a = byte(from_[at + 3], number, code != kUnsignedDot), b = byte(from_[at + 4], number, code == kSignedDot);
      const uint32_t product = made(kMultiply, type, a, b);
      if (number < 3) {
        sum = number == 0 ? product : made(kAdd, type, sum, product);
      } else {
        add(kAdd, {type, result, sum, product});
      }
    }
  }

  const Words& from_;
  Words out_;
  uint32_t next_;
  uint32_t shifts_[4] = {};  // ids of 0, 8, 16 and 24
};

}  // namespace

std::string lower_dot_products(std::vector<uint32_t>* words) {
  return has_dot_products(*words) ? Lowering(*words).run(words) : "";
}

bool has_dot_products(const std::vector<uint32_t>& words) {
  bool found = false;
  if (words.size() > kHeader) {
    for_each(words,
             [&](size_t at, uint32_t code, size_t length) { found |= code == kCapability && length == 2 && words[at + 1] == kDotProduct; });
  }
  return found;
}

}  // namespace heddle::level_zero_stand_in
