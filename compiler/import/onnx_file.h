// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file in memory, and access to the bytes of its tensors wherever they are stored. Knows protobuf and files, but no IR.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "heddle/status.h"
#include "onnx-ml.pb.h"

namespace heddle::import {

// Thrown inside this directory, caught in onnx_importer.cpp.
struct Failure {
  heddle_status_code_t code;
  std::string message;
  // For something that a node or an input needs and Heddle does not support, so that one error can list all of it:
  std::string cause{};         // the last part of the message, without the name of the node
  std::string element_type{};  // the name of the element type, if it is about one
  std::string nearest{};       // the nearest supported name
  bool is_list = false;        // the message is a list of short entries
};

// The files of external data, each as it was when it was first read.
class ExternalFiles {
 public:
  // Whether the open file is still the one that was at this location when it was first read. [thread-safe]
  bool is_unchanged(const std::string& location, int descriptor);

 private:
  std::mutex lock_;
  std::map<std::string, std::array<int64_t, 7>> facts_;
};

// The versions of operator sets that a model or a function imports, by domain_key().
using Opsets = std::map<std::string, int64_t>;
// The domain as a key: empty for ONNX's default domain, which has two names.
std::string domain_key(const std::string& domain);

// Of the default domain.
inline constexpr int64_t oldest_opset = 1, newest_opset = 27;
// Throws Failure, for `what`, if the default domain is imported in a version that is not supported.
void check_opsets(const Opsets& opsets, const std::string& what);

struct OnnxFile {
  std::string path;
  onnx::ModelProto model;
  mutable ExternalFiles external = {};
  Opsets opsets = {};                                                    // that the model imports
  std::map<const onnx::NodeProto*, const Opsets*> opsets_of_nodes = {};  // of nodes from the bodies of functions
  std::deque<Opsets> opsets_of_functions = {};

  const Opsets* note_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);
  const Opsets& opsets_of(const onnx::NodeProto& node) const;
  // The version of the default domain that a node means; 0 if none is imported.
  int64_t opset_of(const onnx::NodeProto& node) const;
  // The version of the node's own domain; for a foreign domain that is not imported it is 1, for the default domain 0.
  int64_t version_for(const onnx::NodeProto& node) const;
};

// Reads and parses; throws Failure.
std::shared_ptr<OnnxFile> read_onnx_file(const std::string& path);

// Fills `target` with bytes [offset, offset + size) of the tensor's row-major little-endian data. Returns an error text, which is empty on
// success. `tensor` is part of `file`.
std::string read_tensor(const OnnxFile& file, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target);

// Why the data that the model itself has for a tensor is not of a tensor of so many bytes: there is more of it. Empty if it is not; data that is too
// short is found when it is read.
std::string refuse_excess(const onnx::TensorProto& tensor, uint64_t bytes);

bool is_utf8(const std::string& text);

inline constexpr size_t largest_message_bytes = 2000, largest_list_bytes = 32 * 1024;
// An error text that is safe to show on a terminal: bytes of the file that are not text become '?', and a long text loses its middle.
std::string printable(std::string text, size_t most_bytes = largest_message_bytes);

// The name that a narrow type (compiler/ir/narrow.h) has in Heddle; empty for any other type.
std::string_view narrow_name(int32_t onnx_type);
// The size of one element in memory (1 for a bool); 0 for a type that Heddle does not support, and for narrow types.
uint64_t element_bytes(int32_t onnx_type);
inline bool is_element_type(int32_t onnx_type) {
  return element_bytes(onnx_type) != 0 || !narrow_name(onnx_type).empty();
}

// ONNX's name of the type, or its number if it has none.
std::string element_type_name(int32_t onnx_type);

// The name of the smallest supported type that can represent the numbers of an unsupported one; empty if there is none.
std::string nearest_element_type(int32_t onnx_type);

}  // namespace heddle::import
