// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies for a queue whose work is done by a host thread, and whose device has memory that the host cannot address: through Device::read and write.
#include <algorithm>
#include <cstring>

#include "heddle/sdk/driver.h"

namespace heddle::sdk {
namespace {

using Kind = Operation::Kind;

constexpr uint64_t kBlock = 64 << 10;

heddle_status_t* get(Device* device, const Range& range, uint64_t offset, char* bytes, uint64_t length) {
  if (const char* memory = range.buffer->host_address()) {
    std::memcpy(bytes, memory + range.offset + offset, length);
    return nullptr;
  }
  return device->read(range.buffer, range.offset + offset, bytes, length);
}

heddle_status_t* put(Device* device, const Range& range, uint64_t offset, const char* bytes, uint64_t length) {
  if (char* memory = range.buffer->host_address()) {
    std::memcpy(memory + range.offset + offset, bytes, length);
    return nullptr;
  }
  return device->write(range.buffer, range.offset + offset, bytes, length);
}

class Copier {
 public:
  explicit Copier(Device* device) : device_(device) {}

  heddle_status_t* copy(const Range& source, uint64_t from, const Range& target, uint64_t to, uint64_t length) {
    block_.resize(std::min(length, kBlock));
    for (uint64_t done = 0; done < length; done += block_.size()) {
      const uint64_t part = std::min<uint64_t>(block_.size(), length - done);
      if (heddle_status_t* failed = get(device_, source, from + done, block_.data(), part)) return failed;
      if (heddle_status_t* failed = put(device_, target, to + done, block_.data(), part)) return failed;
    }
    return nullptr;
  }

  // A block has a whole number of patterns, since a pattern has 1, 2, 4 or 8 bytes.
  heddle_status_t* fill(const Range& target, uint64_t pattern, uint32_t pattern_bytes) {
    block_.resize(std::min(target.length, kBlock));
    for (uint64_t i = 0; i < block_.size(); ++i) block_[i] = static_cast<char>(pattern >> (8 * (i % pattern_bytes)));
    for (uint64_t done = 0; done < target.length; done += block_.size()) {
      if (heddle_status_t* failed = put(device_, target, done, block_.data(), std::min<uint64_t>(block_.size(), target.length - done)))
        return failed;
    }
    return nullptr;
  }

 private:
  Device* device_;
  std::vector<char> block_;
};

}  // namespace

heddle_status_t* run_by_copies(Device* device, const Operation& operation) noexcept {
  const bool is_reachable = std::all_of(operation.ranges.begin(), operation.ranges.end(),
                                        [](const Range& range) { return range.length == 0 || range.buffer->host_address() != nullptr; });
  if (is_reachable || operation.kind == Kind::kDispatch) return run_on_host(device, operation);
  return guarded(device->host, "running a command", [&]() -> heddle_status_t* {
    const std::vector<Range>& ranges = operation.ranges;
    Copier copier(device);
    switch (operation.kind) {
      case Kind::kCopy:
        return copier.copy(ranges[0], 0, ranges[1], 0, ranges[0].length);
      case Kind::kCopy2d:
        for (uint64_t row = 0; row < operation.rows; ++row) {
          if (heddle_status_t* failed =
                  copier.copy(ranges[0], row * operation.source_stride, ranges[1], row * operation.target_stride, operation.row_bytes)) {
            return failed;
          }
        }
        return nullptr;
      case Kind::kFill:
        return copier.fill(ranges[0], operation.pattern, operation.pattern_bytes);
      case Kind::kUpdate:
        return put(device, ranges[0], 0, operation.bytes.data(), ranges[0].length);
      case Kind::kUpload:
        return put(device, ranges[0], 0, operation.host_source, ranges[0].length);
      case Kind::kDownload:
        return get(device, ranges[0], 0, operation.host_target, ranges[0].length);
      default:
        return run_on_host(device, operation);
    }
  });
}

}  // namespace heddle::sdk
