/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-prove-rows: an entry with `tessera.rows_independent`, and every eval entry, must
 * return rows that each depend on one row of the arguments and not on its number. The runtime
 * splits the rows of a call into batches and pads the last one, so other results would be wrong.
 *
 * Each value gets a kind and a layout (row_layout.h) by the row rule of its op (ops.def), loops by
 * a fixpoint. Outline: values · walking ops · results · paths · entries.
 */
#include "compiler/graph/rows/flow.h"
#include "compiler/ir/value_map.h"
#include "compiler/passes.h"
#include "compiler/process/guard.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A tsr_row_value whose factor array has exactly the needed size. */
typedef struct known {
    MlirValue value, from;
    const char *reason;
    const tsr_row_factor *factors;
    uint32_t factor_count;
    tsr_row_kind kind;
    bool by_number, is_sum;
} known;

enum { DEPTH_MAX = 128 };

struct tsr_row_walk {
    tsr_arena arena;
    tsr_value_map numbers; /* indices into `all` */
    known *all;
    uint32_t count;
    size_t capacity;
    tsr_row_scope scope;
    tsr_row_flow *flows[DEPTH_MAX]; /* one for each level of regions: they are large */
    size_t depth;
    bool open; /* a dim is unknown, or regions are too deep: later passes refuse the program */
};

tsr_row_scope *tsr_row_get_scope(tsr_row_walk *walk) { return &walk->scope; }

/* ---- values ---------------------------------------------------------------------------------- */

static known *find(const tsr_row_walk *walk, MlirValue value) {
    uint32_t number = tsr_value_map_get(&walk->numbers, value);
    return number == UINT32_MAX ? NULL : &walk->all[number];
}

static known *find_or_add(tsr_row_walk *walk, MlirValue value) {
    known *is = find(walk, value);
    if (is) return is;
    if (walk->count == walk->capacity) {
        known *larger = TSR_ARENA_GROW(&walk->arena, walk->all, &walk->capacity, 256);
        TSR_NEED(larger);
        walk->all = larger;
    }
    TSR_NEED(tsr_value_map_set(&walk->numbers, &walk->arena, value, walk->count));
    walk->all[walk->count] = (known){.value = value};
    return &walk->all[walk->count++];
}

tsr_row_value tsr_row_get(tsr_row_walk *walk, MlirValue value) {
    tsr_row_value out = {.kind = TSR_ROWS_FREE}; /* not a tensor: a token */
    const known *is = find(walk, value);
    if (!is) return out;
    out = (tsr_row_value){.kind = is->kind,
                          .from = is->from,
                          .reason = is->reason,
                          .by_number = is->by_number,
                          .is_sum = is->is_sum};
    out.layout.count = is->factor_count;
    if (is->factor_count)
        memcpy(out.layout.factors, is->factors, is->factor_count * sizeof *is->factors);
    return out;
}

static bool same_layout(const known *is, const tsr_row_layout *layout) {
    tsr_row_layout own = {.count = is->factor_count};
    if (own.count) memcpy(own.factors, is->factors, own.count * sizeof *is->factors);
    return tsr_row_layout_equal(&own, layout);
}

bool tsr_row_raise(tsr_row_walk *walk, MlirValue value, const tsr_row_value *to) {
    known *is = find_or_add(walk, value);
    bool raised = to->kind > is->kind;
    bool sum_ends = is->is_sum && to->kind == TSR_ROWS_MIXED && !to->is_sum;
    if (to->kind < is->kind) return false;
    if (sum_ends) is->is_sum = false;
    if (!raised && (to->kind == TSR_ROWS_MIXED || same_layout(is, &to->layout))) return sum_ends;
    is->factor_count = to->kind == TSR_ROWS_MIXED ? 0 : to->layout.count;
    if (is->factor_count) {
        is->factors = tsr_arena_memdup(&walk->arena, to->layout.factors,
                                       is->factor_count * sizeof *is->factors);
        TSR_NEED(is->factors);
    }
    if (!raised) return true;
    is->kind = to->kind;
    is->from = to->from;
    is->reason = to->reason;
    is->by_number = to->by_number;
    is->is_sum = to->kind == TSR_ROWS_MIXED && to->is_sum;
    return true;
}

