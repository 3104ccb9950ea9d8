/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of a bundle by name. An entry that was built for several sizes of its dims has a copy for
 * each, "predict[N=8]"; its copies count as one entry, "predict".
 */
#ifndef TSR_TOOLS_RUN_ENTRIES_H
#define TSR_TOOLS_RUN_ENTRIES_H

#include "runtime/base/buffer.h"
#include "tessera/config.h"

/* Fails with TSR_USAGE if the bundle has no entry of this name; the error lists its entries. */
TSR_RESULT tsr_run_find_entry(tsr_ctx *ctx, const tsr_config *config, const char *name,
                              const tsr_config_entry **out_entry);
/* Fails with TSR_USAGE if the bundle has no training entry; the error lists its entries. */
TSR_RESULT tsr_run_need_training(tsr_ctx *ctx, const tsr_config *config);
/* The name of the entry that trains: `given`, or NULL: the first one of the config. "": none. */
const char *tsr_run_name_training(const tsr_config *config, const char *given);
/* The name of the entry that runs without --entry, if the bundle has only one and it does not
 * train; else NULL. `name`: an empty buffer, which holds the name if it is made here; it has failed
 * if memory ran out. */
const char *tsr_run_only_entry(const tsr_config *config, tsr_buffer *name);

#endif
