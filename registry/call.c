/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends a request until it is answered: follows redirects, logs in if the registry asks for it,
 * retries if that may help. Also the state of the registry that all threads share.
 */
#include "registry/http.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

/* ---- the registry ---- */

static void fill_in(tsr_registry_options *o, const tsr_registry_options *given) {
    *o = given ? *given : (tsr_registry_options){0};
    if (!o->retries) o->retries = TSR_REGISTRY_RETRIES;
    if (o->no_retries) o->retries = 0;
    if (!o->retry_delay_ms) o->retry_delay_ms = TSR_REGISTRY_RETRY_DELAY_MS;
    if (!o->timeout_s) o->timeout_s = TSR_REGISTRY_TIMEOUT_S;
    if (!o->jobs) o->jobs = TSR_REGISTRY_JOBS;
    if (o->jobs > TSR_REGISTRY_JOBS_MAX) o->jobs = TSR_REGISTRY_JOBS_MAX;
    if (o->retries > TSR_REGISTRY_RETRIES_MAX) o->retries = TSR_REGISTRY_RETRIES_MAX;
    if (o->timeout_s > TSR_REGISTRY_TIMEOUT_MAX_S) o->timeout_s = TSR_REGISTRY_TIMEOUT_MAX_S;
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static bool curl_ready;
static void start_curl(void) { curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK; }

tsr_result tsr_remote_init(tsr_ctx *ctx, tsr_remote *remote, const char *reference,
                           const tsr_registry_options *options, bool push,
                           const char *const *mount_names, size_t mount_count) {
    TSR_ASSERT(!options || options->size_bytes == sizeof *options);
    *remote = (tsr_remote){.progress_what = ""};
    fill_in(&remote->options, options);
    TRY(ctx, tsr_reference_parse(ctx, reference, &remote->reference));
    const tsr_registry_options *o = &remote->options;
    const char *host = remote->reference.host;
    if (o->plain_http && (o->ca_path || o->insecure))
        FAIL(ctx, TSR_USAGE, "plain HTTP has no certificates: --ca and --insecure are for TLS");
    bool plain = o->plain_http || (tsr_host_is_loopback(host) && !o->ca_path && !o->insecure);
    if (strcmp(host, "docker.io") == 0) host = "registry-1.docker.io";
    snprintf(remote->base, sizeof remote->base, "%s://%s", plain ? "http" : "https", host);
    int length = snprintf(remote->scope, sizeof remote->scope, "repository:%s:%s",
                          remote->reference.name, push ? "pull,push" : "pull");
    for (size_t i = 0; i < mount_count; i++) {
        size_t capacity = sizeof remote->scope - (size_t)length;
        if (!tsr_reference_name_valid(mount_names[i]))
            FAIL(ctx, TSR_USAGE, "repository '%.300s' to mount from: expected a name without host",
                 mount_names[i]);
        int more =
            snprintf(remote->scope + length, capacity, " repository:%s:pull", mount_names[i]);
        if ((size_t)more >= capacity)
            FAIL(ctx, TSR_USAGE, "too many repositories to mount from: %zu", mount_count);
        length += more;
    }
    pthread_once(&curl_once, start_curl);
    if (!curl_ready) FAIL(ctx, TSR_INTERNAL, "libcurl does not start");
    pthread_mutex_init(&remote->mutex, NULL);
    return TSR_SUCCESS;
}

void tsr_remote_finish(tsr_remote *remote) {
    if (remote->auth.header) OPENSSL_cleanse(remote->auth.header, strlen(remote->auth.header));
    free(remote->auth.header);
    remote->auth.header = NULL;
    pthread_mutex_destroy(&remote->mutex);
}

static void tell_progress(tsr_remote *remote, bool always) {
    struct timespec now;
    if (!remote->options.progress) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double since = (double)(now.tv_sec - remote->progress_last.tv_sec) +
                   (double)(now.tv_nsec - remote->progress_last.tv_nsec) * 1e-9;
    if (since < 0.1 && !always) return;
    remote->progress_last = now;
    const tsr_registry_progress progress = {remote->progress_what, remote->progress_done,
                                            remote->progress_total};
    remote->options.progress(remote->options.user, &progress);
}

void tsr_remote_begin(tsr_remote *remote, const char *what, uint64_t total_bytes) {
    pthread_mutex_lock(&remote->mutex);
    remote->progress_what = what;
    remote->progress_total = total_bytes;
    remote->progress_done = 0;
    tell_progress(remote, true);
    pthread_mutex_unlock(&remote->mutex);
}

void tsr_remote_advance(tsr_remote *remote, int64_t bytes) {
    pthread_mutex_lock(&remote->mutex);
    remote->progress_done += (uint64_t)bytes;
    tell_progress(remote, remote->progress_done == remote->progress_total);
    pthread_mutex_unlock(&remote->mutex);
}

void tsr_remote_skip(tsr_remote *remote, uint64_t bytes) {
    pthread_mutex_lock(&remote->mutex);
    remote->progress_total -= bytes;
    tell_progress(remote, remote->progress_done == remote->progress_total);
    pthread_mutex_unlock(&remote->mutex);
}

/* A login is renewed under the mutex, by requests that call this function. */
void tsr_remote_tick(tsr_remote *remote) {
    if (pthread_mutex_trylock(&remote->mutex) != 0) return;
    if (remote->progress_done < remote->progress_total) tell_progress(remote, false);
    pthread_mutex_unlock(&remote->mutex);
}

void tsr_remote_report(tsr_remote *remote, tsr_registry_report *report) {
    report->sent_bytes = atomic_load(&remote->sent_bytes);
    report->received_bytes = atomic_load(&remote->received_bytes);
    report->request_count = atomic_load(&remote->request_count);
    report->retry_count = atomic_load(&remote->retry_count);
}

/* ---- retries ---- */

/* Returns the seconds of Retry-After: a number, or a date (RFC 9110 section 10.2.3). */
static bool retry_after(const tsr_http_response *response, double *out_seconds) {
    const char *text = tsr_http_header(response, "retry-after", 0);
    if (!text) return false;
    size_t digits = strspn(text, "0123456789");
    if (digits && !text[digits]) {
        *out_seconds = strtod(text, NULL);
        return true;
    }
    time_t when = curl_getdate(text, NULL);
    if (when < 0) return false;
    double seconds = difftime(when, time(NULL));
    *out_seconds = seconds > 0 ? seconds : 0;
    return true;
}

static void sleep_for(const tsr_remote *remote, double seconds) {
    while (seconds > 0 && !atomic_load(&remote->stop)) {
        double part = seconds < 0.1 ? seconds : 0.1;
        struct timespec wait = {0, (long)(part * 1e9)};
        nanosleep(&wait, NULL);
        seconds -= part;
    }
}

bool tsr_retry_wait(tsr_http *http, tsr_retry *retry, const tsr_http_response *response) {
    tsr_remote *remote = http->remote;
    double seconds = remote->options.retry_delay_ms * 1e-3, after = 0;
    unsigned char dice = 0;
    if (atomic_load(&remote->stop) || retry->attempts >= remote->options.retries) return false;
    for (unsigned i = 0; i < retry->attempts && seconds < TSR_REGISTRY_RETRY_DELAY_MAX_MS * 1e-3;
         i++)
        seconds *= 2;
    if (seconds > TSR_REGISTRY_RETRY_DELAY_MAX_MS * 1e-3)
        seconds = TSR_REGISTRY_RETRY_DELAY_MAX_MS * 1e-3;
    /* so that not all clients retry at once */
    if (RAND_bytes(&dice, 1) == 1) seconds *= 0.75 + dice / 512.0;
    if (response && retry_after(response, &after)) {
        if (after > TSR_REGISTRY_RETRY_AFTER_MAX_S) return false;
        if (after > seconds) seconds = after;
    }
    retry->attempts++;
    atomic_fetch_add(&remote->retry_count, 1);
    sleep_for(remote, seconds);
    return !atomic_load(&remote->stop);
}

/* ---- errors of a status ---- */

static bool status_may_pass(long status) {
    return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504;
}

/* Makes a server's text presentable in a message: one line, printable, short. */
static void show(char *out, size_t capacity, const char *text) {
    size_t length = 0;
    for (; text[length] && length + 1 < capacity; length++)
        out[length] = (char)(text[length] >= 0x20 && text[length] < 0x7f ? text[length] : '?');
    out[length] = 0;
}

/* Shows the first error of {"errors":[{"code":…,"message":…}]}, or the start of the text. */
static void show_errors(char *out, size_t capacity, const tsr_buffer *body) {
    tsr_ctx ctx = {0};
    const tsr_json_options options = {"answer", TSR_NETWORK, true};
    struct cJSON *root = NULL;
    char text[300] = "", code[64] = "";
    out[0] = 0;
    if (!body->size_bytes) return;
    if (!tsr_json_parse(&ctx, body->bytes, body->size_bytes, &options, &root).code) {
        const struct cJSON *errors = cJSON_GetObjectItemCaseSensitive(root, "errors");
        const struct cJSON *item = cJSON_IsArray(errors) ? errors->child : NULL;
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "code"));
        const char *message =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "message"));
        if (name) show(code, sizeof code, name);
        if (message) show(text, sizeof text, message);
        tsr_json_destroy(root);
        if (name || message) {
            snprintf(out, capacity, ": %s: %s", code, text);
            return;
        }
    }
    show(text, 120, body->bytes);
    snprintf(out, capacity, ": '%s'", text);
}

