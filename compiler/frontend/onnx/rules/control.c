/* SPDX-License-Identifier: Apache-2.0
 *
 * If, Loop and Scan. A condition that is known takes its branch alone; a loop whose iterations are
 * known and few is unrolled, so that shapes may change in it; others are loops of Graph IR.
 */
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/rules/loop.h"
#include "compiler/process/guard.h"
#include "compiler/shim/shim.h"

#include <inttypes.h>
#include <string.h>

enum { UNROLLED_NODES_MAX = 512, VALUES_MAX = TSR_ONNX_LOOP_VALUES_MAX };

static const tsr_onnx_graph *graph_of(tsr_onnx_call *c, const char *name) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    if (a && a->g) return a->g;
    tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE, "attribute '%s' is not a graph", name);
    return NULL;
}

/* True if the value is known; *out_truth: it is not 0. */
static bool known_truth(tsr_onnx_call *c, MlirValue value, bool *out_truth) {
    const tsr_onnx_known *known = tsr_onnx_evaluate(c->importer, value);
    if (!known || known->count != 1 || known->is_float) return false;
    *out_truth = known->ints[0] != 0;
    return true;
}

static MlirValue scalar(tsr_onnx_call *c, MlirValue x) {
    if (!c->failed && tsr_onnx_count(x) != 1)
        return tsr_onnx_fail_value(c, TSR_DIAG_ONNX_SHAPE, "a condition has %" PRIu64 " elements",
                                   tsr_onnx_count(x));
    return tsr_onnx_reshape(c, x, &(tsr_shape){.rank = 0});
}

static MlirValue truth(tsr_onnx_call *c, bool value) {
    return tsr_onnx_filled(c, TSR_DTYPE_I1, &(tsr_shape){.rank = 0}, value);
}

/* ---- if -------------------------------------------------------------------------------------- */

/* Imports a branch as a region that yields its outputs. */
static bool import_region(tsr_onnx_call *c, const tsr_onnx_graph *graph, MlirRegion *out_region,
                          MlirType *out_types) {
    tsr_builder outside = *c->builder;
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    MlirValue values[VALUES_MAX];
    *out_region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(*out_region, block);
    c->builder->block = block;
    c->builder->before = (MlirOperation){NULL};
    bool done = tsr_onnx_import_body(c, graph, 0, NULL, values);
    if (done)
        tsr_build(c->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("yield"),
                                             .operands = values,
                                             .operand_count = graph->outputs.count});
    for (size_t i = 0; done && i < graph->outputs.count; i++)
        out_types[i] = mlirValueGetType(values[i]);
    *c->builder = outside;
    return done;
}

static bool choose_at_run_time(tsr_onnx_call *c, const tsr_onnx_graph *yes,
                               const tsr_onnx_graph *no) {
    MlirRegion regions[2] = {{NULL}, {NULL}};
    MlirType types[2][VALUES_MAX];
    MlirValue condition = scalar(c, tsr_onnx_in(c, 0));
    if (c->failed) return false;
    bool done =
        import_region(c, yes, &regions[0], types[0]) && import_region(c, no, &regions[1], types[1]);
    for (size_t i = 0; done && i < c->output_count; i++)
        if (!mlirTypeEqual(types[0][i], types[1][i]))
            done = tsr_onnx_fail(c, TSR_DIAG_ONNX_KNOWN,
                                 "the branches give output %zu different types, and the condition "
                                 "is not known when the model is built",
                                 i);
    if (!done) {
        for (size_t i = 0; i < 2; i++)
            if (!mlirRegionIsNull(regions[i])) mlirRegionDestroy(regions[i]);
        return false;
    }
    MlirOperation op = tsr_build(c->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("if"),
                                                            .operands = &condition,
                                                            .operand_count = 1,
                                                            .results = types[0],
                                                            .result_count = c->output_count,
                                                            .region_count = 2,
                                                            .regions = regions});
    c->failed = !tsr_graph_verify_op(op);
    for (size_t i = 0; i < c->output_count; i++) tsr_onnx_out(c, i, tsr_op_result(op, i));
    return !c->failed;
}

