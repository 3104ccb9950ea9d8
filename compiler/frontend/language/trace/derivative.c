/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of functions: grad, value_and_grad, vjp, jvp; functions with rules of their own.
 *
 * The function runs in a region whose arguments are the tensors that it is differentiated for.
 */
#include "compiler/frontend/language/trace/region.h"

#include <string.h>

enum { ARGNUMS_MAX = 16 };

/* Values of the arguments of a region, from `*at` on, in the form of the tree. */
static tsr_value bind(tsr_evaluator *e, const MlirValue *arguments, const tsr_tree *tree,
                      size_t *at) {
    return tsr_leaves_replace(e, tree->value, arguments, at);
}

static MlirValue *region_arguments(tsr_evaluator *e, const tsr_region *region, size_t count) {
    MlirValue *arguments = TSR_NEW(e->arena, MlirValue, count + 1);
    for (size_t i = 0; arguments && i < count; i++) arguments[i] = tsr_region_argument(region, i);
    if (!arguments) tsr_evaluate_no_memory(e);
    return arguments;
}

/* Emits tessera.vjp or jvp: out[0 …] are the results of the function, then the derivatives. */
static bool emit(tsr_evaluator *e, const char *name, tsr_region *region, const tsr_tree *inputs,
                 const tsr_tree *others, const tsr_tree *results, const tsr_tree *like,
                 tsr_span span, MlirValue *out) {
    size_t in = inputs->leaves.count, more = others->leaves.count, y = results->leaves.count;
    MlirValue *operands = TSR_NEW(e->arena, MlirValue, in + more + 1);
    MlirType *types = TSR_NEW(e->arena, MlirType, y + like->leaves.count + 1);
    if (!operands || !types) return tsr_evaluate_no_memory(e), false;
    for (size_t i = 0; i < in; i++) operands[i] = inputs->values[i];
    for (size_t i = 0; i < more; i++) operands[in + i] = others->values[i];
    for (size_t i = 0; i < y; i++) types[i] = results->types[i];
    for (size_t i = 0; i < like->leaves.count; i++) types[y + i] = like->types[i];
    const tsr_region_desc desc = {.op = {.name = name,
                                         .operands = operands,
                                         .operand_count = in + more,
                                         .results = types,
                                         .result_count = y + like->leaves.count,
                                         .regions = &region->region,
                                         .region_count = 1},
                                  .span = span};
    return tsr_region_op(e, &desc, out);
}

/* ---- grad, value_and_grad ---- */

typedef struct gradient {
    tsr_value function;
    int64_t argnums[ARGNUMS_MAX];
    size_t count;
    bool single; /* one number was given: the gradient is that of one argument */
    bool with_value;
} gradient;

/* The function's call with the arguments that it is differentiated for replaced. */
static tsr_value call_with(tsr_evaluator *e, const gradient *g, const tsr_call *call,
                           const tsr_list *differentiated) {
    tsr_argument *args = TSR_NEW(e->arena, tsr_argument, call->count + 1);
    if (!args) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < call->count; i++) args[i] = call->args[i];
    for (size_t i = 0; i < g->count; i++) args[g->argnums[i]].value = differentiated->items[i];
    tsr_call inner = *call;
    inner.args = args;
    return tsr_evaluate_call(e, g->function, &inner);
}

static bool read_differentiated(tsr_evaluator *e, const gradient *g, const tsr_call *call,
                                tsr_tree *out) {
    tsr_value all = tsr_value_list(e->arena, TSR_VALUE_TUPLE, g->count);
    if (!all.kind) return tsr_evaluate_no_memory(e), false;
    for (size_t i = 0; i < g->count; i++) {
        size_t at = (size_t)g->argnums[i];
        if (at >= call->count || call->args[at].name) {
            tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                              "the gradient is that of argument %zu, which is not given", at);
            return false;
        }
        all.list->items[all.list->count++] = call->args[at].value;
    }
    return tsr_tree_read(e, all, "an argument with a gradient", call->span, out) &&
           tsr_tree_floats(e, out, "an argument with a gradient", call->span);
}

