// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter of host programs, instruction by instruction, and the packing of arenas. No device is involved.
#include "core/submit/interpreter.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "../support/module_builder.h"
#include "core/submit/arena.h"

namespace heddle::submit {
namespace {

namespace mf = module_format;
using testing::ProgramBuilder;

// Owns a program in its serialized form, as the interpreter reads it.
struct Running {
  explicit Running(std::unique_ptr<mf::ProgramT> program, std::vector<std::vector<int64_t>> dims = {}, open::Signature type = {},
                   std::vector<int64_t> symbol_values = {}, InterpreterLimits limits = {})
      : signature(std::move(type)), argument_dims(std::move(dims)), symbols(std::move(symbol_values)) {
    buffer.ForceDefaults(true);
    buffer.Finish(mf::Program::Pack(buffer, program.get()));
    interpreter.emplace(*flatbuffers::GetRoot<mf::Program>(buffer.GetBufferPointer()), signature, argument_dims, symbols, limits);
  }
  Result<Interpreter::Outcome> run() { return interpreter->run(); }

  flatbuffers::FlatBufferBuilder buffer;
  open::Signature signature;
  std::vector<std::vector<int64_t>> argument_dims;
  std::vector<int64_t> symbols;
  std::optional<Interpreter> interpreter;
};

struct ArithmeticCase {
  mf::Op op;
  int64_t left, right;
  std::optional<int64_t> expected;  // empty: fails
};

class Arithmetic : public ::testing::TestWithParam<ArithmeticCase> {};

TEST_P(Arithmetic, GivesTheResultOrFails) {
  const ArithmeticCase& one = GetParam();
  ProgramBuilder p;
  uint32_t left = p.literal(one.left), right = p.literal(one.right);
  uint32_t to = p.arithmetic(one.op, left, right);
  Running running(p.finish());
  Result<Interpreter::Outcome> outcome = running.run();
  ASSERT_EQ(outcome.ok(), one.expected.has_value()) << outcome.status().to_string();
  if (one.expected) {
    EXPECT_EQ(running.interpreter->register_value(to), *one.expected);
  } else {
    EXPECT_EQ(outcome.status().code(), HEDDLE_STATUS_INVALID_ARGUMENT);
    EXPECT_NE(outcome.status().message().find("instruction 2"), std::string_view::npos) << outcome.status().message();
  }
}

constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;
INSTANTIATE_TEST_SUITE_P(
    AllOps, Arithmetic,
    ::testing::Values(
        ArithmeticCase{mf::Op::Add, 2, 3, 5}, ArithmeticCase{mf::Op::Add, kMax, 1, {}}, ArithmeticCase{mf::Op::Add, kMin, -1, {}},
        ArithmeticCase{mf::Op::Add, kMax, kMin, -1}, ArithmeticCase{mf::Op::Sub, 2, 3, -1}, ArithmeticCase{mf::Op::Sub, kMin, 1, {}},
        ArithmeticCase{mf::Op::Sub, 0, kMin, {}}, ArithmeticCase{mf::Op::Mul, -4, 3, -12}, ArithmeticCase{mf::Op::Mul, kMin, -1, {}},
        ArithmeticCase{mf::Op::Mul, int64_t{1} << 32, int64_t{1} << 31, {}}, ArithmeticCase{mf::Op::FloorDiv, 7, 2, 3},
        ArithmeticCase{mf::Op::FloorDiv, -7, 2, -4}, ArithmeticCase{mf::Op::FloorDiv, 7, -2, -4},
        ArithmeticCase{mf::Op::FloorDiv, -7, -2, 3}, ArithmeticCase{mf::Op::FloorDiv, 6, -2, -3},
        ArithmeticCase{mf::Op::FloorDiv, 1, 0, {}}, ArithmeticCase{mf::Op::FloorDiv, kMin, -1, {}},
        ArithmeticCase{mf::Op::FloorDiv, 5, -1, -5}, ArithmeticCase{mf::Op::CeilDiv, 7, 2, 4}, ArithmeticCase{mf::Op::CeilDiv, -7, 2, -3},
        ArithmeticCase{mf::Op::CeilDiv, 7, -2, -3}, ArithmeticCase{mf::Op::CeilDiv, -7, -2, 4}, ArithmeticCase{mf::Op::CeilDiv, 6, 2, 3},
        ArithmeticCase{mf::Op::CeilDiv, 0, 5, 0}, ArithmeticCase{mf::Op::CeilDiv, 1, 0, {}}, ArithmeticCase{mf::Op::CeilDiv, kMin, -1, {}},
        ArithmeticCase{mf::Op::Mod, 7, 3, 1}, ArithmeticCase{mf::Op::Mod, -7, 3, 2}, ArithmeticCase{mf::Op::Mod, 7, -3, -2},
        ArithmeticCase{mf::Op::Mod, -7, -3, -1}, ArithmeticCase{mf::Op::Mod, 6, -3, 0}, ArithmeticCase{mf::Op::Mod, 1, 0, {}},
        ArithmeticCase{mf::Op::Mod, kMin, -1, 0}, ArithmeticCase{mf::Op::Min, -1, 1, -1}, ArithmeticCase{mf::Op::Max, -1, 1, 1},
        ArithmeticCase{mf::Op::Equal, 4, 4, 1}, ArithmeticCase{mf::Op::Equal, 4, 5, 0}, ArithmeticCase{mf::Op::Less, 4, 5, 1},
        ArithmeticCase{mf::Op::Less, 5, 5, 0}, ArithmeticCase{mf::Op::LessEqual, 5, 5, 1}, ArithmeticCase{mf::Op::LessEqual, 6, 5, 0}));

TEST(Interpreter, MovesAndReadsArgumentExtents) {
  ProgramBuilder p;
  uint32_t dim = p.argument_dim(1, 2), copy = p.reg();
  p.emit(mf::Op::Move, copy, dim);
  open::Signature signature;
  signature.arguments.resize(2);
  Running running(p.finish(), {{1}, {2, 3, 5}}, std::move(signature));
  ASSERT_TRUE(running.run().ok());
  EXPECT_EQ(running.interpreter->register_value(copy), 5);
}

TEST(Interpreter, SumsInALoop) {
  ProgramBuilder p;
  uint32_t n = p.literal(1000), one = p.literal(1), i = p.reg(), sum = p.reg(), more = p.reg();
  uint32_t loop = p.emit(mf::Op::Add, i, i, one);
  p.emit(mf::Op::Add, sum, sum, i);
  p.emit(mf::Op::Less, more, i, n);
  p.emit(mf::Op::BranchIf, loop, more);
  Running running(p.finish());
  ASSERT_TRUE(running.run().ok());
  EXPECT_EQ(running.interpreter->register_value(sum), 500500);
}

TEST(Interpreter, EndsEndlessLoopsAtItsBudget) {
  ProgramBuilder p;
  p.emit(mf::Op::Branch, 0);
  InterpreterLimits limits;
  limits.steps = 1000;
  Running running(p.finish(), {}, {}, {}, limits);
  Result<Interpreter::Outcome> outcome = running.run();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().code(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
}

TEST(Interpreter, FailsACheckWithItsMessage) {
  ProgramBuilder p;
  p.check(p.literal(1), "not this one");
  p.check(p.literal(0), "batch must be even");
  Running running(p.finish());
  Result<Interpreter::Outcome> outcome = running.run();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.status().message(), "batch must be even");
}

// The message of a check that compares two numbers. With `is_limit` the second one is a literal, else both are computed.
std::string refusal_of(mf::Op op, int64_t left, int64_t right, bool is_limit) {
  ProgramBuilder p;
  uint32_t zero = p.literal(0), a = p.arithmetic(mf::Op::Add, p.literal(left), zero);
  uint32_t b = is_limit ? p.literal(right) : p.arithmetic(mf::Op::Add, p.literal(right), zero);
  p.check(p.arithmetic(op, a, b), "no");
  Running running(p.finish());
  return running.run().take_status().to_string();
}

TEST(Interpreter, SaysWhatACheckCompared) {
  EXPECT_EQ(refusal_of(mf::Op::Equal, 6, 5, false), "INVALID_ARGUMENT: no; they are 6 and 5");
  EXPECT_EQ(refusal_of(mf::Op::LessEqual, 1, 0, false), "INVALID_ARGUMENT: no; 0 is below 1");
  EXPECT_EQ(refusal_of(mf::Op::LessEqual, 513, 512, true), "INVALID_ARGUMENT: no; 513 is above 512");
  EXPECT_EQ(refusal_of(mf::Op::Mul, 0, 5, false), "INVALID_ARGUMENT: no");
  EXPECT_EQ(refusal_of(mf::Op::Equal, 5, 5, false), "OK");
}

TEST(Interpreter, DoesNotSayWhatItNoLongerKnows) {
  ProgramBuilder p;
  uint32_t a = p.arithmetic(mf::Op::Add, p.literal(6), p.literal(0)), b = p.literal(5);
  uint32_t same = p.arithmetic(mf::Op::Equal, a, b);
  p.emit(mf::Op::Move, a, b);
  p.check(same, "no");
  Running running(p.finish());
  EXPECT_EQ(running.run().take_status().to_string(), "INVALID_ARGUMENT: no");
}

open::Signature one_result(std::vector<open::Extent> extents) {
  open::Signature signature;
  signature.results.push_back({"y", HEDDLE_TYPE_F32, 0, std::move(extents)});
  return signature;
}

TEST(Interpreter, FillsResultExtentsFromSymbolsStaticsAndTheProgram) {
  ProgramBuilder p;
  p.emit(mf::Op::ResultDim, 0, 2, p.literal(9));
  open::Signature signature = one_result({{4, -1}, {-1, 0}, {-1, -1}});
  signature.symbols.push_back({"n"});
  Running running(p.finish(), {}, std::move(signature), {7});
  ASSERT_TRUE(running.run().ok());
  EXPECT_EQ(running.interpreter->result_dims()[0], (std::vector<int64_t>{4, 7, 9}));
}

TEST(Interpreter, RefusesWrongResultExtents) {
  auto run = [](int64_t value, std::vector<open::Extent> extents) {
    ProgramBuilder p;
    p.emit(mf::Op::ResultDim, 0, 0, p.literal(value));
    Running running(p.finish(), {}, one_result(std::move(extents)));
    return running.run().take_status().to_string();
  };
  EXPECT_EQ(run(3, {{3, -1}}), "OK");
  EXPECT_NE(run(4, {{3, -1}}).find("extent 0 of result 'y' to 4, which is 3"), std::string::npos);
  EXPECT_NE(run(-1, {{-1, -1}}).find("to -1"), std::string::npos);
  EXPECT_NE(run(1, {{-1, -1}, {-1, -1}}).find("leaves extent 1 of result 'y' unset"), std::string::npos);
}

TEST(Interpreter, RecordsCommandsWithRegistersAsTheyAreThen) {
  ProgramBuilder p;
  uint32_t one = p.literal(1), size = p.literal(64), at = p.reg();
  uint32_t scratch = p.transient(size);
  uint32_t loop = p.dispatch("region", 3, {{scratch, at, one, testing::kReadWrite}}, {at, one}, {one, one, one});
  p.barrier();
  p.barrier();  // one is enough
  p.emit(mf::Op::Add, at, at, one);
  uint32_t three = p.literal(3);
  uint32_t more = p.arithmetic(mf::Op::Less, at, three);
  p.emit(mf::Op::BranchIf, loop, more);
  p.fill(ProgramBuilder::whole(scratch, testing::kWrite), 5, 1);
  Running running(p.finish());
  ASSERT_TRUE(running.run().ok());
  const Recording& recording = running.interpreter->recording();
  ASSERT_EQ(recording.commands.size(), 7u);
  for (uint32_t i = 0; i < 3; ++i) {
    const RecordedCommand& command = recording.commands[2 * i];
    EXPECT_EQ(command.kind, RecordedKind::kDispatch);
    EXPECT_EQ(command.entry, 3u);
    EXPECT_EQ(recording.bindings[command.first_binding].offset, i);
    EXPECT_EQ(recording.constants[command.first_constant], i);
    EXPECT_EQ(recording.commands[2 * i + 1].kind, RecordedKind::kBarrier);
  }
  EXPECT_EQ(recording.commands[6].kind, RecordedKind::kFill);
  EXPECT_EQ(recording.bindings[recording.commands[6].first_binding].length, kToEnd);
}

TEST(Interpreter, RefusesGridsOutside32Bits) {
  for (int64_t workgroups : {int64_t{-1}, int64_t{1} << 32}) {
    ProgramBuilder p;
    uint32_t many = p.literal(workgroups), one = p.literal(1);
    p.dispatch("region", 0, {}, {}, {one, many, one});
    Running running(p.finish());
    Result<Interpreter::Outcome> outcome = running.run();
    ASSERT_FALSE(outcome.ok());
    EXPECT_NE(outcome.status().message().find("workgroups in dimension 1"), std::string_view::npos);
  }
}

TEST(Interpreter, TakesTheFirstKernelWhoseGuardsHold) {
  const SlotDevice few{{}, 2}, many{{}, 16}, unknown{};
  for (const auto& [device, extent, entry] :
       {std::tuple(few, 5, 2u), std::tuple(many, 5, 0u), std::tuple(many, 50, 1u), std::tuple(few, 50, 2u), std::tuple(unknown, 5, 2u)}) {
    ProgramBuilder p;
    uint32_t one = p.literal(1), rows = p.literal(extent), units = p.reg();
    p.emit(mf::Op::ComputeUnits, units, 0);
    p.dispatch("region", 2, {}, {}, {one, one, one});
    auto& candidates = p.program->dispatches[0]->candidates;
    for (uint32_t special = 2; special-- > 0;) {
      auto candidate = std::make_unique<mf::CandidateT>(*candidates.back());
      candidate->entry = special;
      candidate->guards = {mf::Guard(units, 0, 6, INT64_MAX, 1)};
      if (special == 0) candidate->guards.emplace_back(rows, 0, 0, 12, 1);
      candidates.insert(candidates.begin(), std::move(candidate));
    }
    Running running(p.finish());
    const SlotDevice slots[] = {device};
    running.interpreter->describe_slots(slots);
    ASSERT_TRUE(running.run().ok());
    EXPECT_EQ(running.interpreter->register_value(units), device.compute_units);
    ASSERT_EQ(running.interpreter->recording().commands.size(), 1u);
    EXPECT_EQ(running.interpreter->recording().commands[0].entry, entry) << device.compute_units << " units, " << extent << " rows";
  }
}

TEST(Interpreter, NamesTheRegionThatHasNoKernelForTheExtents) {
  ProgramBuilder p;
  uint32_t one = p.literal(1), seven = p.literal(7);
  p.dispatch("matmul 4", 0, {}, {}, {one, one, one});
  p.program->dispatches[0]->candidates[0]->guards = {mf::Guard(seven, 0, 0, 100, 2)};
  Running running(p.finish());
  Result<Interpreter::Outcome> outcome = running.run();
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.status().message().find("region 'matmul 4'"), std::string_view::npos);
}

TEST(Interpreter, SuspendsAtAScalarAndGoesOn) {
  ProgramBuilder p;
  uint32_t eight = p.literal(8), scratch = p.transient(eight), got = p.reg(), zero = p.literal(0);
  p.emit(mf::Op::ReadScalar, got, scratch, zero);
  uint32_t twice = p.arithmetic(mf::Op::Add, got, got);
  Running running(p.finish());
  Result<Interpreter::Outcome> outcome = running.run();
  ASSERT_TRUE(outcome.ok());
  ASSERT_EQ(*outcome, Interpreter::Outcome::kNeedsScalar);
  EXPECT_EQ(running.interpreter->scalar().length, 8u);
  running.interpreter->answer(21);
  outcome = running.run();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(*outcome, Interpreter::Outcome::kFinished);
  EXPECT_EQ(running.interpreter->register_value(twice), 42);
}

// A loop of one dispatch, whose constant is fixed or not: a piece that never changes is skipped from its second step on.
TEST(Interpreter, SkipsAPieceThatIsAlwaysTheSame) {
  for (const bool is_fixed : {true, false}) {
    ProgramBuilder p;
    uint32_t one = p.literal(1), three = p.literal(3), i = p.reg(), over = p.reg();
    p.emit(mf::Op::Submit);
    uint32_t loop = p.emit(mf::Op::LessEqual, over, three, i);
    uint32_t leave = p.emit(mf::Op::BranchIf, 0, over);
    uint32_t first = p.dispatch("step", 0, {}, {is_fixed ? one : i}, {one, one, one});
    p.emit(mf::Op::Submit);
    p.emit(mf::Op::Add, i, i, one);
    p.emit(mf::Op::Branch, loop);
    p.program->code[leave] = mf::Instruction(static_cast<uint16_t>(mf::Op::BranchIf), 0, p.next_instruction(), over, 0);
    Running running(p.finish());
    Interpreter& interpreter = *running.interpreter;
    for (int piece = 0; piece <= 4; ++piece) {
      SCOPED_TRACE(piece);
      interpreter.begin_piece();
      Result<Interpreter::Outcome> outcome = running.run();
      ASSERT_TRUE(outcome.ok());
      ASSERT_EQ(*outcome, piece == 4 ? Interpreter::Outcome::kFinished : Interpreter::Outcome::kSubmit);
      const bool is_step = piece >= 1 && piece <= 3;
      EXPECT_EQ(interpreter.piece(), is_step ? first : Interpreter::kNoPiece);
      EXPECT_EQ(interpreter.was_skipped(), is_fixed && is_step && piece > 1);
      EXPECT_EQ(interpreter.recording().commands.size(), is_step && !interpreter.was_skipped() ? 1u : 0u);
      EXPECT_EQ(interpreter.is_steady(), is_fixed && is_step);
      if (interpreter.is_steady()) interpreter.skip_piece();
    }
    EXPECT_EQ(interpreter.register_value(i), 3);
  }
}

// A copy that moves: its piece is kept only if its frame holds for every step.
TEST(Interpreter, KeepsNoPieceWhoseMovingCopyChanges) {
  enum class Copy { kSameLength, kToTheEnd, kFromTheEnd, kVerdict };
  for (const Copy copy : {Copy::kSameLength, Copy::kToTheEnd, Copy::kFromTheEnd, Copy::kVerdict}) {
    SCOPED_TRACE(static_cast<int>(copy));
    ProgramBuilder p;
    const uint32_t eight = p.literal(8), offset = p.reg(), from = p.transient(p.literal(32)), to = p.transient(p.literal(32));
    const uint32_t verdict = p.value(mf::ValueKind::Verdict, 0);
    p.program->messages.push_back("an index");
    p.program->checks = std::make_unique<mf::KernelChecksT>();
    p.program->checks->all.emplace_back(0, 0, mf::CheckKind::Index, eight, 0);
    p.copy({from, offset, copy == Copy::kFromTheEnd ? testing::kWhole : eight, testing::kRead},
           copy == Copy::kVerdict ? ProgramBuilder::whole(verdict, testing::kWrite)
                                  : mf::BindingRef(to, offset, copy == Copy::kToTheEnd ? testing::kWhole : eight, testing::kWrite));
    p.emit(mf::Op::Submit);
    p.emit(mf::Op::Add, offset, offset, eight);
    Running running(p.finish());
    running.interpreter->begin_piece();
    Result<Interpreter::Outcome> outcome = running.run();
    ASSERT_TRUE(outcome.ok());
    ASSERT_EQ(*outcome, Interpreter::Outcome::kSubmit);
    EXPECT_EQ(running.interpreter->is_steady(), copy == Copy::kSameLength);
  }
}

TEST(Arena, NeverOverlapsWhatLivesTogether) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Slice> slices(1 + random() % 60);
    uint64_t sum = 0;
    std::vector<uint64_t> live(101, 0);
    for (Slice& slice : slices) {
      slice.size_bytes = random() % 8 == 0 ? 0 : 1 + random() % 10000;
      slice.alignment_bytes = uint64_t{64} << (random() % 4);
      slice.first = random() % 100;
      slice.last = slice.first + random() % (101 - slice.first);
      sum += slice.size_bytes + slice.alignment_bytes;
      for (uint32_t i = slice.first; i <= slice.last; ++i) live[i] += slice.size_bytes;
    }
    Result<uint64_t> total = pack(slices);
    ASSERT_TRUE(total.ok());
    EXPECT_LE(*total, sum);
    EXPECT_GE(*total, *std::max_element(live.begin(), live.end()));
    for (size_t i = 0; i < slices.size(); ++i) {
      EXPECT_EQ(slices[i].offset % slices[i].alignment_bytes, 0u);
      EXPECT_LE(slices[i].offset + slices[i].size_bytes, *total);
      for (size_t j = 0; j < i; ++j) {
        bool together = slices[i].first <= slices[j].last && slices[j].first <= slices[i].last;
        bool overlap =
            slices[i].offset < slices[j].offset + slices[j].size_bytes && slices[j].offset < slices[i].offset + slices[i].size_bytes;
        EXPECT_FALSE(together && overlap && slices[i].size_bytes && slices[j].size_bytes) << i << " and " << j;
      }
    }
  }
}

