/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: arguments, parameters, activations of functions.
 */
#include "compiler/frontend/language/evaluate/run.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <string.h>

tsr_value tsr_evaluate_call_node(tsr_evaluator *e, const tsr_ast *node) {
    const tsr_ast *function = node->field[TSR_AST_CALL_FUNC].node;
    const tsr_ast_list *args = &node->field[TSR_AST_CALL_ARGS].list;
    const tsr_ast_list *keywords = &node->field[TSR_AST_CALL_KEYWORDS].list;
    tsr_value callee = tsr_evaluate_expression(e, function);
    tsr_argument *list = TSR_NEW(e->arena, tsr_argument, args->count + keywords->count + 1);
    bool failed = !callee.kind;
    tsr_call call = {.args = list, .span = node->span, .callee = "the value"};
    if (!list) return tsr_evaluate_no_memory(e);
    if (function->kind == TSR_AST_NAME) call.callee = function->field[TSR_AST_NAME_ID].text.bytes;
    if (function->kind == TSR_AST_ATTRIBUTE)
        call.callee = function->field[TSR_AST_ATTRIBUTE_ATTR].text.bytes;
    for (size_t i = 0; i < args->count + keywords->count; i++) {
        bool named = i >= args->count;
        const tsr_ast *arg = named ? keywords->items[i - args->count] : args->items[i];
        const tsr_ast *value = named ? arg->field[TSR_AST_KEYWORD_VALUE].node : arg;
        tsr_argument *a = &list[call.count++];
        *a = (tsr_argument){.name = named ? arg->field[TSR_AST_KEYWORD_NAME].text.bytes : NULL,
                            .value = tsr_evaluate_expression(e, value),
                            .span = value->span};
        if (named)
            a->name_span = (tsr_span){arg->span.begin, arg->span.begin + (uint32_t)strlen(a->name)};
        failed = failed || !a->value.kind;
        for (size_t k = 0; named && k + 1 < call.count; k++)
            if (list[k].name && strcmp(list[k].name, a->name) == 0)
                return tsr_evaluate_fail(e, arg->span, TSR_DIAG_EVALUATE_CALL,
                                         "the argument '%s' is given twice", a->name);
    }
    return failed ? TSR_POISON : tsr_evaluate_call(e, callee, &call);
}

static size_t find_parameter(const tsr_ast_list *parameters, const char *name) {
    for (size_t i = 0; i < parameters->count; i++)
        if (strcmp(parameters->items[i]->field[TSR_AST_ARG_NAME].text.bytes, name) == 0) return i;
    return SIZE_MAX;
}

static bool unknown_parameter(tsr_evaluator *e, const tsr_function *f, const tsr_argument *a) {
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    static const int lists[] = {TSR_AST_ARGUMENTS_ARGS, TSR_AST_ARGUMENTS_KWONLY};
    tsr_suggestion s = {.wrong = a->name};
    char text[TSR_SUGGESTION_TEXT_MAX];
    for (size_t k = 0; k < TSR_COUNT(lists); k++)
        for (size_t i = 0; i < args[lists[k]].list.count; i++)
            tsr_suggest(&s, args[lists[k]].list.items[i]->field[TSR_AST_ARG_NAME].text.bytes);
    tsr_evaluate_fail_fix(e, a->name_span, TSR_DIAG_EVALUATE_CALL, s.best,
                          "%s() has no parameter '%s'%s", f->name, a->name,
                          tsr_suggestion_text(&s, text));
    return false;
}

/* Puts the arguments in the order of the parameters, those after '*' last. */
static bool order_arguments(tsr_evaluator *e, const tsr_function *f, const tsr_call *call,
                            tsr_value *out) {
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    const tsr_ast_list *plain = &args[TSR_AST_ARGUMENTS_ARGS].list;
    const tsr_ast_list *named = &args[TSR_AST_ARGUMENTS_KWONLY].list;
    for (size_t i = 0; i < call->count; i++) {
        const tsr_argument *a = &call->args[i];
        size_t at = a->name ? find_parameter(plain, a->name) : i;
        if (a->name && at == SIZE_MAX) {
            at = find_parameter(named, a->name);
            if (at == SIZE_MAX) return unknown_parameter(e, f, a);
            at += plain->count;
        } else if (at >= plain->count) {
            tsr_evaluate_fail(e, a->span, TSR_DIAG_EVALUATE_CALL,
                              "%s() takes %zu arguments without name; this is number %zu", f->name,
                              plain->count, i + 1);
            return false;
        }
        if (out[at].kind) {
            tsr_evaluate_fail(e, a->span, TSR_DIAG_EVALUATE_CALL,
                              "the parameter '%s' of %s() gets two values", a->name ? a->name : "?",
                              f->name);
            return false;
        }
        out[at] = a->value;
    }
    return true;
}

