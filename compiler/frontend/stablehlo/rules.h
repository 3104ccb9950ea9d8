/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rule of rules.def imports an op: it reads operands and attributes of the call, emits ops of
 * Graph IR, and sets the results.
 *
 *     bool tsr_hlo_rule_cbrt(tsr_hlo_call *c) { return tsr_hlo_out(c, 0, EMIT(c, "cbrt",
 * c->in[0])); }
 *
 * A function that fails emits a diagnostic that names the op, marks the call as failed and returns
 * a null value. All functions accept null values and return null values for them, so that a rule
 * need not check after each step.
 */
#ifndef TSR_COMPILER_STABLEHLO_RULES_H
#define TSR_COMPILER_STABLEHLO_RULES_H

#include "compiler/frontend/emitter.h"
#include "compiler/ir/mlir.h"

struct tsr_hlo_importer;
struct tsr_hlo_row;

typedef struct tsr_hlo_call {
    struct tsr_hlo_importer *importer;
    MlirOperation op;              /* of StableHLO */
    const char *name;              /* "stablehlo.add" */
    const struct tsr_hlo_row *row; /* of rules.def */
    size_t in_count, out_count;
    MlirValue *in, *out; /* of Graph IR; the rule sets `out` */
    tsr_type *types;     /* of the results, as the op declares them */
    TSR_EMITTER_MEMBER
} tsr_hlo_call;

/* A row of rules.def. */
typedef struct tsr_hlo_row {
    const char *op;
    bool (*rule)(tsr_hlo_call *c);
    const char *with;                  /* what rules that serve several ops differ in; or "" */
    size_t in_low, in_high, out_count; /* numbers of operands, SIZE_MAX: any; of results */
} tsr_hlo_row;
#define X(op, rule, with, in_low, in_high, out_count) bool tsr_hlo_rule_##rule(tsr_hlo_call *c);
#include "compiler/frontend/stablehlo/rules.def"
#undef X
/* NULL if there is no row. */
const tsr_hlo_row *tsr_hlo_find_row(const char *op);

enum { TSR_HLO_VALUES_MAX = 512 }; /* operands or results of an op, or of a function */

/* Sets a result; returns true if the call has not failed. */
bool tsr_hlo_out(tsr_hlo_call *c, size_t output, MlirValue value);

/* ---- failures -------------------------------------------------------------------------------- */

