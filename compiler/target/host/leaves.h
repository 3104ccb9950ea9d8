/* SPDX-License-Identifier: Apache-2.0
 *
 * Which commands of an entry run once for each leaf of the virtual ranks, and when. Leaf launches
 * are put into as few loops as their values allow: a loop ends where something waits for what all
 * leaves make.
 */
#ifndef TSR_COMPILER_TARGET_HOST_LEAVES_H
#define TSR_COMPILER_TARGET_HOST_LEAVES_H

#include "compiler/mlir.h"

/* The loop, from 0, on calls and collectives that run for each leaf. */
#define TSR_LEAF_LOOP "tessera_target.loop"

/* Puts the ops of an entry into the order to run, loops together, and marks them. Nothing where the
 * entry has no leaves. Barriers go: the order is final. TSR_COMPILE where an output, a tensor's
 * next value or what is no kernel's would differ between leaves. */
TSR_RESULT tsr_host_order_leaves(tsr_ctx *ctx, MlirOperation func, tsr_arena *arena);

#endif
