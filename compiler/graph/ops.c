/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops, and helpers shared by all shape rules.
 */
#include "compiler/graph/rules.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"
#include "runtime/base/suggest.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const tsr_op_rules table[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    [TSR_GRAPH_##ID] = {tsr_check_##check, tsr_gradient_##gradient, tsr_forward_##forward,         \
                        tsr_lower_##lowering},
#include "compiler/graph/ops.def"
#undef X
};

const tsr_op_rules *tsr_graph_rules(tsr_op op) {
    TSR_ASSERT(tsr_op_dialect(op) == TSR_DIALECT_GRAPH);
    return &table[op];
}

bool tsr_gradient_none(tsr_gradient *of) {
    TSR_ASSERT(of->builder);
    return true;
}

bool tsr_gradient_unsupported(tsr_gradient *of) {
    tsr_diag_error(mlirOperationGetLocation(of->op), TSR_DIAG_NO_GRADIENT,
                   "%s: this op has no gradient rule", tsr_op_name(of->op));
    return false;
}

/* ---- errors ---------------------------------------------------------------------------------- */

bool tsr_rule_fail(const tsr_rule *rule, tsr_diag_number number, const char *format, ...) {
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tsr_diag_error(mlirOperationGetLocation(rule->op), number, "%s: %s", rule->name, text);
    return false;
}

bool tsr_rule_rank(const tsr_rule *rule, size_t operand, const char *what, uint32_t rank) {
    char text[TSR_TYPE_TEXT_MAX];
    const tsr_type *type = &rule->operands[operand];
    if (type->shape.rank == rank) return true;
    return tsr_rule_fail(rule, TSR_DIAG_RANK, "%s has %" PRIu32 " dims (%s), needs %" PRIu32, what,
                         type->shape.rank, tsr_type_text(type, text), rank);
}

bool tsr_rule_dtype(const tsr_rule *rule, size_t operand, const char *what, unsigned allowed) {
    tsr_dtype dtype = rule->operands[operand].dtype;
    char list[64] = "";
    size_t used = 0;
    if (allowed >> dtype & 1) return true;
    for (unsigned i = 1; allowed >> i; i++)
        if (allowed >> i & 1)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     tsr_dtype_name((tsr_dtype)i));
    return tsr_rule_fail(rule, TSR_DIAG_DTYPE, "element type of %s is %s, needs %s%s", what,
                         tsr_dtype_name(dtype), strchr(list, ',') ? "one of " : "", list);
}

bool tsr_rule_same_dtype(const tsr_rule *rule, size_t a, const char *a_name, size_t b,
                         const char *b_name) {
    tsr_dtype x = rule->operands[a].dtype, y = rule->operands[b].dtype;
    if (x == y) return true;
    return tsr_rule_fail(rule, TSR_DIAG_DTYPE_MIX, "element types differ: %s is %s, %s is %s",
                         a_name, tsr_dtype_name(x), b_name, tsr_dtype_name(y));
}

bool tsr_rule_operand_count(const tsr_rule *rule, size_t low, size_t high) {
    if (rule->operand_count >= low && rule->operand_count <= high) return true;
    return tsr_rule_fail(rule, TSR_DIAG_OPERANDS, "has %zu operands, needs %zu to %zu",
                         rule->operand_count, low, high);
}

bool tsr_rule_shape(const tsr_rule *rule, size_t operand, const char *what, const tsr_shape *must) {
    const tsr_type *is = &rule->operands[operand];
    tsr_type wanted = {.dtype = is->dtype, .shape = *must};
    char is_text[TSR_TYPE_TEXT_MAX], must_text[TSR_TYPE_TEXT_MAX];
    bool same_rank = is->shape.rank == must->rank;
    uint32_t i = 0;
    while (same_rank && i < must->rank && tsr_dim_fits(is->shape.dims[i], must->dims[i])) i++;
    if (same_rank && i == must->rank) return true;
    const tsr_rule_dim dim = {what, operand, i};
    return tsr_rule_fail_dims(rule, TSR_DIAG_SHAPE, same_rank, &dim, "%s is %s, must be %s", what,
                              tsr_type_text(is, is_text), tsr_type_text(&wanted, must_text));
}

