/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the tokens of CPython 3.11, one at a time. A lexer is a value: its copy continues from
 * the same place.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_LEXER_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_LEXER_H

#include "compiler/frontend/language/syntax/limits.h"
#include "compiler/frontend/language/syntax/report.h"

typedef enum tsr_token_kind {
    TSR_TOKEN_END,
    TSR_TOKEN_ERROR, /* reported; no construct begins with it or continues after it */
    TSR_TOKEN_NEWLINE,
    TSR_TOKEN_INDENT,
    TSR_TOKEN_DEDENT,
    TSR_TOKEN_NAME,
    TSR_TOKEN_INTEGER,
    TSR_TOKEN_FLOAT,
    TSR_TOKEN_IMAGINARY,
    TSR_TOKEN_STRING, /* with prefix and quotes */
#define KEYWORD(name, text) TSR_TOKEN_##name,
#define SIGN(name, text) TSR_TOKEN_##name,
#include "compiler/frontend/language/syntax/tokens.def"
#undef KEYWORD
#undef SIGN
} tsr_token_kind;

typedef struct tsr_token {
    tsr_token_kind kind;
    tsr_span span;
} tsr_token;

typedef struct tsr_lexer {
    tsr_report *report;       /* borrowed */
    const tsr_source *source; /* borrowed */
    uint32_t at, end;
    bool line_begins; /* the next token is the first of a logical line */
    bool inside;      /* an expression inside a text: line ends are blanks */
    unsigned bracket_count;
    uint32_t brackets[TSR_LANGUAGE_BRACKETS_MAX]; /* where they were opened */
    unsigned block_count;
    uint32_t blocks[TSR_LANGUAGE_BLOCKS_MAX];     /* columns, with tabs to multiples of 8 */
    uint32_t alternates[TSR_LANGUAGE_BLOCKS_MAX]; /* columns, with tabs as 1 */
    unsigned dedents;                             /* to return */
} tsr_lexer;

tsr_lexer tsr_lexer_begin(tsr_report *report, const tsr_source *source);
/* The tokens of an expression inside a text. */
tsr_lexer tsr_lexer_begin_inside(tsr_report *report, const tsr_source *source, tsr_span span);
tsr_token tsr_lexer_next(tsr_lexer *lexer);
/* Skips from `token`, where an error is, to the end of the logical line, and beyond the block that
 * follows it. Brackets that are still open are forgotten where a line begins with a keyword of a
 * statement, at most as far to the right as `column` (from 0). Returns the token after it. */
tsr_token tsr_lexer_recover(tsr_lexer *lexer, tsr_token token, uint32_t column);
/* Whether the token begins a line as a statement does, inside of a bracket that was probably
 * forgotten. */
bool tsr_lexer_is_forgotten(const tsr_lexer *lexer, tsr_token token, tsr_span *out_bracket);
/* How messages name a kind of token: a description, or its text in quotes. */
const char *tsr_token_name(tsr_token_kind kind);

#endif
