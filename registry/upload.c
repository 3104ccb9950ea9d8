/* SPDX-License-Identifier: Apache-2.0
 *
 * Sending blobs: OCI distribution specification 1.1, "Pushing a blob in chunks". A blob of at most
 * one segment is sent by POST and PUT; a longer one by POST, a PATCH for each segment, PUT. After a
 * failure the registry is asked how many bytes it has; if it has forgotten the upload, the upload
 * restarts.
 */
#include "registry/transfer.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DAMAGED_MAX = 2 };

typedef struct upload {
    tsr_http *http;
    const tsr_blob_source *source;
    tsr_digest_text digest;
    char location[TSR_URL_MAX]; /* URL of the session; "" without one */
    uint64_t offset;            /* bytes that the registry has */
    uint64_t best;              /* the largest offset reached */
    uint64_t segment_bytes;
    uint64_t part;    /* offset of the part being sent */
    uint64_t told;    /* bytes reported as progress */
    unsigned damaged; /* how often the registry found other bytes than were sent */
    tsr_retry retry;
} upload;

static void put_url(const upload *u, char out[static TSR_URL_MAX], const char *rest) {
    snprintf(out, TSR_URL_MAX, "%s/v2/%s/blobs/%s", u->http->remote->base,
             u->http->remote->reference.name, rest);
}

static tsr_result ask(tsr_ctx *ctx, upload *u, bool *out_present) {
    char url[TSR_URL_MAX];
    tsr_http_response response = {0};
    put_url(u, url, u->digest.text);
    const tsr_http_request request = {.method = "HEAD", .url = url};
    tsr_result result = tsr_http_call(ctx, u->http, &request, &response);
    const char *length = tsr_http_header(&response, "content-length", 0);
    if (!result.code && response.status != 200 && response.status != 404)
        result = tsr_http_refuse(ctx, u->http, &response, "asking for a blob");
    else if (!result.code && response.status == 200 && length &&
             strtoull(length, NULL, 10) != u->source->size_bytes)
        result =
            tsr_fail_(ctx, TSR_CORRUPT, 0, __FILE__, __LINE__,
                      "registry '%s': blob %s: expected %" PRIu64 " byte%s, the registry has %.20s",
                      u->http->remote->reference.host, u->digest.text, u->source->size_bytes,
                      TSR_PLURAL(u->source->size_bytes), length);
    *out_present = !result.code && response.status == 200;
    tsr_http_response_finish(&response);
    return result;
}

/* ---- the session ---- */

/* Reads the URL of the next request of the session. */
static tsr_result read_location(tsr_ctx *ctx, upload *u, const char *url,
                                const tsr_http_response *response) {
    const char *location = tsr_http_header(response, "location", 0);
    char next[TSR_URL_MAX];
    if (!location)
        FAIL(ctx, TSR_NETWORK, "registry '%s': upload of a blob: the answer has no Location",
             u->http->remote->reference.host);
    TRY(ctx, tsr_url_resolve(ctx, url, location, next));
    strcpy(u->location, next);
    return TSR_SUCCESS;
}

static void read_minimum(upload *u, const tsr_http_response *response) {
    const char *text = tsr_http_header(response, "oci-chunk-min-length", 0);
    uint64_t least = text ? strtoull(text, NULL, 10) : 0;
    if (least > u->segment_bytes && least <= TSR_REGISTRY_SEGMENT_BYTES_MAX)
        u->segment_bytes = least;
}

static tsr_result start(tsr_ctx *ctx, upload *u, const char *mount_name, bool *out_mounted) {
    char url[TSR_URL_MAX], rest[TSR_REFERENCE_NAME_MAX + TSR_DIGEST_TEXT_BYTES + 64];
    tsr_http_response response = {0};
    tsr_result result = TSR_SUCCESS;
    *out_mounted = false;
    strcpy(rest, "uploads/");
    if (mount_name)
        snprintf(rest, sizeof rest, "uploads/?mount=%s&from=%s", u->digest.text, mount_name);
    put_url(u, url, rest);
    const tsr_http_request request = {
        .method = "POST", .url = url, .body_bytes_max = TSR_REGISTRY_MESSAGE_BYTES_MAX};
    TRY_GOTO(ctx, result, tsr_http_call(ctx, u->http, &request, &response));
    if (mount_name && response.status == 201) {
        *out_mounted = true;
        goto done;
    }
    if (response.status != 202)
        TRY_GOTO(ctx, result, tsr_http_refuse(ctx, u->http, &response, "upload of a blob"));
    TRY_GOTO(ctx, result, read_location(ctx, u, url, &response));
    read_minimum(u, &response);
    u->offset = 0;
done:
    tsr_http_response_finish(&response);
    return result;
}

