/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the planner share.
 */
#ifndef TSR_COMPILER_TARGET_HOST_PLANNER_H
#define TSR_COMPILER_TARGET_HOST_PLANNER_H

#include "compiler/resilience/resilience.h"
#include "compiler/schedule/schedule.h"
#include "compiler/target/host/plan.h"
#include "manifests/program.h"

enum { NONE = UINT32_MAX };

/* One SSA value of an entry, or a temporary copy of a tensor. */
typedef struct value {
    tsr_program_buffer buffer;
    int64_t pitch; /* elements from row to row; 0: dense */
    MlirLocation location;
    uint32_t maker;      /* launch that writes it; NONE for what is there */
    uint32_t first;      /* launch from which on its place is taken: maker, or its loop's begin */
    uint32_t first_end;  /* first launch that no longer reads it: last reader + 1, or 0 */
    bool read_at_end;    /* returned or assigned */
    bool imported;       /* written before launch `maker`, not by it */
    uint32_t next_of;    /* tensor it is assigned to, or NONE */
    uint32_t output;     /* output it is returned as, or NONE */
    uint32_t plan_index; /* in the workspace plan */
    uint32_t view_of;    /* the value that this one is in another shape; NONE: itself */
    bool viewed;         /* there are such */
    bool unseen;         /* no command has it */
    bool behind;         /* the others: a sum that ranks need not have whole, a part of a sum */
    bool replaced;       /* the last launch that reads it wrote over it, as was planned last */
    /* It goes to the host's memory, and comes back as this value, which those from launch
     * `later_from` on read; NONE: it stays. */
    uint32_t later, later_from;
} value;

/* A value goes to the host's memory and comes back; launches before which that begins and is done.
 */
typedef struct move {
    uint32_t from, host, to; /* values */
    uint32_t begin_at, gone_at, return_at, back_at;
    MlirValue token; /* of the copy begun last */
} move;

typedef enum launch_kind {
    KIND_LAUNCH,
    KIND_SUM,    /* over virtual ranks; the kernel adds two of them */
    KIND_GATHER, /* no kernel */
    /* Between loops, without a kernel: */
    KIND_TAKE,     /* a virtual rank's part of a value */
    KIND_JOIN,     /* a value whose parts the virtual ranks have */
    KIND_ASSEMBLE, /* a tensor whose parts lie where they are; else as JOIN */
    KIND_CONTROL,  /* of a loop or branch, or a copy there */
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
    uint32_t loop;         /* over virtual ranks; NONE: none */
    control control;       /* of KIND_CONTROL, which has no call */
    MlirLocation location; /* the same */
} launch;

/* What orders others and launches nothing: begin and end of a region, export, import, await. */
typedef struct mark {
    MlirOperation op;
    uint32_t at;     /* the launch it stands before */
    MlirValue token; /* in the host program */
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
    uint32_t left;        /* launches before this one may have to run again, or be given up */
    loop *loops;          /* over virtual ranks */
    uint32_t loop_count;
    loop *ranges; /* what loops repeat, those inside first */
    uint32_t range_count;
    uint32_t last_fault;    /* launch; NONE if there is none */
    uint32_t *tensor_value; /* tensor -> the value that reads it, or NONE */
    uint32_t *part_value;   /* tensor -> that of a virtual rank's part, or NONE */
    bool *tensor_bound;     /* a launch writes its next value in place */
    end_copy *copies;
    uint32_t copy_count;
    uint64_t workspace_max; /* bytes; 0: as many as it takes */
    move *moves;
    uint32_t move_count;
    uint32_t *move_steps, moved_steps; /* in the order of commands; of them there are already */
    MlirLocation at;                   /* of the op being read */
} planner;

static inline bool tsr_planner_is_token(MlirValue v) {
    return tsr_sr_is_token(mlirValueGetType(v));
}

/* plan_marks.c */
bool tsr_planner_is_mark(MlirOperation op);
TSR_RESULT tsr_planner_collect_mark(planner *p, MlirOperation op);
/* What a region reads from outside lives until it ends: it may run again. */
TSR_RESULT tsr_planner_keep_boundaries(planner *p);
void tsr_planner_emit_mark(const planner *p, tsr_builder *b, mark *m, const MlirValue *buffers,
                           MlirValue *arguments);

