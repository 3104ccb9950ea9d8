/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a parser, which its files share. After an error, `failed` is set and the current
 * token is ERROR, which no construct begins or continues with: functions return without checks.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_PARSE_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_PARSE_H

#include "compiler/frontend/language/syntax/ast.h"
#include "compiler/frontend/language/syntax/lexer.h"
#include "compiler/frontend/language/syntax/report.h"

typedef struct tsr_parser {
    tsr_report *report;
    const tsr_source *source;
    tsr_lexer lexer;
    tsr_token token;     /* current */
    tsr_token ahead;     /* the next one, if has_ahead */
    tsr_token failed_at; /* current when the statement failed */
    bool has_ahead, failed;
    uint32_t end;    /* of the last token that was consumed */
    unsigned depth;  /* of expressions and blocks */
    tsr_ast **stack; /* items of unfinished lists */
    size_t stack_count, stack_capacity;
    tsr_ast *error; /* stands for a node that could not be allocated */
} tsr_parser;

/* ---- tokens ---- */
void tsr_parser_advance(tsr_parser *p);
tsr_token tsr_parser_peek(tsr_parser *p);
static inline bool tsr_parser_is(const tsr_parser *p, tsr_token_kind kind) {
    return p->token.kind == kind;
}
bool tsr_parser_accept(tsr_parser *p, tsr_token_kind kind);
/* Reports "expected …" if the current token is another one; `after` says where. */
bool tsr_parser_expect(tsr_parser *p, tsr_token_kind kind, const char *after);
/* Whether the current token is this name, which is not a keyword. */
bool tsr_parser_is_name(const tsr_parser *p, const char *name);
/* Takes a name; an empty text after an error. */
tsr_ast_text tsr_parser_name(tsr_parser *p, const char *what);
/* Reports an error at the current token. */
void tsr_parser_unexpected(tsr_parser *p, const char *expected);
/* Ends the statement; the error is reported. Returns the error node. */
tsr_ast *tsr_parser_fail(tsr_parser *p);
#define TSR_PARSER_FAIL(p, span, number, ...)                                                      \
    ((p)->failed ? NULL                                                                            \
                 : tsr_report_error((p)->report, (p)->source, (span), (number), __VA_ARGS__),      \
     tsr_parser_fail(p))
/* Counts nested constructs; false, reported, if there are too many. */
bool tsr_parser_enter(tsr_parser *p);
void tsr_parser_leave(tsr_parser *p);

/* ---- nodes ---- */
tsr_ast *tsr_parser_node(tsr_parser *p, tsr_ast_kind kind, uint32_t begin);
/* Completes a node: its end is that of the last token. */
tsr_ast *tsr_parser_finish(tsr_parser *p, tsr_ast *node);
void tsr_parser_push(tsr_parser *p, tsr_ast *node);
tsr_ast_list tsr_parser_pop(tsr_parser *p, size_t mark);
tsr_ast_text tsr_parser_text(tsr_parser *p, const char *bytes, size_t size_bytes);

/* ---- expressions (parse_expression.c) ---- */
tsr_ast *tsr_parse_expression(tsr_parser *p);
tsr_ast *tsr_parse_named(tsr_parser *p);            /* also name := value */
tsr_ast *tsr_parse_star_expressions(tsr_parser *p); /* a, *b: a tuple without brackets */
tsr_ast *tsr_parse_assigned(tsr_parser *p);         /* also yield */
tsr_ast *tsr_parse_targets(tsr_parser *p);          /* of `for`; stored to */
tsr_ast *tsr_parse_target(tsr_parser *p);           /* of `with … as`; stored to */
void tsr_parse_arguments(tsr_parser *p, tsr_ast_list *out_args, tsr_ast_list *out_keywords);
/* Up to `close`, which is not consumed. */
tsr_ast *tsr_parse_parameters(tsr_parser *p, tsr_token_kind close, bool annotated);
/* What stands in round brackets that open at `begin`; `close` is consumed. */
tsr_ast *tsr_parse_group(tsr_parser *p, uint32_t begin, tsr_token_kind close);
bool tsr_begins_expression(tsr_token_kind kind);
/* Marks what an expression assigns to. False, reported, if it cannot be assigned to. */
bool tsr_parser_store(tsr_parser *p, tsr_ast *node, tsr_ast_context context);

/* ---- literals (parse_literal.c) ---- */
tsr_ast *tsr_parse_number(tsr_parser *p);
tsr_ast *tsr_parse_strings(tsr_parser *p);

#endif
