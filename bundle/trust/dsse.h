/* SPDX-License-Identifier: Apache-2.0
 *
 * A signed statement: DSSE 1.0 envelope in a Sigstore bundle v0.3. Private to this folder.
 *
 * Sources: DSSE 1.0 (github.com/secure-systems-lab/dsse, protocol.md: PAE), in-toto Statement v1,
 * Sigstore bundle v0.3 (github.com/sigstore/protobuf-specs).
 */
#ifndef TSR_BUNDLE_TRUST_DSSE_H
#define TSR_BUNDLE_TRUST_DSSE_H

#include "bundle/trust/key.h"
#include "runtime/base/buffer.h"

/* The contents of a signature file, in an arena. Nothing is verified. */
typedef struct tsr_dsse {
    tsr_digest key_id; /* the signer's key, as the file claims */
    void *payload, *signature;
    size_t payload_size, signature_size;
} tsr_dsse;

/* Signs the payload, an in-toto statement; appends the file's JSON. */
TSR_RESULT tsr_dsse_sign(tsr_ctx *ctx, const tsr_crypto *crypto, const tsr_key *key,
                         const void *payload, size_t payload_size, tsr_arena *arena,
                         tsr_buffer *out_json);
/* Fails with TSR_SIGNATURE if the file has another form; `path` begins the message. */
TSR_RESULT tsr_dsse_parse(tsr_ctx *ctx, const char *path, const void *json, size_t size_bytes,
                          tsr_arena *arena, tsr_dsse *out_envelope);
/* Appends the bytes that are signed: "DSSEv1", then type and payload, each after its length. */
TSR_RESULT tsr_dsse_encode(tsr_ctx *ctx, const void *payload, size_t payload_size,
                           tsr_buffer *out_bytes);

/* Accepts only the canonical form of Base64: the standard alphabet, padded, no bits left over.
 * `key` names the text in the message. */
TSR_RESULT tsr_base64_decode(tsr_ctx *ctx, const char *subject, const char *key, const char *text,
                             tsr_arena *arena, void **out_bytes, size_t *out_size);

#endif
