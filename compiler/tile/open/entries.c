/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: the rule of each op · groups and their calls · entries · kernels.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/open.h"
#include "compiler/tile/open/split.h"
#include "compiler/tile/rows/rows.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

enum { ARGUMENTS_MAX = 2048, SUFFIX_BYTES = 32 };

typedef struct opener {
    tsr_ctx *ctx;
    tsr_arena *arena;
    MlirModule module;
    MlirOperation func; /* the entry */
    tsr_graph_open open;
    uint64_t symbol;     /* the dim, as a dim of types */
    MlirValue dim;       /* of tsched.dim */
    tsr_value_map times; /* of the values of the entry whose rows are rows of the dim */
    tsr_value_map types; /* of its open values: numbers in `list` */
    MlirType *list;
    size_t count, capacity;
    bool quiet; /* a refusal is no error: there may be another kernel */
} opener;

static uint64_t times_of(const tsr_value_map *map, MlirValue value) {
    uint32_t times = tsr_value_map_get(map, value);
    return times == UINT32_MAX ? 0 : times;
}

static TSR_RESULT set_times(const opener *o, tsr_value_map *map, MlirValue value, uint64_t times) {
    if (times >= UINT32_MAX)
        FAIL(o->ctx, TSR_COMPILE, "@%s: a value has more than 2^32 rows for each '%s'",
             tsr_op_symbol(o->func), o->open.dim);
    if (times && !tsr_value_map_set(map, o->arena, value, (uint32_t)times))
        FAIL(o->ctx, TSR_MEMORY, "no memory for the open dim of @%s", tsr_op_symbol(o->func));
    return TSR_SUCCESS;
}

static TSR_RESULT refuse(const opener *o, MlirOperation op, const char *why) {
    const char *dim = o->open.dim;
    if (o->quiet) return tsr_fail_(o->ctx, TSR_COMPILE, 0, __FILE__, __LINE__, "%s", why);
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_OPEN_DIM,
                   "%s of entry '@%s' %s, so dim '%s' cannot stay open; build for its sizes: --dim "
                   "%s=1,8,64",
                   tsr_op_name(op), tsr_op_symbol(o->func), why, dim, dim);
    FAIL(o->ctx, TSR_COMPILE, "@%s has a dim that cannot stay open", tsr_op_symbol(o->func));
}

/* ---- the rule of each op --------------------------------------------------------------------- */

