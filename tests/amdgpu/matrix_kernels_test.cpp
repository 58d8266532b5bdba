// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled kernels with matrix instructions, and faults that are planted into them.
#include <algorithm>

#include "tests/amdgpu/assemble.h"
#include "tests/amdgpu/harness.h"
#include "tests/amdgpu/values.h"

namespace heddle::amdgpu {
namespace {

class AmdgpuMatrixKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { bytes_ = read_code_object(std::string("matrix.") + GetParam() + ".hsaco"); }
  bool cdna() const { return GetParam()[3] == '9'; }

  // The text of a fault, "wrong", or nothing. Small integers, whose sums are exact.
  template <class In, class Out, class Convert>
  std::string product(const char* kernel, const Convert& convert, uint64_t seed, Outcome* outcome = nullptr) {
    const auto code = CodeObject::load(bytes_);
    constexpr uint32_t m = 64, n = 96, k = 48;
    const uint32_t tile = cdna() ? 32 : 16, wave = cdna() ? 64 : 32;
    std::vector<int> a(m * k), b(n * k);
    std::vector<In> a_in, b_in;
    for (size_t i = 0; i < a.size(); ++i) a_in.push_back(convert(a[i] = static_cast<int>(i * 7919 % 11) - 5));
    for (size_t i = 0; i < b.size(); ++i) b_in.push_back(convert(b[i] = static_cast<int>(i * 6007 % 13) - 6));
    std::vector<Out> c(size_t{m} * n, Out{-1});
    Call call{*code, kernel, {n / tile * wave, m / tile}, {wave}};
    const Outcome o =
        call.array(a_in, false).array(b_in, false).array(c).value(static_cast<int32_t>(n)).value(static_cast<int32_t>(k)).run(seed);
    if (outcome != nullptr) *outcome = o;
    if (!o.ok()) return o.fault;
    for (size_t row = 0; row < m; ++row) {
      for (size_t column = 0; column < n; ++column) {
        int sum = 0;
        for (size_t i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
        if (c[row * n + column] != static_cast<Out>(sum)) return "wrong";
      }
    }
    return "";
  }
  std::string product_f16(uint64_t seed = 0, Outcome* outcome = nullptr) {
    return product<uint16_t, float>("product_f16", [](int x) { return float_to_half(static_cast<float>(x)); }, seed, outcome);
  }

  std::vector<Line> find(const std::string& prefix, const char* kernel = "product_f16") {
    const auto code = CodeObject::load(bytes_);
    std::vector<Line> found;
    for (const Line& line : code->listing(kernel)) {
      if (line.text.rfind(prefix, 0) == 0) found.push_back(line);
    }
    return found;
  }
  void replace(const Line& line, const std::string& text) {
    auto code = assemble(GetParam(), text);
    ASSERT_LE(code.size(), line.bytes) << text;
    const auto nop = assemble(GetParam(), "s_nop 0");
    while (code.size() < line.bytes) code.insert(code.end(), nop.begin(), nop.end());
    std::copy(code.begin(), code.end(), bytes_.begin() + static_cast<ptrdiff_t>(line.file_offset));
  }
  std::vector<std::byte> bytes_;
};
INSTANTIATE_TEST_SUITE_P(Processors, AmdgpuMatrixKernels, testing::Values("gfx90a", "gfx942", "gfx1100", "gfx1201"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AmdgpuMatrixKernels, Products) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    Outcome outcome;
    EXPECT_EQ(product_f16(seed, &outcome), "");
    uint64_t matrix = 0;
    for (const auto& [name, count] : outcome.statistics.by_opcode) matrix += name.rfind(cdna() ? "v_mfma_" : "v_wmma_", 0) == 0 ? count : 0;
    EXPECT_EQ(matrix, cdna() ? 2 * 3 * 6 : 4 * 6 * 3);  // tiles, steps
    EXPECT_EQ((product<uint16_t, float>(
                  "product_bf16", [](int x) { return static_cast<uint16_t>(as_bits(static_cast<float>(x)) >> 16); }, seed)),
              "");
    EXPECT_EQ((product<int8_t, int32_t>("product_i8", [](int x) { return static_cast<int8_t>(x); }, seed)), "");
    if (cdna()) {
      EXPECT_EQ((product<float, float>("product_f32", [](int x) { return static_cast<float>(x); }, seed)), "");
    }
  }
}

// D, A, B, C of the matrix instruction of the loop.
std::vector<std::string> operands_of(const std::string& text) {
  std::vector<std::string> parts;
  size_t start = text.find(' ');
  while (start != std::string::npos && start + 1 < text.size()) {
    const size_t end = text.find(", ", start + 1);
    parts.push_back(text.substr(start + 1, end == std::string::npos ? std::string::npos : end - start - 1));
    start = end == std::string::npos ? end : end + 1;
  }
  return parts;
}
std::string moved(const std::string& registers, int by) {
  const size_t colon = registers.find(':');
  const int first = std::stoi(registers.substr(2)), last = std::stoi(registers.substr(colon + 1));
  return registers.substr(0, 2) + std::to_string(first + by) + ":" + std::to_string(last + by) + "]";
}

TEST_P(AmdgpuMatrixKernels, PlantedFaultsAreFound) {
  const auto original = bytes_;
  const auto instructions = find(cdna() ? "v_mfma_" : "v_wmma_");
  ASSERT_EQ(instructions.size(), 1u);
  const Line& line = instructions[0];
  const std::string name = line.text.substr(0, line.text.find(' '));
  const auto o = operands_of(line.text);
  ASSERT_EQ(o.size(), 4u);
  const auto expect_found = [&](const char* what) {
    EXPECT_FALSE(HasFatalFailure());
    std::string result;
    for (uint64_t seed = 0; seed < 4 && result.empty(); ++seed) result = product_f16(seed);
    EXPECT_NE(result, "") << what;
    bytes_ = original;
  };
  const auto planted = [&](const char* what, const std::string& text) {
    replace(line, text);
    expect_found(what);
  };
  planted("A and B exchanged", name + " " + o[0] + ", " + o[2] + ", " + o[1] + ", " + o[3]);
  planted("A twice", name + " " + o[0] + ", " + o[1] + ", " + o[1] + ", " + o[3]);
  planted("nothing added to C", name + " " + o[0] + ", " + o[1] + ", " + o[2] + ", 0");
  planted("other registers of A", name + " " + o[0] + ", " + moved(o[1], cdna() ? 2 : 1) + ", " + o[2] + ", " + o[3]);
  if (cdna()) planted("lanes of B exchanged", line.text + " blgp:3");
  if (cdna()) planted("lanes of B repeated", line.text + " blgp:1");
  if (!cdna()) planted("signs of A", line.text + " neg_lo:[1,0,0]");
  // A lane that loads the wrong row, or stores to it.
  const unsigned mask = cdna() ? 31 : 15;
  for (const Line& shift : find("v_and_b32")) {
    if (shift.text.find(", " + std::to_string(mask) + ", ") == std::string::npos) continue;
    std::string text = shift.text;
    text.replace(text.find(", " + std::to_string(mask)), 2 + std::to_string(mask).size(), ", " + std::to_string(mask - 1));
    replace(shift, text);
    expect_found("the row of a lane");
  }
  for (const Line& wait : find("s_wait")) {
    if (wait.address > line.address || line.address - wait.address > 12) continue;
    replace(wait, "s_nop 0");
    expect_found("a load that is not waited for");
  }
}

class AmdgpuMatrixKernelsOfCdna : public AmdgpuMatrixKernels {};
INSTANTIATE_TEST_SUITE_P(Processors, AmdgpuMatrixKernelsOfCdna, testing::Values("gfx90a", "gfx942"),
                         [](const auto& info) { return std::string(info.param); });

// LLVM inserts exactly as many wait states as are needed after the loop: one fewer is found.
TEST_P(AmdgpuMatrixKernelsOfCdna, MissingWaitStatesAreFound) {
  const auto of_f32 = [&] { return product<float, float>("product_f32", [](int x) { return static_cast<float>(x); }, 0); };
  const auto waits = find("s_nop", "product_f32");
  ASSERT_EQ(waits.size(), 1u);
  const int states = std::stoi(waits[0].text.substr(6));
  ASSERT_GE(states, 1);
  EXPECT_EQ(of_f32(), "");
  replace(waits[0], "s_nop " + std::to_string(states - 1));
  EXPECT_NE(of_f32().find("wait states before"), std::string::npos) << of_f32();
}

class AmdgpuMatrixKernelsOfRdna3 : public AmdgpuMatrixKernels {};
INSTANTIATE_TEST_SUITE_P(Processors, AmdgpuMatrixKernelsOfRdna3, testing::Values("gfx1100"),
                         [](const auto& info) { return std::string(info.param); });

// The lanes from 16 on load other rows.
TEST_P(AmdgpuMatrixKernelsOfRdna3, MissingReplicasAreFound) {
  size_t changed = 0;
  for (const Line& line : find("v_and_b32")) {
    if (line.text.find(", 15, ") == std::string::npos) continue;
    std::string text = line.text;
    replace(line, text.replace(text.find(", 15, "), 6, ", 31, "));
    ++changed;
  }
  ASSERT_GE(changed, 1u);
  EXPECT_NE(product_f16().find("have to repeat the first 16"), std::string::npos) << product_f16();
}

}  // namespace
}  // namespace heddle::amdgpu
