/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that rules of dialect tile share. Functions that return bool return false after they
 * have emitted an error.
 */
#ifndef TSR_COMPILER_TILE_VERIFY_H
#define TSR_COMPILER_TILE_VERIFY_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/features.h"

/* The context of an op. */
typedef struct tsr_where {
    MlirOperation func;     /* null: the op is not in a tile.func */
    int64_t warps;          /* 0: programs of one warp */
    bool in_map;            /* the op is in the body of tile.map */
    const char *target;     /* the module's target; NULL: not stated */
    const tsr_feature *has; /* features of the target; NULL: unknown */
} tsr_where;

typedef struct tsr_matrix {
    int64_t stages, rows, columns; /* stages 0: a fragment */
    MlirType element;
    int64_t size; /* bytes of an element */
    bool is_acc;
} tsr_matrix;

tsr_where tsr_check_context(MlirOperation op);
/* Checks the context of an op on values that the threads of a program share. */
bool tsr_check_together(MlirOperation op);
tsr_matrix tsr_check_matrix(MlirValue value);
int64_t tsr_check_size(MlirType element); /* bytes; 0: not a type that is multiplied */
bool tsr_check_is_xor(MlirValue ring);
bool tsr_check_count(MlirOperation op, const char *what, int64_t value, int64_t min, int64_t max);
bool tsr_check_multiple(MlirOperation op, const char *what, int64_t value, int64_t unit);
bool tsr_check_equal(MlirOperation op, const char *what, int64_t a, int64_t b);
/* Checks that the allocation of a ring is known. The allocation may be after `op`, and may not be
 * verified yet. */
bool tsr_check_ring(MlirOperation op, MlirValue ring);
/* The kernel's argument that a value is, or views; null for other values. */
MlirValue tsr_check_argument(MlirValue buffer);

#endif
