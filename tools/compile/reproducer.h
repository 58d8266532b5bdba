// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One file with all that it takes to repeat a compile that failed: `heddle compile --reproducer FILE` writes it, `--rerun FILE` reads it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace heddle::tool {

// The file is text: "// heddle reproducer {...}", a line of JSON, then the imported IR, so that heddle-opt reads the file, too. If the import itself
// failed, the model in base64 instead, a comment per line.
struct Reproducer {
  std::vector<std::string> flags_of_model;  // what the import needs
  std::vector<std::string> flags;           // the rest of the command line
  std::string model;                        // path
  std::string failure;                      // the error text, or the signal
  std::string step;                         // the stage, and the pass
  std::string ir;                           // imported; empty: the import failed

  // Writes the file, which appears when it is complete. Returns an error text; empty: written.
  std::string write(const std::string& path) const;
};

// What a reproducer file says, ready for another compile.
struct Rerun {
  std::vector<std::string> flags;
  std::string content;    // of the model file
  bool is_model = false;  // an ONNX file, otherwise IR
  std::string name;       // of the model file, without its directory
  std::string failure, step, version;
};

// An error text in `wrong` if it is no such file.
std::optional<Rerun> read_reproducer(const std::string& path, std::string& wrong);

// Runs `work` in a child process, to which signals are passed on, and returns its exit code, or 128 and the number of the signal that ended it.
// `work` gets a function that keeps a text for the caller, whatever happens to the child later: the last one ends up in `kept`.
struct ChildEnd {
  int code = 0;
  int signal = 0;            // that ended the child; 0: it ended by itself
  bool interrupted = false;  // the caller got a signal, which was passed on
  std::string wrong;         // there was no child: why
};
ChildEnd run_in_child(const std::function<int(const std::function<void(const std::string&)>& keep)>& work, std::string& kept);

}  // namespace heddle::tool
