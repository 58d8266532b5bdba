// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole kernels, compiled by clang for each processor, against the host. Each runs with several seeds, which change the order of waves and workgroups and
// the times at which memory operations happen.
#include <cmath>
#include <numeric>
#include <random>

#include "tests/amdgpu/harness.h"

namespace heddle::amdgpu {
namespace {

constexpr uint64_t kSeeds = 6;

class AmdgpuKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { code_ = CodeObject::load(read_code_object(std::string("kernels.") + GetParam() + ".hsaco")); }
  Call call(const char* name, Grid grid, Grid block) { return Call{*code_, name, grid, block}; }
  template <class T>
  std::vector<T> random(size_t n, double low, double high) {
    std::uniform_real_distribution<double> d(low, high);
    std::vector<T> v(n);
    for (T& x : v) x = static_cast<T>(d(engine_));
    return v;
  }
  std::unique_ptr<CodeObject> code_;
  std::mt19937_64 engine_{5};
};
INSTANTIATE_TEST_SUITE_P(Processors, AmdgpuKernels, testing::Values("gfx90a", "gfx942", "gfx1100", "gfx1100_wave64", "gfx1201"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AmdgpuKernels, Elementwise) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    auto x = random<float>(1000, -3, 3), y = random<float>(1000, -3, 3);
    auto expected = y;
    for (size_t i = 0; i < 777; ++i) expected[i] = 1.7F * x[i] + y[i];
    const Outcome o = call("saxpy", {1024}, {256}).array(x, false).array(y).value(1.7F).value(777).run(seed);
    ASSERT_EQ(o.fault, "");
    EXPECT_EQ(y, expected);
    EXPECT_EQ(o.statistics.workgroups, 4u);
    EXPECT_GT(o.statistics.by_opcode.at("s_endpgm"), 0u);
  }
}

TEST_P(AmdgpuKernels, Halves) {
  std::vector<_Float16> x(512), y(512), z(512);
  for (size_t i = 0; i < 512; ++i)
    x[i] = static_cast<_Float16>(std::sin(double(i)) * 50), y[i] = static_cast<_Float16>(std::cos(double(i)));
  auto expected = y;
  // Each operation rounded; the compiler was told not to fuse.
  for (size_t i = 0; i < 512; ++i) expected[i] = static_cast<_Float16>(float(static_cast<_Float16>(1.5F * float(x[i]))) + float(y[i]));
  ASSERT_EQ(call("axpy_half2", {256}, {256}).array(x, false).array(y).value(static_cast<_Float16>(1.5F)).value(256).run(1).fault, "");
  for (size_t i = 0; i < 512; ++i) ASSERT_EQ(float(y[i]), float(expected[i])) << i;
  ASSERT_EQ(call("scale_half", {512}, {256}).array(x, false).array(z).value(static_cast<_Float16>(0.25F)).value(512).run(1).fault, "");
  for (size_t i = 0; i < 512; ++i) {
    const double exact = double(static_cast<_Float16>(float(x[i]) + 0.25F)) / 3;
    ASSERT_EQ(float(z[i]), float(static_cast<_Float16>(exact))) << i;
  }
}

