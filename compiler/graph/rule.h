/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a row of ops.def: the shape rule and the gradient rule of an op, next to each
 * other in the file of the op's family (ops/), with its lowering in pass tessera-decompose and the
 * derivation of its tangents.
 */
#ifndef TSR_COMPILER_GRAPH_RULE_H
#define TSR_COMPILER_GRAPH_RULE_H

#include "compiler/graph/emit.h"
#include "compiler/graph/graph.h"

enum { TSR_RULE_OPERANDS_MAX = 64, TSR_RULE_RESULTS_MAX = 64 };

/* outline.c: true if the scan, while or if stays a loop or branch. Otherwise tessera-flatten
 * replaces it with straight-line ops: if it is small, or in a function with virtual ranks or
 * regions of resilience. */
bool tsr_graph_loop_stays(MlirOperation op);
enum {
    TSR_UNROLLED_COPIES_MAX = 1 << 16, /* maximum ops created for one loop */
    TSR_UNROLLED_ALL_MAX = 1 << 20,    /* maximum ops created for all loops of a function */
};
/* Iterations of a scan; false if not known. */
bool tsr_graph_scan_length(MlirOperation op, int64_t *out_length);

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct tsr_rule {
    MlirOperation op;
    const char *name; /* "tessera.matmul" */
    size_t operand_count, result_count;
    tsr_type operands[TSR_RULE_OPERANDS_MAX];
    tsr_type declared[TSR_RULE_RESULTS_MAX]; /* the result types as written */
    tsr_type results[TSR_RULE_RESULTS_MAX];  /* out: the required types; as declared on entry */
} tsr_rule;

/* Checks operands and attributes and sets the required result types. Emits an error and returns
 * false if they break the op's rule. Dims may be dynamic: unknown dims are not refused. Dims may be
 * open: a rule refuses those for which it is broken at all sizes, and those whose size it needs. */
typedef bool (*tsr_check_fn)(tsr_rule *rule);

