// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An instance: a module bound to devices, with its code loaded, its globals in device memory, its functions ready to be called.
// Created and owned by core/api.cpp; calls in flight keep it alive.
#ifndef HEDDLE_CORE_SUBMIT_INSTANCE_H_
#define HEDDLE_CORE_SUBMIT_INSTANCE_H_

#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/memory/tensor.h"
#include "core/open/module.h"
#include "core/open/parameter_files.h"
#include "core/route/route.h"
#include "core/submit/initializer_parts.h"
#include "core/submit/inspection.h"
#include "core/submit/links.h"
#include "core/submit/loading.h"
#include "core/submit/plan.h"
#include "core/submit/profile.h"
#include "core/submit/runtime.h"
#include "core/submit/state.h"
#include "sdk/cpp/heddle/sdk/spin_lock.h"

namespace heddle::submit {

class Function;
class Call;
class Preferences;

struct InstanceRequest {
  std::vector<std::pair<std::string, std::string>> slots;  // slot, device
  std::vector<open::ParameterFiles::Named> parameter_files;
  bool profiles = false;       // measures the times of commands
  bool route_only = false;     // reads no parameters and runs nothing
  bool bind_only = false;      // loads no code either
  bool in_background = false;  // the parameters are loaded by another thread
  bool check_hashes = false;   // compares parameters with those that the module was compiled with
};

// The programs of a module that belong together, one per function; initializer is NULL if there is none.
struct Programs {
  std::vector<const module_format::Program*> functions;
  const module_format::Program* initializer = nullptr;
};
// One value per global: whether a function's program reads it; whether such a program or the initializer reads it.
struct ReadGlobals {
  std::vector<bool> by_functions, at_all;
};
ReadGlobals find_read_globals(const module_format::Module& module, const Programs& programs);
// Sets each global's device from its slot.
void place_globals(const module_format::Module& module, Machine& machine);

// Returns a call's memory to its function.
struct GiveBackCall {
  void operator()(Call* call) const;
};
using CallPointer = std::unique_ptr<Call, GiveBackCall>;

// Counts since the instance was created; exact whenever no call is in flight and each function has settled its own counts.
struct Counters {
  std::atomic<uint64_t> calls{0}, failed_calls{0}, submissions{0}, dispatches{0}, copies{0}, copied_bytes{0}, crossings{0}, peer_copies{0};
  std::atomic<uint64_t> plans_made{0}, frames_made{0}, arena_bytes{0}, peak_arena_bytes{0}, scalars_read{0}, replays{0};
};

class Instance final : public memory::Counted {
 public:
  static Result<memory::Ref<Instance>> create(std::shared_ptr<Runtime> runtime, std::shared_ptr<const open::OpenModule> module,
                                              const InstanceRequest& request);
  ~Instance() override;
  // The application released its handle. The instance lives until the last call that was started on it ends.
  static void release_handle(Instance* instance);

  const open::OpenModule& module() const { return *module_; }
  host::Host& host() const { return *runtime_->host; }
  const Machine& machine() const { return machine_; }
  // The chosen programs.
  Programs programs() const;
  std::span<const memory::Ref<memory::Device>> devices() const { return devices_; }
  // NULL in an instance that was only routed.
  Function* function(uint32_t index) { return functions_.empty() ? nullptr : functions_[index].get(); }
  Counters& counters() { return counters_; }
  // The state of calls that name none.
  const memory::Ref<State>& state() const { return state_; }
  // Another one. [any] [may-block]
  Result<memory::Ref<State>> create_state() const;
  // The values for calls that start now.
  memory::Ref<Globals> globals() const {
    std::lock_guard lock(globals_lock_);
    return globals_;
  }
  // Replaces the parameters that these files have, and what is computed from them. On failure the values stay. cancel: NULL, or what ends it when it
  // becomes true. [any] [may-block]
  Status refit(const std::vector<open::ParameterFiles::Named>& files, const std::atomic<bool>* cancel);
  // Differs from that of every other instance of the process.
  uint64_t serial() const { return serial_; }
  // "route", "statistics" or "profile"; NOT_FOUND for another topic.
  Result<std::string> report(std::string_view topic);

  bool loads_in_background() const { return loading_ != nullptr; }
  // Waits until the parameters are loaded; returns why they could not be. [any] [may-block]
  Status wait_until_loaded(uint64_t timeout_ns) const { return loading_ ? loading_->wait(timeout_ns) : Status(); }
  // Frees the arenas that no call is using.
  void drop_idle_frames();
  // A released call whose work is in progress. The instance waits for it before it is destroyed.
  void abandon(CallPointer call) noexcept;
  void reap_abandoned() noexcept;

