/* SPDX-License-Identifier: Apache-2.0
 *
 * HMAC-SHA256 (RFC 2104, FIPS 198-1): proves that the sender of a message knows a secret key.
 */
#ifndef TSR_BASE_HMAC_H
#define TSR_BASE_HMAC_H

#include "runtime/base/hash/hash.h"

/* key: `key_bytes` bytes, any number; none is a key of zeros. TSR_MEMORY. */
TSR_RESULT tsr_hmac(tsr_ctx *ctx, const void *key, size_t key_bytes, const void *message,
                    size_t message_bytes, tsr_digest *out_code);

#endif
