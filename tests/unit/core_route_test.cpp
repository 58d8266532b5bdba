// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The router: pure, so that every machine can be described here.
#include "core/route/route.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../support/module_builder.h"
#include "heddle/code.h"

namespace heddle::route {
namespace {

namespace mf = module_format;

// A module with one function: programs for the given families, per slot, and one executable with the given variants. Each program dispatches an
// entry of its own on each slot, counted from 0, and an operator of a plugin.
struct Described {
  Described(std::vector<std::string> slots, std::vector<std::vector<std::string>> programs,
            std::vector<std::pair<std::string, std::string>> variants, const std::string& format = "format") {
    mf::ModuleT module;
    for (const std::string& name : slots) {
      module.slots.push_back(std::make_unique<mf::SlotT>());
      module.slots.back()->name = name;
    }
    auto function = std::make_unique<mf::FunctionT>();
    function->name = "main";
    uint32_t entry = 0;
    for (const std::vector<std::string>& families : programs) {
      testing::ProgramBuilder p(families);
      uint32_t one = p.literal(1);
      for (uint32_t slot = 0; slot < slots.size(); ++slot) p.dispatch("region", entry++, {}, {}, {one, one, one}, slot);
      p.dispatch("operator", 0, {}, {}, {});
      p.program->dispatches.back()->candidates.clear();
      p.program->dispatches.back()->operation = std::make_unique<mf::OperationT>();
      function->programs.push_back(p.finish());
    }
    module.functions.push_back(std::move(function));
    auto executable = std::make_unique<mf::ExecutableT>();
    executable->name = "code";
    for (const auto& [family, target] : variants) {
      auto variant = std::make_unique<mf::VariantT>();
      variant->format = format;
      variant->family = family;
      variant->target = target;
      executable->variants.push_back(std::move(variant));
    }
    module.executables.push_back(std::move(executable));
    buffer.ForceDefaults(true);
    buffer.Finish(mf::Module::Pack(buffer, &module));
  }
  const mf::Module& get() const { return *flatbuffers::GetRoot<mf::Module>(buffer.GetBufferPointer()); }
  flatbuffers::FlatBufferBuilder buffer;
};

const std::vector<DeviceFacts> kMachine = {
    {"cpu:0", "heddle.cpu", "cpu"}, {"gpu0", "heddle.cuda", "cuda"}, {"gpu1", "heddle.cuda", "cuda"}};

// v4 is better than v3; gpu1 runs sm_90 only.
Result<uint32_t> rank(uint32_t device, std::string_view, std::string_view target) {
  if (device == 0) return target == "v4" ? 4u : target == "v3" ? 3u : 0u;
  if (target == "sm_90") return 9u;
  return device == 1 && target == "sm_80" ? 8u : 0u;
}

std::string explanation(const Route& route) {
  module::JsonWriter out;
  out.open('{');
  route.explain(out);
  return out.close('}').take();
}

TEST(Route, RunsPortableProgramsWhereThereIsNoneForTheFamily) {
  Described module({""}, {{"portable"}, {"cuda"}}, {{"portable", "v3"}, {"cuda", "sm_80"}});
  Result<Route> route = choose(module.get(), kMachine, {{{0}, "--device", {}}}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->program_of_function, (std::vector<uint32_t>{0}));
  EXPECT_EQ(route->code[0].variant, 0u);

  route = choose(module.get(), kMachine, {{{1}, "--device", {}}}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->program_of_function, (std::vector<uint32_t>{1}));
  EXPECT_EQ(route->code[0].variant, 1u);

  Described unknown({""}, {{"portable"}}, {{"portable", "other"}});
  Result<Route> none = choose(unknown.get(), kMachine, {{{0}, "--device", {}}}, rank);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(std::string(none.status().message()).find("has no variant that it runs"), std::string::npos) << none.status().message();
}

// Of other versions than this one, so the message says what to do.
TEST(Route, NamesOtherVersionsOfPortableCode) {
  for (const auto& [format, what] :
       {std::pair<std::string, std::string>{"portable/0", "portable/0 was not frozen, so compile the model again"},
        {"portable/2", "install a newer Heddle, and a driver that takes portable/2"}}) {
    Described module({""}, {{"portable"}}, {{"portable", "generic"}}, format);
    Result<Route> none = choose(module.get(), kMachine, {{{0}, "--device", {}}}, rank);
    ASSERT_FALSE(none.ok());
    EXPECT_NE(std::string(none.status().message()).find("(it has " + format + " generic); " + what), std::string::npos)
        << none.status().message();
  }
  Described same({""}, {{"portable"}}, {{"portable", "other"}}, HEDDLE_CODE_PORTABLE);
  Result<Route> none = choose(same.get(), kMachine, {{{0}, "--device", {}}}, rank);
  EXPECT_EQ(std::string(none.status().message()).find("install a newer"), std::string::npos) << none.status().message();
}

TEST(Route, TakesTheFirstDeviceThatFitsAndTheBestVariant) {
  Described module({""}, {{"cpu"}, {"cuda"}}, {{"cpu", "v3"}, {"cpu", "v4"}, {"cuda", "sm_80"}});
  Result<Route> route = choose(module.get(), kMachine, {{{0, 1, 2}, "devices in order", {}}}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->devices, (std::vector<uint32_t>{0}));
  EXPECT_EQ(route->program_of_function, (std::vector<uint32_t>{0}));
  ASSERT_EQ(route->code.size(), 1u);
  EXPECT_EQ(route->code[0].variant, 1u);
  auto why = nlohmann::json::parse(explanation(*route));
  EXPECT_EQ(why["executables"][0]["target"], "v4");
  EXPECT_EQ(why["executables"][0]["rank"], 4);
  EXPECT_EQ(why["slots"][0]["device"], "cpu:0");
}

TEST(Route, TakesTheNextDeviceWhenOneHasNoVariantAndSaysSo) {
  Described module({""}, {{"cuda"}}, {{"cuda", "sm_80"}});
  Result<Route> route = choose(module.get(), kMachine, {{{0, 2, 1}, "[[route]]", {"gpu9: there is none"}}}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->devices, (std::vector<uint32_t>{1}));
  auto why = nlohmann::json::parse(explanation(*route));
  ASSERT_EQ(why["slots"][0]["refused"].size(), 2u);
  EXPECT_EQ(why["slots"][0]["refused"][0]["device"], "cpu:0");
  EXPECT_EQ(why["slots"][0]["refused"][1]["device"], "gpu1");
  EXPECT_EQ(why["slots"][0]["absent"][0], "gpu9: there is none");
}

TEST(Route, BindsSlotsSoThatAProgramFits) {
  Described module({"@a", "@b"}, {{"cuda", "cpu"}}, {{"cpu", "v3"}, {"cuda", "sm_90"}});
  SlotPreference any{{0, 1, 2}, "devices in order", {}};
  Result<Route> route = choose(module.get(), kMachine, {any, any}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->devices, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(route->device_of_slot, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(route->code.size(), 2u);
}

TEST(Route, PutsSlotsOfOneDeviceTogether) {
  Described module({"@a", "@b"}, {{"cpu", "cpu"}}, {{"cpu", "v3"}});
  SlotPreference cpu{{0}, "requested", {}};
  Result<Route> route = choose(module.get(), kMachine, {cpu, cpu}, rank);
  ASSERT_TRUE(route.ok());
  EXPECT_EQ(route->devices.size(), 1u);
  EXPECT_EQ(route->device_of_slot, (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(route->code.size(), 1u) << "code is loaded once per device";
}

TEST(Route, NamesTheEntriesThatTheChosenProgramsDispatch) {
  Described module({"@a", "@b"}, {{"cpu", "cuda"}, {"cuda", "cpu"}, {"cuda", "cuda"}}, {{"cpu", "v3"}, {"cuda", "sm_90"}});
  SlotPreference cpu{{0}, "requested", {}}, gpu0{{1}, "requested", {}}, gpu1{{2}, "requested", {}};
  Result<Route> route = choose(module.get(), kMachine, {gpu0, cpu}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  ASSERT_EQ(route->code.size(), 2u);
  for (const ChosenCode& code : route->code) EXPECT_EQ(code.entries, (std::vector<uint32_t>{route->devices[code.device] == 0 ? 3u : 2u}));
  route = choose(module.get(), kMachine, {gpu0, gpu1}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  ASSERT_EQ(route->code.size(), 2u);
  for (const ChosenCode& code : route->code) EXPECT_EQ(code.entries, (std::vector<uint32_t>{route->devices[code.device] == 1 ? 4u : 5u}));
  route = choose(module.get(), kMachine, {gpu0, gpu0}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  ASSERT_EQ(route->code.size(), 1u) << "one device for both slots";
  EXPECT_EQ(route->code[0].entries, (std::vector<uint32_t>{4, 5}));
}

TEST(Route, NeedsNoCodeForOperatorsOfPlugins) {
  Described module({""}, {{"cpu"}}, {{"cuda", "sm_90"}});
  mf::ModuleT unpacked;
  module.get().UnPackTo(&unpacked);
  auto& sites = unpacked.functions[0]->programs[0]->dispatches;
  sites.erase(sites.begin());  // the kernel
  flatbuffers::FlatBufferBuilder buffer;
  buffer.ForceDefaults(true);
  buffer.Finish(mf::Module::Pack(buffer, &unpacked));
  Result<Route> route = choose(*flatbuffers::GetRoot<mf::Module>(buffer.GetBufferPointer()), kMachine, {{{0}, "requested", {}}}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_TRUE(route->code.empty());
}

TEST(Route, SaysWhyEachCandidateWasRefused) {
  Described module({""}, {{"cuda"}}, {{"cuda", "sm_70"}});
  Result<Route> route = choose(module.get(), kMachine, {{{0, 1, 2}, "devices in order", {}}}, rank);
  ASSERT_FALSE(route.ok());
  EXPECT_EQ(route.status().code(), HEDDLE_STATUS_UNAVAILABLE);
  std::string text(route.status().message());
  EXPECT_NE(text.find("cpu:0: function 'main' has no program for 'cpu'"), std::string::npos) << text;
  EXPECT_NE(text.find("gpu0: executable 'code' has no variant that it runs (it has format sm_70)"), std::string::npos) << text;
  EXPECT_NE(text.find("gpu1: "), std::string::npos) << text;
  EXPECT_NE(text.find("compiled for: cuda"), std::string::npos) << text;
}

TEST(Route, AnswersNotFoundWhenNothingIsThere) {
  Described module({""}, {{"cuda"}}, {{"cuda", "sm_70"}});
  Result<Route> route = choose(module.get(), {}, {{{}, "devices in order", {"heddle.cuda: no device"}}}, rank);
  ASSERT_FALSE(route.ok());
  EXPECT_EQ(route.status().code(), HEDDLE_STATUS_NOT_FOUND);
  EXPECT_NE(route.status().message().find("heddle.cuda: no device"), std::string_view::npos);
}

TEST(Route, TakesADeviceThatCannotBeOpenedAsAReason) {
  Described module({""}, {{"cpu"}, {"cuda"}}, {{"cpu", "v3"}, {"cuda", "sm_90"}});
  auto broken = [](uint32_t device, std::string_view format, std::string_view target) -> Result<uint32_t> {
    if (device == 1) return error(HEDDLE_STATUS_UNAVAILABLE, "cuda: the device fell off the bus");
    return rank(device, format, target);
  };
  Result<Route> route = choose(module.get(), kMachine, {{{1, 2}, "requested", {}}}, broken);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->devices, (std::vector<uint32_t>{2}));
  EXPECT_NE(explanation(*route).find("fell off the bus"), std::string::npos);
  // Alone it is the one cause: nothing is said of variants that nobody could ask it about.
  Result<Route> none = choose(module.get(), kMachine, {{{1}, "requested", {}}}, broken);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("fell off the bus"), std::string_view::npos);
  EXPECT_EQ(none.status().message().find("has no variant"), std::string_view::npos) << none.status().message();
}

// One executable whose entry needs what is said, in two variants: "large" ranks higher and needs `more` beside.
struct Needing : Described {
  Needing(const mf::EntryT& entry, const mf::EntryResourcesT& small, const mf::EntryResourcesT& large)
      : Described({""}, {{"cuda"}}, {{"cuda", "sm_80"}, {"cuda", "sm_90"}}) {
    std::unique_ptr<mf::ModuleT> module(get().UnPack());
    module->executables[0]->entries.push_back(std::make_unique<mf::EntryT>(entry));
    module->executables[0]->variants[0]->resources.push_back(std::make_unique<mf::EntryResourcesT>(small));
    module->executables[0]->variants[1]->resources.push_back(std::make_unique<mf::EntryResourcesT>(large));
    buffer.Clear();
    buffer.Finish(mf::Module::Pack(buffer, module.get()));
  }
};

TEST(Route, PassesOverVariantsThatDoNotFitTheDevice) {
  std::vector<DeviceFacts> machine = kMachine;
  machine[1].limits = {8, 64, 1024, 32, 49152};
  mf::EntryT entry;
  entry.name = "kernel";
  entry.binding_count = 8;
  entry.constants_bytes = 64;
  mf::EntryResourcesT fits, threads, shared, subgroup;
  fits.workgroup_size = {32, 32, 1};
  fits.shared_memory_bytes = 49152;
  threads.workgroup_size = {32, 32, 2};
  shared.shared_memory_bytes = 49153;
  subgroup.subgroup_size = 64;
  const std::pair<mf::EntryResourcesT, std::string> large[] = {
      {threads, "its entry 'kernel' needs 2048 threads in a workgroup, the device has 1024 [HD-M-04]"},
      {shared, "its entry 'kernel' needs 49153 bytes of shared memory, the device has 49152 [HD-M-04]"},
      {subgroup, "its entry 'kernel' is for subgroups of 64 threads, the device's have 32 [HD-M-04]"}};
  for (const auto& [needs, reason] : large) {
    Needing module(entry, fits, needs);
    Result<Route> route = choose(module.get(), machine, {{{1}, "requested", {}}}, rank);
    ASSERT_TRUE(route.ok()) << route.status().message();
    EXPECT_EQ(route->code[0].variant, 0u);
    auto why = nlohmann::json::parse(explanation(*route));
    EXPECT_EQ(why["executables"][0]["others"][0]["reason"], reason);
    EXPECT_EQ(why["executables"][0]["others"][0]["rank"], 9);
  }
  // Where none fits, the next device is tried; gpu1 names no limits.
  entry.binding_count = 9;
  Needing module(entry, fits, fits);
  Result<Route> route = choose(module.get(), machine, {{{1, 2}, "devices in order", {}}}, rank);
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->devices, std::vector<uint32_t>{2});
  EXPECT_NE(explanation(*route).find("format sm_90: its entry 'kernel' needs 9 bindings, the device has 8"), std::string::npos)
      << explanation(*route);
  entry.binding_count = 8;
  entry.constants_bytes = 72;
  Needing constants(entry, fits, fits);
  route = choose(constants.get(), machine, {{{1}, "requested", {}}}, rank);
  ASSERT_FALSE(route.ok());
  EXPECT_NE(route.status().message().find("needs 72 bytes of constants, the device has 64"), std::string_view::npos)
      << route.status().message();
}

TEST(Route, EndsWhenCombinationsAreTooMany) {
  std::vector<std::string> slots(40), families(40, "cuda");
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = "@" + std::to_string(i);
  Described module(slots, {families}, {{"cuda", "sm_70"}});
  std::vector<SlotPreference> preferences(40, SlotPreference{{1, 2}, "devices in order", {}});
  EXPECT_FALSE(choose(module.get(), kMachine, preferences, rank).ok());
}

}  // namespace
}  // namespace heddle::route