 private:
  Instance() = default;
  static uint64_t next_serial();
  // Routes, opens devices and loads code; code that a driver refuses to load is skipped as long as an alternative exists.
  Status bind_and_load(const InstanceRequest& request);
  Status bind(const InstanceRequest& request, const std::vector<route::RefusedCode>& refused);
  Status find_links();
  Status load_code();
  void make_room_for_code();
  // Loads one variant; returns its entries in the order of the executable.
  Status load(const route::ChosenCode& chosen, std::vector<heddle_entry_t*>* out_entries);
  // From which file a parameter was read, as an index in names_, and which bytes of which version of it.
  struct Origin {
    uint32_t file = open::ParameterExtent::kOfModule;
    memory::WeightIdentity identity{};
  };
  // Where the parameters are.
  struct Located {
    timespec begin{};                           // the time before anything was looked at
    open::ParameterFiles files, earlier;        // open for as long as they are read; `extents` refers to them. earlier: of earlier loads
    std::vector<memory::WeightExtent> extents;  // one per global
    std::vector<uint32_t> kept;                 // the globals that functions read, and that are loaded
    std::vector<Origin> origins;                // one per global
    std::vector<open::ParameterFiles::Named> names;  // of origins
    bool check_hashes = false;
    Rerun rerun;  // of a refit
    void note(uint32_t global, const open::ParameterExtent& extent, std::string_view name);
    // Of a parameter, wherever it is.
    const memory::WeightIdentity& identity_of(uint32_t global, const Globals& made) const {
      return made.weights[global] ? made.weights[global]->identity : origins[global].identity;
    }
    // Keeps only names that a refit may need: of parameters that are not in memory.
    void drop_unused_names(const std::vector<bool>& in_memory);
  };
  // current: the values that stay unless a file has others; NULL: none yet.
  Status locate_parameters(const std::vector<open::ParameterFiles::Named>& files, const Globals* current, Located& located) const;
  // Finds parameters again that only the initializer reads, in the files from which they were read before.
  Status locate_again(const std::vector<uint32_t>& globals, Located& located) const;
  // Loads the parameters that functions read and all other globals that the instance keeps; then those that only the initializer reads, part by part.
  // current: shared where nothing changes; NULL: none yet. state: for the initializer.
  Result<memory::Ref<Globals>> make_globals(const Located& located, const Globals* current, State& state);
  // Reads all parameters but those of overlays, and compares their hashes with the module's.
  Status check_hashes(const Located& located) const;
  // Makes the globals and prepares the functions.
  Status load_data(Located& located);
  // What constants and derived values depend on, for instances with the same devices. Empty if they cannot be shared: they are computed with state or
  // with operations of plugins, or their computation is inspected. made: has the parameters that functions read.
  // by_content: the contents of files of weights take the place of their identity; empty also if that is not possible now.
  std::string derived_key(const Located& located, const Globals& made, bool by_content) const;
  // Takes them from those that share them, or computes them for all.
  // current: the values that a refit replaces.
  Status make_derived(const Located& located, const memory::Ref<Globals>& made, const Globals* current, State& state);
  // Where derived values are on disk, for a key.
  struct DerivedFile {
    std::string name, head;                     // empty: nowhere; what the file begins with
    std::vector<uint32_t> globals;              // those in it
    std::vector<memory::WeightExtent> extents;  // one per global
    uint64_t end = 0;                           // of the values
    bool is_mapped = false;
  };
  DerivedFile derived_file(const Located& located, const Globals& made) const;
  // SHA-256 of a file of weights, of which the global is read. Empty, with a line in the log, if it cannot be relied on.
  std::string digest_of_weights(const open::FileIdentity& file, const Located& located, uint32_t global) const;
  void log_not_kept(uint32_t level, std::string_view why) const;
  // Whether a file was written so shortly before it was read that a later change could have the same time.
  void note_fresh_files(const Located& located);
  // False, and nothing is changed, if there is no such file or it is damaged.
  bool read_derived(DerivedFile& file, Globals& made);
  // Failures are logged.
  void keep_derived(const DerivedFile& file, const Globals& made) noexcept;
  // Those that have no memory yet.
  Status allocate_globals(const std::vector<bool>& used, Globals& made);
  // Loads these globals; `extents` has an entry for each, as has `place_of_global` unless it is empty. may_change: the files are checked afterwards.
  Status load_parameters(const std::vector<uint32_t>& globals, const std::vector<memory::WeightExtent>& extents,
                         const std::vector<memory::StagePlace>& place_of_global, Globals& made, bool may_change = true);
  Status run_initializer(const Located& located, const memory::Ref<Globals>& made, State& state);
  // The chosen program; for the initializer NULL if there is none.
  const module_format::Program& program(uint32_t function) const;
  const module_format::Program* initializer() const;
  // Finds the rule of each region. Loads the variants that rules name, unless no code is loaded.
  void find_preferences(bool loads);
  // Decides and prepares as much as possible now, so that missing parts are reported when the instance is created.
  Status prepare_functions();
  // The same for reports only.
  void decide_functions();

  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<const open::OpenModule> module_;
  route::Route route_;
  int64_t failed_code_ = -1;  // index in route_.code that a driver refused to load
  std::vector<memory::Ref<memory::Device>> devices_;
  std::vector<Link> links_;
  std::vector<Shared<Code>> loaded_;
  ReadGlobals read_;
  Machine machine_;
  std::unique_ptr<Profile> profile_;
  std::unique_ptr<Preferences> preferences_;
  std::unique_ptr<Inspection> inspection_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::unique_ptr<Loading> loading_;  // NULL: the parameters were loaded when the instance was created
  Counters counters_;
  memory::Ref<State> state_;
  const uint64_t serial_ = next_serial();
  std::mutex abandoned_mutex_;
  std::atomic<uint32_t> abandoned_count_{0};
  CallPointer abandoned_;               // head of an intrusive list, which needs no memory: work in progress cannot be dropped
  mutable sdk::SpinLock globals_lock_;  // after the functions' locks
  memory::Ref<Globals> globals_ = memory::Ref<Globals>::adopt(new Globals());
  // What ends the load or the refit that is in progress.
  const std::atomic<bool>* cancelled() const { return refit_cancel_ ? refit_cancel_ : loading_ ? &loading_->cancelled() : nullptr; }
  const std::atomic<bool>* refit_cancel_ = nullptr;  // with refit_mutex_
  std::mutex refit_mutex_;                           // for one at a time, after the load; guards the next two members
  std::vector<open::ParameterFiles::Named> names_;
  std::vector<Origin> origins_;   // one per global
  bool has_fresh_files_ = false;  // at any load or refit
};

}  // namespace heddle::submit

#endif  // HEDDLE_CORE_SUBMIT_INSTANCE_H_
