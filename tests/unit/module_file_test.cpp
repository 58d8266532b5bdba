// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files as a whole: round trip, determinism, truncation, flipped bits, versions, failing writes.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "../temporary_folder.h"
#include "module_sample.h"
#include "sdk/module/layout.h"
#include "sdk/module/reader.h"
#include "sdk/module/verifier.h"

namespace heddle::module {
namespace {

using ::heddle::testing::read_file;
using ::heddle::testing::TemporaryFolder;
using ::heddle::testing::write_file;

std::string write_sample(const std::string& path) {
  ModuleWriter writer;
  auto module = sample::make(writer);
  Status failed = writer.write(module, path);
  EXPECT_FALSE(failed) << failed->message;
  return read_file(path);
}

FileHeader header_of(const std::string& bytes) {
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

TEST(ModuleFile, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  write_sample(folder.path("m.heddle"));
  auto opened = open_module(folder.path("m.heddle"));
  ASSERT_TRUE(opened) << opened.error().message;
  const Module& module = *opened.value();
  const auto& metadata = module.metadata();
  EXPECT_EQ(metadata.name()->str(), "every construct");
  ASSERT_EQ(metadata.functions()->size(), 1u);
  EXPECT_EQ(metadata.functions()->Get(0)->programs()->Get(0)->code()->size(), 15u);
  const auto& variants = *metadata.executables()->Get(0)->variants();
  const auto v3 = module.code(*variants.Get(0)->code());
  EXPECT_TRUE(std::equal(v3.begin(), v3.end(), sample::code_v3().begin(), sample::code_v3().end()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(v3.data()) % kPageAlignment, 0u);
  const auto v4 = module.code(*variants.Get(1)->code());
  EXPECT_TRUE(std::equal(v4.begin(), v4.end(), sample::code_v4().begin(), sample::code_v4().end()));
  const auto* table = metadata.globals()->Get(2);
  const auto constant = module.constants(*table->data());
  EXPECT_EQ(table->size_bytes(), sample::constant().size());
  EXPECT_TRUE(std::equal(constant.begin(), constant.end(), sample::constant().begin(), sample::constant().end()));
}

TEST(ModuleFile, ParametersAreFoundThroughTheDescriptor) {
  TemporaryFolder folder;
  write_sample(folder.path("m.heddle"));
  auto opened = open_module(folder.path("m.heddle"));
  ASSERT_TRUE(opened) << opened.error().message;
  const Module& module = *opened.value();
  const auto& parameters = *module.metadata().parameters();
  for (uint32_t i = 0; i < 2; ++i) {
    const FileExtent extent = module.parameter_extent(*parameters.Get(i));
    const auto& expected = i == 0 ? sample::weight() : sample::bias();
    ASSERT_EQ(extent.length, expected.size());
    EXPECT_EQ(extent.offset % kSectionAlignment, 0u);
    std::vector<std::byte> read(extent.length);
    ASSERT_EQ(pread(extent.descriptor, read.data(), read.size(), static_cast<off_t>(extent.offset)), static_cast<ssize_t>(read.size()));
    EXPECT_EQ(read, expected);
  }
  EXPECT_FALSE(parameters.Get(2)->stored());
  EXPECT_EQ(module.parameter_extent(*parameters.Get(2)).descriptor, -1);
  EXPECT_FALSE(verify_parameters(module));
}

TEST(ModuleFile, HashesAreThoseOfTheBytes) {
  TemporaryFolder folder;
  ModuleWriter writer;
  auto module = sample::make(writer);
  module.parameters[2]->hash = 77;  // of a parameter in another file, which only the caller knows
  ASSERT_FALSE(writer.write(module, folder.path("m.heddle")));
  auto opened = open_module(folder.path("m.heddle"));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto& parameters = *opened.value()->metadata().parameters();
  EXPECT_EQ(parameters.Get(2)->hash(), 77u);
  const FileExtent extent = opened.value()->parameter_extent(*parameters.Get(0));
  EXPECT_EQ(hash_of(extent, "m.heddle").value(), parameters.Get(0)->hash());
  // In pieces, in memory, and as a pattern; both lengths that the algorithm treats differently.
  for (const size_t count : {size_t{10}, size_t{3} << 20}) {
    const std::string pattern = "abcde";
    std::vector<std::byte> bytes(count * pattern.size());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(pattern[i % pattern.size()]);
    const auto expected = hash_each_piece({bytes.size(), bytes, nullptr}, [](std::span<const std::byte>) { return std::nullopt; });
    EXPECT_EQ(hash_of({-1, 0, bytes.size()}, "", pattern).value(), expected.value());
  }
  EXPECT_EQ(hash_of({extent.descriptor, extent.offset, uint64_t{1} << 20}, "m.heddle").error().code, HEDDLE_STATUS_DATA_LOSS);
}

TEST(ModuleFile, OpeningReadsNoParameter) {
  TemporaryFolder folder;
  std::string bytes = write_sample(folder.path("m.heddle"));
  bytes[header_of(bytes).sections[3].offset + 5] ^= 1;
  write_file(folder.path("m.heddle"), bytes);
  auto opened = open_module(folder.path("m.heddle"));
  ASSERT_TRUE(opened) << opened.error().message;
  Status failed = verify_parameters(*opened.value());
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, HEDDLE_STATUS_DATA_LOSS);
  EXPECT_NE(failed->message.find("dense.weight"), std::string::npos) << failed->message;
}

TEST(ModuleFile, SameModuleGivesSameBytes) {
  TemporaryFolder folder;
  EXPECT_EQ(write_sample(folder.path("a.heddle")), write_sample(folder.path("b.heddle")));
}

TEST(ModuleFile, StreamedParameterGivesSameBytesAsOneInMemory) {
  TemporaryFolder folder;
  const std::string expected = write_sample(folder.path("a.heddle"));
  ModuleWriter writer;
  auto module = sample::make(writer);
  ParameterSource source;
  source.size_bytes = sample::weight().size();
  source.read = [](uint64_t offset, std::span<std::byte> out) -> Status {
    std::memcpy(out.data(), sample::weight().data() + offset, out.size());
    return std::nullopt;
  };
  writer.set_parameter(0, std::move(source));
  ASSERT_FALSE(writer.write(module, folder.path("b.heddle")));
  EXPECT_EQ(read_file(folder.path("b.heddle")), expected);
}

TEST(ModuleFile, SameImageIsStoredOnce) {
  ModuleWriter writer;
  const auto first = writer.add_code(sample::code_v3());
  writer.add_code(sample::code_v4());
  const auto again = writer.add_code(sample::code_v3());
  EXPECT_EQ(first.offset(), again.offset());
  EXPECT_EQ(writer.add_constant(sample::constant()).offset(), writer.add_constant(sample::constant()).offset());
}

TEST(ModuleFile, TruncationAtEveryLengthIsRefused) {
  TemporaryFolder folder;
  const std::string bytes = write_sample(folder.path("m.heddle"));
  const FileHeader header = header_of(bytes);
  std::vector<size_t> lengths = {0, 1, 7, 8, 9, 191, 192, 193, bytes.size() - 1};
  for (const SectionHeader& section : header.sections) {
    for (uint64_t at : {section.offset, section.offset + 1, section.offset + section.size / 2, section.offset + section.size}) {
      if (at < bytes.size()) lengths.push_back(at);
      if (at > 0 && at - 1 < bytes.size()) lengths.push_back(at - 1);
    }
  }
  for (size_t length : lengths) {
    write_file(folder.path("cut.heddle"), std::string_view(bytes).substr(0, length));
    for (uint32_t flags : {0u, kOpenNoHash}) {
      auto opened = open_module(folder.path("cut.heddle"), flags);
      ASSERT_FALSE(opened) << length;
      EXPECT_EQ(opened.error().code, HEDDLE_STATUS_DATA_LOSS) << length << opened.error().message;
      EXPECT_NE(opened.error().message.find("cut.heddle"), std::string::npos);
    }
  }
}

TEST(ModuleFile, BytesBehindTheEndAreRefused) {
  TemporaryFolder folder;
  write_file(folder.path("m.heddle"), write_sample(folder.path("m.heddle")) + "x");
  EXPECT_FALSE(open_module(folder.path("m.heddle")));
}

TEST(ModuleFile, EveryFlippedBitBeforeTheParametersIsNoticed) {
  TemporaryFolder folder;
  const std::string bytes = write_sample(folder.path("m.heddle"));
  const uint64_t end = header_of(bytes).sections[3].offset;
  for (uint64_t at = 0; at < end; at += at < 1024 ? 1 : 37) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    write_file(folder.path("flip.heddle"), flipped);
    ASSERT_FALSE(open_module(folder.path("flip.heddle"))) << "byte " << at;
  }
}

TEST(ModuleFile, FlippedBitsWithoutHashCheckNeverCrash) {
  TemporaryFolder folder;
  const std::string bytes = write_sample(folder.path("m.heddle"));
  const FileHeader header = header_of(bytes);
  int accepted = 0, refused = 0;
  for (uint64_t at = header.sections[0].offset; at < header.sections[0].offset + header.sections[0].size; ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    write_file(folder.path("flip.heddle"), flipped);
    auto opened = open_module(folder.path("flip.heddle"), kOpenNoHash);
    (opened ? accepted : refused) += 1;
    if (!opened) {
      EXPECT_EQ(opened.error().code, HEDDLE_STATUS_DATA_LOSS) << opened.error().message;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 0);  // a letter of a name, for one
}

TEST(ModuleFile, AnotherKindOfFileIsAnInvalidArgument) {
  TemporaryFolder folder;
  write_file(folder.path("m.heddle"), std::string(500, 'P'));
  auto opened = open_module(folder.path("m.heddle"));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(open_module(folder.path("")).error().code, HEDDLE_STATUS_INVALID_ARGUMENT);
}

TEST(ModuleFile, MissingFileIsNotFound) {
  auto opened = open_module("/nonexistent/m.heddle");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, HEDDLE_STATUS_NOT_FOUND);
  EXPECT_NE(opened.error().message.find("/nonexistent/m.heddle"), std::string::npos);
}

TEST(ModuleFile, FifoDoesNotHang) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.path("m.heddle").c_str(), 0600), 0);
  EXPECT_EQ(open_module(folder.path("m.heddle")).error().code, HEDDLE_STATUS_INVALID_ARGUMENT);
}

