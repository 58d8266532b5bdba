// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See kernel_run.h. Images are loaded with dlopen here: the driver's own loader has its own tests.
#include "tests/compiler/kernel_run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "compiler/targets/amdgpu/amdgpu.h"
#include "compiler/targets/candidates.h"
#include "compiler/targets/cuda/cuda.h"
#include "compiler/targets/spirv/spirv.h"
#include "compiler/targets/x86_64/x86_64.h"
#include "heddle/code.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "tests/compiler/amdgpu_run.h"
#include "tests/compiler/cuda_run.h"
#include "tests/compiler/expected.h"
#include "tests/compiler/opencl_run.h"
#include "tests/temporary_folder.h"

using namespace mlir;

namespace heddle::tests {

namespace {

// Memory of a binding that ends right before, or starts right behind, a page that cannot be touched.
class GuardedBytes {
 public:
  GuardedBytes(size_t bytes, bool at_end) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t body = (bytes + page - 1) / page * page;
    total_ = body + 2 * page;
    mapping_ = static_cast<char*>(mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapping_ == MAP_FAILED) abort();
    mprotect(mapping_, page, PROT_NONE);
    mprotect(mapping_ + page + body, page, PROT_NONE);
    start_ = at_end ? mapping_ + page + body - bytes : mapping_ + page;
    memset(mapping_ + page, 0xa5, body);
  }
  ~GuardedBytes() { munmap(mapping_, total_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  char* data() const { return start_; }

 private:
  char* mapping_;
  char* start_;
  size_t total_;
};

template <typename T>
void put(std::vector<char>& bytes, size_t i, T value) {
  memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}
template <typename T>
T take(const char* bytes, size_t i) {
  T value;
  memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

uint64_t float_bits(double value, FloatType type) {
  APFloat rounded(value);
  bool lost;
  rounded.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  return rounded.bitcastToAPInt().getZExtValue();
}

}  // namespace

std::vector<std::string> runnable_levels() {
  std::vector<std::string> levels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) levels.push_back("x86-64-v3");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd")) {
    levels.push_back("x86-64-v4");
  }
  return levels;
}

std::string region_text(const std::vector<std::string>& operands, const std::vector<std::string>& results, const std::string& body,
                        const std::string& attributes, const std::vector<std::string>& symbols) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto list = [&](size_t count, const std::function<void(size_t)>& item) {
    for (size_t i = 0; i < count; ++i) {
      if (i) out << ", ";
      item(i);
    }
  };
  auto types = [&](const std::vector<std::string>& of) { list(of.size(), [&](size_t i) { out << "tensor<" << of[i] << ">"; }); };
  // The function's values have names, so that the region's numbers are free.
  out << "func.func @main(";
  list(operands.size(), [&](size_t i) { out << "%a" << i << ": tensor<" << operands[i] << ">"; });
  out << ") attributes {tx.symbols = [";
  list(symbols.size(), [&](size_t i) { out << '"' << symbols[i] << '"'; });
  out << "]} {\n  %r:" << results.size() << " = tx.dispatch \"kernel\"(";
  list(operands.size(), [&](size_t i) { out << "%a" << i; });
  out << ") " << attributes << " : (";
  types(operands);
  out << ") -> (";
  types(results);
  out << ") {\n  ^bb0(";
  list(operands.size(), [&](size_t i) { out << "%" << i << ": tensor<" << operands[i] << ">"; });
  out << "):\n" << body << "\n  }\n  return\n}\n";
  return text;
}

std::string one_op(const std::vector<std::string>& operands, const std::string& result, const std::string& op) {
  return region_text(operands, {result}, "%x = tx." + op + "\n tx.yield %x : tensor<" + result + ">");
}

