/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline. Writing: statement -> envelope -> file. Checking goes the other way, for each kind of
 * signature file that exists: read the file once, parse it, find the key that it names, check the
 * signature, and only then check its subject. Any error is refused; one good signature is enough.
 */
#include "bundle/sign.h"

#include "bundle/limits.h"
#include "bundle/trust/dsse.h"
#include "bundle/trust/minisign.h"
#include "bundle/trust/statement.h"
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char predicate_type[] = "https://tessera.dev/bundle-signature/v1";

/* Returns the path next to the bundle, or next to the folder of an unpacked one. */
static tsr_result find_path(tsr_ctx *ctx, const tsr_bundle *bundle, const char *suffix,
                            tsr_arena *arena, char **out_path) {
    const char *path = tsr_bundle_get_path(bundle);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    *out_path = tsr_arena_printf(arena, "%.*s%s", (int)length, path, suffix);
    if (!*out_path) FAIL(ctx, TSR_MEMORY, "no memory for the path '%s'", path);
    return TSR_SUCCESS;
}

/* ---- writing ---- */

/* Appends an in-toto Statement v1 about the bundle. `predicate` is JSON. */
void tsr_statement_format(const tsr_bundle *bundle, const char *type, const char *predicate,
                          size_t predicate_size, tsr_buffer *out_json) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    tsr_digest_format(&digest, hex);
    tsr_buffer_printf(out_json,
                      "{\"_type\":\"" TSR_STATEMENT_TYPE "\",\"subject\":[{\"name\":\"index\","
                      "\"digest\":{\"sha256\":\"%s\"}}],"
                      "\"predicateType\":\"%s\",\"predicate\":",
                      hex, type);
    tsr_buffer_append(out_json, predicate, predicate_size);
    tsr_buffer_text(out_json, "}");
}

