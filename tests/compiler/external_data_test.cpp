// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// External data of an ONNX file that is written to while the model is compiled: what was read of it before no longer fits.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "compiler/import/onnx_file.h"
#include "tests/temporary_folder.h"

namespace heddle::import {
namespace {

TEST(ExternalData, IsRefusedWhenItChangesBetweenTwoReads) {
  heddle::testing::TemporaryFolder folder;
  auto write = [&](const std::string& text) { std::ofstream(folder.path("data.bin"), std::ios::binary | std::ios::trunc) << text; };
  write("abcdefgh");
  OnnxFile file{.path = folder.path("model.onnx"), .model = {}};
  onnx::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::UINT8);
  tensor.add_dims(8);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value("data.bin");
  char target[8];
  EXPECT_EQ(read_tensor(file, tensor, 0, 4, target), "");
  EXPECT_EQ(read_tensor(file, tensor, 4, 4, target + 4), "");
  EXPECT_EQ(std::string(target, 8), "abcdefgh");
  write("abcdefghi");
  const std::string error = read_tensor(file, tensor, 0, 4, target);
  EXPECT_NE(error.find("'data.bin' of tensor 'w' was written to while the model was compiled"), std::string::npos) << error;
}

TEST(ExternalData, IsRefusedWhenItsLengthIsNotInTheFile) {
  heddle::testing::TemporaryFolder folder;
  std::ofstream(folder.path("data.bin"), std::ios::binary) << "abcdefgh";
  OnnxFile file{.path = folder.path("model.onnx"), .model = {}};
  auto read = [&](const char* offset, const char* length) {
    onnx::TensorProto tensor;
    tensor.set_name("w");
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair("location", "data.bin"), std::pair("offset", offset), std::pair("length", length)}) {
      tensor.add_external_data()->set_key(key);
      tensor.mutable_external_data()->rbegin()->set_value(value);
    }
    char target[4];
    return read_tensor(file, tensor, 0, 4, target);
  };
  EXPECT_EQ(read("4", "4"), "");
  for (const auto& [offset, length] : {std::pair("4", "5"), std::pair("0", "9223372036854775808"), std::pair("9", "4")}) {
    const std::string error = read(offset, length);
    EXPECT_NE(error.find("is said to have " + std::string(length) + " bytes from byte " + offset + " on, and its file has 8"),
              std::string::npos)
        << error;
  }
}

}  // namespace
}  // namespace heddle::import
