/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rule of rules.def imports a node: it reads inputs and attributes of the call, emits ops of
 * Graph IR, and sets the outputs.
 *
 *     bool tsr_onnx_rule_reciprocal(tsr_onnx_call *c) {
 *         MlirValue x = tsr_onnx_in(c, 0);
 *         return tsr_onnx_out(c, 0, EMIT(c, "div", ONE(c, x), x));
 *     }
 *
 * A function that fails emits a diagnostic that names node, op and attribute, marks the call as
 * failed and returns a null value. All functions accept null values and return null values for
 * them, so that a rule need not check after each step.
 */
#ifndef TSR_COMPILER_ONNX_RULES_H
#define TSR_COMPILER_ONNX_RULES_H

#include "compiler/frontend/emitter.h"
#include "compiler/frontend/onnx/model.h"

struct tsr_onnx_importer;
struct tsr_onnx_scope;
struct tsr_onnx_row;

typedef struct tsr_onnx_call {
    struct tsr_onnx_importer *importer;
    const struct tsr_onnx_scope *scope;
    const tsr_onnx_node *node;
    const struct tsr_onnx_row *row; /* of rules.def */
    int64_t opset;                  /* version of the op's domain */
    size_t input_count, output_count;
    MlirValue *inputs;  /* null: absent */
    MlirValue *outputs; /* set by the rule; those without a name need not be set */
    TSR_EMITTER_MEMBER
} tsr_onnx_call;

/* A row of rules.def: versions `first` to `last` of an op have this rule. */
typedef struct tsr_onnx_row {
    const char *domain, *op;
    int64_t first, last;
    bool (*rule)(tsr_onnx_call *c);
    const char *with; /* what rules that serve several ops differ in; or "" */
} tsr_onnx_row;
#define X(domain, op, first, last, rule, with) bool tsr_onnx_rule_##rule(tsr_onnx_call *c);
#include "compiler/frontend/onnx/rules.def"
#undef X
/* NULL if there is no row for this version. *out_other: versions of the op that have rows, or "".
 */
const tsr_onnx_row *tsr_onnx_find_row(const char *domain, const char *op, int64_t version,
                                      char out_other[static 64]);
/* True if the rule of the row imports inputs with open dims (open.def). */
bool tsr_onnx_takes_open(const tsr_onnx_row *row);

/* ---- inputs and outputs ---------------------------------------------------------------------- */

bool tsr_onnx_has(const tsr_onnx_call *c, size_t input);
/* Fails if the input is absent. */
MlirValue tsr_onnx_in(tsr_onnx_call *c, size_t input);
/* Null, without a failure, if the input is absent. */
MlirValue tsr_onnx_in_or_null(const tsr_onnx_call *c, size_t input);
/* True if some node or the model uses the output. */
bool tsr_onnx_wants(const tsr_onnx_call *c, size_t output);
/* Sets an output; returns true if the call has not failed. */
bool tsr_onnx_out(tsr_onnx_call *c, size_t output, MlirValue value);

/* ---- failures -------------------------------------------------------------------------------- */

