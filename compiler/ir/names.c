/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing; at most half of the rows are taken.
 */
#include "compiler/ir/names.h"

#include "compiler/process/guard.h"

#include <stdlib.h>
#include <string.h>

struct tsr_name_row {
    const char *name; /* NULL: free */
    uint32_t number;
};

static tsr_name_row *find_row(const tsr_names *names, const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    size_t at = (size_t)(hash ^ hash >> 32) & (names->capacity - 1);
    while (names->rows[at].name && strcmp(names->rows[at].name, name) != 0)
        at = (at + 1) & (names->capacity - 1);
    return &names->rows[at];
}

static void grow(tsr_names *names) {
    tsr_names larger = {.capacity = names->capacity ? 2 * names->capacity : 64,
                        .count = names->count};
    larger.rows = calloc(larger.capacity, sizeof *larger.rows);
    TSR_NEED(larger.rows);
    for (size_t i = 0; i < names->capacity; i++)
        if (names->rows[i].name) *find_row(&larger, names->rows[i].name) = names->rows[i];
    free(names->rows);
    *names = larger;
}

uint32_t tsr_names_add(tsr_names *names, const char *name, uint32_t number) {
    if (2 * (names->count + 1) > names->capacity) grow(names);
    tsr_name_row *row = find_row(names, name);
    if (row->name) return row->number;
    *row = (tsr_name_row){name, number};
    names->count++;
    return number;
}

uint32_t tsr_names_find(const tsr_names *names, const char *name) {
    if (!names->count) return TSR_NAME_ABSENT;
    const tsr_name_row *row = find_row(names, name);
    return row->name ? row->number : TSR_NAME_ABSENT;
}

void tsr_names_finish(tsr_names *names) {
    free(names->rows);
    *names = (tsr_names){0};
}

bool tsr_assigned_has(tsr_assigned *assigned, MlirOperation entry, const char *name) {
    if (!mlirOperationEqual(assigned->entry, entry)) {
        tsr_assigned_finish(assigned);
        assigned->entry = entry;
        TSR_FOR_EACH_OP(op, tsr_op_body(entry)) {
            const char *target =
                tsr_op_is(op, TSR_GRAPH_ASSIGN) ? tsr_op_string(op, "target") : NULL;
            if (target) tsr_names_add(&assigned->names, target, 0);
        }
    }
    return tsr_names_find(&assigned->names, name) != TSR_NAME_ABSENT;
}

void tsr_assigned_finish(tsr_assigned *assigned) {
    tsr_names_finish(&assigned->names);
    *assigned = (tsr_assigned){0};
}
