/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: binary operators by how strongly they bind, the others by a function each.
 */
#include "compiler/frontend/language/syntax/parse.h"
#include "runtime/base/array.h"

bool tsr_begins_expression(tsr_token_kind kind) {
    switch (kind) {
    case TSR_TOKEN_NAME:
    case TSR_TOKEN_INTEGER:
    case TSR_TOKEN_FLOAT:
    case TSR_TOKEN_IMAGINARY:
    case TSR_TOKEN_STRING:
    case TSR_TOKEN_TRUE:
    case TSR_TOKEN_FALSE:
    case TSR_TOKEN_NONE:
    case TSR_TOKEN_DOTS:
    case TSR_TOKEN_OPEN:
    case TSR_TOKEN_OPEN_SQUARE:
    case TSR_TOKEN_OPEN_CURLY:
    case TSR_TOKEN_PLUS:
    case TSR_TOKEN_MINUS:
    case TSR_TOKEN_INVERT:
    case TSR_TOKEN_NOT:
    case TSR_TOKEN_LAMBDA:
    case TSR_TOKEN_AWAIT:
        return true;
    default:
        return false;
    }
}

static tsr_ast *parse_disjunction(tsr_parser *p);
static tsr_ast *parse_binary(tsr_parser *p, int binding);

/* ---- what can be assigned to ---- */

static const char *describe(const tsr_ast *node) {
    switch ((tsr_ast_kind)node->kind) {
    case TSR_AST_CALL:
        return "a call";
    case TSR_AST_CONSTANT:
    case TSR_AST_JOINED_STR:
        return "a constant";
    case TSR_AST_COMPARE:
        return "a comparison";
    case TSR_AST_DICT:
    case TSR_AST_SET:
        return "a dict or set";
    default:
        return "an expression";
    }
}

static bool store_items(tsr_parser *p, const tsr_ast_list *items, tsr_ast_context context) {
    for (size_t i = 0; i < items->count; i++)
        if (!tsr_parser_store(p, items->items[i], context)) return false;
    return true;
}

bool tsr_parser_store(tsr_parser *p, tsr_ast *node, tsr_ast_context context) {
    if (p->failed) return false;
    node->context = (uint8_t)context;
    switch ((tsr_ast_kind)node->kind) {
    case TSR_AST_NAME:
    case TSR_AST_ATTRIBUTE:
    case TSR_AST_SUBSCRIPT:
        return true;
    case TSR_AST_LIST:
    case TSR_AST_TUPLE:
        return store_items(p, &node->field[TSR_AST_LIST_ELTS].list, context);
    case TSR_AST_STARRED:
        if (context == TSR_AST_STORE &&
            node->field[TSR_AST_STARRED_VALUE].node->kind != TSR_AST_STARRED)
            return tsr_parser_store(p, node->field[TSR_AST_STARRED_VALUE].node, context);
        break;
    default:
        break;
    }
    TSR_PARSER_FAIL(p, node->span, TSR_DIAG_TEXT_SYNTAX, "%s cannot be %s", describe(node),
                    context == TSR_AST_DEL ? "deleted" : "assigned to");
    return false;
}

static tsr_ast *parse_star(tsr_parser *p, tsr_ast *(*parse)(tsr_parser *p)) {
    if (!tsr_parser_is(p, TSR_TOKEN_STAR)) return parse(p);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_STARRED, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_STARRED_VALUE].node = parse_binary(p, 1);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_bare_binary(tsr_parser *p) { return parse_binary(p, 1); }

static bool begins_star(tsr_token_kind kind) {
    return kind == TSR_TOKEN_STAR || tsr_begins_expression(kind);
}

/* Items with commas as a tuple; one item without a comma as itself. */
static tsr_ast *parse_tuple(tsr_parser *p, tsr_ast *(*parse)(tsr_parser *p)) {
    uint32_t begin = p->token.span.begin;
    size_t mark = p->stack_count;
    tsr_ast *first = parse_star(p, parse);
    if (!tsr_parser_is(p, TSR_TOKEN_COMMA)) return first;
    tsr_parser_push(p, first);
    while (tsr_parser_accept(p, TSR_TOKEN_COMMA) && begins_star(p->token.kind))
        tsr_parser_push(p, parse_star(p, parse));
    tsr_ast *tuple = tsr_parser_node(p, TSR_AST_TUPLE, begin);
    tuple->field[TSR_AST_TUPLE_ELTS].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, tuple);
}

