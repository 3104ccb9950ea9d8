/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies after '@', and placement: bf16 @accum(f32), KVCache[…] @device(gpu), with device(gpu).
 * Those that nothing acts on are refused.
 */
#include "compiler/frontend/language/trace/tracer.h"

#include <string.h>

/* ---- policies ---- */

const tsr_class tsr_policy_class = {.name = "a policy"};

const tsr_policy *tsr_policy_get(tsr_value v) {
    if (tsr_value_is(v, &tsr_policy_class) || tsr_value_is(v, &tsr_device_class))
        return v.object->data;
    return NULL;
}

tsr_value tsr_policy_refuse(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                            tsr_span span) {
    const tsr_policy *policy = op == TSR_OPERATOR_MATRIX ? tsr_policy_get(b) : NULL;
    if (policy)
        return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "@%s is not a policy of %s",
                                 policy->name, tsr_value_type_name(a));
    return tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "'%s' does not take %s and %s",
                             tsr_operator_text(op), tsr_value_type_name(a), tsr_value_type_name(b));
}

static tsr_value make_policy(tsr_evaluator *e, const char *name, unsigned of, tsr_dtype dtype) {
    const tsr_policy policy = {.name = name, .of = of, .dtype = dtype};
    tsr_policy *own = tsr_arena_memdup(e->arena, &policy, sizeof policy);
    return own ? tsr_evaluate_object(e, &tsr_policy_class, own) : tsr_evaluate_no_memory(e);
}

#define POLICY(name, of)                                                                           \
    tsr_value tsr_name_##name(tsr_evaluator *e) {                                                  \
        return make_policy(e, #name, of, TSR_DTYPE_NONE);                                          \
    }
POLICY(checkpointable, TSR_POLICY_OF_STATES)
POLICY(fp32_master, TSR_POLICY_OF_STATES)
POLICY(paged, TSR_POLICY_OF_STATES)
POLICY(rolling_window, TSR_POLICY_OF_CACHES)
POLICY(saturate, TSR_POLICY_OF_TYPES)
POLICY(stochastic_round, TSR_POLICY_OF_TYPES)

tsr_value tsr_run_accum(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[1];
    tsr_dtype dtype;
    (void)self;
    if (!tsr_call_read(e, call, "dtype", args, 1) || !tsr_call_need(e, call, args[0], "dtype") ||
        !tsr_argument_dtype(e, args[0], &dtype))
        return TSR_POISON;
    return make_policy(e, "accum", TSR_POLICY_OF_TYPES, dtype);
}

tsr_value tsr_run_loss_scale(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[1];
    double scale;
    (void)self;
    if (!tsr_call_read(e, call, "scale", args, 1) || !tsr_call_need(e, call, args[0], "scale") ||
        !tsr_argument_real(e, args[0], &scale))
        return TSR_POISON;
    return make_policy(e, "loss_scale", TSR_POLICY_OF_TYPES, TSR_DTYPE_NONE);
}

/* The type in which sums of products are computed. */
static tsr_dtype accumulates_in(tsr_dtype dtype) {
    return dtype == TSR_DTYPE_BF16 || dtype == TSR_DTYPE_F16 ? TSR_DTYPE_F32 : dtype;
}

static tsr_value apply_policy(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                              tsr_span span) {
    const tsr_policy *policy = op == TSR_OPERATOR_MATRIX ? tsr_policy_get(b) : NULL;
    bool types = tsr_value_is(a, &tsr_dtype_class) && tsr_value_is(b, &tsr_dtype_class);
    if (op == TSR_OPERATOR_EQUAL || op == TSR_OPERATOR_NOT_EQUAL)
        return tsr_value_bool((types && tsr_dtype_get(a) == tsr_dtype_get(b)) ==
                              (op == TSR_OPERATOR_EQUAL));
    if (!policy || !(policy->of & TSR_POLICY_OF_TYPES)) return tsr_policy_refuse(e, op, a, b, span);
    tsr_dtype dtype = tsr_dtype_get(a);
    if (strcmp(policy->name, "accum") != 0)
        return tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_LATER,
                                 "this version of Tessera cannot act on @%s", policy->name);
    if (policy->dtype != accumulates_in(dtype))
        return tsr_evaluate_fail(
            e, span, TSR_DIAG_TRACE_LATER,
            "sums of %s are accumulated in %s; this version cannot accumulate them in %s",
            tsr_dtype_name(dtype), tsr_dtype_name(accumulates_in(dtype)),
            tsr_dtype_name(policy->dtype));
    return a;
}

/* ---- element types ---- */

const tsr_class tsr_dtype_class = {.name = "an element type", .binary = apply_policy};

tsr_dtype tsr_dtype_get(tsr_value v) { return *(const tsr_dtype *)v.object->data; }

