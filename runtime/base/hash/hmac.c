/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hash/hmac.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

tsr_result tsr_hmac(tsr_ctx *ctx, const void *key, size_t key_bytes, const void *message,
                    size_t message_bytes, tsr_digest *out_code) {
    unsigned size = sizeof out_code->bytes;
    if (key_bytes > INT_MAX)
        FAIL(ctx, TSR_USAGE, "a key has %zu bytes; at most %d are supported", key_bytes, INT_MAX);
    if (!HMAC(EVP_sha256(), key_bytes ? key : "", (int)key_bytes, message, message_bytes,
              out_code->bytes, &size))
        FAIL(ctx, TSR_MEMORY, "no memory for an HMAC of %zu bytes", message_bytes);
    return TSR_SUCCESS;
}
