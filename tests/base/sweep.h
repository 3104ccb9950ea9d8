/* SPDX-License-Identifier: Apache-2.0
 *
 * Sweeps over every bit, byte or operation. Code under AddressSanitizer is several times slower, so
 * the sanitized build tests only every n-th case of a sweep.
 *
 *     for (size_t bit = 0; bit < count; bit += SWEEP_STEP(5))
 */
#ifndef TSR_TESTS_BASE_SWEEP_H
#define TSR_TESTS_BASE_SWEEP_H

#ifdef __SANITIZE_ADDRESS__
enum { SWEEP_SANITIZED = 1 };
#else
enum { SWEEP_SANITIZED = 0 };
#endif
#define SWEEP_STEP(n) (SWEEP_SANITIZED ? (n) : 1)

#endif
