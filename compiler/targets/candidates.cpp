// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/targets/candidates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// Two of them for each extent, and one for the device, are three.
constexpr size_t most_conditions = 8;

// The plan that a call takes, of which these conditions hold.
const KernelPlan& taken(ArrayRef<KernelPlan> plans, ArrayRef<Guard> conditions, unsigned holding) {
  return *llvm::find_if(plans, [&](const KernelPlan& plan) {
    return llvm::all_of(plan.guards,
                        [&](const Guard& guard) { return (holding >> (llvm::find(conditions, guard) - conditions.begin())) & 1; });
  });
}

}  // namespace

std::string text_of(ArrayRef<Guard> guards) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleave(
      guards, stream,
      [&](const Guard& guard) {
        auto value = [&] { guard.value ? stream << guard.value : stream << "compute units"; };
        if (guard.min > 0 && guard.max < INT64_MAX) stream << guard.min << " <= ";
        value();
        if (guard.max < INT64_MAX) {
          stream << " <= " << guard.max;
        } else {
          stream << " >= " << guard.min;
        }
      },
      " and ");
  return text;
}

Plans choose(const Plans& plans, const Pick& pick) {
  Plans chosen;
  for (size_t first = 0, end = 0; first < plans.size(); first = end) {
    for (end = first + 1; end < plans.size() && plans[end].guards == plans[first].guards;) ++end;
    ArrayRef<KernelPlan> same = ArrayRef(plans).slice(first, end - first);
    const std::string wanted = pick ? pick(text_of(same.front().guards)) : std::string();
    auto found = llvm::find_if(same, [&](const KernelPlan& plan) { return plan.choice.text == wanted; });
    chosen.push_back(found == same.end() ? same.front() : *found);
  }
  SmallVector<Guard> conditions;
  for (const KernelPlan& plan : chosen) {
    for (const Guard& guard : plan.guards) {
      if (!llvm::is_contained(conditions, guard)) conditions.push_back(guard);
    }
  }
  if (conditions.size() > most_conditions) return chosen;
  for (size_t i = 0; i + 1 < chosen.size();) {
    Plans without = chosen;
    without.erase(without.begin() + static_cast<ptrdiff_t>(i));
    bool is_needed = false;
    for (unsigned holding = 0; holding < 1u << conditions.size() && !is_needed; ++holding) {
      is_needed = taken(chosen, conditions, holding).choice.numbers != taken(without, conditions, holding).choice.numbers;
    }
    if (is_needed) {
      ++i;
    } else {  // what stands before it may not be needed any more
      chosen = std::move(without);
      i = 0;
    }
  }
  return chosen;
}

}  // namespace heddle::targets
