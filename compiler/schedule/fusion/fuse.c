/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tsched-fuse: reads each entry into the structs of fusion.h, has the groups planned, writes
 * them as tsched.func (one for all equal groups) and replaces the entry's ops by calls.
 */
#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/ir/value_map.h"
#include "compiler/resilience/resilience.h"
#include "compiler/schedule/fusion/fusion.h"
#include "compiler/schedule/fusion/rows.h"
#include "compiler/schedule/schedule.h"
#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { GROUP_NAME_OPS = 4, ENTRY_OPS_MAX = 1 << 22 };

typedef struct group_text {
    const char *text; /* text of the function without a name */
    const char *symbol;
} group_text;

typedef struct fuser {
    tsr_ctx ctx;
    tsr_arena arena;
    MlirModule module;
    MlirContext mlir;
    group_text *groups; /* groups written until now */
    uint32_t group_count;
    size_t group_capacity;
    const char **taken; /* symbols that were there before */
    size_t taken_count;
    bool native; /* native numerics on GPUs */
} fuser;

typedef struct entry {
    MlirOperation func;
    tsr_fuse_node *nodes;
    const tsr_op_row **rows; /* node -> row of its op; NULL for an argument */
    MlirOperation *ops;      /* node -> op; null for an argument */
    MlirValue *values;       /* node -> its present value in the entry */
    uint32_t node_count;
    MlirOperation *sinks;
    uint32_t sink_count;
    tsr_value_map numbers; /* value -> node */
    const char **planned;  /* groups of plans, by number - 1 */
    uint32_t planned_count;
    size_t planned_capacity;
    bool *escapes; /* node -> true if the entry returns it, or an op without a kernel reads it */
} entry;

/* ---- read ---- */

static tsr_fuse_kind kind_of(const tsr_op_row *row, MlirOperation op) {
    switch (row->op_class) {
    case TSR_CLASS_MAP:
        return TSR_FUSE_MAP;
    case TSR_CLASS_MATMUL:
        return TSR_FUSE_MATMUL;
    case TSR_CLASS_REDUCE:
        return TSR_FUSE_REDUCE;
    case TSR_CLASS_MOVE:
    case TSR_CLASS_ALONE:
    case TSR_CLASS_WIDE:
    case TSR_CLASS_BARRIER:
    case TSR_CLASS_LOOP:
    case TSR_CLASS_COLLECTIVE:
    case TSR_CLASS_TAKE:
    case TSR_CLASS_JOIN:
        return TSR_FUSE_ALONE;
    case TSR_CLASS_CONSTANT:
        return mlirAttributeIsNull(tsr_attr_splat_element(tsr_op_attr(op, "value")))
                   ? TSR_FUSE_SOURCE
                   : TSR_FUSE_SPLAT;
    default:
        return TSR_FUSE_SOURCE;
    }
}

/* Returns the number of the planned group of the op; ops of one group mostly follow one another. */
static TSR_RESULT find_planned(fuser *f, entry *e, MlirOperation op, uint32_t *out_number) {
    const char *name = tsr_op_string(op, TSR_PLANNED_GROUP);
    *out_number = 0;
    if (!name) return TSR_SUCCESS;
    uint32_t i = e->planned_count;
    while (i > 0 && strcmp(e->planned[i - 1], name) != 0) i--;
    if (i == 0 && e->planned_count == e->planned_capacity) {
        const char **larger = TSR_ARENA_GROW(&f->arena, e->planned, &e->planned_capacity, 16);
        if (!larger) FAIL(&f->ctx, TSR_MEMORY, "no memory to read an entry");
        e->planned = larger;
    }
    if (i == 0) {
        e->planned[e->planned_count++] = name;
        i = e->planned_count;
    }
    *out_number = i;
    return TSR_SUCCESS;
}

static bool is_barrier(const tsr_op_row *row) {
    return row && (row->op_class == TSR_CLASS_BARRIER || row->op_class == TSR_CLASS_LOOP);
}

static bool is_collective(const tsr_op_row *row) {
    return row && (row->op_class == TSR_CLASS_COLLECTIVE || row->op_class == TSR_CLASS_TAKE ||
                   row->op_class == TSR_CLASS_JOIN);
}

static bool is_no_kernel(const tsr_op_row *row) { return is_barrier(row) || is_collective(row); }

