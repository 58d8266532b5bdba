// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checking image loader (HD-C-02): whole images load, damaged and hostile ones give one reason and no crash. Nothing of an image
// is run here.
#include <elf.h>

#include <cstring>
#include <functional>
#include <random>

#include "cpu/image.h"
#include "kernels.h"

namespace heddle::test {
namespace {

using cpu::Image;
using cpu::ImageError;

// An image to break.
class Bytes {
 public:
  Bytes() : data(kernel_image()) {}
  template <class T>
  T* at(uint64_t offset) {
    EXPECT_LE(offset + sizeof(T), data.size());
    return reinterpret_cast<T*>(data.data() + offset);
  }
  Elf64_Ehdr* header() { return at<Elf64_Ehdr>(0); }
  Elf64_Phdr* program(uint32_t i) { return at<Elf64_Phdr>(header()->e_phoff + i * sizeof(Elf64_Phdr)); }
  // The first program header of a type, and with these flags if it is to be loaded.
  Elf64_Phdr* find(uint32_t type, uint32_t flags = 0) {
    for (uint32_t i = 0; i < header()->e_phnum; ++i) {
      if (program(i)->p_type == type && (type != PT_LOAD || program(i)->p_flags == flags)) return program(i);
    }
    ADD_FAILURE() << "no program header of type " << type;
    return program(0);
  }
  uint64_t offset_of(uint64_t address) {
    for (uint32_t i = 0; i < header()->e_phnum; ++i) {
      const Elf64_Phdr* segment = program(i);
      if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && address < segment->p_vaddr + segment->p_filesz) {
        return address - segment->p_vaddr + segment->p_offset;
      }
    }
    ADD_FAILURE() << "no segment at " << address;
    return 0;
  }
  Elf64_Dyn* dynamic(int64_t tag) {
    const Elf64_Phdr* segment = find(PT_DYNAMIC);
    for (uint64_t at_byte = 0; at_byte < segment->p_filesz; at_byte += sizeof(Elf64_Dyn)) {
      auto* entry = at<Elf64_Dyn>(segment->p_offset + at_byte);
      if (entry->d_tag == tag) return entry;
    }
    ADD_FAILURE() << "no dynamic entry " << tag;
    return at<Elf64_Dyn>(segment->p_offset);
  }
  Elf64_Sym* symbol(uint32_t i) { return at<Elf64_Sym>(offset_of(dynamic(DT_SYMTAB)->d_un.d_val) + i * sizeof(Elf64_Sym)); }
  Elf64_Rela* relocation(uint32_t i) { return at<Elf64_Rela>(offset_of(dynamic(DT_RELA)->d_un.d_val) + i * sizeof(Elf64_Rela)); }

