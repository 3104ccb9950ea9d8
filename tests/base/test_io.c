/* SPDX-License-Identifier: Apache-2.0
 *
 * The helpers with the system's table, and with a table that fails its n-th operation, for every n.
 */
#include "runtime/base/io/io.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a table that fails ---- */

typedef enum fault_mode {
    FAULT_NONE,
    FAULT_ONCE,       /* the n-th operation fails; later ones work */
    FAULT_FROM,       /* the n-th and all later ones fail, as after a crash */
    FAULT_SHORT,      /* every read and write moves one byte */
    FAULT_INTERRUPTS, /* every other read and write fails with EINTR */
} fault_mode;

typedef struct faults {
    fault_mode mode;
    int code; /* errno */
    unsigned at, count;
    char log[64]; /* one letter per operation */
} faults;

static bool strikes(faults *f, char letter) {
    unsigned number = f->count++;
    if (number < sizeof f->log - 1) f->log[number] = letter;
    return (f->mode == FAULT_ONCE && number == f->at) || (f->mode == FAULT_FROM && number >= f->at);
}

#define STRIKE(self, letter)                                                                       \
    if (strikes(self, letter)) return -((faults *)(self))->code
static const tsr_io *below(void) { return tsr_io_system(); }

static int faulty_open(void *self, int dir, const char *path, int flags, mode_t mode) {
    STRIKE(self, 'o');
    return below()->open(NULL, dir, path, flags, mode);
}
static int faulty_close(void *self, int fd) {
    int code = below()->close(NULL, fd); /* close releases the descriptor even if it fails */
    STRIKE(self, 'c');
    return code;
}
static ssize_t faulty_pread(void *self, int fd, void *bytes, size_t size, off_t offset) {
    faults *f = self;
    STRIKE(self, 'r');
    if (f->mode == FAULT_INTERRUPTS && f->count % 2) return -EINTR;
    if (f->mode == FAULT_SHORT && size > 1) size = 1;
    return below()->pread(NULL, fd, bytes, size, offset);
}
static ssize_t faulty_pwrite(void *self, int fd, const void *bytes, size_t size, off_t offset) {
    faults *f = self;
    STRIKE(self, 'w');
    if (f->mode == FAULT_INTERRUPTS && f->count % 2) return -EINTR;
    if (f->mode == FAULT_SHORT && size > 1) size = 1;
    return below()->pwrite(NULL, fd, bytes, size, offset);
}
static int faulty_fsync(void *self, int fd) {
    STRIKE(self, 'f');
    return below()->fsync(NULL, fd);
}
static int faulty_fstat(void *self, int fd, struct stat *out_stat) {
    STRIKE(self, 's');
    return below()->fstat(NULL, fd, out_stat);
}
static int faulty_rename(void *self, int dir, const char *from, const char *to) {
    STRIKE(self, 'm');
    return below()->rename(NULL, dir, from, to);
}
static int faulty_unlink(void *self, int dir, const char *path, int flags) {
    STRIKE(self, 'u');
    return below()->unlink(NULL, dir, path, flags);
}

static tsr_io faulty(faults *f) {
    tsr_io io = *tsr_io_system();
    io.self = f;
    io.open = faulty_open;
    io.close = faulty_close;
    io.pread = faulty_pread;
    io.pwrite = faulty_pwrite;
    io.fsync = faulty_fsync;
    io.fstat = faulty_fstat;
    io.rename = faulty_rename;
    io.unlink = faulty_unlink;
    return io;
}

/* ---- a folder of our own ---- */

static char folder[64];

