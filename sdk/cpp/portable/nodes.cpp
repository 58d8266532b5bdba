// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See nodes.h. Maps, folds, scans, and contractions that are no products of matrices.
#include "nodes.h"

#include <algorithm>
#include <cstring>

namespace heddle::sdk::portable {

namespace {

constexpr int64_t kLongEnough = 32;  // for lanes along the last dimension

// sum += a * b, in the type of the sum.
template <typename T>
void add_products(void* sum, const Lanes& a, const Lanes& b, const uint8_t* active, int64_t count) {
  T* out = static_cast<T*>(sum);
  const T *x = static_cast<const T*>(a.data), *y = static_cast<const T*>(b.data);
  auto product = [](T one, T other) {
    if constexpr (std::is_floating_point_v<T>) return one * other;
    return static_cast<T>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
  };
  if (active) {
    for (int64_t l = 0; l < count; ++l) {
      if (active[l]) out[l] = static_cast<T>(out[l] + product(x[a.is_uniform ? 0 : l], y[b.is_uniform ? 0 : l]));
    }
  } else if (a.is_uniform && b.is_uniform) {
    const T one = product(*x, *y);
    for (int64_t l = 0; l < count; ++l) out[l] = static_cast<T>(out[l] + one);
  } else if (a.is_uniform) {
    const T one = *x;
    for (int64_t l = 0; l < count; ++l) out[l] = static_cast<T>(out[l] + product(one, y[l]));
  } else if (b.is_uniform) {
    const T one = *y;
    for (int64_t l = 0; l < count; ++l) out[l] = static_cast<T>(out[l] + product(x[l], one));
  } else {
    for (int64_t l = 0; l < count; ++l) out[l] = static_cast<T>(out[l] + product(x[l], y[l]));
  }
}

template <typename T>
void keep_each(const char* before, const uint8_t* active, int64_t count, char* out) {
  const T* from = reinterpret_cast<const T*>(before);
  T* to = reinterpret_cast<T*>(out);
  for (int64_t l = 0; l < count; ++l) to[l] = active[l] ? to[l] : from[l];
}

// Lanes that do not count stay as they were.
void keep_inactive(uint32_t size, const char* before, const uint8_t* active, int64_t count, char* out) {
  if (size == 1) return keep_each<uint8_t>(before, active, count, out);
  if (size == 2) return keep_each<uint16_t>(before, active, count, out);
  if (size == 4) return keep_each<uint32_t>(before, active, count, out);
  keep_each<uint64_t>(before, active, count, out);
}

}  // namespace

// prepare.cpp adds up what this takes, and what the functions for kinds of nodes take.
NodeRunner::NodeRunner(Call& call, Evaluator& evaluator, uint32_t index, PartOfNode part, std::pmr::memory_resource* memory)
    : call_(call),
      evaluator_(evaluator),
      node_(call.prepared.kernel.nodes[index]),
      prepared_(call.prepared.nodes[index]),
      lanes_(call.prepared.lanes),
      part_(part),
      memory_(memory),
      yields_(memory),
      arguments_(memory),
      sums_{Words(memory), Words(memory)},
      elements_(memory) {
  for (uint32_t extent : node_.extents) extents_.push_back(call.known[extent]);
  strides_.resize(node_.parallel_rank());
  int64_t stride = 1;
  for (size_t d = strides_.size(); d-- > 0; stride *= std::max<int64_t>(1, extents_[d])) strides_[d] = stride;
  size_t most = 2;
  for (const Body& body : node_.bodies) most = std::max(most, body.yields.size());
  yields_.resize(std::max(most, 2 * node_.results.size()));
  arguments_.resize(2 * yields_.size());
  for (Words& set : sums_) set.resize(most * static_cast<size_t>(lanes_));
  // The outermost dimension that has an index for each part, else the longest; not the one that a node goes along in order.
  const bool has_lines = node_.kind != NodeKind::kMap && node_.kind != NodeKind::kFold && node_.kind != NodeKind::kContract;
  for (uint32_t d = 0; part.count > 1 && d < node_.parallel_rank(); ++d) {
    if (has_lines && d == node_.along) continue;
    const int64_t longest = split_ < 0 ? 0 : extents_[static_cast<size_t>(split_)];
    if (longest < part.count && extents_[d] > longest) split_ = static_cast<int32_t>(d);
  }
  if (split_ >= 0) {
    const int64_t extent = extents_[static_cast<size_t>(split_)], share = extent / part.count, more = extent % part.count;
    split_first_ = part.number * share + std::min<int64_t>(part.number, more);
    split_end_ = split_first_ + share + (part.number < more);
  }
}

bool NodeRunner::run(bool by_element, bool* out_by_element) {
  switch (node_.kind) {
    case NodeKind::kMap:
      return map();
    case NodeKind::kFold:
      return fold();
    case NodeKind::kContract: {
      const Product product = by_element ? Product::kNo : multiply();
      *out_by_element = product == Product::kByElement;
      if (product != Product::kNo) return product != Product::kFailed;
      return for_each_run(lane_of(-1), -1, [&](const Run& run) { return contract_lanes(run); });
    }
    case NodeKind::kScan:
      return scan();
    case NodeKind::kScatter:
      return scatter();
    case NodeKind::kSort:
      return sort();
    case NodeKind::kSieve:
      return sieve();
    case NodeKind::kWalk:
      return walk();
  }
  return false;
}

int32_t NodeRunner::lane_of(int32_t except) const {
  int32_t longest = -1;
  for (auto d = static_cast<int32_t>(node_.parallel_rank()) - 1; d >= 0; --d) {
    if (d == except) continue;
    const int64_t extent = extents_[static_cast<size_t>(d)];
    if (longest < 0 || extent > extents_[static_cast<size_t>(longest)]) longest = d;
    if (extents_[static_cast<size_t>(longest)] >= kLongEnough) break;
  }
  return longest;
}

std::vector<Scalar> NodeRunner::yielded(uint32_t body) const {
  std::vector<Scalar> types;
  for (uint32_t value : node_.bodies[body].yields) types.push_back(prepared_.bodies[body].types[value]);
  return types;
}

int64_t NodeRunner::place_in_results(const Run& run) const {
  int64_t place = 0;
  for (size_t d = 0; d < strides_.size(); ++d) place += run.index[d] * strides_[d];
  return place;
}

bool NodeRunner::finish(uint32_t body, const Run& run, const Lanes* more) {
  if (!evaluator_.run(node_, prepared_.bodies[body], run, more, yields_.data())) return false;
  const int64_t place = place_in_results(run), step = run.lane < 0 ? 0 : strides_[static_cast<size_t>(run.lane)];
  for (size_t i = 0; i < node_.results.size(); ++i) store_lanes(call_.tensors[node_.results[i]], yields_[i], place, step, run.count);
  return true;
}

bool NodeRunner::map() {
  return for_each_run(lane_of(-1), -1, [&](const Run& run) { return finish(0, run, nullptr); });
}

void NodeRunner::set_sums(const std::vector<Scalar>& types, const Lanes* values, const uint8_t* active, int64_t count) {
  const int next = 1 - which_;
  for (size_t i = 0; i < types.size(); ++i) {
    char* out = bytes_of(sums_[next]) + i * static_cast<size_t>(lanes_) * 8;
    const uint32_t size = bytes_of(types[i]);
    if (values[i].is_uniform) {
      spread(types[i], values[i].data, count, out);
    } else {
      std::memcpy(out, values[i].data, static_cast<size_t>(count) * size);
    }
    if (!active) continue;
    const char* before = bytes_of(sums_[which_]) + i * static_cast<size_t>(lanes_) * 8;
    keep_inactive(size, before, active, count, out);
  }
  which_ = next;
}

const Lanes* NodeRunner::sums(size_t count) {
  for (size_t i = 0; i < count; ++i) arguments_[i] = sum(i);
  return arguments_.data();
}

// Whether the first read of a step goes through memory along the last reduced dimension, and not along this parallel one.
bool NodeRunner::is_better_along_reduced(int32_t lane) {
  const auto last = static_cast<int32_t>(node_.rank()) - 1;
  if (node_.reduced == 0 || extents_[static_cast<size_t>(last)] < kLongEnough) return false;
  if (lane < 0 || extents_[static_cast<size_t>(lane)] < 8) return true;
  if (node_.first_reads == 0) return false;
  Run run;
  run.count = 2;
  int64_t along_parallel = 0, along_reduced = 0;
  run.lane = lane;
  evaluator_.place(prepared_.bodies[1], run);
  if (!evaluator_.step_of(node_, 0, &along_parallel)) return false;
  run.lane = last;
  evaluator_.place(prepared_.bodies[1], run);
  if (!evaluator_.step_of(node_, 0, &along_reduced)) return false;
  return along_reduced == 1 && along_parallel != 1;
}

bool NodeRunner::fold() {
  const int32_t lane = lane_of(-1);
  if (std::find(extents_.begin(), extents_.end(), 0) == extents_.end() && is_better_along_reduced(lane))
    return for_each_run(-1, -1, [&](const Run& run) { return fold_along_reduced(run); });
  return for_each_run(lane, -1, [&](const Run& run) { return fold_lanes(run); });
}

bool NodeRunner::fold_lanes(Run at) {
  const std::vector<Scalar> types = yielded(0);
  if (!evaluator_.run(node_, prepared_.bodies[0], at, nullptr, yields_.data())) return false;
  set_sums(types, yields_.data(), nullptr, at.count);
  const PreparedBody& step = prepared_.bodies[1];
  const bool done = for_each_reduced(at, -1, [&] {
    evaluator_.place(step, at);
    at.active = nullptr;
    const int found = evaluator_.within(node_, at, &at.active);
    if (found == 0) return true;
    if (!evaluator_.evaluate(node_, step, at, sums(types.size()), yields_.data())) return false;
    set_sums(types, yields_.data(), at.active, at.count);
    return true;
  });
  at.active = nullptr;
  return done && finish(3, at, sums(types.size()));
}

// One element, with parts of the reduced elements in lanes, which `merge` then joins, the first half with the second one.
bool NodeRunner::fold_along_reduced(Run at) {
  const std::vector<Scalar> types = yielded(0);
  const auto last = static_cast<int32_t>(node_.rank()) - 1;
  const int64_t extent = extents_[static_cast<size_t>(last)], used = std::min(lanes_, extent);
  if (!evaluator_.run(node_, prepared_.bodies[0], at, nullptr, yields_.data())) return false;
  set_sums(types, yields_.data(), nullptr, used);
  const PreparedBody& step = prepared_.bodies[1];
  Run run = at;
  run.lane = last;
  const bool done = for_each_reduced(run, last, [&] {
    for (int64_t first = 0; first < extent; first += lanes_) {
      run.index[last] = first;
      run.count = std::min(lanes_, extent - first);
      evaluator_.place(step, run);
      run.active = nullptr;
      const int found = evaluator_.within(node_, run, &run.active);
      if (found == 0) continue;
      if (!evaluator_.evaluate(node_, step, run, sums(types.size()), yields_.data())) return false;
      const int64_t count = run.count;
      const int before = which_;
      set_sums(types, yields_.data(), run.active, count);
      for (size_t i = 0; i < types.size(); ++i) {
        const size_t start = i * static_cast<size_t>(lanes_) * 8, size = bytes_of(types[i]);
        std::memcpy(bytes_of(sums_[which_]) + start + static_cast<size_t>(count) * size,
                    bytes_of(sums_[before]) + start + static_cast<size_t>(count) * size, static_cast<size_t>(used - count) * size);
      }
    }
    run.index[last] = 0;
    return true;
  });
  if (!done) return false;
  for (int64_t count = used; count > 1;) {
    const int64_t half = count / 2, rest = count - half;
    for (size_t i = 0; i < types.size(); ++i) {
      arguments_[i] = sum(i);
      arguments_[types.size() + i] = {static_cast<const char*>(sum(i).data) + rest * bytes_of(types[i]), false};
    }
    Run merged;
    merged.count = half;
    if (!evaluator_.run(node_, prepared_.bodies[2], merged, arguments_.data(), yields_.data())) return false;
    const int before = which_;
    set_sums(types, yields_.data(), nullptr, half);
    if (rest != half) {
      for (size_t i = 0; i < types.size(); ++i) {
        const size_t size = bytes_of(types[i]), place = i * static_cast<size_t>(lanes_) * 8 + static_cast<size_t>(half) * size;
        std::memcpy(bytes_of(sums_[which_]) + place, bytes_of(sums_[before]) + place, size);
      }
    }
    count = rest;
  }
  return finish(3, at, sums(types.size()));
}

bool NodeRunner::contract_lanes(Run at) {
  const Scalar type = node_.accumulator;
  const uint64_t zero = 0;
  const Lanes nothing = {&zero, true};
  set_sums({type}, &nothing, nullptr, at.count);
  const PreparedBody& factors = prepared_.bodies[0];
  const bool done = for_each_reduced(at, -1, [&] {
    evaluator_.place(factors, at);
    at.active = nullptr;
    const int found = evaluator_.within(node_, at, &at.active);
    if (found == 0) return true;
    if (!evaluator_.evaluate(node_, factors, at, nullptr, yields_.data())) return false;
    void* out = sums_[which_].data();
    auto add = [&](auto sample) { add_products<decltype(sample)>(out, yields_[0], yields_[1], at.active, at.count); };
    switch (type) {
      case Scalar::kF32:
        add(float{});
        break;
      case Scalar::kF64:
        add(double{});
        break;
      case Scalar::kI8:
        add(uint8_t{});
        break;
      case Scalar::kI16:
        add(uint16_t{});
        break;
      case Scalar::kI32:
        add(uint32_t{});
        break;
      default:
        add(uint64_t{});
        break;
    }
    return true;
  });
  at.active = nullptr;
  return done && finish(1, at, sums(1));
}

bool NodeRunner::finish_product(const float* all) {
  const int32_t lane = lane_of(-1);
  const int64_t step = lane < 0 ? 0 : strides_[static_cast<size_t>(lane)];
  return for_each_run(lane, -1, [&](const Run& run) {
    const float* from = all + place_in_results(run);
    arguments_[0] = {from, run.count == 1};
    if (step != 1 && run.count > 1) {
      auto* copies = reinterpret_cast<float*>(sums_[0].data());
      for (int64_t l = 0; l < run.count; ++l) copies[l] = from[l * step];
      arguments_[0] = {copies, false};
    }
    return finish(1, run, arguments_.data());
  });
}

bool NodeRunner::scan() {
  const std::vector<Scalar> types = yielded(0);
  const auto along = static_cast<int32_t>(node_.along);
  const int64_t extent = extents_[node_.along];
  std::pmr::vector<int64_t> places(node_.is_placed ? static_cast<size_t>(lanes_) : 0, memory_);
  return for_each_run(lane_of(along), along, [&](Run run) {
    if (!evaluator_.run(node_, prepared_.bodies[0], run, nullptr, yields_.data())) return false;
    set_sums(types, yields_.data(), nullptr, run.count);
    for (int64_t i = 0; i < extent; ++i) {
      run.index[along] = node_.reverse ? extent - 1 - i : i;
      if (node_.is_placed) {
        for (int64_t l = 0; l < run.count; ++l) places[static_cast<size_t>(l)] = one_i64(sum(0), l);
        run.places = places.data();
      }
      if (!evaluator_.run(node_, prepared_.bodies[1], run, sums(types.size()), yields_.data())) return false;
      run.places = nullptr;
      set_sums(types, yields_.data(), nullptr, run.count);
      for (size_t j = 0; j < types.size(); ++j) {
        arguments_[j] = {sums_[1 - which_].data() + j * static_cast<size_t>(lanes_), false};
        arguments_[types.size() + j] = sum(j);
      }
      if (!finish(2, run, arguments_.data())) return false;
    }
    return true;
  });
}

}  // namespace heddle::sdk::portable
