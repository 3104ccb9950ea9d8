/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the executor and a device: one block of memory (a copy each on host and
 * device, or shared), numbered kernels, and lists of commands to run. Each device is one file and
 * one row of devices.def; null.c is the template.
 *
 *     open -> allocate -> prepare a list … -> (upload) -> run -> (download) -> … -> finish -> close
 *
 * Everything but read, read_snapshot and staged uploads is called from one thread at a time.
 * Nothing is allocated between prepare and finish.
 */
#ifndef TSR_RUNTIME_DEVICE_DEVICE_H
#define TSR_RUNTIME_DEVICE_DEVICE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/kernel.h"
#include "runtime/base/result.h"
#include "runtime/threads.h"
#include "runtime/trace/roof.h"
#include "runtime/transport/tree.h"

typedef struct tsr_device tsr_device;

typedef struct tsr_device_range {
    uint64_t offset_bytes, size_bytes; /* within the memory */
} tsr_device_range;

/* Memory of a device that other processes can map, or such memory of another process. */
typedef struct tsr_device_window {
    char *address; /* of the device */
    uint64_t size_bytes;
    uint64_t handle; /* private to the device */
} tsr_device_window;

/* Memory of `size_bytes` at two addresses, which are equal if the device shares memory with the
 * host. Otherwise the host must not dereference a device address. Host pages that are never touched
 * take no memory. */
typedef struct tsr_device_memory {
    char *host, *device;
    uint64_t size_bytes;
    tsr_device_range locked; /* page-locked range of the host's memory; private to the device */
    /* Additional host memory for offloaded values: at least the requested size, zeroed, page-locked
     * if the device needs that. NULL: none. */
    char *offloaded;
    uint64_t offloaded_bytes;
    tsr_device_window window; /* if the device was opened with `shares`: the memory at `device` */
    /* Called before a command, with each of its guarded addresses; a device with its own memory
     * calls it once with NULL, for all, before the first command that has any. NULL: no concurrent
     * readers. Set by the owner of the memory. */
    void (*guard)(void *user, const void *memory);
    void *guard_user; /* borrowed */
} tsr_device_memory;

enum { TSR_DEVICE_READERS_MAX = 9, TSR_DEVICE_READ_BYTES_MAX = 4 << 20 };

typedef enum tsr_device_command_kind {
    TSR_DEVICE_LAUNCH,
    TSR_DEVICE_COPY, /* copies copy_bytes from buffers[1] to buffers[0] */
    /* Copies that begin when the commands before them in the list are done, and may run
     * concurrently with later commands until their AWAIT, which each copy has. */
    TSR_DEVICE_OFFLOAD,  /* copies from the device to offloaded memory */
    TSR_DEVICE_PREFETCH, /* copies from offloaded memory to the device */
    TSR_DEVICE_AWAIT,    /* waits for such a copy: command `awaited` of the list */
} tsr_device_command_kind;

typedef struct tsr_device_command {
    tsr_device_command_kind kind;
    uint32_t kernel; /* number of a kernel with which the device was opened */
    uint32_t awaited;
    uint32_t buffer_count;
    void *const *buffers; /* device addresses and addresses of offloaded memory; borrowed */
    uint64_t grid;        /* number of programs */
    uint64_t cost;        /* see tsr_program_command */
    uint64_t copy_bytes;
    const char *location; /* location in the source, "" if unknown; borrowed */
    void *const *guarded; /* memory that it writes and that others may be reading; borrowed */
    uint32_t guarded_count;
} tsr_device_command;

/* Times of CLOCK_MONOTONIC; both are 0 for a command that did not run. */
typedef struct tsr_device_span {
    uint64_t begin_ns, end_ns;
} tsr_device_span;

typedef struct tsr_device_list {
    const char *name;                   /* borrowed; for messages */
    const tsr_device_command *commands; /* borrowed */
    uint32_t command_count;
    tsr_device_range inputs, outputs; /* transferred before the run, and back after it */
    uint64_t cost_max;                /* maximum cost of its launches */
    bool moves;     /* addresses of buffers change between runs; only for copies */
    void *prepared; /* private to the device; NULL before prepare */
    /* One span for each command, then one each for the transfers of inputs and outputs, which a run
     * fills (zeros if there is no transfer); NULL: no timing. The span of an offload or prefetch is
     * the time of the copy; the span of an await is the time without other work. Borrowed. */
    tsr_device_span *spans;
} tsr_device_list;

