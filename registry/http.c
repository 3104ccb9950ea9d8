/* SPDX-License-Identifier: Apache-2.0
 *
 * One exchange over libcurl: request out, answer in, within limits. Redirects, logins and retries
 * are in call.c.
 */
#include "registry/http.h"

#include "runtime/base/plural.h"

#include <ctype.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* State shared by the callbacks of one exchange. */
typedef struct exchange {
    tsr_ctx *ctx;
    tsr_http *http;
    const tsr_http_request *request;
    tsr_http_response *response;
    tsr_result result; /* error of a callback */
    uint64_t source_offset;
    uint64_t body_bytes, header_bytes;
    bool sinking, cut; /* cut: the stored part of an error's body is long enough */
} exchange;

/* ---- callbacks ---- */

static size_t on_header(char *bytes, size_t size, size_t count, void *user) {
    exchange *x = user;
    tsr_buffer *headers = &x->response->headers;
    size_t length = size * count, end = length;
    atomic_fetch_add(&x->http->remote->received_bytes, length);
    /* a new response after a 1xx */
    if (length >= 5 && memcmp(bytes, "HTTP/", 5) == 0) headers->size_bytes = 0;
    x->header_bytes += length;
    if (x->header_bytes > TSR_REGISTRY_HEADER_BYTES_MAX) {
        x->result =
            tsr_fail_(x->ctx, TSR_NETWORK, 0, __FILE__, __LINE__,
                      "registry '%s': headers of an answer: expected at most %d bytes, got more",
                      x->http->remote->reference.host, TSR_REGISTRY_HEADER_BYTES_MAX);
        return 0;
    }
    while (end && (bytes[end - 1] == '\n' || bytes[end - 1] == '\r' || bytes[end - 1] == ' '))
        end--;
    char *colon = memchr(bytes, ':', end);
    if (!colon || memchr(bytes, 0, end)) return length;
    for (char *at = bytes; at < colon; at++) *at = (char)tolower((unsigned char)*at);
    tsr_buffer_append(headers, bytes, end);
    tsr_buffer_append(headers, "", 1);
    return length;
}

const char *tsr_http_header(const tsr_http_response *response, const char *name, size_t index) {
    size_t length = strlen(name);
    const char *at = response->headers.bytes, *end = at + response->headers.size_bytes;
    for (; at && at < end; at += strlen(at) + 1) {
        if (strncmp(at, name, length) != 0 || at[length] != ':') continue;
        const char *value = at + length + 1;
        if (index-- == 0) return value + strspn(value, " \t");
    }
    return NULL;
}

