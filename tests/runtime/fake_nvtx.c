/* SPDX-License-Identifier: Apache-2.0
 *
 * A profiler's library, as NVTX loads one. It writes a line for each range, indented by the
 * enclosing ranges, to the file that FAKE_NVTX_LOG names, and "end" after each range.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { ETID_CALLBACKS = 1, ETID_VERSION = 3, MODULE_CORE = 1, RANGE_PUSH_A = 9, RANGE_POP = 11 };

typedef void (*function)(void);
typedef struct callbacks {
    size_t struct_size;
    int (*get_functions)(int module, function ***out_table, unsigned *out_size);
} callbacks;
typedef struct version {
    size_t struct_size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
} version;

static FILE *file;
static int depth;

static int push(const char *name) {
    fprintf(file, "%*s%s\n", 2 * depth, "", name);
    fflush(file);
    return depth++;
}

static int pop(void) {
    depth--;
    fprintf(file, "%*send\n", 2 * depth, "");
    fflush(file);
    return depth;
}

EXPORT int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t table));
int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t table)) {
    const callbacks *calls = get_table(ETID_CALLBACKS);
    const version *info = get_table(ETID_VERSION);
    const char *path = getenv("FAKE_NVTX_LOG");
    function **table = NULL;
    unsigned size = 0;
    if (!path || !calls || !info || get_table(2) || info->version != 3) return 0;
    if (calls->struct_size < sizeof *calls || info->struct_size < sizeof *info) return 0;
    if (calls->get_functions(2, &table, &size) || !calls->get_functions(MODULE_CORE, &table, &size))
        return 0;
    if (size <= RANGE_POP || !table[RANGE_PUSH_A] || !table[RANGE_POP]) return 0;
    info->set_version(3);
    *table[RANGE_PUSH_A] = (function)push;
    *table[RANGE_POP] = (function)pop;
    file = fopen(path, "we");
    return file != NULL;
}