size_t tsr_function_parameter_count(const tsr_function *f) {
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    return args[TSR_AST_ARGUMENTS_ARGS].list.count + args[TSR_AST_ARGUMENTS_KWONLY].list.count;
}

static const tsr_ast *parameter_of(const tsr_function *f, size_t index) {
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    const tsr_ast_list *plain = &args[TSR_AST_ARGUMENTS_ARGS].list;
    const tsr_ast_list *named = &args[TSR_AST_ARGUMENTS_KWONLY].list;
    return index < plain->count ? plain->items[index] : named->items[index - plain->count];
}

const char *tsr_function_parameter(const tsr_function *f, size_t index) {
    return parameter_of(f, index)->field[TSR_AST_ARG_NAME].text.bytes;
}

/* The value of each parameter: its argument, or its default. NULL, reported, if one has none. */
static const tsr_value *read_arguments(tsr_evaluator *e, const tsr_function *f,
                                       const tsr_call *call) {
    const tsr_ast_field *args = f->node->field[TSR_AST_FUNCTION_DEF_ARGS].node->field;
    size_t plain = args[TSR_AST_ARGUMENTS_ARGS].list.count;
    size_t count = tsr_function_parameter_count(f);
    size_t defaults_begin = plain - args[TSR_AST_ARGUMENTS_DEFAULTS].list.count;
    tsr_value *values = TSR_NEW(e->arena, tsr_value, count + 1);
    if (!values) return tsr_evaluate_no_memory(e), NULL;
    if (!order_arguments(e, f, call, values)) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind) continue;
        if (i >= plain) values[i] = f->keyword_defaults[i - plain];
        if (i < plain && i >= defaults_begin) values[i] = f->defaults[i - defaults_begin];
        if (values[i].kind) continue;
        tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_CALL, "%s() needs a value for '%s'",
                          f->name, tsr_function_parameter(f, i));
        return NULL;
    }
    return values;
}

static bool check_recursion(tsr_evaluator *e, const tsr_function *f, tsr_span span) {
    for (const tsr_activation *a = e->frame; a; a = a->caller) {
        if (!a->function || a->function->node != f->node) continue;
        tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_LIMIT, "%s() calls itself", f->name);
        return false;
    }
    if (e->calls < TSR_LANGUAGE_CALLS_MAX) return true;
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_LIMIT, "more than %d calls are open",
                      TSR_LANGUAGE_CALLS_MAX);
    return false;
}

/* The activation stays for functions that are defined in it. */
tsr_value tsr_evaluate_body(tsr_evaluator *e, const tsr_function *f, const tsr_value *values,
                            const tsr_call *call) {
    tsr_activation *frame = TSR_NEW(e->arena, tsr_activation, 1);
    if (!frame) return tsr_evaluate_no_memory(e);
    *frame = (tsr_activation){.function = f,
                              .source = f->source,
                              .globals = f->globals,
                              .outer = f->outer,
                              .caller = e->frame,
                              .called_at = call->span,
                              .returned = TSR_NONE};
    for (size_t i = 0; i < tsr_function_parameter_count(f); i++) {
        const tsr_ast *arg = parameter_of(f, i);
        if (!tsr_evaluate_bind(e, &frame->locals, arg->field[TSR_AST_ARG_NAME].text.bytes,
                               values[i], arg->span))
            return TSR_POISON;
    }
    size_t errors = e->report->error_count;
    e->calls++;
    e->frame = frame;
    tsr_evaluate_block(e, &f->node->field[TSR_AST_FUNCTION_DEF_BODY].list);
    e->frame = frame->caller;
    e->calls--;
    return e->report->error_count == errors && !e->stopped ? frame->returned : TSR_POISON;
}

static tsr_value call_function(tsr_evaluator *e, const tsr_function *f, const tsr_call *call) {
    if (!check_recursion(e, f, call->span)) return TSR_POISON;
    const tsr_value *values = read_arguments(e, f, call);
    if (!values) return TSR_POISON;
    return e->apply ? e->apply(e, f, values, call) : tsr_evaluate_body(e, f, values, call);
}

tsr_value tsr_evaluate_call(tsr_evaluator *e, tsr_value callee, const tsr_call *call) {
    if (!callee.kind || !tsr_evaluate_charge(e, 1, call->span)) return TSR_POISON;
    if (callee.kind == TSR_VALUE_FUNCTION) return call_function(e, callee.function, call);
    if (callee.kind == TSR_VALUE_BUILTIN) return callee.builtin->run(e, callee.builtin->self, call);
    if (callee.kind == TSR_VALUE_OBJECT && callee.object->class->call)
        return callee.object->class->call(e, callee, call);
    return tsr_evaluate_fail(e, call->span, TSR_DIAG_EVALUATE_TYPE, "%s cannot be called",
                             tsr_value_type_name(callee));
}
