/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements. A statement that fails becomes an ERROR node, and reading continues after its line,
 * or its block.
 */
#include "compiler/frontend/language/syntax/parse.h"

#include "compiler/frontend/language/syntax/parser.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <string.h>

/* ---- tokens ---- */

static void take_token(tsr_parser *p, tsr_token token) {
    p->token = token;
    if (token.kind == TSR_TOKEN_ERROR) tsr_parser_fail(p);
}

void tsr_parser_advance(tsr_parser *p) {
    if (p->failed) return;
    p->end = p->token.span.end;
    tsr_token next = p->has_ahead ? p->ahead : tsr_lexer_next(&p->lexer);
    p->has_ahead = false;
    take_token(p, next);
}

tsr_token tsr_parser_peek(tsr_parser *p) {
    if (p->failed) return p->token;
    if (!p->has_ahead) p->ahead = tsr_lexer_next(&p->lexer);
    p->has_ahead = true;
    return p->ahead;
}

bool tsr_parser_accept(tsr_parser *p, tsr_token_kind kind) {
    if (p->token.kind != kind) return false;
    tsr_parser_advance(p);
    return true;
}

bool tsr_parser_is_name(const tsr_parser *p, const char *name) {
    size_t length = p->token.span.end - p->token.span.begin;
    return p->token.kind == TSR_TOKEN_NAME && strlen(name) == length &&
           memcmp(p->source->text + p->token.span.begin, name, length) == 0;
}

tsr_ast *tsr_parser_fail(tsr_parser *p) {
    if (!p->failed) p->failed_at = p->token;
    p->failed = true;
    p->token.kind = TSR_TOKEN_ERROR;
    return p->error;
}

void tsr_parser_unexpected(tsr_parser *p, const char *expected) {
    tsr_token t = p->token;
    int length = (int)(t.span.end - t.span.begin);
    tsr_span bracket;
    if (!p->failed && tsr_lexer_is_forgotten(&p->lexer, t, &bracket)) {
        tsr_diag *diag = tsr_report_error(p->report, p->source, bracket, TSR_DIAG_TEXT_SYNTAX,
                                          "'%c' is never closed", p->source->text[bracket.begin]);
        tsr_report_note(p->report, diag, p->source, t.span, "a statement begins here");
        tsr_parser_fail(p);
        return;
    }
    if (t.kind > TSR_TOKEN_DEDENT && length > 0 && length <= 40)
        TSR_PARSER_FAIL(p, t.span, TSR_DIAG_TEXT_SYNTAX, "expected %s, not '%.*s'", expected,
                        length, p->source->text + t.span.begin);
    else
        TSR_PARSER_FAIL(p, t.span, TSR_DIAG_TEXT_SYNTAX, "expected %s, not %s", expected,
                        tsr_token_name(t.kind));
}

bool tsr_parser_expect(tsr_parser *p, tsr_token_kind kind, const char *after) {
    char expected[120];
    if (tsr_parser_accept(p, kind)) return true;
    snprintf(expected, sizeof expected, "%s after %s", tsr_token_name(kind), after);
    tsr_parser_unexpected(p, expected);
    return false;
}

tsr_ast_text tsr_parser_text(tsr_parser *p, const char *bytes, size_t size_bytes) {
    const char *own = tsr_arena_strndup(p->report->arena, bytes, size_bytes);
    if (own) return (tsr_ast_text){own, size_bytes};
    p->report->memory = true;
    tsr_parser_fail(p);
    return (tsr_ast_text){"", 0};
}

tsr_ast_text tsr_parser_name(tsr_parser *p, const char *what) {
    tsr_span span = p->token.span;
    if (tsr_parser_accept(p, TSR_TOKEN_NAME))
        return tsr_parser_text(p, p->source->text + span.begin, span.end - span.begin);
    tsr_parser_unexpected(p, what);
    return (tsr_ast_text){"", 0};
}

bool tsr_parser_enter(tsr_parser *p) {
    if (++p->depth <= TSR_LANGUAGE_DEPTH_MAX) return true;
    TSR_PARSER_FAIL(p, p->token.span, TSR_DIAG_TEXT_LIMIT, "more than %d constructs are nested",
                    TSR_LANGUAGE_DEPTH_MAX);
    return false;
}

void tsr_parser_leave(tsr_parser *p) { p->depth--; }