/* plan.c: the value that stands for `mlir`; it must be known. */
TSR_RESULT tsr_planner_find(planner *p, MlirValue mlir, value **out_value);
/* plan.c: a value of the type of `mlir`. */
TSR_RESULT tsr_planner_add_value(planner *p, MlirValue mlir, value item, uint32_t *out_number);
/* plan.c: may the launch write its result over the value `number`, of the same type, wherever among
 * its operands that stands? */
bool tsr_planner_overwrites(const planner *p, const launch *l, const value *result,
                            uint32_t number);
/* plan.c: the next launch, perhaps with a kernel. */
TSR_RESULT tsr_planner_add_launch(planner *p, MlirOperation op, launch_kind kind,
                                  const char *callee, launch **out_launch);
/* plan.c: index of a tensor by name. */
TSR_RESULT tsr_planner_find_tensor(const planner *p, const char *name, uint32_t *out_index);

/* plan.c: the launches of a block. */
TSR_RESULT tsr_planner_collect_block(planner *p, MlirBlock block);
/* plan.c: a value that stands for a buffer to copy to; its number. */
uint32_t tsr_planner_add_buffer(planner *p, tsr_space space, uint32_t index, const value *like);
/* plan_control.c: adds how many values and launches the block comes to, at most. */
TSR_RESULT tsr_planner_count(const planner *p, MlirBlock block, uint32_t depth, size_t *values,
                             size_t *launches);
/* The same: a tessera.loop. */
TSR_RESULT tsr_planner_collect_control(planner *p, MlirOperation op);
/* The same: what a loop reads from outside lives until it ends. */
void tsr_planner_stretch_ranges(planner *p);
void tsr_planner_emit_control(tsr_builder *b, const launch *l, const MlirValue *buffers);

/* The last launch that its place is taken at. */
static inline uint32_t tsr_planner_last(const planner *p, const value *v) {
    return v->read_at_end ? p->launch_count : v->first_end ? v->first_end - 1 : v->first;
}
/* plan.c: bytes of its place; TSR_MEMORY where they are too many. */
TSR_RESULT tsr_planner_size(const planner *p, const value *v, uint64_t *out_bytes);
/* plan.c: gives values of the space places behind *bytes, which grows. */
TSR_RESULT tsr_planner_place(planner *p, tsr_space space, bool behind, uint64_t *bytes);
/* What the value is that launch (or mark, copy) number `at` reads: it may have been offloaded. */
static inline uint32_t tsr_planner_at(const planner *p, uint32_t number, uint32_t at) {
    while (p->values[number].later != NONE && at >= p->values[number].later_from)
        number = p->values[number].later;
    return number;
}
/* offload.c: places the workspace; where it would be too large, some values wait in the host's
 * memory. Values may be others than before. */
TSR_RESULT tsr_planner_place_workspace(planner *p, uint64_t *out_bytes);
/* The same: commands before a launch. */
void tsr_planner_emit_moves(planner *p, tsr_builder *b, uint32_t at, const MlirValue *buffers);

/* Each virtual rank has its rows of this input, which is split; nothing may read all of them. */
TSR_RESULT tsr_planner_check_rows(planner *p, intptr_t index);
/* Lives of values that loops over virtual ranks read or make. */
void tsr_planner_stretch_lives(planner *p);
/* plan_parts.c: parts that virtual ranks have of tensors and values. A source that is only read in
 * parts is no value. */
bool tsr_planner_reads_parts_alone(MlirOperation source);
TSR_RESULT tsr_planner_collect_part(planner *p, MlirOperation op);
TSR_RESULT tsr_planner_collect_join(planner *p, MlirOperation op);
/* Binds next values of tensors that parts of virtual ranks can be written over. */
void tsr_planner_bind_parts(planner *p);
void tsr_planner_emit_parts(const planner *p, tsr_builder *b, const launch *l,
                            const MlirValue *buffers);

#endif
