/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/io/io.h"

#include "runtime/base/array.h"
#include "runtime/base/plural.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define RETRY(type, expr)                                                                          \
    type r_;                                                                                       \
    do r_ = (expr);                                                                                \
    while (r_ < 0 && errno == EINTR);                                                              \
    return r_ < 0 ? (type)-errno : r_

static int sys_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    (void)self;
    RETRY(int, openat(dir, path, flags | O_CLOEXEC, mode));
}
/* On Linux the descriptor is closed even after EINTR, so close is never retried. */
static int sys_close(void *self, int fd) {
    (void)self;
    return close(fd) < 0 ? -errno : 0;
}
static ssize_t sys_pread(void *self, int fd, void *bytes, size_t size_bytes, off_t offset) {
    (void)self;
    RETRY(ssize_t, pread(fd, bytes, size_bytes, offset));
}
static ssize_t sys_pwrite(void *self, int fd, const void *bytes, size_t size_bytes, off_t offset) {
    (void)self;
    RETRY(ssize_t, pwrite(fd, bytes, size_bytes, offset));
}
static int sys_fsync(void *self, int fd) {
    (void)self;
    return fsync(fd) < 0 ? -errno : 0;
}
static int sys_fallocate(void *self, int fd, off_t size_bytes) {
    (void)self;
    RETRY(int, fallocate(fd, 0, 0, size_bytes));
}
static int sys_ftruncate(void *self, int fd, off_t size_bytes) {
    (void)self;
    RETRY(int, ftruncate(fd, size_bytes));
}
static int sys_fstat(void *self, int fd, struct stat *out_stat) {
    (void)self;
    return fstat(fd, out_stat) < 0 ? -errno : 0;
}
static int sys_mkdir(void *self, int dir, const char *path, mode_t mode) {
    (void)self;
    return mkdirat(dir, path, mode) < 0 ? -errno : 0;
}
static int sys_link(void *self, int dir, const char *from, const char *to) {
    (void)self;
    return linkat(dir, from, dir, to, 0) < 0 ? -errno : 0;
}
static int sys_rename(void *self, int dir, const char *from, const char *to) {
    (void)self;
    return renameat(dir, from, dir, to) < 0 ? -errno : 0;
}
static int sys_unlink(void *self, int dir, const char *path, int flags) {
    (void)self;
    return unlinkat(dir, path, flags) < 0 ? -errno : 0;
}
static int sys_list(void *self, int fd, tsr_io_entry_fn entry, void *user) {
    (void)self;
    /* A fresh open file description leaves the caller's offset unchanged. Uses getdents64, because
     * opendir allocates. */
    _Alignas(struct dirent64) char block[8192];
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = 0;
    ssize_t size;
    if (copy < 0) return -errno;
    while (!result && (size = getdents64(copy, block, sizeof block)) != 0) {
        if (size < 0) result = -errno;
        for (ssize_t at = 0; !result && at < size;) {
            const struct dirent64 *item = (const struct dirent64 *)(const void *)(block + at);
            at += item->d_reclen;
            if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
            result = entry(user, item->d_name);
        }
    }
    close(copy);
    return result;
}
static int sys_lock(void *self, int fd) {
    (void)self;
    RETRY(int, flock(fd, LOCK_EX | LOCK_NB));
}
static int sys_drop_cache(void *self, int fd) {
    (void)self;
    return -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}
static int sys_free_bytes(void *self, int fd, uint64_t *out_bytes) {
    (void)self;
    struct statvfs info;
    if (fstatvfs(fd, &info) < 0) return -errno;
    *out_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return 0;
}
static int sys_fs_type(void *self, int fd, uint64_t *out_magic) {
    (void)self;
    struct statfs info;
    if (fstatfs(fd, &info) < 0) return -errno;
    *out_magic = (uint32_t)info.f_type;
    return 0;
}

static const tsr_io system_io = {
    .open = sys_open,
    .close = sys_close,
    .pread = sys_pread,
    .pwrite = sys_pwrite,
    .fsync = sys_fsync,
    .fallocate = sys_fallocate,
    .ftruncate = sys_ftruncate,
    .fstat = sys_fstat,
    .mkdir = sys_mkdir,
    .link = sys_link,
    .rename = sys_rename,
    .unlink = sys_unlink,
    .list = sys_list,
    .lock = sys_lock,
    .drop_cache = sys_drop_cache,
    .fs_type = sys_fs_type,
    .free_bytes = sys_free_bytes,
};

const tsr_io *tsr_io_system(void) { return &system_io; }
const tsr_io *tsr_ctx_io(const tsr_ctx *ctx) { return ctx->io ? ctx->io : &system_io; }

