/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the OCI JSON. tsr_json_parse has already refused malformed text; only the meaning is
 * checked here. The format version is checked first: everything else may differ in another major
 * version.
 */
#include "bundle/bundle.h"
#include "bundle/layout.h"
#include "bundle/provenance.h"
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    tsr_ctx *ctx;
    const tsr_json_source *source;
    tsr_arena *arena;
    tsr_json_options options;
    char subject[512];
} reader;

#define BAD(r, code, label, detail, ...)                                                           \
    FAIL((r)->ctx, (code), TSB "%s: " label TSB_AT detail, (r)->source->path, (r)->source->what,   \
         (uint64_t)(r)->source->offset_bytes, (r)->source->entry.text, __VA_ARGS__)

static tsr_result reader_open(reader *r, tsr_ctx *ctx, const tsr_json_source *source,
                              tsr_arena *arena, const char *json, size_t size_bytes,
                              struct cJSON **out_root) {
    *r = (reader){.ctx = ctx, .source = source, .arena = arena};
    snprintf(r->subject, sizeof r->subject, TSB "%s at offset %" PRIu64 " (entry %.16s)",
             source->path, source->what, source->offset_bytes, source->entry.text);
    r->options = (tsr_json_options){.subject = r->subject, .code = TSR_CORRUPT};
    TRY(ctx, tsr_json_parse(ctx, json, size_bytes, &r->options, out_root));
    if (!cJSON_IsObject(*out_root)) {
        tsr_json_destroy(*out_root);
        *out_root = NULL;
        BAD(r, TSR_CORRUPT, "document", "%s, got another value", "an object");
    }
    return TSR_SUCCESS;
}

/* A string from the bundle for a message: without its control characters, and not too long. */
typedef struct shown_text {
    char text[TSR_BUNDLE_MEDIA_TYPE_MAX + 1];
} shown_text;

static shown_text shown(const char *text) {
    shown_text copy = {0};
    for (size_t i = 0; text[i] && i + 1 < sizeof copy.text; i++)
        copy.text[i] = (char)(text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?');
    return copy;
}

static tsr_result copy_text(reader *r, const char *text, const char **out_text) {
    *out_text = tsr_arena_strdup(r->arena, text);
    if (!*out_text) FAIL(r->ctx, TSR_MEMORY, "no memory to read '%s'", r->source->path);
    return TSR_SUCCESS;
}

/* Returns the text of an annotation, or NULL. */
static tsr_result annotation(reader *r, const struct cJSON *object, const char *key,
                             const char **out_text) {
    *out_text = NULL;
    if (!tsr_json_find(object, "annotations")) return TSR_SUCCESS;
    const struct cJSON *annotations;
    TRY(r->ctx, tsr_json_get_object(r->ctx, object, "annotations", &r->options, &annotations));
    if (!tsr_json_find(annotations, key)) return TSR_SUCCESS;
    return tsr_json_get_string(r->ctx, annotations, key, &r->options, out_text);
}

static tsr_result check_schema(reader *r, const struct cJSON *root, const char *media_type) {
    uint64_t version;
    const char *type = media_type;
    TRY(r->ctx, tsr_json_get_u64(r->ctx, root, "schemaVersion", &r->options, &version));
    if (version != 2) BAD(r, TSR_CORRUPT, "schemaVersion", "2, got %" PRIu64, version);
    if (tsr_json_find(root, "mediaType"))
        TRY(r->ctx, tsr_json_get_string(r->ctx, root, "mediaType", &r->options, &type));
    if (strcmp(type, media_type) != 0)
        BAD(r, TSR_CORRUPT, "mediaType", "'%s', got '%s'", media_type, shown(type).text);
    return TSR_SUCCESS;
}

/* Parses "<major>.<minor>", each of 1 to 6 digits. */
static bool parse_version(const char *text, unsigned *out_major) {
    size_t major = strspn(text, "0123456789");
    if (major < 1 || major > 6 || text[major] != '.') return false;
    size_t minor = strspn(text + major + 1, "0123456789");
    if (minor < 1 || minor > 6 || text[major + 1 + minor]) return false;
    *out_major = (unsigned)strtoul(text, NULL, 10);
    return true;
}

static tsr_result check_version(reader *r, const struct cJSON *root) {
    const char *format, *needs;
    unsigned major;
    TRY(r->ctx, annotation(r, root, TSR_KEY_FORMAT, &format));
    TRY(r->ctx, annotation(r, root, TSR_KEY_NEEDS, &needs));
    if (!format || !parse_version(format, &major))
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_FORMAT, "'<major>.<minor>', got '%s'",
            format ? shown(format).text : "nothing");
    if (major == TSR_FORMAT_MAJOR) return TSR_SUCCESS;
    bool named = needs && strspn(needs, "0123456789.") == strlen(needs);
    FAIL(r->ctx, TSR_VERSION, TSB "needs tessera-run >= %.16s: format" TSB_AT "%d.x, got %s",
         r->source->path, named ? needs : "(not named)", r->source->offset_bytes,
         r->source->entry.text, TSR_FORMAT_MAJOR, format);
}

