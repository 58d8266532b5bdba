// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See plugin.h.
#include "plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <type_traits>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "case.h"

namespace heddle::conformance {
namespace {

// The state of the calling thread that a call must not change.
class ThreadState {
 public:
  explicit ThreadState(const char* slot) : slot_(slot), errno_(errno) {
    sigset_t more;  // a mask that differs from any default, like errno, so that a reset to the default is detected
    sigemptyset(&more);
    sigaddset(&more, SIGRTMAX - 3);
    pthread_sigmask(SIG_BLOCK, &more, &before_);
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    set_flags();
    floating_point_ = floating_point();
    context_ = vendor_context();
    errno = kErrno;
  }
  ~ThreadState() {
    const int changed = errno;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, &before_, &mask);
    if (changed != kErrno) fail("%s changed errno to %d [HD-T-02]", slot_, changed);
    if (std::memcmp(&mask, &mask_, kMaskBytes) != 0) fail("%s changed the caller's signal mask [HD-T-02]", slot_);
    if (floating_point() != floating_point_) {
      fail("%s changed the caller's floating-point environment from %llx to %llx [HD-T-02]", slot_, number(floating_point_),
           number(floating_point()));
    }
    if (vendor_context() != context_) fail("%s changed the caller's current CUDA context [HD-T-02]", slot_);
    take_flags_back();
    errno = errno_;
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  static constexpr int kErrno = 3407;                   // no error has this value
  static constexpr size_t kMaskBytes = (NSIG - 1) / 8;  // the part of a sigset_t that the kernel fills in

  static uint64_t floating_point() {
#if defined(__x86_64__)
    uint16_t control;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    return uint64_t{control} << 32 | _mm_getcsr();
#else
    return 0;
#endif
  }
  // A flag that is cleared by resetting to the default, and that is not raised by computations.
  void set_flags() {
#if defined(__x86_64__)
    flags_ = _mm_getcsr() & _MM_EXCEPT_MASK;
    _mm_setcsr((_mm_getcsr() & ~unsigned{_MM_EXCEPT_MASK}) | _MM_EXCEPT_UNDERFLOW);
#endif
  }
  void take_flags_back() const {
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~unsigned{_MM_EXCEPT_MASK}) | flags_);
#endif
  }
  // NULL if no CUDA driver is loaded.
  static void* vendor_context() {
    static auto* current = [] {
      void* cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
      return reinterpret_cast<int (*)(void**)>(cuda ? dlsym(cuda, "cuCtxGetCurrent") : nullptr);
    }();
    void* context = nullptr;
    if (current) current(&context);
    return context;
  }

  const char* slot_;
  int errno_;
  sigset_t before_, mask_;
  uint64_t floating_point_;
  unsigned flags_ = 0;
  void* context_;
};

std::mutex calls_mutex;
std::map<std::string, uint64_t> longest_calls;
std::vector<std::string> holes;

void note_call(const char* slot, uint64_t took_ns) {
  std::lock_guard<std::mutex> lock(calls_mutex);
  uint64_t& longest = longest_calls[slot];
  longest = std::max(longest, took_ns);
}

template <class T>
constexpr bool is_handle_output =
    std::is_pointer_v<T> && std::is_pointer_v<std::remove_pointer_t<T>> && !std::is_const_v<std::remove_pointer_t<T>>;

// The contents of a handle's output before each call: neither a plausible result nor an address.
void* untouched() {
  return reinterpret_cast<void*>(uintptr_t{0x7777777777777777});
}
template <class T>
void spoil_handle(T argument) {
  if constexpr (is_handle_output<T>) {
    if (argument) *argument = static_cast<std::remove_pointer_t<T>>(untouched());
  }
}
template <class T>
void check_handle(const char* slot, T argument, bool succeeded) {
  if constexpr (is_handle_output<T>) {
    if (!argument) return;
    const bool left = static_cast<void*>(*argument) == untouched();
    if (succeeded && left) fail("%s succeeded and left its output as it was [HD-E-07]", slot);
    if (!succeeded && *argument)
      fail("%s failed and left %s in its output; NULL was expected [HD-E-07]", slot, left ? "its old value" : "a handle");
    if (left || !succeeded) *argument = nullptr;
  }
}
template <class T>
void clear_handle(T argument) {
  if constexpr (is_handle_output<T>) {
    if (argument) *argument = nullptr;
  }
}

