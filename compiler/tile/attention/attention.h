/* SPDX-License-Identifier: Apache-2.0
 *
 * What attention and its gradient share: the operands, what happens to a score before its
 * exponential is taken, and which weights fall.
 */
#ifndef TSR_COMPILER_TILE_ATTENTION_H
#define TSR_COMPILER_TILE_ATTENTION_H

#include "compiler/tile/gemm.h"
#include "compiler/tile/sequence.h"

enum { TSR_ATTENTION_STACK_BYTES = 440 * 1024 }; /* of all local buffers */
static_assert(TSR_ATTENTION_STACK_BYTES <= TSR_TARGET_STACK_MAX - 65536, "they fit the stack");

/* Operands behind all others, where weights fall. */
enum { TSR_ATTENTION_SAMPLES = 3 };

typedef struct tsr_attention {
    tsr_tile_group *group;
    tsr_dtype storage; /* of query, key, value and result */
    tsr_dtype dtype;   /* that is computed with */
    int64_t batch, heads, key_heads, queries, keys, d, e;
    double scale;
    bool causal;
    bool cut;      /* tiles beyond the diagonal are left out, and rows end at it: of a CPU */
    bool ragged;   /* set by the plan: some block of keys is no multiple of what is
                      masked at once */
    bool in_tiles; /* set by the plan: blocks of keys begin where tiles of samples.h do */
    MlirValue q, k, v, mask; /* buffers; mask null: none */
    tsr_view mask_view;
    tsr_space mask_space; /* [B, H, S, T] */
    double dropout;       /* 0: no weight falls */
    int64_t stream;
    int64_t head_samples;                     /* numbers of a head (samples.h) */
    MlirValue samples[TSR_ATTENTION_SAMPLES]; /* buffers: the first head of each item of the batch;
                                             step; seed */
    MlirValue drawn[TSR_ATTENTION_SAMPLES];   /* of the item at hand: what is in them */
    /* where the kernel is: the head, the first query and key of the block at hand */
    MlirValue batch_index, head_index, query, key;
} tsr_attention;

/* Operands 0, 1, 2 of the group's root are query, key and value; the mask, if any, is operand
 * `mask`. Fails with TSR_INTERNAL on what a schedule cannot hold. */
TSR_RESULT tsr_attention_read(tsr_tile_group *group, size_t mask, tsr_attention *out_attention);
/* The buffer of an operand of the group's root, which must be an argument of the group, or for the
 * kernels of gpu/ lie in one (gpu/heads.h); its type as the operand. */
TSR_RESULT tsr_attention_operand(const tsr_attention *a, size_t index, MlirValue *out_buffer,
                                 const tsr_type **out_type);

/* How tiles of a product lie over a block. */
typedef struct tsr_attention_side {
    uint32_t lanes, vectors;
    int64_t width, rows; /* of a tile */
} tsr_attention_side;

/* Of a product of rows x columns; 0 of them has a plan, too. `unit` is a multiple of a tile's rows;
 * 0: any. */
void tsr_attention_plan_side(const tsr_attention *a, int64_t rows, int64_t columns, int64_t unit,
                             tsr_attention_side *out_side);

/* Of what a row of a product's tile takes part in, the step that the diagonal crosses: row i of a
 * tile of keys begins at query `first` + i, one of queries ends before key `first` + i. */
typedef enum tsr_attention_edge { TSR_EDGE_BEGIN, TSR_EDGE_END } tsr_attention_edge;

typedef struct tsr_attention_steps {
    tsr_attention_edge edge;
    MlirValue first; /* any number; read where it is causal */
    MlirValue count;
    int64_t unit; /* queries or keys in a step: 1, or TSR_DOT_PAIR */
} tsr_attention_steps;

/* As tsr_gemm_multiply or, by pairs, tsr_dot_multiply, of the steps that each row takes part in. Of
 * pairs it takes part in both or none: what it does not see is to be zero in A. */
void tsr_attention_multiply(const tsr_attention *a, const tsr_gemm_tile *tile,
                            const tsr_attention_steps *steps, MlirValue *accumulators);

/* Products of the block's queries, or of what lies like them, with its keys in panels. Beyond the
 * diagonal some are left out. */
