/* SPDX-License-Identifier: Apache-2.0
 *
 * An open GPU, shared by several files: cuda.c opens it and runs lists, cuda_readers.c transfers
 * tensors concurrently.
 */
#ifndef TSR_RUNTIME_DEVICE_CUDA_DEVICE_H
#define TSR_RUNTIME_DEVICE_CUDA_DEVICE_H

#include "manifests/fatbin.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/device.h"

#include <pthread.h>

/* A reader of memory concurrent with runs. A reader uses its staging buffers alternately, because
 * bus writes into a buffer are slower if the buffer is in a CPU's cache after a read. */
enum { TSR_CUDA_READ_BUFFERS = 2 };
typedef struct tsr_cuda_reader {
    struct CUstream_st *stream;
    char *buffers; /* TSR_DEVICE_READ_BYTES_MAX each */
    bool locked;
    unsigned at; /* the room that was filled last */
} tsr_cuda_reader;

/* The copy of the memory for threads that read it while it changes. */
enum { TSR_CUDA_EXTENTS_MAX = 64 };
typedef struct tsr_cuda_extent {
    uint64_t begin, end; /* offsets in the memory */
} tsr_cuda_extent;
typedef struct tsr_cuda_snapshot {
    /* `before` is recorded early enough before the first command that writes; `copied` follows the
     * copies, in their own stream. */
    struct CUevent_st *before, *copied;
    struct CUstream_st *copies;
    tsr_cuda_address memory, copy;
    tsr_device_range range; /* range that is copied; empty if there is no memory for it */
    pthread_mutex_t turn;   /* held by readers of the copy */
    pthread_mutex_t mutex;  /* guards the following fields; only the device's own thread changes
                               `open` */
    pthread_cond_t freed;   /* signalled when `holds` becomes false */
    bool open;              /* nothing has been written since the snapshot */
    bool broken;            /* the copy is invalid */
    bool holds;             /* readers of the copy wait: the results of a run are due soon */
    uint32_t read_count;    /* extents that were read while it was open */
    tsr_cuda_extent read[TSR_CUDA_EXTENTS_MAX];
} tsr_cuda_snapshot;

/* Offloads and prefetches that run concurrently with other commands. Per device: the streams,
 * created for the first list that has such copies, and an event for the begin of a copy. */
typedef struct tsr_cuda_copy_streams {
    struct CUstream_st *offloads, *prefetches;
    struct CUevent_st *begins;
} tsr_cuda_copy_streams;
/* Per list: one event per command, NULL for commands other than these copies; in the list's arena.
 */
typedef struct tsr_cuda_list_copies {
    struct CUevent_st **done;   /* recorded after each; NULL: the list has no such copies, or copies
                                   in order */
    struct CUevent_st **stamps; /* recorded before and after each; NULL: not timed */
} tsr_cuda_list_copies;

/* Chunks of files pass through a window of host memory, then through a slot of device memory. */
enum { TSR_CUDA_SLOTS = TSR_DEVICE_DEPTH + TSR_DEVICE_WINDOWS };
typedef struct tsr_cuda_window {
    char *bytes;
    bool locked;
    struct CUevent_st *copied; /* recorded after the copy out of the window */
} tsr_cuda_window;
typedef struct tsr_cuda_slot {
    struct CUstream_st *stream;
    struct CUevent_st *hashed, *put; /* recorded after the hash; after everything */
    tsr_cuda_address bytes;
    char *digests; /* leaf digests; in page-locked host memory */
} tsr_cuda_slot;
typedef struct tsr_cuda_staged_upload {
    tsr_cuda_window windows[TSR_DEVICE_WINDOWS];
    tsr_cuda_slot slots[TSR_CUDA_SLOTS];
    struct CUstream_st *copies; /* NULL: not ready */
    void *host;                 /* contains the windows and the digests */
    tsr_cuda_window digests;    /* digests of all slots */
    tsr_cuda_address memory;    /* memory of all slots; 0: not begun */
} tsr_cuda_staged_upload;

