/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Text, byte by byte, from a compiled step of a language model whose tokens are bytes, as generate.py makes one. Knows runtime.h only.
 *
 *   python sdk/examples/generate.py --save step.heddle
 *   cc sdk/examples/generate.c -I PREFIX/include -L PREFIX/lib -lheddle -Wl,-rpath,PREFIX/lib -o generate
 *   ./generate step.heddle 512 "The runtime " 100 0.7
 *
 * The arguments are the module, the places of its caches, the beginning of the text, the number of bytes that follow it, and the temperature (0: always the
 * likeliest byte). The caches are a state of the module and stay on the device, as do the tokens: each step reads the one that the step before it chose. The
 * program is one step ahead of what it prints, so the device never waits for it. PREFIX is where `cmake --install` put Heddle. */
#include <heddle/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The arguments of a step, in the order of its signature. */
enum { kTokens, kPast, kMask, kTemperature, kTopK, kTopP, kSeed, kArguments };
enum { kNext, kLongerPast, kResults };
/* The places that are attended to are a multiple of this number, so that few calls have new shapes. */
#define WINDOW 64

/* Prints a failure and frees its status. Returns 1 if there was a failure. */
static int failed(heddle_status_t* status) {
  if (!status) return 0;
  heddle_string_t message = heddle_status_message(status);
  fprintf(stderr, "%.*s\n", (int)message.size, message.data);
  heddle_status_free(status);
  return 1;
}

static int is_step(const heddle_function_t* function) {
  static const char* const names[kArguments] = {"tokens", "past", "mask", "temperature", "top_k", "top_p", "seed"};
  if (heddle_function_argument_count(function) != kArguments || heddle_function_result_count(function) != kResults) return 0;
  for (uint32_t i = 0; i < kArguments; ++i) {
    heddle_tensor_type_t type;
    memset(&type, 0, sizeof(type));
    type.struct_size = sizeof(type);
    if (failed(heddle_function_argument(function, i, &type))) return 0;
    if (type.name.size != strlen(names[i]) || memcmp(type.name.data, names[i], type.name.size) != 0) return 0;
  }
  return 1;
}

/* A tensor of i64. */
static heddle_status_t* whole_numbers(heddle_function_t* function, uint32_t argument, const int64_t* dims, uint32_t rank,
                                      const int64_t* values, heddle_tensor_t** out) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i) count *= (uint64_t)dims[i];
  return heddle_tensor_from_host(function, argument, HEDDLE_TYPE_I64, dims, rank, values, count * sizeof(int64_t), out);
}

/* The mask for so many places: all of the window are attended to, except those behind the token, which the step leaves out. Replaces *out if the window is
 * another one. */
static heddle_status_t* mask_for(heddle_function_t* function, int64_t places, int64_t capacity, int64_t* window, heddle_tensor_t** out) {
  int64_t size = (places + WINDOW - 1) / WINDOW * WINDOW;
  if (size > capacity) size = capacity;
  if (size == *window) return NULL;
  int64_t* ones = malloc((size_t)size * sizeof(int64_t));
  if (!ones) abort();
  for (int64_t i = 0; i < size; ++i) ones[i] = 1;
  heddle_tensor_release(*out);
  *out = NULL;
  *window = size;
  const int64_t dims[2] = {1, size};
  heddle_status_t* status = whole_numbers(function, kMask, dims, 2, ones, out);
  free(ones);
  return status;
}

static heddle_status_t* print_byte(heddle_tensor_t* next) {
  int64_t token = 0;
  heddle_status_t* status = heddle_tensor_read(next, &token, sizeof(token));
  if (!status) {
    putchar((int)token);
    fflush(stdout);
  }
  return status;
}