/* ---- nodes ---- */

tsr_ast *tsr_parser_node(tsr_parser *p, tsr_ast_kind kind, uint32_t begin) {
    size_t size = sizeof(tsr_ast) + tsr_ast_field_count(kind) * sizeof(tsr_ast_field);
    tsr_ast *node = tsr_arena_alloc(p->report->arena, 1, size, _Alignof(tsr_ast));
    if (!node) {
        p->report->memory = true;
        return tsr_parser_fail(p);
    }
    node->kind = (uint8_t)kind;
    node->span.begin = begin;
    return node;
}

static void raise_height(void *user, tsr_ast *child) {
    uint16_t *height = user;
    if (child->height >= *height) *height = child->height;
}

tsr_ast *tsr_parser_finish(tsr_parser *p, tsr_ast *node) {
    if (node == p->error) return node;
    uint16_t below = 0;
    node->span.end = p->end;
    tsr_ast_visit(node, raise_height, &below);
    node->height = (uint16_t)(below + 1);
    if (below < TSR_LANGUAGE_DEPTH_MAX) return node;
    tsr_span begin = {node->span.begin, node->span.begin + 1};
    return TSR_PARSER_FAIL(p, begin, TSR_DIAG_TEXT_LIMIT,
                           "an expression has more than %d terms or operators in a chain",
                           TSR_LANGUAGE_DEPTH_MAX);
}

void tsr_parser_push(tsr_parser *p, tsr_ast *node) {
    if (p->stack_count == p->stack_capacity) {
        tsr_ast **stack = TSR_ARENA_GROW(p->report->arena, p->stack, &p->stack_capacity, 64);
        if (!stack) {
            p->report->memory = true;
            tsr_parser_fail(p);
            return;
        }
        p->stack = stack;
    }
    p->stack[p->stack_count++] = node;
}

tsr_ast_list tsr_parser_pop(tsr_parser *p, size_t mark) {
    tsr_ast_list list = {.count = p->stack_count - mark};
    p->stack_count = mark;
    if (!list.count) return list;
    list.items =
        tsr_arena_memdup(p->report->arena, p->stack + mark, list.count * sizeof *list.items);
    if (list.items) return list;
    p->report->memory = true;
    tsr_parser_fail(p);
    return (tsr_ast_list){0};
}

/* ---- blocks ---- */

static void parse_statements(tsr_parser *p);
static void parse_simple_line(tsr_parser *p);

/* ":" and the statements of a block; `after` names what it belongs to. */
static tsr_ast_list parse_block(tsr_parser *p, const char *after) {
    size_t mark = p->stack_count;
    if (!tsr_parser_expect(p, TSR_TOKEN_COLON, after)) return (tsr_ast_list){0};
    if (!tsr_parser_accept(p, TSR_TOKEN_NEWLINE)) {
        parse_simple_line(p);
        return tsr_parser_pop(p, mark);
    }
    if (!tsr_parser_is(p, TSR_TOKEN_INDENT)) {
        if (!p->failed)
            tsr_report_error(p->report, p->source, p->token.span, TSR_DIAG_TEXT_INDENT,
                             "expected an indented block after %s", after);
        return (tsr_ast_list){0};
    }
    tsr_parser_advance(p);
    if (tsr_parser_enter(p))
        while (!tsr_parser_is(p, TSR_TOKEN_DEDENT) && !tsr_parser_is(p, TSR_TOKEN_END) &&
               !tsr_report_is_full(p->report))
            parse_statements(p);
    tsr_parser_leave(p);
    tsr_parser_accept(p, TSR_TOKEN_DEDENT);
    return tsr_parser_pop(p, mark);
}

static tsr_ast_list parse_else(tsr_parser *p) {
    if (!tsr_parser_accept(p, TSR_TOKEN_ELSE)) return (tsr_ast_list){0};
    return parse_block(p, "'else'");
}

