/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- names ---- */

const char *tsr_name_format(const tsr_name *name, char out_text[static TSR_NAME_TEXT_MAX]) {
    const size_t room = TSR_NAME_TEXT_MAX;
    switch (name->kind) {
    case TSR_NAME_EPOCH:
        snprintf(out_text, room, "EPOCH.%" PRIu64, name->epoch);
        break;
    case TSR_NAME_BASE:
        snprintf(out_text, room, "BASE.%" PRIu64, name->epoch);
        break;
    case TSR_NAME_MANIFEST:
        snprintf(out_text, room, "MANIFEST.%" PRIu64 ".%" PRIu64, name->generation, name->epoch);
        break;
    case TSR_NAME_TEMP:
        snprintf(out_text, room, "TEMP.%" PRIu64 ".%" PRIu64 ".%" PRIu64, name->epoch, name->pid,
                 name->nonce);
        break;
    case TSR_NAME_GENERATION:
        snprintf(out_text, room, "%" PRIu64 "-%" PRIu64, name->epoch, name->generation);
        break;
    case TSR_NAME_SEGMENT:
        snprintf(out_text, room, "segment.%" PRIu64, name->generation);
        break;
    case TSR_NAME_OTHER:
        TSR_ASSERT(!"a name of no kind is never written");
    }
    return out_text;
}

/* Decimal without leading zeros, below 2^64 - 1, so that one more can always be had. */
static bool take_number(const char **at, uint64_t *out_value) {
    const char *c = *at;
    uint64_t value = 0;
    if (*c < '0' || *c > '9' || (*c == '0' && c[1] >= '0' && c[1] <= '9')) return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value))
            return false;
    *at = c;
    *out_value = value;
    return value < UINT64_MAX;
}

tsr_name tsr_name_parse(const char *text) {
    static const struct {
        tsr_name_kind kind;
        const char *prefix;
        char separator;
        uint8_t fields[3]; /* 1 epoch, 2 generation, 3 pid, 4 nonce */
    } rows[] = {
        {TSR_NAME_EPOCH, "EPOCH.", 0, {1}},
        {TSR_NAME_BASE, "BASE.", 0, {1}},
        {TSR_NAME_MANIFEST, "MANIFEST.", '.', {2, 1}},
        {TSR_NAME_TEMP, "TEMP.", '.', {1, 3, 4}},
        {TSR_NAME_GENERATION, "", '-', {1, 2}},
        {TSR_NAME_SEGMENT, "segment.", 0, {2}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tsr_name name = {.kind = rows[i].kind};
        uint64_t *const slots[] = {NULL, &name.epoch, &name.generation, &name.pid, &name.nonce};
        size_t length = strlen(rows[i].prefix);
        const char *at = text + length;
        bool good = strncmp(text, rows[i].prefix, length) == 0;
        for (size_t k = 0; good && k < 3 && rows[i].fields[k]; k++) {
            if (k) good = *at++ == rows[i].separator;
            good = good && take_number(&at, slots[rows[i].fields[k]]);
        }
        if (good && !*at) return name;
    }
    return (tsr_name){.kind = TSR_NAME_OTHER};
}

static int add_name(void *user, const char *text) {
    tsr_listing *listing = user;
    tsr_name name = tsr_name_parse(text);
    if (name.kind == TSR_NAME_OTHER) return 0;
    if (listing->count == listing->capacity && listing->arena) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        tsr_name *names = TSR_NEW(listing->arena, tsr_name, capacity);
        if (!names) return -ENOMEM;
        if (listing->count) memcpy(names, listing->names, listing->count * sizeof *names);
        listing->names = names;
        listing->capacity = capacity;
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
    int code = io->list(io->self, fd, add_name, listing);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot list the directory");
    return TSR_SUCCESS;
}

bool tsr_listing_has(const tsr_listing *listing, tsr_name_kind kind, uint64_t epoch,
                     uint64_t generation) {
    for (size_t i = 0; i < listing->count; i++) {
        const tsr_name *name = &listing->names[i];
        if (name->kind == kind && name->epoch == epoch && name->generation == generation)
            return true;
    }
    return false;
}

uint64_t tsr_listing_highest_epoch(const tsr_listing *listing) {
    uint64_t epoch = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const tsr_name *name = &listing->names[i];
        bool counts = name->kind == TSR_NAME_EPOCH || name->kind == TSR_NAME_BASE ||
                      name->kind == TSR_NAME_MANIFEST;
        if (counts && name->epoch > epoch) epoch = name->epoch;
    }
    return epoch;
}

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

/* ---- reading ---- */

static bool is_damage(int err) {
    return err == EIO || err == ENOENT || err == ENOTDIR || err == EISDIR || err == ELOOP ||
           err == EUCLEAN || err == EBADMSG || err == ENODATA;
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
    bool again = false;
    for (size_t done = 0; done < size_bytes;) {
        ssize_t part = io->pread(io->self, fd, (char *)bytes + done, size_bytes - done,
                                 (off_t)(offset + done));
        if (part == -EINTR) continue;
        if (part == -EIO && !again) {
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
        FAIL_GOTO(ctx, result, TSR_STATE, "'%s' has %" PRIu64 " bytes; at most %zu are expected",
                  name, size, size_max);
    bytes = tsr_arena_alloc(arena, (size_t)size + 1, 1, 16);
    if (!bytes) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for '%s'", name);
    TRY_GOTO(ctx, result, tsr_disk_read(ctx, fd, name, bytes, (size_t)size, 0));
    *out_bytes = bytes;
    *out_size_bytes = (size_t)size;
done:
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
