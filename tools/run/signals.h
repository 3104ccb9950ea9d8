/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals that ask a training run to stop.
 */
#ifndef TSR_TOOLS_RUN_SIGNALS_H
#define TSR_TOOLS_RUN_SIGNALS_H

#include <signal.h>

/* After this call, SIGTERM, SIGINT, SIGUSR1 and SIGHUP set the flag below: the run finishes its
 * step, saves and ends. SIGHUP stays ignored if it is ignored, as under nohup. A second SIGTERM or
 * SIGINT ends the process at once; a second SIGHUP or SIGUSR1 does not, because the kernel and the
 * shell both send one when a terminal closes, and a batch system sends SIGTERM after its warning.
 */
void tsr_run_catch_signals(void);

/* Returns the flag: non-zero once a stop was requested, 1 by a signal; others may set another value
 * (tsr_lines). */
volatile sig_atomic_t *tsr_run_get_stop(void);

#endif