/* The cotangent 1 of a loss. */
static bool make_seed(tsr_evaluator *e, const tsr_tree *loss, tsr_span span, tsr_tree *out) {
    const tsr_tracer *t = tsr_tracer_of(e);
    const tsr_type *type =
        loss->leaves.count == 1 ? &tsr_tensor_get(loss->leaves.items[0])->type : NULL;
    if (!type || type->shape.rank || !tsr_tree_floats(e, loss, "a loss", span)) {
        char text[TSR_TYPE_TEXT_MAX];
        if (!type || type->shape.rank)
            tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                              "a function with a gradient returns one number; this returns %s; "
                              "vjp(…) takes others",
                              type ? tsr_type_text(type, text) : "several tensors or none");
        return false;
    }
    const tsr_attr attrs[] = {{"value", tsr_attr_make_splat(t->context, type, 1.0)}, {0}};
    tsr_value one = tsr_trace(e, span, TSR_GRAPH_NAME("constant"), 0, NULL, attrs, type);
    return tsr_tree_read(e, one, "a cotangent", span, out);
}

static tsr_value call_gradient(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    const gradient *g = self.object->data;
    tsr_tree inputs, loss, seed;
    tsr_region region;
    size_t at = 0;
    if (!read_differentiated(e, g, call, &inputs)) return TSR_POISON;
    tsr_region_open(t, &region, inputs.leaves.count, inputs.types, call->span);
    MlirValue *arguments = region_arguments(e, &region, inputs.leaves.count);
    tsr_value inner = arguments ? bind(e, arguments, &inputs, &at) : TSR_POISON;
    bool good = inner.kind &&
                tsr_tree_read(e, call_with(e, g, call, inner.list), "a loss", call->span, &loss);
    if (!tsr_region_close(t, &region, good ? &loss : NULL)) return TSR_POISON;
    size_t count = loss.leaves.count + inputs.leaves.count;
    MlirValue *out = TSR_NEW(e->arena, MlirValue, count + 1);
    if (!out || !make_seed(e, &loss, call->span, &seed)) {
        mlirRegionDestroy(region.region);
        return out ? TSR_POISON : tsr_evaluate_no_memory(e);
    }
    if (!emit(e, TSR_GRAPH_NAME("vjp"), &region, &inputs, &seed, &loss, &inputs, call->span, out))
        return TSR_POISON;
    at = 0;
    tsr_value value = tsr_leaves_replace(e, loss.value, out, &at);
    tsr_value gradients = tsr_leaves_replace(e, inputs.value, out, &at);
    if (g->single && gradients.kind) gradients = gradients.list->items[0];
    if (!g->with_value || !gradients.kind) return gradients;
    tsr_value pair = tsr_value_list(e->arena, TSR_VALUE_TUPLE, 2);
    if (!pair.kind) return tsr_evaluate_no_memory(e);
    pair.list->items[pair.list->count++] = value;
    pair.list->items[pair.list->count++] = gradients;
    return pair;
}

static const tsr_class gradient_class = {.name = "a gradient", .call = call_gradient};

static tsr_value make_gradient(tsr_evaluator *e, const tsr_call *call, bool with_value) {
    const tsr_argument *args[2];
    gradient *g = TSR_NEW(e->arena, gradient, 1);
    if (!g) return tsr_evaluate_no_memory(e);
    if (!tsr_call_read(e, call, "function argnums", args, 2) ||
        !tsr_call_need(e, call, args[0], "function") || !tsr_argument_function(e, args[0]))
        return TSR_POISON;
    *g = (gradient){.function = args[0]->value, .count = 1, .single = true};
    g->with_value = with_value;
    if (args[1]) {
        int64_t number;
        g->single = tsr_value_as_integer(args[1]->value, &number);
        if (!tsr_argument_integers(e, args[1], ARGNUMS_MAX, g->argnums, &g->count))
            return TSR_POISON;
    }
    for (size_t i = 0; i < g->count; i++)
        for (size_t k = 0; k <= i; k++)
            if (g->argnums[i] < 0 || (k < i && g->argnums[k] == g->argnums[i]))
                return tsr_evaluate_fail(e, args[1]->span, TSR_DIAG_EVALUATE_VALUE,
                                         "'argnums' counts arguments from 0, each once");
    return tsr_evaluate_object(e, &gradient_class, g);
}