bool tsr_onnx_rule_if(tsr_onnx_call *c) {
    const tsr_onnx_graph *yes = graph_of(c, "then_branch"), *no = graph_of(c, "else_branch");
    MlirValue condition = tsr_onnx_in(c, 0);
    bool chosen = false;
    if (c->failed) return false;
    if (yes->outputs.count != c->output_count || no->outputs.count != c->output_count ||
        c->output_count > VALUES_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_OUTPUT,
                             "the branches have %zu and %zu outputs, the "
                             "node %zu",
                             yes->outputs.count, no->outputs.count, c->output_count);
    if (!known_truth(c, condition, &chosen)) return choose_at_run_time(c, yes, no);
    return tsr_onnx_import_body(c, chosen ? yes : no, 0, NULL, c->outputs);
}

/* ---- loop ------------------------------------------------------------------------------------ */

typedef struct looping {
    const tsr_onnx_graph *body;
    size_t carried, stacked; /* values */
    int64_t trips;           /* -1: no limit is given */
    bool trips_known;
} looping;

/* Runs the body once; `values` are iteration, condition, carried; `out`: condition, carried,
 * stacked. */
static bool run_body(tsr_onnx_call *c, const looping *l, MlirValue iteration, MlirValue condition,
                     const MlirValue *carried, MlirValue *out) {
    MlirValue values[VALUES_MAX + 2] = {iteration, condition};
    memcpy(values + 2, carried, l->carried * sizeof *carried);
    return tsr_onnx_import_body(c, l->body, l->carried + 2, values, out);
}

static MlirValue stack(tsr_onnx_call *c, size_t count, const MlirValue *parts) {
    MlirValue *rows = TSR_NEW(c->arena, MlirValue, count + 1);
    TSR_NEED(rows);
    for (size_t i = 0; i < count; i++) {
        tsr_shape s = tsr_onnx_type_of(parts[i]).shape;
        if (s.rank == TSR_RANK_MAX) return (MlirValue){NULL};
        memmove(s.dims + 1, s.dims, s.rank++ * sizeof s.dims[0]);
        s.dims[0] = 1;
        rows[i] = tsr_onnx_reshape(c, parts[i], &s);
    }
    return tsr_onnx_concat(c, count, rows, 0);
}

/* Unrolls while the condition is known; *out_unknown: it was not, and nothing was set. */
static bool unroll(tsr_onnx_call *c, const looping *l, const MlirValue *first, bool *out_unknown) {
    size_t limit = l->trips >= 0 ? (size_t)l->trips : UNROLLED_NODES_MAX, done = 0;
    MlirValue now[VALUES_MAX], out[VALUES_MAX + 1];
    MlirValue *stacked = TSR_NEW(c->arena, MlirValue, (limit + 1) * (l->stacked + 1));
    MlirValue condition = tsr_onnx_has(c, 1) ? c->inputs[1] : truth(c, true);
    TSR_NEED(stacked);
    memcpy(now, first, l->carried * sizeof *now);
    for (; done < limit; done++) {
        bool goes_on = false;
        *out_unknown = !known_truth(c, condition, &goes_on);
        if (*out_unknown) return true;
        if (!goes_on) break;
        int64_t number = (int64_t)done;
        MlirValue iteration = tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_I64}, &number);
        if (!run_body(c, l, iteration, truth(c, true), now, out)) return false;
        condition = out[0];
        memcpy(now, out + 1, l->carried * sizeof *now);
        for (size_t i = 0; i < l->stacked; i++) stacked[i * limit + done] = out[1 + l->carried + i];
    }
    if (l->trips < 0 && done == limit)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_KNOWN, "the loop does not end in %zu iterations",
                             limit);
    for (size_t i = 0; i < l->carried; i++) tsr_onnx_out(c, i, now[i]);
    for (size_t i = 0; i < l->stacked; i++) {
        if (done == 0 && tsr_onnx_wants(c, l->carried + i))
            return tsr_onnx_fail(c, TSR_DIAG_ONNX_OUTPUT,
                                 "a loop without iterations stacks nothing");
        if (done) tsr_onnx_out(c, l->carried + i, stack(c, done, stacked + i * limit));
    }
    return !c->failed;
}

