/* SPDX-License-Identifier: Apache-2.0
 *
 * Logging in: a 401 names the schemes that the registry accepts (RFC 9110 section 11.6.1). A
 * password answers "Basic" directly and "Bearer" by a token, which is fetched from the server that
 * the registry names ("Token Authentication Specification" of the distribution project; refresh
 * tokens: RFC 6749 section 6).
 */
#include "registry/credentials.h"
#include "registry/http.h"
#include "runtime/base/io/json.h"

#include <ctype.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct challenge {
    bool basic, bearer;
    char realm[1024], service[512]; /* parameters of bearer */
    char other[32];                 /* another scheme that the registry named */
} challenge;

/* ---- the challenge ---- */

static size_t word(const char *at) { return strcspn(at, " \t,=\""); }
static const char *skip(const char *at) { return at + strspn(at, " \t,"); }

/* Parses `key=value` or `key="value"`; returns the end, or NULL if it is too long or not closed. */
static const char *parse_value(const char *at, char *out, size_t capacity) {
    size_t length = 0;
    bool quoted = *at == '"';
    if (!quoted) {
        length = strcspn(at, " \t,");
        if (length >= capacity) return NULL;
        memcpy(out, at, length);
        out[length] = 0;
        return at + length;
    }
    for (at++; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1]) at++;
        if (length + 1 >= capacity) return NULL;
        out[length++] = *at;
    }
    out[length] = 0;
    return *at == '"' ? at + 1 : NULL;
}

static void parse_challenge(const char *at, challenge *out) {
    bool bearer = false;
    char value[1024];
    for (at = skip(at); *at; at = skip(at)) {
        size_t length = word(at);
        const char *end = at + length;
        if (!length) return;
        if (*end != '=') { /* a scheme */
            bearer = length == 6 && strncasecmp(at, "Bearer", 6) == 0;
            bool basic = length == 5 && strncasecmp(at, "Basic", 5) == 0;
            out->bearer |= bearer;
            out->basic |= basic;
            if (!bearer && !basic && length < sizeof out->other) {
                memcpy(out->other, at, length);
                out->other[length] = 0;
            }
            at = end;
            continue;
        }
        const char *after = parse_value(end + 1, value, sizeof value);
        if (!after) return;
        if (bearer && length == 5 && strncasecmp(at, "realm", 5) == 0) strcpy(out->realm, value);
        if (bearer && length == 7 && strncasecmp(at, "service", 7) == 0 &&
            strlen(value) < sizeof out->service)
            strcpy(out->service, value);
        at = after;
    }
}

static tsr_result read_challenge(tsr_ctx *ctx, const tsr_remote *remote,
                                 const tsr_http_response *response, challenge *out) {
    const char *value;
    for (size_t i = 0; i < 8 && (value = tsr_http_header(response, "www-authenticate", i)); i++)
        parse_challenge(value, out);
    for (char *at = out->other; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '-') *at = '?';
    if (out->bearer || out->basic) return TSR_SUCCESS;
    FAIL(ctx, TSR_DENIED, "registry '%s' asks for a login by '%s'; known are Basic and Bearer",
         remote->reference.host, out->other[0] ? out->other : "no scheme");
}

/* ---- tokens ---- */

/* The password must not be sent in clear text unless the user has asked for that. */
static tsr_result check_realm(tsr_ctx *ctx, const tsr_remote *remote, const char *realm) {
    char url[TSR_URL_MAX];
    TRY(ctx, tsr_url_resolve(ctx, remote->base, realm, url));
    if (strncmp(url, "https:", 6) == 0 || remote->options.plain_http) return TSR_SUCCESS;
    if (tsr_host_is_loopback(url + strlen("http://"))) return TSR_SUCCESS;
    FAIL(ctx, TSR_DENIED, "registry '%s' names the token server '%.200s': expected https",
         remote->reference.host, realm);
}

typedef struct token_call {
    char *url, *form; /* owned */
    char *basic;      /* owned; or NULL */
} token_call;

static void token_call_finish(token_call *call) {
    if (call->basic) OPENSSL_cleanse(call->basic, strlen(call->basic));
    if (call->form) OPENSSL_cleanse(call->form, strlen(call->form));
    free(call->basic);
    free(call->form);
    free(call->url);
}

