// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses requests with their strides, and the texts that libraries share. Called through library.h.
#include "heddle/sdk/library.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace heddle::sdk {

namespace {

int shown(std::string_view text) noexcept {
  return static_cast<int>(std::min<size_t>(text.size(), 120));
}

// The elements of an array with a stride (HD-E-04). False: one of them has fields that are unknown here.
template <class T>
bool read_array(const T* first, uint64_t count, uint64_t stride, std::vector<T>* out, uint64_t* out_bad_byte) {
  out->resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto* at = reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) + i * stride);
    if (!read_struct(at, &(*out)[i], out_bad_byte)) return false;
  }
  return true;
}

const char* kind_name(uint32_t kind) noexcept {
  switch (kind) {
    case HEDDLE_ATTRIBUTE_INT:
      return "an int";
    case HEDDLE_ATTRIBUTE_FLOAT:
      return "a float";
    case HEDDLE_ATTRIBUTE_STRING:
      return "a string";
    case HEDDLE_ATTRIBUTE_INTS:
      return "a list of ints";
    case HEDDLE_ATTRIBUTE_FLOATS:
      return "a list of floats";
    default:
      return "of a kind that is not known here";
  }
}

}  // namespace

heddle_status_t* OperationRequest::read(const heddle_host_t* host, const heddle_operation_request_t* request) {
  host_ = host;
  uint64_t bad_byte;
  if (!read_struct(request, &request_, &bad_byte)) return tail_status(host, "heddle_operation_request_t", bad_byte);
  const uint64_t operands = uint64_t{request_.input_count} + request_.output_count;
  if (operands > HEDDLE_MAX_OPERANDS || request_.attribute_count > HEDDLE_MAX_ATTRIBUTES) {
    return status(host, HEDDLE_STATUS_INVALID_ARGUMENT,
                  "%.*s: requesting an operation failed: %llu operands and %u attributes exceed the limits of %u and %u [HD-O-01]",
                  shown(name()), name().data(), static_cast<unsigned long long>(operands), request_.attribute_count, HEDDLE_MAX_OPERANDS,
                  HEDDLE_MAX_ATTRIBUTES);
  }
  if (!read_array(request_.attributes, request_.attribute_count, request_.attribute_stride, &attributes_, &bad_byte)) {
    return tail_status(host, "heddle_attribute_t", bad_byte);
  }
  if (!read_array(request_.operands, operands, request_.operand_stride, &operands_, &bad_byte)) {
    return tail_status(host, "heddle_operand_t", bad_byte);
  }
  return nullptr;
}

const heddle_attribute_t* OperationRequest::find(std::string_view name, uint32_t kind) const noexcept {
  for (const heddle_attribute_t& attribute : attributes_) {
    if (attribute.kind == kind && view_of(attribute.name) == name) return &attribute;
  }
  return nullptr;
}

std::optional<int64_t> OperationRequest::integer(std::string_view name) const noexcept {
  const heddle_attribute_t* found = find(name, HEDDLE_ATTRIBUTE_INT);
  return found ? std::optional(found->ints[0]) : std::nullopt;
}
std::optional<double> OperationRequest::number(std::string_view name) const noexcept {
  const heddle_attribute_t* found = find(name, HEDDLE_ATTRIBUTE_FLOAT);
  return found ? std::optional(found->floats[0]) : std::nullopt;
}
std::optional<std::string_view> OperationRequest::text(std::string_view name) const noexcept {
  const heddle_attribute_t* found = find(name, HEDDLE_ATTRIBUTE_STRING);
  return found ? std::optional(view_of(found->text)) : std::nullopt;
}
std::optional<std::span<const int64_t>> OperationRequest::integers(std::string_view name) const noexcept {
  const heddle_attribute_t* found = find(name, HEDDLE_ATTRIBUTE_INTS);
  return found ? std::optional(std::span(found->ints, found->count)) : std::nullopt;
}
std::optional<std::span<const double>> OperationRequest::numbers(std::string_view name) const noexcept {
  const heddle_attribute_t* found = find(name, HEDDLE_ATTRIBUTE_FLOATS);
  return found ? std::optional(std::span(found->floats, found->count)) : std::nullopt;
}

