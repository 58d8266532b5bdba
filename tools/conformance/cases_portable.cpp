// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: portable code, on devices that run it. Products and convolutions that are larger than the blocks of a driver's own kernels in every direction,
// with a rest; each is compared with sums of f64.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "heddle/code.h"
#include "kernel_builder.h"
#include "session.h"

namespace heddle::conformance {
namespace {

constexpr const char* kTarget = "generic";

// ---- elements

uint64_t bytes_of(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_F32 ? 4 : 2;
}

// Numbers of [-1, 1]. Those of 16 bits are multiples of 1/64, which both types have, so that sums of them are exact in f32.
std::vector<double> random_elements(heddle_element_type_t type, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  const int64_t parts = type == HEDDLE_TYPE_F32 ? 1 << 23 : 64;
  for (double& each : out)
    each =
        static_cast<double>(static_cast<int64_t>(random_below(2 * static_cast<uint64_t>(parts) + 1)) - parts) / static_cast<double>(parts);
  return out;
}

std::vector<char> encoded(heddle_element_type_t type, const std::vector<double>& values) {
  std::vector<char> out(values.size() * bytes_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (type == HEDDLE_TYPE_BF16) bits >>= 16;
    if (type == HEDDLE_TYPE_F16) bits = (bits >> 16 & 0x8000) | (value != 0 ? ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff) : 0);
    std::memcpy(out.data() + i * bytes_of(type), &bits, bytes_of(type));
  }
  return out;
}

double decoded(heddle_element_type_t type, const char* from) {
  uint32_t bits = 0;
  std::memcpy(&bits, from, bytes_of(type));
  if (type == HEDDLE_TYPE_F16) {
    const auto exponent = static_cast<int>(bits >> 10 & 31), digits = static_cast<int>(bits & 0x3ff);
    const double size = exponent == 31  ? (digits ? std::nan("") : HUGE_VAL)
                        : exponent == 0 ? std::ldexp(digits, -24)
                                        : std::ldexp(1024 + digits, exponent - 25);
    return bits & 0x8000 ? -size : size;
  }
  if (type == HEDDLE_TYPE_BF16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return double{value};
}

// ---- what is expected

// A sum, and that of the sizes of what was added, from which follows how far rounding may lead.
struct Sums {
  explicit Sums(int64_t count) : values(static_cast<size_t>(count)), sizes(static_cast<size_t>(count)) {}
  std::vector<double> values, sizes;
  // Adds factor times a line of `count` numbers to the sums from `at` on.
  void add(int64_t at, double factor, const double* line, int64_t step, int64_t count) {
    double *value = values.data() + at, *size = sizes.data() + at;
    for (int64_t i = 0; i < count; ++i) {
      const double part = factor * line[i * step];
      value[i] += part;
      size[i] += std::fabs(part);
    }
  }
};

// One call of a kernel: its inputs, and the sums that it must come to.
struct Problem {
  portable::Kernel kernel;
  heddle_element_type_t type;
  std::vector<int64_t> symbols;
  std::vector<std::vector<double>> inputs;  // with a tail, the third is added to each row
  Sums sums;
  int64_t columns, depth;
  std::string what;
};

Problem product(ProductShape of, bool has_symbols) {
  const ProductShape fixed = of;
  std::vector<int64_t> symbols;
  if (has_symbols) {
    symbols = {of.rows, of.columns, of.depth};
    of.rows = symbol(0), of.columns = symbol(1), of.depth = symbol(2);
  }
  const int64_t batch = std::max<int64_t>(1, fixed.batch), m = fixed.rows, n = fixed.columns, k = fixed.depth;
  Problem out{product_kernel(of, static_cast<uint32_t>(symbols.size())), of.type, symbols, {}, Sums(batch * m * n), n, k, {}};
  out.inputs = {random_elements(of.type, batch * m * k), random_elements(of.type, batch * k * n)};
  if (of.has_tail) out.inputs.push_back(random_elements(of.type, n));
  for (int64_t b = 0; b < batch; ++b) {
    const double *left = out.inputs[0].data() + b * m * k, *right = out.inputs[1].data() + b * k * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t d = 0; d < k; ++d) {
        const double factor = left[of.is_left_transposed ? d * m + i : i * k + d];
        out.sums.add((b * m + i) * n, factor, of.is_right_transposed ? right + d : right + d * n, of.is_right_transposed ? k : 1, n);
      }
    }
  }
  out.what = "a product of " + std::to_string(m) + " x " + std::to_string(k) + " by " + std::to_string(k) + " x " + std::to_string(n);
  if (batch > 1) out.what += ", " + std::to_string(batch) + " times";
  if (has_symbols) out.what += ", whose extents are symbols";
  return out;
}

