// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Traces of allocations: what a workload allocates and frees, in order. Three seeded generators, whose sizes are computed from the layer shapes of real
// networks, and a reader of what heddle.log and tests/bench/record_torch.py write. Used by tests and benchmarks of allocators.
#ifndef HEDDLE_TESTS_MEMORY_TRACE_H_
#define HEDDLE_TESTS_MEMORY_TRACE_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace heddle::test {

struct MemoryTrace {
  struct Event {
    uint64_t block;       // its number, counted from 0
    uint64_t size_bytes;  // of an allocation
    uint32_t owner;       // index in owners
    bool is_free;
  };
  std::string name;
  std::vector<std::string> owners;
  std::vector<Event> events;  // every block is freed at the end

  uint64_t blocks() const;
  uint64_t peak_live_bytes() const;
};

// Training steps of a ResNet-50, SGD with momentum, f32: activations kept for the backward pass, gradients, workspaces, now and then a partial
// batch, an evaluation step or, with every other seed, another image size. The seed chooses batch and sizes.
MemoryTrace resnet50_training(uint64_t seed);
// A decoder transformer that serves requests, f16, continuous batching: prompts are prefilled, caches of keys and values grow by 256 positions,
// all sequences decode together. The seed chooses among three published shapes, and lengths and arrivals.
MemoryTrace transformer_serving(uint64_t seed);
// Sizes and lifetimes from power laws.
MemoryTrace power_law(uint64_t seed);

// What heddle.log wrote to its file.
MemoryTrace read_trace(const std::string& name, std::istream& file);

}  // namespace heddle::test
#endif  // HEDDLE_TESTS_MEMORY_TRACE_H_
