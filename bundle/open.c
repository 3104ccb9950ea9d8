/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: find the members (tar walk, or listing of the folder), then follow the digests from
 * index.json: index, manifests, config, chunk tables, each verified before it is parsed. Strict
 * mode then compares the rest of the file and verifies every blob.
 */
#include "bundle/internal.h"
#include "runtime/base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ABSENT UINT64_MAX

/* ---- finding the members ---- */

static tsr_result add_blob(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_blob *blob) {
    if (bundle->blob_count == bundle->blob_capacity) {
        tsr_blob *blobs = tsr_grow(bundle->blobs, &bundle->blob_capacity, 32, sizeof *blobs);
        if (!blobs) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", bundle->path);
        bundle->blobs = blobs;
    }
    bundle->blobs[bundle->blob_count++] = *blob;
    return TSR_SUCCESS;
}

static tsr_result set_member(tsr_ctx *ctx, const tsr_bundle *bundle, const char *name,
                             uint64_t offset, uint64_t size, uint64_t *out_offset,
                             uint64_t *out_size) {
    if (*out_offset != ABSENT)
        FAIL(ctx, TSR_CORRUPT, TSB "name" TSB_AT "'%s' once, got it twice", bundle->path, offset,
             name, name);
    *out_offset = offset;
    *out_size = size;
    return TSR_SUCCESS;
}

static bool parse_blob_name(const char *name, tsr_digest *out_digest) {
    size_t skip = sizeof TSR_BLOB_FOLDER - 1;
    return strncmp(name, TSR_BLOB_FOLDER, skip) == 0 &&
           tsr_digest_parse(name + skip, strlen(name + skip), out_digest);
}

/* A tsr_tar_visit_fn. Members with other names are ignored; strict mode refuses them later. */
static tsr_result visit_member(tsr_ctx *ctx, void *user, const char *name, uint64_t offset,
                               uint64_t size) {
    tsr_bundle *bundle = user;
    tsr_blob blob = {.size_bytes = size, .offset_bytes = offset};
    if (strcmp(name, "oci-layout") == 0)
        return set_member(ctx, bundle, name, offset, size, &bundle->marker_offset_bytes,
                          &bundle->marker_size_bytes);
    if (strcmp(name, "index.json") == 0)
        return set_member(ctx, bundle, name, offset, size, &bundle->root_offset_bytes,
                          &bundle->root_size_bytes);
    return parse_blob_name(name, &blob.digest) ? add_blob(ctx, bundle, &blob) : TSR_SUCCESS;
}

static int compare_blobs(const void *a, const void *b) {
    const tsr_blob *left = a, *right = b;
    return memcmp(left->digest.bytes, right->digest.bytes, TSR_DIGEST_BYTES);
}

static tsr_result sort_blobs(tsr_ctx *ctx, tsr_bundle *bundle) {
    if (bundle->blob_count)
        qsort(bundle->blobs, bundle->blob_count, sizeof *bundle->blobs, compare_blobs);
    for (size_t i = 1; i < bundle->blob_count; i++) {
        const tsr_blob *blob = &bundle->blobs[i];
        if (compare_blobs(blob - 1, blob) == 0)
            FAIL(ctx, TSR_CORRUPT,
                 TSB "name" TSB_AT "each blob once, got another one at offset %" PRIu64,
                 bundle->path, blob[-1].offset_bytes, tsr_entry_text_digest(&blob->digest).text,
                 blob->offset_bytes);
    }
    return TSR_SUCCESS;
}

typedef struct listing {
    tsr_ctx *ctx;
    tsr_bundle *bundle;
    tsr_result result;
} listing;

/* A tsr_io_entry_fn: records the names that are digests; sizes are looked up when needed. */
static int list_blob(void *user, const char *name) {
    listing *list = user;
    tsr_blob blob = {.size_bytes = TSR_BLOB_SIZE_UNKNOWN};
    if (!tsr_digest_parse(name, strnlen(name, TSR_DIGEST_HEX + 1), &blob.digest)) return 0;
    if (list->bundle->blob_count >= TSR_BUNDLE_MEMBERS_MAX)
        list->result = tsr_fail_(list->ctx, TSR_CORRUPT, 0, __FILE__, __LINE__,
                                 TSB "files in %s: expected at most %d, got more",
                                 list->bundle->path, TSR_BLOB_FOLDER, TSR_BUNDLE_MEMBERS_MAX);
    else
        list->result = add_blob(list->ctx, list->bundle, &blob);
    return (int)list->result.code;
}

