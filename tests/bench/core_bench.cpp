// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the core costs: the same commands through runtime.h and through the driver's table, on heddle.cpu in one process. Prints both, the
// ratio, and the core's share per call and per dispatch. Run by hand: core_bench [--benchmark_...].
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "../support/module_builder.h"
#include "../support/runtime_session.h"
#include "../unit/temporary_folder.h"
#include "core/host/host.h"
#include "core/memory/device.h"

namespace heddle::testing {
namespace {

constexpr char kConfig[] = "version = 1\n[plugins.probe]\n\"heddle.cpu\" = \"in-process\"\n";
constexpr int kChainLength = 100;

// One function: `dispatches` times value = value * 3 + 1 on the result, a barrier between each; or one add of 4 elements.
struct Fixture {
  TemporaryFolder folder;
  RuntimeHandle runtime = open_runtime({HEDDLE_TEST_PLUGINS}, kConfig);
  InstanceHandle instance;
  heddle_function_t* add = nullptr;
  heddle_function_t* chain = nullptr;
  TensorHandle a, b, seed;

  Fixture() {
    ModuleBuilder module;
    module.add_kernels(HEDDLE_TEST_KERNELS);
    mf::FunctionT& adds = module.add_function("add");
    for (const char* input : {"a", "b"}) adds.arguments.push_back(ModuleBuilder::type(input, {ModuleBuilder::extent(4)}));
    adds.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
    {
      ProgramBuilder p;
      uint32_t four = p.literal(4), one = p.literal(1);
      p.dispatch("add", kAdd,
                 {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead),
                  ProgramBuilder::whole(p.result(0), kWrite)},
                 {four, four}, {one, one, one});
      adds.programs.push_back(p.finish());
    }
    mf::FunctionT& chains = module.add_function("chain");
    chains.arguments.push_back(ModuleBuilder::type("seed", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    chains.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    {
      ProgramBuilder p;
      uint32_t one = p.literal(1), eight = p.literal(8), scratch = p.transient(eight);
      p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(scratch, kWrite));
      for (int i = 0; i < kChainLength; ++i) {
        p.barrier();
        p.dispatch("step", kChainStep, {ProgramBuilder::whole(scratch, kReadWrite)}, {one}, {one, one, one});
      }
      p.barrier();
      p.copy(ProgramBuilder::whole(scratch, kRead), ProgramBuilder::whole(p.result(0), kWrite));
      chains.programs.push_back(p.finish());
    }
    std::string path = folder.path("bench.heddle");
    std::string written = module.write(path);
    if (!written.empty()) std::fprintf(stderr, "%s\n", written.c_str());
    ModuleHandle opened = open_module(runtime.get(), path);
    HEDDLE_EXPECT_OK(create_instance(opened.get(), {{"", "heddle.cpu:0"}}, &instance));
    add = find_function(instance, "add");
    chain = find_function(instance, "chain");
    a = make_tensor<float>(add, 0, {4}, {1, 2, 3, 4});
    b = make_tensor<float>(add, 1, {4}, {1, 2, 3, 4});
    seed = make_tensor<int64_t>(chain, 0, {1}, {1}, HEDDLE_TYPE_I64);
  }
};

Fixture& fixture() {
  static auto* made = new Fixture();  // goes with the process
  return *made;
}

// The same on the driver's table alone: buffers and commands made ahead.
struct Direct {
  std::shared_ptr<host::Host> host;
  memory::Ref<memory::Device> device;
  heddle_executable_t* executable = nullptr;
  heddle_entry_t* add = nullptr;
  heddle_entry_t* step = nullptr;
  heddle_buffer_t* buffer = nullptr;
  heddle_timeline_t* timeline = nullptr;
  uint64_t value = 0;
  std::vector<heddle_binding_t> bindings;
  int64_t add_constants[2] = {4, 4};
  int64_t chain_constant = 1;
  std::vector<heddle_command_t> add_commands, chain_commands;

