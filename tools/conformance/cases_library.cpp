// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of library plugins: their answers to requests.
#include <cstring>

#include "library_session.h"

namespace heddle::conformance {
namespace {

// Any request: one that the plugin accepts, or one that no plugin accepts.
OperatorRequest any_request() {
  if (!settings().requests.empty()) return settings().requests.front();
  OperatorRequest request;
  request.domain = "org.example.nobody";
  request.name = "Nothing";
  request.operands.assign(2, {HEDDLE_TYPE_F32, {4}, 0, 1});
  request.input_count = 1;
  return request;
}

// query and prepare of a request that must be refused; *out_message is the message of query.
void expect_unimplemented(const Instance& instance, const Request& request, const std::string& what, std::string* out_message = nullptr) {
  heddle_operation_properties_t properties = {};
  properties.struct_size = sizeof properties;
  Result queried(api(instance).query(instance.handle, &request.c, &properties));
  heddle_operation_t* made = nullptr;
  Result prepared(api(instance).prepare(instance.handle, &request.c, &made));
  api(instance).destroy(made);
  CHECK(queried.code() == HEDDLE_STATUS_UNIMPLEMENTED, "query of %s with %s returned %s; UNIMPLEMENTED was expected [HD-O-01]",
        request.name().c_str(), what.c_str(), queried.text().c_str());
  CHECK(prepared.code() == HEDDLE_STATUS_UNIMPLEMENTED,
        "prepare of %s with %s returned %s; UNIMPLEMENTED was expected, as from query [HD-O-02]", request.name().c_str(), what.c_str(),
        prepared.text().c_str());
  if (out_message) *out_message = queried.message();
}

void unknown_operators() {
  Instance instance;
  auto refused = [&](const OperatorRequest& wanted) {
    Request request(wanted);
    heddle_operation_properties_t properties = {};
    properties.struct_size = sizeof properties;
    EXPECT_CODE(api(instance).query(instance.handle, &request.c, &properties), HEDDLE_STATUS_NOT_FOUND);
    CHECK(properties.workspace_bytes == 0 && properties.shard_count == 0, "query refused %s, but reported its needs",
          request.name().c_str());
    heddle_operation_t* operation = nullptr;
    EXPECT_CODE(api(instance).prepare(instance.handle, &request.c, &operation), HEDDLE_STATUS_NOT_FOUND);
  };
  for (auto change : {+[](OperatorRequest& r) { r.domain += ".nobody"; }, +[](OperatorRequest& r) { r.name += "Nothing"; },
                      +[](OperatorRequest& r) { r.version += 1000000; }}) {
    OperatorRequest wanted = any_request();
    change(wanted);
    refused(wanted);
  }
}

void other_targets() {
  Instance instance;
  each_request([&](Request& request) {
    request.c.target = string_of("nowhere/1");
    expect_unimplemented(instance, request, "target nowhere/1");
  });
}

const char kNobody[] = "zzzz_nobody";  // sorted after all others in a record
heddle_attribute_t nobodys_attribute() {
  static const int64_t one = 1;
  return {sizeof(heddle_attribute_t), HEDDLE_ATTRIBUTE_INT, string_of(kNobody), 1, &one, nullptr, {nullptr, 0}};
}

void unknown_attributes() {
  Instance instance;
  each_request([&](Request& request) {
    request.attributes.push_back(nobodys_attribute());
    request.refresh();
    std::string message;
    expect_unimplemented(instance, request, "an unknown attribute", &message);
    CHECK(message.find(kNobody) != std::string::npos, "the refusal does not name the attribute: %s", message.c_str());
  });
}

// The same value in another kind, if it has one: a plugin that only looks for its own kind would consider it missing.
OperatorRequest::Attribute of_another_kind(const OperatorRequest::Attribute& from) {
  const double value = !from.floats.empty() ? from.floats[0] : !from.ints.empty() ? static_cast<double>(from.ints[0]) : 1;
  const bool to_float = from.kind == HEDDLE_ATTRIBUTE_INT;
  OperatorRequest::Attribute to = {from.name, to_float ? HEDDLE_ATTRIBUTE_FLOAT : HEDDLE_ATTRIBUTE_INT, {}, {}, {}};
  if (to_float) to.floats = {value};
  if (!to_float) to.ints = {static_cast<int64_t>(value)};
  return to;
}

void kinds_of_attributes() {
  Instance instance;
  bool has_some = false;
  each_request([&](Request& request) {
    for (size_t i = 0; i < request.attributes.size(); ++i) {
      has_some = true;
      OperatorRequest changed = request.source();
      const std::string name = changed.attributes[i].name;
      changed.attributes[i] = of_another_kind(changed.attributes[i]);
      std::string message;
      expect_unimplemented(instance, Request(changed), "attribute " + shown(name) + " of another kind", &message);
      CHECK(message.empty() || message.find(name) != std::string::npos, "the refusal does not name attribute %s: %s", shown(name).c_str(),
            message.c_str());
    }
  });
  if (!has_some) absent("none of its requests has an attribute");
}

const OperatorRule* rule_of(const OperatorRequest& request) {
  for (const OperatorRule& rule : settings().rules) {
    const bool same = rule.domain == request.domain && rule.name == request.name && rule.version == request.version;
    if (same && rule.outputs.size() == request.operands.size() - request.input_count && request.input_count <= rule.most_inputs)
      return &rule;
  }
  return nullptr;
}

// Requests that the manifest's rule excludes, as a damaged module could make them: a plugin that accepts one reads or writes outside of its operands.
void other_shapes() {
  Instance instance;
  bool is_said = false;
  each_request([&](Request& request) {
    const OperatorRule* rule = rule_of(request.source());
    if (!rule) return;
    is_said = true;
    auto refused = [&](const std::string& what, auto change) {
      OperatorRequest changed = request.source();
      change(&changed);
      expect_unimplemented(instance, Request(changed), what);
    };
    const uint32_t inputs = request.source().input_count;
    for (size_t i = 0; i < rule->outputs.size(); ++i) {
      const std::string output = "output " + std::to_string(i);
      const size_t at = inputs + i;
      if (rule->outputs[i].says_type) {
        refused(output + " of another element type",
                [&](auto* r) { r->operands[at].type = r->operands[at].type == HEDDLE_TYPE_F64 ? HEDDLE_TYPE_F32 : HEDDLE_TYPE_F64; });
      }
      if (!rule->outputs[i].says_dims) continue;
      refused(output + " of one dimension more", [&](auto* r) { r->operands[at].dims.push_back(2); });
      for (size_t k = 0; k < request.source().operands[at].dims.size(); ++k) {
        const std::string extent = "extent " + std::to_string(k) + " of " + output;
        refused(extent + " one larger", [&](auto* r) { ++r->operands[at].dims[k]; });
        if (request.source().operands[at].dims[k] > 0) refused(extent + " one smaller", [&](auto* r) { --r->operands[at].dims[k]; });
      }
    }
    refused("one output more", [](auto* r) { r->operands.push_back(r->operands.back()); });
    if (rule->outputs.size() > 1) refused("one output less", [](auto* r) { r->operands.pop_back(); });
    if (inputs == rule->most_inputs) {
      refused("one input more", [&](auto* r) {
        r->operands.insert(r->operands.begin() + inputs,
                           inputs ? r->operands[inputs - 1] : OperatorRequest::Operand{HEDDLE_TYPE_F32, {4}, 0, 1});
        ++r->input_count;
      });
    }
    if (inputs && inputs == rule->least_inputs) {
      refused("one input less", [&](auto* r) {
        r->operands.erase(r->operands.begin() + inputs - 1);
        --r->input_count;
      });
    }
  });
  if (!is_said) absent("no [[operator]] of its manifest declares the inputs and outputs of a [[request]]");
}

void properties_make_sense() {
  Instance instance;
  each_request([&](Request& request) {
    const heddle_operation_properties_t properties = query(instance, request), again = query(instance, request);
    const uint64_t alignment = properties.workspace_alignment_bytes;
    CHECK((alignment & (alignment - 1)) == 0 && alignment <= 4096, "%s: workspace alignment %llu is not a power of two up to 4096",
          request.name().c_str(), number(alignment));
    CHECK(properties.shard_count <= 1u << 20, "%s: %u shards", request.name().c_str(), properties.shard_count);
    CHECK(std::memcmp(&properties, &again, sizeof again) == 0, "%s: query returns a different answer the second time [HD-O-02]",
          request.name().c_str());
  });
}

void sizes_of_structs() {
  Instance instance;
  each_request([&](Request& request) {
    struct {
      heddle_operation_properties_t properties;
      char behind[64];
    } memory;
    std::memset(&memory, 0x77, sizeof memory);
    memory.properties.struct_size = 8;
    EXPECT_OK(api(instance).query(instance.handle, &request.c, &memory.properties));
    for (size_t i = 8; i < sizeof memory; ++i) {
      REQUIRE(reinterpret_cast<char*>(&memory)[i] == 0x77, "with properties of 8 bytes query wrote byte %zu [HD-E-04]", i);
    }
    // A newer host: larger structs, whose end this plugin does not know.
    struct Larger {
      heddle_operation_request_t request;
      uint64_t tail[kTailWords];
    } larger = {request.c, {}};
    struct LargerOperand {
      heddle_operand_t operand;
      uint64_t tail[kTailWords];
    };
    struct LargerAttribute {
      heddle_attribute_t attribute;
      uint64_t tail[kTailWords];
    };
    std::vector<LargerOperand> operands;
    for (const heddle_operand_t& each : request.operands) {
      operands.push_back({each, {}});
      operands.back().operand.struct_size = sizeof(LargerOperand);
    }
    std::vector<LargerAttribute> attributes;
    auto add = [&](const heddle_attribute_t& attribute) {
      attributes.push_back({attribute, {}});
      attributes.back().attribute.struct_size = sizeof(LargerAttribute);
      larger.request.attributes = &attributes.data()->attribute;
      larger.request.attribute_count = static_cast<uint32_t>(attributes.size());
    };
    for (const heddle_attribute_t& each : request.attributes) add(each);
    larger.request.struct_size = sizeof larger;
    larger.request.operands = &operands.data()->operand;
    larger.request.operand_stride = sizeof(LargerOperand);
    larger.request.attribute_stride = sizeof(LargerAttribute);
    heddle_operation_properties_t properties = {};
    properties.struct_size = sizeof properties;
    EXPECT_OK(api(instance).query(instance.handle, &larger.request, &properties));
    for (uint64_t* tail :
         {larger.tail, operands.empty() ? nullptr : operands.back().tail, attributes.empty() ? nullptr : attributes.back().tail}) {
      if (!tail) continue;
      tail[kTailWords - 1] = 1;  // far beyond what the next minors add
      EXPECT_CODE(api(instance).query(instance.handle, &larger.request, &properties), HEDDLE_STATUS_INVALID_ARGUMENT);
      tail[kTailWords - 1] = 0;
    }
    // The last of several, located by the stride.
    add(nobodys_attribute());
    Result unknown(api(instance).query(instance.handle, &larger.request, &properties));
    CHECK(unknown.code() == HEDDLE_STATUS_UNIMPLEMENTED && unknown.message().find(kNobody) != std::string::npos,
          "with attributes of %zu bytes query does not read the last of them, '%s': %s [HD-E-04]", sizeof(LargerAttribute), kNobody,
          unknown.text().c_str());
  });
}

}  // namespace

void add_library_cases(Cases* out) {
  out->insert(
      out->end(),
      {{"library.unknown_operator", "an unknown operator is NOT_FOUND", unknown_operators, Kind::kLibrary},
       {"library.other_target", "an unknown target is UNIMPLEMENTED", other_targets, Kind::kLibrary},
       {"library.unknown_attribute", "an unknown attribute is UNIMPLEMENTED, and named", unknown_attributes, Kind::kLibrary},
       {"library.attribute_kinds", "an attribute of a kind that it does not accept is UNIMPLEMENTED, and named", kinds_of_attributes,
        Kind::kLibrary},
       {"library.other_shapes", "operands that its [[operator]] excludes are UNIMPLEMENTED: types, extents, numbers of them", other_shapes,
        Kind::kLibrary},
       {"library.properties", "query reports a valid workspace and shard count, the same each time", properties_make_sense, Kind::kLibrary},
       {"library.structs", "requests of a newer host are understood, and no output is overrun", sizes_of_structs, Kind::kLibrary}});
}

}  // namespace heddle::conformance
