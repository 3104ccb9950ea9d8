/* SPDX-License-Identifier: Apache-2.0
 *
 * Code that attention and its gradient share: the operands, the computation of a score before its
 * exponential, and the choice of dropped weights.
 */
#ifndef TSR_COMPILER_TILE_ATTENTION_H
#define TSR_COMPILER_TILE_ATTENTION_H

#include "compiler/ir/targets/target.h"
#include "compiler/tile/products/gemm.h"
#include "compiler/tile/sequence.h"

enum { TSR_ATTENTION_STACK_BYTES = 440 * 1024 }; /* total size of the local buffers */
static_assert(TSR_ATTENTION_STACK_BYTES <= TSR_TARGET_STACK_MAX - 65536, "they fit the stack");

/* The number of operands after all others, if there is dropout. */
enum { TSR_ATTENTION_SAMPLES = 3 };

typedef struct tsr_attention {
    tsr_tile_group *group;
    tsr_dtype storage; /* type of query, key, value and result */
    tsr_dtype dtype;   /* type of the computation */
    int64_t batch, heads, key_heads, queries, keys, d, e;
    double scale;
    bool causal;
    bool cut;      /* on CPUs: tiles beyond the diagonal are skipped, and rows end at it */
    bool ragged;   /* set by the plan: some block of keys is not a multiple of the keys that are
                      masked at once */
    bool in_tiles; /* set by the plan: blocks of keys begin at tiles of samples.h */
    MlirValue q, k, v, mask; /* buffers; mask null: there is no mask */
    tsr_view mask_view;
    tsr_space mask_space; /* [B, H, S, T] */
    double dropout;       /* 0: no weight is dropped */
    int64_t stream;
    int64_t head_samples; /* numbers drawn for each head (samples.h) */
    MlirValue
        samples[TSR_ATTENTION_SAMPLES]; /* buffers: first heads of the batch's items; step; seed */
    MlirValue drawn[TSR_ATTENTION_SAMPLES]; /* their values for the current item */
    /* position of the kernel: the head, the first query and key of the current block */
    MlirValue batch_index, head_index, query, key;
} tsr_attention;

/* Reads the group's root: operands 0, 1, 2 are query, key and value; the mask, if any, is operand
 * `mask`. Fails with TSR_INTERNAL if the attention is malformed. */
TSR_RESULT tsr_attention_read(tsr_tile_group *group, size_t mask, tsr_attention *out_attention);
/* Finds the buffer and the type of an operand of the group's root. The operand must be an argument
 * of the group or, for the kernels of gpu/, a part of one (gpu/heads.h). */
TSR_RESULT tsr_attention_operand(const tsr_attention *a, size_t index, MlirValue *out_buffer,
                                 const tsr_type **out_type);

/* The shape of the tiles of a product. */
typedef struct tsr_attention_side {
    uint32_t lanes, vectors;
    int64_t width, rows; /* rows: rows of a tile */
} tsr_attention_side;

/* Plans the tiles of a product of rows x columns; both may be 0. The rows of a tile divide `unit`;
 * 0: any number. */
void tsr_attention_plan_side(const tsr_attention *a, int64_t rows, int64_t columns, int64_t unit,
                             tsr_attention_side *out_side);

/* Tells which end of a row's steps the diagonal cuts off: row i of a tile of keys begins at query
 * `first` + i, row i of a tile of queries ends before key `first` + i. */
typedef enum tsr_attention_edge { TSR_EDGE_BEGIN, TSR_EDGE_END } tsr_attention_edge;

typedef struct tsr_attention_steps {
    tsr_attention_edge edge;
    MlirValue first; /* may be negative; only read for causal attention */
    MlirValue count;
    int64_t unit; /* queries or keys in a step: 1, or TSR_DOT_PAIR */
} tsr_attention_steps;

/* Multiplies like tsr_gemm_multiply or, for pairs, tsr_dot_multiply, but only the steps in which
 * each row takes part. A row takes part in both steps of a pair or in neither, so A must be zero
 * for the steps that the row does not see. */
void tsr_attention_multiply(const tsr_attention *a, const tsr_gemm_tile *tile,
                            const tsr_attention_steps *steps, MlirValue *accumulators);

/* Products of the block's queries, or of rows with the same layout, with its keys in panels. Some
 * products beyond the diagonal are skipped. */
