// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "compiler/import/operators.h"
#include "llvm/Support/ConvertUTF.h"
#include "sdk/module/file_view.h"

namespace heddle::import {
namespace {

// Protobuf reads messages up to 100 deep, and each graph is in an attribute of a node of another one.
constexpr int deepest_graphs = 30;

// Closes a descriptor at the end of a scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

bool parse_number(const std::string& text, uint64_t& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::string read_external(const OnnxFile& file, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target) {
  std::string location;
  uint64_t start = 0, length = std::numeric_limits<uint64_t>::max();
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset" && !parse_number(entry.value(), start)) return "external offset '" + entry.value() + "' is not a number";
    if (entry.key() == "length" && !parse_number(entry.value(), length)) return "external length '" + entry.value() + "' is not a number";
  }
  std::string what = "external data '" + location + "' of tensor '" + tensor.name() + "'";
  if (location.empty() || location.find('\0') != std::string::npos) return what + " has no location";
  if (length < size || offset > length - size)
    return what + " has " + std::to_string(length) + " bytes, its shape says at least " + std::to_string(offset + size);
  if (start > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - offset) return what + " has an offset beyond any file";
  Descriptor data{module::open_beside(file.path, location)};
  if (data.value < 0) return "opening " + what + " failed: " + module::why_not_beside(errno);
  struct stat info{};
  if (fstat(data.value, &info) != 0 || !S_ISREG(info.st_mode)) return what + " is not a regular file";
  const auto held = static_cast<uint64_t>(info.st_size);
  if (length != std::numeric_limits<uint64_t>::max() && (start > held || length > held - start))
    return what + " is said to have " + std::to_string(length) + " bytes from byte " + std::to_string(start) + " on, and its file has " +
           std::to_string(held) + "; copy the file or export the model again";
  const std::string changed = what + " was written to while the model was compiled; compile again while the model's files do not change";
  if (!file.external.is_unchanged(location, data.value)) return changed;
  for (uint64_t done = 0; done < size;) {
    ssize_t got = pread(data.value, target + done, size - done, static_cast<off_t>(start + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return "reading " + what + " failed: " + std::strerror(errno);
    if (got == 0)
      return what + " ends at byte " + std::to_string(start + offset + done) + ", " + std::to_string(size - done) + " bytes short";
    done += got;
  }
  return file.external.is_unchanged(location, data.value) ? "" : changed;
}

// Why a file was not parsed, and what to do. Other files that are easily taken for a model are known by their first bytes.
std::string why_not_onnx(int descriptor, int64_t size_bytes, bool is_protobuf) {
  char first[9] = {};
  const ssize_t got = pread(descriptor, first, sizeof(first), 0);
  const std::string_view begin(first, got > 0 ? static_cast<size_t>(got) : 0);
  if (begin.starts_with("\x8fHDL")) return "it is a compiled module already; run it with heddle run";
  if (begin.starts_with("PK\3\4") || begin.starts_with("\x80\2"))
    return "it is a file of PyTorch or NumPy, and not an ONNX model; export the model with torch.onnx.export";
  if (begin.size() == 9 && begin.substr(4, 5) == std::string_view("\0\0\0\0{", 5))
    return "it is a safetensors file, which holds parameters and no graph; export the model as .onnx";
  return (is_protobuf ? "it holds no graph" : "it is truncated, damaged or not an ONNX file") + (" (" + std::to_string(size_bytes)) +
         " bytes); copy the file or export the model again";
}

// Copies a slice of elements that protobuf has in a field of another width.
template <typename To, typename Field>
std::string copy_field(const Field& field, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target) {
  uint64_t first = offset / sizeof(To), count = size / sizeof(To);
  if (offset % sizeof(To) != 0 || size % sizeof(To) != 0) return "unaligned read of tensor '" + tensor.name() + "'";
  if (first > static_cast<uint64_t>(field.size()) || count > static_cast<uint64_t>(field.size()) - first) {
    return "tensor '" + tensor.name() + "' has " + std::to_string(field.size()) + " elements, its shape says at least " +
           std::to_string(first + count);
  }
  for (uint64_t i = 0; i < count; ++i) {
    To element = static_cast<To>(field.Get(static_cast<int>(first + i)));
    std::memcpy(target + i * sizeof(To), &element, sizeof(To));
  }
  return "";
}

// The name of a node with graphs that are nested deeper than a file may have them; empty if there is none.
std::string find_nested(const onnx::GraphProto& graph, int depth) {
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      if (depth == deepest_graphs) return !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
      if (std::string found = find_nested(attribute.g(), depth + 1); !found.empty()) return found;
    }
  }
  return {};
}

// Throws if a file that protobuf did not read has graphs in graphs that are nested too deep for it. Importers call themselves for each of them.
void refuse_nesting(const std::string& path, int descriptor) {
  constexpr int most_messages = 1000;
  if (lseek(descriptor, 0, SEEK_SET) != 0) return;
  google::protobuf::io::FileInputStream stream(descriptor);
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  coded.SetRecursionLimit(most_messages);
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) return;
  const std::string node = find_nested(model.graph(), 0);
  throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: reading '" + path + "' failed: it is nested too deep" +
                                                    (node.empty() ? "" : " at node '" + node + "'") + "; graphs may be nested " +
                                                    std::to_string(deepest_graphs) + " deep, so take some of them out of others"};
}

}  // namespace