TEST_P(AmdgpuKernels, Bytes) {
  std::vector<int8_t> x(1024), y(1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int8_t>(i * 37);
  ASSERT_EQ(call("requantize", {256}, {256}).array(x, false).array(y).value(1.37F).value(256).run(2).fault, "");
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y[i], static_cast<int8_t>(std::clamp(std::nearbyint(float(x[i]) * 1.37F), -128.0F, 127.0F)));
  std::vector<int8_t> a(64 * 9 * 4), b(64 * 9 * 4);
  std::vector<int32_t> sums(64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(i * 91), b[i] = static_cast<int8_t>(i * 17 + 5);
  ASSERT_EQ(call("dot_i8", {64}, {64}).array(a, false).array(b, false).array(sums).value(9).run(2).fault, "");
  for (size_t i = 0; i < 64; ++i) {
    int32_t sum = 0;
    for (size_t k = 0; k < 36; ++k) sum += a[i * 36 + k] * b[i * 36 + k];
    EXPECT_EQ(sums[i], sum);
  }
}

TEST_P(AmdgpuKernels, Reduction) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    auto x = random<float>(1024, -1, 1);
    std::vector<float> y(4);
    const Outcome o = call("reduce", {1024}, {256}).array(x, false).array(y).run(seed);
    ASSERT_EQ(o.fault, "");
    for (size_t g = 0; g < 4; ++g) {
      std::vector<float> s(x.begin() + static_cast<ptrdiff_t>(g * 256), x.begin() + static_cast<ptrdiff_t>(g * 256 + 256));
      for (size_t d = 128; d > 0; d /= 2) {
        for (size_t t = 0; t < d; ++t) s[t] += s[t + d];
      }
      EXPECT_EQ(y[g], s[0]);
    }
    EXPECT_EQ(o.statistics.barriers, 4 * 8u);
  }
}

TEST_P(AmdgpuKernels, Exchanges) {
  std::vector<int32_t> x(128), y(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * i * 7919);
  ASSERT_EQ(call("exchange", {128}, {64}).array(x, false).array(y).run(3).fault, "");
  for (size_t g = 0; g < 128; g += 32) {
    const auto at = [&](size_t i) { return static_cast<uint32_t>(x[g + i]); };
    std::array<uint32_t, 32> w{}, v{};
    for (size_t i = 0; i < 32; ++i) v[i] = at(i);
    const auto step = [](const std::array<uint32_t, 32>& from, auto lane) {
      auto to = from;
      for (size_t i = 0; i < 32; ++i) to[i] += from[lane(i)];
      return to;
    };
    w = step(v, [](size_t i) { return i ^ 1; });
    w = step(w, [](size_t i) { return i ^ 2; });
    w = step(w, [](size_t i) { return i ^ 7; });
    w = step(w, [](size_t i) { return i ^ 15; });
    const uint32_t sum = std::accumulate(v.begin(), v.end(), 0u);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(static_cast<uint32_t>(y[2 * (g + i)]), sum);
      const uint32_t first = g % 64 != 0 && code_->kernel("exchange")->wave_size == 32 ? 32 : 0;  // of the wave
      EXPECT_EQ(static_cast<uint32_t>(y[2 * (g + i) + 1]), w[i] + first);
    }
  }
}

TEST_P(AmdgpuKernels, MatrixProduct) {
  const int m = 37, n = 41, k = 53;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    auto a = random<float>(m * k, -1, 1), b = random<float>(k * n, -1, 1);
    std::vector<float> c(m * n, -7);
    const Outcome o = call("matmul", {48, 48}, {16, 16}).array(a, false).array(b, false).array(c).value(m).value(n).value(k).run(seed);
    ASSERT_EQ(o.fault, "");
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        float sum = 0;
        for (int t = 0; t < k; ++t) sum = std::fma(a[size_t(i * k + t)], b[size_t(t * n + j)], sum);
        ASSERT_EQ(c[size_t(i * n + j)], sum) << i << " " << j;
      }
    }
  }
}