typedef struct tsr_attention_scores {
    const tsr_attention_side *side;
    int64_t unit;
    MlirValue a, a_at; /* a buffer; the offset of the block's rows */
    int64_t size;      /* elements of a row */
    MlirValue panels;  /* a buffer */
    int64_t depth;     /* elements of a panel divided by its width */
    MlirValue to;      /* a buffer */
    int64_t stride;    /* elements between rows of `to` */
    MlirValue rows, columns;
} tsr_attention_scores;
void tsr_attention_multiply_scores(const tsr_attention *a, const tsr_attention_scores *scores);

/* Packs rows of a matrix, beginning with the row of the block's first key, into panels as columns
 * of the transpose. */
typedef struct tsr_attention_panels {
    const tsr_attention_side *side;
    int64_t unit;
    tsr_dtype to_dtype;
    MlirValue from, from_at; /* a buffer; the offset of the block's rows */
    int64_t size;            /* elements of a row */
    MlirValue to;            /* a buffer with capacity for whole panels of block_keys */
    int64_t depth;           /* elements of a panel divided by its width */
    MlirValue columns;       /* number of columns needed; whole panels are written */
    int64_t block_keys;      /* keys of a block, except the last one */
} tsr_attention_panels;
void tsr_attention_pack_panels(const tsr_attention *a, const tsr_attention_panels *panels);

/* max(x, 0) */
MlirValue tsr_attention_at_least_0(const tsr_attention *a, MlirValue x);
/* The diagonal of the block: query `row` sees the block's keys up to row - diagonal. May be
 * negative. */
MlirValue tsr_attention_diagonal(const tsr_attention *a);
/* The first query of the block that sees the block's key `column`, rounded down to a multiple of
 * `rows`. */
MlirValue tsr_attention_first_row(const tsr_attention *a, MlirValue column, int64_t rows);
/* The number of the block's `count` keys that the block's query `row` may see; may be negative. */
MlirValue tsr_attention_limit(const tsr_attention *a, MlirValue row, MlirValue count);
/* A mask for loads of values that were computed for `lanes` keys: true for keys from `column` on
 * that are among the block's `count`. Null if all lanes may be loaded. Whole vectors extend beyond
 * a block's last key into memory that was never written. These values change no result, but memory
 * checkers of GPUs report the loads. */
MlirValue tsr_attention_present(const tsr_attention *a, MlirValue count, MlirValue column,
                                uint32_t lanes);
/* Scales and masks x, the products of the block's query `row` with `lanes` keys of the block from
 * `column` on. An element becomes -inf if its key is not among the first `limit`, or if the mask
 * forbids it. */
MlirValue tsr_attention_mask(const tsr_attention *a, MlirValue x, MlirValue row, MlirValue column,
                             MlirValue limit, uint32_t lanes);
/* Plans the kernels of gradients in bf16 or f16, which are computed in f32, and of gradients over
 * many keys, which need slots. *out_taken is false for all others. */
void tsr_tile_plan_wide_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                             bool *out_taken);

/* Loads the samples of the dropout; batch_index must be set. */
void tsr_attention_begin_samples(tsr_attention *a);
/* The mask of the weights of the block's query `row` that are not dropped, for `lanes` keys of the
 * block from `column` on. Null if none are dropped. */
MlirValue tsr_attention_drop_mask(const tsr_attention *a, MlirValue row, MlirValue column,
                                  uint32_t lanes);
/* x / (1 - dropout) if the weight is not dropped, else 0. */
MlirValue tsr_attention_drop(const tsr_attention *a, MlirValue drop_mask, MlirValue x);

/* Packs the rows of a bf16 matrix in pairs, panel by panel, in the layout that dot products
 * read. */
typedef struct tsr_attention_pairs {
    MlirValue from, to; /* buffers; `to` is written from its beginning */
    MlirValue from_at;  /* offset of the first row */
    int64_t size;       /* elements of a row */
    MlirValue count;    /* number of pairs */
    MlirValue rows;     /* number of rows; if it is odd, the last row is paired with zeros */
    bool odd;           /* the number of rows may be odd */
    uint32_t lanes, vectors;
    int64_t panel; /* elements of a panel */
} tsr_attention_pairs;
void tsr_attention_pack_pairs(const tsr_attention *a, const tsr_attention_pairs *pairs);

/* Computes gradients by dot products (pairs.c). `step` has the gradient of the query in f32, the
 * others in bf16. */
TSR_RESULT tsr_attention_lower_pairs_grad(tsr_tile_group *step, const void *plan);

/* x, or 0 if the scalar x is -inf. */
MlirValue tsr_attention_unless_lowest(const tsr_attention *a, MlirValue x);

#endif
