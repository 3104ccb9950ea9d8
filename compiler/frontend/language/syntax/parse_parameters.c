/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a function.
 */
#include "compiler/frontend/language/syntax/parse.h"

static tsr_ast *parse_parameter(tsr_parser *p, bool annotated, bool starred) {
    tsr_ast *arg = tsr_parser_node(p, TSR_AST_ARG, p->token.span.begin);
    arg->field[TSR_AST_ARG_NAME].text = tsr_parser_name(p, "the name of a parameter");
    if (annotated && tsr_parser_accept(p, TSR_TOKEN_COLON)) {
        if (starred && tsr_parser_is(p, TSR_TOKEN_STAR)) {
            tsr_ast *star = tsr_parser_node(p, TSR_AST_STARRED, p->token.span.begin);
            tsr_parser_advance(p);
            star->field[TSR_AST_STARRED_VALUE].node = tsr_parse_expression(p);
            arg->field[TSR_AST_ARG_ANNOTATION].node = tsr_parser_finish(p, star);
        } else {
            arg->field[TSR_AST_ARG_ANNOTATION].node = tsr_parse_expression(p);
        }
    }
    return tsr_parser_finish(p, arg);
}

/* "/": the parameters before it have no names in calls. */
static void parse_slash(tsr_parser *p, tsr_ast_list *args, tsr_ast_list *posonly, bool allowed) {
    if (!allowed || posonly->count || !args->count) {
        tsr_parser_unexpected(p, "the name of a parameter");
        return;
    }
    tsr_parser_advance(p);
    *posonly = *args;
    *args = (tsr_ast_list){0};
}

/* A list that grows in place; parameters are few. */
static void append(tsr_parser *p, tsr_ast_list *list, tsr_ast *item) {
    size_t mark = p->stack_count;
    for (size_t i = 0; i < list->count; i++) tsr_parser_push(p, list->items[i]);
    tsr_parser_push(p, item);
    *list = tsr_parser_pop(p, mark);
}

static void parse_named_parameter(tsr_parser *p, tsr_ast *node, bool annotated, bool star) {
    tsr_span span = p->token.span;
    tsr_ast *arg = parse_parameter(p, annotated, false);
    tsr_ast *value = tsr_parser_accept(p, TSR_TOKEN_ASSIGN) ? tsr_parse_expression(p) : NULL;
    tsr_ast_list *args = &node->field[TSR_AST_ARGUMENTS_ARGS].list;
    tsr_ast_list *defaults = &node->field[TSR_AST_ARGUMENTS_DEFAULTS].list;
    tsr_ast_list *keywords = &node->field[TSR_AST_ARGUMENTS_KWONLY].list;
    if (args->count + keywords->count >= TSR_LANGUAGE_PARAMETERS_MAX)
        TSR_PARSER_FAIL(p, span, TSR_DIAG_TEXT_LIMIT, "a function has more than %d parameters",
                        TSR_LANGUAGE_PARAMETERS_MAX);
    if (star) {
        append(p, keywords, arg);
        append(p, &node->field[TSR_AST_ARGUMENTS_KW_DEFAULTS].list, value);
        return;
    }
    if (!value && defaults->count)
        TSR_PARSER_FAIL(p, span, TSR_DIAG_TEXT_SYNTAX,
                        "a parameter without default follows parameters with defaults");
    append(p, args, arg);
    if (value) append(p, defaults, value);
}

/* (...): the specification's spelling of parameters that an example leaves out. */
static tsr_ast *parse_dots(tsr_parser *p, tsr_ast *node) {
    tsr_report_warning(p->report, p->source, p->token.span, TSR_DIAG_TEXT_SPELLING,
                       "Python has no parameters '...'; the function has no parameters");
    tsr_parser_advance(p);
    return tsr_parser_finish(p, node);
}

tsr_ast *tsr_parse_parameters(tsr_parser *p, tsr_token_kind close, bool annotated) {
    tsr_ast *node = tsr_parser_node(p, TSR_AST_ARGUMENTS, p->token.span.begin);
    tsr_ast_field *f = node->field;
    bool star = false, needs_name = false;
    if (annotated && tsr_parser_is(p, TSR_TOKEN_DOTS)) return parse_dots(p, node);
    while (!tsr_parser_is(p, close) && !p->failed) {
        if (tsr_parser_is(p, TSR_TOKEN_SLASH)) {
            parse_slash(p, &f[TSR_AST_ARGUMENTS_ARGS].list, &f[TSR_AST_ARGUMENTS_POSONLY].list,
                        !star);
        } else if (tsr_parser_is(p, TSR_TOKEN_STAR) && !star) {
            tsr_parser_advance(p);
            star = true;
            needs_name = tsr_parser_is(p, TSR_TOKEN_COMMA);
            if (!needs_name) f[TSR_AST_ARGUMENTS_VARARG].node = parse_parameter(p, annotated, true);
        } else if (tsr_parser_is(p, TSR_TOKEN_POWER) && !needs_name) {
            tsr_parser_advance(p);
            f[TSR_AST_ARGUMENTS_KWARG].node = parse_parameter(p, annotated, false);
            tsr_parser_accept(p, TSR_TOKEN_COMMA);
            break;
        } else {
            parse_named_parameter(p, node, annotated, star);
            needs_name = false;
        }
        if (!tsr_parser_accept(p, TSR_TOKEN_COMMA)) break;
    }
    if (needs_name) tsr_parser_unexpected(p, "the name of a parameter after '*'");
    return tsr_parser_finish(p, node);
}
