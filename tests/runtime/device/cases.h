/* SPDX-License-Identifier: Apache-2.0
 *
 * The suite that every device must pass. It is started by Criterion for CPUs and for a driver
 * without a GPU, by main.c for a GPU. A case ends at the first REQUIRE whose condition is false.
 */
#ifndef TSR_TESTS_RUNTIME_DEVICE_CASES_H
#define TSR_TESTS_RUNTIME_DEVICE_CASES_H

typedef struct device_case {
    const char *name;
    void (*run)(const char *device); /* "cpu", "null", "cuda", "cuda:sm_90a" */
    const char *const *devices;      /* it must pass on these; the last one is NULL */
} device_case;

extern const device_case device_cases[];
extern const unsigned device_case_count;

#define X(name, on) void device_case_##name(const char *device);
#include "tests/runtime/device/cases.def"
#undef X

#endif
