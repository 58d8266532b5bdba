// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Configuration: precedence, imports, the plain data that comes out, and where each value came from.
#include "core/host/config_read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../temporary_folder.h"
#include "core/host/host.h"
#include "core/host/table_reader.h"
#include "sdk/module/nearest.h"

namespace heddle::host {
namespace {

using heddle::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Configuration : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* variable : {"HEDDLE_CONFIG", "HEDDLE_SET", "HEDDLE_LOG"}) unsetenv(variable);
    setenv("XDG_CONFIG_HOME", (folder_ / "home").c_str(), 1);
  }
  void TearDown() override {
    for (const char* variable : {"HEDDLE_CONFIG", "HEDDLE_SET", "HEDDLE_LOG"}) unsetenv(variable);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  static std::string origin(const Config& config, const std::string& key) {
    for (const ConfigValue& value : config.effective) {
      if (value.key == key) return value.text + " @ " + value.origin;
    }
    return "absent";
  }

  const TemporaryFolder own_;
  const std::filesystem::path folder_ = own_.path();
};

TEST_F(Configuration, IsEmptyWithoutAnyFile) {
  ConfigRead read;
  read_config({}, &read);
  EXPECT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  EXPECT_TRUE(read.config.devices.empty());
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_WARN);
}

TEST_F(Configuration, BecomesPlainData) {
  ConfigSources sources;
  sources.path = write("heddle.toml", R"(
[device.gpu0]
driver = "heddle.cuda"
select = { pci = "0000:41:00.0" }
affinity = { numa = 1, cpus = "0-3" }
[device.gpu0.allocator]
plugin = "heddle.pool"
pool_limit = "60GiB"
on_limit = "fail"
over = { plugin = "heddle.limit", limit = "70GiB" }
[[route]]
slot = "@a"
to = ["gpu0"]
fallback = "next"
[param_io]
chunk = "4MiB"
queue_depth = 32
)");
  ConfigRead read;
  read_config(sources, &read);
  ASSERT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  const Config& config = read.config;
  ASSERT_EQ(config.devices.size(), 1u);
  const DeviceConfig& device = config.devices[0];
  EXPECT_EQ(device.alias, "gpu0");
  EXPECT_EQ(device.driver, "heddle.cuda");
  EXPECT_EQ(device.select.kind, DeviceSelector::kPci);
  EXPECT_EQ(device.select.text, "0000:41:00.0");
  EXPECT_EQ(device.numa, 1);
  EXPECT_EQ(device.cpus, "0-3");
  ASSERT_EQ(device.allocators.size(), 2u);
  EXPECT_EQ(device.allocators[0].plugin, "heddle.pool");
  EXPECT_EQ(device.allocators[1].plugin, "heddle.limit");
  ASSERT_EQ(read.allocator_options.size(), 3u);
  EXPECT_EQ(read.allocator_options[0].owner, "device.gpu0.allocator.over");
  EXPECT_EQ(read.allocator_options[0].node.string, "70GiB");
  ASSERT_EQ(config.routes.size(), 1u);
  EXPECT_EQ(config.routes[0].slot, "@a");
  EXPECT_THAT(config.routes[0].to, ElementsAre("gpu0"));
  EXPECT_TRUE(config.routes[0].fallback_next);
  EXPECT_EQ(config.param_io.chunk_bytes, 4u << 20);
  EXPECT_EQ(config.param_io.queue_depth, 32u);
  EXPECT_EQ(origin(config, "device.gpu0.allocator.pool_limit"), "\"60GiB\" @ " + sources.path + ":8:1");
}

TEST_F(Configuration, LaterSourcesWinAndKeepTheirOrigin) {
  write("conf.d/a.toml", "[log]\nlevel = \"debug\"\n[param_io]\nqueue_depth = 1\nchunk = \"1MiB\"\n");
  write("conf.d/b.toml", "[param_io]\nqueue_depth = 2\n");
  ConfigSources sources;
  sources.path = write("heddle.toml", "imports = [\"conf.d/*.toml\"]\n[param_io]\nchunk = \"2MiB\"\n");
  ConfigRead read;
  read_config(sources, &read);
  ASSERT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  EXPECT_EQ(read.config.param_io.queue_depth, 2u);
  EXPECT_EQ(read.config.param_io.chunk_bytes, 2u << 20);
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_DEBUG);
  EXPECT_EQ(origin(read.config, "param_io.queue_depth"), "2 @ " + (folder_ / "conf.d/b.toml").string() + ":2:1");

  setenv("HEDDLE_LOG", "error,heddle.cuda=trace", 1);
  read = {};
  read_config(sources, &read);
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_ERROR);
  EXPECT_EQ(read.config.log.components.at("heddle.cuda"), HEDDLE_LOG_TRACE);
  EXPECT_EQ(origin(read.config, "log.level"), "\"error\" @ HEDDLE_LOG");

  sources.text = "[log]\nlevel = \"info\"\n";
  read = {};
  read_config(sources, &read);
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_INFO);
  EXPECT_EQ(origin(read.config, "log.level"), "\"info\" @ <text>:2:1");
}