tsr_ast *tsr_parse_star_expressions(tsr_parser *p) { return parse_tuple(p, tsr_parse_expression); }

tsr_ast *tsr_parse_targets(tsr_parser *p) {
    tsr_ast *targets = parse_tuple(p, parse_bare_binary);
    tsr_parser_store(p, targets, TSR_AST_STORE);
    return targets;
}

tsr_ast *tsr_parse_target(tsr_parser *p) {
    tsr_ast *target = parse_star(p, parse_bare_binary);
    tsr_parser_store(p, target, TSR_AST_STORE);
    return target;
}

static tsr_ast *parse_yield(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_parser_advance(p);
    if (tsr_parser_accept(p, TSR_TOKEN_FROM)) {
        tsr_ast *from = tsr_parser_node(p, TSR_AST_YIELD_FROM, begin);
        from->field[TSR_AST_YIELD_FROM_VALUE].node = tsr_parse_expression(p);
        return tsr_parser_finish(p, from);
    }
    tsr_ast *node = tsr_parser_node(p, TSR_AST_YIELD, begin);
    if (begins_star(p->token.kind))
        node->field[TSR_AST_YIELD_VALUE].node = tsr_parse_star_expressions(p);
    return tsr_parser_finish(p, node);
}

tsr_ast *tsr_parse_assigned(tsr_parser *p) {
    if (tsr_parser_is(p, TSR_TOKEN_YIELD)) return parse_yield(p);
    return tsr_parse_star_expressions(p);
}

/* ---- comprehensions ---- */

static bool begins_comprehension(tsr_parser *p) {
    return tsr_parser_is(p, TSR_TOKEN_FOR) || tsr_parser_is(p, TSR_TOKEN_ASYNC);
}

static tsr_ast_list parse_generators(tsr_parser *p) {
    size_t mark = p->stack_count;
    while (begins_comprehension(p)) {
        tsr_ast *node = tsr_parser_node(p, TSR_AST_COMPREHENSION, p->token.span.begin);
        node->field[TSR_AST_COMPREHENSION_ASYNC].integer = tsr_parser_accept(p, TSR_TOKEN_ASYNC);
        tsr_parser_expect(p, TSR_TOKEN_FOR, "'async'");
        node->field[TSR_AST_COMPREHENSION_TARGET].node = tsr_parse_targets(p);
        tsr_parser_expect(p, TSR_TOKEN_IN, "the names of the comprehension");
        node->field[TSR_AST_COMPREHENSION_ITER].node = parse_disjunction(p);
        size_t ifs = p->stack_count;
        while (tsr_parser_accept(p, TSR_TOKEN_IF)) tsr_parser_push(p, parse_disjunction(p));
        node->field[TSR_AST_COMPREHENSION_IFS].list = tsr_parser_pop(p, ifs);
        tsr_parser_push(p, tsr_parser_finish(p, node));
    }
    return tsr_parser_pop(p, mark);
}

static tsr_ast *parse_comprehension(tsr_parser *p, tsr_ast_kind kind, uint32_t begin, tsr_ast *item,
                                    tsr_token_kind close) {
    if (!p->failed && item->kind == TSR_AST_STARRED)
        return TSR_PARSER_FAIL(p, item->span, TSR_DIAG_TEXT_SYNTAX,
                               "'*' cannot stand before the item of a comprehension");
    tsr_ast *node = tsr_parser_node(p, kind, begin);
    node->field[TSR_AST_LIST_COMP_ELT].node = item;
    node->field[TSR_AST_LIST_COMP_GENERATORS].list = parse_generators(p);
    tsr_parser_expect(p, close, "a comprehension");
    return tsr_parser_finish(p, node);
}

/* ---- brackets ---- */

static tsr_ast *parse_star_named(tsr_parser *p) { return parse_star(p, tsr_parse_named); }

/* Items up to a bracket, which is consumed. */
static tsr_ast_list parse_items(tsr_parser *p, tsr_ast *first, tsr_token_kind close) {
    size_t mark = p->stack_count;
    tsr_parser_push(p, first);
    while (tsr_parser_accept(p, TSR_TOKEN_COMMA) && !tsr_parser_is(p, close))
        tsr_parser_push(p, parse_star_named(p));
    tsr_parser_expect(p, close, "the values");
    return tsr_parser_pop(p, mark);
}

