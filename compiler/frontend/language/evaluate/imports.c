/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports: of tessera, whose names are known without an import, and of files beside the program.
 */
#include "compiler/frontend/language/evaluate/run.h"
#include "runtime/base/suggest.h"

#include <string.h>

/* ---- modules as values ---- */

typedef struct module {
    const char *name;
    const tsr_scope *scope; /* NULL: tessera */
} module;

static tsr_value find_library(tsr_evaluator *e, const char *name) {
    return e->library ? e->library(e->user, name) : TSR_POISON;
}

static tsr_value module_attribute(tsr_evaluator *e, tsr_value self, const char *name,
                                  tsr_span span) {
    const module *m = self.object->data;
    (void)span;
    if (!m->scope) return find_library(e, name);
    const tsr_value *found = tsr_scope_find(m->scope, name);
    return found ? *found : TSR_POISON;
}

static const tsr_class module_class = {.name = "a module", .attribute = module_attribute};

static void bind_module(tsr_evaluator *e, const char *name, const char *as, const tsr_scope *scope,
                        tsr_span span) {
    module *m = TSR_NEW(e->arena, module, 1);
    if (!m) {
        tsr_evaluate_no_memory(e);
        return;
    }
    *m = (module){name, scope};
    tsr_evaluate_bind(e, tsr_evaluate_scope(e), as ? as : name,
                      tsr_evaluate_object(e, &module_class, m), span);
}

/* ---- names of modules ---- */

static tsr_value unknown_import(tsr_evaluator *e, const char *module_name, const tsr_scope *scope,
                                const char *name, tsr_span span) {
    tsr_suggestion s = {.wrong = name};
    char text[TSR_SUGGESTION_TEXT_MAX];
    for (size_t i = 0; scope && i < scope->count; i++) tsr_suggest(&s, scope->bindings[i].name);
    return tsr_evaluate_fail_fix(e, span, TSR_DIAG_EVALUATE_IMPORT, s.best,
                                 "'%s' has no name '%s'%s", module_name, name,
                                 tsr_suggestion_text(&s, text));
}

static void bind_all(tsr_evaluator *e, const tsr_scope *scope, tsr_span span) {
    for (size_t i = 0; scope && i < scope->count; i++)
        if (scope->bindings[i].name[0] != '_')
            tsr_evaluate_bind(e, tsr_evaluate_scope(e), scope->bindings[i].name,
                              scope->bindings[i].value, span);
}

static bool is_tessera(const char *name) { return strcmp(name, "tessera") == 0; }

/* ---- tessera.stdlib ---- */

static bool is_stdlib(const char *name) { return strcmp(name, TSR_EVALUATE_STDLIB) == 0; }

static void suggest_part(void *to, const char *name) {
    size_t length = strlen(TSR_EVALUATE_STDLIB ".");
    if (strncmp(name, TSR_EVALUATE_STDLIB ".", length) == 0) tsr_suggest(to, name + length);
}

static tsr_value find_part(tsr_evaluator *e, const char *name, tsr_span span) {
    tsr_suggestion s = {.wrong = name};
    char text[TSR_SUGGESTION_TEXT_MAX];
    const char *full = tsr_arena_printf(e->arena, TSR_EVALUATE_STDLIB ".%s", name);
    if (!full) return tsr_evaluate_no_memory(e);
    tsr_value v = find_library(e, full);
    if (v.kind) return v;
    if (e->names) e->names(e->user, suggest_part, &s);
    return tsr_evaluate_fail_fix(e, span, TSR_DIAG_EVALUATE_IMPORT, s.best,
                                 "'" TSR_EVALUATE_STDLIB "' has no name '%s'%s", name,
                                 tsr_suggestion_text(&s, text));
}

/* ---- statements ---- */

/* `scope` is NULL for tessera and tessera.stdlib. A name that is missing is bound, so that its uses
 * are silent. */