static tsr_ast *parse_if(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_IF, p->token.span.begin);
    tsr_parser_advance(p);
    if (!tsr_parser_enter(p)) return node;
    node->field[TSR_AST_IF_TEST].node = tsr_parse_named(p);
    node->field[TSR_AST_IF_BODY].list = parse_block(p, "the condition");
    if (tsr_parser_is(p, TSR_TOKEN_ELIF)) {
        size_t mark = p->stack_count;
        tsr_parser_push(p, parse_if(p));
        node->field[TSR_AST_IF_ORELSE].list = tsr_parser_pop(p, mark);
    } else {
        node->field[TSR_AST_IF_ORELSE].list = parse_else(p);
    }
    tsr_parser_leave(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_while(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_WHILE, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_WHILE_TEST].node = tsr_parse_named(p);
    node->field[TSR_AST_WHILE_BODY].list = parse_block(p, "the condition");
    node->field[TSR_AST_WHILE_ORELSE].list = parse_else(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_for(tsr_parser *p, uint32_t begin, bool async) {
    tsr_ast *node = tsr_parser_node(p, async ? TSR_AST_ASYNC_FOR : TSR_AST_FOR, begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_FOR_TARGET].node = tsr_parse_targets(p);
    tsr_parser_expect(p, TSR_TOKEN_IN, "the names of the loop");
    node->field[TSR_AST_FOR_ITER].node = tsr_parse_star_expressions(p);
    node->field[TSR_AST_FOR_BODY].list = parse_block(p, "the loop's values");
    node->field[TSR_AST_FOR_ORELSE].list = parse_else(p);
    return tsr_parser_finish(p, node);
}

/* ---- with ---- */

static void parse_with_item(tsr_parser *p) {
    tsr_ast *item = tsr_parser_node(p, TSR_AST_WITHITEM, p->token.span.begin);
    item->field[TSR_AST_WITHITEM_CONTEXT].node = tsr_parse_expression(p);
    if (tsr_parser_accept(p, TSR_TOKEN_AS))
        item->field[TSR_AST_WITHITEM_VARS].node = tsr_parse_target(p);
    tsr_parser_push(p, tsr_parser_finish(p, item));
}

/* Items in brackets: ( item, … ): with a colon directly after them. */
static bool parse_grouped_items(tsr_parser *p) {
    tsr_parser_advance(p);
    do {
        if (tsr_parser_is(p, TSR_TOKEN_CLOSE)) break;
        parse_with_item(p);
    } while (tsr_parser_accept(p, TSR_TOKEN_COMMA));
    return tsr_parser_accept(p, TSR_TOKEN_CLOSE) && tsr_parser_is(p, TSR_TOKEN_COLON);
}

static tsr_ast_list parse_with_items(tsr_parser *p) {
    size_t mark = p->stack_count;
    if (tsr_parser_is(p, TSR_TOKEN_OPEN)) {
        tsr_parser before = *p;
        p->report->muted++;
        bool grouped = parse_grouped_items(p) && p->stack_count > mark;
        p->report->muted--;
        if (grouped) return tsr_parser_pop(p, mark);
        tsr_ast **stack = p->stack;
        size_t capacity = p->stack_capacity;
        *p = before;
        p->stack = stack; /* may have grown */
        p->stack_capacity = capacity;
    }
    do {
        parse_with_item(p);
    } while (tsr_parser_accept(p, TSR_TOKEN_COMMA));
    return tsr_parser_pop(p, mark);
}

static tsr_ast *parse_with(tsr_parser *p, uint32_t begin, bool async) {
    tsr_ast *node = tsr_parser_node(p, async ? TSR_AST_ASYNC_WITH : TSR_AST_WITH, begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_WITH_ITEMS].list = parse_with_items(p);
    node->field[TSR_AST_WITH_BODY].list = parse_block(p, "'with'");
    return tsr_parser_finish(p, node);
}

/* on mesh(…): is a `with` of the specification. */
static tsr_ast *parse_on(tsr_parser *p) {
    tsr_diag *diag = tsr_report_warning(p->report, p->source, p->token.span, TSR_DIAG_TEXT_SPELLING,
                                        "Python has no statement 'on'; write 'with'");
    tsr_report_fix(p->report, diag, p->source, p->token.span, "with");
    return parse_with(p, p->token.span.begin, false);
}

/* ---- try, def, class ---- */

static void parse_handler(tsr_parser *p, int *star) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_EXCEPT_HANDLER, p->token.span.begin);
    tsr_parser_advance(p);
    bool starred = tsr_parser_accept(p, TSR_TOKEN_STAR);
    if (*star >= 0 && *star != starred)
        TSR_PARSER_FAIL(p, p->token.span, TSR_DIAG_TEXT_SYNTAX,
                        "'except' and 'except*' stand in the same 'try'");
    *star = starred;
    if (starred || !tsr_parser_is(p, TSR_TOKEN_COLON)) {
        node->field[TSR_AST_EXCEPT_HANDLER_TYPE].node = tsr_parse_expression(p);
        if (tsr_parser_accept(p, TSR_TOKEN_AS))
            node->field[TSR_AST_EXCEPT_HANDLER_NAME].text = tsr_parser_name(p, "a name after 'as'");
    }
    node->field[TSR_AST_EXCEPT_HANDLER_BODY].list = parse_block(p, "'except'");
    tsr_parser_push(p, tsr_parser_finish(p, node));
}