tsr_ast *tsr_parse_group(tsr_parser *p, uint32_t begin, tsr_token_kind close) {
    tsr_ast *tuple;
    if (close == TSR_TOKEN_CLOSE && tsr_parser_accept(p, close)) {
        tuple = tsr_parser_node(p, TSR_AST_TUPLE, begin);
        return tsr_parser_finish(p, tuple);
    }
    tsr_ast *first = tsr_parser_is(p, TSR_TOKEN_YIELD) ? parse_yield(p) : parse_star_named(p);
    if (begins_comprehension(p))
        return parse_comprehension(p, TSR_AST_GENERATOR_EXP, begin, first, close);
    if (tsr_parser_is(p, TSR_TOKEN_COMMA)) {
        if (first->kind == TSR_AST_YIELD && !first->grouped) {
            tsr_parser_unexpected(p, "')' after 'yield'");
            return first;
        }
        tuple = tsr_parser_node(p, TSR_AST_TUPLE, begin);
        tuple->field[TSR_AST_TUPLE_ELTS].list = parse_items(p, first, close);
        return tsr_parser_finish(p, tuple);
    }
    if (!p->failed && first->kind == TSR_AST_STARRED)
        return TSR_PARSER_FAIL(p, first->span, TSR_DIAG_TEXT_SYNTAX,
                               "'*' needs a list, a tuple or a call around it");
    tsr_parser_expect(p, close, "the expression");
    first->grouped = 1;
    return first;
}

static tsr_ast *parse_list(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_parser_advance(p);
    tsr_ast *list = tsr_parser_node(p, TSR_AST_LIST, begin);
    if (tsr_parser_accept(p, TSR_TOKEN_CLOSE_SQUARE)) return tsr_parser_finish(p, list);
    tsr_ast *first = parse_star_named(p);
    if (begins_comprehension(p))
        return parse_comprehension(p, TSR_AST_LIST_COMP, begin, first, TSR_TOKEN_CLOSE_SQUARE);
    list->field[TSR_AST_LIST_ELTS].list = parse_items(p, first, TSR_TOKEN_CLOSE_SQUARE);
    return tsr_parser_finish(p, list);
}

/* A key and its value, or ** and a dict; both are pushed. */
static void parse_entry(tsr_parser *p) {
    if (tsr_parser_accept(p, TSR_TOKEN_POWER)) {
        tsr_parser_push(p, NULL);
        tsr_parser_push(p, parse_binary(p, 1));
        return;
    }
    tsr_parser_push(p, tsr_parse_expression(p));
    tsr_parser_expect(p, TSR_TOKEN_COLON, "a key");
    tsr_parser_push(p, tsr_parse_expression(p));
}

static tsr_ast *parse_dict_comprehension(tsr_parser *p, uint32_t begin, size_t mark) {
    tsr_ast_list entry = tsr_parser_pop(p, mark);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_DICT_COMP, begin);
    if (entry.count != 2 || !entry.items[0]) {
        tsr_parser_unexpected(p, "',' or '}' after a dict");
        return node;
    }
    node->field[TSR_AST_DICT_COMP_KEY].node = entry.items[0];
    node->field[TSR_AST_DICT_COMP_VALUE].node = entry.items[1];
    node->field[TSR_AST_DICT_COMP_GENERATORS].list = parse_generators(p);
    tsr_parser_expect(p, TSR_TOKEN_CLOSE_CURLY, "a comprehension");
    return tsr_parser_finish(p, node);
}

