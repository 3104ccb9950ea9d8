/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of library functions: by name or position, with their types.
 */
#include "compiler/frontend/language/trace/tracer.h"
#include "runtime/base/suggest.h"

#include <string.h>

/* The word at an index of a list of words; false after the last one. */
bool tsr_words_find(const char *words, size_t index, char out[static TSR_WORD_MAX]) {
    for (; index > 0 && words; index--) {
        words = strchr(words, ' ');
        if (words) words++;
    }
    if (!words || !words[0]) return false;
    size_t length = strcspn(words, " ");
    TSR_ASSERT(length < TSR_WORD_MAX);
    memcpy(out, words, length);
    out[length] = 0;
    return true;
}

/* The name of a parameter without its type. */
bool tsr_words_parameter(const char *words, size_t index, char out[static TSR_WORD_MAX]) {
    if (!tsr_words_find(words, index, out)) return false;
    out[strcspn(out, ":?")] = 0;
    return true;
}

static bool unknown_argument(tsr_evaluator *e, const tsr_call *call, const tsr_argument *a,
                             const char *parameters) {
    tsr_suggestion s = {.wrong = a->name};
    char word[TSR_WORD_MAX], text[TSR_SUGGESTION_TEXT_MAX];
    for (size_t i = 0; tsr_words_parameter(parameters, i, word); i++) {
        const char *own = tsr_arena_strdup(e->arena, word);
        if (own) tsr_suggest(&s, own);
    }
    tsr_evaluate_fail_fix(e, a->name_span, TSR_DIAG_EVALUATE_CALL, s.best,
                          "%s() has no parameter '%s'%s", call->callee, a->name,
                          tsr_suggestion_text(&s, text));
    return false;
}

bool tsr_call_read(tsr_evaluator *e, const tsr_call *call, const char *parameters,
                   const tsr_argument **out, size_t out_size) {
    char word[TSR_WORD_MAX];
    for (size_t i = 0; i < out_size; i++) out[i] = NULL;
    for (size_t i = 0; i < call->count; i++) {
        const tsr_argument *a = &call->args[i];
        size_t at = 0;
        while (a->name && tsr_words_parameter(parameters, at, word) && strcmp(word, a->name) != 0)
            at++;
        if (!a->name) at = i;
        if (!tsr_words_parameter(parameters, at, word)) {
            if (a->name) return unknown_argument(e, call, a, parameters);
            tsr_evaluate_fail(e, a->span, TSR_DIAG_EVALUATE_CALL,
                              "%s() takes %zu arguments; this is number %zu", call->callee, at,
                              i + 1);
            return false;
        }
        if (out[at]) {
            tsr_evaluate_fail(e, a->span, TSR_DIAG_EVALUATE_CALL, "%s() gets two values for '%s'",
                              call->callee, word);
            return false;
        }
        out[at] = a;
    }
    return true;
}

bool tsr_call_need(tsr_evaluator *e, const tsr_call *call, const tsr_argument *a,
                   const char *name) {
    if (a) return true;
    tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL, "%s() needs a value for '%s'",
                      call->callee, name);
    return false;
}

bool tsr_argument_refuse(tsr_evaluator *e, const tsr_argument *a, const char *expected) {
    bool traced = tsr_value_is_traced(a->value);
    tsr_evaluate_fail(e, a->span, traced ? TSR_DIAG_EVALUATE_TRACED : TSR_DIAG_EVALUATE_TYPE,
                      "expected %s, not %s%s", expected, tsr_value_type_name(a->value),
                      traced ? ": it is needed while the program is compiled" : "");
    return false;
}

bool tsr_argument_integers(tsr_evaluator *e, const tsr_argument *a, size_t limit, int64_t *out,
                           size_t *out_count) {
    bool list = a->value.kind == TSR_VALUE_LIST || a->value.kind == TSR_VALUE_TUPLE;
    if (tsr_value_as_integer(a->value, out)) {
        *out_count = 1;
        return true;
    }
    if (!list || a->value.list->count > limit) return tsr_argument_refuse(e, a, "a list of ints");
    *out_count = a->value.list->count;
    for (size_t i = 0; i < *out_count; i++)
        if (!tsr_value_as_integer(a->value.list->items[i], &out[i]))
            return tsr_argument_refuse(e, a, "a list of ints");
    return true;
}

bool tsr_argument_tensor(tsr_evaluator *e, const tsr_argument *a, MlirValue *out) {
    if (!tsr_value_is(a->value, &tsr_tensor_class)) return tsr_argument_refuse(e, a, "a tensor");
    *out = tsr_tensor_use(e, a->value, a->span);
    return !mlirValueIsNull(*out);
}

bool tsr_argument_dtype(tsr_evaluator *e, const tsr_argument *a, tsr_dtype *out) {
    if (!tsr_value_is(a->value, &tsr_dtype_class))
        return tsr_argument_refuse(e, a, "an element type, as f32");
    *out = tsr_dtype_get(a->value);
    return true;
}

bool tsr_argument_real(tsr_evaluator *e, const tsr_argument *a, double *out) {
    return tsr_value_as_real(a->value, out) || tsr_argument_refuse(e, a, "a number");
}