static TSR_RESULT add_node(fuser *f, entry *e, MlirValue value, MlirOperation op,
                           const tsr_op_row *row) {
    tsr_fuse_node node = {.kind = row ? kind_of(row, op) : TSR_FUSE_SOURCE,
                          .weight = row ? row->weight : 0,
                          .faults = row && row->faults,
                          .vrank = row && row->op_class == TSR_CLASS_VRANK,
                          .casts = row && row->op_class == TSR_CLASS_WIDE,
                          .is_cast = row && tsr_op_is_width_cast(op),
                          .no_kernel = is_no_kernel(row),
                          .replaces = TSR_FUSE_NONE};
    tsr_type type;
    if (tsr_sr_is_token(mlirValueGetType(value)))
        type = tsr_type_scalar(TSR_DTYPE_I1); /* too small to count */
    else if (!tsr_value_type(value, &type) || !tsr_type_is_static(&type)) {
        tsr_diag_error(mlirOperationGetLocation(row ? op : e->func), TSR_DIAG_DYNAMIC,
                       "every dimension must be known here");
        FAIL(&f->ctx, TSR_COMPILE, "a value has no static type");
    }
    node.dtype = type.dtype;
    node.shape = type.shape;
    if (row && node.kind != TSR_FUSE_SOURCE && node.kind != TSR_FUSE_SPLAT) {
        uint32_t count = (uint32_t)tsr_op_operand_count(op);
        uint32_t *operands = TSR_NEW(&f->arena, uint32_t, (size_t)count + 1);
        if (!operands) FAIL(&f->ctx, TSR_MEMORY, "no memory to read an entry");
        for (uint32_t i = 0; i < count; i++) {
            operands[i] = tsr_value_map_get(&e->numbers, tsr_op_operand(op, i));
            TSR_ASSERT(operands[i] < e->node_count);
            node.vrank = node.vrank || e->nodes[operands[i]].vrank;
        }
        if (row->op_class == TSR_CLASS_COLLECTIVE || row->op_class == TSR_CLASS_JOIN)
            node.vrank = false;
        node.vrank = node.vrank || row->op_class == TSR_CLASS_TAKE;
        node.vrank = node.vrank && !tsr_sr_is_token(mlirValueGetType(value));
        if (!is_no_kernel(row)) TRY(&f->ctx, find_planned(f, e, op, &node.planned));
        node.operand_count = count;
        node.operands = operands;
        node.fills = tsr_op_is(op, TSR_GRAPH_SCATTER_ADD) || tsr_op_is(op, TSR_GRAPH_SCATTER);
        node.on_units = f->native && node.kind == TSR_FUSE_MATMUL &&
                        tsr_dtype_size(e->nodes[operands[0]].dtype) == 2;
        tsr_rows_note(op, &node);
        if (!f->native) node.sums_rows = false;
    }
    e->nodes[e->node_count] = node;
    e->rows[e->node_count] = row;
    e->ops[e->node_count] = op;
    e->values[e->node_count] = value;
    if (!tsr_value_map_set(&e->numbers, &f->arena, value, e->node_count))
        FAIL(&f->ctx, TSR_MEMORY, "no memory to read an entry");
    e->node_count++;
    return TSR_SUCCESS;
}

/* Adds the results after the first as PART nodes after the op's node. */
static TSR_RESULT add_parts(fuser *f, entry *e, MlirOperation op) {
    uint32_t owner = e->node_count - 1;
    for (size_t i = 1; i < tsr_op_result_count(op); i++) {
        uint32_t *operand = TSR_NEW(&f->arena, uint32_t, 1);
        if (!operand) FAIL(&f->ctx, TSR_MEMORY, "no memory to read an entry");
        TRY(&f->ctx, add_node(f, e, tsr_op_result(op, i), op, NULL));
        *operand = owner;
        e->nodes[e->node_count - 1].kind = TSR_FUSE_PART;
        e->nodes[e->node_count - 1].vrank = e->nodes[owner].vrank;
        e->nodes[e->node_count - 1].planned = e->nodes[owner].planned;
        e->nodes[e->node_count - 1].operand_count = 1;
        e->nodes[e->node_count - 1].operands = operand;
    }
    return TSR_SUCCESS;
}

static bool is_sink(MlirOperation op) {
    const tsr_op_row *row = tsr_op_row_find(op);
    return (row && row->op_class == TSR_CLASS_SINK) || tsr_op_is(op, TSR_FUNC_RETURN);
}

