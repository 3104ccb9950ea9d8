/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/state/disk.h"

#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/base/trace/trace.h"
#include "runtime/commit/mutants.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WRITE_BYTES = 8 << 20 };

static int add_name(void *user, const char *text) {
    tsr_listing *listing = user;
    tsr_name name = tsr_name_parse(text);
    if (name.kind == TSR_NAME_OTHER) return 0;
    if ((name.kind == TSR_NAME_EPOCH || name.kind == TSR_NAME_BASE ||
         name.kind == TSR_NAME_MANIFEST) &&
        name.epoch > listing->highest_epoch)
        listing->highest_epoch = name.epoch;
    listing->seen |= 1u << name.kind;
    if (listing->wanted && !(listing->wanted & 1u << name.kind)) return 0;
    if (listing->count == listing->capacity && listing->arena) {
        tsr_name *names = TSR_ARENA_GROW(listing->arena, listing->names, &listing->capacity, 64);
        if (!names) return -ENOMEM;
        listing->names = names;
    }
    if (listing->count < listing->capacity)
        listing->names[listing->count++] = name;
    else
        listing->overflow = true;
    return 0;
}

tsr_result tsr_disk_list(tsr_ctx *ctx, int fd, tsr_listing *listing) {
    const tsr_io *io = tsr_ctx_io(ctx);
    listing->count = 0;
    listing->overflow = false;
    listing->highest_epoch = 0;
    listing->seen = 0;
    int code = io->list(io->self, fd, add_name, listing);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot list the directory");
    return TSR_SUCCESS;
}

static int compare_names(const void *a, const void *b) {
    const tsr_name *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->epoch != y->epoch) return x->epoch < y->epoch ? -1 : 1;
    return x->generation < y->generation ? -1 : x->generation > y->generation;
}

/* Sorts in place and in bounded time with heapsort, because qsort may allocate. */
static void sift_down(tsr_name *names, size_t at, size_t count) {
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && compare_names(&names[child], &names[child + 1]) < 0) child++;
        if (compare_names(&names[at], &names[child]) >= 0) return;
        tsr_name swap = names[at];
        names[at] = names[child];
        names[child] = swap;
        at = child;
    }
}

void tsr_listing_sort(tsr_listing *listing) {
    for (size_t i = listing->count / 2; i-- > 0;) sift_down(listing->names, i, listing->count);
    for (size_t end = listing->count; end-- > 1;) {
        tsr_name swap = listing->names[0];
        listing->names[0] = listing->names[end];
        listing->names[end] = swap;
        sift_down(listing->names, 0, end);
    }
}

size_t tsr_listing_find(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                        uint64_t generation) {
    const tsr_name name = {.kind = kind, .epoch = epoch, .generation = generation};
    size_t low = 0, high = listing->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_names(&listing->names[middle], &name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t tsr_listing_epoch_below(const tsr_listing *listing, tsr_name_kind kind, uint64_t limit) {
    size_t at = tsr_listing_find(listing, kind, limit, 0);
    return at && listing->names[at - 1].kind == kind ? listing->names[at - 1].epoch : 0;
}

bool tsr_listing_has(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                     uint64_t generation) {
    const tsr_name name = {.kind = kind, .epoch = epoch, .generation = generation};
    size_t at = tsr_listing_find(listing, kind, epoch, generation);
    return at < listing->count && compare_names(&listing->names[at], &name) == 0;
}

uint64_t tsr_listing_highest(const tsr_listing *listing, tsr_name_kind kind) {
    uint64_t highest = 0;
    for (size_t i = 0; i < listing->count; i++)
        if (listing->names[i].kind == kind && listing->names[i].generation > highest)
            highest = listing->names[i].generation;
    return highest;
}

bool tsr_names_have(const tsr_name *names, size_t count, const tsr_name *name) {
    for (size_t i = 0; i < count; i++)
        if (compare_names(&names[i], name) == 0) return true;
    return false;
}

const tsr_name *tsr_listing_find_other(const tsr_listing *listing, uint64_t generation,
                                       const tsr_name *except, size_t except_count) {
    for (size_t i = listing->count; i-- > 0;) {
        const tsr_name *name = &listing->names[i];
        if (name->kind == TSR_NAME_MANIFEST && name->generation == generation &&
            !tsr_names_have(except, except_count, name))
            return name;
    }
    return NULL;
}

/* ---- reading ---- */

static bool is_damage(int err) {
    return TSR_MUTANT(REFUSAL_IS_DAMAGE) || err == EIO || err == ENOENT || err == ENOTDIR ||
           err == EISDIR || err == ELOOP || err == EUCLEAN || err == EBADMSG || err == ENODATA;
}

tsr_result tsr_disk_open(tsr_ctx *ctx, int dir, const char *name, int flags, int *out_fd) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = -EIO;
    for (int i = 0; fd == -EIO && i < 2; i++)
        fd = io->open(io->self, dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | flags, 0);
    if (fd < 0) FAIL_ERRNO(ctx, is_damage(-fd) ? TSR_STATE : TSR_IO, -fd, "cannot open '%s'", name);
    *out_fd = fd;
    return TSR_SUCCESS;
}

tsr_result tsr_disk_read(tsr_ctx *ctx, int fd, const char *name, void *bytes, size_t size_bytes,
                         uint64_t offset) {
    const tsr_io *io = tsr_ctx_io(ctx);
    unsigned interruptions = 0;
    bool again = false;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = io->pread(io->self, fd, (char *)bytes + done, size_bytes - done,
                                 (off_t)(offset + done));
        if (part == -EINTR && interruptions++ < TSR_IO_INTERRUPTIONS_MAX) continue;
        if (part == -EIO && !again && !TSR_MUTANT(READ_ONCE)) {
            again = true;
            continue;
        }
        if (part < 0)
            FAIL_ERRNO(ctx, is_damage((int)-part) ? TSR_STATE : TSR_IO, (int)-part,
                       "cannot read '%s' at offset %" PRIu64, name, offset + done);
        if (part == 0)
            FAIL(ctx, TSR_STATE, "'%s' ends at byte %" PRIu64 "; expected %" PRIu64, name,
                 offset + done, offset + size_bytes);
        done += (size_t)part;
        again = false; /* each offset has two attempts */
    }
    return TSR_SUCCESS;
}

