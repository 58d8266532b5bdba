// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of hand-written PTX through heddle.cuda: arguments, workgroups, shared memory, tensor maps, early start, and what is refused.
#include <algorithm>
#include <numeric>

#include "cuda_case.h"

namespace heddle::test {
namespace {

using CudaDispatch = Cuda;

heddle_argument_t argument(uint32_t kind, uint32_t index, uint32_t size_bytes = 0) {
  return {kind, index, size_bytes, 0, nullptr};
}

TEST_F(CudaDispatch, AddsVectorsOfEveryLength) {
  Loaded add(&driver(), add_facts());
  for (size_t count : {1u, 127u, 128u, 129u, 100000u, 5000000u}) {
    std::vector<float> left(count), right(count);
    for (size_t i = 0; i < count; ++i) {
      left[i] = static_cast<float>(i % 1000);
      right[i] = static_cast<float>(i % 77) * 2;
    }
    heddle_buffer_t *a = driver().make_filled(left), *b = driver().make_filled(right), *out = driver().make_buffer(count * 4 + 64);
    driver().write(out, count * 4, "guard", 5);
    const std::vector<heddle_binding_t> bindings = {{a, 0, count * 4}, {b, 0, count * 4}, {out, 0, count * 4}};
    const std::vector<int64_t> constants = {static_cast<int64_t>(count), -3};
    ASSERT_OK(driver().run({add.command(bindings, constants, static_cast<uint32_t>((count + 127) / 128))}));
    const std::vector<float> got = driver().values_of<float>(out, count);
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += got[i] != left[i] + right[i] - 3;
    EXPECT_EQ(wrong, 0u) << count;
    char guard[5];
    driver().read(out, count * 4, guard, 5);
    EXPECT_EQ(std::memcmp(guard, "guard", 5), 0);
    free({a, b, out});
  }
}

TEST_F(CudaDispatch, BindingsStartAtTheirOffsets) {
  Loaded add(&driver(), add_facts());
  std::vector<float> ramp(1000);
  std::iota(ramp.begin(), ramp.end(), 0.0f);
  heddle_buffer_t* buffer = driver().make_filled(ramp);
  const std::vector<heddle_binding_t> bindings = {{buffer, 0, 400}, {buffer, 400, 400}, {buffer, 2000, 400}};
  const std::vector<int64_t> constants = {100, 0};
  ASSERT_OK(driver().run({add.command(bindings, constants)}));
  const std::vector<float> got = driver().values_of<float>(buffer, 1000);
  EXPECT_EQ(got[499], 499);
  EXPECT_EQ(got[500], 100);
  EXPECT_EQ(got[599], 99 + 199);
  EXPECT_EQ(got[600], 600);
  free({buffer});
}

TEST_F(CudaDispatch, RunsEveryThreadOfEveryWorkgroupOnce) {
  struct Shape {
    std::vector<uint32_t> workgroup;
    uint32_t grid[3];
  };
  for (const Shape& shape : {Shape{{1, 1, 1}, {1, 1, 1}}, Shape{{32, 1, 1}, {1000, 1, 1}}, Shape{{1024, 1, 1}, {3, 2, 1}},
                             Shape{{8, 4, 2}, {5, 3, 7}}, Shape{{1, 16, 64}, {2, 1, 3}}, Shape{{33, 3, 1}, {1, 65, 2}}}) {
    Loaded kernel(&driver(), {"count_threads", 1, 0, shape.workgroup});
    const uint64_t threads =
        uint64_t{shape.workgroup[0]} * shape.workgroup[1] * shape.workgroup[2] * shape.grid[0] * shape.grid[1] * shape.grid[2];
    heddle_buffer_t* counts = driver().make_filled(std::vector<uint32_t>(threads + 1, 0));
    const std::vector<heddle_binding_t> bindings = {{counts, 0, threads * 4}};
    ASSERT_OK(driver().run({kernel.command(bindings, {}, shape.grid[0], shape.grid[1], shape.grid[2])}));
    std::vector<uint32_t> expected(threads + 1, 1);
    expected[threads] = 0;
    EXPECT_TRUE(driver().values_of<uint32_t>(counts, threads + 1) == expected) << threads;
    free({counts});
  }
}

TEST_F(CudaDispatch, EmptyGridsDoNothingAndOrder) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
  const std::vector<heddle_binding_t> bindings = {{value, 0, 8}};
  const std::vector<int64_t> one = {1}, five = {5};
  ASSERT_OK(driver().run({chain.command(bindings, one), barrier(), chain.command(bindings, five, 0), barrier(),
                          chain.command(bindings, five, 1, 0, 1), barrier(), chain.command(bindings, one)}));
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], (1u * 3 + 1) * 3 + 1);
  ASSERT_OK(driver().run({chain.command(bindings, five, 7, 7, 0)}));
  ASSERT_OK(driver().run({}));
  ASSERT_OK(driver().run({barrier(), barrier()}));
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], 13u);
  free({value});
}