std::string normalization(const std::string& rows, const std::string& row, const std::string& element, const std::string& rows_dim,
                          const std::string& row_dim) {
  bool is_symbolic = rows == "?" || row == "?";
  auto type = [&](const std::vector<std::pair<std::string, std::string>>& extents) {
    std::string text, dims;
    bool any = false;
    for (const auto& [extent, dim] : extents) {
      text += extent + "x";
      dims += (dims.empty() ? "" : ", ") + (extent == "?" ? dim : extent);
      any |= extent == "?";
    }
    return text + element + (any ? ", #tx.dims<()[s0] -> (" + dims + ")>" : "");
  };
  std::pair<std::string, std::string> m{rows, rows_dim}, n{row, row_dim};
  std::string whole = type({m, n}), per_row = type({m}), per_element = type({n}), t = "tensor<" + whole + ">",
              r = "tensor<" + per_row + ">";
  std::string body = "%m = tx.reduce mean %0 {axes = array<i64: 1>} : " + t + " -> " + r +
                     "\n%b = tx.broadcast %m {dimensions = array<i64: 0>} : " + r + " -> " + t + "\n%d = tx.sub %0, %b : " + t +
                     "\n%q = tx.mul %d, %d : " + t + "\n%v = tx.reduce mean %q {axes = array<i64: 1>} : " + t + " -> " + r +
                     "\n%c = tx.constant dense<1.0e-3> : tensor<1x" + element + ">\n%c1 = tx.reshape %c : tensor<1x" + element +
                     "> -> tensor<" + element + ">\n%e = tx.broadcast %c1 {dimensions = array<i64>} : tensor<" + element + "> -> " + r +
                     "\n%a = tx.add %v, %e : " + r + "\n%s = tx.rsqrt %a : " + r +
                     "\n%w = tx.broadcast %s {dimensions = array<i64: 0>} : " + r + " -> " + t + "\n%n = tx.mul %d, %w : " + t +
                     "\n%g = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<" + per_element + "> -> " + t +
                     "\n%h = tx.mul %n, %g : " + t + "\n%o = tx.broadcast %2 {dimensions = array<i64: 1>} : tensor<" + per_element +
                     "> -> " + t + "\n%x = tx.add %h, %o : " + t + "\ntx.yield %x : " + t;
  return region_text({whole, per_element, per_element}, {whole}, body, "",
                     is_symbolic ? std::vector<std::string>{"n"} : std::vector<std::string>());
}

ParsedRegion::ParsedRegion(const std::string& text) {
  DialectRegistry registry;
  registry.insert<tx::TxDialect, func::FuncDialect>();
  targets::register_x86_64_dialects(registry);
  targets::register_cuda_dialects(registry);
  targets::register_spirv_dialects(registry);
  targets::register_amdgpu_dialects(registry);
  context_ = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context_->loadAllAvailableDialects();
  module_ = parseSourceString<ModuleOp>(text, context_.get());
  if (!module_) {
    ADD_FAILURE() << "the test's text does not parse:\n" << text;
    abort();
  }
  module_->walk([&](tx::DispatchOp op) { region_ = op; });
}

ParsedRegion::~ParsedRegion() = default;

std::optional<CompiledKernel> compile_region(const targets::Target& target, tx::DispatchOp region, const std::string& strategy,
                                             size_t plan) {
  CompiledKernel kernel;
  std::vector<targets::Answer> answers;  // a report asks every strategy about any region
  auto plans = target.plans(region, strategy, &answers);
  if (failed(plans)) {
    ADD_FAILURE() << target.name() << ": no plan";
    return std::nullopt;
  }
  kernel.plan = plan == usual_plan ? targets::choose(*plans, {}).back() : plans->at(plan);
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(region.getContext()));
  auto resources = target.emit(region, kernel.plan, "kernel", *kernels);
  if (failed(resources)) {
    ADD_FAILURE() << target.name() << ": not emitted";
    return std::nullopt;
  }
  kernel.resources = *resources;
  if (getenv("HEDDLE_TEST_PRINT")) kernels->dump();
  auto code = target.assemble(*kernels);
  if (failed(code)) {
    ADD_FAILURE() << target.name() << ": not assembled";
    return std::nullopt;
  }
  kernel.code = std::move(*code);
  return kernel;
}

std::vector<size_t> plans_to_check(const targets::Target& target, tx::DispatchOp region, const std::string& strategy) {
  std::vector<size_t> checked{usual_plan};
  auto plans = target.plans(region, strategy);
  if (failed(plans)) return checked;
  const std::vector<int64_t> usual = targets::choose(*plans, {}).back().choice.numbers;
  for (size_t i = 0; i < plans->size(); ++i) {
    const bool is_first = i == 0 || !((*plans)[i].guards == (*plans)[i - 1].guards);
    if ((is_first || i + 1 == plans->size()) && (*plans)[i].choice.numbers != usual) checked.push_back(i);
  }
  return checked;
}