tsr_result tsr_disk_file_size(tsr_ctx *ctx, int fd, const char *name, uint64_t *out_size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    int code = io->fstat(io->self, fd, &info);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", name);
    if (!S_ISREG(info.st_mode)) FAIL(ctx, TSR_STATE, "'%s' is not a regular file", name);
    *out_size_bytes = (uint64_t)info.st_size;
    return TSR_SUCCESS;
}

tsr_result tsr_disk_read_file(tsr_ctx *ctx, int dir, const char *name, size_t size_max,
                              tsr_arena *arena, uint8_t **out_bytes, size_t *out_size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    uint64_t size = 0;
    uint8_t *bytes = NULL;
    int fd = -1;
    TRY(ctx, tsr_disk_open(ctx, dir, name, 0, &fd));
    TRY_GOTO(ctx, result, tsr_disk_file_size(ctx, fd, name, &size));
    if (size > size_max)
        FAIL_GOTO(ctx, result, TSR_STATE, "'%s' has %" PRIu64 " byte%s; at most %zu are expected",
                  name, size, TSR_PLURAL(size), size_max);
    bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 16);
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", name);
    TRY_GOTO(ctx, result, tsr_disk_read(ctx, fd, name, bytes, (size_t)size, 0));
    *out_bytes = bytes;
    *out_size_bytes = (size_t)size;
done:
    io->close(io->self, fd);
    return result;
}

/* ---- writing ---- */

/* Writes full blocks and bypasses the page cache, which a file system may refuse; the bytes that
 * remain after a success are written through the page cache. */
static tsr_result write_direct(tsr_ctx *ctx, int fd, const char *name, const uint8_t *bytes,
                               uint64_t size_bytes, uint64_t *out_done) {
    const tsr_io *io = tsr_ctx_io(ctx);
    unsigned interruptions = 0;
    uint64_t done = 0, whole = size_bytes / TSR_DIRECT_ALIGN * TSR_DIRECT_ALIGN;
    while (done < whole && done % TSR_DIRECT_ALIGN == 0) {
        size_t size = whole - done < WRITE_BYTES ? (size_t)(whole - done) : WRITE_BYTES;
        ssize_t part = io->pwrite(io->self, fd, bytes + done, size, (off_t)done);
        if (part == -EINTR && !TSR_MUTANT(INTERRUPTION_IS_SUCCESS) &&
            interruptions++ < TSR_IO_INTERRUPTIONS_MAX)
            continue;
        if (part == -EINTR && TSR_MUTANT(INTERRUPTION_IS_SUCCESS)) part = (ssize_t)size;
        if (part == -EINVAL || part == -EOPNOTSUPP) break;
        if (part <= 0)
            FAIL_ERRNO(ctx, TSR_IO, part ? (int)-part : EIO, "cannot write '%s' at offset %" PRIu64,
                       name, done);
        done += TSR_MUTANT(SHORT_WRITE_IS_SUCCESS) ? size : (uint64_t)part;
    }
    *out_done = done / TSR_DIRECT_ALIGN * TSR_DIRECT_ALIGN;
    return TSR_SUCCESS;
}

tsr_result tsr_disk_write(tsr_ctx *ctx, int dir, int fd, const char *name, const uint8_t *bytes,
                          uint64_t size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t done = 0, began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_SAVES);
    int direct = -1, code = 0;
    tsr_result result = TSR_SUCCESS;
    if (size_bytes >= TSR_DIRECT_ALIGN)
        direct = io->open(io->self, dir, name, O_WRONLY | O_NOFOLLOW | O_DIRECT, 0);
    if (direct >= 0) {
        result = write_direct(ctx, direct, name, bytes, size_bytes, &done);
        code = io->close(io->self, direct);
    }
    TRY(ctx, result);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", name);
    result = tsr_io_write_all(ctx, fd, name, bytes + done, (size_t)(size_bytes - done), done);
    tsr_trace_span(ctx->trace, TSR_TRACK_SAVES, "write", began_ns, began_ns ? tsr_clock_ns() : 0,
                   (tsr_trace_detail){.bytes = size_bytes});
    return result;
}

