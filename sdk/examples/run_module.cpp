// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a function of a module on .npy files from C++, and prints its results. Knows heddle/heddle.hpp only.
//
//   heddle compile digits.onnx -o digits.heddle
//   c++ -std=c++20 sdk/examples/run_module.cpp -I PREFIX/include -L PREFIX/lib -lheddle -Wl,-rpath,PREFIX/lib -o run_module
//   ./run_module digits.heddle                  # what it takes
//   ./run_module digits.heddle images.npy       # one file per argument, in order
//
// PREFIX is where `cmake --install` put Heddle. Without an installation, the headers are in sdk/include and sdk/cpp, and the library is in
// build/release/lib.
#include <fstream>
#include <heddle/heddle.hpp>
#include <iostream>
#include <iterator>
#include <optional>

namespace {

// An array of a .npy file: NumPy's format, versions 1 to 3, little-endian, rows first.
struct Array {
  heddle_element_type_t type = HEDDLE_TYPE_UNDEFINED;
  std::vector<int64_t> dims;
  std::string file;
  size_t begin = 0;  // of the elements, which go to the end of the file
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(file)).subspan(begin); }
};

heddle_element_type_t type_of(std::string_view descr) {
  constexpr std::pair<std::string_view, heddle_element_type_t> kTypes[] = {
      {"|b1", HEDDLE_TYPE_BOOL}, {"|i1", HEDDLE_TYPE_I8},  {"|u1", HEDDLE_TYPE_U8},  {"<i2", HEDDLE_TYPE_I16},
      {"<u2", HEDDLE_TYPE_U16},  {"<i4", HEDDLE_TYPE_I32}, {"<u4", HEDDLE_TYPE_U32}, {"<i8", HEDDLE_TYPE_I64},
      {"<u8", HEDDLE_TYPE_U64},  {"<f2", HEDDLE_TYPE_F16}, {"<f4", HEDDLE_TYPE_F32}, {"<f8", HEDDLE_TYPE_F64}};
  for (const auto& [name, type] : kTypes) {
    if (name == descr) return type;
  }
  return HEDDLE_TYPE_UNDEFINED;
}

// The text after "'key':" in the header, which is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 8), }
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t at = header.find("'" + std::string(key) + "':");
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size() + 3);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

Array read_npy(const std::string& path) {
  auto refuse = [&](const std::string& why) -> Array { throw std::runtime_error("run_module: reading " + path + " failed: " + why); };
  std::ifstream in(path, std::ios::binary);
  Array array;
  array.file.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  const std::string& file = array.file;
  if (!in) return refuse("the file could not be read");
  if (file.size() < 12 || !file.starts_with("\x93NUMPY") || file[6] < 1 || file[6] > 3)
    return refuse("it is not a .npy file; write one with numpy.save");
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const size_t first = file[6] == 1 ? 10 : 12;
  const size_t length = byte(8) | byte(9) << 8 | (first == 12 ? byte(10) << 16 | byte(11) << 24 : 0);
  if (length > file.size() - first) return refuse("its header is incomplete");
  array.begin = first + length;
  const std::string_view header = std::string_view(file).substr(first, length);
  const std::string_view descr = value_of(header, "descr"), order = value_of(header, "fortran_order"), shape = value_of(header, "shape");
  array.type = descr.size() > 4 ? type_of(descr.substr(1, 3)) : HEDDLE_TYPE_UNDEFINED;
  if (array.type == HEDDLE_TYPE_UNDEFINED) return refuse("its element type is not supported; convert it with array.astype");
  if (!order.starts_with("False")) return refuse("its elements are in Fortran order; save numpy.ascontiguousarray(array)");
  if (!shape.starts_with('(')) return refuse("its header has no shape");
  std::optional<int64_t> dim;
  for (const char c : shape.substr(1)) {
    if (c >= '0' && c <= '9') {
      dim = dim.value_or(0) * 10 + (c - '0');
      if (*dim > INT32_MAX) return refuse("its shape is too large");
      continue;
    }
    if (dim) array.dims.push_back(*dim);
    dim.reset();
    if (c == ')') return array;
  }
  return refuse("its shape is incomplete");
}

template <class T>
void print_elements(const heddle::Tensor& tensor) {
  for (const T value : tensor.read<T>()) std::cout << ' ' << +value;  // + prints small integers as numbers
}

void print(std::string_view name, const heddle::Tensor& tensor) {
  std::cout << name << " = " << tensor.text() << ':';
  switch (tensor.element_type()) {
    case HEDDLE_TYPE_BOOL:
    case HEDDLE_TYPE_U8:
      print_elements<uint8_t>(tensor);
      break;
    case HEDDLE_TYPE_I8:
      print_elements<int8_t>(tensor);
      break;
    case HEDDLE_TYPE_I32:
      print_elements<int32_t>(tensor);
      break;
    case HEDDLE_TYPE_I64:
      print_elements<int64_t>(tensor);
      break;
    case HEDDLE_TYPE_F32:
      print_elements<float>(tensor);
      break;
    case HEDDLE_TYPE_F64:
      print_elements<double>(tensor);
      break;
    default:
      std::cout << ' ' << tensor.size_bytes() << " bytes";
  }
  std::cout << '\n';
}

void run(const std::string& path, std::span<char*> files) {
  const heddle::Runtime runtime = heddle::Runtime::create();
  const heddle::Module module = runtime.open(path);
  const heddle::Instance instance = module.create_instance();
  const heddle::Function function = instance.function();

  if (files.empty()) {  // "image: f32[batch,1,8,8]"
    for (uint32_t i = 0; i < function.argument_count(); ++i) {
      const heddle::TensorType type = function.argument(i);
      std::cout << "argument " << type.name() << ": " << type.text() << '\n';
      for (size_t d = 0; d < type.dims().size(); ++d) {
        if (!type.symbol(d).empty()) std::cout << "  dimension " << d << ": " << type.symbol(d) << ", chosen by the caller\n";
      }
    }
    for (uint32_t i = 0; i < function.result_count(); ++i) {
      std::cout << "result " << function.result(i).name() << ": " << function.result(i).text() << '\n';
    }
    return;
  }
  std::vector<heddle::Tensor> arguments;
  for (const char* file : files) {
    const Array array = read_npy(file);
    arguments.push_back(function.tensor_from_bytes(static_cast<uint32_t>(arguments.size()), array.type, array.dims, array.bytes()));
  }
  const std::vector<heddle::Tensor> results = function.call(arguments);
  for (uint32_t i = 0; i < results.size(); ++i) print(function.result(i).name(), results[i]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: run_module MODULE [FILE.npy ...]\n";
    return 2;
  }
  try {
    run(argv[1], std::span(argv, static_cast<size_t>(argc)).subspan(2));
    return 0;
  } catch (const heddle::Error& error) {  // the text has the cause and the next step
    std::cerr << error.code_name() << ": " << error.what() << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
  }
  return 1;
}
