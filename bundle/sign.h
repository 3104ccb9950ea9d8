/* SPDX-License-Identifier: Apache-2.0
 *
 * Detached signatures of bundles: FORMAT.md, "Signature". A signature lies beside its bundle, in
 * `<bundle>.sigstore.json`, and is over the digest of the index blob, which covers every other
 * byte.
 *
 * Keys are ECDSA on the curve P-256 in PEM files; a key is named by its identity, the SHA-256 of
 * its SubjectPublicKeyInfo. Signatures that minisign makes of the file, `<bundle>.minisig`, are
 * accepted too, given its public key file.
 */
#ifndef TSR_BUNDLE_SIGN_H
#define TSR_BUNDLE_SIGN_H

#include "bundle/bundle.h"

#define TSR_SIGNATURE_SUFFIX ".sigstore.json"
#define TSR_MINISIGN_SUFFIX ".minisig"

/* A new key pair in two new files: PKCS #8 that only its owner can read, and SubjectPublicKeyInfo.
 * TSR_IO when one of them exists already or cannot be written; then neither is left. */
TSR_RESULT tsr_signature_generate_key(tsr_ctx *ctx, const char *private_path,
                                      const char *public_path, tsr_digest *out_key_id);

/* Signs the bundle as it was opened (call tsr_bundle_verify first to know that its large blobs are
 * whole), and writes the file beside it, whole or not at all; one that is there is replaced.
 * TSR_USAGE for a file that holds no private P-256 key, or one under a passphrase. */
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
    TSR_SIGNATURE_UNCHECKED, /* well-formed and over this bundle, but there is no key to check with
                              */
    TSR_SIGNATURE_GOOD,      /* by one of the keys */
} tsr_signature_state;

typedef struct tsr_signature_report {
    tsr_signature_state state;
    tsr_digest key_id; /* who signed, or says so; zeros when absent, or of minisign and unchecked */
} tsr_signature_report;

/* Refuses with TSR_SIGNATURE, whatever the policy: a file that is malformed, is over another
 * bundle, or, once keys are given, does not verify; files that are all by none of the keys; and a
 * missing one if required. One good signature is enough. Every key file is read, so that a bad one
 * (TSR_USAGE, TSR_IO) is noticed at once. Keys and no signature: a warning is logged. */
TSR_RESULT tsr_signature_check(tsr_ctx *ctx, const tsr_bundle *bundle,
                               const tsr_signature_policy *policy,
                               tsr_signature_report *out_report);

#endif