/* A loop of many iterations whose condition always holds. */
static bool as_scan(tsr_onnx_call *c, const looping *l, const MlirValue *first) {
    tsr_onnx_loop loop;
    MlirValue out[VALUES_MAX + 1], results[2 * VALUES_MAX];
    MlirValue positions = tsr_onnx_iota(c, TSR_DTYPE_I64, 1, 0, (uint64_t)l->trips);
    bool holds = false;
    if (!tsr_onnx_loop_begin(c, l->carried, first, 1, &positions, 0, &loop)) return false;
    bool done = run_body(c, l, loop.arguments[l->carried], truth(c, true), loop.arguments, out);
    if (done && (!known_truth(c, out[0], &holds) || !holds))
        done =
            tsr_onnx_fail(c, TSR_DIAG_ONNX_KNOWN,
                          "the condition of the loop changes; at most %d nodes in all iterations "
                          "can be unrolled",
                          UNROLLED_NODES_MAX);
    c->failed = c->failed || !done;
    if (!tsr_onnx_loop_end(c, &loop, false, out + 1, l->stacked, out + 1 + l->carried, results))
        return false;
    for (size_t i = 0; i < c->output_count; i++) tsr_onnx_out(c, i, results[i]);
    return !c->failed;
}

/* One region of a while over the iteration, the condition and the carried values. */
static MlirBlock while_block(tsr_onnx_call *c, size_t count, const MlirValue *values,
                             MlirRegion *out_region, MlirValue *out_arguments) {
    MlirType types[VALUES_MAX + 2] = {{NULL}};
    MlirLocation locations[VALUES_MAX + 2] = {{NULL}};
    for (size_t i = 0; i < count; i++) {
        types[i] = mlirValueGetType(values[i]);
        locations[i] = c->builder->location;
    }
    MlirBlock block = mlirBlockCreate((intptr_t)count, types, locations);
    *out_region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(*out_region, block);
    for (size_t i = 0; i < count; i++) out_arguments[i] = mlirBlockGetArgument(block, (intptr_t)i);
    c->builder->block = block;
    c->builder->before = (MlirOperation){NULL};
    return block;
}

static void yield(tsr_onnx_call *c, size_t count, const MlirValue *values) {
    tsr_build(c->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("yield"),
                                         .operands = values,
                                         .operand_count = count});
}

/* The condition depends on data, and nothing is stacked. */
static bool as_while(tsr_onnx_call *c, const looping *l, const MlirValue *first) {
    tsr_builder outside = *c->builder;
    size_t count = l->carried + 2;
    MlirRegion regions[2];
    MlirType types[VALUES_MAX + 2];
    int64_t zero = 0;
    MlirValue values[VALUES_MAX + 2], arguments[VALUES_MAX + 2], out[VALUES_MAX + 1];
    values[0] = tsr_onnx_constant(c, &(tsr_type){.dtype = TSR_DTYPE_I64}, &zero);
    values[1] = tsr_onnx_has(c, 1) ? scalar(c, c->inputs[1]) : truth(c, true);
    memcpy(values + 2, first, l->carried * sizeof *first);
    if (c->failed) return false;
    for (size_t i = 0; i < count; i++) types[i] = mlirValueGetType(values[i]);
    while_block(c, count, values, &regions[0], arguments);
    yield(c, 1, &arguments[1]);
    while_block(c, count, values, &regions[1], arguments);
    bool done = run_body(c, l, arguments[0], arguments[1], arguments + 2, out);
    MlirValue next[VALUES_MAX + 2];
    if (done) {
        next[0] = EMIT(c, "add", arguments[0], ONE(c, arguments[0]));
        next[1] = scalar(c, out[0]);
        memcpy(next + 2, out + 1, l->carried * sizeof *next);
        for (size_t i = 0; i < count; i++)
            if (c->failed || !mlirTypeEqual(types[i], mlirValueGetType(next[i])))
                done = tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "a carried value changes its type");
        if (done) yield(c, count, next);
    }
    *c->builder = outside;
    if (!done) {
        mlirRegionDestroy(regions[0]);
        mlirRegionDestroy(regions[1]);
        return false;
    }
    tsr_attr attrs[] = {tsr_onnx_i64_attr(c, "limit", l->trips)};
    MlirOperation op = tsr_build(c->builder, &(tsr_op_desc){.name = TSR_GRAPH_NAME("while"),
                                                            .operands = values,
                                                            .operand_count = count,
                                                            .results = types,
                                                            .result_count = count,
                                                            .attrs = attrs,
                                                            .attr_count = 1,
                                                            .region_count = 2,
                                                            .regions = regions});
    c->failed = !tsr_graph_verify_op(op);
    for (size_t i = 0; i < l->carried; i++) tsr_onnx_out(c, i, tsr_op_result(op, i + 2));
    return !c->failed;
}

