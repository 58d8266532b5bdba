// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes that go along lines of their results: scatters, sorts, sieves and walks. See nodes.h.
#include <algorithm>
#include <cstring>
#include <utility>

#include "nodes.h"

namespace heddle::sdk::portable {

namespace {

bool one_flag(const Lanes& value) {
  return *static_cast<const uint8_t*>(value.data) != 0;
}

}  // namespace

bool NodeRunner::initialize(uint32_t body) {
  return for_each_run(lane_of(-1), -1, [&](const Run& run) { return finish(body, run, nullptr); });
}

void NodeRunner::load_elements(const int64_t* offsets, int64_t count) {
  elements_.resize(node_.results.size() * static_cast<size_t>(lanes_));
  for (size_t i = 0; i < node_.results.size(); ++i) {
    uint64_t* own = elements_.data() + i * static_cast<size_t>(lanes_);
    load_at(call_.tensors[node_.results[i]], offsets, count, own);
    arguments_[i] = {own, false};
  }
}

bool NodeRunner::scatter() {
  if (!initialize(2)) return false;
  const auto along = static_cast<int32_t>(node_.along);
  const uint32_t reduced = node_.parallel_rank();
  const int64_t extent = extents_[node_.along], updates = extents_[reduced];
  if (extent == 0) return true;
  return for_each_run(lane_of(along), along, [&](Run run) {
    const int64_t line = place_in_results(run), step = run.lane < 0 ? 0 : strides_[static_cast<size_t>(run.lane)];
    for (int64_t i = 0; i < updates; ++i) {
      run.index[reduced] = i;
      if (!evaluator_.run(node_, prepared_.bodies[0], run, nullptr, yields_.data())) return false;
      int64_t offsets[kMostLanes];
      for (int64_t l = 0; l < run.count; ++l) {
        const int64_t place = one_i64(yields_[0], l);
        offsets[l] = place >= 0 && place < extent ? line + l * step + place * strides_[node_.along] : -1;
      }
      load_elements(offsets, run.count);
      if (!evaluator_.run(node_, prepared_.bodies[1], run, arguments_.data(), yields_.data())) return false;
      for (size_t j = 0; j < node_.results.size(); ++j) store_at(call_.tensors[node_.results[j]], yields_[j], offsets, run.count);
    }
    return true;
  });
}

bool sort_bytes(const std::vector<uint32_t>& sorted_bytes, int64_t count, uint64_t* out) {
  *out = 0;
  for (uint32_t size : sorted_bytes) {
    uint64_t bytes;
    if (__builtin_mul_overflow(static_cast<uint64_t>(count), size, &bytes) || bytes > INT64_MAX) return false;
    if (__builtin_add_overflow(*out, (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment, out)) return false;
  }
  return true;
}

bool NodeRunner::sort() {
  const auto along = static_cast<int32_t>(node_.along);
  const uint32_t reduced = node_.parallel_rank();
  const int64_t wanted = extents_[node_.along], count = extents_[reduced];
  if (wanted > count) return call_.fail("a sort gives " + std::to_string(wanted) + " of " + std::to_string(count) + " elements");
  const std::vector<Scalar> types = yielded(0);
  // The keys, and two sets of indices.
  uint64_t bytes = 0;
  sort_bytes(sorted_bytes(node_), count, &bytes);  // a call has checked it
  std::vector<uint64_t> own(part_.line ? 0 : bytes / sizeof(uint64_t));
  char* next = part_.line ? part_.line : reinterpret_cast<char*>(own.data());
  auto take = [&](uint32_t size) {
    uint64_t taken = 0;
    sort_bytes({size}, count, &taken);
    return std::exchange(next, next + taken);
  };
  std::vector<char*> keys;
  for (Scalar type : types) keys.push_back(take(bytes_of(type)));
  auto *order = reinterpret_cast<int64_t*>(take(sizeof(int64_t))), *other = reinterpret_cast<int64_t*>(take(sizeof(int64_t)));
  bool is_good = true;
  auto is_before = [&](int64_t a, int64_t b) {
    for (size_t i = 0; i < types.size(); ++i) {
      const uint32_t size = bytes_of(types[i]);
      arguments_[i] = {keys[i] + a * size, true};
      arguments_[types.size() + i] = {keys[i] + b * size, true};
    }
    Run one;
    is_good = is_good && evaluator_.run(node_, prepared_.bodies[1], one, arguments_.data(), yields_.data());
    return is_good && one_flag(yields_[0]);
  };
  return for_each_run(-1, along, [&](Run run) {
    const int64_t line = place_in_results(run);
    run.lane = static_cast<int32_t>(reduced);
    for (int64_t first = 0; first < count; first += lanes_) {
      run.index[reduced] = first;
      run.count = std::min(lanes_, count - first);
      if (!evaluator_.run(node_, prepared_.bodies[0], run, nullptr, yields_.data())) return false;
      for (size_t i = 0; i < types.size(); ++i) {
        const uint32_t size = bytes_of(types[i]);
        char* out = keys[i] + first * size;
        if (yields_[i].is_uniform) {
          spread(types[i], yields_[i].data, run.count, out);
        } else {
          std::memcpy(out, yields_[i].data, static_cast<size_t>(run.count) * size);
        }
      }
    }
    // Runs of twice the length each time; stable, and safe for an order that contradicts itself.
    for (int64_t i = 0; i < count; ++i) order[i] = i;
    for (int64_t width = 1; width < count; width *= 2) {
      for (int64_t from = 0; from < count; from += 2 * width) {
        const int64_t middle = std::min(from + width, count), end = std::min(from + 2 * width, count);
        int64_t a = from, b = middle;
        for (int64_t to = from; to < end; ++to) {
          const bool takes_second = b < end && (a >= middle || is_before(order[b], order[a]));
          other[to] = order[takes_second ? b++ : a++];
        }
      }
      std::swap(order, other);
    }
    if (!is_good) return false;
    const View& result = call_.tensors[node_.results[0]];
    for (int64_t first = 0; first < wanted; first += lanes_) {
      const Lanes part = {order + first, false};
      store_lanes(result, part, line + first * strides_[node_.along], strides_[node_.along], std::min(lanes_, wanted - first));
    }
    return true;
  });
}

bool NodeRunner::sieve() {
  if (!initialize(2)) return false;
  const auto along = static_cast<int32_t>(node_.along);
  const uint32_t reduced = node_.parallel_rank();
  const int64_t count = extents_[node_.along], stride = strides_[node_.along];
  if (extents_[reduced] > count)
    return call_.fail("a sieve reduces " + std::to_string(extents_[reduced]) + " elements of a line of " + std::to_string(count));
  auto* flags = reinterpret_cast<uint8_t*>(call_.tensors[node_.results[0]].data);
  return for_each_run(-1, along, [&](Run run) {
    uint8_t* line = flags + place_in_results(run);
    if (!evaluator_.run(node_, prepared_.bodies[0], run, nullptr, yields_.data())) return false;
    const int64_t limit = one_i64(yields_[0]);
    for (int64_t stayed = 0, i = 0; i < count; ++i) {
      if (!line[i * stride]) continue;
      if (stayed >= limit) {
        line[i * stride] = 0;
        continue;
      }
      ++stayed;
      run.lane = along;
      run.index[reduced] = i;
      for (int64_t first = i + 1; first < count; first += lanes_) {
        run.index[along] = first;
        run.count = std::min(lanes_, count - first);
        if (!evaluator_.run(node_, prepared_.bodies[1], run, nullptr, yields_.data())) return false;
        const auto* removes = static_cast<const uint8_t*>(yields_[0].data);
        for (int64_t l = 0; l < run.count; ++l) {
          if (removes[yields_[0].is_uniform ? 0 : l]) line[(first + l) * stride] = 0;
        }
      }
    }
    return true;
  });
}

bool NodeRunner::walk() {
  if (!initialize(3)) return false;
  const auto along = static_cast<int32_t>(node_.along);
  const uint32_t reduced = node_.parallel_rank();
  const int64_t extent = extents_[node_.along], walks = extents_[reduced];
  std::pmr::vector<int64_t> places(static_cast<size_t>(lanes_), memory_);
  return for_each_run(lane_of(along), along, [&](Run run) {
    const int64_t line = place_in_results(run), step = run.lane < 0 ? 0 : strides_[static_cast<size_t>(run.lane)];
    auto keep = [&] {
      for (int64_t l = 0; l < run.count; ++l) places[static_cast<size_t>(l)] = one_i64(yields_[0], l);
    };
    for (int64_t i = 0; i < walks; ++i) {
      run.index[reduced] = i;
      run.places = nullptr;
      if (!evaluator_.run(node_, prepared_.bodies[0], run, nullptr, yields_.data())) return false;
      keep();
      run.places = places.data();
      for (uint64_t s = 0; s < node_.steps; ++s) {
        if (!evaluator_.run(node_, prepared_.bodies[1], run, nullptr, yields_.data())) return false;
        keep();
      }
      for (int64_t position = 0; position < extent; ++position) {
        run.index[along] = position;
        int64_t offsets[kMostLanes];
        for (int64_t l = 0; l < run.count; ++l) offsets[l] = line + l * step + position * strides_[node_.along];
        load_elements(offsets, run.count);
        if (!evaluator_.run(node_, prepared_.bodies[2], run, arguments_.data(), yields_.data())) return false;
        for (size_t j = 0; j < node_.results.size(); ++j) store_at(call_.tensors[node_.results[j]], yields_[j], offsets, run.count);
      }
      run.index[along] = 0;
    }
    return true;
  });
}

}  // namespace heddle::sdk::portable
