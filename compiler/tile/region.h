/* SPDX-License-Identifier: Apache-2.0
 *
 * A region is the part of a fusion group that is computed at each point of one iteration space: an
 * elementwise expression over views of buffers. A view is a buffer with one stride per dimension of
 * the space, 0 if it is broadcast.
 *
 * Values have a level: 0, the same at every point; 1, the same along the inner loops; 2, all
 * others. Levels 0 and 1 are computed once, as scalars, outside the inner loops; this does not
 * change the bits.
 */
#ifndef TSR_COMPILER_TILE_REGION_H
#define TSR_COMPILER_TILE_REGION_H

#include "compiler/ir/targets/target.h"
#include "compiler/schedule/tiling.h"
#include "compiler/tile/elements/element.h"
#include "compiler/tile/open/extent.h"

enum { TSR_TILE_REFUSAL_MAX = 320 };

/* The group being lowered, which every kernel family gets. */
typedef struct tsr_tile_group {
    tsr_ctx *ctx;
    tsr_arena *arena;
    tsr_tile_builder b;
    const char *name;
    MlirOperation op; /* tsched.func */
    MlirBlock body;   /* its block */
    uint32_t input_count, output_count;
    MlirValue *buffers;               /* buffers of the tile.func: inputs, then outputs */
    tsr_type *types;                  /* their types, as tensors */
    int64_t *pitches;                 /* their pitches: elements between rows; 0: dense */
    const MlirValue *returned;        /* operands of tsched.return */
    bool is_native;                   /* matrix units and their numerics may be used */
    bool multiplies;                  /* matrix units may be used for products */
    bool has_dot;                     /* dot products of bf16 and their numerics: dot.h */
    bool is_aside;                    /* a step of a sequence that is not the main one */
    uint32_t over;                    /* only for steps: see sequence.h */
    MlirOperation root;               /* op that is not elementwise; null in a map group */
    int64_t grid;                     /* out: programs, at least 1 */
    int64_t tile[TSR_TILE_SIZES_MAX]; /* out: the sizes chosen, if there is a choice */
    size_t tile_count;
    tsr_tiling_kind planned; /* the kind of `given`, which are all sizes; NONE: not planned yet */
    int64_t given[TSR_TILE_SIZES_MAX];  /* the sizes that the schedule gives; 0: not given */
    char refusal[TSR_TILE_REFUSAL_MAX]; /* out: why no kernel has these sizes; "": some has */
    int64_t warps, registers;           /* out: attributes of tile.func; 0: not set */
    int64_t teams, together;            /* out: likewise; see target.h */
    int64_t cooperative;                /* out: likewise; more than 1 only without `warps` */
    int64_t block_programs; /* out: likewise; more than 1: several programs share a block */
    bool contracts;         /* out: TSR_CONTRACT_NAME */
    bool has_choices;       /* out: TSR_SKIP_NAME picks another kernel */
    tsr_open_sizes open;    /* its open dims, whose sizes are the last inputs (open.h) */
    bool has_extents;       /* dims of its types can be open; else they have the largest sizes */
    int64_t open_high;      /* the largest size of the open dim; 0: the group has none */
    MlirValue open_size;    /* its size in a call */
    int64_t open_grid[3];   /* out: TSR_OPEN_GRID_NAME */
} tsr_tile_group;

/* lower.c */
tsr_tile_group tsr_tile_group_make(tsr_ctx *ctx, tsr_arena *arena, const tsr_target *target,
                                   bool native, MlirOperation func);
/* Reads the group's arguments, results and root, and allocates its buffers. */
TSR_RESULT tsr_tile_group_read(tsr_tile_group *group);
/* Makes the block of its tile.func, with its buffers. The caller owns the block until an op takes
 * it. */
TSR_RESULT tsr_tile_group_open(tsr_tile_group *group, MlirBlock *out_block);

/* Notes why no kernel can have the given sizes: the size, its value, and the rule with the value
 * that it allows. Returns false. */
