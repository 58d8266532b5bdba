// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns ops into CUDA calls on one stream. A stream runs in order, so barriers cost nothing here.
#include <algorithm>

#include "cuda/list.h"

namespace heddle::cuda {
namespace {

constexpr uint64_t kMaxPitch = (uint64_t{1} << 31) - 1;
constexpr uint64_t kMaxRows = uint64_t{1} << 24;  // per 2-D fill

// early: only a kernel precedes it on the stream, so that it may start before that kernel has finished.
CUresult launch(const Api& cuda, const List& list, const Op::Launch& op, bool early, CUstream stream) noexcept {
  const Entry& entry = *op.entry;
  size_t bytes = entry.arguments_bytes;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<char*>(list.arguments.data() + op.arguments_at), CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &bytes, CU_LAUNCH_PARAM_END};
  if (early && entry.starts_early) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {op.grid[0],     op.grid[1],         op.grid[2], entry.block[0], entry.block[1],
                             entry.block[2], entry.shared_bytes, stream,     &attribute,     1};
    return cuda.cuLaunchKernelEx(&config, entry.function, nullptr, bytes ? extra : nullptr);
  }
  return cuda.cuLaunchKernel(entry.function, op.grid[0], op.grid[1], op.grid[2], entry.block[0], entry.block[1], entry.block[2],
                             entry.shared_bytes, stream, nullptr, bytes ? extra : nullptr);
}

// Fills every `width`-th unit of `unit` bytes, starting at `to`.
CUresult fill_column(const Api& cuda, CUdeviceptr to, uint64_t pitch, uint32_t unit, uint32_t value, uint64_t count,
                     CUstream stream) noexcept {
  for (uint64_t done = 0; done < count; done += kMaxRows) {
    const uint64_t rows = std::min(kMaxRows, count - done);
    const CUdeviceptr at = to + done * pitch;
    const CUresult result = unit == 4   ? cuda.cuMemsetD2D32Async(at, pitch, value, 1, rows, stream)
                            : unit == 2 ? cuda.cuMemsetD2D16Async(at, pitch, static_cast<unsigned short>(value), 1, rows, stream)
                                        : cuda.cuMemsetD2D8Async(at, pitch, static_cast<unsigned char>(value), 1, rows, stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// The narrowest equivalent form of a pattern.
uint32_t narrow(uint64_t pattern, uint32_t bytes) noexcept {
  if (bytes == 8 && (pattern >> 32) == (pattern & 0xffffffffu)) bytes = 4;
  if (bytes == 4 && ((pattern >> 16) & 0xffffu) == (pattern & 0xffffu)) bytes = 2;
  if (bytes == 2 && ((pattern >> 8) & 0xffu) == (pattern & 0xffu)) bytes = 1;
  return bytes;
}

CUresult fill(const Api& cuda, const Op::Fill& op, CUstream stream) noexcept {
  const uint32_t bytes = narrow(op.pattern, op.pattern_bytes);
  const uint64_t count = op.length / bytes, remainder = op.length % bytes;
  const bool aligned = op.to % std::min(bytes, 4u) == 0;
  CUresult result = CUDA_SUCCESS;
  if (bytes == 1) {
    result = cuda.cuMemsetD8Async(op.to, static_cast<unsigned char>(op.pattern), count, stream);
  } else if (bytes == 2 && aligned) {
    if (count) result = cuda.cuMemsetD16Async(op.to, static_cast<unsigned short>(op.pattern), count, stream);
  } else if (bytes == 4 && aligned) {
    if (count) result = cuda.cuMemsetD32Async(op.to, static_cast<uint32_t>(op.pattern), count, stream);
  } else {  // column by column
    const uint32_t unit = aligned ? std::min(bytes, 4u) : 1;
    for (uint32_t at = 0; at < bytes && count && result == CUDA_SUCCESS; at += unit) {
      result = fill_column(cuda, op.to + at, bytes, unit, static_cast<uint32_t>(op.pattern >> (8 * at)), count, stream);
    }
  }
  for (uint64_t i = 0; i < remainder && result == CUDA_SUCCESS; ++i) {
    result = cuda.cuMemsetD8Async(op.to + count * bytes + i, static_cast<unsigned char>(op.pattern >> (8 * i)), 1, stream);
  }
  return result;
}

CUresult copy_2d(const Api& cuda, const Op::Copy2d& op, CUstream stream) noexcept {
  if (op.rows == 1 || (op.from_stride == op.row_bytes && op.to_stride == op.row_bytes)) {
    return cuda.cuMemcpyAsync(op.to, op.from, op.row_bytes * op.rows, stream);
  }
  if (op.from_stride >= op.row_bytes && op.from_stride <= kMaxPitch && op.to_stride <= kMaxPitch) {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = op.from;
    copy.dstDevice = op.to;
    copy.srcPitch = op.from_stride;
    copy.dstPitch = op.to_stride;
    copy.WidthInBytes = op.row_bytes;
    copy.Height = op.rows;
    return cuda.cuMemcpy2DAsync(&copy, stream);
  }
  for (uint64_t i = 0; i < op.rows; ++i) {  // overlapping rows, or strides of gigabytes
    if (CUresult bad = cuda.cuMemcpyAsync(op.to + i * op.to_stride, op.from + i * op.from_stride, op.row_bytes, stream)) return bad;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult issue(const Api& cuda, const List& list, const std::vector<CUevent>& events, CUstream stream, size_t* out_failed) noexcept {
  bool behind_kernel = false;  // the previous op is a kernel of this list that supports an early start
  if (!events.empty()) {
    if (CUresult bad = cuda.cuEventRecord(events[0], stream)) return bad;
  }
  for (size_t i = 0; i < list.ops.size(); ++i) {
    const Op& op = list.ops[i];
    CUresult result = CUDA_SUCCESS;
    switch (op.kind) {
      case Op::Kind::kBarrier:
        break;
      case Op::Kind::kLaunch:
        result = launch(cuda, list, op.launch, behind_kernel, stream);
        break;
      case Op::Kind::kCopy:
        result = cuda.cuMemcpyAsync(op.copy.to, op.copy.from, op.copy.length, stream);
        break;
      case Op::Kind::kFill:
        result = fill(cuda, op.fill, stream);
        break;
      case Op::Kind::kCopy2d:
        result = copy_2d(cuda, op.copy_2d, stream);
        break;
      case Op::Kind::kPeerCopy:
        result = cuda.cuMemcpyPeerAsync(op.peer_copy.to, op.peer_copy.to_context, op.peer_copy.from, op.peer_copy.from_context,
                                        op.peer_copy.length, stream);
        break;
    }
    if (result == CUDA_SUCCESS && !events.empty()) result = cuda.cuEventRecord(events[i + 1], stream);
    if (result != CUDA_SUCCESS) [[unlikely]] {
      *out_failed = i;
      return result;
    }
    if (op.kind != Op::Kind::kBarrier && events.empty()) behind_kernel = op.kind == Op::Kind::kLaunch && op.launch.entry->starts_early;
  }
  return CUDA_SUCCESS;
}

}  // namespace heddle::cuda
