// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of library plugins: what they answer, and what their operations do to memory. Which requests they take is said in
// conformance/operators.toml beside the manifest; operations for "host/1" are run on the kit's own threads, as a driver would.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "session.h"

namespace heddle::conformance {
namespace {

constexpr size_t kGuardBytes = 256;

const heddle_library_interface_t& api(const Instance& instance) {
  return instance.tables.library;
}

// A request in C, over one of operators.toml.
class Request {
 public:
  explicit Request(const OperatorRequest& from) : from_(from) {
    for (const OperatorRequest::Attribute& each : from_.attributes) {
      heddle_attribute_t& to = attributes.emplace_back();
      to = {sizeof to, each.kind, string_of(each.name), each.ints.size() + each.floats.size(), nullptr, nullptr, string_of(each.text)};
      if (!each.ints.empty()) to.ints = each.ints.data();
      if (!each.floats.empty()) to.floats = each.floats.data();
    }
    for (const OperatorRequest::Operand& each : from_.operands) {
      operands.push_back({sizeof(heddle_operand_t), each.type, static_cast<uint32_t>(each.dims.size()), 0, each.dims.data()});
    }
    c.struct_size = sizeof c;
    c.version = from_.version;
    c.domain = string_of(from_.domain);
    c.name = string_of(from_.name);
    c.target = string_of(HEDDLE_LIBRARY_TARGET_HOST);
    c.family = string_of("cpu");
    c.compute_units = 4;
    refresh();
    c.attribute_stride = sizeof(heddle_attribute_t);
    c.operand_stride = sizeof(heddle_operand_t);
    c.input_count = from_.input_count;
    c.output_count = static_cast<uint32_t>(from_.operands.size()) - from_.input_count;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  // After the vectors were changed.
  void refresh() {
    c.attribute_count = static_cast<uint32_t>(attributes.size());
    c.attributes = attributes.data();
    c.operands = operands.data();
  }
  std::string name() const { return from_.domain + "::" + from_.name + "/" + std::to_string(from_.version); }
  const OperatorRequest& source() const { return from_; }
  bool is_output(size_t operand) const { return operand >= from_.input_count; }

  heddle_operation_request_t c = {};
  std::vector<heddle_attribute_t> attributes;
  std::vector<heddle_operand_t> operands;

 private:
  const OperatorRequest from_;
};

void each_request(const std::function<void(Request&)>& body) {
  if (settings().requests.empty()) absent("there is no conformance/operators.toml with a [[request]] that it takes");
  for (const OperatorRequest& each : settings().requests) {
    Request request(each);
    body(request);
  }
}

// Any request: one that the plugin takes, or one that nobody does.
OperatorRequest any_request() {
  if (!settings().requests.empty()) return settings().requests.front();
  OperatorRequest request;
  request.domain = "org.example.nobody";
  request.name = "Nothing";
  request.operands.assign(2, {HEDDLE_TYPE_F32, {4}, 0, 1});
  request.input_count = 1;
  return request;
}

heddle_operation_properties_t query(const Instance& instance, const Request& request) {
  heddle_operation_properties_t properties = {};
  properties.struct_size = sizeof properties;
  Result status(api(instance).query(instance.handle, &request.c, &properties));
  REQUIRE(status.ok(), "query of %s gave %s, and operators.toml says that it takes it", request.name().c_str(), status.text().c_str());
  return properties;
}

// Query and prepare of what must be refused; *out_message is what query said.
void expect_unimplemented(const Instance& instance, const Request& request, const std::string& what, std::string* out_message = nullptr) {
  heddle_operation_properties_t properties = {};
  properties.struct_size = sizeof properties;
  Result queried(api(instance).query(instance.handle, &request.c, &properties));
  heddle_operation_t* made = nullptr;
  Result prepared(api(instance).prepare(instance.handle, &request.c, &made));
  api(instance).destroy(made);
  CHECK(queried.code() == HEDDLE_STATUS_UNIMPLEMENTED, "query of %s with %s gave %s; UNIMPLEMENTED was expected [HD-O-01]",
        request.name().c_str(), what.c_str(), queried.text().c_str());
  CHECK(prepared.code() == HEDDLE_STATUS_UNIMPLEMENTED, "prepare of %s with %s gave %s; UNIMPLEMENTED was expected, as of query [HD-O-02]",
        request.name().c_str(), what.c_str(), prepared.text().c_str());
  if (out_message) *out_message = queried.message();
}

class Operation {
 public:
  Operation(Instance* instance, const Request& request) : instance_(*instance), properties(query(*instance, request)) {
    Result status(api(instance_).prepare(instance_.handle, &request.c, &handle));
    REQUIRE(status.ok() && handle, "prepare of %s gave %s", request.name().c_str(), status.text().c_str());
  }
  ~Operation() { api(instance_).destroy(handle); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  uint64_t shards() const { return std::max(properties.shard_count, 1u); }

  heddle_operation_t* handle = nullptr;

 private:
  Instance& instance_;

 public:
  heddle_operation_properties_t properties;
};

// Operands and workspace of one call, each with guards on both sides.
class Memory {
 public:
  Memory(const Request& request, const heddle_operation_properties_t& properties, char rubbish) : request_(request), rubbish_(rubbish) {
    for (const OperatorRequest::Operand& each : request.source().operands) {
      uint64_t bits = HEDDLE_TYPE_BITS(each.type);
      for (int64_t extent : each.dims) bits *= static_cast<uint64_t>(extent);
      add((bits + 7) / 8, 64);
    }
    const uint64_t alignment = properties.workspace_alignment_bytes ? properties.workspace_alignment_bytes : 64;
    workspace_ = properties.workspace_bytes ? add(properties.workspace_bytes, alignment) : nullptr;
    workspace_bytes_ = properties.workspace_bytes;
  }

