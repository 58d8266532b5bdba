// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computed weights on disk, so that the next process need not compute them: one file per set, in the user's cache directory.
// Part of Instance; runs when an instance is created or refitted.
//
// A set is found by the contents that it was computed from, so copies of a file of weights share it. The digest of a file is taken once, and kept
// beside the sets under the file's identity.
//
// A file is: kMagic, its size, the key, zeros up to a page; the values in the order of the globals; a digest of all that at its end. Numbers are in the
// machine's byte order, since no other machine reads them.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/host/descriptor.h"
#include "core/host/digest.h"
#include "core/submit/instance.h"
#include "sdk/module/user_cache.h"

namespace heddle::submit {

namespace {

namespace mf = module_format;

constexpr std::string_view kMagic = "heddle computed weights 1\n", kDigestMagic = "heddle digest of weights 1\n";
constexpr size_t kDigestDigits = 64;  // SHA-256
constexpr uint64_t kPage = 4096, kAlignment = 256, kPiece = uint64_t{1} << 20;
// Two versions of a file may have the same times if they are at most one tick of the file system's clock apart.
constexpr uint64_t kTickNs = 50'000'000;
using Digest = std::array<uint8_t, 16>;

bool read_at(int descriptor, void* bytes, uint64_t count, uint64_t offset) {
  return pread(descriptor, bytes, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}
bool write_at(int descriptor, const void* bytes, uint64_t count, uint64_t offset) {
  return pwrite(descriptor, bytes, count, static_cast<off_t>(offset)) == static_cast<ssize_t>(count);
}

// The digest of all bytes before it: of each piece after the digest of those before. False if the file is shorter.
bool digest_of(int descriptor, uint64_t end, Digest& out) {
  std::vector<std::byte> piece(sizeof(out) + kPiece);
  for (uint64_t done = 0; done < end; done += kPiece) {
    const uint64_t count = std::min(kPiece, end - done);
    if (!read_at(descriptor, piece.data() + sizeof(out), count, done)) return false;
    out = module::hash_bytes(piece.data(), sizeof(out) + count);
    std::memcpy(piece.data(), out.data(), sizeof(out));
  }
  return true;
}

std::string name_of(std::string_view key) {
  std::string name;
  for (uint8_t byte : module::hash_bytes(key.data(), key.size())) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

bool is_entry(std::string_view name) {
  return name.size() == 2 * sizeof(Digest) && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

module::UserCache cache() {
  return module::UserCache(module::UserCache::default_folder("derived"));
}

}  // namespace

void Instance::log_not_kept(uint32_t level, std::string_view why) const {
  runtime_->host->log(level, "memory", fmt::format("computed weights of {} are not kept on disk: {}", module_->path(), why));
}

std::string Instance::digest_of_weights(const open::FileIdentity& file, const Located& located, uint32_t global) const {
  if (has_fresh_files_) {
    log_not_kept(HEDDLE_LOG_INFO, "a file of weights was written just before it was read");
    return {};
  }
  std::string known(kDigestMagic);
  known.append(reinterpret_cast<const char*>(file.data()), sizeof(file));
  const std::string name = name_of(known);
  if (const std::optional<std::string> found = cache().find(name, known.size() + kDigestDigits); found && found->starts_with(known)) {
    cache().touch(name);
    return found->substr(known.size());
  }
  const memory::WeightExtent& extent = located.extents[global];
  std::string digest, why = "a file of weights that was read before is not open any more";
  if (extent.file == file) {
    // While pages that a process has mapped and written are not on the disk, it may write them again without another time of modification.
    fdatasync(extent.descriptor);
    why = host::read_sha256(std::string(extent.path), extent.descriptor, {}, UINT64_MAX, &digest);
    if (why.empty()) why = open::change_since(file, extent.descriptor);
  }
  if (!why.empty()) {
    log_not_kept(HEDDLE_LOG_INFO, why);
    return {};
  }
  // tmpfs does not note the time of such writes.
  struct statfs system;
  if (fstatfs(extent.descriptor, &system) == 0 && system.f_type != TMPFS_MAGIC) cache().keep(name, known + digest);
  return digest;
}

void Instance::note_fresh_files(const Located& located) {
  const auto begin_ns = static_cast<uint64_t>(located.begin.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(located.begin.tv_nsec);
  for (const memory::WeightExtent& extent : located.extents)
    has_fresh_files_ |= begin_ns < std::max(extent.file[open::kFileModified], extent.file[open::kFileChanged]) + kTickNs;
}

Instance::DerivedFile Instance::derived_file(const Located& located, const Globals& made) const {
  DerivedFile file;
  const host::Config& config = runtime_->host->config();
  // Rules could choose other kernels in another process.
  if (config.param_io.derived_cache_bytes == 0 || !config.prefers.empty() || config.security.strict || config.security.strict_modules)
    return file;
  if (module::UserCache::default_folder("derived").empty()) {
    log_not_kept(HEDDLE_LOG_WARN,
                 "there is no cache directory, since neither XDG_CACHE_HOME nor HOME is an absolute path that this process may use");
    return file;
  }
  std::string key = derived_key(located, made, true);
  if (key.empty()) return file;
  for (const memory::Ref<memory::Device>& device : devices_) {
    const heddle_device_description_t& what = device->description();
    key.append(device->driver_id()).append(view(what.name));
    key.append(reinterpret_cast<const char*>(&what.compute_units), sizeof(what.compute_units));
    key.append(reinterpret_cast<const char*>(&what.max_workgroup_count), sizeof(what.max_workgroup_count));
  }
  const std::vector<std::string>& methods = config.param_io.method;
  file.is_mapped = std::ranges::find(methods, "mmap") != methods.end();
  key += file.is_mapped ? 'm' : 'r';  // others are not flushed to the disk
  file.name = name_of(key);
  uint64_t end = (kMagic.size() + sizeof(end) + key.size() + kPage - 1) / kPage * kPage;
  file.head.resize(end);
  std::memcpy(file.head.data(), kMagic.data(), kMagic.size());
  std::memcpy(file.head.data() + kMagic.size() + sizeof(end), key.data(), key.size());
  const auto& globals = *module_->metadata().globals();
  file.extents.resize(globals.size());
  for (uint32_t i = 0; i < globals.size(); ++i) {
    const mf::Global* global = globals.Get(i);
    if (global->kind() != mf::GlobalKind::Derived || !read_.by_functions[i] || global->size_bytes() == 0) continue;
    file.globals.push_back(i);
    memory::WeightExtent& extent = file.extents[i];
    extent.offset = end;
    extent.length = global->size_bytes();
    extent.name = global->name()->string_view();
    end = (end + extent.length + kAlignment - 1) / kAlignment * kAlignment;
  }
  file.end = end;
  std::memcpy(file.head.data() + kMagic.size(), &end, sizeof(end));
  return file;
}

bool Instance::read_derived(DerivedFile& file, Globals& made) {
  const host::Descriptor opened(cache().open(file.name));
  const int descriptor = opened.get();
  if (!opened) return false;
  std::string head(file.head.size(), '\0');
  Digest actual{}, stored{};
  Status status = error(HEDDLE_STATUS_DATA_LOSS, "it is damaged or of something else");
  Result<open::FileIdentity> identity = open::identify(descriptor, file.name);
  if (identity.ok() && read_at(descriptor, head.data(), head.size(), 0) && head == file.head &&
      read_at(descriptor, stored.data(), sizeof(stored), file.end) &&
      (file.is_mapped || (digest_of(descriptor, file.end, actual) && actual == stored))) {
    for (uint32_t i : file.globals) {
      file.extents[i].descriptor = descriptor;
      file.extents[i].file = *identity;
      file.extents[i].path = file.name;
    }
    status = load_parameters(file.globals, file.extents, {}, made, false);
  }
  if (status.ok()) {
    cache().touch(file.name);
    return true;
  }
  runtime_->host->log(
      HEDDLE_LOG_WARN, "memory",
      fmt::format("weights of {} are computed again instead of read from {}: {}", module_->path(), file.name, status.message()));
  for (uint32_t i : file.globals) {
    made.weights[i].reset();
    made.places[i].memory = {};
  }
  return false;
}

void Instance::keep_derived(const DerivedFile& file, const Globals& made) noexcept try {
  if (file.globals.empty()) return;
  const uint64_t most = runtime_->host->config().param_io.derived_cache_bytes, all = file.end + sizeof(Digest);
  std::string why;
  if (all > most) {
    why = "they are larger than param_io.derived_cache";
  } else {
    const module::UserCache files = cache();
    files.trim(most - all, is_entry);
    auto write = [&](int descriptor) {
      bool good = write_at(descriptor, file.head.data(), file.head.size(), 0) && ftruncate(descriptor, static_cast<off_t>(file.end)) == 0;
      std::vector<std::byte> piece(kPiece);
      for (uint32_t i : file.globals) {
        const heddle_binding_t& from = made.places[i].memory;
        for (uint64_t done = 0; done < from.length && good; done += kPiece) {
          const uint64_t count = std::min(kPiece, from.length - done);
          good = devices_[made.places[i].device]->download({from.buffer, from.offset + done, count}, piece.data()).ok() &&
                 write_at(descriptor, piece.data(), count, file.extents[i].offset + done);
        }
      }
      Digest digest{};
      // Nobody checks the values of a mapped file, so they have to be on the disk before its name is.
      return good && digest_of(descriptor, file.end, digest) && write_at(descriptor, digest.data(), sizeof(digest), file.end) &&
             (!file.is_mapped || fdatasync(descriptor) == 0);
    };
    errno = 0;
    const bool is_kept = files.keep(
        file.name, [](int descriptor, const void* context) { return (*static_cast<const decltype(write)*>(context))(descriptor); }, &write);
    if (is_kept) return;
    why = files.why_unused();
    if (why.empty()) why = errno != 0 ? std::strerror(errno) : "they could not be read from the device or written completely";
  }
  log_not_kept(HEDDLE_LOG_WARN, why);
} catch (const std::bad_alloc&) {
  runtime_->host->log(HEDDLE_LOG_WARN, "memory", "computed weights are not kept on disk: the host is out of memory");
}

}  // namespace heddle::submit