  Direct() {
    host::HostOptions options;
    options.no_config = true;
    options.config_text = kConfig;
    options.plugin_paths = {HEDDLE_TEST_PLUGINS};
    host = std::shared_ptr<host::Host>(std::move(*host::Host::open(options)));
    device = *memory::Device::open(host, *host->device("heddle.cpu:0"));
    const heddle_driver_api_t& api = device->api();
    std::ifstream file(HEDDLE_TEST_KERNELS, std::ios::binary);
    std::vector<char> code{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    heddle_entry_params_t entries[2] = {};
    entries[0].struct_size = entries[1].struct_size = sizeof(heddle_entry_params_t);
    entries[0].name = c_string("add_f32");
    entries[0].binding_count = 3;
    entries[0].constants_bytes = 16;
    entries[1].name = c_string("chain");
    entries[1].binding_count = 1;
    entries[1].constants_bytes = 8;
    entries[0].cost = entries[1].cost = 1;
    heddle_executable_params_t params{};
    params.struct_size = sizeof(params);
    params.entry_count = 2;
    params.format = c_string("x86_64-elf/1");
    params.target = c_string("x86-64-v3");
    params.code = code.data();
    params.code_bytes = code.size();
    params.entries = entries;
    params.entry_stride = sizeof(heddle_entry_params_t);
    params.name = c_string("bench");
    HEDDLE_EXPECT_OK(api.dispatch->executable_load(device->get(), &params, &executable));
    HEDDLE_EXPECT_OK(api.dispatch->entry(executable, 0, &add));
    HEDDLE_EXPECT_OK(api.dispatch->entry(executable, 1, &step));
    heddle_buffer_params_t wanted{sizeof(wanted), HEDDLE_MEMORY_DEVICE, 4096, 64};
    HEDDLE_EXPECT_OK(api.buffer->allocate(device->get(), &wanted, &buffer));
    HEDDLE_EXPECT_OK(api.timeline->create(device->get(), 0, &timeline));
    bindings = {{buffer, 0, 16}, {buffer, 64, 16}, {buffer, 128, 16}, {buffer, 192, 8}};
    heddle_command_t one{};
    one.kind = HEDDLE_COMMAND_DISPATCH;
    one.as.dispatch = {add, bindings.data(), add_constants, 3, 16, {1, 1, 1}, 0};
    add_commands.push_back(one);
    heddle_command_t copy{};
    copy.kind = HEDDLE_COMMAND_COPY;
    copy.as.copy = {buffer, buffer, 256, 192, 8};
    chain_commands.push_back(copy);
    one.as.dispatch = {step, bindings.data() + 3, &chain_constant, 1, 8, {1, 1, 1}, 0};
    for (int i = 0; i < kChainLength; ++i) {
      chain_commands.push_back(heddle_command_t{});
      chain_commands.push_back(one);
    }
    chain_commands.push_back(heddle_command_t{});
    copy.as.copy = {buffer, buffer, 192, 320, 8};
    chain_commands.push_back(copy);
  }

  void run(const std::vector<heddle_command_t>& commands) {
    heddle_point_t signal{timeline, ++value};
    heddle_submission_t submission{
        sizeof(submission), static_cast<uint32_t>(commands.size()), commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &signal}};
    const heddle_driver_api_t& api = device->api();
    if (heddle_status_t* failed = api.dispatch->submit(device->queue(), &submission)) heddle_status_free(failed);
    if (heddle_status_t* failed = api.timeline->wait(&signal, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE)) heddle_status_free(failed);
  }
};

Direct& direct() {
  static auto* made = new Direct();
  return *made;
}

void call_add() {
  heddle_tensor_t* arguments[] = {fixture().a.get(), fixture().b.get()};
  heddle_tensor_t* result = nullptr;
  if (heddle_status_t* failed = heddle_call(fixture().add, arguments, 2, &result, 1)) heddle_status_free(failed);
  heddle_tensor_release(result);
}

void call_chain() {
  heddle_tensor_t* arguments[] = {fixture().seed.get()};
  heddle_tensor_t* result = nullptr;
  if (heddle_status_t* failed = heddle_call(fixture().chain, arguments, 1, &result, 1)) heddle_status_free(failed);
  heddle_tensor_release(result);
}

void RuntimeAdd(benchmark::State& state) {
  for (auto _ : state) call_add();
}
void DirectAdd(benchmark::State& state) {
  for (auto _ : state) direct().run(direct().add_commands);
}
void RuntimeChain(benchmark::State& state) {
  for (auto _ : state) call_chain();
}
void DirectChain(benchmark::State& state) {
  for (auto _ : state) direct().run(direct().chain_commands);
}
BENCHMARK(RuntimeAdd);
BENCHMARK(DirectAdd);
BENCHMARK(RuntimeChain);
BENCHMARK(DirectChain);

// Medians of interleaved rounds: what else the machine does hits both alike.
template <typename Left, typename Right>
void compare(const char* name, int dispatches, Left through_runtime, Right through_table) {
  constexpr int kRounds = 101, kPerRound = 200;
  std::vector<double> left, right;
  auto time = [](auto function) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kPerRound; ++i) function();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kPerRound;
  };
  for (int i = 0; i < kRounds; ++i) {
    left.push_back(time(through_runtime));
    right.push_back(time(through_table));
  }
  std::nth_element(left.begin(), left.begin() + kRounds / 2, left.end());
  std::nth_element(right.begin(), right.begin() + kRounds / 2, right.end());
  double runtime = left[kRounds / 2], table = right[kRounds / 2];
  std::printf("%s: runtime.h %.0f ns, driver table %.0f ns, ratio %.2f, core %.0f ns a call, %.1f ns a dispatch\n", name, runtime, table,
              runtime / table, runtime - table, (runtime - table) / dispatches);
}

}  // namespace
}  // namespace heddle::testing

int main(int argc, char** argv) {
  using namespace heddle::testing;
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  compare("one add", 1, call_add, [] { direct().run(direct().add_commands); });
  compare("100 dependent dispatches", kChainLength, call_chain, [] { direct().run(direct().chain_commands); });
  return 0;
}
