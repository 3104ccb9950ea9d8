/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: list the blobs of the bundle, let each connection take the next one (the longest first),
 * then send the manifests, the index under its tag, and the signature as a referrer of the index.
 */
#include "bundle/internal.h"
#include "bundle/sign.h"
#include "registry/connections.h"
#include "registry/referrers.h"
#include "registry/transfer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

typedef struct push {
    tsr_remote remote;
    tsr_bundle *bundle;
    const tsr_push_options *options;
    const tsr_blob **blobs; /* owned; configs and layers, each once */
    size_t blob_count;
    atomic_uint_least64_t present, mounted;
} push;

/* ---- verified bytes of a blob ---- */

typedef struct reader {
    const push *p;
    const tsr_blob *blob;
    char *bytes; /* owned; the chunk that was read last, or a whole small blob without a chunk table
                  */
    uint64_t begin, end; /* its range in the blob */
} reader;

/* Reads and verifies the bytes around `offset`: a chunk; or, for a blob without a chunk table, the
 * whole blob if it is small, else a piece (the blob was verified before). */
static tsr_result load(tsr_ctx *ctx, reader *r, uint64_t offset) {
    const tsr_bundle *bundle = r->p->bundle;
    const tsr_blob *blob = r->blob;
    uint64_t chunk = offset / TSR_HASH_CHUNK_BYTES;
    int fd;
    r->begin = chunk * TSR_HASH_CHUNK_BYTES;
    r->end = r->begin + TSR_HASH_CHUNK_BYTES;
    if (r->end > blob->size_bytes) r->end = blob->size_bytes;
    size_t size = (size_t)(r->end - r->begin);
    TRY(ctx, tsr_blob_open(ctx, bundle, blob, &fd));
    tsr_result result =
        tsr_io_read_exact(ctx, fd, bundle->path, r->bytes, size, blob->offset_bytes + r->begin);
    tsr_blob_close(ctx, bundle, fd);
    TRY(ctx, result);
    bool whole = !blob->chunks && blob->size_bytes <= TSR_HASH_CHUNK_BYTES;
    if (!blob->chunks && !whole) return TSR_SUCCESS;
    tsr_digest got = whole ? tsr_hash(r->bytes, size) : tsr_hash_tree(r->bytes, size);
    const tsr_digest *expected = whole ? &blob->digest : &blob->chunks[chunk];
    return tsr_blob_check_digest(ctx, bundle, blob, "digest of the chunk", r->begin, expected,
                                 &got);
}

static tsr_result read_blob(tsr_ctx *ctx, void *user, uint64_t offset, void *bytes, size_t size) {
    reader *r = user;
    for (size_t done = 0; done < size;) {
        uint64_t at = offset + done;
        if (at < r->begin || at >= r->end) TRY(ctx, load(ctx, r, at));
        size_t part = size - done < r->end - at ? size - done : (size_t)(r->end - at);
        memcpy((char *)bytes + done, r->bytes + (at - r->begin), part);
        done += part;
    }
    return TSR_SUCCESS;
}

static tsr_result push_blob(tsr_ctx *ctx, tsr_http *http, push *p, const tsr_blob *blob) {
    reader r = {.p = p, .blob = blob, .bytes = malloc(TSR_HASH_CHUNK_BYTES)};
    const tsr_blob_source source = {blob->digest, blob->size_bytes, read_blob, &r};
    tsr_blob_fate fate = TSR_BLOB_SENT;
    tsr_result result = TSR_SUCCESS;
    if (!r.bytes) FAIL(ctx, TSR_MEMORY, "no memory to send '%s'", p->bundle->path);
    if (!blob->chunks && blob->size_bytes > TSR_HASH_CHUNK_BYTES)
        TRY_GOTO(ctx, result, tsr_blob_stream(ctx, p->bundle, blob, r.bytes, NULL, NULL));
    TRY_GOTO(
        ctx, result,
        tsr_blob_push(ctx, http, &source, p->options->mount_names, p->options->mount_count, &fate));
    if (fate == TSR_BLOB_PRESENT) atomic_fetch_add(&p->present, 1);
    if (fate == TSR_BLOB_MOUNTED) atomic_fetch_add(&p->mounted, 1);
    if (fate != TSR_BLOB_SENT) tsr_remote_skip(&p->remote, blob->size_bytes);
done:
    free(r.bytes);
    return result;
}

static tsr_result run_task(tsr_ctx *ctx, tsr_http *http, void *user, size_t task) {
    push *p = user;
    return push_blob(ctx, http, p, p->blobs[task]);
}