// An option of a plugin, said by none, some or all of: its manifest (always), a file, the environment, the application.
TEST_F(Configuration, TheApplicationWinsOverTheEnvironmentOverFilesOverManifests) {
  const std::string manifest =
      write("plugins.d/com.acme.turbo.toml",
            "manifest = 1\n[plugin]\nid = \"com.acme.turbo\"\nversion = \"1.0.0\"\nkind = [\"driver\"]\nlibrary = \"absent.so\"\n"
            "abi = [\"0.1\", \"0.1\"]\n[options.streams]\ntype = \"int\"\ndefault = 1\n");
  const std::string path = write("heddle.toml", "[driver.\"com.acme.turbo\"]\nstreams = 2\n");
  const std::string empty = write("empty.toml", "");
  const std::string setting = "driver.\"com.acme.turbo\".streams = ";
  for (int said = 0; said < 8; ++said) {
    const bool in_file = (said & 1) != 0, in_environment = (said & 2) != 0, by_application = (said & 4) != 0;
    HostOptions options;
    options.plugin_paths = {(folder_ / "plugins.d").string()};
    options.config_path = in_file ? path : empty;
    options.config_text = by_application ? setting + "4" : "";
    if (in_environment)
      setenv("HEDDLE_SET", (setting + "3").c_str(), 1);
    else
      unsetenv("HEDDLE_SET");
    Result<std::unique_ptr<Host>> host = Host::open(options);
    ASSERT_TRUE(host.ok()) << host.status().message();
    std::string got;
    for (const ConfigValue& value : (*host)->effective()) {
      if (value.key == "driver.\"com.acme.turbo\".streams") got += value.text + " @ " + value.origin + "\n";
    }
    EXPECT_EQ(got, by_application   ? "4 @ <text>:1:25\n"
                   : in_environment ? "3 @ HEDDLE_SET:1:25\n"
                   : in_file        ? "2 @ " + path + ":2:1\n"
                                    : "1 @ default of " + manifest + "\n")
        << said;
  }
}

TEST_F(Configuration, TheEnvironmentSetsScalarsListsAndTables) {
  ConfigSources sources;
  sources.path = write("heddle.toml", "[log]\nlevel = \"debug\"\n[param_io]\nqueue_depth = 1\nchunk = \"1MiB\"\n");
  setenv("HEDDLE_SET",
         "param_io.queue_depth = 7; plugins.paths = ['/a;b', \"/c\\\";d\"]\nlog.components.\"heddle.cuda\" = \"trace\";"
         "route = [{ slot = \"@a\", to = [\"cpu\"] }]; plugins.security.mode = \"strict\"",
         1);
  ConfigRead read;
  read_config(sources, &read);
  ASSERT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  EXPECT_EQ(read.config.param_io.queue_depth, 7u);
  EXPECT_EQ(read.config.param_io.chunk_bytes, 1u << 20);
  EXPECT_THAT(read.config.plugin_paths, ElementsAre("/a;b", "/c\";d"));
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_DEBUG);
  EXPECT_EQ(read.config.log.components.at("heddle.cuda"), HEDDLE_LOG_TRACE);
  ASSERT_EQ(read.config.routes.size(), 1u);
  EXPECT_TRUE(read.config.security.strict);  // more careful it may become
  EXPECT_EQ(origin(read.config, "param_io.queue_depth"), "7 @ HEDDLE_SET:1:10");
  EXPECT_EQ(origin(read.config, "log.components.\"heddle.cuda\""), "\"trace\" @ HEDDLE_SET:3:16");

  setenv("HEDDLE_LOG", "error", 1);
  setenv("HEDDLE_SET", "log.level = 'info'", 1);
  read = {};
  read_config(sources, &read);
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_ERROR);

  sources.use_environment = false;
  read = {};
  read_config(sources, &read);
  EXPECT_EQ(read.config.log.level, HEDDLE_LOG_DEBUG);
}