std::string domain_key(const std::string& domain) {
  return domain == default_domain ? "" : domain;
}

void check_opsets(const Opsets& opsets, const std::string& what) {
  auto own = opsets.find("");
  if (own == opsets.end() || (own->second >= oldest_opset && own->second <= newest_opset)) return;
  throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing " + what + " failed: opset " + std::to_string(own->second) +
                                                 " is outside of " + std::to_string(oldest_opset) + " to " + std::to_string(newest_opset) +
                                                 "; export the model with one of these"};
}

const Opsets* OnnxFile::note_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets& noted = opsets_of_functions.emplace_back();
  for (const auto& entry : imports) noted.try_emplace(domain_key(entry.domain()), entry.version());
  return &noted;
}

const Opsets& OnnxFile::opsets_of(const onnx::NodeProto& node) const {
  auto found = opsets_of_nodes.find(&node);
  return found == opsets_of_nodes.end() ? opsets : *found->second;
}

int64_t OnnxFile::opset_of(const onnx::NodeProto& node) const {
  const Opsets& imported = opsets_of(node);
  auto own = imported.find("");
  return own == imported.end() ? 0 : own->second;
}

int64_t OnnxFile::version_for(const onnx::NodeProto& node) const {
  const Opsets& imported = opsets_of(node);
  auto own = imported.find(domain_key(node.domain()));
  return own != imported.end() ? own->second : domain_key(node.domain()).empty() ? 0 : 1;
}

bool ExternalFiles::is_unchanged(const std::string& location, int descriptor) {
  struct stat info{};
  if (fstat(descriptor, &info) != 0) return false;
  const std::array<int64_t, 7> now = {static_cast<int64_t>(info.st_dev),
                                      static_cast<int64_t>(info.st_ino),
                                      info.st_size,
                                      info.st_mtim.tv_sec,
                                      info.st_mtim.tv_nsec,
                                      info.st_ctim.tv_sec,
                                      info.st_ctim.tv_nsec};
  std::lock_guard lock(lock_);
  return facts_.try_emplace(location, now).first->second == now;
}

std::shared_ptr<OnnxFile> read_onnx_file(const std::string& path) {
  Descriptor descriptor{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (descriptor.value < 0) {
    heddle_status_code_t code = errno == ENOENT ? HEDDLE_STATUS_NOT_FOUND : HEDDLE_STATUS_PERMISSION_DENIED;
    const std::string next = errno == EACCES ? "; give this user the right to read it" : "; check the path";
    throw Failure{code, "onnx: opening '" + path + "' failed: " + std::strerror(errno) + next};
  }
  struct stat info{};
  if (fstat(descriptor.value, &info) != 0 || !S_ISREG(info.st_mode)) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT,
                  "onnx: opening '" + path + "' failed: it is not a regular file; name a model file, .onnx or .mlir"};
  }
  if (info.st_size > std::numeric_limits<int32_t>::max()) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: reading '" + path + "' failed: it has " + std::to_string(info.st_size) +
                                                      " bytes, and protobuf files end at 2147483647; store the weights as external data"};
  }
  auto file = std::make_shared<OnnxFile>();
  file->path = path;
  google::protobuf::io::FileInputStream stream(descriptor.value);
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  bool parsed = file->model.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
  if (!parsed) refuse_nesting(path, descriptor.value);
  if (!parsed || !file->model.has_graph()) {
    throw Failure{HEDDLE_STATUS_DATA_LOSS, "onnx: reading '" + path + "' failed: " + why_not_onnx(descriptor.value, info.st_size, parsed)};
  }
  file->opsets = *file->note_opsets(file->model.opset_import());
  if (file->opsets.empty() && file->model.ir_version() < 3) file->opsets[""] = 1;  // files of that time do not say it
  return file;
}

bool is_utf8(const std::string& text) {
  auto* start = reinterpret_cast<const llvm::UTF8*>(text.data());
  return llvm::isLegalUTF8String(&start, start + text.size());
}

std::string printable(std::string text, size_t most_bytes) {
  constexpr size_t kept_at_end = 500;  // the cause and the next step are at the end
  if (text.size() > most_bytes) {
    text = text.substr(0, most_bytes - kept_at_end) + "..." + text.substr(text.size() - kept_at_end);
  }
  bool is_text = is_utf8(text);
  for (char& c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) c = '?';
  }
  return text;
}

