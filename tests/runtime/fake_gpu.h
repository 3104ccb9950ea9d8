/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver without a GPU, as a library: NVIDIA's or AMD's. Device memory is process memory, or
 * memory that processes share; a kernel is one of toy.c; a stream runs its work at once, but for
 * the work after a wait for a word in memory; and a graph is a list of captured calls, in which all
 * streams but the first run as late as possible, or as early as possible. It counts open objects,
 * and fails a chosen call. The call is chosen in the struct, or from outside by
 * FAKE_CUDA_TOLD="version=11080 devices=0 first=1 free=400 major=7 second=8 windows=0 reaches=0
 * any=1 early=1 fail=cuGraphLaunch at=3 code=700".
 */
#ifndef TSR_TESTS_RUNTIME_FAKE_GPU_H
#define TSR_TESTS_RUNTIME_FAKE_GPU_H

#include "runtime/base/kernel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel of a test. */
typedef struct fake_kernel {
    const char *name;
    unsigned argument_count;
    tsr_kernel_fn run;
} fake_kernel;

typedef struct fake_gpu {
    int version, device_count; /* 13000, 2 */
    int first;                 /* of the visible devices: 0 */
    int major, minor;          /* 9, 0 */
    int second_major;          /* of the second device; 0: the same */
    char arch[32];             /* AMD: "gfx942" */
    bool no_windows;           /* memory cannot be shared */
    bool no_access;            /* no device reaches the memory of another one */
    const fake_kernel
        *kernels;       /* besides those of toy.c; up to an element without a name; or NULL */
    size_t free_bytes;  /* free device memory */
    const char *fail;   /* symbol of the call that fails; NULL: none */
    unsigned fail_at;   /* number of the failing call of this symbol: 1 is the first */
    unsigned fail_code; /* its return value */
    unsigned calls;     /* number of calls of `fail` */
    bool sticks;        /* every call after a failure fails, unless memory was short */
    unsigned stuck;     /* the error that these calls return; 0: no failure yet */
    int captures;       /* number of captures begun */
    int contexts, allocations, hosts, streams, modules, graphs, execs, events; /* open now */
    int windows;                                                               /* mapped now */
    int launches;              /* number of kernel launches */
    int paired_blocks;         /* blocks in the last launch of the kernel with pairs */
    bool early;                /* the other streams of a graph run early; false: late */
    int lanes;                 /* number of streams of the graph that was captured last */
    int concurrent_moves;      /* number of copies by these streams */
    int copies;                /* number of copies within the device outside of graphs */
    int downloads;             /* number of downloads outside of graphs */
    int waited_launches;       /* value of `launches` when the last awaited event was recorded */
    void (*in_download)(void); /* called once, in the middle of the next download */
    void (*in_wait)(void);     /* called once, in the next wait for a stream */
    int more;                  /* number of additional parameters of each kernel */
    unsigned first_bytes;      /* size of each kernel's first parameter; 0: 8 */
    int64_t toy_limit;         /* toy_limit of the kernels in this library */
    bool refuses_captures;     /* nothing can be captured */
    bool any_kernel;           /* has kernels of any other name, which do nothing */
    char image_begin[8];       /* first bytes of the image that was loaded last */
} fake_gpu;

#endif