tsr_value tsr_run_grad(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_gradient(e, call, false);
}

tsr_value tsr_run_value_and_grad(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_gradient(e, call, true);
}

/* ---- vjp, jvp ---- */

typedef struct product {
    const char *op, *parameters, *vectors; /* how messages name the vectors */
    bool forward;
} product;

/* f(*primals); primals that are not a tuple are its only argument. */
static tsr_value call_primals(tsr_evaluator *e, tsr_value function, tsr_value primals,
                              const tsr_call *call) {
    bool tuple = primals.kind == TSR_VALUE_TUPLE;
    return tsr_region_call(e, function, tuple ? primals.list->items : &primals,
                           tuple ? primals.list->count : 1, call);
}

static tsr_value run_product(tsr_evaluator *e, const tsr_call *call, const product *p) {
    tsr_tracer *t = tsr_tracer_of(e);
    const tsr_argument *args[3];
    tsr_tree inputs, vectors, results;
    tsr_region region;
    size_t at = 0;
    if (!tsr_call_read(e, call, p->parameters, args, 3) ||
        !tsr_call_need(e, call, args[0], "function") ||
        !tsr_call_need(e, call, args[1], "primals") ||
        !tsr_call_need(e, call, args[2], p->vectors) || !tsr_argument_function(e, args[0]) ||
        !tsr_tree_read(e, args[1]->value, "what a function is differentiated for", args[1]->span,
                       &inputs) ||
        !tsr_tree_floats(e, &inputs, "what a function is differentiated for", args[1]->span) ||
        !tsr_tree_read(e, args[2]->value, p->vectors, args[2]->span, &vectors))
        return TSR_POISON;
    tsr_region_open(t, &region, inputs.leaves.count, inputs.types, call->span);
    MlirValue *arguments = region_arguments(e, &region, inputs.leaves.count);
    tsr_value inner = arguments ? bind(e, arguments, &inputs, &at) : TSR_POISON;
    bool good =
        inner.kind &&
        tsr_tree_read(e, call_primals(e, args[0]->value, inner, call),
                      "what a function with a derivative returns", call->span, &results) &&
        tsr_tree_floats(e, &results, "what a function with a derivative returns", call->span) &&
        tsr_tree_matches(e, &vectors, p->forward ? &inputs : &results, p->vectors,
                         p->forward ? "primals" : "the result", args[2]->span);
    if (!tsr_region_close(t, &region, good ? &results : NULL)) return TSR_POISON;
    const tsr_tree *like = p->forward ? &results : &inputs;
    MlirValue *out = TSR_NEW(e->arena, MlirValue, results.leaves.count + like->leaves.count + 1);
    tsr_value pair = tsr_value_list(e->arena, TSR_VALUE_TUPLE, 2);
    if (!out || !pair.kind) return mlirRegionDestroy(region.region), tsr_evaluate_no_memory(e);
    if (!emit(e, p->op, &region, &inputs, &vectors, &results, like, call->span, out))
        return TSR_POISON;
    at = 0;
    pair.list->items[pair.list->count++] = tsr_leaves_replace(e, results.value, out, &at);
    pair.list->items[pair.list->count++] = tsr_leaves_replace(e, like->value, out, &at);
    return pair;
}

tsr_value tsr_run_vjp(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    static const product p = {.op = TSR_GRAPH_NAME("vjp"),
                              .parameters = "function primals cotangents",
                              .vectors = "cotangents"};
    (void)self;
    return run_product(e, call, &p);
}

tsr_value tsr_run_jvp(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    static const product p = {.op = TSR_GRAPH_NAME("jvp"),
                              .parameters = "function primals tangents",
                              .vectors = "tangents",
                              .forward = true};
    (void)self;
    return run_product(e, call, &p);
}

