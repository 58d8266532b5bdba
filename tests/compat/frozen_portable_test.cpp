// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Frozen portable code: each image of portable/N/ is read, verified and interpreted, with the results that it had when it was frozen (NAME.results).
// Together the files have everything that the format has, which is checked, too. They are never written again; a new version gets a folder of its own.
//
// To freeze a version: freeze_portable.py compiles models; then HEDDLE_FREEZE_PORTABLE=1 writes instructions.port, and results that are missing.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "heddle/sdk/portable/interpreter.h"
#include "heddle/sdk/portable/ops.h"
#include "heddle/sdk/portable/text.h"

namespace portable = heddle::sdk::portable;
using portable::Expression;
using portable::NodeKind;
using portable::Op;
using portable::Predicate;
using portable::Scalar;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(HEDDLE_COMPAT_FOLDER) / "portable";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Types of elements that kernels have.
constexpr heddle_element_type_t kElements[] = {HEDDLE_TYPE_BOOL, HEDDLE_TYPE_I8,  HEDDLE_TYPE_U8,  HEDDLE_TYPE_I16, HEDDLE_TYPE_U16,
                                               HEDDLE_TYPE_I32,  HEDDLE_TYPE_U32, HEDDLE_TYPE_I64, HEDDLE_TYPE_U64, HEDDLE_TYPE_F16,
                                               HEDDLE_TYPE_BF16, HEDDLE_TYPE_F32, HEDDLE_TYPE_F64};
constexpr uint32_t kAttributeTypes = static_cast<uint32_t>(portable::AttributeType::kFloats) + 1;

// ---------------------------------------------------------------------------------------------------- inputs and results

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed) {}
  uint32_t next() { return (state_ = state_ * 1664525u + 1013904223u) >> 16; }

 private:
  uint32_t state_;
};

double of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 0   ? std::ldexp(fraction, -24)
                       : exponent < 31 ? std::ldexp(1024 + fraction, exponent - 25)
                       : fraction      ? NAN
                                       : INFINITY;
  return bits >> 15 ? -value : value;
}

// The number in memory at `from`, of a type of floats.
double real_at(heddle_element_type_t type, const char* from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  if (type == HEDDLE_TYPE_F16) return of_half(half);
  const uint32_t single = uint32_t{half} << 16;
  float f32;
  double f64;
  if (type == HEDDLE_TYPE_BF16) {
    std::memcpy(&f32, &single, 4);
    return f32;
  }
  if (type == HEDDLE_TYPE_F32) {
    std::memcpy(&f32, from, 4);
    return f32;
  }
  std::memcpy(&f64, from, 8);
  return f64;
}

// Bits of a number that all of these types have exactly: of at most 8 binary digits, 0, an infinity or NaN.
uint64_t bits_of_real(heddle_element_type_t type, double value) {
  if (type == HEDDLE_TYPE_F64) {
    uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
  const auto f32 = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f32, 4);
  if (type == HEDDLE_TYPE_F32) return bits;
  if (type == HEDDLE_TYPE_BF16) return bits >> 16;
  const uint32_t sign = bits >> 16 & 0x8000;
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return sign | 0x7c00;
  return value == 0 ? sign : sign | (((bits >> 23 & 255) - 112) << 10 | (bits >> 13 & 1023));
}

// Elements of an input: small numbers and, with `specials`, also what is at the borders.
std::string input_of(heddle_element_type_t type, uint64_t count, uint32_t seed, bool specials) {
  Scalar scalar;
  portable::scalar_of(type, &scalar);
  const uint32_t bytes = portable::bytes_of(scalar);
  std::string out;
  Numbers numbers(seed);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bits;
    if (portable::is_float(scalar)) {
      const double borders[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 300.0};
      double value = (static_cast<double>(numbers.next() % 256) - 128) / 64;
      if (specials && i % 12 >= 6) value = borders[i % 6];
      bits = bits_of_real(type, value);
    } else if (type == HEDDLE_TYPE_BOOL) {
      bits = numbers.next() & 1;
    } else {
      const bool has_sign = type == HEDDLE_TYPE_I8 || type == HEDDLE_TYPE_I16 || type == HEDDLE_TYPE_I32 || type == HEDDLE_TYPE_I64;
      const uint64_t borders[] = {0, 1, ~uint64_t{0}, uint64_t{1} << (8 * bytes - 1), (uint64_t{1} << (8 * bytes - 1)) - 1, 37};
      bits = numbers.next() % 7 - (has_sign ? 2u : 0u);
      if (has_sign) bits = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)));
      if (specials && i % 12 >= 6) bits = borders[(i + seed) % 6];
    }
    out.append(reinterpret_cast<const char*>(&bits), bytes);
  }
  return out;
}