TEST_F(Configuration, TheSystemsSecurityHoldsWhateverIsReadAfterIt) {
  const std::string one(64, '1'), two(64, '2'), three(64, '3');
  ConfigSources sources;
  sources.system_path =
      write("system.toml", "imports = [\"digests.toml\"]\n[plugins.security]\nmode = \"strict\"\n[modules.security]\n" +
                               fmt::format("mode = \"strict\"\ndigests = [\"{}\", \"{}\"]\n", one, two) + "[log]\nlevel = \"trace\"\n");
  write("digests.toml", fmt::format("[plugins.security.digests]\n\"a.b\" = [\"{}\", \"{}\"]\n", one, two));
  const std::string looser = fmt::format(
      "[plugins.security]\nmode = \"normal\"\ndigests = {{ \"a.b\" = [\"{1}\", \"{2}\"], \"c.d\" = \"{2}\" }}\n"
      "[modules.security]\nmode = \"normal\"\ndigests = [\"{2}\", \"{0}\"]\n",
      one, two, three);
  const std::string own = write("own.toml", looser);
  setenv("HEDDLE_CONFIG", own.c_str(), 1);
  for (int how = 0; how < 5; ++how) {  // named, by the environment, as text, as text without files, as text over the system's file
    SCOPED_TRACE(how);
    if (how == 4) unsetenv("HEDDLE_CONFIG");
    sources.path = how == 0 ? own : "";
    sources.text = how >= 2 ? looser : "";
    sources.use_files = how != 3;
    sources.use_environment = how != 3;
    ConfigRead read;
    read_config(sources, &read);
    EXPECT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
    const SecurityConfig& security = read.config.security;
    EXPECT_TRUE(security.strict);
    EXPECT_TRUE(security.strict_modules);
    ASSERT_TRUE(security.plugin_digests);
    EXPECT_THAT(security.plugin_digests->at("a.b"), ElementsAre(two));
    EXPECT_TRUE(security.plugin_digests->at("c.d").empty());
    EXPECT_THAT(*security.module_digests, ElementsAre(one));
    EXPECT_EQ(read.config.log.level, how == 4 ? HEDDLE_LOG_TRACE : HEDDLE_LOG_WARN);  // of the rest, one file counts
    EXPECT_EQ(origin(read.config, "plugins.security.mode"), "\"strict\" @ " + sources.system_path);
    EXPECT_EQ(origin(read.config, "plugins.security.digests.\"c.d\""), "[] @ " + sources.system_path);
  }
  // Tighter it may become.
  sources = {};
  sources.path = own;
  sources.system_path = write("loose.toml", "[plugins.security]\nmode = \"normal\"\n");
  write("own.toml", "[plugins.security]\nmode = \"strict\"\ndigests = {}\n");
  ConfigRead read;
  read_config(sources, &read);
  EXPECT_TRUE(read.config.security.strict);
  EXPECT_TRUE(read.config.security.plugin_digests);
}

TEST_F(Configuration, WhatTheSystemAsksForIsNotUnheard) {
  ConfigSources sources;
  sources.path = write("own.toml", "");
  auto errors = [&](const std::string& text) {
    sources.system_path = write("system.toml", text);
    ConfigRead read;
    read_config(sources, &read);
    return read.diagnostics.render();
  };
  EXPECT_THAT(errors("[plugins.security]\nmode = \"strickt\"\n"), HasSubstr("system.toml:2:8: error[E105]"));
  EXPECT_THAT(errors("[plugins.security]\nmode = strict\n"), HasSubstr("error[E101]"));
  EXPECT_THAT(errors("[modules.security]\ndigest = []\n"), HasSubstr("error[E102]"));
  EXPECT_EQ(errors("[a_table_of_a_newer_version]\nkey = 1\n"), "");
  sources.system_path = folder_.string();
  ConfigRead read;
  read_config(sources, &read);
  EXPECT_THAT(read.diagnostics.render(), HasSubstr("error[E106]"));
}