/* An open operand has the rank of the result, so that its rows are the rows of the result. */
static TSR_RESULT find_of_map(const opener *o, const tsr_value_map *map, MlirOperation op,
                              uint64_t *out_times) {
    tsr_type result, type;
    bool known = tsr_value_type(tsr_op_result(op, 0), &result);
    for (size_t i = 0; i < tsr_op_operand_count(op) && known; i++) {
        uint64_t times = times_of(map, tsr_op_operand(op, i));
        if (!times) continue;
        if (!tsr_value_type(tsr_op_operand(op, i), &type) || type.shape.rank != result.shape.rank ||
            (*out_times && *out_times != times))
            return refuse(o, op, "moves rows");
        *out_times = times;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT find_of_reduction(const opener *o, const tsr_value_map *map, MlirOperation op,
                                    uint64_t *out_times) {
    int64_t axes[TSR_RANK_MAX];
    size_t count = 1;
    bool known = tsr_op_is(op, TSR_GRAPH_ARGMAX)
                     ? tsr_op_i64(op, "axis", &axes[0])
                     : tsr_op_i64s(op, "axes", TSR_RANK_MAX, axes, &count);
    *out_times = times_of(map, tsr_op_operand(op, 0));
    if (!known || !*out_times || !count || axes[0] == 0) return refuse(o, op, "reduces rows");
    tsr_type from;
    if (tsr_op_is(op, TSR_GRAPH_ARGMAX) && tsr_value_type(tsr_op_operand(op, 0), &from) &&
        from.shape.dims[axes[0]] == 1) /* its kernel has rows as columns */
        return refuse(o, op, "reduces a dim of size 1");
    return TSR_SUCCESS;
}

/* The op keeps the rows of its operand apart, and in their order. */
static bool preserves_rows(MlirOperation op, const tsr_type *from) {
    int64_t list[TSR_RANK_MAX], axis = 0;
    size_t count = 0;
#define FIRST(name, value)                                                                         \
    (!tsr_op_has(op, name) ||                                                                      \
     (tsr_op_i64s(op, name, TSR_RANK_MAX, list, &count) && count && list[0] == (int64_t)(value)))
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_TRANSPOSE:
        return FIRST("permutation", 0);
    case TSR_GRAPH_SLICE:
        return FIRST("start", 0) && FIRST("size", from->shape.dims[0]) && FIRST("stride", 1);
    case TSR_GRAPH_PAD:
        return from->shape.rank > 1 && FIRST("low", 0) && FIRST("high", 0) && FIRST("interior", 0);
    case TSR_GRAPH_TOP_K:
        return from->shape.rank > 1;
    case TSR_GRAPH_MAX_POOL2D:
    case TSR_GRAPH_AVG_POOL2D:
    case TSR_GRAPH_CONV2D:
        return true;
    default: /* along an axis */
        return tsr_op_i64(op, "axis", &axis) && axis > 0;
    }
#undef FIRST
}

/* The first operand is open, and no other one. */
static TSR_RESULT find_of_rows(const opener *o, const tsr_value_map *map, MlirOperation op,
                               uint64_t *out_times) {
    tsr_type from;
    *out_times = times_of(map, tsr_op_operand(op, 0));
    bool alone = *out_times > 0;
    for (size_t i = 1; i < tsr_op_operand_count(op); i++)
        alone = alone && !times_of(map, tsr_op_operand(op, i));
    if (!alone || !tsr_value_type(tsr_op_operand(op, 0), &from) || !preserves_rows(op, &from))
        return refuse(o, op, "moves or mixes rows");
    return TSR_SUCCESS;
}

/* All operands from the first to number `count` - 1 have the same rows, and so have others that are
 * open. */
static TSR_RESULT find_of_all(const opener *o, const tsr_value_map *map, MlirOperation op,
                              size_t count, uint64_t *out_times) {
    *out_times = times_of(map, tsr_op_operand(op, 0));
    bool same = *out_times > 0;
    for (size_t i = 1; i < tsr_op_operand_count(op); i++) {
        uint64_t times = times_of(map, tsr_op_operand(op, i));
        same = same && (times == *out_times || (i >= count && !times));
    }
    return same ? TSR_SUCCESS : refuse(o, op, "moves or mixes rows");
}

/* Rows of a table for open indices, or of an open table. */
static TSR_RESULT find_of_gather(const opener *o, const tsr_value_map *map, MlirOperation op,
                                 uint64_t *out_times) {
    int64_t axis = 0;
    uint64_t table = times_of(map, tsr_op_operand(op, 0));
    uint64_t indices = times_of(map, tsr_op_operand(op, 1));
    if (!tsr_op_i64(op, "axis", &axis) || (table && (indices || axis == 0)) ||
        (indices && axis != 0))
        return refuse(o, op, "moves rows");
    *out_times = table ? table : indices;
    return TSR_SUCCESS;
}

/* The layout is row-major, so the leading dim still counts the rows. */
static TSR_RESULT find_of_reshape(const opener *o, MlirOperation op, uint64_t *out_times) {
    tsr_type to;
    uint64_t high = (uint64_t)o->open.high;
    if (!tsr_value_type(tsr_op_result(op, 0), &to) || !to.shape.rank ||
        to.shape.dims[0] % high != 0)
        return refuse(o, op, "divides rows");
    *out_times = to.shape.dims[0] / high;
    return TSR_SUCCESS;
}

/* Rows of the first matrix, or matrices of a batch. */
static TSR_RESULT find_of_matmul(const opener *o, const tsr_value_map *map, MlirOperation op,
                                 uint64_t *out_times) {
    tsr_type a, b, result;
    uint64_t first = times_of(map, tsr_op_operand(op, 0));
    uint64_t second = times_of(map, tsr_op_operand(op, 1));
    bool known = tsr_value_type(tsr_op_operand(op, 0), &a) &&
                 tsr_value_type(tsr_op_operand(op, 1), &b) &&
                 tsr_value_type(tsr_op_result(op, 0), &result);
    uint32_t rank = known ? result.shape.rank : 0;
    bool is_batch = rank > 2;
    bool fits =
        (!first || (a.shape.rank == rank && (is_batch || !tsr_op_flag(op, "transpose_a")))) &&
        (!second || (b.shape.rank == rank && is_batch)) && (!first || !second || first == second);
    if (!fits) return refuse(o, op, "adds or moves rows");
    *out_times = first ? first : second;
    return TSR_SUCCESS;
}

/* The times of the op's result, some of whose operands are open. */
static TSR_RESULT find_of_op(const opener *o, const tsr_value_map *map, MlirOperation op,
                             uint64_t *out_times) {
    enum { QUERIES_KEYS_VALUES = 3 };
    const tsr_op_row *row = tsr_op_row_find(op);
    *out_times = 0;
    if (row && row->op_class == TSR_CLASS_MAP) return find_of_map(o, map, op, out_times);
    if (row && row->op_class == TSR_CLASS_REDUCE) return find_of_reduction(o, map, op, out_times);
    switch (tsr_op_of(op)) {
    case TSR_GRAPH_REPAIR:
        return find_of_reduction(o, map, op, out_times);
    case TSR_GRAPH_RESHAPE:
        return find_of_reshape(o, op, out_times);
    case TSR_GRAPH_MATMUL:
        return find_of_matmul(o, map, op, out_times);
    case TSR_GRAPH_TRANSPOSE:
    case TSR_GRAPH_WORDS:
    case TSR_GRAPH_SLICE:
    case TSR_GRAPH_PAD:
    case TSR_GRAPH_CUMSUM:
    case TSR_GRAPH_SORT:
    case TSR_GRAPH_TOP_K:
    case TSR_GRAPH_MAX_POOL2D:
    case TSR_GRAPH_AVG_POOL2D:
    case TSR_GRAPH_CONV2D:
        return find_of_rows(o, map, op, out_times);
    case TSR_GRAPH_CONCAT:
        if (!preserves_rows(op, NULL)) return refuse(o, op, "joins rows");
        return find_of_all(o, map, op, tsr_op_operand_count(op), out_times);
    case TSR_GRAPH_ATTENTION:
        return find_of_all(o, map, op, QUERIES_KEYS_VALUES, out_times);
    case TSR_GRAPH_GATHER:
        return find_of_gather(o, map, op, out_times);
    default:
        return refuse(o, op, "has no kernel for some of its rows");
    }
}

static bool has_open_operand(const tsr_value_map *map, MlirOperation op) {
    for (size_t i = 0; i < tsr_op_operand_count(op); i++)
        if (times_of(map, tsr_op_operand(op, i))) return true;
    return false;
}

/* ---- groups and their calls ------------------------------------------------------------------ */

/* The family must have a kernel for it. */
static TSR_RESULT check_kernel(const opener *o, MlirOperation group) {
    const char *kind = tsr_op_string(group, "kind");
    bool is_rows = kind && strcmp(kind, "rows") == 0;
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        if (tsr_op_is(op, TSR_SCHED_RETURN) || tsr_op_is(op, TSR_SCHED_UNPACK) || !row ||
            row->op_class == TSR_CLASS_MAP || row->op_class == TSR_CLASS_CONSTANT)
            continue;
        if ((is_rows && tsr_rows_is_sum(op)) || (!is_rows && !tsr_tile_op_is_open(op)))
            return refuse(o, op, "has no kernel for some of its rows");
    }
    return TSR_SUCCESS;
}

