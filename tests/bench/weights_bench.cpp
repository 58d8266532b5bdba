// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What opening and closing cost beside the size of the weights: modules with 1 MB and 100 GB of them, few tensors and many, in the module's own
// file and in one beside it. The files are sparse, and instances read none of the weights, so that their time is that of all but
// reading. Prints a table of medians; run by hand: weights_bench [--device ALIAS]; tests/gpu/run does on a GPU.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include "../support/bench_device.h"
#include "../support/module_builder.h"
#include "../support/runtime_session.h"
#include "../support/sparse_weights.h"
#include "../temporary_folder.h"
#include "sdk/module/layout.h"
#include "sdk/module/reader.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace heddle::testing {
namespace {

constexpr int kRounds = 21;

struct Case {
  const char* name;
  uint64_t tensors, elements;  // elements of each
  bool inside;
  std::string module = {}, file = {};
  std::vector<double> open = {}, create = {}, destroy = {}, close = {};
};

double milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Writes the module again with stored parameters of this size, as a hole: the file has tiny ones, and neither constants nor code.
void stretch(const std::string& path, uint64_t bytes_each) {
  mf::ModuleT meta;
  {
    auto written = module::open_module(path);
    ASSERT_TRUE(written.ok());
    written.value()->metadata().UnPackTo(&meta);
  }
  uint64_t end = 0;
  for (std::unique_ptr<mf::ParameterT>& parameter : meta.parameters) {
    end = module::align_up(end, 64);
    parameter->data = std::make_unique<mf::Range>(end, bytes_each);
    parameter->size_bytes = bytes_each;
    parameter->dims = {static_cast<int64_t>(bytes_each / 4)};
    end += bytes_each;
  }
  for (std::unique_ptr<mf::GlobalT>& global : meta.globals) {
    if (global->kind == mf::GlobalKind::Parameter) global->size_bytes = bytes_each;
  }
  flatbuffers::FlatBufferBuilder builder;
  mf::FinishModuleBuffer(builder, mf::Module::Pack(builder, &meta));

  module::FileHeader header{};
  std::memcpy(header.magic, module::kMagic, sizeof header.magic);
  header.format_major = module::kFormatMajor;
  header.format_minor = module::kFormatMinor;
  header.section_count = module::kSectionCount;
  uint64_t at = sizeof header;
  const uint64_t sizes[] = {builder.GetSize(), 0, 0, end};
  for (uint32_t i = 0; i < module::kSectionCount; ++i) {
    header.sections[i] = {i, 0, module::align_up(at, module::kSectionAlignments[i]), sizes[i]};
    at = header.sections[i].offset + sizes[i];
  }
  header.file_bytes = at;
  std::vector<char> head(header.sections[3].offset);
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + header.sections[0].offset, builder.GetBufferPointer(), builder.GetSize());
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(head.data(), head.size()));
  std::memcpy(head.data() + offsetof(module::FileHeader, content_hash), hash.digest, sizeof hash.digest);
  write_file(path, {head.data(), head.size()});
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(header.file_bytes)), 0);
}

void write(Case* one, const TemporaryFolder& folder, int number, const std::string& family) {
  one->module = folder.path(std::to_string(number) + ".heddle");
  ModuleBuilder module(family);
  const std::vector<float> nothing(1);
  for (uint64_t i = 0; i < one->tensors; ++i) {
    const uint32_t parameter =
        module.add_parameter("", "w" + std::to_string(i), {one->inside ? 1 : static_cast<int64_t>(one->elements)},
                             one->inside ? std::as_bytes(std::span<const float>(nothing)) : std::span<const std::byte>());
    module.add_global("g", mf::GlobalKind::Parameter, one->inside ? 4 : one->elements * 4, parameter);
  }
  // main gives 16 bytes of state: no weight is read.
  const uint32_t state = module.add_global("state", mf::GlobalKind::State, 16);
  mf::FunctionT& function = module.add_function("main");
  function.results.push_back(ModuleBuilder::type("out", {ModuleBuilder::extent(4)}));
  ProgramBuilder p({family});
  p.copy(ProgramBuilder::whole(p.global(state), kRead), ProgramBuilder::whole(p.result(0), kWrite));
  function.programs.push_back(p.finish());
  ASSERT_EQ(module.write(one->module), "");
  if (one->inside) {
    stretch(one->module, one->elements * 4);
  } else if (one->tensors) {
    one->file = folder.path(std::to_string(number) + ".safetensors");
    ASSERT_NE(write_sparse_weights(one->file, one->tensors, one->elements), 0u);
  }
}