/* ---- custom_vjp, custom_jvp ---- */

typedef struct custom {
    tsr_value function;
    tsr_value rules[2]; /* vjp, jvp; POISON: none */
} custom;

static const char *const rule_names[] = {"vjp", "jvp"};

/* The arguments with other tensors, then more values. */
static tsr_value *rule_arguments(tsr_evaluator *e, const tsr_call *call, const MlirValue *values,
                                 size_t *at) {
    tsr_value *out = TSR_NEW(e->arena, tsr_value, call->count + 3);
    if (!out) return tsr_evaluate_no_memory(e), NULL;
    for (size_t i = 0; i < call->count; i++)
        out[i] = tsr_leaves_replace(e, call->args[i].value, values, at);
    return out;
}

/* One value alone, or a tuple. */
static tsr_value pack(tsr_evaluator *e, const MlirValue *values, size_t count) {
    if (count == 1) return tsr_tensor_make(e, values[0]);
    tsr_value tuple = tsr_value_list(e->arena, TSR_VALUE_TUPLE, count);
    if (!tuple.kind) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < count; i++)
        tuple.list->items[tuple.list->count++] = tsr_tensor_make(e, values[i]);
    return tuple;
}

/* A region of a rule: it takes x, y and the vectors, one for each tensor of `given`, and yields one
 * for each tensor of `like`. */
static bool trace_rule(tsr_evaluator *e, tsr_value rule, const tsr_call *call,
                       const tsr_tree *inputs, const tsr_tree *results, const tsr_tree *given,
                       const tsr_tree *like, const char *name, tsr_region *region) {
    tsr_tracer *t = tsr_tracer_of(e);
    size_t in = inputs->leaves.count, y = results->leaves.count, more = given->leaves.count;
    MlirType *types = TSR_NEW(e->arena, MlirType, in + y + more + 1);
    tsr_tree returned;
    size_t at = 0, from = 0;
    if (!types) return tsr_evaluate_no_memory(e), false;
    for (size_t i = 0; i < in; i++) types[i] = inputs->types[i];
    for (size_t i = 0; i < y; i++) types[in + i] = results->types[i];
    for (size_t i = 0; i < more; i++) types[in + y + i] = given->types[i];
    tsr_region_open(t, region, in + y + more, types, call->span);
    MlirValue *arguments = region_arguments(e, region, in + y + more);
    tsr_value *values = arguments ? rule_arguments(e, call, arguments, &at) : NULL;
    bool good = values != NULL;
    if (good) {
        values[call->count] = tsr_leaves_replace(e, results->value, arguments + in, &from);
        values[call->count + 1] = pack(e, arguments + in + y, more);
        tsr_value said = tsr_region_call(e, rule, values, call->count + 2, call);
        good = tsr_tree_read(e, said, "what a rule returns", call->span, &returned) &&
               tsr_tree_matches(e, &returned, like, "what the rule returns", name, call->span);
    }
    return tsr_region_close(t, region, good ? &returned : NULL);
}

static bool read_custom(tsr_evaluator *e, const tsr_call *call, tsr_tree *out) {
    tsr_value all = tsr_value_list(e->arena, TSR_VALUE_TUPLE, call->count);
    if (!all.kind) return tsr_evaluate_no_memory(e), false;
    for (size_t i = 0; i < call->count; i++) {
        if (call->args[i].name) {
            tsr_evaluate_fail(e, call->args[i].span, TSR_DIAG_EVALUATE_CALL,
                              "the argument '%s' has a name; functions with rules take arguments "
                              "by position",
                              call->args[i].name);
            return false;
        }
        tsr_leaves leaves = {0};
        tsr_leaves_collect(e, call->args[i].value, &leaves);
        if (leaves.count) all.list->items[all.list->count++] = call->args[i].value;
    }
    return tsr_tree_read(e, all, "an argument with tensors", call->span, out) &&
           tsr_tree_floats(e, out, "an argument of a function with rules", call->span);
}

