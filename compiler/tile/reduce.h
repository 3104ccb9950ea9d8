/* SPDX-License-Identifier: Apache-2.0
 *
 * What the reductions and argmax share: the iteration space of the reduction's input, an
 * elementwise region before it, one after it.
 */
#ifndef TSR_COMPILER_TILE_REDUCE_H
#define TSR_COMPILER_TILE_REDUCE_H

#include "compiler/tile/region.h"
#include "compiler/tile/tree.h"

enum {
    TSR_PARTIALS = 64,
    TSR_NATIVE_LANES = 1024, /* partial results of a row, where numerics are native */
    TSR_PARTIAL_VECTORS_MAX = 32,
    TSR_REDUCTIONS_MAX = 32,       /* of the same elements, in one walk */
    TSR_GPU_MULTIPROCESSORS = 132, /* that programs of several rows are made for */
};

/* How two partial results become one, and what partial results start with. */
typedef struct tsr_reduction_op {
    const char *name, *kind; /* kind: in dialect vector */
    MlirValue (*combine)(tsr_tile_builder *b, tsr_dtype dtype, MlirValue x, MlirValue y);
    MlirValue (*identity)(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
} tsr_reduction_op;
extern const tsr_reduction_op tsr_reduction_sum, tsr_reduction_max;
/* The largest but for NaN, which it may lose: where an exponential of each element minus it is
 * summed anyway, and finds the NaN. */
extern const tsr_reduction_op tsr_reduction_max_number;
/* Of tessera.sum and the like; NULL: another op. */
const tsr_reduction_op *tsr_reduction_op_of(MlirOperation op);

typedef struct tsr_reduction {
    tsr_tile_group *group;
    tsr_region before, after; /* the reduction's operand; the group's results */
    tsr_view *outputs;
    tsr_node *given;                              /* of `after`: the reduction's result */
    tsr_space space;                              /* collapsed; at least one dimension */
    tsr_dtype dtype;                              /* reduced in this type */
    const tsr_reduction_op *op;                   /* NULL: argmax */
    bool kept[TSR_RANK_MAX], outer[TSR_RANK_MAX]; /* outer: kept but for a kept last one */
    int64_t kept_count, reduced_count;            /* points */
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
/* The same over `count` values, at most TSR_PARTIALS, which it changes. */
MlirValue tsr_reduction_halve(tsr_reduction *r, MlirValue *values, uint32_t count);
/* Partial results as several vectors: lane i of vector k is partial result k *
 * lanes + i. A loop that goes from one to the
 * next holds less at once. */
typedef struct tsr_partials {
    uint32_t count, lanes;
    MlirValue values[TSR_PARTIAL_VECTORS_MAX];
} tsr_partials;
/* As many as `all` lanes, of at most `lanes` each; `lanes` and `all` are powers
 * of two. */
void tsr_partials_init(tsr_reduction *r, uint32_t all, uint32_t lanes, tsr_partials *out_partials);
MlirValue tsr_partials_tree(tsr_reduction *r, const tsr_partials *partials);
/* The run of the last dimension at a point, of as many elements as it has, into the partials. */
void tsr_partials_add_run(tsr_reduction *r, const tsr_point *at, tsr_partials *partials);
/* Elements first ... first + count - 1 of that run. */
void tsr_partials_add_range(tsr_reduction *r, const tsr_point *at, MlirValue first, int64_t count,
                            tsr_partials *partials);

/* Reductions of the same elements in chunks, if they are many (tree.h). */
typedef struct tsr_reduction_chunks {
    tsr_reduction *const *rules;
    uint32_t count; /* of them; 0: nothing is done */
    uint32_t lanes; /* of a result; 0: a scalar */
    int64_t elements;
    /* Reduces `elements` elements from element `first` on. Called for the last chunk, if that is
     * shorter, before it is called for the others. */
    void (*reduce)(void *user, MlirValue first, int64_t elements, MlirValue *out_results);
    void *user;
} tsr_reduction_chunks;
void tsr_reduction_in_chunks(const tsr_reduction_chunks *chunks, MlirValue *out_results);

/* The same of one reduction. */
typedef struct tsr_reduction_range {
    MlirValue (*reduce)(void *user, MlirValue first, int64_t elements);
    void *user;
} tsr_reduction_range;
MlirValue tsr_reduction_one_in_chunks(tsr_reduction *r, uint32_t lanes, int64_t elements,
                                      const tsr_reduction_range *range);

/* The lanes of a vector that is computed at once, of elements of so many bytes: enough registers to
 * hide the latency of a function's chain, though it then spills some. */
uint32_t tsr_lanes_in_flight(const tsr_tile_builder *b, uint32_t width_bytes);
enum { TSR_PREFETCH_BYTES_MIN = 1 << 20 }; /* smaller buffers are in a cache as it is */

/* reduce_strided.c: a kernel that keeps the last dimension. `to`: results of chunks are stored
 * there, [place of the outer dimensions][chunk][column], and nothing else; null: the group's
 * results. */
void tsr_reduction_emit_strided(tsr_reduction *r, MlirValue to);

/* Sets the result, computes and stores what follows it. */
void tsr_reduction_finish(tsr_reduction *r, MlirValue result, const tsr_point *point);

/* A loop over this program's share of `count` items, `each` of them a program; sets group->grid.
 * Ends with tsr_tile_loop_end. */
void tsr_tile_share(tsr_tile_group *group, int64_t count, int64_t each, tsr_tile_loop *loop);
/* The same of as many items as are some KiB, of so many bytes each. */
void tsr_reduction_programs(tsr_reduction *r, int64_t count, int64_t bytes_per_item,
                            tsr_tile_loop *loop);

#endif
