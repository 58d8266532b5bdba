// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See contraction_cases.h.
#include "tests/compiler/contraction_cases.h"

#include "tests/compiler/kernel_run.h"

namespace heddle::tests {

namespace {

int64_t padded(int64_t columns, int64_t groups) {
  return (columns / groups + 15) / 16 * 16 * groups;
}

// A type whose first extent is the symbol.
std::string symbolic(const Shape& rest, const std::string& element) {
  std::string shape = "?x" + type_of(rest, element), map = "s0";
  for (int64_t extent : rest) map += ", " + std::to_string(extent);
  return shape + ", #tx.dims<()[s0] -> (" + map + ")>";
}

// Quantized with a step of 0.25 to eight bits, and back.
std::string quantized_tail(const std::string& t) {
  std::string tail;
  auto constant = [&](const char* name, const char* value) {
    tail += std::string("%") + name + " = tx.constant dense<" + value + "> : " + t + "\n";
  };
  constant("step", "0.25");
  constant("low", "-128.0");
  constant("high", "127.0");
  return tail + "%s = tx.add %y, %b : " + t + "\n%d = tx.div %s, %step : " + t + "\n%f = tx.round %d : " + t +
         "\n%g = tx.max %f, %low : " + t + "\n%h = tx.min %g, %high : " + t + "\n%z = tx.mul %h, %step : " + t;
}

}  // namespace

std::string type_of(const Shape& shape, const std::string& element) {
  std::string text;
  for (int64_t extent : shape) text += (extent < 0 ? "?" : std::to_string(extent)) + "x";
  return text + element;
}

std::string tensor(const std::string& type) {
  return "tensor<" + type + ">";
}

std::string array_of(const Shape& values) {
  std::string text = "array<i64: ";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + std::to_string(values[i]);
  return text + ">";
}

int64_t Case::depth() const {
  if (op == "tx.matmul") return attributes.find("transpose_rhs") != std::string::npos ? filter.back() : filter[filter.size() - 2];
  int64_t depth = 1;
  for (size_t i = 0; i + 1 < filter.size(); ++i) depth *= filter[i];
  return depth;
}

std::vector<std::pair<double, double>> Case::ranges() const {
  std::vector<std::pair<double, double>> all(3 + more.size(), std::pair<double, double>(-1, 1));
  if (integers.empty()) return all;
  const bool no_sign = integers.front() == 'u';
  all[1] = no_sign ? std::pair<double, double>(0, 200) : std::pair<double, double>(-120, 120);
  if (has_zero) all[2 + more.size()] = no_sign ? std::pair<double, double>(60, 140) : std::pair<double, double>(-30, 30);
  return all;
}

int64_t Case::packed_elements() const {
  return (winograd ? depth() / 9 * 16 : depth()) * padded(filter.back(), groups);
}

static std::string with_pitch(int64_t pitch) {
  return "attributes {pitch = " + std::to_string(pitch) + " : i64}";
}

static std::string slice_of(const std::string& whole, const std::string& part, const std::string& from, const std::string& to,
                            const Shape& starts) {
  return part + " = tx.slice " + whole + " {starts = " + array_of(starts) + ", strides = " + array_of(Shape(starts.size(), 1)) +
         "} : " + tensor(from) + " -> " + tensor(to) + "\n";
}

static Shape sum_of(Shape a, const Shape& b, const Shape& c) {
  for (size_t d = 0; d < a.size(); ++d) a[d] += b[d] + c[d];
  return a;
}

std::string Case::region(bool with_packed) const {
  std::string filter_type = type_of(with_packed ? Shape{packed_elements()} : filter, filter_element());
  std::string body, lhs = "%0", rhs = "%1";
  std::vector<std::string> operands{input, filter_type};
  if (!input_starts.empty()) {
    operands[0] = whole_input;
    lhs = "%in";
    body += slice_of("%0", lhs, whole_input, input, input_starts);
  }
  if (!filter_starts.empty()) {
    operands[1] = type_of(whole_filter, filter_element());
    rhs = "%of";
    body += slice_of("%1", rhs, operands[1], filter_type, filter_starts);
  }
  operands.insert(operands.end(), more.begin(), more.end());
  std::string zero, zero_type;
  if (has_zero) {
    zero = ", zero %" + std::to_string(operands.size());
    operands.push_back(type_of({attributes.find("transpose_rhs") != std::string::npos ? filter[filter.size() - 2] : filter.back()}));
    zero_type = ", " + tensor(operands.back());
  }
  std::string all = attributes;
  if (with_packed) all += (all.empty() ? "" : ", ") + std::string("packed_shape = ") + array_of(filter) + (winograd ? ", winograd" : "");
  body += "%y = " + op + " " + lhs + ", " + rhs + zero + " {" + all + "} : " + tensor(input) + ", " + tensor(filter_type) + zero_type +
          " -> " + tensor(result) + "\n" + tail;
  std::string last = tail.empty() ? "%y" : "%z", yielded = stored.empty() ? result : stored;
  if (!stored.empty()) {
    body += "\n%t = tx.transpose " + last + " {permutation = " + array_of(permutation) + "} : " + tensor(result) + " -> " + tensor(stored);
    last = "%t";
  }
  return region_text(operands, {yielded}, body + "\n tx.yield " + last + " : " + tensor(yielded), dispatch_attributes,
                     symbols.size() == 2   ? std::vector<std::string>{"height", "width"}
                     : symbols.size() == 1 ? std::vector<std::string>{"batch"}
                                           : std::vector<std::string>{});
}

std::string Case::pack_region() const {
  std::string from = type_of(filter, filter_element()), to = type_of({packed_elements()}, filter_element());
  return region_text({from}, {to},
                     "%p = tx.pack %0 {groups = " + std::to_string(groups) + (winograd ? ", winograd" : "") + "} : " + tensor(from) +
                         " -> " + tensor(to) + "\n tx.yield %p : " + tensor(to));
}

Case Conv::to_case() const {
  Case c;
  auto out = [&](size_t i, int64_t in) { return (in + low[i] + high[i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1; };
  auto with_batch = [&](Shape shape) {
    if (symbolic_batch) return symbolic(shape, element);
    shape.insert(shape.begin(), batch);
    return type_of(shape, element);
  };
  // Of an image of symbolic size that is the input, or the result.
  auto image_type = [&](bool is_result, int64_t last) {
    if (!symbolic_image) return with_batch({is_result ? out(0, height) : height, is_result ? out(1, width) : width, last});
    std::string map = std::to_string(batch);
    for (size_t i : {size_t{0}, size_t{1}}) {
      const std::string symbol = "s" + std::to_string(i);
      const int64_t more = low[i] + high[i] - (kernel[i] - 1) * dilations[i] - 1;
      map +=
          ", " + (is_result ? "(" + symbol + " + " + std::to_string(more) + ") floordiv " + std::to_string(strides[i]) + " + 1" : symbol);
    }
    return std::to_string(batch) + "x?x?x" + std::to_string(last) + "x" + element + ", #tx.dims<()[s0, s1] -> (" + map + ", " +
           std::to_string(last) + ")>";
  };
  c.element = element;
  c.integers = integers;
  c.has_zero = has_zero;
  c.input = image_type(false, channels);
  if (!before.empty()) {
    const Shape whole = sum_of({symbolic_batch ? 0 : batch, height, width, channels}, before, after);
    c.whole_input = symbolic_batch ? symbolic(Shape(whole.begin() + 1, whole.end()), element) : type_of(whole, element);
    c.input_starts = before;
  }
  c.result = image_type(true, columns);
  c.filter = {kernel[0], kernel[1], channels / groups, columns};
  c.op = "tx.conv";
  c.attributes = "strides = " + array_of(strides) + ", pads_low = " + array_of(low) + ", pads_high = " + array_of(high) +
                 ", dilations = " + array_of(dilations) + ", groups = " + std::to_string(groups) + " : i64";
  c.groups = groups;
  c.packed = packed;
  c.winograd = winograd;
  if (channels_first) {
    c.stored = with_batch({columns, out(0, height), out(1, width)});
    c.permutation = {0, 3, 1, 2};
  }
  if (symbolic_batch) c.symbols = {batch};
  if (symbolic_image) c.symbols = {height, width};
  std::string t = tensor(c.result), f = type_of({columns}, element);
  std::string broadcast = "%b = tx.broadcast %2 {dimensions = array<i64: 3>} : " + tensor(f) + " -> " + t + "\n";
  if (tail == bias_relu) {
    c.more = {f};
    c.tail = broadcast + "%s = tx.add %y, %b : " + t + "\n%z = tx.relu %s : " + t;
  } else if (tail == residual) {
    c.more = {f, c.result};
    c.tail = broadcast + "%s = tx.add %y, %b : " + t + "\n%u = tx.add %s, %3 : " + t + "\n%z = tx.relu %u : " + t;
    if (tied) c.dispatch_attributes = "attributes {tied = array<i64: 3>}";
  } else if (tail == curved) {
    std::string bools = t;
    bools.replace(bools.find(element), element.size(), "i1");
    c.tail = "%s = tx.sigmoid %y : " + t + "\n%u = tx.mul %s, %y : " + t + "\n%k = tx.constant dense<0.5> : " + t +
             "\n%c = tx.compare lt %u, %k : " + t + " -> " + bools + "\n%e = tx.exp %u : " + t + "\n%z = tx.select %c, %e, %y : " + bools +
             ", " + t;
  } else if (tail == swish) {
    c.tail = "%s = tx.sigmoid %y : " + t + "\n%z = tx.mul %s, %y : " + t;
  } else if (tail == gelu) {  // and a residual
    c.more = {f, c.result};
    c.tail = broadcast + "%s = tx.add %y, %b : " + t + "\n%r = tx.constant dense<0.70710678> : " + t + "\n%q = tx.mul %s, %r : " + t +
             "\n%e = tx.erf %q : " + t + "\n%o = tx.constant dense<1.0> : " + t + "\n%p = tx.add %e, %o : " + t +
             "\n%m = tx.mul %s, %p : " + t + "\n%h = tx.constant dense<0.5> : " + t + "\n%g = tx.mul %m, %h : " + t +
             "\n%z = tx.add %g, %3 : " + t;
    if (tied) c.dispatch_attributes = "attributes {tied = array<i64: 3>}";
  } else if (tail == scalars) {
    std::string one = type_of({1}, element);
    c.more = {one};
    c.tail = "%b = tx.broadcast %2 {dimensions = array<i64: 3>} : " + tensor(one) + " -> " + t + "\n%k = tx.constant dense<0.25> : " + t +
             "\n%s = tx.mul %y, %b : " + t + "\n%z = tx.max %s, %k : " + t;
  } else if (tail == rows) {
    const std::string pixel = with_batch({out(0, height), out(1, width), 1}), column = type_of({1, 1, 1, columns}, element);
    c.more = {pixel, column};
    c.tail = "%a = tx.broadcast %2 {dimensions = array<i64: 0, 1, 2, 3>} : " + tensor(pixel) + " -> " + t +
             "\n%b = tx.broadcast %3 {dimensions = array<i64: 0, 1, 2, 3>} : " + tensor(column) + " -> " + t +
             "\n%s = tx.mul %y, %a : " + t + "\n%z = tx.add %s, %b : " + t;
  } else if (tail == quantized) {
    c.more = {f};
    c.tail = broadcast + quantized_tail(t);
  }
  if (pitch > 0) c.dispatch_attributes = with_pitch(pitch);
  return c;
}

Case Matmul::to_case() const {
  Case c;
  auto with = [&](Shape last) {
    if (symbolic_rows) return symbolic({last[1]}, element);
    last.insert(last.begin(), batch.begin(), batch.end());
    return type_of(last, element);
  };
  c.element = element;
  c.integers = integers;
  c.has_zero = has_zero;
  c.input = transpose_lhs ? with({depth, rows}) : with({rows, depth});
  c.result = with({rows, columns});
  c.filter = batched_rhs ? batch : Shape{};
  if (transpose_rhs) {
    c.filter.insert(c.filter.end(), {columns, depth});
  } else {
    c.filter.insert(c.filter.end(), {depth, columns});
  }
  if (!before.empty()) {
    Shape own{rows, depth};
    if (!symbolic_rows) own.insert(own.begin(), batch.begin(), batch.end());
    const Shape whole = sum_of(own, before, after);
    c.whole_input = symbolic_rows ? symbolic({whole[1]}, element) : type_of(whole, element);
    c.input_starts = before;
  }
  if (!rhs_before.empty()) {
    c.whole_filter = sum_of(c.filter, rhs_before, rhs_after);
    c.filter_starts = rhs_before;
  }
  c.op = "tx.matmul";
  if (transpose_lhs) c.attributes = "transpose_lhs";
  if (transpose_rhs) c.attributes += (transpose_lhs ? ", " : "") + std::string("transpose_rhs");
  c.packed = packed;
  if (transpose_result) {
    std::string n = std::to_string(columns);
    c.stored = symbolic_rows ? n + "x?x" + element + ", #tx.dims<()[s0] -> (" + n + ", s0)>" : with({columns, rows});
    for (size_t d = 0; d < batch.size(); ++d) c.permutation.push_back(static_cast<int64_t>(d));
    c.permutation.insert(c.permutation.end(), {static_cast<int64_t>(batch.size()) + 1, static_cast<int64_t>(batch.size())});
  }
  if (symbolic_rows) c.symbols = {rows};
  if (bias) {
    std::string t = tensor(c.result), f = type_of({columns}, element);
    c.more = {f};
    c.tail = "%b = tx.broadcast %2 {dimensions = array<i64: " + std::to_string(batch.size() + 1) + ">} : " + tensor(f) + " -> " + t +
             "\n%z = tx.add %y, %b : " + t;
  }
  if (pitch > 0) c.dispatch_attributes = with_pitch(pitch);
  return c;
}

}  // namespace heddle::tests
