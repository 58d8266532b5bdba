// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns --input flags into the tensors of a call. Used by run, bench and profile.
#pragma once

#include <functional>
#include <vector>

#include "tools/heddle/session.h"

namespace heddle::tool {

// Generates the value of an argument that no --input names.
using MakeInput = std::function<Wrong(size_t index, HostTensor& out)>;

// Parses each --input. Returns an empty text, or an error in the command line.
Wrong parse_inputs(const std::vector<std::string>& texts, std::vector<TensorArgument>& out);

// The same; an error text also has a form that the argument accepts, if the module can be opened.
Wrong parse_inputs(const std::vector<std::string>& texts, const RuntimeFlags& runtime_flags, const ModuleFlags& module_flags,
                   std::vector<TensorArgument>& out);

// One value per argument of the function named function_name in the module. Named inputs go to their arguments, the others in order to the
// remaining ones. Without `make_missing` a missing input is an error that names it. Empty: continue. Else the exit code, after reporting an error
// in the command line or in a file.
std::optional<int> gather_inputs(const Flags& flags, const std::vector<TensorArgument>& given, const Function& function,
                                 heddle_module_t* module, const std::string& function_name, const MakeInput& make_missing,
                                 std::vector<HostTensor>& out);

heddle_status_t* upload_inputs(const Function& function, const std::vector<HostTensor>& values, std::vector<Tensor>& out);

}  // namespace heddle::tool
