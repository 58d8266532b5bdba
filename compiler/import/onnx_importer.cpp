// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One pass over the graph's nodes in order. ONNX guarantees a topological order; a node that violates it is an error. Unsupported features are
// recorded, and the pass continues, so that one error lists all of them.
#include "compiler/import/onnx_importer.h"

#include <map>
#include <set>

#include "compiler/import/onnx_arguments.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_compound.h"
#include "compiler/import/onnx_control.h"
#include "compiler/import/onnx_custom.h"
#include "compiler/import/onnx_declarations.h"
#include "compiler/import/onnx_fold.h"
#include "compiler/import/onnx_functions.h"
#include "compiler/import/onnx_graph.h"
#include "compiler/import/onnx_microsoft.h"
#include "compiler/import/onnx_narrow.h"
#include "compiler/import/onnx_random.h"
#include "compiler/import/onnx_schemas.h"
#include "compiler/import/onnx_scores.h"
#include "compiler/import/onnx_text.h"
#include "compiler/import/onnx_tokens.h"
#include "compiler/import/onnx_unsupported.h"
#include "compiler/ir/control.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/SaveAndRestore.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Imports of one file: each but the last learns something about its symbols. Anything not learned by then is checked in each call.
constexpr int most_imports = 16;

constexpr const char* learning_domain = "ai.onnx.ml";
constexpr int64_t newest_learning_version = 5;

std::vector<const Table*> tables() {
  return {&attention_operators(), &einsum_operators(),       &elementwise_operators(), &image_operators(),    &index_operators(),
          &linear_operators(),    &loss_operators(),         &normalize_operators(),   &quantize_operators(), &resize_operators(),
          &select_operators(),    &shape_operators(),        &slice_operators(),       &bit_operators(),      &sampling_operators(),
          &sequence_operators(),  &trigonometry_operators(), &pooling_operators(),     &qlinear_operators(),  &collection_operators(),
          &text_operators(),      &detection_operators(),    &signal_operators(),      &random_operators(),   &ngram_operators()};
}

// Of the domain ai.onnx.ml.
std::vector<const Table*> learning_tables() {
  return {&feature_operators(), &linear_model_operators(), &tree_operators()};
}

bool is_of_own_domain(const onnx::NodeProto& node) {
  return domain_key(node.domain()).empty();
}

constexpr const char* tokenizer_operator = "Tokenizer";

Translate translation(const onnx::NodeProto& node) {
  const std::string& type = node.op_type();
  if (node.domain() == training_domain) {
    auto known = training_operators().find(type);
    return known == training_operators().end() ? nullptr : known->second;
  }
  if (node.domain() == microsoft_domain && type == tokenizer_operator) return tokenizer;
  if (!is_of_own_domain(node) && node.domain() != learning_domain) return nullptr;
  for (const Table* table : is_of_own_domain(node) ? tables() : learning_tables()) {
    if (auto it = table->find(type); it != table->end()) return it->second;
  }
  return nullptr;
}

constexpr const char* regex_operator = "RegexFullMatch";

bool is_expanded(const onnx::NodeProto& node) {
  return is_microsoft(node) || (node.domain() == learning_domain && has_probabilities(node)) ||
         (domain_key(node.domain()).empty() && node.op_type() == regex_operator);
}

// The ops that a translation made must be valid IR: this finds mixed element types above all.
void check_made(Node& node, Block* block, Operation* before) {
  std::string said;
  ScopedDiagnosticHandler handler(block->getParentOp()->getContext(), [&](Diagnostic& diagnostic) {
    if (said.empty()) said = diagnostic.str();
  });
  for (Operation* op = before ? before->getNextNode() : block->empty() ? nullptr : &block->front(); op; op = op->getNextNode()) {
    for (Value result : op->getResults()) {
      if (std::string cause = refuse_extents(Node::extents_of(result)); !cause.empty()) node.fail(cause);
    }
    if (llvm::isa<tx::MatmulOp, tx::ConvOp, tx::ConcatOp, tx::PadOp, tx::BatchNormOp>(op)) {
      const Type own = Node::type_of(op->getResult(0)).getElementType();
      for (Value operand : op->getOperands()) {
        const Type given = Node::type_of(operand).getElementType();
        const bool is_byte_to_sum = llvm::isa<tx::MatmulOp>(op) && given.isInteger(8) && own.isSignlessInteger(32);
        if (given != own && !is_byte_to_sum) node.refuse_inputs("element types of the inputs differ");
      }
    }
    if (failed(verify(op))) node.refuse_inputs("its inputs do not fit: " + said);
  }
}

