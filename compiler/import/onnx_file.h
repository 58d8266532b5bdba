// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ONNX file in memory, and the bytes of its tensors wherever they are. Knows protobuf and files, no IR.
#pragma once

#include <memory>
#include <string>

#include "heddle/status.h"
#include "onnx-ml.pb.h"

namespace heddle::import {

// Thrown inside this room, caught in onnx_importer.cpp.
struct Failure {
  heddle_status_code_t code;
  std::string message;
};

struct OnnxFile {
  std::string path;
  onnx::ModelProto model;
};

// Reads and parses; throws Failure.
std::shared_ptr<OnnxFile> read_onnx_file(const std::string& path);

// Fills `target` with bytes [offset, offset + size) of the tensor's row-major little-endian data; an error text, empty when all is
// well. `tensor` is part of `file`.
std::string read_tensor(const OnnxFile& file, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target);

bool is_utf8(const std::string& text);

// An error text as a terminal may show it: bytes of the file that are no text become '?', and long ones lose their middle.
std::string printable(std::string text);

// Bytes one element takes in memory (a bool takes one); 0 for a type that Heddle has none for.
uint64_t element_bytes(int32_t onnx_type);

// ONNX's name of the type, or its number if it has none.
std::string element_type_name(int32_t onnx_type);

}  // namespace heddle::import
