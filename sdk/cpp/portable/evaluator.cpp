// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See evaluator.h.
#include "evaluator.h"

#include <algorithm>
#include <cstring>

namespace heddle::sdk::portable {

namespace {

int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
// For b > 0.
int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
int64_t divided(Expression::Kind kind, int64_t a, int64_t b) {
  if (b <= 0) return 0;
  if (kind == Expression::kFloorDiv) return floor_div(a, b);
  if (kind == Expression::kCeilDiv) return floor_div(a, b) + (a % b != 0);
  return a % b + (a % b < 0 ? b : 0);
}

// The last position, and whether all between it and the first are between them as numbers.
bool last_of(const Position& position, int64_t count, int64_t* out) {
  int64_t way;
  return !position.lanes && !__builtin_mul_overflow(position.step, count - 1, &way) && !__builtin_add_overflow(position.base, way, out);
}

template <typename T>
void copy(const char* data, int64_t offset, int64_t step, int64_t count, void* out) {
  const T* from = reinterpret_cast<const T*>(data) + offset;
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}
template <typename T>
void copy_back(char* data, int64_t offset, int64_t step, int64_t count, const Lanes& value) {
  T* to = reinterpret_cast<T*>(data) + offset;
  const T* from = static_cast<const T*>(value.data);
  if (value.is_uniform) {
    const T one = *from;
    for (int64_t i = 0; i < count; ++i) to[i * step] = one;
  } else if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * step] = from[i];
  }
}

void make_bools(void* lanes, int64_t count) {
  auto* bytes = static_cast<uint8_t*>(lanes);
  for (int64_t i = 0; i < count; ++i) bytes[i] = bytes[i] != 0;
}

}  // namespace

void store_lanes(const View& view, const Lanes& value, int64_t offset, int64_t step, int64_t count) {
  with_bits(view.scalar, [&](auto sample) { copy_back<decltype(sample)>(view.data, offset, step, count, value); });
}

void store_at(const View& view, const Lanes& value, const int64_t* offsets, int64_t count) {
  with_bits(view.scalar, [&](auto sample) {
    using T = decltype(sample);
    const T* from = static_cast<const T*>(value.data);
    for (int64_t i = 0; i < count; ++i) {
      if (offsets[i] >= 0) reinterpret_cast<T*>(view.data)[offsets[i]] = from[value.is_uniform ? 0 : i];
    }
  });
}

void load_at(const View& view, const int64_t* offsets, int64_t count, void* out) {
  with_bits(view.scalar, [&](auto sample) {
    using T = decltype(sample);
    for (int64_t i = 0; i < count; ++i)
      static_cast<T*>(out)[i] = offsets[i] >= 0 ? reinterpret_cast<const T*>(view.data)[offsets[i]] : T{0};
  });
  if (view.scalar == Scalar::kI1) make_bools(out, count);
}

// prepare.cpp adds these up.
Evaluator::Evaluator(Call& call, std::pmr::memory_resource* memory)
    : call_(call),
      positions_(call.prepared.kernel.expressions.size(), memory),
      lanes_(call.prepared.most_by_lane * static_cast<size_t>(call.prepared.lanes), memory),
      slots_(call.prepared.most_slots * static_cast<size_t>(call.prepared.lanes), memory),
      loads_(call.prepared.most_reads * static_cast<size_t>(call.prepared.lanes), memory),
      values_(call.prepared.most_values, memory),
      spread_(3 * static_cast<size_t>(call.prepared.lanes), memory),
      active_(static_cast<size_t>(call.prepared.lanes), memory),
      iota_(static_cast<size_t>(call.prepared.lanes), memory) {
  for (size_t i = 0; i < positions_.size(); ++i) positions_[i].base = call.known[i];
}

int64_t* Evaluator::lanes_of(uint32_t kept) {
  return lanes_.data() + kept * static_cast<size_t>(call_.prepared.lanes);
}