// The ops of a node carry the slot on which it was placed. So does all of a branch or a loop, except for nodes with rules of their own.
void place(Block* block, Operation* before, const Placements::Rule& rule) {
  Builder builder(block->getParentOp()->getContext());
  for (Operation* op = before ? before->getNextNode() : &block->front(); op; op = op->getNextNode()) {
    if (tx::stays_apart(op)) {
      for (NamedAttribute named : op->getAttrs()) {
        auto name = llvm::dyn_cast<FlatSymbolRefAttr>(named.getValue());
        auto function = name ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name) : func::FuncOp();
        if (!function) continue;
        for (unsigned i = 0; i < function.getNumArguments(); ++i)
          function.setArgAttr(i, tx::affinity_attr, builder.getStringAttr(rule.slot));
        for (unsigned i = 0; i < function.getNumResults(); ++i)
          function.setResultAttr(i, tx::affinity_attr, builder.getStringAttr(rule.slot));
        Block& part = function.getBody().front();
        place(&part, nullptr, rule);
      }
    }
    if (op->hasAttr(tx::place_attr) || op->hasTrait<OpTrait::IsTerminator>()) continue;
    op->setAttr(tx::place_attr, builder.getStringAttr(rule.slot));
    op->setAttr(tx::placed_by_attr, builder.getStringAttr("--place '" + rule.text + "'"));
  }
}

// Nodes that plugins run, by the operators declared in manifests.
class DeclaredOperators {
 public:
  DeclaredOperators(const OnnxFile& file, const ImportOptions& options) : file_(file), options_(options) {
    for (const auto& value : file.model.graph().value_info()) types_.try_emplace(value.name(), &value.type());
    for (const auto& value : file.model.graph().output()) types_.try_emplace(value.name(), &value.type());
  }

  // Whether a plugin declares the operator, which is of a foreign domain.
  bool declares(const onnx::NodeProto& node) const {
    std::string known;
    if (options_.operators) options_.operators->find(node.domain(), node.op_type(), file_.version_for(node), &known);
    return !known.empty();
  }

  // A node of a foreign domain.
  void translate(Node& node, const onnx::NodeProto& proto) const {
    const int64_t opset = file_.version_for(proto);
    std::string known;
    const Operator* declared = options_.operators ? options_.operators->find(proto.domain(), proto.op_type(), opset, &known) : nullptr;
    if (declared) return import_custom(node, proto, *declared, types_, options_.dims);
    node.fail("the model imports opset " + std::to_string(opset) + " of domain '" + proto.domain() + "', but only versions " + known +
                  " are declared; install a plugin of that version",
              HEDDLE_STATUS_UNIMPLEMENTED);
  }

  bool is_known(const onnx::NodeProto& node) const {
    if (is_control(node) || is_expanded(node)) return true;
    if (is_of_own_domain(node) || translation(node)) return translation(node) != nullptr;
    std::string versions;
    if (options_.operators) options_.operators->find(node.domain(), node.op_type(), 1, &versions);
    return !versions.empty();
  }

  // All nodes of an unknown operator.
  void note_unknown(const onnx::GraphProto& graph, Unsupported& unsupported) const {
    for (const auto& node : graph.node()) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) note_unknown(attribute.g(), unsupported);
      }
      if (!is_known(node)) unsupported.add_operator(node, file_.version_for(node));
    }
  }

  // The type of a value that the model states; null if it states none.
  const onnx::TypeProto* said_type(const std::string& value) const {
    auto known = types_.find(value);
    return known == types_.end() ? nullptr : known->second;
  }

  // A node of the default domain, now the ops after `before`: becomes one region that a plugin may run, if one declares the operator.
  void offer(Node& node, const onnx::NodeProto& proto, Block* block, Operation* before) const {
    if (!options_.operators) return;
    std::string known;
    const int64_t version = version_of(proto.op_type(), node.opset());
    const Operator* declared = options_.operators->find(default_domain, proto.op_type(), version, &known);
    if (known.empty()) return;
    SmallVector<Operation*> ops;
    Operation* first = before ? before->getNextNode() : block->empty() ? nullptr : &block->front();
    for (Operation* op = first; op; op = op->getNextNode()) ops.push_back(op);
    auto is_narrow = [](Value value) { return tx::narrow_format(Node::type_of(value).getElementType()) != nullptr; };
    const bool has_narrow = llvm::any_of(
        ops, [&](Operation* op) { return llvm::any_of(op->getOperands(), is_narrow) || llvm::any_of(op->getResults(), is_narrow); });
    std::string reason;
    if (has_narrow) {
      reason = "it has elements of a type of 8 bits or less that is no INT8, UINT8 or BOOL";
    } else if (!declared || declared->version != version) {
      reason = "opset " + std::to_string(node.opset()) + " means version " + std::to_string(version) + " of it, but only versions " +
               known + " are declared";
    } else {
      reason = import_alternative(node, proto, *declared, ops);
    }
    if (reason.empty()) return;
    tx::note_own_only(llvm::cast<ModuleOp>(block->getParentOp()->getParentOp()), llvm::cast<NameLoc>(node.location()).getName(),
                      std::string(default_domain) + "::" + proto.op_type(), reason);
  }

 private:
  const OnnxFile& file_;
  const ImportOptions& options_;
  std::map<std::string, const onnx::TypeProto*> types_;
};

