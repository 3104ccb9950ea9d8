/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/gpu/driver.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/plural.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MEMORY_TEXT_MAX = 576 };

static const char *find_advice(const tsr_gpu_driver *driver, tsr_gpu_result result) {
    for (const tsr_gpu_advice *row = driver->api->advices; row->advice; row++)
        if (row->result == result) return row->advice;
    return NULL;
}

/* Formats the free and planned sizes, each after a "; ". The free size is unknown before there is a
 * context. */
static void describe_memory(const tsr_gpu_driver *driver, char out_text[MEMORY_TEXT_MAX]) {
    size_t left = 0, total = 0, at = 0;
    out_text[0] = 0;
    if (driver->memory_info && driver->memory_info(&left, &total) == TSR_GPU_SUCCESS)
        at = (size_t)snprintf(out_text, MEMORY_TEXT_MAX,
                              "; %zu of %zu byte%s of device memory are free", left, total,
                              TSR_PLURAL(total));
    if (driver->planned) snprintf(out_text + at, MEMORY_TEXT_MAX - at, "; %s", driver->planned);
}

tsr_result tsr_gpu_check_memory(tsr_ctx *ctx, const tsr_gpu_driver *driver, const char *about,
                                uint64_t needed_bytes, uint64_t allowed_bytes) {
    char memory[MEMORY_TEXT_MAX], allowed[64] = "";
    size_t left = 0, total = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, driver, memory_info, about, &left, &total));
    if (needed_bytes <= left && needed_bytes <= allowed_bytes) return TSR_SUCCESS;
    describe_memory(driver, memory);
    if (needed_bytes > allowed_bytes)
        snprintf(allowed, sizeof allowed, "; %" PRIu64 " %s allowed", allowed_bytes,
                 TSR_IS_ARE(allowed_bytes));
    FAIL(ctx, TSR_MEMORY, "%" PRIu64 " byte%s of device memory %s needed on %s%s%s", needed_bytes,
         TSR_PLURAL_ARE(needed_bytes), about, allowed, memory);
}

tsr_result tsr_gpu_check(tsr_ctx *ctx, const tsr_gpu_driver *driver, tsr_gpu_result result,
                         tsr_gpu_call call, const char *about) {
    char memory[MEMORY_TEXT_MAX] = "";
    bool is_short = result == TSR_GPU_ERROR_OUT_OF_MEMORY;
    if (result == TSR_GPU_SUCCESS) return TSR_SUCCESS;
    const char *name = driver->api->get_error_name(driver, result);
    const char *advice = find_advice(driver, result);
    if (is_short) describe_memory(driver, memory);
    FAIL(ctx, is_short ? TSR_MEMORY : TSR_MACHINE, "%s: %s (%u)%s%s%s%s%s",
         driver->api->symbols[call].symbol, name ? name : "an unknown error", result,
         about ? ": " : "", about ? about : "", memory, advice ? "; " : "", advice ? advice : "");
}

static tsr_result find_symbols(tsr_ctx *ctx, tsr_gpu_driver *driver) {
    static const size_t offsets[TSR_GPU_CALL_COUNT] = {
#define X(name, parameters) [TSR_GPU_CALL_##name] = offsetof(tsr_gpu_driver, name),
#include "runtime/device/gpu/driver.def"
#undef X
    };
    const tsr_gpu_api *api = driver->api;
    char oldest[TSR_GPU_TEXT_MAX];
    for (size_t i = 0; i < TSR_GPU_CALL_COUNT; i++) {
        const tsr_gpu_symbol *row = &api->symbols[i];
        void *address = row->symbol ? dlsym(driver->library, row->symbol) : NULL;
        api->print_version(api->version_min, oldest);
        if (!address && row->symbol && !row->later)
            FAIL(ctx, TSR_MACHINE, "the %s has no %s; expected one of %s %s or later", api->driver,
                 row->symbol, api->name, oldest);
        memcpy((char *)driver + offsets[i], &address, sizeof address);
    }
    return TSR_SUCCESS;
}

static tsr_result no_device(tsr_ctx *ctx, const tsr_gpu_api *api) {
    for (const char *const *hider = api->hiders; *hider; hider++)
        if (getenv(*hider))
            FAIL(ctx, TSR_MACHINE,
                 "the %s shows no device; %s is '%s', which may hide the devices of this machine",
                 api->driver, *hider, getenv(*hider));
    FAIL(ctx, TSR_MACHINE, "the %s shows no device", api->driver);
}

static bool lacks_device(const tsr_gpu_api *api, tsr_gpu_result result) {
    return result == TSR_GPU_ERROR_NO_DEVICE || (result && result == api->no_device);
}

