// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies are written as nodes of ONNX: a Scan over the products of the inputs with the weights, which are computed for all steps at once. A step behind the end of a sequence keeps the state and gives zeros; backward, these steps come first.
#include "compiler/import/onnx_recurrent.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "compiler/import/onnx_writer.h"

namespace heddle::import {
namespace {

using Writer = NodeWriter;

// The most bytes of f32 weights that the steps of both directions read together, if they are steps of one loop. A core finds what the last step read in its
// second-level cache, of which servers have 1 to 2 MiB; two loops, one after the other, need half of it.
constexpr int64_t most_bytes_of_a_loop = int64_t{1} << 20;

[[noreturn]] void refuse(const onnx::NodeProto& call, const std::string& cause) {
  const std::string name = !call.name().empty() ? call.name() : call.output_size() > 0 ? call.output(0) : call.op_type();
  throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing node '" + name + "' (operator " + call.op_type() + ") failed: " + cause};
}

const onnx::AttributeProto* attribute_of(const onnx::NodeProto& node, const std::string& name) {
  for (const auto& one : node.attribute()) {
    if (one.name() == name) return &one;
  }
  return nullptr;
}

// An activation function with its numbers.
struct Activation {
  std::string name;  // in small letters
  float alpha, beta;
};

struct Known {
  const char* name;
  float alpha, beta;  // by default
  int numbers;        // that it takes
};
constexpr Known known_activations[] = {
    {"relu", 0, 0, 0},          {"tanh", 0, 0, 0},
    {"sigmoid", 0, 0, 0},       {"affine", 1, 0, 2},
    {"leakyrelu", 0.01f, 0, 1}, {"thresholdedrelu", 1, 0, 1},
    {"scaledtanh", 1, 1, 2},    {"hardsigmoid", 0.2f, 0.5f, 2},
    {"elu", 1, 0, 1},           {"softsign", 0, 0, 0},
    {"softplus", 0, 0, 0},
};

std::string activated(Writer& w, const Activation& f, const std::string& x) {
  auto with = [&](const char* type, bool with_beta) {
    std::string result = w.fresh();
    onnx::NodeProto& node = w.node(type, {x}, {result});
    Writer::set(node, "alpha", f.alpha);
    if (with_beta) Writer::set(node, "beta", f.beta);
    return result;
  };
  if (f.name == "relu") return w.op("Relu", {x});
  if (f.name == "tanh") return w.op("Tanh", {x});
  if (f.name == "sigmoid") return w.op("Sigmoid", {x});
  if (f.name == "softsign") return w.op("Softsign", {x});
  if (f.name == "softplus") return w.op("Softplus", {x});
  if (f.name == "leakyrelu") return with("LeakyRelu", false);
  if (f.name == "thresholdedrelu") return with("ThresholdedRelu", false);
  if (f.name == "elu") return with("Elu", false);
  if (f.name == "hardsigmoid") return with("HardSigmoid", true);
  std::string alpha = w.number(f.alpha, x), beta = w.number(f.beta, x);
  if (f.name == "affine") return w.op("Add", {w.op("Mul", {x, alpha}), beta});
  return w.op("Mul", {alpha, w.op("Tanh", {w.op("Mul", {beta, x})})});
}

class Recurrent {
 public:
  Recurrent(const onnx::NodeProto& call, int64_t opset) : call_(call), outer_(*body_.mutable_node(), count_) {
    kind_ = call.op_type();
    if (!given(0) || !given(1) || !given(2)) refuse(call, "it needs the inputs X, W and R");
    const std::string direction = text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      refuse(call, "direction '" + direction + "' is not known");
    backward_ = direction == "reverse"   ? std::vector<bool>{true}
                : direction == "forward" ? std::vector<bool>{false}
                                         : std::vector<bool>{false, true};
    batch_first_ = opset >= 14 && integer("layout", 0) != 0;
    linear_before_reset_ = integer("linear_before_reset", 0) != 0;
    input_forget_ = integer("input_forget", 0) != 0;
    if (const auto* clip = attribute_of(call, "clip")) clip_ = clip->f();
    read_activations();
  }

