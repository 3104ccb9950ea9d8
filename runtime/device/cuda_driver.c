/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/cuda_driver.h"

#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "runtime/base/plural.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_TEXT_MAX = 576 };

static const char library_name[] = "libcuda.so.1";

static const char *find_advice(tsr_cuda_result result) {
    static const struct {
        tsr_cuda_result result;
        const char *advice;
    } rows[] = {
#define X(value, name, advice) {value, advice},
#include "runtime/device/cuda_errors.def"
#undef X
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (rows[i].result == result) return rows[i].advice;
    return NULL;
}

/* Formats the free and planned sizes, each after a "; ". The free size is unknown before there is a
 * context. */
static void describe_memory(const tsr_cuda *cuda, char out_text[MEMORY_TEXT_MAX]) {
    size_t left = 0, total = 0, at = 0;
    out_text[0] = 0;
    if (cuda->memory_info && cuda->memory_info(&left, &total) == TSR_CUDA_SUCCESS)
        at = (size_t)snprintf(out_text, MEMORY_TEXT_MAX,
                              "; %zu of %zu byte%s of device memory are free", left, total,
                              TSR_PLURAL(total));
    if (cuda->planned) snprintf(out_text + at, MEMORY_TEXT_MAX - at, "; %s", cuda->planned);
}

tsr_result tsr_cuda_check_memory(tsr_ctx *ctx, const tsr_cuda *cuda, const char *about,
                                 uint64_t needed_bytes, uint64_t allowed_bytes) {
    char memory[MEMORY_TEXT_MAX], allowed[64] = "";
    size_t left = 0, total = 0;
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, memory_info, about, &left, &total));
    if (needed_bytes <= left && needed_bytes <= allowed_bytes) return TSR_SUCCESS;
    describe_memory(cuda, memory);
    if (needed_bytes > allowed_bytes)
        snprintf(allowed, sizeof allowed, "; %" PRIu64 " %s allowed", allowed_bytes,
                 TSR_IS_ARE(allowed_bytes));
    FAIL(ctx, TSR_MEMORY, "%" PRIu64 " byte%s of device memory %s needed on %s%s%s", needed_bytes,
         TSR_PLURAL_ARE(needed_bytes), about, allowed, memory);
}

tsr_result tsr_cuda_check(tsr_ctx *ctx, const tsr_cuda *cuda, tsr_cuda_result result,
                          const char *call, const char *about) {
    const char *name = NULL;
    char memory[MEMORY_TEXT_MAX] = "";
    bool is_short = result == TSR_CUDA_ERROR_OUT_OF_MEMORY;
    if (result == TSR_CUDA_SUCCESS) return TSR_SUCCESS;
    if (!cuda->error_name || cuda->error_name(result, &name) != TSR_CUDA_SUCCESS || !name)
        name = "an unknown error";
    const char *advice = find_advice(result);
    if (is_short) describe_memory(cuda, memory);
    FAIL(ctx, is_short ? TSR_MEMORY : TSR_MACHINE, "%s: %s (%u)%s%s%s%s%s", call, name, result,
         about ? ": " : "", about ? about : "", memory, advice ? "; " : "", advice ? advice : "");
}

static tsr_result find_symbols(tsr_ctx *ctx, tsr_cuda *cuda) {
    static const struct {
        const char *symbol;
        size_t offset;
        bool later;
    } rows[] = {
#define X(name, symbol, parameters) {#symbol, offsetof(tsr_cuda, name), false},
#define LATER(name, symbol, parameters) {#symbol, offsetof(tsr_cuda, name), true},
#include "runtime/device/cuda_driver.def"
#undef X
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        void *address = dlsym(cuda->library, rows[i].symbol);
        if (!address && !rows[i].later)
            FAIL(ctx, TSR_MACHINE,
                 "the NVIDIA driver has no %s; expected one of CUDA %d.%d or "
                 "later",
                 rows[i].symbol, TSR_CUDA_VERSION_MIN / 1000, TSR_CUDA_VERSION_MIN % 1000 / 10);
        memcpy((char *)cuda + rows[i].offset, &address, sizeof address);
    }
    return TSR_SUCCESS;
}

static tsr_result no_device(tsr_ctx *ctx) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) FAIL(ctx, TSR_MACHINE, "the NVIDIA driver shows no device");
    FAIL(ctx, TSR_MACHINE,
         "the NVIDIA driver shows no device; CUDA_VISIBLE_DEVICES is '%s', which may hide the "
         "devices of this machine",
         visible);
}