/* Parses "sha256:<64 digits>". */
static bool parse_digest(const char *text, tsr_digest *out_digest) {
    static const char algorithm[] = "sha256:";
    size_t skip = sizeof algorithm - 1;
    return strncmp(text, algorithm, skip) == 0 &&
           tsr_digest_parse(text + skip, strnlen(text + skip, TSR_DIGEST_HEX + 1), out_digest);
}

static tsr_result parse_descriptor(reader *r, const struct cJSON *object, tsr_descriptor *out) {
    const char *media_type, *digest;
    if (!cJSON_IsObject(object))
        BAD(r, TSR_CORRUPT, "descriptor", "%s, got another value", "an object");
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "mediaType", &r->options, &media_type));
    TRY(r->ctx, tsr_json_get_string(r->ctx, object, "digest", &r->options, &digest));
    TRY(r->ctx, tsr_json_get_u64(r->ctx, object, "size", &r->options, &out->size_bytes));
    if (!tsr_media_type_valid(media_type))
        BAD(r, TSR_CORRUPT, "mediaType of a descriptor", "letters, digits and /._+-, got '%s'",
            shown(media_type).text);
    if (!parse_digest(digest, &out->digest))
        BAD(r, TSR_CORRUPT, "digest of a descriptor", "sha256: and 64 digits, got '%s'",
            shown(digest).text);
    if (out->size_bytes < 1 || out->size_bytes > TSR_BUNDLE_BLOB_BYTES_MAX)
        BAD(r, TSR_CORRUPT, "size of a descriptor", "1 to %" PRIu64 ", got %" PRIu64,
            TSR_BUNDLE_BLOB_BYTES_MAX, out->size_bytes);
    return copy_text(r, media_type, &out->media_type);
}