static void bind_names(tsr_evaluator *e, const tsr_ast *s, const char *module_name,
                       const tsr_scope *scope) {
    const tsr_ast_list *aliases = &s->field[TSR_AST_IMPORT_FROM_NAMES].list;
    for (size_t i = 0; i < aliases->count; i++) {
        const tsr_ast_field *f = aliases->items[i]->field;
        const char *name = f[TSR_AST_ALIAS_NAME].text.bytes,
                   *as = f[TSR_AST_ALIAS_ASNAME].text.bytes;
        tsr_span span = aliases->items[i]->span; /* without "as …" */
        span.end = span.begin + (uint32_t)strlen(name);
        if (strcmp(name, "*") == 0 && is_stdlib(module_name)) {
            tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_IMPORT,
                              "'*' is not imported from " TSR_EVALUATE_STDLIB
                              "; write the names, as 'from " TSR_EVALUATE_STDLIB
                              " import residual'");
            e->open = true;
            continue;
        }
        if (strcmp(name, "*") == 0) {
            bind_all(e, scope, span);
            continue;
        }
        const tsr_value *found = scope ? tsr_scope_find(scope, name) : NULL;
        tsr_value v = found ? *found : TSR_POISON;
        if (!scope)
            v = is_stdlib(module_name) ? find_part(e, name, span)
                                       : tsr_evaluate_name(e, name, span);
        if (scope && !found) v = unknown_import(e, module_name, scope, name, span);
        tsr_evaluate_bind(e, tsr_evaluate_scope(e), as ? as : name, v, span);
    }
}

/* The names of an import that is refused, so that their uses are silent. */
static void bind_poison(tsr_evaluator *e, const tsr_ast *s) {
    bool from = s->kind == TSR_AST_IMPORT_FROM;
    const tsr_ast_list *aliases =
        &s->field[from ? (int)TSR_AST_IMPORT_FROM_NAMES : (int)TSR_AST_IMPORT_NAMES].list;
    for (size_t i = 0; i < aliases->count; i++) {
        const tsr_ast_field *f = aliases->items[i]->field;
        const char *name = f[TSR_AST_ALIAS_NAME].text.bytes,
                   *as = f[TSR_AST_ALIAS_ASNAME].text.bytes;
        const char *bound = as ? as : tsr_arena_strndup(e->arena, name, strcspn(name, "."));
        if (!bound) {
            tsr_evaluate_no_memory(e);
            return;
        }
        if (strcmp(bound, "*") == 0)
            e->open = true; /* any name can be one of its names */
        else
            tsr_evaluate_bind(e, tsr_evaluate_scope(e), bound, TSR_POISON, s->span);
    }
}

static const tsr_scope *find_module(tsr_evaluator *e, const char *name, tsr_span span) {
    if (e->import && !strchr(name, '.')) return e->import(e, name, span);
    tsr_evaluate_fail(e, span, TSR_DIAG_EVALUATE_IMPORT,
                      "'%s' cannot be imported: programs are compiled without Python; a program "
                      "imports tessera and files beside it",
                      name);
    return NULL;
}

void tsr_evaluate_import(tsr_evaluator *e, const tsr_ast *s) {
    bool from = s->kind == TSR_AST_IMPORT_FROM;
    const tsr_ast_list *aliases = &s->field[TSR_AST_IMPORT_NAMES].list;
    if (from && s->field[TSR_AST_IMPORT_FROM_LEVEL].integer > 0) {
        tsr_evaluate_fail(e, s->span, TSR_DIAG_EVALUATE_IMPORT,
                          "a program is no package; leave out the dots before the name");
        bind_poison(e, s);
    } else if (from) {
        const char *name = s->field[TSR_AST_IMPORT_FROM_MODULE].text.bytes;
        bool own = is_tessera(name) || is_stdlib(name);
        const tsr_scope *scope = own ? NULL : find_module(e, name, s->span);
        if (own || scope)
            bind_names(e, s, name, scope);
        else
            bind_poison(e, s);
    }
    for (size_t i = 0; !from && i < aliases->count; i++) {
        const tsr_ast_field *f = aliases->items[i]->field;
        const char *name = f[TSR_AST_ALIAS_NAME].text.bytes;
        const tsr_scope *scope =
            is_tessera(name) ? NULL : find_module(e, name, aliases->items[i]->span);
        if (!is_tessera(name) && !scope)
            bind_poison(e, s);
        else
            bind_module(e, name, f[TSR_AST_ALIAS_ASNAME].text.bytes, scope, s->span);
    }
}
