// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads code as OpenCL C (image.h): programs of kernels in "opencl/1", and portable code with the functions that are written for it.
#ifndef OPENCL_EXAMPLE_CODE_H_
#define OPENCL_EXAMPLE_CODE_H_

#include "device.h"
#include "image.h"
#include "translated.h"

namespace opencl {

// Reads, compiles and checks the code, and finds its kernels.
heddle_status_t* load_opencl(Device* device, const sdk::Code& code, Executable* out);

// Compiles OpenCL C. On failure, a status with what its compiler said; `who` is part of the text: "loading executable 'main'". Any thread.
heddle_status_t* build(Device* device, const std::string& source, const std::string& who, cl_program* out);

}  // namespace opencl
#endif  // OPENCL_EXAMPLE_CODE_H_
