/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds constructs that Python has and the language does not: those with a refusal in ast.def, and
 * others in one form. Each statement is searched by levels, without the
 * statements in it.
 */
#include "compiler/frontend/language/syntax/parser.h"
#include "runtime/base/array.h"

typedef struct search {
    tsr_report *report;
    const tsr_source *source;
    const tsr_ast **queue; /* of one statement */
    size_t count, capacity;
    const tsr_ast **blocks; /* statements that are still to be searched, last first */
    size_t block_count, block_capacity;
    size_t found;
} search;

static const char *refuse_constant(const tsr_ast *node) {
    switch ((tsr_constant_kind)node->constant) {
    case TSR_CONSTANT_BIG:
        return "the integer needs more than 64 bits";
    case TSR_CONSTANT_IMAGINARY:
        return "a complex number is not part of the language; use a tensor for each part";
    case TSR_CONSTANT_BYTES:
        return "bytes are not part of the language; use a text";
    default:
        return NULL;
    }
}

/* Why the node is refused, itself or in its form; NULL: it is not. *out_at is what to point at. */
static const char *refusal_of(const tsr_ast *node, const tsr_ast **out_at) {
    static const char unpacked[] =
        "parameters '*name' and '**name' are not part of the language; name each parameter";
    const tsr_ast_field *f = node->field;
    *out_at = node;
    switch ((tsr_ast_kind)node->kind) {
    case TSR_AST_CONSTANT:
        return refuse_constant(node);
    case TSR_AST_ARGUMENTS:
        if (f[TSR_AST_ARGUMENTS_POSONLY].list.count) {
            *out_at = f[TSR_AST_ARGUMENTS_POSONLY].list.items[0];
            return "'/' between parameters is not part of the language; leave it out";
        }
        if (f[TSR_AST_ARGUMENTS_VARARG].node) *out_at = f[TSR_AST_ARGUMENTS_VARARG].node;
        if (f[TSR_AST_ARGUMENTS_VARARG].node) return unpacked;
        if (f[TSR_AST_ARGUMENTS_KWARG].node) *out_at = f[TSR_AST_ARGUMENTS_KWARG].node;
        return f[TSR_AST_ARGUMENTS_KWARG].node ? unpacked : NULL;
    case TSR_AST_KEYWORD:
        return f[TSR_AST_KEYWORD_NAME].text.bytes
                   ? NULL
                   : "'**' before an argument is not part of the language; name each argument";
    case TSR_AST_DICT:
        for (size_t i = 0; i < f[TSR_AST_DICT_KEYS].list.count; i++)
            if (!f[TSR_AST_DICT_KEYS].list.items[i])
                return "'**' in a dict is not part of the language; name each key";
        return NULL;
    case TSR_AST_COMPREHENSION:
        return f[TSR_AST_COMPREHENSION_ASYNC].integer ? "'async' is not part of the language"
                                                      : NULL;
    case TSR_AST_FOR:
        return f[TSR_AST_FOR_ORELSE].list.count
                   ? "'else' of a loop is not part of the language; put the statements after it"
                   : NULL;
    default:
        return tsr_ast_refusal(node->kind);
    }
}

static bool push(search *s, const tsr_ast ***items, size_t *count, size_t *capacity,
                 const tsr_ast *node) {
    if (*count == *capacity) {
        const tsr_ast **grown = TSR_ARENA_GROW(s->report->arena, *items, capacity, 64);
        if (!grown) {
            s->report->memory = true;
            return false;
        }
        *items = grown;
    }
    (*items)[(*count)++] = node;
    return true;
}

static void enqueue(void *user, tsr_ast *child) {
    search *s = user;
    if (tsr_ast_is_statement(child))
        push(s, &s->blocks, &s->block_count, &s->block_capacity, child);
    else
        push(s, &s->queue, &s->count, &s->capacity, child);
}

/* Searches one statement; those in it are put on `blocks`, unless it is refused. */
static void search_statement(search *s, const tsr_ast *statement) {
    size_t blocks = s->block_count;
    s->count = 0;
    push(s, &s->queue, &s->count, &s->capacity, statement);
    for (size_t i = 0; i < s->count && !s->report->memory; i++) {
        const tsr_ast *at;
        const char *why = refusal_of(s->queue[i], &at);
        if (why) {
            tsr_report_error(s->report, s->source, at->span, TSR_DIAG_TEXT_REFUSED, "%s", why);
            s->found++;
            s->block_count = s->queue[i] == statement ? blocks : s->block_count;
            break;
        }
        tsr_ast_visit(s->queue[i], enqueue, s);
    }
    /* The last one is searched first: put them in their order. */
    for (size_t i = blocks, k = s->block_count; i + 1 < k; i++) {
        const tsr_ast *first = s->blocks[i];
        s->blocks[i] = s->blocks[--k];
        s->blocks[k] = first;
    }
}

bool tsr_refuse(tsr_report *report, const tsr_source *source, const tsr_ast *module) {
    search s = {.report = report, .source = source};
    tsr_ast_visit(module, enqueue, &s);
    for (size_t i = 0, k = s.block_count; i + 1 < k; i++) {
        const tsr_ast *first = s.blocks[i];
        s.blocks[i] = s.blocks[--k];
        s.blocks[k] = first;
    }
    while (s.block_count && !tsr_report_is_full(report))
        search_statement(&s, s.blocks[--s.block_count]);
    return !s.found && !report->memory;
}