  // The same inputs for every memory with the seed.
  void fill_inputs(uint64_t seed) {
    std::mt19937_64 numbers(seed);
    for (uint32_t i = 0; i < request_.source().input_count; ++i) {
      const OperatorRequest::Operand& operand = request_.source().operands[i];
      const uint64_t count = lengths_[i] * 8 / HEDDLE_TYPE_BITS(operand.type);
      for (uint64_t k = 0; k < count; ++k) {
        const double unit = static_cast<double>(numbers() >> 11) * 0x1p-53;
        set(operand, pointers_[i], k, operand.low + (operand.high - operand.low) * unit);
      }
    }
    inputs_ = contents(false);
  }

  heddle_operation_call_t call(uint64_t first, uint64_t last) const {
    return {sizeof(heddle_operation_call_t),
            static_cast<uint32_t>(request_.source().operands.size()),
            pointers_.data(),
            lengths_.data(),
            workspace_,
            workspace_bytes_,
            first,
            last,
            0};
  }

  std::vector<char> contents(bool outputs) const {
    std::vector<char> bytes;
    for (size_t i = 0; i < request_.source().operands.size(); ++i) {
      const char* from = static_cast<const char*>(pointers_[i]);
      if (request_.is_output(i) == outputs) bytes.insert(bytes.end(), from, from + lengths_[i]);
    }
    return bytes;
  }

  void check(const char* when) const {
    CHECK(contents(false) == inputs_, "%s: %s wrote to its inputs [HD-O-03]", request_.name().c_str(), when);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const char* start = starts_[i];
      auto intact = [&](const char* from) { return std::all_of(from, from + kGuardBytes, [&](char c) { return c == rubbish_; }); };
      CHECK(intact(start - kGuardBytes) && intact(start + sizes_[i]), "%s: %s wrote beside %s %zu [HD-O-03]", request_.name().c_str(), when,
            i < pointers_.size() ? "operand" : "the workspace,", i);
    }
  }

 private:
  void* add(uint64_t size, uint64_t alignment) {
    blocks_.emplace_back(size + 2 * kGuardBytes + alignment, rubbish_);
    char* start = blocks_.back().data() + kGuardBytes;
    start += (alignment - reinterpret_cast<uintptr_t>(start) % alignment) % alignment;
    starts_.push_back(start);
    sizes_.push_back(size);
    if (pointers_.size() < request_.source().operands.size()) {
      pointers_.push_back(start);
      lengths_.push_back(size);
    }
    return start;
  }

