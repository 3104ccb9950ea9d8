/* SPDX-License-Identifier: Apache-2.0
 *
 * What measurements depend on besides the kernel: the machine, and the versions of the programs.
 */
#ifndef TSR_TOOLS_AOT_TUNE_HOST_H
#define TSR_TOOLS_AOT_TUNE_HOST_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

typedef struct tsr_tune_host {
    const char *machine;  /* "AMD EPYC 9454 48-Core Processor, 2 threads"; in the arena */
    const char *compiler; /* "0.1.0" */
    const char *runtime;  /* first 16 digits of the SHA-256 of this program; in the arena */
} tsr_tune_host;

/* threads 0: every CPU that this process may use. */
TSR_RESULT tsr_tune_host_read(tsr_ctx *ctx, unsigned threads, tsr_arena *arena,
                              tsr_tune_host *out_host);

#endif
