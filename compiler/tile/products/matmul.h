/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions that the files of family `matmul` share.
 */
#ifndef TSR_COMPILER_TILE_PRODUCTS_MATMUL_H
#define TSR_COMPILER_TILE_PRODUCTS_MATMUL_H

#include "compiler/tile/products/dot.h"
#include "compiler/tile/products/epilogue.h"
#include "compiler/tile/products/words.h"
#include "compiler/tile/reductions/tree.h"

/* Sizes of the plan, in the order of `tile`; 0: not chosen. */
typedef struct tsr_matmul_sizes {
    int64_t rows;           /* rows of a tile */
    int64_t width;          /* columns of a tile */
    int64_t block_rows;     /* rows of a program */
    int64_t program_panels; /* panels of a program */
    int64_t k_block;
} tsr_matmul_sizes;
enum { TSR_MATMUL_SIZES = sizeof(tsr_matmul_sizes) / sizeof(int64_t) };

typedef struct tsr_matmul {
    tsr_tile_group *group;
    tsr_region after;
    tsr_node *given;
    tsr_view *outputs;
    tsr_space space; /* index space of the result: [batch ..., M, N] */
    tsr_gemm_words words;
    tsr_dtype dtype, compute; /* type of the result; type of the computation and of locals */
    tsr_gemm_operand a, b;
    int64_t m, n, k, batch; /* k: number of steps */
    int64_t unit, depth;    /* elements of K in a step, 2 with dot.h, else 1; elements of K */
    int64_t a_row, a_k;     /* strides of A, between rows and between steps */
    int64_t a_batch[TSR_RANK_MAX],
        b_batch[TSR_RANK_MAX]; /* strides of the batch's dimensions; 0: broadcast */
    bool b_transposed;
    bool transposed; /* a and b, m and n are swapped: tiles are of C transposed */
    bool open_rows; /* m is the largest number of rows (open.h); each program divides its own evenly
                       among tiles; the kernel has a tile of each height */
    int64_t strip;  /* width of the strips in which B is stored; 0: B is not in strips */
    /* the plan */
    tsr_matmul_sizes asked; /* sizes that the schedule gives; 0: not given */
    tsr_matmul_sizes size;
    uint32_t lanes, vectors; /* a tile is vectors * lanes columns wide */
    int64_t panels;          /* panels of the matrix */
    int64_t k_blocks;
    int64_t chunks;       /* chunks of K, whose sums are added (tree.h); 0: every element is one
                             chain */
    bool chunks_by_tiles; /* blocks of K are whole chunks, and each tile adds its own; otherwise a
                             chunk is several blocks, and the sums of all tiles are added after the
                             last of these blocks */
    bool at_once; /* the programs of a thread are computed as one, so that it reads B's rows ... */
    int64_t panels_at_once; /* ... in long runs: panels that fit; or a program's */
    int64_t far_parts; /* parts of a row of panels that are computed for all rows before the next
                          parts */
    bool a_packed, b_packed;
    bool b_streamed; /* read in place, and large */
    bool asks;       /* the first tile of each panel prefetches the part of B that is read next */
    bool packs;      /* the first tile of each panel packs it, while it multiplies */
    /* The number of last tiles of a panel that prefetch the next panel; 0: no tile does, or only
     * the first. */
    int64_t asking_tiles;
    bool defers;     /* a tile's epilogue is computed while the next tile multiplies, ... */
    int64_t between; /* ... with this number of steps of k between two vectors */
    /* emission */
    MlirValue a_local, panel, scratch; /* [k_block][block_rows], [k_block][width],
                                          [slots][program_panels][block_rows][width] */
    int64_t slot;                      /* elements of a slot of scratch */
    MlirValue a_base, b_base;          /* offsets of the batch's matrices */
    tsr_point point;                   /* indices of the batch */
    tsr_epilogue epilogue;
} tsr_matmul;

static inline uint32_t tsr_matmul_batch_rank(const tsr_matmul *mm) { return mm->space.rank - 2; }

/* The tiles of a program whose number of rows the call gives: rows of the tiles from row `taller`
 * on; those before have one more. */
typedef struct tsr_matmul_open {
    MlirValue tile_rows, taller;
} tsr_matmul_open;

/* matmul_open.c, for open_rows: the first row of the block of this number, and its rows. */
MlirValue tsr_matmul_find_rows(const tsr_matmul *mm, MlirValue number, tsr_matmul_open *out_open,
                               MlirValue *out_count);
/* The rows, of a program with `row_count` rows, whose tiles have this height: none, except for two
 * heights. */
void tsr_matmul_find_tiles(const tsr_matmul *mm, const tsr_matmul_open *open, MlirValue row_count,
                           int64_t height, MlirValue *out_low, MlirValue *out_high);

/* Reads the group's product. Fails with TSR_INTERNAL if the group is malformed. */
TSR_RESULT tsr_matmul_read(tsr_matmul *mm);
/* Sets the offsets of the matrices of batch number `batch`. */
void tsr_matmul_enter_batch(tsr_matmul *mm, MlirValue batch);
/* Plans tiles, blocks and programs with the sizes that the schedule gives (tsr_tile_group.given);
 * false after tsr_tile_refuse if no kernel has these sizes. */
bool tsr_matmul_plan(tsr_matmul *mm);
/* The number of slots of `scratch`: 1, or those that sums of chunks need. */
int64_t tsr_matmul_slots(const tsr_matmul *mm);
/* The number of elements of a tile of A on the stack. */
int64_t tsr_matmul_packed_tile(const tsr_matmul *mm);

/* The minimum work of a program, if there is enough. For CPUs it follows from TSR_LAUNCH_COST_SHARE
 * of runtime/threads.h, but is larger if each program packs its part of A. */
static inline int64_t tsr_matmul_program_flops(const tsr_matmul *mm) {
    return mm->a_packed || mm->group->b.target->warp_lanes ? 1000 * 1000 : 250 * 1000;
}

static inline int64_t tsr_matmul_element_size(const tsr_matmul *mm) {
    return (int64_t)tsr_dtype_size(mm->compute);
}

#endif