void translate_node(Graph& graph, const onnx::NodeProto& node, const std::string& name, const DeclaredOperators& declared,
                    Placements* placements, Parts& parts);

// A node that becomes nodes of the default domain, now that the types of its inputs are known.
void expand(Graph& graph, Node& node, const onnx::NodeProto& proto, const std::string& name, const DeclaredOperators& declared,
            Placements* placements, Parts& parts) {
  static const Opsets opsets = {{"", microsoft_opset}};
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  int count = 0;
  NodeWriter writer(nodes, count, name + "#" + std::to_string(parts.expanded++) + "/");
  if (node.type() == regex_operator) {
    expand_regex(node, writer);
  } else if (has_probabilities(proto)) {
    expand_probabilities(node, writer);
  } else {
    expand_microsoft(node, writer);
  }
  for (const onnx::NodeProto& one : nodes) {
    graph.file->opsets_of_nodes[&one] = &opsets;
    auto forget = llvm::make_scope_exit([&] { graph.file->opsets_of_nodes.erase(&one); });
    translate_node(graph, one, name, declared, placements, parts);
  }
}

void translate_node(Graph& graph, const onnx::NodeProto& node, const std::string& name, const DeclaredOperators& declared,
                    Placements* placements, Parts& parts) {
  Block* block = graph.builder.getBlock();
  // The report names the node and its operator.
  Location location = NameLoc::get(graph.builder.getStringAttr(name), NameLoc::get(graph.builder.getStringAttr(node.op_type())));
  graph.opset = graph.file->opset_of(node);
  Node translated(graph, node, location);
  const bool is_own = is_of_own_domain(node);
  if (is_own && graph.opset == 0) translated.fail("the model, or the function that it is in, imports no opset of the default domain");
  Translate translate = translation(node);
  if (translate && node.domain() == learning_domain) {
    graph.opset = graph.file->version_for(node);
    if (graph.opset < 1 || graph.opset > newest_learning_version)
      translated.fail("version " + std::to_string(graph.opset) + " of domain ai.onnx.ml is outside of 1 to " +
                          std::to_string(newest_learning_version) + "; export the model with one of these",
                      HEDDLE_STATUS_UNIMPLEMENTED);
  }
  bool reads_text = false, reads_compound = false;
  for (int i = 0; i < node.input_size(); ++i) {
    reads_text |= translated.is_text(i);
    reads_compound |= translated.is_compound(i);
  }
  const auto of_text = text_operators().find(node.op_type());
  const bool is_of_text = is_own && reads_text && of_text != text_operators().end();
  if (is_of_text) translate = of_text->second;
  if (translate && node.domain() == microsoft_domain && declared.declares(node)) translate = nullptr;
  if (node.domain() == learning_domain && has_probabilities(node)) translate = nullptr;
  Operation* before = block->empty() ? nullptr : &block->back();
  if (translate && reads_compound && !is_of_text && moves_compound(domain_key(node.domain()), node.op_type())) {
    move_compound(translated, node, translate);
  } else if (translate) {
    if (!is_own || reads_compound || !fold_numbers(translated)) translate(translated);
  } else if (is_control(node)) {
    import_control(translated, node, parts);
  } else if (is_expanded(node) && !declared.declares(node)) {
    expand(graph, translated, node, name, declared, placements, parts);
  } else {
    declared.translate(translated, node);
  }
  check_made(translated, block, before);
  if (translate && is_own && !reads_compound) declared.offer(translated, node, block, before);
  make_checks(translated);
  const Placements::Rule* rule = placements ? placements->of_node(name, node.op_type()) : nullptr;
  if (rule && !block->empty()) place(block, before, *rule);
  if (!graph.unsupported.empty()) return;
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty() || graph.operands.contains(node.output(i))) continue;
    translated.unsupported("output " + std::to_string(i) + " ('" + node.output(i) + "') is not supported");
  }
}

