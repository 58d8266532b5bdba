// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What runs each region of an instance: its own kernels, those of another variant, its portable code by kernels of the driver's own or interpreted, or the
// operation of a library plugin, tried in the order of the first [[prefer]] rule for it. Created by Instance once code is loaded, used whenever a plan is
// made, and by reports.
#ifndef HEDDLE_CORE_SUBMIT_PREFERENCES_H_
#define HEDDLE_CORE_SUBMIT_PREFERENCES_H_

#include <forward_list>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/open/module.h"
#include "core/route/route.h"
#include "core/submit/operations.h"
#include "core/submit/plan.h"

namespace heddle::submit {

class Preferences final : public Choices {
 public:
  // Loads a variant in addition to the chosen ones; returns its entries in the order of the executable.
  using Load = std::function<Status(const route::ChosenCode&, std::vector<heddle_entry_t*>*)>;

  // All arguments are kept by reference and must outlive it.
  Preferences(host::Host& host, const open::OpenModule& module, const route::Route& route, const Machine& machine,
              std::span<const memory::Ref<memory::Device>> devices);

  // Finds the rule of each region of a program, and loads the variants that rules name. A missing variant is a reason, not a failure.
  void add(std::string_view function, const module_format::Program& program, const Load& load);

  Result<Choice> choose(const module_format::DispatchSite& site, bool kernel_fits, std::span<const int64_t> dims) override;
  // UNAVAILABLE, or NOT_FOUND if only a plugin could run it, if nothing can run it for any extents. [any] [may-block]
  Status check(const module_format::DispatchSite& site);
  // Whether more has to be decided than which of its kernels accepts the extents.
  bool is_open(const module_format::DispatchSite& site) const;
  // Decides as far as the extents are known, for reports; regions that nothing can run are reported there.
  void decide(const module_format::Program& program, const open::Signature& signature);

  // For reports: each region that was added, in order.
  struct Region {
    std::string_view function, name;
    uint32_t slot = 0;
    std::string runs;                 // "own x86-64-v4", "library:com.acme.ops"; before a plan is made, all possible choices
    std::string why;                  // "[[prefer]] at heddle.toml:12:1", "no rule"
    std::vector<std::string> passed;  // "library:com.acme.ops: ...": earlier choices that were skipped
  };
  std::vector<Region> regions() const;
  const Operations& operations() const { return operations_; }

 private:
  enum class Kind { kOwn, kVariant, kLibrary };
  struct Way {
    Kind kind = Kind::kOwn;
    std::string name;                                       // of a variant or plugin; may be a pattern
    std::string text;                                       // as written in the rule
    const std::vector<heddle_entry_t*>* kernels = nullptr;  // for a variant
    std::string refusal;                                    // why it can never run the region
    std::string_view own_kernels = {};                      // for portable code, as in heddle_executable_params_t; from the configuration
  };
  struct Order {
    const host::PreferConfig* rule = nullptr;
    std::vector<Way> ways;
  };
  struct Loaded {
    route::ChosenCode code;
    std::vector<heddle_entry_t*> kernels;
  };
  struct Added {
    std::string_view function;
    const module_format::DispatchSite* site;
  };
  struct Decided {
    std::string runs;
    std::vector<std::string> passed;
  };

  const Order& order_of(const module_format::DispatchSite& site) const;
  const host::PreferConfig* rule_for(const module_format::DispatchSite& site);
  Way way_of(const std::string& text, const module_format::Program& program, const module_format::DispatchSite& site, const Load& load);
  void find_variant(Way& way, const module_format::Program& program, const module_format::DispatchSite& site, const Load& load);
  void find_own_kernels(Way& way, const module_format::DispatchSite& site, const Load& load);
  // The way's kernels are those of the code, which is loaded unless it is already.
  void use_code(Way& way, route::ChosenCode code, const Load& load);
  const route::ChosenCode* chosen_for(const module_format::DispatchSite& site) const;
  Result<Choice> take(const Way& way, const module_format::DispatchSite& site, bool kernel_fits, std::span<const int64_t> dims);
  Status nothing_will_do(const Order& order, const std::vector<std::string>& passed) const;
  std::string name_of_own(const module_format::DispatchSite& site) const;
  void note(const module_format::DispatchSite& site, const Order& order, Decided decided);

  host::Host& host_;
  const open::OpenModule& module_;
  const route::Route& route_;
  const Machine& machine_;
  std::span<const memory::Ref<memory::Device>> devices_;
  Operations operations_;
  std::vector<Added> added_;
  std::map<const module_format::DispatchSite*, Order> orders_;  // for regions with a rule
  std::forward_list<Loaded> loaded_;
  bool told_untyped_ = false;
  mutable std::mutex mutex_;
  std::map<const module_format::DispatchSite*, Decided> decided_;  // from the newest plan
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_PREFERENCES_H_
