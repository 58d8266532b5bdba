// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy files: magic, version, header length, a Python dict literal with three keys, data.
#include "tools/heddle/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>

#include "sdk/module/element_types.h"
#include "sdk/module/npy_header.h"
#include "sdk/module/output_file.h"

namespace heddle::tool {
namespace {

constexpr const char kSaveAgain[] = "; save the array again with numpy.save";

// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: strings, True, False, tuples of integers, nothing else.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Wrong parse(Shape& shape) {
    if (!take('{')) return std::string("header: it is not a dictionary") + kSaveAgain;
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      std::string_view key;
      if (!string(key) || !take(':')) return at("expected a key");
      if (key == "descr" && !has_descr) {
        if (Wrong wrong = descr(shape); !wrong.empty()) return wrong;
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        if (word("True")) return "header: the data is in Fortran order; save it with numpy.ascontiguousarray";
        if (!word("False")) return at("expected True or False");
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        if (Wrong wrong = dims(shape); !wrong.empty()) return wrong;
        has_shape = true;
      } else {
        return at("key '" + std::string(key.substr(0, 40)) + "' is unknown or duplicate");
      }
      if (!take(',')) {
        if (!take('}')) return at("expected ',' or '}'");
        break;
      }
    }
    space();
    if (position_ != text_.size()) return at("there is text after the dictionary");
    if (!has_descr || !has_order || !has_shape) return std::string("header: descr, fortran_order or shape is missing") + kSaveAgain;
    return {};
  }

 private:
  Wrong at(const std::string& what) const { return "header, byte " + std::to_string(position_) + ": " + what + kSaveAgain; }
  void space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n' || text_[position_] == '\t')) ++position_;
  }
  bool take(char c) {
    space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  bool word(std::string_view expected) {
    space();
    if (text_.substr(position_, expected.size()) != expected) return false;
    position_ += expected.size();
    return true;
  }
  bool string(std::string_view& out) {
    space();
    if (position_ == text_.size() || (text_[position_] != '\'' && text_[position_] != '"')) return false;
    const size_t end = text_.find(text_[position_], position_ + 1);
    if (end == std::string_view::npos) return false;
    out = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return out.find('\\') == std::string_view::npos;
  }
  Wrong descr(Shape& shape) {
    std::string_view code;
    if (!string(code))
      return "header: descr is not a string, as in structured arrays, which are not supported; save each field as an array";
    shape.element_type = module::npy_type_from_code(code);
    if (shape.element_type != HEDDLE_TYPE_UNDEFINED) return {};
    const std::string shown = "'" + std::string(code.substr(0, 40)) + "'";
    if (!code.empty() && code[0] == '>')
      return "header: type " + shown + " is big-endian; save it as little-endian, such as with array.astype(array.dtype.newbyteorder('<'))";
    return "header: type " + shown + " is not supported; convert it, such as with array.astype('float32')";
  }
  Wrong dims(Shape& shape) {
    if (!take('(')) return at("shape is not a tuple");
    while (!take(')')) {
      space();
      int64_t extent = 0;
      const char* begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) return at("expected an extent");
      position_ += static_cast<size_t>(end - begin);
      if (shape.dims.size() == HEDDLE_MAX_RANK)
        return "header: it has more than " + std::to_string(HEDDLE_MAX_RANK) + " dimensions; reshape the array";
      shape.dims.push_back(extent);
      if (!take(',')) {
        if (!take(')')) return at("expected ',' or ')'");
        break;
      }
    }
    return {};
  }

  std::string_view text_;
  size_t position_ = 0;
};

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
  out = NpyHeader{};
  auto byte = [&](size_t i) { return static_cast<uint8_t>(file[i]); };
  if (file.size() < 10 || std::memcmp(file.data(), module::kNpyMagic.data(), module::kNpyMagic.size()) != 0)
    return std::string("it does not start like an .npy file") + kSaveAgain;
  const uint8_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    return "its version is " + std::to_string(major) + "." + std::to_string(minor) + "; 1.0, 2.0 and 3.0 are supported" + kSaveAgain;
  const size_t prefix = major == 1 ? 10 : 12;
  if (file.size() < prefix) return std::string("it ends inside its header") + kSaveAgain;
  const size_t length = major == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | static_cast<size_t>(byte(11)) << 24;
  if (length > kMaxNpyHeaderBytes)
    return "its header of " + std::to_string(length) + " bytes is above " + std::to_string(kMaxNpyHeaderBytes) + kSaveAgain;
  if (length > file.size() - prefix) return std::string("it ends inside its header") + kSaveAgain;
  out.data_offset = prefix + length;
  return HeaderParser({reinterpret_cast<const char*>(file.data()) + prefix, length}).parse(out.shape);
}

Wrong read_npy_header(const InputFile& file, uint64_t offset, uint64_t length, NpyHeader& out) {
  std::vector<std::byte> head(std::min<uint64_t>(length, kNpyHeadBytes));
  if (Wrong wrong = file.read(offset, head); !wrong.empty()) return wrong;
  if (Wrong wrong = parse_npy_header(head, out); !wrong.empty()) return wrong;
  const std::optional<uint64_t> bytes = byte_count(out.shape);
  const uint64_t held = length - out.data_offset;
  if (bytes && *bytes == held) return {};
  return "its data has " + std::to_string(held) + " bytes, its shape " + shape_text(out.shape) + " needs " +
         (bytes ? std::to_string(*bytes) : std::string("more than fit into 64 bits")) +
         "; copy the file again, or save the array again with numpy.save";
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