bool tsr_tile_refuse(tsr_tile_group *group, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The type of a value in the group; of a group with extents, dims can be open. */
bool tsr_tile_group_type(const tsr_tile_group *group, MlirValue value, tsr_type *out_type);
/* tsr_op_i64s, where numbers can be extents. */
bool tsr_tile_group_numbers(const tsr_tile_group *group, MlirOperation op, const char *name,
                            int64_t out_extents[TSR_RANK_MAX], size_t *out_count);

/* The arguments of a group that may have a pitch. */
typedef enum tsr_carries {
    TSR_CARRIES_NONE,
    TSR_CARRIES_VIEWS,     /* all: they are read and written through views */
    TSR_CARRIES_ROWS,      /* strides of the reduced shape, if only its last dim is reduced */
    TSR_CARRIES_PRODUCT,   /* all, if matrix units compute the group */
    TSR_CARRIES_TRANSPOSE, /* the same */
} tsr_carries;
tsr_carries tsr_tile_group_carries(const tsr_tile_group *group);

/* Dims, strides and offsets are extents (open/extent.h). */
typedef struct tsr_space {
    uint32_t rank;
    int64_t dims[TSR_RANK_MAX];
    bool reduced[TSR_RANK_MAX];
} tsr_space;

typedef struct tsr_view {
    tsr_dtype dtype;
    MlirValue buffer;
    int64_t strides[TSR_RANK_MAX]; /* elements, one per dimension of the space */
    int64_t offset;                /* elements */
    bool stored;                   /* moved as stored, without conversion */
    bool streamed; /* vectors without a mask are stored past the caches: see tsr_view_streams */
} tsr_view;

typedef enum tsr_node_kind {
    TSR_NODE_VIEW,  /* loaded from a buffer */
    TSR_NODE_SPLAT, /* a constant */
    TSR_NODE_OP,    /* computed */
    TSR_NODE_GIVEN, /* set by the family: the result of the root */
    TSR_NODE_IOTA,  /* an iota: the offset of its view, which has no buffer */
} tsr_node_kind;

typedef struct tsr_node {
    MlirValue source; /* value in the group */
    tsr_node_kind kind;
    tsr_dtype dtype;
    MlirOperation op; /* OP, SPLAT */
    uint32_t operand_count;
    struct tsr_node *operands[TSR_ELEMENT_OPERANDS_MAX];
    tsr_view view; /* VIEW, IOTA */
    uint32_t level;
    MlirValue value; /* the value that was emitted last */
} tsr_node;

typedef struct tsr_region {
    tsr_tile_group *group;
    uint32_t node_count, result_count;
    tsr_node **nodes;   /* operands before users */
    tsr_node **results; /* one per root value asked for */
} tsr_region;

/* A dense row-major view of `shape`, broadcast from the right into the space's dimensions.
 * `parallel` selects the dimensions that it has (NULL: all); the others get stride 0. */
void tsr_view_init(tsr_view *view, tsr_dtype dtype, MlirValue buffer, const tsr_shape *shape,
                   const tsr_space *space, const bool *parallel);
/* The same for an argument of the group, inputs first, with its pitch. */
void tsr_view_of_argument(tsr_view *view, const tsr_tile_group *group, uint32_t number,
                          const tsr_space *space, const bool *parallel);

/* Collects the ops that `values` need, down to the group's arguments; `given` (nullable) is a leaf
 * that the family sets. Fails with TSR_INTERNAL on an op that is not elementwise, or with
 * TSR_MEMORY. */
TSR_RESULT tsr_region_init(tsr_tile_group *group, const MlirValue *values, uint32_t value_count,
                           MlirValue given, const tsr_space *space, const bool *parallel,
                           tsr_region *out_region);

/* Drops dimensions of size 1 and merges neighbours if all views allow it and both or neither are
 * reduced. `views` are views that the regions do not contain: outputs. */
void tsr_space_collapse(tsr_space *space, tsr_region *const *regions, uint32_t region_count,
                        tsr_view *views, uint32_t view_count);
int64_t tsr_space_count(const tsr_space *space);
/* True if the kernel's stores to `view`, in whole vectors of `lanes` along the last dimension of
 * the space, are too large for caches and evenly aligned. Stores past the caches then avoid reading
 * the lines first. */
bool tsr_view_streams(const tsr_view *view, const tsr_space *space, uint32_t lanes);
/* True if the stores are too large for caches, but lines begin within rows. A CPU that begins each
 * row with the elements before its first whole line may then store past the caches, too. */
bool tsr_view_streams_shifted(const tsr_tile_group *group, const tsr_view *view,
                              const tsr_space *space, uint32_t lanes);

/* Sets the levels: `outer` and `inner` mark the dimensions of the outer and the inner loops. */
void tsr_region_levels(tsr_region *region, const tsr_space *space, const bool *inner);

/* The point at which values are computed. Level 2 has `lanes` lanes along the last dimension of the
 * space (0: scalars); levels 0 and 1 are scalars. */
typedef struct tsr_point {
    const tsr_space *space;
    uint32_t lanes;
    MlirValue mask;                /* null: all lanes */
    MlirValue index[TSR_RANK_MAX]; /* null: 0 */
} tsr_point;
MlirValue tsr_point_offset(tsr_tile_builder *b, const tsr_point *point, const tsr_view *view);
MlirValue tsr_splat_value(tsr_tile_builder *b, const tsr_node *node); /* SPLAT: a scalar */
/* IOTA: a scalar, or a vector if it moves along the last dimension and the point has lanes. */
MlirValue tsr_iota_value(tsr_tile_builder *b, const tsr_node *node, const tsr_point *point);
/* Computes the nodes of one level. */
void tsr_region_emit(tsr_region *region, uint32_t level, const tsr_point *point);
/* The value of a node at a point, as a vector if the point has lanes. */
MlirValue tsr_node_value(tsr_region *region, const tsr_node *node, const tsr_point *point);
/* Stores results[i] to outputs[i] at the point. */
void tsr_region_store(tsr_region *region, const tsr_view *outputs, const tsr_point *point);

/* A run along the last dimension, computed vector by vector. */
typedef struct tsr_map_run {
    tsr_region *region;
    const tsr_view *outputs;
    uint32_t lanes;
    bool blocked;            /* see tsr_region_may_block: lanes are TSR_BLOCKED_ELEMENTS */
    bool loops;              /* a run may be as long as a vector */
    bool tails;              /* a run may end in a partial vector */
    const tsr_view *shifted; /* NULL, or the output to whose lines vectors are aligned:
                                tsr_view_streams_shifted */
} tsr_map_run;
/* True if the lanes of a warp may move 16 bytes at a time, in runs of up to `columns` elements that
 * begin at multiples of TSR_BLOCKED_ELEMENTS. The block must then be passed to
 * tsr_tile_set_blocked. */
bool tsr_region_may_block(const tsr_region *region, const tsr_view *outputs, const tsr_space *space,
                          int64_t columns);
/* Computes level 2 at elements begin to begin + count - 1 of the point's line, and stores. */
void tsr_map_run_emit(const tsr_map_run *run, const tsr_point *line, MlirValue begin,
                      MlirValue count);

/* Sets point->index of the dimensions [begin, end) from their flat row-major index. */
void tsr_point_unflatten(tsr_tile_builder *b, tsr_point *point, const bool *selected,
                         MlirValue flat);

/* The size in bytes of one point: the elements of all views that move along the last dimension. */
int64_t tsr_region_bytes(const tsr_region *region, const tsr_view *outputs, const tsr_space *space);
/* The widest element computed with at level 2, in bytes; at least 1. */
uint32_t tsr_region_width(const tsr_region *region);
uint32_t tsr_lanes_fit(uint32_t lanes, int64_t count); /* halved while at least `count` remain */

/* Computes a region at every point of a collapsed space and stores its results. This is the second
 * half of the map family. */
void tsr_tile_emit_map(tsr_tile_group *group, const tsr_region *region, tsr_view *outputs,
                       const tsr_space *space);

/* A kernel that copies along `space` from one view to another. */
TSR_RESULT tsr_tile_lower_copy(tsr_tile_group *group, const tsr_view *from, tsr_view *to,
                               tsr_space *space);

/* One function per kernel family; each sets group->grid. */
TSR_RESULT tsr_tile_lower_map(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_concat(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_cumsum(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_gather(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_pack(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_pad(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_rows(tsr_tile_group *group); /* several reductions */
TSR_RESULT tsr_tile_lower_scatter(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_slice(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_sort(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_top_k(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_words(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_max_pool2d(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_avg_pool2d(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_max_pool2d_grad(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_avg_pool2d_grad(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_reshape(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_transpose(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_reduce(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_argmax(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_matmul(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_attention(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_attention_grad(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_conv2d(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_conv2d_grad_input(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_conv2d_grad_filter(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_cross_entropy(tsr_tile_group *group);
TSR_RESULT tsr_tile_lower_cross_entropy_grad(tsr_tile_group *group);

#endif
