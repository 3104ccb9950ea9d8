/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits ops of Graph IR for the rules of front ends. The op's own rule checks the operands and says
 * the types of the results; an emitter that has failed emits nothing more. All functions return a
 * null value after a failure and accept null values, so that a rule need not check after each step.
 */
#ifndef TSR_COMPILER_FRONTEND_EMITTER_H
#define TSR_COMPILER_FRONTEND_EMITTER_H

#include "compiler/graph/emit.h"
#include "compiler/ir/dims.h"
#include "runtime/base/arena.h"

/* The fields, so that the call of a rule can have them as its own: c->failed. */
#define TSR_EMITTER_FIELDS                                                                         \
    tsr_builder *builder;                                                                          \
    tsr_arena *arena; /* until the end of the op or node */                                        \
    bool failed;
typedef struct tsr_emitter {
    TSR_EMITTER_FIELDS
} tsr_emitter;
/* In the struct of a call: its fields, and the emitter that they are. */
#define TSR_EMITTER_MEMBER                                                                         \
    union {                                                                                        \
        tsr_emitter emitter;                                                                       \
        struct {                                                                                   \
            TSR_EMITTER_FIELDS                                                                     \
        };                                                                                         \
    };

/* True if the emitter has failed or a value is null. */
bool tsr_emitter_has_null(const tsr_emitter *e, size_t count, const MlirValue *values);

/* ---- types ----------------------------------------------------------------------------------- */

tsr_type tsr_emitter_type(MlirValue value); /* of a null value: a scalar of f32 */
uint32_t tsr_emitter_rank(MlirValue value);

/* ---- any op ---------------------------------------------------------------------------------- */

/* Emits an op of one result. The op's own rule checks the operands and says the result's type,
 * unless `declared` gives it. `attrs` end at one without a name, or are NULL. */
MlirValue tsr_emitter_emit(tsr_emitter *e, const char *name, const MlirValue *operands,
                           size_t operand_count, const tsr_attr *attrs, const tsr_type *declared);
/* The same for an op of several results; false after a failure. */
bool tsr_emitter_emit_many(tsr_emitter *e, const char *name, const MlirValue *operands,
                           size_t operand_count, const tsr_attr *attrs, size_t result_count,
                           const tsr_type *declared, MlirValue *out_results);
tsr_attr tsr_emitter_i64_attr(const tsr_emitter *e, const char *name, int64_t value);
tsr_attr tsr_emitter_i64s_attr(const tsr_emitter *e, const char *name, size_t count,
                               const int64_t *values);
tsr_attr tsr_emitter_f64_attr(const tsr_emitter *e, const char *name, double value);

/* ---- constants ------------------------------------------------------------------------------- */

/* From elements in our layout. */
MlirValue tsr_emitter_constant(tsr_emitter *e, const tsr_type *type, const void *data);
/* One value for all elements; the shape may have open dims. */
MlirValue tsr_emitter_filled(tsr_emitter *e, tsr_dtype dtype, const tsr_shape *shape, double value);
MlirValue tsr_emitter_int_list(tsr_emitter *e, size_t count, const int64_t *values); /* i64 [n] */

/* ---- elementwise ----------------------------------------------------------------------------- */

MlirValue tsr_emitter_cast(tsr_emitter *e, MlirValue x, tsr_dtype dtype);
MlirValue tsr_emitter_compare(tsr_emitter *e, tsr_predicate predicate, MlirValue a, MlirValue b);

/* ---- moving elements ------------------------------------------------------------------------- */

MlirValue tsr_emitter_reshape(tsr_emitter *e, MlirValue x, const tsr_shape *shape);
MlirValue tsr_emitter_broadcast(tsr_emitter *e, MlirValue x, const tsr_shape *shape);
/* Permutes the dims; `permutation` has one for each. */
MlirValue tsr_emitter_transpose(tsr_emitter *e, MlirValue x, const int64_t *permutation);
/* `size` positions of one dim, from `start` by `stride`; start and size may be open dims. */
MlirValue tsr_emitter_slice(tsr_emitter *e, MlirValue x, uint32_t dim, uint64_t start,
                            uint64_t size, int64_t stride);
/* `interior` may be NULL. */
MlirValue tsr_emitter_pad(tsr_emitter *e, MlirValue x, const int64_t *low, const int64_t *high,
                          const int64_t *interior, double value);
MlirValue tsr_emitter_concat(tsr_emitter *e, size_t count, const MlirValue *parts, uint32_t axis);
/* sum, mean, reduce_max, reduce_min, reduce_prod …; removes the axes. */
MlirValue tsr_emitter_reduce(tsr_emitter *e, const char *name, MlirValue x, size_t axis_count,
                             const int64_t *axes);
MlirValue tsr_emitter_gather(tsr_emitter *e, MlirValue x, MlirValue indices, uint32_t axis);
/* The position along `axis`, with the shape 1 … n … 1 of `rank` dims. */
MlirValue tsr_emitter_iota(tsr_emitter *e, tsr_dtype dtype, uint32_t rank, uint32_t axis,
                           uint64_t size);

#endif