TEST_F(CudaDispatch, BarriersOrderEverything) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
  heddle_buffer_t* other = driver().make_buffer(8);
  const std::vector<heddle_binding_t> here = {{value, 0, 8}}, there = {{other, 0, 8}};
  std::vector<std::vector<int64_t>> constants;
  for (int64_t i = 0; i < 100; ++i) constants.push_back({i});
  std::vector<heddle_command_t> commands;
  uint64_t expected = 1;
  for (size_t i = 0; i < 100; ++i) {
    commands.push_back(chain.command(i % 2 ? there : here, constants[i]));
    commands.push_back(barrier());
    commands.push_back(i % 2 ? copy(other, 0, value, 0, 8) : copy(value, 0, other, 0, 8));
    commands.push_back(barrier());
    expected = expected * 3 + i;
  }
  ASSERT_OK(driver().run(commands));
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], expected);
  free({value, other});
}

TEST_F(CudaDispatch, GivesSharedMemoryAbove48KiB) {
  for (uint64_t bytes : {uint64_t{1} << 10, uint64_t{48} << 10, uint64_t{64} << 10, uint64_t{99} << 10, description.shared_memory_bytes}) {
    if (bytes > description.shared_memory_bytes) continue;
    const size_t count = bytes / 4;
    Loaded kernel(&driver(), {"reverse", 2, 1, {256, 1, 1}, bytes});
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 17u);
    heddle_buffer_t *in = driver().make_filled(values), *out = driver().make_buffer(bytes);
    const std::vector<heddle_binding_t> bindings = {{in, 0, bytes}, {out, 0, bytes}};
    const std::vector<int64_t> constants = {static_cast<int64_t>(count)};
    ASSERT_OK(driver().run({kernel.command(bindings, constants)}));
    std::reverse(values.begin(), values.end());
    EXPECT_TRUE(driver().values_of<uint32_t>(out, count) == values) << bytes;
    free({in, out});
  }
}

TEST_F(CudaDispatch, EntriesOfOneSymbolHaveSharedMemoryOfTheirOwn) {
  const uint64_t large = std::min<uint64_t>(description.shared_memory_bytes, 96 << 10), small = 56 << 10;
  heddle_executable_t* executable = nullptr;
  ASSERT_OK(load_code(driver(), driver().device, "ptx/1", "sm_80", kPtx80, std::strlen(kPtx80),
                      {{"reverse", 2, 1, {128, 1, 1}, large}, {"reverse", 2, 1, {128, 1, 1}, small}}, &executable));
  const size_t count = large / 4;
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 1u);
  heddle_buffer_t *in = driver().make_filled(values), *out = driver().make_buffer(large);
  const heddle_binding_t bindings[] = {{in, 0, large}, {out, 0, large}};
  const int64_t constant = static_cast<int64_t>(count);
  heddle_command_t command = {};
  command.kind = HEDDLE_COMMAND_DISPATCH;
  command.as.dispatch = {nullptr, bindings, &constant, 2, 8, {1, 1, 1}, 0};
  EXPECT_OK(driver().dispatch_api->entry(executable, 0, &command.as.dispatch.entry));
  EXPECT_OK(driver().run({command}));
  EXPECT_EQ(driver().values_of<uint32_t>(out, 1)[0], count);
  driver().dispatch_api->executable_unload(executable);
  free({in, out});
}

