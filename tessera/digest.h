/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 digests of bundles, states and data.
 */
#ifndef TSR_TESSERA_DIGEST_H
#define TSR_TESSERA_DIGEST_H

#include "tessera/result.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TSR_DIGEST_BYTES = 32,
    TSR_DIGEST_HEX = 64, /* characters, without the NUL */
};

typedef struct tsr_digest {
    uint8_t bytes[TSR_DIGEST_BYTES];
} tsr_digest;

/* Writes 64 lower-case digits and a NUL to out_hex. */
TSR_API void tsr_digest_format(const tsr_digest *digest, char out_hex[TSR_DIGEST_HEX + 1]);
/* Accepts exactly 64 lower-case hexadecimal digits; else returns false. */
TSR_API bool tsr_digest_parse(const char *hex, size_t length, tsr_digest *out_digest);
TSR_API bool tsr_digest_equal(const tsr_digest *a, const tsr_digest *b);

#ifdef __cplusplus
}
#endif

#endif
