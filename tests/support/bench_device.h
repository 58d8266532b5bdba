// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device that a benchmark runs on, by its alias, and how the plugins beside the program are found, in a build and in a pack alike.
#ifndef HEDDLE_TESTS_BENCH_DEVICE_H_
#define HEDDLE_TESTS_BENCH_DEVICE_H_

#include <filesystem>
#include <string>
#include <vector>

namespace heddle::testing {

struct BenchDevice {
  std::string alias = "heddle.cpu:0";

  std::string plugin() const { return alias.substr(0, alias.find(':')); }
  std::string family() const { return plugin() == "heddle.cuda" ? "cuda" : "cpu"; }
  std::string config() const { return "version = 1\n[plugins.probe]\n\"" + plugin() + "\" = \"in-process\"\n"; }
  static std::vector<std::string> plugin_paths() {
    std::vector<std::string> found;
    const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    for (const std::filesystem::path& folder : {here.parent_path() / "lib/heddle/plugins.d", here / "plugins.d"}) {
      if (std::filesystem::exists(folder)) found.push_back(folder.string());
    }
    return found;
  }
};

}  // namespace heddle::testing
#endif  // HEDDLE_TESTS_BENCH_DEVICE_H_
