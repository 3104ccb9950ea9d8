/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/weights/external.h"

#include "manifests/config.h"
#include "runtime/base/buffer.h"
#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char digest_prefix[] = "sha256:";

/* Limits for reading the layer: the digests of CHUNKS_MAX chunks (3.4 TiB) need 65 MB, which fits.
 */
enum { LAYER_BYTES_MAX = 64 << 20, CHUNKS_MAX = 900 * 1000 };
static const uint64_t file_bytes_max = (uint64_t)CHUNKS_MAX * TSR_HASH_CHUNK_BYTES;

/* ---- the layer ---- */

static bool title_valid(const char *title) {
    return tsr_name_valid(title) && title[0] != '.' && !strchr(title, '/');
}

static tsr_result hash_file(tsr_ctx *ctx, int fd, tsr_arena *arena, tsr_bundle_file *file) {
    uint64_t count = (file->size_bytes + TSR_HASH_CHUNK_BYTES - 1) / TSR_HASH_CHUNK_BYTES;
    tsr_digest *chunks = TSR_NEW(arena, tsr_digest, (size_t)count + 1);
    char *block = malloc(TSR_HASH_CHUNK_BYTES);
    tsr_result result = TSR_SUCCESS;
    tsr_hasher whole;
    tsr_hasher_init(&whole);
    if (!chunks || !block) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read '%s'", file->path);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = i * TSR_HASH_CHUNK_BYTES, left = file->size_bytes - offset;
        size_t size = left < TSR_HASH_CHUNK_BYTES ? (size_t)left : TSR_HASH_CHUNK_BYTES;
        TRY_GOTO(ctx, result, tsr_io_read_exact(ctx, fd, file->path, block, size, offset));
        tsr_hasher_update(&whole, block, size);
        chunks[i] = tsr_hash_tree(block, size);
    }
    file->digest = tsr_hasher_finish(&whole);
    file->chunks = chunks;
done:
    free(block);
    return result;
}

tsr_result tsr_external_make(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                             tsr_external *out_external) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const char *slash = strrchr(path, '/');
    tsr_external external = {.title = slash ? slash + 1 : path, .file = {.path = path, .fd = -1}};
    int fd = -1;
    if (!title_valid(external.title))
        FAIL(ctx, TSR_USAGE,
             "'%s' cannot be a file name in a bundle; expected a name of at most %d bytes of "
             "printable "
             "UTF-8 that does not begin with '.'",
             path, TSR_NAME_MAX);
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY | O_NONBLOCK, 0, &fd));
    tsr_result result = tsr_io_file_size(ctx, fd, path, &external.file.size_bytes);
    if (!result.code && external.file.size_bytes > file_bytes_max)
        result = tsr_fail_(ctx, TSR_USAGE, 0, __FILE__, __LINE__,
                           "'%s' has %" PRIu64 " byte%s; expected at most %" PRIu64
                           " in a file that a bundle refers to",
                           path, external.file.size_bytes, TSR_PLURAL(external.file.size_bytes),
                           file_bytes_max);
    if (!result.code) result = hash_file(ctx, fd, arena, &external.file);
    io->close(io->self, fd);
    if (!result.code) *out_external = external;
    return result;
}

static void put_digest(tsr_buffer *out, const tsr_digest *digest) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    tsr_buffer_printf(out, "\"%s%s\"", digest_prefix, hex);
}

tsr_result tsr_external_encode(tsr_ctx *ctx, const tsr_external *external, tsr_arena *arena,
                               char **out_json, size_t *out_size_bytes) {
    const tsr_bundle_file *file = &external->file;
    tsr_buffer text = {0};
    tsr_buffer_text(&text, "{\"title\":");
    tsr_buffer_json_string(&text, external->title);
    tsr_buffer_text(&text, ",\"digest\":");
    put_digest(&text, &file->digest);
    tsr_buffer_printf(&text, ",\"size\":%" PRIu64 ",\"chunks\":[", file->size_bytes);
    for (uint64_t i = 0; i * TSR_HASH_CHUNK_BYTES < file->size_bytes; i++) {
        if (i) tsr_buffer_text(&text, ",");
        put_digest(&text, &file->chunks[i]);
    }
    tsr_buffer_text(&text, "]}");
    *out_json = text.failed ? NULL : tsr_arena_strndup(arena, text.bytes, text.size_bytes);
    *out_size_bytes = text.size_bytes;
    tsr_buffer_finish(&text);
    if (!*out_json) FAIL(ctx, TSR_MEMORY, "no memory for the digests of '%s'", file->path);
    return TSR_SUCCESS;
}

static bool parse_digest(const char *text, tsr_digest *out_digest) {
    size_t skip = sizeof digest_prefix - 1;
    return text && strncmp(text, digest_prefix, skip) == 0 &&
           tsr_digest_parse(text + skip, strnlen(text + skip, TSR_DIGEST_HEX + 1), out_digest);
}