static tsr_ast *parse_try(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_TRY, p->token.span.begin);
    int star = -1;
    tsr_parser_advance(p);
    node->field[TSR_AST_TRY_BODY].list = parse_block(p, "'try'");
    size_t mark = p->stack_count;
    while (tsr_parser_is(p, TSR_TOKEN_EXCEPT)) parse_handler(p, &star);
    node->field[TSR_AST_TRY_HANDLERS].list = tsr_parser_pop(p, mark);
    if (star >= 0) node->field[TSR_AST_TRY_ORELSE].list = parse_else(p);
    if (tsr_parser_accept(p, TSR_TOKEN_FINALLY))
        node->field[TSR_AST_TRY_FINALBODY].list = parse_block(p, "'finally'");
    else if (star < 0)
        tsr_parser_unexpected(p, "'except' or 'finally' after the block of 'try'");
    if (star == 1) node->kind = TSR_AST_TRY_STAR;
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_def(tsr_parser *p, uint32_t begin, bool async, tsr_ast_list decorators) {
    tsr_ast *node =
        tsr_parser_node(p, async ? TSR_AST_ASYNC_FUNCTION_DEF : TSR_AST_FUNCTION_DEF, begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_FUNCTION_DEF_DECORATORS].list = decorators;
    node->field[TSR_AST_FUNCTION_DEF_NAME].text = tsr_parser_name(p, "a name after 'def'");
    tsr_parser_expect(p, TSR_TOKEN_OPEN, "the function's name");
    node->field[TSR_AST_FUNCTION_DEF_ARGS].node = tsr_parse_parameters(p, TSR_TOKEN_CLOSE, true);
    tsr_parser_expect(p, TSR_TOKEN_CLOSE, "the parameters");
    if (tsr_parser_accept(p, TSR_TOKEN_ARROW))
        node->field[TSR_AST_FUNCTION_DEF_RETURNS].node = tsr_parse_expression(p);
    node->field[TSR_AST_FUNCTION_DEF_BODY].list = parse_block(p, "the function's head");
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_class(tsr_parser *p, tsr_ast_list decorators) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_CLASS_DEF, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_CLASS_DEF_DECORATORS].list = decorators;
    node->field[TSR_AST_CLASS_DEF_NAME].text = tsr_parser_name(p, "a name after 'class'");
    if (tsr_parser_accept(p, TSR_TOKEN_OPEN)) {
        tsr_parse_arguments(p, &node->field[TSR_AST_CLASS_DEF_BASES].list,
                            &node->field[TSR_AST_CLASS_DEF_KEYWORDS].list);
    }
    node->field[TSR_AST_CLASS_DEF_BODY].list = parse_block(p, "the class's head");
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_async(tsr_parser *p, tsr_ast_list decorators) {
    uint32_t begin = p->token.span.begin;
    tsr_parser_advance(p);
    if (tsr_parser_is(p, TSR_TOKEN_DEF)) return parse_def(p, begin, true, decorators);
    if (tsr_parser_is(p, TSR_TOKEN_FOR) && !decorators.count) return parse_for(p, begin, true);
    if (tsr_parser_is(p, TSR_TOKEN_WITH) && !decorators.count) return parse_with(p, begin, true);
    tsr_parser_unexpected(p, "'def', 'for' or 'with' after 'async'");
    return p->error;
}

