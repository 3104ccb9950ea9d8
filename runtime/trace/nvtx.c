/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of NVTX's header-only library that ranges need: the injected library asks for a table of
 * pointers to our function pointers, and sets those that it implements.
 */
#include "runtime/trace/nvtx.h"

#include "runtime/base/array.h"

#include <dlfcn.h>
#include <string.h>

typedef void (*function)(void);
typedef int (*push_fn)(const char *name);
typedef int (*pop_fn)(void);
typedef const void *(*export_table_fn)(uint32_t table);
typedef int (*initialize_fn)(export_table_fn get_table);

static function core[TSR_NVTX_CBID_CORE_SIZE + 1];        /* set by the library */
static function *core_table[TSR_NVTX_CBID_CORE_SIZE + 1]; /* 0 and the last are unused */

static int get_functions(int module, function ***out_table, unsigned *out_size) {
    if (module != TSR_NVTX_CB_MODULE_CORE) return 0;
    for (int i = 1; i < TSR_NVTX_CBID_CORE_SIZE; i++) core_table[i] = &core[i];
    if (out_table) *out_table = core_table;
    if (out_size) *out_size = TSR_COUNT(core_table);
    return 1;
}

static void set_version(uint32_t version) { (void)version; }

static const struct {
    size_t struct_size;
    int (*get_functions)(int module, function ***out_table, unsigned *out_size);
} callbacks = {sizeof callbacks, get_functions};

static const struct {
    size_t struct_size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
} version_info = {sizeof version_info, TSR_NVTX_VERSION, 0, set_version};

static const void *get_table(uint32_t table) {
    if (table == TSR_NVTX_ETID_CALLBACKS) return &callbacks;
    return table == TSR_NVTX_ETID_VERSIONINFO ? &version_info : NULL;
}

static void push(const char *name) {
    function set = core[TSR_NVTX_CBID_CORE_RangePushA];
    push_fn call;
    memcpy(&call, &set, sizeof call);
    if (call) (void)call(name);
}

static void pop(void) {
    function set = core[TSR_NVTX_CBID_CORE_RangePop];
    pop_fn call;
    memcpy(&call, &set, sizeof call);
    if (call) (void)call();
}

tsr_result tsr_nvtx_open(tsr_ctx *ctx, const char *library, const tsr_trace_ranges **out_ranges) {
    static const char symbol[] = "InitializeInjectionNvtx2";
    static const tsr_trace_ranges ranges = {push, pop};
    initialize_fn initialize = NULL;
    /* Stays loaded, because it has its own threads and handlers. */
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) FAIL(ctx, TSR_IO, "cannot open the profiler's library: %s", dlerror());
    void *address = dlsym(handle, symbol);
    memcpy(&initialize, &address, sizeof initialize);
    if (!initialize) FAIL(ctx, TSR_IO, "the profiler's library '%s' has no %s", library, symbol);
    if (initialize(get_table) != 1)
        FAIL(ctx, TSR_IO, "the profiler's library '%s' does not accept ranges", library);
    *out_ranges = &ranges;
    return TSR_SUCCESS;
}