static tsr_result check_version(tsr_ctx *ctx, const tsr_gpu_driver *driver) {
    const tsr_gpu_api *api = driver->api;
    char found[TSR_GPU_TEXT_MAX], oldest[TSR_GPU_TEXT_MAX];
    int version = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, driver, driver_version, NULL, &version));
    if (version >= api->version_min) return TSR_SUCCESS;
    api->print_version(version, found);
    api->print_version(api->version_min, oldest);
    FAIL(ctx, TSR_MACHINE, "the %s is for %s %s; expected %s or later", api->driver, api->name,
         found, oldest);
}

/* HIP needs to be initialised before it tells its version. */
static tsr_result start(tsr_ctx *ctx, tsr_gpu_driver *driver) {
    int count = 0;
    TRY(ctx, find_symbols(ctx, driver));
    tsr_gpu_result result = driver->init(0);
    if (lacks_device(driver->api, result)) return no_device(ctx, driver->api);
    TRY(ctx, tsr_gpu_check(ctx, driver, result, TSR_GPU_CALL_init, NULL));
    TRY(ctx, check_version(ctx, driver));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_count, NULL, &count));
    return count ? TSR_SUCCESS : no_device(ctx, driver->api);
}

/* NODELETE: the driver has its own threads and handlers. */
static void *open_library(const char *library) {
    return dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

tsr_result tsr_gpu_open(tsr_ctx *ctx, const tsr_gpu_api *api, const char *library,
                        tsr_gpu_driver *out_driver) {
    tsr_gpu_driver driver = {.api = api};
    for (const char *const *name = api->libraries; !library && *name && !driver.library; name++)
        driver.library = open_library(*name);
    if (!driver.library) driver.library = open_library(library ? library : api->libraries[0]);
    if (!driver.library) FAIL(ctx, TSR_MACHINE, "there is no %s here: %s", api->driver, dlerror());
    tsr_result result = start(ctx, &driver);
    if (result.code)
        tsr_gpu_close(&driver);
    else
        *out_driver = driver;
    return result;
}

void tsr_gpu_close(tsr_gpu_driver *driver) {
    if (driver->library) dlclose(driver->library);
    *driver = (tsr_gpu_driver){0};
}

tsr_result tsr_gpu_describe(tsr_ctx *ctx, const tsr_gpu_driver *driver, int ordinal,
                            tsr_gpu_info *out_gpu) {
    union {
        unsigned char bytes[TSR_GPU_UUID_BYTES];
        uint64_t align;
    } uuid = {{0}};
    int count = 0;
    tsr_gpu_info gpu = {.ordinal = ordinal};
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_get, NULL, &gpu.device, ordinal));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_name, NULL, gpu.name, sizeof gpu.name, gpu.device));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_uuid, NULL, (struct tsr_gpu_uuid *)(void *)&uuid,
                          gpu.device));
    TRY(ctx, driver->api->find_arch(ctx, driver, gpu.device, &gpu.arch));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_attribute, NULL, &count, driver->api->multiprocessors,
                          gpu.device));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_bus, NULL, gpu.bus, sizeof gpu.bus, gpu.device));
    for (char *at = gpu.bus; *at; at++) *at = (char)tolower((unsigned char)*at);
    gpu.name[sizeof gpu.name - 1] = 0;
    gpu.multiprocessors = count > 0 ? (uint32_t)count : 1;
    driver->api->print_uuid(uuid.bytes, gpu.uuid);
    *out_gpu = gpu;
    return TSR_SUCCESS;
}

static bool selects(const char *selector, const tsr_gpu_info *gpu) {
    char *end = NULL;
    if (!selector) return gpu->ordinal == 0;
    if (strncmp(selector, "GPU-", 4) == 0)
        return selector[4] && strncmp(gpu->uuid, selector, strlen(selector)) == 0;
    if (strchr(selector, ':')) return strcasecmp(gpu->bus, selector) == 0;
    long ordinal = strtol(selector, &end, 10);
    return end != selector && *end == 0 && ordinal == gpu->ordinal;
}

tsr_result tsr_gpu_find(tsr_ctx *ctx, const tsr_gpu_driver *driver, const char *selector,
                        tsr_gpu_info *out_gpu) {
    tsr_buffer known = {0};
    tsr_result result = TSR_SUCCESS;
    int count = 0, found = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_count, NULL, &count));
    for (int i = 0; i < count; i++) {
        tsr_gpu_info gpu;
        TRY_GOTO(ctx, result, tsr_gpu_describe(ctx, driver, i, &gpu));
        tsr_buffer_printf(&known, "%s%d %s (%s)", i ? ", " : "", i, gpu.uuid, gpu.name);
        if (!selects(selector, &gpu)) continue;
        *out_gpu = gpu;
        found++;
    }
    if (found != 1)
        FAIL_GOTO(ctx, result, TSR_USAGE, "'%s' names %d %s devices; expected one of %s",
                  selector ? selector : "", found, driver->api->name,
                  known.bytes ? known.bytes : "none");
done:
    tsr_buffer_finish(&known);
    return result;
}
