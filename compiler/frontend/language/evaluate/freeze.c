/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists and dicts that may not change any more. A function is compiled once for several calls, so
 * what it reads besides its arguments must be the same in each call, and it must change nothing
 * outside: the values of modules are frozen once these have run, and those around a nested function
 * while it is compiled.
 */
#include "compiler/frontend/language/evaluate/run.h"
#include "runtime/base/array.h"

static void freeze(tsr_evaluator *e, tsr_value v);

static void note(tsr_evaluator *e, tsr_value v, bool *frozen) {
    if (e->frozen_count == e->frozen_capacity) {
        tsr_value *larger = TSR_ARENA_GROW(e->arena, e->frozen, &e->frozen_capacity, 16);
        if (!larger) {
            tsr_evaluate_no_memory(e);
            return;
        }
        e->frozen = larger;
    }
    e->frozen[e->frozen_count++] = v;
    *frozen = true;
}

static void freeze_list(tsr_evaluator *e, tsr_value v) {
    if (v.list->frozen) return;
    note(e, v, &v.list->frozen);
    for (size_t i = 0; i < v.list->count; i++) freeze(e, v.list->items[i]);
}

static void freeze_dict(tsr_evaluator *e, tsr_value v) {
    if (v.dict->frozen) return;
    note(e, v, &v.dict->frozen);
    for (size_t i = 0; i < v.dict->live; i++) freeze(e, tsr_dict_entry_at(v.dict, i)->value);
}

/* What a nested function reads from the functions around it. */
static void freeze_outer(tsr_evaluator *e, tsr_activation *outer) {
    for (tsr_activation *a = outer; a && !a->walked; a = a->outer) {
        a->walked = true;
        tsr_evaluate_freeze_scope(e, &a->locals);
        a->walked = false;
    }
}

static void freeze(tsr_evaluator *e, tsr_value v) {
    if (v.kind == TSR_VALUE_LIST || v.kind == TSR_VALUE_TUPLE) freeze_list(e, v);
    if (v.kind == TSR_VALUE_DICT) freeze_dict(e, v);
    if (v.kind == TSR_VALUE_FUNCTION) freeze_outer(e, v.function->outer);
}

size_t tsr_evaluate_freeze(tsr_evaluator *e, tsr_value value) {
    size_t mark = e->frozen_count;
    freeze(e, value);
    return mark;
}

size_t tsr_evaluate_freeze_scope(tsr_evaluator *e, const tsr_scope *scope) {
    size_t mark = e->frozen_count;
    for (size_t i = 0; i < scope->count; i++) freeze(e, scope->bindings[i].value);
    return mark;
}

void tsr_evaluate_thaw(tsr_evaluator *e, size_t mark) {
    while (e->frozen_count > mark) {
        tsr_value v = e->frozen[--e->frozen_count];
        if (v.kind == TSR_VALUE_DICT)
            v.dict->frozen = false;
        else
            v.list->frozen = false;
    }
}

bool tsr_evaluate_can_change(tsr_evaluator *e, tsr_value v, tsr_span span) {
    bool frozen = v.kind == TSR_VALUE_DICT ? v.dict->frozen : v.list->frozen;
    if (frozen)
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_VALUE,
                          "the %s is made outside of the function, which is compiled once for all "
                          "its calls and cannot change it; return a new one",
                          tsr_value_type_name(v));
    return !frozen;
}