int main(int argc, char** argv) {
  heddle_runtime_t* runtime = NULL;
  heddle_module_t* module = NULL;
  heddle_instance_t* instance = NULL;
  heddle_function_t* function = NULL; /* borrowed from the instance */
  heddle_state_t* state = NULL;
  heddle_tensor_t *arguments[kArguments] = {0}, *results[kResults] = {0};
  int64_t* bytes = NULL;
  int code = 1;

  if (argc != 6) {
    fprintf(stderr, "usage: generate step.heddle CAPACITY TEXT COUNT TEMPERATURE\n");
    return 2;
  }
  const heddle_string_t path = {argv[1], strlen(argv[1])}, main_function = {"", 0}; /* the only one, or "main" */
  const int64_t capacity = atoll(argv[2]), length = (int64_t)strlen(argv[3]), count = atoll(argv[4]), one = 1, two[2] = {1, length};
  const float temperature = (float)atof(argv[5]), top_p = 1;
  const int64_t past = 0, top_k = 0, seed = 1;
  int64_t places = length, window = 0;
  if (length < 1 || count < 1 || count > capacity || length + count - 1 > capacity) {
    fprintf(stderr, "generate: a text of 1 to %lld bytes is needed, with what follows it\n", (long long)capacity);
    return 2;
  }

  /* Another session with the same weights would be another state. */
  if (failed(heddle_runtime_create(NULL, &runtime))) goto done;
  if (failed(heddle_module_open(runtime, path, NULL, &module))) goto done;
  if (failed(heddle_instance_create(module, NULL, &instance))) goto done;
  if (failed(heddle_instance_function(instance, main_function, &function))) goto done;
  if (!is_step(function)) {
    fprintf(stderr, "generate: %s is not a step of generation; generate.py --save makes one\n", argv[1]);
    goto done;
  }
  if (failed(heddle_state_create(instance, &state))) goto done;

  /* A byte is a token. */
  bytes = malloc((size_t)length * sizeof(*bytes));
  if (!bytes) abort();
  for (int64_t i = 0; i < length; ++i) bytes[i] = (unsigned char)argv[3][i];
  if (failed(whole_numbers(function, kTokens, two, 2, bytes, &arguments[kTokens]))) goto done;
  if (failed(whole_numbers(function, kPast, &one, 1, &past, &arguments[kPast]))) goto done;
  if (failed(
          heddle_tensor_from_host(function, kTemperature, HEDDLE_TYPE_F32, &one, 1, &temperature, sizeof(float), &arguments[kTemperature])))
    goto done;
  if (failed(whole_numbers(function, kTopK, &one, 1, &top_k, &arguments[kTopK]))) goto done;
  if (failed(heddle_tensor_from_host(function, kTopP, HEDDLE_TYPE_F32, &one, 1, &top_p, sizeof(float), &arguments[kTopP]))) goto done;
  if (failed(whole_numbers(function, kSeed, &one, 1, &seed, &arguments[kSeed]))) goto done;

  printf("%s", argv[3]);
  for (int64_t step = 0; step < count; ++step, ++places) {
    heddle_call_params_t params;
    heddle_call_t* call = NULL;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.state = state;
    if (failed(mask_for(function, places, capacity, &window, &arguments[kMask]))) goto done;
    if (failed(heddle_call_start(function, &params, arguments, kArguments, results, kResults, &call))) goto done;
    heddle_call_release(call); /* it goes on */
    /* While it runs, print what the step before it chose, which it reads. */
    if (step > 0 && failed(print_byte(arguments[kTokens]))) goto done;
    heddle_tensor_release(arguments[kTokens]);
    heddle_tensor_release(arguments[kPast]);
    arguments[kTokens] = results[kNext];
    arguments[kPast] = results[kLongerPast];
    results[kNext] = results[kLongerPast] = NULL;
  }
  if (failed(print_byte(arguments[kTokens]))) goto done;
  putchar('\n');
  code = 0;

done:
  /* Objects keep their parents alive, so the order does not matter; NULL is allowed. */
  free(bytes);
  for (int i = 0; i < kArguments; ++i) heddle_tensor_release(arguments[i]);
  for (int i = 0; i < kResults; ++i) heddle_tensor_release(results[i]);
  heddle_state_release(state);
  heddle_instance_release(instance);
  heddle_module_release(module);
  heddle_runtime_release(runtime);
  return code;
}
