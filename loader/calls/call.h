/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of an entry: begin, claim and check the inputs, claim the outputs, run, finish. Private
 * to this folder.
 */
#ifndef TSR_LOADER_CALLS_CALL_H
#define TSR_LOADER_CALLS_CALL_H

#include "loader/calls/strided.h"
#include "loader/model.h"
#include "loader/use.h"

struct tsr_array;
struct tsr_array_writer;

typedef struct wire {
    const tsr_config_port *port; /* NULL: not connected */
    void *memory;                /* the executor's memory for one batch, or the caller's */
    bool has_rows;               /* the call says how many */
    uint64_t row_bytes;      /* bytes of a row (of dim_times of them); else of the whole tensor */
    struct tsr_array *array; /* input file; owned */
    const tsr_strided *view; /* input or output in memory of the caller; borrowed */
    bool may_lend, is_lent;  /* batches use that memory in place of the executor's */
    struct tsr_array_writer *writer; /* writer of the output's file; borrowed from the call */
    size_t member;                   /* index of its array in that file */
    const char *path;
} wire;

typedef struct call {
    tsr_model *model;
    tsr_use use; /* active if `model` is set */
    size_t index;
    const tsr_config_entry *entry;
    bool chooses; /* the inputs choose one of the copies of the entry */
    tsr_arena arena;
    wire inputs[TSR_CONFIG_PORTS_MAX], outputs[TSR_CONFIG_PORTS_MAX];
    struct tsr_array_writer *writers[TSR_CONFIG_PORTS_MAX]; /* owned; one per file */
    size_t writer_count;
    uint64_t rows;            /* rows of all inputs, or the open dim; 1 if there is neither */
    const char *rows_from;    /* the input that said so first */
    tsr_call_options options; /* all zero: one call without callback */
    uint64_t called_count;
    struct tsr_call_log *log; /* owned; NULL: neither record nor replay */
    bool is_given_infinite;   /* repeated calls: an input of the first one contains an infinity */
    bool told[TSR_CONFIG_PORTS_MAX]; /* outputs for which a warning was logged */
    /* for each output: the input with its name, if calls are repeated */
    wire carried[TSR_CONFIG_PORTS_MAX];
} call;

/* `self` is all zero. Whatever follows, tsr_call_finish ends the call. */
TSR_RESULT tsr_call_begin(tsr_ctx *ctx, tsr_model *model, const char *entry, call *self);
void tsr_call_finish(tsr_ctx *ctx, call *self);

/* Connects the input or output with this name; TSR_USAGE if there is none, or it is connected. */
TSR_RESULT tsr_call_claim(tsr_ctx *ctx, call *self, const char *name, bool is_input,
                          wire **out_wire);
/* Chooses the copy of the entry that fits the inputs, and connects them to it. `shapes` has one for
 * each input of the entry. */
TSR_RESULT tsr_call_choose_copy(tsr_ctx *ctx, call *self, const tsr_shape *shapes);
/* Checks dtype, trailing dimensions and number of rows. */
TSR_RESULT tsr_call_check_input(tsr_ctx *ctx, call *self, const wire *input, tsr_dtype dtype,
                                const tsr_shape *shape);
/* Checks that every input is connected; then the number of rows is known. */
TSR_RESULT tsr_call_check_complete(tsr_ctx *ctx, call *self);
/* The size of dim 0 for each row that is counted. */
uint64_t tsr_call_row_times(const call *self, const wire *of);
TSR_RESULT tsr_call_run_rows(tsr_ctx *ctx, call *self);

#endif