/* ---- sending ---- */

static void add_blob(push *p, const tsr_descriptor *d) {
    const tsr_blob *blob = tsr_bundle_find_blob(p->bundle, &d->digest);
    TSR_ASSERT(blob); /* it was found when the bundle was opened */
    for (size_t i = 0; i < p->blob_count; i++)
        if (p->blobs[i] == blob) return;
    p->blobs[p->blob_count++] = blob;
}

static int longest_first(const void *a, const void *b) {
    const tsr_blob *left = *(const tsr_blob *const *)a, *right = *(const tsr_blob *const *)b;
    if (left->size_bytes != right->size_bytes) return left->size_bytes > right->size_bytes ? -1 : 1;
    return memcmp(left->digest.bytes, right->digest.bytes, TSR_DIGEST_BYTES);
}

/* Manifests in the file have layers; manifests that a slice leaves out have no layers. */
static tsr_result list_blobs(tsr_ctx *ctx, push *p) {
    const tsr_layout *layout = &p->bundle->layout;
    p->blobs = calloc(p->bundle->blob_count, sizeof *p->blobs);
    if (!p->blobs) FAIL(ctx, TSR_MEMORY, "no memory to send '%s'", p->bundle->path);
    for (size_t m = 0; m < layout->manifest_count; m++) {
        const tsr_manifest *manifest = &layout->manifests[m];
        if (!manifest->layer_count) continue;
        add_blob(p, &manifest->config);
        for (size_t i = 0; i < manifest->layer_count; i++) add_blob(p, &manifest->layers[i]);
    }
    qsort(p->blobs, p->blob_count, sizeof *p->blobs, longest_first);
    return TSR_SUCCESS;
}

static tsr_result push_manifest(tsr_ctx *ctx, tsr_http *http, const push *p,
                                const tsr_descriptor *d, const char *name) {
    const tsr_blob *blob = tsr_bundle_find_blob(p->bundle, &d->digest);
    tsr_http_response response = {0};
    tsr_result result = TSR_SUCCESS;
    char *bytes = malloc((size_t)d->size_bytes);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory to send '%s'", p->bundle->path);
    TRY_GOTO(ctx, result, tsr_blob_read(ctx, p->bundle, blob, bytes));
    TRY_GOTO(
        ctx, result,
        tsr_manifest_put(ctx, http, name, d->media_type, bytes, (size_t)d->size_bytes, &response));
done:
    tsr_http_response_finish(&response);
    free(bytes);
    return result;
}

/* Sends manifests by digest. Manifests that a slice leaves out must exist in the registry already:
 * a registry refuses an index with unknown manifests. */
static tsr_result push_manifests(tsr_ctx *ctx, tsr_http *http, const push *p) {
    const tsr_layout *layout = &p->bundle->layout;
    for (size_t i = 0; i < layout->manifest_count; i++) {
        const tsr_manifest *manifest = &layout->manifests[i];
        tsr_digest_text name = tsr_digest_text_of(&manifest->self.digest);
        bool there = false;
        TRY(ctx, tsr_manifest_exists(ctx, http, name.text, &there));
        if (there) continue;
        if (!manifest->layer_count)
            FAIL(ctx, TSR_ABSENT,
                 "'%s' is a slice without target '%s', and registry '%s' does not have its "
                 "manifest in repository '%s': push the whole bundle first",
                 p->bundle->path, manifest->target ? manifest->target : "-",
                 p->remote.reference.host, p->remote.reference.name);
        TRY(ctx, push_manifest(ctx, http, p, &manifest->self, name.text));
    }
    return TSR_SUCCESS;
}

static tsr_result push_index(tsr_ctx *ctx, tsr_http *http, const push *p) {
    const tsr_reference *reference = &p->remote.reference;
    const tsr_descriptor *index = &p->bundle->layout.index;
    const char *name = reference->tag[0] ? reference->tag : tsr_digest_text_of(&index->digest).text;
    return push_manifest(ctx, http, p, index, name);
}

static bool is_there(const tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = io->open(io->self, TSR_IO_CWD, path, O_PATH, 0);
    if (fd >= 0) io->close(io->self, fd);
    return fd >= 0;
}

