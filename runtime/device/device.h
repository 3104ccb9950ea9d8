/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is to the executor: one block of memory that host and device both see a copy of (or
 * share), kernels by number, and lists of commands to run. One file and one row of devices.def for
 * each; null.c is the template.
 *
 *     open -> allocate -> prepare a list … -> (upload) -> run -> (download) -> … -> finish -> close
 *
 * Everything but read, read_kept and intake is called from one thread at a time. Nothing is
 * allocated between prepare and finish.
 */
#ifndef TSR_RUNTIME_DEVICE_DEVICE_H
#define TSR_RUNTIME_DEVICE_DEVICE_H

#include "runtime/base/hash.h"
#include "runtime/base/kernel.h"
#include "runtime/base/result.h"
#include "runtime/threads.h"
#include "runtime/trace/roof.h"

typedef struct tsr_device tsr_device;

typedef struct tsr_device_range {
    uint64_t offset_bytes, size_bytes; /* of the memory */
} tsr_device_range;

/* Memory of `size_bytes` at two addresses; the same where the device shares memory with the host. A
 * device address is not to be read through by the host otherwise. What the host never touches of
 * its copy takes none of its memory. */
typedef struct tsr_device_memory {
    char *host, *device;
    uint64_t size_bytes;
    tsr_device_range locked; /* of the host's pages; the device's own */
    /* Of the host besides, for values that are away from the device meanwhile: at least what was
     * asked for, zeroed, page-locked where the device needs that. NULL: none. */
    char *away;
    uint64_t away_bytes;
    /* Called before a command, with each of what that has guarded; by a device of its own memory
     * once before the first that has some, with NULL, for all. NULL: nobody else reads. Set by who
     * allocated. */
    void (*guard)(void *user, const void *memory);
    void *guard_user; /* borrowed */
} tsr_device_memory;

enum { TSR_DEVICE_READERS_MAX = 9, TSR_DEVICE_READ_BYTES_MAX = 4 << 20 };

typedef enum tsr_device_command_kind {
    TSR_DEVICE_LAUNCH,
    TSR_DEVICE_COPY, /* of copy_bytes from buffers[1] to buffers[0] */
    /* Copies that begin when what is before them in the list is done, and may run beside what is
     * behind until they are awaited, which each is. */
    TSR_DEVICE_OFFLOAD,  /* to the memory away from the device */
    TSR_DEVICE_PREFETCH, /* from there */
    TSR_DEVICE_AWAIT,    /* of one of these before it: command `awaited` of the list */
} tsr_device_command_kind;

typedef struct tsr_device_command {
    tsr_device_command_kind kind;
    uint32_t kernel; /* of those the device was opened with */
    uint32_t awaited;
    uint32_t buffer_count;
    void *const *buffers; /* device addresses, and those of memory that is away; borrowed */
    uint64_t grid;        /* programs */
    uint64_t cost;        /* see tsr_program_command */
    uint64_t copy_bytes;
    const char *location; /* in the source, "" if unknown; borrowed */
    void *const *guarded; /* what it writes that others may be reading; borrowed */
    uint32_t guarded_count;
} tsr_device_command;

/* Of CLOCK_MONOTONIC; of a command that did not run both are 0. */
typedef struct tsr_device_span {
    uint64_t begin_ns, end_ns;
} tsr_device_span;

typedef struct tsr_device_list {
    const char *name;                   /* borrowed; for messages */
    const tsr_device_command *commands; /* borrowed */
    uint32_t command_count;
    tsr_device_range inputs, outputs; /* brought to the device before, and back after */
    uint64_t cost_max;                /* of its launches */
    bool moves;                       /* buffers' addresses change between runs; copies alone */
    void *prepared;                   /* the device's own; NULL before prepare */
    /* One for each command, then those of the inputs and the outputs on their way, which a run
     * fills (zeros where there is nothing to do); NULL: it need not. That of an offload or prefetch
     * is when it copied, that of an await how long there was nothing else to do. Borrowed. */
    tsr_device_span *spans;
} tsr_device_list;

