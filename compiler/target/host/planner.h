/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of the planner share.
 */
#ifndef TSR_COMPILER_TARGET_HOST_PLANNER_H
#define TSR_COMPILER_TARGET_HOST_PLANNER_H

#include "compiler/ir/value_map.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/plan.h"
#include "manifests/program.h"

enum { NONE = UINT32_MAX };

/* One SSA value of an entry, or a temporary copy of a tensor. */
typedef struct value {
    tsr_program_buffer buffer;
    int64_t pitch;  /* elements from row to row; 0: dense */
    uint64_t times; /* dim 0 is this number times the open dim; 0: every dim has one size */
    MlirLocation location;
    uint32_t maker;      /* launch that writes it; NONE for inputs and tensors */
    uint32_t first;      /* first launch at which its slot is in use: maker, or its loop's begin */
    uint32_t first_end;  /* first launch that no longer reads it: last reader + 1, or 0 */
    bool read_at_end;    /* returned or assigned */
    bool imported;       /* written before launch `maker`, not by it */
    uint32_t next_of;    /* tensor it is assigned to, or NONE */
    uint32_t output;     /* output it is returned as, or NONE */
    uint32_t plan_index; /* index in the workspace plan */
    uint32_t view_of;    /* the value that this one is a view of; NONE: itself */
    bool viewed;         /* other values view it */
    bool unseen;         /* no command uses it */
    bool is_part;        /* others: a sum that ranks need not have whole, or a part of a sum */
    bool replaced;       /* the last launch that reads it overwrote it in the last plan */
    /* It is offloaded to host memory, and comes back as this value, which launches from
     * `later_from` on read; NONE: it stays. */
    uint32_t later, later_from;
} value;

/* A value is offloaded to host memory and comes back. The launches before which each copy begins
 * and is done. */
typedef struct move {
    uint32_t from, host, to; /* values */
    uint32_t begin_at, gone_at, return_at, back_at;
    MlirValue token; /* token of the copy that began last */
} move;

typedef enum launch_kind {
    KIND_LAUNCH,
    KIND_SUM,    /* over virtual ranks; the kernel adds two values */
    KIND_GATHER, /* no kernel */
    /* Between loops, without a kernel: */
    KIND_TAKE,     /* a virtual rank's part of a value */
    KIND_JOIN,     /* a value whose parts the virtual ranks have */
    KIND_ASSEMBLE, /* a tensor whose parts stay in place; else like JOIN */
    KIND_SWAP,     /* blocks between all pairs of virtual ranks */
    KIND_CONTROL,  /* a command of a loop or branch, or a copy there */
} launch_kind;

/* A command of a loop or branch, as tessera_target.control has it. */
typedef struct control {
    const char *kind; /* NULL: a copy, from values[1] to values[0] */
    uint32_t values[2], count;
    uint32_t commands;
    uint64_t times;
    bool reverse;
} control;

typedef struct launch {
    launch_kind kind;
    MlirOperation call, kernel;
    uint32_t loop;         /* the loop over virtual ranks; NONE: not in a loop */
    control control;       /* used for KIND_CONTROL, which has no call */
    MlirLocation location; /* location of the control op */
} launch;

/* An op that orders others and launches nothing: begin and end of a region, export, import,
 * await. */
typedef struct mark {
    MlirOperation op;
    uint32_t at;     /* the launch that follows it */
    MlirValue token; /* its token in the host program */
} mark;
typedef struct loop {
    uint32_t begin, end; /* launches */
} loop;

typedef struct end_copy {
    uint32_t to, from; /* values */
} end_copy;

typedef struct planner {
    tsr_ctx *ctx;
    tsr_arena *arena;
    const tsr_config *config;
    const tsr_config_entry *entry;
    MlirModule module; /* holds tessera_target.kernels, and the entry */
    tsr_prepacked_list *prepacked;
    MlirOperation func;
    value *values;
    uint32_t value_count, value_capacity;
    tsr_value_map numbers;
    launch *launches;
    uint32_t launch_count;
    mark *marks;
    uint32_t mark_count;
    tsr_value_map tokens; /* token -> mark that gives it */
    uint32_t left;        /* launches before this one may have to run again, or be abandoned */
    loop *loops;          /* loops over virtual ranks */
    uint32_t loop_count;
    loop *ranges; /* commands that loops repeat, inner loops first */
    uint32_t range_count;
    uint32_t last_fault;    /* the last launch that can report a fault; NONE: no launch can */
    uint32_t *tensor_value; /* tensor -> the value that reads it, or NONE */
    uint32_t *part_value;   /* tensor -> the value of a virtual rank's part, or NONE */
    bool *tensor_bound;     /* a launch writes its next value in place */
    end_copy *copies;
    uint32_t copy_count;
    uint64_t workspace_max; /* bytes; 0: unlimited */
    move *moves;
    uint32_t move_count;
    uint32_t *move_steps, moved_steps; /* sorted by command; number already emitted */
    MlirLocation at;                   /* location of the current op */
} planner;

