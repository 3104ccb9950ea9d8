/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields that the signature does not cover must have exactly the form written here (Base64 in its
 * canonical form, media types, the key's identity), so that no other bytes are accepted.
 */
#include "bundle/trust/dsse.h"

#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <openssl/evp.h>
#include <string.h>

static const char bundle_type[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
static const char payload_type[] = "application/vnd.in-toto+json";

static char *base64_encode(tsr_arena *arena, const void *bytes, size_t size_bytes) {
    char *text = tsr_arena_alloc(arena, (size_bytes + 2) / 3 * 4 + 1, 1, 1);
    if (text) EVP_EncodeBlock((unsigned char *)text, bytes, (int)size_bytes);
    return text;
}

/* Accepts only the canonical form: the standard alphabet, padded, no bits left over. */
tsr_result tsr_base64_decode(tsr_ctx *ctx, const char *subject, const char *key, const char *text,
                             tsr_arena *arena, void **out_bytes, size_t *out_size) {
    size_t length = strlen(text);
    size_t padding = length - strcspn(text, "=");
    void *bytes = tsr_arena_alloc(arena, length / 4 * 3 + 1, 1, 1);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for the %zu bytes of %s", length, subject);
    int size =
        length % 4 || padding > 2 ? -1 : EVP_DecodeBlock(bytes, (const void *)text, (int)length);
    char *again = size < 0 ? NULL : base64_encode(arena, bytes, (size_t)size - padding);
    if (size >= 0 && !again) FAIL(ctx, TSR_MEMORY, "no memory for %zu bytes of Base64", length);
    if (size < 0 || strcmp(again, text) != 0)
        FAIL(ctx, TSR_SIGNATURE,
             "%s: member '%s': expected Base64 in its canonical form, got '%.32s'", subject, key,
             text);
    *out_bytes = bytes;
    *out_size = (size_t)size - padding;
    return TSR_SUCCESS;
}

/* Appends the bytes that DSSE signs: "DSSEv1", then type and payload, each after its length. */
tsr_result tsr_dsse_encode(tsr_ctx *ctx, const void *payload, size_t payload_size,
                           tsr_buffer *out_bytes) {
    tsr_buffer_printf(out_bytes, "DSSEv1 %zu %s %zu ", strlen(payload_type), payload_type,
                      payload_size);
    tsr_buffer_append(out_bytes, payload, payload_size);
    if (out_bytes->failed)
        FAIL(ctx, TSR_MEMORY, "no memory for the %zu bytes of a statement", payload_size);
    return TSR_SUCCESS;
}

/* ---- writing ---- */

static tsr_result write_envelope(tsr_ctx *ctx, const tsr_dsse *envelope, tsr_arena *arena,
                                 tsr_buffer *out_json) {
    const char *hint = base64_encode(arena, envelope->key_id.bytes, TSR_DIGEST_BYTES);
    const char *payload = base64_encode(arena, envelope->payload, envelope->payload_size);
    const char *signature = base64_encode(arena, envelope->signature, envelope->signature_size);
    if (!hint || !payload || !signature) FAIL(ctx, TSR_MEMORY, "no memory for a signature");
    tsr_buffer_printf(out_json,
                      "{\"mediaType\":\"%s\","
                      "\"verificationMaterial\":{\"publicKey\":{\"hint\":\"%s\"}},"
                      "\"dsseEnvelope\":{\"payload\":\"%s\",\"payloadType\":\"%s\","
                      "\"signatures\":[{\"sig\":\"%s\"}]}}",
                      bundle_type, hint, payload, payload_type, signature);
    if (out_json->failed) FAIL(ctx, TSR_MEMORY, "no memory for a signature");
    return TSR_SUCCESS;
}

tsr_result tsr_dsse_sign(tsr_ctx *ctx, const tsr_crypto *crypto, const tsr_key *key,
                         const void *payload, size_t payload_size, tsr_arena *arena,
                         tsr_buffer *out_json) {
    tsr_buffer bytes = {0};
    tsr_dsse envelope = {
        .key_id = key->id, .payload = (void *)payload, .payload_size = payload_size};
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_dsse_encode(ctx, payload, payload_size, &bytes));
    TRY_GOTO(ctx, result,
             tsr_key_sign(ctx, crypto, key, bytes.bytes, bytes.size_bytes, arena,
                          &envelope.signature, &envelope.signature_size));
    TRY_GOTO(ctx, result, write_envelope(ctx, &envelope, arena, out_json));
done:
    tsr_buffer_finish(&bytes);
    return result;
}

/* ---- reading ---- */

static tsr_result expect_text(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                              const tsr_json_options *options, const char *expected) {
    const char *text = NULL;
    TRY(ctx, tsr_json_get_string(ctx, object, key, options, &text));
    if (strcmp(text, expected) != 0)
        FAIL(ctx, TSR_SIGNATURE, "%s: member '%s': expected '%s', got '%.64s'", options->subject,
             key, expected, text);
    return TSR_SUCCESS;
}

static tsr_result get_bytes(tsr_ctx *ctx, const struct cJSON *object, const char *key,
                            const tsr_json_options *options, tsr_arena *arena, void **out_bytes,
                            size_t *out_size) {
    const char *text = NULL;
    TRY(ctx, tsr_json_get_string(ctx, object, key, options, &text));
    return tsr_base64_decode(ctx, options->subject, key, text, arena, out_bytes, out_size);
}

static tsr_result decode_key_id(tsr_ctx *ctx, const struct cJSON *root,
                                const tsr_json_options *options, tsr_arena *arena,
                                tsr_digest *out_id) {
    const struct cJSON *material = NULL, *key = NULL;
    void *hint = NULL;
    size_t size = 0;
    TRY(ctx, tsr_json_get_object(ctx, root, "verificationMaterial", options, &material));
    TRY(ctx, tsr_json_get_object(ctx, material, "publicKey", options, &key));
    TRY(ctx, get_bytes(ctx, key, "hint", options, arena, &hint, &size));
    if (size != TSR_DIGEST_BYTES)
        FAIL(ctx, TSR_SIGNATURE, "%s: member 'hint': expected %d bytes, got %zu", options->subject,
             TSR_DIGEST_BYTES, size);
    memcpy(out_id->bytes, hint, TSR_DIGEST_BYTES);
    return TSR_SUCCESS;
}

static tsr_result decode_envelope(tsr_ctx *ctx, const struct cJSON *root,
                                  const tsr_json_options *options, tsr_arena *arena,
                                  tsr_dsse *out_envelope) {
    const struct cJSON *dsse = NULL, *signatures = NULL;
    size_t count = 0;
    TRY(ctx, expect_text(ctx, root, "mediaType", options, bundle_type));
    TRY(ctx, decode_key_id(ctx, root, options, arena, &out_envelope->key_id));
    TRY(ctx, tsr_json_get_object(ctx, root, "dsseEnvelope", options, &dsse));
    TRY(ctx, expect_text(ctx, dsse, "payloadType", options, payload_type));
    TRY(ctx, get_bytes(ctx, dsse, "payload", options, arena, &out_envelope->payload,
                       &out_envelope->payload_size));
    TRY(ctx, tsr_json_get_array(ctx, dsse, "signatures", options, &signatures, &count));
    if (count != 1)
        FAIL(ctx, TSR_SIGNATURE, "%s: member 'signatures': expected 1 signature, got %zu",
             options->subject, count);
    return get_bytes(ctx, signatures->child, "sig", options, arena, &out_envelope->signature,
                     &out_envelope->signature_size);
}

tsr_result tsr_dsse_parse(tsr_ctx *ctx, const char *path, const void *json, size_t size_bytes,
                          tsr_arena *arena, tsr_dsse *out_envelope) {
    const tsr_json_options options = {.subject = path, .code = TSR_SIGNATURE};
    struct cJSON *root = NULL;
    TRY(ctx, tsr_json_parse(ctx, json, size_bytes, &options, &root));
    tsr_result result = decode_envelope(ctx, root, &options, arena, out_envelope);
    tsr_json_destroy(root);
    return result;
}