TEST(ModuleFile, NewerVersionIsUnimplementedAndNamesBoth) {
  TemporaryFolder folder;
  std::string bytes = write_sample(folder.path("m.heddle"));
  for (auto [offset, value] : {std::pair{8, kFormatMajor + 1}, std::pair{10, kFormatMinor + 1}}) {
    std::string newer = bytes;
    newer[static_cast<size_t>(offset)] = static_cast<char>(value);
    write_file(folder.path("m.heddle"), newer);
    auto opened = open_module(folder.path("m.heddle"));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, HEDDLE_STATUS_UNIMPLEMENTED);
    EXPECT_NE(opened.error().message.find("format version"), std::string::npos);
  }
}

TEST(ModuleFile, OnlyAFileWithAnOperationIsOfFormat02) {
  TemporaryFolder folder;
  EXPECT_EQ(write_sample(folder.path("m.heddle"))[10], 1);
  ModuleWriter writer;
  auto module = sample::make(writer);
  sample::mf::DispatchSiteT& site = *module.functions[0]->programs[0]->dispatches[0];
  site.candidates.clear();
  site.constants.clear();
  site.operation = std::make_unique<sample::mf::OperationT>();
  site.operation->domain = "com.acme";
  site.operation->name = "Whiten";
  site.operation->version = 1;
  site.operation->input_count = static_cast<uint32_t>(site.bindings.size()) - 1;
  for (size_t i = 0; i < site.bindings.size(); ++i) {
    const sample::mf::BindingRef& from = site.bindings[i];
    site.bindings[i] = {from.value(), from.offset_register(), from.length_register(), i + 1 < site.bindings.size() ? 1u : 2u};
    site.operation->operands.emplace_back(HEDDLE_TYPE_F32, 0);
  }
  Status failed = writer.write(module, folder.path("m.heddle"));
  ASSERT_FALSE(failed) << failed->message;
  EXPECT_EQ(heddle::testing::read_file(folder.path("m.heddle"))[10], 2);
  auto opened = open_module(folder.path("m.heddle"));
  ASSERT_TRUE(opened) << opened.error().message;
  const auto* read = opened.value()->metadata().functions()->Get(0)->programs()->Get(0)->dispatches()->Get(0)->operation();
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->name()->str(), "Whiten");
  if (const char* seed = std::getenv("HEDDLE_FREEZE")) {
    ASSERT_FALSE(writer.write(module, seed));
  }
}