typedef struct tsr_device_options {
    const char *selector; /* "0", "GPU-…"; NULL: the first one */
    const void *code;     /* format of the target's layer of a bundle; borrowed during open */
    size_t code_size_bytes;
    const char *const *kernels; /* names; borrowed while the device is open */
    size_t kernel_count;
    unsigned threads;    /* CPU: see tsr_threads_create */
    const char *library; /* a driver library instead of the system's; or NULL */
    /* Maximum bytes that allocate may take of a device with its own memory; 0: no limit. Scratch
     * memory and fault records of its kernels are additional. */
    uint64_t memory_max;
    /* An asynchronous device waits after each command, so that an error names the command. */
    bool one_by_one;
    bool shares;          /* other processes will map its memory, if the device has `peers` */
    bool samples;         /* draw will be called soon */
    uint64_t takes_bytes; /* bytes of files that a staged upload will take soon, see
                             tsr_device_staged_upload; 0: none */
    /* Text about the program's planned memory, appended to errors about a lack of memory; borrowed
     * while the device is open. NULL: none. */
    const char *planned;
} tsr_device_options;

/* Loads chunks of files with known digests (runtime/base/hash/hash.h) into tensors of a device that
 * can hash them itself. Between begin and end, chunks are numbered from 0; for each chunk:
 *
 *     room -> read the chunk into it -> take -> digest -> put the needed ranges
 *
 * on any threads. Call room after take of the chunk TSR_DEVICE_WINDOWS before, and take after all
 * calls for the chunk TSR_DEVICE_DEPTH before. The device may do nothing else during an upload. end
 * is also called after a failure. */
enum { TSR_DEVICE_WINDOWS = 8, TSR_DEVICE_DEPTH = 2 * TSR_DEVICE_WINDOWS };
typedef struct tsr_device_staged_upload {
    /* Minimum size for which this is faster than the host. */
    uint64_t (*bytes_min)(const tsr_device *device);
    tsr_result (*begin)(tsr_ctx *ctx, tsr_device *device);
    /* Returns the memory into which the chunk is written: TSR_HASH_CHUNK_BYTES. Borrowed. */
    tsr_result (*get_window)(tsr_ctx *ctx, tsr_device *device, uint64_t number, void **out_window);
    /* Takes the chunk, which has been written there and has this size. */
    tsr_result (*submit)(tsr_ctx *ctx, tsr_device *device, uint64_t number, size_t size_bytes);
    /* Returns the digest of the chunk, as computed by the device. */
    tsr_result (*digest)(tsr_ctx *ctx, tsr_device *device, uint64_t number, size_t size_bytes,
                         tsr_digest *out_digest);
    /* Copies bytes at `offset_bytes` of the chunk to that range of the memory. */
    tsr_result (*put)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                      uint64_t number, uint64_t offset_bytes, tsr_device_range to);
    tsr_result (*end)(tsr_ctx *ctx, tsr_device *device);
} tsr_device_staged_upload;

/* Exchanges between devices of several processes on one host, without the host's memory. The
 * commands are put into one of several streams of the device, and a later command of a stream
 * begins when its earlier ones are done. Everything is called from the thread of runs. */
typedef enum tsr_peer_stream {
    TSR_PEER_MAIN, /* also has the commands of runs */
    TSR_PEER_PUSHES,
    TSR_PEER_RESCUE, /* only for the release of waits */
    TSR_PEER_STREAM_COUNT
} tsr_peer_stream;
typedef struct tsr_peer_watch {
    /* Called repeatedly while the host waits for the device; a failure ends the wait. */
    tsr_result (*call)(tsr_ctx *ctx, void *user);
    /* Called after a failure, until all commands are done: sets the words for which commands wait.
     */
    tsr_result (*release)(tsr_ctx *ctx, void *user);
    void *user; /* borrowed */
} tsr_peer_watch;
typedef struct tsr_device_peers {
    /* Text that identifies the device on all hosts; borrowed. */
    const char *(*get_identity)(const tsr_device *device);
    /* Fails with the reason if the device cannot share memory, or cannot write the memory of the
     * device with that identity. */
    tsr_result (*check)(tsr_ctx *ctx, tsr_device *device, const char *identity);
    /* The first `zeroed_bytes` of the memory are zero. */
    tsr_result (*allocate)(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                           uint64_t zeroed_bytes, tsr_device_window *out_window);
    /* out_fd: owned by the caller. */
    tsr_result (*export_window)(tsr_ctx *ctx, tsr_device *device, const tsr_device_window *window,
                                int *out_fd);
    /* Maps the memory of another process; its size is that of the exported window. */
    tsr_result (*import_window)(tsr_ctx *ctx, tsr_device *device, int fd, uint64_t size_bytes,
                                tsr_device_window *out_window);
    void (*release)(tsr_device *device, tsr_device_window *window); /* either kind */
    void (*watch)(tsr_device *device, const tsr_peer_watch *watch); /* copied; NULL: no longer */
    /* Commands. */
    tsr_result (*copy)(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream, void *to,
                       const void *from, uint64_t size_bytes);
    tsr_result (*set)(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream, uint32_t *word,
                      uint32_t value);
    /* Waits until *word - value, as a signed number, is at least 0. */
    tsr_result (*await)(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream,
                        const uint32_t *word, uint32_t value);
    /* MAIN waits for the commands that are now in PUSHES, or the reverse. */
    tsr_result (*follow)(tsr_ctx *ctx, tsr_device *device, tsr_peer_stream stream);
    /* Returns when all commands are done, or the watch fails. */
    tsr_result (*wait)(tsr_ctx *ctx, tsr_device *device);
} tsr_device_peers;