tsr_result tsr_statement_write(tsr_ctx *ctx, const char *path, const tsr_buffer *statement,
                               const char *private_path, tsr_digest *out_key_id) {
    tsr_arena arena = {0};
    tsr_crypto crypto = {0};
    tsr_key key = {0};
    tsr_buffer json = {0};
    tsr_result result;
    TRY_GOTO(ctx, result, tsr_crypto_init(ctx, &crypto));
    TRY_GOTO(ctx, result, tsr_key_read(ctx, &crypto, private_path, true, &key));
    if (statement->failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a statement");
    TRY_GOTO(
        ctx, result,
        tsr_dsse_sign(ctx, &crypto, &key, statement->bytes, statement->size_bytes, &arena, &json));
    TRY_GOTO(ctx, result, tsr_io_atomic_write(ctx, path, json.bytes, json.size_bytes));
    *out_key_id = key.id;
done:
    tsr_buffer_finish(&json);
    tsr_key_finish(&key);
    tsr_crypto_finish(&crypto);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_signature_write(tsr_ctx *ctx, const tsr_bundle *bundle, const char *private_path,
                               tsr_digest *out_key_id) {
    tsr_arena arena = {0};
    tsr_buffer statement = {0};
    char *path = NULL;
    tsr_statement_format(bundle, predicate_type, "{}", 2, &statement);
    tsr_result result = find_path(ctx, bundle, TSR_SIGNATURE_SUFFIX, &arena, &path);
    if (!result.code) result = tsr_statement_write(ctx, path, &statement, private_path, out_key_id);
    tsr_buffer_finish(&statement);
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

/* out_bytes stays NULL if there is no file. */
static tsr_result read_file(tsr_ctx *ctx, const char *path, tsr_arena *arena, void **out_bytes,
                            size_t *out_size) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t size = 0;
    int fd = io->open(io->self, TSR_IO_CWD, path, O_RDONLY | O_NONBLOCK, 0);
    /* If the bundle's name is too long for the suffix, no such file can exist. */
    if (fd == -ENOENT || fd == -ENAMETOOLONG) return TSR_SUCCESS;
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open '%s'", path);
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(ctx, result, tsr_io_file_size(ctx, fd, path, &size));
    if (size > TSR_SIGNATURE_FILE_BYTES_MAX)
        FAIL_GOTO(ctx, result, TSR_SIGNATURE,
                  "%s: expected a signature of at most %d bytes, got %" PRIu64, path,
                  TSR_SIGNATURE_FILE_BYTES_MAX, size);
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

/* Checks that one of the subjects is this bundle. */
static tsr_result match_subject(tsr_ctx *ctx, const tsr_bundle *bundle, const struct cJSON *root,
                                const tsr_json_options *options) {
    const struct cJSON *subjects = NULL, *digests = NULL;
    const char *hex = NULL;
    char expected[TSR_DIGEST_HEX + 1];
    tsr_digest digest = tsr_bundle_get_digest(bundle);
    size_t count = 0;
    tsr_digest_format(&digest, expected);
    TRY(ctx, expect_text(ctx, root, "_type", options, TSR_STATEMENT_TYPE));
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
                                  const tsr_dsse *envelope, tsr_arena *arena) {
    const tsr_json_options options = {.subject = tsr_arena_printf(arena, "%s: payload", path),
                                      .code = TSR_SIGNATURE};
    struct cJSON *root = NULL;
    if (!options.subject) FAIL(ctx, TSR_MEMORY, "no memory to check '%s'", path);
    TRY(ctx, tsr_json_parse(ctx, envelope->payload, envelope->payload_size, &options, &root));
    tsr_result result = match_subject(ctx, bundle, root, &options);
    tsr_json_destroy(root);
    return result;
}

/* The result of one signature file: absent, unchecked, good, or by a key that is not among the
 * given ones. In the last case another file may still be good. */
typedef struct finding {
    tsr_signature_state state;
    bool stranger;
    tsr_digest key_id; /* minisign: set once the key is found */
    uint64_t number;   /* minisign: number of the key */
    const char *path;
} finding;

typedef struct checker {
    tsr_ctx *ctx;
    const tsr_bundle *bundle;
    const tsr_crypto *crypto;
    const tsr_key *keys;
    size_t key_count;
    tsr_arena *arena;
} checker;

static const tsr_key *find_key(const checker *c, const tsr_digest *id) {
    for (size_t i = 0; i < c->key_count; i++)
        if (tsr_digest_equal(&c->keys[i].id, id)) return &c->keys[i];
    return NULL;
}

static tsr_result verify_envelope(checker *c, const char *path, const tsr_dsse *envelope,
                                  const tsr_key *signer) {
    tsr_buffer bytes = {0};
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&envelope->key_id, hex);
    tsr_result result = tsr_dsse_encode(c->ctx, envelope->payload, envelope->payload_size, &bytes);
    if (!result.code && !tsr_key_verify(c->crypto, signer, bytes.bytes, bytes.size_bytes,
                                        envelope->signature, envelope->signature_size))
        result = tsr_fail_(c->ctx, TSR_SIGNATURE, 0, __FILE__, __LINE__,
                           "%s: the signature is wrong: key sha256:%s did not make it", path, hex);
    tsr_buffer_finish(&bytes);
    return result;
}

static tsr_result check_sigstore(checker *c, const void *json, size_t size, finding *found) {
    tsr_dsse envelope = {0};
    TRY(c->ctx, tsr_dsse_parse(c->ctx, found->path, json, size, c->arena, &envelope));
    const tsr_key *signer = find_key(c, &envelope.key_id);
    found->key_id = envelope.key_id;
    found->stranger = c->key_count && !signer;
    if (found->stranger) return TSR_SUCCESS;
    if (signer) TRY(c->ctx, verify_envelope(c, found->path, &envelope, signer));
    TRY(c->ctx, check_statement(c->ctx, c->bundle, found->path, &envelope, c->arena));
    found->state = signer ? TSR_SIGNATURE_GOOD : TSR_SIGNATURE_UNCHECKED;
    return TSR_SUCCESS;
}

static tsr_result check_minisign(checker *c, const void *text, size_t size, finding *found) {
    tsr_minisign file;
    const tsr_key *signer = NULL;
    TRY(c->ctx, tsr_minisign_parse(c->ctx, found->path, text, size, c->arena, &file));
    for (size_t i = 0; i < c->key_count && !signer; i++)
        if (c->keys[i].is_minisign && c->keys[i].number == file.key_number) signer = &c->keys[i];
    found->number = file.key_number;
    found->stranger = c->key_count && !signer;
    found->state = TSR_SIGNATURE_UNCHECKED;
    if (!signer) return TSR_SUCCESS;
    TRY(c->ctx, tsr_minisign_verify(c->ctx, c->bundle, found->path, &file, c->crypto, signer));
    found->key_id = signer->id;
    found->state = TSR_SIGNATURE_GOOD;
    return TSR_SUCCESS;
}

/* Reports the strongest state of all findings. An unknown signer is an error only if no file is
 * good. */
static tsr_result judge(checker *c, const finding *found, size_t count,
                        const tsr_signature_policy *policy, tsr_signature_report *report) {
    const finding *stranger = NULL;
    char hex[TSR_DIGEST_HEX + 1];
    for (size_t i = 0; i < count; i++) {
        if (found[i].stranger && !stranger) stranger = &found[i];
        if (found[i].stranger || found[i].state <= report->state) continue;
        report->state = found[i].state;
        report->key_id = found[i].key_id;
    }
    if (report->state == TSR_SIGNATURE_GOOD) return TSR_SUCCESS;
    if (stranger) {
        char expected[48] = "the one given";
        if (policy->key_count != 1)
            snprintf(expected, sizeof expected, "one of the %zu given", policy->key_count);
        tsr_digest_format(&stranger->key_id, hex);
        if (stranger->number)
            FAIL(c->ctx, TSR_SIGNATURE, "%s: signed by minisign key %016" PRIx64 "; expected %s",
                 stranger->path, stranger->number, expected);
        FAIL(c->ctx, TSR_SIGNATURE, "%s: signed by key sha256:%s; expected %s", stranger->path, hex,
             expected);
    }
    if (report->state != TSR_SIGNATURE_ABSENT) return TSR_SUCCESS;
    if (policy->required)
        FAIL(c->ctx, TSR_SIGNATURE, "'%s' is not signed: expected a signature in '%s', got no file",
             tsr_bundle_get_path(c->bundle), found[0].path);
    if (policy->key_count)
        tsr_log(c->ctx, TSR_LOG_WARNING, "'%s' is not signed: there is no '%s'",
                tsr_bundle_get_path(c->bundle), found[0].path);
    return TSR_SUCCESS;
}

static tsr_result check(checker *c, const tsr_signature_policy *policy,
                        tsr_signature_report *report) {
    static const struct {
        const char *suffix;
        tsr_result (*check)(checker *c, const void *bytes, size_t size, finding *found);
    } kinds[] = {{TSR_SIGNATURE_SUFFIX, check_sigstore}, {TSR_MINISIGN_SUFFIX, check_minisign}};
    enum { KINDS = TSR_COUNT(kinds) };
    finding found[KINDS] = {0};
    for (size_t i = 0; i < KINDS; i++) {
        char *path = NULL;
        void *bytes = NULL;
        size_t size = 0;
        TRY(c->ctx, find_path(c->ctx, c->bundle, kinds[i].suffix, c->arena, &path));
        found[i].path = path;
        TRY(c->ctx, read_file(c->ctx, path, c->arena, &bytes, &size));
        if (bytes) TRY(c->ctx, kinds[i].check(c, bytes, size, &found[i]));
    }
    return judge(c, found, KINDS, policy, report);
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
        FAIL(ctx, TSR_USAGE, "a signature is required, but no key is given to check it");
    if (policy->key_count > TSR_SIGNATURE_KEYS_MAX)
        FAIL(ctx, TSR_USAGE, "%zu keys are given; at most %d are accepted", policy->key_count,
             TSR_SIGNATURE_KEYS_MAX);
    if (policy->key_count) TRY_GOTO(ctx, result, tsr_crypto_init(ctx, &crypto));
    for (; count < policy->key_count; count++)
        TRY_GOTO(ctx, result, tsr_key_read(ctx, &crypto, policy->keys[count], false, &keys[count]));
    checker c = {ctx, bundle, &crypto, keys, count, &arena};
    TRY_GOTO(ctx, result, check(&c, policy, &report));
    *out_report = report;
done:
    for (size_t i = 0; i < count; i++) tsr_key_finish(&keys[i]);
    tsr_crypto_finish(&crypto);
    tsr_arena_finish(&arena);
    return result;
}
