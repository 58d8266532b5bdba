// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Digests, strict mode and the games that others may play with files.
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>

#include "core/host/digest.h"
#include "core/host/plugin_state.h"
#include "core/host/trust.h"
#include "tests/loader/loader_case.h"

namespace heddle::host {
namespace {

TEST_F(Loader, RefusesAReservedId) {
  std::ofstream(plugins_ / "heddle.gpu.toml") << "manifest = 1\n[plugin]\nid = \"heddle.gpu\"\nversion = \"1.0.0\"\nkind = [\"driver\"]\n"
                                              << "library = \"" << library("good") << "\"\nabi = [\"0.1\", \"0.1\"]\n";
  std::unique_ptr<Host> host = open();
  bool found = false;
  for (const PluginInfo& plugin : host->plugins(true)) {
    if (plugin.id != "heddle.gpu") continue;
    found = true;
    EXPECT_EQ(plugin.state, PluginState::kIncompatible);
    EXPECT_THAT(plugin.reason, HasSubstr("id 'heddle.gpu' is reserved"));
  }
  EXPECT_TRUE(found);
}

TEST_F(Loader, RefusesALibraryWithAnotherDigestThanItsManifestSays) {
  std::unique_ptr<FILE, int (*)(FILE*)> command(popen(("sha256sum '" + library("good") + "'").c_str(), "r"), pclose);
  char digest[65] = {};
  ASSERT_EQ(fread(digest, 1, 64, command.get()), 64u);
  install("good", std::string("[integrity]\nsha256 = \"") + digest + "\"");
  std::unique_ptr<Host> host = open();
  EXPECT_EQ(info(*host, "good").state, PluginState::kAvailable) << info(*host, "good").reason;

  // Nor does a cached verdict stand for the digest of what is loaded.
  std::filesystem::copy(library("good"), folder_ / "kept.so");
  install("good", std::string("[integrity]\nsha256 = \"") + digest + "\"", (folder_ / "kept.so").string());
  info(*open(), "good");
  std::unique_ptr<Host> cached = open();
  EXPECT_TRUE(info(*cached, "good").from_cache);
  std::filesystem::remove(folder_ / "kept.so");
  std::filesystem::copy(library("crash_constructor"), folder_ / "kept.so");
  Result<LoadedDriver*> changed = cached->driver("fake.good");
  ASSERT_FALSE(changed.ok());
  EXPECT_THAT(std::string(changed.status().message()), HasSubstr("kept.so has the SHA-256 digest"));

  // Another library under that digest, which would crash as soon as it is mapped.
  std::filesystem::copy(library("crash_constructor"), folder_ / "other.so");
  install("crash_constructor", std::string("[integrity]\nsha256 = \"") + digest + "\"", (folder_ / "other.so").string());
  PluginInfo found = info(*open(), "crash_constructor");
  EXPECT_EQ(found.state, PluginState::kIncompatible);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("other.so has the SHA-256 digest"), HasSubstr(digest), HasSubstr("reinstall the plugin")));
}

// A host in strict mode over plugins that belong to root or to this user, in a folder that nobody else may write to. /tmp is everybody's.
class Trust : public Loader {
 protected:
  void SetUp() override {
    Loader::SetUp();
    options_.config_text = "[plugins.security]\nmode = \"strict\"\n";
    std::string build, wrong = why_untrusted(HEDDLE_FAKE_PLUGINS, &build);
    if (!wrong.empty()) GTEST_SKIP() << "SKIP: the build folder is not safe from others: " << wrong;
    umask_before_ = umask(022);     // other users' processes read what the cases write
    chmod(folder_.c_str(), 01777);  // as /tmp is, wherever TMPDIR may be
    safe_ = safe_folder_.emplace(build).path();
    chmod(safe_.c_str(), 0755);
    plugins_ = safe_;
    options_.plugin_paths = {safe_};
    std::filesystem::copy(library("good"), safe_ + "/good.so");
    chmod((safe_ + "/good.so").c_str(), 0755);
    install("good", "", "good.so");
    chmod(manifest().c_str(), 0644);
  }
  void TearDown() override {
    if (umask_before_) umask(*umask_before_);
  }

