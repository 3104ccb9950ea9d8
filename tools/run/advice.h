/* SPDX-License-Identifier: Apache-2.0
 *
 * What to do when a state directory belongs to another program.
 */
#ifndef TSR_TOOLS_RUN_ADVICE_H
#define TSR_TOOLS_RUN_ADVICE_H

#include "runtime/base/arena.h"

/* Returns "; --adopt takes over what fits of it: tessera-run …": the command line with --adopt, and
 * with a new state directory beside `state_dir`. A command that is too long for a message is
 * shortened to its bundle and directories. In the arena; NULL if memory is out, or if there is
 * nothing to advise: `state_dir` is NULL, or --adopt is given already. */
const char *tsr_run_advise_adopt(tsr_arena *arena, int argc, char **argv, const char *state_dir);

#endif
