/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One call of a compiled network from C: reads the handwritten digit below. Knows runtime.h only.
 *
 *   heddle compile digits.onnx -o digits.heddle
 *   cc sdk/examples/read_digit.c -I PREFIX/include -L PREFIX/lib -lheddle -Wl,-rpath,PREFIX/lib -o read_digit
 *   ./read_digit digits.heddle
 *
 * PREFIX is where `cmake --install` put Heddle. Without an installation, the headers are in sdk/include and the library is in
 * build/release/lib. */
#include <heddle/runtime.h>
#include <stdio.h>
#include <string.h>

/* 8 by 8 pixels, 0 to 16. */
/* clang-format off */
static const float kDigit[64] = {
    0, 0, 0,  12, 13, 5,  0, 0,
    0, 0, 0,  11, 16, 9,  0, 0,
    0, 0, 3,  15, 16, 6,  0, 0,
    0, 7, 15, 16, 16, 2,  0, 0,
    0, 0, 1,  16, 16, 3,  0, 0,
    0, 0, 1,  16, 16, 6,  0, 0,
    0, 0, 1,  16, 16, 6,  0, 0,
    0, 0, 0,  11, 16, 10, 0, 0,
};
/* clang-format on */

/* Prints a failure and frees its status. Returns 1 if there was a failure. */
static int failed(heddle_status_t* status) {
  if (!status) return 0;
  heddle_string_t message = heddle_status_message(status);
  fprintf(stderr, "%.*s\n", (int)message.size, message.data);
  heddle_status_free(status);
  return 1;
}

int main(int argc, char** argv) {
  heddle_runtime_t* runtime = NULL;
  heddle_module_t* module = NULL;
  heddle_instance_t* instance = NULL;
  heddle_function_t* function = NULL; /* borrowed from the instance */
  heddle_tensor_t *image = NULL, *scores = NULL;
  const int64_t dims[4] = {1, 1, 8, 8};
  const heddle_string_t main_function = {"", 0}; /* the only one, or "main" */
  float pixels[64], values[10];
  int code = 1;

  if (argc != 2) {
    fprintf(stderr, "usage: read_digit digits.heddle\n");
    return 2;
  }
  for (int i = 0; i < 64; ++i) pixels[i] = kDigit[i] / 16;

  const heddle_string_t path = {argv[1], strlen(argv[1])};
  if (failed(heddle_runtime_create(NULL, &runtime))) goto done;
  if (failed(heddle_module_open(runtime, path, NULL, &module))) goto done;
  if (failed(heddle_instance_create(module, NULL, &instance))) goto done;
  if (failed(heddle_instance_function(instance, main_function, &function))) goto done;
  if (failed(heddle_tensor_from_host(function, 0, HEDDLE_TYPE_F32, dims, 4, pixels, sizeof(pixels), &image))) goto done;
  if (failed(heddle_call(function, &image, 1, &scores, 1))) goto done;
  if (heddle_tensor_size(scores) != sizeof(values)) {
    fprintf(stderr, "the result of this module is not ten scores\n");
    goto done;
  }
  if (failed(heddle_tensor_read(scores, values, sizeof(values)))) goto done;

  int best = 0;
  for (int i = 1; i < 10; ++i) {
    if (values[i] > values[best]) best = i;
  }
  printf("the digit is a %d\n", best);
  code = 0;

done:
  /* Objects keep their parents alive, so the order does not matter; NULL is allowed. */
  heddle_tensor_release(scores);
  heddle_tensor_release(image);
  heddle_instance_release(instance);
  heddle_module_release(module);
  heddle_runtime_release(runtime);
  return code;
}