  template <class T>
  static void put(void* to, uint64_t index, double value) {
    const T typed = static_cast<T>(value);
    std::memcpy(static_cast<char*>(to) + index * sizeof(T), &typed, sizeof typed);
  }
  static void set(const OperatorRequest::Operand& operand, void* to, uint64_t index, double value) {
    const auto bits_of_float = [&] {
      const float narrow = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &narrow, sizeof bits);
      return bits;
    };
    switch (operand.type) {
      case HEDDLE_TYPE_F32:
        return put<float>(to, index, value);
      case HEDDLE_TYPE_F64:
        return put<double>(to, index, value);
      case HEDDLE_TYPE_BF16:
        return put<uint16_t>(to, index, bits_of_float() >> 16);
      case HEDDLE_TYPE_F16: {  // of numbers that are normal there; others become 0
        const uint32_t bits = bits_of_float(), exponent = (bits >> 23) & 0xff;
        const uint32_t half = exponent > 112 && exponent < 143 ? ((exponent - 112) << 10) | ((bits >> 13) & 0x3ff) : 0;
        return put<uint16_t>(to, index, half | ((bits >> 16) & 0x8000));
      }
      case HEDDLE_TYPE_BOOL:
        return put<uint8_t>(to, index, value >= (operand.low + operand.high) / 2);
      default:
        break;
    }
    switch (HEDDLE_TYPE_BITS(operand.type)) {
      case 8:
        return put<uint8_t>(to, index, static_cast<uint8_t>(static_cast<int64_t>(value)));
      case 16:
        return put<uint16_t>(to, index, static_cast<uint16_t>(static_cast<int64_t>(value)));
      case 32:
        return put<int32_t>(to, index, static_cast<int32_t>(static_cast<int64_t>(value)));
      default:
        return put<int64_t>(to, index, value);
    }
  }

  const Request& request_;
  const char rubbish_;
  std::deque<std::vector<char>> blocks_;
  std::vector<char*> starts_;
  std::vector<uint64_t> sizes_;
  std::vector<void*> pointers_;
  std::vector<uint64_t> lengths_;
  void* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
  std::vector<char> inputs_;
};

void run(const Instance& instance, const Operation& operation, const Memory& memory, uint64_t first, uint64_t last) {
  const heddle_operation_call_t call = memory.call(first, last);
  EXPECT_OK(api(instance).enqueue(operation.handle, &call));
}

// What a call gives whose outputs and workspace held this before.
std::vector<char> result_of(const Instance& instance, const Request& request, const Operation& operation, char rubbish,
                            uint64_t inputs = 0) {
  Memory memory(request, operation.properties, rubbish);
  memory.fill_inputs(settings().seed + inputs);
  run(instance, operation, memory, 0, operation.shards());
  memory.check("enqueue");
  return memory.contents(true);
}

// ---------------------------------------------------------------------------------------------------------------- cases

void unknown_operators() {
  Instance instance;
  auto refused = [&](const OperatorRequest& wanted) {
    Request request(wanted);
    heddle_operation_properties_t properties = {};
    properties.struct_size = sizeof properties;
    EXPECT_CODE(api(instance).query(instance.handle, &request.c, &properties), HEDDLE_STATUS_NOT_FOUND);
    CHECK(properties.workspace_bytes == 0 && properties.shard_count == 0, "query refused %s and told what it needs",
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

const char kNobody[] = "zzzz_nobody";  // behind all others in a record
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
    expect_unimplemented(instance, request, "an attribute that nobody knows", &message);
    CHECK(message.find(kNobody) != std::string::npos, "the refusal does not name the attribute: %s", message.c_str());
  });
}

// The same value in another kind, as far as it has one: what a plugin that looks for its own kind alone would find missing.
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

// What the manifest's rule excludes, as a damaged module would ask for it: whoever takes it reads or writes beside its operands.
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
  if (!is_said) absent("no [[operator]] of its manifest says the inputs and outputs of a [[request]]");
}

void properties_make_sense() {
  Instance instance;
  each_request([&](Request& request) {
    const heddle_operation_properties_t properties = query(instance, request), again = query(instance, request);
    const uint64_t alignment = properties.workspace_alignment_bytes;
    CHECK((alignment & (alignment - 1)) == 0 && alignment <= 4096, "%s: workspace alignment %llu is no power of two up to 4096",
          request.name().c_str(), number(alignment));
    CHECK(properties.shard_count <= 1u << 20, "%s: %u shards", request.name().c_str(), properties.shard_count);
    CHECK(std::memcmp(&properties, &again, sizeof again) == 0, "%s: query gives another answer the second time [HD-O-02]",
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
    // A newer host: larger structs, of which this plugin does not know the end.
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
      tail[kTailWords - 1] = 1;  // far behind what the next minors know
      EXPECT_CODE(api(instance).query(instance.handle, &larger.request, &properties), HEDDLE_STATUS_INVALID_ARGUMENT);
      tail[kTailWords - 1] = 0;
    }
    // The last of several, found by the stride.
    add(nobodys_attribute());
    Result unknown(api(instance).query(instance.handle, &larger.request, &properties));
    CHECK(unknown.code() == HEDDLE_STATUS_UNIMPLEMENTED && unknown.message().find(kNobody) != std::string::npos,
          "with attributes of %zu bytes query does not read the last of them, '%s': %s [HD-E-04]", sizeof(LargerAttribute), kNobody,
          unknown.text().c_str());
  });
}

void results_repeat() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation first(&instance, request), second(&instance, request);
    const std::vector<char> result = result_of(instance, request, first, '\0');
    CHECK(result_of(instance, request, first, '\x5a') == result,
          "%s: the same inputs give other bytes the second time, or not all of the outputs is written [HD-O-03]", request.name().c_str());
    CHECK(result_of(instance, request, second, '\xff') == result, "%s: two operations for one request differ [HD-O-03]",
          request.name().c_str());
  });
}

