/* SPDX-License-Identifier: Apache-2.0
 *
 * Every file operation of the product goes through a table of functions, so that tests can inject
 * faults at the n-th operation and record the operations. Each operation returns >= 0 or -errno.
 * Paths are relative to `dir` as in openat(2); TSR_IO_CWD is the current directory.
 */
#ifndef TSR_BASE_IO_H
#define TSR_BASE_IO_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

#include <sys/stat.h>
#include <sys/types.h>

#define TSR_IO_CWD (-100) /* AT_FDCWD */

/* Number of EINTR results after which a single read or write fails. */
enum { TSR_IO_INTERRUPTIONS_MAX = 1000 };

/* Called once per directory entry except "." and "..". A non-zero result stops the listing and is
 * returned by list, which allocates nothing. */
typedef int (*tsr_io_entry_fn)(void *user, const char *name);

typedef struct tsr_io {
    void *self; /* borrowed; passed first to every function */
    int (*open)(void *self, int dir, const char *path, int flags, mode_t mode);
    int (*close)(void *self, int fd);
    ssize_t (*pread)(void *self, int fd, void *bytes, size_t size_bytes, off_t offset);
    ssize_t (*pwrite)(void *self, int fd, const void *bytes, size_t size_bytes, off_t offset);
    int (*fsync)(void *self, int fd);
    int (*fallocate)(void *self, int fd, off_t size_bytes);
    int (*ftruncate)(void *self, int fd, off_t size_bytes);
    int (*fstat)(void *self, int fd, struct stat *out_stat);
    int (*mkdir)(void *self, int dir, const char *path, mode_t mode);
    int (*link)(void *self, int dir, const char *from, const char *to);
    int (*rename)(void *self, int dir, const char *from, const char *to); /* replaces `to` */
    int (*unlink)(void *self, int dir, const char *path, int flags); /* flags: 0 or AT_REMOVEDIR */
    int (*list)(void *self, int fd, tsr_io_entry_fn entry, void *user);
    int (*lock)(void *self, int fd);       /* exclusive; -EWOULDBLOCK at once if locked */
    int (*drop_cache)(void *self, int fd); /* posix_fadvise(DONTNEED) */
    /* f_type of statfs(2): identifies network file systems */
    int (*fs_type)(void *self, int fd, uint64_t *out_magic);
    int (*free_bytes)(void *self, int fd, uint64_t *out_bytes); /* free for this user */
} tsr_io;

/* The operating system. Restarts on EINTR. */
const tsr_io *tsr_io_system(void);
/* The table of a context: its own, or the system's. */
const tsr_io *tsr_ctx_io(const tsr_ctx *ctx);

/* Returns the name of the network file system with this f_type, like "NFS"; NULL for other file
 * systems. */
const char *tsr_io_network_name(uint64_t magic);

/* Helpers over the context's table. Errors are TSR_IO and name `path`. */
TSR_RESULT tsr_io_open(tsr_ctx *ctx, const char *path, int flags, mode_t mode, int *out_fd);
/* Fails with TSR_IO when the file ends before size_bytes. */
TSR_RESULT tsr_io_read_exact(tsr_ctx *ctx, int fd, const char *path, void *bytes, size_t size_bytes,
                             uint64_t offset);
TSR_RESULT tsr_io_write_all(tsr_ctx *ctx, int fd, const char *path, const void *bytes,
                            size_t size_bytes, uint64_t offset);
/* Accepts only regular files (a directory, socket … is TSR_IO "is a directory") of at most size_max
 * bytes. The bytes are stored in the arena, followed by a NUL that is not counted. */
TSR_RESULT tsr_io_read_file(tsr_ctx *ctx, const char *path, size_t size_max, tsr_arena *arena,
                            void **out_bytes, size_t *out_size_bytes);
/* Returns true if a read or write of a pipe, terminal or socket that has just failed with errno is
 * to be repeated: it was interrupted, or the descriptor does not block, and is now ready for
 * `events` of poll. */
bool tsr_io_retry(int fd, short events);
/* Size of a regular file. */
TSR_RESULT tsr_io_file_size(tsr_ctx *ctx, int fd, const char *path, uint64_t *out_size_bytes);

/* A file that is created atomically: it is written under a temporary name in the same directory,
 * synced, renamed to `path`, and the directory is synced. `-` and an existing path that is not a
 * regular file are refused. Opening it also removes temporaries of `path` whose writers are dead:
 * those that no process has locked. */
typedef struct tsr_io_atomic {
    int fd;            /* write here with tsr_io_write_all */
    char *path, *temp; /* in the arena */
} tsr_io_atomic;
TSR_RESULT tsr_io_atomic_open(tsr_ctx *ctx, const char *path, tsr_arena *arena,
                              tsr_io_atomic *out_file);
/* Reserves space for `size_bytes` bytes if the file system supports it; otherwise compares the size
 * with the free space. TSR_IO with both numbers. */
TSR_RESULT tsr_io_atomic_reserve(tsr_ctx *ctx, const tsr_io_atomic *file, uint64_t size_bytes);
TSR_RESULT tsr_io_atomic_commit(tsr_ctx *ctx, tsr_io_atomic *file);
/* Removes the temporary file; does nothing after commit or on a zeroed struct. */
void tsr_io_atomic_abandon(tsr_ctx *ctx, tsr_io_atomic *file);
/* Removes all temporaries of atomic files that this process is writing. Async-signal-safe, for
 * signal handlers that end the process. */
void tsr_io_remove_temporaries(void);
/* Writes a complete file in one call. */
TSR_RESULT tsr_io_atomic_write(tsr_ctx *ctx, const char *path, const void *bytes,
                               size_t size_bytes);

#endif
