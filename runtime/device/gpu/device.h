/* SPDX-License-Identifier: Apache-2.0
 *
 * An open GPU, shared by the files of this folder: open.c opens it, lists.c runs lists, readers.c
 * transfers tensors concurrently.
 */
#ifndef TSR_RUNTIME_DEVICE_GPU_DEVICE_H
#define TSR_RUNTIME_DEVICE_GPU_DEVICE_H

#include "manifests/fatbin.h"
#include "runtime/device/device.h"
#include "runtime/device/gpu/driver.h"

#include <pthread.h>

/* A reader of memory concurrent with runs. A reader uses its staging buffers alternately, because
 * bus writes into a buffer are slower if the buffer is in a CPU's cache after a read. */
enum { TSR_GPU_READ_BUFFERS = 2 };
typedef struct tsr_gpu_reader {
    struct tsr_gpu_stream *stream;
    char *buffers; /* TSR_DEVICE_READ_BYTES_MAX each */
    bool locked;
    unsigned at; /* the room that was filled last */
} tsr_gpu_reader;

/* The copy of the memory for threads that read it while it changes. */
enum { TSR_GPU_EXTENTS_MAX = 64 };
typedef struct tsr_gpu_extent {
    uint64_t begin, end; /* offsets in the memory */
} tsr_gpu_extent;
typedef struct tsr_gpu_snapshot {
    /* `before` is recorded early enough before the first command that writes; `copied` follows the
     * copies, in their own stream. */
    struct tsr_gpu_event *before, *copied;
    struct tsr_gpu_stream *copies;
    tsr_gpu_address memory, copy;
    tsr_device_range range;       /* range that is copied; empty if there is no memory for it */
    pthread_mutex_t readers_lock; /* held by readers of the copy */
    pthread_mutex_t mutex; /* guards the following fields; only the device's own thread changes
                              `open` */
    pthread_cond_t freed;  /* signalled when `holds` becomes false */
    bool open;             /* nothing has been written since the snapshot */
    bool broken;           /* the copy is invalid */
    bool holds;            /* readers of the copy wait: the results of a run are due soon */
    uint32_t read_count;   /* extents that were read while it was open */
    tsr_gpu_extent read[TSR_GPU_EXTENTS_MAX];
} tsr_gpu_snapshot;

/* Offloads and prefetches that run concurrently with other commands. Per device: the streams,
 * created for the first list that has such copies, and an event for the begin of a copy. */
typedef struct tsr_gpu_copy_streams {
    struct tsr_gpu_stream *offloads, *prefetches;
    struct tsr_gpu_event *begins;
} tsr_gpu_copy_streams;
/* Per list: one event per command, NULL for commands other than these copies; in the list's arena.
 */
typedef struct tsr_gpu_list_copies {
    struct tsr_gpu_event **done;   /* recorded after each; NULL: the list has no such copies, or
                                   copies   in order */
    struct tsr_gpu_event **stamps; /* recorded before and after each; NULL: not timed */
} tsr_gpu_list_copies;

/* Chunks of files pass through a window of host memory, then through a slot of device memory. */
enum { TSR_GPU_SLOTS = TSR_DEVICE_DEPTH + TSR_DEVICE_WINDOWS };
typedef struct tsr_gpu_window {
    char *bytes;
    bool locked;
    struct tsr_gpu_event *copied; /* recorded after the copy out of the window */
} tsr_gpu_window;
typedef struct tsr_gpu_slot {
    struct tsr_gpu_stream *stream;
    struct tsr_gpu_event *hashed, *put; /* recorded after the hash; after everything */
    tsr_gpu_address bytes;
    char *digests; /* leaf digests; in page-locked host memory */
} tsr_gpu_slot;
typedef struct tsr_gpu_staged_upload {
    tsr_gpu_window windows[TSR_DEVICE_WINDOWS];
    tsr_gpu_slot slots[TSR_GPU_SLOTS];
    struct tsr_gpu_stream *copies; /* NULL: not ready */
    void *host;                    /* contains the windows and the digests */
    tsr_gpu_window digests;        /* digests of all slots */
    tsr_gpu_address memory;        /* memory of all slots; 0: not begun */
} tsr_gpu_staged_upload;