uint64_t CompiledKernel::workgroups(const std::vector<int64_t>& symbols) const {
  auto type = tx::tensor_type({plan.workgroups}, IntegerType::get(plan.workgroups.getContext(), 32));
  return static_cast<uint64_t>(shape_of(type, symbols)[0]);
}

LoadedKernel::LoadedKernel(tx::DispatchOp region, const std::string& level, const std::string& strategy, size_t plan) {
  auto compiled = compile_region(*targets::make_x86_64_target(level), region, strategy, plan);
  if (!compiled) return;
  kernel_ = std::move(*compiled);
  const testing::TemporaryFolder folder;
  const char* kept = getenv("HEDDLE_TEST_KEEP");
  const std::string path = kept ? std::string(kept) + "." + level : folder.path("kernel.so");
  testing::write_file(path, {image().data(), image_bytes()});
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    ADD_FAILURE() << dlerror();
    return;
  }
  entry_ = dlsym(library_, "kernel");
  EXPECT_NE(entry_, nullptr);
}

LoadedKernel::~LoadedKernel() {
  if (library_) dlclose(library_);
}

std::string plan_error(tx::DispatchOp region) {
  std::string text;
  ScopedDiagnosticHandler handler(region.getContext(), [&](Diagnostic& diagnostic) {
    text += diagnostic.str();
    return success();
  });
  auto plans = targets::make_x86_64_target("x86-64-v3")->plans(region);
  EXPECT_EQ(failed(plans), !text.empty());
  return text;
}

int32_t LoadedKernel::call(const std::vector<void*>& bindings, const std::vector<uint64_t>& lengths, const std::vector<int64_t>& symbols,
                           uint64_t first, uint64_t last) const {
  heddle_x86_64_dispatch_t dispatch{};
  dispatch.bindings = bindings.data();
  dispatch.binding_lengths = lengths.data();
  dispatch.constants = symbols.data();
  dispatch.grid[0] = static_cast<uint32_t>(workgroups(symbols));
  dispatch.grid[1] = dispatch.grid[2] = 1;
  dispatch.binding_count = static_cast<uint32_t>(bindings.size());
  void* workspace = nullptr;
  if (kernel_.resources.workspace_bytes > 0) {
    workspace = aligned_alloc(64, (kernel_.resources.workspace_bytes + 63) / 64 * 64);
    memset(workspace, 0xa5, kernel_.resources.workspace_bytes);
  }
  int32_t status = reinterpret_cast<heddle_x86_64_kernel_t>(entry_)(&dispatch, first, last, workspace);
  free(workspace);
  return status;
}

size_t element_bytes(Type element) {
  return element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
}

std::vector<char> to_bytes(const Tensor& tensor, Type element) {
  std::vector<char> bytes(tensor.data.size() * element_bytes(element));
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    double value = tensor.data[i];
    if (element.isF32()) {
      put(bytes, i, static_cast<float>(value));
    } else if (element.isF64()) {
      put(bytes, i, value);
    } else if (auto float_type = llvm::dyn_cast<FloatType>(element)) {
      put(bytes, i, static_cast<uint16_t>(float_bits(value, float_type)));
    } else {
      int64_t integer = static_cast<int64_t>(value);
      memcpy(bytes.data() + i * element_bytes(element), &integer, element_bytes(element));
    }
  }
  return bytes;
}

Tensor from_bytes(const char* bytes, std::vector<int64_t> shape, Type element) {
  Tensor tensor;
  tensor.shape = std::move(shape);
  tensor.data.resize(element_count(tensor.shape));
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (element.isF32()) {
      tensor.data[i] = take<float>(bytes, i);
    } else if (element.isF64()) {
      tensor.data[i] = take<double>(bytes, i);
    } else if (auto float_type = llvm::dyn_cast<FloatType>(element)) {
      APFloat value(float_type.getFloatSemantics(), APInt(16, take<uint16_t>(bytes, i)));
      bool lost;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      tensor.data[i] = value.convertToDouble();
    } else {
      uint64_t raw = 0;
      memcpy(&raw, bytes + i * element_bytes(element), element_bytes(element));
      unsigned width = static_cast<unsigned>(element_bytes(element)) * 8;
      bool is_unsigned = element.isUnsignedInteger() || element.isInteger(1);
      int64_t value = static_cast<int64_t>(raw << (64 - width));
      tensor.data[i] = is_unsigned ? static_cast<double>(raw) : static_cast<double>(value >> (64 - width));
    }
  }
  return tensor;
}

