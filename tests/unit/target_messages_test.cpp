// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler and a target plugin's process say to each other: as bytes and back, as structs and back, and bytes that are damaged.
#include <gtest/gtest.h>

#include "heddle/sdk/target/plugin.h"

namespace {

namespace target = heddle::sdk::target;

target::Hello a_hello() {
  target::Hello hello;
  hello.library = "/a/b.so", hello.id = "com.acme", hello.version = "1.0.0", hello.name = "acme", hello.level = "v2";
  hello.fast_math = 1;
  hello.facts = {
      {"lanes", HEDDLE_OPTION_INT, 16, 0, {}}, {"ratio", HEDDLE_OPTION_FLOAT, 0, 0.5, {}}, {"shape", HEDDLE_OPTION_STRING, 0, 0, "16x16"}};
  hello.memory_bytes = uint64_t{1} << 33, hello.cpu_seconds = 60;
  return hello;
}

target::Graph a_graph() {
  target::Graph graph;
  graph.function = "main", graph.code = std::string("bytes\0of code", 13);
  graph.symbol_count = 1, graph.group_count = 2;
  graph.expressions = {{HEDDLE_TARGET_SYMBOL, 0, 0, 0, 0}, {HEDDLE_TARGET_CONSTANT, 0, 0, 0, -1}};
  graph.values = {{HEDDLE_TYPE_F32, HEDDLE_TARGET_VALUE_KNOWN, {0, 1}}, {HEDDLE_TYPE_I8, HEDDLE_TARGET_VALUE_LEAVES, {}}};
  graph.nodes = {{0, 1, "add", "node", {0, 0}, {1}}, {1, 0, "conv", "", {}, {0}}};
  return graph;
}

target::Answer an_answer() {
  return {{{{0, 1}, "acme.gemm", "it is large", 1000}, {{}, "nothing", "", 0}}, {{1, "no such type"}}};
}

target::Code a_code() {
  target::Code code;
  code.format = "acme/1", code.target = "v2", code.bytes = std::string(1000, '\7'), code.note = "8x8";
  code.expressions = {{HEDDLE_TARGET_CONSTANT, 0, 0, 0, 4}};
  target::Entry entry;
  entry.name = "c0_add", entry.guards = {{0, 0, 1, 16}}, entry.workgroups = 0, entry.workgroup_size = 64, entry.subgroup_size = 32;
  entry.binding_count = 3, entry.constants_bytes = 8, entry.shared_memory_bytes = 1 << 20, entry.workspace_bytes = 5, entry.cost_ns = 7;
  code.entries = {entry, {}};
  return code;
}

std::string payload_of(const std::string& frame) {
  return frame.substr(target::kHeaderBytes);
}

// The same bytes after they were read; and no part of them is read as a whole.
template <class Message, class Encode>
void expect_same_bytes(const Message& message, Encode&& encode) {
  const std::string payload = payload_of(encode(message));
  Message read;
  ASSERT_TRUE(target::decode(payload, &read));
  EXPECT_EQ(payload_of(encode(read)), payload);
  for (size_t size = 0; size < payload.size(); ++size) {
    Message part;
    EXPECT_FALSE(target::decode(std::string_view(payload).substr(0, size), &part)) << size;
  }
  Message longer;
  EXPECT_FALSE(target::decode(payload + '\0', &longer));
  // A count that the bytes cannot hold costs no memory.
  for (size_t at = 0; at + 4 <= payload.size(); ++at) {
    std::string damaged = payload;
    damaged.replace(at, 4, 4, '\xff');
    Message ignored;
    target::decode(damaged, &ignored);
  }
}

TEST(TargetMessages, AreTheSameAfterTheyWereBytes) {
  auto simple = [](const auto& message) { return target::encode(message); };
  expect_same_bytes(a_hello(), simple);
  expect_same_bytes(target::Ready{3, 1}, simple);
  expect_same_bytes(target::Failed{12, "why"}, simple);
  expect_same_bytes(a_graph(), simple);
  expect_same_bytes(an_answer(), simple);
  expect_same_bytes(target::Kernel{"c0_add", "acme.gemm", "code", 1, 2, 3}, simple);
  expect_same_bytes(a_code(), [](const target::Code& code) { return target::encode(code, target::Kind::kCode); });
}

TEST(TargetMessages, AreTheSameAfterTheyWereStructs) {
  std::string error;
  target::Graph graph;
  ASSERT_TRUE(target::read(target::GraphTables(a_graph()).c, &graph, &error)) << error;
  EXPECT_EQ(target::encode(graph), target::encode(a_graph()));
  const target::Answer said = an_answer();
  target::Answer answer;
  ASSERT_TRUE(target::read(target::AnswerTables(said).c, &answer, &error)) << error;
  EXPECT_EQ(target::encode(answer), target::encode(said));
  const target::Code emitted = a_code();
  target::Code code;
  ASSERT_TRUE(target::read(target::CodeTables(emitted).c, &code, &error)) << error;
  EXPECT_EQ(target::encode(code, target::Kind::kCode), target::encode(emitted, target::Kind::kCode));
  const target::Hello opened = a_hello();
  target::Hello hello;
  ASSERT_TRUE(target::read(target::ParamsTables(opened).c, &hello, &error)) << error;
  EXPECT_EQ(hello.facts.size(), 3u);
  EXPECT_EQ(target::integer_of(hello, "lanes", 0), 16);
  EXPECT_EQ(target::integer_of(hello, "shape", 5), 5);
  EXPECT_EQ(target::text_of(hello, "shape", ""), "16x16");
}

TEST(TargetMessages, ArraysOfOtherVersionsAreReadByTheirStride) {
  struct Longer {
    heddle_target_refusal_t known;
    uint64_t added;
  };
  Longer refusals[2] = {};
  for (uint32_t i = 0; i < 2; ++i) refusals[i] = {{sizeof(Longer), i, {"why", 3}}, 0};
  heddle_target_answer_t answer = {sizeof(heddle_target_answer_t), 0, nullptr, &refusals[0].known, 0, sizeof(Longer), 2, 0};
  target::Answer read;
  std::string error;
  ASSERT_TRUE(target::read(answer, &read, &error)) << error;
  ASSERT_EQ(read.refusals.size(), 2u);
  EXPECT_EQ(read.refusals[1].node, 1u);
  refusals[1].added = 1;
  EXPECT_FALSE(target::read(answer, &read, &error));
  EXPECT_NE(error.find("HD-E-04"), std::string::npos) << error;
  answer.refusals = nullptr;
  EXPECT_FALSE(target::read(answer, &read, &error));
  EXPECT_NE(error.find("HD-E-07"), std::string::npos) << error;
}

}  // namespace