TEST_P(AmdgpuKernels, IntegerDivision) {
  std::vector<int32_t> a(256), b(256), out(1024);
  std::vector<int64_t> c(256), d(256), wide(1024);
  const int64_t special[] = {1,         -1,        2,          3,           7,       INT32_MAX, INT64_MAX,
                             INT64_MIN, INT32_MIN, 0xffffffff, 0x100000000, 1000003, -1000003,  0x7fffffff00000000};
  for (size_t i = 0; i < 256; ++i) {
    const auto pick = [&] {
      return engine_() % 2 == 0 ? special[engine_() % std::size(special)] : static_cast<int64_t>(engine_() >> engine_() % 64);
    };
    c[i] = pick();
    do d[i] = pick();
    while (d[i] == 0 || (d[i] == -1 && c[i] == INT64_MIN));
    a[i] = static_cast<int32_t>(pick());
    do b[i] = static_cast<int32_t>(pick());
    while (b[i] == 0 || (b[i] == -1 && a[i] == INT32_MIN));
  }
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(
        call("divide", {256}, {64}).array(a, false).array(b, false).array(out).array(c, false).array(d, false).array(wide).run(seed).fault,
        "");
    for (size_t i = 0; i < 256; ++i) {
      SCOPED_TRACE(std::to_string(a[i]) + " / " + std::to_string(b[i]) + ", " + std::to_string(c[i]) + " / " + std::to_string(d[i]));
      ASSERT_EQ(out[4 * i], a[i] / b[i]);
      ASSERT_EQ(out[4 * i + 1], a[i] % b[i]);
      ASSERT_EQ(static_cast<uint32_t>(out[4 * i + 2]), static_cast<uint32_t>(a[i]) / static_cast<uint32_t>(b[i]));
      ASSERT_EQ(static_cast<uint32_t>(out[4 * i + 3]), static_cast<uint32_t>(a[i]) % static_cast<uint32_t>(b[i]));
      ASSERT_EQ(wide[4 * i], c[i] / d[i]);
      ASSERT_EQ(wide[4 * i + 1], c[i] % d[i]);
      ASSERT_EQ(static_cast<uint64_t>(wide[4 * i + 2]), static_cast<uint64_t>(c[i]) / static_cast<uint64_t>(d[i]));
      ASSERT_EQ(wide[4 * i + 3], a[i] / 7 + c[i] / 1000003);
    }
  }
}

// Correctly rounded, although v_rcp and v_sqrt are off by up to an ulp, for all kinds of operands.
TEST_P(AmdgpuKernels, FloatDivision) {
  const auto equal = [](auto x, auto y) { return std::isnan(x) ? std::isnan(y) : std::memcmp(&x, &y, sizeof(x)) == 0; };
  // LLVM's sequence of refinements can round wrongly where all bits of the divisor's significand are set, unless the reciprocal is better than stated.
  const auto hard = [](auto divisor, auto expected, auto got) {
    int e = 0;
    const auto significand = std::fabs(std::frexp(divisor, &e));
    return significand == std::nextafter(decltype(divisor){1}, decltype(divisor){0}) && std::nextafter(got, expected) == expected;
  };
  const size_t n = 64 * 100;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    std::vector<float> a(n), b(n), out(2 * n);
    std::vector<double> c(n), d(n), wide(2 * n);
    for (size_t i = 0; i < n; ++i) {
      const auto bits = [&]() -> uint32_t {
        const uint64_t r = engine_();
        static const uint32_t kSpecial[] = {0,          0x80000000, 1,          0x007fffff, 0x00800000, 0x7f7fffff,
                                            0x7f800000, 0x7fc00000, 0x3f800000, 0x7e800000, 0x7f000000, 0x00ffffff};
        return r % 8 == 0 ? kSpecial[(r >> 8) % std::size(kSpecial)] : static_cast<uint32_t>(r >> 20);
      };
      const auto bits64 = [&]() -> uint64_t {
        const uint64_t r = engine_();
        static const uint64_t kSpecial[] = {0,
                                            1,
                                            0x000fffffffffffff,
                                            0x0010000000000000,
                                            0x7fefffffffffffff,
                                            0x7ff0000000000000,
                                            0x7ff8000000000000,
                                            0x3ff0000000000000,
                                            0x7fd0000000000000,
                                            0x7fe0000000000000,
                                            uint64_t{1} << 63};
        return engine_() % 8 == 0 ? kSpecial[r % std::size(kSpecial)] : r;
      };
      a[i] = std::bit_cast<float>(bits());
      b[i] = std::bit_cast<float>(bits());
      c[i] = std::bit_cast<double>(bits64());
      d[i] = std::bit_cast<double>(bits64());
    }
    ASSERT_EQ(call("divide_float", {uint32_t(n)}, {64}).array(a, false).array(b, false).array(out).value(int(n)).run(seed).fault, "");
    ASSERT_EQ(call("divide_double", {uint32_t(n)}, {64}).array(c, false).array(d, false).array(wide).value(int(n)).run(seed).fault, "");
    for (size_t i = 0; i < n; ++i) {
      ASSERT_TRUE(equal(a[i] / b[i], out[2 * i]) || hard(b[i], a[i] / b[i], out[2 * i]))
          << a[i] << " / " << b[i] << " = " << out[2 * i] << ", expected " << a[i] / b[i];
      ASSERT_TRUE(equal(std::sqrt(a[i]), out[2 * i + 1])) << "sqrt " << a[i] << " = " << out[2 * i + 1];
      ASSERT_TRUE(equal(c[i] / d[i], wide[2 * i]) || hard(d[i], c[i] / d[i], wide[2 * i]))
          << c[i] << " / " << d[i] << " = " << wide[2 * i] << ", expected " << c[i] / d[i];
      ASSERT_TRUE(equal(std::sqrt(c[i]), wide[2 * i + 1])) << "sqrt " << c[i] << " = " << wide[2 * i + 1];
    }
  }
}

