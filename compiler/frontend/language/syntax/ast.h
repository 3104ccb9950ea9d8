/* SPDX-License-Identifier: Apache-2.0
 *
 * The syntax tree: nodes and fields are those of CPython 3.11's module `ast`, so that both can be
 * compared. Nodes are in an arena.
 */
#ifndef TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_AST_H
#define TSR_COMPILER_FRONTEND_LANGUAGE_SYNTAX_AST_H

#include "compiler/frontend/language/syntax/source.h"
#include "runtime/base/buffer.h"

typedef enum tsr_ast_kind {
    TSR_AST_ERROR, /* where nothing could be read; reported */
#define X(kind, name, refusal, fields) TSR_AST_##kind,
#include "compiler/frontend/language/syntax/ast.def"
#undef X
    TSR_AST_KIND_COUNT,
} tsr_ast_kind;

/* The fields of each kind, as indexes: TSR_AST_CALL_FUNC … */
#define F(kind, field, name, type) TSR_AST_##kind##_##field,
#define X(kind, name, refusal, fields) enum { fields TSR_AST_##kind##_FIELD_COUNT };
#include "compiler/frontend/language/syntax/ast.def"
#undef X
#undef F
enum { TSR_AST_FIELDS_MAX = 7 };

typedef enum tsr_operator {
#define X(name, class, text, binding) TSR_OPERATOR_##name,
#include "compiler/frontend/language/syntax/operators.def"
#undef X
} tsr_operator;
const char *tsr_operator_text(tsr_operator op);
/* How strongly a binary operator binds; 0 for another one. */
int tsr_operator_binding(tsr_operator op);

typedef enum tsr_constant_kind {
    TSR_CONSTANT_NONE,
    TSR_CONSTANT_TRUE,
    TSR_CONSTANT_FALSE,
    TSR_CONSTANT_ELLIPSIS,
    TSR_CONSTANT_INTEGER,
    TSR_CONSTANT_BIG, /* an integer that does not fit 64 bits with sign */
    TSR_CONSTANT_FLOAT,
    TSR_CONSTANT_IMAGINARY,
    TSR_CONSTANT_STRING, /* UTF-8; surrogates are coded like other code points */
    TSR_CONSTANT_BYTES,
} tsr_constant_kind;

typedef enum tsr_ast_context { TSR_AST_LOAD, TSR_AST_STORE, TSR_AST_DEL } tsr_ast_context;

typedef struct tsr_ast tsr_ast;
typedef struct tsr_ast_list {
    tsr_ast **items; /* NULL items: the key of ** in a dict, a parameter without default */
    size_t count;
} tsr_ast_list;
typedef struct tsr_ast_text {
    const char *bytes; /* NUL after size_bytes; NULL: no text */
    size_t size_bytes;
} tsr_ast_text;
typedef union tsr_ast_field {
    tsr_ast *node; /* NULL: none, where it is optional */
    tsr_ast_list list;
    tsr_ast_text text; /* also the operators of a comparison, one a byte */
    int64_t integer;
    double real;
    tsr_operator op;
} tsr_ast_field;

struct tsr_ast {
    uint8_t kind;     /* tsr_ast_kind */
    uint8_t constant; /* tsr_constant_kind of CONSTANT */
    uint8_t context;  /* tsr_ast_context */
    uint8_t prefix_u; /* whether a text is written u"…" */
    uint8_t grouped;  /* whether brackets stand around the expression */
    uint16_t height;  /* of the tree below, from 1 */
    tsr_span span;
    tsr_ast_field field[];
};

/* The name of the kind in CPython's module `ast`. */
const char *tsr_ast_name(tsr_ast_kind kind);
/* Why the language lacks the kind; NULL if it has it. */
const char *tsr_ast_refusal(tsr_ast_kind kind);
size_t tsr_ast_field_count(tsr_ast_kind kind);
bool tsr_ast_is_statement(const tsr_ast *node);

/* Visits what hangs directly below a node, in the order of CPython's ast.iter_child_nodes. */
typedef void tsr_ast_visitor(void *user, tsr_ast *child);
void tsr_ast_visit(const tsr_ast *node, tsr_ast_visitor *visitor, void *user);

/* Appends CPython's ast.dump of the node; a text as ascii() shows it, an integer that does not fit
 * as BIG. */
void tsr_ast_dump(const tsr_ast *node, tsr_buffer *out);
/* Appends a number as CPython's repr shows it. */
void tsr_print_float(double value, tsr_buffer *out);
/* Appends a text as CPython's ascii() shows it. */
void tsr_print_ascii(const char *bytes, size_t size_bytes, tsr_buffer *out);

#endif
