/* SPDX-License-Identifier: Apache-2.0
 *
 * For processors without an implementation: hash.c takes one leaf after the other.
 */
#include "runtime/base/sha256_pair.h"

bool tsr_sha256_pair_available(void) { return false; }

void tsr_sha256_pair(const void *first, const void *second, size_t size_bytes,
                     tsr_digest out_digests[static 2]) {
    out_digests[0] = tsr_hash(first, size_bytes);
    out_digests[1] = tsr_hash(second, size_bytes);
}
