/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of family `matmul` share.
 */
#ifndef TSR_COMPILER_TILE_MATMUL_H
#define TSR_COMPILER_TILE_MATMUL_H

#include "compiler/tile/dot.h"
#include "compiler/tile/epilogue.h"
#include "compiler/tile/tree.h"

/* Sizes of the plan, as they stand in `tile`; 0: not chosen. */
typedef struct tsr_matmul_sizes {
    int64_t rows;           /* of a tile */
    int64_t width;          /* of a tile, in columns */
    int64_t block_rows;     /* of a program */
    int64_t program_panels; /* of a program */
    int64_t k_block;
} tsr_matmul_sizes;
enum { TSR_MATMUL_SIZES = sizeof(tsr_matmul_sizes) / sizeof(int64_t) };

typedef struct tsr_matmul {
    tsr_tile_group *group;
    tsr_region after;
    tsr_node *given;
    tsr_view *outputs;
    tsr_space space;          /* of the result: [batch ..., M, N] */
    tsr_dtype dtype, compute; /* of the result; of what is computed with, and of locals */
    tsr_gemm_operand a, b;
    int64_t m, n, k, batch; /* k: steps, of ... */
    int64_t unit, depth;    /* ... 2 elements of K where dot.h computes, else 1; of K itself */
    int64_t a_row, a_k;     /* strides of A; of a step */
    int64_t a_batch[TSR_RANK_MAX],
        b_batch[TSR_RANK_MAX]; /* of the batch's dimensions; 0: broadcast */
    bool b_transposed;
    bool transposed; /* a and b, m and n have changed places: tiles are of C transposed */
    int64_t strip;   /* B lies in strips so wide; 0: it does not */
    /* the plan */
    tsr_matmul_sizes size;
    uint32_t lanes, vectors; /* a tile is vectors * lanes columns wide */
    int64_t panels;          /* of the matrix */
    int64_t k_blocks;
    int64_t chunks;       /* of K, whose sums are added (tree.h); 0: every element is one chain */
    bool chunks_by_tiles; /* blocks of K are whole chunks: each tile adds its own; else a chunk is
                             several blocks, and all tiles' are added behind the last of them */
    bool at_once; /* a thread's programs are computed as one, so that it reads B's rows ... */
    int64_t panels_at_once; /* ... in long runs: panels that there is room for; else a program's */
    int64_t far_parts; /* parts of a row of panels that are computed for all rows before the next */
    bool a_packed, b_packed;
    bool b_streamed; /* read where it lies, and large */
    bool asks;       /* the first tile of each panel asks for what of B is read next */
    bool packs;      /* the first tile of each panel packs it, while it multiplies */
    /* The last so many tiles of a panel ask for the next one; 0: none do, or the first. */
    int64_t asking_tiles;
    bool defers;     /* a tile's epilogue is computed while the next tile multiplies, ... */
    int64_t between; /* ... so many steps of k between one vector of it and the next */
    /* emission */
    MlirValue a_local, panel, scratch; /* [k_block][block_rows], [k_block][width],
                                          [slots][program_panels][block_rows][width] */
    int64_t slot;                      /* elements of such a slot */
    MlirValue a_base, b_base;          /* offsets of the batch's matrices */
    tsr_point point;                   /* of the batch */
    tsr_epilogue epilogue;
} tsr_matmul;

static inline uint32_t tsr_matmul_batch_rank(const tsr_matmul *mm) { return mm->space.rank - 2; }

/* What the group computes. TSR_INTERNAL where it is malformed. */
TSR_RESULT tsr_matmul_read(tsr_matmul *mm);
/* Tiles, blocks and programs, after what the kernel's attribute `tile` says. TSR_COMPILE where that
 * is malformed. */
TSR_RESULT tsr_matmul_plan(tsr_matmul *mm);
/* Of `scratch`: 1, or those that sums of chunks take. */
int64_t tsr_matmul_slots(const tsr_matmul *mm);
/* Elements of a tile of A on the stack. */
int64_t tsr_matmul_packed_tile(const tsr_matmul *mm);

/* A program does at least so much, if there is: a CPU's see TSR_LAUNCH_COST_SHARE of
 * runtime/threads.h, but for what each packs of A. */
static inline int64_t tsr_matmul_program_flops(const tsr_matmul *mm) {
    return mm->a_packed || mm->group->b.target->warp_lanes ? 1000 * 1000 : 250 * 1000;
}

static inline int64_t tsr_matmul_element_size(const tsr_matmul *mm) {
    return (int64_t)tsr_dtype_size(mm->compute);
}

#endif