static TSR_RESULT entry_alloc(fuser *f, entry *e) {
    size_t count = 0;
    MlirBlock block = tsr_op_body(e->func);
    TSR_FOR_EACH_OP(op, block) {
        size_t results = tsr_op_result_count(op);
        count += results ? results : 1;
    }
    count += (size_t)mlirBlockGetNumArguments(block);
    if (count > ENTRY_OPS_MAX) {
        tsr_diag_error(mlirOperationGetLocation(e->func), TSR_DIAG_PASS,
                       "@%s has %zu ops; at most %d can be scheduled", tsr_op_symbol(e->func),
                       count, ENTRY_OPS_MAX);
        FAIL(&f->ctx, TSR_COMPILE, "too many ops");
    }
    e->nodes = TSR_NEW(&f->arena, tsr_fuse_node, count + 1);
    e->rows = TSR_NEW(&f->arena, const tsr_op_row *, count + 1);
    e->ops = TSR_NEW(&f->arena, MlirOperation, count + 1);
    e->values = TSR_NEW(&f->arena, MlirValue, count + 1);
    e->sinks = TSR_NEW(&f->arena, MlirOperation, count + 1);
    e->escapes = TSR_NEW(&f->arena, bool, count + 1);
    if (!e->nodes || !e->rows || !e->ops || !e->values || !e->sinks || !e->escapes)
        FAIL(&f->ctx, TSR_MEMORY, "no memory for an entry of %zu ops", count);
    return TSR_SUCCESS;
}

/* Numbers the first node that reads each tensor. */
static void number_reads(const entry *e, tsr_names *out_reads) {
    for (uint32_t i = 0; i < e->node_count; i++) {
        if (!e->rows[i] || e->rows[i]->op_class != TSR_CLASS_SOURCE) continue;
        const char *name = tsr_op_string(e->ops[i], "name");
        if (name) tsr_names_add(out_reads, name, i);
    }
}

static void mark_live_out(entry *e, bool native) {
    tsr_names reads = {0};
    number_reads(e, &reads);
    for (uint32_t s = 0; s < e->sink_count; s++) {
        MlirOperation sink = e->sinks[s];
        for (size_t k = 0; k < tsr_op_operand_count(sink); k++) {
            uint32_t node = tsr_value_map_get(&e->numbers, tsr_op_operand(sink, k));
            TSR_ASSERT(node < e->node_count);
            e->nodes[node].live_out = true;
            if (tsr_op_is(sink, TSR_GRAPH_ASSIGN))
                e->nodes[node].replaces = tsr_names_find(&reads, tsr_op_string(sink, "target"));
            /* batch.c puts such steps into one kernel. */
            e->nodes[node].apart = native && e->nodes[node].kind == TSR_FUSE_MAP &&
                                   e->nodes[node].replaces != TSR_FUSE_NONE;
        }
    }
    tsr_names_finish(&reads);
    for (uint32_t i = 0; i < e->node_count; i++) {
        const tsr_fuse_node *node = &e->nodes[i];
        e->escapes[i] = e->escapes[i] || node->live_out;
        for (uint32_t k = 0; k < node->operand_count && is_no_kernel(e->rows[i]); k++)
            e->escapes[node->operands[k]] = true;
    }
}

/* Checks that the op at the end of the nodes, with its parts, fits in a kernel of its own. */
static TSR_RESULT check_arguments(fuser *f, const entry *e, MlirOperation op) {
    size_t results = tsr_op_result_count(op), count = results;
    const tsr_fuse_node *node = &e->nodes[e->node_count - results];
    for (uint32_t i = 0; i < node->operand_count && !node->no_kernel; i++) {
        uint32_t k = 0;
        while (k < i && node->operands[k] != node->operands[i]) k++;
        count += k == i;
    }
    if (count <= TSR_FUSE_ARGUMENTS_MAX || node->no_kernel) return TSR_SUCCESS;
    tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_NO_KERNEL,
                   "%s: has %zu operands and results; a kernel has at most %d", tsr_op_name(op),
                   count, TSR_FUSE_ARGUMENTS_MAX);
    FAIL(&f->ctx, TSR_COMPILE, "no kernel can compute %s", tsr_op_name(op));
}

static TSR_RESULT entry_read(fuser *f, entry *e) {
    MlirBlock block = tsr_op_body(e->func);
    TRY(&f->ctx, entry_alloc(f, e));
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        TRY(&f->ctx, add_node(f, e, mlirBlockGetArgument(block, i),
                              mlirBlockGetParentOperation(block), NULL));
    TSR_FOR_EACH_OP(op, block) {
        const tsr_op_row *row = tsr_op_row_find(op);
        if (is_sink(op)) {
            e->sinks[e->sink_count++] = op;
            continue;
        }
        size_t results = tsr_op_result_count(op);
        bool many = row && (row->op_class == TSR_CLASS_ALONE || is_barrier(row));
        if (!row || !results || (results > 1 && !many)) {
            tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_NO_KERNEL,
                           "%s: no kernel can compute this op", tsr_op_name(op));
            FAIL(&f->ctx, TSR_COMPILE, "no kernel can compute %s", tsr_op_name(op));
        }
        TRY(&f->ctx, add_node(f, e, tsr_op_result(op, 0), op, row));
        TRY(&f->ctx, add_parts(f, e, op));
        TRY(&f->ctx, check_arguments(f, e, op));
    }
    mark_live_out(e, f->native);
    return TSR_SUCCESS;
}

