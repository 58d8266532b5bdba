// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random graphs for target plugins, as the compiler gives them, and the kernel that a claim becomes. Knows no plugin.
#ifndef HEDDLE_CONFORMANCE_GRAPHS_H_
#define HEDDLE_CONFORMANCE_GRAPHS_H_

#include <random>
#include <string>
#include <vector>

#include "heddle/sdk/portable/code.h"
#include "heddle/sdk/target/messages.h"

namespace heddle::conformance {

namespace portable = heddle::sdk::portable;
namespace target = heddle::sdk::target;

inline constexpr uint32_t kSymbols = 2;  // of every graph

struct MadeGraph {
  target::Graph graph;
  std::vector<portable::Kernel> kernels;  // those in graph.code
};

// Element-wise ops of f32 and i32, products, sums of rows, transpositions, by seed; extents are constants and symbols.
MadeGraph make_graph(std::mt19937_64& random, uint32_t node_count);

// Graphs of one group, each a product of matrices, or a convolution with padding and strides, to which a vector is added, and of which what is negative
// becomes 0.
std::vector<MadeGraph> make_fused_products(std::mt19937_64& random);
std::vector<MadeGraph> make_fused_convolutions(std::mt19937_64& random);

// Why a claim may not be: a node that does not exist or is there twice, or something between two of its nodes; empty: it may.
std::string why_not_claimed(const target::Graph& graph, const std::vector<uint32_t>& nodes);

// The kernel of nodes that may be claimed, named as the compiler names it: element-wise nodes are joined with the element-wise nodes that read them.
struct ClaimedKernel {
  portable::Kernel kernel;
  target::Kernel asked;
  std::vector<uint32_t> inputs, outputs;  // values of the graph, as bindings
};
// False: nothing reads a result of it.
bool join(const MadeGraph& made, const target::Claim& claim, uint32_t number, ClaimedKernel* out);

// The values of all tensors of the graph, with random inputs: each node interpreted alone. Elements are kept as bytes.
std::vector<std::vector<char>> evaluate(const MadeGraph& made, const std::vector<int64_t>& symbols, std::mt19937_64& random);

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_GRAPHS_H_
