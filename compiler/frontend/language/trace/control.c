/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops and branches over tensors: scan, while_loop, cond; segments that are recomputed.
 */
#include "compiler/frontend/language/trace/region.h"
#include "runtime/base/array.h"

#include <string.h>

/* Traces a call of the function in a region with these arguments, from `at` on. */
static bool trace_step(tsr_evaluator *e, tsr_region *region, tsr_value function,
                       const tsr_value *values, size_t count, const tsr_call *call,
                       const char *what, tsr_tree *out) {
    tsr_tracer *t = tsr_tracer_of(e);
    tsr_value returned = tsr_region_call(e, function, values, count, call);
    bool good = tsr_tree_read(e, returned, what, call->span, out);
    return tsr_region_close(t, region, good ? out : NULL);
}

/* The tree with the region's arguments from `*at` on. */
static tsr_value bind(tsr_evaluator *e, const tsr_region *region, const tsr_tree *tree,
                      size_t *at) {
    size_t count = tree->leaves.count, from = 0;
    MlirValue *arguments = TSR_NEW(e->arena, MlirValue, count + 1);
    if (!arguments) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < count; i++) arguments[i] = tsr_region_argument(region, (*at)++);
    return tsr_leaves_replace(e, tree->value, arguments, &from);
}

/* ---- scan ---- */

typedef struct scan {
    tsr_tree init, sequences, results; /* results: the carried values, then slices */
    int64_t length;                    /* 0: not given */
    bool reverse;
} scan;

static bool read_scan(tsr_evaluator *e, const tsr_call *call, const tsr_argument **args, scan *s) {
    if (!tsr_call_read(e, call, "step init xs length reverse", args, 5) ||
        !tsr_call_need(e, call, args[0], "step") || !tsr_call_need(e, call, args[1], "init") ||
        !tsr_argument_function(e, args[0]) ||
        !tsr_tree_read(e, args[1]->value, "what a loop carries", args[1]->span, &s->init) ||
        !tsr_tree_read(e, args[2] ? args[2]->value : TSR_NONE, "what a loop goes through",
                       args[2] ? args[2]->span : call->span, &s->sequences))
        return false;
    if (args[3] && !tsr_value_as_integer(args[3]->value, &s->length))
        return tsr_argument_refuse(e, args[3], "an int");
    if (args[4] && args[4]->value.kind != TSR_VALUE_BOOL)
        return tsr_argument_refuse(e, args[4], "True or False");
    s->reverse = args[4] && args[4]->value.truth;
    for (size_t i = 0; i < s->sequences.leaves.count; i++) {
        const tsr_shape *shape = &tsr_tensor_get(s->sequences.leaves.items[i])->type.shape;
        if (!shape->rank) {
            tsr_evaluate_fail(e, args[2]->span, TSR_DIAG_EVALUATE_VALUE,
                              "scan() goes through dim 0 of tensors; tensor %zu is a scalar", i);
            return false;
        }
        if (!tsr_dim_is_known(shape->dims[0])) {
            char text[TSR_DIM_TEXT_MAX];
            tsr_evaluate_fail(e, args[2]->span, TSR_DIAG_TRACE_DIMS,
                              "scan() goes through a dim with a size; dim 0 of tensor %zu is %s", i,
                              tsr_dim_text(shape->dims[0], text));
            return false;
        }
        if (!args[3]) s->length = (int64_t)shape->dims[0];
    }
    if (s->sequences.leaves.count || args[3]) return true;
    tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                      "scan() needs tensors to go through, or a value for 'length'");
    return false;
}

static tsr_type slice_of(const tsr_type *type) {
    tsr_type slice = {.dtype = type->dtype, .shape = {.rank = type->shape.rank - 1}};
    for (uint32_t i = 0; i < slice.shape.rank; i++) slice.shape.dims[i] = type->shape.dims[i + 1];
    return slice;
}