bool tsr_rule_fail_open(const tsr_rule *rule, const char *what, uint32_t dim, uint64_t size,
                        const char *why) {
    char text[TSR_DIM_TEXT_MAX];
    return tsr_rule_fail(rule, TSR_DIAG_DIM_OPEN, "%s dim %" PRIu32 " is %s; %s", what, dim,
                         tsr_dim_text(size, text), why);
}

/* ---- attributes ------------------------------------------------------------------------------ */

bool tsr_rule_axis(const tsr_rule *rule, uint32_t limit, int64_t *out_axis) {
    int64_t axis;
    if (!tsr_op_i64(rule->op, "axis", &axis))
        return tsr_rule_fail(rule, TSR_DIAG_AXIS_MISSING, "has no axis");
    if (axis < 0 || axis >= (int64_t)limit)
        return tsr_rule_fail(rule, TSR_DIAG_AXIS, "axis %" PRId64 " is outside [0, %" PRIu32 ")",
                             axis, limit);
    *out_axis = axis;
    return true;
}

bool tsr_rule_axes(const tsr_rule *rule, int64_t out_axes[static TSR_RANK_MAX], size_t *out_count) {
    char text[TSR_TYPE_TEXT_MAX];
    uint32_t rank = rule->operands[0].shape.rank;
    if (!tsr_op_i64s(rule->op, "axes", TSR_RANK_MAX, out_axes, out_count))
        return tsr_rule_fail(rule, TSR_DIAG_AXIS_MISSING, "axes needs at most %d integers",
                             TSR_RANK_MAX);
    for (size_t i = 0; i < *out_count; i++) {
        if (out_axes[i] < 0 || out_axes[i] >= (int64_t)rank)
            return tsr_rule_fail(rule, TSR_DIAG_AXIS,
                                 "axis %" PRId64 " is outside [0, %" PRIu32 ") of the operand (%s)",
                                 out_axes[i], rank, tsr_type_text(&rule->operands[0], text));
        if (i && out_axes[i] <= out_axes[i - 1])
            return tsr_rule_fail(rule, TSR_DIAG_AXIS_ORDER,
                                 "axes must ascend: %" PRId64 " comes after %" PRId64, out_axes[i],
                                 out_axes[i - 1]);
    }
    return true;
}

bool tsr_rule_i64s(const tsr_rule *rule, const char *name, uint32_t count, int64_t low,
                   int64_t otherwise, int64_t *out_values) {
    size_t found = 0;
    if (!tsr_op_has(rule->op, name) && otherwise >= low) {
        for (uint32_t i = 0; i < count; i++) out_values[i] = otherwise;
        return true;
    }
    if (!tsr_op_i64s(rule->op, name, count, out_values, &found) || found != count)
        return tsr_rule_fail(rule, TSR_DIAG_INTEGERS, "%s needs %" PRIu32 " integers", name, count);
    for (uint32_t i = 0; i < count; i++)
        if (out_values[i] < low || out_values[i] > INT64_MAX / 4)
            return tsr_rule_fail(rule, TSR_DIAG_INTEGER_LOW,
                                 "%s entry %" PRIu32 " is %" PRId64 ", needs %s %" PRId64, name, i,
                                 out_values[i], out_values[i] < low ? "at least" : "at most",
                                 out_values[i] < low ? low : INT64_MAX / 4);
    return true;
}

bool tsr_rule_dims(const tsr_rule *rule, const char *name, uint32_t count, uint64_t *out_dims) {
    MlirAttribute list = tsr_op_attr(rule->op, name);
    bool is_list = !mlirAttributeIsNull(list) && mlirAttributeIsAArray(list);
    int64_t known[TSR_RANK_MAX];
    if (!is_list || mlirArrayAttrGetNumElements(list) != (intptr_t)count) {
        if (!tsr_rule_i64s(rule, name, count, 0, -1, known)) return false;
        for (uint32_t i = 0; i < count; i++) out_dims[i] = (uint64_t)known[i];
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        MlirAttribute entry = mlirArrayAttrGetElement(list, (intptr_t)i);
        if (tsr_dim_read(entry, &out_dims[i]) &&
            (tsr_dim_is_open(out_dims[i]) || out_dims[i] <= INT64_MAX / 4))
            continue;
        if (tsr_attr_i64(entry, &known[0]))
            return tsr_rule_fail(rule, TSR_DIAG_INTEGER_LOW,
                                 "%s entry %" PRIu32 " is %" PRId64 ", needs at %s %" PRId64, name,
                                 i, known[0], known[0] < 0 ? "least" : "most",
                                 known[0] < 0 ? 0 : INT64_MAX / 4);
        const char *text = tsr_attr_string(entry);
        return tsr_rule_fail(rule, TSR_DIAG_DIM_EXPRESSION,
                             "%s entry %" PRIu32
                             " is '%.100s', which is not an expression, or below 0 for all sizes",
                             name, i, text ? text : "");
    }
    return true;
}

