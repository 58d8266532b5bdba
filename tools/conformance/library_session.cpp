// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See library_session.h.
#include "library_session.h"

#include <algorithm>
#include <cstring>

namespace heddle::conformance {
namespace {

constexpr size_t kGuardBytes = 256;

template <class T>
void put(void* to, uint64_t index, double value) {
  const T typed = static_cast<T>(value);
  std::memcpy(static_cast<char*>(to) + index * sizeof(T), &typed, sizeof typed);
}

void set(const OperatorRequest::Operand& operand, void* to, uint64_t index, double value) {
  const auto bits_of_float = [&] {
    const float narrow = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof bits);
    return bits;
  };
  switch (operand.type) {
    case HEDDLE_TYPE_F32:
      return put<float>(to, index, value);
    case HEDDLE_TYPE_F64:
      return put<double>(to, index, value);
    case HEDDLE_TYPE_BF16:
      return put<uint16_t>(to, index, bits_of_float() >> 16);
    case HEDDLE_TYPE_F16: {  // for numbers that are normal there; others become 0
      const uint32_t bits = bits_of_float(), exponent = (bits >> 23) & 0xff;
      const uint32_t half = exponent > 112 && exponent < 143 ? ((exponent - 112) << 10) | ((bits >> 13) & 0x3ff) : 0;
      return put<uint16_t>(to, index, half | ((bits >> 16) & 0x8000));
    }
    case HEDDLE_TYPE_BOOL:
      return put<uint8_t>(to, index, value >= (operand.low + operand.high) / 2);
    default:
      break;
  }
  switch (HEDDLE_TYPE_BITS(operand.type)) {
    case 8:
      return put<uint8_t>(to, index, static_cast<uint8_t>(static_cast<int64_t>(value)));
    case 16:
      return put<uint16_t>(to, index, static_cast<uint16_t>(static_cast<int64_t>(value)));
    case 32:
      return put<int32_t>(to, index, static_cast<int32_t>(static_cast<int64_t>(value)));
    default:
      return put<int64_t>(to, index, value);
  }
}

}  // namespace

Request::Request(const OperatorRequest& from) : from_(from) {
  for (const OperatorRequest::Attribute& each : from_.attributes) {
    heddle_attribute_t& to = attributes.emplace_back();
    to = {sizeof to, each.kind, string_of(each.name), each.ints.size() + each.floats.size(), nullptr, nullptr, string_of(each.text)};
    if (!each.ints.empty()) to.ints = each.ints.data();
    if (!each.floats.empty()) to.floats = each.floats.data();
  }
  for (const OperatorRequest::Operand& each : from_.operands) {
    operands.push_back({sizeof(heddle_operand_t), each.type, static_cast<uint32_t>(each.dims.size()), 0, each.dims.data()});
  }
  c.struct_size = sizeof c;
  c.version = from_.version;
  c.domain = string_of(from_.domain);
  c.name = string_of(from_.name);
  c.target = string_of(HEDDLE_LIBRARY_TARGET_HOST);
  c.family = string_of("cpu");
  c.compute_units = 4;
  refresh();
  c.attribute_stride = sizeof(heddle_attribute_t);
  c.operand_stride = sizeof(heddle_operand_t);
  c.input_count = from_.input_count;
  c.output_count = static_cast<uint32_t>(from_.operands.size()) - from_.input_count;
}

void Request::refresh() {
  c.attribute_count = static_cast<uint32_t>(attributes.size());
  c.attributes = attributes.data();
  c.operands = operands.data();
}

void each_request(const std::function<void(Request&)>& body) {
  if (settings().requests.empty()) absent("no conformance/operators.toml has a [[request]] that it accepts");
  for (const OperatorRequest& each : settings().requests) {
    Request request(each);
    body(request);
  }
}

heddle_operation_properties_t query(const Instance& instance, const Request& request) {
  heddle_operation_properties_t properties = {};
  properties.struct_size = sizeof properties;
  Result status(api(instance).query(instance.handle, &request.c, &properties));
  REQUIRE(status.ok(), "query of %s returned %s, but operators.toml declares that it accepts it", request.name().c_str(),
          status.text().c_str());
  return properties;
}

