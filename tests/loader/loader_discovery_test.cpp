// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is found where, looked at when, kept how long, and handed to whom.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/loader/loader_case.h"

namespace heddle::host {
namespace {

TEST_F(Loader, JudgesManyAtOnce) {
  for (const char* name : {"hang_probe", "flood_probe", "crash_entry", "abort_probe", "exit_probe"})
    install(name, "[load]\ntimeout_ms = 400");
  install("good");
  std::unique_ptr<Host> host = open();
  const uint64_t start = clock_ns();
  for (const PluginInfo& plugin : host->plugins(true)) {
    if (plugin.id.compare(0, 5, "fake.") != 0) continue;  // the build tree's own
    EXPECT_EQ(plugin.state, plugin.id == "fake.good" ? PluginState::kAvailable : PluginState::kProbeFailed) << plugin.id;
  }
  EXPECT_LT(clock_ns() - start, 4'000'000'000u) << "probes run side by side";
}

TEST_F(Loader, KeepsAVerdictUntilSomethingChanges) {
  install("good");
  std::filesystem::copy(library("good"), folder_ / "good.so");
  install("good", "", (folder_ / "good.so").string());
  EXPECT_FALSE(info(*open(), "good").from_cache);
  EXPECT_TRUE(info(*open(), "good").from_cache);
  options_.fresh_probe = true;
  EXPECT_FALSE(info(*open(), "good").from_cache);
  options_.fresh_probe = false;

  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / "good.so").c_str(), times, 0), 0);
  EXPECT_FALSE(info(*open(), "good").from_cache);
  EXPECT_TRUE(info(*open(), "good").from_cache);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_FALSE(info(*open(), "good").from_cache);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

// A vendor's driver is updated: its library has another size or time, or is another file.
TEST_F(Loader, LooksAgainWhenAVendorsLibraryChanges) {
  const std::filesystem::path vendor = folder_ / "vendor";
  std::filesystem::create_directory(vendor);
  const std::filesystem::path soname = vendor / "libheddle_vendor.so.1";
  std::filesystem::copy(library("with_run_path"), folder_ / "plugin.so");
  std::filesystem::copy(library("good"), vendor / "libvendor.so.1.0");
  std::filesystem::create_symlink("libvendor.so.1.0", soname);
  install("with_run_path", "[requires]\nlibs = [{ soname = \"libheddle_vendor.so.1\", hint = \"install it\" }]",
          (folder_ / "plugin.so").string());
  EXPECT_FALSE(info(*open(), "with_run_path").from_cache);
  EXPECT_TRUE(info(*open(), "with_run_path").from_cache);
  std::filesystem::copy(library("good"), vendor / "libvendor.so.1.1");
  std::filesystem::remove(soname);
  std::filesystem::create_symlink("libvendor.so.1.1", soname);
  EXPECT_FALSE(info(*open(), "with_run_path").from_cache);
  EXPECT_TRUE(info(*open(), "with_run_path").from_cache);
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, soname.c_str(), times, 0), 0);
  EXPECT_FALSE(info(*open(), "with_run_path").from_cache);
  EXPECT_TRUE(info(*open(), "with_run_path").from_cache);
  std::filesystem::remove(soname);
  EXPECT_EQ(info(*open(), "with_run_path").state, PluginState::kMissingDependency);
}

TEST_F(Loader, KeepsACrashForAWhileAndAMissingDeviceNot) {
  install("crash_entry");
  install("no_device");
  open()->plugins(true);
  std::unique_ptr<Host> host = open();
  EXPECT_TRUE(info(*host, "crash_entry").from_cache);
  EXPECT_THAT(info(*host, "crash_entry").reason, HasSubstr("SIGSEGV"));
  EXPECT_FALSE(info(*host, "no_device").from_cache);
}

TEST_F(Loader, DoesNotBelieveADamagedCache) {
  install("good");
  open()->plugins(true);
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
    if (!entry.is_regular_file() || entry.path().filename().string().compare(0, 10, "fake.good-") != 0) continue;
    ++files;
    std::filesystem::resize_file(entry.path(), entry.file_size() - 5);
  }
  EXPECT_EQ(files, 1u);
  EXPECT_FALSE(info(*open(), "good").from_cache);
  // Nor one that others could have written.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
    if (entry.is_regular_file()) std::filesystem::permissions(entry.path(), std::filesystem::perms::all);
  }
  EXPECT_FALSE(info(*open(), "good").from_cache);
}

TEST_F(Loader, WorksWithoutACache) {
  install("good");
  std::ofstream(folder_ / "file");
  setenv("XDG_CACHE_HOME", (folder_ / "file").c_str(), 1);
  EXPECT_EQ(info(*open(), "good").state, PluginState::kAvailable);
  EXPECT_FALSE(info(*open(), "good").from_cache);
}

