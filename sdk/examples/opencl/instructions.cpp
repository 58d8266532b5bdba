// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See instructions.h. code.h of the SDK has the meaning of each instruction.
#include "instructions.h"

#include <cstdio>

namespace opencl {

using heddle::sdk::portable::bytes_of;
using heddle::sdk::portable::Instruction;
using heddle::sdk::portable::masked;
using heddle::sdk::portable::Op;
using heddle::sdk::portable::Predicate;
using heddle::sdk::portable::Scalar;

namespace {

// With a sign, as a wider number where a bool needs one.
std::string with_sign(Scalar scalar, const std::string& value) {
  if (scalar == Scalar::kI1) return "(char)-(char)(" + value + " & 1)";
  return "(" + std::string(signed_type(scalar)) + ")" + value;
}

std::string cast(Scalar to, const std::string& value) {
  if (to == Scalar::kI1) return "(uchar)((" + value + ") & 1)";
  return "(" + std::string(type_of(to)) + ")(" + value + ")";
}

std::string compare(Predicate predicate, bool of_floats, Scalar from, const std::string& a, const std::string& b) {
  auto with = [&](const char* words) { return "(uchar)(" + a + " " + words + " " + b + ")"; };
  auto negated = [&](const char* words) { return "(uchar)!(" + a + " " + words + " " + b + ")"; };
  const std::string unordered = a + " != " + a + " || " + b + " != " + b;
  auto with_signs = [&](const char* words) { return "(uchar)(" + with_sign(from, a) + " " + words + " " + with_sign(from, b) + ")"; };
  switch (predicate) {
    case Predicate::kEqual:
      return with("==");
    case Predicate::kNotEqual:
      return of_floats ? "(uchar)(" + a + " < " + b + " || " + a + " > " + b + ")" : with("!=");
    case Predicate::kLess:
      return of_floats ? with("<") : with_signs("<");
    case Predicate::kLessEqual:
      return of_floats ? with("<=") : with_signs("<=");
    case Predicate::kGreater:
      return of_floats ? with(">") : with_signs(">");
    case Predicate::kGreaterEqual:
      return of_floats ? with(">=") : with_signs(">=");
    case Predicate::kUnordered:
      return "(uchar)(" + unordered + ")";
    case Predicate::kOrdered:
      return "(uchar)!(" + unordered + ")";
    case Predicate::kOrEqual:
      return "(uchar)!(" + a + " < " + b + " || " + a + " > " + b + ")";
    case Predicate::kOrNotEqual:
      return negated("==");
    case Predicate::kOrLess:
      return negated(">=");
    case Predicate::kOrLessEqual:
      return negated(">");
    case Predicate::kOrGreater:
      return negated("<=");
    case Predicate::kOrGreaterEqual:
      return negated("<");
    case Predicate::kBelow:
      return with("<");
    case Predicate::kBelowEqual:
      return with("<=");
    case Predicate::kAbove:
      return with(">");
    case Predicate::kAboveEqual:
      return with(">=");
  }
  return {};
}

std::string convert_float(Scalar from, Scalar to, const std::string& a) {
  const std::string wide = from == Scalar::kF16 ? "f32_of_f16(" + a + ")" : from == Scalar::kBf16 ? "f32_of_bf16(" + a + ")" : a;
  if (to == Scalar::kF16) return "f16_of_f32((float)" + wide + ")";
  if (to == Scalar::kBf16) return "bf16_of_f32((float)" + wide + ")";
  return cast(to, wide);
}

}  // namespace

const char* type_of(Scalar scalar) {
  static constexpr const char* kTypes[] = {"uchar", "uchar", "ushort", "uint", "ulong", "ushort", "ushort", "float", "double"};
  return kTypes[static_cast<size_t>(scalar)];
}

const char* signed_type(Scalar scalar) {
  static constexpr const char* kTypes[] = {"char", "char", "short", "int", "long", "short", "short", "float", "double"};
  return kTypes[static_cast<size_t>(scalar)];
}

std::string constant(Scalar scalar, uint64_t bits) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(masked(scalar, bits)));
  if (scalar == Scalar::kF32) return "as_float(" + std::string(digits) + "u)";
  if (scalar == Scalar::kF64) return "as_double(" + std::string(digits) + "ul)";
  return "(" + std::string(type_of(scalar)) + ")" + digits + (scalar == Scalar::kI64 ? "ul" : "u");
}