/* Each scope becomes a parameter of its own: appends "&scope=…" for each. */
static bool put_scopes(CURL *easy, tsr_buffer *out, const char *scopes) {
    for (const char *at = scopes; *at;) {
        size_t length = strcspn(at, " ");
        char *escaped = curl_easy_escape(easy, at, (int)length);
        if (!escaped) return false;
        tsr_buffer_printf(out, "&scope=%s", escaped);
        curl_free(escaped);
        at += length;
        at += strspn(at, " ");
    }
    return true;
}

static tsr_result prepare_token_call(tsr_ctx *ctx, const tsr_http *http, const challenge *wanted,
                                     const tsr_credential *credential, token_call *out) {
    const tsr_remote *remote = http->remote;
    tsr_buffer url = {0}, form = {0};
    bool refresh = credential->kind == TSR_CREDENTIAL_IDENTITY;
    char *service = curl_easy_escape(http->easy, wanted->service, 0);
    char *secret = refresh ? curl_easy_escape(http->easy, credential->secret, 0) : NULL;
    char *scope = refresh ? curl_easy_escape(http->easy, remote->scope, 0) : NULL;
    bool good = service && (!refresh || (secret && scope));
    tsr_buffer_text(&url, wanted->realm);
    if (good && refresh) {
        tsr_buffer_printf(&form,
                          "grant_type=refresh_token&client_id=tessera&service=%s&scope=%s"
                          "&refresh_token=%s",
                          service, scope, secret);
    } else if (good) {
        tsr_buffer_printf(&url, "%cservice=%s", strchr(wanted->realm, '?') ? '&' : '?', service);
        good = put_scopes(http->easy, &url, remote->scope);
    }
    if (secret) OPENSSL_cleanse(secret, strlen(secret));
    curl_free(secret);
    curl_free(scope);
    curl_free(service);
    *out = (token_call){.url = url.bytes, .form = form.bytes};
    if (good && credential->kind == TSR_CREDENTIAL_PASSWORD) {
        out->basic = tsr_credential_basic(credential);
        good = out->basic;
    }
    if (!good || url.failed || form.failed) {
        token_call_finish(out);
        FAIL(ctx, TSR_MEMORY, "no memory for a login");
    }
    return TSR_SUCCESS;
}

static tsr_result copy_form(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    (void)ctx;
    memcpy(bytes, (const char *)user + offset, size);
    return TSR_SUCCESS;
}

/* Parses {"token": …} or {"access_token": …}. Text that is not a token of RFC 6750 is refused,
 * because it would be copied into a header. */
static tsr_result parse_token(tsr_ctx *ctx, const char *realm, const tsr_buffer *body,
                              char **out_header) {
    static const char start[] = "Authorization: Bearer ";
    char subject[256];
    struct cJSON *root = NULL;
    const char *token = NULL;
    tsr_result result = TSR_SUCCESS;
    snprintf(subject, sizeof subject, "token server '%.200s'", realm);
    const tsr_json_options options = {subject, TSR_NETWORK, true};
    TRY(ctx,
        tsr_json_parse(ctx, body->bytes ? body->bytes : "", body->size_bytes, &options, &root));
    const char *key = tsr_json_find(root, "token") ? "token" : "access_token";
    TRY_GOTO(ctx, result, tsr_json_get_string(ctx, root, key, &options, &token));
    size_t size = strlen(token);
    if (!size || size > TSR_AUTHORIZATION_MAX)
        FAIL_GOTO(ctx, result, TSR_NETWORK, "%s: token: expected 1 to %d characters, got %zu",
                  subject, TSR_AUTHORIZATION_MAX, size);
    for (size_t i = 0; i < size; i++)
        if (token[i] <= 0x20 || token[i] >= 0x7f)
            FAIL_GOTO(ctx, result, TSR_NETWORK,
                      "%s: token: expected printable characters, got 0x%02x at %zu", subject,
                      (unsigned char)token[i], i);
    char *header = malloc(sizeof start + size);
    if (!header) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a login");
    snprintf(header, sizeof start + size, "%s%s", start, token);
    *out_header = header;
done:
    tsr_json_destroy(root);
    return result;
}

static tsr_result refuse_login(tsr_ctx *ctx, const tsr_remote *remote,
                               const tsr_credential *credential, long status) {
    if (credential->kind == TSR_CREDENTIAL_NONE)
        FAIL(ctx, TSR_DENIED,
             "registry '%s' requires a login (status %ld), but no file has a login for it; give "
             "one with --authfile, or log in with another OCI tool",
             remote->reference.host, status);
    FAIL(ctx, TSR_DENIED, "registry '%s' refuses the login%s%.100s%s (status %ld)",
         remote->reference.host, credential->user ? " of '" : "",
         credential->user ? credential->user : "", credential->user ? "'" : "", status);
}