static tsr_value call_custom(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    const custom *c = self.object->data;
    tsr_tree inputs, results;
    tsr_region regions[3];
    size_t at = 0, made = 0;
    if (!c->rules[0].kind && !c->rules[1].kind)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "the function has no rule; @f.vjp or @f.jvp gives it one");
    if (!read_custom(e, call, &inputs)) return TSR_POISON;
    tsr_region_open(t, &regions[0], inputs.leaves.count, inputs.types, call->span);
    MlirValue *arguments = region_arguments(e, &regions[0], inputs.leaves.count);
    tsr_value *values = arguments ? rule_arguments(e, call, arguments, &at) : NULL;
    bool good = values &&
                tsr_tree_read(e, tsr_region_call(e, c->function, values, call->count, call),
                              "what a function with rules returns", call->span, &results) &&
                tsr_tree_floats(e, &results, "what a function with rules returns", call->span);
    if (!tsr_region_close(t, &regions[made++], good ? &results : NULL)) return TSR_POISON;
    for (size_t i = 0; i < 2; i++) {
        bool ok = true;
        if (c->rules[i].kind)
            ok = trace_rule(e, c->rules[i], call, &inputs, &results, i ? &inputs : &results,
                            i ? &results : &inputs, i ? "the result" : "the arguments",
                            &regions[made]);
        else
            regions[made].region = mlirRegionCreate();
        if (ok) made++;
        if (ok) continue;
        while (made) mlirRegionDestroy(regions[--made].region);
        return TSR_POISON;
    }
    MlirRegion all[3] = {regions[0].region, regions[1].region, regions[2].region};
    MlirValue *out = TSR_NEW(e->arena, MlirValue, results.leaves.count + 1);
    if (!out) return tsr_evaluate_no_memory(e);
    const tsr_region_desc desc = {.op = {.name = TSR_GRAPH_NAME("custom_derivative"),
                                         .operands = inputs.values,
                                         .operand_count = inputs.leaves.count,
                                         .results = results.types,
                                         .result_count = results.leaves.count,
                                         .regions = all,
                                         .region_count = 3},
                                  .span = call->span};
    at = 0;
    return tsr_region_op(e, &desc, out) ? tsr_leaves_replace(e, results.value, out, &at)
                                        : TSR_POISON;
}

/* @f.vjp: the function below becomes the rule. */
static tsr_value set_rule(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    custom *c = (custom *)self.object->data;
    if (call->count != 1 || call->args[0].value.kind != TSR_VALUE_FUNCTION)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "@f.%s stands before a function", call->callee);
    size_t index = strcmp(self.object->class->name, rule_names[1]) == 0;
    c->rules[index] = call->args[0].value;
    return call->args[0].value;
}

static const tsr_class rule_classes[] = {{.name = "vjp", .call = set_rule},
                                         {.name = "jvp", .call = set_rule}};

static tsr_value find_rule(tsr_evaluator *e, tsr_value self, const char *name, tsr_span span) {
    (void)span;
    for (size_t i = 0; i < 2; i++)
        if (strcmp(name, rule_names[i]) == 0)
            return tsr_evaluate_object(e, &rule_classes[i], self.object->data);
    return TSR_POISON;
}

static const tsr_class custom_class = {
    .name = "a function with rules", .call = call_custom, .attribute = find_rule};

static tsr_value make_custom(tsr_evaluator *e, const tsr_call *call) {
    const tsr_argument *args[1];
    custom *c = TSR_NEW(e->arena, custom, 1);
    if (!c) return tsr_evaluate_no_memory(e);
    if (!tsr_call_read(e, call, "function", args, 1) ||
        !tsr_call_need(e, call, args[0], "function") || !tsr_argument_function(e, args[0]))
        return TSR_POISON;
    c->function = args[0]->value;
    return tsr_evaluate_object(e, &custom_class, c);
}

tsr_value tsr_run_custom_vjp(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_custom(e, call);
}

tsr_value tsr_run_custom_jvp(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    return make_custom(e, call);
}
