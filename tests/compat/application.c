/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The smallest application that works with a device: report, tensors there and back, a call of the module of kernels_module.cpp, the
 * allocator's statistics. Built against the headers of each minor and run with the libheddle of each; knows runtime.h alone, as of ABI 0.1.
 *
 * usage: application report PLUGINS TOPIC
 *        application run PLUGINS DEVICE MODULE CONFIG       a line "STEP: ok" for each step
 *        application tails PLUGINS DEVICE MODULE CONFIG     the same with option structs that are larger than the library's (of the next minor)
 * PLUGINS is a folder with manifests, CONFIG the text of a heddle.toml. Exit: 0, 1 after "STEP: what failed", 2 for a mistake in the arguments. */
#include <heddle/runtime.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT 64

static heddle_string_t text_of(const char* text) {
  heddle_string_t made = {text, strlen(text)};
  return made;
}

/* Says how the step went; 1 if it failed. */
static int failed(const char* step, heddle_status_t* status) {
  if (status) {
    const heddle_string_t name = heddle_status_code_name(heddle_status_code(status)), message = heddle_status_message(status);
    printf("%s: %.*s: %.*s\n", step, (int)name.size, name.data, (int)message.size, message.data);
    heddle_status_free(status);
    return 1;
  }
  printf("%s: ok\n", step);
  return 0;
}

static int wrong(const char* step, const char* what) {
  printf("%s: %s\n", step, what);
  return 1;
}

static heddle_status_t* open_runtime(const char* plugins, const char* config, heddle_runtime_t** out) {
  static heddle_string_t path; /* the runtime copies what it keeps */
  heddle_runtime_params_t params;
  memset(&params, 0, sizeof params);
  path = text_of(plugins);
  params.struct_size = sizeof params;
  params.flags = HEDDLE_RUNTIME_NO_CONFIG;
  params.config_text = text_of(config);
  params.plugin_path_count = 1;
  params.plugin_paths = &path;
  return heddle_runtime_create(&params, out);
}

static int report(const char* plugins, const char* topic) {
  heddle_runtime_t* runtime = NULL;
  heddle_text_t* text = NULL;
  heddle_status_t* status = open_runtime(plugins, "", &runtime);
  if (!status) status = heddle_runtime_report(runtime, text_of(topic), &text);
  if (status) return failed("report", status);
  const heddle_string_t json = heddle_text_view(text);
  printf("%.*s\n", (int)json.size, json.data);
  heddle_text_free(text);
  heddle_runtime_release(runtime);
  return 0;
}

/* Calls function with `input`; compares all three results. */
static int call(const char* step, heddle_function_t* function, heddle_tensor_t* input, const float* values) {
  heddle_tensor_t* results[3] = {NULL, NULL, NULL};
  float read[COUNT];
  int bad = failed(step, heddle_call(function, &input, 1, results, 3));
  for (int r = 0; r < 3 && !bad; ++r) {
    heddle_status_t* status = heddle_tensor_read(results[r], read, sizeof read);
    if (status) bad = failed(step, status);
    for (int i = 0; i < COUNT && !bad; ++i) {
      const float expected = r == 0 ? values[i] + 0.5f * (float)i : r == 1 ? values[i] : 1.0f;
      if (fabsf(read[i] - expected) > 0) {
        printf("%s: result %d has %g at %d; %g was expected\n", step, r, read[i], i, expected);
        bad = 1;
      }
    }
  }
  for (int r = 0; r < 3; ++r) heddle_tensor_release(results[r]);
  return bad;
}

/* The same without waiting, with the struct of options. */
static heddle_status_t* start(heddle_function_t* function, heddle_tensor_t* input, const heddle_call_params_t* params) {
  heddle_tensor_t* results[3] = {NULL, NULL, NULL};
  heddle_call_t* started = NULL;
  heddle_status_t* status = heddle_call_start(function, params, &input, 1, results, 3, &started);
  if (!status) {
    status = heddle_call_wait(started, UINT64_C(60000000000));
    heddle_call_release(started);
  }
  for (int r = 0; r < 3; ++r) heddle_tensor_release(results[r]);
  return status;
}