// At most 33 elements, from the first to the last.
std::string sample_of(heddle_element_type_t type, const std::string& elements) {
  Scalar scalar;
  portable::scalar_of(type, &scalar);
  const size_t bytes = portable::bytes_of(scalar), count = elements.size() / bytes, step = std::max<size_t>(1, (count + 31) / 32);
  std::string out;
  for (size_t i = 0; i < count; i += step) out += elements.substr(i * bytes, bytes);
  if (count > 0 && (count - 1) % step != 0) out += elements.substr((count - 1) * bytes);
  return out;
}

// Whether a kernel computes each element from a few others, without sums.
bool has_only_maps(const portable::Kernel& kernel) {
  return std::all_of(kernel.nodes.begin(), kernel.nodes.end(), [](const portable::Node& node) { return node.kind == NodeKind::kMap; });
}

// A call of a kernel: the values of its symbols, and a sample of each output.
struct Call {
  std::vector<int64_t> symbols;
  std::vector<std::string> outputs;
};

uint64_t count_of(const portable::Kernel& kernel, const portable::Tensor& tensor, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const Expression& e : kernel.expressions) {
    const int64_t a = e.kind > Expression::kSymbol ? values[e.a] : 0, b = e.kind > Expression::kSymbol ? values[e.b] : 0;
    const int64_t down = b > 0 ? a / b - (a % b < 0) : 0, rest = b > 0 ? a - down * b : 0;
    const int64_t all[] = {e.value,
                           0,
                           e.kind == Expression::kSymbol ? symbols[static_cast<size_t>(e.value)] : 0,
                           a + b,
                           a * b,
                           down,
                           b > 0 ? down + (rest != 0) : 0,
                           rest};
    values.push_back(all[e.kind]);
  }
  uint64_t count = 1;
  for (uint32_t extent : tensor.extents) count *= values[extent] > 0 ? static_cast<uint64_t>(values[extent]) : 0;
  return count;
}

bool run(const portable::Program& program, const std::vector<int64_t>& symbols, std::vector<std::string>* outputs, std::string* error) {
  const portable::Kernel& kernel = program.kernel();
  const bool specials = has_only_maps(kernel);
  std::vector<std::string> memory;
  for (uint32_t i = 0; i < kernel.inputs + kernel.outputs; ++i) {
    const uint64_t count = count_of(kernel, kernel.tensors[i], symbols);
    if (count > 1 << 14) return *error = "it is too large", false;
    memory.push_back(input_of(kernel.tensors[i].type, count, 1 + i, specials && i < kernel.inputs));
  }
  std::vector<portable::Memory> bindings;
  for (std::string& each : memory) bindings.push_back({each.data(), each.size()});
  if (!program.run(bindings, symbols.data(), symbols.size(), error)) return false;
  outputs->clear();
  for (uint32_t i = kernel.inputs; i < memory.size(); ++i) outputs->push_back(sample_of(kernel.tensors[i].type, memory[i]));
  return true;
}

// For each kernel in order: the symbols, each as 8 bytes, then of the sample of each output its length and its bytes.
std::string text_of(const std::vector<Call>& calls) {
  std::string text;
  auto number = [&](uint64_t value) { text.append(reinterpret_cast<const char*>(&value), 8); };
  for (const Call& call : calls) {
    for (int64_t symbol : call.symbols) number(static_cast<uint64_t>(symbol));
    for (const std::string& output : call.outputs) {
      number(output.size());
      text += output;
    }
  }
  return text;
}