TEST_F(CudaDispatch, PacksARecipe) {
  Loaded kernel(&driver(), {"recipe",
                            2,
                            3,
                            {1, 1, 1},
                            0,
                            {argument(HEDDLE_ARGUMENT_CONSTANT, 8, 4), argument(HEDDLE_ARGUMENT_BINDING, 1),
                             argument(HEDDLE_ARGUMENT_CONSTANT, 0, 8), argument(HEDDLE_ARGUMENT_BINDING, 0),
                             argument(HEDDLE_ARGUMENT_CONSTANT, 17, 1), argument(HEDDLE_ARGUMENT_CONSTANT, 18, 2)}});
  heddle_buffer_t *in = driver().make_filled(std::vector<uint64_t>{0xabcdefu}), *out = driver().make_buffer(40);
  const std::vector<heddle_binding_t> bindings = {{in, 0, 8}, {out, 0, 40}};
  const std::vector<int64_t> constants = {0x1122334455667788, 0x0102030405060708, 0x0a0b0c0d0e0f9876};
  ASSERT_OK(driver().run({kernel.command(bindings, constants)}));
  EXPECT_EQ(driver().values_of<uint64_t>(out, 5), (std::vector<uint64_t>{0x05060708, 0x1122334455667788, 0x98, 0x0e0f, 0xabcdef}));
  free({in, out});
}

// ------------------------------------------------------------------------------------------------------------- tensor maps

heddle_tensor_map_t tile_map() {
  heddle_tensor_map_t map = {};
  map.element_type = HEDDLE_TYPE_F32;
  map.rank = 2;
  map.box[0] = 32;
  map.box[1] = 8;
  map.element_strides[0] = map.element_strides[1] = 1;
  map.dim_constant[0] = 2;
  map.dim_constant[1] = 3;
  map.stride_constant[0] = 4;
  return map;
}

KernelFacts tile_facts(const heddle_tensor_map_t* map) {
  return {"copy_tile",
          2,
          5,
          {64, 1, 1},
          0,
          {{HEDDLE_ARGUMENT_TENSOR_MAP, 0, 0, sizeof *map, map},
           argument(HEDDLE_ARGUMENT_BINDING, 1),
           argument(HEDDLE_ARGUMENT_CONSTANT, 0, 4),
           argument(HEDDLE_ARGUMENT_CONSTANT, 8, 4)}};
}

