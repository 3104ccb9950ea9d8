/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a source as a syntax tree.
 *
 *     tsr_ast *module = tsr_parse(&report, &source);
 *     tsr_refuse(&report, &source, module);
 *
 * The grammar is CPython 3.11's, except for `match`, and with four spellings that Python lacks,
 * which get a warning: W{"d_model"} for W["d_model"], `on mesh(…):` for `with mesh(…):`, a line
 * that begins with ".name", and the parameters (...).
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_PARSER_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_PARSER_H

#include "compiler/frontend/language/syntax/ast.h"
#include "compiler/frontend/language/syntax/report.h"

/* Returns the module; a statement with an error is an ERROR node, after which reading continues.
 * NULL if memory ran out. */
tsr_ast *tsr_parse(tsr_report *report, const tsr_source *source);
/* Reports the first construct in each statement that Python has and the language does not, in the
 * order of ast.walk. Returns true if it finds nothing to refuse. */
bool tsr_refuse(tsr_report *report, const tsr_source *source, const tsr_ast *module);

#endif
