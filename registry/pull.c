/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: fetch index, manifests, configs, chunk tables; find a trusted signature; lay out the
 * canonical archive in `<path>.part`; fill it (fill.c); compare it with the format; rename it and
 * its signature to their final names.
 */
#include "bundle/internal.h"
#include "bundle/sign.h"
#include "registry/fill.h"
#include "registry/referrers.h"
#include "registry/transfer.h"
#include "runtime/base/plural.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct pull {
    tsr_remote remote;
    const tsr_pull_options *options;
    const char *path;
    tsr_arena arena;
    const char *part, *signature, *minisign, *part_signature; /* paths; in the arena */
    tsr_http http;
    tsr_catalog catalog;
    tsr_plan plan;
    tsr_bundle **bases; /* owned */
    size_t base_count;
    tsr_bundle *current; /* the base at `path`; NULL if that is not a bundle */
    int fd;              /* descriptor of the part; -1 if it is not open */
    bool owned, resumed; /* this pull has locked the part; the part may contain chunks */
    bool sized, renamed; /* it has its final size; it has been renamed */
    bool signed_;        /* part_signature contains a trusted signature */
    tsr_registry_report report;
} pull;

/* ---- local bundles ---- */

static tsr_result open_bases(tsr_ctx *ctx, pull *p) {
    size_t count = p->options->base_count;
    p->bases = calloc(count + 1, sizeof(tsr_bundle *));
    if (!p->bases) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", p->path);
    tsr_ctx quiet = tsr_ctx_fork(ctx);
    if (!tsr_bundle_open(&quiet, p->path, NULL, &p->current).code)
        p->bases[p->base_count++] = p->current;
    for (size_t i = 0; i < count; i++, p->base_count++)
        TRY(ctx, tsr_bundle_open(ctx, p->options->base_paths[i], NULL, &p->bases[p->base_count]));
    return TSR_SUCCESS;
}

/* Returns true if `path` already contains exactly the requested bundle, byte for byte. */
static bool is_current(const tsr_ctx *ctx, const pull *p) {
    const tsr_layout *wanted = &p->catalog.layout;
    const tsr_bundle_open_options strict = {.size_bytes = sizeof strict, .strict = true};
    tsr_bundle *bundle = NULL;
    tsr_ctx quiet = tsr_ctx_fork(ctx);
    if (!p->current || p->current->is_directory ||
        !tsr_digest_equal(&p->current->layout.index.digest, &wanted->index.digest))
        return false;
    if (tsr_bundle_open(&quiet, p->path, &strict, &bundle).code) return false;
    bool same = true;
    for (size_t i = 0; i < wanted->manifest_count; i++)
        same =
            same && !bundle->layout.manifests[i].layer_count == !wanted->manifests[i].layer_count;
    tsr_bundle_close(&quiet, bundle);
    return same;
}

/* ---- signature ---- */

static tsr_result write_signature(tsr_ctx *ctx, const pull *p, const tsr_referrer *referrer) {
    return tsr_io_atomic_write(ctx, p->part_signature, referrer->bytes, referrer->size_bytes);
}

static void remove_file(const tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    io->unlink(io->self, TSR_IO_CWD, path, 0);
}

/* Chooses the last signature of the registry's list that the policy trusts. This is decided before
 * the blobs are fetched; a signature signs the index, which is already here. */
static tsr_result choose_signature(tsr_ctx *ctx, pull *p) {
    tsr_bundle subject = {.path = (char *)(uintptr_t)p->part,
                          .layout = {.index = p->catalog.layout.index}};
    const tsr_signature_policy policy = {.size_bytes = sizeof policy,
                                         .keys = p->options->keys,
                                         .key_count = p->options->key_count,
                                         .required = p->options->require_signature};
    tsr_signature_report found = {0};
    tsr_referrer *referrers = NULL;
    size_t count = 0;
    tsr_result result = TSR_SUCCESS;
    remove_file(ctx, p->part_signature);
    if (p->options->no_signature) return TSR_SUCCESS;
    TRY(ctx,
        tsr_referrers_pull(ctx, &p->http, &p->catalog.layout.index, &p->arena, &referrers, &count));
    for (size_t i = count; i-- > 0 && !p->signed_;) {
        TRY(ctx, write_signature(ctx, p, &referrers[i]));
        tsr_error_clear(ctx);
        result = tsr_signature_check(ctx, &subject, &policy, &found);
        p->signed_ = !result.code;
        if (!p->signed_) remove_file(ctx, p->part_signature);
        if (result.code && result.code != TSR_SIGNATURE) break;
    }
    if (p->signed_ && count > 1)
        tsr_log(ctx, TSR_LOG_NOTICE,
                "the registry has %zu signature%s of the bundle; only one is kept", count,
                TSR_PLURAL(count));
    if (!count && p->options->require_signature)
        FAIL(ctx, TSR_SIGNATURE,
             "'%s/%s' has no signature in the registry: expected one by a given key",
             p->remote.reference.host, p->remote.reference.name);
    if (!count && p->options->key_count)
        tsr_log(ctx, TSR_LOG_WARNING, "'%s/%s' has no signature in the registry",
                p->remote.reference.host, p->remote.reference.name);
    return result;
}