static tsr_result decode(tsr_ctx *ctx, const struct cJSON *root, const tsr_json_options *options,
                         tsr_arena *arena, tsr_external *out) {
    const char *title = NULL, *digest = NULL;
    const struct cJSON *chunks = NULL, *item = NULL;
    size_t count = 0, at = 0;
    TRY(ctx, tsr_json_get_string(ctx, root, "title", options, &title));
    TRY(ctx, tsr_json_get_string(ctx, root, "digest", options, &digest));
    TRY(ctx, tsr_json_get_u64(ctx, root, "size", options, &out->file.size_bytes));
    TRY(ctx, tsr_json_get_array(ctx, root, "chunks", options, &chunks, &count));
    uint64_t expected = out->file.size_bytes / TSR_HASH_CHUNK_BYTES +
                        (out->file.size_bytes % TSR_HASH_CHUNK_BYTES != 0);
    if (!title_valid(title) || !parse_digest(digest, &out->file.digest) || count != expected)
        FAIL(ctx, TSR_CORRUPT,
             "%s: expected a file name, a digest and %" PRIu64 " chunk%s, got %zu chunk%s",
             options->subject, expected, TSR_PLURAL(expected), count, TSR_PLURAL(count));
    tsr_digest *digests = TSR_NEW(arena, tsr_digest, count + 1);
    out->title = tsr_arena_strdup(arena, title);
    if (!digests || !out->title) FAIL(ctx, TSR_MEMORY, "no memory for %zu digests", count);
    cJSON_ArrayForEach(item, chunks) {
        if (!parse_digest(cJSON_IsString(item) ? item->valuestring : NULL, &digests[at++]))
            FAIL(ctx, TSR_CORRUPT, "%s: chunk %zu is not a digest", options->subject, at - 1);
    }
    out->file.chunks = digests;
    return TSR_SUCCESS;
}

tsr_result tsr_external_read(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, tsr_arena *arena,
                             bool *out_found, tsr_external *out_external) {
    const tsr_json_options options = {.subject = "external weights", .code = TSR_CORRUPT};
    tsr_external external = {.file = {.fd = -1}};
    tsr_bundle_layer layer;
    struct cJSON *root = NULL;
    void *bytes = NULL;
    size_t size = 0;
    *out_found = tsr_bundle_find_layer(bundle, target, TSR_MEDIA_EXTERNAL, &layer);
    if (!*out_found) return TSR_SUCCESS;
    if (layer.size_bytes > LAYER_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT, "%s: the layer has %" PRIu64 " byte%s; at most %d are accepted",
             options.subject, layer.size_bytes, TSR_PLURAL(layer.size_bytes), LAYER_BYTES_MAX);
    TRY(ctx, tsr_bundle_read_layer(ctx, bundle, &layer, arena, &bytes, &size));
    TRY(ctx, tsr_json_parse(ctx, bytes, size, &options, &root));
    tsr_result result = decode(ctx, root, &options, arena, &external);
    tsr_json_destroy(root);
    if (!result.code) *out_external = external;
    return result;
}

/* ---- finding the file ---- */

/* The file stays closed if there is no file with that name. */
static tsr_result try_path(tsr_ctx *ctx, const char *path, tsr_external *external, bool must_fit) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t size = 0;
    if (!path) FAIL(ctx, TSR_MEMORY, "no memory for a path");
    int fd = io->open(io->self, TSR_IO_CWD, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ENAMETOOLONG) return TSR_SUCCESS;
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open weights '%s'", path);
    tsr_result result = tsr_io_file_size(ctx, fd, path, &size);
    if (!result.code && size == external->file.size_bytes) {
        external->file.fd = fd;
        external->file.path = path;
        return TSR_SUCCESS;
    }
    io->close(io->self, fd);
    TRY(ctx, result);
    if (must_fit)
        FAIL(ctx, TSR_MISMATCH,
             "weights '%s' have %" PRIu64 " byte%s; the bundle was built with %" PRIu64, path, size,
             TSR_PLURAL(size), external->file.size_bytes);
    return TSR_SUCCESS;
}

tsr_result tsr_external_open(tsr_ctx *ctx, const char *const *folders, size_t folder_count,
                             tsr_arena *arena, tsr_external *external) {
    char hex[TSR_DIGEST_HEX + 1];
    const char *searched = "";
    tsr_digest_format(&external->file.digest, hex);
    for (int form = 0; form < 3 && external->file.fd < 0; form++)
        for (size_t i = 0; i < folder_count && external->file.fd < 0; i++) {
            const char *path =
                tsr_arena_printf(arena, "%s/%s%s", folders[i], form == 1 ? "blobs/sha256/" : "",
                                 form == 2 ? external->title : hex);
            TRY(ctx, try_path(ctx, path, external, form == 2));
        }
    for (size_t i = 0; i < folder_count && searched; i++)
        searched = tsr_arena_printf(arena, "%s%s'%s'", searched, i ? ", " : "", folders[i]);
    if (external->file.fd < 0)
        FAIL(ctx, TSR_IO,
             "weights '%s' (sha256:%s, %" PRIu64
             " byte%s) are not in %s; --weights-dir names their folder",
             external->title, hex, external->file.size_bytes, TSR_PLURAL(external->file.size_bytes),
             searched && searched[0] ? searched : "any folder");
    return TSR_SUCCESS;
}

void tsr_external_close(tsr_ctx *ctx, tsr_external *external) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (external->file.fd >= 0) io->close(io->self, external->file.fd);
    external->file.fd = -1;
}
