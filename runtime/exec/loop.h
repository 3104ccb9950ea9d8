/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop of a host program over the virtual ranks of a rank: lists of device commands for each
 * virtual rank, which fold the sums, and the exchanges of ranks between the lists and at the end.
 * Used by executor.c.
 */
#ifndef TSR_RUNTIME_LOOP_H
#define TSR_RUNTIME_LOOP_H

#include "manifests/program.h"
#include "runtime/device/device.h"
#include "runtime/exchange/exchange.h"
#include "runtime/exec/reduction_plan.h"
#include "runtime/exec/round.h"

/* Commands of one virtual rank up to an exchange of ranks, or to the end. */
typedef struct tsr_loop_step {
    uint32_t vrank; /* index on this rank */
    tsr_device_list list;
    uint32_t *sources;      /* the program's command for each command of the list */
    struct tsr_round *then; /* exchange after the list; NULL: no exchange */
} tsr_loop_step;

typedef struct tsr_loop {
    uint32_t step_count;
    tsr_loop_step *steps; /* as all memory here, in the arena */
    struct tsr_loop_exchange *exchanges;
    uint32_t exchange_count, gather_count;
    tsr_transport_segment *gathers;  /* room for one element of each gather */
    struct tsr_loop_result *results; /* results of sums and gathers, except scattered sums */
    uint32_t result_count;
} tsr_loop;

/* A result in host memory that all ranks have after the exchange. */
typedef struct tsr_loop_result {
    uint32_t command; /* index in the program */
    const char *bytes;
    uint64_t size_bytes;
} tsr_loop_result;

typedef struct tsr_loop_observer {
    uint32_t entry; /* only runs of this entry are observed */
    void (*call)(void *user, const tsr_loop_result *result); /* or NULL */
    /* The sums that collectives consume, for which no rank may have the full value: returns the
     * memory in which rank 0 stores the sum of a command of the program; NULL on other ranks. Set
     * on all ranks, or NULL on all. */
    void *(*find)(void *user, uint32_t command);
    void *user; /* borrowed */
} tsr_loop_observer;

/* The inputs of tsr_loop_bind; borrowed. */
typedef struct tsr_loop_source {
    tsr_arena *arena;
    const char *name;
    const tsr_program_entry *entry;
    const tsr_vranks *vranks;
    const tsr_device_memory *memory;
    uint64_t vrank_bytes,
        sums_bytes;       /* bytes from virtual rank to virtual rank, from slot to slot */
    const bool *deferred; /* true for buffers of sums that a collective consumes */
    const tsr_reduction_plan *reductions;
    char *round;          /* host memory for the exchanges of a turn */
    void *const *tensors; /* host memory by tensor index */
    /* Returns the host memory of a buffer, for virtual rank `leaf` of this rank. */
    void *(*find)(void *user, uint32_t vrank, const tsr_program_buffer *buffer);
    /* Called when a part of a tensor is written; returns false without memory. */
    bool (*note_change)(void *user, const tsr_program_buffer *buffer);
    void *user;
} tsr_loop_source;

/* Binds commands [begin, end); returns false without memory. */
bool tsr_loop_bind(const tsr_loop_source *source, uint32_t begin, uint32_t end, tsr_loop *out_loop);
/* True if gathers are exchanged while the loop runs: then call tsr_loop_offer before it, and
 * tsr_loop_push when a virtual rank has run. */
bool tsr_loop_pushes(const tsr_loop *loop, const tsr_exchanger *exchanger);
TSR_RESULT tsr_loop_offer(tsr_ctx *ctx, const tsr_loop *loop, tsr_exchanger *exchanger,
                          const tsr_vranks *vranks);
TSR_RESULT tsr_loop_push(tsr_ctx *ctx, const tsr_loop *loop, tsr_exchanger *exchanger,
                         const tsr_vranks *vranks, uint32_t vrank);
/* Called when all virtual ranks of this rank have run. */
TSR_RESULT tsr_loop_exchange(tsr_ctx *ctx, const tsr_loop *loop, tsr_exchanger *exchanger,
                             const tsr_vranks *vranks, uint64_t sums_bytes);
/* Passes each result to the observer after the exchange, in host memory. */
TSR_RESULT tsr_loop_tell(tsr_ctx *ctx, const tsr_loop *loop, tsr_device *device,
                         const tsr_device_memory *memory, const tsr_loop_observer *observer);

/* Returns the number of bytes that this rank sends in the loop. */
uint64_t tsr_loop_plan_exchange(const tsr_loop *loop, const tsr_transport *transport,
                                const tsr_vranks *vranks);

#endif