/* ---- write ---- */

/* Approximate number of floating-point operations. */
static int64_t group_flops(const entry *e, const tsr_fuse_group *group) {
    uint64_t flops = group->operations;
    if (group->root != TSR_FUSE_NONE) {
        uint64_t work = tsr_op_work(e->ops[group->root]);
        if (__builtin_add_overflow(flops, work, &flops)) flops = INT64_MAX;
    }
    return flops > INT64_MAX ? INT64_MAX : (int64_t)flops;
}

static const char *short_name(const tsr_op_row *row) {
    return tsr_op_text(row->id) + strlen("tessera.");
}

/* "k7_matmul_add_relu": unique because of its number; a valid C identifier. */
static const char *group_symbol(fuser *f, const entry *e, const tsr_fuse_group *group) {
    tsr_buffer text = {0};
    uint32_t shown = 0, hidden = 0;
    tsr_buffer_printf(&text, "k%u", f->group_count);
    for (uint32_t i = 0; i < group->node_count; i++) {
        const tsr_op_row *row = e->rows[group->nodes[i]];
        if (!row || row->op_class == TSR_CLASS_CONSTANT) continue;
        if (group->rows && e->nodes[group->nodes[i]].kind == TSR_FUSE_REPAIR) continue;
        if (shown < GROUP_NAME_OPS)
            tsr_buffer_printf(&text, "_%s", short_name(row));
        else
            hidden++;
        shown++;
    }
    if (hidden) tsr_buffer_printf(&text, "_and_%u", hidden);
    char *symbol = text.failed ? NULL : tsr_arena_strdup(&f->arena, text.bytes);
    tsr_buffer_finish(&text);
    for (char *c = symbol; c && *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return symbol;
}

static uint32_t anchor(const tsr_fuse_group *group) {
    return group->root != TSR_FUSE_NONE ? group->root : group->outputs[group->output_count - 1];
}

/* Copies of the group's ops at the end of `block`; `outputs` receives the values to return. */
static TSR_RESULT write_body(fuser *f, const entry *e, const tsr_fuse_group *group, MlirBlock block,
                             MlirValue *outputs) {
    tsr_value_map arguments = {0}, inner = {0}; /* value in the entry -> index */
    MlirValue *made = TSR_NEW(&f->arena, MlirValue, (size_t)group->node_count + 1);
    if (!made) FAIL(&f->ctx, TSR_MEMORY, "no memory to write a group");
    for (uint32_t i = 0; i < group->input_count; i++)
        if (!tsr_value_map_set(&arguments, &f->arena, e->values[group->inputs[i]], i))
            FAIL(&f->ctx, TSR_MEMORY, "no memory to write a group");
    for (uint32_t i = 0; i < group->node_count; i++) {
        uint32_t node = group->nodes[i];
        if (e->nodes[node].kind == TSR_FUSE_PART) {
            uint32_t owner = tsr_value_map_get(&inner, e->values[e->nodes[node].operands[0]]);
            size_t part = node - e->nodes[node].operands[0];
            made[i] = tsr_op_result(tsr_value_owner(made[owner]), part);
            if (!tsr_value_map_set(&inner, &f->arena, e->values[node], i))
                FAIL(&f->ctx, TSR_MEMORY, "no memory to write a group");
            continue;
        }
        MlirOperation copy = mlirOperationClone(e->ops[node]);
        mlirOperationRemoveDiscardableAttributeByName(copy, tsr_ref(TSR_PLANNED_GROUP));
        mlirBlockAppendOwnedOperation(block, copy);
        for (uint32_t k = 0; k < e->nodes[node].operand_count; k++) {
            uint32_t operand = e->nodes[node].operands[k];
            uint32_t member = tsr_value_map_get(&inner, e->values[operand]);
            uint32_t argument = tsr_value_map_get(&arguments, e->values[operand]);
            bool whole = argument != UINT32_MAX && e->nodes[node].kind != TSR_FUSE_MAP;
            TSR_ASSERT(member != UINT32_MAX || argument != UINT32_MAX);
            mlirOperationSetOperand(copy, (intptr_t)k,
                                    member == UINT32_MAX || whole
                                        ? mlirBlockGetArgument(block, (intptr_t)argument)
                                        : made[member]);
        }
        made[i] = tsr_op_result(copy, 0);
        if (!tsr_value_map_set(&inner, &f->arena, e->values[node], i))
            FAIL(&f->ctx, TSR_MEMORY, "no memory to write a group");
    }
    for (uint32_t i = 0; i < group->output_count; i++)
        outputs[i] = made[tsr_value_map_get(&inner, e->values[group->outputs[i]])];
    return TSR_SUCCESS;
}

/* Reads the tile sizes that a plan gave the op, or null: a module that was read may have any
 * attribute there. */
static TSR_RESULT read_chosen(fuser *f, MlirOperation op, MlirAttribute *out_chosen) {
    enum { SIZES_MAX = 8 };
    int64_t sizes[SIZES_MAX];
    size_t count = 0;
    *out_chosen = mlirAttributeGetNull();
    if (!tsr_op_has(op, TSR_CHOSEN_TILE)) return TSR_SUCCESS;
    if (!tsr_op_i64s(op, TSR_CHOSEN_TILE, SIZES_MAX, sizes, &count)) {
        tsr_diag_error(mlirOperationGetLocation(op), TSR_DIAG_GROUP_TILE,
                       "%s: " TSR_CHOSEN_TILE " is not an array of at most %d integers",
                       tsr_op_name(op), SIZES_MAX);
        FAIL(&f->ctx, TSR_COMPILE, "invalid tile sizes");
    }
    *out_chosen = tsr_attr_make_i64s(f->mlir, count, sizes);
    return TSR_SUCCESS;
}

/* The group as a tsched.func without a name, not yet in the module. */
static TSR_RESULT write_group(fuser *f, const entry *e, const tsr_fuse_group *group,
                              MlirOperation *out_func) {
    MlirType inputs[TSR_FUSE_ARGUMENTS_MAX], results[TSR_FUSE_ARGUMENTS_MAX];
    MlirLocation locations[TSR_FUSE_ARGUMENTS_MAX];
    MlirValue outputs[TSR_FUSE_ARGUMENTS_MAX];
    MlirLocation location = mlirOperationGetLocation(e->ops[anchor(group)]);
    const tsr_op_row *row = e->rows[anchor(group)];
    MlirAttribute chosen;
    TRY(&f->ctx, read_chosen(f, e->ops[anchor(group)], &chosen));
    for (uint32_t i = 0; i < group->input_count; i++) {
        inputs[i] = mlirValueGetType(e->values[group->inputs[i]]);
        locations[i] = location;
    }
    for (uint32_t i = 0; i < group->output_count; i++)
        results[i] = mlirValueGetType(e->values[group->outputs[i]]);
    MlirBlock block = mlirBlockCreate((intptr_t)group->input_count, inputs, locations);
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_result result = write_body(f, e, group, block, outputs);
    if (result.code) {
        mlirRegionDestroy(region);
        return result;
    }
    tsr_builder inside = tsr_builder_at_end(block, location);
    tsr_build(&inside, &(tsr_op_desc){.name = "tsched.return",
                                      .operand_count = group->output_count,
                                      .operands = outputs});
    MlirType type = mlirFunctionTypeGet(f->mlir, (intptr_t)group->input_count, inputs,
                                        (intptr_t)group->output_count, results);
    uint64_t bytes = group->read_bytes + group->written_bytes;
    bool is_chosen = !mlirAttributeIsNull(chosen);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(f->mlir, "")},
        {"function_type", tsr_attr_make_type(type)},
        {"kind", tsr_attr_make_string(f->mlir, group->rows ? "rows" : tsr_op_group_kind(row))},
        {"source", tsr_attr_make_string(f->mlir, is_chosen || group->planned ? "user" : "default")},
        {"flops", tsr_attr_make_i64(f->mlir, group_flops(e, group))},
        {"bytes", tsr_attr_make_i64(f->mlir, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes)},
        {"tile", chosen}, /* the last attribute: dropped if no plan chose sizes */
    };
    tsr_builder outside = tsr_builder_at_end(mlirModuleGetBody(f->module), location);
    *out_func = tsr_build(&outside, &(tsr_op_desc){.name = "tsched.func",
                                                   .attr_count = TSR_COUNT(attrs) - !is_chosen,
                                                   .attrs = attrs,
                                                   .region_count = 1,
                                                   .regions = &region});
    return TSR_SUCCESS;
}

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