/* The rest of a dict; its first entry is pushed from `mark` on. */
static tsr_ast *parse_dict(tsr_parser *p, uint32_t begin, size_t mark) {
    if (begins_comprehension(p)) return parse_dict_comprehension(p, begin, mark);
    while (tsr_parser_accept(p, TSR_TOKEN_COMMA) && !tsr_parser_is(p, TSR_TOKEN_CLOSE_CURLY))
        parse_entry(p);
    tsr_parser_expect(p, TSR_TOKEN_CLOSE_CURLY, "the values");
    tsr_ast *node = tsr_parser_node(p, TSR_AST_DICT, begin);
    tsr_ast_list entries = tsr_parser_pop(p, mark);
    size_t values = p->stack_count;
    for (size_t i = 0; i + 1 < entries.count; i += 2) tsr_parser_push(p, entries.items[i + 1]);
    node->field[TSR_AST_DICT_VALUES].list = tsr_parser_pop(p, values);
    for (size_t i = 0; i + 1 < entries.count; i += 2) tsr_parser_push(p, entries.items[i]);
    node->field[TSR_AST_DICT_KEYS].list = tsr_parser_pop(p, values);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_curly(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    size_t mark = p->stack_count;
    tsr_parser_advance(p);
    if (tsr_parser_accept(p, TSR_TOKEN_CLOSE_CURLY))
        return tsr_parser_finish(p, tsr_parser_node(p, TSR_AST_DICT, begin));
    if (tsr_parser_is(p, TSR_TOKEN_POWER)) {
        parse_entry(p);
        return parse_dict(p, begin, mark);
    }
    tsr_ast *first = parse_star_named(p);
    bool keyed =
        first->kind != TSR_AST_STARRED && (first->kind != TSR_AST_NAMED_EXPR || first->grouped);
    if (keyed && tsr_parser_accept(p, TSR_TOKEN_COLON)) {
        tsr_parser_push(p, first);
        tsr_parser_push(p, tsr_parse_expression(p));
        return parse_dict(p, begin, mark);
    }
    if (begins_comprehension(p))
        return parse_comprehension(p, TSR_AST_SET_COMP, begin, first, TSR_TOKEN_CLOSE_CURLY);
    tsr_ast *set = tsr_parser_node(p, TSR_AST_SET, begin);
    set->field[TSR_AST_SET_ELTS].list = parse_items(p, first, TSR_TOKEN_CLOSE_CURLY);
    return tsr_parser_finish(p, set);
}

/* ---- calls ---- */

static tsr_ast *parse_keyword(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_KEYWORD, p->token.span.begin);
    if (!tsr_parser_accept(p, TSR_TOKEN_POWER)) {
        node->field[TSR_AST_KEYWORD_NAME].text = tsr_parser_name(p, "a name");
        tsr_parser_advance(p); /* the = */
    }
    node->field[TSR_AST_KEYWORD_VALUE].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, node);
}

static bool begins_keyword(tsr_parser *p) {
    return tsr_parser_is(p, TSR_TOKEN_POWER) ||
           (tsr_parser_is(p, TSR_TOKEN_NAME) && tsr_parser_peek(p).kind == TSR_TOKEN_ASSIGN);
}

static tsr_ast *parse_argument(tsr_parser *p, size_t keyword_count, bool unpacked) {
    bool star = tsr_parser_is(p, TSR_TOKEN_STAR);
    if (keyword_count && (!star || unpacked))
        return TSR_PARSER_FAIL(p, p->token.span, TSR_DIAG_TEXT_SYNTAX,
                               "an argument without name follows %s",
                               unpacked ? "'**'" : "arguments with names");
    if (!star) return tsr_parse_named(p);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_STARRED, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_STARRED_VALUE].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, node);
}

/* Arguments without names stay on the stack; those with names are collected in `keywords`. */
void tsr_parse_arguments(tsr_parser *p, tsr_ast_list *out_args, tsr_ast_list *out_keywords) {
    size_t mark = p->stack_count, keyword_count = 0;
    uint32_t open = p->end - 1;
    bool unpacked = false;
    while (!tsr_parser_is(p, TSR_TOKEN_CLOSE) && !p->failed) {
        if (begins_keyword(p)) {
            unpacked = unpacked || tsr_parser_is(p, TSR_TOKEN_POWER);
            tsr_parser_push(p, parse_keyword(p));
            keyword_count++;
        } else {
            tsr_ast *argument = parse_argument(p, keyword_count, unpacked);
            if (begins_comprehension(p) && p->stack_count == mark) {
                *out_args = (tsr_ast_list){0};
                tsr_parser_push(p, parse_comprehension(p, TSR_AST_GENERATOR_EXP, open, argument,
                                                       TSR_TOKEN_CLOSE));
                *out_args = tsr_parser_pop(p, mark);
                return;
            }
            tsr_parser_push(p, argument);
        }
        if (!tsr_parser_accept(p, TSR_TOKEN_COMMA)) break;
    }
    tsr_parser_expect(p, TSR_TOKEN_CLOSE, "the arguments");
    tsr_ast_list all = tsr_parser_pop(p, mark);
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i]->kind != TSR_AST_KEYWORD) tsr_parser_push(p, all.items[i]);
    *out_args = tsr_parser_pop(p, mark);
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i]->kind == TSR_AST_KEYWORD) tsr_parser_push(p, all.items[i]);
    *out_keywords = tsr_parser_pop(p, mark);
}

