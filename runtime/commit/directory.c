/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/commit/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- durability ---- */

tsr_result tsr_disk_sync(tsr_ctx *ctx, int fd, const char *what) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->fsync(io->self, fd);
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

/* ---- publishing ---- */

/* After link() failed: is `name` there, and is it ours? */
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
    int fd = io->open(io->self, root, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", temp);
    tsr_result result = tsr_io_write_all(ctx, fd, temp, bytes, size_bytes, 0);
    if (!result.code) result = tsr_disk_sync(ctx, fd, temp);
    int code = io->close(io->self, fd);
    if (!result.code && code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot close '%s'", temp);
    return result;
}

tsr_result tsr_disk_publish(tsr_ctx *ctx, int root, uint64_t epoch, const tsr_name *name,
                            const void *bytes, size_t size_bytes, bool *out_unknown) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char temp[TSR_NAME_TEXT_MAX], text[TSR_NAME_TEXT_MAX];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tsr_name_format(
        &(tsr_name){.kind = TSR_NAME_TEMP,
                    .epoch = epoch,
                    .pid = (uint64_t)getpid(),
                    .nonce = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec},
        temp);
    tsr_name_format(name, text);
    *out_unknown = false;
    tsr_result result = write_temp(ctx, root, temp, bytes, size_bytes);
    if (!result.code) {
        int code = io->link(io->self, root, temp, text);
        if (code < 0) {
            result = compare_published(ctx, root, text, bytes, size_bytes, out_unknown);
            if (result.code == TSR_IO && !*out_unknown)
                result =
                    tsr_fail_(ctx, TSR_IO, -code, __FILE__, __LINE__, "cannot publish '%s'", text);
        }
        if (!result.code) {
            result = tsr_disk_sync(ctx, root, text);
            *out_unknown = result.code != TSR_OK;
        }
    }
    if (!*out_unknown) io->unlink(io->self, root, temp, 0);
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
        if (scratch->names[i].kind == TSR_NAME_SEGMENT)
            io->unlink(io->self, dir, tsr_name_format(&scratch->names[i], file), 0);
    io->close(io->self, dir);
    int code = result.code ? 0 : io->unlink(io->self, gens, text, AT_REMOVEDIR);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot remove '%s'", text);
    return result;
}
