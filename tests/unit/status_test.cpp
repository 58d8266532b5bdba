// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statuses: ownership, payloads, texts, and what happens when memory runs out.
#include "core/status.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace heddle {
namespace {

TEST(Status, NullIsSuccess) {
  EXPECT_EQ(heddle_status_code(nullptr), HEDDLE_STATUS_OK);
  EXPECT_EQ(heddle_status_message(nullptr).size, 0u);
  EXPECT_EQ(heddle_status_native_code(nullptr), 0);
  heddle_status_free(nullptr);
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().to_string(), "OK");
  EXPECT_EQ(status_clone(nullptr), nullptr);
}

TEST(Status, CopiesItsTexts) {
  std::string message = "cuda: allocating 8 bytes failed: out of memory", domain = "cuda";
  Status status(status_create(HEDDLE_STATUS_RESOURCE_EXHAUSTED, message, domain, 2));
  message.assign(message.size(), '?');
  domain.assign(domain.size(), '?');
  EXPECT_EQ(status.code(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.message(), "cuda: allocating 8 bytes failed: out of memory");
  EXPECT_EQ(view(heddle_status_domain(status.get())), "cuda");
  EXPECT_EQ(heddle_status_native_code(status.get()), 2);
}

TEST(Status, IsNeverOkAsAnObject) {
  EXPECT_EQ(Status(status_create(HEDDLE_STATUS_OK, "")).code(), HEDDLE_STATUS_UNKNOWN);
}

TEST(Status, ClonesShareOneObject) {
  Status status(HEDDLE_STATUS_INTERNAL, "x");
  Status clone = status.clone();
  EXPECT_EQ(clone.get(), status.get());
  status = Status();
  EXPECT_EQ(clone.message(), "x");
}

TEST(Status, KeepsBorrowedPayloadsWhenMoreAreAdded) {
  Status status(HEDDLE_STATUS_INTERNAL, "x");
  status_set_payload(const_cast<heddle_status_t*>(status.get()), "file", "a.safetensors");
  std::string_view borrowed = view(heddle_status_payload(status.get(), to_c("file")));
  for (int i = 0; i < 100; ++i) status_set_payload(const_cast<heddle_status_t*>(status.get()), "key" + std::to_string(i), "value");
  status_set_payload(const_cast<heddle_status_t*>(status.get()), "file", "b.safetensors");
  EXPECT_EQ(borrowed, "a.safetensors");
  EXPECT_EQ(view(heddle_status_payload(status.get(), to_c("file"))), "b.safetensors");
  EXPECT_EQ(view(heddle_status_payload(status.get(), to_c("nothing"))), "");
}

TEST(Status, GetsPayloadsFromSeveralThreads) {
  Status status(HEDDLE_STATUS_INTERNAL, "x");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([clone = status.clone(), t]() mutable {
      for (int i = 0; i < 100; ++i) {
        status_set_payload(const_cast<heddle_status_t*>(clone.get()), std::to_string(t), std::to_string(i));
        Status other = clone.clone();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 4; ++t) EXPECT_EQ(view(heddle_status_payload(status.get(), to_c(std::to_string(t)))), "99");
}

TEST(Status, SurvivesMemoryThatRunsOut) {
  // A size that no allocation can meet stands for an exhausted heap.
  const char* nowhere = "";
  Status status(status_create(HEDDLE_STATUS_INTERNAL, std::string_view(nowhere, SIZE_MAX - 8)));
  EXPECT_EQ(status.code(), HEDDLE_STATUS_RESOURCE_EXHAUSTED);
  EXPECT_NE(status.message().find("out of memory"), std::string_view::npos);
  status_set_payload(const_cast<heddle_status_t*>(status.get()), "key", "value");
  Status clone = status.clone();
  EXPECT_EQ(clone.get(), status.get());
}

TEST(Status, NamesEveryCode) {
  EXPECT_EQ(view(heddle_status_code_name(HEDDLE_STATUS_OK)), "OK");
  EXPECT_EQ(view(heddle_status_code_name(HEDDLE_STATUS_NOT_FOUND)), "NOT_FOUND");
  EXPECT_EQ(view(heddle_status_code_name(HEDDLE_STATUS_UNAUTHENTICATED)), "UNAUTHENTICATED");
  EXPECT_EQ(view(heddle_status_code_name(HEDDLE_STATUS_DEVICE_LOST)), "DEVICE_LOST");
  EXPECT_EQ(view(heddle_status_code_name(4711)), "UNKNOWN_CODE");
}

TEST(Status, FormatsAndWraps) {
  Status status = error(HEDDLE_STATUS_NOT_FOUND, "host: finding {} of {} failed", "gpu0", 3);
  EXPECT_EQ(status.to_string(), "NOT_FOUND: host: finding gpu0 of 3 failed");
  status = wrap(std::move(status), "slot @a");
  EXPECT_EQ(status.to_string(), "NOT_FOUND: slot @a: host: finding gpu0 of 3 failed");
  EXPECT_TRUE(wrap(Status(), "slot @a").ok());
}

TEST(Status, KeepsPayloadsDomainAndNativeCodeWhenWrapped) {
  Status status(status_create(HEDDLE_STATUS_INTERNAL, "x", "cuda", 700));
  for (const char* value : {"1", "2", "3"}) status = std::move(status).payload("region", value);
  status = std::move(status).payload("file", "a.safetensors");
  for (int i = 0; i < 3; ++i) status = wrap(std::move(status), "layer");
  EXPECT_EQ(status.message(), "layer: layer: layer: x");
  EXPECT_EQ(view(heddle_status_domain(status.get())), "cuda");
  EXPECT_EQ(heddle_status_native_code(status.get()), 700);
  EXPECT_EQ(view(heddle_status_payload(status.get(), to_c("region"))), "3") << "of several under one key the last one";
  EXPECT_EQ(view(heddle_status_payload(status.get(), to_c("file"))), "a.safetensors");
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<std::string> value(std::string("x"));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, "x");
  Result<std::string> failure(error(HEDDLE_STATUS_INTERNAL, "y"));
  ASSERT_FALSE(failure.ok());
  EXPECT_EQ(failure.status().message(), "y");
}

}  // namespace
}  // namespace heddle