  std::vector<char> data;
};

// Loads an exact copy on the heap, so that AddressSanitizer sees a read past its end.
bool load(const std::vector<char>& data, ImageError* error, Image* image) {
  const std::unique_ptr<char[]> exact(new char[data.size() + (data.empty() ? 1 : 0)]);
  if (!data.empty()) std::memcpy(exact.get(), data.data(), data.size());
  return Image::load(exact.get(), data.size(), image, error);
}

void expect_refused(const std::function<void(Bytes&)>& damage, heddle_status_code_t code, const std::string& part) {
  Bytes bytes;
  damage(bytes);
  Image image;
  ImageError error;
  EXPECT_FALSE(load(bytes.data, &error, &image)) << part;
  EXPECT_EQ(error.code, code) << error.text;
  EXPECT_NE(std::string(error.text).find(part), std::string::npos) << error.text << "\nexpected: " << part;
  EXPECT_EQ(image.span_bytes(), 0u);
}

TEST(Image, LoadsAndFindsKernels) {
  Image image;
  ImageError error;
  ASSERT_TRUE(load(kernel_image(), &error, &image)) << error.text;
  EXPECT_NE(image.find_kernel("add_f32"), nullptr);
  EXPECT_NE(image.find_kernel("nothing"), nullptr);
  EXPECT_EQ(image.find_kernel("add_f3"), nullptr);
  EXPECT_EQ(image.find_kernel("add_f32x"), nullptr);
  EXPECT_EQ(image.find_kernel(""), nullptr);
  EXPECT_EQ(image.find_kernel(std::string("add_f32\0x", 9)), nullptr);
  Image moved = std::move(image);
  EXPECT_NE(moved.find_kernel("add_f32"), nullptr);
  EXPECT_EQ(image.find_kernel("add_f32"), nullptr);
}

TEST(Image, RejectsEveryTruncation) {
  const std::vector<char> whole = kernel_image();
  // Section headers and what follows the last segment are not needed.
  uint64_t needed = 0;
  Bytes bytes;
  for (uint32_t i = 0; i < bytes.header()->e_phnum; ++i) {
    if (bytes.program(i)->p_type == PT_LOAD) needed = std::max(needed, bytes.program(i)->p_offset + bytes.program(i)->p_filesz);
  }
  for (uint64_t size = 0; size < needed; size += size < 1024 ? 1 : 61) {
    Image image;
    ImageError error;
    EXPECT_FALSE(load({whole.begin(), whole.begin() + static_cast<long>(size)}, &error, &image)) << size;
    EXPECT_EQ(error.code, HEDDLE_STATUS_DATA_LOSS) << error.text;
  }
}

TEST(Image, SurvivesEveryFlippedBitOfItsTables) {
  const std::vector<char> whole = kernel_image();
  Bytes bytes;
  const Elf64_Phdr* first = bytes.find(PT_LOAD, PF_R);
  const Elf64_Phdr* dynamic = bytes.find(PT_DYNAMIC);
  std::vector<uint64_t> places;
  for (uint64_t i = 0; i < first->p_filesz; ++i) places.push_back(i);
  for (uint64_t i = 0; i < dynamic->p_filesz; ++i) places.push_back(dynamic->p_offset + i);
  int refused = 0;
  for (uint64_t place : places) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<char> damaged = whole;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << bit));
      Image image;
      ImageError error;
      if (load(damaged, &error, &image)) {
        image.find_kernel("add_f32");
        image.find_kernel("no_such_kernel");
      } else {
        EXPECT_NE(error.text[0], 0);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(Image, SurvivesRandomDamage) {
  const std::vector<char> whole = kernel_image();
  std::mt19937_64 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> damaged = whole;
    const uint64_t count = 1 + random() % 8;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t place = random() % (random() % 2 ? 1200 : damaged.size() - 8);
      static const uint64_t values[] = {0, 1, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, UINT64_MAX, uint64_t{1} << 32, 4096};
      const uint64_t value = random() % 2 ? values[random() % std::size(values)] : random();
      std::memcpy(damaged.data() + place, &value, 1ull << (random() % 4));
    }
    Image image;
    ImageError error;
    if (load(damaged, &error, &image)) image.find_kernel("add_f32");
  }
}

TEST(Image, RejectsOtherFilesAndMachines) {
  expect_refused([](Bytes& b) { b.data[0] = 'X'; }, HEDDLE_STATUS_DATA_LOSS, "magic");
  expect_refused([](Bytes& b) { b.data[EI_CLASS] = ELFCLASS32; }, HEDDLE_STATUS_DATA_LOSS, "64-bit");
  expect_refused([](Bytes& b) { b.data[EI_DATA] = ELFDATA2MSB; }, HEDDLE_STATUS_DATA_LOSS, "little-endian");
  expect_refused([](Bytes& b) { b.header()->e_machine = EM_AARCH64; }, HEDDLE_STATUS_INVALID_ARGUMENT, "183");
  expect_refused([](Bytes& b) { b.header()->e_type = ET_EXEC; }, HEDDLE_STATUS_INVALID_ARGUMENT, "type 2");
  expect_refused([](Bytes& b) { b.header()->e_phnum = 0xffff; }, HEDDLE_STATUS_DATA_LOSS, "65535");
  expect_refused([](Bytes& b) { b.header()->e_phoff = UINT64_MAX - 10; }, HEDDLE_STATUS_DATA_LOSS, "program headers");
  expect_refused([](Bytes& b) { b.header()->e_phentsize = 32; }, HEDDLE_STATUS_DATA_LOSS, "32");
}