static void enter(void) {
    strcpy(folder, "/tmp/tessera-io-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static int remove_entry(void *user, const char *name) {
    (void)user;
    return unlink(name) && rmdir(name);
}

static void clear(void) {
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    cr_assert_eq(tsr_io_system()->list(NULL, fd, remove_entry, NULL), 0);
    close(fd);
}

static void leave(void) {
    clear();
    cr_assert_eq(chdir("/"), 0);
    rmdir(folder);
}

TestSuite(io, .init = enter, .fini = leave);

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

/* Returns the text of the file, or NULL if it does not exist. */
static const char *got(const char *path) {
    static char text[4096];
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static int count_entry(void *user, const char *name) {
    (void)name;
    ++*(int *)user;
    return 0;
}

static int entry_count(void) {
    int count = 0, fd = open(".", O_RDONLY | O_DIRECTORY);
    cr_assert_eq(tsr_io_system()->list(NULL, fd, count_entry, &count), 0);
    close(fd);
    return count;
}

static int open_fd_count(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- tests ---- */

Test(io, reads_a_whole_file) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    void *bytes;
    size_t size;
    put("a", "hello");
    cr_assert_eq(tsr_io_read_file(&ctx, "a", 5, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(size, 5);
    cr_assert_str_eq(bytes, "hello", "a NUL follows");
    cr_assert_eq(tsr_io_read_file(&ctx, "a", 4, &arena, &bytes, &size).code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "'a' has 5 bytes; at most 4 are accepted");
    put("empty", "");
    cr_assert_eq(tsr_io_read_file(&ctx, "empty", 0, &arena, &bytes, &size).code, TSR_OK);
    cr_assert_eq(size, 0);
    tsr_arena_finish(&arena);
}

Test(io, refuses_what_is_no_file) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    void *bytes;
    size_t size;
    int before = open_fd_count();
    cr_assert_eq(tsr_io_read_file(&ctx, "absent", 9, &arena, &bytes, &size).code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "cannot open 'absent': No such file or directory");
    cr_assert_eq(ctx.error.native, ENOENT);
    cr_assert_eq(tsr_io_read_file(&ctx, ".", 9, &arena, &bytes, &size).code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "'.' is a directory; expected a file");
    cr_assert_eq(mkfifo("fifo", 0600), 0);
    cr_assert_eq(tsr_io_read_file(&ctx, "fifo", 9, &arena, &bytes, &size).code, TSR_IO,
                 "and does not wait for a writer");
    cr_assert_str_eq(ctx.error.text, "'fifo' is not a regular file");
    cr_assert_eq(open_fd_count(), before, "no descriptor leaks");
    tsr_arena_finish(&arena);
}

Test(io, reads_survive_short_and_interrupted_calls) {
    static const fault_mode modes[] = {FAULT_SHORT, FAULT_INTERRUPTS};
    put("a", "some bytes to read in pieces");
    for (size_t i = 0; i < 2; i++) {
        faults f = {.mode = modes[i]};
        tsr_io io = faulty(&f);
        tsr_ctx ctx = {.io = &io};
        tsr_arena arena = {0};
        void *bytes;
        size_t size;
        cr_assert_eq(tsr_io_read_file(&ctx, "a", 99, &arena, &bytes, &size).code, TSR_OK, "%s",
                     ctx.error.text);
        cr_assert_str_eq(bytes, "some bytes to read in pieces");
        tsr_arena_finish(&arena);
    }
}

Test(io, every_fault_while_reading_is_reported) {
    put("a", "hello");
    for (unsigned n = 0;; n++) {
        faults f = {.mode = FAULT_ONCE, .code = EIO, .at = n};
        tsr_io io = faulty(&f);
        tsr_ctx ctx = {.io = &io};
        tsr_arena arena = {0};
        void *bytes = NULL;
        size_t size;
        int before = open_fd_count();
        tsr_result result = tsr_io_read_file(&ctx, "a", 99, &arena, &bytes, &size);
        cr_assert_eq(open_fd_count(), before);
        /* The last operation is close, which cannot lose data here. */
        if (n >= 3) cr_assert_eq(result.code, TSR_OK);
        if (n < 3) {
            cr_assert_eq(result.code, TSR_IO, "operation %u", n);
            cr_assert_eq(ctx.error.native, EIO);
            cr_assert_null(bytes);
        }
        tsr_arena_finish(&arena);
        if (f.count <= n) break;
    }
}

Test(io, a_file_that_ends_early_is_named) {
    tsr_ctx ctx = {0};
    char bytes[8];
    int fd;
    put("a", "12345");
    cr_assert_eq(tsr_io_open(&ctx, "a", O_RDONLY, 0, &fd).code, TSR_OK);
    cr_assert_eq(tsr_io_read_exact(&ctx, fd, "a", bytes, 3, 2).code, TSR_OK);
    cr_assert_arr_eq(bytes, "345", 3);
    cr_assert_eq(tsr_io_read_exact(&ctx, fd, "a", bytes, 4, 2).code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "'a' ends at byte 5; expected at least 6");
    cr_assert_eq(tsr_io_write_all(&ctx, fd, "a", "x", 1, 0).code, TSR_IO, "opened to read");
    close(fd);
}

static tsr_result save(tsr_ctx *ctx, tsr_arena *arena, const char *path, const char *text) {
    tsr_io_atomic file = {0};
    tsr_result result = tsr_io_atomic_open(ctx, path, arena, &file);
    if (!result.code) result = tsr_io_write_all(ctx, file.fd, path, text, strlen(text), 0);
    if (!result.code) result = tsr_io_atomic_commit(ctx, &file);
    tsr_io_atomic_abandon(ctx, &file);
    return result;
}

Test(io, atomic_file_appears_and_replaces) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    int before = open_fd_count();
    cr_assert_eq(save(&ctx, &arena, "out", "first").code, TSR_OK);
    cr_assert_str_eq(got("out"), "first");
    cr_assert_eq(save(&ctx, &arena, "out", "second").code, TSR_OK);
    cr_assert_str_eq(got("out"), "second");
    tsr_io_atomic file = {0};
    cr_assert_eq(tsr_io_atomic_open(&ctx, "out", &arena, &file).code, TSR_OK);
    cr_assert_eq(tsr_io_write_all(&ctx, file.fd, "out", "third", 5, 0).code, TSR_OK);
    cr_assert_str_eq(got("out"), "second", "not before the commit");
    tsr_io_atomic_abandon(&ctx, &file);
    tsr_io_atomic_abandon(&ctx, &file);
    cr_assert_str_eq(got("out"), "second");
    cr_assert_eq(entry_count(), 1, "nothing else stays");
    cr_assert_eq(open_fd_count(), before);
    tsr_arena_finish(&arena);
}

Test(io, atomic_file_refuses_what_it_must_not_replace) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    cr_assert_eq(mkdir("dir", 0700), 0);
    cr_assert_eq(mkfifo("fifo", 0600), 0);
    cr_assert_eq(save(&ctx, &arena, "dir", "x").code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "cannot write 'dir': it is a directory; expected a file");
    cr_assert_eq(save(&ctx, &arena, "fifo", "x").code, TSR_IO);
    cr_assert_eq(save(&ctx, &arena, "", "x").code, TSR_USAGE);
    cr_assert_eq(save(&ctx, &arena, "-", "x").code, TSR_USAGE);
    cr_assert_eq(save(&ctx, &arena, "absent/out", "x").code, TSR_IO);
    cr_assert_str_eq(ctx.error.text, "cannot write 'absent/out': No such file or directory");
    cr_assert_eq(entry_count(), 2);
    tsr_arena_finish(&arena);
}

/* Whichever operation fails, `out` is complete: it has the old or the new text, and the new one on
 * success. */
static void check_faulty_save(fault_mode mode, unsigned at, bool *out_past_the_end) {
    faults f = {.mode = mode, .code = ENOSPC, .at = at};
    tsr_io io = faulty(&f);
    tsr_ctx ctx = {.io = &io};
    tsr_arena arena = {0};
    int before = open_fd_count();
    clear();
    put("out", "old");
    tsr_result result = save(&ctx, &arena, "out", "new text");
    const char *text = got("out");
    cr_assert_not_null(text, "operation %u: the file is gone", at);
    bool is_new = strcmp(text, "new text") == 0;
    cr_assert(is_new || strcmp(text, "old") == 0, "operation %u left '%s'", at, text);
    if (!result.code) cr_assert(is_new, "operation %u: success, but '%s'", at, text);
    cr_assert(result.code == TSR_OK || ctx.error.native == ENOSPC, "%s", ctx.error.text);
    if (mode == FAULT_ONCE) cr_assert_eq(entry_count(), 1, "operation %u left a temporary", at);
    cr_assert_eq(open_fd_count(), before, "operation %u leaks a descriptor", at);
    *out_past_the_end = f.count <= at;
    tsr_arena_finish(&arena);
}

Test(io, atomic_file_survives_every_fault) {
    static const fault_mode modes[] = {FAULT_ONCE, FAULT_FROM};
    for (size_t i = 0; i < 2; i++) {
        bool past = false;
        unsigned n = 0;
        for (; !past; n++) check_faulty_save(modes[i], n, &past);
        cr_assert_geq(n, 8, "open, write, fsync, close, rename, open, fsync, close at least");
    }
}

Test(io, atomic_file_syncs_before_and_after_the_rename) {
    faults f = {0};
    tsr_io io = faulty(&f);
    tsr_ctx ctx = {.io = &io};
    tsr_arena arena = {0};
    cr_assert_eq(save(&ctx, &arena, "out", "text").code, TSR_OK);
    /* look (absent) | look for leftovers | open, look, write, fsync the temporary | rename | close
     * | sync the directory */
    cr_assert_str_eq(f.log, "oocoswfmcofc");
    tsr_arena_finish(&arena);
}

/* An operation may not report success after one of the errors. */
Test(io, atomic_file_reports_write_sync_close_and_rename_errors) {
    unsigned failures = 0, total = 0;
    bool past = false;
    for (unsigned n = 0; !past; n++, total++) {
        faults f = {.mode = FAULT_ONCE, .code = EIO, .at = n};
        tsr_io io = faulty(&f);
        tsr_ctx ctx = {.io = &io};
        tsr_arena arena = {0};
        failures += save(&ctx, &arena, "out", "text").code != 0;
        past = f.count <= n;
        tsr_arena_finish(&arena);
    }
    /* Harmless: looking at the old file (open, close), for leftovers (open, close) and at the
     * temporary, closing the directory, past the end. */
    cr_assert_geq(failures, total - 7, "%u of %u", failures, total);
}

Test(io, atomic_file_removes_what_dead_writers_left) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    put("out.tmp-7", "of a dead writer");
    put("out.tmp-7-2", "of another");
    put("out.tmp-8", "of a living one");
    put("out.tmp-x", "of somebody else");
    put("out2.tmp-7", "of another file");
    cr_assert_eq(symlink("out2.tmp-7", "out.tmp-9"), 0);
    int held = open("out.tmp-8", O_RDWR);
    cr_assert_eq(tsr_io_system()->lock(NULL, held), 0);
    cr_assert_eq(save(&ctx, &arena, "out", "text").code, TSR_OK);
    cr_assert_null(got("out.tmp-7"));
    cr_assert_null(got("out.tmp-7-2"));
    cr_assert_not_null(got("out.tmp-8"));
    cr_assert_not_null(got("out.tmp-x"));
    cr_assert_not_null(got("out2.tmp-7"));
    cr_assert_eq(entry_count(), 5);
    close(held);
    tsr_arena_finish(&arena);
}

