/* SPDX-License-Identifier: Apache-2.0
 *
 * Detached signatures of bundles: FORMAT.md, "Signature". A signature is stored next to its bundle,
 * in `<bundle>.sigstore.json`. The signature covers the digest of the index blob, which covers
 * every other byte.
 *
 * Keys are ECDSA on the curve P-256 in PEM files; a key is identified by its key ID, the SHA-256 of
 * its SubjectPublicKeyInfo. Signatures of the file by minisign, `<bundle>.minisig`, are also
 * accepted, given minisign's public key file.
 */
#ifndef TSR_BUNDLE_SIGN_H
#define TSR_BUNDLE_SIGN_H

#include "bundle/bundle.h"

#define TSR_SIGNATURE_SUFFIX ".sigstore.json"
#define TSR_MINISIGN_SUFFIX ".minisig"

/* Writes a new key pair to two new files: PKCS #8 that only its owner can read, and
 * SubjectPublicKeyInfo. Fails with TSR_IO if a file exists already or cannot be written; then
 * neither file is left. */
TSR_RESULT tsr_signature_generate_key(tsr_ctx *ctx, const char *private_path,
                                      const char *public_path, tsr_digest *out_key_id);

/* Signs the bundle as it was opened (call tsr_bundle_verify first to check its large blobs), and
 * writes the signature file next to it, whole or not at all; replaces an existing one. Fails with
 * TSR_USAGE if the key file contains no private P-256 key, or an encrypted one. */
TSR_RESULT tsr_signature_write(tsr_ctx *ctx, const tsr_bundle *bundle, const char *private_path,
                               tsr_digest *out_key_id);

typedef struct tsr_signature_policy {
    size_t size_bytes;       /* sizeof(tsr_signature_policy) */
    const char *const *keys; /* paths of the public keys that are accepted, at most 64; borrowed */
    size_t key_count;
    bool required; /* a missing signature is refused; needs a key */
} tsr_signature_policy;

typedef enum tsr_signature_state {
    TSR_SIGNATURE_ABSENT,    /* not signed, and the policy allows that */
    TSR_SIGNATURE_UNCHECKED, /* well-formed and for this bundle, but there is no key to check it
                                with */
    TSR_SIGNATURE_GOOD,      /* verified with one of the keys */
} tsr_signature_state;

typedef struct tsr_signature_report {
    tsr_signature_state state;
    tsr_digest key_id; /* the signer's key, as claimed if unchecked; zeros if absent, or if by
                          minisign and unchecked */
} tsr_signature_report;

/* Fails with TSR_SIGNATURE, whatever the policy, if a signature file is malformed, is for another
 * bundle or, when keys are given, does not verify; if none of the files is signed by one of the
 * keys; or if a required signature is missing. One good signature is enough. Reads every key file,
 * so that a bad one (TSR_USAGE, TSR_IO) is reported at once. Logs a warning if there are keys but
 * no signature. */
TSR_RESULT tsr_signature_check(tsr_ctx *ctx, const tsr_bundle *bundle,
                               const tsr_signature_policy *policy,
                               tsr_signature_report *out_report);

#endif