static bool is_empty(MlirOperation op) {
    tsr_type type;
    uint64_t count = 1;
    for (size_t i = 0; i < tsr_op_result_count(op); i++)
        if (tsr_value_type(tsr_op_result(op, i), &type) && tsr_shape_count(&type.shape, &count) &&
            count == 0)
            return true;
    return false;
}

/* The type with expressions, if the op was compared for several sizes. */
static MlirType open_type(MlirValue value) {
    MlirOperation op = tsr_value_owner(value);
    MlirAttribute all =
        mlirOperationIsNull(op) ? (MlirAttribute){NULL} : tsr_op_attr(op, TSR_OPEN_TYPES_NAME);
    if (mlirAttributeIsNull(all)) return mlirValueGetType(value);
    return mlirTypeAttrGetValue(mlirArrayAttrGetElement(all, mlirOpResultGetResultNumber(value)));
}

static bool has_open_dim(const tsr_shape *shape) {
    for (uint32_t d = 0; d < shape->rank; d++)
        if (tsr_dim_is_open(shape->dims[d])) return true;
    return false;
}

static bool is_open_type(MlirType type) {
    tsr_type read;
    return tsr_type_read(type, &read) && has_open_dim(&read.shape);
}

/* The number that, times the dim, is the first dim of the type, if all others are known; else 0. */
static uint64_t times_of_type(const opener *o, MlirType type) {
    tsr_type read;
    uint64_t times = 0;
    if (!tsr_type_read(type, &read) || !read.shape.rank || !tsr_dim_is_open(read.shape.dims[0]) ||
        !tsr_dim_divide(read.shape.dims[0], o->symbol, &times) || !tsr_dim_is_known(times))
        return 0;
    read.shape.dims[0] = 1;
    return has_open_dim(&read.shape) ? 0 : times;
}

/* The value, which is computed from no rows, has rows, and only elementwise ops that compute rows
 * read it. */
static bool only_rows_read(const opener *o, MlirValue value) {
    if (!times_of_type(o, open_type(value))) return false;
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use)) {
        MlirOperation reader = mlirOpOperandGetOwner(use);
        const tsr_op_row *row = tsr_op_row_find(reader);
        if (!row || row->op_class != TSR_CLASS_MAP ||
            !times_of_type(o, open_type(tsr_op_result(reader, 0))))
            return false;
    }
    return true;
}

