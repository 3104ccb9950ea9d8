/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are created atomically, and the cleanup of their temporaries.
 *
 * A temporary is called PATH.tmp-PID, or PATH.tmp-PID-N. The writer locks the temporary file
 * (flock), and the kernel releases the lock when the writer ends, for any reason. Therefore a
 * temporary that can be locked has no writer, even if another process, in this or another
 * container, has the same PID: the next writer of PATH removes it. On network file systems, locks
 * may be local to a host, so nothing is removed there. The temporaries of this process are kept in
 * a table for signal handlers.
 */
#include "runtime/base/io/io.h"
#include "runtime/base/plural.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- temporaries of this process ---- */

enum { SLOTS_MAX = 512 }; /* files without a slot are removed later, like those of dead writers */

typedef struct slot {
    _Atomic int pid; /* 0: free; -1: being filled */
    char path[PATH_MAX];
    dev_t device;
    ino_t inode;
} slot;

static slot slots[SLOTS_MAX];

/* Returns NULL if all slots are in use. */
static slot *take_slot(const char *path) {
    if (strlen(path) >= PATH_MAX) return NULL;
    for (size_t i = 0; i < SLOTS_MAX; i++) {
        int expected = 0;
        if (!atomic_compare_exchange_strong(&slots[i].pid, &expected, -1)) continue;
        strcpy(slots[i].path, path);
        slots[i].inode = 0;
        atomic_store(&slots[i].pid, getpid());
        return &slots[i];
    }
    return NULL;
}

static void free_slot(const char *path) {
    for (size_t i = 0; i < SLOTS_MAX; i++)
        if (atomic_load(&slots[i].pid) == getpid() && strcmp(slots[i].path, path) == 0) {
            atomic_store(&slots[i].pid, 0);
            return;
        }
}

static bool is_own(const struct stat *info) {
    for (size_t i = 0; i < SLOTS_MAX; i++)
        if (atomic_load(&slots[i].pid) == getpid() && slots[i].inode == info->st_ino &&
            slots[i].device == info->st_dev)
            return true;
    return false;
}

void tsr_io_remove_temporaries(void) {
    for (size_t i = 0; i < SLOTS_MAX; i++)
        if (atomic_load(&slots[i].pid) == getpid()) unlink(slots[i].path);
}

/* ---- temporaries of dead processes ---- */

typedef struct leftovers {
    const tsr_io *io;
    int folder;
    const char *name; /* name of the file */
} leftovers;

static bool is_temporary(const char *entry, const char *name) {
    static const char mark[] = ".tmp-";
    size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0) return false;
    if (strncmp(entry + length, mark, sizeof mark - 1) != 0) return false;
    const char *number = entry + length + sizeof mark - 1;
    return *number && strspn(number, "0123456789-") == strlen(number);
}

static int remove_dead(void *user, const char *entry) {
    const leftovers *self = user;
    const tsr_io *io = self->io;
    struct stat info, again;
    if (!is_temporary(entry, self->name)) return 0;
    int fd = io->open(io->self, self->folder, entry, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return 0;
    bool is_dead = io->fstat(io->self, fd, &info) >= 0 && S_ISREG(info.st_mode) &&
                   info.st_uid == geteuid() && info.st_nlink == 1 && io->lock(io->self, fd) >= 0;
    /* The writer may have ended in between, and another one may have begun with the same name. */
    int named = is_dead ? io->open(io->self, self->folder, entry, O_PATH | O_NOFOLLOW, 0) : -1;
    if (named >= 0) {
        bool is_same = io->fstat(io->self, named, &again) >= 0 && info.st_ino == again.st_ino &&
                       info.st_dev == again.st_dev;
        if (is_same) io->unlink(io->self, self->folder, entry, 0);
        io->close(io->self, named);
    }
    io->close(io->self, fd);
    return 0;
}

/* Opens the folder of a path, for *at functions. */
static int open_folder(const tsr_io *io, const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof parent) return -ENAMETOOLONG;
    memcpy(parent, path, length);
    parent[length] = 0;
    const char *folder = !slash ? "." : length ? parent : "/";
    return io->open(io->self, TSR_IO_CWD, folder, O_RDONLY | O_DIRECTORY, 0);
}

/* Best effort: temporaries that cannot be removed stay. */
static void remove_leftovers(const tsr_io *io, const char *path) {
    const char *slash = strrchr(path, '/');
    leftovers self = {io, open_folder(io, path), slash ? slash + 1 : path};
    uint64_t magic = 0;
    if (self.folder < 0) return;
    if (io->fs_type(io->self, self.folder, &magic) >= 0 && !tsr_io_network_name(magic))
        (void)io->list(io->self, self.folder, remove_dead, &self);
    io->close(io->self, self.folder);
}

/* ---- writing ---- */

