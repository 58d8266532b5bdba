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

}  // namespace
}  // namespace heddle::import
