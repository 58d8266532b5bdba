// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The basis of the cases of library plugins: a C request built from one in conformance/operators.toml, an operation that is prepared for it, and the
// memory of one call, with guards around all of it. Used by cases_library*.cpp.
#ifndef HEDDLE_CONFORMANCE_LIBRARY_SESSION_H_
#define HEDDLE_CONFORMANCE_LIBRARY_SESSION_H_

#include <deque>
#include <functional>

#include "session.h"

namespace heddle::conformance {

inline const heddle_library_interface_t& api(const Instance& instance) {
  return instance.tables.library;
}

// A C request, built from one in operators.toml.
class Request {
 public:
  explicit Request(const OperatorRequest& from);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  // Call after the vectors were changed.
  void refresh();
  std::string name() const { return from_.domain + "::" + from_.name + "/" + std::to_string(from_.version); }
  const OperatorRequest& source() const { return from_; }
  bool is_output(size_t operand) const { return operand >= from_.input_count; }

  heddle_operation_request_t c = {};
  std::vector<heddle_attribute_t> attributes;
  std::vector<heddle_operand_t> operands;

 private:
  const OperatorRequest from_;
};

// Ends the case if there are none.
void each_request(const std::function<void(Request&)>& body);

// The answer of query to a request that the plugin accepts.
heddle_operation_properties_t query(const Instance& instance, const Request& request);

class Operation {
 public:
  Operation(Instance* instance, const Request& request) : instance_(*instance), properties(query(*instance, request)) {
    Result status(api(instance_).prepare(instance_.handle, &request.c, &handle));
    REQUIRE(status.ok() && handle, "prepare of %s returned %s", request.name().c_str(), status.text().c_str());
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
  Memory(const Request& request, const heddle_operation_properties_t& properties, char rubbish);
  // The same inputs for every memory with that seed.
  void fill_inputs(uint64_t seed);
  heddle_operation_call_t call(uint64_t first, uint64_t last) const;
  // The bytes of all outputs, or of all inputs.
  std::vector<char> contents(bool outputs) const;
  // Checks that inputs and guards are unchanged.
  void check(const char* when) const;

 private:
  void* add(uint64_t size, uint64_t alignment);

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

void run(const Instance& instance, const Operation& operation, const Memory& memory, uint64_t first, uint64_t last);

// The results of a call whose outputs and workspace were filled with this byte before.
std::vector<char> result_of(const Instance& instance, const Request& request, const Operation& operation, char rubbish,
                            uint64_t inputs = 0);

}  // namespace heddle::conformance
#endif  // HEDDLE_CONFORMANCE_LIBRARY_SESSION_H_