bool tsr_rule_f64(const tsr_rule *rule, const char *name, double otherwise, double *out_value) {
    double value = otherwise;
    if (tsr_op_has(rule->op, name) && !tsr_op_f64(rule->op, name, &value))
        return tsr_rule_fail(rule, TSR_DIAG_NUMBER, "%s is not a number", name);
    if (!isfinite(value)) return tsr_rule_fail(rule, TSR_DIAG_NUMBER, "%s is not finite", name);
    *out_value = value;
    return true;
}

/* ---- dims ------------------------------------------------------------------------------------ */

bool tsr_rule_same_dim(const tsr_rule *rule, size_t x, const char *x_name, uint32_t a, size_t y,
                       const char *y_name, uint32_t b, const char *what) {
    uint64_t x_dim = rule->operands[x].shape.dims[a], y_dim = rule->operands[y].shape.dims[b];
    char x_text[TSR_DIM_TEXT_MAX], y_text[TSR_DIM_TEXT_MAX];
    if (tsr_dim_fits(x_dim, y_dim)) return true;
    return tsr_rule_fail_dims(
        rule, TSR_DIAG_DIMENSION, 2, (const tsr_rule_dim[]){{x_name, x, a}, {y_name, y, b}},
        "%s differ: %s dim %" PRIu32 " is %s, %s dim %" PRIu32 " is %s; they must be equal", what,
        x_name, a, tsr_dim_text(x_dim, x_text), y_name, b, tsr_dim_text(y_dim, y_text));
}

bool tsr_shape_broadcast(const tsr_shape *from, tsr_shape *shape, uint32_t *out_from_dim,
                         uint32_t *out_dim) {
    tsr_shape wide = *shape;
    if (from->rank > wide.rank) {
        uint32_t added = from->rank - wide.rank;
        for (uint32_t i = wide.rank; i-- > 0;) wide.dims[i + added] = wide.dims[i];
        for (uint32_t i = 0; i < added; i++) wide.dims[i] = 1;
        wide.rank = from->rank;
    }
    for (uint32_t i = 0; i < from->rank; i++) {
        uint32_t at = wide.rank - from->rank + i;
        uint64_t a = from->dims[i], b = wide.dims[at];
        if (a == b || a == 1) continue;
        if (b == 1 || b == TSR_DIM_DYNAMIC) {
            wide.dims[at] = a;
        } else if (a != TSR_DIM_DYNAMIC) {
            *out_from_dim = i;
            *out_dim = at - (wide.rank - shape->rank);
            return false;
        }
    }
    *shape = wide;
    return true;
}

/* True if the shape provides dim `dim` of the shape that it was broadcast to. */
static bool has_dim(const tsr_shape *shape, const tsr_shape *wide, uint32_t dim) {
    uint32_t added = wide->rank - shape->rank;
    return dim >= added && shape->dims[dim - added] == wide->dims[dim];
}

bool tsr_rule_broadcast(const tsr_rule *rule, size_t first, size_t last, const char *const *names,
                        tsr_shape *out_shape) {
    tsr_shape shape = rule->operands[first].shape;
    for (size_t i = first + 1; i <= last; i++) {
        uint32_t a, b;
        char one[TSR_TYPE_TEXT_MAX], other[TSR_TYPE_TEXT_MAX];
        tsr_type so_far = {.dtype = rule->operands[first].dtype, .shape = shape};
        if (tsr_shape_broadcast(&rule->operands[i].shape, &shape, &a, &b)) continue;
        size_t wide = first; /* the operand that provided the dim */
        for (size_t k = first; k < i; k++)
            if (has_dim(&rule->operands[k].shape, &so_far.shape, b)) wide = k;
        const tsr_shape *given = &rule->operands[wide].shape;
        char wide_dim[TSR_DIM_TEXT_MAX], dim[TSR_DIM_TEXT_MAX];
        return tsr_rule_fail_dims(
            rule, TSR_DIAG_BROADCAST, 2,
            (const tsr_rule_dim[]){{names[wide - first], wide, b + given->rank - so_far.shape.rank},
                                   {names[i - first], i, a}},
            "shapes do not broadcast: %s dim %" PRIu32 " is %s (%s), %s dim %" PRIu32
            " is %s (%s); they must be equal, or one of them 1",
            i == first + 1 ? names[0] : "the earlier operands'", b,
            tsr_dim_text(so_far.shape.dims[b], wide_dim), tsr_type_text(&so_far, one),
            names[i - first], a, tsr_dim_text(rule->operands[i].shape.dims[a], dim),
            tsr_type_text(&rule->operands[i], other));
    }
    *out_shape = shape;
    return true;
}