TEST_F(Configuration, RefusesAFileOfSomebodyElseThatTheEnvironmentNames) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: needs root, to give a file to another user";
  const std::string path = write("home/heddle/heddle.toml", "");
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  auto errors = [&](const std::string& named) {
    ConfigSources sources;
    sources.path = named;
    ConfigRead read;
    read_config(sources, &read);
    return read.diagnostics.render();
  };
  EXPECT_THAT(errors(""), HasSubstr("it belongs to user 65534, neither to root nor to user 0"));
  setenv("HEDDLE_CONFIG", path.c_str(), 1);
  EXPECT_THAT(errors(""), HasSubstr("which HEDDLE_CONFIG names, failed: it belongs to user 65534"));
  EXPECT_EQ(errors(path), "");  // said at that moment
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  EXPECT_EQ(errors(""), "");
}

TEST_F(Configuration, TakesManyKeysInLittleTime) {
  auto repeat = [](const char* before, const std::string& line, int count) {
    std::string text = before;
    for (int i = 0; i < count; ++i) text += fmt::format(fmt::runtime(line), i);
    return text;
  };
  const std::string texts[] = {repeat("[driver.\"heddle.cpu\"]\n", "a{}=1\n", 90000),
                               repeat("[plugins.pin]\n", "\"a{}\"=\"=1\"\n", 60000),
                               repeat("", "[driver.\"a{}\"]\nb=1\n", 40000),
                               repeat("", "[[link]]\nbetween=[\"a{0}\",\"b{0}\"]\n", 20000),
                               repeat("", "a{}=1\n", 90000),
                               repeat("", "[[route]]\nslot=\"@a\"\nto=[\"a{}\"]\n", 20000) + repeat("", "[device.d{}]\n", 1000)};
  for (const std::string& text : texts) {
    const clock_t start = clock();  // of this process: others may load the machine
    HostOptions options;
    options.no_config = true;
    options.config_text = text;
    std::string said;
    options.log.context = &said;
    options.log.write = [](void*, uint32_t, heddle_string_t, heddle_string_t) {};
    Result<std::unique_ptr<Host>> host = Host::open(options);
    said = host.ok() ? (*host)->config_warnings() : std::string(host.status().message());
    const double took_s = static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
    printf("%zu bytes beginning with %.16s: %.2f s, %zu bytes of warnings and errors\n", text.size(), text.c_str(), took_s, said.size());
    EXPECT_LT(took_s, 10.0) << text.substr(0, 40);
    EXPECT_LT(said.size(), 20u << 20);
  }
}

TEST_F(Configuration, TheEnvironmentSetsNothingInStrictMode) {
  setenv("HEDDLE_SET", "plugins.security.mode = 'normal'; modules.security.mode = 'normal'; param_io.queue_depth = 7", 1);
  for (const char* table : {"plugins", "modules"}) {
    for (const bool in_file : {true, false}) {
      const std::string text = fmt::format("[{}.security]\nmode = \"strict\"\n", table);
      ConfigSources sources;
      sources.path = write("heddle.toml", in_file ? text : "");
      sources.text = in_file ? "" : text;
      ConfigRead read;
      read_config(sources, &read);
      EXPECT_FALSE(read.diagnostics.has_errors());
      EXPECT_TRUE(read.config.security.strict || read.config.security.strict_modules) << table;
      EXPECT_EQ(read.config.param_io.queue_depth, 0u) << table;
      EXPECT_EQ(read.diagnostics.warnings("E204").size(), 1u) << table;
    }
  }
}

TEST_F(Configuration, TakesAnOlderNameOfAKeyWithAWarning) {
  ConfigSources sources;
  sources.path = write("heddle.toml", "[plugins]\npath = [\"/old\"]\n");
  ConfigRead read;
  read_config(sources, &read);
  EXPECT_FALSE(read.diagnostics.has_errors());
  EXPECT_THAT(read.config.plugin_paths, ElementsAre("/old"));
  EXPECT_EQ(origin(read.config, "plugins.paths"), "[\"/old\"] @ " + sources.path + ":2:1");
  EXPECT_THAT(read.diagnostics.warnings("E108"),
              ElementsAre(sources.path + ":2:1: warning[E108]: key 'path' in [plugins] has a newer name, "
                                         "'paths'; write 'paths' instead"));
  // Also where nobody asks: a host says so in its log.
  std::string log;
  HostOptions options;
  options.config_path = sources.path;
  options.log.write = [](void* context, uint32_t, heddle_string_t, heddle_string_t message) {
    static_cast<std::string*>(context)->append(view(message)).append("\n");
  };
  options.log.context = &log;
  ASSERT_TRUE(Host::open(options).ok());
  EXPECT_THAT(log, HasSubstr("warning[E108]"));
}