std::vector<Call> calls_of(const std::string& text, const std::vector<portable::Program>& programs) {
  size_t at = 0;
  auto number = [&] {
    uint64_t value = 0;
    if (text.size() - at >= 8) std::memcpy(&value, text.data() + at, 8);
    at = std::min(at + 8, text.size());
    return value;
  };
  std::vector<Call> calls;
  for (const portable::Program& program : programs) {
    Call call;
    for (uint32_t i = 0; i < program.kernel().symbols; ++i) call.symbols.push_back(static_cast<int64_t>(number()));
    for (uint32_t i = 0; i < program.kernel().outputs; ++i) {
      const size_t size = number();
      call.outputs.push_back(text.substr(at, size));
      at = std::min(at + size, text.size());
    }
    calls.push_back(std::move(call));
  }
  EXPECT_EQ(at, text.size());
  return calls;
}

// Integers are equal. Floats may be rounded otherwise, as sums in another order are, and as the functions of another library.
void expect_alike(const portable::Kernel& kernel, uint32_t output, const std::string& got, const std::string& expected,
                  const std::string& file) {
  const heddle_element_type_t type = kernel.tensors[kernel.inputs + output].type;
  const std::string where = file + ", kernel " + kernel.name + ", output " + std::to_string(output);
  ASSERT_EQ(got.size(), expected.size()) << where;
  Scalar scalar;
  portable::scalar_of(type, &scalar);
  if (!portable::is_float(scalar)) {
    EXPECT_EQ(got, expected) << where;
    return;
  }
  const uint32_t bytes = portable::bytes_of(scalar);
  const double tolerance = type == HEDDLE_TYPE_F64 ? 1e-12 : type == HEDDLE_TYPE_F32 ? 1e-5 : type == HEDDLE_TYPE_F16 ? 2e-3 : 1.6e-2;
  double largest = 0;
  for (size_t i = 0; i < expected.size(); i += bytes) {
    const double value = std::fabs(real_at(type, expected.data() + i));
    if (std::isfinite(value) && !has_only_maps(kernel)) largest = std::max(largest, value);
  }
  for (size_t i = 0; i < expected.size(); i += bytes) {
    const double a = real_at(type, got.data() + i), b = real_at(type, expected.data() + i);
    const bool is_alike = std::isnan(b)             ? std::isnan(a)
                          : a == b || std::isinf(b) ? a == b
                                                    : std::fabs(a - b) <= tolerance * (std::fabs(b) + 0.1 * largest);
    ASSERT_TRUE(is_alike) << where << ", element " << i / bytes << ": " << a << ", and was " << b;
  }
}

// --------------------------------------------------------------------------------------- every instruction on every type

// Of a scalar, the element type whose elements are read as it.
heddle_element_type_t element_of(Scalar scalar) {
  for (heddle_element_type_t type : kElements) {
    Scalar is;
    if (portable::scalar_of(type, &is) && is == scalar) return type;
  }
  return 0;
}

// A kernel whose inputs have elements of one type (two inputs, and one of bool), and each of whose outputs is one instruction on them: all that verify()
// takes. Operands of f16 and bf16 have only conversions.
portable::Kernel instructions_on(Scalar from) {
  portable::Kernel kernel;
  kernel.name = "on_" + std::to_string(static_cast<int>(from));
  kernel.inputs = 3;
  kernel.expressions = {{Expression::kConstant, 12}, {Expression::kDimension, 0}};
  kernel.tensors = {{element_of(from), {0}}, {element_of(from), {0}}, {HEDDLE_TYPE_BOOL, {0}}};
  portable::Node node;
  node.extents = {0};
  for (uint32_t i = 0; i < 3; ++i) {
    node.reads.emplace_back();
    node.reads.back().tensor = i;
    node.reads.back().place = {1};
  }
  node.bodies.resize(1);
  const uint32_t a = 1, b = 2, condition = 3, first = 4;
  std::vector<std::pair<portable::Instruction, Scalar>> all;
  for (uint32_t op = 0; op < portable::kOps; ++op) {
    for (uint32_t to = 0; to < portable::kScalars; ++to) {
      for (uint64_t value = 0; value < (portable::has_value(static_cast<Op>(op)) ? portable::kPredicates : 1); ++value) {
        portable::Instruction at = {static_cast<Op>(op), static_cast<Scalar>(to), a, b, 0, value};
        if (at.op == Op::kSelect) at = {at.op, at.type, condition, a, b, 0};
        if (at.op == Op::kConstant && (at.type != from || value > 1)) continue;
        if (at.op == Op::kExtent && (from != Scalar::kI64 || value > 0)) continue;
        portable::Kernel one = kernel;
        portable::Node alone = node;
        alone.bodies[0].instructions = {at};
        alone.bodies[0].yields = {first};
        one.outputs = 1;
        one.tensors.push_back({element_of(at.type), {0}});
        alone.results = {3};
        one.nodes = {alone};
        std::string error;
        if (portable::verify(&one, &error)) all.emplace_back(at, at.type);
      }
    }
  }
  for (const auto& [instruction, type] : all) {
    const auto number = static_cast<uint32_t>(node.bodies[0].instructions.size());
    node.bodies[0].instructions.push_back(instruction);
    node.bodies[0].yields.push_back(first + number);
    node.results.push_back(3 + number);
    kernel.tensors.push_back({element_of(type), {0}});
  }
  kernel.outputs = static_cast<uint32_t>(node.results.size());
  kernel.nodes = {node};
  return kernel;
}