static tsr_ast *parse_call(tsr_parser *p, tsr_ast *function) {
    tsr_ast *call = tsr_parser_node(p, TSR_AST_CALL, function->span.begin);
    tsr_parser_advance(p);
    call->field[TSR_AST_CALL_FUNC].node = function;
    tsr_parse_arguments(p, &call->field[TSR_AST_CALL_ARGS].list,
                        &call->field[TSR_AST_CALL_KEYWORDS].list);
    return tsr_parser_finish(p, call);
}

/* ---- items ---- */

static tsr_ast *parse_slice(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_ast *lower = NULL;
    if (tsr_parser_is(p, TSR_TOKEN_STAR)) return parse_star_named(p);
    if (!tsr_parser_is(p, TSR_TOKEN_COLON)) lower = tsr_parse_named(p);
    if (lower && !tsr_parser_is(p, TSR_TOKEN_COLON)) return lower;
    if (lower && lower->kind == TSR_AST_NAMED_EXPR && !lower->grouped) {
        tsr_parser_unexpected(p, "']' after ':='");
        return lower;
    }
    tsr_ast *slice = tsr_parser_node(p, TSR_AST_SLICE, begin);
    tsr_parser_advance(p);
    slice->field[TSR_AST_SLICE_LOWER].node = lower;
    if (tsr_begins_expression(p->token.kind))
        slice->field[TSR_AST_SLICE_UPPER].node = tsr_parse_expression(p);
    if (tsr_parser_accept(p, TSR_TOKEN_COLON) && tsr_begins_expression(p->token.kind))
        slice->field[TSR_AST_SLICE_STEP].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, slice);
}

static tsr_ast *parse_subscript(tsr_parser *p, tsr_ast *value) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_SUBSCRIPT, value->span.begin);
    node->field[TSR_AST_SUBSCRIPT_VALUE].node = value;
    tsr_parser_advance(p);
    uint32_t begin = p->token.span.begin;
    size_t mark = p->stack_count;
    tsr_ast *slice = parse_slice(p);
    if (tsr_parser_is(p, TSR_TOKEN_COMMA) || slice->kind == TSR_AST_STARRED) {
        tsr_parser_push(p, slice);
        while (tsr_parser_accept(p, TSR_TOKEN_COMMA) && !tsr_parser_is(p, TSR_TOKEN_CLOSE_SQUARE))
            tsr_parser_push(p, parse_slice(p));
        slice = tsr_parser_node(p, TSR_AST_TUPLE, begin);
        slice->field[TSR_AST_TUPLE_ELTS].list = tsr_parser_pop(p, mark);
        tsr_parser_finish(p, slice);
    }
    node->field[TSR_AST_SUBSCRIPT_SLICE].node = slice;
    tsr_parser_expect(p, TSR_TOKEN_CLOSE_SQUARE, "the index");
    return tsr_parser_finish(p, node);
}

/* W{"d_model"}, the specification's spelling of W["d_model"]. */
static tsr_ast *parse_curly_subscript(tsr_parser *p, tsr_ast *value) {
    tsr_report_warning(p->report, p->source, p->token.span, TSR_DIAG_TEXT_SPELLING,
                       "Python selects with [ ], not with { }");
    tsr_ast *node = tsr_parser_node(p, TSR_AST_SUBSCRIPT, value->span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_SUBSCRIPT_VALUE].node = value;
    node->field[TSR_AST_SUBSCRIPT_SLICE].node = tsr_parse_star_expressions(p);
    tsr_parser_expect(p, TSR_TOKEN_CLOSE_CURLY, "the index");
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_attribute(tsr_parser *p, tsr_ast *value) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_ATTRIBUTE, value->span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_ATTRIBUTE_VALUE].node = value;
    node->field[TSR_AST_ATTRIBUTE_ATTR].text = tsr_parser_name(p, "a name after '.'");
    return tsr_parser_finish(p, node);
}