/* Parses a descriptor of metadata with this media type (NULL: any) and at most size_max bytes. */
static tsr_result parse_metadata_descriptor(reader *r, const struct cJSON *object,
                                            const char *media_type, uint64_t size_max,
                                            tsr_descriptor *out) {
    TRY(r->ctx, parse_descriptor(r, object, out));
    if (media_type && strcmp(out->media_type, media_type) != 0)
        BAD(r, TSR_CORRUPT, "mediaType of a descriptor", "'%s', got '%s'", media_type,
            out->media_type);
    if (out->size_bytes > size_max)
        BAD(r, TSR_CORRUPT, "size of a descriptor", "at most %" PRIu64 " for '%s', got %" PRIu64,
            size_max, out->media_type, out->size_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_layout_parse_marker(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                   size_t size_bytes) {
    reader r;
    struct cJSON *root = NULL;
    const char *version;
    TRY(ctx, reader_open(&r, ctx, source, NULL, json, size_bytes, &root));
    tsr_result result = tsr_json_get_string(ctx, root, "imageLayoutVersion", &r.options, &version);
    if (!result.code && strcmp(version, "1.0.0") != 0)
        result = tsr_fail_(ctx, TSR_CORRUPT, 0, __FILE__, __LINE__,
                           TSB "imageLayoutVersion" TSB_AT "1.0.0, got '%s'", source->path,
                           source->offset_bytes, source->entry.text, shown(version).text);
    tsr_json_destroy(root);
    return result;
}

static tsr_result parse_root(reader *r, const struct cJSON *root, tsr_descriptor *out_index) {
    const struct cJSON *manifests;
    size_t count;
    TRY(r->ctx, check_schema(r, root, TSR_MEDIA_INDEX));
    TRY(r->ctx, tsr_json_get_array(r->ctx, root, "manifests", &r->options, &manifests, &count));
    if (count != 1) BAD(r, TSR_CORRUPT, "manifests", "one descriptor, got %zu", count);
    TRY(r->ctx, parse_metadata_descriptor(r, manifests->child, NULL, TSR_BUNDLE_METADATA_BYTES_MAX,
                                          out_index));
    if (strcmp(out_index->media_type, TSR_MEDIA_MANIFEST) == 0)
        BAD(r, TSR_CORRUPT, "descriptor",
            "%s, got one image manifest: copied for one platform only (copy with --all)",
            "an image index");
    if (strcmp(out_index->media_type, TSR_MEDIA_INDEX) != 0)
        BAD(r, TSR_CORRUPT, "mediaType of the descriptor", "'" TSR_MEDIA_INDEX "', got '%s'",
            out_index->media_type);
    return TSR_SUCCESS;
}

tsr_result tsr_layout_parse_root(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                 size_t size_bytes, tsr_arena *arena, tsr_descriptor *out_index) {
    reader r;
    struct cJSON *root = NULL;
    TRY(ctx, reader_open(&r, ctx, source, arena, json, size_bytes, &root));
    tsr_result result = parse_root(&r, root, out_index);
    tsr_json_destroy(root);
    return result;
}

static tsr_result parse_target(reader *r, const struct cJSON *object, const char **out_target) {
    const char *target;
    *out_target = NULL;
    TRY(r->ctx, annotation(r, object, TSR_KEY_TARGET, &target));
    if (!target) return TSR_SUCCESS;
    if (!tsr_target_valid(target))
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_TARGET, "'<family>:<architecture>', got '%s'",
            shown(target).text);
    return copy_text(r, target, out_target);
}

static tsr_result parse_index(reader *r, const struct cJSON *root, tsr_layout *out) {
    const struct cJSON *manifests, *item;
    size_t count, targets = 0;
    TRY(r->ctx, check_version(r, root));
    TRY(r->ctx, check_schema(r, root, TSR_MEDIA_INDEX));
    TRY(r->ctx, tsr_json_get_array(r->ctx, root, "manifests", &r->options, &manifests, &count));
    if (count < 1 || count > TSR_BUNDLE_MANIFESTS_MAX)
        BAD(r, TSR_CORRUPT, "manifests", "1 to %d, got %zu", TSR_BUNDLE_MANIFESTS_MAX, count);
    out->manifests = TSR_NEW(r->arena, tsr_manifest, count);
    if (!out->manifests) FAIL(r->ctx, TSR_MEMORY, "no memory to read '%s'", r->source->path);
    cJSON_ArrayForEach(item, manifests) {
        tsr_manifest *manifest = &out->manifests[out->manifest_count++];
        TRY(r->ctx, parse_metadata_descriptor(r, item, TSR_MEDIA_MANIFEST,
                                              TSR_BUNDLE_METADATA_BYTES_MAX, &manifest->self));
        TRY(r->ctx, parse_target(r, item, &manifest->target));
        for (size_t i = 0; manifest->target && i + 1 < out->manifest_count; i++)
            if (out->manifests[i].target && strcmp(out->manifests[i].target, manifest->target) == 0)
                BAD(r, TSR_CORRUPT, "targets", "different names, got '%s' twice", manifest->target);
        targets += manifest->target != NULL;
    }
    if (!targets) BAD(r, TSR_CORRUPT, "targets", "%s, got none", "a manifest with " TSR_KEY_TARGET);
    return TSR_SUCCESS;
}

tsr_result tsr_layout_parse_index(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                  size_t size_bytes, tsr_arena *arena, tsr_layout *out_layout) {
    reader r;
    struct cJSON *root = NULL;
    TRY(ctx, reader_open(&r, ctx, source, arena, json, size_bytes, &root));
    tsr_result result = parse_index(&r, root, out_layout);
    tsr_json_destroy(root);
    return result;
}

static bool media_type_known(const char *media_type) {
    static const char *const known[] = {
        TSR_MEDIA_IR,       TSR_MEDIA_SCHEDULE, TSR_MEDIA_PROGRAM,    TSR_MEDIA_ELF,
        TSR_MEDIA_FATBIN,   TSR_MEDIA_HSACO,    TSR_MEDIA_DEPLOYMENT, TSR_MEDIA_CHUNKS,
        TSR_MEDIA_WEIGHTS,  TSR_MEDIA_STATE,    TSR_MEDIA_SBOM,       TSR_MEDIA_PROVENANCE,
        TSR_MEDIA_POSITION, TSR_MEDIA_EXTERNAL};
    for (size_t i = 0; i < TSR_COUNT(known); i++)
        if (strcmp(known[i], media_type) == 0) return true;
    return false;
}

static tsr_result parse_plain(reader *r, const struct cJSON *object, tsr_descriptor *out) {
    const char *digest, *size;
    out->compressed = true;
    TRY(r->ctx, annotation(r, object, TSR_KEY_PLAIN_DIGEST, &digest));
    TRY(r->ctx, annotation(r, object, TSR_KEY_PLAIN_SIZE, &size));
    if (!digest || !parse_digest(digest, &out->plain_digest))
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_PLAIN_DIGEST, "sha256: and 64 digits, got '%s'",
            digest ? shown(digest).text : "nothing");
    size_t digits = size ? strspn(size, "0123456789") : 0;
    if (digits < 1 || digits > 12 || size[digits] || (size[0] == '0' && digits > 1))
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_PLAIN_SIZE, "decimal digits, got '%s'",
            size ? shown(size).text : "nothing");
    out->plain_size_bytes = strtoull(size, NULL, 10);
    if (out->plain_size_bytes > TSR_BUNDLE_PLAIN_BYTES_MAX)
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_PLAIN_SIZE, "at most %" PRIu64 ", got %" PRIu64,
            TSR_BUNDLE_PLAIN_BYTES_MAX, out->plain_size_bytes);
    return TSR_SUCCESS;
}