tsr_value tsr_dtype_object(tsr_evaluator *e, tsr_dtype dtype) {
    tsr_dtype *own = tsr_arena_memdup(e->arena, &dtype, sizeof dtype);
    return own ? tsr_evaluate_object(e, &tsr_dtype_class, own) : tsr_evaluate_no_memory(e);
}

/* ---- state of optimizers ---- */

static tsr_value apply_state_policy(tsr_evaluator *e, tsr_operator op, tsr_value a, tsr_value b,
                                    tsr_span span) {
    const tsr_policy *policy = op == TSR_OPERATOR_MATRIX ? tsr_policy_get(b) : NULL;
    if (!policy || !tsr_value_is(a, &tsr_state_class) || !(policy->of & TSR_POLICY_OF_STATES))
        return tsr_policy_refuse(e, op, a, b, span);
    if (strcmp(policy->name, "paged") == 0)
        return tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_LATER,
                                 "this version of Tessera cannot act on @paged: the state of an "
                                 "optimizer stays on the device");
    tsr_state_policy own = *(const tsr_state_policy *)a.object->data;
    own.master = own.master || strcmp(policy->name, "fp32_master") == 0;
    tsr_state_policy *copy = tsr_arena_memdup(e->arena, &own, sizeof own);
    return copy ? tsr_evaluate_object(e, &tsr_state_class, copy) : tsr_evaluate_no_memory(e);
}

static tsr_value select_state(tsr_evaluator *e, tsr_value self, tsr_value index, tsr_span span) {
    (void)self;
    (void)index;
    return tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_LATER,
                             "this version of Tessera has one OptimizerState for all parameters; "
                             "leave out […]");
}

const tsr_class tsr_state_class = {
    .name = "a state of an optimizer", .binary = apply_state_policy, .subscript = select_state};

tsr_value tsr_name_OptimizerState(tsr_evaluator *e) {
    static const tsr_state_policy plain;
    return tsr_evaluate_object(e, &tsr_state_class, &plain);
}

/* ---- placement ---- */

static bool enter(tsr_evaluator *e, tsr_value self, tsr_span span) {
    (void)e;
    (void)self;
    (void)span;
    return true;
}

static void leave(tsr_evaluator *e, tsr_value self) {
    (void)e;
    (void)self;
}

static tsr_value select_device(tsr_evaluator *e, tsr_value self, tsr_value index, tsr_span span) {
    int64_t at;
    if (tsr_value_as_integer(index, &at) && at == 0) return self;
    return tsr_evaluate_fail(e, span, TSR_DIAG_TRACE_LATER,
                             "this version of Tessera places a program on one device, gpu[0]; "
                             "mesh(data=8) distributes its training");
}

static const tsr_class gpu_class = {.name = "a kind of device", .subscript = select_device};
const tsr_class tsr_device_class = {.name = "a device", .enter = enter, .leave = leave};
static const tsr_class prefetch_class = {.name = "a prefetch", .enter = enter, .leave = leave};

tsr_value tsr_name_gpu(tsr_evaluator *e) { return tsr_evaluate_object(e, &gpu_class, NULL); }

tsr_value tsr_run_device(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    static const tsr_policy policy = {.name = "device", .of = TSR_POLICY_OF_CACHES};
    const tsr_argument *args[1];
    (void)self;
    if (!tsr_call_read(e, call, "kind", args, 1) || !tsr_call_need(e, call, args[0], "kind"))
        return TSR_POISON;
    if (!tsr_value_is(args[0]->value, &gpu_class))
        return tsr_argument_refuse(e, args[0], "gpu"), TSR_POISON;
    return tsr_evaluate_object(e, &tsr_device_class, &policy);
}

static bool is_text(const tsr_argument *a, const char *text) {
    return !a || (tsr_value_is_text(a->value) && strcmp(a->value.text->bytes, text) == 0);
}

/* Kernels of attention on GPUs copy keys and values through shared memory while they compute. */
tsr_value tsr_run_prefetch(tsr_evaluator *e, tsr_value self, const tsr_call *call) {
    const tsr_argument *args[3];
    (void)self;
    if (!tsr_call_read(e, call, "object into overlap", args, 3) ||
        !tsr_call_need(e, call, args[0], "object"))
        return TSR_POISON;
    if (!tsr_value_is(args[0]->value, &tsr_cache_class))
        return tsr_argument_refuse(e, args[0], "a cache"), TSR_POISON;
    if (!is_text(args[1], "smem") || !is_text(args[2], "compute"))
        return tsr_evaluate_fail(
            e, call->span, TSR_DIAG_TRACE_LATER,
            "this version of Tessera prefetches a cache with into=\"smem\" and "
            "overlap=\"compute\" only");
    return tsr_evaluate_object(e, &prefetch_class, NULL);
}