/* ---- atoms ---- */

static tsr_ast *parse_constant(tsr_parser *p, tsr_constant_kind kind) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_CONSTANT, p->token.span.begin);
    tsr_parser_advance(p);
    node->constant = (uint8_t)kind;
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_name(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_NAME, p->token.span.begin);
    node->field[TSR_AST_NAME_ID].text = tsr_parser_name(p, "a name");
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_atom(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    switch (p->token.kind) {
    case TSR_TOKEN_NAME:
        return parse_name(p);
    case TSR_TOKEN_INTEGER:
    case TSR_TOKEN_FLOAT:
    case TSR_TOKEN_IMAGINARY:
        return tsr_parse_number(p);
    case TSR_TOKEN_STRING:
        return tsr_parse_strings(p);
    case TSR_TOKEN_TRUE:
        return parse_constant(p, TSR_CONSTANT_TRUE);
    case TSR_TOKEN_FALSE:
        return parse_constant(p, TSR_CONSTANT_FALSE);
    case TSR_TOKEN_NONE:
        return parse_constant(p, TSR_CONSTANT_NONE);
    case TSR_TOKEN_DOTS:
        return parse_constant(p, TSR_CONSTANT_ELLIPSIS);
    case TSR_TOKEN_OPEN:
        tsr_parser_advance(p);
        return tsr_parse_group(p, begin, TSR_TOKEN_CLOSE);
    case TSR_TOKEN_OPEN_SQUARE:
        return parse_list(p);
    case TSR_TOKEN_OPEN_CURLY:
        return parse_curly(p);
    default:
        tsr_parser_unexpected(p, "an expression");
        return p->error;
    }
}

/* What follows an atom; NULL: nothing. */
static tsr_ast *parse_suffix(tsr_parser *p, tsr_ast *node) {
    switch (p->token.kind) {
    case TSR_TOKEN_DOT:
        return parse_attribute(p, node);
    case TSR_TOKEN_OPEN:
        return parse_call(p, node);
    case TSR_TOKEN_OPEN_SQUARE:
        return parse_subscript(p, node);
    case TSR_TOKEN_OPEN_CURLY:
        if (p->token.span.begin != p->end ||
            (node->kind != TSR_AST_NAME && node->kind != TSR_AST_ATTRIBUTE))
            return NULL;
        return parse_curly_subscript(p, node);
    default:
        return NULL;
    }
}

/* A node begins with the bracket around its first part, as in CPython. */
static tsr_ast *parse_primary(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_ast *node = parse_atom(p);
    for (tsr_ast *next; (next = parse_suffix(p, node)); node = next) next->span.begin = begin;
    return node;
}

/* ---- operators ---- */

static tsr_ast *parse_unary(tsr_parser *p);

static tsr_ast *parse_await(tsr_parser *p) {
    if (!tsr_parser_is(p, TSR_TOKEN_AWAIT)) return parse_primary(p);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_AWAIT, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_AWAIT_VALUE].node = parse_primary(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *make_binary(tsr_parser *p, tsr_ast *left, tsr_operator op, tsr_ast *right) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_BIN_OP, left->span.begin);
    node->field[TSR_AST_BIN_OP_LEFT].node = left;
    node->field[TSR_AST_BIN_OP_OP].op = op;
    node->field[TSR_AST_BIN_OP_RIGHT].node = right;
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_power(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_ast *base = parse_await(p);
    if (!tsr_parser_accept(p, TSR_TOKEN_POWER)) return base;
    tsr_ast *exponent = tsr_parser_enter(p) ? parse_unary(p) : p->error;
    tsr_parser_leave(p);
    tsr_ast *node = make_binary(p, base, TSR_OPERATOR_POWER, exponent);
    node->span.begin = begin;
    return node;
}

static tsr_ast *parse_unary(tsr_parser *p) {
    tsr_operator op = tsr_parser_is(p, TSR_TOKEN_MINUS)  ? TSR_OPERATOR_NEGATE
                      : tsr_parser_is(p, TSR_TOKEN_PLUS) ? TSR_OPERATOR_PLUS
                                                         : TSR_OPERATOR_INVERT;
    if (op == TSR_OPERATOR_INVERT && !tsr_parser_is(p, TSR_TOKEN_INVERT)) return parse_power(p);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_UNARY_OP, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_UNARY_OP_OP].op = op;
    if (tsr_parser_enter(p)) node->field[TSR_AST_UNARY_OP_OPERAND].node = parse_unary(p);
    tsr_parser_leave(p);
    return tsr_parser_finish(p, node);
}