/* The numbers of the op's attributes, except sizes, follow from no dim. */
static bool has_fixed_numbers(MlirOperation op) {
    size_t length = strlen(TSR_OPEN_NUMBERS_PREFIX);
    for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
        MlirStringRef name = mlirIdentifierStr(mlirOperationGetAttribute(op, i).name);
        if (name.length > length && memcmp(name.data, TSR_OPEN_NUMBERS_PREFIX, length) == 0 &&
            !tsr_ref_is(name, TSR_OPEN_NUMBERS_PREFIX "size"))
            return false;
    }
    return true;
}

/* The times that the rules found are those that comparison found. */
static bool agrees(const opener *o, const tsr_value_map *map, MlirOperation op) {
    if (!has_fixed_numbers(op)) return false;
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirValue value = tsr_op_result(op, i);
        MlirType type = open_type(value);
        if (!is_open_type(type)) continue;
        uint64_t times = times_of(map, value);
        if (times ? times != times_of_type(o, type) : !only_rows_read(o, value)) return false;
    }
    return true;
}

/* Finds the times of all values of the group; `times`: those of its inputs, then, set here, of its
 * outputs. */
static TSR_RESULT find_of_group(const opener *o, MlirOperation group, size_t input_count,
                                int64_t *times) {
    MlirBlock body = tsr_op_body(group);
    tsr_value_map map = {0};
    for (size_t i = 0; i < input_count; i++)
        TRY(o->ctx,
            set_times(o, &map, mlirBlockGetArgument(body, (intptr_t)i), (uint64_t)times[i]));
    TSR_FOR_EACH_OP(op, body) {
        uint64_t of_op = 0;
        if (tsr_op_is(op, TSR_SCHED_RETURN)) {
            for (size_t i = 0; i < tsr_op_operand_count(op); i++)
                times[input_count + 1 + i] = (int64_t)times_of(&map, tsr_op_operand(op, i));
            break;
        }
        if (!has_open_operand(&map, op)) continue;
        TRY(o->ctx, find_of_op(o, &map, op, &of_op));
        if (is_empty(op)) return refuse(o, op, "has a result without elements");
        for (size_t i = 0; i < tsr_op_result_count(op); i++)
            TRY(o->ctx, set_times(o, &map, tsr_op_result(op, i), of_op));
    }
    TRY(o->ctx, check_kernel(o, group));
    TSR_FOR_EACH_OP(op, body) {
        if (!agrees(o, &map, op)) return refuse(o, op, "moves or mixes rows");
    }
    return TSR_SUCCESS;
}

/* A clone of the group that has the dim as its last input. `types`: null, or those of a group with
 * extents. */
static MlirOperation make_open(const opener *o, MlirOperation group, MlirAttribute times,
                               MlirAttribute open_types) {
    MlirOperation made = mlirOperationClone(group);
    MlirBlock body = tsr_op_body(made);
    MlirContext context = mlirOperationGetContext(made);
    MlirType type = mlirTypeAttrGetValue(tsr_op_attr(made, "function_type"));
    MlirType types[ARGUMENTS_MAX + 1];
    intptr_t input_count = mlirFunctionTypeGetNumInputs(type);
    intptr_t result_count = mlirFunctionTypeGetNumResults(type);
    for (intptr_t i = 0; i < input_count; i++) types[i] = mlirFunctionTypeGetInput(type, i);
    types[input_count] = mlirValueGetType(o->dim);
    for (intptr_t i = 0; i < result_count; i++)
        types[input_count + 1 + i] = mlirFunctionTypeGetResult(type, i);
    mlirBlockAddArgument(body, types[input_count], mlirOperationGetLocation(made));
    tsr_op_set(made, "function_type",
               tsr_attr_make_type(mlirFunctionTypeGet(context, input_count + 1, types, result_count,
                                                      types + input_count + 1)));
    tsr_op_set(made, TSR_OPEN_TIMES_NAME, times);
    tsr_op_set(made, TSR_OPEN_HIGH_NAME, tsr_attr_make_i64(context, o->open.high));
    tsr_op_set(made, TSR_OPEN_SYMBOL_NAME, tsr_attr_make_string(context, o->open.dim));
    if (!mlirAttributeIsNull(open_types)) tsr_op_set(made, TSR_OPEN_TYPES_NAME, open_types);
    return made;
}

static bool are_equal(MlirAttribute a, MlirAttribute b) {
    return mlirAttributeIsNull(a) ? mlirAttributeIsNull(b)
                                  : !mlirAttributeIsNull(b) && mlirAttributeEqual(a, b);
}