  std::string manifest() const { return safe_ + "/fake.good.toml"; }
  PluginInfo good() { return info(*open(), "good"); }
  void expect_untrusted(const std::string& part) {
    PluginInfo found = good();
    EXPECT_EQ(found.state, PluginState::kUntrusted) << part;
    EXPECT_THAT(found.reason, AllOf(HasSubstr(part), HasSubstr("strict mode requires that only root or the user itself can write it")));
  }

  // What it returns in a child process that runs as the user nobody.
  static bool as_nobody(const std::function<bool()>& function) {
    const pid_t child = fork();
    if (child == 0) _exit(setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0 && function() ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
  }
  // Whether that user may enter the folder: not below one that only root may enter, as with umask 077.
  static bool nobody_enters(const std::string& folder) {
    return as_nobody([&] { return access(folder.c_str(), X_OK) == 0; });
  }

  static constexpr uid_t kNobody = 65534, kCaller = 12345;
  std::string safe_;

 private:
  std::optional<mode_t> umask_before_;
  std::optional<testing::TemporaryFolder> safe_folder_;
};

TEST_F(Trust, TakesWhatNobodyElseMayWrite) {
  PluginInfo found = good();
  EXPECT_EQ(found.state, PluginState::kAvailable) << found.reason;
}

TEST_F(Trust, RefusesWhatOthersMayWrite) {
  chmod((safe_ + "/good.so").c_str(), 0775);
  expect_untrusted("good.so can be written by others (mode 0775)");
  chmod((safe_ + "/good.so").c_str(), 0755);
  chmod(manifest().c_str(), 0666);
  expect_untrusted("fake.good.toml can be written by others (mode 0666)");
  chmod(manifest().c_str(), 0644);
  chmod(safe_.c_str(), 01777);
  expect_untrusted(safe_ + " can be written by others (mode 1777)");
  chmod(safe_.c_str(), 0755);
  EXPECT_EQ(good().state, PluginState::kAvailable);
}

TEST_F(Trust, RefusesWhatSomebodyElseOwns) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: needs root, to give files to another user";
  for (const std::string& path : {safe_ + "/good.so", manifest(), safe_}) {
    ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
    expect_untrusted("belongs to user 65534, neither to root nor to user 0");
    ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  }
  EXPECT_EQ(good().state, PluginState::kAvailable);
}

// Somebody points a link of theirs at a good manifest when it is looked at, and at their own when it is read.
TEST_F(Trust, ReadsAManifestByThePathThatItChecked) {
  const std::string other = folder_ / "linked";
  std::filesystem::create_directory(other);
  options_.plugin_paths = {other};
  std::filesystem::create_symlink(manifest(), other + "/fake.good.toml");
  PluginInfo found = good();
  EXPECT_EQ(found.state, PluginState::kAvailable) << found.reason;
  EXPECT_EQ(found.manifest_path, manifest());
  EXPECT_EQ(found.library_path, safe_ + "/good.so");

  std::filesystem::remove(other + "/fake.good.toml");
  std::ofstream(folder_ / "theirs.toml") << "this would be an error in the manifest";
  std::filesystem::create_symlink(folder_ / "theirs.toml", other + "/fake.good.toml");
  expect_untrusted("can be written by others");  // /tmp: it is not read at all
}

TEST_F(Trust, AnUntrustedManifestHidesNoTrustedOne) {
  const std::string early = folder_ / "early";
  std::filesystem::create_directory(early);
  std::filesystem::copy(manifest(), early + "/fake.good.toml");
  options_.plugin_paths = {early, safe_};
  PluginInfo found = good();
  EXPECT_EQ(found.state, PluginState::kAvailable) << found.reason;
  EXPECT_EQ(found.manifest_path, manifest());
  ASSERT_EQ(found.shadowed.size(), 1u);
  EXPECT_EQ(found.shadowed[0], early + "/fake.good.toml");
}

