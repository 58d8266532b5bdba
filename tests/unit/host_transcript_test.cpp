// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What users see when a configuration or a manifest is wrong: each transcripts/*/NAME.toml against NAME.txt, to the letter. Every code has one,
// and every one says what was found, what was expected and what to do.
// HEDDLE_UPDATE_TRANSCRIPTS=1 writes the texts anew; read the difference before it is committed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/host/config_check.h"
#include "core/host/config_read.h"
#include "core/host/discovery.h"
#include "core/host/host.h"
#include "core/host/manifest.h"

namespace heddle::host {
namespace {

const std::filesystem::path& folder() {
  static const std::filesystem::path path = std::filesystem::canonical(HEDDLE_TRANSCRIPTS);
  return path;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Places without the folder of the checkout.
std::string without_folder(std::string text, const std::string& prefix) {
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) text.erase(at, prefix.size());
  return text;
}

std::string read_transcript(const std::filesystem::path& path, bool use_environment) {
  ConfigRead config;
  ConfigSources sources;
  sources.use_environment = use_environment;
  sources.path = path.string();
  read_config(sources, &config);
  std::vector<FoundPlugin> plugins = discover({(folder() / "plugins.d").string()}, {});
  check_options(&config, plugins);
  return config.diagnostics.render();
}

std::string config_transcript(const std::filesystem::path& path) {
  return read_transcript(path, false);
}

// A first line `#! NAME=VALUE` is a variable of the environment.
std::string environment_transcript(const std::filesystem::path& path) {
  const std::string text = read(path), line = text.substr(0, text.find('\n'));
  const size_t equals = line.find('=');
  if (line.rfind("#! ", 0) != 0 || equals == std::string::npos) return "the first line names no variable\n";
  const std::string name = line.substr(3, equals - 3);
  setenv(name.c_str(), line.substr(equals + 1).c_str(), 1);
  std::string transcript = read_transcript(path, true);
  unsetenv(name.c_str());
  return transcript;
}

// The devices that a host finds, on this machine and test.streams, then what it says of those that it does not find, then its log.
std::string device_transcript(const std::filesystem::path& path) {
  static std::string log;
  log.clear();
  HostOptions options;
  options.config_path = path.string();
  options.plugin_paths = {HEDDLE_TEST_PLUGINS};
  options.log.write = [](void*, uint32_t level, heddle_string_t component, heddle_string_t message) {
    log += fmt::format("{} {}: {}\n", log_level_name(level), view(component), view(message));
  };
  Result<std::unique_ptr<Host>> host = Host::open(options);
  if (!host.ok()) return std::string(host.status().message()) + "\n";
  std::string text;
  (*host)->devices();  // what there is to warn of is said once
  for (const DeviceInfo& device : (*host)->devices())
    text += fmt::format("{} is {} ordinal {}\n", device.alias, device.driver->id, device.ordinal);
  for (const std::string& line : (*host)->skipped()) text += line + "\n";
  return text + log;
}

std::string manifest_transcript(const std::filesystem::path& path) {
  Diagnostics diagnostics;
  Manifest manifest;
  parse_manifest(path.string(), read(path), diagnostics, &manifest);
  return diagnostics.render();
}

class Transcript : public ::testing::Test {
 public:
  Transcript(std::filesystem::path path, std::function<std::string(const std::filesystem::path&)> transcribe)
      : path_(std::move(path)), transcribe_(std::move(transcribe)) {}
  void TestBody() override {
    std::string got = without_folder(transcribe_(path_), path_.parent_path().string() + "/");
    got = without_folder(got, folder().string() + "/");
    std::filesystem::path expected = path_;
    expected.replace_extension(".txt");
    if (std::getenv("HEDDLE_UPDATE_TRANSCRIPTS")) std::ofstream(expected, std::ios::binary) << got;
    ASSERT_TRUE(std::filesystem::exists(expected));
    EXPECT_EQ(got, read(expected));
  }

 private:
  std::filesystem::path path_;
  std::function<std::string(const std::filesystem::path&)> transcribe_;
};

void register_folder(const char* suite, const std::filesystem::path& from, std::string (*transcribe)(const std::filesystem::path&)) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::string name = path.stem().string();
    std::replace(name.begin(), name.end(), '-', '_');
    ::testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [=]() -> ::testing::Test* { return new Transcript(path, transcribe); });
  }
}

std::string all_transcripts() {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder())) {
    if (entry.path().extension() == ".txt") all += read(entry.path());
  }
  return all;
}

TEST(Codes, EachHasATranscriptAndARowInTheManual) {
  const std::string all = all_transcripts(), manual = read(HEDDLE_TRANSCRIPTS "/../../../docs/configuration.md");
  for (const CodeRow& row : kCodes) {
    EXPECT_NE(all.find(fmt::format("[{}]: ", row.code)), std::string::npos) << row.code << " has no transcript";
    EXPECT_NE(manual.find(fmt::format("| {} | {} |", row.code, row.about)), std::string::npos) << row.code << ", " << row.about;
  }
}

// Place and code, what was found and what was expected, the line itself or what stands for it, what to do next.
TEST(Codes, EachTranscriptIsWhole) {
  static const std::regex head(R"(^[^ ]+: (error|warning)\[(E\d\d\d)\]: (.*)$)");
  static const std::set<std::string> with_expectation = {"E103", "E105", "E107", "E203", "E205", "E206", "E207", "E208"};
  std::vector<std::string> lines;
  std::istringstream stream(all_transcripts());
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  size_t count = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch parts;
    if (!std::regex_match(lines[i], parts, head)) continue;
    ++count;
    const std::string code = parts[2], text = parts[3];
    EXPECT_TRUE(with_expectation.count(code) == 0 || text.find("expected") != std::string::npos) << lines[i];
    if (code == "E207" || code == "E208") {  // one line of a report or of the log
      for (const CodeRow& row : kCodes) {
        if (row.code != code) continue;
        EXPECT_NE(text.find(std::string(row.next_step)), std::string::npos) << lines[i];
      }
      continue;
    }
    ASSERT_LT(i + 1, lines.size());
    static const std::regex next_step(R"(^( +\| +\^~* |  = )[^ ].*$)");
    const bool has_excerpt = lines[i + 1].rfind("  = ", 0) != 0;
    EXPECT_TRUE(std::regex_match(lines[has_excerpt ? i + 2 : i + 1], next_step)) << lines[i] << ": nothing says what to do";
  }
  EXPECT_GE(count, 120u);
}

}  // namespace
}  // namespace heddle::host

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  heddle::host::register_folder("ConfigTranscript", heddle::host::folder() / "config", heddle::host::config_transcript);
  for (const char* variable : {"HEDDLE_CONFIG", "HEDDLE_SET", "HEDDLE_LOG"}) unsetenv(variable);
  heddle::host::register_folder("EnvironmentTranscript", heddle::host::folder() / "environment", heddle::host::environment_transcript);
  heddle::host::register_folder("DeviceTranscript", heddle::host::folder() / "devices", heddle::host::device_transcript);
  heddle::host::register_folder("ManifestTranscript", heddle::host::folder() / "manifest", heddle::host::manifest_transcript);
  return RUN_ALL_TESTS();
}