// A slot of the kit's copy: `Member` of a table, wrapping the plugin's own function.
template <auto Member>
struct Slot;
template <class Table, class R, class... A, R (*Table::*Member)(A...)>
struct Slot<Member> {
  static inline R (*original)(A...) = nullptr;
  static inline const char* name = nullptr;

  static R call(A... arguments) {
    if (!original) return absent_call(arguments...);
    const Inside inside(name);
    const uint64_t start = now_ns();
    try {
      if constexpr (std::is_same_v<R, heddle_status_t*>) {
        heddle_status_t* status;
        (spoil_handle(arguments), ...);
        {
          ThreadState state(name);
          status = original(arguments...);
        }
        note_call(name, now_ns() - start);
        (check_handle(name, arguments, status == nullptr), ...);
        return status;
      } else {
        ThreadState state(name);
        return original(arguments...);
      }
    } catch (...) {
      stop("%s threw an exception across the ABI [HD-B-01]", name);
    }
  }

  static R absent_call(A... arguments) {
    (clear_handle(arguments), ...);
    if constexpr (std::is_same_v<R, heddle_status_t*>) {
      return make_status(HEDDLE_STATUS_UNIMPLEMENTED, std::string(name) + ": the plugin does not implement it [HD-E-04]");
    } else {
      return R();
    }
  }
};

class TableCopy {
 public:
  enum class Need { kRequired, kOptional };
  TableCopy(const void* source, const char* id, Need need = Need::kRequired) : source_(static_cast<const char*>(source)), id_(id) {
    if (!source && need == Need::kOptional) return;
    const char* what = *id ? id : "plugin";
    REQUIRE(source, "it has no %s, which its kind requires [HD-E-03]", id);
    REQUIRE(reinterpret_cast<uintptr_t>(source) % alignof(void*) == 0 && lies_in_library(source, 8),
            "its %s table at %p is not aligned static data of a loaded library [HD-E-03]", what, source);
    std::memcpy(&size_, source, sizeof size_);
    REQUIRE(size_ >= 8 && lies_in_library(source, size_),
            "its %s table has struct_size %u; 8 or more, and not beyond the end of its library, was expected [HD-E-04]", what, size_);
  }

  template <auto Member, class Table>
  void slot(Table* table, const char* name) {
    static std::vector<std::unique_ptr<std::string>> names;
    using S = Slot<Member>;
    auto& place = table->*Member;
    const size_t offset = static_cast<size_t>(reinterpret_cast<char*>(&place) - reinterpret_cast<char*>(table));
    names.push_back(std::make_unique<std::string>(*id_ ? std::string(id_) + " " + name : name));
    S::name = names.back()->c_str();
    S::original = nullptr;
    if (offset + sizeof(void*) <= size_) std::memcpy(&S::original, source_ + offset, sizeof(void*));
    if (!S::original) holes.push_back(S::name);
    place = S::call;
  }

 private:
  const char* source_;
  const char* id_;
  uint32_t size_ = 0;
};

template <class Table>
void begin_table(Table* table) {
  std::memset(table, 0, sizeof *table);
  table->struct_size = sizeof *table;
}

#define SLOT(table, member) copy.slot<&std::remove_reference_t<decltype(out->table)>::member>(&out->table, #member)

