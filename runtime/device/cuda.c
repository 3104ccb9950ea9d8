/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA GPUs, with the CUDA driver (NVIDIA, "CUDA Driver API").
 */
#include "runtime/device/cuda.h"

#include "runtime/device/cuda_ptx.h"
#include "runtime/device/gpu/device.h"

#include <stdio.h>

enum { VERSION_MIN = 12000 /* 12.0 */ };

static void print_version(int version, char out_text[static TSR_GPU_TEXT_MAX]) {
    snprintf(out_text, TSR_GPU_TEXT_MAX, "%d.%d", version / 1000, version % 1000 / 10);
}

static const char *get_error_name(const tsr_gpu_driver *driver, tsr_gpu_result result) {
    const char *name = NULL;
    return driver->error_name && driver->error_name(result, &name) == TSR_GPU_SUCCESS ? name : NULL;
}

static tsr_result find_arch(tsr_ctx *ctx, const tsr_gpu_driver *driver, int device,
                            uint32_t *out_arch) {
    int major = 0, minor = 0;
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_attribute, NULL, &major,
                          TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    TRY(ctx, TSR_GPU_CALL(ctx, driver, device_attribute, NULL, &minor,
                          TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    *out_arch = (uint32_t)(10 * major + minor);
    return TSR_SUCCESS;
}

static void print_uuid(const unsigned char bytes[static TSR_GPU_UUID_BYTES],
                       char out_text[static TSR_GPU_UUID_TEXT_MAX]) {
    size_t at = (size_t)snprintf(out_text, TSR_GPU_UUID_TEXT_MAX, "GPU-");
    for (int i = 0; i < TSR_GPU_UUID_BYTES; i++)
        at += (size_t)snprintf(out_text + at, TSR_GPU_UUID_TEXT_MAX - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

static void print_arch(uint32_t arch, char out_text[static TSR_GPU_TEXT_MAX]) {
    snprintf(out_text, TSR_GPU_TEXT_MAX, "compute capability %u.%u", arch / 10, arch % 10);
}

static void print_image(const tsr_fatbin_image *image, char out_text[static TSR_GPU_TEXT_MAX]) {
    const char *kind = image->kind == TSR_FATBIN_PTX     ? "PTX"
                       : image->kind == TSR_FATBIN_CUBIN ? "machine code"
                                                         : "code for AMD GPUs,";
    snprintf(out_text, TSR_GPU_TEXT_MAX, "%s for %u.%u%s", kind, image->arch / 10, image->arch % 10,
             image->exactly ? " alone" : "");
}

static const char *const libraries[] = {"libcuda.so.1", NULL};
static const char *const hiders[] = {"CUDA_VISIBLE_DEVICES", NULL};
static const tsr_gpu_symbol symbols[TSR_GPU_CALL_COUNT] = {
#define X(name, symbol) [TSR_GPU_CALL_##name] = {#symbol, false},
#define LATER(name, symbol) [TSR_GPU_CALL_##name] = {#symbol, true},
#include "runtime/device/cuda_symbols.def"
#undef X
};
static const tsr_gpu_advice advices[] = {
#define X(value, name, advice) {value, advice},
#include "runtime/device/cuda_errors.def"
#undef X
    {0, NULL},
};

static const tsr_gpu_programs programs = {
    .threads = TSR_CUDA_PTX_THREADS,
    .leaves_name = TSR_CUDA_PTX_LEAVES,
    .normals_name = TSR_CUDA_PTX_NORMALS,
    .get_combine_name = tsr_cuda_ptx_combine_name,
    .print_leaves = tsr_cuda_ptx_leaves,
    .print_normals = tsr_cuda_ptx_normals,
    .print_combine = tsr_cuda_ptx_combine,
    .leaves_codes = tsr_cuda_leaves_codes,
    .leaves_code_count = &tsr_cuda_leaves_code_count,
    .rate_name = TSR_CUDA_PTX_RATE,
    .chains = &tsr_cuda_chains,
    .get_products = tsr_cuda_get_products,
};

static const tsr_gpu_api api = {
    .name = "CUDA",
    .driver = "NVIDIA driver",
    .libraries = libraries,
    .hiders = hiders,
    .version_min = VERSION_MIN,
    .print_version = print_version,
    .symbols = symbols,
    .advices = advices,
    .multiprocessors = TSR_CUDA_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    .get_error_name = get_error_name,
    .find_arch = find_arch,
    .print_uuid = print_uuid,
    .print_arch = print_arch,
    .match = tsr_fatbin_match,
    .print_image = print_image,
    .programs = &programs,
    .queues_variable = "CUDA_DEVICE_MAX_CONNECTIONS",
};

static tsr_result cuda_open(tsr_ctx *ctx, const tsr_device_options *options,
                            tsr_device **out_device) {
    return tsr_gpu_open_device(ctx, &tsr_device_cuda, options, out_device);
}

const tsr_device_type tsr_device_cuda = {
    .name = "cuda",
    .gpu = &api,
    .open = cuda_open,
    TSR_GPU_FUNCTIONS,
    .staged_upload = &tsr_gpu_staged_upload_functions,
    .draw = tsr_gpu_draw,
};