tsr_row_value tsr_row_mixed(tsr_row_flow *flow, MlirValue culprit, const char *reason) {
    const char *copy = tsr_arena_strdup(&flow->walk->arena, reason);
    TSR_NEED(copy);
    return (tsr_row_value){.kind = TSR_ROWS_MIXED, .from = culprit, .reason = copy};
}

tsr_row_value tsr_row_join_values(tsr_row_flow *flow, const tsr_row_value *a,
                                  const tsr_row_value *b) {
    tsr_row_value joined = b->kind > a->kind ? *b : *a;
    if (joined.kind == TSR_ROWS_MIXED) {
        joined.is_sum = a->is_sum && b->is_sum;
        return joined;
    }
    tsr_row_fault fault = tsr_row_join(&a->layout, &b->layout, &joined.layout);
    if (!fault && joined.kind == TSR_ROWS_APART &&
        tsr_row_digits(&joined.layout) != flow->walk->scope.rows)
        fault = TSR_ROW_PAIRED;
    if (!fault) return joined;
    tsr_row_mix_joined(flow, 0, fault);
    joined = tsr_row_mixed(flow, joined.from, flow->reason);
    joined.by_number = fault == TSR_ROW_NUMBERED;
    return joined;
}

/* ---- walking ops ----------------------------------------------------------------------------- */

static bool is_empty(const tsr_type *type) {
    uint64_t count = 0;
    return tsr_shape_count(&type->shape, &count) && count == 0;
}

/* False if a type is not fully known; later passes refuse it. */
static bool read_type(tsr_row_walk *walk, MlirValue value, tsr_type *out_type) {
    *out_type = (tsr_type){0};
    if (!tsr_value_type(value, out_type)) return true; /* a token */
    walk->open = walk->open || !tsr_type_is_static(out_type);
    return !walk->open;
}

static bool fill(tsr_row_walk *walk, MlirOperation op, tsr_row_flow *flow) {
    flow->walk = walk;
    flow->op = op;
    flow->operand_count = tsr_op_operand_count(op);
    flow->result_count = tsr_op_result_count(op);
    flow->culprit = 0;
    flow->by_number = false;
    if (flow->operand_count > TSR_RULE_OPERANDS_MAX || flow->result_count > TSR_RULE_RESULTS_MAX)
        walk->open = true;
    for (size_t k = 0; !walk->open && k < flow->operand_count; k++) {
        MlirValue operand = tsr_op_operand(op, k);
        if (!read_type(walk, operand, &flow->types[k])) return false;
        flow->operands[k] = tsr_row_get(walk, operand);
        flow->operands[k].from = operand;
        flow->operands[k].reason = NULL;
        flow->operands[k].by_number = false;
    }
    for (size_t r = 0; !walk->open && r < flow->result_count; r++) {
        if (!read_type(walk, tsr_op_result(op, r), &flow->result_types[r])) return false;
        flow->results[r].count = 0;
    }
    return !walk->open;
}

/* The value of an op that mixes rows itself. */
static tsr_row_value mixed_here(tsr_row_flow *flow) {
    bool given = flow->culprit < flow->operand_count;
    MlirValue culprit = given ? flow->operands[flow->culprit].from : (MlirValue){NULL};
    tsr_row_value value = tsr_row_mixed(flow, culprit, flow->reason);
    value.by_number = flow->by_number;
    value.is_sum = tsr_row_sums_all(flow);
    return value;
}

