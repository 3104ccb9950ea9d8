/* SPDX-License-Identifier: Apache-2.0
 *
 * Sweeps over every bit, byte or operation. Code under AddressSanitizer is several times as slow:
 * the sanitized build takes every n-th case of a sweep that the other build takes whole.
 *
 *     for (size_t bit = 0; bit < count; bit += SWEEP_STEP(5))
 */
#ifndef TSR_TESTS_BASE_SWEEP_H
#define TSR_TESTS_BASE_SWEEP_H

#ifdef __SANITIZE_ADDRESS__
#define SWEEP_STEP(n) (n)
#else
#define SWEEP_STEP(n) 1
#endif

#endif
