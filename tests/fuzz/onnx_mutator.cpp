// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes ONNX models as models: bytes that are changed at random rarely parse, and rarely reach an operator. Only for libFuzzer.
#include <onnx-ml.pb.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compiler/import/onnx_importer.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void mutate(onnx::ModelProto& model, const onnx::ModelProto* other) {
    for (uint64_t left = 1 + below(3); left > 0; --left) {
      graphs_.clear();
      collect(model.mutable_graph());
      onnx::GraphProto& graph = *graphs_[below(graphs_.size())];
      const uint64_t kind = below(24);
      if (kind < 16 && graph.node_size() > 0) {
        change_node(graph, *graph.mutable_node(static_cast<int>(below(graph.node_size()))), kind);
      } else if (kind < 18) {
        change_stored(graph);
      } else if (kind < 20) {
        change_type(graph);
      } else if (kind < 21) {
        change_model(model);
      } else if (other) {
        take_from(graph, other->graph());
      } else if (graph.node_size() > 0) {
        move_node(graph);
      }
    }
  }

 private:
  uint64_t below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }
  bool chance(unsigned of) { return below(of) == 0; }

  int64_t number() {
    static constexpr int64_t numbers[] = {0,  1,   2,    3,     4,         7,         8,         16,        31,
                                          64, 255, 1000, 65536, INT32_MAX, 1LL << 32, 1LL << 40, INT64_MAX, INT64_MIN};
    const int64_t chosen = numbers[below(std::size(numbers))];
    return chance(3) && chosen != INT64_MIN ? -chosen : chosen;
  }
  float real() {
    static constexpr float numbers[] = {
        0, 1, -1, 0.5F, 1e-30F, 1e30F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    return numbers[below(std::size(numbers))];
  }

  void collect(onnx::GraphProto* graph) {
    graphs_.push_back(graph);
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) collect(attribute.mutable_g());
        for (onnx::GraphProto& inner : *attribute.mutable_graphs()) collect(&inner);
      }
    }
  }

  // A name that the graph, or one around it, has; rarely another one, or none.
  std::string name(const onnx::GraphProto& graph) {
    if (chance(12)) return chance(2) ? "" : "n" + std::to_string(below(100));
    const onnx::GraphProto& from = chance(4) ? *graphs_[below(graphs_.size())] : graph;
    const uint64_t kind = below(6);
    if (kind == 0 && from.initializer_size() > 0) return from.initializer(static_cast<int>(below(from.initializer_size()))).name();
    if (kind == 1 && from.input_size() > 0) return from.input(static_cast<int>(below(from.input_size()))).name();
    if (from.node_size() == 0) return from.input_size() > 0 ? from.input(0).name() : "x";
    const onnx::NodeProto& node = from.node(static_cast<int>(below(from.node_size())));
    if (chance(3) && node.input_size() > 0) return node.input(static_cast<int>(below(node.input_size())));
    return node.output_size() > 0 ? node.output(static_cast<int>(below(node.output_size()))) : "y";
  }

  void change_node(onnx::GraphProto& graph, onnx::NodeProto& node, uint64_t kind) {
    switch (kind) {
      case 0:
      case 1:
      case 2:
        if (node.input_size() > 0) node.set_input(static_cast<int>(below(node.input_size())), name(graph));
        return;
      case 3:
        node.add_input(name(graph));
        return;
      case 4:
        if (node.input_size() > 0) node.mutable_input()->RemoveLast();
        return;
      case 5:
        if (node.output_size() > 0 && chance(2)) {
          node.set_output(static_cast<int>(below(node.output_size())), name(graph));
        } else {
          node.add_output("o" + std::to_string(below(100)));
        }
        return;
      case 6:
      case 7: {
        static const std::vector<std::string> operators = heddle::import::supported_operators();
        const std::string& chosen = operators[below(operators.size())];
        const size_t dot = chosen.rfind('.');
        node.set_op_type(dot == std::string::npos ? chosen : chosen.substr(dot + 1));
        node.set_domain(dot == std::string::npos ? "" : chosen.substr(0, dot));
        return;
      }
      case 8: {  // a node behind this one
        onnx::NodeProto copy = node;
        for (std::string& output : *copy.mutable_output()) output += "_";
        if (copy.input_size() > 0 && node.output_size() > 0) copy.set_input(static_cast<int>(below(copy.input_size())), node.output(0));
        *graph.add_node() = copy;
        return;
      }
      case 9:
        if (graph.node_size() > 1) node.Swap(graph.mutable_node(graph.node_size() - 1)), graph.mutable_node()->RemoveLast();
        return;
      case 10:
        if (!known_.empty()) *node.add_attribute() = known_[below(known_.size())];
        return;
      default:
        if (node.attribute_size() > 0) change_attribute(*node.mutable_attribute(static_cast<int>(below(node.attribute_size()))));
        return;
    }
  }

  void change_attribute(onnx::AttributeProto& attribute) {
    constexpr size_t most_known = 500, most_bytes = 2000;
    if (attribute.ByteSizeLong() < most_bytes) {
      if (known_.size() < most_known)
        known_.push_back(attribute);
      else
        known_[below(most_known)] = attribute;
    }
    switch (below(8)) {
      case 0:
        attribute.set_type(static_cast<onnx::AttributeProto_AttributeType>(below(15)));
        return;
      case 1:
        if (!known_.empty()) attribute.set_name(known_[below(known_.size())].name());
        return;
      case 2:
        if (attribute.ints_size() > 0 && chance(2))
          attribute.mutable_ints()->RemoveLast();
        else if (attribute.ints_size() > 0)
          attribute.add_ints(number());
        else if (attribute.floats_size() > 0)
          attribute.add_floats(real());
        return;
      default:
        break;
    }
    if (attribute.has_i())
      attribute.set_i(chance(2) ? static_cast<int64_t>(static_cast<uint64_t>(attribute.i()) + (chance(2) ? 1 : ~uint64_t{0})) : number());
    if (attribute.has_f()) attribute.set_f(real());
    if (attribute.ints_size() > 0) attribute.set_ints(static_cast<int>(below(attribute.ints_size())), number());
    if (attribute.floats_size() > 0) attribute.set_floats(static_cast<int>(below(attribute.floats_size())), real());
    if (attribute.has_s() && !known_.empty() && chance(2))
      attribute.set_s(known_[below(known_.size())].s());
    else if (attribute.has_s())
      change_bytes(*attribute.mutable_s());
    if (attribute.strings_size() > 0) change_bytes(*attribute.mutable_strings(static_cast<int>(below(attribute.strings_size()))));
    if (attribute.has_t()) change_tensor(*attribute.mutable_t());
  }

  static void change_bytes(std::string& text) {
    const size_t size = text.size();
    text.resize(size + 8);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
  }

  void change_tensor(onnx::TensorProto& tensor) {
    switch (below(8)) {
      case 0:
        tensor.set_data_type(static_cast<int>(below(27)));
        return;
      case 1:
        if (tensor.dims_size() > 0) tensor.set_dims(static_cast<int>(below(tensor.dims_size())), number());
        return;
      case 2:
        tensor.add_dims(chance(2) ? 1 : number());
        return;
      case 3:
        if (tensor.dims_size() > 0) tensor.mutable_dims()->RemoveLast();
        return;
      default:
        break;
    }
    if (tensor.int64_data_size() > 0) tensor.set_int64_data(static_cast<int>(below(tensor.int64_data_size())), number());
    if (tensor.int32_data_size() > 0)
      tensor.set_int32_data(static_cast<int>(below(tensor.int32_data_size())), static_cast<int32_t>(number()));
    if (tensor.float_data_size() > 0) tensor.set_float_data(static_cast<int>(below(tensor.float_data_size())), real());
    if (tensor.string_data_size() > 0) change_bytes(*tensor.mutable_string_data(static_cast<int>(below(tensor.string_data_size()))));
    std::string& raw = *tensor.mutable_raw_data();
    if (raw.size() >= 8 && tensor.data_type() == onnx::TensorProto::INT64) {
      const int64_t value = number();
      std::copy_n(reinterpret_cast<const char*>(&value), 8, raw.data() + below(raw.size() / 8) * 8);
    } else if (!raw.empty()) {
      raw[below(raw.size())] = static_cast<char>(below(256));
    } else {
      tensor.clear_raw_data();
    }
  }

  void change_stored(onnx::GraphProto& graph) {
    if (graph.initializer_size() == 0 || chance(8)) {
      onnx::TensorProto& added = *graph.add_initializer();
      added.set_name(name(graph));
      added.set_data_type(onnx::TensorProto::INT64);
      added.add_dims(1);
      added.add_int64_data(number());
      return;
    }
    change_tensor(*graph.mutable_initializer(static_cast<int>(below(graph.initializer_size()))));
  }

  void change_type(onnx::GraphProto& graph) {
    const bool of_output = chance(4);
    if ((of_output ? graph.output_size() : graph.input_size()) == 0) {
      graph.add_output()->set_name(name(graph));
      return;
    }
    onnx::ValueInfoProto& value = of_output ? *graph.mutable_output(static_cast<int>(below(graph.output_size())))
                                            : *graph.mutable_input(static_cast<int>(below(graph.input_size())));
    if (chance(8)) value.set_name(name(graph));
    if (chance(10)) {
      onnx::TypeProto inner = value.type();
      *(chance(2) ? value.mutable_type()->mutable_sequence_type()->mutable_elem_type()
                  : value.mutable_type()->mutable_optional_type()->mutable_elem_type()) = inner;
      return;
    }
    onnx::TypeProto_Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
    onnx::TensorShapeProto& shape = *tensor.mutable_shape();
    switch (below(5)) {
      case 0:
        tensor.set_elem_type(static_cast<int>(below(27)));
        return;
      case 1:
        shape.add_dim()->set_dim_value(chance(2) ? 1 : number());
        return;
      case 2:
        if (shape.dim_size() > 0) shape.mutable_dim()->RemoveLast();
        return;
      case 3:
        if (shape.dim_size() > 0) shape.mutable_dim(static_cast<int>(below(shape.dim_size())))->set_dim_param(chance(2) ? "N" : "M");
        return;
      default:
        if (shape.dim_size() > 0) shape.mutable_dim(static_cast<int>(below(shape.dim_size())))->set_dim_value(number());
        return;
    }
  }

  void change_model(onnx::ModelProto& model) {
    if (model.opset_import_size() > 0 && chance(2)) {
      model.mutable_opset_import(static_cast<int>(below(model.opset_import_size())))->set_version(static_cast<int64_t>(below(28)));
      return;
    }
    if (model.functions_size() == 0) {  // what the graph has, as a function that it calls
      onnx::FunctionProto& function = *model.add_functions();
      function.set_domain("local");
      function.set_name("f");
      *function.mutable_opset_import() = model.opset_import();
      for (const auto& input : model.graph().input()) function.add_input(input.name());
      for (const auto& output : model.graph().output()) function.add_output(output.name());
      *function.mutable_node() = model.graph().node();
      onnx::NodeProto& call = *model.mutable_graph()->add_node();
      call.set_op_type("f");
      call.set_domain("local");
      for (const auto& input : model.graph().input()) call.add_input(input.name());
      call.add_output("of_f");
      model.mutable_graph()->add_output()->set_name("of_f");
      auto* import = model.add_opset_import();
      import->set_domain("local");
      import->set_version(1);
      return;
    }
    onnx::FunctionProto& function = *model.mutable_functions(static_cast<int>(below(model.functions_size())));
    if (function.node_size() == 0) return;
    onnx::NodeProto& node = *function.mutable_node(static_cast<int>(below(function.node_size())));
    if (chance(3)) {
      node.set_op_type(function.name());
      node.set_domain(function.domain());
    } else if (node.attribute_size() > 0) {
      change_attribute(*node.mutable_attribute(static_cast<int>(below(node.attribute_size()))));
    } else if (node.input_size() > 0 && function.input_size() > 0) {
      node.set_input(static_cast<int>(below(node.input_size())), function.input(static_cast<int>(below(function.input_size()))));
    }
  }

  // A node of another model, with what is stored for it.
  void take_from(onnx::GraphProto& graph, const onnx::GraphProto& other) {
    if (other.node_size() == 0) return;
    onnx::NodeProto node = other.node(static_cast<int>(below(other.node_size())));
    for (std::string& input : *node.mutable_input()) {
      const auto stored =
          std::find_if(other.initializer().begin(), other.initializer().end(), [&](const auto& one) { return one.name() == input; });
      if (stored != other.initializer().end()) {
        *graph.add_initializer() = *stored;
      } else {
        input = name(graph);
      }
    }
    const std::string result = node.output_size() > 0 ? node.output(0) : "";
    *graph.add_node() = node;
    if (chance(2) && !result.empty()) graph.add_output()->set_name(result);
  }

  void move_node(onnx::GraphProto& graph) {
    const int from = static_cast<int>(below(graph.node_size())), to = static_cast<int>(below(graph.node_size()));
    graph.mutable_node()->SwapElements(from, to);
  }

  // Attributes of models that came by.
  static std::vector<onnx::AttributeProto> known_;
  std::vector<onnx::GraphProto*> graphs_;
  std::mt19937_64 random_;
};

std::vector<onnx::AttributeProto> Mutator::known_;

size_t changed(uint8_t* data, size_t size, size_t max_size, unsigned seed, const uint8_t* other_data, size_t other_size) {
  constexpr unsigned bytes_in = 10;  // one in so many changes is one of bytes
  onnx::ModelProto model, other;
  if (seed % bytes_in == 0 || !model.ParseFromArray(data, static_cast<int>(size)) || !model.has_graph())
    return LLVMFuzzerMutate(data, size, max_size);
  const bool has_other = other_data && other.ParseFromArray(other_data, static_cast<int>(other_size));
  Mutator(seed).mutate(model, has_other ? &other : nullptr);
  const size_t bytes = model.ByteSizeLong();
  if (bytes > max_size || !model.SerializeToArray(data, static_cast<int>(max_size))) return LLVMFuzzerMutate(data, size, max_size);
  return bytes;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return changed(data, size, max_size, seed, nullptr, 0);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other, size_t other_size, uint8_t* out,
                                            size_t max_size, unsigned seed) {
  if (size > max_size) return 0;
  std::copy_n(data, size, out);
  return changed(out, size, max_size, seed | 1, other, other_size);
}