/* The old signature belongs to the old bundle: it is removed first, so that a bundle is never next
 * to a signature of another one. */
static tsr_result install_signature(tsr_ctx *ctx, const pull *p) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (!p->signed_) return TSR_SUCCESS;
    int code = io->rename(io->self, TSR_IO_CWD, p->part_signature, p->signature);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot write '%s'", p->signature);
    return TSR_SUCCESS;
}

/* ---- the part ---- */

/* Opens the part and locks it for this pull. If the file was renamed between opening and
 * locking, it has become another pull's bundle. */
static tsr_result open_part(tsr_ctx *ctx, pull *p) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat ours, named;
    uint64_t size = 0;
    TRY(ctx, tsr_io_open(ctx, p->part, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666, &p->fd));
    TRY(ctx, tsr_io_file_size(ctx, p->fd, p->part, &size));
    int code = io->lock(io->self, p->fd);
    if (code < 0 && code != -EWOULDBLOCK)
        FAIL_ERRNO(ctx, TSR_IO, -code, "cannot lock '%s'", p->part);
    int fd = io->open(io->self, TSR_IO_CWD, p->part, O_PATH | O_NOFOLLOW, 0);
    bool same = fd >= 0 && io->fstat(io->self, p->fd, &ours) >= 0 &&
                io->fstat(io->self, fd, &named) >= 0 && ours.st_ino == named.st_ino &&
                ours.st_dev == named.st_dev;
    if (fd >= 0) io->close(io->self, fd);
    if (code == -EWOULDBLOCK || !same)
        FAIL(ctx, TSR_LOCKED, "another pull is writing '%s'", p->part);
    p->owned = true;
    p->resumed = size > 0;
    return TSR_SUCCESS;
}

/* Allocates all disk space at once if the file system can, so that the disk cannot become full
 * halfway. */
static tsr_result size_part(tsr_ctx *ctx, pull *p) {
    const tsr_io *io = tsr_ctx_io(ctx);
    off_t size = (off_t)p->plan.file_size_bytes;
    p->sized = true;
    int code = io->ftruncate(io->self, p->fd, size);
    if (code >= 0) {
        code = io->fallocate(io->self, p->fd, size);
        if (code == -EOPNOTSUPP || code == -ENOSYS || code == -EINVAL) code = 0;
    }
    if (code < 0)
        FAIL_ERRNO(ctx, TSR_IO, -code, "no room for the %" PRIu64 " byte%s of '%s'",
                   p->plan.file_size_bytes, TSR_PLURAL(p->plan.file_size_bytes), p->part);
    return TSR_SUCCESS;
}

