// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file in memory, and access to the bytes of its tensors wherever they are stored. Knows protobuf and files, but no IR.
#pragma once

#include <array>
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

struct OnnxFile {
  std::string path;
  onnx::ModelProto model;
  mutable ExternalFiles external = {};
};

// Reads and parses; throws Failure.
std::shared_ptr<OnnxFile> read_onnx_file(const std::string& path);

// Fills `target` with bytes [offset, offset + size) of the tensor's row-major little-endian data. Returns an error text, which is empty on
// success. `tensor` is part of `file`.
std::string read_tensor(const OnnxFile& file, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target);

bool is_utf8(const std::string& text);

inline constexpr size_t largest_message_bytes = 2000, largest_list_bytes = 32 * 1024;
// An error text that is safe to show on a terminal: bytes of the file that are not text become '?', and a long text loses its middle.
std::string printable(std::string text, size_t most_bytes = largest_message_bytes);

// The size of one element in memory (1 for a bool); 0 for a type that Heddle does not support.
uint64_t element_bytes(int32_t onnx_type);

// ONNX's name of the type, or its number if it has none.
std::string element_type_name(int32_t onnx_type);

// The name of the smallest supported type that can represent the numbers of an unsupported one; empty if there is none.
std::string nearest_element_type(int32_t onnx_type);

}  // namespace heddle::import
