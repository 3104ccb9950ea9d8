/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/credentials.h"

#include "runtime/base/array.h"
#include "runtime/base/io/io.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = TSR_REFERENCE_HOST_MAX + TSR_REFERENCE_NAME_MAX + 2 };

static void wipe(char *text) {
    if (text) OPENSSL_cleanse(text, strlen(text));
    free(text);
}

void tsr_credential_finish(tsr_credential *credential) {
    wipe(credential->user);
    wipe(credential->secret);
    *credential = (tsr_credential){0};
}

/* ---- finding the entry ---- */

/* Compares a key of the file without its scheme and API path: "https://host/v1/" is "host". */
static bool key_equals(const char *key, const char *wanted) {
    static const char *const schemes[] = {"https://", "http://"};
    static const char *const ends[] = {"/v1/", "/v2/", "/v1", "/v2", "/"};
    size_t size;
    for (size_t i = 0; i < 2; i++)
        if (strncmp(key, schemes[i], strlen(schemes[i])) == 0) key += strlen(schemes[i]);
    size = strlen(key);
    for (size_t i = 0; i < TSR_COUNT(ends); i++) {
        size_t end = strlen(ends[i]);
        if (size > end && strcmp(key + size - end, ends[i]) == 0) {
            size -= end;
            break;
        }
    }
    return strlen(wanted) == size && memcmp(key, wanted, size) == 0;
}

static const struct cJSON *find_key(const struct cJSON *object, const char *wanted) {
    const struct cJSON *item;
    if (!cJSON_IsObject(object)) return NULL;
    cJSON_ArrayForEach(item, object) {
        if (key_equals(item->string, wanted)) return item;
    }
    return NULL;
}

/* Looks for "host/a/b", "host/a", "host"; Docker's own registry has several names. */
static const struct cJSON *find_entry(const struct cJSON *object, const tsr_reference *reference) {
    static const char *const hub[] = {"docker.io", "index.docker.io", "registry-1.docker.io"};
    char key[KEY_MAX];
    snprintf(key, sizeof key, "%s/%s", reference->host, reference->name);
    for (;;) {
        const struct cJSON *item = find_key(object, key);
        if (item) return item;
        char *slash = strrchr(key, '/');
        if (!slash) break;
        *slash = 0;
    }
    bool is_hub = strcmp(reference->host, hub[0]) == 0;
    for (size_t i = 0; is_hub && i < 3; i++) {
        const struct cJSON *item = find_key(object, hub[i]);
        if (item) return item;
    }
    return NULL;
}

/* ---- reading the entry ---- */

/* Decodes "auth": Base64 of "user:password". */
static bool decode_auth(const char *auth, tsr_credential *out) {
    size_t size = strlen(auth), pad = 0;
    unsigned char *plain = malloc(size + 4);
    bool good = plain && size && size % 4 == 0;
    int length = good ? EVP_DecodeBlock(plain, (const unsigned char *)auth, (int)size) : -1;
    while (good && pad < 2 && auth[size - 1 - pad] == '=') pad++;
    good = good && length > (int)pad;
    if (good) {
        size_t bytes = (size_t)length - pad;
        plain[bytes] = 0;
        char *colon = memchr(plain, ':', bytes);
        good = colon && !memchr(plain, 0, bytes) && !strpbrk((char *)plain, "\r\n");
        if (good) {
            out->user = strndup((char *)plain, (size_t)(colon - (char *)plain));
            out->secret = strdup(colon + 1);
            out->kind = TSR_CREDENTIAL_PASSWORD;
            good = out->user && out->secret;
        }
    }
    if (plain) OPENSSL_cleanse(plain, size + 4);
    free(plain);
    return good;
}

static const char *text_of(const struct cJSON *object, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text && text[0] ? text : NULL;
}

