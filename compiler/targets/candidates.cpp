// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/targets/candidates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace heddle::targets {

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
  bool is_picked = false;
  for (size_t first = 0, end = 0; first < plans.size(); first = end) {
    for (end = first + 1; end < plans.size() && plans[end].guards == plans[first].guards;) ++end;
    ArrayRef<KernelPlan> same = ArrayRef(plans).slice(first, end - first);
    const std::string wanted = pick ? pick(text_of(same.front().guards)) : std::string();
    auto found = llvm::find_if(same, [&](const KernelPlan& plan) { return !wanted.empty() && plan.choice.text == wanted; });
    is_picked |= found != same.end();
    chosen.push_back(found == same.end() ? same.front() : *found);
  }
  const bool differ = llvm::any_of(chosen, [&](const KernelPlan& plan) { return plan.choice.numbers != chosen.back().choice.numbers; });
  if (!differ && !is_picked) chosen.erase(chosen.begin(), chosen.end() - 1);
  return chosen;
}

}  // namespace heddle::targets