void Evaluator::divide(const Expression& expression, Position* out_position, uint32_t kept, const Position& a, const Position& b,
                       int64_t count) {
  Position& out = *out_position;
  if (!b.lanes && b.step == 0) {
    if (b.base <= 0 || (!a.lanes && (a.step == 0 || count == 1))) {
      out = {divided(expression.kind, a.base, b.base), 0};
      return;
    }
    // Quotients of a run are often all the same.
    int64_t last;
    if (last_of(a, count, &last)) {
      const bool is_mod = expression.kind == Expression::kMod;
      const Expression::Kind kind = is_mod ? Expression::kFloorDiv : expression.kind;
      const int64_t quotient = divided(kind, a.base, b.base);
      if (quotient == divided(kind, last, b.base)) {
        out = is_mod ? Position{divided(expression.kind, a.base, b.base), a.step} : Position{quotient, 0};
        return;
      }
      if (b.base == 1) {
        out = is_mod ? Position{0, 0} : Position{a.base, a.step};
        return;
      }
    }
  }
  int64_t* lanes = lanes_of(kept);
  for (int64_t l = 0; l < count; ++l) lanes[l] = divided(expression.kind, a.at(l), b.at(l));
  out = {0, 0, lanes};
}

void Evaluator::place(const PreparedBody& body, const Run& run) {
  const std::vector<Expression>& all = call_.prepared.kernel.expressions;
  for (size_t number = 0; number < body.expressions.size(); ++number) {
    const uint32_t i = body.expressions[number];
    const Expression& e = all[i];
    Position& out = positions_[i];
    if (e.kind == Expression::kDimension) {
      const auto d = static_cast<uint32_t>(e.value);
      if (run.places && d + 1 == body.shape.indices) {
        out = {0, 0, run.places};
      } else {
        out = {run.index[d], static_cast<int32_t>(d) == run.lane ? 1 : 0};
      }
      continue;
    }
    const Position a = positions_[e.a], b = positions_[e.b];
    if (e.kind >= Expression::kFloorDiv) {
      divide(e, &out, body.by_lane[number], a, b, run.count);
      continue;
    }
    const bool is_sum = e.kind == Expression::kAdd;
    if (!a.lanes && !b.lanes) {
      if (is_sum) {
        out = {add(a.base, b.base), add(a.step, b.step)};
        continue;
      }
      if (a.step == 0 || b.step == 0) {
        out = {mul(a.base, b.base), a.step == 0 ? mul(b.step, a.base) : mul(a.step, b.base)};
        continue;
      }
    }
    int64_t* lanes = lanes_of(body.by_lane[number]);
    for (int64_t l = 0; l < run.count; ++l) lanes[l] = is_sum ? add(a.at(l), b.at(l)) : mul(a.at(l), b.at(l));
    out = {0, 0, lanes};
  }
}

int Evaluator::within(const Node& node, const Run& run, const uint8_t** out) {
  bool has_mask = false;
  for (const Within& within : node.within) {
    const Position& index = positions_[within.index];
    const int64_t bound = call_.known[within.bound];
    auto is_inside = [bound](int64_t at) { return at >= 0 && at < bound; };
    int64_t last;
    if (last_of(index, run.count, &last)) {
      const bool first_inside = is_inside(index.base), last_inside = is_inside(last);
      if (first_inside && last_inside) continue;
      if (index.step == 0) return 0;
    }
    if (!has_mask) std::fill_n(active_.begin(), run.count, 1);
    has_mask = true;
    for (int64_t l = 0; l < run.count; ++l) active_[static_cast<size_t>(l)] &= is_inside(index.at(l));
  }
  if (!has_mask) return 1;
  *out = active_.data();
  return 2;
}

bool Evaluator::step_of(const Node& node, uint32_t read, int64_t* out) const {
  const Read& access = node.reads[read];
  const View& view = call_.tensors[access.tensor];
  if (!access.gathers.empty()) return false;
  *out = 0;
  for (size_t d = 0; d < access.place.size(); ++d) {
    const Position& position = positions_[access.place[d]];
    if (position.lanes) return false;
    *out = add(*out, mul(position.step, view.strides[d]));
  }
  return true;
}