/* f32 numbers a + b * n, rounded once; n are the values of tsr_philox_normals with key {seed,
 * stream}. */
typedef struct tsr_device_normals {
    uint64_t first, count;
    double a, b;
    uint32_t seed, stream;
} tsr_device_normals;

/* Functions of a device type. A fault ends a run: *out_fault is the record of the first command
 * with a fault, *out_command is that command; kind TSR_FAULT_NONE without a fault. */
typedef struct tsr_device_type {
    const char *name;              /* first part of its targets: "cpu" */
    const struct tsr_gpu_api *gpu; /* gpu/driver.h; NULL: not a GPU */
    bool shares_memory;            /* upload and download do nothing */
    tsr_result (*open)(tsr_ctx *ctx, const tsr_device_options *options, tsr_device **out_device);
    void (*close)(tsr_device *device);
    const char *(*describe)(const tsr_device *device); /* borrowed: "NVIDIA H200 (0)" */
    /* Allocates zeroed memory. The inputs and outputs of lists must be in `ports`; other transfers
     * must be completely within or outside of `ports`: a driver refuses to copy memory that is only
     * partly page-locked. `offloaded_bytes`: additional host memory for offloaded values; 0: none.
     */
    tsr_result (*allocate)(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                           uint64_t offloaded_bytes, tsr_device_range ports,
                           tsr_device_memory *out_memory);
    void (*release)(tsr_device *device, tsr_device_memory *memory);
    tsr_result (*upload)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         tsr_device_range range);
    tsr_result (*download)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                           tsr_device_range range);
    /* Copy between the host's memory and memory of the caller on the device: an address that this
     * process may give to the device. Returns when the copy is done. NULL if the memory is shared.
     */
    tsr_result (*read_caller)(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                              uint64_t size_bytes);
    tsr_result (*write_caller)(tsr_ctx *ctx, tsr_device *device, const void *from, void *to,
                               uint64_t size_bytes);
    /* The number by which other programs know the device: CUDA's ordinal. NULL if the memory is
     * shared. */
    int32_t (*get_number)(const tsr_device *device);
    /* Waits for work of the caller on this stream of the device (a CUstream, NULL is the default
     * one). NULL if the memory is shared. */
    tsr_result (*await_caller)(tsr_ctx *ctx, tsr_device *device, const void *stream);
    /* Locks pages of the host, which makes copies from and to them faster. NULL: not needed. */
    tsr_result (*lock)(tsr_ctx *ctx, tsr_device *device, void *bytes, uint64_t size_bytes);
    void (*unlock)(tsr_device *device, void *bytes);
    /* Call before commands outside of runs write the range. NULL: not needed. */
    tsr_result (*let_write)(tsr_ctx *ctx, tsr_device *device, tsr_device_range range);
    /* out = a and b combined in the device's memory, as tsr_tree_combine does; before the next run,
     * or before the next copy to the host ends. NULL if the memory is shared. */
    tsr_result (*combine)(tsr_ctx *ctx, tsr_device *device, tsr_reduction reduction, void *out,
                          const void *a, const void *b, uint64_t count);
    const tsr_device_peers *peers; /* NULL: the device cannot exchange with other devices */
    /* Reads the device's values of the range concurrently with a run that does not write it. They
     * are at *out_bytes until the same reader (below TSR_DEVICE_READERS_MAX, and ready) reads
     * again; at most TSR_DEVICE_READ_BYTES_MAX. Any thread may call read, two threads with
     * different readers. NULL if the memory is shared. */
    tsr_result (*ready_readers)(tsr_ctx *ctx, tsr_device *device, unsigned count);
    tsr_result (*read)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                       unsigned reader, tsr_device_range range, const void **out_bytes);
    /* Snapshots of a range: runs need not wait for its readers. read_snapshot returns the values at
     * the time of the snapshot, as above, also when runs have written the range since. Each part is
     * read once, best in the order of the memory, before the next snapshot. ready_snapshot
     * allocates memory for this; *out_fits is false if memory is insufficient. NULL: not supported.
     */
    tsr_result (*ready_snapshot)(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                 bool *out_fits);
    tsr_result (*take_snapshot)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory);
    tsr_result (*read_snapshot)(tsr_ctx *ctx, tsr_device *device, unsigned reader,
                                tsr_device_range range, const void **out_bytes);
    const tsr_device_staged_upload *staged_upload; /* NULL: the device cannot hash */
    /* Draws into the device's memory at `offset_bytes`. NULL: not supported. */
    tsr_result (*draw)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                       uint64_t offset_bytes, const tsr_device_normals *normals);
    tsr_result (*prepare)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                          tsr_device_list *list);
    void (*finish)(tsr_device *device, tsr_device_list *list);
    tsr_result (*run)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                      tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command);
    /* Measures the device's limits now; zeros for unknown ones. */
    tsr_result (*measure)(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits);
} tsr_device_type;

