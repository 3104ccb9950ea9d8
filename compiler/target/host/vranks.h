/* SPDX-License-Identifier: Apache-2.0
 *
 * Which commands of an entry run once for each virtual rank, and when. Virtual rank launches
 * are put into as few loops as their values allow: a loop ends where something waits for what all
 * virtual ranks make.
 */
#ifndef TSR_COMPILER_TARGET_HOST_VRANKS_H
#define TSR_COMPILER_TARGET_HOST_VRANKS_H

#include "compiler/mlir.h"

/* The loop, from 0, on calls and collectives that run for each virtual rank. */
#define TSR_VRANK_LOOP "tessera_target.loop"

/* Puts the ops of an entry into the order to run, loops together, and marks them. Nothing where the
 * entry has no virtual ranks. Barriers go: the order is final. TSR_COMPILE where an output, a
 * tensor's next value or what is no kernel's would differ between virtual ranks. */
TSR_RESULT tsr_host_order_vranks(tsr_ctx *ctx, MlirOperation func, tsr_arena *arena);

#endif