bool Evaluator::load(const Node& node, const PreparedBody& body, uint32_t read, const Run& run, Lanes* out) {
  const Read& access = node.reads[read];
  const View& view = call_.tensors[access.tensor];
  if (view.count == 0) {
    *out = {&access.outside, true};
    return true;
  }
  const size_t rank = access.place.size();
  bool is_simple = access.gathers.empty();
  int64_t offset = 0, step = 0;
  for (size_t d = 0; d < rank && is_simple; ++d) {
    const Position& position = positions_[access.place[d]];
    int64_t last;
    const int64_t extent = view.extents[d];
    if (!last_of(position, run.count, &last) || std::min(position.base, last) < 0 || std::max(position.base, last) >= extent) {
      is_simple = false;
    } else {
      offset += position.base * view.strides[d];
      if (run.count > 1) step += position.step * view.strides[d];
    }
  }
  if (!is_simple) return load_each(node, body, read, run, out);
  const uint32_t size = bytes_of(view.scalar);
  char* own = bytes_of(loads_) + (read - body.shape.first_read) * static_cast<size_t>(call_.prepared.lanes) * 8;
  const bool is_uniform = step == 0 || run.count == 1;
  if (view.scalar != Scalar::kI1 && (is_uniform || step == 1)) {
    *out = {view.data + offset * size, is_uniform};
    return true;
  }
  const int64_t count = is_uniform ? 1 : run.count;
  with_bits(view.scalar, [&](auto sample) { copy<decltype(sample)>(view.data, offset, step, count, own); });
  if (view.scalar == Scalar::kI1) make_bools(own, count);
  *out = {own, is_uniform};
  return true;
}

// Places that have no step, or are in part outside of the tensor.
bool Evaluator::load_each(const Node& node, const PreparedBody& body, uint32_t read, const Run& run, Lanes* out) {
  const Read& access = node.reads[read];
  const View& view = call_.tensors[access.tensor];
  const std::vector<Expression>& all = call_.prepared.kernel.expressions;
  int64_t offsets[kMostLanes];
  std::fill_n(offsets, run.count, 0);
  bool has_outside = false;
  for (size_t d = 0; d < access.place.size(); ++d) {
    const int64_t extent = view.extents[d], stride = view.strides[d];
    const Expression& e = all[access.place[d]];
    const bool is_gathered = e.kind == Expression::kDimension && e.value >= body.shape.indices;
    const uint32_t index_read = is_gathered ? body.shape.first_read + access.gathers[static_cast<size_t>(e.value - body.shape.indices)] : 0;
    const Lanes gathered = is_gathered ? values_[body.shape.indices + index_read - body.shape.first_read] : Lanes{};
    const View* of = is_gathered ? &call_.tensors[node.reads[index_read].tensor] : nullptr;
    for (int64_t l = 0; l < run.count; ++l) {
      int64_t index;
      if (is_gathered) {
        const size_t from = gathered.is_uniform ? 0 : static_cast<size_t>(l);
        switch (bytes_of(of->scalar)) {
          case 1:
            index = of->is_unsigned ? static_cast<const uint8_t*>(gathered.data)[from] : static_cast<const int8_t*>(gathered.data)[from];
            break;
          case 2:
            index = of->is_unsigned ? static_cast<const uint16_t*>(gathered.data)[from] : static_cast<const int16_t*>(gathered.data)[from];
            break;
          case 4:
            index = of->is_unsigned ? int64_t{static_cast<const uint32_t*>(gathered.data)[from]}
                                    : int64_t{static_cast<const int32_t*>(gathered.data)[from]};
            break;
          default:
            index = static_cast<const int64_t*>(gathered.data)[from];
            break;
        }
        if (index < 0) index = add(index, extent);
        index = std::max<int64_t>(0, std::min(index, extent - 1));
      } else {
        index = positions_[access.place[d]].at(l);
      }
      if (index < 0 || index >= extent) {
        if (!access.has_outside && !(run.active && !run.active[l])) {
          return call_.fail("read " + std::to_string(read) + " of tensor " + std::to_string(access.tensor) + " is at index " +
                            std::to_string(index) + " of dimension " + std::to_string(d) + ", which has " + std::to_string(extent));
        }
        offsets[l] = INT64_MIN;
        has_outside = true;
      } else if (offsets[l] >= 0) {
        offsets[l] += index * stride;
      }
    }
  }
  char* own = bytes_of(loads_) + (read - body.shape.first_read) * static_cast<size_t>(call_.prepared.lanes) * 8;
  load_at(view, offsets, run.count, own);
  if (has_outside && access.has_outside) {
    with_bits(view.scalar, [&](auto sample) {
      using T = decltype(sample);
      T value;
      std::memcpy(&value, &access.outside, sizeof value);
      for (int64_t l = 0; l < run.count; ++l) {
        if (offsets[l] < 0) reinterpret_cast<T*>(own)[l] = value;
      }
    });
    if (view.scalar == Scalar::kI1) make_bools(own, run.count);
  }
  *out = {own, run.count == 1};
  return true;
}