/* Exchanges with the GPUs of other processes. */
typedef struct tsr_gpu_peers {
    /* Other than the stream of runs; NULL: not used yet. */
    struct tsr_gpu_stream *streams[TSR_PEER_STREAM_COUNT];
    struct tsr_gpu_event *reached[TSR_PEER_RESCUE]; /* recorded in a stream for the other one */
    struct tsr_gpu_module *module;
    struct tsr_gpu_function *combine[TSR_REDUCTION_COUNT];
    tsr_peer_watch watch; /* call is NULL: nothing is watched */
    tsr_gpu_enum wait_flags;
} tsr_gpu_peers;

typedef struct tsr_gpu_device {
    tsr_device base;
    tsr_gpu_driver driver;
    tsr_gpu_info gpu;
    tsr_arena arena;
    tsr_fatbin fatbin; /* its kernels are in the arena; its images are only valid during open */
    const char *const *names;
    uint64_t memory_max, memory_used;
    bool retained, one_by_one, shares;
    struct tsr_gpu_context *context;
    struct tsr_gpu_stream *stream;
    struct tsr_gpu_module *module;
    struct tsr_gpu_function **functions; /* in the arena */
    unsigned *clusters;      /* number of blocks that each kernel runs together; in the arena */
    unsigned *fitting;       /* number of these blocks that run at a time; 0: not queried; in the
                                arena */
    tsr_gpu_address scratch; /* large enough for every launch; 0: none */
    tsr_gpu_reader readers[TSR_DEVICE_READERS_MAX];
    void *buffers; /* address space of all rooms; NULL: none yet */
    tsr_gpu_snapshot snapshot;
    tsr_gpu_copy_streams overlap;
    tsr_gpu_staged_upload staged_upload;
    tsr_gpu_peers peers;
    struct tsr_gpu_module *leaves_module,
        *normals_module;                       /* modules of the runtime's own kernels */
    struct tsr_gpu_function *leaves, *normals; /* NULL: not loaded yet */
    /* A helper thread prepares resources that will be needed soon; then its result, with the error
     * in its context. */
    bool readies, readies_samples, readies_staged_upload;
    pthread_t helper;
    tsr_ctx helper_ctx;
    tsr_result readied;
    char about[TSR_GPU_UUID_TEXT_MAX + 160];
} tsr_gpu_device;

static inline tsr_gpu_address tsr_gpu_address_of(const void *device) {
    return (tsr_gpu_address)(uintptr_t)device;
}

enum { TSR_GPU_BLOCKS_WITH_SCRATCH_MAX = 4 }; /* of a launch, for each multiprocessor */

/* open.c: for the `open` of a type that has a `gpu`. */
TSR_RESULT tsr_gpu_open_device(tsr_ctx *ctx, const tsr_device_type *type,
                               const tsr_device_options *options, tsr_device **out_device);
void tsr_gpu_close_device(tsr_device *device);
const char *tsr_gpu_describe_device(const tsr_device *device);
/* lists.c: see tsr_device_type. */
tsr_result tsr_gpu_prepare(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                           tsr_device_list *list);
void tsr_gpu_finish(tsr_device *device, tsr_device_list *list);
tsr_result tsr_gpu_run(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                       tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command);

/* Designated initialisers of a tsr_device_type, for all that the types of GPUs share. */
#define TSR_GPU_FUNCTIONS                                                                          \
    .close = tsr_gpu_close_device, .describe = tsr_gpu_describe_device,                            \
    .allocate = tsr_gpu_allocate, .release = tsr_gpu_release, .upload = tsr_gpu_upload,            \
    .download = tsr_gpu_download, .read_caller = tsr_gpu_read_caller,                              \
    .write_caller = tsr_gpu_write_caller, .get_number = tsr_gpu_get_number,                        \
    .await_caller = tsr_gpu_await_caller, .lock = tsr_gpu_lock, .unlock = tsr_gpu_unlock,          \
    .let_write = tsr_gpu_let_write_range, .combine = tsr_gpu_combine,                              \
    .peers = &tsr_gpu_peer_functions, .ready_readers = tsr_gpu_ready_readers,                      \
    .read = tsr_gpu_read, .ready_snapshot = tsr_gpu_ready_snapshot,                                \
    .take_snapshot = tsr_gpu_take_snapshot, .read_snapshot = tsr_gpu_read_snapshot,                \
    .prepare = tsr_gpu_prepare, .finish = tsr_gpu_finish, .run = tsr_gpu_run,                      \
    .measure = tsr_gpu_measure

