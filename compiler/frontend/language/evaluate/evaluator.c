/* SPDX-License-Identifier: Apache-2.0
 *
 * What every part of the evaluator uses: errors, limits, truth and items of values. An error makes
 * a value POISON, which is silent from then on, so that what comes after it is checked, too.
 */
#include "compiler/frontend/language/evaluate/run.h"

#include <stdio.h>

enum { MESSAGE_MAX = 900, NESTED_MAX = 100 };

/* ---- errors and limits ---- */

static void note_loop(tsr_evaluator *e, tsr_diag *diag, const tsr_source *source,
                      const tsr_for_loop *loop) {
    tsr_buffer text = {0};
    if (!loop || loop->target->kind != TSR_AST_NAME || loop->item.kind > TSR_VALUE_TEXT) return;
    tsr_value_repr(loop->item, &text);
    tsr_report_note(e->report, diag, source, loop->target->span, "in the step with %s = %s",
                    loop->target->field[TSR_AST_NAME_ID].text.bytes, text.bytes ? text.bytes : "?");
    tsr_buffer_finish(&text);
}

void tsr_evaluate_note_calls(tsr_evaluator *e, tsr_diag *diag) {
    for (const tsr_activation *f = e->frame; f; f = f->caller) {
        note_loop(e, diag, f->source, f->loop);
        const tsr_ast *node = f->function ? f->function->node : NULL;
        bool entry = node && f->called_at.begin == node->span.begin;
        if (f->caller && !entry) /* an entry is called by no code */
            tsr_report_note(e->report, diag, f->caller->source, f->called_at, "called from here");
    }
}

static tsr_value fail(tsr_evaluator *e, tsr_span span, tsr_diag_number number, const char *fix,
                      const char *format, va_list args) {
    char text[MESSAGE_MAX];
    vsnprintf(text, sizeof text, format, args);
    if (e->stopped) return TSR_POISON;
    tsr_diag *diag = tsr_report_error(e->report, e->frame->source, span, number, "%s", text);
    if (fix) tsr_report_fix(e->report, diag, e->frame->source, span, fix);
    tsr_evaluate_note_calls(e, diag);
    if (tsr_report_is_full(e->report)) e->stopped = true;
    return TSR_POISON;
}

tsr_value tsr_evaluate_fail(tsr_evaluator *e, tsr_span span, tsr_diag_number number,
                            const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail(e, span, number, NULL, format, args);
    va_end(args);
    return TSR_POISON;
}

tsr_value tsr_evaluate_fail_fix(tsr_evaluator *e, tsr_span span, tsr_diag_number number,
                                const char *fix, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail(e, span, number, fix, format, args);
    va_end(args);
    return TSR_POISON;
}

tsr_value tsr_evaluate_no_memory(tsr_evaluator *e) {
    e->report->memory = true;
    e->stopped = true;
    return TSR_POISON;
}

bool tsr_evaluate_charge(tsr_evaluator *e, uint64_t steps, tsr_span span) {
    if (e->stopped) return false;
    if (steps <= TSR_LANGUAGE_STEPS_MAX && e->steps + steps <= TSR_LANGUAGE_STEPS_MAX) {
        e->steps += steps;
        return true;
    }
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_LIMIT,
                      "the program takes more than %d steps while it is compiled",
                      TSR_LANGUAGE_STEPS_MAX);
    e->stopped = true;
    return false;
}

static bool measure(tsr_evaluator *e, tsr_value v, unsigned depth, tsr_span span) {
    if (v.kind < TSR_VALUE_TUPLE || v.kind > TSR_VALUE_DICT) return true;
    size_t count = v.kind == TSR_VALUE_DICT ? v.dict->live : v.list->count;
    if (depth == NESTED_MAX) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_LIMIT, "more than %d values are nested",
                          NESTED_MAX);
        return false;
    }
    if (!tsr_evaluate_charge(e, count / 8 + 1, span)) return false;
    for (size_t i = 0; i < count; i++) {
        bool dict = v.kind == TSR_VALUE_DICT;
        tsr_value item = dict ? tsr_dict_entry_at(v.dict, i)->value : v.list->items[i];
        if (!measure(e, item, depth + 1, span)) return false;
        if (dict && !measure(e, tsr_dict_entry_at(v.dict, i)->key, depth + 1, span)) return false;
    }
    return true;
}

bool tsr_evaluate_measure(tsr_evaluator *e, tsr_value value, tsr_span span) {
    return !e->stopped && measure(e, value, 0, span);
}

tsr_value tsr_evaluate_object(tsr_evaluator *e, const tsr_class *class, const void *data) {
    tsr_object *object = TSR_NEW(e->arena, tsr_object, 1);
    if (!object) return tsr_evaluate_no_memory(e);
    *object = (tsr_object){class, data};
    return (tsr_value){.kind = TSR_VALUE_OBJECT, .object = object};
}

/* ---- truth ---- */

bool tsr_evaluate_truth(tsr_evaluator *e, tsr_value v, tsr_span span, bool *out_truth) {
    if (!v.kind) return false;
    if (tsr_value_is_traced(v)) {
        tsr_evaluate_fail(
            e, span, TSR_DIAG_EVALUATE_TRACED,
            "a tensor's value is not known while the program is compiled; "
            "where(c, a, b) selects elements, cond(c, f, g) and while_loop(…) run code");
        return false;
    }
    if (v.kind == TSR_VALUE_OBJECT && v.object->class->truth)
        return v.object->class->truth(e, v, span, out_truth);
    *out_truth = tsr_value_truth(v);
    return true;
}

/* ---- items ---- */

const tsr_value *tsr_evaluate_items(tsr_evaluator *e, tsr_value value, tsr_span span,
                                    size_t *out_count) {
    size_t count;
    if (!value.kind || e->stopped) return NULL;
    bool object = value.kind == TSR_VALUE_OBJECT && value.object->class->length;
    if (object) count = value.object->class->length(value);
    if (!object && !tsr_value_length(value, &count)) {
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "%s has no items",
                          tsr_value_type_name(value));
        return NULL;
    }
    if (!tsr_evaluate_charge(e, count / 8, span)) return NULL;
    tsr_value *items = TSR_NEW(e->arena, tsr_value, count + 1);
    if (!items) {
        tsr_evaluate_no_memory(e);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        items[i] =
            object ? value.object->class->subscript(e, value, tsr_value_integer((int64_t)i), span)
                   : tsr_value_item(e->arena, value, i);
    *out_count = count;
    return items;
}

void tsr_evaluate_set_key(tsr_evaluator *e, tsr_dict *dict, tsr_value key, tsr_value value,
                          tsr_span span) {
    uint64_t hash;
    if (!tsr_evaluate_measure(e, key, span)) return;
    if (!tsr_value_hash(key, &hash))
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_TYPE, "%s cannot be a key of a dict",
                          tsr_value_type_name(key));
    else if (!tsr_dict_set(e->arena, dict, key, hash, value))
        tsr_evaluate_no_memory(e);
}