static tsr_result start(tsr_ctx *ctx, tsr_cuda *cuda) {
    int version = 0, count = 0;
    TRY(ctx, find_symbols(ctx, cuda));
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, driver_version, NULL, &version));
    if (version < TSR_CUDA_VERSION_MIN)
        FAIL(ctx, TSR_MACHINE, "the NVIDIA driver is for CUDA %d.%d; expected %d.%d or later",
             version / 1000, version % 1000 / 10, TSR_CUDA_VERSION_MIN / 1000,
             TSR_CUDA_VERSION_MIN % 1000 / 10);
    tsr_cuda_result result = cuda->init(0);
    if (result != TSR_CUDA_ERROR_NO_DEVICE) {
        TRY(ctx, tsr_cuda_check(ctx, cuda, result, tsr_cuda_name_init, NULL));
        TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_count, NULL, &count));
    }
    if (count == 0) return no_device(ctx);
    return TSR_SUCCESS;
}

tsr_result tsr_cuda_open(tsr_ctx *ctx, const char *library, tsr_cuda *out_cuda) {
    tsr_cuda cuda = {0};
    if (!library) library = library_name;
    /* NODELETE: the driver has its own threads and handlers. */
    cuda.library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cuda.library) FAIL(ctx, TSR_MACHINE, "there is no NVIDIA driver here: %s", dlerror());
    tsr_result result = start(ctx, &cuda);
    if (result.code)
        tsr_cuda_close(&cuda);
    else
        *out_cuda = cuda;
    return result;
}

void tsr_cuda_close(tsr_cuda *cuda) {
    if (cuda->library) dlclose(cuda->library);
    *cuda = (tsr_cuda){0};
}

static void format_uuid(const unsigned char bytes[TSR_CUDA_UUID_BYTES],
                        char out_text[TSR_CUDA_UUID_TEXT_MAX]) {
    size_t at = (size_t)snprintf(out_text, TSR_CUDA_UUID_TEXT_MAX, "GPU-");
    for (int i = 0; i < TSR_CUDA_UUID_BYTES; i++)
        at += (size_t)snprintf(out_text + at, TSR_CUDA_UUID_TEXT_MAX - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

static tsr_result describe(tsr_ctx *ctx, const tsr_cuda *cuda, int ordinal, tsr_cuda_gpu *out_gpu) {
    union {
        unsigned char bytes[TSR_CUDA_UUID_BYTES];
        uint64_t align;
    } uuid = {{0}};
    int major = 0, minor = 0, count = 0;
    tsr_cuda_gpu gpu = {.ordinal = ordinal};
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_get, NULL, &gpu.device, ordinal));
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_name, NULL, gpu.name, sizeof gpu.name, gpu.device));
    TRY(ctx,
        TSR_CUDA_CALL(ctx, cuda, device_uuid, NULL, (struct CUuuid_st *)(void *)&uuid, gpu.device));
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_attribute, NULL, &major,
                           TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu.device));
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_attribute, NULL, &minor,
                           TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu.device));
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_attribute, NULL, &count,
                           TSR_CUDA_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device));
    gpu.name[sizeof gpu.name - 1] = 0;
    gpu.capability = (uint32_t)(10 * major + minor);
    gpu.multiprocessors = count > 0 ? (uint32_t)count : 1;
    format_uuid(uuid.bytes, gpu.uuid);
    *out_gpu = gpu;
    return TSR_SUCCESS;
}

static bool selects(const char *selector, const tsr_cuda_gpu *gpu) {
    char *end = NULL;
    if (!selector) return gpu->ordinal == 0;
    if (strncmp(selector, "GPU-", 4) == 0)
        return selector[4] && strncmp(gpu->uuid, selector, strlen(selector)) == 0;
    long ordinal = strtol(selector, &end, 10);
    return end != selector && *end == 0 && ordinal == gpu->ordinal;
}

tsr_result tsr_cuda_find_gpu(tsr_ctx *ctx, const tsr_cuda *cuda, const char *selector,
                             tsr_cuda_gpu *out_gpu) {
    tsr_buffer known = {0};
    tsr_result result = TSR_SUCCESS;
    int count = 0, found = 0;
    TRY(ctx, TSR_CUDA_CALL(ctx, cuda, device_count, NULL, &count));
    for (int i = 0; i < count; i++) {
        tsr_cuda_gpu gpu;
        TRY_GOTO(ctx, result, describe(ctx, cuda, i, &gpu));
        tsr_buffer_printf(&known, "%s%d %s (%s)", i ? ", " : "", i, gpu.uuid, gpu.name);
        if (!selects(selector, &gpu)) continue;
        *out_gpu = gpu;
        found++;
    }
    if (found != 1)
        FAIL_GOTO(ctx, result, TSR_USAGE, "'%s' names %d CUDA devices; expected one of %s",
                  selector ? selector : "", found, known.bytes ? known.bytes : "none");
done:
    tsr_buffer_finish(&known);
    return result;
}
