// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The validation layer around a library plugin: what the host asks of it, what a driver calls its operations with, and what they do. The plugin is
// test.library, with one function that breaks a rule; the driver is heddle.cpu.
#include <pthread.h>
#include <signal.h>
#include <xmmintrin.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "heddle/ext/library.h"
#include "validation_case.h"

namespace heddle::test {
namespace {

constexpr uint64_t kElements = 6;
constexpr uint64_t kBytes = 4 * kElements;
constexpr uint32_t kShards = 3;

heddle_library_interface_t good_library, bad_library;
heddle_host_t library_host;  // as the plugin has it

// test::Scale/1 of one f32 vector.
struct Request {
  Request() {
    attributes.resize(1);
    attributes[0] = {sizeof(heddle_attribute_t), HEDDLE_ATTRIBUTE_FLOAT, string_of("factor"), 1, nullptr, &factor, {}};
    operands.assign(2, {sizeof(heddle_operand_t), HEDDLE_TYPE_F32, 1, 0, &extent});
    c.struct_size = sizeof c;
    c.version = 1;
    c.domain = string_of("test");
    c.name = string_of("Scale");
    c.target = string_of(HEDDLE_LIBRARY_TARGET_HOST);
    c.family = string_of("cpu");
    c.compute_units = 4;
    c.attribute_stride = sizeof(heddle_attribute_t);
    c.operand_stride = sizeof(heddle_operand_t);
    c.input_count = c.output_count = 1;
  }
  Request(const Request&) = delete;
  const heddle_operation_request_t* get() {
    c.attribute_count = static_cast<uint32_t>(attributes.size());
    c.attributes = attributes.data();
    c.operands = operands.data();
    return &c;
  }
  void add_mode(const char* mode) {
    attributes.push_back({sizeof(heddle_attribute_t), HEDDLE_ATTRIBUTE_STRING, string_of("mode"), 0, nullptr, nullptr, string_of(mode)});
  }

