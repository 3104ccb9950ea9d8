/* SPDX-License-Identifier: Apache-2.0
 *
 * Decorators that state something about a function: @constraints("D % 8 == 0"),
 * @deterministic(seed=7), @autodiff. Graph IR checks and keeps them.
 */
#include "compiler/frontend/language/trace/tracer.h"

#include <inttypes.h>

static bool is_stated(const tsr_tracer *t, const tsr_ast *function) {
    for (const tsr_promise *p = t->promises; p; p = p->next)
        if (p->function == function && !mlirAttributeIsNull(p->deterministic)) return true;
    return false;
}

static tsr_value state(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    tsr_tracer *t = tsr_tracer_of(e);
    tsr_promise *own = tsr_arena_memdup(e->arena, self.object->data, sizeof *own);
    if (!own) return tsr_evaluate_no_memory(e);
    if (call->count != 1 || call->args[0].value.kind != TSR_VALUE_FUNCTION)
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "the decorator stands directly before a function");
    own->function = call->args[0].value.function->node;
    if (!mlirAttributeIsNull(own->deterministic) && is_stated(t, own->function))
        return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                                 "@deterministic stands twice before %s()",
                                 call->args[0].value.function->name);
    own->next = t->promises;
    t->promises = own;
    return call->args[0].value;
}

static const tsr_class promise_class = {.name = "a decorator", .call = state};

static tsr_value make_promise(tsr_evaluator *e, const tsr_promise *promise) {
    tsr_promise *own = tsr_arena_memdup(e->arena, promise, sizeof *promise);
    return own ? tsr_evaluate_object(e, &promise_class, own) : tsr_evaluate_no_memory(e);
}

tsr_value tsr_run_constraints(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const char **texts = TSR_NEW(e->arena, const char *, call->count + 1);
    (void)self;
    if (!texts) return tsr_evaluate_no_memory(e);
    for (size_t i = 0; i < call->count; i++) {
        const tsr_argument *a = &call->args[i];
        if (a->name || !tsr_value_is_text(a->value))
            return tsr_argument_refuse(e, a, "a text, as \"D % 8 == 0\""), TSR_POISON;
        texts[i] = a->value.text->bytes;
    }
    return make_promise(e, &(tsr_promise){.constraints = texts, .constraint_count = call->count});
}

tsr_value tsr_run_deterministic(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    MlirContext context = tsr_tracer_of(e)->context;
    const tsr_argument *args[1];
    int64_t seed;
    (void)self;
    if (!tsr_call_read(e, call, "seed", args, 1) || !tsr_call_need(e, call, args[0], "seed"))
        return TSR_POISON;
    if (!tsr_value_as_integer(args[0]->value, &seed))
        return tsr_argument_refuse(e, args[0], "an int"), TSR_POISON;
    if (seed < 0 || seed > UINT32_MAX)
        return tsr_evaluate_fail(e, args[0]->span, TSR_DIAG_EVALUATE_VALUE,
                                 "the seed is %" PRId64 "; expected 0 to %" PRIu32, seed,
                                 UINT32_MAX);
    MlirNamedAttribute named = {mlirIdentifierGet(context, tsr_ref("seed")),
                                tsr_attr_make_i64(context, seed)};
    return make_promise(e,
                        &(tsr_promise){.deterministic = mlirDictionaryAttrGet(context, 1, &named)});
}

tsr_value tsr_run_autodiff(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    (void)self;
    if (call->count == 1 && call->args[0].value.kind == TSR_VALUE_FUNCTION)
        return call->args[0].value;
    return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL,
                             "@autodiff stands before a function");
}
