// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The settings from the command line and from files in the plugin's directory: its manifest's options, conformance/skips.toml,
// conformance/kernels.toml and conformance/operators.toml.
#ifndef HEDDLE_CONFORMANCE_SETTINGS_H_
#define HEDDLE_CONFORMANCE_SETTINGS_H_

#include <map>
#include <string>
#include <vector>

#include "core/host/manifest.h"
#include "heddle/sdk/target/checks.h"
#include "host.h"

namespace heddle::conformance {

// Kernels in one code format; kernels.cpp describes each entry.
struct KernelSet {
  std::string format, target;
  std::string code;
  uint32_t elements_per_workgroup = 1;  // for `add`
  uint32_t workgroup_size = 1;          // threads, for `add`; the others have one
  std::vector<std::string> entries;     // a subset of add, count, chain, fail, lose
  bool has(const std::string& entry) const;
  // The case needs that entry, and is absent.
  [[noreturn]] void lacks(const std::string& entry) const;
};

// An operation that a library plugin accepts, and its inputs.
struct OperatorRequest {
  struct Operand {
    uint32_t type = 0;  // HEDDLE_TYPE_*
    std::vector<int64_t> dims;
    double low = -1, high = 1;  // range of an input's elements
  };
  struct Attribute {
    std::string name;
    uint32_t kind = 0;
    std::vector<int64_t> ints;
    std::vector<double> floats;
    std::string text;
  };
  std::string domain, name;
  uint32_t version = 1, input_count = 0;
  std::vector<Operand> operands;  // inputs, then outputs
  std::vector<Attribute> attributes;
};

// An [[operator]]'s declaration of its operands in the manifest.
struct OperatorRule {
  struct Output {
    bool says_type = false, says_dims = false;  // otherwise the model determines it
  };
  std::string domain, name;
  uint32_t version = 1, least_inputs = 0, most_inputs = 0;
  std::vector<Output> outputs;
};

// What the compiler reads of the manifest of a target plugin.
struct TargetSettings {
  std::vector<std::string> families;
  std::vector<sdk::target::Fact> facts;  // sorted by name
  sdk::target::EntryLimits limits;
  std::string wrong;  // of these; empty: nothing
};

struct Settings {
  std::string library, manifest;
  std::string id;           // from the manifest, empty without one
  host::Manifest declared;  // as the host reads it; for a manifest with errors, the readable part
  std::vector<std::string> manifest_errors;
  std::vector<OptionValue> options;
  std::map<std::string, std::string> skips;  // case -> reason
  std::vector<KernelSet> kernels;            // the plugin's own kernels
  std::vector<OperatorRequest> requests;     // from conformance/operators.toml
  std::vector<OperatorRule> rules;           // from the manifest
  std::string skips_file, kernels_file;      // sources of these settings
  std::string beside;                        // another plugin's library
  std::string driver;                        // library of the driver that runs a target's code
  std::vector<OptionValue> driver_options;   // of its manifest
  TargetSettings target;
  std::string filter;
  std::string run_case;
  int findings = -1;
  uint64_t seed = 1;
  double time_limit_s = 60;
  uint64_t patience_s = kHasShadowMemory ? 50 : 20;  // reading 96 MB takes seconds there
  unsigned jobs = 1;
  bool is_no_driver = false, is_no_allocator = false, is_no_library = false, is_no_target = false;  // according to the manifest
  bool json = false, large = false, list = false, verbose = false, no_kernels = false, foreign_formats = false, help = false;
};

// The settings of this process, after read_settings has succeeded.
const Settings& settings();
// Reads argv and the files. On failure *out_error is an error text.
bool read_settings(int argc, char** argv, std::string* out_error);
extern const char kUsage[];
// Why a line of a skips.toml is not a sufficient reason; empty if it is.
std::string why_no_reason(const std::string& reason);

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_SETTINGS_H_
