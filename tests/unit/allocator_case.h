// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tests of allocators share: a stack of them over memory that a test controls.
#ifndef HEDDLE_TESTS_ALLOCATOR_CASE_H_
#define HEDDLE_TESTS_ALLOCATOR_CASE_H_

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "fake_memory.h"

namespace heddle::test {

using Options = std::vector<heddle_option_t>;

inline heddle_option_t bytes(const char* name, int64_t value) {
  return {sizeof(heddle_option_t), HEDDLE_OPTION_INT, string_of(name), value, 0, {}};
}
inline heddle_option_t text(const char* name, const char* value) {
  return {sizeof(heddle_option_t), HEDDLE_OPTION_STRING, string_of(name), 0, 0, string_of(value)};
}
inline heddle_timeline_t* timeline(uintptr_t number) {
  return reinterpret_cast<heddle_timeline_t*>(number * 64);
}
inline constexpr heddle_string_t kWeights = {"weights", 7};
inline constexpr heddle_string_t kTensors = {"tensors", 7};

class AllocatorCase : public ::testing::Test {
 protected:
  // "limit track pool": the first over the second, the last over the memory. options: by name.
  void open(const std::string& names, const std::map<std::string, Options>& options = {}) {
    std::istringstream words(names);
    std::vector<std::string> stack;
    for (std::string word; words >> word;) stack.push_back(word);
    for (size_t i = stack.size(); i-- > 0;) {
      const auto found = options.find(stack[i]);
      allocators.push_back(std::make_unique<StackedAllocator>(host, std::string(HEDDLE_TEST_PLUGINS) + "/libheddle_" + stack[i] + ".so",
                                                              allocators.empty() ? memory.table() : top().table(),
                                                              found == options.end() ? Options() : found->second));
    }
  }
  void TearDown() override {
    while (!allocators.empty()) allocators.pop_back();
    EXPECT_EQ(memory.live(), 0u) << "buffers were not given back";
    EXPECT_EQ(PluginHost::live_statuses().load(), 0);
  }
  StackedAllocator& top() { return *allocators.back(); }
  heddle_status_t* try_allocate(uint64_t size, heddle_block_t* out, heddle_point_t after = {}, uint64_t alignment = 0,
                                const heddle_string_t* owner = nullptr, uint64_t soon = 0) {
    heddle_block_params_t params = {sizeof params, 8, size, alignment, after, owner, soon};
    return top().api()->allocate(top().get(), &params, out, waits, &wait_count);
  }
  heddle_block_t allocate(uint64_t size, heddle_point_t after = {}, uint64_t alignment = 0, const heddle_string_t* owner = nullptr) {
    heddle_block_t block = {};
    EXPECT_OK(try_allocate(size, &block, after, alignment, owner));
    return block;
  }
  void free(const heddle_block_t& block, const std::vector<heddle_point_t>& points = {}) {
    top().api()->free(top().get(), &block, points.data(), static_cast<uint32_t>(points.size()));
  }
  heddle_status_t* trim(uint64_t keep_bytes) { return top().api()->trim(top().get(), keep_bytes); }
  static heddle_allocator_statistics_t statistics(StackedAllocator& of) {
    heddle_allocator_statistics_t values = {};
    values.struct_size = sizeof values;
    EXPECT_OK(of.api()->statistics(of.get(), &values));
    return values;
  }
  heddle_allocator_statistics_t statistics() { return statistics(top()); }
  std::map<std::string, heddle_holder_t> holders() {
    std::map<std::string, heddle_holder_t> all;
    EXPECT_OK(top().api()->holders(
        top().get(),
        [](void* context, const heddle_holder_t* holder) {
          (*static_cast<std::map<std::string, heddle_holder_t>*>(context))[text_of(holder->owner)] = *holder;
        },
        &all));
    return all;
  }

  PluginHost host;
  FakeMemory memory{host};
  std::vector<std::unique_ptr<StackedAllocator>> allocators;  // the lowest first
  heddle_point_t waits[8] = {};
  uint32_t wait_count = 0;
};

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_ALLOCATOR_CASE_H_