/* The clone with these times and types; several calls can need different ones. */
static MlirOperation find_clone(const opener *o, MlirOperation group, MlirAttribute times,
                                MlirAttribute types) {
    char suffix[SUFFIX_BYTES] = "open";
    MlirOperation made = {NULL};
    for (unsigned i = 2;; i++) {
        made = tsr_clone_find(o->module, group, suffix);
        if (mlirOperationIsNull(made)) break;
        int64_t high = 0;
        const char *symbol = tsr_op_string(made, TSR_OPEN_SYMBOL_NAME);
        tsr_op_i64(made, TSR_OPEN_HIGH_NAME, &high);
        if (high == o->open.high && symbol && strcmp(symbol, o->open.dim) == 0 &&
            are_equal(tsr_op_attr(made, TSR_OPEN_TIMES_NAME), times) &&
            are_equal(tsr_op_attr(made, TSR_OPEN_TYPES_NAME), types))
            return made;
        snprintf(suffix, sizeof suffix, "open%u", i);
    }
    made = make_open(o, group, times, types);
    tsr_clone_add(o->module, group, made, suffix);
    return made;
}

/* ---- types of the entry's values ------------------------------------------------------------- */

static MlirType type_of(const opener *o, MlirValue value) {
    uint32_t number = tsr_value_map_get(&o->types, value);
    return number == UINT32_MAX ? mlirValueGetType(value) : o->list[number];
}

static TSR_RESULT set_type(opener *o, MlirValue value, MlirType type) {
    if (!is_open_type(type)) return TSR_SUCCESS;
    if (o->count == o->capacity) {
        MlirType *larger = TSR_ARENA_GROW(o->arena, o->list, &o->capacity, 64);
        if (!larger) FAIL(o->ctx, TSR_MEMORY, "no memory for the open dim of @%s", o->open.dim);
        o->list = larger;
    }
    if (!tsr_value_map_set(&o->types, o->arena, value, (uint32_t)o->count))
        FAIL(o->ctx, TSR_MEMORY, "no memory for the open dim of @%s", o->open.dim);
    o->list[o->count++] = type;
    return set_times(o, &o->times, value, times_of_type(o, type));
}

