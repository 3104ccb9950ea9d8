/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of minisign (github.com/jedisct1/minisign, "Signature format", "Public key format"):
 * Ed25519 over the BLAKE2b-512 digest of a file. Private to this folder.
 */
#ifndef TSR_BUNDLE_TRUST_MINISIGN_H
#define TSR_BUNDLE_TRUST_MINISIGN_H

#include "bundle/bundle.h"
#include "bundle/trust/key.h"

enum { TSR_ED25519_BYTES = 64 }; /* size of a signature */

typedef struct tsr_minisign {
    /* number of the signer's key, as the file claims */
    uint64_t key_number;
    const unsigned char *signature, *global_signature; /* TSR_ED25519_BYTES each, in the arena */
    const char *comment;                               /* the trusted comment, in the arena */
    size_t comment_size;
} tsr_minisign;
/* Fails with TSR_SIGNATURE if the file has another form, or was signed without hashing first
 * (minisign -l). */
TSR_RESULT tsr_minisign_parse(tsr_ctx *ctx, const char *path, const void *text, size_t size_bytes,
                              tsr_arena *arena, tsr_minisign *out_file);
/* Reads the whole bundle. The hashed bytes begin with the head of a canonical archive that names
 * the index of the bundle as it was opened. The signature therefore covers that index, even if the
 * file changes during verification. */
TSR_RESULT tsr_minisign_verify(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                               const tsr_minisign *file, const tsr_crypto *crypto,
                               const tsr_key *key);

/* Reads a public key file: untrusted comment, then the key. Returns false if the text is not a key.
 */
bool tsr_minisign_parse_key(const char *text, size_t size_bytes, uint64_t *out_number,
                            unsigned char out_key[static 32]);

#endif