typedef struct tsr_cuda_device {
    tsr_device base;
    tsr_cuda cuda;
    tsr_cuda_gpu gpu;
    tsr_arena arena;
    tsr_fatbin fatbin; /* its kernels are in the arena; its images are only valid during open */
    const char *const *names;
    uint64_t memory_max, memory_used;
    bool retained, one_by_one;
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct CUmod_st *module;
    struct CUfunc_st **functions; /* in the arena */
    unsigned *clusters;       /* number of blocks that each kernel runs together; in the arena */
    unsigned *fitting;        /* number of these blocks that run at a time; 0: not queried; in the
                                 arena */
    tsr_cuda_address scratch; /* large enough for every launch; 0: none */
    tsr_cuda_reader readers[TSR_DEVICE_READERS_MAX];
    void *buffers; /* address space of all rooms; NULL: none yet */
    tsr_cuda_snapshot snapshot;
    tsr_cuda_copy_streams overlap;
    tsr_cuda_staged_upload staged_upload;
    struct CUmod_st *leaves_module, *normals_module; /* modules of the runtime's own kernels */
    struct CUfunc_st *leaves, *normals;              /* NULL: not loaded yet */
    /* A helper thread prepares resources that will be needed soon; then its result, with the error
     * in its context. */
    bool readies, readies_draws, readies_staged_upload;
    pthread_t helper;
    tsr_ctx helper_ctx;
    tsr_result readied;
    char about[TSR_CUDA_UUID_TEXT_MAX + 160];
} tsr_cuda_device;

static inline tsr_cuda_address tsr_cuda_address_of(const void *device) {
    return (tsr_cuda_address)(uintptr_t)device;
}

/* Makes the device current for the calling thread. */
TSR_RESULT tsr_cuda_enter(tsr_ctx *ctx, const tsr_cuda_device *self);

/* cuda.c: allocates device memory; an error of memory begins with the requested size. */
TSR_RESULT tsr_cuda_reserve(tsr_ctx *ctx, const tsr_cuda_device *self, const char *about,
                            uint64_t size_bytes, tsr_cuda_address *out_address);

/* cuda_readers.c: maps address space of the host for `count` parts, with large pages if available,
 * because locking takes time for each page; *out_parts is aligned to the size of a part. Locking a
 * part allocates its memory. */
TSR_RESULT tsr_cuda_map_parts(tsr_ctx *ctx, size_t count, size_t part_bytes, void **out_mapping,
                              char **out_parts);
void tsr_cuda_unmap_parts(void *mapping, size_t count, size_t part_bytes);
TSR_RESULT tsr_cuda_lock_part(tsr_ctx *ctx, const tsr_cuda_device *self, char *part,
                              size_t size_bytes);
/* Returns the room to fill next. */
char *tsr_cuda_next_buffer(tsr_cuda_reader *reader);

/* See tsr_device_type. */
TSR_RESULT tsr_cuda_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count);
TSR_RESULT tsr_cuda_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         unsigned number, tsr_device_range range, const void **out_bytes);
tsr_result tsr_cuda_draw(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         uint64_t offset_bytes, const tsr_device_normals *normals);
/* cuda_snapshot.c: call before lists are prepared, which record snapshot.before; see
 * tsr_device_type. */
TSR_RESULT tsr_cuda_init_snapshot(tsr_ctx *ctx, tsr_cuda_device *self);
TSR_RESULT tsr_cuda_ready_snapshot(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                   bool *out_fits);
TSR_RESULT tsr_cuda_take_snapshot(tsr_ctx *ctx, tsr_device *device,
                                  const tsr_device_memory *memory);
TSR_RESULT tsr_cuda_read_snapshot(tsr_ctx *ctx, tsr_device *device, unsigned number,
                                  tsr_device_range range, const void **out_bytes);
/* Call before the device's stream gets commands that write tensors. `holds_readers`: if this ends
 * the validity of a snapshot, their readers wait until tsr_cuda_free_readers. */