/* Applies the rule; no operand is mixed, and `kind` is the highest kind of the operands. */
static void apply(tsr_row_flow *flow, tsr_rows_fn rule, tsr_row_kind kind, MlirValue from) {
    uint64_t rows = flow->walk->scope.rows;
    bool done = true;
    for (size_t k = 0; k < flow->operand_count && done; k++)
        if (flow->operands[k].kind == TSR_ROWS_APART &&
            tsr_row_digits(&flow->operands[k].layout) != rows)
            done = tsr_row_mix(flow, k, "reads all rows in each iteration of a loop over the rows");
    done = done && rule(flow);
    for (size_t r = 0; r < flow->result_count && done && kind == TSR_ROWS_APART; r++)
        if (!is_empty(&flow->result_types[r]) && tsr_row_digits(&flow->results[r]) != rows)
            done = tsr_row_mix_joined(flow, 0, TSR_ROW_PAIRED);
    bool is_free = kind == TSR_ROWS_FREE && flow->operand_count;
    if (!done && is_free) tsr_rows_varies(flow); /* there are no rows to mix */
    for (size_t r = 0; r < flow->result_count; r++) {
        tsr_row_value value = {.kind = kind, .from = from, .layout = flow->results[r]};
        if (!done && !is_free) value = mixed_here(flow);
        flow->outcomes[r] = value;
    }
}

static void visit_plain(tsr_row_flow *flow, tsr_rows_fn rule) {
    tsr_row_kind kind = TSR_ROWS_FREE;
    MlirValue from = {NULL};
    for (size_t k = 0; k < flow->operand_count; k++) {
        if (flow->operands[k].kind <= kind) continue;
        kind = flow->operands[k].kind;
        from = flow->operands[k].from;
    }
    if (kind != TSR_ROWS_MIXED) {
        apply(flow, rule, kind, from);
        return;
    }
    bool is_sum = tsr_row_preserves_sum(flow);
    for (size_t r = 0; r < flow->result_count; r++)
        flow->outcomes[r] = (tsr_row_value){.kind = kind, .from = from, .is_sum = is_sum};
}

static void visit(tsr_row_walk *walk, MlirOperation op) {
    tsr_rows_fn rule = tsr_graph_rows(tsr_op_of(op));
    walk->open = walk->open || walk->depth == DEPTH_MAX;
    if (walk->open) return;
    if (!walk->flows[walk->depth])
        walk->flows[walk->depth] = TSR_NEW(&walk->arena, tsr_row_flow, 1);
    tsr_row_flow *flow = walk->flows[walk->depth];
    TSR_NEED(flow);
    if (!fill(walk, op, flow)) return;
    walk->depth++;
    if (tsr_row_rule_has_regions(rule))
        rule(flow);
    else
        visit_plain(flow, rule);
    walk->depth--;
    for (size_t r = 0; r < flow->result_count && !walk->open; r++) {
        if (is_empty(&flow->result_types[r])) /* it has no elements */
            flow->outcomes[r] = (tsr_row_value){.kind = TSR_ROWS_FREE};
        tsr_row_raise(walk, tsr_op_result(op, r), &flow->outcomes[r]);
    }
}

static MlirOperation walk_block(tsr_row_walk *walk, MlirBlock block) {
    MlirOperation last = {NULL};
    TSR_FOR_EACH_OP(op, block) {
        last = op;
        if (!tsr_op_is(op, TSR_GRAPH_YIELD) && !tsr_op_is(op, TSR_FUNC_RETURN)) visit(walk, op);
    }
    return last;
}

MlirOperation tsr_row_walk_region(tsr_row_walk *walk, MlirOperation op, intptr_t index) {
    return walk_block(walk, mlirRegionGetFirstBlock(mlirOperationGetRegion(op, index)));
}

/* ---- results of an entry --------------------------------------------------------------------- */

typedef struct fault {
    MlirValue result;   /* the result whose rows are wrong */
    const char *port;   /* its name */
    MlirValue mixed;    /* the value in which the rows are mixed; null: not mixed, but in the wrong
                         * layout */
    const char *reason; /* the reason of the op that computes it, or of the return */
} fault;

/* The first value of the path from `value`: the result of the op that mixes the rows. */
static MlirValue find_mixer(const tsr_row_walk *walk, MlirValue value) {
    for (const known *is = find(walk, value); is && !is->reason && is->from.ptr;
         is = find(walk, value))
        value = is->from;
    return value;
}