static tsr_result parse_layer(reader *r, const struct cJSON *object, bool foreign,
                              tsr_descriptor *out) {
    const char *title, *required;
    TRY(r->ctx, parse_descriptor(r, object, out));
    if (foreign) return TSR_SUCCESS;
    TRY(r->ctx, annotation(r, object, TSR_KEY_REQUIRED, &required));
    if (required && strcmp(required, "true") == 0 && !media_type_known(out->media_type))
        BAD(r, TSR_VERSION, "required layer", "%s, got '%s', which needs a newer tessera-run",
            "a known media type", out->media_type);
    TRY(r->ctx, annotation(r, object, TSR_KEY_TITLE, &title));
    if (title && !tsr_title_valid(title))
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_TITLE, "letters, digits and _.+-, got '%s'",
            shown(title).text);
    if (title) TRY(r->ctx, copy_text(r, title, &out->title));
    if (tsr_media_type_compressed(out->media_type)) TRY(r->ctx, parse_plain(r, object, out));
    return TSR_SUCCESS;
}

/* The chunk table is the last layer and the only one of its type; its size follows from the
 * others. */
static tsr_result check_chunk_table(reader *r, const tsr_manifest *manifest) {
    uint64_t chunks = 0;
    size_t last = manifest->layer_count - 1;
    for (size_t i = 0; i < manifest->layer_count; i++) {
        bool table = strcmp(manifest->layers[i].media_type, TSR_MEDIA_CHUNKS) == 0;
        if (table != (i == last))
            BAD(r, TSR_CORRUPT, "chunk table", "one, as layer %zu; layer %zu is '%s'", last, i,
                manifest->layers[i].media_type);
        if (!table) chunks += tsr_chunk_count(manifest->layers[i].size_bytes);
    }
    if (manifest->layers[last].size_bytes != chunks * TSR_DIGEST_BYTES ||
        manifest->layers[last].size_bytes > TSR_BUNDLE_TABLE_BYTES_MAX)
        BAD(r, TSR_CORRUPT, "size of the chunk table", "%" PRIu64 ", at most %d, got %" PRIu64,
            chunks * TSR_DIGEST_BYTES, TSR_BUNDLE_TABLE_BYTES_MAX,
            manifest->layers[last].size_bytes);
    return TSR_SUCCESS;
}