Problem convolution(const ConvolutionShape& of) {
  const int64_t high = of.out(0), wide = of.out(1), c = of.channels, f = of.filters;
  Problem out{convolution_kernel(of, 0), of.type, {}, {}, Sums(of.images * high * wide * f), f, of.window[0] * of.window[1] * c, {}};
  out.inputs = {random_elements(of.type, of.images * of.in[0] * of.in[1] * c),
                random_elements(of.type, of.window[0] * of.window[1] * c * f)};
  if (of.has_tail) out.inputs.push_back(random_elements(of.type, f));
  for (int64_t place = 0; place < of.images * high * wide; ++place) {
    const int64_t image = place / (high * wide), y = place / wide % high, x = place % wide;
    for (int64_t i = 0; i < of.window[0] * of.window[1]; ++i) {
      const int64_t row = y * of.strides[0] + i / of.window[1] * of.dilations[0] - of.low[0];
      const int64_t column = x * of.strides[1] + i % of.window[1] * of.dilations[1] - of.low[1];
      if (row < 0 || row >= of.in[0] || column < 0 || column >= of.in[1]) continue;
      for (int64_t k = 0; k < c; ++k) {
        const double factor = out.inputs[0][static_cast<size_t>(((image * of.in[0] + row) * of.in[1] + column) * c + k)];
        out.sums.add(place * f, factor, out.inputs[1].data() + (i * c + k) * f, 1, f);
      }
    }
  }
  auto pair = [](const std::array<int64_t, 2>& values) { return std::to_string(values[0]) + " x " + std::to_string(values[1]); };
  out.what = "a convolution of " + std::to_string(of.images) + " images of " + pair(of.in) + " x " + std::to_string(c) + " by " +
             std::to_string(f) + " filters of " + pair(of.window) + ", strides " + pair(of.strides) + ", dilations " + pair(of.dilations) +
             ", padding " + pair(of.low) + " before and " + pair(of.high) + " behind";
  return out;
}

// ---- running it

void run_problem(Session& session, const Problem& problem) {
  const portable::Kernel& kernel = problem.kernel;
  const char* element = problem.type == HEDDLE_TYPE_F32 ? "f32" : problem.type == HEDDLE_TYPE_F16 ? "f16" : "bf16";
  const bool has_tail = problem.inputs.size() > 2;
  const std::string what = problem.what + " in " + element + (has_tail ? ", with a bias and a ReLU" : "");
  const std::string code = portable::write_image({{kernel.name, portable::write_kernel(kernel)}});
  heddle_entry_params_t entry_params = {};
  entry_params.struct_size = sizeof entry_params;
  entry_params.binding_count = kernel.inputs + kernel.outputs;
  entry_params.name = string_of(kernel.name);
  entry_params.constants_bytes = kernel.symbols * 8;
  for (uint32_t& size : entry_params.workgroup_size) size = 1;
  heddle_executable_params_t params = {};
  params.struct_size = sizeof params;
  params.entry_count = 1;
  params.format = string_of(HEDDLE_CODE_PORTABLE);
  params.target = string_of(kTarget);
  params.code = code.data();
  params.code_bytes = code.size();
  params.entries = &entry_params;
  params.entry_stride = sizeof entry_params;
  params.name = string_of("conformance");
  heddle_executable_t* executable = nullptr;
  REQUIRE_OK(session.tables().dispatch.executable_load(session.device, &params, &executable));
  heddle_entry_t* entry = nullptr;
  REQUIRE_OK(session.tables().dispatch.entry(executable, 0, &entry));

  std::vector<heddle_binding_t> bindings;
  auto bind = [&](const std::vector<char>& bytes) {
    bindings.push_back({session.buffer(session.round_up(bytes.size())), 0, bytes.size()});
    session.upload(bindings.back().buffer, 0, bytes.data(), bytes.size());
  };
  for (const std::vector<double>& input : problem.inputs) bind(encoded(problem.type, input));
  const uint64_t size = bytes_of(problem.type);
  bind(std::vector<char>(problem.sums.values.size() * size, 0x77));  // results have to be written
  List list;
  session.run(list.dispatch(entry, bindings, problem.symbols, 1));

  const std::vector<char> bytes = session.download(bindings.back().buffer, 0, bindings.back().length);
  const double ulp = problem.type == HEDDLE_TYPE_F32 ? 0x1p-24 : problem.type == HEDDLE_TYPE_F16 ? 0x1p-10 : 0x1p-7;
  for (size_t i = 0; i < problem.sums.values.size(); ++i) {
    const double bias = has_tail ? problem.inputs[2][i % static_cast<size_t>(problem.columns)] : 0;
    const double sum = problem.sums.values[i] + bias, expected = has_tail ? std::max(sum, 0.0) : sum;
    // Sums in any order, each rounded to f32, and the result to its type.
    const double bound = static_cast<double>(problem.depth + 4) * 0x1p-24 * (problem.sums.sizes[i] + std::fabs(bias)) +
                         ulp * std::fabs(expected) + 0x1p-24 * ulp;
    const double found = decoded(problem.type, bytes.data() + i * size);
    REQUIRE(std::fabs(found - expected) <= bound, "%s: element %zu of %zu, row %zu and column %zu, is %.9g; %.9g was expected, within %.3g",
            what.c_str(), i, problem.sums.values.size(), i / static_cast<size_t>(problem.columns), i % static_cast<size_t>(problem.columns),
            found, expected, bound);
  }
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    CHECK(session.download(bindings[i].buffer, 0, bindings[i].length) == encoded(problem.type, problem.inputs[i]),
          "%s: input %zu was written to", what.c_str(), i);
  session.tables().dispatch.executable_unload(executable);
  for (const heddle_binding_t& binding : bindings) session.free(binding.buffer);
}