/* Makes the device current for the calling thread. */
TSR_RESULT tsr_gpu_enter(tsr_ctx *ctx, const tsr_gpu_device *self);

/* memory.c: allocates device memory; an error of memory begins with the requested size. */
TSR_RESULT tsr_gpu_reserve(tsr_ctx *ctx, const tsr_gpu_device *self, const char *about,
                           uint64_t size_bytes, tsr_gpu_address *out_address);
void tsr_gpu_free(const tsr_gpu_device *self, tsr_gpu_address address); /* accepts 0 */
/* Put a transfer into the stream. */
TSR_RESULT tsr_gpu_upload_range(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_memory *memory,
                                tsr_device_range range);
TSR_RESULT tsr_gpu_download_range(tsr_ctx *ctx, tsr_gpu_device *self,
                                  const tsr_device_memory *memory, tsr_device_range range);
/* See tsr_device_type. */
tsr_result tsr_gpu_allocate(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                            uint64_t offloaded_bytes, tsr_device_range ports,
                            tsr_device_memory *out_memory);
void tsr_gpu_release(tsr_device *device, tsr_device_memory *memory);
tsr_result tsr_gpu_upload(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                          tsr_device_range range);
tsr_result tsr_gpu_download(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                            tsr_device_range range);
tsr_result tsr_gpu_read_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                               uint64_t size_bytes);
tsr_result tsr_gpu_write_caller(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                                uint64_t size_bytes);
int32_t tsr_gpu_get_number(const tsr_device *device);
tsr_result tsr_gpu_await_caller(tsr_ctx *ctx, tsr_device *device, const void *stream);
tsr_result tsr_gpu_lock(tsr_ctx *ctx, tsr_device *device, void *bytes, uint64_t size_bytes);
void tsr_gpu_unlock(tsr_device *device, void *bytes);

/* peers.c: functions of the table, and memory for it. */
extern const tsr_device_peers tsr_gpu_peer_functions;
/* Fails with the reason if the GPU cannot allocate memory that other processes can map. */
TSR_RESULT tsr_gpu_check_windows(tsr_ctx *ctx, const tsr_gpu_device *self);
/* Not zeroed. */
TSR_RESULT tsr_gpu_allocate_window(tsr_ctx *ctx, const tsr_gpu_device *self, uint64_t size_bytes,
                                   tsr_device_window *out_window);
void tsr_gpu_release_window(const tsr_gpu_device *self, tsr_device_window *window);
/* Wait for the stream of runs, or for an event in it; they fail when the watch of the exchanges
 * with other GPUs fails. */
TSR_RESULT tsr_gpu_wait(tsr_ctx *ctx, const tsr_gpu_device *self, const char *about);
TSR_RESULT tsr_gpu_wait_event(tsr_ctx *ctx, const tsr_gpu_device *self,
                              struct tsr_gpu_event *event);
/* See tsr_device_type. */
tsr_result tsr_gpu_combine(tsr_ctx *ctx, tsr_device *device, tsr_reduction reduction, void *out,
                           const void *a, const void *b, uint64_t count);
void tsr_gpu_close_peers(const tsr_gpu_device *self);

/* readers.c: maps address space of the host for `count` parts, with large pages if available,
 * because locking takes time for each page; *out_parts is aligned to the size of a part. Locking a
 * part allocates its memory. */
TSR_RESULT tsr_gpu_map_parts(tsr_ctx *ctx, size_t count, size_t part_bytes, void **out_mapping,
                             char **out_parts);
void tsr_gpu_unmap_parts(void *mapping, size_t count, size_t part_bytes);
TSR_RESULT tsr_gpu_lock_part(tsr_ctx *ctx, const tsr_gpu_device *self, char *part,
                             size_t size_bytes);
/* Returns the room to fill next. */
char *tsr_gpu_next_buffer(tsr_gpu_reader *reader);

/* See tsr_device_type. */
TSR_RESULT tsr_gpu_ready_readers(tsr_ctx *ctx, tsr_device *device, unsigned count);
TSR_RESULT tsr_gpu_read(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                        unsigned number, tsr_device_range range, const void **out_bytes);
tsr_result tsr_gpu_draw(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                        uint64_t offset_bytes, const tsr_device_normals *normals);
/* snapshot.c: call before lists are prepared, which record snapshot.before; see
 * tsr_device_type. */