TEST(Arena, PacksAChainIntoTwoSlices) {
  std::vector<Slice> slices(50);
  for (uint32_t i = 0; i < slices.size(); ++i) slices[i] = {4096, 64, 2 * i, 2 * i + 2, 0};
  Result<uint64_t> total = pack(slices);
  ASSERT_TRUE(total.ok());
  EXPECT_EQ(*total, 8192u);
}

void expect_apart(const std::vector<Slice>& slices, uint64_t total) {
  for (size_t i = 0; i < slices.size(); ++i) {
    EXPECT_LE(slices[i].offset + slices[i].size_bytes, total);
    for (size_t j = 0; j < i; ++j) {
      const bool together = slices[i].first <= slices[j].last && slices[j].first <= slices[i].last;
      const bool overlap =
          slices[i].offset < slices[j].offset + slices[j].size_bytes && slices[j].offset < slices[i].offset + slices[i].size_bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(Packings, GrowInSteps) {
  Packings packings;
  std::set<uint64_t> totals;
  std::vector<uint64_t> offsets;
  for (uint64_t length = 128; length <= 1024; ++length) {
    // Some grow with the length, and some do not.
    std::vector<Slice> slices = {{2304, 64, 0, 2, 0}, {length * 64, 64, 1, 3, 0}, {length * 4, 64, 2, 4, 0}, {768, 64, 3, 5, 0}};
    Result<uint64_t> total = packings.pack(slices);
    ASSERT_TRUE(total.ok());
    expect_apart(slices, *total);
    std::vector<Slice> alone = slices;
    EXPECT_LE(*total, *pack(alone) / 8 * 9 + 256) << length;
    totals.insert(*total);
  }
  EXPECT_LE(totals.size(), 26u) << "eight for each of three doublings, and the first ones";
}

TEST(Packings, AreForSlicesThatLiveAlikeAndAreNotMuchSmaller) {
  Packings packings;
  std::vector<Slice> slices = {{6400, 64, 0, 2, 0}, {6400, 64, 1, 3, 0}}, smaller = {{640, 64, 0, 2, 0}, {640, 64, 1, 3, 0}},
                     others = {{6400, 64, 0, 1, 0}, {6400, 64, 2, 3, 0}},
                     more = {{6400, 64, 0, 2, 0}, {6400, 64, 1, 3, 0}, {64, 64, 1, 1, 0}};
  EXPECT_EQ(*packings.pack(slices), 12800u);
  EXPECT_EQ(*packings.pack(smaller), 1280u);
  EXPECT_EQ(*packings.pack(others), 6400u);
  EXPECT_EQ(*packings.pack(more), 12864u);
  EXPECT_EQ(*packings.pack(slices), 12800u);
  expect_apart(slices, 12800);
  std::vector<Slice> large = {{UINT64_MAX, 64, 0, 1, 0}};
  EXPECT_FALSE(packings.pack(large).ok());
}

// Many values that live one after another, and a large one behind them: the sum of all says little of what lives at once.
std::vector<Slice> chain_and(uint64_t large) {
  std::vector<Slice> slices(24);
  for (uint32_t i = 0; i < slices.size(); ++i) slices[i] = {16384, 64, i, i + 1, 0};
  slices.push_back({large, 64, 30, 31, 0});
  return slices;
}

TEST(Packings, GiveNoRoomForWhatHasShrunk) {
  Packings packings;
  std::vector<Slice> large = chain_and(89600), small = chain_and(256), again = chain_and(89600);
  EXPECT_EQ(*packings.pack(large), 89600u);
  EXPECT_EQ(*packings.pack(small), 32768u);
  expect_apart(small, 32768);
  EXPECT_EQ(*packings.pack(again), 89600u) << "that packing is still there";
  std::vector<Slice> none = chain_and(0), few = chain_and(64);
  EXPECT_EQ(*packings.pack(none), 32768u);
  EXPECT_EQ(*packings.pack(few), 32768u);
  expect_apart(few, 32768);
}

TEST(Packings, GiveUpToAnEighthMore) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    Packings packings;
    std::vector<Slice> lives(1 + random() % 30);
    for (Slice& slice : lives) {
      slice.first = random() % 40;
      slice.last = slice.first + random() % 4;
    }
    for (int call = 0; call < 30; ++call) {
      const uint64_t length = 1 + random() % 64;
      std::vector<Slice> slices = lives;
      for (size_t i = 0; i < slices.size(); ++i) slices[i].size_bytes = i % 3 == 0 ? 512 : i % 3 == 1 ? length * 64 : 64 * 64 / length;
      std::vector<Slice> alone = slices;
      Result<uint64_t> total = packings.pack(slices);
      ASSERT_TRUE(total.ok());
      expect_apart(slices, *total);
      EXPECT_LE(*total, *pack(alone) / 8 * 9 + 64 * slices.size()) << round << ", " << call;
    }
  }
}

TEST(Arena, RefusesMoreThanItCounts) {
  std::vector<Slice> one = {{UINT64_MAX, 64, 0, 1, 0}};
  EXPECT_FALSE(pack(one).ok());
  std::vector<Slice> many(10, Slice{uint64_t{1} << 47, 64, 0, 1, 0});
  EXPECT_FALSE(pack(many).ok());
}

}  // namespace
}  // namespace heddle::submit