// False if the nodes of the chain have to be translated one by one, which also finds what is wrong with them.
bool translate_chain(Graph& graph, const TokenChain& chain, const std::string& name) {
  Block* block = graph.builder.getBlock();
  Operation* before = block->empty() ? nullptr : &block->back();
  const Location location =
      NameLoc::get(graph.builder.getStringAttr(name), NameLoc::get(graph.builder.getStringAttr(chain.counts->op_type())));
  graph.opset = graph.file->opset_of(*chain.counts);
  Node counts(graph, *chain.counts, location), tokenizer(graph, *chain.token_nodes.front(), location);
  try {
    if (!count_tokens(chain, counts, tokenizer)) return false;
  } catch (const Failure&) {
    graph.unsupported.clear();
    return false;
  }
  check_made(counts, block, before);
  return true;
}

// A placeholder for a value that an unsupported node computes: an argument of the type that the model states.
Operand assumed_operand(Graph& graph, const onnx::TypeProto* said, const ImportOptions& options) {
  Operand operand;
  operand.is_assumed = operand.is_unknown = true;
  if (!said || !said->has_tensor_type()) return operand;
  const auto& tensor = said->tensor_type();
  if (tensor.elem_type() == 0 || !tensor.has_shape()) return operand;
  if (!is_element_type(tensor.elem_type())) {
    operand.refused_type = tensor.elem_type();
    operand.is_unknown = false;
    return operand;
  }
  Extents extents;
  for (const auto& dim : tensor.shape().dim()) {
    auto given = options.dims.find(dim.dim_param());
    std::optional<AffineExpr> symbol;
    if (dim.has_dim_value() || given != options.dims.end()) {
      symbol = graph.builder.getAffineConstantExpr(dim.has_dim_value() ? dim.dim_value() : given->second);
    } else if (!dim.dim_param().empty()) {
      symbol = graph.symbols.find(dim.dim_param());
    }
    if (!symbol) return operand;
    extents.push_back(*symbol);
  }
  if (!refuse_extents(extents).empty()) return operand;
  Type element = element_type(graph.builder.getContext(), tensor.elem_type(), "value", /*may_be_narrow=*/true);
  operand.value = graph.builder.getBlock()->addArgument(tx::tensor_type(extents, element), graph.builder.getUnknownLoc());
  operand.is_unknown = false;
  return operand;
}

// For a node that is not translated.
void note_refused_types(Graph& graph, const onnx::NodeProto& node, Unsupported& unsupported) {
  Node reader(graph, node, graph.builder.getUnknownLoc());
  for (int i = 0; i < node.input_size(); ++i) {
    auto it = graph.operands.find(node.input(i));
    if (node.input(i).empty() || it == graph.operands.end()) continue;
    const Value known = it->second.value;
    const bool is_narrow = known && tx::narrow_format(Node::type_of(known).getElementType());
    if (!is_narrow && (!it->second.refused_type || known)) continue;
    try {
      reader.operand(i);
    } catch (const Failure& failure) {
      unsupported.add(node, failure);
    }
  }
}

