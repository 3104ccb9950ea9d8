/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/lines.h"

#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES = 1 << 20, /* this library writes no longer lines */
    SHOWN_BYTES = 40,         /* bytes of a line shown in a message */
};

/* ---- the last line of a log that is continued ---- */

typedef struct tail {
    char *bytes; /* owned; the end of the file */
    size_t size_bytes;
    const char *line; /* the last line, without its newline; in `bytes` */
    size_t line_bytes;
} tail;

static bool is_object(const char *line, size_t size_bytes) {
    const tsr_json_options options = {.subject = "line", .code = TSR_DATA, .allow_numbers = true};
    tsr_ctx quiet = {0};
    struct cJSON *root = NULL;
    if (line[0] != '{' || tsr_json_parse(&quiet, line, size_bytes, &options, &root).code)
        return false;
    tsr_json_destroy(root);
    return true;
}

/* Makes a torn line printable: it may contain any bytes. */
static const char *show(const char *line, size_t size_bytes, char out[static SHOWN_BYTES + 4]) {
    size_t shown = size_bytes < SHOWN_BYTES ? size_bytes : SHOWN_BYTES;
    for (size_t i = 0; i < shown; i++) out[i] = line[i] < ' ' || line[i] > '~' ? '?' : line[i];
    strcpy(out + shown, shown < size_bytes ? "..." : "");
    return out;
}

static tsr_result read_tail(tsr_ctx *ctx, const tsr_lines *lines, off_t size, tail *out) {
    size_t wanted = size < LINE_MAX_BYTES ? (size_t)size : LINE_MAX_BYTES;
    out->bytes = malloc(wanted);
    if (!out->bytes) FAIL(ctx, TSR_MEMORY, "no memory for the end of '%s'", lines->path);
    int fd = open(lines->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : pread(fd, out->bytes, wanted, size - (off_t)wanted);
    int error = errno;
    if (fd >= 0) close(fd);
    if (got < 0)
        FAIL_ERRNO(ctx, TSR_IO, error, "cannot read the last line of '%s', which %s continue",
                   lines->path, lines->what);
    out->size_bytes = (size_t)got;
    const char *before = memrchr(out->bytes, '\n', out->size_bytes);
    out->line = before ? before + 1 : out->bytes;
    out->line_bytes = out->size_bytes - (size_t)(out->line - out->bytes);
    return TSR_SUCCESS;
}

static tsr_result mend(tsr_ctx *ctx, const tsr_lines *lines, off_t size, const tail *end) {
    char shown[SHOWN_BYTES + 4];
    if (!end->line_bytes) return TSR_SUCCESS;
    show(end->line, end->line_bytes, shown);
    if (end->line_bytes == LINE_MAX_BYTES || end->line[0] != '{')
        FAIL(ctx, TSR_USAGE,
             "'%s' is not a log that %s can continue: its last line is '%s'; expected JSON "
             "objects, one per line",
             lines->path, lines->what, shown);
    if (is_object(end->line, end->line_bytes)) {
        if (write(lines->fd, "\n", 1) != 1)
            FAIL_ERRNO(ctx, TSR_IO, errno, "cannot write %s to '%s'", lines->what, lines->path);
        return TSR_SUCCESS;
    }
    if (ftruncate(lines->fd, size - (off_t)end->line_bytes) != 0)
        FAIL_ERRNO(ctx, TSR_IO, errno, "cannot remove the torn last line of '%s'", lines->path);
    tsr_log(ctx, TSR_LOG_WARNING,
            "'%s' ended in the middle of a line; its %zu byte%s %s removed: '%s'", lines->path,
            end->line_bytes, TSR_PLURAL(end->line_bytes), TSR_WAS_WERE(end->line_bytes), shown);
    return TSR_SUCCESS;
}

static tsr_result continue_log(tsr_ctx *ctx, const tsr_lines *lines) {
    struct stat about;
    tail end = {0};
    if (fstat(lines->fd, &about) != 0)
        FAIL_ERRNO(ctx, TSR_IO, errno, "cannot stat '%s'", lines->path);
    if (!S_ISREG(about.st_mode) || !about.st_size) return TSR_SUCCESS;
    tsr_result result = read_tail(ctx, lines, about.st_size, &end);
    if (!result.code) result = mend(ctx, lines, about.st_size, &end);
    free(end.bytes);
    return result;
}

/* ---- writing ---- */

tsr_result tsr_lines_open(tsr_ctx *ctx, const char *what, const char *path,
                          volatile sig_atomic_t *stop, tsr_lines *out_lines) {
    tsr_lines lines = {.what = what, .path = path, .stop = stop};
    *out_lines = (tsr_lines){.fd = -1};
    lines.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (lines.fd < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot write %s to '%s'", what, path);
    tsr_result result = continue_log(ctx, &lines);
    if (result.code) {
        close(lines.fd);
        return result;
    }
    *out_lines = lines;
    return TSR_SUCCESS;
}

/* Removes the beginning of a line if no other process has written after it. */
static void take_back(const tsr_lines *lines, size_t size_bytes) {
    struct stat about;
    off_t end = lseek(lines->fd, 0, SEEK_CUR);
    if (!size_bytes || end < 0 || fstat(lines->fd, &about) != 0 || !S_ISREG(about.st_mode)) return;
    /* If this fails, the next run finds a torn line and removes it. */
    if (about.st_size == end && ftruncate(lines->fd, end - (off_t)size_bytes) != 0) return;
}

void tsr_lines_fail(tsr_lines *lines, int error) {
    if (lines->error) return;
    lines->error = error;
    if (lines->stop && !*lines->stop) *lines->stop = TSR_LINES_STOP;
}

void tsr_lines_append(tsr_lines *lines, const char *text, size_t size_bytes) {
    size_t done = 0;
    if (lines->fd < 0 || lines->error) return;
    while (done < size_bytes) {
        ssize_t part = write(lines->fd, text + done, size_bytes - done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) {
            int error = part < 0 ? errno : EIO;
            take_back(lines, done);
            tsr_lines_fail(lines, error);
            return;
        }
        done += (size_t)part;
    }
}

tsr_result tsr_lines_close(tsr_ctx *ctx, tsr_lines *lines) {
    struct stat about;
    if (lines->fd < 0) return TSR_SUCCESS;
    bool is_file = fstat(lines->fd, &about) == 0 && S_ISREG(about.st_mode);
    if (is_file && fsync(lines->fd) != 0 && errno != EINVAL && !lines->error) lines->error = errno;
    if (close(lines->fd) != 0 && !lines->error) lines->error = errno;
    lines->fd = -1;
    if (lines->error)
        FAIL_ERRNO(ctx, TSR_IO, lines->error, "cannot write %s to '%s'", lines->what, lines->path);
    return TSR_SUCCESS;
}
