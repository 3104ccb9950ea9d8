/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of family `rows` share.
 *
 * A value is constant along a row (level 0 or 1: a scalar) or not (level 2). Its stage is the
 * number of reductions, one behind the other, that it waits for. For each stage: its scalars, then
 * one walk over the row that accumulates the stage's reductions and stores its results. What a
 * later stage needs again is computed again where that is cheap; else it is cached in a buffer as
 * long as a row, or read back from the result that it is.
 */
#ifndef TSR_COMPILER_TILE_ROWS_ROWS_H
#define TSR_COMPILER_TILE_ROWS_ROWS_H

#include "compiler/tile/reduce.h"

enum { TSR_ROW_CHUNKS_MAX = 16 }; /* vectors of a row that is held */

typedef enum tsr_row_item_kind {
    TSR_ROW_LEAF,
    TSR_ROW_OP,
    TSR_ROW_SAME,
    TSR_ROW_REDUCE,
    TSR_ROW_SUM,    /* over rows: nothing reads it */
    TSR_ROW_REPAIR, /* a scalar that reads the row again where it must */
} tsr_row_item_kind;

typedef struct tsr_row_item {
    tsr_node node; /* LEAF: VIEW, SPLAT or IOTA; else its op and dtype */
    tsr_row_item_kind kind;
    bool over_kept; /* a view over the kept dims alone */
    struct tsr_row_item *operands[TSR_ELEMENT_OPERANDS_MAX];
    uint32_t operand_count, level, stage;
    bool cached;      /* for later stages */
    MlirValue buffer; /* of the cached value; null: not cached */
    bool in_result;   /* buffer is a result, read at the row's place */
    bool held;        /* by lanes, all of the row: for later stages */
    bool ahead;       /* of a row of several: on its way while those before are computed */
    MlirValue ring;   /* a local buffer of such rows; null: a scalar, read one row ahead */
    MlirValue next;   /* that scalar, of the next row */
    MlirValue chunks[TSR_ROW_CHUNKS_MAX];
    bool later, waits, repaired; /* REPAIR: see repair.c */
    bool of_columns;             /* there, too */
    MlirValue beside;
    uint32_t asked;   /* bits of the stages that ask for it */
    MlirValue scalar; /* levels 0 and 1, and reductions */
    MlirValue vector; /* level 2, in the walk `walk` */
    uint32_t walk;
    MlirValue sums[TSR_ROW_CHUNKS_MAX]; /* SUM: of the program's rows, where lanes hold it */
    tsr_partials partials;              /* REDUCE, during its walk */
    tsr_reduction rules;                /* REDUCE */
} tsr_row_item;

/* Sums over rows: a program has `per_program` rows, or one fewer, of one place of the dims that are
 * not summed, `parts` times `beside` programs all of them. On a CPU they are neighbours; on a GPU
 * programs have rows in turn: what all of them read at a time lies together. Their sums are rows of
 * a buffer, `parts` of each place, which a second kernel adds. */
typedef struct tsr_rows_sums {
    uint32_t count;  /* 0: the rows are divided for the sake of parameters (tsr_rows_divide) */
    uint32_t warps;  /* of a program, on a GPU */
    uint32_t blocks; /* programs that a multiprocessor has at a time */
    uint32_t beside; /* of them, in a block: their sums are one part */
    uint32_t *order; /* which result of the group an output of the first kernel is, or is part of */
    int64_t places, rows, parts, per_program, columns;
} tsr_rows_sums;

typedef struct tsr_rows {
    tsr_tile_group *group;
    tsr_space space; /* the kept dims, then one of all columns */
    tsr_shape full, kept_shape;
    uint32_t trailing;
    /* columns.c: other dims follow those that are reduced. A row is a column then, the space is
     * FULL, and what is constant along a row is a vector of columns side by side. */
    bool columns_beside;
    bool kept[TSR_RANK_MAX]; /* the other dims of FULL */
    int64_t row_count, columns;
    tsr_row_item **items; /* operands before users */
    uint32_t item_count, item_capacity;
    tsr_row_item **results; /* by output; of sums over rows their program's part */
    tsr_view *outputs;
    bool *whole_rows;          /* by output: one element per column */
    MlirValue *walked;         /* of columns: by output, of rows that are read together */
    uint32_t plain_count;      /* outputs that are no sums over rows: the first ones */
    const tsr_rows_sums *sums; /* NULL: there are none */
    uint32_t stage_count, prefetch_stage, walk;
    uint32_t shifted; /* 1 + the output whose lines the walk's vectors are; 0: none */
    int64_t local_bytes, held_elements; /* held: most at a time, counted as f32 */
    bool holds;     /* the row is gone over without a loop; what later stages need, lanes hold */
    bool even;      /* all vectors along a row begin where 8 of its elements do */
    uint32_t warps; /* of a program */
    uint32_t chunk; /* of it, in the walk */
    bool alone;     /* values of single elements are asked for: of nothing that is cached or held */
    tsr_point point;
    MlirValue sums_at;         /* where the program's row of a buffer of sums begins */
    uint32_t beside;           /* programs of a block whose sums are added */
    uint32_t stages;           /* rows that rings hold; 0: none is fetched */
    MlirValue slot, next_slot; /* which of them this row is, and the next one */
} tsr_rows;