/* The type of rows: its first dim is a number times the dim. */
static MlirType rows_type(const opener *o, MlirType type, uint64_t times) {
    tsr_type read;
    if (!times || !tsr_type_read(type, &read) || !read.shape.rank ||
        !tsr_dim_multiply(times, o->symbol, &read.shape.dims[0]))
        return type;
    return tsr_type_make(mlirModuleGetContext(o->module), &read);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A call at hand: `types` and `times` of its operands, the dim, and its results. */
typedef struct open_group {
    MlirOperation call, group;
    size_t inputs, outputs;
    MlirType types[ARGUMENTS_MAX + 1];
    int64_t times[ARGUMENTS_MAX + 1];
    MlirValue operands[ARGUMENTS_MAX + 1];
} open_group;

static bool follows_from_dim(MlirOperation group) {
    TSR_FOR_EACH_OP(op, tsr_op_body(group)) {
        if (tsr_op_has(op, TSR_OPEN_TYPES_NAME) || tsr_op_has(op, TSR_OPEN_VALUE_NAME)) return true;
    }
    return false;
}

/* Calls a clone of the group that gets the dim. */
static TSR_RESULT finish_call(opener *o, open_group *g, bool has_extents) {
    MlirContext context = mlirModuleGetContext(o->module);
    size_t count = g->inputs + 1 + g->outputs;
    MlirAttribute types = {NULL}, *list = TSR_NEW(o->arena, MlirAttribute, count);
    if (!list) FAIL(o->ctx, TSR_MEMORY, "no memory for the open dim of @%s", o->open.dim);
    for (size_t i = 0; i < count; i++) list[i] = tsr_attr_make_type(g->types[i]);
    if (has_extents) types = mlirArrayAttrGet(context, (intptr_t)count, list);
    MlirAttribute times = tsr_attr_make_i64s(context, count, g->times);
    MlirOperation made = find_clone(o, g->group, times, types);
    mlirOperationSetOperands(g->call, (intptr_t)g->inputs + 1, g->operands);
    tsr_op_set(g->call, "callee", tsr_attr_make_symbol(context, tsr_op_symbol(made)));
    tsr_op_set(g->call, TSR_OPEN_TIMES_NAME, times);
    for (size_t i = 0; i < g->outputs; i++)
        TRY(o->ctx, set_type(o, tsr_op_result(g->call, i), g->types[g->inputs + 1 + i]));
    return TSR_SUCCESS;
}

/* The kernel for the largest size, with another number of rows. */
static bool takes_rows(const opener *o, open_group *g) {
    tsr_ctx ctx = {0};
    opener quiet = *o;
    quiet.ctx = &ctx;
    quiet.quiet = true;
    for (size_t i = 0; i < g->inputs; i++)
        if (!g->times[i] && is_open_type(g->types[i])) return false;
    if (find_of_group(&quiet, g->group, g->inputs, g->times).code) return false;
    for (size_t i = 0; i < g->outputs; i++) {
        size_t at = g->inputs + 1 + i;
        if (!g->times[at]) return false;
        g->types[at] =
            rows_type(o, mlirValueGetType(tsr_op_result(g->call, i)), (uint64_t)g->times[at]);
    }
    return true;
}

static tsr_dim_range range_of(void *user, const char *symbol) {
    const opener *o = user;
    (void)symbol;
    return (tsr_dim_range){o->open.low, o->open.high};
}

/* Each of its dims has elements for all sizes. */
static bool has_elements(const opener *o, MlirType type) {
    tsr_type read;
    tsr_arena arena = {0};
    bool all = tsr_type_read(type, &read);
    for (uint32_t d = 0; all && d < read.shape.rank; d++) {
        tsr_dim_expression e = tsr_dim_to_expression(&arena, read.shape.dims[d]);
        all = tsr_dim_expression_range(&e, range_of, (void *)(uintptr_t)o).low > 0;
        for (uint32_t i = 0; all && i < e.count; i++)
            for (uint32_t k = 0; all && k < e.terms[i].degree; k++)
                all = strcmp(e.terms[i].atoms[k], o->open.dim) == 0;
    }
    tsr_arena_finish(&arena);
    return all;
}

/* The op that has no kernel with extents; null if all have. *out_alone: one kernel computes the
 * whole group. */
static MlirOperation find_without(const opener *o, const open_group *g, bool *out_alone) {
    const char *kind = tsr_op_string(g->group, "kind");
    size_t roots = 0, others = 0;
    bool fuses = true;
    TSR_FOR_EACH_OP(op, tsr_op_body(g->group)) {
        const tsr_op_row *row = tsr_op_row_find(op);
        if (tsr_op_is(op, TSR_SCHED_RETURN) || (row && row->op_class == TSR_CLASS_CONSTANT))
            continue;
        bool is_map = row && row->op_class == TSR_CLASS_MAP && !tsr_op_is(op, TSR_GRAPH_PHILOX);
        if (!is_map && !tsr_tile_op_takes_extents(op)) return op;
        for (size_t i = 0; i < tsr_op_result_count(op); i++)
            if (!has_elements(o, open_type(tsr_op_result(op, i)))) return op;
        roots += !is_map;
        others += is_map;
        fuses = fuses && (is_map || (row && (row->op_class == TSR_CLASS_REDUCE ||
                                             row->op_class == TSR_CLASS_MATMUL)));
    }
    bool is_rows = kind && strcmp(kind, "rows") == 0;
    *out_alone = !is_rows && roots <= 1 && (fuses || !others);
    return (MlirOperation){NULL};
}

static TSR_RESULT open_call(opener *o, MlirOperation call);

static TSR_RESULT take_extents(opener *o, open_group *g) {
    bool alone = false;
    MlirOperation without = find_without(o, g, &alone);
    if (!mlirOperationIsNull(without)) {
        TRY(o->ctx, find_of_group(o, g->group, g->inputs, g->times)); /* says what is wrong */
        return refuse(o, without, "has no kernel for some of its rows");
    }
    if (!alone) {
        tsr_open_parts parts;
        TRY(o->ctx, tsr_open_split(o->ctx, o->arena, o->module, g->call, &parts));
        for (size_t i = 0; i < parts.count; i++) TRY(o->ctx, open_call(o, parts.calls[i]));
        return TSR_SUCCESS;
    }
    MlirOperation end = mlirBlockGetTerminator(tsr_op_body(g->group));
    for (size_t i = 0; i < g->outputs; i++) {
        size_t at = g->inputs + 1 + i;
        g->types[at] = open_type(tsr_op_operand(end, i));
        g->times[at] = (int64_t)times_of_type(o, g->types[at]);
    }
    return finish_call(o, g, true);
}

static TSR_RESULT open_call(opener *o, MlirOperation call) {
    open_group *g = TSR_NEW(o->arena, open_group, 1);
    if (!g) FAIL(o->ctx, TSR_MEMORY, "no memory for the open dim of @%s", o->open.dim);
    g->call = call;
    g->group = tsr_module_find(o->module, tsr_op_string(call, "callee"));
    g->inputs = tsr_op_operand_count(call);
    g->outputs = tsr_op_result_count(call);
    bool is_open = follows_from_dim(g->group);
    if (g->inputs + g->outputs >= ARGUMENTS_MAX)
        FAIL(o->ctx, TSR_COMPILE,
             "'%s' has %zu arguments; at most %d are possible with an open dim",
             tsr_op_symbol(g->group), g->inputs + g->outputs, ARGUMENTS_MAX - 1);
    for (size_t i = 0; i < g->inputs; i++) {
        g->operands[i] = tsr_op_operand(call, i);
        g->types[i] = type_of(o, g->operands[i]);
        g->times[i] = (int64_t)times_of(&o->times, g->operands[i]);
        is_open = is_open || is_open_type(g->types[i]);
    }
    if (!is_open) return TSR_SUCCESS;
    g->operands[g->inputs] = o->dim;
    g->types[g->inputs] = mlirValueGetType(o->dim);
    return takes_rows(o, g) ? finish_call(o, g, false) : take_extents(o, g);
}

/* ---- entries --------------------------------------------------------------------------------- */

static TSR_RESULT check_outputs(const opener *o, MlirOperation end) {
    for (size_t i = 0; i < tsr_op_operand_count(end); i++)
        if (times_of(&o->times, tsr_op_operand(end, i)) != (uint64_t)o->open.outputs[i])
            return refuse(o, end, "has an output whose rows do not come from an input");
    return TSR_SUCCESS;
}

/* A view, or a constant that the bundle holds: all of its elements are equal. */
static TSR_RESULT open_compared(opener *o, MlirOperation op) {
    MlirValue value = tsr_op_result(op, 0);
    MlirContext context = mlirModuleGetContext(o->module);
    if (!tsr_op_is_view(op) && !tsr_op_is(op, TSR_GRAPH_CONSTANT))
        return refuse(o, op, "needs all rows");
    TRY(o->ctx, set_type(o, value, open_type(value)));
    tsr_op_set(op, TSR_OPEN_TIMES_NAME,
               tsr_attr_make_i64(context, (int64_t)times_of(&o->times, value)));
    return TSR_SUCCESS;
}

static TSR_RESULT open_op(opener *o, MlirOperation op) {
    uint64_t times = 0;
    const tsr_op_row *row = tsr_op_row_find(op);
    if (row && row->op_class == TSR_CLASS_LOOP) return refuse(o, op, "is a loop");
    if (tsr_op_is(op, TSR_SCHED_CALL)) return open_call(o, op);
    if (tsr_op_is(op, TSR_FUNC_RETURN)) return check_outputs(o, op);
    if (tsr_op_has(op, TSR_OPEN_TYPES_NAME)) return open_compared(o, op);
    if (!has_open_operand(&o->times, op)) return TSR_SUCCESS;
    if (!tsr_op_is_view(op)) return refuse(o, op, "needs all rows");
    if (tsr_op_is(op, TSR_GRAPH_RESHAPE))
        TRY(o->ctx, find_of_reshape(o, op, &times));
    else
        TRY(o->ctx, find_of_rows(o, &o->times, op, &times));
    TRY(o->ctx, set_type(o, tsr_op_result(op, 0),
                         rows_type(o, mlirValueGetType(tsr_op_result(op, 0)), times)));
    return TSR_SUCCESS;
}

static TSR_RESULT open_entry(opener *o) {
    MlirBlock body = tsr_op_body(o->func);
    MlirOperation first = mlirBlockGetFirstOperation(body);
    MlirContext context = mlirOperationGetContext(o->func);
    tsr_builder at = tsr_builder_before(first);
    at.location = mlirOperationGetLocation(o->func);
    MlirType scalar = mlirRankedTensorTypeGet(0, NULL, tsr_dtype_make(context, TSR_DTYPE_I64),
                                              mlirAttributeGetNull());
    o->dim = tsr_build_value(&at, "tsched.dim", NULL, 0, scalar, NULL);
    if (!tsr_dim_read(tsr_attr_make_string(context, o->open.dim), &o->symbol))
        FAIL(o->ctx, TSR_INTERNAL, "@%s: '%s' is no symbol", tsr_op_symbol(o->func), o->open.dim);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) {
        MlirValue argument = mlirBlockGetArgument(body, i);
        MlirType type = rows_type(o, mlirValueGetType(argument), (uint64_t)o->open.inputs[i]);
        TRY(o->ctx, set_type(o, argument, type));
    }
    MlirOperation next, op = mlirBlockGetFirstOperation(body);
    for (; !mlirOperationIsNull(op); op = next) {
        next = mlirOperationGetNextInBlock(op);
        TRY(o->ctx, open_op(o, op));
    }
    return TSR_SUCCESS;
}

