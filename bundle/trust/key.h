/* SPDX-License-Identifier: Apache-2.0
 *
 * ECDSA keys on the curve P-256, and signatures of bytes with them, through OpenSSL; and public
 * keys of minisign. Private to this folder.
 *
 * Files are PEM: PKCS #8 without a passphrase for a private key, SubjectPublicKeyInfo for a public
 * one; or a public key file of minisign. A key is identified by the SHA-256 of its
 * SubjectPublicKeyInfo in DER.
 */
#ifndef TSR_BUNDLE_TRUST_KEY_H
#define TSR_BUNDLE_TRUST_KEY_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/result.h"

struct evp_pkey_st;
struct ossl_lib_ctx_st;

/* OpenSSL's own algorithms: settings of openssl.cnf or of the process do not affect it. */
typedef struct tsr_crypto {
    struct ossl_lib_ctx_st *library; /* owned */
} tsr_crypto;
TSR_RESULT tsr_crypto_init(tsr_ctx *ctx, tsr_crypto *out_crypto); /* TSR_MEMORY */
void tsr_crypto_finish(tsr_crypto *crypto); /* call it after its keys are finished; accepts zeros */

typedef struct tsr_key {
    struct evp_pkey_st *pkey; /* owned */
    tsr_digest id;
    bool is_private;
    bool is_minisign; /* Ed25519; else P-256 */
    uint64_t number;  /* minisign only: the key number that its signatures name */
} tsr_key;
/* Fails with TSR_IO if the file cannot be read, TSR_USAGE if it contains no such key. */
TSR_RESULT tsr_key_read(tsr_ctx *ctx, const tsr_crypto *crypto, const char *path, bool is_private,
                        tsr_key *out_key);
TSR_RESULT tsr_key_generate(tsr_ctx *ctx, const tsr_crypto *crypto, tsr_key *out_key);
/* Both files are new: neither may exist. Only the owner can read the file of the private key. */
TSR_RESULT tsr_key_write(tsr_ctx *ctx, const tsr_key *key, const char *private_path,
                         const char *public_path);
void tsr_key_finish(tsr_key *key); /* accepts zeros */

/* Makes a signature in DER over the SHA-256 of the bytes, in the arena. Requires a private key. */
TSR_RESULT tsr_key_sign(tsr_ctx *ctx, const tsr_crypto *crypto, const tsr_key *key,
                        const void *bytes, size_t size_bytes, tsr_arena *arena,
                        void **out_signature, size_t *out_signature_size);
/* Verifies ECDSA over the SHA-256 of the bytes, or Ed25519 over the bytes. */
bool tsr_key_verify(const tsr_crypto *crypto, const tsr_key *key, const void *bytes,
                    size_t size_bytes, const void *signature, size_t signature_size);

#endif
