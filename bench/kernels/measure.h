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

double measure_now(void);  /* seconds */
double measure_wall(void); /* seconds that passed, whatever measure_now counts */
/* Returns when threads that other contestants left spinning have gone to sleep: they would hold the
 * CPUs of the next one. */
void measure_wait_idle(void);
/* From now on seconds that this process ran: for one thread, where others take the CPU meanwhile.
 */
void measure_count_own_time(void);
double measure_median(const double *values, size_t count);
/* exp of the mean of the logarithms. */
double measure_geometric_mean(const double *values, size_t count);

/* This process and the threads it starts later may use CPUs 0 … count-1 of those it may use now. */
bool measure_pin(unsigned count);

/* Multiply-adds in registers alone, with the widest vectors there are, on `threads` threads at
 * once: floating-point operations a second, f32. */
double measure_peak(unsigned threads);
/* Bytes read and written a second by memcpy between two blocks that no cache holds. */
double measure_copy(void);

/* Seconds of one call: as many calls as `seconds` take, at least one, after one that is not
 * counted. */
double measure_call(void (*call)(void *user), void *user, double seconds);

/* splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014 */
uint64_t measure_random(uint64_t *state);
/* Aligned to 4096 bytes; values in [-1, 1). Ends the program when there is no memory. */
float *measure_floats(uint64_t *state, size_t count);
/* The largest difference, over the largest magnitude of b. */
double measure_difference(const float *a, const float *b, size_t count);

#endif