typedef struct tsr_attention_scores {
    const tsr_attention_side *side;
    int64_t unit;
    MlirValue a, a_at; /* a buffer; where the block's rows begin */
    int64_t size;      /* of a row */
    MlirValue panels;  /* a buffer */
    int64_t depth;     /* of a panel, over its width */
    MlirValue to;      /* a buffer */
    int64_t stride;    /* of its rows */
    MlirValue rows, columns;
} tsr_attention_scores;
void tsr_attention_multiply_scores(const tsr_attention *a, const tsr_attention_scores *scores);

/* Rows of a matrix from that of the block's first key on, in panels: columns of its transpose. */
typedef struct tsr_attention_panels {
    const tsr_attention_side *side;
    int64_t unit;
    tsr_dtype to_dtype;
    MlirValue from, from_at; /* a buffer; where the block's rows begin */
    int64_t size;            /* of a row */
    MlirValue to;            /* a buffer, room for whole panels of block_keys */
    int64_t depth;           /* of a panel, over its width */
    MlirValue columns;       /* so many are wanted; whole panels are written */
    int64_t block_keys;      /* of a block, but for the last */
} tsr_attention_panels;
void tsr_attention_pack_panels(const tsr_attention *a, const tsr_attention_panels *panels);

/* max(x, 0) */
MlirValue tsr_attention_at_least_0(const tsr_attention *a, MlirValue x);
/* Query `row` of the block sees its keys up to row - diagonal; any number. */
MlirValue tsr_attention_diagonal(const tsr_attention *a);
/* The first query of the block, or the first of the `rows` side by side of which it is one, that
 * sees the key `column` of the block. */
MlirValue tsr_attention_first_row(const tsr_attention *a, MlirValue column, int64_t rows);
/* How many of the block's `count` keys the query `row` of the block may see; may be negative. */
MlirValue tsr_attention_limit(const tsr_attention *a, MlirValue row, MlirValue count);
/* Which of `lanes` keys from `column` on are among the block's `count`, for loads of what was
 * computed of them; null: all are loaded. Whole vectors reach beyond a block's last key, to memory
 * that nobody has written. What lies there changes no result, but checkers of a GPU's memory tell
 * of it. */
MlirValue tsr_attention_present(const tsr_attention *a, MlirValue count, MlirValue column,
                                uint32_t lanes);
/* x: products of the query `row` of the block with `lanes` keys of the block from `column` on.
 * Scaled and masked: -inf where the key is none of the first `limit`, or the mask forbids it. */
MlirValue tsr_attention_mask(const tsr_attention *a, MlirValue x, MlirValue row, MlirValue column,
                             MlirValue limit, uint32_t lanes);
/* Of gradients in bf16 or f16, which are computed in f32; *out_taken false: these are not. */
void tsr_tile_plan_wide_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                             bool *out_taken);

/* Reads what weights are dropped by; batch_index must be set. */
void tsr_attention_begin_samples(tsr_attention *a);
/* Which weights of the query `row` of the block stay, of `lanes` keys of the block from `column`
 * on; null: all. */
MlirValue tsr_attention_kept(const tsr_attention *a, MlirValue row, MlirValue column,
                             uint32_t lanes);
/* x / (1 - dropout) where it is kept, else 0. */
MlirValue tsr_attention_drop(const tsr_attention *a, MlirValue kept, MlirValue x);

/* Rows of a matrix of bf16 brought together in pairs, panel by panel, as dot products read them. */
typedef struct tsr_attention_pairs {
    MlirValue from, to; /* buffers; `to` from its begin on */
    MlirValue from_at;  /* the first row */
    int64_t size;       /* of a row */
    MlirValue count;    /* of pairs */
    MlirValue rows;     /* there are so many: zeros stand beside the last where they are odd */
    bool odd;           /* they may be */
    uint32_t lanes, vectors;
    int64_t panel; /* elements of one */
} tsr_attention_pairs;
void tsr_attention_pack_pairs(const tsr_attention *a, const tsr_attention_pairs *pairs);

/* By dot products; `step` has the gradient of the query in f32, the others in bf16: pairs.c. */
TSR_RESULT tsr_attention_lower_pairs_grad(tsr_tile_group *step, const void *plan);

/* 0 where x, a scalar, is -inf. */
MlirValue tsr_attention_unless_lowest(const tsr_attention *a, MlirValue x);

#endif