TEST_P(AmdgpuKernels, Functions) {
  auto x = random<float>(256, -20, 20);
  std::vector<float> y(6 * 256);
  ASSERT_EQ(call("functions", {256}, {64}).array(x, false).array(y).value(256).run(4).fault, "");
  for (size_t i = 0; i < 256; ++i) {
    const double v = x[i];
    EXPECT_NEAR(y[6 * i] / std::exp(v), 1, 4e-7) << v;
    EXPECT_NEAR(y[6 * i + 1], std::log(std::fabs(v)), 4e-7 + std::fabs(std::log(std::fabs(v))) * 3e-7) << v;
    EXPECT_NEAR(y[6 * i + 2] / std::exp2(v), 1, 2e-7) << v;
    EXPECT_NEAR(y[6 * i + 3], std::log2(std::fabs(v)), 1e-6) << v;
    EXPECT_EQ(y[6 * i + 4], std::floor(x[i]) + std::trunc(x[i]) + std::ceil(x[i]) + std::rint(x[i]));
    EXPECT_NEAR(y[6 * i + 5], std::sin(v), 4e-6) << v;
  }
}

TEST_P(AmdgpuKernels, Divergence) {
  std::vector<uint32_t> x(256), y(256);
  for (size_t i = 0; i < 256; ++i) x[i] = static_cast<uint32_t>(i * 31 + 1);
  ASSERT_EQ(call("collatz", {256}, {64}).array(x, false).array(y).run(5).fault, "");
  for (size_t i = 0; i < 256; ++i) {
    uint32_t v = x[i], steps = 0, odd = 0;
    while (v != 1 && steps < 1000) {
      if ((v & 1) != 0) {
        v = 3 * v + 1;
        if (++odd % 5 == 0) (v & 3) == 0 ? steps += 1 : (v & 3) == 1 ? steps += 2 : odd += 1;
      } else {
        v >>= 1;
      }
      ++steps;
    }
    EXPECT_EQ(y[i], steps * 1000 + odd);
  }
}