static tsr_ast *parse_decorated(tsr_parser *p) {
    size_t mark = p->stack_count;
    while (tsr_parser_accept(p, TSR_TOKEN_AT)) {
        tsr_parser_push(p, tsr_parse_named(p));
        tsr_parser_expect(p, TSR_TOKEN_NEWLINE, "a decorator");
    }
    tsr_ast_list decorators = tsr_parser_pop(p, mark);
    if (tsr_parser_is(p, TSR_TOKEN_DEF))
        return parse_def(p, p->token.span.begin, false, decorators);
    if (tsr_parser_is(p, TSR_TOKEN_CLASS)) return parse_class(p, decorators);
    if (tsr_parser_is(p, TSR_TOKEN_ASYNC)) return parse_async(p, decorators);
    tsr_parser_unexpected(p, "'def' after a decorator");
    return p->error;
}

/* ---- simple statements ---- */

static tsr_ast *parse_return(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_RETURN, p->token.span.begin);
    tsr_parser_advance(p);
    if (tsr_begins_expression(p->token.kind) || tsr_parser_is(p, TSR_TOKEN_STAR))
        node->field[TSR_AST_RETURN_VALUE].node = tsr_parse_star_expressions(p);
    return tsr_parser_finish(p, node);
}

/* A name with dots, as one text. */
static tsr_ast_text parse_dotted(tsr_parser *p) {
    size_t size = 0;
    char name[512];
    do {
        tsr_span span = p->token.span;
        tsr_ast_text word = tsr_parser_name(p, "a name of a module");
        if (size + word.size_bytes + 2 > sizeof name) {
            TSR_PARSER_FAIL(p, span, TSR_DIAG_TEXT_LIMIT,
                            "the name of a module has more than %zu letters", sizeof name - 2);
            break;
        }
        if (size) name[size++] = '.';
        memcpy(name + size, word.bytes, word.size_bytes);
        size += word.size_bytes;
    } while (tsr_parser_accept(p, TSR_TOKEN_DOT));
    return tsr_parser_text(p, name, size);
}

static tsr_ast *parse_alias(tsr_parser *p, bool dotted) {
    tsr_ast *alias = tsr_parser_node(p, TSR_AST_ALIAS, p->token.span.begin);
    alias->field[TSR_AST_ALIAS_NAME].text =
        dotted ? parse_dotted(p) : tsr_parser_name(p, "a name after 'import'");
    if (tsr_parser_accept(p, TSR_TOKEN_AS))
        alias->field[TSR_AST_ALIAS_ASNAME].text = tsr_parser_name(p, "a name after 'as'");
    return tsr_parser_finish(p, alias);
}

static tsr_ast *parse_import(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_IMPORT, p->token.span.begin);
    size_t mark = p->stack_count;
    tsr_parser_advance(p);
    do {
        tsr_parser_push(p, parse_alias(p, true));
    } while (tsr_parser_accept(p, TSR_TOKEN_COMMA));
    node->field[TSR_AST_IMPORT_NAMES].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, node);
}

static void parse_imported(tsr_parser *p) {
    if (tsr_parser_is(p, TSR_TOKEN_STAR)) {
        tsr_ast *all = tsr_parser_node(p, TSR_AST_ALIAS, p->token.span.begin);
        tsr_parser_advance(p);
        all->field[TSR_AST_ALIAS_NAME].text = tsr_parser_text(p, "*", 1);
        tsr_parser_push(p, tsr_parser_finish(p, all));
        return;
    }
    bool grouped = tsr_parser_accept(p, TSR_TOKEN_OPEN);
    do {
        tsr_parser_push(p, parse_alias(p, false));
    } while (tsr_parser_accept(p, TSR_TOKEN_COMMA) &&
             !(grouped && tsr_parser_is(p, TSR_TOKEN_CLOSE)));
    if (grouped) tsr_parser_expect(p, TSR_TOKEN_CLOSE, "the imported names");
}

