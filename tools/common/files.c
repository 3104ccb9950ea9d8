/* SPDX-License-Identifier: Apache-2.0
 *
 * Each path is resolved once to a target: an absolute path without links, and the inode if the file
 * exists. Then every pair of rows is compared if at least one of the two is written.
 */
#include "tools/common/files.h"

#include "runtime/base/array.h"
#include "runtime/data/array_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40, ROWS_MIN = 64, STREAMS = 2 };

/* Suffixes of the files next to a bundle that are read with it. */
static const char *const signature_suffixes[] = {".sigstore.json", ".minisig"};

/* The file that a path leads to. */
typedef struct location {
    char path[PATH_MAX];  /* absolute, without links; "" if its folder does not exist */
    char named[PATH_MAX]; /* like path, but the last component is not resolved: the file that a
                             rename replaces */
    bool exists;
    int folder_error;  /* errno of the search for the folder of `named`; or 0 */
    struct stat about; /* set if the file exists */
} location;

/* ---- the list ---- */

void tsr_files_finish(tsr_files *files) {
    free(files->rows);
    tsr_arena_finish(&files->arena);
    *files = (tsr_files){0};
}

static tsr_result append(tsr_ctx *ctx, tsr_files *files, tsr_file row) {
    if (files->count == files->capacity) {
        tsr_file *rows = tsr_grow(files->rows, &files->capacity, ROWS_MIN, sizeof *rows);
        if (!rows) FAIL(ctx, TSR_MEMORY, "no memory for the paths of %zu files", files->count + 1);
        files->rows = rows;
    }
    files->rows[files->count++] = row;
    return TSR_SUCCESS;
}

tsr_result tsr_files_add_sibling(tsr_ctx *ctx, tsr_files *files, const char *flag, tsr_file_use use,
                                 const char *path, const char *suffix) {
    if (!path) return TSR_SUCCESS;
    const char *sibling = tsr_arena_printf(&files->arena, "%s%s", path, suffix);
    if (!sibling) FAIL(ctx, TSR_MEMORY, "no memory for the path '%s%s'", path, suffix);
    return append(ctx, files, (tsr_file){.flag = flag, .path = sibling, .use = use});
}

tsr_result tsr_files_add(tsr_ctx *ctx, tsr_files *files, const char *flag, tsr_file_use use,
                         const char *path) {
    if (!path || use == TSR_FILE_NONE || use == TSR_FILE_FOLDER) return TSR_SUCCESS;
    if (use == TSR_FILE_BUNDLE)
        for (size_t i = 0; i < TSR_COUNT(signature_suffixes); i++)
            TRY(ctx, tsr_files_add_sibling(ctx, files, flag, TSR_FILE_READ, path,
                                           signature_suffixes[i]));
    if (use == TSR_FILE_ARRAY) {
        path = tsr_arena_strndup(&files->arena, path, tsr_array_path_length(path));
        if (!path) FAIL(ctx, TSR_MEMORY, "no memory for the path of %s", flag);
    }
    return append(ctx, files, (tsr_file){.flag = flag, .path = path, .use = use});
}

tsr_result tsr_files_add_names(tsr_ctx *ctx, tsr_files *files, const char *flag, const char *folder,
                               const char *prefix, const char *suffix, bool between) {
    if (!folder) return TSR_SUCCESS;
    return append(ctx, files, (tsr_file){flag, folder, TSR_FILE_FOLDER, prefix, suffix, between});
}

tsr_result tsr_files_add_flags(tsr_ctx *ctx, tsr_files *files, const tsr_flag *flags,
                               size_t flag_count) {
    for (size_t i = 0; i < flag_count; i++) {
        const tsr_flag *flag = &flags[i];
        if (!flag->given || flag->use == TSR_FILE_NONE) continue;
        if (flag->kind == TSR_FLAG_TEXT)
            TRY(ctx,
                tsr_files_add(ctx, files, flag->name, flag->use, *(const char **)flag->target));
        const tsr_flag_list *list = flag->target;
        for (size_t k = 0; flag->kind == TSR_FLAG_LIST && k < list->count; k++)
            TRY(ctx, tsr_files_add(ctx, files, flag->name, flag->use, list->texts[k]));
        const tsr_flag_pairs *pairs = flag->target;
        for (size_t k = 0; flag->kind == TSR_FLAG_PAIR && k < pairs->count; k++)
            if (strcmp(pairs->pairs[k].value, TSR_ARRAY_STREAM) != 0) /* a stream is not a file */
                TRY(ctx, tsr_files_add(ctx, files, flag->name, flag->use, pairs->pairs[k].value));
    }
    return TSR_SUCCESS;
}

/* ---- targets ---- */

/* Joins "a/b" and "c" to "a/c"; an absolute name stays as it is. Returns false if the result is too
 * long. */