/* Writes everything except the fetched blobs: headers, JSON, chunk tables, the end. */
static tsr_result write_frame(tsr_ctx *ctx, pull *p) {
    static const char zeros[2 * TSR_TAR_BLOCK_BYTES];
    unsigned char *head = tsr_arena_alloc(&p->arena, TSR_PLAN_HEAD_BYTES_MAX, 1, 16);
    if (!head) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", p->path);
    for (size_t i = 0; i < p->plan.entry_count; i++) {
        const tsr_plan_entry *entry = &p->plan.entries[i];
        const void *bytes = tsr_plan_fixed_bytes(&p->plan, entry);
        uint64_t end = entry->data_offset_bytes + entry->size_bytes;
        size_t size = tsr_plan_format_head(entry, head);
        TRY(ctx, tsr_io_write_all(ctx, p->fd, p->part, head, size, entry->head_offset_bytes));
        if (!bytes) {
            tsr_remote_blob *blob = &p->catalog.blobs[entry->blob];
            blob->offset_bytes = entry->data_offset_bytes;
            bytes = blob->bytes;
        }
        if (bytes)
            TRY(ctx, tsr_io_write_all(ctx, p->fd, p->part, bytes, (size_t)entry->size_bytes,
                                      entry->data_offset_bytes));
        TRY(ctx, tsr_io_write_all(ctx, p->fd, p->part, zeros, tsr_tar_gap(entry->size_bytes), end));
    }
    return tsr_io_write_all(ctx, p->fd, p->part, zeros, sizeof zeros,
                            p->plan.file_size_bytes - sizeof zeros);
}

static tsr_result fill_part(tsr_ctx *ctx, pull *p) {
    tsr_fill fill = {.remote = &p->remote,
                     .catalog = &p->catalog,
                     .path = p->part,
                     .fd = p->fd,
                     .resumed = p->resumed,
                     .bases = p->bases,
                     .base_count = p->base_count};
    size_t metadata = 0;
    tsr_result result = tsr_fill_run(ctx, &fill);
    for (size_t i = 0; i < p->catalog.blob_count; i++)
        metadata += p->catalog.blobs[i].bytes != NULL;
    p->report.reused_bytes = fill.reused_bytes;
    p->report.present_blob_count = p->catalog.blob_count - metadata - fill.missing_blob_count;
    return result;
}

/* Checks that the frame has the canonical form and that its parts match. The chunks were verified
 * before they were written. */
static tsr_result check_part(tsr_ctx *ctx, const pull *p) {
    const tsr_bundle_open_options strict = {
        .size_bytes = sizeof strict, .strict = true, .defer_blobs = true};
    tsr_bundle *bundle = NULL;
    TRY(ctx, tsr_bundle_open(ctx, p->part, &strict, &bundle));
    tsr_bundle_close(ctx, bundle);
    return TSR_SUCCESS;
}

static tsr_result sync_parent(tsr_ctx *ctx, pull *p) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const char *slash = strrchr(p->path, '/');
    char *parent = tsr_arena_strndup(&p->arena, p->path, slash ? (size_t)(slash - p->path) + 1 : 0);
    int fd;
    if (!parent) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", p->path);
    TRY(ctx, tsr_io_open(ctx, slash ? parent : ".", O_RDONLY | O_DIRECTORY, 0, &fd));
    int code = io->fsync(io->self, fd);
    io->close(io->self, fd);
    if (code < 0 && code != -EINVAL) /* some file systems cannot sync a directory */
        FAIL_ERRNO(ctx, TSR_IO, -code, "cannot sync the directory of '%s'", p->path);
    return TSR_SUCCESS;
}

/* Removes a signature of the replaced bundle. */
static tsr_result remove_stale(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->unlink(io->self, TSR_IO_CWD, path, 0);
    if (code < 0 && code != -ENOENT) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot remove '%s'", path);
    return TSR_SUCCESS;
}

static tsr_result install_part(tsr_ctx *ctx, pull *p) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->fsync(io->self, p->fd);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot sync '%s'", p->part);
    TRY(ctx, remove_stale(ctx, p->signature));
    TRY(ctx, remove_stale(ctx, p->minisign));
    code = io->rename(io->self, TSR_IO_CWD, p->part, p->path);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot write '%s'", p->path);
    p->renamed = true;
    TRY(ctx, install_signature(ctx, p));
    return sync_parent(ctx, p);
}

static tsr_result make_file(tsr_ctx *ctx, pull *p) {
    TRY(ctx, tsr_plan_init(ctx, &p->catalog.layout, p->catalog.blob_count, &p->arena, &p->plan));
    TRY(ctx, size_part(ctx, p));
    TRY(ctx, write_frame(ctx, p));
    TRY(ctx, fill_part(ctx, p));
    TRY(ctx, check_part(ctx, p));
    p->report.bundle_bytes = p->plan.file_size_bytes;
    return install_part(ctx, p);
}

/* ---- pull ---- */