static MlirType stack_of(const tsr_tracer *t, const tsr_type *type, int64_t length) {
    tsr_type stack = {.dtype = type->dtype, .shape = {.rank = type->shape.rank + 1}};
    stack.shape.dims[0] = (uint64_t)length;
    for (uint32_t i = 0; i < type->shape.rank; i++) stack.shape.dims[i + 1] = type->shape.dims[i];
    return tsr_type_make(t->context, &stack);
}

static bool trace_scan(tsr_evaluator *e, const tsr_call *call, tsr_value step, scan *s,
                       tsr_region *region) {
    tsr_tracer *t = tsr_tracer_of(e);
    size_t carried = s->init.leaves.count, count = carried + s->sequences.leaves.count, at = 0;
    MlirType *types = TSR_NEW(e->arena, MlirType, count + 1);
    if (!types) return tsr_evaluate_no_memory(e), false;
    for (size_t i = 0; i < count; i++) {
        if (i < carried) types[i] = s->init.types[i];
        if (i < carried) continue;
        tsr_type slice = slice_of(&tsr_tensor_get(s->sequences.leaves.items[i - carried])->type);
        types[i] = tsr_type_make(t->context, &slice);
    }
    tsr_region_open(t, region, count, types, call->span);
    tsr_value values[2] = {bind(e, region, &s->init, &at)};
    values[1] = bind(e, region, &s->sequences, &at);
    tsr_value returned = tsr_region_call(e, step, values, 2, call);
    bool pair = returned.kind == TSR_VALUE_TUPLE && returned.list->count == 2;
    if (returned.kind && !pair)
        tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_TYPE,
                          "a step of scan returns two values: what it carries, and a slice of the "
                          "results or None; not %s",
                          tsr_value_type_name(returned));
    tsr_tree next;
    bool good =
        pair &&
        tsr_tree_read(e, returned, "what a step of scan returns", call->span, &s->results) &&
        tsr_tree_read(e, returned.list->items[0], "what a step of scan carries", call->span,
                      &next) &&
        tsr_tree_matches(e, &next, &s->init, "what the step carries on", "what it began with",
                         call->span);
    return tsr_region_close(t, region, good ? &s->results : NULL);
}

tsr_value tsr_run_scan(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    const tsr_argument *args[5];
    scan s = {0};
    tsr_region region;
    (void)self;
    if (!read_scan(e, call, args, &s)) return TSR_POISON;
    if (!trace_scan(e, call, args[0]->value, &s, &region)) return TSR_POISON;
    size_t carried = s.init.leaves.count, count = s.results.leaves.count, at = 0;
    size_t inputs = carried + s.sequences.leaves.count;
    MlirValue *values = TSR_NEW(e->arena, MlirValue, inputs + count + 1);
    MlirType *types = TSR_NEW(e->arena, MlirType, count + 1);
    if (!values || !types) return mlirRegionDestroy(region.region), tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < inputs; i++)
        values[i] = i < carried ? s.init.values[i] : s.sequences.values[i - carried];
    for (size_t i = 0; i < count; i++)
        types[i] = i < carried
                       ? s.init.types[i]
                       : stack_of(t, &tsr_tensor_get(s.results.leaves.items[i])->type, s.length);
    tsr_attr attrs[4] = {{"carried", tsr_attr_make_i64(t->context, (int64_t)carried)}};
    size_t attr_count = 1;
    if (args[3] || !s.sequences.leaves.count)
        attrs[attr_count++] = (tsr_attr){"length", tsr_attr_make_i64(t->context, s.length)};
    if (s.reverse) attrs[attr_count++] = (tsr_attr){"reverse", tsr_attr_make_unit(t->context)};
    const tsr_region_desc desc = {.op = {.name = TSR_GRAPH_NAME("scan"),
                                         .operands = values,
                                         .operand_count = inputs,
                                         .results = types,
                                         .result_count = count,
                                         .attrs = attrs,
                                         .regions = &region.region,
                                         .region_count = 1},
                                  .span = call->span};
    if (!tsr_region_op(e, &desc, values + inputs)) return TSR_POISON;
    return tsr_leaves_replace(e, s.results.value, values + inputs, &at);
}

