/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/run/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40 };

/* Where a path leads. */
typedef struct place {
    char path[PATH_MAX]; /* absolute, without links; "" where its folder is not there */
    bool exists;
    struct stat about; /* where it exists */
} place;

/* "a/b" with "c" beside it: "a/c"; an absolute one stays. False where it is too long. */
static bool join(const char *beside, const char *name, char out[static PATH_MAX]) {
    const char *slash = strrchr(beside, '/');
    int folder = slash && name[0] != '/' ? (int)(slash - beside) + 1 : 0;
    int length = snprintf(out, PATH_MAX, "%.*s%s", folder, beside, name);
    return length >= 0 && length < PATH_MAX;
}

/* A file that is not there yet: its folder, and its name in it. */
static void locate_new(const char *path, place *out_place) {
    char copy[PATH_MAX], folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(copy, sizeof copy, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (!realpath(copy[0] ? copy : "/", folder)) return;
    size_t length = strlen(folder), more = strlen(name);
    if (length + more + 2 > PATH_MAX) return;
    memcpy(out_place->path, folder, length);
    out_place->path[length] = '/';
    memcpy(out_place->path + length + 1, name, more + 1);
}

static void locate(const char *path, place *out_place) {
    char at[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
    *out_place = (place){0};
    if (strlen(path) >= sizeof at) return;
    strcpy(at, path);
    /* A link to nothing is followed, as who opens it does. */
    for (int i = 0; i < LINKS_MAX; i++) {
        if (realpath(at, out_place->path)) {
            out_place->exists = stat(at, &out_place->about) == 0;
            return;
        }
        ssize_t length = readlink(at, target, sizeof target - 1);
        if (length < 0) break;
        target[length] = 0;
        if (!join(at, target, next)) break;
        strcpy(at, next);
    }
    out_place->path[0] = 0;
    locate_new(at, out_place);
}

static bool is_same(const place *a, const place *b) {
    if (a->exists && !S_ISREG(a->about.st_mode)) return false;
    if (a->path[0] && strcmp(a->path, b->path) == 0) return true;
    return a->exists && b->exists && a->about.st_dev == b->about.st_dev &&
           a->about.st_ino == b->about.st_ino;
}

tsr_result tsr_run_check_outputs(tsr_ctx *ctx, const tsr_run_output *outputs, size_t count) {
    tsr_result result = TSR_SUCCESS;
    place *places = malloc((count + 1) * sizeof *places);
    if (!places) FAIL(ctx, TSR_MEMORY, "no memory for the paths of %zu files", count);
    for (size_t i = 0; i < count; i++) {
        const tsr_run_output *output = &outputs[i];
        if (!output->path) continue;
        locate(output->path, &places[i]);
        for (size_t k = 0; k < i; k++) {
            const tsr_run_output *other = &outputs[k];
            if (!other->path || strcmp(other->flag, output->flag) == 0 ||
                (other->read_only && output->read_only) || !is_same(&places[k], &places[i]))
                continue;
            FAIL_GOTO(ctx, result, TSR_USAGE, "%s '%s' and %s '%s' are one file; expected two%s",
                      other->flag, other->path, output->flag, output->path,
                      other->read_only || output->read_only ? ": what is read would be lost" : "");
        }
    }
done:
    free(places);
    return result;
}
