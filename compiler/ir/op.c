/* SPDX-License-Identifier: Apache-2.0
 *
 * MLIR gives each registered op the address of an object of its class, the same in every context.
 * A hash table finds the number for the address.
 */
#include "compiler/ir/op.h"

#include "compiler/ir/mlir.h"
#include "compiler/shim/shim.h"

#include <pthread.h>
#include <stdint.h>

static const struct {
    const char *name;
    tsr_dialect dialect;
} table[TSR_OP_COUNT] = {
#define X(ID, mnemonic, ...) [TSR_GRAPH_##ID] = {"tessera." mnemonic, TSR_DIALECT_GRAPH},
#include "compiler/graph/ops.def"
#undef X
#define X(ID, op_name, ...) [TSR_SR_##ID] = {op_name, TSR_DIALECT_SR},
#include "compiler/resilience/ops.def"
#undef X
#define X(ID, mnemonic, ...) [TSR_SCHED_##ID] = {"tsched." mnemonic, TSR_DIALECT_SCHED},
#include "compiler/schedule/dialect.def"
#undef X
#define X(ID, mnemonic, ...) [TSR_TILE_##ID] = {"tile." mnemonic, TSR_DIALECT_TILE},
#include "compiler/tile/ops.def"
#undef X
#define X(ID, mnemonic, ...) [TSR_TARGET_##ID] = {"tessera_target." mnemonic, TSR_DIALECT_TARGET},
#include "compiler/target/host/ops.def"
#undef X
#define X(DIALECT, ID, op_name) [TSR_##DIALECT##_##ID] = {op_name, TSR_DIALECT_##DIALECT},
#include "compiler/ir/upstream.def"
#undef X
};

enum { SLOT_BITS = 10, SLOTS = 1 << SLOT_BITS };
static_assert(TSR_OP_COUNT <= SLOTS / 2, "at most half of the slots are taken");
static struct {
    const void *type; /* NULL: free */
    tsr_op id;
} slots[SLOTS];

static size_t slot_of(const void *type) {
    uint64_t hash = (uint64_t)(uintptr_t)type * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> (64 - SLOT_BITS));
}

static void fill_slots(MlirContext context) {
    for (size_t i = TSR_OP_NONE + 1; i < TSR_OP_COUNT; i++) {
        const void *type = tsr_shim_op_type(context, tsr_ref(table[i].name));
        TSR_ASSERT(type); /* a table has an op that no dialect has */
        size_t at = slot_of(type);
        while (slots[at].type) at = (at + 1) % SLOTS;
        slots[at].type = type;
        slots[at].id = (tsr_op)i;
    }
}

void tsr_ops_learn(MlirContext context) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static bool known;
    pthread_mutex_lock(&mutex);
    if (!known) fill_slots(context);
    known = true;
    pthread_mutex_unlock(&mutex);
}

tsr_op tsr_op_of(MlirOperation op) {
    const void *type = mlirOperationIsNull(op) ? NULL : mlirOperationGetTypeID(op).ptr;
    if (!type) return TSR_OP_NONE;
    size_t at = slot_of(type);
    while (slots[at].type && slots[at].type != type) at = (at + 1) % SLOTS;
    return slots[at].id;
}

bool tsr_op_is(MlirOperation op, tsr_op id) {
    return !mlirOperationIsNull(op) && tsr_op_of(op) == id;
}

tsr_dialect tsr_op_dialect(tsr_op id) {
    TSR_ASSERT(id < TSR_OP_COUNT);
    return table[id].dialect;
}

bool tsr_op_is_of(MlirOperation op, tsr_dialect dialect) {
    return tsr_op_dialect(tsr_op_of(op)) == dialect;
}

const char *tsr_op_text(tsr_op id) {
    TSR_ASSERT(id > TSR_OP_NONE && id < TSR_OP_COUNT);
    return table[id].name;
}

bool tsr_op_is_plan(MlirOperation op) {
    enum { PLAN = true, GROUP = false };
    static const bool plans[TSR_OP_COUNT] = {
#define X(ID, mnemonic, Class, KIND, rule) [TSR_SCHED_##ID] = KIND,
#include "compiler/schedule/dialect.def"
#undef X
    };
    return plans[tsr_op_of(op)];
}