/* Opens a regular file below the directory. */
static tsr_result open_below(tsr_ctx *ctx, const tsr_bundle *bundle, const char *name, int *out_fd,
                             uint64_t *out_size) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    int fd = io->open(io->self, bundle->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        FAIL_ERRNO(ctx, TSR_IO, -fd, TSB "cannot open '%s' of the unpacked bundle", bundle->path,
                   name);
    int code = io->fstat(io->self, fd, &info);
    if (code < 0 || !S_ISREG(info.st_mode)) {
        io->close(io->self, fd);
        if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, TSB "cannot stat '%s'", bundle->path, name);
        FAIL(ctx, TSR_CORRUPT, TSB "'%s' is not a regular file", bundle->path, name);
    }
    *out_fd = fd;
    *out_size = (uint64_t)info.st_size;
    return TSR_SUCCESS;
}

static tsr_result size_below(tsr_ctx *ctx, const tsr_bundle *bundle, const char *name,
                             uint64_t *out_size) {
    int fd;
    TRY(ctx, open_below(ctx, bundle, name, &fd, out_size));
    tsr_ctx_io(ctx)->close(tsr_ctx_io(ctx)->self, fd);
    return TSR_SUCCESS;
}

static tsr_result find_files(tsr_ctx *ctx, tsr_bundle *bundle) {
    const tsr_io *io = tsr_ctx_io(ctx);
    listing list = {.ctx = ctx, .bundle = bundle};
    TRY(ctx, size_below(ctx, bundle, "oci-layout", &bundle->marker_size_bytes));
    TRY(ctx, size_below(ctx, bundle, "index.json", &bundle->root_size_bytes));
    bundle->marker_offset_bytes = bundle->root_offset_bytes = 0;
    int fd = io->open(io->self, bundle->fd, TSR_BLOB_FOLDER, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        FAIL_ERRNO(ctx, TSR_IO, -fd, TSB "cannot open '%s' of the unpacked bundle", bundle->path,
                   TSR_BLOB_FOLDER);
    int code = io->list(io->self, fd, list_blob, &list);
    io->close(io->self, fd);
    TRY(ctx, list.result);
    if (code < 0)
        FAIL_ERRNO(ctx, TSR_IO, -code, TSB "cannot list '%s'", bundle->path, TSR_BLOB_FOLDER);
    return TSR_SUCCESS;
}

static tsr_result find_members(tsr_ctx *ctx, tsr_bundle *bundle) {
    bundle->marker_offset_bytes = bundle->root_offset_bytes = ABSENT;
    if (bundle->is_directory)
        TRY(ctx, find_files(ctx, bundle));
    else
        TRY(ctx, tsr_tar_walk(ctx, bundle->fd, bundle->path, bundle->file_size_bytes, visit_member,
                              bundle));
    if (bundle->marker_offset_bytes == ABSENT || bundle->root_offset_bytes == ABSENT)
        FAIL(ctx, TSR_CORRUPT, TSB "members: expected 'oci-layout' and 'index.json', got no '%s'",
             bundle->path, bundle->marker_offset_bytes == ABSENT ? "oci-layout" : "index.json");
    return sort_blobs(ctx, bundle);
}

tsr_blob *tsr_bundle_find_blob(const tsr_bundle *bundle, const tsr_digest *digest) {
    const tsr_blob key = {.digest = *digest};
    if (!bundle->blob_count) return NULL;
    return bsearch(&key, bundle->blobs, bundle->blob_count, sizeof key, compare_blobs);
}

tsr_result tsr_blob_open(tsr_ctx *ctx, const tsr_bundle *bundle, const tsr_blob *blob,
                         int *out_fd) {
    char name[sizeof TSR_BLOB_FOLDER + TSR_DIGEST_HEX] = TSR_BLOB_FOLDER;
    uint64_t size;
    *out_fd = bundle->fd;
    if (!bundle->is_directory) return TSR_SUCCESS;
    tsr_digest_format(&blob->digest, name + sizeof TSR_BLOB_FOLDER - 1);
    return open_below(ctx, bundle, name, out_fd, &size);
}

void tsr_blob_close(tsr_ctx *ctx, const tsr_bundle *bundle, int fd) {
    if (bundle->is_directory) tsr_ctx_io(ctx)->close(tsr_ctx_io(ctx)->self, fd);
}

/* ---- following the digests ---- */

/* Finds the blob of a descriptor and compares sizes. */
static tsr_result resolve(tsr_ctx *ctx, tsr_bundle *bundle, tsr_descriptor *d) {
    tsr_entry_text entry = tsr_entry_text_digest(&d->digest);
    tsr_blob *blob = tsr_bundle_find_blob(bundle, &d->digest);
    if (!blob)
        FAIL(ctx, TSR_CORRUPT,
             TSB "blob of type %s (entry %s): expected %" PRIu64 " bytes, got no such blob",
             bundle->path, d->media_type, entry.text, d->size_bytes);
    if (blob->size_bytes == TSR_BLOB_SIZE_UNKNOWN) {
        char name[sizeof TSR_BLOB_FOLDER + TSR_DIGEST_HEX] = TSR_BLOB_FOLDER;
        tsr_digest_format(&blob->digest, name + sizeof TSR_BLOB_FOLDER - 1);
        TRY(ctx, size_below(ctx, bundle, name, &blob->size_bytes));
    }
    if (blob->size_bytes != d->size_bytes)
        FAIL(ctx, TSR_CORRUPT, TSB "size of a blob" TSB_AT "%" PRIu64 ", got %" PRIu64,
             bundle->path, blob->offset_bytes, entry.text, d->size_bytes, blob->size_bytes);
    blob->used = true;
    d->blob = (uint32_t)(blob - bundle->blobs);
    return TSR_SUCCESS;
}

/* Resolves and reads a metadata blob (at most 4 MiB: the parser checked), NUL-terminated. */
static tsr_result read_metadata(tsr_ctx *ctx, tsr_bundle *bundle, tsr_descriptor *d,
                                tsr_arena *arena, char **out_bytes) {
    TRY(ctx, resolve(ctx, bundle, d));
    char *bytes = tsr_arena_alloc(arena, (size_t)d->size_bytes + 1, 1, 16);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", bundle->path);
    TRY(ctx, tsr_blob_read(ctx, bundle, &bundle->blobs[d->blob], bytes));
    *out_bytes = bytes;
    return TSR_SUCCESS;
}

/* Reads oci-layout or index.json: bytes that no digest covers. */
static tsr_result read_member(tsr_ctx *ctx, const tsr_bundle *bundle, const char *name,
                              uint64_t offset, uint64_t size, tsr_arena *arena, char **out_bytes) {
    int fd = bundle->fd;
    if (size > TSR_BUNDLE_METADATA_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT, TSB "size of the member" TSB_AT "at most %d, got %" PRIu64,
             bundle->path, offset, name, TSR_BUNDLE_METADATA_BYTES_MAX, size);
    char *bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 16);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", bundle->path);
    uint64_t now = size;
    if (bundle->is_directory) TRY(ctx, open_below(ctx, bundle, name, &fd, &now));
    tsr_result result = tsr_io_read_exact(ctx, fd, bundle->path, bytes, (size_t)size, offset);
    tsr_blob_close(ctx, bundle, fd);
    *out_bytes = bytes;
    return result;
}