tsr_result tsr_io_open(tsr_ctx *ctx, const char *path, int flags, mode_t mode, int *out_fd) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = io->open(io->self, TSR_IO_CWD, path, flags, mode);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open '%s'", path);
    *out_fd = fd;
    return TSR_SUCCESS;
}

tsr_result tsr_io_read_exact(tsr_ctx *ctx, int fd, const char *path, void *bytes, size_t size_bytes,
                             uint64_t offset) {
    const tsr_io *io = tsr_ctx_io(ctx);
    unsigned interruptions = 0;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = io->pread(io->self, fd, (char *)bytes + done, size_bytes - done,
                                 (off_t)(offset + done));
        if (part == -EINTR && interruptions++ < TSR_IO_INTERRUPTIONS_MAX) continue;
        if (part < 0)
            FAIL_ERRNO(ctx, TSR_IO, (int)-part, "cannot read '%s' at offset %" PRIu64, path,
                       offset + done);
        if (part == 0)
            FAIL(ctx, TSR_IO, "'%s' ends at byte %" PRIu64 "; expected at least %" PRIu64, path,
                 offset + done, offset + size_bytes);
        done += (size_t)part;
    }
    return TSR_SUCCESS;
}

tsr_result tsr_io_write_all(tsr_ctx *ctx, int fd, const char *path, const void *bytes,
                            size_t size_bytes, uint64_t offset) {
    const tsr_io *io = tsr_ctx_io(ctx);
    unsigned interruptions = 0;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = io->pwrite(io->self, fd, (const char *)bytes + done, size_bytes - done,
                                  (off_t)(offset + done));
        if (part == -EINTR && interruptions++ < TSR_IO_INTERRUPTIONS_MAX) continue;
        if (part <= 0)
            FAIL_ERRNO(ctx, TSR_IO, part ? (int)-part : EIO, "cannot write '%s' at offset %" PRIu64,
                       path, offset + done);
        done += (size_t)part;
    }
    return TSR_SUCCESS;
}

bool tsr_io_retry(int fd, short events) {
    struct pollfd polled = {.fd = fd, .events = events};
    if (errno == EINTR) return true;
    return errno == EAGAIN && (poll(&polled, 1, -1) >= 0 || errno == EINTR);
}

tsr_result tsr_io_file_size(tsr_ctx *ctx, int fd, const char *path, uint64_t *out_size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    int code = io->fstat(io->self, fd, &info);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", path);
    if (S_ISDIR(info.st_mode)) FAIL(ctx, TSR_IO, "'%s' is a directory; expected a file", path);
    if (!S_ISREG(info.st_mode)) FAIL(ctx, TSR_IO, "'%s' is not a regular file", path);
    *out_size_bytes = (uint64_t)info.st_size;
    return TSR_SUCCESS;
}

tsr_result tsr_io_read_file(tsr_ctx *ctx, const char *path, size_t size_max, tsr_arena *arena,
                            void **out_bytes, size_t *out_size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_result result = TSR_SUCCESS;
    uint64_t size = 0;
    char *bytes = NULL;
    int fd = -1;
    TRY(ctx, tsr_io_open(ctx, path, O_RDONLY | O_NONBLOCK, 0, &fd));
    TRY_GOTO(ctx, result, tsr_io_file_size(ctx, fd, path, &size));
    if (size > size_max)
        FAIL_GOTO(ctx, result, TSR_IO, "'%s' has %" PRIu64 " byte%s; at most %zu are accepted",
                  path, size, TSR_PLURAL(size), size_max);
    bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 64);
    if (!bytes)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for the %" PRIu64 " bytes of '%s'", size,
                  path);
    TRY_GOTO(ctx, result, tsr_io_read_exact(ctx, fd, path, bytes, (size_t)size, 0));
    *out_bytes = bytes;
    *out_size_bytes = (size_t)size;
done:
    io->close(io->self, fd);
    return result;
}

const char *tsr_io_network_name(uint64_t magic) {
    static const struct {
        uint64_t magic;
        const char *name;
    } rows[] = {
        {0x6969, "NFS"},        {0x517B, "SMB"},      {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB2"},
        {0x65735546, "FUSE"},   {0x01021997, "9P"},   {0x00C36400, "Ceph"}, {0x5346414F, "AFS"},
        {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x73757245, "Coda"}, {0x564C, "NCP"},
        {0x7461636F, "OCFS2"},  {0x01161970, "GFS2"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (rows[i].magic == magic) return rows[i].name;
    return NULL;
}
