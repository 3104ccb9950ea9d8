/* SPDX-License-Identifier: Apache-2.0
 *
 * AMD GPUs, with the HIP runtime (AMD, "HIP Runtime API Reference"), 5.2 or later. Nobody has run
 * this on an AMD GPU: docs/amd.md says what was tested on what.
 */
#include "runtime/device/hip.h"

#include "manifests/amd.h"
#include "runtime/base/array.h"
#include "runtime/device/gpu/device.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void print_version(int version, char out_text[static TSR_GPU_TEXT_MAX]) {
    snprintf(out_text, TSR_GPU_TEXT_MAX, "%d.%d", version / 10000000, version / 100000 % 100);
}

/* Unlike in CUDA, it returns the name. */
static const char *get_error_name(const tsr_gpu_driver *driver, tsr_gpu_result result) {
    const char *(*get)(tsr_gpu_result) = NULL;
    void *address = dlsym(driver->library, "hipGetErrorName");
    memcpy(&get, &address, sizeof get);
    return get ? get(result) : NULL;
}

/* Only the properties of a device name its architecture. Newer runtimes keep the older function,
 * with the older layout. */
static tsr_result find_arch(tsr_ctx *ctx, const tsr_gpu_driver *driver, int device,
                            uint32_t *out_arch) {
    static const struct {
        const char *symbol;
        size_t arch;
    } rows[] = {{"hipGetDevicePropertiesR0600", TSR_HIP_6_PROPERTIES_ARCH},
                {"hipGetDeviceProperties", TSR_HIP_5_PROPERTIES_ARCH}};
    _Alignas(16) char properties[2 * TSR_HIP_6_PROPERTIES_BYTES] = {0};
    tsr_gpu_result (*get)(void *, int) = NULL;
    void *address = NULL;
    size_t row = 0;
    while (row < TSR_COUNT(rows) && !(address = dlsym(driver->library, rows[row].symbol))) row++;
    if (!address) FAIL(ctx, TSR_MACHINE, "the AMD driver has no %s", rows[row - 1].symbol);
    memcpy(&get, &address, sizeof get);
    tsr_gpu_result result = get(properties, device);
    if (result)
        FAIL(ctx, TSR_MACHINE, "%s: %s (%u)", rows[row].symbol, get_error_name(driver, result),
             result);
    const char *name = properties + rows[row].arch;
    properties[rows[row].arch + TSR_HIP_ARCH_BYTES - 1] = 0;
    const tsr_amd *amd = tsr_amd_find(name);
    if (!amd)
        FAIL(ctx, TSR_TARGET, "device %d has the architecture '%s'; no target is for it", device,
             name);
    *out_arch = amd->arch;
    return TSR_SUCCESS;
}

/* The bytes are the text by which ROCR_VISIBLE_DEVICES names the GPU, without "GPU-". */
static void print_uuid(const unsigned char bytes[static TSR_GPU_UUID_BYTES],
                       char out_text[static TSR_GPU_UUID_TEXT_MAX]) {
    size_t at = (size_t)snprintf(out_text, TSR_GPU_UUID_TEXT_MAX, "GPU-");
    bool is_text = true;
    for (int i = 0; i < TSR_GPU_UUID_BYTES; i++)
        is_text = is_text && (bytes[i] == 0 || isalnum(bytes[i]));
    for (int i = 0; i < TSR_GPU_UUID_BYTES; i++)
        at += (size_t)snprintf(out_text + at, TSR_GPU_UUID_TEXT_MAX - at, is_text ? "%c" : "%02x",
                               bytes[i]);
}

static void print_arch(uint32_t arch, char out_text[static TSR_GPU_TEXT_MAX]) {
    const tsr_amd *amd = tsr_amd_get(arch);
    snprintf(out_text, TSR_GPU_TEXT_MAX, "architecture %s", amd ? amd->name : "unknown");
}

static void print_image(const tsr_fatbin_image *image, char out_text[static TSR_GPU_TEXT_MAX]) {
    const tsr_amd *amd = image->kind == TSR_FATBIN_HSACO ? tsr_amd_get(image->arch) : NULL;
    snprintf(out_text, TSR_GPU_TEXT_MAX, "machine code for %s", amd ? amd->name : "NVIDIA GPUs");
}

static const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        "libamdhip64.so", NULL};
static const char *const hiders[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                     "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", NULL};
static const tsr_gpu_symbol symbols[TSR_GPU_CALL_COUNT] = {
#define X(name, symbol) [TSR_GPU_CALL_##name] = {#symbol, false},
#define LATER(name, symbol) [TSR_GPU_CALL_##name] = {#symbol, true},
#include "runtime/device/hip_symbols.def"
#undef X
};
static const tsr_gpu_advice advices[] = {
#define X(value, name, advice) {value, advice},
#include "runtime/device/hip_errors.def"
#undef X
    {0, NULL},
};

static const tsr_gpu_api api = {
    .name = "HIP",
    .driver = "AMD driver",
    .libraries = libraries,
    .hiders = hiders,
    .version_min = TSR_HIP_VERSION_MIN,
    .print_version = print_version,
    .symbols = symbols,
    .advices = advices,
    .no_device = TSR_HIP_ERROR_INVALID_DEVICE,
    .multiprocessors = TSR_HIP_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    .get_error_name = get_error_name,
    .find_arch = find_arch,
    .print_uuid = print_uuid,
    .print_arch = print_arch,
    .match = tsr_fatbin_match_amd,
    .print_image = print_image,
    .queues_variable = "GPU_MAX_HW_QUEUES",
    .captures_partly = true,
};

static tsr_result hip_open(tsr_ctx *ctx, const tsr_device_options *options,
                           tsr_device **out_device) {
    return tsr_gpu_open_device(ctx, &tsr_device_hip, options, out_device);
}

/* Without kernels of the runtime's own, the host hashes weights and draws numbers. */
const tsr_device_type tsr_device_hip = {
    .name = "hip",
    .gpu = &api,
    .open = hip_open,
    TSR_GPU_FUNCTIONS,
};