TEST(Image, HoldsWritableAndExecutableApart) {
  expect_refused([](Bytes& b) { b.find(PT_LOAD, PF_R | PF_X)->p_flags |= PF_W; }, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "writable and executable");
  expect_refused([](Bytes& b) { b.find(PT_LOAD, PF_R | PF_W)->p_flags |= PF_X; }, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "writable and executable");
  expect_refused([](Bytes& b) { b.find(PT_GNU_STACK)->p_flags |= PF_X; }, HEDDLE_STATUS_INVALID_ARGUMENT, "executable stack");
  // Two segments on one page would share their protection.
  expect_refused([](Bytes& b) { b.find(PT_LOAD, PF_R | PF_X)->p_vaddr = b.program(0)->p_vaddr + b.program(0)->p_memsz; },
                 HEDDLE_STATUS_DATA_LOSS, "shares a page");
}

TEST(Image, ChecksEverySegmentsRange) {
  auto code = [](Bytes& b) { return b.find(PT_LOAD, PF_R | PF_X); };
  expect_refused(
      [&](Bytes& b) {
        code(b)->p_filesz = b.data.size();
        code(b)->p_memsz = b.data.size();
      },
      HEDDLE_STATUS_DATA_LOSS, "ends after");
  expect_refused([&](Bytes& b) { code(b)->p_offset = UINT64_MAX; }, HEDDLE_STATUS_DATA_LOSS, "ends after");
  expect_refused([&](Bytes& b) { code(b)->p_filesz = code(b)->p_memsz + 1; }, HEDDLE_STATUS_DATA_LOSS, "only");
  expect_refused([&](Bytes& b) { code(b)->p_memsz = uint64_t{1} << 40; }, HEDDLE_STATUS_DATA_LOSS, "more than an image's");
  expect_refused([&](Bytes& b) { code(b)->p_vaddr = UINT64_MAX - 100; }, HEDDLE_STATUS_DATA_LOSS, "more than an image's");
  expect_refused([&](Bytes& b) { code(b)->p_flags |= 0x100; }, HEDDLE_STATUS_INVALID_ARGUMENT, "flags 105");
}

TEST(Image, RefusesWhatALoaderWouldHaveToRunOrFind) {
  auto turn = [](int64_t tag) { return [tag](Bytes& b) { b.dynamic(DT_GNU_HASH)->d_tag = tag; }; };
  expect_refused(turn(DT_NEEDED), HEDDLE_STATUS_INVALID_ARGUMENT, "it needs another library [HD-C-02]");
  expect_refused(turn(DT_INIT_ARRAY), HEDDLE_STATUS_INVALID_ARGUMENT, "constructors");
  expect_refused(turn(DT_INIT), HEDDLE_STATUS_INVALID_ARGUMENT, "constructors");
  expect_refused(turn(DT_FINI_ARRAY), HEDDLE_STATUS_INVALID_ARGUMENT, "destructors");
  expect_refused(turn(DT_TEXTREL), HEDDLE_STATUS_INVALID_ARGUMENT, "relocates its code");
  expect_refused(turn(DT_REL), HEDDLE_STATUS_INVALID_ARGUMENT, "another kind");
  expect_refused(turn(36), HEDDLE_STATUS_INVALID_ARGUMENT, "another kind");
  expect_refused(turn(DT_PLTRELSZ), HEDDLE_STATUS_INVALID_ARGUMENT, "linkage table");
  expect_refused(turn(0x12345678), HEDDLE_STATUS_INVALID_ARGUMENT, "12345678");
  expect_refused([](Bytes& b) { b.find(PT_GNU_EH_FRAME)->p_type = PT_TLS; }, HEDDLE_STATUS_INVALID_ARGUMENT, "thread-local");
  expect_refused([](Bytes& b) { b.find(PT_GNU_EH_FRAME)->p_type = PT_INTERP; }, HEDDLE_STATUS_INVALID_ARGUMENT, "interpreter");
  expect_refused([](Bytes& b) { b.symbol(1)->st_shndx = SHN_UNDEF; }, HEDDLE_STATUS_INVALID_ARGUMENT, "import nothing");
  expect_refused([](Bytes& b) { b.symbol(1)->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC); }, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "resolvers");
}

