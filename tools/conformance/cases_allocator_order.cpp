// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of heddle.allocator/1: blocks that are freed after points, and who may get them when.
#include <algorithm>

#include "allocator_session.h"

namespace heddle::conformance {
namespace {

void waits_for_points() {
  Timeline one, two;  // outlive the allocator
  Allocator allocator(uint64_t{8} << 20);
  const heddle_point_t points[] = {{one.handle(), 5}, {two.handle(), 7}};
  // All available memory in one block, freed with two points that are not reached.
  const uint64_t size = uint64_t{5} << 20;
  heddle_block_t first = allocator.allocate(size);
  allocator.free(first, {points[0], points[1]});
  heddle_block_t second;
  auto try_all = [&](const char* when, bool expected) {
    Result status = allocator.try_allocate(size, 0, &second);
    CHECK(status.ok() == expected, "%s: a block that must be usable at once returned %s [HD-M-01]", when, status.text().c_str());
    if (!status.ok())
      CHECK(status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%s: the block returned %s; RESOURCE_EXHAUSTED was expected", when,
            status.text().c_str());
    if (status.ok() && !expected) allocator.free(second);
  };
  try_all("freed with two points, neither reached", false);
  one.value = 5;
  try_all("freed with two points, one reached", false);
  two.value = 6;
  try_all("freed with two points, one reached", false);
  two.value = 7;
  try_all("freed with two points, both reached", true);
  if (second.buffer) allocator.free(second);
}

// All available memory, freed with points of streams and requested by a caller at a point of one of them: it must be returned with the points that
// the caller is not ordered after, or not at all.
class StreamOrder {
 public:
  struct Place {
    size_t stream;
    uint64_t value;
  };
  void freed(std::vector<Place> points, std::vector<size_t> reached = {}) {
    points_ = std::move(points);
    reached_ = std::move(reached);
  }
  void ask(Place after) {
    Timeline streams[4];  // outlive the allocator
    Allocator allocator(uint64_t{8} << 20);
    const uint64_t size = uint64_t{5} << 20;
    std::vector<heddle_point_t> points, waits;
    std::string text;
    for (const Place& each : points_) {
      points.push_back({streams[each.stream].handle(), each.value});
      text += (text.empty() ? "" : " and ") + said(each);
    }
    allocator.free(allocator.allocate(size), points);
    for (size_t stream : reached_) streams[stream].value = 1000;
    heddle_block_t block;
    Result status = allocator.try_allocate(size, 0, &block, {streams[after.stream].handle(), after.value}, &waits);
    CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED,
          "a block in stream order returned %s; success or RESOURCE_EXHAUSTED was expected", status.text().c_str());
    for (const Place& each : points_) {
      const bool is_reached = std::find(reached_.begin(), reached_.end(), each.stream) != reached_.end();
      if (!status.ok() || is_reached || (each.stream == after.stream && each.value <= after.value)) continue;
      const bool waited = std::any_of(waits.begin(), waits.end(), [&](heddle_point_t point) {
        return point.timeline == streams[each.stream].handle() && point.value >= each.value;
      });
      CHECK(waited, "a block freed after %s was returned to %s without %s among the %zu points to wait for [HD-M-01]", text.c_str(),
            said(after).c_str(), said(each).c_str(), waits.size());
    }
    points.push_back({streams[after.stream].handle(), after.value});  // waiting for the caller's own position is not a wait
    for (const heddle_point_t& wait : waits) {
      CHECK(std::any_of(points.begin(), points.end(),
                        [&](heddle_point_t point) { return point.timeline == wait.timeline && wait.value <= point.value; }),
            "a block freed after %s was returned to %s with a point to wait for that it was not freed with", text.c_str(),
            said(after).c_str());
    }
    if (status.ok()) allocator.free(block);
    for (Timeline& stream : streams) stream.value = 1000;
    allocator.free(allocator.allocate(size));
  }

 private:
  static std::string said(Place place) {
    return "point " + std::to_string(place.value) + " of stream " + std::string(1, static_cast<char>('A' + place.stream));
  }
  std::vector<Place> points_;
  std::vector<size_t> reached_;  // streams whose points are reached
};

constexpr size_t A = 0, B = 1, C = 2;

void stream_order() {
  StreamOrder order;
  order.freed({{A, 3}});
  order.ask({A, 3});
  order.ask({A, 4});  // the stream itself: ordered after it
  // Values of another stream are unrelated to this one's.
  for (uint64_t value : {uint64_t{1}, uint64_t{3}, uint64_t{100}}) order.ask({B, value});
  order.freed({{A, 5}, {B, 2}});
  for (StreamOrder::Place after : {StreamOrder::Place{A, 9}, {B, 9}, {C, 1}, {C, 100}}) order.ask(after);
  order.freed({{A, 5}, {B, 2}}, {B});
  order.ask({C, 100});
  order.freed({{B, 2}, {A, 5}, {C, 7}}, {B});
  order.ask({C, 100});
  order.ask({B, 100});
}

void earlier_in_the_stream() {
  StreamOrder order;
  order.freed({{A, 9}});
  order.ask({A, 4});
  order.ask({A, 8});
  order.freed({{B, 2}, {A, 9}});
  order.ask({A, 8});
}

}  // namespace

void add_allocator_order_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"allocator.waits", "a freed block is used again once all its points are reached", waits_for_points, Kind::kAllocator},
       {"allocator.stream_order", "in stream order a block is returned with all points that its next user must wait for", stream_order,
        Kind::kAllocator},
       {"allocator.earlier", "a block is not returned to an earlier place of its stream", earlier_in_the_stream, Kind::kAllocator}});
}

}  // namespace heddle::conformance
