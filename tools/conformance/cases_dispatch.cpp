// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: executables and dispatches. They need kernels that the device can run (kernels.cpp).
#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "heddle/code.h"
#include "session.h"

namespace heddle::conformance {
namespace {

// The data of a run of `add`.
struct Sum {
  Sum(Session* session, uint64_t count) : elements(count), session(session), a(count), b(count) {
    for (uint64_t i = 0; i < count; ++i) {
      a[i] = static_cast<float>(static_cast<int64_t>(random_below(2000001)) - 1000000) / 1024.0f;
      b[i] = static_cast<float>(static_cast<int64_t>(random_below(2000001)) - 1000000) / 3.0f;
    }
    const uint64_t part = session->round_up(count * 4);
    buffer = session->buffer(3 * part + session->alignment());
    session->upload(buffer, session->alignment(), a.data(), count * 4);
    session->upload(buffer, session->alignment() + part, b.data(), count * 4);
    for (uint64_t i = 0; i < 3; ++i) bindings.push_back({buffer, session->alignment() + i * part, count * 4});
  }
  List& add_to(List& list, const Kernels& kernels) const {
    return list.dispatch(kernels, "add", bindings, {static_cast<int64_t>(elements), kernels.set().elements_per_workgroup},
                         kernels.groups_of(elements));
  }
  void expect(const char* what) const {
    const std::vector<char> bytes = session->download(buffer, bindings[2].offset, elements * 4);
    std::vector<float> found(elements);
    std::memcpy(found.data(), bytes.data(), bytes.size());
    for (uint64_t i = 0; i < elements; ++i) {
      REQUIRE(found[i] == a[i] + b[i], "%s: element %llu of %llu is %.9g; %.9g was expected", what, number(i), number(elements),
              static_cast<double>(found[i]), static_cast<double>(a[i] + b[i]));
    }
  }
  uint64_t elements;
  Session* session;
  std::vector<float> a, b;
  heddle_buffer_t* buffer = nullptr;
  std::vector<heddle_binding_t> bindings;
};

std::vector<uint32_t> counts_of(Session& session, heddle_buffer_t* buffer, uint64_t count) {
  const std::vector<char> bytes = session.download(buffer, 0, count * 4);
  std::vector<uint32_t> counts(count);
  std::memcpy(counts.data(), bytes.data(), bytes.size());
  return counts;
}

uint64_t word_of(Session& session, heddle_buffer_t* buffer, uint64_t offset = 0) {
  uint64_t word = 0;
  std::memcpy(&word, session.download(buffer, offset, 8).data(), 8);
  return word;
}

heddle_buffer_t* zeroed(Session& session, uint64_t size) {
  heddle_buffer_t* buffer = session.buffer(size);
  List list;
  session.run(list.fill(buffer, 0, size, 0, 1));
  return buffer;
}

// The formats that the device reports.
std::string formats_of(const heddle_device_description_t& description) {
  std::string text;
  for (uint32_t i = 0; i < description.code_format_count; ++i) text += (i ? ", " : "") + text_of(description.code_formats[i]);
  return text.empty() ? "none" : text;
}

void kernels_are_there() {
  Session session;
  const std::string offered = formats_of(session.description), &file = settings().kernels_file;
  for (const KernelSet& set : settings().kernels) {
    uint32_t rank = 0;
    REQUIRE_OK(session.tables().dispatch.variant_rank(session.device, string_of(set.format), string_of(set.target), &rank));
    if (rank) continue;
    bool is_known = false;
    for (uint32_t i = 0; i < session.description.code_format_count; ++i)
      is_known = is_known || text_of(session.description.code_formats[i]) == set.format;
    if (!is_known) misuse("%s: format %s is not among the device's: %s", file.c_str(), shown(set.format).c_str(), offered.c_str());
    misuse("%s: the device accepts format %s, but variant_rank returns 0 for target %s", file.c_str(), shown(set.format).c_str(),
           shown(set.target).c_str());
  }
  if (!Kernels::choose(&session)) {
    if (settings().no_kernels) absent("--no-kernels was given; no case with a kernel runs");
    stop(
        "the kit has no kernels that the device accepts, so its computations are not tested:  its formats are %s; write the kit's "
        "kernels in one of them, in conformance/kernels.toml, or pass --no-kernels",
        offered.c_str());
  }
  Kernels kernels(&session);
  std::string missing;
  for (const char* needed : {"add", "count", "chain"}) {
    if (!kernels.set().has(needed)) missing += (missing.empty() ? "" : ", ") + std::string(needed);
  }
  if (!missing.empty() && !settings().no_kernels) {
    stop(
        "the kernels in %s lack %s, and the cases that dispatch these are absent: a device needs at least add, count and chain; add them "
        "to %s",
        kernels.set().format.c_str(), missing.c_str(), file.empty() ? "conformance/kernels.toml" : file.c_str());
  }
}

void bindings_and_constants() {
  Session session;
  Kernels kernels(&session);
  for (uint64_t count : {uint64_t{1}, uint64_t{7}, uint64_t{255}, uint64_t{1000}, uint64_t{1001}, session.fitting(40000) / 4}) {
    Sum sum(&session, kernels.fitting(count));
    List list;
    session.run(sum.add_to(list, kernels));
    sum.expect("a sum");
  }
}

void every_workgroup_once() {
  Session session;
  Kernels kernels(&session);
  for (auto [x, y, z] : {std::tuple<uint32_t, uint32_t, uint32_t>{1, 1, 1}, {7, 1, 1}, {3, 5, 7}, {1, 1, 9}, {1, 64, 1}, {100, 10, 2}}) {
    const uint32_t* most = session.description.max_workgroup_count;
    if ((most[0] && x > most[0]) || (most[1] && y > most[1]) || (most[2] && z > most[2])) continue;
    const uint64_t count = uint64_t{x} * y * z;
    heddle_buffer_t* buffer = zeroed(session, count * 4);
    List list;
    list.dispatch(kernels, "count", {{buffer, 0, count * 4}}, {}, x, y, z);
    session.run(list);
    const std::vector<uint32_t> counts = counts_of(session, buffer, count);
    for (uint64_t i = 0; i < count; ++i) {
      REQUIRE(counts[i] == 1, "workgroup %llu of a grid of %u x %u x %u ran %u times", number(i), x, y, z, counts[i]);
    }
  }
}

void zero_workgroups() {
  Session session;
  Kernels kernels(&session);
  heddle_buffer_t* buffer = zeroed(session, 64);
  for (auto [x, y, z] : {std::tuple<uint32_t, uint32_t, uint32_t>{0, 1, 1}, {4, 0, 1}, {4, 4, 0}, {0, 0, 0}}) {
    List list;
    list.dispatch(kernels, "count", {{buffer, 0, 64}}, {}, x, y, z);
    session.run(list);
  }
  // It still orders: commands after a barrier come later.
  List list;
  list.fill(buffer, 0, 64, 1, 1).barrier().dispatch(kernels, "count", {{buffer, 0, 64}}, {}, 0).barrier().fill(buffer, 0, 64, 2, 1);
  session.run(list);
  CHECK(word_of(session, buffer) == 0x0202020202020202, "a list with a dispatch of no workgroups ran in the wrong order");
}

void largest_grid() {
  Session session;
  Kernels kernels(&session);
  for (int side = 0; side < 3; ++side) {
    const uint64_t capacity = session.fitting(8 << 20) / 4;
    const uint64_t most = session.description.max_workgroup_count[side] ? session.description.max_workgroup_count[side] : 65535;
    const uint32_t count = static_cast<uint32_t>(std::min({most, capacity, uint64_t{1} << 20}));
    heddle_buffer_t* buffer = zeroed(session, uint64_t{count} * 4);
    uint32_t grid[3] = {1, 1, 1};
    grid[side] = count;
    List list;
    list.dispatch(kernels, "count", {{buffer, 0, uint64_t{count} * 4}}, {}, grid[0], grid[1], grid[2]);
    session.run(list);
    const std::vector<uint32_t> counts = counts_of(session, buffer, count);
    const bool all = std::all_of(counts.begin(), counts.end(), [](uint32_t value) { return value == 1; });
    CHECK(all, "of a grid of %u x %u x %u not every workgroup ran once", grid[0], grid[1], grid[2]);
    session.free(buffer);
  }
}

void grid_overflow() {
  Session session;
  Kernels kernels(&session);
  heddle_buffer_t* buffer = zeroed(session, 64);
  bool bounded = false;
  for (int side = 0; side < 3; ++side) {
    const uint32_t most = session.description.max_workgroup_count[side];
    if (most == 0 || most == UINT32_MAX) continue;
    bounded = true;
    uint32_t grid[3] = {1, 1, 1};
    grid[side] = most + 1;
    List list;
    list.dispatch(kernels, "count", {{buffer, 0, 64}}, {}, grid[0], grid[1], grid[2]);
    EXPECT_REFUSED(session.submit(list, {}, {session.point()}).release());
  }
  if (!bounded) absent("the device's grids have no limit");
}

void counts_must_fit() {
  Session session;
  Kernels kernels(&session);
  Sum sum(&session, 16);
  for (int which = 0; which < 4; ++which) {
    List list;
    sum.add_to(list, kernels);
    heddle_dispatch_command_t& dispatch = list.commands[0].as.dispatch;
    if (which == 0) dispatch.binding_count = 2;
    if (which == 1) dispatch.constants_bytes = 8;
    if (which == 2) dispatch.entry = nullptr;
    if (which == 3) dispatch.bindings = nullptr;
    EXPECT_CODE(session.submit(list, {}, {session.point()}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
}

// Since ABI 0.2.
void unknown_flags() {
  if (plugin().chosen_minor < 2) absent("it implements ABI 0.1, in which flags are not checked");
  Session session;
  {
    Kernels kernels(&session);
    Sum sum(&session, 16);
    for (uint32_t flags : {1u, 0x80000000u}) {
      List list;
      sum.add_to(list, kernels);
      list.commands[0].flags = flags;
      EXPECT_CODE(session.submit(list, {}, {session.point()}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
    }
    List list;
    list.fill(zeroed(session, 64), 0, 4, 1, 1);
    list.commands[0].as.fill.reserved = 1;
    EXPECT_CODE(session.submit(list, {}, {session.point()}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  const KernelSet* set = Kernels::choose(&session);
  REQUIRE(set, "no kernels are chosen");
  for (uint32_t flags : {HEDDLE_ENTRY_EARLY, HEDDLE_ENTRY_IN_ORDER, HEDDLE_ENTRY_EARLY | HEDDLE_ENTRY_IN_ORDER, 4u, 0x80000000u}) {
    std::vector<heddle_entry_params_t> entries = Kernels::params_of(*set);
    entries.back().flags = flags;
    const heddle_executable_params_t params = Kernels::executable_of(*set, entries);
    heddle_executable_t* executable = nullptr;
    Result loaded(session.tables().dispatch.executable_load(session.device, &params, &executable));
    const heddle_status_code_t expected = flags <= HEDDLE_ENTRY_IN_ORDER ? HEDDLE_STATUS_OK : HEDDLE_STATUS_INVALID_ARGUMENT;
    CHECK(loaded.code() == expected, "heddle.dispatch/1 executable_load with an entry of flags %x returned %s; %s was expected [HD-E-04]",
          flags, loaded.text().c_str(), expected == HEDDLE_STATUS_OK ? "success" : "INVALID_ARGUMENT");
    session.tables().dispatch.executable_unload(executable);
  }
}

void binding_bounds() {
  Session session;
  Kernels kernels(&session);
  heddle_buffer_t* buffer = zeroed(session, 4096);
  const uint64_t step = session.alignment();
  for (auto [offset, length] :
       {std::pair<uint64_t, uint64_t>{0, 4097}, {(4096 / step + 1) * step, 4}, {0, UINT64_MAX}, {UINT64_MAX - step + 1, step + 4}}) {
    List list;
    list.dispatch(kernels, "count", {{buffer, offset, length}}, {}, 1);
    EXPECT_CODE(session.submit(list, {}, {session.point()}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  }
  CHECK(word_of(session, buffer) == 0, "a dispatch that was refused ran");
}

void arguments_are_copied() {
  Session session;
  Kernels kernels(&session);
  Sum sum(&session, kernels.fitting(500));
  heddle_buffer_t* chain = zeroed(session, 8);
  const heddle_point_t busy = session.point(), done = session.point();
  session.keep_busy(busy);
  List list;
  sum.add_to(list, kernels);
  list.barrier().dispatch(kernels, "chain", {{chain, 0, 8}}, {5}, 1).barrier().dispatch(kernels, "chain", {{chain, 0, 8}}, {7}, 1);
  auto waits = std::make_unique<std::vector<heddle_point_t>>(1, busy);
  auto signals = std::make_unique<std::vector<heddle_point_t>>(1, done);
  Result status = session.submit(list, *waits, *signals);
  list.scribble();
  waits->assign(1, {nullptr, 99});
  signals->assign(1, {nullptr, 99});
  REQUIRE(status.ok(), "a submission returned %s", status.text().c_str());
  session.reach(done);
  sum.expect("a sum whose arguments the caller overwrote");
  CHECK(word_of(session, chain) == 22, "constants of a dispatch are %llu, as if they were read after the enqueue",
        number(word_of(session, chain)));
}

void many_commands() {
  Session session;
  Kernels kernels(&session);
  heddle_buffer_t* buffer = zeroed(session, 8);
  List list;
  uint64_t expected = 0;
  for (int i = 0; i < 1000; ++i) {
    list.dispatch(kernels, "chain", {{buffer, 0, 8}}, {i}, 1).barrier();
    expected = expected * 3 + static_cast<uint64_t>(i);
  }
  session.run(list);
  CHECK(word_of(session, buffer) == expected, "1000 dispatches with barriers between them did not run in order [HD-Q-07]");
}

void submissions_chain() {
  Session session;
  Kernels kernels(&session);
  heddle_buffer_t* buffer = zeroed(session, 8);
  heddle_queue_t* queues[] = {session.queue, session.other_queue()};
  std::vector<heddle_point_t> last;
  uint64_t expected = 0;
  for (uint64_t i = 1; i <= 200; ++i) {
    List list;
    list.dispatch(kernels, "chain", {{buffer, 0, 8}}, {static_cast<int64_t>(i)}, 1);
    const heddle_point_t done = session.point();
    REQUIRE_OK(session.submit(list, last, {done}, queues[i % 2]).release());
    last = {done};
    expected = expected * 3 + i;
  }
  session.reach(last[0]);
  CHECK(word_of(session, buffer) == expected, "200 submissions on two queues that wait for each other did not run in order");
}

heddle_status_t* load(Session& session, const KernelSet& set, const std::vector<heddle_entry_params_t>& entries,
                      heddle_executable_t** out) {
  const heddle_executable_params_t params = Kernels::executable_of(set, entries);
  *out = nullptr;
  return session.tables().dispatch.executable_load(session.device, &params, out);
}

const KernelSet& chosen(Session& session) {
  const KernelSet* set = Kernels::choose(&session);
  if (!set) absent("the device runs none of the kit's code formats; give it kernels in its own with conformance/kernels.toml");
  return *set;
}

void unknown_kernels() {
  Session session;
  const KernelSet& set = chosen(session);
  std::vector<heddle_entry_params_t> entries = Kernels::params_of(set);
  entries[0].name = string_of("no_such_kernel");
  heddle_executable_t* executable = nullptr;
  EXPECT_CODE(load(session, set, entries, &executable), HEDDLE_STATUS_NOT_FOUND);
  Kernels kernels(&session);
  heddle_entry_t* entry = nullptr;
  for (uint32_t index : {static_cast<uint32_t>(entries.size()), 1000u, UINT32_MAX})
    EXPECT_CODE(session.tables().dispatch.entry(kernels.executable, index, &entry), HEDDLE_STATUS_NOT_FOUND);
}

void entry_counts() {
  Session session;
  const KernelSet& set = chosen(session);
  for (const char* silent : {HEDDLE_CODE_X86_64_ELF, HEDDLE_CODE_PTX, HEDDLE_CODE_CUBIN}) {
    if (set.format == silent) absent("code of format %s does not state the arguments of its kernels", silent);
  }
  Kernels right(&session);
  heddle_buffer_t* buffer = zeroed(session, session.round_up(64));
  for (const std::string& name : {std::string("count"), std::string("chain"), std::string("add")}) {
    if (!set.has(name)) continue;
    const auto index = static_cast<uint32_t>(std::find(set.entries.begin(), set.entries.end(), name) - set.entries.begin());
    const heddle_entry_params_t true_counts = Kernels::params_of(set)[index];
    for (auto [bindings, constants] : {std::pair<uint32_t, uint32_t>{0, true_counts.constants_bytes},
                                       {true_counts.binding_count - 1, true_counts.constants_bytes},
                                       {true_counts.binding_count + 1, true_counts.constants_bytes},
                                       {true_counts.binding_count, 0},
                                       {true_counts.binding_count, true_counts.constants_bytes + 8}}) {
      if (bindings == true_counts.binding_count && constants == true_counts.constants_bytes) continue;
      std::vector<heddle_entry_params_t> entries = Kernels::params_of(set);
      entries[index].binding_count = bindings;
      entries[index].constants_bytes = constants;
      heddle_executable_t* executable = nullptr;
      Result refused(load(session, set, entries, &executable));
      if (!refused.ok()) {
        CHECK(refused.code() == HEDDLE_STATUS_INVALID_ARGUMENT,
              "heddle.dispatch/1 executable_load with an entry '%s' of %u bindings and %u bytes of constants returned %s; INVALID_ARGUMENT "
              "was "
              "expected",
              name.c_str(), bindings, constants, refused.text().c_str());
        continue;
      }
      // Loaded with arguments that do not match its kernel: a dispatch that matches the entry must be refused, and in particular must not read
      // missing bindings.
      heddle_entry_t* entry = nullptr;
      REQUIRE_OK(session.tables().dispatch.entry(executable, index, &entry));
      const std::vector<heddle_binding_t> given(bindings, {buffer, 0, 64});
      const std::vector<int64_t> values(constants / 8, 1);
      List list;
      list.barrier();
      list.commands[0].kind = HEDDLE_COMMAND_DISPATCH;
      list.commands[0].as.dispatch = {entry, given.data(), values.data(), bindings, constants, {1, 1, 1}, 0};
      Result ran = session.try_run(list);
      CHECK(ran.code() == HEDDLE_STATUS_INVALID_ARGUMENT,
            "an entry '%s' that declares %u bindings and %u bytes of constants was loaded, though its kernel takes %u and %u, and a "
            "dispatch of "
            "it returned %s; INVALID_ARGUMENT from executable_load or submit was expected",
            name.c_str(), bindings, constants, true_counts.binding_count, true_counts.constants_bytes, ran.text().c_str());
      session.tables().dispatch.executable_unload(executable);
    }
  }
}

void foreign_code() {
  Session session;
  KernelSet set = chosen(session);
  auto rank = [&](const char* format, const std::string& target) {
    uint32_t found = 77;
    REQUIRE_OK(session.tables().dispatch.variant_rank(session.device, string_of(format), string_of(target), &found));
    return found;
  };
  CHECK(rank("nobody-elf/1", set.target) == 0, "an unknown code format has a rank");
  CHECK(rank(set.format.c_str(), "no-such-target") == 0, "an unknown target has a rank");
  CHECK(rank("", "") == 0, "no format and no target have a rank");
  for (const std::string& other : {set.format + "2", set.format + "/1", set.format.substr(0, set.format.size() - 1)})
    CHECK(rank(other.c_str(), set.target) == 0, "code format '%s' has a rank, but is not '%s' [HD-C-01]", other.c_str(),
          set.format.c_str());
  heddle_executable_t* executable = nullptr;
  set.target = "no-such-target";
  Result target(load(session, set, Kernels::params_of(set), &executable));
  CHECK(!target.ok(), "code for a target that the device does not have was loaded [HD-C-01]");
  set = chosen(session);
  set.format = "nobody-elf/1";
  Result format(load(session, set, Kernels::params_of(set), &executable));
  CHECK(!format.ok(), "code of an unknown format was loaded [HD-C-01]");
}

void broken_code() {
  Session session;
  KernelSet set = chosen(session);
  const std::string whole = set.code;
  auto try_load = [&](const char* what) {
    heddle_executable_t* executable = nullptr;
    Result status(load(session, set, Kernels::params_of(set), &executable));
    CHECK(status.code() == HEDDLE_STATUS_INVALID_ARGUMENT || status.code() == HEDDLE_STATUS_DATA_LOSS ||
              status.code() == HEDDLE_STATUS_NOT_FOUND,
          "%s returned %s; INVALID_ARGUMENT or DATA_LOSS was expected [HD-C-02]", what, status.text().c_str());
    if (executable) session.tables().dispatch.executable_unload(executable);
  };
  set.code = "this is no code at all";
  try_load("loading text that is not code");
  set.code = std::string(5000, '\0');
  try_load("loading zeroes");
  for (uint64_t size : {whole.size() / 8, whole.size() / 3, whole.size() / 2}) {
    set.code = whole.substr(0, size);
    try_load("loading the beginning of an image");
  }
  set.code.clear();
  try_load("loading no bytes");
  Kernels kernels(&session);
}

void larger_entries() {
  Session session;
  const KernelSet& set = chosen(session);
  // Entries of a newer host: each larger than ours, with a zero end.
  struct Larger {
    heddle_entry_params_t params;
    uint64_t tail[kTailWords];
  };
  std::vector<Larger> entries;
  for (heddle_entry_params_t params : Kernels::params_of(set)) {
    params.struct_size = sizeof(Larger);
    entries.push_back({params, {}});
  }
  heddle_executable_params_t params = Kernels::executable_of(set, {});
  params.entries = &entries[0].params;
  params.entry_count = static_cast<uint32_t>(entries.size());
  params.entry_stride = sizeof(Larger);
  heddle_executable_t* executable = nullptr;
  Result status(session.tables().dispatch.executable_load(session.device, &params, &executable));
  CHECK(status.ok(), "entries with a larger stride and a zero end returned %s [HD-E-04]", status.text().c_str());
  if (executable) session.tables().dispatch.executable_unload(executable);
  entries.back().tail[kTailWords - 1] = 1;
  executable = nullptr;
  EXPECT_CODE(session.tables().dispatch.executable_load(session.device, &params, &executable), HEDDLE_STATUS_INVALID_ARGUMENT);
}

uint32_t index_of(const KernelSet& set, const char* entry) {
  if (!set.has(entry)) set.lacks(entry);
  return static_cast<uint32_t>(std::find(set.entries.begin(), set.entries.end(), entry) - set.entries.begin());
}

// Runs `chain`, which is entry `index` of the executable: returns whether it still computes the right value.
bool chain_works(Session& session, heddle_executable_t* executable, uint32_t index) {
  heddle_buffer_t* buffer = zeroed(session, 8);
  heddle_entry_t* entry = nullptr;
  REQUIRE_OK(session.tables().dispatch.entry(executable, index, &entry));
  const heddle_binding_t binding = {buffer, 0, 8};
  const int64_t constant = 41;
  List list;
  list.barrier();
  list.commands[0].kind = HEDDLE_COMMAND_DISPATCH;
  list.commands[0].as.dispatch = {entry, &binding, &constant, 1, 8, {1, 1, 1}, 0};
  session.run(list);
  return word_of(session, buffer) == 41;
}

void listed_entries() {
  Session session;
  const KernelSet& set = chosen(session);
  const heddle_entry_params_t chain = Kernels::params_of(set)[index_of(set, "chain")];
  heddle_executable_t* executable = nullptr;
  heddle_entry_t* other = nullptr;
  REQUIRE_OK(load(session, set, {chain}, &executable));
  CHECK(chain_works(session, executable, 0),
        "'chain' as the only entry of an executable, whose code has more kernels, is not that kernel [HD-C-01]");
  EXPECT_CODE(session.tables().dispatch.entry(executable, 1, &other), HEDDLE_STATUS_NOT_FOUND);
  session.tables().dispatch.executable_unload(executable);
}

void code_may_go() {
  Session session;
  KernelSet set = chosen(session);
  auto code = std::make_unique<KernelSet>(set);
  heddle_executable_t* executable = nullptr;
  REQUIRE_OK(load(session, *code, Kernels::params_of(*code), &executable));
  std::fill(code->code.begin(), code->code.end(), '\x55');
  for (std::string& name : code->entries) std::fill(name.begin(), name.end(), '\x55');
  code.reset();
  CHECK(chain_works(session, executable, index_of(set, "chain")), "a kernel does not work once the caller's code bytes are freed");
  session.tables().dispatch.executable_unload(executable);
}

void callers_floating_point() {
#if defined(__x86_64__)
  // Rounding up, flushing to zero: the device's results must not depend on the thread that submits, waits or opens.
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~0x6000u) | 0x4000u | 0x8040u);
  Session session;
  Kernels kernels(&session);
  const float a[] = {1.0f, 1e-39f, 16777216.0f, -1.0f}, b[] = {1e-9f, 1e-39f, 1.0f, -1e-9f};
  heddle_buffer_t* buffers[] = {session.buffer(16), session.buffer(16), session.buffer(16)};
  session.upload(buffers[0], 0, a, 16);
  session.upload(buffers[1], 0, b, 16);
  List list;
  list.dispatch(kernels, "add", {{buffers[0], 0, 16}, {buffers[1], 0, 16}, {buffers[2], 0, 16}}, {4, kernels.set().elements_per_workgroup},
                kernels.groups_of(4));
  session.run(list);
  const std::vector<char> bytes = session.download(buffers[2], 0, 16);
  const unsigned during = _mm_getcsr();
  _mm_setcsr(before);
  CHECK((during & 0xffc0u) == (((before & ~0x6000u) | 0x4000u | 0x8040u) & 0xffc0u), "the caller's rounding mode was changed [HD-T-02]");
  float found[4];
  std::memcpy(found, bytes.data(), 16);
  const float expected[] = {1.0f, 2e-39f, 16777216.0f, -1.0f};
  for (int i = 0; i < 4; ++i) {
    CHECK(std::memcmp(&found[i], &expected[i], 4) == 0, "with the caller rounding up a sum is %.9g; %.9g was expected [HD-C-01]",
          static_cast<double>(found[i]), static_cast<double>(expected[i]));
  }
#else
  absent("the kit changes the floating-point environment on x86-64 only");
#endif
}

void empty_lists() {
  Session session;
  for (int i = 0; i < 10; ++i) session.run(List());
  List barriers;
  barriers.barrier().barrier().barrier();
  session.run(barriers);
  Result nothing = session.submit(List(), {}, {});
  CHECK(nothing.ok(), "a submission without commands, waits and signals returned %s", nothing.text().c_str());
}

}  // namespace

void add_dispatch_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"dispatch.kernels", "the device runs the kit's kernels: its own, or those of conformance/kernels.toml", kernels_are_there,
        Kind::kDriver},
       {"dispatch.bindings_and_constants", "a kernel gets its bindings and constants; sums are exact", bindings_and_constants,
        Kind::kDriver},
       {"dispatch.every_workgroup", "every workgroup of a grid runs once, numbered x fastest", every_workgroup_once, Kind::kDriver},
       {"dispatch.zero_workgroups", "a grid without workgroups does nothing, signals and orders", zero_workgroups, Kind::kDriver},
       {"dispatch.largest_grid", "the largest grid works in each dimension", largest_grid, Kind::kDriver},
       {"dispatch.grid_overflow", "a grid beyond the device's limit is refused [HD-M-02]", grid_overflow, Kind::kDriver},
       {"dispatch.counts", "wrong numbers of bindings or constants are INVALID_ARGUMENT", counts_must_fit, Kind::kDriver},
       {"dispatch.unknown_flags", "flags without a meaning and reserved fields are INVALID_ARGUMENT, of commands and of entries [HD-E-04]",
        unknown_flags, Kind::kDriver},
       {"dispatch.binding_bounds", "a binding that leaves its buffer is OUT_OF_RANGE [HD-M-02]", binding_bounds, Kind::kDriver},
       {"dispatch.arguments_copied", "submit reads none of the caller's memory after it has returned", arguments_are_copied, Kind::kDriver},
       {"dispatch.many_commands", "1000 dispatches with barriers run in order", many_commands, Kind::kDriver},
       {"dispatch.submissions_chain", "submissions that wait for each other run in order, across queues", submissions_chain, Kind::kDriver},
       {"dispatch.unknown_kernel", "a kernel or an entry that does not exist is NOT_FOUND", unknown_kernels, Kind::kDriver},
       {"dispatch.entry_counts", "an entry that declares other counts than its kernel has is INVALID_ARGUMENT at its load or its dispatch",
        entry_counts, Kind::kDriver},
       {"dispatch.foreign_code", "code of another format or target has no rank and is not loaded", foreign_code, Kind::kDriver},
       {"dispatch.broken_code", "bytes that are not a complete image are refused", broken_code, Kind::kDriver},
       {"dispatch.larger_entries", "entries are read at their stride, and a nonzero unknown end is refused", larger_entries, Kind::kDriver},
       {"dispatch.listed_entries", "an executable has the entries that it lists, even if its code has more", listed_entries, Kind::kDriver},
       {"dispatch.code_may_go", "the caller's code and names are not needed after loading", code_may_go, Kind::kDriver},
       {"dispatch.floating_point", "the caller's floating-point environment changes no number, and is left alone", callers_floating_point,
        Kind::kDriver},
       {"dispatch.empty_list", "a list without commands signals", empty_lists, Kind::kDriver}});
}

}  // namespace heddle::conformance
