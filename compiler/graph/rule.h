/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind a row of ops.def: the shape rule and the gradient rule of an op. Both are in
 * the file of the op's family, side by side:
 *
 *   ops_elementwise.c  arithmetic, comparison, selection, casts
 *   ops_shape.c        reductions, reshape, transpose, broadcast
 *   ops_product.c      matmul, cross entropy
 *   ops_state.c        parameters, state, constants, training
 */
#ifndef TSR_COMPILER_GRAPH_RULE_H
#define TSR_COMPILER_GRAPH_RULE_H

#include "compiler/graph/emit.h"
#include "compiler/graph/graph.h"

enum { TSR_RULE_OPERANDS_MAX = 6, TSR_RULE_RESULTS_MAX = 3 };

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct tsr_rule {
    MlirOperation op;
    const char *name; /* "tessera.matmul" */
    size_t operand_count, result_count;
    tsr_type operands[TSR_RULE_OPERANDS_MAX];
    tsr_type declared[TSR_RULE_RESULTS_MAX]; /* the result types as written */
    tsr_type results[TSR_RULE_RESULTS_MAX];  /* out: what they must be; as declared on entry */
} tsr_rule;

/* Checks operands and attributes and says what the result types must be. Emits an error and returns
 * false where they break the op's rule. Dims may be dynamic: what is unknown is not refused. */
typedef bool (*tsr_check_fn)(tsr_rule *rule);

/* Emits "tessera.matmul: …" at the op; false. */
bool tsr_rule_fail(const tsr_rule *rule, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails unless the operand, called `what` in the message, has this rank. */
bool tsr_rule_rank(const tsr_rule *rule, size_t operand, const char *what, uint32_t rank);
/* Fails unless the operand's element type is among `allowed` (TSR_DTYPES_…). */
bool tsr_rule_dtype(const tsr_rule *rule, size_t operand, const char *what, unsigned allowed);
enum {
    TSR_DTYPES_FLOAT = 1 << TSR_DTYPE_F64 | 1 << TSR_DTYPE_F32,
    TSR_DTYPES_NUMBER = TSR_DTYPES_FLOAT | 1 << TSR_DTYPE_I64 | 1 << TSR_DTYPE_I32,
    TSR_DTYPES_I64 = 1 << TSR_DTYPE_I64,
    TSR_DTYPES_I1 = 1 << TSR_DTYPE_I1,
};
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
    tsr_builder *builder; /* where gradient ops go; has the op's location */
    MlirOperation op;
    MlirValue of_result;                          /* gradient of result 0 */
    bool wanted[TSR_RULE_OPERANDS_MAX];           /* operands whose gradient is asked for */
    MlirValue of_operands[TSR_RULE_OPERANDS_MAX]; /* out; of the operand's type; null: zero */
} tsr_gradient;

/* Emits the ops that compute the wanted gradients. Emits an error and returns false where it
 * cannot.
 */
typedef bool (*tsr_gradient_fn)(tsr_gradient *gradient);

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct tsr_op_rules {
    const char *name;
    tsr_check_fn check;
    tsr_gradient_fn gradient; /* NULL: no gradient passes */
} tsr_op_rules;

const tsr_op_rules *tsr_graph_rules(tsr_graph_op op);
/* Reads an op and runs its check. False after an error; *out_rule is complete on true. */
bool tsr_graph_check(MlirOperation op, tsr_rule *out_rule);

#endif
