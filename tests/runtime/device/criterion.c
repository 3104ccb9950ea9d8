/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the bench needs to run the cases under Criterion: the driver without a GPU,
 * and the end of a failed test.
 */
#include "tests/runtime/device_bench.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *bench_library = FAKE_CUDA, *bench_hip_library = FAKE_HIP;
const bool bench_translates = false;

void bench_failed(const char *file, int line, const char *condition, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cr_assert_fail("%s:%d: %s: %s", file, line, condition, text);
    abort();
}