static tsr_ast *parse_import_from(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_IMPORT_FROM, p->token.span.begin);
    size_t mark = p->stack_count;
    int64_t level = 0;
    tsr_parser_advance(p);
    for (;;) {
        if (tsr_parser_accept(p, TSR_TOKEN_DOT))
            level++;
        else if (tsr_parser_accept(p, TSR_TOKEN_DOTS))
            level += 3;
        else
            break;
    }
    if (!level || !tsr_parser_is(p, TSR_TOKEN_IMPORT))
        node->field[TSR_AST_IMPORT_FROM_MODULE].text = parse_dotted(p);
    tsr_parser_expect(p, TSR_TOKEN_IMPORT, "the module");
    parse_imported(p);
    node->field[TSR_AST_IMPORT_FROM_NAMES].list = tsr_parser_pop(p, mark);
    node->field[TSR_AST_IMPORT_FROM_LEVEL].integer = level;
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_raise(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_RAISE, p->token.span.begin);
    tsr_parser_advance(p);
    if (tsr_begins_expression(p->token.kind)) {
        node->field[TSR_AST_RAISE_EXC].node = tsr_parse_expression(p);
        if (tsr_parser_accept(p, TSR_TOKEN_FROM))
            node->field[TSR_AST_RAISE_CAUSE].node = tsr_parse_expression(p);
    }
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_assert(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_ASSERT, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_ASSERT_TEST].node = tsr_parse_expression(p);
    if (tsr_parser_accept(p, TSR_TOKEN_COMMA))
        node->field[TSR_AST_ASSERT_MSG].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_delete(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_DELETE, p->token.span.begin);
    size_t mark = p->stack_count;
    tsr_parser_advance(p);
    do {
        tsr_ast *target = tsr_parse_expression(p);
        tsr_parser_store(p, target, TSR_AST_DEL);
        tsr_parser_push(p, target);
    } while (tsr_parser_accept(p, TSR_TOKEN_COMMA) && tsr_begins_expression(p->token.kind));
    node->field[TSR_AST_DELETE_TARGETS].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_global(tsr_parser *p, tsr_ast_kind kind) {
    tsr_ast *node = tsr_parser_node(p, kind, p->token.span.begin);
    size_t mark = p->stack_count;
    tsr_parser_advance(p);
    do {
        tsr_ast *name = tsr_parser_node(p, TSR_AST_NAME, p->token.span.begin);
        name->field[TSR_AST_NAME_ID].text = tsr_parser_name(p, "a name");
        tsr_parser_push(p, tsr_parser_finish(p, name));
    } while (tsr_parser_accept(p, TSR_TOKEN_COMMA));
    node->field[TSR_AST_GLOBAL_NAMES].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_word(tsr_parser *p, tsr_ast_kind kind) {
    tsr_ast *node = tsr_parser_node(p, kind, p->token.span.begin);
    tsr_parser_advance(p);
    return tsr_parser_finish(p, node);
}

/* ---- assignments and expressions ---- */

static bool is_single_target(const tsr_ast *node) {
    return node->kind == TSR_AST_NAME || node->kind == TSR_AST_ATTRIBUTE ||
           node->kind == TSR_AST_SUBSCRIPT;
}

static tsr_ast *parse_annotated(tsr_parser *p, uint32_t begin, tsr_ast *target) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_ANN_ASSIGN, begin);
    if (!p->failed && !is_single_target(target))
        return TSR_PARSER_FAIL(p, target->span, TSR_DIAG_TEXT_SYNTAX,
                               "only one name, attribute or item can have a type");
    tsr_parser_store(p, target, TSR_AST_STORE);
    tsr_parser_advance(p);
    node->field[TSR_AST_ANN_ASSIGN_TARGET].node = target;
    node->field[TSR_AST_ANN_ASSIGN_ANNOTATION].node = tsr_parse_expression(p);
    if (tsr_parser_accept(p, TSR_TOKEN_ASSIGN))
        node->field[TSR_AST_ANN_ASSIGN_VALUE].node = tsr_parse_assigned(p);
    node->field[TSR_AST_ANN_ASSIGN_SIMPLE].integer =
        target->kind == TSR_AST_NAME && !target->grouped;
    return tsr_parser_finish(p, node);
}

