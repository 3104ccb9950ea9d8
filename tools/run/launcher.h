/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that a launcher started as a rank of a job: torchrun, Slurm, mpirun. Launchers describe
 * the job in environment variables (launchers.def).
 */
#ifndef TSR_TOOLS_RUN_LAUNCHER_H
#define TSR_TOOLS_RUN_LAUNCHER_H

#include "runtime/base/arena.h"
#include "tessera/tessera.h"

typedef struct tsr_launcher_flags {
    const char *launcher;   /* a name of launchers.def, or "auto" */
    const char *rendezvous; /* "HOST:PORT" where rank 0 listens; NULL: as the launcher says */
    const char *job_key;    /* path of a secret; NULL: none */
    bool no_job_key;        /* accept a job without a key that other hosts can reach */
} tsr_launcher_flags;

/* out_job: what to join; its texts are of the arena or of the environment. TSR_USAGE: no launcher
 * started this process, or its variables contradict each other; TSR_IO: the key cannot be read. */
TSR_RESULT tsr_launcher_find(tsr_ctx *ctx, const tsr_launcher_flags *flags, tsr_arena *arena,
                             tsr_job_options *out_job);
/* The launcher that started this process as one of several ranks; NULL: none. */
const char *tsr_launcher_get_name(void);

#endif