static int run(const char* plugins, const char* device, const char* module_path, const char* config) {
  heddle_runtime_t* runtime = NULL;
  heddle_module_t* module = NULL;
  heddle_instance_t* instance = NULL;
  heddle_function_t* function = NULL;
  heddle_tensor_t* input = NULL;
  heddle_text_t* text = NULL;
  const int64_t dims[1] = {COUNT};
  float values[COUNT], back[COUNT];
  int bad = 1;
  for (int i = 0; i < COUNT; ++i) values[i] = (float)(i * i) / 8;

  if (failed("runtime", open_runtime(plugins, config, &runtime))) goto done;
  if (failed("module", heddle_module_open(runtime, text_of(module_path), NULL, &module))) goto done;
  const heddle_slot_binding_t slot = {{NULL, 0}, text_of(device)};
  heddle_instance_params_t params;
  memset(&params, 0, sizeof params);
  params.struct_size = sizeof params;
  params.slot_count = 1;
  params.slots = &slot;
  if (failed("instance", heddle_instance_create(module, &params, &instance))) goto done;
  if (failed("function", heddle_instance_function(instance, text_of("main"), &function))) goto done;
  heddle_tensor_type_t type;
  memset(&type, 0, sizeof type);
  type.struct_size = sizeof type;
  if (failed("type", heddle_function_argument(function, 0, &type))) goto done;
  if (type.struct_size != sizeof type || type.element_type != HEDDLE_TYPE_F32 || type.rank != 1 || type.dims[0] != COUNT) {
    wrong("type", "the argument is not 64 floats");
    goto done;
  }
  if (failed("buffer", heddle_tensor_from_host(function, 0, HEDDLE_TYPE_F32, dims, 1, values, sizeof values, &input))) goto done;
  if (failed("round trip", heddle_tensor_read(input, back, sizeof back))) goto done;
  if (memcmp(values, back, sizeof back) != 0) {
    wrong("round trip", "the bytes came back changed");
    goto done;
  }
  for (int i = 0; i < 4; ++i) { /* the third one is recorded where the device can */
    if (call("call", function, input, values)) goto done;
  }
  heddle_call_params_t call_params;
  memset(&call_params, 0, sizeof call_params);
  call_params.struct_size = sizeof call_params;
  if (failed("start", start(function, input, &call_params))) goto done;
  if (failed("statistics", heddle_instance_report(instance, text_of("statistics"), &text))) goto done;
  const heddle_string_t json = heddle_text_view(text);
  printf("statistics are %.*s\n", (int)json.size, json.data);
  bad = 0;
done:
  heddle_text_free(text);
  heddle_tensor_release(input);
  heddle_instance_release(instance);
  heddle_module_release(module);
  heddle_runtime_release(runtime);
  return bad;
}

#ifdef HEDDLE_NEXT_MINOR
/* The call with a tail of zeros works; with a value there it is INVALID_ARGUMENT, and the text names the byte. */
#define TAIL(name, params, make)                                                                       \
  do {                                                                                                 \
    char expected[64];                                                                                 \
    (params).later_number = 0;                                                                         \
    if (failed(name " with a tail of zeros", (make))) return 1;                                        \
    (params).later_number = 1;                                                                         \
    heddle_status_t* refused = (make);                                                                 \
    const size_t byte = (size_t)((const char*)&(params).later_number - (const char*)&(params));        \
    snprintf(expected, sizeof expected, "byte %zu", byte);                                             \
    if (!refused) return wrong(name " with a tail", "it was accepted");                                \
    const heddle_string_t said = heddle_status_message(refused);                                       \
    char message[512];                                                                                 \
    snprintf(message, sizeof message, "%.*s", (int)said.size, said.data);                              \
    if (heddle_status_code(refused) != HEDDLE_STATUS_INVALID_ARGUMENT || !strstr(message, expected)) { \
      return failed(name " with a tail", refused);                                                     \
    }                                                                                                  \
    heddle_status_free(refused);                                                                       \
    printf(name " with a tail: ok\n");                                                                 \
    (params).later_number = 0;                                                                         \
  } while (0)