// Translates all nodes. Once something is not supported, the module is never used, and the remaining nodes are only searched for other unsupported
// features. For nodes that depend on an unsupported node, only features that do not depend on its values and shapes count.
void translate_nodes(Graph& graph, const onnx::GraphProto& proto, const DeclaredOperators& declared, const ImportOptions& options,
                     Meanings& meanings, Unsupported& unsupported, Parts& parts) {
  // Tokens that are only counted are not made; the nodes that would make them come late, if they are needed after all.
  std::map<const onnx::NodeProto*, TokenChain> chains;  // by the last node
  std::set<const onnx::NodeProto*> postponed;
  const auto& nodes = proto.node();
  auto name_of = [&](int index) {
    const onnx::NodeProto& node = nodes[index];
    return node.name().empty() ? node.op_type() + "#" + std::to_string(index) : node.name();
  };
  for (TokenChain& chain : token_chains(proto)) {
    std::set<const onnx::NodeProto*> members(chain.token_nodes.begin(), chain.token_nodes.end());
    members.insert(chain.counts);
    bool is_of_others = false;  // a plugin has one of the nodes, or they have slots
    for (int i = 0; i < nodes.size(); ++i) {
      if (!members.contains(&nodes[i])) continue;
      is_of_others |= declared.declares(nodes[i]) || (options.placements && options.placements->of_node(name_of(i), nodes[i].op_type()));
    }
    if (is_of_others) continue;
    postponed.insert(chain.token_nodes.begin(), chain.token_nodes.end());
    chains[chain.counts] = std::move(chain);
  }
  auto translate_one = [&](int index) {
    const onnx::NodeProto& node = nodes[index];
    const std::string name = name_of(index);
    bool is_assumed = false, is_unknown = !declared.is_known(node), is_done = false;
    for (const std::string& input : node.input()) {
      auto it = graph.operands.find(input);
      if (input.empty() || it == graph.operands.end()) continue;
      is_assumed |= it->second.is_assumed;
      is_unknown |= it->second.is_unknown;
    }
    if (!is_unknown) {
      llvm::SaveAndRestore<bool> learns(meanings.is_complete, meanings.is_complete || is_assumed);
      try {
        translate_node(graph, node, name, declared, options.placements, parts);
        is_done = graph.unsupported.empty();
      } catch (const Failure& failure) {
        const bool is_certain = !is_assumed || !failure.element_type.empty();
        const bool is_noted = failure.code == HEDDLE_STATUS_UNIMPLEMENTED && !failure.cause.empty();
        if (!is_noted && unsupported.empty() && graph.unsupported.empty()) throw;
        if (is_noted && is_certain && graph.unsupported.empty()) unsupported.add(node, failure);
      }
      for (const Failure& failure : graph.unsupported) unsupported.add(node, failure);
      graph.unsupported.clear();
      graph.expected.clear();
    }
    if (is_unknown && declared.is_known(node)) note_refused_types(graph, node, unsupported);
    if (is_done && !is_assumed) return;
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      auto known = graph.operands.find(output);
      if (known == graph.operands.end())
        known = graph.operands.emplace(output, assumed_operand(graph, declared.said_type(output), options)).first;
      known->second.is_assumed = true;
    }
  };
  for (int i = 0; i < nodes.size(); ++i) {
    if (postponed.contains(&nodes[i])) continue;
    if (const auto chain = chains.find(&nodes[i]); chain != chains.end()) {
      if (unsupported.empty() && translate_chain(graph, chain->second, name_of(i))) continue;
      for (int j = 0; j < i; ++j) {
        if (llvm::is_contained(chain->second.token_nodes, &nodes[j])) translate_one(j);
      }
    }
    translate_one(i);
  }
}

// The first node that reads each value, also of graphs in attributes.
void note_readers(const onnx::GraphProto& proto, std::map<std::string_view, const onnx::NodeProto*>& readers) {
  for (const auto& node : proto.node()) {
    for (const std::string& input : node.input()) readers.try_emplace(input, &node);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) note_readers(attribute.g(), readers);
    }
  }
}

// The stored tensors of a graph, as operands. Returns their names.
std::set<std::string> import_initializers(Graph& graph, const onnx::GraphProto& proto, Unsupported& unsupported) {
  std::set<std::string> initialized;
  std::map<std::string_view, const onnx::NodeProto*> readers;
  if (proto.initializer_size() != 0) note_readers(proto, readers);
  for (const auto& tensor : proto.initializer()) {
    const auto known = readers.find(tensor.name());
    const std::string reader = known == readers.end() ? "" : described(*known->second, graph.file->version_for(*known->second));
    const std::string who = "initializer '" + tensor.name() + "'" + (reader.empty() ? "" : " of " + reader);
    if (!initialized.insert(tensor.name()).second)
      throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + who + " failed: it is defined twice"};
    if (tensor.data_type() == onnx::TensorProto::STRING) {
      Operand& operand = graph.operands[tensor.name()];
      operand.refused_type = tensor.data_type();
      operand.value = text_constant(graph.builder, tensor, who, NameLoc::get(graph.builder.getStringAttr(tensor.name())));
      continue;
    }
    if (!is_element_type(tensor.data_type()) &&
        !is_compound(tensor.data_type())) {  // refused where it is read, so that the error also names the node
      graph.operands[tensor.name()].refused_type = tensor.data_type();
      continue;
    }
    Location location = NameLoc::get(graph.builder.getStringAttr(tensor.name()));
    graph.operands[tensor.name()] = graph.import_tensor(tensor, tensor.name(), location, /*is_attribute=*/false, reader);
  }
  for (const auto& tensor : proto.sparse_initializer()) {
    unsupported.add_sparse(tensor.values().name());
    graph.operands[tensor.values().name()].is_unknown = true;
    initialized.insert(tensor.values().name());
  }
  return initialized;
}