TEST(ModuleFile, WriterRefusesAModuleThatAReaderWouldRefuse) {
  TemporaryFolder folder;
  ModuleWriter writer;
  auto module = sample::make(writer);
  module.functions[0]->programs[0]->code.back() = sample::op(sample::mf::Op::Literal, 1000, 0);
  Status failed = writer.write(module, folder.path("m.heddle"));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_NE(failed->message.find("register 1000 is outside 0..5"), std::string::npos) << failed->message;
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(ModuleFile, FailingSourceLeavesNoFileAndKeepsTheOldOne) {
  TemporaryFolder folder;
  const std::string old = write_sample(folder.path("m.heddle"));
  ModuleWriter writer;
  auto module = sample::make(writer);
  ParameterSource source;
  source.size_bytes = sample::weight().size();
  source.read = [](uint64_t, std::span<std::byte>) -> Status {
    return Error{HEDDLE_STATUS_CANCELLED, "cancelled"};
  };  // the file is open by then
  writer.set_parameter(0, std::move(source));
  Status failed = writer.write(module, folder.path("m.heddle"));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, HEDDLE_STATUS_CANCELLED);
  EXPECT_EQ(folder.file_count(), 1u);
  EXPECT_EQ(read_file(folder.path("m.heddle")), old);
}