TEST_F(Configuration, ImportsAreRelativeToTheFileThatNamesThem) {
  write("a/b/deepest.toml", "[param_io]\nqueue_depth = 3\nchunk = 4096\n");
  write("a/middle.toml", "imports = [\"b/deepest.toml\"]\n[param_io]\nqueue_depth = 2\n");
  write("b/deepest.toml", "[param_io]\nqueue_depth = 99\n");
  ConfigSources sources;
  sources.path = write("heddle.toml", "imports = [\"a/middle.toml\", \"a/middle.toml\"]\n");  // twice is no circle
  ConfigRead read;
  read_config(sources, &read);
  ASSERT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  EXPECT_EQ(read.config.param_io.queue_depth, 2u);
  EXPECT_EQ(read.config.param_io.chunk_bytes, 4096u);
  EXPECT_EQ(read.config.files.size(), 5u);
}

TEST_F(Configuration, ImportsAtMost64Files) {
  for (int i = 0; i < 64; ++i) {
    write(fmt::format("{}.toml", i), i == 63 ? "[param_io]\nqueue_depth = 5\n" : fmt::format("imports = [\"{}.toml\"]\n", i + 1));
  }
  ConfigSources sources;
  sources.path = (folder_ / "0.toml").string();
  ConfigRead read;
  read_config(sources, &read);
  EXPECT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  EXPECT_EQ(read.config.param_io.queue_depth, 5u);
  sources.path = write("one-more.toml", "imports = [\"0.toml\"]\n");
  read = {};
  read_config(sources, &read);
  EXPECT_THAT(read.diagnostics.render(), HasSubstr("62.toml:1:12: error[E106]: more than 64 files are imported; at most 64 were expected"));
}

TEST_F(Configuration, AKeyTwiceInOneFileIsAnError) {
  ConfigSources sources;
  sources.path = write("heddle.toml", "[param_io]\nqueue_depth = 3\nqueue_depth = 4\n");
  ConfigRead read;
  read_config(sources, &read);
  EXPECT_THAT(read.diagnostics.render(), HasSubstr("heddle.toml:3:15: error[E101]"));
}

TEST_F(Configuration, StacksOfAllocatorsAreLaidOverEachOtherKeyByKey) {
  write("base.toml", "[device.a.allocator]\nover = { plugin = \"heddle.limit\", limit = 1 }\n");
  ConfigSources sources;
  sources.path = write("heddle.toml",
                       "imports = [\"base.toml\"]\n[device.a]\ndriver = \"heddle.cpu\"\nselect = { ordinal = 0 }\n"
                       "[device.a.allocator]\npool_limit = 5\nover = { limit = 2 }\n");
  ConfigRead read;
  read_config(sources, &read);
  ASSERT_FALSE(read.diagnostics.has_errors()) << read.diagnostics.render();
  ASSERT_EQ(read.config.devices[0].allocators.size(), 2u);
  EXPECT_EQ(read.config.devices[0].allocators[1].plugin, "heddle.limit");
  ASSERT_EQ(read.allocator_options.size(), 2u);
  EXPECT_EQ(origin(read.config, "device.a.allocator.over.limit"), "2 @ " + sources.path + ":7:10");
}

TEST_F(Configuration, RoutesOfLaterFilesComeFirst) {
  write("base.toml", "[[route]]\nslot = \"@a\"\nto = [\"cpu\"]\n");
  ConfigSources sources;
  sources.path = write("heddle.toml", "imports = [\"base.toml\"]\n[[route]]\nslot = \"@a\"\nto = [\"cpu:1\"]\n");
  ConfigRead read;
  read_config(sources, &read);
  ASSERT_EQ(read.config.routes.size(), 2u);
  EXPECT_THAT(read.config.routes[0].to, ElementsAre("cpu:1"));
}

TEST_F(Configuration, FindsItsFileInTheRightOrder) {
  write("home/heddle/heddle.toml", "[param_io]\nqueue_depth = 3\n");
  ConfigRead read;
  read_config({}, &read);
  EXPECT_EQ(read.config.param_io.queue_depth, 3u);

  setenv("HEDDLE_CONFIG", write("env.toml", "[param_io]\nqueue_depth = 4\n").c_str(), 1);
  read = {};
  read_config({}, &read);
  EXPECT_EQ(read.config.param_io.queue_depth, 4u);

  ConfigSources sources;
  sources.use_environment = false;
  read = {};
  read_config(sources, &read);
  EXPECT_EQ(read.config.param_io.queue_depth, 0u);

  setenv("HEDDLE_CONFIG", (folder_ / "not-there.toml").c_str(), 1);
  read = {};
  read_config({}, &read);
  EXPECT_TRUE(read.diagnostics.has_errors());
  EXPECT_THAT(read.diagnostics.render(), HasSubstr("not-there.toml, which HEDDLE_CONFIG names, failed: No such file or directory"));
}