typedef struct tsr_device_options {
    const char *selector; /* "0", "GPU-…"; NULL: the first one */
    const void *code;     /* as the target's layer of a bundle holds it; borrowed during open */
    size_t code_size_bytes;
    const char *const *kernels; /* names; borrowed as long as the device is open */
    size_t kernel_count;
    unsigned threads;    /* CPU: as tsr_threads_create */
    const char *library; /* a driver other than the system's; NULL */
    /* Bytes that allocate may take of a device with memory of its own; 0: all there is. Scratch and
     * fault records of its kernels come on top. */
    uint64_t memory_max;
    /* A device that works beside the host: wait after each command, so that an error names it. */
    bool one_by_one;
    bool draws;           /* soon; see draw */
    uint64_t takes_bytes; /* of files, soon: see tsr_device_intake; 0: none */
    /* What the program plans, in words that end what is said where memory is short; borrowed as
     * long as the device is open. NULL: nothing. */
    const char *planned;
} tsr_device_options;

/* How chunks of files, whose digests are known (runtime/base/hash.h), become tensors of a device
 * that can hash them itself. Between begin and end they have numbers from 0 on; of each
 *
 *     room -> it is read to there -> take -> digest -> put what is wanted of it
 *
 * by whatever threads: room of a chunk after take of that TSR_DEVICE_WINDOWS before, take after all
 * of that TSR_DEVICE_DEPTH before. Nothing else of the device runs meanwhile. end is called also
 * after a failure. */
enum { TSR_DEVICE_WINDOWS = 8, TSR_DEVICE_DEPTH = 2 * TSR_DEVICE_WINDOWS };
typedef struct tsr_device_intake {
    /* With fewer the host is as fast. */
    uint64_t (*bytes_min)(const tsr_device *device);
    tsr_result (*begin)(tsr_ctx *ctx, tsr_device *device);
    /* Where the chunk is to be written: TSR_HASH_CHUNK_BYTES. Borrowed. */
    tsr_result (*room)(tsr_ctx *ctx, tsr_device *device, uint64_t number, void **out_room);
    /* It lies there, and has so many bytes. */
    tsr_result (*take)(tsr_ctx *ctx, tsr_device *device, uint64_t number, size_t size_bytes);
    /* Of the chunk, as the device has it. */
    tsr_result (*digest)(tsr_ctx *ctx, tsr_device *device, uint64_t number, size_t size_bytes,
                         tsr_digest *out_digest);
    /* What lies at `offset_bytes` of the chunk, to that range of the memory. */
    tsr_result (*put)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                      uint64_t number, uint64_t offset_bytes, tsr_device_range to);
    tsr_result (*end)(tsr_ctx *ctx, tsr_device *device);
} tsr_device_intake;

/* f32 numbers a + b * n, rounded once; n are those of tsr_philox_normals with key {seed, stream}.
 */
typedef struct tsr_device_normals {
    uint64_t first, count;
    double a, b;
    uint32_t seed, stream;
} tsr_device_normals;

/* A device type's functions. A fault ends a run: *out_fault is what the first command that met one
 * recorded, *out_command that command; kind TSR_FAULT_NONE where there was none. */