/* TSR_IO when `path` exists and is not a regular file; O_PATH reads nothing and opens no device. */
static TSR_RESULT check_replaceable(tsr_ctx *ctx, const char *path) {
    const tsr_io *io = tsr_ctx_io(ctx);
    struct stat info;
    int fd = io->open(io->self, TSR_IO_CWD, path, O_PATH, 0);
    if (fd < 0) return TSR_SUCCESS; /* absent; the write reports other errors */
    int code = io->fstat(io->self, fd, &info);
    io->close(io->self, fd);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot stat '%s'", path);
    if (!S_ISREG(info.st_mode))
        FAIL(ctx, TSR_IO, "cannot write '%s': it is %s; expected a file", path,
             S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    return TSR_SUCCESS;
}

/* Opens and locks a temporary. *out_retry: it belongs to another process, or was removed in
 * between. On a file system without locks it is opened without a lock. */
static int open_temporary(const tsr_io *io, const char *temp, bool *out_retry) {
    struct stat info;
    slot *own = take_slot(temp);
    *out_retry = false;
    int fd = io->open(io->self, TSR_IO_CWD, temp, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (fd < 0) {
        if (own) atomic_store(&own->pid, 0);
        return fd;
    }
    int locked = io->lock(io->self, fd);
    bool is_known = io->fstat(io->self, fd, &info) >= 0;
    bool is_shared = locked == -EWOULDBLOCK && is_known && is_own(&info);
    *out_retry = (locked == -EWOULDBLOCK && !is_shared) || (is_known && info.st_nlink == 0);
    int emptied = *out_retry ? 0 : io->ftruncate(io->self, fd, 0);
    if (*out_retry || emptied < 0) {
        io->close(io->self, fd);
        if (emptied < 0) io->unlink(io->self, TSR_IO_CWD, temp, 0);
        if (own) atomic_store(&own->pid, 0);
        return emptied < 0 ? emptied : -EAGAIN;
    }
    if (own && is_known) {
        own->device = info.st_dev;
        own->inode = info.st_ino;
    }
    return fd;
}

tsr_result tsr_io_atomic_open(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                              tsr_io_atomic *out_file) {
    enum { TRIES_MAX = 100 };
    const tsr_io *io = tsr_ctx_io(ctx);
    bool retry = true;
    if (!path[0]) FAIL(ctx, TSR_USAGE, "output path is empty");
    if (strcmp(path, "-") == 0)
        FAIL(ctx, TSR_USAGE,
             "output path is '-'; expected a file: the output cannot go to standard output");
    TRY(ctx, check_replaceable(ctx, path));
    tsr_io_atomic file = {.fd = -1, .path = tsr_arena_strdup(arena, path)};
    remove_leftovers(io, path);
    for (unsigned i = 0; i < TRIES_MAX && retry; i++) {
        file.temp = i ? tsr_arena_printf(arena, "%s.tmp-%ld-%u", path, (long)getpid(), i)
                      : tsr_arena_printf(arena, "%s.tmp-%ld", path, (long)getpid());
        if (!file.path || !file.temp) FAIL(ctx, TSR_MEMORY, "no memory for the path '%s'", path);
        file.fd = open_temporary(io, file.temp, &retry);
    }
    if (file.fd < 0) FAIL_ERRNO(ctx, TSR_IO, -file.fd, "cannot write '%s'", path);
    *out_file = file;
    return TSR_SUCCESS;
}

/* Checks the free space first: a file system may fill up before it reports that it is full. */
tsr_result tsr_io_atomic_reserve(tsr_ctx *ctx, const tsr_io_atomic *file, uint64_t size_bytes) {
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t needed = size_bytes;
    uint64_t free_bytes = 0;
    if (!size_bytes) return TSR_SUCCESS;
    if (io->free_bytes(io->self, file->fd, &free_bytes) >= 0 && free_bytes < size_bytes)
        FAIL_ERRNO(ctx, TSR_IO, ENOSPC,
                   "cannot reserve %" PRIu64 " byte%s for '%s'; %" PRIu64 " are free", needed,
                   TSR_PLURAL(needed), file->path, free_bytes);
    int code = io->fallocate(io->self, file->fd, (off_t)size_bytes);
    bool cannot = code == -EOPNOTSUPP || code == -ENOSYS || code == -EINVAL; /* unsupported */
    if (code < 0 && !cannot)
        FAIL_ERRNO(ctx, TSR_IO, -code, "cannot reserve %" PRIu64 " byte%s for '%s'", needed,
                   TSR_PLURAL(needed), file->path);
    return TSR_SUCCESS;
}

static int sync_parent(const tsr_io *io, const char *path) {
    int fd = open_folder(io, path);
    if (fd < 0) return fd;
    int code = io->fsync(io->self, fd);
    io->close(io->self, fd);
    return code == -EINVAL ? 0 : code; /* some file systems cannot sync a directory */
}

/* The lock is kept until the rename, so that no process takes the temporary for an abandoned one.
 */
tsr_result tsr_io_atomic_commit(tsr_ctx *ctx, tsr_io_atomic *file) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->fsync(io->self, file->fd);
    if (code >= 0) code = io->rename(io->self, TSR_IO_CWD, file->temp, file->path);
    bool is_renamed = code >= 0;
    int closed = io->close(io->self, file->fd);
    file->fd = -1;
    if (!is_renamed) io->unlink(io->self, TSR_IO_CWD, file->temp, 0);
    free_slot(file->temp);
    if (code >= 0) code = closed;
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot write '%s'", file->path);
    code = sync_parent(io, file->path);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot sync the directory of '%s'", file->path);
    return TSR_SUCCESS;
}

void tsr_io_atomic_abandon(tsr_ctx *ctx, tsr_io_atomic *file) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (!file->temp || file->fd < 0) return;
    io->unlink(io->self, TSR_IO_CWD, file->temp, 0);
    io->close(io->self, file->fd);
    file->fd = -1;
    free_slot(file->temp);
}

tsr_result tsr_io_atomic_write(tsr_ctx *ctx, const char *path, const void *bytes,
                               size_t size_bytes) {
    tsr_arena arena = {0};
    tsr_io_atomic file = {.fd = -1};
    tsr_result result = tsr_io_atomic_open(ctx, path, &arena, &file);
    if (!result.code) result = tsr_io_write_all(ctx, file.fd, path, bytes, size_bytes, 0);
    if (!result.code) result = tsr_io_atomic_commit(ctx, &file);
    tsr_io_atomic_abandon(ctx, &file);
    tsr_arena_finish(&arena);
    return result;
}