void copy_driver(heddle_plugin_instance_t* instance, Tables* out) {
  auto get = [&](const char* id) { return plugin().table.get_interface(instance, string_of(id)); };
  {
    TableCopy copy(get(HEDDLE_DEVICE_INTERFACE), HEDDLE_DEVICE_INTERFACE);
    begin_table(&out->device);
    SLOT(device, count), SLOT(device, describe), SLOT(device, link), SLOT(device, open), SLOT(device, close);
    SLOT(device, queue_create), SLOT(device, queue_destroy), SLOT(device, statistics);
  }
  {
    TableCopy copy(get(HEDDLE_BUFFER_INTERFACE), HEDDLE_BUFFER_INTERFACE);
    begin_table(&out->buffer);
    SLOT(buffer, allocate), SLOT(buffer, free), SLOT(buffer, map), SLOT(buffer, unmap), SLOT(buffer, flush), SLOT(buffer, invalidate);
    SLOT(buffer, import_host), SLOT(buffer, properties);
  }
  {
    TableCopy copy(get(HEDDLE_TRANSFER_INTERFACE), HEDDLE_TRANSFER_INTERFACE);
    begin_table(&out->transfer);
    SLOT(transfer, properties), SLOT(transfer, upload), SLOT(transfer, download), SLOT(transfer, peer_copy);
  }
  {
    TableCopy copy(get(HEDDLE_PARAM_IO_INTERFACE), HEDDLE_PARAM_IO_INTERFACE);
    begin_table(&out->param_io);
    SLOT(param_io, file_open), SLOT(param_io, file_close), SLOT(param_io, read), SLOT(param_io, write);
    SLOT(param_io, map);
  }
  {
    TableCopy copy(get(HEDDLE_DISPATCH_INTERFACE), HEDDLE_DISPATCH_INTERFACE);
    begin_table(&out->dispatch);
    SLOT(dispatch, variant_rank), SLOT(dispatch, executable_load), SLOT(dispatch, executable_unload), SLOT(dispatch, entry);
    SLOT(dispatch, submit), SLOT(dispatch, record), SLOT(dispatch, replay), SLOT(dispatch, recording_free);
    SLOT(dispatch, operation_load);
  }
  {
    TableCopy copy(get(HEDDLE_TIMELINE_INTERFACE), HEDDLE_TIMELINE_INTERFACE);
    begin_table(&out->timeline);
    SLOT(timeline, create), SLOT(timeline, destroy), SLOT(timeline, query), SLOT(timeline, signal), SLOT(timeline, fail);
    SLOT(timeline, wait), SLOT(timeline, notify), SLOT(timeline, export_handle), SLOT(timeline, import_handle);
  }
  {
    TableCopy copy(get(HEDDLE_NATIVE_INTERFACE), HEDDLE_NATIVE_INTERFACE, TableCopy::Need::kOptional);
    begin_table(&out->native);
    SLOT(native, context), SLOT(native, stream), SLOT(native, queue_import), SLOT(native, buffer_import);
  }
  {
    TableCopy copy(get(HEDDLE_PROFILE_INTERFACE), HEDDLE_PROFILE_INTERFACE, TableCopy::Need::kOptional);
    begin_table(&out->profile);
    SLOT(profile, submit);
  }
  {
    TableCopy copy(get(HEDDLE_BLOCKS_INTERFACE), HEDDLE_BLOCKS_INTERFACE, TableCopy::Need::kOptional);
    begin_table(&out->blocks);
    SLOT(blocks, supports), SLOT(blocks, decode);
  }
}

void copy_allocator(heddle_plugin_instance_t* instance, Tables* out) {
  TableCopy copy(plugin().table.get_interface(instance, string_of(HEDDLE_ALLOCATOR_INTERFACE)), HEDDLE_ALLOCATOR_INTERFACE);
  begin_table(&out->allocator);
  SLOT(allocator, create), SLOT(allocator, destroy), SLOT(allocator, allocate), SLOT(allocator, free), SLOT(allocator, statistics);
  SLOT(allocator, trim), SLOT(allocator, holders);
}

void copy_library(heddle_plugin_instance_t* instance, Tables* out) {
  TableCopy copy(plugin().table.get_interface(instance, string_of(HEDDLE_LIBRARY_INTERFACE)), HEDDLE_LIBRARY_INTERFACE);
  begin_table(&out->library);
  SLOT(library, query), SLOT(library, prepare), SLOT(library, destroy), SLOT(library, enqueue);
}

void copy_target(heddle_plugin_instance_t* instance, Tables* out) {
  TableCopy copy(plugin().table.get_interface(instance, string_of(HEDDLE_TARGET_INTERFACE)), HEDDLE_TARGET_INTERFACE);
  begin_table(&out->target);
  SLOT(target, open), SLOT(target, close), SLOT(target, claim), SLOT(target, emit), SLOT(target, inspect);
}

