// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See portable_names_cases.h. Operands that no op reads are there to be read instead of others.
#include "tests/compiler/portable_names_cases.h"

#include <tuple>

namespace heddle::tests {

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    auto unary = [&](const char* name, const char* type = "3x4xf32") {
      list.push_back({name, {type, type}, type, std::string("  %x = tx.") + name + " %0 : tensor<" + type + ">"});
    };
    auto binary = [&](const char* name, const char* type = "3x4xf32") {
      list.push_back({name, {type, type, type}, type, std::string("  %x = tx.") + name + " %0, %1 : tensor<" + type + ">"});
    };
    for (const char* name : {"neg", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "erf", "cos", "sin", "relu",
                             "floor", "ceil", "round"})
      unary(name);
    for (const char* name : {"neg", "abs", "relu"}) unary(name, "3x4xi32");
    for (const char* name : {"add", "sub", "mul", "div", "max", "min", "pow"}) binary(name);
    for (const char* name : {"add", "sub", "mul", "div", "max", "min", "bit_and", "bit_or", "bit_xor"}) binary(name, "3x4xi32");
    for (const char* name : {"div", "max"}) binary(name, "3x4xui8");
    for (const char* kind : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      for (const char* type : {"3x4xf32", "3x4xi64", "3x4xui8"})
        list.push_back({"compare",
                        {type, type, type},
                        "3x4xi1",
                        std::string("  %x = tx.compare ") + kind + " %0, %1 : tensor<" + type + "> -> tensor<3x4xi1>"});
    }
    list.push_back(
        {"select", {"3x4xi1", "3x4xf32", "3x4xf32"}, "3x4xf32", "  %x = tx.select %0, %1, %2 : tensor<3x4xi1>, tensor<3x4xf32>"});
    for (const char* to : {"i8", "ui8", "i32", "i64", "f16", "bf16", "f64", "i1"})
      list.push_back({"cast",
                      {"3x4xf32", "3x4xf32"},
                      std::string("3x4x") + to,
                      std::string("  %x = tx.cast %0 : tensor<3x4xf32> -> tensor<3x4x") + to + ">"});
    for (const char* from : {"i8", "ui8", "i1", "i64", "f16"}) {
      const std::string type = std::string("3x4x") + from;
      list.push_back({"cast", {type, type}, "3x4xf32", "  %x = tx.cast %0 : tensor<" + type + "> -> tensor<3x4xf32>"});
    }
    list.push_back({"bit_cast", {"3x4xf32", "3x4xf32"}, "3x4xi32", "  %x = tx.bit_cast %0 : tensor<3x4xf32> -> tensor<3x4xi32>"});
    list.push_back(
        {"random_bits", {"6xi64", "6xi64"}, "6xui32", "  %x = tx.random_bits %0, %1 : tensor<6xi64>, tensor<6xi64> -> tensor<6xui32>"});
    list.push_back(
        {"constant", {"3x4xf32"}, "3x4xf32", "  %c = tx.constant dense<2.5> : tensor<3x4xf32>\n  %x = tx.add %0, %c : tensor<3x4xf32>"});
    list.push_back(
        {"constant", {"3x4xi64"}, "3x4xi64", "  %c = tx.constant dense<-7> : tensor<3x4xi64>\n  %x = tx.mul %0, %c : tensor<3x4xi64>"});
    list.push_back(
        {"pow", {"3x4xf32"}, "3x4xf32", "  %c = tx.constant dense<3.0> : tensor<3x4xf32>\n  %x = tx.pow %0, %c : tensor<3x4xf32>"});
    // Moves.
    list.push_back({"reshape", {"4x6xf32", "4x6xf32"}, "3x8xf32", "  %x = tx.reshape %0 : tensor<4x6xf32> -> tensor<3x8xf32>"});
    list.push_back({"transpose",
                    {"2x3x4xf32", "2x3x4xf32"},
                    "4x2x3xf32",
                    "  %x = tx.transpose %0 {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>"});
    list.push_back({"transpose",
                    {"3x3xf32", "3x3xf32"},
                    "3x3xf32",
                    "  %x = tx.transpose %0 {permutation = array<i64: 1, 0>} : tensor<3x3xf32> -> tensor<3x3xf32>"});
    list.push_back({"broadcast",
                    {"4x1xf32", "4x1xf32"},
                    "3x4x4xf32",
                    "  %x = tx.broadcast %0 {dimensions = array<i64: 1, 2>} : tensor<4x1xf32> -> tensor<3x4x4xf32>"});
    list.push_back({"slice",
                    {"7x9xf32", "7x9xf32"},
                    "3x4xf32",
                    "  %x = tx.slice %0 {starts = array<i64: 1, 1>, strides = array<i64: 2, 2>} : tensor<7x9xf32> -> tensor<3x4xf32>"});
    list.push_back(
        {"pad",
         {"3x4xf32", "3x4xf32"},
         "6x5xf32",
         "  %x = tx.pad %0 {low = array<i64: 1, 0>, high = array<i64: 2, 1>, value = 7.0 : f64} : tensor<3x4xf32> -> tensor<6x5xf32>"});
    list.push_back({"concat",
                    {"3x4xf32", "2x4xf32", "3x4xf32"},
                    "8x4xf32",
                    "  %x = tx.concat %0, %1, %2 {axis = 0 : i64} : tensor<3x4xf32>, tensor<2x4xf32>, tensor<3x4xf32> -> tensor<8x4xf32>"});
    list.push_back({"gather",
                    {"6x6xf32", "2x4xi64", "2x4xi64"},
                    "2x4x6xf32",
                    "  %x = tx.gather %0, %1 {axis = 0} : tensor<6x6xf32>, tensor<2x4xi64> -> tensor<2x4x6xf32>"});
    list.push_back({"gather_elements",
                    {"4x4xf32", "4x4xi32", "4x4xi32"},
                    "4x4xf32",
                    "  %x = tx.gather_elements %0, %1 {axis = 1 : i64} : tensor<4x4xf32>, tensor<4x4xi32> -> tensor<4x4xf32>"});
    list.push_back({"gather_nd",
                    {"3x4x5xf32", "3x2x1xi64", "3x2x1xi64"},
                    "3x2x5xf32",
                    "  %x = tx.gather_nd %0, %1 {batch_dims = 1 : i64} : tensor<3x4x5xf32>, tensor<3x2x1xi64> -> tensor<3x2x5xf32>"});
    list.push_back(
        {"iota", {"3x3xf32"}, "3x3xf32", "  %i = tx.iota {dimension = 1 : i64} : tensor<3x3xf32>\n  %x = tx.add %0, %i : tensor<3x3xf32>"});
    // Reductions.
    list.push_back({"matmul",
                    {"3x4xf32", "4x5xf32", "3x4xf32"},
                    "3x5xf32",
                    "  %x = tx.matmul %0, %1 : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>"});
    list.push_back({"matmul",
                    {"2x3x3xf32", "2x3x3xf32", "2x3x3xf32"},
                    "2x3x3xf32",
                    "  %x = tx.matmul %0, %1 {transpose_rhs} : tensor<2x3x3xf32>, tensor<2x3x3xf32> -> tensor<2x3x3xf32>"});
    list.push_back({"matmul",
                    {"3x4xf32", "4x5xi8", "5xf32", "5xf32"},
                    "3x5xf32",
                    "  %x = tx.matmul %0, %1, zero %2 : tensor<3x4xf32>, tensor<4x5xi8>, tensor<5xf32> -> tensor<3x5xf32>"});
    list.push_back({"conv",
                    {"1x9x8x4xf32", "3x2x2x6xf32", "1x9x8x4xf32"},
                    "1x5x9x6xf32",
                    "  %x = tx.conv %0, %1 {strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>, pads_low = array<i64: 1, 2>, "
                    "pads_high = array<i64: 1, 1>, groups = 2 : i64} : "
                    "tensor<1x9x8x4xf32>, tensor<3x2x2x6xf32> -> tensor<1x5x9x6xf32>"});
    for (const char* kind : {"max", "average"})
      for (const char* more : {"", ", include_pad"})
        list.push_back(
            {"pool",
             {"1x9x8x2xf32", "1x9x8x2xf32"},
             "1x5x7x2xf32",
             std::string("  %x = tx.pool ") + kind +
                 " %0 {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>, pads_low = array<i64: 1, 0>, "
                 "pads_high = array<i64: 1, 1>" +
                 more + "} : tensor<1x9x8x2xf32> -> tensor<1x5x7x2xf32>"});
    for (const char* kind : {"sum", "mean", "max", "min", "prod"}) {
      list.push_back({"reduce",
                      {"3x3x3xf32", "3x3x3xf32"},
                      "3x3xf32",
                      std::string("  %x = tx.reduce ") + kind + " %0 {axes = array<i64: 1>} : tensor<3x3x3xf32> -> tensor<3x3xf32>"});
      list.push_back({"reduce",
                      {"3x3x3xi32", "3x3x3xi32"},
                      "3xi32",
                      std::string("  %x = tx.reduce ") + kind + " %0 {axes = array<i64: 0, 2>} : tensor<3x3x3xi32> -> tensor<3xi32>"});
    }
    for (const char* rest : {"max %0 {axis = 1 : i64}", "min %0 {axis = 1 : i64, last}"})
      list.push_back({"arg_reduce",
                      {"5x5xf32", "5x5xf32"},
                      "5xi64",
                      std::string("  %x = tx.arg_reduce ") + rest + " : tensor<5x5xf32> -> tensor<5xi64>"});
    for (const char* rest : {"axis = 1 : i64", "axis = 0 : i64, exclusive, reverse"})
      list.push_back({"cumsum", {"4x4xf32", "4x4xf32"}, "4x4xf32", std::string("  %x = tx.cumsum %0 {") + rest + "} : tensor<4x4xf32>"});
    for (const char* rest : {"axis = 1 : i64", "axis = 0 : i64, log"})
      list.push_back({"softmax", {"4x4xf32", "4x4xf32"}, "4x4xf32", std::string("  %x = tx.softmax %0 {") + rest + "} : tensor<4x4xf32>"});
    list.push_back({"lrn",
                    {"2x7xf32", "2x7xf32"},
                    "2x7xf32",
                    "  %x = tx.lrn %0 {size = 3 : i64, alpha = 0.5 : f64, beta = 0.75 : f64, bias = 2.0 : f64} : tensor<2x7xf32>"});
    for (const char* kind : {"", ", kind = 0 : i32", ", kind = 2 : i32"})
      list.push_back(
          {"scatter",
           {"4x4xf32", "4x4xi64", "4x4xf32", "4x4xf32"},
           "4x4xf32",
           std::string("  %x = tx.scatter %0, %1, %2 {axis = 1 : i64") + kind + "} : tensor<4x4xf32>, tensor<4x4xi64>, tensor<4x4xf32>"});
    for (const char* more : {"", ", descending"})
      list.push_back({"sort",
                      {"4x4xf32", "4x4xf32"},
                      "4x3xi64",
                      std::string("  %x = tx.sort %0 {axis = 1 : i64") + more + "} : tensor<4x4xf32> -> tensor<4x3xi64>"});
    list.push_back({"concat",
                    {"3x1xf32", "3x1xf32"},
                    "3x2xf32",
                    "  %x = tx.concat %0, %1 {axis = 1 : i64} : tensor<3x1xf32>, tensor<3x1xf32> -> tensor<3x2xf32>"});
    list.push_back({"concat",
                    {"3x4xf32", "3x4xf32"},
                    "6x4xf32",
                    "  %c = tx.concat %0, %0 {axis = 0 : i64} : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<6x4xf32>\n"
                    "  %x = tx.neg %c : tensor<6x4xf32>"});
    // Tables and formats.
    list.push_back({"suppress",
                    {"2x5x4xf32", "2x5xi1", "f32", "i64", "f32"},
                    "2x5xi1",
                    "  %x = tx.suppress %0, %1, %2, %3 : tensor<2x5x4xf32>, tensor<2x5xi1>, tensor<f32>, tensor<i64> -> tensor<2x5xi1>"});
    for (const char* kind : {"sum", "max strict"})
      list.push_back({"trees",
                      {"4x3xf32", "2x2x3xui16", "2x2x3xf32", "2x2x4x2xf32"},
                      "4x2x2xf32",
                      std::string("  %x = tx.trees ") + kind +
                          " %0 features %1 thresholds %2 weights %3 steps 2 : (tensor<4x3xf32>, tensor<2x2x3xui16>, tensor<2x2x3xf32>, "
                          "tensor<2x2x4x2xf32>) -> tensor<4x2x2xf32>"});
    list.push_back({"trees",
                    {"4x3xf32", "6xui16", "6xf32", "6x2xf32", "6xi32", "2x2xi32", "6xui8"},
                    "4x2x2xf32",
                    "  %x = tx.trees min %0 features %1 thresholds %2 weights %3 children %4 roots %5 flags %6 steps 3 : "
                    "(tensor<4x3xf32>, tensor<6xui16>, tensor<6xf32>, tensor<6x2xf32>, tensor<6xi32>, tensor<2x2xi32>, tensor<6xui8>) -> "
                    "tensor<4x2x2xf32>"});
    for (const char* rest : {"longest 1 least 1 goes_on 3 none 7", "longest 2 least 2 goes_on 3 none 7 runs"}) {
      const std::string lines = rest[8] == '1' ? "1" : "2";
      list.push_back({"ngrams",
                      {"3x6xui8", "256xui8", "2x256xi32", "5x3xi32"},
                      "3x" + lines + "x7xi32",
                      std::string("  %x = tx.ngrams %0 leads %1 letters %2 nodes %3 ") + rest +
                          " : (tensor<3x6xui8>, tensor<256xui8>, tensor<2x256xi32>, tensor<5x3xi32>) -> tensor<3x" + lines + "x7xi32>"});
    }
    for (const char* format : {"f8e4m3", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1"}) {
      list.push_back({"narrow_decode",
                      {"40xui8", "40xui8"},
                      "40xf32",
                      std::string("  %x = tx.narrow_decode %0 as \"") + format + "\" : tensor<40xui8> -> tensor<40xf32>"});
      for (const char* more : {"", " {saturate}"})
        list.push_back({"narrow_encode",
                        {"40xf32", "40xf32"},
                        "40xui8",
                        std::string("  %x = tx.narrow_encode %0 as \"") + format + "\"" + more + " : tensor<40xf32> -> tensor<40xui8>"});
    }
    for (const auto& [type, values, bytes] :
         {std::tuple{"Q4_0", 64, 36}, {"Q8_0", 64, 68}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210}}) {
      const std::string x = "2x" + std::to_string(values) + "xf32", w = "3x" + std::to_string(bytes) + "xui8";
      list.push_back({"matmul",
                      {x, w, w},
                      "2x3xf32",
                      std::string("  %x = tx.matmul %0, %1 {transpose_rhs, blocks = \"") + type + "\"} : tensor<" + x + ">, tensor<" + w +
                          "> -> tensor<2x3xf32>"});
      list.push_back({"gather",
                      {w, "2xi64", w},
                      x,
                      std::string("  %x = tx.gather %0, %1 {axis = 0 : i64, blocks = \"") + type + "\"} : tensor<" + w +
                          ">, tensor<2xi64> -> tensor<" + x + ">"});
    }
    // Operands that are computed in the same kernel, ops in the middle, and several nodes.
    list.push_back(
        {"pad",
         {"3x4xf32", "3x4xf32"},
         "5x5xf32",
         "  %s = tx.add %0, %1 : tensor<3x4xf32>\n"
         "  %x = tx.pad %s {low = array<i64: 1, 0>, high = array<i64: 1, 1>, value = 7.0 : f64} : tensor<3x4xf32> -> tensor<5x5xf32>"});
    list.push_back({"concat",
                    {"3x4xf32", "2x4xf32", "3x4xf32"},
                    "8x4xf32",
                    "  %n = tx.neg %0 : tensor<3x4xf32>\n  %e = tx.abs %1 : tensor<2x4xf32>\n"
                    "  %x = tx.concat %n, %e, %2 {axis = 0 : i64} : tensor<3x4xf32>, tensor<2x4xf32>, tensor<3x4xf32> -> tensor<8x4xf32>"});
    list.push_back({"conv",
                    {"1x5x5x2xf32", "3x3x2x3xf32", "3xf32"},
                    "1x5x5x3xf32",
                    "  %a = tx.relu %0 : tensor<1x5x5x2xf32>\n"
                    "  %p = tx.pad %a {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = 0.0 : f64} : "
                    "tensor<1x5x5x2xf32> -> tensor<1x7x7x2xf32>\n"
                    "  %c = tx.conv %p, %1 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, "
                    "pads_high = array<i64: 0, 0>, groups = 1 : i64} : "
                    "tensor<1x7x7x2xf32>, tensor<3x3x2x3xf32> -> tensor<1x5x5x3xf32>\n"
                    "  %b = tx.broadcast %2 {dimensions = array<i64: 3>} : tensor<3xf32> -> tensor<1x5x5x3xf32>\n"
                    "  %s = tx.add %c, %b : tensor<1x5x5x3xf32>\n  %x = tx.sigmoid %s : tensor<1x5x5x3xf32>"});
    list.push_back({"matmul",
                    {"3x4xf16", "4x5xf16", "5xf16"},
                    "5x3xf16",
                    "  %m = tx.matmul %0, %1 : tensor<3x4xf16>, tensor<4x5xf16> -> tensor<3x5xf16>\n"
                    "  %b = tx.broadcast %2 {dimensions = array<i64: 1>} : tensor<5xf16> -> tensor<3x5xf16>\n"
                    "  %s = tx.add %m, %b : tensor<3x5xf16>\n  %t = tx.tanh %s : tensor<3x5xf16>\n"
                    "  %x = tx.transpose %t {permutation = array<i64: 1, 0>} : tensor<3x5xf16> -> tensor<5x3xf16>"});
    list.push_back({"softmax",
                    {"2x4xf32", "4x4xf32", "4x3xf32"},
                    "2x3xf32",
                    "  %q = tx.matmul %0, %1 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>\n  %p = tx.softmax %q {axis = 1 : i64} "
                    ": tensor<2x4xf32>\n"
                    "  %x = tx.matmul %p, %2 : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>"});
    list.push_back(
        {"reduce",
         {"3x4xf32", "4xf32"},
         "3x4xf32",
         "  %s = tx.reduce mean %0 {axes = array<i64: 1>} : tensor<3x4xf32> -> tensor<3xf32>\n"
         "  %b = tx.broadcast %s {dimensions = array<i64: 0>} : tensor<3xf32> -> tensor<3x4xf32>\n  %d = tx.sub %0, %b : tensor<3x4xf32>\n"
         "  %q = tx.abs %d : tensor<3x4xf32>\n  %v = tx.reduce mean %q {axes = array<i64: 1>} : tensor<3x4xf32> -> tensor<3xf32>\n"
         "  %c = tx.constant dense<1.0e-05> : tensor<3xf32>\n  %e = tx.add %v, %c : tensor<3xf32>\n  %i = tx.rsqrt %e : tensor<3xf32>\n"
         "  %r = tx.broadcast %i {dimensions = array<i64: 0>} : tensor<3xf32> -> tensor<3x4xf32>\n  %n = tx.mul %d, %r : tensor<3x4xf32>\n"
         "  %w = tx.broadcast %1 {dimensions = array<i64: 1>} : tensor<4xf32> -> tensor<3x4xf32>\n  %x = tx.mul %n, %w : tensor<3x4xf32>"});
    return list;
  }();
  return all;
}

}  // namespace heddle::tests