uint64_t digest(const std::vector<char>& bytes) {
  uint64_t value = 0xcbf29ce484222325;  // FNV-1a
  for (char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return value;
}

// The digest of what a request gives in a process that never had another operation; none if it is UNIMPLEMENTED.
std::optional<uint64_t> digest_alone(const Request& request) {
  constexpr int kUnimplemented = 9;
  int ends[2];
  REQUIRE(pipe(ends) == 0, "making a pipe failed");
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0, "forking failed");
  if (child == 0) {
    alarm(20);
    Instance instance;
    heddle_operation_properties_t properties = {};
    properties.struct_size = sizeof properties;
    Result status(api(instance).query(instance.handle, &request.c, &properties));
    if (status.code() == HEDDLE_STATUS_UNIMPLEMENTED) _exit(kUnimplemented);
    const uint64_t value = digest(result_of(instance, request, Operation(&instance, request), '\0'));
    _exit(write(ends[1], &value, sizeof value) != sizeof value);
  }
  close(ends[1]);
  uint64_t value = 0;
  const bool told = read(ends[0], &value, sizeof value) == sizeof value;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUnimplemented) return std::nullopt;
  REQUIRE(told, "%s: a process of its own ended before it had a result", request.name().c_str());
  return value;
}

// Two nodes of a model are two operations of one operator, each with its own numbers.
void attributes_stay_with_their_operation() {
  struct Pair {
    Pair(const OperatorRequest& source, const OperatorRequest& changed) : one(source), other(changed) {}
    Request one, other;
    uint64_t other_alone = 0;
  };
  std::deque<Pair> pairs;
  for (const OperatorRequest& source : settings().requests) {  // before this process has loaded the plugin
    OperatorRequest changed = source;
    size_t numbers = 0;
    for (OperatorRequest::Attribute& attribute : changed.attributes) {
      for (double& each : attribute.floats) each = each * 0.75 + 0.375, ++numbers;
    }
    const std::optional<uint64_t> alone = numbers ? digest_alone(Request(changed)) : std::nullopt;
    if (alone) pairs.emplace_back(source, changed).other_alone = *alone;
  }
  if (pairs.empty()) absent("none of its requests has a number as attribute that may be another one");
  Instance instance;
  for (const Pair& pair : pairs) {
    const std::string name = pair.one.name();
    const Operation first(&instance, pair.one);
    const std::vector<char> result = result_of(instance, pair.one, first, '\0');
    {
      const Operation second(&instance, pair.other);
      const std::vector<char> others = result_of(instance, pair.other, second, '\0');
      CHECK(digest(others) == pair.other_alone,
            "%s: an operation gives other bytes than alone once there was one with other attributes [HD-E-06]", name.c_str());
      CHECK(result_of(instance, pair.one, first, '\0') == result,
            "%s: a second operation with other attributes changes what the first one gives [HD-O-03]", name.c_str());
      CHECK(result_of(instance, pair.other, second, '\0') == others, "%s: the first operation changes what the second one gives [HD-O-03]",
            name.c_str());
    }
    CHECK(result_of(instance, pair.one, first, '\0') == result, "%s: the end of one operation changes what another one gives [HD-O-03]",
          name.c_str());
  }
}