heddle_plugin_entry_fn_t load(const std::string& path, void** out_library) {
  const Inside inside("a constructor or another part of loading its library");
  *out_library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(*out_library, "loading it failed: %s [HD-B-03]", dlerror());
  auto entry = reinterpret_cast<heddle_plugin_entry_fn_t>(dlsym(*out_library, HEDDLE_PLUGIN_ENTRY_NAME));
  REQUIRE(entry, "it exports no %s [HD-E-01]", HEDDLE_PLUGIN_ENTRY_NAME);
  return entry;
}

// The two functions that are called outside of the tables.
heddle_plugin_entry_fn_t real_entry = nullptr;
const void* (*real_get_interface)(heddle_plugin_instance_t*, heddle_string_t) = nullptr;

heddle_negotiation_t offer() {
  heddle_negotiation_t record = {};
  record.struct_size = sizeof record;
  record.host_min_minor = HEDDLE_ABI_MIN_MINOR;
  record.host_max_minor = HEDDLE_ABI_MINOR;
  return record;
}

}  // namespace

bool lies_in_library(const void* data, uint64_t size) {
  struct Search {
    uintptr_t start;
    uint64_t size;
    bool found;
  } search = {reinterpret_cast<uintptr_t>(data), size, false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto* wanted = static_cast<Search*>(context);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          const uintptr_t start = info->dlpi_addr + segment.p_vaddr, end = start + segment.p_memsz;
          if (segment.p_type == PT_LOAD && wanted->start >= start && wanted->start <= end && wanted->size <= end - wanted->start)
            wanted->found = true;
        }
        return 0;
      },
      &search);
  return data && search.found;
}

namespace {

const Plugin* loaded_plugin = nullptr;
bool uses_driver = false;

// The origins of functions registered for the end of the process: addresses in the libraries that registered them. Zero before any constructor runs.
constexpr size_t kMostHandlers = 4096;
std::atomic<const void*> handlers_of[kMostHandlers];
std::atomic<size_t> handlers{0};

std::string library_name(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name ? map->l_name : "";
}

}  // namespace

// All libraries' calls arrive here, since the program's symbols take precedence; libc's function is called afterwards.
extern "C" [[gnu::visibility("default")]] int __cxa_atexit(void (*function)(void*), void* argument, void* library) {
  handlers_of[handlers.fetch_add(1) % kMostHandlers] = library;
  using Register = int (*)(void (*)(void*), void*, void*);
  static const auto next = reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__cxa_atexit"));
  return next(function, argument, library);
}

uint64_t count_exit_handlers() {
  const std::string name = library_name(plugin().library);
  uint64_t count = 0;
  for (size_t i = 0; i < std::min(handlers.load(), kMostHandlers); ++i) {
    Dl_info info;
    const void* from = handlers_of[i].load();
    count += from && dladdr(from, &info) != 0 && info.dli_fname && name == info.dli_fname;
  }
  return count;
}

void unload_plugin() {
  const Inside inside("a destructor, or another part of unloading its library");
  void* library = plugin().library;
  delete loaded_plugin;
  loaded_plugin = nullptr;
  dlclose(library);
}

bool is_mapped() {
  char path[PATH_MAX] = {};
  REQUIRE(realpath(settings().library.c_str(), path), "%s no longer exists", settings().library.c_str());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) return true;
  }
  return false;
}

