/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the files of family `rows`.
 *
 * A value is constant along a row (level 0 or 1: a scalar) or not (level 2). The stage of a value
 * is the length of the longest chain of reductions that it depends on. Each stage computes its
 * scalars, then walks once over the row, which accumulates the stage's reductions and stores its
 * results. Values that a later stage needs again are recomputed if that is cheap; otherwise they
 * are cached in a buffer as long as a row, or read back if they are a result.
 */
#ifndef TSR_COMPILER_TILE_ROWS_ROWS_H
#define TSR_COMPILER_TILE_ROWS_ROWS_H

#include "compiler/tile/reductions/reduce.h"

enum {
    TSR_ROW_CHUNKS_MAX = 16,  /* vectors of a row held in registers */
    TSR_ROW_OPERANDS_MAX = 5, /* of an item: those of a repair, or TSR_ELEMENT_OPERANDS_MAX */
};

typedef enum tsr_row_item_kind {
    TSR_ROW_LEAF,
    TSR_ROW_OP,
    TSR_ROW_SAME,
    TSR_ROW_REDUCE,
    TSR_ROW_SUM,    /* sum over rows: nothing reads it */
    TSR_ROW_REPAIR, /* a scalar that reads the row again if necessary */
} tsr_row_item_kind;

typedef struct tsr_row_item {
    tsr_node node; /* LEAF: VIEW, SPLAT or IOTA; else its op and dtype */
    tsr_row_item_kind kind;
    bool over_parallel; /* a view over only the parallel dims */
    struct tsr_row_item *operands[TSR_ROW_OPERANDS_MAX];
    uint32_t operand_count, level, stage;
    bool cached;      /* cached for later stages */
    MlirValue buffer; /* the buffer of the cached value; null: not cached */
    bool in_result;   /* buffer is a result, read at the row's offset */
    bool resident;    /* lanes hold the whole row for later stages */
    bool ahead;       /* fetched while the program's preceding rows are computed */
    MlirValue ring;   /* a local buffer of fetched rows; null: a scalar, read one row ahead */
    MlirValue next;   /* this scalar for the next row */
    MlirValue chunks[TSR_ROW_CHUNKS_MAX];
    bool later, waits, repaired; /* REPAIR: see repair.c */
    bool of_columns;             /* see repair.c */
    MlirValue copy;              /* see repair.c */
    uint32_t asked;              /* bit mask of the stages that need it */
    MlirValue scalar;            /* levels 0 and 1, and reductions */
    MlirValue vector;            /* level 2, in the walk `walk` */
    uint32_t walk;
    MlirValue sums[TSR_ROW_CHUNKS_MAX]; /* SUM: over the program's rows, if lanes hold it */
    tsr_partials partials;              /* REDUCE, during its walk */
    tsr_reduction rules;                /* REDUCE */
} tsr_row_item;

/* Sums over rows: a program has `per_program` rows, or one fewer, of one position in the dims that
 * are not summed; `parts` times `block_programs` programs together have all rows. On a CPU the rows
 * of a program are adjacent. On a GPU the programs take rows in turn, so that simultaneous reads of
 * all programs are adjacent in memory. The partial sums are rows of a buffer, `parts` for each
 * position, which a second kernel adds. */
typedef struct tsr_rows_sums {
    uint32_t count;  /* 0: the rows are divided to share reads of parameters (tsr_rows_divide) */
    uint32_t warps;  /* warps of a program on a GPU */
    uint32_t blocks; /* programs resident on a multiprocessor */
    uint32_t block_programs; /* programs in a block: their sums form one part */
    uint32_t *order; /* per output of the first kernel: the result of the group that this output is,
                        or contributes to */
    int64_t outer, rows, parts, per_program, columns;
} tsr_rows_sums;

typedef struct tsr_rows {
    tsr_tile_group *group;
    tsr_space space; /* the parallel dims, then one of all columns */
    tsr_shape full, parallel_shape;
    uint32_t trailing;
    /* columns.c: other dims follow those that are reduced. A row is then a column, the space is
     * FULL, and a value that is constant along a row is a vector over adjacent columns. */
    bool has_trailing;
    bool parallel[TSR_RANK_MAX]; /* the other dims of FULL */
    int64_t row_count, columns;
    tsr_row_item **items; /* operands before users */
    uint32_t item_count, item_capacity;
    tsr_row_item **results; /* per output; for sums over rows, the program's part */
    tsr_view *outputs;
    bool *whole_rows;          /* per output: one element per column */
    MlirValue *walked;         /* columns: per output, values of rows that are read together */
    uint32_t plain_count;      /* outputs that are not sums over rows; they come first */
    const tsr_rows_sums *sums; /* NULL: no sums over rows */
    uint32_t stage_count, prefetch_stage, walk;
    uint32_t shifted; /* 1 + the output to whose cache lines vectors are aligned; 0: none */
    int64_t local_bytes, resident_elements; /* held: the maximum at any time, counted as f32 */
    bool holds;     /* the row is unrolled; lanes hold the values that later stages need */
    bool even;      /* all vectors along a row begin at multiples of 8 elements */
    uint32_t warps; /* warps of a program */
    uint32_t chunk; /* the walk's current vector of the row */
    bool alone;     /* single elements are computed, without cached or held values */
    tsr_point point;
    MlirValue sums_at;         /* offset of the program's row in a buffer of sums */
    uint32_t block_programs;   /* programs of a block whose sums are added */
    uint32_t stages;           /* rows in a ring; 0: rows are not fetched ahead */
    MlirValue slot, next_slot; /* ring slots of this row and the next one */
} tsr_rows;