/* ---- while_loop ---- */

tsr_value tsr_run_while_loop(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    const tsr_argument *args[4];
    static const char *const names[] = {"condition", "step", "init", "limit"};
    tsr_tree init, results[2];
    tsr_region regions[2];
    int64_t limit;
    (void)self;
    if (!tsr_call_read(e, call, "condition step init limit", args, 4)) return TSR_POISON;
    for (size_t i = 0; i < 4; i++)
        if (!tsr_call_need(e, call, args[i], names[i])) return TSR_POISON;
    if (!tsr_argument_function(e, args[0]) || !tsr_argument_function(e, args[1]) ||
        !tsr_tree_read(e, args[2]->value, "what a loop carries", args[2]->span, &init))
        return TSR_POISON;
    if (!tsr_value_as_integer(args[3]->value, &limit))
        return tsr_argument_refuse(e, args[3], "an int"), TSR_POISON;
    for (size_t i = 0; i < 2; i++) {
        size_t at = 0;
        tsr_region_open(t, &regions[i], init.leaves.count, init.types, call->span);
        tsr_value state = bind(e, &regions[i], &init, &at);
        bool good =
            trace_step(e, &regions[i], args[i]->value, &state, 1, call,
                       i ? "what a step of while_loop returns" : "the condition", &results[i]) &&
            (!i || tsr_tree_matches(e, &results[1], &init, "what the step returns",
                                    "what it began with", call->span));
        if (!good && i) mlirRegionDestroy(regions[0].region);
        if (!good) return TSR_POISON;
    }
    MlirRegion both[2] = {regions[0].region, regions[1].region};
    const tsr_attr attrs[] = {{"limit", tsr_attr_make_i64(t->context, limit)}, {0}};
    MlirValue *out = TSR_NEW(e->arena, MlirValue, init.leaves.count + 1);
    size_t at = 0;
    const tsr_region_desc desc = {.op = {.name = TSR_GRAPH_NAME("while"),
                                         .operands = init.values,
                                         .operand_count = init.leaves.count,
                                         .results = init.types,
                                         .result_count = init.leaves.count,
                                         .attrs = attrs,
                                         .regions = both,
                                         .region_count = 2},
                                  .span = call->span};
    if (!out) return tsr_evaluate_no_memory(e);
    return tsr_region_op(e, &desc, out) ? tsr_leaves_replace(e, init.value, out, &at) : TSR_POISON;
}

/* ---- cond ---- */

tsr_value tsr_run_cond(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    tsr_tree results[2];
    tsr_region regions[2];
    MlirValue condition;
    size_t count = call->count < 3 ? 0 : call->count - 3, at = 0;
    tsr_value *operands = TSR_NEW(e->arena, tsr_value, count + 1);
    (void)self;
    if (!operands) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < call->count; i++)
        if (call->args[i].name)
            return tsr_evaluate_fail(e, call->args[i].span, TSR_DIAG_EVALUATE_CALL,
                                     "the argument '%s' has a name; cond() takes arguments by "
                                     "position",
                                     call->args[i].name);
    if (call->count < 3)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "cond() needs a condition, two functions, and their arguments");
    if (!tsr_argument_tensor(e, &call->args[0], &condition)) return TSR_POISON;
    for (size_t i = 0; i < count; i++) operands[i] = call->args[3 + i].value;
    for (size_t i = 0; i < 2; i++) {
        bool good = tsr_argument_function(e, &call->args[1 + i]);
        if (good) {
            tsr_region_open(t, &regions[i], 0, NULL, call->span);
            good = trace_step(e, &regions[i], call->args[1 + i].value, operands, count, call,
                              "what a branch returns", &results[i]);
        }
        good = good && (!i || tsr_tree_matches(e, &results[1], &results[0],
                                               "what the second branch returns",
                                               "the result of the first", call->span));
        if (!good && i) mlirRegionDestroy(regions[0].region);
        if (!good) return TSR_POISON;
    }
    MlirRegion both[2] = {regions[0].region, regions[1].region};
    MlirValue *out = TSR_NEW(e->arena, MlirValue, results[0].leaves.count + 1);
    const tsr_region_desc desc = {.op = {.name = TSR_GRAPH_NAME("if"),
                                         .operands = &condition,
                                         .operand_count = 1,
                                         .results = results[0].types,
                                         .result_count = results[0].leaves.count,
                                         .regions = both,
                                         .region_count = 2},
                                  .span = call->span};
    if (!out) return tsr_evaluate_no_memory(e);
    return tsr_region_op(e, &desc, out) ? tsr_leaves_replace(e, results[0].value, out, &at)
                                        : TSR_POISON;
}

