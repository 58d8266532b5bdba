// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The target plugin: OpenCL C for a model while it is compiled, so that the driver only has to build it. It claims each group of nodes for which
// writer.h has OpenCL C; the compiler writes portable code for the rest, which the driver runs as well.
#include "heddle/sdk/target/plugin.h"

#include <algorithm>

#include "image.h"
#include "writer.h"

namespace opencl {

namespace target = heddle::sdk::target;

class Target {
 public:
  explicit Target(const target::Hello& hello) {
    if (!hello.level.empty() && hello.level != kTarget)
      throw target::Refused("there is no level '" + hello.level + "', only '" + std::string(kTarget) + "'", HEDDLE_STATUS_INVALID_ARGUMENT);
  }

  // A group is what the compiler makes one kernel of. All of it, or nothing: a kernel with a node that is interpreted would be copied to the host.
  target::Answer claim(const target::Graph& graph, const std::vector<portable::Kernel>& kernels) {
    target::Answer answer;
    std::vector<target::Claim> groups(graph.group_count);
    std::vector<std::string> reasons(graph.group_count);
    for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const target::Node& node = graph.nodes[i];
      const portable::Kernel& kernel = kernels[node.kernel];
      target::Claim& group = groups[node.group];
      group.nodes.push_back(i);
      if (const std::string why = why_not_written(kernel, true); !why.empty()) reasons[node.group] = node.name + ": " + why;
      for (uint32_t n = 0; n < kernel.nodes.size(); ++n) {
        if (is_product(kernel, n)) group.name = "opencl.product";
      }
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      target::Claim& group = groups[g];
      if (group.nodes.empty()) continue;
      if (reasons[g].empty()) {
        if (group.name.empty()) group.name = "opencl.node";
        group.reason = group.name == "opencl.product" ? "f32 in f32" : "OpenCL C that is written for the node";
        answer.claims.push_back(std::move(group));
      } else {
        for (uint32_t node : group.nodes) answer.refusals.push_back({node, reasons[g]});
      }
    }
    return answer;
  }

  target::Code emit(const target::Kernel& kernel, const portable::Kernel& code) {
    if (const std::string why = why_not_written(code, true); !why.empty()) throw target::Refused(why);
    target::Code out;
    out.format = kFormat;
    out.target = kTarget;
    const std::string bytes = portable::write_kernel(code);
    out.bytes = write_image(portable::write_image({{kernel.name, bytes}}), write_functions(code));
    out.expressions.push_back({HEDDLE_TARGET_CONSTANT, 0, 0, 0, 1});
    out.entries.push_back(entry_of(kernel.name, code));  // its workgroups: expression 0
    out.note = std::to_string(function_count(code)) + " functions";
    return out;
  }

  // What the driver would find in it.
  std::vector<target::Entry> inspect(const target::Code& code) {
    Image image;
    std::string error;
    std::vector<portable::Kernel> kernels;
    if (code.format != kFormat || code.target != kTarget)
      throw target::Refused("it is no " + std::string(kFormat), HEDDLE_STATUS_INVALID_ARGUMENT);
    if (!has_functions(code.bytes)) throw target::Refused("it has no portable code", HEDDLE_STATUS_INVALID_ARGUMENT);
    if (!read_image(code.bytes, &image, &error) || !portable::read_image(image.portable, &kernels, &error))
      throw target::Refused(error, HEDDLE_STATUS_INVALID_ARGUMENT);
    std::vector<target::Entry> entries;
    for (const portable::Kernel& kernel : kernels) entries.push_back(entry_of(kernel.name, kernel));
    return entries;
  }

 private:
  static target::Entry entry_of(const std::string& name, const portable::Kernel& kernel) {
    target::Entry entry;
    entry.name = name;
    entry.binding_count = kernel.inputs + kernel.outputs;
    entry.constants_bytes = 8 * kernel.symbols;
    return entry;
  }
};

}  // namespace opencl

HEDDLE_TARGET_PLUGIN("org.example.opencl_target", "0.1.0", opencl::Target)
