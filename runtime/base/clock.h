/* SPDX-License-Identifier: Apache-2.0
 *
 * Elapsed time by the monotonic clock.
 */
#ifndef TSR_BASE_CLOCK_H
#define TSR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Time since a fixed instant that changes only when the machine is restarted. */
static inline uint64_t tsr_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double tsr_clock_seconds(void) { return 1e-9 * (double)tsr_clock_ns(); }

#endif