/* Checks that row r of a result is at index r of its dim 0. */
static bool check_result(tsr_row_walk *walk, MlirValue result, fault *out) {
    tsr_row_value is = tsr_row_get(walk, result);
    tsr_type type;
    tsr_row_dims dims;
    TSR_NEED(tsr_value_type(result, &type));
    if (is_empty(&type)) return true;
    out->result = result;
    if (is.kind == TSR_ROWS_MIXED) {
        out->mixed = find_mixer(walk, result);
        out->reason = tsr_row_get(walk, out->mixed).reason;
        return false;
    }
    bool split = tsr_row_split(&is.layout, &type.shape, &dims);
    const tsr_row_factor *first = dims.dims[0].factors;
    bool one = split && dims.dims[0].count == 1;
    out->mixed = (MlirValue){NULL};
    if (is.kind == TSR_ROWS_FREE) {
        out->reason = "does not come from rows of the arguments, and differs from row to row";
        return split && (dims.dims[0].count == 0 || (one && first->label == TSR_ROW_SAME));
    }
    out->reason = "does not have the rows of the arguments one after the other along "
                  "dim 0";
    return one && first->label == TSR_ROW_DIGIT && first->size == walk->scope.rows;
}

static bool check_results(tsr_row_walk *walk, const tsr_graph_entry *entry, MlirOperation ret,
                          fault *out) {
    for (size_t i = 0; i < entry->output_count; i++) {
        out->port = entry->outputs[i].name;
        if (!check_result(walk, tsr_op_operand(ret, i), out)) return false;
    }
    return true;
}

/* ---- paths ----------------------------------------------------------------------------------- */

enum { SHOWN = 3 }; /* ops of a path that get a note, at each of its ends */

typedef struct path {
    tsr_arena *arena;
    size_t count;
    tsr_diag_note notes[TSR_DIAG_NOTES_MAX];
} path;

static void add_note(path *p, MlirLocation location, const char *text) {
    TSR_NEED(text);
    TSR_ASSERT(p->count < TSR_DIAG_NOTES_MAX);
    p->notes[p->count++] = (tsr_diag_note){location, text};
}

/* Collects the values that `value` depends on, from the last to the first: results of ops, then an
 * argument of the entry, if any. Stops before `end`. */
static size_t follow(const tsr_row_walk *walk, MlirValue value, MlirValue end, MlirValue *out,
                     MlirValue *out_argument) {
    size_t count = 0;
    *out_argument = (MlirValue){NULL};
    while (value.ptr && value.ptr != end.ptr) {
        const known *is = find(walk, value);
        if (!mlirValueIsABlockArgument(value)) {
            if (out) out[count] = value;
            count++;
        } else if (is && !is->from.ptr)
            *out_argument = value;
        value = is && !is->reason ? is->from : (MlirValue){NULL};
    }
    return count;
}

static MlirValue *collect(tsr_row_walk *walk, MlirValue value, MlirValue end, size_t *out_count,
                          MlirValue *out_argument) {
    *out_count = follow(walk, value, end, NULL, out_argument);
    MlirValue *values = TSR_NEW(&walk->arena, MlirValue, *out_count + 1);
    TSR_NEED(values);
    follow(walk, value, end, values, out_argument);
    return values;
}

static const char *name_of(MlirValue value) { return tsr_op_name(tsr_value_owner(value)); }

/* Notes how the rows reach `culprit`: the argument, then the last ops. */
static void note_rows(path *p, tsr_row_walk *walk, const tsr_graph_entry *entry,
                      MlirValue culprit) {
    size_t count = 0;
    MlirValue argument, *values = collect(walk, culprit, (MlirValue){NULL}, &count, &argument);
    if (argument.ptr)
        add_note(p, mlirValueGetLocation(argument),
                 tsr_arena_printf(p->arena, "the rows come from argument '%s' of entry '@%s'",
                                  entry->inputs[mlirBlockArgumentGetArgNumber(argument)].name,
                                  entry->name));
    for (size_t i = count < SHOWN ? count : SHOWN; i-- > 0;) {
        const char *text = "%s passes them on";
        if (i == SHOWN - 1 && count > SHOWN) text = "%s passes them on, after %zu other ops";
        add_note(p, mlirValueGetLocation(values[i]),
                 tsr_arena_printf(p->arena, text, name_of(values[i]), count - SHOWN));
    }
}