/* Prints only the op: without local scope, MLIR would number the values of the whole module each
 * time. The form is generic, because a function without a name has no other form. */
static void print_alone(MlirOperation op, tsr_buffer *out) {
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsUseLocalScope(flags);
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
    mlirOperationPrintWithFlags(op, flags, append, out);
    mlirOpPrintingFlagsDestroy(flags);
}

static TSR_RESULT note_taken(fuser *f) {
    MlirBlock body = mlirModuleGetBody(f->module);
    size_t count = 0;
    TSR_FOR_EACH_OP(op, body) count++;
    f->taken = TSR_NEW(&f->arena, const char *, count + 1);
    if (!f->taken) FAIL(&f->ctx, TSR_MEMORY, "no memory for the names of %zu functions", count);
    TSR_FOR_EACH_OP(op, body) {
        if (tsr_op_has(op, "sym_name")) f->taken[f->taken_count++] = tsr_op_symbol(op);
    }
    return TSR_SUCCESS;
}

/* `symbol`, followed by the number of "_" that makes it differ from the names taken; NULL if out
 * of memory. No two groups have the same number, so their names stay distinct. */
static const char *free_symbol(fuser *f, const char *symbol) {
    for (size_t i = 0; symbol && i < f->taken_count; i++) {
        if (strcmp(f->taken[i], symbol) != 0) continue;
        symbol = tsr_arena_printf(&f->arena, "%s_", symbol);
        i = SIZE_MAX; /* restart at the first name */
    }
    return symbol;
}