TEST_F(CudaDispatch, CopiesTilesThroughATensorMap) {
  if (!is_hopper) GTEST_SKIP() << "SKIP: tensor maps of sm_90a need compute capability 9.0";
  const heddle_tensor_map_t map = tile_map();
  Loaded kernel(&driver(), tile_facts(&map), "sm_90a");
  const uint64_t width = 100, height = 37, pitch = 112;  // elements; rows of 448 bytes
  std::vector<float> values(pitch * height);
  std::iota(values.begin(), values.end(), 1.0f);
  heddle_buffer_t *in = driver().make_filled(values), *out = driver().make_buffer(1024);
  for (const auto& [x, y] : {std::pair<uint64_t, uint64_t>{0, 0}, {32, 8}, {4, 29}, {96, 0}, {68, 36}, {64, 100}}) {
    const std::vector<heddle_binding_t> bindings = {{in, 0, values.size() * 4}, {out, 0, 1024}};
    const std::vector<int64_t> constants = {static_cast<int64_t>(x), static_cast<int64_t>(y), static_cast<int64_t>(width),
                                            static_cast<int64_t>(height), static_cast<int64_t>(pitch * 4)};
    ASSERT_OK(driver().run({kernel.command(bindings, constants)}));
    const std::vector<float> got = driver().values_of<float>(out, 256);
    size_t wrong = 0;
    for (uint64_t row = 0; row < 8; ++row) {
      for (uint64_t column = 0; column < 32; ++column) {
        const bool inside = x + column < width && y + row < height;
        wrong += got[row * 32 + column] != (inside ? values[(y + row) * pitch + x + column] : 0.0f);
      }
    }
    EXPECT_EQ(wrong, 0u) << "at " << x << ", " << y;
  }
  // A row stride that is no multiple of 16 is refused before anything runs.
  const std::vector<heddle_binding_t> bindings = {{in, 0, values.size() * 4}, {out, 0, 1024}};
  const std::vector<int64_t> constants = {0, 0, 10, 10, 44};
  EXPECT_FAILS(driver().run({kernel.command(bindings, constants)}), HEDDLE_STATUS_INVALID_ARGUMENT, "tensor map of binding 0");
  free({in, out});
}

TEST_F(CudaDispatch, RefusesTensorMapsThatMakeNoSense) {
  if (!is_hopper) GTEST_SKIP() << "SKIP: tensor maps of sm_90a need compute capability 9.0";
  auto refused = [&](const char* part, void (*change)(heddle_tensor_map_t*)) {
    heddle_tensor_map_t map = tile_map();
    change(&map);
    heddle_executable_t* executable = nullptr;
    EXPECT_FAILS(load_code(driver(), driver().device, "ptx/1", "sm_90a", kPtx90a, std::strlen(kPtx90a), {tile_facts(&map)}, &executable),
                 HEDDLE_STATUS_INVALID_ARGUMENT, part);
  };
  refused("element type", [](heddle_tensor_map_t* map) { map->element_type = HEDDLE_TYPE_I4; });
  refused("rank", [](heddle_tensor_map_t* map) { map->rank = 6; });
  refused("swizzle", [](heddle_tensor_map_t* map) { map->swizzle_bytes = 48; });
  refused("promotion", [](heddle_tensor_map_t* map) { map->l2_promotion_bytes = 32; });
  refused("flags", [](heddle_tensor_map_t* map) { map->flags = 128; });
  refused("constant", [](heddle_tensor_map_t* map) { map->dim_constant[1] = 5; });
}

// ------------------------------------------------------------------------------------------------------------- early start

TEST_F(CudaDispatch, EarlyStartKeepsADependentChainInOrder) {
  if (!is_hopper) GTEST_SKIP() << "SKIP: early start needs compute capability 9.0";
  Loaded shuffle(&driver(), {"shuffle", 2, 2, {256, 1, 1}}, "sm_90a");
  const uint32_t count = 300007, steps = 400;
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0u);
  heddle_buffer_t *a = driver().make_filled(values), *b = driver().make_buffer(count * 4);
  const std::vector<heddle_binding_t> there = {{a, 0, count * 4}, {b, 0, count * 4}}, back = {{b, 0, count * 4}, {a, 0, count * 4}};
  const std::vector<int64_t> constants = {count, 12347};
  std::vector<heddle_command_t> commands;
  for (uint32_t i = 0; i < steps; ++i) {
    commands.push_back(shuffle.command(i % 2 ? back : there, constants, (count + 255) / 256));
    commands.push_back(barrier());
    // What is no kernel comes between now and then.
    if (i % 64 == 63) commands.insert(commands.end(), {copy(a, 0, b, 0, count * 4), barrier()});
  }
  ASSERT_OK(driver().run(commands));
  std::vector<uint32_t> next(count);
  for (uint32_t i = 0; i < steps; ++i) {
    for (uint32_t at = 0; at < count; ++at) next[at] = values[(at + 12347) % count] * 3 + 1;
    values.swap(next);
  }
  EXPECT_TRUE(driver().values_of<uint32_t>(a, count) == values);
  free({a, b});
}

