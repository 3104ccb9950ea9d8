/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of other origins: a module, an op in it, one of its operands, and another value of the
 * operand's type that replaces it. That value exists already or is made for the purpose.
 */
#ifndef TSR_TESTS_COMPILER_FUZZ_ORIGIN_H
#define TSR_TESTS_COMPILER_FUZZ_ORIGIN_H

#include "compiler/ir/mlir.h"

enum { ORIGIN_TEXT_MAX = 256 };

/* The values that an op may use: arguments of the enclosing blocks, and results of the ops before
 * it in these blocks. */
typedef struct origin_values {
    MlirValue *items; /* owned */
    size_t count, capacity;
} origin_values;

void origin_values_find(origin_values *values, MlirOperation op);
void origin_values_finish(origin_values *values);
/* "argument of scf.for", "result of tile.load". Returns `out_text`. */
const char *origin_name(MlirValue value, char out_text[static ORIGIN_TEXT_MAX]);
/* "vector of f32", "fragment": two operands of one kind may have the same origins. */
const char *origin_kind(MlirType type, char out_text[static ORIGIN_TEXT_MAX]);

/* The ways to make a value of a type from another value of that type. */
size_t origin_maker_count(void);
const char *origin_maker_name(size_t maker);
/* Can this maker make values of the type? */
bool origin_may_make(size_t maker, MlirType type);
/* Replaces the operand by a value that `maker` makes. False if it cannot make values of the type.
 * Nothing is verified. */
bool origin_make(size_t maker, MlirOperation op, size_t operand);

#endif
