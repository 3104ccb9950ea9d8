/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: scopes, and what a name without a value could have meant.
 */
#include "compiler/frontend/language/evaluate/run.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <string.h>

static tsr_binding *find_binding(const tsr_scope *scope, const char *name) {
    for (size_t i = scope->count; i > 0; i--)
        if (strcmp(scope->bindings[i - 1].name, name) == 0) return &scope->bindings[i - 1];
    return NULL;
}

const tsr_value *tsr_scope_find(const tsr_scope *scope, const char *name) {
    const tsr_binding *found = find_binding(scope, name);
    return found ? &found->value : NULL;
}

bool tsr_evaluate_bind(tsr_evaluator *e, tsr_scope *scope, const char *name, tsr_value value,
                       tsr_span span) {
    tsr_binding *found = find_binding(scope, name);
    if (found) {
        *found = (tsr_binding){name, value, span};
        return true;
    }
    if (scope->count == scope->capacity) {
        tsr_binding *bindings = TSR_ARENA_GROW(e->arena, scope->bindings, &scope->capacity, 16);
        if (!bindings) {
            tsr_evaluate_no_memory(e);
            return false;
        }
        scope->bindings = bindings;
    }
    scope->bindings[scope->count++] = (tsr_binding){name, value, span};
    return true;
}

tsr_scope *tsr_evaluate_scope(tsr_evaluator *e) {
    return e->frame->function ? &e->frame->locals : e->frame->globals;
}

static void offer(void *to, const char *name) { tsr_suggest(to, name); }

static tsr_value unknown_name(tsr_evaluator *e, const char *name, tsr_span span) {
    tsr_suggestion s = {.wrong = name};
    char text[TSR_SUGGESTION_TEXT_MAX];
    for (const tsr_activation *f = e->frame; f; f = f->outer)
        for (size_t i = 0; i < f->locals.count; i++) tsr_suggest(&s, f->locals.bindings[i].name);
    for (size_t i = 0; i < e->frame->globals->count; i++)
        tsr_suggest(&s, e->frame->globals->bindings[i].name);
    if (e->names) e->names(e->user, offer, &s);
    return tsr_evaluate_fail_fix(e, span, TSR_DIAG_EVALUATE_NAME, s.best,
                                 "the name '%s' is not known%s", name,
                                 tsr_suggestion_text(&s, text));
}

static bool is_local(const tsr_function *function, const char *name) {
    for (size_t i = 0; function && i < function->local_count; i++)
        if (strcmp(function->locals[i], name) == 0) return true;
    return false;
}

typedef struct search {
    const char *name;
    const tsr_ast *found; /* the first assignment */
} search;

static void find_assignment(void *user, tsr_ast *node) {
    search *s = user;
    if (s->found || node->kind == TSR_AST_FUNCTION_DEF) return;
    if (node->kind == TSR_AST_NAME && node->context == TSR_AST_STORE &&
        strcmp(node->field[TSR_AST_NAME_ID].text.bytes, s->name) == 0)
        s->found = node;
    tsr_ast_visit(node, find_assignment, s);
}

static tsr_value unbound_name(tsr_evaluator *e, const tsr_activation *f, const char *name,
                              tsr_span span) {
    search s = {.name = name};
    const tsr_ast_list *body = &f->function->node->field[TSR_AST_FUNCTION_DEF_BODY].list;
    for (size_t i = 0; i < body->count; i++) find_assignment(&s, body->items[i]);
    if (e->stopped) return TSR_POISON;
    tsr_diag *diag =
        tsr_report_error(e->report, e->frame->source, span, TSR_DIAG_EVALUATE_NAME,
                         "'%s' is not bound yet: the function assigns to it, but not on the way to "
                         "this place",
                         name);
    if (s.found) tsr_report_note(e->report, diag, f->source, s.found->span, "it is assigned here");
    tsr_evaluate_note_calls(e, diag);
    e->stopped = e->stopped || tsr_report_is_full(e->report);
    return TSR_POISON;
}

tsr_value tsr_evaluate_name(tsr_evaluator *e, const char *name, tsr_span span) {
    const tsr_binding *found = NULL;
    for (const tsr_activation *f = e->frame; f && !found; f = f->outer) {
        found = find_binding(&f->locals, name);
        if (!found && is_local(f->function, name)) return unbound_name(e, f, name, span);
    }
    if (!found) found = find_binding(e->frame->globals, name);
    if (found) return found->value;
    if (e->open) return TSR_POISON;
    tsr_value v = e->library ? e->library(e->user, name) : TSR_POISON;
    if (!v.kind) v = tsr_builtin_find(e, name);
    return v.kind ? v : unknown_name(e, name, span);
}
