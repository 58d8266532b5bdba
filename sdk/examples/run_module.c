/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs a module on .npy files of f32 from C, one file per argument, and prints its results. Knows runtime.h only.
 *
 *   heddle compile digits.onnx -o digits.heddle
 *   cc sdk/examples/run_module.c -I PREFIX/include -L PREFIX/lib -lheddle -Wl,-rpath,PREFIX/lib -o run_module
 *   ./run_module digits.heddle images.npy
 *
 * PREFIX is where `cmake --install` put Heddle. Without an installation, the headers are in sdk/include and the library is in
 * build/release/lib. */
#include <heddle/runtime.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TENSORS 16

/* A .npy file: NumPy's format, versions 1 to 3. */
typedef struct array {
  char* file; /* from malloc, with a 0 at its end */
  const char* elements;
  size_t size_bytes;
  uint32_t rank;
  int64_t dims[HEDDLE_MAX_RANK];
} array_t;

/* Prints a failure and frees its status. Returns 1 if there was a failure. */
static int failed(heddle_status_t* status) {
  if (!status) return 0;
  heddle_string_t message = heddle_status_message(status);
  fprintf(stderr, "%.*s\n", (int)message.size, message.data);
  heddle_status_free(status);
  return 1;
}

static int refused(const char* path, const char* why) {
  fprintf(stderr, "run_module: reading %s failed: %s\n", path, why);
  return 0;
}

/* The whole file in memory from malloc, or NULL. */
static char* read_file(const char* path, size_t* out_size) {
  FILE* in = fopen(path, "rb");
  char* bytes = NULL;
  long size = -1;
  if (in && fseek(in, 0, SEEK_END) == 0 && (size = ftell(in)) >= 0 && fseek(in, 0, SEEK_SET) == 0) bytes = malloc((size_t)size + 1);
  if (bytes && fread(bytes, 1, (size_t)size, in) != (size_t)size) {
    free(bytes);
    bytes = NULL;
  }
  if (in) fclose(in);
  if (bytes) bytes[size] = 0;
  *out_size = bytes ? (size_t)size : 0;
  return bytes;
}

/* Returns 1 if the file is a .npy file of f32. The caller frees array->file. */
static int read_npy(const char* path, array_t* array) {
  size_t size = 0;
  array->file = read_file(path, &size);
  if (!array->file) return refused(path, "the file could not be read");
  const unsigned char* file = (const unsigned char*)array->file;
  if (size < 12 || memcmp(file, "\x93NUMPY", 6) != 0 || file[6] < 1 || file[6] > 3)
    return refused(path, "it is not a .npy file; write one with numpy.save");
  const size_t first = file[6] == 1 ? 10 : 12;
  const size_t length = file[8] | (size_t)file[9] << 8 | (first == 12 ? (size_t)file[10] << 16 | (size_t)file[11] << 24 : 0);
  if (length == 0 || length > size - first) return refused(path, "its header is incomplete");

  /* The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 8), } */
  char* header = array->file + first;
  array->elements = header + length;
  array->size_bytes = size - first - length;
  header[length - 1] = 0; /* in place of a line break */
  if (!strstr(header, "'descr': '<f4'")) return refused(path, "its elements are not f32; save array.astype(\"float32\")");
  if (!strstr(header, "'fortran_order': False"))
    return refused(path, "its elements are in Fortran order; save numpy.ascontiguousarray(array)");
  const char* shape = strstr(header, "'shape': (");
  if (!shape) return refused(path, "its header has no shape");
  array->rank = 0;
  for (shape += strlen("'shape': ("); *shape != ')'; ++shape) {
    char* end = NULL;
    const long long dim = strtoll(shape, &end, 10);
    if (end == shape || dim < 0 || (*end != ',' && *end != ')')) return refused(path, "its shape is not a list of numbers");
    if (array->rank == HEDDLE_MAX_RANK) return refused(path, "it has too many dimensions");
    array->dims[array->rank++] = dim;
    if (*end == ')') break;
    shape = end;
    if (shape[1] == ')') break;
  }
  return 1;
}