/* Emits "node 'conv1' (Conv of opset 13): <text>"; returns false. */
bool tsr_onnx_fail(tsr_onnx_call *c, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same; returns a null value. */
MlirValue tsr_onnx_fail_value(tsr_onnx_call *c, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- attributes ------------------------------------------------------------------------------ */

/* The attribute, through the calls of functions; NULL if absent. */
const tsr_onnx_attribute *tsr_onnx_attr(tsr_onnx_call *c, const char *name);
int64_t tsr_onnx_attr_i(tsr_onnx_call *c, const char *name, int64_t otherwise);
double tsr_onnx_attr_f(tsr_onnx_call *c, const char *name, double otherwise);
/* In the call's arena. */
const char *tsr_onnx_attr_s(tsr_onnx_call *c, const char *name, const char *otherwise);
/* Fills `out_values` with `count` integers: those of the attribute, or `otherwise`; fails if the
 * attribute has another number of them. */
bool tsr_onnx_attr_ints(tsr_onnx_call *c, const char *name, size_t count, int64_t otherwise,
                        int64_t *out_values);
/* Fails unless the integer attribute is absent or has the value. */
bool tsr_onnx_attr_must_be(tsr_onnx_call *c, const char *name, int64_t otherwise, int64_t value);

/* ---- known values ---------------------------------------------------------------------------- */

/* The elements of a value that does not depend on inputs of the model: integers (bools are 0 and
 * 1), or numbers. */
typedef struct tsr_onnx_known {
    tsr_type type;
    uint64_t count;
    bool is_float;
    union {
        int64_t *ints;
        double *floats;
    };
    /* Of each integer: an expression over open dims, or NULL for a number. NULL: all are numbers.
     */
    const tsr_dim_expression **open;
} tsr_onnx_known;
enum { TSR_ONNX_KNOWN_MAX = 1 << 16 }; /* elements */

/* evaluate.c: NULL if the value is not known, depends on open dims, or has too many elements. */
const tsr_onnx_known *tsr_onnx_evaluate(struct tsr_onnx_importer *importer, MlirValue value);
/* The same for a value that may depend on open dims. */
const tsr_onnx_known *tsr_onnx_evaluate_open(struct tsr_onnx_importer *importer, MlirValue value);
/* Fails if the input is absent or not known; `what` names it in the message: "shape". */
const tsr_onnx_known *tsr_onnx_in_known(tsr_onnx_call *c, size_t input, const char *what);
/* The integers of a known input of at most `limit` elements. */
bool tsr_onnx_in_ints(tsr_onnx_call *c, size_t input, const char *what, size_t limit,
                      int64_t *out_values, size_t *out_count);
/* The same for integers that may depend on open dims. */
bool tsr_onnx_in_sizes(tsr_onnx_call *c, size_t input, const char *what, size_t limit,
                       tsr_dim_expression *out_values, size_t *out_count);
bool tsr_onnx_in_int(tsr_onnx_call *c, size_t input, const char *what, int64_t *out_value);
bool tsr_onnx_in_f64(tsr_onnx_call *c, size_t input, const char *what, double *out_value);
/* Integers from an attribute, or in later versions from an input; *out_count is 0 and *out_given
 * false if neither is there. */
bool tsr_onnx_ints_of(tsr_onnx_call *c, const char *attribute, size_t input, size_t limit,
                      int64_t *out_values, size_t *out_count, bool *out_given);

/* ---- open dims (sizes.c) --------------------------------------------------------------------- */

/* A rule that is not in open.def gets no input with an open dim. One that is compares dims by ==,
 * computes with them by the functions here, and asks for a size that it needs. */

/* Emits "<what> is N, and <why>; give dim 'N' a size"; returns false. */
bool tsr_onnx_fail_open(tsr_onnx_call *c, const char *what, uint64_t dim, const char *why);
/* Fails if an input has an open dim. */
bool tsr_onnx_refuse_open_inputs(tsr_onnx_call *c);
/* Fails if the dim is open. `what` names the value in the message: "the image". */
bool tsr_onnx_known_dim(tsr_onnx_call *c, const char *what, MlirValue x, uint32_t dim,
                        uint64_t *out_size);
/* The product of two dims, and of the dims first … end - 1; fails if it is not a dim. */
uint64_t tsr_onnx_times(tsr_onnx_call *c, uint64_t a, uint64_t b);
uint64_t tsr_onnx_volume(tsr_onnx_call *c, const tsr_shape *shape, uint32_t first, uint32_t end);
/* The smallest and the largest value, for all sizes that open dims can have. */
tsr_dim_range tsr_onnx_range(const struct tsr_onnx_importer *importer,
                             const tsr_dim_expression *size);
/* Fails if the size is or can be below 0; `what`: "dim 1 of the shape". */
bool tsr_onnx_make_dim(tsr_onnx_call *c, const char *what, const tsr_dim_expression *size,
                       uint64_t *out_dim);
/* A list of i64. Null, without a failure, if no text can be given for an expression. */
MlirValue tsr_onnx_size_list(tsr_onnx_call *c, uint64_t count, const tsr_dim_expression *sizes);
/* The size of a dim as a scalar of the type of `like`. */
MlirValue tsr_onnx_dim_number(tsr_onnx_call *c, MlirValue like, uint64_t dim);

/* ---- types ----------------------------------------------------------------------------------- */

tsr_type tsr_onnx_type_of(MlirValue value); /* of a null value: a scalar of f32 */
tsr_dtype tsr_onnx_dtype(MlirValue value);
uint32_t tsr_onnx_rank(MlirValue value);
uint64_t tsr_onnx_dim_of(MlirValue value, uint32_t dim);
uint64_t tsr_onnx_count(MlirValue value);
bool tsr_onnx_is_float(MlirValue value);
/* Makes a negative axis positive; fails if it is not in [-rank, rank). */
bool tsr_onnx_axis(tsr_onnx_call *c, const char *name, int64_t axis, uint32_t rank,
                   uint32_t *out_axis);
/* The same for a list, which is sorted; fails for one that is named twice. */
bool tsr_onnx_axes(tsr_onnx_call *c, const char *name, uint32_t rank, size_t count, int64_t *axes);
/* Fails unless the rank is between the two. */
bool tsr_onnx_need_rank(tsr_onnx_call *c, const char *what, MlirValue value, uint32_t low,
                        uint32_t high);

/* ---- ops ------------------------------------------------------------------------------------- */

/* Emits an op of one result. The op's own rule checks the operands and says the result's type,
 * unless `declared` gives it. `attrs` end at one without a name, or are NULL. */
static inline MlirValue tsr_onnx_emit(tsr_onnx_call *c, const char *name, const MlirValue *operands,
                                      size_t operand_count, const tsr_attr *attrs,
                                      const tsr_type *declared) {
    return tsr_emitter_emit(&c->emitter, name, operands, operand_count, attrs, declared);
}
/* The same for an op of several results; false after a failure. */
static inline bool tsr_onnx_emit_many(tsr_onnx_call *c, const char *name, const MlirValue *operands,
                                      size_t operand_count, const tsr_attr *attrs,
                                      size_t result_count, const tsr_type *declared,
                                      MlirValue *out_results) {
    return tsr_emitter_emit_many(&c->emitter, name, operands, operand_count, attrs, result_count,
                                 declared, out_results);
}
#define EMIT_WITH(c, name, attrs, ...)                                                             \
    tsr_onnx_emit((c), TSR_GRAPH_NAME(name), (MlirValue[]){__VA_ARGS__},                           \
                  sizeof((MlirValue[]){__VA_ARGS__}) / sizeof(MlirValue), (attrs), NULL)
#define EMIT(c, name, ...) EMIT_WITH(c, name, NULL, __VA_ARGS__)

MlirValue tsr_onnx_number(tsr_onnx_call *c, MlirValue like, double value); /* scalar, of its type */
#define ONE(c, like) tsr_onnx_number((c), (like), 1)
#define ZERO(c, like) tsr_onnx_number((c), (like), 0)
static inline MlirValue tsr_onnx_filled(tsr_onnx_call *c, tsr_dtype dtype, const tsr_shape *shape,
                                        double value) {
    return tsr_emitter_filled(&c->emitter, dtype, shape, value);
}
/* A constant of integers or numbers, given as doubles; the dtype must hold them. */
MlirValue tsr_onnx_numbers(tsr_onnx_call *c, tsr_dtype dtype, const tsr_shape *shape,
                           const double *values);
/* i64 [n] */
static inline MlirValue tsr_onnx_int_list(tsr_onnx_call *c, size_t count, const int64_t *values) {
    return tsr_emitter_int_list(&c->emitter, count, values);
}
/* A constant from elements in our layout. */
static inline MlirValue tsr_onnx_constant(tsr_onnx_call *c, const tsr_type *type,
                                          const void *data) {
    return tsr_emitter_constant(&c->emitter, type, data);
}
static inline MlirValue tsr_onnx_cast(tsr_onnx_call *c, MlirValue x, tsr_dtype dtype) {
    return tsr_emitter_cast(&c->emitter, x, dtype);
}
/* bf16 and f16 as f32: several ops in a row round once. Back: tsr_onnx_cast. */
MlirValue tsr_onnx_wide(tsr_onnx_call *c, MlirValue x);
static inline MlirValue tsr_onnx_compare(tsr_onnx_call *c, tsr_predicate predicate, MlirValue a,
                                         MlirValue b) {
    return tsr_emitter_compare(&c->emitter, predicate, a, b);
}
static inline MlirValue tsr_onnx_reshape(tsr_onnx_call *c, MlirValue x, const tsr_shape *shape) {
    return tsr_emitter_reshape(&c->emitter, x, shape);
}
static inline MlirValue tsr_onnx_broadcast(tsr_onnx_call *c, MlirValue x, const tsr_shape *shape) {
    return tsr_emitter_broadcast(&c->emitter, x, shape);
}
/* Permutes the dims; `permutation` has one for each. */
static inline MlirValue tsr_onnx_transpose(tsr_onnx_call *c, MlirValue x,
                                           const int64_t *permutation) {
    return tsr_emitter_transpose(&c->emitter, x, permutation);
}
/* Swaps two dims. */
MlirValue tsr_onnx_swap(tsr_onnx_call *c, MlirValue x, uint32_t a, uint32_t b);
/* `size` positions of one dim, from `start` by `stride`. */
MlirValue tsr_onnx_slice_dim(tsr_onnx_call *c, MlirValue x, uint32_t dim, int64_t start,
                             int64_t size, int64_t stride);
/* The same where both may be open dims. */
static inline MlirValue tsr_onnx_slice_open(tsr_onnx_call *c, MlirValue x, uint32_t dim,
                                            uint64_t start, uint64_t size, int64_t stride) {
    return tsr_emitter_slice(&c->emitter, x, dim, start, size, stride);
}
/* `interior` may be NULL. */
static inline MlirValue tsr_onnx_pad(tsr_onnx_call *c, MlirValue x, const int64_t *low,
                                     const int64_t *high, const int64_t *interior, double value) {
    return tsr_emitter_pad(&c->emitter, x, low, high, interior, value);
}
static inline MlirValue tsr_onnx_concat(tsr_onnx_call *c, size_t count, const MlirValue *parts,
                                        uint32_t axis) {
    return tsr_emitter_concat(&c->emitter, count, parts, axis);
}
/* sum, mean, reduce_max, reduce_min, reduce_prod …; removes the axes, or keeps them with size 1. */
MlirValue tsr_onnx_reduce(tsr_onnx_call *c, const char *name, MlirValue x, size_t axis_count,
                          const int64_t *axes, bool keepdims);
static inline MlirValue tsr_onnx_gather(tsr_onnx_call *c, MlirValue x, MlirValue indices,
                                        uint32_t axis) {
    return tsr_emitter_gather(&c->emitter, x, indices, axis);
}
/* Negative indices count from the end of a dim of `size`, which may be open. */
MlirValue tsr_onnx_wrap_indices(tsr_onnx_call *c, MlirValue indices, uint64_t size);
/* The position along `axis`, with the shape 1 … n … 1 of `rank` dims. */
static inline MlirValue tsr_onnx_iota(tsr_onnx_call *c, tsr_dtype dtype, uint32_t rank,
                                      uint32_t axis, uint64_t size) {
    return tsr_emitter_iota(&c->emitter, dtype, rank, axis, size);
}
MlirValue tsr_onnx_matmul(tsr_onnx_call *c, MlirValue a, MlirValue b, bool transpose_a,
                          bool transpose_b);
/* As ONNX's MatMul, also of integers. */
MlirValue tsr_onnx_product(tsr_onnx_call *c, MlirValue a, MlirValue b);
static inline tsr_attr tsr_onnx_i64_attr(const tsr_onnx_call *c, const char *name, int64_t value) {
    return tsr_emitter_i64_attr(&c->emitter, name, value);
}
static inline tsr_attr tsr_onnx_i64s_attr(const tsr_onnx_call *c, const char *name, size_t count,
                                          const int64_t *values) {
    return tsr_emitter_i64s_attr(&c->emitter, name, count, values);
}
static inline tsr_attr tsr_onnx_f64_attr(const tsr_onnx_call *c, const char *name, double value) {
    return tsr_emitter_f64_attr(&c->emitter, name, value);
}

/* random.c: Dropout in training mode, with its outputs. */
bool tsr_onnx_drop(tsr_onnx_call *c, MlirValue x, double ratio);

/* The nearest integer, ties to even, of a float. */
MlirValue tsr_onnx_round(tsr_onnx_call *c, MlirValue x);
MlirValue tsr_onnx_ceil(tsr_onnx_call *c, MlirValue x);
/* x without its fraction. */
MlirValue tsr_onnx_truncate(tsr_onnx_call *c, MlirValue x);

#endif
