/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: opening and lock · epoch · publishing · removing.
 */
#include "runtime/commit/directory.h"

#include "runtime/commit/mutants.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- opening and lock ---- */

static tsr_result open_directory(tsr_ctx *ctx, const char *directory, int *out_fd) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT) {
        TRY(ctx, tsr_disk_make_path(ctx, directory));
        fd = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    }
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open the directory");
    *out_fd = fd;
    return TSR_SUCCESS;
}

static tsr_result refuse_network(tsr_ctx *ctx, int fd) {
    const char *name = NULL;
    TRY(ctx, tsr_disk_network_fs(ctx, fd, &name));
    if (name)
        FAIL(ctx, TSR_STATE,
             "it is on a network file system (%s), which may lose synced data; use a local file "
             "system, or allow this network file system explicitly",
             name);
    return TSR_SUCCESS;
}

static tsr_result take_lock(tsr_ctx *ctx, uint64_t process_id, tsr_directory *dir) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char owner[256] = "", host[128] = "";
    dir->lock = io->open(io->self, dir->root, "LOCK", O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    if (dir->lock < 0) FAIL_ERRNO(ctx, TSR_IO, -dir->lock, "cannot open 'LOCK'");
    int code = TSR_MUTANT(NO_LOCK) ? 0 : io->lock(io->self, dir->lock);
    if (code == -EWOULDBLOCK) {
        ssize_t size = io->pread(io->self, dir->lock, owner, sizeof owner - 1, 0);
        owner[size > 0 ? (size_t)size : 0] = 0;
        owner[strcspn(owner, "\n")] = 0;
        FAIL(ctx, TSR_LOCKED, "%s uses it; this is process %" PRIu64,
             owner[0] ? owner : "another process", process_id);
    }
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot lock 'LOCK'");
    gethostname(host, sizeof host - 1);
    int length = snprintf(owner, sizeof owner, "process %" PRIu64 " on %s\n", process_id, host);
    /* The text is only for people; the lock does not need it. */
    if (io->ftruncate(io->self, dir->lock, 0) >= 0)
        io->pwrite(io->self, dir->lock, owner, (size_t)length, 0);
    return TSR_SUCCESS;
}

tsr_result tsr_directory_open(tsr_ctx *ctx, const char *path, bool allow_network_fs,
                              uint64_t process_id, tsr_directory *out_dir) {
    tsr_directory dir = {-1, -1, -1};
    tsr_result result = open_directory(ctx, path, &dir.root);
    if (!result.code && !allow_network_fs) result = refuse_network(ctx, dir.root);
    if (!result.code) result = take_lock(ctx, process_id, &dir);
    *out_dir = dir;
    return result;
}

void tsr_directory_close(tsr_ctx *ctx, tsr_directory *dir) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const int fds[] = {dir->gens, dir->root, dir->lock};
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0) io->close(io->self, fds[i]);
    *dir = (tsr_directory){-1, -1, -1};
}

/* ---- epoch ---- */

/* If the sync of a new store fails, gen/ is removed again: the next run would sync it with success,
 * and it could still be lost in a power failure. */
static tsr_result sync_root(tsr_ctx *ctx, const tsr_directory *dir, const char *what, bool fresh) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (TSR_MUTANT(RECOVERED_UNSYNCED)) return TSR_SUCCESS;
    tsr_result result = tsr_disk_sync(ctx, dir->root, what);
    if (result.code && fresh && !TSR_MUTANT(GENS_KEPT))
        io->unlink(io->self, dir->root, "gen", AT_REMOVEDIR);
    return result;
}

tsr_result tsr_directory_claim(tsr_ctx *ctx, tsr_directory *dir, const char *path,
                               tsr_listing *scratch, uint64_t *out_epoch) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    TRY(ctx, tsr_disk_list(ctx, dir->root, scratch));
    uint64_t epoch = scratch->highest_epoch + 1;
    if (epoch > INT64_MAX) FAIL(ctx, TSR_STATE, "epoch %" PRIu64 " is out of range", epoch);
    bool fresh = !(scratch->seen & 1u << TSR_NAME_BASE);
    TRY(ctx, tsr_disk_make_folder(ctx, dir->root, "gen", &dir->gens));
    if (fresh && !TSR_MUTANT(ANCESTORS_UNSYNCED)) TRY(ctx, tsr_disk_sync_path(ctx, path));
    *out_epoch = epoch;
    if (TSR_MUTANT(NO_EPOCH)) return TSR_SUCCESS;
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_EPOCH, .epoch = epoch}, text);
    int fd = io->open(io->self, dir->root, text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd == -EEXIST) FAIL(ctx, TSR_LOCKED, "another run published '%s' at this moment", text);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", text);
    tsr_result result = tsr_disk_sync(ctx, fd, text);
    io->close(io->self, fd);
    TRY(ctx, result);
    return sync_root(ctx, dir, text, fresh);
}

/* ---- publishing ---- */