tsr_result tsr_http_refuse(tsr_ctx *ctx, const tsr_http *http, const tsr_http_response *response,
                           const char *what) {
    const tsr_reference *reference = &http->remote->reference;
    char text[400];
    long status = response->status;
    tsr_code code = TSR_NETWORK;
    if (status == 401 || status == 403 || status == 407) code = TSR_DENIED;
    if (status == 404 || status == 410) code = TSR_ABSENT;
    show_errors(text, sizeof text, &response->body);
    double after = 0;
    if (retry_after(response, &after) && after > TSR_REGISTRY_RETRY_AFTER_MAX_S)
        FAIL(ctx, code,
             "registry '%s', repository '%s': %s: status %ld, try again in %.0f seconds%s",
             reference->host, reference->name, what, status, after, text);
    FAIL(ctx, code, "registry '%s', repository '%s': %s: status %ld%s", reference->host,
         reference->name, what, status, text);
}

/* ---- a request until it is answered ---- */

/* Copies the header for the registry's own origin; *out is owned. */
static tsr_result copy_authorization(tsr_ctx *ctx, tsr_remote *remote, char **out,
                                     unsigned *out_generation) {
    pthread_mutex_lock(&remote->mutex);
    bool wanted = remote->auth.header;
    *out = wanted ? strdup(remote->auth.header) : NULL;
    *out_generation = remote->auth.generation;
    pthread_mutex_unlock(&remote->mutex);
    if (wanted && !*out) FAIL(ctx, TSR_MEMORY, "no memory for a request");
    return TSR_SUCCESS;
}