/* Notes how the result depends on `mixed`: the next ops, then the return. */
static void note_result(path *p, tsr_row_walk *walk, const fault *f, MlirOperation ret) {
    size_t count = 0;
    MlirValue argument, *values = collect(walk, f->result, f->mixed, &count, &argument);
    for (size_t i = count; i-- > 0 && count - i <= SHOWN;) {
        const char *text = "%s depends on it";
        if (count - i == SHOWN && i > 0) text = "%s depends on it, and %zu ops on that";
        add_note(p, mlirValueGetLocation(values[i]),
                 tsr_arena_printf(p->arena, text, name_of(values[i]), i));
    }
    add_note(p, mlirOperationGetLocation(ret),
             tsr_arena_printf(p->arena, "result '%s' depends on it", f->port));
}

/* Finds an operand that differs from row to row by itself, and an operand with rows. */
static MlirValue note_varying(path *p, tsr_row_walk *walk, MlirOperation op) {
    MlirValue rows = {NULL}, varies = {NULL};
    for (size_t k = 0; k < tsr_op_operand_count(op); k++) {
        MlirValue operand = tsr_op_operand(op, k);
        tsr_row_value is = tsr_row_get(walk, operand);
        bool same = is.layout.count == 0 ||
                    (is.layout.count == 1 && is.layout.factors[0].label == TSR_ROW_SAME);
        if (is.kind == TSR_ROWS_APART && !rows.ptr) rows = operand;
        if (is.kind == TSR_ROWS_FREE && !same && !varies.ptr) varies = operand;
    }
    if (varies.ptr)
        add_note(p, mlirValueGetLocation(varies), "this value differs from row to row by itself");
    return rows;
}

/* The op that defines the value, or whose region has it as an argument. */
static MlirOperation maker_of(MlirValue value) {
    if (!mlirValueIsABlockArgument(value)) return tsr_value_owner(value);
    return mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
}

