// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases: heddle.param_io/1.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "session.h"

namespace heddle::conformance {
namespace {

using Bytes = std::vector<char>;

// A file opened on the session's device.
class Opened {
 public:
  Opened(Session* session, int descriptor, uint32_t access) : session_(session) {
    REQUIRE_OK(session->tables().param_io.file_open(session->device, descriptor, access, string_of("weights.bin"), &file));
    REQUIRE(file, "file_open returned neither a status nor a file");
  }
  ~Opened() { session_->tables().param_io.file_close(file); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  Result enqueue(const std::vector<heddle_extent_t>& extents, heddle_point_t done, const heddle_param_io_params_t* params = nullptr,
                 bool writes = false) {
    const std::vector<heddle_point_t> signals = {done};
    const heddle_sync_t sync = session_->sync({}, signals);
    const heddle_param_io_interface_t& api = session_->tables().param_io;
    return (writes ? api.write : api.read)(session_->queue, &sync, file, extents.data(), extents.size(), params);
  }
  // Enqueues and waits; returns the failure of either.
  Result move(const std::vector<heddle_extent_t>& extents, const heddle_param_io_params_t* params = nullptr, bool writes = false) {
    const heddle_point_t done = session_->point();
    Result failure = enqueue(extents, done, params, writes);
    if (!failure.ok()) return failure;
    return session_->wait(done);
  }
  heddle_file_t* file = nullptr;

 private:
  Session* session_;
};

heddle_param_io_params_t params_of(uint64_t chunk_bytes, uint32_t queue_depth = 0) {
  heddle_param_io_params_t params = {};
  params.struct_size = sizeof params;
  params.chunk_bytes = chunk_bytes;
  params.queue_depth = queue_depth;
  return params;
}

void whole_file() {
  Session session;
  const uint64_t size = session.fitting(9 << 20) | 1;
  const Bytes bytes = random_bytes(size);
  TemporaryFile file(bytes);
  heddle_buffer_t* buffer = session.buffer(size);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  for (uint64_t chunk : {uint64_t{0}, uint64_t{64 << 10}, uint64_t{1000003}}) {
    List clear;
    session.run(clear.fill(buffer, 0, size, 0, 1));
    const heddle_param_io_params_t params = params_of(chunk, chunk ? 3 : 0);
    REQUIRE_OK(opened.move({{0, size, buffer, 0}}, chunk ? &params : nullptr).release());
    CHECK(session.download(buffer, 0, size) == bytes, "a file of %llu bytes read in chunks of %llu gives other bytes than it contains",
          number(size), number(chunk));
  }
}

// With every method: if a driver or a file system does not support a method, another one is used.
void every_method() {
  Session session;
  const uint64_t size = session.fitting(1 << 20) | 1;
  const Bytes bytes = random_bytes(size);
  TemporaryFile file(bytes);
  heddle_buffer_t* buffer = session.buffer(size);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  auto read_by = [&](uint32_t method) {
    List clear;
    session.run(clear.fill(buffer, 0, size, 0, 1));
    heddle_param_io_params_t params = params_of(65536);
    params.method = method;
    Result read = opened.move({{5000, size - 5000, buffer, 5000}, {0, 100, buffer, 0}, {100, 4900, buffer, 100}}, &params);
    if (read.ok()) CHECK(session.download(buffer, 0, size) == bytes, "a file read by method %u gives other bytes than it contains", method);
    return read;
  };
  for (uint32_t method : {HEDDLE_FILE_METHOD_ANY, HEDDLE_FILE_METHOD_BUFFERED, HEDDLE_FILE_METHOD_DIRECT})
    REQUIRE_OK(read_by(method).release());
  if (plugin().chosen_minor < 2) return;
  // These are optional; then the host is told, and uses another one.
  for (uint32_t method : {HEDDLE_FILE_METHOD_DIRECT_ONLY, HEDDLE_FILE_METHOD_GDS}) {
    Result read = read_by(method);
    CHECK(read.ok() || read.code() == HEDDLE_STATUS_UNIMPLEMENTED,
          "reading a file by method %u returned %s; success or UNIMPLEMENTED was expected", method, read.text().c_str());
    if (!read.ok()) REQUIRE_OK(read_by(HEDDLE_FILE_METHOD_BUFFERED).release());
  }
  Result unknown = read_by(1u << 20);
  CHECK(unknown.code() == HEDDLE_STATUS_UNIMPLEMENTED, "reading a file by the unknown method %u returned %s; UNIMPLEMENTED was expected",
        1u << 20, unknown.text().c_str());
}

void scattered() {
  Session session;
  const uint64_t size = session.fitting(1 << 20);
  const Bytes bytes = random_bytes(size);
  TemporaryFile file(bytes);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  std::vector<heddle_buffer_t*> buffers = {session.buffer(size), session.buffer(size)};
  std::vector<Bytes> expected(2, Bytes(size, 0));
  List clear;
  session.run(clear.fill(buffers[0], 0, size, 0, 1).fill(buffers[1], 0, size, 0, 1));
  std::vector<heddle_extent_t> extents;
  const uint64_t cell = size / 32;
  for (uint64_t i = 0; i < 32; ++i) {  // disjoint targets, in any order
    const uint64_t length = random_below(cell), from = random_below(size - length), to = i * cell + random_below(cell - length + 1);
    const uint64_t which = random_below(2);
    extents.push_back({from, length, buffers[which], to});
    std::memcpy(expected[which].data() + to, bytes.data() + from, length);
  }
  std::shuffle(extents.begin(), extents.end(), random_numbers());
  REQUIRE_OK(opened.move(extents).release());
  for (size_t i = 0; i < 2; ++i)
    CHECK(session.download(buffers[i], 0, size) == expected[i], "scattered ranges of a file are not where they belong");
}

void unaligned_tails() {
  Session session;
  const Bytes bytes = random_bytes(70001);
  TemporaryFile file(bytes);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  heddle_buffer_t* buffer = session.buffer(70001);
  for (auto [from, length] :
       {std::pair<uint64_t, uint64_t>{0, 70001}, {1, 70000}, {511, 513}, {4095, 2}, {70000, 1}, {65535, 4466}, {513, 0}}) {
    REQUIRE_OK(opened.move({{from, length, buffer, 3 % (70001 - length + 1)}}).release());
    const Bytes found = session.download(buffer, 3 % (70001 - length + 1), length);
    CHECK(std::equal(found.begin(), found.end(), bytes.begin() + static_cast<long>(from)),
          "%llu bytes from byte %llu of a file were changed", number(length), number(from));
  }
}

void short_reads() {
  Session session;
  TemporaryFile file(random_bytes(10000));
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  heddle_buffer_t* buffer = session.buffer(20000);
  for (auto [from, length] : {std::pair<uint64_t, uint64_t>{0, 10001}, {9999, 2}, {10000, 1}, {1 << 20, 100}}) {
    Result result = opened.move({{from, length, buffer, 0}});
    CHECK(result.code() == HEDDLE_STATUS_DATA_LOSS, "%llu bytes from byte %llu of a file of 10000 returned %s; DATA_LOSS was expected",
          number(length), number(from), result.text().c_str());
    CHECK(result.message().find("weights.bin") != std::string::npos, "the failure of a short read does not name the file: %s",
          result.message().c_str());
  }
  Result third = opened.move({{0, 100, buffer, 0}, {50, 0, buffer, 0}, {5000, 6000, buffer, 1000}});
  CHECK(third.code() == HEDDLE_STATUS_DATA_LOSS && third.payload("extent") == "2",
        "a short read of the third extent returned %s with the payload 'extent' '%s'; DATA_LOSS and 2 were expected", third.text().c_str(),
        third.payload("extent").c_str());
  // It failed only its own signals.
  EXPECT_OK(opened.move({{0, 10000, buffer, 0}}).release());
}

void replaced_file() {
  Session session;
  const Bytes bytes = random_bytes(50000);
  TemporaryFile file(bytes);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  const std::string other = file.path + ".new";
  {
    const int replacement = open(other.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(replacement >= 0 && write(replacement, "other", 5) == 5, "making %s failed", other.c_str());
    close(replacement);
  }
  REQUIRE(rename(other.c_str(), file.path.c_str()) == 0, "renaming %s failed", other.c_str());
  heddle_buffer_t* buffer = session.buffer(50000);
  REQUIRE_OK(opened.move({{0, 50000, buffer, 0}}).release());
  CHECK(session.download(buffer, 0, 50000) == bytes, "a file that was opened and then replaced is read from its replacement");
}

void truncated_file() {
  Session session;
  TemporaryFile file(random_bytes(200000));
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  heddle_buffer_t* buffer = session.buffer(session.fitting(200000));
  REQUIRE(ftruncate(file.descriptor, 1000) == 0, "truncating a file failed");
  // A driver that maps files crashes here.
  EXPECT_CODE(opened.move({{0, 2000, buffer, 0}}).release(), HEDDLE_STATUS_DATA_LOSS);
}

void write_back() {
  Session session;
  TemporaryFile file(Bytes(300, 'x'));
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ | HEDDLE_FILE_WRITE);
  const uint64_t size = session.fitting(3000000) | 1;
  const Bytes bytes = random_bytes(size);
  heddle_buffer_t* buffer = session.buffer(size);
  session.upload(buffer, 0, bytes.data(), size);
  const heddle_param_io_params_t params = params_of(65536);
  Result status = opened.move({{100, size - 7, buffer, 7}}, &params, true);
  if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it writes no files, which is optional");
  REQUIRE(status.ok(), "writing a file returned %s", status.text().c_str());
  Bytes found(size + 93);
  REQUIRE(pread(file.descriptor, found.data(), found.size(), 0) == static_cast<ssize_t>(found.size()), "the file written is too short");
  CHECK(std::all_of(found.begin(), found.begin() + 100, [](char byte) { return byte == 'x'; }), "bytes before the extent were overwritten");
  CHECK(std::memcmp(found.data() + 100, bytes.data() + 7, size - 7) == 0, "the file does not contain the buffer's bytes");
}

void access_is_kept() {
  Session session;
  heddle_buffer_t* buffer = session.buffer(64);
  TemporaryFile file(random_bytes(64));
  {
    Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
    Result status = opened.move({{0, 64, buffer, 0}}, nullptr, true);
    CHECK(status.code() == HEDDLE_STATUS_INVALID_ARGUMENT || status.code() == HEDDLE_STATUS_UNIMPLEMENTED,
          "writing a file that was opened for reading returned %s; INVALID_ARGUMENT or UNIMPLEMENTED was expected", status.text().c_str());
  }
  heddle_file_t* opened = nullptr;
  EXPECT_CODE(session.tables().param_io.file_open(session.device, file.descriptor, 0, string_of("f"), &opened),
              HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_CODE(session.tables().param_io.file_open(session.device, -1, HEDDLE_FILE_READ, string_of("f"), &opened),
              HEDDLE_STATUS_INVALID_ARGUMENT);
  // Refused now, or when it is read; no descriptor is left open in either case.
  const int write_only = open(file.path.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(write_only >= 0, "opening %s for writing failed", file.path.c_str());
  const uint64_t descriptors = count_descriptors();
  for (auto [descriptor, access] : {std::pair<int, uint32_t>{write_only, HEDDLE_FILE_READ}, {file.descriptor, 1u << 20}, {-1, 3u}}) {
    Result status(session.tables().param_io.file_open(session.device, descriptor, access, string_of("f"), &opened));
    if (status.ok()) session.tables().param_io.file_close(opened);
  }
  CHECK(count_descriptors() == descriptors, "files that were refused left descriptors open");
  close(write_only);
}

void descriptor_is_duplicated() {
  Session session;
  const Bytes bytes = random_bytes(5000);
  heddle_buffer_t* buffer = session.buffer(5000);
  TemporaryFile file(bytes);
  const int descriptor = dup(file.descriptor);
  lseek(descriptor, 77, SEEK_SET);
  Opened opened(&session, descriptor, HEDDLE_FILE_READ);
  close(descriptor);
  REQUIRE_OK(opened.move({{0, 5000, buffer, 0}}).release());
  CHECK(session.download(buffer, 0, 5000) == bytes, "a file whose descriptor the caller closed is read incorrectly");
  CHECK(lseek(file.descriptor, 0, SEEK_CUR) == 77, "reading moved the caller's offset in the file");
}

struct Progress {
  std::vector<uint64_t> done;
  uint64_t total = 0;
  std::mutex mutex;
  static void note(void* context, uint64_t done, uint64_t total) {
    auto* self = static_cast<Progress*>(context);
    std::lock_guard<std::mutex> lock(self->mutex);
    self->done.push_back(done);
    self->total = total;
  }
};

void progress_grows() {
  Session session;
  const uint64_t size = session.fitting(4 << 20);
  TemporaryFile file(random_bytes(size));
  heddle_buffer_t* buffer = session.buffer(size);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  Progress progress;
  heddle_param_io_params_t params = params_of(65536);
  params.progress = Progress::note;
  params.context = &progress;
  REQUIRE_OK(opened.move({{0, size, buffer, 0}}, &params).release());
  REQUIRE(!progress.done.empty(), "progress was never reported [HD-T-04]");
  CHECK(std::is_sorted(progress.done.begin(), progress.done.end()), "progress went back [HD-T-04]");
  CHECK(progress.done.back() == size && progress.total == size, "progress ended at %llu of %llu; %llu bytes were read [HD-T-04]",
        number(progress.done.back()), number(progress.total), number(size));
  CHECK(progress.done.size() <= size / 65536 + 1, "progress was reported %zu times for %llu bytes in chunks of 65536 [HD-T-04]",
        progress.done.size(), number(size));
  const size_t told = progress.done.size();
  usleep(20000);
  CHECK(progress.done.size() == told, "progress was reported after the signal was reached [HD-Q-06]");
  progress.done.clear();
  const uint64_t third = size / 3;
  REQUIRE_OK(opened.move({{0, third, buffer, 0}, {third, third, buffer, third}, {0, 0, buffer, 0}, {5, 100, buffer, size - 100}}, &params)
                 .release());
  CHECK(std::is_sorted(progress.done.begin(), progress.done.end()), "progress of several extents went back [HD-T-04]");
  CHECK(!progress.done.empty() && progress.done.back() == 2 * third + 100 && progress.total == 2 * third + 100,
        "progress of several extents ended at %llu of %llu; %llu bytes were read [HD-T-04]",
        number(progress.done.empty() ? 0 : progress.done.back()), number(progress.total), number(2 * third + 100));
}

void cancelled_before() {
  Session session;
  TemporaryFile file(random_bytes(100000));
  heddle_buffer_t* buffer = session.buffer(100000);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  const volatile uint32_t cancel = 1;
  heddle_param_io_params_t params = params_of(4096);
  params.cancel = &cancel;
  Result result = opened.move({{0, 100000, buffer, 0}}, &params);
  CHECK(result.code() == HEDDLE_STATUS_CANCELLED, "a read that was cancelled before it began returned %s; CANCELLED was expected [HD-T-04]",
        result.text().c_str());
}

struct Cancel {
  uint64_t beyond = 0;  // cancels once more bytes than this are done
  std::atomic<uint32_t> flag{0};
  std::atomic<uint64_t> last{0};
  static void note(void* context, uint64_t done, uint64_t) {
    auto* self = static_cast<Cancel*>(context);
    self->last = done;
    if (done > self->beyond) self->flag = 1;
  }
};

void cancelled_meanwhile() {
  Session session;
  const uint64_t size = session.fitting(512 << 20);  // more than any driver has in flight at once
  TemporaryFile file{Bytes()};
  REQUIRE(ftruncate(file.descriptor, static_cast<off_t>(size)) == 0, "making a file of %llu bytes failed", number(size));
  heddle_buffer_t* buffer = session.buffer(size);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  auto cancelled = [&](const std::vector<heddle_extent_t>& extents, uint64_t beyond, const char* where) {
    Cancel cancel;
    cancel.beyond = beyond;
    heddle_param_io_params_t params = params_of(4096, 1);
    params.progress = Cancel::note;
    params.context = &cancel;
    params.cancel = reinterpret_cast<const volatile uint32_t*>(&cancel.flag);
    Result result = opened.move(extents, &params);
    CHECK(result.code() == HEDDLE_STATUS_CANCELLED,
          "a read of %llu bytes that was cancelled at %s returned %s; CANCELLED was expected [HD-T-04]", number(size), where,
          result.text().c_str());
    CHECK(cancel.last < size / 2 || size < 1 << 20, "after a cancellation at %s %llu of %llu bytes were read [HD-T-04]", where,
          number(cancel.last.load()), number(size));
  };
  cancelled({{0, size, buffer, 0}}, 0, "its first chunk");
  constexpr uint64_t kFirst = 40960;
  cancelled({{0, kFirst, buffer, 0}, {kFirst, size - kFirst, buffer, kFirst}}, kFirst, "the first chunk of its second extent");
}

void far_offsets() {
  Session session;
  TemporaryFile file(random_bytes(10));
  const uint64_t far = (uint64_t{5} << 30) + 17;
  const Bytes bytes = random_bytes(3000);
  if (pwrite(file.descriptor, bytes.data(), bytes.size(), static_cast<off_t>(far)) != 3000)
    absent("the file system has no sparse files of 5 GiB");
  heddle_buffer_t* buffer = session.buffer(3000);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  REQUIRE_OK(opened.move({{far, 3000, buffer, 0}}).release());
  CHECK(session.download(buffer, 0, 3000) == bytes, "bytes at file offset %llu were changed", number(far));
}

void over_4_gib() {
  if (!settings().large) absent("--large was not given");
  Session session;
  const uint64_t size = (uint64_t{1} << 32) + (3 << 20) + 5;
  if (session.description.max_allocation_bytes < size) absent("a buffer of the device has less than 4 GiB");
  TemporaryFile file(random_bytes(10));
  const Bytes bytes = random_bytes(3000);
  const uint64_t places[] = {(uint64_t{1} << 32) - 1500, uint64_t{1} << 31, size - 3000};
  heddle_buffer_t* buffer = session.buffer(size);
  for (uint64_t at : places) {
    if (pwrite(file.descriptor, bytes.data(), bytes.size(), static_cast<off_t>(at)) != 3000)
      absent("the file system has no sparse files of 4 GiB");
    List clear;
    session.run(clear.fill(buffer, at, 3000, 0, 1));
  }
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  Progress progress;
  heddle_param_io_params_t params = params_of(0);
  params.progress = Progress::note;
  params.context = &progress;
  REQUIRE_OK(opened.move({{0, size, buffer, 0}}, &params).release());
  for (uint64_t at : places)
    CHECK(session.download(buffer, at, 3000) == bytes, "of an extent of %llu bytes those at %llu were changed", number(size), number(at));
  CHECK(!progress.done.empty() && progress.done.back() == size && progress.total == size,
        "progress of an extent of %llu bytes ended at %llu of %llu", number(size), number(progress.done.empty() ? 0 : progress.done.back()),
        number(progress.total));
}

void extent_bounds() {
  Session session;
  TemporaryFile file(random_bytes(4096));
  heddle_buffer_t* buffer = session.buffer(4096);
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  EXPECT_CODE(opened.move({{0, 4096, buffer, 1}}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_CODE(opened.move({{0, 1, buffer, UINT64_MAX}}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_CODE(opened.move({{UINT64_MAX - 3, 8, buffer, 0}}).release(), HEDDLE_STATUS_OUT_OF_RANGE);
  EXPECT_CODE(opened.move({{0, 1, nullptr, 0}}).release(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_OK(opened.move({}).release());
}

void staging_is_bounded() {
  Session session;
  const uint64_t size = session.fitting(96 << 20);
  if (size < 64 << 20) absent("the device is too small to see how much memory a read takes");
  TemporaryFile file(Bytes(size, 'p'));
  heddle_buffer_t* buffer = session.buffer(size);
  List touch;
  session.run(touch.fill(buffer, 0, size, 0, 1));  // the buffer's own memory is excluded from here on
  Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
  heddle_param_io_params_t params = params_of(1 << 20);
  params.pinned_bytes = 8 << 20;
  REQUIRE_OK(opened.move({{0, 8 << 20, buffer, 0}}, &params).release());
  reset_peak_memory();
  const uint64_t before = resident_bytes();
  REQUIRE_OK(opened.move({{0, size, buffer, 0}}, &params).release());
  const uint64_t grew = peak_resident_bytes() - std::min(peak_resident_bytes(), before);
  CHECK(grew < 40 << 20, "reading %llu bytes with pinned_bytes of 8 MiB used %llu bytes of memory meanwhile", number(size), number(grew));
}

void mapped_file() {
  Session session;
  if (plugin().chosen_minor < 2) absent("it implements ABI 0.1, which maps no files");
  const uint64_t alignment = std::max<uint64_t>(session.description.min_alignment_bytes, 64), size = 5 * alignment + 20001;
  const Bytes bytes = random_bytes(size);
  TemporaryFile file(bytes);
  const heddle_param_io_interface_t& api = session.tables().param_io;
  heddle_buffer_t* target = session.buffer(size);
  auto look = [&](heddle_buffer_t* mapped, uint64_t from, uint64_t length) {
    List copy;
    session.run(copy.fill(target, 0, size, 0, 1).barrier().copy(mapped, 0, target, 0, length));
    const Bytes found = session.download(target, 0, length);
    CHECK(std::equal(found.begin(), found.end(), bytes.begin() + static_cast<long>(from)),
          "%llu bytes mapped from byte %llu of a file differ from its contents", number(length), number(from));
  };
  std::vector<heddle_buffer_t*> kept;
  {
    Opened opened(&session, file.descriptor, HEDDLE_FILE_READ);
    for (auto [from, length] : {std::pair<uint64_t, uint64_t>{0, size}, {alignment, 1}, {5 * alignment, 20001}, {2 * alignment, 0}}) {
      heddle_buffer_t* mapped = nullptr;
      Result status(api.map(opened.file, from, length, &mapped));
      if (kept.empty() && status.code() == HEDDLE_STATUS_UNIMPLEMENTED) absent("it maps no files, which is optional");
      REQUIRE(status.ok() && mapped, "mapping %llu bytes from byte %llu of a file returned %s", number(length), number(from),
              status.text().c_str());
      look(mapped, from, length);
      kept.push_back(mapped);
    }
    for (auto [from, length] : {std::pair<uint64_t, uint64_t>{0, size + 1}, {5 * alignment, 20002}, {alignment * 1000000, 1}}) {
      heddle_buffer_t* mapped = nullptr;
      Result status(api.map(opened.file, from, length, &mapped));
      CHECK(status.code() == HEDDLE_STATUS_DATA_LOSS && status.message().find("weights.bin") != std::string::npos,
            "mapping %llu bytes from byte %llu of a file of %llu returned %s; DATA_LOSS, with the file's name, was expected",
            number(length), number(from), number(size), status.text().c_str());
      if (status.ok() && mapped) session.tables().buffer.free(mapped);
    }
    heddle_buffer_t* odd = nullptr;
    EXPECT_CODE(api.map(opened.file, 1, 100, &odd), HEDDLE_STATUS_INVALID_ARGUMENT);
  }
  // The handle is closed. Writes to the buffer stay in memory.
  look(kept[0], 0, size);
  List fill;
  session.run(fill.fill(kept[0], 0, size, 0, 1));
  Bytes found(size);
  REQUIRE(pread(file.descriptor, found.data(), size, 0) == static_cast<ssize_t>(size), "reading %s failed", file.path.c_str());
  CHECK(found == bytes, "writes to a mapped file's buffer changed the file");
  for (heddle_buffer_t* buffer : kept) session.tables().buffer.free(buffer);
}

}  // namespace

void add_param_io_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"param_io.whole_file", "a file is read whole, in chunks of any size", whole_file, Kind::kDriver},
       {"param_io.methods", "a file is read by every method that the driver supports, and the others are UNIMPLEMENTED", every_method,
        Kind::kDriver},
       {"param_io.scattered", "scattered ranges go where they belong, and nowhere else", scattered, Kind::kDriver},
       {"param_io.unaligned", "offsets and lengths need no alignment", unaligned_tails, Kind::kDriver},
       {"param_io.short_read", "a short read is DATA_LOSS and names the file", short_reads, Kind::kDriver},
       {"param_io.replaced", "a file that is replaced meanwhile is read as it was opened", replaced_file, Kind::kDriver},
       {"param_io.truncated", "a file that is truncated meanwhile is DATA_LOSS, not a crash", truncated_file, Kind::kDriver},
       {"param_io.write", "a buffer is written back, and nothing else", write_back, Kind::kDriver},
       {"param_io.access", "a file is used as it was opened", access_is_kept, Kind::kDriver},
       {"param_io.descriptor", "the descriptor is duplicated and its offset does not change", descriptor_is_duplicated, Kind::kDriver},
       {"param_io.progress", "progress grows to the total, is reported at most once per chunk, and never after the signal", progress_grows,
        Kind::kDriver},
       {"param_io.cancelled_before", "a read that is cancelled before it begins fails with CANCELLED", cancelled_before, Kind::kDriver},
       {"param_io.cancelled_meanwhile", "a read that is cancelled meanwhile stops soon, with CANCELLED", cancelled_meanwhile,
        Kind::kDriver},
       {"param_io.far_offset", "file offsets have 64 bits", far_offsets, Kind::kDriver},
       {"param_io.over_4_gib", "an extent of more than 4 GiB is read whole, and counted", over_4_gib, Kind::kDriver},
       {"param_io.bounds", "extents stay inside buffers and below 2^63 [HD-M-02]", extent_bounds, Kind::kDriver},
       {"param_io.mapped", "a mapped range has the file's bytes, ends with the file, and is not written back", mapped_file, Kind::kDriver},
       {"param_io.bounded_staging", "memory while reading is bounded, not the file's size", staging_is_bounded, Kind::kDriver}});
}

}  // namespace heddle::conformance
