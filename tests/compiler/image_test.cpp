// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images of the x86-64 target: what code.h promises about them, several kernels in one, the same bytes every time.
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "compiler/targets/x86_64/x86_64.h"
#include "heddle/code.h"
#include "mlir/Parser/Parser.h"
#include "tests/compiler/kernel_run.h"
#include "tests/temporary_folder.h"

namespace heddle::tests {
namespace {

// An image with `count` kernels k0, k1 ...: x -> exp(x) + i.
std::vector<char> image_of(int count, const std::string& level) {
  ParsedRegion first(region_text({"64xf32"}, {"64xf32"}, "tx.yield %0 : tensor<64xf32>"));
  auto target = targets::make_x86_64_target(level);
  mlir::OwningOpRef<mlir::ModuleOp> kernels = mlir::ModuleOp::create(mlir::UnknownLoc::get(first.context()));
  for (int i = 0; i < count; ++i) {
    std::string text = region_text({"64xf32"}, {"64xf32"},
                                   "%e = tx.exp %0 : tensor<64xf32>\n%c = tx.constant dense<" + std::to_string(i) +
                                       ".0> : tensor<64xf32>\n%s = tx.add %e, %c : tensor<64xf32>\ntx.yield %s : tensor<64xf32>");
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, first.context());
    tx::DispatchOp region;
    module->walk([&](tx::DispatchOp op) { region = op; });
    auto plans = target->plans(region);
    EXPECT_TRUE(mlir::succeeded(plans));
    EXPECT_TRUE(mlir::succeeded(target->emit(region, plans->front(), "k" + std::to_string(i), *kernels)));
  }
  auto image = target->assemble(*kernels);
  EXPECT_TRUE(mlir::succeeded(image));
  return mlir::succeeded(image) ? *image : std::vector<char>();
}

template <typename T>
const T* at(const std::vector<char>& image, uint64_t offset) {
  return reinterpret_cast<const T*>(image.data() + offset);
}

TEST(Image, KeepsThePromisesOfItsFormat) {
  std::vector<char> image = image_of(3, "x86-64-v4");
  ASSERT_GT(image.size(), sizeof(Elf64_Ehdr));
  auto* header = at<Elf64_Ehdr>(image, 0);
  EXPECT_EQ(header->e_type, ET_DYN);
  EXPECT_EQ(header->e_machine, EM_X86_64);
  uint64_t rela_size = 0;
  const Elf64_Phdr* program = at<Elf64_Phdr>(image, header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    EXPECT_FALSE((program[i].p_flags & PF_W) && (program[i].p_flags & PF_X)) << "segment " << i;
    EXPECT_NE(program[i].p_type, static_cast<uint32_t>(PT_TLS));
    EXPECT_NE(program[i].p_type, static_cast<uint32_t>(PT_INTERP));
    if (program[i].p_type != PT_DYNAMIC) continue;
    for (auto* entry = at<Elf64_Dyn>(image, program[i].p_offset); entry->d_tag != DT_NULL; ++entry) {
      EXPECT_NE(entry->d_tag, DT_NEEDED);
      EXPECT_NE(entry->d_tag, DT_INIT);
      EXPECT_NE(entry->d_tag, DT_INIT_ARRAY);
      EXPECT_NE(entry->d_tag, DT_TEXTREL);
      EXPECT_NE(entry->d_tag, DT_JMPREL);
      if (entry->d_tag == DT_RELASZ) rela_size = entry->d_un.d_val;
    }
  }
  EXPECT_EQ(rela_size, 0u) << "kernels need no relocations";
  std::set<std::string> names;
  const Elf64_Shdr* sections = at<Elf64_Shdr>(image, header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    EXPECT_NE(sections[i].sh_type, static_cast<uint32_t>(SHT_SYMTAB)) << "not stripped";
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const char* texts = at<char>(image, sections[sections[i].sh_link].sh_offset);
    for (uint64_t s = 1; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      auto* symbol = at<Elf64_Sym>(image, sections[i].sh_offset) + s;
      EXPECT_NE(symbol->st_shndx, SHN_UNDEF) << texts + symbol->st_name;
      names.insert(texts + symbol->st_name);
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"k0", "k1", "k2"}));
}

TEST(Image, HoldsKernelsOfSeveralObjects) {
  constexpr int count = 150;
  std::vector<char> image = image_of(count, runnable_levels().front());
  ASSERT_FALSE(image.empty());
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("image.so");
  testing::write_file(path, {image.data(), image.size()});
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (int i = 0; i < count; ++i) {
    auto kernel = reinterpret_cast<heddle_x86_64_kernel_t>(dlsym(library, ("k" + std::to_string(i)).c_str()));
    ASSERT_NE(kernel, nullptr) << i;
    std::vector<float> in(64, 0.0f), out(64, -1.0f);
    void* bindings[] = {in.data(), out.data()};
    uint64_t lengths[] = {256, 256};
    heddle_x86_64_dispatch_t dispatch{bindings, lengths, nullptr, {1, 1, 1}, 2};
    EXPECT_EQ(kernel(&dispatch, 0, 1, nullptr), 0);
    EXPECT_EQ(out, std::vector<float>(64, 1.0f + static_cast<float>(i)));
  }
  dlclose(library);
}

TEST(Image, IsTheSameEveryTime) {
  for (const char* level : {"x86-64-v3", "x86-64-v4"}) EXPECT_EQ(image_of(60, level), image_of(60, level)) << level;
}

TEST(Image, KnowsItsLevels) {
  EXPECT_EQ(targets::make_x86_64_target("x86-64-v2"), nullptr);
  EXPECT_EQ(targets::make_x86_64_target("x86-64-v3")->format(), "x86_64-elf/1");
}

TEST(Image, RefusesARegionWithABatchNorm) {
  ParsedRegion parsed(region_text(
      {"2x8xf32", "8xf32", "8xf32", "8xf32", "8xf32"}, {"2x8xf32"},
      "%x = tx.batch_norm %0, %1, %2, %3, %4 {epsilon = 1.0e-5} : tensor<2x8xf32>, tensor<8xf32>\ntx.yield %x : tensor<2x8xf32>"));
  EXPECT_NE(plan_error(parsed.region()).find("tx.batch_norm"), std::string::npos);
}

}  // namespace
}  // namespace heddle::tests
