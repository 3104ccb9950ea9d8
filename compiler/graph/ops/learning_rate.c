/* SPDX-License-Identifier: Apache-2.0
 *
 * The learning rate of a step: `lr_schedule` of an optimizer's op. A linear warm-up, then a decay
 * along half a cosine (Loshchilov and Hutter 2017, "SGDR", section 3, without restarts) or a line:
 *
 *     lr(t) = lr * min(t / warmup_steps, 1) * (final + (1 - final) * d(p))
 *     p     = (t - warmup_steps) / (total_steps - warmup_steps), from 0 to 1
 *     d(p)  = (1 + cos(pi p)) / 2 for "cosine", 1 - p for "linear", 1 for "constant"
 *
 * t is the step, starting at 1. Everything is computed in f64.
 */
#include "compiler/graph/rules.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const kinds[] = {"constant", "linear", "cosine"};
enum { CONSTANT, LINEAR, COSINE, KIND_COUNT };
_Static_assert(TSR_COUNT(kinds) == KIND_COUNT, "a name for each kind");

typedef struct lr_schedule {
    int kind;
    int64_t warmup_steps, total_steps;
    double final;
} lr_schedule;

static const char attribute[] = "lr_schedule";

/* ---- reading --------------------------------------------------------------------------------- */

static int find_kind(const char *name) {
    for (int i = 0; name && i < KIND_COUNT; i++)
        if (strcmp(kinds[i], name) == 0) return i;
    return -1;
}

static bool read_number(MlirAttribute attr, double *out_value) {
    if (!mlirAttributeIsAFloat(attr)) return false;
    *out_value = mlirFloatAttrGetValueDouble(attr);
    return true;
}

/* NULL: every key was read; else the name of one that is unknown or of another type. */
static const char *read_schedule(MlirAttribute dictionary, lr_schedule *out) {
    *out = (lr_schedule){.kind = -1};
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(dictionary); i++) {
        MlirNamedAttribute entry = mlirDictionaryAttrGetElement(dictionary, i);
        MlirStringRef name = mlirIdentifierStr(entry.name);
        bool read = false;
        if (tsr_ref_is(name, "kind")) {
            out->kind = find_kind(tsr_attr_string(entry.attribute));
            read = out->kind >= 0;
        } else if (tsr_ref_is(name, "warmup_steps")) {
            read = tsr_attr_i64(entry.attribute, &out->warmup_steps);
        } else if (tsr_ref_is(name, "total_steps")) {
            read = tsr_attr_i64(entry.attribute, &out->total_steps);
        } else if (tsr_ref_is(name, "final")) {
            read = read_number(entry.attribute, &out->final);
        }
        if (!read) return name.data;
    }
    return NULL;
}

bool tsr_lr_schedule_check(const tsr_rule *rule) {
    lr_schedule s;
    MlirAttribute dictionary = tsr_op_attr(rule->op, attribute);
    if (mlirAttributeIsNull(dictionary)) return true;
    if (!mlirAttributeIsADictionary(dictionary))
        return tsr_rule_fail(rule, TSR_DIAG_VALUE, "lr_schedule is not a dictionary");
    const char *wrong = read_schedule(dictionary, &s);
    if (wrong)
        return tsr_rule_fail(rule, TSR_DIAG_VALUE,
                             "lr_schedule: '%s' is not one of kind (\"constant\", \"linear\" or "
                             "\"cosine\"), warmup_steps, total_steps (integers), final (a number)",
                             wrong);
    if (s.kind < 0)
        return tsr_rule_fail(rule, TSR_DIAG_VALUE,
                             "lr_schedule has no kind, needs \"constant\", \"linear\" or "
                             "\"cosine\"");
    if (s.warmup_steps < 0)
        return tsr_rule_fail(rule, TSR_DIAG_INTEGER_LOW,
                             "lr_schedule: warmup_steps is %" PRId64 ", needs at least 0",
                             s.warmup_steps);
    if (s.kind != CONSTANT && s.total_steps <= s.warmup_steps)
        return tsr_rule_fail(rule, TSR_DIAG_INTEGER_LOW,
                             "lr_schedule: total_steps is %" PRId64 ", needs more than the %" PRId64
                             " warmup_steps",
                             s.total_steps, s.warmup_steps);
    if (!(s.final >= 0 && s.final <= 1))
        return tsr_rule_fail(rule, TSR_DIAG_RATE, "lr_schedule: final is %g, needs 0 <= final <= 1",
                             s.final);
    return true;
}

bool tsr_lr_schedule_is_given(MlirOperation op) {
    return !mlirAttributeIsNull(tsr_op_attr(op, attribute));
}

/* ---- emitting -------------------------------------------------------------------------------- */

static MlirValue number(tsr_builder *b, double value) {
    return tsr_emit_constant(b, TSR_DTYPE_F64, value);
}

static MlirValue limit(tsr_builder *b, const char *name, MlirValue x, double value) {
    return tsr_emit_binary(b, name, x, number(b, value));
}

/* (1 + cos(pi p)) / 2 = (1 - sin(x)) / 2 with x = pi (p - 1/2) in [-pi/2, pi/2]: there the series
 * of sin to x^21 is off by less than an ulp of 1. */
static MlirValue half_cosine(tsr_builder *b, MlirValue p) {
    enum { TERMS = 11 };
    static const double pi = 3.14159265358979323846;
    MlirValue x = tsr_emit_mul(b, tsr_emit_sub(b, p, number(b, 0.5)), number(b, pi));
    MlirValue square = tsr_emit_mul(b, x, x), sum = number(b, 1.0);
    for (int k = TERMS - 1; k > 0; k--) {
        MlirValue factor = number(b, -1.0 / (2 * k * (2 * k + 1)));
        sum =
            tsr_emit_add(b, number(b, 1.0), tsr_emit_mul(b, tsr_emit_mul(b, square, factor), sum));
    }
    MlirValue sine = tsr_emit_mul(b, x, sum);
    return tsr_emit_mul(b, tsr_emit_sub(b, number(b, 1.0), sine), number(b, 0.5));
}

static MlirValue emit_decay(tsr_builder *b, const lr_schedule *s, MlirValue t) {
    double steps = (double)(s->total_steps - s->warmup_steps);
    MlirValue behind = tsr_emit_sub(b, t, number(b, (double)s->warmup_steps));
    MlirValue p = tsr_emit_div(b, behind, number(b, steps));
    p = limit(b, TSR_GRAPH_NAME("min"), limit(b, TSR_GRAPH_NAME("max"), p, 0.0), 1.0);
    MlirValue d = s->kind == COSINE ? half_cosine(b, p) : tsr_emit_sub(b, number(b, 1.0), p);
    return tsr_emit_add(b, number(b, s->final), tsr_emit_mul(b, number(b, 1.0 - s->final), d));
}

MlirValue tsr_lr_schedule_emit(tsr_builder *b, MlirOperation op, MlirValue lr, MlirValue step) {
    MlirValue rate = lr, t;
    lr_schedule s;
    if (!tsr_lr_schedule_is_given(op)) return rate;
    const char *wrong = read_schedule(tsr_op_attr(op, attribute), &s);
    TSR_ASSERT(!wrong);
    t = tsr_emit_cast(b, step, TSR_DTYPE_F64);
    if (s.warmup_steps > 0) {
        MlirValue part = tsr_emit_div(b, t, number(b, (double)s.warmup_steps));
        rate = tsr_emit_mul(b, rate, limit(b, TSR_GRAPH_NAME("min"), part, 1.0));
    }
    return s.kind == CONSTANT ? rate : tsr_emit_mul(b, rate, emit_decay(b, &s, t));
}
