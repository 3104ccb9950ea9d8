/* SPDX-License-Identifier: Apache-2.0
 *
 * Reproducible builds.
 */
#ifndef TSR_TOOLS_AOT_REBUILD_H
#define TSR_TOOLS_AOT_REBUILD_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

/* Returns the time for the provenance: SOURCE_DATE_EPOCH as "2026-11-21T00:00:00Z" (in the arena),
 * or NULL if it is not set. Fails with TSR_USAGE if it is not a number of seconds. */
TSR_RESULT tsr_aot_source_date(tsr_ctx *ctx, tsr_arena *arena, const char **out_text);

/* Builds again in another process and compares the result with `output`, byte by byte. argc and
 * argv are the arguments of `build`. The second build runs with a changed environment (locale, time
 * zone, home, user; only PATH and SOURCE_DATE_EPOCH are kept), umask, address randomisation, stack
 * size and priority, and on one thread. Prints the common digest. Fails with TSR_DIFFERENT if a
 * byte differs; the second bundle is then kept as OUTPUT.rebuild. */
TSR_RESULT tsr_aot_verify_rebuild(tsr_ctx *ctx, int argc, char **argv, const char *output);

#endif
