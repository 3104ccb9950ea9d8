/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/signals.h"

#include "runtime/base/array.h"
#include "runtime/base/io/io.h"

#include <stdbool.h>
#include <stddef.h>

static volatile sig_atomic_t stop_requested;
static volatile sig_atomic_t insisted; /* a SIGTERM or SIGINT has arrived */

static void on_signal(int number) {
    if (number == SIGTERM || number == SIGINT) {
        if (insisted) {
            tsr_io_remove_temporaries();
            signal(number, SIG_DFL);
            raise(number);
        }
        insisted = 1;
    }
    stop_requested = 1;
}

void tsr_run_catch_signals(void) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    struct sigaction before,
        action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < TSR_COUNT(numbers); i++) {
        bool is_ignored = sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (numbers[i] == SIGHUP && is_ignored) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

volatile sig_atomic_t *tsr_run_get_stop(void) { return &stop_requested; }
