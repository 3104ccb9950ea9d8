/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: numbers · attributes · constants · types · ops · functions.
 */
#include "compiler/graph/emit.h"
#include "compiler/graph/open/open.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 128, NUMBERS_MAX = 16 };

typedef struct comparison {
    const tsr_samples *samples;
    tsr_arena arena;
    tsr_value_map numbers[TSR_SAMPLES]; /* values of each function, in the order of the ops */
    uint32_t count;
    bool differs, done;
    MlirOperation *open_constants; /* constants whose value follows from a size */
    size_t open_count, open_capacity;
} comparison;

static void refuse(comparison *c, MlirOperation op, const char *why) {
    const char *dim = c->samples->symbols[0];
    if (c->done)
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_OPEN_DIM,
                       "%s: %s, so dim '%s' cannot stay open; build for its sizes: --dim %s=1,8,64",
                       tsr_op_name(op), why, dim, dim);
    c->done = false;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* One number of the op: the expression, and its value for the largest sizes. */
static bool fit(comparison *c, MlirOperation op, const int64_t *values, uint64_t *out_dim,
                int64_t *out_high) {
    char why[200];
    *out_high = values[0];
    if (tsr_samples_fit(c->samples, values, out_dim) &&
        (tsr_dim_is_known(*out_dim) || tsr_samples_high(c->samples, *out_dim, out_high)))
        return true;
    snprintf(why, sizeof why,
             "a number of it is %" PRId64 " where the dim is %" PRId64 ", and %" PRId64
             " where it is %" PRId64 ", which is no sum of products of sizes",
             values[0], c->samples->sizes[0][0], values[1], c->samples->sizes[1][0]);
    refuse(c, op, why);
    return false;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool all_equal(const MlirAttribute *of) {
    for (size_t s = 1; s < TSR_SAMPLES; s++)
        if (!mlirAttributeEqual(of[0], of[s])) return false;
    return true;
}

/* The integers of the attributes, which are lists of one length. */
static bool read_lists(const MlirAttribute *of, int64_t values[TSR_RANK_MAX][TSR_SAMPLES],
                       intptr_t *out_count) {
    for (size_t s = 0; s < TSR_SAMPLES; s++) {
        bool dense = mlirAttributeIsADenseI64Array(of[s]);
        if (!dense && !mlirAttributeIsAArray(of[s])) return false;
        intptr_t count =
            dense ? mlirDenseArrayGetNumElements(of[s]) : mlirArrayAttrGetNumElements(of[s]);
        if (count > TSR_RANK_MAX || (s && count != *out_count)) return false;
        *out_count = count;
        for (intptr_t i = 0; i < count; i++) {
            if (dense)
                values[i][s] = mlirDenseI64ArrayGetElement(of[s], i);
            else if (!tsr_attr_i64(mlirArrayAttrGetElement(of[s], i), &values[i][s]))
                return false;
        }
    }
    return true;
}

/* Sets the numbers for the largest sizes, and the list of expressions. */
static void bind_attribute(comparison *c, MlirOperation op, const char *name,
                           const MlirAttribute *of) {
    MlirContext context = c->samples->context;
    int64_t values[TSR_RANK_MAX][TSR_SAMPLES], high[TSR_RANK_MAX];
    MlirAttribute dims[TSR_RANK_MAX], highs[TSR_RANK_MAX];
    char symbolic[2 * NAME_BYTES], why[NAME_BYTES + 60];
    intptr_t count = 0;
    if (!read_lists(of, values, &count)) {
        snprintf(why, sizeof why, "its %s follows from the size of the dim", name);
        refuse(c, op, why);
        return;
    }
    for (intptr_t i = 0; i < count; i++) {
        uint64_t dim;
        if (!fit(c, op, values[i], &dim, &high[i])) return;
        dims[i] = tsr_dim_attr(context, dim);
        highs[i] = tsr_attr_make_i64(context, high[i]);
    }
    bool dense = mlirAttributeIsADenseI64Array(of[0]);
    tsr_op_set(op, name,
               dense ? tsr_attr_make_i64s(context, (size_t)count, high)
                     : mlirArrayAttrGet(context, count, highs));
    snprintf(symbolic, sizeof symbolic, TSR_OPEN_NUMBERS_PREFIX "%s", name);
    tsr_op_set(op, symbolic, mlirArrayAttrGet(context, count, dims));
}

static void compare_attributes(comparison *c, MlirOperation ops[TSR_SAMPLES]) {
    char name[NAME_BYTES];
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(ops[0]) && c->done; i++) {
        MlirStringRef text = mlirIdentifierStr(mlirOperationGetAttribute(ops[0], i).name);
        MlirAttribute of[TSR_SAMPLES];
        if (text.length + sizeof TSR_OPEN_NUMBERS_PREFIX >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)text.length, text.data);
        bool all = true;
        for (size_t s = 0; s < TSR_SAMPLES; s++) {
            of[s] = tsr_op_attr(ops[s], name);
            all = all && !mlirAttributeIsNull(of[s]);
        }
        if (!all) {
            refuse(c, ops[0], "it has other attributes for other sizes");
            return;
        }
        bool is_value = tsr_op_is(ops[0], TSR_GRAPH_CONSTANT) && strcmp(name, "value") == 0;
        bool is_type = strcmp(name, "function_type") == 0; /* of the entry */
        if (is_value || is_type || all_equal(of)) continue;
        c->differs = true;
        bind_attribute(c, ops[0], name, of);
        i = -1; /* the list changed; what is set is equal to itself only in ops[0] */
        for (size_t s = 1; s < TSR_SAMPLES; s++)
            tsr_op_set(ops[s], name, tsr_op_attr(ops[0], name));
        char other[2 * NAME_BYTES];
        snprintf(other, sizeof other, TSR_OPEN_NUMBERS_PREFIX "%s", name);
        if (c->done)
            for (size_t s = 1; s < TSR_SAMPLES; s++)
                tsr_op_set(ops[s], other, tsr_op_attr(ops[0], other));
    }
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool as_integers(const double *from, int64_t *out) {
    for (size_t s = 0; s < TSR_SAMPLES; s++) {
        if (!(fabs(from[s]) < 0x1p53) || from[s] != nearbyint(from[s])) return false;
        out[s] = (int64_t)from[s];
    }
    return true;
}

