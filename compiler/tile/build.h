/* SPDX-License-Identifier: Apache-2.0
 *
 * Builders of Tile IR: index arithmetic that folds constants, scalar and vector ops, loops, masks,
 * loads and stores. Each function appends to the builder's block. Wrong types assert.
 */
#ifndef TSR_COMPILER_TILE_BUILD_H
#define TSR_COMPILER_TILE_BUILD_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"

enum { TSR_TILE_CARRIED_MAX = 64 };

struct tsr_open_sizes;

typedef struct tsr_tile_builder {
    tsr_builder at; /* always at the end of at.block */
    const tsr_target *target;
    bool wide; /* tsr_tile_round does nothing: one rounding at the end is enough */
    const struct tsr_open_sizes *open; /* of the kernel, or NULL: open/extent.h */
    bool approximate; /* functions may be the device's own, of absolute error below 2^-10 */
} tsr_tile_builder;

/* arith.cmpi and arith.cmpf predicates, by MLIR's numbers */
typedef enum tsr_tile_icmp {
    TSR_ICMP_EQ,
    TSR_ICMP_NE,
    TSR_ICMP_SLT,
    TSR_ICMP_SLE,
    TSR_ICMP_SGT,
    TSR_ICMP_SGE,
    TSR_ICMP_ULT,
    TSR_ICMP_ULE,
    TSR_ICMP_UGT,
    TSR_ICMP_UGE
} tsr_tile_icmp;
typedef enum tsr_tile_fcmp {
    TSR_FCMP_OEQ = 1,
    TSR_FCMP_OGT = 2,
    TSR_FCMP_OGE = 3,
    TSR_FCMP_OLT = 4,
    TSR_FCMP_OLE = 5,
    TSR_FCMP_UNE = 13,
    TSR_FCMP_UNO = 14
} tsr_tile_fcmp;

/* ---- types ---- */
MlirType tsr_tile_index_type(tsr_tile_builder *b);
/* bf16 and f16 are computed in f32. */
bool tsr_dtype_is_narrow(tsr_dtype dtype);
tsr_dtype tsr_tile_compute_dtype(tsr_dtype dtype);
/* The type of elements in memory: ui8 and i1 are i8. */
MlirType tsr_tile_storage_type(tsr_tile_builder *b, tsr_dtype dtype);
/* The type of elements in computations: ui8 is i8, i1 is i1, bf16 and f16 are f32. lanes 0: a
 * scalar, else a vector. */