static tsr_json_source source_of(const tsr_bundle *bundle, const char *what,
                                 const tsr_descriptor *d) {
    return (tsr_json_source){bundle->path, what, bundle->blobs[d->blob].offset_bytes,
                             tsr_entry_text_digest(&d->digest)};
}

static tsr_result load_root(tsr_ctx *ctx, tsr_bundle *bundle, tsr_arena *scratch) {
    char *json;
    tsr_json_source source = {
        bundle->path, "oci-layout", bundle->marker_offset_bytes, {"oci-layout"}};
    TRY(ctx, read_member(ctx, bundle, "oci-layout", bundle->marker_offset_bytes,
                         bundle->marker_size_bytes, scratch, &json));
    TRY(ctx, tsr_layout_parse_marker(ctx, &source, json, (size_t)bundle->marker_size_bytes));
    source =
        (tsr_json_source){bundle->path, "index.json", bundle->root_offset_bytes, {"index.json"}};
    TRY(ctx, read_member(ctx, bundle, "index.json", bundle->root_offset_bytes,
                         bundle->root_size_bytes, scratch, &json));
    TRY(ctx, tsr_layout_parse_root(ctx, &source, json, (size_t)bundle->root_size_bytes,
                                   &bundle->arena, &bundle->layout.index));
    TRY(ctx, read_metadata(ctx, bundle, &bundle->layout.index, scratch, &json));
    source = source_of(bundle, "index", &bundle->layout.index);
    return tsr_layout_parse_index(ctx, &source, json, (size_t)bundle->layout.index.size_bytes,
                                  &bundle->arena, &bundle->layout);
}