static tsr_result fetch_token(tsr_ctx *ctx, tsr_http *http, const challenge *wanted,
                              const tsr_credential *credential, char **out_header) {
    tsr_http_response response = {0};
    token_call call = {0};
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, check_realm(ctx, http->remote, wanted->realm));
    TRY(ctx, prepare_token_call(ctx, http, wanted, credential, &call));
    tsr_http_request request = {.method = call.form ? "POST" : "GET",
                                .url = call.url,
                                .headers = {"Accept: application/json"},
                                .body_bytes_max = TSR_REGISTRY_MESSAGE_BYTES_MAX,
                                .foreign = true};
    if (call.basic) request.headers[1] = call.basic;
    if (call.form) {
        request.headers[1] = "Content-Type: application/x-www-form-urlencoded";
        request.source = copy_form;
        request.source_user = call.form;
        request.source_bytes = strlen(call.form);
    }
    TRY_GOTO(ctx, result, tsr_http_call(ctx, http, &request, &response));
    if (response.status == 401 || response.status == 403)
        TRY_GOTO(ctx, result, refuse_login(ctx, http->remote, credential, response.status));
    if (response.status != 200)
        FAIL_GOTO(ctx, result, TSR_NETWORK, "token server '%.200s': expected status 200, got %ld",
                  wanted->realm, response.status);
    TRY_GOTO(ctx, result, parse_token(ctx, wanted->realm, &response.body, out_header));
done:
    if (response.body.bytes) OPENSSL_cleanse(response.body.bytes, response.body.size_bytes);
    tsr_http_response_finish(&response);
    token_call_finish(&call);
    return result;
}

/* ---- answering a 401 ---- */

static tsr_result make_header(tsr_ctx *ctx, tsr_http *http, const challenge *wanted,
                              const tsr_credential *credential, char **out_header) {
    const tsr_remote *remote = http->remote;
    if (credential->kind == TSR_CREDENTIAL_TOKEN) {
        size_t capacity = strlen(credential->secret) + 32;
        *out_header = malloc(capacity);
        if (*out_header)
            snprintf(*out_header, capacity, "Authorization: Bearer %s", credential->secret);
    } else if (wanted->bearer) {
        if (!wanted->realm[0])
            FAIL(ctx, TSR_NETWORK, "registry '%s' asks for a token and names no token server",
                 remote->reference.host);
        return fetch_token(ctx, http, wanted, credential, out_header);
    } else {
        if (credential->kind != TSR_CREDENTIAL_PASSWORD)
            return refuse_login(ctx, remote, credential, 401);
        *out_header = tsr_credential_basic(credential);
    }
    if (!*out_header) FAIL(ctx, TSR_MEMORY, "no memory for a login");
    return TSR_SUCCESS;
}

static tsr_result renew(tsr_ctx *ctx, tsr_http *http, const tsr_http_response *response) {
    tsr_remote *remote = http->remote;
    challenge wanted = {0};
    tsr_credential credential = {0};
    char *header = NULL;
    TRY(ctx, read_challenge(ctx, remote, response, &wanted));
    TRY(ctx, tsr_credential_find(ctx, &remote->options, &remote->reference, &credential));
    tsr_result result = make_header(ctx, http, &wanted, &credential, &header);
    if (!result.code && remote->auth.header && strcmp(remote->auth.header, header) == 0) {
        free(header); /* the same header would be refused again */
        result = refuse_login(ctx, remote, &credential, 401);
    } else if (!result.code) {
        if (remote->auth.header) OPENSSL_cleanse(remote->auth.header, strlen(remote->auth.header));
        free(remote->auth.header);
        remote->auth.header = header;
        remote->auth.generation++;
    }
    tsr_credential_finish(&credential);
    return result;
}

tsr_result tsr_auth_renew(tsr_ctx *ctx, tsr_http *http, const tsr_http_response *response,
                          unsigned generation) {
    tsr_remote *remote = http->remote;
    tsr_result result = TSR_SUCCESS;
    pthread_mutex_lock(&remote->mutex);
    if (remote->auth.generation == generation) result = renew(ctx, http, response);
    pthread_mutex_unlock(&remote->mutex);
    return result;
}