static bool join(const char *neighbour, const char *name, char out[static PATH_MAX]) {
    const char *slash = strrchr(neighbour, '/');
    int folder = slash && name[0] != '/' ? (int)(slash - neighbour) + 1 : 0;
    int length = snprintf(out, PATH_MAX, "%.*s%s", folder, neighbour, name);
    return length >= 0 && length < PATH_MAX;
}

/* Resolves links in the folder of a path, and appends the last component unchanged. Returns 0, or
 * an errno and no path. */
static int resolve_folder(const char *path, char out[static PATH_MAX]) {
    char copy[PATH_MAX], folder[PATH_MAX];
    struct stat about;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(copy, sizeof copy, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    out[0] = 0;
    if (!realpath(copy[0] ? copy : "/", folder) || stat(folder, &about) != 0) return errno;
    if (!S_ISDIR(about.st_mode)) return ENOTDIR;
    if (strcmp(folder, "/") == 0) folder[0] = 0;
    size_t length = strlen(folder), more = strlen(name);
    if (length + more + 2 > PATH_MAX) return ENAMETOOLONG;
    memcpy(out, folder, length);
    out[length] = '/';
    memcpy(out + length + 1, name, more + 1);
    return 0;
}

static void locate(const char *path, location *out_location) {
    char at[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
    *out_location = (location){0};
    if (strlen(path) >= sizeof at) return; /* opening the file reports that it is too long */
    strcpy(at, path);
    out_location->exists = stat(at, &out_location->about) == 0;
    bool loops = !out_location->exists && errno == ELOOP;
    out_location->folder_error = resolve_folder(at, out_location->named);
    if (loops && !out_location->folder_error) out_location->folder_error = ELOOP;
    /* A dangling link is followed, as open does. */
    for (int i = 0; i < LINKS_MAX; i++) {
        if (realpath(at, out_location->path)) return;
        ssize_t length = readlink(at, target, sizeof target - 1);
        if (length < 0) break;
        target[length] = 0;
        if (!join(at, target, next)) break;
        strcpy(at, next);
    }
    resolve_folder(at, out_location->path);
}

/* ---- rules ---- */

static bool is_written(tsr_file_use use) {
    return use == TSR_FILE_WRITE || use == TSR_FILE_WEIGHTS || use == TSR_FILE_APPEND ||
           use == TSR_FILE_REPLACE;
}

static bool is_one_file(const location *a, const location *b) {
    if (a->exists && !S_ISREG(a->about.st_mode)) return false;
    if (a->path[0] && strcmp(a->path, b->path) == 0) return true;
    return a->exists && b->exists && a->about.st_dev == b->about.st_dev &&
           a->about.st_ino == b->about.st_ino;
}

/* Returns true if the file's path is inside the folder. */
static bool is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    if (strcmp(folder, "/") == 0) return path[0] == '/';
    return length && strncmp(path, folder, length) == 0 && path[length] == '/';
}

static bool is_in(const location *file, const location *folder) {
    return is_below(file->path, folder->path) || is_below(file->named, folder->path);
}

/* Returns true if everything in the directory is read, or if it is a state directory. */
static bool holds_data(const tsr_file *row, const location *where) {
    if (row->use == TSR_FILE_STATE) return true;
    bool reads_all =
        row->use == TSR_FILE_READ || row->use == TSR_FILE_BUNDLE || row->use == TSR_FILE_BASE;
    return reads_all && where->exists && S_ISDIR(where->about.st_mode);
}

/* Returns true if `path` is one of the files that are written in the folder. */
static bool is_named(const char *path, const location *folder, const tsr_file *row) {
    size_t length = strlen(folder->path), prefix = strlen(row->prefix);
    size_t suffix = strlen(row->suffix);
    if (!is_below(path, folder->path) || strchr(path + length + 1, '/')) return false;
    const char *name = path + length + 1;
    size_t size = strlen(name);
    bool fits = row->between ? size > prefix + suffix : size == prefix + 1 + suffix;
    return fits && strncmp(name, row->prefix, prefix) == 0 && name[prefix] == '.' &&
           name[size - suffix - 1] == '.' && strcmp(name + size - suffix, row->suffix) == 0;
}

static tsr_result check_pair(tsr_ctx *ctx, const tsr_file *a, const location *at_a,
                             const tsr_file *b, const location *at_b) {
    static const char lost[] = ": the input would be lost";
    bool both = is_written(a->use) && is_written(b->use);
    if (b->use == TSR_FILE_FOLDER && a->use != TSR_FILE_FOLDER &&
        (is_named(at_a->path, at_b, b) || is_named(at_a->named, at_b, b)))
        FAIL(ctx, TSR_USAGE, "%s '%s' and a file that %s writes in '%s' are one file%s", a->flag,
             a->path, b->flag, b->path,
             is_written(a->use) ? "; expected two" : "; expected two: the input would be lost");
    if (is_written(a->use) && holds_data(b, at_b) && is_in(at_a, at_b))
        FAIL(ctx, TSR_USAGE,
             "%s '%s' is in %s '%s', which contains the input; expected a file "
             "outside of it",
             a->flag, a->path, b->flag, b->path);
    if (!is_written(a->use) && !is_written(b->use)) return TSR_SUCCESS;
    if ((a->use == TSR_FILE_REPLACE && b->use == TSR_FILE_BASE) ||
        (b->use == TSR_FILE_REPLACE && a->use == TSR_FILE_BASE))
        return TSR_SUCCESS;
    if ((both && strcmp(a->flag, b->flag) == 0) || !is_one_file(at_a, at_b)) return TSR_SUCCESS;
    FAIL(ctx, TSR_USAGE, "%s '%s' and %s '%s' are one file; expected two%s", a->flag, a->path,
         b->flag, b->path, both ? "" : lost);
}

/* Refuses standard output or standard error redirected to a file that another flag writes or reads.
 * Two streams that append do not conflict. */
static tsr_result check_streams(tsr_ctx *ctx, const tsr_file *row, const location *at) {
    static const char *const names[STREAMS] = {"standard output", "standard error"};
    for (int i = 0; i < STREAMS; i++) {
        location stream = {.exists = true};
        int flags = fcntl(STDOUT_FILENO + i, F_GETFL);
        if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) continue;
        if (fstat(STDOUT_FILENO + i, &stream.about) != 0 || !is_one_file(&stream, at)) continue;
        if (row->use == TSR_FILE_APPEND && flags & O_APPEND) continue;
        FAIL(ctx, TSR_USAGE, "%s and %s '%s' are one file; expected two%s", names[i], row->flag,
             row->path, is_written(row->use) ? "" : ": the input would be lost");
    }
    return TSR_SUCCESS;
}

