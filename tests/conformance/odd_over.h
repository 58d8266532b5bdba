// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin that is another one but for a single interface: what odd_operations.cpp and odd_streams.cpp are made of. The other one is loaded when
// it is first needed, which is not in the entry (HD-E-02).
#ifndef HEDDLE_TESTS_CONFORMANCE_ODD_OVER_H_
#define HEDDLE_TESTS_CONFORMANCE_ODD_OVER_H_

#include <cstring>

#include "heddle/sdk/negotiate.h"
#include "odd_names.h"

namespace heddle::odd {

using Status = heddle_status_t*;

struct Change {
  const char* name;
};

// Interface is the table that is changed; a library has one.
template <class Interface>
class Over {
 public:
  static inline Interface good;                       // as the other plugin has it
  static inline const heddle_host_t* host = nullptr;  // of the instance that was made last

  // `variable` names the other plugin's library; change(table) makes its interface `id` ours.
  static heddle_plugin_t plugin(uint32_t kind, const char* own_id, const char* variable, const char* id, void (*change)(Interface*)) {
    variable_ = variable;
    id_ = id;
    change_ = change;
    return {sizeof(heddle_plugin_t), kind, sdk::string_of(own_id), sdk::string_of("0.1.0"), probe, create, shutdown, get_interface};
  }

 private:
  static const heddle_plugin_t* other() {
    static const heddle_plugin_t* table = plugin_in(variable_);
    return table;
  }
  static Status probe(const heddle_host_t* its_host, heddle_probe_result_t* out) noexcept { return other()->probe(its_host, out); }
  static Status create(const heddle_host_t* its_host, heddle_plugin_instance_t** out) noexcept {
    host = its_host;
    return other()->create(its_host, out);
  }
  static Status shutdown(heddle_plugin_instance_t* instance) noexcept { return other()->shutdown(instance); }
  static const void* get_interface(heddle_plugin_instance_t* instance, heddle_string_t id) noexcept {
    const void* table = other()->get_interface(instance, id);
    if (!table || sdk::view_of(id) != id_) return table;
    std::memcpy(&good, table, sizeof good);
    odd_ = good;
    change_(&odd_);
    return &odd_;
  }

  static inline Interface odd_;
  static inline const char *variable_, *id_;
  static inline void (*change_)(Interface*);
};

}  // namespace heddle::odd
#endif  // HEDDLE_TESTS_CONFORMANCE_ODD_OVER_H_