Memory::Memory(const Request& request, const heddle_operation_properties_t& properties, char rubbish)
    : request_(request), rubbish_(rubbish) {
  for (const OperatorRequest::Operand& each : request.source().operands) {
    uint64_t bits = HEDDLE_TYPE_BITS(each.type);
    for (int64_t extent : each.dims) bits *= static_cast<uint64_t>(extent);
    add((bits + 7) / 8, 64);
  }
  const uint64_t alignment = properties.workspace_alignment_bytes ? properties.workspace_alignment_bytes : 64;
  workspace_ = properties.workspace_bytes ? add(properties.workspace_bytes, alignment) : nullptr;
  workspace_bytes_ = properties.workspace_bytes;
}

void Memory::fill_inputs(uint64_t seed) {
  std::mt19937_64 numbers(seed);
  for (uint32_t i = 0; i < request_.source().input_count; ++i) {
    const OperatorRequest::Operand& operand = request_.source().operands[i];
    const uint64_t count = lengths_[i] * 8 / HEDDLE_TYPE_BITS(operand.type);
    for (uint64_t k = 0; k < count; ++k) {
      const double unit = static_cast<double>(numbers() >> 11) * 0x1p-53;
      set(operand, pointers_[i], k, operand.low + (operand.high - operand.low) * unit);
    }
  }
  inputs_ = contents(false);
}

heddle_operation_call_t Memory::call(uint64_t first, uint64_t last) const {
  return {sizeof(heddle_operation_call_t),
          static_cast<uint32_t>(request_.source().operands.size()),
          pointers_.data(),
          lengths_.data(),
          workspace_,
          workspace_bytes_,
          first,
          last,
          0};
}

std::vector<char> Memory::contents(bool outputs) const {
  std::vector<char> bytes;
  for (size_t i = 0; i < request_.source().operands.size(); ++i) {
    const char* from = static_cast<const char*>(pointers_[i]);
    if (request_.is_output(i) == outputs) bytes.insert(bytes.end(), from, from + lengths_[i]);
  }
  return bytes;
}

void Memory::check(const char* when) const {
  CHECK(contents(false) == inputs_, "%s: %s wrote to its inputs [HD-O-03]", request_.name().c_str(), when);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const char* start = starts_[i];
    auto intact = [&](const char* from) { return std::all_of(from, from + kGuardBytes, [&](char c) { return c == rubbish_; }); };
    CHECK(intact(start - kGuardBytes) && intact(start + sizes_[i]), "%s: %s wrote outside of %s %zu [HD-O-03]", request_.name().c_str(),
          when, i < pointers_.size() ? "operand" : "the workspace,", i);
  }
}

void* Memory::add(uint64_t size, uint64_t alignment) {
  blocks_.emplace_back(size + 2 * kGuardBytes + alignment, rubbish_);
  char* start = blocks_.back().data() + kGuardBytes;
  start += (alignment - reinterpret_cast<uintptr_t>(start) % alignment) % alignment;
  starts_.push_back(start);
  sizes_.push_back(size);
  if (pointers_.size() < request_.source().operands.size()) {
    pointers_.push_back(start);
    lengths_.push_back(size);
  }
  return start;
}

void run(const Instance& instance, const Operation& operation, const Memory& memory, uint64_t first, uint64_t last) {
  const heddle_operation_call_t call = memory.call(first, last);
  EXPECT_OK(api(instance).enqueue(operation.handle, &call));
}

std::vector<char> result_of(const Instance& instance, const Request& request, const Operation& operation, char rubbish, uint64_t inputs) {
  Memory memory(request, operation.properties, rubbish);
  memory.fill_inputs(settings().seed + inputs);
  run(instance, operation, memory, 0, operation.shards());
  memory.check("enqueue");
  return memory.contents(true);
}

}  // namespace heddle::conformance