void shards_are_independent() {
  Instance instance;
  bool cut = false;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    if (operation.shards() < 2) return;
    cut = true;
    const std::vector<char> result = result_of(instance, request, operation, '\0');
    Memory backwards(request, operation.properties, '\x33'), at_once(request, operation.properties, '\x44');
    backwards.fill_inputs(settings().seed);
    for (uint64_t shard = operation.shards(); shard-- > 0;) run(instance, operation, backwards, shard, shard + 1);
    backwards.check("enqueue of single shards");
    CHECK(backwards.contents(true) == result, "%s: shards one by one, the last first, give other bytes [HD-O-03]", request.name().c_str());
    at_once.fill_inputs(settings().seed);
    std::vector<std::thread> threads;
    for (uint64_t part = 0; part < 4; ++part) {
      const uint64_t first = operation.shards() * part / 4, last = operation.shards() * (part + 1) / 4;
      threads.emplace_back([&, first, last] { run(instance, operation, at_once, first, last); });
    }
    for (std::thread& thread : threads) thread.join();
    at_once.check("enqueue of shards at once");
    CHECK(at_once.contents(true) == result, "%s: shards at once give other bytes [HD-O-03]", request.name().c_str());
  });
  if (!cut) absent("none of its requests is cut into shards");
}

void calls_at_once() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i, alone = result_of(instance, request, operation, '\0', i)] {
        for (int k = 0; k < 20; ++k) {
          if (result_of(instance, request, operation, static_cast<char>(i * 20 + k), i) != alone)
            fail("%s: calls of one operation at once disturb each other [HD-O-03]", request.name().c_str());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

void enqueue_takes_no_memory() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    result_of(instance, request, operation, '\0');
    const uint64_t allocations = instance.host.allocations();
    const uint64_t descriptors = count_descriptors(), threads = count_threads();
    for (int i = 0; i < 20; ++i) result_of(instance, request, operation, '\0');
    CHECK(instance.host.allocations() == allocations, "%s: enqueue takes memory of the host [HD-O-03]", request.name().c_str());
    CHECK(count_descriptors() <= descriptors && count_threads() <= threads, "%s: enqueue leaves descriptors or threads [HD-O-03]",
          request.name().c_str());
  });
}

void operations_leave_nothing() {
  Instance instance;
  each_request([&](Request& request) {
    const std::string what = "prepare and destroy of " + request.name();
    expect_no_growth(what.c_str(), 3000, uint64_t{10} * 1000000000, [&] { Operation(&instance, request); });
  });
}

void prepare_out_of_memory() {
  each_request([&](Request& request) {
    for (int after = 0; after < 20; ++after) {
      Instance instance;
      instance.host.fail_allocation(after);
      heddle_operation_t* operation = nullptr;
      Result status(api(instance).prepare(instance.handle, &request.c, &operation));
      if (!instance.host.has_failed_allocation()) {
        if (operation) api(instance).destroy(operation);
        return;
      }
      CHECK(status.ok() || status.code() == HEDDLE_STATUS_RESOURCE_EXHAUSTED, "%s: without memory prepare gave %s", request.name().c_str(),
            status.text().c_str());
      if (operation) api(instance).destroy(operation);
    }
  });
}