/* A program's rows: begin, begin + step … below end, all of them behind row `first`. */
typedef struct tsr_rows_span {
    MlirValue first, begin, end;
    int64_t step;
} tsr_rows_span;

/* emit.c: a kernel over rows; `sums` NULL: without sums over them. */
TSR_RESULT tsr_rows_emit(tsr_tile_group *group, const tsr_rows_sums *sums);

/* The rows of the kept dims, one number, as the point. */
void tsr_rows_place(tsr_rows *r, MlirValue row);

/* Element `place` of the row, or of the columns side by side, computed of what is in memory;
 * `stage` is that of the walk. */
MlirValue tsr_rows_value_alone(tsr_rows *r, tsr_row_item *it, MlirValue place, uint32_t stage);
MlirValue tsr_rows_column_alone(tsr_rows *r, tsr_row_item *it, MlirValue place); /* columns.c */
/* repair.c: sets the scalar that a repair gives, and others that are found with it. */
void tsr_rows_emit_repair(tsr_rows *r, tsr_row_item *it, uint32_t stage);

/* ahead.c: a program that has several rows fetches the next ones while it computes. */
/* What is fetched, and so held; sets `stages`. */
void tsr_rows_find_ahead(tsr_rows *r);
/* Before the rows: fetches the first ones. */
void tsr_rows_begin_ahead(tsr_rows *r, const tsr_rows_span *span);
/* At the begin of row `row`: the last one of the ring is fetched, this one is there. */
void tsr_rows_fetch_ahead(tsr_rows *r, const tsr_rows_span *span, MlirValue row);
/* What goes from a row to the next one behind values[count], or from there; returns the count. */
uint32_t tsr_rows_carry_ahead(tsr_rows *r, MlirValue *values, uint32_t count, bool from);
/* The vector of the walk, as it lies in memory. */
MlirValue tsr_rows_load_ahead(tsr_rows *r, const tsr_row_item *it);

/* read.c: items, stages. Fails with TSR_INTERNAL on what has no place in rows, TSR_MEMORY. */
TSR_RESULT tsr_rows_read(tsr_rows *r);

/* hold.c */
/* Lanes of one or several warps hold the row, or local buffers hold what is costly: sets `holds`
 * and `warps`, and of the group `cooperative`, `registers` and `choices`. */
void tsr_rows_choose(tsr_rows *r);
/* Of so many sums over rows so long: warps of a program, and programs that a multiprocessor of a
 * GPU has room for. */
uint32_t tsr_rows_sum_warps(int64_t columns, uint32_t sums, uint32_t *out_blocks);
/* Is this a view of the row's own? */
bool tsr_row_is_own(const tsr_rows *r, const tsr_row_item *it);
/* sums.c: does a GPU read much more of what is the same for all rows than of a row? Then a program
 * that has several reads it once. */
bool tsr_rows_divide(const tsr_rows *r, tsr_rows_sums *out_sums);
/* Of a reduction in rows: is it over rows? */
bool tsr_rows_is_sum(MlirOperation op);
/* Does none of the group's reductions have the last dim? */
bool tsr_rows_are_columns(MlirBlock body);
/* columns.c: a kernel over columns, side by side. */
TSR_RESULT tsr_rows_emit_columns(tsr_rows *r);
/* hold.c: local buffers that hold what is costly of `lanes` columns; which items those are. */
bool tsr_rows_is_cached_column(const tsr_rows *r, const tsr_row_item *it);
void tsr_rows_cache_columns(tsr_rows *r, uint32_t lanes);
/* What is read of 16 bits is held so, and widened in each stage anew. */
bool tsr_row_is_packed(const tsr_row_item *it);
/* Is this output stored past the caches? */
bool tsr_rows_stream(const tsr_rows *r, uint32_t output);
/* Is it so where vectors of a stage begin with its lines? */
bool tsr_rows_stream_shifted(const tsr_rows *r, uint32_t output);
/* Elements of a vector of a row that is held. */
uint32_t tsr_rows_chunk(const tsr_rows *r);

#endif