const void* Evaluator::all_lanes(Scalar type, const Lanes& value, int64_t count, uint32_t which) {
  if (!value.is_uniform) return value.data;
  char* out = bytes_of(spread_) + which * static_cast<size_t>(call_.prepared.lanes) * 8;
  spread(type, value.data, count, out);
  return out;
}

bool Evaluator::evaluate(const Node& node, const PreparedBody& prepared, const Run& run, const Lanes* more, Lanes* yields) {
  const Body& body = prepared.body;
  const BodyShape& shape = prepared.shape;
  const auto lanes = static_cast<size_t>(call_.prepared.lanes);
  for (uint32_t d = 0; d < shape.indices; ++d) {
    if (!prepared.uses[d]) continue;
    if (run.places && d + 1 == shape.indices) {
      values_[d] = {run.places, false};
    } else if (static_cast<int32_t>(d) == run.lane && run.count > 1) {
      for (int64_t l = 0; l < run.count; ++l) iota_[static_cast<size_t>(l)] = run.index[d] + l;
      values_[d] = {iota_.data(), false};
    } else {
      indices_[d] = run.index[d];
      values_[d] = {&indices_[d], true};
    }
  }
  for (uint32_t i = shape.first_read, at = shape.indices; i < shape.end_read; ++i, ++at) {
    if (prepared.uses[at] && !load(node, prepared, i, run, &values_[at])) return false;
  }
  uint32_t known = shape.indices + shape.end_read - shape.first_read;
  for (const Lanes* each = more; known < body.arguments.size(); ++known) values_[known] = *each++;
  for (const Instruction& at : body.instructions) {
    const uint32_t result = known++;
    if (at.op == Op::kConstant) {
      values_[result] = {&at.value, true};
      continue;
    }
    if (at.op == Op::kExtent) {
      values_[result] = {&call_.known[at.value], true};
      continue;
    }
    const uint32_t operands = operand_count(at.op), own[3] = {at.a, at.b, at.c};
    bool is_uniform = true;
    for (uint32_t i = 0; i < operands; ++i) is_uniform &= values_[own[i]].is_uniform;
    Lanes in[3];
    for (uint32_t i = 0; i < operands; ++i) {
      in[i] = values_[own[i]];
      if (!is_uniform) in[i].data = all_lanes(prepared.types[own[i]], in[i], run.count, i);
    }
    void* out = bytes_of(slots_) + prepared.slots[result - body.arguments.size()] * lanes * 8;
    compute(at, prepared.types[at.a], in, is_uniform ? 1 : run.count, out);
    values_[result] = {out, is_uniform};
  }
  for (size_t i = 0; i < body.yields.size(); ++i) yields[i] = values_[body.yields[i]];
  return true;
}

}  // namespace heddle::sdk::portable