void shutdown_with_an_operation() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    Result status(plugin().table.shutdown(instance.handle));
    REQUIRE(status.code() == HEDDLE_STATUS_FAILED_PRECONDITION, "shutdown with a live operation gave %s [HD-L-01]", status.text().c_str());
    result_of(instance, request, operation, '\0');  // it changed nothing
  });
}

void forked_children_do_nothing() {
  Instance instance;
  each_request([&](Request& request) {
    const Operation operation(&instance, request);
    Memory memory(request, operation.properties, '\0');
    memory.fill_inputs(settings().seed);
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0, "forking failed");
    if (child == 0) {
      alarm(20);
      heddle_operation_t* made = nullptr;
      const heddle_operation_call_t call = memory.call(0, operation.shards());
      Result prepared(api(instance).prepare(instance.handle, &request.c, &made)), enqueued(api(instance).enqueue(operation.handle, &call));
      api(instance).destroy(operation.handle);
      _exit((prepared.code() != HEDDLE_STATUS_FAILED_PRECONDITION) + (enqueued.code() != HEDDLE_STATUS_FAILED_PRECONDITION));
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(!WIFSIGNALED(status), "a call in a forked child ended in %s [HD-T-01]", strsignal(WTERMSIG(status)));
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "%d of 2 calls in a forked child were not FAILED_PRECONDITION [HD-T-01]",
          WEXITSTATUS(status));
    result_of(instance, request, operation, '\0');
  });
}

void null_releases() {
  Instance instance;
  api(instance).destroy(nullptr);
}

}  // namespace

void add_library_cases(Cases* out) {
  constexpr Kind kLibrary = Kind::kLibrary;
  out->insert(
      out->end(),
      {{"library.unknown_operator", "an operator that it does not have is NOT_FOUND", unknown_operators, kLibrary},
       {"library.other_target", "a target that it does not know is UNIMPLEMENTED", other_targets, kLibrary},
       {"library.unknown_attribute", "an attribute that it does not know is UNIMPLEMENTED, and named", unknown_attributes, kLibrary},
       {"library.attribute_kinds", "an attribute of another kind than it takes is UNIMPLEMENTED, and named", kinds_of_attributes, kLibrary},
       {"library.other_shapes", "operands that its [[operator]] excludes are UNIMPLEMENTED: types, extents, numbers of them", other_shapes,
        kLibrary},
       {"library.properties", "query tells a workspace and shards that can be had, and the same each time", properties_make_sense,
        kLibrary},
       {"library.structs", "requests of a newer host are understood, and no more is written than fits", sizes_of_structs, kLibrary},
       {"library.repeatable", "the same inputs give the same bytes; all of the outputs, and nothing else, is written", results_repeat,
        kLibrary},
       {"library.attributes", "operations of one operator keep their own attributes", attributes_stay_with_their_operation, kLibrary, true},
       {"library.shards", "shards run in any order and at once", shards_are_independent, kLibrary},
       {"library.calls_at_once", "calls of one operation do not disturb each other", calls_at_once, kLibrary},
       {"library.no_memory_in_enqueue", "enqueue takes no memory of the host, and leaves nothing", enqueue_takes_no_memory, kLibrary},
       {"library.operations", "3000 times prepare and destroy leave nothing", operations_leave_nothing, kLibrary},
       {"library.exhaustion", "without memory prepare is RESOURCE_EXHAUSTED", prepare_out_of_memory, kLibrary},
       {"library.shutdown_with_an_operation", "shutdown with a live operation is refused and changes nothing", shutdown_with_an_operation,
        kLibrary},
       {"library.forked_child", "in a forked child calls are FAILED_PRECONDITION and releases do nothing", forked_children_do_nothing,
        kLibrary},
       {"library.null", "destroying NULL does nothing", null_releases, kLibrary}});
}

}  // namespace heddle::conformance