static bool is_native(MlirModule module) {
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    return numerics && strcmp(numerics, "native") == 0;
}

/* Removes attributes that are set here. */
static void forget(MlirModule module) {
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(TSR_OPEN_TIMES_NAME));
        mlirOperationRemoveDiscardableAttributeByName(op, tsr_ref(TSR_OPEN_HIGH_NAME));
        if (!tsr_graph_is_lowered_func(op)) continue;
        TSR_FOR_EACH_OP(call, tsr_op_body(op))
        mlirOperationRemoveDiscardableAttributeByName(call, tsr_ref(TSR_OPEN_TIMES_NAME));
    }
}

tsr_result tsr_tile_open_entries(tsr_ctx *ctx, const tsr_target *target, MlirModule module,
                                 tsr_arena *arena) {
    tsr_result result = TSR_SUCCESS;
    forget(module);
    tsr_clones_begin(module);
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        opener o = {.ctx = ctx, .arena = arena, .module = module, .func = func};
        if (!tsr_graph_is_lowered_func(func) || !tsr_graph_open_read(func, &o.open)) continue;
        if (target->warp_lanes) TRY_GOTO(ctx, result, refuse(&o, func, "is built for a GPU"));
        if (is_native(module))
            TRY_GOTO(ctx, result, refuse(&o, func, "is built with native numerics"));
        TRY_GOTO(ctx, result, open_entry(&o));
    }
