/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives each of several ranks its GPU, and the processors and memory near it.
 */
#ifndef TSR_LOADER_ASSIGN_H
#define TSR_LOADER_ASSIGN_H

#include "bundle/bundle.h"
#include "runtime/base/arena.h"
#include "tessera/tessera.h"

#include <sched.h>

/* Collective. For several ranks with a GPU as the device, sets inout_options->device to the GPU of
 * this rank (text in the arena) and binds the process; otherwise does nothing. With "auto", the
 * device becomes the CPU if not all ranks can have a GPU. TSR_USAGE if there are fewer GPUs than
 * ranks (both numbers), or a GPU would be given to two ranks (both); TSR_TARGET, naming the GPU, if
 * the bundle has no code for one of them. */
TSR_RESULT tsr_assign_gpu(tsr_ctx *ctx, const tsr_bundle *bundle, tsr_arena *arena,
                          tsr_model_options *inout_options);
/* True if other ranks will map the memory of this rank's device. */
bool tsr_assign_shares(const tsr_model_options *options);

/* Processors near a PCI device, and its NUMA node (-1: unknown), as `root` says: "/sys". Returns
 * false if that is not known. */
bool tsr_assign_read_near(const char *root, const char *bus, cpu_set_t *out_processors,
                          int *out_node);
/* Parses "0-3,8"; returns false if it is not a list of processors. */
bool tsr_assign_parse_processors(const char *text, cpu_set_t *out_processors);
/* The part `index` of `count` equal parts of a set; the whole set if it has fewer members. */
cpu_set_t tsr_assign_take_part(const cpu_set_t *all, uint32_t index, uint32_t count);

/* ranks.c: the processors that all ranks together may use. */
cpu_set_t tsr_ranks_get_processors(void);

#endif
