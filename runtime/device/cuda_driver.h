/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver's library, opened at run time: NVIDIA, "CUDA Driver API". Our own declarations
 * are used, so CUDA is not needed to build.
 */
#ifndef TSR_RUNTIME_DEVICE_CUDA_DRIVER_H
#define TSR_RUNTIME_DEVICE_CUDA_DRIVER_H

#include "runtime/base/result.h"

struct CUuuid_st;
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUtensorMap_st;
struct CUlaunchConfig_st;
typedef unsigned tsr_cuda_result, tsr_cuda_enum; /* enums in cuda.h */
typedef unsigned long long tsr_cuda_address;

#define X(name, symbol, parameters) typedef tsr_cuda_result(*tsr_cuda_##name##_fn) parameters;
#include "runtime/device/cuda_driver.def"
#undef X

typedef struct tsr_cuda_launch { /* same layout as struct CUlaunchConfig_st */
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    struct CUstream_st *stream;
    const void *attributes;
    unsigned attribute_count;
} tsr_cuda_launch;

typedef struct tsr_cuda {
    void *library;
    const char *planned; /* see tsr_device_options */
#define X(name, symbol, parameters) tsr_cuda_##name##_fn name;
#include "runtime/device/cuda_driver.def"
#undef X
} tsr_cuda;

enum { /* values of cuda.h, with their original names */
       TSR_CUDA_SUCCESS = 0,
       TSR_CUDA_ERROR_INVALID_VALUE = 1,
       TSR_CUDA_ERROR_OUT_OF_MEMORY = 2,
       TSR_CUDA_ERROR_NO_DEVICE = 100,
       TSR_CUDA_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       TSR_CUDA_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       TSR_CUDA_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
       TSR_CUDA_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
       TSR_CUDA_STREAM_NON_BLOCKING = 1,
       TSR_CUDA_STREAM_CAPTURE_MODE_RELAXED = 2,
       TSR_CUDA_EVENT_DISABLE_TIMING = 2,
       TSR_CUDA_EVENT_RECORD_EXTERNAL = 1,
       TSR_CUDA_JIT_ERROR_LOG_BUFFER = 5,
       TSR_CUDA_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
       TSR_CUDA_MAP_FLOAT16 = 6,
       TSR_CUDA_MAP_FLOAT32 = 7,
       TSR_CUDA_MAP_BFLOAT16 = 9,
       TSR_CUDA_MAP_TFLOAT32 = 11,
       TSR_CUDA_MAP_SWIZZLE_NONE = 0,
       TSR_CUDA_MAP_SWIZZLE_128B = 3,
       TSR_CUDA_MAP_L2_128B = 2,
       TSR_CUDA_MAP_BYTES = 128, /* size of a struct CUtensorMap_st */
       TSR_CUDA_MAP_ALIGN = 64,
       TSR_CUDA_VERSION_MIN = 12000, /* 12.0 */
       TSR_CUDA_UUID_BYTES = 16,
       TSR_CUDA_UUID_TEXT_MAX = 48, /* "GPU-01234567-…" */
};

/* Opens the library ("libcuda.so.1" if NULL) and initialises it. TSR_MACHINE without a library, if
 * it is too old (both versions) or lacks a function (named), or without a device. */
TSR_RESULT tsr_cuda_open(tsr_ctx *ctx, const char *library, tsr_cuda *out_cuda);
void tsr_cuda_close(tsr_cuda *cuda);

/* Returns success, or the error of call `call`: "cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY",
 * followed by `about` if it is not NULL, and by advice if there is any (cuda_errors.def).
 * TSR_MEMORY if memory ran out, with the free and planned sizes, else TSR_MACHINE. */
TSR_RESULT tsr_cuda_check(tsr_ctx *ctx, const tsr_cuda *cuda, tsr_cuda_result result,
                          const char *call, const char *about);
/* Compares `needed_bytes` with the available memory: TSR_MEMORY with the needed, allowed
 * (`allowed_bytes`; UINT64_MAX: all), free and planned sizes. Success if no shortage is known. */
TSR_RESULT tsr_cuda_check_memory(tsr_ctx *ctx, const tsr_cuda *cuda, const char *about,
                                 uint64_t needed_bytes, uint64_t allowed_bytes);
/* Calls the function of table row `name` and checks its result. */
#define TSR_CUDA_CALL(ctx, cuda, name, about, ...)                                                 \
    tsr_cuda_check((ctx), (cuda), (cuda)->name(__VA_ARGS__), tsr_cuda_name_##name, (about))
#define X(name, symbol, parameters)                                                                \
    __attribute__((unused)) static const char tsr_cuda_name_##name[] = #symbol;
#include "runtime/device/cuda_driver.def"
#undef X

/* One device of the machine. */
typedef struct tsr_cuda_gpu {
    int device, ordinal;
    uint32_t capability; /* 90 means 9.0 */
    uint32_t multiprocessors;
    char name[128], uuid[TSR_CUDA_UUID_TEXT_MAX];
} tsr_cuda_gpu;
/* Finds a GPU by ordinal ("1"), by UUID ("GPU-…", or a prefix), or the first one (NULL). TSR_USAGE
 * lists the existing ones. */
TSR_RESULT tsr_cuda_find_gpu(tsr_ctx *ctx, const tsr_cuda *cuda, const char *selector,
                             tsr_cuda_gpu *out_gpu);

#endif