/* Every signature next to the bundle must be for this bundle; the Sigstore one is sent. */
static tsr_result push_signature(tsr_ctx *ctx, tsr_http *http, const push *p, bool *out_pushed) {
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    tsr_signature_report found = {0};
    const tsr_signature_policy policy = {.size_bytes = sizeof policy};
    void *bytes = NULL;
    size_t size = 0;
    *out_pushed = false;
    TRY(ctx, tsr_signature_check(ctx, p->bundle, &policy, &found));
    const char *path = tsr_arena_printf(&arena, "%s" TSR_SIGNATURE_SUFFIX, p->bundle->path);
    const char *minisign = tsr_arena_printf(&arena, "%s" TSR_MINISIGN_SUFFIX, p->bundle->path);
    if (!path || !minisign) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to send a signature");
    if (is_there(ctx, minisign))
        tsr_log(ctx, TSR_LOG_NOTICE,
                "'%s' was not sent: only Sigstore signatures can be stored in a registry",
                minisign);
    if (!is_there(ctx, path)) goto done;
    TRY_GOTO(ctx, result,
             tsr_io_read_file(ctx, path, TSR_SIGNATURE_FILE_BYTES_MAX, &arena, &bytes, &size));
    TRY_GOTO(ctx, result, tsr_referrer_push(ctx, http, &p->bundle->layout.index, bytes, size));
    *out_pushed = true;
done:
    tsr_arena_finish(&arena);
    return result;
}

/* ---- push ---- */

static tsr_result check_digest(tsr_ctx *ctx, const push *p) {
    const tsr_reference *reference = &p->remote.reference;
    const tsr_digest *digest = &p->bundle->layout.index.digest;
    if (!reference->has_digest || tsr_digest_equal(digest, &reference->digest)) return TSR_SUCCESS;
    FAIL(ctx, TSR_USAGE, "the reference requests %s; '%s' is %s",
         tsr_digest_text_of(&reference->digest).text, p->bundle->path,
         tsr_digest_text_of(digest).text);
}

static tsr_result send_all(tsr_ctx *ctx, push *p, tsr_registry_report *report) {
    tsr_http http = {0};
    uint64_t total = 0;
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, check_digest(ctx, p));
    TRY(ctx, list_blobs(ctx, p));
    for (size_t i = 0; i < p->blob_count; i++) total += p->blobs[i]->size_bytes;
    tsr_remote_begin(&p->remote, "send", total);
    TRY(ctx, tsr_connections_run(ctx, &p->remote, p->blob_count, run_task, p));
    TRY(ctx, tsr_http_init(ctx, &http, &p->remote));
    TRY_GOTO(ctx, result, push_manifests(ctx, &http, p));
    TRY_GOTO(ctx, result, push_index(ctx, &http, p));
    if (!p->options->no_signature)
        TRY_GOTO(ctx, result, push_signature(ctx, &http, p, &report->signature));
    report->digest = p->bundle->layout.index.digest;
    report->bundle_bytes = p->bundle->file_size_bytes;
    report->blob_count = p->blob_count;
    report->present_blob_count = atomic_load(&p->present);
    report->mounted_blob_count = atomic_load(&p->mounted);
    report->unchanged = report->present_blob_count == report->blob_count;
done:
    tsr_http_finish(&http);
    return result;
}

tsr_result tsr_registry_push(tsr_ctx *ctx, const char *path, const char *reference,
                             const tsr_registry_options *options,
                             const tsr_push_options *push_options,
                             tsr_registry_report *out_report) {
    static const tsr_push_options none = {.size_bytes = sizeof none};
    tsr_registry_report report = {0};
    tsr_result result = TSR_SUCCESS;
    struct timespec start, end;
    TSR_ASSERT(!push_options || push_options->size_bytes == sizeof *push_options);
    push *p = calloc(1, sizeof *p);
    if (!p) FAIL(ctx, TSR_MEMORY, "no memory to send '%s'", path);
    p->options = push_options ? push_options : &none;
    clock_gettime(CLOCK_MONOTONIC, &start);
    result = tsr_remote_init(ctx, &p->remote, reference, options, true, p->options->mount_names,
                             p->options->mount_count);
    if (result.code) {
        free(p);
        return result;
    }
    TRY_GOTO(ctx, result, tsr_bundle_open(ctx, path, NULL, &p->bundle));
    TRY_GOTO(ctx, result, send_all(ctx, p, &report));
    clock_gettime(CLOCK_MONOTONIC, &end);
    tsr_remote_report(&p->remote, &report);
    report.seconds =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    *out_report = report;
done:
    free(p->blobs);
    tsr_bundle_close(ctx, p->bundle);
    tsr_remote_finish(&p->remote);
    free(p);
    return result;
}