/* The numbers n with values 1 / n, rounded once. */
static bool as_inverses(tsr_dtype dtype, const double *from, int64_t *out) {
    if (dtype != TSR_DTYPE_F32 && dtype != TSR_DTYPE_F64) return false;
    for (size_t s = 0; s < TSR_SAMPLES; s++) {
        double n = nearbyint(1 / from[s]);
        if (!(n >= 1 && n < 0x1p53)) return false;
        double again = dtype == TSR_DTYPE_F32 ? (double)(float)(1 / n) : 1 / n;
        if (again != from[s]) return false;
        out[s] = (int64_t)n;
    }
    return true;
}

static void note_open(comparison *c, MlirOperation op) {
    if (c->open_count == c->open_capacity) {
        MlirOperation *larger = TSR_ARENA_GROW(&c->arena, c->open_constants, &c->open_capacity, 16);
        TSR_NEED(larger);
        c->open_constants = larger;
    }
    c->open_constants[c->open_count++] = op;
}

/* One value for all elements. */
static void bind_splat(comparison *c, MlirOperation op, const MlirAttribute *of, MlirType type) {
    MlirContext context = c->samples->context;
    MlirAttribute element = tsr_attr_splat_element(of[0]);
    double read[TSR_SAMPLES];
    int64_t numbers[TSR_SAMPLES], high = 0;
    uint64_t dim = 0;
    tsr_type is;
    bool same = true, inverse = false, known = tsr_type_read(type, &is);
    for (size_t s = 1; s < TSR_SAMPLES; s++)
        same = same && mlirAttributeEqual(element, tsr_attr_splat_element(of[s]));
    if (same) {
        tsr_op_set(op, "value", mlirDenseElementsAttrSplatGet(type, element));
        note_open(c, op);
        return;
    }
    for (size_t s = 0; s < TSR_SAMPLES; s++) known = known && tsr_attr_splat(of[s], &read[s]);
    known =
        known && (as_integers(read, numbers) || (inverse = as_inverses(is.dtype, read, numbers)));
    if (!known) {
        refuse(c, op,
               "a constant follows from the size of the dim in a way that no kernel computes");
        return;
    }
    if (!fit(c, op, numbers, &dim, &high)) return;
    tsr_op_set(op, "value",
               tsr_attr_make_splat(context, &is, inverse ? 1 / (double)high : (double)high));
    tsr_op_set(op, TSR_OPEN_VALUE_NAME, tsr_dim_attr(context, dim));
    if (inverse) tsr_op_set(op, TSR_OPEN_INVERSE_NAME, tsr_attr_make_unit(context));
    note_open(c, op);
}