/* ---- checking an op -------------------------------------------------------------------------- */

/* A limit for every tensor: fewer than 2^63 bytes, counting empty dims as 1. */
static bool check_limits(const tsr_rule *rule, const char *what, size_t index,
                         const tsr_type *type) {
    uint64_t size_bytes;
    tsr_shape known = type->shape;
    char text[TSR_TYPE_TEXT_MAX];
    for (uint32_t i = 0; i < known.rank; i++)
        if (!tsr_dim_is_known(known.dims[i]) || known.dims[i] == 0) known.dims[i] = 1;
    if (tsr_shape_size(&known, type->dtype, &size_bytes)) return true;
    return tsr_rule_fail(rule, TSR_DIAG_SIZE, "%s %zu has more than 2^63 bytes: %s", what, index,
                         tsr_type_text(type, text));
}

static bool read_types(tsr_rule *rule) {
    if (rule->operand_count > TSR_RULE_OPERANDS_MAX || rule->result_count > TSR_RULE_RESULTS_MAX)
        return tsr_rule_fail(rule, TSR_DIAG_OPERANDS,
                             "has %zu operands and %zu results; at most %d and %d are accepted",
                             rule->operand_count, rule->result_count, TSR_RULE_OPERANDS_MAX,
                             TSR_RULE_RESULTS_MAX);
    for (size_t i = 0; i < rule->operand_count; i++) {
        if (!tsr_value_type(tsr_op_operand(rule->op, i), &rule->operands[i]))
            return tsr_rule_fail(rule, TSR_DIAG_LIMIT, "operand %zu has more than %d dims", i,
                                 TSR_RANK_MAX);
        if (!check_limits(rule, "operand", i, &rule->operands[i])) return false;
    }
    for (size_t i = 0; i < rule->result_count; i++) {
        if (!tsr_value_type(tsr_op_result(rule->op, i), &rule->declared[i]))
            return tsr_rule_fail(rule, TSR_DIAG_LIMIT, "result %zu has more than %d dims", i,
                                 TSR_RANK_MAX);
        if (!check_limits(rule, "result", i, &rule->declared[i])) return false;
        rule->results[i] = rule->declared[i];
    }
    return true;
}

static bool check_op(MlirOperation op, tsr_op id, tsr_rule *out_rule) {
    TSR_ASSERT(tsr_op_dialect(id) == TSR_DIALECT_GRAPH);
    /* All but the types, which are large: only those that exist are filled in. */
    memset(out_rule, 0, offsetof(tsr_rule, operands));
    out_rule->op = op;
    out_rule->name = tsr_op_text(id);
    out_rule->operand_count = tsr_op_operand_count(op);
    out_rule->result_count = tsr_op_result_count(op);
    return read_types(out_rule) && table[id].check(out_rule);
}

bool tsr_graph_check(MlirOperation op, tsr_rule *out_rule) {
    return check_op(op, tsr_op_of(op), out_rule);
}

