/* SPDX-License-Identifier: Apache-2.0
 *
 * What gradients of attention share, by multiply-adds (gradient.c) and by dot products (pairs.c):
 * the plan, the walk over blocks, the products of a block.
 *
 *     for each block of keys of a key head (dk = dv = 0; dq = 0 before the first)
 *         for each query head that reads it, for each block of queries that see a key of the block
 *
 * A program has a key head to itself. Where attention is causal, products begin, or end, at the
 * tile that the diagonal crosses.
 *
 * Of more than 2,048 keys, or queries of a key head, the blocks of keys, or queries, are chunks: so
 * many as follow from the shapes alone, at most 96. What the products of one have summed up is
 * added to slots (tree.h), and the next one begins at 0.
 */
#ifndef TSR_COMPILER_TILE_ATTENTION_GRADIENT_H
#define TSR_COMPILER_TILE_ATTENTION_GRADIENT_H

#include "compiler/tile/attention/attention.h"
#include "compiler/tile/reduce.h"

typedef struct tsr_attention_grad {
    tsr_attention of;
    tsr_reduction sum;
    int64_t unit;  /* keys, queries and elements of d or e in a step of a product */
    int64_t apart; /* elements between rows of scores beyond their length: columns are read, too */
    MlirValue result, logsumexp, dresult, dq, dk, dv; /* buffers */
    /* Slots of sums of chunks: of dq a buffer as large as the gradient, for each; of dk and dv of a
     * block on the stack. 0: chains go on from block to block. */
    uint32_t key_slots, query_slots;
    MlirValue dq_slots, dk_slots, dv_slots;
    MlirValue key_carries, query_carries; /* of the chunks at hand */
    /* the plan */
    tsr_attention_side scores, keys,
        values; /* products with so many columns: of a block's keys, d, e */
    int64_t block_queries, block_keys, score_stride;
    int64_t query_unit;             /* rows that whole tiles of all products begin at */
    int64_t key_depth, value_depth; /* of panels of keys and values by columns */
    /* where the kernel is */
    MlirValue head;                                           /* of those that read the key head */
    MlirValue key_row_at, row_at;                             /* of the heads, in rows */
    MlirValue q_at, k_at, v_at, o_at, query_count, key_count; /* of the blocks */
} tsr_attention_grad;

/* How a block is computed, by functions that take the first member of a struct of their own. */
typedef struct tsr_attention_blocks {
    int64_t (*stack_bytes)(const tsr_attention_grad *grad);
    void (*make_locals)(tsr_attention_grad *grad);
    void (*begin_keys)(tsr_attention_grad *grad);
    void (*add_queries)(tsr_attention_grad *grad);
    void (*end_keys)(tsr_attention_grad *grad); /* NULL: nothing is left to do */
} tsr_attention_blocks;

/* Slots that the gradient of queries needs beside its result; 0: there are few keys. A kernel with
 * slots has one output more, of the result's shape behind the number of slots. */
uint32_t tsr_attention_grad_key_slots(const tsr_type *query, const tsr_type *key,
                                      const tsr_type *value);
/* Reads the operands of the group's root and its results' buffers; `unit` and `apart` are set. */
TSR_RESULT tsr_attention_grad_lower(tsr_tile_group *group, tsr_attention_grad *grad,
                                    const tsr_attention_blocks *blocks);

/* to[row][column] += sum over steps of a[row][step] b[step][column]; of the blocks at hand. */
typedef struct tsr_attention_product {
    const tsr_attention_side *side;
    tsr_attention_edge edge;
    MlirValue a, b, to; /* buffers */
    MlirValue a_at, b_at, to_at;
    int64_t a_row, a_step, b_step, to_row;
    int64_t b_column;   /* from a column of B to the next, in elements; in panels: to the next panel
                           over the width */
    MlirValue columns;  /* of the result */
    int64_t columns_of; /* all of them, where the last vectors need masks; 0: they do not */
    MlirValue rows, count;
    int64_t rows_all; /* of all blocks: what is left over by whole tiles */
} tsr_attention_product;
void tsr_attention_grad_multiply(tsr_attention_grad *g, const tsr_attention_product *product);
/* Products of the block's queries, or their gradients, with its keys, or values, in panels. */
void tsr_attention_grad_scores(tsr_attention_grad *g, MlirValue a, MlirValue a_at, int64_t size,
                               MlirValue panels, int64_t depth, MlirValue to);

int64_t tsr_attention_grad_panel_elements(const tsr_attention_grad *g, int64_t depth);
/* The block's keys, or values, as panels in which its scores' columns lie side by side. */
void tsr_attention_grad_pack(tsr_attention_grad *g, MlirValue from, MlirValue from_at, int64_t size,
                             MlirValue to, int64_t depth);
/* Keys that a query's row of scores is computed of at once. */
uint32_t tsr_attention_grad_row_lanes(const tsr_attention_grad *g);
/* t: the sum of do * o of one query. */
MlirValue tsr_attention_grad_total(tsr_attention_grad *g, MlirValue at);
/* So many keys products read of a query that sees `limit` of the block. */
MlirValue tsr_attention_grad_row_end(tsr_attention_grad *g, MlirValue limit);
/* Elements become 0. `even`: they are whole vectors. */
void tsr_attention_grad_clear(tsr_attention_grad *g, tsr_dtype dtype, MlirValue buffer,
                              MlirValue at, MlirValue count, bool even);

#endif
