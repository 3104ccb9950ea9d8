/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing Tile IR: index arithmetic that folds constants, scalar and vector ops, loops, masks,
 * loads and stores. Everything is appended to the builder's block. Wrong types assert.
 */
#ifndef TSR_COMPILER_TILE_BUILD_H
#define TSR_COMPILER_TILE_BUILD_H

#include "compiler/mlir.h"
#include "compiler/target/target.h"

enum { TSR_TILE_CARRIED_MAX = 64 };

typedef struct tsr_tile_builder {
    tsr_builder at; /* always at the end of at.block */
    const tsr_target *target;
    bool wide;        /* tsr_tile_round rounds nothing: one rounding at the end will do */
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
/* bf16 and f16 are computed with in f32. */
bool tsr_dtype_is_narrow(tsr_dtype dtype);
tsr_dtype tsr_tile_compute_dtype(tsr_dtype dtype);
/* How elements lie in memory: ui8 and i1 are i8. */
MlirType tsr_tile_storage_type(tsr_tile_builder *b, tsr_dtype dtype);
/* How they are computed with: ui8 is i8, i1 is i1, bf16 and f16 are f32. lanes 0: a scalar, else a
 * vector. */
MlirType tsr_tile_value_type(tsr_tile_builder *b, tsr_dtype dtype, uint32_t lanes);
MlirType tsr_tile_vector_type(MlirType element, uint32_t lanes);
MlirType tsr_tile_buffer_type(MlirType element, uint32_t rank, const int64_t *dims);

/* ---- index arithmetic; constants fold ---- */
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
/* Results of the operands' type. */
MlirValue tsr_tile_1(tsr_tile_builder *b, const char *op, MlirValue x);
MlirValue tsr_tile_2(tsr_tile_builder *b, const char *op, MlirValue x, MlirValue y);
MlirValue tsr_tile_3(tsr_tile_builder *b, const char *op, MlirValue x, MlirValue y, MlirValue z);
/* `form`: NULL, "tanh", or "slope". */
MlirValue tsr_tile_gelu(tsr_tile_builder *b, MlirValue x, const char *form);
/* exp of x < 40 or NaN: fewer instructions, the same bits. */
MlirValue tsr_tile_exp_below_40(tsr_tile_builder *b, MlirValue x);
/* exp of a difference (TSR_SHIFTED_NAME), as softmax and all alike take it. */
MlirValue tsr_tile_exp_shifted(tsr_tile_builder *b, MlirValue x);
/* Of another type: conversions. */
MlirValue tsr_tile_to(tsr_tile_builder *b, const char *op, MlirValue x, MlirType type);
MlirValue tsr_tile_icompare(tsr_tile_builder *b, tsr_tile_icmp how, MlirValue x, MlirValue y);
MlirValue tsr_tile_fcompare(tsr_tile_builder *b, tsr_tile_fcmp how, MlirValue x, MlirValue y);
MlirValue tsr_tile_select(tsr_tile_builder *b, MlirValue condition, MlirValue x, MlirValue y);

/* A value of bf16 or f16 to the nearest number of it, ties to even; others as they are. */
MlirValue tsr_tile_round(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value);

/* ---- vectors ---- */
/* lanes 0 returns x itself; so does an x that is a vector already. */
MlirValue tsr_tile_splat(tsr_tile_builder *b, MlirValue x, uint32_t lanes);
MlirValue tsr_tile_extract(tsr_tile_builder *b, MlirValue vector, int64_t lane);
/* Lanes [begin, begin + lanes). */
MlirValue tsr_tile_slice(tsr_tile_builder *b, MlirValue vector, int64_t begin, uint32_t lanes);
/* Lane i is lane lanes[i] of x followed by y. */
MlirValue tsr_tile_shuffle(tsr_tile_builder *b, MlirValue x, MlirValue y, uint32_t count,
                           const int64_t *lanes);
/* 0, 1, 2 … of an integer element type. */
MlirValue tsr_tile_iota(tsr_tile_builder *b, MlirType element, uint32_t lanes);
/* 0, 1, 2 … of type index, on a GPU alone. */
MlirValue tsr_tile_step_vector(tsr_tile_builder *b, uint32_t lanes);
/* The first `count` lanes; any count, also negative. */
MlirValue tsr_tile_mask(tsr_tile_builder *b, MlirValue count, uint32_t lanes);
/* Transposes `lanes` vectors of `lanes` lanes (a power of two) in place. */
void tsr_tile_transpose(tsr_tile_builder *b, uint32_t lanes, MlirValue *rows);

/* Of the elements of a vector of f32, on a GPU alone: in the order of target/llvm_reduce.c. `kind`:
 * of dialect vector. */
MlirValue tsr_tile_reduction(tsr_tile_builder *b, const char *kind, MlirValue vector);

/* Element i of each warp's 32 is element i xor `distance`. */
MlirValue tsr_tile_butterfly(tsr_tile_builder *b, MlirValue x, int64_t distance);

/* ---- memory ---- */
MlirValue tsr_tile_program_id(tsr_tile_builder *b);
/* The body is run once for the programs from tsr_tile_program_id to before this one. */
MlirValue tsr_tile_program_end(tsr_tile_builder *b);
MlirValue tsr_tile_local(tsr_tile_builder *b, MlirType element, int64_t count);
/* Of a GPU: lanes' own (TSR_OWN_NAME), which tile.fetch fills. */
MlirValue tsr_tile_local_own(tsr_tile_builder *b, MlirType element, int64_t count);
/* Begins to copy `elements` to such a buffer; then all copies begun are there, but those since the
 * last `but` calls. */
void tsr_tile_fetch(tsr_tile_builder *b, MlirValue from, MlirValue offset, MlirValue to,
                    MlirValue at, int64_t elements, MlirValue mask);
void tsr_tile_fetched(tsr_tile_builder *b, int64_t but);
/* The sum over the programs of a block; `local`: own, as long as the vector. */
MlirValue tsr_tile_add_beside(tsr_tile_builder *b, MlirValue value, MlirValue local);
/* Lanes 0: a scalar. mask: null for none. Converts between storage and value type of `dtype`. */
MlirValue tsr_tile_load(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer, MlirValue offset,
                        uint32_t lanes, MlirValue mask);
void tsr_tile_store(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value, MlirValue buffer,
                    MlirValue offset, MlirValue mask);
/* The same past the caches, for what will not be read soon: whole vectors, at a multiple of
 * TSR_BUFFER_ALIGN_BYTES or, where that is less, of their size. */
void tsr_tile_store_streamed(tsr_tile_builder *b, tsr_dtype dtype, MlirValue value,
                             MlirValue buffer, MlirValue offset);
/* Elements from the offset to the next multiple of TSR_BUFFER_ALIGN_BYTES, on a CPU. */
MlirValue tsr_tile_until_aligned(tsr_tile_builder *b, MlirValue buffer, MlirValue offset);
/* As it lies in memory, without conversion: for moving elements, whose bits then stay. */
MlirValue tsr_tile_load_stored(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer,
                               MlirValue offset, uint32_t lanes, MlirValue mask);
void tsr_tile_store_stored(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue offset,
                           MlirValue mask);
/* The same of an offset each, a vector of indices. Lanes of one offset store one value. */
MlirValue tsr_tile_gather(tsr_tile_builder *b, MlirValue buffer, MlirValue offsets, uint32_t lanes);
void tsr_tile_scatter(tsr_tile_builder *b, MlirValue value, MlirValue buffer, MlirValue offsets);
/* The cache line at the offset, which need not lie in the buffer, will be read; to the second-level
 * cache alone. */
void tsr_tile_prefetch_later(tsr_tile_builder *b, MlirValue buffer, MlirValue offset);
/* The same of `lanes` elements from the offset on. */
void tsr_tile_prefetch_vector(tsr_tile_builder *b, tsr_dtype dtype, MlirValue buffer,
                              MlirValue offset, uint32_t lanes);
/* Functions of the block may be the device's own. */
void tsr_tile_approximate(tsr_tile_builder *b, MlirBlock block);
/* Loads and stores of whole vectors move 16 bytes a lane: all of the block's are permuted alike, so
 * no reduction, and nothing elementwise, may ask for their order. `masks`: masked ones, too, whose
 * masks end behind whole runs. */
void tsr_tile_set_blocked(tsr_tile_builder *b, MlirBlock block, bool masks);
MlirValue tsr_tile_check_index(tsr_tile_builder *b, MlirValue value, MlirValue element,
                               int64_t argument, int64_t limit);

/* ---- loops ---- */
typedef struct tsr_tile_loop {
    MlirBlock outer, body;
    MlirValue bounds[3 + TSR_TILE_CARRIED_MAX];
    uint32_t carried_count;
    bool is_rare;                            /* mostly it is not entered */
    MlirValue index;                         /* valid inside */
    MlirValue carried[TSR_TILE_CARRIED_MAX]; /* inside: current values; after end: results */
} tsr_tile_loop;
/* for index = low, low + step … below high. `carried` may be NULL if carried_count is 0. */
void tsr_tile_loop_begin(tsr_tile_builder *b, tsr_tile_loop *loop, MlirValue low, MlirValue high,
                         int64_t step, uint32_t carried_count, const MlirValue *carried);
void tsr_tile_loop_end(tsr_tile_builder *b, tsr_tile_loop *loop, const MlirValue *next);

extern const MlirValue tsr_tile_null;

#endif