TSR_RESULT tsr_cuda_let_write(tsr_ctx *ctx, tsr_cuda_device *self, bool holds_readers);
void tsr_cuda_free_readers(tsr_cuda_device *self);
/* Releases everything above. */
void tsr_cuda_finish_snapshot(tsr_cuda_device *self);
/* cuda_overlap.c: allocates page-locked host memory for offloaded values; nothing if size_bytes is
 * 0. */
TSR_RESULT tsr_cuda_allocate_offloaded(tsr_ctx *ctx, const tsr_cuda_device *self,
                                       uint64_t size_bytes, tsr_device_memory *memory);
void tsr_cuda_release_offloaded(const tsr_cuda_device *self, const tsr_device_memory *memory);
/* Create the events for capturing a list's concurrent copies, and for capturing them with times.
 * Both functions may fail half way: finish destroys the events that exist. */
TSR_RESULT tsr_cuda_ready_overlap(tsr_ctx *ctx, tsr_cuda_device *self, const tsr_device_list *list,
                                  tsr_arena *arena, tsr_cuda_list_copies *out_overlap);
TSR_RESULT tsr_cuda_time_overlap(tsr_ctx *ctx, const tsr_cuda_device *self,
                                 const tsr_device_list *list, tsr_arena *arena,
                                 tsr_cuda_list_copies *overlap);
void tsr_cuda_finish_overlap(const tsr_cuda_device *self, const tsr_device_list *list,
                             const tsr_cuda_list_copies *overlap);
void tsr_cuda_close_overlap(const tsr_cuda_device *self);
/* Records command `index`, a concurrent copy or an await, in a capture that begins with command
 * `begin`. */
TSR_RESULT tsr_cuda_record_overlap(tsr_ctx *ctx, const tsr_cuda_device *self,
                                   const tsr_device_list *list, const tsr_cuda_list_copies *overlap,
                                   uint32_t begin, uint32_t index);
/* Called when that capture ends, before command `end`: waits for the copies that have not been
 * awaited. */
TSR_RESULT tsr_cuda_join_overlap(tsr_ctx *ctx, const tsr_cuda_device *self,
                                 const tsr_device_list *list, const tsr_cuda_list_copies *overlap,
                                 uint32_t begin, uint32_t end);
/* Reads the spans of the copies if they are timed; event `began` was at began_ns. */
TSR_RESULT tsr_cuda_read_overlap(tsr_ctx *ctx, const tsr_cuda_device *self,
                                 const tsr_device_list *list, const tsr_cuda_list_copies *overlap,
                                 struct CUevent_st *began, uint64_t began_ns);
/* Starts a thread that prepares drawing, or the staged upload of `takes_bytes` bytes of files;
 * without a thread, this is done later. */
void tsr_cuda_expect(const tsr_ctx *ctx, tsr_cuda_device *self, bool draws, uint64_t takes_bytes);
/* Returns the machine code of the leaf hash kernel for this GPU; NULL: none. */
const tsr_fatbin_image *tsr_cuda_find_leaves(const tsr_cuda_device *self);
/* Loads the leaf hash kernel. */
TSR_RESULT tsr_cuda_ready_leaves(tsr_ctx *ctx, tsr_cuda_device *self);
/* cuda_staged_upload.c; tsr_cuda_ready_staged_upload may run on any thread, before the others. */
extern const tsr_device_staged_upload tsr_cuda_staged_upload_functions;
TSR_RESULT tsr_cuda_ready_staged_upload(tsr_ctx *ctx, tsr_cuda_device *self);
void tsr_cuda_finish_staged_upload(tsr_cuda_device *self);
/* cuda_limits.c: see tsr_device_type. */
TSR_RESULT tsr_cuda_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits);
/* Releases the resources of all of the above; call before the device is closed. */
void tsr_cuda_finish_readers(tsr_cuda_device *self);

#endif
