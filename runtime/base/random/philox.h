/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers:
 * As Easy as 1, 2, 3", SC 2011, section 3.3. The same (key, counter) gives the same four words on
 * every machine.
 *
 * Tessera's use: key = {seed, stream}, counter = {step, element low, element high, draw}. Attention
 * weights that dropout may zero share a counter (tessera.philox, `shared`).
 */
#ifndef TSR_BASE_PHILOX_H
#define TSR_BASE_PHILOX_H

#include <stdint.h>

typedef struct tsr_philox_words {
    uint32_t words[4];
} tsr_philox_words;

tsr_philox_words tsr_philox(const uint32_t key[static 2], const uint32_t counter[static 4]);

/* [0, 1) with 24 bits; exact in f32. */
float tsr_philox_uniform_f32(uint32_t word);
/* [0, 1) with 53 bits, from two words. */
double tsr_philox_uniform_f64(uint32_t high, uint32_t low);
/* Standard normal by inversion: Wichura, "Algorithm AS 241", Applied Statistics 37 (1988), PPND16.
 * Own log and IEEE square root, so the bits do not depend on libm. u in (0, 1),
 * asserted; relative error below 2^-50. */
double tsr_normal_quantile(double u);
/* Standard normal from two words: the quantile of the midpoint of one of 2^52 intervals of (0, 1),
 * so that every pair of words is valid. */
double tsr_philox_normal_f64(uint32_t high, uint32_t low);
/* The midpoint: never 0 or 1. */
double tsr_philox_middle_f64(uint32_t high, uint32_t low);

/* The same, bit for bit, for many elements: out[i] is the midpoint for the first two words of
 * counter {0, element low, element high, 0}, element = first + i. tsr_normal_quantiles replaces
 * each value with its quantile. Both functions process four elements at a time if the processor has
 * AVX2. */
void tsr_philox_normals(const uint32_t key[static 2], uint64_t first, uint64_t count, double *out);
void tsr_normal_quantiles(double *values, uint64_t count);

#endif