// Of all functions: parts of the model have the symbols of the whole.
void describe_symbols(ModuleOp module, const Symbols& symbols) {
  Builder builder(module.getContext());
  SmallVector<Attribute> names;
  for (const std::string& name : symbols.names()) names.push_back(builder.getStringAttr(name));
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!names.empty()) function->setAttr(tx::symbols_attr, builder.getArrayAttr(names));
    if (ArrayAttr definitions = symbols.definitions()) function->setAttr(tx::defined_symbols_attr, definitions);
  }
}

// What was stated of sequences and optionals has to be what they are.
void check_stated_forms(const Graph& graph) {
  for (const auto& [name, operand] : graph.operands) {
    auto fail = [&, &name = name, &operand = operand](const std::string& stated) {
      throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: compiling the model for '" + name + "=" + stated + "' failed: it is " +
                                                        kind_of(operand) + " in each call; correct the specialization"};
    };
    if (operand.sequence) {
      const std::optional<int64_t> length = graph.stated_length(name);
      if (length && *length != operand.sequence->length) fail(std::to_string(*length));
    }
    if (operand.optional != Optional::kNo) {
      const std::optional<bool> presence = graph.stated_presence(name);
      if (presence && *presence != (operand.optional == Optional::kPresent)) fail(*presence ? "present" : "absent");
    }
  }
}

