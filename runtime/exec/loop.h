/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop of a host program over the leaves of a rank: lists of device commands for each leaf,
 * which fold what is summed, and what ranks exchange between them and at its end. For executor.c.
 */
#ifndef TSR_RUNTIME_LOOP_H
#define TSR_RUNTIME_LOOP_H

#include "manifests/program.h"
#include "runtime/device/device.h"
#include "runtime/exec/leaves.h"
#include "runtime/exec/turn.h"
#include "runtime/exec/ways.h"

/* Commands of one leaf up to where ranks exchange, or all there are left. */
typedef struct tsr_loop_step {
    uint32_t leaf; /* of this rank */
    tsr_device_list list;
    uint32_t *sources;     /* the program's command of each of its commands */
    struct tsr_turn *then; /* exchanged behind it; NULL: nothing */
} tsr_loop_step;

typedef struct tsr_loop {
    uint32_t step_count;
    tsr_loop_step *steps; /* in the arena, as all here */
    struct tsr_loop_exchange *exchanges;
    uint32_t exchange_count;
    struct tsr_loop_result *results; /* of sums and gathers, but for sums that are scattered */
    uint32_t result_count;
} tsr_loop;

/* What all ranks have when they have exchanged, in the host's memory. */
typedef struct tsr_loop_result {
    uint32_t command; /* of the program */
    const char *bytes;
    uint64_t size_bytes;
} tsr_loop_result;

typedef struct tsr_loop_observer {
    uint32_t entry;                                          /* of runs of this one alone */
    void (*call)(void *user, const tsr_loop_result *result); /* or NULL */
    /* Of sums that collectives take, which no rank may have whole: where rank 0 puts that of a
     * command of the program; NULL on other ranks. All ranks have it, or none: NULL. */
    void *(*find)(void *user, uint32_t command);
    void *user; /* borrowed */
} tsr_loop_observer;

/* What it is made from; borrowed. */
typedef struct tsr_loop_source {
    tsr_arena *arena;
    const char *name;
    const tsr_program_entry *entry;
    const tsr_leaves *leaves;
    const tsr_device_memory *memory;
    uint64_t leaf_bytes, sums_bytes; /* from leaf to leaf, slot to slot */
    const bool *deferred;            /* buffers of sums that a collective takes */
    const tsr_ways *ways;
    char *turn;           /* the host's memory for what a turn exchanges */
    void *const *tensors; /* by index, the host's memory */
    /* The host's memory of a buffer, of leaf `leaf` of this rank. */
    void *(*find)(void *user, uint32_t leaf, const tsr_program_buffer *buffer);
    /* A part of a tensor is written; false without memory. */
    bool (*note_change)(void *user, const tsr_program_buffer *buffer);
    void *user;
} tsr_loop_source;

/* Of commands [begin, end); false without memory. */
bool tsr_loop_bind(const tsr_loop_source *source, uint32_t begin, uint32_t end, tsr_loop *out_loop);
/* When all leaves of this rank have run. */
TSR_RESULT tsr_loop_exchange(tsr_ctx *ctx, const tsr_loop *loop, tsr_transport *transport,
                             const tsr_leaves *leaves, uint64_t sums_bytes);
/* Of each result, then; with it in the host's memory. */
TSR_RESULT tsr_loop_tell(tsr_ctx *ctx, const tsr_loop *loop, tsr_device *device,
                         const tsr_device_memory *memory, const tsr_loop_observer *observer);

/* What this rank sends with it. */
uint64_t tsr_loop_plan_exchange(const tsr_loop *loop, const tsr_transport *transport,
                                const tsr_leaves *leaves);

#endif