static bool find_binary(tsr_token_kind kind, tsr_operator *out) {
    switch (kind) {
    case TSR_TOKEN_BIT_OR:
        *out = TSR_OPERATOR_BIT_OR;
        return true;
    case TSR_TOKEN_BIT_XOR:
        *out = TSR_OPERATOR_BIT_XOR;
        return true;
    case TSR_TOKEN_BIT_AND:
        *out = TSR_OPERATOR_BIT_AND;
        return true;
    case TSR_TOKEN_SHIFT_LEFT:
        *out = TSR_OPERATOR_SHIFT_LEFT;
        return true;
    case TSR_TOKEN_SHIFT_RIGHT:
        *out = TSR_OPERATOR_SHIFT_RIGHT;
        return true;
    case TSR_TOKEN_PLUS:
        *out = TSR_OPERATOR_ADD;
        return true;
    case TSR_TOKEN_MINUS:
        *out = TSR_OPERATOR_SUBTRACT;
        return true;
    case TSR_TOKEN_STAR:
        *out = TSR_OPERATOR_MULTIPLY;
        return true;
    case TSR_TOKEN_SLASH:
        *out = TSR_OPERATOR_DIVIDE;
        return true;
    case TSR_TOKEN_FLOOR:
        *out = TSR_OPERATOR_FLOOR;
        return true;
    case TSR_TOKEN_PERCENT:
        *out = TSR_OPERATOR_REMAINDER;
        return true;
    case TSR_TOKEN_AT:
        *out = TSR_OPERATOR_MATRIX;
        return true;
    default:
        return false;
    }
}

/* Operators that bind at least as strongly as `binding`; equal ones group to the left. */
static tsr_ast *parse_binary(tsr_parser *p, int binding) {
    uint32_t begin = p->token.span.begin;
    tsr_ast *left = parse_unary(p);
    tsr_operator op;
    while (find_binary(p->token.kind, &op) && tsr_operator_binding(op) >= binding) {
        tsr_parser_advance(p);
        left = make_binary(p, left, op, parse_binary(p, tsr_operator_binding(op) + 1));
        left->span.begin = begin;
    }
    return left;
}

static bool accept_comparison(tsr_parser *p, tsr_operator *out) {
    static const struct {
        tsr_token_kind token;
        tsr_operator op;
    } rows[] = {
        {TSR_TOKEN_EQUAL, TSR_OPERATOR_EQUAL},
        {TSR_TOKEN_NOT_EQUAL, TSR_OPERATOR_NOT_EQUAL},
        {TSR_TOKEN_LESS, TSR_OPERATOR_LESS},
        {TSR_TOKEN_LESS_EQUAL, TSR_OPERATOR_LESS_EQUAL},
        {TSR_TOKEN_GREATER, TSR_OPERATOR_GREATER},
        {TSR_TOKEN_GREATER_EQUAL, TSR_OPERATOR_GREATER_EQUAL},
        {TSR_TOKEN_IN, TSR_OPERATOR_IN},
        {TSR_TOKEN_IS, TSR_OPERATOR_IS},
    };
    if (tsr_parser_is(p, TSR_TOKEN_NOT) && tsr_parser_peek(p).kind == TSR_TOKEN_IN) {
        tsr_parser_advance(p);
        tsr_parser_advance(p);
        *out = TSR_OPERATOR_NOT_IN;
        return true;
    }
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        if (!tsr_parser_accept(p, rows[i].token)) continue;
        *out = rows[i].op;
        if (*out == TSR_OPERATOR_IS && tsr_parser_accept(p, TSR_TOKEN_NOT))
            *out = TSR_OPERATOR_IS_NOT;
        return true;
    }
    return false;
}

