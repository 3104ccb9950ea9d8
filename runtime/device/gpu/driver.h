/* SPDX-License-Identifier: Apache-2.0
 *
 * The library of a GPU's driver, opened at run time: NVIDIA's CUDA driver or AMD's HIP runtime,
 * whose functions have the same parameters. Our own declarations are used, so neither is needed to
 * build. What differs between the two is in one tsr_gpu_api each.
 */
#ifndef TSR_RUNTIME_DEVICE_GPU_DRIVER_H
#define TSR_RUNTIME_DEVICE_GPU_DRIVER_H

#include "manifests/fatbin.h"
#include "runtime/base/buffer.h"
#include "runtime/base/result.h"
#include "runtime/transport/tree.h"

struct tsr_gpu_uuid;
struct tsr_gpu_context;
struct tsr_gpu_module;
struct tsr_gpu_function;
struct tsr_gpu_stream;
struct tsr_gpu_event;
struct tsr_gpu_graph;
struct tsr_gpu_graph_exec;
struct tsr_gpu_tensor_map;
struct tsr_gpu_launch_config;
struct tsr_gpu_memory_properties;
struct tsr_gpu_memory_access;
typedef unsigned tsr_gpu_result, tsr_gpu_enum; /* enums in the vendors' headers */
/* A pointer in HIP, a number in CUDA: both are passed alike. */
typedef unsigned long long tsr_gpu_address;
_Static_assert(sizeof(tsr_gpu_address) == sizeof(void *), "addresses of GPUs are pointers");

#define X(name, parameters) typedef tsr_gpu_result(*tsr_gpu_##name##_fn) parameters;
#include "runtime/device/gpu/driver.def"
#undef X

typedef enum tsr_gpu_call {
#define X(name, parameters) TSR_GPU_CALL_##name,
#include "runtime/device/gpu/driver.def"
#undef X
    TSR_GPU_CALL_COUNT
} tsr_gpu_call;

typedef struct tsr_gpu_launch { /* same layout as struct tsr_gpu_launch_config */
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    struct tsr_gpu_stream *stream;
    const void *attributes;
    unsigned attribute_count;
} tsr_gpu_launch;

typedef struct tsr_gpu_location { /* of memory */
    tsr_gpu_enum kind;
    int device;
} tsr_gpu_location;

typedef struct tsr_gpu_properties { /* same layout as struct tsr_gpu_memory_properties */
    tsr_gpu_enum kind, handle_kinds;
    tsr_gpu_location location;
    void *unused;
    unsigned char flags[8];
} tsr_gpu_properties;

typedef struct tsr_gpu_access { /* same layout as struct tsr_gpu_memory_access */
    tsr_gpu_location location;
    tsr_gpu_enum flags;
} tsr_gpu_access;

typedef struct tsr_gpu_driver {
    void *library;
    const struct tsr_gpu_api *api;
    const char *planned; /* see tsr_device_options */
#define X(name, parameters) tsr_gpu_##name##_fn name;
#include "runtime/device/gpu/driver.def"
#undef X
} tsr_gpu_driver;

enum { /* values that both vendors' headers have */
       TSR_GPU_SUCCESS = 0,
       TSR_GPU_ERROR_INVALID_VALUE = 1,
       TSR_GPU_ERROR_OUT_OF_MEMORY = 2,
       TSR_GPU_ERROR_NO_DEVICE = 100,
       TSR_GPU_ERROR_NOT_READY = 600,
       TSR_GPU_STREAM_NON_BLOCKING = 1,
       TSR_GPU_STREAM_CAPTURE_MODE_RELAXED = 2,
       TSR_GPU_EVENT_DISABLE_TIMING = 2,
       TSR_GPU_EVENT_RECORD_EXTERNAL = 1,
       TSR_GPU_UUID_BYTES = 16,
};
enum { /* values of cuda.h, with their original names, for functions that only NVIDIA's driver has
        */
       TSR_GPU_DEVICE_ATTRIBUTE_FLUSHES_REMOTE_WRITES = 98,
       TSR_GPU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY = 102,
       TSR_GPU_DEVICE_ATTRIBUTE_HANDLE_FILE_DESCRIPTOR = 103,
       TSR_GPU_MEMORY_PINNED = 1,
       TSR_GPU_MEMORY_ON_DEVICE = 1,
       TSR_GPU_HANDLE_FILE_DESCRIPTOR = 1,
       TSR_GPU_GRANULARITY_RECOMMENDED = 1,
       TSR_GPU_ACCESS_READ_WRITE = 3,
       TSR_GPU_WAIT_UNTIL_REACHED = 0,
       TSR_GPU_WAIT_FLUSH = 1 << 30,
       TSR_GPU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
       TSR_GPU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
       TSR_GPU_JIT_ERROR_LOG_BUFFER = 5,
       TSR_GPU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
       TSR_GPU_MAP_FLOAT16 = 6,
       TSR_GPU_MAP_FLOAT32 = 7,
       TSR_GPU_MAP_BFLOAT16 = 9,
       TSR_GPU_MAP_TFLOAT32 = 11,
       TSR_GPU_MAP_SWIZZLE_NONE = 0,
       TSR_GPU_MAP_SWIZZLE_128B = 3,
       TSR_GPU_MAP_L2_128B = 2,
       TSR_GPU_MAP_BYTES = 128, /* size of a struct tsr_gpu_tensor_map */
       TSR_GPU_MAP_ALIGN = 64,
};
enum {                             /* sizes of texts */
       TSR_GPU_UUID_TEXT_MAX = 48, /* "GPU-01234567-…" */
       TSR_GPU_BUS_TEXT_MAX = 16,  /* "0000:1b:00.0" */
       TSR_GPU_TEXT_MAX = 64,
};

