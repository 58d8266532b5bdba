// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy files: magic, version, header length, a Python dict literal with three keys, data.
#include "tools/heddle/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>

#include "sdk/module/element_types.h"
#include "sdk/module/npy_header.h"
#include "sdk/module/output_file.h"

namespace heddle::tool {
namespace {

std::string about(const std::string& path, const std::string& what) {
  return "'" + path + "': " + what;
}

// Calls `take` for both, and then for each part of the data.
module::Status for_all(std::string_view head, const module::ParameterSource& data,
                       const std::function<module::Status(std::span<const std::byte>)>& take) {
  if (module::Status failed = take(std::as_bytes(std::span(head)))) return failed;
  return module::for_each_piece(data, take);
}

// Opens for appending. If it is the standard output, later output comes after this data, because both share one offset.
int open_stream(const std::string& path) {
  struct stat named, standard;
  const bool is_standard = stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &standard) == 0 && named.st_dev == standard.st_dev &&
                           named.st_ino == standard.st_ino;
  if (!is_standard) return open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  std::fflush(stdout);
  return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

Wrong write_pieces(const std::string& path, std::string_view head, const module::ParameterSource& data) {
  // A pipe or /dev/stdout is written to directly; a regular file appears only once it is complete.
  if (module::OutputFile::is_stream(path)) {
    const int descriptor = open_stream(path);
    if (descriptor < 0) return about(path, module::why_not_written(errno));
    const module::Status failed = for_all(head, data, [&](std::span<const std::byte> piece) -> module::Status {
      while (!piece.empty()) {
        const ssize_t written = write(descriptor, piece.data(), piece.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return module::Error{HEDDLE_STATUS_UNKNOWN, about(path, module::why_not_written(errno))};
        piece = piece.subspan(static_cast<size_t>(written));
      }
      return std::nullopt;
    });
    close(descriptor);
    return wrong_of(failed);
  }
  module::OutputFile file(path);
  module::Status failed = file.open();
  if (!failed) failed = for_all(head, data, [&](std::span<const std::byte> piece) { return file.append(piece); });
  if (!failed) failed = file.commit(false);
  return wrong_of(failed);
}

}  // namespace

Wrong wrong_of(const module::Status& failed) {
  if (!failed) return {};
  constexpr std::string_view kWho = "module: ";
  return failed->message.rfind(kWho, 0) == 0 ? failed->message.substr(kWho.size()) : failed->message;
}

Wrong refuse_npy(const Shape& shape) {
  if (module::npy_type_code(shape.element_type).empty())
    return "NumPy has no type for " + std::string(module::element_type_name(shape.element_type)) + "; write a .bin file";
  if (shape.dims.size() > HEDDLE_MAX_RANK) {
    return "it has " + std::to_string(shape.dims.size()) + " dimensions, and .npy files are supported with at most " +
           std::to_string(HEDDLE_MAX_RANK) + "; write a .bin file";
  }
  return {};
}

Wrong parse_npy_header(std::span<const std::byte> file, NpyHeader& out) {
  module::NpyHeader header;
  Wrong wrong = module::parse_npy_header(file, header);
  out = {{header.element_type, std::move(header.dims)}, header.data_offset};
  return wrong;
}

Wrong read_npy_header(const InputFile& file, uint64_t offset, uint64_t length, NpyHeader& out) {
  module::NpyHeader header;
  Wrong wrong = module::read_npy_header(file.view(), offset, length, header);
  out = {{header.element_type, std::move(header.dims)}, header.data_offset};
  return wrong;
}

Wrong read_npy(const std::string& path, HostTensor& out) {
  InputFile file;
  if (Wrong wrong = file.open(path); !wrong.empty()) return file.about(wrong);
  return file.about(read_npy(file, 0, file.size_bytes(), out));
}

Wrong read_npy(const InputFile& file, uint64_t offset, uint64_t length, HostTensor& out) {
  NpyHeader header;
  // Checked before allocating: the file must really hold what its header claims.
  if (Wrong wrong = read_npy_header(file, offset, length, header); !wrong.empty()) return wrong;
  out.shape = header.shape;
  try {
    out.bytes.resize(length - header.data_offset);
  } catch (const std::bad_alloc&) {
    return no_memory(length - header.data_offset);
  }
  return file.read(offset + header.data_offset, out.bytes);
}

Wrong write_npy(const std::string& path, const Shape& shape, const module::ParameterSource& data) {
  if (Wrong wrong = refuse_npy(shape); !wrong.empty()) return about(path, wrong);
  return write_pieces(path, module::npy_header(shape.element_type, shape.dims), data);
}

Wrong read_raw(const std::string& path, uint64_t size_bytes, const std::string& shape, std::vector<std::byte>& out) {
  InputFile file;
  if (Wrong wrong = file.open(path); !wrong.empty()) return file.about(wrong);
  if (file.size_bytes() != size_bytes)
    return file.about("it has " + std::to_string(file.size_bytes()) + " bytes, " + shape + " needs " + std::to_string(size_bytes) +
                      "; a file that is neither .npy nor .npz holds only the bytes of the values: save the array with numpy.save");
  try {
    out.resize(size_bytes);
  } catch (const std::bad_alloc&) {
    return file.about(no_memory(size_bytes));
  }
  return file.about(file.read(0, out));
}

Wrong write_raw(const std::string& path, const module::ParameterSource& data) {
  return write_pieces(path, {}, data);
}

}  // namespace heddle::tool
