// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: what a target plugin answers to random graphs, and whether its code computes what it should.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "heddle/sdk/portable/interpreter.h"
#include "target_session.h"

namespace heddle::conformance {
namespace {

constexpr uint32_t kGraphs = 12, kNodes = 24;

void the_manifest_is_for_the_compiler() {
  const TargetSettings& target = settings().target;
  if (settings().manifest.empty()) absent("the library has no manifest; the compiler finds a target by its manifest");
  CHECK(target.wrong.empty(), "%s: %s", settings().manifest.c_str(), target.wrong.c_str());
}

// claims and emits; compile() has checked them.
void answers_are_right() {
  TargetSession session;
  size_t claims = 0, kernels = 0, given_back = 0, nodes = 0;
  for (uint32_t i = 0; i < kGraphs; ++i) {
    const Compiled compiled = compile(session, random_numbers(), kNodes);
    nodes += compiled.made.graph.nodes.size();
    claims += compiled.answer.claims.size();
    kernels += compiled.emitted.size();
    given_back += compiled.given_back;
  }
  note("of %zu nodes in %u random graphs: %zu claims, %zu kernels with code, %zu given back", nodes, kGraphs, claims, kernels, given_back);
}

void takes_something() {
  TargetSession session;
  for (uint32_t i = 0; i < 4 * kGraphs; ++i) {
    if (!compile(session, random_numbers(), kNodes).emitted.empty()) return;
  }
  absent(
      "it takes none of the kit's nodes: sums, products, quotients, maxima and minima, tanh, exp, square roots, products of matrices, sums "
      "of "
      "rows, transpositions; so other cases check little");
}

void the_same_again() {
  std::mt19937_64 random(settings().seed);
  std::mt19937_64 same = random;
  TargetSession first;
  std::vector<Compiled> compiled;
  for (uint32_t i = 0; i < kGraphs; ++i) compiled.push_back(compile(first, random, kNodes));
  // In another order, in the same target and in a new one: calls depend only on open.
  TargetSession second;
  std::vector<MadeGraph> graphs;
  for (uint32_t i = 0; i < kGraphs; ++i) graphs.push_back(make_graph(same, kNodes));
  for (TargetSession* session : {&first, &second}) {
    for (uint32_t i = kGraphs; i-- > 0;) {
      REQUIRE(text_of(session->claim(graphs[i].graph)) == text_of(compiled[i].answer),
              "claim answered the same graph in another way %s; the same arguments give the same answers",
              session == &first ? "after other graphs" : "in another open target");
    }
    for (uint32_t i = kGraphs; i-- > 0;) {
      for (const Emitted& each : compiled[i].emitted) {
        target::Code code;
        std::string reason;
        REQUIRE(session->emit(each.kernel.asked, &code, &reason), "emit refused kernel '%s', which it had given code for: %s",
                each.kernel.asked.name.c_str(), reason.c_str());
        REQUIRE(text_of(code) == text_of(each.code),
                "emit gave other code for kernel '%s' %s; the same arguments give the same answers, so that files are the same",
                each.kernel.asked.name.c_str(), session == &first ? "after other kernels" : "in another open target");
      }
    }
  }
}

void inspect_finds_what_emit_said() {
  TargetSession session, reader;
  if (std::find(empty_slots().begin(), empty_slots().end(), HEDDLE_TARGET_INTERFACE " inspect") != empty_slots().end())
    absent("it has no inspect, which is optional: the compiler relies on what emit says");
  size_t count = 0;
  for (uint32_t i = 0; i < kGraphs; ++i) {
    for (const Emitted& each : compile(session, random_numbers(), kNodes).emitted) {
      const std::string wrong = target::compare_records(each.code, reader.inspect(each.code));
      REQUIRE(wrong.empty(), "inspect disagrees with emit: %s", wrong.c_str());
      ++count;
    }
  }
  if (count == 0) absent("it gave no code for the kit's graphs");
}

// ---- numbers

int64_t value_of(const std::vector<target::Expression>& all, uint32_t which, const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const target::Expression& one : all) {
    int64_t value = one.value;
    if (one.kind == HEDDLE_TARGET_SYMBOL) value = symbols[static_cast<size_t>(one.value)];
    if (one.kind >= HEDDLE_TARGET_ADD) {
      const auto a = static_cast<uint64_t>(values[one.a]), b = static_cast<uint64_t>(values[one.b]);
      const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
      const int64_t down = y > 0 ? x / y - (x % y < 0) : 0;
      if (one.kind == HEDDLE_TARGET_ADD) value = static_cast<int64_t>(a + b);
      if (one.kind == HEDDLE_TARGET_MULTIPLY) value = static_cast<int64_t>(a * b);
      if (one.kind == HEDDLE_TARGET_FLOOR_DIVIDE) value = down;
      if (one.kind == HEDDLE_TARGET_CEIL_DIVIDE) value = y > 0 ? down + (x % y != 0) : 0;
      if (one.kind == HEDDLE_TARGET_MODULO) value = y > 0 ? x - down * y : 0;
    }
    values.push_back(value);
  }
  return values[which];
}

// The entry that a call takes; NULL: no entry's guards hold, and portable code runs.
const target::Entry* entry_for(const target::Code& code, const std::vector<int64_t>& symbols) {
  for (const target::Entry& entry : code.entries) {
    const bool holds = std::all_of(entry.guards.begin(), entry.guards.end(), [&](const target::Guard& guard) {
      const int64_t value = value_of(code.expressions, guard.expression, symbols);
      return value >= guard.min && value <= guard.max;
    });
    if (holds) return &entry;
  }
  return nullptr;
}

// Calls of a kernel, made while the target was open: inputs, and the results that portable code has.
struct Call {
  std::vector<int64_t> symbols;
  std::vector<std::vector<char>> inputs, expected;
};
struct Called {
  target::Code code;
  std::string kernel;
  std::vector<bool> is_float;  // each result
  std::vector<Call> calls;
  bool has_product = false;
};

std::vector<Called> kernels_of_graphs(std::vector<MadeGraph> graphs, size_t* out_without) {
  std::vector<Called> kernels;
  TargetSession session;
  for (MadeGraph& made : graphs) {
    const Compiled compiled = compile(session, std::move(made));
    const size_t first = kernels.size();
    for (const Emitted& each : compiled.emitted) {
      Called& called = kernels.emplace_back(Called{each.code, each.kernel.asked.name, {}, {}});
      for (const portable::Node& node : each.kernel.kernel.nodes) called.has_product |= node.kind == portable::NodeKind::kContract;
      for (uint32_t value : each.kernel.outputs) called.is_float.push_back(compiled.made.graph.values[value].type == HEDDLE_TYPE_F32);
    }
    for (const std::vector<int64_t>& symbols : {std::vector<int64_t>{13, 7}, {1, 1}, {64, 33}}) {
      if (compiled.emitted.empty()) break;
      const std::vector<std::vector<char>> values = evaluate(compiled.made, symbols, random_numbers());
      for (size_t k = 0; k < compiled.emitted.size(); ++k) {
        if (!entry_for(compiled.emitted[k].code, symbols)) {
          ++*out_without;
          continue;
        }
        Call call{symbols, {}, {}};
        for (uint32_t value : compiled.emitted[k].kernel.inputs) call.inputs.push_back(values[value]);
        for (uint32_t value : compiled.emitted[k].kernel.outputs) call.expected.push_back(values[value]);
        kernels[first + k].calls.push_back(std::move(call));
      }
    }
  }
  return kernels;
}

// Integers are equal; f32 is within 1e-4 of the largest element, since products may be added in another order.
std::string difference(const std::vector<char>& got, const std::vector<char>& expected, bool is_float) {
  double largest = 0;
  auto float_at = [](const std::vector<char>& bytes, size_t i) {
    float value;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    return value;
  };
  auto integer_at = [](const std::vector<char>& bytes, size_t i) {
    int32_t value;
    std::memcpy(&value, bytes.data() + i * 4, 4);
    return value;
  };
  for (size_t i = 0; is_float && i < expected.size() / 4; ++i) {
    if (std::isfinite(float_at(expected, i))) largest = std::max<double>(largest, std::fabs(float_at(expected, i)));
  }
  for (size_t i = 0; i < expected.size() / 4; ++i) {
    const float a = float_at(got, i), b = float_at(expected, i);
    const bool same = !is_float          ? integer_at(got, i) == integer_at(expected, i)
                      : std::isfinite(b) ? std::fabs(double{a} - b) <= 1e-4 * largest
                      : std::isnan(b)    ? std::isnan(a)
                                         : a == b;
    if (same) continue;
    return "element " + std::to_string(i) + " is " + (is_float ? std::to_string(a) : std::to_string(integer_at(got, i))) + ", and " +
           (is_float ? std::to_string(b) : std::to_string(integer_at(expected, i))) + " by portable code";
  }
  return {};
}

void run_call(Session& session, const Called& called, const Call& call, heddle_executable_t* executable) {
  const target::Code& code = called.code;
  const target::Entry* chosen = entry_for(code, call.symbols);
  heddle_entry_t* entry = nullptr;
  REQUIRE_OK(session.tables().dispatch.entry(executable, static_cast<uint32_t>(chosen - code.entries.data()), &entry));
  const int64_t workgroups = value_of(code.expressions, chosen->workgroups, call.symbols);
  REQUIRE(workgroups >= 1 && workgroups <= UINT32_MAX, "entry '%s' has %lld workgroups for symbols %lld and %lld", chosen->name.c_str(),
          static_cast<long long>(workgroups), static_cast<long long>(call.symbols[0]), static_cast<long long>(call.symbols[1]));
  std::vector<heddle_binding_t> bindings;
  auto bind = [&](const std::vector<char>& bytes, bool is_input) {
    heddle_buffer_t* buffer = session.buffer(std::max<uint64_t>(session.round_up(bytes.size()), 4));
    const std::vector<char> other(bytes.size(), 0x77);  // results have to be written
    session.upload(buffer, 0, is_input ? bytes.data() : other.data(), bytes.size());
    bindings.push_back({buffer, 0, bytes.size()});
  };
  for (const std::vector<char>& input : call.inputs) bind(input, true);
  for (const std::vector<char>& output : call.expected) bind(output, false);
  List list;
  list.dispatch(entry, bindings, call.symbols, static_cast<uint32_t>(workgroups));
  Result ran = session.try_run(list);
  CHECK(ran.ok(), "running kernel '%s' with symbols %lld and %lld returned %s", called.kernel.c_str(),
        static_cast<long long>(call.symbols[0]), static_cast<long long>(call.symbols[1]), ran.text().c_str());
  for (size_t i = 0; ran.ok() && i < call.expected.size(); ++i) {
    const std::vector<char> got = session.download(bindings[call.inputs.size() + i].buffer, 0, call.expected[i].size());
    const std::string wrong = difference(got, call.expected[i], called.is_float[i]);
    CHECK(wrong.empty(), "result %zu of kernel '%s' (%s) with symbols %lld and %lld is wrong: %s", i, called.kernel.c_str(),
          code.note.c_str(), static_cast<long long>(call.symbols[0]), static_cast<long long>(call.symbols[1]), wrong.c_str());
  }
  for (size_t i = 0; ran.ok() && i < call.inputs.size(); ++i)
    CHECK(session.download(bindings[i].buffer, 0, call.inputs[i].size()) == call.inputs[i], "kernel '%s' wrote to its input %zu",
          called.kernel.c_str(), i);
  for (const heddle_binding_t& each : bindings) session.free(each.buffer);
}

void run_kernel(Session& session, const Called& called) {
  const target::Code& code = called.code;
  uint32_t rank = 0;
  REQUIRE_OK(session.tables().dispatch.variant_rank(session.device, string_of(code.format), string_of(code.target), &rank));
  REQUIRE(rank != 0, "the driver does not run the code that the target has written: format %s, target %s", shown(code.format).c_str(),
          shown(code.target).c_str());
  std::vector<heddle_entry_params_t> entries;
  for (const target::Entry& entry : code.entries) {
    heddle_entry_params_t params = {};
    params.struct_size = sizeof params;
    params.binding_count = entry.binding_count;
    params.name = string_of(entry.name);
    params.constants_bytes = entry.constants_bytes;
    params.workgroup_size[0] = entry.workgroup_size;
    params.workgroup_size[1] = params.workgroup_size[2] = 1;
    params.subgroup_size = entry.subgroup_size;
    params.shared_memory_bytes = entry.shared_memory_bytes;
    params.workspace_bytes = entry.workspace_bytes;
    entries.push_back(params);
  }
  heddle_executable_params_t params = {};
  params.struct_size = sizeof params;
  params.entry_count = static_cast<uint32_t>(entries.size());
  params.format = string_of(code.format);
  params.target = string_of(code.target);
  params.code = code.bytes.data();
  params.code_bytes = code.bytes.size();
  params.entries = entries.data();
  params.entry_stride = sizeof(heddle_entry_params_t);
  params.name = string_of(called.kernel);
  heddle_executable_t* executable = nullptr;
  REQUIRE_OK(session.tables().dispatch.executable_load(session.device, &params, &executable));
  for (const Call& call : called.calls) run_call(session, called, call, executable);
  session.tables().dispatch.executable_unload(executable);
}

// Runs the code of the graphs by the driver. Kernels that ran: how many, and how many of them with a product.
struct Ran {
  size_t kernels, products;
};
Ran run_graphs(std::vector<MadeGraph> graphs) {
  size_t without = 0, calls = 0;
  Ran ran = {0, 0};
  use_driver(false);
  const std::vector<Called> kernels = kernels_of_graphs(std::move(graphs), &without);
  if (kernels.empty()) absent("it gave no code for the kit's graphs");
  use_driver(true);
  REQUIRE(plugin().is_driver(), "--driver %s is no driver", settings().driver.c_str());
  Session session;
  // Some drivers compile for a second for each kernel. The case runs twice.
  const auto most_ns = static_cast<uint64_t>(settings().time_limit_s * 1e9 / 4);
  const uint64_t start = now_ns();
  for (; ran.kernels < kernels.size() && !failed() && (ran.kernels == 0 || now_ns() - start < most_ns); ++ran.kernels) {
    const Called& called = kernels[ran.kernels];
    run_kernel(session, called);
    calls += called.calls.size();
    ran.products += called.has_product && !called.calls.empty();
  }
  note("%zu calls of %zu of %zu kernels; %zu more run portable code by their guards", calls, ran.kernels, kernels.size(), without);
  return ran;
}

void need_driver() {
  if (settings().driver.empty()) absent("name the driver that runs its code with --driver, to compare numbers with those of portable code");
}

void numbers_are_right() {
  need_driver();
  std::vector<MadeGraph> graphs;
  for (uint32_t i = 0; i < kGraphs; ++i) graphs.push_back(make_graph(random_numbers(), kNodes));
  run_graphs(std::move(graphs));
}

// A target that takes the activation alone has shown nothing of this.
void fused_products_are_right() {
  need_driver();
  const Ran ran = run_graphs(make_fused_products(random_numbers()));
  if (!failed() && ran.products == 0) absent("none of its code has a product of matrices");
}

void fused_convolutions_are_right() {
  need_driver();
  const Ran ran = run_graphs(make_fused_convolutions(random_numbers()));
  if (!failed() && ran.products == 0) absent("none of its code has a convolution");
}

}  // namespace

void add_target_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"target.manifest", "families, facts and limits of the manifest are as the compiler reads them", the_manifest_is_for_the_compiler,
        Kind::kTarget, true},
       {"target.answers",
        "claims are of existing nodes, each in one claim, and convex; code has a format of the target, named entries with guards, and "
        "needs no more than the manifest's limits",
        answers_are_right, Kind::kTarget},
       {"target.takes", "some node of the kit's graphs is claimed and gets code", takes_something, Kind::kTarget},
       {"target.same", "the same arguments give the same claims and the same code, whatever was asked before", the_same_again,
        Kind::kTarget},
       {"target.inspect", "inspect reads from code what emit said of it", inspect_finds_what_emit_said, Kind::kTarget},
       {"target.numbers", "the code of random graphs computes on the driver what portable code computes", numbers_are_right, Kind::kTarget,
        false, true},
       {"target.fused_products", "so does that of products of matrices with a bias and an activation", fused_products_are_right,
        Kind::kTarget, false, true},
       {"target.fused_convolutions", "so does that of convolutions with padding, strides, dilations, a bias and an activation",
        fused_convolutions_are_right, Kind::kTarget, false, true}});
}

}  // namespace heddle::conformance