// Elements of each type, moved by each kind of expression; and a name with an attribute of each type.
portable::Kernel moves_of(heddle_element_type_t type) {
  portable::Kernel kernel;
  kernel.name = "moves_" + std::to_string(type);
  kernel.symbols = 1;
  kernel.inputs = kernel.outputs = 1;
  using E = Expression;
  kernel.expressions = {{E::kSymbol, 0},        {E::kDimension, 0}, {E::kConstant, 3},  {E::kFloorDiv, 0, 1, 2}, {E::kMod, 0, 1, 2},
                        {E::kCeilDiv, 0, 1, 2}, {E::kAdd, 0, 4, 5}, {E::kConstant, -1}, {E::kMul, 0, 3, 7},      {E::kAdd, 0, 6, 8}};
  kernel.tensors = {{type, {0}}, {type, {0}}};
  portable::Node node;
  node.extents = {0};
  node.reads.resize(1);
  node.reads[0].place = {9};  // i mod 3 + ceil(i / 3) - floor(i / 3)
  node.reads[0].has_outside = true;
  node.reads[0].outside = 1;
  node.bodies.resize(1);
  node.bodies[0].yields = {1};
  node.results = {1};
  kernel.nodes = {node};
  kernel.ops = {
      {"of_nobody",
       1,
       {{"a", true}, {"b", int64_t{-1}}, {"c", 0.1}, {"d", "name"}, {"e", std::vector<int64_t>{1, -2}}, {"f", std::vector<double>{-0.5}}},
       {kernel.tensors[1]},
       {0}}};
  kernel.named_outputs = {1};
  return kernel;
}

// From each element to the one that it is the index of; the only kind of scan with a place.
portable::Kernel chase() {
  portable::Kernel kernel;
  kernel.name = "chase";
  kernel.inputs = kernel.outputs = 1;
  kernel.expressions = {{Expression::kConstant, 16}, {Expression::kDimension, 0}, {Expression::kDimension, 1}};
  kernel.tensors = {{HEDDLE_TYPE_I64, {0}}, {HEDDLE_TYPE_I64, {0}}};
  portable::Node node;
  node.kind = NodeKind::kScan;
  node.is_placed = true;
  node.extents = {0};
  node.reads.resize(2);
  node.reads[0].place = {2};
  node.reads[0].has_outside = true;
  node.reads[0].outside = 3;
  node.reads[1].place = {1};
  node.first_reads = 1;
  node.bodies.resize(3);
  node.bodies[0].instructions = {{Op::kConstant, Scalar::kI64}};
  node.bodies[0].yields = {0};
  node.bodies[1].yields = {2};                                      // the index, the place, the element there, and the place again
  node.bodies[2].instructions = {{Op::kAddI, Scalar::kI64, 1, 3}};  // the index, the element at it, and the places before and after
  node.bodies[2].yields = {4};
  node.results = {1};
  kernel.nodes = {node};
  return kernel;
}