TEST_P(AmdgpuKernels, FarAddresses) {
  // One element every 4 GiB in the kernel's address space, and a pointer in their middle.
  std::vector<int32_t> near(64), y(64);
  std::vector<int64_t> index(64);
  Call c = call("gather_far", {64}, {64});
  const uint64_t middle = uint64_t{0x123456789a} << 8;
  for (size_t i = 0; i < 64; ++i) {
    near[i] = static_cast<int32_t>(i * 1000);
    index[i] = static_cast<int64_t>(i) - 32;
    c.memory.map(middle + static_cast<uint64_t>(index[i] * 4294967296 - 12), &near[i], 4, false, "element");
  }
  ASSERT_EQ(c.value(middle).array(index, false).array(y).value(int64_t{1073741824}).run(1).fault, "");
  EXPECT_EQ(y, near);
}

TEST_P(AmdgpuKernels, Atomics) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<int32_t> counters(18);
    std::vector<uint32_t> bits(65);
    std::vector<float> sum(1);
    std::vector<uint64_t> wide(1);
    const Outcome o = call("atomics", {1024}, {128}).array(counters).array(bits).array(sum).array(wide).run(seed);
    ASSERT_EQ(o.fault, "");
    std::vector<int32_t> expected(18);
    for (int i = 0; i < 1024; ++i) expected[size_t(i * 7 % 16)] += i;
    expected[16] = 1023;
    expected[17] = -1023;
    EXPECT_EQ(counters, expected);
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(bits[i], ~0u);
    EXPECT_EQ(bits[64], 3072u);
    EXPECT_EQ(sum[0], 512.0F);
    EXPECT_EQ(wide[0], uint64_t{1023 * 512} << 30);
  }
}

TEST_P(AmdgpuKernels, PrivateMemoryAndCalls) {
  std::vector<int32_t> x(128), y(128);
  for (size_t i = 0; i < 128; ++i) x[i] = static_cast<int32_t>(i * 77 + 3);
  ASSERT_EQ(call("private_array", {128}, {64}).array(x, false).array(y).run(1).fault, "");
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(y[i], x[i] * (x[i] % 24) + x[i] * int(i % 24));
  std::vector<int32_t> p(512);
  for (size_t i = 0; i < 512; ++i) p[i] = static_cast<int32_t>(i * 13);
  ASSERT_EQ(call("calls", {128}, {64}).array(p).array(y).run(1).fault, "");
  for (size_t i = 0; i < 128; ++i) {
    const auto weigh = [&](int add) {
      int sum = 0;
      for (int k = 0; k < 4; ++k) sum += (p[4 * i + size_t(k)] + add) * (k + 1);
      return sum;
    };
    EXPECT_EQ(y[i], (weigh(1) * 31 + weigh(2)) * 31 + weigh(0));
  }
}