  onnx::FunctionProto body() {
    body_.set_name(kind_);
    auto& imported = *body_.add_opset_import();
    imported.set_version(recurrent_opset);
    for (const char* input : {"X", "W", "R", "B", "sequence_lens", "initial_h"}) body_.add_input(input);
    if (kind_ == "LSTM") {
      body_.add_input("initial_c");
      body_.add_input("P");
    }
    for (const char* output : {"Y", "Y_h"}) body_.add_output(output);
    if (kind_ == "LSTM") body_.add_output("Y_c");

    Writer& w = outer_;
    x_ = batch_first_ ? w.transpose("X", {1, 0, 2}) : "X";
    if (given(4)) {  // [steps, batch, 1]: whether the step is in the sequence
      std::string lengths = w.op("CastLike", {"sequence_lens", w.integer(0)});
      std::string steps = w.op("Range", {w.integer(0), w.op("Gather", {w.op("Shape", {x_}), w.integer(0)}), w.integer(1)});
      is_step_ = w.unsqueeze(w.op("Less", {w.unsqueeze(steps, 1), lengths}), 2);
    }
    Names all, last_h, last_c;
    if (is_one_loop()) {
      loop(0, backward_.size(), all, last_h, last_c);
    } else {
      for (size_t d = 0; d < backward_.size(); ++d) loop(d, d + 1, all, last_h, last_c);
    }
    if (batch_first_) {  // [batch, steps, directions, hidden], [batch, directions, hidden]
      finish("Transpose", w.concat(all, 1), "Y", {2, 0, 1, 3});
      finish("Transpose", w.concat(last_h, 0), "Y_h", {1, 0, 2});
      if (kind_ == "LSTM") finish("Transpose", w.concat(last_c, 0), "Y_c", {1, 0, 2});
    } else {
      finish("Identity", w.concat(all, 1), "Y", {});
      finish("Identity", w.concat(last_h, 0), "Y_h", {});
      if (kind_ == "LSTM") finish("Identity", w.concat(last_c, 0), "Y_c", {});
    }
    return body_;
  }

 private:
  bool given(int input) const { return input < call_.input_size() && !call_.input(input).empty(); }
  int64_t integer(const char* name, int64_t otherwise) const {
    const auto* one = attribute_of(call_, name);
    return one ? one->i() : otherwise;
  }
  std::string text(const char* name, const std::string& otherwise) const {
    const auto* one = attribute_of(call_, name);
    return one ? one->s() : otherwise;
  }

  void finish(const char* type, const std::string& value, const char* output, const std::vector<int64_t>& permutation) {
    onnx::NodeProto& node = outer_.node(type, {value}, {output});
    if (!permutation.empty()) Writer::set(node, "perm", permutation);
  }

  void read_activations() {
    const size_t each = kind_ == "LSTM" ? 3 : kind_ == "GRU" ? 2 : 1, all = each * backward_.size();
    Names names;
    if (const auto* one = attribute_of(call_, "activations")) names.assign(one->strings().begin(), one->strings().end());
    for (size_t i = names.size(); names.size() < all; ++i) names.push_back(kind_ == "RNN" || i % each != 0 ? "Tanh" : "Sigmoid");
    if (names.size() != all) refuse(call_, "it has " + std::to_string(names.size()) + " activations, and needs " + std::to_string(all));
    const auto *alphas = attribute_of(call_, "activation_alpha"), *betas = attribute_of(call_, "activation_beta");
    int next_alpha = 0, next_beta = 0;  // taken by the functions that need one, in their order
    for (const std::string& name : names) {
      std::string small = name;
      std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const Known* known =
          std::find_if(std::begin(known_activations), std::end(known_activations), [&](const Known& one) { return small == one.name; });
      if (known == std::end(known_activations)) refuse(call_, "activation '" + name + "' is not known");
      Activation f{small, known->alpha, known->beta};
      if (known->numbers > 0 && alphas && next_alpha < alphas->floats_size()) f.alpha = alphas->floats(next_alpha++);
      if (known->numbers > 1 && betas && next_beta < betas->floats_size()) f.beta = betas->floats(next_beta++);
      activations_.push_back(std::move(f));
    }
  }

  // A state before the first step, [batch, hidden].
  std::string initial(int input, const char* name, int64_t d) {
    Writer& w = outer_;
    if (given(input)) return w.at(batch_first_ ? w.transpose(name, {1, 0, 2}) : name, d);
    std::string shape =
        w.concat({w.op("Gather", {w.op("Shape", {x_}), w.integers({1})}), w.op("Gather", {w.op("Shape", {"R"}), w.integers({2})})}, 0);
    return w.op("Expand", {w.number(0, x_), shape});
  }