static inline bool tsr_planner_is_token(MlirValue v) {
    return tsr_sr_is_token(mlirValueGetType(v));
}

/* plan_marks.c */
bool tsr_planner_is_mark(MlirOperation op);
/* True if a mark is of a region, an export or an import. */
bool tsr_planner_has_regions(const planner *p);
TSR_RESULT tsr_planner_collect_mark(planner *p, MlirOperation op);
/* Values that a region reads from outside live until it ends: it may run again. */
TSR_RESULT tsr_planner_record_boundaries(planner *p);
void tsr_planner_emit_mark(const planner *p, tsr_builder *b, mark *m, const MlirValue *buffers,
                           MlirValue *arguments);

/* plan.c: the value of `mlir`, which must be known. */
TSR_RESULT tsr_planner_find(planner *p, MlirValue mlir, value **out_value);
/* plan.c: a value of the type of `mlir`. */
TSR_RESULT tsr_planner_add_value(planner *p, MlirValue mlir, value item, uint32_t *out_number);
/* plan.c: may the launch write its result over the value `number`, of the same type, at
 * every operand that is that value? */
bool tsr_planner_overwrites(const planner *p, const launch *l, const value *result,
                            uint32_t number);
/* plan.c: the next launch, optionally with a kernel. */
TSR_RESULT tsr_planner_add_launch(planner *p, MlirOperation op, launch_kind kind,
                                  const char *callee, launch **out_launch);
/* plan.c: index of a tensor by name. */
TSR_RESULT tsr_planner_find_tensor(const planner *p, const char *name, uint32_t *out_index);

/* plan_inputs.c: the buffer of an input of the entry; whether an op reads a number that the runtime
 * fills, and its buffer. */
TSR_RESULT tsr_planner_collect_input(planner *p, intptr_t index);
bool tsr_planner_is_filled(MlirOperation op);
TSR_RESULT tsr_planner_collect_filled(planner *p, MlirOperation op);
/* plan.c: the launches of a block. */
TSR_RESULT tsr_planner_collect_block(planner *p, MlirBlock block);
/* plan.c: adds a value for a buffer that is a copy destination; returns its number. */
uint32_t tsr_planner_add_buffer(planner *p, tsr_space space, uint32_t index, const value *like);
/* plan_control.c: adds the largest numbers of values and launches that the block can need. */
TSR_RESULT tsr_planner_count(const planner *p, MlirBlock block, uint32_t depth, size_t *values,
                             size_t *launches);
/* plan_control.c: a tessera.loop. */
TSR_RESULT tsr_planner_collect_control(planner *p, MlirOperation op);
/* plan_control.c: values that a loop reads from outside live until it ends. */
void tsr_planner_stretch_ranges(planner *p);
void tsr_planner_emit_control(tsr_builder *b, const launch *l, const MlirValue *buffers);

/* The last launch at which its slot is in use. */
static inline uint32_t tsr_planner_last(const planner *p, const value *v) {
    return v->read_at_end ? p->launch_count : v->first_end ? v->first_end - 1 : v->first;
}
/* plan.c: bytes of its slot; TSR_MEMORY if the size is too large. */
TSR_RESULT tsr_planner_size(const planner *p, const value *v, uint64_t *out_bytes);
/* plan.c: assigns slots in this space to values, starting at *bytes, and adds their bytes to
 * it. */
TSR_RESULT tsr_planner_assign(planner *p, tsr_space space, bool is_part, uint64_t *bytes);
/* The value that launch (or mark, copy) number `at` reads for `number`: it may have been
 * offloaded. */
static inline uint32_t tsr_planner_at(const planner *p, uint32_t number, uint32_t at) {
    while (p->values[number].later != NONE && at >= p->values[number].later_from)
        number = p->values[number].later;
    return number;
}
/* offload.c: assigns the slots of the workspace; if it would be too large, some values are
 * offloaded to host memory. Pointers and numbers of values may change. */
TSR_RESULT tsr_planner_plan_workspace(planner *p, uint64_t *out_bytes);
/* offload.c: emits the copy commands before a launch. */
void tsr_planner_emit_moves(planner *p, tsr_builder *b, uint32_t at, const MlirValue *buffers);

/* Each virtual rank has its rows of this split input; no op may read all the rows. */
TSR_RESULT tsr_planner_check_rows(planner *p, intptr_t index);
/* Extends the lives of values that loops over virtual ranks read or make. */
void tsr_planner_stretch_lives(planner *p);
/* plan_parts.c: the parts of tensors and values that virtual ranks have. A source that is only read
 * in parts is not a value. */
bool tsr_planner_reads_parts_alone(MlirOperation source);
TSR_RESULT tsr_planner_collect_part(planner *p, MlirOperation op);
TSR_RESULT tsr_planner_collect_join(planner *p, MlirOperation op);
/* Binds the next values of tensors whose parts virtual ranks can write in place. */
void tsr_planner_bind_parts(planner *p);
void tsr_planner_emit_parts(const planner *p, tsr_builder *b, const launch *l,
                            const MlirValue *buffers);

#endif