done:
    tsr_clones_end(module);
    return result;
}

/* ---- kernels --------------------------------------------------------------------------------- */

tsr_result tsr_tile_open_begin(tsr_tile_group *group) {
    tsr_tile_builder *b = &group->b;
    if (!tsr_op_has(group->op, TSR_OPEN_HIGH_NAME)) return TSR_SUCCESS;
    if (!tsr_op_i64(group->op, TSR_OPEN_HIGH_NAME, &group->open_high) || group->open_high < 1 ||
        !group->input_count)
        FAIL(group->ctx, TSR_INTERNAL, "'%s' has an open dim without a size", group->name);
    MlirValue size = tsr_tile_load(b, TSR_DTYPE_I64, group->buffers[group->input_count - 1],
                                   tsr_tile_index(b, 0), 0, tsr_tile_null);
    group->open_size = tsr_tile_to(b, "arith.index_cast", size, tsr_tile_index_type(b));
    group->open = (tsr_open_sizes){.count = 1,
                                   .symbols = {tsr_op_string(group->op, TSR_OPEN_SYMBOL_NAME)},
                                   .high = {group->open_high},
                                   .values = {group->open_size}};
    b->open = group->open.symbols[0] ? &group->open : NULL;
    MlirAttribute types = tsr_op_attr(group->op, TSR_OPEN_TYPES_NAME);
    group->has_extents = !mlirAttributeIsNull(types);
    for (uint32_t i = 0; group->has_extents && i < group->input_count + group->output_count; i++)
        if (!tsr_type_read(mlirTypeAttrGetValue(mlirArrayAttrGetElement(types, i)),
                           &group->types[i]))
            FAIL(group->ctx, TSR_INTERNAL, "'%s' has an argument without a type", group->name);
    return TSR_SUCCESS;
}

bool tsr_tile_group_type(const tsr_tile_group *group, MlirValue value, tsr_type *out_type) {
    if (!group->has_extents) return tsr_value_type(value, out_type);
    if (!mlirValueIsABlockArgument(value)) return tsr_type_read(open_type(value), out_type);
    *out_type = group->types[mlirBlockArgumentGetArgNumber(value)];
    return true;
}

bool tsr_tile_group_numbers(const tsr_tile_group *group, MlirOperation op, const char *name,
                            int64_t out_extents[TSR_RANK_MAX], size_t *out_count) {
    char open[64];
    snprintf(open, sizeof open, TSR_OPEN_NUMBERS_PREFIX "%s", name);
    MlirAttribute list = tsr_op_attr(op, open);
    if (!group->has_extents || mlirAttributeIsNull(list))
        return tsr_op_i64s(op, name, TSR_RANK_MAX, out_extents, out_count);
    *out_count = (size_t)mlirArrayAttrGetNumElements(list);
    for (size_t i = 0; i < *out_count; i++) {
        uint64_t dim;
        if (i == TSR_RANK_MAX || !tsr_dim_read(mlirArrayAttrGetElement(list, (intptr_t)i), &dim))
            return false;
        out_extents[i] = (int64_t)dim;
    }
    return true;
}

MlirValue tsr_tile_open_count(tsr_tile_group *group, int64_t count) {
    if (!group->open_high) return tsr_tile_index(&group->b, count);
    TSR_ASSERT(count % group->open_high == 0);
    return tsr_tile_mul(&group->b, group->open_size, count / group->open_high);
}

void tsr_tile_open_grid(tsr_tile_group *group, int64_t count, int64_t each, int64_t parts) {
    if (!group->open_high) return;
    TSR_ASSERT(count % group->open_high == 0);
    group->open_grid[0] = count / group->open_high;
    group->open_grid[1] = each;
    group->open_grid[2] = parts;
}
