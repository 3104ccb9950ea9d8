/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the evaluator share.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_EVALUATE_RUN_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_EVALUATE_RUN_H

#include "compiler/frontend/language/evaluate/evaluate.h"
#include "compiler/frontend/language/syntax/limits.h"

/* The scope to which statements assign. */
tsr_scope *tsr_evaluate_scope(tsr_evaluator *e);
bool tsr_evaluate_bind(tsr_evaluator *e, tsr_scope *scope, const char *name, tsr_value value,
                       tsr_span span);
tsr_value tsr_evaluate_name(tsr_evaluator *e, const char *name, tsr_span span);
/* Assigns to a name, to names in brackets, or to an item. */
void tsr_evaluate_assign(tsr_evaluator *e, const tsr_ast *target, tsr_value value);
void tsr_evaluate_set_key(tsr_evaluator *e, tsr_dict *dict, tsr_value key, tsr_value value,
                          tsr_span span);
tsr_value tsr_evaluate_call_node(tsr_evaluator *e, const tsr_ast *node);

/* import NAME, from NAME import …. */
void tsr_evaluate_import(tsr_evaluator *e, const tsr_ast *statement);
/* The value of a name in a scope; NULL: it is not bound there. */
const tsr_value *tsr_scope_find(const tsr_scope *scope, const char *name);

typedef enum tsr_outcome { TSR_OUTCOME_NEXT, TSR_OUTCOME_RETURNED } tsr_outcome;
tsr_outcome tsr_evaluate_block(tsr_evaluator *e, const tsr_ast_list *statements);

#endif
