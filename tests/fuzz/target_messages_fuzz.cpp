// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a target plugin's process may send, and what the compiler may send to it: any bytes are refused, or are the same after they were read and written, as
// bytes and as structs.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "heddle/sdk/target/tables.h"

namespace target = heddle::sdk::target;

namespace {

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "target_messages_fuzz: %s\n", what);
  std::abort();
}

template <class Message, class Encode>
bool check(std::string_view bytes, Message* read, Encode&& encode) {
  if (!target::decode(bytes, read)) return false;
  if (encode(*read).substr(target::kHeaderBytes) != bytes) stop("a message is written as other bytes than it was read from");
  return true;
}

template <class Tables, class Message>
void check_tables(const Message& message) {
  Message read;
  std::string error;
  if (!target::read(Tables(message).c, &read, &error)) stop(error.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto simple = [](const auto& message) { return target::encode(message); };
  target::Hello hello;
  target::Graph graph;
  target::Answer answer;
  target::Code code;
  target::Kernel kernel;
  target::Failed failed;
  switch (data[0] % 6) {
    case 0:
      if (check(bytes, &hello, simple)) check_tables<target::ParamsTables>(hello);
      break;
    case 1:
      if (check(bytes, &graph, simple)) check_tables<target::GraphTables>(graph);
      break;
    case 2:
      if (check(bytes, &answer, simple)) check_tables<target::AnswerTables>(answer);
      break;
    case 3:
      if (check(bytes, &code, [](const target::Code& one) { return target::encode(one, target::Kind::kCode); }))
        check_tables<target::CodeTables>(code);
      break;
    case 4:
      check(bytes, &kernel, simple);
      break;
    default:
      check(bytes, &failed, simple);
  }
  return 0;
}