// ------------------------------------------------------------------------------------------------------------ what is refused

TEST_F(CudaDispatch, RefusesWhatAKernelDoesNotTake) {
  heddle_executable_t* executable = nullptr;
  auto load = [&](const KernelFacts& facts, const char* target = "sm_80") {
    return load_code(driver(), driver().device, "ptx/1", target, kPtx80, std::strlen(kPtx80), {facts}, &executable);
  };
  EXPECT_FAILS(load({"absent", 0, 0}), HEDDLE_STATUS_NOT_FOUND, "'absent'");
  EXPECT_FAILS(load({"linger", 0, 1, {1025, 1, 1}}), HEDDLE_STATUS_INVALID_ARGUMENT, "102");
  EXPECT_FAILS(load({"linger", 0, 1, {0, 1, 1}}), HEDDLE_STATUS_INVALID_ARGUMENT, "no threads");
  EXPECT_FAILS(load({"linger", 0, 1, {1, 1, 1}, uint64_t{1} << 30}), HEDDLE_STATUS_INVALID_ARGUMENT, "shared");
  EXPECT_FAILS(load({"linger", 0, 1}, "sm_999"), HEDDLE_STATUS_FAILED_PRECONDITION, "sm_999");
  EXPECT_FAILS(load({"linger", 0, 1}, "gfx942"), HEDDLE_STATUS_FAILED_PRECONDITION, "gfx942");
  EXPECT_FAILS(load({"recipe", 2, 1, {1, 1, 1}, 0, {argument(HEDDLE_ARGUMENT_BINDING, 2)}}), HEDDLE_STATUS_INVALID_ARGUMENT, "binding 2");
  EXPECT_FAILS(load({"recipe", 2, 1, {1, 1, 1}, 0, {argument(HEDDLE_ARGUMENT_CONSTANT, 4, 8)}}), HEDDLE_STATUS_INVALID_ARGUMENT,
               "ends after");
  EXPECT_EQ(executable, nullptr);
}

TEST_F(CudaDispatch, RefusesBadDispatchesAsAWhole) {
  Loaded chain(&driver(), chain_facts());
  heddle_buffer_t* value = driver().make_filled(std::vector<uint64_t>{1});
  const std::vector<heddle_binding_t> good = {{value, 0, 8}}, far = {{value, 1, 8}}, none = {{nullptr, 0, 8}};
  const std::vector<int64_t> constants = {1};
  auto refused = [&](const heddle_command_t& command, heddle_status_code_t code, const char* part) {
    EXPECT_FAILS(driver().run({chain.command(good, constants), command}), code, part);
  };
  refused(chain.command(far, constants), HEDDLE_STATUS_OUT_OF_RANGE, "binding 0 (8 bytes at 1)");
  refused(chain.command(none, constants), HEDDLE_STATUS_OUT_OF_RANGE, "no buffer");
  refused(chain.command({}, constants), HEDDLE_STATUS_INVALID_ARGUMENT, "0 bindings");
  refused(chain.command(good, {}), HEDDLE_STATUS_INVALID_ARGUMENT, "0 bytes of constants");
  refused(chain.command(good, constants, 1, 70000, 1), HEDDLE_STATUS_OUT_OF_RANGE, "70000");
  heddle_command_t unknown = {};
  unknown.kind = 77;
  refused(unknown, HEDDLE_STATUS_INVALID_ARGUMENT, "kind 77");
  EXPECT_EQ(driver().values_of<uint64_t>(value, 1)[0], 1u) << "nothing of a refused list runs";
  free({value});
}

}  // namespace
}  // namespace heddle::test