static bool read_loop(tsr_onnx_call *c, looping *l, MlirValue *first) {
    l->body = graph_of(c, "body");
    l->trips = -1;
    if (!l->body) return false;
    l->carried = c->input_count > 2 ? c->input_count - 2 : 0;
    if (l->body->outputs.count < l->carried + 1 || l->body->outputs.count > VALUES_MAX ||
        l->carried + 2 > VALUES_MAX || l->body->outputs.count - 1 != c->output_count)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_OUTPUT,
                             "the body has %zu outputs; the node carries %zu values and has %zu "
                             "outputs",
                             l->body->outputs.count, l->carried, c->output_count);
    l->stacked = l->body->outputs.count - 1 - l->carried;
    for (size_t i = 0; i < l->carried; i++) first[i] = tsr_onnx_in(c, i + 2);
    l->trips_known = !tsr_onnx_has(c, 0) || tsr_onnx_evaluate(c->importer, c->inputs[0]);
    if (!l->trips_known)
        tsr_onnx_in_known(c, 0, "M"); /* says that it must be known */
    else if (tsr_onnx_has(c, 0) && tsr_onnx_in_int(c, 0, "M", &l->trips) && l->trips < 0)
        l->trips = 0;
    if (l->trips > INT32_MAX) l->trips = -1;
    return !c->failed;
}

bool tsr_onnx_rule_loop(tsr_onnx_call *c) {
    looping l = {0};
    MlirValue first[VALUES_MAX];
    bool unknown = false;
    if (!read_loop(c, &l, first)) return false;
    size_t nodes = l.body->nodes.count + 1;
    bool few = l.trips < 0 || (size_t)l.trips <= UNROLLED_NODES_MAX / nodes;
    if (few && !unroll(c, &l, first, &unknown)) return false;
    if (few && !unknown) return !c->failed;
    if (!few) return as_scan(c, &l, first);
    if (l.stacked || l.trips < 0)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_KNOWN,
                             "the number of iterations depends on data; only loops with a limit "
                             "that stack nothing can be imported so");
    return as_while(c, &l, first);
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* Attribute lists of Scan: 0 if absent. */
static int64_t listed(tsr_onnx_call *c, const char *name, size_t index) {
    const tsr_onnx_attribute *a = tsr_onnx_attr(c, name);
    return a && index < a->ints.count ? TSR_ONNX_INT(a->ints, index) : 0;
}

static MlirValue flip(tsr_onnx_call *c, MlirValue x) {
    uint64_t size = 0;
    if (!tsr_onnx_known_dim(c, "a reversed input", x, 0, &size)) return x;
    int64_t *positions = TSR_NEW(c->arena, int64_t, (size_t)size + 1);
    TSR_NEED(positions);
    for (uint64_t i = 0; i < size; i++) positions[i] = (int64_t)(size - 1 - i);
    return tsr_onnx_gather(c, x, tsr_onnx_int_list(c, (size_t)size, positions), 0);
}

/* Moves a dim to another position. */
static MlirValue move_dim(tsr_onnx_call *c, MlirValue x, uint32_t from, uint32_t to) {
    int64_t permutation[TSR_RANK_MAX];
    uint32_t rank = tsr_onnx_rank(x), at = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (at == from) at++;
        permutation[i] = i == to ? from : at++;
    }
    return tsr_onnx_transpose(c, x, permutation);
}

/* Runs the body over dim 0 of the sequences, which follow the carried values. */
static bool scan_over(tsr_onnx_call *c, const tsr_onnx_graph *body, size_t carried,
                      size_t sequences, MlirValue *inputs, MlirValue *results) {
    tsr_onnx_loop loop;
    MlirValue out[VALUES_MAX];
    if (body->outputs.count < carried ||
        !tsr_onnx_loop_begin(c, carried, inputs, sequences, inputs + carried, 0, &loop))
        return false;
    bool done = tsr_onnx_import_body(c, body, carried + sequences, loop.arguments, out);
    c->failed = c->failed || !done;
    return tsr_onnx_loop_end(c, &loop, false, out, c->output_count - carried, out + carried,
                             results);
}

static MlirValue drop_batch(tsr_onnx_call *c, MlirValue x, int64_t at) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    x = tsr_onnx_slice_dim(c, x, 0, at, 1, 1);
    for (uint32_t i = 1; i < shape.rank; i++) shape.dims[i - 1] = shape.dims[i];
    shape.rank--;
    return tsr_onnx_reshape(c, x, &shape);
}

