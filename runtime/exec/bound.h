/* SPDX-License-Identifier: Apache-2.0
 *
 * Private structs of an executor, shared by several files: bind.c fills them, control.c and
 * executor.c execute them.
 */
#ifndef TSR_RUNTIME_BOUND_H
#define TSR_RUNTIME_BOUND_H

#include "runtime/exec/collective.h"
#include "runtime/exec/executor.h"

/* Memory prepared from a tensor when the tensor had `version`; 0: not prepared yet. */
typedef struct prepacked {
    void *memory; /* host memory */
    tsr_device_command command;
    tsr_device_list list;
    const tsr_program_entry *entry; /* the program's entry and command */
    const tsr_program_command *source;
    uint32_t tensor;
    uint64_t version;
} prepacked;

/* True if the host's or the device's copy of a tensor is valid; both may be. */
typedef struct copies {
    bool host, device;
    bool zero; /* both have been zero since they were allocated */
} copies;

enum { NO_REGION = UINT32_MAX };

/* A copy in a loop: one of its addresses changes in each iteration. */
typedef struct moving {
    void **address;       /* location of that address */
    char *first;          /* device address in the first iteration */
    int64_t stride_bytes; /* bytes from one iteration to the next */
} moving;

/* Commands up to the point where a region, loop or branch begins or ends, or the entry ends. */
typedef struct part {
    tsr_device_list list;
    uint32_t region;                   /* region of the commands, or NO_REGION */
    uint32_t first;                    /* index of the first command in bound_entry.commands */
    const tsr_program_command *vranks; /* command that ends the region; NULL if the part does not
                                          end a region */
    const tsr_program_command *verify; /* VERIFY after the list; NULL: none */
    tsr_loop *loop;             /* a loop over virtual ranks, executed instead of the list; NULL: no
                                   loop */
    tsr_collective *collective; /* collective whose copies are in the list; NULL: the list
                                   has commands */
    const tsr_program_command *control; /* REPEAT ... UNLESS, executed instead of the list; NULL: no
                                           control command */
    uint32_t target;                    /* the first part after the commands of `control` */
    const char *condition;              /* condition of `control`, in host memory */
    moving *moving;                     /* moving copies of the list */
    uint32_t moving_count;
} part;

/* A command that the open dim of its entry changes: open.c. */
typedef struct open_command {
    tsr_device_command *command;
    uint32_t grid, cost, rows; /* 1 + the size that sets it; 0: none does */
    uint64_t row_bytes;        /* of a copy */
} open_command;

/* What the open dim of an entry changes. */
typedef struct open_entry {
    uint64_t dim;    /* of the last call */
    uint64_t *sizes; /* its sizes */
    char *memory;    /* the same for kernels, in host memory: one for each unit of alignment */
    open_command *commands;
    uint32_t command_count;
} open_entry;

/* Where a command has the address of an input or output. */
typedef struct port_address {
    void **at;
    uint32_t port;
    bool is_output;
    struct port_address *next;
} port_address;

typedef struct bound_entry {
    void **inputs, **outputs; /* host memory in the block; the arrays are in the arena */
    uint64_t *input_strides;  /* bytes from virtual rank to virtual rank */
    double *hyperparameters;  /* one per input: the value of a hyper-parameter */
    char *vrank_numbers;
    tsr_device_command *commands; /* arrays in the arena, like the others */
    uint32_t *numbers;            /* program index of each command */
    part *parts;
    uint32_t part_count;
    prepacked **prepacked; /* prepared memory that its commands read */
    uint32_t prepacked_count;
    bool *changes;  /* one per tensor; NULL: no tensor changes */
    bool exchanges; /* has loops over virtual ranks, or collectives */
    bool *deferred; /* true for buffers of sums that a collective consumes */
    tsr_reduction_plan reductions;
    uint64_t workspace_offset, offloaded_offset;
    bool has_control; /* loops or branches: transfers to and from the device are not attached to a
                         list */
    tsr_device_range input_range, output_range;
    moving *moving; /* moving copies of all parts */
    uint32_t moving_count;
    open_entry open;
    port_address *port_addresses; /* of its own list of commands */
    bool writes_inputs;
} bound_entry;

struct tsr_executor {
    const tsr_config *config;   /* borrowed */
    const tsr_program *program; /* borrowed */
    tsr_device *device;         /* borrowed */
    tsr_transport *transport;   /* borrowed; NULL: one rank */
    tsr_exchanger *exchanger;   /* owned; NULL: one rank */
    tsr_vranks vranks;
    uint64_t vrank_bytes,
        sums_bytes; /* bytes from virtual rank to virtual rank, from slot to slot */
    tsr_arena arena;
    tsr_device_memory memory; /* owned; memory of the device */
    void **tensors;           /* begin of each tensor, and the end of the last one */
    copies *copies;           /* one per tensor */
    tsr_holding *holdings;
    uint64_t *versions;    /* 1 + number of times that each tensor may have changed */
    uint64_t change_count; /* number of those changes that the host made */
    prepacked *prepacked;
    uint32_t prepacked_count;
    char *workspace, *of_vranks, *of_sums, *of_parts, *round; /* host memory */
    uint64_t workspace_bytes;
    uint64_t handler_offset; /* offset in the workspace: handlers run while another entry's
                                values are live */
    uint64_t offloaded_handler_offset; /* the same for offloaded values */
    bound_entry *entries;
    uint32_t failed_entry, failed_region; /* entry and region of the last run's failure; see
                                             tsr_executor_get_failed_region */
    bool continues_failed;                /* a part of a region is running on ranks that exchange */
    tsr_result failure;                   /* failure of this rank in that region */
    bool has_snapshot; /* there is memory for a snapshot of the state: nobody waits for its readers
                        */
    uint64_t iterations[TSR_PROGRAM_DEPTH_MAX]; /* current iterations of the enclosing loops,
                                                   outermost first */
    uint32_t depth;                             /* number of loops; 0 outside of loops */
    tsr_loop_observer observer;
    tsr_probe probe;
    struct tsr_numerics *numerics; /* NULL: results of kernels are not checked */
    uint64_t seed, fault_row; /* row of the last fault; UINT64_MAX if it is not in a data input */
};

/* Returns the host memory of a buffer that is not offloaded (HOST); if it differs between virtual
 * ranks, the memory of virtual rank `leaf` of this rank. */
void *tsr_bound_find(const tsr_executor *executor, size_t entry, uint32_t vrank,
                     const tsr_program_buffer *buffer);
/* Returns list `index` of a part; NULL after the last. */
tsr_device_list *tsr_bound_list(part *at, uint32_t index);
/* Finishes a list; one that the device has not prepared yet is left alone. */
void tsr_bound_finish(tsr_executor *executor, tsr_device_list *list);
/* Assigns memory of the executor to all objects, and addresses to the commands; returns false
 * without memory. */
bool tsr_bound_bind(tsr_executor *executor, const tsr_memory_plan *plan);

/* open.c: takes memory for the sizes of an entry with an open dim; later finds the commands that it
 * changes, and sets the dim of the next run. */
bool tsr_open_init(tsr_executor *executor, size_t entry, char *memory);
bool tsr_open_bind(tsr_executor *executor, size_t entry);
void tsr_open_set(tsr_executor *executor, size_t entry, uint64_t dim);

/* executor.c: runs a part that is not a loop or branch. */
TSR_RESULT tsr_bound_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry, part *at);
/* control.c: runs the parts of an entry with loops or branches. */
TSR_RESULT tsr_control_run(tsr_ctx *ctx, tsr_executor *executor, size_t entry);

#endif