heddle_status_t* OperationRequest::expect(uint32_t inputs, uint32_t outputs,
                                          std::initializer_list<TakenAttribute> attributes) const noexcept {
  if (input_count() != inputs || output_count() != outputs) {
    return refuse("it takes %u inputs and has %u outputs; %u and %u were requested", inputs, outputs, input_count(), output_count());
  }
  for (const heddle_attribute_t& attribute : attributes_) {
    const std::string_view given = view_of(attribute.name);
    const auto* taken = std::find_if(attributes.begin(), attributes.end(), [&](const TakenAttribute& each) { return each.name == given; });
    if (taken == attributes.end()) return refuse("attribute '%.*s' is not known", shown(given), given.data());
    // An int is not accepted as a float, as in ONNX: code that looks for a float would find none, and continue with its default.
    if (taken->kind != attribute.kind) {
      return refuse("attribute '%.*s' is %s; %s was expected", shown(given), given.data(), kind_name(attribute.kind),
                    kind_name(taken->kind));
    }
  }
  return nullptr;
}

heddle_status_t* OperationRequest::refuse(const char* format, ...) const noexcept {
  char cause[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(cause, sizeof cause, format, arguments);
  va_end(arguments);
  return status(host_, HEDDLE_STATUS_UNIMPLEMENTED, "%.*s::%.*s/%u: %s [HD-O-01]", shown(domain()), domain().data(), shown(name()),
                name().data(), request_.version, cause);
}

bool same_type(const heddle_operand_t& a, const heddle_operand_t& b) noexcept {
  return a.element_type == b.element_type && std::ranges::equal(dims_of(a), dims_of(b));
}

std::string text_of(const heddle_operand_t& operand) {
  static constexpr struct {
    heddle_element_type_t type;
    const char* name;
  } kNames[] = {{HEDDLE_TYPE_BOOL, "bool"},
                {HEDDLE_TYPE_I4, "i4"},
                {HEDDLE_TYPE_U4, "u4"},
                {HEDDLE_TYPE_I8, "i8"},
                {HEDDLE_TYPE_U8, "u8"},
                {HEDDLE_TYPE_I16, "i16"},
                {HEDDLE_TYPE_U16, "u16"},
                {HEDDLE_TYPE_I32, "i32"},
                {HEDDLE_TYPE_U32, "u32"},
                {HEDDLE_TYPE_I64, "i64"},
                {HEDDLE_TYPE_U64, "u64"},
                {HEDDLE_TYPE_F16, "f16"},
                {HEDDLE_TYPE_BF16, "bf16"},
                {HEDDLE_TYPE_F32, "f32"},
                {HEDDLE_TYPE_F64, "f64"},
                {HEDDLE_TYPE_F8E4M3, "f8e4m3"},
                {HEDDLE_TYPE_F8E5M2, "f8e5m2"},
                {HEDDLE_TYPE_F8E4M3FNUZ, "f8e4m3fnuz"},
                {HEDDLE_TYPE_F8E5M2FNUZ, "f8e5m2fnuz"},
                {HEDDLE_TYPE_F8E8M0, "f8e8m0"},
                {HEDDLE_TYPE_F4E2M1, "f4e2m1"},
                {HEDDLE_TYPE_I2, "i2"},
                {HEDDLE_TYPE_U2, "u2"}};
  char text[40];
  std::snprintf(text, sizeof text, "type 0x%04x", operand.element_type);
  for (const auto& known : kNames) {
    if (known.type == operand.element_type) std::snprintf(text, sizeof text, "%s", known.name);
  }
  std::string shape;
  for (int64_t extent : dims_of(operand)) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
  return text + ("[" + shape + "]");
}

heddle_status_t* no_operator_status(const OperationRequest& request) noexcept {
  return status(request.host(), HEDDLE_STATUS_NOT_FOUND, "there is no operator %.*s::%.*s/%u [HD-O-01]", shown(request.domain()),
                request.domain().data(), shown(request.name()), request.name().data(), request.c().version);
}

heddle_status_t* other_target_status(const OperationRequest& request) noexcept {
  const std::string_view target = view_of(request.c().target);
  return request.refuse("it runs on " HEDDLE_LIBRARY_TARGET_HOST ", but the device requires '%.*s'", shown(target), target.data());
}

heddle_status_t* live_operations_status(const heddle_host_t* host, const char* id, uint64_t live) noexcept {
  return status(host, HEDDLE_STATUS_FAILED_PRECONDITION, "%s: shutting down failed: %llu operation%s live; destroy them first [HD-L-01]",
                id, static_cast<unsigned long long>(live), live == 1 ? " is" : "s are");
}

}  // namespace heddle::sdk
