/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of this folder, and their order.
 */
#ifndef TSR_COMPILER_RESILIENCE_PASSES_H
#define TSR_COMPILER_RESILIENCE_PASSES_H

#include "compiler/passes.h"

/* For programs that autodiff has run on. */
#define TSR_SR_PIPELINE                                                                            \
    TSR_CANONICALIZE ",cse,tessera-optimizer-shard,tessera-insert-recompute,"                      \
                     "tessera-resilience-restart,tessera-export-deployment-manifest"

#endif
