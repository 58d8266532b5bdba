// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Members one after another, then the directory. A member's CRC is known only after its bytes are written, and is then put into its header.
#include "tools/params/npz_writer.h"

#include <zlib.h>

#include "sdk/module/npy_header.h"
#include "sdk/module/output_file.h"
#include "sdk/module/zip_layout.h"

namespace heddle::tool {
namespace {

constexpr uint16_t kVersion = 45;       // the first version with ZIP64
constexpr uint16_t kFirstDay = 0x0021;  // 1980-01-01, the earliest date of the format
constexpr uint32_t kUnix = 3 << 8;      // host system of the writer
constexpr uint32_t kPlainFile = 0100644u << 16;
constexpr uint64_t kCrcInLocal = 14;  // offset of the field

// Little-endian fields, one after another.
class Record {
 public:
  Record& u16(uint64_t value) { return number(value, 2); }
  Record& u32(uint64_t value) { return number(value, 4); }
  Record& u64(uint64_t value) { return number(value, 8); }
  Record& text(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  std::string bytes_;
};

uint64_t in_32_bits(uint64_t value) {
  return value < module::kZipFull32 ? value : module::kZipFull32;
}

// ZIP64's extra field with those values that do not fit into 32 bits.
std::string extra_of(std::initializer_list<uint64_t> values) {
  Record large;
  for (uint64_t value : values) {
    if (value >= module::kZipFull32) large.u64(value);
  }
  return large.bytes().empty() ? "" : Record().u16(module::kZip64Extra).u16(large.bytes().size()).text(large.bytes()).bytes();
}

struct Member {
  std::string name, head;  // file name, .npy header
  uint64_t offset = 0, length = 0;
  uint32_t crc = 0;
};

// The fields that the local header and the directory share: from the version needed to the length of the name (4.3.7, 4.3.12).
void describe(const Member& member, Record& out) {
  const bool ascii = std::all_of(member.name.begin(), member.name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  out.u16(kVersion).u16(ascii ? 0 : module::kZipUtf8).u16(module::kZipStored).u16(0).u16(kFirstDay).u32(member.crc);
  out.u32(in_32_bits(member.length)).u32(in_32_bits(member.length)).u16(member.name.size());
}

module::Status append(module::OutputFile& file, const std::string& text) {
  return file.append(std::as_bytes(std::span(text)));
}

module::Status write_member(const module::ParameterSource& source, module::OutputFile& file, Member& member) {
  member.offset = file.size_bytes();
  const std::string extra = extra_of({member.length, member.length});
  Record header;
  describe(member, header.u32(module::kZipLocal));
  if (module::Status failed = append(file, header.u16(extra.size()).text(member.name).text(extra).bytes())) return failed;
  auto take = [&](std::span<const std::byte> bytes) {
    member.crc = static_cast<uint32_t>(crc32_z(member.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    return file.append(bytes);
  };
  if (module::Status failed = take(std::as_bytes(std::span(member.head)))) return failed;
  if (module::Status failed = module::for_each_piece(source, take)) return failed;
  return file.overwrite(member.offset + kCrcInLocal, std::as_bytes(std::span(Record().u32(member.crc).bytes())));
}

// 4.3.12 to 4.3.16
module::Status write_directory(const std::vector<Member>& members, module::OutputFile& file) {
  const uint64_t begin = file.size_bytes();
  for (const Member& member : members) {
    const std::string extra = extra_of({member.length, member.length, member.offset});
    Record record;
    describe(member, record.u32(module::kZipCentral).u16(kUnix | kVersion));
    record.u16(extra.size()).u16(0).u16(0).u16(0).u32(kPlainFile).u32(in_32_bits(member.offset)).text(member.name).text(extra);
    if (module::Status failed = append(file, record.bytes())) return failed;
  }
  const uint64_t end = file.size_bytes(), size = end - begin, count = members.size();
  Record tail;
  if (begin >= module::kZipFull32 || size >= module::kZipFull32 || count >= module::kZipFull16) {
    tail.u32(module::kZip64End)
        .u64(module::kZip64EndBytes - 12)
        .u16(kUnix | kVersion)
        .u16(kVersion)
        .u32(0)
        .u32(0)
        .u64(count)
        .u64(count)
        .u64(size)
        .u64(begin);
    tail.u32(module::kZipLocator).u32(0).u64(end).u32(1);
  }
  const uint64_t shown = count < module::kZipFull16 ? count : module::kZipFull16;
  tail.u32(module::kZipEnd).u16(0).u16(0).u16(shown).u16(shown).u32(in_32_bits(size)).u32(in_32_bits(begin)).u16(0);
  return append(file, tail.bytes());
}

}  // namespace

module::Status write_npz(const std::vector<NpzArray>& arrays, const std::string& path) {
  module::OutputFile file(path);
  if (module::Status failed = file.open()) return failed;
  std::vector<Member> members;
  for (const NpzArray& array : arrays) {
    Member& member = members.emplace_back();
    member.name = array.name + ".npy";
    member.head = module::npy_header(array.shape.element_type, array.shape.dims);
    member.length = member.head.size() + array.source.size_bytes;
    if (module::Status failed = write_member(array.source, file, member)) return failed;
  }
  if (module::Status failed = write_directory(members, file)) return failed;
  return file.commit();
}

}  // namespace heddle::tool
