// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the known networks need of the CUDA target but contractions, as PTX that ptxas accepts and that spills nothing; where there is a
// device, also run there against the reference.
#include <string>

#include "tests/compiler/contraction_cases.h"
#include "tests/compiler/cuda_case.h"

namespace heddle::tests {
namespace {

std::string pool(const std::string& kind, const std::string& in, const std::string& out, const std::string& attributes) {
  return one_op({in}, out, "pool " + kind + " %0 {" + attributes + "} : tensor<" + in + "> -> tensor<" + out + ">");
}

TEST_F(CudaTarget, Pools) {
  const char* three_by_two =
      "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, "
      "dilations = array<i64: 1, 1>";
  const char* whole =
      "kernel = array<i64: 7, 7>, strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, "
      "dilations = array<i64: 1, 1>";
  check_floats("max pool", pool("max", "1x112x112x64xf32", "1x56x56x64xf32", three_by_two));
  check_floats("average pool", pool("average", "1x28x28x24xf32", "1x14x14x24xf32", std::string(three_by_two) + ", include_pad"));
  check_floats("average of an image", pool("average", "1x7x7x1000xf32", "1x1x1x1000xf32", whole));
  check_floats("max pool of odd channels", pool("max", "2x13x13x19xf32", "2x7x7x19xf32", three_by_two));
  std::string in = "?x8x8x24xf32, #tx.dims<()[s0] -> (s0, 8, 8, 24)>", out = "?x4x4x24xf32, #tx.dims<()[s0] -> (s0, 4, 4, 24)>";
  CheckOptions options;
  options.symbols = {7};
  check_floats("max pool of a batch",
               region_text({in}, {out},
                           std::string("%p = tx.pool max %0 {") + three_by_two + "} : tensor<" + in + "> -> tensor<" + out +
                               ">\n tx.yield %p : tensor<" + out + ">",
                           "", {"batch"}),
               options);
}

TEST_F(CudaTarget, Normalizes) {
  for (auto [type, axis] :
       {std::pair{"1x1000xf32", "1"}, {"1x10xf32", "1"}, {"1x1000x1x1xf32", "1"}, {"5x37xf32", "1"}, {"3x20001xf32", "1"}}) {
    check_floats(std::string("softmax of ") + type,
                 one_op({type}, type, std::string("softmax %0 {axis = ") + axis + "} : tensor<" + type + ">"));
  }
  check_floats("lrn", one_op({"1x27x27x96xf32"}, "1x27x27x96xf32",
                             "lrn %0 {size = 5, alpha = 1.0e-4, beta = 0.75, bias = 1.0} : tensor<1x27x27x96xf32>"));
  CheckOptions options;
  options.symbols = {9};
  std::string type = "?x10xf32, #tx.dims<()[s0] -> (s0, 10)>";
  check_floats("softmax of a batch",
               region_text({type}, {type}, "%x = tx.softmax %0 {axis = 1} : tensor<" + type + ">\n tx.yield %x : tensor<" + type + ">", "",
                           {"batch"}),
               options);
}

TEST_F(CudaTarget, Reduces) {
  struct Shapes {
    const char *in, *axes, *out;
  };
  CheckOptions options;
  options.absolute = 1e-4;
  for (const Shapes& s : {Shapes{"1x7x7x1024xf32", "1, 2", "1x1024xf32"},
                          {"3x7000xf32", "1", "3xf32"},
                          {"3x70xf32", "1", "3xf32"},
                          {"2000x40xf32", "0", "40xf32"},
                          {"3x5x9xf32", "0, 2", "5xf32"}}) {
    for (const char* kind : {"mean", "max"}) {
      check_floats(
          std::string(kind) + " over " + s.axes + " of " + s.in,
          one_op({s.in}, s.out,
                 std::string("reduce ") + kind + " %0 {axes = array<i64: " + s.axes + ">} : tensor<" + s.in + "> -> tensor<" + s.out + ">"),
          options);
    }
  }
}

TEST_F(CudaTarget, MovesData) {
  check_floats("concat", one_op({"1x28x28x64xf32", "1x28x28x96xf32", "1x28x28x19xf32"}, "1x28x28x179xf32",
                                "concat %0, %1, %2 {axis = 3} : tensor<1x28x28x64xf32>, tensor<1x28x28x96xf32>, tensor<1x28x28x19xf32> -> "
                                "tensor<1x28x28x179xf32>"));
  check_floats("image to channels last",
               one_op({"1x3x56x56xf32"}, "1x56x56x3xf32",
                      "transpose %0 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x56x56xf32> -> tensor<1x56x56x3xf32>"));
  check_floats("channels first",
               one_op({"1x7x7x512xf32"}, "1x512x7x7xf32",
                      "transpose %0 {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x7x7x512xf32> -> tensor<1x512x7x7xf32>"));
  check_floats("filter", one_op({"64x32x3x3xf32"}, "3x3x32x64xf32",
                                "transpose %0 {permutation = array<i64: 2, 3, 1, 0>} : tensor<64x32x3x3xf32> -> tensor<3x3x32x64xf32>"));
  check_floats("channel shuffle",
               one_op({"1x14x14x4x68xf32"}, "1x14x14x68x4xf32",
                      "transpose %0 {permutation = array<i64: 0, 1, 2, 4, 3>} : tensor<1x14x14x4x68xf32> -> tensor<1x14x14x68x4xf32>"));
  check_floats("pad", one_op({"1x9x9x20xf32"}, "1x11x12x20xf32",
                             "pad %0 {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 2, 0>, value = 0.0} : tensor<1x9x9x20xf32> -> "
                             "tensor<1x11x12x20xf32>"));
  check_floats(
      "slice",
      one_op({"9x30x40xf32"}, "4x30x13xf32",
             "slice %0 {starts = array<i64: 1, 0, 2>, strides = array<i64: 2, 1, 3>} : tensor<9x30x40xf32> -> tensor<4x30x13xf32>"));
  CheckOptions options;
  options.ranges = {{-2, 2}, {-6, 5}};
  check_floats(
      "gather",
      one_op({"6x33xf32", "2x4xi64"}, "2x4x33xf32", "gather %0, %1 {axis = 0} : tensor<6x33xf32>, tensor<2x4xi64> -> tensor<2x4x33xf32>"),
      options);
}

TEST_F(CudaTarget, ComputesElementWise) {
  const char* type = "2x14x14x40xf32";
  std::string t = tensor(type);
  check_floats("batch normalization",
               region_text({type, "40xf32", "40xf32"}, {type},
                           "%a = tx.broadcast %1 {dimensions = array<i64: 3>} : tensor<40xf32> -> " + t + "\n%m = tx.mul %0, %a : " + t +
                               "\n%b = tx.broadcast %2 {dimensions = array<i64: 3>} : tensor<40xf32> -> " + t +
                               "\n%s = tx.add %m, %b : " + t + "\n%r = tx.relu %s : " + t + "\n tx.yield %r : " + t));
  for (const char* op :
       {"neg", "abs", "exp", "tanh", "sigmoid", "erf", "relu", "floor", "ceil", "round", "sqrt", "rsqrt", "log", "reciprocal"}) {
    CheckOptions options;
    options.ranges = {{0.5, 2}};
    check_floats(op, one_op({type}, type, std::string(op) + " %0 : " + t), options);
  }
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "pow"}) {
    CheckOptions options;
    options.ranges = {{0.5, 2}};
    check_floats(op, one_op({type, type}, type, std::string(op) + " %0, %1 : " + t), options);
  }
  std::string batch = "?x40xf32, #tx.dims<()[s0] -> (s0, 40)>";
  CheckOptions options;
  options.symbols = {77};
  check_floats("a batch",
               region_text({batch}, {batch}, "%s = tx.relu %0 : " + tensor(batch) + "\n tx.yield %s : " + tensor(batch), "", {"batch"}),
               options);
}

TEST_F(CudaTarget, CastsBetweenTypes) {
  const char* types[] = {"f32", "f16", "bf16", "i8", "ui8", "i32", "i64", "i1"};
  for (const char* from : types) {
    for (const char* to : types) {
      if (std::string(from) == to) continue;
      std::string a = "1000x" + std::string(from), b = "1000x" + std::string(to);
      ParsedRegion parsed(one_op({a}, b, "cast %0 : " + tensor(a) + " -> " + tensor(b)));
      check_code(parsed.region(), a + " to " + b);
    }
  }
}

}  // namespace
}  // namespace heddle::tests