typedef struct tsr_device_type {
    const char *name;   /* what targets begin with: "cpu" */
    bool shares_memory; /* upload and download do nothing */
    tsr_result (*open)(tsr_ctx *ctx, const tsr_device_options *options, tsr_device **out_device);
    void (*close)(tsr_device *device);
    const char *(*describe)(const tsr_device *device); /* borrowed: "NVIDIA H200 (0)" */
    /* Zeroed. The inputs and outputs of lists will lie in `ports`; what is moved otherwise lies
     * within or outside them, not across their ends: a driver refuses to copy what is page-locked
     * in part. `away_bytes`: of the host's memory besides; 0: none. */
    tsr_result (*allocate)(tsr_ctx *ctx, tsr_device *device, uint64_t size_bytes,
                           uint64_t away_bytes, tsr_device_range ports,
                           tsr_device_memory *out_memory);
    void (*release)(tsr_device *device, tsr_device_memory *memory);
    tsr_result (*upload)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                         tsr_device_range range);
    tsr_result (*download)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                           tsr_device_range range);
    /* The range as the device has it, beside a run that does not write it: at *out_bytes until the
     * same reader (below TSR_DEVICE_READERS_MAX, and ready) reads again; at most
     * TSR_DEVICE_READ_BYTES_MAX. Any thread may call read, two of them with different readers. NULL
     * where the memory is shared. */
    tsr_result (*ready_readers)(tsr_ctx *ctx, tsr_device *device, unsigned count);
    tsr_result (*read)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                       unsigned reader, tsr_device_range range, const void **out_bytes);
    /* So that readers need not be waited for: what keep finds in the range is at *out_bytes of
     * read_kept, as above, also when runs have written it since; each part is read once, best in
     * the order of the memory, before the next keep. ready_keeping takes memory for it: *out_room
     * false where there is not so much. NULL: it cannot keep. */
    tsr_result (*ready_keeping)(tsr_ctx *ctx, tsr_device *device, tsr_device_range range,
                                bool *out_room);
    tsr_result (*keep)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory);
    tsr_result (*read_kept)(tsr_ctx *ctx, tsr_device *device, unsigned reader,
                            tsr_device_range range, const void **out_bytes);
    const tsr_device_intake *intake; /* NULL: it cannot hash */
    /* To the device's memory, from `offset_bytes` of it on. NULL: it cannot draw. */
    tsr_result (*draw)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                       uint64_t offset_bytes, const tsr_device_normals *normals);
    tsr_result (*prepare)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                          tsr_device_list *list);
    void (*finish)(tsr_device *device, tsr_device_list *list);
    tsr_result (*run)(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                      tsr_device_list *list, tsr_fault *out_fault, uint32_t *out_command);
    /* What the device does at most, measured now; zeros for what it cannot tell. */
    tsr_result (*measure)(tsr_ctx *ctx, tsr_device *device, tsr_limits *out_limits);
} tsr_device_type;

struct tsr_device {
    const tsr_device_type *type; /* first member of each device's own struct */
};

#define X(ID, type) extern const tsr_device_type type;
#include "runtime/device/devices.def"
#undef X

/* The type that targets of this name ("cuda:sm_90a" or "cuda") run on; NULL if there is none. */
const tsr_device_type *tsr_device_find(const char *target);
/* TSR_TARGET where no type runs `target`; else what the type's open says. */
TSR_RESULT tsr_device_open(tsr_ctx *ctx, const char *target, const tsr_device_options *options,
                           tsr_device **out_device);
void tsr_device_close(tsr_device *device); /* accepts NULL */

/* A CPU device of kernels that are there already: `kernels` and `threads` are borrowed. */
TSR_RESULT tsr_device_cpu_create(tsr_ctx *ctx, const tsr_kernel_fn *kernels, tsr_threads *threads,
                                 tsr_device **out_device);
/* Of a CPU device; NULL of another. Borrowed. */
tsr_threads *tsr_device_cpu_get_threads(const tsr_device *device);

/* Compute capability of the CUDA device that `selector` and `library` mean, as in
 * tsr_device_options: 90 for 9.0. */
TSR_RESULT tsr_device_cuda_probe(tsr_ctx *ctx, const char *selector, const char *library,
                                 uint32_t *out_capability);
/* Of a device's memory: what is free of it, and what kernels take besides buffers: their code, as
 * it is stored, and the scratch memory that they share. */
typedef struct tsr_device_room {
    uint64_t free_bytes, code_bytes, scratch_bytes;
} tsr_device_room;

/* Whether the CUDA device that `options` mean opens, has code among `options->code`, and has room
 * for `size_bytes` and scratch memory, in the words of open and allocate: takes a context for a
 * moment, and no more. Each field of *out_room is written as soon as it is known, also where that
 * is too little. */
TSR_RESULT tsr_device_cuda_survey(tsr_ctx *ctx, const tsr_device_options *options,
                                  uint64_t size_bytes, tsr_device_room *out_room);
/* The range of the host's memory that begins at `bytes` holds what the device's does. */
TSR_RESULT tsr_device_bring(tsr_ctx *ctx, tsr_device *device, const tsr_device_memory *memory,
                            const char *bytes, uint64_t size_bytes);

#endif