/* "<stem>.v<N>…": another N is a version error. */
static tsr_result check_versioned_type(reader *r, const char *got, const char *expected) {
    size_t stem = (size_t)(strstr(expected, ".v1") - expected) + 2;
    if (strcmp(got, expected) == 0) return TSR_SUCCESS;
    tsr_code code = strncmp(got, expected, stem) == 0 ? TSR_VERSION : TSR_CORRUPT;
    BAD(r, code, "type", "'%s', got '%s'%s", expected,
        shown(got + (code == TSR_VERSION ? stem - 1 : 0)).text,
        code == TSR_VERSION ? ", which needs a newer tessera-run" : "");
}

static tsr_result parse_target_head(reader *r, const struct cJSON *root, const char *target) {
    const char *type, *own;
    TRY(r->ctx, check_version(r, root));
    TRY(r->ctx, tsr_json_get_string(r->ctx, root, "artifactType", &r->options, &type));
    TRY(r->ctx, check_versioned_type(r, type, TSR_ARTIFACT_TYPE));
    TRY(r->ctx, parse_target(r, root, &own));
    if (!own || strcmp(own, target) != 0)
        BAD(r, TSR_CORRUPT, "annotation " TSR_KEY_TARGET, "'%s' as in the index, got '%s'", target,
            own ? own : "nothing");
    return TSR_SUCCESS;
}

static tsr_result parse_manifest(reader *r, const struct cJSON *root, tsr_manifest *manifest) {
    const struct cJSON *config, *layers, *item;
    size_t count;
    bool foreign = !manifest->target;
    if (!foreign) TRY(r->ctx, parse_target_head(r, root, manifest->target));
    TRY(r->ctx, check_schema(r, root, TSR_MEDIA_MANIFEST));
    TRY(r->ctx, tsr_json_get_object(r->ctx, root, "config", &r->options, &config));
    TRY(r->ctx,
        parse_metadata_descriptor(r, config, NULL, TSR_BUNDLE_CONFIG_BYTES_MAX, &manifest->config));
    if (!foreign)
        TRY(r->ctx, check_versioned_type(r, manifest->config.media_type, TSR_MEDIA_CONFIG));
    TRY(r->ctx, tsr_json_get_array(r->ctx, root, "layers", &r->options, &layers, &count));
    if (count < 1 || count > TSR_BUNDLE_LAYERS_MAX)
        BAD(r, TSR_CORRUPT, "layers", "1 to %d, got %zu", TSR_BUNDLE_LAYERS_MAX, count);
    manifest->layers = TSR_NEW(r->arena, tsr_descriptor, count);
    if (!manifest->layers) FAIL(r->ctx, TSR_MEMORY, "no memory to read '%s'", r->source->path);
    cJSON_ArrayForEach(item, layers)
        TRY(r->ctx, parse_layer(r, item, foreign, &manifest->layers[manifest->layer_count++]));
    return foreign ? TSR_SUCCESS : check_chunk_table(r, manifest);
}

tsr_result tsr_layout_parse_manifest(tsr_ctx *ctx, const tsr_json_source *source, const char *json,
                                     size_t size_bytes, tsr_arena *arena, tsr_manifest *manifest) {
    reader r;
    struct cJSON *root = NULL;
    TRY(ctx, reader_open(&r, ctx, source, arena, json, size_bytes, &root));
    tsr_result result = parse_manifest(&r, root, manifest);
    tsr_json_destroy(root);
    return result;
}