TEST(Image, AllowsOnlyRelativeRelocationsInsideTheImage) {
  expect_refused([](Bytes& b) { b.relocation(0)->r_info = ELF64_R_INFO(1, R_X86_64_64); }, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "type 1 of symbol 1");
  expect_refused([](Bytes& b) { b.relocation(0)->r_info = ELF64_R_INFO(1, R_X86_64_RELATIVE); }, HEDDLE_STATUS_INVALID_ARGUMENT,
                 "symbol 1");
  expect_refused([](Bytes& b) { b.relocation(0)->r_offset = b.find(PT_LOAD, PF_R | PF_X)->p_vaddr; }, HEDDLE_STATUS_DATA_LOSS,
                 "not in its writable memory");
  expect_refused([](Bytes& b) { b.relocation(0)->r_offset = UINT64_MAX - 3; }, HEDDLE_STATUS_DATA_LOSS, "not in its writable memory");
  expect_refused([](Bytes& b) { b.relocation(0)->r_addend = int64_t{1} << 40; }, HEDDLE_STATUS_DATA_LOSS, "outside of the image");
  expect_refused([](Bytes& b) { b.relocation(0)->r_addend = -8; }, HEDDLE_STATUS_DATA_LOSS, "outside of the image");
  expect_refused([](Bytes& b) { b.dynamic(DT_RELASZ)->d_un.d_val = 25; }, HEDDLE_STATUS_DATA_LOSS, "25 bytes of relocations");
  expect_refused([](Bytes& b) { b.dynamic(DT_RELASZ)->d_un.d_val = UINT64_MAX / 24 * 24; }, HEDDLE_STATUS_DATA_LOSS, "relocations");
}

TEST(Image, ChecksTablesBeforeItFollowsThem) {
  expect_refused([](Bytes& b) { b.dynamic(DT_SYMTAB)->d_un.d_val = uint64_t{1} << 50; }, HEDDLE_STATUS_DATA_LOSS, "symbols at");
  expect_refused([](Bytes& b) { b.dynamic(DT_STRTAB)->d_un.d_val = UINT64_MAX; }, HEDDLE_STATUS_DATA_LOSS, "names");
  expect_refused([](Bytes& b) { b.dynamic(DT_STRSZ)->d_un.d_val = UINT64_MAX; }, HEDDLE_STATUS_DATA_LOSS, "names");
  expect_refused([](Bytes& b) { b.dynamic(DT_STRSZ)->d_un.d_val -= 1; }, HEDDLE_STATUS_DATA_LOSS, "no end");
  expect_refused([](Bytes& b) { b.dynamic(DT_SYMENT)->d_un.d_val = 16; }, HEDDLE_STATUS_DATA_LOSS, "symbols of 16");
  expect_refused([](Bytes& b) { b.dynamic(DT_GNU_HASH)->d_un.d_val = uint64_t{1} << 50; }, HEDDLE_STATUS_DATA_LOSS, "hash table");
  expect_refused([](Bytes& b) { b.symbol(1)->st_name = 0x7fffffff; }, HEDDLE_STATUS_DATA_LOSS, "name at");
  expect_refused([](Bytes& b) { b.symbol(1)->st_value = b.find(PT_LOAD, PF_R | PF_W)->p_vaddr; }, HEDDLE_STATUS_DATA_LOSS,
                 "executable segment");
  expect_refused([](Bytes& b) { b.find(PT_DYNAMIC)->p_memsz = uint64_t{1} << 40; }, HEDDLE_STATUS_DATA_LOSS, "dynamic section");
  expect_refused([](Bytes& b) { b.find(PT_DYNAMIC)->p_type = PT_NULL; }, HEDDLE_STATUS_DATA_LOSS, "no dynamic section");
  expect_refused([](Bytes& b) { *b.at<uint32_t>(b.offset_of(b.dynamic(DT_GNU_HASH)->d_un.d_val)) = UINT32_MAX; }, HEDDLE_STATUS_DATA_LOSS,
                 "too large");
  expect_refused([](Bytes& b) { b.find(PT_GNU_RELRO)->p_memsz = uint64_t{1} << 40; }, HEDDLE_STATUS_DATA_LOSS, "relro");
}

}  // namespace
}  // namespace heddle::test
