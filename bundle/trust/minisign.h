/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of minisign (github.com/jedisct1/minisign, "Signature format", "Public key format"):
 * Ed25519 over the BLAKE2b-512 digest of a file. Private to this folder.
 */
#ifndef TSR_BUNDLE_TRUST_MINISIGN_H
#define TSR_BUNDLE_TRUST_MINISIGN_H

#include "bundle/bundle.h"
#include "bundle/trust/key.h"

enum { TSR_ED25519_BYTES = 64 }; /* of a signature */

typedef struct tsr_minisign {
    uint64_t key_number;                               /* which key signed, or is said to have */
    const unsigned char *signature, *global_signature; /* in the arena; TSR_ED25519_BYTES each */
    const char *comment;                               /* the trusted one, in the arena */
    size_t comment_size;
} tsr_minisign;
/* TSR_SIGNATURE for a file of another form, or signed without hashing first (minisign -l). */
TSR_RESULT tsr_minisign_parse(tsr_ctx *ctx, const char *path, const void *text, size_t size_bytes,
                              tsr_arena *arena, tsr_minisign *out_file);
/* Reads the whole bundle. The bytes that are hashed begin with a canonical archive that names the
 * index of the bundle as it was opened: so the signature is over that index, whatever happens to
 * the file meanwhile. */
TSR_RESULT tsr_minisign_verify(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                               const tsr_minisign *file, const tsr_crypto *crypto,
                               const tsr_key *key);

/* A public key file: untrusted comment, then the key. False when the text is none. */
bool tsr_minisign_parse_key(const char *text, size_t size_bytes, uint64_t *out_number,
                            unsigned char out_key[static 32]);

#endif
