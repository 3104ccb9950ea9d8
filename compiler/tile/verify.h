/* SPDX-License-Identifier: Apache-2.0
 *
 * What rules of dialect tile share. Those that return bool: false after an error was emitted.
 */
#ifndef TSR_COMPILER_TILE_VERIFY_H
#define TSR_COMPILER_TILE_VERIFY_H

#include "compiler/target/host/rules.h"

/* Where an op stands. */
typedef struct tsr_where {
    MlirOperation func;     /* null: in none */
    int64_t warps;          /* 0: programs of one warp */
    bool in_map;            /* in the body of tile.map */
    const char *target;     /* that the module is for; NULL: not said */
    const tsr_feature *has; /* of the target; NULL: not known */
} tsr_where;

typedef struct tsr_matrix {
    int64_t stages, rows, columns; /* stages 0: a fragment */
    MlirType element;
    int64_t size; /* bytes of an element */
    bool is_acc;
} tsr_matrix;

tsr_where tsr_check_place(MlirOperation op);
/* Ops on what the threads of a program hold together. */
bool tsr_check_together(MlirOperation op);
tsr_matrix tsr_check_matrix(MlirValue value);
int64_t tsr_check_size(MlirType element); /* bytes; 0: of none that is multiplied */
bool tsr_check_is_xor(MlirValue ring);
bool tsr_check_count(MlirOperation op, const char *what, int64_t value, int64_t min, int64_t max);
bool tsr_check_multiple(MlirOperation op, const char *what, int64_t value, int64_t unit);
bool tsr_check_equal(MlirOperation op, const char *what, int64_t a, int64_t b);
/* A ring's place must be known. What makes it may stand behind `op`, not yet checked. */
bool tsr_check_ring(MlirOperation op, MlirValue ring);
/* The kernel's argument that a value is, or is a view of; null: of none. */
MlirValue tsr_check_argument(MlirValue buffer);

#endif
