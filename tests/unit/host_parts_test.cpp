// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of the host that read hostile or foreign bytes, and its small services: linker cache, ELF headers, CPU levels, log, executor,
// host table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../temporary_folder.h"
#include "core/host/cpu_level.h"
#include "core/host/discovery.h"
#include "core/host/elf_file.h"
#include "core/host/host_table.h"
#include "core/host/library_search.h"
#include "core/host/plain_toml.h"
#include "core/host/probe_protocol.h"
#include "core/host/text_file.h"
#include "core/host/trace.h"
#include "core/host/trust.h"

namespace heddle::host {
namespace {

using heddle::testing::TemporaryFolder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

// An ld.so.cache of the new format with one entry.
std::string linker_cache(const std::string& soname, const std::string& path, uint32_t flags) {
  std::string cache = "glibc-ld.so.cache1.1";
  auto word = [&](uint32_t value) { cache.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  word(1);
  word(static_cast<uint32_t>(soname.size() + path.size() + 2));
  cache.append(20, '\0');
  word(flags);
  word(72);
  word(static_cast<uint32_t>(72 + soname.size() + 1));
  word(0);
  cache.append(8, '\0');
  return cache + soname + '\0' + path + '\0';
}

#if defined(__x86_64__)
TEST(LinkerCache, FindsAnEntryOfThisMachine) {
  const std::string cache = linker_cache("libx.so.1", "/opt/x/libx.so.1", 0x0303);
  EXPECT_THAT(find_in_linker_cache(cache, "libx.so.1"), ElementsAre("/opt/x/libx.so.1"));
  EXPECT_THAT(find_in_linker_cache(cache, "liby.so.1"), IsEmpty());
  EXPECT_THAT(find_in_linker_cache(linker_cache("libx.so.1", "/opt/x/libx.so.1", 0x0003), "libx.so.1"), IsEmpty()) << "of another machine";
  EXPECT_THAT(find_in_linker_cache("ld.so-1.7.0" + std::string(5, '\0') + cache, "libx.so.1"), ElementsAre("/opt/x/libx.so.1"))
      << "behind an old table";
  EXPECT_THAT(find_in_linker_cache(linker_cache("libx.so.1", "libx.so.1", 0x0303), "libx.so.1"), IsEmpty()) << "a relative path";
}

TEST(LinkerCache, SurvivesEveryCutAndEveryFlippedByte) {
  const std::string cache = linker_cache("libx.so.1", "/opt/x/libx.so.1", 0x0303);
  for (size_t i = 0; i <= cache.size(); ++i) {
    // A copy of exactly that size, so that a sanitizer sees a read beyond it.
    std::vector<char> cut(cache.begin(), cache.begin() + static_cast<std::ptrdiff_t>(i));
    find_in_linker_cache({cut.data(), cut.size()}, "libx.so.1");
    if (i == cache.size()) break;
    std::string flipped = cache;
    flipped[i] = static_cast<char>(flipped[i] ^ 0xff);
    find_in_linker_cache(flipped, "libx.so.1");
  }
}
#endif

TEST(LibrarySearch, FindsTheCLibraryAndNothingThatIsNot) {
  LibrarySearch search({"$ORIGIN/../lib", "relative"}, "/opt/plugin/lib/plugin.so");
  EXPECT_NE(search.find("libc.so.6"), "");
  EXPECT_EQ(search.find("libheddle_no_such_library.so.1"), "");
  EXPECT_THAT(search.searched(), Contains("/opt/plugin/lib/../lib"));
  for (const std::string& place : search.searched()) EXPECT_EQ(place.front(), '/') << place;
}

#if defined(__x86_64__)
TEST(LibrarySearch, LooksInTheSubdirectoriesForProcessors) {
  const TemporaryFolder own;
  const std::string folder = own.path().string(), name = "libheddle_test_some.so.1";
  std::vector<std::string> expected;
  for (const char* inner : {"/glibc-hwcaps/x86-64-v2/", "/glibc-hwcaps/made-later/", "/tls/haswell/avx512_1/", "/"}) {
    std::filesystem::create_directories(folder + inner);
    std::filesystem::copy("/proc/self/exe", folder + inner + name);
    expected.push_back(folder + inner + name);
  }
  std::ofstream(folder + "/tls/" + name) << "no library";
  LibrarySearch search({folder}, "/opt/plugin/lib/plugin.so");
  EXPECT_THAT(search.find_all(name), UnorderedElementsAreArray(expected));
  EXPECT_THAT(search.find_all("libheddle_no_such_library.so.1"), IsEmpty());
  EXPECT_THAT(processor_folders(folder),
              UnorderedElementsAre(folder + "/glibc-hwcaps", folder + "/glibc-hwcaps/x86-64-v2", folder + "/glibc-hwcaps/made-later",
                                   folder + "/tls", folder + "/tls/haswell", folder + "/tls/haswell/avx512_1"));
}
#endif

TEST(ElfFile, ReadsWhatALibraryNeeds) {
  ElfFile file;
  ASSERT_EQ(read_elf_file("/proc/self/exe", ElfParts::kAll, &file), "");
  EXPECT_EQ(file.machine, own_machine());
  EXPECT_THAT(file.needed, Contains("libc.so.6"));
}

TEST(ElfFile, RefusesWhatIsNone) {
  ElfFile file;
  EXPECT_THAT(read_elf_file("/etc/passwd", ElfParts::kAll, &file), HasSubstr("not an ELF file"));
  EXPECT_THAT(read_elf_file("/", ElfParts::kAll, &file), HasSubstr("not a regular file"));
  EXPECT_THAT(read_elf_file("/dev/zero", ElfParts::kAll, &file), HasSubstr("not a regular file"));
  EXPECT_THAT(read_elf_file("/not/there", ElfParts::kAll, &file), HasSubstr("No such file"));
}

TEST(CpuLevel, AgreesWithTheKernel) {
#if defined(__x86_64__)
  std::string facts;
  ASSERT_EQ(read_text_file("/proc/cpuinfo", 16 << 20, &facts), "");
  const std::string flags = facts.substr(facts.find("flags"), facts.find('\n', facts.find("flags")) - facts.find("flags")) + " ";
  EXPECT_EQ(cpu_level() >= 3, flags.find(" avx2 ") != std::string::npos && flags.find(" fma ") != std::string::npos);
  EXPECT_EQ(cpu_level() >= 4, flags.find(" avx512vl ") != std::string::npos && flags.find(" avx512bw ") != std::string::npos);
  EXPECT_TRUE(missing_features(cpu_level()).empty());
  EXPECT_EQ(level_from_name("x86-64-v3"), 3u);
  EXPECT_EQ(level_from_name("x86-64-v5"), 0u);
#endif
}

TEST(Discovery, ReadsTheFirstManifestsByNameAndSaysSo) {
  const TemporaryFolder own;
  const std::string folder = own.path().string();
  for (int i = 299; i >= 0; --i) std::ofstream(folder + "/p" + std::to_string(1000 + i) + ".toml") << "no manifest";
  DiscoveryParams params;
  params.api_folders = {folder};
  params.use_environment = false;
  std::vector<std::string> lines;
  std::vector<FoundPlugin> found = discover({folder}, params, &lines);
  ASSERT_EQ(found.size(), 256u);
  EXPECT_EQ(found.front().manifest.path, folder + "/p1000.toml");
  EXPECT_EQ(found.back().manifest.path, folder + "/p1255.toml");
  EXPECT_THAT(lines, ElementsAre(HasSubstr("holds 300 manifests; the first 256 by name are read")));
}

// Everything that a tree holds, with all places.
std::string dump(const TomlNode& node) {
  std::ostringstream out;
  out << name_of(node.kind) << ' ' << node.key << '@' << node.key_place.line << ':' << node.key_place.column << '@' << node.place.line
      << ':' << node.place.column << " '" << node.string << "' " << node.integer << ' ' << node.number << " {";
  for (const TomlNode& child : node.children) out << dump(child) << ';';
  out << "} ";
  for (uint32_t i : node.by_key) out << i << ' ';
  return out.str();
}

// What the plain parser accepts is what toml++ reads; the text is in the message if not.
void expect_as_toml_plus_plus(const std::string& text) {
  TomlNode plain;
  if (!parse_plain_toml(text, &plain)) return;
  const TomlTree full = parse_full_toml(text);
  ASSERT_TRUE(full.errors.empty()) << full.errors.front().message << " in:\n" << text;
  ASSERT_EQ(dump(plain), dump(full.root)) << text;
}

std::vector<std::string> texts_below(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(HEDDLE_SOURCES) + folder)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

TEST(PlainToml, ReadsEveryManifestOfTheTree) {
  const std::vector<std::string> manifests = texts_below("/plugins");
  EXPECT_GE(manifests.size(), 8u);
  for (const std::string& text : manifests) {
    TomlNode root;
    EXPECT_TRUE(parse_plain_toml(text, &root)) << text;
    expect_as_toml_plus_plus(text);
  }
}

TEST(PlainToml, AgreesWithTomlPlusPlusOnEveryTextThatItAccepts) {
  for (const char* text : {"", "\n", "a = 1", "a=1#b\n\t b\t=\t[1, -2,true , \"x\",]\n[c]\n[d.e]\nf=\"\"\n[d.g]",
                           "[a.b]\n[a.c]\nx = [ ]  # [\n", "[a]\nx = 999999999999999999\n[a.b]\ny = false"}) {
    TomlNode root;
    EXPECT_TRUE(parse_plain_toml(text, &root)) << text;
    expect_as_toml_plus_plus(text);
  }
  for (const char* folder : {"/tests/fuzz/corpus", "/tests/unit/transcripts", "/tests/library", "/tools/dev/deb"}) {
    for (const std::string& text : texts_below(folder)) expect_as_toml_plus_plus(text);
  }
}

TEST(PlainToml, LeavesTheRestToTomlPlusPlus) {
  TomlNode root;
  for (const std::string text : {"a = 1\na = 2",
                                 "[a]\n[a]",
                                 "[a.b]\n[a]",
                                 "a = 1\n[a]",
                                 "a = 1\n[a.b]",
                                 "a.b = 1",
                                 "\"a\" = 1",
                                 "[[a]]",
                                 "[ a ]",
                                 "[a",
                                 "[]",
                                 "a",
                                 "a =",
                                 "a = 1 2",
                                 "a = 1, 2",
                                 "a = 0.5",
                                 "a = 1e3",
                                 "a = inf",
                                 "a = 0x10",
                                 "a = 1_0",
                                 "a = 01",
                                 "a = -0",
                                 "a = +1",
                                 "a = 1234567890123456789",
                                 "a = 1979-05-27",
                                 "a = \"\\n\"",
                                 "a = 'b'",
                                 "a = \"\"\"b\"\"\"",
                                 "a = \"b",
                                 "a = [1",
                                 "a = [[1]]",
                                 "a = [\n1]",
                                 "a = [1 2]",
                                 "a = [,]",
                                 "a = {b = 1}",
                                 "a = \"\xc3\xa4\"",
                                 "\xef\xbb\xbf",
                                 "a = 1\r\n",
                                 "# \x01",
                                 "a = \"\t\"",
                                 "a = true1"}) {
    EXPECT_FALSE(parse_plain_toml(text, &root)) << text;
  }
  EXPECT_FALSE(parse_plain_toml("a = \"" + std::string(200, '.') + '"', &root));
  EXPECT_FALSE(parse_plain_toml("a = \"" + std::string(9000, 'b') + '"', &root));
}

TEST(PlainToml, AgreesOnManifestsWithRandomChanges) {
  const std::vector<std::string> manifests = texts_below("/plugins");
  const std::string_view pieces[] = {"\n", "[", "]", "\"", "#",  "=", ".", ",", " ",    "\t",
                                     "-",  "_", "0", "a",  "\\", "'", "{", "}", "true", "[options.threads]\n"};
  std::mt19937 random(1);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = manifests[random() % manifests.size()];
    for (uint32_t change = random() % 3; change != UINT32_MAX; --change) {
      const size_t at = random() % text.size();
      const std::string_view piece = pieces[random() % std::size(pieces)];
      text.replace(at, random() % 3, piece);
    }
    TomlNode root;
    accepted += parse_plain_toml(text, &root);
    expect_as_toml_plus_plus(text);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 2000);
  EXPECT_LT(accepted, 18000);
}

TEST(TextFile, KeepsItsBound) {
  std::string text;
  EXPECT_EQ(read_text_file("/proc/self/status", 1 << 16, &text), "");
  EXPECT_FALSE(text.empty());
  EXPECT_THAT(read_text_file("/proc/self/status", 10, &text), HasSubstr("more than 10 bytes"));
  EXPECT_TRUE(text.empty());
}

TEST(Trust, RefusesWhatOthersMayWrite) {
  std::string path;
  EXPECT_THAT(why_untrusted("/tmp", &path), HasSubstr("can be written by others"));
  EXPECT_THAT(why_untrusted("/not/there", &path), HasSubstr("cannot be found"));
  EXPECT_EQ(why_untrusted("/bin/sh", &path), "");
  const std::string mounts =
      "36 35 0:45 / /mnt/0:46 rw - ext4 user_id=7 rw,user_id=8\n"
      "37 35 0:46 / /mnt/a rw,nosuid shared:1 - fuse.sshfs name rw,user_id=1000,group_id=1001\n"
      "38 35 0:47 / /mnt/b rw - fuse.x user_id=5 rw,group_id=1\n"
      "39 35 0:48 / /mnt/c rw - fuse.x none rw,user_id=0,group_id=0";
  EXPECT_EQ(fuse_user(mounts, 0, 46), 1000);
  EXPECT_EQ(fuse_user(mounts, 0, 47), -1);
  EXPECT_EQ(fuse_user(mounts, 0, 48), 0);
  EXPECT_EQ(fuse_user(mounts, 0, 4), -1);
  EXPECT_EQ(fuse_user("", 0, 46), -1);
  EXPECT_EQ(path, std::filesystem::canonical("/bin/sh").string());
}

TEST(ProbeProtocol, CarriesOptions) {
  OptionValue text{"name", HEDDLE_OPTION_STRING, 0, 0, "a=b:c\nd", ""}, number{"n", HEDDLE_OPTION_INT, INT64_MIN, 0, "", ""},
      real{"r", HEDDLE_OPTION_FLOAT, 0, 0.1, "", ""}, yes{"y", HEDDLE_OPTION_BOOL, 1, 0, "", ""};
  for (const OptionValue& option : {text, number, real, yes}) {
    OptionValue back;
    ASSERT_TRUE(option_from_argument(option_to_argument(option), &back)) << option.name;
    EXPECT_EQ(back.name, option.name);
    EXPECT_EQ(back.kind, option.kind);
    EXPECT_EQ(back.int_value, option.int_value);
    EXPECT_EQ(back.float_value, option.float_value);
    EXPECT_EQ(back.string_value, option.string_value);
  }
  OptionValue back;
  for (const char* text : {"", "name", "name=", "name=int", "name=int:", "name=int:x", "name=rat:1"})
    EXPECT_FALSE(option_from_argument(text, &back)) << text;
}

TEST(Executor, RunsEverythingItAccepted) {
  std::atomic<int> ran{0};
  {
    Executor executor(3);
    for (int i = 0; i < 1000; ++i)
      ASSERT_TRUE(executor.execute([](void* context) { ++*static_cast<std::atomic<int>*>(context); }, &ran).ok());
  }
  EXPECT_EQ(ran, 1000);
}

TEST(Executor, AcceptsNothingAfterStop) {
  Executor executor(1);
  executor.stop();
  EXPECT_EQ(executor.execute([](void*) {}, nullptr).code(), HEDDLE_STATUS_UNAVAILABLE);
}

void raise_flag(void* flag) {
  static_cast<std::atomic<bool>*>(flag)->store(true);
}

TEST(Executor, WorkIsNotOvertakenForEver) {
  struct Endless {
    Executor executor{1};
    std::atomic<bool> is_enough{false};
    Executor::Job job{again, this};
    static void again(void* self) {
      auto* endless = static_cast<Endless*>(self);
      if (!endless->is_enough) endless->executor.run(&endless->job);
    }
  } endless;
  ASSERT_TRUE(endless.executor.prepare().ok());
  ASSERT_TRUE(endless.executor.run(&endless.job));
  ASSERT_TRUE(endless.executor.execute(raise_flag, &endless.is_enough).ok());
  for (int i = 0; i < 3000 && !endless.is_enough; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(endless.is_enough.exchange(true));
}

TEST(Executor, WorksForWorkThatMakesWork) {
  struct Chain {
    Executor executor{2};
    std::atomic<int> left{100};
    static void step(void* context) {
      auto& chain = *static_cast<Chain*>(context);
      if (--chain.left > 0) (void)chain.executor.execute(step, context);
    }
  } chain;
  ASSERT_TRUE(chain.executor.execute(Chain::step, &chain).ok());
  while (chain.left > 0) usleep(100);
  EXPECT_EQ(chain.left, 0);
}

class HostTable : public ::testing::Test {
 protected:
  static void keep(void* context, uint32_t level, heddle_string_t component, heddle_string_t message) {
    static_cast<HostTable*>(context)->lines_.push_back(std::to_string(level) + " " + std::string(view(component)) + " " +
                                                       std::string(view(message)));
  }
  std::vector<std::string> lines_;
  std::shared_ptr<HostServices> services_ =
      std::make_shared<HostServices>(LogSink{keep, this}, HEDDLE_LOG_INFO, std::map<std::string, uint32_t>{{"loud", HEDDLE_LOG_TRACE}}, 1u);
  PluginHost host_{"test", 1, services_, {{"threads", HEDDLE_OPTION_INT, 7, 0, "", ""}, {"name", HEDDLE_OPTION_STRING, 0, 0, "x", ""}}};
  const heddle_host_t& table_ = host_.table;
};

TEST_F(HostTable, HasNoHole) {
  const auto* slots = reinterpret_cast<void* const*>(&table_.memory_allocate);
  const size_t count = (sizeof(table_) - offsetof(heddle_host_t, memory_allocate)) / sizeof(void*);
  for (size_t i = 0; i < count; ++i) EXPECT_NE(slots[i], nullptr) << "slot " << i;
}

TEST_F(HostTable, PassesTraceEventsOnWhereSomebodyListens) {
  const auto say = [&](const char* text) { return heddle_string_t{text, std::strlen(text)}; };
  table_.trace_begin(table_.self, say("acme"), say("nobody listens"));
  table_.trace_end(table_.self);

  const TemporaryFolder folder;
  TraceConfig config;
  config.sink = folder.path("trace.json");
  std::ofstream(config.sink) << "kept";
  auto read_all = [&] {
    std::string text;
    EXPECT_EQ(read_text_file(config.sink, 1 << 24, &text), "");
    return text;
  };
  auto trace = std::make_unique<Trace>(config, services_->log);
  Trace& events = *trace;
  services_->trace = std::move(trace);
  table_.trace_begin(table_.self, say("acme"), say("a \"name\"\n"));
  table_.trace_counter(table_.self, say("blocks"), -7);
  EXPECT_EQ(read_all(), "kept");
  ASSERT_TRUE(events.start().ok());
  ASSERT_TRUE(events.start().ok());  // once
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        events.span("dispatch", "region", "card", 1000, 500);
        table_.trace_begin(table_.self, say("acme"), say("inner"));
        table_.trace_end(table_.self);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  table_.trace_end(table_.self);
  if (fork() == 0) std::exit(0);  // a child of the process adds nothing at its end
  int status = 0;
  wait(&status);
  services_->trace.reset();
  const std::string text = read_all();
  EXPECT_EQ(text.substr(0, 2), "[\n");
  EXPECT_EQ(text.substr(text.size() - 4), "}\n]\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            2 + 1 + 2 + 4 * 3 * 1000 + 1);  // brackets, a track, two before, the threads', one after
  EXPECT_THAT(text, ::testing::HasSubstr("\"cat\":\"acme\",\"name\":\"a \\\"name\\\"\\u000a\""));
  EXPECT_THAT(text, ::testing::HasSubstr("\"args\":{\"value\":-7}"));
  EXPECT_THAT(text, ::testing::HasSubstr("\"ts\":1.000,\"dur\":0.500,\"cat\":\"dispatch\",\"name\":\"region\""));

  // Completed while it goes on: what follows takes the place of the end.
  auto live = std::make_unique<Trace>(config, services_->log);
  ASSERT_TRUE(live->finish().ok());  // before there is a file
  EXPECT_EQ(read_all(), text);
  ASSERT_TRUE(live->start().ok());
  ASSERT_TRUE(live->finish().ok());
  EXPECT_EQ(read_all(), "[\n]\n");
  live->value("memory", "one", 1);
  ASSERT_TRUE(live->finish().ok());
  ASSERT_TRUE(live->finish().ok());
  const std::string one = read_all();
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 3);
  EXPECT_EQ(one.substr(one.size() - 4), "}\n]\n");
  live->value("memory", "two", 2);
  live.reset();
  const std::string two = read_all();
  EXPECT_EQ(two.substr(0, one.size() - 3), one.substr(0, one.size() - 3));
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 4);
  EXPECT_EQ(two.substr(two.size() - 4), "}\n]\n");

  config.categories = kTraceDispatch;
  auto quiet = std::make_unique<Trace>(config, services_->log);
  ASSERT_TRUE(quiet->start().ok());
  EXPECT_FALSE(quiet->wants(kTraceMemory));
  services_->trace = std::move(quiet);
  table_.trace_begin(table_.self, say("acme"), say("inner"));
  table_.trace_end(table_.self);
  table_.trace_counter(table_.self, say("blocks"), 1);
  services_->trace.reset();
  EXPECT_EQ(read_all(), "[\n]\n");
}

TEST_F(HostTable, AllocatesAligned) {
  for (uint64_t alignment : {8u, 64u, 4096u}) {
    void* memory = table_.memory_allocate(table_.self, 100, alignment);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
    table_.memory_free(table_.self, memory);
  }
  EXPECT_EQ(table_.memory_allocate(table_.self, 8, 3), nullptr);
  EXPECT_EQ(table_.memory_allocate(table_.self, 8, 0), nullptr);
  EXPECT_EQ(table_.memory_allocate(table_.self, UINT64_MAX, 8), nullptr);
  void* nothing = table_.memory_allocate(table_.self, 0, 8);
  EXPECT_NE(nothing, nullptr);
  table_.memory_free(table_.self, nothing);
}

TEST_F(HostTable, LogsByLevelAndComponent) {
  EXPECT_EQ(table_.log_level(table_.self), HEDDLE_LOG_INFO);
  table_.log(table_.self, HEDDLE_LOG_DEBUG, {"a.cpp", 5}, 1, {"dropped", 7});
  table_.log(table_.self, HEDDLE_LOG_WARN, {"a.cpp", 5}, 12, {"kept", 4});
  table_.log(table_.self, HEDDLE_LOG_WARN, {"", 0}, 0, {"bare", 4});
  EXPECT_THAT(lines_, ::testing::ElementsAre("3 test kept (a.cpp:12)", "3 test bare"));
  EXPECT_EQ(services_->log.level("loud"), HEDDLE_LOG_TRACE);
}

// Statuses and log lines are a plugin's from any thread, at once: none is lost, and no line is mixed with another.
TEST_F(HostTable, LogsAndMakesStatusesFromEightThreads) {
  constexpr int kThreads = 8, kLines = 400;
  const auto quiet = std::make_shared<HostServices>(LogSink{}, HEDDLE_LOG_INFO, std::map<std::string, uint32_t>{}, 1u);
  PluginHost host("test", 1, quiet, {});
  const heddle_host_t& table = host.table;
  ::testing::internal::CaptureStderr();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kLines; ++k) {
        const std::string text = std::to_string(i) + ":" + std::to_string(k) + ":" + std::string(300, static_cast<char>('a' + i));
        table.log(table.self, HEDDLE_LOG_WARN, {"", 0}, 0, {text.data(), text.size()});
        heddle_status_t* status = table.status_create(table.self, HEDDLE_STATUS_ABORTED, {"", 0}, i, {text.data(), text.size()});
        heddle_status_t* same = table.status_clone(table.self, status);
        table.status_free(table.self, status);
        const heddle_string_t message = table.status_message(table.self, same);
        if (std::string_view(message.data, message.size) != text) ++wrong;
        table.status_free(table.self, same);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(::testing::internal::GetCapturedStderr());
  EXPECT_EQ(wrong.load(), 0);
  std::vector<int> next(kThreads, 0);
  for (std::string line; std::getline(lines, line);) {
    const size_t thread = static_cast<size_t>(line.size() > 11 ? line[11] - '0' : 99);
    ASSERT_LT(thread, next.size()) << line;
    EXPECT_EQ(line, "warn test: " + std::to_string(thread) + ":" + std::to_string(next[thread]++) + ":" +
                        std::string(300, static_cast<char>('a' + static_cast<int>(thread))));
  }
  EXPECT_THAT(next, ::testing::Each(kLines));
}

TEST_F(HostTable, ReadsOptions) {
  heddle_option_t option{};
  option.struct_size = sizeof(option);
  EXPECT_EQ(table_.option(table_.self, {"threads", 7}, &option), nullptr);
  EXPECT_EQ(option.int_value, 7);
  EXPECT_EQ(option.struct_size, sizeof(option));
  Status missing(table_.option(table_.self, {"nothing", 7}, &option));
  EXPECT_EQ(missing.code(), HEDDLE_STATUS_NOT_FOUND);
  EXPECT_EQ(option.int_value, 0);
  EXPECT_EQ(option.struct_size, sizeof(option));
}

TEST_F(HostTable, WritesAtMostTheCallersStruct) {
  // An older plugin's option ends before the values.
  struct {
    heddle_option_t option;
  } memory;
  std::memset(&memory, 0x5a, sizeof(memory));
  memory.option.struct_size = 8;
  EXPECT_EQ(table_.option(table_.self, {"threads", 7}, &memory.option), nullptr);
  EXPECT_EQ(memory.option.struct_size, 8u);
  EXPECT_EQ(memory.option.kind, HEDDLE_OPTION_INT);
  unsigned char rest[sizeof(heddle_option_t) - 8];
  std::memcpy(rest, reinterpret_cast<char*>(&memory) + 8, sizeof(rest));
  for (unsigned char byte : rest) EXPECT_EQ(byte, 0x5a);
  memory.option.struct_size = 0;
  EXPECT_EQ(Status(table_.option(table_.self, {"threads", 7}, &memory.option)).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
}

TEST_F(HostTable, MakesStatuses) {
  heddle_status_t* status = table_.status_create(table_.self, HEDDLE_STATUS_DATA_LOSS, {"errno", 5}, 5, {"short read", 10});
  table_.status_set_payload(table_.self, status, {"file", 4}, {"a.bin", 5});
  heddle_status_t* clone = table_.status_clone(table_.self, status);
  EXPECT_EQ(table_.status_code(table_.self, clone), HEDDLE_STATUS_DATA_LOSS);
  EXPECT_EQ(view(table_.status_message(table_.self, clone)), "short read");
  table_.status_free(table_.self, status);
  EXPECT_EQ(view(heddle_status_payload(clone, {"file", 4})), "a.bin");
  table_.status_free(table_.self, clone);
  EXPECT_EQ(Status(table_.execute(table_.self, nullptr, nullptr)).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  const uint64_t before = table_.clock_ns(table_.self);
  EXPECT_LE(before, table_.clock_ns(table_.self));
  EXPECT_EQ(table_.is_forked_child(table_.self), 0u);
}

}  // namespace
}  // namespace heddle::host