const Plugin& plugin() {
  if (loaded_plugin) return *loaded_plugin;
  static const auto load_it = [] {
    Plugin made;
    made.libraries_before = loaded_libraries();
    real_entry = load(uses_driver ? settings().driver : settings().library, &made.library);
    made.entry = [](heddle_negotiation_t* record) {
      const Inside inside("its entry, " HEDDLE_PLUGIN_ENTRY_NAME);
      return real_entry(record);
    };
    heddle_negotiation_t record = offer();
    const uint64_t mappings = count_mappings();
    const int64_t heap = heap_bytes();
    made.source = made.entry(&record);
    made.first_entry.heap_bytes = heap_bytes() - heap;
    made.first_entry.mappings = static_cast<int64_t>(count_mappings() - mappings);
    REQUIRE(made.source, "it refuses ABI %d.%d to %d.%d: %s [HD-E-02]", HEDDLE_ABI_MAJOR, HEDDLE_ABI_MIN_MINOR, HEDDLE_ABI_MAJOR,
            HEDDLE_ABI_MINOR, shown({record.reason, std::min<size_t>(record.reason_size, sizeof record.reason)}).c_str());
    made.chosen_minor = record.chosen_minor;
    // The part that minor 0.1 has; later functions may be missing.
    constexpr size_t least = offsetof(heddle_plugin_t, get_interface) + sizeof(void*);
    REQUIRE(lies_in_library(made.source, least), "its plugin table is not static data of a loaded library [HD-E-03]");
    REQUIRE(made.source->struct_size >= least, "its plugin table has struct_size %u; %zu was expected [HD-E-04]", made.source->struct_size,
            sizeof(heddle_plugin_t));
    REQUIRE(made.source->create && made.source->get_interface, "its plugin table has no create or no get_interface [HD-E-03]");
    begin_table(&made.table);
    made.table.kind = made.source->kind;
    made.table.id = made.source->id;
    made.table.version = made.source->version;
    TableCopy copy(made.source, "");
    copy.slot<&heddle_plugin_t::probe>(&made.table, "probe");
    copy.slot<&heddle_plugin_t::create>(&made.table, "create");
    copy.slot<&heddle_plugin_t::shutdown>(&made.table, "shutdown");
    real_get_interface = made.source->get_interface;
    made.table.get_interface = [](heddle_plugin_instance_t* instance, heddle_string_t id) {
      const Inside inside("get_interface");
      return real_get_interface(instance, id);
    };
    return made;
  };
  loaded_plugin = new Plugin(load_it());
  return *loaded_plugin;
}

void use_driver(bool is_driver) {
  if (is_driver == uses_driver) return;
  delete loaded_plugin;
  loaded_plugin = nullptr;
  uses_driver = is_driver;
}

const std::vector<OptionValue>& plugin_options() {
  return uses_driver ? settings().driver_options : settings().options;
}

const heddle_plugin_t* load_beside(const std::string& path) {
  void* library = nullptr;
  heddle_plugin_entry_fn_t entry = load(path, &library);
  heddle_negotiation_t record = offer();
  const heddle_plugin_t* table = entry(&record);
  REQUIRE(table, "the other plugin, %s, refuses ABI %d.%d to %d.%d", path.c_str(), HEDDLE_ABI_MAJOR, HEDDLE_ABI_MIN_MINOR, HEDDLE_ABI_MAJOR,
          HEDDLE_ABI_MINOR);
  return table;
}

void copy_tables(heddle_plugin_instance_t* instance, Tables* out) {
  holes.clear();
  if (plugin().is_driver()) copy_driver(instance, out);
  if (plugin().is_allocator()) copy_allocator(instance, out);
  if (plugin().is_library()) copy_library(instance, out);
  if (plugin().is_target()) copy_target(instance, out);
}

const std::vector<std::string>& empty_slots() {
  return holes;
}

uint64_t longest_call_ns(const std::string& name) {
  std::lock_guard<std::mutex> lock(calls_mutex);
  return longest_calls[name];
}

bool is_of_the_system(const std::string& soname) {
  for (const char* known :
       {"libc.so.", "libm.so.", "libdl.so.", "librt.so.", "libpthread.so.", "libgcc_s.so.", "libstdc++.so.", "libc++.so.", "libc++abi.so.",
        "libatomic.so.", "libgomp.so.", "libomp.so.", "ld-linux", "libasan.so.", "libtsan.so.", "libubsan.so.", "libclang_rt."}) {
    if (soname.rfind(known, 0) == 0) return true;
  }
  return false;
}

std::set<std::string> loaded_libraries() {
  std::set<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        const std::string path = info->dlpi_name;
        static_cast<std::set<std::string>*>(context)->insert(path.substr(path.rfind('/') + 1));
        return 0;
      },
      &names);
  return names;
}

}  // namespace heddle::conformance
