/* SPDX-License-Identifier: Apache-2.0
 *
 * The op of an MLIR operation, as a number: one for every op of our dialects, and for every op of
 * MLIR's dialects that C code names. The names come from one table per dialect; whoever adds an op
 * adds a row there. Code that depends on the op switches on the number, or has an array that is
 * indexed by it.
 */
#ifndef TSR_COMPILER_IR_OP_H
#define TSR_COMPILER_IR_OP_H

#include <mlir-c/IR.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tsr_op {
    TSR_OP_NONE, /* no op; an op that is not registered; an op of MLIR that no table has */
#define X(ID, ...) TSR_GRAPH_##ID,
#include "compiler/graph/ops.def"
#undef X
#define X(ID, ...) TSR_SR_##ID,
#include "compiler/resilience/ops.def"
#undef X
#define X(ID, ...) TSR_SCHED_##ID,
#include "compiler/schedule/dialect.def"
#undef X
#define X(ID, ...) TSR_TILE_##ID,
#include "compiler/tile/ops.def"
#undef X
#define X(ID, ...) TSR_TARGET_##ID,
#include "compiler/target/host/ops.def"
#undef X
#define X(DIALECT, ID, name) TSR_##DIALECT##_##ID,
#include "compiler/ir/upstream.def"
#undef X
    TSR_OP_COUNT
} tsr_op;

/* The table that has the op. Dotted ops are of dialect tessera, but in the table of tessera_sr. */
typedef enum tsr_dialect {
    TSR_DIALECT_NONE, /* of TSR_OP_NONE */
    TSR_DIALECT_GRAPH,
    TSR_DIALECT_SR,
    TSR_DIALECT_SCHED,
    TSR_DIALECT_TILE,
    TSR_DIALECT_TARGET,
    TSR_DIALECT_ARITH,
    TSR_DIALECT_ASYNC,
    TSR_DIALECT_BUILTIN,
    TSR_DIALECT_FUNC,
    TSR_DIALECT_MATH,
    TSR_DIALECT_SCF,
    TSR_DIALECT_VECTOR,
} tsr_dialect;

/* Learns the numbers from the first context in which all dialects are loaded;
 * tsr_mlir_context_create calls it for every context. They hold for ops of all contexts and may be
 * asked for by several threads. */
void tsr_ops_learn(MlirContext context);

/* In constant time, without comparing names. Accepts null. */
tsr_op tsr_op_of(MlirOperation op);
bool tsr_op_is(MlirOperation op, tsr_op id);
tsr_dialect tsr_op_dialect(tsr_op id);
bool tsr_op_is_of(MlirOperation op, tsr_dialect dialect);
/* True for an op of schedule/plan.td: it describes the schedule, and computes nothing. */
bool tsr_op_is_plan(MlirOperation op);
/* "tessera.matmul". Asserts that `id` is an op. */
const char *tsr_op_text(tsr_op id);

#ifdef __cplusplus
}
#endif
#endif