Tensor random_tensor(RankedTensorType type, const std::vector<int64_t>& symbols, std::pair<double, double> range, uint32_t seed) {
  Tensor tensor;
  tensor.shape = shape_of(type, symbols);
  tensor.data.resize(element_count(tensor.shape));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> distribution(range.first, range.second);
  Type element = type.getElementType();
  for (double& value : tensor.data) {
    value = distribution(random);
    if (element.isInteger(1)) {
      value = value > (range.first + range.second) / 2;
    } else if (llvm::isa<IntegerType>(element)) {
      value = std::round(value);
    }
    value = stored(value, element);
  }
  return tensor;
}

RowsInMemory RowsInMemory::of(tx::DispatchOp region, unsigned result, const std::vector<int64_t>& symbols) {
  const RankedTensorType type = tx::tensor(region.getOutputs()[result]);
  const std::vector<int64_t> shape = shape_of(type, symbols);
  const size_t element = element_bytes(type.getElementType()), all = static_cast<size_t>(element_count(shape)) * element;
  const auto pitch = region.getPitch();
  if (!pitch || all == 0) return {all, all, size_t{1}};
  const size_t row = static_cast<size_t>(shape.back()) * element;
  return {row, static_cast<size_t>(*pitch) * element, all / row};
}

std::vector<char> RowsInMemory::together(const char* memory, char untouched, const std::string& what) const {
  std::vector<char> rows;
  size_t touched = 0;
  for (size_t i = 0; i < count; ++i) {
    const char *row = memory + i * pitch_bytes, *end = row + row_bytes, *next = i + 1 < count ? row + pitch_bytes : end;
    rows.insert(rows.end(), row, end);
    touched += static_cast<size_t>(std::count_if(end, next, [&](char byte) { return byte != untouched; }));
  }
  EXPECT_EQ(touched, 0u) << what << ": bytes written between rows";
  return rows;
}

std::vector<Tensor> run_kernel(const LoadedKernel& kernel, tx::DispatchOp region, const std::vector<Tensor>& operands,
                               const std::vector<int64_t>& symbols, bool single) {
  constexpr char untouched = 0x5a;
  std::vector<std::unique_ptr<GuardedBytes>> memory;
  std::vector<void*> bindings;
  std::vector<uint64_t> lengths;
  for (size_t i = 0; i < operands.size(); ++i) {
    Type element = llvm::cast<RankedTensorType>(region.getInputs()[i].getType()).getElementType();
    std::vector<char> bytes = to_bytes(operands[i], element);
    memory.push_back(std::make_unique<GuardedBytes>(bytes.size(), /*at_end=*/!single));
    if (!bytes.empty()) memcpy(memory.back()->data(), bytes.data(), bytes.size());
    bindings.push_back(memory.back()->data());
    lengths.push_back(bytes.size());
  }
  std::vector<std::vector<int64_t>> shapes;
  for (auto [i, output] : llvm::enumerate(region.getOutputs())) {
    auto type = llvm::cast<RankedTensorType>(output.getType());
    shapes.push_back(shape_of(type, symbols));
    size_t bytes = RowsInMemory::of(region, static_cast<unsigned>(i), symbols).bytes();
    int64_t tied = region.getTied() ? (*region.getTied())[i] : -1;
    if (tied >= 0) {
      bindings.push_back(bindings[static_cast<size_t>(tied)]);
    } else {
      memory.push_back(std::make_unique<GuardedBytes>(bytes, /*at_end=*/!single));
      bindings.push_back(memory.back()->data());
      if (bytes > 0) memset(bindings.back(), untouched, bytes);
    }
    lengths.push_back(bytes);
  }
  uint64_t count = kernel.workgroups(symbols);
  if (single) {
    for (uint64_t i = count; i-- > 0;) EXPECT_EQ(kernel.call(bindings, lengths, symbols, i, i + 1), 0);
  } else {
    EXPECT_EQ(kernel.call(bindings, lengths, symbols, 0, count), 0);
  }
  std::vector<Tensor> results;
  for (auto [i, output] : llvm::enumerate(region.getOutputs())) {
    Type element = llvm::cast<RankedTensorType>(output.getType()).getElementType();
    const auto result = static_cast<unsigned>(i);
    std::vector<char> rows = RowsInMemory::of(region, result, symbols)
                                 .together(static_cast<char*>(bindings[operands.size() + i]), untouched, "result " + std::to_string(i));
    results.push_back(from_bytes(rows.data(), shapes[i], element));
  }
  return results;
}

