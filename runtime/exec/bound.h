/* SPDX-License-Identifier: Apache-2.0
 *
 * An executor's own structs, for the files that share them: bind.c fills them, control.c and
 * executor.c walk them.
 */
#ifndef TSR_RUNTIME_BOUND_H
#define TSR_RUNTIME_BOUND_H

#include "runtime/exec/collective.h"
#include "runtime/exec/executor.h"

/* Made from a tensor when that was of `version`; 0: not yet. */
typedef struct prepared {
    void *memory; /* the host's */
    tsr_device_command command;
    tsr_device_list list;
    const tsr_program_entry *entry; /* of the program, and its command */
    const tsr_program_command *source;
    uint32_t tensor;
    uint64_t version;
} prepared;

/* Whose copy of a tensor is good; both may be. */
typedef struct copies {
    bool host, device;
    bool zero; /* both are, since they were allocated */
} copies;

enum { NO_REGION = UINT32_MAX };

/* A copy of a loop: one of its addresses is another one in each iteration. */
typedef struct moving {
    void **place;         /* that address */
    char *first;          /* the device's, in the first iteration */
    int64_t stride_bytes; /* from one to the next */
} moving;

/* Commands up to where a region, loop or branch begins or ends, or the entry does. */
typedef struct part {
    tsr_device_list list;
    uint32_t region;                   /* that they are in, or NO_REGION */
    uint32_t first;                    /* of bound_entry.commands */
    const tsr_program_command *leaves; /* what ends the part; NULL where it is no end of a region */
    tsr_loop *loop;                    /* over leaves, instead of the list; NULL: none */
    tsr_collective *collective;        /* whose copies the list is; NULL: it is commands */
    const tsr_program_command *control; /* REPEAT ... UNLESS, instead of the list; NULL: none */
    uint32_t target;                    /* of that: the first part behind its commands */
    const char *condition;              /* that it looks at; the host's memory */
    moving *moving;                     /* copies of the list */
    uint32_t moving_count;
} part;

typedef struct bound_entry {
    void **inputs, **outputs; /* in the arena; the host's memory in the block */
    uint64_t *input_strides;  /* from leaf to leaf */
    char *leaf_numbers;
    tsr_device_command *commands; /* in the arena, as the others */
    uint32_t *numbers;            /* of the commands in the program */
    part *parts;
    uint32_t part_count;
    prepared **prepared; /* what its commands read */
    uint32_t prepared_count;
    bool *changes;  /* tensors; NULL: none */
    bool exchanges; /* loops over leaves, or collectives */
    bool *deferred; /* buffers of sums that a collective takes */
    tsr_ways ways;
    uint64_t workspace_offset, away_offset;
    bool has_control; /* loops or branches: what goes to the device and back, goes with no list */
    tsr_device_range input_range, output_range;
    moving *moving; /* of all parts */
    uint32_t moving_count;
} bound_entry;

struct tsr_executor {
    const tsr_config *config;   /* borrowed */
    const tsr_program *program; /* borrowed */
    tsr_device *device;         /* borrowed */
    tsr_transport *transport;   /* borrowed; NULL: one rank */
    tsr_leaves leaves;
    uint64_t leaf_bytes, sums_bytes; /* from leaf to leaf, slot to slot */
    tsr_arena arena;
    tsr_device_memory memory; /* owned; of the device */
    void **tensors;           /* at its begin, and where the last one ends */
    copies *copies;           /* of each tensor */
    tsr_holding *holdings;
    uint64_t *versions; /* of the tensors: 1 + how often they may have changed */
    prepared *prepared;
    uint32_t prepared_count;
    char *workspace, *of_leaves, *of_sums, *of_parts, *turn; /* the host's */
    uint64_t workspace_bytes;
    uint64_t handler_offset;      /* in it: handlers run while another entry's values live */
    uint64_t away_handler_offset; /* the same, of what is away from the device */
    bound_entry *entries;
    uint32_t failed_entry, failed_region; /* of the last run; see tsr_executor_get_failed_region */
    bool goes_along;                      /* a part of a region runs, of ranks that exchange */
    tsr_result failure;                   /* of this rank in that region */
    bool keeps; /* there is room to keep the state, so that nobody need wait for its readers */
    uint64_t iterations[TSR_PROGRAM_DEPTH_MAX]; /* of the loops at hand, outermost first */
    uint32_t depth;                             /* how many; 0 outside of loops */
    tsr_loop_observer observer;
    tsr_probe probe;
    uint64_t seed, fault_row; /* of the last fault; UINT64_MAX where it is none of a data input */
};

/* The host's memory of a buffer that is not away (HOST); where it differs between leaves, that of
 * leaf `leaf` of this rank.
 */
void *tsr_bound_find(const tsr_executor *executor, size_t entry, uint32_t leaf,
                     const tsr_program_buffer *buffer);
/* List `index` of a part; NULL behind the last. */
tsr_device_list *tsr_bound_list(part *at, uint32_t index);
/* Gives all there is its place in the executor's memory, and commands their addresses; false
 * without memory. */
bool tsr_bound_bind(tsr_executor *executor, const tsr_memory_plan *plan);

/* executor.c: runs one part that is no loop or branch. */
TSR_RESULT tsr_bound_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, part *at);
/* control.c: runs the parts of an entry with loops or branches. */
TSR_RESULT tsr_control_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry);

#endif