std::string_view narrow_name(int32_t onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT8E4M3FN:
      return "f8e4m3";
    case onnx::TensorProto::FLOAT8E4M3FNUZ:
      return "f8e4m3fnuz";
    case onnx::TensorProto::FLOAT8E5M2:
      return "f8e5m2";
    case onnx::TensorProto::FLOAT8E5M2FNUZ:
      return "f8e5m2fnuz";
    case onnx::TensorProto::FLOAT8E8M0:
      return "f8e8m0";
    case onnx::TensorProto::FLOAT4E2M1:
      return "f4e2m1";
    case onnx::TensorProto::INT4:
      return "i4";
    case onnx::TensorProto::UINT4:
      return "u4";
    case onnx::TensorProto::INT2:
      return "i2";
    case onnx::TensorProto::UINT2:
      return "u2";
    default:
      return {};
  }
}

uint64_t element_bytes(int32_t onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::BOOL:
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
      return 1;
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
      return 2;
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::FLOAT:
      return 4;
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64:
    case onnx::TensorProto::DOUBLE:
      return 8;
    default:
      return 0;
  }
}

std::string element_type_name(int32_t onnx_type) {
  if (!onnx::TensorProto::DataType_IsValid(onnx_type)) return std::to_string(onnx_type);
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(onnx_type));
}

std::string nearest_element_type(int32_t onnx_type) {
  const std::string name = element_type_name(onnx_type);
  if (element_bytes(onnx_type) != 0) return name;
  if (name.starts_with("FLOAT8E8M0")) return "BFLOAT16";  // exponents only
  if (name.starts_with("FLOAT8") || name.starts_with("FLOAT4")) return "FLOAT16";
  if (name.starts_with("INT")) return "INT8";
  return name.starts_with("UINT") ? "UINT8" : "";
}

std::string read_tensor(const OnnxFile& file, const onnx::TensorProto& tensor, uint64_t offset, uint64_t size, char* target) {
  if (size == 0) return "";
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return read_external(file, tensor, offset, size, target);
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    if (offset > raw.size() || size > raw.size() - offset) {
      return "tensor '" + tensor.name() + "' has " + std::to_string(raw.size()) + " bytes, its shape says at least " +
             std::to_string(offset + size);
    }
    std::memcpy(target, raw.data() + offset, size);
    return "";
  }
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::COMPLEX64:  // the two parts of a number one behind the other
      return copy_field<float>(tensor.float_data(), tensor, offset, size, target);
    case onnx::TensorProto::DOUBLE:
    case onnx::TensorProto::COMPLEX128:
      return copy_field<double>(tensor.double_data(), tensor, offset, size, target);
    case onnx::TensorProto::INT64:
      return copy_field<int64_t>(tensor.int64_data(), tensor, offset, size, target);
    case onnx::TensorProto::UINT64:
      return copy_field<uint64_t>(tensor.uint64_data(), tensor, offset, size, target);
    case onnx::TensorProto::UINT32:
      return copy_field<uint32_t>(tensor.uint64_data(), tensor, offset, size, target);
    case onnx::TensorProto::INT32:
      return copy_field<int32_t>(tensor.int32_data(), tensor, offset, size, target);
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
      return copy_field<uint16_t>(tensor.int32_data(), tensor, offset, size, target);
    case onnx::TensorProto::BOOL:
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
      return copy_field<uint8_t>(tensor.int32_data(), tensor, offset, size, target);
    default:
      // Of 8 bits one per number of the field; of less, a byte of them.
      if (!narrow_name(tensor.data_type()).empty()) return copy_field<uint8_t>(tensor.int32_data(), tensor, offset, size, target);
      return "tensor '" + tensor.name() + "' has element type " + std::to_string(tensor.data_type()) + ", which is not supported";
  }
}

std::string refuse_excess(const onnx::TensorProto& tensor, uint64_t bytes) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return "";
  const std::string who = "tensor '" + tensor.name() + "' has ", said = ", and its shape says ";
  if (tensor.has_raw_data()) {
    const uint64_t held = tensor.raw_data().size();
    return held > bytes ? who + std::to_string(held) + " bytes of data" + said + std::to_string(bytes) : "";
  }
  const bool is_double = tensor.data_type() == onnx::TensorProto::COMPLEX128;
  const bool is_complex = is_double || tensor.data_type() == onnx::TensorProto::COMPLEX64;
  const uint64_t element = element_bytes(!is_complex ? tensor.data_type()
                                         : is_double ? onnx::TensorProto::DOUBLE
                                                     : onnx::TensorProto::FLOAT);
  if (element == 0) return "";  // several to a number
  const auto held = static_cast<uint64_t>(std::max({tensor.float_data_size(), tensor.double_data_size(), tensor.int32_data_size(),
                                                    tensor.int64_data_size(), tensor.uint64_data_size()}));
  return held > bytes / element ? who + std::to_string(held) + " numbers" + said + std::to_string(bytes / element) : "";
}

}  // namespace heddle::import
