// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file in memory, and the bytes of its tensors wherever they are. Knows protobuf and files, no IR.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "heddle/status.h"
#include "onnx-ml.pb.h"

namespace heddle::import {

// Thrown inside this room, caught in onnx_importer.cpp.
struct Failure {
  heddle_status_code_t code;
  std::string message;
  // Of what a node or an input asks for and Heddle does not have, so that all of it can be told at once:
  std::string cause{};         // the message's last part, without who and what
  std::string element_type{};  // where it is a type, its name
  std::string nearest{};       // that is supported
  bool is_list = false;        // the message is of many, none of which is long
};

// The files of external data, each as it was when it was first read.
class ExternalFiles {
 public:
  // Whether the open file is still the one that the location had then. [thread-safe]
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

// Fills `target` with bytes [offset, offset + size) of the tensor's row-major little-endian data; an error text, empty when all is
// well. `tensor` is part of `file`.
std::string read_tensor(const OnnxFile& file, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target);

bool is_utf8(const std::string& text);

inline constexpr size_t largest_message_bytes = 2000, largest_list_bytes = 32 * 1024;
// An error text as a terminal may show it: bytes of the file that are no text become '?', and a longer one loses its middle.
std::string printable(std::string text, size_t most_bytes = largest_message_bytes);

// Bytes one element takes in memory (a bool takes one); 0 for a type that Heddle has none for.
uint64_t element_bytes(int32_t onnx_type);

// ONNX's name of the type, or its number if it has none.
std::string element_type_name(int32_t onnx_type);

// The name of the smallest type that Heddle has and that holds the numbers of one that it has not; empty where there is none.
std::string nearest_element_type(int32_t onnx_type);

}  // namespace heddle::import