Test(io, atomic_files_of_one_path_do_not_meet) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    char name[64];
    snprintf(name, sizeof name, "out.tmp-%ld", (long)getpid());
    put(name, "of a process that has our number elsewhere");
    int held = open(name, O_RDWR);
    cr_assert_eq(tsr_io_system()->lock(NULL, held), 0);
    cr_assert_eq(save(&ctx, &arena, "out", "text").code, TSR_OK);
    cr_assert_str_eq(got("out"), "text");
    cr_assert_str_eq(got(name), "of a process that has our number elsewhere");
    close(held);
    tsr_arena_finish(&arena);
}

Test(io, temporaries_of_this_process_are_removed_at_once) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_io_atomic a = {0}, b = {0};
    cr_assert_eq(tsr_io_atomic_open(&ctx, "a", &arena, &a).code, TSR_OK);
    cr_assert_eq(tsr_io_atomic_open(&ctx, "b", &arena, &b).code, TSR_OK);
    cr_assert_eq(tsr_io_atomic_commit(&ctx, &a).code, TSR_OK);
    cr_assert_eq(entry_count(), 2);
    tsr_io_remove_temporaries();
    cr_assert_eq(entry_count(), 1, "what is committed stays");
    tsr_io_atomic_abandon(&ctx, &b);
    tsr_arena_finish(&arena);
}

