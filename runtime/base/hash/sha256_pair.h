/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes two SHA-256 hashes at once on one core. Each round of a hash depends on the previous
 * one, so that a core's SHA unit idles half of the time; two independent messages, interleaved,
 * fill it. Private to hash.c.
 */
#ifndef TSR_BASE_SHA256_PAIR_H
#define TSR_BASE_SHA256_PAIR_H

#include "runtime/base/hash/hash.h"

/* True if this CPU has the instructions. */
bool tsr_sha256_pair_available(void);
/* FIPS 180-4 digests of two messages of `size_bytes` each, a multiple of 64. Call only if
 * available. */
void tsr_sha256_pair(const void *first, const void *second, size_t size_bytes,
                     tsr_digest out_digests[static 2]);

#endif