static bool find_augmented(tsr_token_kind kind, tsr_operator *out) {
    static const struct {
        tsr_token_kind token;
        tsr_operator op;
    } rows[] = {
        {TSR_TOKEN_POWER_ASSIGN, TSR_OPERATOR_POWER},
        {TSR_TOKEN_FLOOR_ASSIGN, TSR_OPERATOR_FLOOR},
        {TSR_TOKEN_SHIFT_LEFT_ASSIGN, TSR_OPERATOR_SHIFT_LEFT},
        {TSR_TOKEN_SHIFT_RIGHT_ASSIGN, TSR_OPERATOR_SHIFT_RIGHT},
        {TSR_TOKEN_PLUS_ASSIGN, TSR_OPERATOR_ADD},
        {TSR_TOKEN_MINUS_ASSIGN, TSR_OPERATOR_SUBTRACT},
        {TSR_TOKEN_STAR_ASSIGN, TSR_OPERATOR_MULTIPLY},
        {TSR_TOKEN_SLASH_ASSIGN, TSR_OPERATOR_DIVIDE},
        {TSR_TOKEN_PERCENT_ASSIGN, TSR_OPERATOR_REMAINDER},
        {TSR_TOKEN_AT_ASSIGN, TSR_OPERATOR_MATRIX},
        {TSR_TOKEN_AND_ASSIGN, TSR_OPERATOR_BIT_AND},
        {TSR_TOKEN_OR_ASSIGN, TSR_OPERATOR_BIT_OR},
        {TSR_TOKEN_XOR_ASSIGN, TSR_OPERATOR_BIT_XOR},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (rows[i].token != kind) continue;
        *out = rows[i].op;
        return true;
    }
    return false;
}

static tsr_ast *parse_augmented(tsr_parser *p, uint32_t begin, tsr_ast *target, tsr_operator op) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_AUG_ASSIGN, begin);
    if (!p->failed && !is_single_target(target))
        return TSR_PARSER_FAIL(p, target->span, TSR_DIAG_TEXT_SYNTAX,
                               "'%s=' changes one name, attribute or item", tsr_operator_text(op));
    tsr_parser_store(p, target, TSR_AST_STORE);
    tsr_parser_advance(p);
    node->field[TSR_AST_AUG_ASSIGN_TARGET].node = target;
    node->field[TSR_AST_AUG_ASSIGN_OP].op = op;
    node->field[TSR_AST_AUG_ASSIGN_VALUE].node = tsr_parse_assigned(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_assignment(tsr_parser *p, uint32_t begin, tsr_ast *first) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_ASSIGN, begin);
    size_t mark = p->stack_count;
    tsr_ast *value = first;
    while (tsr_parser_is(p, TSR_TOKEN_ASSIGN)) {
        tsr_parser_store(p, value, TSR_AST_STORE);
        tsr_parser_push(p, value);
        tsr_parser_advance(p);
        value = tsr_parse_assigned(p);
    }
    node->field[TSR_AST_ASSIGN_TARGETS].list = tsr_parser_pop(p, mark);
    node->field[TSR_AST_ASSIGN_VALUE].node = value;
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_expression_statement(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_operator op;
    tsr_ast *value = tsr_parse_assigned(p);
    if (tsr_parser_is(p, TSR_TOKEN_COLON)) return parse_annotated(p, begin, value);
    if (find_augmented(p->token.kind, &op)) return parse_augmented(p, begin, value, op);
    if (tsr_parser_is(p, TSR_TOKEN_ASSIGN)) return parse_assignment(p, begin, value);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_EXPR, begin);
    node->field[TSR_AST_EXPR_VALUE].node = value;
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_simple(tsr_parser *p) {
    switch (p->token.kind) {
    case TSR_TOKEN_RETURN:
        return parse_return(p);
    case TSR_TOKEN_IMPORT:
        return parse_import(p);
    case TSR_TOKEN_FROM:
        return parse_import_from(p);
    case TSR_TOKEN_RAISE:
        return parse_raise(p);
    case TSR_TOKEN_ASSERT:
        return parse_assert(p);
    case TSR_TOKEN_DEL:
        return parse_delete(p);
    case TSR_TOKEN_GLOBAL:
        return parse_global(p, TSR_AST_GLOBAL);
    case TSR_TOKEN_NONLOCAL:
        return parse_global(p, TSR_AST_NONLOCAL);
    case TSR_TOKEN_PASS:
        return parse_word(p, TSR_AST_PASS);
    case TSR_TOKEN_BREAK:
        return parse_word(p, TSR_AST_BREAK);
    case TSR_TOKEN_CONTINUE:
        return parse_word(p, TSR_AST_CONTINUE);
    default:
        return parse_expression_statement(p);
    }
}

static void parse_simple_line(tsr_parser *p) {
    do {
        tsr_parser_push(p, parse_simple(p));
    } while (tsr_parser_accept(p, TSR_TOKEN_SEMICOLON) && !tsr_parser_is(p, TSR_TOKEN_NEWLINE));
    if (!p->failed && !tsr_parser_accept(p, TSR_TOKEN_NEWLINE))
        tsr_parser_unexpected(p, "an operator or the end of the line");
}

