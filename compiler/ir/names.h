/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from names to numbers, for passes that look up tensors by name: a walk over all ops for
 * each lookup would make the compiler quadratic in the number of tensors.
 */
#ifndef TSR_COMPILER_IR_NAMES_H
#define TSR_COMPILER_IR_NAMES_H

#include "compiler/ir/mlir.h"

#include <stdint.h>

enum { TSR_NAME_ABSENT = UINT32_MAX };

typedef struct tsr_name_row tsr_name_row;
typedef struct tsr_names { /* zero-initialised: empty */
    tsr_name_row *rows;    /* owned */
    size_t capacity, count;
} tsr_names;

/* Adds the name unless it is already there, which leaves its number unchanged; returns the stored
 * number. Names are borrowed. Ends the process's guarded work when out of memory (guard.h). */
uint32_t tsr_names_add(tsr_names *names, const char *name, uint32_t number);
uint32_t tsr_names_find(const tsr_names *names, const char *name); /* TSR_NAME_ABSENT: none */
void tsr_names_finish(tsr_names *names);

/* The set of tensors that an entry assigns: computed at the first query for an entry and reused
 * for later queries about the same entry. No assigns may be added or removed between these
 * queries. */
typedef struct tsr_assigned { /* zero-initialised: no entry yet */
    MlirOperation entry;
    tsr_names names;
} tsr_assigned;
bool tsr_assigned_has(tsr_assigned *assigned, MlirOperation entry, const char *name);
void tsr_assigned_finish(tsr_assigned *assigned);

#endif
