// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What users see when a configuration or a manifest is wrong: each transcripts/*/NAME.toml against NAME.txt, to the letter.
// HEDDLE_UPDATE_TRANSCRIPTS=1 writes the texts anew; read the difference before it is committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/host/config_check.h"
#include "core/host/config_read.h"
#include "core/host/discovery.h"
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

std::string config_transcript(const std::filesystem::path& path) {
  ConfigRead config;
  ConfigSources sources;
  sources.use_environment = false;
  sources.path = path.string();
  read_config(sources, &config);
  std::vector<FoundPlugin> plugins = discover({(folder() / "plugins.d").string()}, {});
  check_options(&config, plugins);
  return config.diagnostics.render();
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

}  // namespace
}  // namespace heddle::host

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  heddle::host::register_folder("ConfigTranscript", heddle::host::folder() / "config", heddle::host::config_transcript);
  heddle::host::register_folder("ManifestTranscript", heddle::host::folder() / "manifest", heddle::host::manifest_transcript);
  return RUN_ALL_TESTS();
}
