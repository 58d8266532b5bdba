// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See code_cache.h. Files are "heddle-code/1\n", a checksum, then fields; numbers are in the machine's byte order, since no other machine reads them.
#include "compiler/code/code_cache.h"

#include <link.h>

#include <cstring>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/xxhash.h"

namespace heddle::compiler {
namespace {

constexpr std::string_view magic = "heddle-code/1\n";
constexpr size_t most_entry_bytes = size_t{64} << 20;
constexpr uint64_t most_bytes = uint64_t{256} << 20;  // a few hundred models

class Writer {
 public:
  template <typename T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void bytes(std::string_view value) {
    number<uint64_t>(value.size());
    text_.append(value);
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  template <typename T>
  T number() {
    T value{};
    if (text_.size() < sizeof value) return fail(), value;
    std::memcpy(&value, text_.data(), sizeof value);
    text_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view bytes() {
    auto size = number<uint64_t>();
    if (size > text_.size()) return fail(), std::string_view();
    std::string_view value = text_.substr(0, size);
    text_.remove_prefix(size);
    return value;
  }
  bool is_whole() const { return !failed_ && text_.empty(); }
  bool failed() const { return failed_; }

 private:
  void fail() {
    failed_ = true;
    text_ = {};
  }
  std::string_view text_;
  bool failed_ = false;
};

uint64_t checksum(std::string_view text) {
  return llvm::xxh3_64bits(llvm::StringRef(text.data(), text.size()));
}

// Appends the build ID of a library of this process that takes part in making code, or of this program.
int add_build_id(dl_phdr_info* info, size_t, void* out) {
  auto& text = *static_cast<std::string*>(out);
  const llvm::StringRef path(info->dlpi_name);
  const auto own = reinterpret_cast<ElfW(Addr)>(&add_build_id);
  bool is_own = false;
  llvm::ArrayRef<ElfW(Phdr)> headers(info->dlpi_phdr, info->dlpi_phnum);
  for (const auto& header : headers) {
    const auto start = info->dlpi_addr + header.p_vaddr;
    is_own |= header.p_type == PT_LOAD && own >= start && own < start + header.p_memsz;
  }
  if (!is_own && !path.contains("libLLVM") && !path.contains("libMLIR")) return 0;
  const size_t before = text.size();
  for (const auto& header : headers) {
    if (header.p_type != PT_NOTE) continue;
    llvm::StringRef notes(reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr), header.p_memsz);
    while (notes.size() >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, notes.data(), sizeof note);
      const size_t name = (size_t{note.n_namesz} + 3) / 4 * 4, description = (size_t{note.n_descsz} + 3) / 4 * 4;
      notes = notes.drop_front(sizeof note);
      if (notes.size() < name + description) break;
      if (note.n_type == NT_GNU_BUILD_ID && notes.starts_with("GNU")) {
        text += (is_own ? "own " : "by ") + llvm::toHex(notes.substr(name, note.n_descsz)) + "\n";
      }
      notes = notes.drop_front(name + description);
    }
  }
  return text.size() > before ? 0 : 1;  // stops at a library without one
}

}  // namespace

const std::string& code_generators() {
  static const std::string text = [] {
    std::string found;
    const bool is_whole = dl_iterate_phdr(add_build_id, &found) == 0;
    return is_whole && llvm::StringRef(found).contains("own ") ? found : std::string();
  }();
  return text;
}

CodeCache::CodeCache(const std::string& directory)
    : directory_(code_generators().empty() ? std::string() : directory), files_(directory_), wants_directory_(!directory.empty()) {}

std::string CodeCache::why_unused() const {
  if (wants_directory_ && directory_.empty()) return "the compiler's libraries, LLVM and MLIR have no build IDs";
  std::string wrong = files_.why_unused();
  return wrong.empty() && has_failed_ ? directory_ + " cannot be written" : wrong;
}

std::string CodeCache::key_of(const std::string& text) {
  llvm::BLAKE3 hash;
  hash.update(code_generators());
  hash.update(text);
  auto digest = hash.final<16>();
  return llvm::toHex(digest, /*LowerCase=*/true);
}

std::string CodeCache::encode(const CachedCode& code) {
  Writer fields;
  const targets::KernelResources& resources = code.resources;
  fields.number(resources.workspace_bytes);
  fields.number(resources.workgroup_size);
  fields.number(resources.subgroup_size);
  fields.number(resources.shared_memory_bytes);
  fields.number(resources.registers);
  fields.number(resources.spilled_bytes);
  fields.bytes(resources.rung);
  fields.number<uint64_t>(code.calls.size());
  for (const std::string& call : code.calls) fields.bytes(call);
  fields.bytes({code.bytes.data(), code.bytes.size()});
  Writer all;
  all.text() = magic;
  all.number(checksum(fields.text()));
  return all.text() + fields.text();
}

std::optional<CachedCode> CodeCache::decode(std::string_view text) {
  if (text.substr(0, magic.size()) != magic) return {};
  Reader fields(text.substr(magic.size()));
  auto sum = fields.number<uint64_t>();
  if (fields.failed() || sum != checksum(text.substr(magic.size() + sizeof sum))) return {};
  CachedCode code;
  targets::KernelResources& resources = code.resources;
  resources.workspace_bytes = fields.number<uint64_t>();
  resources.workgroup_size = fields.number<uint32_t>();
  resources.subgroup_size = fields.number<uint32_t>();
  resources.shared_memory_bytes = fields.number<uint64_t>();
  resources.registers = fields.number<uint32_t>();
  resources.spilled_bytes = fields.number<uint64_t>();
  resources.rung = fields.bytes();
  for (auto count = fields.number<uint64_t>(); count > 0 && !fields.failed(); --count) code.calls.emplace_back(fields.bytes());
  std::string_view bytes = fields.bytes();
  code.bytes.assign(bytes.begin(), bytes.end());
  if (!fields.is_whole()) return {};
  return code;
}

std::optional<CachedCode> CodeCache::find(const std::string& key) {
  auto text = files_.find(key, most_entry_bytes);
  auto code = text ? decode(*text) : std::nullopt;
  if (!code) return {};
  files_.touch(key);
  ++hits_;
  return code;
}

void CodeCache::keep(const std::string& key, const CachedCode& code) {
  std::string text = encode(code);
  if (directory_.empty() || text.size() > most_entry_bytes) return;
  (files_.keep(key, text) ? has_kept_ : has_failed_) = true;
}

void CodeCache::trim() {
  auto is_key = [](std::string_view name) {
    return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  };
  if (has_kept_) files_.trim(most_bytes, is_key);
}

}  // namespace heddle::compiler