struct tsr_device {
    const tsr_device_type *type; /* the first member of each device's own struct */
};

#define X(ID, type) extern const tsr_device_type type;
#include "runtime/device/devices.def"
#undef X

/* Returns the type that runs targets of this name ("cuda:sm_90a" or "cuda"); NULL if no type does.
 */
const tsr_device_type *tsr_device_find(const char *target);
/* TSR_TARGET if no type runs `target`; otherwise the result of the type's open. */
TSR_RESULT tsr_device_open(tsr_ctx *ctx, const char *target, const tsr_device_options *options,
                           tsr_device **out_device);
void tsr_device_close(tsr_device *device); /* accepts NULL */

/* Creates a CPU device with existing kernels: `kernels` and `threads` are borrowed. */
TSR_RESULT tsr_device_cpu_create(tsr_ctx *ctx, const tsr_kernel_fn *kernels, tsr_threads *threads,
                                 tsr_device **out_device);
/* Returns the threads of a CPU device, borrowed; NULL for other devices. */
tsr_threads *tsr_device_cpu_get_threads(const tsr_device *device);

/* The following functions are for types of GPUs only. Architectures of NVIDIA GPUs: 90 for compute
 * capability 9.0; of AMD GPUs: manifests/amd.def. */

/* Returns the architecture of the GPU that `selector` and `library` select, as in
 * tsr_device_options. */
TSR_RESULT tsr_device_gpu_probe(tsr_ctx *ctx, const tsr_device_type *type, const char *selector,
                                const char *library, uint32_t *out_arch);
/* A GPU of this machine, as the driver shows it. */
typedef struct tsr_device_gpu {
    uint32_t arch;
    int ordinal;
    char name[128], uuid[64];
    char bus[32]; /* PCI address, as in /sys/bus/pci/devices */
} tsr_device_gpu;
/* Lists the GPUs, in the arena. */
TSR_RESULT tsr_device_gpu_list(tsr_ctx *ctx, const tsr_device_type *type, const char *library,
                               tsr_arena *arena, tsr_device_gpu **out_gpus, uint32_t *out_count);
/* Free memory of a device, and the memory that kernels need in addition to buffers: their code,
 * with its stored size, and their shared scratch memory. */
typedef struct tsr_device_capacity {
    uint64_t free_bytes, code_bytes, scratch_bytes;
} tsr_device_capacity;

/* Checks that the GPU selected by `options` can be opened, has suitable code in
 * `options->code`, and has enough memory for `size_bytes` and scratch memory, with the same
 * messages as open and allocate. Only creates a context temporarily. Each field of *out_capacity is
 * written as soon as it is known, even if memory is insufficient. */
TSR_RESULT tsr_device_gpu_check(tsr_ctx *ctx, const tsr_device_type *type,
                                const tsr_device_options *options, uint64_t size_bytes,
                                tsr_device_capacity *out_capacity);
/* Updates the range of host memory at `bytes` with the device's values. */
TSR_RESULT tsr_device_download(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                               const char *bytes, uint64_t size_bytes);

#endif