/* Called at the first bytes of a body: decides where they go and checks the announced length. */
static void begin_body(exchange *x) {
    curl_off_t announced = -1;
    curl_easy_getinfo(x->http->easy, CURLINFO_RESPONSE_CODE, &x->response->status);
    curl_easy_getinfo(x->http->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    x->sinking = x->request->sink && (x->response->status == 200 || x->response->status == 206);
    if (x->sinking || x->response->status >= 300 || announced < 0) return;
    if ((uint64_t)announced > x->request->body_bytes_max)
        x->result = tsr_fail_(x->ctx, TSR_NETWORK, 0, __FILE__, __LINE__,
                              "'%.300s': expected at most %" PRIu64
                              " byte%s, the server announces %" PRIu64,
                              x->request->url, x->request->body_bytes_max,
                              TSR_PLURAL(x->request->body_bytes_max), (uint64_t)announced);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user) {
    exchange *x = user;
    size_t length = size * count;
    bool first = x->body_bytes == 0;
    atomic_fetch_add(&x->http->remote->received_bytes, length);
    if (first) begin_body(x);
    if (x->result.code) return 0;
    x->body_bytes += length;
    if (x->sinking) {
        x->result =
            x->request->sink(x->ctx, x->request->sink_user, x->response, first, bytes, length);
        return x->result.code ? 0 : length;
    }
    bool success = x->response->status < 300;
    uint64_t limit = success ? x->request->body_bytes_max : TSR_REGISTRY_MESSAGE_BYTES_MAX;
    if (x->body_bytes > limit && success)
        x->result =
            tsr_fail_(x->ctx, TSR_NETWORK, 0, __FILE__, __LINE__,
                      "'%.300s': expected at most %" PRIu64 " byte%s, the server sends more",
                      x->request->url, limit, TSR_PLURAL(limit));
    x->cut = x->body_bytes > limit;
    if (x->cut) return 0;
    tsr_buffer_append(&x->response->body, bytes, length);
    return length;
}

static size_t on_source(char *bytes, size_t size, size_t count, void *user) {
    exchange *x = user;
    uint64_t left = x->request->source_bytes - x->source_offset;
    size_t length = size * count < left ? size * count : (size_t)left;
    if (!length) return 0;
    x->result =
        x->request->source(x->ctx, x->request->source_user, x->source_offset, bytes, length);
    if (x->result.code) return CURL_READFUNC_ABORT;
    x->source_offset += length;
    atomic_fetch_add(&x->http->remote->sent_bytes, length);
    return length;
}

/* libcurl sends a body again if the server has closed the connection that it had kept. This is
 * refused if the caller must first ask how many bytes have arrived. */
static int on_seek(void *user, curl_off_t offset, int origin) {
    exchange *x = user;
    if (origin != SEEK_SET || (x->request->once && offset < (curl_off_t)x->source_offset))
        return CURL_SEEKFUNC_FAIL;
    x->source_offset = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const exchange *x = user;
    (void)a, (void)b, (void)c, (void)d;
    tsr_remote_tick(x->http->remote);
    return atomic_load(&x->http->remote->stop);
}

/* ---- one exchange ---- */

#define SET(option, value) curl_easy_setopt(easy, (option), (value))

static void set_up(CURL *easy, const tsr_remote *remote, exchange *x) {
    const tsr_registry_options *o = &remote->options;
    bool https = strncmp(x->request->url, "https:", 6) == 0;
    const char *proxy = https ? o->proxy_https : o->proxy_http;
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_CONNECTTIMEOUT, (long)o->timeout_s);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)o->timeout_s);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_PROXY, proxy ? proxy : ""); /* "": ignore the environment variables too */
    SET(CURLOPT_NOPROXY, o->no_proxy ? o->no_proxy : "");
    SET(CURLOPT_BUFFERSIZE, 256L * 1024);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
    if (o->ca_path) SET(CURLOPT_CAINFO, o->ca_path);
    if (o->insecure) {
        SET(CURLOPT_SSL_VERIFYPEER, 0L);
        SET(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, x);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, x);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, x);
}

static void set_method(CURL *easy, exchange *x) {
    const tsr_http_request *request = x->request;
    if (strcmp(request->method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
    } else if (request->source) {
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_READFUNCTION, on_source);
        SET(CURLOPT_READDATA, x);
        SET(CURLOPT_SEEKFUNCTION, on_seek);
        SET(CURLOPT_SEEKDATA, x);
        SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->source_bytes);
        SET(CURLOPT_CUSTOMREQUEST, request->method);
    } else if (strcmp(request->method, "GET") != 0) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDS, "");
        SET(CURLOPT_POSTFIELDSIZE, 0L);
        SET(CURLOPT_CUSTOMREQUEST, request->method);
    }
}

/* Failures of the transport that may not occur again if the request is repeated. */
static bool may_pass(CURLcode code) {
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
        return true;
    default:
        return false;
    }
}

static tsr_result tell_failure(tsr_ctx *ctx, const exchange *x, CURLcode code, const char *text) {
    const tsr_remote *remote = x->http->remote;
    const char *hint = "";
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        hint = "; a registry with a certificate of its own needs --ca FILE";
    else if (code == CURLE_SSL_CONNECT_ERROR && !remote->options.plain_http)
        hint = "; a registry without TLS needs --plain-http";
    x->response->retry = may_pass(code);
    FAIL(ctx, TSR_NETWORK, "registry '%s': %s '%.300s': %.200s%s", remote->reference.host,
         x->request->method, x->request->url, text[0] ? text : curl_easy_strerror(code), hint);
}

static bool add_header(struct curl_slist **list, const char *header) {
    struct curl_slist *longer = curl_slist_append(*list, header);
    if (longer) *list = longer;
    return longer;
}

static tsr_result perform(tsr_ctx *ctx, CURL *easy, exchange *x) {
    char text[CURL_ERROR_SIZE] = "";
    long request_bytes = 0;
    SET(CURLOPT_ERRORBUFFER, text);
    atomic_fetch_add(&x->http->remote->request_count, 1);
    CURLcode code = curl_easy_perform(easy);
    SET(CURLOPT_ERRORBUFFER, NULL);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &x->response->status);
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &request_bytes);
    atomic_fetch_add(&x->http->remote->sent_bytes, (uint64_t)request_bytes);
    if (x->result.code) return x->result;
    if (code == CURLE_OK || (x->cut && x->response->status >= 300)) return TSR_SUCCESS;
    return tell_failure(ctx, x, code, text);
}