Test(io, space_is_reserved_or_refused_with_both_numbers) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_io_atomic file = {0};
    struct stat info;
    cr_assert_eq(tsr_io_atomic_open(&ctx, "a", &arena, &file).code, TSR_OK);
    cr_assert_eq(tsr_io_atomic_reserve(&ctx, &file, UINT64_C(1) << 60).code, TSR_IO);
    cr_assert_not_null(
        strstr(ctx.error.text, "cannot reserve 1152921504606846976 bytes for 'a'; "));
    cr_assert_eq(tsr_io_atomic_reserve(&ctx, &file, 1 << 20).code, TSR_OK);
    cr_assert_eq(fstat(file.fd, &info), 0);
    cr_assert_eq(info.st_size, 1 << 20);
    tsr_io_atomic_abandon(&ctx, &file);
    tsr_arena_finish(&arena);
}

Test(io, writes_survive_short_and_interrupted_calls) {
    static const fault_mode modes[] = {FAULT_SHORT, FAULT_INTERRUPTS};
    for (size_t i = 0; i < 2; i++) {
        faults f = {.mode = modes[i]};
        tsr_io io = faulty(&f);
        tsr_ctx ctx = {.io = &io};
        tsr_arena arena = {0};
        cr_assert_eq(save(&ctx, &arena, "out", "many small pieces").code, TSR_OK, "%s",
                     ctx.error.text);
        cr_assert_str_eq(got("out"), "many small pieces");
        tsr_arena_finish(&arena);
    }
}