/* Records that a manifest covers the blob with these digests; an earlier manifest may have covered
 * it already. */
static tsr_result cover(tsr_ctx *ctx, tsr_bundle *bundle, tsr_blob *blob,
                        const tsr_digest *chunks) {
    size_t size = (size_t)tsr_chunk_count(blob->size_bytes) * sizeof *chunks;
    if (blob->chunks && memcmp(blob->chunks, chunks, size) != 0)
        FAIL(ctx, TSR_CORRUPT,
             TSB "chunk tables" TSB_AT "equal digests of one blob, got different ones",
             bundle->path, blob->offset_bytes, tsr_entry_text_digest(&blob->digest).text);
    blob->chunks = chunks;
    return TSR_SUCCESS;
}

static tsr_result load_chunk_table(tsr_ctx *ctx, tsr_bundle *bundle, tsr_manifest *manifest) {
    char *bytes;
    size_t last = manifest->layer_count - 1;
    TRY(ctx, read_metadata(ctx, bundle, &manifest->layers[last], &bundle->arena, &bytes));
    const tsr_digest *chunks = (const tsr_digest *)(const void *)bytes;
    for (size_t i = 0; i < last; i++) {
        tsr_blob *blob = &bundle->blobs[manifest->layers[i].blob];
        TRY(ctx, cover(ctx, bundle, blob, chunks));
        chunks += tsr_chunk_count(blob->size_bytes); /* the parser has checked the sum */
    }
    return TSR_SUCCESS;
}

static tsr_result load_config(tsr_ctx *ctx, tsr_bundle *bundle, tsr_manifest *manifest) {
    tsr_descriptor *config = &manifest->config;
    if (!bundle->target_count) {
        bundle->config_size_bytes = (size_t)config->size_bytes;
        return read_metadata(ctx, bundle, config, &bundle->arena, &bundle->config);
    }
    const tsr_descriptor *first = &bundle->layout.manifests[bundle->targets[0]].config;
    if (!tsr_digest_equal(&first->digest, &config->digest))
        FAIL(ctx, TSR_CORRUPT, TSB "config of '%s'" TSB_AT "%s as in '%s', got %s", bundle->path,
             manifest->target, bundle->blobs[manifest->self.blob].offset_bytes,
             tsr_entry_text_digest(&manifest->self.digest).text,
             tsr_entry_text_digest(&first->digest).text,
             bundle->layout.manifests[bundle->targets[0]].target,
             tsr_entry_text_digest(&config->digest).text);
    return resolve(ctx, bundle, config);
}