TEST_F(Trust, BelievesNeitherEnvironmentNorHome) {
  options_.no_config = false;
  options_.plugin_paths.clear();
  setenv("HEDDLE_PLUGIN_PATH", safe_.c_str(), 1);
  std::unique_ptr<Host> host = open();
  for (const PluginInfo& plugin : host->plugins(false)) EXPECT_NE(plugin.id, "fake.good");
  options_.config_text.clear();
  EXPECT_EQ(good().state, PluginState::kAvailable);
  unsetenv("HEDDLE_PLUGIN_PATH");

  // The same in the user's data folder, by either of its names.
  const std::string home = safe_ + "/home", data = home + "/.local/share", before = getenv("HOME") ? getenv("HOME") : "";
  std::filesystem::create_directories(data + "/heddle/plugins.d");
  std::filesystem::copy(safe_ + "/good.so", data + "/heddle/plugins.d/good.so");
  std::filesystem::copy(manifest(), data + "/heddle/plugins.d/fake.good.toml");
  for (const bool by_data_home : {true, false}) {
    by_data_home ? setenv("XDG_DATA_HOME", data.c_str(), 1) : unsetenv("XDG_DATA_HOME");
    setenv("HOME", by_data_home ? "/nonexistent" : home.c_str(), 1);
    options_.config_text.clear();
    EXPECT_EQ(good().manifest_path, data + "/heddle/plugins.d/fake.good.toml");
    options_.config_text = "[plugins.security]\nmode = \"strict\"\n";
    host = open();
    for (const PluginInfo& plugin : host->plugins(false)) EXPECT_NE(plugin.id, "fake.good");
  }
  setenv("HOME", before.c_str(), 1);
}

TEST_F(Trust, LooksAtEveryFolderAbove) {
  const std::string deep = safe_ + "/one/two/three";
  std::filesystem::create_directories(deep);
  std::filesystem::copy(manifest(), deep + "/fake.good.toml");
  std::filesystem::copy(safe_ + "/good.so", deep + "/good.so");
  options_.plugin_paths = {deep};
  EXPECT_EQ(good().state, PluginState::kAvailable);
  for (const char* part : {"/one", "/one/two"}) {
    chmod((safe_ + part).c_str(), 0775);
    expect_untrusted(std::string(part) + " can be written by others (mode 0775)");
    chmod((safe_ + part).c_str(), 0755);
  }
}

// A link to the library that leads to a good one when it is looked at, and elsewhere when it is loaded; the same for a module.
TEST_F(Trust, LoadsWhatALinkMeantWhenItWasChecked) {
  std::filesystem::create_symlink(safe_ + "/good.so", folder_ / "link.so");
  install("good", "", (folder_ / "link.so").string());
  chmod(manifest().c_str(), 0644);
  std::unique_ptr<Host> host = open();
  EXPECT_EQ(info(*host, "good").state, PluginState::kAvailable) << info(*host, "good").reason;
  EXPECT_EQ(info(*host, "good").library_path, safe_ + "/good.so");
  std::filesystem::remove(folder_ / "link.so");
  std::filesystem::create_symlink(library("crash_constructor"), folder_ / "link.so");  // ends the process if it is mapped
  Result<LoadedDriver*> driver = host->driver("fake.good");
  EXPECT_TRUE(driver.ok()) << driver.status().message();

  options_.config_text = "[modules.security]\nmode = \"strict\"\n";
  std::filesystem::create_symlink(safe_ + "/good.so", folder_ / "m.heddle");
  Result<std::string> path = open()->module_path(folder_ / "m.heddle");
  ASSERT_TRUE(path.ok()) << path.status().message();
  EXPECT_EQ(*path, safe_ + "/good.so");
}

TEST_F(Trust, AnotherUserIsToldApartFromRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: needs root, to become another user";
  if (!nobody_enters(safe_)) GTEST_SKIP() << "SKIP: user 65534 cannot enter " << safe_;
  // Root's files are good for everybody.
  EXPECT_TRUE(as_nobody([&] {
    std::string path;
    return why_untrusted(safe_ + "/good.so", &path).empty() && path == safe_ + "/good.so";
  }));
  // What is one user's own is good for that one, and not for root.
  const std::string own = safe_ + "/own";
  std::filesystem::create_directory(own);
  std::filesystem::copy(safe_ + "/good.so", own + "/good.so");
  for (const std::string& path : {own, own + "/good.so"}) ASSERT_EQ(chown(path.c_str(), kNobody, kNobody), 0);
  std::string path;
  EXPECT_THAT(why_untrusted(own + "/good.so", &path), HasSubstr("belongs to user 65534"));
  EXPECT_TRUE(as_nobody([&] {
    std::string seen;
    return why_untrusted(own + "/good.so", &seen).empty();
  }));
}