bool tsr_graph_infer(MlirOperation op, size_t count, MlirType *out_types) {
    tsr_rule rule;
    TSR_ASSERT(count == tsr_op_result_count(op));
    if (!tsr_graph_check(op, &rule)) return false;
    for (size_t i = 0; i < count; i++)
        out_types[i] = tsr_type_make(mlirOperationGetContext(op), &rule.results[i]);
    return true;
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

/* Offers a fix-it: the correct type instead of the written one. */
static bool refuse_result(const tsr_rule *rule, const tsr_type *is, const tsr_type *must) {
    tsr_type whole = *must;
    bool same_rank = is->shape.rank == must->shape.rank;
    MlirContext context = mlirOperationGetContext(rule->op);
    tsr_buffer is_text = {0}, must_text = {0};
    for (uint32_t i = 0; same_rank && i < must->shape.rank; i++)
        if (whole.shape.dims[i] == TSR_DIM_DYNAMIC) whole.shape.dims[i] = is->shape.dims[i];
    mlirTypePrint(tsr_type_make(context, is), append, &is_text);
    mlirTypePrint(tsr_type_make(context, &whole), append, &must_text);
    TSR_NEED(is_text.bytes && must_text.bytes);
    if (is->dtype != must->dtype) {
        tsr_rule_fail(rule, TSR_DIAG_RESULT_DTYPE,
                      "element type of the result is %s in '%s', must be %s; did you mean '%s'?",
                      tsr_dtype_name(is->dtype), is_text.bytes, tsr_dtype_name(must->dtype),
                      must_text.bytes);
    } else if (!same_rank) {
        tsr_rule_fail(rule, TSR_DIAG_RESULT_RANK,
                      "result has %" PRIu32 " dims in '%s', must have %" PRIu32
                      "; did you mean '%s'?",
                      is->shape.rank, is_text.bytes, must->shape.rank, must_text.bytes);
    } else {
        char is_dim[TSR_DIM_TEXT_MAX], must_dim[TSR_DIM_TEXT_MAX];
        uint32_t i = 0;
        while (tsr_dim_fits(is->shape.dims[i], must->shape.dims[i])) i++;
        tsr_rule_fail(rule, TSR_DIAG_RESULT,
                      "result dim %" PRIu32 " is %s in '%s', must be %s; did you mean '%s'?", i,
                      tsr_dim_text(is->shape.dims[i], is_dim), is_text.bytes,
                      tsr_dim_text(must->shape.dims[i], must_dim), must_text.bytes);
    }
    tsr_buffer_finish(&is_text);
    tsr_buffer_finish(&must_text);
    return false;
}

static bool check_result(const tsr_rule *rule, size_t index) {
    const tsr_type *is = &rule->declared[index], *must = &rule->results[index];
    bool fits = is->dtype == must->dtype && is->shape.rank == must->shape.rank;
    for (uint32_t i = 0; fits && i < is->shape.rank; i++)
        fits = tsr_dim_fits(is->shape.dims[i], must->shape.dims[i]);
    return fits || refuse_result(rule, is, must);
}

/* Programs may read parameters of other element types (quantised weights, for example) or unranked
 * ones; pass tessera-verify checks the types that a program may contain. */
static bool is_open(MlirOperation op, tsr_op id) {
    tsr_type type;
    return (id == TSR_GRAPH_PARAM || id == TSR_GRAPH_OPT_STATE) &&
           !tsr_value_type(tsr_op_result(op, 0), &type);
}

static void offer_attribute(MlirStringRef name, void *user) { tsr_suggest(user, name.data); }

/* A misspelled attribute would be kept, and have no effect. Attributes with a dot in their names
 * come from passes and other tools. */
static bool check_attributes(MlirOperation op) {
    char name[128], hint[192] = "";
    for (intptr_t i = 0; i < mlirOperationGetNumDiscardableAttributes(op); i++) {
        MlirStringRef is = mlirIdentifierStr(mlirOperationGetDiscardableAttribute(op, i).name);
        if (memchr(is.data, '.', is.length)) continue;
        snprintf(name, sizeof name, "%.*s", (int)(is.length < 100 ? is.length : 100), is.data);
        tsr_suggestion meant = {.wrong = name};
        tsr_shim_attribute_names(op, offer_attribute, &meant);
        if (meant.best) snprintf(hint, sizeof hint, "; did you mean '%.100s'?", meant.best);
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_ATTRIBUTE_UNKNOWN,
                       "%s: there is no attribute '%s'%s", tsr_op_name(op), name, hint);
        return false;
    }
    return true;
}

bool tsr_graph_verify_op(MlirOperation op) {
    tsr_rule rule;
    tsr_op id = tsr_op_of(op);
    if (!check_attributes(op)) return false;
    if (is_open(op, id)) return true;
    if (!check_op(op, id, &rule)) return false;
    for (size_t i = 0; i < rule.result_count; i++)
        if (!check_result(&rule, i)) return false;
    return true;
}