/* An open constant of type i64. */
static MlirValue emit_open(comparison *c, tsr_builder *b, const tsr_type *type,
                           const int64_t *values) {
    uint64_t dim = 0;
    int64_t high = 0;
    MlirOperation at = b->before;
    if (!fit(c, at, values, &dim, &high)) return (MlirValue){NULL};
    MlirValue made = tsr_emit_filled(b, type, (double)high);
    if (tsr_dim_is_open(dim)) {
        tsr_op_set(tsr_value_owner(made), TSR_OPEN_VALUE_NAME,
                   tsr_dim_attr(c->samples->context, dim));
        note_open(c, tsr_value_owner(made));
    }
    return made;
}

/* A list of integers: selected by the position. */
static void bind_list(comparison *c, MlirOperation op, const MlirAttribute *of) {
    tsr_type type = {0};
    int64_t values[NUMBERS_MAX][TSR_SAMPLES];
    uint64_t count = 0;
    for (size_t s = 0; s < TSR_SAMPLES; s++) {
        void *data = NULL;
        if (!tsr_attr_elements(of[s], &c->arena, &type, &data) || type.dtype != TSR_DTYPE_I64 ||
            type.shape.rank != 1 || !tsr_shape_count(&type.shape, &count) || count > NUMBERS_MAX) {
            refuse(c, op,
                   "a constant follows from the size of the dim, and is no short list of integers");
            return;
        }
        for (uint64_t i = 0; i < count; i++) values[i][s] = ((const int64_t *)data)[i];
    }
    tsr_builder b = tsr_builder_before(op);
    MlirValue position = tsr_emit_iota(&b, &type.shape, 0, TSR_DTYPE_I64);
    const tsr_type scalar = tsr_type_scalar(TSR_DTYPE_I64);
    MlirValue all = emit_open(c, &b, &type, values[0]);
    for (uint64_t i = 1; i < count && c->done; i++) {
        MlirValue is = tsr_emit_compare(&b, TSR_PREDICATE_EQ, position,
                                        tsr_emit_constant(&b, TSR_DTYPE_I64, (double)i));
        MlirValue one = emit_open(c, &b, &scalar, values[i]);
        if (c->done) all = tsr_emit_where(&b, is, one, all);
    }
    if (!c->done) return;
    if (count == 1) all = tsr_emit_binary(&b, TSR_GRAPH_NAME("max"), all, all);
    mlirValueReplaceAllUsesOfWith(tsr_op_result(op, 0), all);
    bool set = tsr_value_map_set(&c->numbers[0], &c->arena, all, c->count); /* as the constant */
    TSR_NEED(set);
}

static void compare_constant(comparison *c, MlirOperation ops[TSR_SAMPLES], MlirType type) {
    MlirAttribute of[TSR_SAMPLES];
    bool splat = true;
    for (size_t s = 0; s < TSR_SAMPLES; s++) {
        of[s] = tsr_op_attr(ops[s], "value");
        splat = splat && !mlirAttributeIsNull(tsr_attr_splat_element(of[s]));
    }
    if (all_equal(of)) return;
    c->differs = true;
    if (splat)
        bind_splat(c, ops[0], of, type);
    else
        bind_list(c, ops[0], of);
}