// Another user renames folders of theirs while they are looked at, between one that is theirs and a link to root's. Whatever is answered,
// a path that was found good is root's all the way.
TEST_F(Trust, RenamesMeanwhileWinNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: needs root, to become another user";
  const std::string theirs = folder_ / "theirs";
  std::filesystem::create_directory(theirs);
  chmod(folder_.c_str(), 0755);
  if (!nobody_enters(folder_)) GTEST_SKIP() << "SKIP: user 65534 cannot enter " << folder_;
  ASSERT_EQ(chown(theirs.c_str(), kNobody, kNobody), 0);
  const pid_t attacker = fork();
  ASSERT_GE(attacker, 0);
  if (attacker == 0) {
    if (setresuid(kNobody, kNobody, kNobody) != 0 || chdir(theirs.c_str()) != 0) _exit(1);
    mkdir("mine", 0755);
    close(::open("mine/good.so", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    if (symlink(safe_.c_str(), "link") != 0) _exit(1);
    for (;;) {
      rename("mine", "plugins");
      rename("plugins", "mine");
      rename("link", "plugins");
      rename("plugins", "link");
    }
  }
  size_t good_ones = 0;
  int looks = 0;
  for (; looks < 20000 || (good_ones == 0 && looks < 2'000'000); ++looks) {
    std::string path;
    if (!why_untrusted(theirs + "/plugins/good.so", &path).empty()) continue;
    ++good_ones;
    ASSERT_EQ(path, safe_ + "/good.so");
  }
  kill(attacker, SIGKILL);
  int status = 0;
  waitpid(attacker, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it could not play its game";
  EXPECT_GT(good_ones, 0u) << "no look met the link, so nothing was tried";
  printf("%zu of %d looks met the link\n", good_ones, looks);
}

// A plugin that needs a library, which needs another: each of them, and each folder that may hold one, is nobody else's.
TEST_F(Trust, WhatAPluginNeedsIsLookedAtToo) {
  const std::string near = safe_ + "/near", far = near + "/far";
  std::filesystem::create_directories(far);
  std::filesystem::copy(library("needs_chain"), safe_ + "/needs_chain.so");
  std::filesystem::copy(std::string(HEDDLE_FAKE_CHAIN) + "/libheddle_test_near.so", near);
  std::filesystem::copy(std::string(HEDDLE_FAKE_CHAIN) + "/libheddle_test_far.so", far);
  for (const std::string& path : {safe_ + "/needs_chain.so", near + "/libheddle_test_near.so", far + "/libheddle_test_far.so"})
    chmod(path.c_str(), 0755);
  install("needs_chain", "", "needs_chain.so");
  chmod((safe_ + "/fake.needs_chain.toml").c_str(), 0644);
  auto look = [&] { return info(*open(), "needs_chain"); };
  EXPECT_EQ(look().state, PluginState::kAvailable) << look().reason;
  for (const std::string& path : {near, near + "/libheddle_test_near.so", far, far + "/libheddle_test_far.so"}) {
    chmod(path.c_str(), 0775);
    PluginInfo found = look();
    EXPECT_EQ(found.state, PluginState::kUntrusted) << path;
    EXPECT_THAT(found.reason, HasSubstr(path + " can be written by others (mode 0775)"));
    chmod(path.c_str(), 0755);
  }
  // So are the files and folders that the linker prefers on some processors.
  const std::string preferred = near + "/far/glibc-hwcaps/x86-64-v2";
  std::filesystem::create_directories(preferred);
  std::filesystem::copy(far + "/libheddle_test_far.so", preferred);
  EXPECT_EQ(look().state, PluginState::kAvailable) << look().reason;
  for (const std::string& path : {far + "/glibc-hwcaps", preferred, preferred + "/libheddle_test_far.so"}) {
    chmod(path.c_str(), 0775);
    PluginInfo found = look();
    EXPECT_EQ(found.state, PluginState::kUntrusted) << path;
    EXPECT_THAT(found.reason, HasSubstr(path + " can be written by others (mode 0775)"));
    chmod(path.c_str(), 0755);
  }
  // The same for one that only the manifest names.
  std::filesystem::copy(library("with_run_path"), safe_ + "/with_run_path.so");
  std::filesystem::create_directory(safe_ + "/vendor");
  std::filesystem::copy(far + "/libheddle_test_far.so", safe_ + "/vendor");
  install("with_run_path", "[requires]\nlibs = [{ soname = \"libheddle_test_far.so\" }]", "with_run_path.so");
  for (const char* name : {"/with_run_path.so", "/vendor/libheddle_test_far.so", "/fake.with_run_path.toml", "/vendor"})
    chmod((safe_ + name).c_str(), 0755);
  PluginInfo vendors = info(*open(), "with_run_path");
  EXPECT_EQ(vendors.state, PluginState::kAvailable) << vendors.reason;
  chmod((safe_ + "/vendor/libheddle_test_far.so").c_str(), 0757);
  vendors = info(*open(), "with_run_path");
  EXPECT_EQ(vendors.state, PluginState::kUntrusted);
  EXPECT_THAT(vendors.reason, HasSubstr("needs libheddle_test_far.so: "));

  // Without strict mode nobody asks.
  chmod(far.c_str(), 0775);
  options_.config_text.clear();
  EXPECT_EQ(look().state, PluginState::kAvailable) << look().reason;
  chmod(far.c_str(), 0755);
}

TEST_F(Trust, NoVariableLetsVendorsLibrariesLoadCode) {
  install("good", "[opens]\nlibs = [\"libheddle_test_vendor.so.3\"]\nenvironment = [\"HEDDLE_TEST_TOOLS\", \"HEDDLE_TEST_DRIVERS\"]",
          "good.so");
  chmod(manifest().c_str(), 0644);
  EXPECT_EQ(good().state, PluginState::kAvailable) << good().reason;
  for (const char* name : {"HEDDLE_TEST_TOOLS", "HEDDLE_TEST_DRIVERS"}) {
    setenv(name, "/opt/tools.so", 1);
    const PluginInfo found = good();
    EXPECT_EQ(found.state, PluginState::kUntrusted);
    EXPECT_THAT(found.reason, HasSubstr(std::string("the environment variable ") + name + " is set"));
    setenv(name, "", 1);
    EXPECT_EQ(good().state, PluginState::kAvailable) << good().reason;
    unsetenv(name);
  }
  // A library that the plugin may open need not be there; if it is, it is checked.
  std::filesystem::copy(library("with_run_path"), safe_ + "/with_run_path.so");
  std::filesystem::create_directory(safe_ + "/vendor");
  std::filesystem::copy(std::string(HEDDLE_FAKE_CHAIN) + "/libheddle_test_far.so", safe_ + "/vendor");
  install("with_run_path", "[opens]\nlibs = [\"libheddle_test_far.so\"]", "with_run_path.so");
  for (const char* name : {"/with_run_path.so", "/vendor/libheddle_test_far.so", "/fake.with_run_path.toml", "/vendor"})
    chmod((safe_ + name).c_str(), 0755);
  EXPECT_EQ(info(*open(), "with_run_path").state, PluginState::kAvailable) << info(*open(), "with_run_path").reason;
  chmod((safe_ + "/vendor/libheddle_test_far.so").c_str(), 0757);
  EXPECT_THAT(info(*open(), "with_run_path").reason, HasSubstr("needs libheddle_test_far.so: "));

  // Without strict mode the variables are the user's.
  options_.config_text.clear();
  setenv("HEDDLE_TEST_TOOLS", "/opt/tools.so", 1);
  EXPECT_EQ(good().state, PluginState::kAvailable) << good().reason;
  unsetenv("HEDDLE_TEST_TOOLS");
}

// In a process that was started with LD_LIBRARY_PATH, as the next test does it.
TEST_F(Trust, LibraryPathChild) {
  if (!getenv("HEDDLE_TEST_LIBRARY_PATH")) GTEST_SKIP() << "it is a part of the next test";
  install("tell_probe");
  install("needs_absent");
  for (const char* name : {"tell_probe", "needs_absent"}) chmod((safe_ + "/fake." + name + ".toml").c_str(), 0644);
  std::unique_ptr<Host> host = open();
  PluginInfo told = info(*host, "tell_probe"), needs = info(*host, "needs_absent");
  printf("told: %s\nneeds: %s: %s\n", told.reason.c_str(), name_of(needs.state), needs.reason.c_str());
}

TEST_F(Trust, TheLinkersVariablesAreNotForProbes) {
  const std::string absent = std::string(HEDDLE_FAKE_CHAIN) + "/../elsewhere", theirs = folder_ / "libraries", out = folder_ / "out";
  std::filesystem::create_directory(theirs);
  std::filesystem::copy(absent + "/libheddle_test_absent.so", theirs);
  auto child = [&](const std::string& folders) {
    const std::string command = "env -u GTEST_OUTPUT HEDDLE_TEST_LIBRARY_PATH=1 'LD_LIBRARY_PATH=" + folders + "' '" +
                                std::filesystem::canonical("/proc/self/exe").string() + "' --gtest_filter=Trust.LibraryPathChild > '" +
                                out + "'";
    EXPECT_EQ(system(command.c_str()), 0);
    std::ifstream file(out);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  // A folder in /tmp, which is everybody's.
  std::string said = child(theirs);
  EXPECT_THAT(said, HasSubstr("needs: untrusted: "));
  EXPECT_THAT(said, HasSubstr("can be written by others"));
  EXPECT_THAT(child("/usr/lib:"), HasSubstr("LD_LIBRARY_PATH: it names the current directory"));
  EXPECT_THAT(child("/usr/$LIB"), HasSubstr("LD_LIBRARY_PATH: it has a '$'"));
  EXPECT_THAT(child("/usr/lib"), HasSubstr("LD_LIBRARY_PATH unset"));
}

TEST_F(Trust, EndlessAndHugeFilesHaveNoDigest) {
  std::string digest, huge = folder_ / "huge", fifo = folder_ / "fifo";
  close(::open(huge.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  ASSERT_EQ(truncate(huge.c_str(), int64_t{1} << 40), 0);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0644), 0);
  EXPECT_THAT(read_sha256(huge, kMaxModuleBytes, &digest), HasSubstr("it has 1099511627776 bytes; at most 274877906944 are read"));
  for (const std::string& path : {std::string("/dev/zero"), fifo, folder_.string()})
    EXPECT_THAT(read_sha256(path, kMaxModuleBytes, &digest), HasSubstr("it is not a regular file")) << path;
  // Files of /proc say that they are empty, and are not: as one that grows while it is read.
  EXPECT_THAT(read_sha256("/proc/self/status", kMaxModuleBytes, &digest), HasSubstr("its size changed meanwhile"));
}

// A file system that a process serves: its only folder is root's, it says. Ends when it is unmounted.
void serve_folder(int device) {
  alignas(8) char request[64 << 10];
  while (true) {
    const ssize_t got = read(device, request, sizeof(request));
    if (got < 0 && errno == EINTR) continue;
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
    const auto* in = reinterpret_cast<const fuse_in_header*>(request);
    if (in->opcode == FUSE_FORGET || in->opcode == FUSE_INTERRUPT) continue;
    struct {
      fuse_out_header head;
      union {
        fuse_init_out init;
        fuse_attr_out attributes;
      };
    } out{};
    out.head = {sizeof(out.head), 0, in->unique};
    if (in->opcode == FUSE_INIT) {
      out.init.major = FUSE_KERNEL_VERSION;
      out.init.minor = FUSE_KERNEL_MINOR_VERSION;
      out.init.max_write = 4096;
      out.head.len += sizeof(out.init);
    } else if (in->opcode == FUSE_GETATTR) {
      out.attributes.attr.ino = 1;
      out.attributes.attr.mode = S_IFDIR | 0755;
      out.attributes.attr.nlink = 2;
      out.head.len += sizeof(out.attributes);
    } else {
      out.head.error = -ENOSYS;
    }
    if (write(device, &out, out.head.len) < 0 && errno != ENOENT) return;
  }
}

TEST_F(Trust, RefusesAFileSystemThatAnotherUserServes) {
  const std::string folder = safe_ + "/served";
  std::filesystem::create_directory(folder);
  for (const uid_t user : {kNobody, uid_t{0}}) {
    const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0) GTEST_SKIP() << "SKIP: /dev/fuse cannot be opened here: " << strerror(errno);
    const std::string settings = "fd=" + std::to_string(device) + ",rootmode=40000,allow_other,group_id=0,user_id=" + std::to_string(user);
    if (mount("made up", folder.c_str(), "fuse.test", MS_NOSUID | MS_NODEV, settings.c_str()) != 0) {
      close(device);
      GTEST_SKIP() << "SKIP: no file system can be mounted here: " << strerror(errno);
    }
    std::thread server(serve_folder, device);
    std::string path;
    const std::string wrong = why_untrusted(folder, &path);
    umount2(folder.c_str(), MNT_DETACH);
    server.join();
    close(device);
    if (user == 0) {
      EXPECT_EQ(wrong, "");
    } else {
      EXPECT_THAT(wrong, HasSubstr("served is on a file system served by user 65534, who can fake owners"));
    }
  }
}

TEST_F(Trust, DigestsOfTheConfigurationDecide) {
  std::string digest;
  ASSERT_EQ(read_sha256(safe_ + "/good.so", kMaxLibraryBytes, &digest), "");
  options_.config_text = "[plugins.security]\ndigests = { \"fake.good\" = \"" + digest + "\" }\n";
  EXPECT_EQ(good().state, PluginState::kAvailable);

  const std::string other(64, 'a');
  options_.config_text = "[plugins.security]\ndigests = { \"fake.good\" = [\"" + other + "\", \"" + digest + "\"] }\n";
  std::unique_ptr<Host> host = open();
  EXPECT_EQ(info(*host, "good").state, PluginState::kAvailable);
  // It is another one by the time it is loaded.
  std::filesystem::remove(safe_ + "/good.so");
  std::filesystem::copy(library("crash_constructor"), safe_ + "/good.so");
  Result<LoadedDriver*> driver = host->driver("fake.good");
  ASSERT_FALSE(driver.ok());
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("which plugins.security.digests of the configuration does not list"));

  PluginInfo found = good();
  EXPECT_EQ(found.state, PluginState::kUntrusted);
  EXPECT_THAT(found.reason, AllOf(HasSubstr("has the SHA-256 digest"), HasSubstr("does not list for fake.good")));
}

TEST_F(Trust, ModulesNeedItToo) {
  options_.config_text = "[modules.security]\nmode = \"strict\"\n";
  std::unique_ptr<Host> host = open();
  Result<std::string> path = host->module_path(safe_ + "/../" + plugins_.filename().string() + "/good.so");
  ASSERT_TRUE(path.ok()) << path.status().message();
  EXPECT_EQ(*path, safe_ + "/good.so");
  std::ofstream(folder_ / "m.heddle") << "whatever";
  path = host->module_path(folder_ / "m.heddle");
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.status().code(), HEDDLE_STATUS_PERMISSION_DENIED);
  EXPECT_THAT(std::string(path.status().message()), HasSubstr("a module holds native code"));

  options_.config_text =
      "[modules.security]\ndigests = [\"85738f8f9a7f1b04b5329c590ebcb9e425925c6d0984089c43a022de4f19c281\"]\n";  // "whatever"
  host = open();
  const std::string name = folder_ / "m.heddle", head = "what";
  const int file = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  auto check = [&](const std::string& read) { return host->check_module(name, file, std::as_bytes(std::span(read))); };
  EXPECT_TRUE(check("").ok());
  EXPECT_TRUE(check(head).ok());
  // Another file of that name is not the one that is open.
  std::ofstream(folder_ / "other") << "whatever!";
  std::filesystem::rename(folder_ / "other", name);
  EXPECT_TRUE(check(head).ok());
  // What was read counts, not what is there now.
  Status status = check("that");
  EXPECT_EQ(status.code(), HEDDLE_STATUS_PERMISSION_DENIED);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not among the 1 of modules.security.digests"));
  close(file);
}

TEST_F(Trust, AnIdWithoutADigestIsNotLoadedWhereOthersHaveOne) {
  std::string digest;
  ASSERT_EQ(read_sha256(safe_ + "/good.so", kMaxLibraryBytes, &digest), "");
  for (const std::string& table : {std::string("{}"), "{ \"fake.goood\" = \"" + digest + "\" }"}) {
    options_.config_text = "[plugins.security]\ndigests = " + table + "\n";
    std::unique_ptr<Host> host = open();
    PluginInfo found = info(*host, "good");
    EXPECT_EQ(found.state, PluginState::kUntrusted) << table;
    EXPECT_THAT(found.reason, AllOf(HasSubstr("fake.good is not among plugins.security.digests"), HasSubstr("add the SHA-256 digest of")));
    EXPECT_FALSE(host->driver("fake.good").ok());
  }
}

// In a copy of this program that runs with another user's rights, as the next test starts it.
TEST(SecureProcess, Child) {
  const char* plugins = getenv("HEDDLE_TEST_SECURE_CHILD");
  if (!plugins) GTEST_SKIP() << "it is a part of the next test";
  if (!is_secure_process()) _exit(77);
  setenv("HEDDLE_PLUGIN_PATH", plugins, 1);
  HostOptions options;
  Result<std::unique_ptr<Host>> host = Host::open(options);  // reads neither HEDDLE_CONFIG nor HEDDLE_SET
  ASSERT_TRUE(host.ok()) << host.status().message();
  for (const PluginInfo& plugin : (*host)->plugins(false)) EXPECT_NE(plugin.id, "fake.good");
  // Nor does it take what is the caller's own.
  Result<std::string> module = (*host)->module_path(std::string(plugins) + "/own/m.heddle");
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), HEDDLE_STATUS_PERMISSION_DENIED);
  EXPECT_THAT(std::string(module.status().message()), HasSubstr("belongs to user 12345"));
  // Root's is fine.
  EXPECT_TRUE((*host)->module_path(std::string(plugins) + "/good.so").ok());
  // A configuration of the caller's decides nothing, and one that the caller could not read is not shown.
  for (const char* name : {"/own/heddle.toml", "/secret.toml"}) {
    options.config_path = plugins + std::string(name);
    host = Host::open(options);
    ASSERT_FALSE(host.ok()) << name;
    EXPECT_THAT(std::string(host.status().message()), AllOf(HasSubstr("with raised privileges failed"), Not(HasSubstr("hidden"))));
  }
}