MlirType tsr_tile_value_type(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
MlirType tsr_tile_vector_type(MlirType element, uint32_t lanes);
MlirType tsr_tile_buffer_type(MlirType element, uint32_t rank, const int64_t *dims);

/* ---- index arithmetic; constants fold; numbers are extents: open/extent.h ---- */
MlirValue tsr_tile_index(tsr_tile_builder *b, int64_t value);
bool tsr_tile_index_known(MlirValue value, int64_t *out_value);
MlirValue tsr_tile_add(tsr_tile_builder *b, MlirValue x, MlirValue y);
MlirValue tsr_tile_sub(tsr_tile_builder *b, MlirValue x, MlirValue y);
MlirValue tsr_tile_mul(tsr_tile_builder *b, MlirValue x, int64_t factor);
MlirValue tsr_tile_div(tsr_tile_builder *b, MlirValue x, int64_t divisor); /* x >= 0 */
MlirValue tsr_tile_rem(tsr_tile_builder *b, MlirValue x, int64_t divisor); /* x >= 0 */
MlirValue tsr_tile_min(tsr_tile_builder *b, MlirValue x, MlirValue y);
MlirValue tsr_tile_offset(tsr_tile_builder *b, MlirValue x, int64_t y); /* x + y */

/* ---- values ---- */
/* A splat of a floating-point or integer type, scalar or vector. */
MlirValue tsr_tile_float(tsr_tile_builder *b, MlirType type, double value);
MlirValue tsr_tile_int(tsr_tile_builder *b, MlirType type, int64_t value);
/* The same for a float of 8 bits, from its value, rounded to nearest. */
MlirValue tsr_tile_small(tsr_tile_builder *b, tsr_dtype dtype, MlirType type, double value);
/* The results have the type of the operands. */
MlirValue tsr_tile_1(tsr_tile_builder *b, const char *op, MlirValue x);
MlirValue tsr_tile_2(tsr_tile_builder *b, const char *op, MlirValue x, MlirValue y);
MlirValue tsr_tile_3(tsr_tile_builder *b, const char *op, MlirValue x, MlirValue y, MlirValue z);
/* `form`: NULL, "tanh", or "slope". */
MlirValue tsr_tile_gelu(tsr_tile_builder *b, MlirValue x, const char *form);
/* exp of x < 40 or NaN: fewer instructions, the same bits. */
MlirValue tsr_tile_exp_below_40(tsr_tile_builder *b, MlirValue x);
/* exp of a difference (TSR_SHIFTED_NAME), as softmax and similar kernels compute it. */
MlirValue tsr_tile_exp_shifted(tsr_tile_builder *b, MlirValue x);
/* Converts x to another type. */
MlirValue tsr_tile_to(tsr_tile_builder *b, const char *op, MlirValue x, MlirType type);
MlirValue tsr_tile_icompare(tsr_tile_builder *b, tsr_tile_icmp how, MlirValue x, MlirValue y);
MlirValue tsr_tile_fcompare(tsr_tile_builder *b, tsr_tile_fcmp how, MlirValue x, MlirValue y);
MlirValue tsr_tile_select(tsr_tile_builder *b, MlirValue condition, MlirValue x, MlirValue y);

/* Rounds a value of bf16 or f16 to the nearest number of its type, ties to even; returns other
 * values unchanged. */
MlirValue tsr_tile_round(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value);

/* ---- vectors ---- */
/* Returns x itself if lanes is 0 or if x is a vector already. */
MlirValue tsr_tile_splat(tsr_tile_builder *b, MlirValue x, uint32_t lanes);
MlirValue tsr_tile_extract(tsr_tile_builder *b, MlirValue vector, int64_t lane);
/* Lanes [begin, begin + lanes). */
MlirValue tsr_tile_slice(tsr_tile_builder *b, MlirValue vector, int64_t begin, uint32_t lanes);
/* Lane i is lane lanes[i] of x followed by y. */
MlirValue tsr_tile_shuffle(tsr_tile_builder *b, MlirValue x, MlirValue y, uint32_t count,
                           const int64_t *lanes);
/* 0, 1, 2 … of an integer element type. */
MlirValue tsr_tile_iota(tsr_tile_builder *b, MlirType element, uint32_t lanes);
/* 0, 1, 2 … of type index, only on a GPU. */
MlirValue tsr_tile_step_vector(tsr_tile_builder *b, uint32_t lanes);
/* The first `count` lanes; any count, including negative ones. */
MlirValue tsr_tile_mask(tsr_tile_builder *b, MlirValue count, uint32_t lanes);
/* Transposes `lanes` vectors of `lanes` lanes (a power of two) in place. */
void tsr_tile_transpose(tsr_tile_builder *b, uint32_t lanes, MlirValue *rows);

/* Reduces the elements of a vector of f32, only on a GPU, in the order of target/llvm_reduce.c.
 * `kind` is one of dialect vector. */
MlirValue tsr_tile_reduction(tsr_tile_builder *b, const char *kind, MlirValue vector);

/* Element i of each warp's 32 is element i xor `distance`. */
MlirValue tsr_tile_butterfly(tsr_tile_builder *b, MlirValue x, int64_t distance);

/* ---- memory ---- */
MlirValue tsr_tile_program_id(tsr_tile_builder *b);
/* The index after the last program that runs together with this one. The body runs once for the
 * programs from tsr_tile_program_id to before this index. */
MlirValue tsr_tile_program_end(tsr_tile_builder *b);
MlirValue tsr_tile_local(tsr_tile_builder *b, MlirType element, int64_t count);
/* GPUs only: a local buffer with the lanes' own elements (TSR_OWN_NAME), which tile.fetch fills. */
MlirValue tsr_tile_local_own(tsr_tile_builder *b, MlirType element, int64_t count);
/* tsr_tile_fetch begins to copy `elements` elements to a buffer that tsr_tile_local_own made.
 * tsr_tile_fetched waits for all copies, except those that were begun since its last `but`
 * calls. */
void tsr_tile_fetch(tsr_tile_builder *b, MlirValue from, MlirValue offset, MlirValue to,
                    MlirValue at, int64_t elements, MlirValue mask);
void tsr_tile_fetched(tsr_tile_builder *b, int64_t but);
/* The sum over the programs of a block. `local` is a local buffer of the lanes' own elements, with
 * as many elements as the vector. */
MlirValue tsr_tile_add_programs(tsr_tile_builder *b, MlirValue value, MlirValue local);
/* lanes 0: a scalar. mask null: no mask. Load and store convert between the storage type and the
 * value type of `dtype`. */
MlirValue tsr_tile_load(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer, MlirValue offset,
                        uint32_t lanes, MlirValue mask);
void tsr_tile_store(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value, MlirValue buffer,
                    MlirValue offset, MlirValue mask);
/* Stores past the caches, for values that will not be read soon: whole vectors, at a multiple of
 * TSR_BUFFER_ALIGN_BYTES or, if smaller, of their size. */
void tsr_tile_store_streamed(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value,
                             MlirValue buffer, MlirValue offset);
/* Elements from the offset to the next multiple of TSR_BUFFER_ALIGN_BYTES, on a CPU. */
MlirValue tsr_tile_until_aligned(tsr_tile_builder *b, MlirValue buffer, MlirValue offset);
/* Load and store elements as they are in memory, without conversion. Moves use them to preserve the
 * bits. */
MlirValue tsr_tile_load_stored(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer,
                               MlirValue offset, uint32_t lanes, MlirValue mask);
void tsr_tile_store_stored(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue offset,
                           MlirValue mask);
/* Load and store with an offset for each lane, in a vector of indices. Lanes with equal offsets
 * must store equal values. */
MlirValue tsr_tile_gather(tsr_tile_builder *b, MlirValue buffer, MlirValue offsets, uint32_t lanes);
void tsr_tile_scatter(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue offsets);
/* Hints that the cache line at the offset will be read, and loads it to the second-level cache
 * only. The offset may be outside the buffer. */
void tsr_tile_prefetch_later(tsr_tile_builder *b, MlirValue buffer, MlirValue offset);
/* Gives this hint for `lanes` elements from the offset on. */
void tsr_tile_prefetch_vector(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer,
                              MlirValue offset, uint32_t lanes);
/* Each thread of the program sees what the others wrote before. */
void tsr_tile_barrier(tsr_tile_builder *b);
/* Allows the device's own functions in the block. */
void tsr_tile_approximate(tsr_tile_builder *b, MlirBlock block);
/* Marks loads and stores of whole vectors, so that each lane moves 16 bytes. All vectors of the
 * block are permuted in the same way, so no reduction and no elementwise op may depend on the order
 * of elements. With `masks`, masked loads and stores are marked, too; their masks must end after
 * whole runs. */
void tsr_tile_set_blocked(tsr_tile_builder *b, MlirBlock block, bool masks);
MlirValue tsr_tile_check_index(tsr_tile_builder *b, MlirValue value, MlirValue element,
                               int64_t argument, int64_t limit);

/* ---- loops ---- */
typedef struct tsr_tile_loop {
    MlirBlock outer, body; /* body: null after the end */
    MlirValue bounds[3 + TSR_TILE_CARRIED_MAX];
    uint32_t carried_count;
    bool is_rare;                            /* it is rarely entered */
    MlirValue *variables;                    /* of TSR_TILE_FOR_CARRIED, or NULL */
    MlirValue index;                         /* valid inside */
    MlirValue carried[TSR_TILE_CARRIED_MAX]; /* inside: current values; after end: results */
} tsr_tile_loop;
/* The statement after it builds the body of a loop: for loop.index = low, low + step … below high.
 * It must not leave the body by break or goto. */
#define TSR_TILE_FOR(b, loop, low, high, step)                                                     \
    TSR_TILE_FOR_CARRIED(b, loop, low, high, step, 0, NULL)
/* The same, with `count` values that the loop carries: variables[0] to variables[count - 1] are
 * their initial values before the statement, their current values in it, and the loop's results
 * after it. At the end of the body they hold the values of the next iteration. */
#define TSR_TILE_FOR_CARRIED(b, loop, low, high, step, count, variables)                           \
    for (tsr_tile_loop loop = tsr_tile_loop_open_(b, low, high, step, count, variables);           \
         !mlirBlockIsNull((loop).body); tsr_tile_loop_close_(b, &(loop)))
tsr_tile_loop tsr_tile_loop_open_(tsr_tile_builder *b, MlirValue low, MlirValue high, int64_t step,
                                  uint32_t count, MlirValue *variables);
void tsr_tile_loop_close_(tsr_tile_builder *b, tsr_tile_loop *loop);

/* For loops that one function begins and another one ends, or that are built only under a
 * condition. `carried` may be NULL if carried_count is 0. */
void tsr_tile_loop_begin(tsr_tile_builder *b, tsr_tile_loop *loop, MlirValue low, MlirValue high,
                         int64_t step, uint32_t carried_count, const MlirValue *carried);
void tsr_tile_loop_end(tsr_tile_builder *b, tsr_tile_loop *loop, const MlirValue *next);

/* ---- sizes, when the kernel is built; x >= 0, y > 0 ---- */
static inline int64_t tsr_divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static inline int64_t tsr_round_up(int64_t x, int64_t unit) {
    return tsr_divide_up(x, unit) * unit;
}

extern const MlirValue tsr_tile_null;

#endif