TEST_P(AmdgpuKernels, ConstantsAndSizes) {
  std::vector<int32_t> x(256), y(256);
  for (size_t i = 0; i < 256; ++i) x[i] = static_cast<int32_t>(i * 5);
  ASSERT_EQ(call("look_up", {256}, {64}).array(x, false).array(y).run(1).fault, "");
  const int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(y[i], table[x[i] & 15] * 10 + table[i / 64]);
  // All three dimensions, through the hidden arguments and the dispatch packet.
  std::vector<uint32_t> sizes(2 * 3 * 1 * 8 * 4 * 2);
  ASSERT_EQ(call("sizes", {16, 12, 2}, {8, 4, 2}).array(sizes).run(1).fault, "");
  for (size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(sizes[i], 8 * 1000000 + 4 * 1000 + i % 64 + 16);
}

TEST_P(AmdgpuKernels, BuffersOutOfRangeRead0) {
  std::vector<float> x(64, 2.0F), y(128, -1);
  ASSERT_EQ(call("buffer", {128}, {64}).array(x, false).array(y).value(200).run(1).fault, "");
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(y[i], i < 50 ? 2.0F : 0.0F);
}

TEST_P(AmdgpuKernels, Intrinsics) {
  const std::string processor = std::string(GetParam()).substr(0, std::string(GetParam()).find('_'));
  const auto code = CodeObject::load(read_code_object("intrinsics." + processor + ".hsaco"));
  auto x = random<float>(64, -5, 5);
  std::vector<uint32_t> y(320);
  Call c{*code, "intrinsics", {64}, {64}};
  ASSERT_EQ(c.array(x, false).array(y).run(1).fault, "");
  for (uint32_t t = 0; t < 64; ++t) {
    const auto toward_zero = [](float v) {
      auto h = static_cast<_Float16>(v);
      uint16_t bits = std::bit_cast<uint16_t>(h);
      if (std::fabs(float(h)) > std::fabs(v)) --bits;
      return std::bit_cast<_Float16>(bits);
    };
    const auto add = [](_Float16 v) { return uint32_t{std::bit_cast<uint16_t>(static_cast<_Float16>(float(v) + 1))}; };
    const uint32_t b = add(toward_zero(x[t])) | add(toward_zero(std::clamp(x[t], -2.0F, 3.5F))) << 16;
    EXPECT_EQ(y[5 * t], b);
    const auto s = static_cast<uint32_t>((uint64_t{b} << 32 | t) << 7 >> 32);
    EXPECT_EQ(y[5 * t + 1], s);
    EXPECT_EQ(y[5 * t + 2], static_cast<uint32_t>(__builtin_popcount(s)));
    EXPECT_EQ(y[5 * t + 3], t == 0 ? 32u : static_cast<uint32_t>(__builtin_clz(t)));
    uint32_t reversed = 0;
    for (unsigned n = 0; n < 32; ++n) reversed |= (t >> n & 1) << (31 - n);
    EXPECT_EQ(y[5 * t + 4], static_cast<uint32_t>(std::min<uint64_t>(uint64_t{reversed} + 0x80000000, 0xffffffff)));
  }
}

// The same seed gives the same run, to the last instruction.
TEST_P(AmdgpuKernels, SeedsReproduce) {
  auto x = random<float>(1024, -1, 1);
  std::vector<float> y(4), sum(1);
  std::vector<uint64_t> instructions;
  for (const uint64_t seed : {3, 3, 4})
    instructions.push_back(call("reduce", {1024}, {256}).array(x, false).array(y).run(seed).statistics.instructions);
  EXPECT_EQ(instructions[0], instructions[1]);
}

TEST(AmdgpuCodeObjects, SymbolsAndKernels) {
  const auto code = CodeObject::load(read_code_object("kernels.gfx90a.hsaco"), 0x700000000000);
  uint64_t address = 0, bytes = 0;
  ASSERT_TRUE(code->symbol("reduce.kd", address, bytes));
  EXPECT_EQ(bytes, 64u);
  EXPECT_GT(address, 0x700000000000u);
  EXPECT_EQ(code->kernel_at(address), code->kernel("reduce"));
  EXPECT_EQ(code->kernel_at(address + 64 * 1000), nullptr);
  EXPECT_FALSE(code->symbol("none", address, bytes));
  const Kernel& k = *code->kernel("reduce");
  EXPECT_EQ(k.lds_bytes, 1024u);
  EXPECT_EQ(k.wave_size, 64u);
  EXPECT_EQ(k.arguments.size(), 2u);
  EXPECT_EQ(k.arguments[1].kind, "global_buffer");
}

TEST(AmdgpuCodeObjects, Version4) {
  for (const char* processor : {"gfx90a", "gfx1100"}) {
    SCOPED_TRACE(processor);
    const auto code = CodeObject::load(read_code_object(std::string("version4.") + processor + ".hsaco"));
    std::vector<uint32_t> sizes(2 * 3 * 1 * 8 * 4 * 2);
    Call c{*code, "sizes", {16, 12, 2}, {8, 4, 2}};
    ASSERT_EQ(c.array(sizes).run(1).fault, "");
    for (size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(sizes[i], 8 * 1000000 + 4 * 1000 + i % 64 + 16);
  }
}

}  // namespace
}  // namespace heddle::amdgpu
