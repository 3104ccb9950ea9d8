/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, and the JSON that the writer stores. The order of keys equals that of Go's OCI structures.
 */
#include "bundle/layout.h"

#include "bundle/bundle.h"

#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define ALNUM LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* ---- names ---- */

/* True for one character of `first`, then any of `first` or `more`; at most size_max characters in
 * total. */
static bool matches(const char *text, const char *first, const char *more, size_t size_max) {
    size_t size = strnlen(text, size_max + 1);
    if (size == 0 || size > size_max || !strchr(first, text[0])) return false;
    for (size_t i = 1; i < size; i++)
        if (!strchr(first, text[i]) && !strchr(more, text[i])) return false;
    return true;
}

bool tsr_media_type_valid(const char *text) {
    return matches(text, ALNUM, "/._+-", TSR_BUNDLE_MEDIA_TYPE_MAX);
}

bool tsr_media_type_compressed(const char *media_type) {
    static const char suffix[] = "+zstd";
    size_t size = strlen(media_type);
    return size >= sizeof suffix && strcmp(media_type + size - (sizeof suffix - 1), suffix) == 0;
}

bool tsr_title_valid(const char *text) {
    return matches(text, ALNUM "_", ".+-", TSR_BUNDLE_TITLE_MAX);
}

bool tsr_target_valid(const char *text) {
    size_t family = strspn(text, LOWER);
    return family > 0 && text[family] == ':' && strnlen(text, 64) <= TSR_BUNDLE_TARGET_MAX &&
           matches(text + family + 1, LOWER, "._-", TSR_BUNDLE_TARGET_MAX);
}

static bool has_prefix(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns N for cpu:x86-64-vN, 1 for cpu:x86-64, 0 for everything else. */
static unsigned x86_level(const char *target) {
    static const char base[] = "cpu:x86-64";
    if (!has_prefix(target, base)) return 0;
    const char *rest = target + sizeof base - 1;
    if (!rest[0]) return 1;
    bool level = has_prefix(rest, "-v") && rest[2] >= '1' && rest[2] <= '9' && !rest[3];
    return level ? (unsigned)(rest[2] - '0') : 0;
}

int tsr_target_compare(const char *a, const char *b) {
    unsigned a_level = x86_level(a), b_level = x86_level(b);
    if (a_level == b_level) return strcmp(a, b);
    if (!a_level || !b_level) return a_level ? 1 : -1;
    return a_level > b_level ? -1 : 1;
}

/* ---- JSON ---- */

static void put_digest(tsr_buffer *out, const char *key, const tsr_digest *digest) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    tsr_buffer_printf(out, "\"%s\":\"sha256:%s\"", key, hex);
}

/* Writes "mediaType", "digest", "size", without braces. */
static void put_descriptor(tsr_buffer *out, const char *media_type, const tsr_descriptor *d) {
    tsr_buffer_printf(out, "\"mediaType\":\"%s\",", media_type);
    put_digest(out, "digest", &d->digest);
    tsr_buffer_printf(out, ",\"size\":%" PRIu64, d->size_bytes);
}

int tsr_compression_level(uint64_t plain_size_bytes) {
    enum { SMALL_BYTES = 64 << 10, SMALL_LEVEL = 19, LARGE_LEVEL = 6 };
    return plain_size_bytes <= SMALL_BYTES ? SMALL_LEVEL : LARGE_LEVEL;
}

/* The keys are in byte order. */
static void put_layer_annotations(tsr_buffer *out, const tsr_descriptor *layer) {
    bool file = layer->title && (strcmp(layer->media_type, TSR_MEDIA_WEIGHTS) == 0 ||
                                 strcmp(layer->media_type, TSR_MEDIA_STATE) == 0);
    if (!layer->compressed && !layer->title) return;
    tsr_buffer_text(out, ",\"annotations\":{");
    if (layer->compressed) {
        tsr_buffer_printf(out, "\"" TSR_KEY_COMPRESSION "\":\"zstd %s level %d\",",
                          ZSTD_versionString(), tsr_compression_level(layer->plain_size_bytes));
        put_digest(out, TSR_KEY_PLAIN_DIGEST, &layer->plain_digest);
        tsr_buffer_printf(out, ",\"" TSR_KEY_PLAIN_SIZE "\":\"%" PRIu64 "\"%s",
                          layer->plain_size_bytes, layer->title ? "," : "");
    }
    if (file) tsr_buffer_printf(out, "\"" TSR_KEY_FILEPATH "\":\"%s\",", layer->title);
    if (layer->title) tsr_buffer_printf(out, "\"" TSR_KEY_TITLE "\":\"%s\"", layer->title);
    tsr_buffer_text(out, "}");
}