/* Checks that the output path does not exist or is a file that can be replaced. */
static tsr_result check_path(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    if (!path[0]) FAIL(ctx, TSR_USAGE, "output path is empty");
    if (strcmp(path, "-") == 0)
        FAIL(ctx, TSR_USAGE,
             "output path is '-'; expected a file: the output cannot go to standard output");
    int fd = io->open(io->self, TSR_IO_CWD, path, O_PATH, 0);
    if (fd < 0) return TSR_SUCCESS;
    int code = io->fstat(io->self, fd, &info);
    io->close(io->self, fd);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", path);
    if (!S_ISREG(info.st_mode))
        FAIL(ctx, TSR_IO, "cannot write '%s': it is %s; expected a file", path,
             S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    return TSR_SUCCESS;
}

static tsr_result name_files(tsr_ctx *ctx, pull *p) {
    p->part = tsr_arena_printf(&p->arena, "%s.part", p->path);
    p->signature = tsr_arena_printf(&p->arena, "%s" TSR_SIGNATURE_SUFFIX, p->path);
    p->minisign = tsr_arena_printf(&p->arena, "%s" TSR_MINISIGN_SUFFIX, p->path);
    if (p->part)
        p->part_signature = tsr_arena_printf(&p->arena, "%s" TSR_SIGNATURE_SUFFIX, p->part);
    if (!p->part || !p->signature || !p->minisign || !p->part_signature)
        FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", p->path);
    return TSR_SUCCESS;
}

static tsr_result pull_all(tsr_ctx *ctx, pull *p) {
    TRY(ctx, check_path(ctx, p->path));
    TRY(ctx, name_files(ctx, p));
    TRY(ctx, open_part(ctx, p));
    TRY(ctx, open_bases(ctx, p));
    TRY(ctx, tsr_http_init(ctx, &p->http, &p->remote));
    TRY(ctx, tsr_catalog_fetch(ctx, &p->http, p->options->targets, p->options->target_count,
                               &p->catalog));
    TRY(ctx, choose_signature(ctx, p));
    p->report.digest = p->catalog.layout.index.digest;
    p->report.blob_count = p->catalog.blob_count;
    p->report.signature = p->signed_;
    if (!is_current(ctx, p)) return make_file(ctx, p);
    p->report.unchanged = true;
    p->report.bundle_bytes = p->current->file_size_bytes;
    p->report.present_blob_count = p->catalog.blob_count;
    return install_signature(ctx, p);
}

static void finish(tsr_ctx *ctx, pull *p) {
    const tsr_io *io = tsr_ctx_io(ctx);
    for (size_t i = 0; i < p->base_count; i++) tsr_bundle_close(ctx, p->bases[i]);
    free(p->bases);
    /* Kept only if the next pull can use its contents. */
    bool useless = p->report.unchanged || (!p->resumed && !p->sized);
    if (p->owned && p->part_signature) remove_file(ctx, p->part_signature);
    if (p->owned && !p->renamed && useless) remove_file(ctx, p->part);
    if (p->fd >= 0) io->close(io->self, p->fd);
    tsr_plan_finish(&p->plan);
    tsr_catalog_finish(&p->catalog);
    tsr_http_finish(&p->http);
    tsr_remote_finish(&p->remote);
    tsr_arena_finish(&p->arena);
}

tsr_result tsr_registry_pull(tsr_ctx *ctx, const char *reference, const char *path,
                             const tsr_registry_options *options,
                             const tsr_pull_options *pull_options,
                             tsr_registry_report *out_report) {
    static const tsr_pull_options none = {.size_bytes = sizeof none};
    struct timespec start, end;
    TSR_ASSERT(!pull_options || pull_options->size_bytes == sizeof *pull_options);
    pull *p = calloc(1, sizeof *p);
    if (!p) FAIL(ctx, TSR_MEMORY, "no memory to pull '%s'", path);
    p->options = pull_options ? pull_options : &none;
    p->path = path;
    p->fd = -1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    tsr_result result = tsr_remote_init(ctx, &p->remote, reference, options, false, NULL, 0);
    if (!result.code) {
        result = pull_all(ctx, p);
        tsr_remote_report(&p->remote, &p->report);
        finish(ctx, p);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    p->report.seconds =
        (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    if (!result.code) *out_report = p->report;
    free(p);
    return result;
}
