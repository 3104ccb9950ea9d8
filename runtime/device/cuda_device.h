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

/* Who reads memory beside runs. Rooms take turns: into one that a CPU has just read, and has in its
 * cache, the bus writes more slowly. */
enum { TSR_CUDA_ROOMS = 2 };
typedef struct tsr_cuda_reader {
    struct CUstream_st *stream;
    char *rooms; /* TSR_DEVICE_READ_BYTES_MAX each */
    bool locked;
    unsigned at; /* the one that was filled last */
} tsr_cuda_reader;

/* What is kept of the memory for those who read it while it changes. */
enum { TSR_CUDA_EXTENTS_MAX = 64 };
typedef struct tsr_cuda_extent {
    uint64_t begin, end; /* of the memory */
} tsr_cuda_extent;
typedef struct tsr_cuda_kept {
    /* Long enough before the first command that writes; behind the copies, in a stream of theirs.
     */
    struct CUevent_st *before, *copied;
    struct CUstream_st *copies;
    tsr_cuda_address memory, copy;
    tsr_device_range range; /* that is kept; empty where there is no room for it */
    pthread_mutex_t turn;   /* of readers of the copy */
    pthread_mutex_t mutex;  /* guards what follows; `open` changes by the device's own thread */
    pthread_cond_t freed;   /* `holds` is no more */
    bool open;              /* nothing was written since the keep */
    bool broken;            /* the copy is not good */
    bool holds;             /* readers of the copy wait: a run will have its results soon */
    uint32_t read_count;    /* extents that were read while it was open */
    tsr_cuda_extent read[TSR_CUDA_EXTENTS_MAX];
} tsr_cuda_kept;

/* Copies to the host's memory and back, which run beside other commands: of a device, streams that
 * are there from the first list on that has such; and an event for where one begins. */
typedef struct tsr_cuda_beside_streams {
    struct CUstream_st *offloads, *prefetches;
    struct CUevent_st *begins;
} tsr_cuda_beside_streams;
/* Of a list: events by command, NULL for others than these copies; in the list's arena. */
typedef struct tsr_cuda_beside {
    struct CUevent_st **done;   /* behind each; NULL: the list has none, or copies in order */
    struct CUevent_st **stamps; /* before and behind each; NULL: it is not timed */
} tsr_cuda_beside;

/* What chunks of files go through: a window of the host's memory, then a slot of the device's. */
enum { TSR_CUDA_SLOTS = TSR_DEVICE_DEPTH + TSR_DEVICE_WINDOWS };
typedef struct tsr_cuda_window {
    char *bytes;
    bool locked;
    struct CUevent_st *copied; /* behind the copy out of it */
} tsr_cuda_window;
typedef struct tsr_cuda_slot {
    struct CUstream_st *stream;
    struct CUevent_st *hashed, *put; /* behind the hash; behind all */
    tsr_cuda_address bytes;
    char *digests; /* of leaves; the host's, page-locked */
} tsr_cuda_slot;
typedef struct tsr_cuda_intake {
    tsr_cuda_window windows[TSR_DEVICE_WINDOWS];
    tsr_cuda_slot slots[TSR_CUDA_SLOTS];
    struct CUstream_st *copies; /* NULL: not ready */
    void *host;                 /* the windows and the digests lie in it */
    tsr_cuda_window digests;    /* of all slots */
    tsr_cuda_address memory;    /* of all slots; 0: not begun */
} tsr_cuda_intake;

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
    unsigned *fitting;            /* the same: blocks of these that run at a time; 0: not asked */
    tsr_cuda_address scratch;     /* as large as the launch that needs most; 0: none */
    tsr_cuda_reader readers[TSR_DEVICE_READERS_MAX];
    void *rooms; /* of all of them: address space; NULL: none yet */
    tsr_cuda_kept kept;
    tsr_cuda_beside_streams beside;
    tsr_cuda_intake intake;
    struct CUmod_st *leaves_module, *normals_module; /* of the runtime's own kernels */
    struct CUfunc_st *leaves, *normals;              /* NULL: not loaded yet */
    /* A thread readies what will be needed soon; then what it returned, its error in its context.
     */
    bool readies, readies_draws, readies_intake;
    pthread_t helper;
    tsr_ctx helper_ctx;
    tsr_result readied;
    char about[TSR_CUDA_UUID_TEXT_MAX + 160];
} tsr_cuda_device;

static inline tsr_cuda_address tsr_cuda_address_of(const void *device) {
    return (tsr_cuda_address)(uintptr_t)device;
}

/* The calling thread works with the device from now on. */
TSR_RESULT tsr_cuda_enter(tsr_ctx *ctx, const tsr_cuda_device *self);

/* cuda.c: memory of the device; an error of memory begins with how much was needed. */
TSR_RESULT tsr_cuda_reserve(tsr_ctx *ctx, const tsr_cuda_device *self, const char *about,
                            uint64_t size_bytes, tsr_cuda_address *out_address);

/* cuda_readers.c: address space of the host for that many parts, of large pages where there are
 * such, for locking takes time for each page; *out_parts is a multiple of the size of a part. One
 * that is locked takes memory. */