static int stop_at_second(void *user, const char *name) {
    (void)name;
    return ++*(int *)user == 2 ? 42 : 0;
}

Test(io, lists_and_stops) {
    const tsr_io *io = tsr_io_system();
    char name[32];
    int seen = 0, fd = open(".", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "a-rather-long-name-%03d", i);
        put(name, "");
    }
    cr_assert_eq(io->list(NULL, fd, count_entry, &seen), 0);
    cr_assert_eq(seen, 500, "more than one block of entries");
    seen = 0;
    cr_assert_eq(io->list(NULL, fd, count_entry, &seen), 0);
    cr_assert_eq(seen, 500, "again: the caller's offset is not touched");
    seen = 0;
    cr_assert_eq(io->list(NULL, fd, stop_at_second, &seen), 42);
    cr_assert_eq(seen, 2);
    close(fd);
    cr_assert_lt(io->list(NULL, fd, count_entry, &seen), 0, "a closed descriptor");
}

Test(io, the_lock_is_exclusive) {
    const tsr_io *io = tsr_io_system();
    put("lock", "");
    int first = open("lock", O_RDWR), second = open("lock", O_RDWR);
    cr_assert_eq(io->lock(NULL, first), 0);
    cr_assert_eq(io->lock(NULL, second), -EWOULDBLOCK);
    close(first);
    cr_assert_eq(io->lock(NULL, second), 0);
    close(second);
}

Test(io, the_other_operations_reach_the_system) {
    const tsr_io *io = tsr_io_system();
    struct stat info;
    uint64_t magic = 0;
    int fd = io->open(NULL, TSR_IO_CWD, "a", O_RDWR | O_CREAT, 0600);
    cr_assert_geq(fd, 0);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    int code = io->fallocate(NULL, fd, 4096);
    cr_assert(code == 0 || code == -EOPNOTSUPP, "%d", code);
    cr_assert_eq(io->ftruncate(NULL, fd, 100), 0);
    cr_assert_eq(io->fstat(NULL, fd, &info), 0);
    cr_assert_eq(info.st_size, 100);
    cr_assert_eq(io->fsync(NULL, fd), 0);
    cr_assert_eq(io->drop_cache(NULL, fd), 0);
    cr_assert_eq(io->fs_type(NULL, fd, &magic), 0);
    cr_assert_neq(magic, 0);
    cr_assert_eq(io->link(NULL, TSR_IO_CWD, "a", "b"), 0);
    cr_assert_eq(io->link(NULL, TSR_IO_CWD, "a", "b"), -EEXIST);
    cr_assert_eq(io->mkdir(NULL, TSR_IO_CWD, "d", 0700), 0);
    cr_assert_eq(io->mkdir(NULL, TSR_IO_CWD, "d", 0700), -EEXIST);
    cr_assert_eq(io->unlink(NULL, TSR_IO_CWD, "d", AT_REMOVEDIR), 0);
    cr_assert_eq(io->unlink(NULL, TSR_IO_CWD, "d", 0), -ENOENT);
    cr_assert_eq(io->close(NULL, fd), 0);
    cr_assert_eq(io->close(NULL, fd), -EBADF);
}