std::string instruction(const Instruction& at, Scalar from, const std::string& a, const std::string& b, const std::string& c) {
  const Scalar type = at.type;
  auto call = [&](const char* name) { return std::string(name) + "(" + a + ")"; };
  auto infix = [&](const char* words) { return cast(type, a + " " + words + " " + b); };
  auto signs = [&](const std::string& words) { return cast(type, with_sign(type, a) + words + with_sign(type, b)); };
  const std::string width = std::to_string(type == Scalar::kI1 ? 1 : 8 * bytes_of(type));
  switch (at.op) {
    case Op::kAddF:
      return a + " + " + b;
    case Op::kSubF:
      return a + " - " + b;
    case Op::kMulF:
      return a + " * " + b;
    case Op::kDivF:
      return a + " / " + b;
    case Op::kMaximumF:
      return a + " != " + a + " ? " + a + " : " + b + " != " + b + " ? " + b + " : " + a + " > " + b + " ? " + a + " : " + b;
    case Op::kMinimumF:
      return a + " != " + a + " ? " + a + " : " + b + " != " + b + " ? " + b + " : " + a + " < " + b + " ? " + a + " : " + b;
    case Op::kPowF:
      return "pow(" + a + ", " + b + ")";
    case Op::kNegF:
      return "-" + a;
    case Op::kAbsF:
      return call("fabs");
    case Op::kCeilF:
      return call("ceil");
    case Op::kFloorF:
      return call("floor");
    case Op::kRoundEvenF:
      return call("rint");
    case Op::kSqrtF:
      return call("sqrt");
    case Op::kExpF:
      return call("exp");
    case Op::kLogF:
      return call("log");
    case Op::kTanhF:
      return call("tanh");
    case Op::kCosF:
      return call("cos");
    case Op::kSinF:
      return call("sin");
    case Op::kErfF:
      return call(type == Scalar::kF32 ? "erf_f32" : "erf");
    case Op::kAddI:
      return infix("+");
    case Op::kSubI:
      return infix("-");
    case Op::kMulI:
      return type == Scalar::kI16 ? cast(type, "(uint)" + a + " * " + b) : infix("*");
    case Op::kDivSI:
      return b + " == 0 ? " + constant(type, 0) + " : " + with_sign(type, b) + " == -1 ? " + cast(type, "0 - " + with_sign(type, a)) +
             " : " + signs(" / ");
    case Op::kRemSI:
      return b + " == 0 || " + with_sign(type, b) + " == -1 ? " + constant(type, 0) + " : " + signs(" % ");
    case Op::kDivUI:
      return b + " == 0 ? " + constant(type, 0) + " : " + infix("/");
    case Op::kRemUI:
      return b + " == 0 ? " + constant(type, 0) + " : " + infix("%");
    case Op::kMaxSI:
      return with_sign(type, a) + " > " + with_sign(type, b) + " ? " + a + " : " + b;
    case Op::kMinSI:
      return with_sign(type, a) + " < " + with_sign(type, b) + " ? " + a + " : " + b;
    case Op::kMaxUI:
      return a + " > " + b + " ? " + a + " : " + b;
    case Op::kMinUI:
      return a + " < " + b + " ? " + a + " : " + b;
    case Op::kAndI:
      return infix("&");
    case Op::kOrI:
      return infix("|");
    case Op::kXOrI:
      return infix("^");
    case Op::kShlI:
      return b + " >= " + width + " ? " + constant(type, 0) + " : " + infix("<<");
    case Op::kShrUI:
      return b + " >= " + width + " ? " + constant(type, 0) + " : " + infix(">>");
    case Op::kShrSI:
      return cast(type, with_sign(type, a) + " >> (" + b + " >= " + std::to_string(8 * bytes_of(type)) + " ? " +
                            std::to_string(8 * bytes_of(type) - 1) + " : (int)" + b + ")");
    case Op::kCompareF:
    case Op::kCompareI:
      return compare(static_cast<Predicate>(at.value), at.op == Op::kCompareF, from, a, b);
    case Op::kSelect:
      return a + " ? " + b + " : " + c;
    case Op::kExtF:
    case Op::kTruncF:
      return convert_float(from, type, a);
    case Op::kExtSI:
      return cast(type, with_sign(from, a));
    case Op::kExtUI:
    case Op::kTruncI:
    case Op::kUIToF:
      return cast(type, a);
    case Op::kSIToF:
      return "(" + std::string(type_of(type)) + ")(" + with_sign(from, a) + ")";
    case Op::kFToSI:
      return a + " != " + a + " ? " + constant(type, 0) + " : " +
             cast(type, "convert_" + std::string(signed_type(type)) + "_sat_rtz(" + a + ")");
    case Op::kFToUI:
      return a + " != " + a + " ? " + constant(type, 0) + " : " +
             cast(type, "convert_" + std::string(type_of(type)) + "_sat_rtz(" + a + ")");
    case Op::kBitcast:
      if (std::string_view(type_of(from)) == type_of(type)) return a;
      return bytes_of(type) < 4 ? cast(type, a) : "as_" + std::string(type_of(type)) + "(" + a + ")";
    case Op::kConstant:
    case Op::kExtent:
      return {};
  }
  return {};
}

}  // namespace opencl
