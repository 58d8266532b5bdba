// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes on the parts of a parameter, with one buffer for all of them.
#include "sdk/module/parameter_source.h"

#include <algorithm>
#include <memory>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace heddle::module {

Status for_each_piece(const ParameterSource& source, const std::function<Status(std::span<const std::byte>)>& take) {
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  std::unique_ptr<std::byte[]> buffer;
  if (source.read) buffer.reset(new std::byte[std::min(kPiece, std::max<uint64_t>(source.size_bytes, 1))]);
  for (uint64_t done = 0; done < source.size_bytes;) {
    const uint64_t count = std::min(kPiece, source.size_bytes - done);
    std::span<const std::byte> piece;
    if (source.read) {
      if (Status failed = source.read(done, {buffer.get(), count})) return failed;
      piece = {buffer.get(), count};
    } else {
      piece = source.bytes.subspan(done, count);
    }
    if (Status failed = take(piece)) return failed;
    done += count;
  }
  return std::nullopt;
}

Result<uint64_t> hash_each_piece(const ParameterSource& source, const std::function<Status(std::span<const std::byte>)>& take) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  Status failed = for_each_piece(source, [&](std::span<const std::byte> piece) {
    XXH3_64bits_update(state.get(), piece.data(), piece.size());
    return take(piece);
  });
  if (failed) return *failed;
  return XXH3_64bits_digest(state.get());
}

}  // namespace heddle::module