tsr_result tsr_http_send(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         const char *url, const char *authorization, tsr_http_response *response) {
    tsr_http_request copy = *request;
    exchange x = {.ctx = ctx, .http = http, .request = &copy, .response = response};
    CURL *easy = http->easy;
    struct curl_slist *list = NULL;
    bool ok = add_header(&list, "Expect:");
    copy.url = url;
    for (size_t i = 0; request->headers[i]; i++) ok = ok && add_header(&list, request->headers[i]);
    if (authorization) ok = ok && add_header(&list, authorization);
    tsr_http_response_finish(response);
    curl_easy_reset(easy); /* does not close the connections */
    set_up(easy, http->remote, &x);
    set_method(easy, &x);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_USERAGENT, "tessera/" TSR_VERSION_TEXT);
    SET(CURLOPT_HTTPHEADER, list);
    if (!request->sink && !request->source)
        SET(CURLOPT_TIMEOUT, 4L * (long)http->remote->options.timeout_s);
    tsr_result result = TSR_SUCCESS;
    if (ok)
        result = perform(ctx, easy, &x);
    else
        result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for a request");
    if (!result.code && (response->headers.failed || response->body.failed))
        result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for an answer");
    curl_slist_free_all(list);
    return result;
}

void tsr_http_response_finish(tsr_http_response *response) {
    tsr_buffer_finish(&response->headers);
    tsr_buffer_finish(&response->body);
    *response = (tsr_http_response){0};
}

tsr_result tsr_http_init(tsr_ctx *ctx, tsr_http *http, tsr_remote *remote) {
    *http = (tsr_http){.remote = remote, .easy = curl_easy_init()};
    if (!http->easy) FAIL(ctx, TSR_MEMORY, "no memory for a connection");
    return TSR_SUCCESS;
}

void tsr_http_finish(tsr_http *http) {
    if (http->easy) curl_easy_cleanup(http->easy);
    http->easy = NULL;
}

/* ---- URLs ---- */

static tsr_result parse_url(tsr_ctx *ctx, const char *base, const char *location, CURLU **out) {
    CURLU *url = curl_url();
    char *scheme = NULL, *user = NULL;
    if (!url) FAIL(ctx, TSR_MEMORY, "no memory for a URL");
    bool good = strlen(location) < TSR_URL_MAX && !strpbrk(location, " \t\r\n") &&
                (!base || curl_url_set(url, CURLUPART_URL, base, 0) == CURLUE_OK) &&
                curl_url_set(url, CURLUPART_URL, location, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "https") == 0 || strcmp(scheme, "http") == 0) &&
                curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_NO_USER;
    curl_free(scheme);
    curl_free(user);
    if (good) {
        *out = url;
        return TSR_SUCCESS;
    }
    curl_url_cleanup(url);
    FAIL(ctx, TSR_NETWORK,
         "the server names the address '%.200s': expected http: or https:", location);
}

tsr_result tsr_url_resolve(tsr_ctx *ctx, const char *base, const char *location,
                           char out_url[static TSR_URL_MAX]) {
    CURLU *url = NULL;
    char *text = NULL;
    TRY(ctx, parse_url(ctx, base, location, &url));
    bool got =
        curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK && strlen(text) < TSR_URL_MAX;
    bool down = got && strncmp(base, "https:", 6) == 0 && strncmp(text, "http:", 5) == 0;
    if (got) strcpy(out_url, text);
    curl_free(text);
    curl_url_cleanup(url);
    if (!got) FAIL(ctx, TSR_NETWORK, "the server names the address '%.200s…': too long", location);
    if (down) FAIL(ctx, TSR_NETWORK, "the server leads from https to '%.200s': refused", location);
    return TSR_SUCCESS;
}

static bool same_part(CURLU *a, CURLU *b, CURLUPart part) {
    char *left = NULL, *right = NULL;
    bool same = curl_url_get(a, part, &left, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                curl_url_get(b, part, &right, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                strcasecmp(left, right) == 0;
    curl_free(left);
    curl_free(right);
    return same;
}

bool tsr_url_same_origin(const char *a, const char *b) {
    tsr_ctx ctx = {0};
    CURLU *left = NULL, *right = NULL;
    bool same = !parse_url(&ctx, NULL, a, &left).code && !parse_url(&ctx, NULL, b, &right).code &&
                same_part(left, right, CURLUPART_SCHEME) &&
                same_part(left, right, CURLUPART_HOST) && same_part(left, right, CURLUPART_PORT);
    curl_url_cleanup(left);
    curl_url_cleanup(right);
    return same;
}
