/* SPDX-License-Identifier: Apache-2.0 */
#include "registry/referrers.h"

#include "registry/transfer.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <string.h>

#define ARTIFACT "application/vnd.dev.sigstore.bundle.v0.3+json"
#define EMPTY_TYPE "application/vnd.oci.empty.v1+json"
#define EMPTY_BYTES "{}"

/* ---- push ---- */

typedef struct memory {
    const char *bytes;
} memory;

static tsr_result read_memory(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes,
                              size_t size_bytes) {
    const memory *m = user;
    (void)ctx;
    memcpy(bytes, m->bytes + offset, size_bytes);
    return TSR_SUCCESS;
}

static tsr_result push_bytes(tsr_ctx *ctx, tsr_http *http, const void *bytes, size_t size_bytes,
                             tsr_digest *out_digest) {
    memory m = {bytes};
    const tsr_blob_source source = {tsr_hash(bytes, size_bytes), size_bytes, read_memory, &m};
    tsr_blob_fate fate;
    *out_digest = source.digest;
    return tsr_blob_push(ctx, http, &source, NULL, 0, &fate);
}

static void put_descriptor(tsr_buffer *out, const char *media_type, const tsr_digest *digest,
                           uint64_t size_bytes) {
    tsr_buffer_printf(out, "{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%" PRIu64, media_type,
                      tsr_digest_text_of(digest).text, size_bytes);
}

static const char annotations[] =
    "\"annotations\":{\"dev.sigstore.bundle.content\":\"dsse-envelope\","
    "\"dev.sigstore.bundle.predicateType\":\"https://tessera.dev/bundle-signature/v1\"}";

static void format_manifest(tsr_buffer *out, const tsr_descriptor *index, const tsr_digest *empty,
                            const tsr_digest *layer, size_t layer_size) {
    tsr_buffer_text(out, "{\"schemaVersion\":2,\"mediaType\":\"" TSR_MEDIA_MANIFEST
                         "\",\"artifactType\":\"" ARTIFACT "\",\"config\":");
    put_descriptor(out, EMPTY_TYPE, empty, sizeof EMPTY_BYTES - 1);
    tsr_buffer_text(out, "},\"layers\":[");
    put_descriptor(out, ARTIFACT, layer, layer_size);
    tsr_buffer_text(out, "}],\"subject\":");
    put_descriptor(out, TSR_MEDIA_INDEX, &index->digest, index->size_bytes);
    tsr_buffer_printf(out, "},%s}", annotations);
}

typedef struct tag_name {
    char text[TSR_DIGEST_TEXT_BYTES];
} tag_name;

/* Returns "sha256-<digest>", the tag of the referrers tag schema. */
static tag_name tag_of(const tsr_digest *digest) {
    tag_name tag;
    memcpy(tag.text, tsr_digest_text_of(digest).text, sizeof tag.text);
    tag.text[6] = '-';
    return tag;
}

/* Adds a descriptor to the index under the tag; existing entries are kept as they are. */
static tsr_result extend_list(tsr_ctx *ctx, const tsr_buffer *old, const tsr_buffer *item,
                              tsr_buffer *out, bool *out_listed) {
    static const tsr_json_options options = {"list of referrers", TSR_NETWORK, true};
    struct cJSON *root = NULL;
    const struct cJSON *manifests, *one;
    tsr_result result = TSR_SUCCESS;
    size_t count = 0;
    *out_listed = false;
    tsr_buffer_text(out,
                    "{\"schemaVersion\":2,\"mediaType\":\"" TSR_MEDIA_INDEX "\",\"manifests\":[");
    if (old->size_bytes) {
        TRY(ctx, tsr_json_parse(ctx, old->bytes, old->size_bytes, &options, &root));
        TRY_GOTO(ctx, result,
                 tsr_json_get_array(ctx, root, "manifests", &options, &manifests, &count));
        cJSON_ArrayForEach(one, manifests) {
            char *text = cJSON_PrintUnformatted(one);
            if (!text) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a list of referrers");
            const char *digest =
                cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(one, "digest"));
            if (digest && strstr(item->bytes, digest)) *out_listed = true;
            tsr_buffer_printf(out, "%s,", text);
            cJSON_free(text);
        }
    }
    tsr_buffer_append(out, item->bytes, item->size_bytes);
    tsr_buffer_text(out, "]}");
done:
    tsr_json_destroy(root);
    return result;
}