/* Names the function `symbol`, or finds an equal function and erases this one. */
static TSR_RESULT intern_group(fuser *f, MlirOperation func, const char *symbol,
                               const char **out_symbol) {
    tsr_buffer text = {0};
    print_alone(func, &text);
    char *copy = text.failed ? NULL : tsr_arena_strdup(&f->arena, text.bytes);
    tsr_buffer_finish(&text);
    symbol = free_symbol(f, symbol);
    if (!copy || !symbol) FAIL(&f->ctx, TSR_MEMORY, "no memory to write a group");
    for (uint32_t i = 0; i < f->group_count; i++) {
        if (strcmp(f->groups[i].text, copy) != 0) continue;
        mlirOperationDestroy(func);
        *out_symbol = f->groups[i].symbol;
        return TSR_SUCCESS;
    }
    if (f->group_count == f->group_capacity) {
        group_text *larger = TSR_ARENA_GROW(&f->arena, f->groups, &f->group_capacity, 64);
        if (!larger) FAIL(&f->ctx, TSR_MEMORY, "no memory to write a group");
        f->groups = larger;
    }
    tsr_op_set(func, "sym_name", tsr_attr_make_string(f->mlir, symbol));
    f->groups[f->group_count++] = (group_text){.text = copy, .symbol = symbol};
    *out_symbol = symbol;
    return TSR_SUCCESS;
}

/* A reshape of a value that one kernel passes to others is a view of its buffer. */
static bool is_view(const entry *e, const tsr_fuse_group *group) {
    if (group->root == TSR_FUSE_NONE || !tsr_op_is_view(e->ops[group->root])) return false;
    uint32_t from = e->nodes[group->root].operands[0];
    const tsr_fuse_node *maker = &e->nodes[from];
    uint32_t owner = maker->kind == TSR_FUSE_PART ? maker->operands[0] : from;
    bool made = maker->kind != TSR_FUSE_SOURCE && maker->kind != TSR_FUSE_SPLAT &&
                !is_no_kernel(e->rows[owner]);
    return made && !group->planned && group->node_count == 1 && !e->escapes[from] &&
           !e->escapes[group->root];
}

/* A barrier, collective or view is not a kernel: it stays in the entry, at its position among the
 * calls. */
static MlirOperation write_op(entry *e, const tsr_fuse_group *group) {
    MlirOperation op = e->ops[group->root], copy = mlirOperationClone(op);
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(op), e->sinks[0], copy);
    for (uint32_t i = 0; i < e->nodes[group->root].operand_count; i++)
        mlirOperationSetOperand(copy, (intptr_t)i, e->values[e->nodes[group->root].operands[i]]);
    for (size_t i = 0; i < tsr_op_result_count(op); i++) {
        MlirValue value = tsr_op_result(copy, i);
        mlirValueReplaceAllUsesOfWith(tsr_op_result(op, i), value);
        e->values[group->root + i] = value;
    }
    return copy;
}

