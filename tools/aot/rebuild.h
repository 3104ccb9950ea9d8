/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds that can be repeated.
 */
#ifndef TSR_TOOLS_AOT_REBUILD_H
#define TSR_TOOLS_AOT_REBUILD_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

/* The time that goes into the provenance: SOURCE_DATE_EPOCH as "2026-11-21T00:00:00Z" (in the
 * arena), or NULL where it is not set. TSR_USAGE when it is no number of seconds. */
TSR_RESULT tsr_aot_source_date(tsr_ctx *ctx, tsr_arena *arena, const char **out_text);

/* Builds once more, in another process, and compares with `output`, byte by byte. argc and argv are
 * those of `build`. What is changed for it: the environment (locale, time zone, home, user; only
 * PATH and SOURCE_DATE_EPOCH stay), umask, address randomisation, stack size, priority, one
 * thread. Prints the digest that both have. TSR_DIFFERENT when a byte differs; the second bundle is
 * then left as OUTPUT.rebuild. */
TSR_RESULT tsr_aot_verify_rebuild(tsr_ctx *ctx, int argc, char **argv, const char *output);

#endif