int run(const BenchDevice& device) {
  TemporaryFolder folder;
  constexpr uint64_t kMillion = 1'000'000, kGiga = 1'000 * kMillion;
  Case cases[] = {{"no weights", 0, 0, false},
                  {"4 tensors, 1 MB, in the module", 4, kMillion / 16, true},
                  {"4 tensors, 100 GB, in the module", 4, 100 * kGiga / 16, true},
                  {"1,000 tensors, 1 MB, in the module", 1000, kMillion / 4000, true},
                  {"1,000 tensors, 100 GB, in the module", 1000, 100 * kGiga / 4000, true},
                  {"4 tensors, 1 MB, safetensors", 4, kMillion / 16, false},
                  {"4 tensors, 100 GB, safetensors", 4, 100 * kGiga / 16, false},
                  {"1,000 tensors, 1 MB, safetensors", 1000, kMillion / 4000, false},
                  {"1,000 tensors, 100 GB, safetensors", 1000, 100 * kGiga / 4000, false}};
  int number = 0;
  for (Case& one : cases) write(&one, folder, number++, device.family());
  if (::testing::Test::HasFailure()) return 1;
  RuntimeHandle runtime = open_runtime(device.plugin_paths(), device.config());
  InstanceHandle kept;  // so that the device stays open: closing one is not what is timed
  HEDDLE_EXPECT_OK(create_instance(open_module(runtime.get(), cases[0].module).get(), {{"", device.alias}}, &kept));
  if (::testing::Test::HasFailure()) return 1;
  for (int round = 0; round <= kRounds; ++round) {  // the first is not counted
    for (Case& one : cases) {
      ModuleHandle module;
      InstanceHandle instance;
      const double times[] = {milliseconds([&] { module = open_module(runtime.get(), one.module); }), milliseconds([&] {
                                HEDDLE_EXPECT_OK(create_instance(module.get(), {{"", device.alias}}, &instance,
                                                                 one.file.empty() ? std::vector<std::pair<std::string, std::string>>()
                                                                                  : std::vector{std::pair{std::string(), one.file}}));
                              }),
                              milliseconds([&] { instance.reset(); }), milliseconds([&] { module.reset(); })};
      if (::testing::Test::HasFailure()) return 1;
      std::vector<double>* lists[] = {&one.open, &one.create, &one.destroy, &one.close};
      for (int i = 0; round > 0 && i < 4; ++i) lists[i]->push_back(times[i]);
    }
  }
  std::printf("%s, medians of %d rounds in turns\n\n", device.alias.c_str(), kRounds);
  std::printf("| weights | open, ms | instance, ms | close both, ms | all above none, ms |\n| --- | ---: | ---: | ---: | ---: |\n");
  auto sum = [](const Case& one) { return median(one.open) + median(one.create) + median(one.destroy) + median(one.close); };
  for (const Case& one : cases) {
    std::printf("| %s | %.3f | %.3f | %.3f | %.3f |\n", one.name, median(one.open), median(one.create),
                median(one.destroy) + median(one.close), sum(one) - sum(cases[0]));
  }
  for (int i = 1; i < number; i += 2) std::printf("%s / %s: %.2f\n", cases[i + 1].name, cases[i].name, sum(cases[i + 1]) / sum(cases[i]));
  return 0;
}

}  // namespace
}  // namespace heddle::testing

int main(int argc, char** argv) {
  heddle::testing::BenchDevice device;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--device") == 0) device.alias = argv[i + 1];
  }
  return heddle::testing::run(device);
}