std::string instructions_image() {
  std::vector<portable::Kernel> kernels;
  for (uint32_t scalar = 0; scalar < portable::kScalars; ++scalar) kernels.push_back(instructions_on(static_cast<Scalar>(scalar)));
  for (heddle_element_type_t type : kElements) kernels.push_back(moves_of(type));
  kernels.push_back(chase());
  std::vector<std::string> bytes;
  std::vector<std::pair<std::string_view, std::string_view>> named;
  for (const portable::Kernel& kernel : kernels) bytes.push_back(portable::write_kernel(kernel));
  for (size_t i = 0; i < kernels.size(); ++i) named.emplace_back(kernels[i].name, bytes[i]);
  return portable::write_image(named);
}

// ------------------------------------------------------------------------------------------------------------------ tests

std::vector<std::filesystem::path> images() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kFolder)) {
    if (entry.path().extension() == ".port") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The first values of symbols with which the kernel runs; places of some kernels are inside for some only.
Call first_call(const portable::Program& program) {
  std::string error;
  for (int64_t least : {5, 8, 4, 3, 2, 6, 7, 12, 16, 1}) {
    Call call;
    for (uint32_t i = 0; i < program.kernel().symbols; ++i) call.symbols.push_back(least + i);
    if (run(program, call.symbols, &call.outputs, &error)) return call;
    call.symbols.assign(call.symbols.size(), least);
    if (run(program, call.symbols, &call.outputs, &error)) return call;
  }
  ADD_FAILURE() << program.kernel().name << ": " << error;
  return {};
}

void freeze() {
  const auto newest = kFolder / std::to_string(portable::kVersion);
  if (!std::filesystem::exists(newest / "instructions.port"))
    std::ofstream(newest / "instructions.port", std::ios::binary) << instructions_image();
  for (const auto& path : images()) {
    auto results = path;
    results.replace_extension(".results");
    if (std::filesystem::exists(results)) continue;
    std::vector<portable::Program> programs;
    std::string error;
    ASSERT_TRUE(portable::load(contents(path), &programs, &error)) << path << ": " << error;
    std::vector<Call> calls;
    for (const portable::Program& program : programs) calls.push_back(first_call(program));
    std::ofstream(results, std::ios::binary) << text_of(calls);
  }
}

TEST(FrozenPortable, RunsAsItDid) {
  if (std::getenv("HEDDLE_FREEZE_PORTABLE")) freeze();
  ASSERT_FALSE(images().empty());
  for (const auto& path : images()) {
    auto results = path;
    results.replace_extension(".results");
    ASSERT_TRUE(std::filesystem::exists(results)) << results;
    std::vector<portable::Program> programs;
    std::string error;
    ASSERT_TRUE(portable::load(contents(path), &programs, &error)) << path << ": " << error;
    const std::vector<Call> calls = calls_of(contents(results), programs);
    for (size_t i = 0; i < programs.size(); ++i) {
      const portable::Kernel& kernel = programs[i].kernel();
      std::vector<std::string> outputs;
      ASSERT_TRUE(run(programs[i], calls[i].symbols, &outputs, &error)) << path << ", kernel " << kernel.name << ": " << error;
      for (uint32_t j = 0; j < kernel.outputs; ++j) expect_alike(kernel, j, outputs[j], calls[i].outputs[j], path.filename().string());
    }
  }
}

// The writer still writes the same bytes: the lowest version that suffices.
TEST(FrozenPortable, IsWrittenAsItWas) {
  for (const auto& path : images()) {
    std::vector<portable::Kernel> kernels;
    std::string error;
    const std::string image = contents(path);
    ASSERT_TRUE(portable::read_image(image, &kernels, &error)) << path << ": " << error;
    std::vector<std::string> bytes;
    std::vector<std::pair<std::string_view, std::string_view>> named;
    for (const portable::Kernel& kernel : kernels) bytes.push_back(portable::write_kernel(kernel));
    for (size_t i = 0; i < kernels.size(); ++i) named.emplace_back(kernels[i].name, bytes[i]);
    EXPECT_EQ(portable::write_image(named), image) << path;
  }
}

// A result that is another is found: of all outputs of all kernels, each with one byte changed.
TEST(FrozenPortable, FindsWhatIsAnother) {
  size_t compared = 0;
  for (const auto& path : images()) {
    auto results = path;
    results.replace_extension(".results");
    std::vector<portable::Program> programs;
    std::string error;
    ASSERT_TRUE(portable::load(contents(path), &programs, &error)) << path << ": " << error;
    const std::vector<Call> calls = calls_of(contents(results), programs);
    for (size_t i = 0; i < programs.size(); ++i) {
      const portable::Kernel& kernel = programs[i].kernel();
      for (uint32_t j = 0; j < kernel.outputs; ++j) {
        std::string changed = calls[i].outputs[j];
        if (changed.empty()) continue;
        changed.back() = static_cast<char>(changed.back() ^ 0x40);  // the highest byte of the last element
        ++compared;
        testing::TestPartResultArray found;
        {
          testing::ScopedFakeTestPartResultReporter reporter(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD,
                                                             &found);
          expect_alike(kernel, j, changed, calls[i].outputs[j], path.filename().string());
        }
        EXPECT_EQ(found.size(), 1) << path << ", kernel " << kernel.name << ", output " << j;
      }
    }
  }
  EXPECT_GT(compared, 100u);
}

TEST(FrozenPortable, HasAllOfTheFormat) {
  std::set<NodeKind> kinds;
  std::set<Op> ops;
  std::set<Scalar> scalars, accumulators;
  std::set<heddle_element_type_t> elements;
  std::set<uint64_t> float_predicates, integer_predicates;
  std::set<Expression::Kind> expressions;
  std::set<portable::AttributeType> attributes;
  std::set<std::string> flags;
  for (const auto& path : images()) {
    std::vector<portable::Kernel> kernels;
    std::string error;
    ASSERT_TRUE(portable::read_image(contents(path), &kernels, &error)) << path << ": " << error;
    for (const portable::Kernel& kernel : kernels) {
      for (const Expression& e : kernel.expressions) expressions.insert(e.kind);
      for (const portable::Tensor& tensor : kernel.tensors) elements.insert(tensor.type);
      for (const portable::NamedOp& op : kernel.ops) {
        for (const portable::Attribute& attribute : op.attributes) attributes.insert(attribute.type());
        if (!op.operands.empty()) flags.insert("operands");
      }
      if (kernel.symbols > 0) flags.insert("symbols");
      if (!kernel.named_outputs.empty()) flags.insert("named outputs");
      if (kernel.tensors.size() > kernel.inputs + kernel.outputs) flags.insert("tensors between nodes");
      for (const portable::Node& node : kernel.nodes) {
        kinds.insert(node.kind);
        if (node.kind == NodeKind::kContract) accumulators.insert(node.accumulator);
        if (node.reverse) flags.insert("reverse");
        if (node.is_placed) flags.insert("placed");
        if (!node.within.empty()) flags.insert("within");
        if (node.results.size() > 1) flags.insert("several results");
        for (const portable::Read& read : node.reads) {
          if (read.has_outside) flags.insert("outside");
          if (!read.gathers.empty()) flags.insert("gathers");
        }
        for (const portable::Body& body : node.bodies) {
          for (const portable::Instruction& at : body.instructions) {
            ops.insert(at.op);
            scalars.insert(at.type);
            if (at.op == Op::kCompareF) float_predicates.insert(at.value);
            if (at.op == Op::kCompareI) integer_predicates.insert(at.value);
          }
        }
      }
    }
  }
  EXPECT_EQ(kinds.size(), portable::kNodeKinds);
  EXPECT_EQ(ops.size(), portable::kOps);
  EXPECT_EQ(scalars.size(), portable::kScalars);
  EXPECT_EQ(elements.size(), std::size(kElements));
  EXPECT_EQ(expressions.size(), static_cast<size_t>(Expression::kMod) + 1);
  EXPECT_EQ(attributes.size(), kAttributeTypes);
  EXPECT_EQ(float_predicates.size(), static_cast<size_t>(Predicate::kBelow));
  EXPECT_EQ(integer_predicates.size(), 6 + portable::kPredicates - static_cast<size_t>(Predicate::kBelow));
  EXPECT_EQ(accumulators, (std::set<Scalar>{Scalar::kI32, Scalar::kF32, Scalar::kF64}));
  EXPECT_EQ(flags, (std::set<std::string>{"gathers", "named outputs", "operands", "outside", "placed", "reverse", "several results",
                                          "symbols", "tensors between nodes", "within"}));
}

}  // namespace
