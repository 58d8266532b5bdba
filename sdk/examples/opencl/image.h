// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of the example, in two formats. "portable/1" is what `heddle compile --target portable` writes for any device; the driver writes OpenCL C for it
// (writer.h), and interprets kernels for which there is none. "opencl/1", target "opencl-c-1.2", is OpenCL C as text. A kernel of it has these arguments:
//   for each binding   global uchar*  the buffer's first byte, NULL for an empty binding
//                      ulong          the byte of the buffer at which the binding begins
//   for each constant  long
// and a workgroup of the dispatch is a work-group with the entry's workgroup_size. What the target plugin (target.cpp) writes begins with kMagic, the
// number of bytes of portable code, little-endian, in 8 bytes, and that code; its functions follow, those of writer.h for each kernel, in order. Such a
// kernel is dispatched as portable code is: the grid is one workgroup.
#ifndef OPENCL_EXAMPLE_IMAGE_H_
#define OPENCL_EXAMPLE_IMAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace opencl {

inline constexpr std::string_view kFormat = "opencl/1";
inline constexpr std::string_view kTarget = "opencl-c-1.2";
inline constexpr std::string_view kMagic = {"HDLOCL1\0", 8};

// A function of OpenCL C. Its name follows from what comes after the name, so equal functions have equal names, whatever kernel they are for.
struct Function {
  std::string name, text;
};
// "kernel void NAME" and `rest`.
Function make_function(const std::string& rest);

// The parts of an image: portable code and its functions, or a program alone.
struct Image {
  std::string_view portable;
  std::vector<Function> functions;
};
bool has_functions(std::string_view bytes);  // and not a program alone
// False: *out_error says what is wrong with it.
bool read_image(std::string_view bytes, Image* out, std::string* out_error);
std::string write_image(std::string_view portable, const std::vector<Function>& functions);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_IMAGE_H_
