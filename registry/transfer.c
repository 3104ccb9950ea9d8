/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests, and receiving blobs: OCI distribution specification 1.1, "Pulling manifests", "Pulling
 * blobs", "Pushing manifests".
 */
#include "registry/transfer.h"

#include "bundle/limits.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <string.h>

tsr_digest_text tsr_digest_text_of(const tsr_digest *digest) {
    tsr_digest_text out = {"sha256:"};
    tsr_digest_format(digest, out.text + 7);
    return out;
}

static void put_url(const tsr_http *http, char out[static TSR_URL_MAX], const char *kind,
                    const char *rest) {
    snprintf(out, TSR_URL_MAX, "%s/v2/%s/%s/%s", http->remote->base, http->remote->reference.name,
             kind, rest);
}

/* ---- manifests ---- */

tsr_result tsr_manifest_get(tsr_ctx *ctx, tsr_http *http, const char *name_or_digest,
                            const char *accept, const tsr_digest *expected, bool missing_ok,
                            tsr_http_response *response) {
    char url[TSR_URL_MAX], header[512], what[256];
    put_url(http, url, "manifests", name_or_digest);
    snprintf(header, sizeof header, "Accept: %s", accept);
    const tsr_http_request request = {.method = "GET",
                                      .url = url,
                                      .headers = {header},
                                      .body_bytes_max = TSR_BUNDLE_METADATA_BYTES_MAX};
    TRY(ctx, tsr_http_call(ctx, http, &request, response));
    if (missing_ok && response->status == 404) return TSR_SUCCESS;
    snprintf(what, sizeof what, "manifest '%s'", name_or_digest);
    if (response->status != 200) return tsr_http_refuse(ctx, http, response, what);
    if (!expected) return TSR_SUCCESS;
    tsr_digest got =
        tsr_hash(response->body.bytes ? response->body.bytes : "", response->body.size_bytes);
    if (!tsr_digest_equal(&got, expected))
        FAIL(ctx, TSR_CORRUPT, "registry '%s': %s: expected digest %s, got %s",
             http->remote->reference.host, what, tsr_digest_text_of(expected).text,
             tsr_digest_text_of(&got).text);
    return TSR_SUCCESS;
}

tsr_result tsr_manifest_exists(tsr_ctx *ctx, tsr_http *http, const char *name_or_digest,
                               bool *out_exists) {
    char url[TSR_URL_MAX];
    tsr_http_response response = {0};
    put_url(http, url, "manifests", name_or_digest);
    const tsr_http_request request = {
        .method = "HEAD",
        .url = url,
        .headers = {"Accept: application/vnd.oci.image.index.v1+json, "
                    "application/vnd.oci.image.manifest.v1+json"}};
    tsr_result result = tsr_http_call(ctx, http, &request, &response);
    if (!result.code && response.status != 200 && response.status != 404)
        result = tsr_http_refuse(ctx, http, &response, "asking for a manifest");
    *out_exists = !result.code && response.status == 200;
    tsr_http_response_finish(&response);
    return result;
}

static tsr_result copy_bytes(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    (void)ctx;
    memcpy(bytes, *(const char *const *)user + offset, size);
    return TSR_SUCCESS;
}

tsr_result tsr_manifest_put(tsr_ctx *ctx, tsr_http *http, const char *name_or_digest,
                            const char *media_type, const void *bytes, size_t size_bytes,
                            tsr_http_response *response) {
    char url[TSR_URL_MAX], header[256], what[256];
    put_url(http, url, "manifests", name_or_digest);
    snprintf(header, sizeof header, "Content-Type: %s", media_type);
    const tsr_http_request request = {.method = "PUT",
                                      .url = url,
                                      .headers = {header},
                                      .source = copy_bytes,
                                      .source_user = &bytes,
                                      .source_bytes = size_bytes,
                                      .body_bytes_max = TSR_REGISTRY_MESSAGE_BYTES_MAX};
    TRY(ctx, tsr_http_call(ctx, http, &request, response));
    snprintf(what, sizeof what, "sending manifest '%s'", name_or_digest);
    if (response->status != 201 && response->status != 200 && response->status != 202)
        return tsr_http_refuse(ctx, http, response, what);
    return TSR_SUCCESS;
}

/* ---- receiving blobs ---- */