  double factor = 3;
  int64_t extent = kElements;
  std::vector<heddle_attribute_t> attributes;
  std::vector<heddle_operand_t> operands;
  heddle_operation_request_t c = {};
};

class LibraryFaults : public Validated {
 protected:
  void SetUp() override {
    open();
    library_host = *host.table();
    layer().wrap_host(&library_host);
    plugin = std::make_unique<LoadedPlugin>(HEDDLE_TEST_LIBRARIES "/plugins.d/libheddle_test_library.so");
    EXPECT_OK((*plugin)->create(&library_host, &instance));
    good_library = bad_library =
        *static_cast<const heddle_library_interface_t*>((*plugin)->get_interface(instance, string_of(HEDDLE_LIBRARY_INTERFACE)));
  }
  // From here on the layer takes bad_library for the plugin's.
  void wrap() {
    table = bad_library;
    layer().wrap_library(&table, instance, &library_host, string_of("test.library"));
  }
  heddle_status_t* query(Request& request, heddle_operation_properties_t* out = nullptr) {
    properties = {};
    properties.struct_size = sizeof properties;
    return table.query(instance, request.get(), out ? out : &properties);
  }
  heddle_status_t* prepare(Request& request, heddle_operation_t** out) { return table.prepare(instance, request.get(), out); }
  heddle_operation_params_t load_params() {
    return {sizeof(heddle_operation_params_t), 2, string_of("test::Scale/1"), string_of(HEDDLE_LIBRARY_TARGET_HOST), &table, operation,
            properties.workspace_bytes,        0};
  }
  heddle_status_t* load(const heddle_operation_params_t& params) {
    return driver().dispatch_api->operation_load(driver().device, &params, &executable);
  }
  // wrap, query, prepare, load, and memory for a call.
  void make() {
    wrap();
    Request request;
    ASSERT_OK(query(request));
    ASSERT_OK(prepare(request, &operation));
    ASSERT_OK(load(load_params()));
    ASSERT_OK(driver().dispatch_api->entry(executable, 0, &entry));
    x = driver().make_filled(std::vector<float>{1, 2, 3, 4, 5, 6});
    y = driver().make_buffer(kBytes);
    workspace = driver().make_buffer(properties.workspace_bytes + 4096);
    operands = {address(x), address(y)};
    const uint64_t start = reinterpret_cast<uint64_t>(address(workspace));
    aligned = (256 - start % 256) % 256;
  }
  void* address(heddle_buffer_t* buffer) {
    heddle_buffer_properties_t shown = {};
    shown.struct_size = sizeof shown;
    EXPECT_OK(driver().buffer_api->properties(buffer, &shown));
    return reinterpret_cast<void*>(shown.device_address);
  }
  // As a driver would call it.
  heddle_operation_call_t call_of() {
    return {sizeof(heddle_operation_call_t),
            2,
            operands.data(),
            lengths.data(),
            static_cast<char*>(address(workspace)) + aligned,
            properties.workspace_bytes,
            0,
            kShards,
            0};
  }
  heddle_status_t* enqueue(const heddle_operation_call_t& call) { return table.enqueue(operation, &call); }
  // The same as a dispatch of the driver's.
  heddle_status_t* dispatch(const std::vector<uint64_t>& sizes, uint32_t shards = kShards) {
    const std::vector<heddle_binding_t> bindings = {{x, 0, sizes[0]}, {y, 0, sizes[1]}, {workspace, aligned, sizes[2]}};
    heddle_command_t command = {};
    command.kind = HEDDLE_COMMAND_DISPATCH;
    command.as.dispatch = {entry, bindings.data(), nullptr, 3, 0, {shards, 1, 1}, 0};
    return driver().run({command});
  }
  void unload() { driver().dispatch_api->executable_unload(std::exchange(executable, nullptr)); }
  void destroy() { table.destroy(std::exchange(operation, nullptr)); }
  uint64_t told() {
    uint64_t found = 0;
    layer().report(
        instance, [](void* to, uint64_t, uint64_t violations, heddle_string_t) { *static_cast<uint64_t*>(to) = violations; }, &found);
    return found;
  }
  // All that was told of the library is this one violation.
  void expect(const std::string& who, const std::string& rule) {
    const std::string log = host.logged();
    EXPECT_NE(log.find("of test.library failed: " + who + " broke a rule"), std::string::npos) << log;
    EXPECT_NE(log.find("[" + rule + "]"), std::string::npos) << log;
    EXPECT_EQ(told(), 1u) << log;
  }
  void expect_host_fault(heddle_status_t* status, const std::string& rule) {
    Result result(status);
    EXPECT_EQ(result.code(), HEDDLE_STATUS_FAILED_PRECONDITION) << result.message();
    EXPECT_NE(result.message().find("the host broke a rule"), std::string::npos) << result.message();
    EXPECT_NE(result.message().find("[" + rule + "]"), std::string::npos) << result.message();
  }
  void expect_driver_fault(const heddle_operation_call_t& call, const std::string& rule) {
    Result result(enqueue(call));
    EXPECT_EQ(result.code(), HEDDLE_STATUS_FAILED_PRECONDITION) << result.message();
    EXPECT_NE(result.message().find("the driver test.driver broke a rule"), std::string::npos) << result.message();
    EXPECT_NE(result.message().find("[" + rule + "]"), std::string::npos) << result.message();
  }
  void TearDown() override {
    if (executable) unload();
    if (operation) destroy();
    for (heddle_buffer_t* buffer : {x, y, workspace}) {
      if (buffer) driver().buffer_api->free(buffer);
    }
    if (instance) EXPECT_OK(layer().shutdown(instance, (*plugin)->shutdown));
    Validated::TearDown();
  }