/* Returns 1 if the result could be read. */
static int print(heddle_tensor_t* result, heddle_string_t name) {
  const size_t size_bytes = heddle_tensor_size(result);
  const int64_t* dims = heddle_tensor_dims(result);
  printf("%.*s = [", (int)name.size, name.data);
  for (uint32_t i = 0; i < heddle_tensor_rank(result); ++i) printf(i ? ",%" PRId64 : "%" PRId64, dims[i]);
  printf("]:");
  if (heddle_tensor_element_type(result) != HEDDLE_TYPE_F32) {
    printf(" %zu bytes of another type than f32\n", size_bytes);
    return 1;
  }
  float* values = malloc(size_bytes + 1);
  const int is_read = values && !failed(heddle_tensor_read(result, values, size_bytes));
  for (size_t i = 0; is_read && i < size_bytes / sizeof(float); ++i) printf(" %.9g", values[i]);
  printf("\n");
  free(values);
  return is_read;
}

int main(int argc, char** argv) {
  heddle_runtime_t* runtime = NULL;
  heddle_module_t* module = NULL;
  heddle_instance_t* instance = NULL;
  heddle_function_t* function = NULL; /* borrowed from the instance */
  heddle_tensor_t *arguments[MOST_TENSORS] = {NULL}, *results[MOST_TENSORS] = {NULL};
  const heddle_string_t main_function = {"", 0}; /* the only one, or "main" */
  uint32_t argument_count = 0, result_count = 0;
  int code = 1;

  if (argc < 2 || argc > 2 + MOST_TENSORS) {
    fprintf(stderr, "usage: run_module MODULE [FILE.npy ...]     (at most %d files)\n", MOST_TENSORS);
    return 2;
  }
  const heddle_string_t path = {argv[1], strlen(argv[1])};
  if (failed(heddle_runtime_create(NULL, &runtime))) goto done;
  if (failed(heddle_module_open(runtime, path, NULL, &module))) goto done;
  if (failed(heddle_instance_create(module, NULL, &instance))) goto done;
  if (failed(heddle_instance_function(instance, main_function, &function))) goto done;
  result_count = heddle_function_result_count(function);
  if (result_count > MOST_TENSORS) {
    fprintf(stderr, "run_module: the function has %" PRIu32 " results; this example takes at most %d\n", result_count, MOST_TENSORS);
    goto done;
  }
  for (int i = 2; i < argc; ++i) {
    array_t array = {0};
    const int is_made =
        read_npy(argv[i], &array) && !failed(heddle_tensor_from_host(function, argument_count, HEDDLE_TYPE_F32, array.dims, array.rank,
                                                                     array.elements, array.size_bytes, &arguments[argument_count]));
    free(array.file);
    if (!is_made) goto done;
    ++argument_count;
  }
  /* The runtime checks the number of arguments, their types and their shapes, and says what it expects. */
  if (failed(heddle_call(function, arguments, argument_count, results, result_count))) goto done;
  code = 0;
  for (uint32_t i = 0; i < result_count; ++i) {
    heddle_tensor_type_t type;
    memset(&type, 0, sizeof(type));
    type.struct_size = sizeof(type);
    if (failed(heddle_function_result(function, i, &type)) || !print(results[i], type.name)) code = 1;
  }

done:
  /* Objects keep what they depend on alive, so the order does not matter; NULL is allowed. */
  for (uint32_t i = 0; i < MOST_TENSORS; ++i) heddle_tensor_release(arguments[i]);
  for (uint32_t i = 0; i < result_count && i < MOST_TENSORS; ++i) heddle_tensor_release(results[i]);
  heddle_instance_release(instance);
  heddle_module_release(module);
  heddle_runtime_release(runtime);
  return code;
}