TEST_F(Trust, AProcessWithRaisedRightsIsStrict) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "SKIP: a sanitizer reads its options where a process with raised rights may not";
#endif
  if (geteuid() != 0) GTEST_SKIP() << "SKIP: needs root, to give a program another user's rights";
  if (!nobody_enters(safe_)) GTEST_SKIP() << "SKIP: another user cannot enter " << safe_;
  const std::string program = safe_ + "/raised", own = safe_ + "/own", secret = safe_ + "/secret.toml";
  std::filesystem::copy("/proc/self/exe", program);
  std::filesystem::create_directory(own);
  std::ofstream(own + "/m.heddle") << "whatever";
  std::ofstream(own + "/heddle.toml") << "hidden = = 1\n";
  for (const char* name : {"", "/m.heddle", "/heddle.toml"}) ASSERT_EQ(chown((own + name).c_str(), kCaller, kCaller), 0);
  std::ofstream(secret) << "hidden = = 1\n";
  ASSERT_EQ(chmod(secret.c_str(), 0640), 0);
  setenv("HEDDLE_TEST_SECURE_CHILD", safe_.c_str(), 1);
  setenv("HEDDLE_CONFIG", (safe_ + "/good.so").c_str(), 1);
  setenv("HEDDLE_SET", "this is no TOML either", 1);
  const std::string start = "env -u GTEST_OUTPUT setpriv --reuid 12345 --regid 12345 --clear-groups '" + program +
                            "' --gtest_filter=SecureProcess.Child > /dev/null";
  std::string skipped;
  auto run = [&](const std::string& kind) {
    const int status = system(start.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
      skipped += " " + kind;
    } else {
      EXPECT_EQ(status, 0) << kind;
    }
  };
  auto become = [&](uid_t user, gid_t group, mode_t mode) {
    // A change of owner takes the mode's bits away, so it comes first.
    return chown(program.c_str(), user, group) == 0 && chown(secret.c_str(), user, group) == 0 && chmod(program.c_str(), mode) == 0;
  };
  ASSERT_TRUE(become(kNobody, kNobody, 04755));
  run("set-user-ID");
  ASSERT_TRUE(become(0, kNobody, 02755));
  run("set-group-ID");
  ASSERT_TRUE(become(0, 0, 0755));
  if (system(("PATH=$PATH:/usr/sbin setcap cap_dac_override+ep '" + program + "' 2> /dev/null").c_str()) == 0) {
    run("capabilities");
  } else {
    skipped += " capabilities";
  }
  unsetenv("HEDDLE_TEST_SECURE_CHILD");
  unsetenv("HEDDLE_CONFIG");
  unsetenv("HEDDLE_SET");
  if (!skipped.empty()) GTEST_SKIP() << "SKIP: this file system, or a missing setcap, gives programs no rights by" << skipped;
}

}  // namespace
}  // namespace heddle::host
