// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The numbers that terms stand for, with made-up inputs.
#pragma once

#include <unordered_map>

#include "terms.h"

namespace heddle::sdk::portable {

// Floats are computed as f64 and rounded only where their bits are used, so that orders of summation do not matter.
class TermValues {
 public:
  static constexpr uint32_t kSeeds = 8;

  // `extents` of the inputs of the kernel. `work` counts down; at 0, Unknown is thrown.
  TermValues(const Terms& terms, const std::vector<std::vector<int64_t>>& extents, uint32_t seed, uint64_t* work)
      : terms_(terms), extents_(extents), seed_(seed), work_(*work) {}

  void set(uint32_t level, int64_t index);
  Number at(TermId term);

 private:
  static constexpr uint32_t kLevels = 64;
  using Numbers = std::vector<Number>;
  struct Known {
    Numbers values;
    uint64_t time;
  };

  const Numbers& all(TermId term);
  Numbers computed(const Term& term);
  Numbers computed_binder(const Term& term);
  Number loaded(const Term& term);
  Numbers folded(const Term& term);
  Numbers contracted(const Term& term);
  Numbers scanned(const Term& term);
  Numbers scattered(const Term& term);
  Numbers sorted(const Term& term);
  Numbers sieved(const Term& term);
  Numbers walked(const Term& term);
  void set_arguments(uint32_t level, const Numbers& first, const Numbers& second = {});
  int64_t index_of(TermId term) { return static_cast<int64_t>(at(term).bits); }
  bool holds(TermId term) { return at(term).bits != 0; }
  Numbers each(const std::vector<TermId>& args, size_t first, size_t count);
  // Calls function() for each index of the dimensions that the binder has.
  template <typename Function>
  void for_each(const Term& binder, size_t dimensions, Function function);

  const Terms& terms_;
  const std::vector<std::vector<int64_t>>& extents_;
  const uint32_t seed_;
  uint64_t& work_;
  int64_t dims_[kLevels] = {};
  Numbers arguments_[kLevels];
  uint64_t changed_[kLevels] = {};
  uint64_t clock_ = 0;
  std::unordered_map<TermId, Known> known_;
};

// Whether numbers of a type are the same: floats to nine digits.
bool is_same(Scalar type, const Number& a, const Number& b);

}  // namespace heddle::sdk::portable