static void report(tsr_row_walk *walk, const tsr_graph_entry *entry, MlirOperation ret,
                   const fault *f) {
    path p = {.arena = &walk->arena};
    const char *why = entry->rows_independent
                          ? "has tessera.rows_independent"
                          : "is \"eval\", for which it must be tessera.rows_independent";
    MlirOperation op = f->mixed.ptr ? maker_of(f->mixed) : ret;
    const char *what = f->mixed.ptr ? "" : tsr_arena_printf(&walk->arena, "result '%s' ", f->port);
    const char *text = tsr_arena_printf(&walk->arena,
                                        "%s: %s%s; entry '@%s' %s, so a row of a result may only "
                                        "depend on the same row of the arguments",
                                        tsr_op_name(op), what, f->reason, entry->name, why);
    TSR_NEED(what && text);
    if (f->mixed.ptr) {
        const known *is = find(walk, f->mixed);
        MlirValue rows = is->from;
        if (is->by_number) rows = note_varying(&p, walk, op);
        note_rows(&p, walk, entry, rows);
        note_result(&p, walk, f, ret);
    } else {
        note_rows(&p, walk, entry, f->result);
    }
    tsr_diag_error_notes(mlirOperationGetLocation(op), TSR_DIAG_ROWS_MIXED, text, p.count, p.notes);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* True if the input contains rows. In an eval entry without the attribute, data inputs do, and
 * other arguments with the same number of rows. */
static bool has_rows(const tsr_graph_entry *entry, size_t index, uint64_t rows) {
    const tsr_graph_port *port = &entry->inputs[index];
    bool fits = port->type.shape.rank > 0 && port->type.shape.dims[0] == rows;
    return fits && (entry->rows_independent || entry->kind != TSR_ENTRY_TRAIN);
}

static bool all_have_rows(const tsr_graph_entry *entry, uint64_t rows) {
    bool all = true;
    for (size_t i = 0; i < entry->input_count; i++) all = all && has_rows(entry, i, rows);
    for (size_t i = 0; i < entry->output_count; i++) {
        const tsr_shape *shape = &entry->outputs[i].type.shape;
        all = all && shape->rank > 0 && shape->dims[0] == rows;
    }
    return all;
}

/* The rows of a batch: the rows of the data, or of the first argument if there is no data. 0 if
 * there are none. */
static uint64_t count_rows(const tsr_graph_entry *entry) {
    const tsr_graph_port *port = entry->input_count ? &entry->inputs[0] : NULL;
    for (size_t i = 0; i < entry->input_count; i++)
        if (entry->inputs[i].source == TSR_PORT_DATA) {
            port = &entry->inputs[i];
            break;
        }
    if (!port || port->type.shape.rank == 0) return 0;
    uint64_t rows = port->type.shape.dims[0];
    return rows == TSR_DIM_DYNAMIC ? 0 : rows;
}

static bool begin(tsr_row_walk *walk, const tsr_graph_entry *entry, uint64_t rows) {
    walk->scope = (tsr_row_scope){.rows = rows};
    for (size_t i = 0; i < entry->input_count; i++) {
        MlirValue argument = mlirBlockGetArgument(tsr_op_body(entry->func), (intptr_t)i);
        uint64_t count = 0;
        tsr_type type;
        if (!read_type(walk, argument, &type) || !tsr_shape_count(&type.shape, &count))
            return false;
        tsr_row_value value = {.kind = TSR_ROWS_FREE,
                               .layout = tsr_row_layout_of(count, TSR_ROW_VARIES)};
        if (count && has_rows(entry, i, rows)) {
            tsr_row_layout each = tsr_row_layout_of(count / rows, TSR_ROW_VARIES);
            value.kind = TSR_ROWS_APART;
            value.layout = tsr_row_layout_of(rows, TSR_ROW_DIGIT);
            value.layout.factors[0].stride = 1;
            bool fits = tsr_row_append(&value.layout, &each);
            TSR_ASSERT(fits);
        }
        tsr_row_raise(walk, argument, &value);
    }
    return true;
}

static void say_independent(const tsr_graph_entry *entry) {
    tsr_diag_error(mlirOperationGetLocation(entry->func), TSR_DIAG_ROWS_INDEPENDENT,
                   "entry '@%s': its rows do not depend on each other; with "
                   "tessera.rows_independent it %stakes any number of rows",
                   entry->name,
                   entry->kind == TSR_ENTRY_EVAL ? "can be evaluated over a data set, and " : "");
}

static bool prove(tsr_row_walk *walk, const tsr_graph_entry *entry) {
    uint64_t rows = count_rows(entry);
    bool must = entry->rows_independent || entry->kind == TSR_ENTRY_EVAL;
    bool could = entry->kind == TSR_ENTRY_INFER && all_have_rows(entry, rows);
    fault f = {0};
    /* A batch of one row is never padded, and there are no rows to mix. */
    if (rows <= 1 || !(must || could) || !begin(walk, entry, rows)) return true;
    MlirOperation ret = walk_block(walk, tsr_op_body(entry->func));
    if (walk->open) return true;
    bool done = check_results(walk, entry, ret, &f);
    if (done && !entry->rows_independent && all_have_rows(entry, rows)) say_independent(entry);
    if (!done && must) report(walk, entry, ret, &f);
    return done || !must;
}

bool tsr_pass_prove_rows(MlirModule module) {
    bool done = true;
    TSR_FOR_EACH_OP(func, mlirModuleGetBody(module)) {
        tsr_row_walk walk = {0};
        tsr_graph_entry entry;
        if (!tsr_op_is(func, TSR_FUNC_FUNC) || !tsr_op_has(func, "tessera.entry")) continue;
        if (tsr_op_has_body(func) && tsr_graph_entry_read(func, &walk.arena, &entry))
            done = prove(&walk, &entry) && done;
        tsr_arena_finish(&walk.arena);
    }
    return done;
}