static tsr_result read_part(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    upload *u = user;
    TRY(ctx, u->source->read(ctx, u->source->user, u->part + offset, bytes, size));
    u->told += size;
    tsr_remote_advance(u->http->remote, (int64_t)size);
    return TSR_SUCCESS;
}

/* Parses "0-99": the registry has 100 bytes. "0-0" may mean one byte or no bytes: returns false, as
 * if the upload were forgotten, because a new upload loses nothing. */
static bool read_range(const tsr_http_response *response, uint64_t size, uint64_t *out_offset) {
    const char *text = tsr_http_header(response, "range", 0);
    uint64_t last = 0;
    if (!text) return false;
    if (strncmp(text, "bytes=", 6) == 0) text += 6;
    if (sscanf(text, "0-%" SCNu64, &last) != 1 || !last || last >= size) return false;
    *out_offset = last + 1;
    return true;
}

/* Sends one segment; the status is in the response. */
static tsr_result send_segment(tsr_ctx *ctx, upload *u, tsr_http_response *response) {
    char range[80], url[TSR_URL_MAX];
    uint64_t left = u->source->size_bytes - u->offset;
    uint64_t size = left < u->segment_bytes ? left : u->segment_bytes;
    snprintf(range, sizeof range, "Content-Range: %" PRIu64 "-%" PRIu64, u->offset,
             u->offset + size - 1);
    strcpy(url, u->location);
    u->part = u->offset;
    const tsr_http_request request = {.method = "PATCH",
                                      .url = url,
                                      .headers = {"Content-Type: application/octet-stream", range},
                                      .source = read_part,
                                      .source_user = u,
                                      .source_bytes = size,
                                      .body_bytes_max = TSR_REGISTRY_MESSAGE_BYTES_MAX,
                                      .once = true};
    TRY(ctx, tsr_http_call(ctx, u->http, &request, response));
    if (response->status != 202 && response->status != 201 && response->status != 204)
        return tsr_http_refuse(ctx, u->http, response, "upload of a blob");
    TRY(ctx, read_location(ctx, u, url, response));
    u->offset += size;
    if (u->offset > u->best) {
        u->best = u->offset;
        u->retry.attempts = 0;
    }
    return TSR_SUCCESS;
}

/* Ends the session; a blob of one segment is sent with this request. */
static tsr_result close_session(tsr_ctx *ctx, upload *u, tsr_http_response *response) {
    char url[TSR_URL_MAX + TSR_DIGEST_TEXT_BYTES + 16];
    snprintf(url, sizeof url, "%s%cdigest=%s", u->location, strchr(u->location, '?') ? '&' : '?',
             u->digest.text);
    u->part = u->offset;
    const tsr_http_request request = {.method = "PUT",
                                      .url = url,
                                      .headers = {"Content-Type: application/octet-stream"},
                                      .source = read_part,
                                      .source_user = u,
                                      .source_bytes = u->source->size_bytes - u->offset,
                                      .body_bytes_max = TSR_REGISTRY_MESSAGE_BYTES_MAX,
                                      .once = true};
    TRY(ctx, tsr_http_call(ctx, u->http, &request, response));
    if (response->status == 201 || response->status == 204 || response->status == 200)
        return TSR_SUCCESS;
    return tsr_http_refuse(ctx, u->http, response, "end of the upload of a blob");
}