/* ---- checkpoint, remat ---- */

typedef struct segment {
    tsr_value function;
    const char *policy;
} segment;

static tsr_value call_segment(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    const segment *s = self.object->data;
    tsr_region region;
    tsr_tree results;
    size_t at = 0;
    if (!t->body) return tsr_evaluate_call(e, s->function, call);
    tsr_region_open(t, &region, 0, NULL, call->span);
    bool good = tsr_tree_read(e, tsr_evaluate_call(e, s->function, call), "what a segment returns",
                              call->span, &results);
    if (!tsr_region_close(t, &region, good ? &results : NULL)) return TSR_POISON;
    MlirValue *out = TSR_NEW(e->arena, MlirValue, results.leaves.count + 1);
    const tsr_attr attrs[] = {{"policy", tsr_attr_make_string(t->context, s->policy)}, {0}};
    const tsr_region_desc desc = {.op = {.name = "tessera_sr.checkpoint",
                                         .results = results.types,
                                         .result_count = results.leaves.count,
                                         .attrs = attrs,
                                         .regions = &region.region,
                                         .region_count = 1},
                                  .span = call->span};
    if (!out) return tsr_evaluate_no_memory(e);
    return tsr_region_op(e, &desc, out) ? tsr_leaves_replace(e, results.value, out, &at)
                                        : TSR_POISON;
}

static const tsr_class segment_class = {.name = "a function", .call = call_segment};

static tsr_value make_segment(tsr_evaluator *e, const tsr_argument *function, const char *policy) {
    segment *s = TSR_NEW(e->arena, segment, 1);
    if (!s) return tsr_evaluate_no_memory(e);
    *s = (segment){function->value, policy};
    return tsr_evaluate_object(e, &segment_class, s);
}

tsr_value tsr_run_checkpoint(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    static const char *const policies[] = {"full", "selective", "none"};
    const tsr_argument *args[2];
    (void)self;
    if (!tsr_call_read(e, call, "function policy", args, 2) ||
        !tsr_call_need(e, call, args[0], "function") || !tsr_argument_function(e, args[0]))
        return TSR_POISON;
    const char *policy = "selective";
    if (args[1]) policy = tsr_value_is_text(args[1]->value) ? args[1]->value.text->bytes : "";
    for (size_t i = 0; i < TSR_COUNT(policies); i++)
        if (strcmp(policy, policies[i]) == 0) return make_segment(e, args[0], policies[i]);
    return tsr_evaluate_fail(e, args[1]->span, TSR_DIAG_EVALUATE_VALUE,
                             "the policy of a checkpoint is \"full\", \"selective\" or \"none\"");
}

tsr_value tsr_run_remat(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[1];
    (void)self;
    if (!tsr_call_read(e, call, "function", args, 1) ||
        !tsr_call_need(e, call, args[0], "function") || !tsr_argument_function(e, args[0]))
        return TSR_POISON;
    return make_segment(e, args[0], "full");
}