/* A kernel that is not elementwise, and an output, would read the constant from the bundle. */
static void copy_constant(MlirOperation op) {
    MlirValue value = tsr_op_result(op, 0), copy = {NULL};
    MlirOpOperand next;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use); use = next) {
        MlirOperation reader = mlirOpOperandGetOwner(use);
        const tsr_op_row *row = tsr_op_row_find(reader);
        next = mlirOpOperandGetNextUse(use);
        bool is_value = tsr_op_has(op, TSR_OPEN_VALUE_NAME);
        if ((row && row->op_class == TSR_CLASS_MAP) ||
            (!is_value && !tsr_op_is(reader, TSR_FUNC_RETURN)))
            continue;
        if (mlirValueIsNull(copy)) {
            tsr_builder b = tsr_builder_before(tsr_op_next_(op));
            bool is_bool = tsr_type_of(value).dtype == TSR_DTYPE_I1;
            copy = tsr_emit_binary(&b, is_bool ? TSR_GRAPH_NAME("or") : TSR_GRAPH_NAME("max"),
                                   value, value);
            if (tsr_op_has(op, TSR_OPEN_TYPES_NAME))
                tsr_op_set(tsr_value_owner(copy), TSR_OPEN_TYPES_NAME,
                           tsr_op_attr(op, TSR_OPEN_TYPES_NAME));
        }
        mlirOperationSetOperand(reader, (intptr_t)mlirOpOperandGetOperandNumber(use), copy);
    }
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The type for the largest sizes, and, if it differs, with expressions. */
static bool bind_type(comparison *c, MlirOperation op, const MlirType *of, MlirType *out_high,
                      MlirType *out_open) {
    tsr_type types[TSR_SAMPLES], high, open;
    bool same = true;
    *out_high = *out_open = of[0];
    for (size_t s = 0; s < TSR_SAMPLES; s++) same = same && mlirTypeEqual(of[0], of[s]);
    if (same) return false;
    for (size_t s = 0; s < TSR_SAMPLES; s++)
        if (!mlirTypeIsARankedTensor(of[s]) || !tsr_type_read(of[s], &types[s]) ||
            types[s].dtype != types[0].dtype || types[s].shape.rank != types[0].shape.rank) {
            refuse(c, op, "it has another rank or element type for other sizes");
            return false;
        }
    high = open = types[0];
    for (uint32_t d = 0; d < high.shape.rank; d++) {
        int64_t values[TSR_SAMPLES], value;
        for (size_t s = 0; s < TSR_SAMPLES; s++) values[s] = (int64_t)types[s].shape.dims[d];
        if (!fit(c, op, values, &open.shape.dims[d], &value)) return false;
        high.shape.dims[d] = (uint64_t)value;
    }
    *out_high = tsr_type_make(c->samples->context, &high);
    *out_open = tsr_type_make(c->samples->context, &open);
    return c->differs = true;
}

static void set_number(comparison *c, MlirValue *values) {
    for (size_t s = 0; s < TSR_SAMPLES; s++) {
        bool set = tsr_value_map_set(&c->numbers[s], &c->arena, values[s], c->count);
        TSR_NEED(set);
    }
    c->count++;
}

static void compare_results(comparison *c, MlirOperation ops[TSR_SAMPLES]) {
    size_t count = tsr_op_result_count(ops[0]);
    MlirAttribute *all = TSR_NEW(&c->arena, MlirAttribute, count + 1);
    TSR_NEED(all);
    bool any = false;
    for (size_t i = 0; i < count && c->done; i++) {
        MlirValue values[TSR_SAMPLES];
        MlirType types[TSR_SAMPLES], high, open;
        for (size_t s = 0; s < TSR_SAMPLES; s++) {
            values[s] = tsr_op_result(ops[s], i);
            types[s] = mlirValueGetType(values[s]);
        }
        bool differs = bind_type(c, ops[0], types, &high, &open);
        if (!c->done) return;
        any = any || differs;
        all[i] = tsr_attr_make_type(open);
        if (tsr_op_is(ops[0], TSR_GRAPH_CONSTANT)) compare_constant(c, ops, high);
        if (differs) mlirValueSetType(values[0], high);
        set_number(c, values);
    }
    if (any && c->done)
        tsr_op_set(ops[0], TSR_OPEN_TYPES_NAME,
                   mlirArrayAttrGet(c->samples->context, (intptr_t)count, all));
}

/* ---- ops ------------------------------------------------------------------------------------- */

static bool are_alike(const comparison *c, const MlirOperation ops[TSR_SAMPLES]) {
    for (size_t s = 1; s < TSR_SAMPLES; s++) {
        if (mlirOperationIsNull(ops[s]) || tsr_op_of(ops[0]) != tsr_op_of(ops[s]) ||
            tsr_op_operand_count(ops[0]) != tsr_op_operand_count(ops[s]) ||
            tsr_op_result_count(ops[0]) != tsr_op_result_count(ops[s]) ||
            mlirOperationGetNumAttributes(ops[0]) != mlirOperationGetNumAttributes(ops[s]))
            return false;
        for (size_t i = 0; i < tsr_op_operand_count(ops[0]); i++)
            if (tsr_value_map_get(&c->numbers[0], tsr_op_operand(ops[0], i)) !=
                tsr_value_map_get(&c->numbers[s], tsr_op_operand(ops[s], i)))
                return false;
    }
    return true;
}