void tsr_layout_format_root(tsr_buffer *out, const tsr_descriptor *index) {
    tsr_buffer_text(out,
                    "{\"schemaVersion\":2,\"mediaType\":\"" TSR_MEDIA_INDEX "\",\"manifests\":[{");
    put_descriptor(out, TSR_MEDIA_INDEX, index);
    tsr_buffer_text(out, ",\"annotations\":{\"" TSR_KEY_REF_NAME "\":\"latest\"}}]}");
}

void tsr_layout_format_manifest(tsr_buffer *out, const tsr_manifest *manifest) {
    tsr_buffer_text(out, "{\"schemaVersion\":2,\"mediaType\":\"" TSR_MEDIA_MANIFEST
                         "\",\"artifactType\":\"" TSR_ARTIFACT_TYPE "\",\"config\":{");
    put_descriptor(out, TSR_MEDIA_CONFIG, &manifest->config);
    tsr_buffer_text(out, "},\"layers\":[");
    for (size_t i = 0; i < manifest->layer_count; i++) {
        tsr_buffer_text(out, i ? ",{" : "{");
        put_descriptor(out, manifest->layers[i].media_type, &manifest->layers[i]);
        put_layer_annotations(out, &manifest->layers[i]);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_printf(out,
                      "],\"annotations\":{\"" TSR_KEY_FORMAT "\":\"" TSR_FORMAT_TEXT
                      "\",\"" TSR_KEY_NEEDS "\":\"" TSR_FORMAT_NEEDS "\",\"" TSR_KEY_TARGET
                      "\":\"%s\"}}",
                      manifest->target);
}

static void put_platform(tsr_buffer *out, const char *target, unsigned lowest_level) {
    bool arm = has_prefix(target, "cpu:arm") || has_prefix(target, "cpu:aarch64");
    unsigned level = x86_level(target);
    tsr_buffer_printf(out, "\"platform\":{\"architecture\":\"%s\",\"os\":\"linux\"",
                      arm ? "arm64" : "amd64");
    if (level && level != lowest_level)
        tsr_buffer_printf(out, ",\"variant\":\"v%u\"", level);
    else if (!level)
        tsr_buffer_printf(out, ",\"variant\":\"%s\"", strchr(target, ':') + 1);
    tsr_buffer_text(out, "}");
}

void tsr_layout_format_index(tsr_buffer *out, const tsr_layout *layout) {
    unsigned lowest = 0;
    for (size_t i = 0; i < layout->manifest_count; i++) {
        unsigned level = x86_level(layout->manifests[i].target);
        if (level && (!lowest || level < lowest)) lowest = level;
    }
    tsr_buffer_text(out,
                    "{\"schemaVersion\":2,\"mediaType\":\"" TSR_MEDIA_INDEX "\",\"manifests\":[");
    for (size_t i = 0; i < layout->manifest_count; i++) {
        const tsr_manifest *manifest = &layout->manifests[i];
        tsr_buffer_text(out, i ? ",{" : "{");
        put_descriptor(out, TSR_MEDIA_MANIFEST, &manifest->self);
        tsr_buffer_printf(out, ",\"annotations\":{\"" TSR_KEY_TARGET "\":\"%s\"},",
                          manifest->target);
        put_platform(out, manifest->target, lowest);
        tsr_buffer_text(out, "}");
    }
    tsr_buffer_text(out, "],\"annotations\":{\"" TSR_KEY_FORMAT "\":\"" TSR_FORMAT_TEXT
                         "\",\"" TSR_KEY_NEEDS "\":\"" TSR_FORMAT_NEEDS "\"}}");
}
