// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: what a target plugin does with damaged, large and newer input, and what it leaves behind.
#include <algorithm>
#include <cstring>
#include <thread>

#include "target_session.h"

namespace heddle::conformance {
namespace {

// A status with a text, of a kind that says that the input is to blame; or an answer that is well-formed.
void expect_refusal(heddle_status_t* status, const char* what) {
  Result result(status);
  CHECK(!result.ok(), "%s succeeded; a status was expected", what);
  if (!result.ok()) CHECK(!result.message().empty(), "%s returned %s without a text", what, code_name(result.code()).c_str());
}

heddle_status_t* claim(TargetSession& session, const target::Graph& graph, heddle_target_answer_t* out) {
  const target::GraphTables tables(graph);
  *out = {};
  out->struct_size = sizeof *out;
  return session.table().claim(session.handle, &tables.c, out);
}

heddle_status_t* emit(TargetSession& session, const target::Kernel& kernel, heddle_target_code_t* out) {
  const heddle_target_kernel_t table = target::table_of(kernel);
  *out = {};
  out->struct_size = sizeof *out;
  return session.table().emit(session.handle, &table, out);
}

std::string damaged(const std::string& bytes) {
  std::string out = bytes;
  switch (random_below(3)) {
    case 0:
      out.resize(random_below(out.size() + 1));
      break;
    case 1:
      out.append(random_below(64) + 1, static_cast<char>(random_below(256)));
      break;
    default:
      for (uint64_t i = random_below(8) + 1; i-- > 0 && !out.empty();)
        out[random_below(out.size())] ^= static_cast<char>(1 << random_below(8));
  }
  return out;
}

void damaged_code_is_refused() {
  TargetSession session;
  const Compiled compiled = compile(session, random_numbers(), 16);
  heddle_target_answer_t answer;
  heddle_target_code_t code;
  target::Graph graph = compiled.made.graph;
  for (const std::string& bytes :
       {std::string(), std::string("HDLPORT"), std::string(64, '\xff'), graph.code.substr(0, graph.code.size() / 2)}) {
    graph.code = bytes;
    expect_refusal(claim(session, graph, &answer), "claim of a graph whose portable code is damaged");
    expect_refusal(emit(session, {"c0_add", "kit", bytes, kSymbols, 2, 1}, &code), "emit of damaged portable code");
  }
  // By chance it may still be code, and then any answer is right that is an answer.
  for (int i = 0; i < 300; ++i) {
    graph.code = damaged(compiled.made.graph.code);
    Result claimed(claim(session, graph, &answer));
    target::Answer read;
    std::string error;
    if (claimed.ok()) CHECK(target::read(answer, &read, &error), "claim's answer to damaged code is malformed: %s", error.c_str());
    for (size_t k = 0; k < std::min<size_t>(compiled.emitted.size(), 2); ++k) {
      target::Kernel kernel = compiled.emitted[k].kernel.asked;
      kernel.code = damaged(kernel.code);
      Result emitted(emit(session, kernel, &code));
    }
  }
  // It goes on.
  compile(session, random_numbers(), 16);
}

void wrong_references_are_refused() {
  TargetSession session;
  const target::Graph right = compile(session, random_numbers(), 16).made.graph;
  heddle_target_answer_t answer;
  auto refuses = [&](const char* what, auto&& change) {
    target::Graph graph = right;
    change(graph);
    expect_refusal(claim(session, graph, &answer), what);
  };
  refuses("claim of a graph whose node has a kernel that does not exist", [](target::Graph& graph) { graph.nodes[3].kernel = 1u << 30; });
  refuses("claim of a graph whose node reads a value that does not exist",
          [](target::Graph& graph) { graph.nodes[3].inputs[0] = 1u << 30; });
  refuses("claim of a graph whose node makes a value that does not exist",
          [](target::Graph& graph) { graph.nodes[3].outputs[0] = 1u << 30; });
  refuses("claim of a graph whose node is in a group that does not exist",
          [](target::Graph& graph) { graph.nodes[3].group = graph.group_count; });
  refuses("claim of a graph whose value has an extent that does not exist",
          [](target::Graph& graph) { graph.values[2].extents[0] = 1u << 30; });
  refuses("claim of a graph whose expression has operands that do not come before it",
          [](target::Graph& graph) { graph.expressions.push_back({HEDDLE_TARGET_ADD, 1u << 30, 0, 0, 0}); });
  compile(session, random_numbers(), 16);
}

void missing_arrays_are_refused() {
  TargetSession session;
  const target::Graph graph = compile(session, random_numbers(), 8).made.graph;
  heddle_target_answer_t answer = {};
  answer.struct_size = sizeof answer;
  auto refuses = [&](const char* what, auto&& change) {
    target::GraphTables tables(graph);
    change(tables);
    expect_refusal(session.table().claim(session.handle, &tables.c, &answer), what);
  };
  refuses("claim of a graph that counts nodes and has none", [](target::GraphTables& tables) { tables.c.nodes = nullptr; });
  refuses("claim of a graph that counts values and has none", [](target::GraphTables& tables) { tables.c.values = nullptr; });
  refuses("claim of a graph with a stride that is shorter than its structs", [](target::GraphTables& tables) { tables.c.node_stride = 2; });
  refuses("claim of a graph whose node counts inputs and has none", [](target::GraphTables& tables) { tables.nodes[2].inputs = nullptr; });
}

// A struct of a later minor: what is not known here must be 0.
template <class T>
struct Newer {
  T known;
  uint64_t tail[8] = {};
  explicit Newer(const T& from) : known(from) { known.struct_size = sizeof(Newer); }
};

void newer_structs() {
  TargetSession session;
  const target::Graph graph = compile(session, random_numbers(), 8).made.graph;
  const target::GraphTables tables(graph);
  heddle_target_answer_t answer = {};
  answer.struct_size = sizeof answer;
  Newer<heddle_target_graph_t> newer(tables.c);
  EXPECT_OK(session.table().claim(session.handle, &newer.known, &answer));
  newer.tail[5] = 1;
  expect_refusal(session.table().claim(session.handle, &newer.known, &answer),
                 "claim of a graph with a field of a newer version that is not 0 [HD-E-04]");
  const target::ParamsTables params(hello());
  Newer<heddle_target_params_t> later(params.c);
  heddle_target_t* other = nullptr;
  EXPECT_OK(session.table().open(session.instance.handle, &later.known, &other));
  session.table().close(other);
  later.tail[0] = 1;
  expect_refusal(session.table().open(session.instance.handle, &later.known, &other),
                 "open with a field of a newer version that is not 0 [HD-E-04]");
  // Answers: no more than the caller has memory for.
  struct {
    heddle_target_answer_t known;
    char behind[64];
  } memory;
  std::memset(&memory, 0x77, sizeof memory);
  const uint32_t least = offsetof(heddle_target_answer_t, refusals);
  memory.known.struct_size = least;
  EXPECT_OK(session.table().claim(session.handle, &tables.c, &memory.known));
  for (size_t i = least; i < sizeof memory; ++i) {
    REQUIRE(reinterpret_cast<char*>(&memory)[i] == 0x77, "with an answer of %u bytes claim wrote byte %zu [HD-E-04]", least, i);
  }
}

void code_of_others_is_inspected() {
  TargetSession session;
  if (std::find(empty_slots().begin(), empty_slots().end(), HEDDLE_TARGET_INTERFACE " inspect") != empty_slots().end())
    absent("it has no inspect");
  heddle_target_code_t found = {};
  auto inspect = [&](const target::Code& code) {
    const target::CodeTables tables(code);
    found = {};
    found.struct_size = sizeof found;
    return session.table().inspect(session.handle, &tables.c, &found);
  };
  target::Code code;
  code.format = "org.example.nobody/1";
  code.target = "generic";
  code.bytes = "nothing";
  expect_refusal(inspect(code), "inspect of code in a format that nobody has");
  const Compiled compiled = compile(session, random_numbers(), 24);
  for (const Emitted& each : compiled.emitted) {
    for (int i = 0; i < 100; ++i) {
      code = each.code;
      code.bytes = damaged(code.bytes);
      code.entries.clear();
      code.expressions.clear();
      Result result(inspect(code));
      target::Code read;
      std::string error;
      if (result.ok()) CHECK(target::read(found, &read, &error), "inspect's answer to damaged code is malformed: %s", error.c_str());
    }
  }
}

void odd_facts() {
  const target::Hello right = hello();
  auto open = [&](const char* what, const target::Hello& with) {
    Instance instance;
    const target::ParamsTables params(with);
    heddle_target_t* handle = nullptr;
    Result result(instance.tables.target.open(instance.handle, &params.c, &handle));
    if (result.ok()) {
      CHECK(handle, "open %s returned neither a status nor a target", what);
      instance.tables.target.close(handle);
    } else {
      CHECK(result.code() == HEDDLE_STATUS_INVALID_ARGUMENT || result.code() == HEDDLE_STATUS_UNIMPLEMENTED,
            "open %s returned %s; success or INVALID_ARGUMENT was expected", what, result.text().c_str());
      CHECK(!result.message().empty(), "open %s failed without a text", what);
    }
  };
  target::Hello with = right;
  with.facts.clear();
  open("without facts", with);
  with = right;
  with.level = "no-such-level";
  open("with level 'no-such-level'", with);
  for (size_t i = 0; i < right.facts.size(); ++i) {
    for (uint32_t kind : {HEDDLE_OPTION_INT, HEDDLE_OPTION_FLOAT, HEDDLE_OPTION_STRING, HEDDLE_OPTION_BOOL}) {
      for (int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
        with = right;
        with.facts[i].kind = kind;
        with.facts[i].integer = value;
        with.facts[i].number = static_cast<double>(value);
        with.facts[i].text = kind == HEDDLE_OPTION_STRING ? std::string(1000, 'x') : "";
        open(("with another value of fact '" + right.facts[i].name + "'").c_str(), with);
      }
    }
  }
  Instance instance;
  instance.tables.target.close(nullptr);
}

void large_graphs() {
  TargetSession session;
  const MadeGraph made = make_graph(random_numbers(), 3000);
  const uint64_t start = now_ns();
  const target::Answer answer = session.claim(made.graph);
  uint32_t checked = 0;
  for (const target::Claim& claim : answer.claims) {
    const std::string wrong = why_not_claimed(made.graph, claim.nodes);
    REQUIRE(wrong.empty(), "claim '%s' is wrong: %s", claim.name.c_str(), wrong.c_str());
    if (++checked > 200) break;
  }
  note("claims of a graph with 3000 nodes took %llu ms", number((now_ns() - start) / 1000000));
  target::Graph nothing;
  nothing.function = "empty";
  nothing.code = made.graph.code;
  CHECK(session.claim(nothing).claims.empty(), "it claims nodes of a graph without nodes");
}

void targets_are_independent() {
  Instance instance;
  const target::ParamsTables params(hello());
  heddle_target_t* handles[2] = {};
  for (heddle_target_t*& handle : handles) REQUIRE_OK(instance.tables.target.open(instance.handle, &params.c, &handle));
  REQUIRE(handles[0] && handles[1] && handles[0] != handles[1], "two calls of open gave the same target");
  // Different graphs: what targets share would be seen only by chance if their answers were equal.
  const MadeGraph made[2] = {make_graph(random_numbers(), 24), make_graph(random_numbers(), 40)};
  const target::GraphTables tables[2] = {target::GraphTables(made[0].graph), target::GraphTables(made[1].graph)};
  auto claim = [&](int i, heddle_target_answer_t* out) {
    *out = {};
    out->struct_size = sizeof *out;
    return instance.tables.target.claim(handles[i], &tables[i].c, out);
  };
  auto text = [](const heddle_target_answer_t& answered) {
    target::Answer answer;
    std::string error;
    return target::read(answered, &answer, &error) ? text_of(answer) : "malformed: " + error;
  };
  heddle_target_answer_t answers[2];
  std::string texts[2];
  for (int i = 0; i < 2; ++i) {
    REQUIRE_OK(claim(i, &answers[i]));
    texts[i] = text(answers[i]);
  }
  // An answer is there until the next call with its target, whatever happens to the other.
  REQUIRE(text(answers[0]) == texts[0], "a claim of one target changed the answer of another one");
  bool is_same[2] = {true, true};
  auto ask = [&](int i) {
    for (int round = 0; round < 20 && is_same[i]; ++round) {
      heddle_target_answer_t answered;
      is_same[i] = Result(claim(i, &answered)).ok() && text(answered) == texts[i];
    }
  };
  std::thread other([&] { ask(1); });
  ask(0);
  other.join();
  CHECK(is_same[0] && is_same[1], "two open targets that two threads ask at the same time answer in other ways than one after the other");
  REQUIRE_OK(claim(0, &answers[0]));
  instance.tables.target.close(handles[1]);
  CHECK(text(answers[0]) == texts[0], "closing a target changed the answer of another one");
  REQUIRE_OK(claim(0, &answers[0]));
  CHECK(text(answers[0]) == texts[0], "a target answers in another way after another one was closed");
  instance.tables.target.close(handles[0]);
}

void nothing_is_left() {
  std::mt19937_64 random(settings().seed);
  expect_no_growth("opening, claiming and emitting", 300, 5000000000, [&] {
    TargetSession session;
    compile(session, random, 16);
  });
  TargetSession session;
  expect_no_growth("claiming and emitting in one target", 300, 5000000000, [&] { compile(session, random, 16); });
}

}  // namespace

void add_target_input_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"target.damaged_code", "damaged portable code is refused with a reason, and the target goes on", damaged_code_is_refused,
        Kind::kTarget},
       {"target.wrong_references", "graphs that refer to kernels, values, groups or expressions that do not exist are refused",
        wrong_references_are_refused, Kind::kTarget},
       {"target.missing_arrays", "graphs that count what they do not have are refused", missing_arrays_are_refused, Kind::kTarget},
       {"target.newer", "fields of newer versions are ignored if they are 0, and refused otherwise; answers have the caller's size",
        newer_structs, Kind::kTarget},
       {"target.inspect_damaged", "inspect of damaged or foreign code ends with a status or an answer", code_of_others_is_inspected,
        Kind::kTarget},
       {"target.facts", "open with other facts and levels succeeds, or says what it expects", odd_facts, Kind::kTarget},
       {"target.large_graph", "graphs of thousands of nodes, and of none, are answered in 4 GiB of addresses", large_graphs, Kind::kTarget},
       {"target.independent", "open targets are independent, also in several threads", targets_are_independent, Kind::kTarget},
       {"target.leaves_nothing", "compiling leaves no memory, descriptor or thread", nothing_is_left, Kind::kTarget}});
}

}  // namespace heddle::conformance