static void compare_op(comparison *c, MlirOperation ops[TSR_SAMPLES]) {
    if (!are_alike(c, ops)) {
        refuse(c, ops[0], "the program has other ops for other sizes");
        return;
    }
    if (mlirOperationGetNumRegions(ops[0])) {
        refuse(c, ops[0], "its region may depend on the size of the dim");
        return;
    }
    compare_attributes(c, ops);
    if (c->done) compare_results(c, ops);
}

static void compare_bodies(comparison *c, const MlirOperation funcs[TSR_SAMPLES]) {
    MlirOperation ops[TSR_SAMPLES];
    for (size_t s = 0; s < TSR_SAMPLES; s++)
        ops[s] = mlirBlockGetFirstOperation(tsr_op_body(funcs[s]));
    while (!mlirOperationIsNull(ops[0]) && c->done) {
        MlirOperation next[TSR_SAMPLES];
        for (size_t s = 0; s < TSR_SAMPLES; s++)
            next[s] = mlirOperationIsNull(ops[s]) ? ops[s] : mlirOperationGetNextInBlock(ops[s]);
        compare_op(c, ops);
        memcpy(ops, next, sizeof ops);
    }
    for (size_t s = 1; s < TSR_SAMPLES; s++)
        if (c->done && !mlirOperationIsNull(ops[s]))
            refuse(c, ops[s], "the program has other ops for other sizes");
}

/* ---- functions ------------------------------------------------------------------------------- */

static void compare_arguments(comparison *c, const MlirOperation funcs[TSR_SAMPLES]) {
    intptr_t count = mlirBlockGetNumArguments(tsr_op_body(funcs[0]));
    for (size_t s = 1; s < TSR_SAMPLES; s++)
        if (mlirBlockGetNumArguments(tsr_op_body(funcs[s])) != count)
            refuse(c, funcs[0], "it has other arguments for other sizes");
    for (intptr_t i = 0; i < count && c->done; i++) {
        MlirValue values[TSR_SAMPLES];
        MlirType types[TSR_SAMPLES], high, open;
        for (size_t s = 0; s < TSR_SAMPLES; s++) {
            values[s] = mlirBlockGetArgument(tsr_op_body(funcs[s]), i);
            types[s] = mlirValueGetType(values[s]);
        }
        if (bind_type(c, funcs[0], types, &high, &open)) mlirValueSetType(values[0], high);
        set_number(c, values);
    }
}

/* The type of the function follows from its block. */
static void set_function_type(const comparison *c, MlirOperation func) {
    MlirBlock body = tsr_op_body(func);
    MlirOperation end = mlirBlockGetTerminator(body);
    size_t inputs = (size_t)mlirBlockGetNumArguments(body), outputs = tsr_op_operand_count(end);
    MlirType types[2 * TSR_CONFIG_PORTS_MAX];
    TSR_ASSERT(inputs <= TSR_CONFIG_PORTS_MAX && outputs <= TSR_CONFIG_PORTS_MAX);
    for (size_t i = 0; i < inputs; i++)
        types[i] = mlirValueGetType(mlirBlockGetArgument(body, (intptr_t)i));
    for (size_t i = 0; i < outputs; i++)
        types[inputs + i] = mlirValueGetType(tsr_op_operand(end, i));
    tsr_op_set(func, "function_type",
               tsr_attr_make_type(mlirFunctionTypeGet(c->samples->context, (intptr_t)inputs, types,
                                                      (intptr_t)outputs, types + inputs)));
}

bool tsr_samples_compare(const tsr_samples *samples, const MlirOperation funcs[TSR_SAMPLES],
                         bool *out_differs) {
    comparison c = {.samples = samples, .done = true};
    compare_arguments(&c, funcs);
    if (c.done) compare_bodies(&c, funcs);
    for (size_t i = 0; i < c.open_count && c.done; i++) copy_constant(c.open_constants[i]);
    if (c.done) set_function_type(&c, funcs[0]);
    *out_differs = c.differs;
    tsr_arena_finish(&c.arena);
    return c.done;
}
