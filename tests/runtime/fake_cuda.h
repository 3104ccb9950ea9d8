/* SPDX-License-Identifier: Apache-2.0
 *
 * A CUDA driver without a GPU, as a library: memory of the device is memory of the process, a
 * kernel is one of toy.c, a stream works at once and a graph is the list of what was captured, in
 * which other streams than the first are as late as they may be, or as early. It counts what is
 * open, and fails the call it is told to: by the struct, or from outside by
 * FAKE_CUDA_TOLD="version=11080 devices=0 free=400 major=7 any=1 early=1 fail=cuGraphLaunch at=3
 * code=700".
 */
#ifndef TSR_TESTS_RUNTIME_FAKE_CUDA_H
#define TSR_TESTS_RUNTIME_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_cuda {
    int version, device_count; /* 13000, 2 */
    int major, minor;          /* 9, 0 */
    size_t free_bytes;         /* of the device's memory */
    const char *fail;          /* symbol of the call that fails; NULL: none */
    unsigned fail_at;          /* and which of them: 1 is the first */
    unsigned fail_code;        /* what it returns */
    unsigned calls;            /* of `fail` so far */
    bool sticks;               /* what failed once fails from then on, but for want of memory */
    unsigned stuck;            /* with what; 0: nothing yet */
    int captures;              /* begun so far */
    int contexts, allocations, hosts, streams, modules, graphs, execs, events; /* open now */
    int launches;              /* so far, of kernels */
    int paired_blocks;         /* of the last launch of the kernel whose blocks run in pairs */
    bool early;                /* other streams of a graph; else late */
    int lanes;                 /* streams of the graph that was captured last */
    int moves_beside;          /* copies so far, of these */
    int copies;                /* so far, within the device, that no graph makes */
    int downloads;             /* so far, that no graph makes */
    int waited_launches;       /* `launches` when the event was recorded that was waited for last */
    void (*in_download)(void); /* called once in the next one, when the half of it is there */
    void (*in_wait)(void);     /* called once in the next wait for a stream */
    int more;                  /* parameters that each kernel takes beyond those it has */
    unsigned first_bytes;      /* of each kernel's first parameter; 0: 8 */
    int64_t toy_limit;         /* of the kernels here */
    bool any_kernel;           /* has those of other names, too, for what ends before they run */
    char image_begin[8];       /* of the image that was loaded last */
} fake_cuda;

#endif