/* Emits "stablehlo.sort: <text>" at the op; returns false. */
bool tsr_hlo_fail(tsr_hlo_call *c, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
MlirValue tsr_hlo_fail_value(tsr_hlo_call *c, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- attributes (attributes.c) --------------------------------------------------------------- */

/* Attributes have one name in the generic form and may have another in the pretty one. A path
 * "dimension_numbers.offset_dims" goes into a dictionary. */

/* Null if absent. `pretty` may be NULL. */
MlirAttribute tsr_hlo_attr(const tsr_hlo_call *c, const char *generic, const char *pretty);
/* The integers of a list, array<i64: …> or dense<…>, and of a nested list row by row; fails if the
 * attribute is of another kind or longer than `limit`. *out_count is 0 if it is absent. */
bool tsr_hlo_ints(tsr_hlo_call *c, const char *generic, const char *pretty, size_t limit,
                  int64_t *out_values, size_t *out_count);
/* The same for exactly `count` integers; `otherwise` for each if the attribute is absent. */
bool tsr_hlo_ints_exact(tsr_hlo_call *c, const char *generic, const char *pretty, size_t count,
                        int64_t otherwise, int64_t *out_values);
/* Part `index` of a pair "[1] x [0]". */
bool tsr_hlo_pair(tsr_hlo_call *c, const char *pretty, size_t index, size_t limit,
                  int64_t *out_values, size_t *out_count);
bool tsr_hlo_int(tsr_hlo_call *c, const char *generic, const char *pretty, int64_t otherwise,
                 int64_t *out_value);
/* Word `index` among the words without a name in the pretty form; or the attribute's. NULL: absent.
 */
const char *tsr_hlo_word(const tsr_hlo_call *c, const char *generic, size_t index);
/* The text of an attribute that is a word or string; NULL if it is not. */
const char *tsr_hlo_text(const tsr_hlo_call *c, const char *generic, const char *pretty);
/* Fails unless each is a dim of `rank` dims, and none is named twice. */
bool tsr_hlo_check_dims(tsr_hlo_call *c, const char *what, uint32_t rank, size_t count,
                        const int64_t *dims);

/* ---- ops (emit.c) ---------------------------------------------------------------------------- */

tsr_type tsr_hlo_type(MlirValue value); /* of a null value: a scalar of f32 */
uint32_t tsr_hlo_rank(MlirValue value);
tsr_dtype tsr_hlo_dtype(MlirValue value);
bool tsr_hlo_is_float(MlirValue value);
uint64_t tsr_hlo_dim(MlirValue value, uint32_t dim);

/* Emits an op of one result. The op's own rule checks the operands and says the result's type,
 * unless `declared` gives it. `attrs` end at one without a name, or are NULL. */
static inline MlirValue tsr_hlo_emit(tsr_hlo_call *c, const char *name, const MlirValue *operands,
                                     size_t operand_count, const tsr_attr *attrs,
                                     const tsr_type *declared) {
    return tsr_emitter_emit(&c->emitter, name, operands, operand_count, attrs, declared);
}
/* The same for an op of several results, whose types its rule says. */
static inline bool tsr_hlo_emit_many(tsr_hlo_call *c, const char *name, const MlirValue *operands,
                                     size_t operand_count, const tsr_attr *attrs,
                                     size_t result_count, const tsr_type *declared,
                                     MlirValue *out_results) {
    return tsr_emitter_emit_many(&c->emitter, name, operands, operand_count, attrs, result_count,
                                 declared, out_results);
}
#define EMIT_WITH(c, name, attrs, ...)                                                             \
    tsr_hlo_emit((c), TSR_GRAPH_NAME(name), (MlirValue[]){__VA_ARGS__},                            \
                 sizeof((MlirValue[]){__VA_ARGS__}) / sizeof(MlirValue), (attrs), NULL)
#define EMIT(c, name, ...) EMIT_WITH(c, name, NULL, __VA_ARGS__)

MlirValue tsr_hlo_number(tsr_hlo_call *c, tsr_dtype dtype, double value); /* a scalar */
MlirValue tsr_hlo_like(tsr_hlo_call *c, MlirValue like, double value);    /* of its dtype */
/* A scalar of an integer type from its bits, cut to the width. */
MlirValue tsr_hlo_bits(tsr_hlo_call *c, tsr_dtype dtype, uint64_t bits);
static inline MlirValue tsr_hlo_filled(tsr_hlo_call *c, tsr_dtype dtype, const tsr_shape *shape,
                                       double value) {
    return tsr_emitter_filled(&c->emitter, dtype, shape, value);
}
/* i64 [n] */
static inline MlirValue tsr_hlo_int_list(tsr_hlo_call *c, size_t count, const int64_t *values) {
    return tsr_emitter_int_list(&c->emitter, count, values);
}
static inline MlirValue tsr_hlo_cast(tsr_hlo_call *c, MlirValue x, tsr_dtype dtype) {
    return tsr_emitter_cast(&c->emitter, x, dtype);
}
MlirValue tsr_hlo_bitcast(tsr_hlo_call *c, MlirValue x, tsr_dtype dtype);
static inline MlirValue tsr_hlo_compare(tsr_hlo_call *c, tsr_predicate predicate, MlirValue a,
                                        MlirValue b) {
    return tsr_emitter_compare(&c->emitter, predicate, a, b);
}
MlirValue tsr_hlo_mul_add(tsr_hlo_call *c, MlirValue x, MlirValue y, MlirValue z); /* x y + z */
static inline MlirValue tsr_hlo_reshape(tsr_hlo_call *c, MlirValue x, const tsr_shape *shape) {
    return tsr_emitter_reshape(&c->emitter, x, shape);
}
static inline MlirValue tsr_hlo_broadcast(tsr_hlo_call *c, MlirValue x, const tsr_shape *shape) {
    return tsr_emitter_broadcast(&c->emitter, x, shape);
}
static inline MlirValue tsr_hlo_transpose(tsr_hlo_call *c, MlirValue x,
                                          const int64_t *permutation) {
    return tsr_emitter_transpose(&c->emitter, x, permutation);
}
/* `size` positions of one dim, from `start` by `stride`. */
MlirValue tsr_hlo_slice_dim(tsr_hlo_call *c, MlirValue x, uint32_t dim, int64_t start, int64_t size,
                            int64_t stride);
static inline MlirValue tsr_hlo_concat(tsr_hlo_call *c, size_t count, const MlirValue *parts,
                                       uint32_t axis) {
    return tsr_emitter_concat(&c->emitter, count, parts, axis);
}
/* the axes ascend */
static inline MlirValue tsr_hlo_reduce(tsr_hlo_call *c, const char *name, MlirValue x,
                                       size_t axis_count, const int64_t *axes) {
    return tsr_emitter_reduce(&c->emitter, name, x, axis_count, axes);
}
static inline MlirValue tsr_hlo_gather(tsr_hlo_call *c, MlirValue x, MlirValue indices,
                                       uint32_t axis) {
    return tsr_emitter_gather(&c->emitter, x, indices, axis);
}
/* Positions 0 … size - 1 times `scale` along `axis` of `rank` dims, the other ones 1; i64. */
MlirValue tsr_hlo_positions(tsr_hlo_call *c, uint32_t rank, uint32_t axis, uint64_t size,
                            int64_t scale);
/* Inserts a scalar, which may be of any type and need not be known, around the elements and between
 * them. Numbers below 0 cut. */
MlirValue tsr_hlo_pad(tsr_hlo_call *c, MlirValue x, MlirValue value, const int64_t *low,
                      const int64_t *high, const int64_t *interior);
MlirValue tsr_hlo_reverse(tsr_hlo_call *c, MlirValue x, uint32_t dim);
static inline tsr_attr tsr_hlo_i64_attr(const tsr_hlo_call *c, const char *name, int64_t value) {
    return tsr_emitter_i64_attr(&c->emitter, name, value);
}
static inline tsr_attr tsr_hlo_i64s_attr(const tsr_hlo_call *c, const char *name, size_t count,
                                         const int64_t *values) {
    return tsr_emitter_i64s_attr(&c->emitter, name, count, values);
}
/* True if all elements are known to have this value. */
bool tsr_hlo_splat(MlirValue value, double *out_value);

/* ---- regions (import.c) ---------------------------------------------------------------------- */

/* The first block of a region of the op; null, after a diagnostic, unless it has one block with
 * `argument_count` arguments. */
MlirBlock tsr_hlo_block(tsr_hlo_call *c, size_t region, size_t argument_count);
/* Imports the ops of a block with the current builder, and gives what its terminator returns. In a
 * `lifted` block, scalars stand for tensors: it computes many elements at once. */
bool tsr_hlo_import_block(tsr_hlo_call *c, MlirBlock block, const MlirValue *arguments, bool lifted,
                          size_t out_count, MlirValue *out_values);
/* The last op of a block: MLIR knows no terminators among ops that are not declared. */
MlirOperation tsr_hlo_end(MlirBlock block);
/* True if an op of this name makes the value, which may be null. */
bool tsr_hlo_made_by(MlirValue value, const char *name);
/* The value of an integer of StableHLO that is known: of a constant, or bound to one. */
bool tsr_hlo_known_int(const tsr_hlo_call *c, MlirValue value, int64_t *out_value);
/* The value of Graph IR that is bound to one of StableHLO; null if none is. */
MlirValue tsr_hlo_bound(const tsr_hlo_call *c, MlirValue value);

/* reduce.c: what the body of a reduction does to its two arguments: "add", "multiply", "maximum",
 * "minimum", "and", "or", "xor"; "" if it is another one. "return": it gives the second. */
const char *tsr_hlo_body_op(const tsr_hlo_call *c, size_t region);

#endif