  std::unique_ptr<LoadedPlugin> plugin;
  heddle_plugin_instance_t* instance = nullptr;
  heddle_library_interface_t table = {};
  heddle_operation_properties_t properties = {};
  heddle_operation_t* operation = nullptr;
  heddle_executable_t* executable = nullptr;
  heddle_entry_t* entry = nullptr;
  heddle_buffer_t *x = nullptr, *y = nullptr, *workspace = nullptr;
  uint64_t aligned = 0;
  std::vector<void*> operands;
  std::vector<uint64_t> lengths = {kBytes, kBytes};
};
INSTANTIATE_TEST_SUITE_P(Drivers, LibraryFaults, ::testing::Values(DriverCase{"heddle_cpu", HEDDLE_TEST_PLUGINS "/libheddle_cpu.so", true}),
                         name_of);

TEST_P(LibraryFaults, NothingIsToldOfWhatIsRight) {
  make();
  for (int i = 0; i < 3; ++i) EXPECT_OK(dispatch({kBytes, kBytes, properties.workspace_bytes}));
  EXPECT_EQ(driver().values_of<float>(y, kElements), (std::vector<float>{3, 6, 9, 12, 15, 18}));
  heddle_operation_call_t call = call_of();
  for (call.first_shard = 0; call.first_shard < kShards; ++call.first_shard) {
    call.last_shard = call.first_shard + 1;
    EXPECT_OK(enqueue(call));
  }
  Request other;
  heddle_operation_t* second = nullptr;
  EXPECT_OK(prepare(other, &second));  // of the same request
  table.destroy(second);
  table.destroy(nullptr);
  other.add_mode("refuse");
  EXPECT_FAILS(query(other), HEDDLE_STATUS_UNIMPLEMENTED, "on purpose");
  other.attributes[1].text = string_of("fail");
  heddle_operation_properties_t older = {};
  older.struct_size = 8;  // of an older host
  EXPECT_OK(query(other, &older));
  unload();
  destroy();
  EXPECT_OK(layer().shutdown(instance, (*plugin)->shutdown));
  instance = nullptr;
  EXPECT_EQ(host.logged().find("broke a rule"), std::string::npos) << host.logged();
  EXPECT_NE(host.logged().find("calls of test.library were checked, 0 violations were found"), std::string::npos) << host.logged();
}

// ------------------------------------------------------------------------------------------------------------- the host

TEST_P(LibraryFaults, RequestsThatAreNone) {
  wrap();
  auto refused = [&](const std::string& rule, const std::function<void(Request&)>& change) {
    Request request;
    change(request);
    expect_host_fault(query(request), rule);
    heddle_operation_t* none = nullptr;
    expect_host_fault(prepare(request, &none), rule);
  };
  refused("HD-E-04", [](Request& r) { r.c.struct_size = 0; });
  refused("HD-E-04", [](Request& r) { r.c.operand_stride = 0; });
  refused("HD-E-04", [](Request& r) { r.c.attribute_stride = 0; });
  refused("HD-O-01", [](Request& r) { r.c.name = {}; });
  refused("HD-O-01", [](Request& r) { r.attributes.insert(r.attributes.begin(), r.attributes[0]); });
  refused("HD-O-01", [](Request& r) {
    r.add_mode("cheap");
    std::swap(r.attributes[0], r.attributes[1]);
    r.attributes[0].name = string_of("zebra");
  });
  refused("HD-O-01", [](Request& r) { r.attributes[0].kind = 17; });
  refused("HD-O-01", [](Request& r) { r.attributes[0].count = 2; });
  refused("HD-O-01", [](Request& r) { r.attributes[0].floats = nullptr; });
  refused("HD-M-02", [](Request& r) { r.attributes.resize(HEDDLE_MAX_ATTRIBUTES + 1, r.attributes[0]); });
  refused("HD-M-02", [](Request& r) { r.c.input_count = UINT32_MAX; });
  refused("HD-M-02", [](Request& r) { r.operands[0].rank = HEDDLE_MAX_RANK + 1; });
  refused("HD-M-02", [](Request& r) { r.operands[1].dims = nullptr; });
  refused("HD-M-02", [](Request& r) { r.extent = -1; });
  refused("HD-M-02", [](Request& r) { r.extent = INT64_MAX; });
  refused("HD-Q-02", [&](Request& r) { r.c.device = driver().device; });
  refused("HD-L-01", [&](Request& r) { r.c.device = reinterpret_cast<heddle_device_t*>(&r); });
  Request request;
  expect_host_fault(table.query(reinterpret_cast<heddle_plugin_instance_t*>(&request), request.get(), &properties), "HD-L-01");
}

TEST_P(LibraryFaults, PreparesWhatWasNotQueried) {
  wrap();
  Request request;
  EXPECT_OK(query(request));
  request.factor = 4;
  expect_host_fault(prepare(request, &operation), "HD-O-02");
  expect("the host", "HD-O-02");
  EXPECT_OK(query(request));
  EXPECT_OK(prepare(request, &operation));
}

TEST_P(LibraryFaults, LoadsOtherThanWasPrepared) {
  make();
  heddle_executable_t* own = std::exchange(executable, nullptr);
  for (auto change :
       {+[](heddle_operation_params_t& p) { p.operand_count = 3; }, +[](heddle_operation_params_t& p) { p.workspace_bytes -= 1; },
        +[](heddle_operation_params_t& p) { p.target = string_of("host/2"); }}) {
    heddle_operation_params_t params = load_params();
    change(params);
    expect_host_fault(load(params), "HD-O-02");
  }
  heddle_operation_params_t params = load_params();
  params.library = nullptr;
  expect_host_fault(load(params), "HD-M-02");
  params = load_params();
  params.operation = reinterpret_cast<heddle_operation_t*>(this);
  expect_host_fault(load(params), "HD-L-01");
  EXPECT_EQ(executable, nullptr);
  executable = own;
}

TEST_P(LibraryFaults, DispatchesOtherThanWasAskedFor) {
  make();
  const uint64_t needed = properties.workspace_bytes;
  expect_host_fault(dispatch({kBytes, kBytes, needed}, kShards + 1), "HD-O-02");
  expect_host_fault(dispatch({kBytes, kBytes, needed}, 0), "HD-O-02");
  expect_host_fault(dispatch({kBytes - 4, kBytes, needed}), "HD-O-02");
  expect_host_fault(dispatch({kBytes, kBytes - 1, needed}), "HD-O-02");
  expect_host_fault(dispatch({kBytes, kBytes, needed - 1}), "HD-O-02");
  EXPECT_OK(dispatch({kBytes, kBytes, needed}));
}

TEST_P(LibraryFaults, DestroysTwice) {
  wrap();
  Request request;
  EXPECT_OK(query(request));
  EXPECT_OK(prepare(request, &operation));
  table.destroy(operation);
  EXPECT_EQ(told(), 0u) << host.logged();
  destroy();
  expect("the host", "HD-L-01");
}

TEST_P(LibraryFaults, DestroysWhatADriverHas) {
  make();
  table.destroy(operation);  // and the plugin keeps it
  expect("the host", "HD-L-01");
  EXPECT_OK(dispatch({kBytes, kBytes, properties.workspace_bytes}));
  unload();
  destroy();
  EXPECT_EQ(told(), 1u) << host.logged();
}

// ----------------------------------------------------------------------------------------------------------- the driver

TEST_P(LibraryFaults, EnqueuesWhatIsGone) {
  make();
  heddle_operation_t* gone = operation;
  unload();
  expect_driver_fault(call_of(), "HD-L-01");
  destroy();
  const heddle_operation_call_t call = call_of();
  EXPECT_FAILS(table.enqueue(gone, &call), HEDDLE_STATUS_FAILED_PRECONDITION, "the driver broke a rule: operation is ");
}

TEST_P(LibraryFaults, EnqueuesWithOtherOperands) {
  make();
  heddle_operation_call_t call = call_of();
  EXPECT_FAILS(table.enqueue(operation, nullptr), HEDDLE_STATUS_FAILED_PRECONDITION, "[HD-E-04]");
  call.operand_count = 1;
  expect_driver_fault(call, "HD-O-02");
  call = call_of();
  call.operand_bytes = nullptr;
  expect_driver_fault(call, "HD-O-02");
  call = call_of();
  lengths[0] -= 4;
  expect_driver_fault(call, "HD-O-02");
  lengths[0] += 4;
  operands[0] = nullptr;
  expect_driver_fault(call, "HD-M-02");
  operands[0] = static_cast<char*>(address(x)) + 4;  // its last byte is behind the buffer's
  expect_driver_fault(call, "HD-M-02");
  operands[0] = operands[1];  // is written meanwhile
  expect_driver_fault(call, "HD-O-03");
  operands[0] = address(x);
  call.stream = 7;
  expect_driver_fault(call, "HD-O-04");
  EXPECT_OK(enqueue(call_of()));
}

TEST_P(LibraryFaults, EnqueuesShardsThatAreNot) {
  make();
  for (const auto& [first, last] : {std::pair<uint64_t, uint64_t>{0, kShards + 1}, {1, 1}, {2, 1}, {UINT64_MAX, 0}}) {
    heddle_operation_call_t call = call_of();
    call.first_shard = first;
    call.last_shard = last;
    expect_driver_fault(call, "HD-O-02");
  }
}

TEST_P(LibraryFaults, EnqueuesWithAnotherWorkspace) {
  make();
  heddle_operation_call_t call = call_of();
  call.workspace_bytes -= 1;
  expect_driver_fault(call, "HD-O-02");
  call = call_of();
  call.workspace = static_cast<char*>(call.workspace) + 64;
  expect_driver_fault(call, "HD-O-02");
  call.workspace = nullptr;
  expect_driver_fault(call, "HD-M-02");
  call = call_of();
  call.workspace = static_cast<char*>(call.workspace) + 4096 + properties.workspace_alignment_bytes;  // ends behind its buffer
  expect_driver_fault(call, "HD-M-02");
}

TEST_P(LibraryFaults, EnqueuesTheSameMemoryAtOnce) {
  static std::atomic<int> inside{0};
  static std::atomic<bool> leave{false};
  inside = 0;
  leave = false;
  bad_library.enqueue = [](heddle_operation_t*, const heddle_operation_call_t*) noexcept -> heddle_status_t* {
    ++inside;
    while (!leave) std::this_thread::yield();
    return nullptr;
  };
  make();
  heddle_operation_call_t first = call_of();
  first.last_shard = 1;
  std::thread other([&] { EXPECT_OK(enqueue(first)); });
  while (inside == 0) std::this_thread::yield();
  expect_driver_fault(first, "HD-O-03");  // the same shard of the same call
  // Another call, with outputs of its own, and the same workspace.
  std::vector<float> out(kElements);
  std::vector<void*> others = {operands[0], out.data()};
  heddle_operation_call_t second = call_of();
  second.operands = others.data();
  expect_driver_fault(second, "HD-O-03");
  table.destroy(operation);  // while it runs
  heddle_operation_call_t rest = call_of();
  rest.first_shard = 1;
  leave = true;
  EXPECT_OK(enqueue(rest));
  other.join();
  EXPECT_EQ(inside, 2);
  EXPECT_EQ(told(), 4u) << host.logged();  // of destroy two: a call and an executable
}

// ----------------------------------------------------------------------------------------------------------- the plugin

TEST_P(LibraryFaults, RefusesAndLeavesAnAnswer) {
  bad_library.query = [](heddle_plugin_instance_t* of, const heddle_operation_request_t* request,
                         heddle_operation_properties_t* out) noexcept {
    heddle_status_t* status = good_library.query(of, request, out);
    out->workspace_bytes = 100;
    return status;
  };
  wrap();
  Request request;
  request.add_mode("refuse");
  EXPECT_FAILS(query(request), HEDDLE_STATUS_UNIMPLEMENTED, "on purpose");  // its own failure stays
  expect("the plugin", "HD-E-07");
}

TEST_P(LibraryFaults, WritesBeyondItsAnswer) {
  bad_library.query = [](heddle_plugin_instance_t* of, const heddle_operation_request_t* request,
                         heddle_operation_properties_t* out) noexcept {
    heddle_status_t* status = good_library.query(of, request, out);
    std::memset(reinterpret_cast<char*>(out) + out->struct_size, 1, 4);
    return status;
  };
  wrap();
  Request request;
  EXPECT_FAILS(query(request), HEDDLE_STATUS_INTERNAL, "the plugin broke a rule");
  expect("the plugin", "HD-E-04");
}

TEST_P(LibraryFaults, AnswersOtherwiseTheSecondTime) {
  static uint64_t more;
  more = 0;
  bad_library.query = [](heddle_plugin_instance_t* of, const heddle_operation_request_t* request,
                         heddle_operation_properties_t* out) noexcept {
    heddle_status_t* status = good_library.query(of, request, out);
    out->workspace_bytes += 64 * more++;
    return status;
  };
  wrap();
  Request request;
  EXPECT_OK(query(request));
  EXPECT_FAILS(query(request), HEDDLE_STATUS_INTERNAL, "the same request had 24 and 3 before");
  expect("the plugin", "HD-O-02");
}

TEST_P(LibraryFaults, AsksForAWorkspaceThatCannotBe) {
  wrap();
  Request request;
  request.add_mode("odd_workspace");
  EXPECT_FAILS(query(request), HEDDLE_STATUS_INTERNAL, "workspace_alignment_bytes is 3, not a power of two up to 4096");
  expect("the plugin", "HD-O-02");
}

TEST_P(LibraryFaults, RefusesToPrepareWhatItTakes) {
  bad_library.prepare = [](heddle_plugin_instance_t*, const heddle_operation_request_t*, heddle_operation_t** out) noexcept {
    *out = nullptr;
    return refuse(HEDDLE_STATUS_UNIMPLEMENTED, "not today");
  };
  wrap();
  Request request;
  EXPECT_OK(query(request));
  EXPECT_FAILS(prepare(request, &operation), HEDDLE_STATUS_UNIMPLEMENTED, "not today");
  expect("the plugin", "HD-O-02");
}

TEST_P(LibraryFaults, PreparesNothingOrTheSame) {
  static heddle_operation_t* first;
  bad_library.prepare = [](heddle_plugin_instance_t*, const heddle_operation_request_t*, heddle_operation_t** out) noexcept {
    *out = first;
    return static_cast<heddle_status_t*>(nullptr);
  };
  wrap();
  Request request;
  EXPECT_OK(query(request));
  first = nullptr;
  EXPECT_FAILS(prepare(request, &operation), HEDDLE_STATUS_INTERNAL, "[HD-E-07]");
  expect("the plugin", "HD-E-07");
  EXPECT_OK(good_library.prepare(instance, request.get(), &first));
  EXPECT_OK(prepare(request, &operation));
  heddle_operation_t* second = nullptr;
  EXPECT_FAILS(prepare(request, &second), HEDDLE_STATUS_INTERNAL, "but that one is live");
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(told(), 2u) << host.logged();
}

TEST_P(LibraryFaults, WritesBesideItsWorkspace) {
  static int64_t where;
  bad_library.enqueue = [](heddle_operation_t* of, const heddle_operation_call_t* call) noexcept {
    static_cast<char*>(call->workspace)[where] = 1;
    return good_library.enqueue(of, call);
  };
  make();
  for (const auto& [at, text] : {std::pair<int64_t, const char*>{-1, "in front of its workspace of 24 bytes, at byte -1"},
                                 {-256, "in front of its workspace of 24 bytes, at byte -256"},
                                 {24, "behind its workspace of 24 bytes, at byte 24"},
                                 {24 + 255, "behind its workspace of 24 bytes, at byte 279"}}) {
    where = at;
    EXPECT_FAILS(enqueue(call_of()), HEDDLE_STATUS_INTERNAL, text);
  }
  EXPECT_EQ(told(), 4u) << host.logged();
  EXPECT_FAILS(dispatch({kBytes, kBytes, properties.workspace_bytes}), HEDDLE_STATUS_INTERNAL, "[HD-O-03]");
  const uint64_t before = told();
  where = 23;
  EXPECT_OK(enqueue(call_of()));
  EXPECT_EQ(told(), before) << host.logged();
}

TEST_P(LibraryFaults, AllocatesInEnqueue) {
  bad_library.enqueue = [](heddle_operation_t* of, const heddle_operation_call_t* call) noexcept {
    library_host.memory_free(library_host.self, library_host.memory_allocate(library_host.self, 64, 64));
    return good_library.enqueue(of, call);
  };
  make();
  EXPECT_FAILS(enqueue(call_of()), HEDDLE_STATUS_INTERNAL, "it called the host's memory_allocate");
  expect("the plugin", "HD-O-03");
}

TEST_P(LibraryFaults, CallsTheHostInEnqueue) {
  bad_library.enqueue = [](heddle_operation_t* of, const heddle_operation_call_t* call) noexcept {
    library_host.log(library_host.self, HEDDLE_LOG_INFO, {}, 0, string_of("hello"));
    return good_library.enqueue(of, call);
  };
  make();
  EXPECT_FAILS(enqueue(call_of()), HEDDLE_STATUS_INTERNAL, "it called the host's log");
  expect("the plugin", "HD-O-03");
  EXPECT_NE(host.logged().find("hello"), std::string::npos);  // it goes on
}

TEST_P(LibraryFaults, WaitsInEnqueue) {
  bad_library.enqueue = [](heddle_operation_t* of, const heddle_operation_call_t* call) noexcept {
    std::this_thread::sleep_for(kTooLong);
    return good_library.enqueue(of, call);
  };
  make();
  EXPECT_OK(enqueue(call_of()));
  expect("the plugin", "HD-O-03");
}

TEST_P(LibraryFaults, MayWorkForLong) {
  bad_library.enqueue = [](heddle_operation_t* of, const heddle_operation_call_t* call) noexcept {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < kTooLong) continue;
    return good_library.enqueue(of, call);
  };
  make();
  EXPECT_OK(enqueue(call_of()));
  EXPECT_EQ(told(), 0u) << host.logged();
}

TEST_P(LibraryFaults, ChangesTheDriversThread) {
  bad_library.enqueue = [](heddle_operation_t* of, const heddle_operation_call_t* call) noexcept {
    heddle_status_t* status = good_library.enqueue(of, call);
    errno = EAGAIN;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, nullptr);
    _mm_setcsr(_mm_getcsr() | 0x8040);
    return status;
  };
  make();
  errno = 0;
  EXPECT_OK(enqueue(call_of()));
  EXPECT_EQ(errno, 0);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGUSR2), 0);
  EXPECT_EQ(_mm_getcsr() & 0x8040, 0u);
  expect("the plugin", "HD-T-02");
  for (const char* what : {"errno, to 11", "the signal mask", "the floating-point environment"}) {
    EXPECT_NE(host.logged().find(what), std::string::npos) << host.logged();
  }
}

TEST_P(LibraryFaults, FailsWithAStatusThatSaysNothing) {
  bad_library.enqueue = [](heddle_operation_t*, const heddle_operation_call_t*) noexcept { return refuse(HEDDLE_STATUS_INTERNAL, ""); };
  make();
  EXPECT_FAILS(enqueue(call_of()), HEDDLE_STATUS_INTERNAL, "");
  expect("the plugin", "HD-S-01");
}

TEST_P(LibraryFaults, ShutsDownWithOperations) {
  make();
  unload();
  EXPECT_OK(layer().shutdown(instance, [](heddle_plugin_instance_t*) -> heddle_status_t* { return nullptr; }));
  EXPECT_NE(host.logged().find("it shut down with 1 live devices, allocators or operations [HD-L-01]"), std::string::npos) << host.logged();
  good_library.destroy(std::exchange(operation, nullptr));
  EXPECT_OK((*plugin)->shutdown(std::exchange(instance, nullptr)));
}

}  // namespace
}  // namespace heddle::test