/* A group that adds two values of this type, not yet named. */
static MlirOperation write_sum(fuser *f, MlirType type, MlirLocation location) {
    const MlirType inputs[] = {type, type};
    MlirBlock block = mlirBlockCreate(2, inputs, (MlirLocation[]){location, location});
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    tsr_builder inside = tsr_builder_at_end(block, location);
    const MlirValue values[] = {mlirBlockGetArgument(block, 0), mlirBlockGetArgument(block, 1)};
    MlirValue sum = tsr_build_value(&inside, "tessera.add", values, 2, type, NULL);
    tsr_build(&inside,
              &(tsr_op_desc){.name = "tsched.return", .operand_count = 1, .operands = &sum});
    tsr_type read = {0};
    uint64_t count = 0, size = 0;
    bool fits = tsr_type_read(type, &read) && tsr_shape_count(&read.shape, &count) &&
                tsr_shape_size(&read.shape, read.dtype, &size);
    TSR_ASSERT(fits);
    const tsr_attr attrs[] = {
        {"sym_name", tsr_attr_make_string(f->mlir, "")},
        {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(f->mlir, 2, inputs, 1, &type))},
        {"kind", tsr_attr_make_string(f->mlir, "map")},
        {"source", tsr_attr_make_string(f->mlir, "default")},
        {"flops", tsr_attr_make_i64(f->mlir, (int64_t)count)},
        {"bytes", tsr_attr_make_i64(f->mlir, (int64_t)(3 * size))}};
    tsr_builder outside = tsr_builder_at_end(mlirModuleGetBody(f->module), location);
    return tsr_build(&outside, &(tsr_op_desc){.name = "tsched.func",
                                              .attr_count = TSR_COUNT(attrs),
                                              .attrs = attrs,
                                              .region_count = 1,
                                              .regions = &region});
}

/* A sum over virtual ranks names the kernel that adds two values. */
static TSR_RESULT write_collective(fuser *f, entry *e, const tsr_fuse_group *group) {
    MlirOperation op = write_op(e, group);
    const char *symbol = NULL;
    if (!tsr_op_is(op, TSR_SR_VRANK_SUM)) return TSR_SUCCESS;
    MlirOperation func =
        write_sum(f, mlirValueGetType(tsr_op_result(op, 0)), mlirOperationGetLocation(op));
    TRY(&f->ctx, intern_group(f, func, tsr_arena_printf(&f->arena, "k%u_vrank_sum", f->group_count),
                              &symbol));
    tsr_op_set(op, "combine", tsr_attr_make_symbol(f->mlir, symbol));
    return TSR_SUCCESS;
}

static TSR_RESULT write_call(fuser *f, entry *e, const tsr_fuse_group *group) {
    MlirValue operands[TSR_FUSE_ARGUMENTS_MAX];
    MlirType results[TSR_FUSE_ARGUMENTS_MAX];
    MlirOperation func = {NULL};
    const char *symbol = NULL;
    TRY(&f->ctx, write_group(f, e, group, &func));
    TRY(&f->ctx, intern_group(f, func, group_symbol(f, e, group), &symbol));
    for (uint32_t i = 0; i < group->input_count; i++) operands[i] = e->values[group->inputs[i]];
    for (uint32_t i = 0; i < group->output_count; i++)
        results[i] = mlirValueGetType(e->values[group->outputs[i]]);
    const tsr_attr callee = {"callee", tsr_attr_make_symbol(f->mlir, symbol)};
    tsr_builder builder = tsr_builder_before(e->sinks[0]);
    builder.location = mlirOperationGetLocation(e->ops[anchor(group)]);
    MlirOperation call = tsr_build(&builder, &(tsr_op_desc){.name = "tsched.call",
                                                            .operand_count = group->input_count,
                                                            .operands = operands,
                                                            .result_count = group->output_count,
                                                            .results = results,
                                                            .attr_count = 1,
                                                            .attrs = &callee});
    for (uint32_t i = 0; i < group->output_count; i++) {
        uint32_t node = group->outputs[i];
        MlirValue value = tsr_op_result(call, i);
        mlirValueReplaceAllUsesOfWith(e->values[node], value);
        e->values[node] = value;
    }
    return TSR_SUCCESS;
}

/* "constant.f32.64.0123456789abcdef": type and value. */
static TSR_RESULT name_constant(fuser *f, MlirOperation op) {
    tsr_buffer text = {0}, name = {0};
    char hex[TSR_DIGEST_HEX + 1], type_text[TSR_TYPE_TEXT_MAX];
    tsr_type type = {0};
    tsr_value_type(tsr_op_result(op, 0), &type);
    print_alone(op, &text);
    if (!text.failed) {
        const char *value = strchr(text.bytes, '='); /* the name of the result varies */
        TSR_ASSERT(value);
        tsr_digest digest = tsr_hash(value, strlen(value));
        tsr_digest_format(&digest, hex);
        tsr_buffer_printf(&name, "constant.%s.%.16s", tsr_type_text(&type, type_text), hex);
    }
    bool failed = text.failed || name.failed;
    if (!failed) tsr_op_set(op, TSR_CONSTANT_NAME, tsr_attr_make_string(f->mlir, name.bytes));
    tsr_buffer_finish(&text);
    tsr_buffer_finish(&name);
    if (failed) FAIL(&f->ctx, TSR_MEMORY, "no memory to name a constant");
    return TSR_SUCCESS;
}

