/* SPDX-License-Identifier: Apache-2.0
 *
 * The locations in a program that compute the tracked tensors of a log, for the message of a run
 * that has diverged.
 */
#ifndef TSR_RUNTIME_LOCATION_H
#define TSR_RUNTIME_LOCATION_H

#include "manifests/program.h"
#include "runtime/record/record.h"

/* Gives the replay the location of each tensor, "region 'train', at digits.mlir:12:8": the region
 * and the source location of the last command that writes it. The names have the form of record.h:
 * a tensor of the config, "output NAME", a result "sum 1 at LOCATION". A tensor that no command
 * writes
 * ("batch NAME", "input NAME", a parameter that is only read) has only the entry as its location.
 * Stored in the arena, which must outlive the replay. Does nothing without a replay. */
TSR_RESULT tsr_locations_set(tsr_ctx *ctx, tsr_replay *replay, const tsr_config *config,
                             const tsr_program *program, size_t entry, const tsr_tensor *tensors,
                             size_t tensor_count, tsr_arena *arena);

#endif