/* Called after link() failed: does `name` exist, and does it have our bytes? */
static tsr_result compare_published(tsr_ctx *ctx, int root, const char *name, const void *bytes,
                                    size_t size_bytes, bool *out_unknown) {
    const tsr_io *io = tsr_ctx_io(ctx);
    const uint8_t *ours = bytes;
    uint8_t block[4096];
    uint64_t size = 0;
    tsr_result result;
    int fd = io->open(io->self, root, name, O_RDONLY | O_NOFOLLOW, 0);
    if (fd == -ENOENT) return (tsr_result){TSR_IO};
    *out_unknown = true;
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open '%s'", name);
    TRY_GOTO(ctx, result, tsr_disk_file_size(ctx, fd, name, &size));
    bool same = size == size_bytes;
    for (size_t at = 0; same && at < size_bytes; at += sizeof block) {
        size_t part = size_bytes - at < sizeof block ? size_bytes - at : sizeof block;
        TRY_GOTO(ctx, result, tsr_disk_read(ctx, fd, name, block, part, at));
        same = memcmp(block, ours + at, part) == 0;
    }
    *out_unknown = false;
    if (!same)
        FAIL_GOTO(ctx, result, TSR_LOCKED, "'%s' exists with other bytes: another run took over",
                  name);
done:
    io->close(io->self, fd);
    return result;
}

static tsr_result write_temp(tsr_ctx *ctx, int root, const char *temp, const void *bytes,
                             size_t size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int excl = TSR_MUTANT(TEMP_REOPENED) ? 0 : O_EXCL;
    int fd = io->open(io->self, root, temp, O_WRONLY | O_CREAT | excl | O_NOFOLLOW, 0644);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", temp);
    if (TSR_MUTANT(SYNC_BEFORE_WRITE)) io->fsync(io->self, fd);
    tsr_result result = tsr_io_write_all(ctx, fd, temp, bytes, size_bytes, 0);
    if (!result.code && !TSR_MUTANT(SYNC_BEFORE_WRITE) && !TSR_MUTANT(PUBLISH_BEFORE_SYNC) &&
        !TSR_MUTANT(RECORD_UNSYNCED))
        result = tsr_disk_sync(ctx, fd, temp);
    int code = io->close(io->self, fd);
    if (!result.code && code < 0 && !TSR_MUTANT(CLOSE_IGNORED))
        FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", temp);
    return result;
}

tsr_result tsr_disk_publish(tsr_ctx *ctx, int root, const tsr_name *temp, const tsr_name *name,
                            const void *bytes, size_t size_bytes, bool *out_unknown) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char from[TSR_NAME_TEXT_MAX], to[TSR_NAME_TEXT_MAX];
    tsr_name_format(temp, from);
    tsr_name_format(name, to);
    *out_unknown = false;
    tsr_result result = write_temp(ctx, root, TSR_MUTANT(IN_PLACE) ? to : from, bytes, size_bytes);
    if (!result.code) {
        if (TSR_MUTANT(UNLINK_THEN_RENAME)) io->unlink(io->self, root, to, 0);
        int code = TSR_MUTANT(UNLINK_THEN_RENAME) ? io->rename(io->self, root, from, to)
                                                  : io->link(io->self, root, from, to);
        if (code == -EEXIST && TSR_MUTANT(EEXIST_IS_SUCCESS)) code = 0;
        if (code < 0) {
            result = compare_published(ctx, root, to, bytes, size_bytes, out_unknown);
            if (result.code == TSR_IO && !*out_unknown)
                result =
                    tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__, "cannot publish '%s'", to);
        }
        if (!result.code && TSR_MUTANT(PUBLISH_BEFORE_SYNC))
            result = tsr_disk_sync_name(ctx, root, to, 0);
        if (!result.code && !TSR_MUTANT(NO_ROOT_SYNC)) {
            result = tsr_disk_sync(ctx, root, to);
            *out_unknown = result.code != TSR_OK && !TSR_MUTANT(FAILED_SYNC_IS_KNOWN);
        }
    }
    if (!*out_unknown) io->unlink(io->self, root, from, 0);
    return result;
}

/* ---- generations ---- */

tsr_result tsr_disk_remove_generation(tsr_ctx *ctx, int gens, const tsr_name *name,
                                      tsr_listing *scratch) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX], file[TSR_NAME_TEXT_MAX];
    tsr_name_format(name, text);
    int dir = io->open(io->self, gens, text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (dir == -ENOENT) return TSR_SUCCESS;
    if (dir < 0) FAIL_ERRNO(ctx, TSR_IO, -dir, "cannot open '%s'", text);
    tsr_result result = tsr_disk_list(ctx, dir, scratch);
    for (size_t i = 0; !result.code && i < scratch->count; i++)
        if (scratch->names[i].kind == TSR_NAME_SEGMENT ||
            scratch->names[i].kind == TSR_NAME_COMMITTED)
            io->unlink(io->self, dir, tsr_name_format(&scratch->names[i], file), 0);
    io->close(io->self, dir);
    int code = result.code ? 0 : io->unlink(io->self, gens, text, AT_REMOVEDIR);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot remove '%s'", text);
    return result;
}