/* ---- any statement ---- */

static tsr_ast *parse_compound(tsr_parser *p) {
    static const tsr_ast_list none = {0};
    switch (p->token.kind) {
    case TSR_TOKEN_AT:
        return parse_decorated(p);
    case TSR_TOKEN_DEF:
        return parse_def(p, p->token.span.begin, false, none);
    case TSR_TOKEN_CLASS:
        return parse_class(p, none);
    case TSR_TOKEN_ASYNC:
        return parse_async(p, none);
    case TSR_TOKEN_IF:
        return parse_if(p);
    case TSR_TOKEN_FOR:
        return parse_for(p, p->token.span.begin, false);
    case TSR_TOKEN_WHILE:
        return parse_while(p);
    case TSR_TOKEN_WITH:
        return parse_with(p, p->token.span.begin, false);
    case TSR_TOKEN_TRY:
        return parse_try(p);
    default:
        return NULL;
    }
}

/* Whether the line is the head of a `match`: it begins with this word, no operator of a name
 * follows, and it ends with a colon. */
static bool is_match(tsr_parser *p) {
    if (!tsr_parser_is_name(p, "match")) return false;
    tsr_token_kind next = tsr_parser_peek(p).kind, last = next;
    if (next == TSR_TOKEN_COLON || next == TSR_TOKEN_NEWLINE || next == TSR_TOKEN_DOT) return false;
    tsr_lexer ahead = p->lexer;
    p->report->muted++;
    for (tsr_token t = p->ahead; t.kind != TSR_TOKEN_NEWLINE && t.kind != TSR_TOKEN_END;
         t = tsr_lexer_next(&ahead))
        last = t.kind;
    p->report->muted--;
    return last == TSR_TOKEN_COLON;
}

static tsr_ast *parse_statement(tsr_parser *p) {
    if (tsr_parser_is(p, TSR_TOKEN_INDENT))
        return TSR_PARSER_FAIL(p, p->token.span, TSR_DIAG_TEXT_INDENT,
                               "the line is indented further than the block it is in");
    if (tsr_parser_is_name(p, "on") && tsr_parser_peek(p).kind == TSR_TOKEN_NAME)
        return parse_on(p);
    if (is_match(p))
        return TSR_PARSER_FAIL(p, p->token.span, TSR_DIAG_TEXT_REFUSED,
                               "'match' is not part of the language; 'if' compares values");
    return parse_compound(p);
}

/* Pushes one compound statement, or the simple statements of a line. */
static void parse_statements(tsr_parser *p) {
    size_t mark = p->stack_count;
    uint32_t begin = p->token.span.begin;
    unsigned depth = p->depth;
    tsr_ast *node = parse_statement(p);
    if (node)
        tsr_parser_push(p, node);
    else
        parse_simple_line(p);
    if (!p->failed) return;
    uint32_t column = tsr_source_column(p->source, begin) - 1;
    tsr_token token = p->has_ahead ? p->ahead : p->failed_at;
    p->has_ahead = p->failed = false;
    p->depth = depth;
    p->stack_count = mark;
    take_token(p, tsr_lexer_recover(&p->lexer, token, column));
    if (p->report->memory) return;
    node = tsr_parser_node(p, TSR_AST_ERROR, begin);
    node->height = 1;
    tsr_parser_push(p, node);
}

tsr_ast *tsr_parse(tsr_report *report, const tsr_source *source) {
    tsr_parser p = {.report = report, .source = source, .lexer = tsr_lexer_begin(report, source)};
    p.error = tsr_arena_alloc(report->arena, 1,
                              sizeof(tsr_ast) + TSR_AST_FIELDS_MAX * sizeof(tsr_ast_field),
                              _Alignof(tsr_ast));
    if (!p.error) {
        report->memory = true;
        return NULL;
    }
    tsr_ast *module = tsr_parser_node(&p, TSR_AST_MODULE, 0);
    take_token(&p, tsr_lexer_next(&p.lexer));
    while (!tsr_parser_is(&p, TSR_TOKEN_END) && !tsr_report_is_full(report)) parse_statements(&p);
    module->field[TSR_AST_MODULE_BODY].list = tsr_parser_pop(&p, 0);
    tsr_parser_finish(&p, module);
    return report->memory ? NULL : module;
}