tsr_result tsr_blob_get(tsr_ctx *ctx, tsr_http *http, const tsr_digest *digest, size_t size_bytes,
                        void *bytes) {
    char url[TSR_URL_MAX];
    tsr_http_response response = {0};
    tsr_result result = TSR_SUCCESS;
    tsr_digest_text text = tsr_digest_text_of(digest);
    tsr_retry retry = {0};
    put_url(http, url, "blobs", text.text);
    const tsr_http_request request = {.method = "GET", .url = url, .body_bytes_max = size_bytes};
    for (;;) {
        TRY_GOTO(ctx, result, tsr_http_call(ctx, http, &request, &response));
        if (response.status != 200)
            TRY_GOTO(ctx, result, tsr_http_refuse(ctx, http, &response, text.text));
        size_t size = response.body.size_bytes;
        tsr_digest got = tsr_hash(size ? response.body.bytes : "", size);
        if (size == size_bytes && tsr_digest_equal(&got, digest)) break;
        if (tsr_retry_wait(http, &retry, NULL)) continue;
        FAIL_GOTO(ctx, result, TSR_CORRUPT,
                  "registry '%s': blob %s of %zu byte%s: got %zu byte%s with digest %s",
                  http->remote->reference.host, text.text, size_bytes, TSR_PLURAL(size_bytes), size,
                  TSR_PLURAL(size), tsr_digest_text_of(&got).text);
    }
    memcpy(bytes, response.body.bytes, size_bytes);
done:
    tsr_http_response_finish(&response);
    return result;
}

/* Parses Content-Range: "bytes 5-9/100" (RFC 9110 section 14.4). Returns true if it begins at the
 * requested offset. */
static bool begins_at(const tsr_http_response *response, uint64_t begin) {
    const char *text = tsr_http_header(response, "content-range", 0);
    uint64_t first = 0;
    return text && sscanf(text, "bytes %" SCNu64 "-", &first) == 1 && first == begin;
}

static tsr_result take_range(tsr_ctx *ctx, void *user, const tsr_http_response *response,
                             bool first, const void *bytes, size_t size_bytes) {
    tsr_blob_range *range = user;
    if (first) {
        range->next = response->status == 206 ? range->begin : 0;
        if (response->status == 206 && !begins_at(response, range->begin))
            FAIL(ctx, TSR_NETWORK,
                 "blob %s: expected a range from byte %" PRIu64 ", got another one",
                 tsr_digest_text_of(&range->digest).text, range->begin);
    }
    uint64_t limit = response->status == 206 ? range->end : range->size_bytes;
    if (size_bytes > limit - range->next)
        FAIL(ctx, TSR_NETWORK,
             "blob %s: expected at most %" PRIu64 " byte%s, the server sends more",
             tsr_digest_text_of(&range->digest).text, limit, TSR_PLURAL(limit));
    uint64_t offset = range->next;
    range->next += size_bytes;
    return range->sink(ctx, range->user, offset, bytes, size_bytes);
}

tsr_result tsr_blob_get_range(tsr_ctx *ctx, tsr_http *http, tsr_blob_range *range,
                              tsr_http_response *response) {
    char url[TSR_URL_MAX], header[80];
    tsr_digest_text text = tsr_digest_text_of(&range->digest);
    bool whole = range->begin == 0 && range->end == range->size_bytes;
    put_url(http, url, "blobs", text.text);
    snprintf(header, sizeof header, "Range: bytes=%" PRIu64 "-%" PRIu64, range->begin,
             range->end - 1);
    const tsr_http_request request = {.method = "GET",
                                      .url = url,
                                      .headers = {whole ? NULL : header},
                                      .sink = take_range,
                                      .sink_user = range,
                                      .once = true};
    range->next = range->begin;
    TRY(ctx, tsr_http_call(ctx, http, &request, response));
    if (response->status != 200 && response->status != 206)
        return tsr_http_refuse(ctx, http, response, text.text);
    uint64_t end = response->status == 206 ? range->end : range->size_bytes;
    if (range->next >= end) return TSR_SUCCESS;
    response->retry = true;
    FAIL(ctx, TSR_NETWORK,
         "registry '%s': blob %s: expected bytes up to %" PRIu64 ", got them up to %" PRIu64,
         http->remote->reference.host, text.text, end, range->next);
}