// Problems of a case. Those that need more bindings or constants than the device takes are left out.
struct Problems {
  Session session;
  bool ran = false;

  void run(const Problem& problem) {
    const portable::Kernel& kernel = problem.kernel;
    const heddle_device_description_t& limits = session.description;
    if (kernel.inputs + kernel.outputs > limits.max_bindings || kernel.symbols * 8 > limits.max_constants_bytes) return;
    run_problem(session, problem);
    ran = true;
  }
  void finish() const {
    if (!ran)
      absent("the device takes %u bindings and %u bytes of constants", session.description.max_bindings,
             session.description.max_constants_bytes);
  }
};

void need_portable_code(Session& session) {
  uint32_t rank = 0;
  REQUIRE_OK(session.tables().dispatch.variant_rank(session.device, string_of(HEDDLE_CODE_PORTABLE), string_of(kTarget), &rank));
  if (rank == 0) absent("it does not run portable code (%s)", HEDDLE_CODE_PORTABLE);
}

void products() {
  Problems problems;
  need_portable_code(problems.session);
  problems.run(product({0, 393, 525, 521}, false));
  problems.run(product({0, 70, 90, 600, false, true}, true));
  problems.run(product({0, 1, 90, 600}, true));
  problems.run(product({3, 67, 45, 300, true, false}, false));
  problems.run(product({2, 70, 90, 600, false, false, false, HEDDLE_TYPE_F16}, false));
  problems.run(product({0, 70, 90, 600, false, true, false, HEDDLE_TYPE_BF16}, true));
  problems.finish();
}

void convolutions() {
  Problems problems;
  need_portable_code(problems.session);
  problems.run(convolution({2, {23, 21}, 70, 75, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}));
  problems.run(convolution({1, {22, 21}, 30, 300, {3, 3}, {1, 1}, {1, 2}, {1, 2}, {1, 2}}));
  problems.run(convolution({2, {19, 8}, 5, 6, {3, 2}, {2, 1}, {1, 2}, {1, 2}, {2, 1}, false, HEDDLE_TYPE_F16}));
  problems.run(convolution({3, {7, 9}, 40, 33, {1, 1}, {2, 1}}));
  problems.finish();
}

void tails() {
  Problems problems;
  need_portable_code(problems.session);
  for (heddle_element_type_t type : {HEDDLE_TYPE_F32, HEDDLE_TYPE_F16, HEDDLE_TYPE_BF16}) {
    problems.run(product({0, 70, 90, 300, false, false, true, type}, type == HEDDLE_TYPE_F32));
    problems.run(product({2, 13, 270, 30, false, true, true, type}, false));
    problems.run(convolution({2, {12, 11}, 35, 40, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 1}, true, type}));
  }
  problems.finish();
}

}  // namespace

void add_portable_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"portable.products",
        "products of matrices in portable code are right, when they are larger than a block of a kernel in every direction, with a rest",
        products, Kind::kDriver},
       {"portable.convolutions",
        "convolutions in portable code are right, with padding, strides and dilations, and many channels and filters", convolutions,
        Kind::kDriver},
       {"portable.tails", "a bias and an activation behind a product or a convolution are computed", tails, Kind::kDriver}});
}

}  // namespace heddle::conformance