static MlirValue add_batch(tsr_onnx_call *c, MlirValue x) {
    tsr_shape shape = tsr_onnx_type_of(x).shape;
    for (uint32_t i = shape.rank++; i > 0; i--) shape.dims[i] = shape.dims[i - 1];
    shape.dims[0] = 1;
    return tsr_onnx_reshape(c, x, &shape);
}

/* Version 8: every value has a batch dim that the body does not see; one loop for each of its
 * positions. */
bool tsr_onnx_rule_scan_batched(tsr_onnx_call *c) {
    enum { BATCH_MAX = 64 };
    const tsr_onnx_graph *body = graph_of(c, "body");
    int64_t sequences = tsr_onnx_attr_i(c, "num_scan_inputs", 0);
    MlirValue inputs[VALUES_MAX], results[2 * VALUES_MAX], parts[BATCH_MAX * VALUES_MAX];
    if (c->failed) return false;
    if (tsr_onnx_has(c, 0))
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_INPUT, "input 0 (sequence_lens) cannot be imported");
    size_t count = c->input_count - 1;
    if (sequences < 1 || (size_t)sequences > count || count > VALUES_MAX ||
        body->outputs.count != c->output_count || c->output_count > VALUES_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'num_scan_inputs' is %" PRId64 " of %zu inputs", sequences,
                             count);
    size_t carried = count - (size_t)sequences;
    for (size_t i = 0; i < count; i++)
        if (!tsr_onnx_need_rank(c, "an input", tsr_onnx_in(c, i + 1), 1, TSR_RANK_MAX))
            return false;
    uint64_t batch = tsr_onnx_dim_of(c->inputs[1], 0);
    if (batch < 1 || batch > BATCH_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_SHAPE, "a batch of %" PRIu64 "; expected 1 to %d",
                             batch, BATCH_MAX);
    for (uint64_t b = 0; b < batch; b++) {
        for (size_t i = 0; i < count; i++) {
            inputs[i] = drop_batch(c, c->inputs[i + 1], (int64_t)b);
            if (i >= carried && listed(c, "directions", i - carried))
                inputs[i] = flip(c, inputs[i]);
        }
        if (!scan_over(c, body, carried, (size_t)sequences, inputs, results)) return false;
        for (size_t i = 0; i < c->output_count; i++)
            parts[i * batch + b] = add_batch(c, results[i]);
    }
    for (size_t i = 0; i < c->output_count; i++)
        tsr_onnx_out(c, i, tsr_onnx_concat(c, batch, parts + i * batch, 0));
    return !c->failed;
}

bool tsr_onnx_rule_scan(tsr_onnx_call *c) {
    const tsr_onnx_graph *body = graph_of(c, "body");
    int64_t sequences = tsr_onnx_attr_i(c, "num_scan_inputs", 0);
    MlirValue results[2 * VALUES_MAX];
    if (c->failed) return false;
    if (sequences < 1 || (size_t)sequences > c->input_count ||
        body->outputs.count != c->output_count || c->output_count > VALUES_MAX)
        return tsr_onnx_fail(c, TSR_DIAG_ONNX_ATTRIBUTE,
                             "attribute 'num_scan_inputs' is %" PRId64 " of %zu inputs", sequences,
                             c->input_count);
    size_t carried = c->input_count - (size_t)sequences;
    for (size_t i = 0; i < c->input_count; i++) tsr_onnx_in(c, i);
    for (size_t i = 0; i < (size_t)sequences && !c->failed; i++) {
        MlirValue *x = &c->inputs[carried + i];
        uint32_t axis;
        if (!tsr_onnx_axis(c, "scan_input_axes", listed(c, "scan_input_axes", i), tsr_onnx_rank(*x),
                           &axis))
            return false;
        *x = move_dim(c, *x, axis, 0);
        if (listed(c, "scan_input_directions", i)) *x = flip(c, *x);
    }
    if (!scan_over(c, body, carried, (size_t)sequences, c->inputs, results)) return false;
    for (size_t i = 0; i < c->output_count; i++) {
        MlirValue y = results[i];
        uint32_t axis;
        if (i >= carried) {
            if (listed(c, "scan_output_directions", i - carried)) y = flip(c, y);
            if (!tsr_onnx_axis(c, "scan_output_axes", listed(c, "scan_output_axes", i - carried),
                               tsr_onnx_rank(y), &axis))
                return false;
            y = move_dim(c, y, 0, axis);
        }
        tsr_onnx_out(c, i, y);
    }
    return !c->failed;
}
