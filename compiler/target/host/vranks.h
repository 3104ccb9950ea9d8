/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines which commands of an entry run once for each virtual rank, and when. Virtual rank
 * launches are put into as few loops as their values allow: a loop ends where an op waits for the
 * results of all virtual ranks.
 */
#ifndef TSR_COMPILER_TARGET_HOST_VRANKS_H
#define TSR_COMPILER_TARGET_HOST_VRANKS_H

#include "compiler/ir/mlir.h"

/* The loop, from 0, on calls and collectives that run for each virtual rank. */
#define TSR_VRANK_LOOP "tessera_target.loop"

/* Sorts the ops of an entry into execution order, with the ops of a loop consecutive, and marks
 * them. Does nothing if the entry has no virtual ranks. Barriers are removed: the order is final.
 * TSR_COMPILE if an output, a tensor's next value or an operand of an op that is not a kernel would
 * differ between virtual ranks. */
TSR_RESULT tsr_host_order_vranks(tsr_ctx *ctx, MlirOperation func, tsr_arena *arena);

#endif