static tsr_result load_manifest(tsr_ctx *ctx, tsr_bundle *bundle, size_t index,
                                tsr_arena *scratch) {
    tsr_manifest *manifest = &bundle->layout.manifests[index];
    char *json;
    if (!tsr_bundle_find_blob(bundle, &manifest->self.digest)) return TSR_SUCCESS; /* a slice */
    TRY(ctx, read_metadata(ctx, bundle, &manifest->self, scratch, &json));
    tsr_json_source source = source_of(bundle, "manifest", &manifest->self);
    TRY(ctx, tsr_layout_parse_manifest(ctx, &source, json, (size_t)manifest->self.size_bytes,
                                       &bundle->arena, manifest));
    for (size_t i = 0; i < manifest->layer_count; i++)
        TRY(ctx, resolve(ctx, bundle, &manifest->layers[i]));
    if (!manifest->target) return resolve(ctx, bundle, &manifest->config);
    TRY(ctx, load_config(ctx, bundle, manifest));
    TRY(ctx, load_chunk_table(ctx, bundle, manifest));
    bundle->targets[bundle->target_count++] = index;
    return TSR_SUCCESS;
}

/* ---- open and close ---- */

static tsr_result open_path(tsr_ctx *ctx, tsr_bundle *bundle, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    bundle->path = tsr_arena_strdup(&bundle->arena, path);
    if (!bundle->path) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    int fd = io->open(io->self, TSR_IO_CWD, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, TSB "cannot open", path);
    bundle->fd = fd;
    int code = io->fstat(io->self, fd, &info);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, TSB "cannot stat", path);
    bundle->is_directory = S_ISDIR(info.st_mode);
    if (!bundle->is_directory && !S_ISREG(info.st_mode))
        FAIL(ctx, TSR_IO, TSB "expected a file or a directory, got something else", path);
    if (!bundle->is_directory) bundle->file_size_bytes = (uint64_t)info.st_size;
    return TSR_SUCCESS;
}

static tsr_result load(tsr_ctx *ctx, tsr_bundle *bundle, const tsr_bundle_open_options *options,
                       tsr_arena *scratch) {
    tsr_bundle_verify_report report;
    if (options->strict && bundle->is_directory)
        FAIL(ctx, TSR_CORRUPT, TSB "strict mode: expected a file, got a directory", bundle->path);
    TRY(ctx, find_members(ctx, bundle));
    TRY(ctx, load_root(ctx, bundle, scratch));
    for (size_t i = 0; i < bundle->layout.manifest_count; i++)
        TRY(ctx, load_manifest(ctx, bundle, i, scratch));
    if (!bundle->target_count)
        FAIL(ctx, TSR_CORRUPT,
             TSB "manifests of the index: expected one of a target, got none of the %zu blobs",
             bundle->path, bundle->layout.manifest_count);
    if (!options->strict) return TSR_SUCCESS;
    TRY(ctx, tsr_bundle_check_canonical(ctx, bundle));
    if (options->defer_blobs) return TSR_SUCCESS;
    return tsr_bundle_verify(ctx, bundle, 0, &report);
}

tsr_result tsr_bundle_open(tsr_ctx *ctx, const char *path, const tsr_bundle_open_options *options,
                           tsr_bundle **out_bundle) {
    static const tsr_bundle_open_options defaults = {.size_bytes = sizeof defaults};
    tsr_arena scratch = {0};
    tsr_result result = TSR_SUCCESS;
    TSR_ASSERT(!options || options->size_bytes == sizeof *options);
    tsr_bundle *bundle = calloc(1, sizeof *bundle);
    if (!bundle) FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    bundle->fd = -1;
    TRY_GOTO(ctx, result, open_path(ctx, bundle, path));
    TRY_GOTO(ctx, result, load(ctx, bundle, options ? options : &defaults, &scratch));
    *out_bundle = bundle;
done:
    tsr_arena_finish(&scratch);
    if (result.code) tsr_bundle_close(ctx, bundle);
    return result;
}

void tsr_bundle_close(tsr_ctx *ctx, tsr_bundle *bundle) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (!bundle) return;
    if (bundle->fd >= 0) io->close(io->self, bundle->fd);
    free(bundle->blobs);
    tsr_arena_finish(&bundle->arena);
    free(bundle);
}
