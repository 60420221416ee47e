/* SPDX-FileCopyrightText: The Millrace Authors
   SPDX-License-Identifier: Apache-2.0 */

/* Runs the tests of all files, or those whose names are given. */
#include "check.h"

#define TESTS(X)               \
  X(test_values)               \
  X(test_tensors)              \
  X(test_strings)              \
  X(test_graphs)               \
  X(test_attributes)           \
  X(test_build_errors)         \
  X(test_sessions)             \
  X(test_deprecated_sessions)  \
  X(test_import)               \
  X(test_forks)                \
  X(test_functions)            \
  X(test_while)                \
  X(test_gradients)            \
  X(test_gradient_functions)   \
  X(test_constants)            \
  X(test_op_lists)             \
  X(test_api_defs)             \
  X(test_kernels)              \
  X(test_user_op_entry_points) \
  X(test_blocking_kernels)     \
  X(test_op_definitions)       \
  X(test_files)                \
  X(test_threads)              \
  X(test_libraries)            \
  X(test_libraries_in_cpp)     \
  X(test_servers)              \
  X(test_log)                  \
  X(test_saved_models)         \
  X(test_misuse)               \
  X(test_eager)                \
  X(test_eager_ops)            \
  X(test_checkpoints)          \
  X(test_experimental)         \
  X(test_client)               \
  X(test_clients)              \
  X(test_random_calls)         \
  X(test_random_eager_calls)

#define DECLARE(name) void name(void);
TESTS(DECLARE)
#undef DECLARE

static const struct {
  const char* name;
  void (*run)(void);
} kTests[] = {
#define ROW(name) {#name, name},
    TESTS(ROW)
#undef ROW
};

int main(int argc, char** argv) {
  for (size_t i = 0; i < sizeof(kTests) / sizeof(kTests[0]); ++i) {
    int wanted = argc == 1;
    for (int a = 1; a < argc; ++a) wanted |= strcmp(argv[a], kTests[i].name) == 0;
    if (!wanted) continue;
    const int before = check_failures;
    kTests[i].run();
    printf("%s: %s\n", kTests[i].name, check_failures == before ? "ok" : "FAILED");
    fflush(stdout);
  }
  return check_failures == 0 ? 0 : 1;
}