// A hole of terabytes costs nothing on disk; its reader must not pay for it in memory.
TEST(ModuleFile, SparseHeadIsRefusedBeforeMemoryIsTaken) {
  TemporaryFolder folder;
  const std::string path = folder.path("m.heddle");
  std::string bytes = write_sample(path);
  for (uint32_t section : {0u, 1u}) {
    FileHeader header = header_of(bytes);
    const uint64_t hole = uint64_t{1} << 40;
    header.sections[section].size += hole;
    for (uint32_t i = section + 1; i < kSectionCount; ++i) {
      header.sections[i].offset = align_up(header.sections[i - 1].offset + header.sections[i - 1].size, kSectionAlignments[i]);
    }
    header.file_bytes = header.sections[3].offset + header.sections[3].size;
    std::string sparse = bytes.substr(0, sizeof(header));
    std::memcpy(sparse.data(), &header, sizeof(header));
    write_file(path, sparse);
    if (truncate(path.c_str(), static_cast<off_t>(header.file_bytes)) != 0) GTEST_SKIP() << "this file system takes no such file";
    auto opened = open_module(path, kOpenNoHash);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, HEDDLE_STATUS_DATA_LOSS) << opened.error().message;
    EXPECT_NE(opened.error().message.find("the limits are"), std::string::npos) << opened.error().message;
  }
}

TEST(ModuleFile, PreparedFileHasNoNameBeforeItIsCommitted) {
  TemporaryFolder folder;
  {
    ModuleWriter writer;
    auto module = sample::make(writer);
    OutputFile file(folder.path("m.heddle"));
    ASSERT_FALSE(writer.prepare(module, file));
    EXPECT_EQ(folder.file_count(), 0u);
    ASSERT_FALSE(file.commit());
    EXPECT_EQ(folder.file_count(), 1u);
  }
  EXPECT_EQ(read_file(folder.path("m.heddle")), write_sample(folder.path("again.heddle")));
}

TEST(ModuleFile, ReservedFileIsWrittenLater) {
  TemporaryFolder folder;
  EXPECT_TRUE(OutputFile(folder.path("absent/m.heddle")).reserve());
  EXPECT_TRUE(OutputFile(folder.path(".")).reserve());
  OutputFile(folder.path("unused.heddle")).reserve();
  EXPECT_EQ(folder.file_count(), 0u);
  write_file(folder.path("m.heddle"), "kept");
  {
    ModuleWriter writer;
    auto module = sample::make(writer);
    OutputFile file(folder.path("m.heddle"));
    ASSERT_FALSE(file.reserve());
    ASSERT_FALSE(file.reserve());  // once
    EXPECT_EQ(folder.file_count(), 1u);
    ASSERT_FALSE(writer.prepare(module, file));
    EXPECT_EQ(read_file(folder.path("m.heddle")), "kept");
    ASSERT_FALSE(file.commit());
  }
  EXPECT_EQ(folder.file_count(), 1u);
  EXPECT_EQ(read_file(folder.path("m.heddle")), write_sample(folder.path("again.heddle")));
}

TEST(ModuleFile, RunningOutOfSpaceLeavesNoFile) {
  TemporaryFolder folder;
  ModuleWriter writer;
  auto module = sample::make(writer);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Status failed = writer.write(module, folder.path("m.heddle"));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, HEDDLE_STATUS_RESOURCE_EXHAUSTED) << failed->message;
  EXPECT_NE(failed->message.find("m.heddle"), std::string::npos);
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(ModuleFile, MissingFolderIsNotFound) {
  TemporaryFolder folder;
  ModuleWriter writer;
  auto module = sample::make(writer);
  Status failed = writer.write(module, folder.path("absent/m.heddle"));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, HEDDLE_STATUS_NOT_FOUND);
  EXPECT_NE(failed->message.find("absent"), std::string::npos);
}

TEST(ModuleFile, NewFileHasTheUsualPermissions) {
  TemporaryFolder folder;
  const mode_t mask = umask(022);
  write_sample(folder.path("m.heddle"));
  umask(mask);
  struct stat facts;
  ASSERT_EQ(stat(folder.path("m.heddle").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0644u);
}

}  // namespace
}  // namespace heddle::module