static tsr_result read_entry(tsr_ctx *ctx, const char *path, const struct cJSON *entry,
                             tsr_credential *out) {
    const char *auth = text_of(entry, "auth"), *identity = text_of(entry, "identitytoken");
    const char *token = text_of(entry, "registrytoken");
    const char *user = text_of(entry, "username"), *password = text_of(entry, "password");
    tsr_credential found = {0};
    if (identity || token) {
        found.kind = identity ? TSR_CREDENTIAL_IDENTITY : TSR_CREDENTIAL_TOKEN;
        found.secret = strdup(identity ? identity : token);
        if (!found.secret) FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
        if (strpbrk(found.secret, "\r\n")) {
            tsr_credential_finish(&found);
            FAIL(ctx, TSR_USAGE, "'%s': the token of '%s' has a line break", path, entry->string);
        }
    } else if (auth) {
        if (!decode_auth(auth, &found)) {
            tsr_credential_finish(&found);
            FAIL(ctx, TSR_USAGE,
                 "'%s': 'auth' of '%s': expected Base64 of user:password, got something else", path,
                 entry->string);
        }
    } else if (user && password) {
        found = (tsr_credential){TSR_CREDENTIAL_PASSWORD, strdup(user), strdup(password)};
        if (!found.user || !found.secret) {
            tsr_credential_finish(&found);
            FAIL(ctx, TSR_MEMORY, "no memory to read '%s'", path);
        }
    }
    *out = found;
    return TSR_SUCCESS;
}

static tsr_result search_file(tsr_ctx *ctx, const char *path, const struct cJSON *root,
                              const tsr_reference *reference, tsr_credential *out) {
    const struct cJSON *auths = cJSON_GetObjectItemCaseSensitive(root, "auths");
    const struct cJSON *helpers = cJSON_GetObjectItemCaseSensitive(root, "credHelpers");
    const struct cJSON *entry = find_entry(auths, reference);
    const struct cJSON *named = find_entry(helpers, reference);
    const char *helper = cJSON_GetStringValue(named);
    if (entry && !helper) {
        TRY(ctx, read_entry(ctx, path, entry, out));
        if (out->kind != TSR_CREDENTIAL_NONE) return TSR_SUCCESS;
        /* empty entry: the login is in the credential store */
        helper = text_of(root, "credsStore");
    }
    if (helper)
        FAIL(ctx, TSR_DENIED,
             "'%s' leaves the login for '%s' to the credential helper 'docker-credential-%.100s'; "
             "no other program is started: give a file with the login itself by --authfile",
             path, reference->host, helper);
    return TSR_SUCCESS;
}

static bool is_there(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = io->open(io->self, TSR_IO_CWD, path, O_PATH, 0);
    if (fd >= 0) io->close(io->self, fd);
    return fd >= 0;
}

static tsr_result read_file(tsr_ctx *ctx, const char *path, const tsr_reference *reference,
                            tsr_credential *out) {
    tsr_arena arena = {0};
    struct cJSON *root = NULL;
    void *bytes = NULL;
    size_t size = 0;
    tsr_result result = TSR_SUCCESS;
    const tsr_json_options options = {path, TSR_USAGE, true};
    TRY_GOTO(ctx, result,
             tsr_io_read_file(ctx, path, TSR_REGISTRY_AUTH_BYTES_MAX, &arena, &bytes, &size));
    TRY_GOTO(ctx, result, tsr_json_parse(ctx, bytes, size, &options, &root));
    result = search_file(ctx, path, root, reference, out);
done:
    tsr_json_destroy(root);
    if (bytes) OPENSSL_cleanse(bytes, size);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_credential_find(tsr_ctx *ctx, const tsr_registry_options *options,
                               const tsr_reference *reference, tsr_credential *out_credential) {
    tsr_credential found = {0};
    for (size_t i = 0; i < options->auth_path_count && found.kind == TSR_CREDENTIAL_NONE; i++) {
        const char *path = options->auth_paths[i];
        if (is_there(ctx, path)) TRY(ctx, read_file(ctx, path, reference, &found));
    }
    *out_credential = found;
    return TSR_SUCCESS;
}

char *tsr_credential_basic(const tsr_credential *credential) {
    static const char start[] = "Authorization: Basic ";
    size_t user = strlen(credential->user), secret = strlen(credential->secret);
    size_t plain_size = user + 1 + secret, capacity = sizeof start + (plain_size / 3 + 1) * 4 + 1;
    char *plain = malloc(plain_size + 1), *header = malloc(capacity);
    if (plain && header) {
        snprintf(plain, plain_size + 1, "%s:%s", credential->user, credential->secret);
        strcpy(header, start);
        EVP_EncodeBlock((unsigned char *)header + sizeof start - 1, (unsigned char *)plain,
                        (int)plain_size);
    } else {
        free(header);
        header = NULL;
    }
    wipe(plain);
    return header;
}