TEST_F(Configuration, IsNotReadFromTheCurrentFolderUnasked) {
  write("heddle.toml", "this is no TOML");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  ConfigRead read;
  read_config({}, &read);
  std::filesystem::current_path(before);
  EXPECT_FALSE(read.diagnostics.has_errors());
}

TEST_F(Configuration, RefusesFilesThatAreNone) {
  ConfigSources sources;
  for (const std::string& path : {folder_.string(), std::string("/dev/zero"), std::string("/dev/tty")}) {
    sources.path = path;
    ConfigRead read;
    read_config(sources, &read);
    EXPECT_TRUE(read.diagnostics.has_errors()) << path;
  }
}

// A key ends where its table says, not at a NUL in it.
TEST_F(Configuration, KeepsNulsOfFreeKeysApart) {
  HostOptions options;
  options.config_path = write("heddle.toml", "[log.components]\n\"queue\\u0000x\" = \"loud\"\n");
  Result<std::unique_ptr<Host>> host = Host::open(options);
  ASSERT_FALSE(host.ok());
  const std::string text(host.status().message());
  EXPECT_THAT(text, HasSubstr("\"loud\""));
  EXPECT_EQ(text.find('\0'), std::string::npos);
}

TEST_F(Configuration, GivesTheHostAllErrorsAtOnce) {
  HostOptions options;
  options.config_path = write("heddle.toml", "[log]\nlevel = 1\nlevl = 2\n[nonsense]\n");
  Result<std::unique_ptr<Host>> host = Host::open(options);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.status().code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  const std::string text(host.status().message());
  EXPECT_THAT(text, HasSubstr("3 errors"));
  EXPECT_THAT(text, HasSubstr(":2:9: error[E103]"));
  EXPECT_THAT(text, HasSubstr(":3:1: error[E102]: unknown key 'levl' in [log]"));
  EXPECT_THAT(text, HasSubstr("did you mean 'level'?"));
  EXPECT_THAT(text, HasSubstr(":4:2: error[E102]: unknown key 'nonsense'"));
}

TEST(Bytes, ReadsSizes) {
  uint64_t bytes = 0;
  std::string wrong;
  for (const auto& [text, expected] : std::vector<std::pair<std::string, uint64_t>>{
           {"0", 0}, {"17", 17}, {"17B", 17}, {"2KiB", 2048}, {"3 MiB", 3u << 20}, {"1GB", 1000000000}, {"8388607TiB", 8388607ull << 40}}) {
    EXPECT_TRUE(parse_bytes(text, &bytes, &wrong)) << text;
    EXPECT_EQ(bytes, expected) << text;
  }
  for (const char* text : {"", "GiB", "-1", "1.5GiB", "1gib", "1  GiB", "1PiB", "16777216TiB", "99999999999999999999", "0x10", "1GiB "}) {
    EXPECT_FALSE(parse_bytes(text, &bytes, &wrong)) << text;
    EXPECT_FALSE(wrong.empty());
  }
}

TEST(CpuList, TakesRangesOnly) {
  for (const char* text : {"0", "0-15", "0-3,8", "1,2,3", "65535"}) EXPECT_TRUE(is_cpu_list(text)) << text;
  for (const char* text : {"", ",", "1,", "-1", "3-1", "a", "0-", "65536", "0--1", "0 - 3", "99999999999"})
    EXPECT_FALSE(is_cpu_list(text)) << text;
}

TEST(Nearest, TakesWhatIsMeantAndNothingElse) {
  EXPECT_EQ(module::nearest("pool_limt", {"plugin", "pool_initial", "pool_limit"}), "pool_limit");
  EXPECT_EQ(module::nearest("levle", {"level", "lever"}), "level");
  EXPECT_EQ(module::nearest("zebra", {"level", "components"}), "");
  EXPECT_EQ(module::nearest("", {"a"}), "");
  EXPECT_EQ(module::nearest("b", {"a"}), "");
  EXPECT_EQ(module::nearest(std::string(10000, 'a'), {"a"}), "");
}

}  // namespace
}  // namespace heddle::host
