// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the building blocks of plugins answer to an author's mistakes: an option or an attribute of another type, memory that the host cannot reach.
#include "heddle/sdk/driver.h"
#include "heddle/sdk/library.h"
#include "heddle/sdk/options.h"
#include "plugin_host.h"

namespace heddle::test {
namespace {

class Sdk : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(PluginHost::live_statuses().load(), 0); }
  PluginHost host;
};

TEST_F(Sdk, OptionsAreReadByTheirType) {
  host.set_int("count", 7);
  host.set_bool("pin", true);
  host.set_float("share", 0.25);
  host.set_string("level", "v4");
  uint32_t count = 0;
  bool pin = false;
  double share = 0;
  std::string level;
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "count", 1, 8, &count)).ok());
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "pin", &pin)).ok());
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "share", &share)).ok());
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "level", &level)).ok());
  EXPECT_EQ(count, 7u);
  EXPECT_TRUE(pin);
  EXPECT_EQ(share, 0.25);
  EXPECT_EQ(level, "v4");
}

TEST_F(Sdk, AnOptionThatIsNotDeclaredChangesNothing) {
  uint64_t memory = 42;
  bool pin = true;
  std::string level = "v3";
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "memory", 0, 1, &memory)).ok());
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "pin", &pin)).ok());
  EXPECT_TRUE(Result(sdk::read_option(host.table(), "loom", "level", &level)).ok());
  EXPECT_EQ(memory, 42u);
  EXPECT_TRUE(pin);
  EXPECT_EQ(level, "v3");
}