TSR_RESULT tsr_gpu_init_snapshot(tsr_ctx *ctx, tsr_gpu_device *self);
TSR_RESULT tsr_gpu_ready_snapshot(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                  bool *out_fits);
TSR_RESULT tsr_gpu_take_snapshot(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory);
TSR_RESULT tsr_gpu_read_snapshot(tsr_ctx *ctx, tsr_device *device, unsigned number,
                                 tsr_device_range range, const void **out_bytes);
/* Call before the device's stream gets commands that write tensors. `holds_readers`: if this ends
 * the validity of a snapshot, their readers wait until tsr_gpu_free_readers. */
TSR_RESULT tsr_gpu_let_write(tsr_ctx *ctx, tsr_gpu_device *self, bool holds_readers);
void tsr_gpu_free_readers(tsr_gpu_device *self);
/* See tsr_device_type. */
tsr_result tsr_gpu_let_write_range(tsr_ctx *ctx, tsr_device *device, tsr_device_range range);
/* Releases everything above. */
void tsr_gpu_finish_snapshot(tsr_gpu_device *self);
/* overlap.c: allocates page-locked host memory for offloaded values; nothing if size_bytes is
 * 0. */
TSR_RESULT tsr_gpu_allocate_offloaded(tsr_ctx *ctx, const tsr_gpu_device *self, uint64_t size_bytes,
                                      tsr_device_memory *memory);
void tsr_gpu_release_offloaded(const tsr_gpu_device *self, const tsr_device_memory *memory);
/* Create the events for capturing a list's concurrent copies, and for capturing them with times.
 * Both functions may fail half way: finish destroys the events that exist. */
TSR_RESULT tsr_gpu_ready_overlap(tsr_ctx *ctx, tsr_gpu_device *self, const tsr_device_list *list,
                                 tsr_arena *arena, tsr_gpu_list_copies *out_overlap);
TSR_RESULT tsr_gpu_time_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                const tsr_device_list *list, tsr_arena *arena,
                                tsr_gpu_list_copies *overlap);
void tsr_gpu_finish_overlap(const tsr_gpu_device *self, const tsr_device_list *list,
                            const tsr_gpu_list_copies *overlap);
void tsr_gpu_close_overlap(const tsr_gpu_device *self);
/* Records command `index`, a concurrent copy or an await, in a capture that begins with command
 * `begin`. */
TSR_RESULT tsr_gpu_record_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                  const tsr_device_list *list, const tsr_gpu_list_copies *overlap,
                                  uint32_t begin, uint32_t index);
/* Called when that capture ends, before command `end`: waits for the copies that have not been
 * awaited. */
TSR_RESULT tsr_gpu_join_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                const tsr_device_list *list, const tsr_gpu_list_copies *overlap,
                                uint32_t begin, uint32_t end);
/* Reads the spans of the copies if they are timed; event `began` was at began_ns. */
TSR_RESULT tsr_gpu_read_overlap(tsr_ctx *ctx, const tsr_gpu_device *self,
                                const tsr_device_list *list, const tsr_gpu_list_copies *overlap,
                                struct tsr_gpu_event *began, uint64_t began_ns);
/* Starts a thread that prepares drawing, or the staged upload of `takes_bytes` bytes of files;
 * without a thread, this is done later. */
void tsr_gpu_expect(const tsr_ctx *ctx, tsr_gpu_device *self, bool samples, uint64_t takes_bytes);
/* Returns the machine code of the leaf hash kernel for this GPU; NULL: none. */
const tsr_fatbin_image *tsr_gpu_find_leaves(const tsr_gpu_device *self);
/* Loads the leaf hash kernel. */
TSR_RESULT tsr_gpu_ready_leaves(tsr_ctx *ctx, tsr_gpu_device *self);
/* staged_upload.c; tsr_gpu_ready_staged_upload may run on any thread, before the others. */
extern const tsr_device_staged_upload tsr_gpu_staged_upload_functions;
TSR_RESULT tsr_gpu_ready_staged_upload(tsr_ctx *ctx, tsr_gpu_device *self);
void tsr_gpu_finish_staged_upload(tsr_gpu_device *self);
/* limits.c: see tsr_device_type. */
TSR_RESULT tsr_gpu_measure(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits);
/* Releases the resources of all of the above; call before the device is closed. */
void tsr_gpu_finish_readers(tsr_gpu_device *self);

#endif
