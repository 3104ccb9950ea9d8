/* SPDX-License-Identifier: Apache-2.0
 *
 * An open GPU, for the files that share it: cuda.c opens it and runs lists, cuda_readers.c moves
 * tensors beside that.
 */
#ifndef TSR_RUNTIME_DEVICE_CUDA_DEVICE_H
#define TSR_RUNTIME_DEVICE_CUDA_DEVICE_H

#include "manifests/fatbin.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"

#include <pthread.h>

/* Who reads memory beside runs. */
typedef struct tsr_cuda_reader {
    struct CUstream_st *stream;
    void *room; /* page-locked */
} tsr_cuda_reader;

/* Where a chunk of a file goes through: windows of the host's memory in turn, then a slot of the
 * device's. */
enum { TSR_CUDA_LANE_WINDOWS = 2 };
typedef struct tsr_cuda_lane {
    struct CUstream_st *stream;
    struct CUevent_st *taken[TSR_CUDA_LANE_WINDOWS]; /* behind the copy out of that window */
    struct CUevent_st *done;                         /* behind all */
    char *windows, *host_digests;                    /* page-locked */
    tsr_cuda_address slot, digests;                  /* of leaves, as these */
    unsigned window;                                 /* that is filled */
    uint64_t window_offset_bytes;                    /* in the chunk, of the last one */
} tsr_cuda_lane;

typedef struct tsr_cuda_device {
    tsr_device base;
    tsr_cuda cuda;
    tsr_cuda_gpu gpu;
    tsr_arena arena;
    tsr_fatbin fatbin; /* its kernels lie in the arena; its images are gone after open */
    const char *const *names;
    uint64_t memory_max, memory_used;
    bool retained, one_by_one;
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct CUmod_st *module;
    struct CUfunc_st **functions; /* in the arena */
    unsigned *clusters;           /* in the arena: blocks that each runs together */
    tsr_cuda_address scratch;     /* as large as the launch that needs most; 0: none */
    tsr_cuda_reader readers[TSR_DEVICE_READERS_MAX];
    tsr_cuda_lane *lanes; /* owned; NULL: none */
    unsigned lane_count;
    char *lanes_host; /* all that they have of the host's memory, and of the device's */
    tsr_cuda_address lanes_device;
    struct CUmod_st *leaves_module, *normals_module; /* of the runtime's own kernels */
    struct CUfunc_st *leaves, *normals;              /* NULL: not loaded yet */
    bool translates; /* a thread loads the normals; then what it returned, its error in its context
                      */
    pthread_t translator;
    tsr_ctx translator_ctx;
    tsr_result translated;
    char about[TSR_CUDA_UUID_TEXT_MAX + 160];
} tsr_cuda_device;

static inline tsr_cuda_address tsr_cuda_address_of(const void *device) {
    return (tsr_cuda_address)(uintptr_t)device;
}

/* The calling thread works with the device from now on. */
TSR_RESULT tsr_cuda_enter(tsr_ctx *ctx, const tsr_cuda_device *self);

/* See tsr_device_type. */
TSR_RESULT tsr_cuda_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count);
TSR_RESULT tsr_cuda_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         unsigned number, tsr_device_range range, const void **out_bytes);
extern const tsr_device_lanes tsr_cuda_lanes;
tsr_result tsr_cuda_draw(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         uint64_t offset_bytes, const tsr_device_normals *normals);
/* Begins to translate what tsr_cuda_draw needs, on a thread; it is done without one, if need be. */
void tsr_cuda_expect_draws(const tsr_ctx *ctx, tsr_cuda_device *self);
/* What the above took; before the device is closed. */
void tsr_cuda_finish_readers(tsr_cuda_device *self);

#endif
