/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that the gradients of attention share, by multiply-adds (gradient.c) and by dot products
 * (pairs.c): the plan, the walk over blocks, the products of a block.
 *
 *     for each block of keys of a key head (dk = dv = 0; dq = 0 before the first)
 *         for each query head that reads it, for each block of queries that see a key of the block
 *
 * Each program computes one key head. If attention is causal, products begin or end at the tile
 * that the diagonal crosses.
 *
 * If there are more than 2,048 keys, or queries of a key head, the blocks of keys, or of queries,
 * are chunks, whose size follows from the shapes alone and is at most 96. The sums of the products
 * of one chunk are added to slots (tree.h), and the next chunk begins at 0.
 */
#ifndef TSR_COMPILER_TILE_ATTENTION_GRADIENT_H
#define TSR_COMPILER_TILE_ATTENTION_GRADIENT_H

#include "compiler/tile/attention/attention.h"
#include "compiler/tile/reductions/reduce.h"

typedef struct tsr_attention_grad {
    tsr_attention of;
    tsr_reduction sum;
    int64_t unit;  /* keys, queries and elements of d or e in a step of a product */
    int64_t apart; /* extra elements between rows of scores, because columns are read, too */
    MlirValue result, logsumexp, dresult, dq, dk, dv; /* buffers */
    /* The numbers of slots for sums of chunks. Each slot of dq is a buffer as large as the
     * gradient; each slot of dk or dv is as large as a block and on the stack. 0: sums continue
     * from block to block. */
    uint32_t key_slots, query_slots;
    MlirValue dq_slots, dk_slots, dv_slots;
    MlirValue key_carries, query_carries; /* carries of the current chunks */
    /* the plan */
    tsr_attention_side scores, keys,
        values; /* products whose columns are a block's keys, d and e */
    int64_t block_queries, block_keys, score_stride;
    int64_t query_unit;             /* a multiple of the rows of the tiles of all products */
    int64_t key_depth, value_depth; /* depths of panels that are packed by columns */
    /* position of the kernel */
    MlirValue head;               /* index among the key head's query heads */
    MlirValue key_row_at, row_at; /* first rows of the heads */
    MlirValue q_at, k_at, v_at, o_at, query_count, key_count; /* offsets and sizes of the blocks */
} tsr_attention_grad;

/* The functions that compute a block. Each function casts `grad` to a struct whose first member is
 * `grad`. */
typedef struct tsr_attention_blocks {
    int64_t (*stack_bytes)(const tsr_attention_grad *grad);
    void (*make_locals)(tsr_attention_grad *grad);
    void (*begin_keys)(tsr_attention_grad *grad);
    void (*add_queries)(tsr_attention_grad *grad);
    void (*end_keys)(tsr_attention_grad *grad); /* NULL: nothing to do */
} tsr_attention_blocks;

/* The number of slots that the gradient of queries needs in addition to its result; 0 if there are
 * few keys. A kernel with slots has one more output, whose shape is the number of slots followed by
 * the result's shape. */
uint32_t tsr_attention_grad_key_slots(const tsr_type *query, const tsr_type *key,
                                      const tsr_type *value);
/* Reads the operands of the group's root and the buffers of its results, and lowers the gradient.
 * The caller sets `unit` and `apart`. */
TSR_RESULT tsr_attention_grad_lower(tsr_tile_group *group, tsr_attention_grad *grad,
                                    const tsr_attention_blocks *blocks);

/* to[row][column] += sum over steps of a[row][step] b[step][column], for the current blocks. */
typedef struct tsr_attention_product {
    const tsr_attention_side *side;
    tsr_attention_edge edge;
    MlirValue a, b, to; /* buffers */
    MlirValue a_at, b_at, to_at;
    int64_t a_row, a_step, b_step, to_row;
    int64_t b_column;   /* elements between columns of B; for panels: between panels, divided by the
                           width */
    MlirValue columns;  /* columns of the result */
    int64_t columns_of; /* number of all columns, if the last vectors need masks; else 0 */
    MlirValue rows, count;
    int64_t rows_all; /* rows of all blocks, which determine the rows after the last whole tile */
} tsr_attention_product;
void tsr_attention_grad_multiply(tsr_attention_grad *g, const tsr_attention_product *product);
/* Multiplies the block's queries, or their gradients, with its keys, or values, in panels. */
void tsr_attention_grad_scores(tsr_attention_grad *g, MlirValue a, MlirValue a_at, int64_t size,
                               MlirValue panels, int64_t depth, MlirValue to);

int64_t tsr_attention_grad_panel_elements(const tsr_attention_grad *g, int64_t depth);
/* Packs the block's keys, or values, into panels in which the columns of its scores are
 * adjacent. */
void tsr_attention_grad_pack(tsr_attention_grad *g, MlirValue from, MlirValue from_at, int64_t size,
                             MlirValue to, int64_t depth);
/* The number of keys for which a query's row of scores is computed at once. */
uint32_t tsr_attention_grad_row_lanes(const tsr_attention_grad *g);
/* t: the sum of do * o of one query. */
MlirValue tsr_attention_grad_total(tsr_attention_grad *g, MlirValue at);
/* The number of keys that products read for a query that sees `limit` keys of the block. */
MlirValue tsr_attention_grad_row_end(tsr_attention_grad *g, MlirValue limit);
/* Sets elements to 0. `even`: they are whole vectors. */
void tsr_attention_grad_clear(tsr_attention_grad *g, tsr_dtype dtype, MlirValue buffer,
                              MlirValue at, MlirValue count, bool even);

#endif