/* Erases the old ops, and reads and constants that are no longer used. */
static TSR_RESULT clean_up(fuser *f, entry *e) {
    for (uint32_t i = e->node_count; i-- > 0;) {
        if (!e->rows[i]) continue;
        bool stays = e->nodes[i].kind == TSR_FUSE_SOURCE || e->nodes[i].kind == TSR_FUSE_SPLAT;
        if (!stays || !tsr_value_is_used(tsr_op_result(e->ops[i], 0)))
            mlirOperationDestroy(e->ops[i]);
        else if (e->rows[i]->op_class == TSR_CLASS_CONSTANT)
            TRY(&f->ctx, name_constant(f, e->ops[i]));
    }
    return TSR_SUCCESS;
}

/* Checks that each function that a plan materializes became one kernel. */
static TSR_RESULT check_planned(fuser *f, const entry *e, const tsr_fuse_plan *plan) {
    uint32_t *first = TSR_NEW(&f->arena, uint32_t, (size_t)e->planned_count + 1); /* 1 + group */
    if (!first) FAIL(&f->ctx, TSR_MEMORY, "no memory to check plans");
    for (uint32_t g = 0; g < plan->group_count; g++) {
        uint32_t planned = plan->groups[g].planned;
        if (!planned) continue;
        if (!first[planned]) {
            first[planned] = 1 + g;
            continue;
        }
        MlirOperation op = e->ops[anchor(&plan->groups[g])];
        MlirOperation other = e->ops[anchor(&plan->groups[first[planned] - 1])];
        char text[512];
        snprintf(
            text, sizeof text,
            "%s: a plan materializes %.300s as one kernel, and no kernel computes this op with "
            "%s",
            tsr_op_name(op), e->planned[planned - 1], tsr_op_name(other));
        tsr_diag_error_note(mlirOperationGetLocation(op), TSR_DIAG_PLAN_FUSE, text,
                            mlirOperationGetLocation(other), "the other op is here");
        FAIL(&f->ctx, TSR_COMPILE, "a plan cannot be applied");
    }
    return TSR_SUCCESS;
}

static TSR_RESULT fuse_entry(fuser *f, MlirOperation func) {
    entry e = {.func = func};
    tsr_fuse_plan plan;
    TRY(&f->ctx, entry_read(f, &e));
    /* Assignments take effect when the entry ends, so they can be moved to its end. */
    TSR_ASSERT(e.sink_count > 0);
    for (uint32_t i = 0; i + 1 < e.sink_count; i++)
        mlirOperationMoveBefore(e.sinks[i], e.sinks[e.sink_count - 1]);
    TRY(&f->ctx, tsr_fuse_plan_build(&f->ctx, e.nodes, e.node_count, &f->arena, &plan));
    TRY(&f->ctx, check_planned(f, &e, &plan));
    for (uint32_t g = 0; g < plan.group_count; g++) {
        const tsr_fuse_group *group = &plan.groups[g];
        const tsr_op_row *row = group->root == TSR_FUSE_NONE ? NULL : e.rows[group->root];
        if (is_barrier(row) || is_view(&e, group))
            write_op(&e, group);
        else if (is_collective(row))
            TRY(&f->ctx, write_collective(f, &e, group));
        else
            TRY(&f->ctx, write_call(f, &e, group));
    }
    return clean_up(f, &e);
}

static bool is_scheduled(MlirOperation func) {
    TSR_FOR_EACH_OP(op, tsr_op_body(func)) {
        if (tsr_op_is(op, TSR_SCHED_CALL)) return true;
    }
    return false;
}

bool tsr_pass_fuse(MlirModule module) {
    fuser f = {.module = module, .mlir = mlirModuleGetContext(module)};
    const char *numerics = tsr_op_string(mlirModuleGetOperation(module), TSR_NUMERICS_NAME);
    MlirOperation at = mlirModuleGetOperation(module);
    tsr_result result = note_taken(&f);
    f.native = numerics && strcmp(numerics, "native") == 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (result.code || !tsr_graph_is_lowered_func(op) || is_scheduled(op)) continue;
        at = op;
        result = fuse_entry(&f, op);
    }
    if (result.code && result.code != TSR_COMPILE)
        tsr_diag_error(mlirOperationGetLocation(at),
                       result.code == TSR_MEMORY ? TSR_DIAG_MEMORY : TSR_DIAG_PASS, "%s",
                       f.ctx.error.text);
    tsr_arena_finish(&f.arena);
    return result.code == TSR_OK;
}
