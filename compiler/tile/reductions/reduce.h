/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that the reductions and argmax share: the iteration space of the reduction's input, an
 * elementwise region before it, one after it.
 */
#ifndef TSR_COMPILER_TILE_REDUCTIONS_REDUCE_H
#define TSR_COMPILER_TILE_REDUCTIONS_REDUCE_H

#include "compiler/tile/reductions/tree.h"
#include "compiler/tile/region.h"

enum {
    TSR_PARTIALS = 64,
    TSR_NATIVE_LANES = 1024, /* partial results of a row, with native numerics */
    TSR_PARTIAL_VECTORS_MAX = 32,
    TSR_REDUCTIONS_MAX = 32,       /* reductions of the same elements in one walk */
    TSR_GPU_MULTIPROCESSORS = 132, /* number for which programs of several rows are planned */
};

/* The function that combines two partial results, and the initial value of partial results. */
typedef struct tsr_reduction_op {
    const char *kind; /* a kind of dialect vector */
    MlirValue (*combine)(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
    MlirValue (*identity)(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
} tsr_reduction_op;
extern const tsr_reduction_op tsr_reduction_sum, tsr_reduction_max;
/* The largest number. NaN may be lost. For reductions whose result is subtracted from each element
 * before a sum of exponentials, which finds the NaN. */
extern const tsr_reduction_op tsr_reduction_max_number;
/* Returns the operation of tessera.sum and similar ops; NULL for other ops. */
const tsr_reduction_op *tsr_reduction_op_of(MlirOperation op);

typedef struct tsr_reduction {
    tsr_tile_group *group;
    tsr_region before, after; /* the reduction's operand; the group's results */
    tsr_view *outputs;
    tsr_node *given;                                  /* node of `after`: the reduction's result */
    tsr_space space;                                  /* collapsed; at least one dimension */
    tsr_dtype dtype;                                  /* reduced in this type */
    const tsr_reduction_op *op;                       /* NULL: argmax */
    bool parallel[TSR_RANK_MAX], outer[TSR_RANK_MAX]; /* outer: parallel, except the last one */
    int64_t parallel_count, reduced_count;            /* numbers of points */
    uint32_t reduced_dims;
    bool contiguous; /* the last dimension is reduced */
} tsr_reduction;

TSR_RESULT tsr_reduction_init(tsr_tile_group *group, tsr_reduction *out_reduction);
/* The last dimension that is reduced. */
uint32_t tsr_reduction_inner(const tsr_reduction *r);
/* x op y of partial results */
MlirValue tsr_reduction_combine(tsr_reduction *r, MlirValue x, MlirValue y);
MlirValue tsr_reduction_identity(tsr_reduction *r, uint32_t lanes);
/* The halving tree over the lanes of a vector. */
MlirValue tsr_reduction_tree(tsr_reduction *r, MlirValue partials, uint32_t lanes);
/* Reduces `count` values, at most TSR_PARTIALS, with the same tree; overwrites them. */
MlirValue tsr_reduction_halve(tsr_reduction *r, MlirValue *values, uint32_t count);
/* Partial results as several vectors: lane i of vector k is partial result k * lanes + i. A loop
 * over the vectors needs fewer registers at once. */
typedef struct tsr_partials {
    uint32_t count, lanes;
    MlirValue values[TSR_PARTIAL_VECTORS_MAX];
} tsr_partials;
/* Makes vectors with `all` lanes together and at most `lanes` lanes each. Both numbers are powers
 * of two. */
void tsr_partials_init(tsr_reduction *r, uint32_t all, uint32_t lanes, tsr_partials *out_partials);
MlirValue tsr_partials_tree(tsr_reduction *r, const tsr_partials *partials);
/* Adds the run of the last dimension at a point, over its whole length, to the partials. */
void tsr_partials_add_run(tsr_reduction *r, const tsr_point *at, tsr_partials *partials);
/* Adds elements first ... first + count - 1 of that run. */
void tsr_partials_add_range(tsr_reduction *r, const tsr_point *at, MlirValue first, int64_t count,
                            tsr_partials *partials);

/* Reductions of the same elements in chunks, if they are many (tree.h). */
typedef struct tsr_reduction_chunks {
    tsr_reduction *const *rules;
    uint32_t count; /* number of reductions; 0: nothing is done */
    uint32_t lanes; /* lanes of a result; 0: a scalar */
    int64_t elements;
    /* Reduces `elements` elements from element `first` on. If the last chunk is shorter, the
     * function is called for that chunk first. */
    void (*reduce)(void *user, MlirValue first, int64_t elements, MlirValue *out_results);
    void *user;
} tsr_reduction_chunks;
void tsr_reduction_in_chunks(const tsr_reduction_chunks *chunks, MlirValue *out_results);

/* The same for one reduction. */
typedef struct tsr_reduction_range {
    MlirValue (*reduce)(void *user, MlirValue first, int64_t elements);
    void *user;
} tsr_reduction_range;
MlirValue tsr_reduction_one_in_chunks(tsr_reduction *r, uint32_t lanes, int64_t elements,
                                      const tsr_reduction_range *range);

/* The lanes of a vector that is computed at once, for elements of width_bytes: the vector uses
 * enough registers to hide the latency of a function's chain, although this spills some. */
uint32_t tsr_lanes_in_flight(const tsr_tile_builder *b, uint32_t width_bytes);
enum { TSR_PREFETCH_BYTES_MIN = 1 << 20 }; /* smaller buffers stay in a cache anyway */

/* reduce_strided.c: a kernel that keeps the last dimension. `to`: the kernel only stores the
 * results of chunks there, [outer dimensions][chunk][column]; null: it stores the group's
 * results. */
void tsr_reduction_emit_strided(tsr_reduction *r, MlirValue to);

/* True if x is larger than best: argmax.c. */
MlirValue tsr_argmax_is_better(tsr_reduction *r, MlirValue x, MlirValue best);
/* Sets the result, then computes and stores the ops after it. */
void tsr_reduction_finish(tsr_reduction *r, MlirValue result, const tsr_point *point);

/* Begins a loop over this program's share of `count` items, `each` items for a program; sets
 * group->grid. End it with tsr_tile_loop_end. */
void tsr_tile_share(tsr_tile_group *group, int64_t count, int64_t each, tsr_tile_loop *loop);
/* The same with the number of items that have a few KiB, at bytes_per_item each. */
void tsr_reduction_programs(tsr_reduction *r, int64_t count, int64_t bytes_per_item,
                            tsr_tile_loop *loop);

#endif