  // What the step of a direction needs from outside of its loop.
  struct Direction {
    std::string products, recurrent, of_zr, of_h, inner_bias;
    Names peepholes, carried;
  };

  Direction outside(int64_t d) {
    Writer& w = outer_;
    Direction made;
    std::string weights = w.transpose(w.at("W", d), {1, 0}), recurrent = w.at("R", d);
    made.products = w.op("MatMul", {x_, weights});
    if (given(3)) {
      Names biases = w.split(w.at("B", d), 0, 2);
      made.products = w.op("Add", {made.products, biases[0]});
      if (kind_ == "GRU" && linear_before_reset_) {
        made.inner_bias = biases[1];
      } else {
        made.products = w.op("Add", {made.products, biases[1]});
      }
    }
    made.carried = {initial(5, "initial_h", d)};
    if (kind_ == "LSTM") made.carried.push_back(initial(6, "initial_c", d));
    if (kind_ == "GRU" && !linear_before_reset_) {
      Names parts = w.split(recurrent, 0, 3);
      made.of_zr = w.transpose(w.concat({parts[0], parts[1]}, 0), {1, 0});
      made.of_h = w.transpose(parts[2], {1, 0});
    } else {
      made.recurrent = w.transpose(recurrent, {1, 0});
    }
    if (kind_ == "LSTM" && given(7)) made.peepholes = w.split(w.at("P", d), 0, 3);
    return made;
  }

  // The steps of all directions can be steps of one loop, since they depend on different steps of the input only. That is half as many steps.
  bool is_one_loop() const {
    const int64_t gates = kind_ == "LSTM" ? 4 : kind_ == "GRU" ? 3 : 1;
    const auto hidden = static_cast<double>(integer("hidden_size", 0));
    return hidden * hidden * static_cast<double>(gates * backward_.size() * sizeof(float)) <= most_bytes_of_a_loop;
  }

  // One loop for the directions from `first` to before `last`.
  void loop(size_t first, size_t last, Names& all, Names& last_h, Names& last_c) {
    Writer& w = outer_;
    std::vector<Direction> directions;
    for (size_t d = first; d < last; ++d) directions.push_back(outside(static_cast<int64_t>(d)));

    onnx::GraphProto graph;
    graph.set_name(kind_ + "_step");
    Writer s(*graph.mutable_node(), count_);
    Names carried, scanned, carried_names, scanned_names, next, rows;
    std::vector<int64_t> in_directions, out_directions;
    for (size_t d = 0; d < directions.size(); ++d) {
      const Direction& one = directions[d];
      carried.insert(carried.end(), one.carried.begin(), one.carried.end());
      auto scan = [&](const std::string& value) {
        scanned.push_back(value);
        in_directions.push_back(backward_[first + d] ? 1 : 0);
        return scanned_names.emplace_back(s.fresh());
      };
      const std::string h = carried_names.emplace_back(s.fresh());
      const std::string c = kind_ == "LSTM" ? carried_names.emplace_back(s.fresh()) : "";
      const std::string x = scan(one.products), is_step = is_step_.empty() ? "" : scan(is_step_);
      const Activation* f = &activations_[(first + d) * activations_.size() / backward_.size()];
      std::string next_c;
      std::string next_h = kind_ == "LSTM"  ? lstm(s, f, x, h, c, one.recurrent, one.peepholes, is_step, next_c)
                           : kind_ == "GRU" ? gru(s, f, x, h, one.recurrent, one.of_zr, one.of_h, one.inner_bias)
                                            : act(s, f[0], s.op("Add", {x, s.op("MatMul", {h, one.recurrent})}));
      if (!is_step.empty()) next_h = s.op("Where", {is_step, next_h, h});
      next.push_back(next_h);
      if (kind_ == "LSTM") next.push_back(next_c);
      rows.push_back(s.op("Identity", {next_h}));
      out_directions.push_back(backward_[first + d] ? 1 : 0);
    }
    for (const Names* names : {&carried_names, &scanned_names}) {
      for (const std::string& name : *names) graph.add_input()->set_name(name);
    }
    for (const Names* names : {&next, &rows}) {
      for (const std::string& name : *names) graph.add_output()->set_name(name);
    }

    Names inputs = carried, outputs;
    inputs.insert(inputs.end(), scanned.begin(), scanned.end());
    for (int i = 0; i < graph.output_size(); ++i) outputs.push_back(w.fresh());
    onnx::NodeProto& node = w.node("Scan", inputs, outputs);
    Writer::set(node, "num_scan_inputs", static_cast<int64_t>(scanned.size()));
    Writer::set(node, "scan_input_directions", in_directions);
    Writer::set(node, "scan_output_directions", out_directions);
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name("body");
    attribute.set_type(onnx::AttributeProto::GRAPH);
    *attribute.mutable_g() = std::move(graph);

    const size_t each = carried.size() / directions.size();
    for (size_t d = 0; d < directions.size(); ++d) {
      std::string row = outputs[carried.size() + d];
      // Here and not in the loop, where it would be a kernel in each step.
      if (!is_step_.empty()) row = w.op("Where", {is_step_, row, w.number(0, row)});
      all.push_back(w.unsqueeze(row, 1));
      last_h.push_back(w.unsqueeze(outputs[d * each], 0));
      if (kind_ == "LSTM") last_c.push_back(w.unsqueeze(outputs[d * each + 1], 0));
    }
  }