static tsr_result push_to_list(tsr_ctx *ctx, tsr_http *http, const tsr_descriptor *index,
                               const tsr_digest *manifest, size_t manifest_size) {
    tsr_http_response old = {0}, response = {0};
    tsr_buffer item = {0}, list = {0};
    tsr_result result = TSR_SUCCESS;
    bool listed = false;
    tag_name tag = tag_of(&index->digest);
    put_descriptor(&item, TSR_MEDIA_MANIFEST, manifest, manifest_size);
    tsr_buffer_printf(&item, ",%s,\"artifactType\":\"" ARTIFACT "\"}", annotations);
    TRY_GOTO(ctx, result, tsr_manifest_get(ctx, http, tag.text, TSR_MEDIA_INDEX, NULL, true, &old));
    if (old.status == 404) old.body.size_bytes = 0;
    if (item.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a list of referrers");
    TRY_GOTO(ctx, result, extend_list(ctx, &old.body, &item, &list, &listed));
    if (listed) goto done;
    if (list.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a list of referrers");
    TRY_GOTO(ctx, result,
             tsr_manifest_put(ctx, http, tag.text, TSR_MEDIA_INDEX, list.bytes, list.size_bytes,
                              &response));
done:
    tsr_buffer_finish(&item);
    tsr_buffer_finish(&list);
    tsr_http_response_finish(&old);
    tsr_http_response_finish(&response);
    return result;
}

tsr_result tsr_referrer_push(tsr_ctx *ctx, tsr_http *http, const tsr_descriptor *index,
                             const void *bytes, size_t size_bytes) {
    tsr_http_response response = {0};
    tsr_buffer manifest = {0};
    tsr_digest empty, layer;
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, push_bytes(ctx, http, EMPTY_BYTES, sizeof EMPTY_BYTES - 1, &empty));
    TRY(ctx, push_bytes(ctx, http, bytes, size_bytes, &layer));
    format_manifest(&manifest, index, &empty, &layer, size_bytes);
    if (manifest.failed) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for a manifest");
    tsr_digest digest = tsr_hash(manifest.bytes, manifest.size_bytes);
    TRY_GOTO(ctx, result,
             tsr_manifest_put(ctx, http, tsr_digest_text_of(&digest).text, TSR_MEDIA_MANIFEST,
                              manifest.bytes, manifest.size_bytes, &response));
    if (!tsr_http_header(&response, "oci-subject", 0))
        TRY_GOTO(ctx, result, push_to_list(ctx, http, index, &digest, manifest.size_bytes));
done:
    tsr_buffer_finish(&manifest);
    tsr_http_response_finish(&response);
    return result;
}

/* ---- pull ---- */

typedef struct reader {
    tsr_ctx *ctx;
    tsr_http *http;
    const tsr_descriptor *index;
    tsr_arena *arena;
    tsr_referrer *referrers;
    size_t count;
} reader;

static bool parse_digest(const struct cJSON *object, tsr_digest *out) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "digest"));
    return text && strncmp(text, "sha256:", 7) == 0 &&
           tsr_digest_parse(text + 7, strnlen(text + 7, TSR_DIGEST_HEX + 1), out);
}

static bool type_is(const struct cJSON *object, const char *key, const char *type) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text && strcmp(text, type) == 0;
}

/* Reads the only layer of a signature's manifest, if the manifest refers to this index. */
static tsr_result read_layer(reader *r, const struct cJSON *root, const tsr_json_options *options) {
    const struct cJSON *layers = cJSON_GetObjectItemCaseSensitive(root, "layers");
    const struct cJSON *layer = cJSON_IsArray(layers) ? layers->child : NULL;
    tsr_digest subject, digest;
    uint64_t size = 0;
    if (!parse_digest(cJSON_GetObjectItemCaseSensitive(root, "subject"), &subject) ||
        !tsr_digest_equal(&subject, &r->index->digest) || !layer ||
        !type_is(layer, "mediaType", ARTIFACT) || !parse_digest(layer, &digest))
        return TSR_SUCCESS; /* another kind of artifact */
    TRY(r->ctx, tsr_json_get_u64(r->ctx, layer, "size", options, &size));
    if (size < 1 || size > TSR_SIGNATURE_FILE_BYTES_MAX)
        FAIL(r->ctx, TSR_SIGNATURE,
             "registry '%s': a signature of the bundle: expected 1 to %d bytes, got %" PRIu64,
             r->http->remote->reference.host, TSR_SIGNATURE_FILE_BYTES_MAX, size);
    char *bytes = tsr_arena_alloc(r->arena, (size_t)size, 1, 1);
    if (!bytes) FAIL(r->ctx, TSR_MEMORY, "no memory for a signature");
    TRY(r->ctx, tsr_blob_get(r->ctx, r->http, &digest, (size_t)size, bytes));
    r->referrers[r->count++] = (tsr_referrer){bytes, (size_t)size};
    return TSR_SUCCESS;
}

static tsr_result read_referrer(reader *r, const tsr_digest *digest) {
    static const tsr_json_options options = {"manifest of a referrer", TSR_NETWORK, true};
    tsr_http_response response = {0};
    struct cJSON *root = NULL;
    tsr_result result = TSR_SUCCESS;
    TRY_GOTO(r->ctx, result,
             tsr_manifest_get(r->ctx, r->http, tsr_digest_text_of(digest).text, TSR_MEDIA_MANIFEST,
                              digest, true, &response));
    if (response.status == 404) goto done; /* still listed, but deleted since */
    TRY_GOTO(r->ctx, result,
             tsr_json_parse(r->ctx, response.body.bytes ? response.body.bytes : "",
                            response.body.size_bytes, &options, &root));
    result = read_layer(r, root, &options);
done:
    tsr_json_destroy(root);
    tsr_http_response_finish(&response);
    return result;
}

