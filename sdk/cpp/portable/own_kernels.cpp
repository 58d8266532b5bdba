// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Offers the nodes of a kernel to a driver's own kernels: sets that the driver names, and the rest one by one. See own_kernels.h.
#include "heddle/sdk/portable/own_kernels.h"

#include <fnmatch.h>

#include <algorithm>

#include "own_parts.h"

namespace heddle::sdk::portable {

namespace {

// Which nodes each node reads from.
std::vector<std::vector<uint32_t>> sources_of(const Kernel& kernel) {
  std::vector<uint32_t> makers(kernel.tensors.size(), UINT32_MAX);
  std::vector<std::vector<uint32_t>> out(kernel.nodes.size());
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    for (const Read& read : kernel.nodes[i].reads) {
      if (makers[read.tensor] != UINT32_MAX) out[i].push_back(makers[read.tensor]);
    }
    for (uint32_t result : kernel.nodes[i].results) makers[result] = i;
  }
  return out;
}

// Units in an order in which each comes after those that it reads from; empty if there is none. unit_of: of each node.
std::vector<std::vector<uint32_t>> ordered(const std::vector<std::vector<uint32_t>>& sources, const std::vector<uint32_t>& unit_of,
                                           uint32_t count) {
  std::vector<std::vector<uint32_t>> nodes(count), readers(count);
  std::vector<uint32_t> waits(count);
  for (uint32_t i = 0; i < unit_of.size(); ++i) {
    nodes[unit_of[i]].push_back(i);
    for (uint32_t source : sources[i]) {
      if (unit_of[source] == unit_of[i]) continue;
      readers[unit_of[source]].push_back(unit_of[i]);
      ++waits[unit_of[i]];
    }
  }
  std::vector<std::vector<uint32_t>> out;
  // Of those that can come next, the one with the first node: without sets, the order of the nodes.
  auto comes_later = [&](uint32_t a, uint32_t b) { return nodes[a][0] > nodes[b][0]; };
  std::vector<uint32_t> ready;
  for (uint32_t unit = 0; unit < count; ++unit) {
    if (waits[unit] == 0) ready.push_back(unit);
  }
  std::make_heap(ready.begin(), ready.end(), comes_later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), comes_later);
    const uint32_t unit = ready.back();
    ready.pop_back();
    for (uint32_t reader : readers[unit]) {
      if (--waits[reader] > 0) continue;
      ready.push_back(reader);
      std::push_heap(ready.begin(), ready.end(), comes_later);
    }
    out.push_back(std::move(nodes[unit]));
  }
  if (out.size() < count) out.clear();
  return out;
}

// Numbers of units without gaps.
uint32_t number(std::vector<uint32_t>& unit_of) {
  std::vector<uint32_t> names(unit_of.size() * 2, UINT32_MAX);
  uint32_t count = 0;
  for (uint32_t& unit : unit_of) {
    if (names[unit] == UINT32_MAX) names[unit] = count++;
    unit = names[unit];
  }
  return count;
}

class Chosen final : public OwnKernels {
 public:
  Chosen(std::shared_ptr<const OwnKernels> own, std::string pattern) : own_(std::move(own)), pattern_(std::move(pattern)) {}
  std::vector<std::vector<uint32_t>> sets(const Kernel& kernel) const override { return own_->sets(kernel); }
  Answer takes(const Offer& offer) const override {
    Answer answer = own_->takes(offer);
    if (answer.kernel.empty() || fnmatch(pattern_.c_str(), answer.kernel.c_str(), 0) == 0) return answer;
    return {{}, "'" + answer.kernel + "' is none of the kernels that may run it, '" + pattern_ + "'", 0, 0};
  }
  bool run(const OwnCall& call, std::string* out_error) const override { return own_->run(call, out_error); }

 private:
  const std::shared_ptr<const OwnKernels> own_;
  const std::string pattern_;
};

}  // namespace

std::vector<std::vector<uint32_t>> OwnKernels::sets(const Kernel&) const {
  return {};
}

std::shared_ptr<const OwnKernels> choose(std::shared_ptr<const OwnKernels> own, std::string_view pattern) {
  if (!own || pattern.empty()) return own;
  return std::make_shared<const Chosen>(std::move(own), std::string(pattern));
}

Answer ask(const Kernel& kernel, const OwnKernels* own, const std::vector<uint32_t>& nodes, const int64_t* symbols, ProductForm* form,
           bool* out_is_product) {
  std::string reason;
  *out_is_product = nodes.size() == 1 && find_product(kernel, nodes[0], symbols, form, &reason);
  if (!own) return {{}, "the driver has no kernels of its own", 0, 0};
  Answer answer =
      own->takes({kernel, nodes[0], *out_is_product ? form : nullptr, symbols || kernel.symbols == 0, nodes, values_of(kernel, symbols)});
  if (answer.kernel.empty() && answer.reason.empty()) answer.reason = nodes.size() > 1 ? "the driver does not take the set" : reason;
  return answer;
}

std::vector<Part> parts_of(const Kernel& kernel, const OwnKernels* own, const int64_t* symbols) {
  const std::vector<std::vector<uint32_t>> sources = sources_of(kernel);
  const auto count = static_cast<uint32_t>(kernel.nodes.size());
  std::vector<uint32_t> unit_of(count);
  for (uint32_t i = 0; i < count; ++i) unit_of[i] = i;
  std::vector<Answer> answers(count);  // of sets: where their first node is
  std::vector<std::string> refused(count);
  std::vector<bool> is_in_set(count);
  ProductForm form;
  bool is_product = false;
  const std::vector<std::vector<uint32_t>> sets = own ? own->sets(kernel) : std::vector<std::vector<uint32_t>>();
  for (std::vector<uint32_t> set : sets) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    if (set.size() < 2 || set.back() >= count || std::any_of(set.begin(), set.end(), [&](uint32_t node) { return is_in_set[node]; }))
      continue;
    std::vector<uint32_t> joined = unit_of;
    for (uint32_t node : set) joined[node] = count + set[0];
    std::vector<uint32_t> numbered = joined;
    const uint32_t units = number(numbered);
    if (ordered(sources, numbered, units).empty()) {
      for (uint32_t node : set) refused[node] = "the driver's set is not convex: something between two of its nodes is not in it; ";
      continue;
    }
    Answer answer = ask(kernel, own, set, symbols, &form, &is_product);
    if (answer.kernel.empty()) {
      for (uint32_t node : set) refused[node] = answer.reason + "; alone: ";
      continue;
    }
    unit_of = std::move(joined);
    for (uint32_t node : set) is_in_set[node] = true;
    answers[set[0]] = std::move(answer);
  }
  const uint32_t units = number(unit_of);
  std::vector<Part> out;
  for (const std::vector<uint32_t>& unit : ordered(sources, unit_of, units)) {
    Part part;
    for (uint32_t node : unit) part.what += (part.what.empty() ? "" : ", ") + describe_node(kernel, node);
    part.nodes = unit;
    part.answer = unit.size() > 1 ? answers[unit[0]] : ask(kernel, own, unit, symbols, &form, &is_product);
    if (part.answer.kernel.empty()) part.answer.reason = refused[unit[0]] + part.answer.reason;
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace heddle::sdk::portable
