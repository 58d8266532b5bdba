// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparisons of all types, into a mask and into EXEC, against the host's.
#include <gtest/gtest.h>

#include <concepts>

#include "tests/amdgpu/values_of_tests.h"

namespace heddle::amdgpu {
namespace {

template <class T>
bool holds(const std::string& predicate, T a, T b) {
  const bool unordered = a != a || b != b;
  if (predicate == "lt") return a < b;
  if (predicate == "eq") return a == b;
  if (predicate == "le") return a <= b;
  if (predicate == "gt") return a > b;
  if (predicate == "ge") return a >= b;
  if (predicate == "ne") return a != b;
  if (predicate == "lg") return a < b || a > b;
  if (predicate == "o") return !unordered;
  if (predicate == "u") return unordered;
  return !holds(predicate == "neq" ? "eq" : predicate.substr(1), a, b);  // nge, nlg, ngt, nle, nlt
}

// `value` of the bits in a register, or in two.
template <class T>
void check(const std::string& type, unsigned bits, const std::function<T(uint64_t)>& value) {
  const std::vector<std::string> of_integers = {"lt", "eq", "le", "gt", "ne", "ge"},
                                 of_floats = {"lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"};
  const std::string operands = bits == 64 ? "v[0:1], v[2:3]" : "v0, v2";
  for (const char* processor : {"gfx90a", "gfx1100", "gfx1201"}) {
    for (const std::string& predicate : std::integral<T> ? of_integers : of_floats) {
      for (const bool into_exec : {false, true}) {
        if (into_exec && std::string(processor) == "gfx90a") continue;  // it writes a mask as well
        SCOPED_TRACE(std::string(processor) + " " + predicate + " " + type);
        Single single(processor);
        const std::string mask = into_exec ? "" : single.lanes() == 64 ? "s[0:1], " : "s0, ";
        single.prepare(std::string(into_exec ? "v_cmpx_" : "v_cmp_") + predicate + "_" + type + "_e64 " + mask + operands);
        Values values;
        for (unsigned round = 0; round < 10; ++round) {
          for (unsigned lane = 0; lane < single.lanes(); ++lane) {
            for (const unsigned at : {0u, 2u}) {
              const auto any = static_cast<unsigned>(values.random.next());
              single.set64(at, lane, bits == 64 ? values.bits64(any) : values.bits32(any));
            }
            if (values.random.below(4) == 0) single.set64(2, lane, single.get64(0, lane));
          }
          const uint64_t active = 0xf0f0f0f0f0f0f0f0 & single.wave().mask();
          single.wave().set_exec(active);
          single.again();
          const uint64_t got = into_exec ? single.wave().exec() : single.wave().read_mask(0);
          for (unsigned lane = 0; lane < single.lanes(); ++lane) {
            const bool expected = (active >> lane & 1) != 0 && holds(predicate, value(single.get64(0, lane)), value(single.get64(2, lane)));
            ASSERT_EQ((got >> lane & 1) != 0, expected) << std::hex << single.get64(0, lane) << " " << single.get64(2, lane);
          }
        }
      }
    }
  }
}

TEST(AmdgpuComparisons, Integers) {
  check<int64_t>("i16", 16, [](uint64_t x) { return static_cast<int16_t>(x); });
  check<uint64_t>("u16", 16, [](uint64_t x) { return static_cast<uint16_t>(x); });
  check<int64_t>("i32", 32, [](uint64_t x) { return static_cast<int32_t>(x); });
  check<uint64_t>("u32", 32, [](uint64_t x) { return static_cast<uint32_t>(x); });
  check<int64_t>("i64", 64, [](uint64_t x) { return static_cast<int64_t>(x); });
  check<uint64_t>("u64", 64, [](uint64_t x) { return x; });
}

TEST(AmdgpuComparisons, Floats) {
  check<float>("f16", 16, [](uint64_t x) { return half(x & 0xffff); });
  check<float>("f32", 32, [](uint64_t x) { return f(static_cast<uint32_t>(x)); });
  check<double>("f64", 64, [](uint64_t x) { return d(x); });
}

// GFX12 compares floats in scalar registers.
TEST(AmdgpuComparisons, ScalarFloats) {
  for (const char* predicate : {"lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"}) {
    SCOPED_TRACE(predicate);
    Single single("gfx1201");
    single.prepare(std::string("s_cmp_") + predicate + "_f32 s0, s2\ns_cselect_b32 s4, 1, 0\ns_cmp_" + predicate +
                   "_f16 s0, s2\ns_cselect_b32 s5, 1, 0");
    Values values;
    for (unsigned round = 0; round < 300; ++round) {
      const uint32_t a = values.bits32(static_cast<unsigned>(values.random.next())),
                     b = values.random.below(4) == 0 ? a : values.bits32(static_cast<unsigned>(values.random.next()));
      single.wave().scalars[0] = a;
      single.wave().scalars[2] = b;
      single.again();
      ASSERT_EQ(single.wave().scalars[4], holds<float>(predicate, f(a), f(b)) ? 1u : 0u) << f(a) << " " << f(b);
      ASSERT_EQ(single.wave().scalars[5], holds<float>(predicate, half(a & 0xffff), half(b & 0xffff)) ? 1u : 0u);
    }
  }
}

}  // namespace
}  // namespace heddle::amdgpu