static tsr_ast *parse_comparison(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    tsr_ast *left = parse_binary(p, 1);
    tsr_operator op;
    if (!accept_comparison(p, &op)) return left;
    size_t mark = p->stack_count, count = 0;
    char ops[TSR_LANGUAGE_DEPTH_MAX];
    do {
        if (count == sizeof ops)
            return TSR_PARSER_FAIL(p, p->token.span, TSR_DIAG_TEXT_LIMIT,
                                   "a comparison has more than %zu operators", sizeof ops);
        ops[count++] = (char)op;
        tsr_parser_push(p, parse_binary(p, 1));
    } while (accept_comparison(p, &op));
    tsr_ast *node = tsr_parser_node(p, TSR_AST_COMPARE, begin);
    node->field[TSR_AST_COMPARE_LEFT].node = left;
    node->field[TSR_AST_COMPARE_OPS].text = tsr_parser_text(p, ops, count);
    node->field[TSR_AST_COMPARE_COMPARATORS].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_inversion(tsr_parser *p) {
    if (!tsr_parser_is(p, TSR_TOKEN_NOT)) return parse_comparison(p);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_UNARY_OP, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_UNARY_OP_OP].op = TSR_OPERATOR_NOT;
    if (tsr_parser_enter(p)) node->field[TSR_AST_UNARY_OP_OPERAND].node = parse_inversion(p);
    tsr_parser_leave(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_logic(tsr_parser *p, tsr_token_kind token, tsr_operator op,
                            tsr_ast *(*parse)(tsr_parser *p)) {
    uint32_t begin = p->token.span.begin;
    tsr_ast *first = parse(p);
    if (!tsr_parser_is(p, token)) return first;
    size_t mark = p->stack_count;
    tsr_parser_push(p, first);
    while (tsr_parser_accept(p, token)) tsr_parser_push(p, parse(p));
    tsr_ast *node = tsr_parser_node(p, TSR_AST_BOOL_OP, begin);
    node->field[TSR_AST_BOOL_OP_OP].op = op;
    node->field[TSR_AST_BOOL_OP_VALUES].list = tsr_parser_pop(p, mark);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_conjunction(tsr_parser *p) {
    return parse_logic(p, TSR_TOKEN_AND, TSR_OPERATOR_AND, parse_inversion);
}

static tsr_ast *parse_disjunction(tsr_parser *p) {
    return parse_logic(p, TSR_TOKEN_OR, TSR_OPERATOR_OR, parse_conjunction);
}

/* ---- whole expressions ---- */

static tsr_ast *parse_lambda(tsr_parser *p) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_LAMBDA, p->token.span.begin);
    tsr_parser_advance(p);
    node->field[TSR_AST_LAMBDA_ARGS].node = tsr_parse_parameters(p, TSR_TOKEN_COLON, false);
    tsr_parser_expect(p, TSR_TOKEN_COLON, "the parameters");
    node->field[TSR_AST_LAMBDA_BODY].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, node);
}

static tsr_ast *parse_conditional(tsr_parser *p) {
    uint32_t begin = p->token.span.begin;
    if (tsr_parser_is(p, TSR_TOKEN_LAMBDA)) return parse_lambda(p);
    tsr_ast *body = parse_disjunction(p);
    if (!tsr_parser_accept(p, TSR_TOKEN_IF)) return body;
    tsr_ast *node = tsr_parser_node(p, TSR_AST_IF_EXP, begin);
    node->field[TSR_AST_IF_EXP_BODY].node = body;
    node->field[TSR_AST_IF_EXP_TEST].node = parse_disjunction(p);
    tsr_parser_expect(p, TSR_TOKEN_ELSE, "the condition of a value");
    node->field[TSR_AST_IF_EXP_ORELSE].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, node);
}

tsr_ast *tsr_parse_expression(tsr_parser *p) {
    tsr_ast *node = tsr_parser_enter(p) ? parse_conditional(p) : p->error;
    tsr_parser_leave(p);
    return node;
}

tsr_ast *tsr_parse_named(tsr_parser *p) {
    if (!tsr_parser_is(p, TSR_TOKEN_NAME) || tsr_parser_peek(p).kind != TSR_TOKEN_WALRUS)
        return tsr_parse_expression(p);
    tsr_ast *node = tsr_parser_node(p, TSR_AST_NAMED_EXPR, p->token.span.begin);
    tsr_ast *target = parse_name(p);
    target->context = TSR_AST_STORE;
    tsr_parser_advance(p);
    node->field[TSR_AST_NAMED_EXPR_TARGET].node = target;
    node->field[TSR_AST_NAMED_EXPR_VALUE].node = tsr_parse_expression(p);
    return tsr_parser_finish(p, node);
}