OwningOpRef<ModuleOp> import_graph(std::shared_ptr<OnnxFile> file, MLIRContext& context, tx::ParameterStore& parameters, Meanings& meanings,
                                   const ImportOptions& options, Unsupported& unsupported) {
  const onnx::GraphProto& proto = file->model.graph();
  DeclaredOperators declared(*file, options);
  declared.note_unknown(proto, unsupported);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = builder.create<func::FuncOp>(module->getLoc(), "main", builder.getFunctionType({}, {}));
  Block* block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  Graph graph(builder, parameters, meanings, file, options.all_weights, options.files);
  graph.specializations = options.specializations;

  Parts parts;
  parts.translate = [&](const onnx::GraphProto& part) {
    llvm::SaveAndRestore<int64_t> opset(graph.opset);  // a function in the part may import another one
    import_initializers(graph, part, unsupported);
    translate_nodes(graph, part, declared, options, meanings, unsupported, parts);
    // Noted already; what follows in the model is looked at without it.
    if (!unsupported.empty()) throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing '" + part.name() + "' failed"};
  };

  const std::set<std::string> initialized = import_initializers(graph, proto, unsupported);
  check_defaults(proto);
  Arguments arguments(graph, block, options);
  for (const auto& input : proto.input()) {
    if (initialized.contains(input.name())) continue;  // a constant with a default is a constant
    Operand operand;
    try {
      operand = arguments.add(input);
    } catch (const Failure& failure) {
      if (failure.element_type.empty()) throw;
      unsupported.add_input(input.name(), failure);
      Operand& refused = graph.operands[input.name()];
      if (const onnx::TypeProto_Tensor* tensor = tensor_in(input.type())) {
        refused.refused_type = tensor->elem_type();
      } else {
        refused.is_unknown = true;
      }
      continue;
    }
    if (!graph.operands.try_emplace(input.name(), std::move(operand)).second) {
      throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing input '" + input.name() + "' failed: it is defined twice"};
    }
  }
  translate_nodes(graph, proto, declared, options, meanings, unsupported, parts);
  if (!unsupported.empty()) unsupported.fail();
  check_values(proto, graph);
  if (options.warnings) *options.warnings = contradicted_shapes(proto, graph);

  SmallVector<Value> results;
  std::vector<std::pair<std::string, std::string>> result_names;  // of a result, and of the output that it belongs to
  std::set<std::string> known_names;
  onnx::NodeProto end;
  for (const auto& output : proto.output()) *end.add_input() = output.name();
  end.set_op_type(outputs_operator);
  Node outputs(graph, end, module->getLoc());
  for (int i = 0; i < proto.output_size(); ++i) {
    const std::string& name = proto.output(i).name();
    const Operand& value = outputs.any_operand(i);
    if (value.is_tensor()) check_output(proto.output(i), outputs, value);
    if (value.map)
      outputs.fail("output '" + name + "' is a map, and only DictVectorizer and CastMap read maps; leave it out",
                   HEDDLE_STATUS_UNIMPLEMENTED);
    llvm::append_range(results, tensors_of(outputs, value));
    const size_t first = result_names.size();
    while (result_names.size() < results.size()) {
      std::string own = value.sequence ? element_name(name, result_names.size() - first) : name;
      if (!known_names.insert(own).second) {
        if (!value.sequence) outputs.fail("two outputs are both '" + name + "'; rename one of them");
        outputs.fail("element " + std::to_string(result_names.size() - first) + " of '" + name + "' and another output are both '" + own +
                     "'; rename one of them");
      }
      result_names.emplace_back(std::move(own), name);
    }
  }
  check_stated_forms(graph);
  if (graph.calls) results.push_back(next_calls(graph, graph.calls.getLoc()));
  if (!graph.checks.empty()) function->setAttr(tx::checks_attr, describe_checks(graph, results));
  SmallVector<Type> argument_types, result_types;
  for (const auto& argument : arguments.all()) argument_types.push_back(argument.type);
  if (graph.calls) argument_types.push_back(graph.calls.getType());
  for (Value result : results) result_types.push_back(result.getType());
  builder.create<func::ReturnOp>(module->getLoc(), results);

  function.setFunctionType(builder.getFunctionType(argument_types, result_types));
  for (const auto& [i, argument] : llvm::enumerate(arguments.all())) {
    const Placements::Rule* rule = options.placements ? options.placements->of_input(argument.input) : nullptr;
    const auto index = static_cast<unsigned>(i);
    if (rule) function.setArgAttr(index, tx::affinity_attr, builder.getStringAttr(rule->slot));
    function.setArgAttr(index, tx::name_attr, builder.getStringAttr(argument.name));
  }
  for (const auto& [i, names] : llvm::enumerate(result_names)) {
    const Placements::Rule* rule = options.placements ? options.placements->of_output(names.second) : nullptr;
    const auto index = static_cast<unsigned>(i);
    if (rule) function.setResultAttr(index, tx::affinity_attr, builder.getStringAttr(rule->slot));
    function.setResultAttr(index, tx::name_attr, builder.getStringAttr(names.first));
  }
  if (graph.calls) {
    const auto argument = static_cast<unsigned>(arguments.all().size()), result = static_cast<unsigned>(result_names.size());
    function.setArgAttr(argument, tx::state_attr, builder.getUnitAttr());
    function.setArgAttr(argument, tx::alias_attr, builder.getI64IntegerAttr(result));
    function.setArgAttr(argument, tx::name_attr, builder.getStringAttr(calls_name));
    function.setResultAttr(result, tx::name_attr, builder.getStringAttr(calls_name));
  }
  describe_symbols(*module, graph.symbols);
  if (ArrayAttr checks = graph.symbols.extent_checks()) function->setAttr(tx::extent_checks_attr, checks);
  return module;
}

// The names of all tensors that the model stores: initializers and Constant nodes, if their value is a tensor.
std::vector<std::string> stored_tensors(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& tensor : graph.initializer()) names.push_back(tensor.name());
  for (const auto& node : graph.node()) {
    if (node.op_type() != "Constant" || node.output_size() == 0 || !is_of_own_domain(node)) continue;
    const bool is_tensor = llvm::any_of(node.attribute(), [](const auto& attribute) { return attribute.name() == "value"; });
    if (is_tensor) names.push_back(node.output(0));
  }
  return names;
}

// The metadata "heddle.donate.INPUT" = true or false, "heddle.alias.INPUT" = OUTPUT and "heddle.state.INPUT" = OUTPUT.
void note_donations(const onnx::ModelProto& model, std::vector<std::string>& donations, std::vector<std::string>& states) {
  for (const auto& entry : model.metadata_props()) {
    llvm::StringRef key = entry.key();
    if (key.consume_front("heddle.donate.")) {
      const llvm::StringRef value = entry.value();
      if (value != "false" && value != "0") donations.push_back(key.str());
      if (!value.empty() && value != "true" && value != "1" && value != "false" && value != "0") {
        throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: reading the metadata 'heddle.donate." + key.str() +
                                                          "' failed: its value is '" + value.str() +
                                                          "'; it has to be true, 1 or empty, or false or 0"};
      }
    }
    if (key.consume_front("heddle.alias.")) donations.push_back((key + "=" + entry.value()).str());
    if (key.consume_front("heddle.state.")) states.push_back((key + "=" + entry.value()).str());
  }
}

