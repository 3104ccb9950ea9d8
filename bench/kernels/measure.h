/* SPDX-License-Identifier: Apache-2.0
 *
 * Code shared by the kernel benchmarks: clock, medians, pinning, the CPU's peak, random numbers.
 */
#ifndef TSR_BENCH_MEASURE_H
#define TSR_BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEASURE_ROUNDS_MAX = 64 };

double measure_now(void);  /* time in seconds */
double measure_wall(void); /* elapsed seconds, even after measure_count_own_time */
/* Returns when the threads that other contestants left spinning have gone to sleep: they would
 * occupy the CPUs of the next one. */
void measure_wait_idle(void);
/* From now on measure_now counts the CPU seconds of this process: for one thread on a machine where
 * other processes use the CPU. */
void measure_count_own_time(void);
double measure_median(const double *values, size_t count);
/* Returns exp of the mean of the logarithms. */
double measure_geometric_mean(const double *values, size_t count);

/* Allows this process, and threads that it starts later, to use only the first `count` CPUs that it
 * may use now. */
bool measure_pin(unsigned count);

/* Measures multiply-adds in registers only, with the widest vectors of the CPU, on `threads`
 * threads at once: floating-point operations per second, f32. */
double measure_peak(unsigned threads);
/* Measures bytes read and written per second by memcpy between two blocks larger than the caches.
 */
double measure_copy(void);

/* Returns the seconds of one call: repeats it for `seconds`, at least once, after one warm-up call.
 */
double measure_call(void (*call)(void *user), void *user, double seconds);

/* splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014 */
uint64_t measure_random(uint64_t *state);
/* Returns memory aligned to 4096 bytes with values in [-1, 1). Ends the program if out of memory.
 */
float *measure_floats(uint64_t *state, size_t count);
/* Returns the largest difference, divided by the largest magnitude of b. */
double measure_difference(const float *a, const float *b, size_t count);

#endif