/* Asks the registry how many bytes it has; forgets a session that the registry has forgotten. */
static tsr_result recover(tsr_ctx *ctx, upload *u) {
    tsr_http_response response = {0};
    char url[TSR_URL_MAX];
    strcpy(url, u->location);
    const tsr_http_request request = {
        .method = "GET", .url = url, .body_bytes_max = TSR_REGISTRY_MESSAGE_BYTES_MAX};
    tsr_result result = tsr_http_call(ctx, u->http, &request, &response);
    bool known = !result.code &&
                 (response.status == 204 || response.status == 200 || response.status == 202) &&
                 read_range(&response, u->source->size_bytes, &u->offset);
    if (known && tsr_http_header(&response, "location", 0))
        result = read_location(ctx, u, url, &response);
    if (!known) {
        u->location[0] = 0;
        u->offset = 0;
    }
    tsr_http_response_finish(&response);
    if (u->offset > u->best) {
        u->best = u->offset;
        u->retry.attempts = 0;
    }
    return result;
}

/* ---- one blob ---- */

static tsr_result send_once(tsr_ctx *ctx, upload *u, tsr_http_response *response) {
    bool mounted;
    if (!u->location[0]) TRY(ctx, start(ctx, u, NULL, &mounted));
    if (u->source->size_bytes > u->segment_bytes)
        while (u->offset < u->source->size_bytes) TRY(ctx, send_segment(ctx, u, response));
    return close_session(ctx, u, response);
}

/* After these errors the upload may continue or restart: the connection broke, the server is busy,
 * the session has another offset (416) or is unknown (404), the bytes were damaged in transit
 * (400). */
static bool may_go_on(const tsr_http_response *response) {
    long status = response->status;
    return response->retry || status == 400 || status == 404 || status == 416;
}

/* After a failure: checks whether the blob exists now; if not, finds the offset at which the upload
 * continues. */
static tsr_result resume(tsr_ctx *ctx, upload *u, bool damaged, bool *out_present) {
    TRY(ctx, ask(ctx, u, out_present));
    if (*out_present) return TSR_SUCCESS;
    if (damaged) u->location[0] = 0;
    if (u->location[0])
        TRY(ctx, recover(ctx, u));
    else
        u->offset = 0;
    tsr_remote_advance(u->http->remote, (int64_t)(u->offset - u->told));
    u->told = u->offset;
    return TSR_SUCCESS;
}

static tsr_result send_blob(tsr_ctx *ctx, upload *u) {
    tsr_http_response response = {0};
    tsr_result result;
    for (bool present = false; !present;) {
        tsr_http_response_finish(&response);
        result = send_once(ctx, u, &response);
        if (!result.code || !may_go_on(&response)) break;
        bool damaged = response.status == 400;
        if (damaged && ++u->damaged > DAMAGED_MAX) break;
        if (!tsr_retry_wait(u->http, &u->retry, &response)) break;
        tsr_error_clear(ctx);
        result = resume(ctx, u, damaged, &present);
        if (result.code) break;
    }
    tsr_http_response_finish(&response);
    return result;
}

tsr_result tsr_blob_push(tsr_ctx *ctx, tsr_http *http, const tsr_blob_source *source,
                         const char *const *mount_names, size_t mount_count,
                         tsr_blob_fate *out_fate) {
    bool present = false;
    upload *u = calloc(1, sizeof *u);
    tsr_result result = TSR_SUCCESS;
    if (!u) FAIL(ctx, TSR_MEMORY, "no memory for an upload");
    u->http = http;
    u->source = source;
    u->digest = tsr_digest_text_of(&source->digest);
    u->segment_bytes = TSR_REGISTRY_SEGMENT_BYTES;
    TRY_GOTO(ctx, result, ask(ctx, u, &present));
    *out_fate = TSR_BLOB_PRESENT;
    for (size_t i = 0; !present && i < mount_count; i++) {
        TRY_GOTO(ctx, result, start(ctx, u, mount_names[i], &present));
        if (present) *out_fate = TSR_BLOB_MOUNTED;
    }
    if (present) goto done;
    TRY_GOTO(ctx, result, send_blob(ctx, u));
    *out_fate = TSR_BLOB_SENT;
done:
    free(u);
    return result;
}