OwningOpRef<ModuleOp> import_model(const std::shared_ptr<OnnxFile>& file, MLIRContext& context, tx::ParameterStore& parameters,
                                   Meanings& meanings, const ImportOptions& options) {
  check_names(file->model.graph());
  Unsupported unsupported(static_cast<size_t>(file->model.graph().node_size()), *file);
  try {
    return import_graph(file, context, parameters, meanings, options, unsupported);
  } catch (const Failure&) {  // the failure that ended the pass matters less than the unsupported features found before
    if (!unsupported.empty()) unsupported.fail();
    throw;
  }
}

}  // namespace

std::vector<std::string> supported_operators() {
  std::vector<std::string> names;
  std::vector<const Table*> all = tables();
  llvm::append_range(all, learning_tables());
  for (const Table* table : all) {
    for (const auto& [name, translate] : *table) names.push_back(name);
  }
  for (const auto& [name, translate] : training_operators()) names.push_back(name);
  names.insert(names.end(), {"FlexAttention", "GRU", "If", "LSTM", "Loop", "RNN", regex_operator, "Scan", "SequenceMap"});
  llvm::append_range(names, operators_with_bodies());
  names.push_back(std::string(microsoft_domain) + "." + tokenizer_operator);
  llvm::append_range(names, microsoft_operators());
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

OwningOpRef<ModuleOp> import_onnx(const std::string& path, MLIRContext& context, tx::ParameterStore& parameters, ImportError& error,
                                  const ImportOptions& options) {
  try {
    std::shared_ptr<OnnxFile> file = read_onnx_file(path);
    check_opsets(file->opsets, "the model");
    DeclaredOperators declared(*file, options);
    std::set<std::pair<std::string, std::string>> functions;
    for (const auto& function : file->model.functions()) functions.emplace(domain_key(function.domain()), function.name());
    check_schemas(*file, [&](const onnx::NodeProto& node) {
      const std::string domain = domain_key(node.domain());
      if (!domain.empty() && declared.declares(node)) return false;
      return !functions.contains({domain, node.op_type()}) || declared.is_known(node);
    });
    inline_functions(*file, [&](const onnx::NodeProto& node) { return declared.is_known(node); });
    if (options.files) {
      if (auto wrong = options.files->resolve(stored_tensors(file->model.graph()), options.parameter_names)) {
        error = {wrong->code, printable(wrong->message)};
        return {};
      }
    }
    Meanings meanings;
    for (int imports = 1;; ++imports) {
      const size_t known = meanings.size();
      meanings.is_complete = imports >= most_imports;
      if (options.files) options.files->begin_import();
      try {
        OwningOpRef<ModuleOp> module = import_model(file, context, parameters, meanings, options);
        if (meanings.size() == known) {
          if (options.donations && options.states) note_donations(file->model, *options.donations, *options.states);
          if (auto wrong = options.files ? options.files->check_use() : std::nullopt) throw Failure{wrong->code, wrong->message};
          return module;
        }
      } catch (const Failure&) {
        if (meanings.size() == known) throw;
      }
      parameters.clear();
    }
  } catch (const Failure& failure) {
    // The model itself is wrong, and nothing more specific helps.
    const bool needs_step = failure.code == HEDDLE_STATUS_INVALID_ARGUMENT && failure.message.find("; ") == std::string::npos;
    error = {failure.code, printable(failure.message, failure.is_list ? largest_list_bytes : largest_message_bytes)};
    if (needs_step) error.message += "; correct the model, or export it again";
  } catch (const std::bad_alloc&) {
    error = {HEDDLE_STATUS_RESOURCE_EXHAUSTED, "onnx: importing '" + path + "' failed: out of memory; free memory"};
  } catch (const std::exception& failure) {
    error = {HEDDLE_STATUS_INTERNAL, std::string("onnx: importing '") + path + "' failed: " + failure.what()};
  }
  return {};
}

}  // namespace heddle::import