TSR_RESULT tsr_cuda_map_parts(tsr_ctx *ctx, size_t count, size_t part_bytes, void **out_mapping,
                              char **out_parts);
void tsr_cuda_unmap_parts(void *mapping, size_t count, size_t part_bytes);
TSR_RESULT tsr_cuda_lock_part(tsr_ctx *ctx, const tsr_cuda_device *self, char *part,
                              size_t size_bytes);
/* The room that is to be filled next. */
char *tsr_cuda_next_room(tsr_cuda_reader *reader);

/* See tsr_device_type. */
TSR_RESULT tsr_cuda_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count);
TSR_RESULT tsr_cuda_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         unsigned number, tsr_device_range range, const void **out_bytes);
tsr_result tsr_cuda_draw(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         uint64_t offset_bytes, const tsr_device_normals *normals);
/* cuda_kept.c: before lists are prepared, which record kept.before; see tsr_device_type. */
TSR_RESULT tsr_cuda_init_keeping(tsr_ctx *ctx, tsr_cuda_device *self);
TSR_RESULT tsr_cuda_ready_keeping(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                  bool *out_room);
TSR_RESULT tsr_cuda_keep(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory);
TSR_RESULT tsr_cuda_read_kept(tsr_ctx *ctx, tsr_device *device, unsigned number,
                              tsr_device_range range, const void **out_bytes);
/* Before what the device's stream gets next writes tensors. `holds_readers`: where that ends what
 * is kept, its readers wait until they are freed. */
TSR_RESULT tsr_cuda_let_write(tsr_ctx *ctx, tsr_cuda_device *self, bool holds_readers);
void tsr_cuda_free_readers(tsr_cuda_device *self);
/* All of it. */
void tsr_cuda_finish_keeping(tsr_cuda_device *self);
/* cuda_beside.c: memory of the host, page-locked, for what is away from the device; nothing where
 * size_bytes is 0. */
TSR_RESULT tsr_cuda_allocate_away(tsr_ctx *ctx, const tsr_cuda_device *self, uint64_t size_bytes,
                                  tsr_device_memory *memory);
void tsr_cuda_release_away(const tsr_cuda_device *self, const tsr_device_memory *memory);
/* What a list's copies beside other commands need to be captured, and to be captured with their
 * times. Both may fail half way: finish destroys what there is. */
TSR_RESULT tsr_cuda_ready_beside(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_list *list,
                                 tsr_arena *arena, tsr_cuda_beside *out_beside);
TSR_RESULT tsr_cuda_time_beside(tsr_ctx *ctx, const tsr_cuda_device *self,
                                const tsr_device_list *list, tsr_arena *arena,
                                tsr_cuda_beside *beside);
void tsr_cuda_finish_beside(const tsr_cuda_device *self, const tsr_device_list *list,
                            const tsr_cuda_beside *beside);
void tsr_cuda_close_beside(const tsr_cuda_device *self);
/* Command `index`, one of them or an await, in a capture that begins with command `begin`. */
TSR_RESULT tsr_cuda_record_beside(tsr_ctx *ctx, const tsr_cuda_device *self,
                                  const tsr_device_list *list, const tsr_cuda_beside *beside,
                                  uint32_t begin, uint32_t index);
/* Where that capture ends before command `end`: what is not awaited before is done, too. */
TSR_RESULT tsr_cuda_join_beside(tsr_ctx *ctx, const tsr_cuda_device *self,
                                const tsr_device_list *list, const tsr_cuda_beside *beside,
                                uint32_t begin, uint32_t end);
/* Their spans, where they are timed; event `began` was at began_ns. */
TSR_RESULT tsr_cuda_read_beside(tsr_ctx *ctx, const tsr_cuda_device *self,
                                const tsr_device_list *list, const tsr_cuda_beside *beside,
                                struct CUevent_st *began, uint64_t began_ns);
/* Readies what drawing, or taking so many bytes of files, needs, on a thread; it is done without
 * one, if need be. */
void tsr_cuda_expect(const tsr_ctx *ctx, tsr_cuda_device *self, bool draws, uint64_t takes_bytes);
/* Machine code of the kernel that hashes leaves, for this GPU; NULL: there is none. */
const tsr_fatbin_image *tsr_cuda_find_leaves(const tsr_cuda_device *self);
/* The kernel that hashes leaves is there. */
TSR_RESULT tsr_cuda_ready_leaves(tsr_ctx *ctx, tsr_cuda_device *self);
/* cuda_intake.c; ready_intake may run on any thread, before what else there is of it. */
extern const tsr_device_intake tsr_cuda_intake_functions;
TSR_RESULT tsr_cuda_ready_intake(tsr_ctx *ctx, tsr_cuda_device *self);
void tsr_cuda_finish_intake(tsr_cuda_device *self);
/* cuda_limits.c: see tsr_device_type. */
TSR_RESULT tsr_cuda_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits);
/* What the above took; before the device is closed. */
void tsr_cuda_finish_readers(tsr_cuda_device *self);

#endif
