// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads from the end of the file: end record, the ZIP64 end record if a field is full, directory, local headers. Section numbers refer to APPNOTE.
#include "sdk/module/npz_directory.h"

#include <algorithm>
#include <unordered_set>

#include "sdk/module/error.h"
#include "sdk/module/utf8.h"
#include "sdk/module/zip_layout.h"

namespace heddle::module {
namespace {

uint64_t zip_little(std::span<const std::byte> bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}
uint32_t zip_u16(std::span<const std::byte> bytes, size_t offset) {
  return static_cast<uint32_t>(zip_little(bytes, offset, 2));
}
uint32_t zip_u32(std::span<const std::byte> bytes, size_t offset) {
  return static_cast<uint32_t>(zip_little(bytes, offset, 4));
}
uint64_t zip_u64(std::span<const std::byte> bytes, size_t offset) {
  return zip_little(bytes, offset, 8);
}

struct ZipDirectory {
  uint64_t offset = 0, size = 0, members = 0;
  uint64_t end = 0;  // where the records after it begin
};

// 4.3.14 and 4.3.15, if ZIP64 records precede the end record at `end`; some writers always add them.
Wrong read_zip64(const FileView& file, uint64_t end, ZipDirectory& out, bool& found) {
  std::byte locator[kZipLocatorBytes], record[kZip64EndBytes];
  found = false;
  if (end < sizeof(locator) + sizeof(record)) return {};
  if (Wrong wrong = file.read(end - sizeof(locator), locator); !wrong.empty()) return wrong;
  if (zip_u32(locator, 0) != kZipLocator) return {};
  const uint64_t at = zip_u64(locator, 8);
  if (at > end - sizeof(locator) - sizeof(record)) return concat("ZIP64's end record at byte ", at, " overlaps the records after it");
  if (Wrong wrong = file.read(at, record); !wrong.empty()) return wrong;
  if (zip_u32(record, 0) != kZip64End) return concat("there is no ZIP64 end record at byte ", at);
  if (zip_u32(record, 16) != 0 || zip_u32(record, 20) != 0 || zip_u64(record, 24) != zip_u64(record, 32))
    return "it is one part of a multi-part archive";
  out = {zip_u64(record, 48), zip_u64(record, 40), zip_u64(record, 32), at};
  found = true;
  return {};
}

// 4.3.16: the last record whose comment ends at the end of the file.
Wrong find_directory(const FileView& file, ZipDirectory& out) {
  const uint64_t size = file.size_bytes(), most = std::min<uint64_t>(size, kZipEndBytes + kMaxZipText);
  std::vector<std::byte> tail(most);
  if (Wrong wrong = file.read(size - most, tail); !wrong.empty()) return wrong;
  for (uint64_t back = kZipEndBytes; back <= most; ++back) {
    const std::span<const std::byte> record = std::span(tail).last(back);
    if (zip_u32(record, 0) != kZipEnd || zip_u16(record, 20) != back - kZipEndBytes) continue;
    bool is_zip64 = false;
    if (Wrong wrong = read_zip64(file, size - back, out, is_zip64); !wrong.empty()) return wrong;
    if (!is_zip64) {
      out = {zip_u32(record, 16), zip_u32(record, 12), zip_u16(record, 10), size - back};
      if (zip_u16(record, 4) != 0 || zip_u16(record, 6) != 0 || zip_u16(record, 8) != zip_u16(record, 10))
        return "it is one part of a multi-part archive";
    }
    if (out.offset > out.end || out.size != out.end - out.offset) {
      return concat("its directory, ", out.size, " bytes from byte ", out.offset, ", does not end at byte ", out.end,
                    ", where the next record begins");
    }
    return out.size > kMaxNpzDirectoryBytes ? concat("its directory of ", out.size, " bytes is above ", kMaxNpzDirectoryBytes) : Wrong();
  }
  return "it has no end record: it is truncated or not an archive";
}

// 4.5.3: values that do not fit into 32 bits. `out` are the fields that were full, in this order.
bool read_zip64_extra(std::span<const std::byte> extra, std::initializer_list<uint64_t*> fields) {
  while (extra.size() >= 4) {
    const uint32_t id = zip_u16(extra, 0), size = zip_u16(extra, 2);
    if (size > extra.size() - 4) return false;
    if (id == kZip64Extra) {
      size_t at = 4;
      for (uint64_t* field : fields) {
        if (*field != kZipFull32) continue;
        if (at + 8 > size + size_t{4}) return false;
        *field = zip_u64(extra, at);
        at += 8;
      }
      return true;
    }
    extra = extra.subspan(4 + size);
  }
  return std::none_of(fields.begin(), fields.end(), [](const uint64_t* field) { return *field == kZipFull32; });
}

Wrong refuse_method(uint32_t method, uint32_t flags) {
  if (flags & kZipEncrypted) return "it is encrypted; save it without encryption";
  if (method == kZipStored) return {};
  const std::string how = method == kZipDeflated ? std::string("deflated") : concat("compressed by method ", method);
  return "it is " + how + ", and only stored members can be read; save them with numpy.savez, not savez_compressed";
}

// 4.3.7: the header before a member's bytes must match the directory; then member.offset becomes the offset of the bytes.
Wrong enter_zip_member(const FileView& file, const ZipDirectory& directory, NpzMember& member) {
  if (member.offset > directory.offset || directory.offset - member.offset < kZipLocalBytes)
    return concat("its header at byte ", member.offset, " is not before the directory at ", directory.offset);
  std::byte head[kZipLocalBytes];
  if (Wrong wrong = file.read(member.offset, head); !wrong.empty()) return wrong;
  if (zip_u32(head, 0) != kZipLocal) return concat("there is no header at byte ", member.offset);
  if (Wrong wrong = refuse_method(zip_u16(head, 8), zip_u16(head, 6)); !wrong.empty()) return wrong;
  const uint64_t texts = uint64_t{zip_u16(head, 26)} + zip_u16(head, 28), available = directory.offset - member.offset - kZipLocalBytes;
  if (texts > available || member.length > available - texts) {
    return concat("its ", member.length, " bytes after the header at byte ", member.offset, " reach into the directory at ",
                  directory.offset);
  }
  std::vector<std::byte> text(texts);
  if (Wrong wrong = file.read(member.offset + kZipLocalBytes, text); !wrong.empty()) return wrong;
  if (std::string_view(reinterpret_cast<const char*>(text.data()), zip_u16(head, 26)) != member.name)
    return concat("the header at byte ", member.offset, " has a different name");
  // With bit 3 the sizes come after the data, and are zero here.
  uint64_t stored = zip_u32(head, 18), whole = zip_u32(head, 22);
  if (!read_zip64_extra(std::span(text).subspan(zip_u16(head, 26)), {&whole, &stored})) return "ZIP64's sizes are missing in its header";
  const bool later = (zip_u16(head, 6) & kZipSizesLater) && stored == 0 && whole == 0;
  if (!later && (stored != member.length || whole != member.length))
    return concat("the header at byte ", member.offset, " says ", whole, " bytes, the directory ", member.length);
  member.offset += kZipLocalBytes + texts;
  return {};
}

// 4.3.12. Removes one record from the directory's bytes.
Wrong read_zip_member(std::span<const std::byte>& bytes, NpzMember& out) {
  if (bytes.size() < kZipCentralBytes || zip_u32(bytes, 0) != kZipCentral) return "its directory is damaged";
  const size_t name = zip_u16(bytes, 28), extra = zip_u16(bytes, 30), comment = zip_u16(bytes, 32);
  if (name + extra + comment > bytes.size() - kZipCentralBytes) return "its directory is damaged";
  out.name.assign(reinterpret_cast<const char*>(bytes.data()) + kZipCentralBytes, name);
  const std::string who = concat("member ", in_quotes(out.name), ": ");
  if (!is_utf8_text(out.name)) return who + "its name is not UTF-8";
  if (Wrong wrong = refuse_method(zip_u16(bytes, 10), zip_u16(bytes, 8)); !wrong.empty()) return who + wrong;
  uint64_t stored = zip_u32(bytes, 20);
  out.length = zip_u32(bytes, 24);
  out.offset = zip_u32(bytes, 42);
  out.crc = zip_u32(bytes, 16);
  if (!read_zip64_extra(bytes.subspan(kZipCentralBytes + name, extra), {&out.length, &stored, &out.offset}))
    return who + "ZIP64's sizes are missing in the directory";
  if (stored != out.length) return who + concat("it has ", stored, " bytes stored, ", out.length, " in total");
  bytes = bytes.subspan(kZipCentralBytes + name + extra + comment);
  return {};
}

}  // namespace

Wrong read_npz_directory(const FileView& file, std::vector<NpzMember>& out) {
  out.clear();
  ZipDirectory directory;
  if (Wrong wrong = find_directory(file, directory); !wrong.empty()) return wrong;
  std::vector<std::byte> bytes(directory.size);
  if (Wrong wrong = file.read(directory.offset, bytes); !wrong.empty()) return wrong;
  std::span<const std::byte> rest(bytes);
  while (!rest.empty()) {
    if (Wrong wrong = read_zip_member(rest, out.emplace_back()); !wrong.empty()) return wrong;
  }
  if (out.size() != directory.members) return concat("its directory has ", out.size(), " members, its end record says ", directory.members);
  std::sort(out.begin(), out.end(), [](const NpzMember& a, const NpzMember& b) { return a.offset < b.offset; });
  std::unordered_set<std::string_view> names;
  uint64_t end = 0;
  for (NpzMember& member : out) {
    const std::string who = concat("member ", in_quotes(member.name), ": ");
    if (!names.insert(member.name).second) return who + "the name is a duplicate";
    if (member.offset < end) return who + concat("it begins at byte ", member.offset, ", inside another member");
    if (Wrong wrong = enter_zip_member(file, directory, member); !wrong.empty()) return who + wrong;
    end = member.offset + member.length;
  }
  return {};
}

}  // namespace heddle::module