/* Emits "tessera.matmul: …" at the op; returns false. */
bool tsr_rule_fail(const tsr_rule *rule, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A dim of an operand, which the message calls `name`. */
typedef struct tsr_rule_dim {
    const char *name;
    size_t operand;
    uint32_t dim;
} tsr_rule_dim;
enum { TSR_RULE_DIMS_MAX = 4 };
/* The same with a note for each dim: the origin of its size, and the ops that passed it on. */
bool tsr_rule_fail_dims(const tsr_rule *rule, tsr_diag_number number, size_t count,
                        const tsr_rule_dim *dims, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Fails because the rule needs the size of an open dim: "tessera.conv2d: filter dim 0 is K; why".
 */
bool tsr_rule_fail_open(const tsr_rule *rule, const char *what, uint32_t dim, uint64_t size,
                        const char *why);
/* Fails unless the operand, called `what` in the message, has this rank. */
bool tsr_rule_rank(const tsr_rule *rule, size_t operand, const char *what, uint32_t rank);
/* Fails if operand 0 has an integer type that cannot represent the value of an attribute; floats
 * round it, infinities and NaN included. */
bool tsr_rule_holds(const tsr_rule *rule, const char *name, double value);
/* Fails unless the operand's element type is among `allowed` (TSR_DTYPES_…). */
bool tsr_rule_dtype(const tsr_rule *rule, size_t operand, const char *what, unsigned allowed);
enum {
    TSR_DTYPES_WIDE_FLOAT = 1 << TSR_DTYPE_F64 | 1 << TSR_DTYPE_F32,
    TSR_DTYPES_FLOAT = TSR_DTYPES_WIDE_FLOAT | 1 << TSR_DTYPE_BF16 | 1 << TSR_DTYPE_F16,
    TSR_DTYPES_INDEX = 1 << TSR_DTYPE_I64 | 1 << TSR_DTYPE_I32,
    /* sums of 8 or 16 bits would wrap */
    TSR_DTYPES_SUMMABLE =
        TSR_DTYPES_FLOAT | TSR_DTYPES_INDEX | 1 << TSR_DTYPE_UI64 | 1 << TSR_DTYPE_UI32,
    TSR_DTYPES_SIGNED =
        TSR_DTYPES_FLOAT | TSR_DTYPES_INDEX | 1 << TSR_DTYPE_I16 | 1 << TSR_DTYPE_I8,
    TSR_DTYPES_NUMBER =
        TSR_DTYPES_SIGNED | TSR_DTYPES_SUMMABLE | 1 << TSR_DTYPE_UI16 | 1 << TSR_DTYPE_UI8,
    TSR_DTYPES_INTEGER = TSR_DTYPES_NUMBER & ~TSR_DTYPES_FLOAT,
    TSR_DTYPES_BYTE = 1 << TSR_DTYPE_I8 | 1 << TSR_DTYPE_UI8,
    TSR_DTYPES_WORD = 1 << TSR_DTYPE_I32 | 1 << TSR_DTYPE_UI32,
    TSR_DTYPES_BITS = TSR_DTYPES_INTEGER | 1 << TSR_DTYPE_I1,
    TSR_DTYPES_SMALL = 1 << TSR_DTYPE_F8E4M3FN | 1 << TSR_DTYPE_F8E5M2 | 1 << TSR_DTYPE_F8E8M0FNU,
    TSR_DTYPES_WITH_BITS = TSR_DTYPES_NUMBER | TSR_DTYPES_SMALL,
    TSR_DTYPES_ORDERED = TSR_DTYPES_NUMBER | 1 << TSR_DTYPE_I1,
    TSR_DTYPES_I64 = 1 << TSR_DTYPE_I64,
    TSR_DTYPES_I1 = 1 << TSR_DTYPE_I1,
};
/* Fails unless both operands have one element type. */
bool tsr_rule_same_dtype(const tsr_rule *rule, size_t a, const char *a_name, size_t b,
                         const char *b_name);
/* Fails unless there are `low` to `high` operands. */
bool tsr_rule_operand_count(const tsr_rule *rule, size_t low, size_t high);
/* Reads the attribute `axis`: in [0, limit). */
bool tsr_rule_axis(const tsr_rule *rule, uint32_t limit, int64_t *out_axis);
/* Reads `axes`: ascending dims of operand 0. */
bool tsr_rule_axes(const tsr_rule *rule, int64_t out_axes[static TSR_RANK_MAX], size_t *out_count);
/* Reads an array of `count` integers, each at least `low`; an absent one is `count` times
 * `otherwise`, unless that is below `low`. */
bool tsr_rule_i64s(const tsr_rule *rule, const char *name, uint32_t count, int64_t low,
                   int64_t otherwise, int64_t *out_values);
/* Reads an array of `count` sizes or positions: integers that are at least 0, and expressions. */
bool tsr_rule_dims(const tsr_rule *rule, const char *name, uint32_t count, uint64_t *out_dims);
/* Reads a finite number; `otherwise` if absent. */
bool tsr_rule_f64(const tsr_rule *rule, const char *name, double otherwise, double *out_value);
/* Checks the bounds of a uniform distribution in this dtype; `what` precedes the message. */
bool tsr_rule_uniform(const tsr_rule *rule, const char *what, tsr_dtype dtype, double low,
                      double high);
/* Fails unless the operand has this shape, as far as dims are known. */
bool tsr_rule_shape(const tsr_rule *rule, size_t operand, const char *what, const tsr_shape *must);
/* Fails unless dim `a` of operand x equals dim `b` of operand y, or one is dynamic. */
bool tsr_rule_same_dim(const tsr_rule *rule, size_t x, const char *x_name, uint32_t a, size_t y,
                       const char *y_name, uint32_t b, const char *what);
/* NumPy broadcasting of `from` into `*shape`, which grows; false (without an error) if they clash
 * in dims *out_from_dim and *out_dim. */
bool tsr_shape_broadcast(const tsr_shape *from, tsr_shape *shape, uint32_t *out_from_dim,
                         uint32_t *out_dim);
/* The shapes of operands first … last broadcast together; `names` for the message. */
bool tsr_rule_broadcast(const tsr_rule *rule, size_t first, size_t last, const char *const *names,
                        tsr_shape *out_shape);

/* ---- gradients ------------------------------------------------------------------------------- */

typedef struct tsr_gradient {
    tsr_builder *builder; /* insertion point of gradient ops; has the op's location */
    MlirOperation op;
    MlirValue of_result;                        /* of_results[0] */
    MlirValue of_results[TSR_RULE_RESULTS_MAX]; /* gradients of the results; null: zero */
    bool is_linear; /* what the rule emits will be transposed: it must be linear in the gradients */
    bool wanted[TSR_RULE_OPERANDS_MAX];           /* operands whose gradient is requested */
    MlirValue of_operands[TSR_RULE_OPERANDS_MAX]; /* out; has the operand's type; null: zero */
} tsr_gradient;

/* Emits the ops that compute the wanted gradients. Emits an error and returns false if it cannot.
 */
typedef bool (*tsr_gradient_fn)(tsr_gradient *gradient);

/* ---- tangents -------------------------------------------------------------------------------- */

typedef struct tsr_tangent {
    tsr_builder *builder; /* insertion point of new ops, after `op`; has the op's location */
    MlirOperation op;
    MlirValue of_operands[TSR_RULE_OPERANDS_MAX]; /* tangents of float operands; null: zero */
    MlirValue of_results[TSR_RULE_RESULTS_MAX];   /* out; has the result's type; null: zero */
} tsr_tangent;

/* Emits the ops that compute the tangents of the float results. Emits an error and returns false
 * if it cannot. */
typedef bool (*tsr_forward_fn)(tsr_tangent *tangent);

/* ---- the table ------------------------------------------------------------------------------- */

/* Emits simpler ops before the op that compute its results, replaces it by them and destroys it.
 * Operands and results are static. Emits an error and returns false if it cannot. */
typedef bool (*tsr_lower_fn)(MlirOperation op);

typedef struct tsr_op_rules {
    tsr_check_fn check;
    tsr_gradient_fn gradient;
    tsr_forward_fn forward;
    tsr_lower_fn lower;
} tsr_op_rules;

const tsr_op_rules *tsr_graph_rules(tsr_op op);
/* Reads an op and runs its check. False after an error; *out_rule is complete on true. */
bool tsr_graph_check(MlirOperation op, tsr_rule *out_rule);

#endif