static tsr_result read_list(reader *r, const tsr_buffer *body) {
    static const tsr_json_options options = {"list of referrers", TSR_NETWORK, true};
    struct cJSON *root = NULL;
    const struct cJSON *manifests, *item;
    size_t count = 0;
    tsr_result result = TSR_SUCCESS;
    TRY(r->ctx,
        tsr_json_parse(r->ctx, body->bytes ? body->bytes : "", body->size_bytes, &options, &root));
    if (!tsr_json_find(root, "manifests")) goto done;
    TRY_GOTO(r->ctx, result,
             tsr_json_get_array(r->ctx, root, "manifests", &options, &manifests, &count));
    cJSON_ArrayForEach(item, manifests) {
        tsr_digest digest;
        if (r->count == TSR_REGISTRY_REFERRERS_MAX) break;
        if (type_is(item, "artifactType", ARTIFACT) && parse_digest(item, &digest))
            TRY_GOTO(r->ctx, result, read_referrer(r, &digest));
    }
done:
    tsr_json_destroy(root);
    return result;
}

/* Parses <URL>; rel="next": the next page, which must be on the registry itself. */
static bool next_page(tsr_ctx *ctx, const tsr_http_response *response,
                      char url[static TSR_URL_MAX]) {
    const char *link = tsr_http_header(response, "link", 0);
    const char *end = link && link[0] == '<' ? strchr(link, '>') : NULL;
    char target[TSR_URL_MAX], base[TSR_URL_MAX];
    if (!end || !strstr(end, "next") || (size_t)(end - link) >= sizeof target) return false;
    memcpy(target, link + 1, (size_t)(end - link) - 1);
    target[end - link - 1] = 0;
    strcpy(base, url);
    if (tsr_url_resolve(ctx, base, target, url).code || !tsr_url_same_origin(url, base)) {
        tsr_error_clear(ctx);
        return false;
    }
    return true;
}

/* *out_supported is false if the registry has no referrers API. */
static tsr_result pull_by_api(reader *r, bool *out_supported) {
    char url[TSR_URL_MAX];
    const tsr_http *http = r->http;
    *out_supported = true;
    snprintf(url, sizeof url, "%s/v2/%s/referrers/%s", http->remote->base,
             http->remote->reference.name, tsr_digest_text_of(&r->index->digest).text);
    for (unsigned page = 0; page < TSR_REGISTRY_REFERRERS_MAX; page++) {
        tsr_http_response response = {0};
        const tsr_http_request request = {.method = "GET",
                                          .url = url,
                                          .headers = {"Accept: " TSR_MEDIA_INDEX},
                                          .body_bytes_max = TSR_BUNDLE_METADATA_BYTES_MAX};
        tsr_result result = tsr_http_call(r->ctx, r->http, &request, &response);
        if (!result.code && page == 0 && response.status != 200) {
            /* Most registries without the API answer 404, some 400 or 405. */
            *out_supported =
                response.status == 401 || response.status == 403 || response.status >= 500;
            if (*out_supported)
                result = tsr_http_refuse(r->ctx, r->http, &response, "signatures of the bundle");
        } else if (!result.code && response.status == 200)
            result = read_list(r, &response.body);
        bool more = !result.code && response.status == 200 && next_page(r->ctx, &response, url);
        tsr_http_response_finish(&response);
        TRY(r->ctx, result);
        if (!more) break;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_referrers_pull(tsr_ctx *ctx, tsr_http *http, const tsr_descriptor *index,
                              tsr_arena *arena, tsr_referrer **out_referrers, size_t *out_count) {
    reader r = {.ctx = ctx, .http = http, .index = index, .arena = arena};
    bool supported = false;
    tsr_result result = TSR_SUCCESS;
    r.referrers = TSR_NEW(arena, tsr_referrer, TSR_REGISTRY_REFERRERS_MAX);
    if (!r.referrers) FAIL(ctx, TSR_MEMORY, "no memory for signatures");
    TRY(ctx, pull_by_api(&r, &supported));
    if (!supported) {
        tsr_http_response response = {0};
        result = tsr_manifest_get(ctx, http, tag_of(&index->digest).text, TSR_MEDIA_INDEX, NULL,
                                  true, &response);
        if (!result.code && response.status == 200) result = read_list(&r, &response.body);
        tsr_http_response_finish(&response);
        TRY(ctx, result);
    }
    *out_referrers = r.referrers;
    *out_count = r.count;
    return TSR_SUCCESS;
}