TEST_F(Sdk, AnOptionOfAnotherTypeIsRefused) {
  host.set_string("memory", "8GiB");
  host.set_bool("pin", true);
  host.set_int("share", 1);
  uint64_t memory = 42;
  Result number(sdk::read_option(host.table(), "loom", "memory", 0, INT64_MAX, &memory));
  EXPECT_EQ(number.code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(number.message(),
            "loom: reading option memory failed: the manifest declares a string, but an integer is required; write type = \"bytes\" or "
            "\"int\" there");
  EXPECT_EQ(memory, 42u);
  double share = 0.5;
  EXPECT_EQ(Result(sdk::read_option(host.table(), "loom", "share", &share)).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(share, 0.5);
  std::string pin = "none";
  EXPECT_EQ(Result(sdk::read_option(host.table(), "loom", "pin", &pin)).code(), HEDDLE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(pin, "none");
}

TEST_F(Sdk, OptionsAreBounded) {
  host.set_int("count", 9);
  uint32_t count = 3;
  Result refused(sdk::read_option(host.table(), "loom", "count", 1, 8, &count));
  EXPECT_EQ(refused.message(), "loom: reading option count failed: 9 is not in 1 to 8");
  EXPECT_EQ(count, 3u);
}

// What query answers to a record with this one attribute, of an operator that takes a value of each kind.
std::string refusal_of(const heddle_host_t* host, heddle_attribute_t attribute) {
  attribute.struct_size = sizeof attribute;
  heddle_operation_request_t request = {};
  request.struct_size = sizeof request;
  request.version = 3;
  request.domain = string_of("com.acme");
  request.name = string_of("Whiten");
  request.attributes = &attribute;
  request.attribute_count = 1;
  request.attribute_stride = sizeof attribute;
  sdk::OperationRequest read;
  EXPECT_TRUE(Result(read.read(host, &request)).ok());
  Result status(read.expect(0, 0,
                            {{"axis", HEDDLE_ATTRIBUTE_INT},
                             {"epsilon", HEDDLE_ATTRIBUTE_FLOAT},
                             {"mode", HEDDLE_ATTRIBUTE_STRING},
                             {"axes", HEDDLE_ATTRIBUTE_INTS},
                             {"scales", HEDDLE_ATTRIBUTE_FLOATS}}));
  EXPECT_EQ(status.code(), status.message().empty() ? HEDDLE_STATUS_OK : HEDDLE_STATUS_UNIMPLEMENTED);
  return status.message();
}

TEST_F(Sdk, AnAttributeOfAnotherKindIsRefused) {
  const int64_t one = 1;
  const double half = 0.5;
  auto named = [](const char* name, uint32_t kind) { return heddle_attribute_t{0, kind, string_of(name), 1, nullptr, nullptr, {}}; };
  auto an_int = [&](const char* name, uint32_t kind = HEDDLE_ATTRIBUTE_INT) {
    heddle_attribute_t attribute = named(name, kind);
    attribute.ints = &one;
    return attribute;
  };
  auto a_float = [&](const char* name, uint32_t kind = HEDDLE_ATTRIBUTE_FLOAT) {
    heddle_attribute_t attribute = named(name, kind);
    attribute.floats = &half;
    return attribute;
  };
  auto refused = [&](const heddle_attribute_t& attribute) { return refusal_of(host.table(), attribute); };
  EXPECT_EQ(refused(an_int("epsilon")), "com.acme::Whiten/3: attribute 'epsilon' is an int; a float was expected [HD-O-01]");
  EXPECT_EQ(refused(a_float("axis")), "com.acme::Whiten/3: attribute 'axis' is a float; an int was expected [HD-O-01]");
  EXPECT_EQ(refused(an_int("axes")), "com.acme::Whiten/3: attribute 'axes' is an int; a list of ints was expected [HD-O-01]");
  EXPECT_EQ(refused(named("scales", HEDDLE_ATTRIBUTE_STRING)),
            "com.acme::Whiten/3: attribute 'scales' is a string; a list of floats was expected [HD-O-01]");
  EXPECT_EQ(refused(a_float("mode", HEDDLE_ATTRIBUTE_FLOATS)),
            "com.acme::Whiten/3: attribute 'mode' is a list of floats; a string was expected [HD-O-01]");
  EXPECT_EQ(refused(named("axis", 77)),
            "com.acme::Whiten/3: attribute 'axis' is of a kind that is not known here; an int was expected [HD-O-01]");
  EXPECT_EQ(refused(an_int("seed")), "com.acme::Whiten/3: attribute 'seed' is not known [HD-O-01]");
  for (const heddle_attribute_t& good : {an_int("axis"), a_float("epsilon"), named("mode", HEDDLE_ATTRIBUTE_STRING),
                                         an_int("axes", HEDDLE_ATTRIBUTE_INTS), a_float("scales", HEDDLE_ATTRIBUTE_FLOATS)}) {
    EXPECT_EQ(refused(good), "");
  }
}

// A device whose memory only it can reach.
class FarDevice : public sdk::Device {
 public:
  using sdk::Device::Device;
  heddle_status_t* allocate(const heddle_buffer_params_t&, sdk::Buffer**) override { return nullptr; }
  heddle_status_t* make_queue(const heddle_queue_params_t&, sdk::Queue**) override { return nullptr; }
  uint32_t rank(std::string_view, std::string_view) override { return 0; }
  heddle_status_t* load(const sdk::Code&, sdk::Executable**) override { return nullptr; }
};

class FarDriver : public sdk::Driver {
 public:
  using sdk::Driver::Driver;
  uint32_t device_count() override { return 1; }
  heddle_status_t* describe(uint32_t, heddle_device_description_t*) override { return nullptr; }
  heddle_status_t* open(uint32_t, const heddle_device_open_params_t&, sdk::Device**) override { return nullptr; }
};

TEST_F(Sdk, RunOnHostRefusesMemoryThatTheHostCannotReach) {
  using Kind = sdk::Operation::Kind;
  const heddle_driver_api_t api = {};
  FarDriver driver(host.table(), "loom");
  FarDevice device(&driver, 0, &api);
  sdk::Buffer far(&device, 4096, HEDDLE_MEMORY_DEVICE, 64);
  char bytes[64] = {};
  for (Kind kind : {Kind::kCopy, Kind::kFill, Kind::kUpdate, Kind::kCopy2d, Kind::kUpload, Kind::kDownload}) {
    sdk::Operation operation;
    operation.kind = kind;
    operation.ranges.assign(kind == Kind::kCopy || kind == Kind::kCopy2d ? 2 : 1, {&far, 0, 64});
    operation.bytes.resize(64);
    operation.pattern_bytes = 1;
    operation.rows = 1;
    operation.row_bytes = 64;
    operation.host_source = operation.host_target = bytes;
    Result refused(sdk::run_on_host(&device, operation));
    EXPECT_EQ(refused.code(), HEDDLE_STATUS_FAILED_PRECONDITION) << static_cast<int>(kind);
    EXPECT_NE(refused.message().find(" 64 bytes failed: the host cannot reach this buffer; do it in Queue::enqueue"), std::string::npos)
        << refused.message();
    for (sdk::Range& range : operation.ranges) range.length = 0;
    operation.rows = 0;
    operation.bytes.clear();
    EXPECT_TRUE(Result(sdk::run_on_host(&device, operation)).ok()) << static_cast<int>(kind);
  }
  sdk::Operation barrier;
  EXPECT_TRUE(Result(sdk::run_on_host(&device, barrier)).ok());
  sdk::Operation dispatch;
  dispatch.kind = Kind::kDispatch;
  Result refused(sdk::run_on_host(&device, dispatch));
  EXPECT_EQ(refused.code(), HEDDLE_STATUS_FAILED_PRECONDITION);
  EXPECT_NE(refused.message().find("run_on_host runs no kernels"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace heddle::test
