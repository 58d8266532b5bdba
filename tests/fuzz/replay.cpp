// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a harness over every file of its corpus, each a test of its own: what a fuzzer once found must stay found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

class Replay : public ::testing::Test {
 public:
  explicit Replay(std::filesystem::path path) : path_(std::move(path)) {}
  void TestBody() override {
    std::ifstream file(path_, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    // A copy on the heap of exactly that size, so that a sanitizer sees a read beyond it.
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    EXPECT_EQ(LLVMFuzzerTestOneInput(exact.data(), exact.size()), 0);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(HEDDLE_CORPUS_FOLDER)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::string name = path.lexically_relative(HEDDLE_CORPUS_FOLDER).string();
    std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
    ::testing::RegisterTest("Replay", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [path]() -> ::testing::Test* { return new Replay(path); });
  }
  if (files.empty()) {
    std::fprintf(stderr, "replay: %s holds no file\n", HEDDLE_CORPUS_FOLDER);
    return 1;
  }
  return RUN_ALL_TESTS();
}