TEST_F(Loader, ProbesInProcessWhenTheOperatorSaysSo) {
  install("no_device");
  options_.config_text = "[plugins.probe]\n\"fake.no_device\" = \"in-process\"\n";
  EXPECT_EQ(info(*open(), "no_device").state, PluginState::kNoDevice);
}

TEST_F(Loader, TakesTheFirstFolderAndListsTheShadowed) {
  install("good");
  std::filesystem::create_directory(folder_ / "second");
  std::filesystem::copy(plugins_ / "fake.good.toml", folder_ / "second" / "fake.good.toml");
  options_.plugin_paths.push_back((folder_ / "second").string());
  PluginInfo found = info(*open(), "good");
  EXPECT_EQ(found.manifest_path, (plugins_ / "fake.good.toml").string());
  EXPECT_EQ(found.shadowed, std::vector<std::string>{(folder_ / "second" / "fake.good.toml").string()});
}

TEST_F(Loader, NeverLooksInTheCurrentFolder) {
  install("good");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  options_.plugin_paths = {"plugins.d", "."};
  setenv("HEDDLE_PLUGIN_PATH", "plugins.d:.", 1);
  options_.no_config = false;
  setenv("HEDDLE_CONFIG", "", 1);
  std::unique_ptr<Host> host = open();
  for (const PluginInfo& plugin : host->plugins(false)) EXPECT_NE(plugin.id, "fake.good");
  EXPECT_THAT(log_, HasSubstr("host: plugin directory 'plugins.d' of the application is not searched: it is not absolute\n"));
  EXPECT_THAT(log_, HasSubstr("host: plugin directory '.' of HEDDLE_PLUGIN_PATH is not searched: it is not absolute\n"));
  std::filesystem::current_path(before);
}

TEST_F(Loader, NamesAPluginFolderThatIsNotThere) {
  options_.plugin_paths.push_back((folder_ / "absent").string());
  options_.no_config = false;
  setenv("HEDDLE_PLUGIN_PATH", (":" + (folder_ / "gone").string()).c_str(), 1);
  open();
  EXPECT_THAT(log_, HasSubstr((folder_ / "absent").string() + "' of the application cannot be searched: No such file or directory\n"));
  EXPECT_THAT(log_, HasSubstr((folder_ / "gone").string() + "' of HEDDLE_PLUGIN_PATH cannot be searched: No such file or directory\n"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 2);
}

TEST_F(Loader, ReadsPluginPathFromTheEnvironment) {
  install("good");
  options_.plugin_paths.clear();
  options_.no_config = false;
  setenv("HEDDLE_PLUGIN_PATH", plugins_.c_str(), 1);
  EXPECT_EQ(info(*open(), "good").state, PluginState::kAvailable);
}

TEST_F(Loader, DisablesPinsAndRequires) {
  install("good");
  options_.config_text = "[plugins]\ndisable = [\"fake.good\"]\n";
  PluginInfo found = info(*open(), "good");
  EXPECT_EQ(found.state, PluginState::kDisabled);

  options_.config_text = "[plugins]\npin = { \"fake.good\" = \"=2.0.0\" }\n";
  found = info(*open(), "good");
  EXPECT_EQ(found.state, PluginState::kDisabled);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("1.0.0"), HasSubstr("2.0.0")));

  options_.config_text = "[plugins]\nrequire = [\"fake.good\"]\n";
  EXPECT_NE(open(), nullptr);
  options_.config_text = "[plugins]\nrequire = [\"fake.crash_entry\"]\n";
  install("crash_entry");
  Result<std::unique_ptr<Host>> host = Host::open(options_);
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.status().code(), HEDDLE_STATUS_UNAVAILABLE);
  EXPECT_THAT(std::string(host.status().message()), AllOf(HasSubstr("requires fake.crash_entry"), HasSubstr("SIGSEGV")));
}

TEST_F(Loader, KeepsConflictingPluginsApart) {
  install("good", "", "", R"(["0.1", "0.1"])", "conflicts = [\"fake.two_devices\"]\n");
  install("two_devices");
  std::unique_ptr<Host> host = open();
  EXPECT_TRUE(host->driver("fake.good").ok());
  Result<LoadedDriver*> other = host->driver("fake.two_devices");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("conflicts with fake.good"));
}

TEST_F(Loader, HandsOptionsToThePlugin) {
  install("good", "[options.name]\ntype = \"string\"\ndefault = \"by default\"\n");
  Result<DeviceInfo> device = open()->device("good");
  std::unique_ptr<Host> host = open();
  device = host->device("good");
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(view(device->description.name), "by default");
  options_.config_text = "[driver.\"fake.good\"]\nname = \"by choice\"\n";
  std::unique_ptr<Host> other = open();
  device = other->device("fake.good:0");
  ASSERT_TRUE(device.ok()) << device.status().message();
  EXPECT_EQ(view(device->description.name), "by choice");
}