  std::string act(Writer& s, const Activation& f, std::string x) const {
    if (clip_ > 0) x = s.op("Clip", {x, s.number(-clip_, x), s.number(clip_, x)});
    return activated(s, f, x);
  }

  // Gates are input, output, forget and cell.
  std::string lstm(Writer& s, const Activation* f, const std::string& x, const std::string& h, const std::string& c,
                   const std::string& whole, const Names& peepholes, const std::string& is_step, std::string& next_c) const {
    Names gates = s.split(s.op("Add", {x, s.op("MatMul", {h, whole})}), 1, 4);
    auto peeped = [&](const std::string& gate, size_t which, const std::string& cell) {
      return peepholes.empty() ? gate : s.op("Add", {gate, s.op("Mul", {peepholes[which], cell})});
    };
    std::string in = act(s, f[0], peeped(gates[0], 0, c));
    std::string forget = input_forget_ ? s.op("Sub", {s.number(1, in), in}) : act(s, f[0], peeped(gates[2], 2, c));
    next_c = s.op("Add", {s.op("Mul", {forget, c}), s.op("Mul", {in, act(s, f[1], gates[3])})});
    // Already here, since it makes no difference to the output of a step that counts.
    if (!is_step.empty()) next_c = s.op("Where", {is_step, next_c, c});
    std::string out = act(s, f[0], peeped(gates[1], 1, next_c));
    return s.op("Mul", {out, activated(s, f[2], next_c)});
  }

  // Gates are update, reset and hidden.
  std::string gru(Writer& s, const Activation* f, const std::string& x, const std::string& h, const std::string& whole,
                  const std::string& of_zr, const std::string& of_h, const std::string& inner_bias) const {
    Names of_x = s.split(x, 1, 3);
    std::string z, r, hidden;
    if (linear_before_reset_) {
      std::string product = s.op("MatMul", {h, whole});
      if (!inner_bias.empty()) product = s.op("Add", {product, inner_bias});
      Names parts = s.split(product, 1, 3);
      z = act(s, f[0], s.op("Add", {of_x[0], parts[0]}));
      r = act(s, f[0], s.op("Add", {of_x[1], parts[1]}));
      hidden = s.op("Mul", {r, parts[2]});
    } else {
      Names parts = s.split(s.op("MatMul", {h, of_zr}), 1, 2);
      z = act(s, f[0], s.op("Add", {of_x[0], parts[0]}));
      r = act(s, f[0], s.op("Add", {of_x[1], parts[1]}));
      hidden = s.op("MatMul", {s.op("Mul", {r, h}), of_h});
    }
    hidden = act(s, f[1], s.op("Add", {of_x[2], hidden}));
    return s.op("Add", {s.op("Mul", {s.op("Sub", {s.number(1, z), z}), hidden}), s.op("Mul", {z, h})});
  }

  const onnx::NodeProto& call_;
  onnx::FunctionProto body_;
  int count_ = 0;
  Writer outer_;
  std::string kind_, x_, is_step_;
  std::vector<bool> backward_;
  bool batch_first_ = false, linear_before_reset_ = false, input_forget_ = false;
  float clip_ = 0;
  std::vector<Activation> activations_;
};

}  // namespace

bool is_recurrent(std::string_view op_type) {
  return op_type == "GRU" || op_type == "LSTM" || op_type == "RNN";
}

onnx::FunctionProto recurrent_body(const onnx::NodeProto& call, int64_t opset) {
  return Recurrent(call, opset).body();
}

}  // namespace heddle::import
