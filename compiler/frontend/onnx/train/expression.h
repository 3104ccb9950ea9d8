/* SPDX-License-Identifier: Apache-2.0
 *
 * The expressions of --train and --optimizer, as trees.
 *
 *     expression = term { ("+" | "-") term }
 *     term       = factor { ("*" | "/") factor }
 *     factor     = "-" factor | "(" expression ")" | number | name | text | call | list
 *     call       = name "(" [ argument { "," argument } ] ")"
 *     argument   = expression | name "=" expression
 *     list       = "[" [ expression { "," expression } ] "]"
 *
 * A name has letters, digits, "_" and "."; a text in double quotes is a name with other characters,
 * or the value of an attribute. Operators are calls of add, sub, mul, div and neg.
 */
#ifndef TSR_COMPILER_ONNX_EXPRESSION_H
#define TSR_COMPILER_ONNX_EXPRESSION_H

#include "compiler/diag/diag.h"

#include <mlir-c/IR.h>

enum {
    TSR_EXPRESSION_DEPTH_MAX = 64,
    TSR_EXPRESSION_TREE_MAX = 128, /* depth of a tree: calls within calls */
    TSR_EXPRESSION_BYTES_MAX = 1 << 16,
};

typedef enum tsr_expression_kind {
    TSR_EXPRESSION_NUMBER,
    TSR_EXPRESSION_NAME, /* or a text */
    TSR_EXPRESSION_CALL,
    TSR_EXPRESSION_LIST,
} tsr_expression_kind;

/* All in the arena of the parser. */
typedef struct tsr_expression {
    tsr_expression_kind kind;
    size_t at;        /* byte of the source: for a call by an operator, of the operator */
    const char *name; /* of a name or a call */
    const char *key;  /* of an argument NAME=VALUE; else NULL */
    size_t key_at;
    double number;
    bool is_integer; /* the number has neither point nor exponent, and fits `integer` */
    bool is_text;    /* a name in quotes */
    int64_t integer;
    size_t depth;                 /* of the tree; a name or a number has 0 */
    size_t count;                 /* arguments of a call, items of a list */
    struct tsr_expression *first; /* the others: `next` */
    struct tsr_expression *next;
} tsr_expression;

/* A text of the command line, to which diagnostics point under the name of its flag. */
typedef struct tsr_expression_source {
    MlirContext context;
    const char *flag; /* "--train" */
    const char *text;
} tsr_expression_source;

/* Emits an error with a caret under byte `at`. Returns false. */
bool tsr_expression_fail(const tsr_expression_source *source, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
MlirLocation tsr_expression_location(const tsr_expression_source *source, size_t at);
/* NULL after a diagnostic. */
tsr_expression *tsr_expression_parse(const tsr_expression_source *source, tsr_arena *arena);

#endif