static heddle_status_t* make_runtime(const heddle_runtime_params_t* params) {
  heddle_runtime_t* runtime = NULL;
  heddle_status_t* status = heddle_runtime_create(params, &runtime);
  heddle_runtime_release(runtime);
  return status;
}
static heddle_status_t* make_module(heddle_runtime_t* runtime, const char* path, const heddle_module_params_t* params) {
  heddle_module_t* module = NULL;
  heddle_status_t* status = heddle_module_open(runtime, text_of(path), params, &module);
  heddle_module_release(module);
  return status;
}
static heddle_status_t* make_instance(heddle_module_t* module, const heddle_instance_params_t* params) {
  heddle_instance_t* instance = NULL;
  heddle_status_t* status = heddle_instance_create(module, params, &instance);
  heddle_instance_release(instance);
  return status;
}

static int tails(const char* plugins, const char* device, const char* module_path, const char* config) {
  const heddle_string_t path = text_of(plugins);
  const heddle_slot_binding_t slot = {{NULL, 0}, text_of(device)};
  const int64_t dims[1] = {COUNT};
  const float values[COUNT] = {0};
  heddle_runtime_t* runtime = NULL;
  heddle_module_t* module = NULL;
  heddle_instance_t* instance = NULL;
  heddle_function_t* function = NULL;
  heddle_tensor_t* input = NULL;

  heddle_runtime_params_t runtime_params;
  memset(&runtime_params, 0, sizeof runtime_params);
  runtime_params.struct_size = sizeof runtime_params;
  runtime_params.flags = HEDDLE_RUNTIME_NO_CONFIG;
  runtime_params.config_text = text_of(config);
  runtime_params.plugin_path_count = 1;
  runtime_params.plugin_paths = &path;
  TAIL("heddle_runtime_params", runtime_params, make_runtime(&runtime_params));
  if (failed("runtime", heddle_runtime_create(&runtime_params, &runtime))) return 1;

  heddle_module_params_t module_params;
  memset(&module_params, 0, sizeof module_params);
  module_params.struct_size = sizeof module_params;
  TAIL("heddle_module_params", module_params, make_module(runtime, module_path, &module_params));
  if (failed("module", heddle_module_open(runtime, text_of(module_path), &module_params, &module))) return 1;

  heddle_instance_params_t instance_params;
  memset(&instance_params, 0, sizeof instance_params);
  instance_params.struct_size = sizeof instance_params;
  instance_params.slot_count = 1;
  instance_params.slots = &slot;
  TAIL("heddle_instance_params", instance_params, make_instance(module, &instance_params));
  if (failed("instance", heddle_instance_create(module, &instance_params, &instance))) return 1;
  if (failed("function", heddle_instance_function(instance, text_of("main"), &function))) return 1;

  /* An output: the library writes what it knows, and leaves its end alone. */
  heddle_tensor_type_t type;
  memset(&type, 0x5a, sizeof type);
  type.struct_size = sizeof type;
  if (failed("heddle_tensor_type", heddle_function_argument(function, 0, &type))) return 1;
  if (type.rank != 1 || type.later_number != UINT64_C(0x5a5a5a5a5a5a5a5a)) {
    return wrong("heddle_tensor_type", "the library wrote to an end that it does not know");
  }
  if (failed("buffer", heddle_tensor_from_host(function, 0, HEDDLE_TYPE_F32, dims, 1, values, sizeof values, &input))) return 1;
  heddle_call_params_t call_params;
  memset(&call_params, 0, sizeof call_params);
  call_params.struct_size = sizeof call_params;
  TAIL("heddle_call_params", call_params, start(function, input, &call_params));
  heddle_tensor_release(input);
  heddle_instance_release(instance);
  heddle_module_release(module);
  heddle_runtime_release(runtime);
  return 0;
}
#endif

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc == 4 && strcmp(argv[1], "report") == 0) return report(argv[2], argv[3]);
  if (argc == 6 && strcmp(argv[1], "run") == 0) return run(argv[2], argv[3], argv[4], argv[5]);
#ifdef HEDDLE_NEXT_MINOR
  if (argc == 6 && strcmp(argv[1], "tails") == 0) return tails(argv[2], argv[3], argv[4], argv[5]);
#endif
  fprintf(stderr, "usage: application report PLUGINS TOPIC\n       application run PLUGINS DEVICE MODULE CONFIG\n");
  return 2;
}