/* A program's rows: begin, begin + step … below end, all relative to row `first`. */
typedef struct tsr_rows_span {
    MlirValue first, begin, end;
    int64_t step;
} tsr_rows_span;

/* emit.c: a kernel over rows; `sums` NULL: no sums over rows. */
TSR_RESULT tsr_rows_emit(tsr_tile_group *group, const tsr_rows_sums *sums);

/* Sets the point from a row number, which is an index into the flattened parallel dims. */
void tsr_rows_set_row(tsr_rows *r, MlirValue row);

/* Element `column` of the row, or of the adjacent columns, computed from values in memory; `stage`
 * is the stage of the walk. */
MlirValue tsr_rows_value_alone(tsr_rows *r, tsr_row_item *it, MlirValue column, uint32_t stage);
MlirValue tsr_rows_column_alone(tsr_rows *r, tsr_row_item *it, MlirValue column); /* columns.c */
/* repair.c: sets the scalar of a repair, and of others that are computed together with it. */
void tsr_rows_emit_repair(tsr_rows *r, tsr_row_item *it, uint32_t stage);

/* ahead.c: a program that has several rows fetches the next ones while it computes. */
/* Finds the items to fetch, which are then held; sets `stages`. */
void tsr_rows_find_ahead(tsr_rows *r);
/* Called before the loop over rows; fetches the first rows. */
void tsr_rows_begin_ahead(tsr_rows *r, const tsr_rows_span *span);
/* Called at the beginning of row `row`, which has arrived; fetches the row for the last slot of the
 * ring. */
void tsr_rows_fetch_ahead(tsr_rows *r, const tsr_rows_span *span, MlirValue row);
/* Appends the values carried from a row to the next one to values[count …], or reads them from
 * there; returns the new count. */
uint32_t tsr_rows_carry_ahead(tsr_rows *r, MlirValue *values, uint32_t count, bool from);
/* The walk's current vector in its stored type. */
MlirValue tsr_rows_load_ahead(tsr_rows *r, const tsr_row_item *it);

/* read.c: reads items and stages. Fails with TSR_INTERNAL on ops that family `rows` does not
 * support, or with TSR_MEMORY. */
TSR_RESULT tsr_rows_read(tsr_rows *r);

/* hold.c */
/* Decides whether lanes of one or several warps hold the row, or local buffers cache costly values:
 * sets `holds` and `warps`, and the group's `cooperative`, `registers` and `choices`. */
void tsr_rows_choose(tsr_rows *r);
/* The warps of a program that computes `sums` sums over rows of `columns` elements; *out_blocks:
 * the programs that fit on a multiprocessor. */
uint32_t tsr_rows_sum_warps(int64_t columns, uint32_t sums, uint32_t *out_blocks);
/* True if this is a view whose elements differ from row to row. */
bool tsr_row_is_own(const tsr_rows *r, const tsr_row_item *it);
/* sums.c: true if each row reads much more data that all rows share than data of its own. A GPU
 * program then computes several rows and reads the shared data once. */
bool tsr_rows_divide(const tsr_rows *r, tsr_rows_sums *out_sums);
/* True if this reduction in a group of rows is a sum over rows. */
bool tsr_rows_is_sum(MlirOperation op);
/* True if no reduction of the group reduces the last dim. */
bool tsr_rows_are_columns(MlirBlock body);
/* columns.c: a kernel over adjacent columns. */
TSR_RESULT tsr_rows_emit_columns(tsr_rows *r);
/* hold.c: makes local buffers that cache the costly values of `lanes` columns; true if an item is
 * one of these tensors */
bool tsr_rows_is_cached_column(const tsr_rows *r, const tsr_row_item *it);
void tsr_rows_cache_columns(tsr_rows *r, uint32_t lanes);
/* True if the item is held in its 16-bit type and widened again in each stage. */
bool tsr_row_is_packed(const tsr_row_item *it);
/* Is this output stored past the caches? */
bool tsr_rows_stream(const tsr_rows *r, uint32_t output);
/* The same, if the vectors of a stage are aligned to the output's cache lines. */
bool tsr_rows_stream_shifted(const tsr_rows *r, uint32_t output);
/* The elements of each vector of a held row. */
uint32_t tsr_rows_chunk(const tsr_rows *r);

#endif
