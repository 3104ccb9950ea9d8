/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline. Writing: statement -> pre-authentication encoding -> ECDSA -> envelope -> file. Checking
 * goes the other way: the file is read once; what it says of itself is taken apart, the key it
 * names is looked for, the signature checked, and only then the statement is read. A part that the
 * signature does not cover must have the one form that is written here (Base64 in its canonical
 * form, media types, the key's identity), so that no other bytes pass.
 *
 * Sources: DSSE 1.0 (github.com/secure-systems-lab/dsse, protocol.md: PAE), in-toto Statement v1,
 * Sigstore bundle v0.3 (github.com/sigstore/protobuf-specs).
 */
#include "bundle/sign.h"

#include "bundle/key.h"
#include "bundle/limits.h"
#include "runtime/base/buffer.h"
#include "runtime/base/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>

static const char bundle_type[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
static const char payload_type[] = "application/vnd.in-toto+json";
static const char statement_type[] = "https://in-toto.io/Statement/v1";
static const char predicate_type[] = "https://tessera.dev/bundle-signature/v1";

/* What a signature file holds, in an arena. */
typedef struct signed_payload {
    tsr_digest key_id;
    void *payload, *signature;
    size_t payload_size, signature_size;
} signed_payload;

/* ---- encodings ---- */

static char *base64_encode(tsr_arena *arena, const void *bytes, size_t size_bytes) {
    char *text = tsr_arena_alloc(arena, (size_bytes + 2) / 3 * 4 + 1, 1, 1);
    if (text) EVP_EncodeBlock((unsigned char *)text, bytes, (int)size_bytes);
    return text;
}

/* The canonical form only: the standard alphabet, padded, no bits left over. */
static tsr_result base64_decode(tsr_ctx *ctx, const char *subject, const char *key,
                                const char *text, tsr_arena *arena, void **out_bytes,
                                size_t *out_size) {
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

/* What DSSE signs: "DSSEv1", then type and payload, each after its length. */
static tsr_result authentication_encode(tsr_ctx *ctx, const void *payload, size_t payload_size,
                                        tsr_buffer *out_bytes) {
    tsr_buffer_printf(out_bytes, "DSSEv1 %zu %s %zu ", strlen(payload_type), payload_type,
                      payload_size);
    tsr_buffer_append(out_bytes, payload, payload_size);
    if (out_bytes->failed)
        FAIL(ctx, TSR_MEMORY, "no memory for the %zu bytes of a statement", payload_size);
    return TSR_SUCCESS;
}

/* Beside the bundle; beside the folder for an unpacked one. */
static tsr_result find_path(tsr_ctx *ctx, const tsr_bundle *bundle, tsr_arena *arena,
                            char **out_path) {
    const char *path = tsr_bundle_get_path(bundle);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    *out_path = tsr_arena_printf(arena, "%.*s" TSR_SIGNATURE_SUFFIX, (int)length, path);
    if (!*out_path) FAIL(ctx, TSR_MEMORY, "no memory for the path '%s'", path);
    return TSR_SUCCESS;
}

/* ---- writing ---- */

static void write_statement(const tsr_digest *digest, tsr_buffer *out_json) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    tsr_buffer_printf(out_json,
                      "{\"_type\":\"%s\",\"subject\":[{\"name\":\"index\","
                      "\"digest\":{\"sha256\":\"%s\"}}],"
                      "\"predicateType\":\"%s\",\"predicate\":{}}",
                      statement_type, hex, predicate_type);
}

static tsr_result write_envelope(tsr_ctx *ctx, const signed_payload *envelope, tsr_arena *arena,
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

static tsr_result sign(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_crypto *crypto,
                       const tsr_key *key, tsr_arena *arena, tsr_buffer *out_json) {
    tsr_buffer statement = {0}, bytes = {0};
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    signed_payload envelope = {.key_id = key->id};
    tsr_result result = TSR_SUCCESS;
    write_statement(&digest, &statement);
    if (statement.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a statement");
    envelope.payload = statement.bytes;
    envelope.payload_size = statement.size_bytes;
    TRY_GOTO(ctx, result,
             authentication_encode(ctx, statement.bytes, statement.size_bytes, &bytes));
    TRY_GOTO(ctx, result,
             tsr_key_sign(ctx, crypto, key, bytes.bytes, bytes.size_bytes, arena,
                          &envelope.signature, &envelope.signature_size));
    TRY_GOTO(ctx, result, write_envelope(ctx, &envelope, arena, out_json));
done:
    tsr_buffer_finish(&statement);
    tsr_buffer_finish(&bytes);
    return result;
}

static tsr_result write_file(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_buffer *json,
                             tsr_arena *arena) {
    tsr_io_atomic file = {.fd = -1};
    char *path = NULL;
    TRY(ctx, find_path(ctx, bundle, arena, &path));
    TRY(ctx, tsr_io_atomic_open(ctx, path, arena, &file));
    tsr_result result = tsr_io_write_all(ctx, file.fd, path, json->bytes, json->size_bytes, 0);
    if (!result.code) result = tsr_io_atomic_commit(ctx, &file);
    tsr_io_atomic_abandon(ctx, &file);
    return result;
}

tsr_result tsr_signature_write(tsr_ctx *ctx, const tsr_bundle *bundle, const char *private_path,
                               tsr_digest *out_key_id) {
    tsr_arena arena = {0};
    tsr_crypto crypto = {0};
    tsr_key key = {0};
    tsr_buffer json = {0};
    tsr_result result;
    TRY_GOTO(ctx, result, tsr_crypto_init(ctx, &crypto));
    TRY_GOTO(ctx, result, tsr_key_read(ctx, &crypto, private_path, true, &key));
    TRY_GOTO(ctx, result, sign(ctx, bundle, &crypto, &key, &arena, &json));
    TRY_GOTO(ctx, result, write_file(ctx, bundle, &json, &arena));
    *out_key_id = key.id;
done:
    tsr_buffer_finish(&json);
    tsr_key_finish(&key);
    tsr_crypto_finish(&crypto);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_signature_generate_key(tsr_ctx *ctx, const char *private_path,
                                      const char *public_path, tsr_digest *out_key_id) {
    tsr_crypto crypto = {0};
    tsr_key key = {0};
    tsr_result result;
    TRY_GOTO(ctx, result, tsr_crypto_init(ctx, &crypto));
    TRY_GOTO(ctx, result, tsr_key_generate(ctx, &crypto, &key));
    TRY_GOTO(ctx, result, tsr_key_write(ctx, &key, private_path, public_path));
    *out_key_id = key.id;
done:
    tsr_key_finish(&key);
    tsr_crypto_finish(&crypto);
    return result;
}

/* ---- checking ---- */

/* *out_bytes stays NULL when there is no file. */
static tsr_result read_file(tsr_ctx *ctx, const char *path, tsr_arena *arena, void **out_bytes,
                            size_t *out_size) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t size = 0;
    int fd = io->open(io->self, TSR_IO_CWD, path, O_RDONLY | O_NONBLOCK, 0);
    /* Where the bundle's name leaves no room for the longer one, no such file can be. */
    if (fd == -ENOENT || fd == -ENAMETOOLONG) return TSR_SUCCESS;
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open '%s'", path);
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_io_file_size(ctx, fd, path, &size));
    if (size > TSR_SIGNATURE_FILE_BYTES_MAX)
        FAIL_GOTO(ctx, result, TSR_SIGNATURE,
                  "%s: expected a signature of at most %d bytes, got %llu", path,
                  TSR_SIGNATURE_FILE_BYTES_MAX, (unsigned long long)size);
    void *bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 1);
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", path);
    TRY_GOTO(ctx, result, tsr_io_read_exact(ctx, fd, path, bytes, (size_t)size, 0));
    *out_bytes = bytes;
    *out_size = (size_t)size;
done:
    io->close(io->self, fd);
    return result;
}

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
    return base64_decode(ctx, options->subject, key, text, arena, out_bytes, out_size);
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
                                  signed_payload *out_envelope) {
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

/* Some subject is this bundle. */
static tsr_result match_subject(tsr_ctx *ctx, const tsr_bundle *bundle, const struct cJSON *root,
                                const tsr_json_options *options) {
    const struct cJSON *subjects = NULL, *digests = NULL;
    const char *hex = NULL;
    char expected[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    size_t count = 0;
    tsr_digest_format(&digest, expected);
    TRY(ctx, expect_text(ctx, root, "_type", options, statement_type));
    TRY(ctx, expect_text(ctx, root, "predicateType", options, predicate_type));
    TRY(ctx, tsr_json_get_array(ctx, root, "subject", options, &subjects, &count));
    for (const struct cJSON *subject = subjects->child; subject; subject = subject->next) {
        TRY(ctx, tsr_json_get_object(ctx, subject, "digest", options, &digests));
        TRY(ctx, tsr_json_get_string(ctx, digests, "sha256", options, &hex));
        if (strcmp(hex, expected) == 0) return TSR_SUCCESS;
    }
    FAIL(ctx, TSR_SIGNATURE, "%s: signs another bundle: expected sha256:%s of '%s', got %s%.64s",
         options->subject, expected, tsr_bundle_get_path(bundle), hex ? "sha256:" : "no subject",
         hex ? hex : "");
}

static tsr_result check_statement(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                                  const signed_payload *envelope, tsr_arena *arena) {
    const tsr_json_options options = {.subject = tsr_arena_printf(arena, "%s: payload", path),
                                      .code = TSR_SIGNATURE};
    struct cJSON *root = NULL;
    if (!options.subject) FAIL(ctx, TSR_MEMORY, "no memory to check '%s'", path);
    TRY(ctx, tsr_json_parse(ctx, envelope->payload, envelope->payload_size, &options, &root));
    tsr_result result = match_subject(ctx, bundle, root, &options);
    tsr_json_destroy(root);
    return result;
}

/* By one of the keys. */
static tsr_result check_keys(tsr_ctx *ctx, const char *path, const signed_payload *envelope,
                             const tsr_crypto *crypto, const tsr_key *keys, size_t key_count) {
    const tsr_key *signer = NULL;
    tsr_buffer bytes = {0};
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&envelope->key_id, hex);
    for (size_t i = 0; i < key_count && !signer; i++)
        if (tsr_digest_equal(&keys[i].id, &envelope->key_id)) signer = &keys[i];
    if (!signer)
        FAIL(ctx, TSR_SIGNATURE, "%s: signed by key sha256:%s; expected one of the %zu given", path,
             hex, key_count);
    tsr_result result =
        authentication_encode(ctx, envelope->payload, envelope->payload_size, &bytes);
    if (!result.code && !tsr_key_verify(crypto, signer, bytes.bytes, bytes.size_bytes,
                                        envelope->signature, envelope->signature_size))
        result = tsr_fail_(ctx, TSR_SIGNATURE, 0, __FILE__, __LINE__,
                           "%s: the signature is wrong: key sha256:%s did not make it", path, hex);
    tsr_buffer_finish(&bytes);
    return result;
}

static tsr_result check_file(tsr_ctx *ctx, const tsr_bundle *bundle, const char *path,
                             const void *json, size_t size, const tsr_crypto *crypto,
                             const tsr_key *keys, size_t key_count, tsr_arena *arena,
                             tsr_signature_report *report) {
    const tsr_json_options options = {.subject = path, .code = TSR_SIGNATURE};
    signed_payload envelope = {0};
    struct cJSON *root = NULL;
    TRY(ctx, tsr_json_parse(ctx, json, size, &options, &root));
    tsr_result result = decode_envelope(ctx, root, &options, arena, &envelope);
    tsr_json_destroy(root);
    TRY(ctx, result);
    if (key_count) TRY(ctx, check_keys(ctx, path, &envelope, crypto, keys, key_count));
    TRY(ctx, check_statement(ctx, bundle, path, &envelope, arena));
    report->state = key_count ? TSR_SIGNATURE_GOOD : TSR_SIGNATURE_UNCHECKED;
    report->key_id = envelope.key_id;
    return TSR_SUCCESS;
}

static tsr_result check(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_signature_policy *policy,
                        const tsr_crypto *crypto, const tsr_key *keys, tsr_arena *arena,
                        tsr_signature_report *report) {
    char *path = NULL;
    void *json = NULL;
    size_t size = 0;
    TRY(ctx, find_path(ctx, bundle, arena, &path));
    TRY(ctx, read_file(ctx, path, arena, &json, &size));
    if (json)
        return check_file(ctx, bundle, path, json, size, crypto, keys, policy->key_count, arena,
                          report);
    if (policy->required)
        FAIL(ctx, TSR_SIGNATURE, "'%s' is not signed: expected a signature in '%s', got no file",
             tsr_bundle_get_path(bundle), path);
    if (policy->key_count)
        tsr_log(ctx, TSR_LOG_WARNING, "'%s' is not signed: there is no '%s'",
                tsr_bundle_get_path(bundle), path);
    return TSR_SUCCESS;
}

tsr_result tsr_signature_check(tsr_ctx *ctx, const tsr_bundle *bundle,
                               const tsr_signature_policy *policy,
                               tsr_signature_report *out_report) {
    tsr_arena arena = {0};
    tsr_crypto crypto = {0};
    tsr_key keys[TSR_SIGNATURE_KEYS_MAX] = {0};
    tsr_signature_report report = {.state = TSR_SIGNATURE_ABSENT};
    size_t count = 0;
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(policy->size_bytes == sizeof *policy);
    if (policy->required && !policy->key_count)
        FAIL(ctx, TSR_USAGE, "a signature is required, but no key that may have made it is given");
    if (policy->key_count > TSR_SIGNATURE_KEYS_MAX)
        FAIL(ctx, TSR_USAGE, "%zu keys are given; at most %d are accepted", policy->key_count,
             TSR_SIGNATURE_KEYS_MAX);
    if (policy->key_count) TRY_GOTO(ctx, result, tsr_crypto_init(ctx, &crypto));
    for (; count < policy->key_count; count++)
        TRY_GOTO(ctx, result, tsr_key_read(ctx, &crypto, policy->keys[count], false, &keys[count]));
    TRY_GOTO(ctx, result, check(ctx, bundle, policy, &crypto, keys, &arena, &report));
    *out_report = report;
done:
    for (size_t i = 0; i < count; i++) tsr_key_finish(&keys[i]);
    tsr_crypto_finish(&crypto);
    tsr_arena_finish(&arena);
    return result;
}