void expect_close(const Tensor& got, const Tensor& wanted, const CheckOptions& options, const std::string& what) {
  ASSERT_EQ(got.data.size(), wanted.data.size()) << what;
  size_t wrong = 0;
  for (size_t i = 0; i < got.data.size(); ++i) {
    double a = got.data[i], b = wanted.data[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::fabs(a - b) <= options.absolute + options.relative * std::fabs(b)) continue;
    if (++wrong <= 3) ADD_FAILURE() << what << ": element " << i << " is " << a << ", not " << b;
  }
  EXPECT_EQ(wrong, 0u) << what << ": wrong elements of " << got.data.size();
}

namespace {

bool has_strategy(const targets::Target& target, const std::string& name) {
  return llvm::any_of(target.strategies(), [&](const auto& strategy) { return strategy->name() == name; });
}

}  // namespace

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(a.data[0])) == 0;
}

}  // namespace

void check_region(const std::string& text, const CheckOptions& options) {
  ParsedRegion parsed(text);
  std::vector<Tensor> operands;
  for (auto [i, input] : llvm::enumerate(parsed.region().getInputs())) {
    auto range = options.ranges[std::min(i, options.ranges.size() - 1)];
    operands.push_back(
        random_tensor(llvm::cast<RankedTensorType>(input.getType()), options.symbols, range, options.seed + static_cast<uint32_t>(i)));
  }
  check_results(parsed.region(), operands, expected_results(parsed.region(), operands, options), options);
}

void check_results(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options) {
  for (const std::string& level : runnable_levels()) {
    if (!options.strategy.empty() && !has_strategy(*targets::make_x86_64_target(level), options.strategy)) continue;
    std::vector<Tensor> usual;
    for (size_t plan : plans_to_check(*targets::make_x86_64_target(level), region, options.strategy)) {
      LoadedKernel kernel(region, level, options.strategy, plan);
      if (!kernel.usable()) continue;
      for (bool single : {false, true}) {
        const std::string how = level + ", " + kernel.plan_text() + (single ? ", one workgroup a call" : ", one call");
        std::vector<Tensor> got = run_kernel(kernel, region, operands, options.symbols, single);
        expect_results(got, wanted, options, how);
        if (usual.empty()) usual = got;
        if (plan != usual_plan && !kernel.is_for_some_calls()) continue;  // instead of the usual one, in another program
        for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], usual[i])) << how << ", result " << i << ": other bits";
      }
    }
  }
  auto cuda = targets::make_cuda_target("sm_80"), spirv = targets::make_spirv_target("spv1.0"),
       amdgpu = targets::make_amdgpu_target("gfx942");
  auto is_known = [&](const auto& target) { return has_strategy(*target, options.strategy); };
  if (options.strategy.empty() || is_known(cuda)) check_on_cuda(region, operands, wanted, options);
  EXPECT_TRUE(options.strategy.empty() || is_known(spirv) || is_known(amdgpu) || is_known(cuda) ||
              is_known(targets::make_x86_64_target("x86-64-v3")))
      << "no target has a strategy '" << options.strategy << "'";
  if (is_known(spirv)) check_on_opencl(region, operands, wanted, options);
  if (options.on_amdgpu && is_known(amdgpu)) check_on_amdgpu(region, operands, wanted, options);
}

}  // namespace heddle::tests
