// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layout of the public structs is frozen: a field that moves, or a struct that shrinks, breaks plugins that are out there.
#include <gtest/gtest.h>

#include <cstddef>

#include "heddle/allocator.h"
#include "heddle/code.h"
#include "heddle/compiler.h"
#include "heddle/driver.h"
#include "heddle/ext/blocks.h"
#include "heddle/ext/dlpack.h"
#include "heddle/ext/library.h"
#include "heddle/ext/native.h"
#include "heddle/ext/profile.h"
#include "heddle/plugin.h"
#include "heddle/runtime.h"
#include "heddle/target.h"

namespace {

// Structs whose comment says "Frozen", and those that other structs hold by value, keep their size too; others may grow.
#define SIZE(type, bytes) EXPECT_GE(sizeof(type), static_cast<size_t>(bytes)) << #type;
#define FIELD(type, field, offset) EXPECT_EQ(offsetof(type, field), static_cast<size_t>(offset)) << #type "." #field;

TEST(Layout, FieldsAreWhereAbi01HasThem) {
#include "layout_0_1.inc"
}

TEST(Layout, FieldsAreWhereAbi02HasThem) {
#include "layout_0_2.inc"
}

TEST(Layout, FieldsAreWhereAbi03HasThem) {
#include "layout_0_3.inc"
}

TEST(Layout, FrozenStructsKeepTheirSize) {
  EXPECT_EQ(sizeof(heddle_string_t), 16u);
  EXPECT_EQ(sizeof(heddle_point_t), 16u);
  EXPECT_EQ(sizeof(heddle_binding_t), 24u);
  EXPECT_EQ(sizeof(heddle_command_t), 64u);
  EXPECT_EQ(sizeof(heddle_extent_t), 32u);
  EXPECT_EQ(sizeof(heddle_argument_t), 24u);
  EXPECT_EQ(sizeof(heddle_block_t), 32u);
  EXPECT_EQ(sizeof(heddle_memory_count_t), 24u);
  EXPECT_EQ(sizeof(heddle_holder_t), 48u);
  EXPECT_EQ(sizeof(heddle_sync_t), 32u);
  EXPECT_EQ(sizeof(heddle_tensor_map_t), 168u);
  EXPECT_EQ(sizeof(heddle_x86_64_dispatch_t), 40u);
  EXPECT_EQ(sizeof(heddle_slot_binding_t), 32u);
  EXPECT_EQ(sizeof(heddle_parameter_file_t), 32u);
  EXPECT_EQ(sizeof(heddle_object_t), 8u);
  EXPECT_EQ(sizeof(heddle_command_time_t), 16u);
  EXPECT_EQ(sizeof(heddle_encoded_t), 80u);
  EXPECT_EQ(sizeof(heddle_target_expression_t), 24u);
  EXPECT_EQ(sizeof(heddle_target_guard_t), 24u);
  EXPECT_EQ(sizeof(heddle_dlpack_tensor_t), 48u);
  EXPECT_EQ(sizeof(heddle_dlpack_managed_t), 80u);
}

TEST(Layout, CommandsFitTheirSlot) {
  EXPECT_LE(sizeof(heddle_dispatch_command_t), sizeof(heddle_command_t) - offsetof(heddle_command_t, as));
  EXPECT_LE(sizeof(heddle_copy_command_t), sizeof(heddle_command_t) - offsetof(heddle_command_t, as));
  EXPECT_LE(sizeof(heddle_fill_command_t), sizeof(heddle_command_t) - offsetof(heddle_command_t, as));
  EXPECT_LE(sizeof(heddle_update_command_t), sizeof(heddle_command_t) - offsetof(heddle_command_t, as));
  EXPECT_LE(sizeof(heddle_copy_2d_command_t), sizeof(heddle_command_t) - offsetof(heddle_command_t, as));
}

}  // namespace
