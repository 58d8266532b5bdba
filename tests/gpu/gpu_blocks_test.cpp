// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle.blocks/1 of heddle.cuda: every type of blocks as every type of values, compared with the host's decoder bit by bit.
#include <cmath>
#include <random>

#include "cuda_case.h"
#include "sdk/module/block_types.h"

namespace heddle::test {
namespace {

constexpr const char* kTypes[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1",   "Q8_0",   "Q2_K",  "Q3_K",
                                  "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4"};
constexpr heddle_element_type_t kTargets[] = {HEDDLE_TYPE_F32, HEDDLE_TYPE_F16, HEDDLE_TYPE_BF16};

bool is_nan(const std::byte* value, heddle_element_type_t type) {
  uint32_t bits = 0;
  std::memcpy(&bits, value, type == HEDDLE_TYPE_F32 ? 4 : 2);
  const uint32_t infinity = type == HEDDLE_TYPE_F32 ? 0x7F800000 : type == HEDDLE_TYPE_F16 ? 0x7C00 : 0x7F80;
  return (bits & (type == HEDDLE_TYPE_F32 ? 0x7FFFFFFF : 0x7FFF)) > infinity;
}

class CudaBlocks : public Cuda {
 protected:
  void SetUp() override {
    Cuda::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    blocks = driver().blocks_api;
    ASSERT_TRUE(blocks) << "the plugin was built without clang++-19";
  }
  // Any bytes: scales are subnormal, infinite and NaN too.
  static std::vector<std::byte> random_bytes(uint64_t count) {
    std::vector<std::byte> bytes(count);
    std::mt19937_64 random(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }
  static heddle_encoded_t item(const module::BlockType& block, heddle_element_type_t type, uint64_t count, heddle_buffer_t* from,
                               uint64_t from_offset, heddle_buffer_t* to, uint64_t to_offset) {
    const uint64_t width = HEDDLE_TYPE_BITS(type) / 8;
    return {{block.name.data(), block.name.size()},         type, 0, count, {from, from_offset, count * block.bytes},
            {to, to_offset, count * block.elements * width}};
  }
  heddle_status_t* decode(const std::vector<heddle_encoded_t>& items) {
    heddle_timeline_t* done = driver().make_timeline();
    heddle_point_t point = {done, 1};
    heddle_sync_t sync = {sizeof sync, 0, 1, 0, nullptr, &point};
    return driver().await(blocks->decode(driver().queue, &sync, items.data(), items.size()), point);
  }
  static void expect_equal(const module::BlockType& block, heddle_element_type_t type, const std::byte* encoded, uint64_t count,
                           const std::byte* got) {
    const uint64_t width = HEDDLE_TYPE_BITS(type) / 8, values = count * block.elements;
    std::vector<std::byte> expected(values * width);
    module::decode_blocks(block, encoded, count, type, expected.data());
    for (uint64_t i = 0; i < values; ++i) {
      const std::byte *a = expected.data() + i * width, *b = got + i * width;
      if (std::memcmp(a, b, width) == 0 || (is_nan(a, type) && is_nan(b, type))) continue;
      uint32_t wanted = 0, have = 0;
      std::memcpy(&wanted, a, width);
      std::memcpy(&have, b, width);
      ADD_FAILURE() << block.name << " to type " << std::hex << type << ": value " << std::dec << i % block.elements << " of block "
                    << i / block.elements << " of " << count << " is " << std::hex << have << ", expected " << wanted;
      return;
    }
  }

  const heddle_blocks_interface_t* blocks = nullptr;
};

TEST_F(CudaBlocks, DecodesEveryTypeAsTheHostDoes) {
  constexpr uint64_t kGuard = 256;
  for (const char* name : kTypes) {
    const module::BlockType* block = module::block_type(name);
    ASSERT_TRUE(block) << name;
    for (const heddle_element_type_t type : kTargets) {
      EXPECT_OK(blocks->supports(driver().device, string_of(name), type));
      for (const uint64_t count : {1, 2, 7, 129, 4097}) {
        const std::vector<std::byte> encoded = random_bytes(count * block->bytes);
        const uint64_t bytes = count * block->elements * (HEDDLE_TYPE_BITS(type) / 8);
        heddle_buffer_t* from = driver().make_buffer(64 + encoded.size());
        driver().write(from, 64, encoded.data(), encoded.size());
        heddle_buffer_t* to = driver().make_filled(std::vector<std::byte>(kGuard + bytes + kGuard, std::byte{0xA5}));
        ASSERT_OK(decode({item(*block, type, count, from, 64, to, kGuard)}));
        const std::vector<std::byte> got = driver().values_of<std::byte>(to, kGuard + bytes + kGuard);
        expect_equal(*block, type, encoded.data(), count, got.data() + kGuard);
        for (uint64_t i = 0; i < kGuard; ++i) {
          ASSERT_EQ(got[i], std::byte{0xA5}) << name << ": byte " << i << " before the values";
          ASSERT_EQ(got[kGuard + bytes + i], std::byte{0xA5}) << name << ": byte " << i << " after the values";
        }
        free({from, to});
      }
    }
  }
}

TEST_F(CudaBlocks, DecodesSeveralItemsInTheOrderOfTheQueue) {
  const module::BlockType *q4 = module::block_type("Q4_K"), *q8 = module::block_type("Q8_0");
  const std::vector<std::byte> first = random_bytes(1000 * q4->bytes), second = random_bytes(333 * q8->bytes);
  const uint64_t at = 1000 * 144 / 64 * 64 + 64;
  heddle_buffer_t* from = driver().make_buffer(at + second.size());
  heddle_buffer_t* to = driver().make_buffer(1000 * 256 * 4 + 333 * 32 * 2);
  // Blocks arrive after decoding was enqueued: it waits for them.
  heddle_timeline_t *ready = driver().make_timeline(), *done = driver().make_timeline();
  const heddle_point_t waits = {ready, 1}, signals = {done, 1};
  heddle_sync_t sync = {sizeof sync, 1, 1, 0, &waits, &signals};
  {
    const std::vector<heddle_encoded_t> items = {item(*q4, HEDDLE_TYPE_F32, 1000, from, 0, to, 0),
                                                 item(*q8, HEDDLE_TYPE_F16, 333, from, at, to, 1000 * 256 * 4),
                                                 item(*q8, HEDDLE_TYPE_F16, 0, from, 0, to, 0)};
    ASSERT_OK(blocks->decode(driver().queue, &sync, items.data(), items.size()));
  }
  heddle_queue_t* other = driver().make_queue(driver().device);
  std::swap(other, driver().queue);
  driver().write(from, 0, first.data(), first.size());
  driver().write(from, at, second.data(), second.size());
  std::swap(other, driver().queue);
  ASSERT_OK(driver().timeline_api->signal(ready, 1));
  ASSERT_TRUE(driver().wait(done, 1).ok());
  const std::vector<std::byte> got = driver().values_of<std::byte>(to, 1000 * 256 * 4 + 333 * 32 * 2);
  expect_equal(*q4, HEDDLE_TYPE_F32, first.data(), 1000, got.data());
  expect_equal(*q8, HEDDLE_TYPE_F16, second.data(), 333, got.data() + 1000 * 256 * 4);
  EXPECT_OK(driver().device_api->queue_destroy(other));
  driver().timeline_api->destroy(ready);
  driver().timeline_api->destroy(done);
  free({from, to});
}

TEST_F(CudaBlocks, RefusesWhatDoesNotFit) {
  const module::BlockType* q8 = module::block_type("Q8_0");
  heddle_buffer_t *from = driver().make_buffer(34 * 64), *to = driver().make_buffer(32 * 4 * 64);
  EXPECT_FAILS(blocks->supports(driver().device, string_of("Q1_0"), HEDDLE_TYPE_F32), HEDDLE_STATUS_UNIMPLEMENTED, "'Q1_0'");
  EXPECT_FAILS(blocks->supports(driver().device, string_of("Q8_0"), HEDDLE_TYPE_F64), HEDDLE_STATUS_UNIMPLEMENTED, "f32, f16 and bf16");
  EXPECT_FAILS(blocks->supports(driver().device, {}, HEDDLE_TYPE_F32), HEDDLE_STATUS_UNIMPLEMENTED, "no kernel");
  auto with = [&](auto change) {
    heddle_encoded_t one = item(*q8, HEDDLE_TYPE_F32, 64, from, 0, to, 0);
    change(one);
    return decode({one});
  };
  EXPECT_FAILS(with([](auto& one) { one.block_type = string_of("Q7"); }), HEDDLE_STATUS_UNIMPLEMENTED, "'Q7'");
  EXPECT_FAILS(with([](auto& one) { one.count = 63; }), HEDDLE_STATUS_INVALID_ARGUMENT,
               "its source has 2176 bytes at 0, but its blocks need 2142");
  EXPECT_FAILS(with([](auto& one) { one.target.length = 12; }), HEDDLE_STATUS_INVALID_ARGUMENT, "its blocks need 8192");
  EXPECT_FAILS(with([](auto& one) { one.source.offset = 64; }), HEDDLE_STATUS_OUT_OF_RANGE, "but the buffer has 2176");
  EXPECT_FAILS(with([](auto& one) { one.target.offset = UINT64_MAX; }), HEDDLE_STATUS_OUT_OF_RANGE, "but the buffer has 8192");
  EXPECT_FAILS(with([](auto& one) { one.target.buffer = nullptr; }), HEDDLE_STATUS_INVALID_ARGUMENT, "but no buffer");
  EXPECT_FAILS(with([](auto& one) { one.count = UINT64_MAX / 2; }), HEDDLE_STATUS_OUT_OF_RANGE, "too many at once");
  heddle_encoded_t odd = item(*q8, HEDDLE_TYPE_F32, 1, from, 2, to, 0);
  EXPECT_FAILS(decode({odd}), HEDDLE_STATUS_INVALID_ARGUMENT, "no multiple of 16");
  EXPECT_OK(decode({}));
  free({from, to});
  expect_works();
}

}  // namespace
}  // namespace heddle::test
