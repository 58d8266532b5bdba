// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the core costs: the same commands, waits and signals through runtime.h and through the driver's table, on one device in one process, in
// interleaved rounds. Each side has a queue and memory of its own, and a device may favor one for as long as the process lives: so there are
// several processes, which open the two in turns. Run by hand: core_bench [--device ALIAS] [--config TOML] [--rounds N] [--processes N];
// tests/gpu/run does on a GPU.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "../gpu/ptx.h"
#include "../support/bench_device.h"
#include "../support/module_builder.h"
#include "../support/runtime_session.h"
#include "../temporary_folder.h"
#include "core/host/host.h"
#include "core/memory/device.h"
#include "heddle/code.h"

namespace heddle::testing {
namespace {

constexpr int kChainLength = 100;
constexpr uint32_t kInFlight = 32;

struct Options {
  BenchDevice device;
  std::string config;
  int rounds = 101;  // of each process
  int processes = 5;
};

// add_f32 and chain, in the form that the device runs.
struct Code {
  std::string family, format, target;
  std::vector<char> bytes;
  uint32_t threads = 1;

  explicit Code(const BenchDevice& device) {
    if (device.family() == "cuda") {
      family = "cuda", format = HEDDLE_CODE_PTX, target = "sm_80", threads = 32;
      bytes.assign(test::kPtx80, test::kPtx80 + std::strlen(test::kPtx80));
    } else {
      family = "cpu", format = HEDDLE_CODE_X86_64_ELF, target = "x86-64-v3";
      std::ifstream file(HEDDLE_TEST_KERNELS, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
};
constexpr struct {
  const char* name;
  uint32_t bindings, constants;
} kEntries[] = {{"add_f32", 3, 2}, {"chain", 1, 1}};

void must(heddle_status_t* status) {
  if (!status) return;
  std::fprintf(stderr, "core_bench: %s\n", cpp_string(heddle_status_message(status)).c_str());
  std::exit(1);
}

// One function: `dispatches` times value = value * 3 + 1 on the result, a barrier between each; or one add of 4 elements.
struct ThroughRuntime {
  TemporaryFolder folder;
  RuntimeHandle runtime;
  InstanceHandle instance;
  heddle_function_t* add = nullptr;
  heddle_function_t* chain = nullptr;
  TensorHandle a, b, seed;
  std::vector<heddle_tensor_t*> sums, ends;  // results to write into
  std::vector<TensorHandle> owned;

  ThroughRuntime(const Options& options, const Code& code) : runtime(open_runtime(options.device.plugin_paths(), options.config)) {
    ModuleBuilder module(code.family);
    auto executable = std::make_unique<mf::ExecutableT>();
    executable->name = "bench";
    auto variant = std::make_unique<mf::VariantT>();
    variant->format = code.format;
    variant->target = code.target;
    variant->family = code.family;
    variant->code = std::make_unique<mf::Range>(module.writer.add_code(std::as_bytes(std::span<const char>(code.bytes))));
    for (const auto& one : kEntries) {
      auto entry = std::make_unique<mf::EntryT>();
      entry->name = one.name;
      entry->binding_count = one.bindings;
      entry->constants_bytes = one.constants * 8;
      executable->entries.push_back(std::move(entry));
      auto resources = std::make_unique<mf::EntryResourcesT>();
      resources->cost = 1;
      resources->workgroup_size = {code.threads, 1, 1};
      variant->resources.push_back(std::move(resources));
    }
    executable->variants.push_back(std::move(variant));
    module.module.executables.push_back(std::move(executable));

    mf::FunctionT& adds = module.add_function("add");
    for (const char* input : {"a", "b"}) adds.arguments.push_back(ModuleBuilder::type(input, {ModuleBuilder::extent(4)}));
    adds.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
    {
      ProgramBuilder p({code.family});
      uint32_t four = p.literal(4), one = p.literal(1);
      p.dispatch("add", 0,
                 {ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(p.argument(1), kRead),
                  ProgramBuilder::whole(p.result(0), kWrite)},
                 {four, four}, {one, one, one});
      adds.programs.push_back(p.finish());
    }
    mf::FunctionT& chains = module.add_function("chain");
    chains.arguments.push_back(ModuleBuilder::type("seed", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    chains.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(1)}, HEDDLE_TYPE_I64));
    {
      ProgramBuilder p({code.family});
      uint32_t one = p.literal(1), eight = p.literal(8), scratch = p.transient(eight);
      p.copy(ProgramBuilder::whole(p.argument(0), kRead), ProgramBuilder::whole(scratch, kWrite));
      for (int i = 0; i < kChainLength; ++i) {
        p.barrier();
        p.dispatch("step", 1, {ProgramBuilder::whole(scratch, kReadWrite)}, {one}, {one, one, one});
      }
      p.barrier();
      p.copy(ProgramBuilder::whole(scratch, kRead), ProgramBuilder::whole(p.result(0), kWrite));
      chains.programs.push_back(p.finish());
    }
    std::string path = folder.path("bench.heddle");
    std::string written = module.write(path);
    if (!written.empty()) std::fprintf(stderr, "%s\n", written.c_str());
    ModuleHandle opened = open_module(runtime.get(), path);
    must(create_instance(opened.get(), {{"", options.device.alias}}, &instance));
    add = find_function(instance, "add");
    chain = find_function(instance, "chain");
    a = make_tensor<float>(add, 0, {4}, {1, 2, 3, 4});
    b = make_tensor<float>(add, 1, {4}, {1, 2, 3, 4});
    seed = make_tensor<int64_t>(chain, 0, {1}, {1}, HEDDLE_TYPE_I64);
    for (uint32_t i = 0; i < kInFlight; ++i) {
      owned.push_back(make_tensor<float>(add, 0, {4}, {0, 0, 0, 0}));
      sums.push_back(owned.back().get());
    }
    owned.push_back(make_tensor<int64_t>(chain, 0, {1}, {0}, HEDDLE_TYPE_I64));
    ends.push_back(owned.back().get());
  }

  void call_add(heddle_tensor_t* result) {
    heddle_tensor_t* arguments[] = {a.get(), b.get()};
    heddle_tensor_t* out = result;
    must(heddle_call(add, arguments, 2, &out, 1));
    if (!result) heddle_tensor_release(out);
  }
  void call_chain() {
    heddle_tensor_t* argument = seed.get();
    must(heddle_call(chain, &argument, 1, ends.data(), 1));
  }
  heddle_call_t* start_add(heddle_tensor_t* result) {
    heddle_tensor_t* arguments[] = {a.get(), b.get()};
    heddle_call_t* call = nullptr;
    must(heddle_call_start(add, nullptr, arguments, 2, &result, 1, &call));
    return call;
  }
  static void finish(heddle_call_t* call) {
    must(heddle_call_wait(call, HEDDLE_TIMEOUT_INFINITE));
    heddle_call_release(call);
  }
};

// The same on the driver's table alone: buffers and commands made ahead.
struct ThroughTable {
  std::shared_ptr<host::Host> host;
  memory::Ref<memory::Device> device;
  heddle_entry_t *add = nullptr, *step = nullptr;
  heddle_timeline_t* timelines[kInFlight] = {};
  uint64_t values[kInFlight] = {};
  std::vector<heddle_binding_t> bindings;
  int64_t add_constants[2] = {4, 4};
  int64_t chain_constant = 1;
  std::vector<heddle_command_t> add_commands, chain_commands;
  heddle_recording_t* chain_recording = nullptr;  // where the device records, as the runtime does then

  ThroughTable(const Options& from, const Code& code) {
    host::HostOptions options;
    options.no_config = true;
    options.config_text = from.config;
    options.plugin_paths = from.device.plugin_paths();
    host = std::shared_ptr<host::Host>(std::move(*host::Host::open(options)));
    device = *memory::Device::open(host, *host->device(from.device.alias));
    const heddle_driver_api_t& api = device->api();
    heddle_entry_params_t entries[std::size(kEntries)] = {};
    for (size_t i = 0; i < std::size(kEntries); ++i) {
      entries[i].struct_size = sizeof(heddle_entry_params_t);
      entries[i].name = c_string(kEntries[i].name);
      entries[i].binding_count = kEntries[i].bindings;
      entries[i].constants_bytes = kEntries[i].constants * 8;
      entries[i].workgroup_size[0] = code.threads;
      entries[i].workgroup_size[1] = entries[i].workgroup_size[2] = 1;
      entries[i].cost = 1;
    }
    heddle_executable_params_t params{};
    params.struct_size = sizeof(params);
    params.entry_count = static_cast<uint32_t>(std::size(kEntries));
    params.format = c_string(code.format);
    params.target = c_string(code.target);
    params.code = code.bytes.data();
    params.code_bytes = code.bytes.size();
    params.entries = entries;
    params.entry_stride = sizeof(heddle_entry_params_t);
    params.name = c_string("bench");
    heddle_executable_t* executable = nullptr;
    must(api.dispatch->executable_load(device->get(), &params, &executable));
    must(api.dispatch->entry(executable, 0, &add));
    must(api.dispatch->entry(executable, 1, &step));
    heddle_buffer_t* buffer = nullptr;
    heddle_buffer_params_t wanted{sizeof(wanted), HEDDLE_MEMORY_DEVICE, 4096, 0};
    must(api.buffer->allocate(device->get(), &wanted, &buffer));
    for (heddle_timeline_t*& timeline : timelines) must(api.timeline->create(device->get(), 0, &timeline));
    bindings = {{buffer, 0, 16}, {buffer, 256, 16}, {buffer, 512, 16}, {buffer, 768, 8}};
    heddle_command_t one{};
    one.kind = HEDDLE_COMMAND_DISPATCH;
    one.as.dispatch = {add, bindings.data(), add_constants, 3, 16, {1, 1, 1}, 0};
    add_commands.push_back(one);
    heddle_command_t copy{};
    copy.kind = HEDDLE_COMMAND_COPY;
    copy.as.copy = {buffer, buffer, 1024, 768, 8};
    chain_commands.push_back(copy);
    one.as.dispatch = {step, bindings.data() + 3, &chain_constant, 1, 8, {1, 1, 1}, 0};
    for (int i = 0; i < kChainLength; ++i) {
      chain_commands.push_back(heddle_command_t{});
      chain_commands.push_back(one);
    }
    chain_commands.push_back(heddle_command_t{});
    copy.as.copy = {buffer, buffer, 768, 1280, 8};
    chain_commands.push_back(copy);
    if (device->description().features & HEDDLE_DEVICE_RECORDING) {
      std::vector<uint8_t> dynamic(kChainLength + 4, 0);
      dynamic.front() = dynamic.back() = 1;  // what the chain begins with, and where it ends
      must(api.dispatch->record(device->queue(), chain_commands.data(), static_cast<uint32_t>(chain_commands.size()), dynamic.data(),
                                &chain_recording));
    }
  }

  void submit_chain() {
    if (!chain_recording) return submit(chain_commands, 0);
    heddle_point_t signal{timelines[0], ++values[0]};
    heddle_sync_t sync{sizeof(heddle_sync_t), 0, 1, 0, nullptr, &signal};
    const heddle_binding_t ends[] = {{bindings[0].buffer, 1024, 8}, {bindings[0].buffer, 1280, 8}};
    must(device->api().dispatch->replay(chain_recording, ends, 2, &sync));
  }

  void submit(const std::vector<heddle_command_t>& commands, uint32_t which) {
    heddle_point_t signal{timelines[which], ++values[which]};
    heddle_submission_t submission{
        sizeof(submission), static_cast<uint32_t>(commands.size()), commands.data(), {sizeof(heddle_sync_t), 0, 1, 0, nullptr, &signal}};
    must(device->api().dispatch->submit(device->queue(), &submission));
  }
  void wait(uint32_t which) {
    heddle_point_t signal{timelines[which], values[which]};
    must(device->api().timeline->wait(&signal, 1, HEDDLE_WAIT_ALL, HEDDLE_TIMEOUT_INFINITE));
  }
};

// Nanoseconds of a submission.
struct Row {
  double left, right, difference;
};
using Table = std::vector<std::pair<std::string, Row>>;

double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

// Interleaved rounds: what else the machine does hits both alike, so the core's part is the median of the differences, not the difference of the medians. Each
// function gives the nanoseconds of `count` submissions.
template <typename Left, typename Right>
void compare(Table* table, const char* name, int rounds, Left through_runtime, Right through_table) {
  std::vector<double> left, right, difference;
  for (int i = 0; i < rounds; ++i) {
    left.push_back(through_runtime());
    right.push_back(through_table());
    difference.push_back(left.back() - right.back());
  }
  table->emplace_back(name, Row{median(left), median(right), median(difference)});
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename Function>
auto one_at_a_time(int count, Function function) {
  return [=] {
    const double start = now_ns();
    for (int i = 0; i < count; ++i) function();
    return (now_ns() - start) / count;
  };
}

// What one process measures.
Table measure(const Options& options, bool table_first) {
  const Code code(options.device);
  std::unique_ptr<ThroughTable> made;
  if (table_first) made = std::make_unique<ThroughTable>(options, code);
  ThroughRuntime runtime(options, code);
  if (!made) made = std::make_unique<ThroughTable>(options, code);
  ThroughTable& table = *made.release();  // goes with the process
  const int rounds = options.rounds, count = 200;
  Table rows;
  auto table_add = one_at_a_time(count, [&] {
    table.submit(table.add_commands, 0);
    table.wait(0);
  });
  compare(&rows, "one dispatch, heddle_call", rounds, one_at_a_time(count, [&] { runtime.call_add(runtime.sums[0]); }), table_add);
  compare(&rows, "the same, with a new result", rounds, one_at_a_time(count, [&] { runtime.call_add(nullptr); }), table_add);
  compare(&rows, "one dispatch, start and wait", rounds,
          one_at_a_time(count, [&] { ThroughRuntime::finish(runtime.start_add(runtime.sums[0])); }), table_add);
  // The host's part alone: what the device does meanwhile is in neither.
  auto starts = [&] {
    heddle_call_t* calls[kInFlight];
    double ns = 0;
    for (int turn = 0; turn < 8; ++turn) {
      const double start = now_ns();
      for (uint32_t i = 0; i < kInFlight; ++i) calls[i] = runtime.start_add(runtime.sums[i]);
      ns += now_ns() - start;
      for (heddle_call_t* call : calls) ThroughRuntime::finish(call);
    }
    return ns / 8 / kInFlight;
  };
  auto submits = [&] {
    double ns = 0;
    for (int turn = 0; turn < 8; ++turn) {
      const double start = now_ns();
      for (uint32_t i = 0; i < kInFlight; ++i) table.submit(table.add_commands, i);
      ns += now_ns() - start;
      for (uint32_t i = 0; i < kInFlight; ++i) table.wait(i);
    }
    return ns / 8 / kInFlight;
  };
  compare(&rows, "one dispatch, start alone, 32 in flight", rounds, starts, submits);
  auto finished = [&] {
    heddle_call_t* calls[kInFlight];
    const double start = now_ns();
    for (uint32_t i = 0; i < kInFlight; ++i) calls[i] = runtime.start_add(runtime.sums[i]);
    for (heddle_call_t* call : calls) ThroughRuntime::finish(call);
    return (now_ns() - start) / kInFlight;
  };
  auto waited = [&] {
    const double start = now_ns();
    for (uint32_t i = 0; i < kInFlight; ++i) table.submit(table.add_commands, i);
    for (uint32_t i = 0; i < kInFlight; ++i) table.wait(i);
    return (now_ns() - start) / kInFlight;
  };
  compare(&rows, "the same with its wait", rounds, finished, waited);
  compare(&rows, "100 dependent dispatches, heddle_call", rounds, one_at_a_time(count / 4, [&] { runtime.call_chain(); }),
          one_at_a_time(count / 4, [&] {
            table.submit_chain();
            table.wait(0);
          }));
  return rows;
}

// In a child, whose rows come through a pipe.
Table measure_in_a_child(const Options& options, bool table_first) {
  int ends[2];
  if (pipe(ends) != 0) must(status_create(HEDDLE_STATUS_UNAVAILABLE, "no pipe"));
  const pid_t child = fork();
  if (child < 0) must(status_create(HEDDLE_STATUS_UNAVAILABLE, "no process"));
  if (child == 0) {
    FILE* out = fdopen(ends[1], "w");
    for (const auto& [name, row] : measure(options, table_first))
      std::fprintf(out, "%.3f %.3f %.3f %s\n", row.left, row.right, row.difference, name.c_str());
    std::fflush(out);
    _exit(0);
  }
  close(ends[1]);
  FILE* in = fdopen(ends[0], "r");
  Table rows;
  Row row;
  char name[200];
  while (std::fscanf(in, "%lf %lf %lf %199[^\n]", &row.left, &row.right, &row.difference, name) == 4) rows.emplace_back(name, row);
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(1);
  return rows;
}

void run(const Options& options) {
  std::vector<Table> all;
  for (int i = 0; i < options.processes; ++i) all.push_back(measure_in_a_child(options, i % 2 != 0));
  std::printf("%s, medians of %d processes of %d rounds in turns, and the least and most of the processes; ns for each submission\n\n",
              options.device.alias.c_str(), options.processes, options.rounds);
  std::printf("| what | runtime.h | driver's table | core |\n| --- | ---: | ---: | ---: |\n");
  for (size_t i = 0; i < all.front().size(); ++i) {
    std::vector<double> left, right, difference;
    for (const Table& one : all) {
      left.push_back(one[i].second.left);
      right.push_back(one[i].second.right);
      difference.push_back(one[i].second.difference);
    }
    const auto [least, most] = std::minmax_element(difference.begin(), difference.end());
    std::printf("| %s | %.0f | %.0f | %.0f (%.0f to %.0f) |\n", all.front()[i].first.c_str(), median(left), median(right),
                median(difference), *least, *most);
  }
}

}  // namespace
}  // namespace heddle::testing

int main(int argc, char** argv) {
  heddle::testing::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--device") options.device.alias = value;
    if (name == "--config") options.config = value;
    if (name == "--rounds") options.rounds = std::max(1, std::atoi(value.c_str()));
    if (name == "--processes") options.processes = std::max(1, std::atoi(value.c_str()));
  }
  options.config = options.device.config() + options.config;
  heddle::testing::run(options);
}