tsr_result tsr_disk_sync(tsr_ctx *ctx, int fd, const char *what) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t began_ns = tsr_trace_begin(ctx->trace, TSR_TRACK_SAVES);
    int code = io->fsync(io->self, fd);
    if (code < 0 && TSR_MUTANT(RETRIED_SYNC)) code = io->fsync(io->self, fd);
    tsr_trace_end(ctx->trace, TSR_TRACK_SAVES, "fsync", began_ns);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot sync '%s'", what);
    return TSR_SUCCESS;
}

tsr_result tsr_disk_sync_name(tsr_ctx *ctx, int dir, const char *name, int flags) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = io->open(io->self, dir, name, O_RDONLY | flags, 0);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open '%s'", name);
    tsr_result result = tsr_disk_sync(ctx, fd, name);
    io->close(io->self, fd);
    return result;
}

/* ---- paths ---- */

/* A directory that may not be opened was not created here. */
static tsr_result sync_parent(tsr_ctx *ctx, const char *parent) {
    tsr_result result = tsr_disk_sync_name(ctx, TSR_IO_CWD, parent, O_DIRECTORY);
    const int native = ctx->error.native;
    if (!result.code || (native != EACCES && native != EINVAL && native != EROFS)) return result;
    tsr_error_clear(ctx);
    return TSR_SUCCESS;
}

/* A directory that was created but not synced is removed again: the next run would sync it with
 * success, and it could still be lost in a power failure. */
static tsr_result make_directory(tsr_ctx *ctx, const char *path, const char *parent) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->mkdir(io->self, TSR_IO_CWD, path, 0755);
    if (code == -EEXIST) return TSR_SUCCESS;
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create '%s'", path);
    if (TSR_MUTANT(ANCESTORS_UNSYNCED)) return TSR_SUCCESS;
    tsr_result result = sync_parent(ctx, parent);
    if (result.code && !TSR_MUTANT(ANCESTORS_KEPT))
        (void)io->unlink(io->self, TSR_IO_CWD, path, AT_REMOVEDIR);
    return result;
}

/* Visits the prefixes of `path` one by one: creates missing directories (make), or syncs their
 * parents, so that no ancestor of a new store is lost with it. */
static tsr_result walk_ancestors(tsr_ctx *ctx, const char *path, bool make) {
    char prefix[4096], parent[4096];
    size_t length = strlen(path);
    if (length >= sizeof prefix)
        FAIL(ctx, TSR_IO, "its path has %zu byte%s", length, TSR_PLURAL(length));
    snprintf(parent, sizeof parent, "%s", path[0] == '/' ? "/" : ".");
    for (size_t i = 1; i <= length; i++) {
        if ((path[i] != '/' && path[i]) || path[i - 1] == '/') continue;
        memcpy(prefix, path, i);
        prefix[i] = 0;
        TRY(ctx, make ? make_directory(ctx, prefix, parent) : sync_parent(ctx, parent));
        memcpy(parent, prefix, i + 1);
    }
    return TSR_SUCCESS;
}

static int note_content(void *user, const char *text) {
    tsr_contents *found = user;
    tsr_name_kind kind = tsr_name_parse(text).kind;
    found->marked |= kind == TSR_NAME_COMMITTED;
    found->used |= kind != TSR_NAME_OTHER;
    return 0;
}

tsr_contents tsr_disk_scan_generation(tsr_ctx *ctx, int gens, const tsr_name *name) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    tsr_contents found = {.used = true}, seen = {false, false};
    int dir = io->open(io->self, gens, tsr_name_format(name, text),
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dir < 0) return found;
    if (io->list(io->self, dir, note_content, &seen) >= 0) found = seen;
    io->close(io->self, dir);
    return found;
}

tsr_result tsr_disk_make_folder(tsr_ctx *ctx, int dir, const char *name, int *out_fd) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->mkdir(io->self, dir, name, 0755);
    if (code < 0 && code != -EEXIST) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create '%s'", name);
    int fd = io->open(io->self, dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open '%s'", name);
    *out_fd = fd;
    return TSR_SUCCESS;
}

tsr_result tsr_disk_make_path(tsr_ctx *ctx, const char *path) {
    return walk_ancestors(ctx, path, true);
}
tsr_result tsr_disk_sync_path(tsr_ctx *ctx, const char *path) {
    return walk_ancestors(ctx, path, false);
}

tsr_result tsr_disk_network_fs(tsr_ctx *ctx, int fd, const char **out_name) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t magic = 0;
    int code = io->fs_type(io->self, fd, &magic);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot tell the file system");
    *out_name = tsr_io_network_name(magic);
    return TSR_SUCCESS;
}