TEST_F(Loader, FindsDevicesBySelector) {
  install("two_devices");
  options_.config_text =
      "[device.a]\ndriver = \"fake.two_devices\"\nselect = { pci = \"0000:42:00.0\" }\n"
      "[device.b]\ndriver = \"fake.two_devices\"\nselect = { uuid = \"GPU-1b1b1b1b\" }\naffinity = { cpus = \"0-1\" }\n"
      "[device.c]\ndriver = \"fake.two_devices\"\nselect = { pci = \"0000:43:00.0\" }\n"
      "[device.d]\ndriver = \"fake.not_here\"\nselect = { ordinal = 0 }\n";
  std::unique_ptr<Host> host = open();
  std::vector<DeviceInfo> devices = host->devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].alias, "a");
  EXPECT_EQ(devices[0].ordinal, 1u);
  EXPECT_EQ(devices[1].alias, "b");
  EXPECT_EQ(devices[1].ordinal, 0u);
  EXPECT_EQ(devices[1].cpus, "0-1");
  EXPECT_THAT(
      host->skipped(),
      ::testing::ElementsAre(
          AllOf(HasSubstr("error[E207]: no fake.two_devices device with pci \"0000:43:00.0\""),
                HasSubstr("found ordinal 0, pci \"0000:41:00.0\", uuid \"1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b\" (a fake); ordinal 1, ")),
          AllOf(HasSubstr("fake.not_here"), HasSubstr("not installed"))));
  EXPECT_EQ(host->device("c").status().code(), HEDDLE_STATUS_NOT_FOUND);
  EXPECT_EQ(host->device("two_devices:7").status().code(), HEDDLE_STATUS_NOT_FOUND);
  Result<DeviceInfo> nobody = host->device("tow_devices");
  ASSERT_FALSE(nobody.ok());
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("did you mean 'two_devices'?"));
}

TEST_F(Loader, LoadsOnlyWhatIsAskedFor) {
  install("good", "", "", R"(["0.1", "0.1"])", "families = [\"fake\"]\n");
  install("two_devices", "", "", R"(["0.1", "0.1"])", "families = [\"other\"]\n");
  std::unique_ptr<Host> host = open();
  EXPECT_EQ(host->devices({"fake"}).size(), 1u);
  for (const PluginInfo& plugin : host->plugins(false)) {
    if (plugin.id.compare(0, 5, "fake.") != 0) continue;
    EXPECT_EQ(plugin.state, plugin.id == "fake.good" ? PluginState::kLoaded : PluginState::kAvailable) << plugin.id;
  }
}

TEST_F(Loader, TwoHostsShareALibraryAndNothingElse) {
  install("good");
  std::unique_ptr<Host> first = open(), second = open();
  Result<LoadedDriver*> a = first->driver("fake.good"), b = second->driver("fake.good");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE((*a)->api.instance, (*b)->api.instance);
  first.reset();
  uint32_t count = 0;
  EXPECT_TRUE(Status((*b)->device.count((*b)->api.instance, &count)).ok());
  EXPECT_EQ(count, 1u);
}

TEST_F(Loader, AnswersFailedPreconditionInAForkedChild) {
  install("good");
  std::unique_ptr<Host> host = open();
  ASSERT_TRUE(host->driver("fake.good").ok());
  pid_t child = fork();
  if (child == 0) {
    const bool refused = host->driver("fake.good").status().code() == HEDDLE_STATUS_FAILED_PRECONDITION && host->devices().empty();
    host.reset();  // does nothing, and does not hang
    // A host of its own works.
    Result<std::unique_ptr<Host>> own = Host::open(options_);
    const bool works = own.ok() && (*own)->driver("fake.good").ok();
    _exit(refused && works ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(host->driver("fake.good").ok());
}

TEST_F(Loader, ReportsAsJson) {
  install("good");
  install("crash_entry");
  std::unique_ptr<Host> host = open();
  Result<std::string> plugins = host->report("plugins");
  ASSERT_TRUE(plugins.ok());
  EXPECT_THAT(*plugins, AllOf(HasSubstr("\"id\":\"fake.crash_entry\""), HasSubstr("\"state\":\"probe-failed\""), HasSubstr("SIGSEGV")));
  EXPECT_THAT(*host->report("devices"), HasSubstr("\"alias\":\"good:0\""));
  EXPECT_EQ(host->report("weather").status().code(), HEDDLE_STATUS_NOT_FOUND);
}

}  // namespace
}  // namespace heddle::host