/* One device of the machine. */
typedef struct tsr_gpu_info {
    int device, ordinal;
    uint32_t arch; /* NVIDIA: 90 means compute capability 9.0; AMD: manifests/amd.def */
    uint32_t multiprocessors;
    char name[128], uuid[TSR_GPU_UUID_TEXT_MAX];
    char bus[TSR_GPU_BUS_TEXT_MAX]; /* its PCI address, in lower case */
} tsr_gpu_info;

typedef struct tsr_gpu_symbol {
    const char *symbol; /* NULL: not used */
    bool later;         /* older drivers lack it */
} tsr_gpu_symbol;

typedef struct tsr_gpu_advice {
    tsr_gpu_result result;
    const char *advice;
} tsr_gpu_advice;

/* A kernel that measures a rate, with parameters (to, steps), and the number of its operations. */
typedef struct tsr_gpu_rate {
    void (*print)(tsr_buffer *out);
    uint32_t threads, blocks; /* of a block; for each multiprocessor */
    uint32_t steps;
    double flops_of_step; /* operations of a block */
} tsr_gpu_rate;

/* The runtime's own kernels, as texts that the driver translates (cuda_ptx.h). */
typedef struct tsr_gpu_programs {
    unsigned threads; /* of a block, but for rates */
    const char *leaves_name, *normals_name;
    const char *(*get_combine_name)(tsr_reduction reduction);
    void (*print_leaves)(tsr_buffer *out);
    void (*print_normals)(tsr_buffer *out);
    void (*print_combine)(tsr_buffer *out);
    const tsr_fatbin_image *leaves_codes; /* machine code of the first one */
    const uint32_t *leaves_code_count;
    const char *rate_name;
    const tsr_gpu_rate *chains;                         /* f32 operations */
    const tsr_gpu_rate *(*get_products)(uint32_t arch); /* on matrix units */
} tsr_gpu_programs;

/* What differs between the drivers. */
typedef struct tsr_gpu_api {
    const char *name;             /* "CUDA" */
    const char *driver;           /* "NVIDIA driver" */
    const char *const *libraries; /* the first one that exists is opened; up to NULL */
    const char *const *hiders;    /* environment variables that hide devices; up to NULL */
    int version_min;
    void (*print_version)(int version, char out_text[static TSR_GPU_TEXT_MAX]);
    const tsr_gpu_symbol *symbols; /* of each tsr_gpu_call */
    const tsr_gpu_advice *advices; /* up to one without advice */
    tsr_gpu_result no_device;      /* a result of init, besides TSR_GPU_ERROR_NO_DEVICE */
    tsr_gpu_enum multiprocessors;  /* attribute */
    const char *(*get_error_name)(const tsr_gpu_driver *driver, tsr_gpu_result result);
    tsr_result (*find_arch)(tsr_ctx *ctx, const tsr_gpu_driver *driver, int device,
                            uint32_t *out_arch);
    void (*print_uuid)(const unsigned char bytes[static TSR_GPU_UUID_BYTES],
                       char out_text[static TSR_GPU_UUID_TEXT_MAX]);
    /* "compute capability 9.0" */
    void (*print_arch)(uint32_t arch, char out_text[static TSR_GPU_TEXT_MAX]);
    const tsr_fatbin_image *(*match)(const tsr_fatbin *fatbin, uint32_t arch);
    /* "machine code for 9.0 alone" */
    void (*print_image)(const tsr_fatbin_image *image, char out_text[static TSR_GPU_TEXT_MAX]);
    const tsr_gpu_programs *programs; /* NULL: none */
    const char *queues_variable;      /* environment: the number of hardware queues */
    bool captures_partly;             /* some commands cannot be captured */
} tsr_gpu_api;

/* Opens the library (one of the API's if NULL) and initialises it. TSR_MACHINE without a library,
 * if it is too old (both versions) or lacks a function (named), or without a device. */
TSR_RESULT tsr_gpu_open(tsr_ctx *ctx, const tsr_gpu_api *api, const char *library,
                        tsr_gpu_driver *out_driver);
void tsr_gpu_close(tsr_gpu_driver *driver);

/* Returns success, or the error of that call: "cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY",
 * followed by `about` if it is not NULL, and by advice if there is any. TSR_MEMORY if memory ran
 * out, with the free and planned sizes, else TSR_MACHINE. */
TSR_RESULT tsr_gpu_check(tsr_ctx *ctx, const tsr_gpu_driver *driver, tsr_gpu_result result,
                         tsr_gpu_call call, const char *about);
/* Compares `needed_bytes` with the available memory: TSR_MEMORY with the needed, allowed
 * (`allowed_bytes`; UINT64_MAX: all), free and planned sizes. Success if no shortage is known. */
TSR_RESULT tsr_gpu_check_memory(tsr_ctx *ctx, const tsr_gpu_driver *driver, const char *about,
                                uint64_t needed_bytes, uint64_t allowed_bytes);
/* Calls the function of table row `name` and checks its result. */
#define TSR_GPU_CALL(ctx, driver, name, about, ...)                                                \
    tsr_gpu_check((ctx), (driver), (driver)->name(__VA_ARGS__), TSR_GPU_CALL_##name, (about))

TSR_RESULT tsr_gpu_describe(tsr_ctx *ctx, const tsr_gpu_driver *driver, int ordinal,
                            tsr_gpu_info *out_gpu);
/* Finds a GPU by ordinal ("1"), by UUID ("GPU-…", or a prefix), by PCI address ("0000:1b:00.0"), or
 * the first one (NULL). TSR_USAGE lists the existing ones. */
TSR_RESULT tsr_gpu_find(tsr_ctx *ctx, const tsr_gpu_driver *driver, const char *selector,
                        tsr_gpu_info *out_gpu);

#endif
