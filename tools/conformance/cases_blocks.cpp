// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: heddle.blocks/1. Values are compared with those of the host, which follow the definitions of the types.
#include <algorithm>
#include <cstring>

#include "sdk/module/block_types.h"
#include "session.h"

namespace heddle::conformance {
namespace {

using Bytes = std::vector<char>;

constexpr uint64_t kAlignment = 64;  // of sources and targets
constexpr char kUntouched = static_cast<char>(0xa5);

struct Decoder {
  const module::BlockType* block;
  heddle_element_type_t type;

  uint64_t width() const { return HEDDLE_TYPE_BITS(type) / 8; }
  uint64_t source_bytes(uint64_t count) const { return count * block->bytes; }
  uint64_t target_bytes(uint64_t count) const { return count * block->elements * width(); }
  const char* type_name() const { return type == HEDDLE_TYPE_F32 ? "f32" : type == HEDDLE_TYPE_F16 ? "f16" : "bf16"; }
  std::string name() const { return std::string(block->name) + " to " + type_name(); }
  Bytes values(const Bytes& blocks) const {
    const uint64_t count = blocks.size() / block->bytes;
    Bytes out(target_bytes(count));
    module::decode_blocks(*block, reinterpret_cast<const std::byte*>(blocks.data()), count, type, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
};

heddle_string_t name_of(const module::BlockType& block) {
  return {block.name.data(), block.name.size()};
}

// What the device says that it decodes; the case is absent if it decodes nothing.
std::vector<Decoder> decoders_of(const Session& session) {
  std::vector<Decoder> out;
  for (const module::BlockType& block : module::block_types()) {
    for (heddle_element_type_t type : {HEDDLE_TYPE_F32, HEDDLE_TYPE_F16, HEDDLE_TYPE_BF16}) {
      Result answer(session.tables().blocks.supports(session.device, name_of(block), type));
      CHECK(answer.ok() || answer.code() == HEDDLE_STATUS_UNIMPLEMENTED,
            "supports of %s returned %s; success or UNIMPLEMENTED was expected", std::string(block.name).c_str(), answer.text().c_str());
      if (answer.ok() && block.decode) out.push_back({&block, type});
    }
  }
  if (out.empty()) absent("it decodes no blocks of a type that the host knows, which is optional");
  return out;
}

// Blocks in a buffer, and the place of their values in another.
struct Item {
  Decoder decoder;
  Bytes blocks;
  uint64_t source_offset, target_offset;
};

heddle_encoded_t encoded(const Item& item, heddle_buffer_t* source, heddle_buffer_t* target) {
  const uint64_t count = item.blocks.size() / item.decoder.block->bytes;
  return {name_of(*item.decoder.block),
          item.decoder.type,
          0,
          count,
          {source, item.source_offset, item.decoder.source_bytes(count)},
          {target, item.target_offset, item.decoder.target_bytes(count)}};
}

Result decode(const Session& session, const std::vector<heddle_encoded_t>& items, const std::vector<heddle_point_t>& waits,
              const std::vector<heddle_point_t>& signals) {
  const heddle_sync_t sync = session.sync(waits, signals);
  return Result(session.tables().blocks.decode(session.queue, &sync, items.data(), items.size()));
}

uint64_t round_up(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The bits of an element, and whether it is a NaN.
uint32_t bits_at(const Bytes& bytes, uint64_t element, uint64_t width) {
  uint32_t bits = 0;
  std::memcpy(&bits, bytes.data() + element * width, width);
  return bits;
}
bool is_nan(uint32_t bits, heddle_element_type_t type) {
  const uint32_t infinity = type == HEDDLE_TYPE_F32 ? 0x7f800000 : type == HEDDLE_TYPE_F16 ? 0x7c00 : 0x7f80;
  const uint32_t sign = type == HEDDLE_TYPE_F32 ? 0x80000000 : 0x8000;
  return (bits & ~sign) > infinity;
}

void expect_values(const Decoder& decoder, const Bytes& found, const Bytes& expected) {
  for (uint64_t i = 0; i < expected.size() / decoder.width(); ++i) {
    const uint32_t got = bits_at(found, i, decoder.width()), wanted = bits_at(expected, i, decoder.width());
    if (got == wanted || (is_nan(got, decoder.type) && is_nan(wanted, decoder.type))) continue;
    fail("%s: element %llu of block %llu has the bits 0x%x; the definition of the type gives 0x%x", decoder.name().c_str(),
         number(i % decoder.block->elements), number(i / decoder.block->elements), got, wanted);
    return;
  }
}

// Several items of each type in one call, with random bits, which are also infinities and NaNs.
void values() {
  Session session;
  for (const Decoder& decoder : decoders_of(session)) {
    std::vector<Item> items;
    uint64_t source_bytes = 0, target_bytes = 0;
    for (uint64_t count : {uint64_t{1}, uint64_t{3}, uint64_t{70} + random_below(100)}) {
      Item item{decoder, random_bytes(decoder.source_bytes(count)), source_bytes, target_bytes};
      source_bytes = round_up(source_bytes + decoder.source_bytes(count));
      target_bytes = round_up(target_bytes + decoder.target_bytes(count) + 1);
      items.push_back(std::move(item));
    }
    heddle_buffer_t* source = session.buffer(source_bytes);
    heddle_buffer_t* target = session.buffer(target_bytes);
    for (const Item& item : items) session.upload(source, item.source_offset, item.blocks.data(), item.blocks.size());
    List clear;
    session.run(clear.fill(target, 0, target_bytes, static_cast<uint8_t>(kUntouched), 1));
    std::vector<heddle_encoded_t> encoded_items;
    for (const Item& item : items) encoded_items.push_back(encoded(item, source, target));
    const heddle_point_t done = session.point();
    REQUIRE_OK(decode(session, encoded_items, {}, {done}).release());
    session.reach(done);
    const Bytes found = session.download(target, 0, target_bytes);
    uint64_t end = 0;
    for (const Item& item : items) {
      const Bytes expected = decoder.values(item.blocks);
      const auto begin = found.begin() + static_cast<long>(item.target_offset);
      CHECK(std::all_of(found.begin() + static_cast<long>(end), begin, [](char byte) { return byte == kUntouched; }),
            "%s: bytes before the target of an item were changed", decoder.name().c_str());
      end = item.target_offset + expected.size();
      expect_values(decoder, Bytes(begin, found.begin() + static_cast<long>(end)), expected);
    }
    CHECK(std::all_of(found.begin() + static_cast<long>(end), found.end(), [](char byte) { return byte == kUntouched; }),
          "%s: bytes after the target of an item were changed", decoder.name().c_str());
    session.free(source);
    session.free(target);
    if (failed()) return;
  }
}

// Between a copy of the blocks and one of the values, which wait for other work; the caller has changed the items by then.
void order() {
  Session session;
  const Decoder decoder = decoders_of(session)[0];
  const uint64_t count = 200;
  const uint64_t target_bytes = decoder.target_bytes(count), source_bytes = decoder.source_bytes(count);
  heddle_buffer_t* stage = session.buffer(source_bytes);
  heddle_buffer_t* source = session.buffer(source_bytes);
  heddle_buffer_t* target = session.buffer(target_bytes);
  heddle_buffer_t* result = session.buffer(target_bytes);
  for (int round = 0; round < 5; ++round) {
    const Item item{decoder, random_bytes(source_bytes), 0, 0};
    session.upload(stage, 0, item.blocks.data(), source_bytes);
    List clear;
    session.run(clear.fill(source, 0, source_bytes, 0, 1).fill(target, 0, target_bytes, 0, 1).fill(result, 0, target_bytes, 0, 1));
    const heddle_point_t gate = session.point(), copied = session.point(), decoded = session.point(), done = session.point();
    List before, after;
    session.keep_busy(gate);
    REQUIRE_OK(session.submit(before.copy(stage, 0, source, 0, source_bytes), {gate}, {copied}).release());
    std::vector<heddle_encoded_t> items = {encoded(item, source, target)};
    REQUIRE_OK(decode(session, items, {copied}, {decoded}).release());
    items[0] = {string_of("of the caller again"), 0, 0, 0, {}, {}};
    REQUIRE_OK(session.submit(after.copy(target, 0, result, 0, target_bytes), {decoded}, {done}).release());
    session.reach(done);
    expect_values(decoder, session.download(result, 0, target_bytes), decoder.values(item.blocks));
    if (failed()) return;
  }
  // A failed wait becomes the failure of the signal.
  const heddle_point_t poisoned = session.point(), after = session.point();
  session.tables().timeline.fail(poisoned.timeline, 1, make_status(HEDDLE_STATUS_ABORTED, "the kit's"));
  Result enqueued = decode(session, {encoded({decoder, Bytes(source_bytes), 0, 0}, source, target)}, {poisoned}, {after});
  REQUIRE(enqueued.ok(), "decoding whose wait has failed returned %s; its signal fails", enqueued.text().c_str());
  EXPECT_CODE(session.wait(after).release(), HEDDLE_STATUS_ABORTED);
}

void refused() {
  Session session;
  const Decoder decoder = decoders_of(session)[0];
  const uint64_t count = 8, source_bytes = decoder.source_bytes(count), target_bytes = decoder.target_bytes(count);
  heddle_buffer_t* source = session.buffer(source_bytes);
  heddle_buffer_t* target = session.buffer(2 * round_up(target_bytes));
  const Item item{decoder, Bytes(source_bytes), 0, 0};
  List clear;
  session.run(clear.fill(source, 0, source_bytes, 0, 1).fill(target, 0, 2 * round_up(target_bytes), 0x5a, 1));
  const heddle_encoded_t good = encoded(item, source, target);
  auto changed = [&](auto change) {
    heddle_encoded_t bad = good;
    bad.target.offset = round_up(target_bytes);
    change(bad);
    return bad;
  };
  const std::pair<const char*, heddle_encoded_t> kBad[] = {
      {"a source that is a byte short", changed([](heddle_encoded_t& item) { --item.source.length; })},
      {"a target that is a byte too long", changed([](heddle_encoded_t& item) { ++item.target.length; })},
      {"a block more than the source has", changed([](heddle_encoded_t& item) { ++item.count; })},
      {"a source beyond its buffer", changed([&](heddle_encoded_t& item) { item.source.offset = round_up(source_bytes); })},
      {"a target beyond its buffer", changed([&](heddle_encoded_t& item) { item.target.offset = 2 * round_up(target_bytes); })},
      {"2^60 blocks", changed([](heddle_encoded_t& item) { item.count = uint64_t{1} << 60; })},
  };
  const heddle_point_t done = session.point();
  for (const auto& [what, bad] : kBad) {
    Result answer = decode(session, {good, bad}, {}, {done});
    CHECK(answer.code() == HEDDLE_STATUS_INVALID_ARGUMENT || answer.code() == HEDDLE_STATUS_OUT_OF_RANGE,
          "decoding %s returned %s; INVALID_ARGUMENT or OUT_OF_RANGE was expected", what, answer.text().c_str());
  }
  const heddle_encoded_t unknown = changed([](heddle_encoded_t& item) { item.block_type = string_of("Q77_K"); });
  EXPECT_CODE(session.tables().blocks.supports(session.device, unknown.block_type, HEDDLE_TYPE_F32), HEDDLE_STATUS_UNIMPLEMENTED);
  EXPECT_CODE(session.tables().blocks.supports(session.device, good.block_type, HEDDLE_TYPE_I32), HEDDLE_STATUS_UNIMPLEMENTED);
  EXPECT_CODE(decode(session, {good, unknown}, {}, {done}).release(), HEDDLE_STATUS_UNIMPLEMENTED);
  EXPECT_CODE(session.wait(done, 20000000).release(), HEDDLE_STATUS_DEADLINE_EXCEEDED);
  const Bytes found = session.download(target, 0, 2 * round_up(target_bytes));
  CHECK(std::all_of(found.begin(), found.end(), [](char byte) { return byte == 0x5a; }), "a call that was refused has decoded an item");
  // The same signal can still be used.
  REQUIRE_OK(decode(session, {good}, {}, {done}).release());
  session.reach(done);
}

}  // namespace

void add_blocks_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"blocks.values", "blocks of each type that supports accepts have the values of its definition", values, Kind::kDriver},
       {"blocks.order", "blocks are decoded after the waits, before the signals, and fail with their waits", order, Kind::kDriver},
       {"blocks.refused", "lengths that do not match and unknown types are refused, and nothing is enqueued", refused, Kind::kDriver}});
}

}  // namespace heddle::conformance