/* Returns 0 or an errno. A file that is written whole replaces an existing one, so only the folder
 * counts. */
static int find_denial(const tsr_file *row, const location *at) {
    char folder[PATH_MAX];
    if (row->use == TSR_FILE_APPEND && at->exists) return 0; /* opening the file reports it */
    const char *path = row->use == TSR_FILE_APPEND ? at->path : at->named;
    const char *slash = strrchr(path, '/');
    if (!slash) return 0;
    snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* Checks everything that can be known before the work begins; the error messages are the same as
 * when the file is written. */
static tsr_result check_location(tsr_ctx *ctx, const tsr_file *row, const location *at) {
    if (!is_written(row->use)) return TSR_SUCCESS;
    if (row->use == TSR_FILE_WEIGHTS && tsr_array_says_other(row->path, ".safetensors"))
        FAIL(ctx, TSR_USAGE,
             "%s '%s' has the format '%s', which cannot be written; expected "
             ".safetensors",
             row->flag, row->path, strrchr(row->path, '.'));
    if (at->exists && S_ISDIR(at->about.st_mode))
        FAIL(ctx, TSR_IO, "cannot write '%s': it is a directory; expected a file", row->path);
    if (at->exists && !S_ISREG(at->about.st_mode) && row->use != TSR_FILE_APPEND)
        FAIL(ctx, TSR_IO, "cannot write '%s': it is not a regular file; expected a file",
             row->path);
    int denied = at->folder_error ? at->folder_error : find_denial(row, at);
    if (denied) FAIL_ERRNO(ctx, TSR_IO, denied, "cannot write '%s'", row->path);
    return TSR_SUCCESS;
}

static tsr_result check_all(tsr_ctx *ctx, const tsr_files *files, const location *locations) {
    for (size_t i = 0; i < files->count; i++) {
        const tsr_file *row = &files->rows[i];
        TRY(ctx, check_streams(ctx, row, &locations[i]));
        for (size_t k = 0; k < i; k++) {
            const tsr_file *other = &files->rows[k];
            TRY(ctx, check_pair(ctx, other, &locations[k], row, &locations[i]));
            if (holds_data(other, &locations[k]) || other->use == TSR_FILE_FOLDER)
                TRY(ctx, check_pair(ctx, row, &locations[i], other, &locations[k]));
        }
    }
    for (size_t i = 0; i < files->count; i++)
        TRY(ctx, check_location(ctx, &files->rows[i], &locations[i]));
    return TSR_SUCCESS;
}

tsr_result tsr_files_check(tsr_ctx *ctx, const tsr_files *files) {
    location *locations = malloc((files->count + 1) * sizeof *locations);
    if (!locations) FAIL(ctx, TSR_MEMORY, "no memory for the paths of %zu files", files->count);
    for (size_t i = 0; i < files->count; i++) locate(files->rows[i].path, &locations[i]);
    tsr_result result = check_all(ctx, files, locations);
    free(locations);
    return result;
}