static bool is_redirect(const tsr_http_request *request, long status) {
    bool reads = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    if (status == 307 || status == 308) return true;
    return reads && (status == 301 || status == 302 || status == 303);
}

static tsr_result send_with_login(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                                  const char *url, tsr_http_response *response) {
    tsr_remote *remote = http->remote;
    char *authorization = NULL;
    unsigned generation = 0;
    bool ours = tsr_url_same_origin(url, remote->base);
    for (unsigned round = 0;; round++) {
        if (ours) TRY(ctx, copy_authorization(ctx, remote, &authorization, &generation));
        tsr_result result = tsr_http_send(ctx, http, request, url, authorization, response);
        if (authorization) OPENSSL_cleanse(authorization, strlen(authorization));
        free(authorization);
        authorization = NULL;
        TRY(ctx, result);
        if (response->status != 401 || !ours || round == 1) return TSR_SUCCESS;
        TRY(ctx, tsr_auth_renew(ctx, http, response, generation));
    }
}

static tsr_result follow(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         tsr_http_response *response) {
    char url[TSR_URL_MAX], next[TSR_URL_MAX];
    if (strlen(request->url) >= sizeof url)
        FAIL(ctx, TSR_NETWORK, "the address '%.200s…' is too long", request->url);
    strcpy(url, request->url);
    for (unsigned hops = 0;; hops++) {
        TRY(ctx, send_with_login(ctx, http, request, url, response));
        const char *location = tsr_http_header(response, "location", 0);
        if (!is_redirect(request, response->status) || !location) return TSR_SUCCESS;
        if (hops == TSR_REGISTRY_REDIRECTS_MAX)
            FAIL(ctx, TSR_NETWORK, "registry '%s': '%.300s': more than %d redirects",
                 http->remote->reference.host, request->url, TSR_REGISTRY_REDIRECTS_MAX);
        TRY(ctx, tsr_url_resolve(ctx, url, location, next));
        strcpy(url, next);
    }
}

tsr_result tsr_http_call(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         tsr_http_response *response) {
    tsr_retry retry = {0};
    for (;;) {
        tsr_result result = request->foreign
                                ? tsr_http_send(ctx, http, request, request->url, NULL, response)
                                : follow(ctx, http, request, response);
        if (!result.code) response->retry = status_may_pass(response->status);
        if (request->once || !response->retry || !tsr_retry_wait(http, &retry, response))
            return result;
        tsr_error_clear(ctx);
    }
}
